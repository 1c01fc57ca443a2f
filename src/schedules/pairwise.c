/*
 * pairwise.c - messages go directly to the rank that they are for: in round i every rank exchanges
 * data with the ranks i + 1 ahead and behind (naive: with several ranks at once), or one rank (the
 * root, or rank 0) communicates with all others, one after the other (linear).
 */
#include "schedules/parts.h"

#include <limits.h>

#define AT_ONCE 7 /* peers of one round of the naive exchange: 7 sends, 7 receives, one copy */

/* ---- alltoall, alltoallv, all_gather --------------------------------------------------- */

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

/* In an all_gather every rank gets the same block. */
static void exchange_round(struct bb_writer *w, size_t round)
{
	const struct bb_shape *shape = w->shape;
	const bool same = !(w->algorithm->collective->flags & BB_SENDS_BLOCKS);
	const int at_once = (int)bb_at_once(w->algorithm), first = (int)round * at_once + 1;
	const size_t count = shape->count;
	const struct bb_place own = bb_at(BB_IN, 0);

	for (int i = first; i < first + at_once && i < w->n; i++) {
		const int to = bb_ahead(w, i), from = bb_ahead(w, -i);

		if (same) {
			bb_send(w, to, own, count);
			bb_recv(w, from, bb_at(BB_OUT, (size_t)from * count), count, true);
			continue;
		}
		bb_send(w, to, bb_alltoall_from(shape, w->rank, to),
			bb_alltoall_count(shape, w->rank, to));
		bb_recv(w, from, bb_at(BB_OUT, bb_alltoall_out(shape, from, w->rank)),
			bb_alltoall_count(shape, from, w->rank), true);
	}
	if (!round && same)
		bb_copy_own(w, own, bb_at(BB_OUT, (size_t)w->rank * count), count, true);
	else if (!round)
		bb_alltoall_keep(w);
}

#define PAIRWISE_EXCHANGE                                                                          \
	.meaning = "In round i every rank sends directly to the rank i ahead and receives from "   \
		   "the rank i behind.",                                                           \
	.at_once = 1, .round = exchange_round, BB_NAMED("pairwise")
#define NAIVE_EXCHANGE                                                                             \
	.meaning = "Everyone sends to everyone directly, to seven ranks at once.",                 \
	.at_once = AT_ONCE, .round = exchange_round, BB_NAMED("naive")

const struct bb_algorithm bb_pairwise_alltoall = {PAIRWISE_EXCHANGE, .collective = &bb_alltoall,
						  .flags = BB_SHIFT_INVARIANT};
const struct bb_algorithm bb_pairwise_alltoallv = {PAIRWISE_EXCHANGE, .collective = &bb_alltoallv};
const struct bb_algorithm bb_naive_alltoall = {NAIVE_EXCHANGE, .collective = &bb_alltoall,
					       .flags = BB_SHIFT_INVARIANT};
const struct bb_algorithm bb_naive_alltoallv = {NAIVE_EXCHANGE, .collective = &bb_alltoallv};

const struct bb_algorithm bb_pairwise_all_gather = {
	BB_NAMED("pairwise"),
	.collective = &bb_all_gather,
	.meaning =
		"In round i every rank sends its block directly to the rank i ahead and receives "
		"the block of the rank i behind.",
	.flags = BB_SHIFT_INVARIANT,
	.at_once = 1,
	.round = exchange_round,
};

const struct bb_algorithm bb_naive_all_gather = {
	BB_NAMED("naive"),
	.collective = &bb_all_gather,
	.meaning = "Everyone sends its block to everyone directly, to seven ranks at once.",
	.flags = BB_SHIFT_INVARIANT,
	.at_once = AT_ONCE,
	.round = exchange_round,
};

/* ---- reduce_scatter, alone or followed by all_gather: all_reduce ------------------------- */

static void reduce_scatter_all_gather_round(struct bb_writer *w, size_t round)
{
	const bool alone = w->algorithm->collective->flags & BB_SENDS_BLOCKS;
	const struct bb_blocks blocks =
		alone ? bb_blocks_equal(w->shape) : bb_blocks_of(0, w->shape->count, (size_t)w->n);
	const struct bb_place own =
		alone ? bb_at(BB_OUT, 0) : bb_block_at(BB_OUT, &blocks, w->rank);
	const int others = w->n - 1, i = (int)round % others + 1;
	const int to = bb_ahead(w, i), from = bb_ahead(w, -i);
	const size_t count = bb_block_count(&blocks, (size_t)w->rank);

	if ((int)round < others) {
		bb_send(w, to, bb_block_at(BB_IN, &blocks, to),
			bb_block_count(&blocks, (size_t)to));
		bb_add(w, from, round ? own : bb_block_at(BB_IN, &blocks, w->rank), own, count,
		       alone && i == others);
	} else {
		bb_send(w, to, own, count);
		bb_recv(w, from, bb_block_at(BB_OUT, &blocks, from),
			bb_block_count(&blocks, (size_t)from), true);
	}
}

const struct bb_algorithm bb_pairwise_reduce_scatter = {
	BB_NAMED("pairwise"),
	.collective = &bb_reduce_scatter,
	.meaning = "In round i every rank sends the block of the rank i ahead directly to it and "
		   "adds what comes from the rank i behind to its own block.",
	.flags = BB_SHIFT_INVARIANT,
	.round = reduce_scatter_all_gather_round,
};

const struct bb_algorithm bb_reduce_scatter_all_gather_all_reduce = {
	BB_NAMED("reduce_scatter+all_gather"),
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

static size_t naive_all_reduce_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return role->rounds + shape->in_place;
}

/* In round I, all or one block goes to each of the next two ranks ahead, and what comes from the
   ranks as far behind is added to OUT in one pass. */
static void naive_reduce_round(struct bb_writer *w, size_t round)
{
	const bool blocks = w->algorithm->collective->flags & BB_SENDS_BLOCKS;
	const bool saved = !blocks && w->shape->in_place;
	const struct bb_place in = bb_at(saved ? BB_TMP : BB_IN, 0), out = bb_at(BB_OUT, 0);
	const size_t count = w->shape->count, each = blocks ? count : 0;
	const int n = w->n, first = 2 * ((int)round - saved) + 1;
	const int second = first + 1 < n ? first + 1 : 0;

	if (saved && !round) {
		bb_copy(w, bb_at(BB_IN, 0), in, count, false);
		return;
	}
	for (int d = first; d < first + 2 && d < n; d++)
		bb_send(w, bb_ahead(w, d), bb_plus(in, (size_t)bb_ahead(w, d) * each), count);
	bb_add_on(w, 0, bb_ahead(w, -first), second ? bb_ahead(w, -second) : BB_NO_PEER,
		  first > 1 ? out : bb_plus(in, (size_t)w->rank * each), out, count,
		  first + 2 >= n);
}

const struct bb_algorithm bb_naive_all_reduce = {
	BB_NAMED("naive"),
	.collective = &bb_all_reduce,
	.meaning = "Everyone sends all its data to everyone, and everyone adds up everything for "
		   "itself.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = naive_all_reduce_tmp,
	.at_once = 2,
	.prepare = naive_all_reduce_prepare,
	.round = naive_reduce_round,
};

const struct bb_algorithm bb_naive_reduce_scatter = {
	BB_NAMED("naive"),
	.collective = &bb_reduce_scatter,
	.meaning =
		"Everyone sends each rank its block directly, and everyone adds up its own block, "
		"two arrivals in one pass.",
	.flags = BB_SHIFT_INVARIANT,
	.at_once = 2,
	.round = naive_reduce_round,
};

/* ---- linear: round I is the turn of the rank I + 1 behind the root, or rank 0 ------------- */

/* It collects from one after the other, unless it has all that they get, and then hands that out,
   unless it alone gets it. TOP is where it has what it hands out. */
void bb_linear_round(struct bb_writer *w, size_t round)
{
	const unsigned flags = w->algorithm->collective->flags;
	const bool adds = flags & BB_REDUCES, gathers = flags & BB_RECEIVES_BLOCKS;
	const bool ends = flags & BB_TO_ROOT, blocks = flags & BB_SENDS_BLOCKS;
	const size_t others = (size_t)w->n - 1, i = round < others ? round : round - others;
	const bool collects = (adds || gathers) && round < others;
	const int root = w->shape->root, who = bb_wrap(root + 1 + (int)i, w->n);
	const size_t count = w->shape->count, whole = count * (size_t)w->n;
	const struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);
	const struct bb_place top = !adds && !gathers ? in
				    : adds && blocks  ? bb_at(BB_TMP, 0)
						      : out;
	const struct bb_place own = bb_plus(top, blocks ? (size_t)root * count : 0);

	if (w->rank == who && collects) {
		bb_send(w, root, in, blocks ? whole : count);
	} else if (w->rank == who) {
		bb_recv(w, root, out, gathers ? whole : count, true);
	} else if (w->rank == root && collects && adds) {
		bb_add(w, who, i ? top : in, top, blocks ? whole : count, ends && i + 1 == others);
	} else if (w->rank == root && collects) {
		if (!i)
			bb_copy_own(w, in, bb_plus(out, (size_t)root * count), count, ends);
		bb_recv(w, who, bb_plus(out, (size_t)who * count), count, ends);
	} else if (w->rank == root) {
		bb_send(w, who, bb_plus(top, blocks ? (size_t)who * count : 0),
			gathers ? whole : count);
		if (!i && top.buffer == BB_IN)
			bb_copy_own(w, own, out, count, true);
		else if (!i && top.buffer == BB_TMP)
			bb_copy(w, own, out, count, true);
	}
}

const struct bb_algorithm bb_linear_broadcast = {
	BB_NAMED("linear"),
	.collective = &bb_broadcast,
	.meaning = "The root sends all of its data to every other rank, one after the other.",
	.fan = INT_MAX,
	.round = bb_linear_round,
};

const struct bb_algorithm bb_linear_reduce = {
	BB_NAMED("linear"),
	.collective = &bb_reduce,
	.meaning = "Every rank sends all of its data to the root, which adds one after the other.",
	.round = bb_linear_round,
};

const struct bb_algorithm bb_linear_gather = {
	BB_NAMED("linear"),
	.collective = &bb_gather,
	.meaning = "Every rank sends its block to the root, which takes one after the other.",
	.round = bb_linear_round,
};

const struct bb_algorithm bb_linear_scatter = {
	BB_NAMED("linear"),
	.collective = &bb_scatter,
	.meaning = "The root sends every other rank its block, one after the other.",
	.fan = INT_MAX,
	.round = bb_linear_round,
};

const struct bb_algorithm bb_linear_all_reduce = {
	BB_NAMED("linear"),
	.collective = &bb_all_reduce,
	.meaning = "A parameter server: every rank sends all of its data to rank 0, which adds it "
		   "up and sends the result back to every rank.",
	.prepare = bb_prepare_twice_others,
	.round = bb_linear_round,
};

const struct bb_algorithm bb_linear_all_gather = {
	BB_NAMED("linear"),
	.collective = &bb_all_gather,
	.meaning = "Every rank sends its block to rank 0, which sends all of them to every rank.",
	.prepare = bb_prepare_twice_others,
	.round = bb_linear_round,
};

static size_t linear_reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	return rank ? 0 : shape->count * (size_t)shape->nranks;
}

const struct bb_algorithm bb_linear_reduce_scatter = {
	BB_NAMED("linear"),
	.collective = &bb_reduce_scatter,
	.meaning = "Every rank sends all of its data to rank 0, which adds it up and sends every "
		   "rank its block.",
	.tmp_count = linear_reduce_scatter_tmp,
	.prepare = bb_prepare_twice_others,
	.round = bb_linear_round,
};
