/*
 * zero_drive.c - what every driver does: one stage after the other, each from the same start;
 * timed, its memory measured, its result looked at.
 */
#include "core/clock.h"
#include "core/stats.h"
#include "memory/zero/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CHECKED (UINT64_C(1) << 22) /* elements that are trained once more, by one */
#define MOST_DRAWN (UINT64_C(1) << 30)   /* gradients of them, in all steps */
#define CHECKSUM_TEXT 17

struct session {
	struct bb_zero *zero;
	struct bb_run *run;
	struct bb_driver *driver;
	struct bb_group *world;
	struct bb_zero_reference reference;
	bool has_reference, has_checksum;
	uint64_t checksum; /* of the first stage */
	int64_t steps;     /* in all */
};

/* Of a stage, of this rank. */
struct measured {
	int64_t system_before, system_after; /* bytes; BB_ABSENT: not known */
	struct bb_zero_times *times;         /* [timed step]; owned */
	double *scratch;                     /* as many; owned */
	struct {
		uint64_t wrong, checksum;
	} sum; /* then of all ranks */
};

static bool has_data(const struct session *s)
{
	return (s->run->options.backend->capabilities & BB_CAP_DATA) && !s->zero->alone;
}

/* ---- what the system says -------------------------------------------------------------------- */

/* Bytes that are taken: of the host by this process, of GPUs by anybody. */
static int64_t system_bytes(const struct session *s)
{
	const struct bb_backend *backend = s->run->options.backend;
	long long all, resident = -1;
	FILE *file;

	if (backend->capabilities & BB_CAP_FREE_COST)
		return BB_ABSENT;
	if (backend->capabilities & BB_CAP_GPU)
		return -(int64_t)backend->memory_available(s->run->context);
	file = fopen("/proc/self/statm", "r");
	if (file && fscanf(file, "%lld %lld", &all, &resident) != 2)
		resident = -1;
	if (file)
		fclose(file);
	return resident < 0 ? BB_ABSENT : (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* When no rank of the process takes or gives any. */
static bb_status look_at_system(struct session *s, int64_t *bytes)
{
	bb_status status = bb_crew_barrier(s->driver);

	*bytes = system_bytes(s);
	return status == BB_OK ? bb_crew_barrier(s->driver) : status;
}

/* ---- results --------------------------------------------------------------------------------- */

static bb_status open_reference(struct session *s)
{
	const struct bb_zero_data *d = &s->zero->data;
	const uint64_t drawn = d->elements * (uint64_t)d->nranks * (uint64_t)d->microbatches;
	bb_status status;

	if (!has_data(s) || s->run->options.check == 0 || d->elements > MOST_CHECKED ||
	    drawn > MOST_DRAWN / (uint64_t)s->steps)
		return BB_OK;
	status = bb_zero_reference_open(&s->reference, d, &s->zero->scale, &s->run->error);
	s->has_reference = status == BB_OK;
	for (int64_t step = 1; step <= s->steps && status == BB_OK; step++)
		bb_zero_reference_step(&s->reference, step);
	return status;
}

/* Make one byte wrong: proof that the check can fail. */
static bb_status corrupt(struct bb_zero_rank *z)
{
	const struct bb_fault *fault = &z->run->options.fault;
	char *const victim = z->parameters.memory + z->places.list[0].at;
	unsigned char byte;
	bb_status status;

	if (fault->kind != BB_FAULT_CORRUPT || fault->rank != z->driver->rank)
		return BB_OK;
	status = z->backend->copy(z->driver->handle, &byte, victim, 1);
	byte ^= 0x55;
	return status == BB_OK ? z->backend->copy(z->driver->handle, victim, &byte, 1) : status;
}

static uint64_t count_wrong(const void *got, const void *wanted, size_t size, size_t n)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += memcmp((const char *)got + i * size, (const char *)wanted + i * size,
				size) != 0;
	return wrong;
}

/* N elements FIRST … of the model, which are at PARAMETERS. OWN: this rank's to sum. */
static bb_status look_at_parameters(const struct session *s, struct bb_zero_rank *z, uint64_t first,
				    size_t n, char *parameters, bool own, struct measured *m)
{
	const size_t size = bb_zero_size(z);
	bb_status status = BB_OK;
	void *seen;

	for (size_t at = 0; at < n && status == BB_OK; at += BB_ZERO_BLOCK) {
		const size_t block = n - at < BB_ZERO_BLOCK ? n - at : BB_ZERO_BLOCK;

		status = bb_zero_see(z, 0, parameters + at * size, block * size, false, &seen);
		if (status == BB_OK && own)
			m->sum.checksum +=
				bb_zero_sum(z->zero->asked.dtype, first + at, block, seen);
		if (status == BB_OK && s->has_reference)
			m->sum.wrong += count_wrong(
				seen, s->reference.parameters + (first + at) * size, size, block);
	}
	return status;
}

static bb_status look_at_master(const struct session *s, struct bb_zero_rank *z, uint64_t first,
				size_t n, size_t at, struct measured *m)
{
	bb_status status = BB_OK;
	void *seen;

	for (size_t i = 0; i < n && status == BB_OK; i += BB_ZERO_BLOCK) {
		const size_t block = n - i < BB_ZERO_BLOCK ? n - i : BB_ZERO_BLOCK;

		status = bb_zero_see(z, 0, z->master.memory + (at + i) * sizeof(float),
				     block * sizeof(float), z->zero->asked.offload, &seen);
		if (status == BB_OK)
			m->sum.wrong += count_wrong(seen, s->reference.master + first + i,
						    sizeof(float), block);
	}
	return status;
}

/* All that this rank has of UNIT: its own part, which is summed, and beside it what it was given.
 */
static bb_status look_at_unit(const struct session *s, struct bb_zero_rank *z, size_t unit,
			      struct measured *m)
{
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = bb_zero_size(z);
	const uint64_t begin = p->mine < u->elements ? p->mine : u->elements;
	const uint64_t end = p->mine + p->part < u->elements ? p->mine + p->part : u->elements;
	const bool divided = z->stage == 3;
	char *const row = z->parameters.memory + (divided ? p->part_at : p->at) * size;
	bb_status status;

	BB_TRY(status,
	       look_at_parameters(s, z, u->first + begin, (size_t)(end - begin),
				  row + (divided ? 0 : begin * size), z->stage > 0 || z->rank == 0,
				  m),
	       out);
	if (!divided) {
		BB_TRY(status, look_at_parameters(s, z, u->first, (size_t)begin, row, false, m),
		       out);
		BB_TRY(status,
		       look_at_parameters(s, z, u->first + end, (size_t)(u->elements - end),
					  row + end * size, false, m),
		       out);
	}
	if (s->has_reference && z->master.memory)
		status = look_at_master(s, z, u->first + begin, (size_t)(end - begin),
					(size_t)p->part_at, m);
out:
	return status;
}

static bb_status look_at_result(struct session *s, struct bb_zero_rank *z, struct measured *m)
{
	bb_status status = BB_OK;
	const void *all;

	if (!has_data(s))
		return BB_OK;
	BB_TRY(status, corrupt(z), out);
	for (size_t u = 0; u < z->zero->units.n; u++)
		BB_TRY(status, look_at_unit(s, z, u, m), out);
	BB_TRY(status, bb_crew_gather(s->driver, &m->sum, sizeof(m->sum), &all), out);
	m->sum.wrong = m->sum.checksum = 0;
	for (int r = 0; r < s->run->world.nranks; r++) {
		uint64_t of[2];

		memcpy(of, (const char *)all + (size_t)r * sizeof(of), sizeof(of));
		m->sum.wrong += of[0];
		m->sum.checksum += of[1];
	}
	/* Without a reference the first stage is what the others must be like. */
	if (!s->has_checksum)
		s->checksum = m->sum.checksum;
	s->has_checksum = true;
	if (!s->has_reference)
		m->sum.wrong = m->sum.checksum != s->checksum;
out:
	return status;
}

/* ---- the record -------------------------------------------------------------------------------
 */

static double percent_off(double got, double wanted)
{
	return wanted > 0 ? 100 * (got - wanted) / wanted : NAN;
}

static void tell_subject(const struct session *s, const struct bb_zero_rank *z,
			 struct bb_zero_record *r)
{
	const struct bb_zero *zero = s->zero;

	r->model = zero->name;
	r->dtype = bb_dtype_name(zero->asked.dtype);
	r->algorithm = z->talks ? zero->asked.algo_text : NULL;
	r->overlap = zero->overlaps ? "on" : "off";
	r->nranks = zero->nranks;
	r->stage = z->stage;
	r->rank = z->rank;
	r->parameters = (int64_t)zero->units.elements;
	r->units = (int64_t)zero->units.n;
	r->padding = (int64_t)(z->places.whole - zero->units.elements);
	r->accumulate = zero->asked.accumulate;
	r->steps = z->step;
	r->offload = zero->asked.offload;
	r->alone = zero->alone;
}

static void tell_memory(const struct bb_zero_rank *z, struct bb_zero_record *r)
{
	const uint64_t n = z->stage == 0 ? 1 : (uint64_t)z->zero->nranks;
	const struct bb_states states =
		bb_states_of_rank(&z->zero->recipe, z->places.whole, 0, z->stage, n);
	const struct bb_books *peak = &z->ledger.peak, *last = &z->ledger.now;

	r->formula_parameters_bytes = (int64_t)states.parameters;
	r->formula_gradients_bytes = (int64_t)states.gradients;
	r->formula_optimizer_bytes = (int64_t)states.optimizer;
	r->formula_bytes = (int64_t)bb_states_sum(&states);
	r->parameters_bytes = (int64_t)peak->holds[BB_HOLD_PARAMETERS];
	r->gradients_bytes = (int64_t)peak->holds[BB_HOLD_GRADIENTS];
	r->optimizer_bytes = (int64_t)peak->holds[BB_HOLD_OPTIMIZER];
	r->communication_bytes = (int64_t)peak->holds[BB_HOLD_COMMUNICATION];
	r->held_bytes = (int64_t)bb_books_held(peak);
	r->fragmentation_bytes = (int64_t)bb_books_fragmentation(peak);
	r->reserved_bytes = (int64_t)peak->reserved;
	r->host_bytes = (int64_t)last->host;
	/* What stays, with what was offloaded. */
	r->states_error_percent = percent_off((double)(last->holds[BB_HOLD_PARAMETERS] +
						       last->holds[BB_HOLD_GRADIENTS] +
						       last->holds[BB_HOLD_OPTIMIZER] + last->host),
					      (double)r->formula_bytes);
	for (size_t i = 0; i < z->nmoments; i++) {
		const int64_t bytes = (int64_t)z->moments[i].peak;

		switch (z->moments[i].point) {
		case BB_ZERO_MODEL:
			r->model_bytes = bytes;
			break;
		case BB_ZERO_WRAPPED:
			r->wrapped_bytes = bytes;
			break;
		case BB_ZERO_BEFORE:
			r->before_bytes = bytes;
			break;
		case BB_ZERO_AFTER:
			r->after_bytes = bytes;
			break;
		default:
			break;
		}
	}
}

static void tell_system(const struct session *s, const struct bb_zero_rank *z,
			const struct measured *m, struct bb_zero_record *r)
{
	if (m->system_before == BB_ABSENT || m->system_after == BB_ABSENT)
		return;
	r->system_bytes = m->system_after - m->system_before;
	r->system_reserved_bytes = (int64_t)z->ledger.now.reserved * (int64_t)s->run->world.nlocal;
	r->system_error_percent =
		percent_off((double)r->system_bytes, (double)r->system_reserved_bytes);
}

static void tell_traffic(const struct session *s, const struct bb_zero_rank *z,
			 struct bb_zero_record *r)
{
	const size_t size = bb_zero_size(z);
	const struct bb_zero_units *units = &s->zero->units;
	uint64_t elements = 0;

	if (s->zero->alone)
		return;
	for (size_t u = 0; u < units->n; u++)
		elements +=
			bb_zero_volume(units->list[u].elements, z->stage, (uint64_t)s->zero->nranks,
				       (uint64_t)s->zero->asked.accumulate);
	r->wire_bytes = (int64_t)z->wire;
	r->formula_wire_bytes = (int64_t)(elements * size);
	r->wire_volumes = (double)z->wire / (double)(units->elements * size);
}

static double median_us(const struct measured *m, size_t n, size_t offset)
{
	struct bb_stats stats;

	for (size_t i = 0; i < n; i++)
		memcpy(&m->scratch[i], (const char *)&m->times[i] + offset, sizeof(double));
	bb_stats_compute(m->scratch, n, &stats);
	return 1e6 * stats.p50;
}

static void tell_time(const struct session *s, const struct measured *m, struct bb_zero_record *r)
{
	const size_t n = (size_t)s->zero->asked.iters;

	if (s->zero->alone)
		return;
#define MEDIAN(field) median_us(m, n, offsetof(struct bb_zero_times, field))
	r->step_us = MEDIAN(step);
	r->forward_us = MEDIAN(forward);
	r->forward_wait_us = MEDIAN(forward_wait);
	r->backward_us = MEDIAN(backward);
	r->backward_wait_us = MEDIAN(backward_wait);
	r->optimise_us = MEDIAN(optimise);
	r->gather_us = MEDIAN(gather);
#undef MEDIAN
}

static bb_status deliver_moments(const struct session *s, const struct bb_zero_rank *z)
{
	bb_status status = BB_OK;

	for (size_t i = 0; i < z->nmoments && status == BB_OK; i++) {
		const struct bb_zero_moment *m = &z->moments[i];
		const bool layer = m->point == BB_ZERO_FORWARD || m->point == BB_ZERO_BACKWARD;
		const struct bb_zero_moment_record r = {
			.stage = z->stage,
			.moment = bb_zero_point_names[m->point],
			.item = layer ? (int64_t)m->item : BB_ABSENT,
			.parameters_bytes = (int64_t)m->now.holds[BB_HOLD_PARAMETERS],
			.gradients_bytes = (int64_t)m->now.holds[BB_HOLD_GRADIENTS],
			.optimizer_bytes = (int64_t)m->now.holds[BB_HOLD_OPTIMIZER],
			.communication_bytes = (int64_t)m->now.holds[BB_HOLD_COMMUNICATION],
			.held_bytes = (int64_t)bb_books_held(&m->now),
			.fragmentation_bytes = (int64_t)bb_books_fragmentation(&m->now),
			.reserved_bytes = (int64_t)m->now.reserved,
			.host_bytes = (int64_t)m->now.host,
			.peak_bytes = (int64_t)m->peak,
		};

		status = bb_sinks_record(&s->run->sinks, &bb_record_zero_moment, &r);
	}
	return status;
}

static bb_status deliver_phases(const struct session *s, const struct bb_zero_record *r)
{
	struct bb_strbuf out = {0};
	bb_status status;

	bb_zero_text_phases(r, &out);
	if (bb_strbuf_failed(&out))
		status = bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for a line");
	else
		status = bb_sinks_comment(&s->run->sinks, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
	return status;
}

static bb_status deliver(const struct session *s, const struct bb_zero_rank *z,
			 const struct measured *m)
{
	char checksum[CHECKSUM_TEXT];
	struct bb_zero_record r;
	bb_status status;

	bb_record_init(&bb_record_zero, &r);
	tell_subject(s, z, &r);
	tell_memory(z, &r);
	tell_system(s, z, m, &r);
	tell_traffic(s, z, &r);
	tell_time(s, m, &r);
	if (has_data(s)) {
		snprintf(checksum, sizeof(checksum), "%016llx",
			 (unsigned long long)m->sum.checksum);
		r.checksum = checksum;
		r.verified = s->has_reference ? "one rank alone" : "the first stage";
		r.wrong = (int64_t)m->sum.wrong;
		r.loss_scale = z->scale.scale;
		r.skipped = z->scale.skipped;
	}
	if (s->run->options.check == 0) {
		r.verified = NULL;
		r.wrong = BB_ABSENT;
	}
	r.end_unix_s = bb_clock_unix();
	bb_ticker_hide(&s->run->ticker);
	s->run->end.results++;
	s->run->end.wrong += r.wrong != BB_ABSENT && r.wrong > 0;
	status = deliver_moments(s, z);
	if (status == BB_OK)
		status = bb_sinks_record(&s->run->sinks, &bb_record_zero, &r);
	return status == BB_OK && !s->zero->alone ? deliver_phases(s, &r) : status;
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* The step took as long as the last rank needed. */
static bb_status agree_on_times(struct session *s, struct measured *m)
{
	const size_t n = (size_t)s->zero->asked.iters;
	const void *all;
	bb_status status;

	if (s->zero->alone)
		return BB_OK;
	for (size_t i = 0; i < n; i++)
		m->scratch[i] = m->times[i].step;
	status = bb_crew_gather(s->driver, m->scratch, n * sizeof(double), &all);
	for (int r = 0; r < s->run->world.nranks && status == BB_OK; r++)
		for (size_t i = 0; i < n; i++) {
			const double theirs = ((const double *)all)[(size_t)r * n + i];

			m->times[i].step = theirs > m->times[i].step ? theirs : m->times[i].step;
		}
	return status;
}

static bb_status play_steps(struct session *s, struct bb_zero_rank *z, struct measured *m)
{
	struct bb_progress *progress = s->driver->progress;
	bb_status status = BB_OK;

	atomic_fetch_add_explicit(&progress->entered, 1, memory_order_relaxed);
	atomic_store_explicit(&progress->phase, BB_PHASE_INSIDE, memory_order_relaxed);
	for (int64_t i = 0; i < s->steps && status == BB_OK; i++) {
		const int64_t timed = i - s->run->options.warmup_iters;

		status = z->backend->barrier(s->driver->world);
		if (status == BB_OK)
			status = bb_zero_step(z);
		if (timed >= 0 && !s->zero->alone)
			m->times[timed] = z->times;
	}
	atomic_store_explicit(&progress->phase, BB_PHASE_BETWEEN, memory_order_relaxed);
	return status;
}

static bb_status tell_refusal(const struct session *s, int stage, const char *reason)
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

static bb_status measure(struct session *s, struct bb_zero_rank *z, struct measured *m)
{
	bb_status status;

	m->times = calloc((size_t)s->steps, sizeof(*m->times));
	m->scratch = calloc((size_t)s->steps, sizeof(*m->scratch));
	if (!m->times || !m->scratch)
		return bb_fail(&s->run->error, BB_EINTERNAL, "out of memory for times");
	BB_TRY(status, look_at_system(s, &m->system_before), out);
	BB_TRY(status, bb_zero_rank_open(z), out);
	BB_TRY(status, play_steps(s, z, m), out);
	BB_TRY(status, look_at_system(s, &m->system_after), out);
	BB_TRY(status, agree_on_times(s, m), out);
	BB_TRY(status, look_at_result(s, z, m), out);
	if (bb_driver_leads(s->driver))
		status = deliver(s, z, m);
out:
	return status;
}

static bb_status run_stage(struct session *s, int stage)
{
	const struct bb_fault *fault = &s->run->options.fault;
	struct bb_zero_rank z = {.zero = s->zero,
				 .run = s->run,
				 .driver = s->driver,
				 .stage = stage,
				 .rank = s->zero->alone ? (int)s->zero->asked.as_rank
							: s->driver->rank};
	struct measured m = {0};
	char what[BB_WHAT_TEXT];
	bb_status status;

	if (s->zero->skips[stage])
		return tell_refusal(s, stage, s->zero->skips[stage]);
	snprintf(what, sizeof(what), "ZeRO stage %d of %.32s", stage, s->zero->name);
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

bb_status bb_zero_drive(struct bb_driver *driver, void *argument)
{
	struct bb_run *run = argument;
	struct session s = {.zero = run->own, .run = run, .driver = driver};
	bb_status status;

	/* Alone: once to take everything, and once with all of it there. */
	s.steps = s.zero->alone ? 2 : s.zero->asked.iters + run->options.warmup_iters;
	BB_TRY(status, bb_run_attend(run, driver, NULL, &s.world), out);
	if (bb_driver_leads(driver))
		bb_ticker_start(&run->ticker, BB_ZERO_STAGES, 0);
	BB_TRY(status, open_reference(&s), out);
	BB_TRY(status, bb_run_begin(run, driver, NAN), out);
	for (int stage = 0; stage < BB_ZERO_STAGES; stage++)
		if (s.zero->asked.stages[stage])
			BB_TRY(status, run_stage(&s, stage), out);
	if (bb_driver_leads(driver) && run->end.results == 0)
		status = bb_fail(&run->error, BB_EUNSUPPORTED,
				 "none of the stages can be run so: see the skipped ones");
out:
	if (status != BB_OK)
		bb_crew_abandon(driver);
	if (s.has_reference)
		bb_zero_reference_close(&s.reference);
	run->options.backend->group_close(s.world);
	atomic_store(&driver->progress->finished, status == BB_OK);
	return status;
}
