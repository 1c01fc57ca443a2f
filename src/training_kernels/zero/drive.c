/*
 * drive.c - the experiment: one stage after the other from the same initial model, timed, with its
 * memory measured and its results verified.
 */
#include "core/file.h"
#include "training_kernels/zero/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- memory of the system -------------------------------------------------------------------- */

/* Bytes in use: of the host by this process, of GPUs by anybody. */
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

/* Measure while no rank of the process allocates or frees memory. */
static bb_status measure_system(struct bb_zero_session *s, int64_t *bytes)
{
	bb_status status = bb_crew_barrier(s->engine.driver);

	*bytes = system_bytes(s);
	return status == BB_OK ? bb_crew_barrier(s->engine.driver) : status;
}

/* ---- rehearsal ------------------------------------------------------------------------------- */

static struct bb_zero_rank zero_rank_of(struct bb_zero_session *s, const struct bb_zero *zero,
					int stage)
{
	return (struct bb_zero_rank){.zero = zero,
				     .run = s->engine.run,
				     .driver = s->engine.driver,
				     .blocks = &s->blocks,
				     .stage = stage,
				     .rank = zero->alone ? (int)zero->options.as_rank
							 : s->engine.driver->rank};
}

/* Set SMALL to a copy of ZERO whose layers have at most a block per rank. */
static bb_status shrink_layers(const struct bb_zero *zero, struct bb_zero *small,
			       struct bb_error *error)
{
	const uint64_t most = BB_ZERO_BLOCK * (uint64_t)(zero->alone ? 1 : zero->nranks);
	struct bb_zero_units *units = &small->units;

	*small = *zero;
	small->options.accumulate = small->data.microbatches = 1;
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
 * Run a step with small layers. It allocates what does not depend on the size of the model (code
 * that runs for the first time, stacks, buffers of collectives), so that later growth is due to the
 * model. Collective.
 */
static bb_status rehearse(struct bb_zero_session *s, int stage)
{
	struct bb_zero small = {.nranks = 0};
	struct bb_zero_rank z = zero_rank_of(s, &small, stage);
	bb_status status;

	if (!s->engine.backend->has_data)
		return BB_OK;
	BB_TRY(status, shrink_layers(s->zero, &small, &s->engine.run->error), out);
	BB_TRY(status, bb_zero_rank_open(&z), out);
	BB_TRY(status, z.backend->barrier(s->engine.driver->world), out);
	BB_TRY(status, bb_zero_step(&z), out);
	status = bb_crew_barrier(s->engine.driver);
out:
	if (status != BB_OK && !*z.objection)
		bb_crew_abandon(s->engine.driver);
	bb_zero_rank_close(&z);
	bb_zero_units_free(&small.units);
	/* The stage itself then reports that it cannot run. */
	return status == BB_EUNSUPPORTED && *z.objection ? BB_OK : status;
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* The duration of a step is that of the slowest rank. */
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

/* The steps of a stage on one rank. */
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

/* A skipped step takes less time and does not count. */
static bb_status zero_heard(void *own, int64_t sample, double begin, double seconds)
{
	struct steps *t = own;

	if (t->z->scale.skipped == t->skipped)
		t->m->times[t->m->timed++] = t->z->times;
	return BB_OK;
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

static bb_status skip_stage(struct bb_zero_session *s, int stage, const char *reason)
{
	struct bb_skip_record skip;
	char name[32];

	snprintf(name, sizeof(name), "stage %d", stage);
	bb_record_init(&bb_record_skip, &skip);
	skip.collective = name;
	skip.dtype = bb_dtype_name(s->zero->options.dtype);
	skip.reason = reason;
	return bb_engine_skip(&s->engine, &skip);
}

static bb_status measure_stage(struct bb_zero_session *s, struct bb_zero_rank *z,
			       struct bb_zero_measured *m)
{
	bb_status status;

	m->times = calloc((size_t)s->steps, sizeof(*m->times));
	m->scratch = calloc((size_t)s->steps, sizeof(*m->scratch));
	if (!m->times || !m->scratch)
		return bb_no_memory(&s->engine.run->error, "times");
	BB_TRY(status, measure_system(s, &m->system_at_first), out);
	BB_TRY(status, rehearse(s, z->stage), out);
	BB_TRY(status, measure_system(s, &m->system_before), out);
	BB_TRY(status, bb_zero_rank_open(z), out);
	BB_TRY(status, time_steps(s, z, m), out);
	BB_TRY(status, measure_system(s, &m->system_after), out);
	BB_TRY(status, agree_on_times(s, m), out);
	BB_TRY(status, bb_zero_verify(s, z, m), out);
	if (bb_driver_leads(s->engine.driver))
		status = bb_zero_deliver(s, z, m);
out:
	return status;
}

static bb_status run_stage(struct bb_zero_session *s, int stage)
{
	struct bb_zero_rank z = zero_rank_of(s, s->zero, stage);
	struct bb_zero_measured m = {0};
	char what[BB_WHAT_TEXT];
	bb_status status;

	if (s->zero->skips[stage])
		return skip_stage(s, stage, s->zero->skips[stage]);
	snprintf(what, sizeof(what), "ZeRO stage %d of %.32s", stage, s->zero->options.model_text);
	status = bb_engine_begin(&s->engine, what);
	if (status != BB_OK)
		return status;
	status = measure_stage(s, &z, &m);
	if (status == BB_EUNSUPPORTED && *z.objection)
		status = skip_stage(s, stage, z.objection);
	/* Other ranks may still read the memory of this one. */
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

/* Steps of a stage: the requested ones, and one more if a timed one overflows. A rank alone runs
   one that allocates everything, and one that reuses it. */
static int64_t steps_of(const struct bb_zero_session *s)
{
	const int64_t warm = s->engine.run->options.warmup_iters,
		      all = warm + s->zero->options.iters;
	const int64_t overflow =
		bb_zero_trains(s->zero, s->engine.run) ? s->zero->data.overflow : 0;

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
		if (s->zero->options.stages >> stage & 1)
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
