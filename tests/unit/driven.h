/*
 * driven.h - drivers in several processes for tests, on a backend that only waits, and what came
 * of it in each of them.
 */
#ifndef BB_TESTS_DRIVEN_H
#define BB_TESTS_DRIVEN_H

#include "harness/run/drivers.h"
#include "processes.h"

#include <setjmp.h>

#include <cmocka.h>

#define T_S 1. /* the deadline */

/* ---- a backend that only waits ------------------------------------------------------------ */

struct bb_context {
	atomic_int aborted;
};

/* A rank needs no more than its context. */
static bb_status attach(struct bb_context *context, int local, struct bb_rank **rank,
			struct bb_location *location, struct bb_error *error)
{
	*rank = (struct bb_rank *)context;
	return BB_OK;
}

static void detach(struct bb_rank *rank)
{
}

static void note_abort(struct bb_context *context)
{
	atomic_store(&context->aborted, 1);
}

static const struct bb_backend waiting = {
	.name = "waiting", .attach = attach, .detach = detach, .abort = note_abort};

static bb_status wait_for_abort(struct bb_driver *driver)
{
	while (!atomic_load(&((struct bb_context *)driver->handle)->aborted))
		nap_ms(2);
	bb_driver_delay(driver, 1000); /* for good */
	return BB_ETIMEOUT;
}

static void enter(struct bb_driver *driver, int times)
{
	atomic_store(&driver->progress->phase, BB_PHASE_INSIDE);
	atomic_fetch_add(&driver->progress->entered, (unsigned)times);
}

/* ---- a run of several processes ------------------------------------------------------------ */

/* What one process came to; shared with the test. */
struct result {
	struct bb_drivers_outcome outcome;
	bb_status status;
	char text[512];
	double seconds;
	atomic_int began; /* its drivers */
};

/* What a test does; ARGUMENT of its processes. */
struct plot {
	int n, nlocal, undriven; /* the last: ranks beyond, which nobody drives */
	double timeout;
	bb_status (*drive)(struct bb_driver *driver, void *scene);
	int culprit; /* the rank that does something else */
	int number;  /* what DRIVE makes of it */
	struct result *results;
};

/* What the drivers of one process see. */
struct scene {
	const struct plot *plot;
	struct process *me;
	struct bb_error error;
	struct bb_drivers_config config;
	double start;
};

static void name_process(void *argument, int proc, struct bb_strbuf *out)
{
	bb_strbuf_addf(out, "rank %d (h%d, pid %d)", proc, proc / 2, 1000 + proc);
}

static void note_result(const struct scene *scene, const struct bb_drivers_outcome *outcome)
{
	struct result *result = &scene->plot->results[scene->me->launch.proc];

	result->outcome = *outcome;
	result->seconds = bb_clock_now() - scene->start;
	result->status = bb_error_status(&scene->error);
	memcpy(result->text, scene->error.text, sizeof(result->text));
	bb_control_close(scene->config.control);
}

static void leave(void *scene, const struct bb_drivers_outcome *outcome)
{
	note_result(scene, outcome);
	_exit(0);
}

static void play(struct process *me)
{
	const struct plot *plot = me->argument;
	const struct bb_world world = {.nranks = plot->n * plot->nlocal + plot->undriven,
				       .nprocs = plot->n,
				       .proc = me->launch.proc,
				       .first_rank = me->launch.proc * plot->nlocal,
				       .nlocal = plot->nlocal};
	struct bb_context context = {0};
	struct scene scene = {.plot = plot, .me = me};
	struct bb_drivers_config *config = &scene.config;
	struct bb_drivers_outcome outcome;
	struct bb_error error = {0};

	*config = (struct bb_drivers_config){
		.launch = &me->launch,
		.world = &world,
		.backend = &waiting,
		.context = &context,
		.timeout_ns = (uint64_t)(1e9 * plot->timeout),
		.error = &scene.error,
		.speaks_for_host = me->launch.proc == 1 || me->launch.proc % 2 == 0,
		.drive = plot->drive,
		.name = name_process,
		.leave = leave,
		.argument = &scene,
	};
	CHECK(me->meeting,
	      bb_control_open(&config->control, &me->launch, NULL, 300, &error) == BB_OK);
	scene.start = bb_clock_now();
	outcome = bb_drivers_run(config);
	note_result(&scene, &outcome);
}

static struct plot plot_of(int n, int nlocal,
			   bb_status (*drive)(struct bb_driver *driver, void *scene))
{
	struct plot plot = {.n = n, .nlocal = nlocal, .drive = drive, .timeout = 300};

	plot.results = mmap(NULL, (size_t)n * sizeof(*plot.results), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (plot.results == MAP_FAILED)
		abort();
	return plot;
}

static void plot_free(struct plot *plot)
{
	munmap(plot->results, (size_t)plot->n * sizeof(*plot->results));
}

static void play_in_threads(struct plot *plot)
{
	assert_int_equal(run_threads(plot->n, play, plot), 0);
}

/* Forked, and all drivers at work. */
static struct meeting *start_play(struct plot *plot, struct process *all)
{
	struct meeting *m = start_forks(all, plot->n, play, plot);

	for (int p = 0; p < plot->n; p++)
		while (atomic_load(&plot->results[p].began) < plot->nlocal)
			nap_ms(1);
	return m;
}

/* All end by themselves but process KILLED (-1: none). */
static void end_play(const struct plot *plot, struct process *all, struct meeting *m, int killed)
{
	for (int p = 0; p < plot->n; p++)
		assert_int_equal(await_fork(&all[p]), p == killed ? 256 + SIGKILL : 0);
	assert_int_equal(meeting_close(m), 0);
}

/* Process 0 tells TEXT, with STATUS; the others have ended silently, all within SECONDS. */
static void assert_told_once(const struct plot *plot, int killed, bb_status status,
			     const char *text)
{
	const struct result *first = &plot->results[0];

	assert_string_equal(first->text, text);
	assert_int_equal(first->status, status);
	assert_int_equal(first->outcome.caught, 0);
	assert_false(first->outcome.silent);
	for (int p = 0; p < plot->n; p++) {
		const struct result *r = &plot->results[p];

		if (p == killed)
			continue;
		assert_true(p == 0 || r->outcome.silent);
		assert_true(r->status != BB_OK || r->outcome.caught != 0);
	}
}

#endif
