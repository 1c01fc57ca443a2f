/*
 * order.c - orders of passes; time and memory of the passes of a part of the model.
 */
#include "training_kernels/pipeline/order.h"

#include <stdlib.h>
#include <string.h>

const char *const bb_pass_names[BB_PASS_KINDS] = {"F", "B", "W", "BW"};

void bb_order_copy(struct bb_order *to, const struct bb_order *from)
{
	memcpy(to->passes, from->passes, (size_t)to->stages * to->length * sizeof(*to->passes));
}

void bb_order_free(struct bb_order *order)
{
	free(order->passes);
	order->passes = NULL;
}

struct bb_pass bb_order_pass(const struct bb_order *order, size_t slot, int *stage)
{
	const size_t m = (size_t)order->microbatches;
	const size_t depths = (size_t)bb_order_depths(order);
	const int kind = (int)(slot / m / depths), depth = (int)(slot / m % depths);

	*stage = bb_order_stage(order, depth);
	return (struct bb_pass){
		.kind = kind == BB_PASS_B && !order->split ? BB_PASS_BW : (uint8_t)kind,
		.chunk = (uint8_t)(depth / order->stages),
		.microbatch = (uint16_t)(slot % m),
	};
}

int bb_part_layers(const struct bb_pipeline *pipeline, const struct bb_order *order, int depth)
{
	const int64_t layers = pipeline->layers, parts = bb_order_depths(order);

	return (int)((depth + 1) * layers / parts - depth * layers / parts);
}

/* The layers of a part, and the ends of the model that it has. */
static struct bb_pipeline_end share_of(const struct bb_pipeline *p, const struct bb_order *order,
				       int depth)
{
	const int64_t n = bb_part_layers(p, order, depth);
	const struct bb_pipeline_end none = {0, 0, 0, 0, 0};
	const struct bb_pipeline_end first = depth == 0 ? p->first : none;
	const struct bb_pipeline_end last = depth == bb_order_depths(order) - 1 ? p->last : none;

	return (struct bb_pipeline_end){
		.f = n * p->f + first.f + last.f,
		.b = n * p->b + first.b + last.b,
		.w = n * p->w + first.w + last.w,
		.kept = (n * p->kept + first.kept + last.kept) * order->chunks,
		.kept_w = (n * p->kept_w + first.kept_w + last.kept_w) * order->chunks,
	};
}

struct bb_part bb_part_of(const struct bb_pipeline *p, const struct bb_order *order, int depth)
{
	const int v = order->chunks;
	const struct bb_pipeline_end s =
		p->layers ? share_of(p, order, depth)
			  : (struct bb_pipeline_end){p->f / v, p->b / v, p->w / v, p->kept,
						     p->kept_w};

	return (struct bb_part){
		.cost = {[BB_PASS_F] = s.f,
			 [BB_PASS_B] = s.b,
			 [BB_PASS_W] = s.w,
			 [BB_PASS_BW] = p->layers ? s.b + s.w : (p->b + p->w) / v},
		.change = {[BB_PASS_F] = s.kept,
			   [BB_PASS_B] = s.kept_w - s.kept,
			   [BB_PASS_W] = -s.kept_w,
			   [BB_PASS_BW] = -s.kept},
	};
}

int64_t bb_stage_ns(const struct bb_pipeline *pipeline, const struct bb_order *order, int stage)
{
	int64_t sum = 0;

	for (int c = 0; c < order->chunks; c++) {
		const struct bb_part part =
			bb_part_of(pipeline, order, bb_order_depth(order, stage, c));

		sum += part.cost[BB_PASS_F] + (order->split
						       ? part.cost[BB_PASS_B] + part.cost[BB_PASS_W]
						       : part.cost[BB_PASS_BW]);
	}
	return sum;
}

int64_t bb_stage_kept(const struct bb_pipeline *pipeline, const struct bb_order *order, int stage)
{
	int64_t sum = 0;

	for (int c = 0; c < order->chunks; c++)
		sum += bb_part_of(pipeline, order, bb_order_depth(order, stage, c))
			       .change[BB_PASS_F];
	return sum;
}
