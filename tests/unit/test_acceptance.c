/*
 * Acceptance: what gates make of records, confidence bounds, whom they blame, and commands with a
 * time limit.
 */
#include "acceptance/judge.h"
#include "acceptance/nodes.h"
#include "acceptance/session.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- confidence ----------------------------------------------------------------------------- */

static void test_confidence(void **state)
{
	const double one[] = {7}, three[] = {9, 10, 11}, many[] = {1, 3, 1, 3, 1, 3, 1, 3, 1, 3};
	struct bb_confidence c = bb_confidence_of(one, 1);

	assert_float_equal(c.low, 7, 0);
	assert_float_equal(c.high, 7, 0);
	/* s = 1, t(0.95, 2) = 2.920 */
	c = bb_confidence_of(three, 3);
	assert_float_equal(c.mean, 10, 1e-12);
	assert_float_equal(c.stdev, 1, 1e-12);
	assert_float_equal(c.low, 10 - 2.919986 / sqrt(3), 1e-6);
	/* s^2 = 10/9, t(0.95, 9) = 1.833 */
	c = bb_confidence_of(many, 10);
	assert_float_equal(c.high, 2 + 1.833113 / 3, 1e-6);
}

/* Tables of Student's t. */
static void test_student(void **state)
{
	static const struct {
		double p, degrees, t;
	} rows[] = {{0.95, 1, 6.313752},   {0.975, 1, 12.706205}, {0.975, 2, 4.302653},
		    {0.95, 30, 1.697261},  {0.975, 10, 2.228139}, {0.9995, 5, 6.868827},
		    {0.975, 1e9, 1.959964}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_float_equal(bb_student_quantile(rows[i].p, rows[i].degrees), rows[i].t,
				   1e-5);
}

/* ---- gates ---------------------------------------------------------------------------------- */

#define HEAD "name: p\nsteps:\n  - name: s\n    run: all_reduce_perf\n    gates:\n"
#define REFERENCE_GATE                                                                             \
	HEAD "      - metric: busbw\n"                                                             \
	     "        where: {collective: all_reduce, size: 8G}\n"                                 \
	     "        from: {reference: az_a100_1n}\n        down: 10%\n        up: 10%\n"         \
	     "        warn: 5%\n"

/* Everything that a judgement needs, from text. */
struct court {
	struct bb_profile *profile;
	struct bb_step_run *runs;
	struct bb_evidence evidence;
	struct bb_judgements judgements;
};

static void open_court_for(struct court *c, const char *profile, const struct bb_scale *scale,
			   const char *const *runs, size_t n)
{
	struct bb_error error = {0};

	*c = (struct court){.runs = calloc(n, sizeof(*c->runs))};
	assert_non_null(c->runs);
	if (bb_profile_read("p.yaml", profile, strlen(profile), scale, &c->profile, &error) !=
	    BB_OK)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			bb_records_read("r", runs[i], strlen(runs[i]), &c->runs[i].records, &error),
			BB_OK);
	c->evidence = (struct bb_evidence){.step = c->profile->steps, .runs = c->runs, .nruns = n};
	assert_int_equal(bb_judge_step(&c->evidence, &c->judgements, &error), BB_OK);
}

static void open_court(struct court *c, const char *profile, const char *const *runs, size_t n)
{
	open_court_for(c, profile, &(struct bb_scale){.nodes = 0}, runs, n);
}

static void close_court(struct court *c)
{
	for (size_t i = 0; i < c->evidence.nruns; i++)
		bb_records_free(&c->runs[i].records);
	bb_judgements_free(&c->judgements);
	bb_profile_free(c->profile);
	free(c->runs);
}

#define RUN                                                                                        \
	"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":false,\"ranks\":["       \
	"{\"rank\":0,\"host\":\"h0\",\"device\":0},{\"rank\":1,\"host\":\"h1\",\"device\":5}]}\n"
#define RESULT(size, time, busbw, more)                                                            \
	"{\"schema\":1,\"kind\":\"result\",\"collective\":\"all_reduce\",\"algorithm_asked\":"     \
	"\"auto\",\"nranks\":8,\"in_place\":true,\"wrong\":0,\"size_bytes\":" size                 \
	",\"time_us\":" time ",\"busbw_GBps\":" busbw more "}\n"
#define G8 "8589934592"

#define COUNTER(host, name, class, moved)                                                          \
	"{\"schema\":1,\"kind\":\"counter\",\"host\":\"" host "\",\"device\":\"mlx5_0:1\","        \
	"\"counter\":\"" name "\",\"class\":\"" class "\",\"moved\":" moved "}\n"

#define BOUNDED RESULT(G8, "1", "231", ",\"percent_of_bound\":40,\"bound_source\":\"link\"")

/* A warning of the step, with the gravest counter of all its runs. */
static void test_counters(void **state)
{
	static const char *const broken[] = {
		RUN BOUNDED COUNTER("h1", "symbol_error", "symbol error", "3")
			COUNTER("h0", "port_rcv_errors", "error", "9"),
		RUN BOUNDED COUNTER("h1", "symbol_error", "symbol error", "4")
			COUNTER("h1", "link_downed", "link down", "-1"),
	};
	static const char *const whole[] = {
		RUN BOUNDED COUNTER("h0", "port_rcv_errors", "error", "9")
			COUNTER("h1", "link_downed", "no such class", "1")};
	static const char profile[] = HEAD "      - metric: busbw\n        from: {bound: 30%}\n";
	struct court c;
	const struct bb_judgement *j;

	open_court(&c, profile, broken, 2);
	assert_int_equal(c.judgements.n, 3);
	j = &c.judgements.list[2];
	assert_int_equal(j->verdict, BB_WARNED);
	assert_string_equal(j->metric, "counters");
	assert_string_equal(j->subject, "h1 mlx5_0:1 symbol_error");
	assert_string_equal(j->reason,
			    "h1 mlx5_0:1 symbol_error rose by 7 during the step (symbol error)");
	assert_int_equal(bb_judgements_total(&c.judgements, false).status, BB_OK);
	close_court(&c);
	open_court(&c, profile, whole, 1);
	assert_int_equal(c.judgements.n, 2);
	close_court(&c);
}

static void test_values(void **state)
{
	/* The table says 231.58. */
	static const struct {
		const char *runs[3];
		size_t n;
		enum bb_verdict verdict;
	} cases[] = {
		{{RUN RESULT(G8, "1", "231", "")}, 1, BB_PASSED},
		{{RUN RESULT(G8, "1", "215", "")}, 1, BB_WARNED},
		{{RUN RESULT(G8, "1", "200", "")}, 1, BB_FAILED},
		{{RUN RESULT(G8, "1", "300", "")}, 1, BB_WARNED},
		{{RUN RESULT(G8, "1", "null", "")}, 1, BB_UNJUDGED},
		{{RUN RESULT("1024", "1", "231", "")}, 1, BB_UNJUDGED},
		{{RUN RESULT(G8, "1", "230", ""), RUN RESULT(G8, "1", "231", ""),
		  RUN RESULT(G8, "1", "232", "")},
		 3,
		 BB_PASSED},
		/* The mean passes, the bound of the mean does not. */
		{{RUN RESULT(G8, "1", "260", ""), RUN RESULT(G8, "1", "231", ""),
		  RUN RESULT(G8, "1", "205", "")},
		 3,
		 BB_UNJUDGED},
		/* Neither passes. */
		{{RUN RESULT(G8, "1", "200", ""), RUN RESULT(G8, "1", "201", ""),
		  RUN RESULT(G8, "1", "202", "")},
		 3,
		 BB_FAILED},
		/* One run lacks what the others have. */
		{{RUN RESULT(G8, "1", "230", ""), RUN RESULT(G8, "1", "231", ""),
		  RUN RESULT("1024", "1", "232", "")},
		 3,
		 BB_UNJUDGED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char profile[1024];
		struct court c;

		snprintf(profile, sizeof(profile), "ranks: 8\n%s", REFERENCE_GATE);
		open_court(&c, profile, cases[i].runs, cases[i].n);
		assert_int_equal(c.judgements.n, 2);
		assert_int_equal(c.judgements.list[0].verdict, BB_PASSED);
		if (c.judgements.list[1].verdict != cases[i].verdict)
			fail_msg("case %zu: %s", i, c.judgements.list[1].reason);
		close_court(&c);
	}
}

static void test_bounds(void **state)
{
	static const char profile[] = HEAD "      - metric: busbw\n        from: {copy: 50%}\n"
					   "      - metric: busbw\n        from: {bound: 30%}\n";
	static const char *const runs[] = {
		RUN RESULT("1024", "1", "40",
			   ",\"percent_of_bound\":40,\"bound_source\":\"this run's copy speed\"")};
	static const char *const link[] = {RUN RESULT(
		"1024", "1", "40", ",\"percent_of_bound\":40,\"bound_source\":\"link\"")};
	struct court c;

	open_court(&c, profile, runs, 1);
	assert_int_equal(c.judgements.n, 3);
	assert_float_equal(c.judgements.list[1].limit, 50, 1e-9);
	assert_int_equal(c.judgements.list[1].verdict, BB_FAILED);
	assert_int_equal(c.judgements.list[2].verdict, BB_PASSED);
	close_court(&c);
	open_court(&c, profile, link, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_UNJUDGED);
	assert_int_equal(c.judgements.list[2].verdict, BB_PASSED);
	close_court(&c);
}

/* A share of what the links of a known system carry, here 200 GB/s; who beats these casts doubt on
   them, beyond a margin. */
static void test_topologies(void **state)
{
	static const struct {
		double busbw;
		enum bb_verdict verdict;
	} cases[] = {{159, BB_FAILED}, {161, BB_PASSED}, {200, BB_PASSED}, {300, BB_WARNED}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		const struct bb_judgement *j;
		struct court c;
		char text[2048];
		const char *one = text;

		snprintf(text, sizeof(text), RUN RESULT("1024", "1", "%g", ""), cases[i].busbw);
		open_court(&c,
			   "system: hgx-h100\nranks: 8\n" HEAD
			   "      - metric: busbw\n        from: {topology: 80% of ring}\n"
			   "        up: 100%\n",
			   &one, 1);
		c.profile->steps[0].gates[0].from.GBps = 200;
		bb_judgements_free(&c.judgements);
		c.judgements = (struct bb_judgements){.n = 0};
		assert_int_equal(bb_judge_step(&c.evidence, &c.judgements, &error), BB_OK);
		j = &c.judgements.list[1];
		if (j->verdict != cases[i].verdict)
			fail_msg("%g: %s: %s", cases[i].busbw, bb_verdict_names[j->verdict],
				 j->reason);
		if (cases[i].verdict != BB_WARNED) {
			assert_float_equal(j->expected, 160, 1e-9);
			assert_float_equal(j->limit, 160, 1e-9);
		}
		assert_float_equal(j->value, cases[i].busbw, 1e-9);
		close_court(&c);
	}
}

static void test_dips(void **state)
{
	static const char profile[] =
		HEAD "      - shape: no-dip\n        down: 10%\n        from: {rule: why}\n";
	static const char *const slow[] = {RUN RESULT("1024", "1", "10", "") RESULT(
		"4096", "1", "8.9", "") RESULT("2048", "1", "9.5", "")};
	static const char *const good[] = {RUN RESULT("1024", "1", "10", "")
						   RESULT("2048", "1", "9.1", "")};
	static const char *const single[] = {RUN RESULT("1024", "1", "10", "")};
	struct court c;

	open_court(&c, profile, slow, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_FAILED);
	assert_float_equal(c.judgements.list[1].value, 0.89, 1e-9);
	assert_true(isnan(c.judgements.list[1].low)); /* one run */
	close_court(&c);
	open_court(&c, profile, good, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_PASSED);
	close_court(&c);
	open_court(&c, profile, single, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_UNJUDGED);
	close_court(&c);
}

#define PLACED(algorithm, size, time, in_place)                                                    \
	"{\"schema\":1,\"kind\":\"result\",\"algorithm_asked\":\"" algorithm                       \
	"\",\"busbw_GBps\":1,\"wrong\":0,\"in_place\":" in_place ",\"size_bytes\":" size           \
	",\"time_us\":" time "}\n"
#define TIMED(algorithm, size, time) PLACED(algorithm, size, time, "false")

static void test_crossover(void **state)
{
	static const char inside[] = HEAD "      - shape: crossover\n        between: tree, ring\n"
					  "        window: 2K-16K\n        from: {rule: why}\n";
	static const char outside[] = HEAD "      - shape: crossover\n        between: tree, ring\n"
					   "        window: 8K-16K\n        from: {rule: why}\n";
	/* log(tree / ring) goes from log(1/2) to log(2) between 1K and 16K: 0 at 4K. */
	static const char *const runs[] = {RUN TIMED("tree", "1024", "1") TIMED(
		"ring", "1024", "2") TIMED("tree", "16384", "8") TIMED("ring", "16384", "4")};
	static const char *const never[] = {RUN TIMED("tree", "1024", "1")
						    TIMED("ring", "1024", "2")};
	/* In place the ring is faster at both sizes. */
	static const char *const both[] = {
		RUN PLACED("tree", "1024", "2", "true") PLACED("ring", "1024", "1", "true")
			PLACED("tree", "16384", "8", "true") PLACED("ring", "16384", "4", "true")
				TIMED("tree", "1024", "1") TIMED("ring", "1024", "2")
					TIMED("tree", "16384", "8") TIMED("ring", "16384", "4")};
	struct court c;

	open_court(&c, inside, runs, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_PASSED);
	assert_float_equal(c.judgements.list[1].value, 4096, 1e-6);
	close_court(&c);
	open_court(&c, inside, both, 1);
	assert_int_equal(c.judgements.n, 3);
	assert_string_equal(c.judgements.list[1].subject, "crossover of tree and ring: in-place");
	assert_int_equal(c.judgements.list[1].verdict, BB_FAILED);
	assert_int_equal(c.judgements.list[2].verdict, BB_PASSED);
	close_court(&c);
	open_court(&c, outside, runs, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_FAILED);
	close_court(&c);
	open_court(&c, inside, never, 1);
	assert_int_equal(c.judgements.list[1].verdict, BB_FAILED);
	close_court(&c);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

#define LATE(rank, share, us)                                                                      \
	RESULT("1024", "1000", "1",                                                                \
	       ",\"iterations\":20,\"p50_us\":1000,\"last_rank\":" rank ",\"last_share\":" share   \
	       ",\"last_late_us\":" us ",\"clock_uncertainty_us\":1")

static void test_stragglers(void **state)
{
	static const char profile[] = "name: p\nsteps:\n  - name: s\n    run: all_reduce_perf\n";
	static const struct {
		const char *runs[1];
		enum bb_node_verdict verdict;
	} cases[] = {
		{{RUN LATE("1", "0.9", "800") LATE("1", "1", "700") LATE("0", "0.6", "30")},
		 BB_NODE_SUSPECT},
		{{RUN LATE("1", "0.9", "800") LATE("0", "0.9", "800")}, BB_NODE_OK},
		{{RUN LATE("1", "0.5", "800") LATE("1", "0.5", "700")}, BB_NODE_OK},
		{{RUN LATE("1", "1", "3") LATE("1", "1", "4")}, BB_NODE_OK},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_nodes nodes;
		struct bb_error error = {0};
		struct court c;

		open_court(&c, profile, cases[i].runs, 1);
		assert_int_equal(bb_nodes_judge(&c.evidence, 1, &c.judgements, &nodes, &error),
				 BB_OK);
		assert_int_equal(nodes.n, 2);
		assert_string_equal(nodes.list[1].host, "h1");
		assert_int_equal(nodes.list[0].verdict, BB_NODE_OK);
		assert_int_equal(nodes.list[1].verdict, cases[i].verdict);
		if (cases[i].verdict == BB_NODE_SUSPECT)
			assert_non_null(strstr(nodes.list[1].reason, "rank 1 (device 5)"));
		bb_nodes_free(&nodes);
		close_court(&c);
	}
}

/* One run that was fast by chance is no evidence against the host that ran all of them. */
static void test_not_shown(void **state)
{
	static const char profile[] = HEAD "      - metric: busbw\n        from: {copy: 1%}\n";
#define ALONE                                                                                      \
	"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":false,\"ranks\":["       \
	"{\"rank\":0,\"host\":\"h0\",\"device\":0}]}\n"
#define COPY(busbw, percent)                                                                       \
	RESULT("1024", "1", busbw,                                                                 \
	       ",\"percent_of_bound\":" percent ",\"bound_source\":\"this run's copy speed\"")
	static const char *const runs[] = {ALONE COPY("2", "2"), ALONE COPY("2", "2"),
					   ALONE COPY("600", "600")};
	struct bb_error error = {0};
	struct bb_nodes nodes;
	struct court c;

	open_court(&c, profile, runs, 3);
	assert_int_equal(c.judgements.list[1].verdict, BB_UNJUDGED);
	assert_float_equal(c.judgements.list[1].low, 0, 0);
	assert_null(strstr(c.judgements.list[1].reason, "-"));
	assert_int_equal(bb_judgements_total(&c.judgements, false).status, BB_EBACKEND);
	assert_int_equal(bb_nodes_judge(&c.evidence, 1, &c.judgements, &nodes, &error), BB_OK);
	assert_int_equal(nodes.n, 1);
	assert_int_equal(nodes.list[0].verdict, BB_NODE_UNKNOWN);
	assert_string_equal(nodes.list[0].code, "BB-NOT-JUDGED");
	bb_nodes_free(&nodes);
	close_court(&c);
}

/* Beyond the bound, a gate that is a share of it shows little: a warning with the reason. A peak is
   the median sample: one fast sample does not make it. */
static void test_beaten(void **state)
{
	static const char profile[] = HEAD "      - metric: peak\n        from: {copy: 20%}\n"
					   "      - metric: busbw\n        from: {bound: 20%}\n";
#define SAMPLED(percent, doubt)                                                                    \
	RESULT("1024", "2", "30",                                                                  \
	       ",\"min_us\":1,\"p50_us\":2,\"percent_of_bound\":" percent                          \
	       ",\"bound_source\":\"this run's copy speed\",\"bound_doubt\":" doubt)
	static const char *const holds[] = {RUN SAMPLED("90", "null")};
	static const char *const beaten[] = {RUN SAMPLED("150", "\"data came from a cache\"")};
	struct court c;

	open_court(&c, profile, holds, 1);
	assert_float_equal(c.judgements.list[1].value, 30, 1e-9);
	assert_int_equal(c.judgements.list[1].verdict, BB_PASSED);
	close_court(&c);
	open_court(&c, profile, beaten, 1);
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(c.judgements.list[i].verdict, BB_WARNED);
		assert_string_equal(c.judgements.list[i].reason,
				    "30 GB/s is beyond its bound of 20: data came from a cache; "
				    "the gate shows little");
	}
	close_court(&c);
}

#define SPLIT_RUN                                                                                  \
	"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":false,\"ranks\":["       \
	"{\"rank\":0,\"group\":0,\"host\":\"h0\"},{\"rank\":1,\"group\":1,\"host\":\"h1\"},"       \
	"{\"rank\":2,\"group\":2,\"host\":\"h2\"},{\"rank\":3,\"group\":2,\"host\":\"h2\"}]}\n"
#define SPLIT_RESULT(mean, groups)                                                                 \
	RESULT(G8, "1", mean, ",\"groups\":[0,1,2],\"group_busbw_GBps\":" groups)

/* Groups that are a host each have a number each. */
static void test_node_values(void **state)
{
	static const struct {
		const char *run;
		enum bb_node_verdict verdict[3];
	} cases[] = {
		{SPLIT_RUN SPLIT_RESULT("231", "[230,231,232]"),
		 {BB_NODE_OK, BB_NODE_OK, BB_NODE_OK}},
		/* The step fails for one of them. */
		{SPLIT_RUN SPLIT_RESULT("190", "[230,120,232]"),
		 {BB_NODE_OK, BB_NODE_BAD, BB_NODE_OK}},
		/* The mean hides one. */
		{SPLIT_RUN SPLIT_RESULT("225", "[250,175,250]"),
		 {BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_OK}},
		/* Nobody says whose it is. */
		{SPLIT_RUN SPLIT_RESULT("190", "[]"),
		 {BB_NODE_UNKNOWN, BB_NODE_UNKNOWN, BB_NODE_UNKNOWN}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		struct bb_nodes nodes;
		struct court c;
		char profile[1024];

		snprintf(profile, sizeof(profile), "ranks: 8\n%s", REFERENCE_GATE);
		open_court(&c, profile, &cases[i].run, 1);
		assert_int_equal(bb_nodes_judge(&c.evidence, 1, &c.judgements, &nodes, &error),
				 BB_OK);
		assert_int_equal(nodes.n, 3);
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(nodes.list[k].verdict, cases[i].verdict[k]);
			assert_int_equal(nodes.list[k].nvalues, i < 3);
		}
		if (i == 1) {
			assert_float_equal(nodes.list[1].values[0].value, 120, 1e-9);
			assert_true(nodes.list[1].values[0].excess > 0);
			assert_non_null(strstr(nodes.list[1].reason, "busbw here 120 GB/s"));
		}
		bb_nodes_free(&nodes);
		close_court(&c);
	}
}

/* Of a slow group each host may be to blame; if all groups are slow, nobody stands out. */
static void test_groups_of_hosts(void **state)
{
	static const char run[] =
		"{\"schema\":2,\"kind\":\"run\",\"run_id\":\"a\",\"virtual_time\":false,"
		"\"nranks\":32,\"ranks\":[{\"rank\":0,\"group\":0,\"host\":\"h0\"},"
		"{\"rank\":1,\"group\":0,\"host\":\"h1\"},"
		"{\"rank\":2,\"group\":1,\"host\":\"h2\"},"
		"{\"rank\":3,\"group\":1,\"host\":\"h3\"}]}\n";
	static const struct {
		const char *result;
		enum bb_verdict gate;
		enum bb_node_verdict verdict[4];
	} cases[] = {
		{RESULT(G8, "1", "231", ",\"groups\":[0,1],\"group_busbw_GBps\":[231,232]"),
		 BB_PASSED,
		 {BB_NODE_OK, BB_NODE_OK, BB_NODE_OK, BB_NODE_OK}},
		/* The mean of the groups is within the limit. */
		{RESULT(G8, "1", "225", ",\"groups\":[0,1],\"group_busbw_GBps\":[250,200]"),
		 BB_FAILED,
		 {BB_NODE_OK, BB_NODE_OK, BB_NODE_SUSPECT, BB_NODE_SUSPECT}},
		{RESULT(G8, "1", "200", ",\"groups\":[0,1],\"group_busbw_GBps\":[200,201]"),
		 BB_FAILED,
		 {BB_NODE_UNKNOWN, BB_NODE_UNKNOWN, BB_NODE_UNKNOWN, BB_NODE_UNKNOWN}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_error error = {0};
		struct bb_nodes nodes;
		struct court c;
		char profile[1024], records[4096];
		const char *one = records;

		snprintf(profile, sizeof(profile), "ranks: 8\n%s", REFERENCE_GATE);
		snprintf(records, sizeof(records), "%s%s", run, cases[i].result);
		open_court_for(&c, profile, &(struct bb_scale){.nodes = 4}, &one, 1);
		assert_int_equal(c.judgements.list[1].verdict, cases[i].gate);
		assert_int_equal(bb_nodes_judge(&c.evidence, 1, &c.judgements, &nodes, &error),
				 BB_OK);
		assert_int_equal(nodes.n, 4);
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(nodes.list[k].verdict, cases[i].verdict[k]);
		bb_nodes_free(&nodes);
		close_court(&c);
	}
}

#define PAIR(from, to, bw)                                                                         \
	"{\"schema\":1,\"kind\":\"pair\",\"quantity\":\"bandwidth\",\"from\":" from ",\"to\":" to  \
	",\"from_host\":\"h" from "\",\"to_host\":\"h" to "\",\"direction\":\"unidirectional\","   \
	"\"wrong\":0,\"GBps\":" bw ",\"percent_of_bound\":" bw ",\"bound_source\":\"link\"}\n"

/* Who is slow with everybody is slow; with one alone it is the other, or the link. */
static void test_pairs_of_hosts(void **state)
{
	const char *const run = RUN PAIR("0", "1", "10") PAIR("1", "0", "10") PAIR("0", "2", "90")
		PAIR("2", "0", "90") PAIR("0", "3", "90") PAIR("3", "0", "90") PAIR("1", "2", "10")
			PAIR("2", "1", "10") PAIR("1", "3", "10") PAIR("3", "1", "10")
				PAIR("2", "3", "90") PAIR("3", "2", "90");
	static const char profile[] =
		HEAD "      - metric: bandwidth\n        where: {kind: pair}\n"
		     "        from: {bound: 50%}\n";
	static const char all[] =
		"{\"schema\":1,\"kind\":\"run\",\"run_id\":\"b\",\"virtual_time\":"
		"false,\"ranks\":[{\"rank\":0,\"host\":\"h0\"},{\"rank\":1,\"host\":"
		"\"h1\"},{\"rank\":2,\"host\":\"h2\"},{\"rank\":3,\"host\":\"h3\"}]}\n";
	struct bb_error error = {0};
	struct bb_nodes nodes;
	char text[8192];
	const char *one = text;
	struct court c;

	snprintf(text, sizeof(text), "%s%s", all, run + strlen(RUN));
	open_court(&c, profile, &one, 1);
	assert_int_equal(bb_nodes_judge(&c.evidence, 1, &c.judgements, &nodes, &error), BB_OK);
	assert_int_equal(nodes.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(nodes.list[i].verdict, i == 1 ? BB_NODE_BAD : BB_NODE_OK);
		assert_int_equal(nodes.list[i].nvalues, 1);
		assert_true(nodes.list[i].values[0].shared);
		assert_float_equal(nodes.list[i].values[0].value, i == 1 ? 10 : 90, 1e-9);
	}
	bb_nodes_free(&nodes);
	close_court(&c);
}

/* What diagnose says of nodes is taken over. */
static void test_diagnosed(void **state)
{
	static const char profile[] = "name: p\nsteps:\n  - name: s\n    run: diagnose\n";
	static const char *const runs[] = {
		RUN "{\"schema\":1,\"kind\":\"node\",\"host\":\"h0\",\"verdict\":\"OK\","
		    "\"code\":\"BB-OK\",\"reason\":\"\"}\n"
		    "{\"schema\":1,\"kind\":\"node\",\"host\":\"h1\",\"verdict\":\"BAD\","
		    "\"code\":\"BB-SLOW-NODE\",\"reason\":\"whomever it meets\"}\n"
		    "{\"schema\":1,\"kind\":\"culprit\",\"host\":\"h2\",\"peer_host\":\"h0\","
		    "\"code\":\"BB-SLOW-LINK\",\"text\":\"the way between\"}\n"
		    "{\"schema\":1,\"kind\":\"culprit\",\"host\":\"h3\",\"peer_host\":\"h3\","
		    "\"code\":\"BB-SLOW-LINK\",\"text\":\"the way within\"}\n"};
	static const struct {
		const char *host, *code;
		enum bb_node_verdict verdict;
	} said[] = {{"h0", "BB-SLOW-LINK", BB_NODE_SUSPECT},
		    {"h1", "BB-SLOW-NODE", BB_NODE_BAD},
		    {"h2", "BB-SLOW-LINK", BB_NODE_SUSPECT},
		    {"h3", "BB-SLOW-LINK", BB_NODE_BAD}};
	struct bb_error error = {0};
	struct bb_nodes nodes;
	struct court c;

	open_court(&c, profile, runs, 1);
	assert_int_equal(bb_nodes_judge(&c.evidence, 1, &c.judgements, &nodes, &error), BB_OK);
	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
		const struct bb_node *const node = bb_nodes_find(&nodes, said[i].host);

		assert_non_null(node);
		assert_int_equal(node->verdict, said[i].verdict);
		assert_string_equal(node->code, said[i].code);
	}
	bb_nodes_free(&nodes);
	close_court(&c);
}

/* ---- commands ------------------------------------------------------------------------------- */

static struct bb_outcome outcome_of(const char *script, uint64_t limit_ms, const char *out)
{
	char *const words[] = {(char[]){"sh"}, (char[]){"-c"}, strdup(script), NULL};
	struct bb_outcome outcome;
	struct bb_error error = {0};

	assert_int_equal(
		bb_command_run(&(struct bb_command){words, out, "/dev/null", limit_ms * 1000000},
			       &outcome, &error),
		BB_OK);
	free(words[2]);
	return outcome;
}

/* Whatever a command starts ends with it, in its process group or out of it. */
static void test_commands(void **state)
{
	static const char leaves[] = "setsid sleep 1000 & echo $!; ";
	char out[] = "/tmp/bb_command_XXXXXX", script[100];
	const int file = mkstemp(out);
	struct bb_error error = {0};
	FILE *said;
	int pid;

	assert_true(file >= 0);
	close(file);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 && errno == EINVAL) {
		unlink(out);
		skip(); /* an emulator that passes only some calls on to Linux */
	}
	assert_int_equal(bb_commands_prepare(&error), BB_OK);
	assert_int_equal(outcome_of("exit 7", 60000, "/dev/null").status, 7);
	assert_int_equal(outcome_of("kill -9 $$", 60000, "/dev/null").status, 128 + 9);
	for (int late = 0; late < 2; late++) {
		snprintf(script, sizeof(script), "%s%s", leaves, late ? "wait" : "exit 0");
		assert_int_equal(outcome_of(script, late ? 3000 : 60000, out).timed_out, late);
		said = fopen(out, "r");
		assert_non_null(said);
		assert_int_equal(fscanf(said, "%d", &pid), 1);
		fclose(said);
		assert_int_equal(kill(pid, 0), -1);
	}
	unlink(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_node_values),    cmocka_unit_test(test_groups_of_hosts),
		cmocka_unit_test(test_pairs_of_hosts), cmocka_unit_test(test_confidence),
		cmocka_unit_test(test_student),        cmocka_unit_test(test_counters),
		cmocka_unit_test(test_values),         cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_topologies),     cmocka_unit_test(test_dips),
		cmocka_unit_test(test_crossover),      cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_not_shown),      cmocka_unit_test(test_beaten),
		cmocka_unit_test(test_diagnosed),      cmocka_unit_test(test_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
