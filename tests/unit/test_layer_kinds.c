/*
 * Models whose layers alternate: every second one has experts. Parameters, FLOPs, activations,
 * bytes of memory and traffic by hand, each of its own kind of layer.
 */
#include "hybrid_steps.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Four layers of width 64; a token of the first and the third goes through a network of 256, of the
   others through two of four experts of 32. */
#define ALTERNATING                                                                                \
	"qwen3_moe:layers=4,hidden=64,heads=4,kv=2,head_dim=16,vocab=100,seq=32,ffn=256,"          \
	"experts=4,top_k=2,expert_ffn=32,moe_every=2"
#define TOKENS 32

struct subject {
	struct bb_model model;
	struct bb_model_layout layout;
	struct bb_training training;
};

static void subject_open(struct subject *s, const char *model)
{
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_model_open(&s->model, model, 0, &error), BB_OK);
	assert_int_equal(bb_model_layout_make(&s->layout, &s->model, 0, &error), BB_OK);
	s->training = (struct bb_training){.model = &s->model,
					   .layout = &s->layout,
					   .recipe = {&bb_precisions[0], &bb_optimizers[0]},
					   .trainable = 1,
					   .dp = 1,
					   .tp = 1,
					   .pp = 1,
					   .ep = 1,
					   .chunks = 1,
					   .micro_batch = 1,
					   .micro_batches = 1};
}

static void subject_close(struct subject *s)
{
	bb_model_layout_free(&s->layout);
	bb_model_free(&s->model);
}

/* Layers of a model, and those with experts, in each of PP stages. */
static void assert_kinds(const char *model, uint64_t pp, const uint64_t *sparse)
{
	struct subject s;

	subject_open(&s, model);
	s.training.pp = pp;
	for (uint64_t stage = 0; stage < pp; stage++)
		assert_int_equal(bb_training_stage(&s.training, stage).sparse, sparse[stage]);
	subject_close(&s);
}

/* DeepSeek-V3's first three of 61 layers have no experts, of Llama 4 Maverick's 48 every second. */
static void test_models(void **state)
{
	static const uint64_t deepseek[] = {58}, stages[] = {27, 31}, maverick[] = {24},
			      quarters[] = {6, 6, 6, 6}, mixtral[] = {16, 16}, dense[] = {0, 0};

	assert_kinds("deepseek-v3", 1, deepseek);
	assert_kinds("deepseek-v3", 2, stages);
	assert_kinds("llama4-maverick", 1, maverick);
	assert_kinds("llama4-maverick", 4, quarters);
	assert_kinds("mixtral-8x7b", 2, mixtral);
	assert_kinds("llama3.1-8b", 2, dense);
}

/* The embedding is piece 0 of the layout, so that block 0 is piece 1. */
static void test_parameters_and_flops(void **state)
{
	const double dense = 2. * TOKENS * 3 * 64 * 256;
	const double sparse = 2. * TOKENS * (2 * 3 * 64 * 32 + 64 * 4);
	struct subject s;
	struct bb_piece first, second;

	subject_open(&s, ALTERNATING);
	first = bb_layout_pieces(&s.layout, 1, 2);
	second = bb_layout_pieces(&s.layout, 2, 3);
	assert_int_equal(first.sparse, 0);
	assert_int_equal(first.experts, 0);
	assert_int_equal(second.sparse, 1);
	assert_int_equal(second.experts, 4 * 3 * 64 * 32);
	assert_int_equal(first.matrices - second.matrices, 3 * 64 * 256 - 64 * 4);
	assert_true(s.layout.works[2].forward - s.layout.works[1].forward -
			    (s.layout.works[3].forward - s.layout.works[2].forward) ==
		    dense - sparse);
	subject_close(&s);
}

/* s (8 h + 4 a + 2 (2 q + 2 k + 3 f)), where another network of a token has an input of its own. */
static void test_activations(void **state)
{
	const uint64_t dense = TOKENS * (2 * 4 * 64 + 4 * 4 + 2 * (2 * 64 + 2 * 32 + 3 * 256));
	const uint64_t sparse = TOKENS * (2 * 5 * 64 + 4 * 4 + 2 * (2 * 64 + 2 * 32 + 3 * 2 * 32));
	struct bb_need need;
	struct subject s;

	subject_open(&s, ALTERNATING);
	need = bb_training_stage(&s.training, 0);
	assert_int_equal(need.layers, 4);
	assert_int_equal(need.sparse, 2);
	assert_int_equal(need.bytes[BB_NEED_ACTIVATIONS], 2 * dense + 2 * sparse);
	s.training.recompute = BB_RECOMPUTE_FULL;
	need = bb_training_stage(&s.training, 0);
	assert_int_equal(need.bytes[BB_NEED_ACTIVATIONS], 4 * TOKENS * 64 * 2);
	/* The larger one is recomputed at some time. */
	assert_int_equal(need.bytes[BB_NEED_RECOMPUTED], dense - TOKENS * 64 * 2);
	subject_close(&s);
}

/* Forward and backward: norms and sums 44 h, activation function 16 f, rotation 8 (q + k). */
static void test_memory_time(void **state)
{
	const double each = 44 * 64 + 8 * (64 + 32);
	const struct bb_need part = {.layers = 4, .sparse = 2, .stage = 1};
	struct bb_hybrid_division d = {.grid = {1, 1, 1, 1, .cp = 1, .etp = 1}};
	struct subject s;

	subject_open(&s, ALTERNATING);
	d.training = s.training;
	assert_true(bb_memory_bytes_of(&d, &part, 0).pass ==
		    TOKENS * (4 * each + 16 * (2 * 256 + 2 * 2 * 32)));
	/* Rows are sorted forward and backward, and once more with recomputation, in layers that
	   have experts. */
	assert_true(bb_memory_bytes_of(&d, &part, 1000).pass -
			    bb_memory_bytes_of(&d, &part, 0).pass ==
		    TOKENS * 2 * 2 * 1000);
	d.training.recompute = BB_RECOMPUTE_FULL;
	assert_true(bb_memory_bytes_of(&d, &part, 1000).pass -
			    bb_memory_bytes_of(&d, &part, 0).pass ==
		    TOKENS * 2 * 3 * 1000);
	subject_close(&s);
}

/* A row has 128 bytes. A rank reads its token and writes two rows, and back; at the experts rows
   are read and written, and back. */
static void test_sorted_rows(void **state)
{
	const double own = 2 * (1 + 2) * 128, at_experts = 2 * (2 + 2) * 128;
	struct bb_hybrid_division d = {
		.grid = {1, 1, 2, 2, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 1}};
	struct subject s, dense;

	subject_open(&s, ALTERNATING);
	d.training = s.training;
	assert_true(bb_sorted_bytes(&d) == own + at_experts);
	d.by_node = true;
	assert_true(bb_sorted_bytes(&d) == at_experts);
	d.grid.ep = 1; /* nothing is exchanged */
	assert_true(bb_sorted_bytes(&d) == own);
	/* Each of two tensor ranks has half of the tokens, and all rows of its halves of experts.
	 */
	d.by_node = false;
	d.grid = (struct bb_grid){2, 1, 2, 2, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 2};
	d.training.tp = 2;
	d.training.sequence_parallel = true;
	assert_true(bb_sorted_bytes(&d) == own / 2 + at_experts);
	d.grid.etp = 1;
	assert_true(bb_sorted_bytes(&d) == own / 2 + at_experts / 2);
	subject_close(&s);
	subject_open(&dense, "gpt2");
	d.training = dense.training;
	assert_true(bb_sorted_bytes(&d) == 0);
	subject_close(&dense);
}

/* Four replicas, of which two divide the experts; three micro-batches of two layers with experts.
 */
static struct bb_hybrid_cost cost_of(struct subject *s, double launch, enum bb_recompute recompute,
				     enum bb_hybrid_overlap overlap)
{
	const struct bb_hybrid_cluster cluster = {.ranks = 4,
						  .node = 4,
						  .inside = {1e9, 1e-6},
						  .between = {1e9, 1e-6},
						  .flops = 1e9,
						  .launch = launch,
						  .rails = true};
	struct bb_hybrid_division division = {
		.grid = {1, 1, 4, 2, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 1},
		.overlap = overlap,
		.training = s->training};

	division.training.dp = 4;
	division.training.ep = 2;
	division.training.micro_batches = 3;
	division.training.recompute = recompute;
	bb_hybrid_division_cost(&division, &cluster, NULL, INFINITY);
	return division.cost;
}

/* Seconds of passes over some layers of four, whose FLOPs are given: before the first 7e9, of these
   10e9, 20e9, 30e9 and 40e9, behind them 50e9; of the backward pass 2 and 3 times as many. Those of
   attention are at another rate; recomputing repeats blocks, and attention where it is not kept. */
static void test_passes(void **state)
{
	static const double all[] = {0, 7e9, 17e9, 37e9, 67e9, 107e9, 157e9};
	static const double cores[] = {0, 1e9, 3e9, 7e9, 12e9, 20e9, 26e9};
	static const struct {
		int first, last;
		double before, behind; /* FLOPs up to the first layer, and the last */
		double of_blocks;
	} spans[] = {{-1, 5, 0, 157e9, 100e9},
		     {-1, 2, 0, 37e9, 30e9},
		     {2, 5, 37e9, 157e9, 70e9},
		     {1, 3, 17e9, 67e9, 50e9},
		     {0, 4, 7e9, 107e9, 100e9}};
	struct subject s;

	subject_open(&s, ALTERNATING);
	for (int i = 0; i < 7; i++)
		s.layout.works[i] = (struct bb_layers_work){.forward = all[i],
							    .input = 2 * all[i],
							    .weights = 3 * all[i],
							    .core = cores[i],
							    .flash = cores[i] / 4};
	for (int i = 0; i < 5 * 3 * 2 * 2; i++) {
		const bool eager = i / 15 % 2, other = i / 30;
		const enum bb_recompute recompute = (enum bb_recompute)(i / 5 % 3);
		const int first = spans[i % 5].first, last = spans[i % 5].last;
		/* Also of the layers before and behind the blocks, which nothing computes again. */
		const double core = cores[last + 1] - cores[first + 1];
		const double of_blocks =
			cores[last < 4 ? last + 1 : 5] - cores[first > 0 ? first + 1 : 1];
		const double share = eager ? 1 : 0.25;
		const double flops = spans[i % 5].behind - spans[i % 5].before;
		const double again =
			recompute == BB_RECOMPUTE_FULL ? spans[i % 5].of_blocks - of_blocks : 0;
		const double back =
			(eager ? 2 : 2.5) * core + (recompute != BB_RECOMPUTE_NONE ? of_blocks : 0);
		const double rate = other ? 2e8 : 0; /* of attention */
		struct bb_hybrid_division d = {.grid = {1, 1, 1, 1, .cp = 1, .etp = 1},
					       .training = s.training};
		struct bb_hybrid_passes got;

		d.training.eager = eager;
		d.training.recompute = recompute;
		d.training.micro_batch = 3;
		d.training.tp = 2;
		/* 1.5 micro-batches of a rank at 1e9 FLOPs per second */
		got = bb_hybrid_passes_of(&d, first, last, 1e9, rate);
		const double slow = other ? 1.5 / rate : 1.5e-9;

		assert_true(fabs(got.forward - (1.5e-9 * (flops - core) + share * core * slow)) <
			    1e-9);
		assert_true(fabs(got.input - (1.5e-9 * (2 * flops - 2 * core + again) +
					      share * back * slow)) < 1e-9);
		assert_true(fabs(got.weights - 1.5e-9 * 3 * flops) < 1e-9);
		assert_true(fabs(got.products - 1.5e-9 * (6 * flops - 3 * core + again)) < 1e-9);
	}
	subject_close(&s);
}

/* The CPU launches two layers of three micro-batches in 6 L, with recomputation in a third more;
   what computations and exchanges do not take of it is a wait. */
static void test_launch(void **state)
{
	struct bb_hybrid_cost without, with;
	struct subject s;

	subject_open(&s, ALTERNATING);
	without = cost_of(&s, 0, BB_RECOMPUTE_NONE, BB_OVERLAP_NONE);
	assert_true(without.of[BB_TERM_LAUNCH] == 0);
	with = cost_of(&s, 1, BB_RECOMPUTE_NONE, BB_OVERLAP_NONE);
	assert_true(fabs(with.of[BB_TERM_LAUNCH] + with.of[BB_TERM_COMPUTE] +
			 with.of[BB_TRAFFIC_EXPERT] - 6) < 1e-9);
	assert_true(fabs(with.step - without.step - with.of[BB_TERM_LAUNCH]) < 1e-9);
	with = cost_of(&s, 1, BB_RECOMPUTE_FULL, BB_OVERLAP_NONE);
	assert_true(fabs(with.of[BB_TERM_LAUNCH] + with.of[BB_TERM_COMPUTE] +
			 with.of[BB_TRAFFIC_EXPERT] - 8) < 1e-9);
	/* Computations that take longer leave nothing to wait for. */
	with = cost_of(&s, 1e-6, BB_RECOMPUTE_NONE, BB_OVERLAP_NONE);
	assert_true(with.of[BB_TERM_LAUNCH] == 0);
	assert_true(with.step == without.step);
	subject_close(&s);
}

/* Beside products, exchanges of all micro-batches but one hold 20 of 132 SMs. */
static void test_exchange_beside_products(void **state)
{
	struct bb_hybrid_cost alone, beside;
	struct subject s;
	double hidden;

	subject_open(&s, ALTERNATING);
	alone = cost_of(&s, 0, BB_RECOMPUTE_NONE, BB_OVERLAP_ALL);
	beside = cost_of(&s, 0, BB_RECOMPUTE_NONE, BB_OVERLAP_EXPERTS);
	hidden = alone.of[BB_TRAFFIC_EXPERT] * 2 / 3;
	assert_true(hidden > 0);
	assert_true(fabs(beside.of[BB_TRAFFIC_EXPERT] - hidden / 2) < 1e-12);
	assert_true(fabs(beside.of[BB_TERM_COMPUTE] - alone.of[BB_TERM_COMPUTE] -
			 hidden * 20 / 132) < 1e-12);
	subject_close(&s);
}

/* Seconds of the exchanges of experts, 24 calls: three micro-batches of two layers with experts,
   that eight replicas on two nodes divide. Latencies are INSIDE and BETWEEN. */
static double exchange(struct subject *s, struct bb_cluster_link inside,
		       struct bb_cluster_link between, bool rails, bool by_node)
{
	const struct bb_hybrid_cluster cluster = {.ranks = 8,
						  .node = 4,
						  .inside = inside,
						  .between = between,
						  .flops = 1e9,
						  .rails = rails};
	struct bb_hybrid_division division = {
		.grid = {1, 1, 8, 8, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 1},
		.by_node = by_node,
		.training = s->training};

	division.training.dp = 8;
	division.training.ep = 8;
	division.training.micro_batches = 3;
	bb_hybrid_division_cost(&division, &cluster, NULL, INFINITY);
	return division.cost.of[BB_TRAFFIC_EXPERT];
}

/* Of seven others four are on the other node. Once to each of two nodes, a token of two experts
   leaves with a chance of three fourths for each, and what stays moves twice. */
static void test_exchanges(void **state)
{
	const struct bb_cluster_link one = {1e9, 0}, half = {0.5e9, 0};
	const struct bb_cluster_link near = {INFINITY, 2}, far = {INFINITY, 5};
	struct subject s;
	double seventh;

	subject_open(&s, ALTERNATING);
	assert_int_equal(s.training.model->hyper.top_k, 2);
	seventh = exchange(&s, one, one, true, false) / 4;
	assert_true(seventh > 0);
	assert_true(fabs(exchange(&s, half, one, true, false) / seventh - 6) < 1e-9);
	assert_true(fabs(exchange(&s, one, half, true, false) / seventh - 8) < 1e-9);
	assert_true(fabs(exchange(&s, half, one, false, false) / seventh - 10) < 1e-9);
	assert_true(fabs(exchange(&s, one, half, true, true) / seventh - 6) < 1e-9);
	assert_true(fabs(exchange(&s, one, one, false, true) / seventh - 9) < 1e-9);
	assert_true(fabs(exchange(&s, one, half, false, true) / seventh - 12) < 1e-9);
	assert_true(fabs(exchange(&s, near, far, true, false) - 24 * 5) < 1e-9);
	assert_true(fabs(exchange(&s, near, far, false, false) - 24 * (3 * 2 + 4 * 5)) < 1e-9);
	subject_close(&s);
}

/* Two tensor ranks of two replicas that divide the experts, three micro-batches of A bytes. Five
   collectives of half a layer move A, those of experts 2 A. Of the rows of its half of the tokens,
   A bytes, a rank sends half; four times for each layer with experts, for others never. */
static void test_traffic(void **state)
{
	const struct step s = {.grid = {2, 1, 2, 2, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 2},
			       .seq = TOKENS,
			       .hidden = 64,
			       .routes = 2,
			       .sequence_parallel = true,
			       .micro_batch = 1,
			       .micro_batches = 3,
			       .recipe = {&bb_precisions[0], &bb_optimizers[0]}};
	const struct bb_need part = {.layers = 4, .sparse = 2, .stage = 1};
	const struct bb_hybrid_volumes v = step_volumes(&s, &part);
	const double a = 2 * TOKENS * 64;

	assert_true(v.of[BB_TRAFFIC_TENSOR].sent == 3 * a / 2 * (2 * 10 + 2 * (5 + 2 * 5)));
	assert_int_equal(v.of[BB_TRAFFIC_TENSOR].calls, 3 * 4 * 10);
	assert_true(v.of[BB_TRAFFIC_EXPERT].sent == 3 * 2 * 4 * a / 2);
	assert_int_equal(v.of[BB_TRAFFIC_EXPERT].calls, 3 * 2 * 4);
}

struct by_hand {
	bool gated, eager, sequence, logits;
	enum bb_recompute recompute;
	uint64_t tp;
	double dense[2], sparse[2], scores[2];
};

/* forward and backward: 22 and 34 times the width, gated 20 and 24; 4 and 6 times the inner
   width, gated 6 and 10, and 4 times the 15 that rotate; scores 13 and 19 times 2 heads x 6
   tokens, gated 8 and 14. Dense: 14, sparse: 17 inner numbers. */
static const struct by_hand by_hand[] = {
	{false,
	 false,
	 false,
	 false,
	 BB_RECOMPUTE_NONE,
	 1,
	 {220 + 56, 340 + 84},
	 {220 + 68, 340 + 102},
	 {0, 0}},
	{true,
	 false,
	 false,
	 false,
	 BB_RECOMPUTE_NONE,
	 1,
	 {200 + 84 + 60, 240 + 140 + 60},
	 {200 + 102 + 60, 240 + 170 + 60},
	 {0, 0}},
	{false,
	 true,
	 false,
	 true,
	 BB_RECOMPUTE_NONE,
	 1,
	 {220 + 56, 340 + 84},
	 {220 + 68, 340 + 102},
	 {156, 228}},
	{true,
	 true,
	 false,
	 true,
	 BB_RECOMPUTE_SELECTIVE,
	 1,
	 {200 + 84 + 60, 240 + 140 + 60},
	 {200 + 102 + 60, 240 + 170 + 60},
	 {2 * 96, 168}},
	{false,
	 true,
	 false,
	 true,
	 BB_RECOMPUTE_FULL,
	 2,
	 {2 * (220 + 28), 340 + 42},
	 {2 * (220 + 34), 340 + 51},
	 {2 * 78, 114}},
	{false,
	 false,
	 true,
	 true,
	 BB_RECOMPUTE_FULL,
	 2,
	 {2 * (110 + 28), 170 + 42},
	 {2 * (110 + 34), 170 + 51},
	 {0, 0}},
};

/* Width 10, inner 14, sequences of 6 tokens, two heads of 5 and one of keys; three layers, one of
   them with two of its experts of 7 a token and a shared one of 3. */
static void expect_bytes(const struct by_hand *c)
{
	const struct bb_model model = {.gated = c->gated,
				       .logits = c->logits,
				       .hyper = {.hidden = 10,
						 .ffn = 14,
						 .expert_ffn = 7,
						 .top_k = 2,
						 .shared_ffn = 3,
						 .heads = 2,
						 .kv_heads = 1,
						 .head_dim = 5,
						 .seq = 6,
						 .vocab = 32}};
	const struct bb_need stage = {.layers = 3, .sparse = 1, .elements = 1001, .experts = 400};
	struct bb_hybrid_division d = {
		.grid = {(int)c->tp, 1, 4, 2, .cp = 1, .etp = (int)c->tp},
		.training = {.model = &model,
			     .recipe = {&bb_precisions[0], &bb_optimizers[0]},
			     .tp = c->tp,
			     .pp = 1,
			     .dp = 4,
			     .ep = 2,
			     .micro_batch = 3,
			     .sequence_parallel = c->sequence,
			     .eager = c->eager,
			     .recompute = c->recompute}};
	const struct bb_states each = bb_states_each(&d.training.recipe);
	const double passes = c->recompute == BB_RECOMPUTE_FULL ? 2 : 1;
	const double scores = c->scores[0] + c->scores[1];
	const double layers = 2 * (c->dense[0] + c->dense[1] + scores) + c->sparse[0] +
			      c->sparse[1] + scores + (passes + 1) * 5;
	const double logits = c->logits ? 24. * 32 / (double)c->tp : 0; /* 32 words */
	const double moved =
		2. * (double)each.optimizer + (double)each.gradients + (double)each.parameters;
	struct bb_memory_bytes bytes;

	bytes = bb_memory_bytes_of(&d, &stage, 5);
	assert_true(fabs(bytes.pass -
			 (18 * (layers + logits) + 2 * (double)each.gradients * 1001)) < 1e-6);
	assert_true(fabs(bytes.step - 1001 * moved) < 1e-6);
	/* Of four replicas each updates a fourth of 601, and a half of the experts' 400, of
	   which two ranks have each. */
	d.training.zero = 1;
	bytes = bb_memory_bytes_of(&d, &stage, 5);
	assert_true(fabs(bytes.step - (151 + 200) * moved) < 1e-6);
	d.training.ep = 8;
	bytes = bb_memory_bytes_of(&d, &stage, 5);
	assert_true(fabs(bytes.step - (151 + 400) * moved) < 1e-6);
}

static void test_bytes_by_hand(void **state)
{
	for (size_t i = 0; i < sizeof(by_hand) / sizeof(by_hand[0]); i++)
		expect_bytes(&by_hand[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_by_hand),
		cmocka_unit_test(test_models),
		cmocka_unit_test(test_parameters_and_flops),
		cmocka_unit_test(test_activations),
		cmocka_unit_test(test_memory_time),
		cmocka_unit_test(test_traffic),
		cmocka_unit_test(test_sorted_rows),
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_launch),
		cmocka_unit_test(test_exchange_beside_products),
		cmocka_unit_test(test_exchanges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
