/*
 * The search for an order within a memory limit: it is kept, more memory is never worse, and
 * nothing that is done by rule and fits is better.
 */
#include "pipelines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_memory_limit(void **state)
{
	for (int limit = 1; limit <= 16; limit++) {
		struct bb_pipeline pipe = unit_pipeline(8, 32, 1);
		struct bb_order o;
		double peaks[8];

		pipe.limit = limit;
		o = make_order("zb-auto", &pipe);
		order_memory(&o, peaks);
		for (int s = 0; s < 8; s++)
			assert_true(peaks[s] <= limit);
		bb_order_free(&o);
	}
}

/* What a step costs: of a stage, or until the last pass. */
static double cost_of(const struct bb_order *o)
{
	double span;
	const double end = evaluate(o, false, &span);

	return o->pipeline.by_step ? end : span;
}

static double cost_of_schedule(const char *name, const struct bb_pipeline *pipe)
{
	struct bb_order o = make_order(name, pipe);
	const double cost = cost_of(&o);

	bb_order_free(&o);
	return cost;
}

/* GPipe, in groups of as many microbatches as there is room for. */
static double cost_of_groups(const struct bb_pipeline *pipe)
{
	const int m = pipe->microbatches, n = (int)pipe->limit;
	struct bb_pass passes[16 * 2 * 64], *at = passes;
	const struct bb_order o = {*pipe,           pipe->stages, m, 1, .length = 2 * (size_t)m,
				   .passes = passes};

	for (int s = 0; s < pipe->stages; s++)
		for (int begin = 0; begin < m; begin += n)
			for (int kind = BB_PASS_F; kind <= BB_PASS_BW; kind += BB_PASS_BW)
				for (int i = begin; i < begin + n && i < m; i++)
					*at++ = (struct bb_pass){(uint8_t)kind, 0, (uint16_t)i};
	return cost_of(&o);
}

static void assert_no_more(double cost, double other, const char *what,
			   const struct bb_pipeline *pipe)
{
	if (cost > other)
		fail_msg("%d stages, %d microbatches, F %lld, B %lld, W %lld, hop %lld, memory of "
			 "%lld: a %s costs %g, %s %g",
			 pipe->stages, pipe->microbatches, (long long)pipe->f, (long long)pipe->b,
			 (long long)pipe->w, (long long)pipe->hop, (long long)pipe->limit,
			 pipe->by_step ? "step" : "stage", cost, what, other);
}

/* More memory is never worse, and nothing that fits and is done by rule is better. */
static void assert_search(struct bb_pipeline pipe)
{
	const double by_turns = cost_of_schedule("1f1b", &pipe);
	double before = INFINITY;

	for (pipe.limit = 1; pipe.limit <= 2 * pipe.stages + 1; pipe.limit++) {
		const double cost = cost_of_schedule("zb-auto", &pipe);

		assert_no_more(cost, before, "with less memory", &pipe);
		assert_no_more(cost, cost_of_groups(&pipe), "GPipe in groups", &pipe);
		if (pipe.limit >= pipe.stages)
			assert_no_more(cost, by_turns, "1F1B", &pipe);
		before = cost;
	}
}

static void test_search(void **state)
{
	static const int64_t costs[][6] = {
		/* F, B, W, hop; what F leaves, what W needs */
		{1000, 1000, 1000, 0, 2, 1},   {18522, 18086, 9337, 601, 201216, 73728},
		{10, 20, 10, 1, 3, 2},         {100, 100, 100, 50, 1, 1},
		{1000, 300, 700, 2000, 10, 1}, {7, 31, 3, 5, 5, 2}};
	static const int stages[] = {1, 3, 4, 8}, microbatches[] = {3, 14};

	for (size_t c = 0; c < sizeof(costs) / sizeof(costs[0]); c++)
		for (int i = 0; i < 4 * 2 * 2; i++) {
			struct bb_pipeline pipe =
				unit_pipeline(stages[i % 4], microbatches[i / 4 % 2], 1);

			pipe.f = costs[c][0];
			pipe.b = costs[c][1];
			pipe.w = costs[c][2];
			pipe.hop = costs[c][3];
			pipe.kept = costs[c][4];
			pipe.kept_w = costs[c][5];
			pipe.by_step = i / 8;
			assert_search(pipe);
			if (pipe.by_step)
				continue;
			pipe.layers = pipe.stages + 3;
			pipe.last = (struct bb_pipeline_end){pipe.f, pipe.b, pipe.w, 2, 1};
			assert_search(pipe);
		}
}

/* Where fewer microbatches fit than there are stages: what a greedy list comes to. */
static void test_little_memory(void **state)
{
	static const int listed[] = {408, 217, 149, 115, 97, 85, 83, 79};

	for (int limit = 1; limit <= 8; limit++) {
		struct bb_pipeline pipe = unit_pipeline(8, 24, 1);

		pipe.limit = limit;
		pipe.by_step = true;
		assert_no_more(cost_of_schedule("zb-auto", &pipe), 1e6 * listed[limit - 1],
			       "a list", &pipe);
	}
}

/* Costs that a search has come to: it may find less, and no more. */
static void test_found_before(void **state)
{
	static const int found[] = {880,  760,   4120, 3856, 3978, 3577, 5587, 5309, 6006,
				    5568, 1685,  1858, 5088, 5199, 6001, 3818, 3292, 2438,
				    8466, 5710,  2590, 2805, 2093, 2212, 4218, 4129, 3311,
				    3116, 14412, 5785, 4030, 4002, 2028, 2152, 6276, 6362};
	int at = 0;

	for (int i = 0; i < 18; i++)
		for (int v = 0; v < 2; v++) {
			struct bb_pipeline pipe = unit_pipeline(2 + i % 5, 3 + 7 * i % 11, 1);

			pipe.f = 100 + 37 * i % 90;
			pipe.b = 100 + 53 * i % 120;
			pipe.w = 40 + 29 * i % 110;
			pipe.hop = i % 3 ? 11 * i % 70 : 0;
			pipe.limit = 2 + i % 7;
			pipe.by_step = i % 2;
			pipe.hasty = i % 4 == 3;
			assert_no_more(cost_of_schedule(v ? "zb-v" : "zb-auto", &pipe),
				       found[at++] + 0.5, "one found before", &pipe);
		}
	assert_int_equal(at, sizeof(found) / sizeof(found[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_little_memory),
		cmocka_unit_test(test_found_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
