/*
 * calculators.h - what the subjects infer, deepspeed and checkpoint of model_memory calculate.
 */
#pragma once

#include "models/memory/training.h"

/* ---- infer.c -------------------------------------------------------------------------------- */

/* Memory of inference: weights and the cache of keys and values. Bytes that exceed 64 bits are
   UINT64_MAX. */

/* Bytes of PARAMETERS (at most 2^56) of BITS (1 to 32) each. */
uint64_t bb_weight_bytes(uint64_t parameters, unsigned bits);

/*
 * The rule of thumb M = P x 4 bytes / (32 / Q) x 1.2 for P PARAMETERS of Q BITS: 20% for everything
 * beside the weights, for any batch and context.
 */
uint64_t bb_serving_rule(uint64_t parameters, unsigned bits);

/*
 * Numbers that the cache of MODEL, a transformer that generates, keeps on each of TP
 * tensor-parallel ranks for a sequence of TOKENS: keys and values of each layer. With grouped-query
 * attention their heads are fewer than those of queries (Ainslie et al., arXiv 2305.13245); if
 * ranks outnumber them, several ranks hold the same head. A local layer keeps those of its window.
 * Latent attention keeps a latent vector and the rotated part of the keys, whole on each rank
 * (arXiv 2405.04434). A layer that attends to an encoder's output, taken to be as long, keeps
 * those, too.
 */
uint64_t bb_cache_numbers(const struct bb_model *model, uint64_t tp, uint64_t tokens);

/* Bytes of NUMBERS of BITS each, for each of SEQUENCES. */
uint64_t bb_cache_bytes(uint64_t numbers, uint64_t sequences, unsigned bits);

/* ---- zero.c --------------------------------------------------------------------------------- */

/*
 * DeepSpeed's own estimates, reproduced exactly: those of
 * estimate_zero2_model_states_mem_needs in deepspeed/runtime/zero/stage_1_and_2.py and of
 * estimate_zero3_model_states_mem_needs in stage3.py. They count only states, of Adam in mixed
 * precision. Bytes that exceed 64 bits are UINT64_MAX.
 */

struct bb_deepspeed_input {
	uint64_t parameters;    /* of the model */
	uint64_t largest_layer; /* parameters of its largest module, for stage 3 */
	uint64_t nodes, gpus_per_node;
};

struct bb_deepspeed_estimate {
	uint64_t gpu;  /* bytes of each GPU */
	uint64_t host; /* bytes of each node's memory, with DeepSpeed's factor of 1.5 for buffers */
};

/* STAGE 2 or 3 with OFFLOAD, of parameters by stage 3 alone. ZERO_INIT: stage 3 creates the model
   under zero.Init, so that no process ever holds all of it. */
struct bb_deepspeed_estimate bb_deepspeed_needs(const struct bb_deepspeed_input *in, int stage,
						enum bb_offload offload, bool zero_init);

/*
 * Stage 2 without offload as documented by DeepSpeed (docs/code-docs, "Memory Requirements"): 4 P +
 * 16 P / GPUs, where its code computes 2 P + 18 P / GPUs.
 */
uint64_t bb_deepspeed_zero2_documented(const struct bb_deepspeed_input *in);

/* ---- checkpoint.c --------------------------------------------------------------------------- */

/*
 * Activation checkpointing, measured: a forward and a backward pass over a chain of layers with
 * real arithmetic. They count the bytes of activations held at any time, and measure the time of
 * recomputation.
 *
 * A layer is y = x + f(x A) B with f(z) = z / (1 + |z|). A widens four times, so a layer keeps its
 * input and inner activations of four times that size, like the feed-forward network of a
 * transformer. Checkpointing every K-th layer keeps only the inputs of those layers. The backward
 * pass goes through segments of K layers from last to first and recomputes their inner activations
 * (Chen et al., arXiv 1604.06174).
 */

#define BB_CHECKPOINT_NEVER 0

/* A chain of layers of one width, with random weights, input and gradient of the output. */
struct bb_chain {
	size_t layers, rows, width; /* rows of the batch */
	float *input;               /* rows x width; owned, with the next two behind it */
	float *ascent;              /* rows x width: gradient of the output */
	float *weights;             /* of layer i A, then B, from i * 8 width² on */
};

struct bb_chain_cost {
	uint64_t most;     /* peak bytes of activations, with the output, without the input */
	size_t repeated;   /* layers whose forward pass was repeated */
	double forward_s;  /* the forward pass */
	double backward_s; /* the backward pass, with recomputation */
	double repeated_s; /* recomputation alone */
};

/* BB_EINTERNAL without memory. The caller frees chain->input. */
BB_MUST bb_status bb_chain_make(struct bb_chain *chain, size_t layers, size_t rows, size_t width,
				struct bb_error *error);

/* Numbers of a pass's results: the output, the gradient of the input, those of the weights. */
size_t bb_chain_results(const struct bb_chain *chain);

/* Run a forward and a backward pass with a checkpoint every EVERY layers (BB_CHECKPOINT_NEVER: all
   activations are kept) into RESULTS[bb_chain_results]. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_chain_run(const struct bb_chain *chain, size_t every, float *results,
			       struct bb_chain_cost *cost, struct bb_error *error);

/* The peak that bb_chain_run must count. In units of an input, 4 rows width bytes, it is 5 L for L
   layers if all is kept; else 1 for the output and the maximum of c + 5 k - 1 over all segments, of
   k layers with c checkpoints before them. */
uint64_t bb_chain_expected(const struct bb_chain *chain, size_t every);
