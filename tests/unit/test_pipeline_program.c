/*
 * Pipelines as programs: they keep the rules, take the time that their order takes, and bring about
 * what one rank makes alone, unless two passes are swapped.
 */
#include "pipelines.h"
#include "training_kernels/pipeline/draft.h"
#include "training_kernels/pipeline/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST_STAGES 6

static struct bb_pipeline pipeline(int stages, int microbatches)
{
	return (struct bb_pipeline){.stages = stages,
				    .microbatches = microbatches,
				    .chunks = 3,
				    .f = 3000000,
				    .b = 3600000,
				    .w = 2400000,
				    .hop = 100000,
				    .kept = 2000,
				    .kept_w = 1000,
				    .limit = 2 * stages};
}

/* What a test needs of one schedule. */
struct made {
	struct bb_pipeline pipe;
	struct bb_order order;
	struct bb_pipeline_program program;
};

static void make(struct made *m, const struct bb_pipeline_schedule *schedule, int stages,
		 int microbatches)
{
	const struct bb_pipeline_form form = {.elements = BB_PIPELINE_ELEMENTS};
	struct bb_error error = {.text = ""};

	m->pipe = pipeline(stages, microbatches);
	assert_int_equal(bb_order_make(schedule, &m->pipe, &m->order, &error), BB_OK);
	assert_int_equal(bb_pipeline_program_make(&m->program, &m->order, &form, &error), BB_OK);
}

static void drop(struct made *m)
{
	bb_pipeline_program_free(&m->program);
	bb_order_free(&m->order);
}

/* TEST of every schedule, on up to MOST_STAGES stages. */
static void of_all(void (*test)(const struct bb_pipeline_schedule *schedule, struct made *m))
{
	static const int microbatches[] = {1, 2, 6, 12};

	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		for (int p = 1; p <= MOST_STAGES; p++)
			for (int i = 0; i < 4; i++) {
				const struct bb_pipeline pipe = pipeline(p, microbatches[i]);
				struct made m;

				if (bb_pipeline_refuses(s, &pipe))
					continue;
				make(&m, s, p, microbatches[i]);
				test(s, &m);
				drop(&m);
			}
}

/* ---- rules and times ------------------------------------------------------------------------ */

static void assert_rules(const struct bb_pipeline_schedule *schedule, struct made *m)
{
	struct bb_error error = {.text = ""};

	if (bb_program_check(&m->program.program, &error) != BB_OK)
		fail_msg("%s, %d stages, %d microbatches: %s", schedule->name, m->pipe.stages,
			 m->pipe.microbatches, error.text);
}

static void test_rules(void **state)
{
	of_all(assert_rules);
}

/* What is counted as the program is played: memory as the lists say, a message of each pass that
   another stage waits for, and in the end nothing is held. */
static void assert_counts(const struct bb_pipeline_schedule *schedule, struct made *m,
			  const struct bb_pass_times *times)
{
	double peaks[16];
	double sent = 0;

	order_memory(&m->order, peaks);
	for (int s = 0; s < m->pipe.stages; s++) {
		const double peak =
			times->peaks[s] / (double)bb_part_of_stage(&m->order, s).change[BB_PASS_F];

		sent += times->sent[s];
		if (!(fabs(peak - peaks[s]) <= 1e-9) || times->held[s] != 0)
			fail_msg("%s: stage %d of %d holds %g, not %g", schedule->name, s,
				 m->pipe.stages, peak, peaks[s]);
	}
	assert_true(sent == 4.0 * (double)(m->program.messages * m->program.form.elements));
}

/* No queue and no message makes a pass wait for more than what it needs. */
static void assert_times(const struct bb_pipeline_schedule *schedule, struct made *m)
{
	const struct bb_link_model links = {.latency = 1e-9 * (double)m->pipe.hop};
	struct bb_error error = {.text = ""};
	struct bb_pass_times times;
	const struct bb_timeline_watch watch = {bb_pass_times_note, &times};
	struct bb_draft draft;
	double end;
	int stage;

	assert_int_equal(bb_pass_times_open(&times, &m->order, &error), BB_OK);
	assert_int_equal(bb_timeline_program(&links, &m->program.program, &watch, &end, &error),
			 BB_OK);
	assert_int_equal(bb_draft_follow(&draft, &m->order, &error), BB_OK);
	while (bb_draft_step(&draft, &stage))
		;
	for (size_t i = 0; i < bb_order_slots(&m->order); i++)
		if (draft.ends[i] >= 0 &&
		    !(fabs(times.to[i] - 1e-9 * (double)draft.ends[i]) <= 1e-9))
			fail_msg("%s, %d stages, slot %zu: %g, not %g", schedule->name,
				 m->pipe.stages, i, times.to[i], 1e-9 * (double)draft.ends[i]);
	bb_draft_free(&draft);
	assert_counts(schedule, m, &times);
	bb_pass_times_close(&times);
}

static void test_times(void **state)
{
	of_all(assert_times);
}

static void test_result(void **state)
{
	const struct bb_link_model links = {.latency = 0};
	struct bb_error error = {.text = ""};
	struct bb_pipeline_result r;
	struct bb_pass_times times;
	const struct bb_timeline_watch watch = {bb_pass_times_note, &times};
	double end;
	struct made m;

	make(&m, bb_pipeline_find("zb-h2"), 4, 8);
	m.order.pipeline.f = m.order.pipeline.b = m.order.pipeline.w = 1000000;
	m.program.order = m.order;
	assert_int_equal(bb_pass_times_open(&times, &m.order, &error), BB_OK);
	assert_int_equal(bb_timeline_program(&links, &m.program.program, &watch, &end, &error),
			 BB_OK);
	r = bb_pipeline_result_of(&times);
	assert_true(fabs(r.makespan - 27e-3) < 1e-9 && fabs(r.span - 24e-3) < 1e-9);
	assert_true(fabs(bb_pipeline_bubble(r.makespan, r.ideal, r.ideal) - 0.125) < 1e-9);
	assert_true(fabs(bb_pipeline_bubble(r.makespan, r.ideal, r.makespan) - 1.0 / 9) < 1e-9);
	assert_true(bb_pipeline_bubble(r.span, r.ideal, r.ideal) == 0);
	assert_true(m.program.messages == (size_t)2 * 3 * 8);
	bb_pass_times_close(&times);
	drop(&m);
}

/* ---- played with numbers, one operation at a time ------------------------------------------- */

/* Slots of two computations of STAGE that change places. */
struct swap {
	int stage;
	size_t a, b;
};

struct stage {
	struct bb_pipeline_data data;
	void *memory;
	size_t next;
};

static struct bb_operation at(const struct made *m, const struct swap *swap, int rank, size_t i)
{
	struct bb_operation o = bb_program_at(&m->program.program, rank, i);

	if (o.act == BB_ACT_COMPUTE && rank == swap->stage && o.item == swap->a)
		o.item = swap->b;
	else if (o.act == BB_ACT_COMPUTE && rank == swap->stage && o.item == swap->b)
		o.item = swap->a;
	return o;
}

/* One operation of RANK, or a message of it whose other end has come to it too. */
static bool step(const struct made *m, const struct swap *swap, struct stage *stages, int rank)
{
	struct stage *me = &stages[rank], *peer;
	struct bb_operation mine, theirs;
	void *in = NULL, *out = NULL;

	if (me->next == m->program.program.length(&m->program.program, rank))
		return false;
	mine = at(m, swap, rank, me->next);
	if (mine.act == BB_ACT_RECV)
		return false;
	if (mine.act == BB_ACT_COMPUTE)
		bb_pipeline_compute(&me->data, rank, &mine);
	if (mine.act == BB_ACT_SEND) {
		peer = &stages[mine.peer];
		theirs = at(m, swap, mine.peer, peer->next);
		if (theirs.act != BB_ACT_RECV || theirs.peer != rank || theirs.lane != mine.lane)
			return false;
		bb_pipeline_buffers(&me->data, rank, &mine, &in, &out);
		bb_pipeline_buffers(&peer->data, mine.peer, &theirs, &in, &out);
		memcpy(out, in, bb_operation_bytes(&mine));
		peer->next++;
	}
	me->next++;
	return true;
}

/* Numbers that are wrong in the end, on all stages. */
static uint64_t play(const struct made *m, const struct swap *swap, int flawed)
{
	const int n = m->order.stages;
	struct stage stages[MOST_STAGES];
	void *victims[BB_MOST_VICTIMS];
	uint64_t wrong = 0;

	for (int s = 0; s < n; s++) {
		stages[s].memory = malloc(bb_pipeline_data_bytes(&m->order));
		stages[s].next = 0;
		stages[s].data = bb_pipeline_data_begin(&m->order, s, 7, stages[s].memory);
	}
	for (bool moved = true; moved;) {
		moved = false;
		for (int s = 0; s < n; s++)
			moved |= step(m, swap, stages, s);
	}
	for (int s = 0; s < n; s++) {
		assert_int_equal(stages[s].next, m->program.program.length(&m->program.program, s));
		assert_int_equal(bb_pipeline_expectation.victims(&stages[s].data, victims), 1);
		if (s == flawed)
			*(unsigned char *)victims[0] ^= 1;
		assert_int_equal(bb_pipeline_expectation.verify(&stages[s].data, &wrong), BB_OK);
		free(stages[s].memory);
	}
	return wrong;
}

static void assert_numbers(const struct bb_pipeline_schedule *schedule, struct made *m)
{
	const struct swap none = {.stage = -1};

	assert_int_equal(play(m, &none, -1), 0);
	assert_true(play(m, &none, m->order.stages / 2) > 0);
}

static void test_numbers(void **state)
{
	of_all(assert_numbers);
}

/* Any two neighbours of a stage, but for W, which may be done any time after its B, and for what
   has all that it needs by then. */
static void test_swapped(void **state)
{
	int found = 0, tried = 0;

	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++) {
		struct made m;

		make(&m, s, 3, 6);
		for (int stage = 0; stage < 3; stage++)
			for (size_t i = 0; i + 1 < m.order.length; i++) {
				const struct bb_pass *pass = &bb_order_passes(&m.order, stage)[i];
				const struct swap swap = {stage,
							  bb_order_slot(&m.order, stage, &pass[0]),
							  bb_order_slot(&m.order, stage, &pass[1])};
				const uint64_t wrong = play(&m, &swap, -1);

				tried++;
				found += wrong > 0;
				if (pass[0].microbatch == pass[1].microbatch &&
				    pass[0].chunk == pass[1].chunk)
					assert_true(wrong > 0);
			}
		drop(&m);
	}
	assert_true(found > tried / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),   cmocka_unit_test(test_times),
		cmocka_unit_test(test_result),  cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_swapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
