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

/* Returns the first culprit, else the first judgement of the gravest kind; a skip only if there is
   nothing else. */
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

		if (is_culprit(j))
			return j;
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

/* The length of REASON without a full stop at its end. */
static int reason_length(const char *reason)
{
	const int n = (int)strlen(reason);

	return n > 0 && reason[n - 1] == '.' ? n - 1 : n;
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
	else if (is_culprit(w))
		bb_printable_line(out, "The culprit by step %s is %s.", w->step->name, w->reason);
	else
		bb_printable_line(out, "%s in step %s, %s: %.*s.",
				  w->verdict == BB_FAILED ? "The first failure is"
				  : w->verdict == BB_WARNED && a->strict
					  ? "--strict fails for a warning; the first is"
					  : "The first thing to look at is",
				  w->step->name, w->subject, reason_length(w->reason), w->reason);
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
		bb_strbuf_addf(out, "No node stands out, of %zu.\n", a->nodes->n);
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

static void number_cell(struct bb_text_table *t, double value)
{
	if (isnan(value))
		bb_table_cell(t, NULL);
	else
		bb_table_cellf(t, "%.4g", value);
}

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

/* True if a check was judged by several runs. */
static bool has_bound(const struct bb_acceptance *a)
{
	for (size_t i = 0; i < a->judgements->n; i++)
		if (!isnan(a->judgements->list[i].low))
			return true;
	return false;
}

/* A table of the checks with a number; if verbose, of all. */
static void add_table(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	struct bb_text_table t = {.limit = bb_table_limit(stdout), .mark = " "};
	const bool bounded = has_bound(a);

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
		struct bb_strbuf check = {0};

		if (isnan(j->value) && !a->verbose)
			continue;
		add_check(j, &check);
		bb_table_cell(&t, bb_verdict_name(j->verdict));
		bb_table_cell(&t, j->step->name);
		number_cell(&t, j->value);
		if (bounded)
			number_cell(&t, j->low);
		number_cell(&t, j->limit);
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

/* How many checks have the verdict and reason of the one at index I; 0: an earlier one had them.
 *STEPS = do they belong to several steps? */
static size_t reasons_alike(const struct bb_judgements *all, size_t i, bool *steps)
{
	const struct bb_judgement *const one = &all->list[i];
	size_t n = 0;

	*steps = false;
	for (size_t k = 0; k < all->n; k++) {
		const struct bb_judgement *const j = &all->list[k];

		if (j->verdict != one->verdict || strcmp(j->reason, one->reason) != 0)
			continue;
		if (k < i)
			return 0;
		n++;
		*steps |= j->step != one->step;
	}
	return n;
}

/* Why checks did not simply pass: those without a number each reason once; if verbose, each check
   by itself. */
static void add_reasons(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	for (size_t i = 0; i < a->judgements->n; i++) {
		const struct bb_judgement *const j = &a->judgements->list[i];
		bool steps = false;
		const size_t alike = a->verbose || !isnan(j->value)
					     ? 1
					     : reasons_alike(a->judgements, i, &steps);
		struct bb_strbuf line = {0};

		if (j->verdict == BB_PASSED || alike == 0)
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

/* True if a number was judged by a single run. */
static bool ran_once(const struct bb_acceptance *a)
{
	for (size_t i = 0; i < a->judgements->n; i++)
		if (!isnan(a->judgements->list[i].value) && isnan(a->judgements->list[i].low))
			return true;
	return false;
}

/* A line for each node that is not OK; if verbose, for all. */
static void add_nodes(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const struct bb_nodes *const nodes = a->nodes;
	size_t good = 0;

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
	struct bb_strbuf sentences = {0};

	if (a->session->simulated.cluster)
		add_simulated(a->session, out);
	add_table(a, out);
	if (ran_once(a))
		bb_strbuf_addf(out,
			       "%sone run, no confidence interval; the value is compared "
			       "directly\n",
			       has_bound(a) ? "bound -: " : "No bound: ");
	bb_strbuf_add(out, out->length > 0 ? "\n" : "");
	add_reasons(a, out);
	add_nodes(a, out);
	add_drain(a->nodes, out);
	bb_strbuf_add(out, "\n");
	bb_acceptance_sentences(a, &sentences);
	bb_acceptance_prose(bb_strbuf_text(&sentences), out);
	bb_strbuf_free(&sentences);
	bb_printable_line(out, "Results: %s", a->session->dir);
}

void bb_acceptance_conclusion(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "Verdict: %s%s\n", bb_acceptance_word(a),
		       a->session->simulated.cluster ? " (simulated)" : "");
}
