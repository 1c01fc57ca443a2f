/*
 * check.c - the checker of orders, and the memory that they take.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>

/* "B of microbatch 3, chunk 1, on stage 2" */
#define PASS "%s of microbatch %d, chunk %d, on stage %d"
#define PASS_OF(pass, stage) bb_pass_names[(pass)->kind], (pass)->microbatch, (pass)->chunk, stage

static bool is_possible(const struct bb_order *order, const struct bb_pass *pass)
{
	const bool whole = pass->kind == BB_PASS_BW,
		   half = pass->kind == BB_PASS_B || pass->kind == BB_PASS_W;

	return pass->kind < BB_PASS_KINDS && !(order->split ? whole : half) &&
	       pass->chunk < order->chunks && pass->microbatch < order->microbatches;
}

/* Each pass of the list is there once; with its length, none is missing. */
static bb_status check_stage(const struct bb_order *order, int stage, bool *seen,
			     struct bb_error *error)
{
	const struct bb_pass *passes = bb_order_passes(order, stage);

	for (size_t i = 0; i < order->length; i++) {
		size_t slot;

		if (!is_possible(order, &passes[i]))
			return bb_fail(error, BB_EDATA,
				       "no such pass: number %zu of "
				       "stage %d: kind %d, microbatch %d, chunk %d",
				       i, stage, passes[i].kind, passes[i].microbatch,
				       passes[i].chunk);
		slot = bb_order_slot(order, stage, &passes[i]);
		if (seen[slot])
			return bb_fail(error, BB_EDATA, PASS " appears twice",
				       PASS_OF(&passes[i], stage));
		seen[slot] = true;
	}
	return BB_OK;
}

static bb_status check_counts(const struct bb_order *order, struct bb_error *error)
{
	bool *seen = calloc(bb_order_slots(order), sizeof(*seen));
	bb_status status = BB_OK;

	if (!seen)
		return bb_no_memory(error, "a pipeline's order");
	for (int s = 0; s < order->stages && status == BB_OK; s++)
		status = check_stage(order, s, seen, error);
	free(seen);
	return status;
}

static bb_status check_fail(const struct bb_draft *draft, int stage, const char *why,
			    struct bb_error *error)
{
	const struct bb_pass *pass =
		&bb_order_passes(&draft->order, stage)[draft->stages[stage].written];

	return bb_fail(error, BB_EDATA, PASS " %s", PASS_OF(pass, stage), why);
}

/* The draft has ended: is a stage left whose next pass never begins? The cause is reported before
   its victims. */
static bb_status check_end(const struct bb_draft *draft, struct bb_error *error)
{
	const struct bb_order *order = &draft->order;

	for (int s = 0; s < order->stages; s++)
		if (bb_draft_lacks_own(draft, s))
			return check_fail(draft, s, "comes before a pass that it depends on",
					  error);
	for (int s = 0; s < order->stages; s++)
		if (draft->stages[s].written < order->length)
			return check_fail(draft, s,
					  "never begins: the stages wait for each other in a cycle",
					  error);
	return BB_OK;
}

bb_status bb_order_check(const struct bb_order *order, struct bb_error *error)
{
	const struct bb_pipeline equal = {.f = 1, .b = 1, .w = 1};
	struct bb_draft draft = {0};
	bb_status status;
	int stage;

	BB_TRY(status, check_counts(order, error), out);
	BB_TRY(status, bb_draft_follow(&draft, order, &equal, error), out);
	while (bb_draft_step(&draft, &stage))
		;
	status = check_end(&draft, error);
out:
	bb_draft_free(&draft);
	return status;
}

void bb_order_memory(const struct bb_order *order, const struct bb_pipeline *pipeline,
		     double *peaks)
{
	for (int s = 0; s < order->stages; s++) {
		const struct bb_pass *passes = bb_order_passes(order, s);
		int64_t held = 0, peak = 0;

		for (size_t i = 0; i < order->length; i++) {
			const int depth = bb_order_depth(order, s, passes[i].chunk);

			held += bb_part_of(pipeline, order, depth).change[passes[i].kind];
			if (held > peak)
				peak = held;
		}
		peaks[s] = (double)peak / (double)bb_stage_kept(pipeline, order, s);
	}
}
