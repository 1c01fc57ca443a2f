/*
 * hybrid_drive.c - what every driver does: a whole step and each of its parts alone, timed against
 * each other, and what the step sent verified.
 */
#include "core/clock.h"
#include "training_kernels/hybrid.h"
#include "training_kernels/hybrid_program.h"
#include "training_kernels/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 2 /* forward and backward, as of any pipeline that is not folded */

/* The step first. */
static const struct {
	const char *name;
	unsigned parts;
} kinds[] = {
	{"step", BB_HYBRID_STEP},     {"compute", BB_HYBRID_COMPUTE},
	{"tensor", BB_HYBRID_TENSOR}, {"pipeline", BB_HYBRID_PIPELINE},
	{"data", BB_HYBRID_DATA},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* What a rank hears of watched steps: seconds of each kind. */
struct heard {
	double seconds[KINDS];
	double steps;
};

struct session {
	const struct bb_hybrid *hybrid;
	struct bb_run *run;
	struct bb_driver *driver;
	const struct bb_backend *backend;
	struct bb_group *world;
	struct bb_hybrid_shape shape;
	uint64_t *gradients; /* [stage] */
	struct bb_program programs[KINDS];
	size_t kind_of[KINDS]; /* of each trial */
	struct bb_trials trials;
	struct heard heard;
	/* Data of this rank: what it gives to all-reduces of layers and gets, gradients, what it
	   sends to other stages and what it gets on each lane. NULL: there is none. */
	char *memory, *in, *out, *sent, *got[LANES], *gradient;
	size_t bytes, elements;
	const struct bb_patterns *sums, *averages, *moved;
	int64_t wrong; /* BB_ABSENT: not looked at */
	struct bb_error *error;
};

static bb_status no_memory(const struct session *s)
{
	return bb_fail(s->error, BB_EINTERNAL, "out of memory for a step of %s",
		       s->hybrid->model.name);
}

static int place(const struct session *s, enum bb_axis axis)
{
	return bb_grid_place(&s->shape.grid, axis, s->driver->rank);
}

/* ---- what is heard ----------------------------------------------------------------------------
 */

static void done(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		 double to, int source)
{
	struct session *s = own;

	/* Of the pipeline what computing waits for; messages are on their way beside it. */
	for (size_t i = 1; i < KINDS; i++)
		if (o->work == (int)kinds[i].parts && o->queue == BB_HYBRID_COMPUTES)
			s->heard.seconds[i] += to - from;
	/* A step of this rank, or of all of them where time is virtual, is heard to its end. */
	s->heard.steps += index + 1 == s->programs[0].length(&s->programs[0], rank);
}

/* ---- data -------------------------------------------------------------------------------------
 */

static void buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct session *s = own;

	switch (o->act) {
	case BB_ACT_SEND:
		*in = s->sent;
		break;
	case BB_ACT_RECV:
		*out = s->got[o->lane];
		break;
	default:
		*in = o->work == BB_HYBRID_DATA ? s->gradient : s->in;
		*out = o->work == BB_HYBRID_DATA ? s->gradient : s->out;
	}
}

static bb_status open_data(struct session *s)
{
	const struct bb_hybrid_shape *shape = &s->shape;
	const size_t activation = (shape->activation * bb_dtype_size(shape->dtype) + 63) / 64 * 64;
	struct bb_pattern_store *store = &s->run->patterns;
	const uint64_t seed = (uint64_t)s->run->options.seed;
	bb_status status;

	if (s->backend->capabilities & BB_CAP_VIRTUAL)
		return BB_OK;
	s->elements = (size_t)s->gradients[place(s, BB_AXIS_PP)];
	s->bytes = (3 + LANES) * activation + s->elements * bb_dtype_size(shape->gradient_dtype);
	status = s->backend->alloc(s->driver->handle, s->bytes, (void **)&s->memory);
	if (status != BB_OK)
		return bb_fail(s->error, status, "rank %d cannot allocate %zu bytes",
			       s->driver->rank, s->bytes);
	s->in = s->memory;
	s->out = s->in + activation;
	s->sent = s->out + activation;
	for (int lane = 0; lane < LANES; lane++)
		s->got[lane] = s->sent + (size_t)(lane + 1) * activation;
	s->gradient = s->got[LANES - 1] + activation;
	if (bb_driver_leads(s->driver))
		s->run->end.memory_user_bytes = (int64_t)s->bytes * s->run->world.nlocal;
	BB_TRY(status,
	       bb_pattern_store_take(store, shape->dtype, BB_SUM, shape->grid.tp, seed, &s->sums),
	       out);
	BB_TRY(status,
	       bb_pattern_store_take(store, shape->gradient_dtype, BB_AVG, shape->grid.dp, seed,
				     &s->averages),
	       out);
	BB_TRY(status,
	       bb_pattern_store_take(store, shape->dtype, -1, s->run->world.nranks, seed,
				     &s->moved),
	       out);
out:
	return status == BB_OK ? BB_OK : no_memory(s);
}

static bb_status fill(struct session *s, char *to, const struct bb_patterns *patterns, int rank,
		      size_t count)
{
	const struct bb_pattern pattern = bb_patterns_get(patterns, rank);

	return s->backend->fill(s->driver->handle, to, &pattern, 0, count);
}

/* Everything that is to be overwritten holds something else. */
static bb_status before_last(void *own)
{
	struct session *s = own;
	const size_t n = s->shape.activation;
	const int rank = s->driver->rank;
	bb_status status;

	BB_TRY(status, fill(s, s->in, s->sums, place(s, BB_AXIS_TP), n), out);
	BB_TRY(status, fill(s, s->out, s->moved, rank, n), out);
	BB_TRY(status, fill(s, s->sent, s->moved, rank, n), out);
	for (int lane = 0; lane < LANES; lane++)
		BB_TRY(status, fill(s, s->got[lane], s->moved, rank, n), out);
	BB_TRY(status, fill(s, s->gradient, s->averages, place(s, BB_AXIS_DP), s->elements), out);
	status = s->backend->finish(s->driver->handle, NULL);
out:
	return status;
}

/* Of COUNT elements at GOT those that are not PATTERN's, added to *WRONG. */
static bb_status verify(struct session *s, const char *got, const struct bb_pattern *pattern,
			size_t count, enum bb_dtype dtype, int ulps, uint64_t *wrong)
{
	return s->backend->verify(s->driver->handle, got, pattern, 0, count, dtype, ulps, wrong);
}

static bb_status verify_messages(struct session *s, uint64_t *wrong)
{
	const struct bb_grid *g = &s->shape.grid;
	const int group = bb_grid_group(g, BB_AXIS_PP, s->driver->rank);
	bb_status status = BB_OK;

	for (int lane = 0; lane < LANES && status == BB_OK; lane++) {
		const int from = place(s, BB_AXIS_PP) + (lane == 0 ? -1 : 1);
		struct bb_pattern theirs;

		if (from < 0 || from >= g->pp)
			continue;
		theirs = bb_patterns_get(s->moved, bb_grid_member(g, BB_AXIS_PP, group, from));
		status = verify(s, s->got[lane], &theirs, s->shape.activation, s->shape.dtype, 0,
				wrong);
	}
	return status;
}

/* Make one byte of what is verified wrong: proof that the check can fail. */
static bb_status corrupt(struct session *s)
{
	const struct bb_grid *g = &s->shape.grid;
	char *const victim = g->dp > 1   ? s->gradient
			     : g->tp > 1 ? s->out
					 : s->got[place(s, BB_AXIS_PP) == 0];
	unsigned char byte;
	bb_status status = s->backend->copy(s->driver->handle, &byte, victim, 1);

	byte ^= 0x55;
	return status == BB_OK ? s->backend->copy(s->driver->handle, victim, &byte, 1) : status;
}

static bb_status verify_all(struct session *s, uint64_t *wrong)
{
	const struct bb_fault *fault = &s->run->options.fault;
	const struct bb_hybrid_shape *shape = &s->shape;
	struct bb_pattern wanted;
	bb_status status = BB_OK;

	if (fault->kind == BB_FAULT_CORRUPT && fault->rank == s->driver->rank)
		BB_TRY(status, corrupt(s), out);
	if (shape->grid.tp > 1) {
		wanted = bb_patterns_get(s->sums, BB_REDUCED);
		BB_TRY(status,
		       verify(s, s->out, &wanted, shape->activation, shape->dtype, 0, wrong), out);
	}
	if (shape->grid.dp > 1) {
		wanted = bb_patterns_get(s->averages, BB_REDUCED);
		BB_TRY(status,
		       verify(s, s->gradient, &wanted, s->elements, shape->gradient_dtype,
			      BB_AVERAGE_ULPS, wrong),
		       out);
	}
	status = verify_messages(s, wrong);
out:
	return status;
}

static bb_status after_last(void *own)
{
	struct session *s = own;
	uint64_t wrong = 0;
	const void *all;
	bb_status status = verify_all(s, &wrong);

	if (status == BB_OK)
		status = bb_crew_gather(s->driver, &wrong, sizeof(wrong), &all);
	s->wrong = 0;
	for (int r = 0; r < s->run->world.nranks && status == BB_OK; r++)
		s->wrong += (int64_t)((const uint64_t *)all)[r];
	return status;
}

/* ---- programs ---------------------------------------------------------------------------------
 */

/* Is there anything of KIND? */
static bool exists(const struct session *s, size_t kind)
{
	for (int r = 0; r < s->run->world.nranks; r++)
		if (s->programs[kind].length(&s->programs[kind], r) > 0)
			return true;
	return false;
}

static bb_status add_trial(struct session *s, size_t kind)
{
	struct bb_trial *trial = &s->trials.list[s->trials.n];
	const char *algorithm = s->hybrid->asked.algo_text;
	struct bb_hybrid_shape shape = s->shape;
	bb_status status;

	shape.parts = kinds[kind].parts;
	status =
		bb_hybrid_program_open(&s->programs[kind], &shape,
				       strcmp(algorithm, "auto") == 0 ? NULL : algorithm, s->error);
	if (status != BB_OK || !exists(s, kind))
		return status;
	s->kind_of[s->trials.n++] = kind;
	trial->play = (struct bb_play){.program = &s->programs[kind],
				       .stand_in = (enum bb_stand_in)s->hybrid->asked.stand_in,
				       .buffers = s->memory ? buffers : NULL,
				       .own = s};
	snprintf(trial->what, sizeof(trial->what), "%s%s", kinds[kind].name,
		 kind > 0 ? " alone" : "");
	if (kind > 0)
		return BB_OK;
	trial->watch = (struct bb_timeline_watch){done, s};
	if (s->backend->capabilities & BB_CAP_DATA && s->run->options.check > 0) {
		trial->before_last = before_last;
		trial->after_last = after_last;
	}
	return BB_OK;
}

static bb_status open_session(struct session *s)
{
	bb_status status;

	BB_TRY(status, bb_run_attend(s->run, s->driver, NULL, &s->world), out);
	s->gradients = calloc((size_t)s->hybrid->grid.pp, sizeof(*s->gradients));
	s->trials.list = calloc(KINDS, sizeof(*s->trials.list));
	if (!s->gradients || !s->trials.list) {
		status = no_memory(s);
		goto out;
	}
	BB_TRY(status, bb_hybrid_shape_of(s->hybrid, &s->shape, s->gradients, s->error), out);
	BB_TRY(status, open_data(s), out);
	for (size_t kind = 0; kind < KINDS; kind++)
		BB_TRY(status, add_trial(s, kind), out);
	if (bb_driver_leads(s->driver))
		bb_ticker_start(&s->run->ticker, s->trials.n * bb_trials_rounds(&s->trials), 0);
	status = bb_run_begin(s->run, s->driver, NAN);
out:
	return status;
}

static void close_session(struct session *s)
{
	bb_trials_free(&s->trials);
	for (size_t i = 0; i < KINDS; i++)
		bb_hybrid_program_close(&s->programs[i]);
	free(s->trials.list);
	free(s->gradients);
	bb_pattern_store_give(&s->run->patterns, s->sums);
	bb_pattern_store_give(&s->run->patterns, s->averages);
	bb_pattern_store_give(&s->run->patterns, s->moved);
	s->backend->group_close(s->world);
}

/* ---- what comes of it -------------------------------------------------------------------------
 */

/* Groups of KIND whose members are on several hosts. */
static int64_t crossing(const struct session *s, size_t kind)
{
	static const enum bb_axis axes[KINDS] = {0, 0, BB_AXIS_TP, BB_AXIS_PP, BB_AXIS_DP};
	const struct bb_grid *g = &s->shape.grid;
	int64_t n = 0;

	if (kind < 2)
		return BB_ABSENT;
	for (int group = 0; group < bb_grid_groups(g, axes[kind]); group++) {
		bool crosses = false;

		for (int i = 0; i < bb_grid_size(g, axes[kind]); i++) {
			const int first = bb_grid_member(g, axes[kind], group, 0);
			const int other = bb_grid_member(g, axes[kind], group, i);

			crosses |= strcmp(s->run->infos[first].location.host,
					  s->run->infos[other].location.host) != 0;
		}
		n += crosses;
	}
	return n;
}

/* What the rank that sends most of KIND sends. */
static struct bb_hybrid_count most_sent(const struct session *s, size_t kind)
{
	struct bb_hybrid_count most = {0};

	for (int r = 0; r < s->run->world.nranks && kind >= 2; r++) {
		const struct bb_hybrid_count c = bb_hybrid_program_count(
			&s->programs[0], r, (enum bb_hybrid_work)kinds[kind].parts);

		if (c.sent >= most.sent)
			most = c;
	}
	return most;
}

static void describe(const struct session *s, const struct bb_trial *trial, size_t kind,
		     const struct heard *mean, struct bb_hybrid_record *r)
{
	const struct bb_hybrid *h = s->hybrid;
	const struct bb_hybrid_count count = most_sent(s, kind);

	bb_record_init(&bb_record_hybrid, r);
	r->model = h->model.name;
	r->part = kinds[kind].name;
	r->order = bb_grid_order_words[h->grid.order];
	r->algorithm = h->asked.algo_text;
	r->compute = bb_stand_in_names[h->asked.stand_in];
	r->nranks = s->run->world.nranks;
	r->tp = h->grid.tp;
	r->pp = h->grid.pp;
	r->dp = h->grid.dp;
	r->micro_batch = h->asked.micro_batch;
	r->micro_batches = s->shape.micro_batches;
	r->time_us = 1e6 * trial->stats.p50;
	r->low_us = 1e6 * trial->stats.ci_low;
	r->high_us = 1e6 * trial->stats.ci_high;
	r->samples = (int64_t)trial->stats.n;
	if (kind > 0)
		r->in_step_us = 1e6 * mean->seconds[kind];
	if (kind >= 2) {
		r->crossing = crossing(s, kind);
		r->calls = (int64_t)count.calls;
		r->sent_bytes = count.sent;
		r->sent_GBps = trial->stats.p50 > 0 ? 1e-9 * count.sent / trial->stats.p50 : NAN;
	}
	if (kind == 0)
		r->wrong = s->wrong;
	r->end_unix_s = bb_clock_unix();
}

static bb_status deliver(const struct session *s, const struct heard *mean)
{
	struct bb_run *run = s->run;
	struct bb_hybrid_record r;
	bb_status status = BB_OK;

	bb_ticker_hide(&run->ticker);
	for (size_t i = 0; i < s->trials.n && status == BB_OK; i++) {
		if (s->trials.list[i].refusal[0])
			return bb_fail(s->error, BB_EUNSUPPORTED, "%s", s->trials.list[i].refusal);
		describe(s, &s->trials.list[i], s->kind_of[i], mean, &r);
		run->end.results++;
		run->end.wrong += r.wrong != BB_ABSENT && r.wrong > 0;
		status = bb_sinks_record(&run->sinks, &bb_record_hybrid, &r);
	}
	return status;
}

/* *MEAN = seconds of a step, over all ranks. */
static bb_status gather(struct session *s, struct heard *mean)
{
	const int n = s->run->world.nranks;
	struct heard mine = s->heard;
	const struct heard *of;
	const void *all;
	bb_status status;

	for (size_t i = 0; i < KINDS; i++)
		mine.seconds[i] /= mine.steps > 0 ? mine.steps : 1;
	status = bb_crew_gather(s->driver, &mine, sizeof(mine), &all);
	of = all;
	*mean = (struct heard){.steps = 0};
	for (int r = 0; r < n && status == BB_OK; r++)
		for (size_t i = 0; i < KINDS; i++)
			mean->seconds[i] += of[r].seconds[i] / n;
	return status;
}

bb_status bb_hybrid_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct session s = {.hybrid = run->own,
			    .run = run,
			    .driver = driver,
			    .backend = run->options.backend,
			    .trials = {.run = run, .driver = driver},
			    .wrong = BB_ABSENT,
			    .error = &run->error};
	struct heard mean;
	bb_status status = open_session(&s);

	if (status == BB_OK)
		status = bb_trials_measure(&s.trials);
	if (status == BB_OK)
		status = gather(&s, &mean);
	if (status == BB_OK && bb_driver_leads(driver))
		status = deliver(&s, &mean);
	/* Nobody lets go of what others may still read. */
	status = status == BB_OK ? bb_crew_barrier(driver) : status;
	if (status != BB_OK)
		bb_crew_abandon(driver);
	else if (s.memory)
		s.backend->release(driver->handle, s.memory, s.bytes);
	close_session(&s);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
