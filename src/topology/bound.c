/*
 * bound.c - the speed of light: bounds within one machine, out of it, and of ranks on several.
 */
#include "topology/bound.h"
#include "core/units.h"
#include "topology/build.h"
#include "topology/rates.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESH_MOST 16 /* GPUs up to which all rings and all cuts are tried */

const char *bb_bound_name(enum bb_bound what)
{
	static const char *const names[] = {"pair", "ring", "tree", "NVLS", "SHARP", "all-to-all"};

	return names[what];
}

struct bb_rank_place *bb_all_gpus(const struct bb_topology *t, int nodes, int *n)
{
	const int gpus = bb_topology_count(t, BB_GPU);
	struct bb_rank_place *ranks = calloc((size_t)nodes * (size_t)gpus + 1, sizeof(*ranks));

	*n = nodes * gpus;
	for (int i = 0; ranks && i < *n; i++)
		ranks[i] = (struct bb_rank_place){.node = i / gpus, .device = i % gpus};
	return ranks;
}

/* ---- the lowest of several bounds ----------------------------------------------------------- */

struct limit {
	double GBps; /* INFINITY: none yet */
	char why[256];
};

/* Write GBPS with three digits, or all before the point, into TEXT: "371", "20.6", "1404". */
static const char *gbps_text(char text[16], double GBps)
{
	snprintf(text, 16, GBps < 999.5 ? "%.3g" : "%.0f", GBps);
	return text;
}

#define GBPS(x) gbps_text((char[16]){""}, x)

/* Lower LIMIT to GBPS x FACTOR if that is less. FORMAT explains GBPS; FACTOR, which belongs to the
   bound of WHAT, is appended unless it is 1. */
__attribute__((format(printf, 5, 6))) static void limit_to(struct limit *limit, double GBps,
							   double factor, enum bb_bound what,
							   const char *format, ...)
{
	const size_t size = sizeof(limit->why);
	va_list args;

	if (GBps * factor >= limit->GBps)
		return;
	limit->GBps = GBps * factor;
	va_start(args, format);
	vsnprintf(limit->why, size, format, args);
	va_end(args);
	const size_t at = strlen(limit->why);
	if (factor != 1)
		snprintf(limit->why + at, size - at, ", × %s for %s = %s GB/s", GBPS(factor),
			 bb_bound_name(what), GBPS(GBps * factor));
}

/* Set LIMIT to 0 with the reason that FORMAT gives. Returns STATUS. */
__attribute__((format(printf, 3, 4))) static bb_status refuse(struct limit *limit, bb_status status,
							      const char *format, ...)
{
	va_list args;

	limit->GBps = 0;
	va_start(args, format);
	vsnprintf(limit->why, sizeof(limit->why), format, args);
	va_end(args);
	return status;
}

/* Why there is no bound of GPUs whose links are unknown (links_unknown). */
#define NO_LINKS                                                                                   \
	"the source does not show NVLinks, which the GPUs may have; NCCL's dump "                  \
	"(NCCL_TOPO_DUMP_FILE) does"

#define NO_RATE "the rate of an NVLink of %s is not known"

static bool in(bb_gpus set, int gpu)
{
	return set >> gpu & 1;
}

static int size_of(bb_gpus set)
{
	return __builtin_popcountll(set);
}

static int first_of(bb_gpus set)
{
	return __builtin_ctzll(set);
}

/* Lower LIMIT to COUNT NVLinks or xGMI links of GPU. */
static bb_status limit_to_links(const struct bb_topology *t, int gpu, int count,
				struct limit *limit)
{
	const struct bb_link *link = bb_topology_link(t, gpu, BB_NVLINK);
	char name[16];

	if (!link || link->GBps <= 0)
		return refuse(limit, BB_EUNSUPPORTED, NO_RATE, t->devices[gpu].name);
	limit_to(limit, count * link->GBps, 1, BB_BOUND_PAIR, "%d %s × %s GB/s payload = %s GB/s",
		 count, bb_topology_link_text(name, t, gpu), GBPS(link->GBps),
		 GBPS(count * link->GBps));
	return BB_OK;
}

/* "GPU0,1,2" */
static const char *set_text(char text[64], bb_gpus set)
{
	size_t at = (size_t)snprintf(text, 64, "GPU");

	for (; set && at < 60; set &= set - 1)
		at += (size_t)snprintf(text + at, 64 - at, "%s%d", text[at - 1] == 'U' ? "" : ",",
				       first_of(set));
	return text;
}

/* ---- which fabric -------------------------------------------------------------------------- */

static bool all_on_switches(const struct bb_topology *t, bb_gpus set)
{
	for (bb_gpus s = set; s; s &= s - 1)
		if (bb_topology_nvlinks(t, first_of(s), BB_PEER_SWITCH) == 0)
			return false;
	return true;
}

struct mesh {
	int n;
	int gpus[MESH_MOST];
	int links[MESH_MOST][MESH_MOST];
};

static void read_mesh(const struct bb_topology *t, bb_gpus set, struct mesh *m)
{
	m->n = 0;
	for (bb_gpus s = set; s; s &= s - 1)
		m->gpus[m->n++] = first_of(s);
	for (int i = 0; i < m->n; i++)
		for (int j = 0; j < m->n; j++)
			m->links[i][j] = bb_topology_nvlinks(t, m->gpus[i], m->gpus[j]);
}

/*
 * Whether a ring of NVLinks passes through all GPUs of SET, by dynamic programming over its subsets
 * (Held and Karp 1962): ends[part] are the GPUs at which a path from the first GPU through all of
 * PART may end. Trying all paths takes hours for some meshes of 16 GPUs.
 */
static bool ring_of_nvlinks(const struct bb_topology *t, bb_gpus set)
{
	uint16_t ends[1 << MESH_MOST];
	unsigned neighbours[MESH_MOST] = {0};
	const int n = size_of(set);
	struct mesh m;

	if (n > MESH_MOST)
		return false;
	read_mesh(t, set, &m);
	for (int i = 0; i < n * n; i++)
		neighbours[i / n] |= (unsigned)(m.links[i / n][i % n] > 0) << i % n;
	memset(ends, 0, sizeof(*ends) << n);
	ends[1] = 1;
	for (unsigned part = 1; part < 1u << n; part += 2)
		for (unsigned last = ends[part]; last; last &= last - 1)
			for (unsigned next = neighbours[first_of(last)] & ~part; next;
			     next &= next - 1)
				ends[part | (next & -next)] |= (uint16_t)(next & -next);
	return ends[(1u << n) - 1] & neighbours[0];
}

enum bb_fabric_kind bb_fabric_of(const struct bb_topology *t, bb_gpus set)
{
	if (all_on_switches(t, set))
		return BB_FABRIC_SWITCH;
	return ring_of_nvlinks(t, set) ? BB_FABRIC_MESH : BB_FABRIC_PCIE;
}

/* ---- NVLinks between GPUs ------------------------------------------------------------------ */

/* Traffic in one direction across a cut between S of N ranks and the others, as a multiple of the
   bus bandwidth. Trees with equal loads let each rank send 2(n-1)/n of the data; across a cut with
   several ranks on both sides the data must pass once. */
static double crossings(enum bb_bound what, int s, int n)
{
	if (what == BB_BOUND_ALLTOALL)
		return (double)s * (n - s) / (n - 1);
	if (what == BB_BOUND_TREE && s > 1 && s < n - 1)
		return n / (2.0 * (n - 1));
	return 1;
}

/* Lower LIMIT to the NVLinks that leave each part of SET. */
static bb_status limit_to_mesh(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
			       struct limit *limit)
{
	const struct bb_link *const link = bb_topology_link(t, first_of(set), BB_NVLINK);
	struct mesh m = {0};
	char name[16], text[64];

	if (!link || link->GBps <= 0)
		return refuse(limit, BB_EUNSUPPORTED, NO_RATE, t->devices[first_of(set)].name);
	read_mesh(t, set, &m);
	bb_topology_link_text(name, t, m.gpus[0]);
	/* Every cut of the set in two: links are symmetric, so the smaller side suffices. */
	for (unsigned part = 1; part < (1u << m.n) - 1; part++) {
		const int size = __builtin_popcount(part);
		bb_gpus inside = 0;
		int count = 0;

		if (size > m.n - size)
			continue;
		for (int i = 0; i < m.n; i++) {
			inside |= part >> i & 1 ? 1ull << m.gpus[i] : 0;
			for (int j = 0; j < m.n; j++)
				count += part >> i & 1 && !(part >> j & 1) ? m.links[i][j] : 0;
		}
		limit_to(limit, count * link->GBps, 1 / crossings(what, size, m.n), what,
			 "%d %s × %s GB/s payload leave %s = %s GB/s", count, name,
			 GBPS(link->GBps), set_text(text, inside), GBPS(count * link->GBps));
	}
	return BB_OK;
}

/* ---- PCIe ---------------------------------------------------------------------------------- */

struct bb_pcie bb_pci_link(const struct bb_topology *t, int p)
{
	const struct bb_pci *pci = &t->pcis[p];
	const struct bb_pci *above = pci->parent >= 0 ? &t->pcis[pci->parent] : NULL;
	int gen = pci->most.gen, width = pci->now.width;

	if (gen == 0 || width == 0)
		return pci->now.GBps > 0 ? pci->now : pci->most;
	/* The two ends of one link; the port above may be missing from the model. */
	if (above && above->role != BB_PCI_SWITCH_UP && above->most.gen > 0 &&
	    above->most.gen < gen && !bb_pci_virtual(above))
		gen = above->most.gen;
	return bb_pcie(gen, width);
}

struct bb_pcie bb_device_link(const struct bb_topology *t, int d)
{
	return t->devices[d].pci >= 0 ? bb_pci_link(t, t->devices[d].pci) : (struct bb_pcie){0};
}

int bb_pci_slowest_switch(const struct bb_topology *t, int d)
{
	int slowest = -1;
	double least = INFINITY;

	for (int p = t->devices[d].pci; p >= 0; p = t->pcis[p].parent) {
		const struct bb_pcie link = bb_pci_link(t, p);

		if (t->pcis[p].role == BB_PCI_SWITCH_UP && link.gen > 0 && link.GBps > 0 &&
		    link.GBps < least) {
			least = link.GBps;
			slowest = p;
		}
	}
	return slowest;
}

static const char *pcie_text(char text[24], const struct bb_pcie *link)
{
	if (link->gen > 0)
		snprintf(text, 24, "PCIe Gen%d x%d", link->gen, link->width);
	else
		snprintf(text, 24, "PCIe");
	return text;
}

/* Traffic in one direction across the PCIe link above PART, as a multiple of the bus bandwidth.
   Traffic through host memory crosses it even between two GPUs of PART. */
static double pcie_crossings(const struct bb_topology *t, enum bb_bound what, bb_gpus set,
			     bb_gpus part)
{
	bool staged = false;
	int pairs = 0;
	const int n = size_of(set);

	for (bb_gpus a = part; a; a &= a - 1)
		for (bb_gpus b = set & ~(1ull << first_of(a)); b; b &= b - 1) {
			int i = first_of(a), j = first_of(b);
			bool through_host = in(part, j) && !bb_topology_reaches(t, i, j);

			staged = staged || through_host;
			pairs +=
				bb_topology_nvlinks(t, i, j) == 0 && (!in(part, j) || through_host);
		}
	if (what == BB_BOUND_ALLTOALL)
		return (double)pairs / (n - 1);
	if (staged)
		return size_of(part);
	return part == set ? 0 : crossings(what, size_of(part), n);
}

/* GPUs of SET that NVLinks join to GPU, directly or through others. */
static bb_gpus joined(const struct bb_topology *t, int gpu, bb_gpus set)
{
	bb_gpus part = 1ull << gpu, before = 0;

	while (part != before) {
		before = part;
		for (bb_gpus s = before; s; s &= s - 1)
			for (bb_gpus rest = set & ~part; rest; rest &= rest - 1)
				if (bb_topology_nvlinks(t, first_of(s), first_of(rest)) > 0)
					part |= 1ull << first_of(rest);
	}
	return part;
}

/* Lower LIMIT to the GPUs' own PCIe links, which GPUs joined by NVLinks share, and to those above
   switches. */
static bb_status limit_to_pcie(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
			       struct limit *limit)
{
	char text[24], names[64];

	for (bb_gpus rest = set; rest;) {
		const int gpu = first_of(rest);
		bb_gpus part = what == BB_BOUND_ALLTOALL ? 1ull << gpu : joined(t, gpu, set);
		double GBps = 0, times;
		struct bb_pcie link = {0};

		if (part == set)
			part = 1ull << gpu;
		rest &= ~part;
		for (bb_gpus s = part; s; s &= s - 1) {
			link = bb_device_link(t, first_of(s));
			if (link.GBps <= 0)
				return refuse(limit, BB_EUNSUPPORTED,
					      "the PCIe link of %s is not known",
					      t->devices[first_of(s)].name);
			GBps += bb_pcie_payload(&link);
		}
		times = what == BB_BOUND_ALLTOALL ? pcie_crossings(t, what, set, part) : 1;
		if (times > 0)
			limit_to(limit, GBps, 1 / times, what, "%s%s of %s: %s GB/s payload",
				 pcie_text(text, &link), size_of(part) > 1 ? " each" : "",
				 set_text(names, part), GBPS(GBps));
	}
	for (int p = 0; p < t->npcis; p++) {
		struct bb_pcie link = bb_pci_link(t, p);
		bb_gpus part = 0;
		double times, GBps = bb_pcie_payload(&link);

		if (t->pcis[p].role != BB_PCI_SWITCH_UP || bb_pci_virtual(&t->pcis[p]) || GBps <= 0)
			continue;
		for (bb_gpus s = set; s; s &= s - 1)
			for (int q = t->devices[first_of(s)].pci; q >= 0; q = t->pcis[q].parent)
				if (q == p)
					part |= 1ull << first_of(s);
		times = part ? pcie_crossings(t, what, set, part) : 0;
		if (times > 0)
			limit_to(limit, GBps, 1 / times, what,
				 "%s of the switch above %s: %s GB/s payload",
				 pcie_text(text, &link), set_text(names, part), GBPS(GBps));
	}
	return BB_OK;
}

/* ---- a pair -------------------------------------------------------------------------------- */

static bb_status limit_to_slot(const struct bb_topology *t, int gpu, const char *after,
			       struct limit *limit)
{
	const struct bb_device *d = &t->devices[gpu];
	struct bb_pcie link = bb_device_link(t, gpu);
	char text[24];

	if (link.GBps <= 0)
		return refuse(limit, BB_EUNSUPPORTED, "the PCIe link of %s is not known", d->name);
	limit_to(limit, bb_pcie_payload(&link), 1, BB_BOUND_PAIR,
		 "%s: %s GB/s × 256/280 payload = %s GB/s%s", pcie_text(text, &link),
		 GBPS(link.GBps), GBPS(bb_pcie_payload(&link)), after);
	return BB_OK;
}

/* Lower LIMIT to the way from GPU A to GPU B of the same node or, if B is BB_ON_HOST, to the host.
 */
static bb_status limit_to_pair(const struct bb_topology *t, int a, int b, struct limit *limit)
{
	const struct bb_link *const c2c = bb_topology_link(t, a, BB_C2C);
	const char *after = "";
	int count = 0;

	if (b == BB_ON_HOST && c2c && c2c->count > 0 && c2c->GBps > 0) {
		limit_to(limit, c2c->count * c2c->GBps, 1, BB_BOUND_PAIR,
			 "%d NVLink-C2C × %s GB/s = %s GB/s", c2c->count, GBPS(c2c->GBps),
			 GBPS(c2c->count * c2c->GBps));
		return BB_OK;
	}
	if (b == BB_ON_HOST) {
		count = bb_topology_nvlinks(t, a, BB_PEER_CPU);
		return count > 0 && bb_topology_link(t, a, BB_NVLINK)->GBps > 0
			       ? limit_to_links(t, a, count, limit)
			       : limit_to_slot(t, a, "", limit);
	}
	if (t->links_unknown)
		return refuse(limit, BB_EUNSUPPORTED, NO_LINKS);
	const enum bb_path path = bb_topology_path(t, a, b, &count);
	if (path == BB_PATH_NVLINK || path == BB_PATH_XGMI)
		return limit_to_links(t, a, count, limit);
	if (!bb_topology_reaches(t, a, b))
		after = ", through host memory without P2P";
	const bb_status st = limit_to_slot(t, a, after, limit);
	return st == BB_OK ? limit_to_slot(t, b, after, limit) : st;
}

/* ---- out of a node -------------------------------------------------------------------------- */

int64_t bb_nic_Mbps(const struct bb_topology *t, int nic)
{
	const struct bb_device *d = &t->devices[nic];
	const struct bb_pci *p = d->pci >= 0 ? &t->pcis[d->pci] : NULL;

	if (d->state == BB_STATE_DOWN)
		return 0;
	if (d->rate_Mbps > 0)
		return d->rate_Mbps;
	return p ? bb_pci_model(p->vendor, p->device).rate_Mbps : 0;
}

bool bb_nic_serves(const struct bb_topology *t, bb_gpus set, int nic)
{
	const int64_t rate = bb_nic_Mbps(t, nic);
	bb_gpus s = set;
	bool serves;

	if (t->devices[nic].kind != BB_NIC || rate <= 0)
		return false;
	do {
		const enum bb_path path =
			set ? bb_topology_pci_path(t, first_of(s), nic) : BB_PATH_SELF;

		serves = true;
		for (int other = 0; other < t->ndevices && serves; other++) {
			const int64_t its = bb_nic_Mbps(t, other);
			const enum bb_path near =
				set ? bb_topology_pci_path(t, first_of(s), other) : BB_PATH_SELF;

			serves = t->devices[other].kind != BB_NIC || its <= 0 || near > path ||
				 (near == path && its <= rate);
		}
		s &= s - 1;
	} while (s && !serves);
	return serves;
}

/* Payload of the ports in USED on the card of NIC, whose slot they share; 0 unless NIC is the first
   of them. */
static double card_GBps(const struct bb_topology *t, const bool *used, int nic)
{
	const int p = t->devices[nic].pci;
	const struct bb_pcie link = bb_device_link(t, nic);
	const double slot = bb_pcie_payload(&link);
	double GBps = 0;

	for (int d = 0; d < t->ndevices; d++) {
		const int q = t->devices[d].pci;

		if (!used[d] ||
		    (p < 0 || q < 0 ? d != nic : !bb_pci_same_card(&t->pcis[p], &t->pcis[q])))
			continue;
		if (d < nic)
			return 0;
		GBps += (double)bb_nic_Mbps(t, d) / 8000 * bb_nic_share(t->devices[d].layer);
	}
	return slot > 0 && slot < GBps ? slot : GBps;
}

double bb_nic_GBps(const struct bb_topology *t, int nic)
{
	bool used[BB_MOST_DEVICES] = {false};

	used[nic] = true;
	return card_GBps(t, used, nic);
}

struct egress {
	double GBps; /* of all NICs, in one direction */
	int nics;
	int64_t rate_Mbps; /* of each; 0: they differ */
	enum bb_nic_layer layer;
	bool assumed;     /* a rate is the maximum of its model */
	double gpus_GBps; /* payload of the links from the GPUs; INFINITY unknown */
};

/* The NICs that serve the GPUs in SET or, if that is 0, the host; none (nics 0) without a known
   rate. */
static struct egress egress_of(const struct bb_topology *t, bb_gpus set)
{
	struct egress e = {.gpus_GBps = set ? 0 : INFINITY};
	bool used[BB_MOST_DEVICES] = {false};

	/* C2C to the CPU is wider than a slot. */
	for (bb_gpus s = set; s; s &= s - 1) {
		const struct bb_link *c2c = bb_topology_link(t, first_of(s), BB_C2C);
		const struct bb_pcie link = bb_device_link(t, first_of(s));

		e.gpus_GBps += c2c && c2c->GBps > 0 ? c2c->count * c2c->GBps
			       : link.GBps > 0      ? bb_pcie_payload(&link)
						    : INFINITY;
	}
	for (int d = 0; d < t->ndevices; d++)
		used[d] = bb_nic_serves(t, set, d);
	for (int d = 0; d < t->ndevices; d++) {
		const int64_t rate = bb_nic_Mbps(t, d);

		if (!used[d])
			continue;
		e.assumed = e.assumed || t->devices[d].rate_Mbps == 0;
		e.rate_Mbps = e.nics == 0 || e.rate_Mbps == rate ? rate : 0;
		e.layer = t->devices[d].layer;
		e.GBps += card_GBps(t, used, d);
		e.nics++;
	}
	return e;
}

/* ---- ranks by node -------------------------------------------------------------------------- */

struct world {
	const struct bb_topology *t;
	int n;
	int nodes;     /* from 0 to the last one with a rank */
	bb_gpus *gpus; /* of each node */
	int *hosts;    /* ranks on the host of each node */
	bool on_host;  /* all ranks are on hosts */
	int span;      /* nodes that share NVSwitches, if all ranks are on these; else 1 */
	/* The last set of GPUs that read_group met, and its egress: most nodes have the same set.
	 */
	bb_gpus set;
	struct egress out;
};

/* A node, or the nodes that share NVSwitches. */
struct group {
	int ranks;
	bb_gpus set; /* GPUs of any of its nodes */
	struct egress out;
	double GBps; /* payload out of the group */
};

static bb_status open_world(struct world *w, const struct bb_topology *t,
			    const struct bb_rank_place *ranks, int n, struct limit *limit)
{
	int on_host = 0;

	*w = (struct world){.t = t, .n = n, .set = ~0ull};
	for (int i = 0; i < n; i++)
		if (ranks[i].node >= w->nodes && ranks[i].node < t->nodes)
			w->nodes = ranks[i].node + 1;
	w->gpus = calloc((size_t)w->nodes + 1, sizeof(*w->gpus));
	w->hosts = calloc((size_t)w->nodes + 1, sizeof(*w->hosts));
	if (!w->gpus || !w->hosts)
		return refuse(limit, BB_EINTERNAL, "out of memory");
	for (int i = 0; i < n; i++) {
		const struct bb_rank_place r = ranks[i];

		if (r.node < 0 || r.node >= t->nodes)
			return refuse(limit, BB_EUSAGE, "rank %d is on node %d, of %d nodes", i,
				      r.node, t->nodes);
		if (r.device == BB_ON_HOST) {
			w->hosts[r.node]++;
			on_host++;
			continue;
		}
		if (r.device < 0 || r.device >= t->ndevices || t->devices[r.device].kind != BB_GPU)
			return refuse(limit, BB_EUSAGE, "rank %d is on device %d, which is no GPU",
				      i, r.device);
		if (in(w->gpus[r.node], r.device))
			return refuse(limit, BB_EUSAGE, "two ranks are on %s of node %d",
				      t->devices[r.device].name, r.node);
		w->gpus[r.node] |= 1ull << r.device;
	}
	w->on_host = on_host == n;
	if (on_host > 0 && !w->on_host && n != 2)
		return refuse(limit, BB_EUNSUPPORTED, "some ranks are on GPUs, others on the host");
	/* GPUs are on NVSwitches that several nodes share. */
	bool shared = !w->on_host && t->nvlink_nodes > 1;
	for (int node = 0; node < w->nodes; node++)
		shared = shared && all_on_switches(t, w->gpus[node]);
	w->span = shared ? t->nvlink_nodes : 1;
	return BB_OK;
}

/* The group that begins at node FIRST. */
static struct group read_group(struct world *w, int first)
{
	struct group g = {0};
	struct egress before;

	for (int node = first; node < first + w->span && node < w->nodes; node++) {
		bb_gpus set = w->gpus[node];
		int ranks = size_of(set) + w->hosts[node];

		if (ranks == 0)
			continue;
		if (set != w->set)
			w->out = egress_of(w->t, set);
		w->set = set;
		g.ranks += ranks;
		g.set |= set;
		g.GBps += fmin(w->out.GBps, w->out.gpus_GBps);
		before = g.out;
		g.out = w->out;
		g.out.nics += before.nics;
		g.out.GBps += before.GBps;
		g.out.gpus_GBps += before.gpus_GBps;
	}
	return g;
}

/* ---- within a group ------------------------------------------------------------------------ */

/*
 * The factor from the rate of a GPU's links to the bound of WHAT among N ranks, of which G are in
 * this group (docs/topology.md):
 * - ring: each link carries the bus bandwidth itself.
 * - tree: each rank sends 2(g-1)/g of the data inside the group; busbw = size/time x 2(n-1)/n.
 * - NVLS: each GPU sends and receives S + S/g.
 * - all-to-all: (g-1)/(n-1) of what a rank sends stays inside.
 */
static double inside_factor(enum bb_bound what, double g, double n)
{
	switch (what) {
	case BB_BOUND_TREE:
		return g / (g - 1) * (n - 1) / n;
	case BB_BOUND_NVLS:
		return g / (g + 1) * 2 * (n - 1) / n;
	case BB_BOUND_ALLTOALL:
		return (n - 1) / (g - 1);
	default:
		return 1;
	}
}

static bool switches_reduce(const struct bb_topology *t, bb_gpus set)
{
	for (bb_gpus s = set; s; s &= s - 1) {
		const struct bb_link *l = bb_topology_link(t, first_of(s), BB_NVLINK);

		if (!l || l->version < 4)
			return false;
	}
	return true;
}

static bb_status bound_inside(const struct world *w, const struct group *g, enum bb_bound of,
			      struct limit *limit)
{
	const enum bb_fabric_kind fabric = bb_fabric_of(w->t, g->set);
	const bool reduces = fabric == BB_FABRIC_SWITCH && switches_reduce(w->t, g->set);
	const double nvls = inside_factor(BB_BOUND_NVLS, g->ranks, w->n);
	const double tree = inside_factor(BB_BOUND_TREE, g->ranks, w->n);
	/* Within a group SHARP uses the better of NVLS and trees. */
	const enum bb_bound what = of != BB_BOUND_SHARP     ? of
				   : reduces && nvls > tree ? BB_BOUND_NVLS
							    : BB_BOUND_TREE;
	const double factor = inside_factor(what, g->ranks, w->n);
	struct limit in = {.GBps = INFINITY};
	bb_status st = BB_OK;

	if (w->t->links_unknown)
		return refuse(limit, BB_EUNSUPPORTED, NO_LINKS);
	if (what == BB_BOUND_NVLS && !reduces)
		return refuse(limit, BB_EUNSUPPORTED,
			      "NVLS needs NVSwitches that reduce: NVLink4 or newer");
	if (fabric == BB_FABRIC_MESH)
		st = limit_to_mesh(w->t, g->set, what, &in);
	else if (fabric == BB_FABRIC_PCIE)
		st = limit_to_pcie(w->t, g->set, what, &in);
	for (bb_gpus s = g->set; s && fabric == BB_FABRIC_SWITCH && st == BB_OK; s &= s - 1)
		st = limit_to_links(w->t, first_of(s),
				    bb_topology_nvlinks(w->t, first_of(s), BB_PEER_SWITCH), &in);
	if (st != BB_OK)
		*limit = in;
	else
		limit_to(limit, in.GBps,
			 fabric != BB_FABRIC_SWITCH && g->ranks == w->n ? 1 : factor, what, "%s",
			 in.why);
	return st;
}

/* ---- between groups ------------------------------------------------------------------------ */

static double outside_factor(enum bb_bound what, double g, double n, double k)
{
	switch (what) {
	case BB_BOUND_TREE:
	case BB_BOUND_NVLS:
		return k / (k - 1) * (n - 1) / n;
	case BB_BOUND_SHARP: /* a node sends its part once and receives the result */
		return 2 * (n - 1) / n;
	case BB_BOUND_ALLTOALL:
		return (n - 1) / (g * (n - g));
	default:
		return 1;
	}
}

static bb_status bound_outside(const struct world *w, const struct group *g, int groups,
			       enum bb_bound what, struct limit *limit)
{
	const double factor = outside_factor(what, g->ranks, w->n, groups);
	const char *const from = w->span > 1 ? "an NVLink domain" : "a node";
	const struct egress *e = &g->out;
	const char *const layer = bb_nic_layer_name(e->layer);
	char rate[100] = "";

	if (e->nics == 0)
		return refuse(limit, BB_EUNSUPPORTED, "no NIC whose rate is known");
	if (what == BB_BOUND_SHARP && e->layer != BB_INFINIBAND)
		return refuse(limit, BB_EUNSUPPORTED, "SHARP needs InfiniBand");
	if (e->rate_Mbps > 0)
		snprintf(rate, sizeof(rate), " × %.4g Gb/s%s%s%s × %.3g payload",
			 (double)e->rate_Mbps / 1000, *layer ? " " : "", layer,
			 e->assumed ? " (maximum of its model)" : "", bb_nic_share(e->layer));
	if (e->gpus_GBps < e->GBps)
		limit_to(limit, g->GBps, factor, what, "out of %s: its GPUs' PCIe, %s GB/s payload",
			 from, GBPS(g->GBps));
	else
		limit_to(limit, g->GBps, factor, what, "out of %s: %d NIC%s%s = %s GB/s", from,
			 e->nics, bb_plural(e->nics), rate, GBPS(g->GBps));
	return BB_OK;
}

/* ---- all together --------------------------------------------------------------------------- */

static bb_status bound_all(struct world *w, enum bb_bound what, struct limit *limit)
{
	struct group last = {0};
	int groups = 0;
	bb_status st = BB_OK;

	for (int first = 0; first < w->nodes; first += w->span)
		groups += read_group(w, first).ranks > 0;
	if (groups == 1 && w->on_host)
		return refuse(limit, BB_EUNSUPPORTED,
			      "ranks share one host's memory: no link limits them");
	if (groups == 1 && what == BB_BOUND_SHARP)
		return refuse(limit, BB_EUNSUPPORTED, "SHARP needs several nodes, on InfiniBand");
	for (int first = 0; first < w->nodes; first += w->span) {
		struct group g = read_group(w, first);

		if (g.ranks == 0 || (g.ranks == last.ranks && g.set == last.set))
			continue;
		if (g.ranks > 1 && !w->on_host)
			BB_TRY(st, bound_inside(w, &g, what, limit), out);
		if (what == BB_BOUND_NVLS && g.ranks == 1)
			return refuse(limit, BB_EUNSUPPORTED,
				      "NVLS needs several GPUs on each node");
		if (groups > 1)
			BB_TRY(st, bound_outside(w, &g, groups, what, limit), out);
		last = g;
	}
out:
	return st;
}

static bb_status bound_pair(struct world *w, const struct bb_rank_place *ranks, struct limit *limit)
{
	int a = ranks[0].device, b = ranks[1].device;

	/* GPUs on shared switches are like those of one node. */
	if (ranks[0].node != ranks[1].node &&
	    (w->span == 1 || ranks[0].node / w->span != ranks[1].node / w->span))
		return bound_all(w, BB_BOUND_PAIR, limit);
	if (a == BB_ON_HOST) {
		a = b;
		b = BB_ON_HOST;
	}
	if (a == BB_ON_HOST)
		return refuse(limit, BB_EUNSUPPORTED,
			      "ranks share one host's memory: no link limits them");
	if (a == b) /* the same GPU of two nodes: like any other on these switches */
		b = a == 0 ? bb_topology_count(w->t, BB_GPU) - 1 : 0;
	return limit_to_pair(w->t, a, b, limit);
}

bb_status bb_speed_of_light(const struct bb_topology *t, const struct bb_rank_place *ranks, int n,
			    enum bb_bound what, double *GBps, struct bb_strbuf *why)
{
	struct limit limit = {.GBps = INFINITY};
	struct world w = {.gpus = NULL};
	bb_status st;

	if (n < 2 || (what == BB_BOUND_PAIR && n != 2))
		BB_TRY(st,
		       refuse(&limit, BB_EUSAGE, "%s, not %d",
			      what == BB_BOUND_PAIR ? "a pair has two ranks"
						    : "a collective has two ranks or more",
			      n),
		       out);
	BB_TRY(st, open_world(&w, t, ranks, n, &limit), out);
	st = what == BB_BOUND_PAIR ? bound_pair(&w, ranks, &limit) : bound_all(&w, what, &limit);
out:
	free(w.gpus);
	free(w.hosts);
	if (why)
		bb_strbuf_add(why, limit.why);
	*GBps = limit.GBps;
	return st;
}
