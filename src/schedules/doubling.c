/*
 * doubling.c - the distance between partners doubles or halves every round, so that there are about
 * log2(n) rounds. Recursive doubling and halving need a power of two of ranks, P: ranks beyond
 * first send their data to rank - P, their proxy, which sends the result back. Bruck's algorithms
 * work for any number.
 */
#include "schedules/parts.h"

/* ---- proxies ------------------------------------------------------------------------- */

/* A rank beyond P sends COUNT elements of IN to its proxy, which adds its own and writes the sum to
   SUM. */
static void power_before(struct bb_writer *w, const struct bb_power *plan, struct bb_place sum,
			 size_t count)
{
	if (w->rank >= plan->power)
		bb_send(w, w->rank - plan->power, bb_at(BB_IN, 0), count);
	else if (w->rank < plan->rest)
		bb_add(w, w->rank + plan->power, bb_at(BB_IN, 0), sum, count, false);
}

/* The proxy sends COUNT elements of FROM, the result, back to OUT. */
static void power_after(struct bb_writer *w, const struct bb_power *plan, struct bb_place from,
			size_t count)
{
	if (w->rank >= plan->power)
		bb_recv(w, w->rank - plan->power, bb_at(BB_OUT, 0), count, true);
	else if (w->rank < plan->rest)
		bb_send(w, w->rank + plan->power, from, count);
}

/* A round before, one for each level, and one after. */
static size_t power_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const struct bb_power plan = bb_power_of(shape->nranks);

	return (size_t)plan.levels + 2 * (plan.rest > 0);
}

/* ---- recursive doubling: all_reduce ---------------------------------------------------- */

/* In place, must IN be copied first, because nothing else allows it to be overwritten? */
static bool saves_in(const struct bb_shape *shape, const struct bb_power *plan)
{
	return shape->in_place && plan->levels % 2;
}

static size_t all_reduce_tmp(const struct bb_shape *shape, int rank)
{
	const bool uses = shape->nranks > 2 || shape->in_place;

	return uses && rank < bb_power_of(shape->nranks).power ? shape->count : 0;
}

static size_t all_reduce_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const struct bb_power plan = bb_power_of(shape->nranks);

	return (size_t)plan.levels + (plan.rest || saves_in(shape, &plan)) + (plan.rest > 0);
}

/* Sums alternate between OUT and TMP, because a rank may not overwrite what its partner still
   reads; the last one goes to OUT. */
static struct bb_place sum_of(const struct bb_power *plan, int level)
{
	return bb_at((plan->levels - 1 - level) % 2 ? BB_TMP : BB_OUT, 0);
}

static void all_reduce_round(struct bb_writer *w, size_t round)
{
	const struct bb_power plan = bb_power_of(w->n);
	const bool saves = saves_in(w->shape, &plan);
	const int rank = w->rank, level = (int)round - (plan.rest || saves);
	const size_t count = w->shape->count;
	const struct bb_place in = bb_at(BB_IN, 0), before = sum_of(&plan, level - 1);

	if (level < 0) {
		const struct bb_place sum = sum_of(&plan, level);

		power_before(w, &plan, sum, count);
		if (rank >= plan.rest && rank < plan.power && saves)
			bb_copy(w, in, sum, count, false);
	} else if (level < plan.levels && rank < plan.power) {
		const bool untouched = !level && rank >= plan.rest && !saves;
		const struct bb_place from = untouched ? in : before;

		bb_send(w, rank ^ (1 << level), from, count);
		bb_add(w, rank ^ (1 << level), from, sum_of(&plan, level), count,
		       level == plan.levels - 1 && rank >= plan.rest);
	} else if (level == plan.levels) {
		power_after(w, &plan, bb_at(BB_OUT, 0), count);
	}
}

const struct bb_algorithm bb_doubling_all_reduce = {
	BB_NAMED("recursive_doubling"),
	.collective = &bb_all_reduce,
	.meaning =
		"In round k, ranks 2^k apart swap all they have summed so far and both add it up; "
		"ranks beyond a power of two take part through a proxy.",
	.tmp_count = all_reduce_tmp,
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

/* ---- recursive doubling: all_gather, hypercube ------------------------------------------ */

static void all_gather_round(struct bb_writer *w, size_t round)
{
	const struct bb_power plan = bb_power_of(w->n);
	const struct bb_blocks blocks = bb_blocks_equal(w->shape);
	const int rank = w->rank, level = (int)round - (plan.rest > 0);
	const struct bb_place in = bb_at(BB_IN, 0);
	const size_t count = w->shape->count;

	if (!round && rank < plan.power)
		bb_copy_own(w, in, bb_block_at(BB_OUT, &blocks, rank), count,
			    plan.levels < 2 && rank >= plan.rest);
	if (level < 0) {
		if (rank >= plan.power)
			bb_send(w, rank - plan.power, in, count);
		else if (rank < plan.rest)
			bb_recv(w, rank + plan.power,
				bb_block_at(BB_OUT, &blocks, rank + plan.power), count, false);
	} else if (level < plan.levels && rank < plan.power) {
		const int width = 1 << level, partner = rank ^ width;
		const bool final = level == plan.levels - 1 && rank >= plan.rest;

		/* Swap the blocks of ranks [from, from + width) and of the ranks that they are
		   proxies for. Two channels prevent a deadlock even with one message in flight on
		   each. */
		for (int side = 0; side < 2; side++) {
			const int from = (side ? partner : rank) & -width;
			const int proxied = from >= plan.rest          ? 0
					    : from + width < plan.rest ? width
								       : plan.rest - from;
			const struct bb_place main = bb_at(BB_OUT, (size_t)from * count);
			const struct bb_place rest =
				bb_at(BB_OUT, (size_t)(plan.power + from) * count);

			if (side) {
				bb_recv(w, partner, main, (size_t)width * count, final);
				bb_recv_on(w, 1, partner, rest, (size_t)proxied * count, final);
			} else {
				bb_send(w, partner, level ? main : bb_at(BB_IN, 0),
					(size_t)width * count);
				bb_send_on(w, 1, partner, rest, (size_t)proxied * count);
			}
		}
	} else if (level == plan.levels) {
		power_after(w, &plan, bb_at(BB_OUT, 0), count * (size_t)w->n);
	}
}

const struct bb_algorithm bb_doubling_all_gather = {
	BB_NAMED("recursive_doubling"),
	.collective = &bb_all_gather,
	.meaning =
		"In round k, ranks 2^k apart swap all the blocks they have; ranks beyond a power "
		"of two take part through a proxy.",
	.prepare = power_prepare,
	.round = all_gather_round,
};

const struct bb_algorithm bb_hypercube_hypercube = {
	BB_NAMED("hypercube"),
	.collective = &bb_hypercube,
	.meaning =
		"One dimension of the cube after the other: in round k, the ranks that differ in "
		"bit k swap all the blocks they have.",
	.prepare = power_prepare,
	.round = all_gather_round,
};

/* ---- recursive doubling: broadcast, reduce, binomial and unpipelined --------------------- */

static void broadcast_round(struct bb_writer *w, size_t round)
{
	const int self = bb_behind(w->shape, w->rank), width = 1 << round;
	const struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);
	const size_t count = w->shape->count;

	if (self < width && self + width < w->n)
		bb_send(w, bb_ahead(w, width), self ? out : in, count);
	else if (self >= width && self < 2 * width)
		bb_recv(w, bb_ahead(w, -width), out, count, self + 2 * width >= w->n);
	if (!self && !round)
		bb_copy_own(w, in, out, count, true);
}

const struct bb_algorithm bb_doubling_broadcast = {
	BB_NAMED("recursive_doubling"),
	.collective = &bb_broadcast,
	.meaning =
		"A binomial tree: in round k, each of the 2^k ranks that have the data sends all "
		"of it to one that has not.",
	.prepare = bb_prepare_log,
	.round = broadcast_round,
};

/* Has SELF (counted from the root) added anything before the round with partners WIDTH apart? */
static bool summed_before(int self, int width, int n)
{
	return self + 2 * width < n;
}

static size_t reduce_tmp(const struct bb_shape *shape, int rank)
{
	const int self = bb_behind(shape, rank);

	return self && summed_before(self, 1 << bb_log2_down(self), shape->nranks) ? shape->count
										   : 0;
}

static void reduce_round(struct bb_writer *w, size_t round)
{
	const int self = bb_behind(w->shape, w->rank);
	const int width = 1 << (bb_log2_up(w->n) - 1 - (int)round);
	const struct bb_place sum = bb_at(self ? BB_TMP : BB_OUT, 0);
	const struct bb_place from = summed_before(self, width, w->n) ? sum : bb_at(BB_IN, 0);

	if (self < width && self + width < w->n)
		bb_add(w, bb_ahead(w, width), from, sum, w->shape->count, !self && width == 1);
	else if (self >= width && self < 2 * width)
		bb_send(w, bb_ahead(w, -width), from, w->shape->count);
}

const struct bb_algorithm bb_doubling_reduce = {
	BB_NAMED("recursive_doubling"),
	.collective = &bb_reduce,
	.meaning =
		"A binomial tree: in every round half of the ranks that still hold a sum send all "
		"of it to the other half.",
	.tmp_count = reduce_tmp,
	.prepare = bb_prepare_log,
	.round = reduce_round,
};

/* ---- recursive halving: all_reduce, followed by doubling --------------------------------- */

static size_t halving_all_reduce_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	const struct bb_power plan = bb_power_of(shape->nranks);

	return 2 * ((size_t)plan.levels + (plan.rest > 0));
}

/* Elements of the blocks [from, from + width). */
static size_t span(const struct bb_blocks *blocks, int from, int width)
{
	return bb_block_start(blocks, (size_t)(from + width)) -
	       bb_block_start(blocks, (size_t)from);
}

static void halving_all_reduce_round(struct bb_writer *w, size_t round)
{
	const struct bb_power plan = bb_power_of(w->n);
	const struct bb_blocks blocks = bb_blocks_of(0, w->shape->count, (size_t)plan.power);
	const int rank = w->rank, level = (int)round - (plan.rest > 0);
	const bool halves = level < plan.levels;
	const struct bb_place out = bb_at(BB_OUT, 0);
	int width, mine, theirs;

	if (level < 0 || level == 2 * plan.levels) {
		(level < 0 ? power_before : power_after)(w, &plan, out, w->shape->count);
		return;
	}
	width = halves ? plan.power >> (level + 1) : 1 << (level - plan.levels);
	mine = rank & -width;
	theirs = mine ^ width;
	if (rank < plan.power && halves) {
		const enum bb_buffer from = !level && rank >= plan.rest ? BB_IN : BB_OUT;

		bb_send(w, rank ^ width, bb_block_at(from, &blocks, theirs),
			span(&blocks, theirs, width));
		bb_add(w, rank ^ width, bb_block_at(from, &blocks, mine),
		       bb_block_at(BB_OUT, &blocks, mine), span(&blocks, mine, width), false);
	} else if (rank < plan.power) {
		bb_send(w, rank ^ width, bb_block_at(BB_OUT, &blocks, mine),
			span(&blocks, mine, width));
		bb_recv(w, rank ^ width, bb_block_at(BB_OUT, &blocks, theirs),
			span(&blocks, theirs, width),
			level == 2 * plan.levels - 1 && rank >= plan.rest);
	}
}

const struct bb_algorithm bb_halving_all_reduce = {
	BB_NAMED("halving_doubling"),
	.collective = &bb_all_reduce,
	.meaning = "Partners swap halves and add, then quarters, and so on until each rank has one "
		   "complete block; then the reverse: blocks, pairs of blocks, halves are swapped.",
	.prepare = halving_all_reduce_prepare,
	.round = halving_all_reduce_round,
};

/* ---- recursive halving: reduce_scatter --------------------------------------------------- */

static size_t reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	const struct bb_power plan = bb_power_of(shape->nranks);

	if (rank >= plan.power || shape->nranks == 2)
		return 0;
	return shape->count * (size_t)(plan.rest ? shape->nranks : plan.power / 2);
}

/* Send blocks [GIVEN, …) of FROM to the rank WIDTH away and add those received to [KEPT, …), as far
   as they exist below END. Blocks beyond the power of two have a channel of their own. */
static void swap_blocks(struct bb_writer *w, enum bb_buffer from, int width, int given, int kept,
			int end)
{
	const struct bb_power plan = bb_power_of(w->n);
	const struct bb_blocks in = bb_blocks_equal(w->shape);
	/* TMP holds the sums of the half that the rank keeps first. */
	const int first = plan.rest ? 0 : w->rank & (plan.power / 2);
	const bool own = width == 1 && kept == w->rank;
	const int channel = kept >= plan.power, skipped = from == BB_TMP ? first : 0;
	const int give = given >= end ? 0 : end - given < width ? end - given : width;
	const int keep = kept >= end ? 0 : end - kept < width ? end - kept : width;

	bb_send_on(w, channel, w->rank ^ width, bb_block_at(from, &in, given - skipped),
		   (size_t)give * w->shape->count);
	bb_add_on(w, channel, w->rank ^ width, BB_NO_PEER, bb_block_at(from, &in, kept - skipped),
		  own ? bb_at(BB_OUT, 0) : bb_block_at(BB_TMP, &in, kept - first),
		  (size_t)keep * w->shape->count, own);
}

static void reduce_scatter_round(struct bb_writer *w, size_t round)
{
	const struct bb_power plan = bb_power_of(w->n);
	const int rank = w->rank, level = (int)round - (plan.rest > 0);
	const size_t count = w->shape->count;

	if (level < 0) {
		power_before(w, &plan, bb_at(BB_TMP, 0), count * (size_t)w->n);
	} else if (level == plan.levels) {
		power_after(w, &plan, bb_at(BB_TMP, (size_t)(rank + plan.power) * count), count);
	} else if (rank < plan.power) {
		const int width = plan.power >> (level + 1), kept = rank & -width;
		const enum bb_buffer from = !level && rank >= plan.rest ? BB_IN : BB_TMP;

		swap_blocks(w, from, width, kept ^ width, kept, plan.power);
		swap_blocks(w, from, width, plan.power + (kept ^ width), plan.power + kept, w->n);
	}
}

const struct bb_algorithm bb_halving_reduce_scatter = {
	BB_NAMED("halving_doubling"),
	.collective = &bb_reduce_scatter,
	.meaning =
		"Recursive halving: partners swap halves and add, then quarters, and so on until "
		"each rank has its own block; ranks beyond a power of two use a proxy.",
	.tmp_count = reduce_scatter_tmp,
	.prepare = power_prepare,
	.round = reduce_scatter_round,
};

/* ---- Bruck: all_gather --------------------------------------------------------------- */

static void bruck_all_gather_round(struct bb_writer *w, size_t round)
{
	const int n = w->n, far = 1 << round, number = n - far < far ? n - far : far;
	/* Blocks sent in the next round. */
	const int later = n - 2 * far < 2 * far ? n - 2 * far : 2 * far;
	const struct bb_blocks blocks = bb_blocks_equal(w->shape);
	const int ahead = bb_ahead(w, far);
	const size_t count = w->shape->count;

	/* Blocks from a rank on are one run or, around the end, two. */
	for (int k = 0; k < 2; k++) {
		const int mine = w->rank + number <= n ? number : n - w->rank;
		const int theirs = ahead + number <= n ? number : n - ahead;

		/* A single block to send is the rank's own, in any round. */
		bb_send(w, bb_ahead(w, -far),
			number == 1 ? bb_at(BB_IN, 0)
				    : bb_block_at(BB_OUT, &blocks, k ? 0 : w->rank),
			(size_t)(k ? number - mine : mine) * count);
		bb_recv(w, ahead, bb_block_at(BB_OUT, &blocks, k ? 0 : ahead),
			(size_t)(k ? number - theirs : theirs) * count,
			far + (k ? theirs : 0) >= later);
	}
	if (!round)
		bb_copy_own(w, bb_at(BB_IN, 0), bb_block_at(BB_OUT, &blocks, w->rank), count,
			    n <= 3);
}

const struct bb_algorithm bb_bruck_all_gather = {
	BB_NAMED("bruck"),
	.collective = &bb_all_gather,
	.meaning = "In round k every rank sends all the blocks it has (as many as are missing) to "
		   "the rank 2^k behind and receives those of the rank 2^k ahead.",
	.prepare = bb_prepare_log,
	.round = bruck_all_gather_round,
};

/* ---- Bruck: alltoall ----------------------------------------------------------------- */

/*
 * A block for a rank DISTANCE ahead moves 2^k ranks in stage k for every bit k of DISTANCE. The
 * blocks of a stage are packed, sent as one message, and unpacked. TMP holds the copy of IN, blocks
 * in transit by distance, packed blocks, and received blocks.
 */
#define COPIES BB_MAX_STEPS /* of one round of packing or unpacking */

/* The number of distances below N with bit K. */
static int with_bit(int n, int k)
{
	const int low = n & ((2 << k) - 1), more = low - (1 << k);

	return (n >> (k + 1) << k) + (more > 0 ? more : 0);
}

/* Rounds to pack BLOCKS, and to unpack them. */
static size_t copy_rounds(int blocks)
{
	return bb_pieces((size_t)blocks, COPIES);
}

static size_t bruck_alltoall_tmp(const struct bb_shape *shape, int rank)
{
	const size_t n = (size_t)shape->nranks;

	return n * shape->count + 2 * (n / 2 * shape->count);
}

static size_t bruck_alltoall_prepare(const struct bb_shape *shape, struct bb_role *role)
{
	size_t rounds = 1; /* the own block */

	for (int k = 0; 1 << k < shape->nranks; k++)
		rounds += 2 * copy_rounds(with_bit(shape->nranks, k)) + 1;
	return rounds;
}

/* Copy the blocks of round PART of packing or unpacking in the stage of BIT, which moves BLOCKS:
   between their places in transit and ARRIVED or, to PACK them, the message. */
static void copy_blocks(struct bb_writer *w, int bit, int blocks, size_t part, bool pack,
			struct bb_place transit, struct bb_place message)
{
	const size_t count = w->shape->count;
	const int first = (int)part * COPIES;

	for (int i = first; i < blocks && i < first + COPIES; i++) {
		/* The I-th distance with this bit. */
		const int distance = (i >> bit << (bit + 1)) | (1 << bit) | (i & ((1 << bit) - 1));
		const struct bb_place here = bb_plus(transit, (size_t)distance * count);
		const struct bb_place packed = bb_plus(message, (size_t)i * count);
		const bool moved = distance & ((1 << bit) - 1), there = !(distance >> (bit + 1));

		if (pack)
			bb_copy(w,
				moved ? here
				      : bb_alltoall_from(w->shape, w->rank, bb_ahead(w, distance)),
				packed, count, false);
		else
			bb_copy(w, packed,
				there ? bb_at(BB_OUT, (size_t)bb_ahead(w, -distance) * count)
				      : here,
				count, there);
	}
}

static void bruck_alltoall_round(struct bb_writer *w, size_t round)
{
	const size_t n = (size_t)w->n, count = w->shape->count;
	const struct bb_place transit = bb_at(BB_TMP, bb_alltoall_saved(w->shape, w->rank));
	const struct bb_place packed = bb_plus(transit, n * count);
	const struct bb_place arrived = bb_plus(packed, n / 2 * count);
	int bit = 0, blocks = with_bit(w->n, 0);

	if (!round) {
		bb_alltoall_keep(w);
		return;
	}
	round--;
	while (round >= 2 * copy_rounds(blocks) + 1) {
		round -= 2 * copy_rounds(blocks) + 1;
		blocks = with_bit(w->n, ++bit);
	}
	const size_t copies = copy_rounds(blocks);
	if (round < copies) {
		copy_blocks(w, bit, blocks, round, true, transit, packed);
	} else if (round > copies) {
		copy_blocks(w, bit, blocks, round - copies - 1, false, transit, arrived);
	} else {
		bb_send(w, bb_ahead(w, 1 << bit), packed, (size_t)blocks * count);
		bb_recv(w, bb_ahead(w, -(1 << bit)), arrived, (size_t)blocks * count, false);
	}
}

const struct bb_algorithm bb_bruck_alltoall = {
	BB_NAMED("bruck"),
	.collective = &bb_alltoall,
	.meaning = "In stage k every rank packs the blocks whose remaining distance has bit k set "
		   "into one message and sends it to the rank 2^k ahead.",
	.flags = BB_SHIFT_INVARIANT,
	.tmp_count = bruck_alltoall_tmp,
	.prepare = bruck_alltoall_prepare,
	.round = bruck_alltoall_round,
};
