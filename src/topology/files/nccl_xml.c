/*
 * nccl_xml.c - XML that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE (src/graph/xml.cc, topo.cc), or
 * read from NCCL_TOPO_FILE: such files, which clouds supply, have PCI and NUMA nodes alone. A cpu
 * element is a NUMA node. As in NCCL each is a package with one host bridge, since files do not
 * tell. If machines share NVSwitches, a file has several of them, with different host_hash: the
 * first is read, the others are counted.
 */
#include "topology/build.h"
#include "topology/files/formats.h"
#include "topology/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct bb_topology *t;
	struct bb_error *error;
	int numa;
	int ngpus; /* elements of GPUs, which only a dump has: it lists their links below */
	/* By device: the element of a GPU, and its number in NCCL. */
	const struct bb_xml *elements[BB_MOST_DEVICES];
	int numbers[BB_MOST_DEVICES];
	int moved[BB_MOST_DEVICES]; /* index after sorting */
};

/* ---- PCI ------------------------------------------------------------------------------------- */

/* "16.0 GT/s PCIe" and "16"; a virtual machine without this information has width 0. */
static struct bb_pcie link_of(const struct bb_xml *x)
{
	return bb_pcie(bb_pcie_gen(strtod(bb_xml_text(x, "link_speed"), NULL)),
		       (int)bb_xml_number(x, "link_width", 0, 255, 0));
}

static bb_status add_pci(struct reader *r, const struct bb_xml *x, int parent, int *index)
{
	struct bb_pci p = {
		.class_code = (uint32_t)(bb_xml_number(x, "class", 0, 0xffffff, 0) >> 8),
		.vendor = (uint32_t)bb_xml_number(x, "vendor", 0, 0xffff, 0),
		.device = (uint32_t)bb_xml_number(x, "device", 0, 0xffff, 0),
		.parent = parent,
		.root = r->numa,
		.numa = r->numa,
		.most = link_of(x), /* NCCL reads the maximum, not the current link */
	};

	if (!bb_pci_id(p.id, bb_xml_text(x, "busid")))
		return bb_fail(r->error, BB_EUSAGE, "line %d: \"%.32s\" is not a PCI bus id",
			       x->line, bb_xml_text(x, "busid"));
	p.role = bb_xml_child(x, "pci") || p.class_code == 0x0604 ? BB_PCI_SWITCH_UP
								  : BB_PCI_ENDPOINT;
	return bb_add_pci(r->t, &p, index, r->error);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* NCCL writes -1 for unknown numbers. */
static int number_or(const struct bb_xml *x, const char *name, int most, int otherwise)
{
	const int value = (int)bb_xml_number(x, name, -1, most, otherwise);

	return value < 0 ? otherwise : value;
}

static enum bb_gdr gdr_of(const struct bb_xml *x)
{
	const int value = number_or(x, "gdr", 1, -1);

	return value < 0 ? BB_GDR_UNKNOWN : value ? BB_GDR_ON : BB_GDR_OFF;
}

static bb_status add_gpu(struct reader *r, const struct bb_xml *x, int pci)
{
	struct bb_device d = {.kind = BB_GPU, .pci = -1, .numa = r->numa};
	int index;
	bb_status st;

	if (pci >= 0)
		d = bb_device_of(r->t, pci, BB_GPU);
	d.sm = number_or(x, "sm", 999, d.sm);
	d.gdr = gdr_of(x);
	r->ngpus += bb_xml_is(x, "gpu");
	BB_TRY(st, bb_add_device(r->t, &d, &index, r->error), out);
	r->elements[index] = x;
	r->numbers[index] = number_or(x, "dev", BB_MOST_DEVICES - 1, index);
out:
	return st;
}

/* Add a port. X is NULL for a card without ports, as in a file made by hand. */
static bb_status add_nic(struct reader *r, const struct bb_xml *x, int pci)
{
	struct bb_device d = {.kind = BB_NIC, .pci = -1, .numa = r->numa};

	if (pci >= 0)
		d = bb_device_of(r->t, pci, BB_NIC);
	if (pci >= 0 && r->t->pcis[pci].class_code == 0x0207)
		d.layer = BB_INFINIBAND;
	if (x) {
		snprintf(d.name, sizeof(d.name), "%s", bb_xml_text(x, "name"));
		d.rate_Mbps = bb_xml_number(x, "speed", 0, 100000000, 0);
		d.state = BB_STATE_UP;
		d.gdr = gdr_of(x);
	}
	return bb_add_device(r->t, &d, NULL, r->error);
}

static bb_status add_ports(struct reader *r, const struct bb_xml *nic, int pci)
{
	bb_status st = BB_OK;

	for (const struct bb_xml *c = nic->child; c; c = c->next)
		if (bb_xml_is(c, "net"))
			BB_TRY(st, add_nic(r, c, pci), out);
out:
	return st;
}

static bb_status read_below(struct reader *r, const struct bb_xml *x, int pci)
{
	bb_status st = BB_OK;
	int index;

	for (const struct bb_xml *c = x->child; c; c = c->next) {
		if (bb_xml_is(c, "pci")) {
			BB_TRY(st, add_pci(r, c, pci, &index), out);
			BB_TRY(st, read_below(r, c, index), out);
		} else if (bb_xml_is(c, "gpu")) {
			BB_TRY(st, add_gpu(r, c, pci), out);
		} else if (bb_xml_is(c, "nic")) {
			BB_TRY(st, add_ports(r, c, pci), out);
		} else if (bb_xml_is(c, "net")) {
			BB_TRY(st, add_nic(r, c, pci), out);
		}
	}
	if (pci >= 0 && !x->child && bb_pci_kind(&r->t->pcis[pci]) == BB_NIC)
		st = add_nic(r, NULL, pci);
	if (pci >= 0 && !x->child && bb_pci_kind(&r->t->pcis[pci]) == BB_GPU)
		st = add_gpu(r, x, pci);
out:
	return st;
}

/* ---- NUMA nodes ------------------------------------------------------------------------------ */

static bb_status read_cpu(struct reader *r, const struct bb_xml *x)
{
	struct bb_package p = {
		.family = (int)bb_xml_number(x, "familyid", 0, 0xffff, 0),
		.number = (int)bb_xml_number(x, "modelid", 0, 0xffff, 0),
	};
	struct bb_numa n = {.package = -1};
	char *cpus = bb_cpu_list(bb_xml_text(x, "affinity"));
	bb_status st = BB_OK;

	n.os = (int)bb_xml_number(x, "numaid", -1, 65535, -1);
	if (n.os < 0)
		n.os = r->t->host.nnumas; /* -1: the machine has only one */
	snprintf(p.vendor, sizeof(p.vendor), "%s", bb_xml_text(x, "vendor"));
	snprintf(r->t->host.arch, sizeof(r->t->host.arch), "%s", bb_xml_text(x, "arch"));
	BB_TRY(st, bb_add_package(r->t, &p, &n.package, r->error), out);
	BB_TRY(st, bb_add_numa(r->t, &n, cpus, &r->numa, r->error), out);
	st = read_below(r, x, -1);
out:
	free(cpus);
	return st;
}

/* ---- links ------------------------------------------------------------------------------- */

/* The GPU at X's target, the CPU by its class, or else a switch, even if the target is blank.
   BB_PEER_MISSING: a GPU that is not in the file. */
static int peer_of(const struct bb_topology *t, const struct bb_xml *x)
{
	const int64_t class_code = bb_xml_number(x, "tclass", 0, 0xffffff, 0);
	const int p = bb_find_pci(t, bb_xml_text(x, "target"));

	for (int d = 0; p >= 0 && d < t->ndevices; d++)
		if (t->devices[d].kind == BB_GPU && t->devices[d].pci == p)
			return d;
	if (class_code >> 16 == 0x03 || bb_xml_is(x, "xgmi"))
		return BB_PEER_MISSING;
	return class_code == 0x068001 ? BB_PEER_CPU : BB_PEER_SWITCH;
}

static bb_status add_link(struct reader *r, const struct bb_xml *x, int gpu)
{
	const struct bb_nvlink nvlink = bb_nvlink_of(r->t->devices[gpu].sm);
	const int pci = r->t->devices[gpu].pci;
	struct bb_link l = {.device = gpu, .count = (int)bb_xml_number(x, "count", 1, 999, 1)};

	if (bb_xml_is(x, "c2c")) {
		l.kind = BB_C2C;
		l.peer = BB_PEER_CPU;
		l.GBps = (double)bb_xml_number(x, "bw", 0, 10000000, 0) / 1000;
	} else {
		l.kind = BB_NVLINK;
		l.peer = peer_of(r->t, x);
		l.version = nvlink.version;
		l.GBps = bb_xml_is(x, "xgmi") && pci >= 0 ? bb_xgmi_of(r->t->pcis[pci].device)
							  : nvlink.payload;
	}
	return l.peer == gpu || l.peer == BB_PEER_MISSING ? BB_OK : bb_add_link(r->t, &l, r->error);
}

static bb_status read_links(struct reader *r)
{
	bb_status st = BB_OK;

	for (int d = 0; d < r->t->ndevices; d++)
		for (const struct bb_xml *l = r->elements[d] ? r->elements[d]->child : NULL; l;
		     l = l->next)
			if (bb_xml_is(l, "nvlink") || bb_xml_is(l, "xgmi") || bb_xml_is(l, "c2c"))
				BB_TRY(st, add_link(r, l, r->moved[d]), out);
out:
	return st;
}

/* ---- the document ---------------------------------------------------------------------------- */

/* Number of machines with another host_hash than FIRST. */
static int count_others(const struct bb_xml *root, const char *first)
{
	int n = 0;

	for (const struct bb_xml *c = root->child; c; c = c->next) {
		const char *host = bb_xml_text(c, "host_hash");
		bool seen = strcmp(host, first) == 0 || !bb_xml_is(c, "cpu");

		for (const struct bb_xml *e = root->child; e != c && !seen; e = e->next)
			seen = strcmp(bb_xml_text(e, "host_hash"), host) == 0;
		n += !seen;
	}
	return n;
}

bb_status bb_read_nccl_xml(const struct bb_xml *root, struct bb_topology *t, struct bb_error *error)
{
	const struct bb_xml *first = bb_xml_child(root, "cpu");
	struct reader r = {.t = t, .error = error};
	const char *host;
	bb_status st = BB_OK;

	if (!first)
		return bb_fail(error, BB_EUSAGE, "there is no cpu in the system");
	host = bb_xml_text(first, "host_hash");
	for (const struct bb_xml *c = root->child; c; c = c->next)
		if (bb_xml_is(c, "cpu") && strcmp(bb_xml_text(c, "host_hash"), host) == 0)
			BB_TRY(st, read_cpu(&r, c), out);
	t->nodes = t->nvlink_nodes = 1 + count_others(root, host);
	t->links_unknown = r.ngpus == 0 && bb_may_have_links(t);
	snprintf(t->source, sizeof(t->source), "NCCL's XML%s",
		 r.ngpus == 0 ? ", input for NCCL_TOPO_FILE: PCI and NUMA nodes alone" : "");
	if (!bb_sort_devices(t, r.numbers, r.moved))
		return bb_no_memory(error, "devices");
	st = read_links(&r);
out:
	return st;
}
