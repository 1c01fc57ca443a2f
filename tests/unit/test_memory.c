/*
 * Inference, DeepSpeed's estimates and checkpointing: published figures, and gradients that
 * recomputation does not change.
 */
#include "memory/tool/calculators.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define B UINT64_C(1000000000)
#define MiB ((uint64_t)1 << 20)
#define GiB ((uint64_t)1 << 30)

/* ---- inference ------------------------------------------------------------------------------ */

static void test_weights(void **state)
{
	assert_int_equal(bb_weight_bytes(175 * B, 32), 700 * B);
	assert_int_equal(bb_weight_bytes(7 * B, 4), 7 * B / 2);
	assert_int_equal(bb_weight_bytes(3, 4), 2);
}

/* M = P x 4 / (32 / Q) x 1.2, decimal GB. */
static void test_rule(void **state)
{
	assert_int_equal(bb_serving_rule(7 * B, 32), 33600000000);
	assert_int_equal(bb_serving_rule(7 * B, 16), 16800000000);
	assert_int_equal(bb_serving_rule(7 * B, 8), 8400000000);
	assert_int_equal(bb_serving_rule(7 * B, 4), 4200000000);
	assert_int_equal(bb_serving_rule(70 * B, 16), 168 * B);
	assert_int_equal(bb_serving_rule(70 * B, 4), 42 * B);
}

static uint64_t cache_of(const char *text, uint64_t tp, uint64_t tokens, unsigned bits)
{
	struct bb_error error = {.text = ""};
	struct bb_model model;
	uint64_t bytes;

	assert_int_equal(bb_model_open(&model, text, 0, &error), BB_OK);
	bytes = bb_cache_bytes(bb_cache_numbers(&model, tp, tokens), 1, bits);
	bb_model_free(&model);
	return bytes;
}

/* Llama 2 7B: 512 KiB a token, 2 GiB at 4096; Llama 3.1 8B, 8 of 32 heads: 128 KiB; GPT-3: 9 GiB.
 */
static void test_cache(void **state)
{
	assert_int_equal(cache_of("llama2-7b", 1, 1, 16), 524288);
	assert_int_equal(cache_of("llama2-7b", 1, 4096, 16), 2 * GiB);
	assert_int_equal(cache_of("llama3.1-8b", 1, 1, 16), 131072);
	assert_int_equal(cache_of("llama3.1-8b", 16, 1, 16), 131072 / 8);
	assert_int_equal(cache_of("gpt3-175b", 1, 2048, 16), 9 * GiB);
	assert_int_equal(cache_of("llama3.1-8b", 1, 1, 4), 32768);
	assert_true(cache_of("gpt3-175b", 1, UINT64_C(1) << 60, 16) == UINT64_MAX);
}

/* Zhao et al. 2025 (arXiv 2505.09343), table 1: kB per token of DeepSeek-V3, Qwen 2.5 72B and
   Llama 3.1 405B. The latent vectors are whole on each rank. */
static void test_latent_cache(void **state)
{
	assert_int_equal(cache_of("deepseek-v3", 1, 1, 16), 70272);
	assert_int_equal(cache_of("deepseek-v3", 8, 1, 16), 70272);
	assert_int_equal(cache_of("qwen2.5-72b", 1, 1, 16), 327680);
	assert_int_equal(cache_of("llama3.1-405b", 1, 1, 16), 516096);
}

/* Gemma 3 27B: 10 of 62 layers are global. gpt-oss: each second one. Mistral 7B: none. */
static void test_local_cache(void **state)
{
	const uint64_t gemma = 2 * 2 * 16 * 128, oss = 2 * 2 * 8 * 64, mistral = 2 * 2 * 8 * 128;

	assert_int_equal(cache_of("gemma3-27b", 1, 32768, 16), gemma * (10 * 32768 + 52 * 1024));
	assert_int_equal(cache_of("gemma3-27b", 1, 1000, 16), gemma * 62 * 1000);
	assert_int_equal(cache_of("gpt-oss-120b", 1, 131072, 16), oss * 18 * (131072 + 128));
	assert_int_equal(cache_of("mistral-7b", 1, 32768, 16), mistral * 32 * 4096);
	/* T5's decoder keeps its own keys and values and those of the encoder's output. */
	assert_int_equal(cache_of("t5-small", 1, 100, 16), UINT64_C(2) * 2 * 8 * 64 * 6 * 200);
}

/* ---- DeepSpeed ------------------------------------------------------------------------------ */

static void figures(struct bb_deepspeed_estimate e, double host, double gpu)
{
	if (!(fabs((double)e.host / (double)GiB - host) <= 0.005 + 1e-9 &&
	      fabs((double)e.gpu / (double)GiB - gpu) <= 0.005 + 1e-9))
		fail_msg("%.3f | %.3f, not %.2f | %.2f", (double)e.host / (double)GiB,
			 (double)e.gpu / (double)GiB, host, gpu);
}

/* As its documentation prints them: 2851M parameters, largest layer 32M, 8 GPUs of one node. */
static void test_documented_zero3(void **state)
{
	const struct bb_deepspeed_input in = {2851000000, 32000000, 1, 8};

	figures(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_PARAMETERS, true), 71.69, 0.12);
	figures(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_PARAMETERS, false), 127.45, 0.12);
	figures(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_OPTIMIZER, true), 63.72, 0.78);
	figures(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_OPTIMIZER, false), 127.45, 0.78);
	figures(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_NONE, true), 1.43, 6.09);
	figures(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_NONE, false), 127.45, 6.09);
}

/* Without offload the documentation and the code differ. */
static void test_documented_zero2(void **state)
{
	const struct bb_deepspeed_input in = {2851000000, 0, 1, 8};

	figures(bb_deepspeed_needs(&in, 2, BB_OFFLOAD_OPTIMIZER, false), 127.45, 5.31);
	figures(bb_deepspeed_needs(&in, 2, BB_OFFLOAD_NONE, false), 127.45, 11.28);
	assert_true(fabs((double)bb_deepspeed_zero2_documented(&in) / (double)GiB - 15.93) < 0.005);
}

/* t5-large on 4 GPUs, its largest layer the embedding: MiB of a GPU, cut. */
static void test_t5_large(void **state)
{
	const struct bb_deepspeed_input in = {737668096, 32128 * 1024, 1, 4};

	assert_int_equal(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_NONE, true).gpu / MiB, 3291);
	assert_int_equal(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_PARAMETERS, true).gpu / MiB, 125);
	assert_int_equal(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_OPTIMIZER, true).gpu / MiB, 477);
}

/* Several nodes share what is offloaded, and each has all that its own processes make. */
static void test_nodes(void **state)
{
	const struct bb_deepspeed_input in = {B, 10000000, 4, 8};

	assert_int_equal(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_PARAMETERS, true).host,
			 18 * B * 3 / 2 / 4);
	assert_int_equal(bb_deepspeed_needs(&in, 3, BB_OFFLOAD_PARAMETERS, false).host,
			 32 * B * 3 / 2);
	assert_int_equal(bb_deepspeed_needs(&in, 2, BB_OFFLOAD_OPTIMIZER, false).host,
			 128 * B * 3 / 2);
	assert_int_equal(bb_deepspeed_needs(&in, 2, BB_OFFLOAD_NONE, false).gpu,
			 2 * B + 18 * B / 32);
}

/* ---- checkpointing -------------------------------------------------------------------------- */

/* The results of a pass, which the caller frees. */
static float *run_chain(const struct bb_chain *chain, size_t every, struct bb_chain_cost *cost)
{
	struct bb_error error = {.text = ""};
	float *results = malloc(bb_chain_results(chain) * sizeof(float));

	assert_non_null(results);
	assert_int_equal(bb_chain_run(chain, every, results, cost, &error), BB_OK);
	return results;
}

/* Whatever is kept, every bit of output and gradients is the same, and the bytes are as promised.
 */
static void test_checkpoints_change_nothing(void **state)
{
	struct bb_error error = {.text = ""};
	struct bb_chain chain;
	float *all, *some;
	struct bb_chain_cost cost;

	for (size_t layers = 1; layers <= 9; layers++) {
		assert_int_equal(bb_chain_make(&chain, layers, 3, 5, &error), BB_OK);
		all = run_chain(&chain, BB_CHECKPOINT_NEVER, &cost);
		assert_int_equal(cost.most, bb_chain_expected(&chain, BB_CHECKPOINT_NEVER));
		assert_int_equal(cost.repeated, 0);
		for (size_t every = 1; every <= layers + 1; every++) {
			some = run_chain(&chain, every, &cost);
			assert_memory_equal(all, some, bb_chain_results(&chain) * sizeof(float));
			assert_int_equal(cost.repeated, layers);
			if (cost.most != bb_chain_expected(&chain, every))
				fail_msg("%zu layers, every %zu: %llu bytes, not %llu", layers,
					 every, (unsigned long long)cost.most,
					 (unsigned long long)bb_chain_expected(&chain, every));
			free(some);
		}
		free(all);
		free(chain.input);
	}
}

static double objective(const struct bb_chain *chain, float *results)
{
	struct bb_error error = {.text = ""};
	struct bb_chain_cost cost;
	double sum = 0;

	assert_int_equal(bb_chain_run(chain, 2, results, &cost, &error), BB_OK);
	for (size_t i = 0; i < chain->rows * chain->width; i++)
		sum += (double)results[i] * (double)chain->ascent[i];
	return sum;
}

/* The gradients are those of differences: a few of the input's and of the weights'. */
static void test_gradients(void **state)
{
	struct bb_error error = {.text = ""};
	struct bb_chain chain;
	float *at, *beside;
	struct bb_chain_cost cost;
	const size_t floats = 3 * 5;

	assert_int_equal(bb_chain_make(&chain, 4, 3, 5, &error), BB_OK);
	at = run_chain(&chain, BB_CHECKPOINT_NEVER, &cost);
	beside = run_chain(&chain, BB_CHECKPOINT_NEVER, &cost);
	for (size_t k = 0; k < 60; k++) {
		const bool weights = k >= floats;
		float *x = weights ? &chain.weights[(k - floats) * 17] : &chain.input[k];
		const float gradient = at[weights ? 2 * floats + (k - floats) * 17 : floats + k];
		const float before = *x, step = 1 / 256.0f;
		double slope;

		*x = before + step;
		slope = objective(&chain, beside);
		*x = before - step;
		slope = (slope - objective(&chain, beside)) / (2 * (double)step);
		*x = before;
		if (!(fabs(slope - (double)gradient) <= 0.01 * (1 + fabs(slope))))
			fail_msg("gradient %zu is %g, not %g", k, (double)gradient, slope);
	}
	free(at);
	free(beside);
	free(chain.input);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_rule),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_latent_cache),
		cmocka_unit_test(test_local_cache),
		cmocka_unit_test(test_documented_zero3),
		cmocka_unit_test(test_documented_zero2),
		cmocka_unit_test(test_t5_large),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_checkpoints_change_nothing),
		cmocka_unit_test(test_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
