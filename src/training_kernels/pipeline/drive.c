/*
 * drive.c - what every rank does: measure a hop, then each schedule: predict it, play it,
 * check it.
 */
#include "core/stats.h"
#include "harness/measure/play.h"
#include "training_kernels/pipeline/inside.h"

#include <stdlib.h>

#define HOP_PASS_NS 1000000 /* long enough to sleep in, as the passes that are measured are */
#define HOP_SAMPLES 15

/* ---- memory --------------------------------------------------------------------------------- */

static size_t report_length(const struct bb_pipeline_job *j)
{
	return 2 * ((size_t)j->s->asked->iters + j->order.length + 1);
}

/* Numbers of each stage. */
static bool open_stages(struct bb_pipeline_job *j)
{
	double **const all[] = {
		&j->predicted_spans, &j->spans, &j->predicted_peaks, &j->peaks, &j->predicted_kept,
		&j->predicted_sent,  &j->sent,  &j->layers};
	bool ok = true;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		ok &= !!(*all[i] = calloc((size_t)j->order.stages, sizeof(double)));
	return ok;
}

static bb_status open_job(struct bb_pipeline_job *j)
{
	struct bb_pipeline_session *s = j->s;
	bb_status status =
		bb_pass_times_open(&j->predicted, &j->order, &s->pipeline, &s->run->error);

	if (status == BB_OK)
		status = bb_pass_times_open(&j->measured, &j->order, &s->pipeline, &s->run->error);
	if (status != BB_OK)
		return status;
	j->published = NAN;
	j->steps = calloc((size_t)s->asked->iters, sizeof(double));
	j->report = calloc(report_length(j), sizeof(double));
	return open_stages(j) && j->steps && j->report
		       ? BB_OK
		       : bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for %s",
				 j->schedule->name);
}

static void close_job(struct bb_pipeline_job *j)
{
	bb_pipeline_program_free(&j->program);
	bb_pass_times_close(&j->predicted);
	bb_pass_times_close(&j->measured);
	bb_order_free(&j->order);
	free(j->predicted_spans);
	free(j->spans);
	free(j->predicted_peaks);
	free(j->peaks);
	free(j->predicted_kept);
	free(j->predicted_sent);
	free(j->sent);
	free(j->layers);
	free(j->steps);
	free(j->report);
}

static struct bb_pipeline_form form_of(const struct bb_pipeline_session *s)
{
	const struct bb_fault *fault = &s->run->options.fault;
	const bool slow = fault->kind == BB_FAULT_SLOW;

	return (struct bb_pipeline_form){
		.elements = (size_t)(s->asked->message_bytes / sizeof(uint32_t)),
		.rate = s->asked->flops,
		.late_stage = slow ? fault->rank : -1,
		.late = slow ? fault->seconds : 0,
		.swapped_stage = fault->kind == BB_FAULT_SWAP ? fault->rank : -1,
	};
}

/* ---- predicted ------------------------------------------------------------------------------ */

/* On rank 0: what the links make of the order, under FORM. */
static bb_status evaluate(struct bb_pipeline_job *j, const struct bb_pipeline_form *form,
			  struct bb_pipeline_result *result)
{
	struct bb_pipeline_session *s = j->s;
	const struct bb_pipeline_options *a = s->asked;
	const struct bb_link_model links = {
		.rate = a->by_link ? a->link_rate : 0,
		.latency = a->by_link ? a->link_latency : 1e-9 * (double)s->pipeline.hop,
	};
	const struct bb_timeline_watch watch = {bb_pass_times_note, &j->predicted};
	struct bb_pipeline_program program;
	double end;
	bb_status status =
		bb_pipeline_program_make(&program, &j->order, &s->pipeline, form, &s->run->error);

	bb_pass_times_begin(&j->predicted);
	if (status == BB_OK)
		status =
			bb_timeline_program(&links, &program.program, &watch, &end, &s->run->error);
	if (status == BB_OK)
		*result = bb_pipeline_result_of(&j->predicted, &s->pipeline, j->predicted_spans);
	bb_pipeline_program_free(&program);
	return status;
}

static bb_status predict(struct bb_pipeline_job *j)
{
	struct bb_pipeline_form form = form_of(j->s);
	struct bb_pipeline_result published;
	bb_status status = BB_OK;

	form.late_stage = form.swapped_stage = -1;
	if (!j->schedule->chunks && j->order.chunks > 1) {
		form.first_wraps = true;
		BB_TRY(status, evaluate(j, &form, &published), out);
		j->published = published.bubble_over_total;
		form.first_wraps = false;
	}
	status = evaluate(j, &form, &j->prediction);
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

/* ---- measured ------------------------------------------------------------------------------- */

static void note_deadline(const struct bb_pipeline_session *s, const char *what)
{
	if (s->driver->local == 0)
		bb_crew_deadline(s->driver, what);
}

static bb_status play_once(struct bb_pipeline_job *j, struct bb_player *player)
{
	const struct bb_timeline_watch watch = {bb_pass_times_note, &j->measured};
	struct bb_driver *driver = j->s->driver;
	double end;
	bb_status status;

	note_deadline(j->s, j->schedule->name);
	bb_pass_times_begin(&j->measured);
	atomic_store_explicit(&driver->progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	status = bb_player_play(player, &watch, &end);
	atomic_store_explicit(&driver->progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

/* What this rank, or where time is virtual all stages, came to in iteration I. */
static void note_iteration(struct bb_pipeline_job *j, size_t i)
{
	const size_t first = bb_pipeline_job_slot(j, j->s->stage, 0);
	const size_t last = bb_pipeline_job_slot(j, j->s->stage, j->order.length - 1);
	double to = j->measured.to[last];

	for (int stage = 0; j->s->virtual && stage < j->order.stages; stage++)
		to = fmax(to, j->measured.to[bb_pipeline_job_slot(j, stage, j->order.length - 1)]);
	j->report[2 * i] = j->measured.from[first];
	j->report[2 * i + 1] = to;
}

static void note_passes(struct bb_pipeline_job *j)
{
	double *passes = &j->report[2 * j->s->asked->iters];

	for (size_t i = 0; i < j->order.length; i++) {
		passes[2 * i] = j->measured.from[bb_pipeline_job_slot(j, j->s->stage, i)];
		passes[2 * i + 1] = j->measured.to[bb_pipeline_job_slot(j, j->s->stage, i)];
	}
	passes[2 * j->order.length] = (double)j->measured.peaks[j->s->stage];
	passes[2 * j->order.length + 1] = (double)j->measured.sent[j->s->stage];
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What STAGE held at most, bytes times chunks, and sent. */
static void note_counts(struct bb_pipeline_job *j, int stage, double held, double sent)
{
	j->peaks[stage] = held / (double)bb_stage_kept(&j->s->pipeline, &j->order, stage);
	j->sent[stage] = sent;
}

/* Rank 0: REPORTS of all ranks together. The passes are those of the last iteration. */
static bb_status join(struct bb_pipeline_job *j, const double *reports)
{
	const size_t iters = (size_t)j->s->asked->iters, length = report_length(j);
	double *sorted = calloc(iters, sizeof(*sorted));

	if (!sorted)
		return bb_fail(&j->s->run->error, BB_EINTERNAL, "out of memory for the results");
	for (int s = 0; s < j->order.stages; s++) {
		const double *report = &reports[(size_t)s * length];

		for (size_t i = 0; i < iters; i++) {
			j->steps[i] = fmax(j->steps[i], report[2 * i + 1]);
			sorted[i] = report[2 * i + 1] - report[2 * i];
		}
		qsort(sorted, iters, sizeof(*sorted), compare);
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

/* Where time is virtual rank 0 has heard of everything, and one step is like the other but for
   noise. */
static void join_virtual(struct bb_pipeline_job *j)
{
	for (int64_t i = 0; i < j->s->asked->iters; i++)
		j->steps[i] = j->report[2 * i + 1];
	j->result = bb_pipeline_result_of(&j->measured, &j->s->pipeline, j->spans);
	for (int s = 0; s < j->order.stages; s++)
		note_counts(j, s, (double)j->measured.peaks[s], (double)j->measured.sent[s]);
}

static bb_status gather(struct bb_pipeline_job *j)
{
	const void *all;
	bb_status status = BB_OK;

	if (j->s->virtual) {
		join_virtual(j);
		return BB_OK;
	}
	note_passes(j);
	status = bb_crew_collect(j->s->driver, &bb_payload_real, j->report, report_length(j), &all);
	return status == BB_OK && j->s->leads ? join(j, all) : status;
}

static bb_status play(struct bb_pipeline_job *j)
{
	struct bb_pipeline_session *s = j->s;
	const struct bb_play play = {.program = &j->program.program,
				     .stand_in = (enum bb_stand_in)s->asked->stand_in};
	const size_t warm = (size_t)s->run->options.warmup_iters;
	struct bb_player *player = NULL;
	struct bb_error refusal = {.text = ""};
	bb_status status;

	status = bb_player_open(&player, s->run, s->driver, &play, &refusal);
	if (status == BB_EUNSUPPORTED)
		bb_fail(&s->run->error, status, "%s", refusal.text);
	for (size_t i = 0; i < warm && status == BB_OK; i++)
		status = play_once(j, player);
	for (size_t i = 0; i < (size_t)s->asked->iters && status == BB_OK; i++) {
		status = play_once(j, player);
		note_iteration(j, i);
	}
	bb_player_close(player);
	return status == BB_OK ? gather(j) : status;
}

/* ---- checked -------------------------------------------------------------------------------- */

/* Once more, with numbers. */
static bb_status check_data(struct bb_pipeline_job *j, struct bb_pipeline_data *data)
{
	struct bb_pipeline_session *s = j->s;
	const int swapped = form_of(s).swapped_stage;
	const struct bb_pipeline_form form = {
		.elements = BB_PIPELINE_ELEMENTS, .late_stage = -1, .swapped_stage = swapped};
	struct bb_pipeline_program program;
	const struct bb_play play = {.program = &program.program,
				     .compute = bb_pipeline_compute,
				     .buffers = bb_pipeline_buffers,
				     .own = data};
	struct bb_error refusal = {.text = ""};
	struct bb_player *player = NULL;
	const uint64_t *wrongs;
	const void *all;
	double end;
	bb_status status =
		bb_pipeline_program_make(&program, &j->order, &s->pipeline, &form, &s->run->error);

	if (status != BB_OK)
		goto out;
	BB_TRY(status, bb_player_open(&player, s->run, s->driver, &play, &refusal), out);
	note_deadline(s, j->schedule->name);
	BB_TRY(status, bb_player_play(player, NULL, &end), out);
	BB_TRY(status, bb_pipeline_data_verify(data, &j->wrong), out);
	BB_TRY(status, bb_crew_collect(s->driver, &bb_payload_number, &j->wrong, 1, &all), out);
	wrongs = all;
	for (int r = 1; wrongs && r < s->pipeline.stages; r++)
		j->wrong += wrongs[r];
	j->checked = true;
out:
	bb_player_close(player);
	bb_pipeline_program_free(&program);
	return status;
}

static bb_status check(struct bb_pipeline_job *j)
{
	struct bb_pipeline_session *s = j->s;
	const struct bb_fault *fault = &s->run->options.fault;
	const size_t bytes = bb_pipeline_data_bytes(&j->order);
	const bool flaw = fault->kind == BB_FAULT_CORRUPT && fault->rank == s->driver->rank;
	struct bb_pipeline_data *data;
	void *memory;
	bb_status status;

	if (s->run->options.check == 0 || s->virtual ||
	    (s->backend->capabilities & (BB_CAP_GPU | BB_CAP_FREE_COST)))
		return BB_OK;
	status = s->backend->alloc(s->driver->handle, bytes, &memory);
	if (status != BB_OK)
		return bb_fail(&s->run->error, status, "out of memory for what is checked");
	data = bb_pipeline_data_open(&j->order, s->stage, (uint64_t)s->run->options.seed, flaw,
				     memory);
	status = data ? check_data(j, data) : BB_EINTERNAL;
	bb_pipeline_data_close(data);
	s->backend->release(s->driver->handle, memory, bytes);
	return status;
}

/* ---- the hop -------------------------------------------------------------------------------- */

/* One microbatch there and back over all stages: on its way twice as many hops as there are pairs
   of neighbours, and the rest is what its passes take. On the clock of the first stage. */
static bb_status time_hops(struct bb_pipeline_session *s, struct bb_pipeline_job *j, double *hop)
{
	const double passes = 2e-9 * HOP_PASS_NS * s->pipeline.stages;
	const struct bb_play play = {.program = &j->program.program, .stand_in = BB_SLEEP};
	struct bb_player *player = NULL;
	struct bb_error refusal = {.text = ""};
	double samples[HOP_SAMPLES];
	struct bb_stats stats;
	bb_status status = bb_player_open(&player, s->run, s->driver, &play, &refusal);

	if (status == BB_EUNSUPPORTED)
		bb_fail(&s->run->error, status, "%s", refusal.text);
	for (int i = -1; i < HOP_SAMPLES && status == BB_OK; i++) {
		status = play_once(j, player);
		if (i >= 0)
			samples[i] = j->measured.to[bb_pipeline_job_slot(j, 0, 1)] -
				     j->measured.from[bb_pipeline_job_slot(j, 0, 0)] - passes;
	}
	bb_player_close(player);
	bb_stats_compute(samples, status == BB_OK ? HOP_SAMPLES : 0, &stats);
	*hop = stats.p50 / (2 * (s->pipeline.stages - 1));
	return status;
}

static bb_status measure_hop(struct bb_pipeline_session *s)
{
	struct bb_pipeline_job j = {.s = s, .schedule = bb_pipeline_find("naive")};
	struct bb_pipeline pipeline = {.stages = s->pipeline.stages,
				       .microbatches = 1,
				       .chunks = 1,
				       .f = HOP_PASS_NS,
				       .b = HOP_PASS_NS};
	struct bb_pipeline_form form = form_of(s);
	const void *all;
	double hop = 0;
	bb_status status;

	form.late_stage = form.swapped_stage = -1;
	BB_TRY(status, bb_order_make(j.schedule, &pipeline, &j.order, &s->run->error), out);
	BB_TRY(status, bb_pass_times_open(&j.measured, &j.order, &pipeline, &s->run->error), out);
	BB_TRY(status,
	       bb_pipeline_program_make(&j.program, &j.order, &pipeline, &form, &s->run->error),
	       out);
	BB_TRY(status, time_hops(s, &j, &hop), out);
	BB_TRY(status, bb_crew_gather(s->driver, &bb_payload_number, &hop, 1, &all), out);
	hop = *(const double *)all;
	s->pipeline.hop = hop > 0 && hop < BB_PAYLOAD_MOST_SECONDS ? (int64_t)(1e9 * hop) : 0;
out:
	close_job(&j);
	return status;
}

static bb_status settle_hop(struct bb_pipeline_session *s)
{
	const struct bb_pipeline_options *a = s->asked;
	const bool by_measure = !a->predict && !a->tc_ns_given && s->pipeline.stages > 1;

	s->hop_source = by_measure   ? (s->virtual ? "played" : "measured")
			: a->by_link ? "--link"
				     : "--tc";
	s->pipeline.hop = (int64_t)a->tc_ns;
	if (a->by_link)
		s->pipeline.hop = (int64_t)(1e9 * (a->link_latency +
						   (double)a->message_bytes / a->link_rate));
	return by_measure ? measure_hop(s) : BB_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* BB_EUNSUPPORTED, with the reason in REFUSAL, where there is no such order. */
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

static bb_status run_schedule(struct bb_pipeline_session *s,
			      const struct bb_pipeline_schedule *schedule)
{
	struct bb_pipeline_job j = {.s = s, .schedule = schedule};
	const struct bb_pipeline_form form = form_of(s);
	struct bb_error refusal = {.text = ""};
	bb_status status;

	note_deadline(s, schedule->name);
	status = make_order(&j, &refusal);

	if (status == BB_EUNSUPPORTED) {
		status = bb_pipeline_skip(s, schedule->name, refusal.text);
		goto out;
	}
	if (status != BB_OK) {
		bb_fail(&s->run->error, status, "%s: %s", schedule->name, refusal.text);
		goto out;
	}
	BB_TRY(status, open_job(&j), out);
	BB_TRY(status,
	       bb_pipeline_program_make(&j.program, &j.order, &s->pipeline, &form, &s->run->error),
	       out);
	if (s->leads)
		BB_TRY(status, predict(&j), out);
	if (!s->asked->predict)
		BB_TRY(status, play(&j), out);
	if (!s->asked->predict)
		BB_TRY(status, check(&j), out);
	if (s->leads)
		status = bb_pipeline_deliver(&j);
out:
	close_job(&j);
	return status;
}

static bb_status run_all(struct bb_pipeline_session *s)
{
	const struct bb_fault *fault = &s->run->options.fault;
	bb_status status = settle_hop(s);

	if (fault->kind == BB_FAULT_DIE && fault->rank == s->driver->rank)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	for (int i = 0; i < s->asked->nschedules && status == BB_OK; i++) {
		if (s->leads)
			bb_ticker_show(&s->run->ticker, s->asked->schedules[i]->name, 1);
		status = run_schedule(s, s->asked->schedules[i]);
		if (s->leads)
			bb_ticker_step(&s->run->ticker, 1);
	}
	return status;
}

bb_status bb_pipeline_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	const struct bb_pipeline_state *state = run->own;
	struct bb_pipeline_session s = {
		.driver = driver,
		.run = run,
		.asked = &state->asked,
		.backend = run->options.backend,
		.pipeline = state->pipeline,
		.stage = driver->rank,
		.leads = bb_driver_leads(driver),
		.virtual = run->options.backend->capabilities & BB_CAP_VIRTUAL,
	};
	bb_status status;

	BB_TRY(status, bb_run_attend(run, driver, NULL, &s.world), out);
	BB_TRY(status, bb_run_begin(run, driver, NAN), out);
	status = run_all(&s);
out:
	status = bb_crew_part(driver, status);
	s.backend->group_close(s.world);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
