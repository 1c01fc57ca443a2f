#include "schedules/matrices.h"

#include "schedules/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 5

static void parse(struct bb_matrices *m, const char *text, double scale)
{
	struct bb_error error = {.text = ""};

	*m = (struct bb_matrices){.n = 0};
	if (bb_matrices_parse(m, "--matrix a/b.txt", "a/b.txt", text, strlen(text), scale,
			      &error) != BB_OK)
		fail_msg("%s", error.text);
}

/* Numbers are bytes, rounded down to 16 after scaling; elements follow from the datatype. */
static void test_numbers(void **state)
{
	struct bb_matrices m;
	size_t counts[9];

	parse(&m, " 100 200.5 1.5e2\n\n50\t100 75\r\n300 15 0", 1);
	assert_int_equal(m.nranks, 3);
	assert_int_equal(m.n, 1);
	assert_string_equal(m.names[0], "b.txt");
	bb_matrices_counts(&m, 0, 3, 4, counts);
	assert_int_equal(counts[0], 24);
	assert_int_equal(counts[1], 48);
	assert_int_equal(counts[2], 36);
	assert_int_equal(counts[3], 12);
	assert_int_equal(counts[7], 0);
	assert_int_equal(bb_matrices_busiest(&m, 0, 3), 96 + 192 + 144);
	/* The first two ranks. */
	bb_matrices_counts(&m, 0, 2, 1, counts);
	assert_int_equal(counts[1], 192);
	assert_int_equal(counts[2], 48);
	assert_int_equal(bb_matrices_busiest(&m, 0, 2), 288);
	bb_matrices_free(&m);
	parse(&m, "100 200 150\n50 100 75\n300 15 0", 0.5);
	bb_matrices_counts(&m, 0, 3, 1, counts);
	assert_int_equal(counts[0], 48);
	assert_int_equal(counts[1], 96);
	bb_matrices_free(&m);
}

static void test_names(void **state)
{
	static const char text[] =
		"16 0\n0 16\n  # second\n0 32\n32 0\n\n0 0\n16 16\n# a\n# last \n"
		"1 2\n# not a name\n3 4\n";
	struct bb_matrices m, other;

	parse(&m, text, 1);
	assert_int_equal(m.n, 4);
	assert_string_equal(m.names[0], "b.txt:1");
	assert_string_equal(m.names[1], "second");
	assert_string_equal(m.names[2], "b.txt:3");
	assert_string_equal(m.names[3], "last");
	assert_int_equal(bb_matrices_busiest(&m, 1, 2), 32);
	parse(&other, text, 2);
	assert_true(bb_matrices_digest(&m) != bb_matrices_digest(&other));
	bb_matrices_free(&other);
	parse(&other, text, 1);
	assert_true(bb_matrices_digest(&m) == bb_matrices_digest(&other));
	bb_matrices_free(&other);
	bb_matrices_free(&m);
}

static void test_description(void **state)
{
	struct bb_matrices m;
	struct bb_strbuf out = {0};

	parse(&m, "# hot\n1000 3008\n0 4000\n", 1);
	bb_matrices_describe(&m, 0, 2, &out);
	assert_string_equal(bb_strbuf_text(&out),
			    "hot: 3.01 kB between 2 ranks, 4.99 kB within them; rank 1 receives "
			    "most, 7.01 kB, 1.75 times the mean");
	bb_strbuf_free(&out);
	bb_matrices_free(&m);
}

/* All algorithms are right for any matrix: ranks that send or receive nothing, or only to one. */
static void test_algorithms(void **state)
{
	static const char *const texts[] = {
		"0 0 0 0 0\n64 0 0 0 0\n64 0 0 0 0\n64 0 0 0 0\n64 0 0 0 0\n",
		"0 64 64 64 64\n0 0 0 0 0\n0 0 0 0 0\n0 0 0 0 0\n0 0 0 0 0\n",
		"16 0 0 0 0\n0 0 0 0 160\n0 0 0 0 0\n0 0 0 32 0\n0 96 0 0 0\n",
		"0 0 0 0 0\n0 0 0 0 0\n0 0 0 0 0\n0 0 0 0 0\n0 0 0 0 0\n",
		"16 32 48 64 80\n0 0 16 160 16\n32 32 32 32 32\n0 0 0 0 0\n16 0 0 0 16\n",
	};
	size_t counts[MOST * MOST];
	struct bb_error error = {.text = ""};
	struct bb_matrices m;
	int proven = 0;

	for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
		parse(&m, texts[t], 1);
		for (int i = 0; i < 2 * MOST; i++) {
			const struct bb_shape shape = {
				.nranks = i / 2 + 1, .in_place = i % 2, .matrix = counts};

			bb_matrices_counts(&m, 0, shape.nranks, 16, counts);
			for (const struct bb_algorithm *const *a = bb_algorithms; *a; a++) {
				if ((*a)->collective != &bb_alltoallv)
					continue;
				if (bb_check_algorithm(*a, &shape, 4, &error) != BB_OK)
					fail_msg("%s, text %zu: %s", (*a)->name, t, error.text);
				proven++;
			}
		}
		bb_matrices_free(&m);
	}
	assert_true(proven >= 5 * 2 * MOST * 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_description),
		cmocka_unit_test(test_algorithms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
