/*
 * The model of NCCL: its formulas, what it chooses, and what none of its times may break. How near
 * it comes to measurements is another test's affair (cli/test_validation).
 */
#include "nccl_constants_of.h"

#include "core/settings.h"
#include "simulator/nccl/model.h"

#include <math.h>
#include <string.h>

#define GB 1e9
#define US 1e-6
#define MIB 0x1p20

static struct bb_nccl_constants constants(int sm)
{
	return constants_of(sm, "2.30.7");
}

static struct bb_nccl_machine machine(int sm, int nodes, int ranks)
{
	const double rate = sm >= 100 ? 722 * GB : sm >= 90 ? 370.8 * GB : 240 * GB;

	return (struct bb_nccl_machine){.ranks = ranks,
					.nodes = nodes,
					.fewest = ranks / nodes,
					.nvlink = true,
					.nvswitch = true,
					.gpu_rate = rate,
					.gpu_share = 0.98,
					.rails = 8,
					.nic_rate = 50 * GB,
					.net_rate = 388 * GB,
					.rank_rate = 388 * GB * nodes / ranks,
					.rail_rate = 388 * GB / 8};
}

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * want))
		fail_msg("%.12g instead of %.12g", got, want);
}

/* GPUs without NVLinks and peer access. */
static struct bb_nccl_machine through_host(int nodes, int ranks)
{
	struct bb_nccl_machine m = machine(80, nodes, ranks);

	m.nvlink = m.nvswitch = false;
	m.through_host = true;
	m.gpu_rate = 6 * GB;
	m.alone_rate = 12 * GB;
	return m;
}

static double measured_busbw(const struct bb_nccl_constants *c, const struct bb_nccl_machine *m,
			     const struct bb_collective *collective, double factor)
{
	const double bytes = 0x1p40;

	return factor * bytes /
	       time_of(c, m, BB_NCCL_AS_MEASURED, collective, BB_NCCL_RING, BB_NCCL_SIMPLE, bytes);
}

static void close_to(double got, double want)
{
	if (!(fabs(got - want) <= 1e-3 * want))
		fail_msg("%.6g instead of %.6g", got, want);
}

/* Bytes through the host's memory go both ways at once in a ring; of two ranks of a broadcast one
   writes and one reads, so that they do not even share a switch's link. */
static void test_through_host(void **state)
{
	const struct bb_nccl_constants c = constants(80);
	const struct bb_nccl_machine two = through_host(1, 2), eight = through_host(1, 8);

	close_to(measured_busbw(&c, &two, &bb_all_reduce, 1), 6 * GB * 0.98 * c.host_part);
	close_to(measured_busbw(&c, &two, &bb_broadcast, 1), 12 * GB * 0.98);
	close_to(measured_busbw(&c, &eight, &bb_broadcast, 1), 6 * GB * 0.98 * c.host_part);
	assert_true(isinf(time_of(&c, &two, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_RING,
				  BB_NCCL_LL128, MIB)));
}

/* SMs load and store each byte 5 times in an all_gather of two ranks, 4 times in an all_reduce. */
static void test_few_ranks(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	struct bb_nccl_machine m = machine(90, 1, 2);
	const double link = 370.8 * GB * 0.98;

	close_to(measured_busbw(&c, &m, &bb_all_gather, 0.5), link * c.ring_operations / 5);
	close_to(measured_busbw(&c, &m, &bb_all_reduce, 1), link * c.ring_operations / 4);
	m = machine(90, 1, 8);
	close_to(measured_busbw(&c, &m, &bb_all_gather, 7.0 / 8), link);
}

/* Without GPUDirect RDMA the network is slower and LL128 is off; with one GPU on a node LL128 needs
   a near NIC. */
static void test_staged(void **state)
{
	const struct bb_nccl_constants c = constants(80);
	struct bb_nccl_machine m = through_host(2, 2);
	const double direct = measured_busbw(&c, &m, &bb_all_reduce, 1);

	assert_true(isinf(time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_RING,
				  BB_NCCL_LL128, MIB)));
	m.near_nics = true;
	assert_true(time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL128,
			    MIB) < 1);
	m.staged = true;
	close_to(measured_busbw(&c, &m, &bb_all_reduce, 1), direct * c.staged_part);
	assert_true(isinf(time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_RING,
				  BB_NCCL_LL128, MIB)));
}

/* Each kind of machine has a name of its own. Few like it, or on fewer nodes, give the wide
   interval. */
static void test_likeness(void **state)
{
	struct bb_nccl_constants c = constants(90);
	struct bb_nccl_machine m = machine(90, 4, 32);
	const struct bb_nccl_call call = {.collective = &bb_all_reduce,
					  .algorithm = BB_NCCL_RING,
					  .protocol = BB_NCCL_SIMPLE,
					  .machine = &m,
					  .bytes = 0x1p30};
	struct bb_nccl_likeness *like = &c.likeness[bb_nccl_kind(&m)];
	struct bb_nccl_basis basis;
	char name[BB_NCCL_KIND_TEXT], before[BB_NCCL_KIND_TEXT] = "";
	double low, high;

	for (int kind = 0; kind < BB_NCCL_KINDS; kind++) {
		bb_nccl_kind_name(kind, name);
		assert_string_not_equal(name, before);
		memcpy(before, name, sizeof(before));
	}
	m.nics = BB_NICS_INFINIBAND;
	like = &c.likeness[bb_nccl_kind(&m)];
	bb_nccl_kind_name(bb_nccl_kind(&m), name);
	assert_string_equal(name, "switch/all/infiniband");
	like->nodes = 1;
	like->basis[BB_NCCL_LARGE] = (struct bb_nccl_basis){3, 10};
	assert_int_equal(bb_nccl_basis(&c, &call, &basis), BB_NCCL_ENOUGH);
	assert_int_equal(basis.rows, 10);
	bb_nccl_interval(&c, &call, &low, &high);
	near(high, c.interval_high[BB_NCCL_LARGE]);
	m.nodes = 5;
	assert_int_equal(bb_nccl_basis(&c, &call, &basis), BB_NCCL_FEW_NODES);
	bb_nccl_interval(&c, &call, &low, &high);
	near(low, c.interval_unlike_low[BB_NCCL_LARGE]);
	near(high, c.interval_unlike_high[BB_NCCL_LARGE]);
	m.nodes = 4;
	like->basis[BB_NCCL_LARGE].machines = 2;
	assert_int_equal(bb_nccl_basis(&c, &call, &basis), BB_NCCL_FEW_MACHINES);
	m.some_gpus = true;
	bb_nccl_kind_name(bb_nccl_kind(&m), name);
	assert_string_equal(name, "switch/some/infiniband");
	m = through_host(1, 2);
	bb_nccl_kind_name(bb_nccl_kind(&m), name);
	assert_string_equal(name, "host/all/node");
	/* The low end includes a host whose memory costs nothing. */
	m.ranks = 8;
	near(bb_nccl_fast_host(&c, &(struct bb_nccl_call){.collective = &bb_all_reduce,
							  .algorithm = BB_NCCL_ANY,
							  .protocol = BB_NCCL_ANY_PROTOCOL,
							  .machine = &m,
							  .bytes = 0x1p60}),
	     c.host_part);
	bb_nccl_interval(&c, &call, &low, &high);
	near(low, bb_nccl_fast_host(&c, &call));
	assert_true(low < c.interval_unlike_low[BB_NCCL_LARGE]);
	m = through_host(2, 2);
	m.staged = true;
	bb_nccl_kind_name(bb_nccl_kind(&m), name);
	assert_string_equal(name, "lone/all/staged");
}

/* What NCCL's tuner says of 8 A100, worked out by hand. */
static void test_by_hand(void **state)
{
	const struct bb_nccl_constants c = constants(80);
	struct bb_nccl_machine m = machine(80, 1, 8);
	const enum bb_nccl_view tuned = BB_NCCL_AS_TUNED;

	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_LL, MIB),
	     (6.6 + 14 * 0.6) * US + MIB * 14 / 8 / (87.7 * GB));
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     (8.4 + 14 * 3.4) * US + MIB * 14 / 8 / (240 * GB));
	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_RING, BB_NCCL_LL128, MIB),
	     (14 + 7 * 1.9) * US + MIB * 7 / 8 / (0.92 * 240 * GB));
	/* 2^14 * 64 bytes: half of a tree's rate, Simple, is its share there. */
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, MIB),
	     (8.4 + 14 * 4) * US + MIB / (0.5 * 0.92 * 240 * GB * 0.5));
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_LL, MIB),
	     (6.8 + 14 * 0.6) * US + MIB / (0.5 * 0.92 * 240 * GB / 3.8 * 0.5));
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_LL128, MIB),
	     (14 + 14 * 1.25) * US + MIB / (0.5 * 0.92 * 240 * GB * 7 / 9 * 0.6));
	/* Beyond 512 MiB NCCL has no share of a tree any more. */
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, 512 * MIB),
	     (8.4 + 14 * 4) * US + 512 * MIB / (0.5 * 0.92 * 240 * GB));
	/* Over two nodes NCCL counts a tree's rate within a node, up to twice that of its NIC; a
	 * NIC's latency counts twice for Simple. */
	m = machine(80, 2, 16);
	m.nic_rate = 6 * GB;
	m.nic_latency = 10 * US;
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, MIB),
	     (8.4 + 2 * (7 * 4 + 14 + 20)) * US + MIB / (0.5 * 0.92 * 96 * GB * 0.5));
	near(time_of(&c, &m, tuned, &bb_reduce_scatter, BB_NCCL_RING, BB_NCCL_LL, 64),
	     (6.6 + 14 * 1 + 2.7 + 10) * US + 64.0 * 15 / 16 / (24 * GB));
	/* A broadcast over rings counts a hop of each rank, one if all rings are the same, and no
	   NIC; an AMD hands over in 2 us. */
	near(time_of(&c, &m, tuned, &bb_broadcast, BB_NCCL_RING, BB_NCCL_LL128, MIB),
	     (14 + 16 * 4) * US + MIB / (0.92 * 48 * GB));
	near(time_of(&c, &m, tuned, &bb_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     (8.4 + 16 * 14) * US + MIB / (48 * GB));
	m.rails = 1;
	near(time_of(&c, &m, tuned, &bb_broadcast, BB_NCCL_RING, BB_NCCL_LL128, MIB),
	     (14 + 4) * US + MIB / (0.92 * 6 * GB));
	m.rails = 8;
	m.amd = true;
	near(time_of(&c, &m, tuned, &bb_reduce_scatter, BB_NCCL_RING, BB_NCCL_LL, 64),
	     (6.6 + 14 * 2 + 2.7 + 10) * US + 64.0 * 15 / 16 / (22.5 * GB));
	/* PAT: one GPU on each of eight nodes, with a tree's latency of the network. */
	m = machine(80, 8, 8);
	m.rails = 1;
	m.nic_rate = 24 * GB;
	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_PAT, BB_NCCL_SIMPLE, MIB),
	     (8 + 3 * 14 / 3.5 + 8 * 2.8) * US + MIB / (0.75 * 24 * GB));
	/* Trees there are not balanced, and have one channel. */
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_LL, MIB),
	     (6.8 + 2 * 3 * 5) * US + MIB / (0.5 * 17.8 * GB / 3.8 * 0.85 * 0.5));
}

/* The busbw of a ring by LL128 over nodes of GPUS GPUs, each with a NIC of NIC_RATE, where nothing
   but its channels limits it. */
static double channels_rate(int sm, int gpus, double nic_rate, double gpu_rate)
{
	const struct bb_nccl_constants c = constants(sm);
	struct bb_nccl_machine m = machine(sm, 2, 2 * gpus);
	double some, more;

	m.rails = gpus;
	m.nic_rate = nic_rate;
	m.gpu_rate = gpu_rate;
	m.net_rate = INFINITY;
	some = time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_gather, BB_NCCL_RING, BB_NCCL_LL128, 1e9);
	more = time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_gather, BB_NCCL_RING, BB_NCCL_LL128, 2e9);
	return 1e9 * (2 * gpus - 1) / (2 * gpus) / (more - some);
}

/* Over nodes NCCL has as many channels as NICs and NVLinks carry. */
static void test_channels(void **state)
{
	/* 8 of 24 GB/s, 8 of 48, and 16 of 45.1, by which 72 GPUs use more than by 15 of 48. */
	near(channels_rate(80, 8, 25 * GB, 240 * GB), 8 * 20 * GB);
	near(channels_rate(90, 8, 50 * GB, 370.8 * GB), 8 * 36.7 * GB);
	near(channels_rate(100, 72, 50 * GB, 721.8 * GB), 16 * 40 * GB);
	/* 8 of 96 become 16 of 48; 4 of 48 become 8 of 24. */
	near(channels_rate(100, 8, 100 * GB, 721.8 * GB), 16 * 40 * GB);
	near(channels_rate(90, 4, 50 * GB, 370.8 * GB), 0.92 * 8 * 24 * GB);
}

/* Over nodes the interval reaches to the time with a slow plug-in of the network, unless it is
 * known. */
static void test_interval(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	const struct bb_nccl_machine node = machine(90, 1, 8), unknown = machine(90, 2, 16);
	struct bb_nccl_machine known = unknown, slow = unknown;
	struct bb_nccl_call call = {.collective = &bb_all_reduce,
				    .algorithm = BB_NCCL_TREE,
				    .protocol = BB_NCCL_LL,
				    .machine = &node,
				    .bytes = 64};
	double low, high, time;

	bb_nccl_interval(&c, &call, &low, &high);
	near(low, c.interval_low[0]);
	near(high, c.interval_high[0]);
	known.nic_latency = 1 * US;
	call.machine = &known;
	bb_nccl_interval(&c, &call, &low, &high);
	near(high, c.interval_high[0]);
	call.machine = &unknown;
	bb_nccl_interval(&c, &call, &low, &high);
	time = bb_nccl_call_time(&c, &call);
	slow.nic_latency = c.interval_plugin;
	call.machine = &slow;
	near(low, c.interval_low[0]);
	assert_true(high * time >= c.interval_high[0] * bb_nccl_call_time(&c, &call));
	assert_true((high - 0.5) * time < c.interval_high[0] * bb_nccl_call_time(&c, &call));
	known = unknown;
	known.nics = BB_NICS_INFINIBAND;
	call.machine = &known;
	bb_nccl_interval(&c, &call, &low, &high);
	near(high, c.interval_high[0]);
	/* Nothing of long messages. */
	call = (struct bb_nccl_call){.collective = &bb_all_reduce,
				     .algorithm = BB_NCCL_ANY,
				     .protocol = BB_NCCL_ANY_PROTOCOL,
				     .machine = &unknown,
				     .dtype = BB_FLOAT,
				     .bytes = 0x1p40};
	bb_nccl_interval(&c, &call, &low, &high);
	near(low, c.interval_low[BB_NCCL_LARGE]);
	assert_true(high < c.interval_high[BB_NCCL_LARGE] + 0.1001);
	call.collective = &bb_alltoall;
	bb_nccl_interval(&c, &call, &low, &high);
	assert_true(high >= c.interval_high[BB_NCCL_LARGE_MESSAGES]);
	call.machine = &node;
	bb_nccl_interval(&c, &call, &low, &high);
	near(high, c.interval_high[BB_NCCL_LARGE]);
}

/* A plug-in adds to hops what the cluster says or, of AWS's adapters, what is usual for them; by
   Simple twice. A tree over two nodes has one hop up and one down. */
static void test_plugin(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	struct bb_nccl_machine m = machine(90, 2, 16);
	double none[BB_NCCL_PROTOCOLS];

	for (int p = BB_NCCL_LL; p < BB_NCCL_PROTOCOLS; p++)
		none[p] = time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_TREE, p, MIB);
	for (int kind = BB_NICS_OTHER; kind <= BB_NICS_EFA_LATER; kind++) {
		const double more[] = {0, 0, 75 * US, 20 * US, 35 * US};

		m.nics = kind;
		near(time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_LL,
			     MIB),
		     none[BB_NCCL_LL] + 2 * more[kind]);
	}
	m.nic_latency = 1 * US;
	near(time_of(&c, &m, BB_NCCL_AS_TUNED, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_SIMPLE, MIB),
	     none[BB_NCCL_SIMPLE] + 4 * US);
}

/* What differs by generation: the plateau of long rings, NVLSTree's limits. */
static void test_by_generation(void **state)
{
	const struct bb_nccl_constants v100 = constants(70), h100 = constants(90),
				       b200 = constants(100);
	struct bb_nccl_machine m = machine(70, 2, 16);
	const enum bb_nccl_view tuned = BB_NCCL_AS_TUNED;

	m.gpu_rate = 120 * GB;
	m.nic_rate = 6 * GB;
	near(time_of(&v100, &m, tuned, &bb_all_reduce, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     1.9 * (8.4 + 28 * 3.4 + 2 * 14) * US + MIB * 30 / 16 / (48 * GB));
	/* Eight heads, each at most with the limit of a channel, or with the rate of a NIC. */
	m = machine(90, 2, 16);
	near(time_of(&h100, &m, tuned, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, MIB),
	     (25 + 2 * 20.9) * US + MIB * 30 / 16 / (8 * 57.7 * GB));
	m = machine(100, 4, 32);
	near(time_of(&b200, &m, tuned, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, MIB),
	     (25 + 4 * 20.9) * US + MIB * 62 / 32 / (8 * 48 * GB));
	m.x86 = true;
	near(time_of(&b200, &m, tuned, &bb_all_reduce, BB_NCCL_NVLSTREE, BB_NCCL_SIMPLE, MIB),
	     (25 + 4 * 20.9) * US + MIB * 62 / 32 / (8 * 48 * GB * 0.5));
}

/* NVLS: the switches add, so each GPU moves S + S / n. */
static void test_nvls_bound(void **state)
{
	const struct bb_nccl_constants c = constants(90);

	for (int n = 3; n <= 8; n++) {
		const struct bb_nccl_machine m = machine(90, 1, n);
		const double size = 0x1p40;
		const double time = time_of(&c, &m, BB_NCCL_AS_MEASURED, &bb_all_reduce,
					    BB_NCCL_NVLS, BB_NCCL_SIMPLE, size);
		const double busbw = size / time * 2 * (n - 1) / n;
		const double bound = c.nvls_rate * 2 * (n - 1) / (n + 1);

		assert_true(busbw <= bound);
		assert_true(busbw > 0.999 * bound);
	}
}

/* Of links that are half as fast, by a fault or as they are, NVLS has half, too. */
static void test_nvls_of_slow_links(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	struct bb_nccl_machine m = machine(90, 1, 8);
	const double size = 0x1p40;
	const double whole = time_of(&c, &m, BB_NCCL_AS_MEASURED, &bb_all_reduce, BB_NCCL_NVLS,
				     BB_NCCL_SIMPLE, size);

	m.gpu_rate /= 2;
	assert_float_equal(time_of(&c, &m, BB_NCCL_AS_MEASURED, &bb_all_reduce, BB_NCCL_NVLS,
				   BB_NCCL_SIMPLE, size) /
				   whole,
			   2, 1e-3);
}

/* A GPU moves all data and its part of them; with four NICs on a node four GPUs have a part. */
static void test_nvlstree_heads(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	struct bb_nccl_machine m = machine(90, 4, 32);
	const double size = 0x1p40;
	double eight;

	m.net_rate = INFINITY;
	eight = time_of(&c, &m, BB_NCCL_AS_MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE,
			BB_NCCL_SIMPLE, size);
	m.rails = 4;
	assert_float_equal(time_of(&c, &m, BB_NCCL_AS_MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE,
				   BB_NCCL_SIMPLE, size) /
				   eight,
			   1.25 / 1.125, 1e-3);
	m.rails = 1;
	assert_non_null(bb_nccl_unfit(&c, &m, BB_NCCL_NVLSTREE));
}

static struct bb_nccl_call sum_of_floats(const struct bb_nccl_machine *m,
					 enum bb_nccl_algorithm algorithm,
					 enum bb_nccl_protocol protocol, double bytes)
{
	return (struct bb_nccl_call){.collective = &bb_all_reduce,
				     .algorithm = algorithm,
				     .protocol = protocol,
				     .machine = m,
				     .dtype = BB_FLOAT,
				     .bytes = bytes};
}

static enum bb_nccl_algorithm chosen_on(const struct bb_nccl_constants *c,
					const struct bb_nccl_machine *m, double bytes)
{
	const struct bb_nccl_call call = sum_of_floats(m, BB_NCCL_ANY, BB_NCCL_ANY_PROTOCOL, bytes);
	struct bb_nccl_call chosen;

	assert_true(bb_nccl_choose(c, &call, &chosen));
	return chosen.algorithm;
}

static enum bb_nccl_algorithm chosen(const char *versions, int sm, int nodes, int ranks,
				     double bytes)
{
	const struct bb_nccl_constants c = constants_of(sm, versions);
	const struct bb_nccl_machine m = machine(sm, nodes, ranks);

	return chosen_on(&c, &m, bytes);
}

/* What NCCL 2.27 was seen to choose in one node (stas00/ml-engineering, network/README.md). */
static void test_choices_seen(void **state)
{
	const char *const hopper = "2.20 to 2.27", *const blackwell = "2.27", *const now = "2.30.7";
	const double large = 0x1p33;

	assert_int_equal(chosen(hopper, 90, 1, 8, MIB / 2), BB_NCCL_RING);
	assert_int_equal(chosen(hopper, 90, 1, 8, 2 * MIB), BB_NCCL_NVLS);
	assert_int_equal(chosen(hopper, 90, 1, 4, large), BB_NCCL_RING);
	assert_int_equal(chosen(hopper, 90, 1, 5, large), BB_NCCL_NVLS);
	assert_int_equal(chosen(blackwell, 100, 1, 5, large), BB_NCCL_RING);
	assert_int_equal(chosen(blackwell, 100, 1, 6, large), BB_NCCL_NVLS);
	assert_int_equal(chosen(now, 80, 1, 8, large), BB_NCCL_RING);
	assert_int_equal(chosen(now, 80, 2, 16, 8), BB_NCCL_TREE);
	/* Six heads of 90 GB/s count 2 * 0.74 * 5/6 of that, less than rings of 720. */
	assert_int_equal(chosen(now, 100, 1, 6, large), BB_NCCL_RING);
	assert_int_equal(chosen(now, 100, 1, 7, large), BB_NCCL_NVLS);
	/* Eight heads of 45.5 GB/s count less than rings of 384. */
	assert_int_equal(chosen(now, 90, 4, 32, MIB * 512), BB_NCCL_NVLSTREE);
	assert_int_equal(chosen(now, 90, 4, 32, large), BB_NCCL_RING);
}

/* 2.32 raises the latency of rings in one node of Blackwell: less for few steps and for parts of a
   channel beyond 256 KiB. It counts trees over two nodes by the rate between them. */
static void test_newer(void **state)
{
	const struct bb_nccl_constants c = constants_of(100, "2.32"), now = constants(100);
	struct bb_nccl_machine m = machine(100, 1, 8);
	const double lat = (8.4 + 7 * 3.4) * US, rate = 720 * GB, n = 8, kib = 1024;
	const enum bb_nccl_view tuned = BB_NCCL_AS_TUNED;
	double factor = 1 + 0.4 * (1 - pow(0.25, 6));

	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     factor * lat + MIB * 7 / 8 / rate);
	near(time_of(&now, &m, tuned, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     lat + MIB * 7 / 8 / rate);
	factor = 1 + (0.4 - 0.05) * (1 - pow(0.25, 6));
	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE,
		     384 * kib * 32 * n),
	     factor * lat + 384 * kib * 32 * 7 / rate);
	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE, 8),
	     lat + 7 / rate);
	near(time_of(&c, &m, tuned, &bb_broadcast, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     (8.4 + 3.4) * US + MIB / rate);
	m = machine(100, 1, 2);
	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_RING, BB_NCCL_SIMPLE, MIB),
	     (8.4 + 3.4) * US + MIB / 2 / rate);
	m = machine(100, 2, 16);
	m.nic_rate = 6 * GB;
	near(time_of(&c, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_LL128, 32),
	     (14 + 14 * 1.25 + 2 * 8.5) * US + 32 / (0.5 * 0.92 * 48 * GB * 120 / 128));
	near(time_of(&now, &m, tuned, &bb_all_reduce, BB_NCCL_TREE, BB_NCCL_LL128, 32),
	     (14 + 14 * 1.25 + 2 * 8.5) * US + 32 / (0.5 * 0.92 * 96 * GB * 120 / 128));
	m = machine(100, 2, 2);
	m.rails = 1;
	near(time_of(&c, &m, tuned, &bb_all_gather, BB_NCCL_PAT, BB_NCCL_SIMPLE, MIB),
	     (8 + 14 / 3.5 + 2 * 2.8) * US + MIB / (0.75 * 48 * GB));
	near(time_of(&now, &m, tuned, &bb_all_gather, BB_NCCL_PAT, BB_NCCL_SIMPLE, MIB),
	     (8 + 14 / 3.5 + 2 * 2.8) * US + MIB / (0.75 * 96 * GB));
}

/* What is forced is not exchanged for something else. */
static void test_forced(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	const struct bb_nccl_machine one = machine(90, 1, 8), two = machine(90, 2, 16);
	struct bb_nccl_call call = sum_of_floats(&one, BB_NCCL_RING, BB_NCCL_LL, 0x1p33);
	struct bb_nccl_call chosen;

	assert_true(bb_nccl_choose(&c, &call, &chosen));
	assert_int_equal(chosen.algorithm, BB_NCCL_RING);
	assert_int_equal(chosen.protocol, BB_NCCL_LL);
	call = sum_of_floats(&one, BB_NCCL_NVLSTREE, BB_NCCL_ANY_PROTOCOL, MIB);
	assert_false(bb_nccl_choose(&c, &call, &chosen));
	assert_non_null(bb_nccl_unfit(&c, &one, BB_NCCL_NVLSTREE));
	assert_non_null(bb_nccl_unfit(&c, &two, BB_NCCL_NVLS));
	assert_non_null(bb_nccl_unfit(&c, &two, BB_NCCL_PAT));
	assert_null(bb_nccl_unfit(&c, &two, BB_NCCL_NVLSTREE));
	assert_non_null(bb_nccl_lacks(&bb_all_gather, BB_NCCL_TREE));
	assert_non_null(bb_nccl_lacks(&bb_all_reduce, BB_NCCL_PAT));
	assert_non_null(bb_nccl_lacks(&bb_alltoall, BB_NCCL_RING));
	assert_null(bb_nccl_lacks(&bb_broadcast, BB_NCCL_RING));
}

/* Of every algorithm and protocol: more bytes take longer, and no fewer than the links allow. */
static void test_sense(void **state)
{
	static const struct bb_collective *const collectives[] = {
		&bb_all_reduce, &bb_all_gather, &bb_reduce_scatter, &bb_broadcast, &bb_reduce};
	static const int sms[] = {70, 80, 90, 100}, counts[] = {1, 2, 3, 12, 128};
	int times = 0;

	for (int i = 0; i < 4 * 5 * 5 * BB_NCCL_ALGORITHMS * BB_NCCL_PROTOCOLS; i++) {
		const enum bb_nccl_protocol p = (enum bb_nccl_protocol)(i % BB_NCCL_PROTOCOLS);
		const enum bb_nccl_algorithm a =
			(enum bb_nccl_algorithm)(i / BB_NCCL_PROTOCOLS % BB_NCCL_ALGORITHMS);
		const int rest = i / BB_NCCL_PROTOCOLS / BB_NCCL_ALGORITHMS;
		const struct bb_nccl_constants c = constants(sms[rest % 4]);
		const int nodes = counts[rest / 4 % 5];
		const struct bb_nccl_machine m =
			machine(sms[rest % 4], nodes, a == BB_NCCL_PAT ? nodes : 8 * nodes);
		const double fastest = fmax(m.gpu_rate, m.net_rate);
		double before = 0;

		for (double bytes = 0; bytes < 0x1p36; bytes = bytes < 8 ? 8 : 1.19 * bytes) {
			const double time = time_of(&c, &m, BB_NCCL_AS_MEASURED,
						    collectives[rest / 20], a, p, bytes);

			if (time == INFINITY)
				break;
			assert_true(time >= before);
			assert_true(time >= 0.5 * bytes * (m.ranks - 1) / m.ranks / fastest);
			before = time;
			times++;
		}
	}
	assert_true(times > 10000);
}

/* What eight ranks of a node, or 32 of four, have to send, worked out by hand. */
static void test_messages(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	const struct bb_nccl_machine one = machine(90, 1, 8), many = machine(90, 4, 32);
	const double links = 370.8 * GB * c.messages_share, sm = c.messages_clock * 1.98 * GB;
	const double simple = c.messages_base + (8.4 - 6.6) * US, half = c.messages_stage;
	const double chunk = 0x1p19, nic = 388.0 / 8 * GB;

	/* Parts of 16 KiB go by LL, which moves as many flags: of two messages each has a channel.
	 */
	near(messages_time_of(&c, &one, &bb_alltoall, 8 * 0x1p14),
	     c.messages_base + (1 + half) * 2 * 0x1p14 / sm);
	/* Of 32 channels eight ranks have four each, up to 64 MiB; then as many as 16 MiB need. */
	near(messages_time_of(&c, &one, &bb_sendrecv, 0x1p26),
	     simple + 0x1p24 / sm + half * chunk / sm);
	near(messages_time_of(&c, &one, &bb_sendrecv, 0x1p27),
	     simple + 0x1p24 / sm + half * chunk / sm);
	near(messages_time_of(&c, &one, &bb_sendrecv, 0x1p34),
	     simple + (0x1p34 + half * 32 * chunk) / links);
	near(messages_time_of(&c, &one, &bb_gather, 0x1p26),
	     simple + 7 * (0x1p23 + half * 4 * chunk) / fmin(links, 28 * sm));
	/* 24 of 31 peers are beyond a NIC of 388/8 GB/s, each on up to four channels. */
	near(messages_time_of(&c, &many, &bb_alltoall, 0x1p34),
	     simple + (14 - 2.7 + 24 * 2.7) * US + 24 * (0x1p29 + half * 4 * 0x1p17) / nic);
	assert_true(messages_time_of(&c, &one, &bb_all_reduce, 8) == INFINITY);
	assert_true(messages_time_of(&c, &many, &bb_alltoallv, 0x1p34) ==
		    messages_time_of(&c, &many, &bb_alltoall, 0x1p34));
}

/* Over PCIe messages reach what rings do, and a root's bytes from peers and from its NIC pass one
   slot; NCCL up to 2.28 has two channels to a peer over the network. */
static void test_messages_of_slots(void **state)
{
	const struct bb_nccl_constants c = constants(90), old = constants_of(90, "2.20 to 2.27");
	struct bb_nccl_machine slots = machine(90, 1, 4), two = machine(90, 2, 8);
	const double bytes = 0x1p34;

	slots.nvlink = two.nvlink = false;
	slots.gpu_rate = two.gpu_rate = 48 * GB;
	slots.gpu_share = two.gpu_share = 0.5;
	assert_true(messages_time_of(&c, &slots, &bb_sendrecv, bytes) > bytes / (24 * GB));
	assert_true(messages_time_of(&c, &slots, &bb_sendrecv, bytes) < 1.01 * bytes / (24 * GB));
	assert_true(messages_time_of(&c, &two, &bb_gather, bytes) > bytes * 7 / 8 / (24 * GB));
	two = machine(90, 2, 16);
	assert_true(messages_time_of(&old, &two, &bb_sendrecv, bytes) >
		    bytes / (2 * old.messages_net_channel));
	assert_true(messages_time_of(&c, &two, &bb_sendrecv, bytes) <
		    0.8 * bytes / (2 * c.messages_net_channel));
}

/* What issues an operation of eight ranks takes longer for seven messages of each. */
static void test_issue(void **state)
{
	const struct bb_nccl_constants c = constants(80);
	struct bb_nccl_machine m = machine(80, 1, 8);

	m.issue = 36 * US;
	near(messages_time_of(&c, &m, &bb_alltoall, 1024), 36 * US * (1 + 7 * c.messages_issue));
	near(messages_time_of(&c, &m, &bb_sendrecv, 1024), 36 * US * (1 + c.messages_issue));
}

/* Counted by hand on the drawings in NCCL's src/graph/trees.cc. */
static void test_tree_edges(void **state)
{
	assert_int_equal(bb_nccl_tree_edges(2, 1), 2);
	assert_int_equal(bb_nccl_tree_edges(12, 1), 4);
	assert_int_equal(bb_nccl_tree_edges(12, 4), 4);
	assert_int_equal(bb_nccl_tree_edges(16, 4), 6);
	assert_int_equal(bb_nccl_tree_edges(13, 4), 10);
	assert_int_equal(bb_nccl_tree_edges(12, 6), 8);
	assert_int_equal(bb_nccl_tree_edges(12, 12), 0);
}

/* Where messages change among two rails, half of those below a leaf go up. */
static void test_rails_change(void **state)
{
	struct bb_nccl_slowdown s = {.ring = 0};

	bb_nccl_taper(&s, 12, 12, 2, 8);
	near(s.alltoall, 8 * 5.5 / 11);
	near(s.sendrecv, 8);
	assert_true(s.ring == 0 && s.tree == 0);
	bb_nccl_taper(&s, 12, 4, 2, 8);
	near(s.alltoall, 8 * 9.5 / 11);
	near(s.ring, 2);
}

/* A taper slows down what leaves a block of nodes, and NCCL does not know. */
static void test_tapers(void **state)
{
	const struct bb_nccl_constants c = constants(90);
	const struct bb_nccl_machine plain = machine(90, 12, 96);
	struct bb_nccl_machine m = plain;
	const double size = 0x1p40;

	bb_nccl_taper(&m.taper, 12, 12, 1, 8);
	assert_true(m.taper.ring == 0 && m.taper.alltoall == 0);
	bb_nccl_taper(&m.taper, 12, 4, 1, 8);
	near(m.taper.ring, 2);
	near(m.taper.tree, 8 * 4 / 16.0);
	near(m.taper.alltoall, 8 * 8 / 11.0);
	near(m.taper.root, 2 * 8 / 11.0);
	near(m.taper.sendrecv, 2);
	/* Edges of 1, 2, 4 and 8 nodes' length: 6, 3, 1 and 1; those of 1, 2, 4 and 4 nodes leave.
	 */
	near(m.taper.pat, 8 * (6 + 3 * 2 + 4 + 4) / 44.0);
	bb_nccl_taper(&m.taper, 12, 6, 1, 2);
	near(m.taper.ring, 2);
	assert_int_equal(chosen_on(&c, &plain, size), chosen_on(&c, &m, size));
	assert_true(time_of(&c, &m, BB_NCCL_AS_MEASURED, &bb_all_reduce, BB_NCCL_NVLSTREE,
			    BB_NCCL_SIMPLE, size) > 1.9 * time_of(&c, &plain, BB_NCCL_AS_MEASURED,
								  &bb_all_reduce, BB_NCCL_NVLSTREE,
								  BB_NCCL_SIMPLE, size));
}

static void test_unknown_gpu(void **state)
{
	struct bb_nccl_constants c;
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_nccl_constants_find(&c, 0, &error), BB_OK);
	assert_null(c.generation);
}

/* Lines of settings: sections, comments, sources; a line that is none is named. */
static void test_settings(void **state)
{
	struct bb_settings s = {.name = "f",
				.rest = "x = 0\n[a]\n\n# no\n k = v w # from here\n[b]\nk = 2\n",
				.section = "a"};
	struct bb_settings wrong = {.name = "f", .rest = "a = 1\nwhat\n"};
	struct bb_error error = {.text = ""};
	bool more;

	assert_int_equal(bb_settings_next(&s, &more, &error), BB_OK);
	assert_true(more);
	assert_string_equal(s.key, "k");
	assert_string_equal(s.value, "v w");
	assert_string_equal(s.source, "from here");
	assert_int_equal(bb_settings_next(&s, &more, &error), BB_OK);
	assert_false(more);
	assert_int_equal(bb_settings_next(&wrong, &more, &error), BB_OK);
	assert_null(wrong.source);
	assert_int_equal(bb_settings_next(&wrong, &more, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "f: line 2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_through_host),
		cmocka_unit_test(test_few_ranks),
		cmocka_unit_test(test_staged),
		cmocka_unit_test(test_likeness),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_interval),
		cmocka_unit_test(test_plugin),
		cmocka_unit_test(test_by_generation),
		cmocka_unit_test(test_nvls_bound),
		cmocka_unit_test(test_nvls_of_slow_links),
		cmocka_unit_test(test_nvlstree_heads),
		cmocka_unit_test(test_choices_seen),
		cmocka_unit_test(test_newer),
		cmocka_unit_test(test_forced),
		cmocka_unit_test(test_sense),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_messages_of_slots),
		cmocka_unit_test(test_issue),
		cmocka_unit_test(test_tree_edges),
		cmocka_unit_test(test_tapers),
		cmocka_unit_test(test_rails_change),
		cmocka_unit_test(test_unknown_gpu),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
