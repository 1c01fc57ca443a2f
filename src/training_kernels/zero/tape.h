/*
 * tape.h - a step in virtual time. The operations of one rank are recorded as the program of all
 * ranks and then evaluated, so that real and virtual ranks run the same code.
 */
#ifndef BB_TRAINING_KERNELS_ZERO_TAPE_H
#define BB_TRAINING_KERNELS_ZERO_TAPE_H

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

/* Record a computation of SECONDS. */
void bb_zero_tape_compute(struct bb_zero_tape *tape, enum bb_zero_phase phase, double seconds);
/* Record CALL, which waits for the computations recorded before and then overlaps with later
   ones. */
void bb_zero_tape_call(struct bb_zero_tape *tape, enum bb_zero_phase phase,
		       const struct bb_call *call);
/* Record that later computations wait for all calls. */
void bb_zero_tape_wait(struct bb_zero_tape *tape, enum bb_zero_phase phase);

/* Seconds of one step. */
struct bb_zero_times {
	double took[BB_ZERO_PHASES];   /* time in the phase */
	double waited[BB_ZERO_PHASES]; /* part of it spent waiting for collectives */
	double step;
};

/* Evaluate TAPE, starting now, and empty it. TIMES are those of rank 0, except that the step ends
   when the last rank ends. RANK belongs to a virtual backend. */
BB_MUST bb_status bb_zero_tape_evaluate(struct bb_zero_tape *tape, const struct bb_backend *backend,
					struct bb_rank *rank, struct bb_zero_times *times);
void bb_zero_tape_free(struct bb_zero_tape *tape);

#endif
