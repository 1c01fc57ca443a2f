/*
 * moe.h - the benchmark of expert parallelism: tokens go to experts on other ranks and back, under
 * even and uneven loads.
 *
 *   exchange.c   the experts of each token, loads of ranks, and the exchange of rows with experts
 *   moe.c        a layer as a program; options, record, experiment
 */
#pragma once

#include "training_kernels/kernel/kernel.h"
#include "training_kernels/moe/exchange.h"

#define BB_MOE_OPTIONS(OPTION, COMMON)                                                             \
	OPTION(CHOICE, preset, "preset", 0, NULL,                                                  \
	       "experts, top-k and hidden of a published model", .argument = "NAME",               \
	       .choice = moe_preset_name, .section = "Experts", .usual = true)                     \
	OPTION(INT, experts, "experts", 0, NULL,                                                   \
	       "number of experts of the layer (default: 2 per rank)", .min = 1, .max = 65536,     \
	       .usual = true)                                                                      \
	OPTION(INT, top_k, "top-k", 0, "2", "number of experts per token", .min = 1, .max = 1024)  \
	OPTION(INT, hidden, "hidden", 0, "1024", "elements of a token", .min = 1, .max = 1 << 20)  \
	OPTION(INT, tokens, "tokens", 0, "512", "tokens of each rank", .min = 1, .max = 1 << 24)   \
	OPTION(DTYPE, dtype, "datatype", 'd', "bfloat16", "datatype of tokens", .choices = dtypes) \
	OPTION(NUMBERS, skews, "skew", 0, "0,0.5,1",                                               \
	       "exponents of Zipf's law for the loads of experts; 0: even loads", .min = 0,        \
	       .max = 16, .section = "Load", .usual = true)                                        \
	OPTION(NUMBER, capacity, "capacity", 0, "0",                                               \
	       "most rows of an expert relative to an even share, as in 1.25; further "            \
	       "rows are dropped; 0: no limit",                                                    \
	       .argument = "FACTOR", .min = 0, .max = 1000000, .usual = true)                      \
	OPTION(DURATION, expert_ns, "expert-time", 0, "0",                                         \
	       "compute time of the experts of a rank under an even load", .min = 0,               \
	       .max = BB_YEAR_NS, .section = "Time")                                               \
	OPTION(CHOICE, stand_in, "compute", 0, "sleep",                                            \
	       "stand-in for computations; spin: a busy core, or part of the GPU",                 \
	       .choices = stand_ins)                                                               \
	COMMON("iters", 'n', "10", "timed steps of each kind", .min = 1, .max = 1000000,           \
	       .usual = true)

struct bb_moe_options {
	BB_OPTION_MEMBERS(BB_MOE_OPTIONS)
};

#define BB_MOE_FIELDS(FIELD)                                                                       \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, experts, "", "experts of the layer")                                            \
	FIELD(INT, top_k, "", "experts per token")                                                 \
	FIELD(INT, hidden, "", "elements of a token")                                              \
	FIELD(INT, tokens, "", "tokens of each rank")                                              \
	FIELD(STRING, dtype, "", "datatype of tokens")                                             \
	FIELD(DOUBLE, skew, "", "exponent of Zipf's law for the loads of experts",                 \
	      BB_COLUMN("skew", 5, 2))                                                             \
	FIELD(DOUBLE, capacity, "",                                                                \
	      "most rows of an expert relative to an even share; 0: no limit")                     \
	FIELD(INT, dropped_rows, "", "dropped rows of each rank")                                  \
	FIELD(DOUBLE, dropped_share, "fraction", "dropped share of all rows",                      \
	      BB_COLUMN("dropped", 7, 2), BB_SHARE)                                                \
	FIELD(INT, busiest, "", "rank that receives most rows")                                    \
	FIELD(DOUBLE, imbalance, "", "rows of the busiest rank / mean rows of a rank",             \
	      BB_COLUMN("busiest", 7, 3), BB_TIMES)                                                \
	FIELD(INT, sent_bytes, "bytes", "size of the rows of a rank, before any are dropped")      \
	FIELD(INT, busiest_bytes, "bytes", "bytes that the busiest rank receives in a dispatch",   \
	      BB_COLUMN("receives", 9, 3), BB_MB)                                                  \
	FIELD(INT, mean_bytes, "bytes", "bytes that a rank receives in a dispatch: mean")          \
	FIELD(DOUBLE, counts_us, "us",                                                             \
	      "exchange of counts alone, until the last rank ends: median",                        \
	      BB_COLUMN("counts", 10, 2))                                                          \
	FIELD(DOUBLE, dispatch_us, "us", "dispatch alone: median", BB_COLUMN("dispatch", 10, 2))   \
	FIELD(DOUBLE, combine_us, "us", "combine alone: median", BB_COLUMN("combine", 10, 2))      \
	FIELD(DOUBLE, layer_us, "us", "counts, dispatch, experts and combine together: median",    \
	      BB_COLUMN("layer", 10, 2))                                                           \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(INT, samples, "", "number of timed layers")                                          \
	FIELD(STRING, compute, "", "stand-in for experts: --compute; null: they compute nothing")  \
	FIELD(DOUBLE, dispatch_GBps, "GB/s", "busiest_bytes / dispatch_us",                        \
	      BB_COLUMN("dispatch", 9, 3))                                                         \
	FIELD(DOUBLE, dispatch_mean_GBps, "GB/s", "mean_bytes / dispatch_us",                      \
	      BB_COLUMN("mean", 9, 3))                                                             \
	FIELD(DOUBLE, combine_GBps, "GB/s", "busiest_bytes / combine_us",                          \
	      BB_COLUMN("combine", 9, 3))                                                          \
	FIELD(DOUBLE, times_even, "",                                                              \
	      "dispatch_us / dispatch_us without skew; null: not measured",                        \
	      BB_COLUMN("even", 7, 3), BB_TIMES)                                                   \
	FIELD(DOUBLE, expected_times_even, "", "busiest_bytes / busiest_bytes without skew",       \
	      BB_COLUMN("bytes", 7, 3), BB_TIMES)                                                  \
	BB_WRONG_FIELD(FIELD, 0,                                                                   \
		       "wrong elements of rows and counts, at experts and back; null: not "        \
		       "verified")                                                                 \
	BB_END_FIELD(FIELD)

/* The layer under one skew. */
struct bb_moe_record {
	BB_MOE_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_moe;

/* The state of the benchmark. */
struct bb_moe {
	struct bb_moe_options options; /* first: the rows are read into it */
	struct bb_moe_load *loads;     /* [skew] of the world */
};

extern const struct bb_benchmark bb_moe_benchmark;

/*
 * A layer as a program (programs/program.h): ranks exchange the numbers of rows (an all-to-all of
 * one number for each expert), send the rows (dispatch), the experts compute, and the rows return
 * (combine).
 */

/* The work of an operation; the parts of a program are several of them. */
enum bb_moe_work {
	BB_MOE_COUNTS = 1,
	BB_MOE_DISPATCH = 2,
	BB_MOE_EXPERTS = 4,
	BB_MOE_COMBINE = 8,
	BB_MOE_LAYER = 15
};

/* Constant while its program is used. */
struct bb_moe_step {
	struct bb_moe_exchange exchange; /* its queues are the program's own */
	double expert_s;                 /* seconds of the experts of a rank with the mean load */
	unsigned parts;                  /* of enum bb_moe_work */
};

/* TAPED performs STEP, which outlives it. The item of a message is its peer. BB_EINTERNAL without
   memory. Free TAPED whatever comes back. */
BB_MUST bb_status bb_moe_program(struct bb_taped *taped, const struct bb_moe_step *step,
				 struct bb_error *error);
