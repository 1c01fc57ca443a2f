#include "training_kernels/kernel/kernel.h"

#include "core/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

void *bb_variant_new(struct bb_kernel *k, size_t bytes)
{
	struct bb_variant *v = bb_kernel_keep(k, 1, bytes);
	struct bb_variant **place = v ? BB_ARRAY_ADD(k->variants, k->nvariants, k->room) : NULL;

	if (v && !place)
		(void)bb_no_memory(&k->engine.run->error, "the steps");
	if (!place)
		return NULL;
	v->kernel = k;
	return *place = v;
}

bb_status bb_variant_add(struct bb_variant *v, const struct bb_trial *trial, const char *refusal,
			 const char *format, ...)
{
	struct bb_trial own = *trial;
	va_list args;

	va_start(args, format);
	vsnprintf(own.what, sizeof(own.what), format, args);
	va_end(args);
	own.workload.own = v;
	if (!own.workload.program)
		own.workload.program = &v->taped.program;
	v->trial = v->kernel->engine.ntrials;
	return bb_engine_add(&v->kernel->engine, &own, refusal);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

bb_status bb_kernel_sweep(struct bb_kernel *k, size_t settings, int parts, size_t bytes,
			  bb_variant_write *write)
{
	bb_status status = BB_OK;

	k->parts = parts;
	for (size_t i = 0; i < settings * (size_t)parts && status == BB_OK; i++) {
		struct bb_variant *v = bb_variant_new(k, bytes);
		struct bb_trial trial = {.what = ""};
		const char *refusal = NULL;

		if (!v)
			return BB_EINTERNAL;
		v->setting = i / (size_t)parts;
		v->part = (int)(i % (size_t)parts);
		status = write(v, &trial, &refusal);
		if (status == BB_OK)
			status = bb_variant_add(v, &trial, refusal, "%s", trial.what);
	}
	return status;
}

const struct bb_trial *bb_kernel_trial(const struct bb_kernel *k, size_t setting, int part)
{
	return bb_variant_trial(k->variants[setting * (size_t)k->parts + (size_t)part]);
}

const char *bb_kernel_refusal(const struct bb_kernel *k, size_t setting)
{
	const char *refusal = NULL;

	for (int part = 0; part < k->parts && !refusal; part++)
		refusal = bb_kernel_trial(k, setting, part)->refusal;
	return refusal;
}

bb_status bb_kernel_deliver(struct bb_kernel *k, const struct bb_record_kind *kind,
			    void (*describe)(const struct bb_kernel *k, size_t setting,
					     void *record),
			    void (*skip)(const struct bb_kernel *k, size_t setting,
					 struct bb_skip_record *skip))
{
	const size_t settings = k->nvariants / (size_t)k->parts;
	void *record = bb_kernel_keep(k, 1, kind->size);
	bb_status status = record ? BB_OK : BB_EINTERNAL;

	for (size_t i = 0; i < settings && status == BB_OK; i++) {
		struct bb_skip_record skipped;
		const char *refusal = bb_kernel_refusal(k, i);

		if (refusal && !skip)
			return bb_fail(&k->engine.run->error, BB_EUNSUPPORTED, "%s", refusal);
		if (!refusal)
			continue;
		bb_record_init(&bb_record_skip, &skipped);
		skipped.reason = refusal;
		skip(k, i, &skipped);
		status = bb_engine_skip(&k->engine, &skipped);
	}
	for (size_t i = 0; i < settings && status == BB_OK; i++) {
		if (bb_kernel_refusal(k, i))
			continue;
		bb_record_init(kind, record);
		describe(k, i, record);
		status = bb_engine_deliver(&k->engine, kind, record,
					   bb_kernel_trial(k, i, 0)->wrong);
	}
	return status;
}

void bb_kernel_close(struct bb_engine *engine)
{
	bb_kernel_clear((struct bb_kernel *)engine);
}

void bb_kernel_clear(struct bb_kernel *k)
{
	bb_engine_clear(&k->engine);
	for (size_t i = 0; i < k->nvariants; i++) {
		bb_taped_free(&k->variants[i]->taped);
		if (k->variants[i]->release)
			k->variants[i]->release(k->variants[i]);
	}
	free(k->variants);
	k->variants = NULL;
	k->nvariants = k->room = 0;
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
