/*
 * step.h - a step of data-parallel training with gradients in buckets, as a program: forward
 * pass, backward pass with the reductions of buckets beside it. All ranks do the same. A bucket is
 * reduced by one call.
 */
#pragma once

#include "models/fusion.h"
#include "programs/tape.h"

/* The work of an operation. Its item is the bucket. */
enum bb_ddp_work {
	BB_DDP_FORWARD = 1, /* 0: an event */
	BB_DDP_BACKWARD,    /* of the last microbatch, until a bucket is complete */
	BB_DDP_EARLIER,     /* the same of another microbatch */
	BB_DDP_REDUCE,      /* a bucket's gradients, averaged */
	BB_DDP_BROADCAST    /* a bucket's parameters, from rank 0 */
};

/* The part of a step that a program has. */
enum bb_ddp_part {
	BB_DDP_ALONE,      /* computations without communication */
	BB_DDP_REDUCTIONS, /* communication without computations */
	BB_DDP_STEP,       /* the whole step */
	BB_DDP_PARTS,
	BB_DDP_START = BB_DDP_PARTS /* no part: the parameters, broadcast before the first step */
};

struct bb_ddp_step {
	double forward_s;
	const double *ready_s; /* [tensor]: seconds since the backward pass began, ascending */
	double flops;          /* of a second of computations; 0: unknown */
	const struct bb_buckets *buckets;
	size_t microbatches; /* >= 1; all but the last without communication (no_sync) */
	enum bb_dtype dtype; /* of gradients and parameters */
	bool overlap;        /* reductions during the backward pass, else after it */
	enum bb_ddp_part part;
};

/*
 * TAPED performs STEP on NRANKS. What STEP points to outlives TAPED, which must not move.
 * ALGORITHM: see struct bb_program. BB_EINTERNAL without memory. Free TAPED whatever comes back.
 */
BB_MUST bb_status bb_ddp_write(struct bb_taped *taped, const struct bb_ddp_step *step, int nranks,
			       const char *algorithm, struct bb_error *error);

/* Seconds of a step. */
struct bb_ddp_times {
	double step_s;    /* until the last reduction ends; no optimizer */
	double reduce_s;  /* all reductions, one after another */
	double exposed_s; /* not hidden behind the backward pass */
	double hidden;    /* 1 - exposed / reduce, 0 to 1; NAN if reductions take no time */
};

/*
 * *TIMES of STEP, simulated with given parts: its computations take ALONE_S, of which the last
 * BACKWARD_S are the last backward pass, and its reductions REDUCE_S[bucket], which slow down no
 * computation.
 */
BB_MUST bb_status bb_ddp_simulate(const struct bb_ddp_step *step, double alone_s, double backward_s,
				  const double *reduce_s, struct bb_ddp_times *times,
				  struct bb_error *error);
