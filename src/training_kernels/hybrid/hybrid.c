/*
 * hybrid.c - hybrid-parallel training: published runs, options, records and descriptor of the
 * benchmark.
 */
#include "training_kernels/hybrid/hybrid.h"

#include "core/units.h"
#include "harness/measure/algorithms.h"
#include "harness/run/options.h"
#include "simulator/cluster/cluster.h"

#include <math.h>
#include <stdlib.h>

/* ---- published runs -------------------------------------------------------------------------- */

#define GIB(n) ((uint64_t)(n) << 30)

static const struct bb_hybrid_preset presets[] = {
	/* Four links of 100 Gb/s of a node are shared by its eight GPUs; NVLink 3 carries 300 GB/s
	   each way. 150 TFLOPS and some 105 s a step are one figure: 96 B s L h^2 (1 + s / 6h +
	   V / 16Lh) / (384 x 150 TFLOPS) is 104.5 s, recomputation counted. */
	{
		.name = "bloom-176b",
		.source = "BigScience 2022: model card of bloom and its chronicles: 48 nodes of 8 "
			  "A100 80GB, TP 4, PP 12, DP 8, ZeRO 1, batch 2048, micro-batch 2, all "
			  "recomputed, 150 TFLOPS of the run",
		.assumed = "latencies",
		.model = "bloom-176b",
		.grid = {4, 12, 8, 1, BB_GRID_TP_PP_DP, .cp = 1, .etp = 4},
		.node = 8,
		.batch = 2048,
		.micro_batch = 2,
		.recompute = BB_RECOMPUTE_FULL,
		.zero = 1,
		.memory = GIB(80),
		.run_flops = 150e12,
		.inside = {300e9, 5e-6},
		.between = {6.25e9, 5e-6},
	},
	/* The 32 workers have no model. DeepSpeed's example of 3D parallelism trains GPT-2 345M, 16
	   micro-batches of 4 in each replica, so here 128 in two. */
	{
		.name = "deepspeed-3d",
		.source = "DeepSpeed 2020: its 32 workers, 8 nodes of 4 GPUs, model 4, pipeline 4, "
			  "data 2, ZeRO 1; model, micro-batch 4, accumulation 16 and recomputation "
			  "of DeepSpeedExamples, Megatron-LM-v1.1.5-3D_parallelism, "
			  "ds_pretrain_gpt2_pipe.sh",
		.assumed = "V100s of 32 GB with NVLink 2, at half of 125 TFLOPS, and 100 Gb/s a "
			   "node",
		.model = "gpt2:layers=24,hidden=1024,heads=16,vocab=50257,seq=1024",
		.grid = {4, 4, 2, 1, BB_GRID_TP_DP_PP, .cp = 1, .etp = 4},
		.node = 4,
		.batch = 128,
		.micro_batch = 4,
		.recompute = BB_RECOMPUTE_FULL,
		.zero = 1,
		.memory = GIB(32),
		.flops = 62.5e12,
		.inside = {150e9, 5e-6},
		.between = {3.125e9, 5e-6},
	},
	{.name = NULL},
};

void bb_hybrid_cluster_set(struct bb_hybrid_cluster *cluster, const struct bb_cluster *c)
{
	cluster->node = c->gpus * c->domain;
	cluster->inside = (struct bb_cluster_link){c->gpu_rate, c->figures[BB_FIGURE_GPU_LATENCY]};
	cluster->between = (struct bb_cluster_link){c->nic_rate / (c->rails ? c->rail_gpus[0] : 1),
						    c->figures[BB_FIGURE_NET_LATENCY]};
}

/* ---- options --------------------------------------------------------------------------------- */

#define MOST_RANKS 1000000
#define MOST_BATCH (INT64_C(1) << 30)

static const char *hybrid_preset_name(int index)
{
	return presets[index].name;
}

const char *const bb_dispatch_words[] = {"ranks", "nodes", NULL};
const char *const bb_context_words[] = {"ring", "all-to-all", "any", NULL};

static const char *const recompute_names[] = {"none", "selective", "full", "any", NULL};

#define BB_OPTIONS struct bb_hybrid_options
static const struct bb_option hybrid_rows[] = BB_OPTION_ROWS(BB_HYBRID_OPTIONS);

/*
 * Takes the settings of the preset that the user does not give. Its FLOPs per second of a rank's
 * computations, whatever other options say, are given or derived from the rate of the run
 * (bb_hybrid_division_rate). None of the runs had FlashAttention. Failures are those of opening its
 * model.
 */
static bb_status apply_preset(struct bb_hybrid_options *a, struct bb_options *o,
			      struct bb_error *error)
{
	const struct bb_hybrid_preset *p = a->preset = &presets[a->preset_choice];
	const struct bb_hybrid_cluster cluster = {.ranks = bb_grid_ranks(&p->grid),
						  .node = p->node,
						  .inside = p->inside,
						  .between = p->between};
	struct bb_model_layout layout = {.before = NULL};
	struct bb_model model = {.tensors = NULL};
	struct bb_hybrid_division division = {.training = bb_training_alone(&model)};
	struct bb_training *const t = &division.training;
	bb_status status = BB_OK;

	a->order = a->order_given ? a->order : (int)p->grid.order;
	a->attention = a->attention_given ? a->attention : BB_ATTENTION_EAGER;
	a->zero = a->zero_given ? a->zero : p->zero;
	a->recompute = a->recompute_given ? a->recompute : (int)p->recompute;
	a->model_text = a->model_text_given ? a->model_text : p->model;
	a->batch = a->batch_given ? a->batch : (int64_t)p->batch;
	a->micro_batch = a->micro_batch_given ? a->micro_batch : (int64_t)p->micro_batch;
	a->batch_given = a->micro_batch_given = true;
	a->node = a->node_given ? a->node : p->node;
	if (a->plan) {
		a->ranks = a->ranks_given ? a->ranks : cluster.ranks;
		a->ranks_given = true;
		a->memory = a->memory_given ? a->memory : p->memory;
	} else {
		a->tp = a->tp_given ? a->tp : p->grid.tp;
		a->pp = a->pp_given ? a->pp : p->grid.pp;
		a->dp = a->dp_given ? a->dp : p->grid.dp;
	}
	if (a->plan && !o->link.text && !o->virtual.cluster) {
		o->config.link_rate = p->inside.rate;
		o->config.link_latency = p->inside.latency;
		if (!a->node_link_given) {
			a->node_link.rate = p->between.rate;
			a->node_link.latency = p->between.latency;
		}
		a->node_link_given = true;
	}
	if (a->flops_given || a->pass_ns_given)
		return BB_OK;
	a->flops = p->flops;
	if (p->run_flops <= 0)
		return BB_OK;
	BB_TRY(status, bb_model_open(&model, p->model, 0, error), out);
	BB_TRY(status, bb_model_layout_make(&layout, &model, 0, error), out);
	t->layout = &layout;
	t->zero = p->zero;
	t->micro_batch = p->micro_batch;
	t->micro_batches = p->batch / (uint64_t)p->grid.dp / p->micro_batch;
	t->recompute = p->recompute;
	t->eager = true;
	bb_hybrid_division_set(&division, &p->grid);
	a->flops = bb_hybrid_division_rate(&division, &cluster, p->run_flops);
out:
	bb_model_layout_free(&layout);
	bb_model_free(&model);
	return status;
}

/* ---- the check ------------------------------------------------------------------------------- */

static bb_status hybrid_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			      const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_hybrid *h = own;
	struct bb_hybrid_options *a = &h->options;
	const struct bb_cluster *cluster = o->virtual.cluster;
	const int64_t ranks = o->threads * o->gpus;
	struct bb_cluster_link inside, between;
	bb_status status;

	if (a->preset_choice_given)
		BB_TRY(status, apply_preset(a, o, error), out);
	BB_TRY(status,
	       bb_estimate_capacity(&h->capacity, "--memory", a->memory,
				    a->memory_given || a->preset, a->reserve, cluster, error),
	       out);
	BB_TRY(status, bb_algorithms_check_one(a->algo_text, o, error), out);
	const struct {
		const char *name;
		int64_t n;
	} sizes[] = {{"tp", a->tp}, {"pp", a->pp}, {"dp", a->dp}, {"cp", a->cp}};
	/* --cluster has nodes and links; --node may take a part of its nodes. */
	if (a->plan && cluster) {
		a->ranks = a->ranks_given ? a->ranks : cluster->ranks;
		if (a->ranks > cluster->ranks)
			return bb_fail(
				error, BB_EUSAGE,
				"--ranks %lld: more than the %d of --cluster; give more nodes",
				(long long)a->ranks, cluster->ranks);
		if (a->node_given && a->node > cluster->gpus * cluster->domain)
			return bb_fail(
				error, BB_EUSAGE,
				"--node %lld: more than the %d ranks of a node of --cluster; "
				"give at most as many",
				(long long)a->node, cluster->gpus * cluster->domain);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && a->plan; i++)
		if (sizes[i].n > 0 && a->ranks % sizes[i].n != 0)
			return bb_fail(error, BB_EUSAGE,
				       "--%s %lld: does not divide the %lld ranks; give a divisor",
				       sizes[i].name, (long long)sizes[i].n, (long long)a->ranks);
	BB_TRY(status, bb_model_open(&h->model, a->model_text, a->seq, error), out);
	if (h->model.hyper.heads == 0 || h->model.hyper.seq == 0)
		return bb_fail(error, BB_EUSAGE, "--model %s: not a transformer; give one",
			       a->model_text);
	if (!a->node_link_given) {
		a->node_link.rate = o->config.link_rate;
		a->node_link.latency = o->config.link_latency;
	}
	if (a->plan)
		return bb_check_outputs(o, NULL, environment->launch.proc == 0, error);
	if (!a->node_link_given)
		return BB_OK;
	/* Nodes in virtual time: --link within a node, --node-link between nodes. */
	if (!o->backend->virtual || o->config.link_rate <= 0)
		return bb_fail(error, BB_EUSAGE,
			       "--node-link needs --plan or virtual time; give --backend sim "
			       "and --link, or leave it out");
	if (ranks % a->node || a->node > BB_MOST_GPUS)
		return bb_fail(
			error, BB_EUSAGE,
			"--node %lld: does not divide the %lld ranks; give a divisor of at most "
			"%d",
			(long long)a->node, (long long)ranks, BB_MOST_GPUS);
	inside = (struct bb_cluster_link){o->config.link_rate, o->config.link_latency};
	between = (struct bb_cluster_link){a->node_link.rate, a->node_link.latency};
	status = bb_cluster_of_links(&h->nodes, (int)(ranks / a->node), (int)a->node, &inside,
				     &between, error);
	o->virtual.cluster = h->nodes;
out:
	return status;
}

/* ---- the records ----------------------------------------------------------------------------- */

#define BB_RECORD bb_hybrid_plan_record
BB_RECORD_KIND(bb_record_hybrid_plan, BB_HYBRID_PLAN_FIELDS, "hybrid_plan",
	       "Hybrid-parallel training: a division of a model, as planned.");

static void hybrid_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_hybrid_record *r = record;

	bb_strbuf_addf(
		out,
		"# %s: dp %lld, tp %lld, pp %lld, ep %lld (%s), ZeRO %lld%s, %lld micro-batch%s "
		"of %lld sequence%s per replica; collectives: %s; computations: %s; attention: "
		"%s\n",
		r->model, (long long)r->dp, (long long)r->tp, (long long)r->pp, (long long)r->ep,
		r->order, (long long)r->zero, r->sequence_parallel ? ", sequence parallel" : "",
		(long long)r->micro_batches, r->micro_batches == 1 ? "" : "es",
		(long long)r->micro_batch, bb_plural(r->micro_batch), r->algorithm, r->compute,
		r->attention);
	bb_strbuf_addf(out, "# this division %s\n# links: %s\n", r->fit, r->links);
	if (!isnan(r->plan_us))
		bb_strbuf_addf(out,
			       "# plan: formula of --plan with rings and all stages as slow as the "
			       "slowest; the bubble of its step is %.3f ms\n",
			       1e-3 * r->plan_bubble_us);
	bb_strbuf_add(
		out, "# alone: median of the part without the others. in step: mean of ranks, with "
		     "waits for partners; pipeline: waits for messages\n"
		     "# sent: by the rank that sends most; by an algorithm of a library, the least "
		     "of all algorithms\n");
}

#undef BB_RECORD
#define BB_RECORD bb_hybrid_record
BB_RECORD_KIND(bb_record_hybrid, BB_HYBRID_FIELDS, "hybrid",
	       "Hybrid-parallel training: a step, or a part of it alone.", .about = hybrid_about);

/* ---- the benchmark --------------------------------------------------------------------------- */

static void hybrid_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "published runs (--preset):\n");
	for (const struct bb_hybrid_preset *p = presets; p->name; p++)
		bb_strbuf_item(out, 4, p->name, 19, p->source);
	bb_model_list(out);
}

static void close_hybrid(struct bb_run *run)
{
	struct bb_hybrid *h = run->own;

	bb_model_free(&h->model);
	bb_cluster_free(h->nodes);
	bb_moe_load_free(&h->load);
	free(h->gradients);
}

const struct bb_benchmark bb_hybrid_benchmark = {
	.brief = "Hybrid-parallel training: divisions of a model, and the time of each part of a "
		 "step.",
	.examples = {"--plan --preset bloom-176b", "-g 4 --tp 2 --pp 2 --pass-time 5ms"},
	.own_bytes = sizeof(struct bb_hybrid),
	.options = hybrid_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "sizes follow from the model; leave it out, --batch and "
				   "--micro-batch set them"}},
	.queues = true,
	.shows = "plan",
	.check = hybrid_check,
	.list = hybrid_list,
	.show = bb_hybrid_show,
	.text = &bb_sink_table,
	.rows = &bb_record_hybrid,
	.plan = bb_hybrid_settle,
	.experiment = &bb_hybrid_experiment,
	.close = close_hybrid,
};
