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
	enum bb_buffer sum;
};

static struct plan plan_of(const struct bb_shape *shape, int rank)
{
	struct plan p = {.power = bb_power_of(shape->nranks),
			 .rank = rank,
			 .count = shape->count,
			 .sum = BB_OUT};

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

/* The parts that RANK and its partner at distance 2^LEVEL swap when halving. */
struct halves {
	size_t start, count; /* kept and added to */
	size_t other, given; /* sent */
};

static struct halves halves_of(const struct plan *p, int level)
{
	struct halves h = {0, p->count, 0, 0};

	for (int i = 0; i <= level; i++) {
		const bool upper = p->virtual >> i & 1;
		const size_t left = h.count / 2, right = h.count - left;

		h.other = upper ? h.start : h.start + left;
		h.given = upper ? left : right;
		h.start += upper ? left : 0;
		h.count = upper ? right : left;
	}
	return h;
}

static int peer_of(const struct plan *p, int level)
{
	const int partner = p->virtual ^ (1 << level);

	return partner < p->power.rest ? 2 * partner + 1 : partner + p->power.rest;
}

static void halve(struct bb_writer *w, const struct plan *p, int level)
{
	const struct halves h = halves_of(p, level);
	const enum bb_buffer from = level > 0 || p->is_neighbour ? p->sum : BB_IN;

	bb_send(w, peer_of(p, level), bb_at(from, h.other), h.given);
	bb_add(w, peer_of(p, level), bb_at(from, h.start), bb_at(p->sum, h.start), h.count, false);
}

static void redouble(struct bb_writer *w, const struct plan *p, int level)
{
	const struct halves h = halves_of(p, level);

	bb_send(w, peer_of(p, level), bb_at(BB_OUT, h.start), h.count);
	bb_recv(w, peer_of(p, level), bb_at(BB_OUT, h.other), h.given,
		level == 0 && !p->is_neighbour);
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
	else if (at >= 0 && at < levels && p.virtual >= 0)
		halve(w, &p, at);
	else if (at >= levels && at < 2 * levels && p.virtual >= 0)
		redouble(w, &p, 2 * levels - 1 - at);
}

const struct bb_algorithm bb_openmpi_rabenseifner = {
	.name = "rabenseifner",
	.collective = &bb_all_reduce,
	.meaning = "Recursive halving, then doubling: near partners swap the longest parts.",
	.tmp_count = rabenseifner_tmp,
	.prepare = rabenseifner_prepare,
	.round = rabenseifner_round,
};

/* ---- reduce_scatter among a power of two ranks ------------------------------------------------
 */

static const char *butterfly_refuses(const struct bb_shape *shape)
{
	return bb_power_of(shape->nranks).rest > 0 ? "the number of ranks is no power of two"
						   : NULL;
}

static void butterfly_prepare(const struct bb_shape *shape, int rank, struct bb_role *role)
{
	bb_role_fill(role, rank, (size_t)bb_power_of(shape->nranks).levels + 1);
}

static size_t butterfly_tmp(const struct bb_shape *shape, int rank)
{
	return shape->count * (size_t)shape->nranks;
}

/* Halving leaves the block whose number has the rank's bits in reverse order. */
static int mirror(int rank, int levels)
{
	int mirrored = 0;

	for (int i = 0; i < levels; i++)
		mirrored |= (rank >> i & 1) << (levels - 1 - i);
	return mirrored;
}

static void butterfly_round(const struct bb_shape *shape, const struct bb_role *role, size_t round,
			    struct bb_writer *w)
{
	const int rank = role->rank, levels = bb_power_of(shape->nranks).levels;
	const int other = mirror(rank, levels);
	struct plan p = plan_of(shape, rank);

	p.sum = BB_TMP;
	p.count *= (size_t)shape->nranks;
	if ((int)round < levels) {
		halve(w, &p, (int)round);
	} else if (other == rank) {
		bb_copy(w, bb_at(BB_TMP, (size_t)rank * shape->count), bb_at(BB_OUT, 0),
			shape->count, true);
	} else {
		bb_send(w, other, bb_at(BB_TMP, (size_t)other * shape->count), shape->count);
		bb_recv(w, other, bb_at(BB_OUT, 0), shape->count, true);
	}
}

const struct bb_algorithm bb_openmpi_butterfly = {
	.name = "butterfly",
	.collective = &bb_reduce_scatter,
	.meaning =
		"Recursive halving with near partners first; then each rank swaps the block that "
		"it holds for its own.",
	.refuses = butterfly_refuses,
	.tmp_count = butterfly_tmp,
	.prepare = butterfly_prepare,
	.round = butterfly_round,
};
