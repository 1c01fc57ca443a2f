/*
 * start.c - opens a run up to the start of the drivers, what every driver does before it measures,
 * and closes the run. The drivers exchange their locations and compare clocks, and rank 0 begins
 * the output.
 */
#include "harness/run/run.h"

#include "backends/library.h"
#include "backends/virtual.h"
#include "core/array.h"
#include "core/clock.h"
#include "core/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

void bb_run_mark(struct bb_run *run, double *ms)
{
	const double now = bb_clock_now();

	*ms = 1e3 * (now - run->marked);
	run->marked = now;
}

/* Connects several processes; starts the library of a backend that needs one. */
static bb_status open_launch(struct bb_run *run)
{
	const struct bb_launch_kind *kind = run->options.launch;
	/* The launch gives up first: it can name the missing processes, the guard cannot. */
	const double half_s = 0.5e-9 * (double)run->options.timeout_ns;
	struct bb_launch_request request = {.callers = BB_LAUNCH_IN_TURN, .timeout_s = half_s};
	bb_status status;

	run->assembly = (struct bb_assembly){.launch = &run->launch, .error = &run->error};
	if (!kind) {
		run->launch = bb_launch_single();
		return BB_OK;
	}
	/* A single driver runs on this thread; queues, but for a GPU's, run on threads of their
	 * own. */
	if (run->benchmark->queues && !run->options.backend->gpu)
		request.callers = BB_LAUNCH_AT_ONCE;
	else if (run->options.threads * run->options.gpus == 1)
		request.callers = BB_LAUNCH_OPENER;
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

/* ---- the run ----------------------------------------------------------------------- */

/* Fills the fields of the run record that need no world: request, host and time. */
static void describe_request(struct bb_run *run)
{
	const struct bb_options *o = &run->options;
	struct bb_run_record *r = &run->record;

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

bb_status bb_estimate_open(struct bb_run *run, const struct bb_record_kind *rows, int nranks,
			   const char *algorithms)
{
	struct bb_run_record *r = &run->record;

	describe_request(run);
	r->nranks = nranks;
	r->algorithms = algorithms;
	r->min_bytes = r->max_bytes = r->step_factor = r->step_bytes = BB_ABSENT;
	r->warmup_iters = r->iters = r->check = BB_ABSENT;
	if (run->environment.launch.proc > 0)
		return BB_OK;
	if (bb_sinks_open(&run->sinks, &run->options, NULL, rows, NULL, &run->error) != BB_OK)
		return bb_error_status(&run->error);
	return bb_sinks_begin(&run->sinks, r);
}

/* Notes NCCL's variables as the user set them, before the backend sets any. */
static void note_nccl_environment(struct bb_run *run)
{
	char **words = NULL;
	size_t n = 0, room = 0;

	for (char **e = environ; *e && run->options.backend->gpu; e++) {
		if (strncmp(*e, "NCCL_", 5) != 0)
			continue;
		if (!BB_ARRAY_PUT(words, n, room, *e))
			(void)bb_no_memory(&run->error, "the environment");
	}
	run->nccl_environment = (struct bb_words){words, n};
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
	const struct bb_benchmark *benchmark = run->benchmark;
	const struct bb_options *o = &run->options;
	const struct bb_backend *backend = o->backend;
	const int local = (int)(o->threads * o->gpus);
	struct bb_virtual_config virtual = o->virtual;
	struct bb_run_record *r = &run->record;
	bb_status status;

	BB_TRY(status, open_launch(run), failed);
	bb_run_mark(run, &run->record.connect_ms);
	BB_TRY(status, bb_run_guard(run, BB_STAGE_OPEN), failed);
	run->world = (struct bb_world){
		.nranks = local * run->launch.nprocs,
		.nprocs = run->launch.nprocs,
		.proc = run->launch.proc,
		.first_rank = run->launch.proc * local,
		.nlocal = backend->virtual ? 1 : local,
	};
	note_nccl_environment(run);
	run->infos = calloc((size_t)run->world.nranks, sizeof(*run->infos));
	status = run->infos ? BB_OK : bb_no_memory(&run->error, "the ranks");
	BB_TRY(status, bb_assembly_agree(&run->assembly, status), failed);
	struct bb_backend_config config = o->config;
	config.exchange = (struct bb_exchange){bb_drivers_exchange, &run->drivers};
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
	/* The memory for buffers is the minimum over all processes, so that all make the same plan.
	 */
	uint64_t available = backend->memory_available(run->context);
	if (available != UINT64_MAX)
		available = (uint64_t)(MEMORY_SHARE * (double)available);
	BB_TRY(status, bb_assembly_agree(&run->assembly, bb_error_status(&run->error)), failed);
	BB_TRY(status, bb_assembly_least(&run->assembly, available, &run->memory), failed);
	/* The run record but for the benchmark's fields. */
	describe_request(run);
	r->backend = backend->name;
	r->library = backend->library ? backend->library->name(run->context) : run->launch.library;
	r->launch = run->launch.library;
	r->backend_reason = *o->backend_reason ? o->backend_reason : NULL;
	r->cpu = run->machine->cpu;
	r->cores = run->machine->ncores;
	r->nccl_environment = run->nccl_environment;
	r->lists_all = o->verbose;
	r->nranks = run->world.nranks;
	r->nprocs = run->world.nprocs;
	status = bb_options_check_world(o, &run->world, &run->error);
	if (status == BB_OK && benchmark->plan)
		status = benchmark->plan(run);
	if (status == BB_OK && bb_run_leads(run)) {
		status = bb_sinks_open(&run->sinks, o, run->text, run->rows, stdout, &run->error);
		bb_ticker_start(&run->ticker, 0, 0);
		if (status == BB_OK && benchmark->open_results)
			status = benchmark->open_results(run);
	}
	status = bb_assembly_agree(&run->assembly, status);
	bb_run_mark(run, &run->record.open_ms);
failed:
	return status;
}

/* ---- the drivers ----------------------------------------------------------------------- */

static const struct bb_payload_field info_fields[] = {
	BB_PAYLOAD_FIELD("the pid", BB_PAYLOAD_SIGNED, struct bb_rank_info, location.pid,
			 .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the device", BB_PAYLOAD_SIGNED, struct bb_rank_info, location.device,
			 .low = -1, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the NUMA node", BB_PAYLOAD_SIGNED, struct bb_rank_info, location.numa,
			 .low = -1, .high = INT32_MAX),
	BB_PAYLOAD_FIELD("the host", BB_PAYLOAD_TEXT, struct bb_rank_info, location.host),
	BB_PAYLOAD_FIELD("the bus", BB_PAYLOAD_TEXT, struct bb_rank_info, location.bus),
	BB_PAYLOAD_FIELD("the UUID", BB_PAYLOAD_TEXT, struct bb_rank_info, location.uuid),
	BB_PAYLOAD_FIELD("the name", BB_PAYLOAD_TEXT, struct bb_rank_info, location.name),
	BB_PAYLOAD_FIELD("the handle", BB_PAYLOAD_TEXT, struct bb_rank_info, location.handle),
	BB_PAYLOAD_FIELD("the group", BB_PAYLOAD_ANY, struct bb_rank_info, group),
	{.name = NULL}};
static const struct bb_payload info_table = {"a location", sizeof(struct bb_rank_info), info_fields,
					     NULL};

bool bb_is_first_on_device(const struct bb_rank_info *infos, int rank)
{
	const struct bb_location *mine = &infos[rank].location;

	/* Device numbers alone do not identify a device: processes may see different ones. */
	for (int r = 0; r < rank; r++) {
		const struct bb_location *its = &infos[r].location;

		if (its->device == mine->device && strcmp(its->bus, mine->bus) == 0 &&
		    strcmp(its->uuid, mine->uuid) == 0 && infos[r].node == infos[rank].node)
			return false;
	}
	return true;
}

void bb_number_nodes(struct bb_rank_info *infos, int n)
{
	int nodes = 0;

	for (int r = 0; r < n; r++) {
		const char *const host = infos[r].location.host;
		/* Mostly the host of the rank before. */
		int first = r > 0 && strcmp(infos[r - 1].location.host, host) == 0 ? r - 1 : 0;

		while (strcmp(infos[first].location.host, host) != 0)
			first++;
		infos[r].node = first < r ? infos[first].node : nodes++;
	}
}

bb_status bb_run_open_world(struct bb_run *run, struct bb_driver *driver,
			    int (*group_of)(const struct bb_run *run, int rank),
			    struct bb_group **world)
{
	const struct bb_backend *backend = run->options.backend;
	const int nranks = run->world.nranks;
	int *members = calloc((size_t)nranks, sizeof(*members));
	struct bb_rank_info mine;
	const void *all;
	bb_status status;

	memset(&mine, 0, sizeof(mine));
	mine.location = driver->location;
	BB_TRY(status, bb_driver_gather(driver, &info_table, &mine, 1, &all), out);
	/* The first driver stores them for the process. Virtual ranks share a location, but each is
	   a device of its own. */
	if (driver->local == 0)
		memcpy(run->infos, all, (size_t)nranks * sizeof(*run->infos));
	if (driver->local == 0)
		bb_number_nodes(run->infos, nranks);
	for (int r = 0; r < nranks && driver->local == 0; r++) {
		run->infos[r].group = group_of ? group_of(run, r) : 0;
		if (backend->virtual)
			run->infos[r].location.device = r;
	}
	BB_TRY(status, bb_driver_barrier(driver), out);
	if (bb_driver_leads(driver))
		bb_run_mark(run, &run->record.attach_ms);
	status = members ? BB_OK : bb_no_memory(&run->error, "groups");
	BB_TRY(status, status, out);
	for (int r = 0; r < nranks; r++)
		members[r] = r;
	BB_TRY(status, backend->group_open(driver->handle, members, nranks, world, &run->error),
	       out);
	driver->world = *world;
	if (bb_driver_leads(driver))
		bb_run_mark(run, &run->record.world_ms);
out:
	free(members);
	return status;
}

int64_t bb_memory_taken(const struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;
	struct rusage usage;

	if (backend->gpu)
		return -(int64_t)backend->memory_available(run->context);
	return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

bb_status bb_run_note_memory(struct bb_run *run, struct bb_driver *driver, int64_t *bytes)
{
	const struct bb_end_record *end = &run->end;
	bb_status status = bb_driver_barrier(driver);

	if (status != BB_OK || !run->options.memory_report)
		return status;
	if (bb_driver_leads(driver)) {
		int64_t taken = bb_memory_taken(run) - run->memory_before;

		if (end->memory_init_bytes != BB_ABSENT)
			taken -= end->memory_init_bytes;
		if (end->memory_user_bytes != BB_ABSENT)
			taken -= end->memory_user_bytes;
		/* On CPUs, where it is a peak, start-up may have had the highest. */
		*bytes = taken > 0 ? taken : 0;
		status = bb_error_status(&run->error);
	}
	return status == BB_OK ? bb_driver_barrier(driver) : status;
}

bb_status bb_run_begin(struct bb_run *run, struct bb_driver *driver, double copy_rate)
{
	const struct bb_backend *backend = run->options.backend;
	struct bb_run_record *r = &run->record;
	struct bb_strbuf lines = {0};
	double uncertainty = 0, offset; /* the largest error of a comparison of two ranks' clocks */
	double rest;                    /* of the start-up */
	/* Of its topology, one process of each host; 0: unknown. */
	const uint64_t digest =
		run->topology && driver->local == 0 ? bb_topology_digest(run->topology) : 0;
	const void *all;
	bb_status status;

	if (backend->clocks)
		BB_TRY(status, backend->clocks->offset(driver->handle, &offset, &uncertainty), out);
	BB_TRY(status, bb_driver_most(driver, &bb_payload_seconds, &uncertainty, 1), out);
	BB_TRY(status, bb_driver_gather(driver, &bb_payload_number, &digest, 1, &all), out);
	if (!bb_driver_leads(driver))
		goto out;
	if (digest)
		snprintf(run->topology_digest, BB_DIGEST_TEXT, "%016llx",
			 (unsigned long long)digest);
	for (int i = 1; i < run->world.nranks && digest; i++) {
		const uint64_t its = ((const uint64_t *)all)[i];

		if (its && its != digest)
			bb_strbuf_addf(
				&lines,
				"# Host %s is not like %s (%016llx, %s): see topology --diff\n",
				run->infos[i].location.host, run->infos[0].location.host,
				(unsigned long long)its, run->topology_digest);
	}
	if (!run->topology && bb_error_status(&run->topology_error) != BB_OK)
		bb_strbuf_addf(&lines, "# The topology is not known: %s\n",
			       run->topology_error.text);
	if (run->launch.note)
		bb_strbuf_addf(&lines, "# Launch: %s\n", run->launch.note);
	if (backend->virtual)
		backend->virtual->explain(run->context, &lines);
	/* Ranks of a cluster have no location. */
	if (!run->options.cluster && run->world.nranks <= BB_MAX_RANKS)
		r->ranks = (struct bb_rank_infos){run->infos, (size_t)run->world.nranks};
	if (backend->has_data)
		r->copy_GBps = copy_rate / 1e9;
	r->clock_uncertainty_us = uncertainty * 1e6;
	bb_run_mark(run, &rest);
	r->init_ms = 1e3 * (run->marked - run->started);
	if (backend->gpu) {
		bb_strbuf_addf(&lines,
			       "# Start-up %.1f ms: processes %.1f, libraries %.1f, GPUs %.1f, "
			       "communicator %.1f",
			       r->init_ms, r->connect_ms, r->open_ms, r->attach_ms, r->world_ms);
		if (!isnan(r->split_ms))
			bb_strbuf_addf(&lines, ", its split %.1f", r->split_ms);
		bb_strbuf_addf(&lines, ", rest %.1f\n", rest);
	}
	r->topology = *run->topology_digest ? run->topology_digest : NULL;
	if (bb_link_bounds_open(&run->link_bounds, run->topology, &r->ranks, backend->gpu) !=
		    BB_OK ||
	    bb_strbuf_failed(&lines))
		BB_TRY(status, bb_no_memory(&run->error, "the topology"), out);
	run->begun = true;
	status = bb_sinks_begin(&run->sinks, r);
	if (status == BB_OK && lines.length > 0)
		status = bb_sinks_comment(&run->sinks, bb_strbuf_text(&lines));
out:
	bb_strbuf_free(&lines);
	return status;
}

void bb_run_close(struct bb_run *run)
{
	bb_sinks_close(&run->sinks);
	free((void *)run->nccl_environment.words);
	if (run->benchmark->close)
		run->benchmark->close(run);
	bb_link_bounds_close(&run->link_bounds);
	bb_counters_free(&run->counters.before);
	free(run->counters.moves);
	bb_topology_free(run->topology);
	bb_machine_close(run->machine);
	if (run->context)
		run->options.backend->close(run->context);
	bb_control_close(run->control);
	if (run->launch.close)
		run->launch.close(&run->launch);
	free(run->assembly.members);
	bb_secret_close(run->secret);
	free(run->infos);
	bb_run_unguard(run);
}
