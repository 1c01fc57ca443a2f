/*
 * predict_text.c - a prediction as text.
 */
#include "training_kernels/ddp/predict.h"

#include "core/table.h"
#include "core/units.h"
#include "core/version.h"

#include <math.h>
#include <stdlib.h>
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
	bb_model_add_origin(p->out, m);
	bb_strbuf_addf(p->out,
		       "# %zu tensors, %llu parameters, %llu bytes of gradients (%.2f MiB)\n# ",
		       m->ntensors, (unsigned long long)m->parameters, (unsigned long long)bytes,
		       (double)bytes * MIB);
	add_flops(p->out, m->forward);
	bb_strbuf_add(p->out, " forward, ");
	add_flops(p->out, m->backward);
	if (m->hyper.seq)
		bb_strbuf_addf(p->out, " backward, of a sequence of %lld tokens, %s\n",
			       (long long)m->hyper.seq,
			       bb_attention_name((enum bb_attention)a->attention));
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
	bb_strbuf_addf(p->out, "# DDP %s\n", p->ddp->fit.text);
}

/* ---- buckets --------------------------------------------------------------------------------- */

static void add_caps(const struct bb_prediction *p)
{
	static const struct bb_table_head heads[] = {
		{"cap", "", 9},           {"buckets", "", 8},  {"min", "(MiB)", 8},
		{"mean", "(MiB)", 8},     {"max", "(MiB)", 8}, {"last", "(MiB)", 8},
		{"tensors", "(mean)", 8}, {NULL, NULL, 0},
	};
	struct bb_text_table t = {.limit = bb_table_limit(stdout), .merges = 1};
	const uint64_t first = p->ddp->options.first_cap;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(p->out, "#\n# Buckets; the first is closed at %s\n",
		       first ? bb_format_size(size, first) : "cap");
	bb_table_columns(&t, heads, 1);
	for (size_t i = BB_PREDICT_CAP; i < p->nrows; i++) {
		const struct bb_buckets *b = &p->rows[i].cap.buckets;

		bb_table_cellf(
			&t, "%s\t%zu\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f", p->rows[i].cap.name, b->n,
			(double)bb_buckets_least(b) * MIB, (double)b->bytes * MIB / (double)b->n,
			(double)bb_buckets_most(b) * MIB, (double)b->list[b->n - 1].bytes * MIB,
			(double)p->ddp->model.ntensors / (double)b->n);
	}
	bb_table_print(&t, p->out);
	bb_table_free(&t);
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
		       size_t end, bool timed, struct bb_text_table *t)
{
	if (end - first > 1)
		bb_table_cellf(t, "%zu-%zu", first, end - 1);
	else
		bb_table_cellf(t, "%zu", first);
	bb_table_cellf(t, "%zu\t%.3f", b->list[first].count, (double)b->list[first].bytes * MIB);
	if (p->computes)
		bb_table_cellf(t, "%.3f", 1e3 * p->times[first].ready);
	if (timed)
		bb_table_cellf(t, "%.3f\t%.3f", 1e3 * p->times[first].start,
			       1e3 * p->times[end - 1].end);
}

static void add_bucket_columns(const struct bb_prediction *p, bool timed, struct bb_text_table *t)
{
	static const char *const heads[] = {"bucket", "tensors", "MiB", "ready", "start", "end"};
	const size_t n = timed ? 6 : p->computes ? 4 : 3;

	for (size_t i = 0; i < n; i++)
		bb_table_column(t, heads[i], "", i == 1 ? 8 : 10);
}

/* Equal buckets share a line. The list is that of ROW, and up to LAST unless that is NULL. */
static void add_list(struct bb_prediction *p, const struct bb_prediction_row *row, const char *last,
		     bool timed)
{
	const struct bb_buckets *b = &row->cap.buckets;
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	size_t k = 0;

	for (size_t i = 0; i < b->n; i++)
		p->times[i].ready = p->ready[b->list[i].first + b->list[i].count - 1];
	if (timed)
		(void)bb_prediction_step(p, row, bb_ddp_has_overlap(&p->ddp->options, true),
					 p->times);
	bb_strbuf_addf(p->out, "#\n# Buckets of %s%s%s%s\n", row->cap.name, last ? " to " : "",
		       last ? last : "",
		       !p->computes ? ""
		       : !timed || bb_ddp_has_overlap(&p->ddp->options, true)
			       ? ", in ms of the backward pass"
			       : ", in ms of the backward pass, "
				 "reduced after it");
	add_bucket_columns(p, timed, &t);
	for (int line = 0; k < b->n && line < MOST_LINES; line++) {
		const size_t end = behind(b, k);

		add_bucket(p, b, k, end, timed, &t);
		k = end;
	}
	bb_table_print(&t, p->out);
	if (k + 1 < b->n)
		bb_strbuf_addf(p->out, "#%11s %zu more\n", "...", b->n - 1 - k);
	if (k < b->n) {
		add_bucket(p, b, b->n - 1, b->n, timed, &t);
		bb_table_print(&t, p->out);
	}
	bb_table_free(&t);
}

void bb_prediction_add_buckets(struct bb_prediction *p, bool timed)
{
	add_caps(p);
	for (size_t i = BB_PREDICT_CAP; i < p->nrows; i++) {
		const size_t last = bb_prediction_last(p, i);

		if (bb_prediction_first(p, i) == i)
			add_list(p, &p->rows[i], last > i ? p->rows[last].cap.name : NULL, timed);
	}
}

/* ---- the step -------------------------------------------------------------------------------- */

static void add_step(const struct bb_prediction *p, const struct bb_prediction_row *row,
		     bool overlap, struct bb_text_table *t)
{
	const struct bb_train_step *s = &row->steps[overlap];

	bb_table_cellf(t, "%s\t%s\t%.3f\t%.3f\t%.3f", overlap ? "on" : "off", row->cap.name,
		       1e3 * s->step_s, 1e3 * s->reduce_s, 1e3 * s->exposed_s);
	if (isnan(s->hidden))
		bb_table_cell(t, NULL);
	else
		bb_table_cellf(t, "%.1f", 100 * s->hidden);
	for (int i = 0; i < BB_PREDICT_CAP; i++)
		bb_table_cellf(t, "%.3f", p->rows[i].steps[overlap].step_s / s->step_s);
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
	static const struct bb_table_head heads[] = {
		{"overlap", "", 7},    {"cap", "", 7},         {"step", "(ms)", 8},
		{"reduce", "(ms)", 8}, {"exposed", "(ms)", 8}, {"hidden", "(%)", 8},
		{"vs one", "", 8},     {"tensor", "", 8},      {"25M", "", 8},
		{NULL, NULL, 0},
	};
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};

	bb_strbuf_addf(p->out,
		       "#\n# Step by %s: %.3f ms of computations and the exposed time of "
		       "reductions\n",
		       algorithm, 1e3 * p->rows[0].steps[0].compute_s);
	bb_strbuf_add(p->out, "# vs: times as fast as one bucket, a bucket per tensor, and 25M\n");
	bb_table_columns(&t, heads, 2);
	for (int overlap = 1; overlap >= 0; overlap--) {
		if (!bb_ddp_has_overlap(&p->ddp->options, overlap))
			continue;
		/* 25 MiB only if requested; the extremes always, each in a row of its own. */
		for (size_t i = 0; i < p->nrows; i++) {
			if (i != BB_PREDICT_DEFAULT)
				add_step(p, &p->rows[i], overlap, &t);
			t.merges = i >= BB_PREDICT_CAP ? 2 : 0;
			if (i == BB_PREDICT_DEFAULT || i + 1 == p->nrows)
				bb_table_print(&t, p->out);
		}
	}
	bb_table_free(&t);
	if (!p->reduce.algorithm)
		add_choices(p);
}

/* OWN of a candidate is its step. */
static void step_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
		       struct bb_strbuf *out)
{
	const struct bb_train_step *a = ahead->own, *b = behind->own;

	bb_ddp_add_cause(b->reduce_s - a->reduce_s, b->exposed_s - a->exposed_s, out);
}

void bb_prediction_add_best(struct bb_prediction *p)
{
	struct bb_candidate *list = calloc(p->nsteps, sizeof(*list));
	size_t answer;

	p->out->failed |= !list;
	bb_strbuf_add(p->out, p->nsteps > 0 ? "#\n" : "");
	answer = p->out->length;
	for (int overlap = 0; overlap < 2 && list; overlap++) {
		struct bb_recommendation choice = {.subject = overlap ? "buckets, overlap on"
								      : "buckets, overlap off",
						   .unit = "",
						   .list = list,
						   .cause = step_cause};

		for (size_t i = 0; i < p->nsteps; i++) {
			if (p->steps[i].overlap != overlap)
				continue;
			list[choice.n] = p->steps[i].candidate;
			list[choice.n++].own = &p->steps[i].step;
		}
		bb_recommend(&choice, p->out);
	}
	bb_run_answer(p->run, p->out, answer);
	free(list);
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
