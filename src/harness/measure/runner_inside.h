/*
 * runner_inside.h - what the files of the runner share.
 *
 *   runner.c        opening, closing, one run and its times
 *   runner_calls.c  groups, the calls of collectives, buffers
 *   runner_issue.c  operations, and stand-ins of computations
 *   runner_sent.c   what a rank sends
 */
#ifndef BB_HARNESS_MEASURE_RUNNER_INSIDE_H
#define BB_HARNESS_MEASURE_RUNNER_INSIDE_H

#include "harness/measure/bench.h"
#include "harness/measure/runner.h"

/* A group of the program. */
struct bb_runner_group {
	struct bb_group *handle; /* NULL: this rank is no member, or there is nothing to do */
	int place;               /* of this rank in it; -1: none */
	int size;
};

/* What collectives of a group have in common that differ in nothing but their buffers. */
struct bb_runner_call {
	struct bb_operation like; /* one of them */
	struct bb_call call;
	struct bb_layout layout;
};

/* A queue, and what it works on where the kernel does not say. */
struct bb_runner_queue {
	struct bb_queue *handle;
	struct bb_arena arena;
	double due; /* when all before was done, but for what sleepers woke late */
};

/* An operation of this rank. */
struct bb_item {
	struct bb_runner *runner;
	struct bb_operation operation;
	size_t index;
	size_t call;            /* COLLECTIVE: in runner->calls, unless its group has no handle */
	int source;             /* RECV_ANY: who it came from */
	bool chained;           /* a computation that begins when its queue is due */
	struct bb_event *event; /* the device's, when it was done; NULL: a stamp says it */
	double begin, end;
};

struct bb_runner {
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_rank *rank; /* the backend's, of this driver */
	const struct bb_workload *workload;
	const struct bb_program *program;
	const struct bb_native *natives; /* the backend's; of these OWNED is to be freed */
	struct bb_native *owned;
	struct bb_item *items;
	size_t nitems;
	struct bb_item **order;         /* of all items, when they are told of */
	struct bb_runner_group *groups; /* [group] */
	struct bb_group *lanes[BB_PROGRAM_LANES];
	struct bb_runner_queue queues[BB_PROGRAM_QUEUES];
	struct bb_event **events; /* [event] */
	/* [event]: when it was due; NULL: what is due stays within a queue. */
	double *dues;
	struct bb_runner_call *calls;
	size_t ncalls;
	bool names_native;       /* the program's algorithm is the library's */
	struct bb_event *origin; /* from which the items' events count; NULL: not watched yet */
	bool failed;             /* others may still be reading this rank's buffers, */
	atomic_bool over;        /* and what a queue still comes to is not done any more */
	atomic_int inside;       /* of what queues do, under way */
	char objection[BB_OBJECTION_TEXT]; /* why this rank cannot play it; empty: it can */
};

/* Keep the sentence unless there is one already. */
void bb_runner_object(struct bb_runner *runner, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Open the groups that this rank is in, and lanes; settle all calls, and lay out buffers. What
   cannot be done is objected to. Collective over the world. */
BB_MUST bb_status bb_runner_open_calls(struct bb_runner *runner);
void bb_runner_close_calls(struct bb_runner *runner);
/* Are both the same call, but for their buffers? */
bool bb_runner_is_like(const struct bb_operation *a, const struct bb_operation *b);
/* *HANDLE = the backend's group of the members of GROUP, or of all ranks if GROUP is negative. */
BB_MUST bb_status bb_runner_open_group(struct bb_runner *runner, int group,
				       struct bb_group **handle);
/* Decide by what CALL, whose operation is known, is done in GROUP. What cannot be is objected to.
 */
BB_MUST bb_status bb_runner_settle(struct bb_runner *runner, const struct bb_runner_group *group,
				   struct bb_runner_call *call);
/* Of this rank's OPERATION, once calls are open and its group has more than one member. */
const struct bb_call *bb_runner_call(const struct bb_runner *runner,
				     const struct bb_operation *operation);
/* Object to what the program's algorithm cannot do of the collectives whose first member RANK is,
   where time is virtual. */
BB_MUST bb_status bb_runner_judge_collectives(struct bb_runner *runner, int rank);

/* Put ITEM into its queue; WATCHED: and what says when it was done. */
BB_MUST bb_status bb_runner_issue(struct bb_item *item, bool watched);

#endif
