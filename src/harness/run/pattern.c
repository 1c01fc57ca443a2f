#include "harness/run/pattern.h"

#include "core/random.h"
#include "core/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD BB_PATTERN_PERIOD
#define STRIDE 1000000007u

struct bb_patterns {
	enum bb_dtype dtype;
	int op;
	int nranks;
	size_t element_size;
	uint64_t seed;
	char *tables; /* one per rank, then the reduction's; each holds the period twice */
	/* In a store: */
	struct bb_patterns *next;
	uint64_t given; /* the seed that it was requested with */
	int users;
};

/* Makes one column after the other: the elements of all ranks at one index. */
struct maker {
	struct bb_patterns *p;
	uint64_t turn;    /* of the next rank */
	uint64_t weights; /* sum of the ranks' weights: for mulsum theirs, else 1 each */
	size_t index;
	uint64_t hash; /* of the index */
};

/* The numbers that a floating-point type represents exactly: integers below 2^precision times
   2^exponent. */
struct range {
	int precision; /* bits of the mantissa with the implicit one */
	int lowest;    /* exponents of normal numbers whose every mantissa is finite */
	int highest;
};

static const struct range ranges[BB_NDTYPES] = {
	[BB_HALF] = {11, -14, 15},       [BB_FLOAT] = {24, -126, 127},
	[BB_DOUBLE] = {53, -1022, 1023}, [BB_BFLOAT16] = {8, -126, 127},
	[BB_F8E4M3] = {4, -6, 7},        [BB_F8E5M2] = {3, -14, 15},
};

static uint64_t mix(uint64_t x)
{
	return bb_random_next(&x);
}

static uint64_t draw(const struct maker *m, int rank)
{
	return mix(m->hash ^ (uint64_t)rank * 0xd1342543de82ef95u);
}

/* Returns a number from LOW to HIGH, evenly distributed. */
static int draw_between(uint64_t hash, int low, int high)
{
	return low + (int)(hash % (uint64_t)(high - low + 1));
}

static char *element(const struct bb_patterns *p, int table, size_t index)
{
	return p->tables + ((size_t)table * 2 * PERIOD + index) * p->element_size;
}

static void put_bits(const struct maker *m, int rank, uint64_t bits)
{
	memcpy(element(m->p, rank, m->index), &bits, m->p->element_size);
}

static void put_float(const struct maker *m, int rank, double value)
{
	bb_scalar_encode(m->p->dtype, value, element(m->p, rank, m->index));
}

/* Returns the rank that has TURN. As STRIDE is a prime above their number, all have one in turn. */
static int rank_of_turn(const struct maker *m, uint64_t turn)
{
	return (int)(turn * STRIDE % (uint64_t)m->p->nranks);
}

static int next_rank(struct maker *m)
{
	return rank_of_turn(m, m->turn++);
}

static int weight_of(const struct maker *m, int rank)
{
	return m->p->op == BB_MULSUM ? bb_mulsum_weight(rank) : 1;
}

/* ---- columns ----------------------------------------------------------------------- */

/* Each of these, and put_bits, makes the element of one rank, from HASH. */

/* Any finite values: one bit of infinities and NaNs is flipped. */
static void put_finite(const struct maker *m, int rank, uint64_t hash)
{
	const enum bb_dtype dtype = m->p->dtype;

	put_bits(m, rank, hash);
	if (!isfinite(bb_scalar_decode(dtype, element(m->p, rank, m->index))))
		put_bits(m, rank, hash ^ (uint64_t)1 << (ranges[dtype].precision - 1));
}

static void put_pair(const struct maker *m, int rank, uint64_t hash)
{
	const struct bb_float_int pair = {(float)(int32_t)hash, (int32_t)(hash >> 32)};

	memcpy(element(m->p, rank, m->index), &pair, sizeof(pair));
}

/* Few different values, so that some are equal; the index identifies the rank, in a changing order.
 */
static void put_like_pair(const struct maker *m, int rank, uint64_t hash)
{
	const uint64_t n = (uint64_t)m->p->nranks, name = ((uint64_t)rank + m->hash % n) % n;
	const struct bb_float_int pair = {
		.value = (float)(draw_between(hash, 0, m->p->nranks / 2 + 1) - 2),
		.index = (int32_t)(name * PERIOD + m->index)};

	memcpy(element(m->p, rank, m->index), &pair, sizeof(pair));
}

/* Finite values without 0, as min and max may return either sign of it. */
static void put_ordered(const struct maker *m, int rank, uint64_t hash)
{
	const struct range *const range = &ranges[m->p->dtype];
	const int lowest = (int)fmax(-16, range->lowest), highest = (int)fmin(16, range->highest);
	const uint64_t mantissa = ((uint64_t)1 << (range->precision - 1)) - 1;
	const double value = 1 + (double)(hash >> 8 & mantissa) / ((double)mantissa + 1);
	const int exponent = draw_between(mix(hash), lowest, highest);

	put_float(m, rank, ldexp(hash & 1 ? -value : value, exponent));
}

/* ---- columns whose ranks depend on each other ------------------------------------------------ */

/* Returns the exponent of a column of integers, at least MARGIN above the type's lowest. */
static int draw_exponent(const struct maker *m, int margin)
{
	const struct range *const range = &ranges[m->p->dtype];
	const int highest = (int)fmin(16, range->highest - range->precision);
	const int lowest = (int)fmin(highest, fmax(-16, range->lowest + margin));

	return draw_between(m->hash, lowest, highest);
}

/*
 * Two ranks have integers of one sign times a power of two, the others 0. The average is then
 * within two units in the last place, whether the sum is divided or, as in NCCL, each input is
 * multiplied by a rounded 1/n. It stays above the subnormal numbers, which are coarse.
 */
static void float_avg_column(struct maker *m)
{
	const struct bb_patterns *const p = m->p;
	const uint64_t most = (uint64_t)1 << (ranges[p->dtype].precision - 1);
	const int exponent = draw_exponent(m, ilogb(p->nranks) + 1);

	for (int r = 0; r < p->nranks; r++)
		put_float(m, r, 0);
	for (int i = 0; i < 2 && i < p->nranks; i++) {
		const int rank = next_rank(m);
		const double magnitude = (double)(1 + (draw(m, rank) >> 1) % most);

		put_float(m, rank, ldexp(m->hash & 1 ? -magnitude : magnitude, exponent));
	}
}

/*
 * Integers times one power of two, whose weighted magnitudes add up to no more than the mantissa
 * holds: every partial sum is exact. With more ranks than that, some have 1 and the others 0.
 */
static void float_sum_column(struct maker *m)
{
	const struct bb_patterns *const p = m->p;
	const struct range *const range = &ranges[p->dtype];
	const uint64_t budget = (uint64_t)1 << range->precision, most = budget / m->weights;
	const int exponent = draw_exponent(m, 0);

	for (int r = 0; r < p->nranks; r++) {
		const uint64_t hash = draw(m, r);
		const double magnitude = most ? (double)(1 + (hash >> 1) % most) : 0;

		put_float(m, r, ldexp(hash & 1 && most ? -magnitude : magnitude, exponent));
	}
	for (uint64_t left = most ? 0 : budget;;) {
		const int rank = rank_of_turn(m, m->turn);

		if (left < (uint64_t)weight_of(m, rank))
			break;
		left -= (uint64_t)weight_of(m, rank);
		put_float(m, rank, ldexp(draw(m, rank) & 1 ? -1 : 1, exponent));
		next_rank(m);
	}
}

/*
 * One rank has a random value, the others powers of two whose exponents together stay within the
 * range of the type.
 */
static void float_prod_column(struct maker *m)
{
	const struct bb_patterns *const p = m->p;
	const struct range *const range = &ranges[p->dtype];
	const int first = next_rank(m);
	const uint64_t mantissa = ((uint64_t)1 << (range->precision - 1)) - 1;
	int left = (int)fmin(100, fmin(range->highest, -range->lowest) - 1);
	const int most = left / p->nranks > 1 ? left / p->nranks : 1;

	for (int j = 0; j < p->nranks; j++) {
		const int rank = rank_of_turn(m, m->turn + (uint64_t)j);
		const uint64_t hash = draw(m, rank);
		const int step = left < most ? left : most;
		const int exponent = draw_between(hash >> 8, -step, step);
		const double value =
			rank == first ? 1 + (double)(hash >> 8 & mantissa) / ((double)mantissa + 1)
				      : ldexp(1, exponent);

		put_float(m, rank, hash & 1 ? -value : value);
		if (rank != first)
			left -= abs(exponent);
	}
}

/* All numbers but one are odd: the product of many even ones would be 0. */
static void integer_prod_column(struct maker *m)
{
	const int first = next_rank(m);

	for (int r = 0; r < m->p->nranks; r++)
		put_bits(m, r, r == first ? draw(m, r) : draw(m, r) | 1);
}

/* All ranks agree, all but one, or half of them: the cases in which and, or and xor differ. */
static void logical_column(struct maker *m)
{
	const int mode = m->p->op == BB_LXOR ? 2 : draw_between(m->hash, 0, 2);
	const bool usual = m->p->op == BB_LAND;
	const uint64_t mask = UINT64_MAX >> (64 - 8 * m->p->element_size);
	const int odd = mode == 1 ? next_rank(m) : -1;

	for (int r = 0; r < m->p->nranks; r++) {
		const uint64_t hash = draw(m, r);
		const bool truth = mode == 2 ? hash & 1 : usual != (r == odd);
		const uint64_t bits = hash >> 1 & mask;

		put_bits(m, r, truth ? (bits ? bits : 1) : 0);
	}
}

/* Each bit that matters is set (bor) or clear (band) on one rank only. */
static void bitwise_column(struct maker *m)
{
	const uint64_t usual = m->p->op == BB_BAND ? ~(uint64_t)0 : 0;
	const size_t size = m->p->element_size;

	for (int r = 0; r < m->p->nranks; r++)
		put_bits(m, r, usual);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		if (!(m->hash >> bit & 1))
			continue;
		const int rank = next_rank(m);
		uint64_t bits = 0;

		memcpy(&bits, element(m->p, rank, m->index), size);
		put_bits(m, rank, bits ^ (uint64_t)1 << bit);
	}
}

/* How the inputs of an op come about: all ranks of a column, or each rank by itself. */
struct generator {
	void (*column)(struct maker *m);
	void (*one)(const struct maker *m, int rank, uint64_t hash); /* without COLUMN */
};

/* Of floating-point numbers, and of others. */
static const struct generator generators[BB_NOPS][2] = {
	[BB_SUM] = {{.column = float_sum_column}, {.one = put_bits}},
	[BB_PROD] = {{.column = float_prod_column}, {.column = integer_prod_column}},
	[BB_MIN] = {{.one = put_ordered}, {.one = put_bits}},
	[BB_MAX] = {{.one = put_ordered}, {.one = put_bits}},
	[BB_AVG] = {{.column = float_avg_column}, {.one = put_bits}},
	[BB_MULSUM] = {{.column = float_sum_column}, {.one = put_bits}},
	[BB_LAND] = {{0}, {.column = logical_column}},
	[BB_LOR] = {{0}, {.column = logical_column}},
	[BB_LXOR] = {{0}, {.column = logical_column}},
	[BB_BAND] = {{0}, {.column = bitwise_column}},
	[BB_BOR] = {{0}, {.column = bitwise_column}},
	[BB_BXOR] = {{0}, {.one = put_bits}},
	[BB_MAXLOC] = {{0}, {.one = put_like_pair}},
	[BB_MINLOC] = {{0}, {.one = put_like_pair}},
};

/* ---- tables ------------------------------------------------------------------------ */

static void make_inputs(struct bb_patterns *p)
{
	const bool is_float = bb_dtype_is_float(p->dtype);
	const struct generator generator =
		p->op >= 0 ? generators[p->op][is_float ? 0 : 1]
			   : (struct generator){.one = p->dtype == BB_FLOAT_INT ? put_pair
						       : is_float               ? put_finite
										: put_bits};
	struct maker m = {.p = p, .turn = mix(~p->seed) % (uint64_t)p->nranks};

	for (int r = 0; r < p->nranks; r++)
		m.weights += (uint64_t)weight_of(&m, r);
	for (m.index = 0; m.index < PERIOD; m.index++) {
		m.hash = mix(p->seed ^ mix(m.index));
		if (generator.column)
			generator.column(&m);
		for (int r = 0; r < p->nranks && generator.one; r++)
			generator.one(&m, r, draw(&m, r));
	}
}

static void make_reduction(const struct bb_patterns *p)
{
	for (size_t i = 0; i < PERIOD; i++) {
		char *const sum = element(p, p->nranks, i);
		uint64_t operand;

		for (int r = 0; r < p->nranks; r++) {
			memcpy(&operand, element(p, r, i), p->element_size);
			if (p->op == BB_MULSUM)
				bb_scalar_scale(p->dtype, &operand, bb_mulsum_weight(r));
			if (r == 0)
				memcpy(sum, &operand, p->element_size);
			else
				bb_scalar_reduce(p->dtype, (enum bb_op)p->op, sum, &operand);
		}
		if (p->op == BB_AVG)
			bb_scalar_divide(p->dtype, sum, p->nranks);
	}
}

bb_status bb_patterns_make(struct bb_patterns **patterns, enum bb_dtype dtype, int op, int nranks,
			   uint64_t seed)
{
	struct bb_patterns *p = calloc(1, sizeof(*p));
	const size_t ntables = (size_t)nranks + (op >= 0), size = bb_dtype_size(dtype);
	char *tables = calloc(ntables, 2 * PERIOD * size);

	if (!p || !tables) {
		free(p);
		free(tables);
		return BB_EINTERNAL;
	}
	*p = (struct bb_patterns){.dtype = dtype,
				  .op = op,
				  .nranks = nranks,
				  .element_size = size,
				  .seed = mix(seed),
				  .tables = tables,
				  .given = seed};
	make_inputs(p);
	if (op >= 0)
		make_reduction(p);
	for (size_t t = 0; t < ntables; t++)
		memcpy(element(p, (int)t, PERIOD), element(p, (int)t, 0), PERIOD * size);
	*patterns = p;
	return BB_OK;
}

void bb_patterns_free(struct bb_patterns *patterns)
{
	if (!patterns)
		return;
	free(patterns->tables);
	free(patterns);
}

struct bb_pattern bb_patterns_get(const struct bb_patterns *patterns, int rank)
{
	return (struct bb_pattern){
		.table = element(patterns, rank == BB_REDUCED ? patterns->nranks : rank, 0),
		.period = PERIOD,
		.element_size = patterns->element_size,
		.seed = patterns->seed,
	};
}

enum bb_dtype bb_patterns_dtype(const struct bb_patterns *patterns)
{
	return patterns->dtype;
}

int bb_patterns_ulps(const struct bb_patterns *patterns, int rank)
{
	return rank == BB_REDUCED && patterns->op == BB_AVG && bb_dtype_is_float(patterns->dtype)
		       ? BB_AVERAGE_ULPS
		       : 0;
}

struct bb_pattern bb_pattern_poison(void)
{
	static const unsigned char bytes[2 * PERIOD] = {[0 ... 2 * PERIOD - 1] = 0xa5};

	return (struct bb_pattern){bytes, PERIOD, 1, 0};
}

void bb_pattern_store_open(struct bb_pattern_store *store)
{
	store->first = NULL;
	pthread_mutex_init(&store->lock, NULL);
}

static void unlink_and_free(struct bb_patterns **link)
{
	struct bb_patterns *p = *link;

	*link = p->next;
	bb_patterns_free(p);
}

void bb_pattern_store_close(struct bb_pattern_store *store)
{
	while (store->first)
		unlink_and_free(&store->first);
	pthread_mutex_destroy(&store->lock);
}

bb_status bb_pattern_store_take(struct bb_pattern_store *store, enum bb_dtype dtype, int op,
				int nranks, uint64_t seed, const struct bb_patterns **patterns)
{
	struct bb_patterns *p;
	bb_status status = BB_OK;

	pthread_mutex_lock(&store->lock);
	for (p = store->first; p; p = p->next)
		if (p->dtype == dtype && p->op == op && p->nranks == nranks && p->given == seed)
			break;
	/* Made under the lock: the other drivers need the same patterns and wait. */
	if (!p && (status = bb_patterns_make(&p, dtype, op, nranks, seed)) == BB_OK) {
		p->next = store->first;
		store->first = p;
	}
	if (status == BB_OK) {
		p->users++;
		*patterns = p;
	}
	pthread_mutex_unlock(&store->lock);
	return status;
}

void bb_pattern_store_give(struct bb_pattern_store *store, const struct bb_patterns *patterns)
{
	struct bb_patterns **link = &store->first;

	pthread_mutex_lock(&store->lock);
	while (*link && *link != patterns)
		link = &(*link)->next;
	if (*link && --(*link)->users == 0)
		unlink_and_free(link);
	pthread_mutex_unlock(&store->lock);
}
