/*
 * The rules of acceptance, a case for each branch: what becomes of a step that cannot be judged, of
 * values near their limits, of shapes; who is a straggler, and whom values blame.
 */
#include "acceptance/judge.h"
#include "acceptance/nodes.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HEAD "name: p\nsteps:\n  - name: s\n    run: all_reduce_perf\n    gates:\n"
#define NO_GATES "name: p\nsteps:\n  - name: s\n    run: all_reduce_perf\n"
#define RUN                                                                                        \
	"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":false,\"ranks\":["       \
	"{\"rank\":0,\"host\":\"h0\",\"device\":0},{\"rank\":1,\"host\":\"h1\",\"device\":5}]}\n"
#define RESULT(more)                                                                               \
	"{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\",\"algorithm_asked\":"     \
	"\"auto\",\"nranks\":8,\"in_place\":true" more "}\n"
#define VALUE(time, busbw) RESULT(",\"size_bytes\":1024,\"time_us\":" time ",\"busbw_GBps\":" busbw)
#define SUBJECT "all_reduce auto 1K in-place 8 ranks"

/* A step with its runs, and what is expected of its first gate. */
struct step {
	struct bb_profile *profile;
	struct bb_step_run runs[4];
	struct bb_gate_expectation expected[2];
	struct bb_evidence evidence;
	struct bb_judgements judgements;
};

static void step_read(struct step *s, const char *profile, const char *const *runs, size_t n)
{
	struct bb_error error = {0};

	memset(s, 0, sizeof(*s));
	if (bb_profile_read("p.yaml", profile, strlen(profile), &(struct bb_scale){.nodes = 0},
			    &s->profile, &error) != BB_OK)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			bb_records_read("r", runs[i], strlen(runs[i]), &s->runs[i].records, &error),
			BB_OK);
	s->evidence = (struct bb_evidence){
		.step = s->profile->steps, .runs = s->runs, .nruns = n, .expected = s->expected};
}

static void step_judge(struct step *s)
{
	struct bb_error error = {0};

	assert_int_equal(bb_judge_step(&s->evidence, &s->judgements, &error), BB_OK);
}

static void step_free(struct step *s)
{
	for (size_t i = 0; i < s->evidence.nruns; i++)
		bb_records_free(&s->runs[i].records);
	for (int i = 0; i < 2; i++) {
		bb_records_free(&s->expected[i].predicted.records);
		json_decref(s->expected[i].baseline);
	}
	bb_judgements_free(&s->judgements);
	bb_profile_free(s->profile);
}

/* ---- whether it can be judged ---------------------------------------------------------------- */

#define GOOD RESULT(",\"size_bytes\":1024,\"wrong\":0")
#define BAD RESULT(",\"size_bytes\":2048,\"wrong\":3")
#define UNCHECKED RESULT(",\"size_bytes\":1024,\"wrong\":null")
#define END(status) "{\"schema\":1,\"kind\":\"end\",\"exit_status\":" status ",\"verdict\":\"v\"}\n"
#define SKIP "{\"schema\":1,\"kind\":\"skip\",\"reason\":\"no such thing\"}\n"
#define VIRTUAL "{\"schema\":1,\"kind\":\"run\",\"virtual_time\":true}\n"
#define OF_RANKS(n) "{\"schema\":1,\"kind\":\"run\",\"nranks\":" n "}\n"
#define PING                                                                                       \
	"{\"schema\":1,\"kind\":\"pair\",\"quantity\":\"latency\",\"wrong\":0,\"from\":0}\n"       \
	"{\"schema\":1,\"kind\":\"pair\",\"quantity\":\"latency\",\"wrong\":2,\"from\":0}\n"
#define CULPRIT(text) "{\"schema\":1,\"kind\":\"culprit\",\"text\":\"" text "\"}\n"

static void test_correctness(void **state)
{
	static const struct {
		const char *records;
		struct bb_outcome outcome;
		const char *trouble;
		enum bb_verdict verdict;
		const char *found; /* in the reason */
	} cases[] = {
		{RUN GOOD, {0}, "", BB_PASSED, "0 in 1 result"},
		{RUN GOOD GOOD, {0}, "", BB_PASSED, "all 2 results"},
		{RUN GOOD UNCHECKED, {0}, "", BB_PASSED, "0 in 1 result"},
		{RUN UNCHECKED, {0}, "", BB_UNJUDGED, "-c 0"},
		{RUN END("0"), {0}, "", BB_PASSED, "exit status 0"},
		{RUN GOOD BAD, {0}, "", BB_FAILED, "1 of 2 results, first all_reduce auto 2K"},
		{RUN BAD BAD GOOD, {.status = BB_EDATA}, "", BB_FAILED, "2 of 3"},
		{RUN UNCHECKED BAD, {0}, "", BB_FAILED, "1 of 2"},
		/* A ping has no data. */
		{RUN PING, {0}, "", BB_PASSED, "exit status 0"},
		{VIRTUAL UNCHECKED, {0}, "", BB_SKIPPED, "virtual time"},
		{VIRTUAL GOOD, {0}, "", BB_PASSED, "0 in 1 result"},
		{RUN GOOD END("2"), {.status = BB_EDATA}, "", BB_FAILED, "status 7: v"},
		{RUN GOOD END("0"), {.status = BB_EDATA}, "", BB_FAILED, "status 7: not passed"},
		{RUN GOOD CULPRIT("one") CULPRIT("two"),
		 {.status = BB_EDATA},
		 "",
		 BB_FAILED,
		 "not passed: one. two"},
		{RUN CULPRIT("one") RUN CULPRIT("two"),
		 {.status = BB_EDATA},
		 "",
		 BB_FAILED,
		 "not passed: one"},
		{RUN GOOD, {.timed_out = true, .status = 1}, "", BB_UNJUDGED, "time limit"},
		{RUN GOOD, {.stopped_by = 2, .status = 1}, "", BB_UNJUDGED, "interrupted"},
		{RUN GOOD, {.status = -1}, "", BB_UNJUDGED, "not run"},
		{RUN GOOD, {.status = 129}, "t", BB_UNJUDGED, "signal 1: t"},
		{RUN GOOD, {.status = 128}, "", BB_UNJUDGED, "exit status 128"},
		{RUN GOOD, {.status = BB_EUNSUPPORTED}, "t", BB_SKIPPED, ": t"},
		{RUN SKIP, {.status = BB_EUNSUPPORTED}, "t", BB_SKIPPED, ": no such thing"},
		{RUN GOOD, {.status = BB_EBACKEND}, "t", BB_UNJUDGED, ": t"},
		{RUN GOOD, {.status = BB_EUSAGE}, "", BB_UNJUDGED, "exit status"},
		{RUN GOOD, {0}, "t", BB_UNJUDGED, "t"},
		{"", {0}, "", BB_UNJUDGED, "--json"},
		{"", {.status = BB_EDATA}, "t", BB_UNJUDGED, "t"},
	};
	const size_t n = sizeof(cases) / sizeof(cases[0]);

	for (size_t i = 0; i < 2 * n; i++) {
		/* A second run that is in order changes no verdict but those of all together. */
		const char *const runs[] = {cases[i % n].records, RUN GOOD};
		const struct bb_judgement *j;
		struct step s;

		step_read(&s, HEAD "      - metric: busbw\n        from: {bound: 30%}\n", runs,
			  1 + i / n);
		s.runs[0].outcome = cases[i % n].outcome;
		snprintf(s.runs[0].trouble, sizeof(s.runs[0].trouble), "%s", cases[i % n].trouble);
		step_judge(&s);
		j = &s.judgements.list[0];
		assert_string_equal(j->metric, "correctness");
		assert_int_equal(j->runs, 1 + i / n);
		if (i < n && (j->verdict != cases[i].verdict || !strstr(j->reason, cases[i].found)))
			fail_msg("%zu: %s: %s", i, bb_verdict_names[j->verdict], j->reason);
		if (i >= n && cases[i % n].verdict == BB_FAILED)
			assert_int_equal(j->verdict, BB_FAILED);
		/* The gate of a step that could not be judged says so. */
		assert_true(s.judgements.n >= 2);
		if (cases[i % n].verdict == BB_SKIPPED && cases[i % n].outcome.status)
			assert_int_equal(s.judgements.list[1].verdict, BB_SKIPPED);
		else
			assert_int_equal(s.judgements.list[1].verdict, BB_UNJUDGED);
		step_free(&s);
	}
}

/* The ranks that the profile counts; an unneeded step. */
static void test_ranks_of_step(void **state)
{
	static const char counted[] =
		"name: p\nranks: 8\nsteps:\n  - name: s\n    run: all_reduce_perf\n";
	static const struct {
		const char *profile, *records;
		enum bb_verdict verdict;
	} cases[] = {
		{counted, OF_RANKS("8") GOOD, BB_PASSED},
		{counted, OF_RANKS("1") GOOD, BB_UNJUDGED},
		{counted, OF_RANKS("16") GOOD, BB_UNJUDGED},
		{counted, OF_RANKS("0") GOOD, BB_PASSED},
		{counted, OF_RANKS("null") GOOD, BB_PASSED},
		{counted, OF_RANKS("1") BAD, BB_FAILED},
		{NO_GATES, OF_RANKS("5") GOOD, BB_PASSED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct step s;

		step_read(&s, cases[i].profile, &cases[i].records, 1);
		step_judge(&s);
		assert_int_equal(s.judgements.list[0].verdict, cases[i].verdict);
		step_free(&s);
		step_read(&s, cases[i].profile, &cases[i].records, 1);
		s.evidence.unneeded = true;
		step_judge(&s);
		assert_int_equal(s.judgements.list[0].verdict, BB_SKIPPED);
		step_free(&s);
	}
}

static void test_totals(void **state)
{
	static const struct {
		int of[BB_FAILED + 1]; /* passed, warned, skipped, unjudged, failed */
		bb_status status, strict;
	} cases[] = {
		{{1, 0, 0, 0, 0}, BB_OK, BB_OK},
		{{0, 1, 0, 0, 0}, BB_OK, BB_EDATA},
		{{1, 2, 3, 0, 0}, BB_OK, BB_EDATA},
		{{1, 0, 3, 0, 0}, BB_OK, BB_OK},
		{{0, 0, 3, 0, 0}, BB_EBACKEND, BB_EBACKEND},
		{{0, 0, 0, 0, 0}, BB_EBACKEND, BB_EBACKEND},
		{{1, 0, 0, 1, 0}, BB_EBACKEND, BB_EBACKEND},
		{{1, 1, 0, 1, 0}, BB_EBACKEND, BB_EDATA},
		{{1, 1, 0, 1, 1}, BB_EDATA, BB_EDATA},
		{{0, 0, 0, 0, 1}, BB_EDATA, BB_EDATA},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_judgement list[16] = {{.runs = 0}};
		struct bb_judgements all = {.list = list};
		struct bb_totals t;

		for (int v = 0; v <= BB_FAILED; v++)
			for (int k = 0; k < cases[i].of[v]; k++)
				list[all.n++].verdict = (enum bb_verdict)v;
		t = bb_judgements_total(&all, false);
		assert_int_equal(t.status, cases[i].status);
		for (int v = 0; v <= BB_FAILED; v++)
			assert_int_equal(t.of[v], cases[i].of[v]);
		assert_int_equal(bb_judgements_total(&all, true).status, cases[i].strict);
	}
}

/* ---- values ---------------------------------------------------------------------------------- */

/* 100 is expected: bandwidths may be 10% less, times 10% more; 5% is near the limit, and 20% on the
   other side is a surprise. t(0.95, 2) is 2.919986. */
static void test_limits(void **state)
{
	static const struct {
		const char *runs[3]; /* bandwidths; times are 200 less these */
		double value, low;   /* of bandwidths; NAN: one run */
		enum bb_verdict verdict;
	} cases[] = {
		{{"100"}, 100, NAN, BB_PASSED},
		{{"95.1"}, 95.1, NAN, BB_PASSED},
		{{"94.9"}, 94.9, NAN, BB_WARNED},
		{{"90.1"}, 90.1, NAN, BB_WARNED},
		{{"89.9"}, 89.9, NAN, BB_FAILED},
		{{"10"}, 10, NAN, BB_FAILED},
		{{"119.9"}, 119.9, NAN, BB_PASSED},
		{{"120.1"}, 120.1, NAN, BB_WARNED},
		/* s = 1: 100 - 2.919986 / sqrt(3) = 98.3141 */
		{{"99", "100", "101"}, 100, 98.3141, BB_PASSED},
		/* s = 2.645751: 97 - 4.4604 = 92.5396, which is near the limit */
		{{"100", "96", "95"}, 97, 92.5396, BB_WARNED},
		/* s = 7.211103: 98 - 12.1569 = 85.8431 */
		{{"104", "100", "90"}, 98, 85.8431, BB_UNJUDGED},
		/* s = 10: 88 - 16.8585 */
		{{"98", "88", "78"}, 88, 71.1415, BB_FAILED},
		{{"90", "89", "88"}, 89, 87.3141, BB_FAILED},
	};
	static const char *const gates[] = {
		"      - metric: busbw\n        from: {baseline: b.json}\n        down: 10%\n"
		"        up: 20%\n        warn: 5%\n",
		"      - metric: time\n        from: {baseline: b.json}\n        up: 10%\n"
		"        down: 20%\n        warn: 5%\n",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int less = 0; less < 2; less++) {
			char profile[512], texts[3][1024];
			const char *runs[3] = {texts[0], texts[1], texts[2]};
			const struct bb_judgement *j;
			struct step s;
			size_t n = 0;

			for (; n < 3 && cases[i].runs[n]; n++)
				snprintf(texts[n], sizeof(texts[n]),
					 RUN RESULT(",\"size_bytes\":1024,\"time_us\":%g,"
						    "\"busbw_GBps\":%s"),
					 200 - strtod(cases[i].runs[n], NULL), cases[i].runs[n]);
			snprintf(profile, sizeof(profile), HEAD "%s", gates[less]);
			step_read(&s, profile, runs, n);
			s.expected[0].baseline = json_pack(
				"{s:[{ssssssso}{ssssssso}{ssssssso}{ssssssso}]}", "entries",
				"subject", "another", "step", "s", "metric",
				less ? "time" : "busbw", "mean", json_integer(7), "subject",
				SUBJECT, "step", "t", "metric", less ? "time" : "busbw", "mean",
				json_integer(8), "subject", SUBJECT, "step", "s", "metric",
				less ? "busbw" : "time", "mean", json_integer(9), "subject",
				SUBJECT, "step", "s", "metric", less ? "time" : "busbw", "mean",
				json_integer(100));
			assert_non_null(s.expected[0].baseline);
			step_judge(&s);
			assert_int_equal(s.judgements.n, 2);
			j = &s.judgements.list[1];
			if (j->verdict != cases[i].verdict)
				fail_msg("%zu: %s: %s", i, bb_verdict_names[j->verdict], j->reason);
			assert_string_equal(j->subject, SUBJECT);
			assert_float_equal(j->expected, 100, 1e-9);
			assert_float_equal(j->limit, less ? 110 : 90, 1e-9);
			assert_float_equal(j->value, less ? 200 - cases[i].value : cases[i].value,
					   1e-9);
			if (n == 1)
				assert_true(isnan(j->low));
			else
				assert_float_equal(j->low, less ? 200 - cases[i].low : cases[i].low,
						   1e-3);
			step_free(&s);
		}
}

/* A baseline of another machine, and one that lacks the result. */
static void test_baselines(void **state)
{
	static const char profile[] =
		HEAD "      - metric: busbw\n        from: {baseline: b.json}\n        down: 10%\n";
	static const struct {
		const char *topology, *value, *field;
		enum bb_verdict verdict;
	} cases[] = {
		{"t1", "100", "subject", BB_PASSED}, {"t2", "100", "subject", BB_WARNED},
		{NULL, "100", "subject", BB_PASSED}, {"t2", "50", "subject", BB_FAILED},
		{"t1", "100", "other", BB_UNJUDGED}, {"t1", "null", "subject", BB_UNJUDGED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[1024];
		const char *one = text;
		struct step s;

		snprintf(text, sizeof(text),
			 "{\"schema\":1,\"kind\":\"run\",\"topology\":\"t1\"}\n" RESULT(
				 ",\"size_bytes\":1024,\"time_us\":1,\"busbw_GBps\":%s"),
			 cases[i].value);
		step_read(&s, profile, &one, 1);
		s.expected[0].baseline = json_pack(
			"{s:s*,s:[{s:s,s:s,s:s,s:i}]}", "topology", cases[i].topology, "entries",
			cases[i].field, SUBJECT, "step", "s", "metric", "busbw", "mean", 100);
		assert_non_null(s.expected[0].baseline);
		step_judge(&s);
		if (s.judgements.list[1].verdict != cases[i].verdict)
			fail_msg("%zu: %s", i, s.judgements.list[1].reason);
		step_free(&s);
	}
}

/* The simulator's result of the same subject, and of the same kind. */
static void test_simulated(void **state)
{
	static const char profile[] = HEAD
		"      - metric: busbw\n        from: {link: \"10GB/s,2us\"}\n        down: 10%\n";
	static const struct {
		const char *predicted, *trouble;
		enum bb_verdict verdict;
	} cases[] = {
		{VALUE("1", "100"), "", BB_PASSED},
		{VALUE("1", "200"), "", BB_FAILED},
		{"", "", BB_UNJUDGED},
		{"", "it failed", BB_UNJUDGED},
		{RESULT(",\"size_bytes\":2048,\"busbw_GBps\":100"), "", BB_UNJUDGED},
		{RESULT(",\"size_bytes\":2048,\"busbw_GBps\":300") VALUE("1", "100"), "",
		 BB_PASSED},
		{VALUE("1", "0"), "", BB_UNJUDGED},
	};
	static const char *const run[] = {RUN VALUE("1", "100")};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		struct step s;

		step_read(&s, profile, run, 1);
		assert_int_equal(bb_records_read("r", cases[i].predicted,
						 strlen(cases[i].predicted),
						 &s.expected[0].predicted.records, &error),
				 BB_OK);
		snprintf(s.expected[0].predicted.trouble, sizeof(s.expected[0].predicted.trouble),
			 "%s", cases[i].trouble);
		step_judge(&s);
		if (s.judgements.list[1].verdict != cases[i].verdict)
			fail_msg("%zu: %s", i, s.judgements.list[1].reason);
		if (cases[i].trouble[0])
			assert_string_equal(s.judgements.list[1].reason, cases[i].trouble);
		step_free(&s);
	}
}

/* A share of the record's own bound, which may be that of its copies. */
static void test_bounds(void **state)
{
	static const struct {
		const char *gate, *value, *percent, *source, *doubt;
		enum bb_verdict verdict;
		double expected;
	} cases[] = {
		{"{bound: 50%}", "50", "50", "\"links\"", "null", BB_PASSED, 50},
		{"{bound: 80%}", "50", "50", "\"links\"", "null", BB_FAILED, 80},
		{"{copy: 50%}", "50", "50", "\"this run's copy speed\"", "null", BB_PASSED, 50},
		{"{copy: 50%}", "50", "50", "\"links\"", "null", BB_UNJUDGED, NAN},
		{"{bound: 50%}", "50", "0", "\"links\"", "null", BB_UNJUDGED, NAN},
		{"{bound: 50%}", "50", "null", "\"links\"", "null", BB_UNJUDGED, NAN},
		{"{bound: 50%}", "0", "50", "\"links\"", "null", BB_UNJUDGED, NAN},
		{"{bound: 50%}", "50", "50", "null", "null", BB_UNJUDGED, NAN},
		{"{bound: 50%}", "50", "120", "\"links\"", "\"d\"", BB_WARNED, 50 * 0.5 / 1.2},
		/* Below the limit no doubt helps. */
		{"{bound: 95%}", "50", "50", "\"links\"", "\"d\"", BB_FAILED, 95},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char profile[512], text[1024];
		const char *one = text;
		const struct bb_judgement *j;
		struct step s;

		snprintf(profile, sizeof(profile), HEAD "      - metric: busbw\n        from: %s\n",
			 cases[i].gate);
		snprintf(text, sizeof(text),
			 RUN RESULT(
				 ",\"size_bytes\":1024,\"time_us\":1,\"busbw_GBps\":%s,"
				 "\"percent_of_bound\":%s,\"bound_source\":%s,\"bound_doubt\":%s"),
			 cases[i].value, cases[i].percent, cases[i].source, cases[i].doubt);
		step_read(&s, profile, &one, 1);
		step_judge(&s);
		j = &s.judgements.list[1];
		if (j->verdict != cases[i].verdict)
			fail_msg("%zu: %s", i, j->reason);
		if (isnan(cases[i].expected))
			assert_true(isnan(j->expected));
		else
			assert_float_equal(j->expected, cases[i].expected, 1e-9);
		step_free(&s);
	}
}

/* ---- shapes ---------------------------------------------------------------------------------- */

#define AT(algorithm, size, time, busbw)                                                           \
	"{\"schema\":1,\"kind\":\"result\",\"algorithm_asked\":\"" algorithm                       \
	"\",\"size_bytes\":" size ",\"time_us\":" time ",\"busbw_GBps\":" busbw "}\n"
#define CURVE(a, b, c) RUN AT("r", "1024", "1", a) AT("r", "2048", "1", b) AT("r", "4096", "1", c)

/* The deepest dip against the best of smaller sizes, by at most 10%. */
static void test_dips(void **state)
{
	static const char profile[] =
		HEAD "      - shape: no-dip\n        down: 10%\n        from: {rule: why}\n";
	static const struct {
		const char *runs[3];
		enum bb_verdict verdict;
		double value, low;
	} cases[] = {
		{{CURVE("10", "9.1", "9.2")}, BB_PASSED, 0.91, NAN},
		{{CURVE("10", "20", "17.9")}, BB_FAILED, 0.895, NAN},
		{{CURVE("10", "20", "18.1")}, BB_PASSED, 0.905, NAN},
		{{CURVE("10", "8", "20")}, BB_FAILED, 0.8, NAN},
		{{CURVE("10", "20", "30")}, BB_PASSED, 1.5, NAN},
		/* 0.95, 0.95 */
		{{CURVE("10", "20", "19"), CURVE("20", "40", "38")}, BB_PASSED, 0.95, 0.95},
		/* 0.94, 0.95, 0.96: s = 0.01, 0.95 - 0.0168585 */
		{{CURVE("100", "100", "94"), CURVE("100", "100", "95"), CURVE("100", "100", "96")},
		 BB_PASSED,
		 0.95,
		 0.9331415},
		/* 0.85, 0.95, 1.05: s = 0.1, 0.95 - 0.168585 */
		{{CURVE("100", "100", "85"), CURVE("100", "100", "95"), CURVE("100", "100", "105")},
		 BB_UNJUDGED,
		 0.95,
		 0.781415},
		/* 0.75, 0.85, 0.95 */
		{{CURVE("100", "100", "75"), CURVE("100", "100", "85"), CURVE("100", "100", "95")},
		 BB_FAILED,
		 0.85,
		 0.681415},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_judgement *j;
		struct step s;
		size_t n = 0;

		while (n < 3 && cases[i].runs[n])
			n++;
		step_read(&s, profile, cases[i].runs, n);
		step_judge(&s);
		assert_int_equal(s.judgements.n, 2);
		j = &s.judgements.list[1];
		if (j->verdict != cases[i].verdict)
			fail_msg("%zu: %s", i, j->reason);
		assert_string_equal(j->subject, "r");
		assert_float_equal(j->value, cases[i].value, 1e-9);
		assert_float_equal(j->expected, 1, 1e-9);
		assert_float_equal(j->limit, 0.9, 1e-9);
		if (n == 1)
			assert_true(isnan(j->low));
		else
			assert_float_equal(j->low, cases[i].low, 1e-6);
		step_free(&s);
	}
}

/* Ring becomes faster than tree where straight lines of times between sizes cross. */
static void test_crossings(void **state)
{
	static const char profile[] = HEAD "      - shape: crossover\n        between: t, r\n"
					   "        window: 2K-16K\n        from: {rule: why}\n";
#define PAIR(size, tree, ring) AT("t", size, tree, "1") AT("r", size, ring, "1")
	static const struct {
		const char *runs[2];
		enum bb_verdict verdict;
		double value;      /* bytes */
		const char *found; /* in the reason */
	} cases[] = {
		/* t - r is -1 at 1024 and +1 at 3072: 0 at 2048. */
		{{RUN PAIR("1024", "1", "2") PAIR("3072", "3", "2")},
		 BB_PASSED,
		 2048,
		 "r is faster"},
		/* -1 at 1024, +3 at 5120: 2048 */
		{{RUN PAIR("1024", "1", "2") PAIR("5120", "5", "2")},
		 BB_PASSED,
		 2048,
		 "r is faster"},
		/* equal at 4096 */
		{{RUN PAIR("1024", "1", "2") PAIR("4096", "2", "2") PAIR("8192", "3", "2")},
		 BB_PASSED,
		 4096,
		 "r is faster"},
		/* The last of two crossings counts: -1 at 8192, +1 at 10240. */
		{{RUN PAIR("1024", "1", "2") PAIR("4096", "3", "2") PAIR("8192", "1", "2")
			  PAIR("10240", "3", "2")},
		 BB_PASSED,
		 9216,
		 "r is faster"},
		{{RUN PAIR("1024", "1", "2") PAIR("2000", "3", "2")},
		 BB_FAILED,
		 1512,
		 "window 2K-16K"},
		{{RUN PAIR("16384", "1", "2") PAIR("32768", "3", "2")}, BB_FAILED, 24576, "window"},
		{{RUN PAIR("1024", "1", "2") PAIR("4096", "3", "2") PAIR("8192", "1", "2")},
		 BB_FAILED,
		 NAN,
		 "1 of 1 run: t is faster at the largest size"},
		{{RUN PAIR("1024", "1", "2") PAIR("4096", "2", "2")},
		 BB_FAILED,
		 NAN,
		 "1 of 1 run: t is faster at the largest size"},
		{{RUN PAIR("1024", "2", "1") PAIR("4096", "3", "2")},
		 BB_FAILED,
		 NAN,
		 "1 of 1 run: r is faster at every size"},
		/* A size at which one was not measured tells nothing. */
		{{RUN PAIR("1024", "1", "2") AT("t", "2048", "9", "1") PAIR("3072", "3", "2")},
		 BB_PASSED,
		 2048,
		 "r is faster"},
		{{RUN AT("t", "1024", "1", "1") AT("t", "2048", "1", "1")},
		 BB_UNJUDGED,
		 NAN,
		 "not measured"},
		{{RUN AT("r", "1024", "1", "1") AT("r", "2048", "1", "1")},
		 BB_UNJUDGED,
		 NAN,
		 "not measured"},
		/* The geometric mean of two runs: 4096 twice. */
		{{RUN PAIR("1024", "1", "2") PAIR("7168", "3", "2"),
		  RUN PAIR("1024", "1", "2") PAIR("7168", "3", "2")},
		 BB_PASSED,
		 4096,
		 "2 runs"},
		/* 2048 and 8192: their bounds are far apart. */
		{{RUN PAIR("1024", "1", "2") PAIR("3072", "3", "2"),
		  RUN PAIR("1024", "1", "2") PAIR("15360", "3", "2")},
		 BB_FAILED,
		 4096,
		 "2 runs"},
		{{RUN PAIR("1024", "1", "2") PAIR("3072", "3", "2"), RUN PAIR("1024", "1", "2")},
		 BB_FAILED,
		 NAN,
		 "1 of 2 runs: t is faster"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_judgement *j;
		struct step s;

		step_read(&s, profile, cases[i].runs, 1 + (cases[i].runs[1] != NULL));
		step_judge(&s);
		assert_int_equal(s.judgements.n, 2);
		j = &s.judgements.list[1];
		if (j->verdict != cases[i].verdict || !strstr(j->reason, cases[i].found))
			fail_msg("%zu: %s: %s", i, bb_verdict_names[j->verdict], j->reason);
		if (isnan(cases[i].value))
			assert_true(isnan(j->value));
		else
			assert_float_equal(j->value, cases[i].value, 1e-6);
		step_free(&s);
	}
}

/* ---- stragglers ------------------------------------------------------------------------------ */

#define LATE(rank, more) RESULT(",\"size_bytes\":1024,\"last_rank\":" rank more)
#define SLOW1 LATE("1", ",\"iterations\":20,\"p50_us\":1000,\"last_share\":1,\"last_late_us\":500")
#define SLOW0 LATE("0", ",\"iterations\":20,\"p50_us\":1000,\"last_share\":1,\"last_late_us\":500")
#define NOBODY LATE("1", ",\"iterations\":20,\"p50_us\":1000,\"last_share\":0.1,\"last_late_us\":5")
#define NO_ARRIVAL VALUE("1", "1")

static void test_stragglers(void **state)
{
	static const struct {
		const char *records;
		int late;          /* host; -1: none */
		const char *found; /* in the reason */
	} cases[] = {
		{RUN SLOW1, 1, "rank 1 (device 5) enters last in 1 of 1 results, 500 us late"},
		{RUN SLOW0, 0, "rank 0 (device 0)"},
		{RUN SLOW1 SLOW1 SLOW0, 1, "2 of 3"},
		{RUN SLOW0 SLOW1 SLOW1, 1, "2 of 3"},
		{RUN SLOW1 SLOW0 SLOW1, 1, "2 of 3"},
		{RUN SLOW1 SLOW0 SLOW0 SLOW1 SLOW1, 1, "3 of 5"},
		{RUN SLOW0 SLOW0 SLOW1 SLOW1 SLOW1, 1, "3 of 5"},
		{RUN SLOW1 SLOW0, -1, NULL},
		{RUN SLOW1 NOBODY, -1, NULL}, /* half of them */
		{RUN SLOW1 NOBODY SLOW1, 1, "2 of 3"},
		{RUN SLOW1 NO_ARRIVAL NO_ARRIVAL, 1, "1 of 1"},
		{RUN NOBODY, -1, NULL},
		{RUN NO_ARRIVAL, -1, NULL},
		{SLOW1, -1, NULL}, /* of no run */
		{RUN LATE("2", ",\"iterations\":20,\"p50_us\":1000,\"last_share\":1,"
			       "\"last_late_us\":500"),
		 -1, NULL}, /* a rank that is not listed */
		/* the limits: 8 iterations, 75%, 20% of the time, 20 us, 4 times the uncertainty */
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":100,\"last_share\":0.75,"
			       "\"last_late_us\":20,\"clock_uncertainty_us\":4.9"),
		 1, "20.0 us late; the operation takes 100 us"},
		{RUN LATE("1", ",\"iterations\":7,\"p50_us\":100,\"last_share\":0.75,"
			       "\"last_late_us\":20"),
		 -1, NULL},
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":100,\"last_share\":0.74,"
			       "\"last_late_us\":20"),
		 -1, NULL},
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":101,\"last_share\":0.75,"
			       "\"last_late_us\":20"),
		 -1, NULL},
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":50,\"last_share\":0.75,"
			       "\"last_late_us\":19.9"),
		 -1, NULL},
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":100,\"last_share\":0.75,"
			       "\"last_late_us\":20,\"clock_uncertainty_us\":5"),
		 -1, NULL},
		/* the mean, where there is no median */
		{RUN LATE("1", ",\"iterations\":8,\"time_us\":100,\"last_share\":0.75,"
			       "\"last_late_us\":20"),
		 1, "takes 100 us"},
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":0,\"time_us\":101,\"last_share\":1,"
			       "\"last_late_us\":20"),
		 -1, NULL},
		/* means of what accuses it */
		{RUN LATE("1", ",\"iterations\":8,\"p50_us\":300,\"last_share\":1,"
			       "\"last_late_us\":100")
			 LATE("1", ",\"iterations\":8,\"p50_us\":500,\"last_share\":1,"
				   "\"last_late_us\":200"),
		 1, "2 of 2 results, 150 us late; the operation takes 400 us"},
		{RUN LATE("-1", ",\"iterations\":20,\"p50_us\":1000,\"last_share\":1,"
				"\"last_late_us\":500"),
		 -1, NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		struct bb_nodes nodes;
		struct step s;

		step_read(&s, NO_GATES, &cases[i].records, 1);
		step_judge(&s);
		assert_int_equal(bb_nodes_judge(&s.evidence, 1, &s.judgements, &nodes, &error),
				 BB_OK);
		for (size_t k = 0; k < nodes.n; k++) {
			const bool late = (int)k == cases[i].late;

			if (nodes.list[k].verdict != (late ? BB_NODE_SUSPECT : BB_NODE_UNKNOWN) &&
			    nodes.list[k].verdict != (late ? BB_NODE_SUSPECT : BB_NODE_OK))
				fail_msg("%zu: %s: %s", i, nodes.list[k].host,
					 nodes.list[k].reason);
			if (late && !strstr(nodes.list[k].reason, cases[i].found))
				fail_msg("%zu: %s", i, nodes.list[k].reason);
			if (late)
				assert_string_equal(nodes.list[k].code, "BB-STRAGGLER");
		}
		assert_int_equal(bb_nodes_suspected(&nodes), cases[i].late >= 0);
		bb_nodes_free(&nodes);
		step_free(&s);
	}
}

/* ---- hosts ----------------------------------------------------------------------------------- */

#define ON(host) "{\"schema\":1,\"kind\":\"run\",\"ranks\":[{\"rank\":0,\"host\":\"" host "\"}]}\n"
#define OF(percent)                                                                                \
	RESULT(",\"size_bytes\":1024,\"time_us\":1,\"busbw_GBps\":50,\"wrong\":0,"                 \
	       "\"percent_of_bound\":" percent ",\"bound_source\":\"links\"")

/* A step that failed on one host is that host's; on two, nobody knows whose. */
static void test_hosts_of_steps(void **state)
{
	static const char profile[] = HEAD "      - metric: busbw\n        from: {bound: 60%}\n";
	static const struct {
		const char *records;
		int status;
		enum bb_node_verdict verdict;
		const char *code;
		size_t hosts;
	} cases[] = {
		{ON("a") OF("90"), 0, BB_NODE_OK, "BB-OK", 1},
		{ON("a") OF("50"), 0, BB_NODE_BAD, "BB-BELOW-GATE", 1},
		{RUN OF("50"), 0, BB_NODE_UNKNOWN, "BB-BELOW-GATE", 2},
		{ON("a") OF("0"), 0, BB_NODE_UNKNOWN, "BB-NOT-JUDGED", 1},
		{RUN OF("0"), 0, BB_NODE_UNKNOWN, "BB-NOT-JUDGED", 2},
		{ON("a") BAD, 0, BB_NODE_BAD, "BB-WRONG-DATA", 1},
		{RUN BAD, 0, BB_NODE_UNKNOWN, "BB-WRONG-DATA", 2},
		/* Who is late is no reason of wrong data. */
		{RUN BAD SLOW1, 0, BB_NODE_UNKNOWN, "BB-WRONG-DATA", 2},
		{RUN OF("90"), BB_EUNSUPPORTED, BB_NODE_OK, "BB-OK", 2}, /* skipped */
		{RUN OF("90"), BB_EBACKEND, BB_NODE_UNKNOWN, "BB-NOT-JUDGED", 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		struct bb_nodes nodes;
		struct step s;

		step_read(&s, profile, &cases[i].records, 1);
		s.runs[0].outcome.status = cases[i].status;
		step_judge(&s);
		assert_int_equal(bb_nodes_judge(&s.evidence, 1, &s.judgements, &nodes, &error),
				 BB_OK);
		assert_int_equal(nodes.n, cases[i].hosts);
		for (size_t k = 0; k < nodes.n; k++)
			if (nodes.list[k].verdict != cases[i].verdict ||
			    strcmp(nodes.list[k].code, cases[i].code) != 0)
				fail_msg("%zu: %s %s: %s", i, nodes.list[k].host,
					 nodes.list[k].code, nodes.list[k].reason);
		bb_nodes_free(&nodes);
		step_free(&s);
	}
}

/* A late host of a failed step is to blame, and the worst of several steps counts. */
static void test_worst_of_steps(void **state)
{
	static const char profile[] =
		"name: p\nsteps:\n  - name: s\n    run: all_reduce_perf\n    gates:\n"
		"      - metric: busbw\n        from: {bound: 60%}\n"
		"  - name: t\n    run: all_reduce_perf\n    gates:\n"
		"      - metric: busbw\n        from: {bound: 60%}\n";
	static const char *const runs[] = {
		RUN LATE("1", ",\"iterations\":20,\"p50_us\":1000,\"last_share\":1,"
			      "\"last_late_us\":500,\"busbw_GBps\":50,\"percent_of_bound\":50,"
			      "\"bound_source\":\"links\""),
		ON("h0") OF("50")};
	struct bb_evidence evidence[2];
	struct bb_error error = {0};
	struct bb_nodes nodes;
	struct step s;

	step_read(&s, profile, runs, 2);
	for (int i = 0; i < 2; i++) {
		evidence[i] = (struct bb_evidence){
			.step = &s.profile->steps[i], .runs = &s.runs[i], .nruns = 1};
		assert_int_equal(bb_judge_step(&evidence[i], &s.judgements, &error), BB_OK);
	}
	assert_int_equal(bb_nodes_judge(evidence, 2, &s.judgements, &nodes, &error), BB_OK);
	assert_int_equal(nodes.n, 2);
	assert_int_equal(nodes.list[0].verdict, BB_NODE_BAD);
	assert_string_equal(nodes.list[0].code, "BB-BELOW-GATE");
	assert_int_equal(strncmp(nodes.list[0].reason, "t: ", 3), 0);
	assert_int_equal(nodes.list[1].verdict, BB_NODE_BAD);
	assert_string_equal(nodes.list[1].code, "BB-STRAGGLER");
	assert_ptr_equal(bb_nodes_find(&nodes, "h1"), &nodes.list[1]);
	assert_null(bb_nodes_find(&nodes, "h2"));
	bb_nodes_free(&nodes);
	step_free(&s);
}

/* Verdicts of diagnose by their words; a word that is none is the worst. */
static void test_diagnosed(void **state)
{
#define NODE(host, rest) "{\"schema\":1,\"kind\":\"node\",\"host\":\"" host "\"" rest "}\n"
	static const char profile[] = "name: p\nsteps:\n  - name: s\n    run: diagnose\n";
	static const char records[] = NODE("a", ",\"verdict\":\"OK\"")
		NODE("b", ",\"verdict\":\"SUSPECT\",\"code\":\"C\"")
			NODE("c", ",\"verdict\":\"UNKNOWN\",\"reason\":\"r\"") NODE(
				"d", ",\"verdict\":\"BAD\"") NODE("e", ",\"verdict\":\"WORSE\"")
				NODE("f", "") "{\"schema\":1,\"kind\":\"culprit\",\"host\":\"b\","
					      "\"peer_host\":\"b\",\"code\":\"K\"}\n";
	static const struct {
		enum bb_node_verdict verdict;
		const char *code, *reason;
	} want[] = {{BB_NODE_OK, "BB-OK", "nothing stands out"},
		    {BB_NODE_SUSPECT, "C", "SUSPECT"},
		    {BB_NODE_UNKNOWN, "BB-DIAGNOSE", "r"},
		    {BB_NODE_BAD, "BB-DIAGNOSE", "BAD"},
		    {BB_NODE_BAD, "BB-DIAGNOSE", "WORSE"}};

	for (int virtual = 0; virtual < 2; virtual ++) {
		struct bb_error error = {0};
		struct bb_nodes nodes;
		char text[4096];
		const char *one = text;
		struct step s;

		snprintf(text, sizeof(text), "%s%s",
			 virtual ? VIRTUAL : "{\"schema\":1,\"kind\":\"run\"}\n", records);
		step_read(&s, profile, &one, 1);
		step_judge(&s);
		assert_string_equal(s.judgements.list[0].metric, "diagnosis");
		assert_int_equal(bb_nodes_judge(&s.evidence, 1, &s.judgements, &nodes, &error),
				 BB_OK);
		assert_int_equal(nodes.n, virtual ? 0 : 5);
		for (size_t i = 0; i < nodes.n; i++) {
			assert_int_equal(nodes.list[i].host[0], 'a' + (int)i);
			assert_int_equal(nodes.list[i].verdict, want[i].verdict);
			assert_string_equal(nodes.list[i].code, want[i].code);
			assert_string_equal(nodes.list[i].reason, want[i].reason);
		}
		bb_nodes_free(&nodes);
		step_free(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_correctness),    cmocka_unit_test(test_ranks_of_step),
		cmocka_unit_test(test_totals),         cmocka_unit_test(test_limits),
		cmocka_unit_test(test_baselines),      cmocka_unit_test(test_simulated),
		cmocka_unit_test(test_bounds),         cmocka_unit_test(test_dips),
		cmocka_unit_test(test_crossings),      cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_hosts_of_steps), cmocka_unit_test(test_worst_of_steps),
		cmocka_unit_test(test_diagnosed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
