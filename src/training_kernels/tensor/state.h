/*
 * state.h - the matrices of one rank of a split part, and the computations on them. Initial numbers
 * follow from their position in the whole part, so that every rank knows its share and the whole.
 * Their arithmetic is in math.h.
 */
#ifndef BB_TRAINING_KERNELS_TENSOR_STATE_H
#define BB_TRAINING_KERNELS_TENSOR_STATE_H

#include "training_kernels/tensor/program.h"

/* Matrices of a rank. */
enum bb_tensor_slot {
	/* A layer: of attention, followed by the same of the MLP. What a scheme does not gather or
	   scatter has the memory of what it is then (see state.c). */
	BB_TS_X,               /* inputs */
	BB_TS_Z = BB_TS_X + 2, /* output of the layer, which follows */
	BB_TS_NORM,            /* normed */
	BB_TS_GATHERED = BB_TS_NORM + 2,
	BB_TS_PARTIAL = BB_TS_GATHERED + 2, /* output before the sum */
	BB_TS_SUM = BB_TS_PARTIAL + 2,
	BB_TS_BACK_GATHERED = BB_TS_SUM + 2, /* gradient of the output */
	BB_TS_BACK_PARTIAL = BB_TS_BACK_GATHERED + 2,
	BB_TS_BACK_SUM = BB_TS_BACK_PARTIAL + 2,
	BB_TS_DX = BB_TS_BACK_SUM + 2, /* gradients of X and, which follows, of Z */
	BB_TS_DZ = BB_TS_DX + 2,

	BB_TS_WEIGHTS, /* matrices, queries, keys, values, output, first, second */
	BB_TS_DWEIGHTS = BB_TS_WEIGHTS + BB_TENSOR_MATRICES,
	BB_TS_INNER = BB_TS_DWEIGHTS + BB_TENSOR_MATRICES, /* of the MLP: first product */
	BB_TS_GELU,
	BB_TS_DINNER,

	BB_TS_Q,                  /* queries, keys, values: those that this rank projects */
	BB_TS_DQ = BB_TS_Q + 3,   /* their gradients */
	BB_TS_OUT = BB_TS_DQ + 3, /* output of the core, and its gradient, for its projection */
	BB_TS_DOUT,
	BB_TS_SOFTMAX,

	/* Ulysses: blocks of tokens times blocks of heads, in one order and in the other. */
	BB_TS_PACKED,                       /* of q, k, v or their gradients */
	BB_TS_HEADS = BB_TS_PACKED + 3,     /* q, k, v of this rank's heads, all tokens */
	BB_TS_DHEADS = BB_TS_HEADS + 3,     /* their gradients */
	BB_TS_OUT_HEADS = BB_TS_DHEADS + 3, /* output of the core */
	BB_TS_DOUT_HEADS,
	BB_TS_OUT_PACKED,

	/* Ring. */
	BB_TS_BLOCK,                    /* keys and values, two buffers */
	BB_TS_DBLOCK = BB_TS_BLOCK + 2, /* their gradients so far */
	BB_TS_OWN = BB_TS_DBLOCK + 2,   /* the gradients of this rank */
	BB_TS_EXP_SUM,
	BB_TS_MOST,

	BB_TS_TABLE, /* embedding */
	BB_TS_EMBEDDED,
	BB_TS_EMBEDDED_SUM,
	BB_TS_DEMBEDDED,
	BB_TS_DEMBEDDED_GATHERED,
	BB_TS_DTABLE,

	BB_TS_LOGITS,
	BB_TS_LOGITS_ALL,
	BB_TS_LOGITS_MOST, /* one a token, as the next three */
	BB_TS_TARGET,
	BB_TS_LOGITS_EXP,
	BB_TS_LOSS,
	BB_TS_DLOGITS,

	BB_TS_ROWS_X, /* the MLP with its first matrix by rows */
	BB_TS_ROWS_FIRST,
	BB_TS_ROWS_SECOND,
	BB_TS_ROWS_INNER, /* one token's */
	BB_TS_ROWS_OUT,
	BB_TS_SLOTS
};

/* The share of a rank in the whole matrix, which has whole_columns. */
struct bb_tensor_place {
	size_t rows, columns;
	size_t row, column; /* of the first */
	size_t whole_columns;
};

struct bb_tensor_state {
	const struct bb_tensor_scheme *scheme;
	const struct bb_tensor_size *size; /* keys as wide as queries, one sequence */
	size_t rank, t;
	bool grid; /* see math.h */
	double *slots[BB_TS_SLOTS];
	double *memory; /* of the caller */
};

/* Are the matrices split, rather than whole on every rank? */
static inline bool bb_tensor_splits(const struct bb_tensor_state *state)
{
	return state->scheme->mode == BB_TENSOR_SPLIT || state->scheme->mode == BB_TENSOR_SEQUENCE;
}

/* Are they split, and activations between them divided by tokens? */
static inline bool bb_tensor_gathers(const struct bb_tensor_state *state)
{
	return state->scheme->mode == BB_TENSOR_SEQUENCE;
}

/* The count of all numbers of a rank. */
size_t bb_tensor_state_numbers(const struct bb_tensor_state *state);
/* Lays STATE out in MEMORY, of as many numbers, and fills the initial matrices. */
void bb_tensor_state_fill(struct bb_tensor_state *state, double *memory);
/* The place of an initial matrix, of a result, or of any matrix that a layer does not have. */
struct bb_tensor_place bb_tensor_place_of(const struct bb_tensor_state *state,
					  enum bb_tensor_slot slot);

/*
 * Bytes of a layer's matrices that the forward pass leaves on each of T ranks for the backward
 * pass, in the datatype of SIZE; with FlashAttention a sum of four bytes for each row of scores,
 * where the small matrices have the scores. With DROPOUT also two masks of the residual stream, of
 * a byte each, and where softmax is kept its mask and its result. SIZE may be any.
 */
uint64_t bb_tensor_kept(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *size,
			size_t t, bool dropout);

/* Performs the computation OPERATION. */
void bb_tensor_compute(struct bb_tensor_state *state, const struct bb_operation *operation);
/* The buffers of a collective or message. */
void bb_tensor_buffers(struct bb_tensor_state *state, const struct bb_operation *operation,
		       void **in, void **out);

/*
 * The results of PART ("attention", "mlp", "embedding", "loss"): the slots of its output and of
 * the gradients.
 */
struct bb_tensor_results {
	const char *part;
	enum bb_tensor_part of;
	enum bb_tensor_slot output, gradients[5];
	size_t ngradients;
};
extern const struct bb_tensor_results bb_tensor_results[]; /* ends with part NULL */

#endif
