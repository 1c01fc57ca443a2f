/*
 * counters.h - counters of hosts that rose during runs, from their records.
 */
#ifndef BB_ACCEPTANCE_COUNTERS_H
#define BB_ACCEPTANCE_COUNTERS_H

#include "acceptance/records.h"
#include "core/strbuf.h"
#include "topology/probes/counters.h"

/* A counter of a host that rose. */
struct bb_rise {
	enum bb_counter_class class;
	const char *host, *device, *counter; /* the record's */
	int64_t by;                          /* in all runs together; above 0 */
};

struct bb_rises {             /* zero-initialise; free the list */
	struct bb_rise *list; /* each counter once: the gravest class first, then by name */
	size_t n, room;
};

/* Add the counters of RECORDS that mean trouble, so neither frequencies nor traffic. Returns false
   without memory. */
BB_MUST bool bb_rises_add(struct bb_rises *rises, const struct bb_records *records);
/* Whether RISES have the counter of ONE. */
bool bb_rises_have(const struct bb_rises *rises, const struct bb_rise *one);

/* "node17 mlx5_0:1 symbol_error" */
void bb_rise_name(const struct bb_rise *rise, struct bb_strbuf *out);

#endif
