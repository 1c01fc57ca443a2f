/*
 * text.c - a machine as text: its tree, matrices, findings and speed of light.
 */
#include "core/units.h"
#include "topology/rates.h"
#include "topology_tool/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Print a line, cut at the width. */
__attribute__((format(printf, 3, 4))) static void print_line(const struct bb_printer *p, int indent,
							     const char *format, ...)
{
	char text[512];
	const int room = p->width - indent < 8 ? 8 : p->width - indent;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (bb_strbuf_columns(text, strlen(text)) > room && room < (int)sizeof(text))
		snprintf(text + room - 3, sizeof(text) - (size_t)(room - 3), "...");
	bb_strbuf_addf(p->out, "%*s%s\n", indent, "", text);
}

/* ---- summary ------------------------------------------------------------------------------- */

static void print_summary(const struct bb_printer *p)
{
	const struct bb_topology *t = p->t;
	const struct bb_host *h = &t->host;
	const int gpus = bb_topology_count(t, BB_GPU), nics = bb_topology_count(t, BB_NIC);
	const int disks = bb_topology_count(t, BB_NVME);
	char text[BYTES_TEXT];
	struct bb_strbuf cpus = {0}, memory = {0};

	print_line(p, 0, "%s (%s)", t->name, t->source);
	if (t->nvlink_nodes > 1)
		print_line(p, 0, "one of %d nodes; every %d share their NVSwitches", t->nodes,
			   t->nvlink_nodes);
	else if (t->nodes > 1)
		print_line(p, 0, "one of %d nodes", t->nodes);
	if (h->npackages > 0)
		bb_strbuf_addf(&cpus, "%d × %s", h->npackages,
			       h->packages[0].model[0] ? h->packages[0].model : "unknown CPU");
	if (h->ncores > 0)
		bb_strbuf_addf(&cpus, "%s%d core%s, %d thread%s", cpus.length ? ", " : "",
			       h->ncores, bb_plural(h->ncores), h->nthreads,
			       bb_plural(h->nthreads));
	if (bb_host_memory(h) > 0)
		bb_strbuf_addf(&memory, "%s of memory in %d NUMA node%s",
			       bytes_text(text, bb_host_memory(h)), h->nnumas,
			       bb_plural(h->nnumas));
	for (int i = 0; i < h->ncaches; i++)
		bb_strbuf_addf(&memory, "%sL%d %s × %d", memory.length ? ", " : "",
			       h->caches[i].level, bytes_text(text, h->caches[i].bytes),
			       h->caches[i].count);
	if (cpus.length > 0)
		bb_strbuf_wrap(p->out, bb_strbuf_text(&cpus), 0, 0, p->width);
	if (memory.length > 0)
		bb_strbuf_wrap(p->out, bb_strbuf_text(&memory), 0, 0, p->width);
	bb_strbuf_free(&cpus);
	bb_strbuf_free(&memory);
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
	const struct bb_link *const c2c = bb_topology_link(t, index, BB_C2C);
	const int to_cpu = bb_topology_nvlinks(t, index, BB_PEER_CPU);
	char memory[BYTES_TEXT], name[BB_LINK_TEXT];

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
	if (bb_topology_link(t, index, BB_NVLINK))
		bb_strbuf_addf(s, ", %d %s", bb_topology_nvlinks(t, index, BB_PEER_ANY),
			       bb_topology_link_text(name, t, index));
	if (bb_topology_nvlinks(t, index, BB_PEER_SWITCH) > 0)
		bb_strbuf_add(s, " to switches");
	if (to_cpu > 0)
		bb_strbuf_addf(s, " (%d to the CPU)", to_cpu);
	if (c2c)
		bb_strbuf_addf(s, ", %d C2C", c2c->count);
	if (d->kind == BB_NIC && d->rate_Mbps > 0)
		bb_strbuf_addf(s, ", %.4g Gb/s%s%s", (double)d->rate_Mbps / 1000,
			       d->layer ? " " : "", bb_nic_layer_name(d->layer));
	if (d->kind == BB_NIC && d->state == BB_STATE_DOWN)
		bb_strbuf_add(s, ", down");
	if (d->kind == BB_NIC && d->port[0])
		bb_strbuf_addf(s, ", %s", d->port);
}

static void print_device(const struct bb_printer *p, int indent, int index)
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
static void print_below(const struct bb_printer *p, int indent, int index)
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

/* Print all at NUMA node NUMA. A host bridge has a line of its own if several objects are directly
   below it. */
static void print_io(const struct bb_printer *p, int indent, int numa)
{
	const struct bb_topology *t = p->t;

	for (int i = 0; i < t->npcis; i++) {
		const int root = t->pcis[i].root;
		int below = 0, before = 0, inner = indent;

		if (t->pcis[i].parent >= 0 || t->pcis[i].numa != numa)
			continue;
		for (int k = 0; k < t->npcis; k++)
			if (t->pcis[k].parent < 0 && t->pcis[k].root == root) {
				before += k < i;
				below++;
			}
		if (before > 0)
			continue;
		if (below > 1 && root >= 0) {
			print_line(p, indent, "host bridge");
			inner += 2;
		}
		for (int k = i; k < t->npcis; k++)
			if (t->pcis[k].parent < 0 && t->pcis[k].root == root)
				print_below(p, inner, k);
	}
	for (int d = 0; d < t->ndevices; d++)
		if (t->devices[d].pci < 0 && t->devices[d].numa == numa)
			print_device(p, indent, d);
}

void bb_print_tree(const struct bb_printer *p)
{
	const struct bb_topology *const t = p->t;
	bool unplaced = false;

	print_summary(p);
	/* A NUMA node that spans several packages is printed below the first; -1: below none. */
	for (int k = 0; k <= t->host.npackages; k++) {
		const int package = k < t->host.npackages ? k : -1;
		bool begun = package < 0;

		for (int i = 0; i < t->host.nnumas; i++) {
			const struct bb_numa *const n = &t->host.numas[i];
			const int indent = package < 0 ? 0 : 2;
			char memory[BYTES_TEXT];

			if (n->package != package)
				continue;
			if (!begun)
				print_line(p, 0, "package %d", package);
			begun = true;
			print_line(p, indent, "NUMA node %d: %s%s%s", n->os,
				   n->bytes > 0 ? bytes_text(memory, n->bytes) : "memory unknown",
				   n->cpus ? ", threads " : "", n->cpus ? n->cpus : "");
			print_io(p, indent + 2, i);
		}
	}
	for (int i = 0; i < t->npcis; i++)
		unplaced |= t->pcis[i].numa < 0;
	for (int d = 0; d < t->ndevices; d++)
		unplaced |= t->devices[d].pci < 0 && t->devices[d].numa < 0;
	if (unplaced) {
		print_line(p, 0, "at no known NUMA node");
		print_io(p, 2, -1);
	}
	bb_strbuf_add(p->out, "\n");
}

/* ---- matrices -------------------------------------------------------------------------------- */

#define CELL 16

/* Print the matrix of N rows and columns, in blocks of columns that fit: of PATHS between GPUs and
   NICs, else of distances between NUMA nodes. */
static void print_cells(const struct bb_printer *p, int n, bool paths)
{
	const struct bb_topology *const t = p->t;
	const int gpus = bb_topology_count(t, BB_GPU);
	char(*cells)[CELL] = calloc((size_t)(n + 1) * (size_t)(n + 1), CELL);
	int column = 2, block;

	p->out->failed |= !cells;
	if (!cells)
		return;
	for (int i = 0; i < n; i++) {
		char(*const row)[CELL] = &cells[(i + 1) * (n + 1)];

		snprintf(row[0], CELL,
			 !paths     ? "node%d"
			 : i < gpus ? "GPU%d"
				    : "NIC%d",
			 !paths     ? t->host.numas[i].os
			 : i < gpus ? i
				    : i - gpus);
		memcpy(cells[i + 1], row[0], CELL);
		for (int j = 0; j < n; j++) {
			int links;
			const enum bb_path path =
				paths ? bb_topology_path(t, i, j, &links) : BB_PATH_UNKNOWN;

			if (paths)
				bb_topology_path_text(row[j + 1], path, links);
			else
				snprintf(row[j + 1], CELL, "%d", t->host.distances[i * n + j]);
		}
	}
	for (int i = 1; i < (n + 1) * (n + 1); i++)
		column = (int)strlen(cells[i]) >= column ? (int)strlen(cells[i]) + 1 : column;
	block = (p->width - column) / column < 1 ? 1 : (p->width - column) / column;
	for (int from = 1; from <= n; from += block) {
		for (int i = 0; i <= n; i++) {
			bb_strbuf_addf(p->out, "%-*s", column - 1, cells[i * (n + 1)]);
			for (int j = from; j < from + block && j <= n; j++)
				bb_strbuf_addf(p->out, " %*s", column - 1, cells[i * (n + 1) + j]);
			bb_strbuf_add(p->out, "\n");
		}
		bb_strbuf_add(p->out, "\n");
	}
	free(cells);
}

void bb_print_matrix(const struct bb_printer *p)
{
	const struct bb_topology *const t = p->t;
	const int gpus = bb_topology_count(t, BB_GPU), n = gpus + bb_topology_count(t, BB_NIC);
	const int room = p->width - 14;
	bool seen[BB_PATH_UNKNOWN + 1] = {false};
	struct bb_strbuf nics = {0};

	if (n < 2)
		return;
	print_cells(p, n, true);
	/* The last columns of nvidia-smi, on separate lines since they are long. */
	bb_strbuf_add(p->out, gpus > 0 ? "     NUMA  CPU affinity\n" : "");
	for (int d = 0; d < gpus; d++) {
		const int numa = t->devices[d].numa;
		const char *cpus = numa >= 0 ? t->host.numas[numa].cpus : NULL;

		bb_strbuf_addf(p->out, "%-5s", t->devices[d].name);
		if (numa >= 0)
			bb_strbuf_addf(p->out, "%4d  %.*s%s\n", t->host.numas[numa].os, room,
				       cpus ? cpus : "?",
				       cpus && (int)strlen(cpus) > room ? "..." : "");
		else
			bb_strbuf_add(p->out, "   ?  ?\n");
	}
	bb_strbuf_add(p->out, gpus > 0 ? "\n" : "");
	/* The classes of paths, and the names of the NICs. */
	for (int i = 0; i < n * n; i++)
		seen[bb_topology_path(t, i / n, i % n, NULL)] = true;
	for (int path = BB_PATH_UNKNOWN - 1; path >= 0; path--)
		if (seen[path])
			bb_strbuf_addf(p->out, "  %-4s = %s\n", bb_path_word((enum bb_path)path),
				       bb_path_meaning((enum bb_path)path));
	if (seen[BB_PATH_UNKNOWN])
		bb_strbuf_add(p->out, "  ?    = not known\n");
	for (int d = gpus; d < n; d++)
		bb_strbuf_addf(&nics, "NIC%d=%s ", d - gpus, t->devices[d].name);
	if (n > gpus) {
		bb_strbuf_add(p->out, "\n  ");
		bb_strbuf_wrap(p->out, bb_strbuf_text(&nics), 2, 2, p->width);
	}
	bb_strbuf_free(&nics);
	bb_strbuf_add(p->out, "\n");
}

void bb_print_numas(const struct bb_printer *p)
{
	if (p->t->host.nnumas < 2)
		return;
	if (!p->t->host.distances) {
		bb_strbuf_add(p->out, "The distances between NUMA nodes are not known.\n\n");
		return;
	}
	bb_strbuf_add(p->out, "NUMA distances by the firmware (10: the node itself)\n");
	print_cells(p, p->t->host.nnumas, false);
}

/* ---- findings and the speed of light -------------------------------------------------------- */

static void print_finding(void *context, const char *text)
{
	const struct bb_printer *const p = context;

	bb_strbuf_add(p->out, "  ! ");
	bb_strbuf_wrap(p->out, text, 4, 4, p->width);
}

void bb_print_findings(const struct bb_printer *p)
{
	struct bb_printer context = *p;

	bb_strbuf_add(p->out, "Findings\n");
	if (bb_topology_findings(p->t, print_finding, &context) == 0)
		bb_strbuf_add(p->out, "  none\n");
	bb_strbuf_add(p->out, "\n");
}

#define SENTENCE_AT 20

/* Print the bound of WHAT over N RANKS, called NAME. */
static void print_bound(const struct bb_printer *p, const char *name,
			const struct bb_rank_place *ranks, int n, enum bb_bound what)
{
	struct bb_strbuf why = {0};
	double GBps;

	if (bb_speed_of_light(p->t, ranks, n, what, &GBps, &why) == BB_OK)
		bb_strbuf_addf(p->out, "  %-10s %6.4g ", name, GBps);
	else
		bb_strbuf_addf(p->out, "  %-10s %6s ", name, "-");
	bb_strbuf_wrap(p->out, bb_strbuf_text(&why), SENTENCE_AT, SENTENCE_AT, p->width);
	bb_strbuf_free(&why);
}

#define PAIR_RANKS 128 /* further pairs are like these, on equal nodes */

void bb_print_bounds(const struct bb_printer *p)
{
	const int n = p->nranks < PAIR_RANKS ? p->nranks : PAIR_RANKS;
	struct bb_rank_place best[2], worst[2];
	double least = 0, most = 0;
	int nodes = 0;

	if (p->nranks < 2)
		return;
	for (int i = 0; i < p->nranks; i++)
		nodes = p->ranks[i].node >= nodes ? p->ranks[i].node + 1 : nodes;
	bb_strbuf_addf(p->out, "Speed of light of %d %s on %d node%s, GB/s\n", p->nranks,
		       p->ranks[0].device == BB_ON_HOST ? "ranks" : "GPUs", nodes,
		       bb_plural(nodes));
	/* The slowest pair of ranks and, if it differs, the fastest. */
	for (int i = 1; i < n; i++)
		for (int j = 0; j < i; j++) {
			const struct bb_rank_place pair[] = {p->ranks[j], p->ranks[i]};
			double GBps;
			const bool known = bb_speed_of_light(p->t, pair, 2, BB_BOUND_PAIR, &GBps,
							     NULL) == BB_OK;

			/* If none has a bound, the last says why. */
			if (least == 0 || (known && GBps < least))
				memcpy(worst, pair, sizeof(pair));
			if (known && (least == 0 || GBps < least))
				least = GBps;
			if (known && GBps > most) {
				memcpy(best, pair, sizeof(pair));
				most = GBps;
			}
		}
	if (most > least)
		print_bound(p, "best pair", best, 2, BB_BOUND_PAIR);
	print_bound(p, most > least ? "worst pair" : "pair", worst, 2, BB_BOUND_PAIR);
	for (enum bb_bound what = BB_BOUND_RING; what < BB_BOUNDS; what++)
		print_bound(p, bb_bound_name(what), p->ranks, p->nranks, what);
	bb_strbuf_add(p->out, "\n");
}
