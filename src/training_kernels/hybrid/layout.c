#include "training_kernels/hybrid/layout.h"

#include <stddef.h>
#include <stdint.h>

const char *const bb_grid_order_names[] = {"tp-pp-dp", "tp-dp-pp", NULL};

int bb_grid_ranks(const struct bb_grid *grid)
{
	return grid->tp * grid->pp * grid->dp;
}

int bb_grid_expert_ranks(const struct bb_grid *grid)
{
	return grid->ep * grid->tp / grid->etp;
}

/* The members of a group along an axis, and the ranks between two neighbours. */
struct axis {
	int size, stride;
};

static struct axis axis_of(const struct bb_grid *g, enum bb_axis axis)
{
	const bool data_outside = g->order == BB_GRID_TP_PP_DP;
	const int replica = data_outside ? g->tp * g->pp : g->tp; /* to the next one */

	const struct axis axes[BB_AXES] = {
		[BB_AXIS_TP] = {g->tp, 1},
		[BB_AXIS_PP] = {g->pp, data_outside ? g->tp : g->tp * g->dp},
		[BB_AXIS_DP] = {g->dp, replica},
		[BB_AXIS_EP] = {g->ep, replica},
		[BB_AXIS_EDP] = {g->dp / g->ep, replica * g->ep},
		[BB_AXIS_CP] = {g->cp, replica},
	};

	return axes[axis];
}

int bb_grid_size(const struct bb_grid *grid, enum bb_axis axis)
{
	return axis_of(grid, axis).size;
}

int bb_grid_groups(const struct bb_grid *grid, enum bb_axis axis)
{
	return bb_grid_ranks(grid) / bb_grid_size(grid, axis);
}

int bb_grid_place(const struct bb_grid *grid, enum bb_axis axis, int rank)
{
	const struct axis a = axis_of(grid, axis);

	return rank / a.stride % a.size;
}

int bb_grid_group(const struct bb_grid *grid, enum bb_axis axis, int rank)
{
	const struct axis a = axis_of(grid, axis);

	return rank / (a.stride * a.size) * a.stride + rank % a.stride;
}

int bb_grid_member(const struct bb_grid *grid, enum bb_axis axis, int group, int i)
{
	const struct axis a = axis_of(grid, axis);

	return group / a.stride * a.stride * a.size + i * a.stride + group % a.stride;
}

int bb_grid_crossing(const struct bb_grid *grid, enum bb_axis axis, int node)
{
	const int last = bb_grid_size(grid, axis) - 1, groups = bb_grid_groups(grid, axis);
	int crossing = 0;

	/* Members ascend, so the first and the last suffice. */
	for (int g = 0; g < groups; g++)
		crossing += bb_grid_member(grid, axis, g, 0) / node !=
			    bb_grid_member(grid, axis, g, last) / node;
	return crossing;
}

bool bb_grid_crosses(const struct bb_grid *grid, enum bb_axis axis, int node)
{
	const struct axis a = axis_of(grid, axis);
	const int block = a.size * a.stride, blocks = bb_grid_ranks(grid) / block;

	/* Groups interleave in blocks of ranks; one crosses wherever a node ends within a block,
	   and NODE blocks on, all is as before. */
	for (int i = 0; a.size > 1 && i < blocks && i < node; i++)
		if ((int64_t)i * block / node != (((int64_t)i + 1) * block - 1) / node)
			return true;
	return false;
}
