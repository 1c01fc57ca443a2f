/*
 * test_topology_sources.c - this machine, and what sysfs says, from a tree made for the purpose.
 */
#include "topology/build.h"
#include "topology/probes/machine.h"
#include "topology/rates.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- a tree ---------------------------------------------------------------------------------- */

struct tree {
	char root[64];
};

static int make_tree(void **state)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return -1;
	snprintf(tree->root, sizeof(tree->root), "/tmp/busbench_sysfs_XXXXXX");
	*state = tree;
	return mkdtemp(tree->root) ? 0 : -1;
}

static int drop(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	return remove(path);
}

static int drop_tree(void **state)
{
	struct tree *tree = *state;
	int result = nftw(tree->root, drop, 16, FTW_DEPTH | FTW_PHYS);

	free(tree);
	return result;
}

static void put(const struct tree *tree, const char *path, const void *bytes, size_t length)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/%s", tree->root, path);
	for (char *slash = whole + strlen(tree->root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(whole, 0700);
		*slash = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	fclose(file);
}

static void put_text(const struct tree *tree, const char *path, const char *text)
{
	put(tree, path, text, strlen(text));
}

#define PCI "bus/pci/devices/"

/* Below a root port a switch with a GPU and a NIC; two NUMA nodes. */
static struct bb_topology *machine(void)
{
	static const struct {
		const char *id;
		uint32_t class_code, vendor, device;
		enum bb_pci_role role;
		int parent;
	} objects[] = {
		{"0000:16:00.0", 0x0604, 0x8086, 0x2030, BB_PCI_ROOT_PORT, -1},
		{"0000:17:00.0", 0x0604, 0x10b5, 0x9797, BB_PCI_SWITCH_UP, 0},
		{"0000:18:04.0", 0x0604, 0x10b5, 0x9797, BB_PCI_SWITCH_DOWN, 1},
		{"0000:19:00.0", 0x0302, 0x10de, 0x2330, BB_PCI_ENDPOINT, 2},
		{"0000:18:08.0", 0x0604, 0x10b5, 0x9797, BB_PCI_SWITCH_DOWN, 1},
		{"0000:1a:00.0", 0x0207, 0x15b3, 0x1021, BB_PCI_ENDPOINT, 4},
	};
	struct bb_topology *t = bb_topology_new();
	struct bb_error error = {0};

	assert_non_null(t);
	for (int i = 0; i < 2; i++) {
		struct bb_numa numa = {.os = i, .package = -1};

		assert_int_equal(bb_add_numa(t, &numa, NULL, NULL, &error), BB_OK);
	}
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		struct bb_pci p = {.class_code = objects[i].class_code,
				   .vendor = objects[i].vendor,
				   .device = objects[i].device,
				   .role = objects[i].role,
				   .parent = objects[i].parent,
				   .numa = -1};
		struct bb_device d;
		int index;

		snprintf(p.id, sizeof(p.id), "%s", objects[i].id);
		assert_int_equal(bb_add_pci(t, &p, &index, &error), BB_OK);
		if (bb_pci_kind(&p) == BB_DEVICE_KINDS)
			continue;
		d = bb_device_of(t, index, bb_pci_kind(&p));
		if (d.kind == BB_NIC)
			snprintf(d.name, sizeof(d.name), "mlx5_0");
		assert_int_equal(bb_add_device(t, &d, NULL, &error), BB_OK);
	}
	return t;
}

/* ---- what is read --------------------------------------------------------------------------- */

static void test_links(void **state)
{
	const struct tree *tree = *state;
	struct bb_topology *t = machine();
	const struct bb_pci *gpu = &t->pcis[3], *nic = &t->pcis[5];

	put_text(tree, PCI "0000:19:00.0/current_link_speed", "2.5 GT/s PCIe\n");
	put_text(tree, PCI "0000:19:00.0/current_link_width", "8\n");
	put_text(tree, PCI "0000:19:00.0/max_link_speed", "32.0 GT/s PCIe\n");
	put_text(tree, PCI "0000:19:00.0/max_link_width", "16\n");
	put_text(tree, PCI "0000:19:00.0/numa_node", "1\n");
	/* How the kernel says that it does not know. */
	put_text(tree, PCI "0000:1a:00.0/current_link_speed", "Unknown\n");
	put_text(tree, PCI "0000:1a:00.0/current_link_width", "255\n");
	put_text(tree, PCI "0000:1a:00.0/numa_node", "-1\n");
	bb_sysfs_read(t, tree->root);
	assert_int_equal(gpu->now.gen, 1);
	assert_int_equal(gpu->now.width, 8);
	assert_int_equal(gpu->most.gen, 5);
	assert_int_equal(gpu->most.width, 16);
	assert_int_equal(t->devices[0].numa, 1);
	assert_int_equal(nic->now.gen, 0);
	assert_int_equal(nic->most.width, 0);
	assert_int_equal(t->devices[1].numa, -1);
	bb_topology_free(t);
}

static void test_nics(void **state)
{
	const struct tree *tree = *state;
	struct bb_topology *t = machine();
	struct bb_device *nic = &t->devices[1];

	put_text(tree, "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
	put_text(tree, "class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
	put_text(tree, "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
	put_text(tree, "class/net/eth0/speed", "25000\n");
	put_text(tree, "class/net/eth0/operstate", "up\n");
	put_text(tree, "class/net/eth1/speed", "-1\n");
	put_text(tree, "class/net/eth1/operstate", "down\n");
	bb_sysfs_read(t, tree->root);
	assert_int_equal(nic->rate_Mbps, 400000);
	assert_int_equal(nic->layer, BB_INFINIBAND);
	assert_int_equal(nic->state, BB_STATE_UP);
	put_text(tree, "class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
	put_text(tree, "class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	bb_sysfs_read(t, tree->root);
	assert_int_equal(nic->layer, BB_ETHERNET);
	assert_int_equal(nic->state, BB_STATE_DOWN);
	snprintf(nic->name, sizeof(nic->name), "eth0");
	bb_sysfs_read(t, tree->root);
	assert_int_equal(nic->rate_Mbps, 25000);
	assert_int_equal(nic->state, BB_STATE_UP);
	snprintf(nic->name, sizeof(nic->name), "eth1");
	bb_sysfs_read(t, tree->root);
	assert_int_equal(nic->rate_Mbps, 0);
	assert_int_equal(nic->state, BB_STATE_DOWN);
	bb_topology_free(t);
}

/* The capabilities of a port: a list that begins at 0x100, each with its number and the next. */
static void put_config(const struct tree *tree, unsigned char control, unsigned next, size_t length)
{
	unsigned char config[4096] = {0};

	config[0x100] = 0x01; /* another capability first */
	config[0x102] = 0x01 | (next & 0xf) << 4;
	config[0x103] = (unsigned char)(next >> 4);
	config[next] = 0x0d;
	config[next + 2] = 0x01;
	config[next + 6] = control;
	put(tree, PCI "0000:18:04.0/config", config, length);
}

/* A list that goes round and round. */
static void put_cycle(const struct tree *tree)
{
	unsigned char config[4096] = {0};

	config[0x100] = 0x01;
	config[0x103] = 0x10;
	put(tree, PCI "0000:18:04.0/config", config, sizeof(config));
}

static void test_acs(void **state)
{
	const struct tree *tree = *state;
	struct bb_topology *t = machine();

	put_config(tree, 0x1d, 0x148, 4096);
	bb_sysfs_read(t, tree->root);
	assert_int_equal(t->pcis[2].acs, BB_ACS_REDIRECT);
	put_config(tree, 0x01, 0x148, 4096); /* it checks sources, but lets them pass */
	bb_sysfs_read(t, tree->root);
	assert_int_equal(t->pcis[2].acs, BB_ACS_OFF);
	put_config(tree, 0x1d, 0x148, 64); /* not root: the kernel shows no more */
	bb_sysfs_read(t, tree->root);
	assert_int_equal(t->pcis[2].acs, BB_ACS_UNKNOWN);
	put_cycle(tree);
	bb_sysfs_read(t, tree->root);
	assert_int_equal(t->pcis[2].acs, BB_ACS_OFF);
	bb_topology_free(t);
}

/* A tree without anything changes nothing. */
static void test_empty(void **state)
{
	const struct tree *tree = *state;
	struct bb_topology *t = machine();

	bb_sysfs_read(t, tree->root);
	for (int p = 0; p < t->npcis; p++) {
		assert_int_equal(t->pcis[p].now.gen, 0);
		assert_int_equal(t->pcis[p].acs, BB_ACS_UNKNOWN);
	}
	bb_topology_free(t);
}

/* ---- this machine --------------------------------------------------------------------------- */

static void test_here(void **state)
{
	struct bb_topology *t = NULL;
	struct bb_machine *m = NULL;
	struct bb_error error = {0};

	assert_int_equal(bb_topology_here(&t, &error), BB_OK);
	assert_true(t->host.ncores > 0 && t->host.nthreads >= t->host.ncores);
	assert_true(t->host.nnumas > 0 && bb_host_memory(&t->host) > 0);
	assert_true(t->name[0] && strstr(t->source, "hwloc"));
	/* What pins ranks sees the same, without PCI. */
	assert_int_equal(bb_machine_open(&m, &error), BB_OK);
	assert_int_equal(m->host.ncores, t->host.ncores);
	assert_true(m->ncores <= t->host.ncores);
	for (int c = 0; c < m->ncores; c++)
		assert_true(bb_host_numa(&t->host, m->cores[c].numa) >= 0);
	bb_machine_close(m);
	bb_topology_free(t);
}

static void test_ids(void **state)
{
	char text[16];

	assert_true(bb_pci_id(text, "00000000:1B:00.0"));
	assert_string_equal(text, "0000:1b:00.0");
	assert_true(bb_pci_id(text, "ffff:ff:01.0"));
	for (const char *const *id =
		     (const char *const[]){"", "1b:00.0", "0000:1b:00", "0000:1b:00.8",
					   "0000:1b:20.0", "0000:1b:00.0x", "-1:2:3.4", "0:-5:0.0",
					   "fffffff:ffff:ff", NULL};
	     *id; id++)
		assert_false(bb_pci_id(text, *id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_links, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(test_nics, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(test_acs, make_tree, drop_tree),
		cmocka_unit_test_setup_teardown(test_empty, make_tree, drop_tree),
		cmocka_unit_test(test_here),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
