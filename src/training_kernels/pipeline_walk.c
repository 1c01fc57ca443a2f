/*
 * pipeline_walk.c - one way through an order in which every pass has what it needs.
 */
#include "training_kernels/pipeline_order.h"

#include <stdlib.h>

bb_status bb_walk_open(struct bb_walk *walk, const struct bb_order *order,
		       const struct bb_pipeline *pipeline, struct bb_error *error)
{
	const size_t slots = bb_order_slots(order);

	*walk = (struct bb_walk){
		.order = order,
		.pipeline = pipeline,
		.next = calloc((size_t)order->stages, sizeof(*walk->next)),
		.free = calloc((size_t)order->stages, sizeof(*walk->free)),
		.ends = malloc(slots * sizeof(*walk->ends)),
	};
	if (!walk->next || !walk->free || !walk->ends)
		return bb_fail(error, BB_EINTERNAL, "out of memory for a pipeline's order");
	for (size_t i = 0; i < slots; i++)
		walk->ends[i] = -1;
	return BB_OK;
}

void bb_walk_close(struct bb_walk *walk)
{
	free(walk->next);
	free(walk->free);
	free(walk->ends);
}

static int64_t end_of(const struct bb_walk *walk, const struct bb_pass *pass, int depth,
		      enum bb_pass_kind kind)
{
	const struct bb_order *order = walk->order;
	const int stage = bb_order_stage(order, depth);
	const struct bb_pass other = {.kind = (uint8_t)kind,
				      .chunk = (uint8_t)(depth / order->stages),
				      .microbatch = pass->microbatch};

	return walk->ends[bb_order_slot(order, stage, &other)];
}

/* When the stage itself has done what the pass builds on; below 0: it has not. */
static int64_t own_ready(const struct bb_walk *walk, int stage, const struct bb_pass *pass)
{
	const int depth = bb_order_depth(walk->order, stage, pass->chunk);

	if (pass->kind == BB_PASS_F)
		return 0;
	return end_of(walk, pass, depth, pass->kind == BB_PASS_W ? BB_PASS_B : BB_PASS_F);
}

/* When the pass has what it needs; below 0: that is not known yet. */
static int64_t ready(const struct bb_walk *walk, int stage, const struct bb_pass *pass)
{
	const struct bb_order *order = walk->order;
	const int input = bb_order_input(order, stage, pass);
	const int64_t own = own_ready(walk, stage, pass);
	int64_t there = 0;

	if (input >= 0)
		there = end_of(walk, pass, input, pass->kind == BB_PASS_F ? BB_PASS_F : BB_PASS_B);
	if (own < 0 || there < 0)
		return -1;
	if (input >= 0 && bb_order_stage(order, input) != stage)
		there += walk->pipeline->hop;
	return own > there ? own : there;
}

bool bb_walk_lacks_own(const struct bb_walk *walk, int stage)
{
	return walk->next[stage] < walk->order->length &&
	       own_ready(walk, stage, &bb_order_passes(walk->order, stage)[walk->next[stage]]) < 0;
}

const struct bb_pass *bb_walk_next(struct bb_walk *walk, int *stage)
{
	const struct bb_order *order = walk->order;
	const struct bb_pass *best = NULL;
	int64_t begin = 0;

	for (int s = 0; s < order->stages; s++) {
		const struct bb_pass *pass = &bb_order_passes(order, s)[walk->next[s]];
		int64_t at;

		if (walk->next[s] == order->length)
			continue;
		at = ready(walk, s, pass);
		if (at < 0)
			continue;
		if (at < walk->free[s])
			at = walk->free[s];
		if (!best || at < begin) {
			best = pass;
			begin = at;
			*stage = s;
		}
	}
	if (best) {
		const int64_t end = begin + bb_pass_ns(walk->pipeline, order, best->kind);

		walk->next[*stage]++;
		walk->free[*stage] = end;
		walk->ends[bb_order_slot(order, *stage, best)] = end;
	}
	return best;
}
