/*
 * part.c - time and memory of the passes of a part of the model.
 */
#include "training_kernels/pipeline/order.h"

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

int64_t bb_pass_ns(const struct bb_pipeline *pipeline, const struct bb_order *order, int stage,
		   const struct bb_pass *pass)
{
	const int depth = bb_order_depth(order, stage, pass->chunk);

	return bb_part_of(pipeline, order, depth).cost[pass->kind];
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
