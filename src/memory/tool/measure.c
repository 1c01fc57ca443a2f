/*
 * measure.c - activation checkpointing, measured: passes over a chain that keep all activations or
 * recompute some, in turn.
 */
#include "core/stats.h"
#include "models/memory/checkpoint.h"
#include "memory/tool/tool.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_WAYS 16
#define MOST_BYTES (UINT64_C(4) << 30)
#define MB(bytes) ((double)(bytes) / 1e6)
#define MiB(bytes) ((double)(bytes) / (double)(1 << 20))

/* A distance between checkpoints, and the cost of its passes. */
struct way {
	size_t every;
	struct bb_chain_cost cost;             /* bytes and layers; times: medians */
	double *forward, *backward, *repeated; /* of each pass, in one allocation */
	bool same;
};

struct measurement {
	struct job *job;
	struct bb_chain chain;
	struct bb_chain_result all, now;
	struct way ways[MOST_WAYS];
	size_t n, passes;
};

static void choose_ways(struct measurement *m, const struct options *o)
{
	const size_t layers = (size_t)o->layers;

	m->ways[m->n++].every = BB_CHECKPOINT_NEVER;
	if (o->every_given)
		m->ways[m->n++].every = (size_t)o->every;
	/* At most 4096 layers: 13 powers of two. */
	for (size_t k = 1; !o->every_given && k < layers; k *= 2)
		m->ways[m->n++].every = k;
	if (!o->every_given)
		m->ways[m->n++].every = layers;
}

/* Bytes of weights, two sets of gradients, and all activations. */
static uint64_t chain_bytes(const struct options *o)
{
	const uint64_t layers = (uint64_t)o->layers, width = (uint64_t)o->width;

	return 4 * layers * width * (3 * 8 * width + 5 * (uint64_t)o->rows);
}

static bb_status prepare(struct measurement *m, const struct options *o)
{
	bb_status st;

	if (chain_bytes(o) > MOST_BYTES)
		return bb_fail(m->job->error, BB_EUSAGE,
			       "--layers %lld --width %lld --rows %lld: weights, gradients and "
			       "activations exceed 4 GiB; give a smaller chain",
			       (long long)o->layers, (long long)o->width, (long long)o->rows);
	m->passes = (size_t)o->repeat;
	choose_ways(m, o);
	for (size_t i = 0; i < m->n; i++) {
		struct way *w = &m->ways[i];

		w->same = true;
		w->forward = calloc(3 * m->passes, sizeof(double));
		if (!w->forward)
			return bb_no_memory(m->job->error, "times");
		w->backward = w->forward + m->passes;
		w->repeated = w->backward + m->passes;
	}
	BB_TRY(st,
	       bb_chain_make(&m->chain, (size_t)o->layers, (size_t)o->rows, (size_t)o->width,
			     m->job->error),
	       out);
	BB_TRY(st, bb_chain_result_make(&m->all, &m->chain, m->job->error), out);
	BB_TRY(st, bb_chain_result_make(&m->now, &m->chain, m->job->error), out);
out:
	return st;
}

static void release(struct measurement *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->ways[i].forward);
	bb_chain_result_free(&m->all);
	bb_chain_result_free(&m->now);
	bb_chain_free(&m->chain);
}

/* A pass of each variant, compared with the first one that kept all activations. */
static bb_status pass_of_each(struct measurement *m, size_t pass)
{
	bb_status st;

	for (size_t i = 0; i < m->n; i++) {
		struct way *w = &m->ways[i];

		BB_TRY(st, bb_chain_run(&m->chain, w->every, &m->now, &w->cost, m->job->error),
		       out);
		w->forward[pass] = w->cost.forward_s;
		w->backward[pass] = w->cost.backward_s;
		w->repeated[pass] = w->cost.repeated_s;
		w->same &= bb_chain_same(&m->all, &m->now);
	}
out:
	return st;
}

static bb_status measure(struct measurement *m)
{
	struct bb_chain_cost warm_up;
	bb_status st;

	BB_TRY(st, bb_chain_run(&m->chain, BB_CHECKPOINT_NEVER, &m->all, &warm_up, m->job->error),
	       out);
	for (size_t pass = 0; pass < m->passes; pass++)
		BB_TRY(st, pass_of_each(m, pass), out);
	for (size_t i = 0; i < m->n; i++) {
		struct way *w = &m->ways[i];

		w->cost.forward_s = bb_stats_median(w->forward, m->passes);
		w->cost.backward_s = bb_stats_median(w->backward, m->passes);
		w->cost.repeated_s = bb_stats_median(w->repeated, m->passes);
	}
out:
	return st;
}

static void add_json(struct bb_json *j, const struct measurement *m, const struct way *w)
{
	bb_json_object(j);
	bb_memory_add_known(j, "every", w->every != BB_CHECKPOINT_NEVER, w->every);
	bb_json_add_uint(j, "activation_bytes", w->cost.most);
	bb_json_add_uint(j, "calculated_bytes", bb_chain_expected(&m->chain, w->every));
	bb_json_add_uint(j, "repeated_layers", w->cost.repeated);
	bb_json_add_double(j, "forward_s", w->cost.forward_s);
	bb_json_add_double(j, "backward_s", w->cost.backward_s);
	bb_json_add_double(j, "repeated_s", w->cost.repeated_s);
	bb_json_add_bool(j, "same_result", w->same);
	bb_json_end(j);
}

static void add_row(struct job *job, const struct measurement *m, const struct way *w)
{
	const struct bb_chain_cost *all = &m->ways[0].cost, *c = &w->cost;
	char every[24] = "keep all";

	if (w->every != BB_CHECKPOINT_NEVER)
		snprintf(every, sizeof(every), "%zu", w->every);
	bb_strbuf_addf(
		&job->text,
		"%10s %10.3f %10.3f %10.3f %6.1f%% %9.3f %9.3f %9.3f %8.1f%% %7.1f%%  %s\n", every,
		MB(c->most), MiB(c->most), MB(bb_chain_expected(&m->chain, w->every)),
		100 * (1 - (double)c->most / (double)all->most), c->forward_s * 1e3,
		c->backward_s * 1e3, c->repeated_s * 1e3, 100 * c->repeated_s / c->forward_s,
		100 * ((c->forward_s + c->backward_s) / (all->forward_s + all->backward_s) - 1),
		w->same ? "same" : "DIFFERS");
}

static void add_header(struct job *job, const struct measurement *m)
{
	const struct bb_chain *c = &m->chain;

	bb_strbuf_addf(&job->text,
		       "# layers: %zu, rows: %zu, width: %zu fp32 numbers, 4 x %zu inside; one "
		       "thread, passes: %zu, medians\n",
		       c->layers, c->rows, c->width, c->width, m->passes);
	bb_strbuf_add(&job->text,
		      "# most: peak of the activations, counted; calculated: its formula; again: "
		      "recomputed forward\n# passes within the backward pass, and their share of "
		      "the forward pass; step: forward and backward\n#\n");
	bb_strbuf_addf(&job->text, "# %8s %10s %10s %10s %7s %9s %9s %9s %9s %8s  %s\n", "every",
		       "most", "most", "calculated", "saved", "forward", "backward", "again",
		       "again", "step", "result");
	bb_strbuf_addf(&job->text, "# %8s %10s %10s %10s %7s %9s %9s %9s %9s %8s\n", "", "MB",
		       "MiB", "MB", "", "ms", "ms", "ms", "", "longer");
}

/* All rows. BB_EDATA if a result or a peak is not as it must be. */
static bb_status tell(struct measurement *m)
{
	struct job *job = m->job;
	bb_status st = BB_OK;

	add_header(job, m);
	bb_json_add_uint(&job->json, "layers", m->chain.layers);
	bb_json_add_uint(&job->json, "rows", m->chain.rows);
	bb_json_add_uint(&job->json, "width", m->chain.width);
	bb_json_add_array(&job->json, "results");
	for (size_t i = 0; i < m->n; i++) {
		add_row(job, m, &m->ways[i]);
		add_json(&job->json, m, &m->ways[i]);
		if (!m->ways[i].same ||
		    m->ways[i].cost.most != bb_chain_expected(&m->chain, m->ways[i].every))
			st = BB_EDATA;
	}
	bb_json_end(&job->json);
	return st;
}

bb_status bb_memory_checkpoint(struct job *job)
{
	struct measurement m = {.job = job};
	bb_status st;

	BB_TRY(st, prepare(&m, job->o), out);
	BB_TRY(st, measure(&m), out);
	st = tell(&m);
out:
	release(&m);
	return st;
}
