#include "collectives/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAX_ARGS 32

struct fixture {
	char copy[512];
	char *argv[MAX_ARGS];
	struct bb_options options;
	struct bb_collective_options settings;
	struct bb_plan plan;
	struct bb_error error;
};

/* Take LINE as the options of COLLECTIVE. */
static void read_line(struct fixture *f, const struct bb_collective *collective, const char *line)
{
	static char program[] = "perf";
	const struct bb_benchmark benchmark = bb_collective_benchmark(collective);
	struct bb_environment none = {.nccl_algo = NULL};
	char *word, *rest = NULL;
	int argc = 0;

	memset(f, 0, sizeof(*f));
	assert_true(strlen(line) < sizeof(f->copy));
	memcpy(f->copy, line, strlen(line) + 1);
	f->argv[argc++] = program;
	for (word = strtok_r(f->copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		f->argv[argc++] = word;
	if (bb_options_read(&f->options, &benchmark, &f->settings, argc, f->argv, &none,
			    &f->error) != BB_OK)
		fail_msg("%s", f->error.text);
}

/* The plan that LINE makes for COLLECTIVE on NRANKS ranks with MEMORY bytes. Free F->plan. */
static bb_status make(struct fixture *f, const struct bb_collective *collective, const char *line,
		      int nranks, uint64_t memory)
{
	read_line(f, collective, line);
	f->plan = (struct bb_plan){.options = &f->options,
				   .settings = &f->settings,
				   .collective = collective,
				   .backend = f->options.backend,
				   .natives = f->options.backend->natives,
				   .nranks = nranks,
				   .nroots = nranks,
				   .nlocal = nranks,
				   .memory = memory};
	return bb_plan_make(&f->plan, &f->error);
}

static void test_order(void **state)
{
	static const char *const algorithms[] = {"tree", "ring"};
	static const enum bb_dtype dtypes[] = {BB_INT8, BB_FLOAT};
	static const int ops[] = {BB_SUM, BB_MAX};
	struct fixture f;
	size_t i = 0;

	assert_int_equal(make(&f, &bb_reduce,
			      "--algo tree,ring,tree -d float,int8 -o max,sum -r all -b 16 -e 64",
			      3, UINT64_MAX),
			 BB_OK);
	assert_int_equal(f.plan.ncases, 2 * 2 * 2 * 3 * 3);
	assert_int_equal(f.plan.runnable, f.plan.ncases);
	assert_int_equal(f.plan.nskips, 0);
	for (int a = 0; a < 2; a++) {
		for (int pair = 0; pair < 4; pair++) {
			for (int root = 0; root < 3; root++) {
				for (uint64_t size = 16; size <= 64; size *= 2) {
					const struct bb_case *c = &f.plan.cases[i++];

					assert_string_equal(c->choice->name, algorithms[a]);
					assert_int_equal(c->dtype, dtypes[pair / 2]);
					assert_int_equal(c->op, ops[pair % 2]);
					assert_int_equal(c->root, root);
					assert_int_equal(c->size_bytes, size);
					assert_null(c->skip);
				}
			}
		}
	}
	bb_plan_free(&f.plan);
}

static void test_plain(void **state)
{
	struct fixture f;

	/* No root, no reduction: placeholders, and one case. */
	assert_int_equal(make(&f, &bb_alltoall, "-o all -r all -b 1M -e 1M", 4, UINT64_MAX), BB_OK);
	assert_int_equal(f.plan.ncases, 1);
	assert_int_equal(f.plan.cases[0].op, BB_NO_OP);
	assert_int_equal(f.plan.cases[0].root, BB_NO_ROOT);
	assert_string_equal(f.plan.cases[0].choice->name, "auto");
	assert_null(f.plan.cases[0].choice->schedule);
	assert_null(f.plan.cases[0].choice->native);
	bb_plan_free(&f.plan);
}

static void test_pairs(void **state)
{
	struct fixture f;
	size_t pairs = 0;

	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (int op = 0; op < BB_NOPS; op++)
			pairs += bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype);
	}
	assert_int_equal(make(&f, &bb_all_reduce, "-d all -o all -b 1K -e 1K", 2, UINT64_MAX),
			 BB_OK);
	assert_int_equal(f.plan.ncases, pairs);
	for (size_t i = 0; i < f.plan.ncases; i++)
		assert_true(bb_op_accepts((enum bb_op)f.plan.cases[i].op, f.plan.cases[i].dtype));
	bb_plan_free(&f.plan);
	assert_int_equal(make(&f, &bb_broadcast, "-d all -b 1K -e 1K", 2, UINT64_MAX), BB_OK);
	assert_int_equal(f.plan.ncases, BB_NDTYPES);
	bb_plan_free(&f.plan);
}

/* What was asked for in so many words and does not go together is told; `all` is not. */
static void test_named_pairs(void **state)
{
	struct fixture f;

	assert_int_equal(
		make(&f, &bb_all_reduce, "-d float,int8 -o band,sum -b 1K -e 4K", 2, UINT64_MAX),
		BB_OK);
	assert_int_equal(f.plan.ncases, 3 * 3);
	assert_int_equal(f.plan.nskips, 1);
	assert_string_equal(f.plan.skips[0].reason, "-o band does not take -d float");
	bb_plan_free(&f.plan);
	assert_int_equal(make(&f, &bb_all_reduce, "-d all -o band,sum -b 1K -e 1K", 2, UINT64_MAX),
			 BB_OK);
	assert_int_equal(f.plan.nskips, 0);
	bb_plan_free(&f.plan);
	assert_int_equal(
		make(&f, &bb_broadcast, "-d float,int8 -o band,sum -b 1K -e 1K", 2, UINT64_MAX),
		BB_OK);
	assert_int_equal(f.plan.nskips, 0);
	bb_plan_free(&f.plan);
}

static bool has_choice(const struct bb_plan *plan, const char *name)
{
	int found = 0;

	for (int i = 0; i < plan->nchoices; i++)
		found += strcmp(plan->choices[i].name, name) == 0;
	assert_true(found <= 1);
	return found == 1;
}

static void test_all_algorithms(void **state)
{
	struct fixture f;

	for (int c = 0; bb_collectives[c]; c++) {
		int schedules = 0;

		assert_int_equal(make(&f, bb_collectives[c],
				      "--backend null --algo all -b 4K -e 4K", 8, UINT64_MAX),
				 BB_OK);
		for (int i = 0; bb_algorithms[i]; i++) {
			if (bb_algorithms[i]->collective != bb_collectives[c])
				continue;
			schedules++;
			if (!has_choice(&f.plan, bb_algorithms[i]->name) && f.plan.nskips == 0)
				fail_msg("%s of %s is missing", bb_algorithms[i]->name,
					 bb_collectives[c]->name);
		}
		assert_true(has_choice(&f.plan, "auto"));
		assert_int_equal(f.plan.nchoices + f.plan.nskips, schedules + 1);
		bb_plan_free(&f.plan);
	}
	assert_int_equal(make(&f, &bb_all_reduce, "--algo all -b 4K -e 4K", 8, UINT64_MAX), BB_OK);
	assert_true(has_choice(&f.plan, "direct"));
	bb_plan_free(&f.plan);
}

static const char *only_all_reduce(const struct bb_native *native,
				   const struct bb_collective *collective)
{
	return collective == &bb_all_reduce ? NULL : "the library has it for another collective";
}

/* Twenty of each kind: there is room for as many as a library has. */
#define LIBRARY 41

static void name_natives(struct bb_native natives[LIBRARY + 1], char names[LIBRARY][24])
{
	memset(natives, 0, (LIBRARY + 1) * sizeof(*natives));
	for (int i = 0; i < LIBRARY; i++) {
		snprintf(names[i], 24, i == 0 ? "native" : "native:way_%d", i);
		natives[i].name = names[i];
		if (i % 2)
			natives[i].refuses = only_all_reduce;
	}
}

/* The plan of ALGORITHMS for COLLECTIVE on null as if it had NATIVES. Free F->plan. */
static bb_status make_native(struct fixture *f, const struct bb_collective *collective,
			     const char *algorithms, const struct bb_native *natives)
{
	read_line(f, collective, "--backend null -b 4K -e 4K");
	f->settings.algorithms = algorithms;
	f->plan = (struct bb_plan){.options = &f->options,
				   .settings = &f->settings,
				   .collective = collective,
				   .backend = bb_backend_find("null"),
				   .natives = natives,
				   .nranks = 4,
				   .nroots = 4,
				   .nlocal = 4,
				   .memory = UINT64_MAX};
	return bb_plan_make(&f->plan, &f->error);
}

static void test_natives(void **state)
{
	struct bb_native natives[LIBRARY + 1];
	char names[LIBRARY][24];
	struct fixture f;

	name_natives(natives, names);
	assert_int_equal(make_native(&f, &bb_all_reduce, "all", natives), BB_OK);
	for (int i = 0; i < LIBRARY; i++)
		assert_true(has_choice(&f.plan, names[i]));
	assert_true(has_choice(&f.plan, "ring") && has_choice(&f.plan, "auto"));
	bb_plan_free(&f.plan);

	/* What the library has for others is not part of all, but told of when it was named. */
	assert_int_equal(make_native(&f, &bb_broadcast, "all", natives), BB_OK);
	for (int i = 0; i < LIBRARY; i++)
		assert_int_equal(has_choice(&f.plan, names[i]), i % 2 == 0);
	for (int i = 0; i < f.plan.nskips; i++)
		assert_null(strstr(f.plan.skips[i].algorithm, "native:"));
	bb_plan_free(&f.plan);
	assert_int_equal(
		make_native(&f, &bb_broadcast, "native:way_1,native,native:way_2", natives), BB_OK);
	assert_int_equal(f.plan.nchoices, 2);
	assert_int_equal(f.plan.nskips, 1);
	assert_string_equal(f.plan.skips[0].algorithm, "native:way_1");
	assert_string_equal(f.plan.skips[0].reason, "the library has it for another collective");
	bb_plan_free(&f.plan);

	/* What it does not have at all is a slip of the pen. */
	assert_int_equal(make_native(&f, &bb_broadcast, "native:ywa_12", natives), BB_EUSAGE);
	assert_non_null(strstr(f.error.text, "\"native:ywa_12\"; did you mean \"native:way_12\"?"));
	bb_plan_free(&f.plan);
	assert_int_equal(make_native(&f, &bb_broadcast, "ring,native:zzz", natives), BB_EUSAGE);
	assert_non_null(strstr(f.error.text, "has no algorithm \"native:zzz\" (see --list)"));
	bb_plan_free(&f.plan);
}

static void test_skips(void **state)
{
	struct fixture f;

	/* bruck is an algorithm, but not of this collective: the other one still runs. */
	assert_int_equal(make(&f, &bb_broadcast, "--algo bruck,ring -b 4K -e 4K", 4, UINT64_MAX),
			 BB_OK);
	assert_int_equal(f.plan.nchoices, 1);
	assert_int_equal(f.plan.nskips, 1);
	assert_string_equal(f.plan.skips[0].algorithm, "bruck");
	assert_non_null(strstr(f.plan.skips[0].reason, "not an algorithm"));
	bb_plan_free(&f.plan);
	/* Nothing left: the plan still tells why. */
	assert_int_equal(make(&f, &bb_broadcast, "--algo bruck -b 4K -e 4K", 4, UINT64_MAX),
			 BB_EUNSUPPORTED);
	assert_int_equal(f.plan.nskips, 1);
	assert_non_null(strstr(f.error.text, "bruck"));
	bb_plan_free(&f.plan);
	/* Six is not a power of two. */
	assert_int_equal(make(&f, &bb_hypercube, "-b 4K -e 4K", 6, UINT64_MAX), BB_EUNSUPPORTED);
	assert_non_null(strstr(f.error.text, "hypercube on 6 ranks"));
	assert_int_equal(f.plan.nskips, 1);
	assert_string_equal(f.plan.skips[0].algorithm, "auto");
	assert_non_null(strstr(f.plan.skips[0].reason, "power of two"));
	bb_plan_free(&f.plan);
}

static void test_memory(void **state)
{
	struct fixture f;

	/* All-reduce of 4 ranks: IN and OUT of each, 8 times the size. */
	assert_int_equal(make(&f, &bb_all_reduce, "-b 1M -e 8M", 4, (uint64_t)16 << 20), BB_OK);
	assert_int_equal(f.plan.ncases, 4);
	assert_int_equal(f.plan.runnable, 2);
	assert_int_equal(f.plan.cases[1].memory, 16 << 20);
	assert_null(f.plan.cases[1].skip);
	assert_string_equal(f.plan.cases[2].skip,
			    "needs 0.03 GiB for its buffers, 0.02 GiB are available");
	bb_plan_free(&f.plan);
	assert_int_equal(make(&f, &bb_all_reduce, "-b 64M -e 1024T -f 16", 4, (uint64_t)16 << 20),
			 BB_EUNSUPPORTED);
	assert_int_equal(f.plan.ncases, 7);
	assert_int_equal(f.plan.runnable, 0);
	assert_non_null(strstr(f.error.text, "0.50 GiB"));
	bb_plan_free(&f.plan);
	/* What has no memory of its own has no limit. */
	assert_int_equal(
		make(&f, &bb_all_reduce, "--backend null -b 64M -e 64T -f 16", 4, UINT64_MAX),
		BB_OK);
	assert_int_equal(f.plan.runnable, f.plan.ncases);
	bb_plan_free(&f.plan);
	/* Scatter: the root has all pieces, the others one each. */
	assert_int_equal(make(&f, &bb_scatter, "-b 4096 -e 4096", 4, UINT64_MAX), BB_OK);
	assert_int_equal(f.plan.cases[0].memory, 4096 + 4 * 1024);
	bb_plan_free(&f.plan);
}

static void test_too_many(void **state)
{
	struct fixture f;

	assert_int_equal(make(&f, &bb_all_reduce, "-b 1 -e 1G -i 1", 2, UINT64_MAX), BB_EUSAGE);
	assert_non_null(strstr(f.error.text, "100000 rows"));
	bb_plan_free(&f.plan);
	assert_int_equal(make(&f, &bb_broadcast, "-b 1 -e 1000 -i 1 -r all -d all", 64, UINT64_MAX),
			 BB_EUSAGE);
	bb_plan_free(&f.plan);
	assert_int_equal(make(&f, &bb_all_reduce, "-b 1 -e 100000 -i 1 -d int8", 2, UINT64_MAX),
			 BB_OK);
	assert_int_equal(f.plan.ncases, 100000);
	bb_plan_free(&f.plan);
}

/* nccl-tests: a group's size is cut to whole multiples of 16 bytes a rank, others to elements. */
static void test_counts(void **state)
{
	static const struct {
		const struct bb_collective *collective;
		const char *line;
		int nranks;
		size_t count;
		uint64_t size;
	} rows[] = {
		{&bb_all_gather, "-b 1000 -e 1000", 8, 28, 896},
		{&bb_all_gather, "-b 64 -e 64", 8, 0, 0},
		{&bb_alltoall, "-b 1M -e 1M -d int8", 3, 349520, 1048560},
		{&bb_reduce_scatter, "-b 1000 -e 1000 -d double", 4, 30, 960},
		{&bb_all_reduce, "-b 1000 -e 1000", 8, 250, 1000},
		{&bb_all_reduce, "-b 1003 -e 1003", 8, 250, 1000},
		{&bb_broadcast, "-b 3 -e 3", 8, 0, 0},
		{&bb_sendrecv, "-b 1K -e 1K -d half", 8, 512, 1024},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture f;

		assert_int_equal(
			make(&f, rows[i].collective, rows[i].line, rows[i].nranks, UINT64_MAX),
			BB_OK);
		assert_int_equal(f.plan.cases[0].count, rows[i].count);
		assert_int_equal(f.plan.cases[0].size_bytes, rows[i].size);
		bb_plan_free(&f.plan);
	}
}

static void test_matrix(void **state)
{
	static const int ns[] = {1, 2, 3, 5, 8, 17};
	static const size_t counts[] = {0, 1, 7, 4096, (size_t)1 << 40};
	static const double spreads[] = {0, 0.3, 1};
	size_t matrix[17 * 17];

	for (size_t i = 0; i < 6 * 5 * 3; i++) {
		size_t n = (size_t)ns[i % 6], count = counts[i / 6 % 5];
		double spread = spreads[i / 30];

		bb_alltoallv_matrix(matrix, (int)n, count, spread);
		for (size_t a = 0; a < n; a++) {
			size_t sent = 0, received = 0;

			for (size_t b = 0; b < n; b++) {
				sent += matrix[a * n + b];
				received += matrix[b * n + a];
			}
			assert_int_equal(sent, n * count);
			assert_int_equal(received, n * count);
		}
	}
	bb_alltoallv_matrix(matrix, 4, 100, 0);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(matrix[i], 100);
	/* 0 : 1 : 2 : 3, from rank 2 to ranks 2, 3, 0, 1. */
	bb_alltoallv_matrix(matrix, 4, 150, 1);
	assert_int_equal(matrix[2 * 4 + 2], 0);
	assert_int_equal(matrix[2 * 4 + 3], 100);
	assert_int_equal(matrix[2 * 4 + 0], 200);
	assert_int_equal(matrix[2 * 4 + 1], 300);
}

static void test_alltoallv(void **state)
{
	size_t matrix[16];
	struct bb_shape shape;
	struct fixture f;

	assert_int_equal(make(&f, &bb_alltoallv, "-b 4K -e 4K", 4, UINT64_MAX), BB_OK);
	assert_int_equal(f.plan.cases[0].count, 256);
	assert_int_equal(f.plan.cases[0].size_bytes, 4096);
	assert_int_equal(f.plan.cases[0].memory, 4 * 2 * 4096);
	shape = bb_plan_shape(&f.plan, &f.plan.cases[0], f.plan.nranks, true, matrix);
	assert_true(shape.in_place && shape.matrix == matrix && shape.count == 256);
	assert_int_equal(matrix[0] + matrix[1] + matrix[2] + matrix[3], 1024);
	bb_plan_free(&f.plan);
}

static void test_list(void **state)
{
	struct bb_strbuf out = {0};

	bb_algorithms_list(&out);
	for (int i = 0; bb_collectives[i]; i++)
		assert_non_null(strstr(bb_strbuf_text(&out), bb_collectives[i]->name));
	for (int i = 0; i < BB_NDTYPES; i++)
		assert_non_null(strstr(bb_strbuf_text(&out), bb_dtype_name((enum bb_dtype)i)));
	assert_non_null(strstr(bb_strbuf_text(&out), "backend null"));
	bb_strbuf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),    cmocka_unit_test(test_plain),
		cmocka_unit_test(test_pairs),    cmocka_unit_test(test_all_algorithms),
		cmocka_unit_test(test_skips),    cmocka_unit_test(test_memory),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_counts),
		cmocka_unit_test(test_matrix),   cmocka_unit_test(test_alltoallv),
		cmocka_unit_test(test_list),     cmocka_unit_test(test_named_pairs),
		cmocka_unit_test(test_natives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
