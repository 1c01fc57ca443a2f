/*
 * program.h - a layer of experts as a program (programs/program.h): ranks exchange the numbers of
 * rows (an all-to-all of one number for each expert), send the rows (dispatch), the experts
 * compute, and the rows return (combine). The exchange of rows is in exchange.h.
 */
#ifndef BB_TRAINING_KERNELS_MOE_PROGRAM_H
#define BB_TRAINING_KERNELS_MOE_PROGRAM_H

#include "training_kernels/moe/exchange.h"

/* The work of an operation; the parts of a program are several of them. */
enum bb_moe_work {
	BB_MOE_COUNTS = 1,
	BB_MOE_DISPATCH = 2,
	BB_MOE_EXPERTS = 4,
	BB_MOE_COMBINE = 8,
	BB_MOE_LAYER = 15
};

/* Constant while its program is used. */
struct bb_moe_step {
	const struct bb_moe_load *load;
	size_t hidden; /* elements of a row */
	enum bb_dtype dtype;
	double expert_s; /* seconds of the experts of a rank with the mean load */
	unsigned parts;  /* of enum bb_moe_work */
};

/* TAPED performs STEP, which outlives it. The item of a message is its peer. BB_EINTERNAL without
   memory. Free TAPED whatever comes back. */
BB_MUST bb_status bb_moe_program(struct bb_taped *taped, const struct bb_moe_step *step,
				 struct bb_error *error);

/* Bytes that a rank sends to others and receives from them in a dispatch. */
struct bb_moe_bytes {
	double sent, received;
};
struct bb_moe_bytes bb_moe_bytes_of(const struct bb_moe_step *step, int rank);

#endif
