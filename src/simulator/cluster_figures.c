/*
 * cluster_figures.c - the names of a cluster's figures, and the reader of their files.
 */
#include "simulator/cluster_parts.h"

#include "core/embed.h"
#include "core/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

BB_EMBED(bb_cluster_data, "src/simulator/clusters.txt");

#define FIGURE(figure, name, unit) [BB_FIGURE_##figure] = {name, BB_SETTING_##unit},

const struct bb_figure_row bb_figure_rows[BB_FIGURES] = {BB_FIGURE_LIST(FIGURE)};

static const char *const examples[] = {
	[BB_SETTING_RATE] = "a rate as in 48GB/s",
	[BB_SETTING_SHARE] = "a share as in 97%",
	[BB_SETTING_TIME] = "a time as in 2.7us",
	[BB_SETTING_SIZE] = "a size as in 4K",
	[BB_SETTING_COUNT] = "a number of nodes, or of ranks, from 1 to 1048576",
	[BB_SETTING_NUMBER] = "a factor from 1 to 1000",
	[BB_SETTING_YES] = "yes or no",
};

static bool read_value(enum bb_setting_unit unit, const char *text, double *value)
{
	const double most = unit == BB_SETTING_COUNT    ? BB_CLUSTER_MOST_RANKS
			    : unit == BB_SETTING_NUMBER ? 1000
							: INFINITY;

	if (!bb_setting_read(unit, text, value))
		return false;
	return isinf(most) || (*value >= 1 && *value <= most);
}

/* ---- lines ---------------------------------------------------------------------------- */

/* Returns the figure, or BB_FIGURES. */
static int find_figure(const char *key)
{
	int f = 0;

	while (f < BB_FIGURES && strcmp(bb_figure_rows[f].name, key) != 0)
		f++;
	return f;
}

static bb_status unknown_key(const struct bb_settings *l, bool head, struct bb_error *error)
{
	const char *names[BB_FIGURES + 4] = {NULL}, *near;
	int n = 0;

	for (int f = 0; f < BB_FIGURES; f++)
		names[n++] = bb_figure_rows[f].name;
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

static bb_status read_line(const struct bb_settings *l, double *figures,
			   struct bb_figure_head *head, struct bb_error *error)
{
	const int f = find_figure(l->key);
	double value;

	if (f < BB_FIGURES) {
		if (!read_value(bb_figure_rows[f].unit, l->value, figures ? &figures[f] : &value))
			return wrong_value(l, examples[bb_figure_rows[f].unit], error);
		return BB_OK;
	}
	if (head && strcmp(l->key, "system") == 0)
		snprintf(head->system, sizeof(head->system), "%s", l->value);
	else if (head && strcmp(l->key, "topology") == 0)
		snprintf(head->topology, sizeof(head->topology), "%s", l->value);
	else if (!head || strcmp(l->key, "nodes") != 0)
		return unknown_key(l, head, error);
	else if (!read_value(BB_SETTING_COUNT, l->value, &value))
		return wrong_value(l, examples[BB_SETTING_COUNT], error);
	else
		head->nodes = (int)value;
	return BB_OK;
}

bb_status bb_figures_read(const struct bb_settings *text, double *figures,
			  struct bb_figure_head *head, struct bb_error *error)
{
	struct bb_settings l = *text;
	bool more = true;
	bb_status st = BB_OK;

	while (st == BB_OK && more) {
		st = bb_settings_next(&l, &more, error);
		if (st == BB_OK && more)
			st = read_line(&l, figures, head, error);
	}
	return st;
}

bb_status bb_figures_read_known(const char *section, double *figures, struct bb_error *error)
{
	const struct bb_settings text = {
		.name = "clusters.txt", .rest = bb_cluster_data, .section = section};

	return bb_figures_read(&text, figures, NULL, error);
}

bb_status bb_figures_check(const char *name, const double *figures, struct bb_error *error)
{
	const double leaf = figures[BB_FIGURE_LEAF_NODES], pod = figures[BB_FIGURE_POD_NODES];

	if (figures[BB_FIGURE_NODE_RANKS] > BB_CLUSTER_NODE_RANKS)
		return bb_fail(error, BB_EUSAGE, "%s: node_ranks %.0f is more than %d", name,
			       figures[BB_FIGURE_NODE_RANKS], BB_CLUSTER_NODE_RANKS);
	if (pod < leaf)
		return bb_fail(error, BB_EUSAGE,
			       "%s: pod_nodes %.0f is below leaf_nodes %.0f; a pod holds leaves",
			       name, pod, leaf);
	return BB_OK;
}
