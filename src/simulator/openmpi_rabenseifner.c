/*
 * openmpi_rabenseifner.c - all_reduce by recursive halving and doubling as Open MPI does it
 * (coll_base_allreduce.c, redscat_allgather): near partners swap the longest parts. Beyond a power
 * of two P, each even rank of the first 2 (n - P) adds half of the data for its odd neighbour,
 * which then stands for both.
 */
#include "schedules/parts.h"
#include "simulator/openmpi.h"

/* Rounds are: two of neighbours (where REST > 0), halving, doubling, one of neighbours. */
struct plan {
	struct bb_power power;
	int rank, virtual; /* VIRTUAL is the rank among P; -1: its neighbour stands for it */
	bool is_neighbour;
	size_t count;
};

static struct plan plan_of(const struct bb_shape *shape, int rank)
{
	struct plan p = {.power = bb_power_of(shape->nranks), .rank = rank, .count = shape->count};

	p.is_neighbour = rank < 2 * p.power.rest;
	p.virtual = !p.is_neighbour ? rank - p.power.rest : rank % 2 ? rank / 2 : -1;
	return p;
}

static void rabenseifner_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	const struct bb_power power = bb_power_of(shape->nranks);

	bb_role_fill(role, rank, 2 * (size_t)power.levels + 3 * (size_t)(power.rest > 0));
}

/* What Open MPI allocates, which counts for caches; the steps need none. */
static size_t rabenseifner_tmp(const struct bb_shape *shape, int rank)
{
	return shape->count;
}

/* The neighbours' sum of its left half by the even rank, of its right half by the odd one. */
static void neighbours_add(struct bb_writer *w, const struct plan *p)
{
	const size_t left = p->count / 2, right = p->count - left;
	const bool odd = p->rank % 2;
	const size_t mine = odd ? left : 0, theirs = odd ? 0 : left;

	bb_send(w, p->rank ^ 1, bb_at(BB_IN, theirs), odd ? left : right);
	bb_add(w, p->rank ^ 1, bb_at(BB_IN, mine), bb_at(BB_OUT, mine), odd ? right : left, false);
}

/* COUNT elements of OUT from the even neighbour to the odd one, or (BACK) the other way. */
static void neighbours_pass(struct bb_writer *w, const struct plan *p, size_t count, bool back)
{
	if (p->rank % 2 == back)
		bb_send(w, p->rank ^ 1, bb_at(BB_OUT, 0), count);
	else
		bb_recv(w, p->rank ^ 1, bb_at(BB_OUT, 0), count, back);
}

/* Swap with the partner at distance 2^LEVEL: halving sends one part of what is held and adds the
   other, doubling sends that sum and receives the one part. */
static void swap(struct bb_writer *w, const struct plan *p, int level, bool halves)
{
	const int partner = p->virtual ^ (1 << level);
	const int peer = partner < p->power.rest ? 2 * partner + 1 : partner + p->power.rest;
	const bool summed = level > 0 || p->is_neighbour;
	size_t start = 0, count = p->count, other = 0, given = 0;

	for (int i = 0; i <= level; i++) {
		const bool upper = p->virtual >> i & 1;
		const size_t left = count / 2, right = count - left;

		other = upper ? start : start + left;
		given = upper ? left : right;
		start += upper ? left : 0;
		count = upper ? right : left;
	}
	if (halves) {
		bb_send(w, peer, bb_at(summed ? BB_OUT : BB_IN, other), given);
		bb_add(w, peer, bb_at(summed ? BB_OUT : BB_IN, start), bb_at(BB_OUT, start), count,
		       false);
	} else {
		bb_send(w, peer, bb_at(BB_OUT, start), count);
		bb_recv(w, peer, bb_at(BB_OUT, other), given, level == 0 && !p->is_neighbour);
	}
}

static void rabenseifner_round(const struct bb_shape *shape, const struct bb_role *role,
			       size_t round, struct bb_writer *w)
{
	const struct plan p = plan_of(shape, role->rank);
	const int levels = p.power.levels, at = (int)round - 2 * (p.power.rest > 0);

	if (at == -2 && p.is_neighbour)
		neighbours_add(w, &p);
	else if (at == -1 && p.is_neighbour)
		neighbours_pass(w, &p, shape->count / 2, false);
	else if (at == 2 * levels && p.is_neighbour)
		neighbours_pass(w, &p, shape->count, true);
	else if (at >= 0 && at < 2 * levels && p.virtual >= 0)
		swap(w, &p, at < levels ? at : 2 * levels - 1 - at, at < levels);
}

const struct bb_algorithm bb_openmpi_rabenseifner = {
	.name = "rabenseifner",
	.collective = &bb_all_reduce,
	.meaning = "Recursive halving, then doubling: near partners swap the longest parts.",
	.tmp_count = rabenseifner_tmp,
	.prepare = rabenseifner_prepare,
	.round = rabenseifner_round,
};
