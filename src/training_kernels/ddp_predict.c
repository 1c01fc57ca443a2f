/*
 * ddp_predict.c - the buckets of a model and the step that follows from them, as text. Nothing is
 * run: no world, no clock.
 */
#include "core/units.h"
#include "core/version.h"
#include "training_kernels/ddp.h"

#include <math.h>
#include <stdlib.h>

#define MIB (1.0 / (1 << 20))
#define MOST_LINES 7 /* of a list of buckets, before its last */
#define DEFAULT_CAP ((uint64_t)25 << 20)

/* What a row is about: a cap, or one of the extremes. */
enum kind { ONE_BUCKET, PER_TENSOR, DEFAULT, CAP };

struct row {
	enum kind kind;
	struct bb_buckets buckets;
	char name[BB_UNIT_TEXT];
	struct bb_train_step on, off;
};

struct prediction {
	const struct bb_ddp *ddp;
	const struct bb_options *options;
	struct bb_strbuf *out;
	struct bb_error *error;
	int nranks;
	bool computes, links; /* it is known how long a rank computes; how fast bytes go */
	double forward_s, backward_s;
	double *ready;
	struct bb_bucket_times *times;
	/* The extremes and the default, then the caps. */
	struct row rows[CAP + BB_DDP_MOST_CAPS];
	size_t nrows;
};

static double reduce_seconds(const void *own, uint64_t bytes)
{
	const struct prediction *p = own;
	const struct bb_backend_config *link = &p->options->config;

	return bb_ring_seconds(bytes, p->nranks, link->link_latency, link->link_rate);
}

static struct bb_train_step step_of(const struct prediction *p, const struct row *row, bool overlap,
				    struct bb_bucket_times *times)
{
	const struct bb_step_request request = {
		.compute = {p->forward_s, p->backward_s, p->ready},
		.buckets = &row->buckets,
		.overlap = overlap,
		.accumulate = (int)p->ddp->asked.accumulate,
		.reduce = reduce_seconds,
		.own = p,
	};

	return bb_step_model(&request, times);
}

/* ---- what is predicted --------------------------------------------------------------------------
 */

static bb_status add_row(struct prediction *p, enum kind kind, uint64_t cap)
{
	static const char *const names[] = {"one", "tensor", "25M"};
	const struct bb_ddp_options *a = &p->ddp->asked;
	struct row *row = &p->rows[p->nrows++];
	uint64_t first = cap;

	row->kind = kind;
	if (kind == CAP)
		bb_format_size(row->name, cap);
	else
		snprintf(row->name, sizeof(row->name), "%s", names[kind]);
	if (kind >= DEFAULT && a->first_cap)
		first = a->first_cap;
	return bb_buckets_make(&row->buckets, &p->ddp->model, bb_dtype_size(a->dtype), first, cap,
			       p->error);
}

static bb_status add_rows(struct prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->asked;
	bb_status status;

	BB_TRY(status, add_row(p, ONE_BUCKET, BB_BUCKET_UNLIMITED), out);
	BB_TRY(status, add_row(p, PER_TENSOR, 1), out);
	BB_TRY(status, add_row(p, DEFAULT, DEFAULT_CAP), out);
	for (size_t i = 0; i < a->ncaps; i++)
		BB_TRY(status, add_row(p, CAP, a->caps[i]), out);
	for (size_t i = 0; p->computes && p->links && i < p->nrows; i++) {
		p->rows[i].on = step_of(p, &p->rows[i], true, NULL);
		p->rows[i].off = step_of(p, &p->rows[i], false, NULL);
	}
out:
	return status;
}

static bb_status prepare(struct prediction *p)
{
	const struct bb_model *m = &p->ddp->model;

	p->computes = bb_ddp_compute(p->ddp, &p->forward_s, &p->backward_s);
	p->links = p->options->config.link_rate > 0;
	p->ready = calloc(m->ntensors, sizeof(*p->ready));
	p->times = calloc(m->ntensors, sizeof(*p->times));
	if (!p->ready || !p->times)
		return bb_fail(p->error, BB_EINTERNAL, "out of memory for the prediction");
	bb_model_ready(m, p->backward_s, p->ready);
	return add_rows(p);
}

/* ---- as text ------------------------------------------------------------------------------------
 */

/* "291.6 GFLOPs" */
static void add_flops(struct bb_strbuf *out, double flops)
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
	size_t unit = 0;

	for (; flops >= 1000 && unit < 6; unit++)
		flops /= 1000;
	bb_strbuf_addf(out, "%.4g %sFLOPs", flops, units[unit]);
}

static void tell_model(const struct prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->asked;
	const struct bb_model *m = &p->ddp->model;
	const uint64_t bytes = p->rows[ONE_BUCKET].buckets.bytes;

	bb_strbuf_addf(p->out, "# busbench version %s\n# %s: %s (%s), gradients in %s\n",
		       BB_VERSION, p->options->program, m->name, m->family,
		       bb_dtype_name(a->dtype));
	bb_strbuf_addf(p->out,
		       "# %zu tensors, %llu parameters, %llu bytes of gradients (%.2f MiB)\n# ",
		       m->ntensors, (unsigned long long)m->parameters, (unsigned long long)bytes,
		       (double)bytes * MIB);
	add_flops(p->out, m->forward);
	bb_strbuf_add(p->out, " forward, ");
	add_flops(p->out, m->backward);
	if (m->hyper.seq)
		bb_strbuf_addf(p->out, " backward, of a sequence of %lld tokens\n",
			       (long long)m->hyper.seq);
	else
		bb_strbuf_add(p->out, " backward, of one sample\n");
}

static void tell_setting(const struct prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->asked;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT];

	bb_strbuf_addf(p->out, "# %d rank%s", p->nranks, p->nranks == 1 ? "" : "s");
	if (p->computes)
		bb_strbuf_addf(p->out, ", each: forward %s, backward %s",
			       bb_format_duration(forward, p->forward_s),
			       bb_format_duration(backward, p->backward_s));
	if (a->flops_text)
		bb_strbuf_addf(p->out, " (batch %lld at %s)", (long long)a->batch, a->flops_text);
	if (a->accumulate > 1)
		bb_strbuf_addf(p->out, ", %lld batches", (long long)a->accumulate);
	if (p->links)
		bb_strbuf_addf(p->out, "; ring over links of %s", p->options->link_text);
	bb_strbuf_add(p->out, "\n");
}

static void tell_caps(const struct prediction *p)
{
	bb_strbuf_addf(p->out, "#\n# Buckets; the first one is closed at %s\n",
		       p->ddp->asked.first_text);
	bb_strbuf_addf(p->out,
		       "#%9s %8s %10s %10s %10s %10s %8s\n#%9s %8s %10s %10s %10s %10s %8s\n",
		       "cap", "buckets", "min", "mean", "max", "last", "tensors", "", "", "(MiB)",
		       "(MiB)", "(MiB)", "(MiB)", "(mean)");
	for (size_t i = CAP; i < p->nrows; i++) {
		const struct bb_buckets *b = &p->rows[i].buckets;

		bb_strbuf_addf(p->out, "%10s %8zu %10.3f %10.3f %10.3f %10.3f %8.1f\n",
			       p->rows[i].name, b->n, (double)bb_buckets_least(b) * MIB,
			       (double)b->bytes * MIB / (double)b->n,
			       (double)bb_buckets_most(b) * MIB,
			       (double)b->list[b->n - 1].bytes * MIB,
			       (double)p->ddp->model.ntensors / (double)b->n);
	}
}

/* The bucket behind those that are like number FIRST. */
static size_t behind(const struct bb_buckets *b, size_t first)
{
	size_t k = first + 1;

	while (k < b->n && b->list[k].bytes == b->list[first].bytes &&
	       b->list[k].count == b->list[first].count)
		k++;
	return k;
}

static void tell_bucket(const struct prediction *p, const struct bb_buckets *b, size_t first,
			size_t end)
{
	char name[32];

	snprintf(name, sizeof(name), end - first > 1 ? "%zu-%zu" : "%zu", first, end - 1);
	bb_strbuf_addf(p->out, "%12s %8zu %10.3f", name, b->list[first].count,
		       (double)b->list[first].bytes * MIB);
	if (p->computes)
		bb_strbuf_addf(p->out, " %10.3f", 1e3 * p->times[first].ready);
	if (p->computes && p->links)
		bb_strbuf_addf(p->out, " %10.3f %10.3f", 1e3 * p->times[first].start,
			       1e3 * p->times[end - 1].end);
	bb_strbuf_add(p->out, "\n");
}

/* Those that are alike in one line. */
static void tell_buckets(const struct prediction *p, const struct row *row)
{
	const struct bb_buckets *b = &row->buckets;
	size_t k = 0;

	step_of(p, row, p->ddp->asked.overlap != BB_OVERLAP_OFF, p->times);
	bb_strbuf_addf(p->out, "#\n# Buckets of %s%s\n#%11s %8s %10s", row->name,
		       !p->computes                              ? ""
		       : p->ddp->asked.overlap != BB_OVERLAP_OFF ? ", in ms of the backward pass"
								 : ", in ms of the backward pass, "
								   "reduced after it",
		       "bucket", "tensors", "MiB");
	if (p->computes)
		bb_strbuf_addf(p->out, " %10s", "ready");
	if (p->computes && p->links)
		bb_strbuf_addf(p->out, " %10s %10s", "start", "end");
	bb_strbuf_add(p->out, "\n");
	for (int line = 0; k < b->n && line < MOST_LINES; line++) {
		const size_t end = behind(b, k);

		tell_bucket(p, b, k, end);
		k = end;
	}
	if (k + 1 < b->n)
		bb_strbuf_addf(p->out, "#%11s %zu more\n", "...", b->n - 1 - k);
	if (k < b->n)
		tell_bucket(p, b, b->n - 1, b->n);
}

/* ---- the step -----------------------------------------------------------------------------------
 */

/* How many times as fast as BASE. */
static void add_gain(struct bb_strbuf *out, const struct bb_train_step *step,
		     const struct bb_train_step *base)
{
	bb_strbuf_addf(out, " %8.3f", base->step_s / step->step_s);
}

static void tell_step(const struct prediction *p, const struct row *row, bool overlap)
{
	const struct bb_train_step *s = overlap ? &row->on : &row->off;

	bb_strbuf_addf(p->out, "%10s %7s %10.3f %10.3f %10.3f", row->name, overlap ? "on" : "off",
		       1e3 * s->step_s, 1e3 * s->reduce_s, 1e3 * s->exposed_s);
	if (isnan(s->hidden))
		bb_strbuf_addf(p->out, " %6s", "-");
	else
		bb_strbuf_addf(p->out, " %6.1f", 100 * s->hidden);
	for (int i = 0; i < CAP; i++)
		add_gain(p->out, s, overlap ? &p->rows[i].on : &p->rows[i].off);
	bb_strbuf_add(p->out, "\n");
}

static const struct row *best(const struct prediction *p, bool overlap)
{
	const struct row *found = &p->rows[CAP];

	for (size_t i = CAP + 1; i < p->nrows; i++)
		if ((overlap ? p->rows[i].on.step_s : p->rows[i].off.step_s) <
		    (overlap ? found->on.step_s : found->off.step_s))
			found = &p->rows[i];
	return found;
}

static void tell_steps(const struct prediction *p)
{
	const int asked = p->ddp->asked.overlap;

	bb_strbuf_addf(p->out,
		       "#\n# Step: %.3f ms of computing, and what of the reductions is "
		       "exposed\n",
		       1e3 * p->rows[0].on.compute_s);
	bb_strbuf_addf(p->out,
		       "#%9s %7s %10s %10s %10s %6s %8s %8s %8s\n"
		       "#%9s %7s %10s %10s %10s %6s %26s\n",
		       "cap", "overlap", "step", "reduce", "exposed", "hidden", "one", "tensor",
		       "25M", "", "", "(ms)", "(ms)", "(ms)", "(%)", "times as fast as");
	for (int overlap = 1; overlap >= 0; overlap--) {
		if (asked == (overlap ? BB_OVERLAP_OFF : BB_OVERLAP_ON))
			continue;
		/* 25M only where it is not among the caps; the extremes always. */
		for (size_t i = 0; i < p->nrows; i++)
			if (i != DEFAULT)
				tell_step(p, &p->rows[i], overlap);
		bb_strbuf_addf(p->out, "# best with overlap %s: %s\n", overlap ? "on" : "off",
			       best(p, overlap)->name);
	}
}

static void tell_missing(const struct prediction *p)
{
	if (!p->links)
		bb_strbuf_add(p->out, "#\n# The step needs --link RATE,LATENCY, as in 10GB/s,5us: "
				      "how fast gradients go from rank to rank\n");
	if (!p->computes)
		bb_strbuf_add(p->out, "#\n# The step needs --flops RATE or --step-time TIME: how "
				      "long a rank computes\n");
}

bb_status bb_ddp_predict(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_options *o = &run->options;
	const int nprocs = run->environment.launch.nprocs;
	struct bb_ddp *ddp = run->own;
	struct prediction *p = calloc(1, sizeof(*p));
	bb_status status = BB_EINTERNAL;

	if (!p) {
		bb_fail(&run->error, status, "out of memory for the prediction");
		goto out;
	}
	*p = (struct prediction){.ddp = ddp, .options = o, .out = out, .error = &run->error};
	p->nranks = (int)(o->threads * o->gpus) * (nprocs > 1 ? nprocs : 1);
	BB_TRY(status, prepare(p), out);
	tell_model(p);
	tell_setting(p);
	tell_caps(p);
	for (size_t i = CAP; i < p->nrows; i++)
		tell_buckets(p, &p->rows[i]);
	if (p->computes && p->links)
		tell_steps(p);
	else
		tell_missing(p);
out:
	for (size_t i = 0; p && i < p->nrows; i++)
		bb_buckets_free(&p->rows[i].buckets);
	if (p) {
		free(p->ready);
		free(p->times);
	}
	free(p);
	bb_model_free(&ddp->model);
	return status;
}
