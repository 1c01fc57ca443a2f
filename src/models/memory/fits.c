/*
 * fits.c - search through all combinations.
 */
#include "models/memory/fits.h"
#include "core/array.h"

#include <stdlib.h>

struct search {
	struct bb_fits *fits;
	const struct bb_fits_space *space;
	struct bb_error *error;
	size_t room;
};

static bb_status keep_fit(struct search *s, const struct bb_fit *fit)
{
	struct bb_fit *new = BB_ARRAY_ADD(s->fits->list, s->fits->n, s->room);

	if (!new)
		return bb_no_memory(s->error, "the list of combinations");
	*new = *fit;
	return BB_OK;
}

/* Keep the largest microbatch that fits, if any does. */
static bb_status try_micro_batches(struct search *s, struct bb_training t)
{
	const uint64_t given = s->space->micro_batch;
	/* Without activations all microbatches need the same memory. */
	const bool one = given > 0 || !bb_training_has_activations(&t);
	const uint64_t first = given ? given : 1, last = one ? first : s->space->most_micro_batch;
	struct bb_fit best = {.need = {.total = 0}};
	bool found = false;

	s->fits->tried++;
	for (t.micro_batch = first; t.micro_batch <= last; t.micro_batch *= 2) {
		const struct bb_fit fit = {t, bb_training_most(&t)};

		if (s->fits->nearest.need.total == 0 ||
		    fit.need.total < s->fits->nearest.need.total)
			s->fits->nearest = fit;
		if (fit.need.total > s->space->limit)
			break;
		best = fit;
		found = true;
	}
	return found ? keep_fit(s, &best) : BB_OK;
}

static bb_status try_recompute(struct search *s, struct bb_training t)
{
	const int given = s->space->recompute;
	const int all = bb_training_has_activations(&t) ? BB_RECOMPUTE_FULL : BB_RECOMPUTE_NONE;
	bb_status st = BB_OK;

	for (int r = given < 0 ? 0 : given; r <= (given < 0 ? all : given) && st == BB_OK; r++) {
		t.recompute = (enum bb_recompute)r;
		st = try_micro_batches(s, t);
	}
	return st;
}

static bool is_valid(const struct bb_training *t)
{
	struct bb_error reason = {.text = ""};
	struct bb_training least = *t;

	least.micro_batch = 1;
	return bb_training_check(&least, &reason) == BB_OK;
}

static bb_status try_stages(struct search *s, struct bb_training t)
{
	const int given = s->space->zero;
	const int last = given >= 0 ? given : BB_ZERO_STAGES - 1;
	bb_status st = BB_OK;

	for (t.zero = given < 0 ? 0 : given; t.zero <= last && st == BB_OK; t.zero++)
		if ((t.zero == 0 || t.dp > 1) && is_valid(&t))
			st = try_recompute(s, t);
	return st;
}

static int compare_fits(const void *a, const void *b)
{
	const struct bb_training *x = &((const struct bb_fit *)a)->training;
	const struct bb_training *y = &((const struct bb_fit *)b)->training;
	const uint64_t keys[][2] = {
		{x->recompute, y->recompute},
		{x->tp * x->pp, y->tp * y->pp},
		{x->pp, y->pp},
		{(uint64_t)x->zero, (uint64_t)y->zero},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

bb_status bb_fits_find(struct bb_fits *fits, const struct bb_training *base,
		       const struct bb_fits_space *space, struct bb_error *error)
{
	struct search s = {fits, space, error, 0};
	bb_status st = BB_OK;

	*fits = (struct bb_fits){.list = NULL};
	for (uint64_t tp = 1; tp <= space->most_tp; tp *= 2)
		for (uint64_t pp = 1; pp <= space->most_pp && tp * pp <= space->gpus; pp++) {
			struct bb_training t = *base;

			if (space->gpus % (tp * pp))
				continue;
			t.tp = tp;
			t.pp = pp;
			t.dp = space->gpus / (tp * pp);
			t.sequence_parallel = base->sequence_parallel && tp > 1;
			t.micro_batches = base->micro_batches ? base->micro_batches : 4 * pp;
			BB_TRY(st, try_stages(&s, t), out);
		}
	if (fits->n > 0)
		qsort(fits->list, fits->n, sizeof(*fits->list), compare_fits);
out:
	return st;
}

void bb_fits_free(struct bb_fits *fits)
{
	free(fits->list);
	*fits = (struct bb_fits){.list = NULL};
}
