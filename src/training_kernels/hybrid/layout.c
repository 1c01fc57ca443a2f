#include "training_kernels/hybrid/layout.h"

#include <stddef.h>
#include <stdint.h>

const char *const bb_grid_order_names[] = {"tp-pp-dp", "tp-dp-pp", NULL};

int bb_grid_ranks(const struct bb_grid *grid)
{
	return grid->tp * grid->pp * grid->dp;
}

int bb_grid_expert_tensor(const struct bb_grid *grid)
{
	return grid->etp > 0 ? grid->etp : grid->tp;
}

int bb_grid_expert_ranks(const struct bb_grid *grid)
{
	return grid->ep * grid->tp / bb_grid_expert_tensor(grid);
}

int bb_grid_size(const struct bb_grid *grid, enum bb_axis axis)
{
	switch (axis) {
	case BB_AXIS_TP:
		return grid->tp;
	case BB_AXIS_PP:
		return grid->pp;
	case BB_AXIS_DP:
		return grid->dp;
	case BB_AXIS_EP:
		return grid->ep;
	case BB_AXIS_CP:
		return grid->cp > 1 ? grid->cp : 1;
	default:
		return grid->dp / grid->ep;
	}
}

int bb_grid_groups(const struct bb_grid *grid, enum bb_axis axis)
{
	return bb_grid_ranks(grid) / bb_grid_size(grid, axis);
}

/* Ranks between neighbours along AXIS. */
static int stride_of(const struct bb_grid *grid, enum bb_axis axis)
{
	const bool data_outside = grid->order == BB_GRID_TP_PP_DP;

	switch (axis) {
	case BB_AXIS_TP:
		return 1;
	case BB_AXIS_PP:
		return data_outside ? grid->tp : grid->tp * grid->dp;
	case BB_AXIS_EDP:
		return stride_of(grid, BB_AXIS_EP) * grid->ep;
	default:
		return data_outside ? grid->tp * grid->pp : grid->tp;
	}
}

int bb_grid_place(const struct bb_grid *grid, enum bb_axis axis, int rank)
{
	return rank / stride_of(grid, axis) % bb_grid_size(grid, axis);
}

int bb_grid_group(const struct bb_grid *grid, enum bb_axis axis, int rank)
{
	const int stride = stride_of(grid, axis);

	return rank / (stride * bb_grid_size(grid, axis)) * stride + rank % stride;
}

int bb_grid_member(const struct bb_grid *grid, enum bb_axis axis, int group, int i)
{
	const int stride = stride_of(grid, axis);

	return group / stride * stride * bb_grid_size(grid, axis) + i * stride + group % stride;
}

int bb_grid_crossing(const struct bb_grid *grid, enum bb_axis axis, int node)
{
	const int last = bb_grid_size(grid, axis) - 1;
	int crossing = 0;

	/* Members ascend, so the first and the last suffice. */
	for (int g = 0; g < bb_grid_groups(grid, axis); g++)
		crossing += bb_grid_member(grid, axis, g, 0) / node !=
			    bb_grid_member(grid, axis, g, last) / node;
	return crossing;
}

bool bb_grid_crosses(const struct bb_grid *grid, enum bb_axis axis, int node)
{
	const int size = bb_grid_size(grid, axis), block = size * stride_of(grid, axis);
	const int blocks = bb_grid_ranks(grid) / block;

	/* Groups interleave in blocks of ranks; one crosses wherever a node ends within a block,
	   and NODE blocks on, all is as before. */
	for (int i = 0; size > 1 && i < blocks && i < node; i++)
		if ((int64_t)i * block / node != (((int64_t)i + 1) * block - 1) / node)
			return true;
	return false;
}
