/*
 * Runs compared with their equals: shares and chances computed apart (Student's t by integration).
 */
#include "acceptance/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define RUNS 9
#define ROWS 4 /* 1M and 2M, out of place and in place */
#define MIB (1u << 20)

/* Bandwidths of one size: sigma is 0.0222 of their median, 100. */
static const double healthy[RUNS] = {98, 99, 100, 101, 102, 100, 98.5, 101.5, 100};

struct fleet {
	struct bb_claim rows[RUNS][ROWS];
	struct bb_claims claims[RUNS];
	struct bb_fleet_run runs[RUNS];
	char text[4096];
};

static void make_fleet(struct fleet *f)
{
	static const char *const names[RUNS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

	memset(f, 0, sizeof(*f));
	for (int r = 0; r < RUNS; r++) {
		struct bb_claims *c = &f->claims[r];

		*c = (struct bb_claims){.collective = "all_reduce",
					.type = "float",
					.op = "sum",
					.gpu = "H100",
					.algorithm = "ring",
					.nranks = 8,
					.hosts = 1,
					.list = f->rows[r],
					.n = ROWS};
		snprintf(c->host, sizeof(c->host), "host%d", r);
		for (int i = 0; i < ROWS; i++)
			f->rows[r][i] = (struct bb_claim){.size_bytes = (i / 2 + 1) * MIB,
							  .in_place = i % 2,
							  .busbw_GBps = healthy[r]};
		f->runs[r] = (struct bb_fleet_run){names[r], c};
	}
}

static int judge(struct fleet *f, size_t n)
{
	struct bb_strbuf out = {0};
	const int slow = bb_fleet_judge(f->runs, n, &out);

	snprintf(f->text, sizeof(f->text), "%s", bb_strbuf_text(&out));
	bb_strbuf_free(&out);
	return slow;
}

static void set_rows(struct fleet *f, int run, int first, int n, double GBps)
{
	for (int i = first; i < first + n; i++)
		f->rows[run][i].busbw_GBps = GBps;
}

static void assert_says(const struct fleet *f, const char *words)
{
	if (!strstr(f->text, words))
		fail_msg("\"%s\" does not contain \"%s\"", f->text, words);
}

static void test_healthy(void **state)
{
	struct fleet f;

	make_fleet(&f);
	assert_int_equal(judge(&f, RUNS), 0);
	assert_says(&f, "9 like runs (all_reduce, 8 ranks on 1 host, H100):");
	assert_says(&f, "None is slower than its equals by more than 5% and four sigma");
	/* Three are too few. */
	assert_int_equal(judge(&f, 3), 0);
	assert_string_equal(f.text, "");
	assert_int_equal(judge(&f, 4), 0);
	assert_says(&f, "4 like runs");
}

/* Half as fast as the others: t = 29.8 with 2.59 degrees, 9 times over. */
static void test_outlier(void **state)
{
	struct fleet f;

	make_fleet(&f);
	set_rows(&f, 8, 0, ROWS, 50);
	assert_int_equal(judge(&f, RUNS), 1);
	assert_says(&f, "Outlier: i (host host8) reaches 50.0% of the median of its equals at ");
	assert_says(&f, ": 50 of 100 GB/s; confidence 99.89%.");
	assert_null(strstr(f.text, "None is slower"));
	/* One fifth slower is beyond four sigma, but its chance is 1.9%. */
	set_rows(&f, 8, 0, ROWS, 80);
	assert_int_equal(judge(&f, RUNS), 0);
	/* Faster is not slow. */
	set_rows(&f, 8, 0, ROWS, 200);
	assert_int_equal(judge(&f, RUNS), 0);
}

/* Without noise the tolerance alone decides: 5%. */
static void test_tolerance(void **state)
{
	struct fleet f;

	make_fleet(&f);
	for (int r = 0; r < RUNS; r++)
		set_rows(&f, r, 0, ROWS, 100);
	set_rows(&f, 4, 0, ROWS, 95.1);
	assert_int_equal(judge(&f, RUNS), 0);
	set_rows(&f, 4, 0, ROWS, 94.9);
	assert_int_equal(judge(&f, RUNS), 1);
	assert_says(&f, "Outlier: e (host host4) reaches 94.9%");
	assert_says(&f, "confidence > 99.99%");
	f.claims[4].hosts = 2;
	assert_int_equal(judge(&f, RUNS), 0);
}

/* A size is slow if both of its placements are, a run if one of its sizes is. */
static void test_rows(void **state)
{
	struct fleet f;

	make_fleet(&f);
	set_rows(&f, 8, 2, 1, 50);
	assert_int_equal(judge(&f, RUNS), 0);
	set_rows(&f, 8, 3, 1, 60);
	assert_int_equal(judge(&f, RUNS), 1);
	assert_says(&f, " at 2M: ");
	/* Rows that only three have show nothing, nor do those without a bandwidth. */
	for (int r = 0; r < 6; r++)
		f.claims[r].n = 2;
	assert_int_equal(judge(&f, RUNS), 0);
	assert_says(&f, "None is slower");
	for (int r = 3; r < 6; r++)
		f.claims[r].n = 0;
	for (int r = 6; r < RUNS; r++)
		set_rows(&f, r, 0, 2, 0);
	assert_int_equal(judge(&f, RUNS), 0);
	assert_says(&f, "Not compared: fewer than 4 have a size in common.");
}

/* Runs of another kind, or with another setting, are no equals: each makes eight of nine. */
static void test_likeness(void **state)
{
	for (int how = 0; how < 9; how++) {
		struct fleet f;
		struct bb_claims *c = &f.claims[2];
		struct bb_fact facts[BB_FACTS] = {{.line = 0}};

		make_fleet(&f);
		if (how == 0)
			strcpy(c->collective, "all_gather");
		else if (how == 1)
			strcpy(c->type, "half");
		else if (how == 2)
			strcpy(c->op, "max");
		else if (how == 3)
			strcpy(c->algorithm, "tree");
		else if (how == 4)
			strcpy(c->gpu, "A100");
		else if (how == 5)
			c->nranks = 4;
		else if (how == 6)
			c->hosts = 2;
		facts[how == 8 ? BB_FACT_CARD : BB_FACT_P2P_OFF].line = 1;
		c->facts = how >= 7 ? facts : NULL;
		assert_int_equal(judge(&f, RUNS), 0);
		assert_says(&f, how == 8 ? "9 like runs" : "8 like runs");
	}
}

/* Two groups are judged apart, each in the place of its first run. */
static void test_groups(void **state)
{
	struct fleet f;

	make_fleet(&f);
	for (int r = 1; r < RUNS; r += 2) {
		f.claims[r].nranks = 1;
		set_rows(&f, r, 0, ROWS, 10);
	}
	set_rows(&f, 0, 0, ROWS, 20);
	assert_int_equal(judge(&f, RUNS), 1);
	assert_says(&f, "5 like runs (all_reduce, 8 ranks");
	assert_says(&f, "4 like runs (all_reduce, 1 rank on");
	assert_true(strstr(f.text, "5 like") < strstr(f.text, "4 like"));
	assert_true(strstr(f.text, "Outlier: a") < strstr(f.text, "4 like"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy),   cmocka_unit_test(test_outlier),
		cmocka_unit_test(test_tolerance), cmocka_unit_test(test_rows),
		cmocka_unit_test(test_likeness),  cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
