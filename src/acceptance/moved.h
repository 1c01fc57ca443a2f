/*
 * moved.h - counters of hosts that rose during runs, from their records.
 */
#ifndef BB_ACCEPTANCE_MOVED_H
#define BB_ACCEPTANCE_MOVED_H

#include "acceptance/records.h"
#include "core/strbuf.h"
#include "topology/probes/counters.h"

struct bb_moved {
	const char *host, *device, *counter; /* the record's */
	enum bb_counter_class class;
	int64_t moved; /* in all runs together; above 0 */
};

struct bb_moved_list {         /* zero-initialise */
	struct bb_moved *list; /* by name, each once */
	size_t n, room;
};

/* Adds those of RECORDS that mean trouble: no frequency, no traffic. False: no memory. */
BB_MUST bool bb_moved_add(struct bb_moved_list *moved, const struct bb_records *records);
/* Whether there is the same counter of the same host. */
bool bb_moved_has(const struct bb_moved_list *moved, const struct bb_moved *one);
/* The one after AT (NULL: the first), the gravest class first, then by name. NULL: AT was the last.
 */
const struct bb_moved *bb_moved_next(const struct bb_moved_list *moved, const struct bb_moved *at);
void bb_moved_free(struct bb_moved_list *moved);

/* "node17 mlx5_0:1 symbol_error" */
void bb_moved_name(const struct bb_moved *moved, struct bb_strbuf *out);

#endif
