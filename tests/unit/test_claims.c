/*
 * What somebody reports of a machine: the reference table, logs of nccl-tests, and the number of
 * ranks that their ratios reveal.
 */
#include "acceptance/claims.h"
#include "acceptance/normal.h"
#include "acceptance/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- references ----------------------------------------------------------------------------- */

static void test_references(void **state)
{
	struct bb_references table;
	const struct bb_reference *row;
	struct bb_error error = {0};
	const uint64_t g8 = UINT64_C(8) << 30;

	assert_int_equal(bb_references_own(&table, &error), BB_OK);
	assert_true(table.n > 400);
	assert_int_equal(bb_references_find(&table, "mle_b200_gpuscan", "all_reduce", g8, 7, -1,
					    &row, &error),
			 BB_OK);
	assert_float_equal(row->busbw_GBps, 811.2, 1e-9);
	assert_int_equal(
		bb_references_find(&table, "nccl1801", "all_reduce", 2 * g8, 12, -1, &row, &error),
		BB_EUSAGE);
	assert_non_null(strstr(error.text, "nccl1801:Ring"));
	assert_int_equal(bb_references_find(&table, "nccl1801:Tree", "all_reduce", 2 * g8, 12, -1,
					    &row, &error),
			 BB_OK);
	assert_string_equal(row->system, "GB200, 3 NVL partitions");
	free(table.rows);
}

/* Each row with both bandwidths has the ratio of its ranks. */
static void test_ratios_of_references(void **state)
{
	static const struct {
		const char *collective;
		double algbw, busbw;
		int64_t ranks;
	} cases[] = {
		{"all_reduce", 195.31, 386.56, 96},
		{"all_reduce", 408.40, 810.41, 128},
		{"all_gather", 347.44, 325.72, 16},
		{"reduce_scatter", 200, 175, 8},
	};

	for (size_t i = 0; i < 4; i++) {
		struct bb_claim row = {.size_bytes = 1 << 30,
				       .time_us = 1,
				       .algbw_GBps = cases[i].algbw,
				       .busbw_GBps = cases[i].busbw};
		struct bb_claims claims = {.rounding = 0.0051, .list = &row, .n = 1};
		int64_t least, most;

		assert_true(bb_claims_ranks(&claims, cases[i].collective, &least, &most));
		assert_true(least <= cases[i].ranks && cases[i].ranks <= most);
	}
}

static void test_ranks_unknown(void **state)
{
	struct bb_claim row = {
		.size_bytes = 1 << 30, .time_us = 1, .algbw_GBps = 100, .busbw_GBps = 100};
	struct bb_claims claims = {.rounding = 0.0051, .list = &row, .n = 1};
	int64_t least, most;

	assert_false(bb_claims_ranks(&claims, "broadcast", &least, &most));
	assert_true(bb_claims_ranks(&claims, "all_reduce", &least, &most));
	assert_int_equal(least, 2);
	assert_int_equal(most, 2);
	row.busbw_GBps = 160; /* of no whole number: 2(n-1)/n = 1.6 is n = 5, 1.61 none */
	assert_true(bb_claims_ranks(&claims, "all_reduce", &least, &most));
	assert_int_equal(least, 5);
	row.busbw_GBps = 161;
	assert_false(bb_claims_ranks(&claims, "all_reduce", &least, &most));
	assert_true(least > most);
}

/* 2(n-1)/n stays below 2 and (n-1)/n below 1, however many ranks there are; broadcast's is 1. */
static void test_ranks_of_none(void **state)
{
	static const struct {
		const char *collective;
		double busbw;
		bool impossible;
	} cases[] = {{"all_reduce", 250, true},  {"all_reduce", 200.02, true},
		     {"all_reduce", 200, false}, {"all_gather", 175, true},
		     {"alltoall", 100, false},   {"broadcast", 250, true},
		     {"broadcast", 100, false},  {"reduce", 50, true},
		     {"nobody_knows", 50, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_claim row = {.size_bytes = 1 << 30,
				       .time_us = 1,
				       .algbw_GBps = 100,
				       .busbw_GBps = cases[i].busbw};
		struct bb_claims claims = {.rounding = 0.0051, .list = &row, .n = 1};
		int64_t least, most;

		if (bb_claims_ranks(&claims, cases[i].collective, &least, &most))
			assert_false(cases[i].impossible);
		else
			assert_int_equal(least != 1 || most != 0, cases[i].impossible);
	}
}

/* ---- logs ----------------------------------------------------------------------------------- */

static void test_logs(void **state)
{
	static const char log[] =
		"# Collective test starting: all_gather_perf\n"
		"#  Rank  0 Group  0 Pid 1 on  n1 device  0 [0000:1b:00] NVIDIA A100-SXM4-40GB\n"
		"#  Rank  1 Group  0 Pid 1 on  n2 device  0 [0000:1b:00] NVIDIA A100-SXM4-40GB\n"
		"# Algorithm: ring\n"
		"12:00:01 [1,0]<stdout>:1048576 131072 float none -1 10 104.86 52.43 0 20 52.43 "
		"26.21 N/A\n"
		"1048576 131072 float none -1 10 99.0 52.43 0 20 52.43 26.21 0\r\n"
		"no row: 1 2 3 4 5 6 7 8 9 10 11 12 13\n"
		"# Algorithm: tree\n"
		"1048576 131072 float none -1 10 104.86 52.43 0 1 1 1 1 20 52.43 26.21 0 1 1 1 1\n";
	struct bb_claim_file file;
	struct bb_error error = {0};

	assert_int_equal(bb_claims_read("log", log, strlen(log), &file, &error), BB_OK);
	assert_int_equal(file.n, 2);
	assert_string_equal(file.list[0].collective, "all_gather");
	assert_string_equal(file.list[0].algorithm, "ring");
	assert_string_equal(file.list[0].gpu, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(file.list[0].nranks, 2);
	assert_int_equal(file.list[0].hosts, 2);
	assert_int_equal(file.list[0].n, 3);
	assert_int_equal(file.list[0].implausible, 1);
	assert_int_equal(file.list[0].wrong, 0);
	assert_int_equal(file.list[0].unchecked, 1);
	assert_int_equal(file.list[0].list[0].line, 5);
	assert_true(file.list[0].list[1].in_place);
	assert_string_equal(file.list[1].algorithm, "tree");
	assert_int_equal(file.list[1].n, 2);
	bb_claims_free(&file);
}

/* #wrong of logs and of records; old logs have an error there, which is none. */
static void test_wrong_claims(void **state)
{
	static const char log[] =
		"1048576 131072 float none -1 10 104.86 52.43 5 20 52.43 26.21 1e+06\n"
		"1048576 131072 float none -1 10 104.86 52.43 2e-07 20 52.43 26.21 N/A\n";
	static const char records[] =
		"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"ranks\":[{\"rank\":0,\"host\":"
		"\"h0\"},"
		"{\"rank\":1,\"host\":\"h1\"}]}\n"
		"{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\",\"nranks\":2,"
		"\"size_bytes\":1024,\"time_us\":1,\"algbw_GBps\":1,\"busbw_GBps\":1,\"wrong\":3}\n"
		"{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\",\"nranks\":2,"
		"\"size_bytes\":1024,\"time_us\":1,\"algbw_GBps\":1,\"busbw_GBps\":1,"
		"\"wrong\":null}\n";
	const char *const texts[] = {log, records};

	for (size_t i = 0; i < 2; i++) {
		const struct bb_circumstances said = {.gpu = NULL};
		const struct bb_references none = {.n = 0};
		enum bb_normality verdict;
		struct bb_strbuf out = {0};
		struct bb_claim_file file;
		struct bb_error error = {0};

		assert_int_equal(bb_claims_read("f", texts[i], strlen(texts[i]), &file, &error),
				 BB_OK);
		assert_int_equal(file.n, 1);
		assert_int_equal(file.list[0].wrong, i == 0 ? 2 : 1);
		assert_int_equal(file.list[0].unchecked, 1);
		assert_int_equal(bb_normal(&file.list[0], &none, &said, &verdict, &out, &error),
				 BB_OK);
		assert_int_equal(verdict, BB_WRONG);
		bb_strbuf_free(&out);
		bb_claims_free(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_references),    cmocka_unit_test(test_ratios_of_references),
		cmocka_unit_test(test_ranks_unknown), cmocka_unit_test(test_ranks_of_none),
		cmocka_unit_test(test_logs),          cmocka_unit_test(test_wrong_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
