/*
 * drive.c - what every driver does: one stage after the other, each from the same start;
 * timed, its memory measured, its result looked at.
 */
#include "core/file.h"
#include "harness/measure/play.h"
#include "memory/zero/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what the system says -------------------------------------------------------------------- */

/* Bytes that are taken: of the host by this process, of GPUs by anybody. */
static int64_t system_bytes(const struct bb_zero_session *s)
{
	const struct bb_backend *backend = s->run->options.backend;
	long long resident;
	char statm[128];

	if (backend->capabilities & BB_CAP_FREE_COST)
		return BB_ABSENT;
	if (backend->capabilities & BB_CAP_GPU)
		return -(int64_t)backend->memory_available(s->run->context);
	if (!bb_kernel_line("/proc/self/statm", statm, sizeof(statm)) ||
	    sscanf(statm, "%*d %lld", &resident) != 1)
		return BB_ABSENT;
	return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* When no rank of the process takes or gives any. */
static bb_status look_at_system(struct bb_zero_session *s, int64_t *bytes)
{
	bb_status status = bb_crew_barrier(s->driver);

	*bytes = system_bytes(s);
	return status == BB_OK ? bb_crew_barrier(s->driver) : status;
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
		return bb_fail(error, BB_EINTERNAL, "out of memory for the layers of a rehearsal");
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
				 .run = s->run,
				 .driver = s->driver,
				 .blocks = &s->blocks,
				 .stage = stage,
				 .rank = s->zero->alone ? (int)s->zero->asked.as_rank
							: s->driver->rank};
	bb_status status;

	if (s->run->options.backend->capabilities & BB_CAP_FREE_COST)
		return BB_OK;
	BB_TRY(status, make_small(s->zero, &small, &s->run->error), out);
	BB_TRY(status, bb_zero_rank_open(&z), out);
	BB_TRY(status, z.backend->barrier(s->driver->world), out);
	BB_TRY(status, bb_zero_step(&z), out);
	status = bb_crew_barrier(s->driver);
out:
	if (status != BB_OK && !*z.objection)
		bb_crew_abandon(s->driver);
	bb_zero_rank_close(&z);
	bb_zero_units_free(&small.units);
	/* A stage that cannot be run says so itself. */
	return status == BB_EUNSUPPORTED && *z.objection ? BB_OK : status;
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* The step took as long as the last rank needed. */
static bb_status agree_on_times(struct bb_zero_session *s, struct bb_zero_measured *m)
{
	const size_t n = m->timed;
	const void *all;
	bb_status status;

	if (s->zero->alone)
		return BB_OK;
	for (size_t i = 0; i < n; i++)
		m->scratch[i] = m->times[i].step;
	status = bb_crew_gather(s->driver, &bb_payload_seconds, m->scratch, n, &all);
	for (int r = 0; r < s->run->world.nranks && status == BB_OK; r++)
		for (size_t i = 0; i < n; i++) {
			const double theirs = ((const double *)all)[(size_t)r * n + i];

			m->times[i].step = theirs > m->times[i].step ? theirs : m->times[i].step;
		}
	return status;
}

static bb_status play_steps(struct bb_zero_session *s, struct bb_zero_rank *z,
			    struct bb_zero_measured *m)
{
	struct bb_progress *progress = s->driver->progress;
	struct bb_group *world = s->driver->world;
	const double faultless = bb_faultless_now(z->backend, world);
	const double start = z->backend->now(s->driver->handle);
	bb_status status = BB_OK;

	atomic_fetch_add_explicit(&progress->entered, 1, memory_order_relaxed);
	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	for (int64_t i = 0; i < s->steps && status == BB_OK; i++) {
		const int64_t skipped = z->scale.skipped;

		status = z->backend->barrier(world);
		if (status == BB_OK)
			status = bb_zero_step(z);
		if (i >= s->run->options.warmup_iters && z->scale.skipped == skipped)
			m->times[m->timed++] = z->times;
	}
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	if (bb_driver_leads(s->driver))
		bb_run_add_faulted(s->run, z->backend->now(s->driver->handle) - start,
				   bb_faultless_now(z->backend, world) - faultless);
	return status;
}

static bb_status tell_refusal(const struct bb_zero_session *s, int stage, const char *reason)
{
	struct bb_skip_record skip;
	char name[32];

	if (!bb_driver_leads(s->driver))
		return BB_OK;
	snprintf(name, sizeof(name), "stage %d", stage);
	bb_record_init(&bb_record_skip, &skip);
	skip.collective = name;
	skip.dtype = bb_dtype_name(s->zero->asked.dtype);
	skip.reason = reason;
	s->run->end.skipped++;
	return bb_sinks_record(&s->run->sinks, &bb_record_skip, &skip);
}

static bb_status measure(struct bb_zero_session *s, struct bb_zero_rank *z,
			 struct bb_zero_measured *m)
{
	bb_status status;

	m->times = calloc((size_t)s->steps, sizeof(*m->times));
	m->scratch = calloc((size_t)s->steps, sizeof(*m->scratch));
	if (!m->times || !m->scratch)
		return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for times");
	BB_TRY(status, look_at_system(s, &m->system_at_first), out);
	BB_TRY(status, rehearse(s, z->stage), out);
	BB_TRY(status, look_at_system(s, &m->system_before), out);
	BB_TRY(status, bb_zero_rank_open(z), out);
	BB_TRY(status, play_steps(s, z, m), out);
	BB_TRY(status, look_at_system(s, &m->system_after), out);
	BB_TRY(status, agree_on_times(s, m), out);
	BB_TRY(status, bb_zero_look_at_result(s, z, m), out);
	if (bb_driver_leads(s->driver))
		status = bb_zero_deliver(s, z, m);
out:
	return status;
}

static bb_status run_stage(struct bb_zero_session *s, int stage)
{
	const struct bb_fault *fault = &s->run->options.fault;
	struct bb_zero_rank z = {.zero = s->zero,
				 .run = s->run,
				 .driver = s->driver,
				 .blocks = &s->blocks,
				 .stage = stage,
				 .rank = s->zero->alone ? (int)s->zero->asked.as_rank
							: s->driver->rank};
	struct bb_zero_measured m = {0};
	char what[BB_WHAT_TEXT];
	bb_status status;

	if (s->zero->skips[stage])
		return tell_refusal(s, stage, s->zero->skips[stage]);
	snprintf(what, sizeof(what), "ZeRO stage %d of %.32s", stage, s->zero->asked.model_text);
	if (s->driver->local == 0)
		bb_crew_deadline(s->driver, what);
	if (bb_driver_leads(s->driver))
		bb_ticker_show(&s->run->ticker, what, 0);
	if (fault->kind == BB_FAULT_DIE && fault->rank == s->driver->rank)
		return BB_ETIMEOUT; /* leaves without a word, as a killed process would */
	status = measure(s, &z, &m);
	if (status == BB_EUNSUPPORTED && *z.objection)
		status = tell_refusal(s, stage, z.objection);
	/* Nobody lets go of what others may still read. */
	if (status == BB_OK)
		status = bb_crew_barrier(s->driver);
	if (status != BB_OK)
		bb_crew_abandon(s->driver);
	bb_zero_rank_close(&z);
	free(m.times);
	free(m.scratch);
	if (bb_driver_leads(s->driver))
		bb_ticker_step(&s->run->ticker, 0);
	return status;
}

/* Alone: once to take everything, and once with all of it there. Else as many as asked for, and one
   more in place of a timed one that is skipped. */
static int64_t steps_of(const struct bb_zero_session *s)
{
	const int64_t warm = s->run->options.warmup_iters, all = warm + s->zero->asked.iters;
	const int64_t overflow = bb_zero_has_data(s) ? s->zero->data.overflow : 0;

	return s->zero->alone ? 2 : all + (overflow > warm && overflow <= all);
}

bb_status bb_zero_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct bb_zero_session s = {.zero = run->own, .run = run, .driver = driver};
	bb_status status;

	s.steps = steps_of(&s);
	BB_TRY(status, bb_run_attend(run, driver, NULL, &s.world), out);
	BB_TRY(status, bb_zero_blocks_open(&s.blocks, &run->error), out);
	if (bb_driver_leads(driver))
		bb_ticker_start(&run->ticker, BB_ZERO_STAGES, 0);
	BB_TRY(status, bb_zero_open_reference(&s), out);
	BB_TRY(status, bb_run_begin(run, driver, NAN), out);
	for (int stage = 0; stage < BB_ZERO_STAGES; stage++)
		if (s.zero->asked.stages >> stage & 1)
			BB_TRY(status, run_stage(&s, stage), out);
	if (bb_driver_leads(driver) && run->end.results == 0)
		status = bb_fail(&run->error, BB_EUNSUPPORTED,
				 "none of the stages can be run so: see the skipped ones");
out:
	if (status != BB_OK)
		bb_crew_abandon(driver);
	if (s.has_reference)
		bb_zero_reference_close(&s.reference);
	bb_zero_blocks_close(&s.blocks);
	run->options.backend->group_close(s.world);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
