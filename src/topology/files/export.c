/*
 * export.c - a model as XML of hwloc 2. What its format lacks goes into info attributes
 * (formats.h), so that reading loses nothing. libhwloc cannot write it, since it has no function
 * that adds the NUMA nodes and PCI devices of a known system or of a file of NCCL to a topology.
 *
 * hwloc requires a consistent tree: every object has a unique number and names the processors and
 * NUMA nodes below it. If the model knows no processor, one stands in.
 */
#include "topology/build.h"
#include "topology/files/files.h"
#include "topology/files/formats.h"
#include "topology/files/sets.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
	const struct bb_topology *t;
	struct bb_strbuf *out;
	int indent;
	int64_t gp;                 /* next gp_index */
	int64_t gpus[BB_MOST_GPUS]; /* gp_index of each GPU */
	struct bb_sets sets;
};

/* ---- XML ------------------------------------------------------------------------------------- */

static void add_escaped(struct writer *w, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			bb_strbuf_add(w->out, "&lt;");
		else if (*text == '&')
			bb_strbuf_add(w->out, "&amp;");
		else if (*text == '"')
			bb_strbuf_add(w->out, "&quot;");
		else
			bb_strbuf_add_bytes(w->out, text, 1);
	}
}

static void add_attribute(struct writer *w, const char *name, const char *value)
{
	bb_strbuf_addf(w->out, " %s=\"", name);
	add_escaped(w, value);
	bb_strbuf_add(w->out, "\"");
}

static void start_object(struct writer *w, const char *type)
{
	bb_strbuf_addf(w->out, "%*s<object type=\"%s\"", 2 * w->indent++, "", type);
}

static void add_gp_index(struct writer *w)
{
	bb_strbuf_addf(w->out, " gp_index=\"%lld\"", (long long)w->gp++);
}

static void close_tag(struct writer *w)
{
	bb_strbuf_add(w->out, ">\n");
}

static void end_object(struct writer *w)
{
	bb_strbuf_addf(w->out, "%*s</object>\n", 2 * --w->indent, "");
}

static void write_info(struct writer *w, const char *name, const char *value)
{
	if (!*value)
		return;
	bb_strbuf_addf(w->out, "%*s<info name=\"%s\"", 2 * w->indent, "", name);
	add_attribute(w, "value", value);
	bb_strbuf_add(w->out, "/>\n");
}

static void write_infof(struct writer *w, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void write_infof(struct writer *w, const char *name, const char *format, ...)
{
	struct bb_strbuf s = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&s, format, args);
	va_end(args);
	write_info(w, name, bb_strbuf_text(&s));
	bb_strbuf_free(&s);
}

/* ---- sets -------------------------------------------------------------------------------- */

static void sets_of(struct writer *w, hwloc_const_bitmap_t cpus, hwloc_const_bitmap_t nodes)
{
	static const char *const names[] = {"cpuset", "complete_cpuset", "nodeset",
					    "complete_nodeset"};
	char *text;

	for (int i = 0; i < 4; i++)
		if (hwloc_bitmap_asprintf(&text, i < 2 ? cpus : nodes) >= 0) {
			add_attribute(w, names[i], text);
			free(text);
		}
}

/* Start an object that has the processors of PACKAGE in NUMA node NUMA; -1: of any. */
static void start_normal(struct writer *w, const char *type, int os, int package, int numa)
{
	hwloc_bitmap_t cpus = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();

	start_object(w, type);
	if (os >= 0)
		bb_strbuf_addf(w->out, " os_index=\"%d\"", os);
	if (cpus && nodes) {
		bb_sets_collect(&w->sets, w->t, package, numa, cpus, nodes);
		sets_of(w, cpus, nodes);
	}
	add_gp_index(w);
	close_tag(w);
	hwloc_bitmap_free(cpus);
	hwloc_bitmap_free(nodes);
}

/* ---- processors -------------------------------------------------------------------------- */

static void write_pus(struct writer *w, hwloc_const_bitmap_t cpus, hwloc_const_bitmap_t nodes)
{
	int pu;
	hwloc_bitmap_t one = hwloc_bitmap_alloc();

	for (pu = hwloc_bitmap_first(cpus); pu >= 0 && one; pu = hwloc_bitmap_next(cpus, pu)) {
		start_object(w, "PU");
		bb_strbuf_addf(w->out, " os_index=\"%d\"", pu);
		hwloc_bitmap_only(one, (unsigned)pu);
		sets_of(w, one, nodes);
		add_gp_index(w);
		bb_strbuf_add(w->out, "/>\n");
		w->indent--;
	}
	hwloc_bitmap_free(one);
}

/* Write the cores of PACKAGE in a NUMA node or, if no cores are known, its processors. */
static void write_cores(struct writer *w, int package, int numa)
{
	const struct bb_host *h = &w->t->host;
	hwloc_bitmap_t nodes = hwloc_bitmap_alloc();

	if (!nodes)
		return;
	hwloc_bitmap_only(nodes, (unsigned)h->numas[numa].os);
	if (h->ncores == 0)
		write_pus(w, w->sets.numas[numa], nodes);
	for (int c = 0; c < h->ncores; c++) {
		if (h->cores[c].numa != h->numas[numa].os || h->cores[c].package != package ||
		    hwloc_bitmap_iszero(w->sets.cores[c]))
			continue;
		start_object(w, "Core");
		bb_strbuf_addf(w->out, " os_index=\"%d\"", c);
		sets_of(w, w->sets.cores[c], nodes);
		add_gp_index(w);
		close_tag(w);
		write_pus(w, w->sets.cores[c], nodes);
		end_object(w);
	}
	hwloc_bitmap_free(nodes);
}

static void write_numa_node(struct writer *w, int i)
{
	const struct bb_numa *n = &w->t->host.numas[i];
	hwloc_bitmap_t nodes = hwloc_bitmap_alloc();

	start_object(w, "NUMANode");
	bb_strbuf_addf(w->out, " os_index=\"%d\"", n->os);
	if (nodes) {
		hwloc_bitmap_only(nodes, (unsigned)n->os);
		sets_of(w, w->sets.numas[i], nodes);
	}
	add_gp_index(w);
	bb_strbuf_addf(w->out, " local_memory=\"%lld\"/>\n", (long long)n->bytes);
	w->indent--;
	hwloc_bitmap_free(nodes);
}

/* ---- devices ----------------------------------------------------------------------------- */

static void write_links(struct writer *w, int device)
{
	const struct bb_topology *t = w->t;
	const int n = bb_topology_count(t, BB_GPU);
	struct bb_strbuf s = {0};

	for (int l = 0; l < t->nlinks; l++)
		if (t->links[l].device == device)
			bb_strbuf_addf(&s, "%s%d %d %d %d %d %.0f", s.length ? " " : "",
				       t->links[l].kind, t->links[l].peer, t->links[l].version,
				       t->links[l].count, t->links[l].down,
				       t->links[l].GBps * 1000);
	write_info(w, BB_INFO_NVLINK, bb_strbuf_text(&s));
	bb_strbuf_clear(&s);
	for (int i = 0; t->p2p && i < n; i++)
		bb_strbuf_addf(&s, "%d", t->p2p[device * n + i]);
	write_info(w, BB_INFO_P2P, bb_strbuf_text(&s));
	bb_strbuf_free(&s);
}

static void write_device(struct writer *w, int index)
{
	const struct bb_device *d = &w->t->devices[index];
	char name[sizeof(d->name) + 8];
	int type = 0; /* block */

	snprintf(name, sizeof(name), "%s", d->name);
	if (d->kind == BB_GPU) {
		type = 1;
		snprintf(name, sizeof(name), "nvml%d", index);
		w->gpus[index] = w->gp;
	} else if (d->kind == BB_NIC) {
		type = d->port[0] || d->layer == BB_INFINIBAND ? 3 : 2;
	}
	start_object(w, "OSDev");
	add_gp_index(w);
	add_attribute(w, "name", name);
	bb_strbuf_addf(w->out, " osdev_type=\"%d\"%s", type,
		       d->kind == BB_GPU ? " subtype=\"NVML\"" : "");
	close_tag(w);
	write_info(w, d->kind == BB_GPU ? "GPUModel" : "Model", d->model);
	write_infof(w, BB_INFO_DEVICE, "%d %d %lld %d %lld %d %d %d", d->kind, index,
		    (long long)d->bytes, d->sm, (long long)d->rate_Mbps, d->layer, d->state,
		    d->gdr);
	write_info(w, BB_INFO_PORT, d->port);
	if (d->kind == BB_GPU)
		write_links(w, index);
	end_object(w);
}

/* ---- PCI --------------------------------------------------------------------------------- */

static void bus_of(const struct bb_pci *p, unsigned *domain, unsigned *bus)
{
	if (sscanf(p->id, "%x:%x", domain, bus) != 2)
		*domain = *bus = 0;
}

/* Buses below a port: from that of its first child to the highest one. */
static void buses_below(const struct bb_topology *t, int index, unsigned *low, unsigned *high)
{
	unsigned domain, bus, first, last;

	for (int c = index + 1; c < t->npcis; c++) {
		if (t->pcis[c].parent != index)
			continue;
		bus_of(&t->pcis[c], &domain, &bus);
		*low = *low == 0 ? bus : *low;
		first = last = bus;
		buses_below(t, c, &first, &last);
		*high = bus > *high ? bus : *high;
		*high = last > *high ? last : *high;
	}
}

static void pci_attributes(struct writer *w, const struct bb_pci *p)
{
	bb_strbuf_addf(w->out,
		       " pci_busid=\"%s\" pci_type=\"%04x [%04x:%04x] [0000:0000] 00\" "
		       "pci_link_speed=\"%.6f\"",
		       p->id, p->class_code, p->vendor, p->device, p->now.GBps);
	close_tag(w);
	write_infof(w, BB_INFO_PCI, "%d %d %d", p->role, p->root, p->acs);
	write_infof(w, BB_INFO_LINK, "%d %d %d %d", p->now.gen, p->now.width, p->most.gen,
		    p->most.width);
}

static void write_pci(struct writer *w, int index, int depth)
{
	const struct bb_topology *t = w->t;
	const struct bb_pci *p = &t->pcis[index];
	unsigned domain, low = 0, high = 0, bus;

	if (p->role == BB_PCI_ENDPOINT) {
		start_object(w, "PCIDev");
		add_gp_index(w);
	} else {
		bus_of(p, &domain, &bus);
		buses_below(t, index, &low, &high);
		start_object(w, "Bridge");
		add_gp_index(w);
		bb_strbuf_addf(w->out,
			       " bridge_type=\"1-1\" depth=\"%d\" bridge_pci=\"%04x:[%02x-%02x]\"",
			       depth, domain, low, high);
	}
	pci_attributes(w, p);
	for (int c = index + 1; c < t->npcis; c++)
		if (t->pcis[c].parent == index)
			write_pci(w, c, depth + 1);
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci == index)
			write_device(w, d);
	end_object(w);
}

static void write_root(struct writer *w, int first)
{
	const struct bb_topology *t = w->t;
	unsigned domain, bus, low, high;

	bus_of(&t->pcis[first], &domain, &bus);
	low = high = bus;
	for (int p = first; p < t->npcis; p++)
		if (t->pcis[p].root == t->pcis[first].root) {
			bus_of(&t->pcis[p], &domain, &bus);
			low = bus < low ? bus : low;
			high = bus > high ? bus : high;
		}
	start_object(w, "Bridge");
	add_gp_index(w);
	bb_strbuf_addf(w->out, " bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"%04x:[%02x-%02x]\"",
		       domain, low, high);
	close_tag(w);
	for (int p = first; p < t->npcis; p++)
		if (t->pcis[p].parent < 0 && t->pcis[p].root == t->pcis[first].root)
			write_pci(w, p, 1);
	end_object(w);
}

static void write_io(struct writer *w, int numa)
{
	const struct bb_topology *t = w->t;

	for (int p = 0; p < t->npcis; p++)
		if (t->pcis[p].numa == numa && bb_pci_begins_root(t, p))
			write_root(w, p);
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci < 0 && t->devices[d].numa == numa)
			write_device(w, d);
}

/* ---- the tree ---------------------------------------------------------------------------- */

static void write_package_infos(struct writer *w, int k)
{
	const struct bb_package *p = &w->t->host.packages[k];

	write_info(w, "CPUVendor", p->vendor);
	write_infof(w, "CPUFamilyNumber", "%d", p->family);
	write_infof(w, "CPUModelNumber", "%d", p->number);
	write_info(w, "CPUModel", p->model);
}

/* Write a NUMA node that spans several packages, or whose package is unknown. */
static void write_wide(struct writer *w, int numa)
{
	const struct bb_host *h = &w->t->host;
	const bool group = h->nnumas > 1 && !hwloc_bitmap_iszero(w->sets.numas[numa]);

	if (group)
		start_normal(w, "Group", -1, -1, numa);
	write_numa_node(w, numa);
	for (int k = 0; k < h->npackages; k++)
		if (bb_sets_meet(&w->sets, w->t, k, numa)) {
			start_normal(w, "Package", k, k, numa);
			write_package_infos(w, k);
			write_cores(w, k, numa);
			end_object(w);
		}
	write_cores(w, -1, numa);
	write_io(w, numa);
	if (group)
		end_object(w);
}

static void write_package(struct writer *w, int k)
{
	const struct bb_host *h = &w->t->host;
	int numas = 0;

	for (int i = 0; i < h->nnumas; i++)
		numas += h->numas[i].package == k && !bb_sets_wide(&w->sets, w->t, i);
	if (numas == 0)
		return;
	start_normal(w, "Package", k, k, -1);
	write_package_infos(w, k);
	for (int i = 0; i < h->nnumas; i++) {
		const bool group = numas > 1 && !hwloc_bitmap_iszero(w->sets.numas[i]);

		if (h->numas[i].package != k || bb_sets_wide(&w->sets, w->t, i))
			continue;
		if (group)
			start_normal(w, "Group", -1, k, i);
		write_numa_node(w, i);
		write_cores(w, k, i);
		if (h->ncores > 0)
			write_cores(w, -1, i);
		write_io(w, i);
		if (group)
			end_object(w);
	}
	end_object(w);
}

static void write_machine_infos(struct writer *w)
{
	const struct bb_topology *t = w->t;
	struct bb_strbuf s = {0};

	write_info(w, "Architecture", t->host.arch);
	write_infof(w, BB_INFO_MODEL, "%d %d %d %d %d %d %d", t->nodes, t->nvlink_nodes,
		    t->nvswitches, t->hidden_gpus, t->host.ncores, w->sets.made_up,
		    t->links_unknown);
	write_info(w, BB_INFO_NAME, t->name);
	write_info(w, BB_INFO_SOURCE, t->source);
	write_info(w, BB_INFO_DRIVER, t->driver);
	for (int i = 0; i < t->host.ncaches; i++)
		bb_strbuf_addf(&s, "%s%d %lld %d", i ? " " : "", t->host.caches[i].level,
			       (long long)t->host.caches[i].bytes, t->host.caches[i].count);
	write_info(w, BB_INFO_CACHES, bb_strbuf_text(&s));
	bb_strbuf_free(&s);
}

static void write_machine(struct writer *w)
{
	const struct bb_host *h = &w->t->host;

	start_normal(w, "Machine", 0, -1, -1);
	write_machine_infos(w);
	for (int i = 0; i < h->nnumas; i++)
		if (bb_sets_wide(&w->sets, w->t, i))
			write_wide(w, i);
	for (int k = 0; k < h->npackages; k++)
		write_package(w, k);
	write_io(w, -1);
	end_object(w);
}

/* ---- matrices ---------------------------------------------------------------------------- */

static void write_list(struct writer *w, const char *tag, const struct bb_strbuf *s)
{
	bb_strbuf_addf(w->out, "    <%s length=\"%zu\">%s</%s>\n", tag, s->length,
		       bb_strbuf_text(s), tag);
}

static void write_distances(struct writer *w)
{
	const struct bb_host *h = &w->t->host;
	struct bb_strbuf s = {0};

	if (!h->distances || h->nnumas < 2)
		return;
	bb_strbuf_addf(w->out,
		       "  <distances2 type=\"NUMANode\" nbobjs=\"%d\" kind=\"5\" "
		       "name=\"NUMALatency\" indexing=\"os\">\n",
		       h->nnumas);
	for (int i = 0; i < h->nnumas; i++)
		bb_strbuf_addf(&s, "%d ", h->numas[i].os);
	write_list(w, "indexes", &s);
	bb_strbuf_clear(&s);
	for (int i = 0; i < h->nnumas * h->nnumas; i++)
		bb_strbuf_addf(&s, "%d ", h->distances[i]);
	write_list(w, "u64values", &s);
	bb_strbuf_add(w->out, "  </distances2>\n");
	bb_strbuf_free(&s);
}

/* For users of hwloc; bb_topology_load reads the links at the GPUs. */
static void write_bandwidths(struct writer *w)
{
	const struct bb_topology *t = w->t;
	const int n = bb_topology_count(t, BB_GPU);
	struct bb_strbuf s = {0};

	if (t->nlinks == 0 || n < 2)
		return;
	bb_strbuf_addf(w->out,
		       "  <distances2 type=\"OSDev\" nbobjs=\"%d\" kind=\"9\" "
		       "name=\"NVLinkBandwidth\" indexing=\"gp\">\n",
		       n);
	for (int i = 0; i < n; i++)
		bb_strbuf_addf(&s, "%lld ", (long long)w->gpus[i]);
	write_list(w, "indexes", &s);
	bb_strbuf_clear(&s);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			const struct bb_link *l = bb_topology_link(t, i, BB_NVLINK);
			int count = 0;

			if (bb_topology_path(t, i, j, &count) == BB_PATH_NVLINK)
				bb_strbuf_addf(&s, "%.0f ", count * l->GBps * 1000);
			else
				bb_strbuf_add(&s, i == j ? "1000000 " : "0 ");
		}
	write_list(w, "u64values", &s);
	bb_strbuf_add(w->out, "  </distances2>\n");
	bb_strbuf_free(&s);
}

void bb_topology_export(const struct bb_topology *t, struct bb_strbuf *out)
{
	struct writer w = {.t = t, .out = out, .indent = 1, .gp = 1};

	if (!bb_sets_open(&w.sets, t)) {
		out->failed = true;
	} else {
		bb_strbuf_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
				   "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
				   "<topology version=\"2.0\">\n");
		write_machine(&w);
		write_distances(&w);
		write_bandwidths(&w);
		bb_strbuf_add(out, "</topology>\n");
	}
	bb_sets_close(&w.sets);
}
