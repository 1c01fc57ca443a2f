/*
 * fits.c - the memory of GPUs, and the search through all combinations.
 */
#include "models/memory/fits.h"
#include "core/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the memory of a GPU --------------------------------------------------------------------- */

/* Total memory in nvidia-smi, as public logs of 2023 to 2026 show it; of the cards of one nominal
   size the most usual in training first. Cards whose driver reports the nominal size, such as A100
   and MI300X, are left out. */
static const struct {
	const char *card; /* as in topology/cards.c */
	unsigned gib, mib;
} cards[] = {
	{"V100", 16, 16160},      {"T4", 16, 15360},           {"V100", 32, 32510},
	{"V100 PCIe", 32, 32510}, {"RTX 5090", 32, 32607},     {"H100", 80, 81559},
	{"H100 PCIe", 80, 81559}, {"H800", 80, 81559},         {"H100 NVL", 94, 95830},
	{"H20", 96, 97871},       {"GH200", 96, 97871},        {"RTX PRO 6000", 96, 97887},
	{"H200", 141, 143771},    {"H200 NVL", 141, 143771},   {"B200", 180, 183359},
	{"GB200", 186, 189471},   {"B300", 268, 275040},       {"RTX 4090", 24, 24564},
	{"L4", 24, 23034},        {"A10", 24, 23028},          {"L40S", 48, 46068},
	{"L40", 48, 46068},       {"L20", 48, 46068},          {"A40", 48, 46068},
	{"RTX A6000", 48, 49140}, {"RTX 6000 Ada", 48, 49140},
};

bb_status bb_capacity_open(struct bb_capacity *c, const char *option, uint64_t size,
			   const char *card, uint64_t reserve, struct bb_error *error)
{
	*c = (struct bb_capacity){.reported = size, .reserve = reserve};
	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]) && !c->card; i++)
		if ((uint64_t)cards[i].gib << 30 == size &&
		    (!card || strcmp(card, cards[i].card) == 0)) {
			c->reported = (uint64_t)cards[i].mib << 20;
			c->card = cards[i].card;
		}
	if (reserve >= c->reported)
		return bb_fail(error, BB_EUSAGE,
			       "--reserve: %.2f GB leave nothing of %s %.2f GB; give less, as in "
			       "--reserve 0",
			       1e-9 * (double)reserve, option, 1e-9 * (double)c->reported);
	c->usable = c->reported - reserve;
	return BB_OK;
}

void bb_capacity_add(struct bb_strbuf *out, const struct bb_capacity *c)
{
	bb_strbuf_addf(out, "%.2f GB", 1e-9 * (double)c->usable);
	if (c->card)
		bb_strbuf_addf(out, " (%.2f by the driver of %s", 1e-9 * (double)c->reported,
			       c->card);
	else if (c->reserve > 0)
		bb_strbuf_addf(out, " (%.2f", 1e-9 * (double)c->reported);
	if (c->reserve > 0)
		bb_strbuf_addf(out, ", less %.2f in reserve", 1e-9 * (double)c->reserve);
	if (c->card || c->reserve > 0)
		bb_strbuf_add(out, ")");
}

/* ---- the combinations ------------------------------------------------------------------------ */

struct search {
	struct bb_fits *fits;
	const struct bb_fits_space *space;
	size_t room;
	bool failed; /* out of memory */
};

/* Keep the largest microbatch that fits, if any does. */
static void try_micro_batches(struct search *s, struct bb_training t)
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
	s->failed |= found && !BB_ARRAY_PUT(s->fits->list, s->fits->n, s->room, best);
}

/* All stages of ZeRO that are valid, with all recomputations. */
static void try_stages(struct search *s, struct bb_training t)
{
	const int zero = s->space->zero, again = s->space->recompute;
	const int last = zero >= 0 ? zero : BB_ZERO_STAGES - 1;
	const int all = bb_training_has_activations(&t) ? BB_RECOMPUTE_FULL : BB_RECOMPUTE_NONE;

	for (t.zero = zero < 0 ? 0 : zero; t.zero <= last; t.zero++) {
		struct bb_training tried = t;
		struct bb_error reason = {.text = ""};

		tried.micro_batch = 1;
		if ((t.zero > 0 && t.dp == 1) || bb_training_check(&tried, &reason) != BB_OK)
			continue;
		for (int r = again < 0 ? 0 : again; r <= (again < 0 ? all : again); r++) {
			tried.recompute = (enum bb_recompute)r;
			try_micro_batches(s, tried);
		}
	}
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
	struct search s = {.fits = fits, .space = space};

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
			try_stages(&s, t);
		}
	if (fits->n > 0)
		qsort(fits->list, fits->n, sizeof(*fits->list), compare_fits);
	return s.failed ? bb_no_memory(error, "the list of combinations") : BB_OK;
}

/* ---- one training ---------------------------------------------------------------------------- */

#define MOST_TP 8 /* ranks of a node */

const char *bb_fit_name(const struct bb_training *t, char text[BB_FIT_NAME])
{
	const bool known = bb_training_has_activations(t);

	snprintf(text, BB_FIT_NAME, "dp %ju, tp %ju, pp %ju, ZeRO %d%s%s", t->dp, t->tp, t->pp,
		 t->zero, known ? ", recompute " : "",
		 known ? bb_recompute_words[t->recompute] : "");
	return text;
}

bb_status bb_fit_judge_need(struct bb_fit_verdict *v, const struct bb_training *t,
			    const struct bb_need *need, uint64_t limit, struct bb_error *error)
{
	const bool known = bb_training_has_activations(t);
	const uint64_t *b = need->bytes;
	const double activations = 1e-9 * (double)b[BB_NEED_ACTIVATIONS] +
				   1e-9 * (double)b[BB_NEED_RECOMPUTED] +
				   1e-9 * (double)b[BB_NEED_ENDS];
	const struct bb_fits_space space = {
		.gpus = t->dp * t->tp * t->pp,
		.most_tp = known ? MOST_TP : 1,
		.most_pp = known ? (uint64_t)t->model->blocks : 1,
		.most_micro_batch = t->micro_batch,
		.zero = -1,
		.recompute = -1,
		.limit = limit,
	};
	struct bb_training base = *t;
	struct bb_fits fits = {.list = NULL};
	struct bb_strbuf text = {0};
	char name[BB_FIT_NAME];
	bb_status st = BB_OK;

	*v = (struct bb_fit_verdict){need->total <= limit, *need, limit, ""};
	base.micro_batches = 0;
	bb_strbuf_addf(&text,
		       v->fits ? "fits, %.2f of %.2f GB"
			       : "does not fit: a rank needs %.2f of %.2f GB",
		       1e-9 * (double)need->total, 1e-9 * (double)limit);
	for (int i = 0; i <= BB_NEED_BUCKETS; i++)
		if (i <= BB_NEED_OPTIMIZER || b[i] > 0)
			bb_strbuf_addf(&text, "%s%s %.2f", i > 0 ? ", " : ": ",
				       bb_category_words[i], 1e-9 * (double)b[i]);
	if (known)
		bb_strbuf_addf(&text, ", activations %.2f", activations);
	else
		bb_strbuf_add(&text, "; activations are known only for transformers");
	if (!v->fits)
		BB_TRY(st, bb_fits_find(&fits, &base, &space, error), out);
	if (fits.tried > 0) {
		const struct bb_fit *const fit = fits.n > 0 ? &fits.list[0] : &fits.nearest;

		bb_strbuf_addf(&text, "; %s: %s, micro-batch %ju, %.2f GB",
			       fits.n > 0 ? "this would" : "nothing fits on these GPUs, least need",
			       bb_fit_name(&fit->training, name), fit->training.micro_batch,
			       1e-9 * (double)fit->need.total);
	}
	snprintf(v->text, sizeof(v->text), "%s", bb_strbuf_text(&text));
out:
	free(fits.list);
	bb_strbuf_free(&text);
	return st;
}

bb_status bb_fit_judge(struct bb_fit_verdict *v, const struct bb_training *training, uint64_t limit,
		       struct bb_error *error)
{
	struct bb_model_layout layout = {.before = NULL};
	struct bb_training t = *training;
	bb_status st = BB_OK;

	if (!t.layout) {
		BB_TRY(st, bb_model_layout_make(&layout, t.model, 0, error), out);
		t.layout = &layout;
	}
	struct bb_need need = bb_training_most(&t);
	st = bb_fit_judge_need(v, &t, &need, limit, error);
out:
	bb_model_layout_free(&layout);
	return st;
}
