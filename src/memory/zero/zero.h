/*
 * zero.h - the benchmark of ZeRO: a mixed-precision Adam step under each stage, its memory booked
 * byte by byte, its result checked bit by bit.
 *
 *   zero.c           the benchmark: what it can do, how it begins and ends
 *   options.c        its options
 *   units.c          a model's layers, and where they lie in the rows of a rank
 *   ledger.c         memory, booked by what it holds
 *   data.c adam.c    what is trained, and its arithmetic
 *   rank.c           what a rank holds under a stage
 *   calls.c          the collectives of a step
 *   step.c           a step; tape.c in virtual time
 *   drive.c          what every driver does: stage by stage, timed and verified
 *   check.c          what became of the parameters
 *   deliver.c        what comes of it; record.c its fields, text.c the table
 */
#ifndef BB_MEMORY_ZERO_ZERO_H
#define BB_MEMORY_ZERO_ZERO_H

#include "harness/measure/engine.h"
#include "harness/measure/step_options.h"
#include "models/memory/states.h"
#include "memory/zero/data.h"

enum bb_zero_overlap { BB_ZERO_OVERLAP_ON, BB_ZERO_OVERLAP_OFF };

#define BB_ZERO_OPTIONS(OPTION, COMMON)                                                            \
	OPTION(STRING, model_text, "model", 0, "linear:20x200",                                    \
	       "model that is trained: a preset, a family with its hyperparameters (see --list), " \
	       "a config.json, or a number of parameters, such as 7.5M, in 32 layers",             \
	       .argument = "NAME|FILE|COUNT", .section = "Model")                                  \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(DTYPE, dtype, "datatype", 'd', "half",                                              \
	       "datatype of parameters and gradients; half and bfloat16 have fp32 copies and a "   \
	       "loss scale",                                                                       \
	       .choices = dtypes)                                                                  \
	OPTION(SET, stages, "stages", 0, "0,1,2,3",                                                \
	       "what is divided among ranks; 0: nothing, 1: the optimizer, 2: gradients too, 3: "  \
	       "parameters too",                                                                   \
	       .choices = stage_names, .section = "ZeRO")                                          \
	OPTION(STRING, algo_text, "algo", 0, "ring",                                               \
	       "algorithm of all collectives; auto: whichever is best", .argument = "NAME")        \
	OPTION(CHOICE, overlap, "overlap", 0, "on",                                                \
	       "on: collectives run beside the computations; off: one after the other",            \
	       .choices = overlap_names)                                                           \
	OPTION(INT, accumulate, "accumulate", 0, "1", "micro-batches of a step", .min = 1,         \
	       .max = 1024)                                                                        \
	OPTION(FLAG, offload, "offload", 0, NULL,                                                  \
	       "the optimizer's states are in the host's memory (of GPUs)")                        \
	OPTION(INT, iters, "iters", 'n', "5",                                                      \
	       "timed steps, after -w others and without one that overflows", .min = 1,            \
	       .max = 1000000, .section = "Steps")                                                 \
	OPTION(DURATION, step_ns, "step-time", 0, NULL,                                            \
	       "time of forward and backward pass of a micro-batch, beside what the data takes "   \
	       "(default: none)",                                                                  \
	       .min = 1, .max = BB_YEAR_NS)                                                        \
	BB_FLOPS_OPTION(OPTION, ", in place of --step-time")                                       \
	OPTION(INT, batch, "batch", 0, "1",                                                        \
	       "sequences or images of a micro-batch, whose FLOPs --flops counts", .min = 1,       \
	       .max = INT64_C(1) << 30)                                                            \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	OPTION(INT, scale, "loss-scale", 0, "65536",                                               \
	       "loss scale before the first step; it halves when a gradient overflows", .min = 1,  \
	       .max = 65536)                                                                       \
	OPTION(INT, growth, "growth-interval", 0, "2000",                                          \
	       "good steps after which the loss scale doubles, to 65536 at most", .min = 1,        \
	       .max = BB_MOST_COUNT)                                                               \
	OPTION(INT, overflow, "overflow", 0, "2",                                                  \
	       "step in which a gradient of the last rank overflows, from 1; 0: none", .min = 0,   \
	       .max = 1000000, .argument = "STEP")                                                 \
	OPTION(INT, as_rank, "as-rank", 0, "0",                                                    \
	       "hold what this rank of --world would, alone: memory is booked, nothing is sent",   \
	       .min = 0, .max = MOST_RANKS - 1, .argument = "RANK", .section = "One rank of many") \
	OPTION(INT, world, "world", 0, "1", "number of ranks of that world", .min = 1,             \
	       .max = MOST_RANKS)

struct bb_zero_options {
	BB_OPTION_MEMBERS(BB_ZERO_OPTIONS)
};

#define BB_ZERO_FIELDS(FIELD)                                                                      \
	FIELD(STRING, model, "", "as it was asked for")                                            \
	FIELD(INT, stage, "", "of ZeRO; 0: every rank has all", BB_COLUMN("stage", 5, 0),          \
	      .place = 1)                                                                          \
	FIELD(INT, nranks, "", "that states are divided among")                                    \
	FIELD(INT, rank, "", "whose memory it is")                                                 \
	FIELD(BOOL, alone, "", "that rank alone was there: --as-rank")                             \
	FIELD(STRING, dtype, "", "of parameters and gradients")                                    \
	FIELD(STRING, algorithm, "",                                                               \
	      "of the collectives, as it was asked for; null: there are none")                     \
	FIELD(STRING, overlap, "", "on: collectives run beside the computations")                  \
	FIELD(BOOL, offload, "", "the optimizer's states are in the host's memory")                \
	FIELD(INT, parameters, "", "of the model")                                                 \
	FIELD(INT, units, "", "layers, each reduced and gathered as one")                          \
	FIELD(INT, padding, "", "elements beside them, so that every layer divides evenly",        \
	      BB_COLUMN("padding", 7, 0), .place = 8)                                              \
	FIELD(INT, accumulate, "", "micro-batches of a step")                                      \
	FIELD(INT, steps, "", "taken, those included that were skipped")                           \
	FIELD(INT, skipped, "", "because a gradient overflowed")                                   \
	FIELD(DOUBLE, loss_scale, "", "after the last step")                                       \
	FIELD(INT, formula_parameters_bytes, "bytes", "calculated, with the padding")              \
	FIELD(INT, formula_gradients_bytes, "bytes", "calculated")                                 \
	FIELD(INT, formula_optimizer_bytes, "bytes", "calculated")                                 \
	FIELD(INT, formula_bytes, "bytes", "the three together", BB_COLUMN("formula", 8, 3),       \
	      .place = 9, BB_MB)                                                                   \
	FIELD(INT, parameters_bytes, "bytes", "held when most was held",                           \
	      BB_COLUMN("params", 8, 3), .place = 2, BB_MB)                                        \
	FIELD(INT, gradients_bytes, "bytes", "held then", BB_COLUMN("grads", 8, 3), .place = 3,    \
	      BB_MB)                                                                               \
	FIELD(INT, optimizer_bytes, "bytes", "held then, but for what is offloaded",               \
	      BB_COLUMN("optim", 8, 3), .place = 4, BB_MB)                                         \
	FIELD(INT, communication_bytes, "bytes",                                                   \
	      "held then: gathered layers, buckets, what collectives need",                        \
	      BB_COLUMN("comm", 8, 3), .place = 5, BB_MB)                                          \
	FIELD(INT, held_bytes, "bytes", "the four together: the peak", BB_COLUMN("peak", 8, 3),    \
	      .place = 6, BB_MB)                                                                   \
	FIELD(INT, fragmentation_bytes, "bytes", "taken from the backend then and not held",       \
	      BB_COLUMN("frag", 8, 3), .place = 7, BB_MB)                                          \
	FIELD(INT, reserved_bytes, "bytes", "taken from the backend then")                         \
	FIELD(INT, host_bytes, "bytes", "offloaded")                                               \
	FIELD(DOUBLE, states_error_percent, "%",                                                   \
	      "of parameters, gradients and optimizer as held after the last step, against the "   \
	      "formula",                                                                           \
	      BB_COLUMN("off", 6, 2), .place = 10)                                                 \
	FIELD(INT, system_constant_bytes, "bytes",                                                 \
	      "what the process grew by in a step with small layers that came first: threads, "    \
	      "code and what else does not depend on the model's size")                            \
	FIELD(INT, system_bytes, "bytes",                                                          \
	      "what the process then grew by until all steps were done; on GPUs what they are "    \
	      "used more",                                                                         \
	      BB_COLUMN("system", 8, 3), .place = 11, BB_MB)                                       \
	FIELD(INT, system_reserved_bytes, "bytes", "what its ranks have taken from the backend")   \
	FIELD(DOUBLE, system_error_percent, "%",                                                   \
	      "of system_bytes against that; null: of less than 4 MiB a few pages are more than "  \
	      "a percent",                                                                         \
	      BB_COLUMN("off", 6, 2), .place = 12)                                                 \
	FIELD(INT, model_bytes, "bytes", "peak after the model was made",                          \
	      BB_COLUMN("model", 8, 3), .place = 13, BB_MB)                                        \
	FIELD(INT, wrapped_bytes, "bytes", "peak after what communication needs was made",         \
	      BB_COLUMN("wrapped", 8, 3), .place = 14, BB_MB)                                      \
	FIELD(INT, before_bytes, "bytes", "peak before the first step of the optimizer",           \
	      BB_COLUMN("before", 8, 3), .place = 15, BB_MB)                                       \
	FIELD(INT, after_bytes, "bytes", "peak after it", BB_COLUMN("after", 8, 3), .place = 16,   \
	      BB_MB)                                                                               \
	FIELD(INT, wire_bytes, "bytes",                                                            \
	      "that a rank sends in a step, as the algorithm has it (of a library: as a ring "     \
	      "has)",                                                                              \
	      BB_COLUMN("wire", 8, 3), .place = 17, BB_MB)                                         \
	FIELD(INT, formula_wire_bytes, "bytes", "2, 2, 2 or 3 times the model, (n-1)/n of it")     \
	FIELD(DOUBLE, wire_volumes, "", "wire_bytes over those of all parameters",                 \
	      BB_COLUMN("wire", 8, 4), .place = 18, .head_unit = "(models)")                       \
	FIELD(DOUBLE, step_us, "us", "until the last rank was done: median",                       \
	      BB_COLUMN("step", 8, 2), .place = 19, BB_MS)                                         \
	FIELD(DOUBLE, forward_us, "us", "forward passes of rank 0: median, as all below")          \
	FIELD(DOUBLE, forward_wait_us, "us", "of it, waited for gathered parameters")              \
	FIELD(DOUBLE, backward_us, "us", "backward passes")                                        \
	FIELD(DOUBLE, backward_wait_us, "us", "of it, waited for reductions and gathers")          \
	FIELD(DOUBLE, optimise_us, "us", "the optimizer, with the search for overflows")           \
	FIELD(DOUBLE, gather_us, "us", "parameters gathered after it")                             \
	FIELD(STRING, checksum, "",                                                                \
	      "of all parameters after the last step; null: there is no data",                     \
	      BB_COLUMN("checksum", 16, 0), .place = 20)                                           \
	FIELD(STRING, verified, "", "what it was compared with, bit by bit or by its checksum")    \
	FIELD(INT, wrong, "elements",                                                              \
	      "that differ; against the first stage 1 if anything does; null: not looked at",      \
	      BB_COLUMN("#wrong", 6, 0), .place = 21, .head_unit = "")                             \
	FIELD(DOUBLE, end_unix_s, "s", "when it was done, since 1970 UTC")

/* A stage, of one rank where it is about memory. */
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
	FIELD(INT, optimizer_bytes, "bytes", "held now, but for what is offloaded")                \
	FIELD(INT, communication_bytes, "bytes", "held now")                                       \
	FIELD(INT, held_bytes, "bytes", "the four together")                                       \
	FIELD(INT, fragmentation_bytes, "bytes", "taken from the backend and not held")            \
	FIELD(INT, reserved_bytes, "bytes", "taken from the backend")                              \
	FIELD(INT, host_bytes, "bytes", "offloaded")                                               \
	FIELD(INT, peak_bytes, "bytes", "held at most until now")

/* The books of a rank at a point of its first step. */
struct bb_zero_moment_record {
	BB_ZERO_MOMENT_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_zero, bb_record_zero_moment;
extern const struct bb_option bb_zero_rows[];
extern const struct bb_benchmark bb_zero_benchmark;

struct bb_zero_pass {
	double seconds, flops; /* 0: none; not known */
};

/* The state of the benchmark. */
struct bb_zero {
	struct bb_zero_options asked; /* first: the rows are read into it */
	struct bb_zero_units units;
	struct bb_zero_pass forward, backward; /* of a micro-batch, beside what its data takes */
	struct bb_recipe recipe;
	int nranks; /* of the world that the states are divided in */
	bool overlaps;
	bool alone; /* --as-rank: nobody else is there */
	struct bb_zero_data data;
	struct bb_zero_scale scale;        /* before the first step */
	const char *skips[BB_ZERO_STAGES]; /* why a stage is not run; NULL: it is */
	char skip_text[BB_ZERO_STAGES][256];
};

/* The check of the benchmark (see benchmark.h). */
BB_MUST bb_status bb_zero_check(const struct bb_benchmark *benchmark, void *own,
				struct bb_options *options,
				const struct bb_environment *environment, struct bb_error *error);
extern const struct bb_experiment bb_zero_experiment;

/* Is something trained? A rank alone, or one without data, computes nothing. */
static inline bool bb_zero_trains(const struct bb_zero *zero, const struct bb_run *run)
{
	return run->options.backend->has_data && !zero->alone;
}

/* Bytes of the device (not of the host where it is offloaded) that a rank takes at most under
   STAGE, what collectives need left out. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_zero_need(const struct bb_zero *zero, int stage, uint64_t *bytes,
			       struct bb_error *error);

bb_sink_open bb_zero_text_open;
/* Append the '#' line that stands below the row of R, which was timed: what the step is made of. */
void bb_zero_text_phases(const struct bb_zero_record *r, struct bb_strbuf *out);

#endif
