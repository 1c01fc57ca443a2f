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
	BB_DDP_CYCLE,       /* no work: what is complete waits for the next cycle, the item */
	BB_DDP_NEGOTIATE,   /* in a cycle, the item: which gradients are complete on all ranks */
	BB_DDP_SCATTER,     /* the first of several collectives that reduce a bucket */
	BB_DDP_ACROSS,      /* one between the first and the last of them */
	BB_DDP_REDUCE,      /* the last or the only one */
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
	bool overlap;        /* reductions during the backward pass, else after it */
	size_t words;        /* of 8 bytes, which a negotiation combines by AND */
	bool blocks;         /* a negotiation waits for earlier reductions */
	/* Hierarchical: gradients are summed by a reduce-scatter within nodes of so many ranks, an
	   all-reduce between ranks with the same place in their nodes, and an all-gather; what does
	   not divide goes by one rank of each node (bb_fusion_divide). 0: they are averaged by one
	   all-reduce. */
	int node_ranks;
	bool unequal; /* the last node has fewer ranks */
	enum bb_ddp_part part;
};

/* The cycles that have buckets. */
size_t bb_ddp_negotiations(const struct bb_buckets *buckets);

/* The collective O of a bucket, which RANK has AT. */
void bb_ddp_in_place(const struct bb_ddp_step *step, const struct bb_operation *o, int rank,
		     char *at, void **in, void **out);

/*
 * TAPED performs STEP on NRANKS. STEP and what it points to outlive TAPED, which must not move.
 * ALGORITHM: see struct bb_program. BB_EINTERNAL without memory. Free TAPED whatever comes back.
 */
BB_MUST bb_status bb_ddp_write(struct bb_taped *taped, const struct bb_ddp_step *step, int nranks,
			       const char *algorithm, struct bb_error *error);

/* Seconds of a step. */
struct bb_ddp_times {
	double step_s;    /* until the last reduction ends; no optimizer */
	double reduce_s;  /* all reductions and their negotiations, one after another */
	double exposed_s; /* not hidden behind the backward pass */
	double hidden;    /* 1 - exposed / reduce, 0 to 1; NAN if reductions take no time */
};

/*
 * *TIMES of STEP, simulated with given parts: its computations take ALONE_S, of which the last
 * BACKWARD_S are the last backward pass, its reductions REDUCE_S[bucket], and a negotiation
 * REDUCE_S[buckets]; they slow down no computation.
 */
BB_MUST bb_status bb_ddp_simulate(const struct bb_ddp_step *step, double alone_s, double backward_s,
				  const double *reduce_s, struct bb_ddp_times *times,
				  struct bb_error *error);
