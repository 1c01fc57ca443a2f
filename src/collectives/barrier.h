/*
 * barrier.h - the benchmark of barriers of all ranks: the backend's own, and all-reduces of 8
 * bytes, which no rank can finish before all have entered them.
 */
#ifndef BB_COLLECTIVES_BARRIER_H
#define BB_COLLECTIVES_BARRIER_H

#include "harness/measure/engine.h"

#define BB_BARRIER_OPTIONS(OPTION, COMMON)                                                         \
	OPTION(CHOICES, algorithms, "algo", 0, "all",                                              \
	       "barriers to measure: barrier is the backend's own, the others are all-reduces of " \
	       "8 bytes, auto by the backend's choice",                                            \
	       .choice = barrier_algorithm, .usual = true)                                         \
	COMMON("iters", 'n', "1000", "timed barriers; with --precision per round", .min = 1,       \
	       .max = 100000, .usual = true)

struct bb_barrier_options {
	BB_OPTION_MEMBERS(BB_BARRIER_OPTIONS)
};

#define BB_BARRIER_FIELDS(FIELD)                                                                   \
	FIELD(STRING, algorithm_asked, "", "as in --algo", BB_COLUMN("algo", -25, 0),              \
	      .cell = barrier_name)                                                                \
	FIELD(STRING, algorithm, "", "the one that ran: for auto the backend's choice")            \
	FIELD(INT, nranks, "", "ranks that meet")                                                  \
	FIELD(INT, samples, "", "timed barriers", BB_COLUMN("samples", 7, 0))                      \
	FIELD(DOUBLE, min_us, "us", "shortest barrier, each timed on the rank it took longest",    \
	      BB_COLUMN("min", 8, 2))                                                              \
	FIELD(DOUBLE, p50_us, "us", "median", BB_COLUMN("median", 8, 2))                           \
	FIELD(DOUBLE, p95_us, "us", "95th percentile", BB_COLUMN("p95", 8, 2))                     \
	FIELD(DOUBLE, p99_us, "us", "99th percentile", BB_COLUMN("p99", 8, 2))                     \
	FIELD(DOUBLE, ci_low_us, "us", "95% confidence interval of the median, from")              \
	FIELD(DOUBLE, ci_high_us, "us", "and to")                                                  \
	FIELD(INT, wrong, "elements", "of the sums, over all ranks; null: not checked",            \
	      BB_COLUMN("#wrong", 6, 0), .head_unit = "")                                          \
	FIELD(DOUBLE, end_unix_s, "s", "when it was measured, since 1970 UTC")

/* One kind of barrier. */
struct bb_barrier_record {
	BB_BARRIER_FIELDS(BB_MEMBER)
};

extern const struct bb_option bb_barrier_rows[];
extern const struct bb_record_kind bb_record_barrier;
extern const struct bb_benchmark bb_barrier_benchmark;

#endif
