/*
 * copy_speed.c - the speed of memory copies in this run, from which bounds follow.
 */
#include "harness/measure/bench.h"

#include "backends/gpu.h"
#include "core/stats.h"

#define COPY_REPEATS 5
#define COPY_SECONDS 20e-6 /* least time of a repeat, so that the clock does not matter */

/* Times a stretch of work by the device's events, so that launches do not count, or by the driver's
   clock. */
struct stretch {
	struct bb_event *begin, *end; /* NULL: the clock */
	double began;
};

static bb_status stretch_open(struct bb_session *s, struct stretch *t)
{
	const struct bb_backend *backend = s->engine.backend;
	bb_status status = BB_OK;

	*t = (struct stretch){.begin = NULL};
	if (backend->gpu)
		status = backend->event_open(s->engine.rank, &t->begin, &s->engine.run->error);
	if (backend->gpu && status == BB_OK)
		status = backend->event_open(s->engine.rank, &t->end, &s->engine.run->error);
	return status;
}

static void stretch_close(const struct bb_session *s, struct stretch *t)
{
	s->engine.backend->event_close(t->begin);
	s->engine.backend->event_close(t->end);
}

static bb_status stretch_begin(struct bb_session *s, struct stretch *t)
{
	const struct bb_backend *backend = s->engine.backend;

	t->began = backend->now(s->engine.rank);
	return t->begin ? backend->event_record(s->engine.rank, NULL, t->begin) : BB_OK;
}

static bb_status stretch_end(struct bb_session *s, struct stretch *t, double *seconds)
{
	const struct bb_backend *backend = s->engine.backend;
	bb_status status = t->end ? backend->event_record(s->engine.rank, NULL, t->end) : BB_OK;

	if (status == BB_OK)
		status = backend->finish(s->engine.rank, NULL);
	*seconds = backend->now(s->engine.rank) - t->began;
	if (t->end && status == BB_OK)
		status = backend->gpu->elapsed(s->engine.rank, t->begin, t->end, seconds);
	return status;
}

/* *SECONDS = time of one of LOOPS copies of BYTES from one half of the arena to the other. They
   move through both halves as the timed iterations move through their sets. */
static bb_status copy_through(struct bb_session *s, struct stretch *t, size_t bytes, size_t loops,
			      double *seconds)
{
	const struct bb_backend *backend = s->engine.backend;
	const size_t half = s->arena.bytes / 2;
	const size_t places = s->bench->settings.cache == BB_CACHE_ROTATE ? half / bytes : 1;
	bb_status status = stretch_begin(s, t);

	for (size_t k = 0; k < loops && status == BB_OK; k++) {
		char *from = s->arena.memory + k % places * bytes;

		status = backend->copy(s->engine.rank, from + half, from, bytes);
	}
	if (status == BB_OK)
		status = stretch_end(s, t, seconds);
	*seconds /= (double)loops;
	return status;
}

/* *SECONDS = time of one private copy of BYTES, the shortest of COPY_REPEATS. */
static bb_status time_copy(struct bb_session *s, size_t bytes, double *seconds)
{
	double times[COPY_REPEATS], trial = 0;
	struct bb_stats stats;
	struct stretch t;
	size_t loops;
	bb_status status = stretch_open(s, &t);

	for (int i = 0; i < 2 && status == BB_OK; i++)
		status = copy_through(s, &t, bytes, 1, &trial);
	loops = trial < COPY_SECONDS ? (size_t)(COPY_SECONDS / (trial + 1e-9)) + 1 : 1;
	for (int i = 0; i < COPY_REPEATS && status == BB_OK; i++)
		status = copy_through(s, &t, bytes, loops, &times[i]);
	stretch_close(s, &t);
	if (status != BB_OK)
		return status;
	bb_stats_compute(times, COPY_REPEATS, &stats);
	*seconds = stats.min;
	return BB_OK;
}

bb_status bb_measure_copy(struct bb_session *s, size_t bytes, double *rate)
{
	/* The request, the same on all ranks, is the key; what fits into the arena may differ. */
	const size_t requested = bytes, most = s->arena.bytes / 2;
	double mine = 0, sum = 0;
	const void *all;
	bb_status status;

	bytes = bytes < 64 ? 64 : bytes > most ? most : bytes;
	for (int i = 0; i < s->ncopy_speeds; i++)
		if (s->copy_speed[i].bytes == requested) {
			*rate = s->copy_speed[i].rate;
			return BB_OK;
		}
	status = bb_crew_barrier(s->engine.driver);
	if (status == BB_OK && s->copies) {
		status = time_copy(s, bytes, &mine);
		mine = mine > 0 ? (double)bytes / mine : 0;
	}
	if (status == BB_OK)
		status = bb_crew_gather(s->engine.driver, &bb_payload_real, &mine, 1, &all);
	if (status != BB_OK)
		return status;
	for (int i = 0; i < s->engine.run->world.nranks; i++)
		sum += ((const double *)all)[i];
	if (s->ncopy_speeds < BB_COPY_SPEEDS) {
		s->copy_speed[s->ncopy_speeds].bytes = requested;
		s->copy_speed[s->ncopy_speeds++].rate = sum;
	}
	*rate = sum;
	return BB_OK;
}
