#include "topology/build.h"
#include "topology/rates.h"
#include "core/array.h"
#include "core/printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINKS 9999 /* of one kind between two ends */

struct bb_topology *bb_topology_new(void)
{
	struct bb_topology *t = calloc(1, sizeof(*t));

	if (t)
		t->nodes = t->nvlink_nodes = 1;
	return t;
}

/* ---- arrays that grow ---------------------------------------------------------------------- */

/* Append a copy of ITEM to the array *ITEMS of *N. Its room follows from *N: the next power of two,
   at least 16. */
static bb_status append_item(void *items, int *n, const void *item, size_t size, int most,
			     const char *what, int *index, struct bb_error *error)
{
	char **array = items, *more;
	size_t room = *n > 0 ? 16 : 0;

	if (*n >= most)
		return bb_fail(error, BB_EUSAGE, "more than %d %s in one machine", most, what);
	while (room < (size_t)*n)
		room *= 2;
	more = bb_array_fit(*array, (size_t)*n, &room, size);
	if (!more)
		return bb_no_memory(error, what);
	*array = more;
	memcpy(more + (size_t)*n * size, item, size);
	if (index)
		*index = *n;
	++*n;
	return BB_OK;
}

bb_status bb_add_package(struct bb_topology *t, const struct bb_package *package, int *index,
			 struct bb_error *error)
{
	return append_item(&t->host.packages, &t->host.npackages, package, sizeof(*package),
			   BB_MOST_NUMAS, "packages", index, error);
}

bb_status bb_add_numa(struct bb_topology *t, const struct bb_numa *numa, const char *cpus,
		      int *index, struct bb_error *error)
{
	struct bb_numa copy = *numa;

	if (bb_host_numa(&t->host, numa->os) >= 0)
		return bb_fail(error, BB_EUSAGE, "two NUMA nodes have the number %d", numa->os);
	copy.cpus = cpus && *cpus ? strdup(cpus) : NULL;
	if (cpus && *cpus && !copy.cpus)
		return bb_no_memory(error, "NUMA nodes");
	const bb_status st = append_item(&t->host.numas, &t->host.nnumas, &copy, sizeof(copy),
					 BB_MOST_NUMAS, "NUMA nodes", index, error);
	if (st != BB_OK)
		free(copy.cpus);
	return st;
}

bb_status bb_add_core(struct bb_topology *t, const struct bb_core *core, struct bb_error *error)
{
	return append_item(&t->host.cores, &t->host.ncores, core, sizeof(*core), BB_TOPOLOGY_MOST,
			   "cores", NULL, error);
}

bb_status bb_add_pci(struct bb_topology *t, const struct bb_pci *pci, int *index,
		     struct bb_error *error)
{
	return append_item(&t->pcis, &t->npcis, pci, sizeof(*pci), BB_TOPOLOGY_MOST, "PCI objects",
			   index, error);
}

bb_status bb_add_device(struct bb_topology *t, const struct bb_device *device, int *index,
			struct bb_error *error)
{
	if (device->kind == BB_GPU && bb_topology_count(t, BB_GPU) >= BB_MOST_GPUS)
		return bb_fail(error, BB_EUSAGE, "more than %d GPUs in one machine", BB_MOST_GPUS);
	return append_item(&t->devices, &t->ndevices, device, sizeof(*device), BB_MOST_DEVICES,
			   "devices", index, error);
}

bool bb_may_have_links(const struct bb_topology *t)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	bool may = false;

	for (int d = 0; d < gpus; d++)
		may |= t->devices[d].sm == 0 || bb_nvlink_of(t->devices[d].sm).version > 0;
	return may && gpus > 1;
}

bb_status bb_add_link(struct bb_topology *t, const struct bb_link *link, struct bb_error *error)
{
	for (int l = 0; l < t->nlinks; l++) {
		struct bb_link *old = &t->links[l];

		if (old->kind == link->kind && old->device == link->device &&
		    old->peer == link->peer) {
			/* Bounded, since a file may repeat a link. */
			if (old->count < MOST_LINKS)
				old->count += link->count;
			if (old->down < MOST_LINKS)
				old->down += link->down;
			return BB_OK;
		}
	}
	return append_item(&t->links, &t->nlinks, link, sizeof(*link), BB_TOPOLOGY_MOST, "links",
			   NULL, error);
}

struct bb_link bb_gpu_links(const struct bb_topology *t, int gpu, int peer, int count)
{
	const struct bb_nvlink nvlink = bb_nvlink_of(t->devices[gpu].sm);

	return (struct bb_link){.kind = BB_NVLINK,
				.device = gpu,
				.peer = peer,
				.version = nvlink.version,
				.count = count,
				.GBps = bb_topology_is_amd(t, gpu)
						? bb_xgmi_of(t->pcis[t->devices[gpu].pci].device)
						: nvlink.payload};
}

bb_status bb_add_distances(struct bb_topology *t, struct bb_error *error)
{
	size_t n = (size_t)t->host.nnumas;

	if (!t->host.distances)
		t->host.distances = calloc(n > 0 ? n * n : 1, sizeof(*t->host.distances));
	return t->host.distances ? BB_OK : bb_no_memory(error, "distances");
}

bb_status bb_add_p2p(struct bb_topology *t, struct bb_error *error)
{
	size_t n = (size_t)bb_topology_count(t, BB_GPU);

	if (t->p2p)
		return BB_OK;
	t->p2p = malloc(n > 0 ? n * n : 1);
	if (!t->p2p)
		return bb_no_memory(error, "peer access");
	memset(t->p2p, BB_P2P_UNKNOWN, n * n);
	return BB_OK;
}

/* ---- PCI ----------------------------------------------------------------------------------- */

bool bb_pci_id(char text[16], const char *id)
{
	unsigned domain, bus, slot, function;
	int end = 0;

	if (sscanf(id, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 ||
	    id[end] || domain > 0xffffff || bus > 0xff || slot > 0x1f || function > 7)
		return false;
	snprintf(text, 16, "%04x:%02x:%02x.%x", domain, bus, slot, function);
	return true;
}

int bb_find_pci(const struct bb_topology *t, const char *id)
{
	char wanted[16];

	if (!bb_pci_id(wanted, id))
		return -1;
	for (int p = 0; p < t->npcis; p++)
		if (strcmp(t->pcis[p].id, wanted) == 0)
			return p;
	return -1;
}

enum bb_pci_role bb_port_role(const struct bb_topology *t, int parent)
{
	if (parent < 0)
		return BB_PCI_ROOT_PORT;
	return t->pcis[parent].role == BB_PCI_SWITCH_UP ? BB_PCI_SWITCH_DOWN : BB_PCI_SWITCH_UP;
}

struct bb_device bb_device_of(const struct bb_topology *t, int p, enum bb_device_kind kind)
{
	const struct bb_pci_device model = bb_pci_model(t->pcis[p].vendor, t->pcis[p].device);
	struct bb_device d = {.kind = kind, .pci = p, .numa = t->pcis[p].numa, .sm = model.sm};

	snprintf(d.model, sizeof(d.model), "%s", model.name ? model.name : "");
	return d;
}

/* Drop PCI objects without a device at or below them, and renumber the rest. */
static bool drop_idle_ports(struct bb_topology *t)
{
	int *moved = calloc(t->npcis > 0 ? (size_t)t->npcis : 1, sizeof(*moved)), n = 0;

	if (!moved)
		return false;
	for (int d = 0; d < t->ndevices; d++)
		for (int p = t->devices[d].pci; p >= 0 && !moved[p]; p = t->pcis[p].parent)
			moved[p] = 1;
	for (int p = 0; p < t->npcis; p++) {
		if (!moved[p])
			continue;
		t->pcis[n] = t->pcis[p];
		if (t->pcis[n].parent >= 0)
			t->pcis[n].parent = moved[t->pcis[n].parent] - 1;
		moved[p] = ++n;
	}
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci >= 0)
			t->devices[d].pci = moved[t->devices[d].pci] - 1;
	t->npcis = n;
	free(moved);
	return true;
}

/* ---- order --------------------------------------------------------------------------------- */

struct entry {
	struct bb_device device;
	int number, index;
};

static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = 0;

	if (a->device.kind != b->device.kind)
		return a->device.kind < b->device.kind ? -1 : 1;
	if (a->device.kind == BB_GPU)
		order = a->number - b->number;
	else
		order = strverscmp(a->device.name, b->device.name); /* mlx5_2 before mlx5_10 */
	return order ? order : a->index - b->index;
}

static int compare_links(const void *left, const void *right)
{
	const struct bb_link *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->peer < b->peer ? -1 : a->peer > b->peer;
}

bool bb_sort_devices(struct bb_topology *t, const int *numbers, int *moved)
{
	size_t n = (size_t)t->ndevices;
	struct entry *entries = calloc(n ? n : 1, sizeof(*entries));

	if (!entries)
		return false;
	for (int d = 0; d < t->ndevices; d++)
		entries[d] = (struct entry){t->devices[d], numbers ? numbers[d] : 0, d};
	qsort(entries, n, sizeof(*entries), compare_entries);
	for (int d = 0; d < t->ndevices; d++) {
		t->devices[d] = entries[d].device;
		moved[entries[d].index] = d;
	}
	free(entries);
	return true;
}

bb_status bb_topology_finish(struct bb_topology *t, struct bb_error *error)
{
	static const char *const words[] = {"GPU", "NIC", "NVMe"};
	int moved[BB_MOST_DEVICES], numbers[BB_DEVICE_KINDS] = {0};

	for (int p = 0, given = t->nvswitches; p < t->npcis && given == 0; p++)
		t->nvswitches += t->pcis[p].class_code == 0x0680 && t->pcis[p].vendor == 0x10de;
	if (!drop_idle_ports(t) || !bb_sort_devices(t, NULL, moved))
		return bb_no_memory(error, "the topology");
	for (int l = 0; l < t->nlinks; l++) {
		t->links[l].device = moved[t->links[l].device];
		if (t->links[l].peer >= 0)
			t->links[l].peer = moved[t->links[l].peer];
	}
	if (t->nlinks > 0)
		qsort(t->links, (size_t)t->nlinks, sizeof(*t->links), compare_links);
	/* If there is only one NUMA node, everything is there. */
	for (int p = 0; p < t->npcis && t->host.nnumas == 1; p++)
		t->pcis[p].numa = 0;
	for (int d = 0; d < t->ndevices && t->host.nnumas == 1; d++)
		t->devices[d].numa = 0;
	/* Names may be from a file. */
	bb_printable_clean(t->name);
	bb_printable_clean(t->source);
	bb_printable_clean(t->driver);
	bb_printable_clean(t->host.arch);
	for (int i = 0; i < t->host.npackages; i++) {
		bb_printable_clean(t->host.packages[i].model);
		bb_printable_clean(t->host.packages[i].vendor);
	}
	/* GPUs, and devices whose name is empty or taken, get a new one. */
	for (int d = 0; d < t->ndevices; d++) {
		struct bb_device *device = &t->devices[d];
		const int number = numbers[device->kind]++;

		bb_printable_clean(device->name);
		bb_printable_clean(device->model);
		bb_printable_clean(device->port);
		if (device->kind == BB_GPU || !device->name[0] ||
		    bb_topology_find(t, device->name) < d)
			snprintf(device->name, sizeof(device->name), "%s%d", words[device->kind],
				 number);
	}
	return BB_OK;
}
