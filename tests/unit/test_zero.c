/*
 * ZeRO, measured: formats and Adam against the plain arithmetic, books of memory, layers in rows,
 * and gradients of which all sums are exact.
 */
#include "core/scalar.h"
#include "models/memory/training.h"
#include "training_kernels/zero/data.h"
#include "training_kernels/zero/ledger.h"
#include "training_kernels/zero/units.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- formats and Adam ------------------------------------------------------------------------ */

static void check_narrow(enum bb_dtype dtype, float value)
{
	uint16_t got, wanted;

	bb_adam_narrow(dtype, &value, &got, 1);
	bb_scalar_encode(dtype, value, &wanted);
	if (!isnan(value))
		assert_int_equal(got, wanted);
	else
		assert_true(bb_adam_overflowed(dtype, &got, 1));
}

/* Every code, the middle between it and the next, and what is next to that. */
static void test_formats(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_HALF, BB_BFLOAT16};

	for (int d = 0; d < 2; d++)
		for (uint32_t c = 0; c < 1 << 16; c++) {
			const uint16_t code = (uint16_t)c, next = (uint16_t)(c + 1);
			const double exact = bb_scalar_decode(dtypes[d], &code);
			const double after = bb_scalar_decode(dtypes[d], &next);
			const float middle = (float)(exact + (after - exact) / 2);
			float value;

			bb_adam_widen(dtypes[d], &code, &value, 1);
			assert_int_equal(bb_adam_overflowed(dtypes[d], &code, 1), !isfinite(exact));
			if (isnan(exact)) {
				assert_true(isnan(value));
				continue;
			}
			assert_true(value == exact && !signbit(value) == !signbit(exact));
			check_narrow(dtypes[d], value);
			check_narrow(dtypes[d], middle);
			check_narrow(dtypes[d], nextafterf(middle, INFINITY));
			check_narrow(dtypes[d], nextafterf(middle, -INFINITY));
		}
	check_narrow(BB_HALF, 65519.99f);
	check_narrow(BB_HALF, 65520);
	check_narrow(BB_HALF, 1e38f);
	check_narrow(BB_HALF, NAN);
	check_narrow(BB_BFLOAT16, INFINITY);
	check_narrow(BB_BFLOAT16, NAN);
}

/* Algorithm 1 of the paper in double precision, its two quotients written out. */
static void test_adam(void **state)
{
	float parameter = 0.5f, moment1 = 0, moment2 = 0;
	double p = 0.5, m = 0, v = 0;

	for (int t = 1; t <= 200; t++) {
		const float scaled = 64 * (float)sin(t);
		const double g = scaled / 64;

		bb_adam_step_by(BB_ADAM_RATE, (uint64_t)t, 1.0f / 64, &scaled, &parameter, &moment1,
				&moment2, 1);
		m = 0.9 * m + 0.1 * g;
		v = 0.999 * v + 0.001 * g * g;
		p -= 1e-3 * (m / (1 - pow(0.9, t))) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8);
		assert_true(fabs(parameter - p) < 1e-6);
	}
	assert_true(fabs(parameter - 0.5) > 1e-4);
}

/* ---- books ----------------------------------------------------------------------------------- */

static bb_status give_memory(struct bb_rank *rank, size_t bytes, void **memory)
{
	size_t *given = (size_t *)(void *)rank;

	if (bytes > (size_t)1 << 30)
		return BB_EINTERNAL;
	*given += bytes;
	*memory = malloc(bytes);
	return *memory ? BB_OK : BB_EINTERNAL;
}

static void take_memory(struct bb_rank *rank, void *memory, size_t bytes)
{
	size_t *given = (size_t *)(void *)rank;

	*given -= bytes;
	free(memory);
}

static const struct bb_backend store = {.alloc = give_memory, .release = take_memory};

static void test_ledger(void **state)
{
	size_t given = 0;
	struct bb_error error = {0};
	struct bb_ledger l = {
		.backend = &store, .rank = (struct bb_rank *)(void *)&given, .error = &error};
	struct bb_held a, b, c, host;

	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_PARAMETERS, 5000, false, &a), BB_OK);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_COMMUNICATION, 4096, false, &b), BB_OK);
	assert_int_equal(given, 3 * 4096);
	assert_int_equal(l.now.reserved, given);
	assert_int_equal(bb_usage_held(&l.now), 9096);
	assert_int_equal(bb_usage_fragmentation(&l.now), 3 * 4096 - 9096);
	bb_ledger_release(&l, &b);
	bb_ledger_release(&l, &b); /* holds nothing any more */
	assert_int_equal(l.now.holds[BB_HOLD_COMMUNICATION], 0);
	assert_int_equal(bb_usage_held(&l.peak), 9096);
	/* As much again comes from what was given, whatever it is for. */
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_GRADIENTS, 4000, false, &c), BB_OK);
	assert_int_equal(given, 3 * 4096);
	assert_int_equal(l.now.holds[BB_HOLD_GRADIENTS], 4000);
	assert_int_equal(bb_usage_held(&l.peak), 9096);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_OPTIMIZER, 7000, true, &host), BB_OK);
	assert_int_equal(l.now.host, 7000);
	assert_int_equal(l.now.reserved, 3 * 4096);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_GRADIENTS, (size_t)3 << 30, false, &b),
			 BB_EINTERNAL);
	bb_ledger_close(&l);
	assert_int_equal(given, 0);
	assert_int_equal(bb_ledger_rounded(((size_t)2 << 20) + 1), (size_t)4 << 20);
}

/* A block is of one size, in one memory, and of one holder at a time. */
static void test_blocks(void **state)
{
	size_t given = 0;
	struct bb_error error = {0};
	struct bb_ledger l = {
		.backend = &store, .rank = (struct bb_rank *)(void *)&given, .error = &error};
	struct bb_held a, b, c, host, again;
	const char *kept;

	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_PARAMETERS, 4096, false, &a), BB_OK);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_PARAMETERS, 4096, false, &b), BB_OK);
	assert_ptr_not_equal(a.memory, b.memory);
	assert_int_equal(l.now.reserved, 2 * 4096);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_OPTIMIZER, 4096, true, &host), BB_OK);
	assert_int_equal(l.now.host, 4096);
	assert_int_equal(l.now.holds[BB_HOLD_OPTIMIZER], 0);
	assert_int_equal(l.now.reserved, 2 * 4096);
	kept = host.memory;
	bb_ledger_release(&l, &host);
	assert_null(host.memory);
	assert_int_equal(l.now.host, 0);
	assert_int_equal(l.now.holds[BB_HOLD_PARAMETERS], 2 * 4096);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_GRADIENTS, 4096, false, &c), BB_OK);
	assert_int_equal(l.now.reserved, 3 * 4096);
	bb_ledger_release(&l, &a);
	assert_int_equal(l.now.holds[BB_HOLD_PARAMETERS], 4096);
	assert_int_equal(bb_usage_held(&l.peak), 3 * 4096);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_GRADIENTS, 4097, false, &a), BB_OK);
	assert_int_equal(l.now.reserved, 5 * 4096);
	assert_int_equal(bb_usage_held(&l.peak), 2 * 4096 + 4097);
	assert_int_equal(bb_ledger_acquire(&l, BB_HOLD_OPTIMIZER, 1, true, &again), BB_OK);
	assert_ptr_equal(again.memory, kept);
	assert_int_equal(l.now.host, 1);
	assert_int_equal(bb_ledger_rounded(1), 4096);
	assert_int_equal(bb_ledger_rounded(4096), 4096);
	assert_int_equal(bb_ledger_rounded(((size_t)2 << 20) - 1), (size_t)2 << 20);
	assert_int_equal(bb_ledger_rounded((size_t)2 << 20), (size_t)2 << 20);
	bb_ledger_close(&l);
	assert_int_equal(given, 0);
}

/* ---- layers in rows -------------------------------------------------------------------------- */

static void check_places(const struct bb_zero_units *units, int stage, int n)
{
	const struct bb_recipe recipe = {&bb_precisions[0], &bb_optimizers[0]};
	const uint64_t ranks = stage == 0 ? 1 : (uint64_t)n;
	struct bb_zero_places p;
	uint64_t at = 0, part = 0;

	for (int rank = 0; rank < n; rank++, at = part = 0) {
		assert_int_equal(bb_zero_places_make(&p, units, stage, n, rank, NULL), BB_OK);
		for (size_t u = 0; u < units->n; u++) {
			assert_int_equal(p.list[u].at, at);
			assert_int_equal(p.list[u].part_at, part);
			assert_true(p.list[u].padded >= units->list[u].elements &&
				    p.list[u].padded - units->list[u].elements < ranks);
			assert_int_equal(p.list[u].part * ranks, p.list[u].padded);
			assert_int_equal(p.list[u].mine,
					 stage == 0 ? 0 : p.list[u].part * (uint64_t)rank);
			at += p.list[u].padded;
			part += p.list[u].part;
		}
		assert_int_equal(p.whole, at);
		assert_int_equal(p.divided, part);
		/* What is divided layer by layer is as much as all of it in one row. */
		assert_int_equal(bb_states_of_rank(&recipe, p.whole, 0, stage, ranks).optimizer,
				 12 * part);
		bb_zero_places_free(&p);
	}
}

/* The tensors of a layer are neighbours, and its FLOPs are those of the work on it. */
static void check_units(const struct bb_zero_units *units, const struct bb_model *model)
{
	uint64_t first = 0;
	size_t t = 0;

	for (size_t u = 0; u < units->n; u++) {
		const size_t layer = (size_t)model->tensors[t].layer;
		double forward = 0, backward = 0;
		uint64_t elements = 0;

		for (; t < model->ntensors && (size_t)model->tensors[t].layer == layer; t++)
			elements += model->tensors[t].elements;
		for (size_t w = 0; w < model->nworks; w++)
			if ((size_t)model->works[w].layer == layer) {
				forward += model->works[w].forward / model->forward;
				backward += (model->works[w].input + model->works[w].weights) /
					    model->backward;
			}
		assert_int_equal(units->list[u].first, first);
		assert_int_equal(units->list[u].elements, elements);
		/* The last one also has what no layer with tensors does. */
		assert_int_equal(units->runs[u].unit, u);
		assert_true(fabs(units->runs[u].share[0] - forward) < 1e-12 || u + 1 == units->n);
		assert_true(fabs(units->runs[u].share[1] - backward) < 1e-12 || u + 1 == units->n);
		first += elements;
	}
	assert_int_equal(t, model->ntensors);
}

static void test_places(void **state)
{
	static const char *const words[] = {"gpt2", "resnet:18", "linear:3x7"};
	struct bb_zero_units units;
	struct bb_model model = {0};
	double share = 0;

	for (int w = 0; w < 3; w++, share = 0) {
		assert_int_equal(bb_model_open(&model, words[w], 0, NULL), BB_OK);
		assert_int_equal(bb_zero_units_of_model(&units, &model, BB_UNITS_BY_LAYER, 1,
							BB_ZERO_FLAT, NULL),
				 BB_OK);
		assert_int_equal(units.nruns, units.n);
		assert_int_equal(units.elements, model.parameters);
		check_units(&units, &model);
		for (size_t u = 0; u < units.n; u++)
			share += units.runs[u].share[0] + units.runs[u].share[1];
		assert_true(fabs(share - 2) < 1e-12);
		for (int stage = 0; stage < BB_ZERO_STAGES; stage++)
			for (int n = 1; n < 9; n++)
				check_places(&units, stage, n);
		bb_zero_units_free(&units);
		bb_model_free(&model);
	}
	assert_int_equal(bb_zero_units_of_size(&units, BB_ZERO_SIZE_UNITS, 7, NULL), BB_OK);
	assert_int_equal(units.n, 7);
	assert_int_equal(units.elements, 7);
	bb_zero_units_free(&units);
	/* 70 = 6 x 3 + 26 x 2 */
	assert_int_equal(bb_zero_units_of_size(&units, BB_ZERO_SIZE_UNITS, 70, NULL), BB_OK);
	assert_int_equal(units.n, 32);
	assert_int_equal(units.elements, 70);
	for (size_t u = 0; u < 32; u++) {
		assert_int_equal(units.list[u].elements, u < 6 ? 3 : 2);
		assert_int_equal(units.list[u].first, u < 6 ? 3 * u : 2 * u + 6);
		assert_float_equal(units.runs[u].share[0], 1.0 / 32, 1e-12);
		assert_float_equal(units.runs[u].share[1], 1.0 / 32, 1e-12);
		assert_true(units.order[0][u] == u && units.order[1][u] == 31 - u);
	}
	bb_zero_units_free(&units);
}

/* FSDP's units of LLaMA-2-7B: the root is kept around all blocks; of those by size, all attention
   is gathered while the MLPs inside it are. */
static void test_nested(void **state)
{
	struct bb_model model = {0};
	struct bb_zero_units units;
	const struct bb_zero_unit *u;

	assert_int_equal(bb_model_open(&model, "llama2-7b", 0, NULL), BB_OK);
	assert_int_equal(
		bb_zero_units_of_model(&units, &model, BB_UNITS_BY_BLOCK, 1, BB_ZERO_FLAT, NULL),
		BB_OK);
	assert_int_equal(units.n, 33);
	assert_int_equal(units.nruns, 34); /* embedding, blocks, head */
	u = &units.list[units.order[0][0]];
	assert_true(u->kept && u->enter == 0 && u->leave == 33 && u->elements == 262148096);
	assert_int_equal(units.order[1][0], units.order[0][0]);
	for (size_t i = 1; i < 33; i++) {
		u = &units.list[units.order[0][i]];
		assert_true(!u->kept && u->enter == i && u->leave == i);
		assert_int_equal(units.order[1][33 - i], units.order[0][i]);
	}
	bb_zero_units_free(&units);
	assert_int_equal(bb_zero_units_of_model(&units, &model, BB_UNITS_BY_SIZE, 100000000,
						BB_ZERO_PARAMETER, NULL),
			 BB_OK);
	assert_int_equal(units.n, 35);
	u = &units.list[units.order[0][0]];
	assert_true(!u->kept && u->elements == UINT64_C(2147749888) && u->enter == 0);
	/* The head is entered when the attention is left. */
	assert_int_equal(u->leave + 1, units.list[units.order[1][0]].enter);
	assert_int_equal(u->nrows, 32 * 6 + 1);
	for (size_t i = 2; i < 35; i++)
		assert_true(units.list[units.order[0][i]].enter >
			    units.list[units.order[0][i - 1]].enter);
	/* 4096 x 4096, 4096 and so on divide evenly; 32,000 rows of the embedding do not by 3. */
	assert_int_equal(bb_zero_part(&units, units.order[0][0], 64), 2147749888 / 64);
	assert_int_equal(bb_zero_part(&units, units.order[0][1], 3), 10667 * 4096);
	bb_zero_units_free(&units);
	bb_model_free(&model);
}

/* The passes of PyTorch's FSDP in numbers. */
static void test_paces(void **state)
{
	static const struct {
		double compute, gather, reduce; /* of four units */
		double one, two, post;          /* PRE in one communicator, in two; POST */
	} backward[] = {{20, 6, 6, 86, 86, 104}, {10, 8, 8, 60, 48, 72}, {10, 12, 6, 64, 52, 82}};
	static const struct {
		double compute, gather, ahead, none;
	} forward[] = {{10, 6, 46, 64}, {10, 14, 66, 96}};

	for (size_t i = 0; i < 2; i++) {
		struct bb_zero_pace p = {
			.units = 4, .compute = forward[i].compute, .gather = forward[i].gather};

		assert_true(bb_zero_pass_seconds(&p) == forward[i].none);
		for (p.depth = 1; p.depth <= BB_ZERO_MOST_DEPTH; p.depth++)
			assert_true(bb_zero_pass_seconds(&p) == forward[i].ahead);
	}
	for (size_t i = 0; i < 3; i++) {
		struct bb_zero_pace p = {.units = 4,
					 .compute = backward[i].compute,
					 .gather = backward[i].gather,
					 .reduce = backward[i].reduce,
					 .depth = 1,
					 .kept = true};

		assert_true(bb_zero_pass_seconds(&p) == backward[i].one);
		p.separate = true;
		assert_true(bb_zero_pass_seconds(&p) == backward[i].two);
		p.separate = false;
		p.prefetch = BB_ZERO_POST;
		assert_true(bb_zero_pass_seconds(&p) == backward[i].post);
		/* The gather waits for the reduction, too. */
		p.prefetch = BB_ZERO_NONE;
		assert_true(bb_zero_pass_seconds(&p) ==
			    4 * p.compute + 4 * p.reduce + 3 * p.gather);
		/* The first unit's gather comes on top. */
		p.prefetch = BB_ZERO_PRE;
		p.kept = false;
		assert_true(bb_zero_pass_seconds(&p) == p.gather + backward[i].one);
	}
}

/* ---- codes ---------------------------------------------------------------------------------- */

/* ZeRO++'s bytes of a unit: parameters in int8, gradients in int4. */
static void test_coded_bytes(void **state)
{
	struct bb_zero_units units;
	struct bb_coded_form f;

	/* A part of 4096 x 4096: 4096 blocks of 4096. */
	assert_int_equal(bb_zero_units_of_size(&units, 1, 2 * 4096 * 4096, NULL), BB_OK);
	f = bb_zero_coded_form(&units, 0, 2, 0);
	assert_int_equal(f.block, 4096);
	assert_int_equal(bb_coded_phases(&f), 1);
	assert_int_equal(bb_coded_sent(&f, 0), 16793600);
	bb_zero_units_free(&units);
	/* All of it on 4 nodes of 8 ranks: codes and scales in the node, then across. */
	assert_int_equal(bb_zero_units_of_size(&units, 1, 4096 * 4096, NULL), BB_OK);
	f = bb_zero_coded_form(&units, 0, 32, 8);
	assert_int_equal(f.block, 4096);
	assert_int_equal(bb_coded_phases(&f), 2);
	assert_int_equal(bb_coded_sent(&f, 0), 7340032 + 14336);
	assert_int_equal(bb_coded_sent(&f, 1), 786432 + 1536);
	assert_int_equal(8 * bb_coded_sent(&f, 1), 6303744);
	/* Parts that codes fill: 2000003 elements are 62501 a rank, 62504 with padding. */
	units.rows[0].rows = units.list[0].elements = 2000003;
	assert_int_equal(bb_zero_part(&units, 0, 32), 62501);
	units.multiple = 8;
	assert_int_equal(bb_zero_part(&units, 0, 32), 62504);
	assert_int_equal(bb_zero_part(&units, 0, 1), 2000003);
	f = bb_zero_coded_form(&units, 0, 32, 0);
	assert_int_equal(bb_coded_padded(&f), 32 * 62504);
	bb_zero_units_free(&units);
	/* 1024 x 4096 in blocks of 1024 on 2 nodes of 8 ranks. */
	assert_int_equal(bb_zero_units_of_size(&units, 1, 1024 * 4096, NULL), BB_OK);
	f = bb_zero_coded_form(&units, 0, 16, 8);
	f.block = 1024;
	assert_int_equal(bb_coded_sent(&f, 0), 1835008 + 14336);
	assert_int_equal(bb_coded_sent(&f, 1), 131072 + 1024);
	assert_int_equal(8 * bb_coded_sent(&f, 1), 1056768);
	bb_zero_units_free(&units);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Summed forwards or backwards, a pair at a time or at once: the same bits. */
static void check_sums(enum bb_dtype dtype, int n, int64_t microbatches)
{
	const struct bb_zero_data d = {.dtype = dtype,
				       .nranks = n,
				       .microbatches = microbatches,
				       .most = bb_zero_most_draw(dtype, n, microbatches),
				       .elements = 500};
	uint16_t parameters[500], gradient[500];
	float up[500] = {0}, down[500] = {0}, value;
	int64_t draws = 0;

	assert_true(d.most > 0);
	bb_zero_initial(dtype, 0, 500, parameters);
	for (int turn = 0; turn < 2; turn++)
		for (int64_t k = 0; k < n * microbatches; k++) {
			const int64_t at = turn ? n * microbatches - 1 - k : k;
			const struct bb_zero_batch b = {1, at / n, (int)(at % n), 77, 1024};
			float *const sum = turn ? down : up;

			bb_zero_gradients(&d, &b, 0, 500, parameters, gradient, false);
			for (int i = 0; i < 500; i++) {
				uint16_t rounded;

				bb_adam_widen(dtype, &gradient[i], &value, 1);
				draws += value != 0;
				value += sum[i];
				bb_adam_narrow(dtype, &value, &rounded, 1);
				bb_adam_widen(dtype, &rounded, &sum[i], 1);
				assert_true(sum[i] == value);
			}
		}
	assert_memory_equal(up, down, sizeof(up));
	assert_true(draws > 0);
}

static void test_gradients(void **state)
{
	check_sums(BB_HALF, 4, 1);
	check_sums(BB_HALF, 3, 7);
	check_sums(BB_HALF, 64, 16);
	check_sums(BB_BFLOAT16, 5, 3);
	check_sums(BB_BFLOAT16, 128, 2);
	assert_int_equal(bb_zero_most_draw(BB_BFLOAT16, 129, 2), 0);
	assert_int_equal(bb_zero_most_draw(BB_FLOAT, 1024, 1024), BB_ZERO_MOST_DRAW);
}

/* A parameter's bit, the forward pass and the place change what comes. */
static void test_dependence(void **state)
{
	const struct bb_zero_data d = {
		.dtype = BB_HALF, .nranks = 2, .microbatches = 1, .most = 8, .elements = 1 << 16};
	struct bb_zero_batch b = {1, 0, 0, 5, 1};
	uint16_t parameters[64], a[64], c[64];
	uint64_t sum;

	bb_zero_initial(BB_HALF, 0, 64, parameters);
	sum = bb_zero_sum(BB_HALF, 0, 64, parameters);
	assert_true(sum == bb_zero_sum(BB_HALF, 0, 24, parameters) +
				   bb_zero_sum(BB_HALF, 24, 40, parameters + 24));
	assert_true(sum != bb_zero_sum(BB_HALF, 1, 64, parameters));
	bb_zero_gradients(&d, &b, 0, 64, parameters, a, false);
	b.forward ^= 1;
	bb_zero_gradients(&d, &b, 0, 64, parameters, c, false);
	assert_memory_not_equal(a, c, sizeof(a));
	b.forward ^= 1;
	for (int i = 0; i < 64; i++)
		parameters[i] ^= 1;
	assert_true(sum != bb_zero_sum(BB_HALF, 0, 64, parameters));
	bb_zero_gradients(&d, &b, 0, 64, parameters, c, false);
	assert_memory_not_equal(a, c, sizeof(a));
}

static void test_loss_scale(void **state)
{
	struct bb_zero_scale s = {.scale = 1024, .growth = 2};

	bb_zero_scale_update(&s, false);
	assert_true(s.scale == 1024);
	bb_zero_scale_update(&s, false);
	assert_true(s.scale == 2048);
	bb_zero_scale_update(&s, false);
	bb_zero_scale_update(&s, true);
	assert_true(s.scale == 1024 && s.skipped == 1);
	bb_zero_scale_update(&s, false); /* counts from the overflow on */
	assert_true(s.scale == 1024);
	for (int i = 0; i < 20; i++)
		bb_zero_scale_update(&s, true);
	assert_true(s.scale == 1);
	for (int i = 0; i < 100; i++)
		bb_zero_scale_update(&s, false);
	assert_true(s.scale == BB_ZERO_MOST_SCALE);
	s = (struct bb_zero_scale){.scale = 1, .growth = 1, .fixed = true};
	bb_zero_scale_update(&s, false);
	assert_true(s.scale == 1);
}

/* A step that overflows changes nothing but the scale. */
static void test_reference(void **state)
{
	const struct bb_zero_data d = {.dtype = BB_HALF,
				       .nranks = 3,
				       .microbatches = 2,
				       .most = 8,
				       .elements = 1000,
				       .overflow = 2,
				       .rate = BB_ADAM_RATE};
	const struct bb_zero_scale scale = {.scale = 65536, .growth = 2000};
	struct bb_zero_reference r;
	uint16_t before[1000];

	assert_int_equal(bb_zero_reference_open(&r, &d, &scale, NULL), BB_OK);
	memcpy(before, r.parameters, sizeof(before));
	bb_zero_reference_step(&r, 1);
	assert_memory_not_equal(before, r.parameters, sizeof(before));
	memcpy(before, r.parameters, sizeof(before));
	bb_zero_reference_step(&r, 2);
	assert_memory_equal(before, r.parameters, sizeof(before));
	assert_true(r.scale.scale == 32768 && r.steps == 1);
	bb_zero_reference_step(&r, 3);
	assert_memory_not_equal(before, r.parameters, sizeof(before));
	bb_zero_reference_close(&r);
}

/* ---- without a master copy ------------------------------------------------------------------- */

/* Of gradients of k 2^-26, k from -8 to 8, fp16 flushes 1 and 2 (a tie) to 0; a scale keeps all. */
static void test_flushed(void **state)
{
	struct bb_zero_data d = {
		.dtype = BB_HALF, .nranks = 1, .microbatches = 1, .most = 8, .finer = 10};
	struct bb_zero_batch b = {.step = 1, .scale = 1};
	static uint16_t parameters[17000], gradients[17000];
	uint64_t none = 0;

	const uint64_t flushed = bb_zero_gradients(&d, &b, 0, 17000, parameters, gradients, false);
	for (int i = 0; i < 17000; i++) {
		const double g = fabs(bb_scalar_decode(BB_HALF, &gradients[i]));

		assert_true(g == 0 || g == 0x1p-24 || g == 0x1p-23);
		none += g == 0;
	}
	assert_true(llabs((long long)flushed - 4000) < 200);
	assert_true(none > flushed + 800); /* some are drawn as 0 */
	b.scale = 4;
	assert_int_equal(bb_zero_gradients(&d, &b, 0, 17000, parameters, gradients, false), 0);
	d.dtype = BB_BFLOAT16;
	b.scale = 1;
	assert_int_equal(bb_zero_gradients(&d, &b, 0, 17000, parameters, gradients, false), 0);
}

static void test_round(void **state)
{
	struct bb_zero_data d = {.dtype = BB_BFLOAT16, .bare = true};
	static float values[1000];
	static uint16_t whole[1000], parts[1000];
	double mean = 0;

	/* 0x3f80 is 1; half a step and less changes nothing, and no update is none that is undone.
	 */
	for (int i = 0; i < 1000; i++) {
		whole[i] = 0x3f80;
		values[i] = i < 300 ? 1 : i < 600 ? 1 + 0x1p-8f : 1 + 0x1.01p-8f;
	}
	assert_int_equal(bb_zero_round(&d, 1, 0, 1000, values, whole), 300);
	assert_int_equal(whole[599], 0x3f80);
	assert_int_equal(whole[600], 0x3f81);
	/* Draws belong to the element and the step, not to the rank that rounds it. */
	d.stochastic = true;
	for (int i = 0; i < 1000; i++) {
		whole[i] = parts[i] = 0x3f80;
		values[i] = 1 + 0x1p-9f;
	}
	const uint64_t unchanged = bb_zero_round(&d, 1, 5000, 1000, values, whole);
	assert_int_equal(bb_zero_round(&d, 1, 5000, 400, values, parts) +
				 bb_zero_round(&d, 1, 5400, 600, values + 400, parts + 400),
			 unchanged);
	assert_memory_equal(whole, parts, sizeof(whole));
	assert_true(llabs((long long)unchanged - 750) < 50); /* 1 in 4 goes up by 2^-7 */
	for (int i = 0; i < 1000; i++)
		mean += bb_scalar_decode(BB_BFLOAT16, &whole[i]) / 1000;
	assert_true(fabs(mean - (1 + 0x1p-9)) < 0.05 * 0x1p-7);
	bb_zero_round(&d, 2, 5000, 1000, values, parts);
	assert_memory_not_equal(whole, parts, sizeof(whole));
}

/* Weights near 1/32 have steps of 2^-12 and less in bf16: updates of 1e-5 are lost by rounding to
   nearest, and not in the mean by stochastic rounding, nor in fp16 as many. */
static void test_drift(void **state)
{
	static const struct {
		enum bb_dtype dtype;
		bool stochastic;
		double least_undone, most_undone, least, most;
	} table[] = {{BB_BFLOAT16, false, 0.8, 0.95, 0.8, 1.1},
		     {BB_BFLOAT16, true, 0.7, 0.94, 1, 10},
		     {BB_HALF, false, 0.3, 0.8, 0.1, 0.8}};
	const struct bb_zero_scale scale = {.scale = 256, .growth = 2000};

	for (int i = 0; i < 3; i++) {
		const struct bb_zero_data d = {.dtype = table[i].dtype,
					       .nranks = 2,
					       .microbatches = 1,
					       .most = 8,
					       .elements = 4000,
					       .rate = 1e-5f,
					       .bare = true,
					       .stochastic = table[i].stochastic};
		struct bb_zero_reference r;
		double moved = 0, copied = 0;

		assert_int_equal(bb_zero_reference_open(&r, &d, &scale, NULL), BB_OK);
		bb_zero_reference_step(&r, 1);
		/* The first step moves all by the rate, in the direction of the gradient. */
		for (uint64_t k = 0; k < d.elements; k++) {
			uint16_t initial;

			bb_zero_initial(d.dtype, k, 1, &initial);
			const double before = bb_scalar_decode(d.dtype, &initial);
			const double step = r.master[k] - before;
			assert_true(fabs(step) < 1.01e-5);
			if (step == 0)
				continue;
			moved += (bb_scalar_decode(d.dtype, r.parameters + 2 * k) - before) / step;
			copied++;
		}
		if (table[i].stochastic)
			assert_true(fabs(moved / copied - 1) < 0.25);
		const double undone = (double)r.unchanged / (double)d.elements;
		const double drift = bb_zero_reference_drift(&r);
		if (undone < table[i].least_undone || undone > table[i].most_undone ||
		    drift < table[i].least || drift > table[i].most)
			fail_msg("%d: %g undone, drift %g", i, undone, drift);
		bb_zero_reference_close(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),    cmocka_unit_test(test_adam),
		cmocka_unit_test(test_ledger),     cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_places),     cmocka_unit_test(test_nested),
		cmocka_unit_test(test_paces),      cmocka_unit_test(test_coded_bytes),
		cmocka_unit_test(test_gradients),  cmocka_unit_test(test_dependence),
		cmocka_unit_test(test_loss_scale), cmocka_unit_test(test_reference),
		cmocka_unit_test(test_flushed),    cmocka_unit_test(test_round),
		cmocka_unit_test(test_drift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
