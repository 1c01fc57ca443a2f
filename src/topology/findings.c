/*
 * findings.c - signs of defects: links below the capability of both ends, devices slower than
 * others of their model.
 */
#include "core/units.h"
#include "topology/bound.h"
#include "topology/build.h"
#include "topology/rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct findings {
	const struct bb_topology *t;
	void (*add)(void *context, const char *text);
	void *context;
	int n; /* sentences so far */
};

__attribute__((format(printf, 2, 3))) static void add_finding(struct findings *f,
							      const char *format, ...)
{
	struct bb_strbuf text = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&text, format, args);
	va_end(args);
	f->add(f->context, bb_strbuf_text(&text));
	bb_strbuf_free(&text);
	f->n++;
}

/* ---- equals ---------------------------------------------------------------------------------- */

static bool same_model(const struct bb_topology *t, int a, int b)
{
	return strcmp(t->devices[a].model, t->devices[b].model) == 0;
}

/* The figure that more than half of the GPUs of GPU's model have or, OF_TWO, the greater one; 0:
   there is none. The more the better. */
static double usual(const struct bb_topology *t, int gpu, const double figures[BB_MOST_GPUS],
		    bool of_two)
{
	const int n = bb_topology_count(t, BB_GPU);
	double most = 0;
	int alike = 0;

	for (int e = 0; e < n; e++)
		alike += same_model(t, gpu, e);
	for (int e = 0; e < n; e++) {
		int share = 0;

		for (int f = 0; f < n; f++)
			share += same_model(t, gpu, f) && figures[f] == figures[e];
		if (same_model(t, gpu, e) && figures[e] > most &&
		    (2 * share > alike || (alike == 2 && of_two)))
			most = figures[e];
	}
	return most;
}

/* ---- GPUs and NVLink ----------------------------------------------------------------------- */

/* Links of GPU of this kind that are down; *ALL: with those that work. */
static int down_links(const struct bb_topology *t, int gpu, enum bb_link_kind kind, int *all)
{
	int down = *all = 0;

	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].device == gpu && t->links[l].kind == kind) {
			down += t->links[l].down;
			*all += t->links[l].down + t->links[l].count;
		}
	return down;
}

static void check_nvlinks(struct findings *f)
{
	const struct bb_topology *t = f->t;
	const int gpus = bb_topology_count(t, BB_GPU);
	double links[BB_MOST_GPUS];

	for (int d = 0; d < gpus; d++) {
		for (int kind = BB_NVLINK; kind <= BB_C2C; kind++) {
			int all;
			const int down = down_links(t, d, (enum bb_link_kind)kind, &all);

			if (down > 0)
				add_finding(f, "%s: %d of %d %s %s down", t->devices[d].name, down,
					    all, kind == BB_C2C ? "NVLink-C2C" : "NVLinks",
					    down > 1 ? "are" : "is");
		}
		links[d] = bb_topology_nvlinks(t, d, BB_PEER_ANY);
	}
	for (int d = 0; d < gpus; d++) {
		const double most = usual(t, d, links, true);
		int all;

		if (links[d] < most && down_links(t, d, BB_NVLINK, &all) == 0)
			add_finding(f, "%s: %.0f NVLink%s, where others of its model have %.0f",
				    t->devices[d].name, links[d], bb_plural((int)links[d]), most);
	}
	for (int l = 0; l < t->nlinks; l++) {
		const struct bb_link *a = &t->links[l];

		if (a->kind != BB_NVLINK || a->peer < a->device)
			continue;
		const int back = bb_topology_nvlinks(t, a->peer, a->device);
		if (back != a->count)
			add_finding(f, "%s has %d NVLink%s to %s, which has %d back",
				    t->devices[a->device].name, a->count, bb_plural(a->count),
				    t->devices[a->peer].name, back);
	}
}

/* ---- PCIe ---------------------------------------------------------------------------------- */

/* The link above P, called NAME: a card of KIND, or a switch (BB_DEVICE_KINDS). */
static void check_link(struct findings *f, const char *name, const struct bb_pci *p,
		       enum bb_device_kind kind)
{
	const struct bb_pci *const above = p->parent >= 0 ? &f->t->pcis[p->parent] : NULL;
	const bool known = above && above->role != BB_PCI_SWITCH_UP && above->most.width > 0;
	const struct bb_pci *const port = known ? above : NULL; /* NULL: its link is unknown */
	const int now = p->now.width, most = p->most.width, gen = p->most.gen;
	const int of_port = port && port->most.gen > 0 ? port->most.gen : gen;
	const int possible = of_port < gen ? of_port : gen;

	if (bb_pci_virtual(p))
		return;
	if (now > 0 && now < most && port && port->most.width <= now)
		add_finding(f, "%s: runs at PCIe x%d; the card supports x%d, its slot has x%d",
			    name, now, most, port->most.width);
	else if (now > 0 && now < most)
		add_finding(f, "%s: runs at PCIe x%d; the card supports x%d%s", name, now, most,
			    port ? " and so does its slot: reseat or replace it" : "");
	/* GPUs lower their speed while idle. */
	if (kind != BB_GPU && p->now.gen > 0 && p->now.gen < possible)
		add_finding(f, "%s: runs at PCIe generation %d; both ends support %d", name,
			    p->now.gen, possible);
	if (kind != BB_DEVICE_KINDS && of_port < gen)
		add_finding(f, "%s: a card of PCIe generation %d in a slot of generation %d", name,
			    gen, of_port);
}

/* Whether DEVICE runs with fewer lanes than it has, or more slowly: a finding of its own. */
static bool is_narrow(const struct bb_topology *t, int device)
{
	const struct bb_pci *p = &t->pcis[t->devices[device].pci];

	return p->now.width > 0 && p->now.width < p->most.width;
}

/* A GPU whose way to the host is slower than that of its equals; not for lanes that check_link
   reports. */
static void check_gpu_paths(struct findings *f)
{
	const struct bb_topology *t = f->t;
	const int gpus = bb_topology_count(t, BB_GPU);
	double GBps[BB_MOST_GPUS]; /* payload of the narrowest link to the host bridge; 0 unknown */

	/* Of the links with a known rate, its own included. The generation is what both ends can:
	   idle GPUs lower it. */
	for (int d = 0; d < gpus; d++) {
		const int slowest = bb_pci_slowest_switch(t, d);
		struct bb_pcie link = bb_device_link(t, d);

		if (slowest >= 0 && (link.gen == 0 || bb_pci_link(t, slowest).GBps < link.GBps))
			link = bb_pci_link(t, slowest);
		GBps[d] = link.gen > 0 ? bb_pcie_payload(&link) : 0;
	}
	for (int d = 0; d < gpus; d++) {
		const double most = usual(t, d, GBps, true);
		const int above = bb_pci_slowest_switch(t, d);
		const struct bb_pcie own = bb_device_link(t, d);

		if (GBps[d] == 0 || GBps[d] >= 0.99 * most)
			continue;
		if (bb_pcie_payload(&own) > 1.01 * GBps[d])
			add_finding(f,
				    "%s: its way to the host passes PCIe switch %s, %.3g GB/s; "
				    "that of others of its model carries %.3g",
				    t->devices[d].name, t->pcis[above].id, GBps[d], most);
		else if (!is_narrow(t, d))
			add_finding(f,
				    "%s: runs at PCIe Gen%d x%d, %.3g GB/s; others of its model "
				    "carry %.3g: reseat or replace it",
				    t->devices[d].name, own.gen, own.width, GBps[d], most);
	}
}

/* A switch whose link to the host carries less than half of a GPU's or NIC's below it. Half is
   usual: a switch of the generation before. */
static void check_switches(struct findings *f)
{
	const struct bb_topology *t = f->t;

	for (int p = 0; p < t->npcis; p++) {
		const struct bb_pcie link = bb_pci_link(t, p);
		struct bb_strbuf names = {0};
		double most = 0;

		if (t->pcis[p].role != BB_PCI_SWITCH_UP || link.gen == 0 || link.GBps <= 0)
			continue;
		for (int d = 0; d < t->ndevices; d++)
			for (int q = t->devices[d].pci; q >= 0; q = t->pcis[q].parent) {
				const struct bb_pcie its = bb_device_link(t, d);

				if (q != p || t->devices[d].kind == BB_NVME)
					continue;
				bb_strbuf_addf(&names, "%s%s", names.length > 0 ? ", " : "",
					       t->devices[d].name);
				most = its.gen > 0 && its.GBps > most ? its.GBps : most;
			}
		if (link.GBps < 0.49 * most)
			add_finding(
				f,
				"PCIe switch %s above %s: Gen%d x%d, %.3g GB/s, where the cards "
				"below carry %.3g%s",
				t->pcis[p].id, bb_strbuf_text(&names), link.gen, link.width,
				bb_pcie_payload(&link), most * 256 / 280,
				bb_pci_virtual(&t->pcis[p])
					? "; a virtual machine made the switch up, but NCCL takes "
					  "its rate for real: give NCCL_TOPO_FILE with the real "
					  "ones"
					: ": it limits GPUDirect RDMA and copies");
		bb_strbuf_free(&names);
	}
}

/* ---- peer access ----------------------------------------------------------------------------- */

static const char *const p2p_reasons[] = {
	[BB_P2P_CHIPSET] = "the chipset does not support it",
	[BB_P2P_GPU] = "the GPU does not support it",
	[BB_P2P_TOPOLOGY] = "the path between them does not support it",
	[BB_P2P_DISABLED] = "it is disabled in the driver's settings",
	[BB_P2P_NOT_SUPPORTED] = "it is not supported",
};

/* One sentence for each reason, with the number of pairs and the first of them; and one for ACS. */
static void check_p2p(struct findings *f)
{
	const struct bb_topology *t = f->t;
	const int n = bb_topology_count(t, BB_GPU);
	int ports = 0, first = -1;

	for (int code = BB_P2P_CHIPSET; code <= BB_P2P_NOT_SUPPORTED; code++) {
		int pairs = 0, a = -1, b = -1;

		for (int i = 0; i < n; i++)
			for (int j = i + 1; j < n; j++)
				if ((int)bb_topology_p2p(t, i, j) == code && pairs++ == 0) {
					a = i;
					b = j;
				}
		if (pairs == n * (n - 1) / 2 && pairs > 0)
			add_finding(f, "no P2P between any two GPUs: %s", p2p_reasons[code]);
		else if (pairs > 0)
			add_finding(f, "no P2P between %d pair%s of GPUs, such as %s and %s: %s",
				    pairs, bb_plural(pairs), t->devices[a].name, t->devices[b].name,
				    p2p_reasons[code]);
	}
	/* ACS may redirect P2P between devices of one switch to the host bridge, where it is often
	   slower than through host memory. */
	for (int d = 0; d < t->ndevices; d++) {
		int port = t->devices[d].pci >= 0 ? t->pcis[t->devices[d].pci].parent : -1;

		if (port >= 0 && t->pcis[port].role == BB_PCI_SWITCH_DOWN &&
		    t->pcis[port].acs == BB_ACS_REDIRECT && ports++ == 0)
			first = port;
	}
	if (ports > 0)
		add_finding(
			f,
			"ACS sends P2P of %d device%s up to the host bridge, at port %s%s: slow; "
			"disable it if no virtual machine needs it",
			ports, bb_plural(ports), t->pcis[first].id, ports > 1 ? " and others" : "");
}

/* ---- NICs ---------------------------------------------------------------------------------- */

/* The path from NIC to the nearest GPU, which tells NICs for storage from those for GPUs. */
static enum bb_path nearest_path(const struct bb_topology *t, int nic)
{
	enum bb_path best = BB_PATH_UNKNOWN;

	for (int g = 0; g < bb_topology_count(t, BB_GPU); g++) {
		enum bb_path path = bb_topology_pci_path(t, g, nic);

		best = path < best ? path : best;
	}
	return best;
}

/* Whether OTHER is expected to be as fast as NIC. */
static bool is_like(const struct bb_topology *t, int nic, int other)
{
	const struct bb_device *a = &t->devices[nic], *b = &t->devices[other];

	if (b->kind != BB_NIC || strcmp(a->model, b->model) != 0 || a->layer != b->layer)
		return false;
	if (!a->model[0] && (a->pci < 0 || b->pci < 0 || t->pcis[a->pci].vendor == 0 ||
			     t->pcis[a->pci].vendor != t->pcis[b->pci].vendor ||
			     t->pcis[a->pci].device != t->pcis[b->pci].device))
		return false;
	return nearest_path(t, nic) == nearest_path(t, other);
}

static void check_gdr(struct findings *f)
{
	struct bb_strbuf names = {0};
	int n = 0;

	for (int d = 0; d < f->t->ndevices; d++) {
		const struct bb_device *const v = &f->t->devices[d];

		/* Outside of PCI it is a software device. */
		if (v->kind != BB_NVME && v->gdr == BB_GDR_OFF && v->pci >= 0)
			bb_strbuf_addf(&names, "%s%s", n++ ? ", " : "", v->name);
	}
	if (n > 0)
		add_finding(f,
			    "no GPUDirect RDMA (gdr=\"0\") of %d device%s: %s; data passes "
			    "through host memory: load nvidia_peermem, or use a driver and "
			    "kernel with DMA-BUF",
			    n, bb_plural(n), bb_strbuf_text(&names));
	bb_strbuf_free(&names);
}

/* A GPU that is farther from its nearest NIC than its equals, or has fewer NICs there. */
static void check_near_nics(struct findings *f)
{
	const struct bb_topology *t = f->t;
	const int gpus = bb_topology_count(t, BB_GPU);
	double near[BB_MOST_GPUS], count[BB_MOST_GPUS];

	for (int g = 0; g < gpus; g++) {
		enum bb_path best = BB_PATH_UNKNOWN;

		count[g] = 0;
		for (int d = gpus; d < t->ndevices; d++) {
			const enum bb_path path = bb_topology_pci_path(t, g, d);

			if (t->devices[d].kind != BB_NIC || path > best)
				continue;
			count[g] = path < best ? 1 : count[g] + 1;
			best = path;
		}
		near[g] = BB_PATH_UNKNOWN - best;
	}
	for (int g = 0; g < gpus; g++) {
		const double usual_near = usual(t, g, near, false),
			     usual_count = usual(t, g, count, false);
		const enum bb_path path = (enum bb_path)(BB_PATH_UNKNOWN - (int)near[g]);
		const enum bb_path others = (enum bb_path)(BB_PATH_UNKNOWN - (int)usual_near);

		if (near[g] < usual_near)
			add_finding(f,
				    "%s: no NIC near it: the nearest is at %s, where others of "
				    "its model have one at %s; is a NIC missing?",
				    t->devices[g].name, bb_path_word(path), bb_path_word(others));
		else if (near[g] == usual_near && count[g] < usual_count && others <= BB_PATH_PXB)
			add_finding(f,
				    "%s: %.0f NIC%s at %s, where others of its model have %.0f; "
				    "is a NIC missing?",
				    t->devices[g].name, count[g], bb_plural((int)count[g]),
				    bb_path_word(path), usual_count);
	}
}

static void check_nics(struct findings *f)
{
	const struct bb_topology *t = f->t;

	for (int d = 0; d < t->ndevices; d++) {
		const struct bb_device *nic = &t->devices[d];
		bool is_used = nic->layer == BB_INFINIBAND;
		int64_t most = 0;

		if (nic->kind != BB_NIC)
			continue;
		if (nic->state == BB_STATE_DOWN) {
			/* An on-board Ethernet port of which no other is up is no finding. */
			for (int e = 0; e < t->ndevices && nic->model[0]; e++)
				is_used |= t->devices[e].kind == BB_NIC &&
					   t->devices[e].state == BB_STATE_UP &&
					   strcmp(t->devices[e].model, nic->model) == 0;
			if (is_used)
				add_finding(f, "%s: its port is down", nic->name);
			continue;
		}
		for (int e = 0; e < t->ndevices; e++)
			if (is_like(t, d, e) && t->devices[e].rate_Mbps > most)
				most = t->devices[e].rate_Mbps;
		if (nic->rate_Mbps > 0 && nic->rate_Mbps < most)
			add_finding(f, "%s: %.4g Gb/s, where others of its model run at %.4g",
				    nic->name, (double)nic->rate_Mbps / 1000, (double)most / 1000);
	}
}

/* The payload of a NIC's own link; 0: its generation is unknown. */
static double slot_GBps(const struct bb_topology *t, int nic)
{
	const struct bb_pcie link = bb_device_link(t, nic);

	return link.gen > 0 ? bb_pcie_payload(&link) : 0;
}

/* Slots that are slower than the network port of their NIC, or than those of its equals. */
static void check_nic_slots(struct findings *f)
{
	const struct bb_topology *t = f->t;

	for (int d = 0; d < t->ndevices; d++) {
		const struct bb_device *nic = &t->devices[d];
		const struct bb_pcie link = bb_device_link(t, d);
		const double GBps = (double)nic->rate_Mbps / 8000 * bb_nic_share(nic->layer);
		double most = 0;

		if (nic->kind != BB_NIC || nic->pci < 0)
			continue;
		for (int e = 0; e < t->ndevices; e++)
			if (is_like(t, d, e))
				most = fmax(most, slot_GBps(t, e));
		if (link.GBps > 0 && bb_pcie_payload(&link) < 0.97 * GBps)
			add_finding(f, "%s: its PCIe link carries %.3g GB/s, its port %.3g",
				    nic->name, bb_pcie_payload(&link), GBps);
		else if (slot_GBps(t, d) > 0 && slot_GBps(t, d) < 0.99 * most && !is_narrow(t, d))
			add_finding(f,
				    "%s: its PCIe link carries %.3g GB/s, where those of others of "
				    "its model carry %.3g",
				    nic->name, slot_GBps(t, d), most);
	}
}

/* ---- all ----------------------------------------------------------------------------------- */

int bb_topology_findings(const struct bb_topology *t, void (*add)(void *context, const char *text),
			 void *context)
{
	struct findings f = {.t = t, .add = add, .context = context};

	if (t->hidden_gpus > 0)
		add_finding(
			&f,
			"%d GPU%s on the bus that the driver does not show: dead, or outside this "
			"container",
			t->hidden_gpus, t->hidden_gpus > 1 ? "s are" : " is");
	check_nvlinks(&f);
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci >= 0)
			check_link(&f, t->devices[d].name, &t->pcis[t->devices[d].pci],
				   t->devices[d].kind);
	for (int i = 0; i < t->npcis; i++) {
		char name[40];

		snprintf(name, sizeof(name), "PCIe switch %s", t->pcis[i].id);
		if (t->pcis[i].role == BB_PCI_SWITCH_UP)
			check_link(&f, name, &t->pcis[i], BB_DEVICE_KINDS);
	}
	check_gpu_paths(&f);
	check_switches(&f);
	check_p2p(&f);
	check_nics(&f);
	check_near_nics(&f);
	check_gdr(&f);
	check_nic_slots(&f);
	for (int i = 0; i < t->host.nnumas && t->host.nnumas > 1; i++)
		if (t->host.numas[i].cpus && t->host.numas[i].bytes == 0 &&
		    bb_host_memory(&t->host) > 0)
			add_finding(&f, "NUMA node %d has cores but no memory",
				    t->host.numas[i].os);
	for (int d = 0; d < t->ndevices && t->host.nnumas > 1; d++)
		if (t->devices[d].numa < 0 && t->devices[d].kind != BB_NVME)
			add_finding(&f, "%s: the firmware does not name its NUMA node",
				    t->devices[d].name);
	return f.n;
}
