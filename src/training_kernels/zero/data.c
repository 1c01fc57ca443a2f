#include "training_kernels/zero/data.h"

#include "core/random.h"
#include "core/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 0x1p-16f /* of gradients, before scaling */
#define BLOCK 256

/* ---- data ------------------------------------------------------------------------------------ */

int bb_zero_most_draw(enum bb_dtype dtype, int nranks, int64_t microbatches)
{
	/* Integers up to 2^(mantissa + 1) are exact; half ends at 65504, below 2^11 times 32. */
	const int64_t exact = dtype == BB_HALF ? 1 << 11 : dtype == BB_BFLOAT16 ? 1 << 8 : 1 << 24;
	const int64_t most = exact / nranks / microbatches;

	return most < BB_ZERO_MOST_DRAW ? (int)most : BB_ZERO_MOST_DRAW;
}

static uint32_t bits_at(enum bb_dtype dtype, const void *elements, size_t i)
{
	return dtype == BB_FLOAT ? ((const uint32_t *)elements)[i]
				 : ((const uint16_t *)elements)[i];
}

/* Multiples of 2^-14 below 1/16. */
void bb_zero_initial(enum bb_dtype dtype, uint64_t first, size_t n, void *parameters)
{
	char *to = parameters;

	for (size_t i = 0; i < n; i++) {
		const float value =
			(float)(int)(bb_random_mix(first + i + 1) % 2047 - 1023) * 0x1p-14f;

		bb_adam_narrow(dtype, &value, to + i * bb_dtype_size(dtype), 1);
	}
}

uint64_t bb_zero_sum(enum bb_dtype dtype, uint64_t first, size_t n, const void *parameters)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += bb_random_mix((first + i) << 32 ^ bits_at(dtype, parameters, i) ^
				     0x5bd1e995);
	return sum;
}

/* The seed of all gradients of a batch. */
static uint64_t batch_seed(const struct bb_zero_batch *b, int rank, int64_t microbatch)
{
	return bb_random_mix(b->forward ^
			     bb_random_mix((uint64_t)b->step << 40 ^ (uint64_t)microbatch << 20 ^
					   (uint64_t)rank));
}

/* The gradient of element INDEX with value BITS, in units. */
static int draw_gradient(const struct bb_zero_data *d, uint64_t seed, uint64_t index, uint32_t bits)
{
	const uint64_t x = bb_random_mix(seed ^ (index << 32 ^ bits));

	return (int)(x % (uint64_t)(2 * d->most + 1)) - d->most;
}

/* TABLE[draw + most] = that draw as a scaled gradient of the datatype. */
static void round_draws(const struct bb_zero_data *d, float scale,
			float table[2 * BB_ZERO_MOST_DRAW + 1])
{
	for (int draw = -d->most; draw <= d->most; draw++)
		table[draw + d->most] = (float)bb_scalar_round(
			d->dtype, ldexpf((float)draw * UNIT, -d->finer) * scale);
}

uint64_t bb_zero_gradients(const struct bb_zero_data *d, const struct bb_zero_batch *b,
			   uint64_t first, size_t n, const void *parameters, void *gradients,
			   bool add)
{
	const uint64_t seed = batch_seed(b, b->rank, b->microbatch);
	/* In the step that overflows, one element of the last rank does. */
	const bool overflows = b->rank == d->nranks - 1 && b->microbatch == 0 && d->overflow &&
			       b->step == d->overflow;
	const size_t size = bb_dtype_size(d->dtype);
	float drawn[2 * BB_ZERO_MOST_DRAW + 1];
	uint64_t flushed = 0;

	round_draws(d, b->scale, drawn);
	for (size_t i = 0; i < n; i++) {
		char *const to = (char *)gradients + i * size;
		const int draw =
			draw_gradient(d, seed, first + i, bits_at(d->dtype, parameters, i));
		float value = drawn[draw + d->most], before = 0;

		flushed += draw != 0 && value == 0;
		if (overflows && first + i == d->elements / 2)
			value = 1e38f * b->scale;
		if (add)
			bb_adam_widen(d->dtype, to, &before, 1);
		value += before;
		bb_adam_narrow(d->dtype, &value, to, 1);
	}
	return flushed;
}

uint64_t bb_zero_round(const struct bb_zero_data *d, uint64_t t, uint64_t first, size_t n,
		       const float *values, void *parameters)
{
	uint64_t unchanged = 0;

	for (size_t i = 0; i < n; i++) {
		char *const to = (char *)parameters + i * bb_dtype_size(d->dtype);
		const double draw = bb_random_uniform(bb_random_at(t, first + i));
		const float rounded = d->stochastic
					      ? (float)bb_scalar_round_by(d->dtype, values[i], draw)
					      : (float)bb_scalar_round(d->dtype, values[i]);
		float before;

		bb_adam_widen(d->dtype, to, &before, 1);
		bb_adam_narrow(d->dtype, &rounded, to, 1);
		unchanged += rounded == before && values[i] != before;
	}
	return unchanged;
}

void bb_zero_scale_update(struct bb_zero_scale *s, bool overflowed)
{
	if (overflowed) {
		s->skipped++;
		s->good = 0;
		s->scale = s->scale > 1 && !s->fixed ? s->scale / 2 : s->scale;
	} else if (++s->good == s->growth && !s->fixed) {
		s->good = 0;
		s->scale = s->scale < BB_ZERO_MOST_SCALE ? 2 * s->scale : s->scale;
	}
}

/* ---- the reference -------------------------------------------------------------------------- */

bb_status bb_zero_reference_open(struct bb_zero_reference *r, const struct bb_zero_data *data,
				 const struct bb_zero_scale *scale, struct bb_error *error)
{
	const size_t n = (size_t)data->elements;

	*r = (struct bb_zero_reference){
		.data = data,
		.scale = *scale,
		.nseeds = (size_t)data->nranks * (size_t)data->microbatches,
		.parameters = malloc(n * bb_dtype_size(data->dtype)),
		.master = calloc(3 * n, sizeof(float)),
	};
	r->seeds = calloc(r->nseeds, sizeof(*r->seeds));
	if (!r->parameters || !r->master || !r->seeds) {
		bb_zero_reference_close(r);
		return bb_no_memory(error, "the check of parameters");
	}
	r->moment1 = r->master + n;
	r->moment2 = r->moment1 + n;
	bb_zero_initial(data->dtype, 0, n, r->parameters);
	for (size_t i = 0; i < n; i++)
		r->master[i] = (float)bb_scalar_decode(
			data->dtype, r->parameters + i * bb_dtype_size(data->dtype));
	return BB_OK;
}

bb_status bb_zero_reference_compress(struct bb_zero_reference *r, const struct bb_zero_units *units,
				     struct bb_error *error)
{
	const int n = r->data->nranks;
	struct bb_coded coded;
	size_t bytes = 0;

	r->units = units;
	r->forms = calloc(units->n, sizeof(*r->forms));
	r->coded = calloc(units->n * (size_t)n, sizeof(*r->coded));
	for (size_t u = 0; u < units->n && r->forms; u++) {
		r->forms[u] = bb_zero_sign_form(units, u, n);
		bytes += (size_t)n * bb_coded_lay_out(&coded, &r->forms[u], 0, NULL);
	}
	r->memory = calloc(1, bytes);
	if (!r->forms || !r->coded || !r->memory)
		return bb_no_memory(error, "the check of an exchange");
	bytes = 0;
	for (size_t u = 0; u < units->n; u++)
		for (int rank = 0; rank < n; rank++)
			bytes += bb_coded_lay_out(&r->coded[u * (size_t)n + (size_t)rank],
						  &r->forms[u], rank, r->memory + bytes);
	return BB_OK;
}

/* The sum of gradients of element I over the seeds from FIRST on, each STEP of them. */
static float gradients_of(struct bb_zero_reference *r, const char *parameters, size_t i,
			  size_t first, size_t step)
{
	const uint32_t bits = bits_at(r->data->dtype, parameters, i);
	double sum = 0;

	for (size_t s = first; s < r->nseeds; s += step) {
		const int draw = draw_gradient(r->data, r->seeds[s], i, bits);
		const float gradient = r->drawn[draw + r->data->most];

		sum += (double)gradient;
		r->flushed += draw != 0 && gradient == 0;
	}
	return (float)sum;
}

/* A compressed step of unit U: what each rank gives, the exchange of all, and the momentum. */
static void compress_unit(struct bb_zero_reference *r, size_t u)
{
	const int n = r->data->nranks;
	const size_t first = (size_t)r->units->list[u].first;
	const size_t count = (size_t)r->units->list[u].elements;
	struct bb_coded *const all = &r->coded[u * (size_t)n];
	const float unscale = 1.0f / (r->scale.scale * (float)r->data->microbatches);

	for (int rank = 0; rank < n; rank++) {
		for (size_t i = 0; i < count; i++)
			all[rank].x[i] =
				gradients_of(r, r->parameters, first + i, (size_t)rank, (size_t)n);
		bb_onebit_give(r->onebit, unscale, r->moment1 + first, all[rank].x, count);
	}
	if (n > 1)
		bb_coded_alone(all);
	bb_onebit_take(r->onebit, n > 1 ? all->result : all->x, r->moment1 + first, count);
}

double bb_zero_reference_drift(const struct bb_zero_reference *r)
{
	const enum bb_dtype dtype = r->data->dtype;
	double off = 0, moved = 0;

	for (size_t i = 0; i < r->data->elements; i++) {
		const double copy = r->master[i];
		uint32_t initial;

		bb_zero_initial(dtype, i, 1, &initial);
		moved += pow(copy - bb_scalar_decode(dtype, &initial), 2);
		off += pow(copy - bb_scalar_decode(dtype, r->parameters + i * bb_dtype_size(dtype)),
			   2);
	}
	return sqrt(off / moved);
}

void bb_zero_reference_step(struct bb_zero_reference *r, int64_t step)
{
	const struct bb_zero_data *d = r->data;
	const size_t n = (size_t)d->elements, ranks = (size_t)d->nranks;
	const char *const seen = r->coder ? r->coder->see(r->coder, r->parameters) : r->parameters;
	const struct bb_zero_batch batch = {.step = step,
					    .forward = bb_zero_sum(d->dtype, 0, n, seen),
					    .scale = r->scale.scale};
	const float *const coded = r->coder ? r->coder->reduce(r->coder, &batch, seen) : NULL;
	const bool overflowed = d->overflow == step;
	const float unscale = 1.0f / (r->scale.scale * (float)r->nseeds);

	round_draws(d, r->scale.scale, r->drawn);
	for (size_t s = 0; s < r->nseeds; s++)
		r->seeds[s] = batch_seed(&batch, (int)(s % ranks), (int64_t)(s / ranks));
	r->steps += !overflowed;
	for (size_t u = 0; r->units && u < r->units->n && !overflowed; u++)
		compress_unit(r, u);
	for (size_t first = 0; first < n && !overflowed; first += BLOCK) {
		const size_t end = n - first < BLOCK ? n : first + BLOCK;
		char *const parameters = r->parameters + first * bb_dtype_size(d->dtype);
		float gradients[BLOCK], values[BLOCK], update[BLOCK] = {0};

		/* Gradients are summed over all ranks and microbatches, exactly. */
		for (size_t i = first; i < end && !r->units; i++) {
			const float sum = gradients_of(r, seen, i, 0, 1);

			gradients[i - first] = coded ? coded[i] : sum;
		}
		if (r->onebit && !r->units)
			bb_onebit_moments(r->onebit, unscale, gradients, r->moment1 + first,
					  r->moment2 + first, end - first);
		if (r->onebit)
			bb_onebit_apply(r->onebit, 1, r->moment1 + first, r->moment2 + first,
					r->master + first, NULL, end - first);
		else
			bb_adam_step_by(d->rate, r->steps, unscale, gradients,
					d->bare ? update : r->master + first, r->moment1 + first,
					r->moment2 + first, end - first);
		if (d->bare) { /* the same update of both */
			bb_adam_widen(d->dtype, parameters, values, end - first);
			for (size_t i = first; i < end; i++) {
				r->master[i] += update[i - first];
				values[i - first] += update[i - first];
			}
			r->unchanged +=
				bb_zero_round(d, r->steps, first, end - first, values, parameters);
			continue;
		}
		for (size_t i = first; i < end; i++)
			bb_scalar_encode(d->dtype, r->master[i],
					 r->parameters + i * bb_dtype_size(d->dtype));
	}
	bb_zero_scale_update(&r->scale, overflowed);
}

void bb_zero_reference_close(struct bb_zero_reference *r)
{
	free(r->parameters);
	free(r->master);
	free(r->seeds);
	free(r->forms);
	free(r->coded);
	free(r->memory);
}
