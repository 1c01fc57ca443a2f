/*
 * program.h - the operations of all ranks of a world as data: computations, collectives and
 * messages on queues, ordered across queues by events.
 *
 * A program is a pure function from (rank, index) to an operation; one that cannot compute it
 * writes its operations to tapes (tape.h). It has three consumers: the checker (bb_program_check);
 * the simulator (simulator/timeline/timeline.h), which computes the time of every operation over
 * modelled links; and the runner (harness/measure/runner.h), by which a backend performs it.
 *
 * The rules, which the checker proves:
 *   - A queue performs its operations one after another, in the order of their indices. Queues of a
 *     rank run concurrently.
 *   - An event belongs to a rank and is recorded once. A wait comes after the record of its event.
 *   - The collectives of a group match in the order of their indices; a member issues all of
 *     them to one queue. They are equal on all members, except for what follows from the rank.
 *   - A lane carries messages. Messages of a lane from one rank to another match in the order
 *     of their indices and have equal lengths. A rank sends those to one peer from one queue,
 *     and receives all of a lane into one queue. On one rank a lane receives from named peers
 *     or from any, not both.
 *   - Consecutive receives of a queue on one lane, each from a different named peer, may be
 *     posted together, as in a grouped call: then a sender does not wait for earlier receives.
 *     The queue continues after all of them. A library that does one operation at a time may
 *     do them in order.
 *   - Everything ends, even if each rank does its operations one at a time in the order of their
 *     indices, as some libraries do.
 */
#pragma once

#include "core/datatype.h"
#include "core/status.h"
#include "schedules/schedule.h"

#define BB_PROGRAM_QUEUES 8 /* most, of a rank */
#define BB_PROGRAM_LANES 8

enum bb_act {
	BB_ACT_COMPUTE,
	BB_ACT_COLLECTIVE,
	BB_ACT_SEND,     /* ends when the peer has it */
	BB_ACT_RECV,     /* from PEER */
	BB_ACT_RECV_ANY, /* from the peer whose message arrives first */
	BB_ACT_RECORD,   /* EVENT is reached */
	BB_ACT_WAIT      /* later operations of this queue wait for EVENT */
};

/* The members up to FLOPS are often given by their places. */
struct bb_operation {
	enum bb_act act;
	int queue;
	/* Defined by the kernel: the kind of work, and its bucket, layer or microbatch. */
	int work;
	size_t item;

	double seconds; /* COMPUTE: its time */
	double flops;   /* COMPUTE: floating-point operations; 0: unknown, unless SECONDS is 0 */

	int group; /* COLLECTIVE: number of its group; so are the next ones */
	const struct bb_collective *collective;
	int root;     /* a member's place in the group */
	size_t count; /* the count parameter of the call; messages: elements */
	enum bb_dtype dtype;
	enum bb_op op;
	bool in_place;

	int lane;       /* SEND, RECV, RECV_ANY */
	int peer;       /* SEND, RECV: a rank of the world; or BB_NO_PEER, with ANSWERS */
	bool together;  /* RECV: posted with the one before it in its queue */
	size_t answers; /* SEND: to the peer of the RECV_ANY with this index, on the same rank */

	int event; /* RECORD, WAIT */
};

/* A program is constant while it is used; its functions are pure. */
struct bb_program {
	const void *own; /* of the kernel */
	int nranks;
	int queues, lanes, events, groups; /* numbered from 0 */
	/* The algorithm of all collectives; NULL: the best for each. A schedule, or an algorithm of
	   the backend. */
	const char *algorithm;
	size_t (*length)(const struct bb_program *program, int rank);
	void (*operation)(const struct bb_program *program, int rank, size_t index,
			  struct bb_operation *operation);
	/* The number of members of GROUP, and the rank that is member I. NULL where there are no
	   groups. */
	int (*group_size)(const struct bb_program *program, int group);
	int (*member)(const struct bb_program *program, int group, int i);
};

/* Operation INDEX of RANK; what the program does not set is zero, and the peer BB_NO_PEER. */
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

/* COLLECTIVE: can a member end before all members have begun? */
static inline bool bb_operation_ends_early(const struct bb_operation *operation)
{
	return operation->collective->flags & BB_ROOTED || operation->collective == &bb_sendrecv ||
	       operation->count == 0;
}

/* The member function of a program whose groups have the first ranks, in their order. */
int bb_program_rank_itself(const struct bb_program *program, int group, int i);

/*
 * Checks PROGRAM against the rules. BB_EINTERNAL for the first violation, with rank, index and
 * operation in ERROR, and for a deadlock with the waiting ranks; BB_EUNSUPPORTED if a collective
 * does not exist for its number of ranks.
 */
BB_MUST bb_status bb_program_check(const struct bb_program *program, struct bb_error *error);

/* ---- memberships ---------------------------------------------------------------------- */

/* The members of a program's groups, found by group and by rank: a membership is a member's place
   in a group. */
struct bb_memberships {
	size_t *first; /* [group]: its first membership; [groups]: number of memberships */
	int *rank;     /* [membership] */
	size_t *mine;  /* [rank]: its first index in OWN; [nranks]: number of memberships */
	size_t *own;   /* memberships ordered by rank, then by group */
	int *group;    /* [membership] */
};

/* BB_EINTERNAL for an empty group, for a member that is not a rank or is twice in its group, and
   without memory. Free MEMBERSHIPS whatever comes back. */
BB_MUST bb_status bb_memberships_make(struct bb_memberships *memberships,
				      const struct bb_program *program, struct bb_error *error);
void bb_memberships_free(struct bb_memberships *memberships); /* zeroed: no-op */

/* The membership of RANK in GROUP, or SIZE_MAX. */
size_t bb_memberships_find(const struct bb_memberships *memberships, int group, int rank);

static inline int bb_memberships_size(const struct bb_memberships *memberships, int group)
{
	return (int)(memberships->first[group + 1] - memberships->first[group]);
}
