/*
 * measure.c - one case in one placement: fill, warm up, time, verify. The last timed iteration runs
 * on the pristine set: filled inputs and poisoned outputs that nothing else has touched. Exactly
 * its outputs are verified.
 */
#include "harness/measure/measure.h"

#include "backends/gpu.h"
#include "backends/library.h"
#include "backends/virtual.h"
#include "core/clock.h"

#include <string.h>

bb_status bb_job_fill(const struct bb_job *job, int set)
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

static void make_calls(struct bb_job *job, const struct bb_call *call)
{
	const struct bb_arena *arena = &job->s->arena;

	for (int set = 0; set < job->layout->sets; set++) {
		const struct bb_buffers b = bb_arena_set(arena, job->layout, set);

		job->calls[set] = *call;
		job->calls[set].in = b.in;
		job->calls[set].out = b.out;
		job->calls[set].tmp = bb_arena_tmp(arena);
	}
}

/* Runs TIMES operations, of which only the last touches the pristine set. */
static bb_status operate(const struct bb_job *job, int set, int64_t times)
{
	struct bb_session *s = job->s;
	const struct bb_backend *backend = s->engine.backend;
	const bool batch = times > 1 && backend->gpu;
	bb_status status = batch ? backend->gpu->batch_begin(s->engine.rank) : BB_OK;

	for (int64_t i = 1; i < times && status == BB_OK; i++)
		status = backend->collective(s->group, NULL,
					     &job->calls[set == job->pristine ? 0 : set]);
	if (status == BB_OK)
		status = backend->collective(s->group, NULL, &job->calls[set]);
	return batch && status == BB_OK ? backend->gpu->batch_end(s->engine.rank) : status;
}

bb_status bb_job_line_up(const struct bb_job *job)
{
	const struct bb_engine *e = &job->s->engine;
	const bb_status status = bb_crew_barrier(e->driver);

	return status == BB_OK ? e->backend->barrier(e->world) : status;
}

bb_status bb_job_finish(const struct bb_job *job)
{
	return job->s->engine.backend->finish(job->s->engine.rank, NULL);
}

bb_status bb_job_enter(const struct bb_job *job, int set, int64_t times)
{
	struct bb_session *s = job->s;
	struct bb_progress *progress = s->engine.driver->progress;
	bb_status status;

	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	atomic_store_explicit(&progress->entered,
			      atomic_load_explicit(&progress->entered, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	status = operate(job, set, times);
	if (status == BB_OK && !job->runs_ahead)
		status = bb_job_finish(job);
	if (status == BB_OK && s->bench->settings.blocking == 1)
		status = s->engine.backend->barrier(s->engine.world);
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

/* Returns the byte that --fault corrupt changes: of the output, else of the input. NULL: none. */
static void *victim(const struct bb_job *job)
{
	const struct bb_layout *l = job->layout;
	const struct bb_buffers b = bb_arena_set(&job->s->arena, l, job->pristine);

	if (l->out_bytes > 0)
		return (char *)b.out + l->out_bytes / 2;
	return l->in_bytes > 0 ? (char *)b.in + l->in_bytes / 2 : NULL;
}

/* Verifies the outputs of the pristine set, and that its inputs have not changed. */
static bb_status verify(const struct bb_job *job, uint64_t *wrong)
{
	struct bb_session *s = job->s;
	const struct bb_collective *collective = s->bench->collective;
	const struct bb_shape *shape = &job->calls[0].shape;
	const size_t element = bb_dtype_size(job->calls[0].dtype);
	const struct bb_buffers b = bb_arena_set(&s->arena, job->layout, job->pristine);
	const int segments = collective->segments(shape, s->me);
	bb_status status = BB_OK;

	for (int k = 0; k < segments && status == BB_OK; k++) {
		struct bb_segment seg;

		collective->segment(shape, s->me, k, &seg);
		status = bb_engine_verify(&s->engine, (char *)b.out + seg.out * element,
					  s->patterns, seg.source, seg.in, seg.count, wrong);
	}
	if (status == BB_OK && (!shape->in_place || segments == 0))
		status = bb_engine_verify(&s->engine, b.in, s->patterns, s->me, 0,
					  job->layout->in_bytes / element, wrong);
	return status;
}

/* Verifies the last timed iteration, then the remaining rounds of -c, each a new iteration. */
static bb_status check(const struct bb_job *job, uint64_t *wrong)
{
	struct bb_session *s = job->s;
	const struct bb_options *options = s->engine.options;
	bb_status status = BB_OK;

	*wrong = 0;
	if (!bb_engine_checks(&s->engine))
		return BB_OK;
	for (int64_t round = 0; round < options->check; round++) {
		if (round > 0) {
			BB_TRY(status, bb_job_fill(job, job->pristine), out);
			BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
			BB_TRY(status, bb_job_enter(job, job->pristine, 1), out);
			BB_TRY(status, bb_job_finish(job), out);
		}
		/* No rank may still write when another verifies. */
		BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
		BB_TRY(status, bb_engine_corrupt(&s->engine, victim(job)), out);
		BB_TRY(status, verify(job, wrong), out);
	}
out:
	return status;
}

/* What is timed is warmed up: a library connects the algorithm that it chooses for several
   operations together at the first of them. */
static bb_status warm_up(const struct bb_job *job)
{
	const struct bb_session *s = job->s;
	bb_status status;

	for (int set = 0; set < job->layout->sets; set++)
		BB_TRY(status, bb_job_fill(job, set), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	for (int64_t i = 0; i < s->engine.options->warmup_iters; i++)
		BB_TRY(status, bb_job_enter(job, 0, s->bench->settings.agg_iters), out);
	BB_TRY(status, bb_job_finish(job), out);
	/* No clock may begin while another rank still warms up. */
	status = bb_job_line_up(job);
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

/* Moves the arrivals to rank 0's clock. Clocks drift linearly between the two comparisons. */
static void correct_arrivals(struct bb_session *s, size_t n, const struct reading *before,
			     const struct reading *after)
{
	const double span = after->at - before->at;
	const double drift = span > 0 ? (after->offset - before->offset) / span : 0;

	for (size_t i = 0; i < n; i++)
		s->arrivals[i] -= before->offset + drift * (s->arrivals[i] - before->at);
}

/* Runs the operation once more, untimed, to learn the library's choice for it. Not for graphs:
   within one the library may choose otherwise, and does not report it. */
static bb_status find_chosen(const struct bb_job *job, char chosen[BB_CHOSEN_TEXT])
{
	struct bb_session *s = job->s;
	const struct bb_library *library = s->engine.backend->library;
	bb_status status;

	if (!library || !library->listen || !job->calls[0].native ||
	    s->bench->settings.cudagraph > 0)
		return BB_OK;
	library->listen(s->group, true);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	BB_TRY(status, bb_job_enter(job, 0, s->bench->settings.agg_iters), out);
	BB_TRY(status, bb_job_finish(job), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
out:
	library->listen(s->group, false);
	if (status == BB_OK)
		library->chosen(s->group, chosen);
	return status;
}

static void set_up(struct bb_job *job, const struct bb_call *call)
{
	const struct bb_bench *bench = job->s->bench;

	job->refills = job->layout->sets < 2;
	job->pristine = job->layout->sets - 1;
	job->rotates = bench->settings.cache == BB_CACHE_ROTATE && !job->refills
			       ? job->layout->sets - 1
			       : 1;
	job->runs_ahead = job->s->engine.backend->gpu && bench->settings.blocking == 0;
	make_calls(job, call);
}

/* How long the driver has slowed down this rank's GPU so far, for each reason. */
static void read_throttling(const struct bb_session *s, int64_t us[BB_GPU_THROTTLES])
{
	const struct bb_gpu *const gpu = s->engine.backend->gpu;

	memset(us, 0, BB_GPU_THROTTLES * sizeof(*us));
	if (gpu)
		gpu->throttled(s->engine.rank, us);
}

static unsigned throttled_since(const struct bb_session *s, const int64_t before[BB_GPU_THROTTLES])
{
	int64_t now[BB_GPU_THROTTLES];
	unsigned reasons = 0;

	read_throttling(s, now);
	for (int i = 0; i < BB_GPU_THROTTLES; i++)
		reasons |= now[i] > before[i] && before[i] != BB_GPU_UNKNOWN ? 1u << i : 0;
	return reasons;
}

static void sum_up(const struct bb_job *job, struct bb_measured *measured)
{
	measured->iterations = job->iterations;
	measured->nsamples = job->nsamples;
	measured->part.seconds = job->seconds / job->operations;
	measured->cpu_seconds = job->cpu_seconds / job->operations;
}

/* Virtual time: returns the clock without the fault, and notes the evaluator. Real time: NAN. */
static double faultless_now(const struct bb_job *job, struct bb_measured *measured)
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
	const struct bb_fault *fault = &s->engine.options->fault;
	struct bb_job job = {.s = s, .c = c, .layout = layout};
	struct reading before, after;
	int64_t throttling[BB_GPU_THROTTLES];
	double faultless;
	bb_status status;

	set_up(&job, call);
	BB_TRY(status, warm_up(&job), out);
	if (fault->kind == BB_FAULT_DIE && fault->rank == s->engine.driver->rank)
		return BB_ETIMEOUT; /* leaves without a report, as a killed process would */
	BB_TRY(status, read_clock(s, &before), out);
	faultless = faultless_now(&job, measured);
	read_throttling(s, throttling);
	BB_TRY(status, bb_job_time(&job), out);
	measured->throttled = throttled_since(s, throttling);
	measured->faultless = (faultless_now(&job, measured) - faultless) / job.operations;
	BB_TRY(status, read_clock(s, &after), out);
	correct_arrivals(s, job.nsamples, &before, &after);
	measured->clock_uncertainty = before.uncertainty + after.uncertainty;
	sum_up(&job, measured);
	BB_TRY(status, check(&job, &measured->wrong), out);
	status = find_chosen(&job, measured->chosen);
out:
	return status;
}
