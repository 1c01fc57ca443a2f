/*
 * show.c - --plan: a comparison of divisions of a model.
 */
#include "core/table.h"
#include "core/units.h"
#include "core/version.h"
#include "core/recommend.h"
#include "training_kernels/hybrid/hybrid.h"
#include "training_kernels/estimate.h"

#include <stdlib.h>
#include <string.h>

#define REASON_TEXT 192

struct show {
	struct bb_run *run;
	struct bb_strbuf *out;
	const struct bb_hybrid_options *options;
	const struct bb_model *model;
	struct bb_model_layout layout;
	struct bb_hybrid_cluster cluster;
	struct bb_hybrid_space space;
	struct bb_hybrid_plan plan;
};

/* ---- the request ----------------------------------------------------------------------------- */

static bb_status plan_prepare(struct show *s)
{
	const struct bb_hybrid_options *a = s->options;
	const struct bb_backend_config *link = &s->run->options.config;
	const bool open = !a->fixed && !a->preset; /* a preset has the settings of its run */

	s->cluster = (struct bb_hybrid_cluster){
		.ranks = (int)a->ranks,
		.node = (int)a->node,
		.inside = {link->link_rate, link->link_latency},
		.between = {a->node_link.rate, a->node_link.latency},
		.flops = a->flops,
		.memory_rate = a->memory_rate_given ? a->memory_rate.rate : 0,
		.rails = true,
		.memory = a->memory,
	};
	if (link->cluster)
		bb_hybrid_cluster_set(&s->cluster, link->cluster);
	s->space = (struct bb_hybrid_space){
		.grid = {(int)a->tp, (int)a->pp, (int)a->dp, (int)a->ep,
			 (enum bb_grid_order)a->order},
		.batch = (uint64_t)(a->batch_given ? a->batch : 4 * a->ranks),
		.micro_batch = a->micro_batch_given ? (uint64_t)a->micro_batch : 0,
		.recompute = a->recompute > BB_RECOMPUTE_FULL ? -1 : a->recompute,
		.scatter = a->scatter,
		.any = {.chunks = open && !a->chunks_given,
			.cp = open && !a->cp_given && a->attention == BB_ATTENTION_FLASH &&
			      a->ep == 1,
			.sequence_parallel = open && !a->sequence_parallel,
			.zero = open && !a->zero_given},
		.chunks = (uint64_t)a->chunks,
		.cp = (int)a->cp,
		.overlap = (enum bb_hybrid_overlap)a->overlap,
		.base = {.model = s->model,
			 .layout = &s->layout,
			 .recipe = {&bb_precisions[a->precision], &bb_optimizers[a->optimizer]},
			 .trainable = 1,
			 .zero = (int)a->zero,
			 .chunks = 1,
			 .sequence_parallel = a->sequence_parallel,
			 .eager = a->attention == BB_ATTENTION_EAGER},
	};
	return bb_model_layout_make(&s->layout, s->model, 0, &s->run->error);
}

/* ---- reasons ------------------------------------------------------------------------------ */

#define PARTS (BB_TRAFFICS + 2)

static double cost_part(const struct bb_hybrid_cost *cost, int part)
{
	return part < BB_TRAFFICS    ? cost->traffic[part]
	       : part == BB_TRAFFICS ? cost->bubble
				     : cost->compute;
}

static const char *part_name(int part)
{
	return part < BB_TRAFFICS    ? bb_traffic_names[part]
	       : part == BB_TRAFFICS ? "bubble"
				     : "compute";
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
	if (part > BB_TRAFFICS && division->training.recompute > other->training.recompute)
		return division->training.recompute == BB_RECOMPUTE_FULL
			       ? "; recomputes the forward pass to fit in memory"
			       : "; recomputes attention to fit in memory";
	return "";
}

/* TEXT = "2.52 s more pipeline communication THAN, across nodes": DIVISION compared with OTHER,
   which is ahead of it if it is BEHIND. */
static void explain_difference(const struct bb_hybrid_division *division,
			       const struct bb_hybrid_division *other, bool behind,
			       const char *than, char text[REASON_TEXT])
{
	const struct bb_hybrid_cost *slow = &(behind ? division : other)->cost;
	const struct bb_hybrid_cost *fast = &(behind ? other : division)->cost;
	const int part = worst_part(behind ? division : other, behind ? other : division);
	char time[BB_UNIT_TEXT];

	bb_format_duration(time, cost_part(slow, part) - cost_part(fast, part));
	snprintf(text, REASON_TEXT, "%s %s %s%s%s%s", time, behind ? "more" : "less",
		 part_name(part), part < BB_TRAFFICS ? " communication" : "", than,
		 cause_of(division, other, part));
}

static void explain_division(const struct bb_hybrid_plan *plan, size_t i, char text[REASON_TEXT])
{
	if (plan->n == 1)
		snprintf(text, REASON_TEXT, "the only division that fits");
	else
		explain_difference(&plan->list[i], &plan->list[i > 0 ? 0 : 1], i > 0,
				   i > 0 ? " than the best plan" : " than the second-best plan",
				   text);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool is_published(const struct show *s, const struct bb_grid *g)
{
	const struct bb_hybrid_preset *p = s->options->preset;

	return p && g->tp == p->grid.tp && g->pp == p->grid.pp && g->dp == p->grid.dp &&
	       g->order == p->grid.order;
}

static int context_ranks(const struct bb_hybrid_division *division)
{
	return division->cp > 1 ? division->cp : 1;
}

static int replicas_of(const struct bb_hybrid_division *division)
{
	return division->grid.dp / context_ranks(division);
}

/* Tokens that a rank trains per second. */
static double token_rate(const struct show *s, const struct bb_hybrid_division *division)
{
	return (double)s->space.batch * (double)s->model->hyper.seq /
	       (division->cost.step * s->cluster.ranks);
}

/* The share of --flops that the FLOPs of the model come to, without recomputation and without the
   masked half of attention, which FlashAttention skips. */
static double flops_share(const struct show *s, const struct bb_hybrid_division *division)
{
	const bool skips = !division->training.eager && !s->model->encoder;
	const double masked = skips ? 1.5 * bb_attention_flops(s->model) * s->model->blocks : 0;

	return token_rate(s, division) * (s->model->forward + s->model->backward - masked) /
	       (double)s->model->hyper.seq / s->cluster.flops;
}

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

static void division_describe(const struct show *s, const struct bb_hybrid_division *division,
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
	r->tokens_per_s = token_rate(s, division);
	r->flops_share = flops_share(s, division);
	r->node = s->cluster.node;
	r->tp = g->tp;
	r->pp = g->pp;
	r->dp = replicas_of(division);
	r->cp = context_ranks(division);
	r->virtual_stages = (int64_t)t->chunks;
	r->attention = bb_attention_words[t->eager];
	r->overlap = bb_overlap_words[division->overlap];
	r->ep = g->ep;
	r->micro_batch = (int64_t)t->micro_batch;
	r->micro_batches = (int64_t)t->micro_batches;
	r->zero = t->zero;
	r->sequence_parallel = t->sequence_parallel;
	r->published = is_published(s, g);
	r->memory_bytes = (int64_t)division->need.total;
	r->memory_limit_bytes = (int64_t)s->cluster.memory;
	r->tensor_crossing = bb_grid_crossing(g, BB_AXIS_TP, s->cluster.node);
	r->expert_crossing = bb_grid_crossing(g, BB_AXIS_EP, s->cluster.node);
	r->pipeline_crossing = bb_grid_crossing(g, BB_AXIS_PP, s->cluster.node);
	r->data_crossing = bb_grid_crossing(g, BB_AXIS_DP, s->cluster.node);
	describe_costs(division, r);
}

static bb_status write_records(struct show *s)
{
	struct bb_hybrid_plan_record r;
	bb_status status = BB_OK;
	char why[REASON_TEXT];

	for (size_t i = 0; i < s->plan.n && status == BB_OK; i++) {
		division_describe(s, &s->plan.list[i], &r);
		explain_division(&s->plan, i, why);
		r.place = (int64_t)i + 1;
		r.reason = why;
		status = bb_estimate_record(s->run, &bb_record_hybrid_plan, &r);
	}
	return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_preset(const struct show *s)
{
	const struct bb_hybrid_preset *p = s->options->preset;

	bb_strbuf_addf(s->out, "# preset %s: %s; assumed: %s\n", p->name, p->source, p->assumed);
	if (p->run_flops > 0 && !s->options->flops_given)
		bb_strbuf_addf(s->out,
			       "# the whole run reached %.4g TFLOPS with communication and bubble; "
			       "computations alone reach %.4g\n",
			       1e-12 * p->run_flops, 1e-12 * s->cluster.flops);
}

static void add_setting(const struct show *s)
{
	const struct bb_hybrid_cluster *c = &s->cluster;
	char in[BB_UNIT_TEXT], between[BB_UNIT_TEXT];

	bb_strbuf_addf(s->out,
		       "# busbench version %s\n# %s: %s, %llu parameters, %lld tokens per "
		       "sequence, %llu sequence%s per step\n",
		       BB_VERSION, s->run->options.program, s->model->name,
		       (unsigned long long)s->model->parameters, (long long)s->model->hyper.seq,
		       (unsigned long long)s->space.batch, bb_plural((long long)s->space.batch));
	bb_strbuf_addf(s->out, "# %d rank%s, %d per node, each %.1f GB and %.4g TFLOPS; order %s\n",
		       c->ranks, bb_plural(c->ranks), c->node, 1e-9 * (double)c->memory,
		       1e-12 * c->flops, bb_grid_order_names[s->space.grid.order]);
	bb_strbuf_addf(s->out,
		       "# links of a rank: within a node %.4g GB/s, %s; between nodes %.4g GB/s, "
		       "%s\n",
		       1e-9 * c->inside.rate, bb_format_duration(in, c->inside.latency),
		       1e-9 * c->between.rate, bb_format_duration(between, c->between.latency));
	if (s->options->preset)
		add_preset(s);
	bb_strbuf_addf(s->out,
		       "#\n# Divisions of the model, fastest first. Seconds per step; * crosses "
		       "nodes%s\n#\n",
		       s->options->preset ? "; > published" : "");
}

/* The parts of a step that are columns; experts and context only where there are any. */
static const int shown_traffic[] = {BB_TRAFFIC_TENSOR, BB_TRAFFIC_EXPERT, BB_TRAFFIC_CONTEXT,
				    BB_TRAFFIC_PIPELINE, BB_TRAFFIC_DATA};
#define SHOWN_TRAFFICS (int)(sizeof(shown_traffic) / sizeof(shown_traffic[0]))

static bool is_shown(const struct show *s, int traffic)
{
	if (traffic == BB_TRAFFIC_CONTEXT)
		return s->space.any.cp || s->space.cp > 1;
	return traffic != BB_TRAFFIC_EXPERT || s->model->hyper.experts;
}

static void add_division_columns(const struct show *s, struct bb_text_table *t)
{
	static const struct bb_table_head heads[] = {
		{"", "", 0},      {"dp", "", 0},      {"tp", "", 0},        {"pp", "", 0},
		{"cp", "", 0},    {"virtual", "", 0}, {"ZeRO", "", 0},      {"sequence", "", 0},
		{"micro", "", 0}, {"micros", "", 0},  {"recompute", "", 0}, {"memory", "(GB)", 0},
		{"step", "", 0},  {"compute", "", 0}, {"bubble", "", 0},    {NULL, NULL, 0},
	};

	bb_table_columns(t, heads, 4);
	for (int i = 0; i < SHOWN_TRAFFICS; i++)
		if (is_shown(s, shown_traffic[i]))
			bb_table_column(t, bb_traffic_names[shown_traffic[i]], "", 0);
	bb_table_column(t, "why", "", -1);
}

static void add_division(const struct show *s, const struct bb_hybrid_division *division,
			 const char *why, struct bb_text_table *table)
{
	const struct bb_hybrid_cost *cost = &division->cost;
	const struct bb_training *t = &division->training;
	const struct bb_grid *g = &division->grid;

	bb_table_cellf(
		table, "%s\t%d\t%d\t%d\t%d\t%llu\t%d\t%s\t%llu\t%llu\t%s\t%.1f\t%.3f\t%.3f\t%.3f",
		is_published(s, g) ? ">" : "", replicas_of(division), g->tp, g->pp,
		context_ranks(division), (unsigned long long)t->chunks, t->zero,
		t->sequence_parallel ? "yes" : "no", (unsigned long long)t->micro_batch,
		(unsigned long long)t->micro_batches, bb_recompute_words[t->recompute],
		1e-9 * (double)division->need.total, cost->step, cost->compute, cost->bubble);
	for (int i = 0; i < SHOWN_TRAFFICS; i++)
		if (is_shown(s, shown_traffic[i]))
			bb_table_cellf(table, "%.3f%s", cost->traffic[shown_traffic[i]],
				       division->crosses[shown_traffic[i]] ? "*" : "");
	bb_table_cell(table, why);
}

static void add_misfits(const struct show *s)
{
	const struct bb_hybrid_plan *plan = &s->plan;
	const struct bb_hybrid_division *n = &plan->nearest;

	bb_strbuf_addf(s->out, "#\n# %zu of %zu divisions of %d rank%s are possible", plan->n,
		       plan->tried, s->cluster.ranks, bb_plural(s->cluster.ranks));
	for (int i = 0; i < BB_MISFITS; i++)
		if (plan->misfits[i])
			bb_strbuf_addf(s->out, "; %zu: %s", plan->misfits[i], bb_misfit_reasons[i]);
	bb_strbuf_add(s->out, "\n");
	if (n->need.total > 0)
		bb_strbuf_addf(s->out,
			       "# nearest to fitting: dp %d, tp %d, pp %d needs %.1f of %.1f GB, "
			       "most of it %s\n",
			       n->grid.dp, n->grid.tp, n->grid.pp, 1e-9 * (double)n->need.total,
			       1e-9 * (double)s->cluster.memory,
			       bb_category_words[bb_need_tightest(&n->need)]);
}

/* The rank of the published division, number I, among all. */
static void add_published(const struct show *s, size_t i)
{
	const struct bb_hybrid_plan *plan = &s->plan;
	char why[REASON_TEXT];

	explain_division(plan, i, why);
	bb_strbuf_addf(s->out,
		       "# the published division is number %zu of %zu, %.1f%% slower than the "
		       "best: %s\n",
		       i + 1, plan->n,
		       100 * (plan->list[i].cost.step / plan->list[0].cost.step - 1), why);
}

static void division_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
			   struct bb_strbuf *out)
{
	char text[REASON_TEXT];

	explain_difference(behind->own, ahead->own, true, "", text);
	bb_strbuf_add(out, text);
}

/* The best division and the runner-up. */
static void add_best(const struct show *s)
{
	struct bb_candidate *list = calloc(s->plan.n, sizeof(*list));
	const struct bb_recommendation choice = {.subject = "division",
						 .unit = " per step",
						 .list = list,
						 .n = list ? s->plan.n : 0,
						 .cause = division_cause};

	s->out->failed |= !list;
	for (size_t i = 0; i < choice.n; i++) {
		const struct bb_hybrid_division *division = &s->plan.list[i];
		const struct bb_grid *g = &division->grid;

		list[i] = (struct bb_candidate){.seconds = s->plan.list[i].cost.step,
						.own = &s->plan.list[i]};
		snprintf(list[i].name, sizeof(list[i].name), "dp %d, tp %d, pp %d",
			 replicas_of(division), g->tp, g->pp);
	}
	bb_strbuf_add(s->out, choice.n > 1 ? "#\n" : "");
	bb_recommend(&choice, s->out);
	free(list);
}

/* The bytes that a rank sends in a step of DIVISION, and the groups that cross nodes. */
static void add_traffic(const struct show *s, const struct bb_hybrid_division *division)
{
	static const enum bb_axis axes[] = {[BB_TRAFFIC_TENSOR] = BB_AXIS_TP,
					    [BB_TRAFFIC_EXPERT] = BB_AXIS_EP,
					    [BB_TRAFFIC_CONTEXT] = BB_AXIS_EP,
					    [BB_TRAFFIC_PIPELINE] = BB_AXIS_PP,
					    [BB_TRAFFIC_DATA] = BB_AXIS_DP};
	static const struct bb_table_head heads[] = {{"part", "", -9},
						     {"calls", "", 8},
						     {"sent", "(GB)", 12},
						     {"groups", "", -1},
						     {NULL, NULL, 0}};
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	struct bb_grid context = division->grid;

	bb_table_columns(&t, heads, 1);
	bb_strbuf_addf(s->out,
		       "#\n# dp %d, tp %d, pp %d: bytes that a rank of the slowest stage sends "
		       "per step\n",
		       division->grid.dp, division->grid.tp, division->grid.pp);
	if (division->cp > 1)
		context.ep = division->cp;
	for (int i = 0; i <= BB_TRAFFIC_DATA; i++) {
		const struct bb_grid *grid = i == BB_TRAFFIC_CONTEXT ? &context : &division->grid;
		const struct bb_volume *v = &division->volume.of[i];

		if (v->calls == 0)
			continue;
		bb_table_cellf(&t, "%s\t%llu\t%.3f\t%d of %d groups of %d cross nodes",
			       bb_traffic_names[i], (unsigned long long)v->calls, 1e-9 * v->sent,
			       bb_grid_crossing(grid, axes[i], s->cluster.node),
			       bb_grid_groups(grid, axes[i]), bb_grid_size(grid, axes[i]));
	}
	bb_table_print(&t, s->out);
	bb_table_free(&t);
}

/* What DIVISION reaches, and the communication that computations wait for. */
static void add_rates(const struct show *s, const struct bb_hybrid_division *division)
{
	const struct bb_training *t = &division->training;
	bool any = false;

	bb_strbuf_addf(
		s->out,
		"#\n# dp %d, tp %d, pp %d, cp %d, %llu virtual stage%s, ZeRO %d%s: %.4g tokens "
		"per second and rank,\n# %.1f%% of --flops for the model, %.1f of %.1f GB\n",
		replicas_of(division), division->grid.tp, division->grid.pp,
		context_ranks(division), (unsigned long long)t->chunks,
		bb_plural((long long)t->chunks), t->zero,
		t->sequence_parallel ? ", sequence parallel" : "", token_rate(s, division),
		100 * flops_share(s, division), 1e-9 * (double)division->need.total,
		1e-9 * (double)s->cluster.memory);
	bb_strbuf_add(s->out, "# exposed communication:");
	for (int i = 0; i < BB_TRAFFICS; i++)
		if (division->cost.traffic[i] > 0) {
			bb_strbuf_addf(s->out, "%s %s %.3f s", any ? "," : "", bb_traffic_names[i],
				       division->cost.traffic[i]);
			any = true;
		}
	bb_strbuf_add(s->out, any ? "\n" : " none\n");
}

static void add_plan(const struct show *s)
{
	const struct bb_hybrid_plan *plan = &s->plan;
	const struct bb_hybrid_division *published = NULL;
	struct bb_text_table table = {.limit = bb_table_limit(stdout)};
	char why[REASON_TEXT];

	add_division_columns(s, &table);
	for (size_t i = 0; i < plan->n; i++) {
		const bool mark = is_published(s, &plan->list[i].grid);

		if (mark)
			published = &plan->list[i];
		if (i >= (size_t)s->options->best && !mark)
			continue;
		explain_division(plan, i, why);
		add_division(s, &plan->list[i], why, &table);
	}
	if (plan->n > 0)
		bb_table_print(&table, s->out);
	bb_table_free(&table);
	add_misfits(s);
	if (plan->n > 0)
		add_rates(s, &plan->list[0]);
	if (published)
		add_published(s, (size_t)(published - plan->list));
	if (plan->n > 0)
		add_traffic(s, &plan->list[0]);
	if (published && published != plan->list)
		add_traffic(s, published);
	if (plan->n > 0)
		add_best(s);
}

static bb_status plan_show(struct show *s)
{
	bb_status status = plan_prepare(s);

	if (status != BB_OK)
		return status;
	BB_TRY(status, bb_hybrid_plan_make(&s->plan, &s->cluster, &s->space, &s->run->error), out);
	BB_TRY(status, bb_estimate_open(s->run, &bb_record_hybrid_plan, s->cluster.ranks, NULL),
	       out);
	add_setting(s);
	add_plan(s);
	status = write_records(s);
	if (status == BB_OK && s->plan.n == 0)
		status = bb_fail(&s->run->error, BB_EUNSUPPORTED,
				 "--plan: no division of %s among %d ranks is possible; the "
				 "listing has the reasons",
				 s->model->name, s->cluster.ranks);
	status = bb_estimate_end(s->run, s->out, status);
out:
	return status;
}

bb_status bb_hybrid_show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_hybrid *h = run->own;
	struct show s = {.run = run, .out = out, .options = &h->options, .model = &h->model};
	const bb_status status = plan_show(&s);

	bb_sinks_close(&run->sinks);
	bb_hybrid_plan_free(&s.plan);
	bb_model_layout_free(&s.layout);
	bb_model_free(&h->model);
	return status;
}
