/*
 * measure.h - what measure.c and timing.c share: one case in one placement, on one rank.
 */
#ifndef BB_HARNESS_MEASURE_MEASURE_H
#define BB_HARNESS_MEASURE_MEASURE_H

#include "harness/measure/bench.h"

struct bb_job {
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

	/* Results of the timed iterations. */
	size_t iterations, nsamples;
	double seconds, cpu_seconds; /* of OPERATIONS of them */
	double operations;
};

/* Poison the outputs of SET and write its inputs. */
BB_MUST bb_status bb_job_fill(const struct bb_job *job, int set);
/* Run TIMES operations on SET; they are done when the call returns unless the job runs ahead. */
BB_MUST bb_status bb_job_enter(const struct bb_job *job, int set, int64_t times);
/* Wait until no rank is busy any more, so that the clocks may begin. */
BB_MUST bb_status bb_job_line_up(const struct bb_job *job);
/* Wait for operations that run ahead. */
BB_MUST bb_status bb_job_finish(const struct bb_job *job);

/* Time the iterations of a warm job; the last runs on the pristine set. Collective over the world.
 */
BB_MUST bb_status bb_job_time(struct bb_job *job);

#endif
