/*
 * The cost of pipeline schedules. Oracle: the orders that the pipeline's benchmark performs.
 */
#include "training_kernels/hybrid/bubble.h"
#include "training_kernels/pipeline/draft.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void assert_near(double got, double wanted, double within)
{
	if (fabs(got - wanted) > within)
		fail_msg("%.6g, not %.6g", got, wanted);
}

/* The longest time of a stage from its first pass to its last, in an order without messages. */
static double order_seconds(const struct bb_bubble_form *form)
{
	const struct bb_pipeline pipeline = {.stages = (int)form->stages,
					     .microbatches = (int)form->micro_batches,
					     .chunks = (int)form->chunks,
					     .f = (int64_t)(1e9 * form->forward),
					     .b = (int64_t)(1e9 * form->input),
					     .w = (int64_t)(1e9 * form->weights),
					     .kept = 2,
					     .kept_w = 1,
					     .limit = (int64_t)form->kept};
	struct bb_error error;
	struct bb_order order;
	struct bb_draft draft;
	int64_t span = 0;
	int stage;

	assert_int_equal(bb_order_make(form->schedule, &pipeline, &order, &error), BB_OK);
	assert_int_equal(bb_draft_follow(&draft, &order, &pipeline, &error), BB_OK);
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
   performs, and no stage keeps more than is said. */
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

			assert_true(bb_bubble_find(&form, &bubble));
			assert_near(all + bubble.idle, order_seconds(&form), 1e-9);
			assert_true(s->split || bubble.idle > 0);
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

	assert_true(bb_bubble_find(&form, &tight));
	form.kept = 8;
	assert_true(bb_bubble_find(&form, &wide));
	assert_true(wide.idle + wide.messages <= tight.idle + tight.messages);
	assert_true(tight.messages > 0);
	assert_int_equal(bb_bubble_kept(&form, 0), 8);
	form.schedule = bb_pipeline_find("zb-h2");
	assert_int_equal(bb_bubble_kept(&form, 3), 7);
	form.schedule = bb_pipeline_find("interleaved");
	form.chunks = 2;
	form.micro_batches = 7;
	assert_false(bb_bubble_find(&form, &wide));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_searched_schedules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
