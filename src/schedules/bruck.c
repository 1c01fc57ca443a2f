/*
 * bruck.c - Bruck's algorithms: about log2(n) rounds for any number of ranks.
 */
#include "schedules/parts.h"

/* ---- all_gather ---------------------------------------------------------------------- */

/* The blocks of ranks [first, first + number) as one or two runs. */
static void runs_of(int n, int first, int number, int from[2], int length[2])
{
	from[0] = first;
	length[0] = first + number <= n ? number : n - first;
	from[1] = 0;
	length[1] = number - length[0];
}

static void all_gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	int n = shape->nranks, rank = role->rank, far = 1 << round, from[2], length[2];
	int number = n - far < far ? n - far : far;
	int later =
		n - 2 * far < 2 * far ? n - 2 * far : 2 * far; /* blocks sent in the next round */
	size_t count = shape->count;
	struct bb_place own = bb_at(BB_OUT, (size_t)rank * count);

	for (int k = 0; k < 2; k++) {
		int ahead = bb_wrap(rank + far, n);

		/* A single block to send is the rank's own, in any round. */
		runs_of(n, rank, number, from, length);
		bb_send(w, bb_wrap(rank - far, n),
			number == 1 ? bb_at(BB_IN, 0) : bb_at(BB_OUT, (size_t)from[k] * count),
			(size_t)length[k] * count);
		runs_of(n, ahead, number, from, length);
		bb_recv(w, ahead, bb_at(BB_OUT, (size_t)from[k] * count), (size_t)length[k] * count,
			far + (k ? length[0] : 0) >= later);
	}
	if (!round && !shape->in_place)
		bb_copy(w, bb_at(BB_IN, 0), own, count, n <= 3);
}

const struct bb_algorithm bb_bruck_all_gather = {
	.name = "bruck",
	.collective = &bb_all_gather,
	.meaning = "In round k every rank sends all the blocks it has (as many as are missing) to "
		   "the rank 2^k behind and receives those of the rank 2^k ahead.",
	.prepare = bb_prepare_log,
	.round = all_gather_round,
};

/* ---- alltoall ------------------------------------------------------------------------ */

/*
 * A block for a rank DISTANCE ahead moves 2^k ranks in stage k for every bit k of DISTANCE. The
 * blocks of a stage are packed, sent as one message, and unpacked. TMP holds the copy of IN, blocks
 * in transit by distance, packed blocks, and received blocks.
 */
#define COPIES BB_MAX_STEPS /* of one round of packing or unpacking */

/* The number of distances below N with bit K, and the I-th of them. */
static int with_bit(int n, int k)
{
	int low = n & ((2 << k) - 1), more = low - (1 << k);

	return (n >> (k + 1) << k) + (more > 0 ? more : 0);
}

static int distance_of(int k, int i)
{
	return (i >> k << (k + 1)) | (1 << k) | (i & ((1 << k) - 1));
}

struct stage {
	int bit;
	int blocks;
	size_t round;  /* of the stage */
	size_t copies; /* rounds of packing; as many of unpacking, one exchange between */
};

static size_t stage_rounds(int blocks)
{
	return 2 * bb_pieces((size_t)blocks, COPIES) + 1;
}

static struct stage stage_of(int n, size_t round)
{
	struct stage s = {.blocks = with_bit(n, 0), .round = round};

	while (s.round >= stage_rounds(s.blocks)) {
		s.round -= stage_rounds(s.blocks);
		s.bit++;
		s.blocks = with_bit(n, s.bit);
	}
	s.copies = bb_pieces((size_t)s.blocks, COPIES);
	return s;
}

static size_t alltoall_tmp(const struct bb_shape *shape, int rank)
{
	size_t half = (size_t)shape->nranks / 2 * shape->count;
	size_t under_way = (size_t)shape->nranks * shape->count;

	return bb_alltoall_saved(shape, rank) + under_way + 2 * half;
}

static void alltoall_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	int n = shape->nranks;

	role->rank = rank;
	role->rounds = 1 + shape->in_place; /* the own block */
	for (int k = 0; 1 << k < n; k++)
		role->rounds += stage_rounds(with_bit(n, k));
}

static void pack(struct bb_writer *w, const struct bb_shape *shape, int rank, struct stage s,
		 struct bb_place under_way, struct bb_place packed)
{
	int first = (int)s.round * COPIES;

	for (int i = first; i < s.blocks && i < first + COPIES; i++) {
		int distance = distance_of(s.bit, i);
		bool moved = distance & ((1 << s.bit) - 1);
		int to = bb_wrap(rank + distance, shape->nranks);

		bb_copy(w,
			moved ? bb_plus(under_way, (size_t)distance * shape->count)
			      : bb_alltoall_from(shape, rank, to),
			bb_plus(packed, (size_t)i * shape->count), shape->count, false);
	}
}

static void unpack(struct bb_writer *w, const struct bb_shape *shape, int rank, struct stage s,
		   struct bb_place under_way, struct bb_place arrived)
{
	int first = (int)(s.round - s.copies - 1) * COPIES;

	for (int i = first; i < s.blocks && i < first + COPIES; i++) {
		int distance = distance_of(s.bit, i);
		bool there = !(distance >> (s.bit + 1));
		int from = bb_wrap(rank - distance, shape->nranks);

		bb_copy(w, bb_plus(arrived, (size_t)i * shape->count),
			there ? bb_at(BB_OUT, (size_t)from * shape->count)
			      : bb_plus(under_way, (size_t)distance * shape->count),
			shape->count, there);
	}
}

static void alltoall_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			   struct bb_writer *w)
{
	int n = shape->nranks, rank = role->rank;
	struct bb_place under_way = bb_at(BB_TMP, bb_alltoall_saved(shape, rank));
	struct bb_place packed = bb_plus(under_way, (size_t)n * shape->count);
	struct bb_place arrived = bb_plus(packed, (size_t)n / 2 * shape->count);
	struct stage s;

	if (bb_alltoall_saves(w, shape, rank, &round))
		return;
	if (!round) {
		bb_alltoall_keep(w, shape, rank);
		return;
	}
	s = stage_of(n, round - 1);
	if (s.round < s.copies) {
		pack(w, shape, rank, s, under_way, packed);
	} else if (s.round > s.copies) {
		unpack(w, shape, rank, s, under_way, arrived);
	} else {
		size_t count = (size_t)s.blocks * shape->count;

		bb_send(w, bb_wrap(rank + (1 << s.bit), n), packed, count);
		bb_recv(w, bb_wrap(rank - (1 << s.bit), n), arrived, count, false);
	}
}

const struct bb_algorithm bb_bruck_alltoall = {
	.name = "bruck",
	.collective = &bb_alltoall,
	.meaning = "In stage k every rank packs the blocks whose remaining distance has bit k set "
		   "into "
		   "one message and sends it to the rank 2^k ahead.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = alltoall_tmp,
	.prepare = alltoall_prepare,
	.round = alltoall_round,
};
