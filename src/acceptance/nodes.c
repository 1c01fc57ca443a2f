/*
 * nodes.c - judges hosts: stragglers by their arrival, others by the gates of their steps, as far
 * as records have their values: groups of a split world that are a host each, pairs of ranks, and
 * steps on one host.
 *
 * In a synchronous collective all ranks end together, so their times do not differ. The slow rank
 * is the one that enters last.
 */
#include "acceptance/nodes.h"

#include "core/array.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The logarithm of the factor by which VALUE is beyond the limit of J; below 0 within it. */
static double excess_of(const struct bb_judgement *j, double value)
{
	return -log(j->gate->measure->more_is_better ? value / j->limit : j->limit / value);
}

/* ---- groups that get smaller step by step ------------------------------------------------------
 *
 * Of each step the groups beyond a limit are known. The smallest such groups count: what fails in
 * larger groups alone is not the fault of a node. In pairs, each node has met both neighbours.
 */

/* Returns a group of a step, to blame or not, by the limit of JUDGEMENTS that its mean over the
   runs of the step comes nearest to or exceeds most. In virtual time the group with the fault alone
   is simulated, so that the others keep to their limit. */
static struct bb_culprit culprit_of(const struct bb_evidence *e, int64_t group,
				    const struct bb_judgements *judgements)
{
	const bool split = bb_step_is_split(e->step);
	const bool real = !e->simulated || !e->simulated->cluster;
	const bool faulty = !real && bb_plan_faulty_group(e->simulated, e->step) == group;
	struct bb_culprit c = {.evidence = e, .group = group, .node = -1, .excess = NAN};

	for (size_t i = 0; i < judgements->n; i++) {
		const struct bb_judgement *const j = &judgements->list[i];
		const struct bb_read_record *r;
		struct bb_tally all = {0};

		if (j->step != e->step || !j->gate || j->gate->kind != BB_GATE_VALUE ||
		    !(j->limit > 0) || (j->verdict > BB_WARNED && j->verdict != BB_FAILED) ||
		    !bb_metric_group_field(j->gate->measure))
			continue;
		for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));) {
			if (!bb_where_selects(&j->gate->where, r) || !bb_record_is(r, j->subject))
				continue;
			const double value =
				!split || faulty ? bb_record_metric(r->json, j->gate->measure)
				: real           ? bb_record_group(r->json, j->gate->measure, group)
						 : j->limit;
			bb_tally_count(&all, value > 0 ? value : NAN, 0);
		}
		const double excess = excess_of(j, all.all / all.of);
		if (isnan(excess) || excess <= c.excess)
			continue;
		c.measure = j->gate->measure;
		c.limit = j->limit;
		c.value = all.all / all.of;
		c.excess = excess;
	}
	return c;
}

static int64_t group_nodes(const struct bb_profile_step *step, int64_t group)
{
	return group < step->groups ? step->nodes : step->left;
}

/* Does one of the groups that a node was measured in keep to the limits? */
static bool is_cleared(const struct bb_tally *groups)
{
	return groups->slow < groups->of;
}

/* Adds the culprit of a group, with NODE alone or as a whole, once for each node. GROUPS: of each
   node, those of its width. */
static void culprit_add(struct bb_bisection *b, struct bb_culprit new, int64_t node,
			const struct bb_tally *groups)
{
	new.node = node;
	new.cleared = is_cleared(&groups[bb_step_node(new.evidence->step, new.group, 0)]);
	new.met_one = node >= 0 && groups[node].of == 1;
	for (size_t i = 0; i < b->n && node >= 0; i++)
		if (b->list[i].node == node)
			return;
	b->failed |= !BB_ARRAY_PUT(b->list, b->n, b->room, new);
}

/* The culprits among N groups of SPAN nodes, of which the narrowest are complete or show nothing:
   the node of each slow pair whose partner is cleared, then the groups that no such node explains.
 */
static void culprits_find(struct bb_bisection *b, const struct bb_culprit *all, size_t n,
			  int64_t span)
{
	struct bb_tally *const groups = calloc((size_t)span, sizeof(*groups));
	int64_t nodes = INT64_MAX;

	b->failed |= !groups;
	for (size_t i = 0; i < n; i++)
		if (all[i].excess > 0 && all[i].evidence->step->nodes < nodes)
			nodes = all[i].evidence->step->nodes;
	for (size_t i = 0; groups && i < 3 * n; i++) {
		const size_t pass = i / n;
		const struct bb_culprit *const at = &all[i % n];
		const struct bb_profile_step *const step = at->evidence->step;
		const int64_t one = bb_step_node(step, at->group, 0);
		const int64_t other = bb_step_node(step, at->group, 1);
		bool explained = false;

		if (step->nodes != nodes || (pass > 0 && !(at->excess > 0)))
			continue;
		for (int64_t k = 0; k < group_nodes(step, at->group); k++) {
			const int64_t node = bb_step_node(step, at->group, k);

			if (pass == 0)
				bb_tally_count(&groups[node], at->excess, 0);
			for (size_t c = 0; c < b->n; c++)
				explained |= b->list[c].node == node;
		}
		if (pass == 1 && nodes == 2 && at->group < step->groups &&
		    is_cleared(&groups[one]) != is_cleared(&groups[other]))
			culprit_add(b, *at, is_cleared(&groups[one]) ? other : one, groups);
		if (pass == 2 && !explained)
			culprit_add(b, *at, -1, groups);
	}
	free(groups);
}

struct bb_bisection bb_bisect(const struct bb_evidence *evidence, size_t n,
			      const struct bb_profile_step *step,
			      const struct bb_judgements *judgements)
{
	struct bb_bisection b = {.n = 0};
	size_t most = 1, found = 0;

	for (size_t i = 0; i < n; i++)
		most += bb_step_declared(evidence[i].step) == step
				? (size_t)bb_step_groups(evidence[i].step)
				: 0;
	/* Groups of all steps of the family. */
	struct bb_culprit *const all = calloc(most, sizeof(*all));
	b.failed = !all;
	for (size_t i = 0; all && i < n; i++) {
		const struct bb_evidence *const e = &evidence[i];

		if (bb_step_declared(e->step) != step || e->unneeded)
			continue;
		b.last = false;
		for (int64_t g = 0; g < bb_step_groups(e->step); g++) {
			all[found] = culprit_of(e, g, judgements);
			b.last |= all[found++].excess > 0;
		}
		b.any |= b.last;
		b.ran |= e->step->narrows != NULL;
	}
	if (found > 0)
		culprits_find(&b, all, found, bb_step_nodes(step));
	free(all);
	return b;
}

/* ---- words --------------------------------------------------------------------------------- */

/* Appends the name of NODE: its host, or "node 5" where no host is known. */
static void culprit_add_node(const struct bb_evidence *e, int64_t node, struct bb_strbuf *out)
{
	const json_t *const run = bb_records_first(&e->runs[0].records, "run");
	const int64_t rank = node * (e->step->ranks / e->step->nodes);
	const json_t *const ranks =
		bb_record_bool(run, "virtual_time") ? NULL : json_object_get(run, "ranks");
	const char *const host = bb_record_string(json_array_get(ranks, (size_t)rank), "host");

	if (host)
		bb_strbuf_add(out, host);
	else
		bb_strbuf_addf(out, "node %lld", (long long)node);
}

void bb_culprit_add_text(const struct bb_culprit *c, struct bb_strbuf *out)
{
	const struct bb_profile_step *const step = c->evidence->step;
	const int64_t first = bb_step_node(step, c->group, 0), n = group_nodes(step, c->group);
	const int64_t last = bb_step_node(step, c->group, n - 1);
	struct bb_strbuf partner = {0};

	bb_strbuf_add(out, c->node < 0 && n > 2 ? "no single node or pair of " : "");
	culprit_add_node(c->evidence, c->node >= 0 ? c->node : first, out);
	culprit_add_node(c->evidence, first == c->node ? last : first, &partner);
	if (c->node < 0 && n > 1) {
		bb_strbuf_add(out, n > 2 ? " to " : " and ");
		culprit_add_node(c->evidence, last, out);
	}
	if (c->met_one)
		bb_strbuf_addf(out, " or its path to %s", bb_strbuf_text(&partner));
	bb_strbuf_addf(out, ": %s %.4g %s", c->measure->name, c->value, c->measure->unit);
	if (c->node >= 0 && !c->met_one)
		bb_strbuf_addf(out, " with %s", bb_strbuf_text(&partner));
	bb_strbuf_addf(out, ", limit %.4g", c->limit);
	if (c->node >= 0)
		bb_strbuf_addf(out, "; %s keeps to it with another node", bb_strbuf_text(&partner));
	else if (n > 2)
		bb_strbuf_add(out, "; no smaller group of them is beyond it");
	else if (n == 2)
		bb_strbuf_add(out, c->cleared ? "; each keeps to it with another node"
					      : "; neither has met a node that keeps to it");
	bb_strbuf_free(&partner);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* A straggler is last in at least LAST_SHARE of OPERATIONS or more, and is late by LATE_SHARE of
   their time and by LATE_US, more than a time slice of a scheduler. */
#define CULPRIT "culprit" /* the check whose verdict is that of narrower groups */
#define OPERATIONS 8
#define LAST_SHARE 0.75
#define LATE_SHARE 0.2
#define LATE_US 20.0

const char *const bb_node_verdict_names[] = {"OK", "SUSPECT", "UNKNOWN", "BAD"};

void bb_nodes_free(struct bb_nodes *nodes)
{
	for (size_t i = 0; i < nodes->n; i++) {
		free(nodes->list[i].reason);
		free(nodes->list[i].values);
	}
	free(nodes->list);
	*nodes = (struct bb_nodes){.n = 0};
}

struct bb_node *bb_nodes_find(const struct bb_nodes *nodes, const char *host)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (strcmp(nodes->list[i].host, host) == 0)
			return &nodes->list[i];
	return NULL;
}

/* Returns the node of HOST, added if new; NULL without memory: then NODES have failed. */
static struct bb_node *node_of(struct bb_nodes *nodes, const char *host)
{
	struct bb_node *node = bb_nodes_find(nodes, host);

	if (node)
		return node;
	node = BB_ARRAY_ADD(nodes->list, nodes->n, nodes->room);
	if (node)
		*node = (struct bb_node){.host = host,
					 .verdict = BB_NODE_OK,
					 .code = "BB-OK",
					 .reason = strdup("nothing stands out")};
	nodes->failed |= !node || !node->reason;
	return node;
}

size_t bb_nodes_suspected(const struct bb_nodes *nodes)
{
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++)
		n += nodes->list[i].verdict == BB_NODE_SUSPECT;
	return n;
}

static void host_blame(struct bb_nodes *nodes, const char *host, enum bb_node_verdict verdict,
		       const char *code, const char *reason)
{
	struct bb_node *const node = node_of(nodes, host);

	if (!node || verdict <= node->verdict)
		return;
	node->verdict = verdict;
	snprintf(node->code, sizeof(node->code), "%s", code);
	free(node->reason);
	node->reason = strdup(reason);
	nodes->failed |= !node->reason;
}

/* Marks the hosts that took part in E as present; returns how many. */
static size_t hosts_mark(const struct bb_evidence *e, struct bb_nodes *nodes)
{
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++)
		nodes->list[i].present = false;
	for (size_t i = 0; i < e->nruns; i++) {
		const json_t *const run = bb_records_first(&e->runs[i].records, "run");
		/* In virtual time no host is at work. */
		const json_t *const ranks =
			bb_record_bool(run, "virtual_time") ? NULL : json_object_get(run, "ranks");
		size_t r;
		json_t *rank;

		json_array_foreach(ranks, r, rank)
		{
			const char *const host = bb_record_string(rank, "host");
			struct bb_node *const node = host ? node_of(nodes, host) : NULL;

			if (!node || node->present)
				continue;
			node->present = true;
			n++;
		}
	}
	return n;
}

/* ---- stragglers ---------------------------------------------------------------------------- */

static bool has_arrival(const struct bb_read_record *r)
{
	return strcmp(r->kind, "result") == 0 && bb_record_int(r->json, "last_rank") >= 0;
}

/* The rank that came last in R and cost much of its time; -1: none. */
static int64_t accused_by(const struct bb_read_record *r, double *us, double *time)
{
	const double uncertain = bb_record_number(r->json, "clock_uncertainty_us");

	*us = bb_record_number(r->json, "last_late_us");
	*time = bb_record_number(r->json, "p50_us");
	if (!(*time > 0))
		*time = bb_record_number(r->json, "time_us");
	return has_arrival(r) && bb_record_int(r->json, "iterations") >= OPERATIONS &&
			       bb_record_number(r->json, "last_share") >= LAST_SHARE &&
			       *us >= LATE_SHARE * *time && *us >= LATE_US &&
			       (isnan(uncertain) || *us > 4 * uncertain)
		       ? bb_record_int(r->json, "last_rank")
		       : -1;
}

/* Returns the host whose rank most results of E accuse, and writes the REASON; NULL: there is no
   such rank, or its host is unknown. */
static const char *straggler_find(const struct bb_evidence *e, struct bb_strbuf *reason)
{
	const json_t *const run = bb_records_first(&e->runs[0].records, "run");
	const struct bb_read_record *r;
	double us, time, all_us = 0, all_time = 0;
	char us_text[BB_UNIT_TEXT], time_text[BB_UNIT_TEXT];
	int64_t found = -1;
	size_t votes = 0, accused = 0, results = 0, i;
	json_t *rank;

	/* Boyer and Moore's majority vote. */
	for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));) {
		const int64_t one = accused_by(r, &us, &time);

		results += has_arrival(r);
		if (one < 0)
			continue;
		found = votes == 0 ? one : found;
		votes += one == found ? 1 : (size_t)-1;
	}
	for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));) {
		if (found < 0 || accused_by(r, &us, &time) != found)
			continue;
		accused++;
		all_us += us;
		all_time += time;
	}
	if (2 * accused <= results)
		return NULL;
	json_array_foreach(json_object_get(run, "ranks"), i, rank)
	{
		if (bb_record_int(rank, "rank") != found)
			continue;
		bb_strbuf_addf(reason,
			       "%s: rank %lld (device %lld) enters last in %zu of %zu results, %s "
			       "late; the operation takes %s",
			       e->step->name, (long long)found,
			       (long long)bb_record_int(rank, "device"), accused, results,
			       bb_format_duration(us_text, all_us / (double)accused / 1e6),
			       bb_format_duration(time_text, all_time / (double)accused / 1e6));
		return bb_record_string(rank, "host");
	}
	return NULL;
}

/* ---- diagnose -------------------------------------------------------------------------------- */

/* Takes over the verdicts of a step of diagnose; returns false if it has none. */
static bool diagnosis_adopt(const struct bb_evidence *e, struct bb_nodes *nodes)
{
	const struct bb_read_record *r;
	bool any = false;

	for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));) {
		const char *const host = bb_record_string(r->json, "host");
		const char *const peer = bb_record_string(r->json, "peer_host");
		const char *const word = bb_record_string(r->json, "verdict");
		const char *const code = bb_record_string(r->json, "code");
		const char *const text = bb_record_string(r->json, "text");
		const char *const reason = bb_record_string(r->json, "reason");
		const bool is_node = strcmp(r->kind, "node") == 0 && word;
		int verdict = BB_NODE_OK;

		any = any || (is_node && host);
		/* In virtual time no host is at work. */
		if (!host || bb_record_bool(r->run, "virtual_time"))
			continue;
		if (strcmp(r->kind, "culprit") == 0 && peer && code && text) {
			/* The host of a link within it is to blame; of one between two, both are
			   suspects. */
			verdict = strcmp(host, peer) == 0 ? BB_NODE_BAD : BB_NODE_SUSPECT;
			host_blame(nodes, host, verdict, code, text);
			host_blame(nodes, peer, verdict, code, text);
		} else if (is_node) {
			while (verdict < BB_NODE_BAD &&
			       strcmp(word, bb_node_verdict_names[verdict]) != 0)
				verdict++;
			host_blame(nodes, host, verdict, code ?: "BB-DIAGNOSE", reason ?: word);
		}
	}
	return any;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What was measured: a node alone, with another one, or in a group of several. */
enum sharing { OF_NODE, OF_PAIR, OF_GROUP };

/* Notes VALUE of NODE under the gate of J. Of its own values the worst counts; of those shared
   with other nodes the best, because a bad partner is no evidence against it. */
static void value_note(struct bb_nodes *nodes, struct bb_node *node, const struct bb_judgement *j,
		       double value, enum sharing sharing)
{
	const double excess = excess_of(j, value);
	const bool shared = sharing != OF_NODE;
	const struct bb_node_value new = {j, value, excess, shared, sharing == OF_GROUP};

	for (size_t i = 0; i < node->nvalues; i++) {
		struct bb_node_value *const v = &node->values[i];

		if (v->judgement->gate != j->gate || v->shared != shared)
			continue;
		if (shared ? excess < v->excess : excess > v->excess)
			*v = new;
		return;
	}
	nodes->failed |= !BB_ARRAY_PUT(node->values, node->nvalues, node->room, new);
}

/* Adds the value of each group to the tallies of its hosts, once for each of their ranks. */
static void groups_count(const struct bb_read_record *r, const struct bb_judgement *j,
			 struct bb_nodes *nodes)
{
	const json_t *const groups = json_object_get(r->json, "groups");
	const json_t *const values =
		json_object_get(r->json, bb_metric_group_field(j->gate->measure));
	const json_t *const ranks = json_object_get(r->run, "ranks");
	const size_t n = json_array_size(groups);
	struct {
		const char *host;
		bool several; /* hosts have its ranks */
	} *const of = calloc(n + 1, sizeof(*of));
	size_t i;
	json_t *rank;

	nodes->failed |= !of;
	for (int pass = 0; of && json_array_size(values) == n && pass < 2; pass++)
		json_array_foreach(ranks, i, rank)
		{
			const char *const host = bb_record_string(rank, "host");
			const int g = bb_group_position(groups, bb_record_int(rank, "group"));
			const json_t *const value = json_array_get(values, (size_t)g);
			struct bb_node *const node =
				host && pass == 1 ? bb_nodes_find(nodes, host) : NULL;

			if (pass == 0 && g >= 0 && host) {
				of[g].several |= of[g].host && strcmp(of[g].host, host) != 0;
				of[g].host = host;
			}
			/* A node for which the step had no partner is left alone. */
			if (!node || !(json_number_value(value) > 0) ||
			    (bb_step_is_split(j->step) &&
			     json_integer_value(json_array_get(groups, (size_t)g)) >=
				     bb_step_groups(j->step)))
				continue;
			bb_tally_count(&node->groups[of[g].several], json_number_value(value), 0);
		}
	free(of);
}

/* Notes the values under the gate of J of the N hosts of E, which are marked, and of others in its
   records. */
static void judgement_note(const struct bb_evidence *e, const struct bb_judgement *j,
			   struct bb_nodes *nodes, size_t n)
{
	const struct bb_read_record *r;

	for (struct bb_evidence_cursor at = {0}; (r = bb_evidence_next(e, &at));) {
		/* A pair within a host is its own number, one between two hosts they share. */
		const char *const ends[] = {bb_record_string(r->json, "from_host"),
					    bb_record_string(r->json, "to_host")};
		const bool shared = ends[0] && ends[1] && strcmp(ends[0], ends[1]) != 0;
		const bool pair = strcmp(r->kind, "pair") == 0;

		if (!bb_where_selects(&j->gate->where, r) || !bb_record_is(r, j->subject))
			continue;
		if (!pair && bb_metric_group_field(j->gate->measure))
			groups_count(r, j, nodes);
		for (int i = 0; pair && i < 1 + shared; i++) {
			struct bb_node *const node = ends[i] ? bb_nodes_find(nodes, ends[i]) : NULL;

			if (node)
				value_note(nodes, node, j, j->value, shared ? OF_PAIR : OF_NODE);
		}
	}
	for (size_t i = 0; i < nodes->n; i++) {
		struct bb_node *const node = &nodes->list[i];

		for (int k = 0; k < 2; k++) {
			const struct bb_tally *const groups = &node->groups[k];

			if (groups->of > 0)
				value_note(nodes, node, j, groups->all / groups->of,
					   k ? OF_GROUP : OF_NODE);
			node->groups[k] = (struct bb_tally){0};
		}
		/* The number of a step on one host is that host's. */
		if (n == 1 && node->present)
			value_note(nodes, node, j, j->value, OF_NODE);
	}
}

/* Does V, among N hosts, say something about its host? The best value that it shares with other
   hosts does if less than half of the hosts are beyond the limit; that of its group does if any
   group is within it. */
static bool is_telling(const struct bb_nodes *nodes, const struct bb_node_value *v, size_t n)
{
	struct bb_tally hosts = {0};

	for (size_t i = 0; i < nodes->n; i++)
		for (size_t k = 0; k < nodes->list[i].nvalues; k++) {
			const struct bb_node_value *const other = &nodes->list[i].values[k];

			if (other->judgement->gate == v->judgement->gate &&
			    other->shared == v->shared)
				bb_tally_count(&hosts, other->excess, 0);
		}
	return !v->shared || (size_t)hosts.slow * (v->grouped ? 1 : 2) < n;
}

/* Blames those of E's N hosts that have a telling value beyond a limit; hosts of a slow group are
   suspects. Returns true if any host is blamed. */
static bool values_blame(const struct bb_evidence *e, size_t n, struct bb_nodes *nodes)
{
	struct bb_strbuf reason = {0};
	bool blamed = false;

	for (size_t i = 0; i < nodes->n; i++)
		for (size_t k = 0; nodes->list[i].present && k < nodes->list[i].nvalues; k++) {
			const struct bb_node_value *const v = &nodes->list[i].values[k];
			const struct bb_judgement *const j = v->judgement;

			if (bb_step_declared(j->step) != bb_step_declared(e->step) ||
			    !(v->excess > 0) || j->verdict == BB_UNJUDGED ||
			    !is_telling(nodes, v, n))
				continue;
			bb_strbuf_clear(&reason);
			bb_strbuf_addf(&reason, "%s: %s %s %.4g %s, limit %.4g: %s", e->step->name,
				       j->gate->measure->name, v->grouped ? "of its group" : "here",
				       v->value, j->gate->measure->unit, j->limit, j->subject);
			host_blame(nodes, nodes->list[i].host,
				   j->verdict == BB_FAILED && !v->grouped ? BB_NODE_BAD
									  : BB_NODE_SUSPECT,
				   "BB-BELOW-GATE", bb_strbuf_text(&reason));
			blamed = true;
		}
	nodes->failed |= bb_strbuf_failed(&reason);
	bb_strbuf_free(&reason);
	return blamed;
}

/* Is each culprit that narrower groups found a single node? */
static bool names_nodes(const struct bb_bisection *b)
{
	bool named = b->ran && b->n > 0;

	for (size_t i = 0; i < b->n; i++)
		named &= b->list[i].node >= 0;
	return named;
}

/* The N hosts of E, which are marked. CONVICTED: narrower groups tell which of them are slow. */
static void hosts_judge(const struct bb_evidence *e, const struct bb_judgements *judgements,
			size_t n, bool convicted, struct bb_nodes *nodes)
{
	struct bb_strbuf reason = {0};
	const struct bb_judgement *worst = NULL;
	const char *host = NULL;

	if (diagnosis_adopt(e, nodes))
		return;
	for (size_t i = 0; i < judgements->n; i++)
		if (judgements->list[i].step == e->step &&
		    strcmp(judgements->list[i].metric, CULPRIT) != 0 &&
		    (!worst || judgements->list[i].verdict > worst->verdict))
			worst = &judgements->list[i];
	const bool failed = worst && worst->verdict == BB_FAILED;
	const bool wrong = failed && !worst->gate;
	if (n > 0 && !wrong)
		host = straggler_find(e, &reason);
	if (host) {
		host_blame(nodes, host, failed ? BB_NODE_BAD : BB_NODE_SUSPECT, "BB-STRAGGLER",
			   bb_strbuf_text(&reason));
		goto out;
	}
	if (n > 1 && !wrong && values_blame(e, n, nodes) && failed)
		goto out;
	if (!worst || worst->verdict <= BB_SKIPPED || (failed && !wrong && convicted))
		goto out;
	bb_strbuf_addf(&reason, "%s: %s: %s%s", e->step->name, worst->subject, worst->reason,
		       failed && n > 1 ? "; no rank stands out, run build/diagnose" : "");
	for (size_t i = 0; i < nodes->n; i++)
		if (nodes->list[i].present)
			host_blame(nodes, nodes->list[i].host,
				   failed && n == 1 ? BB_NODE_BAD : BB_NODE_UNKNOWN,
				   !failed ? "BB-NOT-JUDGED"
				   : wrong ? "BB-WRONG-DATA"
					   : "BB-BELOW-GATE",
				   bb_strbuf_text(&reason));
out:
	nodes->failed |= bb_strbuf_failed(&reason);
	bb_strbuf_free(&reason);
}

bb_status bb_nodes_judge(const struct bb_evidence *evidence, size_t n,
			 struct bb_judgements *judgements, struct bb_nodes *nodes,
			 struct bb_error *error)
{
	struct bb_bisection *const found = calloc(n + 1, sizeof(*found));

	*nodes = (struct bb_nodes){.failed = !found};
	for (size_t i = 0; found && i < n; i++)
		if (!evidence[i].step->narrows)
			found[i] = bb_bisect(evidence, n, evidence[i].step, judgements);
	/* Those that were found by narrower groups. */
	for (size_t i = 0; found && i < n; i++) {
		const struct bb_bisection *const b = &found[i];
		struct bb_judgement j = bb_judgement_of(&evidence[i], NULL, CULPRIT);
		struct bb_strbuf text = {0};

		for (size_t k = 0; k < b->n; k++) {
			bb_strbuf_add(&text, k > 0 ? "; " : "");
			bb_culprit_add_text(&b->list[k], &text);
		}
		if (b->ran && b->n > 0) {
			bb_judgement_decide(&j, BB_FAILED, "%s", bb_strbuf_text(&text));
			bb_judgements_add(judgements, &j);
		}
		judgements->failed |= b->failed || bb_strbuf_failed(&text);
		bb_strbuf_free(&text);
	}
	/* A host has its best value of all groups in which it was, so all values come first. */
	for (size_t i = 0; i < n; i++) {
		const size_t hosts = hosts_mark(&evidence[i], nodes);

		for (size_t k = 0; k < judgements->n; k++) {
			const struct bb_judgement *const j = &judgements->list[k];

			if (j->step == evidence[i].step && j->gate &&
			    j->gate->kind == BB_GATE_VALUE && j->value > 0 && j->limit > 0)
				judgement_note(&evidence[i], j, nodes, hosts);
		}
	}
	for (size_t i = 0; found && i < n; i++) {
		bool convicted = false;

		for (size_t k = 0; k < n; k++)
			if (evidence[k].step == bb_step_declared(evidence[i].step))
				convicted = names_nodes(&found[k]);
		hosts_judge(&evidence[i], judgements, hosts_mark(&evidence[i], nodes), convicted,
			    nodes);
		for (size_t k = 0; found[i].ran && k < found[i].n; k++) {
			const struct bb_culprit *const c = &found[i].list[k];
			struct bb_strbuf host = {0}, reason = {0};

			culprit_add_node(c->evidence, c->node, &host);
			bb_strbuf_addf(&reason, "%s: ", c->evidence->step->name);
			bb_culprit_add_text(c, &reason);
			if (c->node >= 0 && bb_nodes_find(nodes, bb_strbuf_text(&host)))
				host_blame(nodes, bb_strbuf_text(&host),
					   c->met_one ? BB_NODE_SUSPECT : BB_NODE_BAD,
					   "BB-BELOW-GATE", bb_strbuf_text(&reason));
			bb_strbuf_free(&host);
			bb_strbuf_free(&reason);
		}
	}
	for (size_t i = 0; found && i < n; i++)
		free(found[i].list);
	free(found);
	return nodes->failed || judgements->failed ? bb_no_memory(error, "nodes") : BB_OK;
}
