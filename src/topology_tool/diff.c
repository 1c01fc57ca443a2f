/*
 * diff.c - the differences between two machines.
 *
 * What is known of both stands in two texts with lines of "name<tab>value", the same names in the
 * same order; an empty value is unknown and differs from nothing.
 */
#include "topology/build.h"
#include "topology_tool/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_REPORTED 8

struct diff {
	const struct bb_topology *t[2];
	const char *names[2];
	struct bb_strbuf *out, facts[2];
	int width, n;
	int map[BB_MOST_DEVICES]; /* device of the first machine to that of the second; -1: none */
	bool taken[BB_MOST_DEVICES];
};

__attribute__((format(printf, 2, 3))) static void add_difference(struct diff *f, const char *format,
								 ...)
{
	struct bb_strbuf text = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&text, format, args);
	va_end(args);
	bb_strbuf_add(f->out, "  - ");
	bb_strbuf_wrap(f->out, bb_strbuf_text(&text), 4, 4, f->width);
	bb_strbuf_free(&text);
	f->n++;
}

/* Append "NAME<tab>VALUE" as FORMAT has them; without the value unless it is KNOWN. */
__attribute__((format(printf, 3, 4))) static void add_fact(struct bb_strbuf *s, bool known,
							   const char *format, ...)
{
	const size_t at = s->length;
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(s, format, args);
	va_end(args);
	if (!known && !s->failed)
		s->length = at + strcspn(s->text + at, "\t") + 1;
	bb_strbuf_add(s, "\n");
}

/* Report the facts that differ, and forget all. Less than 1 percent of memory is no difference. */
static void report_facts(struct diff *f)
{
	char *rest[] = {f->facts[0].text, f->facts[1].text}, *a, *b, *unit;
	int pairs = 0;

	while ((a = strsep(&rest[0], "\n")) && (b = strsep(&rest[1], "\n"))) {
		const char *const name = strsep(&a, "\t");

		strsep(&b, "\t");
		if (!a || !b || !*a || !*b || strcmp(a, b) == 0 ||
		    (fabs(strtod(a, &unit) / strtod(b, NULL) - 1) <= 0.01 &&
		     strcmp(unit, " GiB") == 0))
			continue;
		if (strncmp(name, "between ", 8) != 0 || pairs++ < PAIRS_REPORTED)
			add_difference(f, "%s: %s in %s, %s in %s", name, a, f->names[0], b,
				       f->names[1]);
	}
	if (pairs > PAIRS_REPORTED)
		add_difference(f, "and %d more pairs of devices", pairs - PAIRS_REPORTED);
	for (int i = 0; i < 2; i++) {
		f->out->failed = f->out->failed || f->facts[i].failed;
		bb_strbuf_free(&f->facts[i]);
	}
}

#define GIB(bytes) ((double)(bytes) / (1 << 30))

/* Facts of the host, as far as the other one has as many PACKAGES and NUMA nodes (NUMAS). */
static void add_host(const struct bb_topology *t, int packages, int numas, struct bb_strbuf *s)
{
	const struct bb_host *const h = &t->host;

	add_fact(s, true, "driver of the GPUs\t%s", t->driver);
	add_fact(s, true, "architecture\t%s", h->arch);
	add_fact(s, h->npackages > 0, "packages\t%d", h->npackages);
	for (int i = 0; i < packages; i++)
		add_fact(s, true, "package %d\t%s", i, h->packages[i].model);
	add_fact(s, h->ncores > 0, "cores\t%d", h->ncores);
	add_fact(s, h->nthreads > 0, "hardware threads\t%d", h->nthreads);
	for (int level = 1; level < 10; level++) {
		int64_t bytes = 0;

		for (int i = 0; i < h->ncaches; i++)
			bytes = h->caches[i].level == level ? h->caches[i].bytes : bytes;
		add_fact(s, bytes > 0, "L%d cache, KiB\t%lld", level, (long long)bytes / 1024);
	}
	add_fact(s, true, "NUMA nodes\t%d", h->nnumas);
	for (int i = 0; i < numas; i++) {
		const struct bb_numa *const n = &h->numas[i];

		add_fact(s, n->bytes > 0, "memory of NUMA node %d\t%.1f GiB", n->os, GIB(n->bytes));
		add_fact(s, true, "cores of NUMA node %d\t%s", n->os, n->cpus ? n->cpus : "");
	}
	for (int i = 0; h->distances && i < numas * numas; i++)
		add_fact(s, true, "distance from NUMA node %d to %d\t%d", h->numas[i / numas].os,
			 h->numas[i % numas].os, h->distances[i]);
}

/* Facts of device D, by the NAME that the first machine has for it. */
static void add_device(const struct bb_topology *t, int d, const char *name, bool links,
		       struct bb_strbuf *s)
{
	static const char *const states[] = {"", "up", "down"}, *const gdr[] = {"", "off", "on"};
	const struct bb_device *const v = &t->devices[d];
	const struct bb_pci none = {.numa = -1}, *const p = v->pci >= 0 ? &t->pcis[v->pci] : &none;
	const int slowest = bb_pci_slowest_switch(t, d);
	const struct bb_pcie above = slowest < 0 ? none.now : bb_pci_link(t, slowest);
	const struct bb_link *const c2c = bb_topology_link(t, d, BB_C2C);

	add_fact(s, true, "model of %s\t%s", name, v->model);
	add_fact(s, v->bytes > 0, "memory of %s\t%.1f GiB", name, GIB(v->bytes));
	add_fact(s, v->numa >= 0, "NUMA node of %s\t%d", name, bb_numa_number(t, v->numa));
	add_fact(s, v->rate_Mbps > 0, "rate of %s in Mb/s\t%lld", name, (long long)v->rate_Mbps);
	add_fact(s, true, "link layer of %s\t%s", name, bb_nic_layer_name(v->layer));
	add_fact(s, true, "port of %s\t%s", name, states[v->state]);
	add_fact(s, true, "GPUDirect RDMA of %s\t%s", name, gdr[v->gdr]);
	add_fact(s, p->now.width > 0, "PCIe lanes of %s\t%d", name, p->now.width);
	add_fact(s, p->most.width > 0, "maximum PCIe lanes of %s\t%d", name, p->most.width);
	add_fact(s, p->most.gen > 0, "PCIe generation of %s\t%d", name, p->most.gen);
	add_fact(s, above.gen > 0, "slowest PCIe switch above %s\tGen%d x%d", name, above.gen,
		 above.width);
	add_fact(s, links, "NVLinks of %s\t%d", name, bb_topology_nvlinks(t, d, BB_PEER_ANY));
	add_fact(s, links, "NVLink-C2C of %s\t%d", name, c2c ? c2c->count : 0);
}

/* Facts of the devices that both machines have, and of their paths, of machine SIDE. */
static void add_devices(struct diff *f, int side)
{
	const struct bb_topology *const first = f->t[0], *const t = f->t[side];
	const bool links = !first->links_unknown && !f->t[1]->links_unknown;
	struct bb_strbuf *const s = &f->facts[side];

	for (int i = 0; i < first->ndevices; i++)
		if (f->map[i] >= 0)
			add_device(t, side ? f->map[i] : i, first->devices[i].name, links, s);
	for (int i = 0; i < first->ndevices; i++)
		for (int k = i + 1; k < first->ndevices; k++) {
			const int d = side ? f->map[i] : i, e = side ? f->map[k] : k;
			char text[BB_PATH_TEXT];
			int n = 0;

			if (f->map[i] < 0 || f->map[k] < 0)
				continue;
			const enum bb_path path = links ? bb_topology_path(t, d, e, &n)
							: bb_topology_pci_path(t, d, e);
			add_fact(s, true, "between %s and %s\t%s%s", first->devices[i].name,
				 first->devices[k].name, bb_topology_path_text(text, path, n),
				 links && t->devices[e].kind == BB_GPU &&
						 !bb_topology_reaches(t, d, e)
					 ? " without P2P"
					 : "");
		}
}

/* Map the devices of the same kind BY_BUS address, or by name, that have no partner yet. Returns
   their number. */
static int map_devices(struct diff *f, bool by_bus)
{
	const struct bb_topology *const a = f->t[0], *const b = f->t[1];
	int n = 0;

	for (int d = 0; d < a->ndevices; d++)
		for (int e = 0; e < b->ndevices && f->map[d] < 0; e++) {
			const struct bb_device *const x = &a->devices[d], *const y = &b->devices[e];

			if (f->taken[e] || x->kind != y->kind ||
			    (by_bus && (x->pci < 0 || y->pci < 0)) ||
			    strcmp(by_bus ? a->pcis[x->pci].id : x->name,
				   by_bus ? b->pcis[y->pci].id : y->name) != 0)
				continue;
			f->map[d] = e;
			f->taken[e] = true;
			n++;
		}
	return n;
}

int bb_print_diff(const struct bb_topology *a, const struct bb_topology *b, const char *name_a,
		  const char *name_b, int width, struct bb_strbuf *out)
{
	struct diff f = {.t = {a, b}, .names = {name_a, name_b}, .width = width, .out = out};
	const struct bb_host *const x = &a->host, *const y = &b->host;

	for (int i = 0; i < 2; i++)
		add_host(f.t[i], x->npackages < y->npackages ? x->npackages : y->npackages,
			 x->nnumas == y->nnumas ? x->nnumas : 0, &f.facts[i]);
	report_facts(&f);
	/* By bus first, since a missing device moves the names of others; but not where only few
	   buses agree, as machines of another kind have other numbers. */
	memset(f.map, -1, sizeof(f.map));
	if (2 * map_devices(&f, true) <= a->ndevices) {
		memset(f.map, -1, sizeof(f.map));
		memset(f.taken, 0, sizeof(f.taken));
	}
	map_devices(&f, false);
	for (int side = 0; side < 2; side++)
		for (int d = 0; d < f.t[side]->ndevices; d++) {
			struct bb_strbuf text = {0};

			if (side ? f.taken[d] : f.map[d] >= 0)
				continue;
			bb_describe_device(f.t[side], d, &text);
			add_difference(
				&f, side ? "%s is only in %s (%s)" : "%s is missing from %s (%s)",
				f.t[side]->devices[d].name, name_b, bb_strbuf_text(&text));
			bb_strbuf_free(&text);
		}
	add_devices(&f, 0);
	add_devices(&f, 1);
	report_facts(&f);
	return f.n;
}
