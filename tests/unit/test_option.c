#include "core/option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct request {
	char first; /* a bool at offset 0 cannot be a "given" */
	bool check, check_given, bytes_given;
	int64_t iters;
	uint64_t minbytes, maxbytes, timeout;
	double precision;
	int type;
	const char *output;
};

static const char *const types[] = {"float", "half", "bfloat16", NULL};

#define AT(member) .offset = offsetof(struct request, member)

static const struct bb_option rows[] = {
	{"minbytes", 'b', BB_OPT_SIZE, AT(minbytes), .initial = "32M", .argument = "SIZE",
	 .given = offsetof(struct request, bytes_given), .help = "smallest size", .min = 4,
	 .max = (int64_t)1 << 40, .section = "Sizes"},
	{"maxbytes", 'e', BB_OPT_SIZE, AT(maxbytes), .initial = "32M", .argument = "SIZE",
	 .help = "largest size, which is described at such length that the line has to be broken "
		 "somewhere to stay within the width"},
	{"iters", 'n', BB_OPT_INT, AT(iters), .initial = "20", .argument = "N",
	 .help = "iterations", .min = 1, .max = 1000, .section = "Repetition"},
	{"repeat", 0, BB_OPT_INT, AT(iters), .help = "same as --iters"},
	{"timeout", 'T', BB_OPT_DURATION, AT(timeout), .initial = "120s", .argument = "TIME",
	 .help = "limit", .min = 0, .max = 86400000000000},
	{"precision", 0, BB_OPT_PERCENT, AT(precision), .argument = "P", .help = "repeat until"},
	{"check", 'c', BB_OPT_FLAG, AT(check), .given = offsetof(struct request, check_given),
	 .help = "verify a|b", .section = "Output"},
	{"type", 'd', BB_OPT_CHOICE, AT(type), .initial = "half", .argument = "TYPE",
	 .choices = types, .help = "datatype"},
	{
		"output",
		'o',
		BB_OPT_STRING,
		AT(output),
		.initial = "-",
		.argument = "FILE",
		.help = "file to write",
	},
	{.name = NULL},
};

static bb_status parse_rows(const struct bb_option *table, int argc, char **argv, struct request *r,
			    struct bb_error *error)
{
	const struct bb_option_table tables[] = {{table, r, NULL}, {NULL, NULL, NULL}};

	return bb_options_parse(tables, argc, argv, error);
}

/* LINE split at blanks, given to the parser. */
static bb_status parse(const char *line, struct request *r, struct bb_error *error)
{
	static const char program[] = "program";
	char *copy = strdup(line), *argv[16] = {(char *)program}, *rest = NULL;
	bb_status st;
	int argc = 1;

	assert_non_null(copy);
	for (char *w = strtok_r(copy, " ", &rest); w && argc < 15; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	memset(r, 0xff, sizeof(*r));
	*error = (struct bb_error){0};
	st = parse_rows(rows, argc, argv, r, error);
	r->output = NULL; /* borrowed from the copy */
	free(copy);
	return st;
}

static void test_defaults(void **state)
{
	struct bb_error error;
	struct request r;

	assert_int_equal(parse("", &r, &error), BB_OK);
	assert_true(r.minbytes == 32 << 20 && r.maxbytes == 32 << 20 && r.iters == 20);
	assert_true(r.timeout == 120000000000 && r.precision == 0 && r.type == 1);
	assert_false(r.check || r.check_given || r.bytes_given);
}

static void test_values(void **state)
{
	char *argv[] = {(char *)"p", (char *)"-o", (char *)"a b", (char *)"--", NULL};
	struct bb_error error;
	struct request r;

	for (int twice = 0; twice < 2; twice++) { /* getopt keeps nothing from the first time */
		assert_int_equal(parse("-b 8 -e1.5K --iters=7 --timeout 1.5ms --precision 0.5% -c "
				       "-d bfloat16",
				       &r, &error),
				 BB_OK);
		assert_true(r.minbytes == 8 && r.maxbytes == 1536 && r.iters == 7);
		assert_true(r.timeout == 1500000 && r.precision == 0.005 && r.type == 2);
		assert_true(r.check && r.check_given && r.bytes_given);
	}
	assert_int_equal(parse("-cb 16", &r, &error), BB_OK);
	assert_true(r.check && r.minbytes == 16);
	assert_int_equal(parse("-n 3 -n 4", &r, &error), BB_OK);
	assert_int_equal(r.iters, 4);
	assert_int_equal(parse("--repeat 5 --minb 4", &r, &error), BB_OK);
	assert_true(r.iters == 5 && r.minbytes == 4);
	assert_int_equal(parse("--maxbytes 16777215T", &r, &error), BB_OK);
	assert_int_equal(parse_rows(rows, 4, argv, &r, &error), BB_OK);
	assert_ptr_equal(r.output, argv[2]);
	assert_int_equal(parse_rows(rows, 1, argv, &r, &error), BB_OK);
	assert_string_equal(r.output, "-");
}

static void test_errors(void **state)
{
#define TYPES "float, half, bfloat16"
#define SIZES "a size from 4 to 1T, such as 8, 64K or 1.5G"
	static const char *const cases[][2] = {
		{"--minbtyse 8", "--minbtyse: unknown option; did you mean --minbytes?"},
		{"--minbtyse=8", "--minbtyse=8: unknown option; did you mean --minbytes?"},
		{"--frobnicate", "--frobnicate: unknown option; see --help"},
		{"--=3", "--=3: unknown option; see --help"},
		{"-cx", "-cx: unknown option -x; see --help"},
		{"-?", "-?: unknown option -?; see --help"},
		{"--m 3", "--m: ambiguous; it could be --minbytes, --maxbytes"},
		{"-b 2X", "-b 2X: not a size; expected " SIZES},
		{"-b2X", "-b2X: not a size; expected " SIZES},
		{"-cb 2X", "-cb 2X: not a size; expected " SIZES},
		{"--minbytes=2X", "--minbytes=2X: not a size; expected " SIZES},
		{"--minb 2X", "--minb 2X: not a size; expected " SIZES},
		{"-b 2", "-b 2: out of range; expected " SIZES},
		{"-b 2T", "-b 2T: out of range; expected " SIZES},
		{"-b 99999999T", "-b 99999999T: out of range; expected " SIZES},
		{"-b 18446744073709551615",
		 "-b 18446744073709551615: out of range; expected " SIZES},
		{"-e 2X", "-e 2X: not a size; expected a size, such as 8, 64K or 1.5G"},
		{"-n 0", "-n 0: out of range; expected an integer from 1 to 1000"},
		{"-n -1", "-n -1: out of range; expected an integer from 1 to 1000"},
		{"-n 4294967297",
		 "-n 4294967297: out of range; expected an integer from 1 to 1000"},
		{"-n 18446744073709551617",
		 "-n 18446744073709551617: out of range; expected an integer from 1 to 1000"},
		{"-n 1.5", "-n 1.5: not an integer; expected an integer from 1 to 1000"},
		{"-T 25h",
		 "-T 25h: out of range; expected a duration from 0 to 24h, such as 500us, "
		 "1.5s or 2m"},
		{"--precision 1", "--precision 1: not a percentage; expected a percentage above 0% "
				  "to 100%, such as 0.5% or 10%"},
		{"--precision 0%",
		 "--precision 0%: out of range; expected a percentage above 0% to "
		 "100%, such as 0.5% or 10%"},
		{"-d flaot",
		 "-d flaot: not a valid choice (did you mean float?); expected one of: " TYPES},
		{"-d FLOAT",
		 "-d FLOAT: not a valid choice (did you mean float?); expected one of: " TYPES},
		{"-d x", "-d x: not a valid choice; expected one of: " TYPES},
		{"-n", "-n: needs a value: N"},
		{"--minbytes", "--minbytes: needs a value: SIZE"},
		{"--repeat", "--repeat: needs a value: N"},
		{"--check=3", "--check=3: --check takes no value"},
		{"8", "8: not an option; options start with a dash"},
		{"-c -- 8", "8: not an option; options start with a dash"},
		{"-c 8 --frobnicate", "8: not an option; options start with a dash"},
		{"-minbytes 8", "-minbytes: unknown option -m; did you mean --minbytes?"},
		{"-b 2X --frobnicate", "-b 2X: not a size; expected " SIZES},
	};
	struct bb_error error;
	struct request r;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i][0], &r, &error), BB_EUSAGE);
		assert_int_equal(bb_error_status(&error), BB_EUSAGE);
		assert_string_equal(error.text, cases[i][1]);
	}
}

static void test_wrong_default(void **state)
{
	static const struct bb_option wrong[] = {
		{"n", 0, BB_OPT_INT, AT(iters), .initial = "0", .min = 1, .max = 2},
		{.name = NULL},
	};
	char *argv[] = {(char *)"p", NULL};
	struct bb_error error = {0};
	struct request r;

	assert_int_equal(parse_rows(wrong, 1, argv, &r, &error), BB_EINTERNAL);
	assert_string_equal(error.text, "--n: its default 0 is not valid");
}

/* Two tables, each with a target of its own, are one set of options. */
static void test_tables(void **state)
{
	struct other {
		bool loud;
		int64_t n, type;
	};
	static const struct bb_option more[] = {
		{"loud", 'l', BB_OPT_FLAG, offsetof(struct other, loud), .section = "More"},
		{"number", 0, BB_OPT_INT, offsetof(struct other, n), .initial = "7"},
		{"type", 't', BB_OPT_INT, offsetof(struct other, type), .initial = "3"},
		{.name = NULL},
	};
	char *argv[] = {(char *)"p", (char *)"-ln4", (char *)"--number", (char *)"5", NULL};
	char *wrong[] = {(char *)"p", (char *)"--nmuber", (char *)"5", NULL};
	struct bb_strbuf out = {0};
	struct bb_error error = {0};
	struct other other;
	struct request r = {.type = 77};
	const struct bb_option_table tables[] = {
		{more, &other, NULL}, {rows, &r, NULL}, {NULL, NULL, NULL}};

	assert_int_equal(bb_options_parse(tables, 4, argv, &error), BB_OK);
	assert_true(other.loud && other.n == 5 && r.iters == 4);
	/* Of two of a name the first is meant. */
	assert_true(other.type == 3 && r.type == 77);
	assert_int_equal(bb_options_parse(tables, 1, argv, &error), BB_OK);
	assert_true(!other.loud && other.n == 7 && r.iters == 20);
	assert_int_equal(bb_options_parse(tables, 3, wrong, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "did you mean --number?"));
	bb_options_help(tables, true, &out);
	assert_non_null(strstr(bb_strbuf_text(&out), "\nMore:\n  -l, --loud"));
	assert_non_null(strstr(bb_strbuf_text(&out), "\n\nSizes:\n  -b, --minbytes SIZE"));
	bb_strbuf_free(&out);
}

static void test_help(void **state)
{
	const struct bb_option_table tables[] = {{rows, NULL, NULL}, {NULL, NULL, NULL}};
	static const char *const lines[] = {
		"\nSizes:\n",
		"\n  -b, --minbytes SIZE  smallest size (4 to 1T; default 32M)\n",
		"\n      --repeat N       same as --iters\n",
		"\n\nRepetition:\n  -n, --iters N        iterations (1 to 1000; default 20)\n",
		"\n  -T, --timeout TIME   limit (0 to 24h; default 120s)\n",
		"\n  -c, --check          verify a|b\n",
		"\n  -d, --type TYPE      datatype (float, half, bfloat16; default half)\n",
		"\n  -o, --output FILE    file to write (default -)\n",
		"to be\n                       broken somewhere to stay",
	};
	struct bb_strbuf out = {0};
	const char *text, *end;

	bb_options_help(tables, true, &out);
	assert_false(bb_strbuf_failed(&out));
	text = bb_strbuf_text(&out);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strstr(text, lines[i]))
			fail_msg("'%s' is not in\n%s", lines[i], text);
	for (const char *line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_true(end - line <= 100 && (end == line || end[-1] != ' '));
	}
	bb_strbuf_free(&out);
}

/* Usual rows have no headings; GPU-only rows come last, under one heading. */
static void test_help_order(void **state)
{
	struct order {
		bool a, b, c, d;
	};
	static const struct bb_option first[] = {
		{"a", 0, BB_OPT_FLAG, offsetof(struct order, a), .help = "A", .section = "One",
		 .usual = true},
		{"b", 0, BB_OPT_FLAG, offsetof(struct order, b), .help = "B", .gpu_only = true},
		{"c", 0, BB_OPT_FLAG, offsetof(struct order, c), .help = "C"},
		{.name = NULL},
	};
	static const struct bb_option second[] = {
		{"d", 0, BB_OPT_FLAG, offsetof(struct order, d), .help = "D", .section = "One",
		 .usual = true},
		{.name = NULL},
	};
	const struct bb_option_table tables[] = {
		{first, NULL, NULL}, {second, NULL, NULL}, {NULL, NULL, NULL}};
	struct bb_strbuf out = {0};

	bb_options_help(tables, false, &out);
	assert_string_equal(bb_strbuf_text(&out), "      --a  A\n      --d  D\n");
	bb_strbuf_clear(&out);
	bb_options_help(tables, true, &out);
	assert_string_equal(bb_strbuf_text(&out), "\nOne:\n      --a  A\n      --c  C\n"
						  "      --d  D\n\nGPU only:\n      --b  B\n");
	bb_strbuf_clear(&out);
	bb_options_markdown(tables, &out);
	assert_non_null(strstr(bb_strbuf_text(&out), "| `--c` |  |  | C |\n\n### GPU only\n\n"));
	bb_strbuf_free(&out);
}

static void test_markdown(void **state)
{
	static const char *const parts[] = {
		"### Sizes\n\n| Option | Default | Values | Meaning |\n| --- | --- | --- | --- |\n",
		"| `-b`, `--minbytes SIZE` | `32M` | 4 to 1T | smallest size |\n",
		"| `-c`, `--check` |  |  | verify a\\|b |\n",
		"| `--precision P` |  | above 0% to 100% | repeat until |\n",
		"|\n\n### Repetition\n\n| Option",
	};
	struct bb_strbuf out = {0};

	bb_options_markdown(&(struct bb_option_table){.rows = rows}, &out);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strstr(bb_strbuf_text(&out), parts[i]))
			fail_msg("'%s' is not in\n%s", parts[i], bb_strbuf_text(&out));
	bb_strbuf_free(&out);
}

/* ---- a list ------------------------------------------------------------------------------ */

static const char *const shapes[] = {"ring", "tree", "star", NULL};
static const char *const dtypes[] = {"half", "float", NULL};

static const char *shape_name(int index)
{
	return shapes[index];
}

#define LIST(OPTION, COMMON)                                                                       \
	OPTION(SIZES, sizes, "sizes", 0, "1K,4M", "sizes", .min = 1, .max = 1 << 30)               \
	OPTION(NUMBERS, numbers, "numbers", 0, "0,0.5", "numbers", .min = 0, .max = 16)            \
	OPTION(INTS, ints, "ints", 0, "1", "integers", .min = 1, .max = 8)                         \
	OPTION(CHOICES, order, "order", 0, "all", "shapes in order", .choice = shape_name)         \
	OPTION(SET, set, "set", 's', "ring", "a set of shapes", .choices = shapes)                 \
	OPTION(CHOICE, one, "one", 0, NULL, "a shape", .choices = shapes)                          \
	OPTION(DTYPE, dtype, "dtype", 0, "float", "a datatype", .choices = dtypes)                 \
	OPTION(NUMBER, factor, "factor", 0, "1.25", "a factor", .min = 1, .max = 2)                \
	OPTION(FLOPS, flops, "flops", 0, NULL, "a rate")                                           \
	OPTION(RANK, root, "root", 0, "0", "a root")                                               \
	OPTION(SIZE, first, "first", 0, "2M", "the first", .min = 1, .max = 1 << 30,               \
	       .zero = "cap")                                                                      \
	OPTION(LINK, link, "link", 0, NULL, "a link", .port = true)                                \
	COMMON("iters", 'n', "5", "own iterations", .min = 2, .max = 9)

struct listed {
	BB_OPTION_MEMBERS(LIST)
};

#define BB_OPTIONS struct listed
static const struct bb_option listed_rows[] = BB_OPTION_ROWS(LIST);
static const struct bb_option_refusal refused[] = {
	{"minbytes maxbytes", "there are no sizes"}, {"check", "nothing is checked"}, {NULL, NULL}};

static bb_status parse_list(int argc, const char *const *argv, struct listed *l, struct request *r,
			    struct bb_error *error)
{
	const struct bb_option_table tables[] = {
		{listed_rows, l, NULL}, {rows, r, refused}, {NULL, NULL, NULL}};

	*error = (struct bb_error){0};
	return bb_options_parse(tables, argc, (char **)(uintptr_t)argv, error);
}

static void test_lists(void **state)
{
	static const char *const given[] = {"p",        "--sizes", "8,1M",    "--numbers", "16",
					    "--ints",   "8,8",     "--order", "star,ring", "-s",
					    "all",      "--one",   "tree",    "--dtype",   "half",
					    "--factor", "2",       "--flops", "100T",      "--root",
					    "all",      "--first", "cap",     "-n",        "7"};
	struct bb_error error;
	struct request r;
	struct listed l;

	assert_int_equal(parse_list(1, given, &l, &r, &error), BB_OK);
	assert_true(l.sizes.n == 2 && l.sizes.list[0] == 1024 && l.sizes.list[1] == 4 << 20);
	assert_true(l.numbers.n == 2 && l.numbers.list[1] == 0.5);
	assert_true(l.ints.n == 1 && l.order.n == 3 && l.order.list[2] == 2 && l.set == 1);
	assert_true(l.one == -1 && l.dtype == BB_FLOAT && l.factor == 1.25 && l.flops == 0);
	assert_true(l.root == 0 && l.first == 2 << 20);
	/* The default is the program's, the target that of all programs. */
	assert_true(r.iters == 5 && !l.sizes_given && !l.one_given);

	assert_int_equal(parse_list(sizeof(given) / sizeof(given[0]), given, &l, &r, &error),
			 BB_OK);
	assert_true(l.sizes.n == 2 && l.sizes.list[0] == 8 && l.sizes_given);
	assert_true(l.numbers.n == 1 && l.numbers.list[0] == 16);
	assert_true(l.ints.n == 2 && l.ints.list[1] == 8);
	assert_true(l.order.n == 2 && l.order.list[0] == 2 && l.order.list[1] == 0);
	assert_true(l.set == 7 && l.one == 1 && l.dtype == BB_HALF && l.factor == 2);
	assert_true(l.flops == 1e14 && l.root == -1 && l.first == 0 && l.first_given);
	assert_int_equal(r.iters, 7);
	assert_true(!l.link.text && l.link.rate == 0);
	for (int port = 0; port < 2; port++) {
		const char *const argv[] = {"p", "--link", port ? "8Gb/s,port" : "1GB/s,2us"};

		assert_int_equal(parse_list(3, argv, &l, &r, &error), BB_OK);
		assert_true(l.link.rate == 1e9 && l.link.port == (port == 1) && l.link_given);
		assert_true(l.link.latency == (port ? 0 : 2000 * 1e-9) && l.link.text == argv[2]);
	}
}

static void test_bad_lists(void **state)
{
#define SHAPES "all or a list of: ring, tree, star"
	static const char *const cases[][3] = {
		{"--sizes", "8,x",
		 ": \"x\" is not a size; expected a list of sizes from 1 to 1G, "
		 "such as 1K,4M"},
		{"--sizes", "0",
		 ": out of range; expected a list of sizes from 1 to 1G, such as "
		 "1K,4M"},
		{"--sizes", "8,",
		 ": the list has an empty item; expected a list of sizes "
		 "from 1 to 1G, such as 1K,4M"},
		{"--numbers", "nan",
		 ": not a number; expected a list of numbers from 0 to 16, such "
		 "as 0,0.5"},
		{"--ints", "1,9",
		 ": \"9\" is out of range; expected a list of integers from 1 to "
		 "8, such as 1"},
		{"--ints", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
		 ": \"1\" is more than the 32 items that a list may have; expected a list of "
		 "integers "
		 "from 1 to 8, such as 1"},
		{"--order", "ring,ring", ": \"ring\" is given twice; expected " SHAPES},
		{"--order", "ring,tere",
		 ": \"tere\" is not a valid choice (did you mean tree?); "
		 "expected " SHAPES},
		{"--set", "all,ring",
		 ": \"all\" is not a valid choice; "
		 "expected " SHAPES},
		{"--dtype", "int8",
		 ": not a datatype of this option; expected one of: half, float"},
		{"--factor", "0.5", ": out of range; expected a number from 1 to 2"},
		{"--flops", "1",
		 ": not a rate; expected FLOPs per second with a unit, such as 100T "
		 "or 1.5PFLOPS"},
		{"--link", "1GB/s,2m",
		 ": out of range; expected a rate from 1KB/s to 1000TB/s and "
		 "perhaps a latency up to 1m, with units, such as 10GB/s "
		 "or 100Gb/s,2us or 100Gb/s,2us,port"},
		{"--root", "-2", ": not a rank; expected a rank from 0, or all"},
		{"--first", "x",
		 ": not a size; expected a size from 1 to 1G or cap, such as 8, 64K "
		 "or 1.5G"},
		{"--iters", "1", ": out of range; expected an integer from 2 to 9"},
	};
	static const char *const refusals[][2] = {{"-b8", "-b: there are no sizes"},
						  {"--maxbytes=8", "-e: there are no sizes"},
						  {"-c", "-c: nothing is checked"}};
	struct bb_error error;
	struct request r;
	struct listed l;
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const argv[] = {"p", cases[i][0], cases[i][1], NULL};

		assert_int_equal(parse_list(3, argv, &l, &r, &error), BB_EUSAGE);
		snprintf(text, sizeof(text), "%s %s%s", cases[i][0], cases[i][1], cases[i][2]);
		assert_string_equal(error.text, text);
	}
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const char *const argv[] = {"p", refusals[i][0], NULL};

		assert_int_equal(parse_list(2, argv, &l, &r, &error), BB_EUSAGE);
		assert_string_equal(error.text, refusals[i][1]);
	}
}

/* What is refused is not offered. */
static void test_refused_help(void **state)
{
	const struct bb_option_table tables[] = {
		{listed_rows, NULL, NULL}, {rows, NULL, refused}, {NULL, NULL, NULL}};
	struct bb_strbuf out = {0};

	bb_options_help(tables, true, &out);
	assert_null(strstr(bb_strbuf_text(&out), "bytes"));
	assert_null(strstr(bb_strbuf_text(&out), "Sizes:"));
	assert_null(strstr(bb_strbuf_text(&out), "--check"));
	assert_non_null(strstr(bb_strbuf_text(&out), "own iterations (2 to 9; default 5)"));
	assert_null(strstr(bb_strbuf_text(&out), "1 to 1000"));
	assert_non_null(strstr(bb_strbuf_text(&out), "\n\nRepetition:\n"));
	bb_strbuf_clear(&out);
	bb_options_markdown(&tables[1], &out);
	assert_null(strstr(bb_strbuf_text(&out), "bytes"));
	assert_true(strncmp(bb_strbuf_text(&out), "### Repetition\n\n| Option", 24) == 0);
	bb_strbuf_free(&out);
}

static void test_nearest(void **state)
{
	static const char *const words[] = {"ring", "tree", "recursive_doubling", "a", "sum", NULL};
	static const char *const none[] = {NULL};

	assert_string_equal(bb_nearest("rign", words), "ring");
	assert_string_equal(bb_nearest("smu", words), "sum"); /* a swap is one edit */
	assert_string_equal(bb_nearest("TREE", words), "tree");
	assert_string_equal(bb_nearest("recursive-dubling", words), "recursive_doubling");
	assert_null(bb_nearest("butterfly", words));
	assert_null(bb_nearest("x", words));
	assert_null(bb_nearest("", words));
	assert_null(bb_nearest("ring", none));
	assert_null(
		bb_nearest("rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrring", words));
}

static void test_suggest(void **state)
{
	static const char *const words[] = {"ring", "tree", "sum", NULL}, *const one[] = {"ring",
											  NULL};
	static const char *const none[] = {NULL};
	const char *many[64] = {NULL};
	char text[BB_SUGGESTION];

	assert_string_equal(bb_suggest(text, "rign", words), "; did you mean \"ring\"?");
	assert_string_equal(bb_suggest(text, "butterfly", words), "; expected ring, tree or sum");
	assert_string_equal(bb_suggest(text, "butterfly", one), "; expected ring");
	assert_string_equal(bb_suggest(text, "butterfly", none), "");
	for (int i = 0; i < 63; i++)
		many[i] = "ring";
	assert_string_equal(bb_suggest(text, "butterfly", many), "");
}

/* ---- rules --------------------------------------------------------------------------------- */

struct common {
	char first;
	bool common_given, level_given;
	int64_t common, level;
};
struct ruled {
	char first;
	bool fast_given, slow_given, size_given, mode_given, text_given;
	bool fast, slow;
	int64_t size;
	int mode;
	const char *text;
};

#define RULED(kind, member, key_, ...)                                                             \
	{                                                                                          \
		.name = #member, .key = key_, .type = BB_OPT_##kind,                               \
		.offset = offsetof(struct ruled, member),                                          \
		.given = offsetof(struct ruled, member##_given), __VA_ARGS__                       \
	}

static const char *const modes[] = {"plain", "odd", NULL};

static const struct bb_option ruled_rows[] = {
	RULED(FLAG, fast, 'f', .excludes = {{"slow", "one speed"}, {"mode=odd"}},
	      .on = {{1, "has no speed"}}),
	RULED(FLAG, slow, 0, .needs = {{"size text=red level", "it takes long"}}),
	RULED(INT, size, 's', .initial = "0", .excludes = {{"fast nothing", "fast has no size"}}),
	RULED(CHOICE, mode, 0, .choices = modes, .initial = "plain",
	      .needs = {{"text", "odd text", .value = "odd"}},
	      .on = {{2, "is even", .value = "odd"}}),
	RULED(STRING, text, 0, .excludes = {{"level=3", .value = "red"}}),
	{.name = "common",
	 .common = true,
	 .type = BB_OPT_INT,
	 .initial = "7",
	 .excludes = {{"fast", "common"}}},
	{.name = NULL},
};
static const struct bb_option common_rows[] = {
	{"common", 0, BB_OPT_INT, .offset = offsetof(struct common, common),
	 .given = offsetof(struct common, common_given), .initial = "1"},
	{"level", 'l', BB_OPT_INT, .offset = offsetof(struct common, level),
	 .given = offsetof(struct common, level_given), .initial = "3"},
	{.name = NULL},
};

static bb_status rule(const char *line, unsigned features, struct bb_error *error)
{
	struct ruled own = {.first = 0};
	struct common shared = {.first = 0};
	const struct bb_option_table tables[] = {
		{ruled_rows, &own, NULL}, {common_rows, &shared, NULL}, {NULL, NULL, NULL}};
	char copy[80], *argv[16] = {(char *)"program"}, *rest = NULL;
	int argc = 1;
	bb_status st;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &rest); w && argc < 15; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	*error = (struct bb_error){0};
	assert_int_equal(bb_options_parse(tables, argc, argv, error), BB_OK);
	st = bb_options_check_rules(tables, error);
	return st != BB_OK ? st
			   : bb_options_check_features(tables, features, "the toy", " (so)", error);
}

static void test_rules(void **state)
{
	static const struct {
		const char *line;
		unsigned features;
		bb_status status;
		const char *says;
	} cases[] = {
		{"", 0, BB_OK, ""},
		{"-f", 1, BB_OK, ""},
		{"-f", 2, BB_EUNSUPPORTED, "-f: the toy has no speed (so)"},
		{"-f --slow -s 1", 1, BB_EUSAGE, "-f and --slow exclude each other: one speed"},
		{"-f --mode odd", 1, BB_EUSAGE, "-f and --mode odd exclude each other;"},
		{"-f --mode plain", 1, BB_OK, ""},
		{"-s 4 -f", 1, BB_EUSAGE, "-s 4 and -f exclude each other: fast has no size"},
		{"-s 0 -f", 1, BB_OK, ""}, /* its default: off */
		{"--slow", 1, BB_EUSAGE, "--slow needs -s or --text red or -l: it takes long"},
		{"--slow -s 0", 1, BB_EUSAGE, "--slow needs -s"},
		{"--slow -s 2", 1, BB_OK, ""},
		{"--slow -l 4", 1, BB_OK, ""},
		{"--slow --text redder", 1, BB_EUSAGE, "--text red"},
		{"--slow --text red:1 -l 4", 1, BB_OK, ""},
		{"--text red", 1, BB_EUSAGE, "--text red and -l 3 exclude"},
		{"--text blue", 1, BB_OK, ""},
		{"--mode odd", 2, BB_EUSAGE, "--mode odd needs --text: odd text"},
		{"--mode odd --text x", 2, BB_OK, ""},
		{"--mode odd --text x", 1, BB_EUNSUPPORTED, "--mode odd: the toy is even (so)"},
		{"--common 4", 0, BB_OK, ""},
		{"--common 4 -f", 1, BB_EUSAGE, "--common 4 and -f exclude each other: common"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error;
		const bb_status st = rule(cases[i].line, cases[i].features, &error);

		if (st != cases[i].status || !strstr(error.text, cases[i].says))
			fail_msg("'%s': %d, '%s'", cases[i].line, (int)st, error.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),     cmocka_unit_test(test_values),
		cmocka_unit_test(test_errors),       cmocka_unit_test(test_wrong_default),
		cmocka_unit_test(test_tables),       cmocka_unit_test(test_help),
		cmocka_unit_test(test_help_order),   cmocka_unit_test(test_markdown),
		cmocka_unit_test(test_nearest),      cmocka_unit_test(test_suggest),
		cmocka_unit_test(test_lists),        cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_refused_help), cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
