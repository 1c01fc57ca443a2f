/*
 * moe.h - the benchmark of expert parallelism: tokens go to experts on other ranks and come back,
 * under loads that are more or less even.
 *
 *   moe.c          the benchmark: what it can do, how it begins
 *   options.c      its options
 *   drive.c        the experiment: layers and their parts timed, rows verified
 *   record.c       the fields of its records, and the table
 *
 * What it is about: load.h, program.h.
 */
#ifndef BB_TRAINING_KERNELS_MOE_MOE_H
#define BB_TRAINING_KERNELS_MOE_MOE_H

#include "harness/measure/engine.h"
#include "harness/measure/step_options.h"
#include "training_kernels/moe/program.h"

/* A published model's layer of experts. */
struct bb_moe_preset {
	const char *name, *source;
	int64_t experts, top_k, hidden;
};

#define BB_MOE_OPTIONS(OPTION, COMMON)                                                             \
	OPTION(CHOICE, preset, "preset", 0, NULL,                                                  \
	       "experts, top-k and hidden of a published model", .argument = "NAME",               \
	       .choice = preset_name, .section = "Experts")                                        \
	OPTION(INT, experts, "experts", 0, NULL,                                                   \
	       "number of experts of the layer, as many on each rank (default: two on each)",      \
	       .min = 1, .max = 65536)                                                             \
	OPTION(INT, top_k, "top-k", 0, "2", "number of experts that a token goes through",         \
	       .min = 1, .max = 1024)                                                              \
	OPTION(INT, hidden, "hidden", 0, "1024", "elements of a token", .min = 1, .max = 1 << 20)  \
	OPTION(INT, tokens, "tokens", 0, "512", "tokens of each rank", .min = 1, .max = 1 << 24)   \
	OPTION(DTYPE, dtype, "datatype", 'd', "bfloat16", "datatype of tokens", .choices = dtypes) \
	OPTION(NUMBERS, skews, "skew", 0, "0,0.5,1",                                               \
	       "exponents of Zipf's law that the experts' loads follow, one after the other; 0: "  \
	       "even loads",                                                                       \
	       .min = 0, .max = 16, .section = "Load")                                             \
	OPTION(NUMBER, capacity, "capacity", 0, "0",                                               \
	       "most rows of an expert, in even shares of a rank's rows, as in 1.25; further "     \
	       "rows are dropped; 0: no limit",                                                    \
	       .argument = "FACTOR", .min = 0, .max = 1000000)                                     \
	OPTION(DURATION, expert_ns, "expert-time", 0, "0",                                         \
	       "compute time of a rank's experts under an even load", .min = 0, .max = BB_YEAR_NS, \
	       .section = "Time")                                                                  \
	OPTION(CHOICE, stand_in, "compute", 0, "sleep",                                            \
	       "how computations are stood in for; spin: a busy core, or part of the GPU",         \
	       .choices = stand_ins)                                                               \
	COMMON("iters", 'n', "10", "timed steps of each kind", .min = 1, .max = 1000000)

struct bb_moe_options {
	BB_OPTION_MEMBERS(BB_MOE_OPTIONS)
};

#define BB_MOE_FIELDS(FIELD)                                                                       \
	FIELD(INT, nranks, "", "that experts are divided among")                                   \
	FIELD(INT, experts, "", "of the layer")                                                    \
	FIELD(INT, top_k, "", "experts that a token goes through")                                 \
	FIELD(INT, hidden, "", "numbers of a token")                                               \
	FIELD(INT, tokens, "", "of each rank")                                                     \
	FIELD(STRING, dtype, "", "of tokens")                                                      \
	FIELD(DOUBLE, skew, "", "exponent of Zipf's law that the experts' shares follow",          \
	      BB_COLUMN("skew", 5, 2))                                                             \
	FIELD(DOUBLE, capacity, "", "of an expert, in even shares; 0: without limit")              \
	FIELD(INT, dropped_rows, "", "of each rank")                                               \
	FIELD(DOUBLE, dropped_share, "fraction", "of all rows", BB_COLUMN("dropped", 7, 2),        \
	      BB_SHARE)                                                                            \
	FIELD(INT, busiest, "", "the rank that most rows come to")                                 \
	FIELD(DOUBLE, imbalance, "", "its rows, in means of all ranks",                            \
	      BB_COLUMN("busiest", 7, 3), BB_TIMES)                                                \
	FIELD(INT, sent_bytes, "bytes", "that a rank's rows are, before any are dropped")          \
	FIELD(INT, busiest_bytes, "bytes",                                                         \
	      "that come to the busiest rank from others in a dispatch",                           \
	      BB_COLUMN("receives", 9, 3), BB_MB)                                                  \
	FIELD(INT, mean_bytes, "bytes", "that come to a rank, in the mean")                        \
	FIELD(DOUBLE, counts_us, "us",                                                             \
	      "exchange of counts alone: median, until the last rank is done",                     \
	      BB_COLUMN("counts", 10, 2))                                                          \
	FIELD(DOUBLE, dispatch_us, "us", "dispatch alone, likewise", BB_COLUMN("dispatch", 10, 2)) \
	FIELD(DOUBLE, combine_us, "us", "combine alone, likewise", BB_COLUMN("combine", 10, 2))    \
	FIELD(DOUBLE, layer_us, "us", "counts, dispatch, experts and combine, likewise",           \
	      BB_COLUMN("layer", 10, 2))                                                           \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of that median")                      \
	FIELD(DOUBLE, high_us, "us", "its upper end")                                              \
	FIELD(INT, samples, "", "layers that were timed")                                          \
	FIELD(STRING, compute, "",                                                                 \
	      "what experts stood for: --compute; null: they compute nothing")                     \
	FIELD(DOUBLE, dispatch_GBps, "GB/s", "busiest_bytes / dispatch_us",                        \
	      BB_COLUMN("dispatch", 9, 3))                                                         \
	FIELD(DOUBLE, dispatch_mean_GBps, "GB/s", "mean_bytes / dispatch_us",                      \
	      BB_COLUMN("mean", 9, 3))                                                             \
	FIELD(DOUBLE, combine_GBps, "GB/s", "busiest_bytes / combine_us",                          \
	      BB_COLUMN("combine", 9, 3))                                                          \
	FIELD(DOUBLE, times_even, "",                                                              \
	      "dispatch_us, in that of a skew of 0; null: that was not asked for",                 \
	      BB_COLUMN("even", 7, 3), BB_TIMES)                                                   \
	FIELD(DOUBLE, expected_times_even, "", "busiest_bytes, likewise",                          \
	      BB_COLUMN("bytes", 7, 3), BB_TIMES)                                                  \
	FIELD(INT, wrong, "elements",                                                              \
	      "of rows and counts, at experts and back; null: not looked at",                      \
	      BB_COLUMN("#wrong", 6, 0), .head_unit = "")                                          \
	FIELD(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC")

/* One skew. */
struct bb_moe_record {
	BB_MOE_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_moe;
bb_sink_open bb_moe_text_open;

/* The state of the benchmark. */
struct bb_moe {
	struct bb_moe_options asked; /* first: the rows are read into it */
	struct bb_moe_load *loads;   /* [skew] of the world */
};

extern const struct bb_moe_preset bb_moe_presets[]; /* ends with name NULL */
extern const struct bb_option bb_moe_rows[];
extern const struct bb_benchmark bb_moe_benchmark;

/* The benchmark's check (see benchmark.h). */
BB_MUST bb_status bb_moe_check(const struct bb_benchmark *benchmark, void *own,
			       struct bb_options *options, const struct bb_environment *environment,
			       struct bb_error *error);

extern const struct bb_experiment bb_moe_experiment;

#endif
