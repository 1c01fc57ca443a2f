/*
 * verdict.c - the verdict as text.
 */
#include "acceptance/verdict.h"

#include "acceptance/plan.h"
#include "core/printable.h"
#include "core/table.h"
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

/* True if J names who made groups fail. */
static bool is_culprit(const struct bb_judgement *j)
{
	return !j->gate && strcmp(j->own, "culprit") == 0;
}

/* Appends the first culprit, else the first judgement of the gravest kind; a skip only if there is
   nothing else. */
static void add_worst(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const int order[] = {[BB_SKIPPED] = 0,
			     [BB_PASSED] = 1,
			     [BB_WARNED] = a->strict ? 4 : 2,
			     [BB_UNJUDGED] = 3,
			     [BB_FAILED] = 5};
	const struct bb_judgement *w = NULL;
	bool left_out = false; /* a gate was skipped; the step's own judgement is none */
	int length;

	for (size_t i = 0; i < a->judgements->n; i++) {
		const struct bb_judgement *const j = &a->judgements->list[i];

		left_out |= j->gate && j->verdict == BB_SKIPPED;
		if (!w ||
		    (!is_culprit(w) && (is_culprit(j) || order[j->verdict] > order[w->verdict])))
			w = j;
	}
	if (!w || w->verdict == BB_PASSED) {
		bb_strbuf_addf(out, "Every gate %sholds%s%s.\n",
			       left_out ? "that was not skipped " : "",
			       a->session->simulated.cluster ? "" : " and no result has wrong data",
			       a->strict && bb_nodes_suspected(a->nodes) > 0
				       ? "; --strict fails for a node that is suspect"
				       : "");
		return;
	}
	length = (int)strlen(w->reason);
	length -= length > 0 && w->reason[length - 1] == '.';
	if (is_culprit(w))
		bb_printable_line(out, "The culprit by step %s is %s.", w->step->name, w->reason);
	else
		bb_printable_line(out, "%s in step %s, %s: %.*s.",
				  w->verdict == BB_FAILED ? "The first failure is"
				  : w->verdict == BB_WARNED && a->strict
					  ? "--strict fails for a warning; the first is"
					  : "The first thing to look at is",
				  w->step->name, w->subject, length, w->reason);
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
	const struct bb_nodes *const nodes = a->nodes;
	const struct bb_node *w = NULL;
	size_t unknown = 0;

	bb_strbuf_addf(out,
		       "%zu of %zu check%s in %zu step%s passed, %zu with a warning; %zu failed, "
		       "%zu could not be judged, %zu skipped.\n",
		       of[BB_PASSED] + of[BB_WARNED], a->judgements->n, bb_plural(a->judgements->n),
		       a->session->n, bb_plural(a->session->n), of[BB_WARNED], of[BB_FAILED],
		       of[BB_UNJUDGED], of[BB_SKIPPED]);
	add_worst(a, out);
	for (size_t i = 0; i < nodes->n; i++) {
		unknown += nodes->list[i].verdict == BB_NODE_UNKNOWN;
		if (!w || nodes->list[i].verdict > w->verdict)
			w = &nodes->list[i];
	}
	if (a->session->simulated.cluster)
		add_simulated(a->session, out);
	else if (w && (w->verdict == BB_NODE_BAD || w->verdict == BB_NODE_SUSPECT))
		bb_printable_line(out, "Node %s stands out: %s.", w->host, w->reason);
	else if (unknown > 0)
		bb_strbuf_addf(out, "%zu of %zu node%s could not be judged%s.\n", unknown, nodes->n,
			       bb_plural(nodes->n),
			       unknown < nodes->n ? ", none of the others stands out" : "");
	else if (nodes->n == 0)
		bb_strbuf_add(out, "No node is known: no step has recorded one.\n");
	else
		bb_strbuf_addf(out, "No node stands out, of %zu.\n", nodes->n);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Appends what J judges: "busbw all_reduce ring float 8G 16 ranks, from topology". */
static void add_check(const struct bb_judgement *j, struct bb_strbuf *out)
{
	bb_printable_add(out, bb_judgement_metric(j));
	if (!j->gate)
		return;
	/* A check without a record has no subject but its metric. */
	if (strcmp(j->subject, bb_judgement_metric(j)) != 0) {
		bb_strbuf_add(out, " ");
		bb_printable_add(out, j->subject);
	}
	bb_strbuf_addf(out, ", from %s", bb_source_name(j->gate->from->kind));
}

/* A table of the checks with a number, with bounds if BOUNDED; if verbose, of all. */
static void add_table(const struct bb_acceptance *a, bool bounded, struct bb_strbuf *out)
{
	struct bb_text_table t = {.limit = bb_table_limit(stdout), .mark = " "};

	bb_table_column(&t, "verdict", "", -7);
	bb_table_column(&t, "step", "", -4);
	bb_table_key(&t);
	bb_table_column(&t, "value", "", 5);
	if (bounded)
		bb_table_column(&t, "bound", "", 5);
	bb_table_column(&t, "limit", "", 5);
	bb_table_column(&t, "unit", "", -4);
	bb_table_column(&t, "check", "", -24);
	for (size_t i = 0; i < a->judgements->n; i++) {
		const struct bb_judgement *const j = &a->judgements->list[i];
		const double numbers[] = {j->value, j->low, j->limit};
		struct bb_strbuf check = {0};

		if (isnan(j->value) && !a->verbose)
			continue;
		add_check(j, &check);
		bb_table_cell(&t, bb_verdict_name(j->verdict));
		bb_table_cell(&t, j->step->name);
		for (int k = 0; k < 3; k++) {
			if (k == 1 && !bounded)
				continue;
			if (isnan(numbers[k]))
				bb_table_cell(&t, NULL);
			else
				bb_table_cellf(&t, "%.4g", numbers[k]);
		}
		bb_table_cell(&t, j->gate && j->gate->measure ? j->gate->measure->unit : "-");
		bb_table_cell(&t, bb_strbuf_text(&check));
		bb_strbuf_free(&check);
	}
	if (t.ncells > 0)
		bb_table_print(&t, out);
	bb_table_free(&t);
}

void bb_acceptance_prose(const char *text, struct bb_strbuf *out)
{
	const int width = bb_fold_limit(stdout);

	while (*text) {
		const int length = (int)strcspn(text, "\n"), indent = (int)strspn(text, " ");
		struct bb_strbuf line = {0};

		bb_strbuf_addf(&line, "%.*s", length, text);
		bb_strbuf_addf(out, "%*s", indent, "");
		bb_strbuf_wrap(out, bb_strbuf_text(&line), indent + 2, indent + 2, width);
		out->failed |= bb_strbuf_failed(&line);
		bb_strbuf_free(&line);
		text += length + (text[length] == '\n');
	}
}

/* Why checks did not simply pass: those without a number each reason once; if verbose, each check
   by itself. */
static void add_reasons(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const struct bb_judgement *const list = a->judgements->list;

	for (size_t i = 0; i < a->judgements->n; i++) {
		const struct bb_judgement *const j = &list[i];
		const bool single = a->verbose || !isnan(j->value);
		size_t alike = single, earlier = 0;
		bool steps = false; /* checks alike belong to several steps */
		struct bb_strbuf line = {0};

		for (size_t k = 0; !single && k < a->judgements->n; k++) {
			if (list[k].verdict != j->verdict || strcmp(list[k].reason, j->reason) != 0)
				continue;
			alike++;
			earlier += k < i;
			steps |= list[k].step != j->step;
		}
		if (j->verdict == BB_PASSED || earlier > 0)
			continue;
		bb_strbuf_addf(&line, "%s: ", bb_verdict_name(j->verdict));
		if (alike == 1 || !steps)
			bb_strbuf_addf(&line, "%s, ", j->step->name);
		if (alike == 1)
			add_check(j, &line);
		else
			bb_strbuf_addf(&line, "%zu checks", alike);
		bb_strbuf_add(&line, ": ");
		bb_printable_add(&line, j->reason);
		bb_acceptance_prose(bb_strbuf_text(&line), out);
		bb_strbuf_free(&line);
	}
}

void bb_acceptance_text(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	/* Names of hosts come from records; these may be put into a command. */
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	const struct bb_nodes *const nodes = a->nodes;
	struct bb_strbuf sentences = {0};
	bool bounded = false, once = false; /* judged by several runs, and by one */
	size_t good = 0;

	for (size_t i = 0; i < a->judgements->n; i++) {
		bounded |= !isnan(a->judgements->list[i].low);
		once |= !isnan(a->judgements->list[i].value) && isnan(a->judgements->list[i].low);
	}
	if (a->session->simulated.cluster)
		add_simulated(a->session, out);
	add_table(a, bounded, out);
	if (once)
		bb_strbuf_addf(
			out, "%sone run, no confidence interval; the value is compared directly\n",
			bounded ? "bound -: " : "No bound: ");
	bb_strbuf_add(out, out->length > 0 ? "\n" : "");
	add_reasons(a, out);
	/* A line for each node that is not OK; if verbose, for all. */
	for (size_t i = 0; i < nodes->n; i++) {
		const struct bb_node *const node = &nodes->list[i];

		good += node->verdict == BB_NODE_OK;
		if (node->verdict != BB_NODE_OK || a->verbose)
			bb_printable_line(out, "%s | %s | %s | %s", node->host,
					  bb_node_verdict_name(node->verdict), node->code,
					  node->reason);
	}
	if (good > 0 && !a->verbose)
		bb_strbuf_addf(out, "%zu node%s OK; -v lists %s\n", good,
			       good == 1 ? " is" : "s are", good == 1 ? "it" : "them");
	for (size_t i = 0; i < nodes->n; i++)
		if (nodes->list[i].verdict == BB_NODE_BAD && nodes->list[i].host[0] &&
		    !nodes->list[i].host[strspn(nodes->list[i].host, plain)])
			bb_strbuf_addf(out,
				       "To take it out of service (not done): scontrol update "
				       "nodename=%s state=drain reason=busbench:%s\n",
				       nodes->list[i].host, nodes->list[i].code);
	bb_strbuf_add(out, "\n");
	bb_acceptance_sentences(a, &sentences);
	bb_acceptance_prose(bb_strbuf_text(&sentences), out);
	bb_strbuf_free(&sentences);
	bb_printable_line(out, "Results: %s", a->session->dir);
}
