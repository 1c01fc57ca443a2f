/*
 * here.c - this machine: the host and PCI by hwloc, more of PCI and NICs by sysfs, GPUs by NVML.
 */
#include "topology/build.h"
#include "topology/probes/sources.h"
#include "topology/rates.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct walk {
	hwloc_topology_t topology;
	struct bb_topology *t;
	struct bb_error *error;
};

static bool has_type(hwloc_obj_t os, hwloc_obj_osdev_type_t type)
{
#if HWLOC_API_VERSION >= 0x00030000
	return os->attr->osdev.types & type;
#else
	return os->attr->osdev.type == type;
#endif
}

/* Add OBJ, a bridge or a device below PCI object PARENT and host bridge ROOT, and all below it. */
static bb_status add_io(struct walk *w, hwloc_obj_t obj, int parent, int root, int numa)
{
	struct bb_pci p = {.parent = parent, .root = root, .numa = numa};
	const bool bridge = obj->type == HWLOC_OBJ_BRIDGE;
	int index = parent;
	bb_status st = BB_OK;

	if (bridge && obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
		root = w->t->npcis; /* unique */
	} else if (bridge || obj->type == HWLOC_OBJ_PCI_DEVICE) {
		const struct hwloc_pcidev_attr_s *const attr =
			bridge ? &obj->attr->bridge.upstream.pci : &obj->attr->pcidev;

		snprintf(p.id, sizeof(p.id), "%04x:%02x:%02x.%x", attr->domain, attr->bus,
			 attr->dev, attr->func);
		p.class_code = attr->class_id;
		p.vendor = attr->vendor_id;
		p.device = attr->device_id;
		p.now.GBps = attr->linkspeed; /* until sysfs adds generation and width */
		p.role = bridge ? bb_port_role(w->t, parent) : BB_PCI_ENDPOINT;
		BB_TRY(st, bb_add_pci(w->t, &p, &index, w->error), out);
	}
	if (obj->type == HWLOC_OBJ_PCI_DEVICE && bb_pci_kind(&p) != BB_DEVICE_KINDS) {
		struct bb_device d = bb_device_of(w->t, index, bb_pci_kind(&p));

		/* A NIC has the name of its RDMA device, and its network interface as port; or,
		   without RDMA, the name of the interface. */
		for (hwloc_obj_t os = obj->io_first_child; os; os = os->next_sibling) {
			if (os->type != HWLOC_OBJ_OS_DEVICE || !os->name || d.kind == BB_GPU)
				continue;
			if (d.kind == BB_NIC && has_type(os, HWLOC_OBJ_OSDEV_NETWORK))
				snprintf(d.port, sizeof(d.port), "%s", os->name);
			if (d.kind == BB_NVME || has_type(os, HWLOC_OBJ_OSDEV_OPENFABRICS))
				snprintf(d.name, sizeof(d.name), "%s", os->name);
		}
		if (d.kind == BB_NIC && !d.name[0]) {
			memcpy(d.name, d.port, sizeof(d.name));
			d.port[0] = '\0';
		}
		BB_TRY(st, bb_add_device(w->t, &d, NULL, w->error), out);
	}
	for (hwloc_obj_t child = obj->io_first_child; child; child = child->next_sibling)
		BB_TRY(st, add_io(w, child, index, root, numa), out);
out:
	return st;
}

/* Add all I/O below OBJ, a normal object. */
static bb_status add_all_io(struct walk *w, hwloc_obj_t obj)
{
	const int numa = bb_host_numa_of(&w->t->host, w->topology, obj);
	bb_status st = BB_OK;

	for (hwloc_obj_t child = obj->io_first_child; child; child = child->next_sibling)
		BB_TRY(st, add_io(w, child, -1, -1, numa), out);
	for (unsigned i = 0; i < obj->arity; i++)
		BB_TRY(st, add_all_io(w, obj->children[i]), out);
out:
	return st;
}

/*
 * Components of hwloc that start whole drivers for unused names, and libpciaccess, which leaks and
 * finds no more than hwloc does in sysfs.
 */
static const char *const unwanted[] = {"opencl", "gl",        "cuda", "nvml", "rsmi",
				       "hip",    "levelzero", "pci",  NULL};

bb_status bb_topology_here(struct bb_topology **topology, struct bb_error *error)
{
	struct bb_topology *t = bb_topology_new();
	struct walk w = {.t = t, .error = error};
	bool driver = false;
	bb_status st;

	if (!t)
		return bb_no_memory(error, "the topology of the machine");
	if (gethostname(t->name, sizeof(t->name) - 1) != 0)
		snprintf(t->name, sizeof(t->name), "this machine");
	if (hwloc_topology_init(&w.topology) != 0)
		BB_TRY(st, bb_no_memory(error, "the topology of the machine"), failed);
	for (const char *const *name = unwanted; *name; name++)
		hwloc_topology_set_components(w.topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      *name);
	if (hwloc_topology_set_io_types_filter(w.topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
	    hwloc_topology_load(w.topology) != 0)
		st = bb_fail(error, BB_EBACKEND, "hwloc could not read this machine's topology");
	else
		st = bb_host_read(w.topology, &t->host, error);
	if (st == BB_OK)
		st = add_all_io(&w, hwloc_get_root_obj(w.topology));
	hwloc_topology_destroy(w.topology);
	if (st != BB_OK)
		goto failed;
	bb_sysfs_read(t, "/sys");
	BB_TRY(st, bb_nvml_read(t, &driver, error), failed);
	snprintf(t->source, sizeof(t->source), "this machine: hwloc, sysfs%s",
		 driver ? ", NVML" : "");
	t->links_unknown = !driver && bb_may_have_links(t);
	BB_TRY(st, bb_topology_finish(t, error), failed);
	*topology = t;
	return BB_OK;
failed:
	bb_topology_free(t);
	return st;
}
