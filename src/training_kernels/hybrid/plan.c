#include "training_kernels/hybrid/plan.h"

#include "core/array.h"

#include <stdlib.h>

#define MOST_MICRO_BATCH 64

const char *const bb_misfit_reasons[BB_MISFITS] = {
	[BB_MISFIT_HEADS] = "tp does not divide the heads",
	[BB_MISFIT_LAYERS] = "more stages than layers",
	[BB_MISFIT_BATCH] = "dp and micro-batch do not divide the batch",
	[BB_MISFIT_OTHER] = "conflict with ZeRO, experts or sequence parallelism",
	[BB_MISFIT_MEMORY] = "does not fit into memory",
};

/* ---- stages ---------------------------------------------------------------------------------- */

static struct bb_hybrid_part stage_part(const struct bb_training *t, uint64_t stage)
{
	const struct bb_need need = bb_training_stage(t, stage);
	const uint64_t layers = (uint64_t)t->model->blocks;

	return (struct bb_hybrid_part){
		.layers = bb_layers_before(layers, t->pp, stage + 1) -
			  bb_layers_before(layers, t->pp, stage),
		.first = stage == 0,
		.last = stage == t->pp - 1,
		.elements = need.elements,
		.experts = need.experts,
	};
}

double bb_attention_flops(const struct bb_model *m)
{
	const struct bb_hyper *h = &m->hyper;

	return 4.0 * (double)(h->seq * h->seq) * (double)(h->heads * h->head_dim);
}

/* FLOPs of a rank of STAGE for one micro-batch, with recomputation. */
static double stage_flops(const struct bb_training *t, uint64_t stage)
{
	const struct bb_model *m = t->model;
	const int begin = (int)bb_layers_before((uint64_t)m->blocks, t->pp, stage);
	const int end = (int)bb_layers_before((uint64_t)m->blocks, t->pp, stage + 1);
	const double again = t->recompute == BB_RECOMPUTE_FULL ? 1 : 0;
	double sum = 0;

	for (size_t i = 0; i < m->nworks; i++) {
		const struct bb_work *w = &m->works[i];
		const bool before = w->layer < 0, behind = w->layer >= m->blocks;

		if (before   ? stage == 0
		    : behind ? stage == t->pp - 1
			     : w->layer >= begin && w->layer < end)
			sum += w->forward * (before || behind ? 1 : 1 + again) + w->input +
			       w->weights;
	}
	if (t->recompute == BB_RECOMPUTE_SELECTIVE)
		sum += bb_attention_flops(m) * (end - begin);
	return sum * (double)t->micro_batch / (double)t->tp;
}

static struct bb_hybrid_step step_of(const struct bb_hybrid_division *division, bool scatter)
{
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;

	return (struct bb_hybrid_step){
		.grid = division->grid,
		.seq = (uint64_t)h->seq,
		.hidden = (uint64_t)h->hidden,
		.routes = (uint64_t)h->top_k,
		.micro_batch = t->micro_batch,
		.micro_batches = t->micro_batches,
		.embedding = t->layout->embedding,
		.recipe = t->recipe,
		.zero = t->zero,
		.sequence_parallel = t->sequence_parallel,
		.scatter = scatter && division->grid.tp > 1,
		.recomputes = t->recompute == BB_RECOMPUTE_FULL,
	};
}

/* ---- cost ------------------------------------------------------------------------------------ */

static void find_crossings(struct bb_hybrid_division *division, int node)
{
	static const enum bb_axis axes[BB_TRAFFICS] = {
		[BB_TRAFFIC_TENSOR] = BB_AXIS_TP,    [BB_TRAFFIC_EXPERT] = BB_AXIS_EP,
		[BB_TRAFFIC_PIPELINE] = BB_AXIS_PP,  [BB_TRAFFIC_DATA] = BB_AXIS_DP,
		[BB_TRAFFIC_EMBEDDING] = BB_AXIS_PP,
	};

	for (int i = 0; i < BB_TRAFFICS; i++)
		division->crosses[i] = bb_grid_crossing(&division->grid, axes[i], node) > 0;
}

static double seconds_of(const struct bb_volume *v, const struct bb_hybrid_link *link)
{
	return (double)v->rounds * link->latency + v->sent / link->rate;
}

void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster, bool scatter)
{
	const struct bb_training *t = &division->training;
	const struct bb_hybrid_step step = step_of(division, scatter);
	const double m = (double)t->micro_batches, p = (double)t->pp;
	const struct bb_hybrid_link *hop;
	struct bb_hybrid_cost *cost = &division->cost;
	double slowest = -1, data = 0, embedding = 0;

	find_crossings(division, cluster->node);
	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_hybrid_part part = stage_part(t, stage);
		const struct bb_hybrid_volumes v = bb_hybrid_volumes_of(&step, &part);
		const double compute = m * stage_flops(t, stage) / cluster->flops;
		double each[BB_TRAFFICS], busy;

		for (int i = 0; i < BB_TRAFFICS; i++)
			each[i] = seconds_of(&v.of[i], division->crosses[i] ? &cluster->between
									    : &cluster->inside);
		busy = compute + each[BB_TRAFFIC_TENSOR] + each[BB_TRAFFIC_EXPERT];
		data = each[BB_TRAFFIC_DATA] > data ? each[BB_TRAFFIC_DATA] : data;
		if (each[BB_TRAFFIC_EMBEDDING] > embedding)
			embedding = each[BB_TRAFFIC_EMBEDDING];
		if (busy <= slowest)
			continue;
		slowest = busy;
		division->volume = v;
		cost->compute = compute;
		cost->traffic[BB_TRAFFIC_TENSOR] = each[BB_TRAFFIC_TENSOR];
		cost->traffic[BB_TRAFFIC_EXPERT] = each[BB_TRAFFIC_EXPERT];
	}
	hop = division->crosses[BB_TRAFFIC_PIPELINE] ? &cluster->between : &cluster->inside;
	cost->traffic[BB_TRAFFIC_DATA] = data;
	cost->traffic[BB_TRAFFIC_EMBEDDING] = embedding;
	cost->traffic[BB_TRAFFIC_PIPELINE] =
		t->pp == 1 ? 0
			   : (2 * (p - 1) * (m / p + 1) - 2) *
				     (hop->latency + (double)division->volume.boundary / hop->rate);
	cost->bubble = (p - 1) / m * slowest;
	cost->step = cost->compute + cost->bubble;
	for (int i = 0; i < BB_TRAFFICS; i++)
		cost->step += cost->traffic[i];
}

double bb_hybrid_division_rate(struct bb_hybrid_division *division,
			       const struct bb_hybrid_cluster *cluster, bool scatter, double run)
{
	const struct bb_training *t = &division->training;
	struct bb_hybrid_cluster trial = *cluster;
	double low = run, high = 1e6 * run, stages = 0, step;

	for (uint64_t stage = 0; stage < t->pp; stage++)
		stages += stage_flops(t, stage);
	step = stages * (double)t->micro_batches / (double)t->pp / run;
	/* The step gets shorter with faster computations, so bisection finds the rate. */
	while (high - low > 1e-12 * high) {
		trial.flops = (low + high) / 2;
		bb_hybrid_division_cost(division, &trial, scatter);
		*(division->cost.step > step ? &low : &high) = trial.flops;
	}
	return high < 1e6 * run ? high : 0;
}

/* ---- all divisions
 * ---------------------------------------------------------------------------------
 */

struct search {
	struct bb_hybrid_plan *plan;
	const struct bb_hybrid_cluster *cluster;
	const struct bb_hybrid_space *space;
	struct bb_error *error;
	size_t room;
};

/* Copies DIVISION to BEST if it is faster, or BEST is none (step 0). */
static void keep_better(struct bb_hybrid_division *best, const struct bb_hybrid_division *division)
{
	if (best->cost.step == 0 || division->cost.step < best->cost.step)
		*best = *division;
}

/* Tries DIVISION with all micro-batches. BEST is the fastest so far that fits, LEAST the one that
   needs least memory. */
static void try_micro_batches(const struct search *s, struct bb_hybrid_division division,
			      struct bb_hybrid_division *best, struct bb_hybrid_division *least)
{
	const uint64_t only = s->space->micro_batch;
	const uint64_t replica = s->space->batch / division.training.dp;
	const uint64_t last = only ? only : MOST_MICRO_BATCH;

	for (uint64_t b = only ? only : 1; b <= last && replica % b == 0; b *= 2) {
		division.training.micro_batch = b;
		division.training.micro_batches = replica / b;
		division.need = bb_training_most(&division.training);
		if (least->need.total == 0 || division.need.total < least->need.total)
			*least = division;
		if (division.need.total > s->cluster->memory)
			break;
		bb_hybrid_division_cost(&division, s->cluster, s->space->scatter);
		keep_better(best, &division);
	}
}

static enum bb_hybrid_misfit division_misfit(const struct search *s,
					     const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	struct bb_error reason = {.text = ""};

	if (t->model->hyper.heads % division->grid.tp)
		return BB_MISFIT_HEADS;
	if (division->grid.pp > t->model->blocks)
		return BB_MISFIT_LAYERS;
	if (s->space->batch % t->dp ||
	    (s->space->micro_batch && s->space->batch / t->dp % s->space->micro_batch))
		return BB_MISFIT_BATCH;
	return bb_training_check(t, &reason) == BB_OK ? BB_MISFITS : BB_MISFIT_OTHER;
}

static bb_status division_keep(struct search *s, const struct bb_hybrid_division *division)
{
	struct bb_hybrid_division *added = BB_ARRAY_ADD(s->plan->list, s->plan->n, s->room);

	if (!added)
		return bb_no_memory(s->error, "the plan");
	*added = *division;
	return BB_OK;
}

static bb_status try_grid(struct search *s, const struct bb_grid *grid)
{
	const int only = s->space->recompute;
	struct bb_hybrid_division division = {.grid = *grid, .training = s->space->base};
	struct bb_hybrid_division best = {.cost.step = 0}, least = {.need.total = 0};
	struct bb_hybrid_plan *plan = s->plan;
	struct bb_training *t = &division.training;
	enum bb_hybrid_misfit misfit;

	t->tp = (uint64_t)grid->tp;
	t->pp = (uint64_t)grid->pp;
	t->dp = (uint64_t)grid->dp;
	t->ep = (uint64_t)grid->ep;
	t->sequence_parallel = s->space->base.sequence_parallel && grid->tp > 1;
	t->micro_batch = t->micro_batches = 1;
	plan->tried++;
	misfit = division_misfit(s, &division);
	if (misfit != BB_MISFITS) {
		plan->misfits[misfit]++;
		return BB_OK;
	}
	for (int r = only < 0 ? 0 : only; r <= (only < 0 ? BB_RECOMPUTE_FULL : only); r++) {
		t->recompute = (enum bb_recompute)r;
		try_micro_batches(s, division, &best, &least);
	}
	if (best.cost.step > 0)
		return division_keep(s, &best);
	plan->misfits[BB_MISFIT_MEMORY]++;
	if (plan->nearest.need.total == 0 || least.need.total < plan->nearest.need.total)
		plan->nearest = least;
	return BB_OK;
}

static int division_compare(const void *a, const void *b)
{
	const double x = ((const struct bb_hybrid_division *)a)->cost.step;
	const double y = ((const struct bb_hybrid_division *)b)->cost.step;

	return (x > y) - (x < y);
}

bb_status bb_hybrid_plan_make(struct bb_hybrid_plan *plan, const struct bb_hybrid_cluster *cluster,
			      const struct bb_hybrid_space *space, struct bb_error *error)
{
	struct search s = {plan, cluster, space, error, 0};
	const struct bb_grid *fixed = &space->grid;
	bb_status status = BB_OK;

	*plan = (struct bb_hybrid_plan){.list = NULL};
	for (int tp = 1; tp <= cluster->ranks; tp++)
		for (int pp = 1; cluster->ranks % tp == 0 && pp <= cluster->ranks / tp; pp++) {
			const struct bb_grid grid = {tp, pp, cluster->ranks / tp / pp, fixed->ep,
						     fixed->order};

			if (cluster->ranks / tp % pp || (fixed->tp && tp != fixed->tp) ||
			    (fixed->pp && pp != fixed->pp) || (fixed->dp && grid.dp != fixed->dp))
				continue;
			BB_TRY(status, try_grid(&s, &grid), out);
		}
	if (plan->n > 0)
		qsort(plan->list, plan->n, sizeof(*plan->list), division_compare);
out:
	return status;
}

void bb_hybrid_plan_free(struct bb_hybrid_plan *plan)
{
	free(plan->list);
	*plan = (struct bb_hybrid_plan){.list = NULL};
}
