/*
 * What links allow the ranks of a run.
 */
#include "collectives/result.h"
#include "harness/run/link_bound.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MOST 16

struct run {
	struct bb_topology *topology;
	struct bb_rank_info ranks[MOST];
	struct bb_rank_infos infos;
	struct bb_link_bounds link_bounds;
};

/* N ranks on the GPUs of SYSTEM, PER_HOST of them on each host. */
static void open_run(struct run *run, const char *system, int n, int per_host)
{
	struct bb_error error = {0};

	memset(run, 0, sizeof(*run));
	assert_int_equal(bb_topology_system(system, &run->topology, &error), BB_OK);
	for (int r = 0; r < n; r++) {
		const int d = bb_topology_device(run->topology, BB_GPU, r % per_host);
		struct bb_location *at = &run->ranks[r].location;

		run->ranks[r].node = r / per_host;
		snprintf(at->bus, sizeof(at->bus), "%.10s",
			 run->topology->pcis[run->topology->devices[d].pci].id);
	}
	run->infos = (struct bb_rank_infos){run->ranks, (size_t)n};
}

static void close_run(struct run *run)
{
	bb_link_bounds_close(&run->link_bounds);
	bb_topology_free(run->topology);
}

static struct bb_result_record bound(struct run *run, const struct bb_collective *collective,
				     const char *algorithm)
{
	struct bb_result_record result;
	double GBps;

	bb_record_init(&bb_record_result, &result);
	result.time_us = 20;
	GBps = bb_link_bounds_find(&run->link_bounds, collective, algorithm, &result.bound_source);
	if (GBps > 0) {
		result.bound_us = 4500e3 / GBps / 1e3;
		result.percent_of_bound = 100 * result.bound_us / result.time_us;
	}
	return result;
}

static void test_node(void **state)
{
	struct bb_result_record result;
	struct run run;

	open_run(&run, "hgx-h100", 8, 8);
	assert_int_equal(bb_link_bounds_open(&run.link_bounds, run.topology, &run.infos, true),
			 BB_OK);
	result = bound(&run, &bb_all_reduce, "ring:LL");
	assert_true(fabs(result.bound_us - 10) < 1e-6 && fabs(result.percent_of_bound - 50) < 1e-4);
	assert_non_null(strstr(result.bound_source, "18 NVLink4"));
	assert_true(bound(&run, &bb_all_reduce, "busbench:tree").bound_us > 0);
	/* The library may let the switches reduce. */
	assert_true(bound(&run, &bb_all_reduce, "auto").bound_us < 9);
	assert_true(isnan(bound(&run, &bb_all_reduce, "bruck").bound_us));
	assert_true(isnan(bound(&run, &bb_gather, "auto").bound_us));
	close_run(&run);
}

static void test_hosts(void **state)
{
	struct bb_result_record one, two;
	struct run run;

	open_run(&run, "hgx-h100", 16, 8);
	for (int r = 0; r < 16; r++)
		run.ranks[r].group = r / 8;
	assert_int_equal(bb_link_bounds_open(&run.link_bounds, run.topology, &run.infos, true),
			 BB_OK);
	one = bound(&run, &bb_alltoall, "auto");
	close_run(&run);
	open_run(&run, "hgx-h100", 16, 8);
	assert_int_equal(bb_link_bounds_open(&run.link_bounds, run.topology, &run.infos, true),
			 BB_OK);
	two = bound(&run, &bb_alltoall, "auto");
	assert_true(two.bound_us > 2 * one.bound_us); /* over the NICs */
	close_run(&run);
}

static void test_unknown(void **state)
{
	struct run run;

	open_run(&run, "hgx-h100", 8, 8);
	snprintf(run.ranks[3].location.bus, sizeof(run.ranks[3].location.bus), "0000:ff:00");
	assert_int_equal(bb_link_bounds_open(&run.link_bounds, run.topology, &run.infos, true),
			 BB_OK);
	assert_true(isnan(bound(&run, &bb_all_reduce, "ring").bound_us));
	bb_link_bounds_close(&run.link_bounds);
	assert_int_equal(bb_link_bounds_open(&run.link_bounds, NULL, &run.infos, true), BB_OK);
	assert_true(isnan(bound(&run, &bb_all_reduce, "ring").bound_us));
	close_run(&run);
	/* One rank has no links to others. */
	open_run(&run, "hgx-h100", 1, 1);
	assert_int_equal(bb_link_bounds_open(&run.link_bounds, run.topology, &run.infos, true),
			 BB_OK);
	assert_true(isnan(bound(&run, &bb_all_reduce, "ring").bound_us));
	close_run(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
