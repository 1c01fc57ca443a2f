/*
 * drive.c - the experiment: a hop is measured, then each schedule is predicted, timed, verified and
 * delivered.
 */
#include "core/clock.h"
#include "core/stats.h"
#include "training_kernels/pipeline/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

#define HOP_PASS_NS 1000000 /* long enough to sleep, as measured passes are */
#define HOP_SAMPLES 15

/* A driver's state. */
struct pipeline_session {
	struct bb_engine engine;
	const struct bb_pipeline_options *options;
	struct bb_pipeline pipeline; /* hop included */
	const char *hop_source;
	int stage; /* this rank's */
};

/* One schedule on one rank. */
struct job {
	struct pipeline_session *s;
	const struct bb_pipeline_schedule *schedule;
	struct bb_order order;
	struct bb_pipeline_program program;
	/* On rank 0 of all stages; of the last timed step, but for spans, which are medians. */
	struct bb_pass_times predicted, measured;
	struct bb_pipeline_result prediction;
	double *steps, *spans; /* [iteration]: makespan, and the time of this stage in it */
	double *kept, *layers; /* [stage]: predicted bytes of activations; layers */
	double published;      /* bubble_over_total with first_wraps; NAN: not interleaved */
	int64_t wrong;         /* BB_ABSENT: not verified */
};

/* The slot of pass number I of STAGE. */
static size_t job_slot(const struct job *j, int stage, size_t i)
{
	return bb_order_slot(&j->order, stage, &bb_order_passes(&j->order, stage)[i]);
}

static bb_status open_job(struct job *j)
{
	struct pipeline_session *s = j->s;
	struct bb_error *error = &s->engine.run->error;
	const size_t iters = (size_t)s->options->iters, stages = (size_t)j->order.stages;
	bb_status status;

	BB_TRY(status, bb_pass_times_open(&j->predicted, &j->order, &s->pipeline, error), out);
	BB_TRY(status, bb_pass_times_open(&j->measured, &j->order, &s->pipeline, error), out);
	j->published = NAN;
	j->steps = calloc(2 * (iters + stages), sizeof(double));
	if (!j->steps)
		return bb_no_memory(error, j->schedule->name);
	j->spans = j->steps + iters;
	j->kept = j->spans + iters;
	j->layers = j->kept + stages;
out:
	return status;
}

static void close_job(struct job *j)
{
	bb_pipeline_program_free(&j->program);
	bb_pass_times_close(&j->predicted);
	bb_pass_times_close(&j->measured);
	bb_order_free(&j->order);
	free(j->steps);
}

static struct bb_pipeline_form session_form(const struct pipeline_session *s)
{
	const struct bb_fault *fault = &s->engine.run->options.fault;
	const bool slow = fault->kind == BB_FAULT_SLOW;

	return (struct bb_pipeline_form){
		.elements = (size_t)(s->options->message_bytes / sizeof(uint32_t)),
		.rate = s->options->flops,
		.late_stage = slow ? fault->rank : -1,
		.late = slow ? fault->seconds : 0,
		.swapped_stage = fault->kind == BB_FAULT_SWAP ? fault->rank : -1,
	};
}

/* ---- prediction ------------------------------------------------------------------------------ */

/* Rank 0: the result of the order over modelled links, under FORM. */
static bb_status job_evaluate(struct job *j, const struct bb_pipeline_form *form,
			      struct bb_pipeline_result *result)
{
	const struct pipeline_session *s = j->s;
	const struct bb_pipeline_options *a = s->options;
	struct bb_error *error = &s->engine.run->error;
	const struct bb_link_model links = {
		.rate = a->by_link ? a->link_rate : 0,
		.latency = a->by_link ? a->link_latency : 1e-9 * (double)s->pipeline.hop,
	};
	const struct bb_timeline_watch watch = {bb_pass_times_note, &j->predicted};
	struct bb_pipeline_program program;
	double end;
	bb_status status;

	BB_TRY(status, bb_pipeline_program_make(&program, &j->order, &s->pipeline, form, error),
	       out);
	bb_pass_times_begin(&j->predicted);
	BB_TRY(status, bb_timeline_program(&links, &program.program, &watch, &end, error), out);
	*result = bb_pipeline_result_of(&j->predicted);
out:
	bb_pipeline_program_free(&program);
	return status;
}

static bb_status job_predict(struct job *j)
{
	const struct bb_pipeline *p = &j->s->pipeline;
	struct bb_pipeline_form form = session_form(j->s);
	bb_status status;

	form.late_stage = form.swapped_stage = -1;
	if (!j->schedule->chunks && j->order.chunks > 1) {
		form.first_wraps = true;
		BB_TRY(status, job_evaluate(j, &form, &j->prediction), out);
		j->published = j->prediction.bubble_over_total;
		form.first_wraps = false;
	}
	status = job_evaluate(j, &form, &j->prediction);
	for (int s = 0; s < j->order.stages; s++) {
		const double one = (double)bb_stage_kept(p, &j->order, s);

		j->predicted.peaks[s] /= one;
		j->kept[s] = j->predicted.peaks[s] * one / j->order.chunks;
	}
	for (int d = 0; d < bb_order_depths(&j->order); d++)
		j->layers[bb_order_stage(&j->order, d)] += bb_part_layers(p, &j->order, d);
out:
	return status;
}

/* ---- measurement ----------------------------------------------------------------------------- */

/* Keeps iteration STEP of this rank, or of all stages in virtual time, and begins the next. */
static void pipeline_stepped(void *own, size_t step)
{
	struct job *j = own;
	const bool all = bb_engine_is_virtual(&j->s->engine);
	const int mine = j->s->stage;
	const double *to = j->measured.to;

	for (int s = all ? 0 : mine; s <= (all ? j->order.stages - 1 : mine); s++)
		j->steps[step] = fmax(j->steps[step], to[job_slot(j, s, j->order.length - 1)]);
	j->spans[step] =
		to[job_slot(j, mine, j->order.length - 1)] - j->measured.from[job_slot(j, mine, 0)];
	if (step + 1 < (size_t)j->s->options->iters)
		bb_pass_times_begin(&j->measured);
}

/* Measures TRIAL, which must be possible. */
static bb_status pipeline_measure(struct pipeline_session *s, const struct bb_trial *trial)
{
	bb_status status = bb_engine_add(&s->engine, trial, NULL);

	if (status == BB_OK)
		status = bb_engine_measure(&s->engine);
	return status;
}

/* All ranks learn what each has observed of its stage, with --gantt also each pass. In virtual time
   each has observed all stages, whose steps differ by noise only. */
static bb_status job_gather(struct job *j)
{
	struct bb_engine *e = &j->s->engine;
	struct bb_pass_times *t = &j->measured;
	const size_t iters = (size_t)j->s->options->iters, stages = (size_t)j->order.stages;
	bb_status status;

	if (bb_engine_is_virtual(e)) {
		(void)bb_pipeline_result_of(t);
		return BB_OK;
	}
	bb_stats_sort(j->spans, iters);
	t->spans[j->s->stage] = j->spans[iters / 2];
	BB_TRY(status, bb_crew_most(e->driver, &bb_payload_real, j->steps, iters), out);
	BB_TRY(status, bb_crew_most(e->driver, &bb_payload_real, t->peaks, stages), out);
	BB_TRY(status, bb_crew_most(e->driver, &bb_payload_real, t->sent, stages), out);
	BB_TRY(status, bb_crew_most(e->driver, &bb_payload_real, t->spans, stages), out);
	if (j->s->options->gantt) {
		const size_t slots = bb_order_slots(&j->order);

		BB_TRY(status, bb_crew_most(e->driver, &bb_payload_real, t->from, slots), out);
		BB_TRY(status, bb_crew_most(e->driver, &bb_payload_real, t->to, slots), out);
	}
out:
	return status;
}

static bb_status job_time(struct job *j)
{
	struct bb_trial trial = {.workload = {.program = &j->program.program,
					      .stand_in = (enum bb_stand_in)j->s->options->stand_in,
					      .own = j},
				 .timing = BB_TIMING_STEPS,
				 .steps = (size_t)j->s->options->iters,
				 .warm = (size_t)j->s->engine.run->options.warmup_iters,
				 .watch = {bb_pass_times_note, &j->measured},
				 .stepped = pipeline_stepped};
	bb_status status;

	snprintf(trial.what, sizeof(trial.what), "%s", j->schedule->name);
	bb_pass_times_begin(&j->measured);
	status = pipeline_measure(j->s, &trial);
	return status == BB_OK ? job_gather(j) : status;
}

/* ---- verification ---------------------------------------------------------------------------- */

static int pipeline_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	victims[0] = bb_pipeline_data_output(own);
	return 1;
}

static const struct bb_expectation expectation = {NULL, pipeline_victims, bb_pipeline_data_verify};

/* Runs the schedule once more, with data. */
static bb_status job_check(struct job *j)
{
	struct bb_engine *e = &j->s->engine;
	const struct bb_pipeline_form form = {.elements = BB_PIPELINE_ELEMENTS,
					      .late_stage = -1,
					      .swapped_stage = session_form(j->s).swapped_stage};
	struct bb_pipeline_data data;
	struct bb_pipeline_program program = {.lists = NULL};
	struct bb_trial trial = {.workload = {.program = &program.program,
					      .compute = bb_pipeline_compute,
					      .buffers = bb_pipeline_buffers,
					      .own = &data},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1,
				 .expects = &expectation};
	void *memory;
	bb_status status;

	/* The verification computes on the CPU. */
	if (!bb_engine_checks(e) || (e->backend->gpu))
		return BB_OK;
	BB_TRY(status, bb_engine_alloc(e, bb_pipeline_data_bytes(&j->order), &memory), out);
	data = bb_pipeline_data_begin(&j->order, j->s->stage, (uint64_t)e->run->options.seed,
				      memory);
	snprintf(trial.what, sizeof(trial.what), "check of %s", j->schedule->name);
	BB_TRY(status,
	       bb_pipeline_program_make(&program, &j->order, &j->s->pipeline, &form,
					&e->run->error),
	       out);
	BB_TRY(status, pipeline_measure(j->s, &trial), out);
	j->wrong = e->trials[e->ntrials - 1].wrong;
	/* Memory is released once no rank reads it any more. */
	BB_TRY(status, bb_crew_barrier(e->driver), out);
	bb_engine_release(e, memory);
out:
	bb_pipeline_program_free(&program);
	return status;
}

/* ---- the hop --------------------------------------------------------------------------------- */

struct hop {
	struct job job;
	double passes; /* seconds of all passes */
	double samples[HOP_SAMPLES];
};

/* The first stage sees the begin and the end of the step. */
static void hop_stepped(void *own, size_t step)
{
	struct hop *h = own;
	const struct job *j = &h->job;

	h->samples[step] =
		j->measured.to[job_slot(j, 0, 1)] - j->measured.from[job_slot(j, 0, 0)] - h->passes;
	bb_pass_times_begin(&h->job.measured);
}

/* One microbatch goes through all stages and back: twice as many hops as pairs of neighbours, and
   its passes. */
static bb_status measure_hop(struct pipeline_session *s)
{
	struct hop h = {.job = {.s = s, .schedule = bb_pipeline_find("naive")},
			.passes = 2e-9 * HOP_PASS_NS * s->pipeline.stages};
	struct job *j = &h.job;
	struct bb_error *error = &s->engine.run->error;
	const struct bb_pipeline pipeline = {.stages = s->pipeline.stages,
					     .microbatches = 1,
					     .chunks = 1,
					     .f = HOP_PASS_NS,
					     .b = HOP_PASS_NS};
	const struct bb_trial trial = {
		.workload = {.program = &j->program.program, .stand_in = BB_SLEEP, .own = &h},
		.what = "hop between stages",
		.timing = BB_TIMING_STEPS,
		.steps = HOP_SAMPLES,
		.warm = 1,
		.watch = {bb_pass_times_note, &j->measured},
		.stepped = hop_stepped};
	struct bb_pipeline_form form = session_form(s);
	struct bb_stats stats;
	const void *all;
	double hop;
	bb_status status;

	form.late_stage = form.swapped_stage = -1;
	BB_TRY(status, bb_order_make(j->schedule, &pipeline, &j->order, error), out);
	BB_TRY(status, bb_pass_times_open(&j->measured, &j->order, &pipeline, error), out);
	BB_TRY(status, bb_pipeline_program_make(&j->program, &j->order, &pipeline, &form, error),
	       out);
	BB_TRY(status, pipeline_measure(s, &trial), out);
	bb_stats_compute(h.samples, HOP_SAMPLES, &stats);
	hop = stats.p50 / (2 * (s->pipeline.stages - 1));
	BB_TRY(status, bb_crew_gather(s->engine.driver, &bb_payload_number, &hop, 1, &all), out);
	hop = *(const double *)all;
	s->pipeline.hop = hop > 0 && hop < BB_PAYLOAD_MOST_SECONDS ? (int64_t)(1e9 * hop) : 0;
out:
	bb_engine_clear(&s->engine);
	close_job(j);
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

static void fill_prediction(const struct job *j, struct bb_pipeline_record *r)
{
	const struct bb_pipeline *p = &j->s->pipeline;
	const struct bb_pipeline_result *result = &j->prediction;
	const size_t n = (size_t)p->stages;
	int busiest = 0;

	r->schedule = j->schedule->name;
	r->stages = p->stages;
	r->microbatches = p->microbatches;
	r->chunks = j->order.chunks;
	r->message_bytes = (int64_t)j->s->options->message_bytes / 4 * 4;
	r->sent_bytes = r->message_bytes * (int64_t)j->program.messages;
	r->hop_us = 1e-3 * (double)p->hop;
	r->hop_source = j->s->hop_source;
	for (int s = 1; s < p->stages; s++)
		if (bb_stage_ns(p, &j->order, s) > bb_stage_ns(p, &j->order, busiest))
			busiest = s;
	r->f_us = r->b_us = r->w_us = 0;
	for (int c = 0; c < j->order.chunks; c++) {
		const struct bb_part part =
			bb_part_of(p, &j->order, bb_order_depth(&j->order, busiest, c));

		r->f_us += 1e-3 * (double)part.cost[BB_PASS_F];
		r->b_us += 1e-3 * (double)part.cost[BB_PASS_B];
		r->w_us += 1e-3 * (double)part.cost[BB_PASS_W];
	}
	r->ideal_us = 1e6 * result->ideal;
	r->predicted_us = 1e6 * result->makespan;
	r->predicted_span_us = 1e6 * result->span;
	r->predicted_bubble_over_ideal = result->bubble_over_ideal;
	r->predicted_bubble_over_total = result->bubble_over_total;
	r->predicted_span_bubble_over_ideal = result->span_bubble_over_ideal;
	r->predicted_span_bubble_over_total = result->span_bubble_over_total;
	r->published_bubble_over_total = j->published;
	r->peak_bytes = 0;
	for (size_t s = 0; s < n; s++) {
		j->predicted.spans[s] *= 1e6;
		if ((int64_t)j->kept[s] > r->peak_bytes)
			r->peak_bytes = (int64_t)j->kept[s];
	}
	r->predicted_stage_us = (struct bb_numbers){j->predicted.spans, n};
	r->peak_microbatches = (struct bb_numbers){j->predicted.peaks, n};
	r->stage_peak_bytes = (struct bb_numbers){j->kept, n};
	r->stage_sent_bytes = (struct bb_numbers){j->predicted.sent, n};
	if (p->layers)
		r->layers = (struct bb_numbers){j->layers, n};
}

static void fill_measurement(struct job *j, struct bb_pipeline_record *r)
{
	const size_t n = (size_t)r->stages;
	struct bb_stats stats;

	bb_stats_compute(j->steps, (size_t)j->s->options->iters, &stats);
	r->compute = bb_stand_in_names[j->s->options->stand_in];
	r->iterations = j->s->options->iters;
	r->p50_us = 1e6 * stats.p50;
	r->p99_us = 1e6 * stats.p99;
	r->min_us = 1e6 * stats.min;
	r->max_us = 1e6 * stats.max;
	r->counted_sent_bytes = 0;
	r->span_us = 0;
	for (int s = 0; s < r->stages; s++) {
		j->measured.spans[s] *= 1e6;
		r->span_us = fmax(r->span_us, j->measured.spans[s]);
		j->measured.peaks[s] /= (double)bb_stage_kept(&j->s->pipeline, &j->order, s);
		r->counted_sent_bytes += (int64_t)j->measured.sent[s];
	}
	r->stage_us = (struct bb_numbers){j->measured.spans, n};
	r->bubble_over_ideal = r->p50_us / r->ideal_us - 1;
	r->bubble_over_total = 1 - r->ideal_us / r->p50_us;
	r->span_bubble_over_ideal = r->span_us / r->ideal_us - 1;
	r->span_bubble_over_total = 1 - r->ideal_us / r->span_us;
	r->off_percent = 100 * (r->p50_us / r->predicted_us - 1);
	r->counted_peak_microbatches = (struct bb_numbers){j->measured.peaks, n};
	r->counted_stage_sent_bytes = (struct bb_numbers){j->measured.sent, n};
	r->wrong = j->wrong;
}

/* Elements of STAGE, with a second copy of an embedding that the head shares on another stage. */
static struct bb_piece stage_piece(const struct job *j, const struct bb_model_layout *layout,
				   int stage)
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
static bb_status judge_fit(const struct job *j, struct bb_fit_verdict *verdict)
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
	struct bb_need most = {.total = 0};

	for (int s = 0; s < j->order.stages; s++) {
		const struct bb_piece piece = stage_piece(j, t.layout, s);
		struct bb_need need = {.stage = (uint64_t)s};

		bb_training_states(&t, &piece, &need);
		need.bytes[BB_NEED_ACTIVATIONS] = (uint64_t)j->kept[s];
		for (int i = 0; i < BB_CATEGORIES; i++)
			need.total = bb_bytes_add(need.total, need.bytes[i]);
		if (need.total >= most.total)
			most = need;
	}
	return bb_fit_judge_need(verdict, &t, &most, state->capacity.usable,
				 &j->s->engine.run->error);
}

static bb_status deliver_passes(const struct job *j, const struct bb_pass_times *times,
				const char *source)
{
	struct bb_sinks *sinks = &j->s->engine.run->sinks;
	bb_status status = BB_OK;

	for (int s = 0; s < j->order.stages; s++)
		for (size_t i = 0; i < j->order.length && status == BB_OK; i++) {
			const struct bb_pass *pass = &bb_order_passes(&j->order, s)[i];
			const size_t slot = job_slot(j, s, i);
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

/* Rank 0: the records of J to the sinks. */
static bb_status job_deliver(struct job *j)
{
	struct pipeline_session *s = j->s;
	const bool ran = !s->options->predict;
	struct bb_fit_verdict verdict;
	struct bb_pipeline_record r;
	bb_status status = BB_OK;

	bb_record_init(&bb_record_pipeline, &r);
	fill_prediction(j, &r);
	if (ran)
		fill_measurement(j, &r);
	if (s->pipeline.layers) {
		BB_TRY(status, judge_fit(j, &verdict), out);
		BB_FIT_SET(&r, &verdict);
	}
	r.end_unix_s = bb_clock_unix();
	BB_TRY(status, bb_pipeline_keep(s->engine.run->own, &r), out);
	status = bb_engine_deliver(&s->engine, &bb_record_pipeline, &r, r.wrong);
	if (status == BB_OK && s->options->gantt)
		status = deliver_passes(j, &j->predicted, "predicted");
	if (status == BB_OK && s->options->gantt && ran)
		status = deliver_passes(j, &j->measured,
					bb_engine_is_virtual(&s->engine) ? "played" : "measured");
out:
	return status;
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* BB_EUNSUPPORTED, with the reason in REFUSAL, if there is no such order. */
static bb_status make_order(struct job *j, struct bb_error *refusal)
{
	const struct bb_pipeline *p = &j->s->pipeline;
	const char *reason = bb_pipeline_refuses(j->schedule, p);
	bb_status status;

	if (reason)
		return bb_fail(refusal, BB_EUNSUPPORTED, "%s", reason);
	status = bb_order_make(j->schedule, p, &j->order, refusal);
	return status == BB_OK ? bb_order_check(&j->order, refusal) : status;
}

static bb_status run_schedule(struct pipeline_session *s,
			      const struct bb_pipeline_schedule *schedule)
{
	struct job j = {.s = s, .schedule = schedule, .wrong = BB_ABSENT};
	struct bb_error *error = &s->engine.run->error;
	const struct bb_pipeline_form form = session_form(s);
	struct bb_error refusal = {.text = ""};
	bb_status status;

	BB_TRY(status, bb_engine_begin(&s->engine, schedule->name), out);
	status = make_order(&j, &refusal);
	if (status == BB_EUNSUPPORTED) {
		status = bb_engine_skip_subject(&s->engine, "pipeline", schedule->name, NULL,
						refusal.text);
		goto out;
	}
	if (status != BB_OK) {
		bb_fail(error, status, "%s: %s", schedule->name, refusal.text);
		goto out;
	}
	BB_TRY(status, open_job(&j), out);
	BB_TRY(status, bb_pipeline_program_make(&j.program, &j.order, &s->pipeline, &form, error),
	       out);
	if (bb_engine_leads(&s->engine))
		BB_TRY(status, job_predict(&j), out);
	if (!s->options->predict) {
		BB_TRY(status, job_time(&j), out);
		BB_TRY(status, job_check(&j), out);
	}
	if (bb_engine_leads(&s->engine))
		status = job_deliver(&j);
out:
	bb_engine_clear(&s->engine);
	close_job(&j);
	return status;
}

static bb_status pipeline_run(struct bb_engine *engine)
{
	struct pipeline_session *s = (struct pipeline_session *)engine;
	const struct bb_pipeline_state *state = engine->run->own;
	const struct bb_pipeline_options *a = s->options = &state->options;
	const bool virtual = bb_engine_is_virtual(engine);
	bb_status status = BB_OK;

	s->pipeline = state->pipeline;
	s->stage = engine->driver->rank;
	s->hop_source = a->by_link ? "--link" : "--tc";
	s->pipeline.hop = (int64_t)a->tc_ns;
	if (a->by_link) {
		s->pipeline.hop = (int64_t)(1e9 * (a->link_latency +
						   (double)a->message_bytes / a->link_rate));
	} else if (!a->predict && !a->tc_ns_given && s->pipeline.stages > 1) {
		s->hop_source = virtual ? "played" : "measured";
		status = measure_hop(s);
	}
	for (size_t i = 0; i < a->schedules.n && status == BB_OK; i++) {
		status = run_schedule(s, &bb_pipeline_schedules[a->schedules.list[i]]);
		if (bb_engine_leads(engine))
			bb_ticker_step(&engine->run->ticker, 1);
	}
	return status;
}

const struct bb_experiment bb_pipeline_experiment = {
	.bytes = sizeof(struct pipeline_session),
	.run = pipeline_run,
};
