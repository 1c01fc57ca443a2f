/*
 * pipeline.c - pipeline parallelism: options, records and descriptor of the benchmark.
 */
#include "training_kernels/pipeline/pipeline.h"

#include "harness/run/options.h"

#include <stdlib.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define MOST_MICROBATCHES 65535
#define MOST_CHUNKS 64
#define MOST_BYTES (INT64_C(1) << 40)
/* Limits for a microbatch of a model, so that sums over all passes do not overflow. */
#define MOST_SECONDS 1000
#define MOST_KEPT (4 * MOST_BYTES)
#define DEFAULT_STAGES 4

static const char *const costs[] = {[BB_COST_STAGE] = "stage", [BB_COST_STEP] = "step", NULL};

#define BB_OPTIONS struct bb_pipeline_options
const struct bb_option bb_pipeline_rows[] = BB_OPTION_ROWS(BB_PIPELINE_OPTIONS);

/* ---- the model ------------------------------------------------------------------------------- */

/* Nanoseconds of FLOPS; 0 FLOPs take no time. */
static int64_t ns_of(const struct bb_pipeline_options *a, double flops)
{
	return flops > 0 ? 1 + (int64_t)(1e9 * flops * (double)a->batch / a->flops) : 0;
}

/*
 * Takes the mean times of layers from the FLOPs of the model, and their activations, in 16 bits,
 * from models/memory/activations.h. W of a layer needs the inputs of its matrix products and the
 * gradients of their outputs, of all routes: 32 s b h for an inner width of 4 h (arXiv 2401.10241,
 * 2.3). The embedding is on the first stage; norm, head or pooler and the loss are on the last.
 * Messages have 2 s b h bytes. False: the numbers exceed the limits.
 */
static bool pipeline_apply_model(const struct bb_model *m, struct bb_pipeline_options *a,
				 struct bb_pipeline *p)
{
	const struct bb_layer layer = bb_layer_of_model(m, false, (uint64_t)a->batch, 2);
	const uint64_t head = m->logits ? bb_head_kept(&layer, (uint64_t)m->hyper.vocab) : 0;
	const double seconds = (m->forward + m->backward) * (double)a->batch / a->flops;
	const uint64_t blocks = (uint64_t)m->blocks;
	struct bb_pipeline_end all = {0, 0, 0, 0, 0};
	uint64_t kept = 0, weights = 0;

	for (int i = 0; i < m->blocks; i++) {
		struct bb_layer l =
			bb_layer_of_model(m, bb_model_block(m, i).sparse, (uint64_t)a->batch, 2);
		const uint64_t attention = 2 * l.hidden + 2 * l.queries + 2 * l.keys;
		const uint64_t inner = 2 * l.hidden + (l.gated ? 3 : 2) * l.ffn;
		const uint64_t need = l.seq * l.batch * l.bytes *
				      (attention + l.routes * inner + (uint64_t)l.extra);
		uint64_t bytes;

		l.eager = a->attention == BB_ATTENTION_EAGER;
		bytes = bb_layer_kept(&l, BB_RECOMPUTE_NONE);
		kept = bb_bytes_add(kept, bytes);
		weights = bb_bytes_add(weights, need < bytes ? need : bytes);
	}
	kept /= blocks;
	weights /= blocks;
	if (bb_bytes_add(bb_bytes_times(kept, blocks), head) > MOST_KEPT || seconds > MOST_SECONDS)
		return false;
	for (size_t i = 0; i < m->nworks; i++) {
		const struct bb_work *work = &m->works[i];
		struct bb_pipeline_end *to = work->layer < 0            ? &p->first
					     : work->layer >= m->blocks ? &p->last
									: &all;

		to->f += ns_of(a, work->forward);
		to->b += ns_of(a, work->input);
		to->w += ns_of(a, work->weights);
	}
	p->layers = m->blocks;
	p->f = all.f / m->blocks;
	p->b = all.b / m->blocks;
	p->w = all.w / m->blocks;
	p->kept = (int64_t)kept;
	p->kept_w = (int64_t)weights;
	p->first.kept = (int64_t)bb_embedding_kept(&layer);
	p->last.kept = (int64_t)head;
	/* W needs the input of the head and the gradients of the logits. */
	p->last.kept_w = (int64_t)(head - (head ? layer.seq * layer.batch * layer.hidden * 2 : 0));
	a->message_bytes = 2 * layer.seq * layer.batch * layer.hidden;
	return true;
}

static bb_status pipeline_check_model(struct bb_pipeline_state *state, struct bb_error *error)
{
	struct bb_pipeline_options *a = &state->options;
	struct bb_model *model = &state->model;
	bb_status status;

	if (!a->model_text)
		return BB_OK;
	BB_TRY(status, bb_model_open(model, a->model_text, a->seq, error), out);
	bb_attention_apply(model, (enum bb_attention)a->attention);
	if (model->hyper.heads == 0 || model->hyper.seq == 0)
		status = bb_fail(error, BB_EUSAGE,
				 "--model %s: not a transformer; give --tf, --tb and --tw",
				 a->model_text);
	else if (model->blocks < a->stages)
		status = bb_fail(error, BB_EUSAGE,
				 "--stages %lld: more than the %d layers of %s; "
				 "give at most as many",
				 (long long)a->stages, model->blocks, a->model_text);
	else if (!pipeline_apply_model(model, a, &state->pipeline))
		status = bb_fail(error, BB_EUSAGE,
				 "--model: a microbatch takes more than %d s or more than 4 TiB; "
				 "give a smaller --batch or --seq, or more --flops",
				 MOST_SECONDS);
	else
		status = bb_model_layout_make(&state->layout, model, 0, error);
out:
	return status;
}

/* ---- together -------------------------------------------------------------------------------- */

static bb_status pipeline_check(const struct bb_benchmark *benchmark, void *own,
				struct bb_options *o, const struct bb_environment *environment,
				struct bb_error *error)
{
	struct bb_pipeline_state *state = own;
	struct bb_pipeline_options *a = &state->options;
	const int64_t chunks = a->chunks > 2 ? a->chunks : 2;
	bb_status status;

	/* One rank that runs nothing is enough, and the link is that of the prediction. */
	if (a->predict) {
		if (o->link.text)
			state->link = (struct bb_link_model){.rate = o->config.link_rate,
							     .latency = o->config.link_latency};
		o->link.text = NULL;
		o->config.link_rate = o->config.link_latency = 0;
	} else {
		bb_estimate_set_ranks(o, environment, a->stages_given ? a->stages : DEFAULT_STAGES);
	}
	if (!a->stages_given && a->predict)
		a->stages = DEFAULT_STAGES;
	else if (!a->stages_given)
		a->stages = bb_estimate_ranks(o, environment);
	if (a->iters_given || !o->exact)
		o->iters = a->iters;
	state->pipeline = (struct bb_pipeline){
		.stages = (int)a->stages,
		.microbatches = (int)a->microbatches,
		.chunks = (int)a->chunks,
		.f = (int64_t)a->tf_ns,
		.b = (int64_t)a->tb_ns,
		.w = (int64_t)a->tw_ns,
		.kept = (int64_t)a->mb_bytes,
		.kept_w = (int64_t)(a->mw_bytes ? a->mw_bytes : a->mb_bytes / 2),
		.limit = a->memory ? a->memory : 2 * a->stages,
		.by_step = a->cost == BB_COST_STEP,
	};
	BB_TRY(status, pipeline_check_model(state, error), out);
	BB_TRY(status,
	       bb_estimate_capacity(&state->capacity, "--rank-memory", a->rank_memory,
				    a->rank_memory_given, a->reserve, o->cluster, error),
	       out);
	if (state->pipeline.kept_w > state->pipeline.kept)
		return bb_fail(error, BB_EUSAGE,
			       "--mw: more than --mb, of which it is a part; give at most --mb");
	if (3 * a->stages * a->microbatches * chunks > BB_PIPELINE_PASSES)
		return bb_fail(error, BB_EUSAGE,
			       "--stages, --microbatches and --chunks make more than %lld passes; "
			       "give fewer",
			       (long long)BB_PIPELINE_PASSES);
out:
	return status;
}

/* ---- the records ----------------------------------------------------------------------------- */

#define BB_RECORD bb_pipeline_record
BB_RECORD_KIND(bb_record_pipeline, BB_PIPELINE_FIELDS, "pipeline",
	       "Pipelines: the results of one schedule.");

#undef BB_RECORD
#define BB_RECORD bb_pass_record
BB_RECORD_KIND(bb_record_pass, BB_PASS_FIELDS, "pass",
	       "Pipelines with --gantt: one pass of one stage.");

/* ---- the benchmark --------------------------------------------------------------------------- */

static void pipeline_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "schedules:\n");
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		bb_strbuf_item(out, 4, s->name, 17, s->brief);
	bb_model_list(out);
}

static bb_status pipeline_plan(struct bb_run *run)
{
	const struct bb_pipeline_state *state = run->own;
	const struct bb_pipeline_options *a = &state->options;
	const struct bb_pipeline_schedule *first = &bb_pipeline_schedules[a->schedules.list[0]];
	const int n = run->world.nranks;

	if (!a->predict && !run->options.backend->virtual && n != a->stages)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--stages %lld: each stage is a rank, and the number of ranks is "
			       "%d; give as many, or --predict",
			       (long long)a->stages, n);
	for (size_t i = 0; i < a->schedules.n; i++)
		if (!bb_pipeline_refuses(&bb_pipeline_schedules[a->schedules.list[i]],
					 &state->pipeline))
			return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED, "--schedule %s: %s", first->name,
		       bb_pipeline_refuses(first, &state->pipeline));
}

static void pipeline_add_notes(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const bool virtual = run->options.backend->virtual;
	const char *found = virtual ? "simulated" : "measured";

	bb_strbuf_addf(
		out,
		"# step: time until the last pass ends, median of %s steps. /ideal: bubble / time "
		"of "
		"the passes. /total: bubble / step\n"
		"# stage: longest time of a stage from its first pass to its last, the cost of a "
		"step if stages do not meet at its end\n",
		found);
	if (state->options.gantt)
		bb_strbuf_addf(
			out,
			"# charts: a line per stage; each pass is its letter, the number of its "
			"microbatch if there is room, and dashes;\n"
			"# small letters: odd chunks; long B: B and W together; dots: waits; %s "
			"charts show the last step\n",
			found);
	bb_pipeline_text_best(run, out);
}

static void pipeline_close(struct bb_run *run)
{
	struct bb_pipeline_state *state = run->own;

	bb_model_layout_free(&state->layout);
	bb_model_free(&state->model);
	free(state->kept);
	bb_table_free(&state->schedules);
	bb_table_free(&state->stages);
	bb_strbuf_free(&state->fits);
	bb_strbuf_free(&state->misfits);
}

const struct bb_benchmark bb_pipeline_benchmark = {
	.brief = "Pipeline parallelism: the bubble of each schedule, predicted and measured.",
	.examples = {"--stages 4 --microbatches 8 --gantt",
		     "--predict --stages 16 --microbatches 64"},
	.own_bytes = sizeof(struct bb_pipeline_state),
	.options = bb_pipeline_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_SLOW | 1u << BB_FAULT_DIE |
		  1u << BB_FAULT_SWAP,
	.refuses =
		{{BB_ALL_SIZES " precision",
		  "a pipeline has no sweep of sizes; leave it out, --message sets the size of its "
		  "messages, -n the number of timed steps"}},
	.queues = true,
	.programs = true, /* of messages alone */
	.predicts = "predict",
	.check = pipeline_check,
	.list = pipeline_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_pipeline,
	.plan = pipeline_plan,
	.experiment = &bb_pipeline_experiment,
	.close = pipeline_close,
	.sum_up = bb_pipeline_text_sum_up,
	.tell = pipeline_add_notes,
};
