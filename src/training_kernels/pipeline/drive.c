/*
 * drive.c - the experiment: a hop is measured, then each schedule is predicted, timed, verified and
 * delivered.
 */
#include "training_kernels/pipeline/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

#define HOP_PASS_NS 1000000 /* long enough to sleep, as measured passes are */
#define HOP_SAMPLES 15

/* A driver's state. */
struct pipeline_session {
	struct bb_kernel kernel;
	const struct bb_pipeline_options *options;
	struct bb_pipeline pipeline; /* hop included */
	const char *hop_source;
	struct bb_link_model links; /* of the prediction */
	int stage;                  /* this rank's */
};

/* One schedule on one rank. */
struct job {
	struct bb_variant variant;
	struct pipeline_session *session;
	struct bb_error *error; /* the run's */
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

static void job_release(struct bb_variant *variant)
{
	struct job *j = (struct job *)variant;

	bb_pipeline_program_free(&j->program);
	bb_pass_times_close(&j->predicted);
	bb_pass_times_close(&j->measured);
	bb_order_free(&j->order);
}

/* Room for ITERS steps; NULL without memory. */
static struct job *job_new(struct pipeline_session *s, const struct bb_pipeline_schedule *schedule,
			   size_t iters)
{
	const size_t stages = (size_t)s->pipeline.stages;
	struct job *j = bb_variant_new(&s->kernel, sizeof(*j));

	if (!j)
		return NULL;
	j->variant.release = job_release;
	j->session = s;
	j->error = &s->kernel.engine.run->error;
	j->schedule = schedule;
	j->published = NAN;
	j->wrong = BB_ABSENT;
	j->steps = bb_kernel_keep(&s->kernel, 2 * (iters + stages), sizeof(double));
	if (!j->steps)
		return NULL;
	j->spans = j->steps + iters;
	j->kept = j->spans + iters;
	j->layers = j->kept + stages;
	return j;
}

/* The programs of a run, without its fault. */
static struct bb_pipeline_form session_form(const struct pipeline_session *s)
{
	return (struct bb_pipeline_form){
		.elements = (size_t)(s->options->message_bytes / sizeof(uint32_t)),
		.rate = s->options->flops,
	};
}

/* ---- prediction ------------------------------------------------------------------------------ */

/* Rank 0: the result of the order over modelled links; before it, of an interleaved one as it is
   published. */
static bb_status job_predict(struct job *j)
{
	const struct bb_timeline_watch watch = {bb_pass_times_note, &j->predicted};
	struct bb_pipeline_form form = session_form(j->session);
	bb_status status;

	BB_TRY(status, bb_pass_times_open(&j->predicted, &j->order, j->error), out);
	for (int published = !j->schedule->chunks && j->order.chunks > 1; published >= 0;
	     published--) {
		struct bb_pipeline_program program;
		double end;

		form.first_wraps = published;
		status = bb_pipeline_program_make(&program, &j->order, &form, j->error);
		bb_pass_times_begin(&j->predicted);
		if (status == BB_OK)
			status = bb_timeline_program(&j->session->links, &program.program, &watch,
						     &end, j->error);
		bb_pipeline_program_free(&program);
		BB_TRY(status, status, out);
		j->prediction = bb_pipeline_result_of(&j->predicted);
		if (published)
			j->published =
				bb_pipeline_bubble(j->prediction.makespan, j->prediction.ideal,
						   j->prediction.makespan);
	}
	for (int s = 0; s < j->order.stages; s++) {
		j->kept[s] = j->predicted.peaks[s] / j->order.chunks;
		j->predicted.peaks[s] /= (double)bb_part_of_stage(&j->order, s).change[BB_PASS_F];
	}
	for (int d = 0; d < bb_order_depths(&j->order); d++)
		j->layers[bb_order_stage(&j->order, d)] += bb_part_layers(&j->order, d);
out:
	return status;
}

/* ---- measurement ----------------------------------------------------------------------------- */

/* Keeps iteration STEP of this rank, or of all stages in virtual time, and begins the next. */
static void pipeline_stepped(void *own, size_t step)
{
	struct job *j = own;
	const struct pipeline_session *s = j->session;
	const bool all = bb_engine_is_virtual(&s->kernel.engine);
	const double *to = j->measured.to;

	for (int i = all ? 0 : s->stage; i <= (all ? j->order.stages - 1 : s->stage); i++)
		j->steps[step] = fmax(j->steps[step], to[job_slot(j, i, j->order.length - 1)]);
	j->spans[step] = to[job_slot(j, s->stage, j->order.length - 1)] -
			 j->measured.from[job_slot(j, s->stage, 0)];
	if (step + 1 < (size_t)s->options->iters)
		bb_pass_times_begin(&j->measured);
}

/* Times the order of J as TRIAL says. */
static bb_status job_measure(struct job *j, const struct bb_pipeline_form *form, const char *name,
			     struct bb_trial trial)
{
	bb_status status;

	trial.workload.program = &j->program.program;
	trial.timing = BB_TIMING_STEPS;
	trial.watch = (struct bb_timeline_watch){bb_pass_times_note, &j->measured};
	BB_TRY(status, bb_pass_times_open(&j->measured, &j->order, j->error), out);
	bb_pass_times_begin(&j->measured);
	BB_TRY(status, bb_pipeline_program_make(&j->program, &j->order, form, j->error), out);
	BB_TRY(status, bb_variant_add(&j->variant, &trial, NULL, "%s", name), out);
	status = bb_engine_measure(&j->session->kernel.engine);
out:
	return status;
}

/* All ranks learn what each has observed of its stage, with --gantt also each pass. In virtual time
   each has observed all stages, whose steps differ by noise only. */
static bb_status job_gather(struct job *j)
{
	const struct pipeline_session *s = j->session;
	struct bb_pass_times *t = &j->measured;
	const size_t iters = (size_t)s->options->iters, stages = (size_t)j->order.stages;
	const size_t slots = bb_order_slots(&j->order);
	const struct {
		double *values;
		size_t n;
	} all[] = {{j->steps, iters},  {t->peaks, stages}, {t->sent, stages},
		   {t->spans, stages}, {t->from, slots},   {t->to, slots}};
	bb_status status = BB_OK;

	if (bb_engine_is_virtual(&s->kernel.engine)) {
		(void)bb_pipeline_result_of(t);
		return BB_OK;
	}
	t->spans[s->stage] = bb_stats_median(j->spans, iters);
	for (int i = 0; i < (s->options->gantt ? 6 : 4) && status == BB_OK; i++)
		status = bb_driver_most(s->kernel.engine.driver, &bb_payload_real, all[i].values,
					all[i].n);
	return status;
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
	struct bb_engine *e = &j->session->kernel.engine;
	const struct bb_fault *fault = &e->run->options.fault;
	struct bb_pipeline_form form = {.elements = BB_PIPELINE_ELEMENTS};
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
	if (!bb_engine_checks(e) || e->backend->gpu)
		return BB_OK;
	BB_TRY(status, bb_engine_alloc(e, bb_pipeline_data_bytes(&j->order), &memory), out);
	data = bb_pipeline_data_begin(&j->order, j->session->stage, (uint64_t)e->run->options.seed,
				      memory);
	if (fault->kind == BB_FAULT_SWAP)
		form.fault = *fault;
	snprintf(trial.what, sizeof(trial.what), "check of %s", j->schedule->name);
	BB_TRY(status, bb_pipeline_program_make(&program, &j->order, &form, j->error), out);
	BB_TRY(status, bb_engine_add(e, &trial, NULL), out);
	BB_TRY(status, bb_engine_measure(e), out);
	j->wrong = e->trials[e->ntrials - 1].wrong;
	/* Memory is released once no rank reads it any more. */
	BB_TRY(status, bb_driver_barrier(e->driver), out);
	bb_engine_release(e, memory);
out:
	bb_pipeline_program_free(&program);
	return status;
}

/* ---- the hop --------------------------------------------------------------------------------- */

/* The first stage sees the begin and the end of the step; the rest of it is hops. */
static void hop_stepped(void *own, size_t step)
{
	struct job *j = own;

	j->steps[step] = j->measured.to[job_slot(j, 0, 1)] - j->measured.from[job_slot(j, 0, 0)] -
			 2e-9 * HOP_PASS_NS * j->order.stages;
	bb_pass_times_begin(&j->measured);
}

/* One microbatch goes through all stages and back: twice as many hops as pairs of neighbours, and
   its passes. */
static bb_status measure_hop(struct pipeline_session *s)
{
	struct job *j = job_new(s, bb_pipeline_find("naive"), HOP_SAMPLES);
	const struct bb_pipeline pipeline = {.stages = s->pipeline.stages,
					     .microbatches = 1,
					     .chunks = 1,
					     .f = HOP_PASS_NS,
					     .b = HOP_PASS_NS};
	const struct bb_pipeline_form form = session_form(s);
	const void *all;
	double hop;
	bb_status status;

	if (!j)
		return BB_EINTERNAL;
	BB_TRY(status, bb_order_make(j->schedule, &pipeline, &j->order, j->error), out);
	BB_TRY(status,
	       job_measure(j, &form, "hop between stages",
			   (struct bb_trial){.workload.stand_in = BB_SLEEP,
					     .steps = HOP_SAMPLES,
					     .warm = 1,
					     .stepped = hop_stepped}),
	       out);
	hop = bb_stats_median(j->steps, HOP_SAMPLES) / (2 * (pipeline.stages - 1));
	BB_TRY(status, bb_driver_gather(s->kernel.engine.driver, &bb_payload_number, &hop, 1, &all),
	       out);
	hop = *(const double *)all;
	s->pipeline.hop = hop > 0 && hop < BB_PAYLOAD_MOST_SECONDS ? (int64_t)(1e9 * hop) : 0;
out:
	bb_kernel_clear(&s->kernel);
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The total of VALUES, which become multiples of UNIT. */
static double job_total(struct bb_numbers *numbers, double *values, size_t n, double unit)
{
	double sum = 0;

	for (size_t s = 0; s < n; s++)
		sum += values[s] *= unit;
	*numbers = (struct bb_numbers){values, n};
	return sum;
}

static void fill_prediction(const struct job *j, struct bb_pipeline_record *r)
{
	const struct pipeline_session *session = j->session;
	const struct bb_order *order = &j->order;
	const struct bb_pipeline_result *t = &j->prediction;
	const size_t n = (size_t)order->stages;
	struct bb_part all;
	int busiest = 0;

	r->schedule = j->schedule->name;
	r->stages = order->stages;
	r->microbatches = order->microbatches;
	r->chunks = order->chunks;
	r->message_bytes = (int64_t)session->options->message_bytes / 4 * 4;
	r->hop_us = 1e-3 * (double)order->pipeline.hop;
	r->hop_source = session->hop_source;
	for (int s = 1; s < order->stages; s++)
		if (bb_stage_ns(order, s) > bb_stage_ns(order, busiest))
			busiest = s;
	all = bb_part_of_stage(order, busiest);
	r->f_us = 1e-3 * (double)all.cost[BB_PASS_F];
	r->b_us = 1e-3 * (double)all.cost[BB_PASS_B];
	r->w_us = 1e-3 * (double)all.cost[BB_PASS_W];
	r->ideal_us = 1e6 * t->ideal;
	r->predicted_us = 1e6 * t->makespan;
	r->predicted_span_us = 1e6 * t->span;
	r->predicted_bubble_over_ideal = bb_pipeline_bubble(t->makespan, t->ideal, t->ideal);
	r->predicted_bubble_over_total = bb_pipeline_bubble(t->makespan, t->ideal, t->makespan);
	r->predicted_span_bubble_over_ideal = bb_pipeline_bubble(t->span, t->ideal, t->ideal);
	r->predicted_span_bubble_over_total = bb_pipeline_bubble(t->span, t->ideal, t->span);
	r->published_bubble_over_total = j->published;
	(void)job_total(&r->predicted_stage_us, j->predicted.spans, n, 1e6);
	r->peak_microbatches = (struct bb_numbers){j->predicted.peaks, n};
	r->stage_peak_bytes = (struct bb_numbers){j->kept, n};
	r->peak_bytes = 0;
	for (size_t s = 0; s < n; s++)
		r->peak_bytes = (int64_t)fmax((double)r->peak_bytes, j->kept[s]);
	r->sent_bytes = (int64_t)job_total(&r->stage_sent_bytes, j->predicted.sent, n, 1);
	if (order->pipeline.layers)
		r->layers = (struct bb_numbers){j->layers, n};
}

static void fill_measurement(struct job *j, struct bb_pipeline_record *r)
{
	const struct bb_pipeline_options *a = j->session->options;
	const size_t n = (size_t)r->stages;
	struct bb_stats stats;

	bb_stats_compute(j->steps, (size_t)a->iters, &stats);
	r->compute = bb_stand_in_names[a->stand_in];
	r->iterations = a->iters;
	r->p50_us = 1e6 * stats.p50;
	r->p99_us = 1e6 * stats.p99;
	r->min_us = 1e6 * stats.min;
	r->max_us = 1e6 * stats.max;
	(void)job_total(&r->stage_us, j->measured.spans, n, 1e6);
	r->span_us = 0;
	for (size_t s = 0; s < n; s++) {
		r->span_us = fmax(r->span_us, j->measured.spans[s]);
		j->measured.peaks[s] /=
			(double)bb_part_of_stage(&j->order, (int)s).change[BB_PASS_F];
	}
	r->bubble_over_ideal = bb_pipeline_bubble(r->p50_us, r->ideal_us, r->ideal_us);
	r->bubble_over_total = bb_pipeline_bubble(r->p50_us, r->ideal_us, r->p50_us);
	r->span_bubble_over_ideal = bb_pipeline_bubble(r->span_us, r->ideal_us, r->ideal_us);
	r->span_bubble_over_total = bb_pipeline_bubble(r->span_us, r->ideal_us, r->span_us);
	r->off_percent = 100 * (r->p50_us / r->predicted_us - 1);
	r->counted_peak_microbatches = (struct bb_numbers){j->measured.peaks, n};
	r->counted_sent_bytes =
		(int64_t)job_total(&r->counted_stage_sent_bytes, j->measured.sent, n, 1);
	r->wrong = j->wrong;
}

/* Elements of STAGE, with a second copy of an embedding that the head shares on another stage. */
static struct bb_piece stage_piece(const struct job *j, const struct bb_model_layout *layout,
				   int stage)
{
	const size_t layers = (size_t)j->order.pipeline.layers;
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
	struct bb_run *run = j->session->kernel.engine.run;
	const struct bb_pipeline_state *state = run->own;
	const struct bb_pipeline_options *a = &state->options;
	struct bb_training t = bb_training_alone(&state->model);
	struct bb_need most = {.total = 0};

	t.layout = &state->layout;
	t.pp = (uint64_t)j->order.stages;
	t.eager = a->attention == BB_ATTENTION_EAGER;
	t.micro_batch = (uint64_t)a->batch;
	t.micro_batches = (uint64_t)j->order.microbatches;
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
	return bb_fit_judge_need(verdict, &t, &most, state->capacity.usable, &run->error);
}

/* With --gantt: each pass of TIMES as a record, and a chart. */
static bb_status deliver_passes(const struct job *j, const struct bb_pass_times *times,
				const char *source)
{
	struct bb_sinks *sinks = &j->session->kernel.engine.run->sinks;
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

			status = bb_sinks_data(sinks, &bb_record_pass, &r);
		}
	return status == BB_OK ? bb_pipeline_text_chart(sinks, j->schedule->name, times, source)
			       : status;
}

/* Rank 0: the records of J to the sinks. */
static bb_status job_deliver(struct job *j)
{
	const struct bb_pipeline_options *a = j->session->options;
	struct bb_engine *e = &j->session->kernel.engine;
	struct bb_fit_verdict verdict;
	struct bb_pipeline_record r;
	bb_status status = BB_OK;

	bb_record_init(&bb_record_pipeline, &r);
	fill_prediction(j, &r);
	if (!a->predict)
		fill_measurement(j, &r);
	if (j->order.pipeline.layers) {
		BB_TRY(status, judge_fit(j, &verdict), out);
		BB_FIT_SET(&r, &verdict);
	}
	r.end_unix_s = bb_clock_unix();
	BB_TRY(status, bb_pipeline_text_add(e->run, &r), out);
	status = bb_engine_deliver(e, &bb_record_pipeline, &r, r.wrong);
	if (status == BB_OK && a->gantt)
		status = deliver_passes(j, &j->predicted, "predicted");
	if (status == BB_OK && a->gantt && !a->predict)
		status = deliver_passes(j, &j->measured,
					bb_engine_is_virtual(e) ? "simulated" : "measured");
out:
	return status;
}

/* ---- schedules ------------------------------------------------------------------------------- */

static bb_status run_schedule(struct pipeline_session *s,
			      const struct bb_pipeline_schedule *schedule)
{
	struct bb_engine *e = &s->kernel.engine;
	const struct bb_pipeline_options *a = s->options;
	struct bb_pipeline_form form = session_form(s);
	const struct bb_trial trial = {.workload.stand_in = (enum bb_stand_in)a->stand_in,
				       .steps = (size_t)a->iters,
				       .warm = (size_t)e->run->options.warmup_iters,
				       .stepped = pipeline_stepped};
	const char *reason = bb_pipeline_refuses(schedule, &s->pipeline);
	struct bb_error refusal = {.text = ""};
	struct job *j = job_new(s, schedule, (size_t)a->iters);
	bb_status status = j ? bb_engine_begin(e, schedule->name) : BB_EINTERNAL;

	BB_TRY(status, status, out);
	status = reason ? bb_fail(&refusal, BB_EUNSUPPORTED, "%s", reason)
			: bb_order_make(schedule, &s->pipeline, &j->order, &refusal);
	if (status == BB_OK)
		status = bb_order_check(&j->order, &refusal);
	if (status == BB_EUNSUPPORTED) {
		status = bb_engine_skip_subject(e, "pipeline", schedule->name, NULL, refusal.text);
		goto out;
	}
	if (status != BB_OK) {
		bb_fail(&e->run->error, status, "%s: %s", schedule->name, refusal.text);
		goto out;
	}
	if (bb_engine_leads(e))
		BB_TRY(status, job_predict(j), out);
	form.fault = e->run->options.fault;
	if (!a->predict) {
		BB_TRY(status, job_measure(j, &form, schedule->name, trial), out);
		BB_TRY(status, job_gather(j), out);
		BB_TRY(status, job_check(j), out);
	}
	if (bb_engine_leads(e))
		status = job_deliver(j);
out:
	bb_kernel_clear(&s->kernel);
	return status;
}

static bb_status pipeline_run(struct bb_engine *engine)
{
	struct pipeline_session *s = (struct pipeline_session *)engine;
	const struct bb_pipeline_state *state = engine->run->own;
	const struct bb_pipeline_options *a = s->options = &state->options;
	bb_status status = BB_OK;

	if (bb_engine_leads(engine))
		bb_ticker_start(&engine->run->ticker, a->schedules.n, a->schedules.n);
	s->pipeline = state->pipeline;
	s->stage = engine->driver->rank;
	s->hop_source = "--tc";
	s->pipeline.hop = (int64_t)a->tc_ns;
	if (state->link.rate > 0) {
		s->hop_source = "--link";
		s->pipeline.hop = (int64_t)(1e9 * (state->link.latency +
						   (double)a->message_bytes / state->link.rate));
	} else if (!a->predict && !a->tc_ns_given && s->pipeline.stages > 1) {
		s->hop_source = bb_engine_is_virtual(engine) ? "simulated" : "measured";
		status = measure_hop(s);
	}
	s->links = state->link;
	if (s->links.rate <= 0)
		s->links.latency = 1e-9 * (double)s->pipeline.hop;
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
	.close = bb_kernel_close,
};
