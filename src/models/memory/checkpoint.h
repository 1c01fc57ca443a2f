/*
 * checkpoint.h - activation checkpointing, measured: a forward and a backward pass over a chain of
 * layers with real arithmetic, which counts the bytes of activations that are there at a time, and
 * the time of what it computes again.
 *
 * A layer is y = x + f(x A) B, f(z) = z / (1 + |z|), A widening four times; so it keeps its input
 * and four times as much inside, as the feed-forward network of a transformer does. Checkpointing
 * every K-th layer keeps the inputs of those layers; the backward pass goes through segments of K
 * layers from last to first and computes what is inside them again (Chen et al., arXiv 1604.06174).
 */
#ifndef BB_MODELS_MEMORY_CHECKPOINT_H
#define BB_MODELS_MEMORY_CHECKPOINT_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_CHECKPOINT_NEVER 0

/* Weights, an input and the gradient of the output, all of a seed. */
struct bb_chain {
	size_t layers, rows, width; /* rows of a batch, all layers of one width */
	float *input, *ascent;      /* rows x width; the second: gradient of the output */
	float *weights;             /* of layer i A, then B, from i * 8 width² on */
};

/* What a pass leaves: the output, the gradient of the input, and of the weights, in one row. */
struct bb_chain_result {
	float *numbers;
	size_t n;
};

struct bb_chain_cost {
	uint64_t most;     /* bytes of activations at a time, with the output, without the input */
	size_t repeated;   /* layers whose forward pass was done again */
	double forward_s;  /* the forward pass */
	double backward_s; /* the backward pass, with what it repeats */
	double repeated_s; /* that alone */
};

/* BB_EINTERNAL without memory. Free CHAIN whatever comes back. */
BB_MUST bb_status bb_chain_make(struct bb_chain *chain, size_t layers, size_t rows, size_t width,
				struct bb_error *error);
void bb_chain_free(struct bb_chain *chain);

BB_MUST bb_status bb_chain_result_make(struct bb_chain_result *result, const struct bb_chain *chain,
				       struct bb_error *error);
void bb_chain_result_free(struct bb_chain_result *result);
/* Bit for bit. */
bool bb_chain_same(const struct bb_chain_result *a, const struct bb_chain_result *b);

/* A forward and a backward pass, EVERY layers a checkpoint (BB_CHECKPOINT_NEVER: all is kept).
   BB_EINTERNAL without memory. */
BB_MUST bb_status bb_chain_run(const struct bb_chain *chain, size_t every,
			       struct bb_chain_result *result, struct bb_chain_cost *cost,
			       struct bb_error *error);

/* What bb_chain_cost.most must be. In units of an input u = 4 rows width bytes, of L layers: 5 L if
   all is kept; else the most of any segment of k layers with c checkpoints before it, c + 5 k - 1,
   and the output. */
uint64_t bb_chain_expected(const struct bb_chain *chain, size_t every);

#endif
