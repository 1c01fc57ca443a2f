/*
 * step_model.h - how long a step of data-parallel training takes whose gradients are reduced in
 * buckets while the backward pass still goes on. Pure arithmetic.
 *
 * Bucket k is complete at r_k, when the gradient of its last tensor is, and takes c_k to be
 * reduced. Buckets are reduced one after the other, in their order:
 *
 *   end_k = max(r_k, end_(k-1)) + c_k
 *
 * With K buckets and a backward pass of B, exposed = end_K - B is what the step waits for: never
 * less than c_K, as the last bucket is complete only when the backward pass is over. step = F +
 * end_K. The reductions are taken to slow nothing down that they overlap with.
 */
#ifndef BB_TRAINING_KERNELS_STEP_MODEL_H
#define BB_TRAINING_KERNELS_STEP_MODEL_H

#include "training_kernels/buckets.h"

/* What a rank computes for one batch, in seconds. */
struct bb_step_compute {
	double forward_s, backward_s;
	const double *ready_s; /* of model.order, since the backward pass began: bb_model_ready */
};

/* Seconds to reduce bucket number BUCKET, of BYTES, over all ranks. */
typedef double bb_reduce_seconds(void *own, size_t bucket, uint64_t bytes);

struct bb_step_request {
	struct bb_step_compute compute;
	const struct bb_buckets *buckets;
	bool overlap;   /* false: reduced once the backward pass is over */
	int accumulate; /* batches of which only the last one's gradients are reduced; >= 1 */
	bb_reduce_seconds *reduce;
	void *own; /* REDUCE's */
};

/* A bucket in time, in seconds since the last backward pass began. */
struct bb_bucket_times {
	double ready, start, end;
};

struct bb_train_step {
	double step_s;    /* all batches, until the last reduction is done; no optimizer */
	double compute_s; /* of it: what all batches compute */
	double reduce_s;  /* the sum of c_k */
	double exposed_s; /* what is not hidden behind the backward pass */
	double hidden; /* 1 - exposed / reduce, 0 … 1; NAN where nothing takes time to reduce */
};

/* EACH: where not NULL, the times of each bucket. */
struct bb_train_step bb_step_model(const struct bb_step_request *request,
				   struct bb_bucket_times *each);

#endif
