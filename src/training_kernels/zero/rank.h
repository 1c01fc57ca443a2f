/*
 * rank.h - one rank under one stage: its memory, and its step as a program that all ranks perform.
 *
 * Writing the program acquires and releases memory as the step does, so that the ledger knows every
 * byte before anything runs; its operations have the addresses.
 */
#ifndef BB_TRAINING_KERNELS_ZERO_RANK_H
#define BB_TRAINING_KERNELS_ZERO_RANK_H

#include "training_kernels/zero/ledger.h"
#include "training_kernels/zero/zero.h"

#define BB_ZERO_BLOCK ((size_t)16 << 10) /* elements that the CPU processes at a time */
#define BB_ZERO_ARRAYS 5                 /* most, on which a computation works */
#define BB_ZERO_BLOCKS 7                 /* as many copies of memory, two for arithmetic */

/* Points of a step at which memory is recorded. */
enum bb_zero_point {
	BB_ZERO_MODEL,   /* parameters are allocated */
	BB_ZERO_WRAPPED, /* and buffers of collectives */
	BB_ZERO_FORWARD, /* of a layer, before its parameters are freed */
	BB_ZERO_BACKWARD,
	BB_ZERO_BEFORE, /* the optimizer */
	BB_ZERO_AFTER,
	BB_ZERO_POINTS
};

struct bb_zero_moment {
	enum bb_zero_point point;
	size_t item;
	struct bb_usage now;
	uint64_t peak; /* most bytes held until then */
};

/* The part of a step that an operation belongs to, its work. */
enum bb_zero_phase {
	BB_ZERO_IN_FORWARD,
	BB_ZERO_IN_BACKWARD,
	BB_ZERO_IN_OPTIMIZER,
	BB_ZERO_IN_GATHER,
	BB_ZERO_PHASES
};

/* What an operation does: the item is its number. */
enum bb_zero_action {
	BB_ZERO_SUM,     /* add up the parameters of a unit: its forward pass */
	BB_ZERO_DRAW,    /* make the gradients of a unit */
	BB_ZERO_KEEP,    /* add this rank's part of a reduced unit to its gradients */
	BB_ZERO_PLACE,   /* copy this rank's parameters of a unit to where it is gathered */
	BB_ZERO_INSPECT, /* look for gradients that overflow */
	BB_ZERO_UPDATE,  /* the optimizer, unless they do */
	BB_ZERO_CALL,    /* a collective on TO */
};

struct bb_zero_work {
	enum bb_zero_action action;
	size_t unit;
	int64_t microbatch;
	char *from, *to;
};

struct bb_zero_rank {
	struct bb_variant variant; /* its tapes are the program */
	const struct bb_zero *zero;
	float (*blocks)[BB_ZERO_BLOCK]; /* borrowed */
	int stage, rank;                /* of the ranks that divide the states */
	bool data;                      /* elements are really trained */
	bool has_peers;                 /* other ranks run */
	struct bb_zero_places places;
	struct bb_ledger ledger;

	/* Arrays, whole or divided according to the stage. */
	struct bb_held parameters, gradients;
	struct bb_held master, moment1, moment2; /* divided */
	/* Stage 3: parameters of the current unit, and of the next one, being gathered. */
	struct bb_held current, prefetched;
	struct bb_held reducing; /* stages 2 and 3: gradients of the unit being reduced */
	struct bb_held flag;     /* does any gradient overflow? */

	/* What is written. */
	struct bb_zero_work *works;
	size_t nworks, work_room;
	enum bb_zero_phase phase;
	struct bb_zero_moment *moments; /* of the first step */
	size_t nmoments, moment_room;
	bool noted; /* the first step is written */
	/* Temporary memory of collectives, which the runner allocates; among the held memory. */
	size_t tmp_bytes;
	uint64_t wire; /* bytes sent in a step, without the flag */

	/* The training. */
	int64_t step;   /* from 1 */
	uint64_t taken; /* steps of the optimizer */
	struct bb_zero_scale scale;
	int64_t skipped;  /* steps before this one */
	uint64_t forward; /* sum of the forward pass */
	bool overflowed;
	bb_status status; /* the first failure */

	/* Of the current step of rank 0: seconds in each phase, and then those of them that waited
	   for collectives. */
	double times[2 * BB_ZERO_PHASES];
	double last; /* end of the previous operation */
};

/*
 * Allocate the parameters of Z, of which only the variant's kernel, zero, blocks, stage and rank
 * are set, and write the program of its steps, of which there will be STEPS. The caller calls
 * bb_zero_rank_close whatever is returned.
 */
BB_MUST bb_status bb_zero_rank_open(struct bb_zero_rank *z, int64_t steps);
void bb_zero_rank_close(struct bb_zero_rank *z); /* zeroed or closed: no-op */

/* Settle the collectives of Z's program: tmp_bytes and wire. BB_EUNSUPPORTED on all ranks with the
   reason in REFUSAL if one cannot run. Collective over the world. */
BB_MUST bb_status bb_zero_rank_settle(struct bb_zero_rank *z, struct bb_error *refusal);

/* TRIAL = that of Z's program, of BB_TIMING_STEPS, without name, steps and stepped. */
void bb_zero_rank_trial(struct bb_zero_rank *z, struct bb_trial *trial);

/* Elements of SIZE bytes of Z's memory; HOST: in host memory on any backend. */
struct bb_zero_array {
	char *at;
	size_t size;
	bool host;
	bool written; /* not only read */
};

/* Call WORK for all blocks of N elements of ARRAYS, at most BB_ZERO_ARRAYS, of which the first is
   element FIRST of the model. The CPU can access a block's elements at SEEN[array]. */
typedef void bb_zero_block(struct bb_zero_rank *z, void *own, uint64_t first, size_t n,
			   void *const *seen);
BB_MUST bb_status bb_zero_each(struct bb_zero_rank *z, const struct bb_zero_array *arrays,
			       int narrays, uint64_t first, uint64_t n, bb_zero_block *work,
			       void *own);

#endif
