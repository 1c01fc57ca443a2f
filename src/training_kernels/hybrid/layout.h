/*
 * layout.h - which rank does what where training is divided in several ways at once: tensor,
 * pipeline, data and expert parallelism. Pure arithmetic.
 *
 * Tensor ranks are next to each other, so that a tensor group lies within a node. Outside of them
 * come the stages and then the replicas (tp-pp-dp: a replica is a block of ranks, as BLOOM was
 * trained), or the replicas and then the stages (tp-dp-pp: as Megatron-LM and DeepSpeed have it
 * unless told otherwise). Experts are divided among EP replicas in a row, in Megatron-LM's way: the
 * same experts are on dp / ep ranks.
 *
 * Along each axis a rank has a coordinate, rank / stride % size; the ranks that differ in it alone
 * are a group.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_LAYOUT_H
#define BB_TRAINING_KERNELS_HYBRID_LAYOUT_H

#include <stdbool.h>

enum bb_grid_order { BB_GRID_TP_PP_DP, BB_GRID_TP_DP_PP };
extern const char *const bb_grid_order_words[]; /* ends with NULL */

enum bb_axis {
	BB_AXIS_TP,
	BB_AXIS_PP,
	BB_AXIS_DP,
	BB_AXIS_EP,  /* among whom experts are divided */
	BB_AXIS_EDP, /* who holds the same experts */
	BB_AXES
};
extern const char *const bb_axis_words[BB_AXES];

/* All at least 1; ep divides dp. */
struct bb_grid {
	int tp, pp, dp, ep;
	enum bb_grid_order order;
};

int bb_grid_ranks(const struct bb_grid *grid);

/* Members of a group along AXIS, and how many such groups there are. */
int bb_grid_size(const struct bb_grid *grid, enum bb_axis axis);
int bb_grid_groups(const struct bb_grid *grid, enum bb_axis axis);

/* RANK's place in its group along AXIS; the number of that group, which ascends with the lowest of
   its ranks; and member I of GROUP. */
int bb_grid_place(const struct bb_grid *grid, enum bb_axis axis, int rank);
int bb_grid_group(const struct bb_grid *grid, enum bb_axis axis, int rank);
int bb_grid_member(const struct bb_grid *grid, enum bb_axis axis, int group, int i);

/* Groups along AXIS whose members are not all on one of the nodes of NODE ranks each. */
int bb_grid_crossing(const struct bb_grid *grid, enum bb_axis axis, int node);

#endif
