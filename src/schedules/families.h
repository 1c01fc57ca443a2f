/*
 * families.h - the algorithms, by file; for src/schedules alone.
 */
#ifndef BB_SCHEDULES_FAMILIES_H
#define BB_SCHEDULES_FAMILIES_H

#include "schedules/schedule.h"

/* ring.c */
extern const struct bb_algorithm bb_ring_all_reduce, bb_ring_all_gather, bb_ring_reduce_scatter,
	bb_ring_broadcast, bb_ring_reduce, bb_ring_gather, bb_ring_scatter, bb_ring_alltoall,
	bb_ring_alltoallv, bb_ring_sendrecv;

/* tree.c */
extern const struct bb_algorithm bb_tree_all_reduce, bb_tree_broadcast, bb_tree_reduce,
	bb_tree_all_gather, bb_tree_reduce_scatter;

/* binomial.c */
extern const struct bb_algorithm bb_tree_gather, bb_tree_scatter, bb_tree_alltoall,
	bb_tree_alltoallv, bb_tree_sendrecv;

/* doubling.c */
extern const struct bb_algorithm bb_doubling_all_reduce, bb_doubling_all_gather,
	bb_hypercube_hypercube, bb_doubling_broadcast, bb_doubling_reduce;

/* halving.c */
extern const struct bb_algorithm bb_halving_all_reduce, bb_halving_reduce_scatter;

/* bruck.c */
extern const struct bb_algorithm bb_bruck_all_gather, bb_bruck_alltoall;

/* pairwise.c */
extern const struct bb_algorithm bb_pairwise_alltoall, bb_pairwise_alltoallv, bb_naive_alltoall,
	bb_naive_alltoallv, bb_pairwise_reduce_scatter, bb_pairwise_all_gather, bb_naive_all_gather,
	bb_naive_all_reduce, bb_naive_reduce_scatter;

/* linear.c */
extern const struct bb_algorithm bb_linear_broadcast, bb_linear_reduce, bb_linear_gather,
	bb_linear_scatter, bb_linear_all_reduce, bb_linear_all_gather, bb_linear_reduce_scatter;

/* compose.c */
extern const struct bb_algorithm bb_reduce_broadcast_all_reduce, bb_gather_broadcast_all_gather,
	bb_reduce_scatter_all_gather_all_reduce, bb_scatter_all_gather_broadcast;

#endif
