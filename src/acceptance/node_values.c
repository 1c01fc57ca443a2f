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

/* What was measured: a node alone, with another one, or in a group of several. */
enum sharing { OF_NODE, OF_PAIR, OF_GROUP };

/* Notes VALUE of node AT under the gate of J. Of its own values the worst counts; of those shared
   with other nodes the best, because a bad partner is no evidence against it. */
static void value_note(struct bb_nodes *nodes, size_t at, const struct bb_judgement *j,
		       double value, enum sharing sharing)
{
	struct bb_node *const node = &nodes->list[at];
	const double m = bb_judgement_margin(j, value);
	const bool shared = sharing != OF_NODE;
	const struct bb_node_value new = {j,    value, j->limit, m, shared, sharing == OF_GROUP,
					  m < 1};
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

/* Sums over the results of one subject: of groups on one host, and of several hosts. */
struct group_sum {
	double sum[2];
	size_t n[2];
};

/* SEVERAL[group] = do its ranks have several hosts? */
static bool *groups_with_several_find(const struct bb_read_record *r, const json_t *groups)
{
	const size_t n = json_array_size(groups);
	const char **const hosts = calloc(n + 1, sizeof(*hosts));
	bool *const several = calloc(n + 1, sizeof(*several));
	size_t i;
	json_t *rank;

	json_array_foreach(hosts && several ? json_object_get(r->run, "ranks") : NULL, i, rank)
	{
		const char *const host = bb_record_string(rank, "host");
		const int g = bb_group_position(groups, bb_record_int(rank, "group"));

		if (g < 0 || !host)
			continue;
		several[g] |= hosts[g] && strcmp(hosts[g], host) != 0;
		hosts[g] = host;
	}
	free(hosts);
	return several;
}

/* True if group G of GROUPS is a node for which STEP had no partner. */
static bool is_left_alone(const struct bb_profile_step *step, const json_t *groups, int g)
{
	return bb_step_is_split(step) &&
	       json_integer_value(json_array_get(groups, (size_t)g)) >= bb_step_groups(step);
}

/* Adds the value of each group to SUMS of its hosts, once for each of their ranks. */
static void groups_sum(const struct bb_read_record *r, const struct bb_judgement *j,
		       struct bb_nodes *nodes, struct group_sum *sums)
{
	const json_t *const groups = json_object_get(r->json, "groups");
	const json_t *const values =
		json_object_get(r->json, bb_metric_group_field(j->gate->measure));
	const size_t n = json_array_size(groups);
	bool *const several = groups_with_several_find(r, groups);
	size_t i;
	json_t *rank;

	nodes->failed |= !several;
	json_array_foreach(
		several && json_array_size(values) == n ? json_object_get(r->run, "ranks") : NULL,
		i, rank)
	{
		const char *const host = bb_record_string(rank, "host");
		const int g = bb_group_position(groups, bb_record_int(rank, "group"));
		const double value =
			g < 0 ? 0 : json_number_value(json_array_get(values, (size_t)g));
		const struct bb_node *const node = host ? bb_nodes_find(nodes, host) : NULL;

		if (!node || !(value > 0) || is_left_alone(j->step, groups, g))
			continue;
		sums[node - nodes->list].sum[several[g]] += value;
		sums[node - nodes->list].n[several[g]]++;
	}
	free(several);
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
			value_note(nodes, (size_t)(node - nodes->list), j, j->value,
				   shared ? OF_PAIR : OF_NODE);
	}
}

static void judgement_note(const struct bb_evidence *e, const struct bb_judgement *j,
			   struct bb_nodes *nodes, struct bb_node *alone)
{
	struct group_sum *const sums = calloc(nodes->n + 1, sizeof(*sums));
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	char subject[BB_SUBJECT_TEXT];

	nodes->failed |= !sums;
	while (sums && (r = bb_evidence_next(e, &at))) {
		if (!bb_where_selects(j->gate->where, r) ||
		    strcmp(bb_record_subject(subject, r, BB_SUBJECT_ALL), j->subject) != 0)
			continue;
		if (strcmp(r->kind, "pair") == 0)
			pair_note(r, j, nodes);
		else if (bb_metric_group_field(j->gate->measure))
			groups_sum(r, j, nodes, sums);
	}
	for (size_t i = 0; sums && i < 2 * nodes->n; i++) {
		const struct group_sum *const s = &sums[i / 2];

		if (s->n[i % 2] > 0)
			value_note(nodes, i / 2, j, s->sum[i % 2] / (double)s->n[i % 2],
				   i % 2 ? OF_GROUP : OF_NODE);
	}
	/* The number of a step on one host is that host's. */
	if (alone)
		value_note(nodes, (size_t)(alone - nodes->list), j, j->value, OF_NODE);
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
