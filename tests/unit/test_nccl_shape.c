/* What NCCL would find of a group: any ranks of a cluster of GPUs. */
#include "simulator/nccl/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
