/*
 * Hybrid parallelism: where ranks are, what they send, and which ways of dividing a model fit and
 * are fast. Oracles: BLOOM's published run, DeepSpeed's 32 GPUs, GPT-3's tensor parallelism.
 */
#include "hybrid_steps.h"
#include "models/model.h"
#include "training_kernels/hybrid/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MIB ((double)(1 << 20))
#define GIB ((double)(1 << 30))

/* ---- layout --------------------------------------------------------------------------------- */

/* Along each axis every rank is in one group, at the place that the group says. */
static void assert_groups(const struct bb_grid *g)
{
	for (int axis = 0; axis < BB_AXES; axis++) {
		const int size = bb_grid_size(g, (enum bb_axis)axis);
		const int groups = bb_grid_groups(g, (enum bb_axis)axis);
		int lowest = -1;

		assert_int_equal(size * groups, bb_grid_ranks(g));
		for (int n = 0; n < groups; n++) {
			const int first = bb_grid_member(g, (enum bb_axis)axis, n, 0);

			assert_true(first > lowest);
			lowest = first;
			for (int i = 0; i < size; i++) {
				const int rank = bb_grid_member(g, (enum bb_axis)axis, n, i);

				assert_in_range(rank, first, bb_grid_ranks(g) - 1);
				assert_int_equal(bb_grid_group(g, (enum bb_axis)axis, rank), n);
				assert_int_equal(bb_grid_place(g, (enum bb_axis)axis, rank), i);
			}
		}
	}
}

static void test_groups(void **state)
{
	for (int order = 0; order < 2; order++)
		for (int tp = 1; tp <= 4; tp++)
			for (int pp = 1; pp <= 5; pp++)
				for (int dp = 1; dp <= 6; dp++)
					for (int ep = 1; ep <= dp; ep++) {
						const struct bb_grid g = {
							tp,
							pp,
							dp,
							ep,
							.order = (enum bb_grid_order)order,
							.cp = 1,
							.etp = tp};

						if (dp % ep == 0)
							assert_groups(&g);
					}
}

/* A group crosses exactly where one is counted. */
static void test_crossing(void **state)
{
	for (int node = 1; node <= 12; node++)
		for (int tp = 1; tp <= 4; tp++)
			for (int pp = 1; pp <= 4; pp++)
				for (int dp = 1; dp <= 12; dp++) {
					const struct bb_grid g = {
						tp,
						pp,
						dp,
						dp % 2 ? 1 : 2,
						.order = (enum bb_grid_order)(dp / 2 % 2),
						.cp = 1,
						.etp = tp};

					for (int a = 0; a < BB_AXES; a++)
						assert_int_equal(
							bb_grid_crosses(&g, (enum bb_axis)a, node),
							bb_grid_crossing(&g, (enum bb_axis)a,
									 node) > 0);
				}
}

/* BLOOM: 48 nodes of 8. A replica is 48 ranks in a row; four tensor ranks share half a node. */
static void test_bloom_layout(void **state)
{
	const struct bb_grid g = {4, 12, 8, 1, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 4};

	for (int rank = 0; rank < 384; rank++) {
		assert_int_equal(bb_grid_place(&g, BB_AXIS_DP, rank), rank / 48);
		assert_int_equal(bb_grid_group(&g, BB_AXIS_TP, rank), rank / 4);
	}
	assert_int_equal(bb_grid_crossing(&g, BB_AXIS_TP, 8), 0);
	assert_int_equal(bb_grid_crossing(&g, BB_AXIS_PP, 8), 32);
	assert_int_equal(bb_grid_crossing(&g, BB_AXIS_DP, 8), 48);
	assert_int_equal(bb_grid_crossing(&g, BB_AXIS_TP, 6), 32);
}

/* DeepSpeed's example: 8 nodes of 4, a tensor group each; stages are furthest apart. */
static void test_deepspeed_layout(void **state)
{
	const struct bb_grid g = {4, 4, 2, 1, .order = BB_GRID_TP_DP_PP, .cp = 1, .etp = 4};
	static const int pipeline[] = {5, 13, 21, 29}, data[] = {5 - 4, 5};

	for (int i = 0; i < 4; i++)
		assert_int_equal(
			bb_grid_member(&g, BB_AXIS_PP, bb_grid_group(&g, BB_AXIS_PP, 5), i),
			pipeline[i]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			bb_grid_member(&g, BB_AXIS_DP, bb_grid_group(&g, BB_AXIS_DP, 5), i),
			data[i]);
	assert_int_equal(bb_grid_crossing(&g, BB_AXIS_TP, 4), 0);
	assert_int_equal(bb_grid_groups(&g, BB_AXIS_TP), 8);
}

/* Of six replicas three in a row divide the experts, so that two hold the same. */
static void test_expert_layout(void **state)
{
	const struct bb_grid g = {2, 1, 6, 3, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 2};

	for (int i = 0; i < 3; i++)
		assert_int_equal(bb_grid_member(&g, BB_AXIS_EP, 2, i), 6 + 2 * i);
	for (int i = 0; i < 2; i++)
		assert_int_equal(bb_grid_member(&g, BB_AXIS_EDP, 3, i), 3 + 6 * i);
}

/* ---- stages --------------------------------------------------------------------------------- */

static void assert_stages(uint64_t layers, uint64_t pp, const uint64_t *each)
{
	for (uint64_t stage = 0; stage < pp; stage++)
		assert_int_equal(bb_layers_before(layers, pp, stage + 1) -
					 bb_layers_before(layers, pp, stage),
				 each[stage]);
	assert_int_equal(bb_layers_before(layers, pp, pp), layers);
}

/* BLOOM: 70 layers, embedding and head are 72, six a stage. */
static void test_stages(void **state)
{
	static const uint64_t bloom[] = {5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}, even[] = {4, 4},
			      uneven[] = {1, 2, 2, 2};

	assert_stages(70, 12, bloom);
	assert_stages(8, 2, even);
	assert_stages(7, 4, uneven);
}

/* ---- volumes -------------------------------------------------------------------------------- */

static struct step bloom(void)
{
	return (struct step){.grid = {4, 12, 8, 1, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 4},
			     .seq = 2048,
			     .hidden = 14336,
			     .micro_batch = 2,
			     .micro_batches = 128,
			     .embedding = UINT64_C(250880) * 14336,
			     .recipe = {&bb_precisions[0], &bb_optimizers[0]}};
}

static void assert_near(double got, double wanted, double within)
{
	if (!(fabs(got - wanted) <= within))
		fail_msg("%.6g, not %.6g", got, wanted);
}

static void test_bloom_volumes(void **state)
{
	struct step s = bloom();
	const struct bb_need part = {
		.layers = 6, .elements = UINT64_C(176247271424) / 48, .stage = 1};
	struct bb_hybrid_volumes v = step_volumes(&s, &part);

	assert_near((double)v.activation, 112 * MIB, 0);
	assert_near((double)v.boundary, 112 * MIB, 0);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, 504 * GIB, 0);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent / 6 / 128, 672 * MIB, 0);
	assert_near(v.of[BB_TRAFFIC_PIPELINE].sent, 28 * GIB, 0);
	assert_near(1e-9 * v.of[BB_TRAFFIC_DATA].sent, 12.85, 0.005);
	assert_int_equal(v.of[BB_TRAFFIC_TENSOR].calls, 4 * 6 * 128);
	assert_int_equal(v.of[BB_TRAFFIC_PIPELINE].calls, 2 * 128);
	assert_int_equal(v.of[BB_TRAFFIC_EMBEDDING].calls, 0);
	s.recomputes = true;
	v = step_volumes(&s, &part);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, 756 * GIB, 0);
	s.scatter = true;
	v = step_volumes(&s, &part);
	assert_near((double)v.boundary, 28 * MIB, 0);
	assert_near(v.of[BB_TRAFFIC_PIPELINE].sent, 7 * GIB, 0);
	/* What is not sent between stages is gathered by the tensor ranks. */
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, (756 + 21) * GIB, 0);
}

/* The ends: embedding and head, the loss, and the gradient of what both share. */
static void test_ends(void **state)
{
	const struct step s = bloom();
	const struct bb_need first = {.layers = 6};
	const struct bb_need last = {.layers = 6, .stage = 11};
	const struct bb_hybrid_volumes a = step_volumes(&s, &first);
	const struct bb_hybrid_volumes b = step_volumes(&s, &last);

	assert_near(a.of[BB_TRAFFIC_TENSOR].sent, 504 * GIB + 128 * 1.5 * 112 * MIB, 0);
	/* Three all-reduces of 4 bytes a token: 24,576 bytes of a sequence of 2048. */
	assert_near(b.of[BB_TRAFFIC_TENSOR].sent,
		    504 * GIB + 128 * 1.5 * 112 * MIB + 128 * 1.5 * 2 * 24576, 0);
	assert_near(a.of[BB_TRAFFIC_PIPELINE].sent, 14 * GIB, 0);
	assert_near(a.of[BB_TRAFFIC_EMBEDDING].sent, 250880. * 14336 / 4 * 2, 0);
	assert_int_equal(a.of[BB_TRAFFIC_EMBEDDING].calls, 1);
}

/* GPT-3, t = 8: A of 48 MiB, 336 MiB a layer; sequence parallelism gathers once more for each of
   two matrices. */
static void test_tensor_volumes(void **state)
{
	struct step s = {.grid = {8, 4, 1, 1, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 8},
			 .seq = 2048,
			 .hidden = 12288,
			 .micro_batch = 1,
			 .micro_batches = 1,
			 .recipe = {&bb_precisions[0], &bb_optimizers[0]}};
	const struct bb_need part = {.layers = 1, .stage = 1};
	struct bb_hybrid_volumes v = step_volumes(&s, &part);

	assert_near((double)v.activation, 48 * MIB, 0);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, 336 * MIB, 0);
	s.sequence_parallel = true;
	v = step_volumes(&s, &part);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, (336 + 2 * 42) * MIB, 0);
	assert_int_equal(v.of[BB_TRAFFIC_TENSOR].calls, 4 * 2 + 2);
	assert_near((double)v.boundary, 6 * MIB, 0);
	/* With experts half of that is of the rows that two of them get of each token. */
	s.routes = 2;
	v = step_volumes(&s, &(struct bb_need){.layers = 1, .sparse = 1, .stage = 1});
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, (5 + 2 * 5) * 42 * MIB, 0);
}

/* Four all-to-alls of tokens x experts of each x width: Mixtral 64 MiB, of which 7 of 8 leave. */
static void test_expert_volumes(void **state)
{
	struct step s = {.grid = {1, 1, 8, 8, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 1},
			 .seq = 4096,
			 .hidden = 4096,
			 .routes = 2,
			 .micro_batch = 1,
			 .micro_batches = 1,
			 .recipe = {&bb_precisions[0], &bb_optimizers[0]}};
	const struct bb_need part = {.layers = 1, .sparse = 1, .elements = 800, .experts = 600};
	const struct bb_hybrid_volumes v = step_volumes(&s, &part);

	assert_near(v.of[BB_TRAFFIC_EXPERT].sent, 4 * 56 * MIB, 0);
	assert_int_equal(v.of[BB_TRAFFIC_EXPERT].calls, 4);
	/* No two ranks hold the same experts: what is left is reduced among eight. */
	assert_near(v.of[BB_TRAFFIC_DATA].sent, 2 * 7. / 8 * 200 * 2, 0);
}

/* DeepSeek-V3 on 1024 GPUs: tp 2, 64 replicas and 64 groups of one rank that divide the experts, so
   that two ranks hold the same. A rank sends the rows of its half of the tokens, and the halves of
   an expert are not gathered. */
static void test_folded_experts(void **state)
{
	struct step s = {.grid = {2, 8, 64, 32, .order = BB_GRID_TP_DP_PP, .etp = 1, .cp = 1},
			 .seq = 4096,
			 .hidden = 7168,
			 .routes = 8,
			 .sequence_parallel = true,
			 .micro_batch = 1,
			 .micro_batches = 1,
			 .zero = 1,
			 .recipe = {&bb_precisions[0], &bb_optimizers[0]}};
	const struct bb_need part = {
		.layers = 1, .sparse = 1, .elements = 800, .experts = 800, .stage = 1};
	const double a = 2. * 4096 * 7168;
	struct bb_hybrid_volumes v = step_volumes(&s, &part);

	assert_near(v.of[BB_TRAFFIC_EXPERT].sent, 4 * 8 * a / 2 * 63 / 64, 0);
	assert_int_equal(v.of[BB_TRAFFIC_EXPERT].rounds, 4);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, 5 * a / 2, 0);
	assert_near(v.of[BB_TRAFFIC_DATA].sent, 2 * 800 * 2 / 2, 0);
	/* Of both halves of an expert both ranks need the rows. */
	s.grid.etp = 2;
	v = step_volumes(&s, &part);
	assert_near(v.of[BB_TRAFFIC_EXPERT].sent, 4 * 8 * a / 2 * 31 / 32, 0);
	assert_near(v.of[BB_TRAFFIC_TENSOR].sent, 5 * a / 2 + 5 * 8 * a / 2, 0);
}

/* Llama 3 8B, four ranks of a sequence of 8192 tokens: queries and output of 4096 numbers, keys and
   values of 1024 each. */
static void test_context_volumes(void **state)
{
	struct step s = {.grid = {1, 1, 4, 1, .order = BB_GRID_TP_PP_DP, .cp = 4, .etp = 1},
			 .seq = 2048,
			 .hidden = 4096,
			 .queries = 4096,
			 .keys = 1024,
			 .micro_batch = 1,
			 .micro_batches = 1,
			 .recipe = {&bb_precisions[0], &bb_optimizers[0]}};
	const struct bb_need part = {.layers = 1, .stage = 1};
	struct bb_hybrid_volumes v = step_volumes(&s, &part);

	assert_near(v.of[BB_TRAFFIC_CONTEXT].sent, 3 * 3 * 2. * 2048 * 2048, 0);
	s.exchanges = true;
	v = step_volumes(&s, &part);
	assert_near(v.of[BB_TRAFFIC_CONTEXT].sent, 2 * 3. / 4 * 2 * 2048 * (2 * 4096 + 2 * 1024),
		    0);
	assert_int_equal(v.of[BB_TRAFFIC_CONTEXT].calls, 8);
}

/* ---- plans ---------------------------------------------------------------------------------- */

struct planned {
	struct bb_model model;
	struct bb_model_layout layout;
	struct bb_hybrid_cluster cluster;
	struct bb_hybrid_space space;
	struct bb_hybrid_plan plan;
};

static void plan(struct planned *p, const char *model, int ranks, uint64_t memory)
{
	struct bb_error error = {.text = ""};

	memset(p, 0, sizeof(*p));
	assert_int_equal(bb_model_open(&p->model, model, 0, &error), BB_OK);
	assert_int_equal(bb_model_layout_make(&p->layout, &p->model, 0, &error), BB_OK);
	p->cluster = (struct bb_hybrid_cluster){.ranks = ranks,
						.node = 8,
						.inside = {300e9, 3e-6},
						.between = {12.5e9, 5e-6},
						.flops = 150e12,
						.memory = memory};
	p->space = (struct bb_hybrid_space){
		.grid = {.ep = 1},
		.batch = 2048,
		.recompute = BB_ANY,
		.zero = 1,
		.base.training = {.model = &p->model,
				  .layout = &p->layout,
				  .recipe = {&bb_precisions[0], &bb_optimizers[0]},
				  .trainable = 1,
				  .eager = true,
				  .chunks = 1},
	};
	assert_int_equal(bb_hybrid_plan_make(&p->plan, &p->cluster, &p->space, &error), BB_OK);
}

static void drop(struct planned *p)
{
	free(p->plan.list);
	bb_model_layout_free(&p->layout);
	bb_model_free(&p->model);
}

/* Every way is counted once; all that are listed use all ranks, fit, and stand in order. */
static void assert_plan(const struct planned *p)
{
	const struct bb_hybrid_plan *plan = &p->plan;
	size_t sum = plan->n;

	for (int i = 0; i < BB_MISFITS; i++)
		sum += plan->misfits[i];
	assert_int_equal(sum, plan->tried);
	for (size_t i = 0; i < plan->n; i++) {
		const struct bb_hybrid_division *division = &plan->list[i];
		double step =
			division->cost.of[BB_TERM_COMPUTE] + division->cost.of[BB_TERM_BUBBLE];

		for (int k = 0; k < BB_TRAFFICS; k++)
			step += division->cost.of[k];
		assert_near(division->cost.step, step, 1e-9);
		assert_int_equal(bb_grid_ranks(&division->grid), p->cluster.ranks);
		assert_int_equal(p->model.hyper.heads % division->grid.tp, 0);
		assert_true(division->need.total <= p->cluster.memory);
		assert_int_equal(division->training.micro_batch * division->training.micro_batches *
					 (uint64_t)division->grid.dp,
				 p->space.batch);
		assert_true(i == 0 || plan->list[i - 1].cost.step <= division->cost.step);
	}
}

static void test_bloom_plan(void **state)
{
	struct planned p;
	bool found = false;

	plan(&p, "bloom-176b", 384, UINT64_C(80000000000));
	assert_plan(&p);
	assert_true(p.plan.n > 4);
	for (size_t i = 0; i < p.plan.n; i++) {
		const struct bb_grid *g = &p.plan.list[i].grid;

		found |= g->tp == 4 && g->pp == 12 && g->dp == 8;
		/* A tensor group that leaves its node never pays. */
		assert_true(i > 0 || !p.plan.list[i].crosses[BB_TRAFFIC_TENSOR]);
	}
	assert_true(found);
	drop(&p);
}

/* The first three of 61 layers have no experts: stages with as many layers differ. A plan needs as
   much memory as model_memory finds. */
static void test_memory_of_stages(void **state)
{
	static const struct {
		const char *name;
		enum bb_pipelining schedule;
		uint64_t stage; /* that needs most: gpipe keeps the logits of all micro-batches */
	} rows[] = {{"1f1b", BB_1F1B, 2}, {"gpipe", BB_GPIPE, 31}};
	struct bb_error error = {.text = ""};
	struct planned p;

	plan(&p, "deepseek-v3", 1, 1);
	p.model.hyper.seq = 4096;
	p.cluster.ranks = 2048;
	p.cluster.memory = UINT64_MAX;
	p.space.grid = (struct bb_grid){8, 32, 8, 8, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 8};
	p.space.micro_batch = 1;
	p.space.recompute = BB_RECOMPUTE_NONE;
	p.space.base.training.eager = false;
	for (int i = 0; i < 2; i++) {
		struct bb_training t;
		struct bb_need most;

		p.space.base.schedule = bb_pipeline_find(rows[i].name);
		free(p.plan.list);
		assert_int_equal(bb_hybrid_plan_make(&p.plan, &p.cluster, &p.space, &error), BB_OK);
		assert_int_equal(p.plan.n, 1);
		t = p.plan.list[0].training;
		t.schedule = rows[i].schedule;
		most = bb_training_most(&t);
		assert_int_equal(most.stage, rows[i].stage);
		assert_int_equal(p.plan.list[0].need.stage, rows[i].stage);
		assert_true(p.plan.list[0].need.total == most.total);
	}
	drop(&p);
}

/* By hand: a step that is all computation and the bubble of two stages, at the rate of a run. */
static void test_rate_of_a_run(void **state)
{
	struct planned p;
	struct bb_hybrid_division division;
	double rate;

	plan(&p, "gpt2:layers=4,hidden=64,heads=4,vocab=1,seq=16,tied=0", 2,
	     UINT64_C(800000000000));
	p.cluster.inside = p.cluster.between = (struct bb_cluster_link){INFINITY, 0};
	division = (struct bb_hybrid_division){
		.grid = {1, 2, 1, 1, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 1},
		.training = p.space.base.training};
	division.training.pp = 2;
	division.training.dp = division.training.tp = division.training.ep =
		division.training.micro_batch = 1;
	division.training.micro_batches = 4;
	rate = bb_hybrid_division_rate(&division, &p.cluster, 1e12);
	/* (m + 1) / m of what the slower stage computes, the head's 6 s h being with it; held
	   against the mean of both. */
	assert_near(rate / 1e12,
		    5. / 4 * (2 * 3 * (24 * 64 + 4 * 16) + 6) / (2 * 3 * (24 * 64 + 4 * 16) + 3),
		    1e-9);
	/* Messages that take longer than all: no rate is fast enough. */
	p.cluster.inside.latency = 1;
	assert_near(bb_hybrid_division_rate(&division, &p.cluster, 1e12), 0, 0);
	drop(&p);
}

/* Too large for any: nothing is listed, and the nearest is too large. */
static void test_nothing_fits(void **state)
{
	struct planned p;

	plan(&p, "bloom-176b", 8, UINT64_C(80000000000));
	assert_plan(&p);
	assert_int_equal(p.plan.n, 0);
	assert_true(p.plan.nearest.need.total > p.cluster.memory);
	drop(&p);
}

/* One rank sends nothing and waits for nobody: its step is its computations, 6 P of a token but for
   attention. */
static void test_one_rank(void **state)
{
	struct planned p;
	const struct bb_hybrid_division *division;

	plan(&p, "gpt2", 1, UINT64_C(800000000000));
	assert_plan(&p);
	assert_int_equal(p.plan.n, 1);
	division = &p.plan.list[0];
	assert_near(division->cost.step, 2048 * (p.model.forward + p.model.backward) / 150e12,
		    1e-9);
	drop(&p);
}

/* By hand: two stages, tp 2, links alike; every term of the step. */
static void test_step_by_hand(void **state)
{
	struct planned p;
	struct bb_hybrid_division division;
	const double s = 16, h = 64, a = 2 * s * h, rate = 1e9, latency = 1e-6;
	const char *model = "gpt2:layers=2,hidden=64,heads=4,vocab=128,seq=16,tied=0";
	double tensor, busy;

	plan(&p, model, 4, UINT64_C(800000000000));
	p.cluster.inside = p.cluster.between = (struct bb_cluster_link){rate, latency};
	p.cluster.flops = 1e9;
	division = (struct bb_hybrid_division){
		.grid = {2, 2, 1, 1, .order = BB_GRID_TP_PP_DP, .cp = 1, .etp = 2},
		.training = p.space.base.training};
	division.training.tp = division.training.pp = 2;
	division.training.dp = division.training.ep = division.training.micro_batch = 1;
	division.training.micro_batches = 4;
	bb_hybrid_division_cost(&division, &p.cluster, NULL, INFINITY);
	/* Of two ranks an all-reduce of S takes 2 rounds and sends S. The last stage has a layer's
	   four, one of the head, three of the loss. */
	tensor = 4 * (5 * (2 * latency + a / rate) + 3 * (2 * latency + 4 * s / rate));
	/* 3 (s h (24 h + 4 s) + 2 s h V), shared by two. */
	busy = 4 * 3 * (s * h * (24 * h + 4 * s) + 2 * s * h * 128) / 2 / 1e9;
	assert_near(division.cost.of[BB_TRAFFIC_TENSOR], tensor, 1e-12);
	assert_near(division.cost.of[BB_TERM_COMPUTE], busy, 1e-12);
	assert_near(division.cost.of[BB_TERM_BUBBLE], (busy + tensor) / 4, 1e-12);
	/* 2 (p-1) (m/p + 1) - 2 messages are waited for. */
	assert_near(division.cost.of[BB_TRAFFIC_PIPELINE], 4 * (latency + a / rate), 1e-12);
	assert_near(division.cost.of[BB_TRAFFIC_DATA], 0, 0);
	drop(&p);
}

/* The core of attention is that of any layer, and what its products take by hand. */
static void test_attention_flops(void **state)
{
	static const char *const models[] = {"gpt2", "llama3.1-70b", "mixtral-8x7b", "deepseek-v3"};
	struct bb_error error = {0};
	struct bb_model_layout layout;
	struct bb_model model;

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		assert_int_equal(bb_model_open(&model, models[i], 0, &error), BB_OK);
		const struct bb_hyper *h = &model.hyper;
		const double wanted = 2.0 * (double)(h->seq * h->seq) *
				      (double)(h->heads * (h->head_dim + h->value_dim));
		double second = 0;

		for (size_t j = 0; j < model.nworks; j++)
			if (model.works[j].layer == 1 && model.works[j].core != BB_CORE_NONE)
				second += model.works[j].forward;
		assert_true(second == wanted);
		assert_int_equal(bb_model_layout_make(&layout, &model, 0, &error), BB_OK);
		for (int j = 1; j <= model.blocks; j++) {
			const struct bb_layers_work *const w = &layout.works[j];

			assert_float_equal(w[1].core - w[0].core, wanted, 1e-9 * wanted);
			assert_float_equal(w[1].flash - w[0].flash, wanted / 2, 1e-9 * wanted);
		}
		bb_model_layout_free(&layout);
		bb_model_free(&model);
	}
	/* An encoder masks nothing; a decoder masks half of its own scores, and none across. */
	assert_int_equal(bb_model_open(&model, "t5-small", 0, &error), BB_OK);
	assert_int_equal(bb_model_layout_make(&layout, &model, 0, &error), BB_OK);
	const struct bb_hyper *h = &model.hyper;
	const double one =
		2.0 * (double)(h->seq * h->seq) * (double)(h->heads * (h->head_dim + h->value_dim));
	assert_float_equal(layout.works[model.blocks + 1].core - layout.works[1].core,
			   (6 + 2 * 6) * one, 1e-9 * one);
	assert_float_equal(layout.works[model.blocks + 1].flash - layout.works[1].flash,
			   (6 + 1.5 * 6) * one, 1e-9 * one);
	bb_model_layout_free(&layout);
	bb_model_free(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),           cmocka_unit_test(test_crossing),
		cmocka_unit_test(test_bloom_layout),     cmocka_unit_test(test_deepspeed_layout),
		cmocka_unit_test(test_expert_layout),    cmocka_unit_test(test_stages),
		cmocka_unit_test(test_bloom_volumes),    cmocka_unit_test(test_ends),
		cmocka_unit_test(test_tensor_volumes),   cmocka_unit_test(test_expert_volumes),
		cmocka_unit_test(test_folded_experts),   cmocka_unit_test(test_context_volumes),
		cmocka_unit_test(test_bloom_plan),       cmocka_unit_test(test_rate_of_a_run),
		cmocka_unit_test(test_memory_of_stages), cmocka_unit_test(test_nothing_fits),
		cmocka_unit_test(test_one_rank),         cmocka_unit_test(test_step_by_hand),
		cmocka_unit_test(test_attention_flops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
