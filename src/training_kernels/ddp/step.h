/*
 * step.h - a step of data-parallel training with gradients in buckets, as a program: forward,
 * backward with the reductions of the buckets beside it, optimiser. All ranks do the same.
 */
#ifndef BB_TRAINING_KERNELS_DDP_STEP_H
#define BB_TRAINING_KERNELS_DDP_STEP_H

#include "programs/program.h"
#include "training_kernels/buckets.h"

/* What an operation is: its work; its item is the bucket, of FORWARD and BACKWARD the microbatch
   times the buckets and the bucket. */
enum bb_ddp_work {
	BB_DDP_FORWARD,
	BB_DDP_BACKWARD,  /* until a bucket is complete */
	BB_DDP_REDUCE,    /* a bucket's gradients, averaged */
	BB_DDP_BROADCAST, /* a bucket's parameters, from rank 0 */
	BB_DDP_OPTIMISE,
	BB_DDP_READY /* events */
};

/* What of a step is done. */
enum bb_ddp_part {
	BB_DDP_STEP,       /* all of it */
	BB_DDP_ALONE,      /* computations without communication */
	BB_DDP_REDUCTIONS, /* communication without computations */
	BB_DDP_START       /* the parameters, broadcast before the first step */
};

struct bb_ddp_step {
	double forward_s;
	const double *ready_s; /* of each bucket: since the backward pass began, never descending */
	double optimise_s;     /* 0: there is no such operation */
	double flops;          /* of a second of computing; 0: not known */
	const struct bb_buckets *buckets;
	size_t microbatches; /* >= 1, all but the last without communication (no_sync) */
	enum bb_dtype dtype; /* of gradients and parameters */
	bool overlap;        /* reductions beside the backward pass, else after it */
	enum bb_ddp_part part;
};

/* *PROGRAM plays STEP on NRANKS, which STEP outlives. ALGORITHM as in struct bb_program. */
void bb_ddp_program(struct bb_program *program, const struct bb_ddp_step *step, int nranks,
		    const char *algorithm);

#endif
