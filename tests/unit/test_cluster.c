/* The description of clusters: systems by name, files of figures, ways between ranks. */
#include "simulator/cluster/cluster.h"
#include "topology/systems.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "clusters.h"

/* The status of TEXT, whose error says WORD. */
static bb_status refused(const char *text, const char *word)
{
	struct bb_cluster *c = NULL;
	struct bb_error error = {0};
	bb_status status = bb_cluster_open(text, NULL, &c, &error);

	assert_null(c);
	if (!strstr(error.text, word))
		fail_msg("%s: \"%s\" does not say %s", text, error.text, word);
	return status;
}

static void test_systems(void **state)
{
	struct bb_cluster *c = open_cluster("hgx-h100:128");

	assert_int_equal(c->nodes, 128);
	assert_int_equal(c->gpus, 8);
	assert_int_equal(c->ranks, 1024);
	assert_int_equal(c->rails, 8);
	assert_int_equal(c->domain, 1);
	assert_int_equal(c->inside, BB_INSIDE_SWITCH);
	assert_near(c->gpu_rate, 18 * 20.6e9 * 0.98);
	assert_near(c->nic_rate, 50e9 * 4096 / 4122 * 0.976);
	for (int gpu = 0; gpu < 8; gpu++)
		assert_int_equal(bb_cluster_rail(c, 8 + gpu), gpu);
	bb_cluster_free(c);

	/* Racks share NVSwitches. */
	c = open_cluster("gb200-nvl72");
	assert_int_equal(c->ranks, 72);
	assert_int_equal(c->domain, 18);
	assert_int_equal(bb_cluster_route(c, 0, 71).path, BB_CLUSTER_NVLINK);
	bb_cluster_free(c);

	/* Two GPUs and two NICs on a switch: a rail each. Two GPUs and one: they share it. */
	c = open_cluster("dgx-a100:2");
	assert_int_equal(c->rails, 8);
	assert_int_equal(c->rail_gpus[7], 1);
	bb_cluster_free(c);
	c = open_cluster("dgx-1v:2");
	assert_int_equal(c->rails, 4);
	assert_int_equal(c->rail_gpus[0], 2);
	assert_int_equal(bb_cluster_rail(c, 1), 0);
	bb_cluster_free(c);
}

static void test_every_system_is_a_cluster(void **state)
{
	for (int i = 0; bb_system_at(i); i++) {
		char text[128];
		const bool out = bb_system_at(i)->nic != NULL;
		struct bb_cluster *c;

		snprintf(text, sizeof(text), "%s:%d", bb_system_at(i)->name, out ? 36 : 1);
		c = open_cluster(text);
		assert_true((c->rails > 0) == out && (c->nic_rate > 0) == out);
		assert_true((c->gpu_rate > 0) == (c->gpus > 1));
		for (int to = 1; to < c->ranks; to++) {
			struct bb_cluster_route route = bb_cluster_route(c, 0, to);
			struct bb_cluster_route back = bb_cluster_route(c, to, 0);

			assert_true(route.rate > 0 && route.latency > 0);
			assert_int_equal(route.path, back.path);
		}
		bb_cluster_free(c);
	}
}

static void test_ways(void **state)
{
	struct bb_cluster *c = open_cluster("hgx-h100:1024");

	assert_int_equal(bb_cluster_route(c, 3, 3).path, BB_CLUSTER_SELF);
	assert_int_equal(bb_cluster_route(c, 0, 7).path, BB_CLUSTER_NVLINK);
	/* The same rail of the next node; another rail; the next unit of 32; the next pod of 256.
	 */
	assert_int_equal(bb_cluster_route(c, 0, 8).path, BB_CLUSTER_LEAF);
	assert_int_equal(bb_cluster_route(c, 0, 9).path, BB_CLUSTER_POD);
	assert_int_equal(bb_cluster_route(c, 0, 8 * 32).path, BB_CLUSTER_POD);
	assert_int_equal(bb_cluster_route(c, 0, 8 * 255).path, BB_CLUSTER_POD);
	assert_int_equal(bb_cluster_route(c, 0, 8 * 256).path, BB_CLUSTER_CORE);
	assert_near(bb_cluster_route(c, 0, 8 * 256).latency, 2.7e-6 + 4 * 0.15e-6);
	assert_near(bb_cluster_route(c, 0, 8).rate, c->nic_rate);
	bb_cluster_free(c);

	/* A pair of the cube mesh has one, two or no NVLinks. */
	c = open_cluster("dgx-1v");
	assert_near(bb_cluster_route(c, 0, 1).rate, c->gpu_rate / 6);
	assert_near(bb_cluster_route(c, 0, 3).rate, c->gpu_rate / 3);
	assert_int_equal(bb_cluster_route(c, 0, 7).path, BB_CLUSTER_PCIE);
	bb_cluster_free(c);
}

static void write_file(char path[64], const char *text)
{
	FILE *file;

	snprintf(path, 64, "/tmp/busbench-cluster-XXXXXX");
	close(mkstemp(path));
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
}

static void test_file(void **state)
{
	char path[64], text[80];
	struct bb_cluster *c;

	write_file(path, "# ours\nsystem = hgx-h100\nnodes = 16\n\n"
			 "nic_rate = 25GB/s # measured on Monday\n nic_efficiency=100% \n"
			 "leaf_nodes = 4\nleaf_taper = 2\n");
	c = open_cluster(path);
	assert_int_equal(c->nodes, 16);
	assert_near(c->nic_rate, 25e9);
	assert_near(c->figures[BB_FIGURE_LEAF_TAPER], 2);
	assert_near(c->figures[BB_FIGURE_NET_LATENCY], 2.7e-6);
	assert_int_equal(bb_cluster_route(c, 0, 32).path, BB_CLUSTER_POD);
	bb_cluster_free(c);
	snprintf(text, sizeof(text), "%s:3", path);
	c = open_cluster(text);
	assert_int_equal(c->nodes, 3);
	bb_cluster_free(c);
	unlink(path);
}

/* Ranks fill a package of CPUs after the other; with loopback their messages take the NIC. */
static void test_cpus(void **state)
{
	char path[64];
	struct bb_cluster *c = open_cluster("epyc-7742:2");

	assert_int_equal(c->ranks, 256);
	assert_int_equal(c->rails, 1);
	assert_int_equal(bb_cluster_route(c, 0, 127).path, BB_CLUSTER_MEMORY);
	assert_near(bb_cluster_route(c, 0, 127).rate, c->figures[BB_FIGURE_CORE_RATE]);
	assert_int_equal(bb_cluster_route(c, 0, 128).path, BB_CLUSTER_LEAF);
	assert_near(bb_cluster_cache(c), 64 * 512 * 1024.0 + 16 * 16 * 1048576.0);
	bb_cluster_free(c);

	c = open_cluster("grace-x4");
	assert_int_equal(c->rails, 4);
	assert_int_equal(c->rail_gpus[3], 72);
	bb_cluster_free(c);

	write_file(path, "system = epyc-7742\nloopback = 1\n");
	c = open_cluster(path);
	unlink(path);
	assert_int_equal(bb_cluster_route(c, 0, 1).path, BB_CLUSTER_LEAF);
	assert_near(bb_cluster_route(c, 0, 1).rate, c->nic_rate);
	bb_cluster_free(c);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *word;
	} files[] = {
		{"nodes = 2\n", "give one of system"},
		{"system = hgx-h1000\n", "did you mean hgx-h100"},
		{"system = hgx-h100\nnet_latncy = 2us\n", "line 2: \"net_latncy\""},
		{"system = hgx-h100\nnet_latency = fast\n", "expected a time as in 2.7us"},
		{"system = hgx-h100\nleaf_taper = 0.5\n", "expected a factor from 1"},
		{"system = hgx-h100\nnic_efficiency = 0%\n", "expected a share as in 97%"},
		{"system = hgx-h100\nnodes = 0\n", "expected a number of nodes"},
		{"system = hgx-h100\nleaf_nodes = 64\npod_nodes = 32\n", "a pod holds leaves"},
		{"system\n", "expected KEY = VALUE"},
		{"<topology/>", "libexpat1-dev"},
	};
	char path[64];

	assert_int_equal(refused("hgx-h10:4", "did you mean"), BB_EUSAGE);
	assert_int_equal(refused("hgx-h100:0", "\"0\" is not a number of nodes"), BB_EUSAGE);
	assert_int_equal(refused("hgx-h100:999999", "more than 1048576 ranks"), BB_EUSAGE);
	assert_int_equal(refused(":3", "give the name"), BB_EUSAGE);
	assert_int_equal(refused("./none.cluster", "cannot be opened"), BB_EUSAGE);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		write_file(path, files[i].text);
		assert_int_not_equal(refused(path, files[i].word), BB_OK);
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_systems), cmocka_unit_test(test_every_system_is_a_cluster),
		cmocka_unit_test(test_cpus),    cmocka_unit_test(test_ways),
		cmocka_unit_test(test_file),    cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
