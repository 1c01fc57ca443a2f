/*
 * Ways of a step: their programs keep the rules, take in virtual time what their formulas say, and
 * send what they must.
 */
#include "simulator/timeline/timeline.h"
#include "training_kernels/data_parallel/data_parallel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define MOST 9
#define RATE 25e9
#define ELEMENTS 252000 /* divided by 1 to 10 */
#define BYTES (4.0 * ELEMENTS)
#define COMPUTE 0.01

static const struct bb_link_model kinds[] = {
	{.rate = RATE},
	{.rate = RATE, .latency = 1e-6},
	{.rate = RATE, .latency = 1e-4},
	{.rate = RATE, .port = true},
	{.rate = RATE, .latency = 1e-6, .port = true},
	{.rate = RATE, .latency = 1e-4, .port = true},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void near(double got, double want, const char *what, const struct bb_strategy_setting *s)
{
	if (!(fabs(got - want) <= 1e-12 * fmax(1e-3, fabs(want))))
		fail_msg("%s of %d ranks, %d servers: %.17g instead of %.17g", what, s->active,
			 s->servers, got, want);
}

static struct bb_strategy_setting setting_of(int active)
{
	return (struct bb_strategy_setting){.nranks = active,
					    .active = active,
					    .elements = ELEMENTS,
					    .dtype = BB_FLOAT,
					    .compute_s = COMPUTE,
					    .batches = 1,
					    .every = 1,
					    .steps = 1,
					    .servers = 1};
}

static const struct bb_strategy *strategy_named(const char *name)
{
	for (int i = 0; bb_strategies[i].name; i++)
		if (strcmp(bb_strategies[i].name, name) == 0)
			return &bb_strategies[i];
	fail_msg("no strategy is called %s", name);
	return NULL;
}

/* S by STRATEGY. */
static struct bb_strategy_setting by(const char *strategy, const struct bb_strategy_setting *s)
{
	struct bb_strategy_setting own = *s;

	own.strategy = strategy_named(strategy);
	return own;
}

static int workers_of(const struct bb_strategy_setting *s)
{
	const struct bb_strategy_setting servers = by("ps", s);

	return bb_strategy_workers(&servers);
}

/* ---- the formulas of docs/training.md -------------------------------------------------------- */

static double compute_of(const struct bb_strategy_setting *s)
{
	return s->compute_s * (double)s->batches;
}

/* Seconds that the largest of PARTS parts takes to enter a link. */
static double slowest_entry(const struct bb_strategy_setting *s, const struct bb_link_model *links,
			    int parts)
{
	const size_t most = bb_part_count(s->elements, parts, 0);

	return links->rate > 0 ? (double)(most * bb_dtype_size(s->dtype)) / links->rate : 0;
}

/* 2 (n-1) rounds, each with the largest part on some link. */
static double ring_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	return 2 * (s->active - 1) * (links->latency + slowest_entry(s, links, s->active));
}

static double peers_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	return compute_of(s) + ring_seconds(s, links);
}

static double average_seconds(const struct bb_strategy_setting *s,
			      const struct bb_link_model *links)
{
	return compute_of(s) + ring_seconds(s, links) / (double)s->every;
}

/* Worker i has the parameters after i messages, and gradients follow each other likewise; the last
   one arrives a message later. */
static double root_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const int n = s->active;

	return compute_of(s) + (n > 1 ? n * (links->latency + slowest_entry(s, links, 1)) : 0);
}

/*
 * Seconds until all workers have pushed. With ports, the parts of the workers enter a server one
 * after another; a worker that has been served is a latency away from its next server, which
 * dominates if that is longer than the entry of the others. Exact if k divides the number of
 * workers or there is no latency; otherwise it may be one latency too long for each server.
 */
static double push_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const int n = workers_of(s), k = s->servers;
	const double entry = slowest_entry(s, links, k);
	const double alone = k * (links->latency + entry);

	if (!links->port)
		return alone;
	return fmax(n * entry + links->latency, alone + ((n + k - 1) / k - 1) * entry);
}

/* Colocated servers communicate with all others in turn, as in a ring. Otherwise a server answers
   one worker after another. */
static double server_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const double strategy = links->latency + slowest_entry(s, links, s->servers);

	if (s->colocated)
		return compute_of(s) + 2 * (s->active - 1) * strategy;
	return compute_of(s) + push_seconds(s, links) + workers_of(s) * strategy;
}

/* The bound is a worker, or a server, which answers all workers in a step. */
static double async_seconds(const struct bb_strategy_setting *s, const struct bb_link_model *links)
{
	const double strategy = links->latency + slowest_entry(s, links, s->servers);

	return fmax(compute_of(s) + (s->servers + 1) * strategy, workers_of(s) * strategy);
}

static double formula(const char *strategy, const struct bb_strategy_setting *s,
		      const struct bb_link_model *links)
{
	static const struct {
		const char *strategy;
		double (*seconds)(const struct bb_strategy_setting *s,
				  const struct bb_link_model *links);
	} formulas[] = {{"dp", root_seconds},        {"ps", server_seconds},
			{"ps_async", async_seconds}, {"ddp", peers_seconds},
			{"zero", peers_seconds},     {"average", average_seconds}};
	size_t i = 0;

	while (strcmp(formulas[i].strategy, strategy) != 0)
		i++;
	return formulas[i].seconds(s, links);
}

static void make(struct bb_taped *p, const struct bb_strategy_setting *setting)
{
	struct bb_error error = {0};

	if (bb_strategy_write(p, setting, "ring", &error) != BB_OK ||
	    bb_program_check(&p->program, &error) != BB_OK)
		fail_msg("%s, %d of %d ranks: %s", setting->strategy->name, setting->active,
			 setting->nranks, error.text);
}

/* Seconds of a step. */
static double play(const char *strategy, const struct bb_strategy_setting *setting,
		   const struct bb_link_model *links)
{
	const struct bb_strategy_setting own = by(strategy, setting);
	struct bb_taped p;
	struct bb_error error = {0};
	double end = 0;

	make(&p, &own);
	if (bb_timeline_program(links, &p.program, NULL, &end, &error) != BB_OK)
		fail_msg("%s, %d ranks: %s", strategy, setting->active, error.text);
	end /= (double)bb_strategy_steps(&own);
	bb_taped_free(&p);
	return end;
}

static bool refuses(const char *strategy, const struct bb_strategy_setting *s)
{
	const struct bb_strategy_setting own = by(strategy, s);

	return bb_strategy_refuses(&own);
}

static void equal(const char *strategy, const struct bb_strategy_setting *s)
{
	for (size_t i = 0; i < KINDS && !refuses(strategy, s); i++)
		near(play(strategy, s, &kinds[i]), formula(strategy, s, &kinds[i]), strategy, s);
}

/* All kinds of settings, with work for real and without, and with ranks that have nothing to do. */
static void test_rules(void **state)
{
	for (int strategy = 0; bb_strategies[strategy].name; strategy++)
		for (int n = 1; n <= MOST; n++)
			for (int k = 0; k < 16 * n; k++) {
				struct bb_strategy_setting s = setting_of(n);
				struct bb_taped p;

				s.strategy = &bb_strategies[strategy];
				s.elements = 7;
				s.nranks = n + (k & 1);
				s.real = k & 2;
				s.updates = k & 4;
				s.colocated = k & 8;
				s.servers = 1 + k / 16;
				s.every = s.steps = s.batches = 3;
				if (bb_strategy_refuses(&s))
					continue;
				make(&p, &s);
				bb_taped_free(&p);
			}
}

static void test_formulas(void **state)
{
	static const char *const strategies[] = {"dp", "ddp", "zero", "average"};

	for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
		for (int n = 1; n <= MOST; n++) {
			struct bb_strategy_setting s = setting_of(n);

			s.every = 1 + (size_t)n % 3;
			s.batches = 1 + (size_t)n % 2;
			equal(strategies[i], &s);
			s.elements += 5;
			equal(strategies[i], &s);
		}
}

static void test_servers(void **state)
{
	for (int servers = 1; servers <= MOST; servers++)
		for (int workers = servers; workers <= 2 * MOST; workers++) {
			struct bb_strategy_setting s = setting_of(servers + workers);

			s.servers = servers;
			if (workers % servers == 0)
				equal("ps", &s);
			/* Push and pull, each limited by the server's port. */
			near(play("ps", &s, &kinds[3]),
			     COMPUTE + 2 * workers * BYTES / servers / RATE, "port", &s);
		}
}

/* As many servers as workers, on the same ranks: what a ring takes. */
static void test_colocated(void **state)
{
	for (int n = 1; n <= MOST; n++) {
		struct bb_strategy_setting s = setting_of(n);

		s.servers = n;
		s.colocated = true;
		equal("ps", &s);
		near(play("ps", &s, &kinds[4]), play("ddp", &s, &kinds[4]), "ring", &s);
	}
}

/* Each worker waits for a server alone, or the server for none. */
static void test_async(void **state)
{
	struct bb_strategy_setting s = setting_of(5);
	const struct bb_link_model *links = &kinds[4];
	double want;

	s.steps = 1000;
	want = formula("ps_async", &s, links);
	assert_true(fabs(play("ps_async", &s, links) / want - 1) < 0.01);
	near(want, COMPUTE + 2 * (1e-6 + BYTES / RATE), "alone", &s);
	s.compute_s = 1e-5;
	want = formula("ps_async", &s, links);
	assert_true(fabs(play("ps_async", &s, links) / want - 1) < 0.01);
	near(want, 4 * (1e-6 + BYTES / RATE), "served", &s);
}

/* What must be sent by the busiest rank. */
static void test_wire(void **state)
{
	static const char *const strategies[] = {"dp", "ddp", "zero", "average", "ps"};

	for (int n = 2; n <= 8; n += 2) {
		struct bb_strategy_setting s = setting_of(n);
		const double ring = 2 * (n - 1) * BYTES / n;
		const double all[] = {(n - 1) * BYTES, ring, ring, ring / 4, BYTES};

		s.every = 4;
		s.servers = n / 2;
		for (int i = 0; i < 5; i++) {
			struct bb_taped p;

			s.strategy = strategy_named(strategies[i]);
			make(&p, &s);
			near(bb_strategy_wire(&p, &s, "ring"), all[i], strategies[i], &s);
			bb_taped_free(&p);
		}
	}
}

static void test_refusals(void **state)
{
	struct bb_strategy_setting s = setting_of(2);

	assert_false(refuses("ps", &s));
	s.servers = 2;
	assert_true(refuses("ps", &s));
	s.colocated = true;
	assert_false(refuses("ps", &s));
	assert_true(refuses("ps_async", &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),    cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_servers),  cmocka_unit_test(test_colocated),
		cmocka_unit_test(test_async),    cmocka_unit_test(test_wire),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
