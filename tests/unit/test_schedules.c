/*
 * Collectives and algorithms: every pair proven by the symbolic checker for many shapes, the
 * descriptors against hand-written numbers.
 */
#include "schedules/checker.h"
#include "schedules/explain.h"
#include "schedules/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const int sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
			    12, 13, 14, 15, 16, 17, 24, 31, 32, 33, 64};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define MOST 64

/* ---- every algorithm ----------------------------------------------------------------- */

static size_t some_count(unsigned seed)
{
	return (seed * 2654435761u >> 13) % 5;
}

static void fill_matrix(size_t *matrix, int n, const struct bb_shape *shape)
{
	if (shape->chunk == 2) { /* irregular, with zeros */
		for (int i = 0; i < n * n; i++)
			matrix[i] = some_count((unsigned)i);
	} else {
		bb_alltoallv_matrix(matrix, n, shape->count, 1.0);
	}
}

static void check(const struct bb_algorithm *algorithm, struct bb_shape shape)
{
	size_t *matrix = NULL;
	static const int slots[] = {1, 16};

	if (algorithm->collective->flags & BB_VARIABLE) {
		matrix = calloc(MOST * MOST, sizeof(*matrix));
		assert_non_null(matrix);
		fill_matrix(matrix, shape.nranks, &shape);
		shape.matrix = matrix;
	}
	for (int i = 0; i < 2; i++) {
		struct bb_error error;

		memset(&error, 0, sizeof(error));
		if (bb_check_algorithm(algorithm, &shape, slots[i], &error) != BB_OK)
			fail_msg("count %zu, chunk %zu, root %d, %s, %d slots: %s", shape.count,
				 shape.chunk, shape.root,
				 shape.in_place ? "in place" : "out of place", slots[i],
				 error.text);
	}
	free(matrix);
}

static void check_roots(const struct bb_algorithm *algorithm, struct bb_shape shape)
{
	int roots[] = {0, shape.nranks - 1, shape.nranks / 2};

	for (int i = 0; i < 3; i++) {
		bool again = i && roots[i] == roots[i - 1];

		if (i && (again || !(algorithm->collective->flags & BB_ROOTED)))
			continue;
		shape.root = roots[i];
		check(algorithm, shape);
	}
}

static void check_ranks(const struct bb_algorithm *algorithm, int n)
{
	size_t ranks = (size_t)n;
	size_t cases[][2] = {{5, 2}, {2 * ranks + 3, 0}, {1, 0},    {ranks - 1, 0},
			     {0, 0}, {3 * ranks + 1, 1}, {ranks, 2}};
	/* Blocks as long as the group is large are for small groups: time grows with n^3. */
	int ncases = n <= 17 ? 7 : n < 64 ? 3 : 1;
	bool whole = algorithm->collective == &bb_all_reduce ||
		     algorithm->collective == &bb_broadcast || algorithm->collective == &bb_reduce;

	for (int i = 0; i < (whole ? 7 : ncases); i++) {
		for (int in_place = 0; in_place < 2; in_place++)
			check_roots(algorithm, (struct bb_shape){.nranks = n,
								 .count = cases[i][0],
								 .chunk = cases[i][1],
								 .in_place = in_place});
	}
}

static void test_every_algorithm(void **state)
{
	for (int a = 0; bb_algorithms[a]; a++) {
		const char *(*refuses)(int) = bb_algorithms[a]->collective->refuses;

		assert_null(bb_algorithms[a]->refuses);

		for (size_t i = 0; i < SIZES; i++) {
			if (!refuses || !refuses(sizes[i]))
				check_ranks(bb_algorithms[a], sizes[i]);
		}
	}
}

/* The elements that all ranks of a group of N write for the last time, in calls of one element a
   block. */
static size_t final_elements(const struct bb_algorithm *algorithm, int n)
{
	const struct bb_shape shape = {.nranks = n, .count = 1};
	size_t sum = 0;

	for (int rank = 0; rank < n; rank++) {
		struct bb_step steps[BB_MAX_STEPS];
		struct bb_role role;

		bb_algorithm_prepare(algorithm, &shape, rank, &role);
		for (size_t round = 0; round < role.rounds; round++) {
			const int nsteps =
				bb_algorithm_steps(algorithm, &shape, &role, round, steps);

			for (int i = 0; i < nsteps; i++)
				sum += steps[i].final ? steps[i].count : 0;
		}
	}
	return sum;
}

/* A step that writes for the last time declares it: the checker only refuses what is read after. */
static void test_final_steps(void **state)
{
	static const struct {
		int n;
		size_t all_reduce, all_gather;
	} cases[] = {
		/* all_reduce: each rank but the proxies, which send the result on; all_gather: the
		   blocks that no later round sends, and up to 3 ranks the own one; of 7, one rank
		   has its last block of a round apart. */
		{2, 2, 2 * 2}, {3, 2, 3 * 3},     {4, 4, 4 * 2}, {5, 4, 5 * 3},
		{6, 4, 6 * 4}, {7, 4, 7 * 3 + 1}, {8, 8, 8 * 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			final_elements(bb_algorithm_find(&bb_all_reduce, "recursive_doubling"),
				       cases[i].n),
			cases[i].all_reduce);
		assert_int_equal(
			final_elements(bb_algorithm_find(&bb_all_gather, "bruck"), cases[i].n),
			cases[i].all_gather);
	}
}

static void test_lists(void **state)
{
	for (int c = 0; bb_collectives[c]; c++) {
		const struct bb_collective *collective = bb_collectives[c];

		assert_ptr_equal(bb_collective_find(collective->name), collective);
		if (collective == &bb_hypercube)
			continue;
		assert_non_null(bb_algorithm_find(collective, "ring"));
		assert_non_null(bb_algorithm_find(collective, "tree"));
	}
	for (int a = 0; bb_algorithms[a]; a++) {
		const struct bb_algorithm *algorithm = bb_algorithms[a];

		assert_non_null(algorithm->meaning);
		assert_ptr_equal(bb_algorithm_find(algorithm->collective, algorithm->name),
				 algorithm);
	}
	assert_null(bb_collective_find("allreduce"));
	assert_null(bb_collective_find(""));
	assert_null(bb_algorithm_find(&bb_all_reduce, "bruck"));
	assert_null(bb_algorithm_find(&bb_hypercube, "ring"));
}

/* ---- descriptors --------------------------------------------------------------------- */

static void check_tiles(const struct bb_collective *collective, const struct bb_shape *shape,
			int rank)
{
	size_t next = 0;

	for (int k = 0; k < bb_collective_segments(collective, shape, rank); k++) {
		const struct bb_segment s = bb_collective_segment(collective, shape, rank, k);

		assert_int_equal(s.out, next);
		next += s.count;
		if (s.source != BB_REDUCED) {
			assert_in_range(s.source, 0, shape->nranks - 1);
			assert_true(s.in + s.count <=
				    bb_collective_in(collective, shape, s.source));
		}
	}
	assert_int_equal(next, bb_collective_out(collective, shape, rank));
}

static void test_segments_tile_out(void **state)
{
	size_t matrix[MOST * MOST];

	for (int c = 0; bb_collectives[c]; c++) {
		for (size_t i = 0; i < SIZES; i++) {
			struct bb_shape shape = {
				.nranks = sizes[i], .root = sizes[i] / 2, .count = 7};

			if (bb_collectives[c]->flags & BB_VARIABLE) {
				bb_alltoallv_matrix(matrix, sizes[i], 7, 0.5);
				shape.matrix = matrix;
			}
			for (int rank = 0; rank < sizes[i]; rank++)
				check_tiles(bb_collectives[c], &shape, rank);
		}
	}
}

static void test_count_for_size(void **state)
{
	assert_int_equal(bb_count_for_size(&bb_all_reduce, 1023, 4, 8), 255);
	assert_int_equal(bb_count_for_size(&bb_broadcast, 7, 8, 8), 0);
	/* 1000 B of float over 3 ranks: 83 a rank, down to 16 bytes: 80 */
	assert_int_equal(bb_count_for_size(&bb_all_gather, 1000, 4, 3), 80);
	assert_int_equal(bb_count_for_size(&bb_hypercube, 1000, 4, 4), 60);
	assert_int_equal(bb_count_for_size(&bb_reduce_scatter, 63, 1, 4), 0);
	assert_int_equal(bb_count_for_size(&bb_alltoall, 64, 1, 4), 16);
	assert_int_equal(bb_count_for_size(&bb_scatter, 100, 16, 3), 2);
	assert_int_equal(bb_count_for_size(&bb_sendrecv, 100, 8, 3), 12);
}

static void test_size_count(void **state)
{
	size_t matrix[4] = {1, 2, 30, 4};
	struct bb_shape shape = {.nranks = 4, .root = 3, .count = 10};

	assert_int_equal(bb_size_count(&bb_all_reduce, &shape), 10);
	assert_int_equal(bb_size_count(&bb_all_gather, &shape), 40);
	assert_int_equal(bb_size_count(&bb_reduce_scatter, &shape), 40);
	assert_int_equal(bb_size_count(&bb_gather, &shape), 40);
	assert_int_equal(bb_size_count(&bb_scatter, &shape), 40);
	assert_int_equal(bb_size_count(&bb_reduce, &shape), 10);
	assert_int_equal(bb_size_count(&bb_hypercube, &shape), 40);
	assert_int_equal(bb_algbw_count(&bb_hypercube, &shape), 30);
	assert_int_equal(bb_algbw_count(&bb_all_gather, &shape), 40);
	shape = (struct bb_shape){.nranks = 2, .count = 10, .matrix = matrix};
	assert_int_equal(bb_size_count(&bb_alltoallv, &shape), 34); /* rank 1 sends 30 + 4 */
}

static void test_bus_factor(void **state)
{
	assert_float_equal(bb_all_reduce.bus_factor(4), 1.5, 1e-12);
	assert_float_equal(bb_all_reduce.bus_factor(1), 0.0, 1e-12);
	assert_float_equal(bb_all_gather.bus_factor(4), 0.75, 1e-12);
	assert_float_equal(bb_alltoallv.bus_factor(8), 0.875, 1e-12);
	assert_float_equal(bb_broadcast.bus_factor(8), 1.0, 1e-12);
	assert_float_equal(bb_reduce.bus_factor(8), 1.0, 1e-12);
	assert_float_equal(bb_sendrecv.bus_factor(8), 1.0, 1e-12);
	assert_float_equal(bb_hypercube.bus_factor(8), 1.0, 1e-12);
	assert_non_null(bb_hypercube.refuses(6));
	assert_null(bb_hypercube.refuses(8));
}

static void test_alltoallv_matrix(void **state)
{
	size_t m[16];

	bb_alltoallv_matrix(m, 4, 30, 0.0);
	for (int i = 0; i < 16; i++)
		assert_int_equal(m[i], 30);
	bb_alltoallv_matrix(m, 4, 30, 1.0); /* distances 0, 1, 2, 3 of a mean of 1.5 */
	for (int source = 0; source < 4; source++) {
		for (int d = 0; d < 4; d++)
			assert_int_equal(m[source * 4 + (source + d) % 4], 20 * d);
	}
	bb_alltoallv_matrix(m, 1, 30, 1.0);
	assert_int_equal(m[0], 30);
}

static void test_parts(void **state)
{
	size_t next = 0;

	for (int k = 0; k < 7; k++) {
		assert_int_equal(bb_part_start(17, 7, k), next);
		next += bb_part_count(17, 7, k);
	}
	assert_int_equal(next, 17);
	assert_int_equal(bb_part_count(2, 7, 1), 1);
	assert_int_equal(bb_part_count(2, 7, 2), 0);
}

/* ---- cost ---------------------------------------------------------------------------- */

static void expect_cost(const struct bb_collective *collective, const char *name,
			struct bb_shape shape, double cost, size_t rounds, size_t wire)
{
	size_t r, w;
	double c = bb_algorithm_cost(bb_algorithm_find(collective, name), &shape, &r, &w);

	assert_float_equal(c, cost, 1e-6);
	assert_int_equal(r, rounds);
	assert_int_equal(w, wire);
}

/* Halves of 4: in each tree one rank adds two at once, rank 0 adds one, three ranks receive. */
#define TREE_OF_FOUR (2 * (4 * 2.0 + 4 * 1.5 + 3 * 4))

static void test_cost(void **state)
{
	struct bb_shape four = {.nranks = 4, .count = 8};

	/* Each of 4 ranks adds 3 blocks of 2 and copies 3 blocks of 2. */
	expect_cost(&bb_all_reduce, "ring", four, 4 * (3 * 2 * 1.5 + 3 * 2), 6, 12);
	expect_cost(&bb_all_reduce, "linear", four, 3 * 8 * 1.5 + 3 * 8, 6, 24);
	/* Everyone adds two arrivals at once, then one. */
	expect_cost(&bb_all_reduce, "naive", four, 4 * (8 * 2.0 + 8 * 1.5), 2, 24);
	expect_cost(&bb_all_gather, "ring", four, 4 * (3 * 8 + 8), 3, 24);
	expect_cost(&bb_broadcast, "linear", four, 3 * 8 + 8, 3, 24);
	four.in_place = true;
	expect_cost(&bb_broadcast, "linear", four, 3 * 8, 3, 24);
	four.chunk = 2; /* 4 chunks down a chain of 3 links */
	expect_cost(&bb_broadcast, "ring", four, 3 * 8, 6, 8);
	/* depth 2, halves of 4 in 2 chunks: 2 + 2 * 2 - 1 rounds */
	four.in_place = false;
	expect_cost(&bb_all_reduce, "tree", four, TREE_OF_FOUR, 5, 16);
}

/* What every rank moves, added up step by step in the chunks that are really taken. */
static double moved_by(const struct bb_algorithm *algorithm, const struct bb_shape *shape)
{
	struct bb_step steps[BB_MAX_STEPS];
	double moved = 0.0;

	for (int rank = 0; rank < shape->nranks; rank++) {
		struct bb_role role;

		bb_algorithm_prepare(algorithm, shape, rank, &role);
		for (size_t round = 0; round < role.rounds; round++) {
			int n = bb_algorithm_steps(algorithm, shape, &role, round, steps);

			for (int k = 0; k < n; k++) {
				double arrivals = 1 + (steps[k].peer2 != BB_NO_PEER);

				if (steps[k].kind == BB_RECV_REDUCE)
					moved += (double)steps[k].count * (1.0 + arrivals / 2.0);
				else if (steps[k].kind != BB_SEND)
					moved += (double)steps[k].count;
			}
		}
	}
	return moved;
}

static void test_cost_is_what_chunks_move(void **state)
{
	for (int a = 0; bb_algorithms[a]; a++) {
		size_t matrix[64];
		struct bb_shape shape = {.nranks = 8, .count = 101, .chunk = 7};

		bb_alltoallv_matrix(matrix, 8, shape.count, 1.0);
		if (bb_algorithms[a]->collective->flags & BB_VARIABLE)
			shape.matrix = matrix;
		assert_float_equal(bb_algorithm_cost(bb_algorithms[a], &shape, NULL, NULL),
				   moved_by(bb_algorithms[a], &shape), 1e-6);
	}
}

static void test_cost_is_quick(void **state)
{
	size_t gib = (size_t)1 << 28, chunk = (size_t)1 << 15; /* floats */

	for (int a = 0; bb_algorithms[a]; a++) {
		const struct bb_algorithm *algorithm = bb_algorithms[a];
		struct bb_shape shape = {.nranks = 64, .chunk = chunk};
		size_t matrix[MOST * MOST];
		clock_t start;

		shape.count = bb_count_for_size(algorithm->collective, 4 * gib, 4, 64);
		if (algorithm->collective->flags & BB_VARIABLE) {
			bb_alltoallv_matrix(matrix, 64, shape.count, 1.0);
			shape.matrix = matrix;
		}
		start = clock();
		assert_true(bb_algorithm_cost(algorithm, &shape, NULL, NULL) > 0.0);
		/* Ten times what is meant, for sanitizers and busy machines. */
		if ((double)(clock() - start) / CLOCKS_PER_SEC > 0.5)
			fail_msg("cost of %s %s took too long", algorithm->collective->name,
				 algorithm->name);
	}
}

static void test_cost_of_a_large_group(void **state)
{
	struct bb_shape shape = {.nranks = 100000, .count = 7};
	size_t rounds, wire;
	double cost = bb_algorithm_cost(bb_algorithm_find(&bb_broadcast, "linear"), &shape, &rounds,
					&wire);

	assert_float_equal(cost, 7.0 * 100000, 7.0 * 1000);
	assert_int_equal(rounds, 99999);
	assert_int_equal(wire, 7 * 99999);
	shape.count = 100000;
	cost = bb_algorithm_cost(bb_algorithm_find(&bb_all_reduce, "ring"), &shape, NULL, &wire);
	assert_float_equal(cost, 2.5 * 99999.0 * 100000, 1.0);
	assert_int_equal(wire, 2 * 99999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_segments_tile_out),
		cmocka_unit_test(test_count_for_size),
		cmocka_unit_test(test_size_count),
		cmocka_unit_test(test_bus_factor),
		cmocka_unit_test(test_alltoallv_matrix),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_every_algorithm),
		cmocka_unit_test(test_final_steps),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_cost_is_what_chunks_move),
		cmocka_unit_test(test_cost_is_quick),
		cmocka_unit_test(test_cost_of_a_large_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
