/*
 * test_topology_files.c - topologies from files: what is in them, through export and back, and
 * whatever bytes there are.
 */
#include "topology/bound.h"
#include "topology/systems.h"
#include "topology/build.h"
#include "topology/files/files.h"
#include "topology_tool/print.h"

#include <hwloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- files --------------------------------------------------------------------------------- */

/* As NCCL writes it: two A100 and a NIC with two ports on a switch, an NVSwitch without an id, a
   port without PCI, a second NUMA node, and another machine. */
static const char nccl[] =
	"<system version=\"1\">\n"
	"  <cpu host_hash=\"0x1\" numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\" "
	"vendor=\"AuthenticAMD\" familyid=\"23\" modelid=\"49\">\n"
	"    <pci busid=\"0000:01:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc010\" "
	"link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n"
	"      <pci busid=\"0000:03:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\" "
	"link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n"
	"        <gpu dev=\"1\" sm=\"80\" rank=\"1\" gdr=\"1\">\n"
	"          <nvlink target=\"0000:04:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
	"          <nvlink target=\"fffffff:ffff:ff\" count=\"7\" tclass=\"0x068000\"/>\n"
	"          <nvlink target=\"0000:0a:00.0\" count=\"1\" tclass=\"0x068000\"/>\n"
	"          <nvlink target=\"0000:99:00.0\" count=\"2\" tclass=\"0x030200\"/>\n"
	"        </gpu>\n"
	"      </pci>\n"
	"      <pci busid=\"0000:04:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\" "
	"link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n"
	"        <gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\">\n"
	"          <nvlink target=\"0000:03:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
	"          <c2c bw=\"44712\" count=\"5\"/>\n"
	"        </gpu>\n"
	"      </pci>\n"
	"      <pci busid=\"0000:05:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x101b\" "
	"link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n"
	"        <nic>\n"
	"          <net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\"/>\n"
	"          <net name=\"mlx5_1\" dev=\"1\" speed=\"200000\" port=\"2\"/>\n"
	"        </nic>\n"
	"      </pci>\n"
	"    </pci>\n"
	"    <nic>\n"
	"      <net name=\"eth0\" dev=\"2\" speed=\"10000\" port=\"0\"/>\n"
	"    </nic>\n"
	"  </cpu>\n"
	"  <cpu host_hash=\"0x1\" numaid=\"1\" affinity=\"000000f0\" arch=\"x86_64\" "
	"vendor=\"AuthenticAMD\" familyid=\"23\" modelid=\"49\"/>\n"
	"  <cpu host_hash=\"0x2\" numaid=\"0\" affinity=\"0000000f\" arch=\"x86_64\"/>\n"
	"</system>\n";

/* hwloc 3: a NUMA node with two packages, a P100 linked to its CPU and to an NVSwitch that nothing
   but its subtype tells, bits for the types of devices, what is known of the machine at the end. */
static const char hwloc3[] =
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	"<topology version=\"3.0\">\n"
	" <object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" nodeset=\"0x1\" gp_index=\"1\">\n"
	"  <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" nodeset=\"0x1\" gp_index=\"3\" "
	"local_memory=\"1073741824\"/>\n"
	"  <object type=\"Package\" os_index=\"0\" cpuset=\"0x1\" nodeset=\"0x1\" gp_index=\"4\">\n"
	"   <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" nodeset=\"0x1\" gp_index=\"5\"/>\n"
	"  </object>\n"
	"  <object type=\"Package\" os_index=\"1\" cpuset=\"0x2\" nodeset=\"0x1\" gp_index=\"6\">\n"
	"   <object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" nodeset=\"0x1\" gp_index=\"7\"/>\n"
	"  </object>\n"
	"  <object type=\"PCIDev\" gp_index=\"8\" pci_busid=\"0002:01:00.0\" "
	"pci_type=\"0302 [10de:15f9] [10de:116b] a1 00\" pci_link_speed=\"15.753846\">\n"
	"   <object type=\"OSDev\" gp_index=\"9\" name=\"nvml0\" osdev_type=\"12\">\n"
	"    <info name=\"GPUModel\" value=\"Tesla P100-SXM2-16GB\"/>\n"
	"   </object>\n"
	"  </object>\n"
	"  <object type=\"PCIDev\" gp_index=\"10\" subtype=\"NVSwitch\" pci_busid=\"0002:02:00.0\" "
	"pci_type=\"0000 [0000:0000]\"/>\n"
	"  <object type=\"PCIDev\" gp_index=\"11\" pci_busid=\"0002:03:00.0\" "
	"pci_type=\"0200 [15b3:101b]\" pci_link_speed=\"0.000000\">\n"
	"   <object type=\"OSDev\" gp_index=\"12\" name=\"eth0\" osdev_type=\"16\"/>\n"
	"   <object type=\"OSDev\" gp_index=\"13\" name=\"mlx5_0\" osdev_type=\"32\"/>\n"
	"  </object>\n"
	" </object>\n"
	" <distances2hetero nbobjs=\"3\" kind=\"25\" name=\"NVLinkBandwidth\">\n"
	"  <indexes length=\"26\">OSDev:9 PCIDev:10 Package:4 </indexes>\n"
	"  <u64values length=\"40\">1000000 40000 20000 40000 1000000 0 </u64values>\n"
	"  <u64values length=\"16\">20000 0 1000000 </u64values>\n"
	" </distances2hetero>\n"
	" <info name=\"Architecture\" value=\"ppc64le\"/>\n"
	" <info name=\"HostName\" value=\"small\"/>\n"
	"</topology>\n";

static bb_status parse(const char *text, size_t length, struct bb_topology **t)
{
	struct bb_error error = {0};
	bb_status st;

	*t = NULL;
	st = bb_topology_parse(text, length, "FILE", t, &error);
	assert_true((st == BB_OK) == (*t != NULL));
	if (st != BB_OK && strncmp(error.text, "FILE: ", 6) != 0)
		print_message("%s\n", error.text);
	assert_true(st == BB_OK || strncmp(error.text, "FILE: ", 6) == 0);
	return st;
}

static struct bb_topology *good(const char *text)
{
	struct bb_topology *t;

	assert_int_equal(parse(text, strlen(text), &t), BB_OK);
	return t;
}

/* ---- what is in them ------------------------------------------------------------------------ */

static int path_of(const struct bb_topology *t, const char *a, const char *b)
{
	return (int)bb_topology_path(t, bb_topology_find(t, a), bb_topology_find(t, b), NULL);
}

static void test_nccl(void **state)
{
	struct bb_topology *t = good(nccl);
	const struct bb_device *nic = &t->devices[bb_topology_find(t, "mlx5_1")];

	assert_int_equal(t->nodes, 2);
	assert_int_equal(t->nvlink_nodes, 2);
	assert_int_equal(t->host.nnumas, 2);
	assert_string_equal(t->host.numas[1].cpus, "4-7");
	assert_int_equal(bb_topology_count(t, BB_GPU), 2);
	/* NCCL's numbers, not the order in the file. */
	assert_string_equal(t->pcis[t->devices[0].pci].id, "0000:04:00.0");
	assert_int_equal(bb_topology_nvlinks(t, 0, 1), 4);
	assert_int_equal(bb_topology_nvlinks(t, 1, 0), 4);
	assert_int_equal(bb_topology_nvlinks(t, 1, BB_PEER_SWITCH), 8);
	assert_int_equal(bb_topology_nvlinks(t, 1, BB_PEER_ANY),
			 12); /* those to a GPU not here are not */
	assert_int_equal(bb_topology_link(t, 0, BB_C2C)->count, 5);
	assert_int_equal(nic->rate_Mbps, 200000);
	assert_int_equal(nic->layer, BB_INFINIBAND);
	assert_int_equal(path_of(t, "GPU0", "mlx5_0"), BB_PATH_PIX);
	assert_int_equal(path_of(t, "GPU0", "eth0"), BB_PATH_NODE);
	bb_topology_free(t);
}

/* As RCCL writes it: two of MI300X, and a third that is not in the file. */
static void test_rccl(void **state)
{
	static const char rccl[] =
		"<system version=\"2\"><cpu numaid=\"0\">"
		"<pci busid=\"0000:01:00.0\" class=\"0x120000\" vendor=\"0x1002\" "
		"device=\"0x74a1\" "
		"link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"94\">"
		"<xgmi target=\"0000:02:00.0\" count=\"1\" tclass=\"0x120000\"/>"
		"<xgmi target=\"0000:03:00.0\" count=\"1\" tclass=\"0x120000\"/></gpu></pci>"
		"<pci busid=\"0000:02:00.0\" class=\"0x120000\" vendor=\"0x1002\" "
		"device=\"0x74a1\" "
		"link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"1\" sm=\"94\">"
		"<xgmi target=\"0000:01:00.0\" count=\"1\" tclass=\"0x120000\"/></gpu></pci>"
		"</cpu></system>";
	const struct bb_rank_place ranks[] = {{0, 0}, {0, 1}};
	struct bb_topology *t = good(rccl);
	struct bb_strbuf why = {0};
	double GBps;
	bb_status st = bb_speed_of_light(t, ranks, 2, BB_BOUND_RING, &GBps, &why);

	assert_int_equal(st, BB_OK);
	assert_true(GBps == 64);
	assert_int_equal(bb_topology_nvlinks(t, 0, BB_PEER_ANY), 1);
	bb_strbuf_free(&why);
	bb_topology_free(t);
}

static void test_hwloc3(void **state)
{
	struct bb_topology *t = good(hwloc3);
	const struct bb_device *nic = &t->devices[bb_topology_find(t, "mlx5_0")];

	assert_string_equal(t->name, "small");
	assert_string_equal(t->host.arch, "ppc64le");
	assert_int_equal(t->host.npackages, 2);
	assert_int_equal(t->host.ncores, 2);
	assert_int_equal(t->host.cores[1].package, 1);
	assert_int_equal(t->host.numas[0].package, 0);
	assert_int_equal(t->nvswitches, 1);
	assert_int_equal(t->devices[0].sm, 60);
	assert_int_equal(t->devices[0].numa, 0);
	assert_int_equal(bb_topology_nvlinks(t, 0, BB_PEER_SWITCH), 2);
	assert_int_equal(bb_topology_nvlinks(t, 0, BB_PEER_CPU), 1);
	assert_string_equal(nic->port, "eth0");
	assert_string_equal(nic->model, "ConnectX-6");
	assert_int_equal(path_of(t, "GPU0", "mlx5_0"), BB_PATH_PHB);
	bb_topology_free(t);
}

/* This machine, as hwloc writes it, is this machine. */
static void test_this_machine(void **state)
{
	hwloc_topology_t topology;
	char *xml = NULL;
	int length = 0;
	struct bb_topology *t, *here = NULL;
	struct bb_error error = {0};

	assert_int_equal(hwloc_topology_init(&topology), 0);
	/* It leaks. */
	hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
	hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	assert_int_equal(hwloc_topology_load(topology), 0);
	assert_int_equal(hwloc_topology_export_xmlbuffer(topology, &xml, &length, 0), 0);
	t = good(xml);
	assert_int_equal(bb_topology_here(&here, &error), BB_OK);
	assert_int_equal(t->host.ncores, here->host.ncores);
	assert_int_equal(t->host.nthreads, here->host.nthreads);
	assert_int_equal(t->host.nnumas, here->host.nnumas);
	assert_int_equal(t->host.npackages, here->host.npackages);
	assert_int_equal(t->host.ncaches, here->host.ncaches);
	assert_string_equal(t->host.arch, here->host.arch);
	for (int i = 0; i < t->host.ncores; i++)
		assert_memory_equal(&t->host.cores[i], &here->host.cores[i],
				    sizeof(struct bb_core));
	hwloc_free_xmlbuffer(topology, xml);
	hwloc_topology_destroy(topology);
	bb_topology_free(t);
	bb_topology_free(here);
}

/* ---- export --------------------------------------------------------------------------------- */

static void same_bounds(const struct bb_topology *a, const struct bb_topology *b)
{
	int n;
	struct bb_rank_place *ranks = bb_all_gpus(a, a->nodes, &n);

	for (int what = BB_BOUND_RING; what < BB_BOUNDS; what++) {
		struct bb_strbuf why = {0}, again = {0};
		double x, y;
		bb_status st = bb_speed_of_light(a, ranks, n, (enum bb_bound)what, &x, &why);

		assert_int_equal(st,
				 bb_speed_of_light(b, ranks, n, (enum bb_bound)what, &y, &again));
		assert_true(x == y);
		assert_string_equal(bb_strbuf_text(&why), bb_strbuf_text(&again));
		bb_strbuf_free(&why);
		bb_strbuf_free(&again);
	}
	free(ranks);
}

static void there_and_back(const struct bb_topology *t)
{
	struct bb_strbuf xml = {0}, lost = {0};
	struct bb_topology *again;

	bb_topology_export(t, &xml);
	assert_false(bb_strbuf_failed(&xml));
	again = good(bb_strbuf_text(&xml));
	bb_print_diff(t, again, "before", "after", 80, &lost);
	assert_string_equal(bb_strbuf_text(&lost), "");
	bb_strbuf_free(&lost);
	assert_int_equal(t->nodes, again->nodes);
	assert_int_equal(t->nvlink_nodes, again->nvlink_nodes);
	assert_int_equal(t->links_unknown, again->links_unknown);
	assert_int_equal(t->nlinks, again->nlinks);
	assert_int_equal(t->host.npackages, again->host.npackages);
	assert_int_equal(t->ndevices, again->ndevices);
	for (int i = 0; i < t->ndevices; i++) {
		assert_true(t->devices[i].kind == BB_NVME ||
			    strcmp(t->devices[i].name, again->devices[i].name) == 0);
		assert_int_equal(t->devices[i].gdr, again->devices[i].gdr);
		assert_int_equal(t->devices[i].rate_Mbps, again->devices[i].rate_Mbps);
	}
	if (t->p2p)
		for (int i = 0; i < bb_topology_count(t, BB_GPU); i++)
			for (int j = 0; j < bb_topology_count(t, BB_GPU); j++)
				assert_int_equal(bb_topology_p2p(t, i, j),
						 bb_topology_p2p(again, i, j));
	same_bounds(t, again);
	bb_topology_free(again);
	bb_strbuf_free(&xml);
}

static void test_export(void **state)
{
	struct bb_error error = {0};
	struct bb_topology *t = NULL;

	for (int s = 0; bb_system_at(s); s++) {
		assert_int_equal(bb_topology_system(bb_system_at(s)->name, &t, &error), BB_OK);
		there_and_back(t);
		bb_topology_free(t);
	}
	assert_int_equal(bb_topology_here(&t, &error), BB_OK);
	there_and_back(t);
	bb_topology_free(t);
	t = good(nccl);
	there_and_back(t);
	bb_topology_free(t);
}

/* Names that XML has to be careful with, and what no known system has. */
static void test_export_oddities(void **state)
{
	struct bb_error error = {0};
	struct bb_topology *t = NULL;
	int nic;

	assert_int_equal(bb_topology_system("gb200-nvl72", &t, &error), BB_OK);
	nic = bb_topology_find(t, "mlx5_0");
	snprintf(t->devices[nic].name, sizeof(t->devices[nic].name), "a<b>&\"c'");
	t->devices[nic].state = BB_STATE_DOWN;
	t->devices[nic + 1].layer = BB_ETHERNET;
	t->devices[0].gdr = t->devices[nic].gdr = BB_GDR_OFF;
	t->p2p[1] = t->p2p[4] = BB_P2P_DISABLED;
	there_and_back(t);
	t->links_unknown = true; /* then there are none, and PCI alone shows the GPUs */
	t->nlinks = 0;
	free(t->p2p);
	t->p2p = NULL;
	t->devices[0].gdr = BB_GDR_UNKNOWN;
	there_and_back(t);
	bb_topology_free(t);
}

/* A device at no known NUMA node is written at a node of its own, whose number is free. */
static void test_export_unplaced(void **state)
{
	struct bb_error error = {0};
	struct bb_topology *t = NULL, *again;
	struct bb_strbuf xml = {0};
	int nic, p;

	assert_int_equal(bb_topology_system("gh200-x4", &t, &error), BB_OK);
	nic = bb_topology_find(t, "mlx5_0");
	for (p = t->devices[nic].pci; p >= 0; p = t->pcis[p].parent)
		t->pcis[p].numa = -1;
	bb_topology_export(t, &xml);
	again = good(bb_strbuf_text(&xml));
	assert_int_equal(again->host.nnumas, 5);
	assert_int_equal(again->devices[bb_topology_find(again, "mlx5_0")].numa, 4);
	assert_int_equal(again->host.numas[4].os, 4);
	bb_topology_free(again);
	bb_topology_free(t);
	bb_strbuf_free(&xml);
}

/* ---- bad files
   ------------------------------------------------------------------------------------ */

static void refuses(const char *text, const char *words)
{
	struct bb_topology *t = NULL;
	struct bb_error error = {0};

	assert_int_equal(bb_topology_parse(text, strlen(text), "FILE", &t, &error), BB_EUSAGE);
	if (!strstr(error.text, words))
		print_message("%s\n", error.text);
	assert_non_null(strstr(error.text, words));
	assert_null(t);
}

/* Sets of processors; hwloc's own reader ends the process on some of these. */
static void test_masks(void **state)
{
	static const struct {
		const char *mask, *list;
	} masks[] = {
		{"0x0000000f", "0-3"},
		{"f", "0-3"},
		{"0x1,0x00000002", "1,32"},
		{"0x1,,0x0", "64"},
		{"00000001,00000000", "32"},
		{"0x0", NULL},
		{"", NULL},
		{",", NULL},
		{"0xf...f", NULL},
		{"0xf...f,0x1", NULL},
		{"123456789", NULL},
		{"1 ", NULL},
		{"-1", NULL},
		{"0x", NULL},
		{"x", NULL},
		{"1,,g", NULL},
	};

	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		char text[256];
		struct bb_topology *t;

		snprintf(text, sizeof(text), "<system><cpu numaid='0' affinity='%s'/></system>",
			 masks[i].mask);
		t = good(text);
		if (masks[i].list)
			assert_string_equal(t->host.numas[0].cpus, masks[i].list);
		else
			assert_null(t->host.numas[0].cpus);
		bb_topology_free(t);
	}
}

static void test_refused(void **state)
{
	refuses("", "FILE: line 1: no element found");
	refuses("no XML", "line 1: syntax error");
	refuses("<other/>", "the outermost element is other; expected topology");
	refuses("<topology/>", "version 1 of hwloc's XML");
	refuses("<topology version=\"9.0\"/>", "version 9.0");
	refuses("<topology version=\"2.0\"/>", "no object");
	refuses("<system version=\"1\"/>", "no cpu");
	refuses("<system><cpu numaid=\"0\"><pci busid=\"x\"/></cpu></system>",
		"\"x\" is not a PCI bus id");
	refuses("<system><cpu numaid=\"1\"/><cpu numaid=\"1\"/></system>",
		"two NUMA nodes have the number 1");
	refuses("<topology version=\"2.0\"><object type=\"NUMANode\"/></topology>",
		"line 1: a NUMANode without os_index");
	refuses("<topology version=\"2.0\"><object type=\"PCIDev\" pci_busid=\"0:0\"/></topology>",
		"\"0:0\" is not a PCI bus id");
	refuses("<topology version=\"2.0\"><object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" "
		"pci_type=\"?\"/></topology>",
		"\"?\" is not a PCI type");
	refuses("<!DOCTYPE system [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;\">]>"
		"<system>&b;</system>",
		"it declares entities");
}

static void repeat(struct bb_strbuf *s, const char *text, int n)
{
	for (int i = 0; i < n; i++)
		bb_strbuf_add(s, text);
}

/* Limits end what would never end. */
static void test_too_much(void **state)
{
	struct bb_strbuf s = {0};

	repeat(&s, "<system>", 300);
	refuses(bb_strbuf_text(&s), "nest too deep");
	bb_strbuf_clear(&s);
	bb_strbuf_add(&s, "<system>");
	repeat(&s, "<a/>", 500001);
	bb_strbuf_add(&s, "</system>");
	refuses(bb_strbuf_text(&s), "too many elements");
	bb_strbuf_clear(&s);
	bb_strbuf_add(&s, "<system><cpu numaid=\"0\">");
	repeat(&s, "<gpu/>", 65);
	bb_strbuf_add(&s, "</cpu></system>");
	refuses(bb_strbuf_text(&s), "more than 64 GPUs");
	bb_strbuf_clear(&s);
	bb_strbuf_add(&s, "<system><cpu numaid=\"0\">");
	repeat(&s, "<net/>", 1025);
	bb_strbuf_add(&s, "</cpu></system>");
	refuses(bb_strbuf_text(&s), "more than 1024 devices");
	bb_strbuf_free(&s);
}

/* A number that is none is no default: the line says so. */
static void test_impossible_numbers(void **state)
{
	static const char *const bad[][2] = {
		{"<nvlink target=\"fffffff:ffff:ff\" count=\"-3\"/>", "count=\"-3\""},
		{"<nvlink target=\"fffffff:ffff:ff\" count=\"0\"/>", "count=\"0\""},
		{"<nvlink target=\"fffffff:ffff:ff\" count=\"2x\"/>", "count=\"2x\""},
		{"<nvlink target=\"fffffff:ffff:ff\" count=\"99999999999999999999\"/>",
		 "from 1 to 999"},
		{"<c2c bw=\"-5\" count=\"1\"/>", "bw=\"-5\""},
	};
	char text[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text),
			 "<system version=\"1\">\n<cpu numaid=\"0\">\n"
			 "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_width=\"16\">"
			 "<gpu dev=\"0\" sm=\"90\">\n%s</gpu></pci></cpu></system>",
			 bad[i][0]);
		refuses(text, bad[i][1]);
		refuses(text, "line 4: ");
	}
	refuses("<system><cpu numaid=\"-2\"><net speed=\"-1\"/></cpu></system>", "numaid=\"-2\"");
	refuses("<system><cpu numaid=\"-1\"><net speed=\"-1\"/></cpu></system>", "speed=\"-1\"");
}

static void test_large_and_missing_files(void **state)
{
	char path[] = "/tmp/busbench_topology_XXXXXX";
	int file = mkstemp(path);
	struct bb_topology *t = NULL;
	struct bb_error error = {0}, other = {0};

	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, (off_t)BB_FILE_MOST + 1), 0);
	assert_int_equal(bb_topology_load(path, &t, &error), BB_EUSAGE);
	assert_non_null(strstr(error.text, "larger than 64M"));
	close(file);
	unlink(path);
	assert_int_equal(bb_topology_load(path, &t, &other), BB_EUSAGE);
	assert_non_null(strstr(other.text, "cannot be opened"));
	assert_null(t);
}

/* Cut off anywhere it is an error: a document is whole or it is none. */
static void test_truncated(void **state)
{
	const char *files[] = {nccl, hwloc3};

	for (int f = 0; f < 2; f++) {
		size_t length = strlen(files[f]);
		struct bb_topology *t;

		for (size_t n = 0; n < length - 1; n++) {
			char *part = malloc(n + 1); /* so that reading beyond is seen */

			assert_non_null(part);
			memcpy(part, files[f], n);
			assert_int_equal(parse(part, n, &t), BB_EUSAGE);
			free(part);
		}
	}
}

/* A generator of one's own: the same bytes everywhere. */
static uint32_t roll(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}

/* Whatever is in a file, there is a model or an error, and a model is sound. */
static void test_corrupted(void **state)
{
	static const char *const pieces[] = {"-1",     "99999999999999999999",
					     "",       "0x",
					     "\"",     ">",
					     "<pci ",  "65",
					     "-",      "ffffffff",
					     "nvlink", "&#1;",
					     "0xf...f"};
	uint64_t seed = 1;
	int sound = 0;

	for (int i = 0; i < 6000; i++) {
		const char *whole = i % 2 ? nccl : hwloc3;
		size_t length = strlen(whole);
		char *text = malloc(length + 64);
		struct bb_topology *t;

		assert_non_null(text);
		memcpy(text, whole, length + 1);
		for (uint32_t k = 0; k <= roll(&seed) % 4; k++) {
			const char *piece =
				pieces[roll(&seed) % (sizeof(pieces) / sizeof(pieces[0]))];
			size_t at = roll(&seed) % (length - 32);

			if (roll(&seed) % 2)
				text[at] = (char)(roll(&seed) % 256);
			else
				memcpy(text + at, piece, strlen(piece));
		}
		if (parse(text, length, &t) == BB_OK) {
			struct bb_strbuf out = {0};

			bb_topology_export(t, &out);
			bb_topology_digest(t);
			sound++;
			bb_strbuf_free(&out);
			bb_topology_free(t);
		}
		free(text);
	}
	assert_true(sound > 200); /* the test must not fail to get inside */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nccl),
		cmocka_unit_test(test_rccl),
		cmocka_unit_test(test_hwloc3),
		cmocka_unit_test(test_this_machine),
		cmocka_unit_test(test_export),
		cmocka_unit_test(test_export_oddities),
		cmocka_unit_test(test_export_unplaced),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_impossible_numbers),
		cmocka_unit_test(test_large_and_missing_files),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_corrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
