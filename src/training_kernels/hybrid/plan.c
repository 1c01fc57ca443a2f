#include "training_kernels/hybrid/plan.h"

#include "core/array.h"
#include "training_kernels/hybrid/memory_time.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_misfit_reasons[BB_MISFITS] = {
	[BB_MISFIT_HEADS] = "tp does not divide the heads",
	[BB_MISFIT_LAYERS] = "more stages than layers",
	[BB_MISFIT_BATCH] = "dp and micro-batch do not divide the batch",
	[BB_MISFIT_OTHER] = "conflict with ZeRO, experts or sequence parallelism",
	[BB_MISFIT_MEMORY] = "does not fit into memory",
};

const char *const bb_overlap_words[] = {"none", "data", "all", NULL};

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

static uint64_t context_of(const struct bb_hybrid_division *division)
{
	return division->cp > 1 ? (uint64_t)division->cp : 1;
}

double bb_attention_flops(const struct bb_model *m)
{
	const struct bb_hyper *h = &m->hyper;

	return 4.0 * (double)(h->seq * h->seq) * (double)(h->heads * h->head_dim);
}

/* FLOPs of a rank of STAGE for one micro-batch, with recomputation. FlashAttention skips the masked
   half of causal attention, and its backward pass repeats the product of queries and keys. */
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
		sum += bb_attention_flops(m) * (end - begin) * (!t->eager && !m->encoder ? 0.5 : 1);
	if (!t->eager)
		sum += bb_attention_flops(m) * (end - begin) *
		       (m->encoder ? 0.5 : 0.25 - 0.5 * (3 + again));
	return sum * (double)t->micro_batch / (double)t->tp;
}

static struct bb_hybrid_step step_of(const struct bb_hybrid_division *division, bool scatter)
{
	const struct bb_training *t = &division->training;
	const struct bb_hyper *h = &t->model->hyper;

	return (struct bb_hybrid_step){
		.grid = division->grid,
		.seq = (uint64_t)h->seq / context_of(division),
		.hidden = (uint64_t)h->hidden,
		.cp = context_of(division),
		.keys = (uint64_t)h->head_dim * bb_partition((uint64_t)h->kv_heads, t->tp),
		.chunks = t->chunks,
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

/* The grid in which the ranks that divide a sequence are those that divide experts: consecutive
   members of the data-parallel axis. */
static struct bb_grid context_grid(const struct bb_hybrid_division *division)
{
	struct bb_grid grid = division->grid;

	grid.ep = (int)context_of(division);
	return grid;
}

static enum bb_axis traffic_axis(int traffic)
{
	static const enum bb_axis axes[BB_TRAFFICS] = {
		[BB_TRAFFIC_TENSOR] = BB_AXIS_TP,  [BB_TRAFFIC_EXPERT] = BB_AXIS_EP,
		[BB_TRAFFIC_CONTEXT] = BB_AXIS_EP, [BB_TRAFFIC_PIPELINE] = BB_AXIS_PP,
		[BB_TRAFFIC_DATA] = BB_AXIS_DP,    [BB_TRAFFIC_EMBEDDING] = BB_AXIS_PP,
	};

	return axes[traffic];
}

static void find_crossings(struct bb_hybrid_division *division, int node)
{
	const struct bb_grid context = context_grid(division);

	for (int i = 0; i < BB_TRAFFICS; i++)
		division->crosses[i] =
			bb_grid_crossing(i == BB_TRAFFIC_CONTEXT ? &context : &division->grid,
					 traffic_axis(i), node) > 0;
}

/* The link of the ring of TRAFFIC. */
static struct bb_hybrid_link ring_link(const struct bb_hybrid_division *division,
				       const struct bb_hybrid_cluster *c, int traffic)
{
	struct bb_hybrid_link link = division->crosses[traffic] ? c->between : c->inside;
	const struct bb_grid *g = &division->grid;
	const enum bb_axis axis = traffic_axis(traffic);
	int members = 1;

	if (!c->rails || !division->crosses[traffic] || traffic_axis(traffic) == BB_AXIS_PP ||
	    bb_grid_size(g, axis) == 1)
		return link;
	while (members < bb_grid_size(g, axis) && bb_grid_member(g, axis, 0, members) < c->node)
		members++;
	link.rate *= members;
	if (link.rate > c->inside.rate)
		link.rate = c->inside.rate;
	return link;
}

static double seconds_of(const struct bb_volume *v, const struct bb_hybrid_link *link)
{
	return (double)v->rounds * link->latency + v->sent / link->rate;
}

/* Shortens EACH traffic of a stage by what runs beside its computations, of BUSY seconds. */
static void hide_traffic(const struct bb_hybrid_division *division,
			 const struct bb_hybrid_cluster *cluster, const struct bb_hybrid_part *part,
			 double busy, double each[BB_TRAFFICS])
{
	const struct bb_training *t = &division->training;
	const double m = (double)t->micro_batches, cp = (double)context_of(division);
	const double beside = t->zero > 1 ? busy : busy / m;
	const double least = each[BB_TRAFFIC_DATA] /
			     (double)(part->layers * (t->zero > 1 ? t->micro_batches : 1));
	const double attention = 1.5 * bb_attention_flops(t->model) * m *
				 (double)(part->layers * t->micro_batch) / (double)t->tp / cp /
				 cluster->flops;

	if (division->overlap >= BB_OVERLAP_DATA)
		each[BB_TRAFFIC_DATA] = fmax(each[BB_TRAFFIC_DATA] - beside, least);
	if (division->overlap < BB_OVERLAP_ALL)
		return;
	each[BB_TRAFFIC_TENSOR] /= (double)t->tp;
	each[BB_TRAFFIC_CONTEXT] = fmax(each[BB_TRAFFIC_CONTEXT] - attention, 0);
}

/* Exposed messages between stages. */
static double message_seconds(const struct bb_hybrid_division *division,
			      const struct bb_hybrid_cluster *cluster)
{
	const struct bb_training *t = &division->training;
	const double m = (double)t->micro_batches, p = (double)t->pp;
	const struct bb_hybrid_link hop = ring_link(division, cluster, BB_TRAFFIC_PIPELINE);
	const double hops = division->overlap == BB_OVERLAP_ALL
				    ? 2 * (p - 1)
				    : (double)t->chunks * (2 * (p - 1) * (m / p + 1) - 2);

	return t->pp == 1 ? 0 : hops * (hop.latency + (double)division->volume.boundary / hop.rate);
}

/* The cost of DIVISION, whose crossings are known. */
static void find_cost(struct bb_hybrid_division *division, const struct bb_hybrid_cluster *cluster,
		      bool scatter)
{
	const struct bb_training *t = &division->training;
	const struct bb_hybrid_step step = step_of(division, scatter);
	const double m = (double)t->micro_batches, p = (double)t->pp;
	struct bb_hybrid_link links[BB_TRAFFICS];
	struct bb_hybrid_cost *cost = &division->cost;
	double slowest = -1, data = 0, embedding = 0, optimizer = 0;
	uint64_t before = 0;

	for (int i = 0; i < BB_TRAFFICS; i++)
		links[i] = ring_link(division, cluster, i);
	for (uint64_t stage = 0; stage < t->pp; stage++) {
		const struct bb_hybrid_part part = stage_part(t, stage);

		/* Stages between the first and the last with as many layers are alike. */
		if (stage > 1 && !part.last && part.layers == before)
			continue;
		before = part.layers;
		const struct bb_hybrid_volumes v = bb_hybrid_volumes_of(&step, &part);
		const struct bb_memory_bytes moved = bb_memory_bytes_of(t, &part, step.cp);
		const double local =
			cluster->memory_rate > 0 ? m * moved.pass / cluster->memory_rate : 0;
		const double update =
			cluster->memory_rate > 0 ? moved.step / cluster->memory_rate : 0;
		const double compute =
			local + m * stage_flops(t, stage) / (double)step.cp / cluster->flops;
		double each[BB_TRAFFICS], busy;

		for (int i = 0; i < BB_TRAFFICS; i++)
			each[i] = seconds_of(&v.of[i], &links[i]);
		hide_traffic(division, cluster, &part, compute, each);
		busy = compute + each[BB_TRAFFIC_TENSOR] + each[BB_TRAFFIC_EXPERT] +
		       each[BB_TRAFFIC_CONTEXT];
		data = fmax(data, each[BB_TRAFFIC_DATA]);
		embedding = fmax(embedding, each[BB_TRAFFIC_EMBEDDING]);
		optimizer = fmax(optimizer, update);
		if (busy <= slowest)
			continue;
		slowest = busy;
		division->volume = v;
		cost->compute = compute;
		cost->local = local;
		cost->traffic[BB_TRAFFIC_TENSOR] = each[BB_TRAFFIC_TENSOR];
		cost->traffic[BB_TRAFFIC_EXPERT] = each[BB_TRAFFIC_EXPERT];
		cost->traffic[BB_TRAFFIC_CONTEXT] = each[BB_TRAFFIC_CONTEXT];
	}
	cost->compute += optimizer;
	cost->local += optimizer;
	cost->traffic[BB_TRAFFIC_DATA] = data;
	cost->traffic[BB_TRAFFIC_EMBEDDING] = embedding;
	cost->traffic[BB_TRAFFIC_PIPELINE] = message_seconds(division, cluster);
	cost->bubble = (p - 1) / (m * (double)t->chunks) * slowest;
	cost->step = cost->compute + cost->bubble;
	for (int i = 0; i < BB_TRAFFICS; i++)
		cost->step += cost->traffic[i];
}

void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster, bool scatter)
{
	find_crossings(division, cluster->node);
	find_cost(division, cluster, scatter);
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

/* The memory of STAGE. Where embedding and head are layers, virtual stages have up to one layer
   more than an equal share of the stage's, which bb_training_stage rounds down. */
static struct bb_need stage_memory(const struct bb_training *t, uint64_t stage)
{
	const uint64_t layers = stage_part(t, stage).layers;
	const uint64_t more = bb_partition(layers, t->chunks) - layers / t->chunks;
	struct bb_need need = bb_training_stage(t, stage);
	struct bb_layer layer =
		bb_layer_of_model(t->model, t->micro_batch, t->recipe.precision->parameter);
	uint64_t bytes;

	layer.tp = t->tp;
	layer.sequence_parallel = t->sequence_parallel;
	layer.eager = t->eager;
	bytes = bb_bytes_times(bb_layer_kept(&layer, t->recompute), more * need.chunks);
	need.bytes[BB_NEED_ACTIVATIONS] = bb_bytes_add(need.bytes[BB_NEED_ACTIVATIONS], bytes);
	need.total = bb_bytes_add(need.total, bytes);
	return need;
}

/* The memory of the stage that needs most. FlashAttention keeps nothing that grows with the square
   of a sequence, so that a part of one is a shorter sequence. */
static struct bb_need most_memory(const struct bb_hybrid_division *division)
{
	struct bb_training t = division->training;
	struct bb_model part = *t.model;
	struct bb_need most = {.total = 0}, need;

	part.hyper.seq /= (int64_t)context_of(division);
	t.model = &part;
	for (uint64_t stage = 0; stage < t.pp; stage++) {
		need = stage_memory(&t, stage);
		if (stage == 0 || need.total > most.total)
			most = need;
	}
	return most;
}

/* Tries DIVISION with all micro-batches. BEST is the fastest so far that fits, LEAST the one that
   needs least memory. */
static void try_micro_batches(const struct search *s, struct bb_hybrid_division division,
			      struct bb_hybrid_division *best, struct bb_hybrid_division *least)
{
	const uint64_t only = s->space->micro_batch;
	const uint64_t replica = s->space->batch / (division.training.dp / context_of(&division));
	const uint64_t last = only ? only : replica;

	for (uint64_t b = only ? only : 1; b <= last; b++) {
		if (replica % b ||
		    (division.training.chunks > 1 && replica / b % division.training.pp))
			continue;
		division.training.micro_batch = b;
		division.training.micro_batches = replica / b;
		division.need = most_memory(&division);
		if (least->need.total == 0 || division.need.total < least->need.total)
			*least = division;
		if (division.need.total > s->cluster->memory)
			break;
		find_cost(&division, s->cluster, s->space->scatter);
		keep_better(best, &division);
	}
}

/* Whether virtual stages have equal numbers of layers, with embedding and head as layers or not. */
static bool chunks_fit(const struct bb_training *t)
{
	const uint64_t layers = (uint64_t)t->model->blocks, stages = t->pp * t->chunks;

	return t->chunks == 1 ||
	       (t->pp > 1 && (layers % stages == 0 || (layers + 2) % stages == 0));
}

static enum bb_hybrid_misfit division_misfit(const struct search *s,
					     const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const uint64_t cp = context_of(division), replicas = t->dp / cp;
	struct bb_training checked = *t;
	struct bb_error reason = {.text = ""};

	if (t->model->hyper.heads % division->grid.tp)
		return BB_MISFIT_HEADS;
	if (division->grid.pp > t->model->blocks)
		return BB_MISFIT_LAYERS;
	if (s->space->batch % replicas ||
	    (s->space->micro_batch && s->space->batch / replicas % s->space->micro_batch))
		return BB_MISFIT_BATCH;
	if (!chunks_fit(t) ||
	    (cp > 1 && (t->eager || (uint64_t)t->model->hyper.seq % (2 * cp * t->tp))))
		return BB_MISFIT_OTHER;
	/* It wants whole layers in each chunk, where embedding and head may be layers too. */
	checked.chunks = 1;
	checked.schedule = BB_1F1B;
	return bb_training_check(&checked, &reason) == BB_OK ? BB_MISFITS : BB_MISFIT_OTHER;
}

static bb_status division_keep(struct search *s, const struct bb_hybrid_division *division)
{
	struct bb_hybrid_division *added = BB_ARRAY_ADD(s->plan->list, s->plan->n, s->room);

	if (!added)
		return bb_no_memory(s->error, "the plan");
	*added = *division;
	return BB_OK;
}

/* What has come of the settings of one (dp, tp, pp). */
struct attempt {
	struct bb_hybrid_division best, least; /* fastest that fits; with least memory */
	enum bb_hybrid_misfit misfit; /* of the last setting that cannot be; BB_MISFITS: none */
	bool tried;
};

/* Tries DIVISION, whose settings but recomputation and micro-batch are chosen. */
static void try_setting(const struct search *s, struct bb_hybrid_division division,
			struct attempt *attempt)
{
	const int only = s->space->recompute;
	struct bb_training *t = &division.training;
	enum bb_hybrid_misfit misfit;

	t->schedule = t->chunks > 1 ? BB_INTERLEAVED : BB_1F1B;
	t->micro_batch = t->micro_batches = 1;
	misfit = division_misfit(s, &division);
	if (misfit != BB_MISFITS) {
		attempt->misfit = misfit;
		return;
	}
	attempt->tried = true;
	find_crossings(&division, s->cluster->node);
	for (int r = only < 0 ? 0 : only; r <= (only < 0 ? BB_RECOMPUTE_FULL : only); r++) {
		t->recompute = (enum bb_recompute)r;
		try_micro_batches(s, division, &attempt->best, &attempt->least);
	}
}

/* Tries DIVISION with all virtual stages, with and without sequence parallelism, and with all
   stages of ZeRO, as far as the space leaves them open. */
static void try_states(const struct search *s, struct bb_hybrid_division division,
		       struct attempt *attempt)
{
	const struct bb_hybrid_space *space = s->space;
	const struct bb_training *base = &space->base;
	struct bb_training *t = &division.training;
	const uint64_t layers = (uint64_t)base->model->blocks + 2;
	const uint64_t given = space->chunks > 1 ? space->chunks : 1;
	const uint64_t most = !space->any.chunks ? given : t->pp > 1 ? layers / t->pp : 1;

	for (t->chunks = space->any.chunks ? 1 : given; t->chunks <= (most ? most : 1);
	     t->chunks++) {
		if (space->any.chunks && !chunks_fit(t))
			continue;
		for (int parallel = 0; parallel <= (division.grid.tp > 1); parallel++) {
			t->sequence_parallel = parallel;
			if (!space->any.sequence_parallel && division.grid.tp > 1 &&
			    t->sequence_parallel != base->sequence_parallel)
				continue;
			for (t->zero = 0; t->zero < BB_ZERO_STAGES; t->zero++)
				if (space->any.zero || t->zero == base->zero)
					try_setting(s, division, attempt);
		}
	}
}

static bb_status try_grid(struct search *s, const struct bb_grid *grid)
{
	const struct bb_hybrid_space *space = s->space;
	const int given = space->cp > 1 ? space->cp : 1;
	struct bb_hybrid_division division = {
		.grid = *grid, .overlap = space->overlap, .training = space->base};
	struct attempt attempt = {.misfit = BB_MISFITS};
	struct bb_hybrid_plan *plan = s->plan;
	struct bb_training *t = &division.training;
	bool possible = false;

	t->tp = (uint64_t)grid->tp;
	t->pp = (uint64_t)grid->pp;
	t->dp = (uint64_t)grid->dp;
	t->ep = (uint64_t)grid->ep;
	for (division.cp = 1; division.cp <= grid->dp; division.cp++) {
		if (grid->dp % division.cp || (!space->any.cp && division.cp != given) ||
		    (space->grid.dp && grid->dp != space->grid.dp * division.cp))
			continue;
		possible = true;
		try_states(s, division, &attempt);
	}
	if (!possible)
		return BB_OK;
	plan->tried++;
	if (attempt.best.cost.step > 0)
		return division_keep(s, &attempt.best);
	plan->misfits[attempt.tried ? BB_MISFIT_MEMORY : attempt.misfit]++;
	if (attempt.tried &&
	    (plan->nearest.need.total == 0 || attempt.least.need.total < plan->nearest.need.total))
		plan->nearest = attempt.least;
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
			    (fixed->pp && pp != fixed->pp) || (fixed->dp && grid.dp % fixed->dp))
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
