#include "training_kernels/zero/zero.h"

#include <stdlib.h>
#include <string.h>

bb_status bb_zero_exchange_make(struct bb_zero_exchange *x, const struct bb_zero_units *units,
				int nranks, struct bb_error *error)
{
	struct bb_coded coded;

	*x = (struct bb_zero_exchange){.forms = calloc(units->n, sizeof(*x->forms)),
				       .errors = calloc(units->n + 1, sizeof(*x->errors))};
	if (!x->forms || !x->errors)
		return bb_no_memory(error, "the exchange of signs");
	for (size_t u = 0; u < units->n; u++) {
		x->forms[u] = (struct bb_coded_form){.scheme = &bb_coded_schemes[BB_CODED_ALLTOALL],
						     .coding = bb_coding_named("sign"),
						     .count = (size_t)units->list[u].elements,
						     .nranks = nranks,
						     .local = nranks,
						     .feedback = true};
		const size_t bytes = bb_coded_lay_out(&coded, &x->forms[u], 0, NULL);

		x->errors[u + 1] = x->errors[u] + coded.errors;
		x->bytes = bytes > x->bytes ? bytes : x->bytes;
	}
	return BB_OK;
}

void bb_zero_exchange_free(struct bb_zero_exchange *x)
{
	free(x->forms);
	free(x->errors);
	*x = (struct bb_zero_exchange){0};
}

struct bb_coded bb_zero_exchange_at(const struct bb_zero_exchange *x, size_t u, int rank,
				    char *memory, float *errors)
{
	struct bb_coded coded;

	bb_coded_lay_out(&coded, &x->forms[u], rank, memory);
	coded.error = errors ? errors + x->errors[u] : NULL;
	return coded;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

struct bb_coded bb_zero_coded(const struct bb_zero_rank *z, size_t u)
{
	return bb_zero_exchange_at(&z->exchange, u, z->rank, z->codes.memory,
				   (float *)(void *)z->errors.memory);
}

void bb_zero_compress(struct bb_zero_rank *z, const struct bb_zero_work *w)
{
	const struct bb_onebit *o = &z->zero->config.onebit;
	const struct bb_zero_unit *u = &z->zero->units.list[w->unit];
	const uint64_t at = z->places.list[w->unit].at;
	const size_t n = (size_t)u->elements;
	const struct bb_coded c = bb_zero_coded(z, w->unit);
	float *const m = (float *)(void *)z->moment1.memory + at;

	if (w->action == BB_ZERO_SIGN) {
		bb_coded_compute(&c, (size_t)w->microbatch);
	} else if (w->action == BB_ZERO_GIVE) {
		bb_adam_widen(z->zero->options.dtype,
			      z->gradients.memory + at * bb_dtype_size(z->zero->options.dtype), c.x,
			      n);
		memset(c.x + n, 0, (bb_coded_padded(c.form) - n) * sizeof(*c.x));
		bb_onebit_give(o, 1.0f / (z->scale.scale * (float)z->zero->options.accumulate), m,
			       c.x, n);
	} else {
		bb_onebit_take(o, z->has_peers ? c.result : c.x, m, n);
		if (z->has_peers)
			bb_coded_round(&c, u->first, &z->balance);
	}
}

struct bb_coded_balance bb_zero_rank_balance(const struct bb_zero_rank *z)
{
	struct bb_coded_balance balance = z->balance;

	for (size_t u = 0; u < z->zero->units.n && z->data && z->has_peers; u++) {
		const struct bb_coded c = bb_zero_coded(z, u);

		balance.open += bb_coded_errors(&c, z->zero->units.list[u].first);
	}
	return balance;
}

void bb_zero_rank_continue(struct bb_zero_rank *z, const struct bb_zero_rank *old)
{
	const struct bb_held *const from[] = {&old->parameters, &old->master, &old->moment1,
					      &old->moment2};
	const struct bb_held *const to[] = {&z->parameters, &z->master, &z->moment1, &z->moment2};

	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]) && z->data; i++)
		if (to[i]->memory)
			memcpy(to[i]->memory, from[i]->memory, to[i]->bytes);
	z->step = old->step;
	z->taken = old->taken;
	z->scale = old->scale;
}
