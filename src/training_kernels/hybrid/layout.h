/*
 * layout.h - the grid of ranks of hybrid-parallel training: tensor, pipeline, data and expert
 * parallelism. Pure arithmetic.
 *
 * Tensor ranks are neighbours, so that a tensor group lies within a node. Next are the stages and
 * then the replicas (tp-pp-dp: a replica is a block of ranks, as in BLOOM's training), or the
 * replicas and then the stages (tp-dp-pp, the default of Megatron-LM and DeepSpeed). Experts are
 * divided among ep consecutive replicas, as in Megatron-LM: the same experts are on dp / ep ranks.
 *
 * Along each axis a rank has a coordinate, rank / stride % size; ranks that differ in it alone form
 * a group.
 */
#pragma once

#include <stdbool.h>

enum bb_grid_order { BB_GRID_TP_PP_DP, BB_GRID_TP_DP_PP };
extern const char *const bb_grid_order_names[]; /* ends with NULL */

enum bb_axis {
	BB_AXIS_TP,
	BB_AXIS_PP,
	BB_AXIS_DP,
	BB_AXIS_EP,  /* ranks that divide the experts */
	BB_AXIS_EDP, /* ranks with the same experts */
	BB_AXIS_CP,  /* ranks that divide a sequence: consecutive members along DP */
	BB_AXES
};

/* All at least 1; ep and cp divide dp, and etp divides ep times tp. */
struct bb_grid {
	int tp, pp, dp, ep;
	enum bb_grid_order order;
	int cp;
	int etp; /* ranks that divide each expert; tp where experts are not divided anew */
};

int bb_grid_ranks(const struct bb_grid *grid);

/* Ranks that together have all experts, and exchange rows. */
int bb_grid_expert_ranks(const struct bb_grid *grid);

/* Members of a group along AXIS, and the number of such groups. */
int bb_grid_size(const struct bb_grid *grid, enum bb_axis axis);
int bb_grid_groups(const struct bb_grid *grid, enum bb_axis axis);

/* The place of RANK in its group along AXIS; the number of that group, in the order of lowest
   ranks; member I of GROUP. */
int bb_grid_place(const struct bb_grid *grid, enum bb_axis axis, int rank);
int bb_grid_group(const struct bb_grid *grid, enum bb_axis axis, int rank);
int bb_grid_member(const struct bb_grid *grid, enum bb_axis axis, int group, int i);

/* Whether any group along AXIS has members on several nodes, of NODE ranks each. */
bool bb_grid_crosses(const struct bb_grid *grid, enum bb_axis axis, int node);

/* Groups along AXIS with members on several nodes, of NODE ranks each. */
int bb_grid_crossing(const struct bb_grid *grid, enum bb_axis axis, int node);
