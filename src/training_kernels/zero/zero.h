/*
 * zero.h - the benchmark of ZeRO: mixed-precision Adam steps under each stage. Memory is accounted
 * byte by byte, results are checked bit by bit.
 *
 *   zero.c           options, records, plan, and the experiment: stage by stage, timed and verified
 *   ledger.c         accounted memory
 *   units.c          units of a model, their places on a rank, their codes, time of a pass
 *   data.c           parameters, gradients, reference
 *   settings.c       what options request
 *   coding.c         codes of ZeRO++ in the reference
 *   step.c           a step of a rank under a stage, as a program, and its memory
 *   rank.c           what the rank computes, and how it opens
 *   formula.c        bytes and times by formulas
 */
#pragma once

#include "training_kernels/kernel/kernel.h"
#include "models/memory/ds_config.h"
#include "models/model.h"
#include "training_kernels/zero/coding.h"
#include "training_kernels/zero/data.h"
#include "training_kernels/zero/ledger.h"
#include "training_kernels/zero/units.h"

enum bb_zero_overlap { BB_ZERO_OVERLAP_ON, BB_ZERO_OVERLAP_OFF };

#define BB_ZERO_CODES .on = {{BB_ON_CPUS, "has memory that the CPU, which codes, cannot access"}}

#define BB_ZERO_OPTIONS(OPTION, COMMON)                                                            \
	OPTION(STRING, model_text, "model", 0, "linear:20x200",                                    \
	       "trained model: a preset, a family with its hyperparameters (see --list), a "       \
	       "config.json, or a number of parameters in 32 layers, such as 7.5M",                \
	       .argument = "NAME|FILE|COUNT", .section = "Model", .usual = true)                   \
	BB_SEQ_OPTION(OPTION)                                                                      \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(DTYPE, dtype, "datatype", 'd', "half",                                              \
	       "datatype of parameters and gradients; half and bfloat16 add fp32 copies and a "    \
	       "loss scale",                                                                       \
	       .choices = dtypes, .usual = true)                                                   \
	OPTION(SET, stages, "stages", 0, "0,1,2,3",                                                \
	       "stages of ZeRO: ranks divide 0: nothing, 1: optimizer states, 2: and gradients, "  \
	       "3: and parameters",                                                                \
	       .choices = stage_names, .section = "ZeRO", .usual = true)                           \
	OPTION(STRING, ds_config, "ds-config", 0, NULL,                                            \
	       "ds_config.json of DeepSpeed: stage, precision, loss scale, accumulation, "         \
	       "overlap, optimizer, ZeRO++; what else it has is named and ignored",                \
	       .argument = "FILE")                                                                 \
	OPTION(STRING, algo_text, "algo", 0, "ring",                                               \
	       "algorithm of all collectives; auto: the backend's choice", .argument = "NAME")     \
	OPTION(CHOICE, overlap, "overlap", 0, "on",                                                \
	       "overlap of collectives and computation; off: one after the other",                 \
	       .choices = overlap_names, .usual = true)                                            \
	OPTION(INT, accumulate, "accumulate", 0, "1", "microbatches per step", .min = 1,           \
	       .max = 1024)                                                                        \
	OPTION(STRING, units_text, "units", 0, "layers",                                           \
	       "what is reduced and gathered as one; blocks: each block, and the rest; size: "     \
	       "modules of at least 100M parameters, or COUNT, as FSDP1's size policy",            \
	       .argument = "layers|blocks|size[:COUNT]", .section = "Units")                       \
	OPTION(CHOICE, padding, "padding", 0, "flat",                                              \
	       "what is padded to a multiple of the ranks: a unit, or the rows of each "           \
	       "parameter, as in FSDP2",                                                           \
	       .choices = padding_names)                                                           \
	OPTION(INT, prefetch, "prefetch", 0, "1", "units that stage 3 gathers ahead", .min = 0,    \
	       .max = BB_ZERO_MOST_DEPTH)                                                          \
	OPTION(CHOICE, backward_prefetch, "backward-prefetch", 0, "pre",                           \
	       "when the backward pass issues the next gather; pre: before the computation of a "  \
	       "unit, post: before its reduction, none: behind it",                                \
	       .choices = backward_names)                                                          \
	OPTION(FLAG, separate, "separate-groups", 0, NULL,                                         \
	       "gradients are reduced in a communicator and queue of their own")                   \
	OPTION(INT, reshard, "reshard", 0, NULL,                                                   \
	       "ranks among which parameters stay divided from the forward to the backward pass; " \
	       "1: each keeps all (default: all ranks)",                                           \
	       .min = 1, .max = MOST_RANKS)                                                        \
	OPTION(INT, hpz, "hpz", 0, NULL,                                                           \
	       "hpZ of ZeRO++: the same as --reshard, of a node's ranks", .min = 2,                \
	       .max = MOST_RANKS, .excludes = {{"reshard", "both are one setting"}})               \
	OPTION(FLAG, qwz, "qwz", 0, NULL,                                                          \
	       "qwZ of ZeRO++: stage 3 gathers parameters in int8, except in --reshard groups",    \
	       .excludes = {{"as-rank", "nothing is sent"}}, BB_ZERO_CODES)                        \
	OPTION(INT, qgz, "qgz", 0, NULL,                                                           \
	       "qgZ of ZeRO++: stage 3 reduces gradients in int4, among so many ranks of a node, " \
	       "then across nodes; the default of --algo is then auto",                            \
	       .min = 2, .max = MOST_RANKS, .excludes = {{"as-rank", "nothing is sent"}},          \
	       BB_ZERO_CODES)                                                                      \
	OPTION(DTYPE, reduce_dtype, "reduce-dtype", 0, NULL,                                       \
	       "datatype in which stages 2 and 3 reduce gradients (default: that of -d)",          \
	       .choices = reduce_dtypes)                                                           \
	OPTION(NUMBER, rate, "lr", 0, "0.001", "learning rate of Adam", .min = 0, .max = 1,        \
	       .section = "Optimizer")                                                             \
	OPTION(CHOICE, master, "master", 0, "on",                                                  \
	       "fp32 copy of the parameters; off: each step rounds them to the datatype",          \
	       .choices = overlap_names,                                                           \
	       .excludes = {{"datatype=float", "fp32 parameters need no copy", "off"}})            \
	OPTION(CHOICE, rounding, "rounding", 0, "nearest",                                         \
	       "rounding of parameters without a copy; stochastic: with the right mean",           \
	       .choices = rounding_names,                                                          \
	       .needs = {{"master=off", "parameters with a copy are not rounded step by step"}})   \
	OPTION(INT, gradient_exponent, "gradient-exponent", 0, "-16",                              \
	       "E of gradients that are drawn as multiples of 2^E; small ones need a loss scale",  \
	       .min = -40, .max = -16)                                                             \
	OPTION(FLAG, offload, "offload", 0, NULL, "optimizer states in host memory",               \
	       .gpu_only = true, .on = {{BB_ON_GPUS, "already uses host memory"}})                 \
	OPTION(INT, iters, "iters", 'n', "5",                                                      \
	       "timed steps, after -w warm-up steps; a step that overflows does not count",        \
	       .min = 1, .max = 1000000, .section = "Steps", .usual = true)                        \
	OPTION(DURATION, step_ns, "step-time", 0, NULL,                                            \
	       "duration of the forward and backward pass of a microbatch, in addition to the "    \
	       "work on its data (default: none)",                                                 \
	       .min = 1, .max = BB_YEAR_NS)                                                        \
	BB_FLOPS_OPTION(OPTION, ", in place of --step-time", BB_TIME_CONFLICT)                     \
	OPTION(INT, batch, "batch", 0, "1", "sequences or images per microbatch, for --flops",     \
	       .min = 1, .max = INT64_C(1) << 30, .needs = {{"flops"}})                            \
	BB_COMPUTE_OPTION(OPTION,                                                                  \
			  .needs = {{"step-time flops", "passes take no time"},                    \
				    {"flops", "it multiplies as many numbers", .value = "gemm"}},  \
			  .on = {{BB_ON_GPUS, "multiplies no matrices; give sleep or spin",        \
				  .value = "gemm"}})                                               \
	OPTION(INT, scale, "loss-scale", 0, "65536",                                               \
	       "initial loss scale, a power of two; it halves when a gradient overflows",          \
	       .min = 1, .max = 65536)                                                             \
	OPTION(INT, growth, "growth-interval", 0, "2000",                                          \
	       "good steps until the loss scale doubles, up to 65536", .min = 1,                   \
	       .max = BB_MOST_COUNT)                                                               \
	OPTION(INT, overflow, "overflow", 0, "2",                                                  \
	       "step, from 1, in which a gradient of the last rank overflows; 0: none", .min = 0,  \
	       .max = 1000000, .argument = "STEP",                                                 \
	       .excludes = {{"datatype=float", "fp32 has no loss scale, so gradients cannot "      \
					       "overflow"}})                                       \
	OPTION(INT, as_rank, "as-rank", 0, NULL,                                                   \
	       "rank of --world whose memory this process holds, alone; nothing is sent",          \
	       .min = 0, .max = MOST_RANKS - 1, .argument = "RANK", .section = "One rank of many", \
	       .needs = {{"world"}}, .on = {{BB_ON_DATA, "has no memory"}})                        \
	OPTION(INT, world, "world", 0, "1", "number of ranks that --as-rank is one of", .min = 1,  \
	       .max = MOST_RANKS, .needs = {{"as-rank"}})

struct bb_zero_options {
	BB_OPTION_MEMBERS(BB_ZERO_OPTIONS)
};

#define BB_ZERO_FIELDS(FIELD)                                                                      \
	FIELD(STRING, model, "", "as requested")                                                   \
	FIELD(INT, stage, "", "of ZeRO; 0: every rank holds everything", BB_COLUMN("stage", 5, 0), \
	      BB_KEY, .place = 1)                                                                  \
	FIELD(STRING, phase, "", "of a 1-bit optimizer: warm-up or compressed; null: another",     \
	      BB_COLUMN("phase", -10, 0), BB_KEY, .place = 1, BB_OPTIONAL)                         \
	FIELD(INT, nranks, "", "ranks that divide the states")                                     \
	FIELD(INT, rank, "", "rank whose memory is reported")                                      \
	FIELD(BOOL, alone, "", "only that rank ran: --as-rank")                                    \
	FIELD(STRING, dtype, "", "of parameters and gradients")                                    \
	FIELD(STRING, algorithm, "", "of the collectives, as requested; null: no collectives")     \
	FIELD(STRING, overlap, "", "on: collectives overlap with computation")                     \
	FIELD(BOOL, offload, "", "optimizer states are in host memory")                            \
	FIELD(INT, parameters, "", "of the model")                                                 \
	FIELD(INT, units, "", "layers, or those of --units; each is reduced and gathered as one")  \
	FIELD(INT, padding, "", "elements added so that every unit divides evenly",                \
	      BB_COLUMN("padding", 7, 0), .place = 8)                                              \
	FIELD(INT, gathered_units, "", "stage 3: most units gathered at once")                     \
	FIELD(INT, second_bytes, "bytes", "of parameters divided among --reshard ranks")           \
	FIELD(INT, accumulate, "", "microbatches per step")                                        \
	FIELD(INT, steps, "", "including skipped ones")                                            \
	FIELD(INT, skipped, "", "steps skipped because a gradient overflowed")                     \
	FIELD(DOUBLE, loss_scale, "", "after the last step")                                       \
	FIELD(INT, formula_parameters_bytes, "bytes", "calculated, with padding")                  \
	FIELD(INT, formula_gradients_bytes, "bytes", "calculated")                                 \
	FIELD(INT, formula_optimizer_bytes, "bytes", "calculated")                                 \
	FIELD(INT, formula_bytes, "bytes", "sum of the three", BB_COLUMN("formula", 8, 3),         \
	      .place = 9, BB_MB)                                                                   \
	FIELD(INT, parameters_bytes, "bytes", "held at the peak", BB_COLUMN("params", 8, 3),       \
	      .place = 2, BB_MB)                                                                   \
	FIELD(INT, gradients_bytes, "bytes", "held at the peak", BB_COLUMN("grads", 8, 3),         \
	      .place = 3, BB_MB)                                                                   \
	FIELD(INT, optimizer_bytes, "bytes", "held at the peak, without offloaded states",         \
	      BB_COLUMN("optim", 8, 3), .place = 4, BB_MB)                                         \
	FIELD(INT, communication_bytes, "bytes",                                                   \
	      "held at the peak: gathered layers, buckets, buffers of collectives",                \
	      BB_COLUMN("comm", 8, 3), .place = 5, BB_MB)                                          \
	FIELD(INT, held_bytes, "bytes", "sum of the four: the peak", BB_COLUMN("peak", 8, 3),      \
	      .place = 6, BB_MB)                                                                   \
	FIELD(INT, fragmentation_bytes, "bytes",                                                   \
	      "allocated from the backend but not held, at the peak", BB_COLUMN("frag", 8, 3),     \
	      .place = 7, BB_MB)                                                                   \
	FIELD(INT, reserved_bytes, "bytes", "allocated from the backend at the peak")              \
	FIELD(INT, host_bytes, "bytes", "offloaded")                                               \
	FIELD(DOUBLE, states_error_percent, "%",                                                   \
	      "deviation of the states held after the last step (parameters, gradients, "          \
	      "optimizer) from the formula",                                                       \
	      BB_COLUMN("off", 6, 2), .place = 10)                                                 \
	FIELD(INT, system_constant_bytes, "bytes",                                                 \
	      "growth of the process in a first step with small layers: threads, code and "        \
	      "whatever does not depend on the size of the model")                                 \
	FIELD(INT, system_bytes, "bytes",                                                          \
	      "growth of the process from then until the last step; on GPUs growth of their "      \
	      "used memory",                                                                       \
	      BB_COLUMN("system", 8, 3), .place = 11, BB_MB)                                       \
	FIELD(INT, system_reserved_bytes, "bytes",                                                 \
	      "allocated from the backend by all ranks of the process")                            \
	FIELD(DOUBLE, system_error_percent, "%",                                                   \
	      "deviation of system_bytes from system_reserved_bytes; null: below 4 MiB a few "     \
	      "pages exceed one percent",                                                          \
	      BB_COLUMN("excess", 6, 2), .place = 12)                                              \
	FIELD(INT, model_bytes, "bytes", "peak after the model is made", BB_COLUMN("model", 8, 3), \
	      .place = 13, BB_MB)                                                                  \
	FIELD(INT, wrapped_bytes, "bytes", "peak after buffers of collectives are allocated",      \
	      BB_COLUMN("wrapped", 8, 3), .place = 14, BB_MB)                                      \
	FIELD(INT, before_bytes, "bytes", "peak before the first optimizer step",                  \
	      BB_COLUMN("before", 8, 3), .place = 15, BB_MB)                                       \
	FIELD(INT, after_bytes, "bytes", "peak after it", BB_COLUMN("after", 8, 3), .place = 16,   \
	      BB_MB)                                                                               \
	FIELD(INT, wire_bytes, "bytes",                                                            \
	      "sent by a rank per step, by the algorithm; for a library, by a ring",               \
	      BB_COLUMN("wire", 8, 3), .place = 17, BB_MB)                                         \
	FIELD(INT, formula_wire_bytes, "bytes",                                                    \
	      "2, 2, 2 or 3 times the model, times (n-1)/n; with --reshard H the last gather is "  \
	      "(H-1)/H")                                                                           \
	FIELD(INT, across_bytes, "bytes",                                                          \
	      "stage 3: sent by a node of --reshard or --qgz ranks to others per step by rings, "  \
	      "calculated")                                                                        \
	FIELD(DOUBLE, wire_volumes, "", "wire_bytes divided by the bytes of all parameters",       \
	      BB_COLUMN("wire", 8, 4), .place = 18, .head_unit = "(models)")                       \
	FIELD(DOUBLE, step_us, "us", "until the last rank ended: median", BB_COLUMN("step", 8, 2), \
	      .place = 19, BB_MS)                                                                  \
	FIELD(DOUBLE, forward_us, "us", "forward passes of rank 0: median, as all below")          \
	FIELD(DOUBLE, forward_wait_us, "us", "part of it that waited for gathered parameters")     \
	FIELD(DOUBLE, backward_us, "us", "backward passes")                                        \
	FIELD(DOUBLE, backward_wait_us, "us", "part of it that waited for reductions and gathers") \
	FIELD(DOUBLE, forward_gather_us, "us", "all-gathers of forward passes, one by one")        \
	FIELD(DOUBLE, backward_gather_us, "us", "all-gathers of backward passes")                  \
	FIELD(DOUBLE, reduce_us, "us", "reductions of backward passes")                            \
	FIELD(DOUBLE, formula_forward_us, "us",                                                    \
	      "stage 3: forward passes of equal units that compute and gather as long")            \
	FIELD(DOUBLE, formula_backward_us, "us", "likewise, backward passes")                      \
	FIELD(DOUBLE, optimise_us, "us", "optimizer, including the check for overflows")           \
	FIELD(DOUBLE, gather_us, "us", "gathering parameters after the optimizer")                 \
	FIELD(STRING, checksum, "", "of all parameters after the last step; null: no data",        \
	      BB_COLUMN("checksum", 16, 0), .place = 20)                                           \
	FIELD(DOUBLE, feedback_gap, "",                                                            \
	      "difference of the exchanged results and the errors in memory from what was to be "  \
	      "exchanged, weighed by random numbers, relative to its norm; null: no feedback")     \
	FIELD(STRING, verified, "", "reference of the comparison, bit by bit or by checksum")      \
	FIELD(INT, wrong, "elements",                                                              \
	      "that differ; 1 if only the checksum of the first stage is known; null: not "        \
	      "checked",                                                                           \
	      BB_COLUMN("#wrong", 6, 0), .place = 21, .head_unit = "")                             \
	FIELD(DOUBLE, gather_error, "",                                                            \
	      "parameters by --qwz, all steps: root mean square of errors / that of parameters")   \
	FIELD(DOUBLE, reduce_error, "", "likewise, sums of gradients by --qgz")                    \
	FIELD(DOUBLE, end_unix_s, "s", "end of the stage, since 1970 UTC")                         \
	FIELD(STRING, master, "", "on: parameters have an fp32 copy; off: none")                   \
	FIELD(STRING, rounding, "", "of parameters without a copy; null: they have one")           \
	FIELD(INT, updates, "", "of parameters by the optimizer, in all steps")                    \
	FIELD(INT, unchanged, "", "without a copy: updates that rounding undid; null: with one")   \
	FIELD(INT, drawn, "", "gradients of all ranks in these steps")                             \
	FIELD(INT, flushed, "", "those that the datatype flushed to 0")                            \
	FIELD(DOUBLE, drift, "fraction",                                                           \
	      "without a copy: RMS difference of the parameters from fp32 ones with the same "     \
	      "gradients, over the RMS movement of those; null: no reference")

/* Results of a stage; memory is that of one rank. */
struct bb_zero_record {
	BB_ZERO_FIELDS(BB_MEMBER)
};

#define BB_ZERO_MOMENT_FIELDS(FIELD)                                                               \
	FIELD(INT, stage, "", "of ZeRO")                                                           \
	FIELD(STRING, phase, "", "of a 1-bit optimizer: warm-up or compressed; null: another")     \
	FIELD(STRING, moment, "",                                                                  \
	      "model, wrapped, forward, backward, before optimizer, after optimizer")              \
	FIELD(INT, item, "", "layer of a forward or backward pass, from 0")                        \
	FIELD(INT, parameters_bytes, "bytes", "held now")                                          \
	FIELD(INT, gradients_bytes, "bytes", "held now")                                           \
	FIELD(INT, optimizer_bytes, "bytes", "held now, without offloaded states")                 \
	FIELD(INT, communication_bytes, "bytes", "held now")                                       \
	FIELD(INT, held_bytes, "bytes", "sum of the four")                                         \
	FIELD(INT, fragmentation_bytes, "bytes", "allocated from the backend but not held")        \
	FIELD(INT, reserved_bytes, "bytes", "allocated from the backend")                          \
	FIELD(INT, host_bytes, "bytes", "offloaded")                                               \
	FIELD(INT, peak_bytes, "bytes", "most held until now")

/* Memory of a rank at a point of its first step. */
struct bb_zero_moment_record {
	BB_ZERO_MOMENT_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_zero, bb_record_zero_moment;
extern const struct bb_benchmark bb_zero_benchmark;

struct bb_zero_pass {
	double seconds, flops; /* 0: takes no time; FLOPs unknown */
};

/* State of the benchmark. */
struct bb_zero {
	struct bb_zero_options options; /* first member: the target of its options */
	struct bb_zero_units units;
	double memory_rate; /* bytes per second, at which codes are made in virtual time */
	struct bb_zero_pass passes[2]; /* forward, backward: of a microbatch, beside the work on
					  its data */
	struct bb_recipe recipe;
	int nranks; /* ranks that divide the states */
	bool alone; /* --as-rank: no other rank runs */
	struct bb_zero_data data;
	struct bb_ds_config config;      /* of --ds-config; zeroed without */
	char ignored[512];               /* keys of it without a counterpart */
	struct bb_zero_scale scale;      /* before the first step */
	char skips[BB_ZERO_STAGES][256]; /* why a stage is skipped; "": it runs */
};

/* Whether elements are really trained: not by a rank alone, nor by a backend without data. */
static inline bool bb_zero_trains(const struct bb_zero *zero, const struct bb_run *run)
{
	return run->options.backend->has_data && !zero->alone;
}

/* Take the settings of --ds-config as the options. BB_EUSAGE if one was given another value, or if
   the step of its optimizer is not known here. NODE_RANKS of a node; 0: unknown. */
BB_MUST bb_status bb_zero_apply_ds_config(struct bb_zero *zero, int node_ranks,
					  struct bb_error *error);
/* Refuse options of stages that are not requested, and those that contradict each other. */
BB_MUST bb_status bb_zero_check_stages(const struct bb_zero_options *options,
				       struct bb_error *error);
/* Open the units of --model, and set time and FLOPs of a microbatch. */
BB_MUST bb_status bb_zero_open_units(struct bb_zero *zero, struct bb_error *error);

/* ---- a rank ---------------------------------------------------------------------------------- */

/*
 * One rank under one stage: its memory, and its step as a program that all ranks perform.
 *
 * Writing the program acquires and releases memory as the step does, so that the ledger knows every
 * byte before anything runs; its operations have the addresses.
 */
#define BB_ZERO_BLOCK ((size_t)16 << 10) /* elements that the CPU processes at a time */
#define BB_ZERO_ARRAYS 5                 /* most, on which a computation works */
#define BB_ZERO_BLOCKS 7                 /* as many copies of memory, two for arithmetic */

/* Points of a step at which memory is recorded. */
enum bb_zero_point {
	BB_ZERO_MODEL,   /* parameters are allocated */
	BB_ZERO_WRAPPED, /* and buffers of collectives */
	BB_ZERO_FORWARD, /* of a layer, before its parameters are freed */
	BB_ZERO_BACKWARD,
	BB_ZERO_BEFORE, /* the optimizer */
	BB_ZERO_AFTER,
	BB_ZERO_POINTS
};

struct bb_zero_moment {
	enum bb_zero_point point;
	size_t item;
	struct bb_usage now;
	uint64_t peak; /* most bytes held until then */
};

/* The part of a step that an operation belongs to, its work. */
enum bb_zero_phase {
	BB_ZERO_IN_FORWARD,
	BB_ZERO_IN_BACKWARD,
	BB_ZERO_IN_OPTIMIZER,
	BB_ZERO_IN_GATHER,
	BB_ZERO_PHASES
};

/* What is done with elements. */
enum bb_zero_action {
	BB_ZERO_BEGIN,   /* make the initial parameters */
	BB_ZERO_CLEAR,   /* fill with zeros */
	BB_ZERO_SUM,     /* add up the parameters of a unit: its forward pass */
	BB_ZERO_DRAW,    /* make the gradients of a unit */
	BB_ZERO_MOVE,    /* copy elements */
	BB_ZERO_INSPECT, /* look for gradients that overflow */
	BB_ZERO_UPDATE,  /* the optimizer, unless they do */
	BB_ZERO_GIVE,    /* what a unit gives to the exchange of signs */
	BB_ZERO_GET,     /* the momentum of a unit, from its result */
	BB_ZERO_CALL,    /* a collective on TO */
	BB_ZERO_CODE     /* a step of an exchange of codes */
};

/* How elements are moved; 0: bytes of the datatype. */
enum bb_zero_move {
	BB_ZERO_FROM_FP32 = 1,
	BB_ZERO_TO_FP32 = 2,
	BB_ZERO_ADD = 4,      /* to those that are there */
	BB_ZERO_FROM_MEAN = 8 /* of all ranks, to their sum */
};

/* What an operation does: the item is its number. */
struct bb_zero_work {
	enum bb_zero_action action;
	size_t unit; /* CALL, CODE: kind of collective */
	int64_t microbatch;
	void *from, *to;
	uint64_t count;  /* MOVE: elements; CODE: step of the exchange */
	unsigned how;    /* MOVE: enum bb_zero_move */
	size_t exchange; /* CODE: its number */
};

/* Memory of a unit that is used. */
struct bb_zero_live {
	struct bb_held parameters, bucket; /* stage 3: gathered; stages 2 and 3: gradients */
	struct bb_held codes;              /* of gathers and their numbers */
	struct bb_coded_form forms[2];     /* of gathers and reductions with codes, or signs */
	float *numbers;                    /* decoded parameters */
	void *reduced;                     /* this rank's gradients */
	int gathered, sent;                /* events of collectives that nothing has awaited, or
						 BB_ZERO_NO_EVENT */
};
#define BB_ZERO_NO_EVENT (-1)

/* Durations of a step: phases, parts of them that waited for collectives, collectives by kind. */
#define BB_ZERO_COLLECTIVES 3 /* gathers of both passes, reductions */
#define BB_ZERO_TIMES (2 * BB_ZERO_PHASES + BB_ZERO_COLLECTIVES)

struct bb_zero_rank {
	struct bb_variant variant; /* its tapes are the program */
	const struct bb_zero *zero;
	float (*blocks)[BB_ZERO_BLOCK]; /* borrowed */
	int stage, rank;                /* of the ranks that divide the states */
	bool data;                      /* elements are really trained */
	bool has_peers;                 /* other ranks run */
	int reshard; /* ranks among which parameters stay divided; 1: none, 0: not requested */
	bool gathers_codes, reduces_codes;
	struct bb_coded_form nodes; /* groups: of nodes of --reshard or --qgz ranks, and across */
	struct bb_zero_places places;
	struct bb_ledger ledger;

	/* Arrays, whole or divided according to the stage. */
	struct bb_held parameters, gradients;
	struct bb_held master, moment1, moment2; /* divided */
	struct bb_held second;                   /* parameters divided among --reshard ranks */
	struct bb_held flag;                     /* does any gradient overflow? */

	/* Compressed steps of a 1-bit optimizer. */
	bool compressed;
	struct bb_held codes, errors; /* of the exchange of signs */
	struct bb_coded_balance balance;

	/* What is written. */
	struct bb_zero_live *live; /* [unit] */
	size_t reducing;           /* unit in whose bucket a reduction was begun; SIZE_MAX: none */
	size_t gathered, most_gathered; /* units, now and at most */
	struct bb_zero_work *works;
	size_t nworks, work_room;
	struct bb_coded *exchanges; /* of codes; of signs [unit] */
	size_t nexchanges, exchange_room;
	enum bb_zero_phase phase;
	struct bb_zero_moment *moments; /* of the first step */
	size_t nmoments, moment_room;
	bool noted; /* the first step is written */
	/* Temporary memory of collectives, which the runner allocates; among the held memory. */
	size_t tmp_bytes;
	uint64_t wire; /* bytes sent in a step, without the flag */

	/* The training. */
	int64_t step;   /* from 1 */
	uint64_t taken; /* steps of the optimizer */
	struct bb_zero_scale scale;
	int64_t skipped;  /* steps before this one */
	uint64_t forward; /* sum of the forward pass */
	/* Gradients flushed to 0 in the current step, and in earlier ones; updates undone. */
	uint64_t flushing, flushed, unchanged;
	bool overflowed;
	bb_status status; /* the first failure, after which nothing more is done */

	double times[BB_ZERO_TIMES]; /* of the current step of rank 0 */
	double last;                 /* end of the previous operation */
};

/* Queues of a step; groups of an operation before a rank completes it, as in enum bb_coded_family,
   and of reductions. */
enum bb_zero_queue { BB_ZERO_COMPUTING, BB_ZERO_COMMUNICATING, BB_ZERO_REDUCING };
enum bb_zero_group { BB_ZERO_ALL, BB_ZERO_NODE, BB_ZERO_ACROSS, BB_ZERO_REDUCERS };

static inline size_t bb_zero_size(const struct bb_zero_rank *z)
{
	return bb_dtype_size(z->zero->options.dtype);
}

/* The datatype in which gradients are reduced. */
static inline enum bb_dtype bb_zero_reduced(const struct bb_zero_rank *z)
{
	const struct bb_zero_options *a = &z->zero->options;

	return a->reduce_dtype_given && z->stage >= 2 ? a->reduce_dtype : a->dtype;
}

static inline struct bb_engine *bb_zero_engine(const struct bb_zero_rank *z)
{
	return &z->variant.kernel->engine;
}

static inline bool bb_zero_has_master(const struct bb_zero_rank *z)
{
	return z->zero->options.dtype != BB_FLOAT && !z->zero->data.bare;
}

/* Acquire BYTES for HOLDING from the ledger, filled with zeros, unless something has failed
   before. */
void bb_zero_acquire(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes, bool host,
		     struct bb_held *held);
/* Record the memory at POINT of the first step. */
void bb_zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item);
/* Write the next step to the tape. Without memory it is incomplete. */
void bb_zero_write_step(struct bb_zero_rank *z);

/*
 * Allocate the parameters of Z, of which only the variant's kernel, zero, blocks, stage, rank
 * and compressed are set, and write the program of its steps, of which there will be STEPS. It goes
 * on where BEFORE ended, whose steps are not compressed; NULL: it begins. The caller calls
 * bb_zero_rank_close whatever is returned.
 */
BB_MUST bb_status bb_zero_rank_open(struct bb_zero_rank *z, int64_t steps,
				    const struct bb_zero_rank *before);
void bb_zero_rank_close(struct bb_variant *variant); /* of Z; zeroed or closed: no-op */

/* TRIAL = that of Z's program, of BB_TIMING_STEPS, without name, steps and stepped. It sets
   tmp_bytes and wire before its first step. */
void bb_zero_rank_trial(struct bb_zero_rank *z, struct bb_trial *trial);

/* Elements of SIZE bytes of Z's memory; HOST: in host memory on any backend. */
struct bb_zero_array {
	char *at;
	size_t size;
	bool host;
	bool written; /* not only read */
};

/* Call WORK for all blocks of the elements of unit U, without padding, in ARRAYS (at most
   BB_ZERO_ARRAYS), which begin with its first part; MINE: of this rank's part alone, with which
   they begin. The CPU can access N elements of a block, of which the first is element FIRST of the
   model, at SEEN[array]. Sets z->status if it cannot. */
typedef void bb_zero_block(struct bb_zero_rank *z, void *own, uint64_t first, size_t n,
			   void *const *seen);
void bb_zero_each(struct bb_zero_rank *z, const struct bb_zero_array *arrays, int narrays, size_t u,
		  bool mine, bb_zero_block *work, void *own);

/* ---- formulas -------------------------------------------------------------------------------- */

/* Set the bytes that a rank, and a node to others, sends in a step by rings. */
void bb_zero_formula_bytes(const struct bb_zero_rank *z, struct bb_zero_record *r);
/* Set what the passes of R, whose times are set, take by bb_zero_pass_seconds. */
void bb_zero_formula_passes(const struct bb_zero_rank *z, struct bb_zero_record *r);
/* Append lines of what the options of units, gathers and codes come to, if any is given. */
void bb_zero_formula_add(const struct bb_zero_options *options, const struct bb_zero_record *r,
			 struct bb_strbuf *out);
