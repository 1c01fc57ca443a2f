/*
 * measure.c - one case in one placement: fill, warm up, time, verify. The last timed iteration runs
 * on the pristine set: filled inputs and poisoned outputs that nothing else has touched. Exactly
 * its outputs are verified.
 *
 * One reading of the clock ends a sample and begins the next (bb_engine_sample), so that the
 * samples add up to the time of the loop. A sample is one iteration where that does not disturb the
 * measurement:
 *
 *   - short iterations share a sample, so that reading the clock takes at most 1% of it;
 *   - the iterations of a queue that runs beside its driver are issued together and awaited at the
 *     end: one sample, unless the device's own events time each iteration (-I);
 *   - all -G launches of a captured graph are one sample.
 */
#include "collectives/bench.h"

#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/library.h"
#include "backends/virtual.h"
#include "core/clock.h"
#include "core/stats.h"

#include <math.h>
#include <string.h>

#define CLOCK_SHARE 0.01                  /* of a sample, that reading the clock may take */
#define CLOCK_READINGS 1000               /* whose mean is the time of one */
#define PROBED_BYTES ((uint64_t)64 << 10) /* the clock does not matter for larger sizes */
#define PROBES 8
#define MORE_PROBES 64
#define NEARLY 0.1 /* iterations needed per sample: from here on MORE_PROBES decide */
#define COPY_REPEATS 5
#define COPY_SECONDS 20e-6 /* least time of a repeat, so that the clock does not matter */

/* One case in one placement, on one rank. */
struct job {
	struct bb_session *s;
	const struct bb_case *c;
	const struct bb_layout *layout;
	struct bb_call calls[BB_MOST_SETS]; /* the call on each set, made ahead of time */
	int pristine;                       /* the set of the verified iteration */
	int rotates;                        /* sets that the other iterations move through */
	bool refills; /* there is only one set: it is refilled, and the last iteration timed alone
		       */
	/* The main queue runs beside the driver, and no option waits for each iteration. */
	bool runs_ahead;

	/* The samples that are being taken: COUNT iterations in spans of SPAN, each of TIMES
	   operations. If they END the measurement, the last one runs on the pristine set. */
	size_t count, span;
	int64_t times;
	bool ends;
	int64_t sample; /* number of the next one */
	/* Captured iterations: a sample is LAUNCHES of the first graph, then one of the second
	   (NULL: none). */
	struct bb_graph *graphs[2];
	int64_t launches;
	double cpu, issued; /* CPU time at its begin; when it was issued */

	/* Of the timed iterations, the sums of OPERATIONS of them. */
	struct bb_measured *measured;
	double seconds, cpu_seconds, operations;
};

static const struct bb_options *options_of(const struct job *job)
{
	return job->s->engine.options;
}

static const struct bb_collective_options *settings_of(const struct job *job)
{
	return &job->s->bench->settings;
}

static double now(const struct job *job)
{
	return job->s->engine.backend->now(job->s->engine.rank);
}

/* ---- one iteration --------------------------------------------------------------------- */

/* Poisons the outputs of SET and writes its inputs. */
static bb_status job_fill(const struct job *job, int set)
{
	struct bb_session *s = job->s;
	const struct bb_buffers b = bb_arena_set(&s->arena, job->layout, set);
	const struct bb_pattern poison = bb_pattern_poison();
	bb_status status;

	if (!s->patterns)
		return BB_OK;
	status = s->engine.backend->fill(s->engine.rank, b.out, &poison, 0, job->layout->out_bytes);
	return status == BB_OK
		       ? bb_engine_fill(&s->engine, b.in, s->patterns, s->me, 0,
					job->layout->in_bytes / bb_dtype_size(job->c->dtype))
		       : status;
}

/* Waits until no rank is busy any more, so that the clocks may begin. */
static bb_status job_line_up(const struct job *job)
{
	const struct bb_engine *e = &job->s->engine;
	const bb_status status = bb_crew_barrier(e->driver);

	return status == BB_OK ? e->backend->barrier(e->world) : status;
}

/* Waits for operations that run ahead. */
static bb_status job_finish(const struct job *job)
{
	return job->s->engine.backend->finish(job->s->engine.rank, NULL);
}

/* Runs TIMES operations, of which only the last touches the pristine set, if SET is that. They are
   done when the call returns unless the job runs ahead. */
static bb_status job_enter(const struct job *job, int set, int64_t times)
{
	struct bb_session *s = job->s;
	const struct bb_backend *backend = s->engine.backend;
	struct bb_progress *progress = s->engine.driver->progress;
	const bool batch = times > 1 && backend->gpu;
	bb_status status = BB_OK;

	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	atomic_store_explicit(&progress->entered,
			      atomic_load_explicit(&progress->entered, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (batch)
		status = backend->gpu->batch_begin(s->engine.rank);
	for (int64_t i = 1; i < times && status == BB_OK; i++)
		status = backend->collective(s->group, NULL,
					     &job->calls[set == job->pristine ? 0 : set]);
	if (status == BB_OK)
		status = backend->collective(s->group, NULL, &job->calls[set]);
	if (batch && status == BB_OK)
		status = backend->gpu->batch_end(s->engine.rank);
	if (status == BB_OK && !job->runs_ahead)
		status = job_finish(job);
	if (status == BB_OK && s->bench->settings.blocking == 1)
		status = backend->barrier(s->engine.world);
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

/* ---- samples --------------------------------------------------------------------------- */

/* True if any rank has untimed work to do before each iteration. */
static bool is_prepared(const struct job *job)
{
	const struct bb_options *o = options_of(job);
	const struct bb_collective_options *settings = settings_of(job);

	return settings->cache == BB_CACHE_REWRITE || settings->blocking == 3 ||
	       o->fault.kind == BB_FAULT_SLOW || (settings->report_cputime && !job->runs_ahead);
}

/* Returns the iterations of the next sample. */
static size_t sample_length(const struct job *job)
{
	const size_t left = job->count - (size_t)job->sample * job->span;

	return left < job->span ? left : job->span;
}

/* True if the last of them runs on the pristine set. */
static bool sample_is_verified(const struct job *job)
{
	return job->ends && (size_t)(job->sample + 1) * job->span >= job->count;
}

/* Before each sample of an iteration with untimed work: the iteration is ready, on all ranks. */
static bb_status sample_ready(void *own)
{
	struct job *job = own;
	const bool verified = sample_is_verified(job);
	const bool fresh =
		settings_of(job)->cache == BB_CACHE_REWRITE || (verified && job->refills);
	bb_status status = BB_OK;

	if (fresh)
		BB_TRY(status,
		       job_fill(job,
				verified ? job->pristine
					 : (int)(job->measured->iterations % (size_t)job->rotates)),
		       out);
	if (fresh)
		BB_TRY(status, job_finish(job), out);
	if (fresh || settings_of(job)->blocking == 3)
		BB_TRY(status, job->s->engine.backend->barrier(job->s->engine.world), out);
	if (settings_of(job)->report_cputime)
		job->cpu = bb_clock_thread();
out:
	return status;
}

/* Records event K at this point of the queue, if events time the iterations. */
static bb_status record_event(const struct job *job, size_t k)
{
	struct bb_session *s = job->s;

	if (!s->events || !job->runs_ahead)
		return BB_OK;
	return s->engine.backend->event_record(s->engine.rank, NULL, s->events[k]);
}

/* Launches the graphs of a sample. */
static bb_status launch_graphs(const struct job *job)
{
	const struct bb_engine *e = &job->s->engine;
	bb_status status = BB_OK;

	for (int64_t k = 0; k < job->launches && status == BB_OK; k++)
		status = e->backend->graphs->launch(e->rank, NULL, job->graphs[0]);
	if (status == BB_OK && job->graphs[1])
		status = e->backend->graphs->launch(e->rank, NULL, job->graphs[1]);
	return status;
}

/* Runs the iterations of a sample without reading the clock. */
static bb_status sample_operate(void *own, int64_t i)
{
	struct job *job = own;
	const size_t length = sample_length(job);
	const size_t last = sample_is_verified(job) ? length - 1 : length;
	const bool launched = job->graphs[0] || job->graphs[1];
	bb_status status = launched ? launch_graphs(job) : record_event(job, 0);

	for (size_t k = 0; k < length && !launched && status == BB_OK; k++) {
		const int turn = (int)((job->measured->iterations + k) % (size_t)job->rotates);

		status = job_enter(job, k == last ? job->pristine : turn, job->times);
		if (status == BB_OK)
			status = record_event(job, k + 1);
	}
	job->issued = job->runs_ahead ? now(job) : 0;
	return status;
}

static void add_sample(struct job *job, double arrival, double seconds)
{
	struct bb_session *s = job->s;
	const bool virtual = s->engine.backend->virtual;

	/* The time at which a queue is given work is not when it begins it, and the driver of
	   virtual ranks does not know the arrival of each. */
	s->arrivals[job->measured->nsamples] = job->runs_ahead || virtual ? NAN : arrival;
	s->samples[job->measured->nsamples++] = seconds;
}

/* Adds a sample, or with the device's events one for each iteration. */
static bb_status sample_heard(void *own, int64_t i, double begin, double seconds)
{
	struct job *job = own;
	struct bb_session *s = job->s;
	const size_t length = sample_length(job);
	const double operations = (double)length * (double)job->times;
	bb_status status = BB_OK;

	job->sample++;
	if (settings_of(job)->report_cputime)
		job->cpu_seconds +=
			job->runs_ahead ? job->issued - begin : bb_clock_thread() - job->cpu;
	job->seconds += seconds;
	job->operations += operations;
	job->measured->iterations += length;
	if (!s->events || !job->runs_ahead)
		add_sample(job, begin, seconds / operations);
	else
		for (size_t k = 0; k < length && status == BB_OK; k++) {
			double one = 0;

			status = s->engine.backend->gpu->elapsed(s->engine.rank, s->events[k],
								 s->events[k + 1], &one);
			add_sample(job, NAN, one / (double)job->times);
		}
	return status;
}

/* Times COUNT iterations of TIMES operations in samples of SPAN, if they END the measurement with
   the verified one. PREPARED: some rank has untimed work to do before each sample. */
static bb_status take(struct job *job, size_t count, size_t span, int64_t times, bool ends,
		      bool prepared)
{
	const struct bb_sampling sampling = {.ready = prepared ? sample_ready : NULL,
					     .operate = sample_operate,
					     .heard = sample_heard,
					     .own = job,
					     .samples = (int64_t)((count + span - 1) / span),
					     .operations = 1,
					     .arrives = true};

	job->count = count;
	job->span = span;
	job->times = times;
	job->ends = ends;
	job->sample = 0;
	return bb_engine_sample(&job->s->engine, &sampling);
}

/* The same of all operations of -m. With a single set of buffers, the last iteration is timed
   alone, once they are refilled. */
static bb_status iterate(struct job *job, size_t count, size_t span, bool ends)
{
	const bool alone = ends && job->refills;
	const int64_t times = settings_of(job)->agg_iters;
	const bb_status status =
		take(job, alone ? count - 1 : count, span, times, ends && !alone, is_prepared(job));

	return status == BB_OK && alone ? take(job, 1, 1, 1, true, true) : status;
}

/* ---- how many iterations a sample has -------------------------------------------------- */

/* *NEEDED = iterations per sample that the slowest clock needs, measured by COUNT untimed ones.
   Collective over the world. */
static bb_status probe(const struct job *job, int count, double *needed)
{
	struct bb_session *s = job->s;
	bb_status status = BB_OK;
	double begin;

	if (s->clock_seconds == 0) {
		begin = now(job);
		for (int i = 1; i < CLOCK_READINGS; i++)
			now(job);
		s->clock_seconds = (now(job) - begin) / CLOCK_READINGS;
	}
	begin = now(job);
	for (int i = 0; i < count && status == BB_OK; i++)
		status = job_enter(job, 0, settings_of(job)->agg_iters);
	*needed = s->clock_seconds / (CLOCK_SHARE * ((now(job) - begin) / count + 1e-12));
	return status == BB_OK ? bb_crew_most(s->engine.driver, &bb_payload_real, needed, 1)
			       : status;
}

/* *SPAN = iterations per sample; on entry it holds all iterations. */
static bb_status choose_span(const struct job *job, size_t *span)
{
	const struct bb_collective_options *settings = settings_of(job);
	double needed;
	bb_status status = BB_OK;

	if (job->runs_ahead && !is_prepared(job))
		return BB_OK;
	/* The null backend, which has no data, measures what a sample of one iteration costs. */
	if (is_prepared(job) || settings->per_iter_timing || settings->per_iter_skip > 0 ||
	    job->c->size_bytes > PROBED_BYTES || !job->s->patterns) {
		*span = 1;
		return BB_OK;
	}
	/* The first iterations take longer, because ranks arrive late; short ones are probed
	   again. */
	BB_TRY(status, probe(job, PROBES, &needed), out);
	if (needed > NEARLY)
		BB_TRY(status, probe(job, MORE_PROBES, &needed), out);
	*span = needed > 1 ? (size_t)fmin(ceil(needed), (double)*span) : 1;
out:
	return status;
}

/* Takes about *COUNT iterations more, in whole spans; see bb_engine_until_precise. */
static bb_status iterate_more(void *own, size_t *count, bool *enough)
{
	struct job *job = own;
	struct bb_session *s = job->s;
	const size_t batch = (size_t)options_of(job)->iters;
	double *scratch = s->arrivals + s->most_samples;
	bb_status status;

	*count = (*count + job->span - 1) / job->span * job->span;
	*count = *count < batch ? *count : batch;
	status = iterate(job, *count, job->span, false);
	memcpy(scratch, s->samples, job->measured->nsamples * sizeof(*scratch));
	*enough = (bb_engine_is_precise(&s->engine, scratch, job->measured->nsamples) &&
		   job->measured->iterations >= batch) ||
		  job->measured->nsamples + 2 * batch > s->most_samples;
	return status;
}

/* ---- graphs ---------------------------------------------------------------------------- */

/* *GRAPH = COUNT iterations of TIMES operations; if VERIFIED, the last runs on the pristine set. */
static bb_status capture(struct job *job, size_t count, bool verified, int64_t times,
			 struct bb_graph **graph)
{
	const struct bb_backend *backend = job->s->engine.backend;
	bb_status status;

	job->count = job->span = count;
	job->sample = 0;
	job->times = times;
	job->ends = verified;
	BB_TRY(status, backend->graphs->begin(job->s->engine.rank, NULL), out);
	BB_TRY(status, sample_operate(job, 0), out);
	status = backend->graphs->end(job->s->engine.rank, NULL, graph);
out:
	return status;
}

/* Times LAUNCHES of FIRST and one of LAST (NULL: none), whose last iteration is the verified one,
   as one sample of COUNT iterations of TIMES operations. */
static bb_status time_graphs(struct job *job, struct bb_graph *first, int64_t launches,
			     struct bb_graph *last, size_t count, int64_t times)
{
	const bb_status status = job_line_up(job);

	job->graphs[0] = first;
	job->graphs[1] = last;
	job->launches = launches;
	return status == BB_OK ? take(job, count, count, times, false, false) : status;
}

/* Launches all iterations -G times; the last launch ends with the verified iteration. With a single
   set of buffers that iteration is launched alone, once they are refilled. */
static bb_status capture_and_launch(struct job *job)
{
	const struct bb_backend *backend = job->s->engine.backend;
	const struct bb_collective_options *settings = settings_of(job);
	const bool alone = job->refills;
	const size_t iters = (size_t)options_of(job)->iters;
	const int64_t times = settings->agg_iters;
	const int64_t before = alone ? settings->cudagraph : settings->cudagraph - 1;
	struct bb_graph *all = NULL, *last = NULL;
	bb_status status = BB_OK;

	if (before > 0)
		BB_TRY(status, capture(job, iters, false, times, &all), out);
	BB_TRY(status, capture(job, alone ? 1 : iters, true, alone ? 1 : times, &last), out);
	BB_TRY(status,
	       time_graphs(job, all, before, alone ? NULL : last,
			   iters * (size_t)settings->cudagraph, times),
	       out);
	if (!alone)
		goto out;
	BB_TRY(status, job_fill(job, job->pristine), out);
	BB_TRY(status, job_finish(job), out);
	status = time_graphs(job, NULL, 0, last, 1, 1);
out:
	backend->graphs->close(all);
	backend->graphs->close(last);
	return status;
}

/* Times the iterations of a warm job; the last runs on the pristine set. Collective over the world.
 */
static bb_status job_time(struct job *job)
{
	const struct bb_options *o = options_of(job);
	size_t span = (size_t)o->iters;
	bb_status status;

	if (settings_of(job)->cudagraph > 0)
		return capture_and_launch(job);
	BB_TRY(status, choose_span(job, &span), out);
	BB_TRY(status, job_line_up(job), out);
	if (o->precision == 0) {
		status = iterate(job, (size_t)o->iters, span, true);
		goto out;
	}
	job->span = span;
	BB_TRY(status, bb_engine_until_precise(&job->s->engine, iterate_more, job), out);
	BB_TRY(status, job_line_up(job), out);
	status = iterate(job, span, span, true);
out:
	return status;
}

/* ---- the whole measurement --------------------------------------------------------------- */

/* Verifies the outputs of the pristine set, and that its inputs have not changed. */
static bb_status verify(const struct job *job, uint64_t *wrong)
{
	struct bb_session *s = job->s;
	const struct bb_collective *collective = s->bench->collective;
	const struct bb_shape *shape = &job->calls[0].shape;
	const size_t element = bb_dtype_size(job->calls[0].dtype);
	const struct bb_buffers b = bb_arena_set(&s->arena, job->layout, job->pristine);
	const int segments = bb_collective_segments(collective, shape, s->me);
	bb_status status = BB_OK;

	for (int k = 0; k < segments && status == BB_OK; k++) {
		const struct bb_segment seg = bb_collective_segment(collective, shape, s->me, k);

		status = bb_engine_verify(&s->engine, (char *)b.out + seg.out * element,
					  s->patterns, seg.source, seg.in, seg.count, wrong);
	}
	if (status == BB_OK && (!shape->in_place || segments == 0))
		status = bb_engine_verify(&s->engine, b.in, s->patterns, s->me, 0,
					  job->layout->in_bytes / element, wrong);
	return status;
}

/* Verifies the last timed iteration, then the remaining rounds of -c, each a new iteration. */
static bb_status check(const struct job *job, uint64_t *wrong)
{
	struct bb_session *s = job->s;
	const struct bb_options *options = s->engine.options;
	const struct bb_layout *l = job->layout;
	const struct bb_buffers b = bb_arena_set(&s->arena, l, job->pristine);
	/* The byte that --fault corrupt changes: of the output, else of the input. */
	char *victim = l->out_bytes > 0  ? (char *)b.out + l->out_bytes / 2
		       : l->in_bytes > 0 ? (char *)b.in + l->in_bytes / 2
					 : NULL;
	bb_status status = BB_OK;

	*wrong = 0;
	if (!bb_engine_checks(&s->engine))
		return BB_OK;
	for (int64_t round = 0; round < options->check; round++) {
		if (round > 0) {
			BB_TRY(status, job_fill(job, job->pristine), out);
			BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
			BB_TRY(status, job_enter(job, job->pristine, 1), out);
			BB_TRY(status, job_finish(job), out);
		}
		/* No rank may still write when another verifies. */
		BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
		BB_TRY(status, bb_engine_corrupt(&s->engine, victim), out);
		BB_TRY(status, verify(job, wrong), out);
	}
out:
	return status;
}

/* What is timed is warmed up: a library connects the algorithm that it chooses for several
   operations together at the first of them. */
static bb_status warm_up(const struct job *job)
{
	const struct bb_session *s = job->s;
	bb_status status;

	for (int set = 0; set < job->layout->sets; set++)
		BB_TRY(status, job_fill(job, set), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	for (int64_t i = 0; i < s->engine.options->warmup_iters; i++)
		BB_TRY(status, job_enter(job, 0, s->bench->settings.agg_iters), out);
	BB_TRY(status, job_finish(job), out);
	/* No clock may begin while another rank still warms up. */
	status = job_line_up(job);
out:
	return status;
}

/* This rank's clock against rank 0's. */
struct reading {
	double at, offset, uncertainty;
};

static bb_status read_clock(struct bb_session *s, struct reading *r)
{
	const struct bb_backend *backend = s->engine.backend;
	bb_status status;

	*r = (struct reading){.offset = 0};
	if (!backend->clocks)
		return BB_OK;
	status = backend->clocks->offset(s->engine.rank, &r->offset, &r->uncertainty);
	r->at = backend->now(s->engine.rank);
	return status;
}

/* Runs the operation once more, untimed, to learn the library's choice for it. Not for graphs:
   within one the library may choose otherwise, and does not report it. */
static bb_status find_chosen(const struct job *job, char chosen[BB_CHOSEN_TEXT])
{
	struct bb_session *s = job->s;
	const struct bb_library *library = s->engine.backend->library;
	bb_status status;

	if (!library || !library->listen || !job->calls[0].native ||
	    s->bench->settings.cudagraph > 0)
		return BB_OK;
	library->listen(s->group, true);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	BB_TRY(status, job_enter(job, 0, s->bench->settings.agg_iters), out);
	BB_TRY(status, job_finish(job), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
out:
	library->listen(s->group, false);
	if (status == BB_OK)
		library->chosen(s->group, chosen);
	return status;
}

/* How long the driver has slowed down this rank's GPU so far, for each reason. */
static void read_throttling(const struct bb_session *s, int64_t us[BB_GPU_THROTTLES])
{
	const struct bb_gpu *const gpu = s->engine.backend->gpu;

	memset(us, 0, BB_GPU_THROTTLES * sizeof(*us));
	if (gpu)
		gpu->throttled(s->engine.rank, us);
}

/* Virtual time: returns the clock without the fault, and notes the evaluator. Real time: NAN. */
static double faultless_now(const struct job *job, struct bb_measured *measured)
{
	const struct bb_virtual *virtual = job->s->engine.backend->virtual;
	double seconds = NAN;

	if (virtual)
		virtual->evaluated(job->s->group, &measured->evaluator, &seconds);
	return seconds;
}

bb_status bb_measure(struct bb_session *s, const struct bb_case *c, const struct bb_call *call,
		     const struct bb_layout *layout, struct bb_measured *measured)
{
	const struct bb_collective_options *settings = &s->bench->settings;
	struct job job = {.s = s,
			  .c = c,
			  .layout = layout,
			  .measured = measured,
			  .pristine = layout->sets - 1,
			  .refills = layout->sets < 2,
			  .rotates = 1,
			  .runs_ahead = s->engine.backend->gpu && settings->blocking == 0};
	struct reading before, after;
	int64_t throttling[BB_GPU_THROTTLES], slowed[BB_GPU_THROTTLES];
	double faultless, drift;
	bb_status status;

	if (settings->cache == BB_CACHE_ROTATE && !job.refills)
		job.rotates = layout->sets - 1;
	for (int set = 0; set < layout->sets; set++) {
		const struct bb_buffers b = bb_arena_set(&s->arena, layout, set);

		job.calls[set] = *call;
		job.calls[set].in = b.in;
		job.calls[set].out = b.out;
		job.calls[set].tmp = bb_arena_tmp(&s->arena);
	}
	BB_TRY(status, warm_up(&job), out);
	BB_TRY(status, bb_engine_die(&s->engine), out);
	BB_TRY(status, read_clock(s, &before), out);
	faultless = faultless_now(&job, measured);
	read_throttling(s, throttling);
	BB_TRY(status, job_time(&job), out);
	read_throttling(s, slowed);
	for (int i = 0; i < BB_GPU_THROTTLES; i++)
		if (slowed[i] > throttling[i] && throttling[i] != BB_GPU_UNKNOWN)
			measured->throttled |= 1u << i;
	measured->faultless = (faultless_now(&job, measured) - faultless) / job.operations;
	BB_TRY(status, read_clock(s, &after), out);
	/* Arrivals move to rank 0's clock. Clocks drift linearly between the two comparisons. */
	drift = after.at > before.at ? (after.offset - before.offset) / (after.at - before.at) : 0;
	for (size_t i = 0; i < measured->nsamples; i++)
		s->arrivals[i] -= before.offset + drift * (s->arrivals[i] - before.at);
	measured->clock_uncertainty = before.uncertainty + after.uncertainty;
	measured->seconds = job.seconds / job.operations;
	measured->cpu_seconds = job.cpu_seconds / job.operations;
	BB_TRY(status, check(&job, &measured->wrong), out);
	status = find_chosen(&job, measured->chosen);
out:
	return status;
}

/* ---- the speed of memory copies in this run, from which bounds follow ----------------------- */

/* Copies of BYTES from one half of the arena to the other. */
struct copies {
	struct bb_session *s;
	size_t bytes, loops;
	double least; /* seconds of one */
};

/* They move through both halves as the timed iterations move through their sets. */
static bb_status copies_operate(void *own, int64_t i)
{
	const struct copies *c = own;
	const struct bb_session *s = c->s;
	const size_t half = s->arena.bytes / 2;
	const size_t places = s->bench->settings.cache == BB_CACHE_ROTATE ? half / c->bytes : 1;
	bb_status status = BB_OK;

	for (size_t k = 0; k < c->loops && status == BB_OK; k++) {
		char *from = s->arena.memory + k % places * c->bytes;

		status = s->engine.backend->copy(s->engine.rank, from + half, from, c->bytes);
	}
	return status;
}

static bb_status copies_heard(void *own, int64_t i, double begin, double seconds)
{
	struct copies *c = own;

	c->least = fmin(c->least, seconds / (double)c->loops);
	return BB_OK;
}

/* *SECONDS = time of one private copy of BYTES, the shortest of COPY_REPEATS. On GPUs the device's
   events time it, so that launches do not count. */
static bb_status time_copy(struct bb_session *s, size_t bytes, double *seconds)
{
	const struct bb_backend *backend = s->engine.backend;
	struct copies c = {.s = s, .bytes = bytes, .loops = 1, .least = INFINITY};
	struct bb_sampling sampling = {.operate = copies_operate,
				       .heard = copies_heard,
				       .own = &c,
				       .warm = 1,
				       .samples = 1,
				       .operations = 1,
				       .faultless = true};
	bb_status status = BB_OK;

	for (int i = 0; i < 2 && backend->gpu; i++)
		BB_TRY(status,
		       backend->event_open(s->engine.rank, &sampling.events[i],
					   &s->engine.run->error),
		       out);
	BB_TRY(status, bb_engine_sample(&s->engine, &sampling), out);
	if (c.least < COPY_SECONDS)
		c.loops = (size_t)(COPY_SECONDS / (c.least + 1e-9)) + 1;
	c.least = INFINITY;
	sampling.warm = 0;
	sampling.samples = COPY_REPEATS;
	status = bb_engine_sample(&s->engine, &sampling);
	*seconds = c.least;
out:
	backend->event_close(sampling.events[0]);
	backend->event_close(sampling.events[1]);
	return status;
}

bb_status bb_measure_copy(struct bb_session *s, size_t bytes, double *rate)
{
	/* The request, the same on all ranks, is the key; what fits into the arena may differ. */
	const size_t requested = bytes, most = s->arena.bytes / 2;
	double mine = 0, sum = 0;
	const void *all;
	bb_status status;

	bytes = bytes < 64 ? 64 : bytes > most ? most : bytes;
	for (int i = 0; i < s->ncopy_speeds; i++)
		if (s->copy_speed[i].bytes == requested) {
			*rate = s->copy_speed[i].rate;
			return BB_OK;
		}
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	if (s->copies)
		BB_TRY(status, time_copy(s, bytes, &mine), out);
	mine = mine > 0 ? (double)bytes / mine : 0;
	BB_TRY(status, bb_crew_gather(s->engine.driver, &bb_payload_real, &mine, 1, &all), out);
	for (int i = 0; i < s->engine.run->world.nranks; i++)
		sum += ((const double *)all)[i];
	if (s->ncopy_speeds < BB_COPY_SPEEDS) {
		s->copy_speed[s->ncopy_speeds].bytes = requested;
		s->copy_speed[s->ncopy_speeds++].rate = sum;
	}
	*rate = sum;
out:
	return status;
}
