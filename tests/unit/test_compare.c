#include "core/stats.h"
#include "collectives/result.h"
#include "collectives/summary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void add(struct bb_results *compare, const char *asked, const char *used, int64_t size,
		bool in_place, double time_us, double percent)
{
	struct bb_result_record r;

	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm_asked = asked;
	r.algorithm = used;
	r.dtype = "float";
	r.op = "sum";
	r.root = -1;
	r.size_bytes = size;
	r.in_place = in_place;
	r.time_us = time_us;
	r.percent_of_bound = percent;
	r.bound_source = "copies";
	r.cycle = 1;
	assert_int_equal(bb_results_keep(compare, &r), BB_OK);
}

static void add_told(struct bb_results *compare, const char *asked, const char *used,
		     const char *told, int64_t size, double time_us)
{
	struct bb_result_record r;

	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm_asked = asked;
	r.algorithm = used;
	r.library_algorithm = told;
	r.dtype = "float";
	r.op = "sum";
	r.root = -1;
	r.size_bytes = size;
	r.time_us = time_us;
	r.cycle = 1;
	assert_int_equal(bb_results_keep(compare, &r), BB_OK);
}

static const char *text_of(struct bb_results *compare, struct bb_strbuf *out)
{
	const char *line;

	bb_compare_text(compare, out, NULL);
	assert_false(bb_strbuf_failed(out));
	/* Comments, for whoever reads rows. */
	for (line = bb_strbuf_text(out); *line; line = strchr(line, '\n') + 1)
		assert_int_equal(*line, '#');
	return bb_strbuf_text(out);
}

static void test_two(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};

	for (int64_t size = 1024; size <= 16384; size *= 2) {
		/* 30 us ahead at 4 KiB, 10 us behind at 8 KiB: equal three quarters of the way. */
		add(&c, "ring", "ring", size, false, size < 8192 ? 40 : 10, NAN);
		add(&c, "ring", "ring", size, true, 1, NAN);
	}
	for (int64_t size = 1024; size <= 16384; size *= 2) {
		add(&c, "tree", "tree", size, false, size < 8192 ? 10 : 20, NAN);
		add(&c, "tree", "tree", size, true, 1, NAN);
	}
	assert_string_equal(text_of(&c, &out),
			    "#\n"
			    "# Comparison of all_reduce float sum, out of place\n"
			    "#       size       ring       tree winner, ahead\n"
			    "#        (B)       (us)       (us)\n"
			    "#         1K      40.00      10.00 tree 4.00x\n"
			    "#         2K      40.00      10.00 tree 4.00x\n"
			    "#         4K      40.00      10.00 tree 4.00x\n"
			    "#         8K      10.00      20.00 ring 2.00x\n"
			    "#        16K      10.00      20.00 ring 2.00x\n"
			    "# At 16K, ring is the fastest, 2.00 times as fast as the second: 10.0 "
			    "us\n"
			    "# tree is faster than ring below about 7K, slower above\n");
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

/* Whoever is ahead at the smallest size, by however little, and each change of the lead. */
static void test_crossings(void **state)
{
	static const struct {
		double ring[4], tree[4];
		const char *words;
	} cases[] = {
		/* by half a microsecond, either way */
		{{10, 20, 40, 80}, {10.5, 20.5, 41, 81}, NULL},
		{{10.5, 20, 40, 80},
		 {10, 21, 41, 81},
		 "# tree is faster than ring below about 1.33K, slower above\n"},
		{{10, 20, 40, 80},
		 {10.5, 20.5, 39, 79},
		 "# ring is faster than tree below about 2.67K, slower above\n"},
		/* 1 ahead at 1K, 1 behind at 2K, 1 ahead at 4K */
		{{10, 21, 40, 80}, {11, 20, 41, 81}, "about 1.5K"},
		{{10, 21, 40, 80}, {11, 20, 41, 81}, "3K"},
		/* a tie is no lead */
		{{10, 20, 40, 80}, {10, 21, 39, 79}, "# ring is faster than tree below about 3K"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_strbuf out = {0};
		struct bb_results c = {.n = 0};
		const char *text;

		for (int k = 0; k < 4; k++) {
			add(&c, "ring", "ring", 1024 << k, false, cases[i].ring[k], NAN);
			add(&c, "tree", "tree", 1024 << k, false, cases[i].tree[k], NAN);
		}
		text = text_of(&c, &out);
		if (cases[i].words ? !strstr(text, cases[i].words) : strstr(text, "below") != NULL)
			fail_msg("%zu: %s", i, text);
		bb_strbuf_free(&out);
		bb_results_free(&c);
	}
}

/* A bound that is beaten is no percentage without a word: 131% is doubted, 104% may be noise. */
static void test_beaten(void **state)
{
	struct bb_strbuf out = {0}, answers = {0};
	struct bb_results c = {.n = 0};

	for (int i = 0; i < 3; i++) {
		struct bb_result_record r;

		bb_record_init(&bb_record_result, &r);
		r.collective = "all_gather";
		r.algorithm_asked = r.algorithm = "ring";
		r.dtype = "float";
		r.op = "none";
		r.root = -1;
		r.size_bytes = 1024 << i;
		r.time_us = 100;
		r.busbw_GBps = 37.8;
		r.percent_of_bound = i == 0 ? 104 : i == 1 ? 131 : 152;
		r.bound_source = "copies";
		r.bound_doubt = bb_bound_doubt(r.percent_of_bound, NAN, BB_BOUND_BY_COPIES);
		r.cycle = 1;
		assert_int_equal(bb_results_keep(&c, &r), BB_OK);
	}
	bb_compare_text(&c, &out, &answers);
	assert_string_equal(
		bb_strbuf_text(&answers),
		"# At 4K, ring takes 100 us, 37.8 GB/s bus bandwidth, 152% of its bound, which "
		"does not hold\n"
		"# ring beats its bound at 2 of 3 sizes, at 4K with 152%: data came from a cache, "
		"or the copies of the bound were disturbed\n");
	assert_non_null(strstr(bb_strbuf_text(&out), bb_strbuf_text(&answers)));
	bb_strbuf_free(&out);
	bb_strbuf_free(&answers);
	bb_results_free(&c);
	/* The slow end of the spread decides, where it is known. */
	assert_null(bb_bound_doubt(131, 99, BB_BOUND_BY_LINKS));
	assert_null(bb_bound_doubt(131, 104, BB_BOUND_BY_LINKS));
	assert_non_null(strstr(bb_bound_doubt(131, 120, BB_BOUND_BY_LINKS), "the bound is wrong"));
	assert_null(bb_bound_doubt(NAN, NAN, BB_BOUND_BY_LINKS));
}

/* What the library says it chose under auto, which may be what a column of its own shows. */
static void test_told(void **state)
{
	static const struct {
		const char *asked, *used, *told;
		int64_t size;
		double time;
	} rows[] = {
		{"ring", "ring", "ring:LL", 1024, 10},  {"ring", "ring", "ring:Simple", 2048, 20},
		{"auto", "auto", "ring:LL", 1024, 9},   {"auto", "auto", "tree:LL", 2048, 5},
		{"tree:LL", "tree:LL", NULL, 1024, 12},
	};
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};
	const char *text;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		add_told(&c, rows[i].asked, rows[i].used, rows[i].told, rows[i].size, rows[i].time);
	text = text_of(&c, &out);
	assert_non_null(strstr(text, "# auto chose ring:LL, tree:LL from 2K\n"));
	/* At 1K auto is the ring, which is as fast as the faster of the two; at 2K it is itself. */
	assert_non_null(strstr(text, "ring 1.33x\n"));
	assert_non_null(strstr(text, "tree:LL 4.00x\n"));
	assert_null(strstr(text, "nccl"));
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

static void test_bounds_and_auto(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};
	const char *text;

	add(&c, "ring", "ring", 1024, false, 10, 50);
	add(&c, "ring", "ring", 2048, false, 20, 5.25);
	add(&c, "tree", "tree", 1024, false, 20, NAN);
	add(&c, "tree", "tree", 2048, false, 15000, 90);
	/* Repeats ring at first, and then finds what has no column. */
	add(&c, "auto", "ring", 1024, false, 5, 100);
	add(&c, "auto", "direct", 2048, false, 5, 100);
	text = text_of(&c, &out);
	assert_non_null(strstr(text, "\n# bound: percent of the bound reached; source: copies\n"));
	assert_non_null(strstr(text, "#         1K      10.00   50%      20.00     -       5.00"
				     "  100% ring 4.00x\n"));
	assert_non_null(strstr(text, "#         2K      20.00  5.2%      15000   90%       5.00"
				     "  100% direct 4.00x\n"));
	assert_non_null(strstr(text, "# auto chose ring, direct from 2K\n"));
	assert_non_null(strstr(text, "# ring is faster than tree at every size\n"));
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

/* Keeps the winner at the one size. */
struct keep {
	struct bb_sink sink;
	struct bb_winner_record winner;
	int winners;
};

static bb_status keep_record(struct bb_sink *sink, const struct bb_record_kind *kind,
			     const void *record)
{
	struct keep *keep = (struct keep *)sink;

	if (kind == &bb_record_winner) {
		keep->winner = *(const struct bb_winner_record *)record;
		keep->winners++;
	}
	return BB_OK;
}

static struct bb_winner_record winner_of(struct bb_results *compare)
{
	static const struct bb_sink_ops ops = {.record = keep_record};
	struct keep keep = {.sink.ops = &ops};
	struct bb_sinks sinks = {.list = {&keep.sink}, .n = 1};

	assert_int_equal(bb_compare_records(compare, &sinks), BB_OK);
	assert_int_equal(keep.winners, 1);
	return keep.winner;
}

/* In place auto may choose what it does not choose out of place: each has its own words. */
static void test_auto_of_placements(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_winner_record winner;
	struct bb_results c = {.n = 0};

	add(&c, "ring", "ring", 1024, false, 23, 50);
	add(&c, "ring", "ring", 1024, true, 10, 50);
	add(&c, "tree", "tree", 1024, false, 20.5, 60);
	add(&c, "tree", "tree", 1024, true, 20, NAN);
	add(&c, "auto", "tree", 1024, false, 20, 60);
	add(&c, "auto", "ring", 1024, true, 9, NAN);
	assert_string_equal(
		text_of(&c, &out),
		"#\n"
		"# Comparison of all_reduce float sum, out of place\n"
		"# bound: percent of the bound reached; source: copies\n"
		"#       size       ring             tree             auto       winner, ahead\n"
		"#        (B)       (us) bound       (us) bound       (us) bound\n"
		"#         1K      23.00   50%      20.50   60%      20.00   60% tree 1.15x\n"
		"# auto chose tree\n"
		"# At 1K, tree is the fastest, 1.15 times as fast as the second: 20.0 "
		"us, 60% of its bound\n");
	winner = winner_of(&c);
	assert_false(winner.in_place);
	assert_string_equal(winner.algorithm_asked, "tree");
	assert_string_equal(winner.algorithm, "tree");
	assert_float_equal(winner.time_us, 20, 1e-9);
	assert_float_equal(winner.times_second, 1.15, 1e-9);
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

/* The same of what no column of its own shows, and of what the library tells. */
static void test_told_of_placements(void **state)
{
	static const char *const told[] = {"tree:LL", "ring:LL"};
	struct bb_strbuf out = {0};
	struct bb_winner_record winner;
	struct bb_results c = {.n = 0};
	const char *text;

	add(&c, "direct", "direct", 1024, false, 30, NAN);
	add(&c, "direct", "direct", 1024, true, 30, NAN);
	for (int in_place = 0; in_place < 2; in_place++) {
		struct bb_result_record r;

		bb_record_init(&bb_record_result, &r);
		r.collective = "all_reduce";
		r.algorithm_asked = r.algorithm = "auto";
		r.library_algorithm = told[in_place];
		r.dtype = "float";
		r.op = "sum";
		r.root = -1;
		r.size_bytes = 1024;
		r.in_place = in_place;
		r.time_us = in_place ? 5 : 10;
		r.cycle = 1;
		assert_int_equal(bb_results_keep(&c, &r), BB_OK);
	}
	/* Only in place there is such a column: out of place auto repeats nothing. */
	add(&c, "tree:LL", "tree:LL", 1024, true, 1, NAN);
	text = text_of(&c, &out);
	assert_non_null(
		strstr(text, "#         1K      30.00      10.00          - tree:LL 3.00x\n"));
	assert_non_null(strstr(text, "# auto chose tree:LL\n"));
	winner = winner_of(&c);
	assert_string_equal(winner.algorithm_asked, "auto");
	assert_string_equal(winner.algorithm, "tree:LL");
	assert_float_equal(winner.time_us, 10, 1e-9);
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

static void test_holes(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};
	const char *text;

	assert_string_equal(text_of(&c, &out), "");
	add(&c, "ring", "ring", 1024, false, 10, NAN);
	/* One algorithm that was asked for, and nothing to hold it against. */
	assert_string_equal(text_of(&c, &out), "");
	add(&c, "tree", "tree", 2048, false, 10, NAN);
	add(&c, "bruck", "bruck", 2048, true, 10, NAN); /* has no out-of-place time */
	text = text_of(&c, &out);
	assert_non_null(strstr(text, "#         1K      10.00          -          -\n"));
	assert_non_null(strstr(text, "#         2K          -      10.00          -\n"));
	assert_null(strstr(text, "faster"));
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

/* A time that is not a number wins nothing and is no second; rows in place count where the others
   have none. */
static void test_not_a_number(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};
	const char *text;

	add(&c, "ring", "ring", 1024, false, NAN, NAN);
	add(&c, "tree", "tree", 1024, false, 20, NAN);
	add(&c, "linear", "linear", 1024, false, 30, NAN);
	add(&c, "tree", "tree", 2048, false, NAN, NAN);
	add(&c, "ring", "ring", 4096, false, 10, NAN);
	add(&c, "linear", "linear", 4096, false, 20, NAN);
	text = text_of(&c, &out);
	assert_non_null(strstr(text, "1K          -      20.00      30.00 tree 1.50x\n"));
	assert_non_null(strstr(text, "2K          -          -          -\n"));
	assert_non_null(strstr(text, "4K      10.00          -      20.00 ring 2.00x\n"));
	assert_null(strstr(text, "below about"));
	bb_results_free(&c);
	bb_strbuf_clear(&out);

	c = (struct bb_results){.n = 0};
	for (int i = 0; i < 2; i++) {
		add(&c, i ? "tree" : "ring", "ring", 1024, false, NAN, NAN);
		add(&c, i ? "tree" : "ring", "ring", 1024, true, 5 + i, NAN);
	}
	text = text_of(&c, &out);
	assert_non_null(strstr(text, "in place"));
	assert_non_null(strstr(text, "1K       5.00       6.00 ring 1.20x\n"));
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

static void test_again(void **state)
{
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};
	struct bb_result_record r;

	add(&c, "ring", "ring", 1024, true, 10, NAN);
	add(&c, "tree", "tree", 1024, true, 20, NAN);
	bb_record_init(&bb_record_result, &r);
	r.collective = "all_reduce";
	r.algorithm_asked = r.algorithm = "ring";
	r.dtype = "float";
	r.op = "sum";
	r.root = -1;
	r.size_bytes = 1024;
	r.in_place = true;
	r.time_us = 40;
	r.cycle = 2;
	assert_int_equal(bb_results_keep(&c, &r), BB_OK);
	assert_string_equal(text_of(&c, &out),
			    "#\n"
			    "# Comparison of all_reduce float sum, in place, the last of 2 cycles\n"
			    "#       size       ring       tree winner, ahead\n"
			    "#        (B)       (us)       (us)\n"
			    "#         1K      40.00      20.00 tree 2.00x\n"
			    "# At 1K, tree is the fastest, 2.00 times as fast as the second: 20.0 "
			    "us\n");
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

/* Rows stay within a terminal however many algorithms there are. */
static void test_many(void **state)
{
	static const char *const names[] = {"ring", "tree", "a", "b", "c", "d", "e", "auto"};
	struct bb_strbuf out = {0};
	struct bb_results c = {.n = 0};
	const char *line, *end;

	for (size_t i = 0; i < 8; i++) {
		for (int64_t size = 1; size <= 4; size *= 2)
			add(&c, names[i], names[i < 7 ? i : 0], size, false,
			    (double)(i + 1) * (double)size, 50);
	}
	for (line = text_of(&c, &out); *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_true(end - line <= 100);
	}
	assert_int_equal(strncmp(bb_strbuf_text(&out), "#\n# Comparison", 14), 0);
	assert_non_null(strstr(bb_strbuf_text(&out), " ring 2.00x\n"));
	assert_null(strstr(bb_strbuf_text(&out), "faster")); /* ring alone wins anywhere */
	bb_strbuf_free(&out);
	bb_results_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_crossings),
		cmocka_unit_test(test_beaten),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_bounds_and_auto),
		cmocka_unit_test(test_auto_of_placements),
		cmocka_unit_test(test_told_of_placements),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_not_a_number),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
