/*
 * states.h - what training keeps of each parameter: the parameter itself, its gradient and the
 * state of the optimizer; and how ZeRO divides them among data-parallel ranks. Pure functions of
 * numbers: nothing is measured or allocated. All bytes are exact.
 *
 *   stage   parameters   gradients   optimizer    FSDP
 *   0       whole        whole       whole        NO_SHARD (and DistributedDataParallel)
 *   1       whole        whole       divided
 *   2       whole        divided     divided      SHARD_GRAD_OP
 *   3       divided      divided     divided      FULL_SHARD
 *
 * Rajbhandari et al., ZeRO (arXiv 1910.02054), section 5 and figure 1.
 */
#ifndef BB_MODELS_MEMORY_STATES_H
#define BB_MODELS_MEMORY_STATES_H

#include <stdbool.h>
#include <stdint.h>

#define BB_ZERO_STAGES 4

/* Which number formats are kept; bytes of one parameter. */
struct bb_precision {
	const char *name;
	const char *brief;
	const char *source;
	unsigned parameter; /* as the forward pass reads it */
	unsigned gradient;  /* as the backward pass writes it, and ranks reduce it */
	unsigned master;    /* belongs to the optimizer: fp32 copies of parameter and gradient */
	unsigned moment;    /* of each moment of the optimizer, unless that has its own format */
};

struct bb_optimizer {
	const char *name;
	const char *brief;
	const char *source;
	unsigned moments; /* of each parameter */
	unsigned moment;  /* bytes of one; 0: the precision says */
	bool factored;    /* one moment more, of which a matrix keeps sums of rows and columns */
};

/* Both end with name NULL. Words are the names alone, in the same order, and end with NULL. */
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

/* Of one parameter, without what is factored: {2, 2, 12} is ZeRO's fp16 Adam with K = 12. */
struct bb_states bb_states_each(const struct bb_recipe *recipe);

/*
 * Elements that a rank has of ELEMENTS divided among RANKS (at least 1): all in one flat row,
 * padded with zeros to a multiple of RANKS, as ZeRO and FSDP have it. The last ranks hold the
 * padding, less than RANKS elements, and it costs memory as any other element.
 */
uint64_t bb_partition(uint64_t elements, uint64_t ranks);

/*
 * What a rank keeps of ELEMENTS (at most 2^56) under ZeRO STAGE (0 … 3) among RANKS data-parallel
 * ranks. FACTORED: elements that the sums of rows and columns have (bb_factored_elements), which
 * stage 0 alone allows, for a flat row has no rows and columns; 0 where the optimizer is not
 * factored.
 */
struct bb_states bb_states_of_rank(const struct bb_recipe *recipe, uint64_t elements,
				   uint64_t factored, int stage, uint64_t ranks);

/* Sums that Adafactor keeps in place of the squares of a tensor of ROWS x COLUMNS (1: a vector,
   which it keeps whole). */
uint64_t bb_factored_elements(uint64_t rows, uint64_t columns);

/*
 * Elements that a rank sends in a step of STEPS micro-batches, by rings, of ELEMENTS in RANKS:
 * section 7 of the paper, where (ranks - 1) / ranks is taken for 1: 2 for stages 0, 1 and 2, 3 for
 * stage 3. Stage 0 and 1 reduce once a step; stage 2 reduces each micro-batch, stage 3 gathers
 * twice and reduces for each.
 */
uint64_t bb_zero_volume(uint64_t elements, int stage, uint64_t ranks, uint64_t steps);
/* The same in bytes: gradients are reduced and parameters gathered in their own formats. Stage 0
   reduces and gathers gradients, an all-reduce. */
uint64_t bb_zero_bytes(const struct bb_recipe *recipe, uint64_t elements, int stage, uint64_t ranks,
		       uint64_t steps);

#endif
