/*
 * pipelines.h - orders of passes, and how long they take: worked out in the plainest way, from the
 * lists alone, so that it is an oracle for what evaluates programs.
 */
#ifndef BB_TESTS_PIPELINES_H
#define BB_TESTS_PIPELINES_H

#include "training_kernels/pipeline/order.h"

/* With FIRST_WRAPS only the first of as many microbatches as stages is waited for where it goes
   around. *SPAN = the longest of a stage. Returns the time of the last end. */
double evaluate(const struct bb_order *o, bool first_wraps, double *span);

/*
 * PEAKS[stage] = the most activations that the stage holds, in units of what F of all its chunks
 * leaves of one microbatch (M_B): F adds its share, B leaves kept_w of it and W nothing
 * (arXiv 2401.10241, 2.3).
 */
void order_memory(const struct bb_order *o, double *peaks);

/* The order of the schedule NAME, which has passed its check; to be freed. */
struct bb_order make_order(const char *name, const struct bb_pipeline *p);

/* Passes of a millisecond, no hop, and memory for twice as many microbatches as stages. */
struct bb_pipeline unit_pipeline(int stages, int microbatches, int chunks);

#endif
