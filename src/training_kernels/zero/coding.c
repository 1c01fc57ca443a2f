#include "training_kernels/zero/coding.h"

#include "models/memory/training.h"

#include <stdlib.h>
#include <string.h>

struct bb_coded_form bb_zero_coded_form(const struct bb_zero_units *units, size_t u, int nranks,
					int local)
{
	const size_t part = (size_t)bb_zero_part(units, u, (uint64_t)nranks);

	return (struct bb_coded_form){
		.scheme = &bb_coded_schemes[local ? BB_CODED_TWO_HOPS : BB_CODED_ALLTOALL],
		.coding = bb_coding_named(local ? "ds-int4" : "ds-int8"),
		.block = part / bb_coding_qwz_blocks(part),
		.count = part * (size_t)nranks,
		.nranks = nranks,
		.local = local,
		.only_gathers = !local,
		.only_reduces = local,
	};
}

/* Set the index of unit U; returns the elements of a rank's part. */
static size_t index_unit(struct bb_zero_coding *c, size_t u)
{
	const uint64_t ranks = (uint64_t)c->data->nranks;
	const size_t part = (size_t)bb_zero_part(c->units, u, ranks);
	const struct bb_zero_unit *unit = &c->units->list[u];

	for (uint64_t r = 0; r < ranks; r++) {
		size_t at = part * (size_t)r;

		for (size_t i = unit->rows; i < unit->rows + unit->nrows; i++) {
			const struct bb_zero_rows *rows = &c->units->rows[i];
			const uint64_t each = bb_partition(rows->rows, ranks) * rows->width;
			const uint64_t end = rows->rows * rows->width;

			for (uint64_t e = r * each; e < (r + 1) * each; e++)
				c->index[at++] = e < end ? (size_t)(rows->first + e) : SIZE_MAX;
		}
		while (at < part * (size_t)(r + 1))
			c->index[at++] = SIZE_MAX;
	}
	return part;
}

/* Compare COUNT numbers with those from which they were coded: of parameters, or of gradients. */
static void compare_numbers(struct bb_zero_coding *c, bool gradients, const float *x,
			    const float *exact, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const double off = (double)x[i] - (double)exact[i];

		c->errors[gradients] += off * off;
		c->squares[gradients] += (double)exact[i] * (double)exact[i];
	}
}

/* X = the numbers AT, of which the index has places, or 0. */
static void load_numbers(const struct bb_zero_coding *c, const size_t *index, size_t count,
			 const char *at, uint64_t first, float *x)
{
	const enum bb_dtype dtype = c->data->dtype;

	for (size_t i = 0; i < count; i++) {
		x[i] = 0;
		if (index[i] != SIZE_MAX)
			bb_adam_widen(dtype, at + (index[i] - first) * bb_dtype_size(dtype), &x[i],
				      1);
	}
}

static const char *coding_see(struct bb_zero_coder *coder, const char *parameters)
{
	struct bb_zero_coding *c = (struct bb_zero_coding *)coder;
	const enum bb_dtype dtype = c->data->dtype;

	if (!c->gathers)
		return parameters;
	for (size_t u = 0; u < c->units->n; u++) {
		const struct bb_coded_form f = bb_zero_coded_form(c->units, u, c->data->nranks, 0);
		const size_t part = index_unit(c, u);

		for (size_t at = 0; at < f.count; at += part) {
			load_numbers(c, c->index + at, part, parameters, 0, c->exact);
			bb_coding_encode(f.coding, f.block, c->exact, part, c->codes);
			bb_coding_decode(f.coding, f.block, c->codes, part, c->x);
			compare_numbers(c, false, c->x, c->exact, part);
			for (size_t i = 0; i < part; i++)
				if (c->index[at + i] != SIZE_MAX)
					bb_adam_narrow(dtype, &c->x[i],
						       c->seen + c->index[at + i] *
									 bb_dtype_size(dtype),
						       1);
		}
	}
	return c->seen;
}

/* Add what owners of the parts of unit U get of the drawn gradients to the sum; FIRST: replace it.
 */
static void reduce_unit(struct bb_zero_coding *c, size_t u, bool first)
{
	const struct bb_zero_data *d = c->data;
	const struct bb_zero_unit *unit = &c->units->list[u];
	const struct bb_coded_form f = bb_zero_coded_form(c->units, u, d->nranks, c->local);
	const size_t size = bb_dtype_size(d->dtype), part = index_unit(c, u);

	for (size_t at = 0; at < f.count; at += part) {
		memset(c->total, 0, part * sizeof(*c->total));
		memset(c->exact, 0, part * sizeof(*c->exact));
		for (int r = 0; r < d->nranks; r++) {
			if (r % c->local == 0)
				memset(c->node, 0, part * sizeof(*c->node));
			load_numbers(c, c->index + at, part,
				     c->drawn + (size_t)r * unit->elements * size, unit->first,
				     c->x);
			for (size_t i = 0; i < part; i++)
				c->exact[i] += c->x[i];
			bb_coding_encode(f.coding, f.block, c->x, part, c->codes);
			bb_coding_add(f.coding, f.block, c->codes, part, 1, c->node);
			if ((r + 1) % c->local != 0)
				continue;
			bb_coding_encode(f.coding, f.block, c->node, part, c->codes);
			bb_coding_add(f.coding, f.block, c->codes, part, 1, c->total);
		}
		compare_numbers(c, true, c->total, c->exact, part);
		for (size_t i = 0; i < part; i++) {
			float before = 0;

			if (c->index[at + i] == SIZE_MAX)
				continue;
			char *const to = c->sum + c->index[at + i] * size;
			if (!first)
				bb_adam_widen(d->dtype, to, &before, 1);
			/* The exchange ends with means, of which ranks make sums. */
			before += c->total[i] / (float)d->nranks * (float)d->nranks;
			bb_adam_narrow(d->dtype, &before, to, 1);
		}
	}
}

static const float *coding_reduce(struct bb_zero_coder *coder, const struct bb_zero_batch *batch,
				  const char *seen)
{
	struct bb_zero_coding *c = (struct bb_zero_coding *)coder;
	const struct bb_zero_data *d = c->data;
	const size_t size = bb_dtype_size(d->dtype);
	struct bb_zero_batch b = *batch;

	if (!c->local || b.step == d->overflow)
		return NULL;
	for (b.microbatch = 0; b.microbatch < d->microbatches; b.microbatch++)
		for (size_t u = 0; u < c->units->n; u++) {
			const struct bb_zero_unit *unit = &c->units->list[u];
			const size_t bytes = (size_t)unit->elements * size;

			for (b.rank = 0; b.rank < d->nranks; b.rank++)
				bb_zero_gradients(d, &b, unit->first, (size_t)unit->elements,
						  seen + unit->first * size,
						  c->drawn + (size_t)b.rank * bytes, false);
			reduce_unit(c, u, b.microbatch == 0);
		}
	bb_adam_widen(d->dtype, c->sum, c->gradients, (size_t)d->elements);
	return c->gradients;
}

bb_status bb_zero_coding_open(struct bb_zero_coding *c, struct bb_error *error)
{
	const size_t n = (size_t)c->data->elements, size = bb_dtype_size(c->data->dtype);
	const size_t ranks = (size_t)c->data->nranks;
	size_t most = 0; /* elements of a rank */

	for (size_t u = 0; u < c->units->n; u++) {
		const size_t part = (size_t)bb_zero_part(c->units, u, ranks);

		most = part > most ? part : most;
	}
	/* Codes have a scale for each 8 numbers, at most. */
	c->index = malloc(ranks * most * (sizeof(*c->index) + ranks * size) +
			  (n + 5 * most) * sizeof(float) + 2 * n * size);
	if (!c->index)
		return bb_no_memory(error, "the check of codes");
	c->coder = (struct bb_zero_coder){coding_see, coding_reduce};
	c->gradients = (float *)(void *)(c->index + ranks * most);
	c->x = c->gradients + n;
	c->exact = c->x + most;
	c->node = c->exact + most;
	c->total = c->node + most;
	c->codes = (char *)(c->total + most);
	c->seen = c->codes + most * sizeof(float);
	c->sum = c->seen + n * size;
	c->drawn = c->sum + n * size;
	return BB_OK;
}

void bb_zero_coding_close(struct bb_zero_coding *c)
{
	free(c->index);
}
