/*
 * test_topology.c - the known systems against what nvidia-smi topo -m prints on the real ones, and
 * what findings and comparison make of planted faults.
 */
#include "topology/bound.h"
#include "topology/systems.h"
#include "topology/rates.h"
#include "topology/topology.h"
#include "topology_tool/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bb_topology *system_of(const char *name)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {0};

	assert_int_equal(bb_topology_system(name, &t, &error), BB_OK);
	return t;
}

/* ---- paths ---------------------------------------------------------------------------------- */

/* Rows as nvidia-smi prints them, of the devices that are named in FIRST; users' own prints:
   DGX-1V in NVIDIA's DGX-1 guide, DGX-2 in NVIDIA/nccl-tests#78, DGX A100 in NVIDIA/nccl#1505,
   H100 in NVIDIA/nccl#1264 (where newer drivers say NODE instead of SYS within a package). */
static const struct {
	const char *system, *row, *paths;
} rows[] = {
	{"v100-x4", "GPU2", "NV2 NV2 X NV2 PIX"},
	{"dgx-1v", "GPU0", "X NV1 NV1 NV2 NV2 SYS SYS SYS PIX PHB SYS SYS"},
	{"dgx-1v", "GPU1", "NV1 X NV2 NV1 SYS NV2 SYS SYS PIX PHB SYS SYS"},
	{"dgx-1v", "GPU2", "NV1 NV2 X NV2 SYS SYS NV1 SYS PHB PIX SYS SYS"},
	{"dgx-1v", "GPU3", "NV2 NV1 NV2 X SYS SYS SYS NV1 PHB PIX SYS SYS"},
	{"dgx-1v", "GPU4", "NV2 SYS SYS SYS X NV1 NV1 NV2 SYS SYS PIX PHB"},
	{"dgx-1v", "GPU5", "SYS NV2 SYS SYS NV1 X NV2 NV1 SYS SYS PIX PHB"},
	{"dgx-1v", "GPU6", "SYS SYS NV1 SYS NV1 NV2 X NV2 SYS SYS PHB PIX"},
	{"dgx-1v", "GPU7", "SYS SYS SYS NV1 NV2 NV1 NV2 X SYS SYS PHB PIX"},
	{"dgx-2", "GPU0",
	 "X NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 "
	 "PIX PXB NODE NODE SYS SYS SYS SYS SYS SYS"},
	{"dgx-2", "GPU3",
	 "NV6 NV6 NV6 X NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 "
	 "PXB PIX NODE NODE SYS SYS SYS SYS SYS SYS"},
	{"dgx-2", "GPU4",
	 "NV6 NV6 NV6 NV6 X NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 NV6 "
	 "NODE NODE PIX PXB SYS SYS SYS SYS SYS SYS"},
	{"dgx-a100", "GPU0",
	 "X NV12 NV12 NV12 NV12 NV12 NV12 NV12 PXB PXB SYS SYS SYS SYS SYS SYS SYS SYS SYS SYS"},
	{"dgx-a100", "GPU3",
	 "NV12 NV12 NV12 X NV12 NV12 NV12 NV12 SYS SYS PXB PXB SYS SYS SYS SYS SYS SYS SYS SYS"},
	{"dgx-a100", "GPU4",
	 "NV12 NV12 NV12 NV12 X NV12 NV12 NV12 SYS SYS SYS SYS SYS SYS PXB PXB SYS SYS SYS SYS"},
	{"hgx-h100", "GPU5",
	 "NV18 NV18 NV18 NV18 NV18 X NV18 NV18 SYS SYS SYS SYS NODE PIX NODE NODE SYS SYS"},
	{"hgx-b200", "GPU0",
	 "X NV18 NV18 NV18 NV18 NV18 NV18 NV18 PIX NODE NODE NODE SYS SYS SYS SYS NODE NODE"},
	{"gb200-nvl72", "GPU2", "NV18 NV18 X NV18 SYS SYS NODE NODE"},
	{"gb300-nvl72", "GPU2", "NV18 NV18 X NV18 SYS SYS PIX NODE"},
	/* As nvidia-smi prints it on p6-b200.48xlarge. */
	{"aws-p6-b200", "GPU2",
	 "NV18 NV18 X NV18 NV18 NV18 NV18 NV18 NODE NODE PIX PIX SYS SYS SYS SYS"},
	{"mi300x-x8", "GPU1",
	 "XGMI X XGMI XGMI XGMI XGMI XGMI XGMI NODE PIX NODE NODE SYS SYS SYS SYS"},
	{"pcie-l40s", "GPU1", "PIX X PIX PIX SYS SYS SYS SYS PIX SYS"},
	{"pcie-4090", "GPU0", "X NODE SYS SYS NODE"},
	{"pcie-h100", "GPU3", "SYS SYS NV12 X SYS"},
};

static void print_row(const struct bb_topology *t, int device, char *text, size_t size)
{
	size_t at = 0;
	char word[BB_PATH_TEXT];

	for (int e = 0; e < t->ndevices; e++) {
		int n;
		enum bb_path path = bb_topology_path(t, device, e, &n);

		at += (size_t)snprintf(text + at, size - at, "%s%s", e ? " " : "",
				       bb_topology_path_text(word, path, n));
	}
}

static void test_matrices(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct bb_topology *t = system_of(rows[i].system);
		char text[512];

		print_row(t, bb_topology_find(t, rows[i].row), text, sizeof(text));
		if (strcmp(text, rows[i].paths) != 0)
			print_message("%s %s\n", rows[i].system, rows[i].row);
		assert_string_equal(text, rows[i].paths);
		bb_topology_free(t);
	}
}

/* A path is as long from either end, and NVLinks are there from both. */
static void test_symmetry(void **state)
{
	for (int s = 0; bb_system_at(s); s++) {
		struct bb_topology *t = system_of(bb_system_at(s)->name);

		assert_true(strlen(bb_system_at(s)->brief) < 66);
		assert_true(t->ndevices > 0 && t->npcis > 0);
		for (int d = 0; d < t->ndevices; d++)
			for (int e = 0; e < t->ndevices; e++) {
				int n, m;

				assert_int_equal(bb_topology_path(t, d, e, &n),
						 bb_topology_path(t, e, d, &m));
				assert_int_equal(n, m);
			}
		for (int p = 0; p < t->npcis; p++)
			assert_true(t->pcis[p].parent < p);
		bb_topology_free(t);
	}
}

static void test_unknown_system(void **state)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {0};

	assert_int_equal(bb_topology_system("hgx-h10", &t, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "hgx-h100"));
	assert_null(t);
}

static void test_alias(void **state)
{
	assert_ptr_equal(bb_system_find("dgx-b200"), bb_system_find("hgx-b200"));
	assert_null(bb_system_find("dgx-b2"));
}

/* Affinities as nvidia-smi prints them. */
static void test_affinity(void **state)
{
	struct bb_topology *a = system_of("dgx-a100"), *h = system_of("hgx-h100");
	const int numa = a->devices[bb_topology_find(a, "GPU0")].numa;

	assert_int_equal(a->host.numas[numa].os, 3);
	assert_string_equal(a->host.numas[numa].cpus, "48-63,176-191");
	assert_string_equal(h->host.numas[h->devices[4].numa].cpus, "56-111,168-223");
	assert_int_equal(h->host.ncores, 112);
	assert_int_equal(h->host.nthreads, 224);
	bb_topology_free(a);
	bb_topology_free(h);
}

/* ---- rates ---------------------------------------------------------------------------------- */

static void near(double value, double wanted, double part)
{
	if (value < wanted * (1 - part) || value > wanted * (1 + part))
		print_message("%g, not %g\n", value, wanted);
	assert_true(value >= wanted * (1 - part) && value <= wanted * (1 + part));
}

static void test_rates(void **state)
{
	struct bb_pcie gen3 = bb_pcie(3, 16), gen5 = bb_pcie(5, 16), none = bb_pcie(0, 16);

	near(gen3.GBps, 15.75, 0.001);
	near(gen5.GBps, 63.0, 0.001);
	near(bb_pcie_usable(&gen3), 12, 0);
	near(bb_pcie_usable(&gen5), 48, 0);
	near(bb_pcie_payload(&gen5), 57.6, 0.001);
	assert_true(none.GBps == 0);
	for (int gen = -1; gen <= 9; gen++)
		assert_int_equal(bb_pcie(gen, 16).gen, gen >= 1 && gen <= 6 ? gen : 0);
	for (int width = -1; width <= 66; width++)
		assert_int_equal(bb_pcie(4, width).width, width >= 1 && width <= 64 ? width : 0);
	assert_int_equal(bb_pcie_gen(8), 3);
	assert_int_equal(bb_pcie_gen(16.0), 4);
	assert_int_equal(bb_pcie_gen(12.3), 0);
	assert_int_equal(bb_nvlink_of(90).version, 4);
	assert_int_equal(bb_nvlink_of(89).version, 0);
	assert_int_equal(bb_gpu_sm("NVIDIA H100 80GB HBM3"), 90);
	assert_int_equal(bb_gpu_sm("NVIDIA A100-SXM4-80GB"), 80);
	assert_int_equal(bb_gpu_sm("NVIDIA A10G"), 86);
	assert_int_equal(bb_gpu_sm("something else"), 0);
	assert_int_equal(bb_efa_generation(&(struct bb_pci){.vendor = 0x1d0f, .device = 0xefa0}),
			 1);
	assert_int_equal(bb_efa_generation(&(struct bb_pci){.vendor = 0x1d0f, .device = 0xefa2}),
			 3);
	assert_int_equal(bb_efa_generation(&(struct bb_pci){.vendor = 0x1d0f, .device = 0xec20}),
			 0);
	assert_int_equal(bb_efa_generation(&(struct bb_pci){.vendor = 0x15b3, .device = 0xefa1}),
			 0);
}

/* ---- findings ------------------------------------------------------------------------------- */

struct told {
	int n;
	char text[32][320];
};

static void keep(void *context, const char *text)
{
	struct told *told = context;

	assert_true(told->n < 32);
	snprintf(told->text[told->n++], sizeof(told->text[0]), "%s", text);
}

/* Exactly one sentence, with these words. */
static void only(const struct told *told, const char *a, const char *b)
{
	for (int i = 0; i < told->n; i++)
		if (told->n != 1 || !strstr(told->text[i], a) || !strstr(told->text[i], b))
			print_message("%s\n", told->text[i]);
	assert_int_equal(told->n, 1);
	assert_non_null(strstr(told->text[0], a));
	assert_non_null(strstr(told->text[0], b));
}

static struct told findings_of(const struct bb_topology *t)
{
	struct told told = {0};

	int n = bb_topology_findings(t, keep, &told);

	assert_int_equal(n, told.n);
	return told;
}

static void test_nothing_found(void **state)
{
	for (int s = 0; bb_system_at(s); s++) {
		struct bb_topology *t = system_of(bb_system_at(s)->name);
		struct told told = findings_of(t);

		assert_int_equal(told.n, bb_system_at(s)->no_p2p);
		bb_topology_free(t);
	}
}

static struct bb_pci *slot_of(struct bb_topology *t, const char *name)
{
	return &t->pcis[t->devices[bb_topology_find(t, name)].pci];
}

static void test_narrow_slot(void **state)
{
	struct bb_topology *t = system_of("hgx-h100");
	struct bb_pci *p = slot_of(t, "GPU3");
	struct told told;

	p->now = bb_pcie(5, 8);
	told = findings_of(t);
	only(&told, "GPU3: runs at PCIe x8; the card supports x16", "reseat");
	t->pcis[p->parent].most.width = 8;
	told = findings_of(t);
	only(&told, "GPU3: runs at PCIe x8", "its slot has x8");
	bb_topology_free(t);
}

/* A sleeping GPU lowers its generation: nothing to tell. A NIC does not sleep. */
static void test_low_speed(void **state)
{
	struct bb_topology *t = system_of("hgx-h100");
	struct told told;

	slot_of(t, "GPU3")->now = bb_pcie(1, 16);
	told = findings_of(t);
	assert_int_equal(told.n, 0);
	slot_of(t, "mlx5_2")->now = bb_pcie(3, 16);
	told = findings_of(t);
	only(&told, "mlx5_2", "generation 3; both ends support 5");
	bb_topology_free(t);
}

static struct bb_link *link_of(struct bb_topology *t, int gpu)
{
	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].device == gpu)
			return &t->links[l];
	return NULL;
}

static void test_lost_links(void **state)
{
	struct bb_topology *t = system_of("hgx-h100");
	struct told told;

	link_of(t, 5)->count = 12;
	told = findings_of(t);
	only(&told, "GPU5: 12 NVLinks", "have 18");
	link_of(t, 5)->down = 6;
	told = findings_of(t);
	only(&told, "GPU5: 6 of 18 NVLinks are down", "");
	bb_topology_free(t);
	t = system_of("v100-x4");
	link_of(t, 0)->count = 1; /* seen from one end only */
	told = findings_of(t);
	assert_int_equal(told.n, 2);
	assert_non_null(strstr(told.text[1], "GPU0 has 1 NVLink to GPU1, which has 2 back"));
	bb_topology_free(t);
}

static void test_p2p_and_acs(void **state)
{
	struct bb_topology *t = system_of("pcie-l40s");
	struct told told;

	t->p2p[0 * 8 + 4] = t->p2p[4 * 8 + 0] = BB_P2P_TOPOLOGY;
	told = findings_of(t);
	only(&told, "no P2P between 1 pair of GPUs, such as GPU0 and GPU4", "path between them");
	t->p2p[0 * 8 + 4] = t->p2p[4 * 8 + 0] = BB_P2P_OK;
	t->pcis[slot_of(t, "GPU0")->parent].acs = BB_ACS_REDIRECT;
	told = findings_of(t);
	only(&told, "ACS sends P2P of 1 device", "");
	bb_topology_free(t);
	t = system_of("pcie-4090");
	told = findings_of(t);
	only(&told, "no P2P between any two GPUs", "chipset");
	bb_topology_free(t);
}

static void test_nics(void **state)
{
	struct bb_topology *t = system_of("hgx-h100");
	struct bb_device *nic = &t->devices[bb_topology_find(t, "mlx5_4")];
	struct told told;

	nic->rate_Mbps = 200000;
	told = findings_of(t);
	only(&told, "mlx5_4: 200 Gb/s", "at 400");
	nic->state = BB_STATE_DOWN;
	told = findings_of(t);
	only(&told, "mlx5_4: its port is down", "");
	nic->state = BB_STATE_UP;
	nic->rate_Mbps = 400000;
	slot_of(t, "mlx5_4")->now = slot_of(t, "mlx5_4")->most = bb_pcie(4, 16);
	told = findings_of(t);
	only(&told, "mlx5_4: its PCIe link carries 28.8 GB/s, its port 49.7", "");
	bb_topology_free(t);
	/* Enough for its port, but less than those of its equals. */
	t = system_of("oci-h100");
	slot_of(t, "mlx5_4")->now = slot_of(t, "mlx5_4")->most = bb_pcie(5, 8);
	told = findings_of(t);
	only(&told, "mlx5_4: its PCIe link carries 28.8 GB/s, where", "carry 57.6");
	bb_topology_free(t);
}

static void test_hidden_gpu(void **state)
{
	struct bb_topology *t = system_of("hgx-h100");
	struct told told;

	t->hidden_gpus = 1;
	told = findings_of(t);
	only(&told, "1 GPU is on the bus", "outside this container");
	t->hidden_gpus = 0;
	t->devices[0].numa = -1;
	told = findings_of(t);
	only(&told, "GPU0", "NUMA node");
	bb_topology_free(t);
}

/* ---- comparing ------------------------------------------------------------------------------ */

static struct told diff_of(const struct bb_topology *a, const struct bb_topology *b)
{
	struct told told = {0};
	struct bb_strbuf text = {0};
	const int n = bb_print_diff(a, b, "A", "B", 1000, &text);
	char *rest = text.text, *line;

	while ((line = strsep(&rest, "\n")) && *line) {
		assert_memory_equal(line, "  - ", 4);
		keep(&told, line + 4);
	}
	bb_strbuf_free(&text);
	assert_int_equal(n, told.n);
	return told;
}

static void test_alike(void **state)
{
	for (int s = 0; bb_system_at(s); s++) {
		struct bb_topology *a = system_of(bb_system_at(s)->name);

		for (int o = 0; bb_system_at(o); o++) {
			struct bb_topology *b = system_of(bb_system_at(o)->name);
			struct told told = {0};

			if (o == s)
				told = diff_of(a, b);
			assert_int_equal(told.n, 0);
			assert_true((bb_topology_digest(a) == bb_topology_digest(b)) == (o == s));
			bb_topology_free(b);
		}
		bb_topology_free(a);
	}
}

static void swap_devices(struct bb_topology *t, int a, int b)
{
	struct bb_device device = t->devices[a];

	t->devices[a] = t->devices[b];
	t->devices[b] = device;
	for (int l = 0; l < t->nlinks; l++) {
		struct bb_link *link = &t->links[l];

		link->device = link->device == a ? b : link->device == b ? a : link->device;
		link->peer = link->peer == a ? b : link->peer == b ? a : link->peer;
	}
}

/* Other numbers of the buses are no difference, nor for the digest is another order of devices. */
static void test_other_order(void **state)
{
	struct bb_topology *a = system_of("dgx-1v"), *b = system_of("dgx-1v");
	struct told told;

	for (int p = 0; p < b->npcis; p++)
		snprintf(b->pcis[p].id, sizeof(b->pcis[p].id), "0000:%02x:00.0", 200 - p);
	told = diff_of(a, b);
	assert_int_equal(told.n, 0);
	swap_devices(b, 0, 7);
	swap_devices(b, 2, 5);
	swap_devices(b, 8, 11);
	assert_true(bb_topology_digest(a) == bb_topology_digest(b));
	/* But this machine's links go other ways. */
	b->links[0].count++;
	assert_true(bb_topology_digest(a) != bb_topology_digest(b));
	told = diff_of(a, b);
	assert_true(told.n > 0);
	bb_topology_free(a);
	bb_topology_free(b);
}

static void drop_device(struct bb_topology *t, const char *name)
{
	int d = bb_topology_find(t, name);

	assert_true(d >= bb_topology_count(t, BB_GPU)); /* GPUs have links */
	memmove(t->devices + d, t->devices + d + 1,
		(size_t)(t->ndevices - d - 1) * sizeof(*t->devices));
	t->ndevices--;
}

static void test_missing_nic(void **state)
{
	struct bb_topology *a = system_of("hgx-h100"), *b = system_of("hgx-h100");
	struct told told;

	/* The ones behind move up, as the kernel numbers them. */
	drop_device(b, "mlx5_5");
	for (int d = bb_topology_find(b, "mlx5_6"); d < b->ndevices; d++)
		snprintf(b->devices[d].name, sizeof(b->devices[d].name), "mlx5_%d", d - 8);
	told = diff_of(a, b);
	only(&told, "mlx5_5 is missing from B", "24:00.0 Gen5 x16, ConnectX-7");
	told = diff_of(b, a);
	only(&told, "mlx5_5 is only in B", "400 Gb/s");
	bb_topology_free(a);
	bb_topology_free(b);
}

static void test_lost_links_differ(void **state)
{
	struct bb_topology *a = system_of("hgx-h100"), *b = system_of("hgx-h100");
	struct told told;

	link_of(b, 6)->count = 16;
	told = diff_of(a, b);
	assert_int_equal(told.n, 1 + 7); /* and its seven pairs */
	assert_string_equal(told.text[0], "NVLinks of GPU6: 18 in A, 16 in B");
	assert_string_equal(told.text[1], "between GPU0 and GPU6: NV18 in A, NV16 in B");
	bb_topology_free(a);
	bb_topology_free(b);
}

static void test_host_differs(void **state)
{
	struct bb_topology *a = system_of("hgx-h100"), *b = system_of("hgx-h100");
	struct told told;

	b->host.numas[1].bytes -= b->host.numas[1].bytes / 200; /* firmware takes some */
	told = diff_of(a, b);
	assert_int_equal(told.n, 0);
	b->host.numas[1].bytes /= 2;
	told = diff_of(a, b);
	only(&told, "memory of NUMA node 1", "in B");
	b->host.numas[1].bytes = a->host.numas[1].bytes;
	b->host.distances[1] = 31;
	told = diff_of(a, b);
	only(&told, "distance from NUMA node 0 to 1: 21 in A, 31 in B", "");
	b->host.distances[1] = 21;
	b->devices[bb_topology_find(b, "mlx5_3")].state = BB_STATE_DOWN;
	told = diff_of(a, b);
	only(&told, "port of mlx5_3: up in A, down in B", "");
	bb_topology_free(a);
	bb_topology_free(b);
}

/* Six GPUs with two links each, joined to one ring or to two: of the same signatures each, yet not
   alike. */
static void test_rings_differ(void **state)
{
	static const int peers[2][6][2] = {{{1, 5}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {0, 4}},
					   {{1, 2}, {0, 2}, {0, 1}, {4, 5}, {3, 5}, {3, 4}}};
	struct bb_device devices[6];
	struct bb_link links[2][12];
	struct bb_topology t[2] = {{.nodes = 1}, {.nodes = 1}};
	struct told told;

	for (int d = 0; d < 6; d++) {
		devices[d] = (struct bb_device){.kind = BB_GPU, .pci = -1, .numa = -1};
		snprintf(devices[d].name, sizeof(devices[d].name), "GPU%d", d);
	}
	for (int k = 0; k < 2; k++) {
		for (int l = 0; l < 12; l++)
			links[k][l] = (struct bb_link){
				.device = l / 2, .peer = peers[k][l / 2][l % 2], .count = 1};
		t[k].devices = devices;
		t[k].ndevices = 6;
		t[k].links = links[k];
		t[k].nlinks = 12;
		assert_true(bb_topology_digest(&t[k]) == bb_topology_digest(&t[0]));
	}
	told = diff_of(&t[0], &t[1]);
	assert_int_equal(told.n, 4);
	assert_string_equal(told.text[0], "between GPU0 and GPU2: NODE in A, NV1 in B");
	assert_string_equal(told.text[1], "between GPU0 and GPU5: NV1 in A, NODE in B");
	assert_string_equal(told.text[2], "between GPU2 and GPU3: NV1 in A, NODE in B");
	assert_string_equal(told.text[3], "between GPU3 and GPU5: NODE in A, NV1 in B");
}

/* Makes difference number HOW between A and B, two equal machines. Returns the line that names it;
   NULL: there is none more. */
static const char *make_differ(int how, struct bb_topology *a, struct bb_topology *b)
{
	struct bb_device *gpu = &b->devices[1], *nic = &b->devices[bb_topology_find(b, "mlx5_2")];
	struct bb_pci *slot = &b->pcis[nic->pci];

	switch (how) {
	case 0:
		gpu->bytes /= 2;
		return "memory of GPU1: ";
	case 1:
		strcpy(gpu->model, "H20");
		return "model of GPU1: ";
	case 2:
		nic->rate_Mbps = 100000;
		return "rate of mlx5_2 in Mb/s: 400000 in A, 100000 in B";
	case 3:
		a->devices[nic - b->devices].layer = BB_INFINIBAND;
		nic->layer = BB_ETHERNET;
		return "link layer of mlx5_2: InfiniBand in A, Ethernet in B";
	case 4:
		a->devices[1].gdr = BB_GDR_ON;
		gpu->gdr = BB_GDR_OFF;
		return "GPUDirect RDMA of GPU1: on in A, off in B";
	case 5:
		slot->now.width = 8;
		return "PCIe lanes of mlx5_2: 16 in A, 8 in B";
	case 6:
		slot->most.width = 8;
		return "maximum PCIe lanes of mlx5_2: 16 in A, 8 in B";
	case 7:
		slot->most.gen = 4;
		return "PCIe generation of mlx5_2: 5 in A, 4 in B";
	case 8:
		b->host.npackages--;
		return "packages: 2 in A, 1 in B";
	case 9:
		b->host.ncores--;
		return "cores: ";
	case 10:
		b->host.nthreads--;
		return "hardware threads: ";
	case 11:
		strcpy(b->host.arch, "arm64");
		return "architecture: x86_64 in A, arm64 in B";
	default:
		return NULL;
	}
}

/* Each is one line, and makes another digest. */
static void test_each_difference(void **state)
{
	const char *wanted = "";

	for (int how = 0; wanted; how++) {
		struct bb_topology *a = system_of("hgx-h100"), *b = system_of("hgx-h100");
		struct told told;

		wanted = make_differ(how, a, b);
		told = diff_of(a, b);
		if (wanted)
			only(&told, wanted, "");
		assert_true((bb_topology_digest(a) == bb_topology_digest(b)) == !wanted);
		bb_topology_free(a);
		bb_topology_free(b);
	}
}

/* Drivers differ, but are no part of the machine; nor are links that one source does not know. */
static void test_sources_differ(void **state)
{
	struct bb_topology *a = system_of("hgx-h100"), *b = system_of("hgx-h100");
	struct told told;

	strcpy(a->driver, "550");
	strcpy(b->driver, "560");
	told = diff_of(a, b);
	only(&told, "driver of the GPUs: 550 in A, 560 in B", "");
	assert_true(bb_topology_digest(a) == bb_topology_digest(b));
	a->driver[0] = '\0';
	b->links_unknown = true;
	b->nlinks = 0;
	told = diff_of(a, b);
	assert_int_equal(told.n, 0);
	b->links_unknown = false;
	told = diff_of(a, b);
	assert_int_equal(told.n, 8 + 8 + 1);
	assert_string_equal(told.text[0], "NVLinks of GPU0: 18 in A, 0 in B");
	assert_string_equal(told.text[8 + 8], "and 20 more pairs of devices");
	bb_topology_free(a);
	bb_topology_free(b);
}

/* What one source does not know is no difference. */
static void test_unknown_is_alike(void **state)
{
	struct bb_topology *a = system_of("hgx-h100"), *b = system_of("hgx-h100");
	struct told told;

	for (int d = 0; d < b->ndevices; d++) {
		b->devices[d].rate_Mbps = 0;
		b->devices[d].state = BB_STATE_UNKNOWN;
		b->devices[d].layer = BB_LAYER_UNKNOWN;
		b->devices[d].bytes = 0;
		b->devices[d].sm = 0;
		b->pcis[b->devices[d].pci].now = b->pcis[b->devices[d].pci].most =
			(struct bb_pcie){0};
	}
	free(b->p2p);
	b->p2p = NULL;
	told = diff_of(a, b);
	assert_int_equal(told.n, 0);
	bb_topology_free(a);
	bb_topology_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrices),          cmocka_unit_test(test_symmetry),
		cmocka_unit_test(test_unknown_system),    cmocka_unit_test(test_alias),
		cmocka_unit_test(test_affinity),          cmocka_unit_test(test_rates),
		cmocka_unit_test(test_nothing_found),     cmocka_unit_test(test_narrow_slot),
		cmocka_unit_test(test_low_speed),         cmocka_unit_test(test_lost_links),
		cmocka_unit_test(test_p2p_and_acs),       cmocka_unit_test(test_nics),
		cmocka_unit_test(test_hidden_gpu),        cmocka_unit_test(test_alike),
		cmocka_unit_test(test_other_order),       cmocka_unit_test(test_missing_nic),
		cmocka_unit_test(test_lost_links_differ), cmocka_unit_test(test_host_differs),
		cmocka_unit_test(test_unknown_is_alike),  cmocka_unit_test(test_rings_differ),
		cmocka_unit_test(test_each_difference),   cmocka_unit_test(test_sources_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
