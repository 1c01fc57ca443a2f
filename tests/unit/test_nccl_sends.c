/*
 * NCCL's collectives made of messages, with constants of round numbers: channels, links, networks
 * and latencies, worked out by hand. And what leaves blocks of nodes.
 */
#include "nccl_constants_of.h"

#include "simulator/nccl/model.h"

#include <math.h>

#define GB 1e9
#define US 1e-6

/* A channel moves 2 GB/s. */
static struct bb_nccl_constants round_numbers(void)
{
	struct bb_nccl_constants c = {
		.sm_clock = 1,
		.messages_clock = 2,
		.messages_base = 5 * US,
		.messages_share = 0.8,
		.messages_stage = 0.5,
		.messages_issue = 0.1,
		.messages_net_channel = 1.5 * GB,
		.messages_net_rate = 10 * GB,
		.messages_net_most = 8,
		.messages_channels = 16,
		.messages_batch = 4,
		.messages_ll = 50,
		.messages_chunk = {1000, 500, 200},
		.messages_least = {2, 4, 5},
		.messages_most = {10, 20, 40},
		.host_part = 0.6,
		.staged_part = 0.5,
	};

	c.base[BB_NCCL_RING][BB_NCCL_LL] = 1 * US;
	c.base[BB_NCCL_RING][BB_NCCL_SIMPLE] = 3 * US;
	c.hop[BB_NCCL_OVER_NET][BB_NCCL_RING][BB_NCCL_LL] = 10 * US;
	c.hop[BB_NCCL_OVER_NET][BB_NCCL_RING][BB_NCCL_SIMPLE] = 14 * US;
	return c;
}

static struct bb_nccl_machine gpus(int nodes, int each, double rate)
{
	return (struct bb_nccl_machine){.ranks = nodes * each,
					.nodes = nodes,
					.fewest = each,
					.nvlink = true,
					.gpu_rate = rate * GB,
					.gpu_share = 0.5,
					.rails = each,
					.net_rate = 30 * GB * each,
					.rank_rate = 30 * GB,
					.rail_rate = 20 * GB};
}

static void times(int line, const struct bb_nccl_constants *c, const struct bb_nccl_machine *m,
		  const struct bb_collective *collective, double bytes, double want)
{
	const double got = messages_time_of(c, m, collective, bytes);

	if (!(fabs(got - want * US) <= 1e-9 * want * US))
		fail_msg("line %d: %.12g us instead of %.12g", line, got / US, want);
}
#define TIME(...) times(__LINE__, &c, &m, __VA_ARGS__)

/* Of two ranks a message has up to 8 of 16 channels, one for each 2000 bytes. Simple: 5 + 3 - 1 us.
   A receiver waits for half of the time of the first chunks of 1000 bytes. */
static void test_channels(void **state)
{
	const struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 2, 1000);

	TIME(&bb_sendrecv, 0, 5);
	TIME(&bb_sendrecv, 50, 5 + 1.5 * 100 / 2e3); /* LL */
	TIME(&bb_sendrecv, 51, 7 + 1.5 * 51 / 2e3);
	TIME(&bb_sendrecv, 3000, 7 + (3000 + 0.5 * 2000) / 4e3);
	TIME(&bb_sendrecv, 4000, 7 + (4000 + 0.5 * 2000) / 4e3);
	TIME(&bb_sendrecv, 4001, 7 + (4001 + 0.5 * 3000) / 6e3);
	TIME(&bb_sendrecv, 80000, 7 + (80000 + 0.5 * 8000) / 16e3);
	/* Beyond 10 chunks each it has twice as many. */
	TIME(&bb_sendrecv, 80001, 7 + (80001 + 0.5 * 16000) / 32e3);
	TIME(&bb_sendrecv, 1e6, 7 + (1e6 + 0.5 * 16000) / 32e3);
	m = gpus(1, 3, 1000);
	TIME(&bb_sendrecv, 20000, 7 + (20000 + 0.5 * 4000) / 8e3);
	m = gpus(1, 1, 1000);
	assert_true(messages_time_of(&c, &m, &bb_sendrecv, 8) <= 5 * US);
	/* Four ranks: four channels for each of three messages. */
	m = gpus(1, 4, 1000);
	TIME(&bb_gather, 40000, 7 + 3 * (10000 + 0.5 * 4000) / 24e3);
	TIME(&bb_scatter, 40000, 7 + 3 * (10000 + 0.5 * 4000) / 24e3);
	TIME(&bb_alltoall, 40000, 7 + 3 * (10000 + 0.5 * 4000) / 24e3);
	TIME(&bb_alltoallv, 40000, 7 + 3 * (10000 + 0.5 * 4000) / 24e3);
	/* 31 messages share 16 channels. */
	m = gpus(1, 32, 1000);
	TIME(&bb_alltoall, 32 * 5000, 7 + 31 * (5000 + 0.5 * 1000) / 32e3);
	assert_true(isinf(messages_time_of(&c, &m, &bb_all_gather, 8)));
}

static void test_links(void **state)
{
	const struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 2, 10);

	TIME(&bb_sendrecv, 1e5, 7 + (1e5 + 0.5 * 16000) / 8e3);
	m.node_fault = 2;
	TIME(&bb_sendrecv, 1e5, 7 + (1e5 + 0.5 * 16000) / 4e3);
	m.node_fault = 0.5;
	TIME(&bb_sendrecv, 1e5, 7 + (1e5 + 0.5 * 16000) / 8e3);
	m = gpus(1, 4, 10);
	TIME(&bb_gather, 40000, 7 + 3 * (10000 + 0.5 * 4000) / 8e3);
	/* Over PCIe: two channels, chunks of 500 bytes, and half of the rate. */
	m.nvlink = false;
	TIME(&bb_gather, 40000, 7 + 3 * (10000 + 0.5 * 1000) / 5e3);
	TIME(&bb_sendrecv, 10000, 7 + (10000 + 0.5 * 1000) / 4e3);
	TIME(&bb_sendrecv, 2000, 7 + (2000 + 0.5 * 500) / 2e3);
	m.gpu_share = 0.9;
	TIME(&bb_gather, 40000, 7 + 3 * (10000 + 0.5 * 1000) / 8e3);
	m.through_host = true;
	TIME(&bb_gather, 40000, 7 + 3 * (10000 + 0.5 * 1000) / 4.8e3);
	m.node_fault = 3;
	TIME(&bb_gather, 40000, 7 + 3 * (10000 + 0.5 * 1000) / 1.6e3);
}

/* Eight ranks of two nodes: 3 NICs' rate gives 4 channels to a peer, of which 2 leave some for all;
   chunks of 200 bytes. Each of 4 messages over the network adds 10 us, one by Simple 4 more. */
static void test_networks(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(2, 4, 100);
	const double latency = 7 + 4 * 10 + 4;

	/* 8 channels of 1.5 GB/s */
	TIME(&bb_alltoall, 80000, latency + 4 * (10000 + 0.5 * 400) / 12e3);
	TIME(&bb_alltoall, 8 * 50, 5 + 40 + 4 * 1.5 * 100 / 6e3); /* LL */
	m.nic_latency = 6 * US;
	TIME(&bb_alltoall, 80000, latency + 12 + 4 * (10000 + 0.5 * 400) / 12e3);
	TIME(&bb_alltoall, 8 * 50, 5 + 46 + 4 * 1.5 * 100 / 6e3);
	m.nic_latency = 0;
	/* Then SMs limit, then the rank's share of its NIC. */
	c.messages_net_channel = 100 * GB;
	TIME(&bb_alltoall, 80000, latency + 3 * (10000 + 0.5 * 400) / 12e3);
	c.sm_clock = 10;
	TIME(&bb_alltoall, 80000, latency + 4 * (10000 + 0.5 * 400) / 30e3);
	m.taper.alltoall = 3;
	TIME(&bb_alltoall, 80000, latency + 4 * (10000 + 0.5 * 400) / 10e3);
	m.staged = true;
	TIME(&bb_alltoallv, 80000, latency + 4 * (10000 + 0.5 * 400) / 5e3);
	m.net_fault = 2;
	TIME(&bb_alltoall, 80000, latency + 4 * (10000 + 0.5 * 400) / 2.5e3);
	m.net_fault = 0;
	m.slow_path = (struct bb_nccl_slow_path){3, 0, 1};
	TIME(&bb_alltoall, 80000, latency + 2 * 14 + 4 * (10000 + 0.5 * 400) / (5e3 / 3));
	TIME(&bb_alltoall, 8 * 50, 5 + 40 + 2 * 10 + 4 * 1.5 * 100 / (5e3 / 3));
	/* A root has one rail of 20 GB/s; of a sendrecv one message leaves the node. */
	m = gpus(2, 4, 100);
	m.taper.root = 2;
	TIME(&bb_gather, 80000, latency + 4 * (10000 + 0.5 * 400) / 10e3);
	TIME(&bb_scatter, 80000, latency + 4 * (10000 + 0.5 * 400) / 10e3);
	TIME(&bb_sendrecv, 10000, 7 + 14 + (10000 + 0.5 * 400) / 20e3);
	m.taper.sendrecv = 4;
	TIME(&bb_sendrecv, 10000, 7 + 14 + (10000 + 0.5 * 400) / 5e3);
	/* Alone on its node it has no peer inside. */
	m = gpus(4, 1, 1);
	TIME(&bb_sendrecv, 3000, 7 + 14 + (3000 + 0.5 * 600) / 20e3);
	m.nvlink = false;
	TIME(&bb_sendrecv, 3000, 7 + 14 + (3000 + 0.5 * 600) / 0.5e3);
}

/* The channels to a peer over the network, by the bytes that a receiver waits for: a chunk of 200
   bytes of each, which take 0.01 us by 20 GB/s. */
static double channels_to(const struct bb_nccl_machine *m, double bytes)
{
	struct bb_nccl_constants c = round_numbers();
	double none;

	c.messages_net_channel = INFINITY;
	c.sm_clock = INFINITY;
	none = messages_time_of(&c, m, &bb_sendrecv, bytes);
	c.messages_stage += 1e6;
	return rint((messages_time_of(&c, m, &bb_sendrecv, bytes) - none) / 1e6 / (0.01 * US));
}

static void test_channels_over_nodes(void **state)
{
	static const struct {
		int nodes, each;
		bool nvlink;
		double rank_rate, bytes, channels;
	} cases[] = {
		{2, 1, true, 5, 1e4, 2},
		{2, 1, true, 20, 1e4, 2},
		{2, 1, true, 21, 1e4, 4},
		{2, 1, true, 40, 1e4, 4},
		{2, 1, true, 41, 1e4, 8},
		{2, 1, true, 500, 1e4, 8},
		{4, 1, true, 500, 1e4, 4},
		{2, 4, true, 500, 1e4, 2},
		{2, 4, true, 500, 1e5, 8},
		{2, 4, true, 500, 17e3, 4},
		/* Over PCIe two, but where no GPU has a peer on its node. */
		{2, 4, false, 500, 1e5, 2},
		{2, 1, false, 500, 1e4, 8},
		/* 16 channels for 8 and 16 batches of four ranks. */
		{8, 4, true, 500, 1e5, 2},
		{16, 4, true, 500, 1e6, 1},
		{2, 1, true, 500, 900, 1},
		{2, 1, true, 500, 1001, 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_machine m = gpus(cases[i].nodes, cases[i].each, 1e9);
		double got;

		m.nvlink = cases[i].nvlink;
		m.rank_rate = cases[i].rank_rate * GB;
		got = channels_to(&m, cases[i].bytes);
		if (got != cases[i].channels)
			fail_msg("%zu: %g", i, got);
	}
}

/* Each message adds to the time to issue an operation. */
static void test_issue(void **state)
{
	struct bb_nccl_constants c = round_numbers();
	struct bb_nccl_machine m = gpus(1, 4, 1000);

	c.launch = 100 * US;
	TIME(&bb_alltoall, 8, 100 * 1.3);
	TIME(&bb_sendrecv, 8, 100 * 1.1);
	m.issue = 200 * US;
	TIME(&bb_gather, 8, 200 * 1.3);
	m.process_gpus = 4;
	TIME(&bb_alltoall, 8, 400 * 1.3);
	m = gpus(2, 4, 1000);
	TIME(&bb_alltoall, 8, 100 * 1.7);
	TIME(&bb_sendrecv, 8, 100 * 1.2);
	/* Not beyond what it takes anyway. */
	TIME(&bb_alltoall, 8e7, 7 + 44 + 4 * (1e7 + 0.5 * 800) / 24e3);
}

/* ---- what leaves a block of nodes ------------------------------------------------------------ */

/* Slowdowns only rise, and there is none without a taper or beyond one node. */
static void test_tapers(void **state)
{
	static const struct {
		int nodes, block, rails;
		double taper;
		struct bb_nccl_slowdown want;
	} cases[] = {
		{12, 4, 1, 1, {.ring = 0}},
		{1, 1, 4, 8, {.ring = 0}},
		{12, 12, 1, 8, {.ring = 0}},
		{12, 24, 1, 8, {.ring = 0}},
		/* Over four rails a quarter of a leaf's other nodes is met on the own rail. */
		{9, 9, 4, 4, {.alltoall = 4 * 6 / 8.0, .root = 4 * 6 / 72.0, .sendrecv = 4}},
		/* Two nodes below leaves of their own: PAT sends one part of one. */
		{2, 1, 1, 8, {8, 8 * 2 / 2.0, 8, 8, 8, 8}},
		/* Trees of four nodes: 0-2, 2-1, 2-3 and the mirror; of a block of two two edges
		   leave, 0-2, 2-1, and 3-1, 1-2. PAT: 2 edges of one node's length and 1 of two. */
		{4, 2, 1, 8, {4, 8 * 4 / 8.0, 8 * (2 + 2) / 6.0, 8 * 2 / 3.0, 8 * 2 / 6.0, 4}},
		{4, 2, 2, 8, {4, 8 * 4 / 8.0, 8 * (2 + 2) / 6.0, 8 * 2.5 / 3, 8 * 2.5 / 6, 8}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_slowdown s = {.ring = 0}, most = {91, 92, 93, 94, 95, 96};
		const struct bb_nccl_slowdown *const want = &cases[i].want;

		bb_nccl_taper(&s, cases[i].nodes, cases[i].block, cases[i].rails, cases[i].taper);
		if (!(fabs(s.ring - want->ring) <= 1e-9 && fabs(s.tree - want->tree) <= 1e-9 &&
		      fabs(s.pat - want->pat) <= 1e-9 &&
		      fabs(s.alltoall - want->alltoall) <= 1e-9 &&
		      fabs(s.root - want->root) <= 1e-9 &&
		      fabs(s.sendrecv - want->sendrecv) <= 1e-9))
			fail_msg("%zu: %g %g %g %g %g %g", i, s.ring, s.tree, s.pat, s.alltoall,
				 s.root, s.sendrecv);
		bb_nccl_taper(&most, cases[i].nodes, cases[i].block, cases[i].rails,
			      cases[i].taper);
		assert_true(most.ring == 91 && most.tree == 92 && most.pat == 93 &&
			    most.alltoall == 94 && most.root == 95 && most.sendrecv == 96);
	}
}

/* How much longer the busiest NIC needs, and a hop over the slow path. */
static void test_faults(void **state)
{
	static const struct {
		int nodes, from, to;
		double factor, net_fault;
		const struct bb_collective *collective;
		enum bb_nccl_algorithm algorithm;
		double net, delay;
	} cases[] = {
		{4, 0, 1, 3, 0, &bb_all_reduce, BB_NCCL_RING, 3, 2},
		{4, 0, 1, 3, 5, &bb_all_reduce, BB_NCCL_RING, 5, 2},
		{4, 0, 1, 3, 2, &bb_all_reduce, BB_NCCL_RING, 3, 2},
		{4, 3, 0, 3, 0, &bb_all_reduce, BB_NCCL_RING, 3, 2},
		{4, 1, 0, 3, 0, &bb_all_reduce, BB_NCCL_RING, 1, 0},
		{4, 1, 0, 3, 0.5, &bb_all_reduce, BB_NCCL_RING, 1, 0},
		{4, 0, 1, 0.5, 0, &bb_all_reduce, BB_NCCL_RING, 1, 0},
		{4, 0, 1, 1, 0, &bb_all_reduce, BB_NCCL_RING, 1, 0},
		/* 0-2, 2-1, 2-3; 3-1, 1-2, 1-0: both trees join 1 and 2. */
		{4, 1, 2, 6, 0, &bb_all_reduce, BB_NCCL_TREE, 3, 5},
		{4, 0, 1, 6, 0, &bb_all_reduce, BB_NCCL_NVLSTREE, 1.5, 5},
		{4, 0, 1, 2, 0, &bb_all_reduce, BB_NCCL_TREE, 1, 1},
		{4, 0, 3, 6, 0, &bb_all_reduce, BB_NCCL_TREE, 1, 0},
		{2, 0, 1, 6, 0, &bb_all_reduce, BB_NCCL_TREE, 6, 5},
		{4, 0, 3, 6, 0, &bb_alltoall, BB_NCCL_ANY, 2, 5},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_machine m = gpus(cases[i].nodes, 4, 100);
		struct bb_nccl_faults f;

		m.net_fault = cases[i].net_fault;
		m.slow_path =
			(struct bb_nccl_slow_path){cases[i].factor, cases[i].from, cases[i].to};
		f = bb_nccl_faults_of(&m, cases[i].collective, cases[i].algorithm);
		if (f.net != cases[i].net || f.delay != cases[i].delay)
			fail_msg("%zu: %g, %g", i, f.net, f.delay);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_channels), cmocka_unit_test(test_links),
		cmocka_unit_test(test_networks), cmocka_unit_test(test_channels_over_nodes),
		cmocka_unit_test(test_issue),    cmocka_unit_test(test_tapers),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
