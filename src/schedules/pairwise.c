/*
 * pairwise.c - in round i every rank exchanges data directly with the ranks i + 1 ahead and behind;
 * naive algorithms do so with several ranks at once.
 */
#include "schedules/parts.h"

#define AT_ONCE 7 /* peers of one round of the naive exchange: 7 sends, 7 receives, one copy */

/* ---- what alltoall and alltoallv share ----------------------------------------------- */

size_t bb_alltoall_saved(const struct bb_shape *shape, int rank)
{
	return shape->in_place ? bb_alltoall_in(shape, rank, shape->nranks) : 0;
}

struct bb_place bb_alltoall_from(const struct bb_shape *shape, int rank, int destination)
{
	return bb_at(shape->in_place ? BB_TMP : BB_IN, bb_alltoall_in(shape, rank, destination));
}

bool bb_alltoall_saves(struct bb_writer *w, const struct bb_shape *shape, int rank, size_t *round)
{
	if (!shape->in_place)
		return false;
	if ((*round)-- > 0)
		return false;
	bb_copy(w, bb_at(BB_IN, 0), bb_at(BB_TMP, 0), bb_alltoall_saved(shape, rank), false);
	return true;
}

void bb_alltoall_keep(struct bb_writer *w, const struct bb_shape *shape, int rank)
{
	if (shape->in_place && !shape->matrix)
		return; /* it is in place already */
	bb_copy(w, bb_alltoall_from(shape, rank, rank),
		bb_at(BB_OUT, bb_alltoall_out(shape, rank, rank)),
		bb_alltoall_count(shape, rank, rank), true);
}

size_t bb_alltoall_longest(const struct bb_shape *shape)
{
	size_t cells = (size_t)shape->nranks * (size_t)shape->nranks, most = 0;

	if (!shape->matrix)
		return shape->count;
	for (size_t i = 0; i < cells; i++)
		most = bb_most(most, shape->matrix[i]);
	return most;
}

/* ---- alltoall, alltoallv ------------------------------------------------------------- */

static void alltoall_exchange(struct bb_writer *w, const struct bb_shape *shape, int rank, int i)
{
	int n = shape->nranks;
	int to = bb_wrap(rank + i + 1, n), from = bb_wrap(rank - i - 1, n);

	bb_send(w, to, bb_alltoall_from(shape, rank, to), bb_alltoall_count(shape, rank, to));
	bb_recv(w, from, bb_at(BB_OUT, bb_alltoall_out(shape, from, rank)),
		bb_alltoall_count(shape, from, rank), true);
}

/* A round of an exchange with AT_ONCE peers per round. */
static void exchange_round(struct bb_writer *w, const struct bb_shape *shape, int rank,
			   size_t round, int at_once)
{
	if (bb_alltoall_saves(w, shape, rank, &round))
		return;
	for (int k = 0; k < at_once; k++) {
		int i = (int)round * at_once + k;

		if (i < shape->nranks - 1)
			alltoall_exchange(w, shape, rank, i);
	}
	if (!round)
		bb_alltoall_keep(w, shape, rank);
}

static void pairwise_alltoall_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_prepare_others(shape, rank, role);
	role->rounds += shape->in_place;
}

static void pairwise_alltoall_round(const struct bb_shape *shape, const struct bb_role *role,
				    size_t round, struct bb_writer *w)
{
	exchange_round(w, shape, role->rank, round, 1);
}

const struct bb_algorithm bb_pairwise_alltoall = {
	.name = "pairwise",
	.collective = &bb_alltoall,
	.meaning = "In round i every rank sends directly to the rank i ahead and receives from the "
		   "rank i behind.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = bb_alltoall_saved,
	.prepare = pairwise_alltoall_prepare,
	.round = pairwise_alltoall_round,
};

const struct bb_algorithm bb_pairwise_alltoallv = {
	.name = "pairwise",
	.collective = &bb_alltoallv,
	.meaning = "In round i every rank sends directly to the rank i ahead and receives from the "
		   "rank i behind.",
	.tmp_count = bb_alltoall_saved,
	.prepare = pairwise_alltoall_prepare,
	.round = pairwise_alltoall_round,
};

static void naive_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, bb_pieces((size_t)shape->nranks - 1, AT_ONCE));
}

static void naive_alltoall_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	naive_prepare(shape, rank, role);
	role->rounds += shape->in_place;
}

static void naive_alltoall_round(const struct bb_shape *shape, const struct bb_role *role,
				 size_t round, struct bb_writer *w)
{
	exchange_round(w, shape, role->rank, round, AT_ONCE);
}

const struct bb_algorithm bb_naive_alltoall = {
	.name = "naive",
	.collective = &bb_alltoall,
	.meaning = "Everyone sends to everyone directly, to seven ranks at once.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = bb_alltoall_saved,
	.prepare = naive_alltoall_prepare,
	.round = naive_alltoall_round,
};

const struct bb_algorithm bb_naive_alltoallv = {
	.name = "naive",
	.collective = &bb_alltoallv,
	.meaning = "Everyone sends to everyone directly, to seven ranks at once.",
	.tmp_count = bb_alltoall_saved,
	.prepare = naive_alltoall_prepare,
	.round = naive_alltoall_round,
};

/* ---- reduce_scatter ------------------------------------------------------------------ */

void bb_pairwise_reduce_scatter_part(struct bb_writer *w, int n, int rank, size_t i,
				     const struct bb_blocks *blocks, struct bb_place sum,
				     bool final)
{
	int to = bb_wrap(rank + (int)i + 1, n), from = bb_wrap(rank - (int)i - 1, n);
	struct bb_place own = bb_at(BB_IN, bb_block_start(blocks, rank));

	bb_send(w, to, bb_at(BB_IN, bb_block_start(blocks, to)), bb_block_count(blocks, to));
	bb_add(w, from, i ? sum : own, sum, bb_block_count(blocks, rank), final && (int)i == n - 2);
}

static void pairwise_reduce_scatter_round(const struct bb_shape *shape, const struct bb_role *role,
					  size_t round, struct bb_writer *w)
{
	struct bb_blocks blocks = bb_blocks_within(0, shape->count, shape->count);

	bb_pairwise_reduce_scatter_part(w, shape->nranks, role->rank, round, &blocks,
					bb_at(BB_OUT, 0), true);
}

const struct bb_algorithm bb_pairwise_reduce_scatter = {
	.name = "pairwise",
	.collective = &bb_reduce_scatter,
	.meaning = "In round i every rank sends the block of the rank i ahead directly to it and "
		   "adds what comes from the rank i behind to its own block.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = bb_prepare_others,
	.round = pairwise_reduce_scatter_round,
};

/* ---- all_gather ---------------------------------------------------------------------- */

void bb_pairwise_all_gather_part(struct bb_writer *w, int n, int rank, size_t i,
				 const struct bb_blocks *blocks, struct bb_place own)
{
	int to = bb_wrap(rank + (int)i + 1, n), from = bb_wrap(rank - (int)i - 1, n);

	bb_send(w, to, own, bb_block_count(blocks, rank));
	bb_recv(w, from, bb_at(BB_OUT, bb_block_start(blocks, from)), bb_block_count(blocks, from),
		true);
}

static void gather_round(struct bb_writer *w, const struct bb_shape *shape, int rank, size_t round,
			 int at_once)
{
	struct bb_blocks blocks = bb_blocks_within(0, shape->count, shape->count);
	struct bb_place own = bb_at(BB_IN, 0);

	for (int k = 0; k < at_once; k++) {
		size_t i = round * (size_t)at_once + (size_t)k;

		if (i + 1 < (size_t)shape->nranks)
			bb_pairwise_all_gather_part(w, shape->nranks, rank, i, &blocks, own);
	}
	if (!round && !shape->in_place)
		bb_copy(w, own, bb_at(BB_OUT, bb_block_start(&blocks, rank)), shape->count, true);
}

static void pairwise_all_gather_round(const struct bb_shape *shape, const struct bb_role *role,
				      size_t round, struct bb_writer *w)
{
	gather_round(w, shape, role->rank, round, 1);
}

const struct bb_algorithm bb_pairwise_all_gather = {
	.name = "pairwise",
	.collective = &bb_all_gather,
	.meaning =
		"In round i every rank sends its block directly to the rank i ahead and receives "
		"the block of the rank i behind.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = bb_prepare_others,
	.round = pairwise_all_gather_round,
};

static void naive_all_gather_round(const struct bb_shape *shape, const struct bb_role *role,
				   size_t round, struct bb_writer *w)
{
	gather_round(w, shape, role->rank, round, AT_ONCE);
}

const struct bb_algorithm bb_naive_all_gather = {
	.name = "naive",
	.collective = &bb_all_gather,
	.meaning = "Everyone sends its block to everyone directly, to seven ranks at once.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = naive_prepare,
	.round = naive_all_gather_round,
};

/* ---- naive all_reduce, reduce_scatter: everyone reduces for itself ----------------------- */

/* In place, all_reduce sends from a copy, because sums overwrite IN before all ranks have it. */
static size_t naive_all_reduce_tmp(const struct bb_shape *shape, int rank)
{
	return shape->in_place ? shape->count : 0;
}

static void naive_reduce_scatter_prepare(const struct bb_shape *shape, int rank,
					 struct bb_role *role)
{
	bb_role_fill(role, rank, bb_pieces((size_t)shape->nranks - 1, 2));
}

static void naive_all_reduce_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	naive_reduce_scatter_prepare(shape, rank, role);
	role->rounds += shape->in_place;
}

/* Add the shares of the ranks FIRST and FIRST + 1 behind to OUT in one pass. */
static void add_two(struct bb_writer *w, const struct bb_shape *shape, int rank, int first,
		    struct bb_place own)
{
	int n = shape->nranks, second = first + 1 < n ? first + 1 : 0;

	bb_write(w, &(struct bb_step){.kind = BB_RECV_REDUCE,
				      .peer = bb_wrap(rank - first, n),
				      .peer2 = second ? bb_wrap(rank - second, n) : BB_NO_PEER,
				      .final = first + 2 >= n,
				      .src = first == 1 ? own : bb_at(BB_OUT, 0),
				      .dst = bb_at(BB_OUT, 0),
				      .count = shape->count});
}

static void naive_all_reduce_round(const struct bb_shape *shape, const struct bb_role *role,
				   size_t round, struct bb_writer *w)
{
	bool saved = shape->in_place;
	struct bb_place own = bb_at(saved ? BB_TMP : BB_IN, 0);
	int n = shape->nranks, first = 2 * (int)(round - saved) + 1;

	if (saved && !round) {
		bb_copy(w, bb_at(BB_IN, 0), own, shape->count, false);
	} else {
		for (int d = first; d < first + 2 && d < n; d++)
			bb_send(w, bb_wrap(role->rank + d, n), own, shape->count);
		add_two(w, shape, role->rank, first, own);
	}
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

static void naive_reduce_scatter_round(const struct bb_shape *shape, const struct bb_role *role,
				       size_t round, struct bb_writer *w)
{
	int n = shape->nranks, first = 2 * (int)round + 1;

	for (int d = first; d < first + 2 && d < n; d++) {
		int to = bb_wrap(role->rank + d, n);

		bb_send(w, to, bb_at(BB_IN, (size_t)to * shape->count), shape->count);
	}
	add_two(w, shape, role->rank, first, bb_at(BB_IN, (size_t)role->rank * shape->count));
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
