/*
 * openmpi_trees.c - the trees of Open MPI's coll/base (coll_base_topo.c) down which it broadcasts.
 * Ranks are counted from the root; every round passes the whole data one level further.
 */
#include "schedules/parts.h"
#include "simulator/openmpi.h"

#define RADIX 4 /* coll_tuned_bcast_knomial_radix */

struct level {
	int parent;   /* BB_NO_PEER: none sends to this rank in this round */
	int children; /* that it sends to in this round */
	int child[RADIX];
};

static void level_perform(struct bb_writer *w, const struct bb_shape *shape, int rank,
			  const struct level *level, bool last)
{
	const int n = shape->nranks;
	const struct bb_place out = bb_at(BB_OUT, 0);
	const struct bb_place from = rank == shape->root ? bb_at(BB_IN, 0) : out;

	for (int i = 0; i < level->children; i++)
		bb_send(w, bb_wrap(level->child[i] + shape->root, n), from, shape->count);
	if (level->parent != BB_NO_PEER)
		bb_recv(w, bb_wrap(level->parent + shape->root, n), out, shape->count, last);
}

/* ---- binary: the children of rank v are 2v + 1 and 2v + 2 ------------------------------------ */

static void binary_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, (size_t)bb_log2_down(shape->nranks));
}

static void binary_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	const int n = shape->nranks, self = bb_wrap(role->rank - shape->root, n);
	const size_t depth = (size_t)bb_log2_down(self + 1);
	struct level level = {.parent = depth == round + 1 ? (self - 1) / 2 : BB_NO_PEER};

	for (int child = 2 * self + 1; depth == round && child <= 2 * self + 2 && child < n;
	     child++)
		level.child[level.children++] = child;
	level_perform(w, shape, role->rank, &level, 2 * self + 1 >= n);
	if (!self && !round)
		bb_copy_over(w, shape, 0, shape->count);
}

const struct bb_algorithm bb_openmpi_binary_broadcast = {
	.name = "binary_tree",
	.collective = &bb_broadcast,
	.meaning = "A binary tree: a rank that has the data sends all of it to two others.",
	.prepare = binary_prepare,
	.round = binary_round,
};

/* ---- 4-nomial: the parent of v has v's lowest digit that is not 0 set to 0 ------------------- */

/* Rounds: the least number of digits that number N ranks. */
static int digits_of(int n)
{
	return (bb_log2_up(n) + 1) / 2;
}

static void knomial_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, (size_t)digits_of(shape->nranks));
}

static void knomial_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			  struct bb_writer *w)
{
	const int n = shape->nranks, self = bb_wrap(role->rank - shape->root, n);
	const int unit = 1 << 2 * (digits_of(n) - 1 - (int)round);
	struct level level = {.parent = BB_NO_PEER};

	if (self % unit == 0 && self % (RADIX * unit) != 0)
		level.parent = self - self % (RADIX * unit);
	for (int i = 1; self % (RADIX * unit) == 0 && i < RADIX && self + i * unit < n; i++)
		level.child[level.children++] = self + i * unit;
	level_perform(w, shape, role->rank, &level, unit == 1 || self + 1 >= n);
	if (!self && !round)
		bb_copy_over(w, shape, 0, shape->count);
}

const struct bb_algorithm bb_openmpi_knomial_broadcast = {
	.name = "knomial",
	.collective = &bb_broadcast,
	.meaning = "A 4-nomial tree: in each round every rank that has the data sends all of it to "
		   "three that have not.",
	.prepare = knomial_prepare,
	.round = knomial_round,
};
