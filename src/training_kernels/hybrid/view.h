/*
 * view.h - a plan as it is shown: what is compared, why a division is where it is, and records.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_VIEW_H
#define BB_TRAINING_KERNELS_HYBRID_VIEW_H

#include "training_kernels/hybrid/hybrid.h"

#define BB_PLAN_REASON 192
#define BB_PLAN_NAME 64

struct bb_plan_view {
	struct bb_run *run;
	struct bb_strbuf *out;
	const struct bb_hybrid_options *options;
	const struct bb_model *model;
	const struct bb_capacity *capacity;
	struct bb_model_layout layout;
	struct bb_hybrid_cluster cluster;
	double peak; /* FLOPs per second of a rank's GPU; NAN: unknown */
	struct bb_hybrid_space space;
	struct bb_hybrid_plan plan;
};

/* TEXT = "2.52 s more pipeline communication THAN, across nodes": DIVISION compared with OTHER,
   which is ahead of it if it is BEHIND. */
void bb_plan_compare(const struct bb_hybrid_division *division,
		     const struct bb_hybrid_division *other, bool behind, const char *than,
		     char text[BB_PLAN_REASON]);

/* TEXT = why division number I is slower than the best, or the best faster than the second. */
void bb_plan_explain(const struct bb_hybrid_plan *plan, size_t i, char text[BB_PLAN_REASON]);

/* Whether G is the division of --preset. */
bool bb_plan_is_published(const struct bb_plan_view *view, const struct bb_grid *g);

/* TEXT = "dp 8, tp 2, pp 4, cp 2": sizes whose product is the number of ranks; without cp if that
   is 1. */
void bb_plan_name(const struct bb_hybrid_division *division, char text[BB_PLAN_NAME]);

int bb_plan_replicas(const struct bb_hybrid_division *division);
/* Groups of TRAFFIC that cross nodes; of experts on fewer than the tensor ranks all, if any does.
 */
int bb_plan_crossing(const struct bb_plan_view *view, const struct bb_hybrid_division *division,
		     int traffic);
const char *bb_plan_schedule(const struct bb_hybrid_division *division); /* "-": no pipeline */

/* Tokens that a rank trains per second; the FLOPs that it does for them each second, without
   recomputation and without the masked half of attention, which FlashAttention skips. */
double bb_plan_token_rate(const struct bb_plan_view *view,
			  const struct bb_hybrid_division *division);
double bb_plan_flop_rate(const struct bb_plan_view *view,
			 const struct bb_hybrid_division *division);

/* A record of each division to the sinks. */
BB_MUST bb_status bb_plan_write(struct bb_plan_view *view);

#endif
