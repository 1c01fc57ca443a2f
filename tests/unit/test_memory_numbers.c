/*
 * Bytes of activations, shares of layers and the memory of cards, worked out by hand.
 */
#include "models/memory/fits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MAX UINT64_MAX

static void test_sums(void **state)
{
	static const struct {
		uint64_t a, b, sum, product;
	} cases[] = {
		{0, 0, 0, 0},
		{2, 3, 5, 6},
		{MAX, 0, MAX, 0},
		{MAX, 1, MAX, MAX},
		{MAX - 1, 1, MAX, MAX - 1},
		{MAX - 1, 3, MAX, MAX},
		{UINT64_C(1) << 32, UINT64_C(1) << 31, UINT64_C(3) << 31, UINT64_C(1) << 63},
		{UINT64_C(1) << 32, UINT64_C(1) << 32, UINT64_C(1) << 33, MAX},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(bb_bytes_add(cases[i].a, cases[i].b) == cases[i].sum);
		assert_true(bb_bytes_add(cases[i].b, cases[i].a) == cases[i].sum);
		assert_true(bb_bytes_times(cases[i].a, cases[i].b) == cases[i].product);
	}
}

/* 6 tokens of 10 numbers, two heads of 5, one of them for keys; 14 inner numbers and 3 more; two
   bytes each. */
#define PLAIN                                                                                      \
	{                                                                                          \
		.seq = 3, .batch = 2, .hidden = 10, .heads = 2, .queries = 10, .keys = 5,          \
		.ffn = 14, .routes = 1, .extra = 3, .bytes = 2, .tp = 1                            \
	}

static void test_layers(void **state)
{
	/* residual: 6 * 10 * (4 * 2 + 2) = 600; gated without masks 480; two routes 720
	   inner: 6 * 2 * (20 + 10 + 28 + 3) = 732; gated 14 more: 900; two routes 28 more: 1068
	   core: 6 * 2 * 4 = 48; eager 6 * 3 * 2 * (2 + 3) = 180, gated 72 */
	static const struct {
		bool gated, eager, sequence;
		uint64_t routes, tp, none, selective, full;
	} cases[] = {
		{false, false, false, 1, 1, 600 + 732 + 48, 600 + 732, 120},
		{true, false, false, 1, 1, 480 + 900 + 48, 480 + 900, 120},
		{false, false, false, 2, 1, 720 + 1068 + 48, 720 + 1068, 120},
		{false, true, false, 1, 1, 600 + 732 + 180, 600 + 732, 120},
		{true, true, false, 1, 1, 480 + 900 + 72, 480 + 900, 120},
		{false, false, false, 1, 4, 600 + 195, 600 + 183, 120},
		{false, false, true, 1, 4, 345, 333, 30},
		/* rounded up: 780 / 7 = 111.4, 732 / 7 = 104.6; 1380 / 7 = 197.1, 1332 / 7 = 190.3,
		   120 / 7 = 17.1 */
		{false, false, false, 1, 7, 600 + 112, 600 + 105, 120},
		{false, false, true, 1, 7, 198, 191, 18},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_layer l = PLAIN;

		l.gated = cases[i].gated;
		l.eager = cases[i].eager;
		l.sequence_parallel = cases[i].sequence;
		l.routes = cases[i].routes;
		l.tp = cases[i].tp;
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_NONE), cases[i].none);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE), cases[i].selective);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_FULL), cases[i].full);
		assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_NONE), 0);
		assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_SELECTIVE),
				 cases[i].none - cases[i].selective);
		assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_FULL),
				 cases[i].none - cases[i].full);
	}
}

static void test_ends(void **state)
{
	/* The mask: 6 * 10. Inputs of the head: 6 * 10 * 4; logits of 11 words: 6 * 11 * 4. */
	static const struct {
		bool gated, sequence;
		uint64_t tp, embedding, head;
	} cases[] = {
		{false, false, 1, 60, 240 + 264}, {true, false, 1, 0, 240 + 264},
		{false, false, 4, 60, 240 + 66},  {false, true, 4, 15, 60 + 66},
		{false, true, 7, 9, 35 + 38},
	};
	struct bb_layer huge = PLAIN;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_layer l = PLAIN;

		l.gated = cases[i].gated;
		l.sequence_parallel = cases[i].sequence;
		l.tp = cases[i].tp;
		assert_int_equal(bb_embedding_kept(&l), cases[i].embedding);
		assert_int_equal(bb_head_kept(&l, 11), cases[i].head);
	}
	huge.seq = UINT64_C(1) << 40;
	huge.hidden = UINT64_C(1) << 30;
	assert_true(bb_layer_kept(&huge, BB_RECOMPUTE_NONE) == MAX);
	assert_true(bb_layer_recomputed(&huge, BB_RECOMPUTE_FULL) == MAX);
	assert_true(bb_head_kept(&huge, 11) == MAX);
}

static void test_layers_of_models(void **state)
{
	struct bb_model model = {.gated = true};
	struct bb_layer l;

	model.hyper.seq = 7;
	model.hyper.hidden = 64;
	model.hyper.heads = 8;
	model.hyper.head_dim = 6;
	model.hyper.value_dim = 6;
	model.hyper.kv_heads = 2;
	model.hyper.ffn = 100;
	model.hyper.expert_ffn = 30;
	model.hyper.top_k = 4;
	l = bb_layer_of_model(&model, false, 3, 2);
	assert_int_equal(l.seq, 7);
	assert_int_equal(l.batch, 3);
	assert_int_equal(l.hidden, 64);
	assert_int_equal(l.heads, 8);
	assert_int_equal(l.queries, 48);
	assert_int_equal(l.keys, 12);
	assert_int_equal(l.ffn, 100);
	assert_int_equal(l.routes, 1);
	assert_int_equal(l.extra, 0);
	assert_int_equal(l.bytes, 2);
	assert_int_equal(l.tp, 1);
	assert_true(l.gated);
	assert_false(l.eager || l.sequence_parallel);
	l = bb_layer_of_model(&model, true, 3, 4);
	assert_int_equal(l.ffn, 30);
	assert_int_equal(l.routes, 4);
	assert_int_equal(l.extra, 0);
	/* A shared network of 50, three inner inputs instead of those of 30. */
	model.hyper.shared_ffn = 50;
	l = bb_layer_of_model(&model, true, 3, 4);
	assert_int_equal(l.routes, 5);
	assert_int_equal(l.extra, 3 * 20);
	assert_int_equal(bb_layer_of_model(&model, false, 3, 4).extra, 0);
	model.gated = false;
	l = bb_layer_of_model(&model, true, 3, 4);
	assert_int_equal(l.extra, 2 * 20);
	assert_false(l.gated);
	/* values narrower than keys, and latent vectors */
	model.hyper.value_dim = 4;
	model.hyper.kv_lora = 16;
	model.hyper.q_lora = 24;
	model.hyper.rope = 2;
	assert_int_equal(bb_layer_of_model(&model, false, 3, 4).extra, -10 * 2 + 16 + 24 + 2);
}

static void test_in_flight(void **state)
{
	static const struct {
		enum bb_pipelining schedule;
		uint64_t stage, stages, chunks, micro_batches, kept;
	} cases[] = {
		{BB_GPIPE, 0, 4, 1, 9, 9},       {BB_GPIPE, 3, 4, 1, 9, 9},
		{BB_1F1B, 0, 4, 1, 9, 4},        {BB_1F1B, 3, 4, 1, 9, 1},
		{BB_1F1B, 0, 4, 1, 3, 3},        {BB_INTERLEAVED, 0, 4, 2, 9, 11},
		{BB_INTERLEAVED, 3, 4, 2, 9, 5}, {BB_INTERLEAVED, 0, 4, 3, 9, 15},
		{BB_INTERLEAVED, 0, 4, 2, 4, 8}, {BB_INTERLEAVED, 0, 1, 1, 4, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(bb_in_flight(cases[i].schedule, cases[i].stage, cases[i].stages,
					      cases[i].chunks, cases[i].micro_batches),
				 cases[i].kept);
}

/* Evenly, or so that the stages with the embedding and the head have one layer less. */
static void test_layers_of_stages(void **state)
{
	static const struct {
		uint64_t layers, pp, before[5];
	} cases[] = {
		{8, 4, {0, 2, 4, 6, 8}},
		{10, 4, {0, 2, 5, 8, 10}},
		{9, 4, {0, 2, 4, 6, 9}},
		{14, 4, {0, 3, 7, 11, 14}},
		{4, 1, {0, 4}},
		{6, 4, {0, 1, 3, 5, 6}},
		{126, 4, {0, 31, 63, 95, 126}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (uint64_t s = 0; s <= cases[i].pp; s++)
			assert_int_equal(bb_layers_before(cases[i].layers, cases[i].pp, s),
					 cases[i].before[s]);
}

static void test_attention(void **state)
{
	static const struct {
		enum bb_attention_core core;
		enum bb_attention attention;
		double forward, input;
	} cases[] = {
		{BB_CORE_NONE, BB_ATTENTION_FLASH, 8, 6},
		{BB_CORE_NONE, BB_ATTENTION_EAGER, 8, 6},
		{BB_CORE_FULL, BB_ATTENTION_EAGER, 8, 6},
		{BB_CORE_CAUSAL, BB_ATTENTION_EAGER, 8, 6},
		{BB_CORE_FULL, BB_ATTENTION_FLASH, 8, 20},
		{BB_CORE_CAUSAL, BB_ATTENTION_FLASH, 4, 10},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct bb_work work = {
			.layer = 3, .core = cases[i].core, .forward = 8, .input = 6, .weights = 5};
		const struct bb_work w = bb_attention_work(&work, cases[i].attention);

		assert_float_equal(w.forward, cases[i].forward, 0);
		assert_float_equal(w.input, cases[i].input, 0);
		assert_float_equal(w.weights, 5, 0);
		assert_int_equal(w.layer, 3);
	}
}

static void test_cards(void **state)
{
	static const struct {
		uint64_t size;
		const char *card, *found;
		uint64_t mib; /* reported; 0: the size */
	} cases[] = {
		{UINT64_C(80) << 30, NULL, "H100", 81559},
		{UINT64_C(80) << 30, "H800", "H800", 81559},
		{UINT64_C(80) << 30, "A100", NULL, 0},
		{UINT64_C(16) << 30, NULL, "V100", 16160},
		{UINT64_C(16) << 30, "T4", "T4", 15360},
		{UINT64_C(48) << 30, "RTX 6000 Ada", "RTX 6000 Ada", 49140},
		{UINT64_C(40) << 30, NULL, NULL, 0},
		{(UINT64_C(80) << 30) + 1, NULL, NULL, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t bytes = cases[i].mib ? cases[i].mib << 20 : cases[i].size;
		struct bb_error error = {0};
		struct bb_capacity c;

		assert_int_equal(bb_capacity_open(&c, "--memory", cases[i].size, cases[i].card,
						  1 << 30, &error),
				 BB_OK);
		assert_true(c.reported == bytes);
		assert_true(c.usable == bytes - (1 << 30));
		assert_int_equal(c.reserve, 1 << 30);
		if (cases[i].found)
			assert_string_equal(c.card, cases[i].found);
		else
			assert_null(c.card);
		/* Nothing may be left, or a byte. */
		assert_int_equal(bb_capacity_open(&c, "--memory", cases[i].size, cases[i].card,
						  bytes, &error),
				 BB_EUSAGE);
		assert_int_equal(bb_capacity_open(&c, "--memory", cases[i].size, cases[i].card,
						  bytes - 1, &error),
				 BB_OK);
		assert_int_equal(c.usable, 1);
	}
}

static void test_capacities(void **state)
{
	static const struct {
		struct bb_capacity c;
		const char *text;
	} cases[] = {
		{{3000000000, 0, 3000000000, NULL}, "3.00 GB"},
		{{3000000000, 1000000000, 2000000000, NULL},
		 "2.00 GB (3.00, less 1.00 in reserve)"},
		{{3000000000, 0, 3000000000, "X"}, "3.00 GB (3.00 by the driver of X)"},
		{{3000000000, 1000000000, 2000000000, "X"},
		 "2.00 GB (3.00 by the driver of X, less 1.00 in reserve)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bb_strbuf out = {0};

		bb_capacity_add(&out, &cases[i].c);
		assert_string_equal(bb_strbuf_text(&out), cases[i].text);
		bb_strbuf_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),       cmocka_unit_test(test_layers),
		cmocka_unit_test(test_ends),       cmocka_unit_test(test_layers_of_models),
		cmocka_unit_test(test_in_flight),  cmocka_unit_test(test_layers_of_stages),
		cmocka_unit_test(test_attention),  cmocka_unit_test(test_cards),
		cmocka_unit_test(test_capacities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
