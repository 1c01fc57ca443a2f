/*
 * order.c - the schedules, and the lists of those that follow a rule.
 *
 * Sources: GPipe arXiv 1811.06965; 1F1B arXiv 1806.03377 and 2104.04473, also interleaved;
 * ZB-H1, ZB-H2 and the search arXiv 2401.10241.
 */
#include "training_kernels/pipeline/draft.h"

#include <stdlib.h>
#include <string.h>

const char *const bb_pass_names[BB_PASS_KINDS] = {"F", "B", "W", "BW"};

/* ---- the list of a stage, from front to back ------------------------------------------------- */

struct pen {
	struct bb_pass *at;
	int written[BB_PASS_KINDS];
};

static struct pen pen_begin(struct bb_order *order, int stage)
{
	return (struct pen){.at = &order->passes[(size_t)stage * order->length]};
}

/* The pass of the next microbatch, of the only chunk. */
static void write_next(struct pen *pen, enum bb_pass_kind kind)
{
	*pen->at++ = (struct bb_pass){.kind = (uint8_t)kind,
				      .microbatch = (uint16_t)pen->written[kind]++};
}

/* ---- one chunk ------------------------------------------------------------------------------- */

/*
 * A stage does REACH times as many F ahead as there are stages behind it; from then on F and B take
 * turns. 0: while one stage works all others wait. With W split from B, W begins when the first
 * stage begins with it, so that those that are left fill the bubble at the end.
 */
static void write_stage(struct bb_order *order, int stage, int reach)
{
	const int m = order->microbatches, late = reach * stage;
	const int64_t ahead = (int64_t)reach * (order->stages - 1 - stage);
	struct pen pen = pen_begin(order, stage);

	for (int i = 0; i < ahead && i < m; i++)
		write_next(&pen, BB_PASS_F);
	for (int i = 0; i < m; i++) {
		if (pen.written[BB_PASS_F] < m)
			write_next(&pen, BB_PASS_F);
		write_next(&pen, order->split ? BB_PASS_B : BB_PASS_BW);
		if (order->split && i >= late)
			write_next(&pen, BB_PASS_W);
	}
	while (order->split && pen.written[BB_PASS_W] < m)
		write_next(&pen, BB_PASS_W);
}

static bb_status write_stages(struct bb_order *order, int reach)
{
	for (int s = 0; s < order->stages; s++)
		write_stage(order, s, reach);
	return BB_OK;
}

static bb_status fill_naive(const struct bb_pipeline *pipeline, struct bb_order *order,
			    struct bb_error *error)
{
	return write_stages(order, 0);
}

/* 1F1B, or ZB-H1 if W is split. */
static bb_status fill_once(const struct bb_pipeline *pipeline, struct bb_order *order,
			   struct bb_error *error)
{
	return write_stages(order, 1);
}

static bb_status fill_h2(const struct bb_pipeline *pipeline, struct bb_order *order,
			 struct bb_error *error)
{
	return write_stages(order, 2);
}

static bb_status fill_gpipe(const struct bb_pipeline *pipeline, struct bb_order *order,
			    struct bb_error *error)
{
	for (int s = 0; s < order->stages; s++) {
		struct pen pen = pen_begin(order, s);

		for (int i = 0; i < order->microbatches; i++)
			write_next(&pen, BB_PASS_F);
		for (int i = 0; i < order->microbatches; i++)
			write_next(&pen, BB_PASS_BW);
	}
	return BB_OK;
}

/* ---- several chunks -------------------------------------------------------------------------- */

static const char *refuses_interleaved(const struct bb_pipeline *pipeline)
{
	return pipeline->microbatches % pipeline->stages == 0
		       ? NULL
		       : "needs a number of microbatches that the number of stages divides";
}

/* Number I of the F of a stage or, mirrored, of its BW: as many microbatches as there are stages go
   through a chunk before the next chunk. */
static struct bb_pass interleaved_pass(const struct bb_order *order, enum bb_pass_kind kind, int i)
{
	const int p = order->stages, v = order->chunks;
	const int chunk = i % (p * v) / p;

	return (struct bb_pass){.kind = (uint8_t)kind,
				.chunk = (uint8_t)(kind == BB_PASS_F ? chunk : v - 1 - chunk),
				.microbatch = (uint16_t)(i / (p * v) * p + i % p)};
}

static bb_status fill_interleaved(const struct bb_pipeline *pipeline, struct bb_order *order,
				  struct bb_error *error)
{
	const int all = order->microbatches * order->chunks;

	for (int s = 0; s < order->stages; s++) {
		const int ahead = 2 * (order->stages - 1 - s) + (order->chunks - 1) * order->stages;
		struct pen pen = pen_begin(order, s);
		int written = 0;

		while (written < ahead && written < all)
			*pen.at++ = interleaved_pass(order, BB_PASS_F, written++);
		for (int i = 0; i < all; i++) {
			if (written < all)
				*pen.at++ = interleaved_pass(order, BB_PASS_F, written++);
			*pen.at++ = interleaved_pass(order, BB_PASS_BW, i);
		}
	}
	return BB_OK;
}

/* zb-v is tried with enough microbatches to fill the pipeline (v.c). */
static const char *refuses_v(const struct bb_pipeline *pipeline)
{
	const int64_t p = pipeline->stages, m = pipeline->microbatches;

	return 6 * p * (m > 2 * p ? m : 2 * p) <= BB_PIPELINE_TRIED
		       ? NULL
		       : "needs fewer stages, as its search takes twice as many microbatches";
}

/* ---- the schedules --------------------------------------------------------------------------- */

const struct bb_pipeline_schedule bb_pipeline_schedules[] = {
	{.name = "naive", .brief = "one microbatch after another", .chunks = 1, .fill = fill_naive},
	{.name = "gpipe",
	 .brief = "all forward passes, then all backward passes",
	 .chunks = 1,
	 .fill = fill_gpipe},
	{.name = "1f1b",
	 .brief =
		 "forward and backward passes alternate: memory for as many microbatches as stages",
	 .chunks = 1,
	 .fill = fill_once},
	{.name = "interleaved",
	 .brief = "1f1b with several chunks per stage, in rounds over the stages",
	 .refuses = refuses_interleaved,
	 .fill = fill_interleaved},
	{.name = "zb-h1",
	 .brief = "1f1b with W split from B, to fill the bubble at the end",
	 .split = true,
	 .chunks = 1,
	 .fill = fill_once},
	{.name = "zb-h2",
	 .brief = "twice as many forward passes ahead: no bubble if F, B and W are equal",
	 .split = true,
	 .chunks = 1,
	 .fill = fill_h2},
	{.name = "zb-v",
	 .brief = "two chunks per stage, folded: no bubble with the memory of 1f1b",
	 .split = true,
	 .folded = true,
	 .chunks = 2,
	 .by_hop = true,
	 .refuses = refuses_v,
	 .fill = bb_fill_v},
	{.name = "zb-auto",
	 .brief = "the best order that a search finds within --memory",
	 .split = true,
	 .chunks = 1,
	 .by_hop = true,
	 .fill = bb_fill_auto},
	{.name = NULL},
};

const struct bb_pipeline_schedule *bb_pipeline_find(const char *name)
{
	for (const struct bb_pipeline_schedule *s = bb_pipeline_schedules; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
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

	if (chunks > 1 && pipeline->layers % (chunks * pipeline->stages))
		return "needs a number of layers that the chunks of all stages divide";
	return schedule->refuses ? schedule->refuses(pipeline) : NULL;
}

static bb_status new_order(const struct bb_pipeline_schedule *schedule,
			   const struct bb_pipeline *pipeline, struct bb_order *order,
			   struct bb_error *error)
{
	const int chunks = bb_pipeline_chunks(schedule, pipeline);

	*order = (struct bb_order){
		.stages = pipeline->stages,
		.microbatches = pipeline->microbatches,
		.chunks = chunks,
		.split = schedule->split,
		.folded = schedule->folded,
		.length =
			(schedule->split ? 3 : 2) * (size_t)chunks * (size_t)pipeline->microbatches,
	};
	order->passes = calloc((size_t)order->stages * order->length, sizeof(*order->passes));
	return order->passes ? BB_OK : bb_no_memory(error, "a pipeline's order");
}

bb_status bb_order_make(const struct bb_pipeline_schedule *schedule,
			const struct bb_pipeline *pipeline, struct bb_order *order,
			struct bb_error *error)
{
	const bb_status status = new_order(schedule, pipeline, order, error);

	return status == BB_OK ? schedule->fill(pipeline, order, error) : status;
}

void bb_order_free(struct bb_order *order)
{
	free(order->passes);
	order->passes = NULL;
}
