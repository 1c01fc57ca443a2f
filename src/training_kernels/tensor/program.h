/*
 * program.h - parts of a transformer, forward and backward, split over all ranks, as programs: the
 * steps of part.h. The same programs are timed and compared with the unsplit part.
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

#include "training_kernels/kernel/kernel.h"
#include "training_kernels/tensor/part.h"

struct bb_tensor_form {
	const struct bb_tensor_scheme *scheme;
	const struct bb_tensor_size *size;
	size_t layers;          /* LAYER; else 1 */
	enum bb_step_half half; /* all, or its computations or communication alone */
	/* Real matrices: computations without time are included, and gradients of weights that all
	   ranks hold are summed. */
	bool real;
};

/* The reason why SCHEME cannot split a part of SIZE among NRANKS, constant, or NULL. */
const char *bb_tensor_refuses(const struct bb_tensor_scheme *scheme,
			      const struct bb_tensor_size *size, int nranks);

/*
 * TAPED performs FORM on NRANKS, which bb_tensor_refuses does not refuse: operations of one layer,
 * forward, then backward, for each layer. TAPED must not move. BB_EINTERNAL without memory. Free
 * TAPED whatever comes back.
 */
BB_MUST bb_status bb_tensor_write(struct bb_taped *taped, const struct bb_tensor_form *form,
				  int nranks, struct bb_error *error);

/*
 * Bytes that a rank sends in one run, counted from operations; of a collective, by the algorithm
 * that sends least. *CALLS, unless NULL, = the number of collectives and messages.
 */
double bb_tensor_wire_counted(const struct bb_taped *taped, size_t *calls);
/* The same by the formulas above, for one layer; exact if parts are equal. */
double bb_tensor_wire_formula(const struct bb_tensor_scheme *scheme,
			      const struct bb_tensor_size *size, int nranks);

#endif
