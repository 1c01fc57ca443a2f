/*
 * pairwise.c - messages go directly to the rank that they are for: in round i every rank exchanges
 * data with the ranks i + 1 ahead and behind (naive: with several ranks at once), or one rank (the
 * root, or rank 0) communicates with all others, one after the other (linear).
 */
#include "schedules/parts.h"

#include <limits.h>

#define AT_ONCE 7 /* peers of one round of the naive exchange: 7 sends, 7 receives, one copy */

/* An exchange with AT_ONCE peers in a round, which the role keeps. */
static size_t exchange_prepare(const struct bb_shape *shape, struct bb_role *role, size_t at_once)
{
	role->at[0] = at_once;
	return bb_pieces((size_t)shape->nranks - 1, at_once);
}

static size_t pairwise_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return exchange_prepare(shape, role, 1);
}

static size_t naive_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return exchange_prepare(shape, role, AT_ONCE);
}

/* ---- alltoall, alltoallv ------------------------------------------------------------- */

size_t bb_alltoall_saved(const struct bb_shape *shape, int rank)
{
	return shape->in_place ? bb_alltoall_in(shape, rank, shape->nranks) : 0;
}

struct bb_place bb_alltoall_from(const struct bb_shape *shape, int rank, int destination)
{
	return bb_at(shape->in_place ? BB_TMP : BB_IN, bb_alltoall_in(shape, rank, destination));
}

void bb_alltoall_keep(struct bb_writer *w)
{
	const struct bb_shape *shape = w->shape;

	if (shape->in_place && !shape->matrix)
		return; /* it is in place already */
	bb_copy(w, bb_alltoall_from(shape, w->rank, w->rank),
		bb_at(BB_OUT, bb_alltoall_out(shape, w->rank, w->rank)),
		bb_alltoall_count(shape, w->rank, w->rank), true);
}

static void alltoall_round(struct bb_writer *w, size_t round)
{
	const struct bb_shape *shape = w->shape;
	const int at_once = (int)w->role->at[0], first = (int)round * at_once + 1;

	for (int i = first; i < first + at_once && i < w->n; i++) {
		const int to = bb_ahead(w, i), from = bb_ahead(w, -i);

		bb_send(w, to, bb_alltoall_from(shape, w->rank, to),
			bb_alltoall_count(shape, w->rank, to));
		bb_recv(w, from, bb_at(BB_OUT, bb_alltoall_out(shape, from, w->rank)),
			bb_alltoall_count(shape, from, w->rank), true);
	}
	if (!round)
		bb_alltoall_keep(w);
}

#define PAIRWISE_EXCHANGE                                                                          \
	.name = "pairwise",                                                                        \
	.meaning = "In round i every rank sends directly to the rank i ahead and receives from "   \
		   "the rank i behind.",                                                           \
	.prepare = pairwise_prepare, .round = alltoall_round
#define NAIVE_EXCHANGE                                                                             \
	.name = "naive",                                                                           \
	.meaning = "Everyone sends to everyone directly, to seven ranks at once.",                 \
	.prepare = naive_prepare, .round = alltoall_round

const struct bb_algorithm bb_pairwise_alltoall = {PAIRWISE_EXCHANGE, .collective = &bb_alltoall,
						  .flags = BB_SHIFT_INVARIANT};
const struct bb_algorithm bb_pairwise_alltoallv = {PAIRWISE_EXCHANGE, .collective = &bb_alltoallv};
const struct bb_algorithm bb_naive_alltoall = {NAIVE_EXCHANGE, .collective = &bb_alltoall,
					       .flags = BB_SHIFT_INVARIANT};
const struct bb_algorithm bb_naive_alltoallv = {NAIVE_EXCHANGE, .collective = &bb_alltoallv};

/* ---- reduce_scatter, all_gather ------------------------------------------------------- */

/* Blocks are reduced from IN into SUM, which takes one block. */
static void reduce_scatter_part(struct bb_writer *w, size_t i, const struct bb_blocks *blocks,
				struct bb_place sum, bool final)
{
	const int to = bb_ahead(w, (int)i + 1), from = bb_ahead(w, -(int)i - 1);

	bb_send(w, to, bb_block_at(BB_IN, blocks, to), bb_block_count(blocks, (size_t)to));
	bb_add(w, from, i ? sum : bb_block_at(BB_IN, blocks, w->rank), sum,
	       bb_block_count(blocks, (size_t)w->rank), final && (int)i == w->n - 2);
}

/* The rank's own block is sent from OWN, and the others arrive in OUT. */
static void all_gather_part(struct bb_writer *w, size_t i, const struct bb_blocks *blocks,
			    struct bb_place own)
{
	const int from = bb_ahead(w, -(int)i - 1);

	bb_send(w, bb_ahead(w, (int)i + 1), own, bb_block_count(blocks, (size_t)w->rank));
	bb_recv(w, from, bb_block_at(BB_OUT, blocks, from), bb_block_count(blocks, (size_t)from),
		true);
}

static void pairwise_reduce_scatter_round(struct bb_writer *w, size_t round)
{
	const struct bb_blocks blocks = bb_blocks_equal(w->shape);

	reduce_scatter_part(w, round, &blocks, bb_at(BB_OUT, 0), true);
}

const struct bb_algorithm bb_pairwise_reduce_scatter = {
	.name = "pairwise",
	.collective = &bb_reduce_scatter,
	.meaning = "In round i every rank sends the block of the rank i ahead directly to it and "
		   "adds what comes from the rank i behind to its own block.",
	.flags = BB_SHIFT_INVARIANT,
	.round = pairwise_reduce_scatter_round,
};

static void all_gather_round(struct bb_writer *w, size_t round)
{
	const size_t at_once = w->role->at[0];
	const struct bb_blocks blocks = bb_blocks_equal(w->shape);
	const struct bb_place own = bb_at(BB_IN, 0);

	for (size_t i = round * at_once; i < (round + 1) * at_once && i + 1 < (size_t)w->n; i++)
		all_gather_part(w, i, &blocks, own);
	if (!round)
		bb_copy_own(w, own, bb_block_at(BB_OUT, &blocks, w->rank), w->shape->count, true);
}

const struct bb_algorithm bb_pairwise_all_gather = {
	.name = "pairwise",
	.collective = &bb_all_gather,
	.meaning =
		"In round i every rank sends its block directly to the rank i ahead and receives "
		"the block of the rank i behind.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = pairwise_prepare,
	.round = all_gather_round,
};

const struct bb_algorithm bb_naive_all_gather = {
	.name = "naive",
	.collective = &bb_all_gather,
	.meaning = "Everyone sends its block to everyone directly, to seven ranks at once.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = naive_prepare,
	.round = all_gather_round,
};

static void reduce_scatter_all_gather_round(struct bb_writer *w, size_t round)
{
	const struct bb_blocks blocks = bb_blocks_of(0, w->shape->count, (size_t)w->n);
	const struct bb_place own = bb_block_at(BB_OUT, &blocks, w->rank);
	const size_t others = (size_t)w->n - 1;

	if (round < others)
		reduce_scatter_part(w, round, &blocks, own, false);
	else
		all_gather_part(w, round - others, &blocks, own);
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

/* ---- naive all_reduce, reduce_scatter: everyone reduces for itself ----------------------- */

/* In place, all_reduce sends from a copy, because sums overwrite IN before all ranks have it. */
static size_t naive_all_reduce_tmp(const struct bb_shape *shape, int rank)
{
	return shape->in_place ? shape->count : 0;
}

static size_t naive_reduce_scatter_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return bb_pieces((size_t)shape->nranks - 1, 2);
}

static size_t naive_all_reduce_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return naive_reduce_scatter_prepare(shape, role) + shape->in_place;
}

/* In round I, send shares from IN to the next two ranks ahead, of EACH elements on from rank to
   rank, and add those of the ranks as far behind to OUT in one pass. */
static void naive_reduce_part(struct bb_writer *w, size_t i, struct bb_place in, size_t each)
{
	const int n = w->n, first = 2 * (int)i + 1, second = first + 1 < n ? first + 1 : 0;
	const size_t count = w->shape->count;
	const struct bb_place out = bb_at(BB_OUT, 0);

	for (int d = first; d < first + 2 && d < n; d++)
		bb_send(w, bb_ahead(w, d), bb_plus(in, (size_t)bb_ahead(w, d) * each), count);
	bb_add_on(w, 0, bb_ahead(w, -first), second ? bb_ahead(w, -second) : BB_NO_PEER,
		  i ? out : bb_plus(in, (size_t)w->rank * each), out, count, first + 2 >= n);
}

static void naive_all_reduce_round(struct bb_writer *w, size_t round)
{
	const bool saved = w->shape->in_place;

	if (saved && !round)
		bb_copy(w, bb_at(BB_IN, 0), bb_at(BB_TMP, 0), w->shape->count, false);
	else
		naive_reduce_part(w, round - saved, bb_at(saved ? BB_TMP : BB_IN, 0), 0);
}

const struct bb_algorithm bb_naive_all_reduce = {
	.name = "naive",
	.collective = &bb_all_reduce,
	.meaning = "Everyone sends all its data to everyone, and everyone adds up everything for "
		   "itself.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = naive_all_reduce_tmp,
	.prepare = naive_all_reduce_prepare,
	.round = naive_all_reduce_round,
};

static void naive_reduce_scatter_round(struct bb_writer *w, size_t round)
{
	naive_reduce_part(w, round, bb_at(BB_IN, 0), w->shape->count);
}

const struct bb_algorithm bb_naive_reduce_scatter = {
	.name = "naive",
	.collective = &bb_reduce_scatter,
	.meaning =
		"Everyone sends each rank its block directly, and everyone adds up its own block, "
		"two arrivals in one pass.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = naive_reduce_scatter_prepare,
	.round = naive_reduce_scatter_round,
};

/* ---- linear: round I is the turn of the rank I + 1 behind the root ----------------------- */

/* The root sends that rank COUNT elements to OUT: those at TOP or, each rank its own, STRIDE apart
   from rank to rank. */
static void hand_out(struct bb_writer *w, size_t i, struct bb_place top, size_t stride,
		     size_t count)
{
	const int root = w->shape->root, who = bb_wrap(root + 1 + (int)i, w->n);

	if (w->rank == root)
		bb_send(w, who, bb_plus(top, (size_t)who * stride), count);
	else if (w->rank == who)
		bb_recv(w, root, bb_at(BB_OUT, 0), count, true);
}

/* The root adds that rank's IN to SUM. */
static void reduce_part(struct bb_writer *w, size_t i, struct bb_place sum, size_t count,
			bool final)
{
	const int root = w->shape->root, who = bb_wrap(root + 1 + (int)i, w->n);
	const struct bb_place in = bb_at(BB_IN, 0);

	if (w->rank == root)
		bb_add(w, who, i ? sum : in, sum, count, final && (int)i == w->n - 2);
	else if (w->rank == who)
		bb_send(w, root, in, count);
}

void bb_linear_collect(struct bb_writer *w, size_t i, bool final)
{
	const int root = w->shape->root, who = bb_wrap(root + 1 + (int)i, w->n);
	const size_t count = w->shape->count;

	if (!i && w->rank == root)
		bb_copy_own(w, bb_at(BB_IN, 0), bb_at(BB_OUT, (size_t)root * count), count, final);
	if (w->rank == root)
		bb_recv(w, who, bb_at(BB_OUT, (size_t)who * count), count, final);
	else if (w->rank == who)
		bb_send(w, root, bb_at(BB_IN, 0), count);
}

static void linear_broadcast_round(struct bb_writer *w, size_t round)
{
	const struct bb_place in = bb_at(BB_IN, 0);

	hand_out(w, round, in, 0, w->shape->count);
	if (!round && bb_is_root(w))
		bb_copy_own(w, in, bb_at(BB_OUT, 0), w->shape->count, true);
}

const struct bb_algorithm bb_linear_broadcast = {
	.name = "linear",
	.collective = &bb_broadcast,
	.meaning = "The root sends all of its data to every other rank, one after the other.",
	.fan = INT_MAX,
	.round = linear_broadcast_round,
};

static void linear_reduce_round(struct bb_writer *w, size_t round)
{
	reduce_part(w, round, bb_at(BB_OUT, 0), w->shape->count, true);
}

const struct bb_algorithm bb_linear_reduce = {
	.name = "linear",
	.collective = &bb_reduce,
	.meaning = "Every rank sends all of its data to the root, which adds one after the other.",
	.round = linear_reduce_round,
};

static void linear_gather_round(struct bb_writer *w, size_t round)
{
	bb_linear_collect(w, round, true);
}

const struct bb_algorithm bb_linear_gather = {
	.name = "linear",
	.collective = &bb_gather,
	.meaning = "Every rank sends its block to the root, which takes one after the other.",
	.round = linear_gather_round,
};

static void linear_scatter_round(struct bb_writer *w, size_t round)
{
	const size_t count = w->shape->count;

	hand_out(w, round, bb_at(BB_IN, 0), count, count);
	if (!round && bb_is_root(w))
		bb_copy_own(w, bb_at(BB_IN, (size_t)w->rank * count), bb_at(BB_OUT, 0), count,
			    true);
}

const struct bb_algorithm bb_linear_scatter = {
	.name = "linear",
	.collective = &bb_scatter,
	.meaning = "The root sends every other rank its block, one after the other.",
	.fan = INT_MAX,
	.round = linear_scatter_round,
};

/* ---- linear without a root: rank 0 collects, then hands out ------------------------------- */

static void linear_all_reduce_round(struct bb_writer *w, size_t round)
{
	const struct bb_place out = bb_at(BB_OUT, 0);
	const size_t others = (size_t)w->n - 1;

	if (round < others)
		reduce_part(w, round, out, w->shape->count, false);
	else
		hand_out(w, round - others, out, 0, w->shape->count);
}

const struct bb_algorithm bb_linear_all_reduce = {
	.name = "linear",
	.collective = &bb_all_reduce,
	.meaning = "A parameter server: every rank sends all of its data to rank 0, which adds it "
		   "up and sends the result back to every rank.",
	.prepare = bb_prepare_twice_others,
	.round = linear_all_reduce_round,
};

static void linear_all_gather_round(struct bb_writer *w, size_t round)
{
	const size_t others = (size_t)w->n - 1;

	if (round < others)
		bb_linear_collect(w, round, false);
	else
		hand_out(w, round - others, bb_at(BB_OUT, 0), 0, w->shape->count * (size_t)w->n);
}

const struct bb_algorithm bb_linear_all_gather = {
	.name = "linear",
	.collective = &bb_all_gather,
	.meaning = "Every rank sends its block to rank 0, which sends all of them to every rank.",
	.prepare = bb_prepare_twice_others,
	.round = linear_all_gather_round,
};

static size_t linear_reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	return rank ? 0 : shape->count * (size_t)shape->nranks;
}

static void linear_reduce_scatter_round(struct bb_writer *w, size_t round)
{
	const size_t others = (size_t)w->n - 1;
	const struct bb_place sum = bb_at(BB_TMP, 0);

	if (round < others) {
		reduce_part(w, round, sum, w->shape->count * (size_t)w->n, false);
		return;
	}
	hand_out(w, round - others, sum, w->shape->count, w->shape->count);
	if (round == others && bb_is_root(w))
		bb_copy(w, sum, bb_at(BB_OUT, 0), w->shape->count, true);
}

const struct bb_algorithm bb_linear_reduce_scatter = {
	.name = "linear",
	.collective = &bb_reduce_scatter,
	.meaning = "Every rank sends all of its data to rank 0, which adds it up and sends every "
		   "rank its block.",
	.tmp_count = linear_reduce_scatter_tmp,
	.prepare = bb_prepare_twice_others,
	.round = linear_reduce_scatter_round,
};
