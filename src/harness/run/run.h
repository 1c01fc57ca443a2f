/*
 * run.h - one run of a perf binary, from its command line to its exit status, as a value.
 *
 *   main.c      messages, and how the process ends
 *   start.c     opening and closing of launch, agreement, backend and sinks, and what all drivers
 *               exchange before they measure
 *   health.c    counters of hosts and the state of GPUs, before and after
 *   conclude.c  the end record and the exit status
 */
#pragma once

#include "harness/run/benchmark.h"
#include "harness/run/drivers.h"
#include "harness/run/guard.h"
#include "harness/run/link_bound.h"
#include "harness/run/pattern.h"
#include "harness/run/ticker.h"
#include "harness/run/world.h"
#include "launch/control.h"
#include "topology/probes/counters.h"
#include "topology/probes/machine.h"

#include <stdatomic.h>
#include <sys/utsname.h>

#define BB_RUN_MOVES 24 /* of the counters of a host at most, the gravest first */

/* The stages in which this process waits for others under the guard. */
enum bb_stage { BB_STAGE_START, BB_STAGE_COMPARE, BB_STAGE_CONNECT, BB_STAGE_OPEN, BB_STAGE_END };

/* Everything that one run owns. */
struct bb_run {
	const struct bb_benchmark *benchmark;
	void *own; /* the benchmark's state */
	/* The benchmark's, unless its plan replaces them. */
	const struct bb_experiment *experiment;
	const struct bb_sink_ops *text;
	const struct bb_record_kind *rows;
	struct bb_environment environment;
	struct bb_options options;
	int argc; /* the command line */
	char **argv;
	struct bb_words
		nccl_environment; /* see struct bb_run_record; the words are the environment's */
	struct bb_error error;
	struct bb_error nothing; /* why there is nothing to run; reported at the end */
	struct bb_launch launch; /* zeroed until it is open */
	struct bb_assembly assembly;
	struct bb_secret *secret;   /* NULL: none */
	struct bb_control *control; /* NULL: one process */
	struct bb_guard guard;
	bool guarded;
	atomic_int stage;  /* enum bb_stage */
	int ending;        /* exit status of a run that failed before its conclusion; 0: none */
	atomic_int agreed; /* 1 + the exit status that all processes agreed on; 0: not yet */
	/* Called on the guard's thread, see guard.h; ARGUMENT is the run. */
	void (*give_up)(void *argument, int signal);
	struct bb_world world;
	struct bb_drivers *drivers; /* while it runs, for the backend's exchange */
	struct bb_context *context;
	uint64_t memory; /* bytes that buffers of this process may take; UINT64_MAX: no limit */
	struct bb_rank_info *infos; /* of all ranks, after bb_run_open_world */
	bool begun;                 /* the sinks have the run record and need an end record */
	struct bb_machine *machine;
	struct bb_topology *topology;   /* in the first process of each host; NULL: unknown */
	struct bb_error topology_error; /* why it is unknown */
	struct bb_pattern_store patterns;
	struct { /* health.c's */
		struct bb_counters before;
		/* Process 0: BB_RUN_MOVES of each process that is known; unused ones are zeroed. */
		struct bb_counter_move *moves;
		int nprocs;
	} counters;
	double started;        /* CLOCK_MONOTONIC seconds at program start */
	double marked;         /* the same at the last bb_run_mark */
	int64_t memory_before; /* bb_memory_taken before the run */

	/* Used by process 0; while the drivers run, by that of rank 0. */
	struct utsname system;
	struct bb_run_record record;
	char topology_digest[BB_DIGEST_TEXT];
	struct bb_link_bounds link_bounds;
	struct bb_sinks sinks;
	struct bb_ticker ticker;
	struct bb_end_record end; /* sums of the results so far */
	/* What the end record borrows: the outcome of the check of the data, and bb_run_answer. */
	struct bb_strbuf data, answers;
};

/*
 * Open launch, backend, plan and sinks for the options of RUN. Collective over the processes: all
 * return the same status, unless assembly.lost is set or the launch could not be opened. Call
 * bb_run_close whatever comes back, or leave the process.
 */
BB_MUST bb_status bb_run_open(struct bb_run *run);
/* Collective where the launch is open. */
void bb_run_close(struct bb_run *run);

/* A part of the start-up is over: *MS, of run->record, = its milliseconds, which began with the
   program or at the last call. */
void bb_run_mark(struct bb_run *run, double *ms);

/* Have the guard watch STAGE from now on; without a launch there is no guard. */
BB_MUST bb_status bb_run_guard(struct bb_run *run, enum bb_stage stage);
void bb_run_unguard(struct bb_run *run);

/* True in process 0, which writes all output. */
static inline bool bb_run_leads(const struct bb_run *run)
{
	return run->launch.proc == 0;
}

/*
 * Process 0, once the drivers are done: end the output with the verdict; CAUGHT is the signal that
 * ended the run, or 0. Returns the exit status.
 */
int bb_run_conclude(struct bb_run *run, int caught);

/*
 * Returns the bytes taken from the memory of buffers: on CPUs the peak of this process so far; on
 * GPUs minus the free memory, of which only differences mean something.
 */
int64_t bb_memory_taken(const struct bb_run *run);

/* ---- for the drivers of any benchmark; collective over the world ------------- */

/*
 * Exchange the locations of all ranks into run->infos, with each rank's group by GROUP_OF (NULL:
 * all are in one). *WORLD = the group of all ranks, which the caller closes.
 */
BB_MUST bb_status bb_run_open_world(struct bb_run *run, struct bb_driver *driver,
				    int (*group_of)(const struct bb_run *run, int rank),
				    struct bb_group **world);

/*
 * With -M, *BYTES on rank 0 = the memory taken since the start, without what the end record already
 * has.
 */
BB_MUST bb_status bb_run_note_memory(struct bb_run *run, struct bb_driver *driver, int64_t *bytes);

/*
 * The '#' lines of TEXT from byte FROM on answer the run's question: the end record has them as
 * sentences, so that a report says what the text says. Process 0, before the end record.
 */
void bb_run_answer(struct bb_run *run, const struct bb_strbuf *text, size_t from);

/* True if RANK is the lowest rank on its device. */
bool bb_is_first_on_device(const struct bb_rank_info *infos, int rank);
/* Set the node of each of N ranks: hosts are numbered by their first ranks. */
void bb_number_nodes(struct bb_rank_info *infos, int n);

/*
 * On rank 0: complete the run record with COPY_RATE, bytes per second of private copies of all
 * ranks together (NAN: not measured), and begin the sinks.
 */
BB_MUST bb_status bb_run_begin(struct bb_run *run, struct bb_driver *driver, double copy_rate);

/* ---- records of what is computed or explained instead of measured: nothing is started ------ */

/*
 * Open RUN's sinks for records of ROWS, without text, and write the run's record, with NRANKS and
 * ALGORITHMS (NULL: none); fields that only a run has are absent. Of several processes the first
 * alone writes. Close by bb_sinks_close whatever comes back.
 */
BB_MUST bb_status bb_estimate_open(struct bb_run *run, const struct bb_record_kind *rows,
				   int nranks, const char *algorithms);
BB_MUST bb_status bb_estimate_record(struct bb_run *run, const struct bb_record_kind *kind,
				     const void *record);
/* Write the end record with STATUS. Fold the '#' lines of the text in OUT, or clear it where
   records go to stdout. Returns STATUS, or why the records could not be written. */
BB_MUST bb_status bb_estimate_end(struct bb_run *run, struct bb_strbuf *out, bb_status status);
