#include "topology_tool/print.h"

#include <stdio.h>
#include <string.h>

/* A square table, printed in blocks of columns that fit. */
struct table {
	int n;
	void (*label)(const void *source, int i, char text[16]);
	void (*cell)(const void *source, int i, int j, char text[16]);
	const void *source;
};

static int widest(const struct table *m)
{
	char text[16];
	int most = 1;

	for (int i = 0; i < m->n; i++) {
		m->label(m->source, i, text);
		most = (int)strlen(text) > most ? (int)strlen(text) : most;
		for (int j = 0; j < m->n; j++) {
			m->cell(m->source, i, j, text);
			most = (int)strlen(text) > most ? (int)strlen(text) : most;
		}
	}
	return most;
}

static void print_table(const struct table *m, int width, struct bb_strbuf *out)
{
	const int column = widest(m) + 1;
	int block = (width - column) / column;
	char text[16];

	block = block < 1 ? 1 : block;
	for (int from = 0; from < m->n; from += block) {
		const int to = from + block < m->n ? from + block : m->n;

		bb_strbuf_addf(out, "%*s", column - 1, "");
		for (int j = from; j < to; j++) {
			m->label(m->source, j, text);
			bb_strbuf_addf(out, " %*s", column - 1, text);
		}
		bb_strbuf_add(out, "\n");
		for (int i = 0; i < m->n; i++) {
			m->label(m->source, i, text);
			bb_strbuf_addf(out, "%-*s", column - 1, text);
			for (int j = from; j < to; j++) {
				m->cell(m->source, i, j, text);
				bb_strbuf_addf(out, " %*s", column - 1, text);
			}
			bb_strbuf_add(out, "\n");
		}
		bb_strbuf_add(out, "\n");
	}
}

/* ---- GPUs and NICs -------------------------------------------------------------------------- */

static void device_label(const void *source, int i, char text[16])
{
	const int gpus = bb_topology_count(source, BB_GPU);

	if (i < gpus)
		snprintf(text, 16, "GPU%d", i);
	else
		snprintf(text, 16, "NIC%d", i - gpus);
}

static void device_cell(const void *source, int i, int j, char text[16])
{
	int n = 0;
	enum bb_path path = bb_topology_path(source, i, j, &n);

	bb_topology_path_text(text, path, n);
}

static void print_legend(const struct bb_topology *t, int n, int width, struct bb_strbuf *out)
{
	struct bb_strbuf nics = {0};
	bool seen[BB_PATH_UNKNOWN + 1] = {false};
	const int gpus = bb_topology_count(t, BB_GPU);

	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			seen[bb_topology_path(t, i, j, NULL)] = true;
	for (int path = BB_PATH_UNKNOWN - 1; path >= 0; path--)
		if (seen[path])
			bb_strbuf_addf(out, "  %-4s = %s\n", bb_path_word((enum bb_path)path),
				       bb_path_meaning((enum bb_path)path));
	if (seen[BB_PATH_UNKNOWN])
		bb_strbuf_add(out, "  ?    = not known\n");
	if (n > gpus)
		bb_strbuf_add(out, "\n");
	for (int d = gpus; d < n; d++)
		bb_strbuf_addf(&nics, "NIC%d=%s ", d - gpus, t->devices[d].name);
	if (n > gpus) {
		bb_strbuf_add(out, "  ");
		bb_strbuf_wrap(out, bb_strbuf_text(&nics), 2, 2, width);
	}
	bb_strbuf_free(&nics);
	bb_strbuf_add(out, "\n");
}

/* The last columns of nvidia-smi, on separate lines since they are long. */
static void print_affinity(const struct bb_topology *t, int width, struct bb_strbuf *out)
{
	const int gpus = bb_topology_count(t, BB_GPU);

	if (gpus > 0)
		bb_strbuf_add(out, "     NUMA  CPU affinity\n");
	for (int d = 0; d < gpus; d++) {
		const int numa = t->devices[d].numa;
		const char *cpus = numa >= 0 ? t->host.numas[numa].cpus : NULL;

		bb_strbuf_addf(out, "%-5s", t->devices[d].name);
		if (numa >= 0)
			bb_strbuf_addf(out, "%4d  %.*s%s\n", t->host.numas[numa].os, width - 14,
				       cpus ? cpus : "?",
				       cpus && (int)strlen(cpus) > width - 14 ? "..." : "");
		else
			bb_strbuf_add(out, "   ?  ?\n");
	}
	if (gpus > 0)
		bb_strbuf_add(out, "\n");
}

void bb_print_matrix(const struct bb_topology *t, int width, struct bb_strbuf *out)
{
	const int n = bb_topology_count(t, BB_GPU) + bb_topology_count(t, BB_NIC);
	const struct table m = {n, device_label, device_cell, t};

	if (n < 2)
		return;
	print_table(&m, width, out);
	print_affinity(t, width, out);
	print_legend(t, n, width, out);
}

/* ---- NUMA nodes ------------------------------------------------------------------------------ */

static void numa_label(const void *source, int i, char text[16])
{
	const struct bb_topology *t = source;

	snprintf(text, 16, "node%d", t->host.numas[i].os);
}

static void numa_cell(const void *source, int i, int j, char text[16])
{
	const struct bb_topology *t = source;

	snprintf(text, 16, "%d", t->host.distances[i * t->host.nnumas + j]);
}

void bb_print_numas(const struct bb_topology *t, int width, struct bb_strbuf *out)
{
	const struct table m = {t->host.nnumas, numa_label, numa_cell, t};

	if (t->host.nnumas < 2)
		return;
	if (!t->host.distances) {
		bb_strbuf_add(out, "The distances between NUMA nodes are not known.\n\n");
		return;
	}
	bb_strbuf_add(out, "NUMA distances by the firmware (10: the node itself)\n");
	print_table(&m, width, out);
}
