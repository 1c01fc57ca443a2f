/*
 * The rows and command lines of logs, field by field.
 */
#include "logs/log.h"

#include "topology/cards.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- rows ----------------------------------------------------------------------------------- */

#define MB "1000000 250000 float "
#define GOOD "10 100 175 "

static const struct row_case {
	const char *text;
	struct bb_log_shape shape;
	int n;
	bool whole;
	const char *op, *root;
	bool there[2], doubtful[2], not_finite[2];
	double time[2], wrong[2]; /* -1: not checked */
	int columns;              /* afterwards */
} rows[] = {
	{MB "sum -1 " GOOD "0 20 50 87.5 0",
	 {.columns = 0},
	 13,
	 true,
	 "sum",
	 "-1",
	 {true, true},
	 {false},
	 {false},
	 {10, 20},
	 {0, 0},
	 8},
	{MB "sum -1 " GOOD "0 20 50 87.5 N/A",
	 {.columns = 8, .size = 4},
	 13,
	 true,
	 "sum",
	 "-1",
	 {true, true},
	 {false},
	 {false},
	 {10, 20},
	 {0, -1},
	 8},
	{MB GOOD "0", {.columns = 0}, 7, true, "", "", {true}, {false}, {false}, {10}, {0}, 4},
	{MB GOOD "0 behind",
	 {.in_place = true},
	 7,
	 true,
	 "",
	 "",
	 {false, true},
	 {false},
	 {false},
	 {0, 10},
	 {0, 0},
	 4},
	{MB "none " GOOD "0",
	 {.columns = 4, .size = 8},
	 8,
	 true,
	 "none",
	 "",
	 {true},
	 {false},
	 {false},
	 {10},
	 {0},
	 4},
	{MB "3 " GOOD "0",
	 {.columns = 0},
	 8,
	 true,
	 "",
	 "3",
	 {true},
	 {false},
	 {false},
	 {10},
	 {0},
	 4},
	/* Of unknown columns a number without an asterisk may be an error that is allowed. */
	{MB GOOD "1 20 50 87.5 0.9",
	 {.columns = 0},
	 11,
	 true,
	 "",
	 "",
	 {true, true},
	 {true},
	 {false},
	 {10, 20},
	 {1, 0.9},
	 8},
	{MB GOOD "1 20 50 87.5 2*",
	 {.columns = 0},
	 11,
	 true,
	 "",
	 "",
	 {true, true},
	 {true},
	 {false},
	 {10, 20},
	 {1, 1},
	 8},
	{MB GOOD "5",
	 {.last = BB_LOG_WRONG},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {10},
	 {5},
	 4},
	{MB GOOD "5",
	 {.last = BB_LOG_ERROR},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {true},
	 {false},
	 {10},
	 {-1},
	 4},
	{MB GOOD "0.5",
	 {.last = BB_LOG_ERROR},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {10},
	 {0.5},
	 4},
	{MB GOOD "1e-3*",
	 {.last = BB_LOG_ERROR},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {10},
	 {1},
	 4},
	{MB GOOD "nan", {.columns = 0}, 7, true, "", "", {true}, {false}, {false}, {10}, {-1}, 4},
	{MB GOOD "inf", {.columns = 0}, 7, true, "", "", {true}, {false}, {false}, {10}, {-1}, 4},
	{MB "10 100 nan 0 10 inf 175 0",
	 {.columns = 0},
	 11,
	 true,
	 "",
	 "",
	 {false, false},
	 {false},
	 {true, true},
	 {10, 10},
	 {0, 0},
	 8},
	{MB "N/A N/A N/A N/A " GOOD "0",
	 {.columns = 0},
	 11,
	 true,
	 "",
	 "",
	 {false, true},
	 {false},
	 {false},
	 {0, 10},
	 {-1, 0},
	 8},
	/* With -I four more numbers each. */
	{MB "sum -1 " GOOD "0 1 2 3 4 20 50 87.5 7 1 2 3 4",
	 {.last = BB_LOG_WRONG},
	 21,
	 true,
	 "sum",
	 "-1",
	 {true, true},
	 {false},
	 {false},
	 {10, 20},
	 {0, 7},
	 16},
	/* Fewer columns than above, but where sizes begin anew. */
	{MB GOOD "0",
	 {.columns = 8, .size = 4000},
	 7,
	 false,
	 "",
	 "",
	 {false},
	 {false},
	 {false},
	 {0},
	 {0},
	 8},
	{MB GOOD "0",
	 {.columns = 8, .size = 1000000},
	 7,
	 false,
	 "",
	 "",
	 {false},
	 {false},
	 {false},
	 {0},
	 {0},
	 8},
	{MB GOOD "0",
	 {.columns = 8, .size = 1000001},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {10},
	 {0},
	 4},
	/* Cut, too long, and without a column */
	{MB "10 100 175", {.columns = 0}, 6, false, "", "", {false}, {false}, {false}, {0}, {0}, 0},
	{MB GOOD "0 10 100",
	 {.columns = 0},
	 9,
	 false,
	 "",
	 "",
	 {false},
	 {false},
	 {false},
	 {0},
	 {0},
	 0},
	{MB "3 10 100 175",
	 {.columns = 0},
	 7,
	 false,
	 "",
	 "",
	 {true},
	 {true},
	 {false},
	 {3},
	 {175},
	 0},
	{MB GOOD "0 9", {.columns = 0}, 8, false, "", "10", {true}, {true}, {false}, {100}, {9}, 0},
	/* Implausible anyway: a row */
	{MB "10 120 175 0",
	 {.columns = 0},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {10},
	 {0},
	 4},
	/* A long time of two digits is that of the bandwidth, if that is near. */
	{"1100000000 1 float 1.1e+04 100 175 0",
	 {.columns = 0},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {11000},
	 {0},
	 4},
	{"1100000000 1 float 1.1e+04 95 175 0",
	 {.columns = 0},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {11578.947368421053},
	 {0},
	 4},
	{"1100000000 1 float 1.1e+04 94 175 0",
	 {.columns = 0},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {11000},
	 {0},
	 4},
	{"1100000000 1 float 11000 95 175 0",
	 {.columns = 0},
	 7,
	 true,
	 "",
	 "",
	 {true},
	 {false},
	 {false},
	 {11000},
	 {0},
	 4},
};

static void test_rows(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row_case *const c = &rows[i];
		struct bb_log_shape shape = c->shape;
		struct bb_log_words words;
		struct bb_log_row row;
		char text[256];
		bool same;

		snprintf(text, sizeof(text), "tag %s", c->text);
		bb_log_split(text, &words);
		assert_int_equal(bb_log_row_find(&words), 1);
		bb_log_row_read(&words, 1, &shape, &row);
		same = row.n == c->n && row.whole == c->whole && strcmp(row.op, c->op) == 0 &&
		       strcmp(row.root, c->root) == 0 && shape.columns == c->columns &&
		       strcmp(row.type, "float") == 0 &&
		       row.count == strtoull(words.at[2], NULL, 10) &&
		       shape.size == (c->whole ? strtoull(words.at[1], NULL, 10) : c->shape.size);
		for (int half = 0; half < 2; half++) {
			same = same && row.there[half] == c->there[half] &&
			       row.doubtful[half] == c->doubtful[half] &&
			       row.not_finite[half] == c->not_finite[half];
			if (!c->there[half])
				continue;
			same = same && fabs(row.half[half].time_us - c->time[half]) < 1e-6 &&
			       row.half[half].size_bytes == strtoull(words.at[1], NULL, 10) &&
			       row.half[half].in_place == (half == 1) &&
			       (c->wrong[half] < 0 ? isnan(row.wrong[half])
						   : row.wrong[half] == c->wrong[half]);
		}
		if (!same)
			fail_msg(
				"%s: %d words, %d, op %s, root %s, %d columns, %d %d, %g %g, wrong "
				"%g %g, %d %d, %d %d",
				c->text, row.n, row.whole, row.op, row.root, shape.columns,
				row.there[0], row.there[1], row.half[0].time_us,
				row.half[1].time_us, row.wrong[0], row.wrong[1], row.doubtful[0],
				row.doubtful[1], row.not_finite[0], row.not_finite[1]);
	}
}

/* Where a row begins, what its values are, and what cannot belong to it. */
static void test_words(void **state)
{
	static const struct {
		const char *text;
		int at;
	} begins[] = {{"8 2 float", 0},      {"x 8 2 float", 1}, {"a 1 8 2 half", 2},
		      {"8 2", -1},           {"8 2 words", -1},  {"0 2 float", -1},
		      {"8 x float", -1},     {"8 -2 float", -1}, {"<o>:8 2 float", 0},
		      {"8 2 uint8 9", 0},    {"", -1},           {"x y 8 2 fp8", 2},
		      {"8 2 float16 8 4", 0}};
	static const struct {
		const char *word;
		bool value;
	} values[] = {{"1", true},        {"-1.5", true}, {"1e-7*", true}, {"N/A", true},
		      {"nan", true},      {"-inf", true}, {"1x", false},   {"x", false},
		      {"", false},        {"*", false},   {"1**", false},  {"n/a", false},
		      {"infinite", false}};
	static const struct {
		const char *type;
		uint64_t bytes;
	} types[] = {{"int8", 1},      {"uint8", 1},    {"int16", 2},    {"uint16", 2},
		     {"int32", 4},     {"uint32", 4},   {"int64", 8},    {"uint64", 8},
		     {"half", 2},      {"float16", 2},  {"float", 4},    {"float32", 4},
		     {"float64", 8},   {"double", 8},   {"bfloat16", 2}, {"f8e4m3", 1},
		     {"float8_e5", 1}, {"fp8_e4m3", 1}, {"words", 0},    {"", 0}};
	static const char *const cleaned[][2] = {{"[1,0]<stdout>: 8", "               8"},
						 {"1,5 2, 3", "1.5 2  3"},
						 {"[a b] 1", "[a b] 1"},
						 {"<x>1", "   1"},
						 {",5 5,", " 5 5 "},
						 {"[x 1", "[x 1"}};

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		struct bb_log_words words;
		char text[64];

		strcpy(text, begins[i].text);
		bb_log_split(text, &words);
		if (bb_log_row_find(&words) != begins[i].at)
			fail_msg("%s", begins[i].text);
	}
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (bb_log_is_value(values[i].word) != values[i].value)
			fail_msg("%s", values[i].word);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (bb_log_type_bytes(types[i].type) != types[i].bytes)
			fail_msg("%s", types[i].type);
	for (size_t i = 0; i < sizeof(cleaned) / sizeof(cleaned[0]); i++) {
		char text[64];

		strcpy(text, cleaned[i][0]);
		bb_log_row_clean(text);
		assert_string_equal(text, cleaned[i][1]);
	}
}

/* Within the rounding of two decimals both halves have one factor. */
static void test_factors(void **state)
{
	static const struct {
		double busbw, algbw, other, other_algbw;
		bool same;
	} cases[] = {
		{175, 100, 175, 100, true},     {175, 100, 87.5, 50, true},
		{175, 100, 150, 100, false},    {150, 100, 175, 100, false},
		{0.02, 0.01, 0.01, 0.01, true}, {1.75, 1, 1.77, 1, true},
		{1.75, 1, 1.8, 1, false},       {1.8, 1, 1.75, 1, false},
		{0, 100, 0, 50, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_claim a = {.busbw_GBps = cases[i].busbw,
					   .algbw_GBps = cases[i].algbw},
				      b = {.busbw_GBps = cases[i].other,
					   .algbw_GBps = cases[i].other_algbw};

		if (bb_log_same_factor(&a, &b) != cases[i].same)
			fail_msg("%zu", i);
	}
}

/* ---- command lines -------------------------------------------------------------------------- */

struct line {
	const char *text;
	bool is_command, begins;
	int64_t ranks, nodes;
	const char *collective;
};

/* Each line after those above it. */
static const struct line lines[] = {
	{"mpirun -np 4 ./all_reduce_perf -g 2", true, true, 8, 0, "all_reduce"},
	{"some words", false, false, 8, 0, "all_reduce"},
	{"mpirun -np 2 \\", true, true, 2, 0, ""},
	{"-N 1 \\", true, false, 2, 2, ""},
	{"./gather_perf -t 3 \\", true, false, 6, 2, "gather"},
	{"./scatter_perf -g 5 \\", true, true, 5, 1, "scatter"},
	{"-t 2", true, false, 10, 1, "scatter"},
	{"-t 3", false, false, 10, 1, "scatter"},
	{"mpirun -np 9", true, true, 9, 0, ""},
	{"./reduce_perf", true, false, 9, 0, "reduce"},
	{"mpirun -np 4 ./gather_perf ./scatter_perf", true, true, 1, 1, "scatter"},
	{"mpirun -np 3 \\", true, true, 3, 0, ""},
	{"mpirun -np 5 \\", true, false, 5, 0, ""},
	{"", false, false, 5, 0, ""},
	{"-np 7", false, false, 5, 0, ""},
	{"./gather_perf", true, false, 5, 0, "gather"},
	{"SBATCH -N 3", true, true, 0, 3, ""},
	{"SBATCH --ntasks-per-node=2", true, false, 6, 3, ""},
	{"srun ./broadcast_perf", true, false, 6, 3, "broadcast"},
	{"SBATCH -N 4", true, true, 0, 4, ""},
	{"mpirun -np 3 ./all_gather_perf", true, true, 3, 0, "all_gather"},
	{"mpirun --map-by ppr:16:node -np 32 ./all_reduce_perf", true, true, 32, 2, "all_reduce"},
	{"mpirun -H a:-3,b:8,c:1 ./all_reduce_perf", true, true, 9, 3, "all_reduce"},
	{"mpirun --map-by ppr:9999999:node -H a ./all_reduce_perf", true, true, 1000000, 1,
	 "all_reduce"},
	{"mpirun -np 4 -N 0 ./osu_bcast", true, true, 4, 0, "broadcast"},
	{"python run.py", false, false, 4, 0, "broadcast"},
};

static void test_commands(void **state)
{
	struct bb_log_command command = {.launched = false};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct bb_log_words words;
		char text[256];
		int64_t ranks, nodes;
		bool begins, is;

		strcpy(text, lines[i].text);
		bb_log_split(text, &words);
		is = bb_log_command_read(&command, &words, &begins);
		ranks = bb_log_command_ranks(&command, &nodes);
		if (is != lines[i].is_command || begins != lines[i].begins ||
		    ranks != lines[i].ranks || nodes != lines[i].nodes ||
		    strcmp(command.collective, lines[i].collective) != 0)
			fail_msg("%zu: %d %d, %d ranks, %d nodes, %s: %s", i, is, begins,
				 (int)ranks, (int)nodes, command.collective, lines[i].text);
	}
}

/* Sizes and types as a benchmark prints them and as options name them. */
static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		struct bb_log_command want;
	} cases[] = {
		{"nThread 2 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor)",
		 {.threads = 2, .gpus = 8, .least_bytes = 8, .most_bytes = 134217728, .factor = 2}},
		{"nGpus 8 minBytes 4K step: 16(bytes)",
		 {.threads = 1, .gpus = 8, .least_bytes = 4096, .step_bytes = 16}},
		{"-d int8", {.threads = 1, .type = "int8"}},
		{"-d fp8_e4m3 -f 3", {.threads = 1, .type = "fp8_e4m3", .factor = 3}},
		{"--datatype=words -f 1 -i 1M", {.threads = 1, .step_bytes = 1 << 20}},
		{"-b -e 64", {.threads = 1, .most_bytes = 64}},
		{"-t 99999999 -g 123456789", {.threads = 99999999}},
		{"-g", {.threads = 1}},
		{"-g4 -t=3 --ngpus5", {.threads = 3, .gpus = 4}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_log_command *const want = &cases[i].want;
		struct bb_log_command c;
		struct bb_log_words words;
		char text[256];

		strcpy(text, cases[i].text);
		bb_log_split(text, &words);
		bb_log_sizes_read(&c, &words);
		if (c.threads != want->threads || c.gpus != want->gpus ||
		    c.least_bytes != want->least_bytes || c.most_bytes != want->most_bytes ||
		    c.step_bytes != want->step_bytes || c.factor != want->factor ||
		    strcmp(c.type, want->type) != 0)
			fail_msg("%s: %d threads, %d GPUs, %d to %d, %d or %g, %s", cases[i].text,
				 (int)c.threads, (int)c.gpus, (int)c.least_bytes, (int)c.most_bytes,
				 (int)c.step_bytes, c.factor, c.type);
	}
}

/* A name of OSU's is that of a binary or of a title. */
static void test_names(void **state)
{
	static const char *const osu[][2] = {
		{"osu_allreduce", "all_reduce"},
		{"Allgather", "all_gather"},
		{"All-to-All", "alltoall"},
		{"osu_bcast", "broadcast"},
		{"Reduce_scatter", "reduce_scatter"},
		{"Reduce", "reduce"},
		{"osu_gather", "gather"},
		{"Scatter", "scatter"},
		{"osu_latency", NULL},
		{"", NULL},
	};
	static const char *const benchmarks[][2] = {
		{"build/all_reduce_perf", "all_reduce"},
		{"/a_perf/gather_perf_mpi", "gather"},
		{"scatter", "scatter"},
		{"a_very_long_name_of_nothing", "a_very_long_name_of_not"},
		{"_perf", ""}};

	for (size_t i = 0; i < sizeof(osu) / sizeof(osu[0]); i++) {
		const char *const name = bb_log_osu(osu[i][0]);

		if (!name != !osu[i][1] || (name && strcmp(name, osu[i][1]) != 0))
			fail_msg("%s: %s", osu[i][0], name ? name : "none");
	}
	for (size_t i = 0; i < sizeof(benchmarks) / sizeof(benchmarks[0]); i++) {
		char name[24];

		bb_log_benchmark(name, benchmarks[i][0]);
		assert_string_equal(name, benchmarks[i][1]);
	}
}

/* Any card by its name, alone, in the plural, as DGX or with its memory; two of them are none. */
static void test_cards(void **state)
{
	for (int i = 0; bb_card_at(i); i++) {
		static const char *const texts[] = {"we had 8 %s here", "8x %ss", "%s", "(%s)"};
		const char *const name = bb_card_at(i)->name;

		if (strlen(name) < 3) /* T4 is many things */
			continue;
		for (int k = 0; k < 4; k++) {
			struct bb_fact card = {.line = 0};
			char text[128];

			if (k == 1 && strcmp(name, "L40") == 0) /* L40s is another card */
				continue;
			snprintf(text, sizeof(text), texts[k], name);
			bb_log_card_read(&card, text, 7);
			if (card.line != 7 || strcmp(card.text, name) != 0)
				fail_msg("%s: line %d, %s", text, card.line, card.text);
			/* The same again, and another. */
			bb_log_card_read(&card, text, 9);
			assert_int_equal(card.line, 7);
			bb_log_card_read(&card, bb_card_at(i > 0 ? 0 : 1)->name, 9);
			assert_int_equal(card.line, -1);
			bb_log_card_read(&card, text, 9);
			assert_int_equal(card.line, -1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),    cmocka_unit_test(test_words),
		cmocka_unit_test(test_factors), cmocka_unit_test(test_commands),
		cmocka_unit_test(test_sizes),   cmocka_unit_test(test_names),
		cmocka_unit_test(test_cards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
