/*
 * sweep.c - the experiment: one stage after the other from the same initial model, timed, with its
 * memory measured and its results verified.
 */
#include "core/clock.h"
#include "core/file.h"
#include "core/stats.h"
#include "training_kernels/zero/rank.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CHECKED (UINT64_C(1) << 22) /* elements of a reference */
#define MOST_DRAWN (UINT64_C(1) << 30)   /* gradients of a reference, in all steps */
#define LEAST_BYTES (4 << 20)            /* below, a few pages for any purpose exceed one percent */

/* State of a driver. */
struct zero_sweep {
	struct bb_engine engine;
	struct bb_zero *zero;
	float (*blocks)[BB_ZERO_BLOCK];
	struct bb_zero_reference reference;
	bool has_reference, has_checksum;
	uint64_t checksum; /* of the first stage */
	int64_t steps;     /* of a stage, with warm-up */
};

/* A stage on this rank. */
struct zero_stage {
	struct bb_zero_rank z; /* first: its trial's own */
	struct zero_sweep *s;
	/* Bytes of the process before and after the rehearsal, and after the last step; BB_ABSENT:
	   unknown. */
	int64_t system_at_first, system_before, system_after;
	struct bb_zero_times *times; /* [timed step]; owned */
	size_t *steps;               /* their numbers; owned */
	size_t timed;                /* steps that were not skipped */
	struct {
		uint64_t wrong, checksum;
	} sum; /* first of this rank, then of all */
};

/* ---- memory of the system -------------------------------------------------------------------- */

/* Bytes in use: of the host by this process, of GPUs by anybody. */
static int64_t system_bytes(const struct zero_sweep *s)
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
static bb_status measure_system(struct zero_sweep *s, int64_t *bytes)
{
	bb_status status = bb_crew_barrier(s->engine.driver);

	*bytes = system_bytes(s);
	return status == BB_OK ? bb_crew_barrier(s->engine.driver) : status;
}

/* ---- verification ---------------------------------------------------------------------------- */

/* Train the reference if results are checked and the model is small enough. */
static bb_status open_reference(struct zero_sweep *s)
{
	const struct bb_zero_data *d = &s->zero->data;
	const uint64_t drawn = d->elements * (uint64_t)d->nranks * (uint64_t)d->microbatches;
	bb_status status;

	if (!bb_zero_trains(s->zero, s->engine.run) || s->engine.run->options.check == 0 ||
	    d->elements > MOST_CHECKED || drawn > MOST_DRAWN / (uint64_t)s->steps)
		return BB_OK;
	status = bb_zero_reference_open(&s->reference, d, &s->zero->scale, &s->engine.run->error);
	s->has_reference = status == BB_OK;
	for (int64_t step = 1; step <= s->steps && status == BB_OK; step++)
		bb_zero_reference_step(&s->reference, step);
	return status;
}

/* Elements FROM to TO - 1 of a unit, which are AT in ARRAY, of SIZE bytes each. */
struct span {
	char *array;
	uint64_t at, from, to;
	size_t size;
	bool host;             /* in host memory on any backend */
	bool summed;           /* belongs to the checksum */
	const char *reference; /* of the whole model; NULL: none */
};

static bb_status verify_span(struct zero_stage *m, const struct bb_zero_unit *u,
			     const struct span *e)
{
	const size_t size = e->size;
	bb_status status = BB_OK;
	void *seen;

	for (uint64_t i = e->from; i < e->to; i += BB_ZERO_BLOCK) {
		const size_t n = (size_t)(e->to - i < BB_ZERO_BLOCK ? e->to - i : BB_ZERO_BLOCK);
		const uint64_t first = u->first + i;

		BB_TRY(status,
		       bb_zero_view(&m->z, 0, e->array + (e->at + i - e->from) * size, n * size,
				    e->host, &seen),
		       out);
		if (e->summed)
			m->sum.checksum += bb_zero_sum(m->s->zero->options.dtype, first, n, seen);
		for (size_t k = 0; k < n && e->reference; k++)
			m->sum.wrong += memcmp((const char *)seen + k * size,
					       e->reference + (first + k) * size, size) != 0;
	}
out:
	return status;
}

/* Verify all elements of UNIT on this rank: its own part, which is summed, what it received of the
   others' parts, and the master copy of its part. */
static bb_status verify_unit(struct zero_stage *m, size_t unit)
{
	const struct zero_sweep *s = m->s;
	const struct bb_zero_rank *z = &m->z;
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const struct bb_zero_place *p = &z->places.list[unit];
	const uint64_t begin = p->mine < u->elements ? p->mine : u->elements;
	const uint64_t end = p->mine + p->part < u->elements ? p->mine + p->part : u->elements;
	const bool divided = z->stage == 3;
	const struct span own = {.array = z->parameters.memory,
				 .at = divided ? p->part_at : p->at + begin,
				 .from = begin,
				 .to = end,
				 .size = bb_dtype_size(z->zero->options.dtype),
				 .summed = z->stage > 0 || z->rank == 0,
				 .reference = s->has_reference ? s->reference.parameters : NULL};
	struct span others = own;
	const struct span master = {.array = z->master.memory,
				    .at = p->part_at,
				    .from = begin,
				    .to = s->has_reference && z->master.memory ? end : begin,
				    .size = sizeof(float),
				    .host = z->zero->options.offload,
				    .reference = (const char *)s->reference.master};
	bb_status status;

	BB_TRY(status, verify_span(m, u, &own), out);
	others.summed = false;
	for (int after = 0; after < 2 && !divided; after++) {
		others.from = after ? end : 0;
		others.to = after ? u->elements : begin;
		others.at = p->at + others.from;
		BB_TRY(status, verify_span(m, u, &others), out);
	}
	status = verify_span(m, u, &master);
out:
	return status;
}

/* The number of wrong elements on all ranks, and the checksum of all parameters. Collective. */
static bb_status verify_stage(struct zero_stage *m)
{
	struct zero_sweep *s = m->s;
	struct bb_zero_rank *z = &m->z;
	bb_status status = BB_OK;

	if (!bb_zero_trains(s->zero, s->engine.run))
		return BB_OK;
	BB_TRY(status, bb_engine_corrupt(&s->engine, z->parameters.memory + z->places.list[0].at),
	       out);
	for (size_t u = 0; u < z->zero->units.n; u++)
		BB_TRY(status, verify_unit(m, u), out);
	BB_TRY(status,
	       bb_engine_sum(&s->engine, (uint64_t *)&m->sum, sizeof(m->sum) / sizeof(uint64_t)),
	       out);
	/* Without a reference all stages must agree with the first one. */
	if (!s->has_checksum)
		s->checksum = m->sum.checksum;
	s->has_checksum = true;
	if (!s->has_reference)
		m->sum.wrong = m->sum.checksum != s->checksum;
out:
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

static double percent_off(double got, double wanted)
{
	return wanted > 0 ? 100 * (got - wanted) / wanted : NAN;
}

/* Set the fields of the record R about USAGE. */
#define USAGE_SET(r, usage)                                                                        \
	((r)->parameters_bytes = (int64_t)(usage)->holds[BB_HOLD_PARAMETERS],                      \
	 (r)->gradients_bytes = (int64_t)(usage)->holds[BB_HOLD_GRADIENTS],                        \
	 (r)->optimizer_bytes = (int64_t)(usage)->holds[BB_HOLD_OPTIMIZER],                        \
	 (r)->communication_bytes = (int64_t)(usage)->holds[BB_HOLD_COMMUNICATION],                \
	 (r)->held_bytes = (int64_t)bb_usage_held(usage),                                          \
	 (r)->fragmentation_bytes = (int64_t)bb_usage_fragmentation(usage),                        \
	 (r)->reserved_bytes = (int64_t)(usage)->reserved,                                         \
	 (r)->host_bytes = (int64_t)(usage)->host)

static void fill_memory(const struct bb_zero_rank *z, struct bb_zero_record *r)
{
	const uint64_t n = z->stage == 0 ? 1 : (uint64_t)z->zero->nranks;
	const struct bb_states states =
		bb_states_of_rank(&z->zero->recipe, z->places.whole, 0, z->stage, n);
	const struct bb_usage *last = &z->ledger.now;
	int64_t *const peaks[BB_ZERO_POINTS] = {[BB_ZERO_MODEL] = &r->model_bytes,
						[BB_ZERO_WRAPPED] = &r->wrapped_bytes,
						[BB_ZERO_BEFORE] = &r->before_bytes,
						[BB_ZERO_AFTER] = &r->after_bytes};

	r->formula_parameters_bytes = (int64_t)states.parameters;
	r->formula_gradients_bytes = (int64_t)states.gradients;
	r->formula_optimizer_bytes = (int64_t)states.optimizer;
	r->formula_bytes = (int64_t)bb_states_sum(&states);
	USAGE_SET(r, &z->ledger.peak);
	r->host_bytes = (int64_t)last->host;
	/* States that stay allocated, with offloaded ones. */
	r->states_error_percent = percent_off((double)(last->holds[BB_HOLD_PARAMETERS] +
						       last->holds[BB_HOLD_GRADIENTS] +
						       last->holds[BB_HOLD_OPTIMIZER] + last->host),
					      (double)r->formula_bytes);
	for (size_t i = 0; i < z->nmoments; i++)
		if (peaks[z->moments[i].point])
			*peaks[z->moments[i].point] = (int64_t)z->moments[i].peak;
}

/* The process is measured without the temporary memory, which its runner has freed. */
static void fill_system(const struct zero_stage *m, struct bb_zero_record *r)
{
	const uint64_t reserved = m->z.ledger.now.reserved - bb_ledger_rounded(m->z.tmp_bytes);

	if (m->system_at_first == BB_ABSENT || m->system_before == BB_ABSENT ||
	    m->system_after == BB_ABSENT)
		return;
	r->system_constant_bytes = m->system_before - m->system_at_first;
	r->system_bytes = m->system_after - m->system_before;
	r->system_reserved_bytes = (int64_t)reserved * (int64_t)m->s->engine.run->world.nlocal;
	if (r->system_reserved_bytes >= LEAST_BYTES)
		r->system_error_percent =
			percent_off((double)r->system_bytes, (double)r->system_reserved_bytes);
}

static void fill_traffic(const struct zero_stage *m, struct bb_zero_record *r)
{
	const struct bb_zero *zero = m->s->zero;
	uint64_t formula = 0;

	for (size_t u = 0; u < zero->units.n; u++)
		formula +=
			bb_zero_bytes(&zero->recipe, zero->units.list[u].elements, m->z.stage,
				      (uint64_t)zero->nranks, (uint64_t)zero->options.accumulate);
	r->wire_bytes = (int64_t)m->z.wire;
	r->formula_wire_bytes = (int64_t)formula;
	r->wire_volumes = (double)m->z.wire /
			  (double)(zero->units.elements * bb_dtype_size(zero->options.dtype));
}

/* Set the medians of all times. The duration of a step is that of the slowest rank. */
static bb_status fill_times(struct zero_stage *m, struct bb_zero_record *r)
{
	const struct {
		double *us;
		size_t offset;
	} medians[] = {
#define MEDIAN(us, field) {&r->us, offsetof(struct bb_zero_times, field)}
		MEDIAN(step_us, step),
		MEDIAN(forward_us, took[BB_ZERO_IN_FORWARD]),
		MEDIAN(forward_wait_us, waited[BB_ZERO_IN_FORWARD]),
		MEDIAN(backward_us, took[BB_ZERO_IN_BACKWARD]),
		MEDIAN(backward_wait_us, waited[BB_ZERO_IN_BACKWARD]),
		MEDIAN(optimise_us, took[BB_ZERO_IN_OPTIMIZER]),
		MEDIAN(gather_us, took[BB_ZERO_IN_GATHER]),
#undef MEDIAN
	};
	double *scratch = calloc(m->timed + 1, sizeof(*scratch));

	if (!scratch)
		return bb_no_memory(&m->s->engine.run->error, "times");
	for (size_t i = 0; i < m->timed; i++)
		m->times[i].step = m->s->engine.trials[0].samples[m->steps[i]];
	for (size_t k = 0; k < sizeof(medians) / sizeof(*medians); k++) {
		for (size_t i = 0; i < m->timed; i++)
			memcpy(&scratch[i], (const char *)&m->times[i] + medians[k].offset,
			       sizeof(double));
		*medians[k].us = 1e6 * bb_stats_median(scratch, m->timed);
	}
	free(scratch);
	return BB_OK;
}

static bb_status deliver_moments(const struct zero_stage *stage)
{
	static const char *const names[BB_ZERO_POINTS] = {
		[BB_ZERO_MODEL] = "model",
		[BB_ZERO_WRAPPED] = "wrapped",
		[BB_ZERO_FORWARD] = "forward",
		[BB_ZERO_BACKWARD] = "backward",
		[BB_ZERO_BEFORE] = "before optimizer",
		[BB_ZERO_AFTER] = "after optimizer",
	};
	const struct bb_zero_rank *z = &stage->z;
	bb_status status = BB_OK;

	for (size_t i = 0; i < z->nmoments && status == BB_OK; i++) {
		const struct bb_zero_moment *m = &z->moments[i];
		const bool layer = m->point == BB_ZERO_FORWARD || m->point == BB_ZERO_BACKWARD;
		struct bb_zero_moment_record r = {.stage = z->stage,
						  .moment = names[m->point],
						  .item = layer ? (int64_t)m->item : BB_ABSENT,
						  .peak_bytes = (int64_t)m->peak};

		USAGE_SET(&r, &m->now);
		status = bb_sinks_record(&stage->s->engine.run->sinks, &bb_record_zero_moment, &r);
	}
	return status;
}

/* The line below the row of R: the phases of its steps. */
static void add_phases(const struct bb_zero_record *r, struct bb_strbuf *out)
{
	bb_strbuf_addf(out,
		       "#       forward %.2f ms (waits %.2f), backward %.2f (waits %.2f), "
		       "optimizer %.2f, gather %.2f",
		       1e-3 * r->forward_us, 1e-3 * r->forward_wait_us, 1e-3 * r->backward_us,
		       1e-3 * r->backward_wait_us, 1e-3 * r->optimise_us, 1e-3 * r->gather_us);
	if (r->skipped != BB_ABSENT)
		bb_strbuf_addf(out, "; %lld of %lld steps skipped, loss scale %g",
			       (long long)r->skipped, (long long)r->steps, r->loss_scale);
	bb_strbuf_add(out, "\n");
}

/* The record of a stage, for rank 0. */
static bb_status deliver_stage(struct zero_stage *m)
{
	struct zero_sweep *s = m->s;
	const struct bb_zero *zero = s->zero;
	const struct bb_zero_rank *z = &m->z;
	struct bb_strbuf phases = {0};
	struct bb_zero_record r;
	bb_status status = BB_OK;
	char checksum[17];

	bb_record_init(&bb_record_zero, &r);
	r.model = zero->options.model_text;
	r.dtype = bb_dtype_name(zero->options.dtype);
	r.algorithm = z->has_peers ? zero->options.algo_text : NULL;
	r.overlap = zero->overlaps ? "on" : "off";
	r.nranks = zero->nranks;
	r.stage = z->stage;
	r.rank = z->rank;
	r.parameters = (int64_t)zero->units.elements;
	r.units = (int64_t)zero->units.n;
	r.padding = (int64_t)(z->places.whole - zero->units.elements);
	r.accumulate = zero->options.accumulate;
	r.steps = s->steps;
	r.offload = zero->options.offload;
	r.alone = zero->alone;
	fill_memory(z, &r);
	fill_system(m, &r);
	if (!zero->alone) {
		fill_traffic(m, &r);
		BB_TRY(status, fill_times(m, &r), out);
	}
	if (bb_zero_trains(zero, s->engine.run)) {
		snprintf(checksum, sizeof(checksum), "%016llx",
			 (unsigned long long)m->sum.checksum);
		r.checksum = checksum;
		r.verified = s->has_reference ? "one rank alone" : "the first stage";
		r.wrong = (int64_t)m->sum.wrong;
		r.loss_scale = z->scale.scale;
		r.skipped = z->scale.skipped;
	}
	if (s->engine.run->options.check == 0) {
		r.verified = NULL;
		r.wrong = BB_ABSENT;
	}
	r.end_unix_s = bb_clock_unix();
	bb_ticker_hide(&s->engine.run->ticker);
	BB_TRY(status, deliver_moments(m), out);
	BB_TRY(status, bb_engine_deliver(&s->engine, &bb_record_zero, &r, r.wrong), out);
	if (zero->alone)
		goto out;
	add_phases(&r, &phases);
	status = bb_engine_comment_lines(&s->engine, &phases);
out:
	return status;
}

/* ---- a stage --------------------------------------------------------------------------------- */

static struct bb_zero_rank zero_rank_of(struct zero_sweep *s, const struct bb_zero *zero, int stage)
{
	return (struct bb_zero_rank){.zero = zero,
				     .engine = &s->engine,
				     .blocks = s->blocks,
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

/* Keeps the times of a step. One that is skipped takes less time and does not count. */
static void zero_stepped(void *own, size_t step)
{
	struct zero_stage *m = own;

	if (m->times && m->z.scale.skipped == m->z.skipped) {
		m->times[m->timed] = m->z.times;
		m->steps[m->timed++] = step;
	}
	m->z.times = (struct bb_zero_times){0};
	m->z.last = 0;
}

/* STEPS of the program after WARM others. BB_EUNSUPPORTED with the reason in REFUSAL. */
static bb_status run_steps(struct zero_stage *m, size_t steps, size_t warm,
			   struct bb_error *refusal)
{
	struct bb_engine *e = &m->s->engine;
	struct bb_trial trial = bb_zero_trial(&m->z);
	bb_status status;

	trial.steps = steps;
	trial.warm = warm;
	trial.stepped = zero_stepped;
	snprintf(trial.what, sizeof(trial.what), "ZeRO stage %d of %.32s", m->z.stage,
		 m->s->zero->options.model_text);
	bb_engine_clear(e);
	BB_TRY(status, bb_engine_begin(e, trial.what), out);
	if (m->s->zero->alone)
		return BB_OK;
	BB_TRY(status, bb_zero_rank_settle(&m->z, refusal), out);
	BB_TRY(status, bb_engine_add(e, &trial, NULL), out);
	BB_TRY(status, bb_engine_measure(e), out);
	if (m->z.status != BB_OK)
		status = bb_fail(&e->run->error, m->z.status, "rank %d cannot access its memory",
				 e->driver->rank);
out:
	return status;
}

/*
 * Run a step with small layers. It allocates what does not depend on the size of the model (code
 * that runs for the first time, stacks, buffers of collectives), so that later growth is due to the
 * model. Collective.
 */
static bb_status rehearse(struct zero_sweep *s, int stage)
{
	struct bb_zero small = {.nranks = 0};
	struct zero_stage m = {.s = s};
	struct bb_error refusal = {.text = ""};
	bb_status status;

	if (!s->engine.backend->has_data)
		return BB_OK;
	BB_TRY(status, shrink_layers(s->zero, &small, &s->engine.run->error), out);
	m.z = zero_rank_of(s, &small, stage);
	BB_TRY(status, bb_zero_rank_open(&m.z, 1), out);
	BB_TRY(status, run_steps(&m, 1, 0, &refusal), out);
	status = bb_crew_barrier(s->engine.driver);
out:
	if (status != BB_OK && status != BB_EUNSUPPORTED)
		bb_crew_abandon(s->engine.driver);
	bb_zero_rank_close(&m.z);
	bb_zero_units_free(&small.units);
	/* The stage itself then reports that it cannot run. */
	return status == BB_EUNSUPPORTED && *refusal.text ? BB_OK : status;
}

static bb_status measure_stage(struct zero_stage *m, struct bb_error *refusal)
{
	struct zero_sweep *s = m->s;
	const int64_t warm = s->zero->alone ? 0 : s->engine.run->options.warmup_iters;
	bb_status status;

	m->times = calloc((size_t)s->steps, sizeof(*m->times));
	m->steps = calloc((size_t)s->steps, sizeof(*m->steps));
	if (!m->times || !m->steps)
		return bb_no_memory(&s->engine.run->error, "times");
	BB_TRY(status, measure_system(s, &m->system_at_first), out);
	BB_TRY(status, rehearse(s, m->z.stage), out);
	BB_TRY(status, measure_system(s, &m->system_before), out);
	BB_TRY(status, bb_zero_rank_open(&m->z, s->steps), out);
	BB_TRY(status, run_steps(m, (size_t)(s->steps - warm), (size_t)warm, refusal), out);
	BB_TRY(status, measure_system(s, &m->system_after), out);
	BB_TRY(status, verify_stage(m), out);
	if (bb_driver_leads(s->engine.driver))
		status = deliver_stage(m);
out:
	return status;
}

static bb_status run_stage(struct zero_sweep *s, int stage)
{
	struct zero_stage m = {.s = s, .z = zero_rank_of(s, s->zero, stage)};
	struct bb_error refusal = {.text = ""};
	const char *skip = s->zero->skips[stage];
	bb_status status = BB_OK;
	char name[32];

	if (!*skip) {
		status = measure_stage(&m, &refusal);
		skip = status == BB_EUNSUPPORTED ? refusal.text : "";
	}
	snprintf(name, sizeof(name), "stage %d", stage);
	if (*skip)
		status = bb_engine_skip_subject(&s->engine, name, NULL,
						bb_dtype_name(s->zero->options.dtype), skip);
	/* Other ranks may still read the memory of this one. */
	if (status == BB_OK)
		status = bb_crew_barrier(s->engine.driver);
	if (status != BB_OK)
		bb_crew_abandon(s->engine.driver);
	bb_zero_rank_close(&m.z);
	free(m.times);
	free(m.steps);
	if (bb_driver_leads(s->engine.driver))
		bb_ticker_step(&s->engine.run->ticker, 0);
	return status;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status zero_open(struct bb_engine *engine)
{
	struct zero_sweep *s = (struct zero_sweep *)engine;
	const int64_t warm = engine->run->options.warmup_iters;
	int64_t all, overflow;

	s->zero = engine->run->own;
	overflow = bb_zero_trains(s->zero, engine->run) ? s->zero->data.overflow : 0;
	all = warm + s->zero->options.iters;
	/* The requested steps, and one more if a timed one overflows. A rank alone runs one that
	   allocates everything, and one that reuses it. */
	s->steps = s->zero->alone ? 2 : all + (overflow > warm && overflow <= all);
	s->blocks = calloc(BB_ZERO_BLOCKS, sizeof(*s->blocks));
	if (!s->blocks)
		return bb_no_memory(&engine->run->error, "blocks");
	if (bb_engine_leads(engine))
		bb_ticker_start(&engine->run->ticker, BB_ZERO_STAGES, 0);
	return open_reference(s);
}

static bb_status zero_run(struct bb_engine *engine)
{
	struct zero_sweep *s = (struct zero_sweep *)engine;
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
	struct zero_sweep *s = (struct zero_sweep *)engine;

	if (s->has_reference)
		bb_zero_reference_close(&s->reference);
	free(s->blocks);
}

const struct bb_experiment bb_zero_experiment = {
	.bytes = sizeof(struct zero_sweep),
	.open = zero_open,
	.run = zero_run,
	.deliver = zero_deliver,
	.close = zero_close,
};
