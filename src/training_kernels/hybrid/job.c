/*
 * job.c - the step that is run, derived from the options.
 */
#include "simulator/cluster.h"
#include "training_kernels/hybrid/hybrid.h"

#include <limits.h>
#include <stdlib.h>

static enum bb_attention attention_of(const struct bb_hybrid *h)
{
	return (enum bb_attention)h->options.attention;
}

/* FLOPs that a rank recomputes in the backward pass of a layer by selective recomputation. */
static double again_of(const struct bb_hybrid *h)
{
	return h->options.recompute == BB_RECOMPUTE_SELECTIVE
		       ? bb_attention_core(&h->model, 0, attention_of(h)) *
				 (double)h->options.micro_batch / h->grid.tp
		       : 0;
}

/* Computations of a rank for a micro-batch in layers FIRST to LAST; seconds are FLOPs at this
   point. */
static struct bb_hybrid_time layers_time(const struct bb_hybrid *h, int first, int last)
{
	const struct bb_model *m = &h->model;
	const double share = (double)h->options.micro_batch / h->grid.tp;
	struct bb_hybrid_time t = {.flops = 0};

	for (size_t i = 0; i < m->nworks; i++)
		if (m->works[i].layer >= first && m->works[i].layer <= last) {
			const struct bb_work w = bb_attention_work(&m->works[i], attention_of(h));

			t.forward_s += share * w.forward;
			t.backward_s += share * (w.input + w.weights);
		}
	if (first >= 0 && first < m->blocks)
		t.backward_s += again_of(h);
	t.flops = t.forward_s + t.backward_s;
	return t;
}

static void to_seconds(struct bb_hybrid_time *t, double flops_per_second)
{
	t->forward_s /= flops_per_second;
	t->backward_s /= flops_per_second;
}

/* The first block of MODEL that has experts, or has none; SPARSE: which of both. Blocks of a model
   without such a one are all alike. */
static int block_of_kind(const struct bb_model *model, bool sparse)
{
	int block = 0;

	while (block < model->blocks && bb_model_block(model, block).sparse != sparse)
		block++;
	return block < model->blocks ? block : 0;
}

/* Marks blocks that have no experts; returns their number. */
static int mark_dense(const struct bb_model *model, bool *is_dense)
{
	int n = 0;

	for (int i = 0; i < model->blocks; i++) {
		is_dense[i] = !bb_model_block(model, i).sparse;
		n += is_dense[i];
	}
	return n;
}

/* Times at --flops, or such that the layers of a stage take --pass-time without recomputation. */
static void time_work(const struct bb_hybrid *h, struct bb_hybrid_job *job)
{
	const struct bb_hybrid_options *a = &h->options;
	const struct bb_model *m = &h->model;
	struct bb_hybrid_shape *s = &job->shape;
	const int dense = mark_dense(m, job->is_dense);
	const int expert_block = block_of_kind(m, true), dense_block = block_of_kind(m, false);

	s->embedding = layers_time(h, BB_LAYER_BEFORE, BB_LAYER_BEFORE);
	s->layer = layers_time(h, expert_block, expert_block);
	s->dense_layer = layers_time(h, dense_block, dense_block);
	s->head = layers_time(h, m->blocks, INT_MAX);
	job->flops = a->flops;
	if (a->flops <= 0)
		job->flops = (s->layer.flops * (m->blocks - dense) + s->dense_layer.flops * dense -
			      again_of(h) * m->blocks) /
			     h->grid.pp / (1e-9 * (double)a->pass_ns);
	to_seconds(&s->embedding, job->flops);
	to_seconds(&s->layer, job->flops);
	to_seconds(&s->dense_layer, job->flops);
	to_seconds(&s->head, job->flops);
}

/* A step that is run recomputes only on request. */
static enum bb_recompute recompute_of(const struct bb_hybrid_options *a)
{
	return a->recompute > BB_RECOMPUTE_FULL ? BB_RECOMPUTE_NONE
						: (enum bb_recompute)a->recompute;
}

/* The division of the model, as far as the data of a rank depends on it. */
static struct bb_training training_of(const struct bb_hybrid *h,
				      const struct bb_model_layout *layout)
{
	const struct bb_hybrid_options *a = &h->options;
	const struct bb_grid *g = &h->grid;

	return (struct bb_training){
		.model = &h->model,
		.layout = layout,
		.recipe = {&bb_precisions[a->precision], &bb_optimizers[0]},
		.trainable = 1,
		.zero = (int)a->zero,
		.dp = (uint64_t)g->dp,
		.tp = (uint64_t)g->tp,
		.pp = (uint64_t)g->pp,
		.ep = (uint64_t)g->ep,
		.sequence_parallel = a->sequence_parallel,
		.eager = attention_of(h) == BB_ATTENTION_EAGER,
		.recompute = recompute_of(a),
		.chunks = 1,
		.micro_batch = (uint64_t)a->micro_batch,
	};
}

/* Elements of a rank of each stage. */
static void count_elements(struct bb_hybrid_job *job, const struct bb_training *t)
{
	job->shared = t->layout->embedding / t->tp;
	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_need need = bb_training_stage(t, stage);

		job->gradients[stage] = need.elements - need.experts;
		job->experts[stage] = need.experts;
	}
}

void bb_hybrid_cluster_set(struct bb_hybrid_cluster *cluster, const struct bb_cluster *c)
{
	cluster->node = c->gpus * c->domain;
	cluster->inside = (struct bb_hybrid_link){c->gpu_rate, c->figures[BB_FIGURE_GPU_LATENCY]};
	cluster->between = (struct bb_hybrid_link){c->nic_rate / (c->rails ? c->rail_gpus[0] : 1),
						   c->figures[BB_FIGURE_NET_LATENCY]};
}

/* The cost by the formula of --plan, with the same links and rate; without nodes, all ranks are on
   one. */
static void plan_step(struct bb_hybrid_job *job, const struct bb_hybrid *h,
		      const struct bb_training *t, const struct bb_options *options)
{
	const struct bb_hybrid_link link = {options->config.link_rate,
					    options->config.link_latency};
	const struct bb_cluster *c = options->virtual.cluster;
	struct bb_hybrid_cluster cluster = {.ranks = bb_grid_ranks(&h->grid),
					    .node = bb_grid_ranks(&h->grid),
					    .inside = link,
					    .between = link,
					    .flops = job->flops};
	struct bb_hybrid_division division = {.grid = h->grid, .training = *t};

	if (c)
		bb_hybrid_cluster_set(&cluster, c);
	if (cluster.inside.rate <= 0)
		return;
	bb_hybrid_division_cost(&division, &cluster);
	job->plan = division.cost;
}

static bb_status share_tokens(struct bb_hybrid_job *job, const struct bb_hybrid *h,
			      struct bb_error *error)
{
	const struct bb_hyper *m = &h->model.hyper;
	const struct bb_moe_form form = {
		.nranks = h->grid.ep,
		.experts = (int)m->experts,
		.top_k = (int)m->top_k,
		.tokens = m->seq * h->options.micro_batch /
			  (h->options.sequence_parallel ? h->grid.tp : 1),
	};

	return m->experts ? bb_moe_load_make(&job->load, &form, error) : BB_OK;
}

static struct bb_hybrid_shape job_shape(const struct bb_hybrid_job *job, const struct bb_hybrid *h,
					int64_t micro_batches)
{
	const struct bb_hybrid_options *a = &h->options;
	const struct bb_precision *precision = &bb_precisions[a->precision];
	const struct bb_hyper *m = &h->model.hyper;

	return (struct bb_hybrid_shape){
		.grid = h->grid,
		.layers = h->model.blocks,
		.micro_batches = (int)micro_batches,
		.activation = (size_t)(m->seq * a->micro_batch * m->hidden),
		.tokens = (size_t)(m->seq * a->micro_batch),
		.shared = (size_t)job->shared,
		.recomputes = a->recompute == BB_RECOMPUTE_FULL,
		.sequence_parallel = a->sequence_parallel,
		.zero = (int)a->zero,
		.load = m->experts ? &job->load : NULL,
		.is_dense = m->experts ? job->is_dense : NULL,
		.hidden = (size_t)m->hidden,
		.gradients = job->gradients,
		.experts = m->experts ? job->experts : NULL,
		.dtype = precision->parameter == 2 ? BB_BFLOAT16 : BB_FLOAT,
		.gradient_dtype = precision->gradient == 2 ? BB_BFLOAT16 : BB_FLOAT,
	};
}

bb_status bb_hybrid_job_open(struct bb_hybrid_job *job, const struct bb_hybrid *h,
			     const struct bb_options *options, struct bb_error *error)
{
	const struct bb_hybrid_options *a = &h->options;
	const struct bb_grid *g = &h->grid;
	const int64_t replica = a->batch_given ? a->batch / g->dp : 2 * g->pp * a->micro_batch;
	struct bb_model_layout layout = {.before = NULL};
	struct bb_training t = training_of(h, &layout);
	bb_status status;

	*job = (struct bb_hybrid_job){
		.gradients = calloc((size_t)g->pp, sizeof(*job->gradients)),
		.experts = calloc((size_t)g->pp, sizeof(*job->experts)),
		.is_dense = calloc((size_t)h->model.blocks + 1, sizeof(*job->is_dense)),
	};
	if (!job->gradients || !job->experts || !job->is_dense)
		return bb_no_memory(error, "the stages");
	if (a->batch_given && (a->batch % g->dp || replica % a->micro_batch))
		return bb_fail(
			error, BB_EUSAGE,
			"--batch %lld: not a multiple of %d replicas x micro-batches of %lld; give "
			"one",
			(long long)a->batch, g->dp, (long long)a->micro_batch);
	t.micro_batches = (uint64_t)(replica / a->micro_batch);
	BB_TRY(status, bb_model_layout_make(&layout, &h->model, 0, error), out);
	BB_TRY(status, bb_training_check(&t, error), out);
	BB_TRY(status, share_tokens(job, h, error), out);
	count_elements(job, &t);
	job->training = t;
	job->training.layout = NULL;
	job->shape = job_shape(job, h, (int64_t)t.micro_batches);
	time_work(h, job);
	plan_step(job, h, &t, options);
out:
	bb_model_layout_free(&layout);
	return status;
}

void bb_hybrid_job_close(struct bb_hybrid_job *job)
{
	bb_moe_load_free(&job->load);
	free(job->gradients);
	free(job->experts);
	free(job->is_dense);
}
