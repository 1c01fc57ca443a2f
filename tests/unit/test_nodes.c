/*
 * Whom acceptance blames: culprits of groups that get smaller step by step, and the values that
 * each host has by itself, in a pair and in a group.
 */
#include "acceptance/nodes.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 5 /* steps of a case */

/* The steps of a profile, each with one run. */
struct family {
	struct bb_profile *profile;
	struct bb_step_run runs[MOST];
	struct bb_evidence evidence[MOST];
	struct bb_judgements judgements;
	size_t n;
};

/* A run of STEP whose ranks are on h0, h1, …, or in virtual time. */
static void run_text(const struct bb_profile_step *step, bool virtual, struct bb_strbuf *out)
{
	const int64_t each = step->ranks / step->nodes, all = bb_step_nodes(step);

	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":%s,"
		       "\"ranks\":[",
		       virtual ? "true" : "false");
	for (int64_t r = 0; r < all * each; r++)
		bb_strbuf_addf(out, "%s{\"rank\":%d,\"host\":\"h%d\",\"group\":%d}",
			       r > 0 ? "," : "", (int)r, (int)(r / each),
			       (int)((r / each + step->shift) % all / step->nodes));
	bb_strbuf_add(out, "]}\n");
}

/* A result of 200 GB/s, which is half of its bound of 400, and of these groups; NULL: of none. A
   value of a step that is not split is GROUPS alone. */
static void result_text(const struct bb_profile_step *step, const char *groups,
			struct bb_strbuf *out)
{
	const bool split = groups && bb_step_is_split(step);
	const double value = groups && !split ? strtod(groups, NULL) : 200;

	bb_strbuf_addf(out,
		       "{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\","
		       "\"in_place\":true,\"wrong\":0,\"size_bytes\":1024,\"time_us\":1,"
		       "\"busbw_GBps\":%g,\"percent_of_bound\":%g,\"bound_source\":\"link\"",
		       value, value / 4);
	if (split)
		bb_strbuf_addf(out,
			       ",\"groups\":[0,1,2,3],\"group_busbw_GBps\":[%s],"
			       "\"group_time_us\":[%s]",
			       groups, groups);
	bb_strbuf_add(out, "}\n");
}

static void family_read(struct family *f, const char *profile, int nodes)
{
	struct bb_error error = {0};

	memset(f, 0, sizeof(*f));
	if (bb_profile_read("p", profile, strlen(profile), &(struct bb_scale){.nodes = nodes},
			    &f->profile, &error) != BB_OK)
		fail_msg("%s", error.text);
}

/* Adds the next step, with the records TEXT. */
static void family_add(struct family *f, const char *text, struct bb_gate_expectation *expected)
{
	struct bb_error error = {0};
	struct bb_evidence *const e = &f->evidence[f->n];

	assert_true(f->n < MOST && f->n < f->profile->nsteps);
	assert_int_equal(bb_records_read("r", text, strlen(text), &f->runs[f->n].records, &error),
			 BB_OK);
	*e = (struct bb_evidence){.step = &f->profile->steps[f->n],
				  .runs = &f->runs[f->n],
				  .nruns = 1,
				  .expected = expected};
	assert_int_equal(bb_judge_step(e, &f->judgements, &error), BB_OK);
	f->n++;
}

static void family_free(struct family *f)
{
	for (size_t i = 0; i < f->n; i++)
		bb_records_free(&f->runs[i].records);
	bb_judgements_free(&f->judgements);
	bb_profile_free(f->profile);
}

/* ---- culprits ------------------------------------------------------------------------------- */

struct culprit {
	int step, group, node;
	double value;
	bool cleared, met_one;
	const char *text;
};

static const struct {
	int all, nodes, each;         /* of the step, ranks of each */
	const char *groups[MOST - 1]; /* GB/s of its groups and of narrower ones; limit: 120 */
	struct culprit want[3];
	bool any, last;
} culprits[] = {
	/* Groups of 4, then 0 and 1, 2 and 3, …, then 7 and 0, 1 and 2, … */
	{8,
	 4,
	 2,
	 {"200,80", "200,200,90,200", "200,200,70,200"},
	 {{1, 2, 4, 90, false, false,
	   "h4: busbw 90 GB/s with h5, limit 120; h5 keeps to it with another node"}},
	 true,
	 true},
	/* The slow pair alone counts, in whichever step it is. */
	{8,
	 4,
	 1,
	 {"200,80", "200,200,200,200", "119,200,200,200"},
	 {{2, 0, -1, 119, true, false,
	   "h7 and h0: busbw 119 GB/s, limit 120; each keeps to it with another node"}},
	 true,
	 true},
	{8,
	 4,
	 2,
	 {"200,80", "200,120,200,200", "200,200,200,200"},
	 {{0, 1, -1, 80, false, false,
	   "no single node or pair of h4 to h7: busbw 80 GB/s, limit 120; no smaller group of them "
	   "is beyond it"}},
	 true,
	 false},
	/* The second group has three nodes. */
	{7,
	 4,
	 1,
	 {"200,80", "200,200,200", "200,200,200"},
	 {{0, 1, -1, 80, false, false,
	   "no single node or pair of h4 to h6: busbw 80 GB/s, limit 120; no smaller group of them "
	   "is beyond it"}},
	 true,
	 false},
	/* One group of all nodes. */
	{4,
	 4,
	 1,
	 {"80", "90,200", "200,70"},
	 {{1, 0, 1, 90, false, false,
	   "h1: busbw 90 GB/s with h0, limit 120; h0 keeps to it with another node"}},
	 true,
	 true},
	/* Pairs; 4 is left over, and then 3. */
	{5,
	 2,
	 1,
	 {"200,90", "200,200"},
	 {{0, 1, 3, 90, false, true,
	   "h3 or its path to h2: busbw 90 GB/s, limit 120; h2 keeps to it with another node"}},
	 true,
	 false},
	{5,
	 2,
	 2,
	 {"200,200", "90,200"},
	 {{1, 0, 4, 90, false, true,
	   "h4 or its path to h0: busbw 90 GB/s, limit 120; h0 keeps to it with another node"}},
	 true,
	 true},
	{3,
	 2,
	 1,
	 {"90", "80"},
	 {{0, 0, -1, 90, false, false,
	   "h0 and h1: busbw 90 GB/s, limit 120; neither has met a node that keeps to it"},
	  {1, 0, -1, 80, false, false,
	   "h2 and h0: busbw 80 GB/s, limit 120; neither has met a node that keeps to it"}},
	 true,
	 true},
	/* Both of a pair, each slow with a good neighbour. */
	{6,
	 2,
	 1,
	 {"200,50,200", "200,60,70"},
	 {{1, 1, 2, 60, false, false,
	   "h2: busbw 60 GB/s with h1, limit 120; h1 keeps to it with another node"},
	  {1, 2, 3, 70, false, false,
	   "h3: busbw 70 GB/s with h4, limit 120; h4 keeps to it with another node"}},
	 true,
	 true},
	{8, 4, 1, {"200,121", "200,200,200,200", "200,200,200,200"}, {{.value = 0}}, false, false},
	/* A group that was not measured is none. */
	{8, 4, 1, {"0,200", "0,0,0,0", "0,200,200,200"}, {{.value = 0}}, false, false},
};

static void case_read(struct family *f, size_t i, bool virtual)
{
	char profile[512];

	snprintf(profile, sizeof(profile),
		 "name: p\nsteps:\n  - name: s\n    ranks: %d\n    nodes: %d\n    run: "
		 "all_reduce_perf\n    gates:\n      - metric: busbw\n        from: {bound: "
		 "30%%}\n",
		 culprits[i].nodes * culprits[i].each, culprits[i].nodes);
	family_read(f, profile, culprits[i].all);
	for (int k = 0; k < MOST - 1 && culprits[i].groups[k]; k++) {
		struct bb_strbuf text = {0};

		run_text(&f->profile->steps[k], virtual, &text);
		result_text(&f->profile->steps[k], culprits[i].groups[k], &text);
		family_add(f, bb_strbuf_text(&text), NULL);
		bb_strbuf_free(&text);
	}
	assert_int_equal(f->n, f->profile->nsteps);
}

static void test_bisection(void **state)
{
	for (size_t i = 0; i < sizeof(culprits) / sizeof(culprits[0]); i++) {
		struct family f;
		struct bb_bisection b;
		size_t n = 0;

		case_read(&f, i, false);
		b = bb_bisect(f.evidence, f.n, f.profile->steps, &f.judgements);
		while (n < 3 && culprits[i].want[n].value > 0)
			n++;
		if (b.n != n || b.any != culprits[i].any || b.last != culprits[i].last)
			fail_msg("%zu: %zu culprits, %d, %d", i, b.n, b.any, b.last);
		assert_true(b.ran && !b.failed);
		for (size_t k = 0; k < n; k++) {
			const struct culprit *const want = &culprits[i].want[k];
			const struct bb_culprit *const c = &b.list[k];
			struct bb_strbuf text = {0};

			assert_ptr_equal(c->evidence, &f.evidence[want->step]);
			assert_int_equal(c->group, want->group);
			assert_int_equal(c->node, want->node);
			assert_float_equal(c->value, want->value, 1e-9);
			assert_float_equal(c->limit, 120, 1e-9);
			if (c->node < 0)
				assert_int_equal(c->cleared, want->cleared);
			assert_int_equal(c->met_one, want->met_one);
			assert_string_equal(c->measure->name, "busbw");
			bb_culprit_add_text(c, &text);
			assert_string_equal(bb_strbuf_text(&text), want->text);
			bb_strbuf_free(&text);
		}
		free(b.list);
		/* Steps that were not needed show nothing. */
		for (size_t k = 1; k < f.n; k++)
			f.evidence[k].unneeded = true;
		b = bb_bisect(f.evidence, f.n, f.profile->steps, &f.judgements);
		assert_false(b.ran);
		assert_int_equal(b.last, b.any);
		for (size_t k = 0; k < b.n; k++)
			assert_ptr_equal(b.list[k].evidence, f.evidence);
		free(b.list);
		/* No step narrows the first that narrows it. */
		b = bb_bisect(f.evidence, f.n, &f.profile->steps[1], &f.judgements);
		assert_int_equal(b.n, 0);
		assert_false(b.any || b.ran || b.failed);
		family_free(&f);
	}
}

/* What the hosts of those culprits are, and the judgement that names them. */
static void test_culprits_of_nodes(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(culprits) / sizeof(culprits[0]); i++) {
		const bool virtual = i % 2;
		const struct culprit *const want = culprits[i / 2].want;
		struct bb_error error = {0};
		struct bb_nodes nodes;
		struct family f;
		size_t before, n = 0;

		case_read(&f, i / 2, virtual);
		before = f.judgements.n;
		assert_int_equal(bb_nodes_judge(f.evidence, f.n, &f.judgements, &nodes, &error),
				 BB_OK);
		while (n < 3 && want[n].value > 0)
			n++;
		assert_int_equal(f.judgements.n, before + (n > 0));
		if (n > 0) {
			const struct bb_judgement *const j = &f.judgements.list[before];

			assert_string_equal(j->metric, "culprit");
			assert_int_equal(j->verdict, BB_FAILED);
			assert_ptr_equal(j->step, f.profile->steps);
			assert_null(j->gate);
			if (!virtual)
				assert_ptr_equal(strstr(j->reason, want[0].text), j->reason);
			if (!virtual && n == 2)
				assert_string_equal(j->reason + strlen(want[0].text) + 2,
						    want[1].text);
			assert_int_equal(strstr(j->reason, "; ") == j->reason, 0);
			/* Without hosts nodes have numbers. */
			if (virtual && i / 2 == 0)
				assert_string_equal(j->reason,
						    "node 4: busbw 90 GB/s with node 5, limit 120; "
						    "node 5 keeps to it with another node");
		}
		assert_int_equal(nodes.n, virtual ? 0 : culprits[i / 2].all);
		/* The data is right, and a step that passes blames the culprit alone. */
		for (size_t k = 0; k < nodes.n; k++) {
			const bool blamed = n > 0 && want[0].node == (int)k;

			assert_string_not_equal(nodes.list[k].code, "BB-WRONG-DATA");
			if (n == 1 && want[0].step > 0 && want[0].met_one)
				assert_int_equal(nodes.list[k].verdict,
						 blamed ? BB_NODE_SUSPECT : BB_NODE_OK);
		}
		for (size_t k = 0; k < n && !virtual; k++) {
			const struct bb_node *node;
			char text[512];

			if (want[k].node < 0 || want[k].met_one)
				continue;
			node = &nodes.list[want[k].node];
			assert_int_equal(node->verdict, BB_NODE_BAD);
			assert_string_equal(node->code, "BB-BELOW-GATE");
			snprintf(text, sizeof(text), "%s: %s", f.profile->steps[want[k].step].name,
				 want[k].text);
			assert_string_equal(node->reason, text);
		}
		bb_nodes_free(&nodes);
		assert_null(nodes.list);
		family_free(&f);
	}
}

/* In virtual time the group with the fault alone is simulated: its value is that of the whole
   record, and all others keep to the limit. */
static void test_simulated_groups(void **state)
{
	static const struct {
		const char *cluster;
		double value; /* of the first step */
		int group;    /* beyond the limit; -1: none */
	} cases[] = {{"c", 80, 1}, {"c", 121, -1}, {NULL, 80, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_plan_cluster simulated = {.cluster = cases[i].cluster,
							  .fault = "slow:5",
							  .faulty = 6,
							  .ends = {5, 5},
							  .per_node = 1};
		struct bb_strbuf text = {0};
		struct bb_bisection b;
		struct family f;

		family_read(&f,
			    "name: p\nsteps:\n  - name: s\n    ranks: 4\n    nodes: 4\n    run: "
			    "all_reduce_perf\n    gates:\n      - metric: busbw\n        from: "
			    "{bound: 30%}\n",
			    8);
		run_text(f.profile->steps, true, &text);
		bb_strbuf_addf(&text,
			       "{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\","
			       "\"in_place\":true,\"wrong\":0,\"size_bytes\":1024,\"time_us\":1,"
			       "\"busbw_GBps\":%g,\"percent_of_bound\":%g,\"bound_source\":"
			       "\"link\",\"groups\":[0,1],\"group_busbw_GBps\":[70,200]}\n",
			       cases[i].value, cases[i].value / 4);
		family_add(&f, bb_strbuf_text(&text), NULL);
		f.evidence[0].simulated = &simulated;
		b = bb_bisect(f.evidence, 1, f.profile->steps, &f.judgements);
		assert_int_equal(b.n, cases[i].group >= 0);
		assert_int_equal(b.any, cases[i].group >= 0);
		if (b.n > 0) {
			assert_int_equal(b.list[0].group, cases[i].group);
			assert_int_equal(b.list[0].node, -1);
			/* On real nodes each group has its own. */
			assert_float_equal(b.list[0].value, (cases[i].cluster ? 80 : 70), 1e-9);
		}
		free(b.list);
		bb_strbuf_free(&text);
		family_free(&f);
	}
}

/* ---- values --------------------------------------------------------------------------------- */

struct value {
	double value; /* 0: no more of them */
	bool shared, grouped;
};

static void values_check(const struct bb_node *node, const struct value *want, double limit,
			 bool more_is_better)
{
	size_t n = 0;

	for (; n < 3 && want[n].value > 0; n++) {
		const struct bb_node_value *const v = &node->values[n];

		if (n >= node->nvalues)
			fail_msg("%s: %zu values", node->host, node->nvalues);
		assert_float_equal(v->value, want[n].value, 1e-9);
		assert_int_equal(v->shared, want[n].shared);
		assert_int_equal(v->grouped, want[n].grouped);
		/* exp(excess) is how many times it is beyond the limit. */
		assert_float_equal(exp(v->excess),
				   (more_is_better ? limit / v->value : v->value / limit), 1e-6);
	}
	assert_int_equal(node->nvalues, n);
}

#define OWN(value)                                                                                 \
	{                                                                                          \
		value, false, false                                                                \
	}
#define PAIRED(value)                                                                              \
	{                                                                                          \
		value, true, false                                                                 \
	}
#define PROFILE(name)                                                                              \
	"name: p\nsteps:\n  - name: s\n    run: " name "\n    gates:\n      - metric: "
#define RANKS4                                                                                     \
	"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":false,\"ranks\":["       \
	"{\"rank\":0,\"host\":\"h0\",\"group\":0},{\"rank\":1,\"host\":\"h0\",\"group\":0},"       \
	"{\"rank\":2,\"host\":\"h1\",\"group\":1},{\"rank\":3,\"host\":\"h1\",\"group\":1},"       \
	"{\"rank\":4,\"host\":\"h2\",\"group\":2},{\"rank\":5,\"host\":\"h2\",\"group\":3}]}\n"
#define RESULT(rest)                                                                               \
	"{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\",\"in_place\":true,"       \
	"\"wrong\":0,\"percent_of_bound\":50,\"bound_source\":\"link\"" rest "}\n"
#define OF_GROUPS(values)                                                                          \
	RESULT(",\"size_bytes\":1024,\"time_us\":5,\"busbw_GBps\":200,\"groups\":[0,1,2,3],"       \
	       "\"group_busbw_GBps\":[" values "],\"group_time_us\":[4,5,7,9]")
#define PAIR(a, b, from, to, bandwidth)                                                            \
	"{\"schema\":1,\"kind\":\"pair\",\"quantity\":\"bandwidth\",\"from\":" a ",\"to\":" b ","  \
	"\"from_host\":\"" from "\",\"to_host\":\"" to "\",\"direction\":\"unidirectional\","      \
	"\"wrong\":0,\"GBps\":" bandwidth ",\"percent_of_bound\":" bandwidth                       \
	",\"bound_source\":\"link\"}\n"

static void test_values_of_hosts(void **state)
{
	static const struct {
		const char *profile, *records;
		double limit;
		bool more_is_better;
		struct value want[4][3];
		enum bb_node_verdict verdicts[4];
	} cases[] = {
		/* 400 is the bound. h2 has two groups of a rank each: their mean. */
		{PROFILE("all_reduce_perf") "busbw\n        from: {bound: 30%}\n",
		 RANKS4 OF_GROUPS("200,110,100,180"),
		 120,
		 true,
		 {{OWN(200)}, {OWN(110)}, {OWN(140)}},
		 {BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_OK}},
		/* Of two results the worse. */
		{PROFILE("all_reduce_perf") "busbw\n        from: {bound: 30%}\n",
		 RANKS4 OF_GROUPS("200,110,100,180")
			 RESULT(",\"size_bytes\":2048,\"time_us\":1,\"busbw_GBps\":200,\"groups\":["
				"0,1,2,3],\"group_busbw_GBps\":[190,300,240,280]"),
		 120,
		 true,
		 {{OWN(190)}, {OWN(110)}, {OWN(140)}},
		 {BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_OK}},
		/* No value of a group: 0 is none. */
		{PROFILE("all_reduce_perf") "busbw\n        from: {bound: 30%}\n",
		 RANKS4 OF_GROUPS("0,110,0,180"),
		 120,
		 true,
		 {{OWN(0)}, {OWN(110)}, {OWN(180)}},
		 {BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_OK}},
		/* Fewer values than groups */
		{PROFILE("all_reduce_perf") "busbw\n        from: {bound: 30%}\n",
		 RANKS4 OF_GROUPS("200,110,100"),
		 120,
		 true,
		 {{OWN(0)}, {OWN(0)}, {OWN(0)}},
		 {BB_NODE_OK, BB_NODE_OK, BB_NODE_OK}},
		/* Times: 5 us are expected, and 25% more are allowed. */
		{PROFILE("all_reduce_perf") "time\n        from: {baseline: b.json}\n        up: "
					    "25%\n",
		 RANKS4 OF_GROUPS("200,200,200,200"),
		 6.25,
		 false,
		 {{OWN(4)}, {OWN(5)}, {OWN(8)}},
		 {BB_NODE_OK, BB_NODE_OK, BB_NODE_SUSPECT}},
		/* Of pairs: the worst within a host, the best with others. */
		{PROFILE("all_reduce_perf") "bandwidth\n        where: {kind: pair}\n        from: "
					    "{bound: 50%}\n",
		 RANKS4 PAIR("0", "1", "h0", "h0", "80") PAIR("1", "0", "h0", "h0", "70")
			 PAIR("0", "2", "h0", "h1", "10") PAIR("4", "2", "h2", "h1", "30")
				 PAIR("2", "0", "h1", "h0", "20"),
		 50,
		 true,
		 {{OWN(70), PAIRED(20)}, {PAIRED(30)}, {PAIRED(30)}},
		 {BB_NODE_UNKNOWN, BB_NODE_UNKNOWN, BB_NODE_UNKNOWN}},
		/* Not of a host that no run has */
		{PROFILE("all_reduce_perf") "bandwidth\n        where: {kind: pair}\n        from: "
					    "{bound: 50%}\n",
		 RANKS4 PAIR("6", "2", "h9", "h1", "80"),
		 50,
		 true,
		 {{OWN(0)}, {PAIRED(80)}, {OWN(0)}},
		 {BB_NODE_OK, BB_NODE_OK, BB_NODE_OK}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		struct bb_gate_expectation expected = {
			.baseline = json_pack("{s:[{s:s,s:s,s:s,s:i}]}", "entries", "subject",
					      "all_reduce 1K in-place", "step", "s", "metric",
					      "time", "mean", 5)};
		struct bb_nodes nodes;
		struct family f;

		assert_non_null(expected.baseline);
		family_read(&f, cases[i].profile, 0);
		family_add(&f, cases[i].records, &expected);
		json_decref(expected.baseline);
		assert_int_equal(bb_nodes_judge(f.evidence, f.n, &f.judgements, &nodes, &error),
				 BB_OK);
		assert_int_equal(nodes.n, 3);
		for (size_t k = 0; k < nodes.n; k++) {
			if (f.judgements.n < 2)
				fail_msg("%zu", i);
			values_check(&nodes.list[k], cases[i].want[k], cases[i].limit,
				     cases[i].more_is_better);
			if (nodes.list[k].verdict != cases[i].verdicts[k])
				fail_msg("%zu: %s is %s: %s", i, nodes.list[k].host,
					 bb_node_verdict_names[nodes.list[k].verdict],
					 nodes.list[k].reason);
		}
		bb_nodes_free(&nodes);
		family_free(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bisection),
		cmocka_unit_test(test_culprits_of_nodes),
		cmocka_unit_test(test_simulated_groups),
		cmocka_unit_test(test_values_of_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
