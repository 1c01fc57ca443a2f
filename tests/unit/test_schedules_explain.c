/*
 * What --explain prints: the sums that a student checks by head, lines that fit, bad requests.
 */
#include "schedules/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct bb_algorithm *find(const char *collective, const char *name)
{
	return bb_algorithm_find(bb_collective_find(collective), name);
}

static char *explain_view(const struct bb_algorithm *algorithm, const struct bb_shape *shape,
			  struct bb_explain_view view)
{
	struct bb_strbuf out = {0};
	struct bb_error error;

	memset(&error, 0, sizeof(error));
	assert_int_equal(bb_explain(&out, algorithm, shape, &view, &error), BB_OK);
	assert_non_null(out.text);
	return out.text;
}

static char *explain(const struct bb_algorithm *algorithm, const struct bb_shape *shape)
{
	return explain_view(algorithm, shape, (struct bb_explain_view){.all = true});
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

static void expect_none(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("'%s' in:\n%s", part, text);
}

static void test_reduce_scatter_by_head(void **state)
{
	struct bb_shape shape = {.nranks = 4, .count = 1};
	char *text = explain(find("reduce_scatter", "ring"), &shape);

	expect(text, "reduce_scatter by ring, 4 ranks, count 1\n");
	expect(text, "  rank  1's IN  a1=0 b1=1 c1=2 d1=3\n");
	/* Rank 0 starts the sum for rank 3, which takes two more hops. */
	expect(text, "     0 -> 1  IN[3] d0=3 ");
	expect(text, "d0+d1=6");
	expect(text, "d0+d1+d2=9");
	expect(text, "  rank  3's OUT d0+d1+d2+d3=12*\n");
	expect(text, "Round 3 of 3\n");
	expect(text, "  rank  0: 0\n  rank  1: 4\n  rank  2: 8\n  rank  3: 12\n");
	free(text);
}

static void test_ring_all_reduce(void **state)
{
	struct bb_shape shape = {.nranks = 4, .count = 4};
	char *text = explain(find("all_reduce", "ring"), &shape);

	expect(text, "Round 6 of 6\n");
	expect(text, "OUT[3] = IN[3] + received\n");
	expect(text, "  rank  2's OUT a0+a1+a2+a3=0* b0+b1+b2+b3=4* c0+c1+c2+c3=8* "
		     "d0+d1+d2+d3=12*\n");
	expect(text, "  rank  0: 0 4 8 12\n");
	expect(text, "minimum 24");
	free(text);
}

/* Names are explained with ranks and elements that the group has. */
static void test_names_exist(void **state)
{
	static const char *const names[] = {
		[1] = "Names: a0 is element 0 of rank 0's IN. ",
		[2] = "Names: b0 is element 1 of rank 0's IN, b0+b1 its sum over ranks 0 and 1.",
		[3] = "b0+b2 its sum over ranks 0 and 2.",
		[5] = "b1..3 its sum over ranks 1 to 3, b4..1\n  over ranks 4, 0 and 1, b:3 over",
	};

	for (int n = 1; n <= 5; n++) {
		struct bb_shape shape = {.nranks = n, .count = (size_t)n};
		char *text = explain(find("all_reduce", "ring"), &shape);

		expect(text, names[n] ? names[n] : "b0+b2 its sum over ranks 0 and 2.");
		free(text);
	}
}

static void test_two_arrivals_and_copies(void **state)
{
	struct bb_shape shape = {.nranks = 4, .count = 4};
	char *text = explain(find("all_reduce", "tree"), &shape);

	expect(text, "OUT[0..1] = IN[0..1] + received + 3's");
	free(text);
	text = explain(find("all_gather", "ring"), &shape);
	expect(text, "     0 -> itself IN[0..3] a0 b0 c0 d0");
	free(text);
	shape = (struct bb_shape){.nranks = 1, .count = 2};
	text = explain(find("alltoall", "bruck"), &shape);
	expect(text, "1 rank,");
	free(text);
}

static void test_lines_fit(void **state)
{
	static const int ranks[] = {2, 3, 4, 7, 16, 17, 33};

	for (int a = 0; bb_algorithms[a]; a++) {
		const struct bb_collective *collective = bb_algorithms[a]->collective;

		for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
			size_t matrix[33 * 33];
			struct bb_shape shape = {.nranks = ranks[i], .count = 1};
			char *text;

			if (collective->refuses && collective->refuses(ranks[i]))
				continue;
			if (collective->flags & BB_VARIABLE) {
				bb_alltoallv_matrix(matrix, ranks[i], 1, 0.0);
				shape.matrix = matrix;
			}
			text = explain(bb_algorithms[a], &shape);
			for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
				if (strlen(line) > 80 || line[strlen(line) - 1] == ' ')
					fail_msg("%s %s: '%s'", collective->name,
						 bb_algorithms[a]->name, line);
			}
			free(text);
		}
	}
}

static int lines_of(const char *text)
{
	int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

/* Whole rounds as long as they fit into 40 lines; all of them on request. */
static void test_forty_lines(void **state)
{
	const struct bb_explain_view beginning = {0};
	static const int ranks[] = {1, 2, 4, 8, 16, 64};

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		struct bb_shape shape = {.nranks = ranks[i], .count = (size_t)ranks[i]};

		for (int a = 0; bb_algorithms[a]; a++) {
			char *text;

			if (bb_algorithms[a]->collective != &bb_all_reduce)
				continue;
			text = explain_view(bb_algorithms[a], &shape, beginning);
			if (lines_of(text) > BB_EXPLAIN_LINES)
				fail_msg("%d lines:\n%s", lines_of(text), text);
			expect(text, "Round 1 of ");
			expect(text, "memory traffic");
			free(text);
		}
	}
	struct bb_shape shape = {.nranks = 4, .count = 4};
	char *text = explain_view(find("all_reduce", "ring"), &shape, beginning);

	expect(text, "before");
	expect(text, "rank  3's OUT .       b2+b3=2");
	expect_none(text, "Round 2 of ");
	expect(text, "\nMore than 40 lines: --round 1 to 6 shows one round, --all everything.\n");
	free(text);
}

/* On any terminal; where it has few columns, little of the rounds is left. */
static void test_narrow(void **state)
{
	const struct bb_shape shape = {.nranks = 8, .count = 8};

	for (int width = 40; width <= 80; width += 10) {
		char *text = explain_view(find("all_reduce", "tree"), &shape,
					  (struct bb_explain_view){.width = width});

		if (width >= 50 && lines_of(text) > BB_EXPLAIN_LINES)
			fail_msg("%d lines:\n%s", lines_of(text), text);
		expect(text, "\n\nMore than 40");
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			if (strlen(line) > (size_t)width && *line != ' ' && *line != '#')
				fail_msg("%d columns: '%s'", width, line);
		free(text);
	}
}

static void test_one_round(void **state)
{
	struct bb_shape shape = {.nranks = 4, .count = 4};
	char *text = explain_view(find("all_reduce", "ring"), &shape,
				  (struct bb_explain_view){.round = 3});

	expect(text, "Round 3 of 6\n");
	expect_none(text, "Round 2 of");
	expect_none(text, "Round 4 of");
	expect_none(text, "memory traffic");
	expect_none(text, "More than");
	/* Before it the sums of round 2. */
	expect(text, "# before");
	expect(text, "  rank  2's OUT a1+a2=0    .          .          d0+d1+d2=9\n");
	expect(text, "  rank  2's OUT a1+a2=0        .              c0+c1+c2+c3=8* d0+d1+d2=9\n");
	free(text);
}

static void test_bad_requests(void **state)
{
	const struct bb_explain_view view = {0};
	struct bb_strbuf out = {0};
	struct bb_shape shape = {.nranks = 65, .count = 1};
	struct bb_error error;

	memset(&error, 0, sizeof(error));
	assert_int_equal(bb_explain(&out, find("broadcast", "ring"), &shape, &view, &error),
			 BB_EUSAGE);
	memset(&error, 0, sizeof(error));
	shape.nranks = 6;
	assert_int_equal(bb_explain(&out, find("hypercube", "hypercube"), &shape, &view, &error),
			 BB_EUNSUPPORTED);
	expect(error.text, "power of two");
	bb_strbuf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reduce_scatter_by_head),
		cmocka_unit_test(test_ring_all_reduce),
		cmocka_unit_test(test_names_exist),
		cmocka_unit_test(test_two_arrivals_and_copies),
		cmocka_unit_test(test_lines_fit),
		cmocka_unit_test(test_forty_lines),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_one_round),
		cmocka_unit_test(test_bad_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
