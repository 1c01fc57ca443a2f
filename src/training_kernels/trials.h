/*
 * trials.h - programs timed against each other: a few steps of one, then of the next, round after
 * round, so that what passes by on the machine does not hit one of them alone.
 */
#ifndef BB_TRAINING_KERNELS_TRIALS_H
#define BB_TRAINING_KERNELS_TRIALS_H

#include "core/stats.h"
#include "harness/measure/play.h"

#define BB_TRIAL_ROUNDS 5
#define BB_REFUSAL_TEXT 512
#define BB_TRIAL_MOST_ROUNDS 100 /* with --precision */

/* One program, and on every rank what came of it. */
struct bb_trial {
	struct bb_play play;
	char what[BB_WHAT_TEXT]; /* for progress, and for a deadline that has passed */
	/* NULL, or called with play.own when it is first made ready, on all ranks: to see by what
	   it is done. */
	bb_status (*opened)(void *own, struct bb_player *player);
	/* Hears of the last timed step of each round. Its `done` may be NULL. */
	struct bb_timeline_watch watch;
	/* NULL, or called with play.own around the last timed step of the first round, on all
	   ranks: to give it known data, and to look at what it made of it. Both are collective. */
	bb_status (*before_last)(void *own);
	bb_status (*after_last)(void *own);

	char refusal[BB_REFUSAL_TEXT]; /* why it cannot be done here; empty: it can */
	double *samples; /* seconds of a step until the last rank had done it; owned */
	size_t n;
	struct bb_stats stats; /* of the samples */
};

/* One driver's. */
struct bb_trials {
	struct bb_run *run;
	struct bb_driver *driver;
	struct bb_trial *list; /* the caller's, as long as this one */
	size_t n;
};

/*
 * Time all of them: -n steps each over all rounds, -w steps before the first; with --precision
 * until all medians are as precise, or --max-time is over. Collective over the world: the lists are
 * the same on all ranks. bb_trials_free whatever comes back. BB_EUNSUPPORTED with the reason of
 * the first where none of them can be done.
 */
BB_MUST bb_status bb_trials_measure(struct bb_trials *trials);
void bb_trials_free(struct bb_trials *trials);

#endif
