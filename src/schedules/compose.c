/*
 * compose.c - collectives made of two others, one after the other.
 */
#include "schedules/parts.h"

/* ---- all_reduce = reduce + broadcast ---------------------------------------------------- */

static void reduce_broadcast_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_tree_prepare(bb_tree_of(role), shape->nranks, rank, 0, shape->count, shape->chunk);
	bb_role_fill(role, rank, 2 * bb_tree_rounds(bb_tree_of(role)));
}

static void reduce_broadcast_round(const struct bb_shape *shape, const struct bb_role *role,
				   size_t round, struct bb_writer *w)
{
	const struct bb_tree *tree = bb_tree_in(role);
	struct bb_place out = bb_at(BB_OUT, 0);
	size_t up = bb_tree_rounds(tree);

	if (round < up)
		bb_tree_up(w, tree, round, bb_at(BB_IN, 0), out, false, false);
	else
		bb_tree_down(w, tree, round - up, out, out);
}

const struct bb_algorithm bb_reduce_broadcast_all_reduce = {
	.name = "reduce+broadcast",
	.collective = &bb_all_reduce,
	.meaning = "Everything is reduced to rank 0 on the double binary tree, and only then "
		   "broadcast from it.",
	.prepare = reduce_broadcast_prepare,
	.round = reduce_broadcast_round,
};

/* ---- all_gather = gather + broadcast ---------------------------------------------------- */

static void gather_broadcast_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	int n = shape->nranks;

	bb_tree_prepare(bb_tree_of(role), n, rank, 0, shape->count * (size_t)n, shape->chunk);
	bb_role_fill(role, rank, (size_t)n - 1 + bb_tree_rounds(bb_tree_of(role)));
}

static void gather_broadcast_round(const struct bb_shape *shape, const struct bb_role *role,
				   size_t round, struct bb_writer *w)
{
	struct bb_blocks blocks = bb_blocks_within(0, shape->count, shape->count);
	struct bb_place out = bb_at(BB_OUT, 0);
	size_t others = (size_t)shape->nranks - 1;

	if (!round && !role->rank && !shape->in_place)
		bb_copy(w, bb_at(BB_IN, 0), out, shape->count, false);
	if (round < others)
		bb_linear_gather_part(w, shape->nranks, role->rank, 0, round, &blocks, out, false);
	else
		bb_tree_down(w, bb_tree_in(role), round - others, out, out);
}

const struct bb_algorithm bb_gather_broadcast_all_gather = {
	.name = "gather+broadcast",
	.collective = &bb_all_gather,
	.meaning = "Rank 0 gathers the blocks directly, one after the other, and broadcasts all of "
		   "them on the double binary tree.",
	.prepare = gather_broadcast_prepare,
	.round = gather_broadcast_round,
};

/* ---- all_reduce = reduce_scatter + all_gather ------------------------------------------- */

static void reduce_scatter_all_gather_round(const struct bb_shape *shape,
					    const struct bb_role *role, size_t round,
					    struct bb_writer *w)
{
	int n = shape->nranks, rank = role->rank;
	struct bb_blocks blocks = bb_blocks_of(0, shape->count, n);
	struct bb_place own = bb_at(BB_OUT, bb_block_start(&blocks, rank));
	size_t others = (size_t)n - 1;

	if (round < others)
		bb_pairwise_reduce_scatter_part(w, n, rank, round, &blocks, own, false);
	else
		bb_pairwise_all_gather_part(w, n, rank, round - others, &blocks, own);
}

const struct bb_algorithm bb_reduce_scatter_all_gather_all_reduce = {
	.name = "reduce_scatter+all_gather",
	.collective = &bb_all_reduce,
	.meaning = "Every rank collects and adds up one n-th of the data directly from all others, "
		   "then sends that n-th directly to all others.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = bb_prepare_twice_others,
	.round = reduce_scatter_all_gather_round,
};

/* ---- broadcast = scatter + all_gather --------------------------------------------------- */

static void scatter_all_gather_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, (size_t)bb_log2_up(shape->nranks) + (size_t)shape->nranks - 1);
}

static void scatter_all_gather_round(const struct bb_shape *shape, const struct bb_role *role,
				     size_t round, struct bb_writer *w)
{
	int n = shape->nranks, rank = role->rank;
	struct bb_blocks blocks = bb_blocks_of(0, shape->count, n);
	size_t depth = (size_t)bb_log2_up(n), start = bb_block_start(&blocks, rank);
	bool root = rank == shape->root;
	struct bb_place own = bb_at(BB_OUT, start), top = bb_at(BB_IN, start);
	struct bb_binomial scatter = {.n = n,
				      .rank = rank,
				      .root = shape->root,
				      .blocks = blocks,
				      .top = bb_at(BB_IN, 0),
				      .own = own,
				      .held = bb_at(BB_OUT, 0),
				      .natural = true};

	if (round < depth)
		bb_binomial_scatter(w, &scatter, round);
	else
		bb_ring_all_gather_part(w, n, rank, round - depth, &blocks, root ? top : own);
	if (!round && root && !shape->in_place)
		bb_copy(w, top, own, bb_block_count(&blocks, rank), true);
}

const struct bb_algorithm bb_scatter_all_gather_broadcast = {
	.name = "scatter+all_gather",
	.collective = &bb_broadcast,
	.meaning = "The root scatters n parts of its data on a binomial tree, then the ranks pass "
		   "the parts around the ring until all have all.",
	.prepare = scatter_all_gather_prepare,
	.round = scatter_all_gather_round,
};
