/*
 * tensor.h - the benchmark of tensor and sequence parallelism: a transformer layer, its embedding
 * and its loss split over all ranks.
 *
 *   tensor.c           the benchmark: what it can do, how it begins and ends
 *   options.c          its options
 *   program.c          parts as programs, and what they send; build.c their operations
 *   state.c            small matrices, and what the programs make of them (works.c,
 *                      vocabulary.c, math.c)
 *   equality.c         whether that is what the unsplit part makes
 *   sweep.c            the experiment: parts of a model's size, timed
 *   record.c           its records, and the tables
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_TENSOR_H
#define BB_TRAINING_KERNELS_TENSOR_TENSOR_H

#include "harness/measure/engine.h"
#include "harness/measure/step_options.h"
#include "models/model.h"
#include "training_kernels/tensor/program.h"

#define BB_TENSOR_MOST_SCHEMES 16

#define BB_TENSOR_OPTIONS(OPTION, COMMON)                                                          \
	BB_MODEL_OPTION(OPTION, "gpt2", "whose layer: ", .section = "Model")                       \
	BB_SEQ_OPTION(OPTION)                                                                      \
	OPTION(INT, batch, "micro-batch", 0, "1", "sequences that go through the layer at once",   \
	       .min = 1, .max = INT64_C(1) << 20)                                                  \
	OPTION(INT, layers, "layers", 0, "1", "number of layers of a step, all alike", .min = 1,   \
	       .max = 1024)                                                                        \
	OPTION(DTYPE, dtype, "datatype", 'd', "bfloat16", "datatype of activations",               \
	       .choices = dtypes)                                                                  \
	OPTION(CHOICES, way_choices, "way", 0, "all", "how parts are split, where they can be",    \
	       .choices = way_names, .section = "Parallelism")                                     \
	OPTION(FLAG, equality, "equality", 0, NULL,                                                \
	       "compare split parts with unsplit ones on small matrices; time nothing")            \
	BB_FLOPS_OPTION(OPTION, ": how long its part takes", .section = "Time")                    \
	OPTION(DURATION, layer_ns, "layer-time", 0, "40ms",                                        \
	       "instead of --flops: time of forward and backward pass of the unsplit layer",       \
	       .min = 1, .max = BB_YEAR_NS)                                                        \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	COMMON("iters", 'n', "10", "steps of each kind, over all rounds", .min = 1, .max = 1000000)

struct bb_tensor_options {
	BB_OPTION_MEMBERS(BB_TENSOR_OPTIONS)

	/* Worked out from them. */
	const struct bb_tensor_scheme *schemes[BB_TENSOR_MOST_SCHEMES];
	size_t nschemes;
};

/* The state of the benchmark. */
struct bb_tensor_run {
	struct bb_tensor_options asked; /* first: the rows are read into it */
	struct bb_model model;
	struct bb_tensor_size size;
};

extern const struct bb_option bb_tensor_rows[];
extern const struct bb_benchmark bb_tensor_benchmark;

/* ---- equality ---------------------------------------------------------------------------- */

#define BB_TENSOR_EQUALITY_FIELDS(FIELD)                                                           \
	FIELD(STRING, module, "", "attention, mlp, embedding or loss",                             \
	      BB_COLUMN("module", -10, 0))                                                         \
	FIELD(STRING, way, "", "how it is split", BB_COLUMN("way", -9, 0), BB_KEY)                 \
	FIELD(INT, nranks, "", "over which it is")                                                 \
	FIELD(INT, outputs, "", "numbers of the forward pass that were compared, of all ranks",    \
	      BB_COLUMN("outputs", 8, 0))                                                          \
	FIELD(INT, wrong_outputs, "", "of them differ from the unsplit module's",                  \
	      BB_COLUMN("#wrong", 8, 0))                                                           \
	FIELD(INT, gradients, "", "numbers of the backward pass, likewise",                        \
	      BB_COLUMN("gradients", 9, 0))                                                        \
	FIELD(INT, wrong_gradients, "", "of them differ", BB_COLUMN("#wrong", 8, 0))               \
	FIELD(DOUBLE, off_ulps, "ulps",                                                            \
	      "the furthest off, in units of the last place of its matrix' largest number",        \
	      BB_COLUMN("off", 9, 1))                                                              \
	FIELD(DOUBLE, tolerance_ulps, "ulps", "how far is not wrong yet; 0: bit for bit",          \
	      BB_COLUMN("tolerance", 9, 0))                                                        \
	FIELD(STRING, verdict, "", "equal, wrong, or wrong, as it must be",                        \
	      BB_COLUMN("verdict", -22, 0))                                                        \
	FIELD(BOOL, passed, "", "whether the verdict is what it must be")

/* One module, split one way, against the same unsplit. */
struct bb_tensor_equality_record {
	BB_TENSOR_EQUALITY_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_tensor_equality;

/* NULL, or why results cannot be looked at on this backend, with that many ranks. */
const char *bb_tensor_equality_refuses(const struct bb_run *run);

/*
 * Play every way on small matrices and hold what comes out against the unsplit part; rank 0 tells
 * the sinks. Collective over the world. A row that does not pass counts as wrong in run->end.
 */
BB_MUST bb_status bb_tensor_equality(struct bb_engine *engine);

/* ---- time -------------------------------------------------------------------------------- */

#define BB_TENSOR_FIELDS(FIELD)                                                                    \
	FIELD(STRING, model, "", "as it was asked for")                                            \
	FIELD(STRING, part, "", "layer, embedding or loss", BB_COLUMN("part", -9, 0))              \
	FIELD(STRING, way, "", "how it is split: tensor, sequence, ulysses, ring, gather",         \
	      BB_COLUMN("way", -8, 0), BB_KEY)                                                     \
	FIELD(STRING, dtype, "", "of activations")                                                 \
	FIELD(INT, nranks, "", "that it is split over")                                            \
	FIELD(INT, layers, "", "of a step")                                                        \
	FIELD(INT, seq, "", "tokens of a sequence")                                                \
	FIELD(INT, batch, "", "sequences of a micro-batch")                                        \
	FIELD(INT, calls, "", "collectives and messages that a rank begins in a step",             \
	      BB_COLUMN("calls", 5, 0))                                                            \
	FIELD(DOUBLE, wire_bytes, "bytes",                                                         \
	      "that a rank sends in a step, counted from its operations", BB_COLUMN("wire", 9, 3), \
	      BB_MIB)                                                                              \
	FIELD(DOUBLE, formula_bytes, "bytes", "the same by the formulas of docs/training.md",      \
	      BB_COLUMN("formula", 9, 3), BB_MIB)                                                  \
	FIELD(INT, kept_bytes, "bytes",                                                            \
	      "activations of a layer that each rank keeps, counted from the matrices that the "   \
	      "backward pass reads, with those of dropout; null: no layer, or a gated MLP",        \
	      BB_COLUMN("kept", 9, 3), BB_MIB)                                                     \
	FIELD(INT, kept_formula_bytes, "bytes", "the same by the formulas; null: no layer",        \
	      BB_COLUMN("formula", 9, 3), BB_MIB)                                                  \
	FIELD(INT, kept_unsplit_bytes, "bytes", "that of the unsplit layer")                       \
	FIELD(STRING, compute, "", "what computations stood for: --compute")                       \
	FIELD(DOUBLE, compute_us, "us", "computations without communication: median",              \
	      BB_COLUMN("compute", 8, 3), BB_MS)                                                   \
	FIELD(DOUBLE, communicate_us, "us", "communication without computations: median",          \
	      BB_COLUMN("communic.", 8, 3), BB_MS)                                                 \
	FIELD(DOUBLE, step_us, "us", "both, until the last rank had done it: median",              \
	      BB_COLUMN("step", 8, 3), BB_MS)                                                      \
	FIELD(DOUBLE, low_us, "us", "95% confidence interval of that median")                      \
	FIELD(DOUBLE, high_us, "us", "its upper end")                                              \
	FIELD(DOUBLE, p95_us, "us", "95th percentile of the steps")                                \
	FIELD(DOUBLE, exposed_us, "us", "step_us - compute_us: what the step waits for",           \
	      BB_COLUMN("exposed", 8, 3), BB_MS)                                                   \
	FIELD(DOUBLE, hidden_us, "us",                                                             \
	      "communicate_us - exposed_us; null where nothing is computed",                       \
	      BB_COLUMN("hidden", 8, 3), BB_MS)                                                    \
	FIELD(DOUBLE, hidden, "fraction", "hidden_us / communicate_us", BB_COLUMN("hidden", 6, 1), \
	      BB_SHARE)                                                                            \
	FIELD(INT, samples, "", "steps that were timed")                                           \
	FIELD(DOUBLE, end_unix_s, "s", "when all was measured, since 1970 UTC")

/* A part, split one way, of a model's size. */
struct bb_tensor_record {
	BB_TENSOR_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_tensor;

/* The check of the benchmark (see benchmark.h). Opens the model. */
BB_MUST bb_status bb_tensor_check(const struct bb_benchmark *benchmark, void *own,
				  struct bb_options *options,
				  const struct bb_environment *environment, struct bb_error *error);

extern const struct bb_experiment bb_tensor_experiment;
bb_sink_open bb_tensor_text_open;

#endif
