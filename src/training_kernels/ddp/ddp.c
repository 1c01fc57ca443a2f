/*
 * ddp.c - buckets of data-parallel training: options, record and descriptor of the benchmark.
 */
#include "training_kernels/ddp/ddp.h"

#include "core/version.h"
#include "harness/measure/algorithms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

#define MOST_BATCH (INT64_C(1) << 30)
#define STEP_NS 50000000 /* of a batch, unless an option sets it */

const char *const bb_ddp_dtypes[] = {"float", "half", "bfloat16", "double", NULL};
static const char *const overlap_names[] = {"on", "off", "both", NULL};

#define BB_OPTIONS struct bb_ddp_options
const struct bb_option bb_ddp_rows[] = BB_OPTION_ROWS(BB_DDP_OPTIONS);

/* ---- algorithms ------------------------------------------------------------------------------ */

static bb_status add_algorithm(struct bb_ddp_options *a, const char *name, struct bb_error *error)
{
	if (a->nalgorithms == BB_DDP_MOST_ALGORITHMS)
		return bb_fail(error, BB_EUSAGE, "--algo %s: more than %d algorithms", a->algo_text,
			       BB_DDP_MOST_ALGORITHMS);
	snprintf(a->algorithms[a->nalgorithms++], BB_WORD, "%s", name);
	return BB_OK;
}

/* The algorithms of --algo, which has passed its check. */
static bb_status read_algorithms(struct bb_ddp_options *a, const struct bb_backend *backend,
				 struct bb_error *error)
{
	const struct bb_native *natives = backend->natives;
	const char *rest = a->algo_text;
	char word[BB_WORD];
	bb_status status = BB_OK;

	if (strcmp(rest, "all") != 0) {
		do {
			bb_next_word(&rest, word);
			status = add_algorithm(a, word, error);
		} while (status == BB_OK && *rest++ == ',');
		return status;
	}
	for (const struct bb_native *n = natives; n && n->name && status == BB_OK; n++)
		if (!n->refuses || !n->refuses(n, &bb_all_reduce))
			status = add_algorithm(a, n->name, error);
	for (int i = 0; bb_algorithms[i] && status == BB_OK; i++)
		if (bb_algorithms[i]->collective == &bb_all_reduce) {
			const char *name = bb_algorithms[i]->name;

			/* A name that the backend's library has too means that. */
			snprintf(word, sizeof(word), "%s%s",
				 bb_native_find(natives, name) ? BB_OWN : "", name);
			status = add_algorithm(a, word, error);
		}
	return status;
}

/* ---- the check ------------------------------------------------------------------------------- */

static bb_status add_cap(struct bb_ddp *ddp, uint64_t bytes, struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_model *model = &ddp->replica.model;
	struct bb_ddp_cap *cap = &ddp->caps[ddp->ncaps];
	double *ready = NULL;
	size_t offset = 0;
	bb_status status = BB_OK;

	for (size_t i = 0; i < ddp->ncaps; i++)
		if (ddp->caps[i].bytes == bytes)
			return BB_OK;
	ddp->ncaps++;
	cap->bytes = bytes;
	cap->first = a->first_cap && bb_ddp_is_capped(cap) ? a->first_cap : bytes;
	if (bb_ddp_is_capped(cap))
		bb_format_size(cap->name, bytes);
	else
		snprintf(cap->name, sizeof(cap->name), "%s", bytes == 1 ? "tensor" : "one");
	BB_TRY(status,
	       bb_buckets_make(&cap->buckets, model, bb_dtype_size(a->dtype), cap->first, bytes,
			       error),
	       out);
	while (!bb_buckets_are_same(&ddp->caps[cap->same].buckets, &cap->buckets))
		cap->same++;
	ready = calloc(model->ntensors, sizeof(*ready));
	cap->ready_s = calloc(cap->buckets.n, sizeof(*cap->ready_s));
	cap->offsets = calloc(cap->buckets.n, sizeof(*cap->offsets));
	if (!ready || !cap->ready_s || !cap->offsets)
		BB_TRY(status, bb_no_memory(error, "the buckets"), out);
	bb_model_ready(model, ddp->replica.backward_s, ready);
	for (size_t k = 0; k < cap->buckets.n; k++) {
		const struct bb_bucket *b = &cap->buckets.list[k];

		cap->ready_s[k] = ready[b->first + b->count - 1];
		cap->offsets[k] = offset;
		offset += (size_t)b->elements;
	}
out:
	free(ready);
	return status;
}

const struct bb_ddp_cap *bb_ddp_last_same(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap)
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

static bb_status ddp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			   const struct bb_environment *environment, struct bb_error *error)
{
	static const uint64_t references[] = {BB_DDP_DEFAULT_CAP, BB_BUCKET_UNLIMITED, 1};
	struct bb_ddp *ddp = own;
	struct bb_ddp_options *a = &ddp->options;
	bb_status status;

	if (a->predict && !o->shows && !o->backend->virtual)
		return bb_fail(error, BB_EUSAGE,
			       "--backend %s: --predict simulates; leave one of them out",
			       o->backend->name);
	if (!a->predict && !a->flops_given && !a->step_ns_given)
		a->step_ns = STEP_NS;
	BB_TRY(status, bb_algorithms_check(a->algo_text, o, &bb_all_reduce, error), out);
	BB_TRY(status, read_algorithms(a, o->backend, error), out);
	BB_TRY(status, bb_replica_open(&ddp->replica, &BB_REPLICA_REQUEST(a), o, error), out);
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

	for (size_t i = 0; i < ddp->ncaps; i++) {
		bb_buckets_free(&ddp->caps[i].buckets);
		free(ddp->caps[i].ready_s);
		free(ddp->caps[i].offsets);
	}
	bb_replica_close(&ddp->replica);
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

	bb_strbuf_addf(out, "# %s: %lld parameters, %.2f MiB of gradients (%s)\n", r->model,
		       (long long)r->parameters, (double)r->gradient_bytes / (1 << 20), r->dtype);
	bb_strbuf_addf(out, "# Batch: forward %s, backward %s (%s)",
		       bb_format_duration(forward, 1e-6 * r->forward_us),
		       bb_format_duration(backward, 1e-6 * r->backward_us), r->compute);
	if (r->batches > 1)
		bb_strbuf_addf(out, "; %lld batches per step", (long long)r->batches);
	bb_strbuf_addf(out, "\n# DDP %s", r->fit);
	bb_strbuf_add(out,
		      "\n# Buckets: one = a single bucket, tensor = a bucket per tensor. Times "
		      "are medians.\n");
}

#define BB_RECORD bb_ddp_record
BB_RECORD_KIND(bb_record_ddp, BB_DDP_FIELDS, "data_parallel",
	       "Data-parallel training: one size of gradient buckets.", .about = ddp_about);

void bb_ddp_describe(const struct bb_ddp *ddp, const struct bb_ddp_cap *cap, int nranks,
		     double *numbers, struct bb_ddp_record *r)
{
	const struct bb_model *m = &ddp->replica.model;
	const struct bb_buckets *b = &cap->buckets;
	double *bytes = numbers, *tensors = bytes + b->n, *ready = tensors + b->n;
	const bool capped = bb_ddp_is_capped(cap), computes = ddp->replica.batch_s > 0;

	bb_record_init(&bb_record_ddp, r);
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
		ready[i] = 1e6 * cap->ready_s[i];
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

/* ---- --predict without links or the time of computations ------------------------------------- */

static bool ddp_shows(const void *own)
{
	const struct bb_ddp *ddp = own;

	return ddp->options.predict;
}

static void add_setting(const struct bb_run *run, const struct bb_ddp *ddp, int nranks,
			struct bb_strbuf *out)
{
	const struct bb_ddp_options *a = &ddp->options;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT], rate[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %d rank%s", nranks, bb_plural(nranks));
	if (ddp->replica.batch_s > 0)
		bb_strbuf_addf(out, ", each: forward %s, backward %s",
			       bb_format_duration(forward, ddp->replica.forward_s),
			       bb_format_duration(backward, ddp->replica.backward_s));
	if (a->flops_given)
		bb_strbuf_addf(out, " (batch %lld at %s)", (long long)a->batch,
			       bb_format_count(rate, (uint64_t)a->flops));
	if (a->accumulate > 1)
		bb_strbuf_addf(out, ", %lld batches", (long long)a->accumulate);
	if (run->options.link.text)
		bb_strbuf_addf(out, "; links of %s%s", run->options.link.text,
			       run->options.link.port ? "" : " per pair of ranks");
	bb_strbuf_addf(out, "\n# DDP %s\n", ddp->replica.fit.text);
}

static bb_status ddp_show(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_ddp *ddp = run->own;
	const int nranks = bb_estimate_ranks(&run->options, &run->environment);
	double *numbers = calloc(ddp->replica.model.ntensors, 3 * sizeof(*numbers));
	struct bb_ddp_record r;
	bb_status status = numbers ? BB_OK : bb_no_memory(&run->error, "the buckets");

	BB_TRY(status, status, out);
	BB_TRY(status, bb_replica_judge(&ddp->replica, nranks, &run->error), out);
	BB_TRY(status, bb_estimate_open(run, &bb_record_ddp, nranks, ddp->options.algo_text), out);
	bb_strbuf_addf(out, "# busbench version %s\n", BB_VERSION);
	bb_ddp_add_model(ddp, out);
	add_setting(run, ddp, nranks, out);
	bb_ddp_add_buckets(ddp, NULL, out);
	if (!links_are_known(&run->options))
		bb_strbuf_add(out,
			      "#\n# The step needs --link RATE,LATENCY, the links of ranks, as "
			      "in 10GB/s,5us, or --cluster\n");
	if (ddp->replica.batch_s == 0)
		bb_strbuf_add(out, "#\n# The step needs --flops RATE or --step-time TIME, the time "
				   "of computations\n");
	for (size_t i = 0; i < ddp->ncaps && status == BB_OK; i++) {
		bb_ddp_describe(ddp, &ddp->caps[i], nranks, numbers, &r);
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
	.options = bb_ddp_rows,
	.faults = 1u << BB_FAULT_CORRUPT | 1u << BB_FAULT_DIE,
	.refuses = {{BB_ALL_SIZES, "the model's gradients are reduced; leave it out, --buckets "
				   "sets the sizes of buckets"}},
	.queues = true,
	.shows = ddp_shows,
	.simulates = ddp_simulates,
	.check = ddp_check,
	.free_options = ddp_free,
	.list = ddp_list,
	.show = ddp_show,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_ddp,
	.plan = ddp_plan,
	.experiment = &bb_ddp_experiment,
};
