/*
 * zero.h - the benchmark of ZeRO: mixed-precision Adam steps under each stage. Memory is accounted
 * byte by byte, results are checked bit by bit.
 *
 *   zero.c           options, records, plan, and the experiment: stage by stage, timed and verified
 *   units.c          layers of a model, and their places on a rank
 *   ledger.c         accounted memory
 *   data.c           parameters, gradients, reference; arithmetic
 *   rank.c           a step of a rank under a stage, as a program, and its memory
 */
#ifndef BB_TRAINING_KERNELS_ZERO_ZERO_H
#define BB_TRAINING_KERNELS_ZERO_ZERO_H

#include "training_kernels/kernel/kernel.h"
#include "models/attention.h"
#include "models/memory/states.h"
#include "training_kernels/zero/data.h"

enum bb_zero_overlap { BB_ZERO_OVERLAP_ON, BB_ZERO_OVERLAP_OFF };

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
	OPTION(STRING, algo_text, "algo", 0, "ring",                                               \
	       "algorithm of all collectives; auto: the backend's choice", .argument = "NAME")     \
	OPTION(CHOICE, overlap, "overlap", 0, "on",                                                \
	       "overlap of collectives and computation; off: one after the other",                 \
	       .choices = overlap_names, .usual = true)                                            \
	OPTION(INT, accumulate, "accumulate", 0, "1", "microbatches per step", .min = 1,           \
	       .max = 1024)                                                                        \
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
	      .place = 1)                                                                          \
	FIELD(INT, nranks, "", "ranks that divide the states")                                     \
	FIELD(INT, rank, "", "rank whose memory is reported")                                      \
	FIELD(BOOL, alone, "", "only that rank ran: --as-rank")                                    \
	FIELD(STRING, dtype, "", "of parameters and gradients")                                    \
	FIELD(STRING, algorithm, "", "of the collectives, as requested; null: no collectives")     \
	FIELD(STRING, overlap, "", "on: collectives overlap with computation")                     \
	FIELD(BOOL, offload, "", "optimizer states are in host memory")                            \
	FIELD(INT, parameters, "", "of the model")                                                 \
	FIELD(INT, units, "", "layers; each is reduced and gathered as one")                       \
	FIELD(INT, padding, "", "elements added so that every layer divides evenly",               \
	      BB_COLUMN("padding", 7, 0), .place = 8)                                              \
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
	FIELD(INT, formula_wire_bytes, "bytes", "2, 2, 2 or 3 times the model, times (n-1)/n")     \
	FIELD(DOUBLE, wire_volumes, "", "wire_bytes divided by the bytes of all parameters",       \
	      BB_COLUMN("wire", 8, 4), .place = 18, .head_unit = "(models)")                       \
	FIELD(DOUBLE, step_us, "us", "until the last rank ended: median", BB_COLUMN("step", 8, 2), \
	      .place = 19, BB_MS)                                                                  \
	FIELD(DOUBLE, forward_us, "us", "forward passes of rank 0: median, as all below")          \
	FIELD(DOUBLE, forward_wait_us, "us", "part of it that waited for gathered parameters")     \
	FIELD(DOUBLE, backward_us, "us", "backward passes")                                        \
	FIELD(DOUBLE, backward_wait_us, "us", "part of it that waited for reductions and gathers") \
	FIELD(DOUBLE, optimise_us, "us", "optimizer, including the check for overflows")           \
	FIELD(DOUBLE, gather_us, "us", "gathering parameters after the optimizer")                 \
	FIELD(STRING, checksum, "", "of all parameters after the last step; null: no data",        \
	      BB_COLUMN("checksum", 16, 0), .place = 20)                                           \
	FIELD(STRING, verified, "", "reference of the comparison, bit by bit or by checksum")      \
	FIELD(INT, wrong, "elements",                                                              \
	      "that differ; 1 if only the checksum of the first stage is known; null: not "        \
	      "checked",                                                                           \
	      BB_COLUMN("#wrong", 6, 0), .place = 21, .head_unit = "")                             \
	FIELD(DOUBLE, end_unix_s, "s", "end of the stage, since 1970 UTC")

/* Results of a stage; memory is that of one rank. */
struct bb_zero_record {
	BB_ZERO_FIELDS(BB_MEMBER)
};

#define BB_ZERO_MOMENT_FIELDS(FIELD)                                                               \
	FIELD(INT, stage, "", "of ZeRO")                                                           \
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
extern const struct bb_option bb_zero_rows[];
extern const struct bb_benchmark bb_zero_benchmark;

struct bb_zero_pass {
	double seconds, flops; /* 0: takes no time; FLOPs unknown */
};

/* State of the benchmark. */
struct bb_zero {
	struct bb_zero_options options; /* first member: the target of bb_zero_rows */
	struct bb_zero_units units;
	struct bb_zero_pass forward, backward; /* of a microbatch, beside the work on its data */
	struct bb_recipe recipe;
	int nranks; /* ranks that divide the states */
	bool overlaps;
	bool alone; /* --as-rank: no other rank runs */
	struct bb_zero_data data;
	struct bb_zero_scale scale;      /* before the first step */
	char skips[BB_ZERO_STAGES][256]; /* why a stage is skipped; "": it runs */
};

/* Whether elements are really trained: not by a rank alone, nor by a backend without data. */
static inline bool bb_zero_trains(const struct bb_zero *zero, const struct bb_run *run)
{
	return run->options.backend->has_data && !zero->alone;
}

#endif
