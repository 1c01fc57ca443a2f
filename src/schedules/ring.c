/*
 * ring.c - every rank receives only from the previous rank and sends only to the next one.
 */
#include "schedules/parts.h"

#include <math.h>

/* ---- slabs: a long call cut into equal consecutive calls ------------------------------- */

struct slabs { /* lies at the front of role.at */
	size_t number;
	size_t rounds; /* of one slab */
	struct bb_blocks blocks;
};

struct slab {
	size_t index;
	size_t round; /* within the slab */
	size_t start;
	size_t count;
	size_t longest; /* of all slabs */
};

_Static_assert(sizeof(struct slabs) <= sizeof(((struct bb_role *)0)->at), "fits a role");

/* Cut TOTAL elements into slabs of at most LIMIT (0: one slab) of ROUNDS rounds each; returns all
   rounds. */
static size_t slabs_prepare(struct bb_role *role, size_t total, size_t limit, size_t rounds)
{
	const size_t number = bb_pieces(total, limit);

	*(struct slabs *)role->at = (struct slabs){number, rounds, bb_blocks_of(0, total, number)};
	return number * rounds;
}

static struct slab slab_of(const struct bb_writer *w, size_t round)
{
	const struct slabs *slabs = (const struct slabs *)w->role->at;
	const size_t k = slabs->number == 1 ? 0 : round / slabs->rounds;

	return (struct slab){k, round - k * slabs->rounds, bb_block_start(&slabs->blocks, k),
			     bb_block_count(&slabs->blocks, k), bb_block_count(&slabs->blocks, 0)};
}

/* The longest slab of what a role would be prepared for. */
static size_t slab_most(size_t total, size_t limit)
{
	return bb_part_count(total, bb_pieces(total, limit), 0);
}

/* Slots in TMP alternate: what arrives in one round leaves in the next. */
static struct bb_place slot(size_t base, size_t round, const struct slab *slab)
{
	return bb_at(BB_TMP, base + (round & 1 ? slab->longest : 0));
}

/* Elements of at most two slots for the slabs of a count. */
static size_t two_slots(const struct bb_shape *shape)
{
	return 2 * slab_most(shape->count, shape->chunk);
}

static size_t slots_in_use(const struct bb_shape *shape)
{
	return bb_pieces(shape->count, shape->chunk) == 1 ? shape->count : two_slots(shape);
}

static size_t block_slabs_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return slabs_prepare(role, shape->count, shape->chunk, (size_t)shape->nranks - 1);
}

/* ---- all_gather, all_reduce, reduce_scatter -------------------------------------------- */

void bb_ring_gather_all(struct bb_writer *w, size_t i, const struct bb_blocks *blocks,
			struct bb_place own)
{
	const int mine = bb_ahead(w, -(int)i), theirs = bb_ahead(w, -(int)i - 1);

	bb_send(w, bb_ahead(w, 1), i ? bb_block_at(BB_OUT, blocks, mine) : own,
		bb_block_count(blocks, (size_t)mine));
	bb_recv(w, bb_ahead(w, -1), bb_block_at(BB_OUT, blocks, theirs),
		bb_block_count(blocks, (size_t)theirs), (int)i == w->n - 2);
}

static size_t all_reduce_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return slabs_prepare(role, shape->count, shape->chunk * (size_t)shape->nranks,
			     2 * ((size_t)shape->nranks - 1));
}

/* Reduce-scatter of balanced parts, then all-gather of them. */
static void all_reduce_round(struct bb_writer *w, size_t round)
{
	const struct slab slab = slab_of(w, round);
	const struct bb_blocks blocks = bb_blocks_of(slab.start, slab.count, (size_t)w->n);
	const int i = (int)slab.round, others = w->n - 1;

	if (i < others) {
		const int s = bb_ahead(w, -i - 1), d = bb_ahead(w, -i - 2);

		bb_send(w, bb_ahead(w, 1), bb_block_at(i ? BB_OUT : BB_IN, &blocks, s),
			bb_block_count(&blocks, (size_t)s));
		bb_add(w, bb_ahead(w, -1), bb_block_at(BB_IN, &blocks, d),
		       bb_block_at(BB_OUT, &blocks, d), bb_block_count(&blocks, (size_t)d), false);
	} else {
		bb_ring_gather_all(w, (size_t)(i - others), &blocks,
				   bb_block_at(BB_OUT, &blocks, w->rank));
	}
}

const struct bb_algorithm bb_ring_all_reduce = {
	BB_NAMED("ring"),
	.collective = &bb_all_reduce,
	.meaning =
		"The data is cut into n blocks; sums of blocks travel around the ring until each "
		"rank owns one complete block, then the complete blocks travel around once more.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

static void all_gather_round(struct bb_writer *w, size_t round)
{
	const struct slab slab = slab_of(w, round);
	const struct bb_blocks blocks = bb_blocks_within(slab.start, slab.count, w->shape->count);
	const struct bb_place own = bb_at(BB_IN, slab.start);

	bb_ring_gather_all(w, slab.round, &blocks, own);
	if (!slab.round)
		bb_copy_own(w, own, bb_block_at(BB_OUT, &blocks, w->rank), slab.count, true);
}

const struct bb_algorithm bb_ring_all_gather = {
	BB_NAMED("ring"),
	.collective = &bb_all_gather,
	.meaning =
		"Every rank passes on to the next rank the block that it received last, starting "
		"with its own, until every rank has all blocks.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = block_slabs_prepare,
	.round = all_gather_round,
};

static size_t reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	return shape->nranks > 2 ? two_slots(shape) : 0;
}

static void reduce_scatter_round(struct bb_writer *w, size_t round)
{
	const struct slab slab = slab_of(w, round);
	const struct bb_blocks blocks = bb_blocks_within(slab.start, slab.count, w->shape->count);
	const int i = (int)slab.round;
	const bool last = i == w->n - 2;

	bb_send(w, bb_ahead(w, 1),
		i ? slot(0, round - 1, &slab) : bb_block_at(BB_IN, &blocks, bb_ahead(w, -1)),
		slab.count);
	bb_add(w, bb_ahead(w, -1), bb_block_at(BB_IN, &blocks, bb_ahead(w, -i - 2)),
	       last ? bb_at(BB_OUT, slab.start) : slot(0, round, &slab), slab.count, last);
}

const struct bb_algorithm bb_ring_reduce_scatter = {
	BB_NAMED("ring"),
	.collective = &bb_reduce_scatter,
	.meaning = "Sums of blocks travel around the ring; each rank adds its own share to what "
		   "arrives and passes it on; a block's sum is complete at the rank it belongs to.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = reduce_scatter_tmp,
	.prepare = block_slabs_prepare,
	.round = reduce_scatter_round,
};

/* ---- broadcast, reduce: a chain with chunks in flight on every link --------------------- */

static size_t chain_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return slabs_prepare(role, shape->count, shape->chunk, 1) + (size_t)shape->nranks - 2;
}

/* Chunk that a rank LAG links behind the start handles in ROUND; false: none. */
static bool chunk_of(const struct bb_writer *w, size_t round, int lag, struct slab *chunk)
{
	const struct slabs *slabs = (const struct slabs *)w->role->at;

	if (lag < 0 || round < (size_t)lag || round - (size_t)lag >= slabs->number)
		return false;
	*chunk = slab_of(w, round - (size_t)lag);
	return true;
}

static void broadcast_round(struct bb_writer *w, size_t round)
{
	const int behind = bb_behind(w->shape, w->rank);
	const bool last = behind == w->n - 1;
	struct slab chunk;

	if (!last && chunk_of(w, round, behind, &chunk))
		bb_send(w, bb_ahead(w, 1), bb_at(behind ? BB_OUT : BB_IN, chunk.start),
			chunk.count);
	if (behind && chunk_of(w, round, behind - 1, &chunk))
		bb_recv(w, bb_ahead(w, -1), bb_at(BB_OUT, chunk.start), chunk.count, last);
	if (!behind && chunk_of(w, round, 0, &chunk))
		bb_copy_own(w, bb_at(BB_IN, chunk.start), bb_at(BB_OUT, chunk.start), chunk.count,
			    true);
}

const struct bb_algorithm bb_ring_broadcast = {
	BB_NAMED("ring"),
	.collective = &bb_broadcast,
	.meaning = "A chain: the root sends chunk after chunk to the next rank, and every rank "
		   "passes a chunk on while it receives the following one.",
	.prepare = chain_prepare,
	.round = broadcast_round,
};

/* All ranks keep what they pass on, except the root and the first rank of the chain. */
static size_t reduce_tmp(const struct bb_shape *shape, int rank)
{
	return bb_behind(shape, rank) < 2 ? 0 : slots_in_use(shape);
}

/* Chains that end at the root begin behind it. */
static int behind_first(const struct bb_writer *w)
{
	return bb_wrap(w->rank - w->shape->root - 1, w->n);
}

static void reduce_round(struct bb_writer *w, size_t round)
{
	const int behind = behind_first(w);
	const bool root = bb_is_root(w);
	struct slab chunk;

	if (!root && chunk_of(w, round, behind, &chunk))
		bb_send(w, bb_ahead(w, 1),
			behind ? slot(0, chunk.index, &chunk) : bb_at(BB_IN, chunk.start),
			chunk.count);
	if (behind && chunk_of(w, round, behind - 1, &chunk))
		bb_add(w, bb_ahead(w, -1), bb_at(BB_IN, chunk.start),
		       root ? bb_at(BB_OUT, chunk.start) : slot(0, chunk.index, &chunk),
		       chunk.count, root);
}

const struct bb_algorithm bb_ring_reduce = {
	BB_NAMED("ring"),
	.collective = &bb_reduce,
	.meaning = "A chain that ends at the root: every rank adds its own chunk to the sum that "
		   "arrives and passes it on while the following chunk arrives.",
	.tmp_count = reduce_tmp,
	.prepare = chain_prepare,
	.round = reduce_round,
};

/* ---- gather, scatter: blocks forwarded along the chain ---------------------------------- */

static void gather_round(struct bb_writer *w, size_t round)
{
	const struct slab slab = slab_of(w, round);
	const struct bb_blocks blocks = bb_blocks_within(slab.start, slab.count, w->shape->count);
	const int i = (int)slab.round, behind = behind_first(w);
	const bool root = bb_is_root(w);
	const struct bb_place in = bb_at(BB_IN, slab.start);

	if (!root && i <= behind)
		bb_send(w, bb_ahead(w, 1), i ? slot(0, round - 1, &slab) : in, slab.count);
	if (i < behind)
		bb_recv(w, bb_ahead(w, -1),
			root ? bb_block_at(BB_OUT, &blocks, bb_ahead(w, -i - 1))
			     : slot(0, round, &slab),
			slab.count, root);
	if (root && !i)
		bb_copy_own(w, in, bb_block_at(BB_OUT, &blocks, w->rank), slab.count, true);
}

static size_t gather_tmp(const struct bb_shape *shape, int rank)
{
	return bb_behind(shape, rank) < 2 ? 0 : two_slots(shape);
}

const struct bb_algorithm bb_ring_gather = {
	BB_NAMED("ring"),
	.collective = &bb_gather,
	.meaning =
		"A chain that ends at the root: every rank sends its own block to the next rank, "
		"then passes on the blocks that arrive from behind.",
	.tmp_count = gather_tmp,
	.prepare = block_slabs_prepare,
	.round = gather_round,
};

static void scatter_round(struct bb_writer *w, size_t round)
{
	const struct slab slab = slab_of(w, round);
	const struct bb_blocks blocks = bb_blocks_within(slab.start, slab.count, w->shape->count);
	const int n = w->n, i = (int)slab.round, behind = bb_behind(w->shape, w->rank);
	const int out = n - 1 - i + behind, in = out - 1; /* whose blocks move, from the root on */
	const struct bb_place own = bb_at(BB_OUT, slab.start);

	if (out > behind && out < n)
		bb_send(w, bb_ahead(w, 1),
			behind ? slot(0, round - 1, &slab)
			       : bb_block_at(BB_IN, &blocks, bb_wrap(w->shape->root + out, n)),
			slab.count);
	if (behind && in >= behind && in < n)
		bb_recv(w, bb_ahead(w, -1), in == behind ? own : slot(0, round, &slab), slab.count,
			in == behind);
	if (!behind && !i)
		bb_copy_own(w, bb_block_at(BB_IN, &blocks, w->rank), own, slab.count, true);
}

static size_t scatter_tmp(const struct bb_shape *shape, int rank)
{
	const int behind = bb_behind(shape, rank);

	return !behind || behind == shape->nranks - 1 ? 0 : two_slots(shape);
}

const struct bb_algorithm bb_ring_scatter = {
	BB_NAMED("ring"),
	.collective = &bb_scatter,
	.meaning =
		"A chain that begins at the root: blocks that go farthest leave first, and every "
		"rank passes on what is not its own.",
	.tmp_count = scatter_tmp,
	.prepare = block_slabs_prepare,
	.round = scatter_round,
};

/* ---- alltoall, alltoallv: a block at a time takes its hops ------------------------------ */

static size_t longest_block(const struct bb_shape *shape)
{
	const size_t cells = (size_t)shape->nranks * (size_t)shape->nranks;
	size_t most = shape->matrix ? 0 : shape->count;

	for (size_t i = 0; i < cells && shape->matrix; i++)
		most = bb_most(most, shape->matrix[i]);
	return most;
}

static size_t alltoall_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const size_t n = (size_t)shape->nranks;

	return slabs_prepare(role, longest_block(shape), shape->chunk, n * (n - 1) / 2);
}

static size_t alltoall_tmp(const struct bb_shape *shape, int rank)
{
	return shape->nranks > 2 ? 2 * slab_most(longest_block(shape), shape->chunk) : 0;
}

/* The distance of the blocks that move in round I of a slab; *HOP = how far they have moved. */
static int distance_of(size_t i, int *hop)
{
	size_t d = (size_t)((sqrt(8.0 * (double)i + 1.0) + 1.0) / 2.0);

	while (d * (d - 1) / 2 > i)
		d--;
	while (d * (d + 1) / 2 <= i)
		d++;
	*hop = (int)(i - d * (d - 1) / 2);
	return (int)d;
}

static void alltoall_round(struct bb_writer *w, size_t round)
{
	const struct slab slab = slab_of(w, round);
	const size_t saved = bb_alltoall_saved(w->shape, w->rank);
	const size_t number = ((const struct slabs *)w->role->at)->number;
	int hop;
	const int distance = distance_of(slab.round, &hop);

	if (!round)
		bb_alltoall_keep(w);
	for (int arrives = 0; arrives < 2; arrives++) {
		const int source = bb_ahead(w, -hop - arrives);
		const int destination = bb_wrap(source + distance, w->n);
		/* The part of the block that this slab carries. */
		const size_t all = bb_alltoall_count(w->shape, source, destination);
		const size_t start = bb_part_start(all, number, slab.index);
		const size_t count = bb_part_count(all, number, slab.index);

		if (arrives)
			bb_recv(w, bb_ahead(w, -1),
				destination == w->rank
					? bb_at(BB_OUT,
						bb_alltoall_out(w->shape, source, w->rank) + start)
					: slot(saved, round, &slab),
				count, destination == w->rank);
		else
			bb_send(w, bb_ahead(w, 1),
				source == w->rank
					? bb_plus(bb_alltoall_from(w->shape, source, destination),
						  start)
					: slot(saved, round - 1, &slab),
				count);
	}
}

#define RING_EXCHANGE                                                                              \
	.meaning = "Every block travels from neighbour to neighbour to its destination: first "    \
		   "all blocks that go one rank, then those that go two, and so on.",              \
	.tmp_count = alltoall_tmp, .prepare = alltoall_prepare, .round = alltoall_round,           \
	BB_NAMED("ring")

const struct bb_algorithm bb_ring_alltoall = {RING_EXCHANGE, .collective = &bb_alltoall,
					      .flags = BB_SHIFT_INVARIANT};
const struct bb_algorithm bb_ring_alltoallv = {RING_EXCHANGE, .collective = &bb_alltoallv};

/* ---- sendrecv: one hop ----------------------------------------------------------------- */

/* Nothing is forwarded, so chunks would only add rounds; in place they keep TMP small. */
static size_t sendrecv_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	return slabs_prepare(role, shape->count, shape->in_place ? shape->chunk : 0, 1) +
	       shape->in_place;
}

static size_t sendrecv_tmp(const struct bb_shape *shape, int rank)
{
	return shape->in_place ? slots_in_use(shape) : 0;
}

static void sendrecv_round(struct bb_writer *w, size_t round)
{
	const bool saved = w->shape->in_place;
	struct slab chunk;

	if (chunk_of(w, round, saved, &chunk)) {
		bb_send(w, bb_ahead(w, 1),
			saved ? slot(0, chunk.index, &chunk) : bb_at(BB_IN, chunk.start),
			chunk.count);
		bb_recv(w, bb_ahead(w, -1), bb_at(BB_OUT, chunk.start), chunk.count, true);
	}
	if (saved && chunk_of(w, round, 0, &chunk))
		bb_copy(w, bb_at(BB_IN, chunk.start), slot(0, chunk.index, &chunk), chunk.count,
			false);
}

const struct bb_algorithm bb_ring_sendrecv = {
	BB_NAMED("ring"),
	.collective = &bb_sendrecv,
	.meaning = "Every rank sends to the next rank and receives from the previous one directly, "
		   "in one message (in place: chunk by chunk).",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = sendrecv_tmp,
	.prepare = sendrecv_prepare,
	.round = sendrecv_round,
};
