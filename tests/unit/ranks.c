#include "ranks.h"

#include "backends/host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define PRINTED 10
#define LONGEST_S 500

void ranks_failed(struct one *me, const char *file, int line, const char *format, ...)
{
	char text[400];
	va_list args;

	if (atomic_fetch_add(&me->all->failures, 1) >= PRINTED)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s:%d: rank %d of %d: %s\n", file, line, me->rank, me->n, text);
}

static void give_up(const char *what)
{
	fprintf(stderr, "ranks: %s\n", what);
	abort();
}

static void attach(struct one *me)
{
	struct ranks *all = me->all;
	struct bb_error error = {0};
	int *members = calloc((size_t)me->n, sizeof(*members));

	if (!members)
		give_up("out of memory");
	for (int r = 0; r < me->n; r++)
		members[r] = r;
	if (me->backend->attach(me->context, me->rank, &me->handle, &me->location, &error) != BB_OK)
		give_up(error.text);
	if (me->backend->group_open(me->handle, members, me->n, &me->world, &error) != BB_OK)
		give_up(error.text);
	free(members);
	pthread_mutex_lock(&all->lock);
	all->attached++;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

static void *live(void *argument)
{
	struct one *me = argument;
	struct ranks *all = me->all;
	unsigned done = 0;

	attach(me);
	pthread_mutex_lock(&all->lock);
	for (;;) {
		while (all->started == done)
			pthread_cond_wait(&all->changed, &all->lock);
		done = all->started;
		if (!all->job)
			break;
		pthread_mutex_unlock(&all->lock);
		all->job(me, all->argument);
		pthread_mutex_lock(&all->lock);
		all->running--;
		pthread_cond_broadcast(&all->changed);
	}
	pthread_mutex_unlock(&all->lock);
	me->backend->group_close(me->world);
	me->backend->detach(me->handle);
	return NULL;
}

void ranks_open(struct ranks *ranks, const struct bb_backend *backend, int n,
		const struct bb_backend_config *config)
{
	const struct bb_backend_config none = {0};
	const struct bb_world world = {.nranks = n, .nprocs = 1, .nlocal = n};
	struct bb_error error = {0};

	*ranks = (struct ranks){.backend = backend, .n = n};
	pthread_mutex_init(&ranks->lock, NULL);
	pthread_cond_init(&ranks->changed, NULL);
	if (backend->open(&ranks->context, &world, config ? config : &none, &error) != BB_OK)
		give_up(error.text);
	ranks->ones = calloc((size_t)n, sizeof(*ranks->ones));
	if (!ranks->ones)
		give_up("out of memory");
	for (int r = 0; r < n; r++) {
		ranks->ones[r] = (struct one){.all = ranks,
					      .backend = backend,
					      .context = ranks->context,
					      .rank = r,
					      .n = n};
		if (pthread_create(&ranks->ones[r].thread, NULL, live, &ranks->ones[r]) != 0)
			give_up("no thread");
	}
	pthread_mutex_lock(&ranks->lock);
	while (ranks->attached < n)
		pthread_cond_wait(&ranks->changed, &ranks->lock);
	pthread_mutex_unlock(&ranks->lock);
}

void ranks_start(struct ranks *ranks, ranks_job *job, void *argument)
{
	atomic_store(&ranks->failures, 0);
	pthread_mutex_lock(&ranks->lock);
	ranks->job = job;
	ranks->argument = argument;
	ranks->running = ranks->n;
	ranks->started++;
	pthread_cond_broadcast(&ranks->changed);
	pthread_mutex_unlock(&ranks->lock);
}

int ranks_join(struct ranks *ranks)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LONGEST_S;
	pthread_mutex_lock(&ranks->lock);
	while (ranks->running > 0) {
		if (pthread_cond_timedwait(&ranks->changed, &ranks->lock, &end) == 0)
			continue;
		ranks_failed(&ranks->ones[0], __FILE__, __LINE__, "a job hangs");
		ranks->backend->abort(ranks->context);
		end.tv_sec += LONGEST_S;
	}
	pthread_mutex_unlock(&ranks->lock);
	return atomic_load(&ranks->failures);
}

int ranks_run(struct ranks *ranks, ranks_job *job, void *argument)
{
	ranks_start(ranks, job, argument);
	return ranks_join(ranks);
}

void ranks_close(struct ranks *ranks)
{
	ranks_start(ranks, NULL, NULL);
	for (int r = 0; r < ranks->n; r++)
		pthread_join(ranks->ones[r].thread, NULL);
	ranks->backend->close(ranks->context);
	pthread_cond_destroy(&ranks->changed);
	pthread_mutex_destroy(&ranks->lock);
	free(ranks->ones);
}

void ranks_host(int n, bool crowded, ranks_job *job, void *argument)
{
	struct ranks ranks;
	int failures;

	ranks_open(&ranks, &bb_backend_host, n, NULL);
	ranks.context->cpu.crowded = crowded;
	failures = ranks_run(&ranks, job, argument);
	ranks_close(&ranks);
	assert_int_equal(failures, 0);
}
