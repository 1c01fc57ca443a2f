/* Inputs are exact in any order, every rank matters, and filling and checking agree. */
#include "backends/cpu/memory.h"
#include "core/scalar.h"
#include "harness/run/pattern.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_RANKS 1024

static uint64_t next_random(uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return *random >> 33;
}

static const char *at(const struct bb_patterns *p, int rank, size_t index)
{
	const struct bb_pattern pattern = bb_patterns_get(p, rank);

	return (const char *)pattern.table + index * pattern.element_size;
}

static struct bb_patterns *make(enum bb_dtype dtype, int op, int n)
{
	struct bb_patterns *p = NULL;

	assert_int_equal(bb_patterns_make(&p, dtype, op, n, 42), BB_OK);
	return p;
}

/* Run CHECK on every pair of a datatype and an op that go together. */
static void for_all(void (*check)(enum bb_dtype dtype, enum bb_op op, int n), int n)
{
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (int op = 0; op < BB_NOPS; op++) {
			if (bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				check((enum bb_dtype)dtype, (enum bb_op)op, n);
		}
	}
}

/* The inputs at INDEX, weighted, without rank LEFT_OUT. Returns how many. */
static int inputs(const struct bb_patterns *p, enum bb_dtype dtype, enum bb_op op, int n,
		  size_t index, int left_out, uint64_t *values)
{
	int count = 0;

	for (int r = 0; r < n; r++) {
		if (r == left_out)
			continue;
		values[count] = 0;
		memcpy(&values[count], at(p, r, index), bb_dtype_size(dtype));
		if (op == BB_MULSUM)
			bb_scalar_scale(dtype, &values[count], bb_mulsum_weight(r));
		count++;
	}
	return count;
}

/* Reduce COUNT values into values[0], always any two of those that are left. */
static void reduce_anyhow(enum bb_dtype dtype, enum bb_op op, uint64_t *values, int count,
			  uint64_t *random)
{
	for (; count > 1; count--) {
		const int i = (int)(next_random(random) % (uint64_t)count);
		const uint64_t chosen = values[i];

		values[i] = values[count - 1];
		bb_scalar_reduce(dtype, op, &values[next_random(random) % (uint64_t)(count - 1)],
				 &chosen);
	}
}

static void check_order(enum bb_dtype dtype, enum bb_op op, int n)
{
	struct bb_patterns *const p = make(dtype, op, n);
	const size_t size = bb_dtype_size(dtype);
	uint64_t values[MOST_RANKS], random = 9;

	for (size_t i = 0; i < BB_PATTERN_PERIOD; i += 1 + (size_t)n / 4) {
		for (int turn = 0; turn < 3; turn++) {
			const int count = inputs(p, dtype, op, n, i, -1, values);

			reduce_anyhow(dtype, op, values, count, &random);
			if (op == BB_AVG)
				bb_scalar_divide(dtype, values, n);
			if (memcmp(values, at(p, BB_REDUCED, i), size) != 0)
				fail_msg("%s %s of %d ranks depends on the order at %zu",
					 bb_dtype_name(dtype), bb_op_name(op), n, i);
		}
	}
	bb_patterns_free(p);
}

static void any_order_gives_the_same(void **state)
{
	static const int ranks[] = {1, 2, 3, 5, 8, 17, 64, 257, 1024};

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		if (ranks[i] <= 64)
			for_all(check_order, ranks[i]);
		for (int dtype = BB_HALF; ranks[i] > 64 && dtype <= BB_F8E5M2; dtype++) {
			check_order((enum bb_dtype)dtype, BB_MULSUM, ranks[i]);
			check_order((enum bb_dtype)dtype, BB_PROD, ranks[i]);
		}
	}
}

/* Adding in a wider type rounds nowhere, so it tells whether the narrow sums were exact. */
static void check_exact(enum bb_dtype dtype, int n)
{
	struct bb_patterns *const p = make(dtype, BB_SUM, n);

	for (size_t i = 0; i < BB_PATTERN_PERIOD; i++) {
		double sum = 0, magnitudes = 0;

		for (int r = 0; r < n; r++) {
			const double value = bb_scalar_decode(dtype, at(p, r, i));

			sum += value;
			magnitudes += fabs(value);
		}
		assert_true(sum == bb_scalar_decode(dtype, at(p, BB_REDUCED, i)));
		assert_true(magnitudes > 0);
	}
	bb_patterns_free(p);
}

static void sums_are_exact(void **state)
{
	for (int dtype = BB_HALF; dtype <= BB_F8E5M2; dtype++) {
		check_exact((enum bb_dtype)dtype, 2);
		check_exact((enum bb_dtype)dtype, 8);
		check_exact((enum bb_dtype)dtype, 300);
	}
}

/* Without any one rank the reduction is another one, somewhere. */
static void check_matters(enum bb_dtype dtype, enum bb_op op, int n)
{
	struct bb_patterns *const p = make(dtype, op, n);
	uint64_t values[MOST_RANKS], random = 3;

	for (int r = 0; r < n; r++) {
		size_t i = 0;

		for (; i < BB_PATTERN_PERIOD; i++) {
			int count = inputs(p, dtype, op, n, i, -1, values);

			reduce_anyhow(dtype, op, values, count, &random);
			const uint64_t all = values[0];

			count = inputs(p, dtype, op, n, i, r, values);
			reduce_anyhow(dtype, op, values, count, &random);
			if (memcmp(&all, values, bb_dtype_size(dtype)) != 0)
				break;
		}
		if (i == BB_PATTERN_PERIOD)
			fail_msg("%s %s of %d ranks: rank %d does not matter", bb_dtype_name(dtype),
				 bb_op_name(op), n, r);
	}
	bb_patterns_free(p);
}

static void every_rank_matters(void **state)
{
	for_all(check_matters, 2);
	for_all(check_matters, 8);
	for_all(check_matters, 40);
}

/* Also where a column has room for a few ranks only. */
static void no_rank_is_all_zeros(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_F8E4M3, BB_F8E5M2, BB_BFLOAT16, BB_HALF};
	static const enum bb_op ops[] = {BB_SUM, BB_AVG, BB_MULSUM};

	for (size_t k = 0; k < sizeof(dtypes) / sizeof(dtypes[0]) * 3; k++) {
		const enum bb_dtype dtype = dtypes[k / 3];
		struct bb_patterns *const p = make(dtype, ops[k % 3], MOST_RANKS);

		for (int r = 0; r < MOST_RANKS; r++) {
			int nonzero = 0;

			for (size_t i = 0; i < BB_PATTERN_PERIOD; i++)
				nonzero += bb_scalar_decode(dtype, at(p, r, i)) != 0;
			/* Of averages a column has but two. */
			assert_true(nonzero >= (ops[k % 3] == BB_AVG ? 1 : 2));
		}
		bb_patterns_free(p);
	}
}

static void check_values(enum bb_dtype dtype, enum bb_op op, int n)
{
	struct bb_patterns *const p = make(dtype, op, n);
	const bool zeros = op != BB_PROD && op != BB_MIN && op != BB_MAX;

	for (int r = 0; bb_dtype_is_float(dtype) && r < n; r++) {
		for (size_t i = 0; i < BB_PATTERN_PERIOD; i++) {
			const double value = bb_scalar_decode(dtype, at(p, r, i));

			assert_true(isfinite(value));
			assert_true(zeros || value != 0);
			assert_true(value != 0 || !signbit(value));
		}
	}
	bb_patterns_free(p);
}

static void values_are_finite(void **state)
{
	for_all(check_values, 2);
	for_all(check_values, 9);
}

/* Both truths, in inputs and in results, and values other than 1. */
static void logical_results_vary(void **state)
{
	for (int op = BB_LAND; op <= BB_LXOR; op++) {
		struct bb_patterns *const p = make(BB_INT32, op, 16);
		int truths = 0, zeros = 0, large = 0;
		int32_t value;

		for (size_t i = 0; i < BB_PATTERN_PERIOD; i++) {
			memcpy(&value, at(p, BB_REDUCED, i), sizeof(value));
			assert_true(value == 0 || value == 1);
			truths += value;
			memcpy(&value, at(p, 3, i), sizeof(value));
			zeros += value == 0;
			large += value != 0 && value != 1;
		}
		assert_in_range(truths, 200, BB_PATTERN_PERIOD - 200);
		assert_in_range(zeros, 100, BB_PATTERN_PERIOD - 100);
		assert_in_range(large, 100, BB_PATTERN_PERIOD);
		bb_patterns_free(p);
	}
}

static void locations_tie(void **state)
{
	struct bb_patterns *const p = make(BB_FLOAT_INT, BB_MAXLOC, 4);
	int ties = 0;

	for (size_t i = 0; i < BB_PATTERN_PERIOD; i++) {
		struct bb_float_int best, pair;
		int equal = 0;

		memcpy(&best, at(p, BB_REDUCED, i), sizeof(best));
		for (int r = 0; r < 4; r++) {
			memcpy(&pair, at(p, r, i), sizeof(pair));
			assert_true(pair.value <= best.value);
			assert_true(pair.value < best.value || pair.index >= best.index);
			equal += pair.value == best.value;
		}
		ties += equal > 1;
	}
	assert_in_range(ties, 100, BB_PATTERN_PERIOD);
	bb_patterns_free(p);
}

/* What is only moved: ranks differ from each other, and everything is finite. */
static void moved_data_tells_ranks_apart(void **state)
{
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		struct bb_patterns *const p = make((enum bb_dtype)dtype, -1, 64);
		const size_t bytes = BB_PATTERN_PERIOD * bb_dtype_size((enum bb_dtype)dtype);

		for (int r = 0; r < 64; r++) {
			for (int other = 0; other < r; other++)
				assert_true(memcmp(at(p, r, 0), at(p, other, 0), bytes) != 0);
			for (size_t i = 0;
			     bb_dtype_is_float((enum bb_dtype)dtype) && i < BB_PATTERN_PERIOD; i++)
				assert_true(isfinite(
					bb_scalar_decode((enum bb_dtype)dtype, at(p, r, i))));
		}
		bb_patterns_free(p);
	}
}

static void the_seed_decides(void **state)
{
	struct bb_patterns *a = NULL, *b = NULL, *c = NULL;
	const size_t bytes = 2 * BB_PATTERN_PERIOD * sizeof(float);

	assert_int_equal(bb_patterns_make(&a, BB_FLOAT, BB_SUM, 3, 1), BB_OK);
	assert_int_equal(bb_patterns_make(&b, BB_FLOAT, BB_SUM, 3, 1), BB_OK);
	assert_int_equal(bb_patterns_make(&c, BB_FLOAT, BB_SUM, 3, 2), BB_OK);
	assert_memory_equal(at(a, 2, 0), at(b, 2, 0), bytes);
	assert_memory_equal(at(a, BB_REDUCED, 0), at(b, BB_REDUCED, 0), bytes);
	assert_true(memcmp(at(a, 2, 0), at(c, 2, 0), bytes) != 0);
	assert_memory_equal(at(a, 1, 0), at(a, 1, BB_PATTERN_PERIOD), bytes / 2);
	bb_patterns_free(a);
	bb_patterns_free(b);
	bb_patterns_free(c);
	bb_patterns_free(NULL);
}

/* Element FIRST + i by the definition, one at a time. */
static const char *defined(const struct bb_pattern *pattern, size_t i)
{
	const size_t turned =
		i % pattern->period + bb_pattern_rotation(pattern, i / pattern->period);

	return (const char *)pattern->table + turned % pattern->period * pattern->element_size;
}

static uint64_t wrong_of(const void *got, const struct bb_pattern *pattern, size_t first,
			 size_t count, enum bb_dtype dtype, int ulps)
{
	uint64_t wrong = 0;

	assert_int_equal(bb_cpu_verify(NULL, got, pattern, first, count, dtype, ulps, &wrong),
			 BB_OK);
	return wrong;
}

static void check_fill(const struct bb_pattern *pattern, enum bb_dtype dtype, size_t first,
		       size_t count)
{
	static uint64_t room[5000];
	char *const dst = (char *)room + pattern->element_size;
	const size_t size = pattern->element_size;

	memset(room, 0x5a, sizeof(room));
	assert_int_equal(bb_cpu_fill(NULL, dst, pattern, first, count), BB_OK);
	for (size_t i = 0; i < count; i++)
		assert_memory_equal(dst + i * size, defined(pattern, first + i), size);
	assert_int_equal(dst[-1], 0x5a);
	assert_int_equal(dst[count * size], 0x5a);
	assert_int_equal(wrong_of(dst, pattern, first, count, dtype, 0), 0);
	for (size_t i = 0; i < count; i += 1 + count / 3) {
		dst[i * size + i % size] ^= 4;
		assert_int_equal(wrong_of(dst, pattern, first, count, dtype, 0), 1);
		dst[i * size + i % size] ^= 4;
	}
	if (count > 1) {
		dst[0] ^= 1;
		dst[(count - 1) * size] ^= 1;
		assert_int_equal(wrong_of(dst, pattern, first, count, dtype, 0), 2);
	}
}

static void fill_and_verify_agree(void **state)
{
	static const size_t firsts[] = {0, 1, 1020, 1021, 1022, 5000, 123456789012345};
	static const size_t counts[] = {0, 1, 2, 1019, 1021, 1023, 4500};

	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		struct bb_patterns *const p = make((enum bb_dtype)dtype, -1, 2);
		const struct bb_pattern pattern = bb_patterns_get(p, 1);

		for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
			for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
				check_fill(&pattern, (enum bb_dtype)dtype, firsts[i], counts[k]);
		}
		bb_patterns_free(p);
	}
}

/* A block that lands where another belongs is seen. */
static void misplaced_blocks_are_wrong(void **state)
{
	struct bb_patterns *const p = make(BB_FLOAT, -1, 1);
	const struct bb_pattern pattern = bb_patterns_get(p, 0);
	float data[3000];

	assert_int_equal(bb_cpu_fill(NULL, data, &pattern, 0, 3000), BB_OK);
	assert_in_range(wrong_of(data, &pattern, 1024, 3000, BB_FLOAT, 0), 2900, 3000);
	assert_in_range(wrong_of(data, &pattern, 1021, 3000, BB_FLOAT, 0), 1900, 3000);
	bb_patterns_free(p);
}

static void verify_tolerates_ulps(void **state)
{
	struct bb_patterns *const p = make(BB_DOUBLE, BB_AVG, 3);
	const struct bb_pattern pattern = bb_patterns_get(p, BB_REDUCED);
	double data[1100];

	assert_int_equal(bb_cpu_fill(NULL, data, &pattern, 7, 1100), BB_OK);
	data[0] = nextafter(nextafter(data[0], 1e9), 1e9);
	data[1099] = nextafter(data[1099], -1e9);
	assert_int_equal(wrong_of(data, &pattern, 7, 1100, BB_DOUBLE, 0), 2);
	assert_int_equal(wrong_of(data, &pattern, 7, 1100, BB_DOUBLE, 1), 1);
	assert_int_equal(wrong_of(data, &pattern, 7, 1100, BB_DOUBLE, 2), 0);
	data[500] = NAN;
	assert_int_equal(wrong_of(data, &pattern, 7, 1100, BB_DOUBLE, 2), 1);
	bb_patterns_free(p);
}

/* Of bor each bit is set on one rank at most, of band clear, and about half of them on none. */
static void a_bit_is_of_one_rank(void **state)
{
	static const int counts[] = {1, 2, 3, 9};

	for (size_t k = 0; k < 2 * sizeof(counts) / sizeof(counts[0]); k++)
		for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
			const enum bb_op op = k % 2 ? BB_BOR : BB_BAND;
			const int n = counts[k / 2];
			const size_t size = bb_dtype_size((enum bb_dtype)dtype);
			size_t used[64] = {0};
			struct bb_patterns *p;

			if (!bb_op_accepts(op, (enum bb_dtype)dtype))
				continue;
			p = make((enum bb_dtype)dtype, op, n);
			for (size_t i = 0; i < BB_PATTERN_PERIOD; i++)
				for (size_t bit = 0; bit < 8 * size; bit++) {
					int set = 0;

					for (int r = 0; r < n; r++)
						set += (unsigned char)at(p, r, i)[bit / 8] >>
							       bit % 8 &
						       1;
					if (op == BB_BAND)
						set = n - set;
					assert_true(set == 0 || set == 1);
					used[bit] += (size_t)set;
				}
			for (size_t bit = 0; bit < 8 * size; bit++)
				if (used[bit] < BB_PATTERN_PERIOD * 2 / 5 ||
				    used[bit] > BB_PATTERN_PERIOD * 3 / 5)
					fail_msg("%s %s: bit %zu in %zu", bb_dtype_name(dtype),
						 bb_op_name(op), bit, used[bit]);
			bb_patterns_free(p);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bit_is_of_one_rank),
		cmocka_unit_test(any_order_gives_the_same),
		cmocka_unit_test(sums_are_exact),
		cmocka_unit_test(every_rank_matters),
		cmocka_unit_test(no_rank_is_all_zeros),
		cmocka_unit_test(values_are_finite),
		cmocka_unit_test(logical_results_vary),
		cmocka_unit_test(locations_tie),
		cmocka_unit_test(moved_data_tells_ranks_apart),
		cmocka_unit_test(the_seed_decides),
		cmocka_unit_test(fill_and_verify_agree),
		cmocka_unit_test(misplaced_blocks_are_wrong),
		cmocka_unit_test(verify_tolerates_ulps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
