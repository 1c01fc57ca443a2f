/*
 * program.h - what all ranks of a world do, as data: computations, collectives and messages, laid
 * out over queues and ordered across them by events.
 *
 * A program is a pure function from (rank, index) to an operation. Three things consume it: the
 * checker (check.c), the evaluator (timeline.h), which gives every operation its time on a
 * model of the links, and the player (harness/play.h), which has a backend do it.
 *
 * The rules, which the checker proves:
 *   - A queue does its operations one after the other, in the order of their indices. Queues of a
 *     rank run beside each other.
 *   - An event is a rank's own and is recorded once. A wait comes after the record it waits for.
 *   - The collectives of a group match in the order of their indices; a member issues all of them
 *     to one queue. They are the same on all members but for what follows from the rank.
 *   - A lane carries messages. Those of a lane from one rank to another match in the order of their
 *     indices, and have the same length. A rank sends those of a lane to a peer from one queue, and
 *     receives all those of a lane into one queue; a lane has receives from a named peer or from
 *     any, not both on one rank.
 *   - Receives from named peers that follow each other in a queue, on one lane and each from
 * another peer, may be posted together, as in a grouped call: then whoever sends to one of them
 * need not wait for those before it. Their queue goes on when it has them all. A library that does
 * one thing at a time may do them in their order.
 *   - Everything ends: also where a rank did its operations one after the other in the order of
 *     their indices, which is what a library may come to that runs one thing at a time.
 */
#ifndef BB_PROGRAMS_PROGRAM_H
#define BB_PROGRAMS_PROGRAM_H

#include "core/datatype.h"
#include "core/status.h"
#include "schedules/schedule.h"

#define BB_PROGRAM_QUEUES 8 /* of a rank, at most */
#define BB_PROGRAM_LANES 8
#define BB_PROGRAM_TEXT 64

enum bb_act {
	BB_ACT_COMPUTE,
	BB_ACT_COLLECTIVE,
	BB_ACT_SEND,     /* done when the peer has it */
	BB_ACT_RECV,     /* from PEER */
	BB_ACT_RECV_ANY, /* from whoever's message is there first */
	BB_ACT_RECORD,   /* EVENT is reached */
	BB_ACT_WAIT      /* what follows in this queue waits for EVENT */
};

struct bb_operation {
	enum bb_act act;
	int queue;
	/* What it is in the kernel's words, for whoever plays it and whoever draws it: which kind
	   of work, and on which bucket, layer or microbatch. */
	int work;
	size_t item;

	double seconds; /* COMPUTE: how long it takes */
	double flops; /* COMPUTE: floating-point operations in it; 0 where it takes time: not known
		       */

	int group; /* COLLECTIVE: among all of the same program, as all the rest of these */
	const struct bb_collective *collective;
	int root;     /* a member's place in the group */
	size_t count; /* the call's count parameter; messages: elements */
	enum bb_dtype dtype;
	enum bb_op op;
	bool in_place;

	int lane;       /* SEND, RECV, RECV_ANY */
	int peer;       /* SEND, RECV: a rank of the world; or BB_NO_PEER, with ANSWERS */
	bool together;  /* RECV: posted with the one before it in its queue */
	size_t answers; /* SEND to whom the RECV_ANY of this index, of the same rank, heard from */

	int event; /* RECORD, WAIT */
};

/* Constant while it is used; its functions are pure. */
struct bb_program {
	const void *own; /* the kernel's */
	int nranks;
	int queues, lanes, events, groups; /* numbered from 0 */
	/* Of all collectives; NULL: whatever is best. Names of schedules are known to all, others
	   to the backend that plays it. */
	const char *algorithm;
	size_t (*length)(const struct bb_program *program, int rank);
	void (*operation)(const struct bb_program *program, int rank, size_t index,
			  struct bb_operation *operation);
	/* The number of members of GROUP, and the rank that is member I. NULL where there are no
	   groups. */
	int (*group_size)(const struct bb_program *program, int group);
	int (*member)(const struct bb_program *program, int group, int i);
	/* TEXT = what a user calls OPERATION ("all_reduce of bucket 3"). NULL: its act and item. */
	void (*describe)(const struct bb_program *program, const struct bb_operation *operation,
			 char text[BB_PROGRAM_TEXT]);
};

/* The operation, zeroed before the program fills it. */
static inline struct bb_operation bb_program_at(const struct bb_program *program, int rank,
						size_t index)
{
	struct bb_operation operation = {.peer = BB_NO_PEER};

	program->operation(program, rank, index, &operation);
	return operation;
}

static inline size_t bb_operation_bytes(const struct bb_operation *operation)
{
	return operation->count * bb_dtype_size(operation->dtype);
}

/* COLLECTIVE: can a member be done before all have come? */
static inline bool bb_operation_ends_early(const struct bb_operation *operation)
{
	return operation->collective->flags & BB_ROOTED || operation->collective == &bb_sendrecv ||
	       operation->count == 0;
}

/* The group_size and member of a program whose groups have all ranks, in their order. */
int bb_program_all_ranks(const struct bb_program *program, int group);
int bb_program_rank_itself(const struct bb_program *program, int group, int i);

/* RANK's place among the members of GROUP, or -1. */
int bb_program_place(const struct bb_program *program, int group, int rank);

/* TEXT = what a user calls the operation. */
void bb_program_describe(const struct bb_program *program, const struct bb_operation *operation,
			 char text[BB_PROGRAM_TEXT]);

/*
 * Does PROGRAM keep the rules? BB_EINTERNAL with the first rule that is broken, or BB_EUNSUPPORTED
 * for a number of ranks that a collective does not exist for, and where in ERROR: rank, index, what
 * the operation is, and for what never ends who waits for whom.
 */
BB_MUST bb_status bb_program_check(const struct bb_program *program, struct bb_error *error);

#endif
