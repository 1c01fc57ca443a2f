/*
 * here.c - this machine: the host and PCI by hwloc, more of PCI and NICs by sysfs, GPUs by NVML.
 */
#include "core/file.h"
#include "topology/build.h"
#include "topology/rates.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the host and PCI by hwloc ---- */

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

/* ---- more by sysfs ---- */

#define PATH_BYTES 512

/* A device in sysfs. */
struct folder {
	const char *root, *class, *name; /* ROOT/CLASS/NAME */
	char line[64];                   /* of the last file */
};

/* Whether F has FILE, whose first line is then read. */
static bool has_file(struct folder *f, const char *file)
{
	char path[PATH_BYTES];

	return snprintf(path, sizeof(path), "%s/%s/%s/%s", f->root, f->class, f->name, file) <
		       PATH_BYTES &&
	       bb_kernel_line(path, f->line, sizeof(f->line));
}

/* "16.0 GT/s PCIe" and "16"; the kernel writes "Unknown" and 255 for unknown values. */
static void read_link(struct folder *f, const char *speed, const char *width, struct bb_pcie *link)
{
	const int gen = has_file(f, speed) ? bb_pcie_gen(strtod(f->line, NULL)) : 0;
	const int lanes = has_file(f, width) ? (int)strtol(f->line, NULL, 10) : 0;

	if (gen > 0 && lanes > 0 && lanes <= 32)
		*link = bb_pcie(gen, lanes);
}

#define EXTENDED 0x100  /* where the extended capabilities begin (PCIe, 7.6) */
#define ACS 0x000d      /* Access Control Services (7.7.11) */
#define REDIRECT 0x000c /* request and completion redirect in its control register */

/* Whether a port redirects traffic between devices below it upwards. Only root can read these
   registers. */
static enum bb_acs read_acs(const struct folder *f)
{
	char path[PATH_BYTES];
	unsigned char config[4096 + 1];
	enum bb_acs acs = BB_ACS_UNKNOWN;

	if (snprintf(path, sizeof(path), "%s/%s/%s/config", f->root, f->class, f->name) >=
	    PATH_BYTES)
		return acs;
	const size_t length = bb_kernel_read(path, (char *)config, sizeof(config));
	for (size_t at = EXTENDED, seen = 0; at >= EXTENDED && at + 8 <= length && seen < 1024;
	     seen++) {
		/* Little-endian: an id of 16 bits, 4 of version, 12 of the next place. */
		acs = BB_ACS_OFF; /* known from here on */
		if ((config[at] | config[at + 1] << 8) == ACS)
			return config[at + 6] & REDIRECT ? BB_ACS_REDIRECT : BB_ACS_OFF;
		at = (size_t)(config[at + 2] >> 4 | config[at + 3] << 4);
	}
	return acs;
}

void bb_sysfs_read(struct bb_topology *t, const char *root)
{
	long speed;

	for (int p = 0; p < t->npcis; p++) {
		struct bb_pci *pci = &t->pcis[p];
		struct folder f = {root, "bus/pci/devices", pci->id, ""};

		read_link(&f, "current_link_speed", "current_link_width", &pci->now);
		read_link(&f, "max_link_speed", "max_link_width", &pci->most);
		if (has_file(&f, "numa_node") && pci->numa < 0)
			pci->numa = bb_host_numa(&t->host, (int)strtol(f.line, NULL, 10));
		if (pci->role == BB_PCI_ROOT_PORT || pci->role == BB_PCI_SWITCH_DOWN)
			pci->acs = read_acs(&f);
	}
	for (int i = 0; i < t->ndevices; i++) {
		struct bb_device *d = &t->devices[i];
		struct folder rdma = {root, "class/infiniband", d->name, ""};
		struct folder interface = {root, "class/net", d->name, ""};

		if (d->numa < 0 && d->pci >= 0)
			d->numa = t->pcis[d->pci].numa;
		if (d->kind != BB_NIC)
			continue;
		/* "400 Gb/sec (4X NDR)", "InfiniBand", "4: ACTIVE" */
		if (has_file(&rdma, "ports/1/rate")) {
			d->rate_Mbps = (int64_t)(strtod(rdma.line, NULL) * 1000);
			if (has_file(&rdma, "ports/1/link_layer"))
				d->layer = strcmp(rdma.line, "Ethernet") == 0 ? BB_ETHERNET
					   : strcmp(rdma.line, "InfiniBand") == 0
						   ? BB_INFINIBAND
						   : BB_LAYER_UNKNOWN;
			if (has_file(&rdma, "ports/1/state"))
				d->state =
					strstr(rdma.line, "ACTIVE") ? BB_STATE_UP : BB_STATE_DOWN;
			continue;
		}
		if (has_file(&interface, "operstate")) {
			d->layer = BB_ETHERNET;
			d->state = strcmp(interface.line, "up") == 0     ? BB_STATE_UP
				   : strcmp(interface.line, "down") == 0 ? BB_STATE_DOWN
									 : BB_STATE_UNKNOWN;
		}
		/* In Mb/s, and -1 or an error while the link is down. */
		if (has_file(&interface, "speed")) {
			speed = strtol(interface.line, NULL, 10);
			d->rate_Mbps = speed > 0 && speed < 100000000 ? speed : 0;
		}
	}
}

/* ---- all ---- */

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
