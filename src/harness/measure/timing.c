/*
 * timing.c - the timed iterations of a collective, in samples. One reading of the clock ends a
 * sample and begins the next, so that the samples add up to the time of the loop. A sample is one
 * iteration where that does not disturb the measurement:
 *
 *   - short iterations share a sample, so that reading the clock takes at most 1% of it;
 *   - the iterations of a queue that runs beside its driver are issued together and awaited at the
 *     end: one sample, unless the device's own events time each iteration (-I);
 *   - all -G launches of a captured graph are one sample.
 */
#include "core/clock.h"
#include "harness/measure/measure.h"

#include "backends/gpu.h"
#include "backends/graphs.h"
#include "core/stats.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define CLOCK_SHARE 0.01                  /* of a sample, that reading the clock may take */
#define CLOCK_READINGS 1000               /* whose mean is the time of one */
#define PROBED_BYTES ((uint64_t)64 << 10) /* the clock does not matter for larger sizes */
#define PROBES 8
#define MORE_PROBES 64
#define NEARLY 0.1 /* iterations needed per sample: from here on MORE_PROBES decide */

static const struct bb_options *options_of(const struct bb_job *job)
{
	return job->s->engine.options;
}

static const struct bb_collective_options *settings_of(const struct bb_job *job)
{
	return &job->s->bench->settings;
}

static double now(const struct bb_job *job)
{
	return job->s->engine.backend->now(job->s->engine.rank);
}

/* ---- how many iterations a sample has -------------------------------------------------- */

/* True if any rank has untimed work to do before each iteration. */
static bool is_prepared(const struct bb_job *job)
{
	const struct bb_options *o = options_of(job);
	const struct bb_collective_options *settings = settings_of(job);

	return settings->cache == BB_CACHE_REWRITE || settings->blocking == 3 ||
	       o->fault.kind == BB_FAULT_SLOW || (settings->report_cputime && !job->runs_ahead);
}

static double clock_seconds(struct bb_session *s)
{
	const struct bb_backend *backend = s->engine.backend;
	double first, last = 0;

	if (s->clock_seconds > 0)
		return s->clock_seconds;
	first = backend->now(s->engine.rank);
	for (int i = 0; i < CLOCK_READINGS; i++)
		last = backend->now(s->engine.rank);
	s->clock_seconds = (last - first) / CLOCK_READINGS;
	return s->clock_seconds;
}

/* *NEEDED = iterations per sample that the slowest clock needs, measured by COUNT untimed ones.
   Collective over the world. */
static bb_status probe(const struct bb_job *job, int count, double *needed)
{
	struct bb_session *s = job->s;
	const double clock = clock_seconds(s);
	const double begin = now(job);
	bb_status status = BB_OK;

	for (int i = 0; i < count && status == BB_OK; i++)
		status = bb_job_enter(job, 0, settings_of(job)->agg_iters);
	*needed = clock / (CLOCK_SHARE * ((now(job) - begin) / count + 1e-12));
	return status == BB_OK ? bb_crew_most(s->engine.driver, &bb_payload_real, needed, 1)
			       : status;
}

/* The first iterations take longer, because ranks arrive late; short ones are probed again. */
static bb_status probe_span(const struct bb_job *job, size_t *span)
{
	double needed;
	bb_status status = probe(job, PROBES, &needed);

	if (status == BB_OK && needed > NEARLY)
		status = probe(job, MORE_PROBES, &needed);
	*span = needed > 1 ? (size_t)fmin(ceil(needed), (double)*span) : 1;
	return status;
}

/* *SPAN = iterations per sample; on entry it holds all iterations. */
static bb_status choose_span(const struct bb_job *job, size_t *span)
{
	const struct bb_collective_options *settings = settings_of(job);

	if (job->runs_ahead && !is_prepared(job))
		return BB_OK;
	/* The null backend, which has no data, measures what a sample of one iteration costs. */
	if (!is_prepared(job) && !settings->per_iter_timing && settings->per_iter_skip == 0 &&
	    job->c->size_bytes <= PROBED_BYTES && job->s->patterns)
		return probe_span(job, span);
	*span = 1;
	return BB_OK;
}

/* ---- samples --------------------------------------------------------------------------- */

static bb_status prepare(const struct bb_job *job, int set, bool fresh)
{
	struct bb_session *s = job->s;
	const struct bb_fault *fault = &options_of(job)->fault;
	bb_status status = BB_OK;

	if (fresh)
		status = bb_job_fill(job, set);
	if (status == BB_OK && fresh)
		status = bb_job_finish(job);
	if (status == BB_OK && (fresh || settings_of(job)->blocking == 3))
		status = s->engine.backend->barrier(s->engine.world);
	if (fault->kind == BB_FAULT_SLOW && fault->rank == s->engine.driver->rank &&
	    !s->engine.backend->virtual) /* the simulator delays the rank itself */
		bb_crew_delay(s->engine.driver, fault->seconds);
	return status;
}

static void add_sample(struct bb_job *job, double arrival, double seconds)
{
	struct bb_session *s = job->s;
	const bool virtual = s->engine.backend->virtual;

	/* The time at which a queue is given work is not when it begins it, and the driver of
	   virtual ranks does not know the arrival of each. */
	s->arrivals[job->nsamples] = job->runs_ahead || virtual ? NAN : arrival;
	s->samples[job->nsamples++] = seconds;
}

/* Records event I at this point of the queue, if events time the iterations. */
static bb_status record_event(const struct bb_job *job, size_t i)
{
	struct bb_session *s = job->s;

	if (!s->events || !job->runs_ahead)
		return BB_OK;
	return s->engine.backend->event_record(s->engine.rank, NULL, s->events[i]);
}

/* Adds a sample for each iteration of a span, by the device's events. Each has TIMES operations. */
static bb_status add_samples_of_device(struct bb_job *job, size_t span, int64_t times)
{
	struct bb_session *s = job->s;
	bb_status status = BB_OK;

	for (size_t i = 0; i < span && status == BB_OK; i++) {
		double seconds = 0;

		status = s->engine.backend->gpu->elapsed(s->engine.rank, s->events[i],
							 s->events[i + 1], &seconds);
		add_sample(job, NAN, seconds / (double)times);
	}
	return status;
}

/* The iterations of one sample. */
struct span {
	size_t length; /* iterations */
	bool verified; /* the last of them runs on the pristine set */
	double begin;  /* the end of the sample before, or the start of the loop */
};

/* Runs the iterations of a span, of TIMES operations each, without reading the clock. */
static bb_status run_span(const struct bb_job *job, const struct span *span, int64_t times)
{
	bb_status status = record_event(job, 0);

	for (size_t i = 0; i < span->length && status == BB_OK; i++) {
		const bool verified = span->verified && i + 1 == span->length;
		const int turn = (int)((job->iterations + i) % (size_t)job->rotates);

		status = bb_job_enter(job, verified ? job->pristine : turn, times);
		if (status == BB_OK)
			status = record_event(job, i + 1);
	}
	return status;
}

static bb_status time_span(struct bb_job *job, struct span *span)
{
	const struct bb_collective_options *settings = settings_of(job);
	const bool alone = span->verified && job->refills;
	const int64_t times = alone ? 1 : settings->agg_iters;
	const double operations = (double)span->length * (double)times;
	double begin = span->begin, issued, end, cpu = 0;
	bb_status status = BB_OK;

	if (is_prepared(job) || alone) {
		const int set = span->verified ? job->pristine
					       : (int)(job->iterations % (size_t)job->rotates);

		status = prepare(job, set, settings->cache == BB_CACHE_REWRITE || alone);
		cpu = settings->report_cputime ? bb_clock_thread() : 0;
		begin = now(job);
	}
	if (status == BB_OK)
		status = run_span(job, span, times);
	issued = job->runs_ahead ? now(job) : 0;
	if (status == BB_OK)
		status = bb_job_finish(job);
	end = now(job);
	if (settings->report_cputime)
		job->cpu_seconds += job->runs_ahead ? issued - begin : bb_clock_thread() - cpu;
	job->seconds += end - begin;
	job->operations += operations;
	job->iterations += span->length;
	span->begin = end;
	if (status == BB_OK && job->s->events && job->runs_ahead)
		return add_samples_of_device(job, span->length, times);
	add_sample(job, begin, (end - begin) / operations);
	return status;
}

/* Runs COUNT iterations in samples of SPAN. If they END the measurement, the last one runs on the
   pristine set. */
static bb_status iterate(struct bb_job *job, size_t count, size_t span, bool ends)
{
	struct span next = {.begin = now(job)};
	bb_status status = BB_OK;

	while (count > 0 && status == BB_OK) {
		next.length = span < count ? span : count;
		if (ends && job->refills && next.length == count && count > 1)
			next.length--; /* the last is timed alone */
		next.verified = ends && next.length == count;
		count -= next.length;
		status = time_span(job, &next);
	}
	return status;
}

/* ---- --precision ------------------------------------------------------------- */

/* True if -n iterations or more are precise on this rank. */
static bool is_precise(const struct bb_job *job)
{
	struct bb_session *s = job->s;
	const struct bb_options *o = options_of(job);
	double *scratch = s->arrivals + s->most_samples;
	struct bb_stats stats;

	memcpy(scratch, s->samples, job->nsamples * sizeof(*scratch));
	bb_stats_compute(scratch, job->nsamples, &stats);
	return job->iterations >= (size_t)o->iters && job->nsamples >= BB_STATS_INTERVAL &&
	       bb_stats_precision(&stats) <= o->precision;
}

/* The ranks agree after one sample, one more, two more, four more … -n iterations. */
static bb_status iterate_until_precise(struct bb_job *job, size_t span)
{
	const size_t batch = (size_t)options_of(job)->iters;
	const double began = now(job);
	size_t next = 1;
	bb_status status = BB_OK;

	while (next > 0 && status == BB_OK && job->nsamples + 2 * batch <= job->s->most_samples) {
		next = (next + span - 1) / span * span;
		status = iterate(job, next < batch ? next : batch, span, false);
		next = batch;
		if (status == BB_OK)
			status = bb_engine_agree_on_next(&job->s->engine, is_precise(job), began,
							 job->iterations, &next);
	}
	if (status == BB_OK)
		status = bb_job_line_up(job);
	return status == BB_OK ? iterate(job, span, span, true) : status;
}

/* ---- graphs ---------------------------------------------------------------------------- */

/* *GRAPH = COUNT iterations of TIMES operations; if VERIFIED, the last runs on the pristine set. */
static bb_status capture(const struct bb_job *job, size_t count, bool verified, int64_t times,
			 struct bb_graph **graph)
{
	const struct bb_backend *backend = job->s->engine.backend;
	const struct span span = {.length = count, .verified = verified};
	bb_status status = backend->graphs->begin(job->s->engine.rank, NULL);

	if (status == BB_OK)
		status = run_span(job, &span, times);
	return status == BB_OK ? backend->graphs->end(job->s->engine.rank, NULL, graph) : status;
}

static bb_status launch(struct bb_job *job, struct bb_graph *graph, int64_t launches)
{
	const struct bb_backend *backend = job->s->engine.backend;
	bb_status status = BB_OK;

	for (int64_t i = 0; i < launches && status == BB_OK; i++)
		status = backend->graphs->launch(job->s->engine.rank, NULL, graph);
	return status;
}

/*
 * Times LAUNCHES launches of FIRST and one of LAST (NULL: none), whose last iteration is the
 * verified one, as one sample of COUNT iterations of TIMES operations.
 */
static bb_status time_graphs(struct bb_job *job, struct bb_graph *first, int64_t launches,
			     struct bb_graph *last, size_t count, int64_t times)
{
	const double operations = (double)count * (double)times;
	double begin, issued, end;
	bb_status status;

	BB_TRY(status, bb_job_line_up(job), out);
	begin = now(job);
	BB_TRY(status, launch(job, first, launches), out);
	BB_TRY(status, launch(job, last, last ? 1 : 0), out);
	issued = now(job);
	BB_TRY(status, bb_job_finish(job), out);
	end = now(job);
	job->cpu_seconds += issued - begin;
	job->seconds += end - begin;
	job->operations += operations;
	job->iterations += count;
	add_sample(job, begin, (end - begin) / operations);
out:
	return status;
}

/* Launches all iterations -G times; the last launch ends with the verified iteration. With a single
   set of buffers that iteration is launched alone, once they are refilled. */
static bb_status launch_graphs(struct bb_job *job)
{
	const struct bb_backend *backend = job->s->engine.backend;
	const struct bb_options *o = options_of(job);
	const struct bb_collective_options *settings = settings_of(job);
	const size_t iters = (size_t)o->iters;
	const int64_t before = job->refills ? settings->cudagraph : settings->cudagraph - 1;
	struct bb_graph *all = NULL, *last = NULL;
	bb_status status = BB_OK;

	if (before > 0)
		BB_TRY(status, capture(job, iters, false, settings->agg_iters, &all), out);
	BB_TRY(status,
	       capture(job, job->refills ? 1 : iters, true, job->refills ? 1 : settings->agg_iters,
		       &last),
	       out);
	if (!job->refills) {
		status = time_graphs(job, all, before, last, iters * (size_t)settings->cudagraph,
				     settings->agg_iters);
		goto out;
	}
	BB_TRY(status,
	       time_graphs(job, all, before, NULL, iters * (size_t)before, settings->agg_iters),
	       out);
	BB_TRY(status, bb_job_fill(job, job->pristine), out);
	BB_TRY(status, bb_job_finish(job), out);
	status = time_graphs(job, NULL, 0, last, 1, 1);
out:
	backend->graphs->close(all);
	backend->graphs->close(last);
	return status;
}

bb_status bb_job_time(struct bb_job *job)
{
	const struct bb_options *o = options_of(job);
	const struct bb_collective_options *settings = settings_of(job);
	size_t span = (size_t)o->iters;
	bb_status status;

	if (settings->cudagraph > 0)
		return launch_graphs(job);
	BB_TRY(status, choose_span(job, &span), out);
	BB_TRY(status, bb_job_line_up(job), out);
	status = o->precision == 0 ? iterate(job, (size_t)o->iters, span, true)
				   : iterate_until_precise(job, span);
out:
	return status;
}
