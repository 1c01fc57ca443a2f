/*
 * show.c - --plan: a comparison of divisions of a model, as records and as text.
 */
#include "core/table.h"
#include "core/units.h"
#include "core/version.h"
#include "simulator/cluster/cluster.h"
#include "topology/cards.h"
#include "training_kernels/hybrid/hybrid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REASON 192
#define NAME 64

struct view {
	struct bb_run *run;
	struct bb_strbuf *out;
	const struct bb_hybrid *h;
	struct bb_model_layout layout;
	struct bb_hybrid_cluster cluster;
	double peak; /* FLOPs per second of a rank's GPU; NAN: unknown */
	struct bb_hybrid_space space;
	struct bb_hybrid_plan plan;
};

/* ---- the request ----------------------------------------------------------------------------- */

static bb_status plan_prepare(struct view *s)
{
	const struct bb_hybrid_options *a = &s->h->options;
	const struct bb_backend_config *link = &s->run->options.config;
	const struct bb_cluster *cluster = s->run->options.virtual.cluster;
	/* A preset has the settings of its run. */
	const bool searches = !a->fixed && !a->preset;

	s->cluster = (struct bb_hybrid_cluster){
		.ranks = (int)a->ranks,
		.node = (int)a->node,
		.inside = {link->link_rate, link->link_latency},
		.between = {a->node_link.rate, a->node_link.latency},
		.flops = a->flops,
		.attention_flops = a->attention_flops,
		.memory_rate = a->memory_rate_given ? a->memory_rate.rate : 0,
		.launch = a->launch_ns_given ? 1e-9 * (double)a->launch_ns : 0,
		.rails = true,
		.memory = s->h->capacity.usable,
	};
	s->peak = a->peak_given ? a->peak : NAN;
	if (cluster) {
		bb_hybrid_cluster_set(&s->cluster, cluster);
		if (a->node_given)
			s->cluster.node = (int)a->node;
		const struct bb_card *const card = bb_card_find(cluster->node->name);
		if (!a->peak_given && card && card->peak_TFLOPS > 0)
			s->peak = 1e12 * card->peak_TFLOPS;
	}
	s->space = (struct bb_hybrid_space){
		.grid = {(int)a->tp, (int)a->pp, (int)a->dp, (int)a->ep,
			 (enum bb_grid_order)a->order, (int)a->cp, (int)a->etp},
		.any_experts = searches && !a->ep_given && !a->etp_given,
		.batch = (uint64_t)(a->batch_given ? a->batch : 4 * a->ranks),
		.micro_batch = a->micro_batch_given ? (uint64_t)a->micro_batch : 0,
		.recompute = a->recompute > BB_RECOMPUTE_FULL ? BB_ANY : a->recompute,
		.scatter = searches && !a->scatter ? BB_ANY : a->scatter,
		.sequence_parallel =
			searches && !a->sequence_parallel ? BB_ANY : a->sequence_parallel,
		.zero = searches && !a->zero_given ? BB_ANY : (int)a->zero,
		.chunks = searches && !a->chunks_given ? BB_ANY : (int)a->chunks,
		.exchanges = a->context < 2 ? a->context
			     : searches     ? BB_ANY
					    : 0,
		.any_schedule = searches && !a->schedule_given,
		.base.by_node = a->dispatch == 1,
		.base.schedule = a->schedule_given ? &bb_pipeline_schedules[a->schedule] : NULL,
		.base.kept = (uint64_t)a->kept,
		.base.overlap = (enum bb_hybrid_overlap)a->overlap,
		.base.training = {.model = &s->h->model,
				  .layout = &s->layout,
				  .recipe = {&bb_precisions[a->precision],
					     &bb_optimizers[a->optimizer]},
				  .trainable = 1,
				  .chunks = 1,
				  .eager = a->attention == BB_ATTENTION_EAGER},
	};
	if (searches && !a->cp_given && a->attention == BB_ATTENTION_FLASH)
		s->space.grid.cp = BB_ANY;
	return bb_model_layout_make(&s->layout, &s->h->model, 0, &s->run->error);
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* TEXT = "2.52 s more pipeline communication THAN, across nodes": DIVISION compared with OTHER,
   which is ahead of it if it is BEHIND. */
static void plan_compare(const struct bb_hybrid_division *division,
			 const struct bb_hybrid_division *other, bool behind, const char *than,
			 char text[REASON])
{
	const struct bb_hybrid_cost *slow = &(behind ? division : other)->cost;
	const struct bb_hybrid_cost *fast = &(behind ? other : division)->cost;
	const enum bb_recompute again = division->training.recompute;
	const char *cause = "";
	char time[BB_UNIT_TEXT];
	int worst = 0; /* the term in which the slow one loses most */

	for (int i = 1; i < BB_TERMS; i++)
		if (slow->of[i] - fast->of[i] > slow->of[worst] - fast->of[worst])
			worst = i;
	if (worst < BB_TRAFFICS && division->crosses[worst] && !other->crosses[worst])
		cause = ", across nodes";
	else if (worst == BB_TERM_COMPUTE && again > other->training.recompute)
		cause = again == BB_RECOMPUTE_FULL
				? "; recomputes the forward pass to fit in memory"
				: "; recomputes attention to fit in memory";
	snprintf(text, REASON, "%s %s %s%s%s%s",
		 bb_format_duration(time, slow->of[worst] - fast->of[worst]),
		 behind ? "more" : "less", bb_term_words[worst],
		 worst < BB_TRAFFICS ? " communication" : "", than, cause);
}

/* Returns TEXT = why division number I is slower than the best, or the best faster than the
   second. */
static const char *plan_explain(const struct bb_hybrid_plan *plan, size_t i, char text[REASON])
{
	if (plan->n == 1)
		snprintf(text, REASON, "the only division that fits");
	else
		plan_compare(&plan->list[i], &plan->list[i > 0 ? 0 : 1], i > 0,
			     i > 0 ? " than the best plan" : " than the second-best plan", text);
	return text;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Whether G is the division of --preset. */
static bool is_published(const struct view *s, const struct bb_grid *g)
{
	const struct bb_hybrid_preset *p = s->h->options.preset;

	return p && g->tp == p->grid.tp && g->pp == p->grid.pp && g->dp == p->grid.dp &&
	       g->order == p->grid.order;
}

/* Returns TEXT = "dp 8, tp 2, pp 4, cp 2": sizes whose product is the number of ranks; without cp
   if that is 1. */
static const char *plan_name(const struct bb_hybrid_division *division, char text[NAME])
{
	const struct bb_grid *g = &division->grid;
	const int n = snprintf(text, NAME, "dp %d, tp %d, pp %d", g->dp / g->cp, g->tp, g->pp);

	if (g->cp > 1)
		snprintf(text + n, (size_t)(NAME - n), ", cp %d", g->cp);
	return text;
}

/* Groups of TRAFFIC that cross nodes; of experts on fewer than the tensor ranks all, if any does.
 */
static int plan_crossing(const struct view *s, const struct bb_hybrid_division *division,
			 int traffic)
{
	const struct bb_grid *g = &division->grid;

	if (traffic != BB_TRAFFIC_EXPERT || g->etp == g->tp)
		return bb_grid_crossing(g, bb_traffic_axes[traffic], s->cluster.node);
	return division->crosses[BB_TRAFFIC_EXPERT] ? s->cluster.ranks / bb_grid_expert_ranks(g)
						    : 0;
}

/* "-": no pipeline. */
static const char *plan_schedule(const struct bb_hybrid_division *division)
{
	return division->grid.pp == 1 ? "-" : bb_hybrid_bubble(division).schedule->name;
}

/* Tokens that a rank trains per second. */
static double token_rate(const struct view *s, const struct bb_hybrid_division *division)
{
	return (double)s->space.batch * (double)s->h->model.hyper.seq /
	       (division->cost.step * s->cluster.ranks);
}

/* The FLOPs that it does for them each second, without recomputation and without the masked half of
   attention, which FlashAttention skips. */
static double flop_rate(const struct view *s, const struct bb_hybrid_division *division)
{
	const struct bb_model *m = &s->h->model;
	const struct bb_layers_work *const all = &s->layout.works[m->blocks + 2];
	const double masked = division->training.eager ? 0 : all->core - all->flash;

	return token_rate(s, division) * (m->forward + m->backward - 3 * masked) /
	       (double)m->hyper.seq;
}

/* ---- records --------------------------------------------------------------------------------- */

static void division_describe(const struct view *s, const struct bb_hybrid_division *division,
			      struct bb_hybrid_plan_record *r)
{
	const struct bb_training *t = &division->training;
	const struct bb_grid *g = &division->grid;
	const struct bb_hybrid_cost *c = &division->cost;
	const struct bb_volume *of = division->volume.of;

	bb_record_init(&bb_record_hybrid_plan, r);
	r->model = s->h->model.name;
	r->order = bb_grid_order_names[g->order];
	r->recompute = bb_recompute_words[t->recompute];
	r->tightest = bb_category_words[bb_need_tightest(&division->need)];
	r->nranks = s->cluster.ranks;
	r->tokens_per_s = token_rate(s, division);
	r->flops_share = flop_rate(s, division) / s->cluster.flops;
	r->mfu = flop_rate(s, division) / s->peak;
	r->node = s->cluster.node;
	r->tp = g->tp;
	r->pp = g->pp;
	r->dp = g->dp / g->cp;
	r->cp = g->cp;
	r->context = r->cp == 1 ? NULL : bb_context_words[division->exchanges];
	r->schedule = g->pp == 1 ? NULL : plan_schedule(division);
	r->scatter_gather = division->scatter;
	r->virtual_stages = (int64_t)t->chunks;
	r->attention = bb_attention_words[t->eager];
	r->overlap = bb_overlap_words[division->overlap];
	r->ep = bb_grid_expert_ranks(g);
	r->etp = g->etp;
	r->dispatch = r->ep == 1 ? NULL : bb_dispatch_words[division->by_node];
	r->micro_batch = (int64_t)t->micro_batch;
	r->micro_batches = (int64_t)t->micro_batches;
	r->zero = t->zero;
	r->sequence_parallel = t->sequence_parallel;
	r->published = is_published(s, g);
	r->memory_bytes = (int64_t)division->need.total;
	r->memory_limit_bytes = (int64_t)s->cluster.memory;
	r->tensor_crossing = plan_crossing(s, division, BB_TRAFFIC_TENSOR);
	r->expert_crossing = plan_crossing(s, division, BB_TRAFFIC_EXPERT);
	r->pipeline_crossing = plan_crossing(s, division, BB_TRAFFIC_PIPELINE);
	r->data_crossing = plan_crossing(s, division, BB_TRAFFIC_DATA);
	r->step_us = 1e6 * c->step;
	r->compute_us = 1e6 * c->of[BB_TERM_COMPUTE];
	r->bubble_us = 1e6 * c->of[BB_TERM_BUBBLE];
	r->tensor_us = 1e6 * c->of[BB_TRAFFIC_TENSOR];
	r->local_us = 1e6 * c->local;
	r->launch_us = 1e6 * c->of[BB_TERM_LAUNCH];
	r->context_us = 1e6 * c->of[BB_TRAFFIC_CONTEXT];
	r->expert_us = 1e6 * c->of[BB_TRAFFIC_EXPERT];
	r->pipeline_us = 1e6 * c->of[BB_TRAFFIC_PIPELINE];
	r->data_us = 1e6 * c->of[BB_TRAFFIC_DATA];
	r->embedding_us = 1e6 * c->of[BB_TRAFFIC_EMBEDDING];
	r->bubble_over_ideal = (double)(g->pp - 1) / (double)t->micro_batches;
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

/* ---- text ------------------------------------------------------------------------------------ */

static void add_setting(const struct view *s)
{
	const struct bb_hybrid_cluster *c = &s->cluster;
	const struct bb_hybrid_preset *p = s->h->options.preset;
	char in[BB_UNIT_TEXT], between[BB_UNIT_TEXT];

	bb_strbuf_addf(s->out,
		       "# busbench version %s\n# %s: %s, %llu parameters, %lld tokens per "
		       "sequence, %llu sequence%s per step\n",
		       BB_VERSION, s->run->options.program, s->h->model.name,
		       (unsigned long long)s->h->model.parameters, (long long)s->h->model.hyper.seq,
		       (unsigned long long)s->space.batch, bb_plural((long long)s->space.batch));
	bb_model_add_origin(s->out, &s->h->model);
	bb_strbuf_addf(s->out, "# %d rank%s, %d per node, %.4g TFLOPS each; order %s\n", c->ranks,
		       bb_plural(c->ranks), c->node, 1e-12 * c->flops,
		       bb_grid_order_names[s->space.grid.order]);
	bb_strbuf_add(s->out, "# memory of a rank: ");
	bb_capacity_add(s->out, &s->h->capacity);
	bb_strbuf_add(s->out, "\n");
	bb_strbuf_addf(s->out,
		       "# links of a rank: within a node %.4g GB/s, %s; between nodes %.4g GB/s, "
		       "%s\n",
		       1e-9 * c->inside.rate, bb_format_duration(in, c->inside.latency),
		       1e-9 * c->between.rate, bb_format_duration(between, c->between.latency));
	bb_strbuf_addf(s->out, "# overlap: %s; operations that the memory limits ",
		       bb_overlap_words[s->space.base.overlap]);
	if (c->memory_rate > 0)
		bb_strbuf_addf(s->out, "at %.4g GB/s\n", 1e-9 * c->memory_rate);
	else
		bb_strbuf_add(s->out, "take no time (--memory-rate)\n");
	/* The launch time is that of docs/training_runs.md. */
	if (s->h->model.hyper.experts && c->launch > 0)
		bb_strbuf_addf(s->out, "# launch of a layer with experts: %s\n",
			       bb_format_duration(in, c->launch));
	else if (s->h->model.hyper.experts)
		bb_strbuf_add(s->out, "# launches of layers with experts take no time "
				      "(--launch-time; on H100 9.3 ms)\n");
	if (p)
		bb_strbuf_addf(s->out, "# preset %s: %s; assumed: %s\n", p->name, p->source,
			       p->assumed);
	if (p && p->run_flops > 0 && !s->h->options.flops_given)
		bb_strbuf_addf(s->out,
			       "# the whole run reached %.4g TFLOPS with communication and bubble; "
			       "computations alone reach %.4g\n",
			       1e-12 * p->run_flops, 1e-12 * c->flops);
	bb_strbuf_addf(s->out,
		       "#\n# Divisions of the model, fastest first. Seconds per step; * crosses "
		       "nodes%s\n#\n",
		       p ? "; > published" : "");
}

/* The divisions that are listed, each with its reason: the best ones, and the published one. */
static void add_divisions(const struct view *s)
{
	static const struct bb_table_head ranks[] = {
		{"", "", 0}, {"dp", "", 0}, {"tp", "", 0}, {"pp", "", 0}, {NULL, NULL, 0}};
	static const struct bb_table_head expert_ranks[] = {
		{"ep", "", 0}, {"etp", "", 0}, {NULL, NULL, 0}};
	static const struct bb_table_head settings[] = {
		{"cp", "", 0},        {"cp-by", "", 0},      {"schedule", "", 0},
		{"virtual", "", 0},   {"ZeRO", "", 0},       {"sequence", "", 0},
		{"scatter", "", 0},   {"micro", "", 0},      {"micros", "", 0},
		{"recompute", "", 0}, {"memory", "(GB)", 0}, {"tokens/s", "(rank)", 0},
		{"step", "", 0},      {"compute", "", 0},    {"bubble", "", 0},
		{NULL, NULL, 0},
	};
	const bool experts = s->h->model.hyper.experts, launches = s->cluster.launch > 0;
	/* Experts and context are columns only where there are any. */
	const bool shown[BB_TRAFFICS] = {
		[BB_TRAFFIC_TENSOR] = true,
		[BB_TRAFFIC_EXPERT] = experts,
		[BB_TRAFFIC_CONTEXT] = s->space.grid.cp == BB_ANY || s->space.grid.cp > 1,
		[BB_TRAFFIC_PIPELINE] = true,
		[BB_TRAFFIC_DATA] = true,
	};
	struct bb_text_table table = {.limit = bb_table_limit(stdout)};
	char why[REASON];

	bb_table_columns(&table, ranks, 4);
	if (experts)
		bb_table_columns(&table, expert_ranks, 4);
	bb_table_columns(&table, settings, 4);
	if (launches)
		bb_table_column(&table, "launch", "", 0);
	for (int i = 0; i < BB_TRAFFICS; i++)
		if (shown[i])
			bb_table_column(&table, bb_term_words[i], "", 0);
	bb_table_column(&table, "why", "", -1);
	for (size_t n = 0; n < s->plan.n; n++) {
		const struct bb_hybrid_division *division = &s->plan.list[n];
		const struct bb_training *t = &division->training;
		const struct bb_grid *g = &division->grid;
		const double *of = division->cost.of;
		const bool published = is_published(s, g);

		if (n >= (size_t)s->h->options.best && !published)
			continue;
		bb_table_cellf(&table, "%s\t%d\t%d\t%d", published ? ">" : "", g->dp / g->cp, g->tp,
			       g->pp);
		if (experts)
			bb_table_cellf(&table, "%d\t%d", bb_grid_expert_ranks(g), g->etp);
		bb_table_cellf(&table, "%d\t%s\t%s\t%llu\t%d\t%s\t%s\t%llu\t%llu\t%s", g->cp,
			       g->cp > 1 ? bb_context_words[division->exchanges] : "-",
			       plan_schedule(division), (unsigned long long)t->chunks, t->zero,
			       t->sequence_parallel ? "yes" : "no",
			       division->scatter ? "yes" : "no", (unsigned long long)t->micro_batch,
			       (unsigned long long)t->micro_batches,
			       bb_recompute_words[t->recompute]);
		bb_table_cellf(&table, "%.1f\t%.0f\t%.3f\t%.3f\t%.3f",
			       1e-9 * (double)division->need.total, token_rate(s, division),
			       division->cost.step, of[BB_TERM_COMPUTE], of[BB_TERM_BUBBLE]);
		if (launches)
			bb_table_cellf(&table, "%.3f", of[BB_TERM_LAUNCH]);
		for (int i = 0; i < BB_TRAFFICS; i++)
			if (shown[i])
				bb_table_cellf(&table, "%.3f%s", of[i],
					       division->crosses[i] ? "*" : "");
		bb_table_cell(&table, plan_explain(&s->plan, n, why));
	}
	if (s->plan.n > 0)
		bb_table_print(&table, s->out);
	bb_table_free(&table);
}

/* The bytes that a rank sends in a step of DIVISION, and the groups that cross nodes. */
static void add_traffic(const struct view *s, const struct bb_hybrid_division *division)
{
	static const struct bb_table_head heads[] = {{"part", "", -9},
						     {"calls", "", 8},
						     {"sent", "(GB)", 12},
						     {"groups", "", -1},
						     {NULL, NULL, 0}};
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	char name[NAME];

	bb_table_columns(&t, heads, 1);
	bb_strbuf_addf(s->out, "#\n# %s: bytes that a rank of the slowest stage sends per step\n",
		       plan_name(division, name));
	for (int i = 0; i <= BB_TRAFFIC_DATA; i++) {
		const struct bb_volume *v = &division->volume.of[i];
		const int size = i == BB_TRAFFIC_EXPERT
					 ? bb_grid_expert_ranks(&division->grid)
					 : bb_grid_size(&division->grid, bb_traffic_axes[i]);

		if (v->calls > 0)
			bb_table_cellf(&t, "%s\t%llu\t%.3f\t%d of %d groups of %d cross nodes",
				       bb_term_words[i], (unsigned long long)v->calls,
				       1e-9 * v->sent, plan_crossing(s, division, i),
				       s->cluster.ranks / size, size);
	}
	bb_table_print(&t, s->out);
	bb_table_free(&t);
}

/* What DIVISION reaches, and the communication that computations wait for. */
static void add_rates(const struct view *s, const struct bb_hybrid_division *division)
{
	const double rate = flop_rate(s, division), tokens = token_rate(s, division);
	const struct bb_training *t = &division->training;
	const struct bb_grid *g = &division->grid;
	bool any = false;
	char name[NAME];

	bb_strbuf_addf(s->out, "#\n# %s%s%s", plan_name(division, name), g->cp > 1 ? " by " : "",
		       g->cp > 1 ? bb_context_words[division->exchanges] : "");
	if (s->h->model.hyper.experts)
		bb_strbuf_addf(s->out, ", ep %d, etp %d", bb_grid_expert_ranks(g), g->etp);
	if (t->pp > 1)
		bb_strbuf_addf(s->out, ", %s, %llu virtual stage%s", plan_schedule(division),
			       (unsigned long long)t->chunks, bb_plural((long long)t->chunks));
	bb_strbuf_addf(s->out, ", ZeRO %d%s%s:\n", t->zero,
		       t->sequence_parallel ? ", sequence parallel" : "",
		       division->scatter ? ", messages scattered" : "");
	bb_strbuf_addf(s->out, "# %.*f tokens per second and rank, %.1f%% of --flops for the model",
		       tokens < 1000, tokens, 100 * rate / s->cluster.flops);
	if (!isnan(s->peak))
		bb_strbuf_addf(s->out, " (MFU %.1f%% of %.4g TFLOPS)", 100 * rate / s->peak,
			       1e-12 * s->peak);
	bb_strbuf_addf(s->out, "\n# memory: %.1f of %.1f GB usable\n",
		       1e-9 * (double)division->need.total, 1e-9 * (double)s->cluster.memory);
	bb_strbuf_add(s->out, "# exposed communication:");
	for (int i = 0; i < BB_TRAFFICS; i++)
		if (division->cost.of[i] > 0) {
			bb_strbuf_addf(s->out, "%s %s %.3f s", any ? "," : "", bb_term_words[i],
				       division->cost.of[i]);
			any = true;
		}
	bb_strbuf_add(s->out, any ? "\n" : " none\n");
	if (division->cost.of[BB_TERM_LAUNCH] > 0)
		bb_strbuf_addf(s->out,
			       "# waits for the CPU, which launches layers with experts: %.3f s; a "
			       "larger micro-batch has fewer\n",
			       division->cost.of[BB_TERM_LAUNCH]);
}

static void division_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
			   struct bb_strbuf *out)
{
	char text[REASON];

	plan_compare(behind->own, ahead->own, true, "", text);
	bb_strbuf_add(out, text);
}

/* What is not listed, what the best division and the published one reach and send, and the best
   with the runner-up. */
static void add_plan(const struct view *s)
{
	const struct bb_hybrid_plan *plan = &s->plan;
	const struct bb_hybrid_division *nearest = &plan->nearest;
	struct bb_best best = {
		.choice = {.subject = "division", .unit = " per step", .cause = division_cause}};
	char name[NAME], why[REASON];
	size_t published = 0, answer;

	bb_strbuf_addf(s->out, "#\n# %zu of %zu divisions of %d rank%s are possible", plan->n,
		       plan->tried, s->cluster.ranks, bb_plural(s->cluster.ranks));
	for (int i = 0; i < BB_MISFITS; i++)
		if (plan->misfits[i])
			bb_strbuf_addf(s->out, "; %zu: %s", plan->misfits[i], bb_misfit_reasons[i]);
	bb_strbuf_add(s->out, "\n");
	if (nearest->need.total > 0)
		bb_strbuf_addf(s->out,
			       "# nearest to fitting: %s needs %.1f of %.1f GB, most of it %s\n",
			       plan_name(nearest, name), 1e-9 * (double)nearest->need.total,
			       1e-9 * (double)s->cluster.memory,
			       bb_category_words[bb_need_tightest(&nearest->need)]);
	if (plan->n == 0)
		return;
	add_rates(s, &plan->list[0]);
	while (published < plan->n && !is_published(s, &plan->list[published].grid))
		published++;
	if (published < plan->n)
		bb_strbuf_addf(
			s->out,
			"# the published division is number %zu of %zu, %.1f%% slower than "
			"the best: %s\n",
			published + 1, plan->n,
			100 * (plan->list[published].cost.step / plan->list[0].cost.step - 1),
			plan_explain(plan, published, why));
	add_traffic(s, &plan->list[0]);
	if (published > 0 && published < plan->n)
		add_traffic(s, &plan->list[published]);
	for (size_t i = 0; i < plan->n; i++)
		bb_best_add(&best,
			    (struct bb_candidate){.seconds = plan->list[i].cost.step,
						  .own = &plan->list[i]},
			    "%s", plan_name(&plan->list[i], name));
	bb_strbuf_add(s->out, plan->n > 1 ? "#\n" : "");
	answer = s->out->length;
	bb_best_recommend(&best, s->out);
	bb_run_answer(s->run, s->out, answer);
}

bb_status bb_hybrid_show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_hybrid *h = run->own;
	struct view s = {.run = run, .out = out, .h = h};
	struct bb_hybrid_plan_record r;
	char why[REASON];
	bb_status status;

	BB_TRY(status, plan_prepare(&s), out);
	BB_TRY(status, bb_hybrid_plan_make(&s.plan, &s.cluster, &s.space, &run->error), out);
	BB_TRY(status, bb_estimate_open(run, &bb_record_hybrid_plan, s.cluster.ranks, NULL), out);
	add_setting(&s);
	add_divisions(&s);
	add_plan(&s);
	for (size_t i = 0; i < s.plan.n && status == BB_OK; i++) {
		division_describe(&s, &s.plan.list[i], &r);
		r.place = (int64_t)i + 1;
		r.reason = plan_explain(&s.plan, i, why);
		status = bb_estimate_record(run, &bb_record_hybrid_plan, &r);
	}
	if (status == BB_OK && s.plan.n == 0)
		status = bb_fail(&run->error, BB_EUNSUPPORTED,
				 "--plan: no division of %s among %d ranks is possible; the "
				 "listing has the reasons",
				 h->model.name, s.cluster.ranks);
	status = bb_estimate_end(run, out, status);
out:
	bb_sinks_close(&run->sinks);
	free(s.plan.list);
	bb_model_layout_free(&s.layout);
	bb_model_free(&h->model);
	return status;
}
