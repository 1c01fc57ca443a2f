/*
 * cost.h - the cost of a division, for the search of plan.c and its tables.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_COST_H
#define BB_TRAINING_KERNELS_HYBRID_COST_H

#include "training_kernels/hybrid/plan.h"

/* Ranks that divide each sequence, at least 1. */
uint64_t bb_hybrid_context(const struct bb_hybrid_division *division);

/* Computes what leaves nodes of NODE ranks. */
void bb_hybrid_cross(struct bb_hybrid_division *division, int node);

/* Computes volumes and cost of DIVISION, whose crossings are known. ORDERS as in bb_bubble_find: an
   order is searched only if the step may take at most MOST seconds; else it is a bound. */
void bb_hybrid_cost_find(struct bb_hybrid_division *division,
			 const struct bb_hybrid_cluster *cluster, struct bb_bubble_orders *orders,
			 double most);

/* The pipeline of DIVISION, without times. */
struct bb_bubble_form bb_hybrid_bubble(const struct bb_hybrid_division *division);

#endif
