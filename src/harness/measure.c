/*
 * One case in one placement: fill, warm up, time, verify. The last timed iteration runs on
 * buffers that nothing has touched since they were filled, its outputs poisoned, and exactly those
 * outputs are verified.
 */
#include "harness/bench.h"

#include "core/stats.h"

#include <string.h>
#include <time.h>

#define COPY_REPEATS 5
#define COPY_SECONDS 20e-6 /* least time of one repeat, so that the clock does not matter */
#define POISON_PERIOD 1021

/* What one placement works with. */
struct job {
	struct bb_session *s;
	const struct bb_case *c;
	const struct bb_call *call;
	const struct bb_layout *layout;
	struct bb_call calls[BB_MOST_SETS]; /* CALL on each set, made ahead of time */
	int pristine;                       /* the set of the verified iteration */
	bool refills; /* there is but one set: it is refilled and the last iteration timed alone */
};

static double thread_cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct bb_pattern poison(void)
{
	static const unsigned char bytes[2 * POISON_PERIOD] = {[0 ... 2 * POISON_PERIOD - 1] =
								       0xa5};

	return (struct bb_pattern){bytes, POISON_PERIOD, 1, 0};
}

/* Poison the outputs of a set and write its inputs. */
static bb_status fill_set(const struct job *job, int set)
{
	struct bb_session *s = job->s;
	const struct bb_backend *backend = s->bench->backend;
	const struct bb_buffers b = bb_arena_set(&s->arena, job->layout, set);
	const struct bb_pattern ruin = poison();
	struct bb_pattern input;
	bb_status status;

	if (!(backend->capabilities & BB_CAP_DATA))
		return BB_OK;
	input = bb_patterns_get(s->patterns, s->me);
	status = backend->fill(s->driver->handle, b.out, &ruin, 0, job->layout->out_bytes);
	if (status == BB_OK)
		status = backend->fill(s->driver->handle, b.in, &input, 0,
				       job->layout->in_bytes / input.element_size);
	return status;
}

static void make_calls(struct job *job)
{
	const struct bb_arena *arena = &job->s->arena;

	for (int set = 0; set < job->layout->sets; set++) {
		const struct bb_buffers b = bb_arena_set(arena, job->layout, set);

		job->calls[set] = *job->call;
		job->calls[set].in = b.in;
		job->calls[set].out = b.out;
		job->calls[set].tmp = bb_arena_tmp(arena);
	}
}

/* One operation on SET, without a clock. */
static bb_status operate(const struct job *job, int set)
{
	struct bb_session *s = job->s;

	return s->bench->backend->collective(s->group, NULL, &job->calls[set]);
}

static bb_status enter(const struct job *job, int set, int64_t times)
{
	struct bb_session *s = job->s;
	const struct bb_backend *backend = s->bench->backend;
	struct bb_progress *progress = s->driver->progress;
	bb_status status = BB_OK;

	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	atomic_store_explicit(&progress->entered,
			      atomic_load_explicit(&progress->entered, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* Of aggregated operations only the last may touch a pristine set. */
	for (int64_t i = 1; i < times && status == BB_OK; i++)
		status = operate(job, set == job->pristine ? 0 : set);
	if (status == BB_OK)
		status = operate(job, set);
	if (status == BB_OK)
		status = backend->finish(s->driver->handle, NULL);
	if (status == BB_OK && s->bench->options->blocking == 1)
		status = backend->barrier(s->world);
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

/* Is there something to do before an iteration that is not part of it? */
static bool has_preparation(const struct job *job, bool fresh)
{
	const struct bb_options *options = job->s->bench->options;

	return fresh || options->blocking == 3 || options->report_cputime ||
	       (options->fault.kind == BB_FAULT_SLOW &&
		options->fault.rank == job->s->driver->rank);
}

static bb_status prepare(const struct job *job, int set, bool fresh)
{
	struct bb_session *s = job->s;
	const struct bb_fault *fault = &s->bench->options->fault;
	bb_status status = BB_OK;

	if (fresh)
		status = fill_set(job, set);
	if (status == BB_OK && (fresh || s->bench->options->blocking == 3))
		status = s->bench->backend->barrier(s->world);
	if (fault->kind == BB_FAULT_SLOW && fault->rank == s->driver->rank)
		s->bench->backend->delay(s->driver->handle, fault->seconds);
	return status;
}

/*
 * Timed iterations FIRST … LAST-1; if they END the measurement, the last runs on the pristine set.
 * Where nothing lies between two iterations one reading of the clock ends the first and begins the
 * second, so that the samples add up to the time of the loop.
 */
static bb_status iterate(const struct job *job, size_t first, size_t last, bool ends)
{
	struct bb_session *s = job->s;
	const struct bb_backend *backend = s->bench->backend;
	const struct bb_options *options = s->bench->options;
	const bool rotates = options->cache == BB_CACHE_ROTATE && !job->refills;
	const size_t sets = rotates ? (size_t)job->layout->sets - 1 : 1;
	double begin = backend->now(s->driver->handle), end;
	bb_status status = BB_OK;

	for (size_t i = first; i < last && status == BB_OK; i++) {
		const bool verified = ends && i + 1 == last;
		const int set = verified ? job->pristine : (int)(i % sets);
		const bool fresh = options->cache == BB_CACHE_REWRITE || (verified && job->refills);
		const int64_t times = verified && job->refills ? 1 : options->agg_iters;

		if (has_preparation(job, fresh)) {
			status = prepare(job, set, fresh);
			s->cpu_seconds -= options->report_cputime ? thread_cpu_seconds() : 0;
			begin = backend->now(s->driver->handle);
		}
		if (status == BB_OK)
			status = enter(job, set, times);
		end = backend->now(s->driver->handle);
		s->cpu_seconds += options->report_cputime ? thread_cpu_seconds() : 0;
		s->arrivals[i] = begin;
		s->samples[i] = (end - begin) / (double)times;
		begin = end;
	}
	return status;
}

/* Does every rank, or the clock, say that the measurement is precise enough? */
static bb_status agree_to_stop(const struct job *job, size_t done, double began, bool *stop)
{
	struct bb_session *s = job->s;
	const struct bb_options *options = s->bench->options;
	const double spent = s->bench->backend->now(s->driver->handle) - began;
	double *scratch = s->arrivals + s->most_samples;
	struct bb_stats stats;
	unsigned char mine, all_precise = 1;
	const void *all;
	bb_status status;

	memcpy(scratch, s->samples, done * sizeof(*scratch));
	bb_stats_compute(scratch, done, &stats);
	mine = bb_stats_precision(&stats) <= options->precision;
	if (bb_driver_leads(s->driver) && spent > 1e-9 * (double)options->max_time_ns)
		mine |= 2;
	status = bb_crew_gather(s->driver, &mine, sizeof(mine), &all);
	if (status != BB_OK)
		return status;
	for (int i = 0; i < s->bench->world->nranks; i++)
		all_precise &= ((const unsigned char *)all)[i];
	*stop = (all_precise & 1) || (((const unsigned char *)all)[0] & 2);
	return BB_OK;
}

/* The timed iterations: as many as asked, or until precise. */
static bb_status time_iterations(const struct job *job, size_t *iterations)
{
	struct bb_session *s = job->s;
	const struct bb_options *options = s->bench->options;
	const size_t batch = (size_t)options->iters;
	const double began = s->bench->backend->now(s->driver->handle);
	size_t done = 0;
	bool stop = options->precision == 0;
	bb_status status = BB_OK;

	while (!stop && status == BB_OK && done + 2 * batch <= s->most_samples) {
		status = iterate(job, done, done + batch, false);
		done += batch;
		if (status == BB_OK)
			status = agree_to_stop(job, done, began, &stop);
	}
	if (status == BB_OK)
		status = bb_crew_barrier(s->driver);
	if (status == BB_OK)
		status = iterate(job, done, options->precision == 0 ? batch : done + 1, true);
	*iterations = options->precision == 0 ? batch : done + 1;
	return status;
}

/* Make one byte of what this rank was given wrong: proof that the check can fail. */
static bb_status corrupt(const struct job *job)
{
	struct bb_session *s = job->s;
	const struct bb_buffers b = bb_arena_set(&s->arena, job->layout, job->pristine);
	char *victim = job->layout->out_bytes ? b.out : b.in;
	size_t bytes = job->layout->out_bytes ? job->layout->out_bytes : job->layout->in_bytes;
	unsigned char byte;
	bb_status status;

	if (bytes == 0)
		return BB_OK;
	victim += bytes / 2;
	status = s->bench->backend->copy(s->driver->handle, &byte, victim, 1);
	byte ^= 0x55;
	if (status == BB_OK)
		status = s->bench->backend->copy(s->driver->handle, victim, &byte, 1);
	return status;
}

/* Compare the pristine set's outputs with what the collective promises, and its inputs with
   what they were. */
static bb_status verify(const struct job *job, uint64_t *wrong)
{
	struct bb_session *s = job->s;
	const struct bb_backend *backend = s->bench->backend;
	const struct bb_collective *collective = s->bench->collective;
	const struct bb_shape *shape = &job->call->shape;
	const enum bb_dtype dtype = job->call->dtype;
	const size_t element = bb_dtype_size(dtype);
	const struct bb_buffers b = bb_arena_set(&s->arena, job->layout, job->pristine);
	const int segments = collective->segments(shape, s->me);
	bb_status status = BB_OK;

	for (int k = 0; k < segments && status == BB_OK; k++) {
		struct bb_segment seg;
		struct bb_pattern expected;
		int ulps;

		collective->segment(shape, s->me, k, &seg);
		expected = bb_patterns_get(s->patterns, seg.source);
		ulps = seg.source == BB_REDUCED && job->c->op == BB_AVG && bb_dtype_is_float(dtype)
			       ? 2
			       : 0;
		status = backend->verify(s->driver->handle, (char *)b.out + seg.out * element,
					 &expected, seg.in, seg.count, dtype, ulps, wrong);
	}
	if (status == BB_OK && (!shape->in_place || segments == 0)) {
		struct bb_pattern input = bb_patterns_get(s->patterns, s->me);

		status = backend->verify(s->driver->handle, b.in, &input, 0,
					 job->layout->in_bytes / element, dtype, 0, wrong);
	}
	return status;
}

/* Verify the last timed iteration, then as many further rounds as -c asks for. */
static bb_status check(const struct job *job, uint64_t *wrong)
{
	struct bb_session *s = job->s;
	const struct bb_options *options = s->bench->options;
	bb_status status = BB_OK;

	*wrong = 0;
	if (options->check == 0 || !(s->bench->backend->capabilities & BB_CAP_DATA))
		return BB_OK;
	for (int64_t round = 0; round < options->check && status == BB_OK; round++) {
		if (round > 0) {
			status = fill_set(job, job->pristine);
			if (status == BB_OK)
				status = bb_crew_barrier(s->driver);
			if (status == BB_OK)
				status = enter(job, job->pristine, 1);
		}
		/* Nobody may still be writing here when a rank begins to look. */
		if (status == BB_OK)
			status = bb_crew_barrier(s->driver);
		if (status == BB_OK && options->fault.kind == BB_FAULT_CORRUPT &&
		    options->fault.rank == s->driver->rank)
			status = corrupt(job);
		if (status == BB_OK)
			status = verify(job, wrong);
	}
	return status;
}

static bb_status warm_up(const struct job *job)
{
	bb_status status = BB_OK;

	for (int set = 0; set < job->layout->sets && status == BB_OK; set++)
		status = fill_set(job, set);
	if (status == BB_OK)
		status = bb_crew_barrier(job->s->driver);
	for (int64_t i = 0; i < job->s->bench->options->warmup_iters && status == BB_OK; i++)
		status = enter(job, 0, 1);
	/* Whoever is done first must not begin its clock while others still warm up. */
	if (status == BB_OK)
		status = bb_crew_barrier(job->s->driver);
	return status == BB_OK ? job->s->bench->backend->barrier(job->s->world) : status;
}

/* This rank's clock against rank 0's. */
struct reading {
	double at, offset, uncertainty;
};

static bb_status read_clock(struct bb_session *s, struct reading *r)
{
	const struct bb_backend *backend = s->bench->backend;
	bb_status status;

	*r = (struct reading){.offset = 0};
	if (!backend->clock_offset)
		return BB_OK;
	status = backend->clock_offset(s->driver->handle, &r->offset, &r->uncertainty);
	r->at = backend->now(s->driver->handle);
	return status;
}

/* Arrivals on rank 0's clock: two clocks drift apart evenly between two comparisons. */
static void correct_arrivals(struct bb_session *s, size_t n, const struct reading *before,
			     const struct reading *after)
{
	const double span = after->at - before->at;
	const double drift = span > 0 ? (after->offset - before->offset) / span : 0;

	for (size_t i = 0; i < n; i++)
		s->arrivals[i] -= before->offset + drift * (s->arrivals[i] - before->at);
}

bb_status bb_measure(struct bb_session *s, const struct bb_case *c, const struct bb_call *call,
		     const struct bb_layout *layout, struct bb_measured *measured)
{
	const struct bb_options *options = s->bench->options;
	struct job job = {.s = s, .c = c, .call = call, .layout = layout};
	const bool dies =
		options->fault.kind == BB_FAULT_DIE && options->fault.rank == s->driver->rank;
	struct reading before, after;
	double total = 0;
	bb_status status;

	job.refills = layout->sets < 2;
	job.pristine = layout->sets - 1;
	make_calls(&job);
	status = warm_up(&job);
	if (status != BB_OK)
		return status;
	if (dies)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	s->cpu_seconds = 0;
	status = read_clock(s, &before);
	if (status == BB_OK)
		status = time_iterations(&job, &measured->iterations);
	if (status == BB_OK)
		status = read_clock(s, &after);
	if (status != BB_OK)
		return status;
	correct_arrivals(s, measured->iterations, &before, &after);
	measured->clock_uncertainty = before.uncertainty + after.uncertainty;
	for (size_t i = 0; i < measured->iterations; i++)
		total += s->samples[i];
	measured->part.seconds = total / (double)measured->iterations;
	measured->cpu_seconds =
		s->cpu_seconds / (double)measured->iterations / (double)options->agg_iters;
	return check(&job, &measured->wrong);
}

/* ---- the machine's copy speed ---------------------------------------------------------- */

/* LOOPS private copies of BYTES from one half of the arena to the other, moving through both as the
   timed iterations move through their sets. */
static bb_status copy_through(struct bb_session *s, size_t bytes, size_t loops, double *seconds)
{
	const struct bb_backend *backend = s->bench->backend;
	const size_t half = s->arena.bytes / 2;
	const size_t places = s->bench->options->cache == BB_CACHE_ROTATE ? half / bytes : 1;
	const double start = backend->now(s->driver->handle);
	bb_status status = BB_OK;

	for (size_t k = 0; k < loops && status == BB_OK; k++) {
		char *from = s->arena.memory + k % places * bytes;

		status = backend->copy(s->driver->handle, from + half, from, bytes);
	}
	*seconds = (backend->now(s->driver->handle) - start) / (double)loops;
	return status;
}

/* Seconds of one private copy of BYTES, the best of a few: what the machine can do. */
static bb_status time_copy(struct bb_session *s, size_t bytes, double *seconds)
{
	double times[COPY_REPEATS], trial;
	struct bb_stats stats;
	size_t loops;
	bb_status status = copy_through(s, bytes, 1, &trial);

	if (status == BB_OK)
		status = copy_through(s, bytes, 1, &trial);
	loops = trial < COPY_SECONDS ? (size_t)(COPY_SECONDS / (trial + 1e-9)) + 1 : 1;
	for (int i = 0; i < COPY_REPEATS && status == BB_OK; i++)
		status = copy_through(s, bytes, loops, &times[i]);
	if (status != BB_OK)
		return status;
	bb_stats_compute(times, COPY_REPEATS, &stats);
	*seconds = stats.min;
	return BB_OK;
}

bb_status bb_measure_copy(struct bb_session *s, size_t bytes, double *rate)
{
	/* What is asked for decides whether it is measured: that is the same on all ranks. */
	const size_t asked = bytes, most = s->arena.bytes / 2;
	double mine = 0, sum = 0;
	const void *all;
	bb_status status;

	bytes = bytes < 64 ? 64 : bytes > most ? most : bytes;
	for (int i = 0; i < s->ncopy_speeds; i++)
		if (s->copy_speed[i].bytes == asked) {
			*rate = s->copy_speed[i].rate;
			return BB_OK;
		}
	status = bb_crew_barrier(s->driver);
	if (status == BB_OK && s->copies) {
		status = time_copy(s, bytes, &mine);
		mine = mine > 0 ? (double)bytes / mine : 0;
	}
	if (status == BB_OK)
		status = bb_crew_gather(s->driver, &mine, sizeof(mine), &all);
	if (status != BB_OK)
		return status;
	for (int i = 0; i < s->bench->world->nranks; i++)
		sum += ((const double *)all)[i];
	if (s->ncopy_speeds < BB_COPY_SPEEDS) {
		s->copy_speed[s->ncopy_speeds].bytes = asked;
		s->copy_speed[s->ncopy_speeds++].rate = sum;
	}
	*rate = sum;
	return BB_OK;
}
