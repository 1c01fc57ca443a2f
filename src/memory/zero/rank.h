/*
 * rank.h - one rank under one stage: what it holds, the collectives that it makes, and its steps.
 */
#ifndef BB_MEMORY_ZERO_RANK_H
#define BB_MEMORY_ZERO_RANK_H

#include "memory/zero/ledger.h"
#include "memory/zero/tape.h"
#include "memory/zero/zero.h"

#define BB_ZERO_BLOCK ((size_t)16 << 10) /* elements that are worked on at a time */
#define BB_ZERO_VIEWS 5

/* Points of a step at which the books are looked at. */
enum bb_zero_point {
	BB_ZERO_MODEL,   /* the parameters are there */
	BB_ZERO_WRAPPED, /* and what communication needs */
	BB_ZERO_FORWARD, /* of a layer, while its parameters are still there */
	BB_ZERO_BACKWARD,
	BB_ZERO_BEFORE, /* the optimizer */
	BB_ZERO_AFTER,
	BB_ZERO_POINTS
};
extern const char *const bb_zero_point_names[BB_ZERO_POINTS];

struct bb_zero_moment {
	enum bb_zero_point point;
	size_t item;
	struct bb_books now;
	uint64_t peak; /* held at most, until then */
};

enum bb_zero_kind { BB_ZERO_REDUCE, BB_ZERO_SCATTER, BB_ZERO_GATHER, BB_ZERO_KINDS };

/* A collective in place on one unit. */
struct bb_zero_call {
	struct bb_call call;
	uint64_t wire; /* bytes that a rank sends, as the schedule has it */
};

/* What a driver computes in, whatever the stage. */
struct bb_zero_blocks {
	char *views[BB_ZERO_VIEWS]; /* for memory that the CPU does not reach */
	float *floats[BB_ZERO_VIEWS];
};

/* BLOCKS is zeroed. BB_EINTERNAL without memory; to be closed whatever comes back. */
BB_MUST bb_status bb_zero_blocks_open(struct bb_zero_blocks *blocks, struct bb_error *error);
void bb_zero_blocks_close(struct bb_zero_blocks *blocks);

struct bb_zero_rank {
	const struct bb_zero *zero;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_zero_blocks *blocks; /* borrowed */
	int stage, rank;               /* of the world that is divided */
	bool data;                     /* elements are computed, in memory that is real */
	bool talks;                    /* there are others */
	struct bb_zero_places places;
	struct bb_ledger ledger;

	/* Rows; whole or divided as the stage says. */
	struct bb_held parameters, gradients;
	struct bb_held master, moment1, moment2; /* divided but under stage 0 */
	/* Stage 3: the unit that is worked on, and the next one, on its way. */
	struct bb_held here, ahead;
	/* Stages 2 and 3: the gradients of a unit, made now or being reduced. */
	struct bb_held bucket, flying;
	size_t flying_unit;
	bool flying_first; /* of the first micro-batch */
	struct bb_held tmp, flag;

	struct bb_queue *queue;   /* of collectives; NULL: the main one */
	struct bb_zero_tape tape; /* in virtual time */
	bool taped;
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
	double since; /* it began */
	struct bb_zero_times times;
	struct bb_zero_moment *moments; /* of the first step */
	size_t nmoments, most_moments;
};

/* ---- rank.c ---------------------------------------------------------------------------------- */

/*
 * Z, zeroed but for zero, run, driver, blocks, stage and rank, takes its parameters and what
 * communication needs. BB_EUNSUPPORTED with the reason in z->objection, on all ranks, where a
 * collective cannot be made so. Collective over the world unless zero->alone. bb_zero_rank_close
 * whatever comes back.
 */
BB_MUST bb_status bb_zero_rank_open(struct bb_zero_rank *z);
void bb_zero_rank_close(struct bb_zero_rank *z);

/* Take BYTES for HOLDING, all zeros. */
BB_MUST bb_status bb_zero_take(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes,
			       bool host, struct bb_held *held);
void bb_zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item);
size_t bb_zero_size(const struct bb_zero_rank *z); /* of an element */

/*
 * BYTES at MEMORY, where the CPU reaches them: there, or a copy, number VIEW of them. What is
 * changed in it is put back by bb_zero_put. HOST: it is in the host's memory whatever the backend.
 */
BB_MUST bb_status bb_zero_see(struct bb_zero_rank *z, int view, char *memory, size_t bytes,
			      bool host, void **seen);
BB_MUST bb_status bb_zero_put(struct bb_zero_rank *z, char *memory, const void *seen, size_t bytes);

/* ---- calls.c --------------------------------------------------------------------------------- */

/* Settle all collectives of the stage. */
BB_MUST bb_status bb_zero_calls_open(struct bb_zero_rank *z);
void bb_zero_calls_close(struct bb_zero_rank *z);
/* Issue KIND on UNIT, which is whole at MEMORY; what was issued to the main queue before is done
   first. */
BB_MUST bb_status bb_zero_call(struct bb_zero_rank *z, enum bb_zero_kind kind, size_t unit,
			       char *memory);
/* Wait until all that was issued is done. */
BB_MUST bb_status bb_zero_settle(struct bb_zero_rank *z);
/* *FOUND, of any rank. */
BB_MUST bb_status bb_zero_agree(struct bb_zero_rank *z, bool *found);

/* ---- step.c ---------------------------------------------------------------------------------- */

/* The next step, into z->times and z->wire. Collective over the world. */
BB_MUST bb_status bb_zero_step(struct bb_zero_rank *z);

#endif
