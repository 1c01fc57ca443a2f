/*
 * drive.c - the experiment: a hop is measured, then each schedule is predicted, timed and verified.
 */
#include "core/stats.h"
#include "training_kernels/pipeline/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define HOP_PASS_NS 1000000 /* long enough to sleep, as measured passes are */
#define HOP_SAMPLES 15

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t report_length(const struct bb_pipeline_job *j)
{
	return 2 * ((size_t)j->s->options->iters + j->order.length + 1);
}

/* The numbers of each stage. */
static bool open_stages(struct bb_pipeline_job *j)
{
	double **const all[] = {
		&j->predicted_spans, &j->spans, &j->predicted_peaks, &j->peaks, &j->predicted_kept,
		&j->predicted_sent,  &j->sent,  &j->layers};
	const size_t n = sizeof(all) / sizeof(all[0]), stages = (size_t)j->order.stages;
	double *numbers = calloc(n * stages, sizeof(*numbers));

	for (size_t i = 0; i < n && numbers; i++)
		*all[i] = numbers + i * stages;
	return numbers != NULL;
}

static bb_status open_job(struct bb_pipeline_job *j)
{
	struct bb_pipeline_session *s = j->s;
	bb_status status =
		bb_pass_times_open(&j->predicted, &j->order, &s->pipeline, &s->engine.run->error);

	if (status == BB_OK)
		status = bb_pass_times_open(&j->measured, &j->order, &s->pipeline,
					    &s->engine.run->error);
	if (status != BB_OK)
		return status;
	j->published = NAN;
	j->steps = calloc((size_t)s->options->iters, sizeof(double));
	j->report = calloc(report_length(j), sizeof(double));
	return open_stages(j) && j->steps && j->report
		       ? BB_OK
		       : bb_no_memory(&s->engine.run->error, j->schedule->name);
}

static void close_job(struct bb_pipeline_job *j)
{
	bb_pipeline_program_free(&j->program);
	bb_pass_times_close(&j->predicted);
	bb_pass_times_close(&j->measured);
	bb_order_free(&j->order);
	free(j->predicted_spans);
	free(j->steps);
	free(j->report);
}

static struct bb_pipeline_form session_form(const struct bb_pipeline_session *s)
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
static bb_status job_evaluate(struct bb_pipeline_job *j, const struct bb_pipeline_form *form,
			      struct bb_pipeline_result *result)
{
	struct bb_pipeline_session *s = j->s;
	const struct bb_pipeline_options *a = s->options;
	const struct bb_link_model links = {
		.rate = a->by_link ? a->link_rate : 0,
		.latency = a->by_link ? a->link_latency : 1e-9 * (double)s->pipeline.hop,
	};
	const struct bb_timeline_watch watch = {bb_pass_times_note, &j->predicted};
	struct bb_pipeline_program program;
	double end;
	bb_status status = bb_pipeline_program_make(&program, &j->order, &s->pipeline, form,
						    &s->engine.run->error);

	bb_pass_times_begin(&j->predicted);
	if (status == BB_OK)
		status = bb_timeline_program(&links, &program.program, &watch, &end,
					     &s->engine.run->error);
	if (status == BB_OK)
		*result = bb_pipeline_result_of(&j->predicted, &s->pipeline, j->predicted_spans);
	bb_pipeline_program_free(&program);
	return status;
}

static bb_status job_predict(struct bb_pipeline_job *j)
{
	struct bb_pipeline_form form = session_form(j->s);
	struct bb_pipeline_result published;
	bb_status status = BB_OK;

	form.late_stage = form.swapped_stage = -1;
	if (!j->schedule->chunks && j->order.chunks > 1) {
		form.first_wraps = true;
		BB_TRY(status, job_evaluate(j, &form, &published), out);
		j->published = published.bubble_over_total;
		form.first_wraps = false;
	}
	status = job_evaluate(j, &form, &j->prediction);
	bb_order_memory(&j->order, &j->s->pipeline, j->predicted_peaks);
	for (int s = 0; s < j->order.stages; s++) {
		const int64_t one = bb_stage_kept(&j->s->pipeline, &j->order, s);

		j->predicted_kept[s] = j->predicted_peaks[s] * (double)one / j->order.chunks;
		j->predicted_sent[s] = (double)j->predicted.sent[s];
	}
	for (int d = 0; d < bb_order_depths(&j->order); d++)
		j->layers[bb_order_stage(&j->order, d)] +=
			bb_part_layers(&j->s->pipeline, &j->order, d);
out:
	return status;
}

/* ---- measurement ----------------------------------------------------------------------------- */

/* Iteration I of this rank, or of all stages in virtual time. */
static void note_iteration(struct bb_pipeline_job *j, size_t i)
{
	const size_t first = bb_pipeline_job_slot(j, j->s->stage, 0);
	const size_t last = bb_pipeline_job_slot(j, j->s->stage, j->order.length - 1);
	double to = j->measured.to[last];

	for (int stage = 0; bb_engine_is_virtual(&j->s->engine) && stage < j->order.stages; stage++)
		to = fmax(to, j->measured.to[bb_pipeline_job_slot(j, stage, j->order.length - 1)]);
	j->report[2 * i] = j->measured.from[first];
	j->report[2 * i + 1] = to;
}

static void note_passes(struct bb_pipeline_job *j)
{
	double *passes = &j->report[2 * j->s->options->iters];

	for (size_t i = 0; i < j->order.length; i++) {
		passes[2 * i] = j->measured.from[bb_pipeline_job_slot(j, j->s->stage, i)];
		passes[2 * i + 1] = j->measured.to[bb_pipeline_job_slot(j, j->s->stage, i)];
	}
	passes[2 * j->order.length] = (double)j->measured.peaks[j->s->stage];
	passes[2 * j->order.length + 1] = (double)j->measured.sent[j->s->stage];
}

/* The most that STAGE held, in bytes times chunks, and the bytes that it sent. */
static void note_counts(struct bb_pipeline_job *j, int stage, double held, double sent)
{
	j->peaks[stage] = held / (double)bb_stage_kept(&j->s->pipeline, &j->order, stage);
	j->sent[stage] = sent;
}

/* Rank 0: joins the REPORTS of all ranks. */
static bb_status job_join(struct bb_pipeline_job *j, const double *reports)
{
	const size_t iters = (size_t)j->s->options->iters, length = report_length(j);
	double *sorted = calloc(iters, sizeof(*sorted));

	if (!sorted)
		return bb_no_memory(&j->s->engine.run->error, "the results");
	for (int s = 0; s < j->order.stages; s++) {
		const double *report = &reports[(size_t)s * length];

		for (size_t i = 0; i < iters; i++) {
			j->steps[i] = fmax(j->steps[i], report[2 * i + 1]);
			sorted[i] = report[2 * i + 1] - report[2 * i];
		}
		bb_stats_sort(sorted, iters);
		j->spans[s] = sorted[iters / 2];
		for (size_t i = 0; i < j->order.length; i++) {
			j->measured.from[bb_pipeline_job_slot(j, s, i)] = report[2 * (iters + i)];
			j->measured.to[bb_pipeline_job_slot(j, s, i)] = report[2 * (iters + i) + 1];
		}
		note_counts(j, s, report[length - 2], report[length - 1]);
	}
	free(sorted);
	return BB_OK;
}

/* In virtual time rank 0 has observed all stages; steps differ by noise only. */
static void join_virtual(struct bb_pipeline_job *j)
{
	for (int64_t i = 0; i < j->s->options->iters; i++)
		j->steps[i] = j->report[2 * i + 1];
	(void)bb_pipeline_result_of(&j->measured, &j->s->pipeline, j->spans);
	for (int s = 0; s < j->order.stages; s++)
		note_counts(j, s, (double)j->measured.peaks[s], (double)j->measured.sent[s]);
}

static bb_status job_gather(struct bb_pipeline_job *j)
{
	struct bb_engine *e = &j->s->engine;
	const void *all;
	bb_status status = BB_OK;

	if (bb_engine_is_virtual(e)) {
		join_virtual(j);
		return BB_OK;
	}
	note_passes(j);
	status = bb_crew_collect(e->driver, &bb_payload_real, j->report, report_length(j), &all);
	return status == BB_OK && bb_engine_leads(e) ? job_join(j, all) : status;
}

/* Keeps the observations of a step, and begins those of the next. */
static void pipeline_stepped(void *own, size_t step)
{
	struct bb_pipeline_job *j = own;

	note_iteration(j, step);
	if (step + 1 < (size_t)j->s->options->iters)
		bb_pass_times_begin(&j->measured);
}

/* Measures TRIAL, which must be possible. */
static bb_status pipeline_measure(struct bb_pipeline_session *s, const struct bb_trial *trial)
{
	bb_status status = bb_engine_add(&s->engine, trial, NULL);

	if (status == BB_OK)
		status = bb_engine_measure(&s->engine);
	return status;
}

static bb_status pipeline_time_schedule(struct bb_pipeline_job *j)
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
static bb_status check_data(struct bb_pipeline_job *j, struct bb_pipeline_data *data)
{
	struct bb_pipeline_session *s = j->s;
	const struct bb_pipeline_form form = {.elements = BB_PIPELINE_ELEMENTS,
					      .late_stage = -1,
					      .swapped_stage = session_form(s).swapped_stage};
	struct bb_pipeline_program program;
	struct bb_trial trial = {.workload = {.program = &program.program,
					      .compute = bb_pipeline_compute,
					      .buffers = bb_pipeline_buffers,
					      .own = data},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1,
				 .expects = &expectation};
	bb_status status = bb_pipeline_program_make(&program, &j->order, &s->pipeline, &form,
						    &s->engine.run->error);

	snprintf(trial.what, sizeof(trial.what), "check of %s", j->schedule->name);
	if (status == BB_OK)
		status = pipeline_measure(s, &trial);
	if (status == BB_OK)
		j->wrong = s->engine.trials[s->engine.ntrials - 1].wrong;
	bb_pipeline_program_free(&program);
	return status;
}

static bb_status job_check(struct bb_pipeline_job *j)
{
	struct bb_engine *e = &j->s->engine;
	struct bb_pipeline_data *data;
	void *memory;
	bb_status status;

	/* The verification computes on the CPU. */
	if (!bb_engine_checks(e) || (e->backend->gpu))
		return BB_OK;
	status = bb_engine_alloc(e, bb_pipeline_data_bytes(&j->order), &memory);
	if (status != BB_OK)
		return status;
	data = bb_pipeline_data_open(&j->order, j->s->stage, (uint64_t)e->run->options.seed,
				     memory);
	status = data ? check_data(j, data) : bb_no_memory(&e->run->error, "the verification");
	bb_pipeline_data_close(data);
	/* Memory is released once no rank reads it any more. */
	if (status == BB_OK)
		status = bb_crew_barrier(e->driver);
	if (status == BB_OK)
		bb_engine_release(e, memory);
	return status;
}

/* ---- the hop --------------------------------------------------------------------------------- */

struct hop {
	struct bb_pipeline_job job;
	double passes; /* seconds of all passes */
	double samples[HOP_SAMPLES];
};

/* The first stage sees the begin and the end of the step. */
static void hop_stepped(void *own, size_t step)
{
	struct hop *h = own;
	const struct bb_pipeline_job *j = &h->job;

	h->samples[step] = j->measured.to[bb_pipeline_job_slot(j, 0, 1)] -
			   j->measured.from[bb_pipeline_job_slot(j, 0, 0)] - h->passes;
	bb_pass_times_begin(&h->job.measured);
}

/* One microbatch goes through all stages and back: twice as many hops as pairs of neighbours, and
   its passes. */
static bb_status time_hops(struct bb_pipeline_session *s, struct hop *h, double *hop)
{
	const struct bb_trial trial = {
		.workload = {.program = &h->job.program.program, .stand_in = BB_SLEEP, .own = h},
		.what = "hop between stages",
		.timing = BB_TIMING_STEPS,
		.steps = HOP_SAMPLES,
		.warm = 1,
		.watch = {bb_pass_times_note, &h->job.measured},
		.stepped = hop_stepped};
	struct bb_stats stats;
	bb_status status;

	h->passes = 2e-9 * HOP_PASS_NS * s->pipeline.stages;
	bb_pass_times_begin(&h->job.measured);
	status = pipeline_measure(s, &trial);
	bb_stats_compute(h->samples, status == BB_OK ? HOP_SAMPLES : 0, &stats);
	*hop = stats.p50 / (2 * (s->pipeline.stages - 1));
	return status;
}

static bb_status measure_hop(struct bb_pipeline_session *s)
{
	struct hop h = {.job = {.s = s, .schedule = bb_pipeline_find("naive")}};
	struct bb_pipeline_job *j = &h.job;
	struct bb_error *error = &s->engine.run->error;
	struct bb_pipeline pipeline = {.stages = s->pipeline.stages,
				       .microbatches = 1,
				       .chunks = 1,
				       .f = HOP_PASS_NS,
				       .b = HOP_PASS_NS};
	struct bb_pipeline_form form = session_form(s);
	const void *all;
	double hop = 0;
	bb_status status;

	form.late_stage = form.swapped_stage = -1;
	BB_TRY(status, bb_order_make(j->schedule, &pipeline, &j->order, error), out);
	BB_TRY(status, bb_pass_times_open(&j->measured, &j->order, &pipeline, error), out);
	BB_TRY(status, bb_pipeline_program_make(&j->program, &j->order, &pipeline, &form, error),
	       out);
	BB_TRY(status, time_hops(s, &h, &hop), out);
	BB_TRY(status, bb_crew_gather(s->engine.driver, &bb_payload_number, &hop, 1, &all), out);
	hop = *(const double *)all;
	s->pipeline.hop = hop > 0 && hop < BB_PAYLOAD_MOST_SECONDS ? (int64_t)(1e9 * hop) : 0;
out:
	bb_engine_clear(&s->engine);
	close_job(j);
	return status;
}

static bb_status settle_hop(struct bb_pipeline_session *s)
{
	const struct bb_pipeline_options *a = s->options;
	const bool by_measure = !a->predict && !a->tc_ns_given && s->pipeline.stages > 1;

	s->hop_source = by_measure   ? (bb_engine_is_virtual(&s->engine) ? "played" : "measured")
			: a->by_link ? "--link"
				     : "--tc";
	s->pipeline.hop = (int64_t)a->tc_ns;
	if (a->by_link)
		s->pipeline.hop = (int64_t)(1e9 * (a->link_latency +
						   (double)a->message_bytes / a->link_rate));
	return by_measure ? measure_hop(s) : BB_OK;
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* BB_EUNSUPPORTED, with the reason in REFUSAL, if there is no such order. */
static bb_status make_order(struct bb_pipeline_job *j, struct bb_error *refusal)
{
	const struct bb_pipeline *p = &j->s->pipeline;
	const char *reason = bb_pipeline_refuses(j->schedule, p);
	bb_status status;

	if (reason)
		return bb_fail(refusal, BB_EUNSUPPORTED, "%s", reason);
	status = bb_order_make(j->schedule, p, &j->order, refusal);
	return status == BB_OK ? bb_order_check(&j->order, refusal) : status;
}

static bb_status pipeline_run_schedule(struct bb_pipeline_session *s,
				       const struct bb_pipeline_schedule *schedule)
{
	struct bb_pipeline_job j = {.s = s, .schedule = schedule, .wrong = BB_ABSENT};
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
	if (!s->options->predict)
		BB_TRY(status, pipeline_time_schedule(&j), out);
	if (!s->options->predict)
		BB_TRY(status, job_check(&j), out);
	if (bb_engine_leads(&s->engine))
		status = bb_pipeline_deliver(&j);
out:
	bb_engine_clear(&s->engine);
	close_job(&j);
	return status;
}

static bb_status pipeline_run(struct bb_engine *engine)
{
	struct bb_pipeline_session *s = (struct bb_pipeline_session *)engine;
	const struct bb_pipeline_state *state = engine->run->own;
	bb_status status;

	s->options = &state->options;
	s->pipeline = state->pipeline;
	s->stage = engine->driver->rank;
	status = settle_hop(s);
	for (size_t i = 0; i < s->options->schedules.n && status == BB_OK; i++) {
		status = pipeline_run_schedule(
			s, &bb_pipeline_schedules[s->options->schedules.list[i]]);
		if (bb_engine_leads(engine))
			bb_ticker_step(&engine->run->ticker, 1);
	}
	return status;
}

const struct bb_experiment bb_pipeline_experiment = {
	.bytes = sizeof(struct bb_pipeline_session),
	.run = pipeline_run,
};
