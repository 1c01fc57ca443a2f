#include "oracle.h"

#include "core/scalar.h"

#include <string.h>

static uint32_t scramble(uint32_t x)
{
	x = (x ^ (x >> 16)) * 0x7feb352du;
	x = (x ^ (x >> 15)) * 0x846ca68bu;
	return x ^ (x >> 16);
}

/* A value of which every partial sum or product over the ranks is exact in any floating type. */
static double exact_value(struct type type, int rank, size_t i)
{
	const uint32_t x = scramble((uint32_t)i * 31 + (uint32_t)rank + 1);
	const bool narrow = bb_dtype_size(type.dtype) == 1;
	static const double factors[] = {1, -1, 2, 0.5};

	if (type.op == BB_PROD)
		return factors[x % 4];
	if (type.op == BB_MIN || type.op == BB_MAX)
		return (double)(x % 15) - 7;
	/* fp8 counts to 8 and 16: of neighbours in rank only one in four gives anything. */
	if (narrow && ((size_t)rank + i) % 4 != 0)
		return 0;
	return narrow ? (x & 1 ? 1 : 2) : (double)(x % 15) - 7;
}

static void make_input(struct type type, int rank, size_t i, char *element)
{
	const size_t size = bb_dtype_size(type.dtype);
	const uint32_t x = scramble((uint32_t)i * 17 + (uint32_t)rank * 7919 + 5);
	const uint64_t wide = (uint64_t)x * 0x9e3779b97f4a7c15u;
	const bool logical = type.op >= BB_LAND && type.op <= BB_LXOR;
	struct bb_float_int pair = {.value = (float)(x % 5), .index = rank * 100000 + (int)i};

	if (type.dtype == BB_FLOAT_INT)
		memcpy(element, &pair, size);
	else if (bb_dtype_is_float(type.dtype))
		bb_scalar_encode(type.dtype, exact_value(type, rank, i), element);
	else if (logical && x % 3 == 0)
		memset(element, 0, size);
	else
		memcpy(element, &wide, size);
}

void make_truth(struct truth *truth, struct type type, int n)
{
	const size_t size = bb_dtype_size(type.dtype);
	const size_t most = (size_t)n * MOST_COUNT;
	char operand[8];

	for (int r = 0; r < n; r++)
		for (size_t i = 0; i < most; i++)
			make_input(type, r, i, &truth->in[r][i * size]);
	for (size_t i = 0; i < most; i++) {
		char *sum = &truth->reduced[i * size];

		memcpy(sum, &truth->in[0][i * size], size);
		for (int r = 1; r < n; r++) {
			memcpy(operand, &truth->in[r][i * size], size);
			if (type.op == BB_MULSUM)
				bb_scalar_scale(type.dtype, operand, r % 2 == 0 ? 1 : 2);
			bb_scalar_reduce(type.dtype, type.op, sum, operand);
		}
		if (type.op == BB_AVG)
			bb_scalar_divide(type.dtype, sum, n);
	}
}

static bool is(const struct bb_collective *c, const char *name)
{
	return strcmp(c->name, name) == 0;
}

static size_t sum_of(const size_t *matrix, int n, int fixed, bool row, int end)
{
	size_t sum = 0;

	for (int k = 0; k < end; k++)
		sum += row ? matrix[fixed * n + k] : matrix[k * n + fixed];
	return sum;
}

struct meaning meaning_of(const struct bb_collective *c, const struct bb_shape *s, int me)
{
	const size_t count = s->count, all = count * (size_t)s->nranks, own = count * (size_t)me;
	const bool root = me == s->root;

	if (is(c, "all_gather") || is(c, "hypercube"))
		return (struct meaning){count, all, own, 0};
	if (is(c, "reduce_scatter"))
		return (struct meaning){all, count, 0, own};
	if (is(c, "broadcast"))
		return (struct meaning){root ? count : 0, count, 0, 0};
	if (is(c, "reduce"))
		return (struct meaning){count, root ? count : 0, 0, 0};
	if (is(c, "gather"))
		return (struct meaning){count, root ? all : 0, own, 0};
	if (is(c, "scatter"))
		return (struct meaning){root ? all : 0, count, 0, own};
	if (is(c, "alltoall"))
		return (struct meaning){all, all, 0, 0};
	if (is(c, "alltoallv"))
		return (struct meaning){sum_of(s->matrix, s->nranks, me, true, s->nranks),
					sum_of(s->matrix, s->nranks, me, false, s->nranks), 0, 0};
	return (struct meaning){count, count, 0, 0}; /* all_reduce, sendrecv */
}

void expect(char *out, const struct bb_collective *c, const struct bb_shape *s, int me,
	    const struct truth *t, size_t size)
{
	const int n = s->nranks;
	const size_t count = s->count, own = count * (size_t)me;

	if (is(c, "all_reduce") || (is(c, "reduce") && me == s->root))
		memcpy(out, t->reduced, count * size);
	if (is(c, "reduce_scatter"))
		memcpy(out, &t->reduced[own * size], count * size);
	if (is(c, "broadcast"))
		memcpy(out, t->in[s->root], count * size);
	if (is(c, "scatter"))
		memcpy(out, &t->in[s->root][own * size], count * size);
	if (is(c, "sendrecv"))
		memcpy(out, t->in[me == 0 ? n - 1 : me - 1], count * size);
	for (int k = 0; k < n; k++) {
		const size_t block = (size_t)k * count;

		if (is(c, "all_gather") || is(c, "hypercube") || (is(c, "gather") && me == s->root))
			memcpy(&out[block * size], t->in[k], count * size);
		if (is(c, "alltoall"))
			memcpy(&out[block * size], &t->in[k][own * size], count * size);
		if (is(c, "alltoallv"))
			memcpy(&out[sum_of(s->matrix, n, me, false, k) * size],
			       &t->in[k][sum_of(s->matrix, n, k, true, me) * size],
			       s->matrix[k * n + me] * size);
	}
}
