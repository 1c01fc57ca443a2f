/*
 * plan.c - the search of all divisions.
 */
#include "training_kernels/hybrid/plan.h"

#include "core/array.h"

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

/* What is tried, and what has come of the settings of one (dp, tp, pp). */
struct search {
	const struct bb_hybrid_cluster *cluster;
	const struct bb_hybrid_space *space;
	/* Seconds of a step, above which no order is searched: the division is not the fastest. */
	double most;
	struct bb_bubble_orders orders;

	struct bb_hybrid_division best, least; /* fastest that fits; with least memory */
	enum bb_hybrid_misfit misfit; /* of the last setting that cannot be; BB_MISFITS: none */
	bool tried, unordered;        /* any setting; one that fits, but has no order */
};

/* Is VALUE the one that is GIVEN for a setting, or one of any? */
static bool is_open(int given, int value)
{
	return given == BB_ANY || given == value;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The memory of the stage that needs most. FlashAttention keeps nothing that grows with the square
   of a sequence, so that a part of one is a shorter sequence. */
static struct bb_need most_memory(const struct bb_hybrid_division *division)
{
	const struct bb_bubble_form form = bb_hybrid_bubble(division);
	struct bb_training t = division->training;
	struct bb_model part = *t.model;
	struct bb_need most = {.total = 0};

	part.hyper.seq /= division->grid.cp;
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

/* Whether tensor and context ranks together can divide the heads. */
static bool heads_fit(const struct bb_hybrid_division *division)
{
	const struct bb_hyper *h = &division->training.model->hyper;
	const int64_t ranks = (int64_t)division->grid.tp * division->grid.cp;

	return h->heads % ranks == 0 && h->kv_heads % ranks == 0;
}

/* ---- settings -------------------------------------------------------------------------------- */

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
	const struct bb_grid *g = &division->grid;
	const int64_t experts = t->model->hyper.experts;
	const uint64_t cp = (uint64_t)g->cp, replicas = t->dp / cp;
	struct bb_training checked = *t;
	struct bb_error reason = {.text = ""};

	if (t->model->hyper.heads % g->tp ||
	    (cp > 1 && s->space->exchanges == 1 && !heads_fit(division)))
		return BB_MISFIT_HEADS;
	if (g->pp > t->model->blocks)
		return BB_MISFIT_LAYERS;
	if (s->space->batch % replicas ||
	    (s->space->micro_batch && s->space->batch / replicas % s->space->micro_batch))
		return BB_MISFIT_BATCH;
	if (t->zero > 1 && t->pp > 1)
		return BB_MISFIT_ZERO;
	/* Experts on fewer than the tensor ranks need each rank's own tokens. */
	if (g->tp % g->etp || (g->etp < g->tp && !t->sequence_parallel) ||
	    (experts > 0 ? experts % bb_grid_expert_ranks(g) || g->dp % g->ep
			 : g->ep > 1 || g->etp != g->tp))
		return BB_MISFIT_EXPERTS;
	/* Numbers of layers may differ where virtual stages are given. */
	const bool given = s->space->chunks != BB_ANY && t->pp > 1 &&
			   t->pp * t->chunks <= (uint64_t)t->model->blocks;
	if (!(given || chunks_fit(t)) ||
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
	const struct bb_layers_work *const works = t->layout->works;
	const struct bb_layers_work *const all = &works[m->blocks + 2];
	const bool full = t->recompute == BB_RECOMPUTE_FULL;
	const double again = full ? works[m->blocks + 1].forward - works[1].forward : 0;
	const double core_again = full ? works[m->blocks + 1].core - works[1].core : 0;

	return (m->forward + m->backward + again - 3 * all->core - core_again) *
	       (double)s->space->batch / s->cluster->ranks / s->cluster->flops;
}

/* Tries DIVISION, whose other settings are chosen, with each recomputation and micro-batch, and
   both ways of cp and of messages, as far as the space leaves them open; the fastest is kept. */
static void try_batches(struct search *s, struct bb_hybrid_division division)
{
	const struct bb_hybrid_space *space = s->space;
	struct bb_training *t = &division.training;
	const uint64_t replica = space->batch / (t->dp / (uint64_t)division.grid.cp);
	const uint64_t only = space->micro_batch, last = only ? only : replica;
	const bool divided = division.grid.cp > 1, exchanges = divided && heads_fit(&division);
	const bool scatters = space->scatter != BB_ANY ||
			      (t->pp > 1 && division.grid.tp > 1 && !t->sequence_parallel);

	t->schedule = t->chunks > 1 ? BB_INTERLEAVED : BB_1F1B;
	t->micro_batch = t->micro_batches = 1;
	const enum bb_hybrid_misfit misfit = division_misfit(s, &division);
	if (misfit != BB_MISFITS) {
		s->misfit = misfit;
		return;
	}
	s->tried = true;
	for (int r = 0; r <= BB_RECOMPUTE_FULL; r++) {
		t->recompute = (enum bb_recompute)r;
		if (!is_open(space->recompute, r) ||
		    (s->best.cost.step > 0 && least_step(s, &division) >= s->best.cost.step))
			continue;
		for (uint64_t b = only ? only : 1; b <= last; b++) {
			if (replica % b || (t->chunks > 1 && replica / b % t->pp))
				continue;
			t->micro_batch = b;
			t->micro_batches = replica / b;
			division.need = most_memory(&division);
			if (s->least.need.total == 0 || division.need.total < s->least.need.total)
				s->least = division;
			if (division.need.total > s->cluster->memory)
				break;
			for (int way = 0; way < 4; way++) {
				division.exchanges = way / 2;
				division.scatter = way % 2;
				if ((division.exchanges && !exchanges) ||
				    (divided && !is_open(space->exchanges, division.exchanges)) ||
				    (division.scatter && !scatters) ||
				    !is_open(space->scatter, division.scatter))
					continue;
				bb_hybrid_division_cost(&division, s->cluster, &s->orders, s->most);
				if (isinf(division.cost.step))
					s->unordered = true;
				else if (s->best.cost.step == 0 ||
					 division.cost.step < s->best.cost.step)
					s->best = division;
			}
		}
	}
}

/* Tries DIVISION, whose virtual stages are chosen, with all schedules, with and without sequence
   parallelism, and with all stages of ZeRO, as far as the space leaves them open. Without a
   pipeline all schedules are alike. */
static void try_schedules(struct search *s, struct bb_hybrid_division division)
{
	static const char *const searched[] = {"1f1b", "zb-h1", "zb-h2"};
	const struct bb_hybrid_space *space = s->space;
	const struct bb_pipeline_schedule *given = space->base.schedule;
	struct bb_training *t = &division.training;
	const int all = space->any_schedule && t->pp > 1 && t->chunks == 1 ? 3 : 1;
	const int tp = division.grid.tp;

	division.schedule = bb_bubble_usual(t->chunks);
	if (t->pp > 1 && given) {
		if (given->chunks ? t->chunks != (uint64_t)given->chunks : t->chunks == 1) {
			s->misfit = BB_MISFIT_SCHEDULE;
			return;
		}
		division.schedule = given;
	}
	for (int i = 0; i < all; i++) {
		if (all > 1)
			division.schedule = bb_pipeline_find(searched[i]);
		for (int parallel = 0; parallel <= (tp > 1); parallel++) {
			if (tp > 1 && !is_open(space->sequence_parallel, parallel))
				continue;
			t->sequence_parallel = parallel;
			for (t->zero = 0; t->zero < BB_ZERO_STAGES; t->zero++)
				if (space->zero == BB_ANY ? t->zero == 0 || t->dp > 1
							  : t->zero == space->zero)
					try_batches(s, division);
		}
	}
}

/* Tries DIVISION with each cp, each (ep, etp), where EP groups of ETP ranks have all experts, and
   all virtual stages. False: no cp is possible. */
static bool try_settings(struct search *s, struct bb_hybrid_division division)
{
	const struct bb_hybrid_space *space = s->space;
	const int64_t experts = space->base.training.model->hyper.experts;
	const bool any = space->any_experts && experts > 0, any_chunks = space->chunks == BB_ANY;
	const uint64_t chunks = space->chunks > 1 ? (uint64_t)space->chunks : 1;
	struct bb_grid *g = &division.grid;
	struct bb_training *t = &division.training;
	const uint64_t share = ((uint64_t)t->model->blocks + 2) / t->pp;
	const uint64_t most_chunks = !any_chunks ? chunks : t->pp > 1 && share > 0 ? share : 1;
	const int tp = g->tp, dp = g->dp, given_cp = space->grid.cp ? space->grid.cp : 1;
	const int given = space->grid.etp > 0 ? space->grid.etp : tp;
	const int64_t most = any ? experts : space->grid.ep;
	bool possible = false;

	s->best.cost.step = 0;
	s->least.need.total = 0;
	s->misfit = BB_MISFITS;
	s->tried = s->unordered = false;
	for (g->cp = 1; g->cp <= dp; g->cp++) {
		if (dp % g->cp || !is_open(given_cp, g->cp) ||
		    (space->grid.dp && dp != space->grid.dp * g->cp))
			continue;
		possible = true;
		for (g->etp = any ? 1 : given; g->etp <= (any ? tp : given); g->etp++)
			for (int64_t ep = any ? 1 : most; ep <= most; ep++) {
				const int64_t ranks = ep * g->etp;

				if (any &&
				    (most % ep || tp % g->etp || ranks % tp || dp % (ranks / tp)))
					continue;
				if (ranks % tp) {
					s->misfit = BB_MISFIT_EXPERTS;
					continue;
				}
				g->ep = (int)(ranks / tp);
				t->ep = (uint64_t)g->ep;
				for (t->chunks = any_chunks ? 1 : chunks; t->chunks <= most_chunks;
				     t->chunks++)
					if (!any_chunks || chunks_fit(t))
						try_schedules(s, division);
			}
	}
	return possible;
}

/* ---- all divisions --------------------------------------------------------------------------- */

static int division_compare(const void *a, const void *b)
{
	const double x = ((const struct bb_hybrid_division *)a)->cost.step;
	const double y = ((const struct bb_hybrid_division *)b)->cost.step;

	return (x > y) - (x < y);
}

bb_status bb_hybrid_plan_make(struct bb_hybrid_plan *plan, const struct bb_hybrid_cluster *cluster,
			      const struct bb_hybrid_space *space, struct bb_error *error)
{
	struct search s = {.cluster = cluster, .space = space};
	const struct bb_grid *fixed = &space->grid;
	const bool searches = space->base.schedule && space->base.schedule->search;
	bb_status status = BB_OK;

	*plan = (struct bb_hybrid_plan){.list = NULL};
	for (int tp = 1; tp <= cluster->ranks; tp++)
		for (int pp = 1; cluster->ranks % tp == 0 && pp <= cluster->ranks / tp; pp++) {
			const int dp = cluster->ranks / tp / pp;
			const struct bb_grid grid = {tp, pp, dp, 1, .order = fixed->order};
			struct bb_hybrid_division division = space->base;

			if (cluster->ranks / tp % pp || (fixed->tp && tp != fixed->tp) ||
			    (fixed->pp && pp != fixed->pp) || (fixed->dp && dp % fixed->dp))
				continue;
			bb_hybrid_division_set(&division, &grid);
			/* The search of an order takes up to seconds. So the division whose step
			   has the least bound is searched first, and then only those whose bound
			   is below that step. */
			s.most = searches ? -INFINITY : INFINITY;
			if (!try_settings(&s, division))
				continue;
			if (searches && s.best.cost.step > 0) {
				bb_hybrid_division_cost(&s.best, cluster, &s.orders, INFINITY);
				s.most = (1 + 1e-9) * s.best.cost.step;
				(void)try_settings(&s, division);
			}
			plan->tried++;
			if (s.best.cost.step > 0) {
				if (!BB_ARRAY_PUT(plan->list, plan->n, plan->room, s.best))
					BB_TRY(status, bb_no_memory(error, "the plan"), out);
				continue;
			}
			plan->misfits[!s.tried                 ? s.misfit
				      : s.unordered            ? BB_MISFIT_SCHEDULE
				      : s.least.need.total > 0 ? BB_MISFIT_MEMORY
							       : BB_MISFIT_BATCH]++;
			if (s.least.need.total > 0 &&
			    (plan->nearest.need.total == 0 ||
			     s.least.need.total < plan->nearest.need.total))
				plan->nearest = s.least;
		}
	if (plan->n > 0)
		qsort(plan->list, plan->n, sizeof(*plan->list), division_compare);
out:
	free(s.orders.list);
	return status;
}
