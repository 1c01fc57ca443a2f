/*
 * drive.c - the experiment: one stage after the other, each from the same start; timed, its memory
 * measured, its result looked at.
 */
#include "core/file.h"
#include "memory/zero/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what the system says -------------------------------------------------------------------- */

/* Bytes that are taken: of the host by this process, of GPUs by anybody. */
static int64_t system_bytes(const struct bb_zero_session *s)
{
	const struct bb_backend *backend = s->engine.run->options.backend;
	long long resident;
	char statm[128];

	if (!backend->has_data)
		return BB_ABSENT;
	if (backend->gpu)
		return -(int64_t)backend->memory_available(s->engine.run->context);
	if (!bb_kernel_line("/proc/self/statm", statm, sizeof(statm)) ||
	    sscanf(statm, "%*d %lld", &resident) != 1)
		return BB_ABSENT;
	return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* When no rank of the process takes or gives any. */
static bb_status look_at_system(struct bb_zero_session *s, int64_t *bytes)
{
	bb_status status = bb_crew_barrier(s->engine.driver);

	*bytes = system_bytes(s);
	return status == BB_OK ? bb_crew_barrier(s->engine.driver) : status;
}

/* ---- before it ------------------------------------------------------------------------------- */

/* Layers as many as ZERO's, and no larger than what is worked on at a time. */
static bb_status make_small(const struct bb_zero *zero, struct bb_zero *small,
			    struct bb_error *error)
{
	const uint64_t most = BB_ZERO_BLOCK * (uint64_t)(zero->alone ? 1 : zero->nranks);
	struct bb_zero_units *units = &small->units;

	*small = *zero;
	small->asked.accumulate = small->data.microbatches = 1;
	small->data.overflow = 0;
	small->forward = small->backward = (struct bb_zero_pass){0, 0};
	*units = (struct bb_zero_units){.list = calloc(zero->units.n, sizeof(*units->list)),
					.n = zero->units.n};
	if (!units->list)
		return bb_no_memory(error, "the layers of a rehearsal");
	for (size_t u = 0; u < units->n; u++) {
		units->list[u] = zero->units.list[u];
		units->list[u].first = units->elements;
		if (units->list[u].elements > most)
			units->list[u].elements = most;
		units->elements += units->list[u].elements;
	}
	small->data.elements = units->elements;
	return BB_OK;
}

/*
 * What a process takes whatever the size of the model (code that runs for the first time, stacks,
 * what collectives keep) is taken by a step with small layers, so that by how much it then grows is
 * what the model takes. Collective.
 */
static bb_status rehearse(struct bb_zero_session *s, int stage)
{
	struct bb_zero small = {.nranks = 0};
	struct bb_zero_rank z = {.zero = &small,
				 .run = s->engine.run,
				 .driver = s->engine.driver,
				 .blocks = &s->blocks,
				 .stage = stage,
				 .rank = s->zero->alone ? (int)s->zero->asked.as_rank
							: s->engine.driver->rank};
	bb_status status;

	if (!s->engine.backend->has_data)
		return BB_OK;
	BB_TRY(status, make_small(s->zero, &small, &s->engine.run->error), out);
	BB_TRY(status, bb_zero_rank_open(&z), out);
	BB_TRY(status, z.backend->barrier(s->engine.driver->world), out);
	BB_TRY(status, bb_zero_step(&z), out);
	status = bb_crew_barrier(s->engine.driver);
out:
	if (status != BB_OK && !*z.objection)
		bb_crew_abandon(s->engine.driver);
	bb_zero_rank_close(&z);
	bb_zero_units_free(&small.units);
	/* A stage that cannot be run says so itself. */
	return status == BB_EUNSUPPORTED && *z.objection ? BB_OK : status;
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* The step took as long as the last rank needed. */
static bb_status agree_on_times(struct bb_zero_session *s, struct bb_zero_measured *m)
{
	bb_status status;

	if (s->zero->alone)
		return BB_OK;
	for (size_t i = 0; i < m->timed; i++)
		m->scratch[i] = m->times[i].step;
	status = bb_engine_slowest(&s->engine, m->scratch, m->timed);
	for (size_t i = 0; i < m->timed && status == BB_OK; i++)
		m->times[i].step = m->scratch[i];
	return status;
}

/* A stage's steps on one rank. */
struct steps {
	struct bb_zero_session *s;
	struct bb_zero_rank *z;
	struct bb_zero_measured *m;
	int64_t skipped; /* by the loss scaler, before this step */
};

static bb_status zero_ready(void *own)
{
	struct steps *t = own;

	t->skipped = t->z->scale.skipped;
	return t->z->backend->barrier(t->s->engine.driver->world);
}

static bb_status zero_operate(void *own, int64_t sample)
{
	return bb_zero_step(((struct steps *)own)->z);
}

/* A step that was skipped takes less. */
static void zero_heard(void *own, int64_t sample, double seconds)
{
	struct steps *t = own;

	if (t->z->scale.skipped == t->skipped)
		t->m->times[t->m->timed++] = t->z->times;
}

static bb_status time_steps(struct bb_zero_session *s, struct bb_zero_rank *z,
			    struct bb_zero_measured *m)
{
	struct steps t = {.s = s, .z = z, .m = m};
	const int64_t warm = s->zero->alone ? 0 : s->engine.run->options.warmup_iters;
	const struct bb_sampling sampling = {.ready = zero_ready,
					     .operate = zero_operate,
					     .heard = zero_heard,
					     .own = &t,
					     .warm = warm,
					     .samples = s->steps - warm,
					     .operations = 1};
	struct bb_group *world = s->engine.driver->world;
	const double faultless = bb_faultless_now(z->backend, world);
	const double start = z->backend->now(s->engine.driver->handle);
	const bb_status status = bb_engine_sample(&s->engine, &sampling);

	if (bb_driver_leads(s->engine.driver))
		bb_run_add_faulted(s->engine.run, z->backend->now(s->engine.driver->handle) - start,
				   bb_faultless_now(z->backend, world) - faultless);
	return status;
}

static bb_status tell_refusal(struct bb_zero_session *s, int stage, const char *reason)
{
	struct bb_skip_record skip;
	char name[32];

	snprintf(name, sizeof(name), "stage %d", stage);
	bb_record_init(&bb_record_skip, &skip);
	skip.collective = name;
	skip.dtype = bb_dtype_name(s->zero->asked.dtype);
	skip.reason = reason;
	return bb_engine_skip(&s->engine, &skip);
}

static bb_status measure(struct bb_zero_session *s, struct bb_zero_rank *z,
			 struct bb_zero_measured *m)
{
	bb_status status;

	m->times = calloc((size_t)s->steps, sizeof(*m->times));
	m->scratch = calloc((size_t)s->steps, sizeof(*m->scratch));
	if (!m->times || !m->scratch)
		return bb_no_memory(&s->engine.run->error, "times");
	BB_TRY(status, look_at_system(s, &m->system_at_first), out);
	BB_TRY(status, rehearse(s, z->stage), out);
	BB_TRY(status, look_at_system(s, &m->system_before), out);
	BB_TRY(status, bb_zero_rank_open(z), out);
	BB_TRY(status, time_steps(s, z, m), out);
	BB_TRY(status, look_at_system(s, &m->system_after), out);
	BB_TRY(status, agree_on_times(s, m), out);
	BB_TRY(status, bb_zero_look_at_result(s, z, m), out);
	if (bb_driver_leads(s->engine.driver))
		status = bb_zero_deliver(s, z, m);
out:
	return status;
}

static bb_status run_stage(struct bb_zero_session *s, int stage)
{
	struct bb_zero_rank z = {.zero = s->zero,
				 .run = s->engine.run,
				 .driver = s->engine.driver,
				 .blocks = &s->blocks,
				 .stage = stage,
				 .rank = s->zero->alone ? (int)s->zero->asked.as_rank
							: s->engine.driver->rank};
	struct bb_zero_measured m = {0};
	char what[BB_WHAT_TEXT];
	bb_status status;

	if (s->zero->skips[stage])
		return tell_refusal(s, stage, s->zero->skips[stage]);
	snprintf(what, sizeof(what), "ZeRO stage %d of %.32s", stage, s->zero->asked.model_text);
	status = bb_engine_begin(&s->engine, what);
	if (status != BB_OK)
		return status;
	status = measure(s, &z, &m);
	if (status == BB_EUNSUPPORTED && *z.objection)
		status = tell_refusal(s, stage, z.objection);
	/* Nobody lets go of what others may still read. */
	if (status == BB_OK)
		status = bb_crew_barrier(s->engine.driver);
	if (status != BB_OK)
		bb_crew_abandon(s->engine.driver);
	bb_zero_rank_close(&z);
	free(m.times);
	free(m.scratch);
	if (bb_driver_leads(s->engine.driver))
		bb_ticker_step(&s->engine.run->ticker, 0);
	return status;
}

/* A rank alone: one step that allocates everything and one that finds it allocated. Else the
   requested steps, and one more where a timed one overflows. */
static int64_t steps_of(const struct bb_zero_session *s)
{
	const int64_t warm = s->engine.run->options.warmup_iters, all = warm + s->zero->asked.iters;
	const int64_t overflow = bb_zero_has_data(s) ? s->zero->data.overflow : 0;

	return s->zero->alone ? 2 : all + (overflow > warm && overflow <= all);
}

static bb_status zero_open(struct bb_engine *engine)
{
	struct bb_zero_session *s = (struct bb_zero_session *)engine;
	bb_status status;

	s->zero = engine->run->own;
	s->steps = steps_of(s);
	status = bb_zero_blocks_open(&s->blocks, &engine->run->error);
	if (bb_engine_leads(engine))
		bb_ticker_start(&engine->run->ticker, BB_ZERO_STAGES, 0);
	return status == BB_OK ? bb_zero_open_reference(s) : status;
}

static bb_status zero_run(struct bb_engine *engine)
{
	struct bb_zero_session *s = (struct bb_zero_session *)engine;
	bb_status status = BB_OK;

	for (int stage = 0; stage < BB_ZERO_STAGES && status == BB_OK; stage++)
		if (s->zero->asked.stages >> stage & 1)
			status = run_stage(s, stage);
	return status;
}

static bb_status zero_deliver(struct bb_engine *engine)
{
	if (engine->run->end.results > 0)
		return BB_OK;
	return bb_fail(&engine->run->error, BB_EUNSUPPORTED,
		       "no stage can run with these options: see the skipped ones");
}

static void zero_close(struct bb_engine *engine)
{
	struct bb_zero_session *s = (struct bb_zero_session *)engine;

	if (s->has_reference)
		bb_zero_reference_close(&s->reference);
	bb_zero_blocks_close(&s->blocks);
}

const struct bb_experiment bb_zero_experiment = {
	.bytes = sizeof(struct bb_zero_session),
	.open = zero_open,
	.run = zero_run,
	.deliver = zero_deliver,
	.close = zero_close,
};
