/*
 * fusion.h - how gradients are grouped into buckets, each of which one call reduces.
 */
#pragma once

#include "models/model.h"

#define BB_BUCKET_UNLIMITED UINT64_MAX

/* Consecutive tensors, in the order in which their gradients become complete. */
struct bb_bucket {
	size_t first, count; /* model.order[first …] */
	uint64_t before;     /* elements of earlier buckets */
	uint64_t elements, bytes;
};

struct bb_buckets {
	struct bb_bucket *list; /* in the order in which they are reduced */
	size_t n;
	uint64_t bytes;       /* of all buckets */
	uint64_t least, most; /* bytes of the smallest and the largest one */
};

/*
 * The buckets of MODEL's gradients, with elements of ELEMENT_SIZE bytes. A bucket is closed by the
 * tensor that brings it to CAP bytes, the first one to FIRST_CAP; no tensor is split, so buckets
 * may be larger (compute_bucket_assignment_by_size in PyTorch's reducer.cpp). The order is that of
 * PyTorch from its second step; its first step has one bucket, CAP BB_BUCKET_UNLIMITED, unless it
 * looks for unused parameters. CAP 1: a bucket per tensor. MODEL has at least one tensor.
 * BB_EINTERNAL without memory. Free BUCKETS whatever comes back.
 */
BB_MUST bb_status bb_buckets_make(struct bb_buckets *buckets, const struct bb_model *model,
				  size_t element_size, uint64_t first_cap, uint64_t cap,
				  struct bb_error *error);
void bb_buckets_free(struct bb_buckets *buckets); /* zeroed: no-op */

/* Seconds from the begin of the backward pass until bucket B is complete; READY_S: [tensor]. */
static inline double bb_bucket_ready(const struct bb_bucket *b, const double *ready_s)
{
	return ready_s[b->first + b->count - 1];
}

/* Do A and B, of one model, group its tensors alike? */
bool bb_buckets_are_same(const struct bb_buckets *a, const struct bb_buckets *b);
