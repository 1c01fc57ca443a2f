/*
 * verdict.c - the verdict as text, JSON and JUnit's XML.
 */
#include "acceptance/verdict.h"

#include "acceptance/plan.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/table.h"
#include "core/units.h"
#include "core/version.h"
#include "harness/results/record.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *bb_acceptance_word(const struct bb_acceptance *a)
{
	return a->session->stopped_by         ? "interrupted"
	       : a->totals.status == BB_OK    ? "passed"
	       : a->totals.status == BB_EDATA ? "failed"
					      : "could not judge";
}

/* True if J names who made groups fail. */
static bool is_culprit(const struct bb_judgement *j)
{
	return !j->gate && strcmp(j->metric, "culprit") == 0;
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
	int length = (int)strlen(w->reason);
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

/* Three sentences that explain the verdict, a line each. */
static void add_sentences(const struct bb_acceptance *a, struct bb_strbuf *out)
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
	bb_printable_add(out, j->metric);
	if (!j->gate)
		return;
	/* A check without a record has no subject but its metric. */
	if (strcmp(j->subject, j->metric) != 0) {
		bb_strbuf_add(out, " ");
		bb_printable_add(out, j->subject);
	}
	bb_strbuf_addf(out, ", from %s", bb_source_names[j->gate->from.kind]);
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
		bb_table_cell(&t, bb_verdict_names[j->verdict]);
		bb_table_cell(&t, j->step->name);
		for (int k = 0; k < 3; k += bounded ? 1 : 2)
			if (isnan(numbers[k]))
				bb_table_cell(&t, NULL);
			else
				bb_table_cellf(&t, "%.4g", numbers[k]);
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
		bb_strbuf_addf(&line, "%s: ", bb_verdict_names[j->verdict]);
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
					  bb_node_verdict_names[node->verdict], node->code,
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
	add_sentences(a, &sentences);
	bb_acceptance_prose(bb_strbuf_text(&sentences), out);
	bb_strbuf_free(&sentences);
	bb_printable_line(out, "Results: %s", a->session->dir);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_judgement(const struct bb_judgement *g, struct bb_json *j)
{
	struct bb_strbuf gate = {0};

	bb_json_add_object(j, NULL);
	bb_json_add_string(j, "step", g->step->name);
	bb_json_add_string(j, "metric", g->metric);
	bb_json_add_string(j, "subject", g->subject);
	bb_json_add_string(j, "verdict", bb_verdict_names[g->verdict]);
	bb_json_add_string(j, "reason", g->reason);
	bb_json_add_int(j, "runs", (int64_t)g->runs);
	bb_json_add_double(j, "value", g->value);
	bb_json_add_double(j, "bound", g->low);
	bb_json_add_double(j, "limit", g->limit);
	bb_json_add_double(j, "expected", g->expected);
	if (g->gate) {
		bb_plan_add_gate(&gate, g->gate);
		bb_json_add_string(j, "unit", g->gate->measure ? g->gate->measure->unit : "");
		bb_json_add_string(j, "gate", bb_strbuf_text(&gate));
		bb_json_add_int(j, "line", g->gate->line);
		bb_json_add_string(j, "from", bb_source_names[g->gate->from.kind]);
		bb_json_add_string(j, "provenance", g->gate->from.origin);
		bb_strbuf_free(&gate);
	}
	bb_json_end(j);
}

static void add_words(struct bb_json *j, const char *key, const char *const *words, size_t n)
{
	bb_json_add_array(j, key);
	for (size_t i = 0; i < n; i++)
		bb_json_add_string(j, NULL, words[i]);
	bb_json_end(j);
}

static void add_step(const struct bb_acceptance_session *s, const struct bb_evidence *e,
		     struct bb_json *j)
{
	struct bb_words_list words = {.n = 0};
	struct bb_error why = {0};
	char name[128];

	bb_json_add_object(j, NULL);
	bb_json_add_string(j, "name", e->step->name);
	bb_json_add_string(j, "run", e->step->run);
	/* The complete command; null without memory. */
	if (bb_plan_command(s->profile, e->step, &s->simulated, NULL, &s->places, &words, &why) ==
	    BB_OK)
		add_words(j, "args", (const char *const *)words.words, words.n);
	else
		bb_json_add_string(j, "args", NULL);
	bb_words_free(&words);
	bb_json_add_int(j, "ranks", e->step->ranks);
	bb_json_add_int(j, "nodes", e->step->nodes);
	bb_json_add_int(j, "groups", e->step->groups);
	bb_json_add_array(j, "runs");
	for (size_t i = 0; i < e->nruns; i++) {
		const struct bb_outcome *const o = &e->runs[i].outcome;
		const json_t *const run = bb_records_first(&e->runs[i].records, "run");

		bb_json_add_object(j, NULL);
		snprintf(name, sizeof(name), "records/%s.%zu.jsonl", e->step->name, i + 1);
		bb_json_add_string(j, "records", name);
		bb_json_add_string(j, "run_id", bb_record_string(run, "run_id"));
		bb_json_add_double(j, "exit_status", o->status >= 0 ? o->status : NAN);
		bb_json_add_bool(j, "timed_out", o->timed_out);
		bb_json_add_double(j, "wall_s", o->wall_s);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_json_end(j);
}

/* Adds the command that repeats the run, with its results in a new folder. */
static void add_args(const struct bb_acceptance *a, struct bb_json *j)
{
	const struct bb_acceptance_session *const s = a->session;
	char binary[1200], nodes[24], per_node[24];
	const struct {
		bool given;
		const char *option, *value;
	} options[] = {{s->mode == BB_QUICK, "--quick", NULL},
		       {a->strict, "--strict", NULL},
		       {s->scale.nodes > 0, "--nodes", nodes},
		       {s->scale.per_node > 0, "--ranks-per-node", per_node},
		       {s->simulated.cluster, "--cluster", s->simulated.cluster},
		       {s->simulated.fault, "--fault", s->simulated.fault}};
	const char *words[16] = {binary, "run", s->profile_path};
	size_t n = 3;

	snprintf(binary, sizeof(binary), "%s/acceptance", s->places.binaries);
	snprintf(nodes, sizeof(nodes), "%lld", s->scale.nodes);
	snprintf(per_node, sizeof(per_node), "%lld", s->scale.per_node);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (options[i].given)
			words[n++] = options[i].option;
		if (options[i].given && options[i].value)
			words[n++] = options[i].value;
	}
	add_words(j, "args", words, n);
}

void bb_acceptance_json(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const struct bb_acceptance_session *const s = a->session;
	char now[BB_TIME_TEXT];
	struct bb_strbuf text = {0};
	struct bb_json j;

	bb_json_init(&j, out, true);
	bb_json_add_object(&j, NULL);
	bb_time_text(now);
	bb_json_add_int(&j, "schema", BB_SCHEMA);
	bb_json_add_string(&j, "kind", "acceptance");
	bb_json_add_string(&j, "run_id", s->run_id);
	bb_json_add_string(&j, "start_time", s->start_time);
	bb_json_add_string(&j, "end_time", now);
	bb_json_add_string(&j, "version", BB_VERSION);
	bb_json_add_string(&j, "profile", s->profile->name);
	bb_json_add_string(&j, "profile_path", s->profile_path);
	add_args(a, &j);
	bb_json_add_string(&j, "about", s->profile->about);
	bb_json_add_string(&j, "system", s->profile->system);
	bb_json_add_string(&j, "mode", bb_mode_name(s->mode));
	bb_json_add_bool(&j, "virtual_time", s->simulated.cluster != NULL);
	bb_json_add_string(&j, "cluster", s->simulated.cluster);
	bb_json_add_string(&j, "fault", s->simulated.fault);
	bb_json_add_bool(&j, "strict", a->strict);
	bb_json_add_string(&j, "verdict", bb_acceptance_word(a));
	bb_json_add_int(&j, "exit_status",
			s->stopped_by ? 128 + s->stopped_by : (int)a->totals.status);
	add_sentences(a, &text);
	bb_json_add_array(&j, "sentences");
	for (char *rest = text.text, *line; rest && (line = strtok_r(rest, "\n", &rest));)
		bb_json_add_string(&j, NULL, line);
	bb_json_end(&j);
	bb_strbuf_free(&text);
	bb_json_add_object(&j, "counts");
	for (int v = BB_PASSED; v <= BB_FAILED; v++)
		bb_json_add_int(&j, bb_verdict_names[v], (int64_t)a->totals.of[v]);
	bb_json_end(&j);
	bb_json_add_array(&j, "gates");
	for (size_t i = 0; i < a->judgements->n; i++)
		add_judgement(&a->judgements->list[i], &j);
	bb_json_end(&j);
	bb_json_add_array(&j, "steps");
	for (size_t i = 0; i < a->session->n; i++)
		add_step(a->session, &a->session->evidence[i], &j);
	bb_json_end(&j);
	bb_json_add_array(&j, "nodes");
	for (size_t i = 0; i < a->nodes->n; i++) {
		const struct bb_node *const node = &a->nodes->list[i];

		bb_json_add_object(&j, NULL);
		bb_json_add_string(&j, "host", node->host);
		bb_json_add_string(&j, "verdict", bb_node_verdict_names[node->verdict]);
		bb_json_add_string(&j, "code", node->code);
		bb_json_add_string(&j, "reason", node->reason);
		bb_json_add_array(&j, "values");
		for (size_t k = 0; k < node->nvalues; k++) {
			const struct bb_node_value *const v = &node->values[k];

			bb_json_add_object(&j, NULL);
			bb_json_add_string(&j, "step", v->judgement->step->name);
			bb_json_add_string(&j, "metric", v->judgement->metric);
			bb_json_add_string(&j, "subject", v->judgement->subject);
			bb_json_add_int(&j, "line", v->judgement->gate->line);
			bb_json_add_double(&j, "value", v->value);
			bb_json_add_double(&j, "limit", v->judgement->limit);
			bb_json_add_string(&j, "unit", v->judgement->gate->measure->unit);
			bb_json_add_bool(&j, "shared", v->shared);
			bb_json_add_bool(&j, "beyond", v->excess > 0);
			bb_json_end(&j);
		}
		bb_json_end(&j);
		bb_json_end(&j);
	}
	bb_json_end(&j);
	bb_json_end(&j);
	bb_strbuf_add(out, "\n");
}

/* ---- JUnit ----------------------------------------------------------------------------------- */

/* Appends MARKUP, then TEXT as the value of an attribute or as content. */
static void add_xml(struct bb_strbuf *out, const char *markup, const char *text)
{
	bb_strbuf_add(out, markup);
	bb_printable_xml(out, text);
}

static void add_case(const struct bb_acceptance *a, const struct bb_judgement *j,
		     struct bb_strbuf *out)
{
	const char *const elements[] = {[BB_WARNED] = a->strict ? "failure" : NULL,
					[BB_SKIPPED] = "skipped",
					[BB_UNJUDGED] = "error",
					[BB_FAILED] = "failure"};
	const char *const element = elements[j->verdict];
	size_t nth = 1;

	add_xml(out, "    <testcase classname=\"", a->session->profile->name);
	add_xml(out, ".", j->step->name);
	/* Systems that compare runs find a case by its name, so it has neither lines nor numbers of
	   the profile. Gates of one name in a step are counted. */
	add_xml(out, "\" name=\"", j->metric);
	if (j->gate) {
		add_xml(out, " ", bb_source_names[j->gate->from.kind]);
		add_xml(out, " ", j->subject);
	}
	for (const struct bb_judgement *other = a->judgements->list; j->gate && other < j; other++)
		nth += other->step == j->step && other->gate &&
		       strcmp(other->metric, j->metric) == 0 &&
		       other->gate->from.kind == j->gate->from.kind &&
		       strcmp(other->subject, j->subject) == 0;
	if (nth > 1)
		bb_strbuf_addf(out, " (%zu)", nth);
	bb_strbuf_add(out, element ? "\">\n" : "\"/>\n");
	if (!element)
		return;
	bb_strbuf_addf(out, "      <%s", element);
	add_xml(out, " message=\"", j->reason);
	bb_strbuf_add(out, "\">");
	if (j->gate) {
		add_xml(out, "", a->session->profile_path);
		bb_strbuf_addf(out, ":%d", j->gate->line);
	}
	bb_strbuf_addf(out, "</%s>\n    </testcase>\n", element);
}

void bb_acceptance_junit(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const char *const cluster = a->session->simulated.cluster;
	const struct bb_judgements *const all = a->judgements;
	/* Suspected nodes, which --strict fails. */
	const size_t n = a->strict ? bb_nodes_suspected(a->nodes) : 0;

	add_xml(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"",
		a->session->profile->name);
	add_xml(out, cluster ? ", simulated on " : "", cluster ? cluster : "");
	bb_strbuf_add(out, "\">\n");
	for (size_t s = 0; s < a->session->n; s++) {
		const struct bb_evidence *const e = &a->session->evidence[s];
		size_t of[BB_FAILED + 1] = {0}, tests = 0;
		double seconds = 0;

		for (size_t i = 0; i < all->n; i++) {
			of[all->list[i].verdict] += all->list[i].step == e->step;
			tests += all->list[i].step == e->step;
		}
		for (size_t i = 0; i < e->nruns; i++)
			seconds += e->runs[i].outcome.wall_s;
		add_xml(out, "  <testsuite name=\"", e->step->name);
		bb_strbuf_addf(out,
			       "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" "
			       "time=\"%.3f\">\n",
			       tests, of[BB_FAILED] + (a->strict ? of[BB_WARNED] : 0),
			       of[BB_UNJUDGED], of[BB_SKIPPED], seconds);
		for (size_t i = 0; i < all->n; i++)
			if (all->list[i].step == e->step)
				add_case(a, &all->list[i], out);
		bb_strbuf_add(out, "  </testsuite>\n");
	}
	if (n > 0)
		bb_strbuf_addf(out,
			       "  <testsuite name=\"nodes\" tests=\"%zu\" failures=\"%zu\" "
			       "errors=\"0\" skipped=\"0\" time=\"0\">\n",
			       n, n);
	for (size_t i = 0; n > 0 && i < a->nodes->n; i++) {
		const struct bb_node *const node = &a->nodes->list[i];

		if (node->verdict != BB_NODE_SUSPECT)
			continue;
		add_xml(out, "    <testcase classname=\"", a->session->profile->name);
		add_xml(out, ".nodes\" name=\"", node->host);
		add_xml(out, "\">\n      <failure message=\"suspect: ", node->reason);
		bb_strbuf_add(out, "\"/>\n    </testcase>\n");
	}
	bb_strbuf_add(out, n > 0 ? "  </testsuite>\n" : "");
	bb_strbuf_add(out, "</testsuites>\n");
}
