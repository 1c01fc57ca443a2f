/*
 * sweep.c - the experiment: for each size of buckets and each algorithm the step with and without
 * overlap, computations alone and reductions alone; and their rows.
 */
#include "training_kernels/ddp/ddp.h"
#include "training_kernels/ddp/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAST_SEEN 0.01 /* of a step: shorter reductions are not judged */

/*
 * A program. Of its watched steps it has times of the ranks that this driver observes. The
 * reduction of a bucket lasts from the last rank's end of the bucket before it to the last rank's
 * end of its own.
 */
struct ddp_variant {
	struct bb_variant variant;
	const struct bb_ddp_cap *cap; /* the first of the sizes with these buckets */
	size_t algorithm;
	enum bb_ddp_part part;
	bool overlap;
	struct bb_ddp_step step;
	double *ends;            /* of reductions alone: [bucket * BB_ENGINE_MOST_ROUNDS + round] */
	double *reduce_s;        /* [bucket]: medians of reductions alone, at the end */
	double *start_s, *end_s; /* [bucket]: reductions of a step since its backward pass began */
	double backward_s[BB_ENGINE_MOST_ROUNDS]; /* the first: the median, at the end */
	int rounds;
	double begin; /* of the backward pass */
	int finals;   /* ranks that have ended this round */
};

/* A driver's state. */
struct ddp_sweep {
	struct bb_kernel kernel;
	struct bb_ddp *ddp;
	char *gradients; /* of the whole model; NULL: there is no data */
	const struct bb_patterns *patterns;
};

static struct ddp_sweep *ddp_sweep_of(const struct ddp_variant *v)
{
	return (struct ddp_sweep *)v->variant.kernel;
}

static void ddp_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			double from, double to, int source)
{
	struct ddp_variant *v = own;
	const struct bb_engine *e = &v->variant.kernel->engine;
	const size_t last = v->cap->buckets.n - 1;
	const int round = v->rounds;
	double *seconds;
	bool final = false;

	if (o->work == BB_DDP_REDUCE && v->part == BB_DDP_STEP) {
		v->start_s[o->item] = from - v->begin;
		v->end_s[o->item] = fmax(v->end_s[o->item], to - v->begin);
	}
	if (round == BB_ENGINE_MOST_ROUNDS)
		return;
	if (v->part == BB_DDP_REDUCTIONS) {
		seconds = &v->ends[o->item * BB_ENGINE_MOST_ROUNDS + (size_t)round];
		*seconds = fmax(*seconds, to);
		final = o->item == last;
	} else if (o->work == BB_DDP_BACKWARD) {
		if (o->item == 0)
			v->begin = from;
		final = o->item == last;
		if (final)
			v->backward_s[round] = fmax(v->backward_s[round], to - v->begin);
	}
	v->finals += final;
	if (v->finals == (bb_engine_is_virtual(e) ? e->run->world.nranks : 1)) {
		v->finals = 0;
		v->rounds++;
	}
}

/* Watched rounds become medians. */
static void ddp_settle(struct ddp_variant *v)
{
	double seconds[BB_ENGINE_MOST_ROUNDS];

	for (size_t k = 0; k < v->cap->buckets.n && v->part == BB_DDP_REDUCTIONS; k++) {
		const double *end = v->ends + k * BB_ENGINE_MOST_ROUNDS;

		for (int r = 0; r < v->rounds; r++)
			seconds[r] = end[r] - (k > 0 ? end[r - BB_ENGINE_MOST_ROUNDS] : 0);
		v->reduce_s[k] = bb_stats_median(seconds, (size_t)v->rounds);
	}
	v->backward_s[0] = bb_stats_median(v->backward_s, (size_t)v->rounds);
}

/* ---- data ------------------------------------------------------------------------------------ */

static char *bucket_of(const struct ddp_variant *v, size_t bucket)
{
	return ddp_sweep_of(v)->gradients + v->cap->offsets[bucket] * bb_dtype_size(v->step.dtype);
}

static void ddp_buffers(void *own, int rank, const struct bb_operation *operation, void **in,
			void **out)
{
	*in = *out = bucket_of(own, operation->item);
}

/* The pattern continues from bucket to bucket, so that all differ. */
static bb_status ddp_fill(void *own)
{
	const struct ddp_variant *v = own;
	struct bb_engine *e = &v->variant.kernel->engine;
	bb_status status = BB_OK;

	for (size_t k = 0; k < v->cap->buckets.n && status == BB_OK; k++)
		status = bb_engine_fill(e, bucket_of(v, k), ddp_sweep_of(v)->patterns,
					e->driver->rank, v->cap->offsets[k],
					(size_t)v->cap->buckets.list[k].elements);
	return status == BB_OK ? e->backend->finish(e->rank, NULL) : status;
}

static int ddp_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	const struct ddp_sweep *s = ddp_sweep_of(own);

	victims[0] = s->gradients + s->ddp->replica.bytes / 2;
	return 1;
}

/* The result must be the average of the gradients of all ranks. */
static bb_status ddp_verify(void *own, uint64_t *wrong)
{
	const struct ddp_variant *v = own;
	bb_status status = BB_OK;

	for (size_t k = 0; k < v->cap->buckets.n && status == BB_OK; k++)
		status = bb_engine_verify(&v->variant.kernel->engine, bucket_of(v, k),
					  ddp_sweep_of(v)->patterns, BB_REDUCED, v->cap->offsets[k],
					  (size_t)v->cap->buckets.list[k].elements, wrong);
	return status;
}

static const struct bb_expectation expectation = {ddp_fill, ddp_victims, ddp_verify};

/* ---- programs -------------------------------------------------------------------------------- */

static bb_status ddp_add(struct ddp_sweep *s, enum bb_ddp_part part, const struct bb_ddp_cap *cap,
			 size_t algorithm, bool overlap)
{
	static const char *const names[] = {[BB_DDP_STEP] = "step, buckets ",
					    [BB_DDP_ALONE] = "computations alone",
					    [BB_DDP_REDUCTIONS] = "reductions, buckets ",
					    [BB_DDP_START] = "broadcast of parameters"};
	const struct bb_ddp_options *a = &s->ddp->options;
	const struct bb_replica *r = &s->ddp->replica;
	const char *name = a->algorithms[algorithm];
	const bool buckets = part == BB_DDP_STEP || part == BB_DDP_REDUCTIONS;
	const size_t n = cap->buckets.n;
	struct ddp_variant *v = bb_variant_new(&s->kernel, sizeof(*v));
	const struct bb_trial trial = {
		.workload = {.stand_in = (enum bb_stand_in)a->stand_in, .buffers = ddp_buffers},
		.watch = {ddp_observe, v},
		.expects = part == BB_DDP_STEP ? &expectation : NULL};
	bb_status status;

	if (!v)
		return BB_EINTERNAL;
	v->cap = cap;
	v->algorithm = algorithm;
	v->part = part;
	v->overlap = overlap;
	v->reduce_s = bb_kernel_keep(&s->kernel, n, (3 + BB_ENGINE_MOST_ROUNDS) * sizeof(double));
	if (!v->reduce_s)
		return BB_EINTERNAL;
	v->start_s = v->reduce_s + n;
	v->end_s = v->start_s + n;
	v->ends = v->end_s + n;
	v->step = (struct bb_ddp_step){
		.forward_s = r->forward_s,
		.ready_s = cap->ready_s,
		/* For the requested time of a batch. */
		.flops = (double)a->batch * (r->model.forward + r->model.backward) / r->batch_s,
		.buckets = &cap->buckets,
		.microbatches = (size_t)a->accumulate,
		.dtype = a->dtype,
		.overlap = overlap,
		.part = part,
	};
	status =
		bb_ddp_write(&v->variant.taped, &v->step, s->kernel.engine.run->world.nranks,
			     strcmp(name, "auto") == 0 ? NULL : name, &s->kernel.engine.run->error);
	return status == BB_OK
		       ? bb_variant_add(&v->variant, &trial, NULL, "%s%s%s%s%s", names[part],
					buckets ? cap->name : "", part != BB_DDP_ALONE ? ", " : "",
					part != BB_DDP_ALONE ? name : "",
					part != BB_DDP_STEP ? ""
					: overlap           ? ", overlap on"
							    : ", overlap off")
		       : status;
}

static bb_status ddp_open(struct bb_engine *engine)
{
	struct ddp_sweep *s = (struct ddp_sweep *)engine;
	const struct bb_ddp *ddp = s->ddp = engine->run->own;
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_ddp_cap *one = ddp->caps;
	bb_status status;

	BB_TRY(status, bb_engine_alloc(engine, ddp->replica.bytes, (void **)&s->gradients), out);
	BB_TRY(status,
	       bb_engine_patterns(engine, a->dtype, BB_AVG, engine->run->world.nranks,
				  &s->patterns),
	       out);
	/* Computations do not depend on the buckets. */
	BB_TRY(status, ddp_add(s, BB_DDP_ALONE, ddp->caps, 0, false), out);
	for (size_t c = 0; c < ddp->ncaps; c++)
		for (size_t i = 0; i < a->nalgorithms && ddp->caps[c].same == c; i++) {
			BB_TRY(status, ddp_add(s, BB_DDP_REDUCTIONS, &ddp->caps[c], i, false), out);
			for (int on = 1; on >= 0; on--)
				if (bb_ddp_has_overlap(a, on))
					BB_TRY(status,
					       ddp_add(s, BB_DDP_STEP, &ddp->caps[c], i, on == 1),
					       out);
		}
	/* All parameters at once: PyTorch broadcasts pieces of 250 MB, more than most buckets. */
	while (one->bytes != BB_BUCKET_UNLIMITED)
		one++;
	for (size_t i = 0; i < a->nalgorithms; i++)
		BB_TRY(status, ddp_add(s, BB_DDP_START, one, i, false), out);
out:
	return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The first variant of PART; of steps and reductions with the buckets of CAP by ALGORITHM, of steps
   with OVERLAP. */
static const struct ddp_variant *ddp_find(const struct ddp_sweep *s, enum bb_ddp_part part,
					  const struct bb_ddp_cap *cap, size_t algorithm,
					  bool overlap)
{
	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const struct ddp_variant *v = (const struct ddp_variant *)s->kernel.variants[i];

		if (v->part == part && (part == BB_DDP_ALONE || v->algorithm == algorithm) &&
		    (part == BB_DDP_ALONE || part == BB_DDP_START || v->cap->same == cap->same) &&
		    (part != BB_DDP_STEP || v->overlap == overlap))
			return v;
	}
	return NULL;
}

/* The reductions alone of the step V. */
static const struct ddp_variant *ddp_reductions(const struct ddp_variant *v)
{
	return ddp_find(ddp_sweep_of(v), BB_DDP_REDUCTIONS, v->cap, v->algorithm, false);
}

static bool is_possible(const struct ddp_variant *v)
{
	return !bb_variant_trial(&v->variant)->refusal;
}

/* The shortest step with or without OVERLAP. */
static const struct ddp_variant *ddp_best(const struct ddp_sweep *s, bool overlap)
{
	const struct ddp_variant *best = NULL;

	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const struct ddp_variant *v = (const struct ddp_variant *)s->kernel.variants[i];

		if (v->part == BB_DDP_STEP && v->overlap == overlap && is_possible(v) &&
		    (!best || bb_variant_median(&v->variant) < bb_variant_median(&best->variant)))
			best = v;
	}
	return best;
}

/* Times as fast as with buckets of BYTES. */
static double row_times(const struct ddp_variant *v, uint64_t bytes)
{
	const struct ddp_sweep *s = ddp_sweep_of(v);
	const struct bb_ddp_cap *cap = s->ddp->caps;
	const double step_s = bb_variant_median(&v->variant);

	while (cap->bytes != bytes)
		cap++;
	v = ddp_find(s, BB_DDP_STEP, cap, v->algorithm, v->overlap);
	return step_s > 0 ? bb_variant_median(&v->variant) / step_s : NAN;
}

/* What the timeline of the step says, with computations and reductions as measured alone. */
static bb_status row_predict(const struct ddp_variant *v, const struct ddp_variant *alone,
			     const struct ddp_variant *reductions, struct bb_ddp_record *r)
{
	const double backward_s = alone->backward_s[0];
	struct bb_error *error = &v->variant.kernel->engine.run->error;
	struct bb_ddp_times t;
	/* All forward passes, and all backward passes but the last, come first. */
	const bb_status status = bb_ddp_simulate(&v->step, bb_variant_median(&alone->variant),
						 backward_s, reductions->reduce_s, &t, error);

	r->predicted_step_us = 1e6 * t.step_s;
	r->predicted_reduce_us = 1e6 * t.reduce_s;
	r->predicted_exposed_us = 1e6 * t.exposed_s;
	r->predicted_hidden = t.hidden;
	if (r->step_us > 0)
		r->error_percent = 100 * (1e6 * t.step_s - r->step_us) / r->step_us;
	return status;
}

/* The row of the step V for CAP, one of the sizes with its buckets. */
static bb_status row_fill(const struct ddp_variant *v, const struct bb_ddp_cap *cap,
			  double *numbers, struct bb_ddp_record *r)
{
	const struct ddp_sweep *s = ddp_sweep_of(v);
	const struct bb_trial *trial = bb_variant_trial(&v->variant);
	const struct ddp_variant *alone = ddp_find(s, BB_DDP_ALONE, NULL, 0, false);
	const struct ddp_variant *reductions = ddp_reductions(v), *best = ddp_best(s, v->overlap);
	const struct bb_trial *start =
		bb_variant_trial(&ddp_find(s, BB_DDP_START, NULL, v->algorithm, false)->variant);
	const int nranks = s->kernel.engine.run->world.nranks;
	const double alone_s = bb_variant_median(&alone->variant), step_s = trial->stats.p50;
	const double reduce_s = bb_variant_median(&reductions->variant);
	double *us = numbers + 3 * cap->buckets.n;

	bb_ddp_describe(s->ddp, cap, nranks, numbers, r);
	if (cap != v->cap)
		r->measured_as = v->cap->name;
	r->compute = bb_stand_in_names[s->ddp->options.stand_in];
	r->algorithm = s->ddp->options.algorithms[v->algorithm];
	r->overlap = v->overlap ? "on" : "off";
	BB_TIMES_SET(r, step_us, trial, 1);
	r->p95_us = 1e6 * trial->stats.p95;
	r->compute_us = 1e6 * alone_s;
	r->reduce_us = 1e6 * reduce_s;
	if (reduce_s > 0)
		r->reduce_busbw_GBps = 1e-9 * (double)s->ddp->replica.bytes / reduce_s *
				       bb_all_reduce.bus_factor(nranks);
	/* Reductions shorter than the spread of steps cannot be seen in them. */
	if (reduce_s > trial->stats.ci_high - trial->stats.ci_low && reduce_s > LEAST_SEEN * step_s)
		r->hidden = 1 - (step_s - alone_s) / reduce_s;
	r->exposed_us = 1e6 * (step_s - alone_s);
	if (alone->backward_s[0] > 0)
		r->contention = v->backward_s[0] / alone->backward_s[0];
	r->wrong = trial->wrong;
	for (size_t k = 0; k < cap->buckets.n; k++)
		us[k] = 1e6 * reductions->reduce_s[k];
	r->bucket_us = (struct bb_numbers){us, cap->buckets.n};
	if (!start->refusal)
		r->broadcast_us = 1e6 * start->stats.p50;
	r->times_one = row_times(v, BB_BUCKET_UNLIMITED);
	r->times_tensor = row_times(v, 1);
	r->times_25M = row_times(v, BB_DDP_DEFAULT_CAP);
	r->best = v == best && cap == v->cap;
	r->as_good = trial->stats.ci_low <= bb_variant_trial(&best->variant)->stats.ci_high;
	return row_predict(v, alone, reductions, r);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Why one step is longer than another with the same computations. OWN of a candidate is its
   variant. */
static void step_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		       struct bb_strbuf *out)
{
	const double longer_s = bb_variant_median(&ddp_reductions(behind->own)->variant) -
				bb_variant_median(&ddp_reductions(ahead->own)->variant);
	const double exposed_s = behind->seconds - ahead->seconds;
	char text[BB_UNIT_TEXT];

	if (longer_s >= exposed_s - longer_s)
		bb_strbuf_addf(out, "its reductions take %s longer",
			       bb_format_duration(text, longer_s));
	else
		bb_strbuf_addf(out, "it hides %s less of its reductions",
			       bb_format_duration(text, exposed_s - longer_s));
}

static const char *cap_words(const struct bb_ddp_cap *cap)
{
	if (bb_ddp_is_capped(cap))
		return cap->name;
	return cap->bytes == 1 ? "a bucket per tensor" : "one bucket";
}

static void add_best(const struct ddp_sweep *s, bool overlap, struct bb_strbuf *out)
{
	const struct bb_ddp_options *a = &s->ddp->options;
	struct bb_best best = {
		.choice = {.subject = overlap ? "buckets, overlap on" : "buckets, overlap off",
			   .noise = bb_estimate_noise(s->kernel.engine.run),
			   .unit = "",
			   .cause = step_cause}};

	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		const struct ddp_variant *v = (const struct ddp_variant *)s->kernel.variants[i];
		const struct bb_ddp_cap *last;

		if (v->part != BB_DDP_STEP || v->overlap != overlap || !is_possible(v))
			continue;
		/* "25M (ring)", "one bucket", "25M to 50M" */
		last = bb_ddp_last_same(s->ddp, v->cap);
		bb_best_add(&best, bb_best_steps(bb_variant_trial(&v->variant), 1, v),
			    a->nalgorithms > 1 ? "%s%s%s (%s)" : "%s%s%s", cap_words(v->cap),
			    last != v->cap ? " to " : "", last != v->cap ? cap_words(last) : "",
			    a->algorithms[v->algorithm]);
	}
	bb_best_recommend(&best, out);
}

static bb_status ddp_answer(struct ddp_sweep *s)
{
	const struct bb_ddp *ddp = s->ddp;
	struct bb_strbuf out = {0};
	size_t answer;

	for (size_t a = 0; a < ddp->options.nalgorithms; a++) {
		const struct ddp_variant *start = ddp_find(s, BB_DDP_START, NULL, a, false);

		if (is_possible(start))
			bb_strbuf_addf(&out,
				       "# Rank 0 broadcasts the parameters before the first step "
				       "(%s): %.2f ms\n",
				       ddp->options.algorithms[a],
				       1e3 * bb_variant_median(&start->variant));
	}
	for (size_t i = 0; i < ddp->ncaps; i++) {
		const struct bb_ddp_cap *cap = &ddp->caps[i], *last = bb_ddp_last_same(ddp, cap);
		const size_t n = cap->buckets.n;

		if (cap->same == i && last != cap)
			bb_strbuf_addf(&out, "# %s to %s: the same %zu bucket%s, measured once\n",
				       cap->name, last->name, n, bb_plural((long long)n));
	}
	answer = out.length;
	for (int overlap = 0; overlap < 2; overlap++)
		add_best(s, overlap == 1, &out);
	bb_run_answer(s->kernel.engine.run, &out, answer);
	return bb_engine_comment_lines(&s->kernel.engine, &out);
}

/* ---- delivery -------------------------------------------------------------------------------- */

/* --predict: model and buckets before the rows, with the reductions of the only algorithm. */
static bb_status deliver_buckets(struct ddp_sweep *s)
{
	const bool overlap = bb_ddp_has_overlap(&s->ddp->options, true);
	struct bb_ddp_reductions reductions[BB_OPTION_MOST] = {{NULL, NULL, false}};
	struct bb_strbuf out = {0};

	for (size_t i = 0; i < s->ddp->nrequested && s->ddp->options.nalgorithms == 1; i++) {
		const struct ddp_variant *v =
			ddp_find(s, BB_DDP_STEP, &s->ddp->caps[i], 0, overlap);

		if (is_possible(v))
			reductions[i] = (struct bb_ddp_reductions){v->start_s, v->end_s, overlap};
	}
	bb_ddp_add_model(s->ddp, &out);
	bb_ddp_add_buckets(s->ddp, reductions, &out);
	return bb_engine_comment_lines(&s->kernel.engine, &out);
}

/* A refusal holds for buckets of any size: it is reported once for its algorithm. BB_EUNSUPPORTED
   if it holds for all of them. */
static bb_status deliver_refusals(struct ddp_sweep *s)
{
	const struct bb_ddp_options *a = &s->ddp->options;
	struct bb_error first = {.text = ""};
	size_t refused = 0;
	bb_status status = BB_OK;

	for (size_t i = 0; i < a->nalgorithms && status == BB_OK; i++) {
		const bool overlap = bb_ddp_has_overlap(a, true);
		const char *reason =
			bb_variant_trial(
				&ddp_find(s, BB_DDP_STEP, s->ddp->caps, i, overlap)->variant)
				->refusal;

		if (!reason)
			continue;
		refused++;
		(void)bb_fail(&first, BB_EUNSUPPORTED, "%s", reason);
		status = bb_engine_skip_subject(&s->kernel.engine, bb_all_reduce.name,
						a->algorithms[i], bb_dtype_name(a->dtype), reason);
	}
	if (status == BB_OK && refused == a->nalgorithms)
		status = bb_fail(&s->kernel.engine.run->error, BB_EUNSUPPORTED, "%s", first.text);
	return status;
}

static bb_status ddp_deliver(struct bb_engine *engine)
{
	struct ddp_sweep *s = (struct ddp_sweep *)engine;
	double *numbers =
		bb_kernel_keep(&s->kernel, s->ddp->replica.model.ntensors, 4 * sizeof(*numbers));
	bb_status status = numbers ? BB_OK : BB_EINTERNAL;

	for (size_t i = 0; i < s->kernel.nvariants; i++)
		ddp_settle((struct ddp_variant *)s->kernel.variants[i]);
	if (status == BB_OK && s->ddp->options.predict)
		status = deliver_buckets(s);
	if (status == BB_OK)
		status = deliver_refusals(s);
	for (size_t i = 0; i < s->kernel.nvariants && status == BB_OK; i++) {
		const struct ddp_variant *v = (const struct ddp_variant *)s->kernel.variants[i];
		const bool possible = v->part == BB_DDP_STEP && is_possible(v);

		/* A row for each size with these buckets. */
		for (size_t c = 0; possible && c < s->ddp->ncaps && status == BB_OK; c++) {
			struct bb_ddp_record r;

			if (s->ddp->caps[c].same != v->cap->same)
				continue;
			BB_TRY(status, row_fill(v, &s->ddp->caps[c], numbers, &r), out);
			status = bb_engine_deliver(engine, &bb_record_ddp, &r, r.wrong);
		}
	}
out:
	return status == BB_OK ? ddp_answer(s) : status;
}

const struct bb_experiment bb_ddp_experiment = {
	.bytes = sizeof(struct ddp_sweep),
	.open = ddp_open,
	.deliver = ddp_deliver,
	.close = bb_kernel_close,
};
