/*
 * buckets.h - gradients in buckets, as PyTorch's DistributedDataParallel forms them: what is
 * reduced in one call.
 */
#ifndef BB_TRAINING_KERNELS_BUCKETS_H
#define BB_TRAINING_KERNELS_BUCKETS_H

#include "models/model.h"

#define BB_BUCKET_UNLIMITED UINT64_MAX

/* Tensors that follow each other in the order in which their gradients become complete. */
struct bb_bucket {
	size_t first, count; /* model.order[first …] */
	uint64_t elements, bytes;
};

struct bb_buckets {
	struct bb_bucket *list; /* in the order in which they are reduced */
	size_t n;
	uint64_t bytes; /* all together */
};

/*
 * The buckets of MODEL's gradients of ELEMENT_SIZE bytes. A bucket is closed by the tensor that
 * makes it CAP bytes or more, the first one by FIRST_CAP; no tensor is split, so that buckets
 * overshoot (compute_bucket_assignment_by_size in PyTorch's reducer.cpp). The order is that of
 * PyTorch's buckets from the second step on; its first step reduces all in one bucket, CAP
 * BB_BUCKET_UNLIMITED, unless it looks for unused parameters. CAP 1: each tensor by itself.
 * BB_EINTERNAL without memory. Free BUCKETS whatever comes back.
 */
BB_MUST bb_status bb_buckets_make(struct bb_buckets *buckets, const struct bb_model *model,
				  size_t element_size, uint64_t first_cap, uint64_t cap,
				  struct bb_error *error);
void bb_buckets_free(struct bb_buckets *buckets); /* of zeroed ones: nothing */

/* The smallest and the largest bucket, in bytes. */
uint64_t bb_buckets_least(const struct bb_buckets *buckets);
uint64_t bb_buckets_most(const struct bb_buckets *buckets);

#endif
