/*
 * greedy.c - passes that are put down one by one.
 */
#include "training_kernels/pipeline/greedy.h"

#include <stdlib.h>
#include <string.h>

bb_status bb_draft_open(struct bb_draft *draft, const struct bb_pipeline *pipeline,
			const struct bb_order *order, int microbatches, int64_t limit,
			struct bb_error *error)
{
	const size_t ends = 3 * (size_t)bb_order_depths(order) * (size_t)microbatches;

	*draft = (struct bb_draft){
		.order = *order,
		.microbatches = microbatches,
		.hop = pipeline->hop,
		.limit = limit,
		.parts = calloc((size_t)bb_order_depths(order), sizeof(*draft->parts)),
		.kept = calloc((size_t)order->stages, sizeof(*draft->kept)),
		.ends = malloc(ends * sizeof(*draft->ends)),
		.desks = calloc((size_t)order->stages, sizeof(*draft->desks)),
		.winners = calloc(2 * (size_t)order->stages, sizeof(*draft->winners)),
	};
	for (int d = 0; d < bb_order_depths(order) && draft->parts; d++)
		draft->parts[d] = bb_part_of(pipeline, order, d);
	for (int s = 0; s < order->stages && draft->kept; s++)
		draft->kept[s] = bb_stage_kept(pipeline, order, s);
	draft->order.passes =
		calloc((size_t)order->stages * order->length, sizeof(*draft->order.passes));
	return draft->parts && draft->kept && draft->ends && draft->desks && draft->winners &&
			       draft->order.passes
		       ? BB_OK
		       : bb_fail(error, BB_EINTERNAL, "out of memory for a pipeline's order");
}

void bb_draft_free(struct bb_draft *draft)
{
	bb_order_free(&draft->order);
	free(draft->parts);
	free(draft->kept);
	free(draft->ends);
	free(draft->desks);
	free(draft->winners);
}

void bb_draft_clear(struct bb_draft *draft)
{
	const size_t ends =
		3 * (size_t)bb_order_depths(&draft->order) * (size_t)draft->microbatches;

	memset(draft->desks, 0, (size_t)draft->order.stages * sizeof(*draft->desks));
	for (size_t i = 0; i < ends; i++)
		draft->ends[i] = -1;
	draft->bubble = 0;
	draft->failed = false;
}

static int64_t *end_of(const struct bb_draft *draft, enum bb_pass_kind kind, int depth,
		       int microbatch)
{
	const size_t part = (size_t)kind * (size_t)bb_order_depths(&draft->order) + (size_t)depth;

	return &draft->ends[part * (size_t)draft->microbatches + (size_t)microbatch];
}

int64_t bb_draft_arrival(const struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	const struct bb_order *order = &draft->order;
	const struct bb_pass pass = {.kind = (uint8_t)kind, .chunk = (uint8_t)chunk};
	const int microbatch = draft->desks[stage].done[kind][chunk];
	const int input = bb_order_input(order, stage, &pass);
	int64_t end;

	if (input < 0)
		return 0;
	if (microbatch == draft->microbatches)
		return -1;
	end = *end_of(draft, kind, input, microbatch);
	return end < 0 || bb_order_stage(order, input) == stage ? end : end + draft->hop;
}

void bb_draft_put(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	struct bb_stage_state *desk = &draft->desks[stage];
	const int microbatch = desk->done[kind][chunk];
	const int64_t arrival = bb_draft_arrival(draft, stage, kind, chunk);
	const int64_t from = arrival > desk->time ? arrival : desk->time;

	desk->held += bb_draft_change(draft, stage, kind, chunk);
	if (draft->failed || arrival < 0 || microbatch == draft->microbatches ||
	    desk->held > bb_draft_room(draft, stage) ||
	    (kind != BB_PASS_F && microbatch >= desk->done[kind - 1][chunk])) {
		draft->failed = true;
		return;
	}
	if (desk->done[BB_PASS_F][0] > 0)
		desk->bubble += from - desk->time;
	else
		desk->begin = from;
	if (desk->bubble > draft->bubble)
		draft->bubble = desk->bubble;
	desk->time = from + bb_draft_cost(draft, stage, kind, chunk);
	*end_of(draft, kind, bb_order_depth(&draft->order, stage, chunk), microbatch) = desk->time;
	desk->done[kind][chunk]++;
	desk->waiting += kind == BB_PASS_B ? 1 : kind == BB_PASS_W ? -1 : 0;
	if (microbatch < draft->order.microbatches)
		draft->order.passes[(size_t)stage * draft->order.length + desk->written++] =
			(struct bb_pass){(uint8_t)kind, (uint8_t)chunk, (uint16_t)microbatch};
}

int bb_draft_next_w(const struct bb_draft *draft, int stage)
{
	const struct bb_stage_state *desk = &draft->desks[stage];
	int64_t oldest = INT64_MAX;
	int chunk = 0;

	for (int c = 0; c < draft->order.chunks; c++) {
		const int next = desk->done[BB_PASS_W][c];
		int64_t since;

		if (next == desk->done[BB_PASS_B][c])
			continue;
		since = *end_of(draft, BB_PASS_B, bb_order_depth(&draft->order, stage, c), next);
		if (since < oldest) {
			oldest = since;
			chunk = c;
		}
	}
	return chunk;
}

void bb_draft_put_w(struct bb_draft *draft, int stage)
{
	bb_draft_put(draft, stage, BB_PASS_W, bb_draft_next_w(draft, stage));
}

void bb_draft_make_room(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk)
{
	const int64_t change = bb_draft_change(draft, stage, kind, chunk);

	while (!draft->failed && draft->desks[stage].held + change > bb_draft_room(draft, stage))
		bb_draft_put_w(draft, stage);
}

void bb_draft_put_fitting_w(struct bb_draft *draft, int stage, int64_t arrival)
{
	const struct bb_stage_state *desk = &draft->desks[stage];

	while (!draft->failed && desk->waiting > 0) {
		const int chunk = bb_draft_next_w(draft, stage);

		if (desk->time + bb_draft_cost(draft, stage, BB_PASS_W, chunk) > arrival)
			break;
		bb_draft_put(draft, stage, BB_PASS_W, chunk);
	}
}

void bb_draft_fill_gap(struct bb_draft *draft, int stage, int64_t arrival, int64_t slack,
		       bool eager)
{
	const struct bb_stage_state *desk = &draft->desks[stage];

	bb_draft_put_fitting_w(draft, stage, arrival);
	if (desk->waiting > 0 && desk->time < arrival && (eager || arrival - desk->time > slack))
		bb_draft_put_w(draft, stage);
}

void bb_draft_finish(struct bb_draft *draft)
{
	for (int s = 0; s < draft->order.stages; s++)
		while (!draft->failed && draft->desks[s].waiting > 0)
			bb_draft_put_w(draft, s);
}
