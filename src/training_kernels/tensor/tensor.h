/*
 * tensor.h - the benchmark of tensor and sequence parallelism: a transformer layer, its embedding
 * and its loss split over all ranks.
 *
 *   tensor.c           its options and records, and the experiment: parts of real size, timed,
 *                      and small ones compared with unsplit parts
 *   part.c             parts as lists of steps from matrix to matrix; numbers.c: their arithmetic
 *   program.c          parts as programs, and their bytes
 */
#pragma once

#include "models/model.h"
#include "training_kernels/kernel/kernel.h"
#include "training_kernels/tensor/part.h"

#define BB_TENSOR_MOST_SCHEMES 16

#define BB_TENSOR_OPTIONS(OPTION, COMMON)                                                          \
	BB_MODEL_OPTION(OPTION, "gpt2", "model of the layer: ", .section = "Model")                \
	BB_SEQ_OPTION(OPTION)                                                                      \
	BB_ATTENTION_OPTION(OPTION, "")                                                            \
	OPTION(INT, batch, "micro-batch", 0, "1", "sequences of a micro-batch", .min = 1,          \
	       .max = INT64_C(1) << 20)                                                            \
	OPTION(INT, layers, "layers", 0, "1", "number of equal layers of a step", .min = 1,        \
	       .max = 1024)                                                                        \
	OPTION(DTYPE, dtype, "datatype", 'd', "bfloat16", "datatype of activations",               \
	       .choices = dtypes)                                                                  \
	OPTION(CHOICES, scheme_choices, "scheme", 0, "all",                                        \
	       "schemes that split parts (see --list)", .choices = scheme_names,                   \
	       .section = "Parallelism", .usual = true)                                            \
	OPTION(FLAG, equality, "equality", 0, NULL,                                                \
	       "compare split parts with unsplit ones on small matrices; time nothing",            \
	       .usual = true, .excludes = {{"check=0", "nothing is verified"}})                    \
	BB_FLOPS_OPTION(OPTION, ", for the time of its part", .section = "Time")                   \
	OPTION(DURATION, layer_ns, "layer-time", 0, "40ms",                                        \
	       "instead of --flops: forward and backward pass of the unsplit layer", .min = 1,     \
	       .max = BB_YEAR_NS, .excludes = {{"flops", "both set the time of a layer"}})         \
	BB_COMPUTE_OPTION(OPTION)                                                                  \
	COMMON("iters", 'n', "10", "timed steps of each kind, over all rounds", .min = 1,          \
	       .max = 1000000, .usual = true)

struct bb_tensor_options {
	BB_OPTION_MEMBERS(BB_TENSOR_OPTIONS)

	/* Derived from them. */
	const struct bb_tensor_scheme *schemes[BB_TENSOR_MOST_SCHEMES];
	size_t nschemes;
};

/* The state of the benchmark. */
struct bb_tensor_run {
	struct bb_tensor_options options; /* first: the rows are read into it */
	struct bb_model model;
	struct bb_tensor_size size;
};

extern const struct bb_benchmark bb_tensor_benchmark;

/* ---- programs -------------------------------------------------------------------------------- */

/*
 * Parts of a transformer, forward and backward, split over all ranks, as programs: the steps of
 * part.h. The same programs are timed and compared with the unsplit part.
 *
 * A is an activation of all tokens: tokens x hidden elements. Each of t ranks sends in a layer,
 * forward and backward:
 *
 *   tensor     attention by heads, the first matrix of the MLP by columns and the second by rows:
 *              4 all-reduces of A                  8 (t-1)/t A    Shoeybi et al. 2019, section 3
 *   sequence   the rest by tokens: each all-reduce is an all-gather and a reduce-scatter, and
 *              backward the inputs of attention and MLP are gathered again
 *                                                  10 (t-1)/t A   Korthikanti et al. 2022, 4.2.2
 *   ulysses    all by tokens, attention by heads: all-to-alls of queries, keys, values and output;
 *              with as many heads of keys as of queries
 *                                                  8 (t-1)/t A/t  Jacobs et al. 2023, section 3.2
 *   ring       all by tokens: blocks of keys and values, of width k, go around the ring beside
 *              the computations; backward again, and their gradients one step further
 *                       (t-1) 2 k/h A/t forward, (2t-1) 2 k/h A/t backward    Liu et al. 2023
 *
 * With ulysses and ring every rank holds all weights, whose gradients are then summed as in data
 * parallelism.
 */
struct bb_tensor_form {
	const struct bb_tensor_scheme *scheme;
	const struct bb_tensor_size *size;
	size_t layers;          /* LAYER; else 1 */
	enum bb_step_half half; /* all, or its computations or communication alone */
	/* Real matrices: computations without time are included, and gradients of weights that all
	   ranks hold are summed. */
	bool real;
};

/* The reason why SCHEME cannot split a part of SIZE among NRANKS, constant, or NULL. */
const char *bb_tensor_refuses(const struct bb_tensor_scheme *scheme,
			      const struct bb_tensor_size *size, int nranks);

/*
 * TAPED performs FORM on NRANKS, which bb_tensor_refuses does not refuse: operations of one layer,
 * forward, then backward, for each layer. TAPED must not move. BB_EINTERNAL without memory. Free
 * TAPED whatever comes back.
 */
BB_MUST bb_status bb_tensor_write(struct bb_taped *taped, const struct bb_tensor_form *form,
				  int nranks, struct bb_error *error);

/* Bytes that a rank sends in one layer (bb_taped_traffic) by the formulas above; exact if parts are
   equal. */
double bb_tensor_wire_formula(const struct bb_tensor_scheme *scheme,
			      const struct bb_tensor_size *size, int nranks);

/* ---- equality -------------------------------------------------------------------------------- */

#define BB_TENSOR_EQUALITY_FIELDS(FIELD)                                                           \
	FIELD(STRING, module, "", "attention, mlp, embedding or loss",                             \
	      BB_COLUMN("module", -10, 0))                                                         \
	FIELD(STRING, scheme, "", "scheme of the split", BB_COLUMN("scheme", -9, 0), BB_KEY)       \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, outputs, "", "compared numbers of the forward pass, of all ranks",              \
	      BB_COLUMN("outputs", 8, 0))                                                          \
	FIELD(INT, wrong_outputs, "", "outputs that differ from the unsplit module",               \
	      BB_COLUMN("#wrong", 8, 0))                                                           \
	FIELD(INT, gradients, "", "compared numbers of the backward pass, of all ranks",           \
	      BB_COLUMN("gradients", 9, 0))                                                        \
	FIELD(INT, wrong_gradients, "", "gradients that differ from the unsplit module",           \
	      BB_COLUMN("#wrong", 8, 0))                                                           \
	FIELD(DOUBLE, off_ulps, "ulps",                                                            \
	      "largest difference, in units of the last place of the largest number of its "       \
	      "matrix",                                                                            \
	      BB_COLUMN("off", 9, 1))                                                              \
	FIELD(DOUBLE, tolerance_ulps, "ulps", "tolerated difference; 0: bit for bit",              \
	      BB_COLUMN("tolerance", 9, 0))                                                        \
	FIELD(STRING, verdict, "", "equal, wrong, or wrong, as it must be")                        \
	FIELD(BOOL, passed, "", "whether the verdict is as required")

/* A module split by one scheme, compared with the unsplit module. */
struct bb_tensor_equality_record {
	BB_TENSOR_EQUALITY_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_tensor_equality;

/* ---- time ------------------------------------------------------------------------------------ */

#define BB_TENSOR_FIELDS(FIELD)                                                                    \
	FIELD(STRING, model, "", "name of the model, as requested")                                \
	FIELD(STRING, part, "", "layer, embedding or loss", BB_COLUMN("part", -9, 0))              \
	FIELD(STRING, scheme, "", "scheme of the split: tensor, sequence, ulysses, ring, gather",  \
	      BB_COLUMN("scheme", -8, 0), BB_KEY)                                                  \
	FIELD(STRING, dtype, "", "datatype of activations")                                        \
	FIELD(INT, nranks, "", "number of ranks")                                                  \
	FIELD(INT, layers, "", "layers of a step")                                                 \
	FIELD(INT, seq, "", "tokens of a sequence")                                                \
	FIELD(INT, batch, "", "sequences of a micro-batch")                                        \
	FIELD(INT, calls, "", "collectives and messages of a rank in a step",                      \
	      BB_COLUMN("calls", 5, 0))                                                            \
	FIELD(DOUBLE, wire_bytes, "bytes",                                                         \
	      "bytes that a rank sends in a step, counted from operations",                        \
	      BB_COLUMN("wire", 9, 3), BB_MIB)                                                     \
	FIELD(DOUBLE, formula_bytes, "bytes", "wire_bytes by the formulas of docs/training.md",    \
	      BB_COLUMN("formula", 9, 3), BB_MIB)                                                  \
	FIELD(INT, kept_bytes, "bytes",                                                            \
	      "activations of a layer that each rank keeps for the backward pass, counted from "   \
	      "matrices, with those of dropout; null: no layer, or a gated MLP",                   \
	      BB_COLUMN("kept", 9, 3), BB_MIB)                                                     \
	FIELD(INT, kept_formula_bytes, "bytes", "kept_bytes by the formulas; null: no layer",      \
	      BB_COLUMN("formula", 9, 3), BB_MIB)                                                  \
	FIELD(INT, kept_unsplit_bytes, "bytes", "kept_formula_bytes of the unsplit layer")         \
	FIELD(STRING, attention, "", "kernels of attention")                                       \
	FIELD(STRING, compute, "", "stand-in for computations: --compute")                         \
	BB_HALVES_FIELDS(FIELD)                                                                    \
	BB_END_FIELD(FIELD)

/* A part of real size, split by one scheme. */
struct bb_tensor_record {
	BB_TENSOR_FIELDS(BB_MEMBER)
};

extern const struct bb_record_kind bb_record_tensor;
