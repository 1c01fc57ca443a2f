/*
 * How a topology is put together: names of PCI objects, ports, links that add up, and the order of
 * devices.
 */
#include "topology/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bb_error error;

static int add_pci(struct bb_topology *t, int bus, int parent, enum bb_pci_role role)
{
	struct bb_pci pci = {.parent = parent, .role = role, .numa = bus % 2};
	int index;

	snprintf(pci.id, sizeof(pci.id), "0000:%02x:00.0", (unsigned)bus);
	assert_int_equal(bb_add_pci(t, &pci, &index, &error), BB_OK);
	return index;
}

static int add_device(struct bb_topology *t, enum bb_device_kind kind, const char *name, int pci)
{
	struct bb_device device = {.kind = kind, .pci = pci, .numa = -1};
	int index;

	snprintf(device.name, sizeof(device.name), "%s", name);
	assert_int_equal(bb_add_device(t, &device, &index, &error), BB_OK);
	return index;
}

static void test_ids(void **state)
{
	static const char *const right[][2] = {{"00000000:1B:00.0", "0000:1b:00.0"},
					       {"1:ff:1f.7", "0001:ff:1f.7"},
					       {"ffffff:00:00.0", "ffffff:00:00.0"}};
	static const char *const wrong[] = {"1b:00.0",
					    "0000:1b:00",
					    "0000:1b:00.0x",
					    "0000:1b:20.0",
					    "0000:1b:00.8",
					    "1000000:1b:00.0",
					    ""};
	struct bb_topology *t = bb_topology_new();
	char text[16];

	for (int i = 0; i < 3; i++) {
		assert_true(bb_pci_id(text, right[i][0]));
		assert_string_equal(text, right[i][1]);
	}
	for (int i = 0; i < 7; i++)
		assert_false(bb_pci_id(text, wrong[i]));
	for (int bus = 0; bus < 4; bus++)
		assert_int_equal(add_pci(t, bus, -1, BB_PCI_ENDPOINT), bus);
	for (int bus = 0; bus < 4; bus++) {
		snprintf(text, sizeof(text), "0:%c:0.0", '0' + bus);
		assert_int_equal(bb_find_pci(t, text), bus);
	}
	assert_int_equal(bb_find_pci(t, "0:4:0.0"), -1);
	assert_int_equal(bb_find_pci(t, "1:0:0.0"), -1);
	assert_int_equal(bb_find_pci(t, "0"), -1);
	bb_topology_free(t);
}

/* Root port, then switches: up, down, up, … */
static void test_roles(void **state)
{
	static const enum bb_pci_role roles[] = {BB_PCI_ROOT_PORT, BB_PCI_SWITCH_UP,
						 BB_PCI_SWITCH_DOWN, BB_PCI_SWITCH_UP};
	struct bb_topology *t = bb_topology_new();

	for (int i = 0; i < 4; i++) {
		assert_int_equal(bb_port_role(t, i - 1), roles[i]);
		assert_int_equal(add_pci(t, i, i - 1, roles[i]), i);
	}
	bb_topology_free(t);
}

/* Links of the same kind and ends add up, others do not. */
static void test_links(void **state)
{
	struct bb_topology *t = bb_topology_new();
	const struct bb_link links[] = {{BB_NVLINK, 0, 1, 4, 2, 1, 25},
					{BB_NVLINK, 0, 1, 4, 3, 2, 25},
					{BB_C2C, 0, 1, 4, 5, 0, 25},
					{BB_NVLINK, 1, 0, 4, 7, 0, 25},
					{BB_NVLINK, 0, 2, 4, 1000000000, 0, 25},
					{BB_NVLINK, 0, 2, 4, 1000000000, 0, 25}};

	for (int i = 0; i < 6; i++)
		assert_int_equal(bb_add_link(t, &links[i], &error), BB_OK);
	assert_int_equal(t->nlinks, 4);
	assert_int_equal(t->links[0].count, 5);
	assert_int_equal(t->links[0].down, 3);
	assert_int_equal(t->links[1].count, 5);
	assert_int_equal(t->links[2].count, 7);
	assert_true(t->links[3].count > 0 && t->links[3].count < 2000000000);
	bb_topology_free(t);
}

/* Only GPUs of a model that has none, or a single one, have no links for sure. */
static void test_may_have_links(void **state)
{
	static const struct {
		int n, sm[2];
		bool may;
	} cases[] = {{1, {90, 0}, false},
		     {2, {90, 90}, true},
		     {2, {0, 89}, true},
		     {2, {89, 89}, false},
		     {2, {89, 90}, true}};

	for (int i = 0; i < 5; i++) {
		struct bb_topology *t = bb_topology_new();

		for (int g = 0; g < cases[i].n; g++) {
			const int gpu = add_device(t, BB_GPU, "", -1);

			t->devices[gpu].sm = cases[i].sm[g];
		}
		assert_int_equal(bb_may_have_links(t), cases[i].may);
		bb_topology_free(t);
	}
}

/* Ports without a device below go, the first one too; what refers to the rest follows. GPUs come
   first, names are in the order of their numbers, and one that is taken or empty is replaced. */
static void test_finish(void **state)
{
	static const char *const names[] = {"GPU0", "GPU1", "mlx5_2", "NIC1", "mlx5_10", "nvme0"};
	static const int buses[] = {3, 5, 6, 6, 2, 8};
	struct bb_topology *t = bb_topology_new();
	int pci[9], nic, ten, gpu, again;

	for (int bus = 0; bus < 9; bus++)
		pci[bus] = add_pci(t, bus,
				   bus == 2 || bus == 3 ? 1
				   : bus == 6           ? 4
							: -1,
				   BB_PCI_ENDPOINT);
	t->pcis[0].class_code = t->pcis[7].class_code = 0x0680;
	t->pcis[0].vendor = t->pcis[7].vendor = 0x10de;
	t->pcis[5].class_code = 0x0680;
	add_device(t, BB_NVME, "nvme0", pci[8]);
	ten = add_device(t, BB_NIC, "mlx5_10", pci[2]);
	gpu = add_device(t, BB_GPU, "card", pci[3]);
	nic = add_device(t, BB_NIC, "mlx5_2", pci[6]);
	again = add_device(t, BB_GPU, "", pci[5]);
	add_device(t, BB_NIC, "mlx5_2", pci[6]);
	assert_int_equal(
		bb_add_link(t, &(struct bb_link){BB_NVLINK, again, gpu, 4, 1, 0, 25}, &error),
		BB_OK);
	assert_int_equal(bb_add_link(t,
				     &(struct bb_link){BB_NVLINK, gpu, BB_PEER_SWITCH, 4, 1, 0, 25},
				     &error),
			 BB_OK);
	assert_int_equal(
		bb_add_link(t, &(struct bb_link){BB_NVLINK, gpu, again, 4, 2, 0, 25}, &error),
		BB_OK);
	assert_true(nic > ten);
	assert_int_equal(bb_topology_finish(t, &error), BB_OK);

	assert_int_equal(t->nvswitches, 2);
	assert_int_equal(t->npcis, 7);
	assert_string_equal(t->pcis[0].id, "0000:01:00.0");
	assert_int_equal(t->pcis[0].parent, -1);
	assert_int_equal(t->pcis[1].parent, 0);
	assert_int_equal(t->pcis[2].parent, 0);
	assert_int_equal(t->pcis[5].parent, bb_find_pci(t, "0:4:0.0"));
	assert_int_equal(t->ndevices, 6);
	for (int d = 0; d < 6; d++) {
		char id[16];

		snprintf(id, sizeof(id), "0000:%02x:00.0", (unsigned)buses[d]);
		assert_string_equal(t->devices[d].name, names[d]);
		assert_string_equal(t->pcis[t->devices[d].pci].id, id);
	}
	assert_int_equal(t->nlinks, 3);
	assert_int_equal(t->links[0].device, 0);
	assert_int_equal(t->links[0].peer, BB_PEER_SWITCH);
	assert_int_equal(t->links[1].peer, 1);
	assert_int_equal(t->links[1].count, 2);
	assert_int_equal(t->links[2].device, 1);
	assert_int_equal(t->links[2].peer, 0);
	assert_int_equal(t->devices[0].numa, -1);
	bb_topology_free(t);
}

/* With one NUMA node, everything is at it. */
static void test_only_numa(void **state)
{
	struct bb_topology *t = bb_topology_new();

	assert_int_equal(bb_add_numa(t, &(struct bb_numa){.os = 3}, "0-7", NULL, &error), BB_OK);
	assert_int_equal(bb_add_numa(t, &(struct bb_numa){.os = 3}, "0-7", NULL, &error),
			 BB_EUSAGE);
	add_device(t, BB_GPU, "", add_pci(t, 1, -1, BB_PCI_ENDPOINT));
	assert_int_equal(bb_topology_finish(t, &error), BB_OK);
	assert_int_equal(t->devices[0].numa, 0);
	assert_int_equal(t->pcis[0].numa, 0);
	assert_string_equal(t->host.numas[0].cpus, "0-7");
	bb_topology_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),    cmocka_unit_test(test_roles),
		cmocka_unit_test(test_links),  cmocka_unit_test(test_may_have_links),
		cmocka_unit_test(test_finish), cmocka_unit_test(test_only_numa),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
