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

struct bb_pass bb_order_pass(const struct bb_order *order, size_t slot, int *depth)
{
	const size_t m = (size_t)order->microbatches;
	const size_t depths = (size_t)bb_order_depths(order);
	const int kind = (int)(slot / m / depths);

	*depth = (int)(slot / m % depths);
	return (struct bb_pass){
		.kind = kind == BB_PASS_B && !order->split ? BB_PASS_BW : (uint8_t)kind,
		.chunk = (uint8_t)(*depth / order->stages),
		.microbatch = (uint16_t)(slot % m),
	};
}

int bb_part_layers(const struct bb_order *order, int depth)
{
	const int64_t layers = order->pipeline.layers, parts = bb_order_depths(order);

	return (int)((depth + 1) * layers / parts - depth * layers / parts);
}

/* Whole layers with the ends of the model, whose bytes count for all chunks; or an equal share of a
   stage's time. */
struct bb_part bb_part_of(const struct bb_order *order, int depth)
{
	const struct bb_pipeline *p = &order->pipeline;
	const int64_t n = p->layers ? bb_part_layers(order, depth) : 1;
	const int64_t times = p->layers ? order->chunks : 1, share = order->chunks / times;
	const bool first = depth == 0, last = depth == bb_order_depths(order) - 1;
	const int64_t f = n * p->f + first * p->first.f + last * p->last.f;
	const int64_t b = n * p->b + first * p->first.b + last * p->last.b;
	const int64_t w = n * p->w + first * p->first.w + last * p->last.w;
	const int64_t kept = times * (n * p->kept + first * p->first.kept + last * p->last.kept);
	const int64_t kept_w =
		times * (n * p->kept_w + first * p->first.kept_w + last * p->last.kept_w);

	return (struct bb_part){
		.cost = {[BB_PASS_F] = f / share,
			 [BB_PASS_B] = b / share,
			 [BB_PASS_W] = w / share,
			 [BB_PASS_BW] = (b + w) / share},
		.change = {[BB_PASS_F] = kept,
			   [BB_PASS_B] = kept_w - kept,
			   [BB_PASS_W] = -kept_w,
			   [BB_PASS_BW] = -kept},
	};
}

struct bb_part bb_part_of_stage(const struct bb_order *order, int stage)
{
	struct bb_part sum = {.cost = {0}};

	for (int c = 0; c < order->chunks; c++) {
		const struct bb_part part = bb_part_of(order, bb_order_depth(order, stage, c));

		for (int kind = 0; kind < BB_PASS_KINDS; kind++) {
			sum.cost[kind] += part.cost[kind];
			sum.change[kind] += part.change[kind];
		}
	}
	return sum;
}

int64_t bb_stage_ns(const struct bb_order *order, int stage)
{
	const struct bb_part all = bb_part_of_stage(order, stage);

	return all.cost[BB_PASS_F] +
	       (order->split ? all.cost[BB_PASS_B] + all.cost[BB_PASS_W] : all.cost[BB_PASS_BW]);
}
