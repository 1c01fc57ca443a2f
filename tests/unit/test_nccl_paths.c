/*
 * A slow path between two nodes: which of NCCL's algorithms use it, and what it costs them.
 */
#include "nccl_constants_of.h"

#include "simulator/nccl/model.h"

#include <math.h>

#define GB 1e9

/* Nodes of 8 GPUs with a NIC each; the path from node FROM to node TO is slow by FACTOR. */
static struct bb_nccl_machine machine(int nodes, double factor, int from, int to)
{
	return (struct bb_nccl_machine){.ranks = 8 * nodes,
					.nodes = nodes,
					.fewest = 8,
					.nvlink = true,
					.nvswitch = true,
					.gpu_rate = 370.8 * GB,
					.gpu_share = 0.98,
					.rails = 8,
					.nic_rate = 50 * GB,
					.net_rate = 388 * GB,
					.rank_rate = 48.5 * GB,
					.rail_rate = 48.5 * GB,
					.slow_path = {factor, from, to}};
}

static double share(int nodes, int from, int to, enum bb_nccl_algorithm algorithm)
{
	const struct bb_nccl_machine m = machine(nodes, 2, from, to);

	return bb_nccl_path_share(&m, algorithm == BB_NCCL_ANY ? &bb_alltoall : &bb_all_reduce,
				  algorithm);
}

static void test_rings(void **state)
{
	for (int nodes = 2; nodes < 12; nodes++)
		for (int from = 0; from < nodes; from++)
			for (int to = 0; to < nodes; to++) {
				const bool next = to == from + 1 || (from == nodes - 1 && to == 0);

				if (from == to)
					assert_true(isnan(share(nodes, from, to, BB_NCCL_RING)));
				else
					assert_true(share(nodes, from, to, BB_NCCL_RING) == next);
			}
}

/* The trees that src/graph/trees.cc draws: of 14 nodes and their mirror, of 13 and its shift. */
static void test_trees(void **state)
{
	static const int drawn[][2] = {{0, 8}, {8, 4}, {8, 12}, {4, 2},  {4, 6},   {12, 10}, {2, 1},
				       {2, 3}, {6, 5}, {6, 7},  {10, 9}, {10, 11}, {12, 13}};

	for (int nodes = 13; nodes <= 14; nodes++) {
		int edges[14][14] = {{0}};

		/* Of 13 nodes there is no node 13. */
		for (int i = 0; i < nodes - 1; i++) {
			const int a = drawn[i][0], b = drawn[i][1];
			const int c = nodes == 14 ? 13 - a : (a + 1) % 13;
			const int d = nodes == 14 ? 13 - b : (b + 1) % 13;

			edges[a][b]++, edges[b][a]++, edges[c][d]++, edges[d][c]++;
		}
		for (int from = 0; from < nodes; from++)
			for (int to = 0; to < nodes; to++)
				if (from != to)
					assert_true(share(nodes, from, to, BB_NCCL_TREE) ==
						    edges[from][to] / 4.0);
	}
	assert_true(share(2, 0, 1, BB_NCCL_NVLSTREE) == 1);
	assert_true(share(2, 1, 0, BB_NCCL_TREE) == 1);
}

/* A node sends at most what its NIC carries, and each tree joins all nodes. */
static void test_sums(void **state)
{
	for (int nodes = 3; nodes < 70; nodes++) {
		double all = 0;

		for (int from = 0; from < nodes; from++) {
			double sent = 0;

			for (int to = 0; to < nodes; to++)
				sent += from == to ? 0 : share(nodes, from, to, BB_NCCL_TREE);
			assert_true(sent > 0 && sent <= 1);
			all += sent;
		}
		assert_true(all == 2 * 2 * (nodes - 1) / 4.0);
	}
	assert_float_equal(share(5, 1, 3, BB_NCCL_ANY), 0.25, 1e-12);
	assert_true(isnan(share(5, 1, 3, BB_NCCL_PAT)));
}

static double times_as_long(int nodes, double factor, int from, int to,
			    const struct bb_collective *collective,
			    enum bb_nccl_algorithm algorithm, double bytes)
{
	const struct bb_nccl_constants c = constants_of(90, "2.30.7");
	const struct bb_nccl_machine slow = machine(nodes, factor, from, to);
	const struct bb_nccl_machine sound = machine(nodes, 0, 0, 0);
	struct bb_nccl_call call = {.collective = collective,
				    .algorithm = algorithm,
				    .protocol = BB_NCCL_ANY_PROTOCOL,
				    .machine = &slow,
				    .dtype = BB_FLOAT,
				    .bytes = bytes};
	const double time = bb_nccl_call_time(&c, &call);
	struct bb_nccl_call chosen[2] = {{NULL}};

	assert_null(bb_nccl_path_unknown(&c, &call));
	if (collective != &bb_alltoall)
		assert_true(bb_nccl_choose(&c, &call, &chosen[0]));
	call.machine = &sound;
	if (collective != &bb_alltoall)
		assert_true(bb_nccl_choose(&c, &call, &chosen[1]));
	assert_true(chosen[0].algorithm == chosen[1].algorithm &&
		    chosen[0].protocol == chosen[1].protocol);
	return time / bb_nccl_call_time(&c, &call);
}

/* No path changes a choice, and a path costs what passes it. */
static void test_costs(void **state)
{
	const double large = 0x1p36;

	assert_float_equal(times_as_long(4, 3, 1, 2, &bb_all_gather, BB_NCCL_RING, large),
			   3 * 340.0 / 388, 0.15);
	assert_true(times_as_long(4, 3, 2, 1, &bb_all_gather, BB_NCCL_RING, large) == 1);
	assert_true(times_as_long(4, 3, 0, 2, &bb_all_gather, BB_NCCL_ANY, large) == 1);
	assert_true(times_as_long(4, 3, 0, 2, &bb_all_reduce, BB_NCCL_TREE, large) < 1.001);
	/* 8 channels of 36 GB/s limit a sound tree, a quarter of the NIC's bytes the slow one. */
	assert_float_equal(times_as_long(4, 40, 0, 2, &bb_all_reduce, BB_NCCL_TREE, large),
			   8 * 36 / (0.92 * 388 / 10), 0.05);
	assert_float_equal(times_as_long(2, 3, 1, 0, &bb_all_reduce, BB_NCCL_TREE, large), 2, 1);
	assert_float_equal(times_as_long(4, 9, 0, 2, &bb_alltoall, BB_NCCL_ANY, large), 3, 0.2);
	/* The latency of one hop of 24, and of two on the way up and down. */
	assert_true(times_as_long(4, 3, 1, 2, &bb_all_gather, BB_NCCL_RING, 64) > 1.05);
	assert_true(times_as_long(4, 3, 0, 2, &bb_all_reduce, BB_NCCL_TREE, 64) > 1.3);
	for (double bytes = 8; bytes < large; bytes *= 4)
		for (int to = 1; to < 8; to++)
			assert_true(times_as_long(8, 5, 0, to, &bb_all_reduce, BB_NCCL_ANY,
						  bytes) >= 1);
}

static void test_unknown(void **state)
{
	const struct bb_nccl_constants c = constants_of(90, "2.30.7");
	struct bb_nccl_machine m = machine(4, 3, 1, 1);
	struct bb_nccl_call call = {.collective = &bb_all_reduce,
				    .algorithm = BB_NCCL_ANY,
				    .protocol = BB_NCCL_ANY_PROTOCOL,
				    .machine = &m,
				    .dtype = BB_FLOAT,
				    .bytes = 0x1p20};

	assert_non_null(strstr(bb_nccl_path_unknown(&c, &call), "between GPUs of a node"));
	m.slow_path.to = 2;
	assert_null(bb_nccl_path_unknown(&c, &call));
	call.collective = &bb_sendrecv;
	assert_non_null(strstr(bb_nccl_path_unknown(&c, &call), "which of NCCL's messages"));
	call.collective = &bb_alltoall;
	assert_null(bb_nccl_path_unknown(&c, &call));
	m.nvlink = false;
	assert_non_null(bb_nccl_path_unknown(&c, &call));
	m.slow_path.factor = 0;
	assert_null(bb_nccl_path_unknown(&c, &call));
}

/* Ranks of a cluster: nodes count in the group, and only ends on one rail meet. */
static void test_ends(void **state)
{
	static const int members[] = {8, 10, 24, 26, 40, 42}; /* of nodes 1, 3 and 5 */
	static const struct {
		int from, to, one, other;
	} cases[] = {{8, 24, 0, 1}, {40, 8, 2, 0}, {10, 42, 0, 2}, {8, 10, 0, 0}};
	static const int none[][2] = {{8, 26}, {0, 24}, {8, 16}, {9, 25}};
	struct bb_cluster *cluster;
	struct bb_error error = {.text = ""};
	struct bb_nccl_machine m;

	assert_int_equal(bb_cluster_open("hgx-h100:6", NULL, &cluster, &error), BB_OK);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		m = machine(3, 0, 0, 0);
		assert_true(bb_nccl_shape_apply_slow_path(&m, cluster, 2, cases[i].from,
							  cases[i].to, members, 6));
		assert_true(m.slow_path.factor == 2);
		assert_int_equal(m.slow_path.from, cases[i].one);
		assert_int_equal(m.slow_path.to, cases[i].other);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		m = machine(3, 0, 0, 0);
		assert_true(bb_nccl_shape_apply_slow_path(&m, cluster, 2, none[i][0], none[i][1],
							  members, 6));
		assert_true(m.slow_path.factor == 0);
	}
	bb_cluster_free(cluster);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings),   cmocka_unit_test(test_trees),
		cmocka_unit_test(test_sums),    cmocka_unit_test(test_costs),
		cmocka_unit_test(test_unknown), cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
