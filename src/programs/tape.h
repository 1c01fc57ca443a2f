/*
 * tape.h - the operations of a rank as they are written, one after another, for programs that
 * cannot compute an operation from its index.
 */
#ifndef BB_PROGRAMS_TAPE_H
#define BB_PROGRAMS_TAPE_H

#include "programs/program.h"

struct bb_tape { /* zero-initialise */
	struct bb_operation *list;
	size_t n, room;
	int events;  /* recorded so far, numbered from 0 */
	bool failed; /* out of memory: operations are missing */
};

/* Append OPERATION. */
void bb_tape_add(struct bb_tape *tape, struct bb_operation operation);
/* Append the record of a new event to QUEUE. Returns the event. */
int bb_tape_record(struct bb_tape *tape, int queue);
/* Append a wait for EVENT to QUEUE. */
void bb_tape_wait(struct bb_tape *tape, int queue, int event);
/* Later operations of queue TO wait for the earlier ones of FROM. */
void bb_tape_order(struct bb_tape *tape, int from, int to);

void bb_tape_free(struct bb_tape *tape); /* zeroed: no-op */

#endif
