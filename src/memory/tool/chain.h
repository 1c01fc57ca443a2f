/*
 * chain.h - activation checkpointing, measured: a forward and a backward pass over a chain of
 * layers with real arithmetic. They count the bytes of activations held at any time, and measure
 * the time of recomputation.
 *
 * A layer is y = x + f(x A) B with f(z) = z / (1 + |z|). A widens four times, so a layer keeps its
 * input and inner activations of four times that size, like the feed-forward network of a
 * transformer. Checkpointing every K-th layer keeps only the inputs of those layers. The backward
 * pass goes through segments of K layers from last to first and recomputes their inner activations
 * (Chen et al., arXiv 1604.06174).
 */
#ifndef BB_MEMORY_TOOL_CHAIN_H
#define BB_MEMORY_TOOL_CHAIN_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_CHECKPOINT_NEVER 0

/* A chain of layers of one width, with random weights, input and gradient of the output. */
struct bb_chain {
	size_t layers, rows, width; /* rows of the batch */
	float *input, *ascent;      /* rows x width; the second: gradient of the output */
	float *weights;             /* of layer i A, then B, from i * 8 width² on */
};

/* Results of a pass in one array: the output, the gradient of the input, the gradients of the
   weights. */
struct bb_chain_result {
	float *numbers;
	size_t n;
};

struct bb_chain_cost {
	uint64_t most;     /* peak bytes of activations, with the output, without the input */
	size_t repeated;   /* layers whose forward pass was repeated */
	double forward_s;  /* the forward pass */
	double backward_s; /* the backward pass, with recomputation */
	double repeated_s; /* recomputation alone */
};

/* BB_EINTERNAL without memory. The caller frees CHAIN whatever is returned. */
BB_MUST bb_status bb_chain_make(struct bb_chain *chain, size_t layers, size_t rows, size_t width,
				struct bb_error *error);
void bb_chain_free(struct bb_chain *chain);

BB_MUST bb_status bb_chain_result_make(struct bb_chain_result *result, const struct bb_chain *chain,
				       struct bb_error *error);
void bb_chain_result_free(struct bb_chain_result *result);
/* Whether A and B are equal bit by bit. */
bool bb_chain_same(const struct bb_chain_result *a, const struct bb_chain_result *b);

/* Run a forward and a backward pass with a checkpoint every EVERY layers (BB_CHECKPOINT_NEVER: all
   activations are kept). BB_EINTERNAL without memory. */
BB_MUST bb_status bb_chain_run(const struct bb_chain *chain, size_t every,
			       struct bb_chain_result *result, struct bb_chain_cost *cost,
			       struct bb_error *error);

/* The peak that bb_chain_run must count. In units of an input, 4 rows width bytes, it is 5 L for L
   layers if all is kept; else 1 for the output and the maximum of c + 5 k - 1 over all segments, of
   k layers with c checkpoints before them. */
uint64_t bb_chain_expected(const struct bb_chain *chain, size_t every);

#endif
