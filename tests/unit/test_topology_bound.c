/*
 * test_topology_bound.c - the speed of light against what has been measured on the known systems:
 * no measurement exceeds its bound, and good ones come near.
 */
#include "topology/bound.h"
#include "topology/build.h"
#include "topology/rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bb_topology *system_of(const char *name, int nodes)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {0};

	assert_int_equal(bb_topology_system(name, &t, &error), BB_OK);
	if (nodes > 0) {
		t->nodes = nodes;
		t->nvlink_nodes = t->nvlink_nodes < nodes ? t->nvlink_nodes : nodes;
	}
	return t;
}

/* The bound of the first EACH GPUs of every node; 0: there is none. */
static double bound_of(const struct bb_topology *t, int each, enum bb_bound what,
		       struct bb_strbuf *why)
{
	struct bb_rank_place *ranks = calloc((size_t)t->nodes * 64, sizeof(*ranks));
	double GBps = -1;
	int n = 0;
	bb_status st;

	assert_non_null(ranks);
	for (int node = 0; node < t->nodes; node++)
		for (int g = 0; g < each; g++)
			ranks[n++] = (struct bb_rank_place){node, g};
	st = bb_speed_of_light(t, ranks, n, what, &GBps, why);
	free(ranks);
	assert_true(st == BB_OK || st == BB_EUNSUPPORTED);
	assert_true((st == BB_OK) == (GBps > 0));
	assert_true(bb_strbuf_text(why)[0]);
	return GBps;
}

static double bound(const char *system, int nodes, int each, enum bb_bound what)
{
	struct bb_topology *t = system_of(system, nodes);
	struct bb_strbuf why = {0};
	double GBps = bound_of(t, each, what, &why);

	bb_strbuf_free(&why);
	bb_topology_free(t);
	return GBps;
}

/* ---- measurements --------------------------------------------------------------------------- */

#define RING BB_BOUND_RING
#define TREE BB_BOUND_TREE
#define NVLS BB_BOUND_NVLS
#define A2A BB_BOUND_ALLTOALL

/*
 * Bus bandwidth of large messages, as published (the sources stand beside them), and what part of
 * the bound the best of them should be.
 */
static const struct {
	const char *system;
	int nodes, each;
	enum bb_bound what;
	double GBps, least;
} measured[] = {
	{"v100-x4", 1, 4, RING, 130, 0.86},            /* an article of 2024 */
	{"dgx-a100", 1, 8, RING, 234.9, 0.78},         /* stas00/ml-engineering network/README */
	{"dgx-a100", 1, 8, A2A, 210, 0.69},            /* GTC25 S72583 */
	{"dgx-a100", 4, 8, RING, 192, 0.96},           /* GTC25 S72583 */
	{"dgx-a100", 4, 8, A2A, 24, 0.74},             /* GTC25 S72583 */
	{"hgx-h100", 1, 8, RING, 370, 0.82},           /* GTC24 S62129 */
	{"hgx-h100", 1, 8, NVLS, 483.1, 0.68},         /* awsome-distributed-training, p5 */
	{"hgx-h100", 1, 8, A2A, 320, 0.70},            /* GTC25 S72583 */
	{"hgx-h100", 4, 8, RING, 370, 0.93},           /* GTC24 S62129 */
	{"hgx-h100", 4, 8, A2A, 48, 0.74},             /* GTC25 S72583 */
	{"hgx-h100-roce", 2, 8, NVLS, 471.2, 0.64},    /* oci-hpc Troubleshooting.md */
	{"hgx-h100", 12, 8, TREE, 386.6, 0.90},        /* CoreWeave nccl-tests README */
	{"hgx-h100", 512, 8, TREE, 345, 0.81},         /* arXiv 2411.13055 */
	{"hgx-h200", 1, 8, RING, 367.6, 0.81},         /* stas00/ml-engineering */
	{"hgx-h200", 1, 8, NVLS, 482.3, 0.68},         /* the same */
	{"hgx-h200", 1, 5, NVLS, 414, 0.68},           /* the same */
	{"hgx-h200", 1, 6, NVLS, 436, 0.67},           /* the same */
	{"hgx-h200-roce", 4, 8, RING, 364.9, 0.93},    /* the same, p5en */
	{"gh200-x4", 1, 4, RING, 306.6, 0.68},         /* eth-cscs/ext_mpi_collectives, 64 MiB */
	{"hgx-b200", 1, 8, RING, 682.2, 0.75},         /* the same */
	{"hgx-b200", 1, 8, NVLS, 845.7, 0.60},         /* the same */
	{"hgx-b200", 1, 8, A2A, 640, 0.71},            /* GTC25 S72583 */
	{"hgx-b200-roce", 4, 8, RING, 381.8, 0.97},    /* stas00/ml-engineering, P6-B200 */
	{"gb200-nvl72", 18, 4, NVLS, 846.8, 0.48},     /* CoreWeave nccl-tests README */
	{"gb200-nvl72", 8, 4, RING, 680, 0.75},        /* GTC25 S72583 */
	{"gb200-nvl72", 1, 4, RING, 679.6, 0.75},      /* Azure AI-benchmarking-guide */
	{"gb200-nvl72", 360, 4, TREE, 405.7, 0.44},    /* CoreWeave */
	{"gb300-nvl72", 1, 4, RING, 685.3, 0.76},      /* OCI, oci-gpu-quickstarts */
	{"gb300-nvl72", 16, 4, NVLS, 930.6, 0.52},     /* the same */
	{"hgx-b300", 1, 8, NVLS, 834.8, 0.59},         /* the same */
	{"hgx-b300", 2, 8, A2A, 181, 0.96},            /* the same */
	{"aws-p5", 1, 8, NVLS, 483.4, 0.68},           /* awsome-distributed-training */
	{"aws-p5", 2, 8, NVLS, 487.3, 0.64},           /* the same */
	{"aws-p5en", 4, 8, RING, 364.9, 0.91},         /* stas00/ml-engineering */
	{"aws-p6-b200", 4, 8, RING, 381.8, 0.95},      /* the same */
	{"mi300x-x8", 1, 2, RING, 47.7, 0.74},         /* the same */
	{"mi300x-x8", 1, 8, RING, 312.9, 0.69},        /* the same */
	{"mi300x-x8", 2, 8, RING, 358.4, 0.91},        /* OCI, oci-hpc-oke */
	{"hgx-h20", 1, 8, RING, 362.3, 0.80},          /* NVIDIA/nccl-tests#306 */
	{"hgx-a100-4nic", 2, 8, RING, 96, 0.96},       /* NVIDIA/nccl-tests#119 */
	{"oci-h100", 2, 8, NVLS, 471.2, 0.64},         /* oci-hpc Troubleshooting.md */
	{"gb300-nvl72-roce", 1, 4, RING, 685.3, 0.76}, /* OCI, oci-gpu-quickstarts */
	{"pcie-2080ti", 1, 2, RING, 4, 0.27},          /* AutoDL, through host memory */
	{"pcie-5090", 1, 8, RING, 28, 0.48},           /* NVIDIA/nccl#1639 */
	{"pcie-5090", 1, 4, RING, 35, 0.60},           /* the same */
	{"pcie-rtx-pro-6000", 1, 8, RING, 37.6, 0.65}, /* voipmonitor/rtx6kpro */
};

static void test_measured(void **state)
{
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
		double GBps = bound(measured[i].system, measured[i].nodes, measured[i].each,
				    measured[i].what);

		if (measured[i].GBps > GBps || measured[i].GBps < GBps * measured[i].least)
			print_message("%s x %d, %s: %g of %g\n", measured[i].system,
				      measured[i].nodes, bb_bound_name(measured[i].what),
				      measured[i].GBps, GBps);
		assert_true(measured[i].GBps <= GBps);
		assert_true(measured[i].GBps >= GBps * measured[i].least);
	}
}

/* Nodes of GB200 whose NVSwitches are not shared, over InfiniBand (NVIDIA/nccl#1801). */
static void test_without_shared_switches(void **state)
{
	struct bb_topology *t = system_of("gb200-nvl72", 3);
	struct bb_strbuf why = {0};
	double ring, tree;

	t->nvlink_nodes = 1;
	ring = bound_of(t, 4, RING, &why);
	tree = bound_of(t, 4, TREE, &why);
	assert_true(197 <= ring && 197 > 0.98 * ring);
	assert_true(234 <= tree && 234 > 0.85 * tree);
	bb_strbuf_free(&why);
	bb_topology_free(t);
}

/* Copies between two GPUs in one direction, p2pBandwidthLatencyTest and nvbandwidth. */
static const struct {
	const char *system;
	int a, b;
	double GBps, least;
} pairs[] = {
	{"v100-x4", 0, 3, 47.9, 0.95},           /* Dell's guide */
	{"dgx-2", 0, 15, 145.6, 0.97},           /* a user's log */
	{"dgx-a100", 0, 7, 276, 0.92},           /* users' logs, copy engine */
	{"hgx-h100", 0, 1, 394, 0.87},           /* users' logs; NVIDIA/nccl#1264 */
	{"hgx-h200", 0, 1, 396.4, 0.88},         /* stas00/ml-engineering */
	{"gb200-nvl72", 0, 3, 786, 0.87},        /* OCI */
	{"pcie-l40s", 0, 1, 26.3, 0.91},         /* RTX 6000 Ada, stelline */
	{"pcie-4090", 0, 1, 22, 0.76},           /* a user's log, without P2P */
	{"pcie-rtx-pro-6000", 0, 1, 56, 0.97},   /* voipmonitor/rtx6kpro */
	{"pcie-h100", 0, 1, 257, 0.85},          /* a user's log */
	{"hgx-h100", 0, BB_ON_HOST, 55.4, 0.96}, /* host to device, nvbandwidth */
	{"dgx-a100", 0, BB_ON_HOST, 26, 0.90},   /* nvbandwidth's README */
};

static void test_pairs(void **state)
{
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct bb_topology *t = system_of(pairs[i].system, 0);
		const struct bb_rank_place there[] = {{0, pairs[i].a}, {0, pairs[i].b}};
		const struct bb_rank_place back[] = {{0, pairs[i].b}, {0, pairs[i].a}};
		struct bb_strbuf why = {0};
		double GBps, other;
		bb_status st = bb_speed_of_light(t, there, 2, BB_BOUND_PAIR, &GBps, &why);

		assert_int_equal(st, BB_OK);
		st = bb_speed_of_light(t, back, 2, BB_BOUND_PAIR, &other, &why);
		assert_int_equal(st, BB_OK);
		assert_true(GBps == other);
		if (pairs[i].GBps > GBps || pairs[i].GBps < GBps * pairs[i].least)
			print_message("%s %g of %g\n", pairs[i].system, pairs[i].GBps, GBps);
		assert_true(pairs[i].GBps <= GBps && pairs[i].GBps >= GBps * pairs[i].least);
		bb_strbuf_free(&why);
		bb_topology_free(t);
	}
}

/* ---- how they follow from links ------------------------------------------------------------- */

static void close_to(double a, double b)
{
	if (a < b * 0.9999 || a > b * 1.0001)
		print_message("%g, not %g\n", a, b);
	assert_true(a >= b * 0.9999 && a <= b * 1.0001);
}

static void test_formulas(void **state)
{
	const double ib = 4096.0 / 4122; /* payload of InfiniBand */

	close_to(bound("dgx-a100", 1, 8, RING), 300);
	close_to(bound("hgx-h100", 1, 8, RING), 450);
	close_to(bound("hgx-b200", 1, 8, RING), 900);
	close_to(bound("dgx-1v", 1, 8, RING), 150);
	/* Each GPU moves S + S/n. */
	close_to(bound("hgx-h100", 1, 8, NVLS), 450 * 14 / 9.0);
	close_to(bound("hgx-h100", 1, 4, NVLS), 450 * 6 / 5.0);
	/* Hierarchical: x 1.875 of the NICs on 2 nodes, x 1.29 on 4 (NVIDIA/nccl-tests#196). */
	close_to(bound("dgx-a100", 4, 8, TREE), 200 * ib * 4 / 3 * 31 / 32);
	close_to(bound("dgx-a100", 4, 8, RING), 200 * ib);
	close_to(bound("dgx-2", 2, 16, TREE), 150 * 16 / 15.0 * 31 / 32);
	/* Each node sends and receives the data once. */
	close_to(bound("hgx-h100", 32, 8, BB_BOUND_SHARP), 400 * ib * 2 * 255 / 256);
	close_to(bound("dgx-a100", 4, 8, BB_BOUND_SHARP), 300 * 8 / 7.0 * 31 / 32);
	close_to(bound("hgx-h100-roce", 4, 8, BB_BOUND_SHARP), 0);
	close_to(bound("hgx-h100", 1, 8, BB_BOUND_SHARP), 0);
	/* A GPU's share of the NICs x (n-1)/(n-g). */
	close_to(bound("dgx-a100", 4, 8, A2A), 25 * ib * 31 / 24);
	close_to(bound("hgx-h100", 2, 8, A2A), 50 * ib * 15 / 8);
	/* Over the middle of the cube: 16 pairs' traffic over 6 links. */
	close_to(bound("dgx-1v", 1, 8, A2A), 6 * 25 * 7 / 16.0);
	/* Only the NICs nearest to the GPUs that take part: one for each two on DGX-2. */
	close_to(bound("dgx-2", 2, 2, RING), 12.5 * ib);
	close_to(bound("dgx-2", 2, 4, RING), 25 * ib);
	/* Sixteen GPUs behind eight slots: 36 lanes are not needed for NICs. */
	close_to(bound("hgx-h100", 2, 1, RING), 50 * ib);
}

/* Rings of NVLinks among some of a cube's GPUs; without one it is PCIe. */
static void test_parts_of_a_cube(void **state)
{
	static const struct {
		int gpus[4];
		int n;
		double GBps;
	} sets[] = {
		{{0, 1, 2, 3}, 4, 100}, /* four links of GPU0 lead to the other three */
		{{0, 3}, 2, 50},        {{0, 1}, 2, 25},
		{{0, 1, 2}, 3, 50},     {{0, 4, 7}, 3, 14.4034}, /* GPU7 has no link to GPU0 */
		{{0, 5}, 2, 14.4034},
	};
	struct bb_topology *t = system_of("dgx-1v", 0);

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		struct bb_rank_place ranks[4];
		struct bb_strbuf why = {0};
		double GBps;
		bb_status st;

		for (int k = 0; k < sets[i].n; k++)
			ranks[k] = (struct bb_rank_place){0, sets[i].gpus[k]};
		st = bb_speed_of_light(t, ranks, sets[i].n, RING, &GBps, &why);
		assert_int_equal(st, BB_OK);
		close_to(GBps, sets[i].GBps);
		bb_strbuf_free(&why);
	}
	bb_topology_free(t);
}

#define GEN4 28.8068 /* payload of PCIe, generation 4 x16 */

static void test_pcie_boxes(void **state)
{
	struct bb_topology *t;
	struct bb_strbuf why = {0};

	close_to(bound("pcie-l40s", 1, 8, RING), GEN4);
	close_to(bound("pcie-l40s", 1, 4, RING), GEN4);
	/* Sixteen pairs each way over the link above a switch, as bus bandwidth of eight ranks. */
	close_to(bound("pcie-l40s", 1, 8, A2A), GEN4 * 7 / 16);
	/* Without P2P what four GPUs send goes up that link, even to each other. */
	t = system_of("pcie-l40s", 0);
	memset(t->p2p, BB_P2P_NOT_SUPPORTED, 64);
	close_to(bound_of(t, 4, RING, &why), GEN4 / 4);
	close_to(bound_of(t, 4, A2A, &why), GEN4 / 4);
	bb_topology_free(t);
	/* Bridges: each pair is left by both of its slots. */
	close_to(bound("pcie-h100", 1, 4, RING), 4 * GEN4);
	bb_strbuf_free(&why);
}

/* No ring passes through a GPU without NVLinks, however many paths the other 15 have. */
static void test_mesh_without_ring(void **state)
{
	struct bb_topology *t = system_of("dgx-2", 1);
	struct bb_strbuf why = {0};
	struct bb_error error = {0};

	t->nlinks = 0;
	for (int i = 0; i < 15 * 15; i++) {
		const struct bb_link link = {.kind = BB_NVLINK,
					     .device = i / 15,
					     .peer = i % 15,
					     .count = 1,
					     .GBps = 25};

		if (link.device != link.peer)
			assert_int_equal(bb_add_link(t, &link, &error), BB_OK);
	}
	assert_true(bound_of(t, 16, RING, &why) > 0);
	assert_non_null(strstr(bb_strbuf_text(&why), "PCIe"));
	bb_strbuf_clear(&why);
	assert_true(bound_of(t, 15, RING, &why) > 0);
	assert_non_null(strstr(bb_strbuf_text(&why), "NVLink"));
	bb_strbuf_free(&why);
	bb_topology_free(t);
}

static void test_faults_show(void **state)
{
	struct bb_topology *t = system_of("hgx-h100", 2);
	struct bb_strbuf why = {0};

	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].device == 3)
			t->links[l].count = 9;
	close_to(bound_of(t, 8, RING, &why), 9 * 25.0);
	bb_topology_free(t);
	t = system_of("hgx-h100", 4);
	t->devices[bb_topology_find(t, "mlx5_0")].state = BB_STATE_DOWN;
	/* Its GPU goes to the nearest that is left; one of the eight is missing. */
	assert_true(bound_of(t, 8, RING, &why) < 352);
	bb_topology_free(t);
	t = system_of("pcie-4090", 0);
	t->pcis[t->devices[2].pci].now = bb_pcie(1, 8); /* asleep, and eight lanes */
	close_to(bound_of(t, 4, RING, &why), GEN4 / 2);
	bb_topology_free(t);
	bb_strbuf_free(&why);
}

/* ---- sentences, and what has no bound
   ------------------------------------------------------------- */

static void explains(const char *system, int nodes, int each, enum bb_bound what, const char *words)
{
	struct bb_topology *t = system_of(system, nodes);
	struct bb_strbuf why = {0};

	bound_of(t, each, what, &why);
	if (!strstr(bb_strbuf_text(&why), words))
		print_message("%s: %s\n", system, bb_strbuf_text(&why));
	assert_non_null(strstr(bb_strbuf_text(&why), words));
	bb_strbuf_free(&why);
	bb_topology_free(t);
}

static void test_sentences(void **state)
{
	explains("hgx-h100", 1, 8, RING, "18 NVLink4 × 25 GB/s payload = 450 GB/s");
	explains("hgx-h100", 1, 2, BB_BOUND_PAIR, "18 NVLink4 × 25 GB/s payload = 450 GB/s");
	explains("dgx-1v", 1, 8, RING, "6 NVLink2 × 25 GB/s payload leave GPU0 = 150 GB/s");
	explains("dgx-a100", 4, 8, RING,
		 "out of a node: 8 NICs × 200 Gb/s InfiniBand × 0.994 payload = 199 GB/s");
	explains("gb200-nvl72", 36, 4, A2A, "out of an NVLink domain: 72 NICs × 400 Gb/s");
	explains("pcie-4090", 1, 2, BB_BOUND_PAIR, "through host memory without P2P");
	explains("dgx-a100", 1, 8, NVLS, "NVLS needs NVSwitches that reduce");
	explains("hgx-h100", 4, 1, NVLS, "NVLS needs several GPUs");
}

static void refuses(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
		    enum bb_bound what, bb_status wanted, const char *words)
{
	struct bb_strbuf why = {0};
	double GBps = 1;
	bb_status st = bb_speed_of_light(t, ranks, n, what, &GBps, &why);

	if (!strstr(bb_strbuf_text(&why), words))
		print_message("%s\n", bb_strbuf_text(&why));
	assert_int_equal(st, wanted);
	assert_true(GBps == 0);
	assert_non_null(strstr(bb_strbuf_text(&why), words));
	bb_strbuf_free(&why);
}

static void test_refused(void **state)
{
	struct bb_topology *t = system_of("hgx-h100", 2);
	const int nic = bb_topology_find(t, "mlx5_0");

	refuses(t, (struct bb_rank_place[]){{0, 0}}, 1, RING, BB_EUSAGE, "two ranks or more");
	refuses(t, (struct bb_rank_place[]){{0, 0}, {0, 1}, {0, 2}}, 3, BB_BOUND_PAIR, BB_EUSAGE,
		"a pair has two ranks, not 3");
	refuses(t, (struct bb_rank_place[]){{0, 0}, {2, 0}}, 2, RING, BB_EUSAGE,
		"rank 1 is on node 2");
	refuses(t, (struct bb_rank_place[]){{0, 0}, {0, nic}}, 2, RING, BB_EUSAGE, "no GPU");
	refuses(t, (struct bb_rank_place[]){{0, 0}, {0, 0}}, 2, RING, BB_EUSAGE,
		"two ranks are on GPU0");
	refuses(t, (struct bb_rank_place[]){{0, -1}, {0, -1}}, 2, RING, BB_EUNSUPPORTED,
		"one host");
	refuses(t, (struct bb_rank_place[]){{0, -1}, {0, -1}, {0, 0}}, 3, RING, BB_EUNSUPPORTED,
		"some ranks are on GPUs");
	for (int d = 0; d < t->ndevices; d++)
		t->devices[d].state = BB_STATE_DOWN;
	refuses(t, (struct bb_rank_place[]){{0, 0}, {1, 0}}, 2, RING, BB_EUNSUPPORTED, "no NIC");
	bb_topology_free(t);
	t = system_of("pcie-l40s", 0);
	t->pcis[t->devices[1].pci].now = t->pcis[t->devices[1].pci].most = (struct bb_pcie){0};
	refuses(t, (struct bb_rank_place[]){{0, 0}, {0, 1}}, 2, RING, BB_EUNSUPPORTED,
		"the PCIe link of GPU1 is not known");
	bb_topology_free(t);
}

/* Ranks on the CPUs of several hosts are bounded by the fastest NICs of each. */
static void test_hosts(void **state)
{
	struct bb_topology *t = system_of("pcie-l40s", 3);
	struct bb_rank_place ranks[12];
	struct bb_strbuf why = {0};
	double GBps;
	bb_status st;

	for (int i = 0; i < 12; i++)
		ranks[i] = (struct bb_rank_place){i / 4, BB_ON_HOST};
	st = bb_speed_of_light(t, ranks, 12, RING, &GBps, &why);
	assert_int_equal(st, BB_OK);
	close_to(GBps, 2 * 25 * 4096.0 / 4178);
	bb_strbuf_free(&why);
	bb_topology_free(t);
}

/* The order of ranks does not matter, and a hundred thousand take no time. */
static void test_many(void **state)
{
	struct bb_topology *t = system_of("hgx-h100", 12800);
	struct bb_rank_place *ranks;
	struct bb_strbuf why = {0};
	double GBps, turned;
	int n;
	bb_status st;

	ranks = bb_all_gpus(t, t->nodes, &n);
	assert_int_equal(n, 102400);
	st = bb_speed_of_light(t, ranks, n, TREE, &GBps, &why);
	assert_int_equal(st, BB_OK);
	for (int i = 0; i < n / 2; i++) {
		struct bb_rank_place other = ranks[i];

		ranks[i] = ranks[n - 1 - i];
		ranks[n - 1 - i] = other;
	}
	st = bb_speed_of_light(t, ranks, n, TREE, &turned, &why);
	assert_int_equal(st, BB_OK);
	assert_true(GBps == turned);
	close_to(GBps, 50 * 8 * 4096.0 / 4122 * 12800 / 12799 * 102399 / 102400);
	free(ranks);
	bb_strbuf_free(&why);
	bb_topology_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_measured),
		cmocka_unit_test(test_without_shared_switches),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_parts_of_a_cube),
		cmocka_unit_test(test_pcie_boxes),
		cmocka_unit_test(test_mesh_without_ring),
		cmocka_unit_test(test_faults_show),
		cmocka_unit_test(test_sentences),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
