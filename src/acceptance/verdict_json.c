/*
 * verdict_json.c - verdict.json and junit.xml.
 */
#include "acceptance/plan.h"
#include "acceptance/verdict.h"

#include "core/json.h"
#include "core/printable.h"
#include "core/version.h"
#include "harness/results/record.h"

#include <stdio.h>
#include <string.h>

static void add_judgement(const struct bb_judgement *g, struct bb_json *j)
{
	struct bb_strbuf gate = {0};

	bb_json_object(j);
	bb_json_add_string(j, "step", g->step->name);
	bb_json_add_string(j, "metric", bb_judgement_metric(g));
	bb_json_add_string(j, "subject", g->subject);
	bb_json_add_string(j, "verdict", bb_verdict_name(g->verdict));
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
		bb_json_add_string(j, "from", bb_source_name(g->gate->from->kind));
		bb_json_add_string(j, "provenance", g->gate->from->origin);
		bb_strbuf_free(&gate);
	}
	bb_json_end(j);
}

static void add_words(struct bb_json *j, const char *key, const char *const *words, size_t n)
{
	bb_json_add_array(j, key);
	for (size_t i = 0; i < n; i++)
		bb_json_string(j, words[i]);
	bb_json_end(j);
}

static void add_step(const struct bb_acceptance_session *s, const struct bb_evidence *e,
		     struct bb_json *j)
{
	struct bb_words_list words = {.n = 0};
	struct bb_error why = {0};
	char name[128];

	bb_json_object(j);
	bb_json_add_string(j, "name", e->step->name);
	bb_json_add_string(j, "run", e->step->run);
	/* The complete command; null without memory. */
	if (bb_plan_command(s->profile, e->step, &s->simulated, &s->places, &words, &why) == BB_OK)
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
		const struct bb_read_record *const run =
			bb_records_first(&e->runs[i].records, "run");

		bb_json_object(j);
		snprintf(name, sizeof(name), "records/%s.%zu.jsonl", e->step->name, i + 1);
		bb_json_add_string(j, "records", name);
		bb_json_add_string(j, "run_id", run ? bb_record_string(run->json, "run_id") : NULL);
		bb_json_key(j, "exit_status");
		if (o->status >= 0)
			bb_json_int(j, o->status);
		else
			bb_json_null(j);
		bb_json_add_bool(j, "timed_out", o->timed_out);
		bb_json_add_double(j, "wall_s", o->wall_s);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_json_end(j);
}

static void add_node(const struct bb_node *node, struct bb_json *j)
{
	bb_json_object(j);
	bb_json_add_string(j, "host", node->host);
	bb_json_add_string(j, "verdict", bb_node_verdict_name(node->verdict));
	bb_json_add_string(j, "code", node->code);
	bb_json_add_string(j, "reason", node->reason);
	bb_json_add_array(j, "values");
	for (size_t i = 0; i < node->nvalues; i++) {
		const struct bb_node_value *const v = &node->values[i];

		bb_json_object(j);
		bb_json_add_string(j, "step", v->judgement->step->name);
		bb_json_add_string(j, "metric", bb_judgement_metric(v->judgement));
		bb_json_add_string(j, "subject", v->judgement->subject);
		bb_json_add_int(j, "line", v->judgement->gate->line);
		bb_json_add_double(j, "value", v->value);
		bb_json_add_double(j, "limit", v->limit);
		bb_json_add_string(j, "unit", v->judgement->gate->measure->unit);
		bb_json_add_bool(j, "shared", v->shared);
		bb_json_add_bool(j, "beyond", v->beyond);
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

static void add_head(const struct bb_acceptance *a, struct bb_json *j)
{
	const struct bb_acceptance_session *const s = a->session;
	char now[BB_TIME_TEXT];

	bb_time_text(now);
	bb_json_add_int(j, "schema", BB_SCHEMA);
	bb_json_add_string(j, "kind", "acceptance");
	bb_json_add_string(j, "run_id", s->run_id);
	bb_json_add_string(j, "start_time", s->start_time);
	bb_json_add_string(j, "end_time", now);
	bb_json_add_string(j, "version", BB_VERSION);
	bb_json_add_string(j, "profile", s->profile->name);
	bb_json_add_string(j, "profile_path", s->profile_path);
	add_args(a, j);
	bb_json_add_string(j, "about", s->profile->about);
	bb_json_add_string(j, "system", s->profile->system);
	bb_json_add_string(j, "mode", s->mode == BB_QUICK ? "quick" : "full");
	bb_json_add_bool(j, "virtual_time", s->simulated.cluster != NULL);
	bb_json_add_string(j, "cluster", s->simulated.cluster);
	bb_json_add_string(j, "fault", s->simulated.fault);
	bb_json_add_bool(j, "strict", a->strict);
	bb_json_add_string(j, "verdict", bb_acceptance_word(a));
	bb_json_add_int(j, "exit_status",
			s->stopped_by ? 128 + s->stopped_by : (int)a->totals.status);
}

void bb_acceptance_json(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	struct bb_strbuf text = {0};
	struct bb_json j;
	char *rest;

	bb_json_init(&j, out, true);
	bb_json_object(&j);
	add_head(a, &j);
	bb_acceptance_sentences(a, &text);
	bb_json_add_array(&j, "sentences");
	for (char *line = text.text ? strtok_r(text.text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		bb_json_string(&j, line);
	bb_json_end(&j);
	bb_strbuf_free(&text);
	bb_json_add_object(&j, "counts");
	for (int v = BB_PASSED; v <= BB_FAILED; v++)
		bb_json_add_int(&j, bb_verdict_name(v), (int64_t)a->totals.of[v]);
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
	for (size_t i = 0; i < a->nodes->n; i++)
		add_node(&a->nodes->list[i], &j);
	bb_json_end(&j);
	bb_json_end(&j);
	bb_strbuf_add(out, "\n");
}

/* ---- JUnit ----------------------------------------------------------------------------------- */

static void add_case(const struct bb_acceptance *a, const struct bb_judgement *j,
		     struct bb_strbuf *out)
{
	const char *element = NULL;
	size_t nth = 1;

	if (j->verdict == BB_FAILED || (a->strict && j->verdict == BB_WARNED))
		element = "failure";
	else if (j->verdict == BB_UNJUDGED)
		element = "error";
	else if (j->verdict == BB_SKIPPED)
		element = "skipped";
	bb_strbuf_add(out, "    <testcase classname=\"");
	bb_printable_xml(out, a->session->profile->name);
	bb_strbuf_add(out, ".");
	bb_printable_xml(out, j->step->name);
	bb_strbuf_add(out, "\" name=\"");
	/* Systems that compare runs find a case by its name, so it has neither lines nor numbers of
	   the profile. Gates of one name in a step are counted. */
	bb_printable_xml(out, bb_judgement_metric(j));
	if (j->gate) {
		bb_strbuf_addf(out, " %s ", bb_source_name(j->gate->from->kind));
		bb_printable_xml(out, j->subject);
	}
	for (const struct bb_judgement *other = a->judgements->list; j->gate && other < j; other++)
		nth += other->step == j->step && other->gate &&
		       strcmp(bb_judgement_metric(other), bb_judgement_metric(j)) == 0 &&
		       other->gate->from->kind == j->gate->from->kind &&
		       strcmp(other->subject, j->subject) == 0;
	if (nth > 1)
		bb_strbuf_addf(out, " (%zu)", nth);
	bb_strbuf_add(out, element ? "\">\n" : "\"/>\n");
	if (!element)
		return;
	bb_strbuf_addf(out, "      <%s message=\"", element);
	bb_printable_xml(out, j->reason);
	bb_strbuf_add(out, "\">");
	if (j->gate) {
		bb_printable_xml(out, a->session->profile_path);
		bb_strbuf_addf(out, ":%d", j->gate->line);
	}
	bb_strbuf_addf(out, "</%s>\n    </testcase>\n", element);
}

static void add_suite(const struct bb_acceptance *a, const struct bb_evidence *e,
		      struct bb_strbuf *out)
{
	const struct bb_judgements *const all = a->judgements;
	size_t of[BB_FAILED + 1] = {0}, n = 0;
	double seconds = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (all->list[i].step != e->step)
			continue;
		of[all->list[i].verdict]++;
		n++;
	}
	for (size_t i = 0; i < e->nruns; i++)
		seconds += e->runs[i].outcome.wall_s;
	bb_strbuf_add(out, "  <testsuite name=\"");
	bb_printable_xml(out, e->step->name);
	bb_strbuf_addf(
		out,
		"\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\">\n",
		n, of[BB_FAILED] + (a->strict ? of[BB_WARNED] : 0), of[BB_UNJUDGED], of[BB_SKIPPED],
		seconds);
	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].step == e->step)
			add_case(a, &all->list[i], out);
	bb_strbuf_add(out, "  </testsuite>\n");
}

void bb_acceptance_junit(const struct bb_acceptance *a, struct bb_strbuf *out)
{
	const size_t n = bb_nodes_suspected(a->nodes);

	bb_strbuf_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"");
	bb_printable_xml(out, a->session->profile->name);
	if (a->session->simulated.cluster) {
		bb_strbuf_add(out, ", simulated on ");
		bb_printable_xml(out, a->session->simulated.cluster);
	}
	bb_strbuf_add(out, "\">\n");
	for (size_t i = 0; i < a->session->n; i++)
		add_suite(a, &a->session->evidence[i], out);
	/* Suspected nodes, which --strict fails. */
	if (a->strict && n > 0)
		bb_strbuf_addf(out,
			       "  <testsuite name=\"nodes\" tests=\"%zu\" failures=\"%zu\" "
			       "errors=\"0\" skipped=\"0\" time=\"0\">\n",
			       n, n);
	for (size_t i = 0; a->strict && i < a->nodes->n; i++) {
		const struct bb_node *const node = &a->nodes->list[i];

		if (node->verdict != BB_NODE_SUSPECT)
			continue;
		bb_strbuf_add(out, "    <testcase classname=\"");
		bb_printable_xml(out, a->session->profile->name);
		bb_strbuf_add(out, ".nodes\" name=\"");
		bb_printable_xml(out, node->host);
		bb_strbuf_add(out, "\">\n      <failure message=\"suspect: ");
		bb_printable_xml(out, node->reason);
		bb_strbuf_add(out, "\"/>\n    </testcase>\n");
	}
	bb_strbuf_add(out, a->strict && n > 0 ? "  </testsuite>\n" : "");
	bb_strbuf_add(out, "</testsuites>\n");
}
