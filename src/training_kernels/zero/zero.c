/*
 * zero.c - the benchmark of ZeRO: options, records, plan, and the experiment: one stage after the
 * other from the same initial model, timed, with its memory measured and its results verified.
 */
#include "core/clock.h"
#include "core/file.h"
#include "core/units.h"
#include "harness/measure/algorithms.h"
#include "harness/run/options.h"
#include "models/units.h"
#include "topology/systems.h"
#include "training_kernels/zero/zero.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE_SHARE 0.95
#define MOST_CHECKED (UINT64_C(1) << 22) /* elements of a reference */
#define MOST_DRAWN (UINT64_C(1) << 30)   /* gradients of a reference, in all steps */
#define LEAST_BYTES (4 << 20)            /* below, a few pages for any purpose exceed one percent */
#define MOST_RANKS (1 << 20)

static const char *const dtypes[] = {"half", "bfloat16", "float", NULL};
static const char *const stage_names[] = {"0", "1", "2", "3", NULL};
static const char *const overlap_names[] = {"on", "off", NULL};
static const char *const padding_names[] = {"flat", "parameter", NULL};
static const char *const backward_names[] = {"pre", "post", "none", NULL};
static const char *const reduce_dtypes[] = {"float", NULL};
static const char *const rounding_names[] = {"nearest", "stochastic", NULL};
/* Mixed, but for the copy. */
static const struct bb_precision without_master = {"without master", 2, 2, 0, sizeof(float)};

#define BB_OPTIONS struct bb_zero_options
static const struct bb_option zero_rows[] = BB_OPTION_ROWS(BB_ZERO_OPTIONS);

static bb_status zero_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			    const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_zero *zero = own;
	struct bb_zero_options *a = &zero->options;
	const long long steps = (long long)(a->iters + o->warmup_iters);
	bb_status status = BB_OK;

	if (a->hpz_given)
		a->reshard = a->hpz;
	if (a->ds_config)
		status = bb_zero_apply_ds_config(zero, o->cluster ? o->cluster->gpus : 0, error);
	if (status != BB_OK)
		return status;
	o->iters = a->iters;
	if (zero->config.onebit.kind != BB_ONEBIT_NONE && (a->master || a->rate_given))
		return bb_fail(error, BB_EUSAGE,
			       "--%s: the step of the 1-bit optimizer of --ds-config has its own; "
			       "leave it out",
			       a->master ? "master" : "lr");
	if (a->scale & (a->scale - 1))
		return bb_fail(error, BB_EUSAGE,
			       "--loss-scale %jd: sums of gradients are exact only for a power of "
			       "two, such as 65536",
			       a->scale);
	if (a->overflow_given && a->overflow > steps)
		return bb_fail(error, BB_EUSAGE,
			       "--overflow %lld: exceeds the %lld steps (-w and -n together)",
			       (long long)a->overflow, steps);
	if (a->as_rank >= a->world)
		return bb_fail(error, BB_EUSAGE, "--as-rank %jd: --world %jd has ranks 0 to %jd",
			       a->as_rank, a->world, a->world - 1);
	o->config.library_optional =
		a->as_rank_given || (o->threads * o->gpus == 1 && environment->launch.nprocs <= 1);
	const struct bb_system *system = o->cluster ? bb_system_find(o->cluster->node->name) : NULL;
	zero->memory_rate = system && system->gpu && system->gpu->memory_GBps
				    ? 1e9 * system->gpu->memory_GBps
				    : INFINITY;
	/* Rings forward what an all-to-all sends. */
	if (a->qgz && !a->algo_text_given)
		a->algo_text = "auto";
	status = bb_algorithms_check_one(a->algo_text, o, error);
	status = status == BB_OK ? bb_zero_check_stages(a, error) : status;
	return status == BB_OK ? bb_zero_open_units(zero, error) : status;
}

/* ---- records --------------------------------------------------------------------------------- */

static void add_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_zero_record *r = record;

	bb_strbuf_addf(out, "# %s: %jd parameters in %jd unit%s, %s", r->model, r->parameters,
		       r->units, bb_plural(r->units), r->dtype);
	if (r->accumulate > 1)
		bb_strbuf_addf(out, ", %jd microbatches per step", r->accumulate);
	if (r->alone)
		bb_strbuf_addf(out, "; only rank %jd of %jd", r->rank, r->nranks);
	bb_strbuf_add(out, "\n");
}

#define BB_RECORD bb_zero_record
BB_RECORD_KIND(bb_record_zero, BB_ZERO_FIELDS, "zero", "ZeRO: a stage, and the memory of one rank.",
	       .about = add_about);

#undef BB_RECORD
#define BB_RECORD bb_zero_moment_record
BB_RECORD_KIND(bb_record_zero_moment, BB_ZERO_MOMENT_FIELDS, "zero_moment",
	       "ZeRO: the memory of one rank at a point of its first step.");

/* ---- the plan -------------------------------------------------------------------------------- */

/* Skip stages that do not fit into memory. BB_EUNSUPPORTED if none fits. */
static bb_status find_room(struct bb_zero *zero, struct bb_run *run)
{
	const struct bb_backend *backend = run->options.backend;
	const struct bb_zero_options *a = &zero->options;
	const int nlocal = run->world.nlocal, first = __builtin_ctz(a->stages);
	const uint64_t size = zero->recipe.precision->parameter;
	/* Nearly all of a GPU for a rank alone. */
	const uint64_t room =
		zero->alone && backend->gpu
			? (uint64_t)(ALONE_SHARE * (double)backend->memory_available(run->context))
			: run->memory;
	/* Bytes of an element that is reduced in fp32, or coded and decoded. */
	const uint64_t wide = a->qwz || a->qgz ? 5 : a->reduce_dtype_given ? 4 : 0;
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];
	bool any = false;

	for (int stage = first; stage < BB_ZERO_STAGES; stage++) {
		const uint64_t n = stage == 0 ? 1 : (uint64_t)zero->nranks;
		/* Layers that are being reduced and gathered, and two around them. */
		const uint64_t layers = stage < 2 ? 0 : stage == 2 ? 2 : 3 + (uint64_t)a->prefetch;
		const uint64_t around = stage >= 2 && zero->units.nruns > zero->units.n ? 4 : 0;
		uint64_t whole = 0, largest = 0;

		if (!(a->stages >> stage & 1))
			continue;
		for (size_t u = 0; u < zero->units.n; u++) {
			const uint64_t padded = n * bb_zero_part(&zero->units, u, n);

			whole += padded;
			largest = padded > largest ? padded : largest;
		}
		/* The most that a rank allocates, without buffers of collectives. */
		struct bb_states states = bb_states_of_rank(&zero->recipe, whole, 0, stage, n);
		states.optimizer = a->offload ? 0 : states.optimizer;
		uint64_t bytes = states.parameters + states.gradients + states.optimizer +
				 (layers + around) * largest * (size + wide);
		bytes += stage == 3 && a->reshard > 0 ? whole / (uint64_t)a->reshard * size : 0;
		bytes *= (uint64_t)nlocal;
		any |= bytes <= room;
		if (bytes > room)
			snprintf(zero->skips[stage], sizeof(zero->skips[stage]),
				 "needs %s on %d rank%s, but only %s are available; give a smaller "
				 "--model",
				 bb_format_bytes(need, bytes), nlocal, bb_plural(nlocal),
				 bb_format_bytes(have, room));
	}
	return any ? BB_OK
		   : bb_fail(&run->error, BB_EUNSUPPORTED, "stage %d %s", first,
			     zero->skips[first]);
}

static bb_status zero_plan(struct bb_run *run)
{
	struct bb_zero *zero = run->own;
	const struct bb_zero_options *a = &zero->options;
	const bool scaled = a->dtype != BB_FLOAT;

	run->record.algorithms = a->algo_text;
	if (a->as_rank_given && run->world.nranks > 1)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--as-rank: runs one rank alone, not %d; leave -t and -g out",
			       run->world.nranks);
	zero->alone = a->as_rank_given;
	zero->nranks = zero->alone ? (int)a->world : run->world.nranks;
	if (a->reshard > 0 && zero->nranks % a->reshard != 0)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--%s %jd: %d rank%s cannot form groups of so many; give a "
			       "divisor of %d",
			       a->reshard_given ? "reshard" : "hpz", a->reshard, zero->nranks,
			       bb_plural(zero->nranks), zero->nranks);
	if (a->qgz && (zero->nranks % a->qgz != 0 || a->qgz >= zero->nranks))
		return bb_fail(&run->error, BB_EUSAGE,
			       "--qgz %jd: %d ranks cannot form at least 2 nodes of so many; give "
			       "a smaller divisor of %d",
			       a->qgz, zero->nranks, zero->nranks);
	if (a->qwz && zero->nranks == 1)
		return bb_fail(&run->error, BB_EUSAGE,
			       "--%s: one rank gathers nothing; give more ranks",
			       zero->config.qwz ? "ds-config: zero_quantized_weights" : "qwz");
	zero->units.multiple = a->qwz || a->qgz ? 8 : 1; /* codes are whole bytes */
	zero->data = (struct bb_zero_data){
		.dtype = a->dtype,
		.nranks = zero->nranks,
		.microbatches = a->accumulate,
		.most = bb_zero_most_draw(a->dtype, zero->nranks, a->accumulate),
		.elements = zero->units.elements,
		.overflow = scaled ? a->overflow : 0,
		.rate = (float)a->rate,
		.finer = -16 - (int)a->gradient_exponent,
		.bare = a->master == BB_ZERO_OVERLAP_OFF,
		.stochastic = a->rounding,
	};
	zero->recipe = (struct bb_recipe){!scaled           ? &bb_precisions[BB_ALL_FP32]
					  : zero->data.bare ? &without_master
							    : &bb_precisions[BB_MIXED],
					  &bb_optimizers[BB_ADAMW]};
	zero->scale = (struct bb_zero_scale){.scale = scaled ? (float)a->scale : 1,
					     .growth = a->growth,
					     .fixed = !scaled || zero->config.loss_scale > 0 ||
						      zero->config.bf16};
	if (zero->data.most == 0 && bb_zero_trains(zero, run))
		return bb_fail(&run->error, BB_EUSAGE,
			       "--accumulate %jd on %d rank%s: sums of so many gradients are not "
			       "exact in %s; give a smaller number or another -d",
			       a->accumulate, zero->nranks, bb_plural(zero->nranks),
			       bb_dtype_name(a->dtype));
	const bool signs = zero->config.onebit.kind != BB_ONEBIT_NONE;
	if ((signs || a->qwz || a->qgz) && run->options.backend->gpu)
		return bb_fail(&run->error, BB_EUNSUPPORTED,
			       "--ds-config %.200s: the CPU makes the codes of %s, but cannot "
			       "access the memory of the %s backend; give --backend host, mpi or "
			       "gloo",
			       a->ds_config, signs ? zero->config.type : "ZeRO++",
			       run->options.backend->name);
	return find_room(zero, run);
}

/* ---- the experiment -------------------------------------------------------------------------- */

/* State of a driver. */
struct zero_sweep {
	struct bb_kernel kernel; /* a setting for each stage */
	struct bb_zero *zero;
	float (*blocks)[BB_ZERO_BLOCK];
	struct bb_zero_reference references[2]; /* without codes, and with those of stage 3 */
	struct bb_zero_coding coding;           /* of the second one */
	bool has_reference, has_checksum;
	bool compressed;             /* after the warm-up of a 1-bit optimizer */
	struct bb_zero_rank *before; /* which it continues, in a compressed phase */
	uint64_t checksum;           /* of the first stage */
	int64_t steps;               /* of a stage, with warm-up */
	int stage;                   /* that is being measured */
};

/* A stage on this rank. */
struct zero_stage {
	struct bb_zero_rank z; /* first: its variant */
	/* Bytes of the process before and after the rehearsal, and after the last step; BB_ABSENT:
	   unknown. */
	int64_t system_at_first, system_before, system_after;
	double *times; /* [phase, as in bb_zero_rank, then the step][timed step] */
	size_t *steps; /* [timed step]: their numbers */
	size_t timed;  /* steps that were not skipped */
	uint64_t checksum;
	uint64_t unchanged, flushed; /* updates and gradients of all ranks */
	char checksum_text[17];
	double gap; /* of error feedback */
};

/* ---- memory of the system -------------------------------------------------------------------- */

/* *BYTES in use: of the host by this process, of GPUs by anybody; BB_ABSENT: unknown. Measured
   while no rank of the process allocates or frees memory. */
static bb_status measure_system(struct zero_sweep *s, int64_t *bytes)
{
	const struct bb_engine *e = &s->kernel.engine;
	const bb_status status = bb_driver_barrier(e->driver);
	long long resident;
	char statm[128];

	*bytes = BB_ABSENT;
	if (e->backend->gpu)
		*bytes = -(int64_t)e->backend->memory_available(e->run->context);
	else if (e->backend->has_data && bb_kernel_line("/proc/self/statm", statm, sizeof(statm)) &&
		 sscanf(statm, "%*d %lld", &resident) == 1)
		*bytes = (int64_t)resident * sysconf(_SC_PAGESIZE);
	return status == BB_OK ? bb_driver_barrier(e->driver) : status;
}

/* ---- verification ---------------------------------------------------------------------------- */

/* Fails if the CPU could not use the memory of Z. */
static bb_status check_memory(struct bb_engine *e, const struct bb_zero_rank *z)
{
	return z->status == BB_OK ? BB_OK
				  : bb_fail(&e->run->error, z->status,
					    "rank %d cannot access its memory", e->driver->rank);
}

/* What elements of this rank must be, or their checksum. */
struct zero_check {
	const char *model; /* all of it; NULL: the checksum */
	size_t size;       /* of an element */
	uint64_t found;    /* wrong elements, or the sum */
};

static void check_block(struct bb_zero_rank *z, void *own, uint64_t first, size_t n,
			void *const *seen)
{
	struct zero_check *c = own;

	if (!c->model)
		c->found += bb_zero_sum(z->zero->options.dtype, first, n, seen[0]);
	for (size_t i = 0; i < n && c->model; i++)
		c->found += memcmp((const char *)seen[0] + i * c->size,
				   c->model + (first + i) * c->size, c->size) != 0;
}

/* The number of wrong elements on all ranks, and the checksum of all parameters. A rank checks its
   part of each unit, what it received of the others' parts, and the master copy of the part.
   Collective. */
static bb_status verify_stage(struct zero_sweep *s, struct zero_stage *m)
{
	struct bb_engine *e = &s->kernel.engine;
	struct bb_zero_rank *z = &m->z;
	const bool divided = z->stage == 3;
	const size_t size = bb_dtype_size(z->zero->options.dtype);
	struct zero_check sum = {NULL, size, 0};
	const bool coded = z->gathers_codes || z->reduces_codes;
	const struct bb_zero_reference *reference = &s->references[coded];
	struct zero_check parameters = {reference->parameters, size, 0};
	struct zero_check master = {(const char *)reference->master, sizeof(float), 0};
	uint64_t sums[4];
	bb_status status = BB_OK;

	if (!bb_zero_trains(s->zero, e->run))
		return BB_OK;
	BB_TRY(status, bb_engine_corrupt(e, z->parameters.memory + z->places.list[0].at), out);
	for (size_t i = 0; i < z->zero->units.n; i++) {
		const struct bb_zero_place *p = &z->places.list[i];
		const struct bb_zero_array all = {.at = z->parameters.memory +
							(divided ? p->part_at : p->at) * size,
						  .size = size};
		const struct bb_zero_array part = {.at = all.at + (divided ? 0 : p->mine) * size,
						   .size = size};
		const struct bb_zero_array copy = {
			.at = z->master.memory ? z->master.memory + p->part_at * sizeof(float)
					       : NULL,
			.size = sizeof(float),
			.host = z->zero->options.offload};

		if (z->stage > 0 || z->rank == 0)
			bb_zero_each(z, &part, 1, i, true, check_block, &sum);
		if (s->has_reference)
			bb_zero_each(z, &all, 1, i, divided, check_block, &parameters);
		if (s->has_reference && copy.at)
			bb_zero_each(z, &copy, 1, i, true, check_block, &master);
	}
	BB_TRY(status, check_memory(e, z), out);
	sums[0] = parameters.found + master.found;
	sums[1] = sum.found;
	sums[2] = z->stage > 0 || z->rank == 0 ? z->unchanged : 0;
	sums[3] = z->flushed;
	BB_TRY(status, bb_engine_sum(e, sums, 4), out);
	m->checksum = sums[1];
	m->unchanged = sums[2];
	m->flushed = sums[3];
	if (s->has_reference && z->zero->config.onebit.kind == BB_ONEBIT_NONE)
		sums[0] += (sums[2] != reference->unchanged) + (sums[3] != reference->flushed);
	if (s->compressed) {
		struct bb_coded_balance balance = z->balance;
		bool broken;

		for (size_t u = 0; u < z->zero->units.n && z->has_peers; u++)
			balance.open +=
				bb_coded_errors(&z->exchanges[u], z->zero->units.list[u].first);
		BB_TRY(status, bb_kernel_settle(e, &balance, s->zero->nranks, &m->gap, &broken),
		       out);
		/* Without a reference the balance alone is checked. */
		if (e->run->options.check > 0)
			e->trials[z->variant.trial].wrong =
				broken + (s->has_reference ? (int64_t)sums[0] : 0);
		goto out;
	}
	/* Without a reference all stages must agree with the first one. */
	if (!s->has_checksum)
		s->checksum = m->checksum;
	s->has_checksum = true;
	if (e->run->options.check > 0 && (s->has_reference || !coded))
		e->trials[z->variant.trial].wrong =
			s->has_reference ? (int64_t)sums[0] : m->checksum != s->checksum;
out:
	return status;
}

/* ---- the rows ---------------------------------------------------------------------------- */

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

static void fill_memory(const struct zero_stage *m, struct bb_zero_record *r)
{
	const struct bb_zero_rank *z = &m->z;
	const uint64_t n = z->stage == 0 ? 1 : (uint64_t)z->zero->nranks;
	struct bb_states states =
		bb_states_of_rank(&z->zero->recipe, z->places.whole, 0, z->stage, n);
	const struct bb_usage *last = &z->ledger.now;
	int64_t *const peaks[BB_ZERO_POINTS] = {[BB_ZERO_MODEL] = &r->model_bytes,
						[BB_ZERO_WRAPPED] = &r->wrapped_bytes,
						[BB_ZERO_BEFORE] = &r->before_bytes,
						[BB_ZERO_AFTER] = &r->after_bytes};

	r->second_bytes = (int64_t)z->second.bytes;
	r->formula_parameters_bytes = (int64_t)(states.parameters + z->second.bytes);
	r->formula_gradients_bytes = (int64_t)states.gradients;
	for (size_t u = 0; u < z->zero->units.n && z->compressed; u++)
		states.optimizer +=
			bb_error_bytes(&(struct bb_recipe){NULL, &bb_optimizers[BB_ADAM_1BIT]},
				       z->places.list[u].padded, (uint64_t)z->zero->nranks);
	r->formula_optimizer_bytes = (int64_t)states.optimizer;
	r->formula_bytes = (int64_t)bb_states_sum(&states) + r->second_bytes;
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
	if (m->system_at_first == BB_ABSENT || m->system_before == BB_ABSENT ||
	    m->system_after == BB_ABSENT)
		return;
	r->system_constant_bytes = m->system_before - m->system_at_first;
	r->system_bytes = m->system_after - m->system_before;
	/* The process is measured without the temporary memory, which its runner has freed. */
	r->system_reserved_bytes = (int64_t)(last->reserved - bb_ledger_rounded(z->tmp_bytes)) *
				   (int64_t)z->variant.kernel->engine.run->world.nlocal;
	if (r->system_reserved_bytes >= LEAST_BYTES)
		r->system_error_percent =
			percent_off((double)r->system_bytes, (double)r->system_reserved_bytes);
}

static const char *phase_of(const struct bb_zero_rank *z)
{
	return z->zero->config.onebit.kind == BB_ONEBIT_NONE ? NULL
	       : z->compressed                               ? "compressed"
							     : "warm-up";
}

static bb_status deliver_moments(const struct bb_zero_rank *z)
{
	/* In the order of the points. */
	static const char *const names[] = {"model",    "wrapped",          "forward",
					    "backward", "before optimizer", "after optimizer"};
	struct bb_run *run = z->variant.kernel->engine.run;
	bb_status status = BB_OK;

	bb_ticker_hide(&run->ticker);
	for (size_t i = 0; i < z->nmoments && status == BB_OK; i++) {
		const struct bb_zero_moment *m = &z->moments[i];
		const bool layer = m->point == BB_ZERO_FORWARD || m->point == BB_ZERO_BACKWARD;
		struct bb_zero_moment_record r = {.stage = z->stage,
						  .phase = phase_of(z),
						  .moment = names[m->point],
						  .item = layer ? (int64_t)m->item : BB_ABSENT,
						  .peak_bytes = (int64_t)m->peak};

		USAGE_SET(&r, &m->now);
		status = bb_sinks_record(&run->sinks, &bb_record_zero_moment, &r);
	}
	return status;
}

static void zero_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct zero_sweep *s = (const struct zero_sweep *)k;
	struct zero_stage *m = (struct zero_stage *)bb_kernel_variant(k, setting, 0);
	const struct bb_zero *zero = s->zero;
	const struct bb_zero_rank *z = &m->z;
	struct bb_zero_record *r = record;
	/* Medians of m->times. */
	double *const us[] = {&r->forward_us,
			      &r->backward_us,
			      &r->optimise_us,
			      &r->gather_us,
			      &r->forward_wait_us,
			      &r->backward_wait_us,
			      NULL,
			      NULL,
			      &r->forward_gather_us,
			      &r->backward_gather_us,
			      &r->reduce_us,
			      &r->step_us};
	const size_t ntimes = sizeof(us) / sizeof(*us), most = (size_t)s->steps;

	r->model = zero->options.model_text;
	r->dtype = bb_dtype_name(zero->options.dtype);
	if (z->has_peers)
		r->algorithm = z->variant.taped.program.algorithm ?: "auto";
	r->overlap = overlap_names[zero->options.overlap];
	r->nranks = zero->nranks;
	r->stage = z->stage;
	r->phase = phase_of(z);
	r->rank = z->rank;
	r->parameters = (int64_t)zero->units.elements;
	r->units = (int64_t)zero->units.n;
	r->padding = (int64_t)(z->places.whole - zero->units.elements);
	if (z->stage == 3)
		r->gathered_units = (int64_t)z->most_gathered;
	r->accumulate = zero->options.accumulate;
	r->steps = s->steps;
	r->offload = zero->options.offload;
	r->master = zero->options.dtype != BB_FLOAT ? overlap_names[zero->options.master] : NULL;
	r->rounding = zero->data.bare ? rounding_names[zero->options.rounding] : NULL;
	r->alone = zero->alone;
	fill_memory(m, r);
	if (!zero->alone) {
		r->wire_bytes = (int64_t)z->wire;
		bb_zero_formula_bytes(z, r);
		r->wire_volumes = (double)z->wire / (double)(zero->units.elements *
							     bb_dtype_size(zero->options.dtype));
		/* The duration of a step is that of the slowest rank. */
		for (size_t i = 0; i < m->timed; i++)
			m->times[(ntimes - 1) * most + i] =
				bb_variant_trial(&z->variant)->samples[m->steps[i]];
		for (size_t i = 0; i < ntimes; i++)
			if (us[i])
				*us[i] = 1e6 * bb_stats_median(m->times + i * most, m->timed);
		if (z->stage == 3)
			bb_zero_formula_passes(z, r);
	}
	if (bb_zero_trains(zero, k->engine.run)) {
		snprintf(m->checksum_text, sizeof(m->checksum_text), "%016llx",
			 (unsigned long long)m->checksum);
		r->checksum = m->checksum_text;
		r->loss_scale = z->scale.scale;
		r->skipped = z->scale.skipped;
		r->wrong = bb_variant_trial(&z->variant)->wrong;
		r->updates = (int64_t)(zero->units.elements * z->taken);
		r->drawn = r->updates * zero->nranks * r->accumulate;
		r->flushed = (int64_t)m->flushed;
		if (zero->data.bare)
			r->unchanged = (int64_t)m->unchanged;
		if (zero->data.bare && s->has_reference)
			r->drift = bb_zero_reference_drift(
				&s->references[z->gathers_codes || z->reduces_codes]);
		if (r->wrong != BB_ABSENT)
			r->verified = s->has_reference ? "one rank alone"
				      : z->compressed  ? "error feedback"
						       : "the first stage";
		r->feedback_gap = z->compressed ? m->gap : NAN;
		if (z->gathers_codes)
			r->gather_error = sqrt(s->coding.errors[0] / s->coding.squares[0]);
		if (z->reduces_codes)
			r->reduce_error = sqrt(s->coding.errors[1] / s->coding.squares[1]);
	}
	r->end_unix_s = bb_clock_unix();
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* Keeps the times of a step. One that is skipped takes less time and does not count. */
static void zero_stepped(void *own, size_t step)
{
	struct zero_stage *m = own;
	const struct zero_sweep *s = (const struct zero_sweep *)m->z.variant.kernel;

	if (m->z.scale.skipped == m->z.skipped) {
		for (size_t k = 0; k < BB_ZERO_TIMES; k++)
			m->times[k * (size_t)s->steps + m->timed] = m->z.times[k];
		m->steps[m->timed++] = step;
	}
	memset(m->z.times, 0, sizeof(m->z.times));
	m->z.last = 0;
}

static void zero_rank_set(struct bb_zero_rank *z, struct zero_sweep *s, const struct bb_zero *zero)
{
	z->variant.kernel = &s->kernel;
	z->zero = zero;
	z->blocks = s->blocks;
	z->stage = s->stage;
	z->compressed = s->compressed;
	z->rank = zero->alone ? (int)zero->options.as_rank : s->kernel.engine.driver->rank;
}

/*
 * Run a step with small layers. It allocates what does not depend on the size of the model (code
 * that runs for the first time, stacks, buffers of collectives), so that later growth is due to the
 * model. Collective.
 */
static bb_status rehearse(struct zero_sweep *s, const char *what)
{
	struct bb_engine *e = &s->kernel.engine;
	/* Of a layer: a block per rank. */
	const uint64_t most = BB_ZERO_BLOCK * (uint64_t)(s->zero->alone ? 1 : s->zero->nranks);
	struct bb_zero small = *s->zero;
	uint64_t elements = 0;
	struct bb_zero_rank z = {.rank = 0};
	struct bb_trial trial = {.steps = 1, .optional = true};
	bb_status status;

	if (!e->backend->has_data)
		return BB_OK;
	small.options.accumulate = small.data.microbatches = 1;
	small.data.overflow = 0;
	memset(small.passes, 0, sizeof(small.passes));
	for (size_t u = 0; u < s->zero->units.n; u++)
		elements += s->zero->units.list[u].elements < most ? s->zero->units.list[u].elements
								   : most;
	BB_TRY(status,
	       bb_zero_units_of_size(&small.units, s->zero->units.n, elements, &e->run->error),
	       out);
	small.units.multiple = s->zero->units.multiple;
	small.data.elements = small.units.elements;
	zero_rank_set(&z, s, &small);
	BB_TRY(status, bb_zero_rank_open(&z, 1, NULL), out);
	/* If it cannot run, the stage itself reports that. */
	if (!s->zero->alone) {
		bb_zero_rank_trial(&z, &trial);
		snprintf(trial.what, sizeof(trial.what), "%s", what);
		BB_TRY(status, bb_engine_add(e, &trial, NULL), out);
		BB_TRY(status, bb_engine_measure(e), out);
		BB_TRY(status, check_memory(e, &z), out);
	}
	status = bb_driver_barrier(e->driver);
out:
	if (status != BB_OK)
		bb_driver_abandon(e->driver);
	bb_zero_rank_close(&z.variant);
	bb_zero_units_free(&small.units);
	return status;
}

static bb_status zero_write(struct bb_variant *variant, struct bb_trial *trial,
			    const char **refusal)
{
	static const char *const names[] = {"stage 0", "stage 1", "stage 2", "stage 3"};
	struct zero_stage *m = (struct zero_stage *)variant;
	struct zero_sweep *s = (struct zero_sweep *)variant->kernel;
	const struct bb_zero *zero = s->zero;
	const int64_t warm = zero->alone ? 0 : s->kernel.engine.run->options.warmup_iters;
	const size_t steps = (size_t)s->steps;
	bb_status status = BB_OK;

	trial->optional = true;
	variant->subject = names[s->stage];
	variant->dtype = bb_dtype_name(zero->options.dtype);
	variant->release = bb_zero_rank_close;
	snprintf(trial->what, sizeof(trial->what), "ZeRO stage %d of %.32s", s->stage,
		 zero->options.model_text);
	*refusal = *zero->skips[s->stage] ? zero->skips[s->stage] : NULL;
	if (*refusal)
		return BB_OK;
	m->times = bb_kernel_keep(&s->kernel, (BB_ZERO_TIMES + 1) * steps, sizeof(double));
	m->steps = bb_kernel_keep(&s->kernel, steps, sizeof(*m->steps));
	if (!m->times || !m->steps)
		return BB_EINTERNAL;
	BB_TRY(status, bb_engine_begin(&s->kernel.engine, trial->what), out);
	m->system_at_first = m->system_before = BB_ABSENT;
	if (!s->compressed) {
		BB_TRY(status, measure_system(s, &m->system_at_first), out);
		BB_TRY(status, rehearse(s, trial->what), out);
		BB_TRY(status, measure_system(s, &m->system_before), out);
	}
	zero_rank_set(&m->z, s, zero);
	BB_TRY(status, bb_zero_rank_open(&m->z, s->steps, s->compressed ? s->before : NULL), out);
	bb_zero_rank_trial(&m->z, trial);
	trial->steps = (size_t)(s->steps - warm);
	trial->warm = (size_t)warm;
	trial->stepped = zero_stepped;
out:
	return status;
}

static bb_status zero_open(struct bb_engine *engine)
{
	struct zero_sweep *s = (struct zero_sweep *)engine;
	const struct bb_run *run = engine->run;
	const struct bb_zero *zero = s->zero = run->own;
	const struct bb_zero_data *d = &zero->data;
	const bool trains = bb_zero_trains(zero, run);
	const int64_t warm = run->options.warmup_iters, all = warm + zero->options.iters;
	const int64_t overflow = trains ? d->overflow : 0;
	const uint64_t drawn = d->elements * (uint64_t)d->nranks * (uint64_t)d->microbatches;
	const bool codes = (zero->options.qwz || zero->options.qgz) && d->nranks > 1 &&
			   zero->options.stages >> 3;
	bb_status status = BB_OK;

	/* The requested steps, and one more if a timed one overflows. A rank alone runs one that
	   allocates everything, and one that reuses it. */
	s->steps = zero->alone ? 2 : all + (overflow > warm && overflow <= all);
	s->blocks = bb_kernel_keep(&s->kernel, BB_ZERO_BLOCKS, sizeof(*s->blocks));
	if (!s->blocks)
		return BB_EINTERNAL;
	if (bb_engine_leads(engine))
		bb_ticker_start(&engine->run->ticker, BB_ZERO_STAGES, 0);
	s->coding = (struct bb_zero_coding){.units = &zero->units,
					    .data = d,
					    .gathers = zero->options.qwz,
					    .local = (int)zero->options.qgz};
	/* The reference is trained if results are checked and the model is small enough. */
	if (!trains || run->options.check == 0 ||
	    d->elements * (zero->config.onebit.kind ? (uint64_t)d->nranks : 1) > MOST_CHECKED ||
	    drawn > MOST_DRAWN / (uint64_t)s->steps)
		return BB_OK;
	for (int coded = 0; coded <= codes && status == BB_OK; coded++) {
		struct bb_zero_reference *r = &s->references[coded];

		if (coded)
			BB_TRY(status, bb_zero_coding_open(&s->coding, &engine->run->error), out);
		BB_TRY(status, bb_zero_reference_open(r, d, &zero->scale, &engine->run->error),
		       out);
		r->coder = coded ? &s->coding.coder : NULL;
		if (zero->config.onebit.kind != BB_ONEBIT_NONE)
			r->onebit = &zero->config.onebit;
		s->has_reference = true;
		for (int64_t step = 1; step <= s->steps; step++)
			bb_zero_reference_step(r, step);
	}
out:
	return status;
}

/* Measures a stage, or a phase of it. A rank alone runs nothing. */
static bb_status measure_stage(struct zero_sweep *s)
{
	struct bb_engine *e = &s->kernel.engine;
	struct bb_kernel *k = &s->kernel;
	const size_t setting = k->settings;
	struct zero_stage *m;
	bb_status status;

	BB_TRY(status, bb_kernel_sweep(k, 1, 1, sizeof(*m), zero_write), out);
	m = (struct zero_stage *)bb_kernel_variant(k, setting, 0);
	if (!s->zero->alone)
		BB_TRY(status, bb_engine_measure(e), out);
	if (!bb_kernel_refusal(k, setting)) {
		BB_TRY(status, check_memory(e, &m->z), out);
		BB_TRY(status, measure_system(s, &m->system_after), out);
		BB_TRY(status, verify_stage(s, m), out);
		if (bb_engine_leads(e))
			BB_TRY(status, deliver_moments(&m->z), out);
	}
	if (bb_engine_leads(e)) {
		BB_TRY(status,
		       bb_kernel_deliver_setting(k, setting, &bb_record_zero, zero_describe), out);
		bb_ticker_step(&e->run->ticker, 0);
	}
	/* Other ranks may still read the memory of this one. */
	BB_TRY(status, bb_driver_barrier(e->driver), out);
	if (s->before)
		bb_zero_rank_close(&s->before->variant);
	s->before = &m->z;
out:
	return status;
}

static bb_status zero_run(struct bb_engine *e)
{
	struct zero_sweep *s = (struct zero_sweep *)e;
	struct bb_zero_reference *reference = &s->references[0];
	bb_status status = BB_OK;

	for (s->stage = 0; s->stage < BB_ZERO_STAGES; s->stage++) {
		if (!(s->zero->options.stages >> s->stage & 1))
			continue;
		BB_TRY(status, measure_stage(s), out);
		s->compressed = s->zero->config.onebit.kind != BB_ONEBIT_NONE;
		if (s->compressed && s->has_reference) {
			BB_TRY(status,
			       bb_zero_reference_compress(reference, &s->zero->units,
							  &e->run->error),
			       out);
			for (int64_t step = 1; step <= s->steps; step++)
				bb_zero_reference_step(reference, s->steps + step);
		}
		if (s->compressed)
			BB_TRY(status, measure_stage(s), out);
		bb_zero_rank_close(&s->before->variant);
		s->before = NULL;
	}
out:
	return status;
}

/* The phases of the steps, below the rows. */
static bb_status zero_deliver(struct bb_engine *engine)
{
	const struct zero_sweep *s = (struct zero_sweep *)engine;
	struct bb_strbuf out = {0};

	if (engine->run->end.results == 0)
		return bb_fail(&engine->run->error, BB_EUNSUPPORTED,
			       "no stage can run with these options: see the skipped ones");
	for (size_t i = 0; i < s->kernel.settings && !s->zero->alone; i++) {
		const struct bb_zero_record *r = bb_kernel_variant(&s->kernel, i, 0)->record;

		if (!r)
			continue;
		bb_strbuf_addf(
			&out,
			"# stage %jd%s%s: forward %.2f ms (waits %.2f), backward %.2f (waits "
			"%.2f), optimizer %.2f, gather %.2f",
			r->stage, r->phase ? ", " : "", r->phase ?: "", 1e-3 * r->forward_us,
			1e-3 * r->forward_wait_us, 1e-3 * r->backward_us,
			1e-3 * r->backward_wait_us, 1e-3 * r->optimise_us, 1e-3 * r->gather_us);
		if (r->skipped != BB_ABSENT)
			bb_strbuf_addf(&out, "; %jd of %jd steps skipped, loss scale %g",
				       r->skipped, r->steps, r->loss_scale);
		if (!isnan(r->feedback_gap))
			bb_strbuf_addf(&out,
				       "; signs %.3f MB by the formula, nothing lost beyond %.1e",
				       1e-6 * (double)r->formula_wire_bytes, r->feedback_gap);
		if (r->unchanged != BB_ABSENT)
			bb_strbuf_addf(&out, "; rounding undid %.1f%% of the updates",
				       100.0 * (double)r->unchanged / (double)r->updates);
		if (!isnan(r->drift))
			bb_strbuf_addf(&out, ", drift %.3g%% of the movement in fp32",
				       100 * r->drift);
		if (r->flushed > 0)
			bb_strbuf_addf(&out, "; %.1f%% of the gradients flushed to 0",
				       100.0 * (double)r->flushed / (double)r->drawn);
		bb_strbuf_add(&out, "\n");
		bb_zero_formula_add(&s->zero->options, r, &out);
	}
	return bb_engine_comment_lines(engine, &out);
}

static void zero_close(struct bb_engine *engine)
{
	struct zero_sweep *s = (struct zero_sweep *)engine;

	for (int coded = 0; coded < 2; coded++)
		bb_zero_reference_close(&s->references[coded]);
	bb_zero_coding_close(&s->coding);
	bb_kernel_close(engine);
}

static const struct bb_experiment zero_experiment = {
	.bytes = sizeof(struct zero_sweep),
	.open = zero_open,
	.run = zero_run,
	.deliver = zero_deliver,
	.close = zero_close,
};

/* ---- the benchmark --------------------------------------------------------------------------- */

static void add_heading(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_zero *zero = run->own;

	bb_strbuf_add(out, "# MB: 1e6 bytes, of one rank at its peak. formula: states by the ZeRO "
			   "paper (Rajbhandari et al.), with padding;\n"
			   "# comm: gathered layers, buckets, buffers of collectives; frag: "
			   "allocated but not held; wire: sent by a rank per step\n");
	if (zero->config.onebit.kind != BB_ONEBIT_NONE)
		bb_strbuf_add(out, "# -w and -n count the steps of each phase; freeze_step "
				   "is not simulated\n");
	if (zero->options.ds_config)
		bb_strbuf_addf(out, "# --ds-config %.200s: ignored: %s\n", zero->options.ds_config,
			       *zero->ignored ? zero->ignored : "nothing");
	bb_ds_config_add_saving(&zero->config, 8 * (int)bb_dtype_size(zero->options.dtype), out);
}

static void zero_free(struct bb_run *run)
{
	bb_zero_units_free(&((struct bb_zero *)run->own)->units);
}

const struct bb_benchmark bb_zero_benchmark = {
	.brief = "ZeRO: memory, traffic and results of a mixed-precision Adam step under each "
		 "stage.",
	.examples = {"-g 4", "--model gpt2 --stages 3 --as-rank 0 --world 64"},
	.own_bytes = sizeof(struct bb_zero),
	.options = zero_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses =
		{{BB_ALL_SIZES " precision",
		  "no size is swept; leave it out: --model sets the size, -n the number of steps"}},
	.queues = true,
	.check = zero_check,
	.list = bb_model_list,
	.text = &bb_sink_table,
	.rows = &bb_record_zero,
	.plan = zero_plan,
	.experiment = &zero_experiment,
	.tell = add_heading,
	.close = zero_free,
};
