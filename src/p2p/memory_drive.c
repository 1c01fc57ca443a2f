/*
 * memory_drive.c - one case after the other, one place after the other, as every rank goes through
 * them. A place is a NUMA node of a host, or a GPU; the ranks of the others sleep meanwhile.
 */
#include "p2p/memory.h"

#include "core/clock.h"
#include "core/stats.h"
#include "core/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD 1021                      /* of the data, in doubles */
#define SAMPLE_BYTES ((size_t)256 << 10) /* a sample is to be long against reading the clock */
#define LINK_SAMPLE_BYTES                                                                          \
	((size_t)128 << 20) /* of copies between spaces: against starting them, too */
#define SAMPLE_REPEATS 1000
#define HOPS 20000 /* of a chase, in one sample */
#define ALIEN UINT64_C(0x9e3779b97f4a7c15)

enum array { A, B, C, D, ARRAYS };

/* What an array holds: doubles that are known, three times these, bytes of 1, and poison. */
enum data { BASE, TRIPLE, ONES, POISON, DATA };

struct array_of {
	void *memory;
	size_t bytes;
	int space;
};

/* One driver's state. */
struct session {
	struct bb_driver *driver;
	struct bb_run *run;
	const struct bb_memory_plan *plan;
	const struct bb_backend *backend;
	struct bb_group *world, *team; /* all, and those of this rank's place */
	int n, nplaces;
	int *places; /* of each rank, from 0 on in the order in which they first come */
	int mine;    /* this rank's place */
	int nteam;   /* ranks there */
	bool first;  /* this is the lowest of them */
	struct array_of arrays[ARRAYS];
	struct bb_queue *queues[2]; /* for both ways at once; or NULL */
	double *data;               /* DATA tables of 2 * PERIOD */
	double *report;             /* REPORT_HEAD numbers, then the samples: seconds of one work */
	double *times;              /* rank 0's scratch, 2 * iters */
};

enum report { IS_WORKER, BYTES, WRONG, CHECKED, REPEATS, REPORT_HEAD };

/* ---- before the first case ------------------------------------------------------------------ */

static bool same_place(const struct session *s, const struct bb_rank_info *infos, int a, int b)
{
	if (s->backend->gpu)
		return a == b;
	return infos[a].location.numa == infos[b].location.numa &&
	       strcmp(infos[a].location.host, infos[b].location.host) == 0;
}

static void number_places(struct session *s, const struct bb_rank_info *infos)
{
	for (int r = 0; r < s->n; r++) {
		int first = 0;

		while (!same_place(s, infos, first, r))
			first++;
		s->places[r] = first < r ? s->places[first] : s->nplaces++;
	}
	s->mine = s->places[s->driver->rank];
}

static bb_status open_team(struct session *s)
{
	int *members = s->n > 0 ? calloc((size_t)s->n, sizeof(*members)) : NULL;
	bb_status status;

	if (!members)
		return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for groups");
	for (int r = 0; r < s->n; r++)
		if (s->places[r] == s->mine)
			members[s->nteam++] = r;
	s->first = members[0] == s->driver->rank;
	status = s->backend->group_open(s->driver->handle, members, s->nteam, &s->team,
					&s->run->error);
	free(members);
	return status;
}

static bb_status open_lists(struct session *s)
{
	const size_t iters = (size_t)s->run->options.iters;

	s->places = calloc((size_t)s->n, sizeof(*s->places));
	s->report = calloc(REPORT_HEAD + iters, sizeof(*s->report));
	s->times = calloc(2 * iters, sizeof(*s->times));
	s->data = calloc(DATA * 2 * PERIOD, sizeof(*s->data));
	if (!s->places || !s->report || !s->times || !s->data)
		return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for %d ranks", s->n);
	for (int i = 0; i < 2 * PERIOD; i++) {
		s->data[BASE * 2 * PERIOD + i] = i % PERIOD + 1;
		s->data[TRIPLE * 2 * PERIOD + i] = 3 * (i % PERIOD + 1);
	}
	memset(s->data + ONES * 2 * PERIOD, 1, 2 * PERIOD * sizeof(double));
	memset(s->data + POISON * 2 * PERIOD, 0xa5, 2 * PERIOD * sizeof(double));
	return BB_OK;
}

static bool copies_both_ways(const struct session *s)
{
	for (size_t i = 0; i < s->plan->ncases; i++)
		if (s->plan->cases[i].kind == BB_MEMORY_BOTH)
			return true;
	return false;
}

static bb_status open_session(struct session *s)
{
	bb_status status;

	BB_TRY(status, bb_run_attend(s->run, s->driver, NULL, &s->world), done);
	BB_TRY(status, open_lists(s), done);
	number_places(s, s->run->infos);
	BB_TRY(status, open_team(s), done);
	for (int q = 0; q < 2 && copies_both_ways(s); q++)
		BB_TRY(status,
		       s->backend->queue_open(s->driver->handle, &s->queues[q], &s->run->error),
		       done);
	status = bb_run_begin(s->run, s->driver, NAN);
done:
	return status;
}

static void release(struct session *s, struct array_of *array)
{
	if (array->memory)
		s->backend->spaces->release(s->driver->handle, array->space, array->memory,
					    array->bytes);
	*array = (struct array_of){.memory = NULL};
}

static void close_session(struct session *s)
{
	for (int i = 0; i < ARRAYS; i++)
		release(s, &s->arrays[i]);
	for (int q = 0; q < 2; q++)
		s->backend->queue_close(s->queues[q]);
	s->backend->group_close(s->team);
	s->backend->group_close(s->world);
	free(s->places);
	free(s->report);
	free(s->times);
	free(s->data);
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* This rank's part of an array; never nothing. */
static size_t share(const struct session *s, const struct bb_memory_case *c)
{
	const size_t part = (size_t)c->bytes / (size_t)(c->alone ? 1 : s->nteam);

	return part < BB_WORK_ALIGNMENT ? BB_WORK_ALIGNMENT
					: part / BB_WORK_ALIGNMENT * BB_WORK_ALIGNMENT;
}

static struct bb_pattern pattern(const struct session *s, enum data which)
{
	return (struct bb_pattern){s->data + (size_t)which * 2 * PERIOD, PERIOD, sizeof(double), 0};
}

/* An array that is there already stays; what it holds is written anew. */
static bb_status open_array(struct session *s, enum array which, int space, size_t bytes,
			    enum data holds)
{
	struct array_of *array = &s->arrays[which];
	const struct bb_pattern p = pattern(s, holds);
	bb_status status = BB_OK;

	if (array->memory && (array->space != space || array->bytes != bytes))
		release(s, array);
	if (!array->memory) {
		status = s->backend->spaces->alloc(s->driver->handle, space, bytes, &array->memory,
						   &s->run->error);
		if (status != BB_OK) {
			array->memory = NULL;
			return bb_fail(&s->run->error, status, "rank %d cannot allocate %zu bytes",
				       s->driver->rank, bytes);
		}
		array->space = space;
		array->bytes = bytes;
	}
	return s->backend->fill(s->driver->handle, array->memory, &p, 0, bytes / sizeof(double));
}

static bb_status open_arrays(struct session *s, const struct bb_memory_case *c)
{
	const size_t bytes = share(s, c);
	bb_status status;

	BB_TRY(status, open_array(s, A, c->to, bytes, c->kind == BB_MEMORY_READ ? BASE : POISON),
	       out);
	if (c->kind == BB_MEMORY_CHASE) {
		status =
			s->backend->spaces->chase_lay(s->driver->handle, s->arrays[A].memory, bytes,
						      (uint64_t)s->run->options.seed * ALIEN);
		goto out;
	}
	if (c->kind >= BB_MEMORY_COPY)
		BB_TRY(status, open_array(s, B, c->from, bytes, BASE), out);
	if (c->kind >= BB_MEMORY_TRIAD)
		BB_TRY(status,
		       open_array(s, C, c->from, bytes, c->kind == BB_MEMORY_TRIAD ? BASE : POISON),
		       out);
	if (c->kind == BB_MEMORY_BOTH)
		BB_TRY(status, open_array(s, D, c->to, bytes, BASE), out);
	status = s->backend->finish(s->driver->handle, NULL);
out:
	return status;
}

/* Make one byte of what this rank wrote wrong: proof that the check can fail. */
static bb_status corrupt(struct session *s)
{
	char *const victim = (char *)s->arrays[A].memory + s->arrays[A].bytes / 2;
	unsigned char byte;
	bb_status status = s->backend->copy(s->driver->handle, &byte, victim, 1);

	byte ^= 0x55;
	return status == BB_OK ? s->backend->copy(s->driver->handle, victim, &byte, 1) : status;
}

static bb_status verify_array(struct session *s, enum array which, enum data holds)
{
	const struct bb_pattern p = pattern(s, holds);
	uint64_t wrong = 0;
	bb_status status =
		s->backend->verify(s->driver->handle, s->arrays[which].memory, &p, 0,
				   s->arrays[which].bytes / sizeof(double), BB_DOUBLE, 0, &wrong);

	s->report[WRONG] += (double)(wrong * sizeof(double));
	s->report[CHECKED] = 1;
	return status;
}

/* What reads alone writes nothing that could be wrong. */
static bb_status verify(struct session *s, const struct bb_memory_case *c)
{
	const struct bb_fault *fault = &s->run->options.fault;
	bb_status status = BB_OK;

	if (c->kind == BB_MEMORY_READ || c->kind == BB_MEMORY_CHASE || s->run->options.check == 0)
		return BB_OK;
	if (fault->kind == BB_FAULT_CORRUPT && fault->rank == s->driver->rank)
		BB_TRY(status, corrupt(s), out);
	BB_TRY(status,
	       verify_array(s, A,
			    c->kind == BB_MEMORY_TRIAD   ? TRIPLE
			    : c->kind == BB_MEMORY_WRITE ? ONES
							 : BASE),
	       out);
	if (c->kind == BB_MEMORY_BOTH)
		status = verify_array(s, C, BASE);
out:
	return status;
}

/* ---- timed ---------------------------------------------------------------------------------- */

static bb_status copy_both_ways(struct session *s, size_t bytes)
{
	bb_status status;

	BB_TRY(status,
	       s->backend->spaces->work(s->driver->handle, s->queues[0], BB_WORK_COPY,
					s->arrays[A].memory, s->arrays[B].memory, NULL, bytes),
	       out);
	status = s->backend->spaces->work(s->driver->handle, s->queues[1], BB_WORK_COPY,
					  s->arrays[C].memory, s->arrays[D].memory, NULL, bytes);
out:
	return status;
}

static bb_status finish(struct session *s)
{
	bb_status status = s->backend->finish(s->driver->handle, NULL);

	for (int q = 0; q < 2 && s->queues[q] && status == BB_OK; q++)
		status = s->backend->finish(s->driver->handle, s->queues[q]);
	return status;
}

/* Each sample of a chase begins elsewhere on the way, so that caches know nothing of it. */
static bb_status chase(struct session *s, size_t sample)
{
	const size_t stops = s->arrays[A].bytes / BB_CHASE_STRIDE;
	const size_t start = (size_t)((sample + 1) * ALIEN >> 16) % stops;

	return s->backend->spaces->chase(
		s->driver->handle, (char *)s->arrays[A].memory + start * BB_CHASE_STRIDE, HOPS);
}

static bb_status work(struct session *s, const struct bb_memory_case *c, size_t sample)
{
	static const enum bb_memory_work works[] = {[BB_MEMORY_READ] = BB_WORK_READ,
						    [BB_MEMORY_WRITE] = BB_WORK_WRITE,
						    [BB_MEMORY_COPY] = BB_WORK_COPY,
						    [BB_MEMORY_TRIAD] = BB_WORK_TRIAD};

	if (c->kind == BB_MEMORY_CHASE)
		return chase(s, sample);
	if (c->kind == BB_MEMORY_BOTH)
		return copy_both_ways(s, share(s, c));
	return s->backend->spaces->work(s->driver->handle, NULL, works[c->kind],
					s->arrays[A].memory, s->arrays[B].memory,
					s->arrays[C].memory, share(s, c));
}

/* Works, or hops, of one sample. */
static size_t repeats_of(const struct session *s, const struct bb_memory_case *c)
{
	const size_t repeats = (c->to != c->from ? LINK_SAMPLE_BYTES : SAMPLE_BYTES) / share(s, c);

	if (c->kind == BB_MEMORY_CHASE)
		return 1;
	return repeats < 1 ? 1 : repeats > SAMPLE_REPEATS ? SAMPLE_REPEATS : repeats;
}

static bb_status take_sample(struct session *s, const struct bb_memory_case *c, size_t sample,
			     double *seconds)
{
	const struct bb_fault *fault = &s->run->options.fault;
	const size_t repeats = repeats_of(s, c);
	double begin;
	bb_status status = BB_OK;

	if (!c->alone && s->nteam > 1)
		status = s->backend->barrier(s->team);
	begin = s->backend->now(s->driver->handle);
	/* Once for all works of the sample, as if before each of them. */
	if (fault->kind == BB_FAULT_SLOW && fault->rank == s->driver->rank)
		bb_crew_delay(s->driver, fault->seconds * (double)repeats);
	for (size_t i = 0; i < repeats && status == BB_OK; i++)
		status = work(s, c, sample);
	if (status == BB_OK)
		status = finish(s);
	*seconds = (s->backend->now(s->driver->handle) - begin) /
		   (double)(c->kind == BB_MEMORY_CHASE ? HOPS : repeats);
	return status;
}

static bb_status time_case(struct session *s, const struct bb_memory_case *c)
{
	const size_t warm = (size_t)s->run->options.warmup_iters;
	const size_t iters = (size_t)s->run->options.iters;
	double ignored;
	bb_status status = BB_OK;

	atomic_store_explicit(&s->driver->progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	for (size_t i = 0; i < warm && status == BB_OK; i++)
		status = take_sample(s, c, iters + i, &ignored);
	for (size_t i = 0; i < iters && status == BB_OK; i++)
		status = take_sample(s, c, i, &s->report[REPORT_HEAD + i]);
	atomic_store_explicit(&s->driver->progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

/* ---- put together --------------------------------------------------------------------------- */

/* Work takes as long as its slowest worker. *BYTES = what an array has for all of them. */
static void join_workers(struct session *s, const double *reports, struct bb_pair_record *r,
			 double *bytes)
{
	const size_t iters = (size_t)s->run->options.iters, length = REPORT_HEAD + iters;

	r->workers = 0;
	*bytes = 0;
	memset(s->times, 0, iters * sizeof(*s->times));
	for (int rank = 0; rank < s->n; rank++) {
		const double *report = reports + (size_t)rank * length;

		if (report[IS_WORKER] == 0)
			continue;
		for (size_t i = 0; i < iters; i++)
			s->times[i] = fmax(s->times[i], report[REPORT_HEAD + i]);
		if (report[CHECKED] != 0)
			r->wrong = (r->wrong == BB_ABSENT ? 0 : r->wrong) + (int64_t)report[WRONG];
		r->repeats = (int64_t)report[REPEATS];
		r->workers++;
		*bytes += report[BYTES];
	}
}

static void name_place(const struct session *s, int place, char name[BB_TEXT])
{
	const struct bb_location *at;
	int rank = 0;

	while (s->places[rank] != place)
		rank++;
	at = &s->run->infos[rank].location;
	if (s->backend->gpu)
		snprintf(name, BB_TEXT, "GPU %d", at->device);
	else
		snprintf(name, BB_TEXT, "node %d", at->numa < 0 ? 0 : at->numa);
}

static bb_status deliver(struct session *s, const struct bb_memory_case *c, int place,
			 const double *reports)
{
	const size_t iters = (size_t)s->run->options.iters;
	const bool chases = c->kind == BB_MEMORY_CHASE;
	char from[BB_SPACE_TEXT], to[BB_SPACE_TEXT], at[BB_TEXT];
	struct bb_pair_record r;
	struct bb_stats stats;
	double bytes;

	bb_record_init(&bb_record_pair, &r);
	join_workers(s, reports, &r, &bytes);
	bb_stats_compute(s->times, iters, &stats);
	name_place(s, place, at);
	s->backend->spaces->name(s->run->context, c->from, from);
	s->backend->spaces->name(s->run->context, c->to, to);
	r.quantity = chases ? "latency" : "bandwidth";
	r.ends = "memory";
	r.place = at;
	r.memory_from = c->kind == BB_MEMORY_WRITE            ? NULL
			: chases || c->kind == BB_MEMORY_READ ? to
							      : from;
	r.memory_to = chases || c->kind == BB_MEMORY_READ ? NULL : to;
	r.route = c->route;
	r.direction = c->kind == BB_MEMORY_BOTH ? "bidirectional" : "unidirectional";
	r.size_bytes = (int64_t)c->bytes;
	r.p50_us = stats.p50 * 1e6;
	r.p99_us = stats.p99 * 1e6;
	r.min_us = stats.min * 1e6;
	r.max_us = stats.max * 1e6;
	if (!chases) {
		const double counts = bb_memory_counts(c) * bytes / 1e9;

		r.GBps = counts / stats.p50;
		r.low_GBps = counts / s->times[iters - 1 - iters / 4];
		r.high_GBps = counts / s->times[iters / 4];
	}
	r.rounds = 1;
	r.samples = (int64_t)iters;
	r.end_unix_s = bb_clock_unix();
	s->run->end.results++;
	s->run->end.wrong += r.wrong != BB_ABSENT && r.wrong > 0;
	if (s->plan->complete)
		s->plan->complete(s->run, c, &r);
	bb_ticker_hide(&s->run->ticker);
	return bb_sinks_record(&s->run->sinks, &bb_record_pair, &r);
}

/* ---- all cases ------------------------------------------------------------------------------ */

static void begin_deadline(struct session *s, const struct bb_memory_case *c)
{
	char size[BB_UNIT_TEXT], what[BB_WHAT_TEXT];

	snprintf(what, sizeof(what), "%s of %s", c->route, bb_format_size(size, c->bytes));
	bb_crew_deadline(s->driver, what);
}

static bb_status run_at(struct session *s, const struct bb_memory_case *c, int place)
{
	const struct bb_fault *fault = &s->run->options.fault;
	const size_t bytes = (REPORT_HEAD + (size_t)s->run->options.iters) * sizeof(double);
	const bool works = place == s->mine && (!c->alone || s->first);
	const void *all;
	bb_status status = BB_OK;

	if (s->driver->local == 0)
		begin_deadline(s, c);
	memset(s->report, 0, bytes);
	s->report[IS_WORKER] = works;
	s->report[BYTES] = (double)share(s, c);
	s->report[REPEATS] = works ? (double)repeats_of(s, c) : 0;
	if (works && fault->kind == BB_FAULT_DIE && fault->rank == s->driver->rank)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	if (works)
		BB_TRY(status, open_arrays(s, c), out);
	BB_TRY(status, bb_crew_barrier(s->driver), out);
	if (works)
		BB_TRY(status, time_case(s, c), out);
	BB_TRY(status, bb_crew_barrier(s->driver), out);
	if (works)
		BB_TRY(status, verify(s, c), out);
	BB_TRY(status,
	       bb_crew_collect(s->driver, &bb_payload_real, s->report, bytes / sizeof(*s->report),
			       &all),
	       out);
	if (bb_driver_leads(s->driver))
		status = deliver(s, c, place, all);
out:
	return status;
}

static bb_status skip(struct session *s, const struct bb_memory_case *c)
{
	struct bb_skip_record r;

	bb_record_init(&bb_record_skip, &r);
	r.collective = "memory";
	r.algorithm = c->route;
	r.size_bytes = (int64_t)c->bytes;
	r.reason = c->skip;
	s->run->end.skipped++;
	return bb_sinks_record(&s->run->sinks, &bb_record_skip, &r);
}

static bb_status run_case(struct session *s, const struct bb_memory_case *c)
{
	bb_status status = BB_OK;

	if (bb_driver_leads(s->driver))
		bb_ticker_show(&s->run->ticker, c->route, c->bytes);
	if (c->skip && bb_driver_leads(s->driver))
		status = skip(s, c);
	for (int place = 0; place < s->nplaces && !c->skip && status == BB_OK; place++)
		status = run_at(s, c, place);
	if (bb_driver_leads(s->driver))
		bb_ticker_step(&s->run->ticker, c->bytes);
	return status;
}

bb_status bb_memory_measure(struct bb_driver *driver, struct bb_run *run,
			    const struct bb_memory_plan *plan)
{
	struct session s = {.driver = driver,
			    .run = run,
			    .plan = plan,
			    .backend = run->options.backend,
			    .n = run->world.nranks};
	bb_status status = open_session(&s);

	for (size_t i = 0; i < plan->ncases && status == BB_OK; i++)
		status = run_case(&s, &plan->cases[i]);
	status = bb_crew_part(driver, status);
	close_session(&s);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
