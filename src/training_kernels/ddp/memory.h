/*
 * memory.h - the memory of a data-parallel replica, on which the CPU works beside the computations:
 * gradients, buckets, parameters and the states of Adam.
 */
#pragma once

#include "training_kernels/ddp/step.h"

/* Set by the caller; NULL: none. All have ELEMENTS. */
struct bb_ddp_memory {
	enum bb_dtype dtype; /* half, bfloat16 or float */
	int nranks;
	size_t elements;
	char *gradients;
	char *buckets;                     /* their copies, bucket by bucket */
	float *master, *moment1, *moment2; /* of Adam, in fp32 */
	char *parameters;                  /* the rounded master, where DTYPE has 16 bits */
	double most_norm;                  /* --clip-grad-norm; 0: none */
	double loss_scale;                 /* of the gradients; 1: none */

	uint64_t steps; /* of Adam */
	float unscale;  /* multiplies gradients */
	bool overflowed;
};

/* Perform WORK on N elements from FIRST on; COPIED as in enum bb_ddp_view. */
void bb_ddp_memory_work(struct bb_ddp_memory *memory, enum bb_ddp_work work, bool copied,
			size_t first, size_t n);

/* Set parameters to known values, and the states to those before the first step. */
void bb_ddp_memory_reset(struct bb_ddp_memory *memory);

/* Parameters and moments that differ in any bit from those after one step of Adam from there, with
   the gradients that the memory has. */
uint64_t bb_ddp_memory_wrong(const struct bb_ddp_memory *memory);
