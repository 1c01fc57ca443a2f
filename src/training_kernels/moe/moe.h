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
#include "training_kernels/moe/program.h"

#define BB_MOE_MOST_SKEWS 16

/* A published model's layer of experts. */
struct bb_moe_preset {
	const char *name, *source;
	int64_t experts, top_k, hidden;
};

struct bb_moe_options {
	/* As given. */
	const char *preset_text, *dtype_text, *skew_text, *capacity_text;
	int64_t experts; /* 0: two for each rank */
	int64_t top_k, hidden, tokens, iters;
	bool iters_given;
	uint64_t expert_ns; /* 0: experts compute nothing */
	int stand_in;       /* enum bb_stand_in */
	bool experts_given, top_k_given, hidden_given;

	/* Worked out from them. */
	enum bb_dtype dtype;
	double skews[BB_MOE_MOST_SKEWS];
	size_t nskews;
	double capacity; /* 0: nothing is dropped */
};

/* One skew. */
struct bb_moe_record {
	const char *dtype, *compute;
	int64_t nranks, experts, top_k, hidden, tokens;
	double skew, capacity;
	int64_t dropped_rows;
	double dropped_share, imbalance;
	int64_t busiest, busiest_bytes, mean_bytes, sent_bytes;
	double counts_us, dispatch_us, combine_us, layer_us, low_us, high_us;
	double dispatch_GBps, dispatch_mean_GBps, combine_GBps;
	double times_even, expected_times_even;
	int64_t samples, wrong;
	double end_unix_s;
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
