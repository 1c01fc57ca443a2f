/*
 * program.h - a layer of experts as a program (schedules/program.h): ranks tell each other how
 * many rows they will send (an all-to-all of one number for each expert), send them (dispatch), the
 * experts compute, and rows come back (combine). How rows go is in exchange.h.
 */
#ifndef BB_TRAINING_KERNELS_MOE_PROGRAM_H
#define BB_TRAINING_KERNELS_MOE_PROGRAM_H

#include "training_kernels/moe/exchange.h"

/* What an operation is: its work. Bits, of which a program has some. */
enum bb_moe_work {
	BB_MOE_COUNTS = 1,
	BB_MOE_DISPATCH = 2,
	BB_MOE_EXPERTS = 4,
	BB_MOE_COMBINE = 8,
	BB_MOE_LAYER = 15,
	BB_MOE_EVENT = 16 /* between them */
};

/* Constant while its program is used. */
struct bb_moe_step {
	const struct bb_moe_load *load;
	size_t hidden; /* elements of a row */
	enum bb_dtype dtype;
	double expert_s; /* what the experts of a rank compute that has the mean load */
	unsigned parts;  /* of enum bb_moe_work */
};

/* *PROGRAM does STEP, which outlives it. Items of messages are the peer. */
void bb_moe_program(struct bb_program *program, const struct bb_moe_step *step);

/* Bytes that a rank of LOAD sends to others in a dispatch, and those that come to it. */
struct bb_moe_bytes {
	double sent, received;
};
struct bb_moe_bytes bb_moe_bytes_of(const struct bb_moe_step *step, int rank);

#endif
