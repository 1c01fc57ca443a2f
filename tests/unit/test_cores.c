/* Messages between CPUs: who copies, who adds, and what memory allows. */
#include "simulator/timeline/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/status.h"

#define PORT 3e-12 /* seconds per byte */
#define HOP 1e-6
#define OVERHEAD 5e-7
#define SELF                                                                                       \
	{                                                                                          \
		0, 0, BB_CLUSTER_SELF                                                              \
	}
#define PAIR                                                                                       \
	{                                                                                          \
		PORT, HOP, BB_CLUSTER_NVLINK                                                       \
	}

/* Four ranks of one package whose memory takes MEMORY seconds per byte; 0: it is not shared. */
static struct bb_fabric cores(double memory)
{
	static const int no_rails[4];
	static const struct bb_fabric_pair pairs[16] = {
		SELF, PAIR, PAIR, PAIR, PAIR, SELF, PAIR, PAIR,
		PAIR, PAIR, SELF, PAIR, PAIR, PAIR, PAIR, SELF,
	};

	return (struct bb_fabric){
		.nodes = 1,
		.per_node = 4,
		.domain = 1,
		.leaf = 1,
		.pod = 1,
		.rail_of = no_rails,
		.pairs = pairs,
		.domain_second_per_byte = PORT,
		.overhead = OVERHEAD,
		.leaf_taper = 1,
		.pod_taper = 1,
		.limits = {{.most = 256, .latency = 1e-6}, {.most = 4096, .latency = 3e-6}},
		.pulls = true,
		.sum_second_per_byte = PORT / 2,
		.packages = 1,
		.memory_second_per_byte = memory,
	};
}

/* Seconds until the last of N ranks is done with ALGORITHM of COUNT elements of 4 bytes. */
static double slowest(const struct bb_fabric *fabric, const struct bb_algorithm *algorithm, int n,
		      size_t count)
{
	const struct bb_link_model links = {.fabric = fabric};
	const struct bb_shape shape = {.nranks = n, .count = count};
	double times[4] = {0}, most = 0;

	assert_int_equal(bb_timeline_collective(&links, algorithm, &shape, 4, 0, times), BB_OK);
	for (int r = 0; r < n; r++)
		most = fmax(most, times[r]);
	return most;
}

/* Beyond 4 KiB the three receivers copy at once; below, the sender copies for each in turn. */
static void test_receivers_copy(void **state)
{
	const struct bb_algorithm *linear = bb_algorithm_find(&bb_broadcast, "linear");
	const struct bb_fabric fabric = cores(0);

	assert_float_equal(slowest(&fabric, linear, 4, 1000),
			   3 * (OVERHEAD + 4000 * PORT) + HOP + 1e-6, 1e-15);
	assert_float_equal(slowest(&fabric, linear, 4, 2000),
			   3 * OVERHEAD + 8000 * PORT + HOP + 4e-6, 1e-15);
}

/* The receiver adds after the copy, and copies the next message after that. */
static void test_receivers_add(void **state)
{
	const struct bb_algorithm *linear = bb_algorithm_find(&bb_reduce, "linear");
	const struct bb_fabric fabric = cores(0);
	const double copy = OVERHEAD + 8000 * PORT, sum = 8000 * PORT / 2;

	assert_float_equal(slowest(&fabric, linear, 2, 2000), HOP + 4e-6 + copy + sum, 1e-15);
	assert_float_equal(slowest(&fabric, linear, 4, 2000), HOP + 4e-6 + 3 * (copy + sum), 1e-15);
}

/* Where memory is short, an addition takes one and a half times as long as the copy. */
static void test_memory_of_additions(void **state)
{
	const struct bb_algorithm *linear = bb_algorithm_find(&bb_reduce, "linear");
	const struct bb_fabric fabric = cores(2 * PORT);

	assert_float_equal(slowest(&fabric, linear, 2, 2000),
			   HOP + 4e-6 + OVERHEAD + 2.5 * 8000 * 2 * PORT, 1e-15);
}

/* Two ranks that send to each other have the work of a fragment twice. */
static void test_swaps(void **state)
{
	const struct bb_algorithm *doubling =
		bb_algorithm_find(&bb_all_reduce, "recursive_doubling");
	const struct bb_fabric fabric = cores(0);

	assert_float_equal(slowest(&fabric, doubling, 2, 64),
			   HOP + OVERHEAD + 256 * (PORT + PORT / 2), 1e-15);
	assert_float_equal(slowest(&fabric, doubling, 2, 65),
			   HOP + OVERHEAD + 2e-6 + 260 * (PORT + PORT / 2), 1e-15);
}

/* All ranks of a package copy their IN at once. */
static void test_copies_before(void **state)
{
	const struct bb_algorithm *ring = bb_algorithm_find(&bb_all_reduce, "ring");
	const struct bb_shape shape = {.nranks = 4, .count = 2000};
	struct bb_fabric fabric = cores(2 * PORT);
	const struct bb_link_model links = {.fabric = &fabric}, none = {.rate = 1e9};

	assert_float_equal(bb_timeline_copy(&links, ring, &shape, 4), 8000 * 4 * 2 * PORT, 1e-15);
	fabric.memory_second_per_byte = 0;
	assert_float_equal(bb_timeline_copy(&links, ring, &shape, 4), 8000 * PORT, 1e-15);
	assert_float_equal(bb_timeline_copy(&none, ring, &shape, 4), 0, 0);
}

/* Children that a rank serves in successive rounds share its memory. */
static void test_children_share_memory(void **state)
{
	const struct bb_fabric fabric = cores(2 * PORT);
	struct bb_algorithm linear = *bb_algorithm_find(&bb_broadcast, "linear");
	const double three = slowest(&fabric, &linear, 4, 2000);

	linear.fan = 1;
	assert_float_equal(three, slowest(&fabric, &linear, 4, 2000) + 8000 * 2 * 2 * PORT, 1e-15);
}

/* Those of other nodes do not: the NIC has their messages one after the other. */
static void test_children_beyond_the_node(void **state)
{
	struct bb_fabric fabric = cores(2 * PORT);
	struct bb_algorithm linear = *bb_algorithm_find(&bb_broadcast, "linear");
	double all;

	fabric.nodes = fabric.per_node = 2;
	fabric.rails = 1;
	fabric.rail_second_per_byte = PORT;
	all = slowest(&fabric, &linear, 4, 2000);
	linear.fan = 1;
	assert_float_equal(all, slowest(&fabric, &linear, 4, 2000), 1e-15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receivers_copy),
		cmocka_unit_test(test_receivers_add),
		cmocka_unit_test(test_memory_of_additions),
		cmocka_unit_test(test_swaps),
		cmocka_unit_test(test_copies_before),
		cmocka_unit_test(test_children_share_memory),
		cmocka_unit_test(test_children_beyond_the_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
