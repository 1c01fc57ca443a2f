/*
 * ddp.c - buckets of data-parallel training: options, record, experiment and descriptor of the
 * benchmark.
 */
#include "training_kernels/ddp/ddp.h"

#include "core/table.h"
#include "core/version.h"
#include "harness/measure/algorithms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define STEP_NS 50000000 /* of a batch, unless an option sets it */
#define LEAST_SEEN 0.01  /* of a step: shorter reductions are not judged */
#define MIB (1.0 / (1 << 20))
#define MOST_LINES 7 /* of a list of buckets, before the last one */

static const char *const overlap_names[] = {"on", "off", "both", NULL};

#define BB_OPTIONS struct bb_ddp_options
static const struct bb_option ddp_rows[] = BB_OPTION_ROWS(BB_DDP_OPTIONS);

/* ---- the check ------------------------------------------------------------------------------- */

/* One bucket and a bucket per tensor have no cap. */
static bool is_capped(const struct bb_ddp_cap *cap)
{
	return cap->bytes != BB_BUCKET_UNLIMITED && cap->bytes != 1;
}

static bb_status add_cap(struct bb_ddp *ddp, uint64_t bytes, struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;
	struct bb_ddp_cap *cap = &ddp->caps[ddp->ncaps];

	for (size_t i = 0; i < ddp->ncaps; i++)
		if (ddp->caps[i].bytes == bytes)
			return BB_OK;
	ddp->ncaps++;
	cap->bytes = bytes;
	cap->first = a->first_cap && is_capped(cap) ? a->first_cap : bytes;
	if (is_capped(cap))
		bb_format_size(cap->name, bytes);
	else
		snprintf(cap->name, sizeof(cap->name), "%s", bytes == 1 ? "tensor" : "one");
	const bb_status status = bb_buckets_make(&cap->buckets, &ddp->replica.model,
						 bb_dtype_size(a->dtype), cap->first, bytes, error);
	while (status == BB_OK &&
	       !bb_buckets_are_same(&ddp->caps[cap->same].buckets, &cap->buckets))
		cap->same++;
	return status;
}

/* The last size with the buckets of CAP, which may be CAP. */
static const struct bb_ddp_cap *last_same(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap)
{
	size_t last = ddp->ncaps - 1;

	while (ddp->caps[last].same != cap->same)
		last--;
	return &ddp->caps[last];
}

static bool links_are_known(const struct bb_options *o)
{
	return o->link.text || o->cluster_text || o->calibrate_text;
}

/* With the time of computations and links, --predict is a run in virtual time. */
static bool ddp_simulates(const void *own, const struct bb_options *o)
{
	const struct bb_ddp_options *a = own;

	return a->predict && (a->flops_given || a->step_ns_given) && links_are_known(o);
}

/* Append a name; those beyond the most are only counted. */
static void add_algorithm(struct bb_ddp_options *a, const char *name)
{
	if (a->nalgorithms++ < BB_DDP_MOST_ALGORITHMS)
		snprintf(a->algorithms[a->nalgorithms - 1], BB_WORD, "%s", name);
}

static bb_status ddp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			   const struct bb_environment *environment, struct bb_error *error)
{
	static const uint64_t references[] = {BB_DDP_DEFAULT_CAP, BB_BUCKET_UNLIMITED, 1};
	const struct bb_native *natives = o->backend->natives;
	struct bb_ddp *ddp = own;
	struct bb_ddp_options *a = &ddp->options;
	const bool all = strcmp(a->algo_text, "all") == 0;
	const char *rest = a->algo_text;
	char word[BB_WORD];
	bb_status status;

	if (a->predict && !o->shows && !o->backend->virtual)
		return bb_fail(error, BB_EUSAGE,
			       "--backend %s: --predict simulates; leave one of them out",
			       o->backend->name);
	if (!a->predict && !a->flops_given && !a->step_ns_given)
		a->step_ns = STEP_NS;
	BB_TRY(status, bb_algorithms_check(a->algo_text, o, &bb_all_reduce, error), out);
	for (const struct bb_native *n = natives; all && n && n->name; n++)
		if (!n->refuses || !n->refuses(n, &bb_all_reduce))
			add_algorithm(a, n->name);
	/* A name that the backend's library has too means that. */
	for (int i = 0; all && bb_algorithms[i]; i++)
		if (bb_algorithms[i]->collective == &bb_all_reduce)
			add_algorithm(a, bb_schedule_name(bb_algorithms[i], natives));
	for (bool more = !all; more; more = *rest++ == ',') {
		bb_next_word(&rest, word);
		add_algorithm(a, word);
	}
	if (a->nalgorithms > BB_DDP_MOST_ALGORITHMS)
		return bb_fail(error, BB_EUSAGE, "--algo %s: more than %d algorithms", a->algo_text,
			       BB_DDP_MOST_ALGORITHMS);
	BB_TRY(status, bb_replica_open(&ddp->replica, &BB_REPLICA_REQUEST(a), o, error), out);
	ddp->ready_s = calloc(ddp->replica.model.ntensors, sizeof(*ddp->ready_s));
	if (!ddp->ready_s)
		BB_TRY(status, bb_no_memory(error, "the buckets"), out);
	bb_model_ready(&ddp->replica.model, ddp->replica.backward_s, ddp->ready_s);
	for (size_t i = 0; i < a->caps.n; i++)
		BB_TRY(status, add_cap(ddp, a->caps.list[i], error), out);
	ddp->nrequested = ddp->ncaps;
	for (size_t i = 0; i < 3; i++)
		BB_TRY(status, add_cap(ddp, references[i], error), out);
	if (o->shows)
		status = bb_check_outputs(o, NULL, environment->launch.proc == 0, error);
out:
	return status;
}

static void ddp_free(void *own)
{
	struct bb_ddp *ddp = own;

	for (size_t i = 0; i < ddp->ncaps; i++)
		bb_buckets_free(&ddp->caps[i].buckets);
	free(ddp->ready_s);
	bb_model_free(&ddp->replica.model);
}

/* ---- the record ------------------------------------------------------------------------------ */

static void cap_cell(const void *record, char text[BB_CELL_TEXT])
{
	const struct bb_ddp_record *r = record;
	char cap[BB_UNIT_TEXT];

	snprintf(text, BB_CELL_TEXT, "%s",
		 r->cap_bytes == BB_ABSENT ? r->grouping
					   : bb_format_size(cap, (uint64_t)r->cap_bytes));
}

static void ddp_about(const void *record, struct bb_strbuf *out)
{
	const struct bb_ddp_record *r = record;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %s: %jd parameters, %.2f MiB of gradients (%s)\n", r->model,
		       r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	bb_strbuf_addf(out, "# Batch: forward %s, backward %s (%s)",
		       bb_format_duration(forward, 1e-6 * r->forward_us),
		       bb_format_duration(backward, 1e-6 * r->backward_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %jd batches per step", r->batches);
	bb_strbuf_addf(out, "\n# DDP %s", r->fit);
	bb_strbuf_add(out, "\n# Buckets: one = a single bucket, tensor = a bucket per tensor. "
			   "Times are medians.\n");
}

#define BB_RECORD bb_ddp_record
BB_RECORD_KIND(bb_record_ddp, BB_DDP_FIELDS, "data_parallel",
	       "Data-parallel training: one size of gradient buckets.", .about = ddp_about);

/* R, which is initialised, gets the fields of CAP on NRANKS that follow from the request. NUMBERS
   has room for three numbers of each bucket. */
static void describe_cap(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap, int nranks,
			 double *numbers, struct bb_ddp_record *r)
{
	const struct bb_model *m = &ddp->replica.model;
	const struct bb_buckets *b = &cap->buckets;
	double *bytes = numbers, *tensors = bytes + b->n, *ready = tensors + b->n;
	const bool capped = is_capped(cap), computes = ddp->replica.batch_s > 0;

	r->model = m->name;
	r->family = m->family;
	r->dtype = bb_dtype_name(ddp->options.dtype);
	r->nranks = nranks;
	r->batches = ddp->options.accumulate;
	r->tensors = (int64_t)m->ntensors;
	r->parameters = (int64_t)m->parameters;
	r->gradient_bytes = (int64_t)ddp->replica.bytes;
	BB_FIT_SET(r, &ddp->replica.fit);
	if (computes) {
		r->forward_us = 1e6 * ddp->replica.forward_s;
		r->backward_us = 1e6 * ddp->replica.backward_s;
	}
	for (size_t i = 0; i < b->n; i++) {
		bytes[i] = (double)b->list[i].bytes;
		tensors[i] = (double)b->list[i].count;
		ready[i] = 1e6 * bb_bucket_ready(&b->list[i], ddp->ready_s);
	}
	r->grouping = capped ? "cap" : cap->bytes == 1 ? "tensor" : "one";
	r->cap_bytes = capped ? (int64_t)cap->bytes : BB_ABSENT;
	r->first_cap_bytes = capped ? (int64_t)cap->first : BB_ABSENT;
	r->buckets = (int64_t)b->n;
	r->least_bytes = (int64_t)b->least;
	r->most_bytes = (int64_t)b->most;
	r->last_bytes = (int64_t)b->list[b->n - 1].bytes;
	r->mean_bytes = (double)b->bytes / (double)b->n;
	r->bucket_bytes = (struct bb_numbers){bytes, b->n};
	r->bucket_tensors = (struct bb_numbers){tensors, b->n};
	r->bucket_ready_us = (struct bb_numbers){ready, computes ? b->n : 0};
}

/* ---- steps and their parts ------------------------------------------------------------------- */

struct ddp_setting {
	const struct bb_ddp_cap *cap;
	size_t algorithm;
	bool overlap;
};

/*
 * A part of a step. Of its watched steps, one in a round, it has times of the ranks that this
 * driver observes. A reduction alone lasts from the last rank's end of the bucket before it to the
 * last rank's end of its own.
 */
struct ddp_variant {
	struct bb_variant variant;
	const struct bb_ddp_cap *cap;
	struct bb_ddp_step step;
	/* Of reductions, since the backward pass began if there is one: [bucket], in the last
	   round; [bucket * BB_ENGINE_MOST_ROUNDS + round], of the last rank. */
	double *start_s, *ends;
	double *reduce_s; /* [bucket]: medians of reductions alone, at the end */
	double backward_s[BB_ENGINE_MOST_ROUNDS]; /* the first: the median, at the end */
	int rounds;
	double begin;                  /* of the backward pass */
	int finals;                    /* ranks that have ended this round */
	struct bb_ddp_times predicted; /* of a whole step, at the end */
};

/* A driver's state. */
struct ddp_sweep {
	struct bb_kernel kernel;
	struct bb_ddp *ddp;
	struct ddp_setting *settings; /* in the order of the rows */
	char *gradients;              /* of the whole model; NULL: there is no data */
	const struct bb_patterns *patterns;
	double *numbers; /* of a row */
};

static struct ddp_sweep *ddp_sweep_of(const struct ddp_variant *v)
{
	return (struct ddp_sweep *)v->variant.kernel;
}

static struct ddp_variant *ddp_part(const struct ddp_sweep *s, size_t setting,
				    enum bb_ddp_part part)
{
	return (struct ddp_variant *)bb_kernel_variant(&s->kernel, setting, part);
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
	struct ddp_variant *v = own;
	const struct bb_engine *e = &v->variant.kernel->engine;
	const bool alone = v->variant.part == BB_DDP_ALONE, last = o->item + 1 == v->cap->buckets.n;
	double *const end = &v->ends[o->item * BB_ENGINE_MOST_ROUNDS + (size_t)v->rounds];
	double *const backward_s = &v->backward_s[v->rounds];

	if (v->rounds == BB_ENGINE_MOST_ROUNDS)
		return;
	if (o->work == BB_DDP_REDUCE) {
		v->start_s[o->item] = from - v->begin;
		*end = fmax(*end, to - v->begin);
	} else if (o->work == BB_DDP_BACKWARD) {
		v->begin = o->item == 0 ? from : v->begin;
		*backward_s = last ? fmax(*backward_s, to - v->begin) : *backward_s;
	}
	v->finals += last && o->work == (alone ? BB_DDP_BACKWARD : BB_DDP_REDUCE);
	if (v->finals == (bb_engine_is_virtual(e) ? e->run->world.nranks : 1)) {
		v->finals = 0;
		v->rounds++;
	}
}

static void ddp_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct ddp_variant *v = own;

	*in = *out = ddp_sweep_of(v)->gradients +
		     v->cap->buckets.list[o->item].before * bb_dtype_size(o->dtype);
}

/* ---- the model and its buckets as text ------------------------------------------------------- */

/* "291.6 GFLOPs" */
static void add_flops(struct bb_strbuf *out, double flops)
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
	size_t unit = 0;

	for (; flops >= 1000 && unit < 6; unit++)
		flops /= 1000;
	bb_strbuf_addf(out, "%.4g %sFLOPs", flops, units[unit]);
}

static void add_model(const struct bb_ddp *ddp, struct bb_strbuf *out)
{
	const struct bb_model *m = &ddp->replica.model;
	const uint64_t bytes = ddp->replica.bytes;

	bb_strbuf_addf(out, "# ddp_bucket_perf: %s (%s), gradients in %s\n", m->name, m->family,
		       bb_dtype_name(ddp->options.dtype));
	bb_model_add_origin(out, m);
	bb_strbuf_addf(out, "# %zu tensors, %ju parameters, %ju bytes of gradients (%.2f MiB)\n# ",
		       m->ntensors, m->parameters, bytes, (double)bytes * MIB);
	add_flops(out, m->forward);
	bb_strbuf_add(out, " forward, ");
	add_flops(out, m->backward);
	if (m->hyper.seq)
		bb_strbuf_addf(out, " backward, of a sequence of %jd tokens, %s\n", m->hyper.seq,
			       bb_attention_name((enum bb_attention)ddp->options.attention));
	else
		bb_strbuf_add(out, " backward, of one sample\n");
}

/* A line for the equal buckets FIRST to END - 1 of CAP. */
static void add_bucket(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap, size_t first,
		       size_t end, const struct ddp_variant *timed, struct bb_text_table *t)
{
	const struct bb_bucket *b = &cap->buckets.list[first];

	if (end - first > 1)
		bb_table_cellf(t, "%zu-%zu", first, end - 1);
	else
		bb_table_cellf(t, "%zu", first);
	bb_table_cellf(t, "%zu\t%.3f", b->count, (double)b->bytes * MIB);
	if (ddp->replica.batch_s > 0)
		bb_table_cellf(t, "%.3f", 1e3 * bb_bucket_ready(b, ddp->ready_s));
	if (timed)
		bb_table_cellf(t, "%.3f\t%.3f", 1e3 * timed->start_s[first],
			       1e3 * timed->ends[(end - 1) * BB_ENGINE_MOST_ROUNDS +
						 (size_t)timed->rounds - 1]);
}

static void add_list(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap,
		     const struct ddp_variant *timed, struct bb_strbuf *out)
{
	static const char *const heads[] = {"bucket", "tensors", "MiB", "ready", "start", "end"};
	const struct bb_ddp_cap *last = last_same(ddp, cap);
	const bool computes = ddp->replica.batch_s > 0;
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	const size_t n = cap->buckets.n;
	size_t k = 0;

	while (last >= &ddp->caps[ddp->nrequested])
		last--;
	bb_strbuf_addf(out, "#\n# Buckets of %s%s%s%s%s\n", cap->name, last != cap ? " to " : "",
		       last != cap ? last->name : "",
		       computes ? ", in ms of the backward pass" : "",
		       timed && !timed->step.overlap ? ", reduced after it" : "");
	for (size_t i = 0; i < (timed ? 6 : computes ? 4 : 3); i++)
		bb_table_column(&t, heads[i], "", i == 1 ? 8 : 10);
	for (int line = 0; k < n && line < MOST_LINES; line++) {
		const struct bb_bucket *list = cap->buckets.list;
		size_t end = k + 1; /* of equal buckets */

		while (end < n && list[end].bytes == list[k].bytes &&
		       list[end].count == list[k].count)
			end++;
		add_bucket(ddp, cap, k, end, timed, &t);
		k = end;
	}
	bb_table_print(&t, out);
	if (k + 1 < n)
		bb_strbuf_addf(out, "#%11s %zu more\n", "...", n - 1 - k);
	if (k < n) {
		add_bucket(ddp, cap, n - 1, n, timed, &t);
		bb_table_print(&t, out);
	}
	bb_table_free(&t);
}

/* Append the sizes of buckets, and each bucket with its reductions in the step TIMED[cap], unless
   that is NULL; TIMED may be NULL. */
static void add_buckets(const struct bb_ddp *ddp, const struct ddp_variant *const *timed,
			struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"cap", "", 9},           {"buckets", "", 8},  {"min", "(MiB)", 8},
		{"mean", "(MiB)", 8},     {"max", "(MiB)", 8}, {"last", "(MiB)", 8},
		{"tensors", "(mean)", 8}, {NULL, NULL, 0},
	};
	struct bb_text_table t = {.limit = bb_table_limit(stdout), .merges = 1};
	const uint64_t first = ddp->options.first_cap;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "#\n# Buckets; the first is closed at %s\n",
		       first ? bb_format_size(size, first) : "cap");
	bb_table_columns(&t, heads, 1);
	for (size_t i = 0; i < ddp->nrequested; i++) {
		const struct bb_buckets *b = &ddp->caps[i].buckets;

		bb_table_cellf(&t, "%s\t%zu\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f", ddp->caps[i].name, b->n,
			       (double)b->least * MIB, (double)b->bytes * MIB / (double)b->n,
			       (double)b->most * MIB, (double)b->list[b->n - 1].bytes * MIB,
			       (double)ddp->replica.model.ntensors / (double)b->n);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
	for (size_t i = 0; i < ddp->nrequested; i++)
		if (ddp->caps[i].same == i)
			add_list(ddp, &ddp->caps[i], timed ? timed[i] : NULL, out);
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

/* The setting of BB_DDP_START is its algorithm. All parameters are broadcast at once: PyTorch does
   so by pieces of 250 MB, more than most buckets. */
static bb_status ddp_write(struct bb_variant *variant, struct bb_trial *trial, const char **refusal)
{
	struct ddp_variant *v = (struct ddp_variant *)variant;
	const struct ddp_sweep *s = ddp_sweep_of(v);
	const enum bb_ddp_part part = (enum bb_ddp_part)variant->part;
	struct ddp_setting start = {s->ddp->caps, variant->setting, false};
	const struct ddp_setting *setting =
		part == BB_DDP_START ? &start : &s->settings[variant->setting];
	const struct bb_ddp_options *a = &s->ddp->options;
	const struct bb_replica *r = &s->ddp->replica;
	const char *name = a->algorithms[setting->algorithm];

	while (start.cap->bytes != BB_BUCKET_UNLIMITED)
		start.cap++;
	v->cap = setting->cap;
	const size_t n = v->cap->buckets.n;
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
		.dtype = a->dtype,
		.overlap = setting->overlap,
		.part = part,
	};
	trial->workload.stand_in = (enum bb_stand_in)a->stand_in;
	trial->workload.buffers = ddp_buffers;
	trial->watch = (struct bb_timeline_watch){ddp_observe, v};
	if (part == BB_DDP_STEP) {
		/* The pattern continues from bucket to bucket, so that all differ; the result is
		   the average of the gradients of all ranks. */
		bb_known_add(&variant->known, BB_KNOWN_FILL, s->gradients, s->patterns,
			     variant->kernel->engine.driver->rank, 0, (size_t)r->model.parameters);
		bb_known_add(&variant->known, BB_KNOWN_VICTIM, s->gradients, s->patterns,
			     BB_REDUCED, 0, (size_t)r->model.parameters);
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
	size_t n = 0;
	bb_status status;

	BB_TRY(status, bb_engine_alloc(engine, ddp->replica.bytes, (void **)&s->gradients), out);
	BB_TRY(status,
	       bb_engine_patterns(engine, a->dtype, BB_AVG, engine->run->world.nranks,
				  &s->patterns),
	       out);
	s->settings =
		bb_kernel_keep(&s->kernel, 2 * ddp->ncaps * a->nalgorithms, sizeof(*s->settings));
	s->numbers =
		bb_kernel_keep(&s->kernel, ddp->replica.model.ntensors, 4 * sizeof(*s->numbers));
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
	       bb_kernel_sweep(&s->kernel, n, BB_DDP_PARTS, sizeof(struct ddp_variant), ddp_write),
	       out);
	for (size_t i = 0; i < a->nalgorithms && status == BB_OK; i++)
		status = bb_kernel_add(&s->kernel, i, BB_DDP_START, sizeof(struct ddp_variant),
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

	while (s->settings[i].cap->bytes != bytes || s->settings[i].algorithm != own->algorithm ||
	       s->settings[i].overlap != own->overlap)
		i++;
	return step_s > 0 ? bb_kernel_median(&s->kernel, i, BB_DDP_STEP) / step_s : NAN;
}

static void ddp_describe(const struct bb_kernel *k, size_t setting, void *record)
{
	const struct ddp_sweep *s = (const struct ddp_sweep *)k;
	const struct ddp_setting *own = &s->settings[setting];
	const struct bb_ddp_cap *cap = own->cap;
	const struct ddp_variant *v = ddp_part(s, setting, BB_DDP_STEP);
	const struct ddp_variant *alone = ddp_part(s, setting, BB_DDP_ALONE);
	const struct ddp_variant *reductions = ddp_part(s, setting, BB_DDP_REDUCTIONS);
	const struct bb_trial *trial = bb_variant_trial(&v->variant);
	const struct bb_trial *start = ddp_start(s, own->algorithm);
	const int nranks = k->engine.run->world.nranks;
	const double alone_s = bb_kernel_median(k, setting, BB_DDP_ALONE);
	const double step_s = trial->stats.p50;
	const double reduce_s = bb_kernel_median(k, setting, BB_DDP_REDUCTIONS);
	const size_t best = ddp_best(s, own->overlap);
	double *us = s->numbers + 3 * cap->buckets.n;
	struct bb_ddp_record *r = record;

	describe_cap(s->ddp, cap, nranks, s->numbers, r);
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
	for (size_t b = 0; b < cap->buckets.n; b++)
		us[b] = 1e6 * reductions->reduce_s[b];
	r->bucket_us = (struct bb_numbers){us, cap->buckets.n};
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

static const char *cap_words(const struct bb_ddp_cap *cap)
{
	if (is_capped(cap))
		return cap->name;
	return cap->bytes == 1 ? "a bucket per tensor" : "one bucket";
}

static bb_status ddp_answer(struct ddp_sweep *s)
{
	const struct bb_ddp *ddp = s->ddp;
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
		const struct bb_ddp_cap *cap = &ddp->caps[i], *last = last_same(ddp, cap);
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
			const struct ddp_variant *v = ddp_part(s, i, BB_DDP_STEP);
			const struct bb_ddp_cap *last = last_same(ddp, v->cap);

			if (v->variant.setting != i || v->step.overlap != overlap ||
			    bb_kernel_refusal(&s->kernel, i))
				continue;
			/* "25M (ring)", "one bucket", "25M to 50M" */
			bb_best_add(&best, bb_best_steps(bb_variant_trial(&v->variant), 1, v),
				    ddp->options.nalgorithms > 1 ? "%s%s%s (%s)" : "%s%s%s",
				    cap_words(v->cap), last != v->cap ? " to " : "",
				    last != v->cap ? cap_words(last) : "",
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
	const struct ddp_variant *timed[BB_OPTION_MOST + 3] = {NULL};
	double seconds[BB_ENGINE_MOST_ROUNDS];
	struct bb_strbuf out = {0};
	bb_status status = BB_OK;

	/* Watched rounds become medians. */
	for (size_t i = 0; i < s->kernel.nvariants; i++) {
		struct ddp_variant *v = (struct ddp_variant *)s->kernel.variants[i];

		if (v->variant.place != i)
			continue;
		for (size_t k = 0; k < v->cap->buckets.n; k++) {
			const double *end = v->ends + k * BB_ENGINE_MOST_ROUNDS;

			for (int r = 0; r < v->rounds; r++)
				seconds[r] = end[r] - (k > 0 ? end[r - BB_ENGINE_MOST_ROUNDS] : 0);
			v->reduce_s[k] = bb_stats_median(seconds, (size_t)v->rounds);
		}
		v->backward_s[0] = bb_stats_median(v->backward_s, (size_t)v->rounds);
	}
	for (size_t i = 0; i < s->kernel.settings; i++) {
		struct ddp_variant *v = ddp_part(s, i, BB_DDP_STEP);

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
		add_model(ddp, &out);
		add_buckets(ddp, timed, &out);
		BB_TRY(status, bb_engine_comment_lines(engine, &out), out);
	}
	BB_TRY(status, bb_kernel_deliver(&s->kernel, &bb_record_ddp, ddp_describe), out);
	status = ddp_answer(s);
out:
	return status;
}

static const struct bb_experiment ddp_experiment = {
	.bytes = sizeof(struct ddp_sweep),
	.open = ddp_open,
	.deliver = ddp_deliver,
	.close = bb_kernel_close,
};

/* ---- --predict without links or the time of computations ------------------------------------- */

static bb_status ddp_show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_ddp *ddp = run->own;
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_replica *replica = &ddp->replica;
	const int nranks = bb_estimate_ranks(&run->options, &run->environment);
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT], rate[BB_UNIT_TEXT];
	double *numbers = calloc(ddp->replica.model.ntensors, 3 * sizeof(*numbers));
	struct bb_ddp_record r;
	bb_status status = numbers ? BB_OK : bb_no_memory(&run->error, "the buckets");

	BB_TRY(status, status, out);
	BB_TRY(status, bb_replica_judge(&ddp->replica, nranks, &run->error), out);
	BB_TRY(status, bb_estimate_open(run, &bb_record_ddp, nranks, ddp->options.algo_text), out);
	bb_strbuf_addf(out, "# busbench version %s\n", BB_VERSION);
	add_model(ddp, out);
	bb_strbuf_addf(out, "# %d rank%s", nranks, bb_plural(nranks));
	if (replica->batch_s > 0)
		bb_strbuf_addf(out, ", each: forward %s, backward %s",
			       bb_format_duration(forward, replica->forward_s),
			       bb_format_duration(backward, replica->backward_s));
	if (a->flops_given)
		bb_strbuf_addf(out, " (batch %jd at %s)", a->batch,
			       bb_format_count(rate, (uint64_t)a->flops));
	if (a->accumulate > 1)
		bb_strbuf_addf(out, ", %jd batches", a->accumulate);
	if (run->options.link.text)
		bb_strbuf_addf(out, "; links of %s%s", run->options.link.text,
			       run->options.link.port ? "" : " per pair of ranks");
	bb_strbuf_addf(out, "\n# DDP %s\n", replica->fit.text);
	add_buckets(ddp, NULL, out);
	if (!links_are_known(&run->options))
		bb_strbuf_add(out, "#\n# The step needs --link RATE,LATENCY, the links of ranks, "
				   "as in 10GB/s,5us, or --cluster\n");
	if (ddp->replica.batch_s == 0)
		bb_strbuf_add(out, "#\n# The step needs --flops RATE or --step-time TIME, the time "
				   "of computations\n");
	for (size_t i = 0; i < ddp->ncaps && status == BB_OK; i++) {
		bb_record_init(&bb_record_ddp, &r);
		describe_cap(ddp, &ddp->caps[i], nranks, numbers, &r);
		status = bb_estimate_record(run, &bb_record_ddp, &r);
	}
	status = bb_estimate_end(run, out, status);
out:
	free(numbers);
	bb_sinks_close(&run->sinks);
	return status;
}

/* ---- the benchmark --------------------------------------------------------------------------- */

static bb_status ddp_plan(struct bb_run *run)
{
	struct bb_ddp *ddp = run->own;

	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = ddp->options.algo_text;
	return bb_replica_plan(&ddp->replica, run, 1, "gradients",
			       "fewer ranks, a smaller datatype, --predict or --backend sim");
}

static void ddp_list(struct bb_strbuf *out)
{
	bb_model_list(out);
	bb_algorithms_list(out);
}

const struct bb_benchmark bb_ddp_benchmark = {
	.brief = "Data-parallel training: the best size of gradient buckets.",
	.examples = {"--model gpt2 --backend sim --cluster hgx-h100:16",
		     "--predict --model gpt2 -g 8 --link 25GB/s,5us"},
	.own_bytes = sizeof(struct bb_ddp),
	.options = ddp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are reduced; leave it out, --buckets "
				   "sets the sizes of buckets"}},
	.queues = true,
	.shows = "predict",
	.simulates = ddp_simulates,
	.check = ddp_check,
	.free_options = ddp_free,
	.list = ddp_list,
	.show = ddp_show,
	.text = &bb_sink_table,
	.rows = &bb_record_ddp,
	.plan = ddp_plan,
	.experiment = &ddp_experiment,
};
