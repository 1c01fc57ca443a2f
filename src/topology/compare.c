/*
 * compare.c - the differences between two machines.
 *
 * Buses may be numbered differently, so a one-to-one map of the devices is sought under which
 * everything is equal. Only if there is none, devices are matched by similarity, first by bus, and
 * every difference is reported.
 */
#include "topology/bound.h"
#include "topology/reporter.h"
#include "topology/topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 200000 /* steps of the search; symmetric machines need few */
#define PAIRS_REPORTED 8

/* ---- signatures ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value) /* FNV-1a over the bytes of VALUE */
{
	for (int i = 0; i < 8; i++)
		hash = (hash ^ (value >> (8 * i) & 0xff)) * 0x100000001b3ull;
	return hash;
}

#define START 0xcbf29ce484222325ull

static uint64_t mix_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = mix(hash, (unsigned char)*text);
	return mix(hash, 0);
}

static uint64_t gib(int64_t bytes)
{
	return (uint64_t)(bytes + (1 << 29)) >> 30;
}

static int numa_number(const struct bb_topology *t, int d)
{
	return t->devices[d].numa >= 0 ? t->host.numas[t->devices[d].numa].os : -1;
}

/* The slowest link of a PCIe switch above device D; all zero: none is known. */
static struct bb_pcie switch_above(const struct bb_topology *t, int d)
{
	const int slowest = bb_pci_slowest_switch(t, d);

	return slowest < 0 ? (struct bb_pcie){0} : bb_pci_link(t, slowest);
}

/* The signature of device D alone. */
static uint64_t own_signature(const struct bb_topology *t, int d)
{
	const struct bb_device *v = &t->devices[d];
	uint64_t hash = mix_text(mix(START, v->kind), v->model);

	hash = mix(mix(hash, gib(v->bytes)), (uint64_t)v->sm);
	hash = mix(mix(hash, (uint64_t)v->rate_Mbps), v->layer);
	hash = mix(mix(hash, v->state), (uint64_t)numa_number(t, d));
	hash = mix(mix(hash, v->gdr), (uint64_t)(1e6 * switch_above(t, d).GBps));
	if (v->pci >= 0) {
		hash = mix(hash, (uint64_t)t->pcis[v->pci].now.width);
		hash = mix(hash, (uint64_t)t->pcis[v->pci].most.width);
		hash = mix(hash, (uint64_t)t->pcis[v->pci].most.gen);
	}
	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].device == d && t->links[l].peer < 0) {
			hash = mix(mix(hash, t->links[l].kind), (uint64_t)t->links[l].peer);
			hash = mix(mix(hash, (uint64_t)t->links[l].count),
				   (uint64_t)t->links[l].down);
		}
	return hash;
}

/* The signature of the path from device D to E. */
static uint64_t pair_signature(const struct bb_topology *t, int d, int e)
{
	int nvlinks = 0;
	uint64_t hash = mix(START, bb_topology_path(t, d, e, &nvlinks));

	hash = mix(hash, (uint64_t)nvlinks);
	if (t->devices[d].kind == BB_GPU && t->devices[e].kind == BB_GPU)
		hash = mix(hash, bb_topology_reaches(t, d, e));
	return hash;
}

/* The signature of device D and its paths to all others, in any order. */
static uint64_t signature(const struct bb_topology *t, int d)
{
	uint64_t sum = 0;

	for (int e = 0; e < t->ndevices; e++)
		if (e != d)
			sum += mix(pair_signature(t, d, e), t->devices[e].kind);
	return mix(own_signature(t, d), sum);
}

uint64_t bb_topology_digest(const struct bb_topology *t)
{
	const struct bb_host *h = &t->host;
	uint64_t hash = mix_text(START, h->arch), devices = 0;

	for (int i = 0; i < h->npackages; i++)
		hash = mix_text(hash, h->packages[i].model);
	for (int i = 0; i < h->nnumas; i++)
		hash = mix(hash, gib(h->numas[i].bytes));
	for (int i = 0; h->distances && i < h->nnumas * h->nnumas; i++)
		hash = mix(hash, (uint64_t)h->distances[i]);
	hash = mix(mix(hash, (uint64_t)h->ncores), (uint64_t)h->nthreads);
	for (int d = 0; d < t->ndevices; d++)
		devices += signature(t, d);
	return mix(hash, devices);
}

/* ---- equal machines -------------------------------------------------------------------------- */

struct match {
	const struct bb_topology *a, *b;
	uint64_t *left, *right; /* signatures */
	int *map;               /* device of A to device of B, -1 none */
	bool *taken;            /* devices of B */
	int tries;
};

static bool fits(const struct match *m, int d, int e)
{
	if (m->taken[e] || m->left[d] != m->right[e])
		return false;
	for (int x = 0; x < d; x++)
		if (pair_signature(m->a, x, d) != pair_signature(m->b, m->map[x], e) ||
		    pair_signature(m->a, d, x) != pair_signature(m->b, e, m->map[x]))
			return false;
	return true;
}

static bool map_rest(struct match *m, int d)
{
	const int n = m->b->ndevices;

	if (d == m->a->ndevices)
		return true;
	for (int i = 0; i < n; i++) {
		int e = (d + i) % n; /* the same index first */

		if (++m->tries > TRIES)
			return false;
		if (!fits(m, d, e))
			continue;
		m->map[d] = e;
		m->taken[e] = true;
		if (map_rest(m, d + 1))
			return true;
		m->taken[e] = false;
		m->map[d] = -1;
	}
	return false;
}

/* ---- reporting ------------------------------------------------------------------------------- */

struct diff {
	struct match m;
	const char *name_a, *name_b;
	struct bb_reporter out;
	char label[64];
};

static const char *label(struct diff *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The name of what differs; valid until the next call. */
static const char *label(struct diff *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->label, sizeof(f->label), format, args);
	va_end(args);
	return f->label;
}

/* An empty text is unknown and differs from nothing. */
static void report_text(struct diff *f, const char *what, const char *a, const char *b)
{
	if (*a && *b && strcmp(a, b) != 0)
		bb_reporter_add(&f->out, "%s: %s in %s, %s in %s", what, a, f->name_a, b,
				f->name_b);
}

static void report_number(struct diff *f, const char *what, int64_t a, int64_t b)
{
	if (a != b)
		bb_reporter_add(&f->out, "%s: %lld in %s, %lld in %s", what, (long long)a,
				f->name_a, (long long)b, f->name_b);
}

/* 0 is unknown and differs from nothing. */
static void report_known(struct diff *f, const char *what, int64_t a, int64_t b)
{
	if (a > 0 && b > 0)
		report_number(f, what, a, b);
}

static void report_bytes(struct diff *f, const char *what, int64_t a, int64_t b)
{
	const double most = (double)(a > b ? a : b), gap = (double)(a > b ? a - b : b - a);

	if (a > 0 && b > 0 && gap > most / 100)
		bb_reporter_add(&f->out, "%s: %.1f GiB in %s, %.1f GiB in %s", what,
				(double)a / (1 << 30), f->name_a, (double)b / (1 << 30), f->name_b);
}

/* ---- the host -------------------------------------------------------------------------------- */

static void compare_packages(struct diff *f)
{
	const struct bb_host *a = &f->m.a->host, *b = &f->m.b->host;

	report_text(f, "architecture", a->arch, b->arch);
	report_known(f, "packages", a->npackages, b->npackages);
	for (int i = 0; i < a->npackages && i < b->npackages; i++)
		report_text(f, label(f, "package %d", i), a->packages[i].model,
			    b->packages[i].model);
	report_known(f, "cores", a->ncores, b->ncores);
	report_known(f, "hardware threads", a->nthreads, b->nthreads);
	for (int i = 0; i < a->ncaches; i++)
		for (int j = 0; j < b->ncaches; j++)
			if (a->caches[i].level == b->caches[j].level)
				report_known(f, label(f, "L%d cache, KiB", a->caches[i].level),
					     a->caches[i].bytes / 1024, b->caches[j].bytes / 1024);
}

static void compare_numas(struct diff *f)
{
	const struct bb_host *a = &f->m.a->host, *b = &f->m.b->host;

	report_number(f, "NUMA nodes", a->nnumas, b->nnumas);
	if (a->nnumas != b->nnumas)
		return;
	for (int i = 0; i < a->nnumas; i++) {
		report_bytes(f, label(f, "memory of NUMA node %d", a->numas[i].os),
			     a->numas[i].bytes, b->numas[i].bytes);
		report_text(f, label(f, "cores of NUMA node %d", a->numas[i].os),
			    a->numas[i].cpus ? a->numas[i].cpus : "",
			    b->numas[i].cpus ? b->numas[i].cpus : "");
	}
	for (int i = 0; a->distances && b->distances && i < a->nnumas * a->nnumas; i++)
		report_number(f,
			      label(f, "distance from NUMA node %d to %d",
				    a->numas[i / a->nnumas].os, a->numas[i % a->nnumas].os),
			      a->distances[i], b->distances[i]);
}

/* ---- devices --------------------------------------------------------------------------------- */

static const char *pci_id(const struct bb_topology *t, int d)
{
	return t->devices[d].pci >= 0 ? t->pcis[t->devices[d].pci].id : "";
}

/* Match the remaining devices of one kind in order; only those that LIKE accepts, unless it is
   NULL. */
static void match_by(struct match *m, bool (*like)(const struct match *m, int d, int e))
{
	for (int d = 0; d < m->a->ndevices; d++)
		for (int e = 0; e < m->b->ndevices && m->map[d] < 0; e++)
			if (!m->taken[e] && m->a->devices[d].kind == m->b->devices[e].kind &&
			    (!like || like(m, d, e))) {
				m->map[d] = e;
				m->taken[e] = true;
			}
}

static bool same_bus(const struct match *m, int d, int e)
{
	return *pci_id(m->a, d) && strcmp(pci_id(m->a, d), pci_id(m->b, e)) == 0;
}

static bool same_by_itself(const struct match *m, int d, int e)
{
	return own_signature(m->a, d) == own_signature(m->b, e);
}

static bool same_place(const struct match *m, int d, int e)
{
	return numa_number(m->a, d) == numa_number(m->b, e) &&
	       strcmp(m->a->devices[d].model, m->b->devices[e].model) == 0;
}

/* "ConnectX-7, 400 Gb/s, NUMA node 1, PIX to GPU5" */
static void describe_device(const struct bb_topology *t, int d, char *text, size_t size)
{
	const struct bb_device *v = &t->devices[d];
	enum bb_path best = BB_PATH_UNKNOWN;
	size_t at = (size_t)snprintf(text, size, "%s", v->model[0] ? v->model : "unknown model");

	if (v->kind == BB_NIC && v->rate_Mbps > 0)
		at += (size_t)snprintf(text + at, size - at, ", %.4g Gb/s",
				       (double)v->rate_Mbps / 1000);
	if (numa_number(t, d) >= 0)
		at += (size_t)snprintf(text + at, size - at, ", NUMA node %d", numa_number(t, d));
	if (v->kind == BB_GPU)
		return;
	for (int g = 0; g < bb_topology_count(t, BB_GPU); g++)
		if (bb_topology_path(t, g, d, NULL) < best)
			best = bb_topology_path(t, g, d, NULL);
	for (int g = 0; g < bb_topology_count(t, BB_GPU) && best < BB_PATH_NODE; g++)
		if (bb_topology_path(t, g, d, NULL) == best && at < size - 24)
			at += (size_t)snprintf(text + at, size - at, ", %s to %s",
					       bb_path_word(best), t->devices[g].name);
}

static void report_missing(struct diff *f)
{
	char text[200];

	for (int d = 0; d < f->m.a->ndevices; d++)
		if (f->m.map[d] < 0) {
			describe_device(f->m.a, d, text, sizeof(text));
			bb_reporter_add(&f->out, "%s is missing from %s (%s)",
					f->m.a->devices[d].name, f->name_b, text);
		}
	for (int e = 0; e < f->m.b->ndevices; e++)
		if (!f->m.taken[e]) {
			describe_device(f->m.b, e, text, sizeof(text));
			bb_reporter_add(&f->out, "%s is only in %s (%s)", f->m.b->devices[e].name,
					f->name_b, text);
		}
}

/* "Gen5 x16"; empty if the link is unknown. */
static const char *pcie_text(char text[24], const struct bb_pcie *link)
{
	text[0] = '\0';
	if (link->gen > 0)
		snprintf(text, 24, "Gen%d x%d", link->gen, link->width);
	return text;
}

static void compare_pcie(struct diff *f, int d, int e)
{
	const struct bb_pci *a, *b;
	const char *name = f->m.a->devices[d].name;
	struct bb_pcie left, right;
	char a_text[24], b_text[24];

	if (f->m.a->devices[d].pci < 0 || f->m.b->devices[e].pci < 0)
		return;
	a = &f->m.a->pcis[f->m.a->devices[d].pci];
	b = &f->m.b->pcis[f->m.b->devices[e].pci];
	report_known(f, label(f, "PCIe lanes of %s", name), a->now.width, b->now.width);
	report_known(f, label(f, "maximum PCIe lanes of %s", name), a->most.width, b->most.width);
	report_known(f, label(f, "PCIe generation of %s", name), a->most.gen, b->most.gen);
	left = switch_above(f->m.a, d);
	right = switch_above(f->m.b, e);
	report_text(f, label(f, "slowest PCIe switch above %s", name), pcie_text(a_text, &left),
		    pcie_text(b_text, &right));
}

static bool knows_links(const struct diff *f)
{
	return !f->m.a->links_unknown && !f->m.b->links_unknown;
}

static void compare_nvlinks(struct diff *f, int d, int e)
{
	const struct bb_topology *a = f->m.a, *b = f->m.b;
	const struct bb_link *x = bb_topology_link(a, d, BB_C2C);
	const struct bb_link *y = bb_topology_link(b, e, BB_C2C);

	report_number(f, label(f, "NVLinks of %s", a->devices[d].name),
		      bb_topology_nvlinks_all(a, d), bb_topology_nvlinks_all(b, e));
	report_number(f, label(f, "NVLink-C2C of %s", a->devices[d].name), x ? x->count : 0,
		      y ? y->count : 0);
}

static void compare_device(struct diff *f, int d, int e)
{
	static const char *const layers[] = {"", "InfiniBand", "Ethernet"};
	static const char *const states[] = {"", "up", "down"};
	static const char *const gdr[] = {"", "off", "on"};
	const struct bb_device *a = &f->m.a->devices[d], *b = &f->m.b->devices[e];

	report_text(f, label(f, "model of %s", a->name), a->model, b->model);
	report_bytes(f, label(f, "memory of %s", a->name), a->bytes, b->bytes);
	if (a->numa >= 0 && b->numa >= 0)
		report_number(f, label(f, "NUMA node of %s", a->name), numa_number(f->m.a, d),
			      numa_number(f->m.b, e));
	report_known(f, label(f, "rate of %s in Mb/s", a->name), a->rate_Mbps, b->rate_Mbps);
	report_text(f, label(f, "link layer of %s", a->name), layers[a->layer], layers[b->layer]);
	report_text(f, label(f, "port of %s", a->name), states[a->state], states[b->state]);
	report_text(f, label(f, "GPUDirect RDMA of %s", a->name), gdr[a->gdr], gdr[b->gdr]);
	compare_pcie(f, d, e);
	if (a->kind == BB_GPU && knows_links(f))
		compare_nvlinks(f, d, e);
}

/* The path by what both sources know: PCI alone, if one has no links between GPUs. */
static enum bb_path known_path(const struct diff *f, const struct bb_topology *t, int d, int e,
			       int *n)
{
	*n = 0;
	return knows_links(f) ? bb_topology_path(t, d, e, n) : bb_topology_pci_path(t, d, e);
}

static void compare_pair(struct diff *f, int d, int e, int *pairs)
{
	const struct bb_topology *a = f->m.a, *b = f->m.b;
	const int x = f->m.map[d], y = f->m.map[e];
	char left[BB_PATH_TEXT], right[BB_PATH_TEXT];
	int n;
	enum bb_path path;

	if (pair_signature(a, d, e) == pair_signature(b, x, y) ||
	    (!knows_links(f) && known_path(f, a, d, e, &n) == known_path(f, b, x, y, &n)) ||
	    (*pairs)++ >= PAIRS_REPORTED)
		return;
	path = known_path(f, a, d, e, &n);
	bb_topology_path_text(left, path, n);
	path = known_path(f, b, x, y, &n);
	bb_topology_path_text(right, path, n);
	if (strcmp(left, right) != 0)
		bb_reporter_add(&f->out, "between %s and %s: %s in %s, %s in %s",
				a->devices[d].name, a->devices[e].name, left, f->name_a, right,
				f->name_b);
	else
		bb_reporter_add(&f->out, "between %s and %s: P2P in %s only", a->devices[d].name,
				a->devices[e].name,
				bb_topology_reaches(a, d, e) ? f->name_a : f->name_b);
}

static void compare_devices(struct diff *f)
{
	struct match *m = &f->m;
	int pairs = 0;

	for (int d = 0; d < m->a->ndevices; d++)
		m->map[d] = -1;
	memset(m->taken, 0, (size_t)m->b->ndevices * sizeof(*m->taken));
	match_by(m, same_bus);
	match_by(m, same_by_itself);
	match_by(m, same_place);
	match_by(m, NULL);
	report_missing(f);
	for (int d = 0; d < m->a->ndevices; d++)
		if (m->map[d] >= 0)
			compare_device(f, d, m->map[d]);
	for (int d = 0; d < m->a->ndevices; d++)
		for (int e = d + 1; e < m->a->ndevices; e++)
			if (m->map[d] >= 0 && m->map[e] >= 0)
				compare_pair(f, d, e, &pairs);
	if (pairs > PAIRS_REPORTED)
		bb_reporter_add(&f->out, "and %d more pairs of devices", pairs - PAIRS_REPORTED);
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool open_match(struct match *m, const struct bb_topology *a, const struct bb_topology *b)
{
	*m = (struct match){.a = a, .b = b};
	m->left = calloc((size_t)a->ndevices + 1, sizeof(*m->left));
	m->right = calloc((size_t)b->ndevices + 1, sizeof(*m->right));
	m->map = calloc((size_t)a->ndevices + 1, sizeof(*m->map));
	m->taken = calloc((size_t)b->ndevices + 1, sizeof(*m->taken));
	if (!m->left || !m->right || !m->map || !m->taken)
		return false;
	for (int d = 0; d < a->ndevices; d++)
		m->left[d] = signature(a, d);
	for (int e = 0; e < b->ndevices; e++)
		m->right[e] = signature(b, e);
	return true;
}

static void close_match(struct match *m)
{
	free(m->left);
	free(m->right);
	free(m->map);
	free(m->taken);
}

int bb_topology_diff(const struct bb_topology *a, const struct bb_topology *b, const char *name_a,
		     const char *name_b, void (*add)(void *context, const char *text),
		     void *context)
{
	struct diff f = {
		.name_a = name_a, .name_b = name_b, .out = {.add = add, .context = context}};

	if (!open_match(&f.m, a, b)) {
		bb_reporter_add(&f.out, "out of memory for the comparison");
	} else {
		report_text(&f, "driver of the GPUs", a->driver, b->driver);
		compare_packages(&f);
		compare_numas(&f);
		if (a->ndevices != b->ndevices || !map_rest(&f.m, 0))
			compare_devices(&f);
	}
	close_match(&f.m);
	return f.out.n;
}
