/*
 * ddp.h - the benchmark of data-parallel training: gradients are reduced in buckets while the
 * backward pass continues.
 *
 *   grouping.c  the groupings of the gradients that are compared
 *   ddp.c     its options, record and descriptor; the model and its buckets as text
 *   sweep.c   the experiment: steps with buckets of all sizes, timed and verified
 *   step.c    a step as a program
 *   memory.c  what the CPU does on memory beside it: copies of gradients, and Adam
 */
#pragma once

#include "core/units.h"
#include "harness/run/options.h"
#include "training_kernels/ddp/memory.h"
#include "training_kernels/kernel/kernel.h"

#define BB_DDP_MOST_ALGORITHMS 32
#define BB_DDP_DEFAULT_CAP ((uint64_t)25 << 20) /* PyTorch's bucket_cap_mb */

/* Of enum bb_ddp_view and enum bb_ddp_place, from their second on; end with NULL. */
extern const char *const bb_ddp_view_names[], *const bb_ddp_place_names[];

enum bb_overlap_choice { BB_OVERLAP_ON, BB_OVERLAP_OFF, BB_OVERLAP_BOTH };

#define BB_DDP_OF(rule) .needs = {{"fusion=" rule}}
/* Rules that group gradients (models/fusion.h), and the parameters of each. */
#define BB_DDP_FUSION_OPTIONS(OPTION)                                                              \
	OPTION(CHOICES, rules, "fusion", 0, "ddp",                                                 \
	       "rules by which frameworks group gradients, side by side; ddp has --buckets",       \
	       .choices = bb_fusion_names, .section = "Rules of frameworks")                       \
	OPTION(SIZES, thresholds, "fusion-threshold", 0, "128M",                                   \
	       "horovod: most bytes of a fusion, rounded up to 512 per rank of nodes of equal "    \
	       "sizes; 0: none",                                                                   \
	       .max = BB_MOST_BYTES, BB_DDP_OF("horovod"))                                         \
	OPTION(NUMBERS, cycles, "cycle-time-ms", 0, "1",                                           \
	       "horovod: milliseconds between the begins of cycles; 0: one for each gradient",     \
	       .max = 1000000, BB_DDP_OF("horovod"))                                               \
	OPTION(FLAG, batched, "batched-copies", 0, NULL,                                           \
	       "horovod: pad each tensor of a fusion to 16 bytes (HOROVOD_BATCH_D2D_MEMCOPIES)",   \
	       BB_DDP_OF("horovod"))                                                               \
	OPTION(SIZES, pack_bytes, "bytes-per-pack", 0, "0",                                        \
	       "tf: size above which a pack is closed; 0: a single pack", .max = BB_MOST_BYTES,    \
	       BB_DDP_OF("tf"))                                                                    \
	OPTION(COUNT, bucket_elements, "ddp-bucket-size", 0, NULL,                                 \
	       "megatron: elements at which a bucket is closed (default: 40M, or 1M per rank if "  \
	       "that is more)",                                                                    \
	       .min = 1, .max = BB_MOST_BYTES, BB_DDP_OF("megatron"))                              \
	OPTION(FLAG, padded, "pad-buckets", 0, NULL,                                               \
	       "megatron: pad buckets to a multiple of 65536 elements and of the ranks",           \
	       BB_DDP_OF("megatron"))                                                              \
	OPTION(INTS, packs, "num-packs", 0, "1",                                                   \
	       "mirrored: packs of equally many elements; 0: a pack for each tensor", .max = 4096, \
	       BB_DDP_OF("mirrored"))                                                              \
	OPTION(COUNT, least, "min-num-params", 0, NULL,                                            \
	       "fsdp: least elements of a unit, by the size policy (default: a unit for each "     \
	       "block of the model)",                                                              \
	       .min = 1, .max = BB_MOST_BYTES, BB_DDP_OF("fsdp"))                                  \
	OPTION(FLAG, hierarchical, "hierarchical", 0, NULL,                                        \
	       "reduce-scatter in nodes, all-reduce across them, all-gather: Horovod's "           \
	       "hierarchical and torus all-reduce")                                                \
	OPTION(INT, node_ranks, "node-ranks", 0, NULL,                                             \
	       "ranks of a node (default: those of --cluster, else all)", .min = 1,                \
	       .max = BB_CLUSTER_MOST_RANKS)

#define BB_DDP_ON_CPUS                                                                             \
	.on = {{BB_ON_CPUS, "has memory that the CPU, which works on it, cannot access"}}
/* What a step of PyTorch does besides. */
#define BB_DDP_PYTORCH                                                                             \
	.excludes = {{"fusion hierarchical norm-datatype",                                         \
		      "it belongs to PyTorch's rule, with gradients of one datatype"}}
#define BB_DDP_STEP_OPTIONS(OPTION)                                                                \
	OPTION(FLAG, sync_buffers, "sync-buffers", 0, NULL,                                        \
	       "broadcast of the buffers of batch norms before the forward pass",                  \
	       .section = "What else a step does", BB_DDP_PYTORCH)                                 \
	OPTION(FLAG, find_unused, "find-unused", 0, NULL,                                          \
	       "all-reduce of which tensors were used; the first step has several buckets, too",   \
	       BB_DDP_PYTORCH)                                                                     \
	OPTION(CHOICES, views, "bucket-view", 0, NULL,                                             \
	       "passes over gradients; on: divided in place, as views of buckets; off: divided "   \
	       "in the copy into buckets, and copied back; horovod: off, beside each reduction "   \
	       "(default: the all-reduce averages)",                                               \
	       .choices = bb_ddp_view_names, BB_DDP_ON_CPUS,                                       \
	       .excludes = {{"hierarchical norm-datatype",                                         \
			     "passes need averaged gradients of one datatype"}})                   \
	OPTION(CHOICES, places, "optimizer", 0, NULL,                                              \
	       "place of Adam's updates: after all reductions; after that of the bucket, in an "   \
	       "own queue or that of reductions; in the backward pass of one rank "                \
	       "(default: no updates)",                                                            \
	       .choices = bb_ddp_place_names, BB_DDP_ON_CPUS, BB_DDP_PYTORCH)                      \
	OPTION(NUMBER, most_norm, "clip-grad-norm", 0, NULL,                                       \
	       "norm to which longer gradients are scaled before the updates (default: none)",     \
	       .needs = {{"optimizer"}})                                                           \
	OPTION(NUMBER, loss_scale, "loss-scale", 0, "1",                                           \
	       "scale of the gradients, which are searched for overflow before the updates",       \
	       .needs = {{"optimizer"}})                                                           \
	OPTION(LINK, memory_rate, "memory-rate", 0, NULL,                                          \
	       "rate of a rank's memory in virtual time, as in 1.7TB/s (default: that of the "     \
	       "GPUs of --cluster)",                                                               \
	       .on = BB_ON_SIM_ALONE)

#define BB_DDP_OPTIONS(OPTION, COMMON)                                                             \
	BB_REPLICA_MODEL_OPTIONS(OPTION, gradient_dtypes)                                          \
	OPTION(DTYPE, vectors, "norm-datatype", 0, NULL,                                           \
	       "datatype of the gradients of norms and biases (default: that of -d)",              \
	       .choices = bb_replica_dtypes)                                                       \
	OPTION(SIZES, caps, "buckets", 0, "1M,5M,10M,25M,50M,100M,200M",                           \
	       "sizes at which a bucket is closed", .min = 1, .max = BB_MOST_BYTES,                \
	       .section = "Buckets", .usual = true, BB_DDP_OF("ddp"))                              \
	OPTION(SIZE, first_cap, "first-bucket", 0, "1M",                                           \
	       "size at which the first bucket is closed; cap: as all others",                     \
	       .argument = "SIZE|cap", .min = 1, .max = BB_MOST_BYTES, .zero = "cap",              \
	       BB_DDP_OF("ddp"))                                                                   \
	OPTION(SIZES, cap_list, "bucket-cap-list", 0, NULL,                                        \
	       "a size for each bucket, the last for all later ones, as bucket_cap_mb_list; "      \
	       "instead of --buckets",                                                             \
	       .min = 1, .max = BB_MOST_BYTES,                                                     \
	       .excludes = {{"buckets first-bucket", "both set the sizes of buckets"}},            \
	       BB_DDP_OF("ddp"))                                                                   \
	BB_DDP_FUSION_OPTIONS(OPTION)                                                              \
	OPTION(STRING, algo_text, "algo", 0, "auto",                                               \
	       "algorithms of the all-reduce; auto: the best for each size",                       \
	       .argument = "LIST|all")                                                             \
	OPTION(CHOICE, overlap, "overlap", 0, "both",                                              \
	       "on: buckets are reduced during the backward pass; off: after it",                  \
	       .choices = overlap_names, .usual = true)                                            \
	OPTION(INT, accumulate, "accumulate", 0, "1",                                              \
	       "batches of a step; only the gradients of the last are reduced", .min = 1,          \
	       .max = 1 << 20)                                                                     \
	BB_DDP_STEP_OPTIONS(OPTION)                                                                \
	BB_REPLICA_TIME_OPTIONS(OPTION, NULL, " (default: 50ms; with --predict: none)")            \
	COMMON("iters", 'n', "10", "timed steps of each kind, over all rounds", .min = 1,          \
	       .max = 1000000, .usual = true)                                                      \
	OPTION(FLAG, predict, "predict", 0, NULL,                                                  \
	       "print the buckets and, with --link or --cluster, simulate the step",               \
	       .usual = true, .excludes = {{"fault", "--predict runs nothing"}})

struct bb_ddp_options {
	BB_OPTION_MEMBERS(BB_DDP_OPTIONS)

	/* Derived from them: --algo, name by name. */
	char algorithms[BB_DDP_MOST_ALGORITHMS][BB_WORD];
	size_t nalgorithms;
};

/* Are gradients copied into buckets by any setting? */
static inline bool bb_ddp_any_copies(const struct bb_ddp_options *a)
{
	for (size_t i = 0; i < a->views.n; i++)
		if (a->views.list[i] == BB_DDP_COPIED - 1)
			return true;
	return false;
}

#define BB_DDP_FIELDS(FIELD)                                                                       \
	FIELD(STRING, model, "", "name of the model, as requested")                                \
	FIELD(STRING, dtype, "", "datatype of the gradients")                                      \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, batches, "",                                                                    \
	      "batches of each rank in a step; the gradients of the last are reduced")             \
	FIELD(STRING, grouping, "",                                                                \
	      "one: a single bucket; tensor: a bucket per tensor; cap: buckets of cap_bytes; "     \
	      "list: of --bucket-cap-list; else the rule of --fusion")                             \
	FIELD(STRING, rule, "", "rule that grouped the gradients; null: no --fusion",              \
	      BB_COLUMN("rule", -8, 0), BB_OPTIONAL)                                               \
	FIELD(INT, cap_bytes, "bytes",                                                             \
	      "size at which a bucket is closed, bytes_per_pack, or Horovod's threshold; null: "   \
	      "no cap",                                                                            \
	      BB_COLUMN("cap", 7, 0), BB_MERGES, .place = 1, .head_unit = "", .cell = cap_cell)    \
	FIELD(INT, cap_count, "",                                                                  \
	      "elements of a bucket (megatron, fsdp), or number of packs (mirrored)")              \
	FIELD(DOUBLE, cycle_us, "us", "Horovod's cycle time")                                      \
	FIELD(STRING, label, "", "the grouping as in the text, with its parameters")               \
	FIELD(INT, padded_bytes, "bytes", "size of all buckets with padding")                      \
	FIELD(INT, node_ranks, "", "ranks of a node, with --hierarchical")                         \
	FIELD(DOUBLE, inside_bytes, "bytes",                                                       \
	      "sent by a rank within its node, by rings, if its ranks divide all buckets; null: "  \
	      "not --hierarchical, or nodes of unequal sizes")                                     \
	FIELD(DOUBLE, across_bytes, "bytes", "sent across nodes")                                  \
	FIELD(STRING, measured_as, "",                                                             \
	      "label of the same buckets, whose measurement this is; null: these were measured")   \
	FIELD(STRING, algorithm, "", "algorithm of the all-reduce, as requested",                  \
	      BB_COLUMN("algo", 13, 0), .place = 4)                                                \
	FIELD(STRING, overlap, "", "on: reduced during the backward pass; off: after it",          \
	      BB_COLUMN("overlap", 7, 0), BB_KEY, .place = 5)                                      \
	FIELD(STRING, bucket_view, "",                                                             \
	      "on: gradients are divided in place; off: copied into buckets and back; null: the "  \
	      "all-reduce averages them",                                                          \
	      BB_COLUMN("view", 4, 0), BB_OPTIONAL, BB_KEY, .place = 5)                            \
	FIELD(STRING, optimizer, "", "place of Adam's updates: --optimizer; null: none",           \
	      BB_COLUMN("optimizer", 10, 0), BB_OPTIONAL, BB_KEY, .place = 5)                      \
	FIELD(INT, buffer_bytes, "bytes", "buffers that rank 0 broadcasts before a step")          \
	FIELD(INT, copy_bytes, "bytes", "read and written in a step by passes over gradients")     \
	FIELD(INT, update_bytes, "bytes", "read and written in a step by the updates")             \
	FIELD(INT, tensors, "", "tensors of the model")                                            \
	FIELD(INT, parameters, "", "parameters of the model")                                      \
	FIELD(INT, gradient_bytes, "bytes", "size of all gradients")                               \
	BB_FIT_FIELDS(FIELD)                                                                       \
	FIELD(INT, buckets, "", "number of buckets", BB_COLUMN("buckets", 7, 0), .place = 2)       \
	FIELD(INT, most_bytes, "bytes", "largest bucket", BB_COLUMN("largest", 8, 2), .place = 3,  \
	      BB_MIB)                                                                              \
	FIELD(NUMBERS, bucket_bytes, "bytes", "size of each bucket")                               \
	FIELD(NUMBERS, bucket_tensors, "", "tensors of each bucket")                               \
	FIELD(NUMBERS, bucket_ready_us, "us",                                                      \
	      "time in the backward pass at which each bucket is complete")                        \
	FIELD(NUMBERS, cycles_us, "us",                                                            \
	      "begins of Horovod's cycles, since the backward pass began")                         \
	FIELD(DOUBLE, forward_us, "us", "forward pass of a batch")                                 \
	FIELD(DOUBLE, backward_us, "us", "backward pass of a batch")                               \
	FIELD(DOUBLE, predicted_step_us, "us", "step by recurrences, from its parts alone",        \
	      BB_COLUMN("model", 8, 2), .place = 13, BB_MS)                                        \
	FIELD(STRING, compute, "", "stand-in for computations: --compute; null: nothing ran")      \
	FIELD(DOUBLE, step_us, "us", "measured step, until the last rank ends: median",            \
	      BB_COLUMN("step", 8, 2), .place = 9, BB_MS)                                          \
	BB_INTERVAL_FIELDS(FIELD)                                                                  \
	FIELD(DOUBLE, p95_us, "us", "95th percentile of the steps")                                \
	FIELD(INT, samples, "", "number of timed steps")                                           \
	FIELD(DOUBLE, compute_us, "us", "computations without communication: median",              \
	      BB_COLUMN("compute", 8, 2), .place = 8, BB_MS)                                       \
	FIELD(DOUBLE, reduce_us, "us",                                                             \
	      "reductions without computations, one after another; with --sync-buffers and "       \
	      "--find-unused also their calls",                                                    \
	      BB_COLUMN("reduce", 8, 2), .place = 6, BB_MS)                                        \
	FIELD(DOUBLE, reduce_busbw_GBps, "GB/s", "bus bandwidth of the reductions",                \
	      BB_COLUMN("busbw", 7, 2), .place = 7)                                                \
	FIELD(DOUBLE, copy_us, "us", "passes over gradients alone: median",                        \
	      BB_COLUMN("copy", 8, 2), BB_OPTIONAL, .place = 7, BB_MS)                             \
	FIELD(DOUBLE, update_us, "us", "updates alone: median", BB_COLUMN("update", 8, 2),         \
	      BB_OPTIONAL, .place = 7, BB_MS)                                                      \
	FIELD(DOUBLE, exposed_us, "us", "step_us - compute_us: time that the step waits",          \
	      BB_COLUMN("exposed", 8, 2), .place = 10, BB_MS)                                      \
	FIELD(DOUBLE, hidden, "fraction",                                                          \
	      "1 - exposed_us / (reduce_us + copy_us + update_us), at least 0; null: they are "    \
	      "too short",                                                                         \
	      BB_COLUMN("hidden", 6, 1), .place = 11, BB_SHARE)                                    \
	FIELD(DOUBLE, contention, "", "backward pass beside reductions / without them",            \
	      BB_COLUMN("contend", 7, 2), .place = 12, BB_TIMES)                                   \
	FIELD(DOUBLE, first_step_us, "us",                                                         \
	      "first step by PyTorch's rule: one bucket, reduced after the backward pass; the "    \
	      "same "                                                                              \
	      "buckets with --find-unused")                                                        \
	FIELD(DOUBLE, error_percent, "%", "predicted_step_us / step_us - 1",                       \
	      BB_COLUMN("error", 6, 1), .place = 14)                                               \
	FIELD(DOUBLE, broadcast_us, "us",                                                          \
	      "broadcast of all parameters from rank 0 by the same algorithm; null: broadcast "    \
	      "does not have it")                                                                  \
	FIELD(DOUBLE, times_one, "", "speed relative to a single bucket",                          \
	      BB_COLUMN("vs one", 7, 3), .place = 15, BB_TIMES)                                    \
	FIELD(DOUBLE, times_tensor, "", "speed relative to a bucket per tensor",                   \
	      BB_COLUMN("vs tensor", 9, 3), .place = 16, BB_TIMES)                                 \
	FIELD(DOUBLE, times_25M, "", "speed relative to buckets of 25 MiB, PyTorch's default",     \
	      BB_COLUMN("vs 25M", 7, 3), .place = 17, BB_TIMES)                                    \
	FIELD(INT, best, "", "1: shortest step with this overlap")                                 \
	FIELD(INT, as_good, "", "1: its confidence interval reaches that of the best")             \
	BB_WRONG_FIELD(FIELD, 18, "elements that differ from the average; null: not verified")     \
	FIELD(NUMBERS, bucket_us, "us", "reduction of each bucket, without computations")          \
	FIELD(NUMBERS, bucket_start_us, "us",                                                      \
	      "begin of each reduction in the last watched step, since its backward pass began")   \
	FIELD(NUMBERS, bucket_end_us, "us", "end of it on the last rank")                          \
	FIELD(DOUBLE, negotiation_us, "us", "Horovod's AND of the cached tensors' bits")           \
	BB_END_FIELD(FIELD)

/* One size of buckets, reduced by one algorithm with or without overlap. */
struct bb_ddp_record {
	BB_DDP_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_ddp;

#define BB_DDP_MOST_CAPS 128
#define BB_DDP_CAP_TEXT 28

/* One grouping of the gradients. */
struct bb_ddp_cap {
	const struct bb_fusion_rule *rule;
	/* Its parameter. ddp: BB_BUCKET_UNLIMITED: a single bucket; 1: a bucket per tensor; 0:
	   --bucket-cap-list. fsdp: 0: blocks. */
	uint64_t bytes;
	double cycle_s;
	char name[BB_DDP_CAP_TEXT]; /* "25M", "one", "tensor", "horovod 128M 1ms" */
	struct bb_buckets buckets;
	size_t program; /* index of the first grouping with the same buckets; its own */
	size_t same; /* index of the first grouping by the same rule with the same buckets; its own
		      */
};

/* The state of the benchmark. */
struct bb_ddp {
	struct bb_ddp_options options; /* first: the rows are read into it */
	struct bb_replica replica;
	/* The requested groupings, then the references 25 MiB, one bucket and a bucket per
	   tensor unless they are requested. */
	struct bb_ddp_cap caps[BB_DDP_MOST_CAPS];
	size_t nrequested, ncaps;
	double *ready_s; /* [tensor]: of its gradient, since the backward pass began */
	struct bb_fusion_tensor *tensors;
	double memory_rate; /* bytes per second of works on memory; 0: they are performed */
	uint64_t room;      /* bytes of the buckets that need most */
	size_t extras[BB_DDP_EXTRAS]; /* elements of calls beside those of the buckets */
	int local;                    /* ranks of a node */
	size_t numbers; /* of a row at most: six of each bucket, and one of each cycle */
	size_t words;   /* of a negotiation; 0: no cycles */
};

/* The gradients of the replica, which is open, and their groupings. BB_EUSAGE names the option
   that is wrong. */
BB_MUST bb_status bb_ddp_group(struct bb_ddp *ddp, const struct bb_options *options,
			       const struct bb_environment *environment, struct bb_error *error);
static inline bool bb_ddp_is_ddp(const struct bb_ddp_cap *cap)
{
	return cap->rule == &bb_fusion_rules[BB_FUSION_DDP];
}
/* One bucket and a bucket per tensor have no cap, nor has a list one. */
static inline bool bb_ddp_is_capped(const struct bb_ddp_cap *cap)
{
	return bb_ddp_is_ddp(cap) && cap->bytes != BB_BUCKET_UNLIMITED && cap->bytes > 1;
}
/* Is its parameter a number of elements or packs, and not of bytes? */
static inline bool bb_ddp_counts(const struct bb_ddp_cap *cap)
{
	return cap->rule->elements || cap->rule->cut || cap->rule->units;
}

/* One of the references: the grouping by DDP's rule with a cap of BYTES. */
const struct bb_ddp_cap *bb_ddp_find_cap(const struct bb_ddp *ddp, uint64_t bytes);

/* The last grouping with the buckets of CAP, which may be CAP. */
const struct bb_ddp_cap *bb_ddp_last_same(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap);

/*
 * A part of a step. Of its watched steps, one in a round, it has times of the ranks that this
 * driver observes. A reduction alone lasts from the last rank's end of the bucket before it to the
 * last rank's end of its own.
 */
struct bb_ddp_variant {
	struct bb_variant variant;
	const struct bb_ddp_cap *cap;
	struct bb_ddp_step step;
	/* Of reductions, since the backward pass began if there is one: [bucket], in the last
	   round; [bucket * BB_ENGINE_MOST_ROUNDS + round], of the last rank. Behind the buckets
	   stand the last negotiation and the extra calls. */
	double *start_s, *ends;
	double *reduce_s; /* likewise: medians of reductions and negotiations alone, at the end */
	double backward_s[BB_ENGINE_MOST_ROUNDS]; /* the first: the median, at the end */
	int rounds;
	double begin;              /* of the backward pass */
	int finals;                /* ranks that have ended this round */
	struct bb_operation final; /* of a watched step: its work and item */
};

/* R, which is initialised, gets the fields of CAP on NRANKS that follow from the request.
   NUMBERS has room for three numbers of each bucket and one of each cycle. */
void bb_ddp_describe_cap(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap, int nranks,
			 double *numbers, struct bb_ddp_record *r);

/* Append what is known of the model. */
void bb_ddp_add_model(const struct bb_ddp *ddp, struct bb_strbuf *out);
/* Append the sizes of buckets, and each bucket with its reductions in the step TIMED[cap],
   unless that is NULL; TIMED may be NULL. */
void bb_ddp_add_buckets(const struct bb_ddp *ddp, const struct bb_ddp_variant *const *timed,
			struct bb_strbuf *out);

extern const struct bb_experiment bb_ddp_experiment;
extern const struct bb_benchmark bb_ddp_benchmark;
