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

#endif
