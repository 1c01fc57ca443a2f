/*
 * drive.c - the experiment: a hop is measured, then each schedule is predicted, timed, verified and
 * delivered.
 */
#include "training_kernels/pipeline/pipeline.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HOP_PASS_NS 1000000 /* long enough to sleep, as measured passes are */
#define HOP_SAMPLES 15

#define MARGIN 9  /* of a Gantt chart: "#    0 |" and "|" */
#define NARROW 40 /* least width of a chart */

/* A driver's state. */
struct pipeline_session {
	struct bb_kernel kernel;
	const struct bb_pipeline_options *options;
	struct bb_error *error;      /* the run's */
	struct bb_pipeline pipeline; /* hop included */
	const char *hop_source;
	struct bb_link_model links; /* of the prediction */
	int stage;                  /* this rank's */

	/* Of the schedule that is run. Times are on rank 0 those of all stages; of the last timed
	   step, but for spans, which are medians. */
	const struct bb_pipeline_schedule *schedule;
	struct bb_order order;
	struct bb_pass_times predicted, measured;
	struct bb_pipeline_result prediction;
	size_t iters;
	double *steps, *spans; /* [iteration]: makespan, and the time of this stage in it */
	double *kept, *layers; /* [stage]: predicted bytes of activations; layers */
	double published;      /* bubble_over_total with first_wraps; NAN: not interleaved */
	int64_t wrong;         /* BB_ABSENT: not verified */
};

/* The slot of pass number I of STAGE. */
static size_t session_slot(const struct pipeline_session *s, int stage, size_t i)
{
	return bb_order_slot(&s->order, stage, &bb_order_passes(&s->order, stage)[i]);
}

/* Room for ITERS steps of SCHEDULE. */
static bb_status session_begin(struct pipeline_session *s,
			       const struct bb_pipeline_schedule *schedule, size_t iters)
{
	const size_t stages = (size_t)s->pipeline.stages;

	s->schedule = schedule;
	s->iters = iters;
	s->published = NAN;
	s->wrong = BB_ABSENT;
	s->steps = bb_kernel_keep(&s->kernel, 2 * (iters + stages), sizeof(double));
	if (!s->steps)
		return BB_EINTERNAL;
	s->spans = s->steps + iters;
	s->kept = s->spans + iters;
	s->layers = s->kept + stages;
	return BB_OK;
}

static void session_end(struct pipeline_session *s)
{
	bb_pass_times_close(&s->predicted);
	bb_pass_times_close(&s->measured);
	bb_order_free(&s->order);
	bb_kernel_close(&s->kernel.engine);
}

/* The programs of a run, without its fault. */
static struct bb_pipeline_form session_form(const struct pipeline_session *s)
{
	return (struct bb_pipeline_form){
		.elements = (size_t)(s->options->message_bytes / sizeof(uint32_t)),
		.rate = s->options->flops,
	};
}

/* Performs the program of FORM as TRIAL says; WHAT and NAME are its name. */
static bb_status session_perform(struct pipeline_session *s, const struct bb_pipeline_form *form,
				 struct bb_trial trial, const char *what, const char *name)
{
	struct bb_pipeline_program program;
	bb_status status = bb_pipeline_program_make(&program, &s->order, form, s->error);

	trial.workload.program = &program.program;
	trial.timing = BB_TIMING_STEPS;
	snprintf(trial.what, sizeof(trial.what), "%s%s", what, name);
	BB_TRY(status, status, out);
	BB_TRY(status, bb_engine_add(&s->kernel.engine, &trial, NULL), out);
	status = bb_engine_measure(&s->kernel.engine);
out:
	bb_pipeline_program_free(&program);
	return status;
}

/* Keeps iteration STEP of this rank, or of all stages in virtual time, and begins the next. */
static void pipeline_stepped(void *own, size_t step)
{
	struct pipeline_session *s = own;
	const bool all = bb_engine_is_virtual(&s->kernel.engine);
	const size_t last = s->order.length - 1;
	const double *to = s->measured.to;

	for (int i = all ? 0 : s->stage; i <= (all ? s->order.stages - 1 : s->stage); i++)
		s->steps[step] = fmax(s->steps[step], to[session_slot(s, i, last)]);
	s->spans[step] = to[session_slot(s, s->stage, last)] -
			 s->measured.from[session_slot(s, s->stage, 0)];
	if (step + 1 < s->iters)
		bb_pass_times_begin(&s->measured);
}

/* ---- the hop --------------------------------------------------------------------------------- */

/* One microbatch goes through all stages and back: twice as many hops as pairs of neighbours, and
   its passes. The first stage sees the begin and the end of the step. */
static bb_status measure_hop(struct pipeline_session *s)
{
	const struct bb_pipeline pipeline = {.stages = s->pipeline.stages,
					     .microbatches = 1,
					     .chunks = 1,
					     .f = HOP_PASS_NS,
					     .b = HOP_PASS_NS};
	const struct bb_pipeline_form form = session_form(s);
	const struct bb_trial trial = {.workload = {.stand_in = BB_SLEEP, .own = s},
				       .steps = HOP_SAMPLES,
				       .warm = 1,
				       .watch = {bb_pass_times_note, &s->measured},
				       .stepped = pipeline_stepped};
	const void *all;
	bb_status status;

	BB_TRY(status, session_begin(s, bb_pipeline_find("naive"), HOP_SAMPLES), out);
	BB_TRY(status, bb_order_make(s->schedule, &pipeline, &s->order, s->error), out);
	BB_TRY(status, bb_pass_times_open(&s->measured, &s->order, s->error), out);
	BB_TRY(status, session_perform(s, &form, trial, "hop between stages", ""), out);
	double hop =
		(bb_stats_median(s->spans, HOP_SAMPLES) - 2e-9 * HOP_PASS_NS * pipeline.stages) /
		(2 * (pipeline.stages - 1));
	BB_TRY(status, bb_driver_gather(s->kernel.engine.driver, &bb_payload_number, &hop, 1, &all),
	       out);
	hop = *(const double *)all;
	s->pipeline.hop = hop > 0 && hop < BB_PAYLOAD_MOST_SECONDS ? (int64_t)(1e9 * hop) : 0;
out:
	session_end(s);
	return status;
}

/* ---- a schedule: prediction, measurement, verification --------------------------------------- */

/* Rank 0: the result of the order over modelled links; before it, of an interleaved one as it is
   published. */
static bb_status schedule_predict(struct pipeline_session *s)
{
	const struct bb_timeline_watch watch = {bb_pass_times_note, &s->predicted};
	const struct bb_order *order = &s->order;
	struct bb_pipeline_form form = session_form(s);
	bb_status status;

	BB_TRY(status, bb_pass_times_open(&s->predicted, order, s->error), out);
	for (int published = !s->schedule->chunks && order->chunks > 1; published >= 0;
	     published--) {
		struct bb_pipeline_program program;
		double end;

		form.first_wraps = published;
		status = bb_pipeline_program_make(&program, order, &form, s->error);
		bb_pass_times_begin(&s->predicted);
		if (status == BB_OK)
			status = bb_timeline_program(&s->links, &program.program, &watch, &end,
						     s->error);
		bb_pipeline_program_free(&program);
		BB_TRY(status, status, out);
		s->prediction = bb_pipeline_result_of(&s->predicted);
		if (published)
			s->published =
				bb_pipeline_bubble(s->prediction.makespan, s->prediction.ideal,
						   s->prediction.makespan);
	}
	for (int i = 0; i < order->stages; i++) {
		s->kept[i] = s->predicted.peaks[i] / order->chunks;
		s->predicted.peaks[i] /= (double)bb_part_of_stage(order, i).change[BB_PASS_F];
	}
	for (int d = 0; d < bb_order_depths(order); d++)
		s->layers[bb_order_stage(order, d)] += bb_part_layers(order, d);
out:
	return status;
}

/* Times the schedule. Then all ranks learn what each has observed of its stage, with --gantt also
   each pass. In virtual time each has observed all stages, whose steps differ by noise only. */
static bb_status schedule_measure(struct pipeline_session *s)
{
	const struct bb_pipeline_options *a = s->options;
	struct bb_engine *e = &s->kernel.engine;
	struct bb_pass_times *t = &s->measured;
	struct bb_pipeline_form form = session_form(s);
	const struct bb_trial trial = {
		.workload = {.stand_in = (enum bb_stand_in)a->stand_in, .own = s},
		.steps = s->iters,
		.warm = (size_t)e->run->options.warmup_iters,
		.watch = {bb_pass_times_note, t},
		.stepped = pipeline_stepped};
	const size_t stages = (size_t)s->order.stages, slots = bb_order_slots(&s->order);
	bb_status status;

	form.fault = e->run->options.fault;
	BB_TRY(status, bb_pass_times_open(t, &s->order, s->error), out);
	BB_TRY(status, session_perform(s, &form, trial, "", s->schedule->name), out);
	if (bb_engine_is_virtual(e)) {
		(void)bb_pipeline_result_of(t);
		return BB_OK;
	}
	t->spans[s->stage] = bb_stats_median(s->spans, s->iters);
	BB_TRY(status, bb_driver_most(e->driver, &bb_payload_real, s->steps, s->iters), out);
	BB_TRY(status, bb_driver_most(e->driver, &bb_payload_real, t->peaks, 3 * stages), out);
	if (a->gantt)
		status = bb_driver_most(e->driver, &bb_payload_real, t->from, 2 * slots);
out:
	return status;
}

/* Runs the schedule once more, with data. */
static bb_status schedule_check(struct pipeline_session *s)
{
	struct bb_engine *e = &s->kernel.engine;
	const struct bb_fault *fault = &e->run->options.fault;
	struct bb_pipeline_form form = {.elements = BB_PIPELINE_ELEMENTS};
	struct bb_pipeline_data data;
	const struct bb_trial trial = {.workload = {.compute = bb_pipeline_compute,
						    .buffers = bb_pipeline_buffers,
						    .own = &data},
				       .steps = 1,
				       .expects = &bb_pipeline_expectation};
	void *memory;
	bb_status status;

	/* The verification computes on the CPU. */
	if (!bb_engine_checks(e) || e->backend->gpu)
		return BB_OK;
	BB_TRY(status, bb_engine_alloc(e, bb_pipeline_data_bytes(&s->order), &memory), out);
	data = bb_pipeline_data_begin(&s->order, s->stage, (uint64_t)e->run->options.seed, memory);
	if (fault->kind == BB_FAULT_SWAP)
		form.fault = *fault;
	BB_TRY(status, session_perform(s, &form, trial, "check of ", s->schedule->name), out);
	s->wrong = e->trials[e->ntrials - 1].wrong;
	/* Memory is released once no rank reads it any more. */
	BB_TRY(status, bb_driver_barrier(e->driver), out);
	bb_engine_release(e, memory);
out:
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The total of VALUES, which become multiples of UNIT. */
static double numbers_total(struct bb_numbers *numbers, double *values, size_t n, double unit)
{
	double sum = 0;

	for (size_t s = 0; s < n; s++)
		sum += values[s] *= unit;
	*numbers = (struct bb_numbers){values, n};
	return sum;
}

/* The prediction, and what was measured. */
static void schedule_describe(struct pipeline_session *s, struct bb_pipeline_record *r)
{
	const struct bb_pipeline_options *a = s->options;
	const struct bb_order *order = &s->order;
	const struct bb_pipeline_result *t = &s->prediction;
	const size_t n = (size_t)order->stages;
	struct bb_stats stats;
	int busiest = 0;

	bb_record_init(&bb_record_pipeline, r);
	r->schedule = s->schedule->name;
	r->stages = order->stages;
	r->microbatches = order->microbatches;
	r->chunks = order->chunks;
	r->message_bytes = (int64_t)a->message_bytes / 4 * 4;
	r->hop_us = 1e-3 * (double)order->pipeline.hop;
	r->hop_source = s->hop_source;
	for (int i = 1; i < order->stages; i++)
		if (bb_stage_ns(order, i) > bb_stage_ns(order, busiest))
			busiest = i;
	const struct bb_part all = bb_part_of_stage(order, busiest);
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
	r->published_bubble_over_total = s->published;
	(void)numbers_total(&r->predicted_stage_us, s->predicted.spans, n, 1e6);
	r->peak_microbatches = (struct bb_numbers){s->predicted.peaks, n};
	r->stage_peak_bytes = (struct bb_numbers){s->kept, n};
	r->peak_bytes = 0;
	for (size_t i = 0; i < n; i++)
		r->peak_bytes = (int64_t)fmax((double)r->peak_bytes, s->kept[i]);
	r->sent_bytes = (int64_t)numbers_total(&r->stage_sent_bytes, s->predicted.sent, n, 1);
	if (order->pipeline.layers)
		r->layers = (struct bb_numbers){s->layers, n};
	if (a->predict)
		return;
	bb_stats_compute(s->steps, (size_t)a->iters, &stats);
	r->compute = bb_stand_in_names[a->stand_in];
	r->iterations = a->iters;
	r->p50_us = 1e6 * stats.p50;
	r->p99_us = 1e6 * stats.p99;
	r->min_us = 1e6 * stats.min;
	r->max_us = 1e6 * stats.max;
	(void)numbers_total(&r->stage_us, s->measured.spans, n, 1e6);
	r->span_us = 0;
	for (size_t i = 0; i < n; i++) {
		r->span_us = fmax(r->span_us, s->measured.spans[i]);
		s->measured.peaks[i] /= (double)bb_part_of_stage(order, (int)i).change[BB_PASS_F];
	}
	r->bubble_over_ideal = bb_pipeline_bubble(r->p50_us, r->ideal_us, r->ideal_us);
	r->bubble_over_total = bb_pipeline_bubble(r->p50_us, r->ideal_us, r->p50_us);
	r->span_bubble_over_ideal = bb_pipeline_bubble(r->span_us, r->ideal_us, r->ideal_us);
	r->span_bubble_over_total = bb_pipeline_bubble(r->span_us, r->ideal_us, r->span_us);
	r->off_percent = 100 * (r->p50_us / r->predicted_us - 1);
	r->counted_peak_microbatches = (struct bb_numbers){s->measured.peaks, n};
	r->counted_sent_bytes =
		(int64_t)numbers_total(&r->counted_stage_sent_bytes, s->measured.sent, n, 1);
	r->wrong = s->wrong;
}

/* The memory of the stage that needs most: states by AdamW in mixed precision, and the activations
   that the order keeps. */
static bb_status schedule_judge(const struct pipeline_session *s, struct bb_fit_verdict *verdict)
{
	const struct bb_pipeline_state *state = s->kernel.engine.run->own;
	const struct bb_pipeline_options *a = &state->options;
	const struct bb_model_layout *layout = &state->layout;
	const size_t layers = (size_t)s->order.pipeline.layers;
	const size_t parts = (size_t)bb_order_depths(&s->order);
	struct bb_training t = bb_training_alone(&state->model);
	struct bb_need most = {.total = 0};

	t.layout = layout;
	t.pp = (uint64_t)s->order.stages;
	t.eager = a->attention == BB_ATTENTION_EAGER;
	t.micro_batch = (uint64_t)a->batch;
	t.micro_batches = (uint64_t)s->order.microbatches;
	for (int stage = 0; stage < s->order.stages; stage++) {
		struct bb_piece sum = {.matrices = 0};
		struct bb_need need = {.stage = (uint64_t)stage};

		for (int c = 0; c < s->order.chunks; c++) {
			const size_t depth = (size_t)bb_order_depth(&s->order, stage, c);
			const bool last = depth + 1 == parts;
			const struct bb_piece piece = bb_layout_pieces(
				layout, depth == 0 ? 0 : 1 + depth * layers / parts,
				last ? layout->pieces : 1 + (depth + 1) * layers / parts);

			bb_piece_add(&sum, &piece);
			/* A second copy of an embedding that the head shares on another stage. */
			if (last && stage > 0)
				sum.matrices += layout->embedding;
		}
		bb_training_states(&t, &sum, &need);
		need.bytes[BB_NEED_ACTIVATIONS] = (uint64_t)s->kept[stage];
		for (int i = 0; i < BB_CATEGORIES; i++)
			need.total = bb_bytes_add(need.total, need.bytes[i]);
		if (need.total >= most.total)
			most = need;
	}
	return bb_fit_judge_need(verdict, &t, &most, state->capacity.usable, s->error);
}

/*
 * With --gantt: each pass of TIMES, as SOURCE has it, as a record and in a chart with a line for
 * each stage and time from left to right. A pass is its letter, the number of its microbatch and
 * dashes, as far as there is room; odd chunks have small letters.
 */
static bb_status deliver_passes(const struct pipeline_session *s, const struct bb_pass_times *times,
				const char *source)
{
	struct bb_sinks *sinks = &s->kernel.engine.run->sinks;
	const struct bb_order *order = &s->order;
	const char *no_colour = getenv("NO_COLOR");
	const bool colours = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
	const int columns = bb_terminal_limit(stdout, INT_MAX);
	const int room = (columns < INT_MAX ? columns : BB_TABLE_LIMIT) - MARGIN;
	const int width = room < NARROW ? NARROW : room;
	struct bb_strbuf chart = {0};
	double end = 0;
	bb_status status = BB_OK;

	for (size_t slot = 0; slot < bb_order_slots(order); slot++)
		end = fmax(end, times->to[slot]);
	bb_strbuf_addf(&chart, "# %s, %s: %.2f ms\n", s->schedule->name, source, 1e3 * end);
	for (int stage = 0; stage < order->stages; stage++) {
		int at = 0; /* column */

		bb_strbuf_addf(&chart, "# %4d |", stage);
		for (size_t i = 0; i < order->length && status == BB_OK; i++) {
			const struct bb_pass *pass = &bb_order_passes(order, stage)[i];
			const size_t slot = session_slot(s, stage, i);
			const struct bb_pass_record r = {
				.schedule = s->schedule->name,
				.source = source,
				.stage = stage,
				.pass = bb_pass_names[pass->kind],
				.chunk = pass->chunk,
				.microbatch = pass->microbatch,
				.from_us = 1e6 * times->from[slot],
				.to_us = 1e6 * times->to[slot],
			};
			/* Times come from other ranks: they may be anything. */
			const int from =
				(int)(fmin(fmax(times->from[slot] / end, 0), 1) * width + 0.5);
			const int to = (int)(fmin(fmax(times->to[slot] / end, 0), 1) * width + 0.5);
			const char letter = *r.pass;
			const char *colour = letter == 'F'   ? "\033[44;97m"  /* blue */
					     : letter == 'B' ? "\033[42;30m"  /* green */
							     : "\033[43;30m"; /* yellow */
			char text[32];
			int n = snprintf(text, sizeof(text), "%c%d",
					 pass->chunk % 2 ? tolower(letter) : letter,
					 pass->microbatch);

			status = bb_sinks_data(sinks, &bb_record_pass, &r);
			for (; at < from; at++)
				bb_strbuf_add(&chart, "."); /* waits */
			if (to <= at)
				continue;
			if (n > to - at) /* a truncated number would be another one */
				n = 1;
			bb_strbuf_addf(&chart, "%s%.*s", colours ? colour : "", n, text);
			for (at += n; at < to; at++)
				bb_strbuf_add(&chart, colours ? " " : "-");
			bb_strbuf_add(&chart, colours ? "\033[0m" : "");
		}
		for (; at < width; at++)
			bb_strbuf_add(&chart, ".");
		bb_strbuf_add(&chart, "|\n");
	}
	if (status == BB_OK)
		status = bb_sinks_draw(sinks, &chart);
	bb_strbuf_free(&chart);
	return status;
}

/* ---- schedules ------------------------------------------------------------------------------- */

static bb_status run_schedule(struct pipeline_session *s,
			      const struct bb_pipeline_schedule *schedule)
{
	struct bb_engine *e = &s->kernel.engine;
	const struct bb_pipeline_options *a = s->options;
	const char *reason = bb_pipeline_refuses(schedule, &s->pipeline);
	const char *source = bb_engine_is_virtual(e) ? "simulated" : "measured";
	struct bb_error refusal = {.text = ""};
	struct bb_fit_verdict verdict;
	struct bb_pipeline_record r;
	bb_status status;

	BB_TRY(status, session_begin(s, schedule, (size_t)a->iters), out);
	BB_TRY(status, bb_engine_begin(e, schedule->name), out);
	status = reason ? bb_fail(&refusal, BB_EUNSUPPORTED, "%s", reason)
			: bb_order_make(schedule, &s->pipeline, &s->order, &refusal);
	if (status == BB_OK)
		status = bb_order_check(&s->order, &refusal);
	if (status == BB_EUNSUPPORTED) {
		status = bb_engine_skip_subject(e, "pipeline", schedule->name, NULL, refusal.text);
		goto out;
	}
	if (status != BB_OK) {
		bb_fail(s->error, status, "%s: %s", schedule->name, refusal.text);
		goto out;
	}
	if (bb_engine_leads(e))
		BB_TRY(status, schedule_predict(s), out);
	if (!a->predict) {
		BB_TRY(status, schedule_measure(s), out);
		BB_TRY(status, schedule_check(s), out);
	}
	if (!bb_engine_leads(e))
		goto out;
	schedule_describe(s, &r);
	if (s->order.pipeline.layers) {
		BB_TRY(status, schedule_judge(s, &verdict), out);
		BB_FIT_SET(&r, &verdict);
	}
	r.end_unix_s = bb_clock_unix();
	BB_TRY(status, bb_pipeline_text_add(e->run, &r), out);
	BB_TRY(status, bb_engine_deliver(e, &bb_record_pipeline, &r, r.wrong), out);
	if (a->gantt)
		BB_TRY(status, deliver_passes(s, &s->predicted, "predicted"), out);
	if (a->gantt && !a->predict)
		status = deliver_passes(s, &s->measured, source);
out:
	session_end(s);
	return status;
}

static bb_status pipeline_run(struct bb_engine *engine)
{
	struct pipeline_session *s = (struct pipeline_session *)engine;
	const struct bb_pipeline_state *state = engine->run->own;
	const struct bb_pipeline_options *a = s->options = &state->options;
	bb_status status = BB_OK;

	s->error = &engine->run->error;
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
