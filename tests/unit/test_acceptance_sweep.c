/*
 * Acceptance of made-up runs: gates of every kind x records, outcomes and expectations, groups of
 * nodes down to pairs with slow ones among them, and the commands of profiles, by a seeded
 * generator.
 */
#include "draws.h"

#include "acceptance/fleet.h"
#include "acceptance/judge.h"
#include "acceptance/nodes.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_RUNS 4
#define MOST_STEPS 8

/* A profile with the runs of its steps. */
struct court {
	struct bb_profile *profile;
	struct bb_step_run runs[MOST_STEPS][MOST_RUNS];
	struct bb_gate_expectation expected[MOST_STEPS][MOST_RUNS];
	struct bb_evidence evidence[MOST_STEPS];
	struct bb_judgements judgements;
	size_t n;
};

static void records_read(const char *text, struct bb_records *records)
{
	struct bb_error error = {.text = ""};

	if (bb_records_read("r", text, strlen(text), records, &error) != BB_OK)
		fail_msg("%s: %s", error.text, text);
}

static void court_free(struct court *c)
{
	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0; k < c->evidence[i].nruns; k++)
			bb_records_free(&c->runs[i][k].records);
		for (size_t k = 0; k < MOST_RUNS; k++) {
			bb_records_free(&c->expected[i][k].predicted.records);
			json_decref(c->expected[i][k].baseline);
		}
	}
	bb_judgements_free(&c->judgements);
	bb_profile_free(c->profile);
}

static void judgements_add(struct sweep_texts *s, const struct bb_judgements *all)
{
	for (int strict = 0; strict < 2; strict++) {
		const struct bb_totals t = bb_judgements_total(all, strict);

		SWEEP_ADD(&s->numbers, t.status, (double)t.of[0], (double)t.of[1], (double)t.of[2],
			  (double)t.of[3], (double)t.of[4]);
	}
	for (size_t i = 0; i < all->n; i++) {
		const struct bb_judgement *const j = &all->list[i];

		SWEEP_ADD(&s->numbers, j->verdict, (double)j->runs, j->value, j->low, j->expected,
			  j->limit, j->gate ? j->gate->line : -1);
		sweep_texts_add(s, j->metric);
		sweep_texts_add(s, j->subject);
		sweep_texts_add(s, j->reason);
		sweep_texts_add(s, bb_verdict_names[j->verdict]);
	}
}

/* ---- gates ---------------------------------------------------------------------------------- */

static void gate_draw(struct bb_strbuf *out)
{
	static const char *const from[] = {
		"{reference: az_h100_1n}", "{bound: 40%}",      "{copy: 50%}",
		"{topology: 60% of ring}", "{bound: 100%}",     "{cluster: hgx-h100:1}",
		"{baseline: b.json}",      "{link: 10GB/s,2us}"};
	const char *const size = RARELY(3) ? "size: 8G, " : RARELY(3) ? "size: 1M-8G, " : "";

	if (RARELY(5)) {
		bb_strbuf_addf(out,
			       "      - shape: no-dip\n        from: {rule: a rule}\n"
			       "        down: %s\n",
			       DRAW_TEXT("0%", "5%", "20%", "60%"));
		return;
	}
	if (RARELY(5)) {
		bb_strbuf_addf(out,
			       "      - shape: crossover\n        from: {rule: a rule}\n"
			       "        between: %s\n        window: %s\n",
			       DRAW_TEXT("tree, ring", "ring, tree", "ring, auto"),
			       DRAW_TEXT("1K-64K", "64K-16M", "1M-1G", "2M-4M"));
		return;
	}
	bb_strbuf_addf(out, "      - metric: %s\n        where: {%scollective: all_reduce%s}\n",
		       DRAW_TEXT("busbw", "busbw", "peak", "time", "p99", "latency", "algbw"), size,
		       DRAW_TEXT("", "", ", placement: in-place", ", ranks: 8", ", algorithm: ring",
				 ", kind: pair"));
	bb_strbuf_addf(out, "        from: %s\n", DRAW_OF(from));
	if (!RARELY(4))
		bb_strbuf_addf(out, "        down: %s\n        up: %s\n",
			       DRAW_TEXT("5%", "10%", "30%", "90%"),
			       DRAW_TEXT("0%", "5%", "10%", "100%"));
	if (RARELY(3))
		bb_strbuf_addf(out, "        warn: %s\n", DRAW_TEXT("2%", "4%"));
}

/* The record of one measurement of about GBPS. */
static void result_draw(double GBps, uint64_t size, const char *algorithm, struct bb_strbuf *out)
{
	const double value = GBps * DRAW_WITHIN(0.97, 1.03);

	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"%s\",\"collective\":\"%s\","
		       "\"algorithm_asked\":\"%s\",\"nranks\":%d,\"in_place\":%s,"
		       "\"size_bytes\":%llu,\"busbw_GBps\":%.17g",
		       RARELY(12) ? "pair" : "result", RARELY(20) ? "reduce" : "all_reduce",
		       algorithm, (int)DRAW(8, 8, 8, 4), RARELY(2) ? "true" : "false",
		       (unsigned long long)size, RARELY(40) ? 0 : value);
	if (!RARELY(30))
		bb_strbuf_addf(out, ",\"time_us\":%.17g", (double)size / value / 1e3);
	if (RARELY(3))
		bb_strbuf_addf(out, ",\"p50_us\":%.17g,\"p99_us\":%.17g",
			       (double)size / value / 1e3 * DRAW_WITHIN(0.8, 1.2), 3e3 / value);
	if (RARELY(2))
		bb_strbuf_addf(out, ",\"algbw_GBps\":%.17g", value * 4 / 7);
	if (!RARELY(4))
		bb_strbuf_addf(out, ",\"percent_of_bound\":%.17g,\"bound_source\":\"%s\"",
			       DRAW(30, 41, 60, 101) * DRAW_WITHIN(0.97, 1.03),
			       DRAW_TEXT("link", "copy speed of a core"));
	if (RARELY(2))
		bb_strbuf_add(out, ",\"bound_doubt\":\"caches\"");
	if (RARELY(9))
		bb_strbuf_add(out, ",\"quantity\":\"latency\"");
	if (!RARELY(4))
		bb_strbuf_addf(out, ",\"wrong\":%s", RARELY(25) ? "3" : RARELY(8) ? "null" : "0");
	bb_strbuf_add(out, "}\n");
}

/* Records that are no results. */
static void others_draw(struct bb_strbuf *out)
{
	if (RARELY(3))
		bb_strbuf_addf(out,
			       "{\"schema\":1,\"kind\":\"end\",\"exit_status\":%d,"
			       "\"verdict\":\"%s\"}\n",
			       (int)DRAW(0, 1, 3), DRAW_TEXT("v", "wrong data"));
	if (RARELY(9))
		bb_strbuf_add(out, "{\"schema\":1,\"kind\":\"skip\",\"reason\":\"no such\"}\n");
	for (int i = 0; i < 3 && RARELY(6); i++)
		bb_strbuf_addf(out, "{\"schema\":1,\"kind\":\"culprit\",\"text\":\"text %d\"}\n",
			       i);
	for (int i = 0; i < 3 && RARELY(4); i++)
		bb_strbuf_addf(out,
			       "{\"schema\":1,\"kind\":\"counter\",\"host\":\"h%d\","
			       "\"device\":\"mlx5_%d:1\",\"counter\":\"%s\",\"class\":\"%s\","
			       "\"moved\":%d}\n",
			       (int)DRAW_BELOW(2), (int)DRAW_BELOW(2), DRAW_TEXT("a", "b"),
			       DRAW_TEXT("symbol error", "link down", "error", "other"),
			       (int)DRAW(-1, 0, 1, 7));
}

static void run_draw(double GBps, bool curve, struct bb_strbuf *out)
{
	const double slope = DRAW(0, 0.1, 0.3), cross = DRAW(12, 17, 20, 22, 25, 40);
	const int dip = (int)DRAW(-1, 18, 22, 33);

	bb_strbuf_addf(out, "{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":%s",
		       RARELY(8) ? "true" : "false");
	if (RARELY(2))
		bb_strbuf_addf(out, ",\"topology\":\"%s\"", DRAW_TEXT("t", "u"));
	if (RARELY(2))
		bb_strbuf_addf(out, ",\"nranks\":%d", (int)DRAW(8, 8, 8, 1, 16));
	bb_strbuf_add(out, "}\n");
	for (int log2 = curve ? 12 : 33; log2 <= 33; log2 += (int)DRAW(1, 2, 3, 5))
		for (int a = 0; a < (curve ? 3 : 1); a++) {
			static const char *const names[] = {"ring", "tree", "auto"};
			const double ratio = 1 + slope * (a == 1 ? log2 - cross : 0) / 20;

			if (RARELY(30) || (curve && a == 2 && RARELY(2)))
				continue;
			result_draw(GBps * ratio * (log2 == dip ? DRAW(0.3, 0.85, 0.97) : 1),
				    1ull << log2, names[curve ? a : 2], out);
		}
	others_draw(out);
}

static struct bb_step_run step_run_draw(double GBps, bool curve)
{
	struct bb_step_run run = {.trouble = ""};
	struct bb_strbuf text = {0};

	if (!RARELY(30))
		run_draw(GBps, curve, &text);
	records_read(bb_strbuf_text(&text), &run.records);
	bb_strbuf_free(&text);
	if (RARELY(12))
		run.outcome.status =
			(int)DRAW(BB_EDATA, BB_EUNSUPPORTED, BB_EBACKEND, -1, 137, 129);
	run.outcome.timed_out = RARELY(60);
	run.outcome.stopped_by = RARELY(60) ? 2 : 0;
	run.outcome.wall_s = 1;
	if (RARELY(40))
		snprintf(run.trouble, sizeof(run.trouble), "a record is cut");
	return run;
}

static void expectation_draw(struct bb_gate_expectation *x, const struct bb_step_run *run,
			     double GBps)
{
	char subject[BB_SUBJECT_TEXT];
	json_t *const entries = json_array();

	*x = (struct bb_gate_expectation){.predicted = step_run_draw(GBps, false)};
	for (size_t i = 0; i < run->records.n && i < 4; i++)
		json_array_append_new(
			entries,
			json_pack("{s:s, s:s, s:s, s:f}", "subject",
				  bb_record_subject(subject, &run->records.list[i], BB_SUBJECT_ALL),
				  "step", RARELY(9) ? "t" : "s", "metric",
				  DRAW_TEXT("busbw", "busbw", "time"), "mean", GBps));
	x->baseline = json_pack("{s:o, s:s}", "entries", entries, "topology", DRAW_TEXT("t", "u"));
}

static void gates_draw(struct sweep_texts *s)
{
	const struct bb_plan_cluster clusters[] = {
		{.cluster = NULL},
		{.cluster = "hgx-h100:1", .per_node = 8},
		{.cluster = "hgx-h100:1", .fault = "slow:1:2", .faulty = 2, .per_node = 8}};
	struct bb_strbuf text = {0};
	struct court c = {.n = 0};
	struct bb_error error = {.text = ""};
	struct bb_evidence *const e = &c.evidence[0];
	const double GBps = DRAW(100, 460, 480, 500, 300) * DRAW_WITHIN(0.9, 1.1);
	const double spread = DRAW(0, 0, 0.05, 0.4);
	const size_t gates = DRAW_BELOW(3);

	bb_strbuf_addf(&text,
		       "name: p\nsystem: hgx-h100\nranks: 8\nsteps:\n  - name: s\n"
		       "    run: %s -g 8\n",
		       DRAW_TEXT("all_reduce_perf", "all_reduce_perf", "diagnose"));
	bb_strbuf_add(&text, gates > 0 ? "    gates:\n" : "");
	for (size_t i = 0; i < gates; i++)
		gate_draw(&text);
	sweep_add(&s->numbers, bb_profile_read("p", bb_strbuf_text(&text), text.length,
					       &(struct bb_scale){.nodes = 0}, &c.profile, &error));
	sweep_texts_add(s, error.text);
	bb_strbuf_free(&text);
	if (!c.profile)
		return;
	c.n = 1;
	const bool curve = gates > 0 && c.profile->steps[0].gates[0].kind != BB_GATE_VALUE;
	*e = (struct bb_evidence){.step = &c.profile->steps[0],
				  .simulated = RARELY(3) ? &clusters[DRAW_BELOW(3)] : NULL,
				  .runs = c.runs[0],
				  .nruns = (size_t)DRAW(1, 1, 2, 3, MOST_RUNS),
				  .unneeded = RARELY(30),
				  .expected = c.expected[0]};
	for (size_t i = 0; i < e->nruns; i++)
		c.runs[0][i] = step_run_draw(GBps * DRAW_WITHIN(1 - spread, 1), curve);
	for (size_t i = 0; i < MOST_RUNS; i++)
		expectation_draw(&c.expected[0][i], &c.runs[0][0], GBps * DRAW(0.9, 1, 1.05, 1.12));
	for (size_t i = 0; i < gates; i++) {
		struct bb_strbuf line = {0};

		bb_plan_add_gate(&line, &c.profile->steps[0].gates[i]);
		sweep_texts_add(s, bb_strbuf_text(&line));
		bb_strbuf_free(&line);
	}
	sweep_add(&s->numbers, bb_judge_step(e, &c.judgements, &error));
	judgements_add(s, &c.judgements);
	court_free(&c);
}

static void test_gates(void **none)
{
	struct sweep_texts s = sweep_texts_open("acceptance_gates");

	for (int i = 1; i <= 3000; i++) {
		drawn_begin((uint64_t)i);
		gates_draw(&s);
		if (i % 100 == 0)
			sweep_texts_end(&s, "gates", i);
	}
	sweep_texts_close(&s);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

#define MOST_NODES 9

/* The nodes of which all groups are slow. */
struct slow {
	bool nodes[MOST_NODES];
	int64_t path; /* from this one to the next; -1: none */
	int only;     /* in groups of at least so many nodes */
};

static double group_GBps(const struct slow *slow, const struct bb_profile_step *step, int64_t group)
{
	const int64_t n = group < step->groups ? step->nodes : step->left;
	bool path[2] = {false, false}, bad = false;

	for (int64_t i = 0; i < n; i++) {
		const int64_t node = bb_step_node(step, group, i);

		bad |= slow->nodes[node];
		path[0] |= node == slow->path;
		path[1] |= node == (slow->path + 1) % bb_step_nodes(step);
	}
	bad = (bad || (path[0] && path[1])) && n >= slow->only;
	return (bad ? DRAW(60, 100, 118, 130) : 200) * DRAW_WITHIN(0.99, 1.01);
}

static void hosts_run_draw(const struct bb_profile_step *step, bool virtual, int on_host,
			   struct bb_strbuf *out)
{
	const int64_t each = step->ranks / step->nodes, all = bb_step_nodes(step);

	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":%s,"
		       "\"ranks\":[",
		       virtual ? "true" : "false");
	for (int64_t r = 0; r < all * each; r++) {
		bb_strbuf_addf(out, "%s{\"rank\":%d,\"device\":%d,\"group\":%d", r > 0 ? "," : "",
			       (int)r, (int)(r % each),
			       (int)((r / each + step->shift) % all / step->nodes));
		if (!RARELY(60))
			bb_strbuf_addf(out, ",\"host\":\"h%d\"", (int)(r / each) / on_host);
		bb_strbuf_add(out, "}");
	}
	bb_strbuf_add(out, "]}\n");
}

/* A result with the values of all groups and, perhaps, who came last. */
static void groups_draw(const struct bb_profile_step *step, const struct slow *slow, int late,
			struct bb_strbuf *out)
{
	const int64_t groups = step->groups + (step->left > 0);
	double values[MOST_NODES], least = INFINITY;

	for (int64_t g = 0; g < groups; g++) {
		values[g] = group_GBps(slow, step, g);
		least = fmin(least, values[g]);
	}
	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\","
		       "\"in_place\":%s,\"wrong\":%d,\"size_bytes\":1024,\"time_us\":%.17g,"
		       "\"busbw_GBps\":%.17g,\"percent_of_bound\":%.17g,\"bound_source\":\"link\"",
		       RARELY(2) ? "true" : "false", RARELY(40), 1e4 / least, least, least / 4);
	if (bb_step_is_split(step) && !RARELY(30)) {
		bb_strbuf_add(out, ",\"groups\":[");
		for (int64_t g = 0; g < groups; g++)
			bb_strbuf_addf(out, "%s%d", g > 0 ? "," : "", (int)g);
		bb_strbuf_add(out, "],\"group_busbw_GBps\":[");
		for (int64_t g = 0; g < groups; g++)
			bb_strbuf_addf(out, "%s%.17g", g > 0 ? "," : "",
				       RARELY(40) ? 0 : values[g]);
		bb_strbuf_add(out, "],\"group_time_us\":[");
		for (int64_t g = 0; g < groups; g++)
			bb_strbuf_addf(out, "%s%.17g", g > 0 ? "," : "", 1e4 / values[g]);
		bb_strbuf_add(out, "]");
	}
	if (late >= 0) {
		bb_strbuf_addf(out,
			       ",\"last_rank\":%d,\"iterations\":%d,\"last_share\":%g,"
			       "\"last_late_us\":%g",
			       RARELY(4) ? (int)DRAW_BELOW(3) : late, (int)DRAW(7, 8, 20, 20),
			       DRAW(0.7, 0.75, 0.9, 1), DRAW(5, 19, 21, 50, 400));
		if (RARELY(3))
			bb_strbuf_addf(out, ",\"clock_uncertainty_us\":%g", DRAW(1, 5, 20));
		if (RARELY(3))
			bb_strbuf_addf(out, ",\"p50_us\":%g", DRAW(0, 90, 150));
	}
	bb_strbuf_add(out, "}\n");
}

static void pairs_draw(struct bb_strbuf *out)
{
	for (int i = 0; i < 4; i++) {
		const int from = (int)DRAW_BELOW(4), to = (int)DRAW_BELOW(4);

		bb_strbuf_addf(out,
			       "{\"schema\":1,\"kind\":\"pair\",\"from\":%d,\"to\":%d,"
			       "\"from_host\":\"h%d\",\"to_host\":\"h%d\",\"busbw_GBps\":%.17g,"
			       "\"percent_of_bound\":%.17g,\"bound_source\":\"link\"}\n",
			       from, to, from / 2, to / 2, DRAW(60, 118, 200), DRAW(15, 29, 50));
	}
}

static void diagnosis_draw(struct bb_strbuf *out)
{
	for (int i = 0; i < 3; i++)
		if (RARELY(2))
			bb_strbuf_addf(out,
				       "{\"schema\":1,\"kind\":\"node\",\"host\":\"h%d\","
				       "\"verdict\":\"%s\",\"code\":\"BB-SLOW-NODE\"%s}\n",
				       (int)DRAW_BELOW(4), DRAW_TEXT("OK", "BAD", "SUSPECT", "odd"),
				       DRAW_TEXT("", ",\"reason\":\"node 3 sends at 20%\""));
		else
			bb_strbuf_addf(out,
				       "{\"schema\":1,\"kind\":\"culprit\",\"host\":\"h%d\","
				       "\"peer_host\":\"h%d\",\"code\":\"BB-SLOW-LINK\","
				       "\"text\":\"link %d\"}\n",
				       (int)DRAW_BELOW(3), (int)DRAW_BELOW(3), i);
}

static void bisection_add(struct sweep_texts *s, const struct bb_bisection *b)
{
	SWEEP_ADD(&s->numbers, (double)b->n, b->any, b->last, b->ran, b->failed);
	for (size_t i = 0; i < b->n; i++) {
		const struct bb_culprit *const c = &b->list[i];
		struct bb_strbuf text = {0};

		bb_culprit_add_text(c, &text);
		SWEEP_ADD(&s->numbers, (double)c->group, (double)c->node, c->limit, c->value,
			  c->excess, c->cleared, c->met_one);
		sweep_texts_add(s, bb_strbuf_text(&text));
		bb_strbuf_free(&text);
	}
}

static void nodes_add(struct sweep_texts *s, const struct bb_nodes *nodes)
{
	SWEEP_ADD(&s->numbers, (double)nodes->n, nodes->failed, (double)bb_nodes_suspected(nodes),
		  bb_nodes_find(nodes, "h1") != NULL);
	for (size_t i = 0; i < nodes->n; i++) {
		const struct bb_node *const node = &nodes->list[i];

		SWEEP_ADD(&s->numbers, node->verdict, node->present, (double)node->nvalues);
		sweep_texts_add(s, node->host);
		sweep_texts_add(s, node->code);
		sweep_texts_add(s, node->reason);
		for (size_t k = 0; k < node->nvalues; k++)
			SWEEP_ADD(&s->numbers, node->values[k].value, node->values[k].excess,
				  node->values[k].shared, node->values[k].grouped);
	}
}

static struct slow slow_draw(int all)
{
	struct slow slow = {.path = RARELY(4) ? (int64_t)DRAW_BELOW((size_t)all) : -1,
			    .only = (int)DRAW(0, 0, 0, 2, 3)};

	for (int i = 0; i < all; i++)
		slow.nodes[i] = RARELY(5);
	return slow;
}

/* A step of NODES nodes on ALL, with those that narrow it, and whom they blame. */
static void nodes_draw(struct sweep_texts *s)
{
	const int all = 2 + (int)DRAW_BELOW(MOST_NODES - 1), nodes = (int)DRAW(1, 2, 2, 3, 4, 8);
	const int each = (int)DRAW(1, 2, 2), on_host = (int)DRAW(1, 1, 1, 2, 20);
	const struct slow slow = slow_draw(all);
	const bool virtual = RARELY(6);
	const int late = RARELY(2) ? (int)DRAW_BELOW((size_t)all) : -1;
	const struct bb_plan_cluster simulated = {.cluster = "c",
						  .fault = RARELY(2) ? "f" : NULL,
						  .faulty = 1 + (int)DRAW_BELOW(4),
						  .ends = {(int)DRAW_BELOW(4), (int)DRAW_BELOW(4)},
						  .per_node = each};
	struct court c = {.n = 0};
	struct bb_error error = {.text = ""};
	struct bb_strbuf text = {0};
	struct bb_nodes found;

	bb_strbuf_addf(&text,
		       "name: p\nsteps:\n  - name: s\n    run: all_reduce_perf\n    nodes: %d\n"
		       "    ranks: %d\n    gates:\n      - metric: %s\n%s"
		       "        from: {bound: %s}\n        down: %s\n",
		       nodes, nodes * each, DRAW_TEXT("busbw", "busbw", "busbw", "peak"),
		       RARELY(5) ? "        where: {kind: pair}\n" : "", DRAW_TEXT("30%", "45%"),
		       DRAW_TEXT("0%", "10%"));
	sweep_add(&s->numbers,
		  bb_profile_read("p", bb_strbuf_text(&text), text.length,
				  &(struct bb_scale){.nodes = all}, &c.profile, &error));
	sweep_texts_add(s, error.text);
	bb_strbuf_free(&text);
	if (!c.profile)
		return;
	for (; c.n < c.profile->nsteps && c.n < MOST_STEPS; c.n++) {
		const struct bb_profile_step *const step = &c.profile->steps[c.n];
		struct bb_evidence *const e = &c.evidence[c.n];

		*e = (struct bb_evidence){.step = step,
					  .simulated = virtual ? &simulated : NULL,
					  .runs = c.runs[c.n],
					  .nruns = (size_t)DRAW(1, 1, 2),
					  .unneeded = c.n > 0 && RARELY(8)};
		for (size_t i = 0; i < e->nruns; i++) {
			struct bb_strbuf records = {0};

			hosts_run_draw(step, virtual, on_host, &records);
			groups_draw(step, &slow, late, &records);
			if (RARELY(2))
				groups_draw(step, &slow, late, &records);
			if (RARELY(3))
				pairs_draw(&records);
			if (RARELY(12))
				diagnosis_draw(&records);
			records_read(bb_strbuf_text(&records), &c.runs[c.n][i].records);
			bb_strbuf_free(&records);
		}
		c.runs[c.n][0].outcome.status = RARELY(30) ? 3 : 0;
		sweep_add(&s->numbers, bb_judge_step(e, &c.judgements, &error));
	}
	for (size_t i = 0; i < c.n; i++) {
		struct bb_bisection b =
			bb_bisect(c.evidence, c.n, c.evidence[i].step, &c.judgements);

		bisection_add(s, &b);
		free(b.list);
	}
	sweep_add(&s->numbers, bb_nodes_judge(c.evidence, c.n, &c.judgements, &found, &error));
	nodes_add(s, &found);
	bb_nodes_free(&found);
	judgements_add(s, &c.judgements);
	court_free(&c);
}

static void test_nodes(void **none)
{
	struct sweep_texts s = sweep_texts_open("acceptance_nodes");

	for (int i = 1; i <= 1200; i++) {
		drawn_begin((uint64_t)i);
		nodes_draw(&s);
		if (i % 60 == 0)
			sweep_texts_end(&s, "nodes", i);
	}
	sweep_texts_close(&s);
}

/* ---- commands ------------------------------------------------------------------------------- */

static const struct bb_plan_cluster planned[] = {
	{.cluster = NULL},
	{.cluster = "hgx-h100:2", .per_node = 8},
	{.cluster = "hgx-h100:4", .fault = "slow:3:2"},
	{.cluster = "hgx-h100:4", .fault = "slow_node:2:3"},
	{.cluster = "hgx-h100:3", .fault = "slow_rail:1:2:3"},
	{.cluster = "hgx-h100:2", .fault = "lost_rail:0:1"},
	{.cluster = "hgx-h100:4", .fault = "slow_link:3:9:4"},
	{.cluster = "gb200-nvl72:20", .fault = "slow_rail:1:2:3"},
	{.cluster = "hgx-h100:1", .fault = "slow:99:2"},
	{.cluster = "nonsense"},
	{.cluster = "a\x1b'\\\xc3"},
	{.cluster = "hgx-h100:2", .fault = "nonsense"},
	{.cluster = "hgx h100"},
	{.cluster = NULL, .fault = "slow:1:2"}};

static void profile_draw(struct bb_strbuf *out)
{
	const int steps = 1 + (int)DRAW_BELOW(3);

	bb_strbuf_add(out, "name: p\nsystem: hgx-h100\n");
	if (!RARELY(5))
		bb_strbuf_addf(out, "ranks: %d\n", (int)DRAW(1, 8, 8, 16, 6));
	if (RARELY(3))
		bb_strbuf_addf(out, "nodes: %d\n", (int)DRAW(1, 2, 3));
	if (RARELY(2))
		bb_strbuf_addf(out, "launcher: %s\n", DRAW_TEXT("mpirun", "srun", "local", "ssh"));
	if (RARELY(3))
		bb_strbuf_add(out, "launcher_args: --all {nodes} x{ranks}y {none}\n");
	bb_strbuf_add(out, "steps:\n");
	for (int i = 0; i < steps; i++) {
		bb_strbuf_addf(out, "  - name: s%d\n    run: %s %s %s\n", i,
			       DRAW_TEXT("all_reduce_perf", "all_reduce_perf", "other_perf"),
			       DRAW_TEXT("-g {per_node}", "", "-g 8", "-g 0 -t 4", "-t 2 -g 4",
					 "--ngpus=2", "-n {ranks} -w {nodes} -g 16"),
			       DRAW_TEXT("", "", "--backend host", "--backend mpi",
					 "--back nccl -b $HOME;'é'\\\\",
					 "--back nccl \xe2\x80\xae'\\"));
		if (RARELY(3))
			bb_strbuf_addf(out, "    launcher: %s\n",
				       DRAW_TEXT("mpirun", "srun", "local"));
		if (RARELY(5))
			bb_strbuf_add(out, "    launcher_args: --own\n");
		if (RARELY(2))
			bb_strbuf_addf(out, "    nodes: %s\n", DRAW_TEXT("2", "3", "all", "1"));
		if (RARELY(4))
			bb_strbuf_addf(out, "    ranks: %d\n", (int)DRAW(16, 8, 24, 6));
		if (RARELY(5))
			bb_strbuf_addf(out, "    modes: %s\n", DRAW_TEXT("quick", "full"));
		if (RARELY(2)) {
			bb_strbuf_add(out, "    gates:\n");
			gate_draw(out);
		}
	}
}

static void commands_add(struct sweep_texts *s, const struct bb_profile *p,
			 const struct bb_profile_step *t, const struct bb_plan_cluster *simulated)
{
	static const struct bb_places places = {"bin", "out put"};

	SWEEP_ADD(&s->numbers, (double)bb_plan_faulty_group(simulated, t),
		  bb_plan_has_fault(simulated, t), (double)bb_plan_nodes(simulated, t),
		  (double)bb_plan_faulty_group(NULL, t), (double)bb_plan_nodes(NULL, t));
	for (size_t g = 0; g <= t->ngates; g++) {
		const struct bb_gate *const gate = g < t->ngates ? &t->gates[g] : NULL;
		struct bb_words_list words;
		struct bb_strbuf line = {0};
		struct bb_error error = {.text = ""};

		if (gate && gate->from.kind != BB_FROM_SIMULATOR)
			continue;
		sweep_add(&s->numbers,
			  bb_plan_command(p, t, simulated, gate, &places, &words, &error));
		sweep_add(&s->numbers, (double)words.n);
		bb_plan_add_line(&line, &words);
		sweep_texts_add(s, bb_strbuf_text(&line));
		bb_strbuf_free(&line);
		bb_words_free(&words);
	}
}

static void test_commands(void **none)
{
	struct sweep_texts s = sweep_texts_open("acceptance_commands");
	char folder[] = "/tmp/busbench-sweep-XXXXXX", path[64];

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/all_reduce_perf", folder);
	FILE *const file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(chmod(path, 0700), 0);
	for (int i = 1; i <= 3000; i++) {
		drawn_begin((uint64_t)i);
		const struct bb_scale scale = {.nodes = (long long)DRAW(0, 0, 1, 2, 3, 4, 5, 9),
					       .per_node = (long long)DRAW(0, 0, 0, 4, 8)};
		struct bb_plan_cluster simulated = DRAW_OF(planned);
		struct bb_profile *p = NULL;
		struct bb_error error = {.text = ""};
		struct bb_strbuf text = {0};

		profile_draw(&text);
		sweep_add(&s.numbers, bb_profile_read("p", bb_strbuf_text(&text), text.length,
						      &scale, &p, &error));
		sweep_texts_add(&s, error.text);
		bb_strbuf_free(&text);
		error.text[0] = '\0';
		if (p) {
			const bb_status st = bb_plan_check(
				p, "p", folder, RARELY(2) ? BB_QUICK : BB_FULL, &simulated, &error);
			char *const at = strstr(error.text, folder);

			if (at)
				*at = '\0';
			SWEEP_ADD(&s.numbers, st, simulated.faulty, simulated.ends[0],
				  simulated.ends[1], simulated.per_node);
			sweep_texts_add(&s, error.text);
			for (uint32_t k = 0; k < p->nsteps; k++)
				commands_add(&s, p, &p->steps[k], &simulated);
		}
		bb_profile_free(p);
		if (i % 150 == 0)
			sweep_texts_end(&s, "profiles", i);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	sweep_texts_close(&s);
}

/* ---- fleets and confidence ------------------------------------------------------------------ */

#define MOST_FLEET 14
#define MOST_ROWS 8

static struct bb_claims member_draw(struct bb_claim rows[MOST_ROWS], double spread)
{
	struct bb_claims c = {.nranks = RARELY(20) ? 0 : 8, .hosts = RARELY(9) ? 2 : 1};
	const double slow = RARELY(6) ? DRAW(0.2, 0.6, 0.9, 0.94, 0.96) : 1;
	const bool both = !RARELY(3);

	snprintf(c.collective, sizeof(c.collective), "%s",
		 RARELY(9) ? DRAW_TEXT("", "all_gather") : "all_reduce");
	snprintf(c.type, sizeof(c.type), "%s", RARELY(30) ? "half" : "float");
	snprintf(c.op, sizeof(c.op), "%s", RARELY(30) ? "max" : "sum");
	snprintf(c.gpu, sizeof(c.gpu), "%s", RARELY(30) ? "" : "H100");
	snprintf(c.algorithm, sizeof(c.algorithm), "%s", RARELY(30) ? "ring" : "");
	snprintf(c.host, sizeof(c.host), "%s", RARELY(3) ? "" : "host");
	c.list = rows;
	for (int i = 0; i < MOST_ROWS && c.n < MOST_ROWS; i++) {
		if (RARELY(12))
			continue;
		rows[c.n++] = (struct bb_claim){
			.size_bytes = 1ull << (20 + i / 2 + (RARELY(30) ? 9 : 0)),
			.in_place = both && i % 2,
			.busbw_GBps = RARELY(40) ? 0
						 : 100 * (slow < 1 && i / 2 == 1 ? slow : 1) *
							   DRAW_WITHIN(1 - spread, 1)};
	}
	if (RARELY(20)) {
		const struct bb_fact fact = {.line = 1};

		assert_true(bb_claims_add_fact(
			&c, RARELY(2) ? BB_FACT_ALGORITHM : BB_FACT_MNNVL_OFF, &fact));
	}
	return c;
}

static void test_fleets(void **none)
{
	static const char *const names[MOST_FLEET] = {"a", "b", "c", "d", "e", "f", "g",
						      "h", "i", "j", "k", "l", "m", "n"};
	struct sweep_texts s = sweep_texts_open("acceptance_fleets");

	for (int i = 1; i <= 3000; i++) {
		drawn_begin((uint64_t)i);
		struct bb_claim rows[MOST_FLEET][MOST_ROWS];
		struct bb_claims claims[MOST_FLEET];
		struct bb_fleet_run runs[MOST_FLEET];
		struct bb_strbuf out = {0};
		const size_t n = DRAW_BELOW(MOST_FLEET + 1);
		const double spread = DRAW(0, 0.01, 0.05, 0.2);

		for (size_t k = 0; k < n; k++) {
			claims[k] = member_draw(rows[k], spread);
			runs[k] = (struct bb_fleet_run){names[k], &claims[k]};
		}
		sweep_add(&s.numbers, bb_fleet_judge(runs, n, &out));
		sweep_texts_add(&s, bb_strbuf_text(&out));
		bb_strbuf_free(&out);
		for (size_t k = 0; k < n; k++)
			free(claims[k].facts);
		if (i % 150 == 0)
			sweep_texts_end(&s, "fleets", i);
	}
	sweep_texts_close(&s);
}

static void confidence_add(struct sweep *s, const struct bb_confidence *c)
{
	SWEEP_ADD(s, (double)c->n, c->mean, c->stdev, c->low, c->high);
}

static void test_confidence(void **none)
{
	static const double chances[] = {0.51, 0.7, 0.9, 0.95, 0.975, 0.999, 0.999999};
	struct sweep s = sweep_open("acceptance_confidence");

	for (int half = 1; half < 60; half++) {
		const double degrees = half * half / 2.0;

		for (size_t i = 0; i < sizeof(chances) / sizeof(chances[0]); i++)
			sweep_add(&s, bb_student_quantile(chances[i], degrees));
		for (int t = 0; t < 40; t++)
			sweep_add(&s, bb_student_beyond(t * t / 16.0, degrees));
	}
	sweep_end(&s, "Student's t");
	for (int i = 0; i < 2000; i++) {
		drawn_begin((uint64_t)i);
		struct bb_curve_point points[40];
		struct bb_dip dip;
		double values[24];
		const size_t n = 1 + DRAW_BELOW(8), step = 1 + DRAW_BELOW(3),
			     runs = 1 + DRAW_BELOW(4);
		size_t length = 0;

		for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++)
			values[k] = DRAW_WITHIN(1, 2);
		const struct bb_confidence c = bb_confidence_every(values, n, step);
		confidence_add(&s, &c);
		for (size_t size = 1; size < 10; size++)
			for (size_t run = 0; run < runs; run++)
				if (!RARELY(5))
					points[length++] = (struct bb_curve_point){
						(double)size, DRAW_WITHIN(RARELY(5) ? 0.5 : 0.9, 1),
						run};
		sweep_add(&s, bb_dip_find(points, length, runs, &dip));
		sweep_add(&s, dip.size);
		confidence_add(&s, &dip.ratio);
	}
	sweep_end(&s, "means and dips");
	sweep_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gates),      cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_commands),   cmocka_unit_test(test_fleets),
		cmocka_unit_test(test_confidence),
	};

	return cmocka_run_group_tests_name("acceptance_sweep", tests, NULL, NULL);
}
