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
	BB_DDP_BROADCAST,   /* a bucket's parameters, from rank 0 */
	BB_DDP_EXTRA,       /* a call beside those of the buckets, the item */
	/* On memory, by the CPU of a real backend: */
	BB_DDP_COPY_IN,  /* a bucket's gradients, divided by the number of ranks */
	BB_DDP_COPY_OUT, /* a bucket's reduced gradients */
	BB_DDP_INSPECT,  /* the norm of all gradients, and whether one has overflowed */
	BB_DDP_UPDATE    /* Adam on a bucket's parameters */
};

/* The part of a step that a program has. */
enum bb_ddp_part {
	BB_DDP_ALONE,      /* computations without communication */
	BB_DDP_REDUCTIONS, /* communication without computations */
	BB_DDP_STEP,       /* the whole step */
	BB_DDP_COPIES,     /* copies alone; empty without them */
	BB_DDP_UPDATES,    /* inspection and updates alone; empty without an optimizer */
	BB_DDP_PARTS,
	BB_DDP_START = BB_DDP_PARTS /* no part: the parameters, broadcast before the first step */
};

/* How gradients are in the buckets that are reduced: gradient_as_bucket_view of PyTorch's DDP. With
   BB_DDP_VIEWS and BB_DDP_COPIED the all-reduce adds (mark_variable_ready_dense in reducer.cpp). */
enum bb_ddp_view {
	BB_DDP_AVERAGED, /* as views; the all-reduce averages, without a pass over memory */
	BB_DDP_VIEWS,    /* as views, which are divided in place */
	BB_DDP_COPIED    /* they are divided in the copy into the bucket, and copied back */
};

/* When and where the parameters of a bucket are updated. */
enum bb_ddp_place {
	BB_DDP_NEVER,
	BB_DDP_AFTER,      /* after all reductions, in the queue of the backward pass */
	BB_DDP_OWN_QUEUE,  /* after its reduction, in a third queue */
	BB_DDP_COMM_QUEUE, /* after its reduction, in the queue of reductions */
	BB_DDP_IN_BACKWARD /* after its backward pass, in that queue; nothing is communicated */
};

/*
 * Calls beside those of the buckets: rank 0 broadcasts the buffers before the first forward pass of
 * a step (_sync_buffers in PyTorch's distributed.py, one call for each datatype; buffers of known
 * models stay below its limit of 250 MiB), and the use of tensors is all-reduced behind the buckets
 * (find_unused_parameters).
 */
enum bb_ddp_extra { BB_DDP_BUFFERS, BB_DDP_COUNTERS, BB_DDP_USED, BB_DDP_EXTRAS };
extern const enum bb_dtype bb_ddp_extra_dtypes[BB_DDP_EXTRAS];

struct bb_ddp_step {
	double forward_s;
	const double *ready_s; /* [tensor]: seconds since the backward pass began, ascending */
	double flops;          /* of a second of computations; 0: unknown */
	const struct bb_buckets *buckets;
	size_t microbatches; /* >= 1; all but the last without communication (no_sync) */
	bool overlap;        /* reductions during the backward pass, else after it */
	size_t words;        /* of 8 bytes, which a negotiation combines by AND */
	/* Hierarchical: gradients are summed by a reduce-scatter within nodes of so many ranks, an
	   all-reduce between ranks with the same place in their nodes, and an all-gather; what does
	   not divide goes by one rank of each node (bb_fusion_divide). 0: they are averaged by one
	   all-reduce. */
	int node_ranks;
	bool unequal; /* the last node has fewer ranks */
	enum bb_ddp_part part;
	size_t extras[BB_DDP_EXTRAS]; /* elements; 0: no such call */
	/* Works on memory need gradients of one datatype and no hierarchy; with cycles, which copy
	   in the queue of reductions, no views and no updates. */
	enum bb_ddp_view view;
	enum bb_ddp_place place;
	bool inspects;      /* before the updates, BB_DDP_AFTER */
	double memory_rate; /* bytes per second of works on memory; 0: they are performed */
};

/* The row of call O in arrays that have those of N buckets, of negotiations and of extra calls. */
size_t bb_ddp_row(const struct bb_operation *o, size_t n);

/* The passes over the gradients of BUCKET: none, division in place, or two copies. Horovod copies
   none of a bucket with one tensor. */
int bb_ddp_passes(const struct bb_ddp_step *step, size_t bucket);

/* The collective O of a bucket, which RANK has AT. */
void bb_ddp_in_place(const struct bb_ddp_step *step, const struct bb_operation *o, int rank,
		     char *at, void **in, void **out);

/*
 * Bytes that PART of STEP, BB_DDP_COPIES or BB_DDP_UPDATES, reads and writes in memory: 2 for each
 * byte that is copied or divided; 28 an element for Adam, which reads the gradient, and reads and
 * writes parameter and both moments in fp32; a gradient in 16 bits and the rounded parameter have 2
 * each; an inspection reads the gradients.
 */
double bb_ddp_part_bytes(const struct bb_ddp_step *step, enum bb_ddp_part part);

/*
 * TAPED performs STEP on NRANKS. STEP and what it points to outlive TAPED, which must not move.
 * ALGORITHM: see struct bb_program. BB_EINTERNAL without memory. Free TAPED whatever comes back.
 */
BB_MUST bb_status bb_ddp_write(struct bb_taped *taped, const struct bb_ddp_step *step, int nranks,
			       const char *algorithm, struct bb_error *error);

/* Seconds of the parts of a step, each of them alone. */
struct bb_ddp_alone {
	double compute_s, backward_s; /* computations, of which the last are backward_s */
	const double *reduce_s;       /* [bucket], a negotiation, then [extra call] */
	double copy_s, update_s;
};

/*
 * Seconds of STEP by recurrences, from its parts ALONE, which do not slow down each other. Bucket k
 * is ready at r, its reduction takes c and its update o:
 *
 *     after         end = max(r, previous end) + c; then the sum of all o
 *     own queue     the same end; updated = max(end, previous updated) + o
 *     comm queue    end = max(r, previous end) + c + o
 *     in backward   the sum of all passes and o
 *     cycles        agreed = max(begin of the cycle, previous agreed) + a, the negotiation;
 *                   end = max(agreed, previous end) + c and the copies
 *
 * Copies in delay r. A copy out precedes the o of its bucket; with `after` or without updates it
 * also waits for the end of the backward pass.
 */
double bb_ddp_formula(const struct bb_ddp_step *step, const struct bb_ddp_alone *alone);
