/*
 * coding.h - what codes of ZeRO++ do to a model that one rank trains, for the check of results
 * (bb_zero_coded_form). The arithmetic is that of all ranks, without the code of their exchange.
 */
#pragma once

#include "training_kernels/zero/data.h"

struct bb_zero_coding { /* zero-initialise all but units, data, gathers and local */
	struct bb_zero_coder coder;
	const struct bb_zero_units *units;
	const struct bb_zero_data *data;
	bool gathers; /* parameters are coded */
	int local;    /* ranks of a node, if gradients are coded; else 0 */
	/* Squares of what codes changed, and of the numbers: parameters, gradients. */
	double errors[2], squares[2];
	float *gradients;                /* reduced; owned, with all below */
	float *x, *exact, *node, *total; /* of a part */
	char *codes;
	char *seen, *sum; /* parameters as the passes see them; reduced gradients */
	char *drawn;      /* [rank]: gradients of a unit */
};

/* BB_EINTERNAL without memory. Close it whatever comes back. */
BB_MUST bb_status bb_zero_coding_open(struct bb_zero_coding *coding, struct bb_error *error);
void bb_zero_coding_close(struct bb_zero_coding *coding); /* zeroed: no-op */
