#include "training_kernels/zero/coding.h"

#include <stdlib.h>
#include <string.h>

/* The part of unit U that RANK has, between X, with padding, and MEMORY, whose first element is
   element FIRST of the model. STORE: from X to MEMORY; else to X. */
static void move_part(const struct bb_zero_coding *c, size_t u, int rank, char *memory,
		      uint64_t first, float *x, bool store)
{
	const struct bb_zero_unit *unit = &c->units->list[u];
	const uint64_t ranks = (uint64_t)c->data->nranks;
	const enum bb_dtype dtype = c->data->dtype;

	if (!store)
		memset(x, 0, bb_zero_part(c->units, u, ranks) * sizeof(*x));
	for (size_t i = unit->rows; i < unit->rows + unit->nrows; i++) {
		const struct bb_zero_piece p =
			bb_zero_piece(&c->units->rows[i], ranks, (uint64_t)rank);
		char *const at = memory + (p.first - first) * bb_dtype_size(dtype);

		if (store)
			bb_adam_narrow(dtype, x, at, p.count);
		else
			bb_adam_widen(dtype, at, x, p.count);
		x += p.padded;
	}
}

/* Compare the numbers X with those from which they were coded: of parameters, or of GRADIENTS. */
static void compare_numbers(struct bb_zero_coding *c, bool gradients, const float *x, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const double off = (double)x[i] - (double)c->exact[i];

		c->errors[gradients] += off * off;
		c->squares[gradients] += (double)c->exact[i] * (double)c->exact[i];
	}
}

static const char *coding_see(struct bb_zero_coder *coder, const char *parameters)
{
	struct bb_zero_coding *c = (struct bb_zero_coding *)coder;
	const int nranks = c->data->nranks;

	if (!c->gathers)
		return parameters;
	for (size_t u = 0; u < c->units->n; u++) {
		const struct bb_coded_form f = bb_zero_coded_form(c->units, u, nranks, 0);
		const size_t part = f.count / (size_t)nranks;

		for (int rank = 0; rank < nranks; rank++) {
			move_part(c, u, rank, (char *)parameters, 0, c->exact, false);
			bb_coding_encode(f.coding, f.block, c->exact, part, c->codes);
			bb_coding_decode(f.coding, f.block, c->codes, part, c->x);
			compare_numbers(c, false, c->x, part);
			move_part(c, u, rank, c->seen, 0, c->x, true);
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
	const size_t part = f.count / (size_t)d->nranks, floats = part * sizeof(float);

	for (int owner = 0; owner < d->nranks; owner++) {
		memset(c->total, 0, floats);
		memset(c->exact, 0, floats);
		for (int r = 0; r < d->nranks; r++) {
			if (r % c->local == 0)
				memset(c->node, 0, floats);
			move_part(c, u, owner,
				  c->drawn + (size_t)r * unit->elements * bb_dtype_size(d->dtype),
				  unit->first, c->x, false);
			for (size_t i = 0; i < part; i++)
				c->exact[i] += c->x[i];
			bb_coding_encode(f.coding, f.block, c->x, part, c->codes);
			bb_coding_add(f.coding, f.block, c->codes, part, 1, c->node);
			if ((r + 1) % c->local != 0)
				continue;
			bb_coding_encode(f.coding, f.block, c->node, part, c->codes);
			bb_coding_add(f.coding, f.block, c->codes, part, 1, c->total);
		}
		compare_numbers(c, true, c->total, part);
		move_part(c, u, owner, c->sum, 0, c->x, false);
		/* The exchange ends with means, of which ranks make sums. */
		for (size_t i = 0; i < part; i++)
			c->x[i] = (first ? 0 : c->x[i]) +
				  c->total[i] / (float)d->nranks * (float)d->nranks;
		move_part(c, u, owner, c->sum, 0, c->x, true);
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
	size_t most = 0; /* elements of a part */

	for (size_t u = 0; u < c->units->n; u++) {
		const size_t part = (size_t)bb_zero_part(c->units, u, ranks);

		most = part > most ? part : most;
	}
	/* Codes have a scale for each 8 numbers, at most. */
	c->gradients = calloc(1, (n + 5 * most) * sizeof(float) + (2 * n + ranks * n) * size);
	if (!c->gradients)
		return bb_no_memory(error, "the check of codes");
	c->coder = (struct bb_zero_coder){coding_see, coding_reduce};
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
	free(c->gradients);
}
