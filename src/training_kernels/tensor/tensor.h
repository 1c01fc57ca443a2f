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
 *   record.c           what comes of it, text.c as text
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_TENSOR_H
#define BB_TRAINING_KERNELS_TENSOR_TENSOR_H

#include "harness/measure/engine.h"
#include "models/model.h"
#include "training_kernels/tensor/program.h"

#define BB_TENSOR_MOST_WAYS 16

struct bb_tensor_options {
	/* As given. */
	const char *model_text, *way_text, *dtype_text, *flops_text;
	int64_t seq; /* 0: the model's */
	int64_t batch, layers, iters;
	bool iters_given;
	uint64_t layer_ns; /* forward and backward of the unsplit layer */
	int stand_in;      /* enum bb_stand_in */
	bool equality, layer_given;

	/* Worked out from them. */
	enum bb_dtype dtype;
	double flops; /* of a rank, per second; 0: not given */
	const struct bb_tensor_way *ways[BB_TENSOR_MOST_WAYS];
	size_t nways;
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

/* One module, split one way, against the same unsplit. */
struct bb_tensor_equality_record {
	const char *module; /* "attention", "mlp", "embedding", "loss" */
	const char *way;
	int64_t nranks;
	int64_t outputs, gradients; /* numbers of all ranks that were compared */
	int64_t wrong_outputs, wrong_gradients;
	double tolerance_ulps; /* 0: bit for bit */
	double off_ulps;       /* the furthest off */
	const char *verdict;   /* "equal", "wrong", "wrong, as it must be", … */
	bool passed;
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

/* A part, split one way, of a model's size. */
struct bb_tensor_record {
	const char *model, *part, *way, *dtype;
	int64_t nranks, layers, seq, batch;
	int64_t calls; /* of communication, by a rank */
	double wire_bytes, formula_bytes;
	int64_t kept_bytes; /* by each rank, of a layer's activations: counted */
	int64_t kept_formula_bytes, kept_unsplit_bytes;
	const char *compute;
	double compute_us, communicate_us, step_us, low_us, high_us, p95_us;
	double exposed_us, hidden_us, hidden;
	int64_t samples;
	double end_unix_s;
};

extern const struct bb_record_kind bb_record_tensor;

/* The check of the benchmark (see benchmark.h). Opens the model. */
BB_MUST bb_status bb_tensor_check(const struct bb_benchmark *benchmark, void *own,
				  struct bb_options *options,
				  const struct bb_environment *environment, struct bb_error *error);

extern const struct bb_experiment bb_tensor_experiment;
bb_sink_open bb_tensor_text_open;

#endif
