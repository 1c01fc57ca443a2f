/*
 * pipeline.c - pipeline parallelism: options, records, text and descriptor of the benchmark.
 */
#include "training_kernels/pipeline/pipeline.h"

#include "core/array.h"
#include "core/units.h"
#include "harness/run/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
static const struct bb_option pipeline_rows[] = BB_OPTION_ROWS(BB_PIPELINE_OPTIONS);

/* ---- the model ------------------------------------------------------------------------------- */

/* Nanoseconds of FLOPS; 0 FLOPs take no time. */
static int64_t ns_of(const struct bb_pipeline_options *a, double flops)
{
	return flops > 0 ? 1 + (int64_t)(1e9 * flops * (double)a->batch / a->flops) : 0;
}

/*
 * Takes the mean times of layers from the FLOPs of --model, and their activations, in 16 bits, from
 * models/memory/training.h. W of a layer needs the inputs of its matrix products and the
 * gradients of their outputs, of all routes: 32 s b h for an inner width of 4 h (arXiv 2401.10241,
 * 2.3). The embedding is on the first stage; norm, head or pooler and the loss are on the last.
 * Messages have 2 s b h bytes.
 */
static bb_status pipeline_apply_model(struct bb_pipeline_state *state, struct bb_error *error)
{
	struct bb_pipeline_options *a = &state->options;
	struct bb_pipeline *p = &state->pipeline;
	struct bb_model *const m = &state->model;
	struct bb_pipeline_end all = {0, 0, 0, 0, 0};
	uint64_t kept = 0, weights = 0;
	bb_status status;

	BB_TRY(status, bb_model_open(m, a->model_text, a->seq, error), out);
	bb_attention_apply(m, (enum bb_attention)a->attention);
	if (m->hyper.heads == 0 || m->hyper.seq == 0)
		return bb_fail(error, BB_EUSAGE,
			       "--model %s: not a transformer; give --tf, --tb and --tw",
			       a->model_text);
	if (m->blocks < a->stages)
		return bb_fail(error, BB_EUSAGE,
			       "--stages %lld: more than the %d layers of %s; give at most as many",
			       (long long)a->stages, m->blocks, a->model_text);
	const struct bb_layer layer = bb_layer_of_model(m, false, (uint64_t)a->batch, 2);
	const uint64_t head = m->logits ? bb_head_kept(&layer, (uint64_t)m->hyper.vocab) : 0;
	const double seconds = (m->forward + m->backward) * (double)a->batch / a->flops;
	const uint64_t blocks = (uint64_t)m->blocks;

	for (int i = 0; i < m->blocks; i++) {
		struct bb_layer l =
			bb_layer_of_model(m, bb_model_block(m, i).sparse, (uint64_t)a->batch, 2);
		const uint64_t attention = 2 * l.hidden + 2 * l.queries + 2 * l.keys;
		const uint64_t inner = 2 * l.hidden + (l.gated ? 3 : 2) * l.ffn;
		const uint64_t need = l.seq * l.batch * l.bytes *
				      (attention + l.routes * inner + (uint64_t)l.extra);

		l.eager = a->attention == BB_ATTENTION_EAGER;
		const uint64_t bytes = bb_layer_kept(&l, BB_RECOMPUTE_NONE);
		kept = bb_bytes_add(kept, bytes);
		weights = bb_bytes_add(weights, need < bytes ? need : bytes);
	}
	kept /= blocks;
	weights /= blocks;
	if (bb_bytes_add(bb_bytes_times(kept, blocks), head) > MOST_KEPT || seconds > MOST_SECONDS)
		return bb_fail(error, BB_EUSAGE,
			       "--model: a microbatch takes more than %d s or more than 4 TiB; "
			       "give a smaller --batch or --seq, or more --flops",
			       MOST_SECONDS);
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
	status = bb_model_layout_make(&state->layout, m, 0, error);
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
	if (!a->stages_given)
		a->stages = a->predict ? DEFAULT_STAGES : bb_estimate_ranks(o, environment);
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
	if (a->model_text)
		BB_TRY(status, pipeline_apply_model(state, error), out);
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

/* ---- text ------------------------------------------------------------------------------------ */

#define MOST_LINES 16 /* with more stages, they are in the records alone */

/* A row of the schedule, by SOURCE, and rows of its stages: predicted, or MEASURED in any time. */
static void text_add_rows(struct bb_pipeline_state *state, const struct bb_pipeline_record *r,
			  bool measured, const char *source)
{
	const struct bb_numbers spans = measured ? r->stage_us : r->predicted_stage_us;
	const struct bb_numbers peaks =
		measured ? r->counted_peak_microbatches : r->peak_microbatches;
	const struct bb_numbers sent = measured ? r->counted_stage_sent_bytes : r->stage_sent_bytes;
	struct bb_text_table *t = &state->schedules;
	double peak = 0, bytes = 0;

	for (size_t s = 0; s < peaks.n; s++) {
		peak = fmax(peak, peaks.values[s]);
		bytes += sent.values[s];
		if (r->stages > MOST_LINES)
			continue;
		bb_table_cellf(&state->stages, "%s\t%zu\t%s\t%.2f\t%.2f\t%.2f\t%.0f", r->schedule,
			       s, source, spans.values[s] / 1e3, peaks.values[s],
			       r->stage_peak_bytes.values[s] / 1e6, sent.values[s]);
		if (r->layers.n)
			bb_table_cellf(&state->stages, "%.0f", r->layers.values[s]);
	}
	bb_table_cellf(t, "%s\t%lld\t%s", r->schedule, (long long)r->chunks, source);
	if (!measured) {
		bb_table_cellf(t, "%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f\t\t\t%.2f\t%.0f\t",
			       r->predicted_us / 1e3, r->predicted_bubble_over_ideal,
			       r->predicted_bubble_over_total, r->predicted_span_us / 1e3,
			       r->predicted_span_bubble_over_ideal,
			       r->predicted_span_bubble_over_total, peak, bytes);
		return;
	}
	bb_table_cellf(t, "%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f\t%.2f\t%+.1f\t%.2f\t%.0f",
		       r->p50_us / 1e3, r->bubble_over_ideal, r->bubble_over_total,
		       r->span_us / 1e3, r->span_bubble_over_ideal, r->span_bubble_over_total,
		       r->p99_us / 1e3, r->off_percent, peak, bytes);
	if (r->wrong == BB_ABSENT)
		bb_table_cell(t, "N/A");
	else
		bb_table_cellf(t, "%lld", (long long)r->wrong);
}

bb_status bb_pipeline_text_add(struct bb_run *run, const struct bb_pipeline_record *r)
{
	static const struct bb_table_head schedules[] = {
		{"schedule", "", -1},    {"v", "", 0},
		{"time", "", 0},         {"step", "(ms)", 0},
		{"bubble", "/ideal", 0}, {"bubble", "/total", 0},
		{"stage", "(ms)", 0},    {"bubble", "/ideal", 0},
		{"bubble", "/total", 0}, {"p99", "(ms)", 0},
		{"off", "(%)", 0},       {"peak", "(M_B)", 0},
		{"sent", "(B)", 0},      {"#wrong", "", 0},
		{NULL, NULL, 0},
	};
	static const struct bb_table_head stages[] = {
		{"schedule", "", -1}, {"stage", "", 0},    {"time", "", 0},    {"stage", "(ms)", 0},
		{"peak", "(M_B)", 0}, {"peak", "(MB)", 0}, {"sent", "(B)", 0}, {NULL, NULL, 0},
	};
	struct bb_pipeline_state *state = run->own;
	const bool fits = !r->fit || r->memory_bytes <= r->memory_limit_bytes;
	char f[BB_UNIT_TEXT], b[BB_UNIT_TEXT], w[BB_UNIT_TEXT], hop[BB_UNIT_TEXT];
	char message[BB_UNIT_TEXT];
	struct bb_strbuf head = {0};
	bb_status status = BB_OK;

	if (state->schedules.ncolumns == 0) {
		bb_strbuf_addf(&head,
			       "# %lld stage%s, %lld microbatch%s; F %s, B %s, W %s; hop %s (%s), "
			       "message %s",
			       (long long)r->stages, bb_plural(r->stages),
			       (long long)r->microbatches, r->microbatches == 1 ? "" : "es",
			       bb_format_duration(f, 1e-6 * r->f_us),
			       bb_format_duration(b, 1e-6 * r->b_us),
			       bb_format_duration(w, 1e-6 * r->w_us),
			       bb_format_duration(hop, 1e-6 * r->hop_us), r->hop_source,
			       bb_format_size(message, (uint64_t)r->message_bytes));
		if (r->compute)
			bb_strbuf_addf(&head, "; passes: %s", r->compute);
		bb_strbuf_add(&head, "\n");
		state->schedules.limit = state->stages.limit = bb_table_limit(stdout);
		state->stages.merges = 2;
		bb_table_columns(&state->schedules, schedules, 3);
		bb_table_columns(&state->stages, stages, 2);
		if (r->layers.n)
			bb_table_column(&state->stages, "layers", "", 0);
		status = bb_sinks_comment(&run->sinks, bb_strbuf_text(&head));
		bb_strbuf_free(&head);
	}
	text_add_rows(state, r, false, "predicted");
	if (r->compute)
		text_add_rows(state, r, true, run->record.virtual_time ? "simulated" : "measured");
	if (!isnan(r->published_bubble_over_total)) {
		bb_table_cellf(&state->schedules, "%s\t%lld\tpublished\t\t\t%.4f\t\t\t\t\t\t\t\t",
			       r->schedule, (long long)r->chunks, r->published_bubble_over_total);
		state->published = r->stages;
	}
	if (!fits) {
		bb_strbuf_addf(&state->misfits, "# %s %s\n", r->schedule, r->fit);
		return status;
	}
	if (r->fit)
		bb_strbuf_addf(&state->fits, "%s %s", state->fits.length ? "," : "", r->schedule);
	struct bb_pipeline_record *kept = BB_ARRAY_ADD(state->kept, state->nkept, state->kept_room);
	if (!kept)
		return bb_no_memory(&run->error, "the schedules");
	for (; kept > state->kept && kept[-1].peak_bytes > r->peak_bytes; kept--)
		*kept = kept[-1];
	*kept = *r;
	return status;
}

static bb_status pipeline_sum_up(struct bb_run *run)
{
	struct bb_pipeline_state *state = run->own;
	struct bb_strbuf out = {0};

	if (state->schedules.ncells == 0)
		return BB_OK;
	if (state->stages.ncells > 0) {
		bb_strbuf_add(&out, "#\n");
		bb_table_print(&state->stages, &out);
	} else {
		bb_strbuf_add(&out, "# The stages are in --json: predicted_stage_us and others\n");
	}
	bb_strbuf_add(&out, "#\n");
	bb_table_print(&state->schedules, &out);
	if (state->published)
		bb_strbuf_addf(&out,
			       "# published: waits around the ring only at the first of %lld "
			       "microbatches\n",
			       (long long)state->published);
	if (state->fits.length)
		bb_strbuf_addf(&out, "# fit into the memory of a rank:%s\n",
			       bb_strbuf_text(&state->fits));
	bb_strbuf_add(&out, bb_strbuf_text(&state->misfits));
	const bb_status status =
		out.failed ? BB_EINTERNAL : bb_sinks_comment(&run->sinks, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
	return status;
}

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

/* OWN of a candidate is its record; its time is a step's or a stage's. */
static void bubble_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
			 struct bb_strbuf *out)
{
	const struct bb_pipeline_record *a = ahead->own, *b = behind->own;
	const double bubble =
		behind->seconds - 1e-6 * b->ideal_us - (ahead->seconds - 1e-6 * a->ideal_us);
	char text[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "its bubble is %s longer", bb_format_duration(text, bubble));
}

static void pipeline_add_notes(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const bool virtual = run->options.backend->virtual;
	const char *found = virtual ? "simulated" : "measured";
	const bool ran = state->nkept > 0 && state->kept[0].compute;

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
	const size_t answer = out->length;
	/* Measured times of stages have no interval. */
	for (int by_stage = !ran; by_stage >= 0 && state->nkept > 0; by_stage--) {
		struct bb_best best = {.choice = {.subject = by_stage ? "schedule by stage time"
								      : "schedule by step time",
						  .noise = ran && bb_estimate_noise(run)
								   ? "their ranges overlap"
								   : NULL,
						  .unit = "",
						  .preference = "no more memory",
						  .cause = bubble_cause}};

		for (size_t i = 0; i < state->nkept; i++) {
			const struct bb_pipeline_record *r = &state->kept[i];
			const double us = by_stage ? r->predicted_span_us
					  : ran    ? r->p50_us
						   : r->predicted_us;
			char bytes[BB_UNIT_TEXT];

			bb_best_add(&best,
				    (struct bb_candidate){.seconds = 1e-6 * us,
							  .low = 1e-6 * r->min_us,
							  .high = 1e-6 * r->max_us,
							  .own = r},
				    "%s (peak %s)", r->schedule,
				    bb_format_bytes(bytes, (uint64_t)r->peak_bytes));
		}
		bb_best_recommend(&best, out);
	}
	bb_run_answer(run, out, answer);
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
	.options = pipeline_rows,
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
	.text = &bb_sink_table,
	.rows = &bb_record_pipeline,
	.plan = pipeline_plan,
	.experiment = &bb_pipeline_experiment,
	.close = pipeline_close,
	.sum_up = pipeline_sum_up,
	.tell = pipeline_add_notes,
};
