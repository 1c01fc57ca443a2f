/*
 * What the engine does with one sample after the other, on a backend whose clock counts how often
 * it is read.
 */
#include "backends/gpu.h"
#include "harness/measure/engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* What was called, in order, and what it saw. */
static struct trace {
	char text[512];
	double clock, begin[8], seconds[8];
	int phase; /* while it operates */
	int64_t breaks;
	struct bb_progress *progress;
} trace;

static void note(const char *word)
{
	strncat(trace.text, word, sizeof(trace.text) - strlen(trace.text) - 1);
}

static double now(struct bb_rank *rank)
{
	note("n");
	return ++trace.clock;
}

static bb_status finish(struct bb_rank *rank, struct bb_queue *queue)
{
	assert_null(queue);
	note("f");
	return BB_OK;
}

static bb_status event_record(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	note(event == (struct bb_event *)1 ? "<" : ">");
	return BB_OK;
}

static bb_status elapsed(struct bb_rank *rank, struct bb_event *begin, struct bb_event *end,
			 double *seconds)
{
	assert_ptr_equal(begin, (struct bb_event *)1);
	assert_ptr_equal(end, (struct bb_event *)2);
	note("e");
	*seconds = 20;
	return BB_OK;
}

static bb_status copy(struct bb_rank *rank, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return BB_OK;
}

static const struct bb_gpu gpu = {.elapsed = elapsed};
static const struct bb_backend backend = {
	.now = now, .finish = finish, .event_record = event_record, .copy = copy, .gpu = &gpu};

static bb_status ready(void *own)
{
	note("r");
	return BB_OK;
}

static bb_status operate(void *own, int64_t sample)
{
	char word[8];

	assert_string_equal(own, "own");
	snprintf(word, sizeof(word), "%d", (int)sample);
	note(word);
	trace.phase = atomic_load(&trace.progress->phase);
	return sample == trace.breaks ? BB_ETIMEOUT : BB_OK;
}

static bb_status finish_own(void *own)
{
	note("o");
	return BB_OK;
}

static bb_status on_sample(void *own, int64_t sample, double begin, double seconds)
{
	note("s ");
	trace.begin[sample] = begin;
	trace.seconds[sample] = seconds;
	return BB_OK;
}

static struct bb_sampling plain(void)
{
	return (struct bb_sampling){.operate = operate,
				    .on_sample = on_sample,
				    .own = (void *)"own",
				    .warm = 1,
				    .samples = 3,
				    .operations = 4};
}

static bb_status sample(const struct bb_sampling *s)
{
	struct bb_options options = {.fault = {.kind = BB_FAULT_NONE}};
	struct bb_progress progress = {.phase = BB_PHASE_BETWEEN};
	struct bb_driver driver = {.rank = 3, .progress = &progress};
	struct bb_engine e = {.options = &options, .backend = &backend, .driver = &driver};
	bb_status status;

	trace = (struct trace){.progress = &progress, .breaks = trace.breaks};
	status = bb_engine_sample(&e, s);
	assert_int_equal(trace.phase, BB_PHASE_INSIDE);
	assert_int_equal(atomic_load(&progress.phase), BB_PHASE_BETWEEN);
	return status;
}

/* The end of a sample is the begin of the next, unless each is prepared. */
static void test_samples(void **state)
{
	struct bb_sampling s = plain();

	trace.breaks = 99;
	assert_int_equal(sample(&s), BB_OK);
	assert_string_equal(trace.text, "n-1fn0fns 1fns 2fns ");
	for (int i = 0; i < 3; i++) {
		assert_float_equal(trace.begin[i], 2 + i, 0);
		assert_float_equal(trace.seconds[i], 0.25, 0);
	}
	s.ready = ready;
	assert_int_equal(sample(&s), BB_OK);
	assert_string_equal(trace.text, "rn-1fnrn0fns rn1fns rn2fns ");
	assert_float_equal(trace.begin[0], 3, 0);
	assert_float_equal(trace.begin[2], 7, 0);
	assert_float_equal(trace.seconds[2], 0.25, 0);
	s = plain();
	s.warm = 0;
	s.samples = 1;
	s.finish = finish_own;
	assert_int_equal(sample(&s), BB_OK);
	assert_string_equal(trace.text, "n0ons ");
	/* Events of a device time a sample instead of the clock. */
	s = plain();
	s.samples = 1;
	s.events[0] = (struct bb_event *)1;
	s.events[1] = (struct bb_event *)2;
	assert_int_equal(sample(&s), BB_OK);
	assert_string_equal(trace.text, "n<-1>fne<0>fnes ");
	assert_float_equal(trace.seconds[0], 5, 0);
	assert_float_equal(trace.begin[0], 2, 0);
	/* What fails ends it. */
	s = plain();
	trace.breaks = 1;
	assert_int_equal(sample(&s), BB_ETIMEOUT);
	assert_string_equal(trace.text, "n-1fn0fns 1");
	trace.breaks = -1;
	assert_int_equal(sample(&s), BB_ETIMEOUT);
	assert_string_equal(trace.text, "n-1");
}

/* One byte of the victim on the rank that the fault names. */
static void test_corrupt(void **state)
{
	static const struct {
		enum bb_fault_kind kind;
		int rank;
		bool flips;
	} cases[] = {{BB_FAULT_CORRUPT, 3, true},
		     {BB_FAULT_CORRUPT, 2, false},
		     {BB_FAULT_NONE, 3, false},
		     {BB_FAULT_SLOW, 3, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_options options = {
			.fault = {.kind = cases[i].kind, .rank = cases[i].rank}};
		struct bb_driver driver = {.rank = 3};
		struct bb_engine e = {.options = &options, .backend = &backend, .driver = &driver};
		unsigned char victim[] = {0xf0, 0xf0};

		assert_int_equal(bb_engine_corrupt(&e, victim), BB_OK);
		assert_int_equal(bb_engine_corrupt(&e, NULL), BB_OK);
		assert_int_equal(victim[0], cases[i].flips ? 0xa5 : 0xf0);
		assert_int_equal(victim[1], 0xf0);
	}
}

/* Samples of rounds: as many as -n in all, in every turn. */
static void test_rounds(void **state)
{
	static const size_t seven[] = {1, 1, 2, 1, 2};

	for (int round = 0; round < 15; round++) {
		assert_int_equal(bb_engine_samples_of(7, 5, round), seven[round % 5]);
		assert_int_equal(bb_engine_samples_of(20, 5, round), 4);
		assert_int_equal(bb_engine_samples_of(3, 3, round), 1);
	}
}

/* A trial is kept with the reason why it cannot run, and forgets what a copy has measured. */
static void test_trials(void **state)
{
	struct bb_run *const run = calloc(1, sizeof(*run));
	struct bb_engine e = {.run = run};
	double old = 1;
	const struct bb_trial trial = {
		.what = "w", .steps = 5, .n = 9, .wrong = 4, .samples = &old, .refusal = NULL};

	assert_non_null(run);
	for (int i = 0; i < 9; i++)
		assert_int_equal(bb_engine_add(&e, &trial, i == 4 ? "it is odd" : NULL), BB_OK);
	assert_int_equal(e.ntrials, 9);
	for (size_t i = 0; i < 9; i++) {
		assert_string_equal(e.trials[i].what, "w");
		assert_int_equal(e.trials[i].steps, 5);
		assert_int_equal(e.trials[i].n, 0);
		assert_int_equal(e.trials[i].wrong, BB_ABSENT);
		assert_null(e.trials[i].samples);
		assert_int_equal(e.trials[i].refusal != NULL, i == 4);
		assert_int_equal(bb_engine_require(&e, i), i == 4 ? BB_EUNSUPPORTED : BB_OK);
	}
	assert_string_equal(run->error.text, "it is odd");
	e.measured = 3;
	bb_engine_clear(&e);
	assert_int_equal(e.ntrials, 0);
	assert_int_equal(e.measured, 0);
	free(e.trials);
	free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_corrupt),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_trials),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
