/*
 * part.h - the parts of a transformer that are split over ranks: each is a list of steps from
 * matrix to matrix, written once. Forward the steps are done in their order, backward in reverse;
 * what a step sends forward its conjugate sends backward. The programs that are timed follow from
 * the lists (program.c), and so do the numbers of each rank and of the unsplit part (numbers.c),
 * which is the same part on one rank.
 */
#pragma once

#include "programs/program.h"

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
	/* FLOPs of one rank for the forward pass of the whole, and the backward pass of the core;
	   seconds that each of them takes. */
	double project, core, core_back, output, mlp;
	double seconds;
};

/* ---- matrices -------------------------------------------------------------------------------- */

#define BB_TENSOR_MATRICES 6 /* of a layer: queries, keys, values, output, first, second */

/* The matrices of a rank. Where a scheme does not gather, scatter or sum, the result is the matrix
   itself. */
enum bb_tensor_slot {
	/* A layer: of attention, followed by the same of the MLP. */
	BB_TS_X,                            /* inputs, and the output of the layer */
	BB_TS_NORM = BB_TS_X + 3,           /* normed */
	BB_TS_GATHERED = BB_TS_NORM + 2,    /* from all ranks */
	BB_TS_PARTIAL = BB_TS_GATHERED + 2, /* output before the sum */
	BB_TS_SUM = BB_TS_PARTIAL + 2,
	BB_TS_WEIGHTS = BB_TS_SUM + 2,
	BB_TS_INNER = BB_TS_WEIGHTS + BB_TENSOR_MATRICES, /* of the MLP: first product */
	BB_TS_GELU,
	BB_TS_Q,                 /* queries, keys, values: those that this rank projects */
	BB_TS_OUT = BB_TS_Q + 3, /* output of the core, for its projection */
	BB_TS_SOFTMAX,

	/* Ulysses: blocks of tokens times blocks of heads, in one order and in the other. */
	BB_TS_PACKED,                      /* queries, keys, values */
	BB_TS_HEADS = BB_TS_PACKED + 3,    /* those of this rank's heads, all tokens */
	BB_TS_OUT_HEADS = BB_TS_HEADS + 3, /* output of the core */
	BB_TS_OUT_PACKED,

	/* Ring. */
	BB_TS_BLOCK,                 /* keys and values, two buffers */
	BB_TS_OWN = BB_TS_BLOCK + 2, /* their gradients by this rank's queries */
	BB_TS_EXP_SUM,
	BB_TS_MOST,

	BB_TS_TABLE, /* embedding */
	BB_TS_EMBEDDED_SUM,
	BB_TS_EMBEDDED,

	BB_TS_LOGITS,
	BB_TS_LOGITS_ALL,
	BB_TS_LOGITS_MOST, /* one a token, as the next three */
	BB_TS_TARGET,
	BB_TS_LOGITS_EXP,
	BB_TS_LOSS,

	BB_TS_ROWS_X, /* the MLP with its first matrix by rows */
	BB_TS_ROWS_FIRST,
	BB_TS_ROWS_SECOND,
	BB_TS_ROWS_INNER,
	BB_TS_ROWS_GELU,
	BB_TS_ROWS_OUT,
	BB_TS_VALUES,
	BB_TS_SLOTS = 2 * BB_TS_VALUES
};
/* The gradient of a matrix. */
#define BB_TS_D(slot) ((slot) + BB_TS_VALUES)

/* The share of a rank in the whole matrix, which has whole_columns. */
struct bb_tensor_place {
	size_t rows, columns;
	size_t row, column; /* of the first */
	size_t whole_columns;
};

struct bb_tensor_state {
	const struct bb_tensor_scheme *scheme;
	const struct bb_tensor_size *size; /* for numbers: keys as wide as queries, one sequence */
	size_t rank, t;
	bool grid; /* sums are exact: see numbers.c */
	double *slots[BB_TS_SLOTS];
	double *memory; /* of the caller */
};

/* The place of an initial matrix, of a result, or of any matrix that a layer does not have. */
struct bb_tensor_place bb_tensor_place_of(const struct bb_tensor_state *state, int slot);
/* The slot whose memory the scheme uses for SLOT. */
int bb_tensor_own(const struct bb_tensor_state *state, int slot);
/* Numbers of a slot on a rank; 0 if the scheme does not have it. */
size_t bb_tensor_numbers(const struct bb_tensor_state *state, int slot);
/* The count of all numbers of a rank. */
size_t bb_tensor_state_numbers(const struct bb_tensor_state *state);
/* Lay STATE out in MEMORY, of as many numbers, and fill the initial matrices, whose numbers follow
   from their position in the whole: every rank knows its share and the whole. */
void bb_tensor_state_fill(struct bb_tensor_state *state, double *memory);

/*
 * Bytes of a layer's matrices that the forward pass leaves on each of T ranks for the backward
 * pass, in the datatype of SIZE; with FlashAttention a sum of four bytes for each row of scores,
 * where the small matrices have the scores. Of dropout two masks of the residual stream, of a byte
 * each, and where softmax is kept its mask and its result. SIZE may be any.
 */
uint64_t bb_tensor_kept(const struct bb_tensor_scheme *scheme, const struct bb_tensor_size *size,
			size_t t);

/*
 * The results of PART ("attention", "mlp", "embedding", "loss"): the slots of its output and, of
 * NGRADIENTS, of its input and from WEIGHTS on of its weights.
 */
struct bb_tensor_results {
	const char *part;
	enum bb_tensor_part of;
	int output, ngradients;
	int input, weights;
};
extern const struct bb_tensor_results bb_tensor_results[]; /* ends with part NULL */
/* The slot of gradient number I. */
static inline int bb_tensor_gradient(const struct bb_tensor_results *results, int i)
{
	return BB_TS_D(i == 0 ? results->input : results->weights + i - 1);
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum bb_tensor_kind {
	/* Computations. */
	BB_TK_NORM,
	BB_TK_PRODUCT, /* OUT = IN WITH */
	BB_TK_GELU,
	BB_TK_ADD,    /* OUT = IN + WITH */
	BB_TK_PACK,   /* into blocks of tokens times heads, for an exchange */
	BB_TK_UNPACK, /* the reverse */
	BB_TK_CORE,   /* of attention: IN is queries, keys and values */
	BB_TK_LOOK_UP,
	BB_TK_LOSS_MOST,
	BB_TK_LOSS_EXP,
	BB_TK_LOSS_END, /* the loss, and its gradient */
	/* Communication. */
	BB_TK_RING,     /* the core, with blocks of keys and values that go around */
	BB_TK_GATHER,   /* its conjugate sums */
	BB_TK_SUM,      /* its conjugate gathers */
	BB_TK_EXCHANGE, /* all-to-all, also backward */
	BB_TK_MOST,     /* largest of all ranks; as the next, it has no conjugate */
	BB_TK_TOTAL
};

struct bb_tensor_step {
	uint8_t of, modes;     /* enum bb_tensor_part; bits of enum bb_tensor_mode */
	uint8_t kind;          /* enum bb_tensor_kind */
	uint8_t out, in, with; /* slots */
	uint8_t more;          /* matrices OUT, IN of an exchange, WITH that follow */
	/* Offsets of the FLOPs in struct bb_tensor_size, forward and backward; 0: bound by memory,
	   which counts as no time. Gradients of weights cost as much as those of inputs. */
	uint8_t cost, back;
};

#define BB_TENSOR_STEPS 33
extern const struct bb_tensor_step bb_tensor_steps[BB_TENSOR_STEPS];

/* Does SCHEME have this step? */
static inline bool bb_tensor_has(const struct bb_tensor_scheme *scheme,
				 const struct bb_tensor_step *step)
{
	return step->of == scheme->of && step->modes >> scheme->mode & 1;
}

/*
 * The work of an operation. Its item is number + BB_TENSOR_STEPS * k: the step's number, and which
 * of its matrices, or the block of a ring. The count of a computation is the number of steps,
 * from that one on, in the order of the work; a ring adds its gradients as WEIGHTS.
 */
enum bb_tensor_work {
	BB_TW_FORWARD,
	BB_TW_INPUT,   /* backward: gradients of inputs */
	BB_TW_WEIGHTS, /* gradients of weights */
	BB_TW_AGAIN,   /* backward: what FORWARD sent, sent again */
	BB_TW_REDUCE   /* the gradient of matrix k is summed over ranks that hold all weights */
};

/* Perform the computation OPERATION. */
void bb_tensor_compute(struct bb_tensor_state *state, const struct bb_operation *operation);
/* The buffers of a collective or message. */
void bb_tensor_buffers(struct bb_tensor_state *state, const struct bb_operation *operation,
		       void **in, void **out);
