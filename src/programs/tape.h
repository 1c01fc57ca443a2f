/*
 * tape.h - the operations of a rank as they are written, one after another, and programs that
 * consist of them because they cannot compute an operation from its index.
 */
#pragma once

#include "programs/program.h"

struct bb_tape { /* zero-initialise */
	struct bb_operation *list;
	size_t n, room;
	int events;               /* recorded so far, numbered from 0 */
	bool failed;              /* out of memory: operations are missing */
	struct bb_operation lost; /* the last one that is missing */
};

/* Append OPERATION. Returns it, where the caller may complete it until the next one is appended. */
struct bb_operation *bb_tape_add(struct bb_tape *tape, struct bb_operation operation);
/* Append a computation of SECONDS and FLOPS to QUEUE. */
struct bb_operation *bb_tape_compute(struct bb_tape *tape, int queue, int work, size_t item,
				     double seconds, double flops);
/* Append COLLECTIVE in place, in group 0, to QUEUE. */
struct bb_operation *bb_tape_collective(struct bb_tape *tape, int queue, int work, size_t item,
					const struct bb_collective *collective, size_t count,
					enum bb_dtype dtype, enum bb_op op);
/* Append the record of a new event to QUEUE. Returns the event. */
int bb_tape_record(struct bb_tape *tape, int queue);
/* Append a wait for EVENT to QUEUE. */
struct bb_operation *bb_tape_wait(struct bb_tape *tape, int queue, int event);
/* Later operations of queue TO wait for the earlier ones of FROM. Returns the wait. */
struct bb_operation *bb_tape_order(struct bb_tape *tape, int from, int to);

/* Operations from BEGIN on: N of a tape from FROM on, TIMES times. Events of the first time are
   counted from EVENT on; each time has as many others as the tape has. */
struct bb_stretch {
	size_t begin, from, n, times;
	int tape, event;
};

/* What a rank performs: stretches, one after another. */
struct bb_sequence {
	struct bb_stretch *list;
	size_t n, room, length; /* in operations */
};

/* A program whose operations are on tapes. */
struct bb_taped {
	struct bb_program program;
	struct bb_sequence *sequences; /* [rank], or a single one that all ranks perform; owned */
	struct bb_tape *tapes;         /* [sequence * each + tape]; owned */
	int nsequences, each;
	/* The sequence of RANK, where there are others; OWN is the caller's, as below. */
	int (*sequence_of)(const void *own, int rank);
	/* Completes an operation of the tape for RANK. NULL: nothing. */
	void (*complete)(const void *own, int rank, struct bb_operation *operation);
	const void *own;
	int members; /* of its groups: ranks 0 to members-1 */
};

/*
 * *TAPED = a program of NRANKS with SEQUENCES, of EACH empty tapes, and groups of all ranks. The
 * caller sets queues, lanes, groups, algorithm and what completes operations, and members where
 * some ranks are in no group, writes the tapes, and calls bb_taped_end. TAPED must not move.
 * BB_EINTERNAL without memory. Free it whatever comes back.
 */
BB_MUST bb_status bb_taped_begin(struct bb_taped *taped, int nranks, int sequences, int each,
				 struct bb_error *error);
/* SEQUENCE goes on with what is on its TAPE from FROM on, as in struct bb_stretch. A sequence that
   performs nothing performs its first tape once. */
void bb_taped_perform(struct bb_taped *taped, int sequence, int tape, size_t from, size_t times,
		      int event);
/* The tapes are written, and the program has their events; repeated operations that record any need
   more. BB_EINTERNAL if operations of WHAT are missing. */
BB_MUST bb_status bb_taped_end(struct bb_taped *taped, const char *what, struct bb_error *error);
void bb_taped_free(struct bb_taped *taped); /* zeroed: no-op */

/* What a rank sends and receives in one run. */
struct bb_tape_traffic {
	double sent, received; /* bytes */
	size_t calls;          /* collectives, and messages that it sends */
};

/* That of RANK by the operations on its tape. A collective sends what the busiest member sends by
   the schedule ALGORITHM, 0 if it has none; by NULL, the one that sends least. */
struct bb_tape_traffic bb_taped_traffic(const struct bb_taped *taped, int rank,
					const char *algorithm);
