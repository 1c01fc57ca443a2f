/*
 * Training by coded exchanges: a worker's error memory, what one rank computes for all, and an
 * invariant that finds what gets lost.
 */
#include "training_kernels/data_parallel/learner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANKS 3
#define STEPS 24
#define SAMPLES 31

/* One worker with (1, -2, 3, -4) in each round. */
static void test_worker(void **state)
{
	static const double scales[] = {2.738613, 3.180231, 3.818550};
	const struct bb_coding *const sign = bb_coding_named("sign");
	const float x[] = {1, -2, 3, -4};
	float error[4] = {0}, back[4];
	char coded[8];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			error[i] += x[i];
		bb_coding_encode(sign, 0, error, 4, coded);
		bb_coding_decode(sign, 0, coded, 4, back);
		assert_true(fabs(fabs((double)back[0]) - scales[round]) < 2e-6);
		for (int i = 0; i < 4; i++)
			error[i] -= back[i];
	}
}

static const struct bb_strategy *coded_named(const char *name)
{
	const struct bb_strategy *s = bb_coded_strategies;

	while (strcmp(s->name, name) != 0)
		s++;
	return s;
}

static struct bb_learner learners[RANKS];

/* Train all ranks; in step BROKEN (from 1; 0: none) rank 1 misses a code of rank 2. Returns what is
   open, relative to the norm of all that was coded. */
static double train(const struct bb_strategy_setting *s, size_t broken)
{
	const size_t bytes = bb_learner_open(learners, s, 0, NULL, NULL);
	double values[BB_TRAIN_ELEMENTS];
	double open = 0, squares = 0;
	char *const memory = calloc(RANKS, bytes);

	bb_train_begin(values, 7);
	for (int r = 0; r < RANKS; r++)
		bb_learner_open(&learners[r], s, r, values, memory + (size_t)r * bytes);
	for (size_t step = 1; step <= s->steps; step++) {
		double whole[BB_TRAIN_PARAMETERS] = {0};

		for (int r = 0; r < RANKS; r++) {
			double gradient[BB_TRAIN_ELEMENTS] = {0};

			for (int i = 0; i < BB_TRAIN_PARAMETERS; i++)
				values[i] = (double)learners[r].p[i];
			bb_train_add(values, 7, bb_part_start(SAMPLES, RANKS, r),
				     bb_part_count(SAMPLES, RANKS, r), gradient);
			bb_learner_prepare(&learners[r], gradient, SAMPLES);
			for (int i = 0; i < BB_TRAIN_PARAMETERS; i++)
				whole[i] += learners[r].whole[i];
		}
		for (int r = 0; r < RANKS && learners->exchange == BB_ONEBIT_FULL; r++)
			memcpy(learners[r].whole, whole, sizeof(whole));
		if (learners->exchange != BB_ONEBIT_FULL && learners->exchange != BB_ONEBIT_LOCAL)
			for (size_t item = 0; item < 6; item++)
				for (int r = 0; r < RANKS * RANKS; r++) {
					const size_t part = bb_coded_chunk_bytes(&learners->form);
					const size_t from = (size_t)(r % RANKS);
					const size_t at = item < 3 ? (size_t)(r / RANKS) : 0;
					char *const to = learners[r / RANKS].coded.comes;

					if (item % 3 == 1)
						memcpy(to + from * part,
						       learners[from].coded.sent + at * part, part);
					else if (r < RANKS)
						bb_coded_compute(&learners[r].coded, item);
					if (item == 1 && step == broken && r == RANKS + 2)
						to[from * part] ^= 4;
				}
		for (int r = 0; r < RANKS; r++)
			bb_learner_apply(&learners[r]);
	}
	for (int r = 0; r < RANKS; r++) {
		open += (learners[r].balance.open + bb_coded_errors(&learners[r].coded, 0)) / RANKS;
		squares += learners[r].balance.squares / RANKS;
	}
	free(memory);
	return fabs(open) / sqrt(squares);
}

static void test_feedback(void **state)
{
	static const char *const names[] = {"int8-ef",     "int4-ef",       "fp8-ef",
					    "onebit-adam", "zero-one-adam", "onebit-lamb"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct bb_strategy_setting s = {.strategy = coded_named(names[i]),
						      .nranks = RANKS,
						      .active = RANKS,
						      .steps = STEPS};
		struct bb_learner alone;

		assert_true(train(&s, 0) < 1e-6);
		/* The reference of a rank is that rank, bit for bit. */
		for (int r = 0; r < RANKS; r++) {
			assert_true(bb_learner_alone(&alone, &s, r, 7, SAMPLES));
			assert_memory_equal(alone.p, learners[r].p, sizeof(alone.p));
			assert_memory_equal(alone.m, learners[r].m, sizeof(alone.m));
		}
		/* A single code that is wrong stays visible. */
		const size_t step = strcmp(names[i], "zero-one-adam") == 0 ? 5 : 20;
		assert_true(train(&s, step) > 1e-4);
	}
}

/* The largest difference of a parameter between two ranks. */
static double apart(void)
{
	double most = 0;

	for (int i = 0; i < BB_TRAIN_PARAMETERS; i++)
		most = fmax(most, fabs((double)learners[0].p[i] - (double)learners[2].p[i]));
	return most;
}

/* Local steps: ranks differ until they exchange; then by the rounding of updates that were undone,
   as in DeepSpeed. */
static void test_local(void **state)
{
	struct bb_strategy_setting s = {.strategy = coded_named("zero-one-adam"),
					.nranks = RANKS,
					.active = RANKS,
					.steps = 40};

	train(&s, 0);
	assert_int_equal(learners->exchange, BB_ONEBIT_SYNC);
	assert_true(apart() < 1e-6);
	s.steps = 39;
	train(&s, 0);
	assert_int_equal(learners->exchange, BB_ONEBIT_LOCAL);
	assert_true(apart() > 1e-4);
}

static void test_refusals(void **state)
{
	const struct bb_strategy_setting s = {
		.strategy = coded_named("int8"), .nranks = 1, .active = 1, .steps = 1};
	const struct bb_strategy_setting whole = {
		.strategy = coded_named("adam"), .nranks = 1, .active = 1, .steps = 1};

	assert_non_null(bb_strategy_refuses(&s));
	assert_null(bb_strategy_refuses(&whole));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker),
		cmocka_unit_test(test_feedback),
		cmocka_unit_test(test_local),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
