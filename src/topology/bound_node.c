/*
 * bound_node.c - bounds within one machine.
 */
#include "topology/bound_parts.h"
#include "topology/rates.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESH_MOST 16 /* GPUs up to which all rings and all cuts are tried */

const char *bb_gbps_text(char text[16], double GBps)
{
	snprintf(text, 16, GBps < 999.5 ? "%.3g" : "%.0f", GBps);
	return text;
}

void bb_limit_to(struct bb_limit *limit, double GBps, double factor, enum bb_bound what,
		 const char *format, ...)
{
	const size_t size = sizeof(limit->why);
	size_t at;
	va_list args;

	if (GBps * factor >= limit->GBps)
		return;
	limit->GBps = GBps * factor;
	va_start(args, format);
	vsnprintf(limit->why, size, format, args);
	va_end(args);
	at = strlen(limit->why);
	if (factor != 1)
		snprintf(limit->why + at, size - at, ", × %s for %s = %s GB/s", GBPS(factor),
			 bb_bound_name(what), GBPS(GBps * factor));
}

bb_status bb_limit_refuse(struct bb_limit *limit, bb_status status, const char *format, ...)
{
	va_list args;

	limit->GBps = 0;
	va_start(args, format);
	vsnprintf(limit->why, sizeof(limit->why), format, args);
	va_end(args);
	return status;
}

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

/* Payload of one NVLink, or xGMI link, of a GPU; 0 unknown. */
static double payload(const struct bb_topology *t, int gpu)
{
	const struct bb_link *link = bb_topology_link(t, gpu, BB_NVLINK);

	return link ? link->GBps : 0;
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

/* GPUs of SET that GPU has NVLinks to. */
static bb_gpus linked(const struct bb_topology *t, int gpu, bb_gpus set)
{
	bb_gpus found = 0;

	for (bb_gpus s = set; s; s &= s - 1)
		if (bb_topology_nvlinks(t, gpu, first_of(s)) > 0)
			found |= 1ull << first_of(s);
	return found;
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

/* ---- NVSwitch ------------------------------------------------------------------------------ */

bb_status bb_bound_switch(const struct bb_topology *t, bb_gpus set, struct bb_limit *limit)
{
	char name[16];

	for (bb_gpus s = set; s; s &= s - 1) {
		int gpu = first_of(s), count = bb_topology_nvlinks(t, gpu, BB_PEER_SWITCH);
		double rate = payload(t, gpu);

		if (rate <= 0)
			return bb_limit_refuse(limit, BB_EUNSUPPORTED,
					       "the rate of an NVLink of %s is not known",
					       t->devices[gpu].name);
		bb_limit_to(limit, count * rate, 1, BB_BOUND_RING,
			    "%d %s × %s GB/s payload = %s GB/s", count,
			    bb_topology_link_text(name, t, gpu), GBPS(rate), GBPS(count * rate));
	}
	return BB_OK;
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

/* Links from the GPUs whose bits are in PART to the others. */
static int links_out(const struct mesh *m, unsigned part)
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		for (int j = 0; j < m->n; j++)
			if (part >> i & 1 && !(part >> j & 1))
				n += m->links[i][j];
	return n;
}

static bb_gpus gpus_of(const struct mesh *m, unsigned part)
{
	bb_gpus set = 0;

	for (int i = 0; i < m->n; i++)
		if (part >> i & 1)
			set |= 1ull << m->gpus[i];
	return set;
}

bb_status bb_bound_mesh(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
			struct bb_limit *limit)
{
	struct mesh m = {0};
	const double rate = payload(t, first_of(set));
	unsigned all;
	char name[16], text[64];

	read_mesh(t, set, &m);
	all = (1u << m.n) - 1;
	if (rate <= 0)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED,
				       "the rate of an NVLink of %s is not known",
				       t->devices[m.gpus[0]].name);
	bb_topology_link_text(name, t, m.gpus[0]);
	/* Every cut of the set in two: links are symmetric, so the smaller side suffices. */
	for (unsigned part = 1; part < all; part++) {
		int size = __builtin_popcount(part), count;
		double times;

		if (size > m.n - size)
			continue;
		count = links_out(&m, part);
		times = crossings(what, size, m.n);
		bb_limit_to(limit, count * rate, 1 / times, what,
			    "%d %s × %s GB/s payload leave %s = %s GB/s", count, name, GBPS(rate),
			    set_text(text, gpus_of(&m, part)), GBPS(count * rate));
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
			part |= linked(t, first_of(s), set);
	}
	return part;
}

/* Lower LIMIT to the GPUs' own PCIe links. GPUs joined by NVLinks share theirs. */
static bb_status limit_to_slots(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
				struct bb_limit *limit)
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
			const struct bb_device *d = &t->devices[first_of(s)];

			link = d->pci >= 0 ? bb_pci_link(t, d->pci) : link;
			if (d->pci < 0 || bb_pcie_payload(&link) <= 0)
				return bb_limit_refuse(limit, BB_EUNSUPPORTED,
						       "the PCIe link of %s is not known", d->name);
			GBps += bb_pcie_payload(&link);
		}
		times = what == BB_BOUND_ALLTOALL ? pcie_crossings(t, what, set, part) : 1;
		if (times > 0)
			bb_limit_to(limit, GBps, 1 / times, what, "%s%s of %s: %s GB/s payload",
				    pcie_text(text, &link), size_of(part) > 1 ? " each" : "",
				    set_text(names, part), GBPS(GBps));
	}
	return BB_OK;
}

/* Lower LIMIT to the PCIe links above switches. */
static void limit_to_switches(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
			      struct bb_limit *limit)
{
	char text[24], names[64];

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
			bb_limit_to(limit, GBps, 1 / times, what,
				    "%s of the switch above %s: %s GB/s payload",
				    pcie_text(text, &link), set_text(names, part), GBPS(GBps));
	}
}

bb_status bb_bound_pcie(const struct bb_topology *t, bb_gpus set, enum bb_bound what,
			struct bb_limit *limit)
{
	bb_status st = limit_to_slots(t, set, what, limit);

	if (st != BB_OK)
		return st;
	limit_to_switches(t, set, what, limit);
	return BB_OK;
}

/* ---- a pair -------------------------------------------------------------------------------- */

static void limit_to_links(const struct bb_topology *t, int gpu, int count, double GBps,
			   struct bb_limit *limit)
{
	char name[16];

	bb_limit_to(limit, count * GBps, 1, BB_BOUND_PAIR, "%d %s × %s GB/s payload = %s GB/s",
		    count, bb_topology_link_text(name, t, gpu), GBPS(GBps), GBPS(count * GBps));
}

static bb_status limit_to_slot(const struct bb_topology *t, int gpu, const char *after,
			       struct bb_limit *limit)
{
	const struct bb_device *d = &t->devices[gpu];
	struct bb_pcie link = d->pci >= 0 ? bb_pci_link(t, d->pci) : (struct bb_pcie){0};
	char text[24];

	if (link.GBps <= 0)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED, "the PCIe link of %s is not known",
				       d->name);
	bb_limit_to(limit, bb_pcie_payload(&link), 1, BB_BOUND_PAIR,
		    "%s: %s GB/s × 256/280 payload = %s GB/s%s", pcie_text(text, &link),
		    GBPS(link.GBps), GBPS(bb_pcie_payload(&link)), after);
	return BB_OK;
}

static bb_status pair_with_host(const struct bb_topology *t, int gpu, struct bb_limit *limit)
{
	const struct bb_link *c2c = bb_topology_link(t, gpu, BB_C2C);
	const struct bb_link *nvlink = bb_topology_link(t, gpu, BB_NVLINK);
	int count = bb_topology_nvlinks(t, gpu, BB_PEER_CPU);

	if (c2c && c2c->count > 0 && c2c->GBps > 0) {
		bb_limit_to(limit, c2c->count * c2c->GBps, 1, BB_BOUND_PAIR,
			    "%d NVLink-C2C × %s GB/s = %s GB/s", c2c->count, GBPS(c2c->GBps),
			    GBPS(c2c->count * c2c->GBps));
		return BB_OK;
	}
	if (count > 0 && nvlink->GBps > 0) {
		limit_to_links(t, gpu, count, nvlink->GBps, limit);
		return BB_OK;
	}
	return limit_to_slot(t, gpu, "", limit);
}

bb_status bb_bound_pair(const struct bb_topology *t, int a, int b, struct bb_limit *limit)
{
	int count = 0;
	const char *after = "";
	enum bb_path path;
	bb_status st;

	if (b == BB_ON_HOST)
		return pair_with_host(t, a, limit);
	if (t->links_unknown)
		return bb_limit_refuse(limit, BB_EUNSUPPORTED, BB_NO_LINKS);
	path = bb_topology_path(t, a, b, &count);
	if (path == BB_PATH_NVLINK || path == BB_PATH_XGMI) {
		double GBps = bb_topology_link(t, a, BB_NVLINK)->GBps;

		if (GBps <= 0)
			return bb_limit_refuse(limit, BB_EUNSUPPORTED,
					       "the rate of an NVLink of %s is not known",
					       t->devices[a].name);
		limit_to_links(t, a, count, GBps, limit);
		return BB_OK;
	}
	if (!bb_topology_reaches(t, a, b))
		after = ", through host memory without P2P";
	st = limit_to_slot(t, a, after, limit);
	return st == BB_OK ? limit_to_slot(t, b, after, limit) : st;
}
