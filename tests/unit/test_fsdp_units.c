/*
 * FSDP's units: of LLaMA-2-7B by PyTorch's policies, of all models as modules of their own, and
 * padding of both versions.
 */
#include "models/parts.h"
#include "models/units.h"
#include "training_kernels/zero/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct bb_model open_model(const char *word)
{
	struct bb_error error = {.text = ""};
	struct bb_model m;

	if (bb_model_open(&m, word, 0, &error) != BB_OK)
		fail_msg("%s", error.text);
	return m;
}

/* COUNT units of ELEMENTS whose names contain PART; "": the root. */
struct expected {
	const char *part;
	uint64_t elements;
	size_t count;
};

/* The units of MODEL by LEAST (0: its blocks) are those EXPECTED, which end with a count of 0. */
static void check_units(const char *word, uint64_t least, const struct expected *expected)
{
	struct bb_model model = open_model(word);
	struct bb_error error = {.text = ""};
	struct bb_fsdp_units units;
	size_t all = 0;

	assert_int_equal(bb_units_divide(&units, &model,
					 least > 0 ? BB_UNITS_BY_SIZE : BB_UNITS_BY_BLOCK, least,
					 &error),
			 BB_OK);
	for (const struct expected *e = expected; e->count > 0; all += e++->count) {
		size_t found = 0;

		for (size_t u = 0; u < units.n; u++)
			found += units.list[u].elements == e->elements &&
				 !*e->part == !*units.list[u].name &&
				 strstr(units.list[u].name, e->part);
		if (found != e->count)
			fail_msg("%s by %ju: %zu units %s of %ju, not %zu", word, least, found,
				 e->part, e->elements, e->count);
	}
	assert_int_equal(units.n, all);
	bb_units_free(&units);
	bb_model_free(&model);
}

#define NO_MORE                                                                                    \
	{                                                                                          \
		"", 0, 0                                                                           \
	}

static void test_llama(void **state)
{
	static const struct expected blocks[] = {
		{"model.layers.", 202383360, 32}, {"", 262148096, 1}, NO_MORE};

	/* PyTorch's default: all attention becomes one unit. */
	check_units("llama2-7b", BB_UNITS_LEAST,
		    (const struct expected[]){{".mlp", 135266304, 32},
					      {"model.embed_tokens", 131072000, 1},
					      {"lm_head", 131072000, 1},
					      {"model", UINT64_C(2147749888), 1},
					      NO_MORE});
	check_units("llama2-7b", 200000000, blocks);
	check_units("llama2-7b", 0, blocks);
	check_units("llama2-7b", 30000000,
		    (const struct expected[]){{".self_attn", 67108864, 32},
					      {".gate_proj", 45088768, 32},
					      {".up_proj", 45088768, 32},
					      {".down_proj", 45088768, 32},
					      {"model.embed_tokens", 131072000, 1},
					      {"lm_head", 131072000, 1},
					      {"", 266240, 1},
					      NO_MORE});
	/* A module of exactly LEAST elements is a unit; the root alone may be smaller. */
	check_units("llama2-7b", 202383360, blocks);
	check_units("llama2-7b", 202383361,
		    (const struct expected[]){
			    {"model", UINT64_C(6607343616), 1}, {"", 131072000, 1}, NO_MORE});
	check_units("llama2-7b", UINT64_C(1) << 40,
		    (const struct expected[]){{"", UINT64_C(6738415616), 1}, NO_MORE});
}

/* torchvision's stages are nn.Sequential, which may be units, unlike an nn.ModuleList. */
static void test_sequential(void **state)
{
	check_units(
		"linear:3x10", 100,
		(const struct expected[]){{"0", 110, 1}, {"1", 110, 1}, {"2", 110, 1}, NO_MORE});
	check_units("resnet:18", 2000000,
		    (const struct expected[]){{"layer3", 2099712, 1},
					      {"layer4.0.conv2", 2359296, 1},
					      {"layer4.1.conv1", 2359296, 1},
					      {"layer4.1.conv2", 2359296, 1},
					      {"", 11689512 - 2099712 - 3 * 2359296, 1},
					      NO_MORE});
}

/* Each leaf is a unit of its own if any size suffices, units have all parameters once, and those
   inside others stand behind them. */
static void test_presets(void **state)
{
	for (const struct bb_model_preset *p = bb_model_presets; p->name; p++) {
		struct bb_model model = open_model(p->name);
		struct bb_error error = {.text = ""};

		for (int by = 0; by < 4; by++) {
			struct bb_fsdp_units units;
			uint64_t elements = 0, inside;
			size_t t = 0;

			assert_int_equal(bb_units_divide(&units, &model,
							 by ? BB_UNITS_BY_SIZE : BB_UNITS_BY_BLOCK,
							 by == 1 ? 1 : UINT64_C(100) << 10 * by,
							 &error),
					 BB_OK);
			if (by == 0 && model.hyper.heads > 0)
				assert_int_equal(units.n, model.blocks + 1);
			for (size_t u = 0; u < units.n; u++) {
				const struct bb_fsdp_unit *unit = &units.list[u];

				elements += unit->elements;
				assert_true(unit->elements > 0 && unit->begin < unit->end);
				for (size_t v = u + 1; v < units.n && units.n < 400; v++) {
					const struct bb_fsdp_unit *other = &units.list[v];

					assert_true(other->begin >= unit->end ||
						    (other->begin >= unit->begin &&
						     other->end <= unit->end));
					if (by > 0 && strcmp(unit->name, other->name) == 0)
						fail_msg("%s: %s twice", p->name, unit->name);
				}
				for (inside = 0, t = unit->begin; t < unit->end; t++)
					inside += units.of[t] == u ? model.tensors[t].elements : 0;
				assert_true(inside == unit->elements);
			}
			assert_true(elements == model.parameters);
			bb_units_free(&units);
		}
		bb_model_free(&model);
	}
}

static uint64_t padded(uint64_t rows, uint64_t width, uint64_t ranks)
{
	return ranks * bb_zero_piece(&(struct bb_zero_rows){0, rows, width}, ranks, 0).padded;
}

/* Shapes 10x7, 10, 3x10 and 3, among 4 and 8 ranks. */
static void test_padding(void **state)
{
	static const uint64_t shapes[][2] = {{10, 7}, {10, 1}, {3, 10}, {3, 1}};
	static const struct {
		uint64_t ranks, parameters, flat;
	} expected[] = {{4, 140, 116}, {8, 216, 120}, {1, 113, 113}};
	const struct bb_tensor stack = {.rows = 5, .columns = 7, .matrices = 3};
	const struct bb_tensor matrix = {.rows = 5, .columns = 7, .matrices = 1};

	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		uint64_t sum = 0, elements = 0;

		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
			sum += padded(shapes[s][0], shapes[s][1], expected[i].ranks);
			elements += shapes[s][0] * shapes[s][1];
		}
		assert_int_equal(sum, expected[i].parameters);
		assert_int_equal(padded(elements, 1, expected[i].ranks), expected[i].flat);
	}
	assert_int_equal(bb_units_rows(&stack), 3);
	assert_int_equal(bb_units_rows(&matrix), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_llama),
		cmocka_unit_test(test_sequential),
		cmocka_unit_test(test_presets),
		cmocka_unit_test(test_padding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
