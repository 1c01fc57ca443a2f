/*
 * cluster_figures.c - the figures of clusters: what they are called, and files of them.
 */
#include "simulator/cluster_parts.h"

#include "core/option.h"
#include "core/settings.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data file is part of the program: a binary that is copied elsewhere has it too. */
__asm__(".pushsection .rodata\n"
	".globl bb_cluster_data\n"
	".hidden bb_cluster_data\n"
	"bb_cluster_data:\n"
	".incbin \"src/simulator/clusters.txt\"\n"
	".byte 0\n"
	".popsection\n");

enum unit { RATE, SHARE, TIME, NODES, TAPER };

static const struct {
	const char *name;
	enum unit unit;
	const char *meaning;
} rows[BB_FIGURES] = {
	[BB_FIGURE_GPU_RATE] = {"gpu_rate", RATE,
				"what a GPU sends, and receives at once, within its node"},
	[BB_FIGURE_NIC_RATE] = {"nic_rate", RATE, "one rail of a node, each way"},
	[BB_FIGURE_GPU_EFFICIENCY] = {"gpu_efficiency", SHARE, "what of gpu_rate is reached"},
	[BB_FIGURE_NIC_EFFICIENCY] = {"nic_efficiency", SHARE, "what of nic_rate is reached"},
	[BB_FIGURE_GPU_LATENCY] = {"gpu_latency", TIME, "a message over NVLink"},
	[BB_FIGURE_PCIE_LATENCY] = {"pcie_latency", TIME, "a message over PCIe within the node"},
	[BB_FIGURE_NET_LATENCY] = {"net_latency", TIME,
				   "a message to another node through one switch"},
	[BB_FIGURE_SWITCH_LATENCY] = {"switch_latency", TIME, "each further switch on its way"},
	[BB_FIGURE_MESSAGE_OVERHEAD] =
		{"message_overhead", TIME,
		 "what a message takes of the way out and in beside its bytes"},
	[BB_FIGURE_LEAF_NODES] = {"leaf_nodes", NODES,
				  "nodes whose NICs of a rail meet in one leaf switch"},
	[BB_FIGURE_LEAF_TAPER] = {"leaf_taper", TAPER, "a leaf's rate down, over its rate up"},
	[BB_FIGURE_POD_NODES] = {"pod_nodes", NODES, "nodes below one set of spine switches"},
	[BB_FIGURE_POD_TAPER] = {"pod_taper", TAPER, "a pod's rate down, over its rate up"},
	[BB_FIGURE_NCCL_NIC_LATENCY] = {"nccl_nic_latency", TIME,
					"what NCCL's plug-in for the network adds to a hop"},
	[BB_FIGURE_NCCL_TREE_FILL] =
		{"nccl_tree_fill", TIME,
		 "what each level of nodes takes to fill the pipeline of NVLSTree"},
	[BB_FIGURE_NCCL_ISSUE] = {"nccl_issue", TIME,
				  "from one operation of NCCL's to the next at least"},
};

static const char *const examples[] = {
	[RATE] = "a rate as in 48GB/s",      [SHARE] = "a share as in 97%",
	[TIME] = "a time as in 2.7us",       [NODES] = "a number of nodes from 1 to 1048576",
	[TAPER] = "a factor from 1 to 1000",
};

const char *bb_figure_name(enum bb_figure figure)
{
	return rows[figure].name;
}

const char *bb_figure_meaning(enum bb_figure figure)
{
	return rows[figure].meaning;
}

static bool read_count(const char *text, int *count)
{
	int64_t value;

	if (!bb_parse_int(text, &value) || value < 1 || value > BB_CLUSTER_MOST_RANKS)
		return false;
	*count = (int)value;
	return true;
}

static bool read_value(enum unit unit, const char *text, double *value)
{
	int count;
	char *end;

	switch (unit) {
	case RATE:
		return bb_setting_read(BB_SETTING_RATE, text, value);
	case SHARE:
		return bb_setting_read(BB_SETTING_SHARE, text, value);
	case TIME:
		return bb_setting_read(BB_SETTING_TIME, text, value);
	case NODES:
		if (!read_count(text, &count))
			return false;
		*value = count;
		return true;
	case TAPER:
		*value = strtod(text, &end);
		return end != text && !*end && *value >= 1 && *value <= 1000;
	}
	return false;
}

/* ---- lines ---------------------------------------------------------------------------- */

/* Returns the figure, or BB_FIGURES. */
static int find_figure(const char *key)
{
	int f = 0;

	while (f < BB_FIGURES && strcmp(rows[f].name, key) != 0)
		f++;
	return f;
}

static bb_status unknown_key(const struct bb_settings *l, bool head, struct bb_error *error)
{
	const char *names[BB_FIGURES + 4] = {NULL}, *near;
	int n = 0;

	for (int f = 0; f < BB_FIGURES; f++)
		names[n++] = rows[f].name;
	if (head) {
		names[n++] = "system";
		names[n++] = "topology";
		names[n++] = "nodes";
	}
	near = bb_nearest(l->key, names);
	return bb_fail(error, BB_EUSAGE, "%s: line %d: \"%s\" is not a figure of a cluster%s%s%s",
		       l->name, l->line, l->key, near ? "; did you mean " : "", near ? near : "",
		       near ? "?" : "");
}

static bb_status wrong_value(const struct bb_settings *l, const char *right, struct bb_error *error)
{
	return bb_fail(error, BB_EUSAGE, "%s: line %d: %s = \"%s\": expected %s", l->name, l->line,
		       l->key, l->value, right);
}

static bb_status read_figure(const struct bb_settings *l, enum bb_figure f,
			     struct bb_cluster_figure *figure, struct bb_error *error)
{
	if (!read_value(rows[f].unit, l->value, &figure->value))
		return wrong_value(l, examples[rows[f].unit], error);
	snprintf(figure->source, BB_SOURCE_TEXT, "%s", l->source ? l->source : l->name);
	return BB_OK;
}

static bb_status read_line(const struct bb_settings *l, struct bb_cluster_figure *figures,
			   struct bb_figure_head *head, struct bb_error *error)
{
	const int f = find_figure(l->key);

	if (f < BB_FIGURES) {
		struct bb_cluster_figure unused;

		return read_figure(l, (enum bb_figure)f, figures ? &figures[f] : &unused, error);
	}
	if (head && strcmp(l->key, "system") == 0)
		snprintf(head->system, sizeof(head->system), "%s", l->value);
	else if (head && strcmp(l->key, "topology") == 0)
		snprintf(head->topology, sizeof(head->topology), "%s", l->value);
	else if (head && strcmp(l->key, "nodes") == 0)
		return read_count(l->value, &head->nodes) ? BB_OK
							  : wrong_value(l, examples[NODES], error);
	else
		return unknown_key(l, head, error);
	return BB_OK;
}

bb_status bb_figures_read(const struct bb_figure_text *in, struct bb_cluster_figure *figures,
			  struct bb_figure_head *head, struct bb_error *error)
{
	struct bb_settings l = {.name = in->name, .rest = in->text, .section = in->section};
	bool more = true;
	bb_status st = BB_OK;

	while (st == BB_OK && more) {
		st = bb_settings_next(&l, &more, error);
		if (st == BB_OK && more)
			st = read_line(&l, figures, head, error);
	}
	return st;
}

bb_status bb_figures_check(const char *name, const struct bb_cluster_figure *figures,
			   struct bb_error *error)
{
	const double leaf = figures[BB_FIGURE_LEAF_NODES].value;
	const double pod = figures[BB_FIGURE_POD_NODES].value;

	if (pod < leaf)
		return bb_fail(error, BB_EUSAGE,
			       "%s: pod_nodes %.0f is below leaf_nodes %.0f; a pod holds leaves",
			       name, pod, leaf);
	return BB_OK;
}
