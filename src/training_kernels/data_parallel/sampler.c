#include "training_kernels/data_parallel/data_parallel.h"

#include "core/random.h"
#include "core/table.h"
#include "core/units.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN 8 /* most samples of a rank in a line */

size_t bb_sampler_length(const struct bb_sampler *s)
{
	const size_t n = (size_t)s->nranks;

	return s->drop_last ? s->samples / n : (s->samples + n - 1) / n;
}

bb_status bb_sampler_order(const struct bb_sampler *s, uint64_t epoch, size_t **order,
			   struct bb_error *error)
{
	const size_t total = bb_sampler_length(s) * (size_t)s->nranks;
	const size_t room = total > s->samples ? total : s->samples;
	size_t *all = *order = calloc(room, sizeof(**order));
	uint64_t state = s->seed + epoch;

	if (!all)
		return bb_no_memory(error, "the samples");
	for (size_t i = 0; i < s->samples; i++)
		all[i] = i;
	/* Fisher and Yates, in the order of Durstenfeld 1964. */
	for (size_t i = s->samples; i > 1; i--) {
		const size_t j = (size_t)(((unsigned __int128)bb_random_next(&state) * i) >> 64);
		const size_t last = all[i - 1];

		all[i - 1] = all[j];
		all[j] = last;
	}
	for (size_t i = s->samples; i < total; i++)
		all[i] = all[i - s->samples];
	return BB_OK;
}

bb_status bb_sampler_coverage(const struct bb_sampler *s, const size_t *order,
			      struct bb_coverage *coverage, struct bb_error *error)
{
	const size_t n = (size_t)s->nranks, total = bb_sampler_length(s) * n;
	/* [sample]: 1 + the rank that has it; n + 1: several have. */
	size_t *owner = calloc(s->samples, sizeof(*owner));

	*coverage = (struct bb_coverage){0};
	if (!owner)
		return bb_no_memory(error, "the samples");
	for (size_t i = 0; i < total; i++) {
		size_t *o = &owner[order[i]];

		coverage->covered += *o == 0;
		coverage->repeated += *o != 0;
		if (*o != 0 && *o != n + 1 && *o != i % n + 1) {
			coverage->overlaps++;
			*o = n + 1;
		} else if (*o == 0) {
			*o = i % n + 1;
		}
	}
	free(owner);
	return BB_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Append an epoch in which the samples have ORDER. */
static bb_status sampler_add_epoch(const struct bb_sampler *s, uint64_t epoch, const size_t *order,
				   struct bb_strbuf *out, struct bb_error *error)
{
	const size_t length = bb_sampler_length(s), n = (size_t)s->nranks;
	struct bb_text_table t = {.limit = bb_table_limit(stdout)};
	struct bb_strbuf samples = {0};
	struct bb_coverage c;
	const bb_status status = bb_sampler_coverage(s, order, &c, error);

	if (status != BB_OK)
		return status;
	bb_strbuf_addf(out, "#\n# Epoch %ju\n", epoch);
	bb_table_column(&t, "rank", "", 5);
	bb_table_column(&t, "length", "", 0);
	bb_table_column(&t, "samples", "", -1);
	for (size_t rank = 0; rank < n; rank++) {
		bb_strbuf_clear(&samples);
		for (size_t i = 0; i < length && i < SHOWN; i++)
			bb_strbuf_addf(&samples, " %zu", order[i * n + rank]);
		bb_strbuf_add(&samples, length > SHOWN ? " …" : "");
		bb_table_cellf(&t, "%zu\t%zu\t%s", rank, length, bb_strbuf_text(&samples));
	}
	bb_table_print(&t, out);
	out->failed |= samples.failed;
	bb_strbuf_free(&samples);
	bb_table_free(&t);
	bb_strbuf_addf(out,
		       "# %zu places; %zu of %zu samples are in them, %zu are left out; %zu places "
		       "repeat a sample; %zu samples are on several ranks\n",
		       length * n, c.covered, s->samples, s->samples - c.covered, c.repeated,
		       c.overlaps);
	return BB_OK;
}

bb_status bb_sampler_describe(const struct bb_sampler *s, uint64_t epochs, struct bb_strbuf *out,
			      struct bb_error *error)
{
	const size_t total = bb_sampler_length(s) * (size_t)s->nranks;
	size_t *first = NULL, *order = NULL, same = 0;
	bb_status status = BB_OK;

	bb_strbuf_addf(out,
		       "# %zu samples among %d rank%s, %s; seed %ju. The permutation is "
		       "busbench's own, not PyTorch's\n",
		       s->samples, s->nranks, bb_plural(s->nranks),
		       s->drop_last ? "the tail is dropped" : "padded from the start", s->seed);
	/* Epoch 1 shows what set_epoch does, and forgetting it. */
	for (uint64_t epoch = 0; epoch < epochs || epoch < 2; epoch++) {
		free(order);
		BB_TRY(status, bb_sampler_order(s, epoch, &order, error), out);
		if (epoch < epochs)
			BB_TRY(status, sampler_add_epoch(s, epoch, order, out, error), out);
		for (size_t i = 0; i < total && epoch == 1; i++)
			same += first[i] == order[i];
		if (epoch == 0) {
			first = order;
			order = NULL;
		}
	}
	bb_strbuf_addf(out,
		       "#\n# With set_epoch, %zu of %zu places are equal in epochs 0 and 1\n"
		       "# Without it, the usual mistake, %zu of %zu: every epoch has the "
		       "order of the first\n",
		       same, total, total, total);
	bb_strbuf_fold(out, 0, bb_fold_limit(stdout));
out:
	free(first);
	free(order);
	return status;
}
