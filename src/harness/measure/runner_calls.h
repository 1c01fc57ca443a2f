/*
 * runner_calls.h - the groups, calls of collectives and buffers of a runner (runner.c), and what a
 * rank sends by them.
 */
#ifndef BB_HARNESS_MEASURE_RUNNER_CALLS_H
#define BB_HARNESS_MEASURE_RUNNER_CALLS_H

#include "harness/measure/call.h"
#include "harness/measure/runner.h"

/* A group of the program. */
struct bb_runner_group {
	struct bb_group *handle; /* NULL: this rank is no member, or there is nothing to do */
	int place;               /* of this rank in it; -1: none */
	int size;
};

/* A call that several collectives of a group share; they differ only in their buffers. */
struct bb_runner_call {
	struct bb_operation like; /* one of them */
	struct bb_call call;
	struct bb_layout layout;
};

/* A queue, and its own memory where the workload gives no buffers. */
struct bb_runner_queue {
	struct bb_queue *handle;
	struct bb_arena arena;
	double due; /* when its work so far would be done if sleepers did not wake late */
};

/* An operation of this rank. */
struct bb_item {
	struct bb_runner *runner;
	struct bb_operation operation;
	size_t index;
	size_t call;  /* COLLECTIVE: index in runner->calls, unless its group has no handle */
	int source;   /* RECV_ANY: rank that sent it */
	bool chained; /* a computation that begins when its queue is due */
	struct bb_event
		*event; /* recorded on the device when it is done; NULL: stamped by the CPU */
	double begin, end;
};

struct bb_runner {
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_rank *rank; /* the backend's, of this driver */
	const struct bb_workload *workload;
	const struct bb_program *program;
	const struct bb_native *natives; /* the backend's, in OWNED if that is not NULL */
	struct bb_native *owned;
	struct bb_item *items;
	size_t nitems;
	struct bb_item **order;         /* the items by their ends, for the watch */
	struct bb_runner_group *groups; /* [group] */
	struct bb_group *lanes[BB_PROGRAM_LANES];
	struct bb_runner_queue queues[BB_PROGRAM_QUEUES];
	struct bb_event **events; /* [event] */
	/* [event]: due time of the queue when it was recorded; NULL: not passed between queues. */
	double *dues;
	struct bb_runner_call *calls;
	size_t ncalls;
	bool names_native;       /* the program's algorithm is the library's */
	struct bb_event *origin; /* start of the items' events; NULL: not watched yet */
	bool failed;             /* buffers stay, because others may still read them */
	atomic_bool over;        /* host functions that queues still reach return at once */
	atomic_int inside;       /* host functions of queues that are running */
	char objection[BB_OBJECTION_TEXT]; /* why this rank cannot run it; empty: it can */
};

/* Set the runner's objection, unless it has one. */
void bb_runner_object(struct bb_runner *runner, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Open this rank's groups and the lanes, settle all calls and allocate buffers. Objects to what
   cannot be done. Collective over the world. */
BB_MUST bb_status bb_runner_open_calls(struct bb_runner *runner);
void bb_runner_close_calls(struct bb_runner *runner);
/* Virtual time: object to collectives that the program's algorithm cannot do, of the groups whose
   first member is RANK. */
BB_MUST bb_status bb_runner_judge_collectives(struct bb_runner *runner, int rank);

#endif
