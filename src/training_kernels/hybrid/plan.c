#include "training_kernels/hybrid/plan.h"

#include "core/array.h"
#include "training_kernels/hybrid/cost.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_misfit_reasons[BB_MISFITS] = {
	[BB_MISFIT_HEADS] = "tp does not divide the heads",
	[BB_MISFIT_LAYERS] = "more stages than layers",
	[BB_MISFIT_BATCH] = "dp and micro-batch do not divide the batch",
	[BB_MISFIT_ZERO] = ("ZeRO 2 or 3 with a pipeline, whose gradients stay whole while "
			    "micro-batches add to them"),
	[BB_MISFIT_SCHEDULE] = "the schedule has no order for such a pipeline",
	[BB_MISFIT_EXPERTS] = "ep and etp cannot divide the experts among these ranks",
	[BB_MISFIT_OTHER] = "conflict with cp, virtual stages, sequence parallelism or optimizer",
	[BB_MISFIT_MEMORY] = "does not fit into memory",
};

struct search {
	struct bb_hybrid_plan *plan;
	const struct bb_hybrid_cluster *cluster;
	const struct bb_hybrid_space *space;
	struct bb_error *error;
	size_t room;
	/* Seconds of a step, above which no order is searched: the division is not the fastest. */
	double most;
	struct bb_bubble_orders *orders;
};

/* What has come of the settings of one (dp, tp, pp). */
struct attempt {
	struct bb_hybrid_division best, least; /* fastest that fits; with least memory */
	enum bb_hybrid_misfit misfit; /* of the last setting that cannot be; BB_MISFITS: none */
	bool tried, unordered;        /* any setting; one that fits, but has no order */
};

/* ---- memory ---------------------------------------------------------------------------------- */

/* The memory of the stage that needs most. FlashAttention keeps nothing that grows with the square
   of a sequence, so that a part of one is a shorter sequence. */
static struct bb_need most_memory(const struct bb_hybrid_division *division)
{
	const struct bb_bubble_form form = bb_hybrid_bubble(division);
	struct bb_training t = division->training;
	struct bb_model part = *t.model;
	struct bb_need most = {.total = 0};

	part.hyper.seq /= (int64_t)bb_hybrid_context(division);
	t.model = &part;
	if (form.schedule == bb_pipeline_find("gpipe"))
		t.schedule = BB_GPIPE;
	for (uint64_t stage = 0; stage < t.pp; stage++) {
		const struct bb_need need =
			bb_training_keeping(&t, stage, bb_bubble_kept(&form, stage));

		if (stage == 0 || need.total > most.total)
			most = need;
	}
	return most;
}

/* ---- micro-batches --------------------------------------------------------------------------- */

/* Whether tensor and context ranks together can divide the heads. */
static bool heads_fit(const struct bb_hybrid_division *division)
{
	const struct bb_hyper *h = &division->training.model->hyper;
	const int64_t ranks = division->grid.tp * (int64_t)bb_hybrid_context(division);

	return h->heads % ranks == 0 && h->kv_heads % ranks == 0;
}

/* Keeps DIVISION if it is the fastest so far, with both ways of cp and of messages that the space
   leaves open. */
static void try_messages(const struct search *s, struct bb_hybrid_division division,
			 struct attempt *attempt)
{
	const struct bb_hybrid_space *space = s->space;
	const bool divides = heads_fit(&division);
	struct bb_hybrid_division *best = &attempt->best;

	for (int exchanges = 0; exchanges < 2; exchanges++)
		for (int scatter = 0; scatter < 2; scatter++) {
			if (exchanges && (division.grid.cp < 2 || !divides))
				continue;
			if (division.grid.cp > 1 && space->exchanges >= 0 &&
			    exchanges != space->exchanges)
				continue;
			if (space->any.scatter ? scatter && (division.training.pp == 1 ||
							     division.training.sequence_parallel ||
							     division.grid.tp == 1)
					       : scatter != space->scatter)
				continue;
			division.exchanges = exchanges;
			division.scatter = scatter;
			bb_hybrid_cost_find(&division, s->cluster, s->orders, s->most);
			if (isinf(division.cost.step))
				attempt->unordered = true;
			else if (best->cost.step == 0 || division.cost.step < best->cost.step)
				*best = division;
		}
}

/* Tries DIVISION with all micro-batches. */
static void try_micro_batches(const struct search *s, struct bb_hybrid_division division,
			      struct attempt *attempt)
{
	const uint64_t only = s->space->micro_batch;
	const uint64_t replica =
		s->space->batch / (division.training.dp / bb_hybrid_context(&division));
	const uint64_t last = only ? only : replica;

	for (uint64_t b = only ? only : 1; b <= last; b++) {
		if (replica % b ||
		    (division.training.chunks > 1 && replica / b % division.training.pp))
			continue;
		division.training.micro_batch = b;
		division.training.micro_batches = replica / b;
		division.need = most_memory(&division);
		if (attempt->least.need.total == 0 ||
		    division.need.total < attempt->least.need.total)
			attempt->least = division;
		if (division.need.total > s->cluster->memory)
			break;
		try_messages(s, division, attempt);
	}
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Whether virtual stages have equal numbers of layers, with embedding and head as layers or not. */
static bool chunks_fit(const struct bb_training *t)
{
	const uint64_t layers = (uint64_t)t->model->blocks, stages = t->pp * t->chunks;

	return t->chunks == 1 ||
	       (t->pp > 1 && (layers % stages == 0 || (layers + 2) % stages == 0));
}

/* Numbers of layers may differ where virtual stages are given. */
static bool given_chunks_fit(const struct bb_training *t)
{
	return chunks_fit(t) || (t->pp > 1 && t->pp * t->chunks <= (uint64_t)t->model->blocks);
}

/* Whether the ranks can divide the experts as DIVISION says; experts on fewer than the tensor ranks
   need each rank's own tokens. */
static bool experts_fit(const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const int tp = division->grid.tp, etp = bb_grid_expert_tensor(&division->grid);
	const int64_t experts = t->model->hyper.experts;

	if (tp % etp || (etp < tp && !t->sequence_parallel))
		return false;
	return experts > 0 ? experts % bb_grid_expert_ranks(&division->grid) == 0 &&
				     division->grid.dp % division->grid.ep == 0
			   : division->grid.ep == 1 && etp == tp;
}

static enum bb_hybrid_misfit division_misfit(const struct search *s,
					     const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const uint64_t cp = bb_hybrid_context(division), replicas = t->dp / cp;
	struct bb_training checked = *t;
	struct bb_error reason = {.text = ""};

	if (t->model->hyper.heads % division->grid.tp ||
	    (cp > 1 && s->space->exchanges == 1 && !heads_fit(division)))
		return BB_MISFIT_HEADS;
	if (division->grid.pp > t->model->blocks)
		return BB_MISFIT_LAYERS;
	if (s->space->batch % replicas ||
	    (s->space->micro_batch && s->space->batch / replicas % s->space->micro_batch))
		return BB_MISFIT_BATCH;
	if (t->zero > 1 && t->pp > 1)
		return BB_MISFIT_ZERO;
	if (!experts_fit(division))
		return BB_MISFIT_EXPERTS;
	if (!(s->space->any.chunks ? chunks_fit(t) : given_chunks_fit(t)) ||
	    (cp > 1 && (t->eager || (uint64_t)t->model->hyper.seq % (2 * cp * t->tp))))
		return BB_MISFIT_OTHER;
	/* It wants whole layers in each chunk, where embedding and head may be layers too. */
	checked.chunks = 1;
	checked.schedule = BB_1F1B;
	return bb_training_check(&checked, &reason) == BB_OK ? BB_MISFITS : BB_MISFIT_OTHER;
}

/* A bound from below of the step of DIVISION: its products, divided equally among the ranks. */
static double least_step(const struct search *s, const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	const struct bb_model *m = t->model;
	const struct bb_work *works = t->layout->works;
	const double again = t->recompute == BB_RECOMPUTE_FULL
				     ? works[m->blocks + 1].forward - works[1].forward
				     : 0;
	const double core = bb_attention_flops(m) * m->blocks;

	return (m->forward + m->backward + again -
		(t->recompute == BB_RECOMPUTE_FULL ? 4 : 3) * core) *
	       (double)s->space->batch / s->cluster->ranks / s->cluster->flops;
}

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
	for (int r = only < 0 ? 0 : only; r <= (only < 0 ? BB_RECOMPUTE_FULL : only); r++) {
		t->recompute = (enum bb_recompute)r;
		if (attempt->best.cost.step == 0 ||
		    least_step(s, &division) < attempt->best.cost.step)
			try_micro_batches(s, division, attempt);
	}
}

/* Tries DIVISION with and without sequence parallelism, and with all stages of ZeRO, as far as the
   space leaves them open. */
static void try_states(const struct search *s, struct bb_hybrid_division division,
		       struct attempt *attempt)
{
	const struct bb_hybrid_space *space = s->space;
	const struct bb_training *base = &space->base;
	struct bb_training *t = &division.training;

	for (int parallel = 0; parallel <= (division.grid.tp > 1); parallel++) {
		t->sequence_parallel = parallel;
		if (!space->any.sequence_parallel && division.grid.tp > 1 &&
		    t->sequence_parallel != base->sequence_parallel)
			continue;
		for (t->zero = 0; t->zero < BB_ZERO_STAGES; t->zero++)
			if (space->any.zero ? t->zero == 0 || t->dp > 1 : t->zero == base->zero)
				try_setting(s, division, attempt);
	}
}

/* Tries DIVISION, whose virtual stages are chosen, with all schedules of the space. Without a
   pipeline all are alike. */
static void try_schedules(const struct search *s, struct bb_hybrid_division division,
			  struct attempt *attempt)
{
	static const char *const searched[] = {"1f1b", "zb-h1", "zb-h2"};
	const struct bb_hybrid_space *space = s->space;
	const uint64_t chunks = division.training.chunks;
	const int all = space->any.schedule && division.training.pp > 1 && chunks == 1 ? 3 : 1;

	division.schedule = bb_bubble_usual(chunks);
	if (division.training.pp > 1 && space->schedule) {
		const int needed = space->schedule->chunks;

		if (needed ? chunks != (uint64_t)needed : chunks == 1) {
			attempt->misfit = BB_MISFIT_SCHEDULE;
			return;
		}
		division.schedule = space->schedule;
	}
	for (int i = 0; i < all; i++) {
		if (all > 1)
			division.schedule = bb_pipeline_find(searched[i]);
		try_states(s, division, attempt);
	}
}

/* Tries DIVISION with all virtual stages. */
static void try_chunks(const struct search *s, struct bb_hybrid_division division,
		       struct attempt *attempt)
{
	const struct bb_hybrid_space *space = s->space;
	struct bb_training *t = &division.training;
	const uint64_t layers = (uint64_t)t->model->blocks + 2;
	const uint64_t given = space->chunks > 1 ? space->chunks : 1;
	const uint64_t most = !space->any.chunks ? given : t->pp > 1 ? layers / t->pp : 1;

	for (t->chunks = space->any.chunks ? 1 : given; t->chunks <= (most ? most : 1); t->chunks++)
		if (!space->any.chunks || chunks_fit(t))
			try_schedules(s, division, attempt);
}

/* Tries DIVISION with each (ep, etp): EP groups of ETP ranks have all experts. */
static void try_experts(const struct search *s, struct bb_hybrid_division division,
			struct attempt *attempt)
{
	const struct bb_hybrid_space *space = s->space;
	const bool any = space->any.experts && space->base.model->hyper.experts > 0;
	struct bb_grid *g = &division.grid;
	const int tp = g->tp, given = space->grid.etp > 0 ? space->grid.etp : tp;
	const int64_t most = any ? space->base.model->hyper.experts : space->grid.ep;

	for (g->etp = any ? 1 : given; g->etp <= (any ? tp : given); g->etp++)
		for (int64_t ep = any ? 1 : most; ep <= most; ep++) {
			const int64_t ranks = ep * g->etp;

			if (any && (most % ep || tp % g->etp || ranks % tp || g->dp % (ranks / tp)))
				continue;
			if (ranks % tp) {
				attempt->misfit = BB_MISFIT_EXPERTS;
				continue;
			}
			g->ep = (int)(ranks / tp);
			division.training.ep = (uint64_t)g->ep;
			bb_hybrid_cross(&division, s->cluster->node);
			try_chunks(s, division, attempt);
		}
}

/* ---- all divisions --------------------------------------------------------------------------- */

static bb_status division_keep(struct search *s, const struct bb_hybrid_division *division)
{
	struct bb_hybrid_division *added = BB_ARRAY_ADD(s->plan->list, s->plan->n, s->room);

	if (!added)
		return bb_no_memory(s->error, "the plan");
	*added = *division;
	return BB_OK;
}

static enum bb_hybrid_misfit attempt_misfit(const struct attempt *attempt)
{
	return !attempt->tried                 ? attempt->misfit
	       : attempt->unordered            ? BB_MISFIT_SCHEDULE
	       : attempt->least.need.total > 0 ? BB_MISFIT_MEMORY
					       : BB_MISFIT_BATCH;
}

/* Tries DIVISION with each cp. False: none is possible. */
static bool try_contexts(const struct search *s, struct bb_hybrid_division division,
			 struct attempt *attempt)
{
	const struct bb_hybrid_space *space = s->space;
	const int given = space->grid.cp > 1 ? space->grid.cp : 1, dp = division.grid.dp;
	bool possible = false;

	*attempt = (struct attempt){.misfit = BB_MISFITS};
	for (int cp = 1; cp <= dp; cp++) {
		if (dp % cp || (!space->any.cp && cp != given) ||
		    (space->grid.dp && dp != space->grid.dp * cp))
			continue;
		division.grid.cp = cp;
		possible = true;
		try_experts(s, division, attempt);
	}
	return possible;
}

/*
 * The search of an order takes up to seconds. So the division whose step has the least bound is
 * searched first, and then only those whose bound is below that step.
 */
static bool try_all(struct search *s, const struct bb_hybrid_division *division,
		    struct attempt *attempt)
{
	const struct bb_pipeline_schedule *schedule = s->space->schedule;

	s->most = INFINITY;
	if (schedule && schedule->by_hop) {
		s->most = -INFINITY;
		if (!try_contexts(s, *division, attempt))
			return false;
		if (attempt->best.cost.step == 0)
			return true;
		bb_hybrid_cost_find(&attempt->best, s->cluster, s->orders, INFINITY);
		s->most = (1 + 1e-9) * attempt->best.cost.step;
	}
	return try_contexts(s, *division, attempt);
}

static bb_status try_grid(struct search *s, const struct bb_grid *grid)
{
	const struct bb_hybrid_space *space = s->space;
	struct bb_hybrid_division division = {.grid = *grid,
					      .overlap = space->overlap,
					      .kept = space->kept,
					      .by_node = space->by_node,
					      .training = space->base};
	struct attempt attempt;
	struct bb_hybrid_plan *plan = s->plan;
	struct bb_training *t = &division.training;

	t->tp = (uint64_t)grid->tp;
	t->pp = (uint64_t)grid->pp;
	t->dp = (uint64_t)grid->dp;
	if (!try_all(s, &division, &attempt))
		return BB_OK;
	plan->tried++;
	if (attempt.best.cost.step > 0)
		return division_keep(s, &attempt.best);
	plan->misfits[attempt_misfit(&attempt)]++;
	if (attempt.least.need.total > 0 &&
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
	struct bb_bubble_orders orders = {.list = NULL};
	struct search s = {.plan = plan,
			   .cluster = cluster,
			   .space = space,
			   .error = error,
			   .orders = &orders};
	const struct bb_grid *fixed = &space->grid;
	bb_status status = BB_OK;

	*plan = (struct bb_hybrid_plan){.list = NULL};
	for (int tp = 1; tp <= cluster->ranks; tp++)
		for (int pp = 1; cluster->ranks % tp == 0 && pp <= cluster->ranks / tp; pp++) {
			const struct bb_grid grid = {.tp = tp,
						     .pp = pp,
						     .dp = cluster->ranks / tp / pp,
						     .ep = 1,
						     .order = fixed->order};

			if (cluster->ranks / tp % pp || (fixed->tp && tp != fixed->tp) ||
			    (fixed->pp && pp != fixed->pp) || (fixed->dp && grid.dp % fixed->dp))
				continue;
			BB_TRY(status, try_grid(&s, &grid), out);
		}
	if (plan->n > 0)
		qsort(plan->list, plan->n, sizeof(*plan->list), division_compare);
out:
	bb_bubble_orders_free(&orders);
	return status;
}

void bb_hybrid_plan_free(struct bb_hybrid_plan *plan)
{
	free(plan->list);
	*plan = (struct bb_hybrid_plan){.list = NULL};
}
