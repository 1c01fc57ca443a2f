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
};

_Static_assert(sizeof(struct slabs) <= sizeof(((struct bb_role *)0)->at), "fits a role");

static const struct slabs *slabs_in(const struct bb_role *role)
{
	return (const struct slabs *)role->at;
}

/* Cut TOTAL elements into slabs of at most LIMIT (0: one slab) of ROUNDS rounds each. */
static void slabs_prepare(struct bb_role *role, int rank, size_t total, size_t limit, size_t rounds)
{
	struct slabs *slabs = (struct slabs *)role->at;

	slabs->number = bb_pieces(total, limit);
	slabs->rounds = rounds;
	slabs->blocks = bb_blocks_of(0, total, slabs->number);
	bb_role_fill(role, rank, slabs->number * rounds);
}

static struct slab slab_of(const struct bb_role *role, size_t round)
{
	const struct slabs *slabs = slabs_in(role);
	const size_t k = slabs->number == 1 ? 0 : round / slabs->rounds;

	return (struct slab){k, round - k * slabs->rounds, bb_block_start(&slabs->blocks, k),
			     bb_block_count(&slabs->blocks, k)};
}

/* The longest slab: of a prepared role, or of what a role would be prepared for. */
static size_t slab_longest(const struct bb_role *role)
{
	return bb_block_count(&slabs_in(role)->blocks, 0);
}

static size_t slab_most(size_t total, size_t limit)
{
	return bb_part_count(total, bb_pieces(total, limit), 0);
}

/* ---- all_gather of blocks ------------------------------------------------------------- */

void bb_ring_all_gather_part(struct bb_writer *w, int n, int rank, size_t i,
			     const struct bb_blocks *blocks, struct bb_place own)
{
	int mine = bb_wrap(rank - (int)i, n), theirs = bb_wrap(rank - (int)i - 1, n);
	struct bb_place from = i ? bb_at(BB_OUT, bb_block_start(blocks, mine)) : own;

	bb_send(w, bb_wrap(rank + 1, n), from, bb_block_count(blocks, mine));
	bb_recv(w, bb_wrap(rank - 1, n), bb_at(BB_OUT, bb_block_start(blocks, theirs)),
		bb_block_count(blocks, theirs), (int)i == n - 2);
}

/* ---- all_reduce: reduce-scatter of balanced parts, then all-gather of them ------------- */

static void all_reduce_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	slabs_prepare(role, rank, shape->count, shape->chunk * (size_t)shape->nranks,
		      2 * ((size_t)shape->nranks - 1));
}

static void all_reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	struct slab slab = slab_of(role, round);
	int n = shape->nranks, rank = role->rank, i = (int)slab.round;
	struct bb_blocks blocks = bb_blocks_of(slab.start, slab.count, n);

	if (i < n - 1) {
		int s = bb_wrap(rank - i - 1, n), d = bb_wrap(rank - i - 2, n);
		size_t start = bb_block_start(&blocks, d);

		bb_send(w, bb_wrap(rank + 1, n),
			bb_at(i ? BB_OUT : BB_IN, bb_block_start(&blocks, s)),
			bb_block_count(&blocks, s));
		bb_add(w, bb_wrap(rank - 1, n), bb_at(BB_IN, start), bb_at(BB_OUT, start),
		       bb_block_count(&blocks, d), false);
	} else {
		bb_ring_all_gather_part(w, n, rank, (size_t)(i - (n - 1)), &blocks,
					bb_at(BB_OUT, bb_block_start(&blocks, rank)));
	}
}

const struct bb_algorithm bb_ring_all_reduce = {
	.name = "ring",
	.collective = &bb_all_reduce,
	.meaning =
		"The data is cut into n blocks; sums of blocks travel around the ring until each "
		"rank owns one complete block, then the complete blocks travel around once more.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

/* ---- all_gather ---------------------------------------------------------------------- */

static void block_slabs_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	slabs_prepare(role, rank, shape->count, shape->chunk, (size_t)shape->nranks - 1);
}

static void all_gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	struct slab slab = slab_of(role, round);
	int n = shape->nranks, rank = role->rank;
	struct bb_blocks blocks = bb_blocks_within(slab.start, slab.count, shape->count);
	struct bb_place own = bb_at(BB_IN, slab.start);

	bb_ring_all_gather_part(w, n, rank, slab.round, &blocks, own);
	if (!slab.round && !shape->in_place)
		bb_copy(w, own, bb_at(BB_OUT, bb_block_start(&blocks, rank)), slab.count, true);
}

const struct bb_algorithm bb_ring_all_gather = {
	.name = "ring",
	.collective = &bb_all_gather,
	.meaning =
		"Every rank passes on to the next rank the block that it received last, starting "
		"with its own, until every rank has all blocks.",
	.flags = BB_SHIFT_INVARIANT,
	.prepare = block_slabs_prepare,
	.round = all_gather_round,
};

/* ---- reduce_scatter ------------------------------------------------------------------ */

/* Two slots in TMP alternate: what arrives in one round leaves in the next. */
static struct bb_place slot(size_t base, size_t round, size_t length)
{
	return bb_at(BB_TMP, base + (round & 1 ? length : 0));
}

static size_t two_slots(const struct bb_shape *shape, int rank)
{
	return shape->nranks > 2 ? 2 * slab_most(shape->count, shape->chunk) : 0;
}

static void reduce_scatter_round(const struct bb_shape *shape, const struct bb_role *role,
				 size_t round, struct bb_writer *w)
{
	struct slab slab = slab_of(role, round);
	int n = shape->nranks, rank = role->rank, i = (int)slab.round;
	int s = bb_wrap(rank - i - 1, n), d = bb_wrap(rank - i - 2, n);
	struct bb_blocks blocks = bb_blocks_within(slab.start, slab.count, shape->count);
	size_t length = slab_longest(role);
	struct bb_place out = bb_at(BB_OUT, slab.start);

	bb_send(w, bb_wrap(rank + 1, n),
		i ? slot(0, round - 1, length) : bb_at(BB_IN, bb_block_start(&blocks, s)),
		slab.count);
	bb_add(w, bb_wrap(rank - 1, n), bb_at(BB_IN, bb_block_start(&blocks, d)),
	       i == n - 2 ? out : slot(0, round, length), slab.count, i == n - 2);
}

const struct bb_algorithm bb_ring_reduce_scatter = {
	.name = "ring",
	.collective = &bb_reduce_scatter,
	.meaning = "Sums of blocks travel around the ring; each rank adds its own share to what "
		   "arrives and passes it on; a block's sum is complete at the rank it belongs to.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = two_slots,
	.prepare = block_slabs_prepare,
	.round = reduce_scatter_round,
};

/* ---- broadcast, reduce: a chain with chunks in flight on every link --------------------- */

static void chain_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	slabs_prepare(role, rank, shape->count, shape->chunk, 1);
	role->rounds += (size_t)shape->nranks - 2;
}

/* Chunk that a rank LAG links behind the start handles in ROUND; false: none. */
static bool chunk_of(const struct bb_role *role, size_t round, int lag, struct slab *chunk)
{
	if (lag < 0 || round < (size_t)lag || round - (size_t)lag >= slabs_in(role)->number)
		return false;
	*chunk = slab_of(role, round - (size_t)lag);
	return true;
}

static void broadcast_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			    struct bb_writer *w)
{
	struct slab chunk;
	int n = shape->nranks, rank = role->rank, behind = bb_wrap(rank - shape->root, n);
	bool last = behind == n - 1;

	if (!last && chunk_of(role, round, behind, &chunk))
		bb_send(w, bb_wrap(rank + 1, n), bb_at(behind ? BB_OUT : BB_IN, chunk.start),
			chunk.count);
	if (behind && chunk_of(role, round, behind - 1, &chunk))
		bb_recv(w, bb_wrap(rank - 1, n), bb_at(BB_OUT, chunk.start), chunk.count, last);
	if (!behind && chunk_of(role, round, 0, &chunk))
		bb_copy_over(w, shape, chunk.start, chunk.count);
}

const struct bb_algorithm bb_ring_broadcast = {
	.name = "ring",
	.collective = &bb_broadcast,
	.meaning = "A chain: the root sends chunk after chunk to the next rank, and every rank "
		   "passes a chunk on while it receives the following one.",
	.prepare = chain_prepare,
	.round = broadcast_round,
};

static size_t reduce_tmp(const struct bb_shape *shape, int rank)
{
	int behind = bb_wrap(rank - shape->root, shape->nranks);
	size_t slots = bb_least(2, bb_pieces(shape->count, shape->chunk));

	return behind < 2 ? 0 : slots * slab_most(shape->count, shape->chunk);
}

static void reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	struct slab chunk;
	int n = shape->nranks, rank = role->rank;
	int behind = bb_wrap(rank - shape->root - 1, n); /* the root is last */
	bool root = behind == n - 1;
	size_t length = slab_longest(role);

	if (!root && chunk_of(role, round, behind, &chunk))
		bb_send(w, bb_wrap(rank + 1, n),
			behind ? slot(0, chunk.index, length) : bb_at(BB_IN, chunk.start),
			chunk.count);
	if (behind && chunk_of(role, round, behind - 1, &chunk))
		bb_add(w, bb_wrap(rank - 1, n), bb_at(BB_IN, chunk.start),
		       root ? bb_at(BB_OUT, chunk.start) : slot(0, chunk.index, length),
		       chunk.count, root);
}

const struct bb_algorithm bb_ring_reduce = {
	.name = "ring",
	.collective = &bb_reduce,
	.meaning = "A chain that ends at the root: every rank adds its own chunk to the sum that "
		   "arrives and passes it on while the following chunk arrives.",
	.tmp_count = reduce_tmp,
	.prepare = chain_prepare,
	.round = reduce_round,
};

/* ---- gather, scatter: blocks forwarded along the chain ---------------------------------- */

static void gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	struct slab slab = slab_of(role, round);
	int n = shape->nranks, rank = role->rank, i = (int)slab.round;
	int behind = bb_wrap(rank - shape->root - 1, n);
	bool root = behind == n - 1;
	int source = bb_wrap(rank - i - 1, n);
	size_t length = slab_longest(role);
	struct bb_place out = bb_at(BB_OUT, (size_t)source * shape->count + slab.start);

	if (!root && i <= behind)
		bb_send(w, bb_wrap(rank + 1, n),
			i ? slot(0, round - 1, length) : bb_at(BB_IN, slab.start), slab.count);
	if (i < behind)
		bb_recv(w, bb_wrap(rank - 1, n), root ? out : slot(0, round, length), slab.count,
			root);
	if (root && !i && !shape->in_place)
		bb_copy(w, bb_at(BB_IN, slab.start),
			bb_at(BB_OUT, (size_t)rank * shape->count + slab.start), slab.count, true);
}

/* All ranks forward blocks, except the root and the first rank of the chain. */
static size_t gather_tmp(const struct bb_shape *shape, int rank)
{
	int behind = bb_wrap(rank - shape->root, shape->nranks);

	return behind < 2 ? 0 : 2 * slab_most(shape->count, shape->chunk);
}

const struct bb_algorithm bb_ring_gather = {
	.name = "ring",
	.collective = &bb_gather,
	.meaning =
		"A chain that ends at the root: every rank sends its own block to the next rank, "
		"then passes on the blocks that arrive from behind.",
	.tmp_count = gather_tmp,
	.prepare = block_slabs_prepare,
	.round = gather_round,
};

static void scatter_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			  struct bb_writer *w)
{
	struct slab slab = slab_of(role, round);
	int n = shape->nranks, rank = role->rank, i = (int)slab.round;
	int behind = bb_wrap(rank - shape->root, n);
	int out = n - 1 - i + behind, in = out - 1; /* whose blocks move, counted from the root */
	size_t length = slab_longest(role);
	struct bb_place own = bb_at(BB_OUT, slab.start);

	if (out > behind && out < n) {
		size_t start = (size_t)bb_wrap(shape->root + out, n) * shape->count + slab.start;

		bb_send(w, bb_wrap(rank + 1, n),
			behind ? slot(0, round - 1, length) : bb_at(BB_IN, start), slab.count);
	}
	if (behind && in >= behind && in < n)
		bb_recv(w, bb_wrap(rank - 1, n), in == behind ? own : slot(0, round, length),
			slab.count, in == behind);
	if (!behind && !i && !shape->in_place)
		bb_copy(w, bb_at(BB_IN, (size_t)rank * shape->count + slab.start), own, slab.count,
			true);
}

static size_t scatter_tmp(const struct bb_shape *shape, int rank)
{
	int behind = bb_wrap(rank - shape->root, shape->nranks);

	return !behind || behind == shape->nranks - 1 ? 0
						      : 2 * slab_most(shape->count, shape->chunk);
}

const struct bb_algorithm bb_ring_scatter = {
	.name = "ring",
	.collective = &bb_scatter,
	.meaning =
		"A chain that begins at the root: blocks that go farthest leave first, and every "
		"rank passes on what is not its own.",
	.tmp_count = scatter_tmp,
	.prepare = block_slabs_prepare,
	.round = scatter_round,
};

/* ---- alltoall, alltoallv: a block at a time takes its hops ------------------------------ */

static void alltoall_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	size_t n = (size_t)shape->nranks;

	slabs_prepare(role, rank, bb_alltoall_longest(shape), shape->chunk, n * (n - 1) / 2);
	role->rounds += shape->in_place;
}

static size_t alltoall_tmp(const struct bb_shape *shape, int rank)
{
	size_t slots = shape->nranks > 2 ? 2 : 0;

	return bb_alltoall_saved(shape, rank) +
	       slots * slab_most(bb_alltoall_longest(shape), shape->chunk);
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

/* The part of a block of COUNT elements that slab INDEX carries. */
static size_t piece_of(const struct bb_role *role, size_t index, size_t count, size_t *start)
{
	const size_t number = slabs_in(role)->number;

	*start = bb_part_start(count, number, index);
	return bb_part_count(count, number, index);
}

static void alltoall_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	int n = shape->nranks, rank = role->rank, hop, distance, source;
	size_t saved = bb_alltoall_saved(shape, rank), start, count, length;
	struct slab slab;

	if (bb_alltoall_saves(w, shape, rank, &round))
		return;
	if (!round)
		bb_alltoall_keep(w, shape, rank);
	slab = slab_of(role, round);
	length = slab_longest(role);
	distance = distance_of(slab.round, &hop);

	source = bb_wrap(rank - hop, n);
	count = piece_of(role, slab.index,
			 bb_alltoall_count(shape, source, bb_wrap(source + distance, n)), &start);
	bb_send(w, bb_wrap(rank + 1, n),
		hop ? slot(saved, round - 1, length)
		    : bb_plus(bb_alltoall_from(shape, rank, bb_wrap(rank + distance, n)), start),
		count);

	source = bb_wrap(rank - hop - 1, n);
	count = piece_of(role, slab.index,
			 bb_alltoall_count(shape, source, bb_wrap(source + distance, n)), &start);
	bb_recv(w, bb_wrap(rank - 1, n),
		hop == distance - 1 ? bb_at(BB_OUT, bb_alltoall_out(shape, source, rank) + start)
				    : slot(saved, round, length),
		count, hop == distance - 1);
}

const struct bb_algorithm bb_ring_alltoall = {
	.name = "ring",
	.collective = &bb_alltoall,
	.meaning = "Every block travels from neighbour to neighbour to its destination: first all "
		   "blocks that go one rank, then those that go two, and so on.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = alltoall_tmp,
	.prepare = alltoall_prepare,
	.round = alltoall_round,
};

const struct bb_algorithm bb_ring_alltoallv = {
	.name = "ring",
	.collective = &bb_alltoallv,
	.meaning = "Every block travels from neighbour to neighbour to its destination: first all "
		   "blocks that go one rank, then those that go two, and so on.",
	.tmp_count = alltoall_tmp,
	.prepare = alltoall_prepare,
	.round = alltoall_round,
};

/* ---- sendrecv: one hop ----------------------------------------------------------------- */

/* Nothing is forwarded, so chunks would only add rounds; in place they keep TMP small. */
static size_t sendrecv_chunk(const struct bb_shape *shape)
{
	return shape->in_place ? shape->chunk : 0;
}

static void sendrecv_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	slabs_prepare(role, rank, shape->count, sendrecv_chunk(shape), 1);
	role->rounds += shape->in_place;
}

static size_t sendrecv_tmp(const struct bb_shape *shape, int rank)
{
	size_t slots = bb_least(2, bb_pieces(shape->count, shape->chunk));

	return shape->in_place ? slots * slab_most(shape->count, shape->chunk) : 0;
}

static void sendrecv_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	struct slab chunk;
	int n = shape->nranks, rank = role->rank;
	bool saved = shape->in_place;
	size_t length = slab_longest(role);

	if (chunk_of(role, round, saved, &chunk)) {
		bb_send(w, bb_wrap(rank + 1, n),
			saved ? slot(0, chunk.index, length) : bb_at(BB_IN, chunk.start),
			chunk.count);
		bb_recv(w, bb_wrap(rank - 1, n), bb_at(BB_OUT, chunk.start), chunk.count, true);
	}
	if (saved && chunk_of(role, round, 0, &chunk))
		bb_copy(w, bb_at(BB_IN, chunk.start), slot(0, chunk.index, length), chunk.count,
			false);
}

const struct bb_algorithm bb_ring_sendrecv = {
	.name = "ring",
	.collective = &bb_sendrecv,
	.meaning = "Every rank sends to the next rank and receives from the previous one directly, "
		   "in one message (in place: chunk by chunk).",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = sendrecv_tmp,
	.prepare = sendrecv_prepare,
	.round = sendrecv_round,
};
