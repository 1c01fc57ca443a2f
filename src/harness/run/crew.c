/*
 * crew.c - the drivers of a process and their exchanges.
 */
#include "harness/run/crew_watch.h"

#include "backends/virtual.h"
#include "core/clock.h"
#include "core/signals.h"
#include "harness/run/guard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- exchanges ----------------------------------------------------------- */

/*
 * A barrier of the local drivers; the last one to arrive calls LAST(crew, argument) before the
 * others go on. The lock is not held meanwhile, because LAST may wait for other processes for ever,
 * and the watch needs the lock.
 */
static bb_status meet(struct bb_crew *crew, void (*last)(struct bb_crew *crew, void *argument),
		      void *argument)
{
	bb_status status = BB_OK;
	unsigned passed;

	pthread_mutex_lock(&crew->lock);
	passed = crew->passed;
	/* Once the run is abandoned, other processes may never arrive. */
	if (!atomic_load(&crew->stop) && ++crew->waiting == crew->config->world->nlocal) {
		pthread_mutex_unlock(&crew->lock);
		last(crew, argument);
		pthread_mutex_lock(&crew->lock);
		crew->waiting = 0;
		crew->passed++;
		pthread_cond_broadcast(&crew->changed);
	}
	while (crew->passed == passed && !atomic_load(&crew->stop))
		bb_clock_wait_moment(&crew->changed, &crew->lock);
	if (crew->passed == passed)
		status = BB_ETIMEOUT;
	pthread_mutex_unlock(&crew->lock);
	return status;
}

/* Notes the status of an exchange between the processes. */
static void note_exchange(struct bb_crew *crew, bb_status status)
{
	const struct bb_launch *launch = crew->config->launch;

	crew->exchanged = status;
	if (status != BB_OK)
		bb_fail(crew->config->error, status,
			"rank %d cannot exchange results with the other processes through %s%s%s",
			crew->config->world->first_rank,
			launch->library ? launch->library : "its launch", launch->cause ? ": " : "",
			launch->cause ? launch->cause : "");
}

static void meet_processes(struct bb_crew *crew, void *argument)
{
	note_exchange(crew, crew->config->launch->barrier(crew->config->launch));
}

bb_status bb_crew_barrier(struct bb_driver *driver)
{
	bb_status status = meet(driver->crew, meet_processes, NULL);

	return status == BB_OK ? driver->crew->exchanged : status;
}

/* One exchange of data, the same on all drivers of this process. */
struct exchange {
	const struct bb_payload *table;
	size_t count;    /* payloads of each rank */
	size_t bytes;    /* of them together */
	bool everywhere; /* else only process 0 receives them */
};

static bool gets_all(const struct bb_crew *crew, const struct exchange *e)
{
	return e->everywhere || crew->config->launch->proc == 0;
}

static void make_room(struct bb_crew *crew, void *argument)
{
	const struct exchange *e = argument;
	const struct bb_world *world = crew->config->world;
	const size_t all = gets_all(crew, e) ? e->bytes * (size_t)world->nranks : 0;
	const size_t room = all + e->bytes * (size_t)world->nlocal;

	crew->exchanged = BB_OK;
	if (room > crew->capacity) {
		free(crew->gathered);
		crew->gathered = malloc(room);
		crew->capacity = crew->gathered ? room : 0;
	}
	crew->given = crew->gathered ? crew->gathered + all : NULL;
	if (!crew->gathered)
		crew->exchanged = bb_no_memory(crew->config->error, "results");
}

/* Copies the payloads of the driven rank for the virtual ranks that nobody drives. */
static void stand_for_others(struct bb_crew *crew, const struct exchange *e)
{
	const struct bb_world *world = crew->config->world;
	const size_t driven = (size_t)world->nlocal * (size_t)world->nprocs;

	for (size_t r = driven; r < (size_t)world->nranks && gets_all(crew, e); r++)
		memcpy(crew->gathered + r * e->bytes, crew->gathered, e->bytes);
}

static void gather_processes(struct bb_crew *crew, void *argument)
{
	const struct exchange *e = argument;
	struct bb_launch *launch = crew->config->launch;
	const size_t count = e->count * (size_t)crew->config->world->nlocal;

	note_exchange(crew, (e->everywhere ? bb_launch_all_gather : bb_launch_gather)(
				    launch, e->table, crew->given, count, crew->gathered));
	stand_for_others(crew, e);
}

static bb_status exchange(struct bb_driver *driver, const void *mine, struct exchange e,
			  const void **all)
{
	struct bb_crew *crew = driver->crew;
	bb_status status = meet(crew, make_room, &e);

	if (status != BB_OK || crew->exchanged != BB_OK)
		return status != BB_OK ? status : crew->exchanged;
	memcpy(crew->given + e.bytes * (size_t)driver->local, mine, e.bytes);
	status = meet(crew, gather_processes, &e);
	*all = gets_all(crew, &e) ? crew->gathered : NULL;
	return status != BB_OK ? status : crew->exchanged;
}

bb_status bb_crew_gather(struct bb_driver *driver, const struct bb_payload *table, const void *mine,
			 size_t count, const void **all)
{
	return exchange(driver, mine, (struct exchange){table, count, count * table->bytes, true},
			all);
}

bb_status bb_crew_most(struct bb_driver *driver, const struct bb_payload *table, double *values,
		       size_t n)
{
	const void *all;
	const bb_status status = bb_crew_gather(driver, table, values, n, &all);

	for (int r = 0; r < driver->crew->config->world->nranks && status == BB_OK; r++)
		for (size_t i = 0; i < n; i++)
			values[i] = fmax(values[i], ((const double *)all)[(size_t)r * n + i]);
	return status;
}

bb_status bb_crew_collect(struct bb_driver *driver, const struct bb_payload *table,
			  const void *mine, size_t count, const void **all)
{
	return exchange(driver, mine, (struct exchange){table, count, count * table->bytes, false},
			all);
}

static const struct bb_payload_field objection_fields[] = {
	{"the objection", BB_PAYLOAD_TEXT, 0, BB_OBJECTION_TEXT, 1, 0, 0, 0}, {.name = NULL}};
static const struct bb_payload objection_table = {"an objection", BB_OBJECTION_TEXT,
						  objection_fields, NULL};

bb_status bb_crew_hear(struct bb_driver *driver, char objection[BB_OBJECTION_TEXT])
{
	const char(*all)[BB_OBJECTION_TEXT];
	const void *gathered;
	const bb_status status = bb_crew_gather(driver, &objection_table, objection, 1, &gathered);

	if (status != BB_OK)
		return status;
	all = gathered;
	for (int r = 0; r < driver->crew->config->world->nranks; r++) {
		if (!all[r][0])
			continue;
		memcpy(objection, all[r], BB_OBJECTION_TEXT);
		break;
	}
	return BB_OK;
}

bb_status bb_crew_exchange(void *own, int local, const struct bb_payload *table, const void *mine,
			   void *all)
{
	struct bb_crew *const *crew = own;
	const size_t nranks = (size_t)(*crew)->config->world->nranks;
	const void *gathered;
	bb_status status = bb_crew_gather(&(*crew)->drivers[local], table, mine, 1, &gathered);

	if (status == BB_OK)
		memcpy(all, gathered, nranks * table->bytes);
	return status;
}

void bb_crew_abandon(struct bb_driver *driver)
{
	const struct bb_crew_config *config = driver->crew->config;
	int none = 0;

	/* Only the first one counts: the others end because of it. */
	atomic_compare_exchange_strong(&driver->crew->quitter, &none, 1 + driver->local);
	config->backend->abort(config->context);
}

bb_status bb_crew_part(struct bb_driver *driver, bb_status status)
{
	if (status == BB_OK)
		status = bb_crew_barrier(driver);
	if (status != BB_OK)
		bb_crew_abandon(driver);
	return status;
}

void bb_crew_delay(struct bb_driver *driver, double seconds)
{
	const struct bb_virtual *virtual = driver->crew->config->backend->virtual;

	if (virtual)
		virtual->delay(driver->handle, seconds);
	else
		bb_clock_pause(seconds, &driver->crew->stop);
}

bool bb_crew_is_stopping(const struct bb_driver *driver)
{
	return atomic_load_explicit(&driver->crew->stop, memory_order_relaxed) ||
	       atomic_load_explicit(&driver->crew->quitter, memory_order_relaxed) != 0;
}

void bb_crew_deadline(struct bb_driver *driver, const char *what)
{
	struct bb_crew *crew = driver->crew;
	const uint64_t timeout = crew->config->timeout_ns;

	if (driver->local != 0)
		return;
	pthread_mutex_lock(&crew->lock);
	crew->deadline_began = bb_clock_now();
	crew->deadline = timeout ? crew->deadline_began + 1e-9 * (double)timeout : 0;
	snprintf(crew->what, sizeof(crew->what), "%s", what);
	pthread_mutex_unlock(&crew->lock);
}

/* ---- the drivers --------------------------------------------------------------------- */

/* Drivers that finished end together, unless releasing their resources failed. */
static bb_status end_with_others(struct bb_driver *driver)
{
	const bb_status status = bb_error_status(driver->crew->config->error);

	if (status != BB_OK || !atomic_load(&driver->progress->finished))
		return status;
	return bb_crew_barrier(driver);
}

static void run_driver(struct bb_driver *driver)
{
	const struct bb_crew_config *config = driver->crew->config;
	bb_status status = config->backend->attach(config->context, driver->local, &driver->handle,
						   config->error);

	if (status == BB_OK) {
		status = config->drive(driver, config->argument);
		config->backend->detach(driver->handle);
	}
	if (status == BB_OK)
		status = end_with_others(driver);
	/* BB_ETIMEOUT is no cause: the watch reports a driver that ended early. */
	if (status != BB_OK && status != BB_ETIMEOUT)
		bb_fail(config->error, status, "rank %d failed", driver->rank);
	atomic_store(&driver->progress->phase, BB_PHASE_ENDED);
}

static void *driver_main(void *driver)
{
	run_driver(driver);
	return NULL;
}

static void *watch_main(void *argument)
{
	struct bb_crew *crew = argument;

	crew->outcome = bb_watch_run(crew);
	if (crew->outcome.stuck)
		crew->config->leave(crew->config->argument, &crew->outcome);
	return NULL;
}

/* Runs all drivers, the first on this thread. */
static void run_drivers(struct bb_crew *crew, pthread_t *threads)
{
	const struct bb_world *world = crew->config->world;
	int started = 1;

	while (started < world->nlocal &&
	       pthread_create(&threads[started], NULL, driver_main, &crew->drivers[started]) == 0)
		started++;
	if (started < world->nlocal)
		bb_fail(crew->config->error, BB_EINTERNAL, "the system gives no thread for rank %d",
			world->first_rank + started);
	for (int i = started; i < world->nlocal; i++)
		atomic_store(&crew->progress[i].phase, BB_PHASE_ENDED);
	run_driver(&crew->drivers[0]);
	for (int i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
}

bool bb_crew_ended(const struct bb_crew *crew)
{
	for (int i = 0; i < crew->config->world->nlocal; i++)
		if (atomic_load(&crew->progress[i].phase) != BB_PHASE_ENDED)
			return false;
	return true;
}

static bb_status crew_init(struct bb_crew *crew, const struct bb_crew_config *config)
{
	const size_t n = (size_t)config->world->nlocal;

	memset(crew, 0, sizeof(*crew));
	crew->config = config;
	crew->drivers = calloc(n, sizeof(*crew->drivers));
	crew->progress = aligned_alloc(64, n * sizeof(*crew->progress));
	crew->ranks = calloc((size_t)config->world->nranks, sizeof(*crew->ranks));
	if (!crew->drivers || !crew->progress || !crew->ranks) {
		free(crew->drivers);
		free(crew->progress);
		free(crew->ranks);
		return BB_EINTERNAL;
	}
	memset(crew->progress, 0, n * sizeof(*crew->progress));
	pthread_mutex_init(&crew->lock, NULL);
	bb_clock_open_moment(&crew->changed);
	snprintf(crew->what, sizeof(crew->what), "start-up");
	crew->deadline =
		config->timeout_ns ? bb_clock_now() + 1e-9 * (double)config->timeout_ns : 0;
	for (size_t i = 0; i < n; i++)
		crew->drivers[i] = (struct bb_driver){
			.crew = crew,
			.local = (int)i,
			.rank = config->world->first_rank + (int)i,
			.progress = &crew->progress[i],
		};
	return BB_OK;
}

static void crew_release(struct bb_crew *crew)
{
	pthread_cond_destroy(&crew->changed);
	pthread_mutex_destroy(&crew->lock);
	free(crew->gathered);
	free(crew->drivers);
	free(crew->progress);
	free(crew->ranks);
	free(crew);
}

/* Fails before there is a watch. */
static struct bb_crew_outcome give_up(const struct bb_crew_config *config, const char *what)
{
	bb_fail(config->error, BB_EINTERNAL, "rank %d: %s", config->world->first_rank, what);
	bb_watch_tell(config);
	return (struct bb_crew_outcome){0};
}

struct bb_crew_outcome bb_crew_run(const struct bb_crew_config *config)
{
	struct bb_crew *crew = malloc(sizeof(*crew));
	pthread_t *threads = calloc((size_t)config->world->nlocal, sizeof(*threads));
	struct bb_crew_outcome outcome;
	sigset_t signals, before;

	if (!crew || !threads || crew_init(crew, config) != BB_OK) {
		free(threads);
		free(crew);
		return give_up(config, "out of memory for its threads");
	}
	if (config->crew)
		*config->crew = crew;
	bb_signals_fill(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, &before);
	if (pthread_create(&crew->watch, NULL, watch_main, crew) == 0) {
		run_drivers(crew, threads);
		bb_guard_wake(crew->watch);
		pthread_join(crew->watch, NULL);
		outcome = crew->outcome;
	} else {
		outcome = give_up(config, "the system gives no thread to watch over it");
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(threads);
	crew_release(crew);
	return outcome;
}
