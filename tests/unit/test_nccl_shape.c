/* What NCCL would find of a group: any ranks of a cluster of GPUs. */
#include "simulator/nccl/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "clusters.h"

#define MOST 128

/* Of N ranks from FIRST on, STEP apart. */
static struct bb_nccl_machine shape(const struct bb_cluster *c, int first, int step, int n)
{
	struct bb_nccl_machine machine;
	int members[MOST];

	for (int i = 0; i < n; i++)
		members[i] = first + i * step;
	assert_true(bb_nccl_shape_make(&machine, c, c->ranks, members, n));
	assert_int_equal(machine.ranks, n);
	return machine;
}

static void test_groups_of_programs(void **state)
{
	struct bb_cluster *c = open_cluster("hgx-h100:16");
	struct bb_nccl_machine m = shape(c, 0, 1, 128);

	/* All: each node leaves by eight rails. */
	assert_int_equal(m.nodes, 16);
	assert_int_equal(m.fewest, 8);
	assert_near(m.net_rate, 8 * c->nic_rate);
	assert_near(m.rank_rate, c->nic_rate);
	assert_null(m.unknown);
	/* Tensor parallelism within a node, half of it too. */
	m = shape(c, 8, 1, 8);
	assert_int_equal(m.nodes, 1);
	assert_int_equal(shape(c, 12, 1, 4).fewest, 4);
	/* Data parallelism across: one GPU of each node, two of each. */
	m = shape(c, 3, 8, 16);
	assert_int_equal(m.nodes, 16);
	assert_int_equal(m.fewest, 1);
	assert_near(m.net_rate, c->nic_rate);
	m = shape(c, 1, 4, 32);
	assert_int_equal(m.nodes, 16);
	assert_near(m.net_rate, 2 * c->nic_rate);
	/* Rates are those of the node that has least. */
	m = shape(c, 0, 1, 11);
	assert_int_equal(m.nodes, 2);
	assert_int_equal(m.fewest, 3);
	assert_near(m.net_rate, 3 * c->nic_rate);
	assert_non_null(shape(c, 5, 1, 1).unknown);
	bb_cluster_free(c);
}

static void test_any_order(void **state)
{
	const int members[] = {17, 1, 9, 0, 16, 8};
	struct bb_cluster *c = open_cluster("hgx-h100:4");
	struct bb_nccl_machine m;

	assert_true(bb_nccl_shape_make(&m, c, c->ranks, members, 6));
	assert_int_equal(m.nodes, 3);
	assert_int_equal(m.fewest, 2);
	assert_near(m.net_rate, 2 * c->nic_rate);
	bb_cluster_free(c);
}

/* Two GPUs of a DGX-1 share a NIC. */
static void test_shared_rails(void **state)
{
	struct bb_cluster *c = open_cluster("dgx-1v:2");
	const int members[] = {0, 1, 8, 9};
	struct bb_nccl_machine m;

	assert_int_equal(bb_cluster_rail(c, 0), bb_cluster_rail(c, 1));
	assert_true(bb_nccl_shape_make(&m, c, c->ranks, members, 4));
	assert_near(m.net_rate, c->nic_rate);
	assert_near(m.rank_rate, c->nic_rate / 2);
	assert_near(shape(c, 0, 1, 16).net_rate, c->rails * c->nic_rate);
	bb_cluster_free(c);
}

/* With other groups a group shares as the ranks on its rails do; whose rail is lost comes to those
   on the next. */
static void test_other_groups(void **state)
{
	const struct bb_fabric_flaw lost = {.node = 1, .rail = 2, .factor = 0};
	struct bb_cluster *c = open_cluster("dgx-1v:2"), *hgx = open_cluster("hgx-h100:4");
	struct bb_nccl_machine m = shape(c, 0, 8, 2);
	static const double factors[] = {1, 1, 2, 2, 1};

	/* One GPU of each node, of two on the NIC. */
	assert_near(m.net_rate, c->nic_rate / 2);
	assert_near(m.rank_rate, c->nic_rate / 2);
	assert_near(m.rail_rate, c->nic_rate / 2);
	for (int first = 0; first < 5; first++) {
		const int members[] = {first, first + 8, first + 16, first + 24};

		m = shape(hgx, first, 8, 4);
		assert_near(m.net_rate, hgx->nic_rate);
		bb_nccl_shape_apply_flaw(&m, hgx, &lost, hgx->ranks, members, 4);
		assert_near(m.net_rate, hgx->nic_rate);
		assert_near(m.net_fault, factors[first]);
	}
	/* In a world of so many nobody is on the next rail. */
	m = shape(hgx, 2, 8, 2);
	bb_nccl_shape_apply_flaw(&m, hgx, &lost, 8 + 3, (const int[]){2, 10}, 2);
	assert_near(m.net_fault, 1);
	bb_cluster_free(hgx);
	bb_cluster_free(c);
}

/* Of NVLinks between pairs a group has those to its own members. */
static void test_links_of_pairs(void **state)
{
	struct bb_cluster *c = open_cluster("dgx-1v:1");
	struct bb_nccl_machine all = shape(c, 0, 1, 8), quad = shape(c, 0, 1, 4);

	assert_near(all.gpu_rate * all.gpu_share, c->gpu_rate);
	assert_near(quad.gpu_rate, all.gpu_rate * 4 / 6);
	assert_null(quad.unknown);
	assert_true(quad.nvlink);
	/* GPUs 0 and 5 have none to each other: PCIe 3.0. */
	assert_false(shape(c, 0, 5, 2).nvlink);
	assert_null(shape(c, 0, 5, 2).unknown);
	assert_near(shape(c, 0, 5, 2).gpu_rate, 12e9);
	bb_cluster_free(c);
	/* Bridges join pairs: none joins all four. */
	c = open_cluster("pcie-h100:1");
	assert_true(shape(c, 0, 1, 2).nvlink);
	assert_false(shape(c, 0, 1, 4).nvlink);
	assert_near(shape(c, 0, 1, 4).gpu_rate, 48e9);
	bb_cluster_free(c);
}

/* Without peer access bytes pass the host's memory, and cards below a switch share its link. */
static void test_slots(void **state)
{
	struct bb_cluster *c = open_cluster("pcie-l40s:1");
	struct bb_nccl_machine m = shape(c, 0, 1, 8);

	assert_false(m.through_host);
	assert_near(m.gpu_rate, 24e9);
	assert_false(m.staged);
	c->figures[BB_FIGURE_PEER_ACCESS] = -1;
	m = shape(c, 0, 1, 8);
	assert_true(m.through_host);
	assert_near(m.gpu_rate, 6e9);
	assert_near(m.alone_rate, 24e9);
	assert_near(shape(c, 0, 1, 2).gpu_rate, 12e9);
	assert_near(shape(c, 0, 4, 2).gpu_rate, 24e9); /* one below each switch */
	/* A rate that is given is that of a card alone. */
	c->gpu_rate /= 2;
	assert_near(shape(c, 0, 1, 2).gpu_rate, 6e9);
	bb_cluster_free(c);
	/* Cards in slots of their own share nothing. GeForce cards have no GPUDirect RDMA either.
	 */
	c = open_cluster("pcie-4090:2");
	m = shape(c, 0, 1, 8);
	assert_true(m.through_host);
	assert_near(m.gpu_rate, 24e9);
	assert_true(m.staged);
	c->figures[BB_FIGURE_PEER_ACCESS] = 1;
	assert_false(shape(c, 0, 1, 8).through_host);
	bb_cluster_free(c);
	/* NCCL does not use it between host bridges; with NVSwitches NICs are near. */
	c = open_cluster("pcie-h100:2");
	assert_true(shape(c, 0, 1, 8).staged);
	bb_cluster_free(c);
	c = open_cluster("hgx-h100:2");
	assert_false(shape(c, 0, 1, 16).staged);
	bb_cluster_free(c);
}

/* Nodes of a rack share NVSwitches: NCCL's node is the rack. */
static void test_racks(void **state)
{
	struct bb_cluster *c = open_cluster("gb200-nvl72:36");
	struct bb_nccl_machine m = shape(c, 0, 4, 36); /* one GPU of each tray */

	assert_int_equal(m.nodes, 2);
	assert_int_equal(m.fewest, 18);
	assert_near(m.net_rate, 18 * c->nic_rate);
	bb_cluster_free(c);
}

static void test_what_is_given(void **state)
{
	struct bb_cluster *c = open_cluster("hgx-h100:4");
	const double *const f = c->figures;
	struct bb_nccl_machine m;

	c->figures[BB_FIGURE_NIC_EFFICIENCY] = 0.5;
	c->figures[BB_FIGURE_NCCL_NIC_LATENCY] = 11;
	c->figures[BB_FIGURE_NCCL_TREE_FILL] = 12;
	c->figures[BB_FIGURE_NCCL_ISSUE] = 13;
	c->figures[BB_FIGURE_NCCL_PROCESS_GPUS] = 14;
	m = shape(c, 0, 1, 32);
	assert_near(m.nic_rate, 2 * c->nic_rate);
	assert_near(m.nic_latency, 11);
	assert_near(m.net_fill, 12);
	assert_near(m.issue, 13);
	assert_near(m.process_gpus, 14);
	assert_near(m.gpu_share, f[BB_FIGURE_GPU_EFFICIENCY]);
	assert_near(m.gpu_rate, c->gpu_rate / f[BB_FIGURE_GPU_EFFICIENCY]);
	assert_near(m.rail_rate, c->nic_rate);
	assert_int_equal(m.nics, c->nics);
	assert_int_equal(m.rails, 8);
	assert_true(m.nvswitch && m.nvlink && m.near_nics && m.x86);
	assert_false(m.wide || m.some_gpus || m.nvls_off || m.staged || m.amd);
	c->figures[BB_FIGURE_NCCL_NVLS] = -1;
	snprintf(c->node->host.packages[0].vendor, sizeof(c->node->host.packages[0].vendor),
		 "AuthenticAMD");
	snprintf(c->node->host.arch, sizeof(c->node->host.arch), "arm64");
	m = shape(c, 0, 4, 8);
	assert_true(m.some_gpus && m.nvls_off && m.amd);
	assert_false(m.x86);
	assert_int_equal(m.rails, 2);
	assert_int_equal(m.fewest, 2);
	assert_near(m.net_fault, 0);
	bb_cluster_free(c);
	c = open_cluster("gb200-nvl72:36");
	assert_true(shape(c, 0, 1, 72).wide);
	assert_false(shape(c, 0, 1, 72).some_gpus);
	assert_true(shape(c, 0, 4, 18).some_gpus);
	assert_int_equal(shape(c, 0, 4, 18).rails, 18);
	assert_false(shape(c, 0, 1, 4).wide);
	bb_cluster_free(c);
}

/* A node, a rail of it, and nodes that are not there. */
static void test_slow_nodes(void **state)
{
	static const struct {
		struct bb_fabric_flaw flaw;
		int first, step, n;
		double net, node;
	} cases[] = {
		{{1, -1, 3}, 0, 1, 32, 3, 3},
		{{1, -1, 3}, 0, 1, 8, 1, 1},
		{{1, 2, 3}, 0, 1, 32, 3, 0},
		{{1, 2, 3}, 2, 8, 4, 3, 0},
		{{1, 2, 3}, 3, 8, 4, 1, 0},
		{{0, 0, 3}, 0, 8, 4, 3, 0},
		{{3, 7, 3}, 31, 1, 1, 3, 0},
		/* All eight ranks on seven rails: two on the next. */
		{{1, 2, 0}, 0, 1, 32, 2, 0},
		{{1, 7, 0}, 0, 8, 4, 2, 0},
		{{1, 7, 0}, 6, 8, 4, 1, 0},
	};
	struct bb_cluster *c = open_cluster("hgx-h100:4");

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_machine m = shape(c, cases[i].first, cases[i].step, cases[i].n);
		int members[MOST];

		for (int k = 0; k < cases[i].n; k++)
			members[k] = cases[i].first + k * cases[i].step;
		bb_nccl_shape_apply_flaw(&m, c, NULL, c->ranks, members, cases[i].n);
		assert_near(m.net_fault, 0);
		bb_nccl_shape_apply_flaw(&m, c, &cases[i].flaw, c->ranks, members, cases[i].n);
		if (!(fabs(m.net_fault - cases[i].net) <= 1e-9 &&
		      fabs(m.node_fault - cases[i].node) <= 1e-9))
			fail_msg("%zu: %g, %g", i, m.net_fault, m.node_fault);
	}
	bb_cluster_free(c);
}

/* A slow path counts if both of its ends take part and NCCL uses it: within a node, or between NICs
   of one rail. FROM and TO are the group's nodes. */
static void test_slow_paths(void **state)
{
	static const struct {
		int from, to, first, step, n;
		int nodes[2]; /* -1: it does not count */
	} cases[] = {
		{0, 1, 0, 1, 32, {0, 0}},  {9, 15, 0, 1, 32, {1, 1}},   {1, 9, 0, 1, 32, {0, 1}},
		{25, 9, 0, 1, 32, {3, 1}}, {1, 10, 0, 1, 32, {-1, -1}}, {9, 25, 9, 8, 3, {0, 2}},
		{9, 25, 9, 16, 2, {0, 1}}, {1, 9, 9, 8, 3, {-1, -1}},   {0, 1, 0, 2, 16, {-1, -1}},
	};
	struct bb_cluster *c = open_cluster("hgx-h100:4"), *pcie = open_cluster("pcie-l40s:2");

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nccl_machine m = shape(c, cases[i].first, cases[i].step, cases[i].n);
		int members[MOST];

		for (int k = 0; k < cases[i].n; k++)
			members[k] = cases[i].first + k * cases[i].step;
		assert_true(bb_nccl_shape_apply_slow_path(&m, c, 5, cases[i].from, cases[i].to,
							  members, cases[i].n));
		if (cases[i].nodes[0] < 0) {
			assert_near(m.slow_path.factor, 0);
			continue;
		}
		assert_near(m.slow_path.factor, 5);
		if (m.slow_path.from != cases[i].nodes[0] || m.slow_path.to != cases[i].nodes[1])
			fail_msg("%zu: %d to %d", i, m.slow_path.from, m.slow_path.to);
	}
	/* Without NVLinks messages change rails. */
	{
		const int all[] = {0, 1, 8, 10};
		struct bb_nccl_machine m;

		assert_true(bb_nccl_shape_make(&m, pcie, pcie->ranks, all, 4));
		assert_false(m.nvlink);
		assert_true(bb_nccl_shape_apply_slow_path(&m, pcie, 5, 1, 10, all, 4));
		assert_near(m.slow_path.factor, 5);
	}
	bb_cluster_free(pcie);
	bb_cluster_free(c);
}

/* Uplinks of a leaf of two nodes carry a third: what leaves it takes three times as long. */
static void test_tapers(void **state)
{
	struct bb_cluster *c = open_cluster("hgx-h100:8");
	struct bb_nccl_machine m;

	c->figures[BB_FIGURE_LEAF_NODES] = 2;
	c->figures[BB_FIGURE_LEAF_TAPER] = 3;
	c->figures[BB_FIGURE_POD_NODES] = 4;
	c->figures[BB_FIGURE_POD_TAPER] = 1;
	/* All of a leaf at most: below it nothing is shared. */
	m = shape(c, 0, 1, 16);
	assert_near(m.taper.ring, 0);
	assert_near(m.taper.alltoall, 0);
	/* Four nodes, two a leaf: a ring's message leaves by either of them. Of three other nodes
	   two are beyond the leaf. */
	m = shape(c, 0, 1, 32);
	assert_near(m.taper.ring, 3 / 2.);
	assert_near(m.taper.alltoall, 3 * 2 / 3.);
	assert_near(m.taper.root, 3 * 2 / 3. / 2);
	assert_near(m.taper.sendrecv, 3 / 2.);
	/* One node of each leaf. */
	m = shape(c, 0, 16, 4);
	assert_near(m.taper.ring, 3);
	assert_near(m.taper.alltoall, 3);
	assert_near(m.taper.sendrecv, 3);
	/* the second node of the first leaf, and the first of the second */
	m = shape(c, 8, 8, 2);
	assert_near(m.taper.ring, 3);
	/* a pod that is worse than its leaves */
	c->figures[BB_FIGURE_POD_TAPER] = 12;
	m = shape(c, 0, 1, 64);
	assert_near(m.taper.ring, 3);
	assert_near(m.taper.alltoall, 12 * 4 / 7.);
	bb_cluster_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_of_programs),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_shared_rails),
		cmocka_unit_test(test_other_groups),
		cmocka_unit_test(test_links_of_pairs),
		cmocka_unit_test(test_racks),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_what_is_given),
		cmocka_unit_test(test_slow_nodes),
		cmocka_unit_test(test_slow_paths),
		cmocka_unit_test(test_tapers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
