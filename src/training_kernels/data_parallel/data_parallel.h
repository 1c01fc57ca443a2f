/*
 * data_parallel.h - the benchmark of ways of data-parallel training: the same step done by a root,
 * by parameter servers, by all-reduce and so on, side by side.
 *
 *   ways/                     the ways: programs, and what they cost by formula
 *   data_parallel.c           the benchmark
 *   options.c                 its options
 *   cells.c                   which ways with which settings are run
 *   drive.c                   the experiment
 *   train.c                   --train: a small model, trained for real
 *   rows.c                    what comes of it; record.c its fields and the table
 */
#ifndef BB_TRAINING_KERNELS_DATA_PARALLEL_DATA_PARALLEL_H
#define BB_TRAINING_KERNELS_DATA_PARALLEL_DATA_PARALLEL_H

#include "harness/measure/engine.h"
#include "models/model.h"
#include "training_kernels/ways/way.h"

#define BB_DP_MOST_WAYS 8
#define BB_DP_MOST_SERVERS 16

enum bb_dp_colocated { BB_COLOCATED_OFF, BB_COLOCATED_ON, BB_COLOCATED_BOTH };

struct bb_dp_options {
	/* As given. */
	const char *model_text, *dtype_text, *flops_text, *algo_text, *ways_text, *servers_text;
	int64_t seq; /* 0: the model's */
	int64_t batch, accumulate, every, steps, train, samples, sampler, epochs, iters;
	uint64_t step_ns; /* forward and backward of a batch; 0: not given */
	int stand_in;     /* enum bb_stand_in */
	int colocated;    /* enum bb_dp_colocated */
	int server_does;
	bool iters_given, scale, drop_last, samples_given, epochs_given;
	bool batch_given, step_given, train_given, sampler_given;

	/* Worked out from them. */
	enum bb_dtype dtype;
	double flops; /* of a rank, per second; 0: not given */
	const struct bb_dp_way *ways[BB_DP_MOST_WAYS];
	size_t nways;
	int servers[BB_DP_MOST_SERVERS];
	size_t nservers;
};

#define BB_STALENESS_MOST 64 /* the last one counts all from there on */

/* One way with one setting. */
struct bb_dp_record {
	const char *way;
	int64_t servers; /* absent: it has none */
	bool colocated;
	const char *server_does; /* NULL: there is no server */
	int64_t nranks, workers;
	const char *model;
	int64_t parameters, gradient_bytes;
	const char *dtype;
	const char *compute;
	double batch_us;
	int64_t batches, every, program_steps;
	const char *algorithm;
	double step_us, low_us, high_us, p95_us;
	int64_t samples;
	double exposed_us, predicted_us, error_percent;
	const char *formula;
	double updates_per_s;
	int64_t most_bytes, worker_bytes, wire_bytes;
	double port_busy;
	double speedup, efficiency;
	double staleness_mean;
	int64_t staleness_most;
	struct bb_numbers staleness;
	int64_t train_steps;
	double loss, apart;
	int64_t wrong;
	double end_unix_s;
};

extern const struct bb_record_kind bb_record_way;

/* The state of the benchmark. */
struct bb_dp {
	struct bb_dp_options asked; /* first: the rows are read into it */
	struct bb_model model;
};

/* A way with a setting, and what came of it on this rank. */
struct bb_dp_cell {
	const struct bb_dp_way *way;
	struct bb_way_setting setting;
	struct bb_way_program program;
	struct bb_dp_sweep *sweep;
	/* What server 0 saw: gradients by how many updates old their parameters were. */
	double staleness[BB_STALENESS_MOST];
	uint64_t update;   /* of the playing under way */
	uint64_t *fetched; /* [rank]: the update after which it was answered */
	/* Of --train. */
	struct bb_pupil *pupil; /* owned */
	int64_t wrong;          /* BB_ABSENT: not compared */
	double loss, apart;
};

/* A driver's state. */
struct bb_dp_sweep {
	struct bb_engine engine; /* a trial for each cell */
	struct bb_dp *dp;
	struct bb_dp_cell *cells; /* room for ncells */
	size_t ncells;
	struct bb_link_model links;
	double batch_s;
	/* Where contents mean nothing: all that is sent, and collectives; all that is received.
	   NULL where time is virtual. */
	char *out, *in;
};

extern const struct bb_option bb_dp_rows[];
extern const struct bb_benchmark bb_dp_benchmark;
extern const struct bb_experiment bb_dp_experiment;
bb_sink_open bb_dp_text_open;

BB_MUST bb_status bb_dp_check(const struct bb_benchmark *benchmark, void *own,
			      struct bb_options *options, const struct bb_environment *environment,
			      struct bb_error *error);

/* All cells, with their programs, trials and what they send. Free them whatever comes back. */
BB_MUST bb_status bb_dp_cells_make(struct bb_dp_sweep *sweep);
void bb_dp_cells_free(struct bb_dp_sweep *sweep);

/* TRIAL trains by the cell instead of only taking its time. */
BB_MUST bb_status bb_dp_train_add(struct bb_dp_cell *cell, struct bb_trial *trial);
/* Once it has: compare with one rank that does it all. Collective. */
BB_MUST bb_status bb_dp_train_compare(struct bb_dp_cell *cell);

/* Rank 0, when all is done: rows and what to say of them. */
BB_MUST bb_status bb_dp_deliver(struct bb_engine *engine);

#endif
