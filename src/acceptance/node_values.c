/*
 * node_values.c - what the numbers of gates are on each host, as far as records tell one from the
 * other: groups of a split world that are a host each, pairs of ranks, and steps on one host.
 */
#include "acceptance/nodes.h"
#include "core/array.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far VALUE keeps to the limit of J; below 1 it does not. */
static double margin(const struct bb_judgement *j, double value)
{
	return j->gate->measure->more_is_better ? value / j->limit : j->limit / value;
}

/* Put down VALUE of NODE under the gate of J. Of what is its own the worst counts; of what it
   shares with others the best, since that of a bad partner says nothing against it. */
static bool offer(struct bb_node *node, const struct bb_judgement *j, double value, bool shared)
{
	const double m = margin(j, value);
	const struct bb_node_value new = {j, value, j->limit, m, shared, m < 1};
	struct bb_node_value *added;

	for (size_t i = 0; i < node->nvalues; i++) {
		struct bb_node_value *const v = &node->values[i];

		if (v->judgement->gate != j->gate || v->shared != shared)
			continue;
		if (shared ? m > v->margin : m < v->margin)
			*v = new;
		return true;
	}
	added = BB_ARRAY_ADD(node->values, node->nvalues, node->room);
	if (added)
		*added = new;
	return added;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* What a metric is called of groups; NULL: they have none. */
static const char *of_groups(const struct bb_metric *metric)
{
	if (!metric->best && strcmp(metric->name, "busbw") == 0)
		return "group_busbw_GBps";
	return strcmp(metric->name, "time") == 0 ? "group_time_us" : NULL;
}

/* Where GROUP stands in GROUPS, -1: nowhere. */
static int position(const json_t *groups, int64_t group)
{
	size_t i;
	json_t *g;

	/* Most often groups are counted from 0. */
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

/* The host of each group into HOSTS; NULL: it has several. */
static void find_hosts(const struct bb_read_record *r, const json_t *groups, const char **hosts)
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

static bool add_groups(const struct bb_read_record *r, const struct bb_judgement *j,
		       struct bb_nodes *nodes, struct sum *sums)
{
	const json_t *const groups = json_object_get(r->json, "groups");
	const json_t *const values = json_object_get(r->json, of_groups(j->gate->measure));
	const size_t n = json_array_size(groups);
	const char **const hosts = calloc(n + 1, sizeof(*hosts));

	if (!hosts)
		return false;
	if (json_array_size(values) == n)
		find_hosts(r, groups, hosts);
	for (size_t g = 0; g < n; g++) {
		const double value = json_number_value(json_array_get(values, g));
		const struct bb_node *const node = hosts[g] ? bb_nodes_find(nodes, hosts[g]) : NULL;

		if (!node || !(value > 0))
			continue;
		sums[node - nodes->list].sum += value;
		sums[node - nodes->list].n++;
	}
	free(hosts);
	return true;
}

/* ---- one judgement --------------------------------------------------------------------------- */

/* What the two ends of a pair have: within a host its own, between two each has it in common. */
static bool add_pair(const struct bb_read_record *r, const struct bb_judgement *j,
		     struct bb_nodes *nodes)
{
	const char *const ends[] = {bb_record_string(r->json, "from_host"),
				    bb_record_string(r->json, "to_host")};
	const bool shared = ends[0] && ends[1] && strcmp(ends[0], ends[1]) != 0;
	bool good = true;

	for (int i = 0; i < 1 + shared; i++) {
		struct bb_node *const node = ends[i] ? bb_nodes_find(nodes, ends[i]) : NULL;

		if (node)
			good &= offer(node, j, j->value, shared);
	}
	return good;
}

/* All records that J speaks of. */
static bool add_records(const struct bb_evidence *e, const struct bb_judgement *j,
			struct bb_nodes *nodes, struct sum *sums)
{
	bool good = true;

	for (size_t run = 0; run < e->nruns; run++) {
		for (size_t i = 0; good && i < e->runs[run].records.n; i++) {
			const struct bb_read_record *const r = &e->runs[run].records.list[i];
			char subject[BB_SUBJECT_TEXT];

			if (!bb_where_selects(j->gate->where, r) ||
			    strcmp(bb_record_subject(subject, r, true), j->subject) != 0)
				continue;
			if (strcmp(r->kind, "pair") == 0)
				good = add_pair(r, j, nodes);
			else if (of_groups(j->gate->measure))
				good = add_groups(r, j, nodes, sums);
		}
	}
	return good;
}

static bool add_judgement(const struct bb_evidence *e, const struct bb_judgement *j,
			  struct bb_nodes *nodes, struct bb_node *alone)
{
	struct sum *const sums = calloc(nodes->n + 1, sizeof(*sums));
	bool good = sums && add_records(e, j, nodes, sums);

	for (size_t i = 0; good && i < nodes->n; i++)
		if (sums[i].n > 0)
			good = offer(&nodes->list[i], j, sums[i].sum / (double)sums[i].n, false);
	/* The number of a step on one host is that host's. */
	if (good && alone)
		good = offer(alone, j, j->value, false);
	free(sums);
	return good;
}

bool bb_node_values_find(const struct bb_evidence *e, const struct bb_judgements *judgements,
			 struct bb_nodes *nodes, struct bb_node *alone)
{
	bool good = true;

	for (size_t i = 0; good && i < judgements->n; i++) {
		const struct bb_judgement *const j = &judgements->list[i];

		if (j->step == e->step && j->gate && j->gate->kind == BB_GATE_VALUE &&
		    j->value > 0 && j->limit > 0)
			good = add_judgement(e, j, nodes, alone);
	}
	return good;
}
