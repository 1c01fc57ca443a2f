/*
 * program.h - a step of hybrid-parallel training as a program (programs/program.h): the
 * micro-batches of each replica go through the stages by 1F1B, the tensor ranks of a stage do every
 * pass together, replicas that divide the experts exchange tokens, and at the end gradients are
 * averaged.
 *
 * All tensor ranks of a stage of all replicas do the same. In a pass each layer has two halves,
 * attention and feed-forward network, one operation after another:
 *
 *   forward    a computation and an all-reduce; with sequence parallelism an all-gather, a
 *              computation and a reduce-scatter, between which each rank has its own tokens
 *   backward   the same; with sequence parallelism the input is gathered again
 *   experts    in a layer that has them the second half begins with a dispatch of rows to their
 * experts and ends with a combine (moe/exchange.h); with sequence parallelism the rows at a rank's
 * experts are gathered between them
 *
 * With full recomputation a backward pass begins with the forward pass of the stage's layers. The
 * first stage sums the embeddings that its tensor ranks look up; the last stage computes the head
 * and sums the gradient of its input, and three numbers per token for the loss (cost.h).
 *
 * At the end of the step the first and the last stage sum the gradient of an embedding that they
 * share. Then come an all-reduce of the gradients or, with stage 1 of ZeRO, a reduce-scatter of
 * them and an all-gather of the parameters; those of experts among the replicas with the same
 * experts.
 */
#pragma once

#include "models/model.h"
#include "training_kernels/hybrid/layout.h"
#include "training_kernels/moe/exchange.h"

/* The work of an operation; the parts of a program are several of them. */
enum bb_hybrid_work {
	BB_HYBRID_COMPUTE = 1,
	BB_HYBRID_TENSOR = 2,   /* item: half of the layer, or BB_HYBRID_LOSS */
	BB_HYBRID_PIPELINE = 4, /* messages, and the events around them */
	BB_HYBRID_DATA = 8,     /* item: 1 for gradients and parameters of experts, else 0 */
	/* Messages, with the place of the peer as item: dispatches on even lanes, combines on odd
	   ones; and events. */
	BB_HYBRID_EXPERT = 16,
	BB_HYBRID_EMBEDDING = 32,
	BB_HYBRID_STEP = 63
};

/* The queue of computations and collectives; messages have others. */
#define BB_HYBRID_COMPUTES 0

#define BB_HYBRID_HALVES 2
#define BB_HYBRID_LOSS BB_HYBRID_HALVES
#define BB_HYBRID_FAMILIES 4

/* Computations of a micro-batch on a rank. */
struct bb_hybrid_time {
	double forward_s, backward_s;
	double flops; /* of both; 0: unknown */
};

struct bb_hybrid_shape {
	struct bb_grid grid;
	int layers; /* of the model, divided by bb_layers_before */
	int micro_batches;
	/* Of a layer, which has experts if the model has any; of those that have none. */
	struct bb_hybrid_time layer, dense_layer;
	struct bb_hybrid_time embedding, head;
	/* Borrowed: its bb_model_block says which layers have experts. NULL: all are alike. */
	const struct bb_model *model;
	size_t activation;      /* elements of a micro-batch between layers */
	size_t tokens;          /* of a micro-batch */
	size_t shared;          /* elements of a rank's embedding that the head shares; 0: none */
	bool sequence_parallel; /* tp divides the activation */
	bool recomputes;        /* full recomputation of layers in the backward pass */
	int zero;               /* 0 or 1 */
	/* Tokens of a rank among the EP ranks; borrowed. NULL: no experts. */
	const struct bb_moe_load *load;
	size_t hidden; /* elements of a token's row */
	/* [stage], borrowed: elements of a rank without those of experts; elements of experts,
	   NULL: none. */
	const uint64_t *gradients, *experts;
	enum bb_dtype dtype, gradient_dtype;
	unsigned parts; /* of enum bb_hybrid_work */
};

/* Elements that RANK contributes to an all-gather, or keeps of a sum, in a HALF of a layer; all
   tensor ranks together have tp times as many. Without sequence parallelism it keeps the whole sum.
   What a rank has of the first half is also its message to another stage. */
size_t bb_hybrid_part(const struct bb_hybrid_shape *shape, int half, int rank);

/* What completes a program's operations. */
struct bb_hybrid_program {
	struct bb_hybrid_shape shape;
	struct bb_moe_exchange exchange;   /* load NULL: there is none */
	int first[BB_HYBRID_FAMILIES + 1]; /* first group of each family of groups */
};

/*
 * TAPED performs a step of SHAPE by ALGORITHM (see struct bb_program), completed by *OWN. Both
 * must not move. BB_EUSAGE for more passes than a pipeline may have, BB_EINTERNAL without memory.
 * Free TAPED whatever comes back.
 */
BB_MUST bb_status bb_hybrid_write(struct bb_taped *taped, struct bb_hybrid_program *own,
				  const struct bb_hybrid_shape *shape, const char *algorithm,
				  struct bb_error *error);
