/*
 * fields.h - fields that the records of several kernels have, for lists of fields
 * (harness/results/record.h), and how a measured trial fills them.
 */
#ifndef BB_TRAINING_KERNELS_KERNEL_FIELDS_H
#define BB_TRAINING_KERNELS_KERNEL_FIELDS_H

#include "core/clock.h"
#include "harness/results/record.h"

/* The confidence interval of the median that stands before it. */
#define BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of the median, lower end")            \
	FIELD(DOUBLE, high_us, "us", "its upper end")

/* The times of a step and of its halves alone (enum bb_step_half of kernel.h). */
#define BB_HALVES_FIELDS(FIELD)                                                                    \
	FIELD(DOUBLE, compute_us, "us", "computations without communication: median",              \
	      BB_COLUMN("compute", 8, 3), BB_MS)                                                   \
	FIELD(DOUBLE, communicate_us, "us", "communication without computations: median",          \
	      BB_COLUMN("communic.", 8, 3), BB_MS)                                                 \
	FIELD(DOUBLE, step_us, "us", "measured step, until the last rank ends: median",            \
	      BB_COLUMN("step", 8, 3), BB_MS)                                                      \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(DOUBLE, p95_us, "us", "95th percentile of the steps")                                \
	FIELD(DOUBLE, exposed_us, "us", "step_us - compute_us: time that the step waits",          \
	      BB_COLUMN("exposed", 8, 3), BB_MS)                                                   \
	FIELD(DOUBLE, hidden_us, "us", "communicate_us - exposed_us; null: no computations",       \
	      BB_COLUMN("hidden", 8, 3), BB_MS)                                                    \
	FIELD(DOUBLE, hidden, "fraction", "hidden_us / communicate_us", BB_COLUMN("hidden", 6, 1), \
	      BB_SHARE)                                                                            \
	FIELD(INT, samples, "", "number of timed steps")

/* The last field of a record. */
#define BB_END_FIELD(FIELD) FIELD(DOUBLE, end_unix_s, "s", "time of the end, since 1970 UTC")

/* Elements that differ from what they must be; PLACE as in struct bb_field. */
#define BB_WRONG_FIELD(FIELD, place_, what)                                                        \
	FIELD(INT, wrong, "elements", what, BB_COLUMN("#wrong", 6, 0), .place = place_,            \
	      .head_unit = "")

/* Set FIELD (microseconds), interval, samples and end of the record R from TRIAL, of which each
   sample is STEPS steps. */
#define BB_TIMES_SET(r, field, trial, steps)                                                       \
	((r)->field = 1e6 / (double)(steps) * (trial)->stats.p50,                                  \
	 (r)->low_us = 1e6 / (double)(steps) * (trial)->stats.ci_low,                              \
	 (r)->high_us = 1e6 / (double)(steps) * (trial)->stats.ci_high,                            \
	 (r)->samples = (int64_t)(trial)->stats.n, (r)->end_unix_s = bb_clock_unix())

/* Set BB_HALVES_FIELDS and the end of the record R from a SETTING of the sweep of KERNEL, which
   COMPUTES, and so may hide communication. */
#define BB_HALVES_SET(r, kernel, setting, computes)                                                \
	do {                                                                                       \
		const struct bb_trial *const step_ =                                               \
			bb_kernel_trial(kernel, setting, BB_HALF_STEP);                            \
                                                                                                   \
		BB_TIMES_SET(r, step_us, step_, 1);                                                \
		(r)->p95_us = 1e6 * step_->stats.p95;                                              \
		(r)->compute_us =                                                                  \
			1e6 * bb_kernel_trial(kernel, setting, BB_HALF_COMPUTE)->stats.p50;        \
		(r)->communicate_us =                                                              \
			1e6 * bb_kernel_trial(kernel, setting, BB_HALF_COMMUNICATE)->stats.p50;    \
		(r)->exposed_us = (r)->step_us - (r)->compute_us;                                  \
		(r)->hidden_us = (computes) ? (r)->communicate_us - (r)->exposed_us : NAN;         \
		(r)->hidden =                                                                      \
			(r)->communicate_us > 0 ? (r)->hidden_us / (r)->communicate_us : NAN;      \
	} while (0)

#endif
