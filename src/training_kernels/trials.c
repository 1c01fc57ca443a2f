#include "training_kernels/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_virtual(const struct bb_trials *t)
{
	return t->run->options.backend->virtual;
}

/* Without --precision. */
static int least_rounds(const struct bb_trials *t)
{
	const int64_t iters = t->run->options.iters;

	return iters < BB_TRIAL_ROUNDS ? (int)iters : BB_TRIAL_ROUNDS;
}

/* Timed steps of round ROUND: all rounds together have what -n asks for. */
static size_t steps_of(const struct bb_trials *t, int round)
{
	const size_t iters = (size_t)t->run->options.iters, rounds = (size_t)least_rounds(t);
	const size_t r = (size_t)round % rounds;

	return iters * (r + 1) / rounds - iters * r / rounds;
}

/* Steps that come before the timed ones: the first after others has caches to fill again. */
static int64_t warm_steps(const struct bb_trials *t, int round)
{
	if (round == 0)
		return t->run->options.warmup_iters;
	return is_virtual(t) ? 0 : 1;
}

static bb_status open_samples(struct bb_trials *t)
{
	const bool precise = t->run->options.precision != 0;
	const size_t rounds = precise ? BB_TRIAL_MOST_ROUNDS : (size_t)least_rounds(t);
	const size_t most = ((size_t)t->run->options.iters / (size_t)least_rounds(t) + 1) * rounds;

	for (size_t i = 0; i < t->n; i++) {
		t->list[i].samples = calloc(most, sizeof(double));
		if (!t->list[i].samples)
			return bb_fail(&t->run->error, BB_EINTERNAL, "out of memory for samples");
	}
	return BB_OK;
}

/* The last N samples of TRIAL, this rank's own, become those of the rank that took longest. */
static bb_status agree_on_samples(struct bb_trials *t, struct bb_trial *trial, size_t n)
{
	double *const mine = trial->samples + trial->n - n;
	const void *all;
	bb_status status = bb_crew_gather(t->driver, &bb_payload_seconds, mine, n, &all);

	for (int r = 0; r < t->run->world.nranks && status == BB_OK; r++)
		for (size_t i = 0; i < n; i++) {
			const double theirs = ((const double *)all)[(size_t)r * n + i];

			mine[i] = theirs > mine[i] ? theirs : mine[i];
		}
	return status;
}

static bb_status play_timed(struct bb_trial *trial, struct bb_player *player, bool watched,
			    bool last, double *end)
{
	const struct bb_timeline_watch *watch = watched && trial->watch.done ? &trial->watch : NULL;
	bb_status status = BB_OK;

	if (last && trial->before_last)
		status = trial->before_last(trial->play.own);
	if (status == BB_OK)
		status = bb_player_play(player, watch, end);
	if (status == BB_OK && last && trial->after_last)
		status = trial->after_last(trial->play.own);
	return status;
}

static bb_status play_round(struct bb_trials *t, struct bb_trial *trial, struct bb_player *player,
			    int round)
{
	const size_t steps = steps_of(t, round);
	bb_status status = BB_OK;
	double end;

	for (int64_t i = warm_steps(t, round); i > 0 && status == BB_OK; i--)
		status = bb_player_play(player, NULL, &end);
	for (size_t i = 0; i < steps && status == BB_OK; i++) {
		const bool last = i + 1 == steps;

		status = play_timed(trial, player, last, round == 0 && last, &end);
		trial->samples[trial->n++] = end;
	}
	return status == BB_OK ? agree_on_samples(t, trial, steps) : status;
}

static bb_status visit(struct bb_trials *t, struct bb_trial *trial, int round)
{
	const struct bb_fault *fault = &t->run->options.fault;
	struct bb_error refusal = {.text = ""};
	struct bb_player *player = NULL;
	bb_status status;

	if (trial->refusal[0])
		return BB_OK;
	if (t->driver->local == 0)
		bb_crew_deadline(t->driver, trial->what);
	if (bb_driver_leads(t->driver))
		bb_ticker_show(&t->run->ticker, trial->what, 0);
	atomic_fetch_add_explicit(&t->driver->progress->entered, 1, memory_order_relaxed);
	if (fault->kind == BB_FAULT_DIE && fault->rank == t->driver->rank)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	status = bb_player_open(&player, t->run, t->driver, &trial->play, &refusal);
	if (status == BB_EUNSUPPORTED) {
		snprintf(trial->refusal, sizeof(trial->refusal), "%s", refusal.text);
		bb_player_close(player);
		return BB_OK;
	}
	atomic_store_explicit(&t->driver->progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	if (status == BB_OK && round == 0 && trial->opened)
		status = trial->opened(trial->play.own, player);
	if (status == BB_OK)
		status = play_round(t, trial, player, round);
	atomic_store_explicit(&t->driver->progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	if (status != BB_OK)
		bb_crew_abandon(t->driver);
	bb_player_close(player);
	if (bb_driver_leads(t->driver))
		bb_ticker_step(&t->run->ticker, 0);
	return status;
}

/* Is every median as precise as asked, or the time up? Rank 0 decides. */
static bb_status agree_to_stop(struct bb_trials *t, int round, double began, bool *stop)
{
	const struct bb_options *o = &t->run->options;
	unsigned char enough = round + 1 >= least_rounds(t);
	const void *all;
	bb_status status;

	*stop = enough;
	if (!enough || o->precision == 0)
		return BB_OK;
	for (size_t i = 0; i < t->n; i++)
		enough &= bb_stats_precision(&t->list[i].stats) <= o->precision;
	enough |= round + 1 >= BB_TRIAL_MOST_ROUNDS;
	enough |= o->backend->now(t->driver->handle) - began > 1e-9 * (double)o->max_time_ns;
	status = bb_crew_gather(t->driver, &bb_payload_flags, &enough, 1, &all);
	*stop = status == BB_OK && ((const unsigned char *)all)[0];
	return status;
}

/* Can any of them be done? */
static bb_status find_any(struct bb_trials *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (!t->list[i].refusal[0])
			return BB_OK;
	return bb_fail(&t->run->error, BB_EUNSUPPORTED, "%s", t->n ? t->list[0].refusal : "");
}

static bb_status sum_up(struct bb_trials *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct bb_trial *trial = &t->list[i];
		double *sorted = malloc(trial->n * sizeof(*sorted) + 1);

		if (!sorted)
			return bb_fail(&t->run->error, BB_EINTERNAL, "out of memory for samples");
		memcpy(sorted, trial->samples, trial->n * sizeof(*sorted));
		bb_stats_compute(sorted, trial->n, &trial->stats);
		free(sorted);
	}
	return BB_OK;
}

bb_status bb_trials_measure(struct bb_trials *trials)
{
	const double began = trials->run->options.backend->now(trials->driver->handle);
	bool stop = false;
	bb_status status = open_samples(trials);

	if (bb_driver_leads(trials->driver))
		bb_ticker_start(&trials->run->ticker, trials->n * (size_t)least_rounds(trials), 0);
	for (int round = 0; status == BB_OK && !stop; round++) {
		for (size_t i = 0; i < trials->n && status == BB_OK; i++)
			status = visit(trials, &trials->list[i], round);
		if (status == BB_OK)
			status = find_any(trials);
		if (status == BB_OK)
			status = sum_up(trials);
		if (status == BB_OK)
			status = agree_to_stop(trials, round, began, &stop);
	}
	return status;
}

void bb_trials_free(struct bb_trials *trials)
{
	for (size_t i = 0; i < trials->n; i++)
		free(trials->list[i].samples);
}
