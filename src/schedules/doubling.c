/*
 * doubling.c - recursive doubling: the distance between partners doubles every round. Ranks beyond
 * the greatest power of two P first send their data to rank - P, which sends the result back.
 */
#include "schedules/parts.h"

/* ---- proxies ------------------------------------------------------------------------- */

void bb_power_before(struct bb_writer *w, const struct bb_power *plan, int rank,
		     struct bb_place sum, size_t count)
{
	if (rank >= plan->power)
		bb_send(w, rank - plan->power, bb_at(BB_IN, 0), count);
	else if (rank < plan->rest)
		bb_add(w, rank + plan->power, bb_at(BB_IN, 0), sum, count, false);
}

void bb_power_after(struct bb_writer *w, const struct bb_power *plan, int rank,
		    struct bb_place from, size_t count)
{
	if (rank >= plan->power)
		bb_recv(w, rank - plan->power, bb_at(BB_OUT, 0), count, true);
	else if (rank < plan->rest)
		bb_send(w, rank + plan->power, from, count);
}

/* ---- all_reduce ---------------------------------------------------------------------- */

/* In place, must IN be copied first, because nothing else allows it to be overwritten? */
static bool saves_in(const struct bb_shape *shape, const struct bb_power *plan)
{
	return shape->in_place && plan->levels % 2;
}

static size_t all_reduce_tmp(const struct bb_shape *shape, int rank)
{
	struct bb_power plan = bb_power_of(shape->nranks);

	if (rank >= plan.power)
		return 0;
	return shape->nranks > 2 || shape->in_place ? shape->count : 0;
}

static void all_reduce_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_power plan = bb_power_of(shape->nranks);

	bb_role_fill(role, rank,
		     (size_t)plan.levels + (plan.rest || saves_in(shape, &plan)) + (plan.rest > 0));
}

/* Sums alternate between OUT and TMP, because a rank may not overwrite what its partner still
   reads; the last one goes to OUT. */
static enum bb_buffer sum_of(const struct bb_power *plan, int level)
{
	return (plan->levels - 1 - level) % 2 ? BB_TMP : BB_OUT;
}

static void all_reduce_before(struct bb_writer *w, const struct bb_shape *shape,
			      const struct bb_power *plan, int rank)
{
	struct bb_place sum = bb_at(sum_of(plan, -1), 0);

	bb_power_before(w, plan, rank, sum, shape->count);
	if (rank >= plan->rest && rank < plan->power && saves_in(shape, plan))
		bb_copy(w, bb_at(BB_IN, 0), sum, shape->count, false);
}

static void all_reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	struct bb_power plan = bb_power_of(shape->nranks);
	bool saves = saves_in(shape, &plan), before = plan.rest || saves;
	int rank = role->rank, level = (int)round - before;

	if (level < 0) {
		all_reduce_before(w, shape, &plan, rank);
	} else if (level < plan.levels && rank < plan.power) {
		bool untouched = !level && rank >= plan.rest && !saves;
		struct bb_place from = bb_at(untouched ? BB_IN : sum_of(&plan, level - 1), 0);

		bb_send(w, rank ^ (1 << level), from, shape->count);
		bb_add(w, rank ^ (1 << level), from, bb_at(sum_of(&plan, level), 0), shape->count,
		       level == plan.levels - 1 && rank >= plan.rest);
	} else if (level == plan.levels) {
		bb_power_after(w, &plan, rank, bb_at(BB_OUT, 0), shape->count);
	}
}

const struct bb_algorithm bb_doubling_all_reduce = {
	.name = "recursive_doubling",
	.collective = &bb_all_reduce,
	.meaning =
		"In round k, ranks 2^k apart swap all they have summed so far and both add it up; "
		"ranks beyond a power of two take part through a proxy.",
	.tmp_count = all_reduce_tmp,
	.prepare = all_reduce_prepare,
	.round = all_reduce_round,
};

/* ---- all_gather, hypercube ------------------------------------------------------------- */

static void all_gather_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	struct bb_power plan = bb_power_of(shape->nranks);

	bb_role_fill(role, rank, (size_t)plan.levels + 2 * (plan.rest > 0));
}

/* Swap the blocks of ranks [from, from + 2^level) and of the ranks that they are proxies for. Two
   channels prevent a deadlock even with one message in flight on each. */
static void swap_level(struct bb_writer *w, const struct bb_shape *shape,
		       const struct bb_power *plan, int rank, int level)
{
	int width = 1 << level, partner = rank ^ width;
	bool final = level == plan->levels - 1 && rank >= plan->rest;

	for (int side = 0; side < 2; side++) {
		int who = side ? partner : rank, from = who & -width;
		int proxied = from >= plan->rest          ? 0
			      : from + width < plan->rest ? width
							  : plan->rest - from;
		struct bb_place main = bb_at(BB_OUT, (size_t)from * shape->count);
		struct bb_place rest = bb_at(BB_OUT, (size_t)(plan->power + from) * shape->count);

		if (side) {
			bb_recv(w, partner, main, (size_t)width * shape->count, final);
			bb_recv_on(w, 1, partner, rest, (size_t)proxied * shape->count, final);
		} else {
			bb_send(w, partner, level ? main : bb_at(BB_IN, 0),
				(size_t)width * shape->count);
			bb_send_on(w, 1, partner, rest, (size_t)proxied * shape->count);
		}
	}
}

static void all_gather_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			     struct bb_writer *w)
{
	struct bb_power plan = bb_power_of(shape->nranks);
	int rank = role->rank, level = (int)round - (plan.rest > 0);
	struct bb_place in = bb_at(BB_IN, 0);

	if (!round && rank < plan.power && !shape->in_place)
		bb_copy(w, in, bb_at(BB_OUT, (size_t)rank * shape->count), shape->count,
			plan.levels < 2 && rank >= plan.rest);
	if (level < 0) {
		if (rank >= plan.power)
			bb_send(w, rank - plan.power, in, shape->count);
		else if (rank < plan.rest)
			bb_recv(w, rank + plan.power,
				bb_at(BB_OUT, (size_t)(rank + plan.power) * shape->count),
				shape->count, false);
	} else if (level < plan.levels && rank < plan.power) {
		swap_level(w, shape, &plan, rank, level);
	} else if (level == plan.levels) {
		bb_power_after(w, &plan, rank, bb_at(BB_OUT, 0),
			       shape->count * (size_t)shape->nranks);
	}
}

const struct bb_algorithm bb_doubling_all_gather = {
	.name = "recursive_doubling",
	.collective = &bb_all_gather,
	.meaning =
		"In round k, ranks 2^k apart swap all the blocks they have; ranks beyond a power "
		"of two take part through a proxy.",
	.prepare = all_gather_prepare,
	.round = all_gather_round,
};

const struct bb_algorithm bb_hypercube_hypercube = {
	.name = "hypercube",
	.collective = &bb_hypercube,
	.meaning =
		"One dimension of the cube after the other: in round k, the ranks that differ in "
		"bit k swap all the blocks they have.",
	.prepare = all_gather_prepare,
	.round = all_gather_round,
};

/* ---- broadcast, reduce: binomial, unpipelined ---------------------------------------------- */

static void broadcast_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			    struct bb_writer *w)
{
	int n = shape->nranks, self = bb_wrap(role->rank - shape->root, n), width = 1 << round;
	struct bb_place in = bb_at(BB_IN, 0), out = bb_at(BB_OUT, 0);

	if (self < width && self + width < n)
		bb_send(w, bb_wrap(role->rank + width, n), self ? out : in, shape->count);
	else if (self >= width && self < 2 * width)
		bb_recv(w, bb_wrap(role->rank - width, n), out, shape->count,
			self + 2 * width >= n);
	if (!self && !round)
		bb_copy_over(w, shape, 0, shape->count);
}

const struct bb_algorithm bb_doubling_broadcast = {
	.name = "recursive_doubling",
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
	int n = shape->nranks, self = bb_wrap(rank - shape->root, n);

	return self && summed_before(self, 1 << bb_log2_down(self), n) ? shape->count : 0;
}

static void reduce_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			 struct bb_writer *w)
{
	int n = shape->nranks, self = bb_wrap(role->rank - shape->root, n);
	int width = 1 << (bb_log2_up(n) - 1 - (int)round);
	struct bb_place in = bb_at(BB_IN, 0), sum = bb_at(self ? BB_TMP : BB_OUT, 0);

	if (self < width && self + width < n)
		bb_add(w, bb_wrap(role->rank + width, n), summed_before(self, width, n) ? sum : in,
		       sum, shape->count, !self && width == 1);
	else if (self >= width && self < 2 * width)
		bb_send(w, bb_wrap(role->rank - width, n), summed_before(self, width, n) ? sum : in,
			shape->count);
}

const struct bb_algorithm bb_doubling_reduce = {
	.name = "recursive_doubling",
	.collective = &bb_reduce,
	.meaning =
		"A binomial tree: in every round half of the ranks that still hold a sum send all "
		"of it to the other half.",
	.tmp_count = reduce_tmp,
	.prepare = bb_prepare_log,
	.round = reduce_round,
};
