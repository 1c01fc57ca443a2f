/*
 * binomial.c - gather and scatter of blocks on a binomial tree: rank v, counted from the root,
 * serves the ranks v to v + 2^k - 1, where 2^k is the lowest bit of v.
 */
#include "schedules/parts.h"

/* Where rank K's block begins among all blocks. */
static size_t start_of(const struct bb_binomial *b, int k)
{
	size_t start = 0;

	if (!b->row)
		return bb_block_start(&b->blocks, k);
	for (int i = 0; i < k; i++)
		start += b->row[i];
	return start;
}

/* Elements of the blocks of ranks [from, to), counted from the root. */
static size_t count_of(const struct bb_binomial *b, int from, int to)
{
	int first = from + b->root, end = to + b->root;

	if (first >= b->n)
		return start_of(b, end - b->n) - start_of(b, first - b->n);
	if (end <= b->n)
		return start_of(b, end) - start_of(b, first);
	return start_of(b, b->n) - start_of(b, first) + start_of(b, end - b->n) - start_of(b, 0);
}

/* Where HOLDER keeps the block of K, itself or a rank below it; both are counted from the root. */
static struct bb_place place_of(const struct bb_binomial *b, int holder, int k)
{
	size_t start = start_of(b, bb_wrap(k + b->root, b->n));

	if (!holder)
		return bb_plus(b->top, start);
	if (k == holder)
		return b->own;
	return bb_plus(b->held, b->natural ? start : count_of(b, holder + 1, k));
}

struct edge {
	int upper, lower;
	bool down;
};

/* Send or receive the blocks [from, to) over EDGE, in one message. */
static void cross(struct bb_writer *w, const struct bb_binomial *b, const struct edge *edge,
		  int from, int to)
{
	int self = bb_wrap(b->rank - b->root, b->n);
	int other = self == edge->upper ? edge->lower : edge->upper;
	int peer = bb_wrap(other + b->root, b->n);
	struct bb_place place = place_of(b, self, from);
	size_t count = from < to ? count_of(b, from, to) : 0;

	if ((self == edge->upper) == edge->down)
		bb_send(w, peer, place, count);
	else
		bb_recv(w, peer, place, count,
			edge->down ? b->final && from == edge->lower : b->final && !self);
}

/* The lower rank's own block is separate, and the others may wrap around after rank n - 1. */
static void cross_all(struct bb_writer *w, const struct bb_binomial *b, const struct edge *edge,
		      int end)
{
	int wrap = b->n - b->root, first = edge->lower + 1;

	wrap = wrap < first ? first : wrap > end ? end : wrap;
	cross(w, b, edge, edge->lower, first);
	cross(w, b, edge, first, wrap);
	cross(w, b, edge, wrap, end);
}

/* This rank's messages over the edges between ranks 2^LEVEL apart. */
static void level(struct bb_writer *w, const struct bb_binomial *b, int level, bool down)
{
	int self = bb_wrap(b->rank - b->root, b->n), bit = 1 << level;
	int lower = self | bit;
	struct edge edge = {lower - bit, lower, down};

	if (self & (bit - 1) || lower >= b->n)
		return;
	cross_all(w, b, &edge, lower + bit < b->n ? lower + bit : b->n);
}

void bb_binomial_scatter(struct bb_writer *w, const struct bb_binomial *b, size_t round)
{
	level(w, b, bb_log2_up(b->n) - 1 - (int)round, true);
}

void bb_binomial_gather(struct bb_writer *w, const struct bb_binomial *b, size_t round)
{
	level(w, b, (int)round, false);
}

size_t bb_binomial_held(const struct bb_binomial *b)
{
	int self = bb_wrap(b->rank - b->root, b->n), bit = self & -self;

	if (!self)
		return 0;
	return count_of(b, self + 1, self + bit < b->n ? self + bit : b->n);
}

static struct bb_binomial blocks_at_root(const struct bb_shape *shape, int rank, enum bb_buffer top,
					 enum bb_buffer own)
{
	return (struct bb_binomial){.n = shape->nranks,
				    .rank = rank,
				    .root = shape->root,
				    .blocks = bb_blocks_within(0, shape->count, shape->count),
				    .top = bb_at(top, 0),
				    .own = bb_at(own, 0),
				    .held = bb_at(BB_TMP, 0),
				    .final = true};
}

static size_t held_for_others(const struct bb_shape *shape, int rank)
{
	struct bb_binomial b = blocks_at_root(shape, rank, BB_IN, BB_OUT);

	return bb_binomial_held(&b);
}

/* ---- gather, scatter ----------------------------------------------------------------- */

static void gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	struct bb_binomial b = blocks_at_root(shape, role->rank, BB_OUT, BB_IN);
	struct bb_place own = bb_at(BB_OUT, (size_t)role->rank * shape->count);

	bb_binomial_gather(w, &b, round);
	if (!round && role->rank == shape->root && !shape->in_place)
		bb_copy(w, bb_at(BB_IN, 0), own, shape->count, true);
}

const struct bb_algorithm bb_tree_gather = {
	.name = "tree",
	.collective = &bb_gather,
	.meaning = "A binomial tree: in round k, ranks 2^k apart join the 2^k blocks that each of "
		   "them holds, until the root holds all.",
	.tmp_count = held_for_others,
	.prepare = bb_prepare_log,
	.round = gather_round,
};

static void scatter_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			  struct bb_writer *w)
{
	struct bb_binomial b = blocks_at_root(shape, role->rank, BB_IN, BB_OUT);
	struct bb_place own = bb_at(BB_IN, (size_t)role->rank * shape->count);

	bb_binomial_scatter(w, &b, round);
	if (!round && role->rank == shape->root && !shape->in_place)
		bb_copy(w, own, bb_at(BB_OUT, 0), shape->count, true);
}

const struct bb_algorithm bb_tree_scatter = {
	.name = "tree",
	.collective = &bb_scatter,
	.meaning = "A binomial tree: the root hands half of all blocks to one rank, then both hand "
		   "on half of what they hold, until every rank holds its own block.",
	.tmp_count = held_for_others,
	.prepare = bb_prepare_log,
	.round = scatter_round,
};

/* ---- alltoall, alltoallv: every rank in turn is the root of a scatter ------------------- */

static struct bb_binomial row_of(const struct bb_shape *shape, int rank, int source)
{
	struct bb_binomial b = blocks_at_root(shape, rank, BB_IN, BB_OUT);

	b.root = source;
	b.top = bb_alltoall_from(shape, source, 0);
	b.held.offset = bb_alltoall_saved(shape, rank);
	b.own.offset = bb_alltoall_out(shape, source, rank);
	if (shape->matrix)
		b.row = shape->matrix + (size_t)source * (size_t)shape->nranks;
	return b;
}

static size_t alltoall_tmp(const struct bb_shape *shape, int rank)
{
	size_t most = 0;

	for (int source = 0; source < shape->nranks; source++) {
		struct bb_binomial b = row_of(shape, rank, source);

		most = bb_most(most, bb_binomial_held(&b));
	}
	return bb_alltoall_saved(shape, rank) + most;
}

static void alltoall_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	int n = shape->nranks;

	bb_role_fill(role, rank, (size_t)n * (size_t)bb_log2_up(n));
	role->rounds += shape->in_place;
}

static void alltoall_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	size_t depth = (size_t)bb_log2_up(shape->nranks);
	struct bb_binomial b;

	if (bb_alltoall_saves(w, shape, role->rank, &round))
		return;
	if (!round)
		bb_alltoall_keep(w, shape, role->rank);
	b = row_of(shape, role->rank, (int)(round / depth));
	bb_binomial_scatter(w, &b, round % depth);
}

const struct bb_algorithm bb_tree_alltoall = {
	.name = "tree",
	.collective = &bb_alltoall,
	.meaning = "n scatters: every rank in turn is the root of a binomial tree on which its "
		   "blocks are handed out.",
	.tmp_count = alltoall_tmp,
	.prepare = alltoall_prepare,
	.round = alltoall_round,
};

const struct bb_algorithm bb_tree_alltoallv = {
	.name = "tree",
	.collective = &bb_alltoallv,
	.meaning = "n scatters: every rank in turn is the root of a binomial tree on which its "
		   "blocks are handed out.",
	.tmp_count = alltoall_tmp,
	.prepare = alltoall_prepare,
	.round = alltoall_round,
};

/* ---- sendrecv: gather at rank 0, scatter from there -------------------------------------- */

/* Rank 0 keeps the data of rank s as block s + 1: block r is for rank r, and block n for rank 0. */
static struct bb_binomial shifted(const struct bb_shape *shape, int rank, bool down)
{
	struct bb_binomial b = blocks_at_root(shape, rank, BB_TMP, down ? BB_OUT : BB_IN);

	b.root = 0;
	b.top.offset = down ? 0 : shape->count;
	b.final = down;
	return b;
}

static size_t sendrecv_tmp(const struct bb_shape *shape, int rank)
{
	size_t n = (size_t)shape->nranks;

	return rank ? held_for_others(shape, rank) : (n + 1) * shape->count;
}

static void sendrecv_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, 2 * (size_t)bb_log2_up(shape->nranks));
}

static void sendrecv_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	size_t n = (size_t)shape->nranks, depth = (size_t)bb_log2_up(shape->nranks);
	bool down = round >= depth;
	struct bb_binomial b = shifted(shape, role->rank, down);
	struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);

	if (!down) {
		bb_binomial_gather(w, &b, round);
		if (!round && !role->rank)
			bb_copy(w, in, b.top, shape->count, false);
	} else {
		bb_binomial_scatter(w, &b, round - depth);
		if (round == depth && !role->rank)
			bb_copy(w, bb_at(BB_TMP, n * shape->count), out, shape->count, true);
	}
}

const struct bb_algorithm bb_tree_sendrecv = {
	.name = "tree",
	.collective = &bb_sendrecv,
	.meaning =
		"Everything is gathered at rank 0 on a binomial tree and scattered from there to "
		"its destinations.",
	.tmp_count = sendrecv_tmp,
	.prepare = sendrecv_prepare,
	.round = sendrecv_round,
};
