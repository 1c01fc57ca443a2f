/*
 * costs.h - what is told of results in virtual time: how they were costs,
 * what that took, and what a fault costs.
 */
#ifndef BB_HARNESS_RESULTS_COSTS_H
#define BB_HARNESS_RESULTS_COSTS_H

#include "core/strbuf.h"
#include "harness/results/sink.h"

struct bb_costs; /* the results so far */

BB_MUST bb_status bb_costs_open(struct bb_costs **costs);
void bb_costs_close(struct bb_costs *costs); /* NULL: nothing */

/* Keep what is needed of RESULT, in virtual time, and what it took: PROCESSOR seconds of
   one play, and the most MEMORY, in bytes, that the process had taken by then. BB_EINTERNAL without
   memory. */
BB_MUST bb_status bb_costs_add(struct bb_costs *costs, const struct bb_result_record *result,
			       double processor, int64_t memory);

/* A record of the cost of each result. What the sinks say. */
BB_MUST bb_status bb_costs_record(const struct bb_costs *costs, struct bb_sinks *sinks);

/* Append '#' lines: by what each algorithm was costs and, with FAULT (NULL: none), the times out
   of place (in place where there is no other) without it and with it. */
void bb_costs_text(const struct bb_costs *costs, const char *fault, struct bb_strbuf *out);

#endif
