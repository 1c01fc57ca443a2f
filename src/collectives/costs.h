/*
 * costs.h - results in virtual time: the evaluator of each, its interval, and the cost of a fault.
 */
#ifndef BB_COLLECTIVES_COSTS_H
#define BB_COLLECTIVES_COSTS_H

#include "core/strbuf.h"
#include "collectives/result.h"
#include "harness/results/record.h"

struct bb_costs { /* of the results so far; zero-initialise */
	struct bb_cost_row *rows;
	size_t n, room;
};

/* Add RESULT, which is in virtual time. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_costs_add(struct bb_costs *costs, const struct bb_result_record *result);

/* Append '#' lines: the evaluator of each algorithm, the intervals if machines are PREDICTED, and,
   with FAULT (NULL: none), the times out of place (in place if there is no other) without it and
   with it. */
void bb_costs_text(const struct bb_costs *costs, const char *fault, bool predicted,
		   struct bb_strbuf *out);

void bb_costs_free(struct bb_costs *costs);

#endif
