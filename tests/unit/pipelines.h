/*
 * pipelines.h - orders of passes, and how long they take: worked out in the plainest way, from the
 * lists alone, so that it is an oracle for what evaluates programs.
 */
#ifndef BB_TESTS_PIPELINES_H
#define BB_TESTS_PIPELINES_H

#include "training_kernels/pipeline/order.h"

/* With FIRST_WRAPS only the first of as many microbatches as stages is waited for where it goes
   around. *SPAN = the longest of a stage. Returns the time of the last end. */
double evaluate(const struct bb_order *o, const struct bb_pipeline *p, bool first_wraps,
		double *span);

/* The order of the schedule NAME, which has passed its check; to be freed. */
struct bb_order make_order(const char *name, const struct bb_pipeline *p);

/* Passes of a millisecond, no hop, and memory for twice as many microbatches as stages. */
struct bb_pipeline unit_pipeline(int stages, int microbatches, int chunks);

#endif
