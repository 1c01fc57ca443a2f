/*
 * The model of NCCL with constants of round numbers: every term of every algorithm's latency and
 * rate, and the channels that its search finds, worked out by hand.
 */
#include "nccl_constants_of.h"

#include "simulator/nccl/model.h"

#include <math.h>
#include <string.h>

#define GB 1e9
#define US 1e-6
#define MEASURED BB_NCCL_AS_MEASURED
#define TUNED BB_NCCL_AS_TUNED

static struct bb_nccl_constants round_numbers(void)
{
	static const double bases[][BB_NCCL_PROTOCOLS] = {
		{100, 200, 300}, {400, 500, 600}, {0, 0, 0}, {0, 0, 0}, {0, 0, 700}};
	static const double hops[][BB_NCCL_ALGORITHMS][BB_NCCL_PROTOCOLS] = {
		{{1, 2, 3}, {4, 5, 6}, {0, 0, 100}, {0, 0, 110}, {0, 0, 0}},
		{{7, 8, 9}, {10, 11, 12}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
		{{20, 30, 40}, {50, 60, 70}, {0, 0, 0}, {0, 0, 80}, {0, 0, 90}}};
	struct bb_nccl_constants c = {
		.ring_plateau = 1.5,
		.ring_plateau_node = 1.4,
		.ring_ll_part = 0.25,
		.ring_ll128_part = 0.9,
		.tree_part = 0.9,
		.tree_ll_part = 0.5,
		.tree_plain_part = 0.85,
		.pat_part = 0.75,
		.pat_hop_part = 0.5,
		.pat_rank = 2 * US,
		.channels_most = 16,
		.channels_double = {INFINITY, INFINITY},
		.channel_rates = {40 * GB, 20 * GB, 10 * GB, 5 * GB},
		.channel_rates_node = {30 * GB, 20 * GB, 10 * GB},
		.nvls_heads = 16,
		.ll_most_node = 12 * GB,
		.ll_most_net = {{9 * GB, 8 * GB}, {7 * GB, 6 * GB}},
		.nvls_share = 0.7,
		.nvls_least = 3,
		.nvlstree_channel = {9 * GB, 5 * GB},
		.ring_ll128_channel = {15 * GB, 8 * GB, 6 * GB},
		.tree_ll128_part = {0.8, 0.7, 0.6},
		.tree_ll128_channel = {1.5 * GB, 3 * GB, 2.5 * GB},
		.tree_channel = {5 * GB, 3.5 * GB, 4.5 * GB},
		.tree_channels = 12,
		.tree_net_more = 4 * US,
		.tree_net_whole = 1e6,
		.ring_simple_hop = 3.5 * US,
		.ring_ll_hop = 1.5 * US,
		.ring_wide_ll_hop = 1.7 * US,
		.ring_pcie_ll_hop = 7.5 * US,
		.ll128_hop_more = 0.25 * US,
		.ring_ll_rate = 14 * GB,
		.ring_wide_ll_rate = 13 * GB,
		.ring_ll128_share = 0.7,
		.ring_operations = 2,
		.ring_gather_channel = 5 * GB,
		.ring_wide_part = 0.5,
		.ring_net_least = {{1.6 * US, 2.1 * US, 3.2 * US}, {1.2 * US, 2.6 * US, 4 * US}},
		.nvls_base = 20 * US,
		.nvls_rate = 200 * GB,
		.nvls_link = 100 * GB,
		.nvls_few = 8,
		.nvls_wide_rate = 150 * GB,
		.nvls_fill = 30 * US,
		.nvls_gpu = 0.5 * US,
		.nvls_gpu_least = 0.2 * US,
		.nvlstree_rate = 180 * GB,
		.fill_most = 1e6,
		.staged_part = 0.5,
		.host_part = 0.6,
		.peers_most = 15 * GB,
		.launch = 50 * US,
	};

	for (int a = 0; a < BB_NCCL_ALGORITHMS; a++)
		for (int p = 0; p < BB_NCCL_PROTOCOLS; p++) {
			c.base[a][p] = bases[a][p] * US;
			for (int h = 0; h < BB_NCCL_HOPS; h++)
				c.hop[h][a][p] = hops[h][a][p] * US;
		}
	/* From 64 bytes on 0.3, 0.32, …: 0.74 at 2^28, of which NCCL uses all but the last. */
	for (int p = 0; p < BB_NCCL_PROTOCOLS; p++)
		for (int size = 0; size < BB_NCCL_TREE_SIZES; size++)
			c.tree_share[p][size] = 0.3 + 0.02 * size + 0.001 * p;
	return c;
}

/* Links of 100 GB/s, of which rings reach 90; NICs of 20, 30 GB/s of each GPU. */
static struct bb_nccl_machine gpus(int nodes, int each)
{
	return (struct bb_nccl_machine){.ranks = nodes * each,
					.nodes = nodes,
					.fewest = each,
					.nvlink = true,
					.nvswitch = true,
					.gpu_rate = 100 * GB,
					.gpu_share = 0.9,
					.rails = each,
					.nic_rate = 20 * GB,
					.net_rate = 30 * GB * each,
					.rank_rate = 30 * GB,
					.rail_rate = 30 * GB};
}

static void near(int line, double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * want))
		fail_msg("line %d: %.12g instead of %.12g", line, got, want);
}
#define NEAR(got, want) near(__LINE__, got, want)

/* The latency is LATENCY in us, and rings move bytes STEPS / n times at BUS in GB/s. */
static void ring(int line, const struct bb_nccl_constants *c, const struct bb_nccl_machine *m,
		 const struct bb_collective *collective, enum bb_nccl_protocol protocol,
		 double latency, double steps, double bus)
{
	const double none = time_of(c, m, MEASURED, collective, BB_NCCL_RING, protocol, 0);
	const double bytes = 0x1p60;
	const double time = time_of(c, m, MEASURED, collective, BB_NCCL_RING, protocol, bytes);

	near(line, none, latency * US);
	near(line, bytes * steps / m->ranks / (time - none), bus * GB);
}
#define RING(...) ring(__LINE__, &c, &m, __VA_ARGS__)

/* In one node. SMs move each byte of n ranks 3n - 2 times in an all_reduce, n - 1 times as often as
   each sends, and 3n - 1 times in an all_gather. */
static void test_rings_of_a_node(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);
	const double all = 90 * 2 * 7 / 22.0, gather = 90 * 2 * 7 / 23.0;

	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 14 * 3.5, 14, all);
	RING(&bb_all_gather, BB_NCCL_SIMPLE, 300 + 7 * 3.5, 7, gather);
	RING(&bb_reduce_scatter, BB_NCCL_SIMPLE, 300 + 7 * 3.5, 7, gather);
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 7 * 3.5, 8, 90);
	RING(&bb_reduce, BB_NCCL_SIMPLE, 300 + 7 * 3.5, 8, 90);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.5, 14, 14);
	RING(&bb_all_reduce, BB_NCCL_LL128, 200 + 14 * 2.25, 14, 0.9 * all);
	/* 5 channels of 15 GB/s, 0.7 of 90 */
	RING(&bb_broadcast, BB_NCCL_LL128, 200 + 7 * 2.25, 8, 63);
	c.ring_ll128_share = 0;
	RING(&bb_broadcast, BB_NCCL_LL128, 200 + 7 * 2.25, 8, 75);
	c.ring_ll_rate = 0;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.5, 14, 12);
	c.ring_ll_part = 0.1;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.5, 14, 0.1 * all);
	c.ring_simple_hop = c.ring_ll_hop = 0;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 14 * 3, 14, all);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1, 14, 0.1 * all);
	/* A node of several. */
	c = round_numbers();
	m.wide = true;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.7, 14, 0.25 * 45);
	c.ring_wide_part = 1;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.7, 14, 13);
	c.ring_wide_ll_rate = 0;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.7, 14, 14);
	c.ring_wide_ll_hop = 0;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 1.5, 14, 14);
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 14 * 3.5, 14, all);
	m.wide = false;
	m.node_fault = 3;
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 7 * 3.5, 8, 30);
	/* Two ranks: 4 operations, and 5. */
	c = round_numbers();
	m = gpus(1, 2);
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 2 * 3.5, 2, 90 * 2 / 4.0);
	RING(&bb_all_gather, BB_NCCL_SIMPLE, 300 + 3.5, 1, 90 * 2 / 5.0);
	/* No operation is faster than it is issued: of four ranks by a process, 200 us. */
	m.process_gpus = 4;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL, 0), 200 * US);
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL, 0), 102 * US);
	m.issue = 250 * US;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL, 0), 250 * US);
}

static void test_rings_over_pcie(void **state)
{
	const struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);

	m.nvlink = m.nvswitch = false;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 14 * 9, 14, 15);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 14 * 7.5, 14, 0.25 * 15);
	assert_true(
		isinf(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL128, 0)));
	m.gpu_rate = 10 * GB;
	RING(&bb_all_gather, BB_NCCL_SIMPLE, 300 + 7 * 9, 7, 9);
	m.through_host = true;
	m.alone_rate = 40 * GB;
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 7 * 9, 8, 9 * 0.6);
	m = gpus(1, 2);
	m.nvlink = false;
	m.through_host = true;
	m.alone_rate = 40 * GB;
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 9, 2, 36);
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 2 * 9, 2, 54);
	m.node_fault = 4;
	RING(&bb_reduce, BB_NCCL_SIMPLE, 300 + 9, 2, 9);
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 2 * 9, 2, 13.5);
}

/* Of 8 ranks of two nodes 2 hops of an all_reduce are over the network, 1 of a broadcast. Four
   channels of 20 GB/s. */
static void test_rings_over_nodes(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(2, 4);
	const double all = 90 * 2 * 7 / 22.0;

	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 40, 14, all);
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 6 * 3.5 + 40, 8, 90);
	RING(&bb_all_gather, BB_NCCL_SIMPLE, 300 + 6 * 3.5 + 40, 7, 4 * 5);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 12 * 1.6 + 2 * 20, 14, 9);
	RING(&bb_all_reduce, BB_NCCL_LL128, 200 + 12 * 2.25 + 2 * 30, 14, 4 * 8);
	m.amd = true;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 4 + 2 * 40, 14, all);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 12 * 1.5 + 2 * 20, 14, 7);
	RING(&bb_reduce_scatter, BB_NCCL_LL128, 200 + 6 * 2.6 + 30, 7, 0.9 * 4 * 5);
	m.amd = false;
	/* A plug-in's latency counts twice by Simple. */
	m.nic_latency = 6 * US;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 52, 14, all);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 12 * 1.6 + 2 * 26, 14, 9);
	m.nic_latency = 0;
	/* The network is the slower: 24 GB/s of a node. */
	m.net_rate = 24 * GB;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 40, 14, 24);
	m.staged = true;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 40, 14, 12);
	m.staged = false;
	m.taper.ring = 3;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 40, 14, 8);
	m.taper.ring = 0.5;
	m.net_fault = 4;
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 40, 14, 6);
	/* Two GPUs on each: their links count, too. */
	m = gpus(2, 2);
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 2 * 3.5 + 40, 4, 60);
	m.net_rate = 120 * GB;
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 2 * 3.5 + 40, 4, 90);
	/* One has none, and the latency of a tree. */
	m = gpus(4, 1);
	m.net_rate = 120 * GB;
	RING(&bb_broadcast, BB_NCCL_SIMPLE, 300 + 3 * 70, 4, 120);
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 6 * 70, 6, 120);
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 6 * 50, 6, 8);
	/* Three nodes have the limit of more than two. */
	m = gpus(3, 4);
	m.net_rate = 50 * GB;
	RING(&bb_all_reduce, BB_NCCL_LL, 100 + 18 * 1.6 + 4 * 20, 22, 8);
	RING(&bb_all_reduce, BB_NCCL_LL128, 200 + 18 * 2.25 + 4 * 30, 22, 4 * 6);
}

/* A path that is slow for bytes and latency: of an all_reduce two hops pass it, else one. */
static void test_slow_paths(void **state)
{
	const struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(2, 4);
	struct bb_nccl_faults f;

	m.net_rate = 24 * GB;
	m.slow_path = (struct bb_nccl_slow_path){.factor = 3, .from = 0, .to = 1};
	f = bb_nccl_faults_of(&m, &bb_all_reduce, BB_NCCL_RING);
	assert_true(f.delay > 0 && f.net > 1);
	RING(&bb_all_reduce, BB_NCCL_SIMPLE, 300 + 12 * 3.5 + 2 * 40 + 2 * f.delay * 40, 14,
	     24 / f.net);
	f = bb_nccl_faults_of(&m, &bb_broadcast, BB_NCCL_RING);
	RING(&bb_broadcast, BB_NCCL_LL, 100 + 6 * 1.6 + 20 + f.delay * 20, 8, 0.25 * 24 / f.net);
	/* A tree crosses up and down; NVLSTree likewise. */
	f = bb_nccl_faults_of(&m, &bb_all_reduce, BB_NCCL_TREE);
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 0),
	     (600 + 2 * (3 * 6 + 70) + 2 * f.delay * 70) * US);
	f = bb_nccl_faults_of(&m, &bb_all_reduce, BB_NCCL_NVLSTREE);
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 0),
	     (20 + 2 * 80 + 2 * f.delay * 80) * US);
	/* The tuner does not know of it. */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 0),
	     (600 + 2 * (3 * 6 + 70)) * US);
}

/* Bytes over twice a tree's BUS in GB/s at sizes beyond the table; MORE of the latency is that of
   large sizes. */
static void tree(int line, const struct bb_nccl_constants *c, const struct bb_nccl_machine *m,
		 enum bb_nccl_protocol protocol, double latency, double more, double bus)
{
	const double none = time_of(c, m, MEASURED, &bb_all_reduce, BB_NCCL_TREE, protocol, 0);
	const double bytes = 0x1p60;
	const double time = time_of(c, m, MEASURED, &bb_all_reduce, BB_NCCL_TREE, protocol, bytes);

	near(line, none, latency * US);
	near(line, 2 * bytes / (time - none - more * US), bus * GB);
}
#define TREE(...) tree(__LINE__, &c, &m, __VA_ARGS__)

static void test_trees(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);

	/* 12 channels of 5 GB/s at most; LL128: of 1.5 */
	TREE(BB_NCCL_SIMPLE, 600 + 14 * 6, 0, 60);
	TREE(BB_NCCL_LL, 400 + 14 * 1.5, 0, 14);
	TREE(BB_NCCL_LL128, 500 + 14 * 5.25, 0, 18);
	c.tree_channels = 2; /* fewer than rings have */
	TREE(BB_NCCL_SIMPLE, 600 + 14 * 6, 0, 25);
	TREE(BB_NCCL_LL128, 500 + 14 * 5.25, 0, 5 * 1.5);
	c.tree_ll128_channel[0] = 50 * GB;
	TREE(BB_NCCL_LL128, 500 + 14 * 5.25, 0, 0.8 * 25);
	c.tree_channel[0] = 50 * GB;
	TREE(BB_NCCL_SIMPLE, 600 + 14 * 6, 0, 0.9 * 90);
	c.tree_ll_part = 0.1;
	TREE(BB_NCCL_LL, 400 + 14 * 1.5, 0, 0.1 * 0.9 * 90);
	/* Over nodes: 12 of 3.5, and of 4.5; one level, and two. */
	c = round_numbers();
	m = gpus(2, 4);
	TREE(BB_NCCL_SIMPLE, 600 + 2 * (3 * 6 + 70), 8, 42);
	m = gpus(3, 4);
	TREE(BB_NCCL_SIMPLE, 600 + 2 * (3 * 6 + 70), 8, 54);
	m = gpus(4, 4);
	TREE(BB_NCCL_LL, 400 + 2 * (3 * 1.5 + 2 * 50), 16, 8);
	m.amd = true;
	TREE(BB_NCCL_LL, 400 + 2 * (3 * 1.5 + 2 * 50), 16, 6);
	TREE(BB_NCCL_LL128, 500 + 2 * (3 * 5.25 + 2 * 60), 16, 12 * 2.5);
	m.nic_latency = 6 * US;
	TREE(BB_NCCL_SIMPLE, 600 + 2 * (3 * 6 + 2 * 82), 16, 54);
	/* Each of two nodes receives and sends half of that of more. */
	m = gpus(2, 4);
	m.net_rate = 12 * GB;
	TREE(BB_NCCL_SIMPLE, 600 + 2 * (3 * 6 + 70), 8, 0.9 * 24);
	TREE(BB_NCCL_LL128, 500 + 2 * (3 * 5.25 + 60), 8, 0.7 * 0.9 * 24);
	m.taper.tree = 2;
	TREE(BB_NCCL_SIMPLE, 600 + 2 * (3 * 6 + 70), 8, 0.9 * 12);
	m = gpus(4, 4);
	m.net_rate = 12 * GB;
	TREE(BB_NCCL_SIMPLE, 600 + 2 * (3 * 6 + 2 * 70), 16, 0.9 * 12);
	/* A tree that is not balanced is slower to the tuner alone. */
	m = gpus(4, 1);
	m.net_rate = 12 * GB;
	TREE(BB_NCCL_SIMPLE, 600 + 2 * 2 * 70, 16, 0.9 * 12);
}

/* Shares of a tree's rate by size: interpolated but for the tuner. */
static void test_tree_sizes(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);
	const double latency = (600 + 14 * 6) * US, rate = 0.5 * 60 * GB;
	static const struct {
		double bytes, measured, tuned;
	} cases[] = {
		{63, 1, 1},
		{64, 0.302, 0.302},
		{64 * 1.41421356237309515, 0.312, 0.302},
		{128, 0.322, 0.322},
		/* The last of 23, and what follows it: 1 */
		{0x1p28, 0.742, 0.742},
		{0x1p28 * 1.41421356237309515, 0.871, 0.742},
		{0x1p29, 1, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE,
			     cases[i].bytes),
		     latency + cases[i].bytes / (rate * cases[i].measured));
		/* 5 channels of 5 GB/s */
		NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE,
			     cases[i].bytes),
		     latency + cases[i].bytes / (0.5 * 25 * GB * cases[i].tuned));
	}
	/* What a hop over the network needs more: half of it at a quarter of the size. */
	m = gpus(4, 4);
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 16),
	     (600 + 2 * (3 * 6 + 2 * (70 + 4 * 0.004))) * US + 16 / (0.5 * 54 * GB));
	m = gpus(2, 4);
	for (int p = 0; p < BB_NCCL_PROTOCOLS; p++)
		c.tree_share[p][11] = c.tree_share[p][12] = c.tree_share[p][13] = 0.5;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 250000),
	     (600 + 2 * (3 * 6 + 70 + 2)) * US + 250000 / (0.5 * 42 * GB * 0.5));
	/* The tuner counts plain trees where each GPU has a NIC of its own. */
	m = gpus(4, 4);
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 16),
	     (600 + 2 * (3 * 6 + 2 * 70)) * US + 16 / (0.5 * 4 * 4.5 * GB));
	m.x86 = true;
	c.tree_plain = 1;
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 16),
	     (600 + 2 * (3 * 6 + 2 * 70)) * US + 16 / (0.85 * 0.5 * 4 * 4.5 * GB));
	m.rails = 3; /* three channels */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 16),
	     (600 + 2 * (3 * 6 + 2 * 70)) * US + 16 / (0.5 * 3 * 4.5 * GB));
}

/* Each GPU moves S + S / n; beyond 8 GPUs each adds to the time to fill the pipeline. */
static void test_switches(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);

	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 4e6),
	     (20 + 30) * US + 4e6 * 9 / 8 / (200 * GB));
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 250000),
	     (20 + 15) * US + 250000.0 * 9 / 8 / (200 * GB));
	m.gpu_rate = 50 * GB;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 4e6),
	     (20 + 30) * US + 4e6 * 9 / 8 / (100 * GB));
	m.gpu_rate = 400 * GB;
	m.node_fault = 8;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 4e6),
	     (20 + 30) * US + 4e6 * 9 / 8 / (100 * GB));
	m = gpus(1, 12);
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 250000),
	     (20 + 4 * 0.2 + (30 + 4 * 0.5) / 2) * US + 250000.0 * 13 / 12 / (150 * GB));
	c.nvls_wide_rate = 0;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 250000),
	     (20 + 15) * US + 250000.0 * 13 / 12 / (200 * GB));
}

/* A GPU moves all bytes and a part of them for each head; the network half of that of two nodes for
   each direction. */
static void test_switches_over_nodes(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(2, 4);

	m.net_fill = 60 * US;
	m.net_rate = 500 * GB;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (20 + 2 * 84 + 60) * US + 4e6 / (180 / 1.25 * GB));
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 250000),
	     (20 + 2 * 82 + 30) * US + 250000 / (180 / 1.25 * GB));
	m.rails = 2;
	m.nic_latency = 5 * US;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (20 + 2 * 94 + 60) * US + 4e6 / (180 / 1.5 * GB));
	m = gpus(2, 4);
	m.net_rate = 40 * GB;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (20 + 2 * 84) * US + 4e6 / (40 * GB));
	m.taper.tree = 2;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (20 + 2 * 84) * US + 4e6 / (20 * GB));
	m = gpus(8, 4);
	m.net_rate = 40 * GB;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (20 + 2 * 3 * 84) * US + 4e6 / (20 * GB));
}

/* As the tuner counts NVLS: heads of the rate for which each GPU has links one more time. */
static void test_switches_tuned(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);

	/* 8 heads of 10 GB/s: (8 + 1) * 10 <= 100. */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 4e6),
	     100 * US + 4e6 / (8 * 20 * 0.7 * 7 / 8 * 8 / 14 * GB));
	c.nvls_part = 0.6;
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLS, BB_NCCL_SIMPLE, 4e6),
	     100 * US + 4e6 / (0.6 * 8 * 10 * GB));
	/* Over nodes 4 heads of 20 GB/s, with NICs of 20; over two nodes they count twice. */
	m = gpus(2, 4);
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (110 + 2 * 80) * US + 4e6 / (0.6 * 4 * 20 * GB));
	m = gpus(4, 4);
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (110 + 4 * 80) * US + 4e6 / (0.6 * 4 * 10 * GB));
	c.nvls_part = 0;
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (110 + 4 * 80) * US + 4e6 / (4 * 5 * 16.0 / 30 * GB));
	c.nvlstree_channel[1] = 100 * GB;
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (110 + 4 * 80) * US + 4e6 / (4 * 20 * 16.0 / 30 * GB));
	m.nic_rate = 40 * GB; /* then 40 between, and 2 * 20 * 0.7 * 3/4 within */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (110 + 4 * 80) * US + 4e6 / (4 * 21 * 16.0 / 30 * GB));
	m = gpus(2, 4);
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 4e6),
	     (110 + 2 * 80) * US + 4e6 / (4 * 9 * 8.0 / 14 * GB));
	/* On CPUs of x86 it has a tree's share: 0.3 + 0.02 * 14 + 0.002 at 2^20. */
	m.x86 = true;
	c.nvlstree_by_size = 1;
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 0x1p20),
	     (110 + 2 * 80) * US + 0x1p20 / (4 * 9 * 8.0 / 14 * 0.582 * GB));
	/* The last of 24 sizes, too. */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, 0x1p29),
	     (110 + 2 * 80) * US + 0x1p29 / (4 * 9 * 8.0 / 14 * 0.762 * GB));
}

static void test_pat(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(8, 1);

	m.net_rate = 12 * GB;
	m.nvlink = false; /* peers do not count between nodes */
	for (int i = 0; i < 2; i++) {
		const struct bb_collective *const of = i ? &bb_reduce_scatter : &bb_all_gather;

		/* One GPU on a node has a tree's latency. */
		NEAR(time_of(&c, &m, MEASURED, of, BB_NCCL_PAT, BB_NCCL_SIMPLE, 4e6),
		     (700 + 3 * 70 * 0.5 + 8 * 2) * US + 4e6 * 7 / 8 / (0.75 * 12 * GB));
		NEAR(time_of(&c, &m, TUNED, of, BB_NCCL_PAT, BB_NCCL_SIMPLE, 4e6),
		     (700 + 3 * 70 * 0.5 + 8 * 2) * US + 4e6 / (0.75 * 20 * GB));
	}
	m.taper.pat = 2;
	NEAR(time_of(&c, &m, MEASURED, &bb_all_gather, BB_NCCL_PAT, BB_NCCL_SIMPLE, 4e6),
	     (700 + 3 * 70 * 0.5 + 8 * 2) * US + 4e6 * 7 / 8 / (0.75 * 6 * GB));
	/* Over two nodes the tuner counts the rate within a node, of 40 GB/s. */
	m = gpus(2, 1);
	NEAR(time_of(&c, &m, TUNED, &bb_all_gather, BB_NCCL_PAT, BB_NCCL_SIMPLE, 4e6),
	     (700 + 70 * 0.5 + 2 * 2) * US + 4e6 / (0.75 * 40 * GB));
	c.pat_two_between = 1;
	NEAR(time_of(&c, &m, TUNED, &bb_all_gather, BB_NCCL_PAT, BB_NCCL_SIMPLE, 4e6),
	     (700 + 70 * 0.5 + 2 * 2) * US + 4e6 / (0.75 * 20 * GB));
}

/* The tuner's rings: a plateau of the latency from 64 bytes of a channel's part on. */
static void test_rings_tuned(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(2, 4);
	const double all = (300 + 12 * 3.2 + 2 * 40) * US, gather = (300 + 6 * 3.2 + 40) * US;
	/* 4 channels, 8 ranks: 64 * 2 * 4 * 8. */
	const double least = 4096;

	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, least),
	     1.5 * all + least * 14 / 8 / (80 * GB));
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, least - 1),
	     all + (least - 1) * 14 / 8 / (80 * GB));
	NEAR(time_of(&c, &m, TUNED, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE, 0x1p20),
	     gather + 0x1p20 * 7 / 8 / (80 * GB));
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL, 0x1p20),
	     (100 + 12 * 1.6 + 2 * 20) * US + 0x1p20 * 14 / 8 / (9 * GB));
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL128, 0x1p20),
	     (200 + 12 * 2.1 + 2 * 30) * US + 0x1p20 * 14 / 8 / (32 * GB));
	/* A chain has one hop if all channels pass the GPUs in one order, else one for each rank,
	   by Simple with a tree's latency. */
	NEAR(time_of(&c, &m, TUNED, &bb_broadcast, BB_NCCL_RING, BB_NCCL_SIMPLE, 0),
	     (300 + 8 * 70) * US);
	NEAR(time_of(&c, &m, TUNED, &bb_broadcast, BB_NCCL_RING, BB_NCCL_LL, 0),
	     (100 + 8 * 20) * US);
	m.rails = 1;
	NEAR(time_of(&c, &m, TUNED, &bb_broadcast, BB_NCCL_RING, BB_NCCL_SIMPLE, 0),
	     (300 + 40) * US);
	m = gpus(1, 8);
	NEAR(time_of(&c, &m, TUNED, &bb_reduce, BB_NCCL_RING, BB_NCCL_LL, 0), (100 + 1) * US);
	m.wide = true; /* that is of measurements */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL, 4e6),
	     (100 + 14) * US + 4e6 * 14 / 8 / (12 * GB));
	m.nvlink = false;
	NEAR(time_of(&c, &m, TUNED, &bb_reduce, BB_NCCL_RING, BB_NCCL_LL, 0), (100 + 7) * US);
	/* In one node over PCIe there is no plateau; nor where the factor is 1 or less. */
	NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, 0x1p20),
	     (300 + 14 * 9) * US + 0x1p20 * 14 / 8 / (100 * GB));
	m.nvlink = true;
	m.wide = false;
	for (int i = 0; i < 3; i++) {
		c.ring_plateau_node = 0.5 * i;
		NEAR(time_of(&c, &m, TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, 0x1p20),
		     (300 + 14 * 3) * US + 0x1p20 * 14 / 8 / (100 * GB));
	}
	c.ring_plateau_node = 1.4;
	NEAR(time_of(&c, &m, TUNED, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE, 0x1p20),
	     (1 + 0.4 * (1 - pow(0.25, 6))) * (300 + 7 * 3) * US + 0x1p20 * 7 / 8 / (100 * GB));
}

static void channels(int line, struct bb_nccl_channels got, double count, double inside,
		     double between)
{
	if (got.count != count || got.inside != inside * GB || got.between != between * GB)
		fail_msg("line %d: %g of %g and %g GB/s", line, got.count, got.inside / GB,
			 got.between / GB);
}
#define CHANNELS(got, ...) channels(__LINE__, got, __VA_ARGS__)

/* Rates are tried downwards while they could be better. */
static void test_searches(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 8);
	struct bb_nccl_channels rings = bb_nccl_search_rings(&c, &m);

	/* 3 of 30 GB/s are less than 5 of 20. */
	CHANNELS(rings, 5, 20, 20);
	CHANNELS(bb_nccl_search_trees(&c, &m, &rings), 5, 20, 20);
	CHANNELS(bb_nccl_search_heads(&c, &m), 8, 10, 10);
	/* 3 of 30 are more than 4 of 20; trees of 3 channels, which do not return, have links for
	   3 * 8/7. */
	m.gpu_rate = 95 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 3, 30, 30);
	m.gpu_rate = 90 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 3, 30, 30);
	CHANNELS(bb_nccl_search_heads(&c, &m), 8, 10, 10);
	m.gpu_rate = 89 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 4, 20, 20);
	m.gpu_rate = 15 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 1, 10, 10);
	CHANNELS(bb_nccl_search_heads(&c, &m), 0, 0, 0);
	m.gpu_rate = 9 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 1, 0.1, 0.1);
	m.gpu_rate = 1000 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 16, 30, 30);
	CHANNELS(bb_nccl_search_heads(&c, &m), 8, 30, 30);
	c.nvls_heads = 4;
	CHANNELS(bb_nccl_search_heads(&c, &m), 4, 30, 30);
	/* Channels double up to the most, where they are fast enough: at least 25 GB/s for more
	   than four. */
	c = round_numbers();
	m.gpu_rate = 270 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 9, 30, 30);
	c.channels_double[1] = 30 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 16, 15, 15);
	c.channels_most = 20;
	CHANNELS(bb_nccl_search_rings(&c, &m), 18, 15, 15);
	c.channels_double[1] = 31 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 9, 30, 30);
	m.gpu_rate = 120 * GB;
	c.channels_double[0] = 30 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 8, 15, 15);
	c.channels_double[0] = INFINITY;
	c.channels_double[1] = 30 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 4, 30, 30);
	m.gpu_rate = 150 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 10, 15, 15);
}

static void test_searches_over_nodes(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(2, 4);
	struct bb_nccl_channels rings = bb_nccl_search_rings(&c, &m);

	/* NICs of 20 GB/s, and links for 5 * 4/3 channels. */
	CHANNELS(rings, 4, 20, 20);
	/* Within a node 40: two such channels of 100 GB/s with links for 2 * 4/3 are too few. */
	CHANNELS(bb_nccl_search_trees(&c, &m, &rings), 4, 20, 20);
	m.gpu_rate = 170 * GB; /* 4 * 4/3 */
	CHANNELS(bb_nccl_search_trees(&c, &m, &rings), 4, 40, 20);
	CHANNELS(bb_nccl_search_heads(&c, &m), 4, 20, 20);
	/* A NIC of 41 carries one channel of 40 GB/s; or two of 20. */
	m.nic_rate = 41 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 4, 40, 40);
	CHANNELS(bb_nccl_search_heads(&c, &m), 4, 20, 40);
	m.gpu_rate = 220 * GB;
	CHANNELS(bb_nccl_search_heads(&c, &m), 4, 40, 40);
	/* As many heads as NICs. */
	m.rails = 3;
	CHANNELS(bb_nccl_search_heads(&c, &m), 3, 40, 40);
	m.gpu_rate = 100 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 6, 20, 20);
	/* Six of 20 GB/s use all links, so that thirteen of 10 are not tried. */
	m = gpus(2, 4);
	m.nic_rate = 200 * GB;
	CHANNELS(bb_nccl_search_rings(&c, &m), 6, 20, 20);
	/* Between nodes a head has up to twice its rate within one. */
	m.gpu_rate = 60 * GB;
	CHANNELS(bb_nccl_search_heads(&c, &m), 4, 10, 20);
	m.rails = 3;
	/* A NIC too slow for any. */
	m.nic_rate = 4 * GB;
	rings = bb_nccl_search_rings(&c, &m);
	CHANNELS(rings, 1, 0.1, 0.1);
	CHANNELS(bb_nccl_search_heads(&c, &m), 0, 0, 0);
	/* One GPU on a node has no links: 4 of 10 GB/s are as much as 2 of 20. */
	m = gpus(4, 1);
	m.nic_rate = 25 * GB;
	m.rails = 2;
	rings = bb_nccl_search_rings(&c, &m);
	CHANNELS(rings, 2, 20, 20);
	CHANNELS(bb_nccl_search_trees(&c, &m, &rings), 2, 40, 20);
	/* 5 of 5 GB/s, whose rate is not half of 20 but a quarter, are not tried. */
	c.channels_most = 20;
	m.rails = 1;
	CHANNELS(bb_nccl_search_rings(&c, &m), 1, 20, 20);
	m.nic_rate = 19 * GB; /* 1 of 10; 3 of 5 are more */
	CHANNELS(bb_nccl_search_rings(&c, &m), 3, 5, 5);
	/* Slow rings have trees of the rate for which there are NICs. */
	rings = (struct bb_nccl_channels){2, 5 * GB, 5 * GB};
	m = gpus(2, 4);
	CHANNELS(bb_nccl_search_trees(&c, &m, &rings), 2, 40, 20);
}

/* ---- names and limits ------------------------------------------------------------------------ */

static void test_names(void **state)
{
	static const struct {
		const char *name;
		bool known;
		int algorithm, protocol; /* -1: does not matter */
	} cases[] = {
		{"ring", true, BB_NCCL_RING, BB_NCCL_ANY_PROTOCOL},
		{"tree:LL", true, BB_NCCL_TREE, BB_NCCL_LL},
		{"nvls:Simple", true, BB_NCCL_NVLS, BB_NCCL_SIMPLE},
		{"nvlstree", true, BB_NCCL_NVLSTREE, BB_NCCL_ANY_PROTOCOL},
		{"pat:LL128", true, BB_NCCL_PAT, BB_NCCL_LL128},
		{"auto", true, BB_NCCL_ANY, BB_NCCL_ANY_PROTOCOL},
		{"auto:LL", true, BB_NCCL_ANY, BB_NCCL_LL},
		{"", true, BB_NCCL_ANY, BB_NCCL_ANY_PROTOCOL},
		{":Simple", true, BB_NCCL_ANY, BB_NCCL_SIMPLE},
		{"ring:", false, -1, -1},
		{"ring:ll", false, -1, -1},
		{"rin", false, -1, -1},
		{"rings", false, -1, -1},
		{"nvlst", false, -1, -1},
		{"aut", false, -1, -1},
		{"butt", false, -1, -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum bb_nccl_algorithm algorithm;
		enum bb_nccl_protocol protocol;

		if (bb_nccl_named(cases[i].name, &algorithm, &protocol) != cases[i].known)
			fail_msg("%s", cases[i].name);
		if (cases[i].known) {
			assert_int_equal(algorithm, cases[i].algorithm);
			assert_int_equal(protocol, cases[i].protocol);
		}
	}
	assert_string_equal(bb_nccl_algorithm_name(BB_NCCL_NVLSTREE), "nvlstree");
	assert_string_equal(bb_nccl_protocol_name(BB_NCCL_LL128), "LL128");
}

/* Which algorithm runs on which machine, and for which collective; columns are ring, tree, nvls,
   nvlstree, pat and any. */
static void test_limits(void **state)
{
	const struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_constants none = c;
	struct bb_nccl_machine m[] = {gpus(1, 8), gpus(1, 8), gpus(1, 8), gpus(1, 2),
				      gpus(1, 3), gpus(2, 4), gpus(2, 4), gpus(2, 4),
				      gpus(2, 1), gpus(1, 1), gpus(3, 4)};
	static const char *const runs[] = {"111001", "110001", "110001", "110001",
					   "111001", "110101", "110001", "110101",
					   "110011", "110011", "000000"};
	static const struct {
		const struct bb_collective *collective;
		const char *has;
	} collectives[] = {{&bb_all_reduce, "111101"},     {&bb_all_gather, "100011"},
			   {&bb_reduce_scatter, "100011"}, {&bb_broadcast, "100001"},
			   {&bb_reduce, "100001"},         {&bb_alltoall, "000000"},
			   {&bb_gather, "000000"},         {&bb_sendrecv, "000000"}};

	none.nvls_share = 0;
	m[1].nvswitch = false;
	m[2].nvls_off = true;
	m[6].rails = 1;
	m[7].rails = 2;
	m[10].unknown = "why";
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		for (int a = 0; a <= BB_NCCL_ANY; a++) {
			if ((bb_nccl_unfit(&c, &m[i], a) == NULL) != (runs[i][a] == '1'))
				fail_msg("%zu, %s", i, bb_nccl_algorithm_name(a));
			if (i == 0)
				assert_int_equal(bb_nccl_unfit(&none, m, a) == NULL,
						 runs[1][a] == '1');
		}
	assert_string_equal(bb_nccl_unfit(&c, &m[10], BB_NCCL_ANY), "why");
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++)
		for (int a = 0; a <= BB_NCCL_ANY; a++)
			if ((bb_nccl_lacks(collectives[i].collective, a) == NULL) !=
			    (collectives[i].has[a] == '1'))
				fail_msg("%s, %s", collectives[i].collective->name,
					 bb_nccl_algorithm_name(a));
}

/* LL128 needs NVLinks, or one GPU on a node near its NIC, and no detour through the host. */
static void test_protocols(void **state)
{
	static const struct {
		int nodes, each;
		bool nvlink, near, staged, has;
	} cases[] = {
		{1, 8, true, false, false, true},  {1, 8, false, false, false, false},
		{1, 8, false, true, false, false}, {1, 8, true, false, true, true},
		{2, 4, true, false, false, true},  {2, 4, true, false, true, false},
		{2, 1, false, true, false, true},  {2, 1, false, false, false, false},
		{2, 1, false, true, true, false},  {2, 4, false, true, false, false},
	};
	const struct bb_nccl_constants c = round_numbers();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_machine m = gpus(cases[i].nodes, cases[i].each);

		m.nvlink = cases[i].nvlink;
		m.near_nics = cases[i].near;
		m.staged = cases[i].staged;
		for (int tree = 0; tree < 2; tree++)
			for (int p = 0; p < BB_NCCL_PROTOCOLS; p++)
				if (isfinite(time_of(&c, &m, MEASURED, &bb_all_reduce,
						     tree ? BB_NCCL_TREE : BB_NCCL_RING, p, 8)) !=
				    (p != BB_NCCL_LL128 || cases[i].has))
					fail_msg("%zu, %d", i, p);
	}
	/* Others have Simple alone. */
	for (int p = 0; p < BB_NCCL_PROTOCOLS; p++) {
		const struct bb_nccl_machine one = gpus(1, 8), lone = gpus(4, 1);

		assert_int_equal(isfinite(time_of(&c, &one, MEASURED, &bb_all_reduce, BB_NCCL_NVLS,
						  p, 8)) != 0,
				 p == BB_NCCL_SIMPLE);
		assert_int_equal(isfinite(time_of(&c, &lone, MEASURED, &bb_all_gather, BB_NCCL_PAT,
						  p, 8)) != 0,
				 p == BB_NCCL_SIMPLE);
	}
}

/* The kinds of machines that have intervals in common. */
static void test_kinds(void **state)
{
	static const struct {
		int nodes, each;
		bool nvswitch, wide, nvlink, through_host, staged, some;
		enum bb_nic_kind nics;
		const char *name;
	} cases[] = {
		{1, 8, true, false, true, false, false, false, BB_NICS_OTHER, "switch/all/node"},
		{1, 8, true, true, true, false, false, true, BB_NICS_OTHER, "rack/some/node"},
		{1, 8, false, true, true, true, false, false, BB_NICS_OTHER, "links/all/node"},
		{1, 8, false, false, false, false, false, false, BB_NICS_OTHER, "peers/all/node"},
		{1, 8, false, false, false, true, true, false, BB_NICS_OTHER, "host/all/node"},
		{2, 8, false, false, true, false, false, false, BB_NICS_OTHER, "links/all/other"},
		{2, 8, true, false, true, false, true, false, BB_NICS_INFINIBAND,
		 "switch/all/staged"},
		{2, 8, true, false, true, false, false, false, BB_NICS_INFINIBAND,
		 "switch/all/infiniband"},
		{2, 8, true, false, true, false, false, true, BB_NICS_EFA, "switch/some/efa"},
		{2, 8, true, false, true, false, false, true, BB_NICS_EFA_LATER, "switch/some/efa"},
		/* Of one GPU on each node neither its links count nor idle ones. */
		{2, 1, true, false, true, false, false, true, BB_NICS_OTHER, "lone/all/other"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_machine m = gpus(cases[i].nodes, cases[i].each);
		char name[BB_NCCL_KIND_TEXT];

		m.nvswitch = cases[i].nvswitch;
		m.wide = cases[i].wide;
		m.nvlink = cases[i].nvlink;
		m.through_host = cases[i].through_host;
		m.staged = cases[i].staged;
		m.some_gpus = cases[i].some;
		m.nics = cases[i].nics;
		bb_nccl_kind_name(bb_nccl_kind(&m), name);
		assert_string_equal(name, cases[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings_of_a_node),
		cmocka_unit_test(test_rings_over_pcie),
		cmocka_unit_test(test_rings_over_nodes),
		cmocka_unit_test(test_slow_paths),
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_tree_sizes),
		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_switches_over_nodes),
		cmocka_unit_test(test_switches_tuned),
		cmocka_unit_test(test_pat),
		cmocka_unit_test(test_rings_tuned),
		cmocka_unit_test(test_searches),
		cmocka_unit_test(test_searches_over_nodes),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_protocols),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
