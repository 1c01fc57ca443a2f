#include "core/stats.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
		fail_msg("%.17g instead of %.17g", got, want);
}

/* 1 to N, in an order that is not sorted. */
static double *shuffled(size_t n)
{
	double *samples = malloc(n * sizeof(*samples));

	assert_non_null(samples);
	for (size_t i = 0; i < n; i++)
		samples[i] = (double)(i % 2 ? n - i / 2 : i / 2 + 1);
	return samples;
}

static void test_known_values(void **state)
{
	/* Mean 5 and population deviation 2 are exact. */
	double samples[] = {9, 2, 4, 5, 4, 7, 4, 5};
	struct bb_stats s;

	bb_stats_compute(samples, 8, &s);
	assert_int_equal(s.n, 8);
	assert_true(samples[0] == 2 && samples[7] == 9);
	near(s.min, 2);
	near(s.max, 9);
	near(s.p50, 4.5);
	near(s.p95, 8.3);  /* rank 6.65: 7 + 0.65 * 2 */
	near(s.p99, 8.86); /* rank 6.93 */
	near(s.mean, 5);
	near(s.stdev, 2);
	near(s.cv, 0.4);
	near(s.ci_low, 2); /* n = 8: P(X < 1) = 1/256, P(X < 2) = 9/256 > 0.025 */
	near(s.ci_high, 9);
	near(bb_stats_precision(&s), 3.5 / 4.5);
}

static void test_few(void **state)
{
	double one[] = {3}, two[] = {2, -2}, zero[] = {0, 0};
	struct bb_stats s;

	memset(&s, 0xff, sizeof(s));
	bb_stats_compute(NULL, 0, &s);
	assert_true(s.n == 0 && s.min == 0 && s.p99 == 0 && s.cv == 0 && s.ci_high == 0);
	assert_true(bb_stats_precision(&s) == 0);

	bb_stats_compute(one, 1, &s);
	assert_true(s.min == 3 && s.p50 == 3 && s.p99 == 3 && s.max == 3 && s.mean == 3);
	assert_true(s.stdev == 0 && s.ci_low == 3 && s.ci_high == 3);

	bb_stats_compute(two, 2, &s);
	assert_true(s.p50 == 0 && s.mean == 0 && s.stdev == 2 && s.cv == 0);
	assert_true(s.ci_low == -2 && s.ci_high == 2 && bb_stats_precision(&s) == 0);

	bb_stats_compute(zero, 2, &s);
	assert_true(s.cv == 0 && s.stdev == 0);
}

/* The naive sum of squares has no correct digit here. */
static void test_large_offset(void **state)
{
	double same[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
	double samples[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
	struct bb_stats s;

	bb_stats_compute(samples, 4, &s);
	near(s.mean, 1e9 + 10);
	near(s.stdev, sqrt(22.5));
	bb_stats_compute(same, 7, &s);
	assert_true(s.mean == 0.1 && s.stdev == 0);
}

/*
 * Ranks of the 95% interval of the median, from published tables of the sign test (critical value
 * plus one); beyond 1000 the normal approximation.
 */
static void test_median_interval(void **state)
{
	static const struct {
		size_t n, low;
	} known[] = {
		{5, 1},   {6, 1},   {8, 1},    {9, 2},      {10, 2},     {11, 2},       {12, 3},
		{15, 4},  {16, 4},  {17, 5},   {20, 6},     {25, 8},     {30, 10},      {40, 14},
		{50, 18}, {70, 27}, {100, 40}, {1000, 469}, {1002, 470}, {10000, 4902},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		double *samples = shuffled(known[i].n);
		struct bb_stats s;

		bb_stats_compute(samples, known[i].n, &s);
		if (s.ci_low != (double)known[i].low)
			fail_msg("n = %zu: rank %g instead of %zu", known[i].n, s.ci_low,
				 known[i].low);
		assert_true(s.ci_high == (double)(known[i].n + 1 - known[i].low));
		near(s.p50, (double)(known[i].n + 1) / 2);
		near(s.p95, 1 + (double)(known[i].n - 1) * 0.95);
		free(samples);
	}
}

static void test_order(void **state)
{
	double values[] = {3, NAN, -INFINITY, 1, 2};
	int numbers[] = {INT_MAX, -1, INT_MIN, 0};

	bb_stats_sort(values, 5);
	assert_true(values[0] == -INFINITY && values[1] == 1 && values[3] == 3);
	assert_true(isnan(values[4]));
	assert_true(bb_stats_quantile(&values[1], 3, 0) == 1);
	assert_true(bb_stats_quantile(&values[1], 3, 0.75) == 2.5);
	assert_true(bb_stats_quantile(&values[1], 3, 1) == 3);
	values[0] = 9, values[4] = 4;
	assert_true(bb_stats_median(values, 5) == 3);
	assert_true(bb_stats_median(values, 4) == 2.5);
	assert_true(isnan(bb_stats_median(NULL, 0)));
	bb_stats_sort_ints(numbers, 4);
	assert_true(numbers[0] == INT_MIN && numbers[1] == -1 && numbers[3] == INT_MAX);
	bb_stats_sort_ints(NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values), cmocka_unit_test(test_few),
		cmocka_unit_test(test_large_offset), cmocka_unit_test(test_median_interval),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
