/*
 * data_parallel.h - the benchmark of strategies of data-parallel training: the same step by a root,
 * by parameter servers, by all-reduce and so on, side by side.
 *
 *   data_parallel.c           its options, records and descriptor, and the experiment
 *   strategy.c                the strategies as programs
 *   train.c                   --train: a small model is trained and verified
 *   learner.c                 --coded: it learns by what ranks exchange in codes
 *   sampler.c                 --sampler: the samples of each rank
 */
#pragma once

#include "models/memory/onebit.h"
#include "training_kernels/kernel/kernel.h"

/* ---- strategies ------------------------------------------------------------------------------ */

/*
 * A step of each strategy as a program, with a formula of its time. In the formulas C is the time
 * of the batches of a rank, M the bytes of all gradients (and of all parameters), B the rate of
 * links and L their latency.
 */

/* The work of an operation, and its item. */
enum bb_strategy_work {
	BB_STRATEGY_COMPUTE, /* forward and backward pass of batch ITEM of the step */
	BB_STRATEGY_ADD,     /* the gradient of worker ITEM, or a part of it, to the sum */
	BB_STRATEGY_UPDATE,  /* of the parameters, or of part ITEM, by the sum */
	BB_STRATEGY_PUSH,    /* message: part ITEM of a gradient to the rank that sums it */
	BB_STRATEGY_PULL,    /* message: part ITEM of the result to a worker */
	BB_STRATEGY_REDUCE,  /* collective: sum of gradients */
	BB_STRATEGY_GATHER,  /* collective: parameters from parts */
	BB_STRATEGY_AVERAGE, /* collective: average of parameters */
	/* Of --coded (learner.h), whose sums are exact: what is exchanged in step ITEM; coding, and
	   collective of codes, by items of coded.h; and the end of the step. */
	BB_STRATEGY_PREPARE,
	BB_STRATEGY_CODE,
	BB_STRATEGY_EXCHANGE,
	BB_STRATEGY_APPLY
};

/* A strategy with its setting: what a step is. */
struct bb_strategy_setting {
	const struct bb_strategy *strategy;
	int nranks;
	int active; /* ranks 0 to active-1 take part, the others are idle */
	size_t elements;
	enum bb_dtype dtype;
	double compute_s, flops; /* of a batch */
	size_t batches;          /* of a rank for one gradient */
	size_t every;            /* average: steps from one averaging to the next */
	size_t steps;            /* ps_async: of each worker, in one program */
	int servers;    /* ps and ps_async: number of servers, each with a part of the parameters */
	bool colocated; /* all ranks are servers and workers; else servers are not workers */
	bool updates;   /* servers update parameters; else workers do, by the sum */
	/* Sums and updates are computed, by operations of their own that take no time. */
	bool real;
};

enum bb_strategy_kind {
	BB_BY_ROOT,
	BB_BY_SERVERS,
	BB_BY_ANY_SERVER,
	BB_BY_SUM,
	BB_BY_PARTS,
	BB_BY_AVERAGE,
	BB_BY_CODES
};

struct bb_strategy {
	enum bb_strategy_kind kind;
	const char *name, *brief;
	const char *formula; /* time of a step, in the letters above */
	const char *shared;  /* the formula with ports; NULL: the same */
	bool synchronous;    /* all gradients of a step belong to the same parameters */
	bool servers;        /* it has servers */
	bool reduces;        /* it communicates by collectives */
	/* Appends the operations of all ranks to TAPES[rank]. */
	void (*write)(struct bb_tape *tapes, const struct bb_strategy_setting *setting);
	/* BY_CODES: the coding of what is exchanged (codes.h; NULL: as it is, whole), with error
	   memory, and the optimizer. NONE: gradient descent. Without a coding it stays in its
	   warm-up: Adam without bias correction, or LAMB. */
	const char *coding;
	bool feedback;
	enum bb_onebit_kind optimizer;
};

/* All of them, in the order of --list, and those of --coded; both end without a name. */
extern const struct bb_strategy bb_strategies[], bb_coded_strategies[];

/* The reason why SETTING is impossible, or NULL. */
const char *bb_strategy_refuses(const struct bb_strategy_setting *setting);
/* Steps of one run of the program. */
size_t bb_strategy_steps(const struct bb_strategy_setting *setting);
/* The number of active ranks that compute gradients. */
int bb_strategy_workers(const struct bb_strategy_setting *setting);
/* The number of RANK among the workers; -1: not a worker. */
int bb_strategy_worker(const struct bb_strategy_setting *setting, int rank);

/* Bytes that a rank holds: parameters, gradients, sums. */
struct bb_strategy_memory {
	uint64_t most;   /* of a root or server; of any rank if all are equal */
	uint64_t worker; /* of the other ranks */
};
struct bb_strategy_memory bb_strategy_memory(const struct bb_strategy_setting *setting);

/*
 * TAPED = all operations of all ranks of SETTING, which is not refused. TAPED must not move.
 * ALGORITHM: see struct bb_program. BB_EINTERNAL without memory. Free TAPED whatever comes back.
 */
BB_MUST bb_status bb_strategy_write(struct bb_taped *taped,
				    const struct bb_strategy_setting *setting,
				    const char *algorithm, struct bb_error *error);

/* The maximum over ranks of bytes sent and bytes received in a step of TAPED, with collectives by
   the schedule ALGORITHM (NULL: that which sends least); those of an unknown one count 0. */
double bb_strategy_wire(const struct bb_taped *taped, const struct bb_strategy_setting *setting,
			const char *algorithm);

/* ---- the benchmark --------------------------------------------------------------------------- */

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
	BB_REPLICA_MODEL_OPTIONS(OPTION, bb_replica_dtypes)                                        \
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
	OPTION(CHOICES, coded, "coded", 0, NULL,                                                   \
	       "with --train: also by coded gradients (-ef: with error feedback) and 1-bit "       \
	       "optimizers, with their loss curves (see --list)",                                  \
	       .choice = coded_name, .needs = {{"train"}})                                         \
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
	FIELD(STRING, algorithm, "", "algorithm of the collectives; null: none, or --coded")       \
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
	      "parameters, gradients and sums of a root or server; of any rank if all are equal",  \
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
	FIELD(DOUBLE, loss, "",                                                                    \
	      "loss of the trained model over all samples, the largest of the ranks",              \
	      BB_COLUMN("loss", 9, 6), .place = 14)                                                \
	FIELD(DOUBLE, apart, "", "largest difference of a parameter from that of one rank",        \
	      BB_COLUMN("apart", 8, 6), .place = 15)                                               \
	FIELD(NUMBERS, losses, "",                                                                 \
	      "with --coded: loss before each step; each rank has its own samples and parameters") \
	FIELD(DOUBLE, feedback_gap, "",                                                            \
	      "difference of the exchanged results and the errors in memory from what was to be "  \
	      "exchanged, weighed by random numbers, relative to its norm; null: no feedback")     \
	BB_WRONG_FIELD(FIELD, 16,                                                                  \
		       "parameters, summed gradients and losses whose bits differ from those of "  \
		       "one rank with all samples; null: not compared")                            \
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
	double *losses, gap; /* of --coded; [step] */
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

/* ---- --sampler ------------------------------------------------------------------------------- */

/*
 * The samples of each rank, divided as PyTorch's DistributedSampler does.
 *
 * The order of samples follows from seed + epoch. Its length becomes a multiple of the n ranks: it
 * is padded with samples from its start, repeatedly if necessary, or cut with drop_last. Rank r has
 * numbers r, r + n, r + 2n, ….
 *
 * The permutation is busbench's own, so indices differ from those of PyTorch's generator; their
 * properties are the same.
 */
struct bb_sampler {
	size_t samples; /* > 0 */
	int nranks;
	bool drop_last;
	uint64_t seed;
};

/* Samples of each rank: ceil(samples / n), with drop_last floor. */
size_t bb_sampler_length(const struct bb_sampler *sampler);

/*
 * *ORDER = the samples of all ranks in EPOCH, bb_sampler_length * nranks of them: rank r's sample i
 * is number i * nranks + r. The caller frees it. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_sampler_order(const struct bb_sampler *sampler, uint64_t epoch, size_t **order,
				   struct bb_error *error);

/* How an order covers the samples. */
struct bb_coverage {
	size_t covered;  /* samples in the order */
	size_t repeated; /* places with a sample that an earlier place has */
	size_t overlaps; /* samples of more than one rank */
};
BB_MUST bb_status bb_sampler_coverage(const struct bb_sampler *sampler, const size_t *order,
				      struct bb_coverage *coverage, struct bb_error *error);

/* Append the samples of all ranks in EPOCHS epochs, and their coverage. */
BB_MUST bb_status bb_sampler_describe(const struct bb_sampler *sampler, uint64_t epochs,
				      struct bb_strbuf *out, struct bb_error *error);
