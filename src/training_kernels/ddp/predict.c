/*
 * predict.c - the buckets of a model and the step that follows from them, without a run: no world,
 * no clock.
 */
#include "training_kernels/ddp/predict.h"

#include "core/array.h"
#include "harness/run/options_check.h"
#include "training_kernels/estimate.h"

#include <stdlib.h>
#include <string.h>

struct bb_train_step bb_prediction_step(struct bb_prediction *p,
					const struct bb_prediction_row *row, bool overlap,
					struct bb_bucket_times *times)
{
	const struct bb_step_request request = {
		.compute = {p->forward_s, p->backward_s, p->ready},
		.buckets = &row->cap.buckets,
		.overlap = overlap,
		.accumulate = (int)p->ddp->options.accumulate,
		.reduce = bb_reduce_time_seconds,
		.own = &p->reduce,
	};

	return bb_step_model(&request, times);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool rows_are_same(const struct bb_prediction *p, size_t a, size_t b)
{
	return a == b || (a >= BB_PREDICT_CAP && b >= BB_PREDICT_CAP &&
			  bb_buckets_are_same(&p->rows[a].cap.buckets, &p->rows[b].cap.buckets));
}

size_t bb_prediction_first(const struct bb_prediction *p, size_t i)
{
	size_t first = 0;

	while (!rows_are_same(p, first, i))
		first++;
	return first;
}

size_t bb_prediction_last(const struct bb_prediction *p, size_t i)
{
	size_t last = p->nrows - 1;

	while (!rows_are_same(p, last, i))
		last--;
	return last;
}

static bb_status prediction_add_row(struct bb_prediction *p, uint64_t bytes)
{
	return bb_ddp_cap_make(&p->rows[p->nrows++].cap, p->ddp, bytes, &p->run->error);
}

static bb_status prediction_prepare(struct bb_prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->options;
	const struct bb_model *m = &p->ddp->model;
	bb_status status;

	p->computes = bb_ddp_compute(p->ddp, &p->forward_s, &p->backward_s);
	p->links = p->run->options.config.link_rate > 0;
	p->ready = calloc(m->ntensors, sizeof(*p->ready));
	p->times = calloc(m->ntensors, sizeof(*p->times));
	p->numbers = calloc(m->ntensors, 3 * sizeof(*p->numbers));
	if (!p->ready || !p->times || !p->numbers)
		return bb_no_memory(&p->run->error, "the prediction");
	bb_model_ready(m, p->backward_s, p->ready);
	BB_TRY(status, prediction_add_row(p, BB_BUCKET_UNLIMITED), out);
	BB_TRY(status, prediction_add_row(p, 1), out);
	BB_TRY(status, prediction_add_row(p, BB_DDP_DEFAULT_CAP), out);
	for (size_t i = 0; i < a->caps.n; i++)
		BB_TRY(status, prediction_add_row(p, a->caps.list[i]), out);
out:
	return status;
}

/* ---- records --------------------------------------------------------------------------------- */

static void describe_prediction(const struct bb_prediction *p, const struct bb_prediction_row *row,
				bool overlap, struct bb_ddp_record *r)
{
	const struct bb_train_step *s = &row->steps[overlap];

	r->overlap = overlap ? "on" : "off";
	r->predicted_step_us = 1e6 * s->step_s;
	r->predicted_reduce_us = 1e6 * s->reduce_s;
	r->predicted_exposed_us = 1e6 * s->exposed_s;
	r->predicted_hidden = s->hidden;
	r->predicted_times_one = p->rows[BB_PREDICT_ONE].steps[overlap].step_s / s->step_s;
	r->predicted_times_tensor = p->rows[BB_PREDICT_TENSOR].steps[overlap].step_s / s->step_s;
	r->predicted_times_25M = p->rows[BB_PREDICT_DEFAULT].steps[overlap].step_s / s->step_s;
}

static bb_status write_rows(struct bb_prediction *p, const char *algorithm)
{
	struct bb_ddp_record r;
	bb_status status = BB_OK;

	bb_ddp_describe(p->ddp, p->nranks, &r);
	r.algorithm = algorithm;
	for (size_t i = 0; i < p->nrows && status == BB_OK; i++) {
		/* 25 MiB only if requested. */
		if (i == BB_PREDICT_DEFAULT)
			continue;
		bb_ddp_describe_cap(&r, &p->rows[i].cap, p->computes ? p->ready : NULL, p->numbers);
		if (!algorithm)
			status = bb_estimate_record(p->run, &bb_record_ddp, &r);
		for (int overlap = 1; overlap >= 0 && algorithm; overlap--) {
			if (!bb_ddp_has_overlap(&p->ddp->options, overlap))
				continue;
			describe_prediction(p, &p->rows[i], overlap == 1, &r);
			status = bb_estimate_record(p->run, &bb_record_ddp, &r);
		}
	}
	return status;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

/* The steps of all rows by ALGORITHM. BB_EUNSUPPORTED with the reason in CAUSE. */
static bb_status predict_rows(struct bb_prediction *p, const char *algorithm,
			      struct bb_error *cause)
{
	const struct bb_backend_config *link = &p->run->options.config;

	bb_reduce_time_close(&p->reduce);
	p->reduce = (struct bb_reduce_time){
		.links = {.rate = link->link_rate,
			  .latency = link->link_latency,
			  .port = link->link_port},
		.algorithm = strcmp(algorithm, "auto") == 0 ? NULL : algorithm,
		.nranks = p->nranks,
		.dtype = p->ddp->options.dtype,
		.error = cause,
	};
	for (size_t i = 0; i < p->nrows && p->reduce.status == BB_OK; i++)
		for (int overlap = 0; overlap < 2; overlap++)
			p->rows[i].steps[overlap] =
				bb_prediction_step(p, &p->rows[i], overlap == 1, NULL);
	return p->reduce.status;
}

static bb_status prediction_skip(struct bb_prediction *p, const char *algorithm, const char *reason)
{
	struct bb_skip_record r;

	bb_strbuf_addf(p->out, "#\n# skipped: %s: %s\n", algorithm, reason);
	bb_record_init(&bb_record_skip, &r);
	r.collective = bb_all_reduce.name;
	r.algorithm = algorithm;
	r.reason = reason;
	p->run->end.skipped++;
	return bb_sinks_record(&p->run->sinks, &bb_record_skip, &r);
}

/* Keeps the steps by ALGORITHM for the recommendation. */
static bb_status keep_steps(struct bb_prediction *p, const char *algorithm)
{
	const struct bb_ddp_options *a = &p->ddp->options;

	for (size_t i = 0; i < p->nrows; i++)
		for (int overlap = 0; overlap < 2; overlap++) {
			struct bb_predicted_step *kept;

			if (i == BB_PREDICT_DEFAULT || bb_prediction_first(p, i) != i ||
			    !bb_ddp_has_overlap(a, overlap == 1))
				continue;
			kept = BB_ARRAY_ADD(p->steps, p->nsteps, p->step_room);
			if (!kept)
				return bb_no_memory(&p->run->error, "the prediction");
			*kept = (struct bb_predicted_step){.step = p->rows[i].steps[overlap],
							   .overlap = overlap == 1};
			kept->candidate.seconds = kept->step.step_s;
			bb_ddp_name_caps(kept->candidate.name, &p->rows[i].cap,
					 &p->rows[bb_prediction_last(p, i)].cap,
					 a->nalgorithms > 1 ? algorithm : NULL);
		}
	return BB_OK;
}

static bb_status deliver_algorithm(struct bb_prediction *p, const char *algorithm)
{
	const bb_status status = keep_steps(p, algorithm);

	if (status != BB_OK)
		return status;
	bb_prediction_add_steps(p, algorithm);
	return write_rows(p, algorithm);
}

/* Steps by each algorithm. BB_EUNSUPPORTED if none of them can be predicted. */
static bb_status predict_steps(struct bb_prediction *p)
{
	const char(*names)[BB_WORD] = p->ddp->options.algorithms;
	const size_t n = p->ddp->options.nalgorithms;
	struct bb_error first = {.text = ""};
	bb_status written = BB_OK;
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		struct bb_error cause = {.text = ""};
		const bb_status status = predict_rows(p, names[i], &cause);

		if (status != BB_OK && status != BB_EUNSUPPORTED)
			return bb_fail(&p->run->error, status, "%s", cause.text);
		if (n == 1 && status == BB_OK)
			bb_prediction_add_buckets(p, true);
		any |= status == BB_OK;
		if (status == BB_OK) {
			BB_TRY(written, deliver_algorithm(p, names[i]), out);
			continue;
		}
		(void)bb_fail(&first, BB_EUNSUPPORTED, "%s", cause.text);
		BB_TRY(written, prediction_skip(p, names[i], cause.text), out);
	}
	bb_prediction_add_best(p);
	if (!any)
		written = bb_fail(&p->run->error, BB_EUNSUPPORTED, "--algo: %s", first.text);
out:
	return written;
}

static bb_status prediction_make(struct bb_prediction *p)
{
	const size_t n = p->ddp->options.nalgorithms;
	bb_status status;

	BB_TRY(status, prediction_prepare(p), out);
	BB_TRY(status,
	       bb_estimate_open(p->run, &bb_record_ddp, p->nranks, p->ddp->options.algo_text), out);
	bb_prediction_add_model(p);
	if (!p->computes || !p->links || n > 1)
		bb_prediction_add_buckets(p, false);
	if (p->computes && p->links) {
		status = predict_steps(p);
	} else {
		bb_prediction_add_missing(p);
		status = write_rows(p, NULL);
	}
	status = bb_estimate_end(p->run, p->out, status);
out:
	bb_sinks_close(&p->run->sinks);
	return status;
}

bb_status bb_ddp_predict(struct bb_run *run, struct bb_strbuf *out)
{
	struct bb_ddp *ddp = run->own;
	struct bb_prediction *p = calloc(1, sizeof(*p));
	bb_status status;

	if (!p)
		return bb_no_memory(&run->error, "the prediction");
	*p = (struct bb_prediction){.ddp = ddp, .run = run, .out = out};
	p->nranks = bb_estimate_ranks(&run->options, &run->environment);
	status = bb_ddp_fit(ddp, p->nranks, &run->error);
	if (status == BB_OK)
		status = prediction_make(p);
	for (size_t i = 0; i < p->nrows; i++)
		bb_buckets_free(&p->rows[i].cap.buckets);
	bb_reduce_time_close(&p->reduce);
	free(p->ready);
	free(p->times);
	free(p->numbers);
	free(p->steps);
	free(p);
	bb_model_free(&ddp->model);
	return status;
}
