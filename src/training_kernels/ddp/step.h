/*
 * step.h - a step of data-parallel training with gradients in buckets, as a program: forward
 * pass, backward pass with the reductions of buckets beside it. All ranks do the same.
 *
 * Buckets are formed as PyTorch's DistributedDataParallel forms them; one is reduced by one call.
 */
#pragma once

#include "models/model.h"
#include "programs/tape.h"

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

/* ---- the step ---------------------------------------------------------------------------- */

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
