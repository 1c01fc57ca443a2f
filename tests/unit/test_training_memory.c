/*
 * Activations, whole training runs and what fits: the published formulas and figures.
 */
#include "models/memory/fits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define B UINT64_C(1000000000)
#define MiB ((uint64_t)1 << 20)
#define GiB ((uint64_t)1 << 30)

struct subject {
	struct bb_model model;
	struct bb_model_layout layout;
	struct bb_training training;
};

static void check(bb_status st, struct bb_error *error)
{
	if (st != BB_OK)
		fail_msg("%s", error->text);
}

/* WORD: a model, or NULL for PARAMETERS alone. */
static struct subject *open_subject(const char *word, uint64_t parameters)
{
	struct subject *s = calloc(1, sizeof(*s));
	struct bb_error error = {.text = ""};

	assert_non_null(s);
	if (word)
		check(bb_model_open(&s->model, word, 0, &error), &error);
	check(bb_model_layout_make(&s->layout, word ? &s->model : NULL, parameters, &error),
	      &error);
	s->training = (struct bb_training){
		.model = word ? &s->model : NULL,
		.layout = &s->layout,
		.recipe = {&bb_precisions[0], &bb_optimizers[0]},
		.trainable = 1,
		.dp = 1,
		.tp = 1,
		.pp = 1,
		.ep = 1,
		.chunks = 1,
		.micro_batch = 1,
		.micro_batches = 1,
	};
	return s;
}

static void close_subject(struct subject *s)
{
	bb_model_layout_free(&s->layout);
	bb_model_free(&s->model);
	free(s);
}

static void refused(const struct bb_training *t, const char *what)
{
	struct bb_error error = {.text = ""};

	if (bb_training_check(t, &error) != BB_EUSAGE || !strstr(error.text, what))
		fail_msg("\"%s\" does not say \"%s\"", error.text, what);
}

/* ---- activations -------------------------------------------------------------------------- */

static struct bb_layer gpt(uint64_t hidden, uint64_t heads, uint64_t batch)
{
	return (struct bb_layer){.seq = 2048,
				 .batch = batch,
				 .hidden = hidden,
				 .heads = heads,
				 .queries = hidden,
				 .keys = hidden,
				 .ffn = 4 * hidden,
				 .routes = 1,
				 .bytes = 2,
				 .tp = 1,
				 .eager = true};
}

/* MiB of a layer; the formulas of table 2 of Korthikanti et al., with its 22B and 175B. */
static void test_activation_table(void **state)
{
	static const struct {
		uint64_t hidden, heads, batch;
		double attention;
		uint64_t none, tp, tp_sp, tp_selective, all_three, full;
	} rows[] = {
		{6144, 64, 4, 106.7, 6752, 1264, 844, 624, 204, 96},
		{12288, 96, 1, 80, 2736, 552, 342, 312, 102, 48},
	};

	for (size_t i = 0; i < 2; i++) {
		struct bb_layer l = gpt(rows[i].hidden, rows[i].heads, rows[i].batch);
		const double attention = 5.0 * (double)l.heads * (double)l.seq / (double)l.hidden;

		assert_true(fabs(attention - rows[i].attention) < 0.05);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_NONE), rows[i].none * MiB);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_FULL), rows[i].full * MiB);
		l.tp = 8;
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_NONE), rows[i].tp * MiB);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE),
				 rows[i].tp_selective * MiB);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_FULL), rows[i].full * MiB);
		l.sequence_parallel = true;
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_NONE), rows[i].tp_sp * MiB);
		assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE),
				 rows[i].all_three * MiB);
	}
}

/* Megatron-LM's theoretical figure for any inner width f: s b h (18 + 4 f / h). */
static void test_inner_width(void **state)
{
	struct bb_layer l = gpt(1024, 16, 3);

	l.ffn = 2816;
	assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE),
			 2048 * 3 * (18 * 1024 + 4 * 2816));
}

/* Gates have three inner inputs, and no dropout: no masks, softmax alone; fp32 doubles. */
static void test_gated(void **state)
{
	struct bb_layer l = gpt(1024, 16, 1);

	l.gated = true;
	l.keys = 256;
	assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE),
			 2048 * (8 * 1024 + 2 * (2 * 1024 + 2 * 256 + 3 * 4096)));
	assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_NONE) -
				 bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE),
			 2 * 16 * 2048 * 2048);
	l.bytes = 4;
	assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE),
			 2 * 2048 * (8 * 1024 + 2 * (2 * 1024 + 2 * 256 + 3 * 4096)));
}

/* Of FlashAttention's scores a sum of each row is left. */
static void test_flash(void **state)
{
	struct bb_layer l = gpt(12288, 96, 1);
	const uint64_t others = bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE);

	l.eager = false;
	assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_SELECTIVE), others);
	assert_int_equal(bb_layer_kept(&l, BB_RECOMPUTE_NONE), others + 4 * 96 * 2048);
	assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_FULL),
			 others + 4 * 96 * 2048 - 48 * MiB);
}

static void test_made_again(void **state)
{
	struct bb_layer l = gpt(12288, 96, 1);

	assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_NONE), 0);
	assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_SELECTIVE),
			 UINT64_C(5) * 96 * 2048 * 2048);
	assert_int_equal(bb_layer_recomputed(&l, BB_RECOMPUTE_FULL), (2736 - 48) * MiB);
}

/* Does not wrap around. */
static void test_too_large(void **state)
{
	struct bb_layer l = gpt(1 << 20, 1 << 14, UINT64_C(1) << 20);

	l.seq = 1 << 28;
	assert_true(bb_layer_kept(&l, BB_RECOMPUTE_NONE) == UINT64_MAX);
	assert_true(bb_layer_recomputed(&l, BB_RECOMPUTE_FULL) == UINT64_MAX);
	assert_true(bb_head_kept(&l, 1 << 28) == UINT64_MAX);
	assert_true(bb_bytes_add(UINT64_MAX - 1, 3) == UINT64_MAX);
	assert_true(bb_bytes_times(UINT64_C(1) << 40, UINT64_C(1) << 24) == UINT64_MAX);
}

/* Chunks that are kept, by counting what the order of Megatron-LM's schedules does. */
static void test_in_flight(void **state)
{
	assert_int_equal(bb_in_flight(BB_GPIPE, 2, 4, 1, 8), 8);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(bb_in_flight(BB_1F1B, i, 4, 1, 8), 4 - i);
	assert_int_equal(bb_in_flight(BB_1F1B, 0, 4, 1, 2), 2);
	/* p = 4, v = 2: 11 chunks are 5.5 micro-batches, p (1 + (p - 1) / (p v)). */
	assert_int_equal(bb_in_flight(BB_INTERLEAVED, 0, 4, 2, 8), 11);
	assert_int_equal(bb_in_flight(BB_INTERLEAVED, 3, 4, 2, 8), 5);
	assert_int_equal(bb_in_flight(BB_INTERLEAVED, 0, 4, 2, 4), 8);
	assert_int_equal(bb_in_flight(BB_INTERLEAVED, 0, 1, 2, 4), 2);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* GPT-3 in fp32 without anything else is 700 GB; 175e9 x 4, and LLaMA-2's 7e9 x 4 = 26.08 GiB. */
static void test_articles(void **state)
{
	struct subject *s = open_subject(NULL, 175 * B);
	struct bb_need need;

	s->training.recipe.precision = &bb_precisions[3];
	need = bb_training_most(&s->training);
	assert_int_equal(need.bytes[BB_NEED_PARAMETERS], 700 * B);
	assert_int_equal(need.total, 2800 * B);
	assert_false(bb_training_has_activations(&s->training));
	close_subject(s);

	s = open_subject(NULL, 7 * B);
	s->training.recipe.precision = &bb_precisions[3];
	need = bb_training_most(&s->training);
	assert_true(fabs((double)need.bytes[BB_NEED_PARAMETERS] / (double)GiB - 26.077) < 0.0005);
	assert_true(fabs((double)B * 4 / (double)GiB - 3.725) < 0.0005); /* 3.725 x 7 = 26.075 */
	close_subject(s);

	s = open_subject("llama2-7b", 0);
	s->training.recipe.precision = &bb_precisions[3];
	need = bb_training_most(&s->training);
	assert_true(fabs((double)need.bytes[BB_NEED_PARAMETERS] / (double)GiB - 25.10) < 0.005);
	close_subject(s);
}

/* Stages of a pipeline and ranks of TP hold the model together, once. */
static void test_shares_make_the_whole(void **state)
{
	struct subject *s = open_subject("llama2-7b", 0);
	uint64_t sum = 0, vectors = 0;

	for (size_t i = 0; i < s->model.ntensors; i++)
		vectors += s->model.tensors[i].columns == 1 ? s->model.tensors[i].elements : 0;
	s->training.pp = 5; /* 32 layers: 6, 6, 7, 6, 7 */
	for (uint64_t stage = 0; stage < 5; stage++)
		sum += bb_training_stage(&s->training, stage).elements;
	assert_int_equal(sum, s->model.parameters);
	s->training.tp = 8;
	sum = 0;
	for (uint64_t stage = 0; stage < 5; stage++)
		sum += bb_training_stage(&s->training, stage).elements;
	assert_int_equal(8 * sum, s->model.parameters + 7 * vectors);
	close_subject(s);
}

/* Where head and embedding share weights, the last stage has them a second time. */
static void test_tied(void **state)
{
	struct subject *s = open_subject("gpt2", 0);
	uint64_t sum = 0;

	s->training.pp = 3;
	for (uint64_t stage = 0; stage < 3; stage++)
		sum += bb_training_stage(&s->training, stage).elements;
	assert_int_equal(sum, s->model.parameters + 50257 * 768);
	close_subject(s);
}

/* Experts are divided among EP, and ZeRO divides them among dp / ep ranks. */
static void test_experts(void **state)
{
	struct subject *s = open_subject("mixtral-8x7b", 0);
	const uint64_t experts = UINT64_C(32) * 8 * 3 * 4096 * 14336;
	const uint64_t others = s->model.parameters - experts;
	struct bb_need need;

	s->training.dp = 16;
	s->training.ep = 8;
	s->training.zero = 1;
	need = bb_training_most(&s->training);
	assert_int_equal(need.elements, others + experts / 8);
	assert_int_equal(need.bytes[BB_NEED_OPTIMIZER],
			 12 * (bb_partition(others, 16) + experts / 8 / 2));
	close_subject(s);
}

/* Activations of 1F1B do not depend on the stages: p micro-batches of L / p layers; at p = 1 the
   logits are in them, here 4 s V bytes, and the inputs of norm and head. */
static void test_pipeline(void **state)
{
	struct subject *s = open_subject("gpt3-175b", 0);
	struct bb_need need;

	s->training.tp = 8;
	s->training.sequence_parallel = true;
	s->training.recompute = BB_RECOMPUTE_SELECTIVE;
	s->training.micro_batches = 64;
	for (uint64_t pp = 1; pp <= 8; pp *= 2) {
		s->training.pp = pp;
		need = bb_training_stage(&s->training, 0);
		assert_int_equal(need.bytes[BB_NEED_ACTIVATIONS], 96 * 102 * MiB);
	}
	assert_int_equal(need.bytes[BB_NEED_ENDS], 8 * UINT64_C(2048) * 12288 / 8);
	need = bb_training_stage(&s->training, 7);
	assert_int_equal(need.bytes[BB_NEED_ENDS],
			 UINT64_C(2048) * 12288 * 4 / 8 + UINT64_C(2048) * 50257 * 4 / 8);
	s->training.schedule = BB_INTERLEAVED;
	s->training.chunks = 3; /* of 4 layers; 8 (1 + 7 / 24) micro-batches */
	need = bb_training_stage(&s->training, 0);
	assert_int_equal(need.bytes[BB_NEED_ACTIVATIONS], 31 * 4 * 102 * MiB);
	s->training.schedule = BB_GPIPE;
	s->training.chunks = 1;
	need = bb_training_stage(&s->training, 0);
	assert_int_equal(need.bytes[BB_NEED_ACTIVATIONS], 64 * 12 * 102 * MiB);
	close_subject(s);
}

/* Stage 3 gathers its largest layer, of LLaMA-2 7B a block; offloading moves states to the host. */
static void test_gathered_and_offloaded(void **state)
{
	struct subject *s = open_subject("llama2-7b", 0);
	const uint64_t block = 4 * 4096 * 4096 + 3 * 4096 * UINT64_C(11008) + 2 * 4096;
	struct bb_need all, moved;

	s->training.dp = 8;
	s->training.zero = 3;
	all = bb_training_most(&s->training);
	assert_int_equal(all.bytes[BB_NEED_GATHERED], 4 * block);
	s->training.offload = BB_OFFLOAD_OPTIMIZER;
	moved = bb_training_most(&s->training);
	assert_int_equal(moved.bytes[BB_NEED_OPTIMIZER] + moved.bytes[BB_NEED_GRADIENTS], 0);
	assert_int_equal(moved.bytes[BB_NEED_PARAMETERS], all.bytes[BB_NEED_PARAMETERS]);
	assert_int_equal(moved.total + moved.host, all.total);
	s->training.offload = BB_OFFLOAD_PARAMETERS;
	moved = bb_training_most(&s->training);
	assert_int_equal(moved.bytes[BB_NEED_PARAMETERS], 0);
	assert_int_equal(moved.total + moved.host, all.total);
	close_subject(s);
}

/* What is frozen has neither gradient nor state, but is there. */
static void test_trainable(void **state)
{
	struct subject *s = open_subject(NULL, B);
	struct bb_need need;

	s->training.trainable = 0.01;
	s->training.dp = 4;
	s->training.zero = 2;
	need = bb_training_most(&s->training);
	assert_int_equal(need.bytes[BB_NEED_PARAMETERS], 2 * B);
	assert_int_equal(need.bytes[BB_NEED_GRADIENTS], 2 * B / 100 / 4);
	assert_int_equal(need.bytes[BB_NEED_OPTIMIZER], 12 * B / 100 / 4);
	close_subject(s);
}

/* Adafactor keeps less than a thousandth of what Adam does. */
static void test_adafactor(void **state)
{
	struct subject *s = open_subject("linear:3x1000", 0);

	s->training.recipe.optimizer = &bb_optimizers[3];
	s->training.recipe.precision = &bb_precisions[3];
	assert_int_equal(bb_training_most(&s->training).bytes[BB_NEED_OPTIMIZER],
			 4 * 3 * (1000 + 1000 + 1000));
	close_subject(s);
}

static void test_refused(void **state)
{
	struct subject *s = open_subject("llama2-7b", 0);
	struct subject *size = open_subject(NULL, 7 * B);
	struct bb_training t = s->training;

	t.tp = 3;
	refused(&t, "--tp 3: does not divide the 32 heads");
	t = s->training, t.pp = 33;
	refused(&t, "--pp 33: exceeds the 32 layers");
	t = s->training, t.chunks = 2;
	refused(&t, "--chunks 2: valid only with --schedule interleaved");
	t.schedule = BB_INTERLEAVED, t.chunks = 1;
	refused(&t, "--schedule interleaved: needs --chunks 2 or more");
	t.chunks = 2, t.pp = 3;
	refused(&t, "32 layers cannot be divided into 3 stages of 2 chunks");
	t = s->training, t.ep = 2;
	refused(&t, "--ep 2: the model has no experts");
	t = s->training, t.sequence_parallel = true;
	refused(&t, "--sequence-parallel: needs --tp 2");
	t = s->training, t.offload = BB_OFFLOAD_OPTIMIZER;
	refused(&t, "--offload optimizer: needs --zero 1, 2 or 3");
	t.offload = BB_OFFLOAD_PARAMETERS, t.zero = 2;
	refused(&t, "--offload parameters: needs --zero 3");
	t = s->training, t.recipe.optimizer = &bb_optimizers[3], t.zero = 1;
	refused(&t, "--optimizer adafactor: needs rows and columns of tensors, but --zero 1");
	t = s->training, t.recipe.optimizer = &bb_optimizers[3], t.trainable = 0.5;
	refused(&t, "--trainable 50%: --optimizer adafactor needs the shapes");
	t = size->training, t.recipe.optimizer = &bb_optimizers[3];
	refused(&t, "give --model instead of --params");
	t = s->training, t.micro_batch = UINT64_C(1) << 62;
	refused(&t, "the bytes exceed 64 bits");
	close_subject(size);
	close_subject(s);
}

/* ---- what fits ------------------------------------------------------------------------------ */

static struct bb_fits find(struct subject *s, const struct bb_fits_space *space)
{
	struct bb_error error = {.text = ""};
	struct bb_fits fits;

	s->training.micro_batches = 0;
	check(bb_fits_find(&fits, &s->training, space, &error), &error);
	return fits;
}

/* ZeRO's figure: of 7.5B on 64 GPUs of 80 GiB plain data parallelism, 120 GB, does not fit, the
   stages do; on 24 GB stage 1 does not either, on 10 GB stage 3 alone fits, on 1 nothing. */
static void test_fits_figure_1(void **state)
{
	static const struct {
		uint64_t limit;
		size_t n;
		int first;
	} known[] = {{120 * B, 4, 0}, {80 * GiB, 3, 1}, {24 * B, 2, 2}, {10 * B, 1, 3}, {B, 0, 3}};
	struct subject *s = open_subject(NULL, 15 * B / 2);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct bb_fits_space space = {.gpus = 64,
						    .most_tp = 1,
						    .most_pp = 1,
						    .most_micro_batch = 64,
						    .zero = -1,
						    .recompute = -1,
						    .limit = known[i].limit};
		struct bb_fits fits = find(s, &space);

		assert_int_equal(fits.n, known[i].n);
		assert_int_equal(fits.tried, 4);
		assert_int_equal(fits.n ? fits.list[0].training.zero : fits.nearest.training.zero,
				 known[i].first);
		free(fits.list);
	}
	close_subject(s);
}

/* All that is listed fits, and the next micro-batch does not; the order is as promised. */
static void test_fits_model(void **state)
{
	const struct bb_fits_space space = {.gpus = 16,
					    .most_tp = 8,
					    .most_pp = 16,
					    .most_micro_batch = 64,
					    .zero = -1,
					    .recompute = -1,
					    .limit = 80 * GiB};
	struct subject *s = open_subject("llama2-7b", 0);
	struct bb_fits fits;

	s->training.sequence_parallel = true;
	fits = find(s, &space);
	assert_true(fits.n > 20);
	for (size_t i = 0; i < fits.n; i++) {
		struct bb_training t = fits.list[i].training;

		assert_true(fits.list[i].need.total <= space.limit);
		assert_int_equal(t.dp * t.tp * t.pp, 16);
		assert_int_equal(t.sequence_parallel, t.tp > 1);
		assert_true(t.pp == 1 || t.zero <= 1);
		assert_int_equal(bb_training_most(&t).total, fits.list[i].need.total);
		t.micro_batch *= 2;
		assert_true(t.micro_batch > 64 || bb_training_most(&t).total > space.limit);
		assert_true(i == 0 || t.recompute >= fits.list[i - 1].training.recompute);
	}
	free(fits.list);
	close_subject(s);
}

static void test_tightest(void **state)
{
	struct bb_need need = {.bytes = {[BB_NEED_OPTIMIZER] = 7, [BB_NEED_ENDS] = 6}};

	assert_int_equal(bb_need_tightest(&need), BB_NEED_OPTIMIZER);
	need.bytes[BB_NEED_ENDS] = 8;
	assert_int_equal(bb_need_tightest(&need), BB_NEED_ENDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_activation_table),
		cmocka_unit_test(test_inner_width),
		cmocka_unit_test(test_gated),
		cmocka_unit_test(test_flash),
		cmocka_unit_test(test_made_again),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_articles),
		cmocka_unit_test(test_shares_make_the_whole),
		cmocka_unit_test(test_tied),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_gathered_and_offloaded),
		cmocka_unit_test(test_trainable),
		cmocka_unit_test(test_adafactor),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_fits_figure_1),
		cmocka_unit_test(test_fits_model),
		cmocka_unit_test(test_tightest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
