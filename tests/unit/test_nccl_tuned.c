/*
 * What NCCL logged of its tuner, and what the model says of the same machines: with
 * NCCL_DEBUG_SUBSYS = TUNING it prints the latency and the rate by which it counts each algorithm
 * and protocol.
 */
#include "nccl_constants_of.h"

#include "simulator/nccl/model.h"

#include <math.h>

/* Latencies in microseconds and rates in GB/s by LL, LL128 and Simple; 0: there is none. */
struct logged {
	int nodes, gpus; /* of each node */
	const struct bb_collective *collective;
	enum bb_nccl_algorithm algorithm;
	double tuner[BB_NCCL_PROTOCOLS][2];
};

/* NCCL 2.27.5 on nodes of H100 with NVSwitch: github.com/meta-pytorch/autoparallel (a54c252),
   autoparallel/cost_models/nccl_cost_model.py, _H100_AGRS_RING, _H100_AR_RING, _H100_AR_TREE and
   _H100_AR_NVLS_TREE. */
static const struct logged h100[] = {
	{2, 1, &bb_all_gather, BB_NCCL_RING, {{11.6, 48.0}, {22.5, 88.3}, {22.4, 96.0}}},
	{2, 2, &bb_all_gather, BB_NCCL_RING, {{11.3, 52.0}, {21.8, 117.8}, {29.2, 128.0}}},
	{2, 4, &bb_all_gather, BB_NCCL_RING, {{15.3, 44.6}, {29.4, 201.9}, {42.8, 219.4}}},
	{2, 8, &bb_all_gather, BB_NCCL_RING, {{23.3, 41.6}, {44.6, 313.2}, {70.0, 409.6}}},
	{4, 1, &bb_all_gather, BB_NCCL_RING, {{21.6, 27.2}, {39.5, 58.9}, {50.4, 64.0}}},
	{4, 2, &bb_all_gather, BB_NCCL_RING, {{18.7, 23.3}, {33.6, 100.9}, {64.0, 109.7}}},
	{4, 4, &bb_all_gather, BB_NCCL_RING, {{26.7, 21.8}, {48.8, 188.4}, {91.2, 204.8}}},
	{4, 8, &bb_all_gather, BB_NCCL_RING, {{42.7, 21.1}, {79.2, 303.1}, {145.6, 396.4}}},
	{8, 1, &bb_all_gather, BB_NCCL_RING, {{41.6, 23.3}, {73.5, 50.5}, {106.4, 54.9}}},
	{8, 2, &bb_all_gather, BB_NCCL_RING, {{33.5, 21.8}, {57.2, 94.2}, {133.6, 102.4}}},
	{8, 4, &bb_all_gather, BB_NCCL_RING, {{49.5, 21.1}, {87.6, 182.3}, {188.0, 198.2}}},
	{8, 8, &bb_all_gather, BB_NCCL_RING, {{81.5, 20.7}, {148.4, 298.3}, {296.8, 390.1}}},
	{16, 1, &bb_all_gather, BB_NCCL_RING, {{81.6, 21.8}, {141.5, 47.1}, {218.4, 51.2}}},
	{16, 2, &bb_all_gather, BB_NCCL_RING, {{63.1, 21.1}, {104.4, 91.2}, {272.8, 99.1}}},
	{16, 4, &bb_all_gather, BB_NCCL_RING, {{95.1, 20.7}, {165.2, 179.4}, {381.6, 195.0}}},
	{16, 8, &bb_all_gather, BB_NCCL_RING, {{159.1, 20.6}, {286.8, 295.9}, {599.2, 387.0}}},
	{32, 1, &bb_all_gather, BB_NCCL_RING, {{161.6, 21.1}, {277.5, 45.6}, {442.4, 49.5}}},
	{32, 2, &bb_all_gather, BB_NCCL_RING, {{122.3, 20.7}, {198.8, 89.7}, {551.2, 97.5}}},
	{32, 4, &bb_all_gather, BB_NCCL_RING, {{186.3, 20.6}, {320.4, 178.0}, {768.8, 193.5}}},
	{32, 8, &bb_all_gather, BB_NCCL_RING, {{314.3, 20.5}, {563.6, 294.8}, {1204.0, 385.5}}},
	{2, 1, &bb_all_reduce, BB_NCCL_RING, {{16.6, 24.0}, {31.0, 44.2}, {36.4, 48.0}}},
	{2, 2, &bb_all_reduce, BB_NCCL_RING, {{16.0, 26.0}, {29.6, 58.9}, {50.0, 64.0}}},
	{2, 4, &bb_all_reduce, BB_NCCL_RING, {{24.0, 22.3}, {44.8, 100.9}, {77.2, 109.7}}},
	{2, 8, &bb_all_reduce, BB_NCCL_RING, {{40.0, 20.8}, {75.2, 156.6}, {131.6, 204.8}}},
	{4, 1, &bb_all_reduce, BB_NCCL_RING, {{36.6, 13.6}, {65.0, 29.4}, {92.4, 32.0}}},
	{4, 2, &bb_all_reduce, BB_NCCL_RING, {{30.8, 11.7}, {53.2, 50.5}, {119.6, 54.9}}},
	{4, 4, &bb_all_reduce, BB_NCCL_RING, {{46.8, 10.9}, {83.6, 94.2}, {174.0, 102.4}}},
	{4, 8, &bb_all_reduce, BB_NCCL_RING, {{78.8, 10.5}, {144.4, 151.5}, {282.8, 198.2}}},
	{8, 1, &bb_all_reduce, BB_NCCL_RING, {{76.6, 11.7}, {133.0, 25.2}, {204.4, 27.4}}},
	{8, 2, &bb_all_reduce, BB_NCCL_RING, {{60.4, 10.9}, {100.4, 47.1}, {258.8, 51.2}}},
	{8, 4, &bb_all_reduce, BB_NCCL_RING, {{92.4, 10.5}, {161.2, 91.2}, {367.6, 99.1}}},
	{8, 8, &bb_all_reduce, BB_NCCL_RING, {{156.4, 10.4}, {282.8, 149.1}, {585.2, 195.0}}},
	{16, 1, &bb_all_reduce, BB_NCCL_RING, {{156.6, 10.9}, {269.0, 23.6}, {428.4, 25.6}}},
	{16, 2, &bb_all_reduce, BB_NCCL_RING, {{119.6, 10.5}, {194.8, 45.6}, {537.2, 49.5}}},
	{16, 4, &bb_all_reduce, BB_NCCL_RING, {{183.6, 10.4}, {316.4, 89.7}, {754.8, 97.5}}},
	{16, 8, &bb_all_reduce, BB_NCCL_RING, {{311.6, 10.3}, {559.6, 148.0}, {1190.0, 193.5}}},
	{32, 1, &bb_all_reduce, BB_NCCL_RING, {{316.6, 10.5}, {541.0, 22.8}, {876.4, 24.8}}},
	{32, 2, &bb_all_reduce, BB_NCCL_RING, {{238.0, 10.4}, {383.6, 44.9}, {1094.0, 48.8}}},
	{32, 4, &bb_all_reduce, BB_NCCL_RING, {{366.0, 10.3}, {626.8, 89.0}, {1529.2, 96.8}}},
	{32, 8, &bb_all_reduce, BB_NCCL_RING, {{622.0, 10.2}, {1113.2, 147.4}, {2399.6, 192.8}}},
	{2, 1, &bb_all_reduce, BB_NCCL_TREE, {{16.8, 9.3}, {31.0, 31.2}, {36.4, 35.2}}},
	{2, 2, &bb_all_reduce, BB_NCCL_TREE, {{18.0, 16.6}, {33.5, 62.4}, {44.4, 70.4}}},
	{2, 4, &bb_all_reduce, BB_NCCL_TREE, {{20.4, 16.6}, {38.5, 124.8}, {60.4, 140.8}}},
	{2, 8, &bb_all_reduce, BB_NCCL_TREE, {{25.2, 16.6}, {48.5, 124.8}, {92.4, 140.8}}},
	{4, 1, &bb_all_reduce, BB_NCCL_TREE, {{26.8, 4.9}, {48.0, 17.6}, {64.4, 18.8}}},
	{4, 2, &bb_all_reduce, BB_NCCL_TREE, {{28.0, 8.7}, {50.5, 35.2}, {72.4, 37.5}}},
	{4, 4, &bb_all_reduce, BB_NCCL_TREE, {{30.4, 8.7}, {55.5, 70.4}, {88.4, 75.1}}},
	{4, 8, &bb_all_reduce, BB_NCCL_TREE, {{35.2, 8.7}, {65.5, 98.6}, {120.4, 122.4}}},
	{8, 1, &bb_all_reduce, BB_NCCL_TREE, {{36.8, 4.9}, {65.0, 17.6}, {92.4, 18.8}}},
	{8, 2, &bb_all_reduce, BB_NCCL_TREE, {{38.0, 8.7}, {67.5, 35.2}, {100.4, 37.5}}},
	{8, 4, &bb_all_reduce, BB_NCCL_TREE, {{40.4, 8.7}, {72.5, 70.4}, {116.4, 75.1}}},
	{8, 8, &bb_all_reduce, BB_NCCL_TREE, {{45.2, 8.7}, {82.5, 98.6}, {148.4, 122.4}}},
	{16, 1, &bb_all_reduce, BB_NCCL_TREE, {{46.8, 4.9}, {82.0, 17.6}, {120.4, 18.8}}},
	{16, 2, &bb_all_reduce, BB_NCCL_TREE, {{48.0, 8.7}, {84.5, 35.2}, {128.4, 37.5}}},
	{16, 4, &bb_all_reduce, BB_NCCL_TREE, {{50.4, 8.7}, {89.5, 70.4}, {144.4, 75.1}}},
	{16, 8, &bb_all_reduce, BB_NCCL_TREE, {{55.2, 8.7}, {99.5, 98.6}, {176.4, 122.4}}},
	{32, 1, &bb_all_reduce, BB_NCCL_TREE, {{56.8, 4.9}, {99.0, 17.6}, {148.4, 18.8}}},
	{32, 2, &bb_all_reduce, BB_NCCL_TREE, {{58.0, 8.7}, {101.5, 35.2}, {156.4, 37.5}}},
	{32, 4, &bb_all_reduce, BB_NCCL_TREE, {{60.4, 8.7}, {106.5, 70.4}, {172.4, 75.1}}},
	{32, 8, &bb_all_reduce, BB_NCCL_TREE, {{65.2, 8.7}, {116.5, 98.6}, {204.4, 122.4}}},
	{2, 4, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {53.0, 160.0}}},
	{2, 8, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {53.0, 266.7}}},
	{4, 4, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {81.0, 80.0}}},
	{4, 8, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {81.0, 160.0}}},
	{8, 4, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {109.0, 80.0}}},
	{8, 8, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {109.0, 160.0}}},
	{16, 4, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {137.0, 80.0}}},
	{16, 8, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {137.0, 160.0}}},
	{32, 4, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {165.0, 80.0}}},
	{32, 8, &bb_all_reduce, BB_NCCL_NVLSTREE, {{0, 0}, {0, 0}, {165.0, 160.0}}},
};

/* GPUS of each node of an HGX H100, whose GPUs have a NIC of 400 Gb/s each. */
static struct bb_nccl_machine hgx_h100(int nodes, int gpus)
{
	return (struct bb_nccl_machine){.ranks = nodes * gpus,
					.nodes = nodes,
					.fewest = gpus,
					.nvlink = true,
					.nvswitch = true,
					.x86 = true,
					.gpu_rate = gpus > 1 ? 370.8e9 : INFINITY,
					.gpu_share = 0.98,
					.rails = gpus,
					.nic_rate = 50e9,
					.net_rate = 48.8e9 * gpus,
					.rank_rate = 48.8e9,
					.rail_rate = 48.8e9};
}

/* NCCL prints one digit after the point. */
static int is_printed_as(double value, double printed)
{
	return fabs(value - printed) <= 0.0501;
}

/* The latency and the rate of PROTOCOL, from two sizes below all that changes with size. */
static int differs(const struct logged *row, enum bb_nccl_protocol protocol,
		   const struct bb_nccl_constants *c)
{
	const struct bb_nccl_machine m = hgx_h100(row->nodes, row->gpus);
	const double *want = row->tuner[protocol];
	const double bytes = 32;
	const double latency =
		time_of(c, &m, BB_NCCL_AS_TUNED, row->collective, row->algorithm, protocol, 0);
	const double time =
		time_of(c, &m, BB_NCCL_AS_TUNED, row->collective, row->algorithm, protocol, bytes);
	const double rate = 1e-9 * bytes / (time - latency);

	if (want[1] == 0)
		return time != INFINITY;
	if (is_printed_as(1e6 * latency, want[0]) && is_printed_as(rate, want[1]))
		return 0;
	print_message("%s, %d nodes of %d, %s:%s: %.2f us and %.2f GB/s, NCCL %.1f and %.1f\n",
		      row->collective->name, row->nodes, row->gpus,
		      bb_nccl_algorithm_name(row->algorithm), bb_nccl_protocol_name(protocol),
		      1e6 * latency, rate, want[0], want[1]);
	return 1;
}

static void test_logged(void **state)
{
	const struct bb_nccl_constants c = constants_of(90, "2.20 to 2.27");
	int different = 0;

	for (size_t i = 0; i < sizeof(h100) / sizeof(h100[0]); i++)
		for (int p = 0; p < BB_NCCL_PROTOCOLS; p++)
			different += differs(&h100[i], (enum bb_nccl_protocol)p, &c);
	assert_int_equal(different, 0);
}

/* Lines "Pattern P, nChannels N, bw INSIDE/BETWEEN" of NCCL's logs: 8 H100 of one node
   (NVIDIA/nccl, issue 1197), and two of each node with NICs of 400 Gb/s (issue 1189). */
static void test_channels_logged(void **state)
{
	const struct bb_nccl_constants c = constants_of(90, "2.30.7");
	const struct bb_nccl_machine one = hgx_h100(1, 8), two = hgx_h100(2, 2);
	const struct bb_nccl_channels rings = bb_nccl_search_rings(&c, &one);
	const struct bb_nccl_channels trees = bb_nccl_search_trees(&c, &one, &rings);
	const struct bb_nccl_channels heads = bb_nccl_search_heads(&c, &one);
	const struct bb_nccl_channels few = bb_nccl_search_rings(&c, &two);

	assert_true(rings.count == 12 && rings.inside == 30e9 && rings.between == 30e9);
	assert_true(trees.count == 12 && trees.inside == 30e9);
	assert_true(heads.count == 8 && heads.inside == 40e9);
	assert_true(few.count == 4 && few.inside == 24e9 && few.between == 24e9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logged),
		cmocka_unit_test(test_channels_logged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
