/*
 * linear.c - one rank (the root, or rank 0) communicates with all others, one after the other.
 */
#include "schedules/parts.h"

#include <limits.h>

/* The peer of the root in round I. */
static int turn(int n, int root, size_t i)
{
	return bb_wrap(root + 1 + (int)i, n);
}

static void linear_broadcast_part(struct bb_writer *w, int n, int rank, int root, size_t i,
				  struct bb_place top, struct bb_place out, size_t count)
{
	if (rank == root)
		bb_send(w, turn(n, root, i), top, count);
	else if (rank == turn(n, root, i))
		bb_recv(w, root, out, count, true);
}

static void linear_reduce_part(struct bb_writer *w, int n, int rank, int root, size_t i,
			       struct bb_place sum, size_t count, bool final)
{
	struct bb_place in = bb_at(BB_IN, 0);

	if (rank == root)
		bb_add(w, turn(n, root, i), i ? sum : in, sum, count, final && (int)i == n - 2);
	else if (rank == turn(n, root, i))
		bb_send(w, root, in, count);
}

void bb_linear_gather_part(struct bb_writer *w, int n, int rank, int root, size_t i,
			   const struct bb_blocks *blocks, struct bb_place out, bool final)
{
	int who = turn(n, root, i);

	if (rank == root)
		bb_recv(w, who, bb_plus(out, bb_block_start(blocks, who)),
			bb_block_count(blocks, who), final);
	else if (rank == who)
		bb_send(w, root, bb_at(BB_IN, 0), bb_block_count(blocks, who));
}

static void linear_scatter_part(struct bb_writer *w, int n, int rank, int root, size_t i,
				const struct bb_blocks *blocks, struct bb_place top,
				struct bb_place own)
{
	int who = turn(n, root, i);

	if (rank == root)
		bb_send(w, who, bb_plus(top, bb_block_start(blocks, who)),
			bb_block_count(blocks, who));
	else if (rank == who)
		bb_recv(w, root, own, bb_block_count(blocks, who), true);
}

static struct bb_blocks equal_blocks(const struct bb_shape *shape)
{
	return bb_blocks_within(0, shape->count, shape->count);
}

/* The root's own data goes to its place in round 0. */
static void copy_own(struct bb_writer *w, const struct bb_shape *shape, size_t round,
		     struct bb_place from, struct bb_place to, bool final)
{
	if (!round && !shape->in_place)
		bb_copy(w, from, to, shape->count, final);
}

/* ---- rooted collectives ---------------------------------------------------------------- */

static void broadcast_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			    struct bb_writer *w)
{
	struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);

	linear_broadcast_part(w, shape->nranks, role->rank, shape->root, round, in, out,
			      shape->count);
	if (role->rank == shape->root)
		copy_own(w, shape, round, in, out, true);
}

const struct bb_algorithm bb_linear_broadcast = {
	.name = "linear",
	.collective = &bb_broadcast,
	.meaning = "The root sends all of its data to every other rank, one after the other.",
	.fan = INT_MAX,
	.prepare = bb_prepare_others,
	.round = broadcast_round,
};

static void reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	linear_reduce_part(w, shape->nranks, role->rank, shape->root, round, bb_at(BB_OUT, 0),
			   shape->count, true);
}

const struct bb_algorithm bb_linear_reduce = {
	.name = "linear",
	.collective = &bb_reduce,
	.meaning = "Every rank sends all of its data to the root, which adds one after the other.",
	.prepare = bb_prepare_others,
	.round = reduce_round,
};

static void gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	struct bb_blocks blocks = equal_blocks(shape);

	bb_linear_gather_part(w, shape->nranks, role->rank, shape->root, round, &blocks,
			      bb_at(BB_OUT, 0), true);
	if (role->rank == shape->root)
		copy_own(w, shape, round, bb_at(BB_IN, 0),
			 bb_at(BB_OUT, bb_block_start(&blocks, role->rank)), true);
}

const struct bb_algorithm bb_linear_gather = {
	.name = "linear",
	.collective = &bb_gather,
	.meaning = "Every rank sends its block to the root, which takes one after the other.",
	.prepare = bb_prepare_others,
	.round = gather_round,
};

static void scatter_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			  struct bb_writer *w)
{
	struct bb_blocks blocks = equal_blocks(shape);
	struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);

	linear_scatter_part(w, shape->nranks, role->rank, shape->root, round, &blocks, in, out);
	if (role->rank == shape->root)
		copy_own(w, shape, round, bb_plus(in, bb_block_start(&blocks, role->rank)), out,
			 true);
}

const struct bb_algorithm bb_linear_scatter = {
	.name = "linear",
	.collective = &bb_scatter,
	.meaning = "The root sends every other rank its block, one after the other.",
	.fan = INT_MAX,
	.prepare = bb_prepare_others,
	.round = scatter_round,
};

/* ---- collectives without a root: rank 0 collects, then hands out -------------------------- */

static void all_reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	int n = shape->nranks;
	struct bb_place out = bb_at(BB_OUT, 0);
	size_t others = (size_t)n - 1;

	if (round < others)
		linear_reduce_part(w, n, role->rank, 0, round, out, shape->count, false);
	else
		linear_broadcast_part(w, n, role->rank, 0, round - others, out, out, shape->count);
}

const struct bb_algorithm bb_linear_all_reduce = {
	.name = "linear",
	.collective = &bb_all_reduce,
	.meaning = "A parameter server: every rank sends all of its data to rank 0, which adds it "
		   "up and sends the result back to every rank.",
	.prepare = bb_prepare_twice_others,
	.round = all_reduce_round,
};

static void all_gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	int n = shape->nranks;
	struct bb_blocks blocks = equal_blocks(shape);
	struct bb_place out = bb_at(BB_OUT, 0);
	size_t others = (size_t)n - 1;

	if (!role->rank)
		copy_own(w, shape, round, bb_at(BB_IN, 0), out, false);
	if (round < others)
		bb_linear_gather_part(w, n, role->rank, 0, round, &blocks, out, false);
	else
		linear_broadcast_part(w, n, role->rank, 0, round - others, out, out,
				      shape->count * (size_t)n);
}

const struct bb_algorithm bb_linear_all_gather = {
	.name = "linear",
	.collective = &bb_all_gather,
	.meaning = "Every rank sends its block to rank 0, which sends all of them to every rank.",
	.prepare = bb_prepare_twice_others,
	.round = all_gather_round,
};

static size_t reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	return rank ? 0 : shape->count * (size_t)shape->nranks;
}

static void reduce_scatter_round(const struct bb_shape *shape, const struct bb_role *role,
				 size_t round, struct bb_writer *w)
{
	int n = shape->nranks;
	struct bb_blocks blocks = equal_blocks(shape);
	struct bb_place out = bb_at(BB_OUT, 0), sum = bb_at(BB_TMP, 0);
	size_t others = (size_t)n - 1;

	if (round < others) {
		linear_reduce_part(w, n, role->rank, 0, round, sum, shape->count * (size_t)n,
				   false);
	} else {
		linear_scatter_part(w, n, role->rank, 0, round - others, &blocks, sum, out);
		if (!role->rank && round == others)
			bb_copy(w, sum, out, shape->count, true);
	}
}

const struct bb_algorithm bb_linear_reduce_scatter = {
	.name = "linear",
	.collective = &bb_reduce_scatter,
	.meaning = "Every rank sends all of its data to rank 0, which adds it up and sends every "
		   "rank its block.",
	.tmp_count = reduce_scatter_tmp,
	.prepare = bb_prepare_twice_others,
	.round = reduce_scatter_round,
};
