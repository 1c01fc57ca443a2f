#include "training_kernels/kernel/kernel.h"

#include "core/array.h"
#include "core/units.h"
#include "simulator/cluster/cluster.h"
#include "topology/systems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- before a run ---------------------------------------------------------------------------- */

bb_status bb_estimate_room(struct bb_run *run, uint64_t bytes, const char *option,
			   const char *value, const char *data, const char *give)
{
	const uint64_t all = bytes * (uint64_t)run->world.nlocal;
	char need[BB_UNIT_TEXT], have[BB_UNIT_TEXT];

	if (all <= run->memory)
		return BB_OK;
	return bb_fail(&run->error, BB_EUNSUPPORTED,
		       "%s %s: %s take %s on %d rank%s, there is room for %s; give %s", option,
		       value, data, bb_format_bytes(need, all), run->world.nlocal,
		       bb_plural(run->world.nlocal), bb_format_bytes(have, run->memory), give);
}

bb_status bb_estimate_capacity(struct bb_capacity *capacity, const char *option, int64_t memory,
			       bool given, int64_t reserve, const struct bb_cluster *cluster,
			       struct bb_error *error)
{
	const struct bb_system *const system =
		cluster && !given ? bb_system_find(cluster->node->name) : NULL;
	const struct bb_system_gpu *const gpu = system ? system->gpu : NULL;

	return bb_capacity_open(capacity, option, gpu ? (uint64_t)gpu->gib << 30 : (uint64_t)memory,
				gpu ? gpu->card : NULL, (uint64_t)reserve, error);
}

int bb_estimate_ranks(const struct bb_options *o, const struct bb_environment *environment)
{
	const int nprocs = environment->launch.nprocs;

	return (int)(o->threads * o->gpus) * (nprocs > 1 ? nprocs : 1);
}

const char *bb_estimate_noise(const struct bb_run *run)
{
	return run->record.virtual_time && isnan(run->record.link_noise) ? NULL : "95% confidence";
}

void bb_estimate_set_ranks(struct bb_options *o, const struct bb_environment *environment,
			   int64_t n)
{
	if (!o->threads_given && !o->gpus_given && environment->launch.nprocs <= 1 &&
	    o->backend->max_local > 1)
		o->gpus = n;
}

/* ---- a replica ------------------------------------------------------------------------------- */

const char *const bb_replica_dtypes[] = {"float", "half", "bfloat16", "double", NULL};

bb_status bb_replica_open(struct bb_replica *r, const struct bb_replica_request *q,
			  const struct bb_options *o, struct bb_error *error)
{
	const struct bb_model *m = &r->model;
	double flops, per_flop;
	bb_status status;

	r->request = *q;
	BB_TRY(status, bb_model_open(&r->model, q->model, q->seq, error), out);
	bb_attention_apply(&r->model, q->attention);
	flops = m->forward + m->backward;
	r->batch_s = q->flops > 0 ? flops * (double)q->batch / q->flops : 1e-9 * (double)q->step_ns;
	per_flop = q->flops > 0 ? (double)q->batch / q->flops : r->batch_s / flops;
	r->forward_s = m->forward * per_flop;
	r->backward_s = m->backward * per_flop;
	r->bytes = m->parameters * bb_dtype_size(q->dtype);
	status = bb_estimate_capacity(&r->capacity, "--memory", (int64_t)q->memory, q->memory_given,
				      (int64_t)q->reserve, o->cluster, error);
out:
	return status;
}

bb_status bb_replica_judge(struct bb_replica *r, int nranks, struct bb_error *error)
{
	static const struct bb_precision doubles = {"fp64", 8, 8, 0, 8};
	static const struct bb_precision bytes = {"mixed", 2, 1, 4, 4}; /* gradients in fp8 */
	const enum bb_dtype dtype = r->request.dtype;
	struct bb_training training = bb_training_alone(&r->model);

	if (dtype == BB_DOUBLE || dtype == BB_FLOAT)
		training.recipe.precision =
			dtype == BB_DOUBLE ? &doubles : &bb_precisions[BB_ALL_FP32];
	else if (bb_dtype_size(dtype) == 1)
		training.recipe.precision = &bytes;
	training.dp = (uint64_t)nranks;
	training.eager = r->request.attention == BB_ATTENTION_EAGER;
	training.micro_batch = (uint64_t)r->request.batch;
	return bb_fit_judge(&r->fit, &training, r->capacity.usable, error);
}

bb_status bb_replica_plan(struct bb_replica *r, struct bb_run *run, uint64_t copies,
			  const char *data, const char *give)
{
	const bb_status status = bb_replica_judge(r, run->world.nranks, &run->error);

	return status == BB_OK ? bb_estimate_room(run, copies * r->bytes, "--model",
						  r->request.model, data, give)
			       : status;
}

/* ---- a driver's state ------------------------------------------------------------------------ */

struct bb_kernel_memory {
	struct bb_kernel_memory *next;
	max_align_t memory[];
};

void *bb_kernel_keep(struct bb_kernel *k, size_t n, size_t bytes)
{
	struct bb_kernel_memory *m = NULL;

	if (bytes == 0 || n < (SIZE_MAX - sizeof(*m)) / bytes)
		m = calloc(1, sizeof(*m) + n * bytes);
	if (!m) {
		(void)bb_no_memory(&k->engine.run->error, "the steps");
		return NULL;
	}
	m->next = k->memory;
	k->memory = m;
	return m->memory;
}

/* Appends VARIANT, which may be among the others. */
static bb_status variant_place(struct bb_kernel *k, struct bb_variant *v)
{
	return BB_ARRAY_PUT(k->variants, k->nvariants, k->room, v)
		       ? BB_OK
		       : bb_no_memory(&k->engine.run->error, "the steps");
}

void *bb_variant_new(struct bb_kernel *k, size_t bytes)
{
	struct bb_variant *v = bb_kernel_keep(k, 1, bytes);

	if (!v)
		return NULL;
	v->kernel = k;
	v->place = k->nvariants;
	return variant_place(k, v) == BB_OK ? v : NULL;
}

bb_status bb_variant_add(struct bb_variant *v, const struct bb_trial *trial, const char *refusal,
			 const char *format, ...)
{
	struct bb_trial own = *trial;
	va_list args;

	va_start(args, format);
	vsnprintf(own.what, sizeof(own.what), format, args);
	va_end(args);
	if (v->known.failed)
		return bb_no_memory(&v->kernel->engine.run->error, "a step's data");
	own.workload.own = v;
	if (!own.workload.program)
		own.workload.program = &v->taped.program;
	v->trial = v->kernel->engine.ntrials;
	return bb_engine_add(&v->kernel->engine, &own, refusal);
}

/* ---- known data ------------------------------------------------------------------------------ */

void bb_known_add(struct bb_known *k, enum bb_known_use use, char *at,
		  const struct bb_patterns *patterns, int rank, size_t first, size_t count)
{
	const bool exists = at && count > 0;
	struct bb_region *added = exists ? BB_ARRAY_ADD(k->list, k->n, k->room) : NULL;

	k->failed |= exists && !added;
	if (added)
		*added = (struct bb_region){use, at, patterns, rank, first, count};
}

char *bb_known_lay_out(struct bb_known *k, size_t count, enum bb_dtype dtype,
		       const struct bb_patterns *patterns, int rank, size_t first)
{
	char *const here = k->memory ? k->memory + k->bytes : NULL;

	k->bytes += (count * bb_dtype_size(dtype) + 63) / 64 * 64;
	bb_known_add(k, BB_KNOWN_FILL, here, patterns, rank, first, count);
	return here;
}

/* Fills the data of V or, with WRONG, verifies it. */
static bb_status known_visit(const struct bb_variant *v, uint64_t *wrong)
{
	struct bb_engine *e = &v->kernel->engine;
	bb_status status = BB_OK;

	for (size_t i = 0; i < v->known.n && status == BB_OK; i++) {
		const struct bb_region *r = &v->known.list[i];

		if (wrong && r->use != BB_KNOWN_FILL)
			status = bb_engine_verify(e, r->at, r->patterns, r->rank, r->first,
						  r->count, wrong);
		else if (!wrong && r->use == BB_KNOWN_FILL)
			status = bb_engine_fill(e, r->at, r->patterns, r->rank, r->first, r->count);
	}
	return status;
}

static bb_status known_fill(void *own)
{
	return known_visit(own, NULL);
}

static bb_status known_verify(void *own, uint64_t *wrong)
{
	return known_visit(own, wrong);
}

static int known_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	const struct bb_known *k = &((struct bb_variant *)own)->known;
	int n = 0;

	for (size_t i = 0; i < k->n && n < BB_MOST_VICTIMS; i++)
		if (k->list[i].use == BB_KNOWN_VICTIM)
			victims[n++] = k->list[i].at;
	return n;
}

const struct bb_expectation bb_known_expectation = {known_fill, known_victims, known_verify};

/* ---- sweeps ---------------------------------------------------------------------------------- */

bb_status bb_kernel_add(struct bb_kernel *k, size_t setting, int part, size_t bytes,
			bb_variant_write *write)
{
	struct bb_variant *v = bb_variant_new(k, bytes);
	struct bb_trial trial = {.what = ""};
	const char *refusal = NULL;

	if (!v)
		return BB_EINTERNAL;
	v->setting = setting;
	v->part = part;
	const bb_status status = write(v, &trial, &refusal);
	return status == BB_OK ? bb_variant_add(v, &trial, refusal, "%s", trial.what) : status;
}

bb_status bb_kernel_sweep(struct bb_kernel *k, size_t settings, int parts, size_t bytes,
			  bb_variant_write *write)
{
	const size_t end = k->settings + settings;
	bb_status status = BB_OK;

	k->parts = parts;
	for (; k->settings < end && status == BB_OK; k->settings++)
		for (int part = 0; part < parts && status == BB_OK; part++) {
			const size_t own = k->settings;
			const size_t first = k->first ? k->first(k, own, part) : own;

			status = first == own ? bb_kernel_add(k, own, part, bytes, write)
					      : variant_place(k, bb_kernel_variant(k, first, part));
		}
	return status;
}

const struct bb_trial *bb_kernel_trial(const struct bb_kernel *k, size_t setting, int part)
{
	return bb_variant_trial(bb_kernel_variant(k, setting, part));
}

double bb_kernel_median(const struct bb_kernel *k, size_t setting, int part)
{
	return bb_kernel_trial(k, setting, part)->stats.p50;
}

const char *bb_kernel_refusal(const struct bb_kernel *k, size_t setting)
{
	const char *refusal = NULL;

	for (int part = 0; part < k->parts && !refusal; part++)
		refusal = bb_kernel_trial(k, setting, part)->refusal;
	return refusal;
}

bb_status bb_kernel_deliver_setting(struct bb_kernel *k, size_t setting,
				    const struct bb_record_kind *kind, bb_kernel_describe *describe)
{
	const char *refusal = bb_kernel_refusal(k, setting);
	int64_t wrong = BB_ABSENT;

	for (int part = 0; part < k->parts && refusal; part++) {
		const struct bb_variant *v = bb_kernel_variant(k, setting, part);

		if (v->subject && v->setting == setting)
			return bb_engine_skip_subject(&k->engine, v->subject, v->algorithm,
						      v->dtype, refusal);
	}
	if (refusal)
		return BB_OK;
	void *const record = bb_kernel_keep(k, 1, kind->size);
	if (!record)
		return BB_EINTERNAL;
	bb_record_init(kind, record);
	describe(k, setting, record);
	bb_kernel_variant(k, setting, 0)->record = record;
	for (int part = 0; part < k->parts && wrong == BB_ABSENT; part++)
		wrong = bb_kernel_trial(k, setting, part)->wrong;
	return bb_engine_deliver(&k->engine, kind, record, wrong);
}

bb_status bb_kernel_deliver(struct bb_kernel *k, const struct bb_record_kind *kind,
			    bb_kernel_describe *describe)
{
	struct bb_run *run = k->engine.run;
	const int64_t skipped = run->end.skipped;
	const char *reason = NULL;
	bool any = false;
	bb_status status = BB_OK;

	for (int runs = 0; runs < 2 && status == BB_OK; runs++) {
		for (size_t i = 0; i < k->settings && status == BB_OK; i++) {
			const char *refusal = bb_kernel_refusal(k, i);

			any |= !refusal;
			reason = reason ? reason : refusal;
			if (runs == !refusal)
				status = bb_kernel_deliver_setting(k, i, kind, describe);
		}
		if (status == BB_OK && reason && (!any || run->end.skipped == skipped))
			status = bb_fail(&run->error, BB_EUNSUPPORTED, "%s", reason);
	}
	return status;
}

void bb_kernel_in_place(const struct bb_operation *o, int place, char *all, void **in, void **out)
{
	char *own = all + bb_operation_bytes(o) * (size_t)place;

	*in = o->collective == &bb_all_gather ? own : all;
	*out = o->collective == &bb_reduce_scatter ? own : all;
}

void bb_kernel_close(struct bb_engine *engine)
{
	struct bb_kernel *k = (struct bb_kernel *)engine;

	bb_engine_clear(engine);
	for (size_t i = 0; i < k->nvariants; i++) {
		struct bb_variant *v = k->variants[i];

		if (v->place != i)
			continue;
		bb_taped_free(&v->taped);
		free(v->known.list);
		if (v->release)
			v->release(v);
	}
	free(k->variants);
	k->variants = NULL;
	k->nvariants = k->room = k->settings = 0;
	while (k->memory) {
		struct bb_kernel_memory *m = k->memory;

		k->memory = m->next;
		free(m);
	}
}

/* ---- the best -------------------------------------------------------------------------------- */

void bb_best_add(struct bb_best *best, struct bb_candidate candidate, const char *format, ...)
{
	struct bb_candidate *added = BB_ARRAY_ADD(best->list, best->choice.n, best->room);
	va_list args;

	best->failed |= !added;
	if (!added)
		return;
	*added = candidate;
	va_start(args, format);
	vsnprintf(added->name, sizeof(added->name), format, args);
	va_end(args);
}

struct bb_candidate bb_best_steps(const struct bb_trial *trial, double per, const void *own)
{
	return (struct bb_candidate){.seconds = trial->stats.p50 / per,
				     .low = trial->stats.ci_low / per,
				     .high = trial->stats.ci_high / per,
				     .own = own};
}

void bb_best_recommend(struct bb_best *best, struct bb_strbuf *out)
{
	out->failed |= best->failed;
	best->choice.list = best->list;
	bb_recommend(&best->choice, out);
	free(best->list);
}

/* ---- error memory ---------------------------------------------------------------------------- */

#define UNITS 0x1p44 /* of a balance in whole numbers */
#define MOST_OPEN 0x1p17
#define ROUNDING 1e-5 /* many times what rounding to fp32 comes to, relative */

bb_status bb_kernel_settle(struct bb_engine *e, const struct bb_coded_balance *b, int nranks,
			   double *gap, bool *broken)
{
	const bool diverged = !(fabs(b->open) < MOST_OPEN && b->squares < MOST_OPEN);
	uint64_t sums[3] = {diverged ? 0 : (uint64_t)llrint(b->open * UNITS),
			    diverged ? 0 : (uint64_t)llrint(b->squares * UNITS / nranks), diverged};
	const bb_status status = bb_engine_sum(e, sums, 3);
	const double open = (double)(int64_t)sums[0] / UNITS / nranks;

	*gap = sums[2] > 0 ? NAN : sums[1] > 0 ? fabs(open) / sqrt((double)sums[1] / UNITS) : 0;
	*broken = *gap > ROUNDING;
	return status;
}
