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
};

static void test_choices_are_those_of_the_source(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct bb_shape shape = {.nranks = rows[i].ranks, .count = rows[i].bytes / 4};
		struct bb_openmpi_plan plan;
		const char *why = bb_openmpi_choose(rows[i].collective, &shape, 4,
						    BB_OPENMPI_BLOCKING, &plan);

		assert_string_equal(plan.name, rows[i].name);
		assert_int_equal(why == NULL, rows[i].phases > 0);
		assert_int_equal(plan.phases, rows[i].phases);
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
		cmocka_unit_test(test_parts_are_chosen_too),
		cmocka_unit_test(test_short_data_falls_back),
		cmocka_unit_test(test_nonblocking),
		cmocka_unit_test(test_schedules_are_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
