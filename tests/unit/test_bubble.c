/*
 * The cost of pipeline schedules. Oracle: the orders that the pipeline's benchmark performs.
 */
#include "core/random.h"
#include "training_kernels/hybrid/bubble.h"
#include "training_kernels/pipeline/draft.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_near(double got, double wanted, double within)
{
	if (!(fabs(got - wanted) <= within))
		fail_msg("%.6g, not %.6g", got, wanted);
}

/* The longest time of a stage from its first pass to its last. */
static double order_seconds(const struct bb_bubble_form *form)
{
	const struct bb_pipeline pipeline = {.stages = (int)form->stages,
					     .microbatches = (int)form->micro_batches,
					     .chunks = (int)form->chunks,
					     .f = (int64_t)(1e9 * form->forward),
					     .b = (int64_t)(1e9 * form->input),
					     .w = (int64_t)(1e9 * form->weights),
					     .hop = (int64_t)(1e9 * form->hop),
					     .kept = 2,
					     .kept_w = 1,
					     .limit = (int64_t)form->kept};
	struct bb_error error;
	struct bb_order order;
	struct bb_draft draft;
	int64_t span = 0;
	int stage;

	assert_int_equal(bb_order_make(form->schedule, &pipeline, &order, &error), BB_OK);
	assert_int_equal(bb_draft_follow(&draft, &order, &error), BB_OK);
	while (bb_draft_step(&draft, &stage))
		;
	for (int s = 0; s < order.stages; s++)
		if (draft.stages[s].time - draft.stages[s].begin > span)
			span = draft.stages[s].time - draft.stages[s].begin;
	bb_draft_free(&draft);
	bb_order_free(&order);
	return 1e-9 * (double)span;
}

/* Where F, B and W are equal, each formula is the time of the order that the pipeline's benchmark
   performs. */
static void test_schedules(void **state)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		for (uint64_t p = 2; p <= 8; p += 2) {
			const struct bb_bubble_form form = {
				.schedule = s,
				.stages = p,
				.chunks = s->chunks ? (uint64_t)s->chunks : 2,
				.micro_batches = 4 * p,
				.kept = 2 * p,
				.forward = 1e-3,
				.input = 1e-3,
				.weights = 1e-3};
			const double all = 3e-3 * 4 * (double)p;
			struct bb_bubble bubble;

			assert_true(bb_bubble_find(&form, NULL, 0, &bubble));
			assert_near(all + bubble.idle, order_seconds(&form), 1e-9);
			assert_true(s->split || bubble.idle > 0);
		}
}

/* Stages wait as long for messages as in that order. */
static void test_messages(void **state)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		for (uint64_t p = 2; !s->search && p <= 8; p += 2)
			for (uint64_t rounds = 1; rounds <= 3; rounds++) {
				const struct bb_bubble_form form = {
					.schedule = s,
					.stages = p,
					.chunks = s->chunks ? (uint64_t)s->chunks : 1 + rounds,
					.micro_batches = rounds * p,
					.forward = 12e-3,
					.input = 24e-3,
					.weights = 12e-3,
					.hop = 1e-3};
				const double all = 48e-3 * (double)(rounds * p);
				struct bb_bubble bubble;

				if (rounds == 1 && s->split)
					continue; /* zb-h2 has no such order */
				assert_true(bb_bubble_find(&form, NULL, 0, &bubble));
				assert_near(all + bubble.idle + bubble.messages,
					    order_seconds(&form), 1e-8);
			}
}

/* Qi et al. (arXiv 2401.10241), tables 5 and 9: bubble over the whole time, of 8 stages.
   Interleaved with its dependencies between all micro-batches, which the paper has for the first
   ones alone. */
static void test_published(void **state)
{
	static const struct {
		double f, b, w, hop;
		uint64_t micro_batches, chunks;
		double rates[4];
	} rows[] = {
		{18.522, 18.086, 9.337, 0.601, 24, 3, {0.2431, 0.1090, 0.1585, 0.1083}},
		{18.513, 18.086, 9.331, 0.626, 32, 3, {0.1985, 0.0847, 0.1242, 0.0837}},
		{18.546, 18.097, 9.321, 0.762, 64, 3, {0.1240, 0.0461, 0.0674, 0.0444}},
		{29.718, 29.444, 19.927, 0.527, 24, 4, {0.2347, 0.0827, 0.1323, 0.0698}},
		{29.802, 29.428, 19.530, 0.577, 32, 4, {0.1898, 0.0644, 0.1045, 0.0559}},
		{29.935, 29.621, 19.388, 0.535, 64, 4, {0.1091, 0.0328, 0.0554, 0.0294}},
	};
	static const char *const names[] = {"1f1b", "interleaved", "zb-h1", "zb-h2"};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t k = 0; k < 4; k++) {
			const struct bb_bubble_form form = {.schedule = bb_pipeline_find(names[k]),
							    .stages = 8,
							    .chunks = k == 1 ? rows[i].chunks : 1,
							    .micro_batches = rows[i].micro_batches,
							    .forward = rows[i].f,
							    .input = rows[i].b,
							    .weights = rows[i].w,
							    .hop = rows[i].hop};
			const double all = (double)form.micro_batches *
					   (form.forward + form.input + form.weights);
			struct bb_bubble found;

			assert_true(bb_bubble_find(&form, NULL, 0, &found));
			assert_near((found.idle + found.messages) /
					    (all + found.idle + found.messages),
				    rows[i].rates[k], 1e-4);
		}
}

/* Orders that are searched count messages; a schedule without an order says so. */
static void test_searched_schedules(void **state)
{
	struct bb_bubble_form form = {.schedule = bb_pipeline_find("zb-auto"),
				      .stages = 4,
				      .chunks = 1,
				      .micro_batches = 8,
				      .kept = 4,
				      .forward = 2e-3,
				      .input = 3e-3,
				      .weights = 1e-3,
				      .hop = 1e-3};
	struct bb_bubble tight, wide;

	assert_true(bb_bubble_find(&form, NULL, 0, &tight));
	form.kept = 8;
	assert_true(bb_bubble_find(&form, NULL, 0, &wide));
	assert_true(wide.idle + wide.messages <= tight.idle + tight.messages);
	assert_true(tight.messages > 0);
	assert_int_equal(bb_bubble_kept(&form, 0), 8);
	form.schedule = bb_pipeline_find("zb-h2");
	assert_int_equal(bb_bubble_kept(&form, 3), 7);
	form.schedule = bb_pipeline_find("interleaved");
	form.chunks = 2;
	form.micro_batches = 7;
	assert_false(bb_bubble_find(&form, NULL, 0, &wide));
}

/* A plan searches an order once, and only if its bound, which no order is below, is cheap enough.
 */
static void test_orders_of_a_plan(void **state)
{
	struct bb_bubble_orders orders = {.list = NULL};
	uint64_t draw = 7;

	for (int i = 0; i < 200; i++) {
		const struct bb_bubble_form form = {
			.schedule = bb_pipeline_find("zb-auto"),
			.stages = 2 + bb_random_next(&draw) % 7,
			.chunks = 1,
			.micro_batches = 1 + bb_random_next(&draw) % 24,
			.kept = 1 + bb_random_next(&draw) % 16,
			.forward = 1e-3 * (double)(1 + bb_random_next(&draw) % 9),
			.input = 1e-3 * (double)(1 + bb_random_next(&draw) % 9),
			.weights = 1e-3 * (double)(1 + bb_random_next(&draw) % 9),
			.hop = 1e-4 * (double)(bb_random_next(&draw) % 9)};
		struct bb_bubble exact, bound, found;
		const size_t before = orders.n;

		assert_true(bb_bubble_find(&form, NULL, 0, &exact));
		assert_true(bb_bubble_find(&form, &orders, -1, &bound));
		assert_int_equal(orders.n, before);
		assert_true(bound.idle <= exact.idle + exact.messages + 1e-12);
		for (int again = 0; again < 2; again++) {
			assert_true(bb_bubble_find(&form, &orders, INFINITY, &found));
			assert_true(found.idle == exact.idle && found.messages == exact.messages);
		}
		assert_true(orders.n <= before + 1);
	}
	assert_true(orders.n > 100);
	free(orders.list);
}

/* Four stages, eight micro-batches, F, B and W of 1, 2 and 0.5 s: T is 3.5 s. */
static void test_formulas(void **state)
{
	static const struct {
		const char *schedule;
		uint64_t chunks;
		double weights, idle, hops, overlapped; /* hops of which stages wait */
		uint64_t kept[4];                       /* by stage */
	} cases[] = {
		{"naive", 1, 0.5, 3 * 8 * 3.5, 48, 48, {1, 1, 1, 1}},
		{"gpipe", 1, 0.5, 3 * 3.5, 6, 6, {8, 8, 8, 8}},
		{"1f1b", 1, 0.5, 3 * 3.5, 6 * 3 - 2, 6, {4, 3, 2, 1}},
		{"interleaved", 2, 0.5, 3 * 3.5 / 2, 14, 14, {11, 9, 7, 5}},
		{"zb-h1", 1, 0.5, 3 * 2.5, 12, 6, {4, 4, 4, 4}},
		{"zb-h2", 1, 0.5, 3 * 2, 6, 6, {7, 7, 7, 7}},
		{"zb-h1", 1, 4, 0, 12, 6, {4, 4, 4, 4}},
		{"zb-h2", 1, 2, 0, 6, 6, {7, 7, 7, 7}},
		{"zb-v", 2, 0.5, NAN, 0, 0, {8, 8, 8, 8}},
		{"zb-auto", 1, 0.5, NAN, 0, 0, {5, 5, 5, 5}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_bubble_form form = {.schedule = bb_pipeline_find(cases[i].schedule),
					      .stages = 4,
					      .chunks = cases[i].chunks,
					      .micro_batches = 8,
					      .kept = 5,
					      .forward = 1,
					      .input = 2,
					      .weights = cases[i].weights,
					      .hop = 0.1};
		struct bb_bubble bubble;

		for (uint64_t stage = 0; stage < 4; stage++)
			assert_int_equal(bb_bubble_kept(&form, stage), cases[i].kept[stage]);
		for (int overlapped = 0; overlapped < 2 && !isnan(cases[i].idle); overlapped++) {
			form.overlapped = overlapped;
			assert_true(bb_bubble_find(&form, NULL, 0, &bubble));
			assert_near(bubble.idle, cases[i].idle, 1e-9);
			assert_near(bubble.messages,
				    0.1 * (overlapped ? cases[i].overlapped : cases[i].hops), 1e-9);
		}
		/* No more than there are. */
		form.micro_batches = 4;
		assert_true(bb_bubble_kept(&form, 0) <= 4 * cases[i].chunks + 3);
		form.stages = 1;
		assert_true(bb_bubble_find(&form, NULL, 0, &bubble));
		assert_near(bubble.idle, 0, 0);
		assert_near(bubble.messages, 0, 0);
		form.stages = 4;
		form.micro_batches = 2;
		if (strncmp(cases[i].schedule, "zb-h2", 5) == 0)
			assert_int_equal(bb_bubble_kept(&form, 0), 2);
	}
	assert_ptr_equal(bb_bubble_usual(1), bb_pipeline_find("1f1b"));
	assert_ptr_equal(bb_bubble_usual(2), bb_pipeline_find("interleaved"));
}

/* Orders that are too large are none. */
static void test_too_large(void **state)
{
	static const struct {
		uint64_t stages, micro_batches;
	} cases[] = {{5000, 1}, {2, 65536}, {100, 14000}, {1000, 1400}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_bubble_form form = {.schedule = bb_pipeline_find("zb-auto"),
						    .stages = cases[i].stages,
						    .chunks = 1,
						    .micro_batches = cases[i].micro_batches,
						    .kept = 4,
						    .forward = 1,
						    .input = 1,
						    .weights = 1};
		struct bb_bubble bubble;

		assert_false(bb_bubble_find(&form, NULL, 0, &bubble));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedules),        cmocka_unit_test(test_messages),
		cmocka_unit_test(test_published),        cmocka_unit_test(test_searched_schedules),
		cmocka_unit_test(test_orders_of_a_plan), cmocka_unit_test(test_formulas),
		cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
