/*
 * node_values.c - the values of gates on each host, as far as records have them: groups of a split
 * world that are a host each, pairs of ranks, and steps on one host.
 */
#include "acceptance/nodes.h"
#include "core/array.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns VALUE over the limit of J, or its inverse if less is better; below 1 it is beyond the
 * limit. */
static double margin(const struct bb_judgement *j, double value)
{
	return j->gate->measure->more_is_better ? value / j->limit : j->limit / value;
}

/* Notes VALUE of node AT under the gate of J. Of its own values the worst counts; of those shared
   with other nodes the best, because a bad partner is no evidence against it. */
static void value_note(struct bb_nodes *nodes, size_t at, const struct bb_judgement *j,
		       double value, bool shared)
{
	struct bb_node *const node = &nodes->list[at];
	const double m = margin(j, value);
	const struct bb_node_value new = {j, value, j->limit, m, shared, m < 1};
	struct bb_node_value *added;

	for (size_t i = 0; i < node->nvalues; i++) {
		struct bb_node_value *const v = &node->values[i];

		if (v->judgement->gate != j->gate || v->shared != shared)
			continue;
		if (shared ? m > v->margin : m < v->margin)
			*v = new;
		return;
	}
	added = BB_ARRAY_ADD(node->values, node->nvalues, node->room);
	nodes->failed |= !added;
	if (added)
		*added = new;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Returns the field with the metric of each group; NULL: none. */
static const char *group_field(const struct bb_metric *metric)
{
	if (!metric->best && strcmp(metric->name, "busbw") == 0)
		return "group_busbw_GBps";
	return strcmp(metric->name, "time") == 0 ? "group_time_us" : NULL;
}

/* Returns the index of GROUP in GROUPS; -1: none. */
static int position(const json_t *groups, int64_t group)
{
	size_t i;
	json_t *g;

	/* Usually the groups are numbered from 0. */
	if (group >= 0 && json_integer_value(json_array_get(groups, (size_t)group)) == group &&
	    (size_t)group < json_array_size(groups))
		return (int)group;
	json_array_foreach(groups, i, g)
	{
		if (json_integer_value(g) == group)
			return (int)i;
	}
	return -1;
}

/* HOSTS[group] = the host of the group's ranks; NULL: several. */
static void group_hosts_find(const struct bb_read_record *r, const json_t *groups,
			     const char **hosts)
{
	static const char several[] = "";
	size_t i;
	json_t *rank;

	json_array_foreach(json_object_get(r->run, "ranks"), i, rank)
	{
		const char *const host = bb_record_string(rank, "host");
		const int g = position(groups, bb_record_int(rank, "group"));

		if (g < 0 || !host)
			continue;
		hosts[g] = !hosts[g] || strcmp(hosts[g], host) == 0 ? host : several;
	}
	for (i = 0; i < json_array_size(groups); i++)
		hosts[i] = hosts[i] == several ? NULL : hosts[i];
}

/* Sums over the results of one subject. */
struct sum {
	double sum;
	size_t n;
};

static void groups_sum(const struct bb_read_record *r, const struct bb_judgement *j,
		       struct bb_nodes *nodes, struct sum *sums)
{
	const json_t *const groups = json_object_get(r->json, "groups");
	const json_t *const values = json_object_get(r->json, group_field(j->gate->measure));
	const size_t n = json_array_size(groups);
	const char **const hosts = calloc(n + 1, sizeof(*hosts));

	nodes->failed |= !hosts;
	if (hosts && json_array_size(values) == n)
		group_hosts_find(r, groups, hosts);
	for (size_t g = 0; hosts && g < n; g++) {
		const double value = json_number_value(json_array_get(values, g));
		const struct bb_node *const node = hosts[g] ? bb_nodes_find(nodes, hosts[g]) : NULL;

		if (!node || !(value > 0))
			continue;
		sums[node - nodes->list].sum += value;
		sums[node - nodes->list].n++;
	}
	free(hosts);
}

/* ---- one judgement --------------------------------------------------------------------------- */

/* A pair within a host is its own number, one between two hosts they share. */
static void pair_note(const struct bb_read_record *r, const struct bb_judgement *j,
		      struct bb_nodes *nodes)
{
	const char *const ends[] = {bb_record_string(r->json, "from_host"),
				    bb_record_string(r->json, "to_host")};
	const bool shared = ends[0] && ends[1] && strcmp(ends[0], ends[1]) != 0;

	for (int i = 0; i < 1 + shared; i++) {
		const struct bb_node *const node = ends[i] ? bb_nodes_find(nodes, ends[i]) : NULL;

		if (node)
			value_note(nodes, (size_t)(node - nodes->list), j, j->value, shared);
	}
}

static void judgement_note(const struct bb_evidence *e, const struct bb_judgement *j,
			   struct bb_nodes *nodes, struct bb_node *alone)
{
	struct sum *const sums = calloc(nodes->n + 1, sizeof(*sums));
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	char subject[BB_SUBJECT_TEXT];

	nodes->failed |= !sums;
	while (sums && (r = bb_evidence_next(e, &at))) {
		if (!bb_where_selects(j->gate->where, r) ||
		    strcmp(bb_record_subject(subject, r, true), j->subject) != 0)
			continue;
		if (strcmp(r->kind, "pair") == 0)
			pair_note(r, j, nodes);
		else if (group_field(j->gate->measure))
			groups_sum(r, j, nodes, sums);
	}
	for (size_t i = 0; sums && i < nodes->n; i++)
		if (sums[i].n > 0)
			value_note(nodes, i, j, sums[i].sum / (double)sums[i].n, false);
	/* The number of a step on one host is that host's. */
	if (alone)
		value_note(nodes, (size_t)(alone - nodes->list), j, j->value, false);
	free(sums);
}

void bb_node_values_find(const struct bb_evidence *e, const struct bb_judgements *judgements,
			 struct bb_nodes *nodes, struct bb_node *alone)
{
	for (size_t i = 0; i < judgements->n; i++) {
		const struct bb_judgement *const j = &judgements->list[i];

		if (j->step == e->step && j->gate && j->gate->kind == BB_GATE_VALUE &&
		    j->value > 0 && j->limit > 0)
			judgement_note(e, j, nodes, alone);
	}
}
