/*
 * The groups of a split world: each one's own time and bandwidth, and which is behind.
 */
#include "collectives/result.h"
#include "collectives/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static double longest(const double *seconds, int n, int64_t how)
{
	double most = 0;

	for (int i = 0; i < n; i++)
		most = seconds[i] > most ? seconds[i] : most;
	return most;
}

static void put(struct bb_rank_info *infos, int rank, int group, const char *host)
{
	infos[rank].group = group;
	snprintf(infos[rank].location.host, sizeof(infos[rank].location.host), "%s", host);
}

static void test_one_group(void **state)
{
	struct bb_rank_info infos[2] = {0};
	const struct bb_rank_infos ranks = {infos, 2};
	struct bb_result_record result;
	struct bb_strbuf text = {0};
	struct bb_groups *groups;

	bb_record_init(&bb_record_result, &result);
	assert_int_equal(bb_groups_open(&groups, &ranks), BB_OK);
	assert_null(groups);
	bb_groups_add(groups, NULL, NULL, longest, 0, &result);
	assert_int_equal(result.groups.n, 0);
	bb_groups_text(groups, &(struct bb_results){.n = 0}, &text);
	assert_int_equal(text.length, 0);
	free(groups);
}

/* Groups 0 and 5, of two ranks and one; the second takes twice as long for its bytes. */
static void test_two_groups(void **state)
{
	struct bb_rank_info infos[3] = {0};
	const struct bb_rank_infos ranks = {infos, 3};
	const double seconds[] = {1e-3, 4e-3, 2e-3}, bytes[] = {4e6, 2e6, 4e6};
	struct bb_results results = {.n = 0};
	struct bb_result_record result;
	struct bb_strbuf text = {0};
	struct bb_groups *groups;

	put(infos, 0, 0, "h1");
	put(infos, 1, 5, "h2");
	put(infos, 2, 0, "h3");
	bb_record_init(&bb_record_result, &result);
	result.algorithm = "ring";
	result.size_bytes = 1 << 20;
	assert_int_equal(bb_groups_open(&groups, &ranks), BB_OK);
	bb_groups_add(groups, seconds, bytes, longest, 0, &result);
	assert_int_equal(result.groups.n, 2);
	assert_true(result.groups.values[0] == 0 && result.groups.values[1] == 5);
	assert_float_equal(result.group_time_us.values[0], 2000, 1e-6);
	assert_float_equal(result.group_time_us.values[1], 4000, 1e-6);
	assert_float_equal(result.group_busbw_GBps.values[0], 2, 1e-9);
	assert_float_equal(result.group_busbw_GBps.values[1], 0.5, 1e-9);
	/* Two ranks and one do different things. */
	assert_true(result.worst_group == BB_ABSENT);
	assert_int_equal(bb_results_keep(&results, &result), BB_OK);
	bb_groups_text(groups, &results, &text);
	assert_non_null(strstr(bb_strbuf_text(&text), "no two groups have the same size"));
	bb_strbuf_free(&text);
	bb_results_free(&results);
	free(groups);
}

/* More groups than columns: least, median and most stand for them. */
static void test_many_groups(void **state)
{
	struct bb_rank_info infos[20] = {0};
	const struct bb_rank_infos ranks = {infos, 20};
	double seconds[20], bytes[20];
	struct bb_results results = {.n = 0};
	struct bb_result_record result;
	struct bb_strbuf text = {0};
	struct bb_groups *groups;

	for (int r = 0; r < 20; r++) {
		put(infos, r, r, "host");
		seconds[r] = r == 7 ? 2e-3 : 1e-3;
		bytes[r] = 1e6;
	}
	bb_record_init(&bb_record_result, &result);
	result.algorithm = "tree";
	assert_int_equal(bb_groups_open(&groups, &ranks), BB_OK);
	bb_groups_add(groups, seconds, bytes, longest, 0, &result);
	assert_int_equal(result.worst_group, 7);
	assert_int_equal(bb_results_keep(&results, &result), BB_OK);
	bb_groups_text(groups, &results, &text);
	assert_non_null(strstr(bb_strbuf_text(&text), " least median most "));
	assert_non_null(strstr(bb_strbuf_text(&text),
			       "worst group: 7 (ranks 7 on host), at 50% of the median"));
	bb_strbuf_free(&text);
	bb_results_free(&results);
	free(groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_group),
		cmocka_unit_test(test_two_groups),
		cmocka_unit_test(test_many_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
