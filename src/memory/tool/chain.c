/*
 * chain.c - forward and backward passes over a chain of layers.
 */
#include "memory/tool/chain.h"
#include "core/clock.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDER 4

/* ---- arithmetic ------------------------------------------------------------------------- */

/* C += A B, of N x K and K x M. */
static void multiply_matrices(float *restrict c, const float *restrict a, const float *restrict b,
			      size_t n, size_t k, size_t m)
{
	for (size_t i = 0; i < n; i++)
		for (size_t l = 0; l < k; l++)
			for (size_t j = 0; j < m; j++)
				c[i * m + j] += a[i * k + l] * b[l * m + j];
}

/* C += transposed A times B, of N x K and N x M. */
static void multiply_first_transposed(float *restrict c, const float *restrict a,
				      const float *restrict b, size_t n, size_t k, size_t m)
{
	for (size_t i = 0; i < n; i++)
		for (size_t l = 0; l < k; l++)
			for (size_t j = 0; j < m; j++)
				c[l * m + j] += a[i * k + l] * b[i * m + j];
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
	chain->input = malloc(rows_floats(chain) * sizeof(float));
	chain->ascent = malloc(rows_floats(chain) * sizeof(float));
	chain->weights = malloc(layers * layer_floats(chain) * sizeof(float));
	if (!chain->input || !chain->ascent || !chain->weights)
		return bb_no_memory(error, "the layers of a chain");
	fill_random(chain->input, rows_floats(chain), 1, &seed);
	fill_random(chain->ascent, rows_floats(chain), 1, &seed);
	fill_random(chain->weights, layers * layer_floats(chain), size, &seed);
	return BB_OK;
}

void bb_chain_free(struct bb_chain *chain)
{
	free(chain->input);
	free(chain->ascent);
	free(chain->weights);
	*chain = (struct bb_chain){.input = NULL};
}

bb_status bb_chain_result_make(struct bb_chain_result *result, const struct bb_chain *chain,
			       struct bb_error *error)
{
	result->n = 2 * rows_floats(chain) + chain->layers * layer_floats(chain);
	result->numbers = malloc(result->n * sizeof(float));
	return result->numbers ? BB_OK : bb_no_memory(error, "gradients");
}

void bb_chain_result_free(struct bb_chain_result *result)
{
	free(result->numbers);
	*result = (struct bb_chain_result){.numbers = NULL};
}

bool bb_chain_same(const struct bb_chain_result *a, const struct bb_chain_result *b)
{
	return a->n == b->n && memcmp(a->numbers, b->numbers, a->n * sizeof(float)) == 0;
}

/* ---- a pass ----------------------------------------------------------------------------- */

struct layer {
	const float *a, *b; /* its weights */
	float *x, *inside;  /* its input, but that of the first one; inner activations; NULL: not
			       held */
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
	multiply_matrices(inside, layer_input(p, layer), p->layers[layer].a, c->rows, c->width,
			  WIDER * c->width);
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
	multiply_matrices(y, p->layers[layer].inside, p->layers[layer].b, c->rows, WIDER * c->width,
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
			struct layer *l = &p->layers[end - 1];
			float *own = weights + (end - 1) * layer_floats(c);

			memset(inner, 0, rows * wide * sizeof(float));
			multiply_second_transposed(inner, gradient, l->b, rows, c->width, wide);
			multiply_first_transposed(own + layer_floats(c) / 2, l->inside, gradient,
						  rows, wide, c->width);
			for (size_t i = 0; i < rows * wide; i++) {
				const float slope = 1 - fabsf(l->inside[i]);

				inner[i] *= slope * slope;
			}
			multiply_first_transposed(own, layer_input(p, end - 1), inner, rows,
						  c->width, wide);
			multiply_second_transposed(gradient, inner, l->a, rows, wide, c->width);
			release_floats(p, &l->inside, rows * wide);
			release_floats(p, &l->x, rows_floats(c));
		}
	}
}

bb_status bb_chain_run(const struct bb_chain *c, size_t every, struct bb_chain_result *result,
		       struct bb_chain_cost *cost, struct bb_error *error)
{
	struct pass p = {.chain = c, .cost = cost};
	float *inner = malloc(WIDER * rows_floats(c) * sizeof(float));
	float *output = result->numbers, *gradient = output + rows_floats(c);
	double begun;

	*cost = (struct bb_chain_cost){.most = 0};
	p.layers = calloc(c->layers + 1, sizeof(*p.layers));
	p.failed = !inner || !p.layers;
	for (size_t i = 0; p.layers && i < c->layers; i++) {
		p.layers[i].a = c->weights + i * layer_floats(c);
		p.layers[i].b = p.layers[i].a + layer_floats(c) / 2;
	}
	begun = bb_clock_now();
	memset(output, 0, result->n * sizeof(float));
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
		memcpy(output, p.layers[c->layers].x, rows_floats(c) * sizeof(float));
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
