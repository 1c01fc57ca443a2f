/*
 * barrier.c - barriers timed one by one.
 */
#include "collectives/barrier.h"

#include "core/clock.h"
#include "core/units.h"
#include "harness/measure/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64 /* between a rank's buffers */

/* ---- algorithms --------------------------------------------------------------- */

/* Numbers of --algo: the backend's barrier, then all-reduces. */
enum { BARRIER, AUTO, SCHEDULES };

static const struct bb_algorithm *barrier_schedule(int index)
{
	for (int i = 0; bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == &bb_all_reduce && index-- == SCHEDULES)
			return bb_algorithms[i];
	return NULL;
}

static const char *barrier_algorithm(int index)
{
	const struct bb_algorithm *schedule = barrier_schedule(index);

	return index == BARRIER ? "barrier"
	       : index == AUTO  ? "auto"
	       : schedule       ? schedule->name
				: NULL;
}

#define BB_OPTIONS struct bb_barrier_options
const struct bb_option bb_barrier_rows[] = BB_OPTION_ROWS(BB_BARRIER_OPTIONS);

static void barrier_list(struct bb_strbuf *out)
{
	bb_strbuf_add(out, "barriers (--algo):\n");
	for (int index = 0; barrier_algorithm(index); index++)
		bb_strbuf_addf(out, "    %s\n", barrier_algorithm(index));
}

/* ---- the experiment ---------------------------------------------------------------------- */

/* A driver's state. */
struct barrier_session {
	struct bb_engine engine;
	const struct bb_patterns *patterns;
	struct bb_call call; /* its collective is NULL: the backend's own barrier */
	size_t tmp;          /* temporary bytes of the call */
	char *memory;        /* that the call works in */
	double *samples;
	size_t n, most_samples;
};

static bb_status barrier_open(struct bb_engine *engine)
{
	struct barrier_session *s = (struct barrier_session *)engine;
	const struct bb_options *o = &engine->run->options;
	const size_t rounds = o->precision != 0 ? BB_ENGINE_MOST_ROUNDS : 1;

	s->most_samples = (size_t)o->iters * rounds;
	s->samples = calloc(s->most_samples, sizeof(*s->samples));
	if (!s->samples)
		return bb_no_memory(&engine->run->error, "samples");
	return bb_engine_patterns(engine, BB_INT64, BB_SUM, engine->run->world.nranks,
				  &s->patterns);
}

/* Settle the call. OBJECTION = why it cannot be made here. Collective. */
static bb_status barrier_settle(struct barrier_session *s, int index,
				char objection[BB_OBJECTION_TEXT])
{
	const struct bb_backend *backend = s->engine.backend;
	const struct bb_choice choice = {.schedule = barrier_schedule(index)};
	struct bb_call *call = &s->call;
	const char *reason = NULL;
	bb_status status = BB_OK;

	*call = (struct bb_call){.collective = index == BARRIER ? NULL : &bb_all_reduce,
				 .dtype = BB_INT64,
				 .op = BB_SUM,
				 .shape = {.nranks = s->engine.run->world.nranks, .count = 1}};
	if (index == BARRIER && bb_engine_is_virtual(&s->engine))
		reason = "clocks of virtual ranks meet without messages, in no time";
	if (call->collective)
		status = bb_call_settle(backend, s->engine.world, &choice, call, &s->tmp, &reason);
	if (status == BB_EUNSUPPORTED)
		status = BB_OK;
	if (call->collective && status == BB_OK && !reason)
		status = bb_call_ready(backend, s->engine.world, call, &reason);
	snprintf(objection, BB_OBJECTION_TEXT, "%s", reason ? reason : "");
	return status;
}

/* Writes the inputs. The output holds this rank's input at first, which is not the sum. */
static bb_status barrier_fill(struct barrier_session *s)
{
	struct bb_engine *e = &s->engine;
	struct bb_call *call = &s->call;
	bb_status status;

	BB_TRY(status, bb_engine_alloc(e, 2 * LINE + s->tmp, (void **)&s->memory), out);
	if (!s->memory)
		return BB_OK;
	call->in = s->memory;
	call->out = s->memory + LINE;
	call->tmp = s->memory + 2 * LINE;
	BB_TRY(status, bb_engine_fill(e, s->memory, s->patterns, e->driver->rank, 0, 1), out);
	BB_TRY(status, bb_engine_fill(e, call->out, s->patterns, e->driver->rank, 0, 1), out);
	status = e->backend->finish(e->rank, NULL);
out:
	return status;
}

static bb_status barrier_verify(struct barrier_session *s, int64_t *wrong)
{
	const struct bb_call *call = &s->call;
	uint64_t found = 0;
	bb_status status;

	*wrong = BB_ABSENT;
	if (!call->collective || !bb_engine_checks(&s->engine))
		return BB_OK;
	BB_TRY(status, bb_engine_corrupt(&s->engine, call->out), out);
	BB_TRY(status,
	       bb_engine_verify(&s->engine, call->out, s->patterns, BB_REDUCED, 0, 1, &found), out);
	BB_TRY(status, bb_engine_sum(&s->engine, &found, 1), out);
	*wrong = (int64_t)found;
out:
	return status;
}

static bb_status barrier_meet(void *own)
{
	const struct bb_engine *engine = own;

	return engine->backend->barrier(engine->world);
}

static bb_status barrier_operate(void *own, int64_t sample)
{
	struct barrier_session *s = own;

	return s->call.collective ? s->engine.backend->collective(s->engine.world, NULL, &s->call)
				  : barrier_meet(own);
}

/* A barrier leaves nothing in the queue. */
static bb_status barrier_finish(void *own)
{
	struct barrier_session *s = own;

	return s->call.collective ? s->engine.backend->finish(s->engine.rank, NULL) : BB_OK;
}

static bb_status barrier_heard(void *own, int64_t sample, double begin, double seconds)
{
	struct barrier_session *s = own;

	s->samples[s->n++] = seconds;
	return BB_OK;
}

/* Times *COUNT barriers more, each on the rank that it took longest; see bb_engine_until_precise.
 */
static bb_status barrier_time(void *own, size_t *count, bool *enough)
{
	struct barrier_session *s = own;
	const struct bb_options *o = s->engine.options;
	const size_t room = s->most_samples - s->n;
	double *const mine = s->samples + s->n;
	const struct bb_sampling sampling = {.ready = barrier_meet,
					     .operate = barrier_operate,
					     .finish = barrier_finish,
					     .heard = barrier_heard,
					     .own = s,
					     .warm = s->n == 0 ? o->warmup_iters : 0,
					     .samples = (int64_t)(*count < room ? *count : room),
					     .operations = 1};
	bb_status status;

	*count = (size_t)sampling.samples;
	BB_TRY(status, bb_engine_sample(&s->engine, &sampling), out);
	BB_TRY(status, bb_engine_slowest(&s->engine, mine, *count), out);
	*enough =
		(bb_engine_is_precise(&s->engine, s->samples, s->n) && s->n >= (size_t)o->iters) ||
		s->n == s->most_samples;
out:
	return status;
}

static bb_status barrier_deliver(struct barrier_session *s, int index, const struct bb_stats *stats,
				 int64_t wrong)
{
	const struct bb_call *call = &s->call;
	struct bb_barrier_record r;

	if (!bb_engine_leads(&s->engine))
		return BB_OK;
	bb_record_init(&bb_record_barrier, &r);
	r.algorithm_asked = barrier_algorithm(index);
	r.algorithm = call->schedule ? call->schedule->name
		      : call->native ? call->native->name
				     : "barrier";
	r.nranks = s->engine.run->world.nranks;
	r.samples = (int64_t)stats->n;
	r.min_us = 1e6 * stats->min;
	r.p50_us = 1e6 * stats->p50;
	r.p95_us = 1e6 * stats->p95;
	r.p99_us = 1e6 * stats->p99;
	r.ci_low_us = 1e6 * stats->ci_low;
	r.ci_high_us = 1e6 * stats->ci_high;
	r.wrong = wrong;
	r.end_unix_s = bb_clock_unix();
	return bb_engine_deliver(&s->engine, &bb_record_barrier, &r, wrong);
}

static bb_status barrier_measure(struct barrier_session *s, int index)
{
	char objection[BB_OBJECTION_TEXT], what[BB_WHAT_TEXT];
	size_t all = (size_t)s->engine.options->iters;
	bool enough;
	struct bb_stats stats;
	int64_t wrong;
	bb_status status;

	snprintf(what, sizeof(what), "barrier by %s", barrier_algorithm(index));
	BB_TRY(status, bb_engine_begin(&s->engine, what), out);
	BB_TRY(status, barrier_settle(s, index, objection), out);
	BB_TRY(status, bb_crew_hear(s->engine.driver, objection), out);
	if (*objection)
		return bb_engine_skip_subject(&s->engine, "barrier", barrier_algorithm(index), NULL,
					      objection);
	if (s->call.collective)
		BB_TRY(status, barrier_fill(s), out);
	BB_TRY(status, bb_crew_barrier(s->engine.driver), out);
	s->n = 0;
	if (s->engine.options->precision != 0)
		BB_TRY(status, bb_engine_until_precise(&s->engine, barrier_time, s), out);
	else
		BB_TRY(status, barrier_time(s, &all, &enough), out);
	bb_stats_compute(s->samples, s->n, &stats);
	BB_TRY(status, barrier_verify(s, &wrong), out);
	bb_engine_release(&s->engine, s->memory);
	s->memory = NULL;
	status = barrier_deliver(s, index, &stats, wrong);
out:
	return status;
}

static bb_status barrier_run(struct bb_engine *engine)
{
	const struct bb_barrier_options *o = engine->run->own;
	bb_status status = BB_OK;

	for (size_t i = 0; i < o->algorithms.n && status == BB_OK; i++)
		status = barrier_measure((struct barrier_session *)engine, o->algorithms.list[i]);
	return status;
}

static bb_status barrier_conclude(struct bb_engine *engine)
{
	return engine->run->end.results > 0 ? BB_OK
					    : bb_fail(&engine->run->error, BB_EUNSUPPORTED,
						      "none of the barriers can be measured here");
}

static void barrier_close(struct bb_engine *engine)
{
	free(((struct barrier_session *)engine)->samples);
}

static const struct bb_experiment experiment = {
	.bytes = sizeof(struct barrier_session),
	.open = barrier_open,
	.run = barrier_run,
	.deliver = barrier_conclude,
	.close = barrier_close,
};

/* ---- the benchmark ----------------------------------------------------------------------- */

static void barrier_name(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_barrier_record *r = record;

	snprintf(text, BB_CELL_TEXT, strcmp(r->algorithm_asked, "auto") ? "%s" : "%s: %s",
		 r->algorithm_asked, r->algorithm);
}

static void barrier_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_barrier_record *r = record;

	bb_strbuf_addf(out, "# Barrier of %lld rank%s; a sample is one barrier\n",
		       (long long)r->nranks, bb_plural(r->nranks));
}

#define BB_RECORD bb_barrier_record
BB_RECORD_KIND(bb_record_barrier, BB_BARRIER_FIELDS, "barrier", "One kind of barrier, timed.",
	       .about = barrier_about);

const struct bb_benchmark bb_barrier_benchmark = {
	.brief = "Barriers: how long all ranks need to meet.",
	.examples = {"-g 4 -n 100 --precision 5% --max-time 1",
		     "--backend sim --cluster hgx-h100:16"},
	.own_bytes = sizeof(struct bb_barrier_options),
	.options = bb_barrier_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "a barrier has no size; leave it out"}},
	.list = barrier_list,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_barrier,
	.experiment = &experiment,
};
