/*
 * From the command line to the exit status.
 */
#include "harness/harness.h"

#include "core/clock.h"
#include "core/units.h"
#include "harness/bench.h"
#include "harness/lesson.h"
#include "harness/options.h"
#include "launch/launch.h"
#include "topology/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_SHARE 0.8 /* of what is available, that buffers may take */

/* Everything one run holds, so that it can be let go in one place. */
struct run {
	struct bb_environment environment;
	struct bb_options options;
	struct bb_error error;
	struct bb_error nothing; /* why there is nothing to run; told in the end */
	struct bb_launch launch;
	struct bb_world world;
	struct bb_context *context;
	struct bb_machine *machine;
	struct bb_plan plan;
	struct bb_sinks sinks;
	struct bb_compare *compare;
	struct bb_ticker ticker;
	struct utsname system;
	struct bb_bench bench;
};

static int64_t most_resident_bytes(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int complain(const char *program, const struct bb_error *error)
{
	fprintf(stderr, "%s: %s\n", program, error->text);
	return (int)bb_error_status(error);
}

/* ---- what needs no world --------------------------------------------------------------- */

static bb_status print(struct bb_strbuf *text, bb_status status)
{
	if (status == BB_OK && bb_strbuf_failed(text))
		status = BB_EINTERNAL;
	if (status == BB_OK && (fputs(bb_strbuf_text(text), stdout) < 0 || fflush(stdout) != 0))
		status = BB_EINTERNAL;
	bb_strbuf_free(text);
	return status;
}

/* --help, --list, --explain and their like. Returns false if a run was asked for. */
static bool inform(const struct run *run, const struct bb_collective *collective,
		   const char *program, struct bb_error *error, bb_status *status)
{
	const struct bb_options *o = &run->options;
	struct bb_strbuf out = {0};

	*status = BB_OK;
	if (o->help)
		bb_options_help(bb_option_rows, program, collective->brief, &out);
	else if (o->help_markdown)
		bb_options_document(&out);
	else if (o->version)
		bb_strbuf_addf(&out, "%s (busbench) %s\n", program, BB_VERSION);
	else if (o->list)
		bb_plan_list(&out);
	else if (o->explain)
		*status = bb_lesson(&out, o, collective, error);
	else
		return false;
	*status = print(&out, *status);
	if (*status == BB_EINTERNAL)
		bb_fail(error, *status, "cannot write to standard output");
	return true;
}

/* ---- the run --------------------------------------------------------------------------- */

static bb_status open_world(struct run *run, const struct bb_backend *backend)
{
	const int64_t local = run->options.threads * run->options.gpus;

	run->launch = bb_launch_single();
	run->world = (struct bb_world){
		.nranks = (int)local * run->launch.nprocs,
		.nprocs = run->launch.nprocs,
		.proc = run->launch.proc,
		.first_rank = run->launch.proc * (int)local,
		.nlocal = (int)local,
	};
	if (local > backend->max_local())
		return bb_fail(
			&run->error, BB_EUSAGE,
			"-t times -g is %lld; the %s backend takes at most %d ranks per process",
			(long long)local, backend->name, backend->max_local());
	return BB_OK;
}

/* Ranks of the smallest group, and of the first one. */
static void group_sizes(const struct run *run, int *least, int *first)
{
	*first = 0;
	*least = run->world.nranks;
	for (int r = 0; r < run->world.nranks; r++) {
		int color = bb_split_color(&run->options.split, r), size = 0;

		for (int other = 0; other < run->world.nranks; other++)
			size += bb_split_color(&run->options.split, other) == color;
		*least = size < *least ? size : *least;
		if (r == 0)
			*first = size;
	}
}

static bb_status make_plan(struct run *run, const struct bb_collective *collective,
			   const struct bb_backend *backend)
{
	const bool free_of_cost = backend->capabilities & BB_CAP_FREE_COST;
	struct bb_plan_request request = {
		.options = &run->options,
		.collective = collective,
		.backend = backend,
		.nlocal = run->world.nlocal,
		.memory = UINT64_MAX,
	};
	bb_status status;

	if (!free_of_cost)
		request.memory =
			(uint64_t)(MEMORY_SHARE * (double)backend->memory_available(run->context));
	group_sizes(run, &request.nroots, &request.nranks);
	status = bb_options_validate_world(&run->options, collective, &run->world, request.nroots,
					   &run->error);
	run->bench.memory = request.memory;
	if (status != BB_OK)
		return status;
	status = bb_plan_make(&run->plan, &request, &run->nothing);
	/* What is skipped is recorded, even if it is all there is. */
	if (status == BB_EUNSUPPORTED && run->plan.ncases + (size_t)run->plan.nskips > 0)
		return BB_OK;
	return status == BB_OK ? BB_OK : bb_fail(&run->error, status, "%s", run->nothing.text);
}

static void describe_run(struct run *run, int argc, char **argv,
			 const struct bb_collective *collective)
{
	const struct bb_options *o = &run->options;
	struct bb_run_record *r = &run->bench.run;

	bb_run_record_init(r);
	bb_run_id(r->run_id);
	bb_time_text(r->start_time);
	r->program = base_name(argv[0]);
	r->version = BB_VERSION;
	r->args = (struct bb_words){argv, (size_t)argc};
	r->collective = collective->name;
	r->backend = o->backend->name;
	if (uname(&run->system) == 0) {
		r->host = run->system.nodename;
		r->os = run->system.release;
	}
	r->cpu = bb_machine_cpu(run->machine);
	r->cores = bb_machine_cores(run->machine);
	r->nranks = run->world.nranks;
	r->nprocs = run->world.nprocs;
	r->threads = o->threads;
	r->gpus = o->gpus;
	r->min_bytes = (int64_t)o->min_bytes;
	r->max_bytes = (int64_t)o->max_bytes;
	r->step_factor = o->step_factor;
	r->step_bytes = (int64_t)o->step_bytes;
	r->warmup_iters = o->warmup_iters;
	r->iters = o->iters;
	r->agg_iters = o->agg_iters;
	r->run_cycles = o->run_cycles;
	if (o->precision != 0)
		r->precision = o->precision;
	r->check = o->check;
	r->blocking = o->blocking;
	r->graph = o->cudagraph;
	r->average = o->average;
	r->unalign = o->unalign;
	r->per_iter_skip = o->per_iter_skip;
	r->per_iter_timing = o->per_iter_timing != 0;
	r->parallel_init = o->parallel_init != 0;
	r->report_cputime = o->report_cputime != 0;
	r->report_timestamps = o->report_timestamps != 0;
	r->cache = bb_cache_names[o->cache];
	r->seed = o->seed;
	r->algorithms = o->algorithms;
	r->fault = o->fault_text;
	r->link = o->link_text;
	r->split = run->environment.split ? run->environment.split : run->environment.split_mask;
}

static bb_status open_run(struct run *run, int argc, char **argv,
			  const struct bb_collective *collective)
{
	const struct bb_backend *backend = run->options.backend;
	uint64_t bytes = 0;
	bb_status status;

	BB_TRY(status, open_world(run, backend), failed);
	BB_TRY(status, backend->open(&run->context, &run->world, &run->options.link, &run->error),
	       failed);
	BB_TRY(status, bb_machine_open(&run->machine, &run->error), failed);
	BB_TRY(status, make_plan(run, collective, backend), failed);
	BB_TRY(status, bb_compare_open(&run->compare), failed);
	BB_TRY(status, bb_sinks_open(&run->sinks, &run->options, stdout, &run->error), failed);
	describe_run(run, argc, argv, collective);
	for (size_t i = 0; i < run->plan.ncases; i++)
		bytes += run->plan.cases[i].skip ? 0 : run->plan.cases[i].size_bytes;
	if (run->plan.runnable == 0)
		run->options.run_cycles = 1; /* recorded as given; told once is enough */
	bb_ticker_start(&run->ticker, run->plan.ncases, bytes);
failed:
	return status;
}

static void close_run(struct run *run)
{
	bb_sinks_close(&run->sinks);
	bb_compare_close(run->compare);
	bb_plan_free(&run->plan);
	bb_machine_close(run->machine);
	if (run->context)
		run->options.backend->close(run->context);
	if (run->launch.close)
		run->launch.close(&run->launch);
	bb_groups_close(run->bench.groups);
	free(run->bench.infos);
}

/* What the run came to: the exit status, and the verdict in a word. */
static int judge_run(struct run *run, int caught, const char **verdict)
{
	const struct bb_end_record *end = &run->bench.end;
	const double gate = run->options.min_bw;

	*verdict = "passed";
	if (caught) {
		*verdict = "interrupted";
		return 128 + caught;
	}
	if (bb_error_status(&run->error) == BB_EUNSUPPORTED && end->results == 0) {
		*verdict = "nothing was run";
		return BB_EUNSUPPORTED;
	}
	if (bb_error_status(&run->error) != BB_OK) {
		*verdict = bb_error_status(&run->error) == BB_ETIMEOUT ? "timed out" : "failed";
		return (int)bb_error_status(&run->error);
	}
	if (end->wrong > 0) {
		*verdict = "wrong data";
		return BB_EDATA;
	}
	if (gate > 0 && end->avg_busbw_GBps < 0.9 * gate) {
		*verdict = "below the gate";
		return BB_EDATA;
	}
	return 0;
}

/* No result and nothing that went wrong: an error all the same. */
static void require_results(struct run *run)
{
	if (run->bench.end.results > 0 || bb_error_status(&run->error) != BB_OK)
		return;
	if (bb_error_status(&run->nothing) != BB_OK)
		bb_fail(&run->error, BB_EUNSUPPORTED, "%s", run->nothing.text);
	else
		bb_fail(&run->error, BB_EUNSUPPORTED,
			"nothing of what was asked can be run; the skipped lines say why");
}

/* The comparison and the end record; after a crash of the sinks only the exit status counts. */
static int conclude(struct run *run, int caught)
{
	struct bb_bench *bench = &run->bench;
	struct bb_strbuf text = {0};
	int status;

	bb_ticker_hide(&run->ticker);
	if (bench->end.results > 0)
		bench->end.avg_busbw_GBps = bench->busbw_sum / (double)bench->end.results;
	if (run->options.min_bw > 0)
		bench->end.min_busbw_GBps = run->options.min_bw;
	bench->end.wall_s = bb_clock_now() - bench->started;
	if (run->options.memory_report)
		bench->end.memory_call_bytes = most_resident_bytes() -
					       bench->end.memory_init_bytes -
					       bench->end.memory_user_bytes;
	bb_time_text(bench->end.end_time);
	if (!caught)
		require_results(run);
	status = judge_run(run, caught, &bench->end.verdict);
	bench->end.exit_status = status;
	if (bb_error_status(&run->error) != BB_OK)
		bench->end.error = run->error.text;
	if (bench->run.ranks.n > 0) {
		bb_compare_text(run->compare, &text);
		bb_groups_text(bench->groups, &text);
		if (text.length > 0)
			bb_sinks_comment(&run->sinks, bb_strbuf_text(&text));
		bb_sinks_end(&run->sinks, &bench->end);
	}
	bb_strbuf_free(&text);
	/* A sink may have failed only now. */
	return status == 0 ? (int)run->sinks.status : status;
}

static int benchmark(struct run *run, const struct bb_collective *collective, const char *program)
{
	const struct bb_crew_config crew = {
		.launch = &run->launch,
		.world = &run->world,
		.backend = run->options.backend,
		.context = run->context,
		.timeout_ns = run->options.timeout_ns,
		.error = &run->error,
		.drive = bb_bench_drive,
		.argument = &run->bench,
	};
	bool stuck;
	int caught, status;

	run->bench.collective = collective;
	run->bench.options = &run->options;
	run->bench.backend = run->options.backend;
	run->bench.world = &run->world;
	run->bench.plan = &run->plan;
	run->bench.error = &run->error;
	run->bench.sinks = &run->sinks;
	run->bench.compare = run->compare;
	run->bench.ticker = &run->ticker;
	bb_pattern_store_open(&run->bench.patterns);
	bb_end_record_init(&run->bench.end);
	run->bench.end.results = run->bench.end.skipped = run->bench.end.wrong = 0;
	if (run->options.memory_report)
		run->bench.end.memory_init_bytes = most_resident_bytes();
	caught = bb_crew_run(&crew, &stuck);
	status = conclude(run, caught);
	if (bb_error_status(&run->error) != BB_OK)
		complain(program, &run->error);
	else if (caught)
		fprintf(stderr, "%s: interrupted\n", program);
	if (stuck)
		_exit(status); /* a thread still uses what would be freed */
	bb_pattern_store_close(&run->bench.patterns);
	return status;
}

int bb_main(int argc, char **argv, const struct bb_collective *collective)
{
	const char *program = base_name(argv[0]);
	struct run *run = calloc(1, sizeof(*run));
	bb_status status;
	int result;

	if (!run) {
		fprintf(stderr, "%s: out of memory\n", program);
		return BB_EINTERNAL;
	}
	run->bench.started = bb_clock_now();
	run->environment = bb_environment_read();
	status = bb_options_read(&run->options, collective, argc, argv, &run->environment,
				 &run->error);
	if (status == BB_OK && inform(run, collective, program, &run->error, &status)) {
		result = status == BB_OK ? 0 : complain(program, &run->error);
		free(run);
		return result;
	}
	if (status == BB_OK)
		status = open_run(run, argc, argv, collective);
	result = status == BB_OK ? benchmark(run, collective, program)
				 : complain(program, &run->error);
	close_run(run);
	free(run);
	return result;
}
