/*
 * openmpi_trees.c - the trees of Open MPI's coll/base (coll_base_topo.c). Ranks are counted from
 * the root. In a round of a broadcast, ranks of one level send the whole data to one of their
 * children.
 */
#include "schedules/parts.h"
#include "simulator/openmpi.h"

#define RADIX 4 /* coll_tuned_bcast_knomial_radix */

/* The rank's edge of a round: it sends to CHILD or receives from PARENT, BB_NO_PEER: neither. */
static void edge_perform(struct bb_writer *w, const struct bb_shape *shape, int rank, int child,
			 int parent)
{
	const int n = shape->nranks;
	const struct bb_place out = bb_at(BB_OUT, 0);

	if (child != BB_NO_PEER && child < n)
		bb_send(w, bb_wrap(child + shape->root, n),
			rank == shape->root ? bb_at(BB_IN, 0) : out, shape->count);
	if (parent != BB_NO_PEER)
		bb_recv(w, bb_wrap(parent + shape->root, n), out, shape->count, false);
}

/* ---- binary: the children of rank v are 2v + 1 and 2v + 2 ------------------------------------ */

static void binary_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, 2 * (size_t)bb_log2_down(shape->nranks));
}

static void binary_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	const int self = bb_wrap(role->rank - shape->root, shape->nranks);
	const int depth = bb_log2_down(self + 1), level = (int)round / 2, side = (int)round % 2;
	const bool receives = depth == level + 1 && (self - 1) % 2 == side;

	edge_perform(w, shape, role->rank, depth == level ? 2 * self + 1 + side : BB_NO_PEER,
		     receives ? (self - 1) / 2 : BB_NO_PEER);
	if (!self && !round)
		bb_copy_over(w, shape, 0, shape->count);
}

const struct bb_algorithm bb_openmpi_binary_broadcast = {
	.name = "binary_tree",
	.collective = &bb_broadcast,
	.meaning = "A binary tree: a rank that has the data sends all of it to two others.",
	.fan = 2,
	.prepare = binary_prepare,
	.round = binary_round,
};

/* ---- 4-nomial: the parent of v has v's lowest digit that is not 0 set to 0 ------------------- */

/* Levels: the least number of digits that number N ranks. */
static int digits_of(int n)
{
	return (bb_log2_up(n) + 1) / 2;
}

static void knomial_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, (RADIX - 1) * (size_t)digits_of(shape->nranks));
}

static void knomial_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			  struct bb_writer *w)
{
	const int n = shape->nranks, self = bb_wrap(role->rank - shape->root, n);
	const int level = (int)round / (RADIX - 1), digit = 1 + (int)round % (RADIX - 1);
	const int unit = 1 << 2 * (digits_of(n) - 1 - level), low = self % (RADIX * unit);

	edge_perform(w, shape, role->rank, low == 0 ? self + digit * unit : BB_NO_PEER,
		     low == digit * unit ? self - low : BB_NO_PEER);
	if (!self && !round)
		bb_copy_over(w, shape, 0, shape->count);
}

const struct bb_algorithm bb_openmpi_knomial_broadcast = {
	.name = "knomial",
	.collective = &bb_broadcast,
	.meaning = "A 4-nomial tree: every rank that has the data sends all of it to three that "
		   "have not, level by level.",
	.fan = RADIX - 1,
	.prepare = knomial_prepare,
	.round = knomial_round,
};

/* ---- binomial, in order: the parent of v has v's lowest bit set to 0 --------------------------
 */

static size_t binomial_tmp(const struct bb_shape *shape, int rank)
{
	const int self = bb_wrap(rank - shape->root, shape->nranks);

	return self > 0 && self % 2 == 0 && self + 1 < shape->nranks ? shape->count : 0;
}

static void binomial_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	const int n = shape->nranks, self = bb_wrap(role->rank - shape->root, n);
	const int bit = 1 << round, low = self % (2 * bit);
	const struct bb_place in = bb_at(BB_IN, 0), sum = bb_at(self ? BB_TMP : BB_OUT, 0);
	/* A rank without a child at distance 1 has none. */
	const bool summed = round > 0 && self % 2 == 0 && self + 1 < n;

	if (low == bit)
		bb_send(w, bb_wrap(role->rank - bit + n, n), summed ? sum : in, shape->count);
	else if (low == 0 && self + bit < n)
		bb_add(w, bb_wrap(role->rank + bit, n), summed ? sum : in, sum, shape->count,
		       !self && 2 * bit >= n);
}

const struct bb_algorithm bb_openmpi_binomial_reduce = {
	.name = "binomial",
	.collective = &bb_reduce,
	.meaning = "A binomial tree whose near ranks add first: in round k, ranks 2^k apart.",
	.tmp_count = binomial_tmp,
	.prepare = bb_prepare_log,
	.round = binomial_round,
};
