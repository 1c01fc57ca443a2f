/*
 * rank.h - one rank under one stage: its memory, its collectives and its steps.
 */
#ifndef BB_TRAINING_KERNELS_ZERO_RANK_H
#define BB_TRAINING_KERNELS_ZERO_RANK_H

#include "training_kernels/zero/ledger.h"
#include "training_kernels/zero/tape.h"
#include "training_kernels/zero/zero.h"

#define BB_ZERO_BLOCK ((size_t)16 << 10) /* elements that the CPU processes at a time */
#define BB_ZERO_VIEWS 5

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
extern const char *const bb_zero_point_names[BB_ZERO_POINTS];

struct bb_zero_moment {
	enum bb_zero_point point;
	size_t item;
	struct bb_usage now;
	uint64_t peak; /* most bytes held until then */
};

enum bb_zero_kind { BB_ZERO_REDUCE, BB_ZERO_SCATTER, BB_ZERO_GATHER, BB_ZERO_KINDS };

/* An in-place collective on one unit. */
struct bb_zero_call {
	struct bb_call call;
	uint64_t wire; /* bytes that a rank sends, by the schedule */
};

/* Working memory of a driver for all stages. */
struct bb_zero_blocks {
	float (*views)[BB_ZERO_BLOCK];  /* copies of memory that the CPU cannot access */
	float (*floats)[BB_ZERO_BLOCK]; /* two, for arithmetic */
};

/* BLOCKS is zeroed before. BB_EINTERNAL without memory; the caller closes BLOCKS whatever is
   returned. */
BB_MUST bb_status bb_zero_blocks_open(struct bb_zero_blocks *blocks, struct bb_error *error);
void bb_zero_blocks_close(struct bb_zero_blocks *blocks);

struct bb_zero_rank {
	const struct bb_zero *zero;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_zero_blocks *blocks; /* borrowed */
	int stage, rank;               /* of the ranks that divide the states */
	bool data;                     /* elements are really trained */
	bool has_peers;                /* other ranks run */
	struct bb_zero_places places;
	struct bb_ledger ledger;

	/* Arrays, whole or divided according to the stage. */
	struct bb_held parameters, gradients;
	struct bb_held master, moment1, moment2; /* divided */
	/* Stage 3: parameters of the current unit, and of the next one, being gathered. */
	struct bb_held current, prefetched;
	/* Stages 2 and 3: gradients of the current unit, and of the unit being reduced. */
	struct bb_held bucket, reducing;
	size_t reducing_unit;
	bool reducing_first; /* of the first microbatch */
	struct bb_held tmp, flag;

	struct bb_queue *queue;     /* of collectives; NULL: the main one */
	struct bb_zero_tape tape;   /* used in virtual time */
	bool taped;                 /* steps are recorded and evaluated in virtual time */
	struct bb_zero_call *calls; /* [kind * units + unit] */
	struct bb_call flag_call;
	const struct bb_native *natives;
	struct bb_native *own_natives;
	char objection[BB_OBJECTION_TEXT];

	int64_t step;   /* from 1 */
	uint64_t taken; /* steps of the optimizer */
	struct bb_zero_scale scale;
	uint64_t forward; /* sum of the forward pass */
	uint64_t wire;    /* bytes sent in this step */
	enum bb_zero_phase phase;
	double since; /* start of the phase */
	struct bb_zero_times times;
	struct bb_zero_moment *moments; /* of the first step */
	size_t nmoments, most_moments;
};

/* ---- rank.c ---------------------------------------------------------------------------------- */

/*
 * Allocate parameters and buffers of collectives of Z, of which only zero, run, driver, blocks,
 * stage and rank are set. BB_EUNSUPPORTED on all ranks, with the reason in z->objection, if a
 * collective cannot run. Collective over the world unless zero->alone. The caller calls
 * bb_zero_rank_close whatever is returned.
 */
BB_MUST bb_status bb_zero_rank_open(struct bb_zero_rank *z);
void bb_zero_rank_close(struct bb_zero_rank *z);

/* Acquire BYTES for HOLDING from the ledger, filled with zeros. */
BB_MUST bb_status bb_zero_acquire(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes,
				  bool host, struct bb_held *held);
/* Record the memory at POINT, in the first step only. */
void bb_zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item);
size_t bb_zero_size(const struct bb_zero_rank *z); /* bytes of an element */

/*
 * Set *SEEN to BYTES of MEMORY that the CPU can access: MEMORY itself, or a copy in view VIEW.
 * bb_zero_store writes changes back. HOST: MEMORY is host memory on any backend.
 */
BB_MUST bb_status bb_zero_view(struct bb_zero_rank *z, int view, char *memory, size_t bytes,
			       bool host, void **seen);
BB_MUST bb_status bb_zero_store(struct bb_zero_rank *z, char *memory, const void *seen,
				size_t bytes);

/* ---- calls.c --------------------------------------------------------------------------------- */

/* Prepare all collectives of the stage. */
BB_MUST bb_status bb_zero_calls_open(struct bb_zero_rank *z);
void bb_zero_calls_close(struct bb_zero_rank *z);
/* Issue KIND on UNIT, which is whole at MEMORY, after all work in the main queue. */
BB_MUST bb_status bb_zero_call(struct bb_zero_rank *z, enum bb_zero_kind kind, size_t unit,
			       char *memory);
/* Wait for all issued collectives. */
BB_MUST bb_status bb_zero_wait(struct bb_zero_rank *z);
/* Set *FOUND to whether it is true on any rank. Collective over the world. */
BB_MUST bb_status bb_zero_agree(struct bb_zero_rank *z, bool *found);

/* ---- step.c ---------------------------------------------------------------------------------- */

/* Run the next step, and set z->times and z->wire. Collective over the world. */
BB_MUST bb_status bb_zero_step(struct bb_zero_rank *z);

#endif
