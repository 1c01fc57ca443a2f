/*
 * hybrid.c - the benchmark of hybrid-parallel training.
 */
#include "training_kernels/hybrid.h"

#include "core/units.h"
#include "training_kernels/hybrid_program.h"

#include <stdlib.h>

static void list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published runs (--preset):\n");
	for (const struct bb_hybrid_preset *p = bb_hybrid_presets; p->name; p++)
		bb_strbuf_addf(out, "    %-14s %s\n", p->name, p->source);
	bb_model_list(out);
}

/* ---- what is run ------------------------------------------------------------------------------
 */

/* What of ASKED is not said is 2 where that divides what is LEFT of the ranks. */
static int choose(int64_t asked, int64_t *left)
{
	const int64_t n = asked ? asked : *left % 2 == 0 ? 2 : 1;

	*left = *left % n == 0 ? *left / n : 0;
	return (int)n;
}

static bb_status settle_grid(struct bb_run *run, struct bb_grid *grid)
{
	const struct bb_hybrid *h = run->own;
	const struct bb_hybrid_options *a = &h->asked;
	const struct {
		const char *word;
		int64_t n;
	} asked[] = {{"dp", a->dp}, {"tp", a->tp}, {"pp", a->pp}};
	struct bb_strbuf given = {0};
	int64_t left = run->world.nranks;

	*grid = (struct bb_grid){.ep = 1, .order = (enum bb_grid_order)a->order};
	if (a->dp)
		grid->dp = choose(a->dp, &left);
	grid->tp = choose(a->tp, &left);
	grid->pp = choose(a->pp, &left);
	if (!a->dp) {
		grid->dp = (int)left;
		left = left > 0;
	}
	if (left == 1)
		return BB_OK;
	for (int i = 0; i < 3; i++)
		if (asked[i].n)
			bb_strbuf_addf(&given, "%s--%s %lld", given.length ? ", " : "",
				       asked[i].word, (long long)asked[i].n);
	bb_fail(&run->error, BB_EUSAGE,
		"%s: cannot divide the %d ranks; give numbers whose product divides them, and is "
		"as many if all three are given",
		bb_strbuf_text(&given), run->world.nranks);
	bb_strbuf_free(&given);
	return BB_EUSAGE;
}

/* The time of a layer and micro-batch: FLOPs at --flops, or --pass-time shared out. */
static void time_layer(const struct bb_hybrid *h, struct bb_hybrid_shape *shape)
{
	const struct bb_hybrid_options *a = &h->asked;
	const struct bb_model *m = &h->model;
	double forward = 0, backward = 0, scale;

	for (size_t i = 0; i < m->nworks; i++)
		if (m->works[i].layer == 0) {
			forward += m->works[i].forward;
			backward += m->works[i].input + m->works[i].weights;
		}
	scale = (double)a->micro_batch / h->grid.tp;
	shape->flops = (forward + backward) * scale;
	scale = a->flops > 0
			? scale / a->flops
			: 1e-9 * (double)a->pass_ns * h->grid.pp / m->blocks / (forward + backward);
	shape->forward_s = forward * scale;
	shape->backward_s = backward * scale;
}

bb_status bb_hybrid_shape_of(const struct bb_hybrid *h, struct bb_hybrid_shape *shape,
			     uint64_t *gradients, struct bb_error *error)
{
	const struct bb_hybrid_options *a = &h->asked;
	const struct bb_precision *precision = &bb_precisions[a->precision];
	const struct bb_grid *g = &h->grid;
	const int64_t replica = a->batch_given ? a->batch / g->dp : 2 * g->pp * a->micro_batch;
	struct bb_model_layout layout = {.before = NULL};
	struct bb_training t = {.model = &h->model,
				.layout = &layout,
				.recipe = {precision, &bb_optimizers[0]},
				.trainable = 1,
				.dp = (uint64_t)g->dp,
				.tp = (uint64_t)g->tp,
				.pp = (uint64_t)g->pp,
				.ep = 1,
				.chunks = 1,
				.micro_batch = 1,
				.micro_batches = 1};
	bb_status status;

	if (a->batch_given && (a->batch % g->dp || replica % a->micro_batch))
		return bb_fail(error, BB_EUSAGE,
			       "--batch %lld: cannot be divided into micro-batches of %lld for %d "
			       "replicas",
			       (long long)a->batch, (long long)a->micro_batch, g->dp);
	BB_TRY(status, bb_model_layout_make(&layout, &h->model, 0, error), out);
	BB_TRY(status, bb_training_check(&t, error), out);
	for (int stage = 0; stage < g->pp; stage++)
		gradients[stage] = bb_training_stage(&t, (uint64_t)stage).elements;
	*shape = (struct bb_hybrid_shape){
		.grid = *g,
		.layers = h->model.blocks,
		.micro_batches = (int)(replica / a->micro_batch),
		.activation = (size_t)(h->model.hyper.seq * a->micro_batch * h->model.hyper.hidden),
		.gradients = gradients,
		.dtype = precision->parameter == 2 ? BB_BFLOAT16 : BB_FLOAT,
		.gradient_dtype = precision->gradient == 2 ? BB_BFLOAT16 : BB_FLOAT,
	};
	time_layer(h, shape);
out:
	bb_model_layout_free(&layout);
	return status;
}

/* Is there room for the data of all ranks? */
static bb_status check_room(struct bb_run *run, const struct bb_hybrid_shape *shape)
{
	const struct bb_hybrid *h = run->own;
	uint64_t most = 0, all;
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];

	for (int stage = 0; stage < shape->grid.pp; stage++)
		most = shape->gradients[stage] > most ? shape->gradients[stage] : most;
	all = (most * bb_dtype_size(shape->gradient_dtype) +
	       5 * shape->activation * bb_dtype_size(shape->dtype)) *
	      (uint64_t)run->world.nlocal;
	if (run->options.backend->capabilities & BB_CAP_VIRTUAL || all <= run->memory)
		return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED,
		       "--model %s: its gradients and activations take %s on %d ranks, there is "
		       "room for %s; take a smaller one, --plan or --backend sim",
		       h->model.name, bb_format_size(need, all), run->world.nlocal,
		       bb_format_size(have, run->memory));
}

static bb_status plan(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;
	struct bb_hybrid_shape shape;
	uint64_t *gradients = NULL;
	bb_status status = settle_grid(run, &h->grid);

	if (status != BB_OK)
		return status;
	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = h->asked.algo_text;
	gradients = calloc((size_t)h->grid.pp, sizeof(*gradients));
	if (!gradients)
		return bb_fail(&run->error, BB_EINTERNAL, "out of memory for the stages");
	status = bb_hybrid_shape_of(h, &shape, gradients, &run->error);
	if (status == BB_OK)
		status = check_room(run, &shape);
	free(gradients);
	return status;
}

static void close_hybrid(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;

	bb_model_free(&h->model);
}

const struct bb_benchmark bb_hybrid_benchmark = {
	.brief = "Hybrid-parallel training: how to divide a model, and what each part of a step "
		 "costs.",
	.own_bytes = sizeof(struct bb_hybrid),
	.options = bb_hybrid_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.queues = true,
	.check = bb_hybrid_check,
	.list = list,
	.show = bb_hybrid_show,
	.open_text = bb_hybrid_text_open,
	.rows = &bb_record_hybrid,
	.plan = plan,
	.drive = bb_hybrid_drive,
	.close = close_hybrid,
};
