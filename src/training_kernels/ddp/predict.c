/*
 * predict.c - the buckets of a model and the step that follows from them. Nothing is run: no
 * world, no clock.
 */
#include "training_kernels/ddp/predict.h"

#include "harness/run/options_check.h"
#include "training_kernels/shown.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CAP ((uint64_t)25 << 20)

struct bb_train_step bb_prediction_step(struct bb_prediction *p,
					const struct bb_prediction_row *row, bool overlap,
					struct bb_bucket_times *times)
{
	const struct bb_step_request request = {
		.compute = {p->forward_s, p->backward_s, p->ready},
		.buckets = &row->buckets,
		.overlap = overlap,
		.accumulate = (int)p->ddp->asked.accumulate,
		.reduce = bb_reduce_time_seconds,
		.own = &p->reduce,
	};

	return bb_step_model(&request, times);
}

/* ---- rows ---------------------------------------------------------------------------- */

static bb_status add_row(struct bb_prediction *p, enum bb_prediction_kind kind, uint64_t cap)
{
	static const char *const names[] = {"one", "tensor", "25M"};
	const struct bb_ddp_options *a = &p->ddp->asked;
	struct bb_prediction_row *row = &p->rows[p->nrows++];
	uint64_t first = cap;

	row->kind = kind;
	if (kind == BB_PREDICT_CAP)
		bb_format_size(row->name, cap);
	else
		snprintf(row->name, sizeof(row->name), "%s", names[kind]);
	if (kind >= BB_PREDICT_DEFAULT && a->first_cap)
		first = a->first_cap;
	row->cap = cap;
	row->first_cap = first;
	return bb_buckets_make(&row->buckets, &p->ddp->model, bb_dtype_size(a->dtype), first, cap,
			       p->error);
}

static bb_status prepare(struct bb_prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->asked;
	const struct bb_model *m = &p->ddp->model;
	bb_status status;

	p->computes = bb_ddp_compute(p->ddp, &p->forward_s, &p->backward_s);
	p->links = p->options->config.link_rate > 0;
	p->ready = calloc(m->ntensors, sizeof(*p->ready));
	p->times = calloc(m->ntensors, sizeof(*p->times));
	p->numbers = calloc(m->ntensors, 3 * sizeof(*p->numbers));
	if (!p->ready || !p->times || !p->numbers)
		return bb_no_memory(p->error, "the prediction");
	bb_model_ready(m, p->backward_s, p->ready);
	BB_TRY(status, add_row(p, BB_PREDICT_ONE, BB_BUCKET_UNLIMITED), out);
	BB_TRY(status, add_row(p, BB_PREDICT_TENSOR, 1), out);
	BB_TRY(status, add_row(p, BB_PREDICT_DEFAULT, DEFAULT_CAP), out);
	for (size_t i = 0; i < a->caps.n; i++)
		BB_TRY(status, add_row(p, BB_PREDICT_CAP, a->caps.list[i]), out);
out:
	return status;
}

/* ---- algorithms ---------------------------------------------------------------------- */

/* The steps of all rows by ALGORITHM. BB_EUNSUPPORTED with the reason in CAUSE. */
static bb_status work_out(struct bb_prediction *p, const char *algorithm, struct bb_error *cause)
{
	const struct bb_backend_config *link = &p->options->config;

	bb_reduce_time_close(&p->reduce);
	p->reduce = (struct bb_reduce_time){
		.links = {.rate = link->link_rate,
			  .latency = link->link_latency,
			  .port = link->link_port},
		.algorithm = strcmp(algorithm, "auto") == 0 ? NULL : algorithm,
		.nranks = p->nranks,
		.dtype = p->ddp->asked.dtype,
		.error = cause,
	};
	for (size_t i = 0; i < p->nrows && p->reduce.status == BB_OK; i++)
		for (int overlap = 0; overlap < 2; overlap++)
			p->rows[i].steps[overlap] =
				bb_prediction_step(p, &p->rows[i], overlap == 1, NULL);
	return p->reduce.status;
}

static bb_status skip(struct bb_prediction *p, const char *algorithm, const char *reason,
		      struct bb_error *first)
{
	(void)bb_fail(first, BB_EUNSUPPORTED, "%s", reason);
	bb_strbuf_addf(p->out, "#\n# skipped: %s: %s\n", algorithm, reason);
	return bb_prediction_skip(p, algorithm, reason);
}

static bb_status deliver(struct bb_prediction *p, const char *algorithm)
{
	bb_prediction_tell_steps(p, algorithm);
	return bb_prediction_record(p, algorithm);
}

/* Steps by one algorithm after the other. BB_EUNSUPPORTED where none of them can be predicted. */
static bb_status predict_steps(struct bb_prediction *p)
{
	const char(*names)[BB_WORD] = p->ddp->asked.algorithms;
	const size_t n = p->ddp->asked.nalgorithms;
	struct bb_error first = {.text = ""};
	bb_status written = BB_OK;
	int told = 0;

	for (size_t i = 0; i < n; i++) {
		struct bb_error cause = {.text = ""};
		const bb_status status = work_out(p, names[i], &cause);

		if (status != BB_OK && status != BB_EUNSUPPORTED)
			return bb_fail(p->error, status, "%s", cause.text);
		if (n == 1 && status == BB_OK)
			bb_prediction_tell_buckets(p, true);
		if (status != BB_OK)
			BB_TRY(written, skip(p, names[i], cause.text, &first), out);
		else
			BB_TRY(written, deliver(p, names[i]), out);
		told += status == BB_OK;
	}
	if (!told)
		written = bb_fail(p->error, BB_EUNSUPPORTED, "--algo: %s", first.text);
out:
	return written;
}

static bb_status predict(struct bb_prediction *p)
{
	const size_t n = p->ddp->asked.nalgorithms;
	bb_status status;

	BB_TRY(status, prepare(p), out);
	BB_TRY(status, bb_prediction_open(p), out);
	bb_prediction_tell_model(p);
	if (!p->computes || !p->links || n > 1)
		bb_prediction_tell_buckets(p, false);
	if (p->computes && p->links) {
		status = predict_steps(p);
	} else {
		bb_prediction_tell_missing(p);
		status = bb_prediction_record(p, NULL);
	}
	status = bb_shown_end(p->run, status);
	if (bb_options_stdout_taken(p->options))
		bb_strbuf_clear(p->out);
out:
	bb_sinks_close(&p->run->sinks);
	return status;
}

bb_status bb_ddp_predict(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_options *o = &run->options;
	const int nprocs = run->environment.launch.nprocs;
	struct bb_ddp *ddp = run->own;
	struct bb_prediction *p = calloc(1, sizeof(*p));
	bb_status status;

	if (!p)
		return bb_no_memory(&run->error, "the prediction");
	*p = (struct bb_prediction){
		.ddp = ddp, .options = o, .run = run, .out = out, .error = &run->error};
	p->nranks = (int)(o->threads * o->gpus) * (nprocs > 1 ? nprocs : 1);
	status = predict(p);
	for (size_t i = 0; i < p->nrows; i++)
		bb_buckets_free(&p->rows[i].buckets);
	bb_reduce_time_close(&p->reduce);
	free(p->ready);
	free(p->times);
	free(p->numbers);
	free(p);
	bb_model_free(&ddp->model);
	return status;
}
