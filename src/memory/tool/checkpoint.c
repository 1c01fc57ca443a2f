/*
 * checkpoint.c - activation checkpointing, measured: passes over a chain alternate between variants
 * that keep all activations or recompute some.
 */
#include "core/clock.h"
#include "core/random.h"
#include "core/stats.h"
#include "memory/tool/calculators.h"
#include "memory/tool/tool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDER 4

/* ---- arithmetic ------------------------------------------------------------------------- */

/* C += A B, of N x K and K x M; A's rows are DOWN apart, its columns RIGHT. */
static void multiply_matrices(float *restrict c, const float *restrict a, size_t down, size_t right,
			      const float *restrict b, size_t n, size_t k, size_t m)
{
	for (size_t i = 0; i < n; i++)
		for (size_t l = 0; l < k; l++)
			for (size_t j = 0; j < m; j++)
				c[i * m + j] += a[i * down + l * right] * b[l * m + j];
}

/* C += A times transposed B, of N x K and M x K. */
static void multiply_second_transposed(float *restrict c, const float *restrict a,
				       const float *restrict b, size_t n, size_t k, size_t m)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < m; j++) {
			float sum = 0;

			for (size_t l = 0; l < k; l++)
				sum += a[i * k + l] * b[j * k + l];
			c[i * m + j] += sum;
		}
}

/* ---- the chain -------------------------------------------------------------------------- */

static size_t rows_floats(const struct bb_chain *c)
{
	return c->rows * c->width;
}

static size_t layer_floats(const struct bb_chain *c)
{
	return 2 * WIDER * c->width * c->width;
}

/* Fill X with random numbers between -SIZE and SIZE. */
static void fill_random(float *x, size_t n, float size, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t bits = bb_random_congruential(seed) >> 40;

		x[i] = size * ((float)bits / (float)(1 << 23) - 1);
	}
}

bb_status bb_chain_make(struct bb_chain *chain, size_t layers, size_t rows, size_t width,
			struct bb_error *error)
{
	const float size = 1 / sqrtf((float)(WIDER * width));
	uint64_t seed = BB_RANDOM_STEP;

	*chain = (struct bb_chain){.layers = layers, .rows = rows, .width = width};
	chain->input = malloc(bb_chain_results(chain) * sizeof(float));
	if (!chain->input)
		return bb_no_memory(error, "the layers of a chain");
	chain->ascent = chain->input + rows_floats(chain);
	chain->weights = chain->ascent + rows_floats(chain);
	fill_random(chain->input, 2 * rows_floats(chain), 1, &seed);
	fill_random(chain->weights, layers * layer_floats(chain), size, &seed);
	return BB_OK;
}

size_t bb_chain_results(const struct bb_chain *chain)
{
	return 2 * rows_floats(chain) + chain->layers * layer_floats(chain);
}

/* ---- a pass ----------------------------------------------------------------------------- */

/* A layer's input, but that of the first one, and inner activations; NULL: not held. */
struct layer {
	float *x, *inside;
};

/* Activations that are held now. Behind the last layer the output is the input of none. */
struct pass {
	const struct bb_chain *chain;
	struct bb_chain_cost *cost;
	struct layer *layers;
	uint64_t bytes;
	bool failed;
};

static float *hold_floats(struct pass *p, size_t floats)
{
	float *memory = calloc(floats, sizeof(float));

	p->failed |= !memory;
	p->bytes += floats * sizeof(float);
	if (p->bytes > p->cost->most)
		p->cost->most = p->bytes;
	return memory;
}

static void release_floats(struct pass *p, float **memory, size_t floats)
{
	if (*memory)
		p->bytes -= floats * sizeof(float);
	free(*memory);
	*memory = NULL;
}

/* A, which is followed by B. */
static const float *layer_weights(const struct bb_chain *c, size_t layer)
{
	return c->weights + layer * layer_floats(c);
}

static const float *layer_input(const struct pass *p, size_t layer)
{
	return layer == 0 ? p->chain->input : p->layers[layer].x;
}

static void make_inside(struct pass *p, size_t layer)
{
	const struct bb_chain *c = p->chain;
	const size_t floats = WIDER * rows_floats(c);
	float *inside = p->layers[layer].inside = hold_floats(p, floats);

	if (p->failed)
		return;
	multiply_matrices(inside, layer_input(p, layer), c->width, 1, layer_weights(c, layer),
			  c->rows, c->width, WIDER * c->width);
	for (size_t i = 0; i < floats; i++)
		inside[i] /= 1 + fabsf(inside[i]);
}

static void make_output(struct pass *p, size_t layer)
{
	const struct bb_chain *c = p->chain;
	float *y = p->layers[layer + 1].x = hold_floats(p, rows_floats(c));

	if (p->failed)
		return;
	memcpy(y, layer_input(p, layer), rows_floats(c) * sizeof(float));
	multiply_matrices(y, p->layers[layer].inside, WIDER * c->width, 1,
			  layer_weights(c, layer) + layer_floats(c) / 2, c->rows, WIDER * c->width,
			  c->width);
}

/* GRADIENT is that of the output and becomes that of the input; WEIGHTS: those of all weights;
   INNER has room for one of the inner activations. */
static void chain_backward(struct pass *p, size_t every, float *gradient, float *inner,
			   float *weights)
{
	const struct bb_chain *c = p->chain;
	const size_t wide = WIDER * c->width, rows = c->rows;
	const size_t step = every == BB_CHECKPOINT_NEVER ? c->layers : every;

	for (size_t end = c->layers; end > 0 && !p->failed;) {
		const size_t begin = (end - 1) / step * step;
		const double before = bb_clock_now();

		/* The activations of the segment, from the input of its first layer. */
		for (size_t i = begin; every != BB_CHECKPOINT_NEVER && i < end && !p->failed; i++) {
			make_inside(p, i);
			if (i + 1 < end)
				make_output(p, i);
			p->cost->repeated++;
		}
		if (every != BB_CHECKPOINT_NEVER)
			p->cost->repeated_s += bb_clock_now() - before;
		for (; end > begin && !p->failed; end--) {
			const float *const a = layer_weights(c, end - 1);
			struct layer *l = &p->layers[end - 1];
			float *own = weights + (end - 1) * layer_floats(c);

			memset(inner, 0, rows * wide * sizeof(float));
			multiply_second_transposed(inner, gradient, a + layer_floats(c) / 2, rows,
						   c->width, wide);
			multiply_matrices(own + layer_floats(c) / 2, l->inside, 1, wide, gradient,
					  wide, rows, c->width);
			for (size_t i = 0; i < rows * wide; i++) {
				const float slope = 1 - fabsf(l->inside[i]);

				inner[i] *= slope * slope;
			}
			multiply_matrices(own, layer_input(p, end - 1), 1, c->width, inner,
					  c->width, rows, wide);
			multiply_second_transposed(gradient, inner, a, rows, wide, c->width);
			release_floats(p, &l->inside, rows * wide);
			release_floats(p, &l->x, rows_floats(c));
		}
	}
}

bb_status bb_chain_run(const struct bb_chain *c, size_t every, float *results,
		       struct bb_chain_cost *cost, struct bb_error *error)
{
	struct pass p = {.chain = c, .cost = cost};
	float *inner = malloc(WIDER * rows_floats(c) * sizeof(float));
	float *gradient = results + rows_floats(c);

	*cost = (struct bb_chain_cost){.most = 0};
	p.layers = calloc(c->layers + 1, sizeof(*p.layers));
	p.failed = !inner || !p.layers;
	double begun = bb_clock_now();
	memset(results, 0, bb_chain_results(c) * sizeof(float));
	memcpy(gradient, c->ascent, rows_floats(c) * sizeof(float));
	for (size_t i = 0; i < c->layers && !p.failed; i++) {
		make_inside(&p, i);
		make_output(&p, i);
		if (every == BB_CHECKPOINT_NEVER)
			continue;
		release_floats(&p, &p.layers[i].inside, WIDER * rows_floats(c));
		if (i % every)
			release_floats(&p, &p.layers[i].x, rows_floats(c));
	}
	cost->forward_s = bb_clock_now() - begun;
	if (!p.failed) {
		memcpy(results, p.layers[c->layers].x, rows_floats(c) * sizeof(float));
		begun = bb_clock_now();
		chain_backward(&p, every, gradient, inner, gradient + rows_floats(c));
		cost->backward_s = bb_clock_now() - begun;
	}
	for (size_t i = 0; p.layers && i <= c->layers; i++) {
		free(p.layers[i].x);
		free(p.layers[i].inside);
	}
	free(p.layers);
	free(inner);
	return p.failed ? bb_no_memory(error, "activations") : BB_OK;
}

uint64_t bb_chain_expected(const struct bb_chain *chain, size_t every)
{
	const uint64_t unit = rows_floats(chain) * sizeof(float);
	const uint64_t step = every == BB_CHECKPOINT_NEVER ? chain->layers : every;
	uint64_t most = 0;

	if (every == BB_CHECKPOINT_NEVER)
		return 5 * unit * chain->layers;
	for (uint64_t begin = 0; begin < chain->layers; begin += step) {
		const uint64_t left = chain->layers - begin;
		const uint64_t need = begin / step + 5 * (left < step ? left : step) - 1;

		most = need > most ? need : most;
	}
	return unit * (most + 1); /* and the output */
}

/* ---- the subject ----------------------------------------------------------------------------- */

#define MOST_VARIANTS 16
#define MOST_BYTES (UINT64_C(4) << 30)
#define MB(bytes) ((double)(bytes) / 1e6)
#define MiB(bytes) ((double)(bytes) / (double)(1 << 20))

/* A distance between checkpoints, and the cost of passes with it. */
struct variant {
	size_t every;
	struct bb_chain_cost cost;             /* times are medians */
	double *forward, *backward, *repeated; /* of each pass */
	bool same;
};

struct measurement {
	struct job *job;
	struct bb_chain chain;
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
		bb_json_add_object(j, NULL);
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
	float *all = NULL, *now; /* results of the warm-up, and of the latest pass */
	double *times = NULL;
	bb_status st;

	/* Weights, two sets of gradients and all activations. */
	if (4 * layers * width * (3 * 8 * width + 5 * (uint64_t)o->rows) > MOST_BYTES)
		return bb_fail(job->error, BB_EUSAGE,
			       "--layers %jd --width %jd --rows %jd: weights, gradients and "
			       "activations exceed 4 GiB; give a smaller chain",
			       o->layers, o->width, o->rows);
	m.variants[m.n++].every = BB_CHECKPOINT_NEVER;
	/* At most 4096 layers: 13 powers of two. */
	for (size_t k = 1; !o->every_given && k < layers; k *= 2)
		m.variants[m.n++].every = k;
	m.variants[m.n++].every = o->every_given ? (size_t)o->every : layers;
	BB_TRY(st, bb_chain_make(&m.chain, layers, (size_t)o->rows, width, job->error), out);
	const size_t results = bb_chain_results(&m.chain);
	all = malloc(2 * results * sizeof(float));
	times = malloc(3 * m.n * m.passes * sizeof(double));
	if (!all || !times)
		BB_TRY(st, bb_no_memory(job->error, "gradients and times"), out);
	now = all + results;
	for (struct variant *v = m.variants; v < m.variants + m.n; v++) {
		v->same = true;
		v->forward = times + 3 * m.passes * (size_t)(v - m.variants);
		v->backward = v->forward + m.passes;
		v->repeated = v->backward + m.passes;
	}
	/* Passes of all variants in turn; their results are compared with those of the warm-up,
	   which keeps all activations. */
	BB_TRY(st, bb_chain_run(&m.chain, BB_CHECKPOINT_NEVER, all, &warm_up, job->error), out);
	for (size_t pass = 0; pass < m.passes; pass++)
		for (struct variant *v = m.variants; v < m.variants + m.n; v++) {
			BB_TRY(st, bb_chain_run(&m.chain, v->every, now, &v->cost, job->error),
			       out);
			v->forward[pass] = v->cost.forward_s;
			v->backward[pass] = v->cost.backward_s;
			v->repeated[pass] = v->cost.repeated_s;
			v->same &= memcmp(all, now, results * sizeof(float)) == 0;
		}
	for (struct variant *v = m.variants; v < m.variants + m.n; v++) {
		v->cost.forward_s = bb_stats_median(v->forward, m.passes);
		v->cost.backward_s = bb_stats_median(v->backward, m.passes);
		v->cost.repeated_s = bb_stats_median(v->repeated, m.passes);
	}
	st = add_results(&m);
out:
	free(times);
	free(all);
	free(m.chain.input);
	return st;
}
