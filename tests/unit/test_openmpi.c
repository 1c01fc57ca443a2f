/* Open MPI's choice of algorithms, and its trees. */
#include "simulator/openmpi/openmpi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/status.h"
#include "schedules/checker.h"
#include "schedules/parts.h"

/* Rows read off coll_tuned_decision_fixed.c of 5.0.3 by hand; floats. */
static const struct {
	const struct bb_collective *collective;
	int ranks;
	size_t bytes;
	const char *name;
	int phases;
} rows[] = {
	{&bb_all_reduce, 2, 4096, "ring", 1},
	{&bb_all_reduce, 4, 8192, "rabenseifner", 1},
	{&bb_all_reduce, 16, 4, "segmented_ring", 1},
	{&bb_all_reduce, 72, 262140, "recursive_doubling", 1},
	{&bb_all_reduce, 72, 262144, "rabenseifner", 1},
	{&bb_all_reduce, 127, 1024, "recursive_doubling", 1},
	{&bb_all_reduce, 128, 1024, "nonoverlapping", 2},
	{&bb_all_reduce, 128, 131072, "recursive_doubling", 1},
	{&bb_all_reduce, 288, 4096, "rabenseifner", 1},
	{&bb_all_reduce, 5000, 16384, "recursive_doubling", 1},
	{&bb_broadcast, 100, 8, "knomial", 1},
	{&bb_broadcast, 128, 20000, "basic_linear", 1},
	{&bb_reduce, 4096, 8192, "in_order_binary", 0},
	{&bb_all_gather, 2, 1 << 20, "two_proc", 1},
	{&bb_all_gather, 12, 1 << 20, "recursive_doubling", 1},
	{&bb_all_gather, 65, 1024, "neighbor", 1},
	{&bb_all_gather, 64, 1024, "neighbor", 1},
	{&bb_reduce_scatter, 48, 8, "basic_linear", 2},
	{&bb_reduce_scatter, 64, 64, "butterfly", 1},
	{&bb_reduce_scatter, 65, 64, "butterfly", 0},
	{&bb_gather, 300, 4096, "basic_linear", 1},
	{&bb_scatter, 64, 512, "linear_nb", 1},
	{&bb_alltoall, 2, 16, "two_proc", 1},
	{&bb_alltoall, 200, 1 << 20, "pairwise", 1},
	{&bb_alltoall, 64, 512, "modified_bruck", 1},
	{&bb_sendrecv, 64, 512, "MPI_Sendrecv", 1},
	/* First and last of some rows, and what is just below and above their limits. */
	{&bb_all_reduce, 3, 7, "ring", 1},
	{&bb_all_reduce, 3, 8, "recursive_doubling", 1},
	{&bb_all_reduce, 4, 12, "ring", 1},
	{&bb_all_reduce, 7, 16, "recursive_doubling", 1},
	{&bb_all_reduce, 8, 8188, "recursive_doubling", 1},
	{&bb_all_reduce, 15, 8192, "rabenseifner", 1},
	{&bb_all_reduce, 31, 60, "segmented_ring", 1},
	{&bb_all_reduce, 32, 128, "rabenseifner", 1},
	{&bb_all_reduce, 255, 131068, "nonoverlapping", 2},
	{&bb_all_reduce, 4096, 2044, "nonoverlapping", 0},
	{&bb_all_reduce, 1 << 20, 32768, "rabenseifner", 1},
	{&bb_broadcast, 3, 31, "pipeline", 1},
	{&bb_broadcast, 3, 255, "binary_tree", 1},
	{&bb_broadcast, 3, 1 << 18, "basic_linear", 1},
	{&bb_broadcast, 3, 1 << 17, "chain", 0},
	{&bb_broadcast, 3, 1 << 19, "binomial", 1},
	{&bb_broadcast, 127, 1 << 28, "knomial", 1},
	{&bb_reduce, 100, 1 << 20, "binomial", 1},
	{&bb_reduce, 4, 4096, "chain", 0},
	{&bb_reduce, 3, 16, "pipeline", 1},
	{&bb_reduce, 3, 1000, "linear", 1},
	{&bb_all_gather, 100, 511, "recursive_doubling", 1},
	{&bb_all_gather, 400, 32, "bruck", 1},
	{&bb_all_gather, 100, 1 << 16, "ring", 1},
	{&bb_gather, 3, 4, "binomial", 1},
	{&bb_gather, 3, 1, "linear_sync", 0},
	{&bb_gather, 300, 2047, "binomial", 1},
	{&bb_scatter, 4, 2047, "binomial", 1},
	{&bb_scatter, 4, 2048, "basic_linear", 1},
	{&bb_alltoall, 100, 1023, "modified_bruck", 1},
	{&bb_alltoall, 100, 1024, "linear", 1},
	{&bb_alltoall, 100, 2048, "linear_sync", 1},
	{&bb_alltoall, 100, 1 << 18, "pairwise", 1},
};

/* What runs in place of an algorithm that does not fit, and the schedule of each. */
static const struct {
	const struct bb_collective *collective;
	int ranks;
	size_t count, element;
	const char *name;
	const struct bb_algorithm *schedule;
	bool copies;
} fallbacks[] = {
	{&bb_all_reduce, 3, 2, 2, "ring", &bb_doubling_all_reduce, true}, /* 2 elements of 3 */
	{&bb_all_reduce, 3, 3, 2, "ring", &bb_ring_all_reduce, true},
	{&bb_all_reduce, 20, 19, 1, "segmented_ring", &bb_doubling_all_reduce, true},
	{&bb_all_reduce, 20, 20, 1, "segmented_ring", &bb_ring_all_reduce, true},
	{&bb_all_reduce, 40, 31, 8, "rabenseifner", &bb_linear_all_reduce, false}, /* 32 of 40 */
	{&bb_all_reduce, 40, 32, 8, "rabenseifner", &bb_openmpi_rabenseifner, true},
	{&bb_all_reduce, 9, 100, 4, "recursive_doubling", &bb_doubling_all_reduce, true},
	{&bb_all_gather, 8, 100, 4, "recursive_doubling", &bb_doubling_all_gather, false},
	{&bb_all_gather, 12, 100, 4, "recursive_doubling", &bb_bruck_all_gather, false},
	{&bb_all_gather, 50, 1000, 4, "neighbor", &bb_openmpi_neighbor, false},
	{&bb_all_gather, 51, 1000, 4, "neighbor", &bb_ring_all_gather, false},
	{&bb_all_gather, 2, 100, 4, "two_proc", &bb_pairwise_all_gather, false},
	{&bb_broadcast, 20, 1, 4, "knomial", &bb_openmpi_knomial_broadcast, false},
	{&bb_broadcast, 40, 100, 4, "binomial", &bb_doubling_broadcast, false},
	{&bb_reduce, 40, 100, 4, "binomial", &bb_openmpi_binomial_reduce, false},
	{&bb_gather, 40, 100, 4, "binomial", &bb_tree_gather, false},
	{&bb_scatter, 40, 100, 4, "binomial", &bb_tree_scatter, false},
	{&bb_alltoall, 40, 1000, 4, "linear", &bb_naive_alltoall, false},
	{&bb_reduce_scatter, 10, 4, 4, "recursive_halving", &bb_halving_reduce_scatter, false},
};

static void test_what_does_not_fit(void **state)
{
	for (size_t i = 0; i < sizeof(fallbacks) / sizeof(fallbacks[0]); i++)
		for (int in_place = 0; in_place < 2; in_place++) {
			const struct bb_shape shape = {.nranks = fallbacks[i].ranks,
						       .count = fallbacks[i].count,
						       .chunk = 7,
						       .in_place = in_place};
			struct bb_openmpi_plan plan;
			const char *const why =
				bb_openmpi_choose(fallbacks[i].collective, &shape,
						  fallbacks[i].element, BB_OPENMPI_BLOCKING, &plan);

			if (why || plan.phases != 1 || strcmp(plan.name, fallbacks[i].name) != 0 ||
			    plan.phase[0].schedule != fallbacks[i].schedule)
				fail_msg("%zu: %s, %s", i, plan.name,
					 why ? why : plan.phase[0].schedule->name);
			assert_int_equal(plan.copies, fallbacks[i].copies && !in_place);
			/* Nothing is cut into chunks. */
			assert_int_equal(plan.phase[0].shape.chunk, 0);
			assert_int_equal(plan.phase[0].shape.count, shape.count);
		}
}

static void test_intervals(void **state)
{
	double low, high;

	bb_openmpi_interval(1048575, &low, &high);
	assert_true(low == 0.68 && high == 1.55);
	bb_openmpi_interval(1048576, &low, &high);
	assert_true(low == 0.73 && high == 1.72);
}

static void test_choices_are_those_of_the_source(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct bb_shape shape = {.nranks = rows[i].ranks, .count = rows[i].bytes / 4};
		struct bb_openmpi_plan plan;
		const char *why = bb_openmpi_choose(rows[i].collective, &shape, 4,
						    BB_OPENMPI_BLOCKING, &plan);

		if (strcmp(plan.name, rows[i].name) != 0 || !why != (rows[i].phases > 0) ||
		    plan.phases != rows[i].phases)
			fail_msg("%s of %d ranks, %zu bytes: %s, %d", rows[i].collective->name,
				 rows[i].ranks, rows[i].bytes, plan.name, plan.phases);
	}
}

static void test_parts_are_chosen_too(void **state)
{
	const struct bb_shape shape = {.nranks = 128, .count = 256};
	struct bb_openmpi_plan plan;

	assert_null(bb_openmpi_choose(&bb_all_reduce, &shape, 4, BB_OPENMPI_BLOCKING, &plan));
	assert_ptr_equal(plan.phase[0].schedule, &bb_openmpi_binomial_reduce);
	assert_ptr_equal(plan.phase[1].schedule, &bb_openmpi_binary_broadcast);
}

static void test_short_data_falls_back(void **state)
{
	const struct bb_shape shape = {.nranks = 40, .count = 31};
	const struct bb_shape few = {.nranks = 20, .count = 2};
	struct bb_openmpi_plan plan;

	assert_null(bb_openmpi_choose(&bb_all_reduce, &shape, 8, BB_OPENMPI_BLOCKING, &plan));
	assert_ptr_equal(plan.phase[0].schedule, bb_algorithm_find(&bb_all_reduce, "linear"));
	assert_null(bb_openmpi_choose(&bb_all_reduce, &few, 4, BB_OPENMPI_BLOCKING, &plan));
	assert_ptr_equal(plan.phase[0].schedule,
			 bb_algorithm_find(&bb_all_reduce, "recursive_doubling"));
}

static void test_nonblocking(void **state)
{
	struct bb_shape shape = {.nranks = 72, .count = 16383};
	struct bb_openmpi_plan plan;

	assert_null(bb_openmpi_choose(&bb_all_reduce, &shape, 4, BB_OPENMPI_NONBLOCKING, &plan));
	assert_int_equal(plan.phases, 2);
	shape.count++;
	assert_null(bb_openmpi_choose(&bb_all_reduce, &shape, 4, BB_OPENMPI_NONBLOCKING, &plan));
	assert_string_equal(plan.name, "rabenseifner");
	assert_true(plan.copies);
	shape.in_place = true;
	assert_null(bb_openmpi_choose(&bb_all_reduce, &shape, 4, BB_OPENMPI_NONBLOCKING, &plan));
	assert_false(plan.copies);
	assert_null(bb_openmpi_choose(&bb_broadcast, &shape, 4, BB_OPENMPI_NONBLOCKING, &plan));
	assert_false(plan.copies);
	assert_ptr_equal(plan.phase[0].schedule,
			 bb_algorithm_find(&bb_broadcast, "recursive_doubling"));
	assert_non_null(bb_openmpi_choose(&bb_reduce, &shape, 4, BB_OPENMPI_NONBLOCKING, &plan));
}

/* By the same checker as all schedules. */
static void hold(const struct bb_algorithm *algorithm, const struct bb_shape *shape)
{
	struct bb_error error = {.text = ""};

	if (bb_check_algorithm(algorithm, shape, 8, &error) != BB_OK)
		fail_msg("%s among %d: %s", algorithm->name, shape->nranks, error.text);
}

static void test_schedules_are_right(void **state)
{
	for (int n = 2; n <= 64; n++)
		for (int i = 0; i < 4; i++) {
			struct bb_shape shape = {.nranks = n, .count = 3, .in_place = i % 2};

			shape.root = i / 2 * (n - 1);
			hold(&bb_openmpi_binary_broadcast, &shape);
			hold(&bb_openmpi_knomial_broadcast, &shape);
			hold(&bb_openmpi_binomial_reduce, &shape);
			shape.root = 0;
			shape.count = (size_t)n + (size_t)i * 5;
			hold(&bb_openmpi_rabenseifner, &shape);
			if (n % 2 == 0)
				hold(&bb_openmpi_neighbor, &shape);
			if (!bb_openmpi_butterfly.refuses(&shape))
				hold(&bb_openmpi_butterfly, &shape);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choices_are_those_of_the_source),
		cmocka_unit_test(test_what_does_not_fit),
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_parts_are_chosen_too),
		cmocka_unit_test(test_short_data_falls_back),
		cmocka_unit_test(test_nonblocking),
		cmocka_unit_test(test_schedules_are_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
