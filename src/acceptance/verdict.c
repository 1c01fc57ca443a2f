/*
 * verdict.c - the verdict as text.
 */
#include "acceptance/verdict.h"

#include "acceptance/plan.h"
#include "core/printable.h"
#include "core/units.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

const char *bb_acceptance_word(const struct bb_acceptance *a)
{
	return a->session->stopped_by         ? "interrupted"
	       : a->totals.status == BB_OK    ? "passed"
	       : a->totals.status == BB_EDATA ? "failed"
					      : "could not judge";
}

const char *bb_judgement_metric(const struct bb_judgement *j)
{
	if (!j->gate)
		return j->own;
	return j->gate->metric ? j->gate->metric : j->gate->shape;
}

/* Returns the first judgement of the gravest kind; a skip only if there is nothing else. */
static const struct bb_judgement *worst(const struct bb_acceptance *a)
{
	const int order[] = {[BB_SKIPPED] = 0,
			     [BB_PASSED] = 1,
			     [BB_WARNED] = a->strict ? 4 : 2,
			     [BB_UNJUDGED] = 3,
			     [BB_FAILED] = 5};
	const struct bb_judgement *w = NULL;

	for (size_t i = 0; i < a->judgements->n; i++) {
		const struct bb_judgement *const j = &a->judgements->list[i];

		if (!w || order[j->verdict] > order[w->verdict])
			w = j;
	}
	return w;
}

/* True if a gate was skipped; the step's own judgement is none. */
static bool left_out(const struct bb_judgements *judgements)
{
	for (size_t i = 0; i < judgements->n; i++)
		if (judgements->list[i].gate && judgements->list[i].verdict == BB_SKIPPED)
			return true;
	return false;
}

static void add_worst(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const struct bb_judgement *const w = worst(a);

	if (!w || w->verdict == BB_PASSED)
		bb_strbuf_addf(out, "Every gate %sholds%s%s.\n",
			       left_out(a->judgements) ? "that was not skipped " : "",
			       a->session->simulated.cluster ? "" : " and no result has wrong data",
			       a->strict && bb_nodes_suspected(a->nodes) > 0
				       ? "; --strict fails for a node that is suspect"
				       : "");
	else
		bb_printable_line(out, "%s in step %s, %s: %s.",
				  w->verdict == BB_FAILED ? "The first failure is"
				  : w->verdict == BB_WARNED && a->strict
					  ? "--strict fails for a warning; the first is"
					  : "The first thing to look at is",
				  w->step->name, w->subject, w->reason);
}

static void add_culprit(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const struct bb_node *w = NULL;
	size_t unknown = 0;

	for (size_t i = 0; i < a->nodes->n; i++) {
		const struct bb_node *const node = &a->nodes->list[i];

		unknown += node->verdict == BB_NODE_UNKNOWN;
		if (!w || node->verdict > w->verdict)
			w = node;
	}
	if (w && (w->verdict == BB_NODE_BAD || w->verdict == BB_NODE_SUSPECT))
		bb_printable_line(out, "Node %s stands out: %s.", w->host, w->reason);
	else if (unknown > 0)
		bb_strbuf_addf(out, "%zu of %zu node%s could not be judged%s.\n", unknown,
			       a->nodes->n, bb_plural(a->nodes->n),
			       unknown < a->nodes->n ? ", none of the others stands out" : "");
	else if (a->nodes->n == 0)
		bb_strbuf_add(out, "No node is known: no step has recorded one.\n");
	else
		bb_strbuf_addf(out, "No node of %zu stands out.\n", a->nodes->n);
}

static void add_simulated(const struct bb_acceptance_session *s, struct bb_strbuf *out)
{
	bb_printable_line(out, "Simulated on --cluster %s%s%s; no hardware was measured.",
			  s->simulated.cluster, s->simulated.fault ? " with --fault " : "",
			  s->simulated.fault ? s->simulated.fault : "");
}

void bb_acceptance_sentences(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const size_t *const of = a->totals.of;

	bb_strbuf_addf(
		out,
		"%zu of %zu check%s in %zu step%s passed, %zu with a warning; %zu failed, %zu "
		"could not be judged, %zu skipped.\n",
		of[BB_PASSED] + of[BB_WARNED], a->judgements->n, bb_plural(a->judgements->n),
		a->session->n, bb_plural(a->session->n), of[BB_WARNED], of[BB_FAILED],
		of[BB_UNJUDGED], of[BB_SKIPPED]);
	add_worst(a, out);
	if (a->session->simulated.cluster)
		add_simulated(a->session, out);
	else
		add_culprit(a, out);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_number(struct bb_strbuf *out, double value)
{
	if (isnan(value))
		bb_strbuf_addf(out, " %10s", "-");
	else
		bb_strbuf_addf(out, " %10.4g", value);
}

static void add_row(struct bb_strbuf *out, const struct bb_judgement *j)
{
	bb_strbuf_addf(out, "%-15s %-16.16s %-11s", bb_verdict_name(j->verdict), j->step->name,
		       bb_judgement_metric(j));
	add_number(out, j->value);
	add_number(out, j->low);
	add_number(out, j->limit);
	add_number(out, j->expected);
	bb_printable_line(out, " %-9s %s", j->gate ? bb_source_name(j->gate->from->kind) : "-",
			  j->gate ? j->subject : "");
	if (j->verdict != BB_PASSED)
		bb_printable_line(out, "%15s %s", "", j->reason);
}

/* True if a number was judged by a single run. */
static bool ran_once(const struct bb_acceptance *a)
{
	for (size_t i = 0; i < a->judgements->n; i++)
		if (!isnan(a->judgements->list[i].value) && isnan(a->judgements->list[i].low))
			return true;
	return false;
}

static void add_nodes(const struct bb_nodes *nodes, struct bb_strbuf *out)
{
	for (size_t i = 0; i < nodes->n; i++)
		bb_printable_line(out, "%s | %s | %s | %s", nodes->list[i].host,
				  bb_node_verdict_name(nodes->list[i].verdict), nodes->list[i].code,
				  nodes->list[i].reason);
}

/* True if HOST may be put into a command: names of hosts come from records. */
static bool plain(const char *host)
{
	return host[0] && host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "0123456789-._")] == '\0';
}

static void add_drain(const struct bb_nodes *nodes, struct bb_strbuf *out)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (nodes->list[i].verdict == BB_NODE_BAD && plain(nodes->list[i].host))
			bb_strbuf_addf(out,
				       "To take it out of service (not done): scontrol update "
				       "nodename=%s state=drain reason=busbench:%s\n",
				       nodes->list[i].host, nodes->list[i].code);
}

void bb_acceptance_text(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	if (a->session->simulated.cluster)
		add_simulated(a->session, out);
	bb_strbuf_addf(out, "%-15s %-16s %-11s %10s %10s %10s %10s %-9s %s\n", "verdict", "step",
		       "metric", "value", "bound", "limit", "expected", "from", "subject");
	for (size_t i = 0; i < a->judgements->n; i++)
		add_row(out, &a->judgements->list[i]);
	if (ran_once(a))
		bb_strbuf_add(out, "bound -: one run, no confidence interval; the value is "
				   "compared directly\n");
	bb_strbuf_add(out, "\n");
	add_nodes(a->nodes, out);
	add_drain(a->nodes, out);
	bb_strbuf_add(out, "\n");
	bb_acceptance_sentences(a, out);
	bb_printable_line(out, "Results: %s", a->session->dir);
}

void bb_acceptance_conclusion(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "Verdict: %s%s\n", bb_acceptance_word(a),
		       a->session->simulated.cluster ? " (simulated)" : "");
}
