/*
 * step_model.h - a model of a step of data-parallel training, in which buckets of gradients are
 * reduced while the backward pass continues. Pure arithmetic.
 *
 * Bucket k is complete at r_k, when the gradient of its last tensor is, and its reduction takes
 * c_k. Buckets are reduced one after another, in their order:
 *
 *   end_k = max(r_k, end_(k-1)) + c_k
 *
 * With K buckets and a backward pass of B, exposed = end_K - B is the time that the step waits: at
 * least c_K, as the last bucket is complete only at the end of the backward pass. step = F + end_K.
 * The model assumes that reductions do not slow down the computations beside them.
 */
#ifndef BB_TRAINING_KERNELS_STEP_MODEL_H
#define BB_TRAINING_KERNELS_STEP_MODEL_H

#include "training_kernels/buckets.h"

/* Computations of a rank for one batch, in seconds. */
struct bb_step_compute {
	double forward_s, backward_s;
	const double *ready_s; /* in model.order, since the backward pass began: bb_model_ready */
};

/* Seconds to reduce bucket number BUCKET, of BYTES, over all ranks. */
typedef double bb_reduce_seconds(void *own, size_t bucket, uint64_t bytes);

struct bb_step_request {
	struct bb_step_compute compute;
	const struct bb_buckets *buckets;
	bool overlap;   /* false: reduced after the backward pass */
	int accumulate; /* batches, >= 1; the gradients of the last are reduced */
	bb_reduce_seconds *reduce;
	void *own; /* REDUCE's */
};

/* Times of a bucket, in seconds since the last backward pass began. */
struct bb_bucket_times {
	double ready, start, end;
};

struct bb_train_step {
	double step_s;    /* all batches, until the last reduction ends; no optimizer */
	double compute_s; /* computations of all batches */
	double reduce_s;  /* the sum of c_k */
	double exposed_s; /* not hidden behind the backward pass */
	double hidden;    /* 1 - exposed / reduce, 0 to 1; NAN if reductions take no time */
};

/* EACH: NULL, or [bucket]: its times. */
struct bb_train_step bb_step_model(const struct bb_step_request *request,
				   struct bb_bucket_times *each);

#endif
