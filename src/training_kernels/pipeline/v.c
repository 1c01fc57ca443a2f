/*
 * v.c - zb-v: the parts of the model are folded over the stages, so each stage has two chunks and
 * the first stage is also the last (arXiv 2401.10241, 6). Passes are placed round by round, a B
 * and an F of each stage, and W where a stage would otherwise be idle.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>
#include <string.h>

struct fold {
	struct bb_draft draft;
	bool before_f, before_b; /* a W may fill a shorter gap before the pass */
	/* [stage]: bubbles of the previous try, which this one may have too; NULL: none. */
	const int64_t *granted;
	int64_t most_granted;
};

static int fold_done(const struct fold *f, int stage, enum bb_pass_kind kind, int chunk)
{
	return f->draft.stages[stage].done[kind][chunk];
}

/* The bubble that a stage may add without being the worst. */
static int64_t fold_slack(const struct fold *f, int stage)
{
	int64_t most = f->draft.bubble;

	if (f->granted && f->most_granted - f->granted[stage] > most)
		most = f->most_granted - f->granted[stage];
	return most - f->draft.stages[stage].bubble;
}

static void fold_put(struct fold *f, int stage, enum bb_pass_kind kind, int chunk)
{
	struct bb_draft *draft = &f->draft;
	const struct bb_stage_state *state = &draft->stages[stage];
	const int64_t arrival = bb_draft_arrival(draft, stage, kind, chunk);
	const bool always = kind == BB_PASS_B ? chunk == 0 || f->before_b : f->before_f;

	bb_draft_put_fitting_w(draft, stage, arrival);
	if (state->waiting > 0 && arrival - state->time > fold_slack(f, stage) && always)
		bb_draft_put_w(draft, stage);
	bb_draft_put(draft, stage, kind, chunk);
}

/* ---- before the first B ---------------------------------------------------------------------- */

/* One microbatch there and back; on the way back each stage adds the F that fit before its turn. */
static void fold_first(struct fold *f)
{
	struct bb_draft *draft = &f->draft;
	const int p = draft->order.stages;

	for (int i = 0; i < p; i++)
		bb_draft_put(draft, i, BB_PASS_F, 0);
	for (int i = p - 1; i >= 0 && !draft->failed; i--) {
		const struct bb_stage_state *state = &draft->stages[i];
		const int64_t arrival = bb_draft_arrival(draft, i, BB_PASS_F, 1);
		const int64_t cost = bb_draft_cost(draft, i, BB_PASS_F, 0);
		const int64_t memory = bb_draft_change(draft, i, BB_PASS_F, 0);

		while (i < p - 1 && state->held + memory * (2 + 2 * i) <= bb_draft_room(draft, i) &&
		       state->time + cost <= arrival &&
		       state->done[BB_PASS_F][0] < draft->microbatches && !draft->failed)
			for (int j = 0; j <= i; j++)
				bb_draft_put(draft, j, BB_PASS_F, 0);
		bb_draft_put(draft, i, BB_PASS_F, 1);
	}
}

/* Each stage gets as many F as the one before it. */
static void even_out(struct fold *f)
{
	struct bb_draft *draft = &f->draft;
	const int p = draft->order.stages;
	int chunk = 0;

	for (int i = 1; i < p; i++) {
		while (!draft->failed &&
		       fold_done(f, i, BB_PASS_F, 0) + fold_done(f, i, BB_PASS_F, 1) <
			       fold_done(f, i - 1, BB_PASS_F, 0) +
				       fold_done(f, i - 1, BB_PASS_F, 1)) {
			for (int j = p - 1; j >= i; j--)
				if (fold_done(f, j, BB_PASS_F, chunk) < draft->microbatches)
					bb_draft_put(draft, j, BB_PASS_F, chunk);
			chunk = 1 - chunk;
		}
	}
}

/* ---- then round by round --------------------------------------------------------------------- */

/* The chunk whose B a stage does next: the first chunk once its input has arrived, else the
   second. */
static int chunk_of_b(const struct fold *f, int stage)
{
	const bool all_back = fold_done(f, stage, BB_PASS_B, 1) == f->draft.microbatches;

	if (fold_done(f, stage, BB_PASS_B, 0) >= fold_done(f, stage, BB_PASS_B, 1))
		return 1;
	return all_back || bb_draft_arrival(&f->draft, stage, BB_PASS_B, 0) >= 0 ? 0 : 1;
}

/* The chunk whose F it does next; -1: none now. */
static int chunk_of_f(const struct fold *f, int stage)
{
	const int there = fold_done(f, stage, BB_PASS_F, 0),
		  back = fold_done(f, stage, BB_PASS_F, 1);

	if (back == f->draft.microbatches)
		return -1;
	if (back >= there)
		return 0;
	if (bb_draft_arrival(&f->draft, stage, BB_PASS_F, 1) >= 0)
		return 1;
	if (there < f->draft.microbatches && bb_draft_arrival(&f->draft, stage, BB_PASS_F, 0) >= 0)
		return 0;
	return -1;
}

/* Does the stage have what the pass needs? Always if all parts are equal; else it may skip a
   turn. */
static bool is_ready(const struct fold *f, int stage, enum bb_pass_kind kind, int chunk)
{
	const int of = fold_done(f, stage, kind, chunk);

	return (kind == BB_PASS_F ? of < f->draft.microbatches
				  : of < fold_done(f, stage, BB_PASS_F, chunk)) &&
	       bb_draft_arrival(&f->draft, stage, kind, chunk) >= 0;
}

static void fold_round(struct fold *f)
{
	struct bb_draft *draft = &f->draft;
	struct bb_stage_state *stages = draft->stages;
	const int p = draft->order.stages;

	for (int i = 0; i < p; i++) {
		bb_draft_make_room(draft, i, BB_PASS_B, 0);
		stages[i].extra = chunk_of_b(f, i);
	}
	for (int i = p - 1; i >= 0; i--)
		if (stages[i].extra == 0 && is_ready(f, i, BB_PASS_B, 0))
			fold_put(f, i, BB_PASS_B, 0);
	for (int i = 0; i < p; i++)
		if (stages[i].extra == 1 && is_ready(f, i, BB_PASS_B, 1))
			fold_put(f, i, BB_PASS_B, 1);
	for (int i = 0; i < p; i++) {
		const int chunk = chunk_of_f(f, i);

		if (chunk < 0 || !is_ready(f, i, BB_PASS_F, chunk))
			continue;
		bb_draft_make_room(draft, i, BB_PASS_F, chunk);
		fold_put(f, i, BB_PASS_F, chunk);
	}
}

/* Passes of all stages, without W. */
static int64_t all_done(const struct fold *f)
{
	int64_t n = 0;

	for (int i = 0; i < f->draft.order.stages; i++)
		for (int c = 0; c < 2; c++)
			n += fold_done(f, i, BB_PASS_F, c) + fold_done(f, i, BB_PASS_B, c);
	return n;
}

static void fold_try(struct fold *f)
{
	int64_t before = 0;

	bb_draft_clear(&f->draft);
	fold_first(f);
	even_out(f);
	for (int64_t now = all_done(f); now > before && !f->draft.failed; now = all_done(f)) {
		before = now;
		fold_round(f);
	}
	bb_draft_finish(&f->draft);
	f->draft.failed |= before < INT64_C(4) * f->draft.order.stages * f->draft.microbatches;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Tries again and again, with the bubbles of the previous try allowed, while that improves it. */
static void improve(struct fold *f, int64_t *bubbles, int64_t *best, struct bb_order *order)
{
	const size_t bytes = (size_t)order->stages * order->length * sizeof(*order->passes);
	int64_t last = INT64_MAX;

	f->granted = NULL;
	for (;;) {
		fold_try(f);
		if (f->draft.failed || f->draft.bubble >= last)
			return;
		last = f->most_granted = f->draft.bubble;
		for (int s = 0; s < order->stages; s++)
			bubbles[s] = f->draft.stages[s].bubble;
		f->granted = bubbles;
		if (last >= *best)
			continue;
		*best = last;
		memcpy(order->passes, f->draft.order.passes, bytes);
	}
}

/* A stage holds about twice as many microbatches as stages of its first chunk and later of its
   second: memory is for twice the larger of the two. */
static void widen(struct bb_draft *draft)
{
	for (int s = 0; s < draft->order.stages; s++) {
		const int64_t there = bb_draft_change(draft, s, BB_PASS_F, 0);
		const int64_t back = bb_draft_change(draft, s, BB_PASS_F, 1);

		draft->kept[s] = 2 * (there > back ? there : back);
	}
}

bb_status bb_fill_v(const struct bb_pipeline *pipeline, struct bb_order *order,
		    struct bb_error *error)
{
	/* That many microbatches fill the pipeline; those beyond the requested are not written. */
	const int least = 2 * order->stages - 1;
	const int m = order->microbatches > least ? order->microbatches : least;
	int64_t *bubbles = calloc((size_t)order->stages, sizeof(*bubbles));
	struct fold f = {.before_f = false};
	int64_t best = INT64_MAX;
	bb_status status = bb_draft_open(&f.draft, pipeline, order, m, order->stages, error);

	if (status == BB_OK && !bubbles)
		status = bb_no_memory(error, "a pipeline's order");
	if (status == BB_OK)
		widen(&f.draft);
	for (int i = 0; i < 4 && status == BB_OK; i++) {
		f.before_b = i < 2;
		f.before_f = i % 2 == 0;
		improve(&f, bubbles, &best, order);
	}
	if (status == BB_OK && best == INT64_MAX)
		status = bb_fail(
			error, BB_EUNSUPPORTED,
			"no folded order of %d stages is found for these times and activations",
			order->stages);
	bb_draft_free(&f.draft);
	free(bubbles);
	return status;
}
