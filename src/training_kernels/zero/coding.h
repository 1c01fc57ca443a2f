/*
 * coding.h - what stage 3 of ZeRO++ codes (arXiv 2306.10209; deepspeed/runtime/zero, DeepSpeed
 * 0.19): each rank's part of a unit's parameters in int8 before they are gathered (qwZ), gradients
 * in int4 before they are reduced in two hops, in nodes and across (qgZ). Blocks of both are those
 * of qwZ for the part of a rank (bb_coding_qwz_blocks). And the same by one rank alone, for the
 * check of results.
 */
#pragma once

#include "training_kernels/kernel/coded.h"
#include "training_kernels/zero/data.h"
#include "training_kernels/zero/units.h"

/* The exchange of unit U of UNITS among NRANKS. LOCAL: ranks of a node, for its gradients; 0: its
   parameters. */
struct bb_coded_form bb_zero_coded_form(const struct bb_zero_units *units, size_t u, int nranks,
					int local);

/* The codes of a model that one rank trains. */
struct bb_zero_coding { /* zero-initialise all but units, data, gathers and local */
	struct bb_zero_coder coder;
	const struct bb_zero_units *units;
	const struct bb_zero_data *data;
	bool gathers; /* parameters are coded */
	int local;    /* ranks of a node, if gradients are coded; else 0 */
	/* Squares of what codes changed, and of the numbers: parameters, gradients. */
	double errors[2], squares[2];
	size_t *index; /* of a unit, with padding: elements of the model, or SIZE_MAX; owned, with
			  all below */
	float *gradients;                /* reduced */
	float *x, *exact, *node, *total; /* of a part */
	char *codes;
	char *seen, *sum; /* parameters as the passes see them; reduced gradients */
	char *drawn;      /* [rank]: gradients of a unit */
};

/* BB_EINTERNAL without memory. Close it whatever comes back. */
BB_MUST bb_status bb_zero_coding_open(struct bb_zero_coding *coding, struct bb_error *error);
void bb_zero_coding_close(struct bb_zero_coding *coding); /* zeroed: no-op */
