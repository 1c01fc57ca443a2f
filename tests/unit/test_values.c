/*
 * The numbers of a schedule: every one adds each rank's number once, in the order of its steps,
 * rounded as the ranks round. tests/cli/test_accuracy.py holds them against real calls, bit by bit.
 */
#include "schedules/values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The algorithm NAME of all_reduce on the numbers IN of N ranks, COUNT each. */
static void perform(struct bb_values *v, const struct bb_algorithm *algorithm,
		    const struct bb_shape *shape, enum bb_dtype dtype, const double *in)
{
	struct bb_error error = {0};

	assert_non_null(algorithm);
	assert_int_equal(bb_values_open(v, algorithm, shape, dtype, &error), BB_OK);
	for (int rank = 0; rank < shape->nranks; rank++) {
		const size_t n = bb_collective_in(algorithm->collective, shape, rank);

		for (size_t i = 0; i < n; i++)
			bb_values_at(v, rank, BB_IN)[i] =
				(struct bb_value){in ? in[rank] : (double)(rank + 1), 1, 0};
	}
	assert_int_equal(bb_values_perform(v, &error), BB_OK);
}

/* The sum of N numbers by NAME in DTYPE on RANK. */
static double sum_of(const char *name, enum bb_dtype dtype, int n, const double *in, int rank)
{
	const struct bb_shape shape = {.nranks = n, .count = 1};
	struct bb_values v;

	perform(&v, bb_algorithm_find(&bb_all_reduce, name), &shape, dtype, in);
	const double sum = bb_values_at(&v, rank, BB_OUT)->number;
	bb_values_close(&v);
	return sum;
}

/* Sums that are exact in any order: each contribution counts once, wherever it should be. */
static void every_schedule_adds_all(void **state)
{
	static const int ranks[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 33};

	for (int a = 0; bb_algorithms[a]; a++) {
		const struct bb_collective *collective = bb_algorithms[a]->collective;

		for (size_t k = 0; k < 2 * sizeof(ranks) / sizeof(*ranks); k++) {
			const int n = ranks[k / 2];
			const struct bb_shape shape = {.nranks = n,
						       .in_place = k % 2,
						       .root = collective->flags & BB_ROOTED ? n / 2
											     : 0,
						       .count = 19};
			struct bb_values v;

			if (!(collective->flags & BB_REDUCES) ||
			    (collective->refuses && collective->refuses(n)))
				continue;
			perform(&v, bb_algorithms[a], &shape, BB_FLOAT, NULL);
			for (int rank = 0; rank < n; rank++) {
				const struct bb_value *out = bb_values_at(&v, rank, BB_OUT);
				const size_t size = bb_collective_out(collective, &shape, rank);

				for (size_t i = 0; i < size; i++) {
					assert_true(out[i].number == n * (n + 1) / 2);
					assert_int_equal(out[i].terms, n);
				}
			}
			bb_values_close(&v);
		}
	}
}

/* In fp16, 2048 + 1 is 2048. */
static void order_matters(void **state)
{
	static const double falling[] = {2048, 1, 1}, rising[] = {1, 1, 2048};
	static const double fourth[] = {1, 2048, 1, 1}, middle[] = {0, 1, 2048, 1, 0};

	assert_true(sum_of("linear", BB_HALF, 3, falling, 0) == 2048);
	assert_true(sum_of("linear", BB_HALF, 3, rising, 2) == 2050);
	assert_true(sum_of("linear", BB_FLOAT, 3, falling, 0) == 2050);
	assert_true(sum_of("linear", BB_BFLOAT16, 3, rising, 0) == 2048);
	/* Ranks 0 and 1, and 2 and 3, then both. */
	assert_true(sum_of("recursive_doubling", BB_HALF, 4, fourth, 3) == 2050);
	/* Rank 2 adds what ranks 1 and 3 send, in fp32, and rounds once. */
	assert_true(sum_of("tree", BB_HALF, 5, middle, 4) == 2050);
	assert_true(sum_of("linear", BB_HALF, 5, middle, 4) == 2048);
}

/* Roundings of n numbers: a chain rounds sums of 2 to n terms; doubling log2 n sums of all. */
static void expected_errors(void **state)
{
	const struct bb_shape shape = {.nranks = 1024, .in_place = true, .count = 1024};
	struct bb_values v;

	perform(&v, bb_algorithm_find(&bb_all_reduce, "ring"), &shape, BB_BFLOAT16, NULL);
	for (size_t i = 0; i < shape.count; i += 100)
		assert_true(bb_values_at(&v, 3, BB_OUT)[i].roundings == 1024.f * 1025 / 2 - 1);
	/* 0.30 u sqrt(n) */
	assert_true(fabs(bb_values_expected(BB_BFLOAT16,
					    bb_values_at(&v, 0, BB_OUT)->roundings / 1024) /
				 (0.3003 * 0x1p-8 * sqrt(1024)) -
			 1) < 1e-3);
	bb_values_close(&v);
	perform(&v, bb_algorithm_find(&bb_all_reduce, "recursive_doubling"), &shape, BB_HALF, NULL);
	assert_true(bb_values_at(&v, 3, BB_OUT)->roundings == 1024 * 10);
	/* 0.42 u sqrt(log2 n) */
	assert_true(
		fabs(bb_values_expected(BB_HALF, bb_values_at(&v, 0, BB_OUT)->roundings / 1024) /
			     (0.42466 * 0x1p-11 * sqrt(10)) -
		     1) < 1e-3);
	bb_values_close(&v);
}

static void too_many_numbers(void **state)
{
	const struct bb_shape shape = {.nranks = 1024, .in_place = true, .count = 1 << 20};
	struct bb_error error = {0};
	struct bb_values v;

	assert_int_equal(bb_values_open(&v, bb_algorithm_find(&bb_all_reduce, "ring"), &shape,
					BB_FLOAT, &error),
			 BB_EUNSUPPORTED);
	assert_non_null(strstr(error.text, "1024 ranks take more than 1 GiB"));
	bb_values_close(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_schedule_adds_all),
		cmocka_unit_test(order_matters),
		cmocka_unit_test(expected_errors),
		cmocka_unit_test(too_many_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
