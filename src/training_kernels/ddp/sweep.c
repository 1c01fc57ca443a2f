#include "training_kernels/ddp/ddp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAST_SEEN 0.01 /* of a step: shorter reductions are not judged */

/* ---- steps and their parts ------------------------------------------------------------------- */

struct ddp_setting {
	const struct bb_ddp_cap *cap;
	size_t algorithm;
	bool overlap;
	enum bb_ddp_view view;
	enum bb_ddp_place place;
};

/* A driver's state. */
struct ddp_sweep {
	struct bb_kernel kernel;
	struct bb_ddp *ddp;
	struct ddp_setting *settings; /* in the order of the rows */
	struct bb_ddp_memory memory;  /* of the whole model; NULL: there is no data */
	char *words;                  /* of negotiations */
	char *extras[BB_DDP_EXTRAS];
	const struct bb_patterns *extra_patterns[BB_DDP_EXTRAS];
	const struct bb_patterns *patterns[BB_NDTYPES]; /* of gradients, and of words */
	double *numbers;                                /* of a row */
};

static struct ddp_sweep *ddp_sweep_of(const struct bb_ddp_variant *v)
{
	return (struct ddp_sweep *)v->variant.kernel;
}

static struct bb_ddp_variant *ddp_part(const struct ddp_sweep *s, size_t setting,
				       enum bb_ddp_part part)
{
	return (struct bb_ddp_variant *)bb_kernel_variant(&s->kernel, setting, part);
}

/* The broadcast by ALGORITHM. */
static const struct bb_trial *ddp_start(const struct ddp_sweep *s, size_t algorithm)
{
	return bb_variant_trial(
		s->kernel.variants[s->kernel.settings * (size_t)s->kernel.parts + algorithm]);
}

/* Are steps with overlap (ON) or without requested? */
static bool has_overlap(const struct bb_ddp_options *a, bool on)
{
	return a->overlap != (on ? BB_OVERLAP_OFF : BB_OVERLAP_ON);
}

static void ddp_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			double from, double to, int source)
{
	struct bb_ddp_variant *v = own;
	const struct bb_engine *e = &v->variant.kernel->engine;
	double *end = &v->backward_s[v->rounds];

	if (v->rounds == BB_ENGINE_MOST_ROUNDS)
		return;
	if (o->work == BB_DDP_SCATTER || (o->work == BB_DDP_REDUCE && !v->step.node_ranks))
		v->start_s[o->item] = from - v->begin;
	if (o->work == BB_DDP_FORWARD)
		v->begin = to;
	if (o->work == BB_DDP_NEGOTIATE || o->work == BB_DDP_REDUCE || o->work == BB_DDP_EXTRA)
		end = &v->ends[bb_ddp_row(o, v->cap->buckets.n) * BB_ENGINE_MOST_ROUNDS +
			       (size_t)v->rounds];
	else if (o->work != BB_DDP_BACKWARD)
		end = NULL;
	if (end)
		*end = fmax(*end, to - v->begin);
	v->finals += o->work == v->final.work && o->item == v->final.item;
	if (v->finals == (bb_engine_is_virtual(e) ? e->run->world.nranks : 1)) {
		v->finals = 0;
		v->rounds++;
	}
}

static void ddp_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct bb_ddp_variant *v = own;
	const struct ddp_sweep *s = ddp_sweep_of(v);

	if (o->work == BB_DDP_NEGOTIATE)
		*in = *out = s->words;
	else if (o->work == BB_DDP_EXTRA)
		*in = *out = s->extras[o->item];
	else
		bb_ddp_in_place(&v->step, o, rank,
				(bb_ddp_passes(&v->step, o->item) == 2 ? s->memory.buckets
								       : s->memory.gradients) +
					v->cap->buckets.list[o->item].before,
				in, out);
}

static void ddp_compute(void *own, int rank, const struct bb_operation *o)
{
	const struct bb_ddp_variant *v = own;

	if (o->work < BB_DDP_COPY_IN) /* the item may be a cycle */
		return;
	const struct bb_bucket *b = &v->cap->buckets.list[o->item];
	bb_ddp_memory_work(&ddp_sweep_of(v)->memory, (enum bb_ddp_work)o->work,
			   v->step.view == BB_DDP_COPIED, b->before / bb_dtype_size(b->dtype),
			   (size_t)b->padded);
}

/* ---- the data -------------------------------------------------------------------------------- */

static bb_status ddp_fill(void *own)
{
	struct bb_ddp_memory *m = &ddp_sweep_of(own)->memory;

	if (m->master)
		bb_ddp_memory_reset(m);
	return bb_known_expectation.fill(own);
}

static int ddp_victims(void *own, void *victims[BB_MOST_VICTIMS])
{
	const struct bb_ddp_memory *m = &ddp_sweep_of(own)->memory;
	const int n = bb_known_expectation.victims(own, victims);

	victims[n] = m->master;
	return n + !!m->master;
}

static bb_status ddp_verify(void *own, uint64_t *wrong)
{
	const struct bb_ddp_memory *m = &ddp_sweep_of(own)->memory;

	*wrong += m->master ? bb_ddp_memory_wrong(m) : 0;
	return bb_known_expectation.verify(own, wrong);
}

static const struct bb_expectation ddp_expectation = {ddp_fill, ddp_victims, ddp_verify};

/* ---- the experiment -------------------------------------------------------------------------- */

/* Computations do not depend on the buckets, works on memory not on the algorithm, and parts alone
   overlap with nothing. */
static size_t ddp_first(const struct bb_kernel *k, size_t setting, int part)
{
	const struct ddp_setting *const list = ((const struct ddp_sweep *)k)->settings;
	const struct ddp_setting *a = list, *b = &list[setting];
	const bool steps = part == BB_DDP_STEP, works = part >= BB_DDP_COPIES;

	while (part != BB_DDP_ALONE &&
	       (a->cap->program != b->cap->program || (!works && a->algorithm != b->algorithm) ||
		((steps || part == BB_DDP_COPIES) && a->view != b->view) ||
		(steps && (a->overlap != b->overlap || a->place != b->place))))
		a++;
	return (size_t)(a - list);
}

/* COUNT elements AT, which lie behind BEFORE bytes of others, are RANK's of PATTERNS before the
   step of V, and END's after it. */
static void sweep_know(struct bb_ddp_variant *v, const struct bb_patterns *patterns, char *at,
		       size_t before, uint64_t count, int end)
{
	struct bb_known *known = &v->variant.known;
	const size_t first = at ? before / bb_dtype_size(bb_patterns_dtype(patterns)) : 0;

	bb_known_add(known, BB_KNOWN_FILL, at, patterns, v->variant.kernel->engine.driver->rank,
		     first, (size_t)count);
	bb_known_add(known, before ? BB_KNOWN_CHECK : BB_KNOWN_VICTIM, at, patterns, end, first,
		     (size_t)count);
}

/* What is known of the data of the step of V. The pattern continues from bucket to bucket, so that
   all differ; the result is the average of the gradients of all ranks, or their sum. */
static void know_all(struct bb_ddp_variant *v)
{
	const struct ddp_sweep *s = ddp_sweep_of(v);
	const struct bb_buckets *buckets = &v->cap->buckets;

	for (size_t k = 0; k < buckets->n; k++)
		sweep_know(v, s->patterns[buckets->list[k].dtype],
			   s->memory.gradients ? s->memory.gradients + buckets->list[k].before
					       : NULL,
			   buckets->list[k].before, buckets->list[k].padded, BB_REDUCED);
	if (buckets->ncycles > 0)
		sweep_know(v, s->patterns[BB_UINT64], s->words, 0, s->ddp->words, BB_REDUCED);
	for (int i = 0; i < BB_DDP_EXTRAS; i++)
		sweep_know(v, s->extra_patterns[i], s->extras[i], 0, v->step.extras[i],
			   i == BB_DDP_USED ? BB_REDUCED : 0);
}

/* The setting of BB_DDP_START is its algorithm. All parameters are broadcast at once: PyTorch does
   so by pieces of 250 MiB, more than most buckets. */
static bb_status ddp_write(struct bb_variant *variant, struct bb_trial *trial, const char **refusal)
{
	static const char *const parts[] = {
		"computations alone",     "reductions", "step", "copies", "updates",
		"broadcast of parameters"};
	struct bb_ddp_variant *v = (struct bb_ddp_variant *)variant;
	const struct ddp_sweep *s = ddp_sweep_of(v);
	const enum bb_ddp_part part = (enum bb_ddp_part)variant->part;
	const bool steps = part == BB_DDP_STEP, starts = part == BB_DDP_START;
	const struct ddp_setting start = {bb_ddp_find_cap(s->ddp, BB_BUCKET_UNLIMITED),
					  .algorithm = variant->setting};
	const struct ddp_setting *setting = starts ? &start : &s->settings[variant->setting];
	const bool alone = steps && setting->place == BB_DDP_IN_BACKWARD; /* without reductions */
	const bool sized = !starts && part != BB_DDP_ALONE;
	const bool called = starts || (sized && part <= BB_DDP_STEP);
	const struct bb_ddp_options *a = &s->ddp->options;
	const struct bb_replica *r = &s->ddp->replica;
	const char *name = a->algorithms[setting->algorithm];
	const int nranks = variant->kernel->engine.run->world.nranks;

	v->cap = setting->cap;
	const size_t n = v->cap->buckets.n + 1 + BB_DDP_EXTRAS;
	v->reduce_s = bb_kernel_keep(variant->kernel, n,
				     (2 + BB_ENGINE_MOST_ROUNDS) * sizeof(*v->reduce_s));
	if (!v->reduce_s)
		return BB_EINTERNAL;
	v->start_s = v->reduce_s + n;
	v->ends = v->start_s + n;
	v->step = (struct bb_ddp_step){
		.forward_s = r->forward_s,
		.ready_s = s->ddp->ready_s,
		/* For the requested time of a batch. */
		.flops = (double)a->batch * (r->model.forward + r->model.backward) / r->batch_s,
		.buckets = &v->cap->buckets,
		.microbatches = (size_t)a->accumulate,
		.words = s->ddp->words,
		.node_ranks = a->hierarchical && !starts ? s->ddp->local : 0,
		.unequal = nranks % s->ddp->local != 0,
		.overlap = setting->overlap,
		.part = part,
		.view = setting->view,
		.place = setting->place,
		.inspects = a->most_norm_given || a->loss_scale_given,
		.memory_rate = variant->kernel->engine.backend->virtual ? s->ddp->memory_rate : 0,
	};
	for (int i = 0; i < BB_DDP_EXTRAS && !starts && !alone; i++)
		v->step.extras[i] = s->ddp->extras[i];
	v->final = (struct bb_operation){.work = BB_DDP_REDUCE, .item = v->cap->buckets.n - 1};
	if (part == BB_DDP_ALONE || alone)
		v->final.work = BB_DDP_BACKWARD;
	else if (a->find_unused)
		v->final = (struct bb_operation){.work = BB_DDP_EXTRA, .item = BB_DDP_USED};
	if (variant->kernel->engine.backend->has_data && s->kernel.parts > BB_DDP_COPIES) {
		trial->workload.compute = ddp_compute;
		trial->workload.stands_in = true;
	}
	trial->workload.stand_in = (enum bb_stand_in)a->stand_in;
	trial->workload.buffers = ddp_buffers;
	trial->watch = (struct bb_timeline_watch){ddp_observe, v};
	if (steps) {
		know_all(v);
		trial->expects = &ddp_expectation;
	}
	/* A refusal holds for buckets of any size: it is reported once for its algorithm, with the
	   first size. */
	if (steps && v->cap == s->ddp->caps && setting->overlap == has_overlap(a, true)) {
		variant->subject = bb_all_reduce.name;
		variant->algorithm = name;
		variant->dtype = bb_dtype_name(a->dtype);
	}
	snprintf(trial->what, sizeof(trial->what), "%s%s%s%s%s%s", parts[part],
		 sized ? ", buckets " : "", sized ? v->cap->name : "", called ? ", " : "",
		 called ? name : "",
		 !steps             ? ""
		 : setting->overlap ? ", overlap on"
				    : ", overlap off");
	if (alone)
		*refusal = nranks > 1 ? "--optimizer backward: only with one rank is a gradient "
					"complete at once; give own-queue"
			   : a->views.n > 0 ? "--optimizer backward: there are no buckets to copy "
					      "into; leave out --bucket-view"
					    : NULL;
	return bb_ddp_write(&variant->taped, &v->step, nranks,
			    strcmp(name, "auto") == 0 ? NULL : name,
			    &variant->kernel->engine.run->error);
}

/* The settings in the order of the rows; sizes with the same buckets come one after another. */
static size_t add_settings(struct ddp_sweep *s)
{
	const struct bb_ddp *ddp = s->ddp;
	const struct bb_ddp_options *a = &ddp->options;
	const size_t views = a->views.n > 0 ? a->views.n : 1;
	const size_t places = a->places.n > 0 ? a->places.n : 1, modes = 2 * views * places;
	size_t n = 0;

	s->settings = bb_kernel_keep(&s->kernel, modes * ddp->ncaps * a->nalgorithms,
				     sizeof(*s->settings));
	for (size_t i = 0; i < ddp->ncaps * a->nalgorithms * modes && s->settings; i++) {
		const size_t m = i % modes, first = i / modes / a->nalgorithms;
		struct ddp_setting one = {.algorithm = i / modes % a->nalgorithms,
					  .overlap = m < modes / 2};

		if (a->views.n > 0)
			one.view = (enum bb_ddp_view)(BB_DDP_VIEWS + a->views.list[m % views]);
		if (a->places.n > 0)
			one.place = (enum bb_ddp_place)(BB_DDP_AFTER +
							a->places.list[m / views % places]);
		/* Nothing is reduced during the backward pass or after it. */
		if (!has_overlap(a, one.overlap) ||
		    (one.place == BB_DDP_IN_BACKWARD && one.overlap != has_overlap(a, true)))
			continue;
		for (size_t k = first; k < ddp->ncaps; k++) {
			one.cap = &ddp->caps[k];
			if (one.cap->same == first)
				s->settings[n++] = one;
		}
	}
	return n;
}

static bb_status ddp_open(struct bb_engine *engine)
{
	struct ddp_sweep *s = (struct ddp_sweep *)engine;
	const struct bb_ddp *ddp = s->ddp = engine->run->own;
	const struct bb_ddp_options *a = &ddp->options;
	struct bb_ddp_memory *m = &s->memory;
	const int nranks = engine->run->world.nranks, op = a->hierarchical ? BB_SUM : BB_AVG;
	const enum bb_dtype vectors = a->vectors_given ? a->vectors : a->dtype;
	const size_t room = ddp->room, updates = a->places.n > 0;
	const size_t states = updates * ddp->replica.model.parameters * sizeof(float);
	const struct {
		size_t bytes;
		void *at;
	} all[] = {{room, &m->gradients},
		   {bb_ddp_any_copies(a) ? room : 0, &m->buckets},
		   {states, &m->master},
		   {states, &m->moment1},
		   {states, &m->moment2},
		   {a->dtype == BB_FLOAT ? 0 : updates * room, &m->parameters},
		   {8 * ddp->words, &s->words}};
	bb_status status;

	*m = (struct bb_ddp_memory){.dtype = a->dtype,
				    .nranks = nranks,
				    .elements = (size_t)ddp->replica.model.parameters,
				    .most_norm = a->most_norm,
				    .loss_scale = a->loss_scale};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].bytes > 0)
			BB_TRY(status, bb_engine_alloc(engine, all[i].bytes, all[i].at), out);
	BB_TRY(status, bb_engine_patterns(engine, a->dtype, op, nranks, &s->patterns[a->dtype]),
	       out);
	if (vectors != a->dtype)
		BB_TRY(status,
		       bb_engine_patterns(engine, vectors, op, nranks, &s->patterns[vectors]), out);
	if (ddp->words)
		BB_TRY(status,
		       bb_engine_patterns(engine, BB_UINT64, BB_BAND, nranks,
					  &s->patterns[BB_UINT64]),
		       out);
	for (int i = 0; i < BB_DDP_EXTRAS; i++) {
		const enum bb_dtype dtype = bb_ddp_extra_dtypes[i];

		if (ddp->extras[i] == 0)
			continue;
		BB_TRY(status,
		       bb_engine_alloc(engine, ddp->extras[i] * bb_dtype_size(dtype),
				       (void **)&s->extras[i]),
		       out);
		BB_TRY(status,
		       bb_engine_patterns(engine, dtype, i == BB_DDP_USED ? BB_SUM : -1, nranks,
					  &s->extra_patterns[i]),
		       out);
	}
	if (updates && engine->backend->has_data)
		bb_ddp_memory_reset(m);
	const size_t n = add_settings(s);
	s->numbers = bb_kernel_keep(&s->kernel, ddp->numbers, sizeof(*s->numbers));
	if (!s->settings || !s->numbers)
		return BB_EINTERNAL;
	s->kernel.parts = a->views.n + a->places.n > 0 ? BB_DDP_PARTS : BB_DDP_COPIES;
	s->kernel.first = ddp_first;
	BB_TRY(status,
	       bb_kernel_sweep(&s->kernel, n, s->kernel.parts, sizeof(struct bb_ddp_variant),
			       ddp_write),
	       out);
	for (size_t i = 0; i < a->nalgorithms && status == BB_OK; i++)
		status = bb_kernel_add(&s->kernel, i, BB_DDP_START, sizeof(struct bb_ddp_variant),
				       ddp_write);
out:
	return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The setting with the shortest step with or without OVERLAP, the first of them. */
static size_t ddp_best(const struct ddp_sweep *s, bool overlap)
{
	size_t best = s->kernel.settings;

	for (size_t i = 0; i < s->kernel.settings; i++)
		if (s->settings[i].overlap == overlap && !bb_kernel_refusal(&s->kernel, i) &&
		    (best == s->kernel.settings ||
		     bb_kernel_median(&s->kernel, i, BB_DDP_STEP) <
			     bb_kernel_median(&s->kernel, best, BB_DDP_STEP)))
			best = i;
	return best;
}

static bool is_same_setting(const struct ddp_setting *a, const struct ddp_setting *b)
{
	return a->cap == b->cap && a->algorithm == b->algorithm && a->overlap == b->overlap &&
	       a->view == b->view && a->place == b->place;
}

/* Times as fast as with buckets of BYTES. */
static double row_times(const struct ddp_sweep *s, size_t setting, uint64_t bytes)
{
	const struct ddp_setting *own = &s->settings[setting];
	const double step_s = bb_kernel_median(&s->kernel, setting, BB_DDP_STEP);
	struct ddp_setting like = *own;
	size_t i = 0;

	like.cap = bb_ddp_find_cap(s->ddp, bytes);
	while (!is_same_setting(&s->settings[i], &like))
		i++;
	return step_s > 0 ? bb_kernel_median(&s->kernel, i, BB_DDP_STEP) / step_s : NAN;
}

/* Seconds of PART, works on memory, alone. */
static double memory_part(const struct ddp_sweep *s, size_t setting, enum bb_ddp_part part)
{
	return s->kernel.parts > (int)part ? bb_kernel_median(&s->kernel, setting, part) : 0;
}

/* The first step by PyTorch's rule, which the setting's is; NAN: its rule is another. */
static double first_step(const struct ddp_sweep *s, size_t setting)
{
	if (!bb_ddp_is_ddp(s->settings[setting].cap))
		return NAN;
	return bb_kernel_median(&s->kernel, setting, BB_DDP_STEP) *
	       (s->ddp->options.find_unused ? 1 : row_times(s, setting, BB_BUCKET_UNLIMITED));
}

static void ddp_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct ddp_sweep *s = (const struct ddp_sweep *)k;
	const struct ddp_setting *own = &s->settings[setting];
	const struct bb_ddp_variant *v = ddp_part(s, setting, BB_DDP_STEP);
	const struct bb_ddp_variant *computations = ddp_part(s, setting, BB_DDP_ALONE);
	const struct bb_trial *trial = bb_variant_trial(&v->variant);
	const struct bb_trial *start = ddp_start(s, own->algorithm);
	const int nranks = k->engine.run->world.nranks;
	const bool reduces = own->place != BB_DDP_IN_BACKWARD;
	const double reduce_s = reduces ? bb_kernel_median(k, setting, BB_DDP_REDUCTIONS) : 0;
	/* All forward passes, and all backward passes but the last, come first. */
	const struct bb_ddp_alone alone = {
		.compute_s = bb_kernel_median(k, setting, BB_DDP_ALONE),
		.backward_s = computations->backward_s[0],
		.reduce_s = ddp_part(s, setting, BB_DDP_REDUCTIONS)->reduce_s,
		.copy_s = memory_part(s, setting, BB_DDP_COPIES),
		.update_s = memory_part(s, setting, BB_DDP_UPDATES)};
	const double beside_s = reduce_s + alone.copy_s + alone.update_s;
	const double step_s = trial->stats.p50, exposed_s = step_s - alone.compute_s;
	const size_t best = ddp_best(s, own->overlap), n = own->cap->buckets.n;
	double *us = s->numbers + 3 * n + own->cap->buckets.ncycles;
	double buckets_s = 0; /* without negotiations and other calls */
	struct bb_ddp_record *r = record;

	bb_ddp_describe_cap(s->ddp, own->cap, nranks, s->numbers, r);
	if (own->cap != v->cap)
		r->measured_as = v->cap->name;
	r->compute = bb_stand_in_names[s->ddp->options.stand_in];
	r->algorithm = s->ddp->options.algorithms[own->algorithm];
	r->overlap = own->overlap ? "on" : "off";
	if (own->view != BB_DDP_AVERAGED) {
		r->bucket_view = bb_ddp_view_names[own->view - 1];
		r->copy_us = 1e6 * alone.copy_s;
		r->copy_bytes = (int64_t)bb_ddp_part_bytes(&v->step, BB_DDP_COPIES);
	}
	if (own->place != BB_DDP_NEVER) {
		r->optimizer = bb_ddp_place_names[own->place - 1];
		r->update_us = 1e6 * alone.update_s;
		r->update_bytes = (int64_t)bb_ddp_part_bytes(&v->step, BB_DDP_UPDATES);
	}
	BB_TIMES_SET(r, step_us, trial, 1);
	r->p95_us = 1e6 * trial->stats.p95;
	r->compute_us = 1e6 * alone.compute_s;
	r->reduce_us = 1e6 * reduce_s;
	for (size_t b = 0; b < n; b++) {
		us[b] = 1e6 * alone.reduce_s[b];
		us[n + b] = 1e6 * v->start_s[b];
		us[2 * n + b] = 1e6 * v->ends[b * BB_ENGINE_MOST_ROUNDS + (size_t)v->rounds - 1];
		buckets_s += alone.reduce_s[b];
	}
	r->bucket_us = (struct bb_numbers){us, n};
	r->bucket_start_us = (struct bb_numbers){us + n, n};
	r->bucket_end_us = (struct bb_numbers){us + 2 * n, n};
	if (reduces && buckets_s > 0)
		r->reduce_busbw_GBps = 1e-9 * (double)s->ddp->replica.bytes / buckets_s *
				       bb_all_reduce.bus_factor(nranks);
	/* What is shorter than the spread of steps cannot be seen in them. A step may also wait for
	   a cycle, or compute more slowly beside reductions: that hides less than nothing. */
	if (beside_s > trial->stats.ci_high - trial->stats.ci_low && beside_s > LEAST_SEEN * step_s)
		r->hidden = fmax(0, 1 - exposed_s / beside_s);
	r->exposed_us = 1e6 * exposed_s;
	/* Works on memory between its parts are no contention. */
	if (alone.backward_s > 0 && own->view == BB_DDP_AVERAGED && reduces)
		r->contention = v->backward_s[0] / alone.backward_s;
	r->wrong = trial->wrong;
	if (own->cap->buckets.ncycles > 0)
		r->negotiation_us = 1e6 * alone.reduce_s[n];
	if (!start->refusal)
		r->broadcast_us = 1e6 * start->stats.p50;
	r->first_step_us = 1e6 * first_step(s, setting);
	r->times_one = row_times(s, setting, BB_BUCKET_UNLIMITED);
	r->times_tensor = row_times(s, setting, 1);
	r->times_25M = row_times(s, setting, BB_DDP_DEFAULT_CAP);
	r->best = setting == best;
	r->as_good = trial->stats.ci_low <= bb_kernel_trial(k, best, BB_DDP_STEP)->stats.ci_high;
	r->predicted_step_us = 1e6 * bb_ddp_formula(&v->step, &alone);
	if (r->step_us > 0)
		r->error_percent = 100 * (r->predicted_step_us - r->step_us) / r->step_us;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Why one step is longer than another with the same computations. OWN of a candidate is its
   step. */
static void step_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		       struct bb_strbuf *out)
{
	const struct bb_ddp_variant *one = ahead->own, *other = behind->own;
	const struct bb_variant *a = &one->variant, *b = &other->variant;
	const double longer_s = bb_kernel_median(b->kernel, b->setting, BB_DDP_REDUCTIONS) -
				bb_kernel_median(a->kernel, a->setting, BB_DDP_REDUCTIONS);
	const double exposed_s = behind->seconds - ahead->seconds;
	const double after_s = exposed_s - (other->backward_s[0] - one->backward_s[0]);
	char text[BB_UNIT_TEXT];

	/* Their names tell what else differs. */
	if (one->step.place != other->step.place || one->step.view != other->step.view)
		return;
	if (longer_s >= exposed_s - longer_s)
		bb_strbuf_addf(out, "its reductions take %s longer",
			       bb_format_duration(text, longer_s));
	else if (after_s >= exposed_s - after_s)
		bb_strbuf_addf(out, "%s more is exposed after the backward pass",
			       bb_format_duration(text, after_s));
}

/* "25M", "a bucket per tensor", "one bucket"; beside other rules "ddp 25M", "ddp one". */
static const char *cap_words(const struct bb_ddp_cap *cap, bool alone)
{
	if (!alone || bb_ddp_is_capped(cap) || cap->bytes == 0)
		return cap->name;
	return cap->bytes == 1 ? "a bucket per tensor" : "one bucket";
}

/* "25M (ring)", "one bucket", "25M to 50M, view off, own-queue": SETTING, up to the buckets of
   LAST. */
static const char *setting_words(const struct ddp_sweep *s, size_t setting,
				 const struct bb_ddp_cap *last, char words[BB_CANDIDATE_TEXT])
{
	const struct bb_ddp_options *a = &s->ddp->options;
	const struct ddp_setting *own = &s->settings[setting];
	const bool named = a->nalgorithms > 1, ends = last != own->cap;
	const bool alone = !a->rules_given; /* only DDP's rule */

	snprintf(words, BB_CANDIDATE_TEXT, "%s%s%s%s%s%s%s%s%s%s%s",
		 bb_ddp_is_ddp(own->cap) && !alone ? "ddp " : "", cap_words(own->cap, alone),
		 ends ? " to " : "", ends ? cap_words(last, alone) : "", named ? " (" : "",
		 named ? a->algorithms[own->algorithm] : "", named ? ")" : "",
		 a->views.n > 1 ? ", view " : "",
		 a->views.n > 1 ? bb_ddp_view_names[own->view - 1] : "",
		 a->places.n > 1 ? ", " : "",
		 a->places.n > 1 ? bb_ddp_place_names[own->place - 1] : "");
	return words;
}

/* The cost of --sync-buffers by ALGORITHM, as measured without computations. */
static void add_buffers(const struct ddp_sweep *s, size_t algorithm, struct bb_strbuf *out)
{
	const struct bb_model *m = &s->ddp->replica.model;
	const int calls = (m->buffers > 0) + (m->counters > 0);
	size_t i = 0;

	while (i < s->kernel.settings &&
	       (s->settings[i].algorithm != algorithm || bb_kernel_refusal(&s->kernel, i)))
		i++;
	if (!s->ddp->options.sync_buffers || i == s->kernel.settings)
		return;
	const double *seconds =
		ddp_part(s, i, BB_DDP_REDUCTIONS)->reduce_s + s->settings[i].cap->buckets.n + 1;
	bb_strbuf_addf(
		out, "# Buffers (%s): %.3f MiB in %d broadcast%s before each step, %.2f ms\n",
		s->ddp->options.algorithms[algorithm],
		(double)(4 * m->buffers + 8 * m->counters) / (1 << 20), calls, bb_plural(calls),
		1e3 * (seconds[BB_DDP_BUFFERS] + seconds[BB_DDP_COUNTERS]));
}

/* The groupings with the buckets of FIRST, their first one, if it is not alone. */
static void add_equal(const struct bb_ddp *ddp, size_t first, struct bb_strbuf *out)
{
	const size_t n = ddp->caps[first].buckets.n;
	size_t equal = 0;

	for (size_t i = first; i < ddp->ncaps; i++)
		equal += ddp->caps[i].program == first;
	for (size_t i = first; i < ddp->ncaps && equal > 1; i++) {
		const struct bb_ddp_cap *cap = &ddp->caps[i], *last = bb_ddp_last_same(ddp, cap);

		if (cap->program == first && cap->same == i)
			bb_strbuf_addf(out, "%s%s%s%s%s", i == first ? "# " : ", ",
				       bb_ddp_is_ddp(cap) && ddp->options.rules_given ? "ddp " : "",
				       cap->name, last != cap ? " to " : "",
				       last != cap ? last->name : "");
	}
	if (equal > 1)
		bb_strbuf_addf(out, ": the same %zu bucket%s, measured once\n", n,
			       bb_plural((long long)n));
}

static bb_status ddp_answer(struct ddp_sweep *s)
{
	const struct bb_ddp *ddp = s->ddp;
	const struct bb_ddp_options *a = &ddp->options;
	const char *const noise = bb_estimate_noise(s->kernel.engine.run);
	char words[BB_CANDIDATE_TEXT];
	struct bb_strbuf out = {0};

	for (size_t i = 0; i < a->nalgorithms; i++) {
		const struct bb_trial *start = ddp_start(s, i);

		if (!start->refusal)
			bb_strbuf_addf(&out,
				       "# Rank 0 broadcasts the parameters before the first step "
				       "(%s): %.2f ms\n",
				       a->algorithms[i], 1e3 * start->stats.p50);
		add_buffers(s, i, &out);
	}
	for (size_t i = 0; i < ddp->ncaps; i++)
		add_equal(ddp, i, &out);
	const size_t answer = out.length;
	for (int overlap = 0; overlap < 2; overlap++) {
		struct bb_best buckets = {.choice = {.subject = overlap ? "buckets, overlap on"
									: "buckets, overlap off",
						     .noise = noise,
						     .unit = "",
						     .cause = step_cause}};
		struct bb_best places = {.choice = {.subject = overlap ? "optimizer, overlap on"
								       : "optimizer, overlap off",
						    .noise = noise,
						    .unit = ""}};
		const size_t first = ddp_best(s, overlap);

		for (size_t i = 0; i < s->kernel.settings; i++) {
			const struct bb_ddp_variant *v = ddp_part(s, i, BB_DDP_STEP);
			const struct bb_trial *trial = bb_variant_trial(&v->variant);

			if (v->step.overlap != overlap || bb_kernel_refusal(&s->kernel, i))
				continue;
			if (v->variant.setting == i)
				bb_best_add(
					&buckets, bb_best_steps(trial, 1, v), "%s",
					setting_words(s, i, bb_ddp_last_same(ddp, v->cap), words));
			/* The places with all else as in the best setting. */
			struct ddp_setting like = s->settings[first];
			like.place = s->settings[i].place;
			if (a->places.n > 0 && is_same_setting(&s->settings[i], &like))
				bb_best_add(&places, bb_best_steps(trial, 1, NULL), "%s",
					    bb_ddp_place_names[like.place - 1]);
		}
		bb_best_recommend(&buckets, &out);
		bb_best_recommend(&places, &out);
		const bool besides =
			a->views.n + a->places.n > 0 || a->sync_buffers || a->find_unused;
		const double first_s =
			besides && first < s->kernel.settings ? first_step(s, first) : NAN;
		if (isfinite(first_s))
			bb_strbuf_addf(
				&out,
				"# First step, overlap %s: %.4g ms, %.2f times that with %s (%s)\n",
				overlap ? "on" : "off", 1e3 * first_s,
				first_s / bb_kernel_median(&s->kernel, first, BB_DDP_STEP),
				setting_words(s, first, s->settings[first].cap, words),
				a->find_unused ? "the same buckets"
					       : "one bucket, after the backward pass");
	}
	bb_run_answer(s->kernel.engine.run, &out, answer);
	return bb_engine_comment_lines(&s->kernel.engine, &out);
}

/* Watched rounds of V become medians. */
static void set_medians(struct bb_ddp_variant *v)
{
	const size_t n = v->cap->buckets.n;
	double seconds[BB_ENGINE_MOST_ROUNDS], before[BB_ENGINE_MOST_ROUNDS] = {0};

	/* Calls in their order: broadcasts, negotiations, buckets, the use of tensors. */
	for (size_t call = 0; call < n + 1 + BB_DDP_EXTRAS; call++) {
		const size_t row = call < BB_DDP_USED        ? n + 1 + call
				   : call == BB_DDP_USED     ? n
				   : call <= n + BB_DDP_USED ? call - BB_DDP_USED - 1
							     : call;
		const double *end = v->ends + row * BB_ENGINE_MOST_ROUNDS;

		for (int r = 0; r < v->rounds; r++) { /* a call that is not made ends at 0 */
			seconds[r] = fmax(0, end[r] - before[r]);
			before[r] = fmax(before[r], end[r]);
		}
		v->reduce_s[row] = bb_stats_median(seconds, (size_t)v->rounds);
	}
	v->backward_s[0] = bb_stats_median(v->backward_s, (size_t)v->rounds);
}

static bb_status ddp_deliver(struct bb_engine *engine)
{
	struct ddp_sweep *s = (struct ddp_sweep *)engine;
	const struct bb_ddp *ddp = s->ddp;
	const bool overlap = has_overlap(&ddp->options, true);
	const struct bb_ddp_variant *timed[BB_DDP_MOST_CAPS] = {NULL};
	struct bb_strbuf out = {0};
	bb_status status = BB_OK;

	for (size_t i = 0; i < s->kernel.nvariants; i++)
		if (s->kernel.variants[i]->place == i)
			set_medians((struct bb_ddp_variant *)s->kernel.variants[i]);
	for (size_t i = 0; i < s->kernel.settings; i++) {
		const struct bb_ddp_variant *v = ddp_part(s, i, BB_DDP_STEP);

		if (v->step.overlap == overlap && ddp->options.nalgorithms == 1 &&
		    !bb_kernel_refusal(&s->kernel, i))
			timed[s->settings[i].cap - ddp->caps] = v;
	}
	/* Model and buckets before the rows, with the reductions of the only algorithm. */
	if (ddp->options.predict) {
		bb_ddp_add_model(ddp, &out);
		bb_ddp_add_buckets(ddp, timed, &out);
		BB_TRY(status, bb_engine_comment_lines(engine, &out), out);
	}
	BB_TRY(status, bb_kernel_deliver(&s->kernel, &bb_record_ddp, ddp_describe), out);
	status = ddp_answer(s);
out:
	return status;
}

const struct bb_experiment bb_ddp_experiment = {
	.bytes = sizeof(struct ddp_sweep),
	.open = ddp_open,
	.deliver = ddp_deliver,
	.close = bb_kernel_close,
};
