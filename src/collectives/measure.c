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

static double now(const struct bb_session *s)
{
	return s->engine.backend->now(s->engine.rank);
}

/* ---- one iteration --------------------------------------------------------------------- */

/* Poisons the outputs of SET and writes its inputs. */
static bb_status set_fill(struct bb_session *s, int set)
{
	const struct bb_pattern poison = bb_pattern_poison();
	const struct bb_buffers b = bb_arena_set(&s->arena, &s->layout, set);
	bb_status status = BB_OK;

	if (!s->patterns)
		return BB_OK;
	BB_TRY(status,
	       s->engine.backend->fill(s->engine.rank, b.out, &poison, 0, s->layout.out_bytes),
	       out);
	status = bb_engine_fill(&s->engine, b.in, s->patterns, s->me, 0,
				s->layout.in_bytes / bb_dtype_size(s->c->dtype));
out:
	return status;
}

/* Makes the call on SET ahead of time. */
static void set_call(struct bb_session *s, int set)
{
	const struct bb_buffers b = bb_arena_set(&s->arena, &s->layout, set);

	s->calls[set] = s->call;
	s->calls[set].in = b.in;
	s->calls[set].out = b.out;
	s->calls[set].tmp = s->arena.memory;
}

/* Waits until no rank is busy any more, so that the clocks may begin. */
static bb_status ranks_line_up(struct bb_session *s)
{
	const bb_status status = bb_driver_barrier(s->engine.driver);

	return status == BB_OK ? s->engine.backend->barrier(s->engine.world) : status;
}

/* Waits for operations that run ahead. */
static bb_status queue_finish(struct bb_session *s)
{
	return s->engine.backend->finish(s->engine.rank, NULL);
}

/* Runs TIMES operations, of which only the last touches the pristine set, if SET is that. They are
   done when the call returns unless the queue runs ahead. */
static bb_status set_run(struct bb_session *s, int set, int64_t times)
{
	const struct bb_backend *backend = s->engine.backend;
	struct bb_progress *progress = s->engine.driver->progress;
	const bool batch = times > 1 && backend->gpu;
	bb_status status = BB_OK;

	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	atomic_store_explicit(&progress->entered,
			      atomic_load_explicit(&progress->entered, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (batch)
		status = backend->gpu->batch(s->engine.rank, false);
	for (int64_t i = 1; i < times && status == BB_OK; i++)
		status = backend->collective(s->group, NULL,
					     &s->calls[set == s->pristine ? 0 : set]);
	if (status == BB_OK && s->c->barrier)
		status = backend->barrier(s->engine.world);
	else if (status == BB_OK)
		status = backend->collective(s->group, NULL, &s->calls[set]);
	if (batch && status == BB_OK)
		status = backend->gpu->batch(s->engine.rank, true);
	if (status == BB_OK && !s->runs_ahead && !s->c->barrier)
		status = queue_finish(s);
	if (status == BB_OK && s->settings->blocking == 1)
		status = backend->barrier(s->engine.world);
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

/* ---- samples --------------------------------------------------------------------------- */

/* True if any rank has untimed work to do before each iteration. */
static bool is_prepared(const struct bb_session *s)
{
	const struct bb_collective_options *settings = s->settings;

	return settings->cache == BB_CACHE_REWRITE || settings->blocking == 3 ||
	       s->engine.options->fault.kind == BB_FAULT_SLOW ||
	       (settings->report_cputime && !s->runs_ahead);
}

/* Returns the iterations of the next sample. */
static size_t sample_length(const struct bb_session *s)
{
	const size_t left = s->count - (size_t)s->sample * s->span;

	return left < s->span ? left : s->span;
}

/* True if the last of them runs on the pristine set. */
static bool sample_is_verified(const struct bb_session *s)
{
	return s->ends && (size_t)(s->sample + 1) * s->span >= s->count;
}

/* Before each sample of an iteration with untimed work: the iteration is ready, on all ranks. */
static bb_status sample_ready(void *own)
{
	struct bb_session *s = own;
	const bool verified = sample_is_verified(s);
	const bool fresh = s->settings->cache == BB_CACHE_REWRITE || (verified && s->refills);
	const int turn = (int)(s->measured.iterations % (size_t)s->rotates);
	bb_status status = BB_OK;

	if (fresh)
		BB_TRY(status, set_fill(s, verified ? s->pristine : turn), out);
	if (fresh)
		BB_TRY(status, queue_finish(s), out);
	if (fresh || s->settings->blocking == 3)
		BB_TRY(status, s->engine.backend->barrier(s->engine.world), out);
	if (s->settings->report_cputime)
		s->cpu = bb_clock_thread();
out:
	return status;
}

/* Operations that do not run ahead are done when they return. */
static bb_status sample_finish(void *own)
{
	struct bb_session *s = own;

	return s->runs_ahead || s->graphs[0] || s->graphs[1] ? queue_finish(s) : BB_OK;
}

/* True if the device's events time each iteration. */
static bool has_events(const struct bb_session *s)
{
	return s->events && s->runs_ahead;
}

static bb_status record_event(const struct bb_session *s, size_t k)
{
	return has_events(s) ? s->engine.backend->event_record(s->engine.rank, NULL, s->events[k])
			     : BB_OK;
}

/* Runs the iterations of a sample without reading the clock, or launches their graphs. */
static bb_status sample_operate(void *own, int64_t i)
{
	struct bb_session *s = own;
	const struct bb_graphs *graphs = s->engine.backend->graphs;
	const bool launched = s->graphs[0] || s->graphs[1];
	const size_t length = launched ? 0 : sample_length(s);
	const size_t last = sample_is_verified(s) ? length - 1 : length;
	bb_status status = launched ? BB_OK : record_event(s, 0);

	for (size_t k = 0; k < length && status == BB_OK; k++) {
		const int turn = (int)((s->measured.iterations + k) % (size_t)s->rotates);

		status = set_run(s, k == last ? s->pristine : turn, s->times);
		if (status == BB_OK)
			status = record_event(s, k + 1);
	}
	for (int64_t k = 0; launched && k <= s->launches && status == BB_OK; k++)
		if (s->graphs[k == s->launches])
			status = graphs->launch(s->engine.rank, NULL, s->graphs[k == s->launches]);
	s->issued = s->runs_ahead ? now(s) : 0;
	return status;
}

/* Adds a sample, or with the device's events one for each iteration. The time at which a queue is
   given work is not when it begins it, and the driver of virtual ranks does not know the arrival of
   each. */
static bb_status sample_keep(void *own, int64_t i, double begin, double seconds)
{
	struct bb_session *s = own;
	struct bb_measured *m = &s->measured;
	const size_t length = sample_length(s);
	const double operations = (double)length * (double)s->times;
	bb_status status = BB_OK;

	s->sample++;
	if (s->settings->report_cputime)
		m->cpu_seconds += s->runs_ahead ? s->issued - begin : bb_clock_thread() - s->cpu;
	m->seconds += seconds;
	s->operations += operations;
	m->iterations += length;
	if (!has_events(s)) {
		s->arrivals[m->nsamples] = s->runs_ahead || s->engine.backend->virtual ? NAN
										       : begin;
		s->samples[m->nsamples++] = seconds / operations;
	}
	for (size_t k = 0; has_events(s) && k < length && status == BB_OK; k++) {
		double one = 0;

		status = s->engine.backend->gpu->elapsed(s->engine.rank, s->events[k],
							 s->events[k + 1], &one);
		s->arrivals[m->nsamples] = NAN;
		s->samples[m->nsamples++] = one / (double)s->times;
	}
	return status;
}

/* Times COUNT iterations of TIMES operations in samples of SPAN, if they END the measurement with
   the verified one. PREPARED: some rank has untimed work to do before each sample. */
static bb_status take(struct bb_session *s, size_t count, size_t span, int64_t times, bool ends,
		      bool prepared)
{
	const struct bb_sampling sampling = {.ready = prepared ? sample_ready : NULL,
					     .operate = sample_operate,
					     .finish = sample_finish,
					     .on_sample = sample_keep,
					     .own = s,
					     .samples = (int64_t)((count + span - 1) / span),
					     .operations = 1,
					     .arrives = true};

	s->count = count;
	s->span = span;
	s->times = times;
	s->ends = ends;
	s->sample = 0;
	return bb_engine_sample(&s->engine, &sampling);
}

/* The same of all operations of -m. With a single set of buffers, the last iteration is timed
   alone, once they are refilled. */
static bb_status iterate(struct bb_session *s, size_t count, size_t span, bool ends)
{
	const bool alone = ends && s->refills;
	const bb_status status = take(s, alone ? count - 1 : count, span, s->settings->agg_iters,
				      ends && !alone, is_prepared(s));

	return status == BB_OK && alone ? take(s, 1, 1, 1, true, true) : status;
}

/* ---- how many iterations a sample has, and how many are timed ---------------------------- */

/* *NEEDED = iterations per sample that the slowest clock needs, measured by COUNT untimed ones.
   Collective over the world. */
static bb_status probe(struct bb_session *s, int count, double *needed)
{
	bb_status status = BB_OK;
	double begin;

	if (s->clock_seconds == 0) {
		begin = now(s);
		for (int i = 1; i < CLOCK_READINGS; i++)
			now(s);
		s->clock_seconds = (now(s) - begin) / CLOCK_READINGS;
	}
	begin = now(s);
	for (int i = 0; i < count && status == BB_OK; i++)
		status = set_run(s, 0, s->settings->agg_iters);
	*needed = s->clock_seconds / (CLOCK_SHARE * ((now(s) - begin) / count + 1e-12));
	return status == BB_OK ? bb_driver_most(s->engine.driver, &bb_payload_real, needed, 1)
			       : status;
}

/* *SPAN = iterations per sample; on entry it holds all iterations. */
static bb_status choose_span(struct bb_session *s, size_t *span)
{
	double needed;
	bb_status status = BB_OK;

	if (s->runs_ahead && !is_prepared(s))
		return BB_OK;
	/* The null backend, which has no data, measures what a sample of one iteration costs. */
	if (is_prepared(s) || s->settings->per_iter_timing || s->settings->per_iter_skip > 0 ||
	    s->c->size_bytes > PROBED_BYTES || !s->patterns) {
		*span = 1;
		return BB_OK;
	}
	/* The first iterations take longer, because ranks arrive late; short ones are probed
	   again. */
	BB_TRY(status, probe(s, PROBES, &needed), out);
	if (needed > NEARLY)
		BB_TRY(status, probe(s, MORE_PROBES, &needed), out);
	*span = needed > 1 ? (size_t)fmin(ceil(needed), (double)*span) : 1;
out:
	return status;
}

/* Times 1, 1, 2, 4 … up to -n iterations, in whole spans, until --max-time has passed, or the
   samples, each on the rank that it took longest, are precise or there is no room for more. */
static bb_status iterate_until_precise(struct bb_session *s, size_t span)
{
	const struct bb_options *o = s->engine.options;
	const size_t batch = (size_t)o->iters;
	const double began = now(s);
	double *sorted = s->arrivals + s->most_samples;
	size_t done = 0, next = 1;
	bb_status status = BB_OK;

	while (next > 0) {
		const size_t whole = (next + span - 1) / span * span;
		const size_t count = whole < batch ? whole : batch;
		const size_t *n = &s->measured.nsamples, before = *n;
		struct bb_stats stats;

		BB_TRY(status, iterate(s, count, span, false), out);
		BB_TRY(status, bb_engine_slowest(&s->engine, s->samples + before, *n - before),
		       out);
		memcpy(sorted, s->samples, *n * sizeof(*sorted));
		bb_stats_compute(sorted, *n, &stats);
		const bool enough = *n >= BB_STATS_INTERVAL && s->measured.iterations >= batch &&
				    bb_stats_precision(&stats) <= o->precision;
		done += count;
		next = batch;
		BB_TRY(status,
		       bb_engine_agree_on_next(&s->engine,
					       enough || *n + 2 * batch > s->most_samples, began,
					       done, &next),
		       out);
	}
out:
	return status;
}

/* ---- graphs ---------------------------------------------------------------------------- */

/* *GRAPH = COUNT iterations of TIMES operations; if VERIFIED, the last runs on the pristine set. */
static bb_status capture(struct bb_session *s, size_t count, bool verified, int64_t times,
			 struct bb_graph **graph)
{
	const struct bb_backend *backend = s->engine.backend;
	bb_status status;

	s->count = s->span = count;
	s->sample = 0;
	s->times = times;
	s->ends = verified;
	BB_TRY(status, backend->graphs->begin(s->engine.rank, NULL), out);
	BB_TRY(status, sample_operate(s, 0), out);
	status = backend->graphs->end(s->engine.rank, NULL, graph);
out:
	return status;
}

/* Times LAUNCHES of FIRST and one of LAST (NULL: none), whose last iteration is the verified one,
   as one sample of COUNT iterations of TIMES operations. */
static bb_status time_graphs(struct bb_session *s, struct bb_graph *first, int64_t launches,
			     struct bb_graph *last, size_t count, int64_t times)
{
	bb_status status = ranks_line_up(s);

	s->graphs[0] = first;
	s->graphs[1] = last;
	s->launches = launches;
	if (status == BB_OK)
		status = take(s, count, count, times, false, false);
	s->graphs[0] = s->graphs[1] = NULL;
	return status;
}

/* Launches all iterations -G times; the last launch ends with the verified iteration. With a single
   set of buffers that iteration is launched alone, once they are refilled. */
static bb_status capture_and_launch(struct bb_session *s)
{
	const struct bb_backend *backend = s->engine.backend;
	const bool alone = s->refills;
	const size_t iters = (size_t)s->engine.options->iters;
	const int64_t times = s->settings->agg_iters, launches = s->settings->cudagraph;
	const int64_t before = alone ? launches : launches - 1;
	struct bb_graph *all = NULL, *last = NULL;
	bb_status status = BB_OK;

	if (before > 0)
		BB_TRY(status, capture(s, iters, false, times, &all), out);
	BB_TRY(status, capture(s, alone ? 1 : iters, true, alone ? 1 : times, &last), out);
	BB_TRY(status,
	       time_graphs(s, all, before, alone ? NULL : last, iters * (size_t)launches, times),
	       out);
	if (!alone)
		goto out;
	BB_TRY(status, set_fill(s, s->pristine), out);
	BB_TRY(status, queue_finish(s), out);
	status = time_graphs(s, NULL, 0, last, 1, 1);
out:
	backend->graphs->close(all);
	backend->graphs->close(last);
	return status;
}

/* Times the iterations of a warm case; the last runs on the pristine set. Collective over the
   world. */
static bb_status time_iterations(struct bb_session *s)
{
	const bool precise = s->engine.options->precision != 0;
	size_t all = (size_t)s->engine.options->iters, span = all;
	bb_status status;

	if (s->settings->cudagraph > 0)
		return capture_and_launch(s);
	BB_TRY(status, choose_span(s, &span), out);
	BB_TRY(status, ranks_line_up(s), out);
	if (precise)
		BB_TRY(status, iterate_until_precise(s, span), out);
	if (precise)
		BB_TRY(status, ranks_line_up(s), out);
	status = iterate(s, precise ? span : all, span, true);
out:
	return status;
}

/* ---- the whole measurement --------------------------------------------------------------- */

/* Verifies the outputs of the last timed iteration, and that its inputs have not changed; then
   those of the remaining rounds of -c, each a new iteration. */
static bb_status check(struct bb_session *s)
{
	const struct bb_layout *l = &s->layout;
	const struct bb_call *call = &s->calls[s->pristine];
	const size_t element = bb_dtype_size(call->dtype);
	const int segments = bb_collective_segments(call->collective, &call->shape, s->me);
	uint64_t *wrong = &s->measured.wrong;
	/* The byte that --fault corrupt changes: of the output, else of the input. */
	char *victim = l->out_bytes > 0  ? (char *)call->out + l->out_bytes / 2
		       : l->in_bytes > 0 ? (char *)call->in + l->in_bytes / 2
					 : NULL;
	bb_status status = BB_OK;

	if (!bb_engine_checks(&s->engine) || s->c->barrier)
		return BB_OK;
	for (int64_t round = 0; round < s->engine.options->check; round++) {
		if (round > 0) {
			BB_TRY(status, set_fill(s, s->pristine), out);
			BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
			BB_TRY(status, set_run(s, s->pristine, 1), out);
			BB_TRY(status, queue_finish(s), out);
		}
		/* No rank may still write when another verifies. */
		BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
		BB_TRY(status, bb_engine_corrupt(&s->engine, victim), out);
		for (int k = 0; k < segments; k++) {
			const struct bb_segment seg =
				bb_collective_segment(call->collective, &call->shape, s->me, k);

			BB_TRY(status,
			       bb_engine_verify(&s->engine, (char *)call->out + seg.out * element,
						s->patterns, seg.source, seg.in, seg.count, wrong),
			       out);
		}
		if (!call->shape.in_place || segments == 0)
			BB_TRY(status,
			       bb_engine_verify(&s->engine, call->in, s->patterns, s->me, 0,
						l->in_bytes / element, wrong),
			       out);
	}
out:
	return status;
}

/* Makes a call on each set, and fills the sets. What is timed is warmed up: a library connects the
   algorithm that it chooses for several operations together at the first of them. */
static bb_status prepare(struct bb_session *s)
{
	bb_status status;

	s->pristine = s->layout.sets - 1;
	s->refills = s->layout.sets < 2;
	s->rotates = s->settings->cache == BB_CACHE_ROTATE && !s->refills ? s->layout.sets - 1 : 1;
	s->runs_ahead = s->engine.backend->gpu && s->settings->blocking == 0;
	for (int set = 0; set < s->layout.sets; set++) {
		set_call(s, set);
		BB_TRY(status, set_fill(s, set), out);
	}
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	for (int64_t i = 0; i < s->engine.options->warmup_iters; i++)
		BB_TRY(status, set_run(s, 0, s->settings->agg_iters), out);
	BB_TRY(status, queue_finish(s), out);
	/* No clock may begin while another rank still warms up. */
	status = ranks_line_up(s);
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

	*r = (struct reading){.offset = 0};
	if (!backend->clocks)
		return BB_OK;
	bb_status status = backend->clocks->offset(s->engine.rank, &r->offset, &r->uncertainty);
	r->at = now(s);
	return status;
}

/* Runs the operation once more, untimed, to learn the library's choice for it. Not for graphs:
   within one the library may choose otherwise, and does not report it. */
static bb_status find_chosen(struct bb_session *s)
{
	const struct bb_library *library = s->engine.backend->library;
	bb_status status;

	if (!library || !library->listen || !s->call.native || s->settings->cudagraph > 0)
		return BB_OK;
	library->listen(s->group, true);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	BB_TRY(status, set_run(s, 0, s->settings->agg_iters), out);
	BB_TRY(status, queue_finish(s), out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
out:
	library->listen(s->group, false);
	if (status == BB_OK)
		library->chosen(s->group, s->measured.chosen);
	return status;
}

bb_status bb_measure_once(struct bb_session *s, const void *in)
{
	const struct bb_backend *backend = s->engine.backend;
	const struct bb_buffers b = bb_arena_set(&s->arena, &s->layout, 0);
	bb_status status;

	s->pristine = 0;
	s->runs_ahead = false;
	set_call(s, 0);
	BB_TRY(status, set_fill(s, 0), out);
	BB_TRY(status, backend->copy(s->engine.rank, b.in, in, s->layout.in_bytes), out);
	BB_TRY(status, backend->finish(s->engine.rank, NULL), out);
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	BB_TRY(status, set_run(s, 0, 1), out);
	status = bb_driver_barrier(s->engine.driver);
out:
	return status;
}

bb_status bb_measure(struct bb_session *s)
{
	const struct bb_gpu *const gpu = s->engine.backend->gpu;
	const struct bb_virtual *const virtual = s->engine.backend->virtual;
	struct bb_measured *m = &s->measured;
	struct reading before, after;
	/* Before and after: how long the driver has slowed down this rank's GPU, for each reason;
	   virtual time without the fault. */
	int64_t throttling[BB_GPU_THROTTLES] = {0}, slowed[BB_GPU_THROTTLES] = {0};
	double faultless = NAN, ended = NAN, drift;
	bb_status status;

	*m = (struct bb_measured){.seconds = 0};
	s->operations = 0;
	BB_TRY(status, prepare(s), out);
	BB_TRY(status, read_clock(s, &before), out);
	if (virtual)
		faultless = virtual->evaluated(s->group)->faultless;
	if (gpu)
		gpu->throttled(s->engine.rank, throttling);
	BB_TRY(status, time_iterations(s), out);
	if (gpu)
		gpu->throttled(s->engine.rank, slowed);
	if (virtual) {
		m->evaluator = virtual->evaluated(s->group)->evaluator;
		ended = virtual->evaluated(s->group)->faultless;
	}
	for (int i = 0; i < BB_GPU_THROTTLES; i++)
		if (slowed[i] > throttling[i] && throttling[i] != BB_GPU_UNKNOWN)
			m->throttled |= 1u << i;
	m->faultless = (ended - faultless) / s->operations;
	BB_TRY(status, read_clock(s, &after), out);
	/* Arrivals move to rank 0's clock. Clocks drift linearly between the two comparisons. */
	drift = after.at > before.at ? (after.offset - before.offset) / (after.at - before.at) : 0;
	for (size_t i = 0; i < m->nsamples; i++)
		s->arrivals[i] -= before.offset + drift * (s->arrivals[i] - before.at);
	m->clock_uncertainty = before.uncertainty + after.uncertainty;
	m->seconds /= s->operations;
	m->cpu_seconds /= s->operations;
	BB_TRY(status, check(s), out);
	status = find_chosen(s);
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
	const size_t places = s->settings->cache == BB_CACHE_ROTATE ? half / c->bytes : 1;
	bb_status status = BB_OK;

	for (size_t k = 0; k < c->loops && status == BB_OK; k++) {
		char *from = s->arena.memory + k % places * c->bytes;

		status = s->engine.backend->copy(s->engine.rank, from + half, from, c->bytes);
	}
	return status;
}

static bb_status copies_keep(void *own, int64_t i, double begin, double seconds)
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
				       .on_sample = copies_keep,
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
	BB_TRY(status, bb_driver_barrier(s->engine.driver), out);
	if (s->copies)
		BB_TRY(status, time_copy(s, bytes, &mine), out);
	mine = mine > 0 ? (double)bytes / mine : 0;
	BB_TRY(status, bb_driver_gather(s->engine.driver, &bb_payload_real, &mine, 1, &all), out);
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
