/*
 * data_parallel.h - the benchmark of strategies of data-parallel training: the same step by a root,
 * by parameter servers, by all-reduce and so on, side by side.
 *
 *   data_parallel.c           its options, records and descriptor, and the experiment
 *   strategy.c                the strategies as programs
 *   train.c                   --train: a small model is trained and verified
 */
#ifndef BB_TRAINING_KERNELS_DATA_PARALLEL_DATA_PARALLEL_H
#define BB_TRAINING_KERNELS_DATA_PARALLEL_DATA_PARALLEL_H

#include "training_kernels/data_parallel/strategy.h"
#include "training_kernels/kernel/kernel.h"

enum bb_dp_colocated { BB_COLOCATED_OFF, BB_COLOCATED_ON, BB_COLOCATED_BOTH };

#define BB_DP_OPTIONS(OPTION, COMMON)                                                              \
	OPTION(CHOICES, strategies, "strategy", 0, "all", "strategies of a step (see --list)",     \
	       .choice = strategy_name, .section = "Strategies", .usual = true)                    \
	OPTION(INTS, servers, "servers", 0, "1",                                                   \
	       "numbers of parameter servers, which are not workers", .min = 1,                    \
	       .max = BB_MAX_RANKS, .usual = true)                                                 \
	OPTION(CHOICE, colocated, "colocated", 0, "both",                                          \
	       "on: every worker of ps is also a server; both: in addition to --servers",          \
	       .choices = colocated_names)                                                         \
	OPTION(CHOICE, server_does, "server", 0, "update",                                         \
	       "update: servers update parameters; aggregate: servers sum gradients, workers "     \
	       "update",                                                                           \
	       .choices = server_names)                                                            \
	OPTION(INT, every, "every", 0, "4",                                                        \
	       "average: steps between two averages of the parameters", .min = 1, .max = 1 << 20,  \
	       .argument = "H")                                                                    \
	OPTION(INT, steps, "steps", 0, "10", "ps_async: consecutive steps of each worker",         \
	       .min = 1, .max = 1 << 20)                                                           \
	OPTION(FLAG, scale, "scale", 0, NULL, "speed-up of 1, 2, 4, … ranks as well",              \
	       .usual = true)                                                                      \
	OPTION(STRING, algo_text, "algo", 0, "ring",                                               \
	       "algorithm of the collectives; the formulas hold for ring", .argument = "NAME")     \
	BB_REPLICA_MODEL_OPTIONS(OPTION)                                                           \
	OPTION(INT, accumulate, "accumulate", 0, "1", "batches of a rank for one gradient",        \
	       .min = 1, .max = 1 << 20)                                                           \
	BB_REPLICA_TIME_OPTIONS(OPTION, "50ms", "")                                                \
	COMMON("iters", 'n', "5", "timed programs of each strategy, over all rounds", .min = 1,    \
	       .max = 1000000, .usual = true)                                                      \
	OPTION(INT, train, "train", 0, NULL,                                                       \
	       "train a small model for N steps and compare with one rank; time nothing",          \
	       .min = 1, .max = 1 << 20, .section = "Training", .usual = true,                     \
	       .excludes = {{"flops step-time scale", "--train times nothing"}},                   \
	       .on = {{BB_ON_DATA, "moves no data"},                                               \
		      {BB_ON_CPUS, "has memory that the CPU, which computes, cannot access"}})     \
	OPTION(INT, samples, "samples", 0, "61",                                                   \
	       "with --train: samples of a step, of all workers", .min = 1,                        \
	       .max = BB_TRAIN_MOST_SAMPLES, .needs = {{"train"}})                                 \
	OPTION(INT, sampler, "sampler", 0, NULL,                                                   \
	       "print how a DistributedSampler divides N samples; run nothing", .min = 1,          \
	       .max = 1 << 30,                                                                     \
	       .excludes = {{"csv json fault train", "--sampler prints text and runs nothing"}})   \
	OPTION(INT, epochs, "epochs", 0, "2", "number of epochs, with --sampler", .min = 1,        \
	       .max = 1000, .needs = {{"sampler"}})                                                \
	OPTION(FLAG, drop_last, "drop-last", 0, NULL,                                              \
	       "with --sampler: drop the tail instead of padding it", .needs = {{"sampler"}})

struct bb_dp_options {
	BB_OPTION_MEMBERS(BB_DP_OPTIONS)
};

#define BB_STALENESS_MOST 64 /* the last one counts all older gradients, too */

#define BB_DP_FIELDS(FIELD)                                                                        \
	FIELD(STRING, strategy, "", "strategy of the step", BB_COLUMN("strategy", -8, 0),          \
	      .place = 1)                                                                          \
	FIELD(INT, servers, "", "number of parameter servers; null: none", BB_COLUMN("k", 4, 0),   \
	      .place = 2, .cell = servers_cell)                                                    \
	FIELD(BOOL, colocated, "", "every worker is also a server")                                \
	FIELD(STRING, server_does, "",                                                             \
	      "update: of parameters; aggregate: of gradients; null: no server")                   \
	FIELD(INT, nranks, "", "ranks that take part, including servers",                          \
	      BB_COLUMN("ranks", 5, 0), .place = 3, BB_KEY)                                        \
	FIELD(INT, workers, "", "number of ranks that compute gradients")                          \
	FIELD(STRING, model, "", "model of the gradients")                                         \
	FIELD(INT, parameters, "", "parameters of the model")                                      \
	FIELD(INT, gradient_bytes, "bytes", "size of all gradients: M")                            \
	BB_FIT_FIELDS(FIELD)                                                                       \
	FIELD(STRING, dtype, "", "datatype of gradients and parameters")                           \
	FIELD(STRING, compute, "", "stand-in for computations: --compute; real: --train")          \
	FIELD(DOUBLE, batch_us, "us", "forward and backward pass of a batch, as requested")        \
	FIELD(INT, batches, "", "batches of a rank in a step")                                     \
	FIELD(INT, every, "", "steps between two averages of the parameters; null: none")          \
	FIELD(INT, program_steps, "", "steps that are timed together")                             \
	FIELD(STRING, algorithm, "", "algorithm of the collectives; null: none")                   \
	FIELD(DOUBLE, step_us, "us", "measured step, until the last rank ends: median",            \
	      BB_COLUMN("step", 10, 3), .place = 4, BB_MS)                                         \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(DOUBLE, p95_us, "us", "95th percentile")                                             \
	FIELD(INT, samples, "", "number of timed programs; with --train: samples of a step")       \
	FIELD(DOUBLE, exposed_us, "us",                                                            \
	      "step_us without its batches: time that communication adds",                         \
	      BB_COLUMN("exposed", 10, 3), .place = 5, BB_MS)                                      \
	FIELD(DOUBLE, predicted_us, "us",                                                          \
	      "step simulated over --link; null: no --link, or no such schedule",                  \
	      BB_COLUMN("simulated", 10, 3), .place = 6, BB_MS)                                    \
	FIELD(DOUBLE, error_percent, "%", "predicted_us / step_us - 1", BB_COLUMN("error", 6, 2),  \
	      .place = 7)                                                                          \
	FIELD(STRING, formula, "", "formula of the step by rings; letters: docs/training.md")      \
	FIELD(DOUBLE, updates_per_s, "1/s", "updates of the parameters by all workers together",   \
	      BB_COLUMN("updates", 8, 2), .place = 8)                                              \
	FIELD(INT, most_bytes, "bytes",                                                            \
	      "parameters, gradients and sums of a root or server; of any rank if all are "        \
	      "equal",                                                                             \
	      BB_COLUMN("root", 9, 2), .place = 11, BB_MIB)                                        \
	FIELD(INT, worker_bytes, "bytes", "the same of a worker; null: all ranks are equal",       \
	      BB_COLUMN("worker", 9, 2), .place = 12, BB_MIB)                                      \
	FIELD(INT, wire_bytes, "bytes",                                                            \
	      "maximum over ranks of bytes sent and bytes received in a step",                     \
	      BB_COLUMN("wire", 9, 2), .place = 13, BB_MIB)                                        \
	FIELD(DOUBLE, port_busy, "fraction",                                                       \
	      "share of a step in which the busiest port is in use; null: --link has no port")     \
	FIELD(DOUBLE, speedup, "",                                                                 \
	      "batches per second relative to a single rank without communication",                \
	      BB_COLUMN("speedup", 7, 3), .place = 9)                                              \
	FIELD(DOUBLE, efficiency, "fraction", "speedup / nranks", BB_COLUMN("effic.", 6, 1),       \
	      .place = 10, BB_SHARE)                                                               \
	FIELD(DOUBLE, staleness_mean, "updates",                                                   \
	      "mean updates between a worker's parameters and its gradient; null: always 0")       \
	FIELD(INT, staleness_most, "updates", "maximum; 63: 63 or more")                           \
	FIELD(NUMBERS, staleness, "", "number of gradients by staleness, from 0")                  \
	FIELD(INT, train_steps, "", "steps of --train")                                            \
	FIELD(DOUBLE, loss, "", "loss of the trained model over all samples",                      \
	      BB_COLUMN("loss", 9, 6), .place = 14)                                                \
	FIELD(DOUBLE, apart, "", "largest difference of a parameter from that of one rank",        \
	      BB_COLUMN("apart", 8, 6), .place = 15)                                               \
	BB_WRONG_FIELD(FIELD, 16,                                                                  \
		       "parameters, summed gradients and losses whose bits differ from those of "  \
		       "one rank "                                                                 \
		       "with all samples; null: not compared")                                     \
	BB_END_FIELD(FIELD)

/* One strategy with one setting. */
struct bb_dp_record {
	BB_DP_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_strategy;

/* The state of the benchmark. */
struct bb_dp {
	struct bb_dp_options options; /* first: the rows are read into it */
	struct bb_replica replica;    /* of DDP */
};

/* A strategy with its setting, and its results on this rank. */
struct bb_dp_variant {
	struct bb_variant variant;
	struct bb_strategy_setting setting;
	/* Server 0: number of gradients by staleness. */
	double staleness[BB_STALENESS_MOST];
	uint64_t update;   /* number of the current update */
	uint64_t *fetched; /* [rank]: the update before its latest answer */
	/* Of --train. */
	struct bb_trainee *trainee;
	double loss, apart;
};

extern const struct bb_benchmark bb_dp_benchmark;

/* ---- --train --------------------------------------------------------------------------------- */

/*
 * A small model that is trained: two layers with a ReLU between them, least squares. Sums
 * of its gradients are exact in double precision, so they do not depend on their order or on the
 * division of samples. Complete sums are divided by the number of samples, and updated parameters
 * are rounded to a grid.
 *
 * Why sums are exact: parameters are multiples of 1/64 from -2 to 2, inputs -1, 0 or 1, targets
 * multiples of 1/64. Outputs are then multiples of 2^-12 below 2^8, squares of errors multiples of
 * 2^-24 below 2^16, so that 4096 of them need 52 bits; all parts of gradients need fewer.
 */
#define BB_TRAIN_INPUTS 6
#define BB_TRAIN_HIDDEN 8
#define BB_TRAIN_PARAMETERS (BB_TRAIN_HIDDEN * (BB_TRAIN_INPUTS + 2) + 1)
/* The loss follows the parameters; its sum of squares follows their gradients. */
#define BB_TRAIN_ELEMENTS (BB_TRAIN_PARAMETERS + 1)
#define BB_TRAIN_MOST_SAMPLES 4096

/* Initial parameters, the same on all ranks, and a loss of 0: values[BB_TRAIN_ELEMENTS]. */
void bb_train_begin(double *values, uint64_t seed);

/* gradient[BB_TRAIN_ELEMENTS] += the gradient at VALUES of COUNT samples from FIRST, of the data of
   SEED. */
void bb_train_add(const double *values, uint64_t seed, size_t first, size_t count,
		  double *gradient);

/* A step of gradient descent for COUNT elements of VALUES from FIRST, by their gradient SUM over
   SAMPLES, where sum[0] belongs to element FIRST. The loss, if among them, is that before the step.
 */
void bb_train_update(double *values, size_t first, size_t count, const double *sum, double samples);

/* VALUE on the grid of parameters. */
double bb_train_round(double value);

/* Makes TRIAL train the model of V. */
BB_MUST bb_status bb_dp_train_begin(struct bb_dp_variant *v, struct bb_trial *trial);
/* Compares the trained model with that of one rank. Collective. */
BB_MUST bb_status bb_dp_train_compare(struct bb_dp_variant *v);

#endif
