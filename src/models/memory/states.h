/*
 * states.h - the memory of each parameter in training: the parameter itself, its gradient and the
 * state of the optimizer; and how ZeRO divides them among data-parallel ranks. Pure functions of
 * numbers; all bytes are exact.
 *
 *   stage   parameters   gradients   optimizer    FSDP
 *   0       whole        whole       whole        NO_SHARD (and DistributedDataParallel)
 *   1       whole        whole       divided
 *   2       whole        divided     divided      SHARD_GRAD_OP
 *   3       divided      divided     divided      FULL_SHARD
 *
 * Rajbhandari et al., ZeRO (arXiv 1910.02054), section 5 and figure 1.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BB_ZERO_STAGES 4

/* Number formats, as bytes of one parameter. */
struct bb_precision {
	const char *name;
	unsigned parameter; /* as the forward pass reads it */
	unsigned gradient;  /* as the backward pass writes it and ranks reduce it */
	unsigned master;    /* fp32 copies of parameter and gradient, part of the optimizer */
	unsigned moment;    /* each moment of an optimizer without a format of its own */
};

struct bb_optimizer {
	const char *name;
	unsigned moments; /* of each parameter */
	unsigned moment;  /* bytes of one; 0: that of the precision */
	bool factored;    /* one more moment, kept as sums of the rows and columns of a matrix */
};

/* Indices of bb_precisions and bb_optimizers. */
enum bb_precision_index { BB_MIXED, BB_MEGATRON_BF16, BB_MEGATRON_FP16, BB_ALL_FP32, BB_ALL_BF16 };
enum bb_optimizer_index { BB_ADAMW, BB_ADAMW_8BIT, BB_SGD, BB_ADAFACTOR };

/* Both end with name NULL; the words are their names in the same order, and end with NULL. */
extern const struct bb_precision bb_precisions[];
extern const char *const bb_precision_words[];
extern const struct bb_optimizer bb_optimizers[];
extern const char *const bb_optimizer_words[];

struct bb_recipe {
	const struct bb_precision *precision;
	const struct bb_optimizer *optimizer;
};

/* Bytes of the three kinds. */
struct bb_states {
	uint64_t parameters, gradients, optimizer;
};

uint64_t bb_states_sum(const struct bb_states *states);

/* Bytes of one parameter, without a factored moment: {2, 2, 12} is ZeRO's fp16 Adam with K = 12. */
struct bb_states bb_states_each(const struct bb_recipe *recipe);

/*
 * Elements of a rank if ELEMENTS are divided among RANKS (at least 1). As in ZeRO and FSDP they
 * form one flat array, padded to a multiple of RANKS. The padding, less than RANKS elements at the
 * end, takes memory like any other element.
 */
uint64_t bb_partition(uint64_t elements, uint64_t ranks);

/*
 * Bytes of a rank for ELEMENTS (at most 2^56) under ZeRO STAGE (0 to 3) with RANKS data-parallel
 * ranks. FACTORED is the number of sums of rows and columns (bb_factored_elements), 0 unless the
 * optimizer is factored. Only stage 0 allows them, since a flat array has no rows and columns.
 */
struct bb_states bb_states_of_rank(const struct bb_recipe *recipe, uint64_t elements,
				   uint64_t factored, int stage, uint64_t ranks);

/* Sums that Adafactor keeps instead of the squares of a tensor of ROWS x COLUMNS (1: a vector,
   whose squares it keeps). */
uint64_t bb_factored_elements(uint64_t rows, uint64_t columns);

/*
 * Bytes that each of RANKS ranks sends by rings in a step of STEPS microbatches on ELEMENTS.
 * Gradients are reduced and parameters gathered in their own formats; stage 0 reduces and gathers
 * gradients, as an all-reduce. With one microbatch that is 2 times ELEMENTS for stages 0 to 2 and 3
 * times for stage 3, each times (ranks - 1) / ranks, which section 7 of the paper rounds to 1.
 * Stages 0 and 1 reduce once a step, stage 2 for each microbatch; stage 3 gathers twice and reduces
 * once for each microbatch.
 */
uint64_t bb_zero_bytes(const struct bb_recipe *recipe, uint64_t elements, int stage, uint64_t ranks,
		       uint64_t steps);
