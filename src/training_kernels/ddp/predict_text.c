/*
 * predict_text.c - a prediction as text.
 */
#include "training_kernels/ddp/predict.h"

#include "core/units.h"
#include "core/version.h"

#include <math.h>
#include <string.h>

#define MIB (1.0 / (1 << 20))
#define MOST_LINES 7 /* of a list of buckets, before the last one */

/* ---- model and setting ----------------------------------------------------------------------- */

/* "291.6 GFLOPs" */
static void add_flops(struct bb_strbuf *out, double flops)
{
	static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
	size_t unit = 0;

	for (; flops >= 1000 && unit < 6; unit++)
		flops /= 1000;
	bb_strbuf_addf(out, "%.4g %sFLOPs", flops, units[unit]);
}

static void add_model(const struct bb_prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->options;
	const struct bb_model *m = &p->ddp->model;
	const uint64_t bytes = p->rows[BB_PREDICT_ONE].cap.buckets.bytes;

	bb_strbuf_addf(p->out, "# busbench version %s\n# %s: %s (%s), gradients in %s\n",
		       BB_VERSION, p->run->options.program, m->name, m->family,
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

static void add_setting(const struct bb_prediction *p)
{
	const struct bb_ddp_options *a = &p->ddp->options;
	char forward[BB_UNIT_TEXT], backward[BB_UNIT_TEXT], rate[BB_UNIT_TEXT];

	bb_strbuf_addf(p->out, "# %d rank%s", p->nranks, bb_plural(p->nranks));
	if (p->computes)
		bb_strbuf_addf(p->out, ", each: forward %s, backward %s",
			       bb_format_duration(forward, p->forward_s),
			       bb_format_duration(backward, p->backward_s));
	if (a->flops_given)
		bb_strbuf_addf(p->out, " (batch %lld at %s)", (long long)a->batch,
			       bb_format_count(rate, (uint64_t)a->flops));
	if (a->accumulate > 1)
		bb_strbuf_addf(p->out, ", %lld batches", (long long)a->accumulate);
	if (p->links)
		bb_strbuf_addf(p->out, "; links of %s%s", p->run->options.link.text,
			       p->run->options.config.link_port ? "" : " per pair of ranks");
	bb_strbuf_add(p->out, "\n");
}

void bb_prediction_add_model(const struct bb_prediction *p)
{
	add_model(p);
	add_setting(p);
}

/* ---- buckets --------------------------------------------------------------------------------- */

static void add_caps(const struct bb_prediction *p)
{
	const uint64_t first = p->ddp->options.first_cap;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(p->out, "#\n# Buckets; the first is closed at %s\n",
		       first ? bb_format_size(size, first) : "cap");
	bb_strbuf_addf(p->out,
		       "#%9s %8s %10s %10s %10s %10s %8s\n#%9s %8s %10s %10s %10s %10s %8s\n",
		       "cap", "buckets", "min", "mean", "max", "last", "tensors", "", "", "(MiB)",
		       "(MiB)", "(MiB)", "(MiB)", "(mean)");
	for (size_t i = BB_PREDICT_CAP; i < p->nrows; i++) {
		const struct bb_buckets *b = &p->rows[i].cap.buckets;

		bb_strbuf_addf(p->out, "%10s %8zu %10.3f %10.3f %10.3f %10.3f %8.1f\n",
			       p->rows[i].name, b->n, (double)bb_buckets_least(b) * MIB,
			       (double)b->bytes * MIB / (double)b->n,
			       (double)bb_buckets_most(b) * MIB,
			       (double)b->list[b->n - 1].bytes * MIB,
			       (double)p->ddp->model.ntensors / (double)b->n);
	}
}

/* The first bucket after FIRST that differs from it. */
static size_t behind(const struct bb_buckets *b, size_t first)
{
	size_t k = first + 1;

	while (k < b->n && b->list[k].bytes == b->list[first].bytes &&
	       b->list[k].count == b->list[first].count)
		k++;
	return k;
}

static void add_bucket(const struct bb_prediction *p, const struct bb_buckets *b, size_t first,
		       size_t end, bool timed)
{
	char name[32];

	snprintf(name, sizeof(name), end - first > 1 ? "%zu-%zu" : "%zu", first, end - 1);
	bb_strbuf_addf(p->out, "%12s %8zu %10.3f", name, b->list[first].count,
		       (double)b->list[first].bytes * MIB);
	if (p->computes)
		bb_strbuf_addf(p->out, " %10.3f", 1e3 * p->times[first].ready);
	if (timed)
		bb_strbuf_addf(p->out, " %10.3f %10.3f", 1e3 * p->times[first].start,
			       1e3 * p->times[end - 1].end);
	bb_strbuf_add(p->out, "\n");
}

/* Equal buckets share a line. */
static void add_list(struct bb_prediction *p, const struct bb_prediction_row *row, bool timed)
{
	const struct bb_buckets *b = &row->cap.buckets;
	size_t k = 0;

	for (size_t i = 0; i < b->n; i++)
		p->times[i].ready = p->ready[b->list[i].first + b->list[i].count - 1];
	if (timed)
		(void)bb_prediction_step(p, row, bb_ddp_has_overlap(&p->ddp->options, true),
					 p->times);
	bb_strbuf_addf(p->out, "#\n# Buckets of %s%s\n#%11s %8s %10s", row->name,
		       !p->computes ? ""
		       : !timed || bb_ddp_has_overlap(&p->ddp->options, true)
			       ? ", in ms of the backward pass"
			       : ", in ms of the backward pass, "
				 "reduced after it",
		       "bucket", "tensors", "MiB");
	if (p->computes)
		bb_strbuf_addf(p->out, " %10s", "ready");
	if (timed)
		bb_strbuf_addf(p->out, " %10s %10s", "start", "end");
	bb_strbuf_add(p->out, "\n");
	for (int line = 0; k < b->n && line < MOST_LINES; line++) {
		const size_t end = behind(b, k);

		add_bucket(p, b, k, end, timed);
		k = end;
	}
	if (k + 1 < b->n)
		bb_strbuf_addf(p->out, "#%11s %zu more\n", "...", b->n - 1 - k);
	if (k < b->n)
		add_bucket(p, b, b->n - 1, b->n, timed);
}

void bb_prediction_add_buckets(struct bb_prediction *p, bool timed)
{
	add_caps(p);
	for (size_t i = BB_PREDICT_CAP; i < p->nrows; i++)
		add_list(p, &p->rows[i], timed);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Speed relative to BASE. */
static void add_gain(struct bb_strbuf *out, const struct bb_train_step *step,
		     const struct bb_train_step *base)
{
	bb_strbuf_addf(out, " %8.3f", base->step_s / step->step_s);
}

static void add_step(const struct bb_prediction *p, const struct bb_prediction_row *row,
		     bool overlap)
{
	const struct bb_train_step *s = &row->steps[overlap];

	bb_strbuf_addf(p->out, "%10s %7s %10.3f %10.3f %10.3f", row->name, overlap ? "on" : "off",
		       1e3 * s->step_s, 1e3 * s->reduce_s, 1e3 * s->exposed_s);
	if (isnan(s->hidden))
		bb_strbuf_addf(p->out, " %6s", "-");
	else
		bb_strbuf_addf(p->out, " %6.1f", 100 * s->hidden);
	for (int i = 0; i < BB_PREDICT_CAP; i++)
		add_gain(p->out, s, &p->rows[i].steps[overlap]);
	bb_strbuf_add(p->out, "\n");
}

static const struct bb_prediction_row *best_row(const struct bb_prediction *p, bool overlap)
{
	const struct bb_prediction_row *found = &p->rows[0];

	for (size_t i = 1; i < p->nrows; i++)
		if (i != BB_PREDICT_DEFAULT &&
		    p->rows[i].steps[overlap].step_s < found->steps[overlap].step_s)
			found = &p->rows[i];
	return found;
}

/* Is number I the first with its algorithm? */
static bool is_first_choice(const struct bb_reduce_time *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(r->known[k].algorithm, r->known[i].algorithm) == 0)
			return false;
	return true;
}

/* The choices of auto: the smallest and the largest bucket of each. */
static void add_choices(const struct bb_prediction *p)
{
	const struct bb_reduce_time *r = &p->reduce;

	for (size_t i = 0; i < r->nknown; i++) {
		uint64_t least = r->known[i].bytes, most = least;

		if (!is_first_choice(r, i))
			continue;
		for (size_t k = i; k < r->nknown; k++) {
			const uint64_t bytes = r->known[k].bytes;

			if (strcmp(r->known[k].algorithm, r->known[i].algorithm) != 0)
				continue;
			least = bytes < least ? bytes : least;
			most = bytes > most ? bytes : most;
		}
		bb_strbuf_addf(p->out, "# auto chose %s for buckets of %.3f to %.3f MiB\n",
			       r->known[i].algorithm, (double)least * MIB, (double)most * MIB);
	}
}

void bb_prediction_add_steps(const struct bb_prediction *p, const char *algorithm)
{
	bb_strbuf_addf(p->out,
		       "#\n# Step by %s: %.3f ms of computations and the exposed time of "
		       "reductions\n",
		       algorithm, 1e3 * p->rows[0].steps[0].compute_s);
	bb_strbuf_addf(p->out,
		       "#%9s %7s %10s %10s %10s %6s %8s %8s %8s\n"
		       "#%9s %7s %10s %10s %10s %6s %26s\n",
		       "cap", "overlap", "step", "reduce", "exposed", "hidden", "one", "tensor",
		       "25M", "", "", "(ms)", "(ms)", "(ms)", "(%)", "times as fast as");
	for (int overlap = 1; overlap >= 0; overlap--) {
		if (!bb_ddp_has_overlap(&p->ddp->options, overlap))
			continue;
		/* 25 MiB only if requested; the extremes always. */
		for (size_t i = 0; i < p->nrows; i++)
			if (i != BB_PREDICT_DEFAULT)
				add_step(p, &p->rows[i], overlap);
		bb_strbuf_addf(p->out, "# best with overlap %s: %s\n", overlap ? "on" : "off",
			       best_row(p, overlap)->name);
	}
	if (!p->reduce.algorithm)
		add_choices(p);
}

void bb_prediction_add_missing(const struct bb_prediction *p)
{
	if (!p->links)
		bb_strbuf_add(p->out,
			      "#\n# The step needs --link RATE,LATENCY, the links of ranks, as in "
			      "10GB/s,5us\n");
	if (!p->computes)
		bb_strbuf_add(p->out,
			      "#\n# The step needs --flops RATE or --step-time TIME, the time of "
			      "computations\n");
}
