/*
 * nccl_xml.c - XML that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE (src/graph/xml.cc, topo.cc), or
 * read from NCCL_TOPO_FILE: such files, which clouds supply, have PCI and NUMA nodes alone. A cpu
 * element is a NUMA node. As in NCCL each is a package with one host bridge, since files do not
 * tell. If machines share NVSwitches, a file has several of them, with different host_hash: the
 * first is read, the others are counted.
 *
 * bb_topology_export adds attributes that NCCL passes over: package and model of a cpu, host_bridge
 * of a PCI object, p2p of a GPU (a digit for each GPU: enum bb_peer_access), layer and state of a
 * NIC.
 */
#include "core/array.h"
#include "core/printable.h"
#include "topology/bound.h"
#include "topology/build.h"
#include "topology/files/formats.h"
#include "topology/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LINKS 999 /* of one kind between two ends */

struct reader {
	struct bb_topology *t;
	struct bb_error *error;
	int numa;
	int packages[BB_MOST_NUMAS]; /* index + 1 of a package by its number in the file */
	int ngpus; /* elements of GPUs, which only a dump has: it lists their links below */
	/* By device: the element of a GPU, and its number in NCCL. */
	const struct bb_xml *elements[BB_MOST_DEVICES];
	int numbers[BB_MOST_DEVICES];
	int moved[BB_MOST_DEVICES]; /* index after sorting */
};

/* ---- devices --------------------------------------------------------------------------------- */

/* NCCL writes -1 for unknown numbers. */
static int number_or(const struct bb_xml *x, const char *name, int most, int otherwise)
{
	const int value = (int)bb_xml_number(x, name, -1, most, otherwise);

	return value < 0 ? otherwise : value;
}

/* Add the device of KIND at PCI object PCI (-1: none). X is its element, of a NIC that of a port;
   NULL: it has none, as in a file made by hand. */
static bb_status add_device(struct reader *r, const struct bb_xml *x, int pci,
			    enum bb_device_kind kind)
{
	struct bb_device d = {.kind = kind, .pci = -1, .numa = r->numa};
	int index, gdr = x ? number_or(x, "gdr", 1, -1) : -1;
	bb_status st;

	if (pci >= 0)
		d = bb_device_of(r->t, pci, kind);
	d.gdr = gdr < 0 ? BB_GDR_UNKNOWN : gdr ? BB_GDR_ON : BB_GDR_OFF;
	if (kind == BB_NIC && pci >= 0 && r->t->pcis[pci].class_code == 0x0207)
		d.layer = BB_INFINIBAND;
	if (kind == BB_NIC && x) {
		snprintf(d.name, sizeof(d.name), "%s", bb_xml_text(x, "name"));
		d.rate_Mbps = bb_xml_number(x, "speed", 0, 100000000, 0);
		d.state =
			strcmp(bb_xml_text(x, "state"), "down") == 0 ? BB_STATE_DOWN : BB_STATE_UP;
		for (enum bb_nic_layer layer = BB_INFINIBAND; layer <= BB_ETHERNET; layer++)
			if (strcmp(bb_xml_text(x, "layer"), bb_nic_layer_name(layer)) == 0)
				d.layer = layer;
	} else if (kind == BB_GPU) {
		d.sm = number_or(x, "sm", 999, d.sm);
		r->ngpus += bb_xml_is(x, "gpu");
	}
	BB_TRY(st, bb_add_device(r->t, &d, &index, r->error), out);
	if (kind == BB_GPU) {
		r->elements[index] = x;
		r->numbers[index] = number_or(x, "dev", BB_MOST_DEVICES - 1, index);
	}
out:
	return st;
}

/* Read what is below X, the element of PCI object PCI or (-1) of a NUMA node. */
static bb_status read_below(struct reader *r, const struct bb_xml *x, int pci)
{
	bb_status st = BB_OK;
	int index;

	for (const struct bb_xml *c = x->child; c; c = c->next) {
		if (bb_xml_is(c, "pci")) {
			const char *const id = bb_xml_text(c, "busid");
			struct bb_pci p = {
				.class_code =
					(uint32_t)(bb_xml_number(c, "class", 0, 0xffffff, 0) >> 8),
				.vendor = (uint32_t)bb_xml_number(c, "vendor", 0, 0xffff, 0),
				.device = (uint32_t)bb_xml_number(c, "device", 0, 0xffff, 0),
				.parent = pci,
				.root = (int)bb_xml_number(c, "host_bridge", -1, BB_TOPOLOGY_MOST,
							   pci >= 0 ? r->t->pcis[pci].root
								    : r->numa),
				.numa = r->numa,
				/* "16.0 GT/s PCIe" and "16": NCCL reads the maximum, not the
				   current link. A virtual machine without this information has
				   width 0. */
				.most = bb_pcie(
					bb_pcie_gen(strtod(bb_xml_text(c, "link_speed"), NULL)),
					(int)bb_xml_number(c, "link_width", 0, 255, 0)),
			};

			if (!bb_pci_id(p.id, id))
				return bb_fail(r->error, BB_EUSAGE,
					       "line %d: \"%.32s\" is not a PCI bus id", c->line,
					       id);
			p.role = bb_xml_child(c, "pci") || p.class_code == 0x0604 ? BB_PCI_SWITCH_UP
										  : BB_PCI_ENDPOINT;
			BB_TRY(st, bb_add_pci(r->t, &p, &index, r->error), out);
			BB_TRY(st, read_below(r, c, index), out);
		} else if (bb_xml_is(c, "gpu")) {
			BB_TRY(st, add_device(r, c, pci, BB_GPU), out);
		} else if (bb_xml_is(c, "nic")) {
			for (const struct bb_xml *port = c->child; port; port = port->next)
				if (bb_xml_is(port, "net"))
					BB_TRY(st, add_device(r, port, pci, BB_NIC), out);
		} else if (bb_xml_is(c, "net")) {
			BB_TRY(st, add_device(r, c, pci, BB_NIC), out);
		}
	}
	if (pci < 0 || x->child)
		goto out;
	const enum bb_device_kind kind = bb_pci_kind(&r->t->pcis[pci]);
	if (kind != BB_DEVICE_KINDS)
		st = add_device(r, kind == BB_GPU ? x : NULL, pci, kind);
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
	const int64_t number = bb_xml_number(x, "package", 0, BB_MOST_NUMAS - 1, -1);
	int alone = 0, *const package = number < 0 ? &alone : &r->packages[number];
	char *cpus = bb_cpu_list(bb_xml_text(x, "affinity"));
	bb_status st = BB_OK;

	n.os = (int)bb_xml_number(x, "numaid", -1, 65535, -1);
	if (n.os < 0)
		n.os = r->t->host.nnumas; /* -1: the machine has only one */
	snprintf(p.vendor, sizeof(p.vendor), "%s", bb_xml_text(x, "vendor"));
	snprintf(p.model, sizeof(p.model), "%s", bb_xml_text(x, "model"));
	snprintf(r->t->host.arch, sizeof(r->t->host.arch), "%s", bb_xml_text(x, "arch"));
	if (*package == 0) {
		BB_TRY(st, bb_add_package(r->t, &p, &n.package, r->error), out);
		*package = n.package + 1;
	}
	n.package = *package - 1;
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
	char id[16];

	for (int d = 0; bb_pci_id(id, bb_xml_text(x, "target")) && d < bb_topology_count(t, BB_GPU);
	     d++)
		if (t->devices[d].pci >= 0 && strcmp(t->pcis[t->devices[d].pci].id, id) == 0)
			return d;
	if (class_code >> 16 == 0x03 || bb_xml_is(x, "xgmi"))
		return BB_PEER_MISSING;
	return class_code == 0x068001 ? BB_PEER_CPU : BB_PEER_SWITCH;
}

static bb_status read_links(struct reader *r)
{
	struct bb_topology *const t = r->t;
	const int gpus = bb_topology_count(t, BB_GPU);
	bb_status st = BB_OK;

	for (int d = 0; d < t->ndevices; d++) {
		const struct bb_xml *const x = r->elements[d];
		const char *const p2p = x ? bb_xml_text(x, "p2p") : "";

		if (*p2p)
			BB_TRY(st, bb_add_p2p(t, r->error), out);
		for (int i = 0; i < gpus && p2p[i] >= '0' && p2p[i] < '0' + BB_P2P_UNKNOWN; i++)
			t->p2p[r->moved[d] * gpus + i] = (uint8_t)(p2p[i] - '0');
		for (const struct bb_xml *c = x ? x->child : NULL; c; c = c->next) {
			const bool c2c = bb_xml_is(c, "c2c");
			const int gpu = r->moved[d];
			struct bb_link l = {.kind = BB_C2C, .device = gpu, .peer = BB_PEER_CPU};

			if (!c2c && !bb_xml_is(c, "nvlink") && !bb_xml_is(c, "xgmi"))
				continue;
			if (!c2c)
				l = bb_gpu_links(t, gpu, peer_of(t, c), 0);
			else
				l.GBps = (double)bb_xml_number(c, "bw", 0, 10000000, 0) / 1000;
			l.count = (int)bb_xml_number(c, "count", 1, MOST_LINKS, 1);
			if (l.peer != gpu && l.peer != BB_PEER_MISSING)
				BB_TRY(st, bb_add_link(t, &l, r->error), out);
		}
	}
out:
	return st;
}

/* ---- the document ---------------------------------------------------------------------------- */

static int compare_hosts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bb_status bb_read_nccl_xml(const struct bb_xml *root, struct bb_topology *t, struct bb_error *error)
{
	const struct bb_xml *first = bb_xml_child(root, "cpu");
	struct reader r = {.t = t, .error = error};
	const char **hosts = NULL, *host;
	int n = 0, room = 0;
	bb_status st = BB_OK;

	if (!first)
		return bb_fail(error, BB_EUSAGE, "there is no cpu in the system");
	host = bb_xml_text(first, "host_hash");
	for (const struct bb_xml *c = first; c; c = c->next) {
		if (!bb_xml_is(c, "cpu"))
			continue;
		if (!BB_ARRAY_PUT(hosts, n, room, bb_xml_text(c, "host_hash")))
			BB_TRY(st, bb_no_memory(error, "machines"), out);
		if (strcmp(hosts[n - 1], host) == 0)
			BB_TRY(st, read_cpu(&r, c), out);
	}
	qsort(hosts, (size_t)n, sizeof(*hosts), compare_hosts);
	for (int i = 1; i < n; i++)
		t->nodes += strcmp(hosts[i - 1], hosts[i]) != 0;
	t->nvlink_nodes = t->nodes;
	t->links_unknown = r.ngpus == 0 && bb_may_have_links(t);
	snprintf(t->source, sizeof(t->source), "NCCL's XML%s",
		 r.ngpus == 0 ? ", input for NCCL_TOPO_FILE: PCI and NUMA nodes alone" : "");
	st = bb_sort_devices(t, r.numbers, r.moved) ? read_links(&r)
						    : bb_no_memory(error, "devices");
out:
	free(hosts);
	return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
	const struct bb_topology *t;
	struct bb_strbuf *out;
	int nets; /* so far: their number in NCCL */
};

static void write_text(struct writer *w, const char *name, const char *value)
{
	if (!*value)
		return;
	bb_strbuf_addf(w->out, " %s=\"", name);
	bb_printable_xml(w->out, value);
	bb_strbuf_add(w->out, "\"");
}

/* Without links between GPUs the file is as one for input: PCI alone shows the GPUs, as it shows
   disks. */
static void write_device(struct writer *w, int index)
{
	static const char *const gdr[] = {"", "0", "1"};
	const struct bb_topology *const t = w->t;
	const struct bb_device *const d = &t->devices[index];
	const int gpus = bb_topology_count(t, BB_GPU);

	if (d->kind == BB_GPU && !t->links_unknown) {
		bb_strbuf_addf(w->out, "<gpu dev=\"%d\" rank=\"%d\"", index, index);
		if (d->sm > 0)
			bb_strbuf_addf(w->out, " sm=\"%d\"", d->sm);
		write_text(w, "gdr", gdr[d->gdr]);
		bb_strbuf_add(w->out, t->p2p ? " p2p=\"" : "");
		for (int i = 0; t->p2p && i < gpus; i++)
			bb_strbuf_addf(w->out, "%d", t->p2p[index * gpus + i]);
		bb_strbuf_add(w->out, t->p2p ? "\">\n" : ">\n");
		for (int l = 0; l < t->nlinks; l++) {
			const struct bb_link *const link = &t->links[l];
			const int count = link->count < MOST_LINKS ? link->count : MOST_LINKS;
			const struct bb_pci *const peer =
				link->peer >= 0 && t->devices[link->peer].pci >= 0
					? &t->pcis[t->devices[link->peer].pci]
					: NULL;

			if (link->device != index || count == 0)
				continue;
			if (link->kind == BB_C2C)
				bb_strbuf_addf(w->out, "<c2c bw=\"%.0f\" count=\"%d\"/>\n",
					       1000 * link->GBps, count);
			else if (peer)
				bb_strbuf_addf(
					w->out,
					"<%s target=\"%s\" count=\"%d\" tclass=\"0x%04x00\"/>\n",
					bb_topology_is_amd(t, index) ? "xgmi" : "nvlink", peer->id,
					count, peer->class_code);
			else if (link->peer < 0)
				bb_strbuf_addf(w->out,
					       "<nvlink target=\"fffffff:ffff:ff\" count=\"%d\" "
					       "tclass=\"%s\"/>\n",
					       count,
					       link->peer == BB_PEER_CPU ? "0x068001" : "0x068000");
		}
		bb_strbuf_add(w->out, "</gpu>\n");
	} else if (d->kind == BB_NIC) {
		bb_strbuf_addf(w->out, "<nic><net dev=\"%d\" port=\"1\" speed=\"%lld\"", w->nets++,
			       (long long)d->rate_Mbps);
		write_text(w, "name", d->name);
		write_text(w, "gdr", gdr[d->gdr]);
		write_text(w, "layer", bb_nic_layer_name(d->layer));
		write_text(w, "state", d->state == BB_STATE_DOWN ? "down" : "");
		bb_strbuf_add(w->out, "/></nic>\n");
	}
}

/* Write PCI object P and all below it. As in NCCL a switch is its upstream port alone. */
static void write_pci(struct writer *w, int p)
{
	const struct bb_topology *const t = w->t;
	const struct bb_pci *const pci = &t->pcis[p];
	const struct bb_pcie link = bb_pci_link(t, p);
	const bool port = pci->role == BB_PCI_ROOT_PORT || pci->role == BB_PCI_SWITCH_DOWN;

	if (!port) {
		bb_strbuf_addf(w->out,
			       "<pci busid=\"%s\" class=\"0x%04x00\" vendor=\"0x%04x\" "
			       "device=\"0x%04x\" host_bridge=\"%d\" link_width=\"%d\"",
			       pci->id, pci->class_code, pci->vendor, pci->device, pci->root,
			       link.width);
		if (link.gen > 0)
			bb_strbuf_addf(w->out, " link_speed=\"%.1f GT/s PCIe\"",
				       bb_pcie_gigatransfers(link.gen));
		bb_strbuf_add(w->out, ">\n");
	}
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci == p)
			write_device(w, d);
	for (int child = p + 1; child < t->npcis; child++)
		if (t->pcis[child].parent == p)
			write_pci(w, child);
	bb_strbuf_add(w->out, port ? "" : "</pci>\n");
}

/* Write NUMA node NUMA and its devices; -1: those at no known node. */
static void write_cpu(struct writer *w, int numa)
{
	const struct bb_topology *const t = w->t;
	const struct bb_host *const h = &t->host;
	const struct bb_numa none = {.package = -1}, *const n = numa < 0 ? &none : &h->numas[numa];
	int number = n->os;

	while (numa < 0 && bb_host_numa(h, number) >= 0)
		number++;
	bb_strbuf_addf(w->out, "<cpu host_hash=\"0x1\" numaid=\"%d\"", number);
	write_text(w, "arch", h->arch);
	if (n->package >= 0) {
		const struct bb_package *const package = &h->packages[n->package];

		bb_strbuf_addf(w->out, " package=\"%d\" familyid=\"%d\" modelid=\"%d\"", n->package,
			       package->family, package->number);
		write_text(w, "vendor", package->vendor);
		write_text(w, "model", package->model);
	}
	if (n->cpus) {
		char *const mask = bb_cpu_mask(n->cpus);

		write_text(w, "affinity", mask ? mask : "");
		free(mask);
	}
	bb_strbuf_add(w->out, ">\n");
	for (int p = 0; p < t->npcis; p++)
		if (t->pcis[p].parent < 0 && t->pcis[p].numa == numa)
			write_pci(w, p);
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci < 0 && t->devices[d].numa == numa)
			write_device(w, d);
	bb_strbuf_add(w->out, "</cpu>\n");
}

void bb_topology_export(const struct bb_topology *t, struct bb_strbuf *out)
{
	struct writer w = {.t = t, .out = out};
	bool unplaced = t->host.nnumas == 0;

	bb_strbuf_add(out, "<system version=\"1\">\n");
	for (int numa = 0; numa < t->host.nnumas; numa++)
		write_cpu(&w, numa);
	for (int p = 0; p < t->npcis; p++)
		unplaced |= t->pcis[p].numa < 0;
	for (int d = 0; d < t->ndevices; d++)
		unplaced |= t->devices[d].pci < 0 && t->devices[d].numa < 0;
	if (unplaced)
		write_cpu(&w, -1);
	for (int node = 1; node < t->nvlink_nodes; node++)
		bb_strbuf_addf(out, "<cpu host_hash=\"0x%x\" numaid=\"0\"/>\n", node + 1);
	bb_strbuf_add(out, "</system>\n");
}
