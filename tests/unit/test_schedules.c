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

		for (size_t i = 0; i < SIZES; i++) {
			if (!refuses || !refuses(sizes[i]))
				check_ranks(bb_algorithms[a], sizes[i]);
		}
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

/* ---- docs ---------------------------------------------------------------------------- */

#define PER_RANK 840 /* elements; a multiple of RANKS */
#define RANKS 8      /* for which volumes are given */

static struct bb_shape page_shape(const struct bb_collective *collective, int n, size_t *matrix)
{
	struct bb_shape shape = {.nranks = n, .count = PER_RANK};

	if (collective->flags & BB_VARIABLE) {
		bb_alltoallv_matrix(matrix, n, PER_RANK, 1.0);
		shape.matrix = matrix;
	}
	return shape;
}

static void add_row(struct bb_strbuf *out, const struct bb_algorithm *algorithm)
{
	static const int ranks[] = {4, RANKS, 13, 64};
	const struct bb_collective *collective = algorithm->collective;
	size_t matrix[64 * 64], rounds, wire;
	struct bb_shape shape;
	double cost, size;

	bb_strbuf_addf(out, "| `%s` | %s |", algorithm->name, algorithm->meaning);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		struct bb_role role;

		shape = page_shape(collective, ranks[i], matrix);
		if (collective->refuses && collective->refuses(ranks[i])) {
			bb_strbuf_add(out, " – |");
			continue;
		}
		bb_algorithm_prepare(algorithm, &shape, 0, &role);
		bb_strbuf_addf(out, " %zu |", role.rounds);
	}
	shape = page_shape(collective, RANKS, matrix);
	cost = bb_algorithm_cost(algorithm, &shape, &rounds, &wire);
	size = (double)bb_size_count(collective, &shape);
	bb_strbuf_addf(out, " %.3g | %.3g |\n", (double)wire / size, cost / size);
}

/* The pictures of COLLECTIVE's algorithms, which scripts/rounds.py draws. */
static void add_pictures(struct bb_strbuf *out, const struct bb_collective *collective)
{
	for (int i = 0; bb_algorithms[i]; i++) {
		const char *name = bb_algorithms[i]->name;

		if (bb_algorithms[i]->collective == collective)
			bb_strbuf_addf(out, "\n![%s by %s, round by round](algorithms/%s-%s.svg)\n",
				       collective->name, name, collective->name, name);
	}
}

static void write_page(struct bb_strbuf *out)
{
	const struct bb_collective *previous = NULL;

	bb_strbuf_addf(
		out,
		"# What the algorithms mean for each collective\n\n"
		"`ring` and `tree` exist for every collective (hypercube is its own); the others "
		"where they make sense. `NAME_perf --explain -g 4` prints one round by round, and "
		"a [report](reports.md) of its `--json` draws it.\n\n"
		"n is the number of ranks. *Rounds* are those of a call that is not cut into "
		"chunks, for n = 4, %d, 13 and 64. *Sent* is the most that one rank sends and "
		"*traffic* what all ranks together move in memory, both for n = %d out of place "
		"as multiples of the size that is printed: an element copied is 1, one that is "
		"received and added 1.5, two added at once 2.\n\n"
		"With chunks of c elements, `ring` and `tree` take more rounds with smaller "
		"messages. Where every rank handles one block in every round (all_reduce, "
		"all_gather, reduce_scatter, gather, scatter, alltoall by `ring`) the call becomes "
		"calls that follow each other without a pause, with c elements a block. A chain "
		"(broadcast, reduce by `ring`) of C chunks takes C + n - 2 rounds; the double tree "
		"of depth D = ceil(log2 n) takes C + D - 1 rounds up or down and C + 2D - 1 for "
		"all_reduce, C being the chunks of half of the data.\n\n"
		"In place, alltoall, alltoallv and sendrecv first copy their input aside, as IN "
		"and OUT are the same memory; naive all_reduce and some cases of recursive "
		"doubling do, too.\n\n"
		"In the pictures an arrow is a message, its colour the part of the data that it "
		"moves, and the text its content: `c0+c3` is the sum of element 2 of ranks 0 and "
		"3, `a-d 1..3` that of elements 0 to 3 of ranks 1 to 3. A solid arrow is added to "
		"what the receiver has, a dashed one replaces it; where nothing is added, all are "
		"solid. Copies within a rank are left out.\n\n"
		"This page is generated from the source; a test compares the two.\n",
		RANKS, RANKS);
	for (int i = 0; bb_algorithms[i]; i++) {
		const struct bb_collective *collective = bb_algorithms[i]->collective;

		if (collective != previous)
			bb_strbuf_addf(
				out,
				"\n## %s\n\n%c%s.\n\n"
				"| algorithm | meaning | rounds, n = 4 | %d | 13 | 64 | sent | "
				"traffic |\n"
				"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
				collective->name, collective->brief[0] - 'a' + 'A',
				collective->brief + 1, RANKS);
		previous = collective;
		add_row(out, bb_algorithms[i]);
		if (!bb_algorithms[i + 1] || bb_algorithms[i + 1]->collective != collective)
			add_pictures(out, collective);
	}
}

static void test_page_is_current(void **state)
{
	struct bb_strbuf want = {0};
	FILE *f = fopen("docs/algorithms.md", "r");
	char *page;
	size_t length;

	if (!f)
		fail_msg("run me in the root of the source tree: no docs/algorithms.md");
	write_page(&want);
	page = calloc(want.length + 2, 1);
	assert_non_null(page);
	length = fread(page, 1, want.length + 1, f);
	fclose(f);
	if (length != want.length || strcmp(page, bb_strbuf_text(&want))) {
		f = fopen("docs/algorithms.md.new", "w");
		if (f) {
			fputs(bb_strbuf_text(&want), f);
			fclose(f);
		}
		fail_msg("docs/algorithms.md is not current; see docs/algorithms.md.new");
	}
	free(page);
	bb_strbuf_free(&want);
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
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_cost_is_what_chunks_move),
		cmocka_unit_test(test_cost_is_quick),
		cmocka_unit_test(test_cost_of_a_large_group),
		cmocka_unit_test(test_page_is_current),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
