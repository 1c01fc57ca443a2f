/*
 * run.h - one run of a perf binary, from its command line to its exit status; a value that the
 * parts of that way share.
 *
 *   main.c      what is said and how the process ends
 *   start.c     launch, agreement, backend, plan, sinks; and letting go of them
 *   conclude.c  the end record and the exit status
 */
#ifndef BB_HARNESS_RUN_H
#define BB_HARNESS_RUN_H

#include "harness/bench.h"
#include "harness/guard.h"
#include "harness/world.h"
#include "launch/control.h"
#include "topology/machine.h"

#include <stdatomic.h>
#include <sys/utsname.h>

/* What waits for other processes while the guard looks on. */
enum bb_stage { BB_STAGE_START, BB_STAGE_COMPARE, BB_STAGE_CONNECT, BB_STAGE_OPEN, BB_STAGE_END };

/* Everything one run holds, so that it can be let go in one place. */
struct bb_run {
	struct bb_environment environment;
	struct bb_options options;
	struct bb_error error;
	struct bb_error nothing; /* why there is nothing to run; told in the end */
	struct bb_launch launch; /* zeroed until it is open */
	struct bb_assembly assembly;
	struct bb_control *control; /* NULL: one process */
	struct bb_guard guard;
	bool guarded;
	atomic_int stage;  /* enum bb_stage */
	atomic_int agreed; /* 1 + the exit status that all processes agreed on; 0: not yet */
	/* Called on the guard's thread, see guard.h; ARGUMENT is the run. */
	void (*give_up)(void *argument, int signal);
	struct bb_world world;
	struct bb_context *context;
	const struct bb_native *natives;
	struct bb_native *own_natives; /* or NULL */
	struct bb_machine *machine;
	struct bb_plan plan;
	struct bb_sinks sinks;
	struct bb_compare *compare;
	struct bb_ticker ticker;
	struct utsname system;
	struct bb_bench bench;
};

/*
 * Everything that a run needs: options are read, the rest is made here. Collective over the
 * processes: all return the same status, unless assembly.lost is set or there was no launch yet.
 * Call bb_run_close whatever comes back, or leave the process.
 */
BB_MUST bb_status bb_run_open(struct bb_run *run, int argc, char **argv,
			      const struct bb_collective *collective);
/* Collective where the launch is open. */
void bb_run_close(struct bb_run *run);

/* From here on STAGE is what the guard watches over; without a launch nothing needs it. */
BB_MUST bb_status bb_run_guard(struct bb_run *run, enum bb_stage stage);
void bb_run_unguard(struct bb_run *run);

/* Process 0 writes and speaks. */
static inline bool bb_run_leads(const struct bb_run *run)
{
	return run->launch.proc == 0;
}

/*
 * Process 0, once the crew is done: end the output, with what it came to, CAUGHT being the signal
 * that ended it. Returns the exit status.
 */
int bb_run_conclude(struct bb_run *run, int caught);

/* Most bytes that this process had in memory so far. */
int64_t bb_resident_bytes(void);

#endif
