/*
 * explain.h - prints a schedule so that a student can follow it.
 */
#ifndef BB_SCHEDULES_EXPLAIN_H
#define BB_SCHEDULES_EXPLAIN_H

#include "core/status.h"
#include "core/strbuf.h"
#include "schedules/schedule.h"

/*
 * Append to OUT: what the collective gives, what the algorithm does, then per round a table of
 * who sends which chunk to whom, what every rank holds afterwards, and at the end the count of
 * rounds, messages and bytes against the least possible. Rank r's IN holds 0, 1, 2, … in every
 * element index for reducing collectives, so that sums can be checked by head (reduce-scatter of
 * four ranks that each hold [0, 1, 2, 3] ends in 0, 4, 8, 12).
 */
BB_MUST bb_status bb_explain(struct bb_strbuf *out, const struct bb_algorithm *algorithm,
			     const struct bb_shape *shape, struct bb_error *error);

/* Append docs/algorithms.md: what every algorithm means for its collective, rounds and volumes. */
void bb_document_algorithms(struct bb_strbuf *out);

#endif
