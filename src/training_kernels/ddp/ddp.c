/*
 * ddp.c - buckets of data-parallel training: options, record and descriptor of the benchmark.
 */
#include "training_kernels/ddp/ddp.h"

#include "harness/measure/algorithms.h"
#include "harness/run/options_check.h"
#include "training_kernels/estimate.h"

#include <stdio.h>
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

/* A schedule of busbench gets its prefix if the backend's library has the name too. */
static bb_status add_schedule(struct bb_ddp_options *a, const struct bb_native *natives,
			      const char *name, struct bb_error *error)
{
	char own[BB_WORD];

	snprintf(own, sizeof(own), "%s%s", bb_native_find(natives, name) ? BB_OWN : "", name);
	return add_algorithm(a, own, error);
}

/* The algorithms of --algo, which has passed its check. */
static bb_status read_algorithms(struct bb_ddp_options *a, const struct bb_backend *backend,
				 struct bb_error *error)
{
	const struct bb_native *natives = a->predict ? NULL : backend->natives;
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
		if (bb_algorithms[i]->collective == &bb_all_reduce)
			status = add_schedule(a, natives, bb_algorithms[i]->name, error);
	return status;
}

/* ---- the check ------------------------------------------------------------------------------- */

bb_status bb_ddp_check_time(bool flops_given, bool step_given, bool batch_given,
			    struct bb_error *error)
{
	if (flops_given && step_given)
		return bb_fail(error, BB_EUSAGE,
			       "--flops and --step-time both set the time of a batch; give one");
	if (step_given && batch_given)
		return bb_fail(
			error, BB_EUSAGE,
			"--batch: --step-time is the time of a batch of any size; leave one of "
			"them out");
	return BB_OK;
}

static bb_status ddp_check(const struct bb_benchmark *benchmark, void *own, struct bb_options *o,
			   const struct bb_environment *environment, struct bb_error *error)
{
	struct bb_ddp *ddp = own;
	struct bb_ddp_options *a = &ddp->options;
	bb_status status;

	if (a->predict && o->fault_text_given)
		return bb_fail(error, BB_EUSAGE,
			       "--fault: --predict runs nothing; leave one of them out");
	BB_TRY(status, bb_ddp_check_time(a->flops_given, a->step_ns_given, a->batch_given, error),
	       out);
	BB_TRY(status, bb_algorithms_check(a->algo_text, o, &bb_all_reduce, error), out);
	BB_TRY(status, read_algorithms(a, o->backend, error), out);
	BB_TRY(status, bb_model_open(&ddp->model, a->model_text, a->seq, error), out);
	BB_TRY(status,
	       bb_estimate_capacity(&ddp->capacity, "--memory", a->memory, a->memory_given,
				    a->reserve, o->cluster, error),
	       out);
	bb_attention_apply(&ddp->model, (enum bb_attention)a->attention);
	if (!a->predict && !a->flops_given && !a->step_ns_given) {
		a->step_ns = STEP_NS;
		a->step_ns_given = true;
	}
	if (a->predict)
		status = bb_check_outputs(o, NULL, environment->launch.proc == 0, error);
out:
	return status;
}

bool bb_ddp_compute(const struct bb_ddp *ddp, double *forward_s, double *backward_s)
{
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_model *m = &ddp->model;
	double per_flop = 0;

	if (a->step_ns_given)
		per_flop = 1e-9 * (double)a->step_ns / (m->forward + m->backward);
	else if (a->flops_given)
		per_flop = (double)a->batch / a->flops;
	*forward_s = m->forward * per_flop;
	*backward_s = m->backward * per_flop;
	return per_flop > 0;
}

/* ---- sizes of buckets ------------------------------------------------------------------------ */

/* One bucket and a bucket per tensor have no cap. */
static bool is_capped(uint64_t bytes)
{
	return bytes != BB_BUCKET_UNLIMITED && bytes != 1;
}

bb_status bb_ddp_cap_make(struct bb_ddp_cap *cap, const struct bb_ddp *ddp, uint64_t bytes,
			  struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;

	cap->bytes = bytes;
	cap->first = a->first_cap && is_capped(bytes) ? a->first_cap : bytes;
	if (is_capped(bytes))
		bb_format_size(cap->name, bytes);
	else
		snprintf(cap->name, sizeof(cap->name), "%s", bytes == 1 ? "tensor" : "one");
	return bb_buckets_make(&cap->buckets, &ddp->model, bb_dtype_size(a->dtype), cap->first,
			       bytes, error);
}

/* ---- recommendations ------------------------------------------------------------------------- */

static const char *cap_words(const struct bb_ddp_cap *cap)
{
	if (is_capped(cap->bytes))
		return cap->name;
	return cap->bytes == 1 ? "a bucket per tensor" : "one bucket";
}

void bb_ddp_name_caps(char name[BB_CANDIDATE_TEXT], const struct bb_ddp_cap *first,
		      const struct bb_ddp_cap *last, const char *algorithm)
{
	snprintf(name, BB_CANDIDATE_TEXT, algorithm ? "%s%s%s (%s)" : "%s%s%s", cap_words(first),
		 last != first ? " to " : "", last != first ? cap_words(last) : "", algorithm);
}

void bb_ddp_add_cause(double reduce_s, double exposed_s, struct bb_strbuf *out)
{
	char text[BB_UNIT_TEXT];

	if (reduce_s >= exposed_s - reduce_s)
		bb_strbuf_addf(out, "its reductions take %s longer",
			       bb_format_duration(text, reduce_s));
	else
		bb_strbuf_addf(out, "it hides %s less of its reductions",
			       bb_format_duration(text, exposed_s - reduce_s));
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

void bb_ddp_describe(const struct bb_ddp *ddp, int nranks, struct bb_ddp_record *r)
{
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_model *m = &ddp->model;
	double forward_s, backward_s;

	bb_record_init(&bb_record_ddp, r);
	r->model = m->name;
	r->family = m->family;
	r->dtype = bb_dtype_name(a->dtype);
	r->nranks = nranks;
	r->batches = a->accumulate;
	r->tensors = (int64_t)m->ntensors;
	r->parameters = (int64_t)m->parameters;
	r->gradient_bytes = (int64_t)(m->parameters * bb_dtype_size(a->dtype));
	BB_FIT_SET(r, &ddp->fit);
	if (bb_ddp_compute(ddp, &forward_s, &backward_s)) {
		r->forward_us = 1e6 * forward_s;
		r->backward_us = 1e6 * backward_s;
	}
}

void bb_ddp_describe_cap(struct bb_ddp_record *r, const struct bb_ddp_cap *cap,
			 const double *ready_s, double *numbers)
{
	const struct bb_buckets *b = &cap->buckets;
	double *bytes = numbers, *tensors = bytes + b->n, *ready = tensors + b->n;
	const bool capped = is_capped(cap->bytes);

	for (size_t i = 0; i < b->n; i++) {
		bytes[i] = (double)b->list[i].bytes;
		tensors[i] = (double)b->list[i].count;
		ready[i] = ready_s ? 1e6 * ready_s[b->list[i].first + b->list[i].count - 1] : 0;
	}
	r->grouping = capped ? "cap" : cap->bytes == 1 ? "tensor" : "one";
	r->cap_bytes = capped ? (int64_t)cap->bytes : BB_ABSENT;
	r->first_cap_bytes = capped ? (int64_t)cap->first : BB_ABSENT;
	r->buckets = (int64_t)b->n;
	r->least_bytes = (int64_t)bb_buckets_least(b);
	r->most_bytes = (int64_t)bb_buckets_most(b);
	r->last_bytes = (int64_t)b->list[b->n - 1].bytes;
	r->mean_bytes = (double)b->bytes / (double)b->n;
	r->bucket_bytes = (struct bb_numbers){bytes, b->n};
	r->bucket_tensors = (struct bb_numbers){tensors, b->n};
	r->bucket_ready_us = (struct bb_numbers){ready, ready_s ? b->n : 0};
}

/* ---- the benchmark --------------------------------------------------------------------------- */

bb_status bb_ddp_fit(struct bb_ddp *ddp, int nranks, struct bb_error *error)
{
	const struct bb_ddp_options *a = &ddp->options;
	const struct bb_replica replica = {&ddp->model, a->dtype, (enum bb_attention)a->attention,
					   a->batch, nranks};

	return bb_estimate_fit(&ddp->fit, &replica, ddp->capacity.usable, error);
}

static bb_status ddp_plan(struct bb_run *run)
{
	struct bb_ddp *ddp = run->own;
	const bb_status status = bb_ddp_fit(ddp, run->world.nranks, &run->error);
	char subject[128];

	if (status != BB_OK)
		return status;

	run->record.collective = bb_all_reduce.name;
	run->record.algorithms = ddp->options.algo_text;
	snprintf(subject, sizeof(subject), "--model %s", ddp->options.model_text);
	return bb_estimate_room(run, ddp->model.parameters * bb_dtype_size(ddp->options.dtype),
				subject, "gradients",
				"fewer ranks, a smaller datatype, --predict or --backend sim");
}

static void ddp_list(struct bb_strbuf *out)
{
	bb_model_list(out);
	bb_algorithms_list(out);
}

static void close_ddp(struct bb_run *run)
{
	struct bb_ddp *ddp = run->own;

	bb_model_free(&ddp->model);
}

static bool ddp_shows(const void *own)
{
	const struct bb_ddp *ddp = own;

	return ddp->options.predict;
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
	.check = ddp_check,
	.list = ddp_list,
	.show = bb_ddp_predict,
	.open_text = bb_sink_table_open,
	.rows = &bb_record_ddp,
	.plan = ddp_plan,
	.experiment = &bb_ddp_experiment,
	.close = close_ddp,
};
