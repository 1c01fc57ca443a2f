/*
 * sweep.h - a sweep over sizes of buckets, as one driver measures it.
 *
 *   sweep.c       the programs and their data
 *   rows.c        the results: rows, speed-ups, the best size
 */
#ifndef BB_TRAINING_KERNELS_DDP_SWEEP_H
#define BB_TRAINING_KERNELS_DDP_SWEEP_H

#include "harness/measure/engine.h"
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/ddp/step.h"

/* Buckets of one size. The references are always there, requested or not. Sizes with the same
   buckets are timed once, as the first of them. */
struct bb_ddp_layout {
	struct bb_ddp_cap cap;
	size_t same;     /* index of the first size with the same buckets; its own */
	double *ready_s; /* [bucket]: seconds since the backward pass began */
	size_t *offsets; /* [bucket]: elements before it */
};

/*
 * Times of the watched steps, of the ranks that this driver observes. The reduction of a bucket
 * lasts from the last rank's end of the bucket before it to the last rank's end of its own.
 */
struct bb_ddp_stamps {
	size_t nbuckets;
	double *ends;     /* of reductions alone: [bucket * BB_ENGINE_MOST_ROUNDS + round] */
	double *reduce_s; /* [bucket]: medians, at the end */
	double backward_s[BB_ENGINE_MOST_ROUNDS];
	int rounds;
	double begin; /* of the backward pass */
	int finals;   /* ranks that have ended this round */
};

/* A program of the sweep. */
struct bb_ddp_trial {
	size_t cap, algorithm; /* index of each; the first of the sizes with these buckets */
	enum bb_ddp_part part;
	bool overlap;
	struct bb_ddp_program program;
	struct bb_ddp_stamps stamps;
	struct bb_ddp_sweep *sweep;
};

/* A driver's state. */
struct bb_ddp_sweep {
	struct bb_engine engine;
	struct bb_ddp *ddp;
	struct bb_ddp_layout *caps;
	size_t ncaps;
	double forward_s, backward_s; /* of one batch, as requested */
	struct bb_ddp_trial *list;    /* beside the engine's trials */
	size_t nlist;
	char *gradients; /* of the whole model; NULL: there is no data */
	size_t bytes;    /* of them */
	const struct bb_patterns *patterns;
};

/* Rank 0, after the measurement: rows and the recommendation to the sinks. */
BB_MUST bb_status bb_ddp_deliver(struct bb_engine *engine);

#endif
