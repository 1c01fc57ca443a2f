/*
 * result.h - the records of a collective: results, and with -I arrivals.
 */
#pragma once

#include "harness/results/sink.h"

/* What records say of the data of a case. */
#define BB_DATA_FIELDS(FIELD)                                                                      \
	FIELD(STRING, dtype, "", "element type")                                                   \
	FIELD(STRING, op, "", "reduction; none where data is only moved")                          \
	FIELD(INT, root, "", "rank; -1 where there is none")

#define BB_RESULT_FIELDS(FIELD)                                                                    \
	FIELD(STRING, collective, "", "what was done")                                             \
	FIELD(STRING, algorithm_asked, "", "as in --algo")                                         \
	FIELD(STRING, algorithm, "", "algorithm that ran; for auto the backend's choice")          \
	FIELD(STRING, library_algorithm, "",                                                       \
	      "choice reported by the library, as ring:LL128; null: not reported")                 \
	BB_DATA_FIELDS(FIELD)                                                                      \
	FIELD(INT, nranks, "", "ranks that take part in the call")                                 \
	FIELD(INT, size_bytes, "bytes", "size that bandwidths refer to")                           \
	FIELD(INT, count, "elements", "count parameter of the call; 0 with --matrix")              \
	FIELD(BOOL, in_place, "", "input and output lie in one buffer")                            \
	FIELD(DOUBLE, time_us, "us", "time of one operation, over the ranks as chosen by -a")      \
	FIELD(DOUBLE, algbw_GBps, "GB/s", "size_bytes / time_us / 1000")                           \
	FIELD(DOUBLE, busbw_GBps, "GB/s", "algbw_GBps times the bus factor of the collective")     \
	FIELD(INT, wrong, "elements",                                                              \
	      "elements that differ from the expected result; null: not checked")                  \
	FIELD(INT, iterations, "", "timed iterations")                                             \
	FIELD(INT, samples, "",                                                                    \
	      "samples of these iterations: short ones share a sample, so that reading the clock " \
	      "does not count")                                                                    \
	FIELD(STRING, verified, "", "buffers of the verified iteration; null: not checked")        \
	FIELD(DOUBLE, min_us, "us", "shortest sample (each the maximum over the ranks)")           \
	FIELD(DOUBLE, p50_us, "us", "median of the samples")                                       \
	FIELD(DOUBLE, p95_us, "us", "95th percentile")                                             \
	FIELD(DOUBLE, p99_us, "us", "99th percentile")                                             \
	FIELD(DOUBLE, max_us, "us", "longest sample")                                              \
	FIELD(DOUBLE, mean_us, "us", "mean")                                                       \
	FIELD(DOUBLE, stdev_us, "us", "standard deviation")                                        \
	FIELD(DOUBLE, cv_percent, "%", "stdev_us / mean_us")                                       \
	FIELD(DOUBLE, ci_low_us, "us",                                                             \
	      "95% confidence interval of the median, from 6 samples on: lower end")               \
	FIELD(DOUBLE, ci_high_us, "us", "upper end")                                               \
	FIELD(DOUBLE, busbw_low_GBps, "GB/s", "busbw in ci_high_us")                               \
	FIELD(DOUBLE, busbw_high_GBps, "GB/s", "busbw in ci_low_us")                               \
	FIELD(NUMBERS, samples_us, "us", "time of each sample; with -I of each iteration")         \
	FIELD(NUMBERS, rank_mean_us, "us", "mean time of each rank")                               \
	FIELD(NUMBERS, groups, "", "numbers of the groups of a split world")                       \
	FIELD(NUMBERS, group_time_us, "us", "time of each group, over its ranks as chosen by -a")  \
	FIELD(NUMBERS, group_busbw_GBps, "GB/s",                                                   \
	      "busbw of each group, from its own size, factor and time")                           \
	FIELD(INT, worst_group, "", "group furthest behind the median of those of its size")       \
	FIELD(DOUBLE, skew_p50_us, "us",                                                           \
	      "arrival skew: median time between the first and the last rank")                     \
	FIELD(DOUBLE, skew_max_us, "us", "largest arrival skew")                                   \
	FIELD(INT, last_rank, "", "rank that arrived last most often")                             \
	FIELD(DOUBLE, last_share, "fraction", "fraction of the iterations in which it was last")   \
	FIELD(DOUBLE, last_late_us, "us", "mean delay after the median rank in these")             \
	FIELD(DOUBLE, clock_uncertainty_us, "us", "uncertainty of the three times above")          \
	FIELD(DOUBLE, bound_us, "us",                                                              \
	      "time of this algorithm's bytes at the rate of bound_source")                        \
	FIELD(DOUBLE, bound_busbw_GBps, "GB/s", "busbw in bound_us")                               \
	FIELD(DOUBLE, percent_of_bound, "%", "bound_us / time_us")                                 \
	FIELD(STRING, bound_source, "", "source of the bound")                                     \
	FIELD(STRING, bound_doubt, "",                                                             \
	      "why the bound does not hold, where the result beats it by more than 5% and its "    \
	      "interval; null: it may hold")                                                       \
	FIELD(STRING, cache, "", "--cache")                                                        \
	FIELD(INT, chunk_bytes, "bytes", "largest message of a pipelined algorithm")               \
	FIELD(DOUBLE, cpu_time_us, "us", "CPU time in the call; with -C")                          \
	FIELD(INT, cycle, "", "of -N, from 1")                                                     \
	FIELD(STRING, evaluator, "",                                                               \
	      "evaluator of virtual time: sweep, loads, alike (docs/simulator.md)")                \
	FIELD(DOUBLE, faultless_us, "us", "virtual time: time_us without --fault")                 \
	FIELD(DOUBLE, predicted_low_us, "us",                                                      \
	      "a model: lower end of the interval of nine in ten measurements")                    \
	FIELD(DOUBLE, predicted_high_us, "us", "upper end")                                        \
	FIELD(STRING, predicted_from, "",                                                          \
	      "a model: published rows behind the interval, of machines that are alike")           \
	FIELD(DOUBLE, measured_us, "us", "--calibrate: the time of this case in its file")         \
	FIELD(DOUBLE, measured_min_us, "us", "--calibrate: the least of its samples")              \
	FIELD(DOUBLE, measured_p95_us, "us", "--calibrate: the 95th percentile of its samples")    \
	FIELD(DOUBLE, left_out_us, "us", "--calibrate: that time predicted without this size")     \
	FIELD(STRING, other_versions, "",                                                          \
	      "choices of other versions of the library, or their times")                          \
	FIELD(DOUBLE, end_unix_s, "s", "end of the measurement, since 1970 UTC")                   \
	FIELD(STRING, throttled, "",                                                               \
	      "GPUs: why the driver lowered the clock of one while the row was measured: power, "  \
	      "temperature or both; null: it did not, or does not say")                            \
	FIELD(STRING, registration, "",                                                            \
	      "GPUs: what -R came to: none, local, symmetric, or local or symmetric where NCCL "   \
	      "does not tell; null: no -R")                                                        \
	FIELD(STRING, matrix, "", "--matrix: name of the matrix; null without")

/* One case in one placement. */
struct bb_result_record {
	BB_RESULT_FIELDS(BB_MEMBER)
};

#define BB_ARRIVAL_FIELDS(FIELD)                                                                   \
	FIELD(STRING, collective, "", "as in the result before it, like the next fields")          \
	FIELD(STRING, algorithm_asked, "", "as in --algo")                                         \
	FIELD(STRING, algorithm, "", "the one that ran")                                           \
	BB_DATA_FIELDS(FIELD)                                                                      \
	FIELD(INT, size_bytes, "bytes", "as in the result")                                        \
	FIELD(BOOL, in_place, "", "input and output lie in one buffer")                            \
	FIELD(INT, cycle, "", "of -N, from 1")                                                     \
	FIELD(INT, rank, "", "rank that arrived")                                                  \
	FIELD(NUMBERS, late_us, "us", "per iteration: delay after the first rank of its group")    \
	FIELD(DOUBLE, clock_uncertainty_us, "us", "uncertainty of these times")                    \
	FIELD(STRING, matrix, "", "as in the result")

/* When one rank entered the iterations of a case in one placement; with -I. */
struct bb_arrival_record {
	BB_ARRIVAL_FIELDS(BB_MEMBER)
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

/* One kind of barrier: what its result says of it. */
struct bb_barrier_record {
	BB_BARRIER_FIELDS(BB_MEMBER)
};

#define BB_ACCURACY_FIELDS(FIELD)                                                                  \
	FIELD(STRING, collective, "", "what was done")                                             \
	FIELD(STRING, dtype, "", "element type", BB_COLUMN("type", -8, 0))                         \
	FIELD(STRING, algorithm_asked, "", "as in --algo")                                         \
	FIELD(STRING, algorithm, "", "whose additions: for auto the backend's choice",             \
	      BB_COLUMN("algorithm", -18, 0))                                                      \
	FIELD(INT, root, "", "rank; null: the collective has none")                                \
	FIELD(INT, nranks, "", "ranks whose numbers are summed", BB_COLUMN("ranks", 5, 0), BB_KEY) \
	FIELD(STRING, by, "", "run: a real call; steps: those of the schedule, on one core")       \
	FIELD(INT, size_bytes, "bytes", "as in a result")                                          \
	FIELD(INT, count, "elements", "count parameter of the call")                               \
	FIELD(DOUBLE, sum_rms, "", "RMS of the exact sums of standard normal numbers")             \
	FIELD(DOUBLE, rms_error, "fraction", "RMS error of the sums, over sum_rms",                \
	      BB_COLUMN("rms", 8, -3), BB_SHARE)                                                   \
	FIELD(DOUBLE, expected_rms_error, "fraction",                                              \
	      "the same by Higham's random walk over the roundings of the steps; null: unknown",   \
	      BB_COLUMN("formula", 8, -3), BB_SHARE)                                               \
	FIELD(DOUBLE, max_error, "fraction", "largest error, over sum_rms",                        \
	      BB_COLUMN("max", 8, -3), BB_SHARE)                                                   \
	FIELD(DOUBLE, rms_ulps, "ulp", "RMS error over the spacing of the type at sum_rms",        \
	      BB_COLUMN("rms", 6, -3))                                                             \
	FIELD(INT, overflows, "elements", "infinite sums, which the errors leave out")             \
	FIELD(STRING, ranks_agree, "",                                                             \
	      "yes: all ranks have the same bits; null: they have other elements")                 \
	FIELD(INT, wrong, "elements",                                                              \
	      "of a run, over all ranks, whose bits its steps do not give; where they are "        \
	      "unknown, whose errors exceed the bound of any order; null: steps, or -c 0",         \
	      BB_COLUMN("#wrong", 6, 0), .head_unit = "")

/* The rounding errors of a case. */
struct bb_accuracy_record {
	BB_ACCURACY_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_result, bb_record_arrival, bb_record_barrier,
	bb_record_accuracy;

/* True if A and B are the two placements of one row of a table. */
bool bb_result_is_row_of(const struct bb_result_record *a, const struct bb_result_record *b);
/* True if A and B have the same data: at most their sizes, algorithms and placements differ. */
bool bb_result_is_like(const struct bb_result_record *a, const struct bb_result_record *b);

/* The results of a run so far, of each case that of the last cycle. */
struct bb_results { /* zero-initialise */
	struct bb_result_record *list;
	size_t n, room;
	int64_t cycles;
};

/* Keep a copy of RESULT: what measured it may go, but not its constants, the plan and the options.
   Of its lists, the copy has group_busbw_GBps alone. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_results_keep(struct bb_results *results,
				  const struct bb_result_record *result);
void bb_results_free(struct bb_results *results);

/* The text of a collective in the layout of nccl-tests, and its JSON. */
extern const struct bb_sink_ops bb_sink_text, bb_sink_nccl_json;
