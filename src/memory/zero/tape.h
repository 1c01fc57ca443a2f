/*
 * tape.h - a step in virtual time. What a rank does is not done but put down, as a program for all
 * ranks, and then evaluated: so the same step is measured where ranks are real and computed where
 * they are not.
 */
#ifndef BB_MEMORY_ZERO_TAPE_H
#define BB_MEMORY_ZERO_TAPE_H

#include "backends/backend.h"
#include "programs/program.h"

/* The part of a step that an operation belongs to. */
enum bb_zero_phase {
	BB_ZERO_IN_FORWARD,
	BB_ZERO_IN_BACKWARD,
	BB_ZERO_IN_OPTIMIZER,
	BB_ZERO_IN_GATHER,
	BB_ZERO_PHASES
};

struct bb_zero_tape { /* zero-initialise all but nranks, algorithm and error */
	int nranks;
	const char *algorithm; /* see struct bb_program */
	struct bb_error *error;
	struct bb_operation *list; /* owned */
	size_t n, room;
	int events;
	bool failed; /* out of memory */
};

/* Rank computes for SECONDS. */
void bb_zero_tape_compute(struct bb_zero_tape *tape, enum bb_zero_phase phase, double seconds);
/* All that was put down before is waited for by CALL, which then runs beside what follows. */
void bb_zero_tape_call(struct bb_zero_tape *tape, enum bb_zero_phase phase,
		       const struct bb_call *call);
/* What follows waits for all calls. */
void bb_zero_tape_settle(struct bb_zero_tape *tape, enum bb_zero_phase phase);

/* Seconds of one step. */
struct bb_zero_times {
	double took[BB_ZERO_PHASES];   /* of this rank */
	double waited[BB_ZERO_PHASES]; /* of it, for collectives */
	double step;
};

/* Evaluate what is on TAPE from now on, and wipe it; *TIMES are rank 0's, but the step that of the
   last rank. RANK: of a virtual backend. */
BB_MUST bb_status bb_zero_tape_play(struct bb_zero_tape *tape, const struct bb_backend *backend,
				    struct bb_rank *rank, struct bb_zero_times *times);
void bb_zero_tape_free(struct bb_zero_tape *tape);

#endif
