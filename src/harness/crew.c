#include "harness/crew.h"

#include "core/clock.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GRACE_SECONDS 3.0 /* that drivers have to let go once the run is abandoned */
#define NAMED_RANKS 16    /* in the report of a deadline */

struct bb_crew {
	const struct bb_crew_config *config;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int waiting;      /* drivers at the barrier */
	unsigned passed;  /* barriers passed */
	atomic_bool stop; /* the run is being abandoned */
	char *gathered;   /* nranks * bytes of the gather under way */
	size_t capacity;
	bb_status gather_status;
	double deadline;  /* on the monotonic clock; 0: none */
	const char *what; /* the deadline is for */
	struct bb_driver *drivers;
	struct bb_progress *progress;
};

/* ---- what drivers exchange ----------------------------------------------------------- */

/* Local drivers only; the last one to come runs LAST(crew, argument) before the others go on. */
static bb_status meet(struct bb_crew *crew, void (*last)(struct bb_crew *crew, void *argument),
		      void *argument)
{
	bb_status status = BB_OK;
	unsigned passed;

	pthread_mutex_lock(&crew->lock);
	passed = crew->passed;
	if (++crew->waiting == crew->config->world->nlocal) {
		if (last)
			last(crew, argument);
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

static void meet_processes(struct bb_crew *crew, void *argument)
{
	crew->gather_status = crew->config->launch->barrier(crew->config->launch);
}

bb_status bb_crew_barrier(struct bb_driver *driver)
{
	bb_status status = meet(driver->crew, meet_processes, NULL);

	return status == BB_OK ? driver->crew->gather_status : status;
}

static void make_room(struct bb_crew *crew, void *argument)
{
	const size_t bytes = *(const size_t *)argument * (size_t)crew->config->world->nranks;

	crew->gather_status = BB_OK;
	if (bytes <= crew->capacity)
		return;
	free(crew->gathered);
	crew->gathered = malloc(bytes);
	crew->capacity = crew->gathered ? bytes : 0;
	if (!crew->gathered)
		crew->gather_status = bb_fail(crew->config->error, BB_EINTERNAL,
					      "out of memory while gathering results");
}

static void gather_processes(struct bb_crew *crew, void *argument)
{
	const size_t bytes = *(const size_t *)argument;
	const struct bb_world *world = crew->config->world;
	struct bb_launch *launch = crew->config->launch;
	char *mine;

	if (world->nprocs == 1)
		return;
	mine = malloc(bytes * (size_t)world->nlocal);
	if (!mine) {
		crew->gather_status = BB_EINTERNAL;
		return;
	}
	memcpy(mine, crew->gathered + bytes * (size_t)world->first_rank,
	       bytes * (size_t)world->nlocal);
	crew->gather_status =
		launch->all_gather(launch, mine, bytes * (size_t)world->nlocal, crew->gathered);
	free(mine);
}

bb_status bb_crew_gather(struct bb_driver *driver, const void *mine, size_t bytes, const void **all)
{
	struct bb_crew *crew = driver->crew;
	bb_status status = meet(crew, make_room, &bytes);

	if (status != BB_OK || crew->gather_status != BB_OK)
		return status != BB_OK ? status : crew->gather_status;
	memcpy(crew->gathered + bytes * (size_t)driver->rank, mine, bytes);
	status = meet(crew, gather_processes, &bytes);
	*all = crew->gathered;
	return status != BB_OK ? status : crew->gather_status;
}

void bb_crew_deadline(struct bb_driver *driver, const char *what)
{
	struct bb_crew *crew = driver->crew;
	const uint64_t timeout = crew->config->timeout_ns;

	pthread_mutex_lock(&crew->lock);
	crew->deadline = timeout ? bb_clock_now() + 1e-9 * (double)timeout : 0;
	crew->what = what;
	pthread_mutex_unlock(&crew->lock);
}

/* ---- the drivers --------------------------------------------------------------------- */

static void *driver_main(void *argument)
{
	struct bb_driver *driver = argument;
	const struct bb_crew_config *config = driver->crew->config;
	bb_status status = config->backend->attach(config->context, driver->local, &driver->handle,
						   config->error);

	if (status == BB_OK) {
		status = config->drive(driver, config->argument);
		config->backend->detach(driver->handle);
	}
	/* A driver that just stops reports nothing; the watch sees that it is gone. */
	if (status != BB_OK && status != BB_ETIMEOUT)
		bb_fail(config->error, status, "rank %d failed", driver->rank);
	atomic_store(&driver->progress->phase, BB_PHASE_ENDED);
	return NULL;
}

/* ---- the watch ----------------------------------------------------------------------- */

static void abandon(struct bb_crew *crew, bb_status status)
{
	if (atomic_exchange(&crew->stop, true))
		return;
	crew->config->backend->abort(crew->config->context);
}

static unsigned long long most_entered(const struct bb_crew *crew)
{
	unsigned long long most = 0;

	for (int i = 0; i < crew->config->world->nlocal; i++) {
		unsigned long long entered = atomic_load(&crew->progress[i].entered);

		most = entered > most ? entered : most;
	}
	return most;
}

static void name_ranks(const struct bb_crew *crew, unsigned long long most, bool arrived,
		       struct bb_strbuf *out)
{
	const struct bb_world *world = crew->config->world;
	int named = 0;

	for (int i = 0; i < world->nlocal; i++) {
		if ((atomic_load(&crew->progress[i].entered) == most) != arrived)
			continue;
		if (named++ < NAMED_RANKS)
			bb_strbuf_addf(out, "%s%d", named == 1 ? "" : ", ", world->first_rank + i);
	}
	if (named > NAMED_RANKS)
		bb_strbuf_addf(out, ", … (%d in all)", named);
	if (named == 0)
		bb_strbuf_add(out, "none, all are inside it or wait for another");
}

static void report_deadline(const struct bb_crew *crew, const char *what)
{
	struct bb_strbuf arrived = {0}, missing = {0};
	const unsigned long long most = most_entered(crew);
	char text[BB_UNIT_TEXT];

	name_ranks(crew, most, true, &arrived);
	name_ranks(crew, most, false, &missing);
	bb_fail(crew->config->error, BB_ETIMEOUT,
		"%s did not end within %s (-T); ranks that had arrived at the last collective: %s; "
		"had not: %s",
		what, bb_format_duration(text, 1e-9 * (double)crew->config->timeout_ns),
		bb_strbuf_text(&arrived), bb_strbuf_text(&missing));
	bb_strbuf_free(&arrived);
	bb_strbuf_free(&missing);
}

/* Has a driver gone without finishing, or a deadline passed? Then the run is over. */
static void look_around(struct bb_crew *crew)
{
	const struct bb_crew_config *config = crew->config;
	double deadline;
	const char *what;

	for (int i = 0; i < config->world->nlocal; i++) {
		const struct bb_progress *p = &crew->progress[i];

		if (!atomic_load(&crew->stop) && atomic_load(&p->phase) == BB_PHASE_ENDED &&
		    !atomic_load(&p->finished)) {
			bb_fail(config->error, BB_EBACKEND, "rank %d ended before the run was over",
				config->world->first_rank + i);
			abandon(crew, BB_EBACKEND);
		}
	}
	pthread_mutex_lock(&crew->lock);
	deadline = crew->deadline;
	what = crew->what;
	pthread_mutex_unlock(&crew->lock);
	if (deadline != 0 && bb_clock_now() > deadline && !atomic_load(&crew->stop)) {
		report_deadline(crew, what);
		abandon(crew, BB_ETIMEOUT);
	}
}

static bool all_ended(const struct bb_crew *crew, int started)
{
	for (int i = 0; i < started; i++)
		if (atomic_load(&crew->progress[i].phase) != BB_PHASE_ENDED)
			return false;
	return true;
}

/* Watch until all drivers ended, or until they had their time to. Returns the signal, or 0. */
static int watch(struct bb_crew *crew, const sigset_t *signals, int started)
{
	const struct timespec look = {.tv_nsec = BB_MOMENT_NS};
	double stopped = 0;
	int caught = 0;

	while (!all_ended(crew, started)) {
		int signal = sigtimedwait(signals, NULL, &look);

		if (signal > 0) {
			caught = caught ? caught : signal;
			abandon(crew, BB_ETIMEOUT);
		}
		look_around(crew);
		if (atomic_load(&crew->stop) && stopped == 0)
			stopped = bb_clock_now();
		if (stopped != 0 && bb_clock_now() > stopped + GRACE_SECONDS)
			break;
	}
	look_around(crew);
	return caught;
}

static bb_status crew_init(struct bb_crew *crew, const struct bb_crew_config *config)
{
	const size_t n = (size_t)config->world->nlocal;

	memset(crew, 0, sizeof(*crew));
	crew->config = config;
	crew->drivers = calloc(n, sizeof(*crew->drivers));
	crew->progress = aligned_alloc(64, n * sizeof(*crew->progress));
	if (!crew->drivers || !crew->progress) {
		free(crew->drivers);
		free(crew->progress);
		return bb_fail(config->error, BB_EINTERNAL, "out of memory for %zu ranks", n);
	}
	memset(crew->progress, 0, n * sizeof(*crew->progress));
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->changed, NULL);
	crew->what = "start-up";
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
	free(crew);
}

int bb_crew_run(const struct bb_crew_config *config, bool *stuck)
{
	struct bb_crew *crew = malloc(sizeof(*crew));
	pthread_t *threads = calloc((size_t)config->world->nlocal, sizeof(*threads));
	sigset_t signals, before;
	int caught = 0, started = 0;

	*stuck = false;
	if (!crew || !threads || crew_init(crew, config) != BB_OK) {
		bb_fail(config->error, BB_EINTERNAL, "out of memory for %d ranks",
			config->world->nlocal);
		free(threads);
		free(crew);
		return 0;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, &before);
	for (; started < config->world->nlocal; started++)
		if (pthread_create(&threads[started], NULL, driver_main, &crew->drivers[started]))
			break;
	if (started < config->world->nlocal) {
		bb_fail(config->error, BB_EINTERNAL, "the system gives no thread for rank %d",
			config->world->first_rank + started);
		abandon(crew, BB_EINTERNAL);
	}
	caught = watch(crew, &signals, started);
	*stuck = !all_ended(crew, started);
	for (int i = 0; i < started && !*stuck; i++)
		pthread_join(threads[i], NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(threads);
	if (!*stuck)
		crew_release(crew);
	return caught;
}
