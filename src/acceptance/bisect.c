/*
 * bisect.c - finds nodes to blame in groups of all nodes that get smaller step by step.
 *
 * Of each step the groups beyond a limit are known. The smallest such groups count: what fails in
 * larger groups alone is not the fault of a node. In pairs, each node has met both neighbours.
 */
#include "acceptance/bisect.h"

#include "core/array.h"
#include "core/strbuf.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A group of a step: how far it is from the limit that it comes nearest to or exceeds most. */
struct group {
	double margin, value; /* margin below 1: beyond; NAN: not measured */
	const struct bb_judgement *judgement;
};

/* A step of the family with its groups. */
struct level {
	const struct bb_evidence *e;
	struct group *groups; /* bb_step_groups */
};

/* ---- what each group reached --------------------------------------------------------------- */

/* Compares the mean of a group over the runs of E with the limit of J. In virtual time the group
   with the fault alone is simulated, so that the others keep to their limit. */
static void group_note(struct level *level, const struct bb_judgement *j, int64_t group)
{
	const struct bb_evidence *const e = level->e;
	const bool split = bb_step_is_split(e->step);
	const bool real = !e->simulated || !e->simulated->cluster;
	const bool faulty = !real && bb_plan_has_fault(e->simulated, e->step) &&
			    bb_plan_faulty_group(e->simulated, e->step) == group;
	struct group *const g = &level->groups[group];
	struct bb_evidence_cursor at = {0};
	const struct bb_read_record *r;
	double sum = 0, value;
	size_t n = 0;

	while ((r = bb_evidence_next(e, &at))) {
		if (!bb_where_selects(j->gate->where, r) || !bb_record_is(r, j->subject))
			continue;
		value = !split || faulty ? bb_record_metric(r->json, j->gate->measure)
			: real           ? bb_record_group(r->json, j->gate->measure, group)
					 : j->limit;
		sum += value > 0 ? value : 0;
		n += value > 0;
	}
	if (n > 0 && bb_judgement_margin(j, sum / (double)n) < g->margin)
		*g = (struct group){bb_judgement_margin(j, sum / (double)n), sum / (double)n, j};
}

static bool any_beyond(const struct level *level)
{
	const int64_t n = bb_step_groups(level->e->step);
	bool any = false;

	for (int64_t g = 0; g < n; g++)
		any |= level->groups[g].margin < 1;
	return any;
}

static int64_t group_nodes(const struct bb_profile_step *step, int64_t group)
{
	return group < step->groups ? step->nodes : step->left;
}

/* ---- culprits ------------------------------------------------------------------------------ */

/* A node in the groups of one number of nodes. */
struct seen {
	int groups;   /* that it was measured in */
	bool cleared; /* one of them keeps to the limits */
};

/* Adds the culprit of a group, with NODE alone or as a whole, once for each node. */
static void culprit_add(struct bb_bisection *b, const struct level *level, int64_t group,
			int64_t node, const struct seen *seen)
{
	struct bb_culprit *new;

	for (size_t i = 0; i < b->n && node >= 0; i++)
		if (b->list[i].node == node)
			return;
	new = BB_ARRAY_ADD(b->list, b->n, b->room);
	b->failed |= !new;
	if (new)
		*new = (struct bb_culprit){level->e,
					   group,
					   node,
					   level->groups[group].judgement,
					   level->groups[group].value,
					   seen[bb_step_node(level->e->step, group, 0)].cleared,
					   node >= 0 && seen[node].groups == 1};
}

/* The culprits of N levels, of which the last is complete or shows nothing: the node of each slow
   pair whose partner is cleared, then the groups that no such node explains. */
static void levels_judge(struct bb_bisection *b, const struct level *levels, size_t n)
{
	struct seen *const seen = calloc((size_t)bb_step_nodes(levels[0].e->step), sizeof(*seen));
	int64_t nodes = INT64_MAX;

	b->failed |= !seen;
	for (size_t i = 0; i < n; i++)
		if (any_beyond(&levels[i]) && levels[i].e->step->nodes < nodes)
			nodes = levels[i].e->step->nodes;
	for (int pass = 0; seen && pass < 3; pass++)
		for (size_t i = 0; i < n; i++) {
			const struct bb_profile_step *const step = levels[i].e->step;

			for (int64_t g = 0; step->nodes == nodes && g < bb_step_groups(step); g++) {
				const double margin = levels[i].groups[g].margin;
				const int64_t one = bb_step_node(step, g, 0);
				const int64_t other = bb_step_node(step, g, 1);
				bool explained = false;

				for (int64_t k = 0; k < group_nodes(step, g); k++) {
					const int64_t at = bb_step_node(step, g, k);
					struct seen *const node = &seen[at];

					node->groups += pass == 0 && isfinite(margin);
					node->cleared |=
						pass == 0 && isfinite(margin) && margin >= 1;
					for (size_t c = 0; c < b->n; c++)
						explained |= b->list[c].node == at;
				}
				if (pass == 1 && nodes == 2 && g < step->groups && margin < 1 &&
				    seen[one].cleared != seen[other].cleared)
					culprit_add(b, &levels[i], g,
						    seen[one].cleared ? other : one, seen);
				if (pass == 2 && margin < 1 && !explained)
					culprit_add(b, &levels[i], g, -1, seen);
			}
		}
	free(seen);
}

struct bb_bisection bb_bisect(const struct bb_evidence *evidence, size_t n,
			      const struct bb_profile_step *step,
			      const struct bb_judgements *judgements)
{
	struct level *const levels = calloc(n + 1, sizeof(*levels));
	struct bb_bisection b = {.failed = !levels};
	struct level *level;
	int64_t groups;
	size_t found = 0;

	for (size_t i = 0; !b.failed && i < n; i++) {
		const struct bb_evidence *const e = &evidence[i];

		if (bb_step_declared(e->step) != step || e->unneeded)
			continue;
		groups = bb_step_groups(e->step);
		level = &levels[found++];
		level->e = e;
		level->groups = calloc((size_t)groups, sizeof(*level->groups));
		b.failed = !level->groups;
		for (int64_t g = 0; !b.failed && g < groups; g++)
			level->groups[g].margin = INFINITY;
		for (size_t k = 0; !b.failed && k < judgements->n; k++) {
			const struct bb_judgement *const j = &judgements->list[k];

			if (j->step == e->step && j->gate && j->gate->kind == BB_GATE_VALUE &&
			    j->limit > 0 && (j->verdict <= BB_WARNED || j->verdict == BB_FAILED) &&
			    bb_metric_group_field(j->gate->measure))
				for (int64_t g = 0; g < groups; g++)
					group_note(level, j, g);
		}
		b.ran |= e->step->narrows != NULL;
	}
	if (!b.failed && found > 0) {
		for (size_t i = 0; i < found; i++) {
			b.last = any_beyond(&levels[i]);
			b.any |= b.last;
		}
		levels_judge(&b, levels, found);
	}
	for (size_t i = 0; i < found; i++)
		free(levels[i].groups);
	free(levels);
	return b;
}

/* ---- words --------------------------------------------------------------------------------- */

void bb_culprit_add_node(const struct bb_evidence *e, int64_t node, struct bb_strbuf *out)
{
	const struct bb_read_record *const run = bb_records_first(&e->runs[0].records, "run");
	const int64_t rank = node * (e->step->ranks / e->step->nodes);
	const json_t *const ranks = run && !bb_record_bool(run->json, "virtual_time")
					    ? json_object_get(run->json, "ranks")
					    : NULL;
	const char *const host = bb_record_string(json_array_get(ranks, (size_t)rank), "host");

	if (host)
		bb_strbuf_add(out, host);
	else
		bb_strbuf_addf(out, "node %lld", (long long)node);
}

void bb_culprit_add_text(const struct bb_culprit *c, struct bb_strbuf *out)
{
	const struct bb_profile_step *const step = c->evidence->step;
	const struct bb_judgement *const j = c->judgement;
	const int64_t first = bb_step_node(step, c->group, 0), n = group_nodes(step, c->group);
	const int64_t last = bb_step_node(step, c->group, n - 1);
	struct bb_strbuf partner = {0};

	bb_strbuf_add(out, c->node < 0 && n > 2 ? "no single node or pair of " : "");
	bb_culprit_add_node(c->evidence, c->node >= 0 ? c->node : first, out);
	bb_culprit_add_node(c->evidence, first == c->node ? last : first, &partner);
	if (c->node < 0 && n > 1) {
		bb_strbuf_add(out, n > 2 ? " to " : " and ");
		bb_culprit_add_node(c->evidence, last, out);
	}
	if (c->met_one)
		bb_strbuf_addf(out, " or its path to %s", bb_strbuf_text(&partner));
	bb_strbuf_addf(out, ": %s %.4g %s", j->gate->measure->name, c->value,
		       j->gate->measure->unit);
	if (c->node >= 0 && !c->met_one)
		bb_strbuf_addf(out, " with %s", bb_strbuf_text(&partner));
	bb_strbuf_addf(out, ", limit %.4g", j->limit);
	if (c->node >= 0)
		bb_strbuf_addf(out, "; %s keeps to it with another node", bb_strbuf_text(&partner));
	else if (n > 2)
		bb_strbuf_add(out, "; no smaller group of them is beyond it");
	else if (n == 2)
		bb_strbuf_add(out, c->cleared ? "; each keeps to it with another node"
					      : "; neither has met a node that keeps to it");
	bb_strbuf_free(&partner);
}

bb_status bb_bisections_judge(const struct bb_evidence *evidence, size_t n,
			      struct bb_judgements *judgements, struct bb_error *error)
{
	const struct bb_judgements measured = *judgements;
	bool failed = false;

	for (size_t i = 0; i < n && !failed; i++) {
		struct bb_judgement j = bb_judgement_of(&evidence[i], NULL, "culprit");
		struct bb_bisection b = {.n = 0};
		struct bb_strbuf text = {0};

		if (!evidence[i].step->narrows)
			b = bb_bisect(evidence, n, evidence[i].step, &measured);
		for (size_t k = 0; k < b.n; k++) {
			bb_strbuf_add(&text, k > 0 ? "; " : "");
			bb_culprit_add_text(&b.list[k], &text);
		}
		j.own = "culprit";
		if (b.ran && b.n > 0) {
			bb_judgement_decide(&j, BB_FAILED, "%s", bb_strbuf_text(&text));
			bb_judgements_add(judgements, &j);
		}
		failed = b.failed || bb_strbuf_failed(&text) || judgements->failed;
		free(b.list);
		bb_strbuf_free(&text);
	}
	return failed ? bb_no_memory(error, "culprits") : BB_OK;
}
