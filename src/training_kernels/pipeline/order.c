/*
 * order.c - orders of passes by rules; time and memory of the passes of a part of the model.
 *
 * Sources: GPipe arXiv 1811.06965; 1F1B arXiv 1806.03377 and 2104.04473, also interleaved; ZB-H1
 * and ZB-H2 arXiv 2401.10241.
 */
#include "training_kernels/pipeline/order.h"

#include <stdlib.h>
#include <string.h>

const char *const bb_pass_names[BB_PASS_KINDS] = {"F", "B", "W", "BW"};

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

/* ---- by rule --------------------------------------------------------------------------------- */

/* Pass number I of KIND on any stage. With several chunks as many microbatches as there are stages
   go through a chunk before the next chunk; the backward pass is mirrored. */
static struct bb_pass rule_pass(const struct bb_order *order, enum bb_pass_kind kind, int i)
{
	const int p = order->stages, v = order->chunks;
	const int chunk = i % (p * v) / p;

	return (struct bb_pass){.kind = (uint8_t)kind,
				.chunk = (uint8_t)(kind == BB_PASS_F ? chunk : v - 1 - chunk),
				.microbatch = (uint16_t)(i / (p * v) * p + i % p)};
}

void bb_order_write_rule(struct bb_order *order, int reach, int late, int group)
{
	const int all = order->microbatches * order->chunks;
	const int round = (order->chunks - 1) * order->stages;
	struct bb_pass *at = order->passes;

	for (int stage = 0; stage < order->stages; stage++) {
		const int64_t ahead = (int64_t)reach * (order->stages - 1 - stage) + round;
		int f = 0, w = 0;

		for (int b = 0; b < all; b++) {
			const int64_t due = group ? (b / group + 1) * group : ahead + b + 1;

			while (f < all && f < due)
				*at++ = rule_pass(order, BB_PASS_F, f++);
			*at++ = rule_pass(order, order->split ? BB_PASS_B : BB_PASS_BW, b);
			if (order->split && b >= late * stage)
				*at++ = rule_pass(order, BB_PASS_W, w++);
		}
		while (order->split && w < all)
			*at++ = rule_pass(order, BB_PASS_W, w++);
	}
}

/* ---- the schedules --------------------------------------------------------------------------- */

const struct bb_pipeline_schedule bb_pipeline_schedules[] = {
	{"naive", "one microbatch after another", .chunks = 1},
	{"gpipe", "all forward passes, then all backward passes", .chunks = 1, .grouped = true},
	{"1f1b", "forward and backward passes alternate: memory for as many microbatches as stages",
	 .chunks = 1, .reach = 1},
	{"interleaved", "1f1b with several chunks per stage, in rounds over the stages",
	 .reach = 2},
	{"zb-h1", "1f1b with W split from B, to fill the bubble at the end", .split = true,
	 .chunks = 1, .reach = 1},
	{"zb-h2", "twice as many forward passes ahead: no bubble if F, B and W are equal",
	 .split = true, .chunks = 1, .reach = 2},
	{"zb-v", "two chunks per stage, folded: no bubble with the memory of 1f1b", .split = true,
	 .folded = true, .chunks = 2, .search = bb_order_search_v},
	{"zb-auto", "the best order that a search finds within --memory", .split = true,
	 .chunks = 1, .search = bb_order_search_auto},
	{.name = NULL},
};

const struct bb_pipeline_schedule *bb_pipeline_find(const char *name)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

const char *bb_pipeline_name(int index)
{
	return bb_pipeline_schedules[index].name;
}

int bb_pipeline_chunks(const struct bb_pipeline_schedule *schedule,
		       const struct bb_pipeline *pipeline)
{
	return schedule->chunks ? schedule->chunks : pipeline->chunks;
}

const char *bb_pipeline_refuses(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline)
{
	const int chunks = bb_pipeline_chunks(schedule, pipeline);
	const int64_t p = pipeline->stages, m = pipeline->microbatches;

	if (chunks > 1 && pipeline->layers % (chunks * pipeline->stages))
		return "needs a number of layers that the chunks of all stages divide";
	if (!schedule->chunks && m % p)
		return "needs a number of microbatches that the number of stages divides";
	if (schedule->folded && 6 * p * (m > 2 * p ? m : 2 * p) > BB_PIPELINE_TRIED)
		return "needs fewer stages, as its search takes twice as many microbatches";
	return NULL;
}

bb_status bb_order_make(const struct bb_pipeline_schedule *schedule,
			const struct bb_pipeline *pipeline, struct bb_order *order,
			struct bb_error *error)
{
	const int chunks = bb_pipeline_chunks(schedule, pipeline);

	*order = (struct bb_order){
		.pipeline = *pipeline,
		.stages = pipeline->stages,
		.microbatches = pipeline->microbatches,
		.chunks = chunks,
		.split = schedule->split,
		.folded = schedule->folded,
		.length =
			(schedule->split ? 3 : 2) * (size_t)chunks * (size_t)pipeline->microbatches,
	};
	order->passes = calloc((size_t)order->stages * order->length, sizeof(*order->passes));
	if (!order->passes)
		return bb_no_memory(error, "a pipeline's order");
	if (schedule->search)
		return schedule->search(order, error);
	bb_order_write_rule(order, schedule->reach, schedule->reach,
			    schedule->grouped ? order->microbatches : 0);
	return BB_OK;
}
