/*
 * What the readers of topologies make of each cell, attribute and element: the matrix of
 * nvidia-smi, hwloc's XML and NCCL's XML.
 */
#include "topology/build.h"
#include "topology/files/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct bb_topology *good(const char *text)
{
	struct bb_error error = {0};
	struct bb_topology *t = NULL;

	if (bb_topology_parse(text, strlen(text), "FILE", &t, &error) != BB_OK)
		fail_msg("%s in\n%s", error.text, text);
	return t;
}

static void refused(const char *text, const char *words)
{
	struct bb_error error = {0};
	struct bb_topology *t = NULL;

	assert_int_equal(bb_topology_parse(text, strlen(text), "FILE", &t, &error), BB_EUSAGE);
	if (!strstr(error.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, error.text);
	assert_null(t);
}

/* What the operating system calls the NUMA node of DEVICE; -1: unknown. */
static int numa_of(const struct bb_topology *t, const char *device)
{
	return bb_numa_number(t, t->devices[bb_topology_find(t, device)].numa);
}

/* ---- nvidia-smi ----------------------------------------------------------------------------- */

/* The matrix has the paths of GPUs: all but links are told by its tree. */
static void test_smi_paths(void **state)
{
	static const char text[] =
		"$ nvidia-smi topo -m\n"
		"\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tNIC0\tCPU Affinity\tNUMA "
		"Affinity\x1b[0m\r\n"
		"GPU0\t X \tPIX\tPXB\tPHB\tNODE\tSYS\tSYS\t0-3,8\t0\r\n"
		"GPU1\tPIX\t X \tPXB\tPHB\tNODE\tSOC\tSYS\t0-3,8\t0\r\n"
		"GPU2\tPXB\tPXB\t X \tPHB\tNODE\tSYS\tSYS\t0-3,8\t0\r\n"
		"GPU3\tPHB\tPHB\tPHB\t X \tNODE\tSYS\tSYS\t0-3,8\t0\r\n"
		"GPU4\tNODE\tNODE\tNODE\tNODE\t X \tSYS\tSYS\t0-3,8\t0\r\n"
		"GPU5\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tPIX\t4-7\t1\r\n"
		"NIC0\tSYS\tSYS\tSYS\tSYS\tSYS\tPIX\t X \r\n"
		"\r\nLegend:\r\n  X    = Self\r\n"
		"  PIX  = at most one bridge\r\n\r\nNIC Legend:\r\n  NIC0: mlx5_7\r\n"
		"  GPU0: none\r\n";
	static const enum bb_path want[6] = {BB_PATH_SELF, BB_PATH_PIX,  BB_PATH_PXB,
					     BB_PATH_PHB,  BB_PATH_NODE, BB_PATH_SYS};
	struct bb_topology *const t = good(text);

	assert_int_equal(bb_topology_count(t, BB_GPU), 6);
	assert_int_equal(bb_topology_count(t, BB_NIC), 1);
	for (int a = 0; a < 6; a++)
		for (int b = 0; b < 6; b++)
			assert_int_equal(bb_topology_path(t, a, b, NULL), want[a == b       ? 0
									       : a + b == 1 ? 1
									       : a > b      ? a
											    : b]);
	assert_int_equal(bb_topology_path(t, 5, bb_topology_find(t, "mlx5_7"), NULL), BB_PATH_PIX);
	assert_int_equal(t->host.nnumas, 2);
	assert_string_equal(t->host.numas[0].cpus, "0-3,8");
	assert_string_equal(t->host.numas[1].cpus, "4-7");
	assert_int_equal(numa_of(t, "GPU4"), 0);
	assert_int_equal(numa_of(t, "mlx5_7"), 1); /* that of the GPU beside it */
	assert_int_equal(t->nlinks, 0);
	/* an outer switch with an inner one of two GPUs and one of GPU2; one of GPU5 and the NIC */
	assert_int_equal(t->npcis, 7 + 4);
	for (int d = 0; d < t->ndevices; d++) {
		const struct bb_pci *const p = &t->pcis[t->devices[d].pci];

		assert_int_equal(p->class_code, d < 6 ? 0x0302 : 0x0200);
		assert_int_equal(p->vendor, d < 6 ? 0x10de : 0);
		assert_int_equal(p->role, BB_PCI_ENDPOINT);
		assert_int_equal(p->numa, t->devices[d].numa);
	}
	assert_string_equal(t->pcis[0].id, "0000:01:00.0");
	bb_topology_free(t);
}

static void test_smi_numas(void **state)
{
	static const struct {
		const char *ab, *ac, *bc, *numas[3];
		int want[3];
	} cases[] = {
		/* A number that none has, or that of a GPU in the group. */
		{"SYS", "SYS", "SYS", {"0", "N/A", "1"}, {0, 2, 1}},
		{"SYS", "SYS", "SYS", {"1", "N/A", "0"}, {1, 2, 0}},
		{"SYS", "SYS", "SYS", {"N/A", "N/A", "N/A"}, {0, 1, 2}},
		{"SYS", "SYS", "SYS", {"N/A", "0", "N/A"}, {1, 0, 2}},
		{"SYS", "SYS", "SYS", {"3", "N/A", "N/A"}, {3, 0, 1}},
		{"NODE", "SYS", "SYS", {"N/A", "5", "N/A"}, {5, 5, 0}},
		{"PHB", "SYS", "SYS", {"5", "N/A", "N/A"}, {5, 5, 0}},
		{"SYS", "SYS", "NODE", {"N/A", "N/A", "7"}, {0, 7, 7}},
		{"SYS", "SYS", "SYS", {"0", "0", "0"}, {0, 0, 0}},
		/* the first of a range; what is too long is no number */
		{"SYS", "SYS", "SYS", {"2-3", "1,4", "65535"}, {2, 1, 65535}},
		{"SYS", "SYS", "SYS", {"10-123", "65536", "1x"}, {0, 1, 2}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];
		struct bb_topology *t;

		snprintf(text, sizeof(text),
			 "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
			 "GPU0\t X \t%s\t%s\t0\t%s\nGPU1\t%s\t X \t%s\t1\t%s\n"
			 "GPU2\t%s\t%s\t X \t2\t%s\n",
			 cases[i].ab, cases[i].ac, cases[i].numas[0], cases[i].ab, cases[i].bc,
			 cases[i].numas[1], cases[i].ac, cases[i].bc, cases[i].numas[2]);
		t = good(text);
		for (int g = 0; g < 3; g++)
			if (bb_numa_number(t, t->devices[g].numa) != cases[i].want[g])
				fail_msg("GPU%d is at NUMA node %d, not %d:\n%s", g,
					 bb_numa_number(t, t->devices[g].numa), cases[i].want[g],
					 text);
		bb_topology_free(t);
	}
}

static void test_smi_processors(void **state)
{
	static const struct {
		const char *list, *cpus; /* NULL: none */
	} cases[] = {
		{"0", "0"},    {"0-3", "0-3"},         {"0-3,8-11", "0-3,8-11"},
		{"N/A", NULL}, {"0-65535", "0-65535"}, {"65536", NULL},
		{"0-", NULL},  {"0,", NULL},           {"0x", NULL},
		{"-1", NULL},  {"0;1", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct bb_topology *t;

		snprintf(text, sizeof(text), "\tGPU0\tCPU Affinity\nGPU0\t X \t%s\t0\n",
			 cases[i].list);
		t = good(text);
		if (cases[i].cpus)
			assert_string_equal(t->host.numas[0].cpus, cases[i].cpus);
		else
			assert_null(t->host.numas[0].cpus);
		bb_topology_free(t);
	}
}

/* NVLinks lead to switches if a GPU has more than 18 to others. */
static void test_smi_links(void **state)
{
	static const struct {
		const char *ab, *ac, *bc;
		int to_b, to_c, to_switch, c_to_b; /* of GPU0; of GPU2 */
	} cases[] = {
		{"NV4", "NV2", "SYS", 4, 2, 0, 0},    {"NV9", "NV9", "NV1", 9, 9, 0, 1},
		{"NV10", "NV9", "NV1", 0, 0, 10, 0},  {"NV18", "SYS", "SYS", 18, 0, 0, 0},
		{"NV19", "SYS", "NODE", 0, 0, 19, 0}, {"NV99", "PIX", "PIX", 0, 0, 99, 0},
		{"SYS", "SYS", "NV1", 0, 0, 0, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];
		struct bb_topology *t;

		snprintf(text, sizeof(text),
			 "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\tX\t%s\t%s\nGPU1\t%s\tX\t%s\n"
			 "GPU2\t%s\t%s\tX\n",
			 cases[i].ab, cases[i].ac, cases[i].ab, cases[i].bc, cases[i].ac,
			 cases[i].bc);
		t = good(text);
		if (bb_topology_nvlinks(t, 0, 1) != cases[i].to_b ||
		    bb_topology_nvlinks(t, 1, 0) != cases[i].to_b ||
		    bb_topology_nvlinks(t, 0, 2) != cases[i].to_c ||
		    bb_topology_nvlinks(t, 0, BB_PEER_SWITCH) != cases[i].to_switch ||
		    bb_topology_nvlinks(t, 2, 1) != cases[i].c_to_b)
			fail_msg("%d to GPU1, %d to GPU2, %d to switches, %d from GPU2:\n%s",
				 bb_topology_nvlinks(t, 0, 1), bb_topology_nvlinks(t, 0, 2),
				 bb_topology_nvlinks(t, 0, BB_PEER_SWITCH),
				 bb_topology_nvlinks(t, 2, 1), text);
		bb_topology_free(t);
	}
}

/* Models and links that are down, before or after the matrix. */
static void test_smi_models(void **state)
{
#define TWO "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"
#define MODELS                                                                                     \
	"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n"                     \
	"\t Link 1: <inactive>\n\t Link 2: <inactive>\n"                                           \
	"GPU 1:  Tesla P100-SXM2-16GB  (UUID: GPU-2)\n\t Link 0: <inactive>\n"                     \
	"GPU 99: X (UUID)\n\t Link 0: <inactive>\n"
	static const char *const texts[] = {TWO "\n" MODELS, MODELS TWO, MODELS MODELS TWO,
					    TWO "\n" MODELS TWO};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct bb_topology *const t = good(texts[i]);
		const struct bb_link *const a = bb_topology_link(t, 0, BB_NVLINK),
					    *const b = bb_topology_link(t, 1, BB_NVLINK);

		assert_int_equal(bb_topology_count(t, BB_GPU), 2);
		assert_string_equal(t->devices[0].model, "H100 80GB HBM3");
		assert_string_equal(t->devices[1].model, "Tesla P100-SXM2-16GB");
		assert_int_equal(t->devices[0].sm, 90);
		assert_int_equal(t->devices[1].sm, 60);
		assert_int_equal(a->count, 4);
		assert_int_equal(a->version, 4);
		assert_int_equal(a->down, 2);
		assert_int_equal(b->count, 4);
		assert_int_equal(b->version, 1);
		assert_int_equal(b->down, 0); /* all: the driver shows none */
		assert_float_equal(b->GBps, 20, 1e-9);
		bb_topology_free(t);
	}
}

static void test_smi_refused(void **state)
{
	char text[8192];
	size_t used;

	refused("\tGPU0\tGPU1\tCPU\nGPU0\tX\tNV0\nGPU1\tNV0\tX\n", "line 2: \"NV0\"");
	refused("\tGPU0\tGPU1\tCPU\nGPU0\tX\tNV100\nGPU1\tNV100\tX\n", "line 2: \"NV100\"");
	refused("\tGPU0\tGPU1\tCPU\nGPU0\tX\tNV2x\nGPU1\tX\tX\n", "line 2: \"NV2x\"");
	refused("\tGPU0\tGPU1\tCPU\nGPU0\tNV2\tNV2\nGPU1\tNV2\tX\n", "the row of GPU0");
	refused("\tGPU0\tGPU1\tCPU\nGPU0\tX\tSYS\nGPU1\tFAR\tX\n", "line 3: \"FAR\"");
	refused("\tGPU0\tGPU1\tCPU\nGPU0\tX\nGPU1\tSYS\tX\n", "has 1 of 2 paths");
	refused("\tGPU0\tGPU1\tCPU\nGPU0\tX\tSYS\n", "the row of GPU1 is missing");
	refused("\tGPU0\tGPU0\tCPU\nGPU0\tX\tX\n", "line 1: two devices are called GPU0");
	refused("\tGPU0\tGPU64\tCPU\nGPU0\tX\tX\n", "line 1: more than 64 GPUs");
	refused("GPU 0: H100 (UUID)\n", "nvidia-smi topo -m to the file");
	refused("\n\nnothing\n", "syntax error");
	/* 256 devices, one of which is a GPU, are as many as it reads. */
	for (int n = 256; n <= 257; n++) {
		struct bb_topology *t;

		used = (size_t)snprintf(text, sizeof(text), "\tGPU0");
		for (int i = 1; i < n; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "\tNIC%d", i);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "\tCPU\nGPU0");
		for (int i = 0; i < n; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "\tSYS");
		snprintf(text + used, sizeof(text) - used, "\n");
		if (n == 257) {
			refused(text, "line 1: more than 256 devices");
			continue;
		}
		t = good(text);
		assert_int_equal(bb_topology_count(t, BB_NIC), 255); /* without rows of their own */
		bb_topology_free(t);
	}
}

/* ---- hwloc ---------------------------------------------------------------------------------- */

#define HEAD2 "<topology version=\"2.0\"><object type=\"Machine\" nodeset=\"0x3\">"
#define TAIL2 "</object></topology>"
#define NUMA(n, cpus)                                                                              \
	"<object type=\"NUMANode\" os_index=\"" n "\" cpuset=\"" cpus "\" local_memory=\"4096\"/>"
#define PCI(id, type, rest)                                                                        \
	"<object type=\"PCIDev\" pci_busid=\"" id "\" pci_type=\"" type "\" gp_index=\"" rest
#define OS(name, type, rest)                                                                       \
	"<object type=\"OSDev\" name=\"" name "\" osdev_type=\"" type "\">" rest "</object>"
#define INFO(name, value) "<info name=\"" name "\" value=\"" value "\"/>"

static void test_hwloc_devices(void **state)
{
	static const struct {
		const char *version, *device, *name, *port;
		enum bb_nic_state nic;
	} cases[] = {
		{"2.0", OS("eth0", "2", "") OS("mlx5_3", "3", ""), "mlx5_3", "eth0", 0},
		{"2.0", OS("mlx5_3", "3", "") OS("eth0", "2", ""), "mlx5_3", "eth0", 0},
		{"2.0", OS("eth0", "2", "") OS("mlx5_3", "3", "") OS("eth1", "2", ""), "mlx5_3",
		 "eth1", 0},
		{"2.0", OS("eth0", "2", ""), "eth0", "", 0},
		{"2.0", OS("other", "0", ""), "NIC0", "", 0},
		{"2.0", OS("other", "5", "") OS("eth0", "2", ""), "eth0", "", 0},
		{"2.0", OS("m", "3", INFO("Port1State", "4")), "m", "", BB_STATE_UP},
		{"2.0", OS("m", "3", INFO("Port1State", "1")), "m", "", BB_STATE_DOWN},
		{"2.0", OS("m", "3", INFO("Port2State", "4")), "m", "", BB_STATE_UNKNOWN},
		{"3.0", OS("eth0", "16", "") OS("mlx5_3", "32", ""), "mlx5_3", "eth0", 0},
		{"3.0", OS("mlx5_3", "32", "") OS("eth0", "16", ""), "mlx5_3", "eth0", 0},
		{"3.0", OS("mlx5_3", "32", "") OS("dma0", "8", ""), "mlx5_3", "", 0},
		{"3.0", OS("m", "33", INFO("Port1State", "4")), "m", "", BB_STATE_UP},
		{"3.0", OS("eth0", "18", ""), "eth0", "", 0},
		{"3.0", OS("x", "3", "") OS("y", "2", ""), "NIC0", "", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_device *d;
		struct bb_topology *t;
		char text[2048];

		snprintf(text, sizeof(text),
			 "<topology version=\"%s\"><object type=\"Machine\">%s\">%s</object>" TAIL2,
			 cases[i].version, PCI("0000:03:00.0", "0200 [15b3:101b]", "5"),
			 cases[i].device);
		t = good(text);
		assert_int_equal(t->ndevices, 1);
		d = &t->devices[0];
		if (d->kind != BB_NIC || strcmp(d->name, cases[i].name) != 0 ||
		    strcmp(d->port, cases[i].port) != 0 || d->state != cases[i].nic)
			fail_msg("%s, port %s, state %d: %s", d->name, d->port, d->state,
				 cases[i].device);
		assert_string_equal(d->model, "ConnectX-6");
		bb_topology_free(t);
	}
}

/* GPUs come in their driver's order; what PCI does not tell, the name of the model does. */
static void test_hwloc_gpus(void **state)
{
	static const char text[] = HEAD2 NUMA("0", "0x1") NUMA("1", "0x2") PCI(
		"0000:01:00.0", "0302 [10de:ffff]",
		"5\">") OS("nvml1", "5", INFO("GPUModel", "NVIDIA H100 80GB HBM3"))
		OS("cuda0", "5", "") "</object>" PCI("0000:02:00.0", "0302 [10de:15f9]", "6\">")
			OS("nvml0", "5", INFO("GPUModel", "Tesla H100")) "</object>" PCI(
				"0000:03:00.0", "0108 [144d:a80a]", "7\">")
				OS("nvme5n1", "1", "") "</object>" PCI("0000:04:00.0",
								       "0300 [102b:0538]", "8\">")
					OS("card0", "1", "") "</object>" TAIL2;
	struct bb_topology *const t = good(text);

	assert_int_equal(t->ndevices, 3);
	assert_string_equal(t->pcis[t->devices[0].pci].id, "0000:02:00.0");
	assert_string_equal(t->devices[0].model, "Tesla H100");
	assert_int_equal(t->devices[0].sm, 60); /* by PCI, a P100 */
	assert_string_equal(t->devices[1].model, "H100 80GB HBM3");
	assert_int_equal(t->devices[1].sm, 90);
	assert_string_equal(t->devices[1].name, "GPU1");
	assert_int_equal(t->devices[2].kind, BB_NVME);
	assert_string_equal(t->devices[2].name, "nvme5n1");
	assert_int_equal(t->devices[0].numa, -1); /* the machine has two */
	assert_false(t->links_unknown);           /* NVML would have shown them */
	bb_topology_free(t);
}

static void test_hwloc_host(void **state)
{
	static const char text[] = HEAD2 INFO("Architecture", "x86_64") INFO(
		"HostName",
		"h") "<object type=\"Package\" gp_index=\"9\">" INFO("CPUFamilyNumber",
								     "6") INFO("CPUModelNumber",
									       "143")
		INFO("CPUModel", "Xeon") INFO("CPUVendor", "GenuineIntel") NUMA(
			"0",
			"0x3") "<object type=\"L3Cache\" depth=\"3\" cache_type=\"0\" "
			       "cache_size=\"900\">"
			       "<object type=\"L2Cache\" depth=\"2\" cache_type=\"0\" "
			       "cache_size=\"200\">"
			       "<object type=\"L1Cache\" depth=\"1\" cache_type=\"1\" "
			       "cache_size=\"48\">"
			       "<object type=\"L1iCache\" depth=\"1\" cache_type=\"2\" "
			       "cache_size=\"32\">"
			       "<object type=\"Core\" cpuset=\"0x3\"><object type=\"PU\"/><object "
			       "type=\"PU\"/>"
			       "</object></object></object></object>"
			       "<object type=\"L2Cache\" depth=\"2\" cache_type=\"0\" "
			       "cache_size=\"100\"/></object>"
			       "</object>"
			       "<object type=\"Package\">" NUMA(
				       "4",
				       "0xc") "<object type=\"Core\" cpuset=\"0x8\"/><object "
					      "type=\"Core\" cpuset=\"0x8\"/>"
					      "<object type=\"Core\" cpuset=\"0x100\"/><object "
					      "type=\"Core\"/></object>"
					      "</object><distances2 nbobjs=\"2\" "
					      "name=\"NUMALatency\">"
					      "<indexes>0 4</indexes><u64values>10 "
					      "21</u64values><u64values> 999999 1000000 "
					      "</u64values>"
					      "</distances2></topology>";
	struct bb_topology *const t = good(text);
	const struct bb_host *const h = &t->host;

	assert_string_equal(h->arch, "x86_64");
	assert_string_equal(t->name, "h");
	assert_int_equal(h->npackages, 2);
	assert_int_equal(h->packages[0].family, 6);
	assert_int_equal(h->packages[0].number, 143);
	assert_string_equal(h->packages[0].model, "Xeon");
	assert_string_equal(h->packages[0].vendor, "GenuineIntel");
	assert_int_equal(h->nnumas, 2);
	assert_int_equal(h->numas[0].bytes, 4096);
	assert_int_equal(h->numas[1].os, 4);
	assert_int_equal(h->numas[1].package, 1);
	assert_string_equal(h->numas[1].cpus, "2-3");
	/* Cores with one processor are one, and those at no NUMA node are none. */
	assert_int_equal(h->ncores, 2);
	assert_int_equal(h->cores[0].pu, 0);
	assert_int_equal(h->cores[1].pu, 3);
	assert_int_equal(h->cores[1].numa, 4);
	assert_int_equal(h->cores[1].package, 1);
	assert_int_equal(h->nthreads, 2);
	assert_int_equal(h->ncaches, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(h->caches[i].level, i + 1);
	assert_int_equal(h->caches[0].count, 1);
	assert_int_equal(h->caches[0].bytes, 48);
	assert_int_equal(h->caches[1].count, 2);
	assert_int_equal(h->caches[1].bytes, 200);
	assert_int_equal(h->caches[2].bytes, 900);
	assert_int_equal(h->distances[0], 10);
	assert_int_equal(h->distances[1], 21);
	assert_int_equal(h->distances[2], 999999);
	assert_int_equal(h->distances[3], 0);
	bb_topology_free(t);
}

/* Ports alternate: a root port, a switch's upper end, its lower ends. */
static void test_hwloc_bridges(void **state)
{
#define BRIDGE(kind, id, speed)                                                                    \
	"<object type=\"Bridge\" bridge_type=\"" kind "-1\" pci_busid=\"" id                       \
	"\" pci_type=\"0604 [1000:c030]\" pci_link_speed=\"" speed "\">"
#define GPU(id, gp) PCI(id, "0302 [10de:2330]", gp "\"/>")
	static const char text[] = HEAD2 "<object type=\"Bridge\" bridge_type=\"0-1\">" BRIDGE(
		"1", "0000:00:01.0", "63.0") BRIDGE("1", "0000:01:00.0",
						    "10000") BRIDGE("1", "0000:02:00.0", "9999")
		GPU("0000:03:00.0", "1") "</object>" BRIDGE("1", "0000:02:01.0", "-1")
			GPU("0000:04:00.0", "2") "</object>"
						 "</object></object></object>"
						 "<object type=\"Bridge\" bridge_type=\"0-1\">" GPU(
							 "0001:01:00.0", "3") "</object>" TAIL2;
	static const enum bb_pci_role roles[] = {
		BB_PCI_ROOT_PORT,   BB_PCI_SWITCH_UP, BB_PCI_SWITCH_DOWN, BB_PCI_ENDPOINT,
		BB_PCI_SWITCH_DOWN, BB_PCI_ENDPOINT,  BB_PCI_ENDPOINT};
	static const int parents[] = {-1, 0, 1, 2, 1, 4, -1};
	static const double GBps[] = {63, 0, 9999, 0, 0, 0, 0};
	struct bb_topology *const t = good(text);

	assert_int_equal(t->npcis, 7);
	for (int p = 0; p < 7; p++) {
		assert_int_equal(t->pcis[p].role, roles[p]);
		assert_int_equal(t->pcis[p].parent, parents[p]);
		assert_float_equal(t->pcis[p].now.GBps, GBps[p], 1e-9);
		assert_int_equal(t->pcis[p].root == t->pcis[0].root, p < 6);
	}
	assert_int_equal(bb_topology_pci_path(t, 0, 1), BB_PATH_PIX);
	assert_int_equal(t->pcis[3].device, 0x2330);
	assert_true(t->links_unknown); /* H100 have NVLinks, which only NVML shows */
	bb_topology_free(t);
}

/* Links are MB/s over the rate of one; where that is unknown, it is one link. */
static void test_hwloc_links(void **state)
{
#define MATRIX(n, ends, values)                                                                    \
	"<distances2 nbobjs=\"" n "\" name=\"NVLinkBandwidth\"><indexes>" ends                     \
	"</indexes><u64values>" values "</u64values></distances2>"
	static const struct {
		const char *matrix;
		int ab, ba, to_switch, to_cpu;
	} cases[] = {
		{MATRIX("2", "1 2", "0 100000 50000 0"), 4, 2, 0, 0}, /* 25 GB/s each */
		{MATRIX("2", "PCIDev:1 PCIDev:2", "1000000 112500 112499 0"), 5, 4, 0, 0},
		{MATRIX("2", "1 2", "900000 0 999999999 0"), 0, 0, 0, 0}, /* 40000 links */
		{MATRIX("2", "1 2", "0 12499 24975000 0"), 0, 999, 0, 0},
		{MATRIX("2", "1 2", "0 12500 24990000 0"), 1, 0, 0, 0},
		{MATRIX("2", "1 2", "0 1000000000 1 0"), 0, 0, 0, 0},
		{MATRIX("2", "1 9", "0 100000 100000 0"), 0, 0, 4, 0},
		{MATRIX("2", "1 7", "0 25000 25000 0"), 0, 0, 0, 1},
		{MATRIX("2", "1 8", "0 100000 100000 0"), 0, 0, 0, 0},  /* a NIC */
		{MATRIX("2", "1 77", "0 100000 100000 0"), 0, 0, 0, 0}, /* nothing */
		{MATRIX("2", "1 x", "0 100000 100000 0"), 0, 0, 0, 0},
		{MATRIX("3", "1 2 9", "0 25000 50000 75000 0 0 0 0 0"), 1, 3, 2, 0},
		{MATRIX("2", "1 2", "0 x 50000 0"), 0, 0, 0, 0}, /* ends at what is no number */
		{MATRIX("2", "1 2", "0 25000 x 0"), 1, 0, 0, 0},
		{MATRIX("2", "1", "0 25000 50000 0"), 0, 0, 0, 0},
		{"<distances2 name=\"Other\"><indexes>1 2</indexes><u64values>0 25000 25000 0"
		 "</u64values></distances2>",
		 0, 0, 0, 0},
	};

	static const char objects[] =
		HEAD2 "<object type=\"Package\" gp_index=\"7\"/>"
		      "<object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" gp_index=\"1\" "
		      "pci_type=\"0302 [10de:20b2]\"/>"
		      "<object type=\"PCIDev\" pci_busid=\"0000:02:00.0\" gp_index=\"2\" "
		      "pci_type=\"0302 [10de:20b2]\"/>"
		      "<object type=\"PCIDev\" pci_busid=\"0000:03:00.0\" gp_index=\"8\" "
		      "pci_type=\"0200 [15b3:101b]\"/>"
		      "<object type=\"PCIDev\" pci_busid=\"0000:04:00.0\" gp_index=\"9\" "
		      "pci_type=\"0680 [10de:1af1]\"/></object>";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_topology *t;
		char text[2048];

		snprintf(text, sizeof(text), "%s%s</topology>", objects, cases[i].matrix);
		t = good(text);
		assert_int_equal(t->nvswitches, 1);
		if (bb_topology_nvlinks(t, 0, 1) != cases[i].ab ||
		    bb_topology_nvlinks(t, 1, 0) != cases[i].ba ||
		    bb_topology_nvlinks(t, 0, BB_PEER_SWITCH) != cases[i].to_switch ||
		    bb_topology_nvlinks(t, 0, BB_PEER_CPU) != cases[i].to_cpu)
			fail_msg("%d, %d, %d to switches, %d to the CPU: %s",
				 bb_topology_nvlinks(t, 0, 1), bb_topology_nvlinks(t, 1, 0),
				 bb_topology_nvlinks(t, 0, BB_PEER_SWITCH),
				 bb_topology_nvlinks(t, 0, BB_PEER_CPU), cases[i].matrix);
		bb_topology_free(t);
		/* GPUs of an unknown model: one link, whatever its rate. */
		if (i == 0) {
			for (char *at = text; (at = strstr(at, "20b2"));)
				memcpy(at, "fffe", 4);
			t = good(text);
			assert_int_equal(bb_topology_nvlinks(t, 0, 1), 1);
			assert_int_equal(bb_topology_nvlinks(t, 1, 0), 1);
			bb_topology_free(t);
		}
	}
}

/* ---- NCCL ----------------------------------------------------------------------------------- */

#define CARD "vendor=\"0x10de\" device=\"0x20b2\" class=\"0x030200\" "
#define FIRST "<pci busid=\"0000:01:00.0\" " CARD
#define SECOND "<pci busid=\"0000:02:00.0\" " CARD

static void test_nccl_attributes(void **state)
{
	static const char text[] =
		"<system><cpu numaid=\"0\" host_hash=\"0x1\" package=\"3\" familyid=\"25\" "
		"modelid=\"17\" vendor=\"AMD\" model=\"EPYC\" arch=\"x\">" FIRST
		"link_speed=\"16.0 GT/s PCIe\" link_width=\"8\">"
		"<gpu dev=\"3\" sm=\"-1\" gdr=\"1\" p2p=\"045x\">"
		"<nvlink target=\"0000:01:00.0\" count=\"9\"/>"
		"<nvlink target=\"0000:02:00.0\" tclass=\"0x030200\"/>"
		"<nvlink target=\"0000:02:00.0\" count=\"999\"/>"
		"<nvlink target=\"x\" tclass=\"0x068001\" count=\"2\"/>"
		"<nvlink target=\"x\" tclass=\"0x068000\" count=\"3\"/>"
		"<xgmi target=\"x\" tclass=\"0x068000\" count=\"5\"/>"
		"<other target=\"0000:02:00.0\" count=\"7\"/>"
		"<c2c bw=\"44712\" count=\"4\"/></gpu></pci>" SECOND "link_width=\"65\">"
		"<gpu dev=\"-1\" sm=\"86\" gdr=\"0\"/></pci>"
		"<nic><net name=\"b\" speed=\"100\" gdr=\"1\" layer=\"Ethernet\" "
		"state=\"down\"/><other/></nic>"
		"<net name=\"a\" speed=\"200\" gdr=\"-1\" layer=\"InfiniBand\"/>"
		"</cpu><cpu numaid=\"-1\" package=\"3\" host_hash=\"0x1\"/>"
		"<cpu numaid=\"7\" host_hash=\"0x1\"/>"
		"<cpu host_hash=\"0x3\"/><cpu host_hash=\"0x2\"/><cpu host_hash=\"0x3\"/></system>";
	struct bb_topology *const t = good(text);
	const struct bb_device *const a = &t->devices[bb_topology_find(t, "a")],
				      *const b = &t->devices[bb_topology_find(t, "b")];

	/* The second GPU has no number: its place in the file, 1, is before 3. */
	assert_string_equal(t->pcis[t->devices[0].pci].id, "0000:02:00.0");
	assert_int_equal(t->devices[0].sm, 86);
	assert_int_equal(t->devices[1].sm, 80); /* of PCI */
	assert_int_equal(t->devices[0].gdr, BB_GDR_OFF);
	assert_int_equal(t->devices[1].gdr, BB_GDR_ON);
	assert_int_equal(a->gdr, BB_GDR_UNKNOWN);
	assert_int_equal(b->gdr, BB_GDR_ON);
	assert_int_equal(a->layer, BB_INFINIBAND);
	assert_int_equal(b->layer, BB_ETHERNET);
	assert_int_equal(a->state, BB_STATE_UP);
	assert_int_equal(b->state, BB_STATE_DOWN);
	assert_int_equal(a->rate_Mbps, 200);
	assert_int_equal(b->rate_Mbps, 100);
	assert_int_equal(a->pci, -1);
	/* links: none to itself, 1 + 999 to the other */
	assert_int_equal(bb_topology_nvlinks(t, 1, 0), 1000);
	assert_int_equal(bb_topology_nvlinks(t, 1, 1), 0);
	assert_int_equal(bb_topology_nvlinks(t, 0, 1), 0);
	assert_int_equal(bb_topology_nvlinks(t, 1, BB_PEER_CPU), 2);
	assert_int_equal(bb_topology_nvlinks(t, 1, BB_PEER_SWITCH), 3);
	assert_int_equal(bb_topology_link(t, 1, BB_C2C)->count, 4);
	assert_float_equal(bb_topology_link(t, 1, BB_C2C)->GBps, 44.712, 1e-9);
	assert_int_equal(bb_topology_link(t, 1, BB_C2C)->peer, BB_PEER_CPU);
	/* "045x": of GPU0 and GPU1 */
	assert_int_equal(t->p2p[2], BB_P2P_OK);
	assert_int_equal(t->p2p[3], BB_P2P_DISABLED);
	assert_int_equal(t->p2p[0], BB_P2P_UNKNOWN);
	assert_int_equal(t->p2p[1], BB_P2P_UNKNOWN);
	/* 16 GT/s, 8 lanes, 128b/130b; 65 lanes are none */
	assert_float_equal(t->pcis[t->devices[1].pci].most.GBps, 16 * 128.0 / 130, 1e-9);
	assert_int_equal(t->pcis[t->devices[1].pci].most.gen, 4);
	assert_int_equal(t->pcis[t->devices[0].pci].most.width, 0);
	assert_int_equal(t->nodes, 3);
	assert_int_equal(t->nvlink_nodes, 3);
	assert_int_equal(t->host.nnumas, 3);
	assert_int_equal(t->host.numas[1].os, 1);
	assert_int_equal(t->host.numas[2].os, 7);
	assert_int_equal(t->host.npackages, 2);
	assert_int_equal(t->host.numas[0].package, 0);
	assert_int_equal(t->host.numas[1].package, 0);
	assert_int_equal(t->host.numas[2].package, 1);
	assert_int_equal(t->host.packages[0].family, 25);
	assert_int_equal(t->host.packages[0].number, 17);
	assert_string_equal(t->host.packages[0].model, "EPYC");
	assert_false(t->links_unknown);
	bb_topology_free(t);
}

/* Input for NCCL has PCI alone. */
static void test_nccl_input(void **state)
{
	static const char text[] =
		"<system><cpu numaid=\"0\"><pci busid=\"0000:00:01.0\" class=\"0x060400\" "
		"host_bridge=\"9\">" FIRST "/><pci busid=\"0000:02:00.0\" class=\"0x020700\" "
		"vendor=\"0x15b3\" device=\"0x101b\"/>"
		"<pci busid=\"0000:03:00.0\" class=\"0x010800\"/>"
		"<pci busid=\"0000:04:00.0\" class=\"0x040300\"/></pci>"
		"<pci busid=\"0000:05:00.0\" " CARD "/></cpu></system>";
	struct bb_topology *const t = good(text);

	assert_int_equal(bb_topology_count(t, BB_GPU), 2);
	assert_int_equal(bb_topology_count(t, BB_NIC), 1);
	assert_int_equal(bb_topology_count(t, BB_NVME), 1);
	assert_int_equal(t->npcis, 5); /* the idle one is gone */
	assert_int_equal(t->pcis[0].role, BB_PCI_SWITCH_UP);
	assert_int_equal(t->pcis[0].root, 9);
	assert_int_equal(t->pcis[1].root, 9);
	assert_int_equal(t->pcis[4].root, 0); /* that of its NUMA node */
	assert_int_equal(t->devices[2].layer, BB_INFINIBAND);
	assert_int_equal(t->devices[2].rate_Mbps, 0);
	assert_int_equal(t->devices[2].state, BB_STATE_UNKNOWN);
	assert_string_equal(t->devices[2].model, "ConnectX-6");
	assert_true(t->links_unknown);
	assert_null(t->p2p);
	bb_topology_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_smi_paths),      cmocka_unit_test(test_smi_numas),
		cmocka_unit_test(test_smi_processors), cmocka_unit_test(test_smi_links),
		cmocka_unit_test(test_smi_models),     cmocka_unit_test(test_smi_refused),
		cmocka_unit_test(test_hwloc_devices),  cmocka_unit_test(test_hwloc_gpus),
		cmocka_unit_test(test_hwloc_host),     cmocka_unit_test(test_hwloc_bridges),
		cmocka_unit_test(test_hwloc_links),    cmocka_unit_test(test_nccl_attributes),
		cmocka_unit_test(test_nccl_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
