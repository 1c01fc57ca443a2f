/*
 * engine.c - an experiment on one driver, from start to end: its memory and data, samples, trials
 * that are timed against each other or one by one, and records.
 */
#include "harness/measure/engine.h"

#include "backends/gpu.h"
#include "core/array.h"
#include "harness/run/health.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Memory of this rank, released when all ranks are done. */
struct bb_engine_memory {
	struct bb_engine_memory *next;
	void *at;
	size_t bytes;
};

/* ---- memory and data ------------------------------------------------------------------------- */

static void engine_count_memory(struct bb_engine *e, int64_t bytes)
{
	int64_t *user = &e->run->end.memory_user_bytes;

	if (!bb_engine_leads(e))
		return;
	*user = (*user == BB_ABSENT ? 0 : *user) + bytes * e->run->world.nlocal;
	if (*user == 0)
		*user = BB_ABSENT;
}

bb_status bb_engine_alloc(struct bb_engine *e, size_t bytes, void **memory)
{
	*memory = NULL;
	if (bb_engine_is_virtual(e))
		return BB_OK;
	struct bb_engine_memory *m = calloc(1, sizeof(*m));
	const bb_status status = m ? e->backend->alloc(e->rank, bytes, &m->at) : BB_EINTERNAL;
	if (status != BB_OK) {
		free(m);
		return bb_fail(&e->run->error, status, "rank %d cannot allocate %zu bytes",
			       e->driver->rank, bytes);
	}
	m->bytes = bytes;
	m->next = e->memory;
	e->memory = m;
	*memory = m->at;
	engine_count_memory(e, (int64_t)bytes);
	return BB_OK;
}

void bb_engine_release(struct bb_engine *e, void *memory)
{
	struct bb_engine_memory **at = &e->memory, *m;

	while (*at && (*at)->at != memory)
		at = &(*at)->next;
	m = *at;
	if (!m || !memory)
		return;
	*at = m->next;
	e->backend->release(e->rank, m->at, m->bytes);
	engine_count_memory(e, -(int64_t)m->bytes);
	free(m);
}

bb_status bb_engine_patterns(struct bb_engine *e, enum bb_dtype dtype, int op, int nranks,
			     const struct bb_patterns **patterns)
{
	*patterns = NULL;
	if (bb_engine_is_virtual(e))
		return BB_OK;
	return bb_pattern_store_take(&e->run->patterns, dtype, op, nranks,
				     (uint64_t)e->options->seed, patterns) == BB_OK
		       ? BB_OK
		       : bb_no_memory(&e->run->error, "the data");
}

bb_status bb_engine_fill(struct bb_engine *e, void *memory, const struct bb_patterns *patterns,
			 int rank, size_t first, size_t count)
{
	if (!memory)
		return BB_OK;
	struct bb_pattern pattern = bb_patterns_get(patterns, rank);
	return e->backend->fill(e->rank, memory, &pattern, first, count);
}

bb_status bb_engine_verify(struct bb_engine *e, const void *memory,
			   const struct bb_patterns *patterns, int rank, size_t first, size_t count,
			   uint64_t *wrong)
{
	if (!memory)
		return BB_OK;
	struct bb_pattern pattern = bb_patterns_get(patterns, rank);
	return e->backend->verify(e->rank, memory, &pattern, first, count,
				  bb_patterns_dtype(patterns), bb_patterns_ulps(patterns, rank),
				  wrong);
}

bb_status bb_engine_corrupt(struct bb_engine *e, void *victim)
{
	const struct bb_fault *fault = &e->options->fault;
	unsigned char byte;

	if (!victim || fault->kind != BB_FAULT_CORRUPT || fault->rank != e->driver->rank)
		return BB_OK;
	const bb_status status = e->backend->copy(e->rank, &byte, victim, 1);
	byte ^= 0x55;
	return status == BB_OK ? e->backend->copy(e->rank, victim, &byte, 1) : status;
}

bb_status bb_engine_sum(struct bb_engine *e, uint64_t *values, size_t n)
{
	const void *all;
	bb_status status = bb_driver_gather(e->driver, &bb_payload_number, values, n, &all);

	if (status != BB_OK)
		return status;
	const uint64_t *const of = all;
	memset(values, 0, n * sizeof(*values));
	for (size_t i = 0; i < (size_t)e->run->world.nranks * n; i++)
		values[i % n] += of[i];
	return BB_OK;
}

bb_status bb_engine_slowest(struct bb_engine *e, double *seconds, size_t n)
{
	return bb_driver_most(e->driver, &bb_payload_seconds, seconds, n);
}

/* ---- samples --------------------------------------------------------------------------- */

bb_status bb_engine_begin(struct bb_engine *e, const char *what)
{
	const struct bb_fault *fault = &e->options->fault;

	bb_driver_deadline(e->driver, what);
	if (bb_engine_leads(e))
		bb_ticker_show(&e->run->ticker, what, 0);
	atomic_fetch_add_explicit(&e->driver->progress->entered, 1, memory_order_relaxed);
	return fault->kind == BB_FAULT_DIE && fault->rank == e->driver->rank ? BB_ETIMEOUT : BB_OK;
}

bb_status bb_engine_sample(struct bb_engine *e, const struct bb_sampling *s)
{
	const struct bb_backend *backend = e->backend;
	const struct bb_fault *fault = &e->options->fault;
	const bool slow = fault->kind == BB_FAULT_SLOW && fault->rank == e->driver->rank &&
			  !backend->virtual && !s->faultless;
	const double delay = fault->seconds * s->operations;
	atomic_int *phase = &e->driver->progress->phase;
	double end = 0, begin, seconds;
	bb_status status = BB_OK;

	atomic_store_explicit(phase, BB_PHASE_INSIDE, memory_order_relaxed);
	for (int64_t i = -s->warm; i < s->samples; i++) {
		if (s->ready)
			BB_TRY(status, s->ready(s->own), out);
		if (slow && i >= 0 && s->arrives)
			bb_driver_delay(e->driver, delay);
		begin = s->ready || end == 0 ? backend->now(e->rank) : end;
		if (slow && i >= 0 && !s->arrives)
			bb_driver_delay(e->driver, delay);
		if (s->events[0])
			BB_TRY(status, backend->event_record(e->rank, NULL, s->events[0]), out);
		BB_TRY(status, s->operate(s->own, i), out);
		if (s->events[0])
			BB_TRY(status, backend->event_record(e->rank, NULL, s->events[1]), out);
		BB_TRY(status, s->finish ? s->finish(s->own) : backend->finish(e->rank, NULL), out);
		end = backend->now(e->rank);
		seconds = end - begin;
		if (s->events[0])
			BB_TRY(status,
			       backend->gpu->elapsed(e->rank, s->events[0], s->events[1], &seconds),
			       out);
		if (i >= 0)
			BB_TRY(status, s->on_sample(s->own, i, begin, seconds / s->operations),
			       out);
	}
out:
	atomic_store_explicit(phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

bb_status bb_engine_agree_on_next(struct bb_engine *e, bool precise, double began, size_t done,
				  size_t *next)
{
	const double spent = e->backend->now(e->rank) - began;
	const double left = 1e-9 * (double)e->options->max_time_ns - spent;
	const double most = (double)(done < *next ? done : *next);
	/* The rest of --max-time has room for so many at the speed of those done. */
	const double room = left < 0 ? 0 : 1 + left * (double)done / (spent + 1e-12);
	uint64_t mine[2] = {precise, (uint64_t)fmin(room, most)};
	const void *all;
	bb_status status = bb_driver_gather(e->driver, &bb_payload_number, mine, 2, &all);

	if (status != BB_OK)
		return status;
	const uint64_t *const of = all;
	for (int r = 0; r < e->run->world.nranks; r++)
		precise = precise && of[2 * r];
	if (precise)
		*next = 0;
	else if (of[1] < *next)
		*next = (size_t)of[1];
	return BB_OK;
}

/* ---- trials ---------------------------------------------------------------------------------- */

static bb_status trial_refuse(struct bb_engine *e, struct bb_trial *t, const char *reason)
{
	t->refusal = strdup(reason);
	return t->refusal ? BB_OK : bb_no_memory(&e->run->error, "trials");
}

bb_status bb_engine_add(struct bb_engine *e, const struct bb_trial *trial, const char *reason)
{
	struct bb_trial *t = BB_ARRAY_ADD(e->trials, e->ntrials, e->most_trials);

	if (!t)
		return bb_no_memory(&e->run->error, "trials");
	*t = *trial;
	t->refusal = NULL;
	t->samples = NULL;
	t->n = 0;
	t->wrong = BB_ABSENT;
	return reason ? trial_refuse(e, t, reason) : BB_OK;
}

void bb_engine_clear(struct bb_engine *e)
{
	for (size_t i = 0; i < e->ntrials; i++) {
		free(e->trials[i].refusal);
		free(e->trials[i].samples);
	}
	e->ntrials = e->measured = 0;
}

bb_status bb_engine_require(struct bb_engine *e, size_t index)
{
	const char *refusal = e->trials[index].refusal;

	return refusal ? bb_fail(&e->run->error, BB_EUNSUPPORTED, "%s", refusal) : BB_OK;
}

/* Returns the rounds without --precision. */
static int trial_least_rounds(const struct bb_engine *e)
{
	const int64_t iters = e->options->iters;

	return iters < BB_ENGINE_ROUNDS ? (int)iters : BB_ENGINE_ROUNDS;
}

static bool trial_is_interleaved(const struct bb_trial *t)
{
	return t->timing == BB_TIMING_INTERLEAVED;
}

/* Returns the timed steps in ROUND; all rounds together have -n of them. */
static size_t trial_steps(const struct bb_engine *e, const struct bb_trial *t, int round)
{
	const int64_t iters = e->options->iters;

	if (!trial_is_interleaved(t))
		return round > 0 ? 0 : t->steps > 0 ? t->steps : (size_t)iters;
	return bb_engine_samples_of(iters, trial_least_rounds(e), round);
}

static bb_status trial_run_steps(struct bb_engine *e, struct bb_trial *t, struct bb_runner *runner,
				 int round)
{
	void *const own = t->workload.own;
	void *victims[BB_MOST_VICTIMS];
	const size_t steps = trial_steps(e, t, round);
	/* One is needed after other trials have used the caches. */
	size_t warm = bb_engine_is_virtual(e) ? 0 : 1;
	bb_status status = BB_OK;
	double end;

	if (t->steps > 0 || round == 0)
		warm = t->steps > 0 ? t->warm : (size_t)e->options->warmup_iters;
	/* Each step has a deadline of its own. */
	for (; warm > 0; warm--) {
		bb_driver_deadline(e->driver, t->what);
		BB_TRY(status, bb_runner_run(runner, NULL, &end), out);
	}
	for (size_t i = 0; i < steps; i++) {
		const bool last = i + 1 == steps;
		const bool checks = last && t->expects && round == 0 && bb_engine_checks(e);
		const bool watched = t->watch.done && (last || !trial_is_interleaved(t));

		bb_driver_deadline(e->driver, t->what);
		if (checks && t->expects->fill) {
			BB_TRY(status, t->expects->fill(own), out);
			BB_TRY(status, e->backend->finish(e->rank, NULL), out);
		}
		BB_TRY(status, bb_runner_run(runner, watched ? &t->watch : NULL, &t->samples[t->n]),
		       out);
		t->n++;
		if (checks) {
			const int n = t->expects->victims(own, victims);
			uint64_t wrong = 0;

			for (int k = 0; k < n; k++)
				BB_TRY(status, bb_engine_corrupt(e, victims[k]), out);
			BB_TRY(status, t->expects->verify(own, &wrong), out);
			BB_TRY(status, bb_engine_sum(e, &wrong, 1), out);
			t->wrong = (int64_t)wrong;
		}
		if (t->stepped)
			t->stepped(own, i);
	}
	status = bb_engine_slowest(e, t->samples + t->n - steps, steps);
out:
	return status;
}

static bb_status trial_visit(struct bb_engine *e, struct bb_trial *t, int round)
{
	struct bb_error refusal = {.text = ""};
	struct bb_runner *runner = NULL;
	bb_status status;

	BB_TRY(status, bb_engine_begin(e, t->what), out);
	status = bb_runner_open(&runner, e->run, e->driver, &t->workload, &refusal);
	if (status == BB_EUNSUPPORTED) {
		status = trial_refuse(e, t, refusal.text);
		goto out;
	}
	atomic_store_explicit(&e->driver->progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	if (status == BB_OK && round == 0 && t->opened)
		status = t->opened(t->workload.own, runner);
	if (status == BB_OK)
		status = trial_run_steps(e, t, runner, round);
	atomic_store_explicit(&e->driver->progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
out:
	if (status != BB_OK)
		bb_driver_abandon(e->driver);
	bb_runner_close(runner);
	return status;
}

bb_status bb_engine_measure(struct bb_engine *e)
{
	const double began = e->backend->now(e->rank);
	const struct bb_options *o = e->options;
	const size_t n = e->ntrials - e->measured;
	const size_t iters = (size_t)o->iters, rounds = (size_t)trial_least_rounds(e);
	const bool limited = o->precision != 0;
	size_t next = n > 0; /* rounds */
	double *sorted = NULL;
	bb_status status = BB_OK;

	for (size_t i = e->measured; i < e->ntrials; i++) {
		struct bb_trial *t = &e->trials[i];
		const size_t most =
			trial_is_interleaved(t)
				? (iters / rounds + 1) * (limited ? BB_ENGINE_MOST_ROUNDS : rounds)
				: trial_steps(e, t, 0);

		t->samples = calloc(most, sizeof(*t->samples));
		if (!t->samples)
			BB_TRY(status, bb_no_memory(&e->run->error, "trials"), out);
	}
	if (bb_engine_leads(e) && n > 1)
		bb_ticker_start(&e->run->ticker, n * rounds, 0);
	/* Until all rounds are done, or all interleaved trials precise, or --max-time is over,
	   which cuts a round short, unless it is the first. */
	for (int round = 0; next > 0; round++) {
		const bool done = round + 1 >= (int)rounds;
		bool interleaved = false, precise = done, any = false;

		for (size_t i = e->measured; next > 0 && i < e->ntrials; i++) {
			struct bb_trial *t = &e->trials[i];
			const bool visited = !t->refusal && (round == 0 || trial_is_interleaved(t));

			if (visited)
				BB_TRY(status, trial_visit(e, t, round), out);
			if (visited && limited && round > 0)
				BB_TRY(status,
				       bb_engine_agree_on_next(e, false, began, (size_t)round,
							       &next),
				       out);
			if (n > 1 && bb_engine_leads(e))
				bb_ticker_step(&e->run->ticker, 0);
			any |= !t->refusal || t->optional;
		}
		if (!any)
			BB_TRY(status, bb_engine_require(e, e->measured), out);
		for (size_t i = e->measured; i < e->ntrials; i++) {
			struct bb_trial *t = &e->trials[i];

			free(sorted);
			sorted = malloc(t->n * sizeof(*sorted) + 1);
			if (!sorted)
				BB_TRY(status, bb_no_memory(&e->run->error, "trials"), out);
			memcpy(sorted, t->samples, t->n * sizeof(*sorted));
			bb_stats_compute(sorted, t->n, &t->stats);
			if (!trial_is_interleaved(t) || t->refusal)
				continue;
			interleaved = true;
			precise &= !limited || bb_stats_precision(&t->stats) <= o->precision;
		}
		if (!interleaved || (!limited && done))
			next = 0;
		if (next > 0 && limited)
			BB_TRY(status,
			       bb_engine_agree_on_next(
				       e, precise || round + 1 >= BB_ENGINE_MOST_ROUNDS, began,
				       (size_t)round + 1, &next),
			       out);
	}
out:
	free(sorted);
	e->measured = e->ntrials;
	return status;
}

/* ---- rank 0's results ------------------------------------------------------------------------ */

bb_status bb_engine_deliver(struct bb_engine *e, const struct bb_record_kind *kind,
			    const void *record, int64_t wrong)
{
	e->run->end.results++;
	e->run->end.checked += wrong != BB_ABSENT;
	e->run->end.wrong += wrong != BB_ABSENT && wrong > 0;
	bb_ticker_hide(&e->run->ticker);
	return bb_sinks_record(&e->run->sinks, kind, record);
}

bb_status bb_engine_comment_lines(struct bb_engine *e, struct bb_strbuf *lines)
{
	bb_ticker_hide(&e->run->ticker);
	const bb_status status = bb_strbuf_failed(lines)
					 ? bb_no_memory(&e->run->error, "a comment")
					 : bb_sinks_comment(&e->run->sinks, bb_strbuf_text(lines));
	bb_strbuf_free(lines);
	return status;
}

bb_status bb_engine_answer(struct bb_engine *e, struct bb_strbuf *lines)
{
	bb_run_answer(e->run, lines, 0);
	return bb_engine_comment_lines(e, lines);
}

bb_status bb_engine_comment(struct bb_engine *e, const char *format, ...)
{
	struct bb_strbuf line = {0};
	va_list args;

	va_start(args, format);
	bb_strbuf_vaddf(&line, format, args);
	va_end(args);
	return bb_engine_comment_lines(e, &line);
}

bb_status bb_engine_skip(struct bb_engine *e, const struct bb_skip_record *record)
{
	if (!bb_engine_leads(e))
		return BB_OK;
	e->run->end.skipped++;
	bb_ticker_hide(&e->run->ticker);
	return bb_sinks_record(&e->run->sinks, &bb_record_skip, record);
}

bb_status bb_engine_skip_subject(struct bb_engine *e, const char *subject, const char *algorithm,
				 const char *dtype, const char *reason)
{
	struct bb_skip_record record;

	bb_record_init(&bb_record_skip, &record);
	record.collective = subject;
	record.algorithm = algorithm;
	record.dtype = dtype;
	record.reason = reason;
	return bb_engine_skip(e, &record);
}

/* ---- the experiment -------------------------------------------------------------------------- */

bb_status bb_engine_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	const struct bb_experiment *x = run->experiment;
	struct bb_engine *e = calloc(1, x->bytes);
	struct bb_gpu_health health;
	bb_status status;

	if (!e)
		return bb_no_memory(&run->error, "a driver");
	e->run = run;
	e->driver = driver;
	e->options = &run->options;
	e->backend = run->options.backend;
	e->rank = driver->handle;
	e->copy_rate = NAN;
	if (x->before)
		BB_TRY(status, x->before(e), out);
	BB_TRY(status, bb_run_open_world(run, driver, x->group_of, &e->world), out);
	if (x->open)
		BB_TRY(status, x->open(e), out);
	BB_TRY(status, bb_run_begin(run, driver, e->copy_rate), out);
	bb_run_gpus_read(run, driver, &health);
	BB_TRY(status, x->run ? x->run(e) : bb_engine_measure(e), out);
	if (x->gather)
		BB_TRY(status, x->gather(e), out);
	if (x->deliver && bb_engine_leads(e))
		BB_TRY(status, x->deliver(e), out);
	status = bb_run_gpus_report(run, driver, &health);
out:
	status = bb_driver_finish(driver, status);
	e->all_done = status == BB_OK;
	if (x->close)
		x->close(e);
	while (e->memory) {
		struct bb_engine_memory *m = e->memory;

		e->memory = m->next;
		/* After a failure the memory stays, because others may still read it. */
		if (e->all_done)
			e->backend->release(e->rank, m->at, m->bytes);
		free(m);
	}
	bb_engine_clear(e);
	free(e->trials);
	e->backend->group_close(e->world);
	free(e);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
