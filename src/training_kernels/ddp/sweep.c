#include "training_kernels/ddp/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes of buckets ------------------------------------------------------------------------ */

static bb_status ddp_no_memory(struct bb_ddp_sweep *s)
{
	return bb_no_memory(&s->engine.run->error, "the buckets");
}

/* The time at which each bucket is complete, and its offset. */
static bb_status cap_lay_out(struct bb_ddp_sweep *s, struct bb_ddp_layout *layout)
{
	const struct bb_model *model = &s->ddp->model;
	const struct bb_buckets *buckets = &layout->cap.buckets;
	double *ready = calloc(model->ntensors, sizeof(*ready));
	size_t offset = 0;

	layout->ready_s = calloc(buckets->n, sizeof(*layout->ready_s));
	layout->offsets = calloc(buckets->n, sizeof(*layout->offsets));
	if (!ready || !layout->ready_s || !layout->offsets) {
		free(ready);
		return ddp_no_memory(s);
	}
	bb_model_ready(model, s->backward_s, ready);
	for (size_t k = 0; k < buckets->n; k++) {
		const struct bb_bucket *b = &buckets->list[k];

		layout->ready_s[k] = ready[b->first + b->count - 1];
		layout->offsets[k] = offset;
		offset += (size_t)b->elements;
	}
	free(ready);
	return BB_OK;
}

/* The index of BYTES among the caps; ncaps: none. */
static size_t cap_index(const struct bb_ddp_sweep *s, uint64_t bytes)
{
	size_t i = 0;

	while (i < s->ncaps && s->caps[i].cap.bytes != bytes)
		i++;
	return i;
}

static bb_status add_cap(struct bb_ddp_sweep *s, uint64_t bytes)
{
	struct bb_ddp_layout *layout = &s->caps[s->ncaps];
	bb_status status;

	if (cap_index(s, bytes) < s->ncaps)
		return BB_OK;
	s->ncaps++;
	BB_TRY(status, bb_ddp_cap_make(&layout->cap, s->ddp, bytes, &s->engine.run->error), out);
	while (!bb_buckets_are_same(&s->caps[layout->same].cap.buckets, &layout->cap.buckets))
		layout->same++;
	status = cap_lay_out(s, layout);
out:
	return status;
}

static bb_status make_caps(struct bb_ddp_sweep *s)
{
	const struct bb_ddp_options *a = &s->ddp->options;
	const uint64_t others[] = {BB_DDP_DEFAULT_CAP, BB_BUCKET_UNLIMITED, 1};
	bb_status status = BB_OK;

	s->caps = calloc(a->caps.n + 3, sizeof(*s->caps));
	if (!s->caps)
		return ddp_no_memory(s);
	for (size_t i = 0; i < a->caps.n && status == BB_OK; i++)
		status = add_cap(s, a->caps.list[i]);
	for (size_t i = 0; i < 3 && status == BB_OK; i++)
		status = add_cap(s, others[i]);
	return status;
}

/* ---- observation of steps -------------------------------------------------------------------- */

/* Ranks that this driver observes. */
static int observed_ranks(const struct bb_ddp_sweep *s)
{
	return bb_engine_is_virtual(&s->engine) ? s->engine.run->world.nranks : 1;
}

static void ddp_observe(void *own, int rank, size_t index, const struct bb_operation *operation,
			double from, double to, int source)
{
	struct bb_ddp_trial *t = own;
	struct bb_ddp_stamps *stamps = &t->stamps;
	const size_t last = t->program.step.microbatches * stamps->nbuckets - 1;
	const int round = stamps->rounds;
	bool final;

	if (round == BB_ENGINE_MOST_ROUNDS)
		return;
	if (t->part == BB_DDP_REDUCTIONS) {
		double *end =
			&stamps->ends[operation->item * BB_ENGINE_MOST_ROUNDS + (size_t)round];

		*end = to > *end ? to : *end;
		final = operation->item == stamps->nbuckets - 1;
	} else {
		final = operation->work == BB_DDP_BACKWARD && operation->item == last;
		if (operation->work == BB_DDP_BACKWARD && operation->item % stamps->nbuckets == 0)
			stamps->begin = from;
		if (final)
			stamps->backward_s[round] =
				fmax(stamps->backward_s[round], to - stamps->begin);
	}
	stamps->finals += final;
	if (stamps->finals == observed_ranks(t->sweep)) {
		stamps->finals = 0;
		stamps->rounds++;
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

static char *bucket_of(const struct bb_ddp_trial *t, size_t bucket)
{
	const struct bb_ddp_sweep *s = t->sweep;

	return s->gradients +
	       s->caps[t->cap].offsets[bucket] * bb_dtype_size(s->ddp->options.dtype);
}

static void ddp_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			void **out)
{
	*in = *out = bucket_of(own, operation->item);
}

/* The pattern continues from bucket to bucket, so that all differ. */
static bb_status ddp_fill(void *own)
{
	const struct bb_ddp_trial *t = own;
	struct bb_engine *e = &t->sweep->engine;
	const struct bb_ddp_layout *layout = &t->sweep->caps[t->cap];
	bb_status status = BB_OK;

	for (size_t k = 0; k < layout->cap.buckets.n && status == BB_OK; k++)
		status = bb_engine_fill(e, bucket_of(t, k), t->sweep->patterns, e->driver->rank,
					layout->offsets[k],
					(size_t)layout->cap.buckets.list[k].elements);
	return status == BB_OK ? e->backend->finish(e->rank, NULL) : status;
}

static int ddp_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	const struct bb_ddp_trial *t = own;

	victims[0] = t->sweep->gradients + t->sweep->bytes / 2;
	return 1;
}

/* The result must be the average of the gradients of all ranks. */
static bb_status ddp_verify(void *own, uint64_t *wrong)
{
	const struct bb_ddp_trial *t = own;
	const struct bb_ddp_layout *layout = &t->sweep->caps[t->cap];
	bb_status status = BB_OK;

	for (size_t k = 0; k < layout->cap.buckets.n && status == BB_OK; k++)
		status = bb_engine_verify(&t->sweep->engine, bucket_of(t, k), t->sweep->patterns,
					  BB_REDUCED, layout->offsets[k],
					  (size_t)layout->cap.buckets.list[k].elements, wrong);
	return status;
}

static const struct bb_expectation expectation = {ddp_fill, ddp_victims, ddp_verify};

/* ---- programs -------------------------------------------------------------------------------- */

static void name_trial(const struct bb_ddp_trial *t, char what[BB_WHAT_TEXT])
{
	const struct bb_ddp_sweep *s = t->sweep;
	const char *cap = s->caps[t->cap].cap.name;
	const char *algorithm = s->ddp->options.algorithms[t->algorithm];

	switch (t->part) {
	case BB_DDP_ALONE:
		snprintf(what, BB_WHAT_TEXT, "computations alone");
		break;
	case BB_DDP_START:
		snprintf(what, BB_WHAT_TEXT, "broadcast of parameters, %s", algorithm);
		break;
	case BB_DDP_REDUCTIONS:
		snprintf(what, BB_WHAT_TEXT, "reductions, buckets %s, %s", cap, algorithm);
		break;
	default:
		snprintf(what, BB_WHAT_TEXT, "step, buckets %s, %s, overlap %s", cap, algorithm,
			 t->overlap ? "on" : "off");
	}
}

/* FLOPs per second, for the requested time of a batch. */
static double ddp_flops(const struct bb_ddp_sweep *s)
{
	const struct bb_model *m = &s->ddp->model;
	const double seconds = s->forward_s + s->backward_s;

	return seconds > 0 ? (double)s->ddp->options.batch * (m->forward + m->backward) / seconds
			   : 0;
}

static bb_status ddp_add_trial(struct bb_ddp_sweep *s, struct bb_ddp_trial trial)
{
	const struct bb_ddp_options *a = &s->ddp->options;
	struct bb_ddp_trial *t = &s->list[s->nlist++];
	const struct bb_ddp_layout *layout = &s->caps[trial.cap];
	const struct bb_buckets *buckets = &layout->cap.buckets;
	const char *algorithm = a->algorithms[trial.algorithm];
	const struct bb_ddp_step step = {
		.forward_s = s->forward_s,
		.ready_s = layout->ready_s,
		.flops = ddp_flops(s),
		.buckets = buckets,
		.microbatches = (size_t)a->accumulate,
		.dtype = a->dtype,
		.overlap = trial.overlap,
		.part = trial.part,
	};
	struct bb_trial timed = {.watch = {ddp_observe, t}};
	bb_status status;

	*t = trial;
	t->sweep = s;
	BB_TRY(status,
	       bb_ddp_program_make(&t->program, &step, s->engine.run->world.nranks,
				   strcmp(algorithm, "auto") == 0 ? NULL : algorithm,
				   &s->engine.run->error),
	       out);
	t->stamps.nbuckets = buckets->n;
	t->stamps.reduce_s = calloc(buckets->n, sizeof(double));
	t->stamps.ends = calloc(buckets->n * BB_ENGINE_MOST_ROUNDS, sizeof(double));
	timed.workload = (struct bb_workload){.program = &t->program.program,
					      .stand_in = (enum bb_stand_in)a->stand_in,
					      .buffers = ddp_buffers,
					      .own = t};
	timed.expects = t->part == BB_DDP_STEP ? &expectation : NULL;
	name_trial(t, timed.what);
	if (t->stamps.reduce_s && t->stamps.ends)
		status = bb_engine_add(&s->engine, &timed, NULL);
	else
		status = ddp_no_memory(s);
out:
	return status;
}

static bb_status add_steps(struct bb_ddp_sweep *s, size_t cap, size_t algorithm)
{
	bb_status status = ddp_add_trial(s, (struct bb_ddp_trial){.cap = cap,
								  .algorithm = algorithm,
								  .part = BB_DDP_REDUCTIONS});

	for (int on = 1; on >= 0 && status == BB_OK; on--)
		if (bb_ddp_has_overlap(&s->ddp->options, on))
			status = ddp_add_trial(s, (struct bb_ddp_trial){.cap = cap,
									.algorithm = algorithm,
									.part = BB_DDP_STEP,
									.overlap = on == 1});
	return status;
}

static bb_status ddp_make_trials(struct bb_ddp_sweep *s)
{
	const size_t most = (3 * s->ncaps + 1) * s->ddp->options.nalgorithms + 1;
	bb_status status;

	s->list = calloc(most, sizeof(*s->list));
	if (!s->list)
		return ddp_no_memory(s);
	/* Computations do not depend on the buckets. */
	status = ddp_add_trial(s, (struct bb_ddp_trial){.part = BB_DDP_ALONE});
	for (size_t c = 0; c < s->ncaps; c++)
		for (size_t a = 0; a < s->ddp->options.nalgorithms && status == BB_OK; a++)
			if (s->caps[c].same == c)
				status = add_steps(s, c, a);
	/* All parameters at once: PyTorch broadcasts pieces of 250 MB, more than most buckets. */
	for (size_t a = 0; a < s->ddp->options.nalgorithms && status == BB_OK; a++)
		status = ddp_add_trial(
			s, (struct bb_ddp_trial){.cap = cap_index(s, BB_BUCKET_UNLIMITED),
						 .algorithm = a,
						 .part = BB_DDP_START});
	return status;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static bb_status ddp_open(struct bb_engine *engine)
{
	struct bb_ddp_sweep *s = (struct bb_ddp_sweep *)engine;
	bb_status status;

	s->ddp = engine->run->own;
	s->bytes = (size_t)s->ddp->model.parameters * bb_dtype_size(s->ddp->options.dtype);
	bb_ddp_compute(s->ddp, &s->forward_s, &s->backward_s);
	BB_TRY(status, make_caps(s), out);
	BB_TRY(status, bb_engine_alloc(engine, s->bytes, (void **)&s->gradients), out);
	BB_TRY(status,
	       bb_engine_patterns(engine, s->ddp->options.dtype, BB_AVG, engine->run->world.nranks,
				  &s->patterns),
	       out);
	status = ddp_make_trials(s);
out:
	return status;
}

static void ddp_close(struct bb_engine *engine)
{
	struct bb_ddp_sweep *s = (struct bb_ddp_sweep *)engine;

	for (size_t i = 0; i < s->nlist; i++) {
		bb_ddp_program_free(&s->list[i].program);
		free(s->list[i].stamps.reduce_s);
		free(s->list[i].stamps.ends);
	}
	for (size_t i = 0; i < s->ncaps; i++) {
		bb_buckets_free(&s->caps[i].cap.buckets);
		free(s->caps[i].ready_s);
		free(s->caps[i].offsets);
	}
	free(s->list);
	free(s->caps);
}

const struct bb_experiment bb_ddp_experiment = {
	.bytes = sizeof(struct bb_ddp_sweep),
	.open = ddp_open,
	.deliver = bb_ddp_deliver,
	.close = ddp_close,
};
