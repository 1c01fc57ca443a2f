/*
 * ddp.h - the benchmark of data-parallel training: gradients in buckets, reduced while the backward
 * pass goes on.
 *
 *   ddp.c          the benchmark: what it can do, how it ends
 *   options.c      its options
 *   predict.c      --predict: buckets and step computed, nothing run; predict_text.c prints it
 *   step.c         a step as a program
 *   sweep.c        what every driver does: steps of all sizes of buckets, timed and verified
 *   rows.c         what was measured, as rows; record.c their fields and the table
 */
#ifndef BB_TRAINING_KERNELS_DDP_DDP_H
#define BB_TRAINING_KERNELS_DDP_DDP_H

#include "core/units.h"
#include "harness/run/options_check.h"
#include "harness/measure/step_options.h"
#include "harness/run/run.h"
#include "training_kernels/step_model.h"

#define BB_DDP_MOST_ALGORITHMS 32
#define BB_DDP_DEFAULT_CAP ((uint64_t)25 << 20) /* PyTorch's bucket_cap_mb */

enum bb_overlap_choice { BB_OVERLAP_ON, BB_OVERLAP_OFF, BB_OVERLAP_BOTH };

#define BB_DDP_OPTIONS(OPTION, COMMON)                                                             \
	BB_MODEL_OPTION(OPTION, "resnet50", "whose gradients: ", .section = "Model")               \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(INT, batch, "batch", 0, "1",                                                        \
	       "sequences or images of each rank, whose FLOPs --flops counts", .min = 1,           \
	       .max = MOST_BATCH)                                                                  \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the gradients",                \
	       .choices = bb_ddp_dtypes)                                                           \
	OPTION(SIZES, caps, "buckets", 0, "1M,5M,10M,25M,50M,100M,200M",                           \
	       "sizes at which a bucket is closed, one after the other", .min = 1,                 \
	       .max = BB_MOST_BYTES, .section = "Buckets")                                         \
	OPTION(SIZE, first_cap, "first-bucket", 0, "1M",                                           \
	       "size at which the first bucket is closed; cap: that of all others",                \
	       .argument = "SIZE|cap", .min = 1, .max = BB_MOST_BYTES, .zero = "cap")              \
	OPTION(STRING, algo_text, "algo", 0, "auto",                                               \
	       "algorithms of the all-reduce, one after the other; auto: whichever is best",       \
	       .argument = "LIST|all")                                                             \
	OPTION(CHOICE, overlap, "overlap", 0, "both",                                              \
	       "on: buckets are reduced while the backward pass goes on; off: after it",           \
	       .choices = overlap_names)                                                           \
	OPTION(INT, accumulate, "accumulate", 0, "1",                                              \
	       "number of batches, of which only the last one's gradients are reduced", .min = 1,  \
	       .max = 1 << 20)                                                                     \
	BB_FLOPS_OPTION(OPTION, ": how long its batch takes", .section = "Time")                   \
	BB_STEP_TIME_OPTION(OPTION)                                                                \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	COMMON("iters", 'n', "10", "steps of each kind, over all rounds", .min = 1,                \
	       .max = 1000000)                                                                     \
	OPTION(FLAG, predict, "predict", 0, NULL,                                                  \
	       "print the buckets and, with --link, the step; run nothing")

struct bb_ddp_options {
	BB_OPTION_MEMBERS(BB_DDP_OPTIONS)

	/* Worked out from them. */
	/* --algo, name by name. */
	char algorithms[BB_DDP_MOST_ALGORITHMS][BB_WORD];
	size_t nalgorithms;
};

#define BB_DDP_FIELDS(FIELD)                                                                       \
	FIELD(STRING, model, "", "as it was asked for")                                            \
	FIELD(STRING, family, "", "of models: gpt2, llama, …")                                     \
	FIELD(STRING, dtype, "", "of the gradients")                                               \
	FIELD(INT, nranks, "", "that reduce them")                                                 \
	FIELD(INT, batches, "", "of each rank, of which the last one's gradients are reduced")     \
	FIELD(STRING, grouping, "",                                                                \
	      "one: all in one bucket; tensor: each by itself; cap: in buckets")                   \
	FIELD(INT, cap_bytes, "bytes", "at which a bucket is closed; null: no cap",                \
	      BB_COLUMN("cap", 7, 0), .place = 1, .head_unit = "", .cell = cap_cell)               \
	FIELD(INT, first_cap_bytes, "bytes", "that of the first bucket")                           \
	FIELD(STRING, algorithm, "", "of the all-reduce, as it was asked for",                     \
	      BB_COLUMN("algo", 13, 0), .place = 4)                                                \
	FIELD(STRING, overlap, "", "on: reduced while the backward pass goes on; off: after it",   \
	      BB_COLUMN("overlap", 7, 0), BB_KEY, .place = 5)                                      \
	FIELD(INT, tensors, "", "of the model")                                                    \
	FIELD(INT, parameters, "", "of the model")                                                 \
	FIELD(INT, gradient_bytes, "bytes", "of all gradients")                                    \
	FIELD(INT, buckets, "", "how many", BB_COLUMN("buckets", 7, 0), .place = 2)                \
	FIELD(INT, least_bytes, "bytes", "the smallest bucket")                                    \
	FIELD(DOUBLE, mean_bytes, "bytes", "their mean")                                           \
	FIELD(INT, most_bytes, "bytes", "the largest", BB_COLUMN("largest", 8, 2), .place = 3,     \
	      BB_MIB)                                                                              \
	FIELD(INT, last_bytes, "bytes", "the last, which nothing hides")                           \
	FIELD(NUMBERS, bucket_bytes, "bytes", "each of them")                                      \
	FIELD(NUMBERS, bucket_tensors, "", "tensors of each")                                      \
	FIELD(NUMBERS, bucket_ready_us, "us", "when each is complete, in the backward pass")       \
	FIELD(DOUBLE, forward_us, "us", "forward pass of a batch")                                 \
	FIELD(DOUBLE, backward_us, "us", "its backward pass")                                      \
	FIELD(DOUBLE, predicted_step_us, "us",                                                     \
	      "all batches until the last reduction is done: the step model, where something was " \
	      "run fed with its parts as measured alone",                                          \
	      BB_COLUMN("model", 8, 2), .place = 13, BB_MS)                                        \
	FIELD(DOUBLE, predicted_reduce_us, "us", "all reductions one after the other")             \
	FIELD(DOUBLE, predicted_exposed_us, "us", "what of them the step waits for")               \
	FIELD(DOUBLE, predicted_hidden, "fraction", "1 - exposed / reduce")                        \
	FIELD(DOUBLE, predicted_times_one, "", "how many times as fast as all in one bucket")      \
	FIELD(DOUBLE, predicted_times_tensor, "", "as each tensor by itself")                      \
	FIELD(DOUBLE, predicted_times_25M, "", "as in buckets of 25 MiB")                          \
	FIELD(STRING, compute, "",                                                                 \
	      "what computations stood for: --compute; null: nothing was run")                     \
	FIELD(DOUBLE, step_us, "us", "measured, until the last rank had done it: median",          \
	      BB_COLUMN("step", 8, 2), .place = 9, BB_MS)                                          \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of that median")                      \
	FIELD(DOUBLE, high_us, "us", "its upper end")                                              \
	FIELD(DOUBLE, p95_us, "us", "95th percentile of the steps")                                \
	FIELD(INT, samples, "", "steps that were timed")                                           \
	FIELD(DOUBLE, compute_us, "us", "the computations without communication: median",          \
	      BB_COLUMN("compute", 8, 2), .place = 8, BB_MS)                                       \
	FIELD(DOUBLE, reduce_us, "us", "the reductions without computations, one after the other", \
	      BB_COLUMN("reduce", 8, 2), .place = 6, BB_MS)                                        \
	FIELD(DOUBLE, reduce_busbw_GBps, "GB/s", "their bus bandwidth", BB_COLUMN("busbw", 7, 2),  \
	      .place = 7)                                                                          \
	FIELD(DOUBLE, exposed_us, "us", "step_us - compute_us: what the step waits for",           \
	      BB_COLUMN("exposed", 8, 2), .place = 10, BB_MS)                                      \
	FIELD(DOUBLE, hidden, "fraction",                                                          \
	      "1 - exposed_us / reduce_us; null: the reductions are too short to tell",            \
	      BB_COLUMN("hidden", 6, 1), .place = 11, BB_SHARE)                                    \
	FIELD(DOUBLE, contention, "",                                                              \
	      "how many times as long the backward pass takes beside the reductions",              \
	      BB_COLUMN("contend", 7, 2), .place = 12, BB_TIMES)                                   \
	FIELD(DOUBLE, error_percent, "%", "of the prediction, against step_us",                    \
	      BB_COLUMN("error", 6, 1), .place = 14)                                               \
	FIELD(DOUBLE, broadcast_us, "us",                                                          \
	      "all parameters from rank 0, by the same algorithm; null: broadcast has none of "    \
	      "that name")                                                                         \
	FIELD(DOUBLE, times_one, "", "how many times as fast as all in one bucket",                \
	      BB_COLUMN("vs one", 7, 3), .place = 15, BB_TIMES)                                    \
	FIELD(DOUBLE, times_tensor, "", "as each tensor by itself", BB_COLUMN("vs tensor", 9, 3),  \
	      .place = 16, BB_TIMES)                                                               \
	FIELD(DOUBLE, times_25M, "", "as in buckets of 25 MiB, PyTorch's default",                 \
	      BB_COLUMN("vs 25M", 7, 3), .place = 17, BB_TIMES)                                    \
	FIELD(INT, best, "", "1: the shortest step of its overlap")                                \
	FIELD(INT, as_good, "", "1: its confidence interval reaches that of the best")             \
	FIELD(INT, wrong, "elements", "that are not the average; null: not looked at",             \
	      BB_COLUMN("#wrong", 6, 0), .place = 18, .head_unit = "")                             \
	FIELD(NUMBERS, bucket_us, "us", "reduction of each bucket, without computations")          \
	FIELD(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC")

/* One way to put gradients into buckets, reduced by one algorithm with or without overlap. */
struct bb_ddp_record {
	BB_DDP_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_ddp;

struct bb_ddp;

/* R = what holds of all records of DDP among NRANKS, all else absent. */
void bb_ddp_describe(const struct bb_ddp *ddp, int nranks, struct bb_ddp_record *r);
/*
 * What R says of BUCKETS, which are closed at CAP, the first at FIRST (0: not grouped by caps).
 * READY_S: see bb_model_ready; NULL: not known. NUMBERS has room for three of each bucket, and
 * lasts as long as R.
 */
void bb_ddp_describe_buckets(struct bb_ddp_record *r, const struct bb_buckets *buckets,
			     uint64_t cap, uint64_t first, const double *ready_s, double *numbers);

/* The state of the benchmark. */
struct bb_ddp {
	struct bb_ddp_options asked; /* first: the rows are read into it */
	struct bb_model model;
};

extern const struct bb_option bb_ddp_rows[];
extern const struct bb_benchmark bb_ddp_benchmark;

/* The benchmark's check (see benchmark.h). Opens the model, which bb_ddp_predict or the benchmark's
   close frees. */
BB_MUST bb_status bb_ddp_check(const struct bb_benchmark *benchmark, void *own,
			       struct bb_options *options, const struct bb_environment *environment,
			       struct bb_error *error);

/* Datatypes of gradients; ends with NULL. */
extern const char *const bb_ddp_dtypes[];
/* Whether what is said of time goes together, the same for all that train. BB_EUSAGE with the
   reason. */
BB_MUST bb_status bb_ddp_check_time(bool flops_given, bool step_given, bool batch_given,
				    struct bb_error *error);

/* Is it known how long a rank computes? Then *FORWARD_S and *BACKWARD_S are that of one batch:
   its FLOPs at --flops, or --step-time shared out as they are. */
bool bb_ddp_compute(const struct bb_ddp *ddp, double *forward_s, double *backward_s);

/* TEXT = what buckets of CAP are called: "25M", "one", "tensor". */
const char *bb_ddp_cap_text(char text[BB_UNIT_TEXT], uint64_t cap);

extern const struct bb_experiment bb_ddp_experiment;

bb_sink_open bb_ddp_text_open;

/* The benchmark's show. */
BB_MUST bb_status bb_ddp_predict(struct bb_run *run, struct bb_strbuf *out);

#endif
