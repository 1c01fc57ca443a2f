/*
 * sweep.h - a sweep over sizes of buckets, as one driver measures it.
 *
 *   sweep.c       what is measured: programs and their data
 *   rows.c        what comes of it: rows, speed-ups, what to take
 */
#ifndef BB_TRAINING_KERNELS_DDP_SWEEP_H
#define BB_TRAINING_KERNELS_DDP_SWEEP_H

#include "harness/measure/engine.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/ddp/step.h"

/* One size of buckets. Those that others are held against are measured whether asked for or not. */
struct bb_ddp_cap {
	uint64_t bytes; /* BB_BUCKET_UNLIMITED: all in one bucket; 1: each tensor by itself */
	uint64_t first; /* of the first bucket */
	struct bb_buckets buckets;
	double *ready_s; /* of each bucket, since the backward pass began */
	size_t *offsets; /* elements before each bucket */
};

/*
 * What one watched step after the other tells, of the ranks that this driver plays. A bucket's
 * reduction is from when the last of them had the one before to when the last of them has it.
 */
struct bb_ddp_stamps {
	size_t nbuckets;
	double *ends;     /* of reductions alone: [bucket * BB_ENGINE_MOST_ROUNDS + round] */
	double *reduce_s; /* [bucket], medians, in the end */
	double backward_s[BB_ENGINE_MOST_ROUNDS];
	int rounds;
	double begin; /* of the backward pass */
	int finals;   /* ranks that have done all of this round */
};

/* A program of the sweep. */
struct bb_ddp_trial {
	size_t cap, algorithm; /* index of each */
	enum bb_ddp_part part;
	bool overlap;
	struct bb_ddp_step step;
	struct bb_program program;
	struct bb_ddp_stamps stamps;
	struct bb_ddp_sweep *sweep;
};

/* A driver's state. */
struct bb_ddp_sweep {
	struct bb_engine engine;
	struct bb_ddp *ddp;
	struct bb_ddp_cap *caps;
	size_t ncaps;
	double forward_s, backward_s; /* as asked for, of one batch */
	struct bb_ddp_trial *list;    /* beside the engine's trials */
	char *gradients;              /* of the whole model; NULL: there is no data */
	size_t bytes;                 /* of them */
	const struct bb_patterns *patterns;
};

/* Rank 0, when all is measured: rows and what to take to the sinks. */
BB_MUST bb_status bb_ddp_deliver(struct bb_ddp_sweep *sweep);

#endif
