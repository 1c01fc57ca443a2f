/*
 * order.h - pipeline schedules as data: which passes each stage does, in which order.
 *
 *   order.c             the schedules, and those that are written down by rule
 *   draft.h             passes put down one by one: list scheduling, zb-auto (zb.c), zb-v (v.c)
 *   part.c              what a part of the model takes
 *   check.c             is an order right, and how much memory does it take?
 *
 * Pure: no clock, no I/O. A model of depth chunks x stages is cut into that many parts. Each
 * microbatch goes forward through all of them and back again. The backward pass has two halves: the
 * gradient of the input (B), which the stage before waits for, and that of the weights (W), which
 * nobody waits for.
 */
#ifndef BB_TRAINING_KERNELS_PIPELINE_ORDER_H
#define BB_TRAINING_KERNELS_PIPELINE_ORDER_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_PIPELINE_STAGES 4096               /* at most */
#define BB_PIPELINE_PASSES (INT64_C(1) << 22) /* of all stages, at most */
#define BB_PIPELINE_TRIED (1 << 25) /* passes that zb-auto tries, unless one limit takes more */

enum bb_pass_kind {
	BB_PASS_F,
	BB_PASS_B,
	BB_PASS_W,
	BB_PASS_BW, /* both halves at once */
	BB_PASS_KINDS
};
extern const char *const bb_pass_names[BB_PASS_KINDS]; /* "F", "B", "W", "BW" */

struct bb_pass {
	uint8_t kind; /* enum bb_pass_kind */
	uint8_t chunk;
	uint16_t microbatch;
};

/* What an end of the model has beside its layers, of one microbatch. */
struct bb_pipeline_end {
	int64_t f, b, w, kept, kept_w;
};

/* What is to be scheduled. Without LAYERS times and bytes are those of one microbatch on one stage,
   all of its chunks together, and a chunk has the same share of them as any other. With LAYERS they
   are those of one layer; a part of the model has whole layers, the first one the embedding too,
   the last one the head. */
struct bb_pipeline {
	int stages, microbatches, chunks;
	int layers;      /* 0: all parts are alike */
	int64_t f, b, w; /* nanoseconds of a pass */
	int64_t hop;     /* nanoseconds from the end of a pass until another stage has its result */
	/* Bytes of activations that F leaves, and those of them that W still needs after B. */
	int64_t kept, kept_w;
	int64_t limit;                      /* zb-auto: memory of a stage, in units of KEPT */
	struct bb_pipeline_end first, last; /* with layers */
	bool by_step; /* zb-auto: the end of the last pass is to be early, rather than the longest
			 time of a stage from its first pass to its last be short */
};

/* Lists of all stages, of LENGTH passes each: that of stage s begins at passes[s * length]. */
struct bb_order {
	int stages, microbatches, chunks;
	bool split;  /* B and W are passes of their own */
	bool folded; /* odd chunks run from the last stage to the first */
	size_t length;
	struct bb_pass *passes; /* owned */
};

struct bb_pipeline_schedule {
	const char *name, *brief;
	bool split, folded;
	int chunks;  /* that it needs; 0: one or more, as asked */
	bool by_hop; /* what it comes to depends on pipeline->hop */
	/* NULL, or why there is no such order ("needs …"). */
	const char *(*refuses)(const struct bb_pipeline *pipeline);
	/* Fill the lists. BB_EUNSUPPORTED where the memory limit does not suffice, BB_EINTERNAL
	   without memory. */
	bb_status (*fill)(const struct bb_pipeline *pipeline, struct bb_order *order,
			  struct bb_error *error);
};

/* In the order of their invention; ends with name NULL. */
extern const struct bb_pipeline_schedule bb_pipeline_schedules[];
const struct bb_pipeline_schedule *bb_pipeline_find(const char *name); /* or NULL */

/* The chunks that SCHEDULE cuts a stage of PIPELINE into. */
int bb_pipeline_chunks(const struct bb_pipeline_schedule *schedule,
		       const struct bb_pipeline *pipeline);

/* NULL, or why SCHEDULE has no order for PIPELINE ("needs …"). */
const char *bb_pipeline_refuses(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline);

/* *ORDER = the lists of SCHEDULE, which does not refuse PIPELINE; chunks as it needs them. To be
   freed whatever comes back. */
BB_MUST bb_status bb_order_make(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline, struct bb_order *order,
				struct bb_error *error);
void bb_order_free(struct bb_order *order);

static inline const struct bb_pass *bb_order_passes(const struct bb_order *order, int stage)
{
	return &order->passes[(size_t)stage * order->length];
}

/* Where CHUNK of STAGE is in the model, from 0 on; and back. */
static inline int bb_order_depth(const struct bb_order *order, int stage, int chunk)
{
	return chunk * order->stages +
	       (order->folded && chunk % 2 ? order->stages - 1 - stage : stage);
}

static inline int bb_order_depths(const struct bb_order *order)
{
	return order->stages * order->chunks;
}

static inline int bb_order_stage(const struct bb_order *order, int depth)
{
	const int at = depth % order->stages;

	return order->folded && depth / order->stages % 2 ? order->stages - 1 - at : at;
}

/* Of the pass, BW being a B: a number below bb_order_slots, its own among those of all stages. */
static inline size_t bb_order_slot(const struct bb_order *order, int stage,
				   const struct bb_pass *pass)
{
	const int kind = pass->kind == BB_PASS_BW ? BB_PASS_B : pass->kind;
	const int depth = bb_order_depth(order, stage, pass->chunk);

	return ((size_t)kind * (size_t)bb_order_depths(order) + (size_t)depth) *
		       (size_t)order->microbatches +
	       pass->microbatch;
}

static inline size_t bb_order_slots(const struct bb_order *order)
{
	return 3 * (size_t)bb_order_depths(order) * (size_t)order->microbatches;
}

/* The depth whose pass of the same kind and microbatch this one waits for, or -1: F comes from the
   part before, B and BW from the part after, W from neither. */
static inline int bb_order_input(const struct bb_order *order, int stage,
				 const struct bb_pass *pass)
{
	const int depth = bb_order_depth(order, stage, pass->chunk);

	if (pass->kind == BB_PASS_F)
		return depth - 1;
	if (pass->kind == BB_PASS_W || depth == bb_order_depths(order) - 1)
		return -1;
	return depth + 1;
}

/* The depth that waits for what the pass makes, or -1. */
static inline int bb_order_output(const struct bb_order *order, int stage,
				  const struct bb_pass *pass)
{
	const int depth = bb_order_depth(order, stage, pass->chunk);

	if (pass->kind == BB_PASS_W)
		return -1;
	if (pass->kind != BB_PASS_F)
		return depth - 1;
	return depth + 1 < bb_order_depths(order) ? depth + 1 : -1;
}

/* A part of the model, one microbatch. */
struct bb_part {
	int64_t cost[BB_PASS_KINDS];   /* nanoseconds of its passes */
	int64_t change[BB_PASS_KINDS]; /* of memory by them, bytes times chunks */
};
struct bb_part bb_part_of(const struct bb_pipeline *pipeline, const struct bb_order *order,
			  int depth);
/* The layers of a part: as even as whole layers can be. */
int bb_part_layers(const struct bb_pipeline *pipeline, const struct bb_order *order, int depth);

/* Nanoseconds that the pass takes. */
int64_t bb_pass_ns(const struct bb_pipeline *pipeline, const struct bb_order *order, int stage,
		   const struct bb_pass *pass);
/* Nanoseconds of all passes of a microbatch on STAGE; what all its F leave of it, in bytes times
   chunks (M_B). */
int64_t bb_stage_ns(const struct bb_pipeline *pipeline, const struct bb_order *order, int stage);
int64_t bb_stage_kept(const struct bb_pipeline *pipeline, const struct bb_order *order, int stage);

/* ---- the checker (check.c) --------------------------------------------------------- */

/*
 * Does ORDER have every pass once, none before what it needs, and does it end? BB_EDATA, with
 * ERROR naming the stage and the pass, or BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_order_check(const struct bb_order *order, struct bb_error *error);

/*
 * PEAKS, one of each stage, = the most activations that it ever holds, in units of what F of all
 * its chunks leaves of one microbatch (M_B): F adds its share of it, B leaves KEPT_W of that and W
 * nothing. (arXiv 2401.10241, 2.3.) M_B is the stage's own.
 */
void bb_order_memory(const struct bb_order *order, const struct bb_pipeline *pipeline,
		     double *peaks);

#endif
