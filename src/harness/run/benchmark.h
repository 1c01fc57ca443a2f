/*
 * benchmark.h - the constant descriptor of a benchmark, and main() of its program. main.c runs all
 * of them alike: options, launch, backend, drivers, records, exit status.
 *
 *   options.h     the options, parsed and checked
 *   plugin.h      backends and launches that are loaded at run time
 *   run.h         one run, from start-up to exit status
 *   world.h       what the processes of a run agree on
 *   record.h      what is known about the run and about each finished case
 *   sink.h        where records go: text, CSV, JSON lines
 */
#pragma once

#include "harness/results/sink.h"

struct bb_experiment;
struct bb_run;

#define BB_ALL_SIZES "minbytes maxbytes stepbytes stepfactor" /* bb_size_rows */

struct bb_benchmark {
	const char *brief;                 /* for --help */
	const char *examples[BB_EXAMPLES]; /* command lines without the program */
	const void *subject; /* what it measures, if several programs share a benchmark */

	/*
	 * Its state, run->own: OWN_BYTES, zeroed when the run begins. It begins with the struct
	 * that OPTIONS, its own rows beside those of all programs, are read into.
	 */
	size_t own_bytes;
	const struct bb_option *options;
	unsigned faults; /* bit per enum bb_fault_kind that it supports */
	/* Options that it refuses, of all programs or of OPTIONS; ends with names NULL. */
	struct bb_option_refusal refuses[3];
	bool queues;   /* its drivers open queues, which may call a library concurrently */
	bool programs; /* only in virtual time does it run programs, made of messages */

	/* The option of its own that requests what SHOW prints. NULL: there is none. */
	const char *shows;
	/* True if OWN's options, whose links are in OPTIONS, request a simulation instead of what
	   SHOW prints; then --backend auto is sim. NULL: never. */
	bool (*simulates)(const void *own, const struct bb_options *options);
	/* The option of its own that needs no measurement, so that --backend auto is null. NULL:
	   there is none. */
	const char *predicts;
	/*
	 * Before anything is started, in every process: resolve and check OWN's options, with
	 * OPTIONS read and their backend and fault known. BB_EUSAGE or BB_EUNSUPPORTED, naming the
	 * word. NULL: the rows say all.
	 */
	bb_status (*check)(const struct bb_benchmark *benchmark, void *own,
			   struct bb_options *options, const struct bb_environment *environment,
			   struct bb_error *error);
	/* Free what CHECK allocated in OWN, at the end, also after a failed CHECK. NULL: nothing.
	 */
	void (*free_options)(void *own);
	void (*list)(struct bb_strbuf *out); /* --list */
	/* Prints instead of running, if SHOWS. */
	bb_status (*show)(struct bb_run *run, struct bb_strbuf *out);

	const struct bb_sink_ops *text;    /* on stdout */
	const struct bb_record_kind *rows; /* the rows of --csv */

	/*
	 * Once the world is known, in every process, before the drivers: make the plan, and fill
	 * the benchmark's fields of run->record. BB_EUNSUPPORTED if nothing can be run. NULL: the
	 * experiment decides.
	 */
	bb_status (*plan)(struct bb_run *run);
	/* In process 0, with the sinks open. NULL: nothing more is needed. */
	bb_status (*open_results)(struct bb_run *run);
	/* The work of every driver (harness/measure/engine.h). */
	const struct bb_experiment *experiment;
	/*
	 * In process 0, once the drivers are done: fill its part of run->end. If the run, otherwise
	 * right, has not passed a gate, returns BB_EDATA with *VERDICT ("below the gate"); if it
	 * cannot be judged, BB_EBACKEND with the reason in run->error. NULL: there is no gate.
	 */
	bb_status (*judge)(struct bb_run *run, const char **verdict);
	/* In process 0, before the end record: deliver records that follow from several results.
	   BB_EINTERNAL without memory, or the status of the sinks. NULL: there are none. */
	bb_status (*sum_up)(struct bb_run *run);
	/* Appends '#' lines that end the text. NULL: none. */
	void (*tell)(struct bb_run *run, struct bb_strbuf *out);
	/* Free what OWN holds; also after a failed plan. NULL: nothing. */
	void (*close)(struct bb_run *run);
};

/* main() of a perf program. Returns the exit status (see status.h). */
int bb_main(int argc, char **argv, const struct bb_benchmark *benchmark);
