/*
 * data_parallel.h - the benchmark of ways of data-parallel training: the same step done by a root,
 * by parameter servers, by all-reduce and so on, side by side.
 *
 *   ways/                     the ways: programs, and what they cost by formula
 *   data_parallel.c           the benchmark
 *   options.c                 its options
 *   sweep.c                   the experiment: which ways with which settings are run
 *   train.c                   --train: a small model, trained for real
 *   rows.c                    what comes of it; record.c its fields and the table
 */
#ifndef BB_TRAINING_KERNELS_DATA_PARALLEL_DATA_PARALLEL_H
#define BB_TRAINING_KERNELS_DATA_PARALLEL_DATA_PARALLEL_H

#include "harness/measure/engine.h"
#include "harness/measure/step_options.h"
#include "models/model.h"
#include "training_kernels/strategies/strategy.h"

#define BB_DP_MOST_STRATEGIES 8

enum bb_dp_colocated { BB_COLOCATED_OFF, BB_COLOCATED_ON, BB_COLOCATED_BOTH };

#define BB_DP_OPTIONS(OPTION, COMMON)                                                              \
	OPTION(CHOICES, way_choices, "way", 0, "all", "ways to do the step (see --list)",          \
	       .choice = way_name, .section = "Ways")                                              \
	OPTION(INTS, servers, "servers", 0, "1",                                                   \
	       "numbers of parameter servers that are ranks of their own, one after the other",    \
	       .min = 1, .max = BB_MAX_RANKS)                                                      \
	OPTION(CHOICE, colocated, "colocated", 0, "both",                                          \
	       "on: every worker of ps is a server too; both: beside --servers",                   \
	       .choices = colocated_names)                                                         \
	OPTION(CHOICE, server_does, "server", 0, "update",                                         \
	       "work of servers: update parameters, or sum gradients, by which workers update",    \
	       .choices = server_names)                                                            \
	OPTION(INT, every, "every", 0, "4",                                                        \
	       "average: steps from one averaging of parameters to the next", .min = 1,            \
	       .max = 1 << 20, .argument = "H")                                                    \
	OPTION(INT, steps, "steps", 0, "10", "ps_async: steps of each worker in a row", .min = 1,  \
	       .max = 1 << 20)                                                                     \
	OPTION(FLAG, scale, "scale", 0, NULL, "speed-up of 1, 2, 4, … ranks, too")                 \
	OPTION(STRING, algo_text, "algo", 0, "ring",                                               \
	       "algorithm of the collectives; the formulas are those of ring", .argument = "NAME") \
	BB_MODEL_OPTION(OPTION, "resnet50", "whose gradients: ", .section = "Model")               \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(INT, batch, "batch", 0, "1",                                                        \
	       "sequences or images of each rank, whose FLOPs --flops counts", .min = 1,           \
	       .max = INT64_C(1) << 30)                                                            \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the gradients",                \
	       .choices = bb_ddp_dtypes)                                                           \
	OPTION(INT, accumulate, "accumulate", 0, "1",                                              \
	       "batches that a rank computes before it lets go of their gradient", .min = 1,       \
	       .max = 1 << 20)                                                                     \
	BB_FLOPS_OPTION(OPTION, ": how long its batch takes", .section = "Time")                   \
	BB_STEP_TIME_OPTION(OPTION)                                                                \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	COMMON("iters", 'n', "5", "timed programs of each way, over all rounds", .min = 1,         \
	       .max = 1000000)                                                                     \
	OPTION(INT, train, "train", 0, NULL,                                                       \
	       "time nothing; train a small model for N steps and compare with one rank",          \
	       .min = 1, .max = 1 << 20, .section = "For real")                                    \
	OPTION(INT, samples, "samples", 0, "61",                                                   \
	       "with --train: samples of a step, of all workers together", .min = 1,               \
	       .max = BB_TRAIN_MOST_SAMPLES)                                                       \
	OPTION(INT, sampler, "sampler", 0, NULL,                                                   \
	       "print how a DistributedSampler shares out N samples; run nothing", .min = 1,       \
	       .max = 1 << 30)                                                                     \
	OPTION(INT, epochs, "epochs", 0, "2", "number of epochs, with --sampler", .min = 1,        \
	       .max = 1000)                                                                        \
	OPTION(FLAG, drop_last, "drop-last", 0, NULL,                                              \
	       "with --sampler: drop the tail instead of padding it")

struct bb_dp_options {
	BB_OPTION_MEMBERS(BB_DP_OPTIONS)

	/* Worked out from them. */
	const struct bb_strategy *strategies[BB_DP_MOST_STRATEGIES];
	size_t nstrategies;
};

#define BB_STALENESS_MOST 64 /* the last one counts all from there on */

#define BB_DP_FIELDS(FIELD)                                                                        \
	FIELD(STRING, way, "", "of doing the step", BB_COLUMN("way", -8, 0), .place = 1)           \
	FIELD(INT, servers, "", "parameter servers; null: the way has none", BB_COLUMN("k", 4, 0), \
	      .place = 2, .cell = servers_cell)                                                    \
	FIELD(BOOL, colocated, "", "every worker is a server too")                                 \
	FIELD(STRING, server_does, "",                                                             \
	      "update parameters, or aggregate gradients; null: no server")                        \
	FIELD(INT, nranks, "", "that take part, servers among them", BB_COLUMN("ranks", 5, 0),     \
	      .place = 3)                                                                          \
	FIELD(INT, workers, "", "ranks that compute gradients")                                    \
	FIELD(STRING, model, "", "whose gradients")                                                \
	FIELD(INT, parameters, "", "of the model")                                                 \
	FIELD(INT, gradient_bytes, "bytes", "of all gradients: M")                                 \
	FIELD(STRING, dtype, "", "of gradients and parameters")                                    \
	FIELD(STRING, compute, "", "what computations stand for: --compute; real: --train")        \
	FIELD(DOUBLE, batch_us, "us", "forward and backward pass of a batch, as asked for")        \
	FIELD(INT, batches, "", "of a rank in a step")                                             \
	FIELD(INT, every, "", "steps from one averaging to the next; null: the way has none")      \
	FIELD(INT, program_steps, "", "steps that are played and timed in one")                    \
	FIELD(STRING, algorithm, "", "of the collectives; null: there are none")                   \
	FIELD(DOUBLE, step_us, "us", "a step until the last rank has done it: median",             \
	      BB_COLUMN("step", 10, 3), .place = 4, BB_MS)                                         \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of that median")                      \
	FIELD(DOUBLE, high_us, "us", "its upper end")                                              \
	FIELD(DOUBLE, p95_us, "us", "95th percentile")                                             \
	FIELD(INT, samples, "", "playings that were timed; of --train: samples of a step")         \
	FIELD(DOUBLE, exposed_us, "us", "step_us less the batches: what communication adds",       \
	      BB_COLUMN("exposed", 10, 3), .place = 5, BB_MS)                                      \
	FIELD(DOUBLE, predicted_us, "us", "a step by the formula; null: no --link, or not a ring", \
	      BB_COLUMN("formula", 10, 3), .place = 6, BB_MS)                                      \
	FIELD(DOUBLE, error_percent, "%", "of the prediction: (predicted - measured) / measured",  \
	      BB_COLUMN("error", 6, 2), .place = 7)                                                \
	FIELD(STRING, formula, "", "of the prediction; docs/training.md has the letters")          \
	FIELD(DOUBLE, updates_per_s, "1/s", "updates of the parameters by all workers together",   \
	      BB_COLUMN("updates", 8, 2), .place = 8)                                              \
	FIELD(INT, most_bytes, "bytes",                                                            \
	      "parameters, gradients and sums that a root or server holds; where all ranks are "   \
	      "alike, each",                                                                       \
	      BB_COLUMN("root", 9, 2), .place = 11, BB_MIB)                                        \
	FIELD(INT, worker_bytes, "bytes", "those that a worker holds; null: all are alike",        \
	      BB_COLUMN("worker", 9, 2), .place = 12, BB_MIB)                                      \
	FIELD(INT, wire_bytes, "bytes",                                                            \
	      "that the busiest rank sends or receives in a step, whichever are more",             \
	      BB_COLUMN("wire", 9, 2), .place = 13, BB_MIB)                                        \
	FIELD(DOUBLE, port_busy, "fraction",                                                       \
	      "of a step in which the busiest port is in use; null: --link has no port")           \
	FIELD(DOUBLE, speedup, "",                                                                 \
	      "batches per second over those of one rank that does nothing else",                  \
	      BB_COLUMN("speedup", 7, 3), .place = 9)                                              \
	FIELD(DOUBLE, efficiency, "fraction", "speedup / nranks", BB_COLUMN("effic.", 6, 1),       \
	      .place = 10, BB_SHARE)                                                               \
	FIELD(DOUBLE, staleness_mean, "updates",                                                   \
	      "between a worker's parameters and its gradient; null: none can come between")       \
	FIELD(INT, staleness_most, "updates", "the most; 63: that, or more")                       \
	FIELD(NUMBERS, staleness, "", "gradients by how many updates old they were, from 0 on")    \
	FIELD(INT, train_steps, "", "--train")                                                     \
	FIELD(DOUBLE, loss, "", "of the trained model over all samples", BB_COLUMN("loss", 9, 6),  \
	      .place = 14)                                                                         \
	FIELD(DOUBLE, apart, "", "the most that a parameter differs from those of one rank",       \
	      BB_COLUMN("apart", 8, 6), .place = 15)                                               \
	FIELD(INT, wrong, "elements",                                                              \
	      "parameters, summed gradients and losses whose bits differ from those of one rank "  \
	      "with all samples; null: not compared",                                              \
	      BB_COLUMN("#wrong", 6, 0), .place = 16, .head_unit = "")                             \
	FIELD(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC")

/* One way with one setting. */
struct bb_dp_record {
	BB_DP_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_way;

/* The state of the benchmark. */
struct bb_dp {
	struct bb_dp_options asked; /* first: the rows are read into it */
	struct bb_model model;
};

/* A way with a setting, and what came of it on this rank. */
struct bb_dp_cell {
	const struct bb_strategy *strategy;
	struct bb_strategy_setting setting;
	struct bb_strategy_program program;
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

/* TRIAL trains by the cell instead of only taking its time. */
BB_MUST bb_status bb_dp_train_add(struct bb_dp_cell *cell, struct bb_trial *trial);
/* Once it has: compare with one rank that does it all. Collective. */
BB_MUST bb_status bb_dp_train_compare(struct bb_dp_cell *cell);

/* Rank 0, when all is done: rows and what to say of them. */
BB_MUST bb_status bb_dp_deliver(struct bb_engine *engine);

#endif
