/*
 * view.c - reasons and records of a plan.
 */
#include "training_kernels/hybrid/view.h"

#include "core/units.h"
#include "training_kernels/estimate.h"
#include "training_kernels/hybrid/cost.h"

#include <stdio.h>

/* ---- reasons --------------------------------------------------------------------------------- */

/* Those beside the traffic. */
enum part { BUBBLE = BB_TRAFFICS, COMPUTE, LAUNCH, PARTS };

static double cost_part(const struct bb_hybrid_cost *cost, int part)
{
	return part < BB_TRAFFICS ? cost->traffic[part]
	       : part == BUBBLE   ? cost->bubble
	       : part == COMPUTE  ? cost->compute
				  : cost->launch;
}

static const char *part_name(int part)
{
	return part < BB_TRAFFICS ? bb_traffic_names[part]
	       : part == BUBBLE   ? "bubble"
	       : part == COMPUTE  ? "compute"
				  : "wait for the CPU";
}

/* The part in which BEHIND loses most against AHEAD. */
static int worst_part(const struct bb_hybrid_division *behind,
		      const struct bb_hybrid_division *ahead)
{
	int worst = 0;

	for (int i = 1; i < PARTS; i++)
		if (cost_part(&behind->cost, i) - cost_part(&ahead->cost, i) >
		    cost_part(&behind->cost, worst) - cost_part(&ahead->cost, worst))
			worst = i;
	return worst;
}

/* The cause of the difference in PART between DIVISION and OTHER, if it is known. */
static const char *cause_of(const struct bb_hybrid_division *division,
			    const struct bb_hybrid_division *other, int part)
{
	if (part < BB_TRAFFICS)
		return division->crosses[part] && !other->crosses[part] ? ", across nodes" : "";
	if (part == COMPUTE && division->training.recompute > other->training.recompute)
		return division->training.recompute == BB_RECOMPUTE_FULL
			       ? "; recomputes the forward pass to fit in memory"
			       : "; recomputes attention to fit in memory";
	return "";
}

void bb_plan_compare(const struct bb_hybrid_division *division,
		     const struct bb_hybrid_division *other, bool behind, const char *than,
		     char text[BB_PLAN_REASON])
{
	const struct bb_hybrid_cost *slow = &(behind ? division : other)->cost;
	const struct bb_hybrid_cost *fast = &(behind ? other : division)->cost;
	const int part = worst_part(behind ? division : other, behind ? other : division);
	char time[BB_UNIT_TEXT];

	bb_format_duration(time, cost_part(slow, part) - cost_part(fast, part));
	snprintf(text, BB_PLAN_REASON, "%s %s %s%s%s%s", time, behind ? "more" : "less",
		 part_name(part), part < BB_TRAFFICS ? " communication" : "", than,
		 cause_of(division, other, part));
}

void bb_plan_explain(const struct bb_hybrid_plan *plan, size_t i, char text[BB_PLAN_REASON])
{
	if (plan->n == 1)
		snprintf(text, BB_PLAN_REASON, "the only division that fits");
	else
		bb_plan_compare(&plan->list[i], &plan->list[i > 0 ? 0 : 1], i > 0,
				i > 0 ? " than the best plan" : " than the second-best plan", text);
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool bb_plan_is_published(const struct bb_plan_view *s, const struct bb_grid *g)
{
	const struct bb_hybrid_preset *p = s->options->preset;

	return p && g->tp == p->grid.tp && g->pp == p->grid.pp && g->dp == p->grid.dp &&
	       g->order == p->grid.order;
}

int bb_plan_replicas(const struct bb_hybrid_division *division)
{
	return division->grid.dp / (int)bb_hybrid_context(division);
}

void bb_plan_name(const struct bb_hybrid_division *division, char text[BB_PLAN_NAME])
{
	const struct bb_grid *g = &division->grid;
	const int cp = (int)bb_hybrid_context(division);
	const int n = snprintf(text, BB_PLAN_NAME, "dp %d, tp %d, pp %d",
			       bb_plan_replicas(division), g->tp, g->pp);

	if (cp > 1)
		snprintf(text + n, (size_t)(BB_PLAN_NAME - n), ", cp %d", cp);
}

int bb_plan_crossing(const struct bb_plan_view *s, const struct bb_hybrid_division *division,
		     int traffic)
{
	const struct bb_grid *g = &division->grid;

	if (traffic != BB_TRAFFIC_EXPERT || bb_grid_expert_tensor(g) == g->tp)
		return bb_grid_crossing(g, bb_traffic_axes[traffic], s->cluster.node);
	return division->crosses[BB_TRAFFIC_EXPERT] ? s->cluster.ranks / bb_grid_expert_ranks(g)
						    : 0;
}

const char *bb_plan_schedule(const struct bb_hybrid_division *division)
{
	return division->grid.pp == 1 ? "-" : bb_hybrid_bubble(division).schedule->name;
}

double bb_plan_token_rate(const struct bb_plan_view *s, const struct bb_hybrid_division *division)
{
	return (double)s->space.batch * (double)s->model->hyper.seq /
	       (division->cost.step * s->cluster.ranks);
}

double bb_plan_flop_rate(const struct bb_plan_view *s, const struct bb_hybrid_division *division)
{
	const bool skips = !division->training.eager && !s->model->encoder;
	const double masked = skips ? 1.5 * bb_attention_flops(s->model) * s->model->blocks : 0;

	return bb_plan_token_rate(s, division) * (s->model->forward + s->model->backward - masked) /
	       (double)s->model->hyper.seq;
}

/* ---- records --------------------------------------------------------------------------------- */

static void describe_costs(const struct bb_hybrid_division *division,
			   struct bb_hybrid_plan_record *r)
{
	const struct bb_hybrid_cost *c = &division->cost;
	const struct bb_volume *of = division->volume.of;

	r->step_us = 1e6 * c->step;
	r->compute_us = 1e6 * c->compute;
	r->bubble_us = 1e6 * c->bubble;
	r->tensor_us = 1e6 * c->traffic[BB_TRAFFIC_TENSOR];
	r->local_us = 1e6 * c->local;
	r->launch_us = 1e6 * c->launch;
	r->context_us = 1e6 * c->traffic[BB_TRAFFIC_CONTEXT];
	r->expert_us = 1e6 * c->traffic[BB_TRAFFIC_EXPERT];
	r->pipeline_us = 1e6 * c->traffic[BB_TRAFFIC_PIPELINE];
	r->data_us = 1e6 * c->traffic[BB_TRAFFIC_DATA];
	r->embedding_us = 1e6 * c->traffic[BB_TRAFFIC_EMBEDDING];
	r->bubble_over_ideal =
		(double)(division->grid.pp - 1) / (double)division->training.micro_batches;
	r->tensor_bytes = of[BB_TRAFFIC_TENSOR].sent;
	r->expert_bytes = of[BB_TRAFFIC_EXPERT].sent;
	r->pipeline_bytes = of[BB_TRAFFIC_PIPELINE].sent;
	r->data_bytes = of[BB_TRAFFIC_DATA].sent;
	r->embedding_bytes = of[BB_TRAFFIC_EMBEDDING].sent;
	r->tensor_calls = (int64_t)of[BB_TRAFFIC_TENSOR].calls;
	r->expert_calls = (int64_t)of[BB_TRAFFIC_EXPERT].calls;
	r->pipeline_calls = (int64_t)of[BB_TRAFFIC_PIPELINE].calls;
	r->data_calls = (int64_t)of[BB_TRAFFIC_DATA].calls;
	r->activation_bytes = (int64_t)division->volume.activation;
	r->boundary_bytes = (int64_t)division->volume.boundary;
}

static void division_describe(const struct bb_plan_view *s,
			      const struct bb_hybrid_division *division,
			      struct bb_hybrid_plan_record *r)
{
	const struct bb_training *t = &division->training;
	const struct bb_grid *g = &division->grid;

	bb_record_init(&bb_record_hybrid_plan, r);
	r->model = s->model->name;
	r->order = bb_grid_order_names[g->order];
	r->recompute = bb_recompute_words[t->recompute];
	r->tightest = bb_category_words[bb_need_tightest(&division->need)];
	r->nranks = s->cluster.ranks;
	r->tokens_per_s = bb_plan_token_rate(s, division);
	r->flops_share = bb_plan_flop_rate(s, division) / s->cluster.flops;
	r->mfu = bb_plan_flop_rate(s, division) / s->peak;
	r->node = s->cluster.node;
	r->tp = g->tp;
	r->pp = g->pp;
	r->dp = bb_plan_replicas(division);
	r->cp = (int64_t)bb_hybrid_context(division);
	r->context = r->cp == 1 ? NULL : bb_context_words[division->exchanges];
	r->schedule = g->pp == 1 ? NULL : bb_plan_schedule(division);
	r->scatter_gather = division->scatter;
	r->virtual_stages = (int64_t)t->chunks;
	r->attention = bb_attention_words[t->eager];
	r->overlap = bb_overlap_words[division->overlap];
	r->ep = bb_grid_expert_ranks(g);
	r->etp = bb_grid_expert_tensor(g);
	r->dispatch = r->ep == 1 ? NULL : bb_dispatch_words[division->by_node];
	r->micro_batch = (int64_t)t->micro_batch;
	r->micro_batches = (int64_t)t->micro_batches;
	r->zero = t->zero;
	r->sequence_parallel = t->sequence_parallel;
	r->published = bb_plan_is_published(s, g);
	r->memory_bytes = (int64_t)division->need.total;
	r->memory_limit_bytes = (int64_t)s->cluster.memory;
	r->tensor_crossing = bb_plan_crossing(s, division, BB_TRAFFIC_TENSOR);
	r->expert_crossing = bb_plan_crossing(s, division, BB_TRAFFIC_EXPERT);
	r->pipeline_crossing = bb_plan_crossing(s, division, BB_TRAFFIC_PIPELINE);
	r->data_crossing = bb_plan_crossing(s, division, BB_TRAFFIC_DATA);
	describe_costs(division, r);
}

bb_status bb_plan_write(struct bb_plan_view *s)
{
	struct bb_hybrid_plan_record r;
	bb_status status = BB_OK;
	char why[BB_PLAN_REASON];

	for (size_t i = 0; i < s->plan.n && status == BB_OK; i++) {
		division_describe(s, &s->plan.list[i], &r);
		bb_plan_explain(&s->plan, i, why);
		r.place = (int64_t)i + 1;
		r.reason = why;
		status = bb_estimate_record(s->run, &bb_record_hybrid_plan, &r);
	}
	return status;
}
