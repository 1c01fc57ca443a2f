/*
 * measure.c - activation checkpointing, measured: passes over a chain alternate between variants
 * that keep all activations or recompute some.
 */
#include "core/stats.h"
#include "memory/tool/chain.h"
#include "memory/tool/tool.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_VARIANTS 16
#define MOST_BYTES (UINT64_C(4) << 30)
#define MB(bytes) ((double)(bytes) / 1e6)
#define MiB(bytes) ((double)(bytes) / (double)(1 << 20))

/* A distance between checkpoints, and the cost of passes with it. */
struct variant {
	size_t every;
	struct bb_chain_cost cost;             /* times are medians */
	double *forward, *backward, *repeated; /* of each pass, in one allocation */
	bool same;
};

struct measurement {
	struct job *job;
	struct bb_chain chain;
	struct bb_chain_result all, now;
	struct variant variants[MOST_VARIANTS];
	size_t n, passes;
};

/* Add all rows. BB_EDATA if the results or the peak of a variant are wrong. */
static bb_status add_results(struct measurement *m)
{
	static const struct bb_table_head heads[] = {
		{"every", "", 0},      {"peak", "MB", 0},     {"peak", "MiB", 0},
		{"formula", "MB", 0},  {"saved", "", 0},      {"forward", "ms", 0},
		{"backward", "ms", 0}, {"repeated", "ms", 0}, {"repeated", "", 0},
		{"step", "longer", 0}, {"result", "", 0},     {NULL, NULL, 0},
	};
	const struct bb_chain *c = &m->chain;
	const struct bb_chain_cost *all = &m->variants[0].cost;
	struct job *job = m->job;
	struct bb_json *j = &job->json;
	bb_status st = BB_OK;

	bb_strbuf_addf(&job->text,
		       "# layers: %zu, rows: %zu, width: %zu fp32 numbers, 4 x %zu inside; one "
		       "thread, passes: %zu, medians\n",
		       c->layers, c->rows, c->width, c->width, m->passes);
	bb_strbuf_add(&job->text,
		      "# peak: of the activations, counted; formula: the same, calculated; "
		      "repeated: forward passes within the backward pass, and their share of the "
		      "forward pass; step: forward and backward\n#\n");
	bb_table_columns(&job->table, heads, 1);
	bb_json_add_uint(j, "layers", c->layers);
	bb_json_add_uint(j, "rows", c->rows);
	bb_json_add_uint(j, "width", c->width);
	bb_json_add_array(j, "results");
	for (const struct variant *v = m->variants; v < m->variants + m->n; v++) {
		const struct bb_chain_cost *own = &v->cost;
		const uint64_t expected = bb_chain_expected(c, v->every);
		char every[24] = "keep all";

		if (v->every != BB_CHECKPOINT_NEVER)
			snprintf(every, sizeof(every), "%zu", v->every);
		bb_table_cellf(&job->table,
			       "%s\t%.3f\t%.3f\t%.3f\t%.1f%%\t%.3f\t%.3f\t%.3f\t%.1f%%\t%.1f%%\t%s",
			       every, MB(own->most), MiB(own->most), MB(expected),
			       100 * (1 - (double)own->most / (double)all->most),
			       own->forward_s * 1e3, own->backward_s * 1e3, own->repeated_s * 1e3,
			       100 * own->repeated_s / own->forward_s,
			       100 * ((own->forward_s + own->backward_s) /
					      (all->forward_s + all->backward_s) -
				      1),
			       v->same ? "same" : "DIFFERS");
		bb_json_object(j);
		bb_job_add_known(j, "every", v->every != BB_CHECKPOINT_NEVER, v->every);
		bb_json_add_uint(j, "activation_bytes", own->most);
		bb_json_add_uint(j, "calculated_bytes", expected);
		bb_json_add_uint(j, "repeated_layers", own->repeated);
		bb_json_add_double(j, "forward_s", own->forward_s);
		bb_json_add_double(j, "backward_s", own->backward_s);
		bb_json_add_double(j, "repeated_s", own->repeated_s);
		bb_json_add_bool(j, "same_result", v->same);
		bb_json_end(j);
		if (!v->same || own->most != expected)
			st = BB_EDATA;
	}
	bb_job_end_table(job);
	bb_json_end(j);
	return st;
}

bb_status bb_calculate_checkpoint(struct job *job)
{
	const struct options *o = job->o;
	const uint64_t layers = (uint64_t)o->layers, width = (uint64_t)o->width;
	struct measurement m = {.job = job, .passes = (size_t)o->repeat};
	struct bb_chain_cost warm_up;
	bb_status st = BB_OK;

	/* Weights, two sets of gradients and all activations. */
	if (4 * layers * width * (3 * 8 * width + 5 * (uint64_t)o->rows) > MOST_BYTES)
		return bb_fail(job->error, BB_EUSAGE,
			       "--layers %lld --width %lld --rows %lld: weights, gradients and "
			       "activations exceed 4 GiB; give a smaller chain",
			       (long long)o->layers, (long long)o->width, (long long)o->rows);
	m.variants[m.n++].every = BB_CHECKPOINT_NEVER;
	/* At most 4096 layers: 13 powers of two. */
	for (size_t k = 1; !o->every_given && k < layers; k *= 2)
		m.variants[m.n++].every = k;
	m.variants[m.n++].every = o->every_given ? (size_t)o->every : layers;
	for (struct variant *v = m.variants; v < m.variants + m.n; v++) {
		v->same = true;
		v->forward = calloc(3 * m.passes, sizeof(double));
		if (!v->forward)
			BB_TRY(st, bb_no_memory(job->error, "times"), out);
		v->backward = v->forward + m.passes;
		v->repeated = v->backward + m.passes;
	}
	BB_TRY(st, bb_chain_make(&m.chain, layers, (size_t)o->rows, width, job->error), out);
	BB_TRY(st, bb_chain_result_make(&m.all, &m.chain, job->error), out);
	BB_TRY(st, bb_chain_result_make(&m.now, &m.chain, job->error), out);
	/* Passes of all variants in turn; their results are compared with those of the warm-up,
	   which keeps all activations. */
	BB_TRY(st, bb_chain_run(&m.chain, BB_CHECKPOINT_NEVER, &m.all, &warm_up, job->error), out);
	for (size_t pass = 0; pass < m.passes; pass++)
		for (struct variant *v = m.variants; v < m.variants + m.n; v++) {
			BB_TRY(st, bb_chain_run(&m.chain, v->every, &m.now, &v->cost, job->error),
			       out);
			v->forward[pass] = v->cost.forward_s;
			v->backward[pass] = v->cost.backward_s;
			v->repeated[pass] = v->cost.repeated_s;
			v->same &= bb_chain_same(&m.all, &m.now);
		}
	for (struct variant *v = m.variants; v < m.variants + m.n; v++) {
		v->cost.forward_s = bb_stats_median(v->forward, m.passes);
		v->cost.backward_s = bb_stats_median(v->backward, m.passes);
		v->cost.repeated_s = bb_stats_median(v->repeated, m.passes);
	}
	st = add_results(&m);
out:
	for (size_t i = 0; i < m.n; i++)
		free(m.variants[i].forward);
	bb_chain_result_free(&m.all);
	bb_chain_result_free(&m.now);
	bb_chain_free(&m.chain);
	return st;
}
