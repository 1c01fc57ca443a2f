/*
 * program.h - parts of a transformer, forward and backward, split over all ranks, as programs. The
 * same programs are timed and compared with the unsplit part.
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
#ifndef BB_TRAINING_KERNELS_TENSOR_PROGRAM_H
#define BB_TRAINING_KERNELS_TENSOR_PROGRAM_H

#include "programs/tape.h"

enum bb_tensor_part { BB_TENSOR_LAYER, BB_TENSOR_EMBEDDING, BB_TENSOR_LOSS, BB_TENSOR_MLP };

enum bb_tensor_mode {
	BB_TENSOR_SPLIT,    /* tensor; loss: three small all-reduces */
	BB_TENSOR_SEQUENCE, /* the same, and by tokens between matrices */
	BB_TENSOR_ULYSSES,
	BB_TENSOR_RING,
	BB_TENSOR_GATHER, /* loss: logits are gathered */
	BB_TENSOR_ROWS    /* MLP: first matrix by rows, which is wrong */
};

/* A part and the split of it: a row of results. */
struct bb_tensor_scheme {
	const char *part, *name;
	const char *brief;
	enum bb_tensor_part of;
	enum bb_tensor_mode mode;
};

/* Ends with part NULL. */
extern const struct bb_tensor_scheme bb_tensor_schemes[];

/* The sizes of the unsplit part. */
struct bb_tensor_size {
	size_t tokens; /* of all sequences of a micro-batch */
	size_t seq;    /* of each of them */
	size_t hidden;
	size_t queries, keys; /* widths of all heads: of queries, of keys (and of values) */
	size_t heads, kv_heads;
	size_t ffn, vocab;
	enum bb_dtype dtype;      /* of activations */
	enum bb_dtype loss_dtype; /* of the reductions of the loss */
	bool flash;               /* attention stores sums of the scores instead of them */
	/* Seconds and FLOPs of one rank for the forward pass of the whole, and the backward pass of
	   the core; 0: unknown. */
	struct bb_tensor_cost {
		double seconds, flops;
	} project, core, core_back, output, mlp;
};

/* The work of an operation. In the first group each work of attention is followed by that of the
 * MLP. */
enum bb_tensor_work {
	BB_TW_NORM,
	BB_TW_GATHER = BB_TW_NORM + 2,              /* its output, of all tokens */
	BB_TW_INNER = BB_TW_GATHER + 2,             /* attention or MLP between norm and sum */
	BB_TW_SUM = BB_TW_INNER + 2,                /* of all ranks' outputs */
	BB_TW_ADD = BB_TW_SUM + 2,                  /* to the residual stream */
	BB_TW_BACK_GATHER = BB_TW_ADD + 2,          /* gradient of the output */
	BB_TW_GATHER_AGAIN = BB_TW_BACK_GATHER + 2, /* as the result of GATHER is not kept */
	BB_TW_BACK_INNER = BB_TW_GATHER_AGAIN + 2,  /* down to the gradient of its input */
	BB_TW_BACK_SUM = BB_TW_BACK_INNER + 2,
	BB_TW_WEIGHTS = BB_TW_BACK_SUM + 2, /* gradients of its matrices */
	BB_TW_BACK_NORM = BB_TW_WEIGHTS + 2,

	/* Attention in pieces: ulysses and ring. */
	BB_TW_PROJECT = BB_TW_BACK_NORM + 2, /* queries, keys and values */
	BB_TW_TO_HEADS,                      /* item: 0 queries, 1 keys, 2 values */
	BB_TW_CORE,
	BB_TW_TO_TOKENS,
	BB_TW_BLOCK, /* of the ring: one block of keys and values */
	BB_TW_PASS,  /* of keys and values */
	BB_TW_OUTPUT,
	BB_TW_BACK_OUTPUT,
	BB_TW_OUTPUT_WEIGHTS,
	BB_TW_BACK_TO_HEADS,
	BB_TW_BACK_CORE,
	BB_TW_BACK_TO_TOKENS, /* item as TO_HEADS */
	BB_TW_BACK_BLOCK,
	BB_TW_BACK_ADD,  /* what a block's gradients are so far */
	BB_TW_BACK_PASS, /* of them */
	BB_TW_BACK_PROJECT,
	BB_TW_REDUCE_WEIGHTS, /* item: which matrix */
	BB_TW_ROWS,           /* the MLP with its first matrix by rows */
	BB_TW_ROWS_SUM,

	BB_TW_LOOKUP, /* from here on of embedding and loss */
	BB_TW_EMBED_SUM,
	BB_TW_EMBED_GATHER,
	BB_TW_EMBED_BACK,

	BB_TW_LOSS_MAX,
	BB_TW_ALL_MAX,
	BB_TW_LOSS_EXP,
	BB_TW_ALL_TARGET,
	BB_TW_ALL_EXP,
	BB_TW_LOSS_END,
	BB_TW_LOGITS,
	BB_TW_LOSS_WHOLE,

	BB_TW_WORKS
};

#define BB_TENSOR_MATRICES 6 /* of a layer: queries, keys, values, output, first, second */
size_t bb_tensor_matrix(const struct bb_tensor_size *size, int matrix); /* its elements */
/* Vocabulary of each of T ranks; that of the last one may be padded. */
size_t bb_tensor_vocab_part(const struct bb_tensor_size *size, size_t t);

enum bb_tensor_half { BB_TENSOR_STEP, BB_TENSOR_COMPUTE, BB_TENSOR_COMMUNICATE };

struct bb_tensor_form {
	const struct bb_tensor_scheme *scheme;
	const struct bb_tensor_size *size;
	size_t layers;            /* LAYER; else 1 */
	enum bb_tensor_half half; /* all, or its computations or communication alone */
	/* Real matrices: computations without time are included, and gradients of weights that all
	   ranks hold are summed. */
	bool real;
};

struct bb_tensor_program {
	struct bb_program program;
	struct bb_tensor_form form;
	/* Operations of one layer, forward, then backward; peers are relative to the rank. */
	struct bb_tape tape;
	size_t forward; /* operations */
};

/* For bb_tensor_program_make: sets the operations of one layer and the numbers of queues, lanes,
   events and groups; form and ranks are set. */
void bb_tensor_program_build(struct bb_tensor_program *program);

/* The reason why SCHEME cannot split a part of SIZE among NRANKS, constant, or NULL. */
const char *bb_tensor_refuses(const struct bb_tensor_scheme *scheme,
			      const struct bb_tensor_size *size, int nranks);

/*
 * PROGRAM performs FORM on NRANKS, which bb_tensor_refuses does not refuse. The scheme and the size
 * of FORM outlive PROGRAM, which must not move. BB_EINTERNAL without memory. Free PROGRAM whatever
 * comes back.
 */
BB_MUST bb_status bb_tensor_program_make(struct bb_tensor_program *program,
					 const struct bb_tensor_form *form, int nranks,
					 struct bb_error *error);
void bb_tensor_program_free(struct bb_tensor_program *program); /* zeroed: no-op */

/*
 * Bytes that a rank sends in one run, counted from operations; of a collective, by the algorithm
 * that sends least. *CALLS, unless NULL, = the number of collectives and messages.
 */
double bb_tensor_wire_counted(const struct bb_tensor_program *program, size_t *calls);
/* The same by the formulas above, for one layer; exact if parts are equal. */
double bb_tensor_wire_formula(const struct bb_tensor_scheme *scheme,
			      const struct bb_tensor_size *size, int nranks);

#endif
