#include "core/units.h"
#include "topology/rates.h"
#include "topology_tool/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BYTES_TEXT 24

/* Write BYTES as "1.5 TiB" into TEXT. Returns TEXT. */
static const char *bytes_text(char text[BYTES_TEXT], int64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes;
	int unit = 0;

	while (value >= 1024 && unit < 5) {
		value /= 1024;
		unit++;
	}
	snprintf(text, BYTES_TEXT, value < 9.95 ? "%.2g %s" : "%.0f %s", value, units[unit]);
	return text;
}

struct printer {
	const struct bb_topology *t;
	struct bb_strbuf *out;
	int width;
};

/* Print a line, cut at the width. */
static void print_line(struct printer *p, int indent, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void print_line(struct printer *p, int indent, const char *format, ...)
{
	char text[512];
	int room = p->width - indent;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (room < 8)
		room = 8;
	if (bb_strbuf_columns(text, strlen(text)) > room && room < (int)sizeof(text))
		snprintf(text + room - 3, sizeof(text) - (size_t)(room - 3), "...");
	bb_strbuf_addf(p->out, "%*s%s\n", indent, "", text);
}

/* ---- summary ------------------------------------------------------------------------------- */

static void print_cpus(struct printer *p)
{
	const struct bb_host *h = &p->t->host;
	char text[BYTES_TEXT];
	struct bb_strbuf s = {0};

	if (h->npackages > 0)
		bb_strbuf_addf(&s, "%d × %s", h->npackages,
			       h->packages[0].model[0] ? h->packages[0].model : "unknown CPU");
	if (h->ncores > 0)
		bb_strbuf_addf(&s, "%s%d core%s, %d thread%s", s.length ? ", " : "", h->ncores,
			       bb_plural(h->ncores), h->nthreads, bb_plural(h->nthreads));
	if (s.length > 0)
		bb_strbuf_wrap(p->out, bb_strbuf_text(&s), 0, 0, p->width);
	bb_strbuf_clear(&s);
	if (bb_host_memory(h) > 0)
		bb_strbuf_addf(&s, "%s of memory in %d NUMA node%s",
			       bytes_text(text, bb_host_memory(h)), h->nnumas,
			       bb_plural(h->nnumas));
	for (int i = 0; i < h->ncaches; i++)
		bb_strbuf_addf(&s, "%sL%d %s × %d", s.length ? ", " : "", h->caches[i].level,
			       bytes_text(text, h->caches[i].bytes), h->caches[i].count);
	if (s.length > 0)
		bb_strbuf_wrap(p->out, bb_strbuf_text(&s), 0, 0, p->width);
	bb_strbuf_free(&s);
}

static void print_summary(struct printer *p)
{
	const struct bb_topology *t = p->t;
	const int gpus = bb_topology_count(t, BB_GPU), nics = bb_topology_count(t, BB_NIC);
	const int disks = bb_topology_count(t, BB_NVME);

	print_line(p, 0, "%s (%s)", t->name, t->source);
	if (t->nvlink_nodes > 1)
		print_line(p, 0, "one of %d nodes; every %d share their NVSwitches", t->nodes,
			   t->nvlink_nodes);
	else if (t->nodes > 1)
		print_line(p, 0, "one of %d nodes", t->nodes);
	print_cpus(p);
	bb_strbuf_addf(p->out, "%d GPU%s, %d NIC%s", gpus, bb_plural(gpus), nics, bb_plural(nics));
	if (disks > 0)
		bb_strbuf_addf(p->out, ", %d NVMe disk%s", disks, bb_plural(disks));
	if (t->nvswitches > 0)
		bb_strbuf_addf(p->out, ", %d NVSwitch%s", t->nvswitches,
			       t->nvswitches == 1 ? "" : "es");
	if (t->driver[0])
		bb_strbuf_addf(p->out, ", driver %s", t->driver);
	bb_strbuf_add(p->out, "\n\n");
}

/* ---- devices -------------------------------------------------------------------------------- */

/* "Gen5 x16", "Gen5 x8 of x16", "15.8 GB/s" */
static void add_pcie(const struct bb_pci *p, struct bb_strbuf *s)
{
	if (p->now.gen > 0 && p->now.width > 0) {
		bb_strbuf_addf(s, " Gen%d x%d", p->now.gen, p->now.width);
		if (p->most.width > p->now.width)
			bb_strbuf_addf(s, " of x%d", p->most.width);
	} else if (p->now.GBps > 0) {
		bb_strbuf_addf(s, " PCIe %.3g GB/s", p->now.GBps);
	} else if (p->most.GBps > 0 && !bb_pci_virtual(p)) {
		bb_strbuf_addf(s, " up to Gen%d x%d", p->most.gen, p->most.width);
	}
}

static void add_link_counts(const struct bb_topology *t, int gpu, struct bb_strbuf *s)
{
	const struct bb_link *nvlink = bb_topology_link(t, gpu, BB_NVLINK);
	const struct bb_link *c2c = bb_topology_link(t, gpu, BB_C2C);
	const int switched = bb_topology_nvlinks(t, gpu, BB_PEER_SWITCH);
	const int to_cpu = bb_topology_nvlinks(t, gpu, BB_PEER_CPU);
	const int all = bb_topology_nvlinks_all(t, gpu);
	char name[BB_LINK_TEXT];

	if (nvlink)
		bb_strbuf_addf(s, ", %d %s", all, bb_topology_link_text(name, t, gpu));
	if (switched > 0)
		bb_strbuf_add(s, " to switches");
	if (to_cpu > 0)
		bb_strbuf_addf(s, " (%d to the CPU)", to_cpu);
	if (c2c)
		bb_strbuf_addf(s, ", %d C2C", c2c->count);
}

/* The id of P, without domain 0000. */
static const char *short_id(const struct bb_pci *p)
{
	return strncmp(p->id, "0000:", 5) == 0 ? p->id + 5 : p->id;
}

#define DEVICE_NAME 8

void bb_describe_device(const struct bb_topology *t, int index, struct bb_strbuf *s)
{
	const struct bb_device *d = &t->devices[index];
	const char *const unit = strstr(d->model, "GB");
	char memory[BYTES_TEXT];

	if (d->pci >= 0) {
		bb_strbuf_add(s, short_id(&t->pcis[d->pci]));
		add_pcie(&t->pcis[d->pci], s);
	} else {
		bb_strbuf_add(s, "not on PCI");
	}
	if (d->model[0])
		bb_strbuf_addf(s, ", %s", d->model);
	/* Some models name their memory: "H100 80GB HBM3". */
	if (d->bytes > 0 && !(unit && unit > d->model && unit[-1] >= '0' && unit[-1] <= '9'))
		bb_strbuf_addf(s, " %s", bytes_text(memory, d->bytes));
	if (d->kind == BB_GPU)
		add_link_counts(t, index, s);
	if (d->kind == BB_NIC && d->rate_Mbps > 0)
		bb_strbuf_addf(s, ", %.4g Gb/s%s%s", (double)d->rate_Mbps / 1000,
			       d->layer ? " " : "", bb_nic_layer_name(d->layer));
	if (d->kind == BB_NIC && d->state == BB_STATE_DOWN)
		bb_strbuf_add(s, ", down");
	if (d->kind == BB_NIC && d->port[0])
		bb_strbuf_addf(s, ", %s", d->port);
}

static void print_device(struct printer *p, int indent, int index)
{
	const struct bb_device *d = &p->t->devices[index];
	const int length = bb_strbuf_columns(d->name, strlen(d->name));
	const int name = length > DEVICE_NAME ? length : DEVICE_NAME;
	struct bb_strbuf s = {0};

	bb_strbuf_addf(p->out, "%*s%-*s ", indent, "", DEVICE_NAME, d->name);
	bb_describe_device(p->t, index, &s);
	bb_strbuf_wrap(p->out, bb_strbuf_text(&s), indent + name + 1, indent + name + 1, p->width);
	bb_strbuf_free(&s);
}

/* Print PCI object INDEX and all below it. Only switches have a line of their own. */
static void print_below(struct printer *p, int indent, int index)
{
	const struct bb_pci *pci = &p->t->pcis[index];
	struct bb_strbuf s = {0};

	if (pci->role == BB_PCI_SWITCH_UP) {
		bb_strbuf_addf(&s, "switch   %s", short_id(pci));
		add_pcie(pci, &s);
		print_line(p, indent, "%s", bb_strbuf_text(&s));
		bb_strbuf_free(&s);
		indent += 2;
	}
	for (int d = 0; d < p->t->ndevices; d++)
		if (p->t->devices[d].pci == index)
			print_device(p, indent, d);
	for (int c = index + 1; c < p->t->npcis; c++)
		if (p->t->pcis[c].parent == index)
			print_below(p, indent, c);
}

/* Print all below a host bridge, which has a line of its own if several objects are directly below
   it. */
static void print_root(struct printer *p, int indent, int first)
{
	const struct bb_topology *t = p->t;
	int below = 0;

	for (int i = first; i < t->npcis; i++)
		below += t->pcis[i].parent < 0 && t->pcis[i].root == t->pcis[first].root;
	if (below > 1 && t->pcis[first].root >= 0) {
		print_line(p, indent, "host bridge");
		indent += 2;
	}
	for (int i = first; i < t->npcis; i++)
		if (t->pcis[i].parent < 0 && t->pcis[i].root == t->pcis[first].root)
			print_below(p, indent, i);
}

static void print_io(struct printer *p, int indent, int numa)
{
	for (int i = 0; i < p->t->npcis; i++)
		if (p->t->pcis[i].numa == numa && bb_pci_begins_root(p->t, i))
			print_root(p, indent, i);
	for (int d = 0; d < p->t->ndevices; d++)
		if (p->t->devices[d].pci < 0 && p->t->devices[d].numa == numa)
			print_device(p, indent, d);
}

static void print_numa(struct printer *p, int indent, int numa)
{
	const struct bb_numa *n = &p->t->host.numas[numa];
	char memory[BYTES_TEXT];

	print_line(p, indent, "NUMA node %d: %s%s%s", n->os,
		   n->bytes > 0 ? bytes_text(memory, n->bytes) : "memory unknown",
		   n->cpus ? ", threads " : "", n->cpus ? n->cpus : "");
	print_io(p, indent + 2, numa);
}

/* A NUMA node that spans several packages is printed below the first. */
static void print_package(struct printer *p, int k)
{
	bool begun = false;

	for (int i = 0; i < p->t->host.nnumas; i++) {
		if (p->t->host.numas[i].package != k)
			continue;
		if (!begun)
			print_line(p, 0, "package %d", k);
		begun = true;
		print_numa(p, 2, i);
	}
}

static bool has_unplaced(const struct bb_topology *t)
{
	for (int i = 0; i < t->npcis; i++)
		if (t->pcis[i].numa < 0)
			return true;
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci < 0 && t->devices[d].numa < 0)
			return true;
	return false;
}

void bb_print_tree(const struct bb_topology *t, int width, struct bb_strbuf *out)
{
	struct printer p = {t, out, width};

	print_summary(&p);
	for (int k = 0; k < t->host.npackages; k++)
		print_package(&p, k);
	for (int i = 0; i < t->host.nnumas; i++)
		if (t->host.numas[i].package < 0)
			print_numa(&p, 0, i);
	if (has_unplaced(t)) {
		print_line(&p, 0, "at no known NUMA node");
		print_io(&p, 2, -1);
	}
	bb_strbuf_add(out, "\n");
}
