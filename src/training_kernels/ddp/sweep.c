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
};

/* A driver's state. */
struct ddp_sweep {
	struct bb_kernel kernel;
	struct bb_ddp *ddp;
	struct ddp_setting *settings; /* in the order of the rows */
	char *gradients;              /* of the whole model; NULL: there is no data */
	char *words;                  /* of negotiations */
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
	return bb_variant_trial(s->kernel.variants[s->kernel.settings * BB_DDP_PARTS + algorithm]);
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
	const bool alone = v->variant.part == BB_DDP_ALONE, last = o->item + 1 == v->cap->buckets.n;
	const size_t row = o->work == BB_DDP_NEGOTIATE ? v->cap->buckets.n : o->item;
	double *const end = &v->ends[row * BB_ENGINE_MOST_ROUNDS + (size_t)v->rounds];
	double *const backward_s = &v->backward_s[v->rounds];

	if (v->rounds == BB_ENGINE_MOST_ROUNDS)
		return;
	if (o->work == BB_DDP_SCATTER || (o->work == BB_DDP_REDUCE && !v->step.node_ranks))
		v->start_s[o->item] = from - v->begin;
	if (o->work == BB_DDP_FORWARD)
		v->begin = to;
	else if (o->work == BB_DDP_NEGOTIATE || o->work == BB_DDP_REDUCE)
		*end = fmax(*end, to - v->begin);
	else if (o->work == BB_DDP_BACKWARD && last)
		*backward_s = fmax(*backward_s, to - v->begin);
	v->finals += last && o->work == (alone ? BB_DDP_BACKWARD : BB_DDP_REDUCE);
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
	else
		bb_ddp_in_place(&v->step, o, rank,
				s->gradients + v->cap->buckets.list[o->item].before, in, out);
}

/* ---- the experiment -------------------------------------------------------------------------- */

/* Computations do not depend on the buckets, and reductions alone overlap with nothing. */
static size_t ddp_first(const struct bb_kernel *k, size_t setting, int part)
{
	const struct ddp_setting *list = ((const struct ddp_sweep *)k)->settings;
	const struct ddp_setting *own = &list[setting];
	size_t i = 0;

	while (part != BB_DDP_ALONE &&
	       (list[i].algorithm != own->algorithm || list[i].cap->same != own->cap->same ||
		(part == BB_DDP_STEP && list[i].overlap != own->overlap)))
		i++;
	return i;
}

/* COUNT elements AT, which lie behind BEFORE bytes of others, are known before and after the step
   of V. */
static void know(struct bb_ddp_variant *v, const struct bb_patterns *patterns, char *at,
		 size_t before, uint64_t count)
{
	struct bb_known *known = &v->variant.known;
	const size_t first = at ? before / bb_dtype_size(bb_patterns_dtype(patterns)) : 0;

	bb_known_add(known, BB_KNOWN_FILL, at, patterns, v->variant.kernel->engine.driver->rank,
		     first, (size_t)count);
	bb_known_add(known, before ? BB_KNOWN_CHECK : BB_KNOWN_VICTIM, at, patterns, BB_REDUCED,
		     first, (size_t)count);
}

/* The setting of BB_DDP_START is its algorithm. All parameters are broadcast at once: PyTorch does
   so by pieces of 250 MB, more than most buckets. */
static bb_status ddp_write(struct bb_variant *variant, struct bb_trial *trial, const char **refusal)
{
	struct bb_ddp_variant *v = (struct bb_ddp_variant *)variant;
	const struct ddp_sweep *s = ddp_sweep_of(v);
	const enum bb_ddp_part part = (enum bb_ddp_part)variant->part;
	struct ddp_setting start = {s->ddp->caps, variant->setting, false};
	const struct ddp_setting *setting =
		part == BB_DDP_START ? &start : &s->settings[variant->setting];
	const struct bb_ddp_options *a = &s->ddp->options;
	const struct bb_replica *r = &s->ddp->replica;
	const char *name = a->algorithms[setting->algorithm];

	start.cap = bb_ddp_find_cap(s->ddp, BB_BUCKET_UNLIMITED);
	v->cap = setting->cap;
	const size_t n = v->cap->buckets.n + 1;
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
		.blocks = a->blocking_given,
		.node_ranks = a->hierarchical ? s->ddp->local : 0,
		.unequal = variant->kernel->engine.run->world.nranks % s->ddp->local != 0,
		.overlap = setting->overlap,
		.part = part,
	};
	trial->workload.stand_in = (enum bb_stand_in)a->stand_in;
	trial->workload.buffers = ddp_buffers;
	trial->watch = (struct bb_timeline_watch){ddp_observe, v};
	if (part == BB_DDP_STEP) {
		/* The pattern continues from bucket to bucket, so that all differ; the result is
		   the average of the gradients of all ranks, or their sum. */
		for (size_t k = 0; k < v->cap->buckets.n; k++)
			know(v, s->patterns[v->cap->buckets.list[k].dtype],
			     s->gradients ? s->gradients + v->cap->buckets.list[k].before : NULL,
			     v->cap->buckets.list[k].before, v->cap->buckets.list[k].padded);
		if (v->cap->buckets.ncycles > 0)
			know(v, s->patterns[BB_UINT64], s->words, 0, s->ddp->words);
		trial->expects = &bb_known_expectation;
	}
	/* A refusal holds for buckets of any size: it is reported once for its algorithm, with the
	   first size. */
	if (part == BB_DDP_STEP && v->cap == s->ddp->caps &&
	    setting->overlap == has_overlap(a, true)) {
		variant->subject = bb_all_reduce.name;
		variant->algorithm = name;
		variant->dtype = bb_dtype_name(a->dtype);
	}
	if (part == BB_DDP_ALONE)
		snprintf(trial->what, sizeof(trial->what), "computations alone");
	else if (part == BB_DDP_START)
		snprintf(trial->what, sizeof(trial->what), "broadcast of parameters, %s", name);
	else
		snprintf(trial->what, sizeof(trial->what), "%s, buckets %s, %s%s",
			 part == BB_DDP_STEP ? "step" : "reductions", v->cap->name, name,
			 part != BB_DDP_STEP ? ""
			 : setting->overlap  ? ", overlap on"
					     : ", overlap off");
	return bb_ddp_write(&variant->taped, &v->step, variant->kernel->engine.run->world.nranks,
			    strcmp(name, "auto") == 0 ? NULL : name,
			    &variant->kernel->engine.run->error);
}

static bb_status ddp_open(struct bb_engine *engine)
{
	struct ddp_sweep *s = (struct ddp_sweep *)engine;
	const struct bb_ddp *ddp = s->ddp = engine->run->own;
	const struct bb_ddp_options *a = &ddp->options;
	size_t n = 0, most = 0;
	bb_status status;

	const int nranks = engine->run->world.nranks, op = a->hierarchical ? BB_SUM : BB_AVG;
	const enum bb_dtype vectors = a->vectors_given ? a->vectors : a->dtype;
	BB_TRY(status, bb_engine_alloc(engine, ddp->room, (void **)&s->gradients), out);
	BB_TRY(status, bb_engine_patterns(engine, a->dtype, op, nranks, &s->patterns[a->dtype]),
	       out);
	if (vectors != a->dtype)
		BB_TRY(status,
		       bb_engine_patterns(engine, vectors, op, nranks, &s->patterns[vectors]), out);
	if (ddp->words) {
		BB_TRY(status, bb_engine_alloc(engine, 8 * ddp->words, (void **)&s->words), out);
		BB_TRY(status,
		       bb_engine_patterns(engine, BB_UINT64, BB_BAND, nranks,
					  &s->patterns[BB_UINT64]),
		       out);
	}
	s->settings =
		bb_kernel_keep(&s->kernel, 2 * ddp->ncaps * a->nalgorithms, sizeof(*s->settings));
	for (size_t c = 0; c < ddp->ncaps; c++) {
		const struct bb_buckets *b = &ddp->caps[c].buckets;

		most = 6 * b->n + b->ncycles > most ? 6 * b->n + b->ncycles : most;
	}
	s->numbers = bb_kernel_keep(&s->kernel, most, sizeof(*s->numbers));
	if (!s->settings || !s->numbers)
		return BB_EINTERNAL;
	/* Sizes with the same buckets come one after another. */
	for (size_t c = 0; c < ddp->ncaps; c++)
		for (size_t i = 0; i < a->nalgorithms && ddp->caps[c].same == c; i++)
			for (int on = 1; on >= 0; on--)
				for (size_t k = c; k < ddp->ncaps && has_overlap(a, on); k++)
					if (ddp->caps[k].same == c)
						s->settings[n++] = (struct ddp_setting){
							&ddp->caps[k], i, on == 1};
	s->kernel.first = ddp_first;
	BB_TRY(status,
	       bb_kernel_sweep(&s->kernel, n, BB_DDP_PARTS, sizeof(struct bb_ddp_variant),
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

/* Times as fast as with buckets of BYTES. */
static double row_times(const struct ddp_sweep *s, size_t setting, uint64_t bytes)
{
	const struct ddp_setting *own = &s->settings[setting];
	const double step_s = bb_kernel_median(&s->kernel, setting, BB_DDP_STEP);
	size_t i = 0;

	while (s->settings[i].cap != bb_ddp_find_cap(s->ddp, bytes) ||
	       s->settings[i].algorithm != own->algorithm || s->settings[i].overlap != own->overlap)
		i++;
	return step_s > 0 ? bb_kernel_median(&s->kernel, i, BB_DDP_STEP) / step_s : NAN;
}

static void ddp_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct ddp_sweep *s = (const struct ddp_sweep *)k;
	const struct ddp_setting *own = &s->settings[setting];
	const struct bb_ddp_cap *cap = own->cap;
	const struct bb_ddp_variant *v = ddp_part(s, setting, BB_DDP_STEP);
	const struct bb_ddp_variant *alone = ddp_part(s, setting, BB_DDP_ALONE);
	const struct bb_ddp_variant *reductions = ddp_part(s, setting, BB_DDP_REDUCTIONS);
	const struct bb_trial *trial = bb_variant_trial(&v->variant);
	const struct bb_trial *start = ddp_start(s, own->algorithm);
	const int nranks = k->engine.run->world.nranks;
	const double alone_s = bb_kernel_median(k, setting, BB_DDP_ALONE);
	const double step_s = trial->stats.p50;
	const double reduce_s = bb_kernel_median(k, setting, BB_DDP_REDUCTIONS);
	const size_t best = ddp_best(s, own->overlap);
	const size_t n = cap->buckets.n;
	double *us = s->numbers + 3 * n + cap->buckets.ncycles;
	struct bb_ddp_record *r = record;

	bb_ddp_describe_cap(s->ddp, cap, nranks, s->numbers, r);
	if (cap != v->cap)
		r->measured_as = v->cap->name;
	r->compute = bb_stand_in_names[s->ddp->options.stand_in];
	r->algorithm = s->ddp->options.algorithms[own->algorithm];
	r->overlap = own->overlap ? "on" : "off";
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
	for (size_t b = 0; b < n; b++) {
		us[b] = 1e6 * reductions->reduce_s[b];
		us[n + b] = 1e6 * v->start_s[b];
		us[2 * n + b] = 1e6 * v->ends[b * BB_ENGINE_MOST_ROUNDS + (size_t)v->rounds - 1];
	}
	r->bucket_us = (struct bb_numbers){us, n};
	r->bucket_start_us = (struct bb_numbers){us + n, n};
	r->bucket_end_us = (struct bb_numbers){us + 2 * n, n};
	if (cap->buckets.ncycles > 0)
		r->negotiation_us = 1e6 * reductions->reduce_s[n];
	if (!start->refusal)
		r->broadcast_us = 1e6 * start->stats.p50;
	r->times_one = row_times(s, setting, BB_BUCKET_UNLIMITED);
	r->times_tensor = row_times(s, setting, 1);
	r->times_25M = row_times(s, setting, BB_DDP_DEFAULT_CAP);
	r->best = setting == best;
	r->as_good = trial->stats.ci_low <= bb_kernel_trial(k, best, BB_DDP_STEP)->stats.ci_high;
	r->predicted_step_us = 1e6 * v->predicted.step_s;
	r->predicted_reduce_us = 1e6 * v->predicted.reduce_s;
	r->predicted_exposed_us = 1e6 * v->predicted.exposed_s;
	r->predicted_hidden = v->predicted.hidden;
	if (r->step_us > 0)
		r->error_percent = 100 * (r->predicted_step_us - r->step_us) / r->step_us;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Why one step is longer than another with the same computations. OWN of a candidate is its
   step. */
static void step_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		       struct bb_strbuf *out)
{
	const struct bb_variant *a = ahead->own, *b = behind->own;
	const double longer_s = bb_kernel_median(b->kernel, b->setting, BB_DDP_REDUCTIONS) -
				bb_kernel_median(a->kernel, a->setting, BB_DDP_REDUCTIONS);
	const double exposed_s = behind->seconds - ahead->seconds;
	char text[BB_UNIT_TEXT];

	if (longer_s >= exposed_s - longer_s)
		bb_strbuf_addf(out, "its reductions take %s longer",
			       bb_format_duration(text, longer_s));
	else
		bb_strbuf_addf(out, "it hides %s less of its reductions",
			       bb_format_duration(text, exposed_s - longer_s));
}

/* "25M", "a bucket per tensor", "one bucket"; beside other rules "ddp 25M", "ddp one". */
static const char *cap_words(const struct bb_ddp_cap *cap, bool alone)
{
	if (!alone || bb_ddp_is_capped(cap) || cap->bytes == 0)
		return cap->name;
	return cap->bytes == 1 ? "a bucket per tensor" : "one bucket";
}

static bb_status ddp_answer(struct ddp_sweep *s)
{
	const struct bb_ddp *ddp = s->ddp;
	const bool alone = !ddp->options.rules_given; /* only DDP's rule */
	struct bb_strbuf out = {0};

	for (size_t i = 0; i < ddp->options.nalgorithms; i++) {
		const struct bb_trial *start = ddp_start(s, i);

		if (!start->refusal)
			bb_strbuf_addf(&out,
				       "# Rank 0 broadcasts the parameters before the first step "
				       "(%s): %.2f ms\n",
				       ddp->options.algorithms[i], 1e3 * start->stats.p50);
	}
	for (size_t i = 0; i < ddp->ncaps; i++) {
		const struct bb_ddp_cap *cap = &ddp->caps[i], *last = bb_ddp_last_same(ddp, cap);
		const size_t n = cap->buckets.n;

		if (cap->same == i && last != cap)
			bb_strbuf_addf(&out, "# %s to %s: the same %zu bucket%s, measured once\n",
				       cap->name, last->name, n, bb_plural((long long)n));
	}
	const size_t answer = out.length;
	for (int overlap = 0; overlap < 2; overlap++) {
		struct bb_best best = {.choice = {.subject = overlap ? "buckets, overlap on"
								     : "buckets, overlap off",
						  .noise = bb_estimate_noise(s->kernel.engine.run),
						  .unit = "",
						  .cause = step_cause}};

		for (size_t i = 0; i < s->kernel.settings; i++) {
			const struct bb_ddp_variant *v = ddp_part(s, i, BB_DDP_STEP);
			const struct bb_ddp_cap *last = bb_ddp_last_same(ddp, v->cap);

			if (v->variant.setting != i || v->step.overlap != overlap ||
			    bb_kernel_refusal(&s->kernel, i))
				continue;
			/* "25M (ring)", "one bucket", "25M to 50M" */
			bb_best_add(&best, bb_best_steps(bb_variant_trial(&v->variant), 1, v),
				    ddp->options.nalgorithms > 1 ? "%s%s%s%s (%s)" : "%s%s%s%s",
				    bb_ddp_is_ddp(v->cap) && !alone ? "ddp " : "",
				    cap_words(v->cap, alone), last != v->cap ? " to " : "",
				    last != v->cap ? cap_words(last, alone) : "",
				    ddp->options.algorithms[s->settings[i].algorithm]);
		}
		bb_best_recommend(&best, &out);
	}
	bb_run_answer(s->kernel.engine.run, &out, answer);
	return bb_engine_comment_lines(&s->kernel.engine, &out);
}

static bb_status ddp_deliver(struct bb_engine *engine)
{
	struct ddp_sweep *s = (struct ddp_sweep *)engine;
	const struct bb_ddp *ddp = s->ddp;
	const bool overlap = has_overlap(&ddp->options, true);
	const struct bb_ddp_variant *timed[BB_DDP_MOST_CAPS] = {NULL};
	double seconds[BB_ENGINE_MOST_ROUNDS];
	struct bb_strbuf out = {0};
	bb_status status = BB_OK;

	/* Watched rounds become medians. */
	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		struct bb_ddp_variant *v = (struct bb_ddp_variant *)s->kernel.variants[i];

		if (v->variant.place != i)
			continue;
		const bool cycles = v->cap->buckets.ncycles > 0;
		double *negotiated = v->ends + v->cap->buckets.n * BB_ENGINE_MOST_ROUNDS;
		for (size_t k = 0; k < v->cap->buckets.n; k++) {
			const double *end = v->ends + k * BB_ENGINE_MOST_ROUNDS;

			for (int r = 0; r < v->rounds; r++)
				seconds[r] = end[r] - (k > 0    ? end[r - BB_ENGINE_MOST_ROUNDS]
						       : cycles ? negotiated[r]
								: 0);
			v->reduce_s[k] = bb_stats_median(seconds, (size_t)v->rounds);
		}
		if (cycles)
			v->reduce_s[v->cap->buckets.n] =
				bb_stats_median(negotiated, (size_t)v->rounds) /
				(double)bb_ddp_negotiations(&v->cap->buckets);
		v->backward_s[0] = bb_stats_median(v->backward_s, (size_t)v->rounds);
	}
	for (size_t i = 0; i < s->kernel.settings; i++) {
		struct bb_ddp_variant *v = ddp_part(s, i, BB_DDP_STEP);

		if (bb_kernel_refusal(&s->kernel, i))
			continue;
		if (v->step.overlap == overlap && ddp->options.nalgorithms == 1)
			timed[s->settings[i].cap - ddp->caps] = v;
		/* Whole steps are simulated with computations and reductions as measured alone. All
		   forward passes, and all backward passes but the last, come first. */
		if (v->variant.setting == i)
			BB_TRY(status,
			       bb_ddp_simulate(&v->step,
					       bb_kernel_median(&s->kernel, i, BB_DDP_ALONE),
					       ddp_part(s, i, BB_DDP_ALONE)->backward_s[0],
					       ddp_part(s, i, BB_DDP_REDUCTIONS)->reduce_s,
					       &v->predicted, &engine->run->error),
			       out);
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
