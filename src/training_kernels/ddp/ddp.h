/*
 * ddp.h - the benchmark of data-parallel training: gradients are reduced in buckets while the
 * backward pass continues.
 *
 *   ddp.c          its options, record and descriptor
 *   predict.c      --predict: buckets and step computed, nothing run; predict_text.c prints it
 *   step.c         a step as a program
 *   sweep.c        the experiment: steps with buckets of all sizes, timed and verified
 *   rows.c         what was measured, as rows
 */
#ifndef BB_TRAINING_KERNELS_DDP_DDP_H
#define BB_TRAINING_KERNELS_DDP_DDP_H

#include "core/units.h"
#include "harness/run/options_check.h"
#include "harness/measure/step_options.h"
#include "core/recommend.h"
#include "harness/run/run.h"
#include "training_kernels/estimate.h"
#include "training_kernels/step_model.h"

#define BB_DDP_MOST_ALGORITHMS 32
#define BB_DDP_DEFAULT_CAP ((uint64_t)25 << 20) /* PyTorch's bucket_cap_mb */

enum bb_overlap_choice { BB_OVERLAP_ON, BB_OVERLAP_OFF, BB_OVERLAP_BOTH };

#define BB_DDP_OPTIONS(OPTION, COMMON)                                                             \
	BB_MODEL_OPTION(OPTION, "resnet50", "model of the gradients: ", .section = "Model")        \
	BB_SEQ_OPTION(OPTION)                                                                      \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(INT, batch, "batch", 0, "1",                                                        \
	       "sequences or images of a batch of each rank, for --flops", .min = 1,               \
	       .max = MOST_BATCH)                                                                  \
	OPTION(DTYPE, dtype, "datatype", 'd', "float", "datatype of the gradients",                \
	       .choices = bb_ddp_dtypes)                                                           \
	OPTION(SIZES, caps, "buckets", 0, "1M,5M,10M,25M,50M,100M,200M",                           \
	       "sizes at which a bucket is closed", .min = 1, .max = BB_MOST_BYTES,                \
	       .section = "Buckets", .usual = true)                                                \
	OPTION(SIZE, first_cap, "first-bucket", 0, "1M",                                           \
	       "size at which the first bucket is closed; cap: as all others",                     \
	       .argument = "SIZE|cap", .min = 1, .max = BB_MOST_BYTES, .zero = "cap")              \
	OPTION(STRING, algo_text, "algo", 0, "auto",                                               \
	       "algorithms of the all-reduce; auto: the best for each size",                       \
	       .argument = "LIST|all")                                                             \
	OPTION(CHOICE, overlap, "overlap", 0, "both",                                              \
	       "on: buckets are reduced during the backward pass; off: after it",                  \
	       .choices = overlap_names, .usual = true)                                            \
	OPTION(INT, accumulate, "accumulate", 0, "1",                                              \
	       "batches of a step; only the gradients of the last are reduced", .min = 1,          \
	       .max = 1 << 20)                                                                     \
	BB_FLOPS_OPTION(OPTION, ", for the time of a batch", .section = "Time")                    \
	BB_STEP_TIME_OPTION(OPTION, NULL, " (default: 50ms; with --predict: none)")                \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	BB_MEMORY_OPTION(OPTION)                                                                   \
	COMMON("iters", 'n', "10", "timed steps of each kind, over all rounds", .min = 1,          \
	       .max = 1000000, .usual = true)                                                      \
	OPTION(FLAG, predict, "predict", 0, NULL,                                                  \
	       "print the buckets and, with --link, the step; run nothing", .usual = true)

struct bb_ddp_options {
	BB_OPTION_MEMBERS(BB_DDP_OPTIONS)

	/* Derived from them: --algo, name by name. */
	char algorithms[BB_DDP_MOST_ALGORITHMS][BB_WORD];
	size_t nalgorithms;
};

#define BB_DDP_FIELDS(FIELD)                                                                       \
	FIELD(STRING, model, "", "name of the model, as requested")                                \
	FIELD(STRING, family, "", "family of the model: gpt2, llama, …")                           \
	FIELD(STRING, dtype, "", "datatype of the gradients")                                      \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, batches, "",                                                                    \
	      "batches of each rank in a step; the gradients of the last are reduced")             \
	FIELD(STRING, grouping, "",                                                                \
	      "one: a single bucket; tensor: a bucket per tensor; cap: buckets of cap_bytes")      \
	FIELD(INT, cap_bytes, "bytes", "size at which a bucket is closed; null: no cap",           \
	      BB_COLUMN("cap", 7, 0), BB_MERGES, .place = 1, .head_unit = "", .cell = cap_cell)    \
	FIELD(INT, first_cap_bytes, "bytes", "size at which the first bucket is closed")           \
	FIELD(STRING, measured_as, "",                                                             \
	      "size with the same buckets, whose measurement this is; null: these were measured")  \
	FIELD(STRING, algorithm, "", "algorithm of the all-reduce, as requested",                  \
	      BB_COLUMN("algo", 13, 0), .place = 4)                                                \
	FIELD(STRING, overlap, "", "on: reduced during the backward pass; off: after it",          \
	      BB_COLUMN("overlap", 7, 0), BB_KEY, .place = 5)                                      \
	FIELD(INT, tensors, "", "tensors of the model")                                            \
	FIELD(INT, parameters, "", "parameters of the model")                                      \
	FIELD(INT, gradient_bytes, "bytes", "size of all gradients")                               \
	BB_FIT_FIELDS(FIELD)                                                                       \
	FIELD(INT, buckets, "", "number of buckets", BB_COLUMN("buckets", 7, 0), .place = 2)       \
	FIELD(INT, least_bytes, "bytes", "smallest bucket")                                        \
	FIELD(DOUBLE, mean_bytes, "bytes", "mean bucket")                                          \
	FIELD(INT, most_bytes, "bytes", "largest bucket", BB_COLUMN("largest", 8, 2), .place = 3,  \
	      BB_MIB)                                                                              \
	FIELD(INT, last_bytes, "bytes", "last bucket, which nothing hides")                        \
	FIELD(NUMBERS, bucket_bytes, "bytes", "size of each bucket")                               \
	FIELD(NUMBERS, bucket_tensors, "", "tensors of each bucket")                               \
	FIELD(NUMBERS, bucket_ready_us, "us",                                                      \
	      "time in the backward pass at which each bucket is complete")                        \
	FIELD(DOUBLE, forward_us, "us", "forward pass of a batch")                                 \
	FIELD(DOUBLE, backward_us, "us", "backward pass of a batch")                               \
	FIELD(DOUBLE, predicted_step_us, "us",                                                     \
	      "step by the step model, until the last reduction ends; of a run: from its parts "   \
	      "as "                                                                                \
	      "measured alone",                                                                    \
	      BB_COLUMN("model", 8, 2), .place = 13, BB_MS)                                        \
	FIELD(DOUBLE, predicted_reduce_us, "us", "time of all reductions, one after another")      \
	FIELD(DOUBLE, predicted_exposed_us, "us", "time that the step waits for reductions")       \
	FIELD(DOUBLE, predicted_hidden, "fraction",                                                \
	      "1 - predicted_exposed_us / predicted_reduce_us")                                    \
	FIELD(DOUBLE, predicted_times_one, "", "speed relative to a single bucket")                \
	FIELD(DOUBLE, predicted_times_tensor, "", "speed relative to a bucket per tensor")         \
	FIELD(DOUBLE, predicted_times_25M, "", "speed relative to buckets of 25 MiB")              \
	FIELD(STRING, compute, "", "stand-in for computations: --compute; null: nothing ran")      \
	FIELD(DOUBLE, step_us, "us", "measured step, until the last rank ends: median",            \
	      BB_COLUMN("step", 8, 2), .place = 9, BB_MS)                                          \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of the median, lower end")            \
	FIELD(DOUBLE, high_us, "us", "its upper end")                                              \
	FIELD(DOUBLE, p95_us, "us", "95th percentile of the steps")                                \
	FIELD(INT, samples, "", "number of timed steps")                                           \
	FIELD(DOUBLE, compute_us, "us", "computations without communication: median",              \
	      BB_COLUMN("compute", 8, 2), .place = 8, BB_MS)                                       \
	FIELD(DOUBLE, reduce_us, "us", "reductions without computations, one after another",       \
	      BB_COLUMN("reduce", 8, 2), .place = 6, BB_MS)                                        \
	FIELD(DOUBLE, reduce_busbw_GBps, "GB/s", "bus bandwidth of the reductions",                \
	      BB_COLUMN("busbw", 7, 2), .place = 7)                                                \
	FIELD(DOUBLE, exposed_us, "us", "step_us - compute_us: time that the step waits",          \
	      BB_COLUMN("exposed", 8, 2), .place = 10, BB_MS)                                      \
	FIELD(DOUBLE, hidden, "fraction",                                                          \
	      "1 - exposed_us / reduce_us; null: the reductions are too short",                    \
	      BB_COLUMN("hidden", 6, 1), .place = 11, BB_SHARE)                                    \
	FIELD(DOUBLE, contention, "", "backward pass beside reductions / without them",            \
	      BB_COLUMN("contend", 7, 2), .place = 12, BB_TIMES)                                   \
	FIELD(DOUBLE, error_percent, "%", "predicted_step_us / step_us - 1",                       \
	      BB_COLUMN("error", 6, 1), .place = 14)                                               \
	FIELD(DOUBLE, broadcast_us, "us",                                                          \
	      "broadcast of all parameters from rank 0 by the same algorithm; null: broadcast "    \
	      "does "                                                                              \
	      "not have it")                                                                       \
	FIELD(DOUBLE, times_one, "", "speed relative to a single bucket",                          \
	      BB_COLUMN("vs one", 7, 3), .place = 15, BB_TIMES)                                    \
	FIELD(DOUBLE, times_tensor, "", "speed relative to a bucket per tensor",                   \
	      BB_COLUMN("vs tensor", 9, 3), .place = 16, BB_TIMES)                                 \
	FIELD(DOUBLE, times_25M, "", "speed relative to buckets of 25 MiB, PyTorch's default",     \
	      BB_COLUMN("vs 25M", 7, 3), .place = 17, BB_TIMES)                                    \
	FIELD(INT, best, "", "1: shortest step with this overlap")                                 \
	FIELD(INT, as_good, "", "1: its confidence interval reaches that of the best")             \
	FIELD(INT, wrong, "elements", "elements that differ from the average; null: not verified", \
	      BB_COLUMN("#wrong", 6, 0), .place = 18, .head_unit = "")                             \
	FIELD(NUMBERS, bucket_us, "us", "reduction of each bucket, without computations")          \
	FIELD(DOUBLE, end_unix_s, "s", "time of the end, since 1970 UTC")

/* One size of buckets, reduced by one algorithm with or without overlap. */
struct bb_ddp_record {
	BB_DDP_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_ddp;

struct bb_ddp;

/* One size of buckets. */
struct bb_ddp_cap {
	uint64_t bytes;          /* BB_BUCKET_UNLIMITED: a single bucket; 1: a bucket per tensor */
	uint64_t first;          /* of the first bucket */
	char name[BB_UNIT_TEXT]; /* "25M", "one", "tensor" */
	struct bb_buckets buckets;
};

/* Are steps with overlap (ON) or without requested? */
static inline bool bb_ddp_has_overlap(const struct bb_ddp_options *options, bool on)
{
	return options->overlap != (on ? BB_OVERLAP_OFF : BB_OVERLAP_ON);
}

/* *CAP = the buckets of DDP's model, closed at BYTES, and the first as --first-bucket says.
   BB_EINTERNAL without memory. Free its buckets whatever comes back. */
BB_MUST bb_status bb_ddp_cap_make(struct bb_ddp_cap *cap, const struct bb_ddp *ddp, uint64_t bytes,
				  struct bb_error *error);
/* For recommendations. NAME = "25M (ring)", "one bucket", "a bucket per tensor", "25M to 50M" if
   LAST is not FIRST; ALGORITHM may be NULL. */
void bb_ddp_name_caps(char name[BB_CANDIDATE_TEXT], const struct bb_ddp_cap *first,
		      const struct bb_ddp_cap *last, const char *algorithm);
/* Append why a step is longer than another with the same computations, whose reductions take
   REDUCE_S less and are exposed for EXPOSED_S less. */
void bb_ddp_add_cause(double reduce_s, double exposed_s, struct bb_strbuf *out);

/* Judges the memory of one of NRANKS ranks, for DDP's verdict. */
BB_MUST bb_status bb_ddp_fit(struct bb_ddp *ddp, int nranks, struct bb_error *error);

/* R = the fields that all records of DDP on NRANKS share; all others are absent. */
void bb_ddp_describe(const struct bb_ddp *ddp, int nranks, struct bb_ddp_record *r);
/* Fills the fields of R about CAP. READY_S: see bb_model_ready; NULL: unknown. NUMBERS has room for
   three numbers of each bucket and outlives R. */
void bb_ddp_describe_cap(struct bb_ddp_record *r, const struct bb_ddp_cap *cap,
			 const double *ready_s, double *numbers);

/* The state of the benchmark. */
struct bb_ddp {
	struct bb_ddp_options options; /* first: the rows are read into it */
	struct bb_model model;
	struct bb_capacity capacity;
	struct bb_fit_verdict fit;
};

extern const struct bb_option bb_ddp_rows[];
extern const struct bb_benchmark bb_ddp_benchmark;

/* Datatypes of gradients; ends with NULL. */
extern const char *const bb_ddp_dtypes[];
/* BB_EUSAGE with the reason unless the options of time go together. */
BB_MUST bb_status bb_ddp_check_time(bool flops_given, bool step_given, bool batch_given,
				    struct bb_error *error);

/* Is the time of computations known? Then *FORWARD_S and *BACKWARD_S are those of a batch: its
   FLOPs at --flops, or --step-time in proportion to FLOPs. Otherwise both are 0. */
bool bb_ddp_compute(const struct bb_ddp *ddp, double *forward_s, double *backward_s);

extern const struct bb_experiment bb_ddp_experiment;

/* The benchmark's show. */
BB_MUST bb_status bb_ddp_predict(struct bb_run *run, struct bb_strbuf *out);

#endif
