/*
 * The buffers of a case: how many sets there are.
 */
#include "harness/measure/call.h"
#include "schedules/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static struct bb_layout layout(size_t bytes, size_t arena, size_t cache)
{
	const struct bb_shape shape = {.nranks = 8, .count = bytes};

	return bb_layout_make(&bb_all_reduce, &shape, 0, 1, 0, 0, arena, true, cache);
}

/* Of an H100: 50 MiB. */
static void test_sets_exceed_the_cache(void **state)
{
	const size_t cache = 50 * MIB;
	struct bb_layout l = layout(MIB, SIZE_MAX, cache);

	assert_int_equal(l.sets, 51);
	assert_true((size_t)(l.sets - 1) * l.set_bytes >= 2 * cache);
	assert_int_equal(bb_layout_bytes(&l, cache), l.sets_at + 51 * l.set_bytes);
	assert_int_equal(layout(64, SIZE_MAX, cache).sets, BB_MOST_SETS);
	assert_int_equal(layout(64 * MIB, SIZE_MAX, cache).sets, BB_USUAL_SETS);
	l = layout(64 * MIB, SIZE_MAX, cache);
	assert_int_equal(bb_layout_bytes(&l, cache), l.sets_at + 2 * l.set_bytes);
}

static void test_sets_fit_the_arena(void **state)
{
	assert_int_equal(layout(MIB, 8 * MIB, 50 * MIB).sets, 4);
	assert_int_equal(layout(MIB, MIB, 50 * MIB).sets, 0);
}

static void test_sets_without_a_cache(void **state)
{
	struct bb_layout l = layout(64, SIZE_MAX, 0);

	assert_int_equal(l.sets, BB_USUAL_SETS);
	assert_int_equal(bb_layout_bytes(&l, 0), l.sets_at + 2 * l.set_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sets_exceed_the_cache),
					   cmocka_unit_test(test_sets_fit_the_arena),
					   cmocka_unit_test(test_sets_without_a_cache)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
