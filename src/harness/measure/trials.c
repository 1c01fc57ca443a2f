/*
 * trials.c - times the trials of an experiment: interleaved with each other, or step by step.
 */
#include "harness/measure/engine.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

/* ---- the plan -------------------------------------------------------------------------------- */

static bb_status trials_no_memory(struct bb_engine *e)
{
	return bb_no_memory(&e->run->error, "trials");
}

static bb_status trial_refuse(struct bb_engine *e, struct bb_trial *t, const char *reason)
{
	t->refusal = strdup(reason);
	return t->refusal ? BB_OK : trials_no_memory(e);
}

bb_status bb_engine_add(struct bb_engine *e, const struct bb_trial *trial, const char *reason)
{
	struct bb_trial *t = BB_ARRAY_ADD(e->trials, e->ntrials, e->most_trials);

	if (!t)
		return trials_no_memory(e);
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

/* ---- how many steps -------------------------------------------------------------------------- */

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

/* Returns the warm-up steps of ROUND. One is needed after other trials have used the caches. */
static size_t trial_warm_steps(const struct bb_engine *e, const struct bb_trial *t, int round)
{
	if (t->steps > 0)
		return t->warm;
	if (round == 0)
		return (size_t)e->options->warmup_iters;
	return bb_engine_is_virtual(e) ? 0 : 1;
}

static size_t trial_most_samples(const struct bb_engine *e, const struct bb_trial *t)
{
	const bool precise = e->options->precision != 0;
	const size_t base = (size_t)trial_least_rounds(e);
	const size_t rounds = precise ? BB_ENGINE_MOST_ROUNDS : base;

	if (!trial_is_interleaved(t))
		return trial_steps(e, t, 0);
	return ((size_t)e->options->iters / base + 1) * rounds;
}

static bb_status trials_open_samples(struct bb_engine *e)
{
	for (size_t i = e->measured; i < e->ntrials; i++) {
		struct bb_trial *t = &e->trials[i];

		t->samples = calloc(trial_most_samples(e, t), sizeof(*t->samples));
		if (!t->samples)
			return trials_no_memory(e);
	}
	return BB_OK;
}

/* ---- one round of a trial -------------------------------------------------------------------- */

static bb_status trial_verify(struct bb_engine *e, struct bb_trial *t)
{
	void *victims[BB_MOST_VICTIMS];
	const int n = t->expects->victims(t->workload.own, victims);
	uint64_t wrong = 0;
	bb_status status = BB_OK;

	for (int i = 0; i < n; i++)
		BB_TRY(status, bb_engine_corrupt(e, victims[i]), out);
	BB_TRY(status, t->expects->verify(t->workload.own, &wrong), out);
	BB_TRY(status, bb_engine_sum(e, &wrong, 1), out);
	t->wrong = (int64_t)wrong;
out:
	return status;
}

static bb_status trial_time_step(struct bb_engine *e, struct bb_trial *t, struct bb_runner *runner,
				 bool last, bool verified)
{
	const bool watched = t->watch.done && (last || !trial_is_interleaved(t));
	bb_status status = BB_OK;

	if (verified && t->expects->fill)
		BB_TRY(status, t->expects->fill(t->workload.own), out);
	BB_TRY(status, bb_runner_run(runner, watched ? &t->watch : NULL, &t->samples[t->n]), out);
	t->n++;
	if (verified)
		status = trial_verify(e, t);
out:
	return status;
}

static bb_status trial_run_steps(struct bb_engine *e, struct bb_trial *t, struct bb_runner *runner,
				 int round)
{
	const size_t steps = trial_steps(e, t, round);
	const bool checks = t->expects && round == 0 && bb_engine_checks(e);
	bb_status status = BB_OK;
	double end;

	/* Each step has a deadline of its own. */
	for (size_t i = trial_warm_steps(e, t, round); i > 0 && status == BB_OK; i--) {
		bb_crew_deadline(e->driver, t->what);
		status = bb_runner_run(runner, NULL, &end);
	}
	for (size_t i = 0; i < steps && status == BB_OK; i++) {
		const bool last = i + 1 == steps;

		bb_crew_deadline(e->driver, t->what);
		status = trial_time_step(e, t, runner, last, last && checks);
		if (status == BB_OK && t->stepped)
			t->stepped(t->workload.own, i);
	}
	return status == BB_OK ? bb_engine_slowest(e, t->samples + t->n - steps, steps) : status;
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
		bb_crew_abandon(e->driver);
	bb_runner_close(runner);
	return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool trial_has_round(const struct bb_trial *t, int round)
{
	return !t->refusal && (round == 0 || trial_is_interleaved(t));
}

static bb_status trials_sum_up(struct bb_engine *e)
{
	for (size_t i = e->measured; i < e->ntrials; i++) {
		struct bb_trial *t = &e->trials[i];
		double *sorted = malloc(t->n * sizeof(*sorted) + 1);

		if (!sorted)
			return trials_no_memory(e);
		memcpy(sorted, t->samples, t->n * sizeof(*sorted));
		bb_stats_compute(sorted, t->n, &t->stats);
		free(sorted);
	}
	return BB_OK;
}

/* *STOP = true if every rank is PRECISE, or --max-time is over. */
static bb_status trials_agree(struct bb_engine *e, bool precise, int rounds, double began,
			      bool *stop)
{
	size_t next = 1;
	bb_status status = bb_engine_agree_on_next(e, precise, began, (size_t)rounds, &next);

	*stop = next == 0;
	return status;
}

/* *STOP = true if --max-time is over: then the round is cut short, unless it is the first. */
static bb_status trials_run_round(struct bb_engine *e, int round, double began, bool *stop)
{
	const bool several = e->ntrials - e->measured > 1;
	const bool limited = e->options->precision != 0 && round > 0;
	bool any = false;
	bb_status status = BB_OK;

	for (size_t i = e->measured; i < e->ntrials && status == BB_OK && !*stop; i++) {
		struct bb_trial *t = &e->trials[i];
		const bool visited = trial_has_round(t, round);

		if (visited)
			status = trial_visit(e, t, round);
		if (visited && limited && status == BB_OK)
			status = trials_agree(e, false, round, began, stop);
		if (several && bb_engine_leads(e))
			bb_ticker_step(&e->run->ticker, 0);
		any |= !t->refusal;
	}
	if (status == BB_OK && !any)
		status = bb_engine_require(e, e->measured);
	return status == BB_OK ? trials_sum_up(e) : status;
}

/* *STOP = true if all rounds are done, or all interleaved trials precise, or --max-time is over. */
static bb_status trials_agree_to_stop(struct bb_engine *e, int round, double began, bool *stop)
{
	const struct bb_options *o = e->options;
	bool interleaved = false, precise = round + 1 >= trial_least_rounds(e);

	for (size_t i = e->measured; i < e->ntrials; i++) {
		const struct bb_trial *t = &e->trials[i];

		if (!trial_is_interleaved(t) || t->refusal)
			continue;
		interleaved = true;
		precise &= o->precision == 0 || bb_stats_precision(&t->stats) <= o->precision;
	}
	*stop |= !interleaved || (o->precision == 0 && precise);
	if (*stop || o->precision == 0)
		return BB_OK;
	return trials_agree(e, precise || round + 1 >= BB_ENGINE_MOST_ROUNDS, round + 1, began,
			    stop);
}

bb_status bb_engine_measure(struct bb_engine *e)
{
	const double began = e->backend->now(e->rank);
	const size_t n = e->ntrials - e->measured;
	bool stop = n == 0;
	bb_status status = trials_open_samples(e);

	if (bb_engine_leads(e) && n > 1)
		bb_ticker_start(&e->run->ticker, n * (size_t)trial_least_rounds(e), 0);
	for (int round = 0; status == BB_OK && !stop; round++) {
		status = trials_run_round(e, round, began, &stop);
		if (status == BB_OK)
			status = trials_agree_to_stop(e, round, began, &stop);
	}
	e->measured = e->ntrials;
	return status;
}
