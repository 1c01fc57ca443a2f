/*
 * Parameters, gradients and optimiser states: the published tables of ZeRO, byte for byte where
 * nothing is rounded, and the recipes.
 */
#include "models/memory/training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define B UINT64_C(1000000000)

static struct bb_recipe recipe(const char *precision, const char *optimizer)
{
	struct bb_recipe r = {bb_precisions, bb_optimizers};

	while (strcmp(r.precision->name, precision) != 0)
		r.precision++;
	while (strcmp(r.optimizer->name, optimizer) != 0)
		r.optimizer++;
	return r;
}

static uint64_t total(const struct bb_recipe *r, uint64_t elements, int stage, uint64_t ranks)
{
	const struct bb_states s = bb_states_of_rank(r, elements, 0, stage, ranks);

	return bb_states_sum(&s);
}

static void test_words(void **state)
{
	size_t n;

	for (n = 0; bb_precisions[n].name; n++)
		assert_string_equal(bb_precision_words[n], bb_precisions[n].name);
	assert_null(bb_precision_words[n]);
	for (n = 0; bb_optimizers[n].name; n++)
		assert_string_equal(bb_optimizer_words[n], bb_optimizers[n].name);
	assert_null(bb_optimizer_words[n]);
}

/* ZeRO, figure 1: 7.5B parameters, 64 ranks, decimal GB as printed. */
static void test_figure_1(void **state)
{
	const struct bb_recipe r = recipe("mixed", "adamw");

	assert_int_equal(total(&r, 15 * B / 2, 0, 64), 120 * B);
	assert_true(fabs((double)total(&r, 15 * B / 2, 1, 64) / 1e9 - 31.4) < 0.05);
	assert_true(fabs((double)total(&r, 15 * B / 2, 2, 64) / 1e9 - 16.6) < 0.05);
	assert_true(fabs((double)total(&r, 15 * B / 2, 3, 64) / 1e9 - 1.9) < 0.05);
}

/* ZeRO, table 1, decimal GB. Its cells are rounded here and cut there: one unit in the last place.
 */
static void test_table_1(void **state)
{
	static const struct {
		uint64_t ranks;
		struct {
			double GB, unit;
		} cells[3][3]; /* 7.5B, 128B, 1T; stages 1, 2, 3 */
	} rows[] = {
		{1,
		 {{{120, 1}, {120, 1}, {120, 1}},
		  {{2048, 1}, {2048, 1}, {2048, 1}},
		  {{16000, 1}, {16000, 1}, {16000, 1}}}},
		{4,
		 {{{52.5, .1}, {41.3, .1}, {30, 1}},
		  {{896, 1}, {704, 1}, {512, 1}},
		  {{7000, 1}, {5500, 1}, {4000, 1}}}},
		{16,
		 {{{35.6, .1}, {21.6, .1}, {7.5, .1}},
		  {{608, 1}, {368, 1}, {128, 1}},
		  {{4750, 1}, {2875, 1}, {1000, 1}}}},
		{64,
		 {{{31.4, .1}, {16.6, .1}, {1.88, .01}},
		  {{536, 1}, {284, 1}, {32, 1}},
		  {{4187, 1}, {2218, 1}, {250, 1}}}},
		{256,
		 {{{30.4, .1}, {15.4, .1}, {.47, .01}},
		  {{518, 1}, {263, 1}, {8, 1}},
		  {{4046, 1}, {2054, 1}, {62.5, .1}}}},
		{1024,
		 {{{30.1, .1}, {15.1, .1}, {.12, .01}},
		  {{513, 1}, {257, 1}, {2, 1}},
		  {{4011, 1}, {2013, 1}, {15.6, .1}}}},
	};
	static const uint64_t sizes[] = {15 * B / 2, 128 * B, 1000 * B};
	const struct bb_recipe r = recipe("mixed", "adamw");

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int k = 0; k < 3; k++)
			for (int z = 0; z < 3; z++) {
				const double now =
					(double)total(&r, sizes[k], z + 1, rows[i].ranks) / 1e9;

				if (!(fabs(now - rows[i].cells[k][z].GB) <=
				      rows[i].cells[k][z].unit))
					fail_msg("%g parameters, %d ranks, stage %d: %g GB",
						 (double)sizes[k], (int)rows[i].ranks, z + 1, now);
			}
}

/* ZeRO, table 2: the largest model on 64 GPUs of 32 GB, in tenths of a billion, cut. */
static void test_table_2(void **state)
{
	static const uint64_t largest[] = {20, 76, 144, 1280};
	const struct bb_recipe r = recipe("mixed", "adamw");

	for (int stage = 0; stage < BB_ZERO_STAGES; stage++) {
		assert_true(total(&r, largest[stage] * (B / 10), stage, 64) <= 32 * B);
		assert_true(total(&r, (largest[stage] + 1) * (B / 10), stage, 64) > 32 * B);
	}
}

/* Bytes of a parameter: Megatron-LM's three with its distributed optimizer, and the optimisers. */
static void test_recipes(void **state)
{
	static const struct {
		const char *precision, *optimizer;
		unsigned whole, parameters, divided; /* whole = stage 0; the others at stage 1 */
	} known[] = {
		{"mixed", "adamw", 16, 4, 12},
		{"megatron-fp16", "adamw", 20, 4, 16},
		{"megatron-bf16", "adamw", 18, 6, 12},
		{"fp32", "adamw", 16, 8, 8},
		{"fp32", "adamw-8bit", 10, 8, 2},
		{"mixed", "adamw-8bit", 10, 4, 6},
		{"fp32", "sgd", 12, 8, 4},
		{"mixed", "sgd", 12, 4, 8},
		{"bf16", "adamw", 8, 4, 4},
		{"fp32", "adafactor", 8, 8, 0},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct bb_recipe r = recipe(known[i].precision, known[i].optimizer);

		assert_int_equal(total(&r, 1000, 0, 10), 1000 * known[i].whole);
		assert_int_equal(total(&r, 1000, 1, 10),
				 1000 * known[i].parameters + 100 * known[i].divided);
	}
}

/* 10 elements among 4 ranks are 3 each, 2 of them padding. */
static void test_padding(void **state)
{
	const struct bb_recipe r = recipe("mixed", "adamw");
	const struct bb_states s = bb_states_of_rank(&r, 10, 0, 3, 4);

	assert_int_equal(bb_partition(10, 4), 3);
	assert_int_equal(bb_partition(12, 4), 3);
	assert_int_equal(bb_partition(0, 4), 0);
	assert_int_equal(s.parameters, 6);
	assert_int_equal(s.gradients, 6);
	assert_int_equal(s.optimizer, 36);
}

/* A matrix has a sum for each row and column, a vector stays whole. */
static void test_factored(void **state)
{
	const struct bb_recipe r = recipe("fp32", "adafactor");
	const uint64_t sums = bb_factored_elements(300, 20) + bb_factored_elements(7, 1);
	const struct bb_states s = bb_states_of_rank(&r, 6007, sums, 0, 8);

	assert_int_equal(sums, 327);
	assert_int_equal(s.optimizer, 4 * 327);
}

/* Section 7: 2, 2, 2 and 3 times the parameters; exactly, of 4 ranks, three quarters of it. */
static void test_volume(void **state)
{
	const struct bb_recipe r = recipe("mixed", "adamw");

	assert_int_equal(bb_zero_bytes(&r, 4000, 0, 4, 1), 2 * (2 * 3000));
	assert_int_equal(bb_zero_bytes(&r, 4000, 1, 4, 1), 2 * (2 * 3000));
	assert_int_equal(bb_zero_bytes(&r, 4000, 2, 4, 1), 2 * (2 * 3000));
	assert_int_equal(bb_zero_bytes(&r, 4000, 3, 4, 1), 2 * (3 * 3000));
	/* Accumulation over 5 micro-batches multiplies what each of them does. */
	assert_int_equal(bb_zero_bytes(&r, 4000, 1, 4, 5), 2 * (2 * 3000));
	assert_int_equal(bb_zero_bytes(&r, 4000, 2, 4, 5), 2 * (6 * 3000));
	assert_int_equal(bb_zero_bytes(&r, 4000, 3, 4, 5), 2 * (15 * 3000));
	assert_int_equal(bb_zero_bytes(&r, 4000, 3, 1, 1), 0);
}

/* Megatron's fp32 gradients are reduced in 4 bytes, its bf16 parameters gathered in 2. */
static void test_bytes_sent(void **state)
{
	const struct bb_recipe r = recipe("megatron-bf16", "adamw");

	assert_int_equal(bb_zero_bytes(&r, 4000, 0, 4, 1), 3000 * 8);
	assert_int_equal(bb_zero_bytes(&r, 4000, 1, 4, 5), 3000 * 6);
	assert_int_equal(bb_zero_bytes(&r, 4000, 2, 4, 5), 3000 * (5 * 4 + 2));
	assert_int_equal(bb_zero_bytes(&r, 4000, 3, 4, 5), 3000 * 5 * (4 + 2 * 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),      cmocka_unit_test(test_figure_1),
		cmocka_unit_test(test_table_1),    cmocka_unit_test(test_table_2),
		cmocka_unit_test(test_recipes),    cmocka_unit_test(test_padding),
		cmocka_unit_test(test_factored),   cmocka_unit_test(test_volume),
		cmocka_unit_test(test_bytes_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
