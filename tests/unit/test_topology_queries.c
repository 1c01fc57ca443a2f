/*
 * What a model of a machine answers: its devices by kind and name, links, peer access, and the
 * classes of paths, on a machine drawn by hand.
 */
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { GPU0, GPU1, GPU2, GPU3, NIC0, NIC1, NIC2, DEVICES };

/*
 * host bridge 0: port 0 - switch (1) - 2 - GPU0
 *                                    - 4 - NIC0
 *                                        - switch (7) - 8 - NIC2
 *                port 10 - GPU1
 * host bridge 1: port 12 - GPU2
 *                NIC1, another function of the card of NIC0
 * GPU3 is on no bus that is known.
 */
static struct bb_pci pcis[] = {
	{.role = BB_PCI_ROOT_PORT, .parent = -1, .root = 0},
	{.role = BB_PCI_SWITCH_UP, .parent = 0, .root = 0},
	{.role = BB_PCI_SWITCH_DOWN, .parent = 1, .root = 0},
	{.id = "0000:03:00.0", .vendor = 0x10de, .parent = 2, .root = 0},
	{.role = BB_PCI_SWITCH_DOWN, .parent = 1, .root = 0},
	{.id = "0000:05:00.0", .vendor = 0x15b3, .parent = 4, .root = 0},
	{.id = "0000:05:00.1", .vendor = 0x15b3, .parent = -1, .root = 1},
	{.role = BB_PCI_SWITCH_UP, .parent = 4, .root = 0},
	{.role = BB_PCI_SWITCH_DOWN, .parent = 7, .root = 0},
	{.id = "0000:09:00.0", .vendor = 0x15b3, .parent = 8, .root = 0},
	{.role = BB_PCI_ROOT_PORT, .parent = -1, .root = 0},
	{.id = "0000:0b:00.0", .vendor = 0x1002, .parent = 10, .root = 0},
	{.role = BB_PCI_ROOT_PORT, .parent = -1, .root = 1},
	{.id = "0000:0d:00.0", .vendor = 0x10de, .parent = 12, .root = 1},
};
static struct bb_device devices[] = {
	[GPU0] = {.kind = BB_GPU, .name = "GPU0", .pci = 3, .numa = 0},
	[GPU1] = {.kind = BB_GPU, .name = "GPU1", .pci = 11, .numa = -1},
	[GPU2] = {.kind = BB_GPU, .name = "GPU2", .pci = 13, .numa = 1},
	[GPU3] = {.kind = BB_GPU, .name = "GPU3", .pci = -1, .numa = 0},
	[NIC0] = {.kind = BB_NIC, .name = "mlx5_0", .pci = 5, .numa = 0},
	[NIC1] = {.kind = BB_NIC, .name = "mlx5_1", .pci = 6, .numa = 1},
	[NIC2] = {.kind = BB_NIC, .name = "mlx5_2", .pci = 9, .numa = 0},
};
static struct bb_link links[] = {
	{.kind = BB_C2C, .device = GPU0, .peer = BB_PEER_CPU, .version = 9, .count = 7},
	{.kind = BB_NVLINK, .device = GPU0, .peer = GPU2, .version = 4, .count = 2},
	{.kind = BB_NVLINK, .device = GPU0, .peer = BB_PEER_SWITCH, .version = 3, .count = 4},
	{.kind = BB_NVLINK, .device = GPU1, .peer = GPU3, .count = 3},
	{.kind = BB_NVLINK, .device = GPU2, .peer = GPU0, .version = 4, .count = 2},
	{.kind = BB_NVLINK, .device = GPU2, .peer = BB_PEER_SWITCH, .version = 4, .count = 8},
	{.kind = BB_NVLINK, .device = GPU3, .peer = GPU1, .count = 3},
	{.kind = BB_NVLINK, .device = GPU3, .peer = BB_PEER_SWITCH, .count = 6},
};

static struct bb_topology drawn(void)
{
	static struct bb_numa numas[2] = {{.os = 4}, {.os = 6}};

	return (struct bb_topology){.pcis = pcis,
				    .npcis = sizeof(pcis) / sizeof(pcis[0]),
				    .devices = devices,
				    .ndevices = DEVICES,
				    .links = links,
				    .nlinks = sizeof(links) / sizeof(links[0]),
				    .host = {.numas = numas, .nnumas = 2}};
}

static void test_devices(void **state)
{
	const struct bb_topology t = drawn();

	assert_int_equal(bb_topology_count(&t, BB_GPU), 4);
	assert_int_equal(bb_topology_count(&t, BB_NIC), 3);
	assert_int_equal(bb_topology_count(&t, BB_NVME), 0);
	assert_int_equal(bb_topology_device(&t, BB_GPU, 0), GPU0);
	assert_int_equal(bb_topology_device(&t, BB_GPU, 3), GPU3);
	assert_int_equal(bb_topology_device(&t, BB_GPU, 4), -1);
	assert_int_equal(bb_topology_device(&t, BB_NIC, 1), NIC1);
	assert_int_equal(bb_topology_device(&t, BB_NVME, 0), -1);
	assert_int_equal(bb_topology_find(&t, "GPU0"), GPU0);
	assert_int_equal(bb_topology_find(&t, "mlx5_2"), NIC2);
	assert_int_equal(bb_topology_find(&t, "mlx5_"), -1);
	assert_int_equal(bb_numa_number(&t, 0), 4);
	assert_int_equal(bb_numa_number(&t, 1), 6);
	assert_int_equal(bb_numa_number(&t, -1), -1);
	assert_string_equal(bb_nic_layer_name(BB_LAYER_UNKNOWN), "");
	assert_string_equal(bb_nic_layer_name(BB_INFINIBAND), "InfiniBand");
	assert_string_equal(bb_nic_layer_name(BB_ETHERNET), "Ethernet");
}

/* AMD's by its bus alone, whatever its NUMA node is. */
static void test_links(void **state)
{
	static const char *const names[] = {"NVLink4", "xGMI", "NVLink4", "NVLink"};
	const struct bb_topology t = drawn();
	char text[BB_LINK_TEXT];

	for (int gpu = GPU0; gpu <= GPU3; gpu++) {
		assert_int_equal(bb_topology_is_amd(&t, gpu), gpu == GPU1);
		assert_string_equal(bb_topology_link_text(text, &t, gpu), names[gpu]);
	}
	assert_int_equal(bb_topology_nvlinks(&t, GPU0, GPU2), 2);
	assert_int_equal(bb_topology_nvlinks(&t, GPU2, GPU1), 0);
	assert_int_equal(bb_topology_nvlinks(&t, GPU0, BB_PEER_SWITCH), 4);
	assert_int_equal(bb_topology_nvlinks(&t, GPU0, BB_PEER_ANY), 6);
	assert_int_equal(bb_topology_nvlinks(&t, GPU0, BB_PEER_CPU), 0);
	assert_ptr_equal(bb_topology_link(&t, GPU0, BB_C2C), &links[0]);
	assert_ptr_equal(bb_topology_link(&t, GPU0, BB_NVLINK), &links[1]);
	assert_ptr_equal(bb_topology_link(&t, GPU3, BB_NVLINK), &links[6]);
	assert_null(bb_topology_link(&t, GPU2, BB_C2C));
	assert_null(bb_topology_link(&t, NIC0, BB_NVLINK));
}

/* What reads column; links are direct, else through switches the fewer of both. */
static const struct {
	int a, b;
	enum bb_path path, pci;
	int nvlinks;
} cells[] = {
	{GPU0, GPU0, BB_PATH_SELF, BB_PATH_SELF, 0},
	{NIC1, NIC1, BB_PATH_SELF, BB_PATH_SELF, 0},
	{GPU0, GPU2, BB_PATH_NVLINK, BB_PATH_SYS, 2},
	{GPU2, GPU0, BB_PATH_NVLINK, BB_PATH_SYS, 2},
	{GPU0, GPU3, BB_PATH_NVLINK, BB_PATH_NODE, 4},
	{GPU3, GPU2, BB_PATH_NVLINK, BB_PATH_SYS, 6},
	{GPU1, GPU3, BB_PATH_XGMI, BB_PATH_UNKNOWN, 3},
	{GPU0, GPU1, BB_PATH_PHB, BB_PATH_PHB, 0},
	{GPU1, GPU2, BB_PATH_UNKNOWN, BB_PATH_UNKNOWN, 0},
	{GPU0, NIC0, BB_PATH_PIX, BB_PATH_PIX, 0},
	{GPU0, NIC2, BB_PATH_PXB, BB_PATH_PXB, 0},
	{NIC2, GPU0, BB_PATH_PXB, BB_PATH_PXB, 0},
	{NIC0, NIC2, BB_PATH_PIX, BB_PATH_PIX, 0},
	{NIC0, NIC1, BB_PATH_PIX, BB_PATH_PIX, 0},
	{NIC2, NIC1, BB_PATH_SYS, BB_PATH_SYS, 0},
	{GPU2, NIC1, BB_PATH_PHB, BB_PATH_PHB, 0},
	{GPU1, NIC0, BB_PATH_PHB, BB_PATH_PHB, 0},
	{GPU3, NIC0, BB_PATH_NODE, BB_PATH_NODE, 0},
	{GPU3, NIC1, BB_PATH_SYS, BB_PATH_SYS, 0},
};

static void test_paths(void **state)
{
	struct bb_topology t = drawn();

	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		int nvlinks = -1;

		if (bb_topology_path(&t, cells[i].a, cells[i].b, &nvlinks) != cells[i].path ||
		    bb_topology_path(&t, cells[i].a, cells[i].b, NULL) != cells[i].path ||
		    bb_topology_pci_path(&t, cells[i].a, cells[i].b) != cells[i].pci ||
		    bb_topology_pci_path(&t, cells[i].b, cells[i].a) != cells[i].pci ||
		    nvlinks != cells[i].nvlinks)
			fail_msg("%s, %s: %s, %s, %d", devices[cells[i].a].name,
				 devices[cells[i].b].name,
				 bb_path_word(bb_topology_path(&t, cells[i].a, cells[i].b, NULL)),
				 bb_path_word(bb_topology_pci_path(&t, cells[i].a, cells[i].b)),
				 nvlinks);
	}
	/* The GPU that asks names its links. */
	assert_int_equal(bb_topology_path(&t, GPU3, GPU1, NULL), BB_PATH_NVLINK);
	/* One NUMA node is that of all. */
	t.host.nnumas = 1;
	assert_int_equal(bb_topology_pci_path(&t, GPU1, GPU2), BB_PATH_NODE);
	assert_int_equal(bb_topology_pci_path(&t, GPU0, GPU1), BB_PATH_PHB);
	t.host.nnumas = 0;
	assert_int_equal(bb_topology_pci_path(&t, GPU3, NIC1), BB_PATH_NODE);
}

static void test_cards(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{"0000:05:00.0", "0000:05:00.1", true},
		{"0000:05:00.0", "0000:05:01.0", false},
		{"0000:05:00.0", "0001:05:00.0", false},
		{"0000:05:00", "0000:05:00", false},
		{".0", ".0", false},
		{"", "", false},
		{"1.0", "1.7", true},
		{"1.0", "11.0", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_pci a = {.parent = -1}, b = {.parent = -1};

		strcpy(a.id, cases[i].a);
		strcpy(b.id, cases[i].b);
		if (bb_pci_same_card(&a, &b) != cases[i].same)
			fail_msg("%s, %s", cases[i].a, cases[i].b);
	}
}

/* GPUs joined by links always have access; the rows of others are those of the reader. */
static void test_peer_access(void **state)
{
	uint8_t p2p[16] = {[GPU0 * 4 + GPU0] = BB_P2P_GPU,      [GPU0 * 4 + GPU1] = BB_P2P_CHIPSET,
			   [GPU0 * 4 + GPU2] = BB_P2P_DISABLED, [GPU1 * 4 + GPU0] = BB_P2P_OK,
			   [GPU1 * 4 + GPU2] = BB_P2P_TOPOLOGY, [GPU2 * 4 + GPU1] = BB_P2P_UNKNOWN};
	struct bb_topology t = drawn();

	assert_int_equal(bb_topology_p2p(&t, GPU0, GPU1), BB_P2P_UNKNOWN);
	assert_int_equal(bb_topology_p2p(&t, GPU0, GPU0), BB_P2P_OK);
	assert_int_equal(bb_topology_p2p(&t, GPU0, GPU2), BB_P2P_OK);
	t.p2p = p2p;
	assert_int_equal(bb_topology_p2p(&t, GPU0, GPU0), BB_P2P_OK);
	assert_int_equal(bb_topology_p2p(&t, GPU0, GPU1), BB_P2P_CHIPSET);
	assert_int_equal(bb_topology_p2p(&t, GPU0, GPU2), BB_P2P_OK);
	assert_int_equal(bb_topology_p2p(&t, GPU1, GPU0), BB_P2P_OK);
	assert_int_equal(bb_topology_p2p(&t, GPU1, GPU2), BB_P2P_TOPOLOGY);
	assert_int_equal(bb_topology_p2p(&t, GPU0, NIC0), BB_P2P_UNKNOWN);
	assert_int_equal(bb_topology_p2p(&t, NIC0, GPU0), BB_P2P_UNKNOWN);
	assert_false(bb_topology_reaches(&t, GPU0, GPU1));
	assert_true(bb_topology_reaches(&t, GPU1, GPU0));
	assert_true(bb_topology_reaches(&t, GPU2, GPU1));
	assert_false(bb_topology_reaches(&t, GPU1, GPU2));
}

static void test_words(void **state)
{
	static const char *const words[] = {"X",   "NV12", "XGMI", "PIX", "PXB",
					    "PHB", "NODE", "SYS",  "?"};
	char text[BB_PATH_TEXT];

	for (int path = BB_PATH_SELF; path <= BB_PATH_UNKNOWN; path++) {
		assert_string_equal(bb_topology_path_text(text, path, 12), words[path]);
		if (path != BB_PATH_NVLINK)
			assert_string_equal(bb_path_word(path), words[path]);
		assert_int_equal(bb_path_meaning(path) == NULL, path == BB_PATH_UNKNOWN);
	}
	assert_string_equal(bb_path_word(BB_PATH_NVLINK), "NV#");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),     cmocka_unit_test(test_links),
		cmocka_unit_test(test_paths),       cmocka_unit_test(test_cards),
		cmocka_unit_test(test_peer_access), cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
