/*
 * start.c - opens a run up to the start of the crew, and closes it.
 */
#include "harness/run/run.h"

#include "backends/library.h"
#include "core/array.h"
#include "core/clock.h"
#include "harness/run/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_SECONDS 60.0 /* with -T 0 */
#define MEMORY_SHARE 0.8     /* of the available memory, for buffers */

/* ---- the processes --------------------------------------------------------------------- */

bb_status bb_run_guard(struct bb_run *run, enum bb_stage stage)
{
	bb_status status = BB_OK;

	atomic_store(&run->stage, stage);
	if (!run->guarded && run->options.launch)
		status = bb_guard_start(&run->guard, run->options.timeout_ns, true, run->give_up,
					run, &run->error);
	run->guarded = run->options.launch && status == BB_OK;
	run->assembly.lost |= status != BB_OK;
	return status;
}

void bb_run_unguard(struct bb_run *run)
{
	if (run->guarded)
		bb_guard_stop(&run->guard);
	run->guarded = false;
}

/* A single driver runs on this thread; queues, but for a GPU's, run on threads of their own. */
static enum bb_launch_callers callers_of(const struct bb_run *run)
{
	if (run->benchmark->queues && !run->options.backend->gpu)
		return BB_LAUNCH_AT_ONCE;
	return run->options.threads * run->options.gpus == 1 ? BB_LAUNCH_OPENER : BB_LAUNCH_IN_TURN;
}

/* Connects several processes; starts the library of a backend that needs one. */
static bb_status open_launch(struct bb_run *run)
{
	const struct bb_launch_kind *kind = run->options.launch;
	/* The launch gives up first: it can name the missing processes, the guard cannot. */
	const double half_s = 0.5e-9 * (double)run->options.timeout_ns;
	struct bb_launch_request request = {.callers = callers_of(run), .timeout_s = half_s};
	bb_status status;

	run->assembly = (struct bb_assembly){.launch = &run->launch, .error = &run->error};
	if (!kind) {
		run->launch = bb_launch_single();
		return BB_OK;
	}
	BB_TRY(status, bb_secret_open(&run->secret, &run->error), out);
	request.secret = run->secret;
	bb_guard_signals(); /* before the library starts threads of its own */
	BB_TRY(status, bb_run_guard(run, BB_STAGE_START), out);
	BB_TRY(status, kind->open(&run->launch, &request, &run->error), out);
	BB_TRY(status, bb_launch_check(&run->launch, &run->environment.launch, &run->error), out);
	BB_TRY(status, bb_run_guard(run, BB_STAGE_COMPARE), out);
	BB_TRY(status,
	       bb_assembly_compare(&run->assembly, run->argc, run->argv, &run->environment,
				   run->options.backend),
	       out);
	BB_TRY(status, bb_run_guard(run, BB_STAGE_CONNECT), out);
	status = bb_control_open(&run->control, &run->launch, run->secret,
				 half_s > 0 ? half_s : CONNECT_SECONDS, &run->error);
	run->assembly.lost |= run->launch.broken;
out:
	return status;
}

static void describe_world(struct bb_run *run)
{
	const int local = (int)(run->options.threads * run->options.gpus);
	const bool virtual = run->options.backend->virtual;

	run->world = (struct bb_world){
		.nranks = local * run->launch.nprocs,
		.nprocs = run->launch.nprocs,
		.proc = run->launch.proc,
		.first_rank = run->launch.proc * local,
		.nlocal = virtual ? 1 : local,
	};
}

/* ---- memory -------------------------------------------------------------------- */

/* Sets the memory for buffers to the minimum over all processes, so that all make the same plan. */
static bb_status share_memory(struct bb_run *run)
{
	const uint64_t available = run->options.backend->memory_available(run->context);
	const uint64_t mine =
		available == UINT64_MAX ? available : (uint64_t)(MEMORY_SHARE * (double)available);
	bb_status status;

	status = bb_assembly_agree(&run->assembly, bb_error_status(&run->error));
	return status == BB_OK ? bb_assembly_least(&run->assembly, mine, &run->memory) : status;
}

/* ---- the run ----------------------------------------------------------------------- */

void bb_run_describe(struct bb_run *run)
{
	const struct bb_options *o = &run->options;
	struct bb_run_record *r = &run->record;

	bb_record_init(&bb_record_run, r);
	bb_run_id(r->run_id);
	bb_time_text(r->start_time);
	r->program = run->options.program;
	r->version = BB_VERSION;
	r->args = (struct bb_words){run->argv, (size_t)run->argc};
	if (uname(&run->system) == 0) {
		r->host = run->system.nodename;
		r->os = run->system.release;
	}
	r->threads = o->threads;
	r->gpus = o->gpus;
	r->min_bytes = (int64_t)o->min_bytes;
	r->max_bytes = (int64_t)o->max_bytes;
	r->step_factor = o->step_factor;
	r->step_bytes = (int64_t)o->step_bytes;
	r->warmup_iters = o->warmup_iters;
	r->iters = o->iters;
	if (o->precision != 0)
		r->precision = o->precision;
	r->check = o->check;
	r->parallel_init = o->parallel_init != 0;
	r->seed = o->seed;
	r->fault = o->fault_text;
	r->link = o->link.text;
	r->cluster = o->cluster_text;
	r->calibrate = o->calibrate_text;
	if (o->cluster) {
		struct bb_strbuf text = {0};

		bb_cluster_describe(o->cluster, &text);
		snprintf(r->network, sizeof(r->network), "%s", bb_strbuf_text(&text));
		bb_strbuf_free(&text);
	}
	if (o->virtual.noise != 0)
		r->link_noise = o->virtual.noise;
	r->virtual_time = o->backend->virtual;
}

/* Notes NCCL's variables as the user set them, before the backend sets any. */
static void note_nccl_environment(struct bb_run *run)
{
	char **words = NULL;
	size_t n = 0, room = 0;

	for (char **e = environ; *e && run->options.backend->gpu; e++) {
		char **word;

		if (strncmp(*e, "NCCL_", 5) != 0)
			continue;
		word = BB_ARRAY_ADD(words, n, room);
		if (!word) {
			(void)bb_no_memory(&run->error, "the environment");
			break;
		}
		*word = *e;
	}
	run->nccl_environment = (struct bb_words){words, n};
}

/* Completes the run record but for the benchmark's fields. */
static void describe_run(struct bb_run *run)
{
	const struct bb_options *o = &run->options;
	struct bb_run_record *r = &run->record;

	bb_run_describe(run);
	r->backend = o->backend->name;
	r->library =
		o->backend->library ? o->backend->library->name(run->context) : run->launch.library;
	r->launch = run->launch.library;
	r->backend_reason = *o->backend_reason ? o->backend_reason : NULL;
	r->cpu = run->machine->cpu;
	r->cores = run->machine->ncores;
	r->nccl_environment = run->nccl_environment;
	r->lists_all = o->verbose;
	r->nranks = run->world.nranks;
	r->nprocs = run->world.nprocs;
}

static bb_status make_plan(struct bb_run *run)
{
	bb_status status = bb_options_check_world(&run->options, &run->world, &run->error);

	return status == BB_OK && run->benchmark->plan ? run->benchmark->plan(run) : status;
}

/* Process 0 opens the sinks. */
static bb_status open_results(struct bb_run *run)
{
	bb_status status;

	if (!bb_run_leads(run))
		return BB_OK;
	status = bb_sinks_open(&run->sinks, &run->options, run->benchmark->open_text,
			       run->benchmark->rows, stdout, &run->error);
	bb_ticker_start(&run->ticker, 0, 0);
	if (status == BB_OK && run->benchmark->open_results)
		status = run->benchmark->open_results(run);
	return status;
}

/* A bb_listener: shows the progress of an evaluation. */
static void show_progress(void *own, const struct bb_algorithm *schedule, size_t done, size_t all)
{
	struct bb_run *run = own;
	char what[96] = "program";

	if (schedule)
		snprintf(what, sizeof(what), "%s by %s", schedule->collective->name,
			 schedule->name);
	bb_ticker_progress(&run->ticker, what, done, all);
}

/* After each step that may fail in some processes only, all agree on its status. */
bb_status bb_run_open(struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;
	struct bb_virtual_config virtual = run->options.virtual;
	struct bb_backend_config config;
	bb_status status;

	BB_TRY(status, open_launch(run), failed);
	run->startup.connected = bb_clock_now();
	BB_TRY(status, bb_run_guard(run, BB_STAGE_OPEN), failed);
	describe_world(run);
	note_nccl_environment(run);
	run->infos = calloc((size_t)run->world.nranks, sizeof(*run->infos));
	if (!run->infos)
		(void)bb_no_memory(&run->error, "the ranks");
	BB_TRY(status, bb_assembly_agree(&run->assembly, run->infos ? BB_OK : BB_EINTERNAL),
	       failed);
	config = run->options.config;
	config.exchange = (struct bb_exchange){bb_crew_exchange, &run->crew};
	virtual.listener = (struct bb_listener){show_progress, run};
	config.virtual = backend->virtual ? &virtual : NULL;
	config.ranks_before = bb_assembly_before(&run->assembly) * run->world.nlocal;
	config.ranks_here = bb_assembly_here(&run->assembly) * run->world.nlocal;
	status = backend->open(&run->context, &run->world, &config, &run->error);
	BB_TRY(status, bb_assembly_agree(&run->assembly, status), failed);
	/* One process of each host reads the topology. Without it only bounds are missing. Virtual
	   ranks do not run on this machine. */
	if (!backend->virtual && bb_assembly_before(&run->assembly) == 0 &&
	    bb_topology_here(&run->topology, &run->topology_error) != BB_OK)
		run->topology = NULL;
	status = bb_machine_open(&run->machine, &run->error);
	BB_TRY(status, bb_assembly_agree(&run->assembly, status), failed);
	BB_TRY(status, share_memory(run), failed);
	describe_run(run);
	status = make_plan(run);
	if (status == BB_OK)
		status = open_results(run);
	status = bb_assembly_agree(&run->assembly, status);
	run->startup.opened = bb_clock_now();
failed:
	return status;
}

void bb_run_close(struct bb_run *run)
{
	bb_sinks_close(&run->sinks);
	free((void *)run->nccl_environment.words);
	if (run->benchmark->close)
		run->benchmark->close(run);
	bb_link_bounds_close(&run->link_bounds);
	bb_run_counters_end(run);
	bb_topology_free(run->topology);
	bb_machine_close(run->machine);
	if (run->context)
		run->options.backend->close(run->context);
	bb_control_close(run->control);
	if (run->launch.close)
		run->launch.close(&run->launch);
	bb_assembly_close(&run->assembly);
	bb_secret_close(run->secret);
	free(run->infos);
	bb_run_unguard(run);
}
