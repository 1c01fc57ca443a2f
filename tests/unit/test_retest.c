#include "suspects/retest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static struct bb_floor floor_of(const double *seconds, int n)
{
	struct bb_floor floor = {.rounds = 0};

	for (int i = 0; i < n; i++)
		bb_floor_add(&floor, seconds[i]);
	return floor;
}

static void test_floor(void **state)
{
	const struct bb_floor none = {.rounds = 0};
	const struct bb_floor floor = floor_of((const double[]){9, 2, 7, 1, 2.4, 2.6, 2.2, 30}, 8);

	assert_true(none.kept[0] == 0 && bb_floor_usual(&none) == 0);
	assert_true(floor.kept[0] == 1);
	assert_true(bb_floor_usual(&floor) == 2.2); /* 1 alone may be a freak */
	assert_int_equal(floor.near, 5);
	assert_int_equal(floor.rounds, 8);
}

/* The order of the rounds does not matter: the shortest are kept. */
static void test_many_rounds(void **state)
{
	struct bb_floor up = {.rounds = 0}, down = {.rounds = 0};

	for (int i = 0; i < 100; i++) {
		bb_floor_add(&up, 1 + i);
		bb_floor_add(&down, 100 - i);
	}
	for (int i = 0; i < BB_FLOOR_TIMES; i++) {
		assert_true(up.kept[i] == 1 + i);
		assert_true(down.kept[i] == 1 + i);
	}
	assert_int_equal(up.rounds, 100);
	assert_int_equal(down.near, BB_FLOOR_TIMES);
	assert_int_equal(bb_floor_kept(&down), BB_FLOOR_TIMES);
}

static void test_convicts(void **state)
{
	/* On a quiet machine as soon as it was measured often enough; beside others later; never if
	   its like are hardly ever undisturbed. */
	assert_false(bb_retest_convicts(BB_RETEST_ROUNDS - 1, 16, 16, 1));
	assert_true(bb_retest_convicts(BB_RETEST_ROUNDS, 16, 16, 100));
	assert_false(bb_retest_convicts(BB_RETEST_ROUNDS, 6, 16, 100));
	assert_true(bb_retest_convicts(64, 16, 64, 100));
	assert_false(bb_retest_convicts(1000, 3, 1000, 1));
}

static void test_slow_factor(void **state)
{
	assert_true(bb_slow_factor(BB_CROWDED, 1, 0) == BB_CROWDED);
	assert_true(bb_slow_factor(BB_CROWDED, 2, 1) == 1 + (BB_CROWDED - 1) / 2.0);
	assert_true(bb_slow_factor(BB_CROWDED, 1, 2) == 1); /* it is all planned */
	assert_true(bb_is_crowded(3, 2) && !bb_is_crowded(2, 2));
}

static void test_chance(void **state)
{
	/* Of a rate that nobody knows all numbers are as likely; of one that is well known it is
	   the binomial distribution. */
	assert_true(fabs(bb_chance(2, 3, 0, 0) - 0.5) < 1e-12);
	assert_true(fabs(bb_chance(8, 10, 500000, 1000000) - 56.0 / 1024) < 1e-4);
	assert_true(bb_chance(0, 10, 1, 10) == 1);
	assert_true(bb_chance(32, 32, 0, 64) < 1e-20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_floor),    cmocka_unit_test(test_many_rounds),
		cmocka_unit_test(test_convicts), cmocka_unit_test(test_slow_factor),
		cmocka_unit_test(test_chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
