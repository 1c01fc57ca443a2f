/*
 * main.c - from the command line to the exit status: messages on stderr, and how a process ends.
 */
#include "harness/run/health.h"

#include "core/clock.h"
#include "core/output.h"
#include "core/standard.h"
#include "core/units.h"
#include "harness/measure/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * How long process 1 leaves it to process 0 to report a failure that all may have, and the rest to
 * process 1. If one does, mpirun ends all of them within a second, and the failure is reported
 * once.
 */
#define FIRST_REPORT_SECONDS 1.5

/* Time to write the end of the output of a failed run, whose -T may be used up. */
#define LAST_OUTPUT_NS UINT64_C(2000000000)

/* ---- reporting failures --------------------------------------------------------------------- */

/* True if the processes have agreed on the failure, so that process 0 reports it for all. */
static bool is_assembled(const struct bb_run *run)
{
	return run->launch.nprocs > 1 && !run->assembly.lost;
}

/* Waits for processes 0 and 1, which may report the same failure. */
static void wait_for_first_report(const struct bb_run *run)
{
	const int proc = run->environment.launch.proc;
	const double until = bb_clock_now() + (proc == 1 ? 1 : 2) * FIRST_REPORT_SECONDS;

	if (run->environment.launch.nprocs <= 1 || proc == 0)
		return;
	while (bb_clock_now() < until) {
		const int signal = bb_guard_wait(true);

		if (signal)
			_exit(128 + signal);
	}
}

static void report_failure(struct bb_run *run)
{
	const struct bb_launch_hint *hint = &run->environment.launch;
	/* Process 0 has the same wrong command line, and the launcher reports failed processes. */
	const bool left_to_first =
		run->launch.nprocs == 0 && hint->reports && hint->proc > 0 &&
		(run->options.refused || bb_error_status(&run->error) == BB_EUSAGE);

	if (run->launch.silent || (is_assembled(run) && !bb_run_leads(run)))
		return;
	if (!is_assembled(run)) {
		bb_run_unguard(run); /* which would report a timeout as well */
		wait_for_first_report(run);
	}
	if (!left_to_first)
		bb_say(run->options.program, "%s", run->error.text);
}

/* Ends the process on the guard's thread. The main thread may be anywhere, so nothing is freed. */
static void give_up(void *argument, int signal)
{
	static const char *const stages[] = {
		[BB_STAGE_START] = "start-up",
		[BB_STAGE_COMPARE] = "comparing the command lines of all processes",
		[BB_STAGE_CONNECT] = "connecting all processes",
		[BB_STAGE_OPEN] = "opening the backend and planning",
		[BB_STAGE_END] = "shut-down",
	};
	struct bb_run *run = argument;
	const struct bb_launch_hint *hint = &run->environment.launch;
	const int stage = atomic_load(&run->stage), agreed = atomic_load(&run->agreed);
	const bool by_launch = stage == BB_STAGE_START || stage == BB_STAGE_END;
	bool speaks = true;
	char time[BB_UNIT_TEXT], who[BB_LAUNCH_AWAITED] = "";

	/* The launcher may end the rest because one process has left with the agreed status. */
	if (signal && agreed)
		_exit(agreed - 1);
	/* With several processes, one has reported its failure, or the launcher reports the signal.
	 */
	if (signal && hint->nprocs <= 1)
		bb_say(run->options.program, "interrupted");
	if (signal)
		_exit(128 + signal);
	if (stage == BB_STAGE_START && hint->nprocs > 1)
		snprintf(who, sizeof(who), "not all of the %d processes that %s started have come",
			 hint->nprocs, hint->launcher);
	/* The launch is open. */
	if (!by_launch && run->launch.abandon)
		speaks = run->launch.abandon(&run->launch, who);
	wait_for_first_report(run);
	if (!speaks)
		_exit(BB_ETIMEOUT);
	bb_say(run->options.program, "%s%s%s did not end within %s (-T)%s%s",
	       by_launch ? run->options.launch->name : "", by_launch ? " " : "", stages[stage],
	       bb_format_duration(time, 1e-9 * (double)run->options.timeout_ns), *who ? ": " : "",
	       who);
	_exit(BB_ETIMEOUT);
}

/* ---- --help and its like --------------------------------------------------------------- */

/* Prints --help, --list and their like. Returns false if a run was requested. */
static bool inform(struct bb_run *run, bb_status *status)
{
	const struct bb_benchmark *benchmark = run->benchmark;
	const struct bb_options *o = &run->options;
	const struct bb_option_table tables[] = {{benchmark->options, NULL, benchmark->refuses},
						 {bb_size_rows, NULL, benchmark->refuses},
						 {bb_option_rows, NULL, benchmark->refuses},
						 {bb_about_rows, NULL, NULL},
						 {NULL, NULL, NULL}};
	struct bb_about_program program = {
		.name = o->program, .brief = benchmark->brief, .tables = tables};
	struct bb_strbuf out = {0}, faults = {0};

	*status = BB_OK;
	if (bb_about_requested(&o->about)) {
		bb_options_fault_help(benchmark->faults, &faults);
		program.notes = bb_strbuf_text(&faults);
		memcpy(program.examples, benchmark->examples, sizeof(program.examples));
		bb_about_add(&o->about, &program, &out);
		out.failed |= faults.failed;
		bb_strbuf_free(&faults);
	} else if (o->list)
		benchmark->list(&out);
	else if (o->shows)
		*status = benchmark->show(run, &out);
	else
		return false;
	if (run->environment.launch.proc > 0)
		bb_strbuf_clear(&out); /* once is enough */
	/* BB_EUNSUPPORTED: the text contains the reasons. */
	if (*status == BB_OK || *status == BB_EUNSUPPORTED) {
		const bb_status written = bb_write_text("-", &out, &run->error);

		*status = written == BB_OK ? *status : written;
	}
	bb_strbuf_free(&out);
	return true;
}

/* ---- the run --------------------------------------------------------------------------- */

/* Appends the name of a process: its rank if it has only one. */
static void name_process(void *argument, int proc, struct bb_strbuf *out)
{
	const struct bb_run *run = argument;
	const struct bb_member *member = &run->assembly.members[proc];

	bb_strbuf_addf(out, "%s %d (%s, pid %d)", run->world.nlocal == 1 ? "rank" : "process", proc,
		       member->host, member->pid);
}

static void report_cause(const struct bb_run *run, const struct bb_drivers_outcome *outcome)
{
	if (outcome->silent)
		return;
	if (bb_error_status(&run->error) != BB_OK)
		bb_say(run->options.program, "%s", run->error.text);
	else if (outcome->caught)
		bb_say(run->options.program, "interrupted");
}

/* Ends the process on a guard's thread: the end of the output cannot be written. */
static void cut_short(void *argument, int signal)
{
	const struct bb_run *run = argument;
	char time[BB_UNIT_TEXT];

	/* The cause has been reported. */
	if (run->ending)
		_exit(run->ending);
	bb_say(run->options.program, "the end of the output could not be written within %s (-T)",
	       bb_format_duration(time, 1e-9 * (double)run->options.timeout_ns));
	_exit(BB_ETIMEOUT);
}

/* Reports the cause of a failure and writes the end of the output. Returns the exit status. */
static int report(struct bb_run *run, const struct bb_drivers_outcome *outcome)
{
	/* Processes other than 0 have no results to judge. */
	int status = outcome->caught ? 128 + outcome->caught : (int)bb_error_status(&run->error);
	struct bb_guard guard;

	bb_ticker_hide(&run->ticker);
	run->ending = status;
	/* A failure is reported before anything that may take time or wait for a reader. */
	if (run->ending)
		report_cause(run, outcome);
	if (outcome->stuck)
		bb_sinks_seize(&run->sinks);
	if (bb_run_leads(run) &&
	    bb_guard_start(&guard, run->ending ? LAST_OUTPUT_NS : run->options.timeout_ns, false,
			   cut_short, run, &run->error) != BB_OK) {
		status = BB_EINTERNAL;
	} else if (bb_run_leads(run)) {
		status = bb_run_conclude(run, outcome->caught);
		bb_guard_stop(&guard);
	}
	if (!run->ending)
		report_cause(run, outcome);
	return status;
}

/* Ends the process without freeing anything: a thread may still use it, or others never answer. */
static void leave(void *argument, const struct bb_drivers_outcome *outcome)
{
	struct bb_run *run = argument;
	const int status = report(run, outcome);

	bb_control_close(run->control);
	_exit(status);
}

static int measure(struct bb_run *run)
{
	const struct bb_drivers_config drivers = {
		.launch = &run->launch,
		.control = run->control,
		.world = &run->world,
		.backend = run->options.backend,
		.context = run->context,
		.timeout_ns = run->options.timeout_ns,
		.error = &run->error,
		.speaks_for_host = bb_assembly_speaks_for_host(&run->assembly),
		.drive = bb_engine_drive,
		.name = name_process,
		.leave = leave,
		.drivers = &run->drivers,
		.argument = run,
	};

	bb_pattern_store_open(&run->patterns);
	bb_run_counters_begin(run);
	/* The memory of a GPU may be used by others already. */
	if (run->options.backend->gpu)
		run->memory_before = bb_memory_taken(run);
	bb_run_unguard(run);
	struct bb_drivers_outcome outcome = bb_drivers_run(&drivers);
	if (run->launch.nprocs > 1 && (outcome.caught || bb_error_status(&run->error) != BB_OK))
		leave(run, &outcome);
	bb_status status = bb_run_guard(run, BB_STAGE_END);
	if (status == BB_OK)
		status = bb_run_counters_gather(run);
	bb_run_unguard(run);
	if (status != BB_OK) {
		outcome.silent = run->launch.silent;
		leave(run, &outcome);
	}
	bb_pattern_store_close(&run->patterns);
	int result = report(run, &outcome);
	/* All processes end in order, with the exit status of process 0. */
	status = bb_run_guard(run, BB_STAGE_END);
	if (status == BB_OK)
		status = bb_assembly_end(&run->assembly, &result);
	if (status != BB_OK) {
		report_failure(run);
		_exit(status);
	}
	atomic_store(&run->agreed, 1 + result);
	bb_run_close(run);
	return result;
}

int bb_main(int argc, char **argv, const struct bb_benchmark *benchmark)
{
	struct bb_run *run = calloc(1, sizeof(*run));
	void *own = calloc(1, benchmark->own_bytes);
	bb_status status = BB_EINTERNAL;
	int result = 0;

	if (!bb_standard_open())
		goto out;
	if (!run || !own) {
		bb_say(argv[0], "out of memory");
		goto out;
	}
	/* A reader that goes away makes the write fail and does not end the process. */
	signal(SIGPIPE, SIG_IGN);
	run->benchmark = benchmark;
	run->experiment = benchmark->experiment;
	run->text = benchmark->text;
	run->rows = benchmark->rows;
	run->own = own;
	run->argc = argc;
	run->argv = argv;
	run->started = run->marked = bb_clock_now();
	bb_record_init(&bb_record_run, &run->record);
	bb_record_init(&bb_record_end, &run->end);
	run->end.results = run->end.skipped = run->end.checked = run->end.wrong = 0;
	run->environment = bb_environment_read();
	run->give_up = give_up;
	BB_TRY(status,
	       bb_options_read(&run->options, benchmark, own, argc, argv, &run->environment,
			       &run->error),
	       failed);
	if (inform(run, &status)) {
		if (status != BB_OK)
			report_failure(run);
		goto out;
	}
	BB_TRY(status, bb_run_open(run), failed);
	result = measure(run);
	goto out;
failed:
	/* The drivers have not begun. */
	report_failure(run);
	if (run->launch.nprocs <= 1 && !run->assembly.lost) {
		bb_run_close(run);
		goto out;
	}
	/* A backend of several processes may not be able to close. */
	bb_sinks_close(&run->sinks);
	bb_control_close(run->control);
	if (is_assembled(run) && bb_run_guard(run, BB_STAGE_END) == BB_OK)
		run->launch.close(&run->launch);
	fflush(stdout);
	_exit(status);
out:
	if (run && own && benchmark->free_options)
		benchmark->free_options(own);
	if (run)
		bb_cluster_free(run->options.cluster);
	free(own);
	free(run);
	return status != BB_OK ? (int)status : result;
}
