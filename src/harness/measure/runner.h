/*
 * runner.h - runs a program on a backend: rank by rank on real ranks, all ranks at once in virtual
 * time (backends/virtual.h). Both report when each operation began and ended.
 */
#pragma once

#include "harness/measure/call.h"
#include "simulator/timeline/timeline.h"

/* What is done in place of a computation whose kernel does not matter. */
enum bb_stand_in {
	BB_SLEEP, /* occupies the queue, but no core or GPU */
	BB_SPIN,  /* keeps a core, or a part of the GPU, busy */
	BB_GEMM,  /* multiplies matrices for the flops of the operation (cuBLAS) */
	BB_STAND_INS
};
extern const char *const bb_stand_in_names[]; /* ends with NULL */

/* A program, with its computations and buffers. */
struct bb_workload {
	const struct bb_program *program;
	enum bb_stand_in stand_in;
	/*
	 * Performs a computation of RANK, in the order of its queue, on any thread of RANK's
	 * process; of a GPU on its driver's, which waits for the queue. NULL: stand-ins.
	 */
	void (*compute)(void *own, int rank, const struct bb_operation *operation);
	bool stands_in; /* a stand-in performs those that take time, COMPUTE the others */
	/*
	 * *in and *out = the buffers of a collective or of a message (*in is sent, *out is
	 * received), in the backend's memory, until the program has run. Not called in virtual
	 * time. NULL: the runner's own buffers, one per queue, whose contents mean nothing.
	 */
	void (*buffers)(void *own, int rank, const struct bb_operation *operation, void **in,
			void **out);
	void *own;
};

struct bb_runner; /* of one driver */

/*
 * Prepare WORKLOAD to be run any number of times: open queues, events, groups and buffers, and
 * settle the calls. Collective over the world, after bb_run_open_world. *RUNNER is closed by
 * bb_runner_close; WORKLOAD and its program must last as long. BB_EUNSUPPORTED, on all ranks, if
 * the backend of any rank cannot run it, with the first reason in REFUSAL: then nothing is open,
 * and the caller may go on with another program. Any other failure is in the run's error.
 */
BB_MUST bb_status bb_runner_open(struct bb_runner **runner, struct bb_run *run,
				 struct bb_driver *driver, const struct bb_workload *workload,
				 struct bb_error *refusal);
void bb_runner_close(struct bb_runner *runner); /* NULL: nothing */

/*
 * Run the program once, after a barrier. *END = seconds from the barrier until this rank was done
 * (in virtual time, until all were). WATCH, which may be NULL, then gets each operation of the
 * ranks of this driver, with times on its clock since the barrier; recording them may make the run
 * longer. Collective over the world.
 */
BB_MUST bb_status bb_runner_run(struct bb_runner *runner, const struct bb_timeline_watch *watch,
				double *end);

/* See bb_calls_count. */
BB_MUST bb_status bb_runner_count(struct bb_runner *runner, int rank, int work,
				  struct bb_sent *sent);
