/*
 * deliver.c - the results of a schedule, as records.
 */
#include "core/clock.h"
#include "core/stats.h"
#include "training_kernels/pipeline/inside.h"

/* The passes of all chunks of the busiest stage. */
static void fill_passes(const struct bb_pipeline_job *j, struct bb_pipeline_record *r)
{
	const struct bb_pipeline *p = &j->s->pipeline;
	int most = 0;

	for (int s = 1; s < p->stages; s++)
		if (bb_stage_ns(p, &j->order, s) > bb_stage_ns(p, &j->order, most))
			most = s;
	r->f_us = r->b_us = r->w_us = 0;
	for (int c = 0; c < j->order.chunks; c++) {
		const struct bb_part part =
			bb_part_of(p, &j->order, bb_order_depth(&j->order, most, c));

		r->f_us += 1e-3 * (double)part.cost[BB_PASS_F];
		r->b_us += 1e-3 * (double)part.cost[BB_PASS_B];
		r->w_us += 1e-3 * (double)part.cost[BB_PASS_W];
	}
	r->hop_us = 1e-3 * (double)p->hop;
	r->hop_source = j->s->hop_source;
}

static void fill_prediction(const struct bb_pipeline_job *j, struct bb_pipeline_record *r)
{
	const struct bb_pipeline_result *p = &j->prediction;

	r->ideal_us = 1e6 * p->ideal;
	r->predicted_us = 1e6 * p->makespan;
	r->predicted_span_us = 1e6 * p->span;
	r->predicted_bubble_over_ideal = p->bubble_over_ideal;
	r->predicted_bubble_over_total = p->bubble_over_total;
	r->predicted_span_bubble_over_ideal = p->span_bubble_over_ideal;
	r->predicted_span_bubble_over_total = p->span_bubble_over_total;
	r->published_bubble_over_total = j->published;
	r->predicted_stage_us = (struct bb_numbers){j->predicted_spans, (size_t)r->stages};
	r->peak_microbatches = (struct bb_numbers){j->predicted_peaks, (size_t)r->stages};
	r->stage_peak_bytes = (struct bb_numbers){j->predicted_kept, (size_t)r->stages};
	r->peak_bytes = (int64_t)bb_pipeline_most(&r->stage_peak_bytes);
	r->stage_sent_bytes = (struct bb_numbers){j->predicted_sent, (size_t)r->stages};
	if (j->s->pipeline.layers)
		r->layers = (struct bb_numbers){j->layers, (size_t)r->stages};
}

/* Elements of STAGE, with a second copy of an embedding that the head shares on another stage. */
static struct bb_piece stage_piece(const struct bb_pipeline_job *j,
				   const struct bb_model_layout *layout, int stage)
{
	const size_t layers = (size_t)j->s->pipeline.layers;
	const size_t parts = (size_t)bb_order_depths(&j->order);
	struct bb_piece sum = {.matrices = 0};

	for (int c = 0; c < j->order.chunks; c++) {
		const size_t depth = (size_t)bb_order_depth(&j->order, stage, c);
		const size_t first = depth == 0 ? 0 : 1 + depth * layers / parts;
		const size_t last =
			depth + 1 == parts ? layout->pieces : 1 + (depth + 1) * layers / parts;
		const struct bb_piece piece = bb_layout_pieces(layout, first, last);

		bb_piece_add(&sum, &piece);
		if (depth + 1 == parts && stage > 0)
			sum.matrices += layout->embedding;
	}
	return sum;
}

/* The memory of the stage that needs most: states by AdamW in mixed precision, and the activations
   that the order keeps. */
static struct bb_need job_need(const struct bb_pipeline_job *j, const struct bb_training *t)
{
	struct bb_need most = {.total = 0};

	for (int s = 0; s < j->order.stages; s++) {
		const struct bb_piece piece = stage_piece(j, t->layout, s);
		struct bb_need need = {.stage = (uint64_t)s};

		bb_training_states(t, &piece, &need);
		need.bytes[BB_NEED_ACTIVATIONS] = (uint64_t)j->predicted_kept[s];
		for (int i = 0; i < BB_CATEGORIES; i++)
			need.total = bb_bytes_add(need.total, need.bytes[i]);
		if (need.total >= most.total)
			most = need;
	}
	return most;
}

static bb_status judge_fit(const struct bb_pipeline_job *j, struct bb_fit_verdict *verdict)
{
	const struct bb_pipeline_options *a = j->s->options;
	const struct bb_pipeline_state *state = j->s->engine.run->own;
	const struct bb_training t = {
		.model = &state->model,
		.layout = &state->layout,
		.recipe = {&bb_precisions[BB_MIXED], &bb_optimizers[BB_ADAMW]},
		.trainable = 1,
		.dp = 1,
		.tp = 1,
		.pp = (uint64_t)j->order.stages,
		.ep = 1,
		.eager = a->attention == BB_ATTENTION_EAGER,
		.chunks = 1,
		.micro_batch = (uint64_t)a->batch,
		.micro_batches = (uint64_t)j->order.microbatches,
	};
	const struct bb_need need = job_need(j, &t);

	return bb_fit_judge_need(verdict, &t, &need, state->capacity.usable,
				 &j->s->engine.run->error);
}

static void fill_measurement(struct bb_pipeline_job *j, struct bb_pipeline_record *r)
{
	struct bb_stats stats;

	bb_stats_compute(j->steps, (size_t)j->s->options->iters, &stats);
	r->compute = bb_stand_in_names[j->s->options->stand_in];
	r->iterations = j->s->options->iters;
	r->p50_us = 1e6 * stats.p50;
	r->p99_us = 1e6 * stats.p99;
	r->min_us = 1e6 * stats.min;
	r->max_us = 1e6 * stats.max;
	r->stage_us = (struct bb_numbers){j->spans, (size_t)r->stages};
	r->span_us = bb_pipeline_most(&r->stage_us);
	r->bubble_over_ideal = r->p50_us / r->ideal_us - 1;
	r->bubble_over_total = 1 - r->ideal_us / r->p50_us;
	r->span_bubble_over_ideal = r->span_us / r->ideal_us - 1;
	r->span_bubble_over_total = 1 - r->ideal_us / r->span_us;
	r->off_percent = 100 * (r->p50_us / r->predicted_us - 1);
	r->counted_peak_microbatches = (struct bb_numbers){j->peaks, (size_t)r->stages};
	r->counted_stage_sent_bytes = (struct bb_numbers){j->sent, (size_t)r->stages};
	r->counted_sent_bytes = 0;
	for (int s = 0; s < r->stages; s++)
		r->counted_sent_bytes += (int64_t)j->sent[s];
	r->wrong = j->wrong;
}

static void to_microseconds(double *seconds, int n)
{
	for (int i = 0; i < n; i++)
		seconds[i] *= 1e6;
}

static bb_status deliver_passes(const struct bb_pipeline_job *j, const struct bb_pass_times *times,
				const char *source)
{
	struct bb_sinks *sinks = &j->s->engine.run->sinks;
	bb_status status = BB_OK;

	for (int s = 0; s < j->order.stages; s++)
		for (size_t i = 0; i < j->order.length && status == BB_OK; i++) {
			const struct bb_pass *pass = &bb_order_passes(&j->order, s)[i];
			const size_t slot = bb_pipeline_job_slot(j, s, i);
			const struct bb_pass_record r = {
				.schedule = j->schedule->name,
				.source = source,
				.stage = s,
				.pass = bb_pass_names[pass->kind],
				.chunk = pass->chunk,
				.microbatch = pass->microbatch,
				.from_us = 1e6 * times->from[slot],
				.to_us = 1e6 * times->to[slot],
			};

			status = bb_sinks_record(sinks, &bb_record_pass, &r);
		}
	return status;
}

bb_status bb_pipeline_deliver(struct bb_pipeline_job *j)
{
	struct bb_pipeline_session *s = j->s;
	const struct bb_pipeline *p = &s->pipeline;
	struct bb_fit_verdict verdict;
	struct bb_pipeline_record r;
	bb_status status = BB_OK;

	bb_record_init(&bb_record_pipeline, &r);
	r.schedule = j->schedule->name;
	r.stages = p->stages;
	r.microbatches = p->microbatches;
	r.chunks = j->order.chunks;
	fill_passes(j, &r);
	r.message_bytes = (int64_t)s->options->message_bytes / 4 * 4;
	r.sent_bytes = r.message_bytes * (int64_t)j->program.messages;
	to_microseconds(j->predicted_spans, p->stages);
	to_microseconds(j->spans, p->stages);
	fill_prediction(j, &r);
	if (!s->options->predict)
		fill_measurement(j, &r);
	if (p->layers) {
		BB_TRY(status, judge_fit(j, &verdict), out);
		BB_FIT_SET(&r, &verdict);
	}
	r.end_unix_s = bb_clock_unix();
	BB_TRY(status, bb_pipeline_keep(s->engine.run->own, &r), out);
	status = bb_engine_deliver(&s->engine, &bb_record_pipeline, &r, r.wrong);
	if (status == BB_OK && s->options->gantt)
		status = deliver_passes(j, &j->predicted, "predicted");
	if (status == BB_OK && s->options->gantt && !s->options->predict)
		status = deliver_passes(j, &j->measured,
					bb_engine_is_virtual(&s->engine) ? "played" : "measured");
out:
	return status;
}
