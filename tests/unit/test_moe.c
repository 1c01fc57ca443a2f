/*
 * Mixtures of experts: shares of experts, what is dropped, bytes of published models, and the layer
 * as a program.
 */
#include "simulator/timeline/timeline.h"
#include "training_kernels/moe/moe.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define MIB ((double)(1 << 20))

static struct bb_moe_load load_of(struct bb_moe_form form)
{
	struct bb_error error = {.text = ""};
	struct bb_moe_load load;

	assert_int_equal(bb_moe_load_make(&load, &form, &error), BB_OK);
	return load;
}

static void assert_near(double got, double wanted, double within)
{
	if (!(fabs(got - wanted) <= within))
		fail_msg("%.9g, not %.9g", got, wanted);
}

/* Whatever the skew: each token goes through top_k different experts, and rows are those of its
   choices. */
static void test_choices(void **state)
{
	static const double skews[] = {0, 0.3, 1, 2, 8};

	for (int i = 0; i < 5; i++)
		for (int k = 1; k <= 6; k++) {
			struct bb_moe_load l = load_of((struct bb_moe_form){.nranks = 2,
									    .experts = 6,
									    .top_k = k,
									    .tokens = 101,
									    .skew = skews[i]});
			int64_t rows[6] = {0}, sum = 0;

			for (int64_t t = 0; t < 101; t++)
				for (int s = 0; s < k; s++) {
					const int e = bb_moe_choice(&l, t, s);

					assert_in_range(e, 0, 5);
					assert_true(s == 0 || e > bb_moe_choice(&l, t, s - 1));
					rows[e]++;
				}
			for (int e = 0; e < 6; e++) {
				const double share = l.shares[e + 1] - l.shares[e];

				assert_int_equal(l.rows[e], rows[e]);
				/* As near to its share as whole tokens can be. */
				assert_near((double)rows[e], 101 * share, k + 1);
				assert_true(share <= 1 + 1e-12);
				sum += rows[e];
			}
			assert_int_equal(sum, 101 * k);
			assert_int_equal(l.rows_before[2], 101 * k);
			bb_moe_load_free(&l);
		}
}

/* The middle of a token decides: of 4 tokens over 3 equal experts, 3/8 and 5/8 lie in the second
   third, and 1/2 of 3 tokens over 2 experts is where the second half begins. */
static void test_middle(void **state)
{
	static const int thirds[] = {0, 1, 1, 2}, halves[] = {0, 1, 1};
	struct bb_moe_load l =
		load_of((struct bb_moe_form){.nranks = 1, .experts = 3, .top_k = 1, .tokens = 4});

	for (int t = 0; t < 4; t++)
		assert_int_equal(bb_moe_choice(&l, t, 0), thirds[t]);
	bb_moe_load_free(&l);
	l = load_of((struct bb_moe_form){.nranks = 1, .experts = 2, .top_k = 1, .tokens = 3});
	for (int t = 0; t < 3; t++)
		assert_int_equal(bb_moe_choice(&l, t, 0), halves[t]);
	bb_moe_load_free(&l);
}

/* Zipf of 1 over four experts: 12 : 6 : 4 : 3 of 25. */
static void test_zipf(void **state)
{
	static const int64_t wanted[] = {1200, 600, 400, 300};
	struct bb_moe_load l = load_of((struct bb_moe_form){
		.nranks = 2, .experts = 4, .top_k = 1, .tokens = 2500, .skew = 1});

	for (int e = 0; e < 4; e++)
		assert_near((double)l.rows[e], (double)wanted[e], 1);
	assert_int_equal(l.busiest, 0);
	assert_near(bb_moe_imbalance(&l), 1800. * 2 / 2500, 1e-3);
	assert_int_equal(bb_moe_rows_at(&l, 1), 2 * l.rows_to[1]);
	bb_moe_load_free(&l);
}

/* A capacity of 1.25 times the mean lets no expert have more, and what is too much is counted. */
static void test_capacity(void **state)
{
	struct bb_moe_load l = load_of((struct bb_moe_form){.nranks = 2,
							    .experts = 4,
							    .top_k = 1,
							    .tokens = 2500,
							    .skew = 1,
							    .capacity = 1.25});

	assert_int_equal(l.rows[0], 782); /* 781.25 */
	assert_near((double)l.dropped, 1200 - 782, 1);
	assert_int_equal(l.rows_before[2] + l.dropped, 2500);
	bb_moe_load_free(&l);
	/* Even loads fit into a capacity of 1. */
	l = load_of((struct bb_moe_form){
		.nranks = 4, .experts = 8, .top_k = 2, .tokens = 512, .capacity = 1});
	assert_int_equal(l.dropped, 0);
	bb_moe_load_free(&l);
}

static double assert_bytes(int nranks, int experts, int top_k, size_t hidden, double all)
{
	struct bb_moe_load l = load_of((struct bb_moe_form){
		.nranks = nranks, .experts = experts, .top_k = top_k, .tokens = 4096});
	const double row = 2. * (double)hidden;
	const double sent = row * (double)(l.rows_before[nranks] - l.rows_to[0]);

	assert_near(row * (double)l.rows_before[nranks], all, 0);
	for (int r = 0; r < nranks; r++)
		assert_near(row * (double)bb_moe_rows_received(&l, r), sent, 0);
	bb_moe_load_free(&l);
	return sent;
}

/* 4096 tokens of Mixtral 8x7B: 64 MiB, of which 56 leave one of eight ranks. Of DeepSeek-V3: 448.
 */
static void test_published(void **state)
{
	assert_near(assert_bytes(8, 8, 2, 4096, 64 * MIB), 56 * MIB, 0);
	assert_near(assert_bytes(64, 256, 8, 7168, 448 * MIB), 441 * MIB, 0);
	assert_near(assert_bytes(8, 256, 8, 7168, 448 * MIB), 392 * MIB, 0);
}

/* ---- programs ------------------------------------------------------------------------------- */

static const unsigned parts[] = {BB_MOE_LAYER, BB_MOE_COUNTS, BB_MOE_DISPATCH, BB_MOE_EXPERTS,
				 BB_MOE_COMBINE};

/* What is sent to a rank in PROGRAM, and by it, is what the loads say. */
static void assert_sent(const struct bb_program *program, const struct bb_moe_step *step, int work)
{
	for (int rank = 0; rank < program->nranks; rank++) {
		const struct bb_moe_load *l = step->exchange.load;
		const double row =
			(double)(step->exchange.hidden * bb_dtype_size(step->exchange.dtype));
		const double leave =
			row * (double)(l->rows_before[program->nranks] - l->rows_to[rank]);
		const double come = row * (double)bb_moe_rows_received(l, rank);
		double sent = 0, received = 0;

		for (size_t i = 0; i < program->length(program, rank); i++) {
			const struct bb_operation o = bb_program_at(program, rank, i);

			if (o.work != work)
				continue;
			*(o.act == BB_ACT_SEND ? &sent : &received) +=
				(double)bb_operation_bytes(&o);
		}
		assert_near(work == BB_MOE_DISPATCH ? sent : received, leave, 0);
		assert_near(work == BB_MOE_DISPATCH ? received : sent, come, 0);
	}
}

static void test_programs(void **state)
{
	struct bb_error error = {.text = ""};
	struct bb_taped taped;

	for (int n = 1; n <= 9; n++)
		for (int skew = 0; skew <= 9; skew += 3)
			for (int i = 0; i < 5; i++) {
				struct bb_moe_load l =
					load_of((struct bb_moe_form){.nranks = n,
								     .experts = 2 * n,
								     .top_k = 2,
								     .tokens = 31,
								     .skew = skew});
				const struct bb_moe_step step = {.exchange = {&l, 3, BB_BFLOAT16},
								 .expert_s = 1e-3,
								 .parts = parts[i]};

				if (bb_moe_program(&taped, &step, &error) != BB_OK ||
				    bb_program_check(&taped.program, &error) != BB_OK)
					fail_msg("%d ranks, skew %d, parts %u: %s", n, skew,
						 parts[i], error.text);
				if (i == 0 || parts[i] == BB_MOE_DISPATCH)
					assert_sent(&taped.program, &step, BB_MOE_DISPATCH);
				if (i == 0 || parts[i] == BB_MOE_COMBINE)
					assert_sent(&taped.program, &step, BB_MOE_COMBINE);
				bb_taped_free(&taped);
				bb_moe_load_free(&l);
			}
}

static double seconds(const struct bb_moe_step *step)
{
	const struct bb_link_model links = {.rate = 1e9, .port = true};
	struct bb_error error = {.text = ""};
	struct bb_taped taped;
	double end;

	assert_int_equal(bb_moe_program(&taped, step, &error), BB_OK);
	assert_int_equal(bb_timeline_program(&links, &taped.program, NULL, &end, &error), BB_OK);
	bb_taped_free(&taped);
	return end;
}

/* Through one port a rank, even loads take what a rank's bytes take, and skewed ones are never done
   before those of the busiest rank are through. */
static void test_busiest(void **state)
{
	static const double skews[] = {0, 0.5, 1, 2};

	for (int i = 0; i < 4; i++) {
		struct bb_moe_load l = load_of((struct bb_moe_form){
			.nranks = 8, .experts = 8, .top_k = 2, .tokens = 4096, .skew = skews[i]});
		struct bb_moe_step step = {.exchange = {&l, 64, BB_BFLOAT16},
					   .parts = BB_MOE_DISPATCH};
		const double least = 1e-9 * 128 * (double)bb_moe_rows_received(&l, l.busiest);
		const double dispatch = seconds(&step);

		step.parts = BB_MOE_COMBINE;
		assert_true(dispatch >= least * (1 - 1e-9));
		assert_true(seconds(&step) >= least * (1 - 1e-9));
		if (i == 0)
			assert_near(dispatch, least, 1e-9);
		bb_moe_load_free(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choices),   cmocka_unit_test(test_middle),
		cmocka_unit_test(test_zipf),      cmocka_unit_test(test_capacity),
		cmocka_unit_test(test_published), cmocka_unit_test(test_programs),
		cmocka_unit_test(test_busiest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
