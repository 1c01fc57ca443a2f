/*
 * Steps of hybrid parallelism as programs: they keep the rules, do what the plan's formulas count,
 * and take in virtual time what follows by hand.
 */
#include "hybrid_steps.h"
#include "training_kernels/hybrid/plan.h"
#include "training_kernels/hybrid/program.h"
#include "simulator/timeline/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void assert_near(double got, double wanted, double within)
{
	if (!(fabs(got - wanted) <= within))
		fail_msg("%.6g, not %.6g", got, wanted);
}

#define LAYERS 7
#define M 5

static const uint64_t gradients[] = {100, 90, 80, 70}, experts[] = {60, 50, 40, 30};
static const struct bb_model every_second = {.hyper = {.experts = 12, .moe_every = 2}};

/* A way of dividing a step: micro-batches of 12 tokens of 8 elements; of experts there are twelve,
   and a token goes through two. */
struct divided {
	struct bb_grid grid;
	bool sequence_parallel, experts, alternates; /* every second layer has experts */
	int zero;
	bool recomputes;
	uint64_t shared; /* of the embedding, by a rank */
};

struct opened {
	struct bb_taped taped;
	struct bb_hybrid_program own;
};

static void open_program(struct opened *opened, struct bb_moe_load *load, const struct divided *d,
			 unsigned parts)
{
	const int tp = d->grid.tp;
	const struct bb_moe_form form = {.nranks = d->grid.ep,
					 .experts = 12,
					 .top_k = 2,
					 .tokens = d->sequence_parallel ? 12 / tp : 12};
	const struct bb_hybrid_shape shape = {.grid = d->grid,
					      .layers = LAYERS,
					      .micro_batches = M,
					      .layer = {2e-3, 4e-3, 0},
					      .dense_layer = {1e-3, 2e-3, 0},
					      .model = d->alternates ? &every_second : NULL,
					      .head = {1e-3, 2e-3, 0},
					      .activation = 96,
					      .tokens = 12,
					      .shared = d->shared,
					      .recomputes = d->recomputes,
					      .sequence_parallel = d->sequence_parallel && tp > 1,
					      .zero = d->zero,
					      .load = d->experts ? load : NULL,
					      .hidden = 8,
					      .gradients = gradients,
					      .experts = d->experts ? experts : NULL,
					      .dtype = BB_BFLOAT16,
					      .gradient_dtype = BB_FLOAT,
					      .parts = parts};
	struct bb_error error = {.text = ""};

	assert_int_equal(bb_moe_load_make(load, &form, &error), BB_OK);
	assert_int_equal(bb_hybrid_write(&opened->taped, &opened->own, &shape, NULL, &error),
			 BB_OK);
}

static const unsigned parts[] = {BB_HYBRID_STEP,     BB_HYBRID_COMPUTE, BB_HYBRID_TENSOR,
				 BB_HYBRID_PIPELINE, BB_HYBRID_DATA,    BB_HYBRID_EXPERT,
				 BB_HYBRID_EMBEDDING};

static void assert_program(const struct divided *d)
{
	const struct bb_grid *g = &d->grid;
	struct bb_error error = {.text = ""};
	struct bb_moe_load load;
	struct opened opened;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		open_program(&opened, &load, d, parts[i]);
		if (bb_program_check(&opened.taped.program, &error) != BB_OK)
			fail_msg("tp %d pp %d dp %d ep %d%s zero %d: %s", g->tp, g->pp, g->dp,
				 g->ep, d->sequence_parallel ? " sp" : "", d->zero, error.text);
		bb_taped_free(&opened.taped);
		bb_moe_load_free(&load);
	}
}

/* Whole steps and their parts keep the rules, with experts (EP 0: none) and without, and however
   tokens and states are divided. */
static void test_programs(void **state)
{
	for (int order = 0; order < 2; order++)
		for (int tp = 1; tp <= 3; tp++)
			for (int pp = 1; pp <= 4; pp += 1 + (tp > 1))
				for (int dp = 1; dp <= 4; dp++)
					for (int ep = 0; ep <= dp; ep++) {
						const bool sp = (tp + pp + ep) % 2;
						const struct divided d = {
							{tp, pp, dp, ep ? ep : 1,
							 .order = (enum bb_grid_order)order},
							sp,
							ep > 0,
							tp == 2,
							(dp + order) % 2,
							(dp + tp) % 2,
							pp % 3 ? 50 : 0};

						if (ep == 0 || dp % ep == 0)
							assert_program(&d);
					}
}

/* Of RANK: how often it calls or sends, and what it sends by rings, where of n ranks and S bytes an
   all-reduce sends 2 (n-1) / n S, and others as much for each part as that has others. */
static void assert_counted(const struct bb_program *program, int rank, enum bb_hybrid_work work,
			   uint64_t calls, double sent)
{
	uint64_t counted = 0;
	double bytes = 0;

	for (size_t i = 0; i < program->length(program, rank); i++) {
		const struct bb_operation o = bb_program_at(program, rank, i);
		const double size = (double)bb_operation_bytes(&o);

		if (o.work != (int)work || (o.act != BB_ACT_COLLECTIVE && o.act != BB_ACT_SEND))
			continue;
		counted++;
		if (o.act == BB_ACT_SEND) {
			bytes += size;
		} else {
			const int n = program->group_size(program, o.group);

			bytes += o.collective == &bb_all_reduce ? 2 * size * (n - 1) / n
								: size * (n - 1);
		}
	}
	assert_int_equal(counted, calls);
	assert_near(bytes, sent, 1e-6);
}

/* Layers of STAGE that have experts. */
static uint64_t count_sparse(const struct divided *d, int stage)
{
	const uint64_t pp = (uint64_t)d->grid.pp;
	uint64_t sparse = 0;

	for (uint64_t i = bb_layers_before(LAYERS, pp, (uint64_t)stage);
	     d->experts && i < bb_layers_before(LAYERS, pp, (uint64_t)stage + 1); i++)
		sparse += !d->alternates || i % 2 == 1;
	return sparse;
}

/* What a program does is what the formulas count. */
static void assert_counts(const struct divided *d)
{
	const struct bb_grid *g = &d->grid;
	const struct step s = {
		.grid = {g->tp, g->pp, g->dp, g->ep, g->order, .cp = 1, .etp = g->tp},
		.seq = 12,
		.hidden = 8,
		.routes = d->experts ? 2 : 0,
		.micro_batch = 1,
		.micro_batches = M,
		.recipe = {&bb_precisions[1], &bb_optimizers[0]},
		.zero = d->zero,
		.embedding = d->shared * (uint64_t)g->tp,
		.sequence_parallel = d->sequence_parallel,
		.recomputes = d->recomputes};
	struct opened opened;
	struct bb_moe_load load;

	open_program(&opened, &load, d, BB_HYBRID_STEP);
	for (int rank = 0; rank < bb_grid_ranks(g); rank++) {
		const int stage = bb_grid_place(g, BB_AXIS_PP, rank);
		const struct bb_need part = {
			.layers = bb_layers_before(LAYERS, (uint64_t)g->pp, (uint64_t)stage + 1) -
				  bb_layers_before(LAYERS, (uint64_t)g->pp, (uint64_t)stage),
			.sparse = count_sparse(d, stage),
			.elements = gradients[stage] + (d->experts ? experts[stage] : 0),
			.stage = (uint64_t)stage,
			.experts = d->experts ? experts[stage] : 0};
		const struct bb_hybrid_volumes v = step_volumes(&s, &part);
		const struct bb_volume *of = v.of;

		assert_counted(&opened.taped.program, rank, BB_HYBRID_TENSOR,
			       of[BB_TRAFFIC_TENSOR].calls, of[BB_TRAFFIC_TENSOR].sent);
		assert_counted(&opened.taped.program, rank, BB_HYBRID_PIPELINE,
			       of[BB_TRAFFIC_PIPELINE].calls, of[BB_TRAFFIC_PIPELINE].sent);
		assert_counted(&opened.taped.program, rank, BB_HYBRID_EMBEDDING,
			       of[BB_TRAFFIC_EMBEDDING].calls, of[BB_TRAFFIC_EMBEDDING].sent);
		assert_counted(&opened.taped.program, rank, BB_HYBRID_DATA,
			       of[BB_TRAFFIC_DATA].calls, of[BB_TRAFFIC_DATA].sent);
		/* An all-to-all is a message to each of the others. */
		assert_counted(&opened.taped.program, rank, BB_HYBRID_EXPERT,
			       of[BB_TRAFFIC_EXPERT].calls * (uint64_t)(g->ep - 1),
			       of[BB_TRAFFIC_EXPERT].sent);
	}
	bb_taped_free(&opened.taped);
	bb_moe_load_free(&load);
}

static void test_counts(void **state)
{
	/* Numbers of elements that the replicas divide, for those are rounded up. */
	static const struct divided divisions[] = {
		{{2, 4, 2, 1, .order = BB_GRID_TP_PP_DP}, false, false, false, 0, false, 50},
		{{2, 4, 2, 1, .order = BB_GRID_TP_DP_PP}, true, false, false, 1, true, 50},
		{{3, 2, 2, 2, .order = BB_GRID_TP_PP_DP}, true, true, false, 0, false, 0},
		{{1, 3, 10, 2, .order = BB_GRID_TP_PP_DP}, false, true, false, 1, true, 10},
		{{2, 1, 4, 4, .order = BB_GRID_TP_PP_DP}, true, true, false, 1, true, 50},
		{{2, 2, 2, 1, .order = BB_GRID_TP_PP_DP}, true, true, false, 1, false, 0},
		{{2, 2, 2, 2, .order = BB_GRID_TP_PP_DP}, true, true, true, 1, true, 0},
		{{1, 3, 10, 2, .order = BB_GRID_TP_PP_DP}, false, true, true, 1, false, 10},
	};

	for (size_t i = 0; i < sizeof(divisions) / sizeof(divisions[0]); i++)
		assert_counts(&divisions[i]);
}

/*
 * Two stages of three layers, by hand. The first one has less to do: once its first forward pass is
 * done, the second is never without work, and in the end there is the first one's last backward
 * pass. Both take a message more. Over links of a latency alone an all-reduce of two ranks takes
 * two of it, a gather, a scatter or an exchange of rows one.
 */
static void assert_step(const struct bb_hybrid_shape *shape, double latency, double layer_forward,
			double layer_backward, double ends, double last)
{
	const struct bb_link_model links = {.latency = latency};
	const double f = shape->layer.forward_s + layer_forward * latency;
	const double b =
		shape->layer.backward_s + layer_backward * latency + (shape->recomputes ? f : 0);
	const double head = shape->head.forward_s + shape->head.backward_s + ends * latency;
	/* An all-reduce of what is looked up, or its scatter, and a gather backward. */
	const double embedding = 2 * latency;
	struct bb_error error = {.text = ""};
	struct opened opened;
	double end;

	assert_int_equal(bb_hybrid_write(&opened.taped, &opened.own, shape, "ring", &error), BB_OK);
	assert_int_equal(bb_timeline_program(&links, &opened.taped.program, NULL, &end, &error),
			 BB_OK);
	assert_near(end,
		    embedding + 3 * f + latency + 4 * (3 * (f + b) + head) + latency + 3 * b +
			    last * latency,
		    1e-9);
	bb_taped_free(&opened.taped);
}

static void test_step_in_virtual_time(void **state)
{
	static const uint64_t alike[] = {0x1000, 0x1000};
	const struct bb_moe_form form = {.nranks = 2, .experts = 4, .top_k = 2, .tokens = 4};
	struct bb_hybrid_shape shape = {.grid = {2, 2, 2, 1, .order = BB_GRID_TP_PP_DP},
					.layers = 6,
					.micro_batches = 4,
					.layer = {2e-3, 4e-3, 0},
					.head = {1e-3, 2e-3, 0},
					.activation = 64,
					.tokens = 8,
					.shared = 64,
					.gradients = alike,
					.dtype = BB_BFLOAT16,
					.gradient_dtype = BB_FLOAT,
					.parts = BB_HYBRID_STEP};
	struct bb_error error = {.text = ""};
	struct bb_moe_load load;

	assert_step(&shape, 0, 0, 0, 0, 0);
	/* Of a layer two all-reduces each way, of the head one and three for the loss, in the end
	   one of the embedding and one of the gradients. */
	assert_step(&shape, 1e-4, 4, 4, 8, 4);
	shape.recomputes = true;
	assert_step(&shape, 1e-4, 4, 4, 8, 4);
	/* Sequence parallelism: 4 and 6 of a round each, and 2 for the head; two exchanges of rows
	   each way; of ZeRO a reduce-scatter and an all-gather. */
	assert_int_equal(bb_moe_load_make(&load, &form, &error), BB_OK);
	shape.sequence_parallel = true;
	shape.zero = 1;
	shape.grid.ep = 2;
	shape.load = &load;
	shape.hidden = 8;
	assert_step(&shape, 1e-4, 4 + 2, 6 + 2, 2 + 6, 4);
	bb_moe_load_free(&load);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_step_in_virtual_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
