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

/*
 * The works of operations, and what they are called. PAIR is one of attention, followed by that of
 * the MLP. The item of TO_HEADS and BACK_TO_TOKENS is 0 for queries, 1 for keys, 2 for values; that
 * of REDUCE_WEIGHTS the matrix. From LOOKUP on they are of embedding and loss.
 */
#define BB_TENSOR_WORKS(PAIR, WORK)                                                                \
	PAIR(NORM, "norm before")                                                                  \
	PAIR(GATHER, "all-gather of the input of")                                                 \
	PAIR(INNER, "matrices of")                                                                 \
	PAIR(SUM, "sum of the output of")                                                          \
	PAIR(ADD, "residual of")                                                                   \
	PAIR(BACK_GATHER, "all-gather of the gradient of")                                         \
	PAIR(GATHER_AGAIN, "second all-gather of the input of")                                    \
	PAIR(BACK_INNER, "backward pass of")                                                       \
	PAIR(BACK_SUM, "sum of the gradient of")                                                   \
	PAIR(WEIGHTS, "gradients of the weights of")                                               \
	PAIR(BACK_NORM, "backward pass of the norm before")                                        \
	WORK(PROJECT, "queries, keys and values")                                                  \
	WORK(TO_HEADS, "all-to-all from tokens to heads")                                          \
	WORK(CORE, "core of attention")                                                            \
	WORK(TO_TOKENS, "all-to-all from heads to tokens")                                         \
	WORK(BLOCK, "block of attention")                                                          \
	WORK(PASS, "block of keys and values")                                                     \
	WORK(OUTPUT, "output of attention")                                                        \
	WORK(BACK_OUTPUT, "backward of attention's output")                                        \
	WORK(OUTPUT_WEIGHTS, "gradient of the output's weights")                                   \
	WORK(BACK_TO_HEADS, "all-to-all of gradients to heads")                                    \
	WORK(BACK_CORE, "backward of attention's core")                                            \
	WORK(BACK_TO_TOKENS, "all-to-all of gradients to tokens")                                  \
	WORK(BACK_BLOCK, "backward of a block of attention")                                       \
	WORK(BACK_ADD, "sum of a block's gradients")                                               \
	WORK(BACK_PASS, "gradients of a block")                                                    \
	WORK(BACK_PROJECT, "backward of queries, keys and values")                                 \
	WORK(REDUCE_WEIGHTS, "sum of the gradients of weights")                                    \
	WORK(ROWS, "MLP with its first matrix by rows")                                            \
	WORK(ROWS_SUM, "sum of that MLP")                                                          \
	WORK(LOOKUP, "look-up of tokens")                                                          \
	WORK(EMBED_SUM, "sum of the embedding")                                                    \
	WORK(EMBED_GATHER, "all-gather of the embedding's gradient")                               \
	WORK(EMBED_BACK, "backward of the embedding")                                              \
	WORK(LOSS_MAX, "largest logits")                                                           \
	WORK(ALL_MAX, "maximum of the logits")                                                     \
	WORK(LOSS_EXP, "exponentials")                                                             \
	WORK(ALL_TARGET, "sum of the targets' logits")                                             \
	WORK(ALL_EXP, "sum of the exponentials")                                                   \
	WORK(LOSS_END, "loss and its gradient")                                                    \
	WORK(LOGITS, "all-gather of the logits")                                                   \
	WORK(LOSS_WHOLE, "loss of all logits")

#define BB_TENSOR_WORK_PAIR(name, text) BB_TW_##name, BB_TW_MLP_##name,
#define BB_TENSOR_WORK(name, text) BB_TW_##name,
enum bb_tensor_work { BB_TENSOR_WORKS(BB_TENSOR_WORK_PAIR, BB_TENSOR_WORK) BB_TW_WORKS };

#define BB_TENSOR_MATRICES 6 /* of a layer: queries, keys, values, output, first, second */

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
