/*
 * Buckets: those that PyTorch forms of known models, and what must hold of any.
 */
#include "buckets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define M ((uint64_t)1 << 20)

static struct bb_model open_model(const char *word)
{
	struct bb_error error = {.text = ""};
	struct bb_model m;

	if (bb_model_open(&m, word, 0, &error) != BB_OK)
		fail_msg("%s", error.text);
	return m;
}

static struct bb_buckets make(const struct bb_model *m, size_t element, uint64_t first,
			      uint64_t cap)
{
	struct bb_buckets b;

	assert_int_equal(ddp_buckets(&b, m, element == 4 ? BB_FLOAT : BB_HALF, first, cap), BB_OK);
	return b;
}

static size_t count(const struct bb_model *m, uint64_t first, uint64_t cap)
{
	struct bb_buckets b = make(m, 4, first, cap);
	const size_t n = b.n;

	bb_fusion_free(&b);
	return n;
}

static const uint64_t caps[] = {M, 5 * M, 10 * M, 25 * M, 50 * M, 100 * M};

/* Gradients of ResNet-50 and GPT-2 in float, first bucket 1 MiB. */
static void test_counts(void **state)
{
	static const struct {
		const char *word;
		size_t n[6];
	} known[] = {
		{"resnet50", {35, 13, 9, 5, 3, 2}},
		{"gpt2", {50, 37, 25, 13, 7, 5}},
	};

	for (size_t i = 0; i < 2; i++) {
		struct bb_model m = open_model(known[i].word);

		for (size_t k = 0; k < 6; k++)
			assert_int_equal(count(&m, M, caps[k]), known[i].n[k]);
		bb_model_free(&m);
	}
}

static void assert_mib(uint64_t bytes, double mib)
{
	assert_true(fabs((double)bytes / (double)M - mib) < 0.0006);
}

static void test_resnet50_at_25(void **state)
{
	static const double mib[] = {7.816, 30.043, 25.039, 25.320, 9.274};
	static const size_t tensors[] = {2, 15, 12, 51, 81};
	struct bb_model m = open_model("resnet50");
	struct bb_buckets b = make(&m, 4, M, 25 * M);

	assert_int_equal(b.n, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_mib(b.list[i].bytes, mib[i]);
		assert_int_equal(b.list[i].count, tensors[i]);
	}
	assert_mib(b.bytes, 97.492);
	assert_true(b.least == b.list[0].bytes);
	assert_true(b.most == b.list[1].bytes);
	bb_fusion_free(&b);
	/* Newer PyTorch, a cap given: no smaller first bucket. */
	assert_int_equal(count(&m, 25 * M, 25 * M), 4);
	bb_model_free(&m);
}

/* The embedding is not split: 147.24 MiB in a bucket of 25. */
static void test_gpt2_at_25(void **state)
{
	struct bb_model m = open_model("gpt2");
	struct bb_buckets b = make(&m, 4, M, 25 * M);

	assert_mib(b.list[12].bytes, 168.272);
	assert_mib(m.tensors[0].elements * 4, 147.237);
	bb_fusion_free(&b);
	bb_model_free(&m);
}

/* A matrix of a LLaMA is larger than that. */
static void test_llama(void **state)
{
	struct bb_model m = open_model("llama2-7b");
	const size_t n = count(&m, M, M);

	for (size_t k = 1; k < 4; k++)
		assert_int_equal(count(&m, M, caps[k]), n);
	assert_true(count(&m, M, 200 * M) < n);
	bb_model_free(&m);
}

static void test_extremes(void **state)
{
	struct bb_model m = open_model("resnet50");

	assert_int_equal(count(&m, BB_BUCKET_UNLIMITED, BB_BUCKET_UNLIMITED), 1);
	assert_int_equal(count(&m, 1, 1), m.ntensors);
	bb_model_free(&m);
}

/* A layer's weights and bias fill a bucket to the byte: nothing else comes into it. */
static void test_full(void **state)
{
	struct bb_model m = open_model("linear:4x8");
	const uint64_t layer = (8 * 8 + 8) * 4;
	struct bb_buckets b = make(&m, 4, layer, layer);

	assert_int_equal(b.n, 4);
	for (size_t i = 0; i < b.n; i++) {
		assert_int_equal(b.list[i].bytes, layer);
		assert_int_equal(b.list[i].count, 2);
	}
	bb_fusion_free(&b);
	bb_model_free(&m);
}

/* Every tensor is in one bucket, in order; all but the last reach the cap, and would not without
   their last tensor. */
static void test_rules(void **state)
{
	static const char *const words[] = {"resnet:18", "gpt2",         "bert-large",
					    "llama2-7b", "mixtral-8x7b", "linear:20x2000"};

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
		struct bb_model m = open_model(words[w]);

		for (size_t k = 0; k < 12; k++) {
			const size_t element = k < 6 ? 4 : 2;
			struct bb_buckets b = make(&m, element, M, caps[k % 6]);
			size_t at = 0;

			for (size_t i = 0; i < b.n; i++) {
				const struct bb_bucket *c = &b.list[i];
				const uint64_t cap = i == 0 ? M : caps[k % 6];
				uint64_t sum = 0, last = 0;

				assert_int_equal(c->first, at);
				for (; at < c->first + c->count; at++, sum += last)
					last = m.tensors[m.order[at]].elements * element;
				assert_int_equal(sum, c->bytes);
				assert_int_equal(c->elements * element, c->bytes);
				assert_true(sum >= cap || i + 1 == b.n);
				assert_true(sum - last < cap);
			}
			assert_int_equal(at, m.ntensors);
			assert_int_equal(b.bytes, m.parameters * element);
			bb_fusion_free(&b);
		}
		bb_model_free(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),     cmocka_unit_test(test_resnet50_at_25),
		cmocka_unit_test(test_gpt2_at_25), cmocka_unit_test(test_llama),
		cmocka_unit_test(test_extremes),   cmocka_unit_test(test_full),
		cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
