/*
 * halving.c - recursive halving: the distance between partners halves every round, and they swap
 * halves of what they still reduce. Ranks beyond the greatest power of two P use rank - P as a
 * proxy.
 */
#include "schedules/parts.h"

/* ---- all_reduce: halving, then doubling ------------------------------------------------ */

static void all_reduce_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_power plan = bb_power_of(shape->nranks);

	bb_role_fill(role, rank, 2 * ((size_t)plan.levels + (plan.rest > 0)));
}

/* Elements of the blocks [from, from + width). */
static size_t span(const struct bb_blocks *blocks, int from, int width)
{
	return bb_block_start(blocks, from + width) - bb_block_start(blocks, from);
}

static void halve(struct bb_writer *w, const struct bb_blocks *blocks, int rank, int width,
		  enum bb_buffer from)
{
	int kept = rank & -width, given = kept ^ width, partner = rank ^ width;
	size_t start = bb_block_start(blocks, kept);

	bb_send(w, partner, bb_at(from, bb_block_start(blocks, given)), span(blocks, given, width));
	bb_add(w, partner, bb_at(from, start), bb_at(BB_OUT, start), span(blocks, kept, width),
	       false);
}

static void double_back(struct bb_writer *w, const struct bb_blocks *blocks, int rank, int width,
			bool final)
{
	int mine = rank & -width, theirs = mine ^ width, partner = rank ^ width;

	bb_send(w, partner, bb_at(BB_OUT, bb_block_start(blocks, mine)), span(blocks, mine, width));
	bb_recv(w, partner, bb_at(BB_OUT, bb_block_start(blocks, theirs)),
		span(blocks, theirs, width), final);
}

static void all_reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	struct bb_power plan = bb_power_of(shape->nranks);
	struct bb_blocks blocks = bb_blocks_of(0, shape->count, plan.power);
	int rank = role->rank, level = (int)round - (plan.rest > 0);
	struct bb_place out = bb_at(BB_OUT, 0);

	if (level < 0) {
		bb_power_before(w, &plan, rank, out, shape->count);
	} else if (level == 2 * plan.levels) {
		bb_power_after(w, &plan, rank, out, shape->count);
	} else if (rank < plan.power && level < plan.levels) {
		halve(w, &blocks, rank, plan.power >> (level + 1),
		      !level && rank >= plan.rest ? BB_IN : BB_OUT);
	} else if (rank < plan.power) {
		double_back(w, &blocks, rank, 1 << (level - plan.levels),
			    level == 2 * plan.levels - 1 && rank >= plan.rest);
	}
}

const struct bb_algorithm bb_halving_all_reduce = {
	.name = "halving_doubling",
	.collective = &bb_all_reduce,
	.meaning = "Partners swap halves and add, then quarters, and so on until each rank has one "
		   "complete block; then the reverse: blocks, pairs of blocks, halves are swapped.",
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

/* ---- reduce_scatter ------------------------------------------------------------------ */

/* TMP holds the sum of block k at (k - first) * count. */
static int first_block(const struct bb_power *plan, int rank)
{
	return plan->rest ? 0 : rank & (plan->power / 2);
}

static size_t reduce_scatter_tmp(const struct bb_shape *shape, int rank)
{
	struct bb_power plan = bb_power_of(shape->nranks);

	if (rank >= plan.power || shape->nranks == 2)
		return 0;
	return shape->count * (size_t)(plan.rest ? shape->nranks : plan.power / 2);
}

static void reduce_scatter_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_power plan = bb_power_of(shape->nranks);

	bb_role_fill(role, rank, (size_t)plan.levels + 2 * (plan.rest > 0));
}

struct side {
	const struct bb_shape *shape;
	struct bb_power plan;
	int rank;
	int width;
	enum bb_buffer from;
};

static struct bb_place block_at(const struct side *s, enum bb_buffer buffer, int k)
{
	int first = buffer == BB_TMP ? first_block(&s->plan, s->rank) : 0;

	return bb_at(buffer, (size_t)(k - first) * s->shape->count);
}

/* Send blocks [GIVEN, …) and add those received to [KEPT, …), as far as they exist below END.
   Blocks beyond the power of two have a channel of their own. */
static void swap_blocks(struct bb_writer *w, const struct side *s, int given, int kept, int end)
{
	int give = given >= end ? 0 : end - given < s->width ? end - given : s->width;
	int keep = kept >= end ? 0 : end - kept < s->width ? end - kept : s->width;
	bool own = s->width == 1 && kept == s->rank;
	int partner = s->rank ^ s->width, channel = kept >= s->plan.power;
	size_t count = s->shape->count;

	bb_send_on(w, channel, partner, block_at(s, s->from, given), (size_t)give * count);
	bb_write(w, &(struct bb_step){.kind = BB_RECV_REDUCE,
				      .peer = partner,
				      .peer2 = BB_NO_PEER,
				      .channel = channel,
				      .final = own,
				      .src = block_at(s, s->from, kept),
				      .dst = own ? bb_at(BB_OUT, 0) : block_at(s, BB_TMP, kept),
				      .count = (size_t)keep * count});
}

static void reduce_scatter_round(const struct bb_shape *shape, const struct bb_role *role,
				 size_t round, struct bb_writer *w)
{
	struct bb_power plan = bb_power_of(shape->nranks);
	int rank = role->rank, level = (int)round - (plan.rest > 0);
	size_t all = shape->count * (size_t)shape->nranks;

	if (level < 0) {
		bb_power_before(w, &plan, rank, bb_at(BB_TMP, 0), all);
	} else if (level == plan.levels) {
		bb_power_after(w, &plan, rank,
			       bb_at(BB_TMP, (size_t)(rank + plan.power) * shape->count),
			       shape->count);
	} else if (rank < plan.power) {
		int width = plan.power >> (level + 1), kept = rank & -width;
		bool first = !level && rank >= plan.rest;
		struct side side = {shape, plan, rank, width, first ? BB_IN : BB_TMP};

		swap_blocks(w, &side, kept ^ width, kept, plan.power);
		swap_blocks(w, &side, plan.power + (kept ^ width), plan.power + kept,
			    shape->nranks);
	}
}

const struct bb_algorithm bb_halving_reduce_scatter = {
	.name = "halving_doubling",
	.collective = &bb_reduce_scatter,
	.meaning =
		"Recursive halving: partners swap halves and add, then quarters, and so on until "
		"each rank has its own block; ranks beyond a power of two use a proxy.",
	.tmp_count = reduce_scatter_tmp,
	.prepare = reduce_scatter_prepare,
	.round = reduce_scatter_round,
};
