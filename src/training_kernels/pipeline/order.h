/*
 * order.h - pipeline schedules as data: the passes of each stage, in their order.
 *
 *   order.c             the schedules, those by rules; time and memory of a part of the model
 *   draft.c             passes placed one by one: the searches, and the checker
 *
 * Pure: no clock, no I/O. A model is cut into chunks x stages parts; the place of a part is its
 * depth. Each microbatch goes forward through all of them and back again. The backward pass has two
 * halves: the gradient of the input (B), which the stage before waits for, and that of the weights
 * (W), which no stage waits for.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_PIPELINE_STAGES 4096               /* most */
#define BB_PIPELINE_PASSES (INT64_C(1) << 22) /* most, of all stages */
/* Most passes that zb-auto tries, but for its first memory limit, and zb-v in one try. */
#define BB_PIPELINE_TRIED (1 << 25)

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

/* Additional cost of an end of the model, for one microbatch. */
struct bb_pipeline_end {
	int64_t f, b, w, kept, kept_w;
};

/* A pipeline to be scheduled. Without LAYERS, times and bytes are those of one microbatch on one
   stage, divided equally among its chunks. With LAYERS they are those of one layer: a part of the
   model has whole layers, the first part also the embedding and the last part the head. */
struct bb_pipeline {
	int stages, microbatches, chunks;
	int layers;      /* 0: all parts are equal */
	int64_t f, b, w; /* nanoseconds of a pass */
	int64_t hop;     /* nanoseconds from the end of a pass until another stage has its result */
	/* Bytes of activations that F leaves, and the part of them that W still needs after B. */
	int64_t kept, kept_w;
	int64_t limit;                      /* zb-auto: memory of a stage, in units of KEPT */
	struct bb_pipeline_end first, last; /* with layers */
	bool by_step; /* zb-auto: minimize the end of the last pass, not the longest time of a stage
			 from its first pass to its last */
	bool hasty;   /* zb-auto: tries 1/32 as much, and ends with any of equally long orders */
};

/* Lists of all stages, of LENGTH passes each: that of stage s begins at passes[s * length]. */
struct bb_order {
	struct bb_pipeline pipeline; /* CHUNKS may be others than it requests */
	int stages, microbatches, chunks;
	bool split;  /* B and W are separate passes */
	bool folded; /* odd chunks run from the last stage to the first */
	size_t length;
	struct bb_pass *passes; /* owned */
};

struct bb_pipeline_schedule {
	const char *name, *brief;
	bool split, folded;
	int chunks;   /* required number; 0: as requested, in rounds over the stages */
	int reach;    /* F that a stage is ahead for each stage behind it */
	bool grouped; /* or all F go first */
	/* Fills the lists of ORDER, by its times and its hop. BB_EUNSUPPORTED if no order is found
	   within the memory limit, BB_EINTERNAL without memory. NULL: they follow from REACH. */
	bb_status (*search)(struct bb_order *order, struct bb_error *error);
};

/* In the order of their invention; ends with name NULL. */
extern const struct bb_pipeline_schedule bb_pipeline_schedules[];
const struct bb_pipeline_schedule *bb_pipeline_find(const char *name); /* or NULL */
const char *bb_pipeline_name(int index); /* of a schedule; for choices of options */

/* Chunks of a stage of PIPELINE under SCHEDULE. */
int bb_pipeline_chunks(const struct bb_pipeline_schedule *schedule,
		       const struct bb_pipeline *pipeline);

/* The reason why SCHEDULE has no order for PIPELINE ("needs …"), or NULL. */
const char *bb_pipeline_refuses(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline);

/* *ORDER = the lists of SCHEDULE, which does not refuse PIPELINE. Failures are those of its search.
   Free ORDER whatever comes back. */
BB_MUST bb_status bb_order_make(const struct bb_pipeline_schedule *schedule,
				const struct bb_pipeline *pipeline, struct bb_order *order,
				struct bb_error *error);
void bb_order_free(struct bb_order *order);
/*
 * Fill the lists of ORDER by a rule. Groups of GROUP microbatches go forward together and then
 * back. GROUP 0: a stage does REACH times as many F ahead as there are stages behind it, and those
 * of a round of all chunks but one; from then on F and B take turns. With W split from B, W begins
 * after LATE times as many B as there are stages before; with LATE as REACH that is when the first
 * stage begins with it, so that those that are left fill the bubble at the end.
 */
void bb_order_write_rule(struct bb_order *order, int reach, int late, int group);

static inline const struct bb_pass *bb_order_passes(const struct bb_order *order, int stage)
{
	return &order->passes[(size_t)stage * order->length];
}

/* The depth of CHUNK of STAGE, from 0; the stage at a depth. */
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

/* The unique number of a pass at DEPTH among those of all stages, below bb_order_slots; BW counts
   as B. */
static inline size_t bb_order_slot_at(const struct bb_order *order, int kind, int depth,
				      int microbatch)
{
	const size_t k = kind == BB_PASS_BW ? BB_PASS_B : (size_t)kind;
	const size_t part = k * (size_t)bb_order_depths(order) + (size_t)depth;

	return part * (size_t)order->microbatches + (size_t)microbatch;
}

static inline size_t bb_order_slot(const struct bb_order *order, int stage,
				   const struct bb_pass *pass)
{
	return bb_order_slot_at(order, pass->kind, bb_order_depth(order, stage, pass->chunk),
				pass->microbatch);
}

/* The pass with SLOT of ORDER, and its DEPTH; where the order is not split, BW instead of B. */
struct bb_pass bb_order_pass(const struct bb_order *order, size_t slot, int *depth);

static inline size_t bb_order_slots(const struct bb_order *order)
{
	return 3 * (size_t)bb_order_depths(order) * (size_t)order->microbatches;
}

/* The depth whose pass of the same kind and microbatch this one waits for, or -1: F waits for the
   part before, B and BW for the part after, W for none. */
static inline int bb_order_input(const struct bb_order *order, int stage,
				 const struct bb_pass *pass)
{
	const int depth =
		bb_order_depth(order, stage, pass->chunk) + (pass->kind == BB_PASS_F ? -1 : 1);

	return pass->kind == BB_PASS_W || depth == bb_order_depths(order) ? -1 : depth;
}

/* The depth that waits for the result of the pass, or -1. */
static inline int bb_order_output(const struct bb_order *order, int stage,
				  const struct bb_pass *pass)
{
	const int depth =
		bb_order_depth(order, stage, pass->chunk) + (pass->kind == BB_PASS_F ? 1 : -1);

	return pass->kind == BB_PASS_W || depth == bb_order_depths(order) ? -1 : depth;
}

/* Passes of a microbatch in a part of the model, or in all parts of a stage. */
struct bb_part {
	int64_t cost[BB_PASS_KINDS];   /* nanoseconds */
	int64_t change[BB_PASS_KINDS]; /* of memory, bytes times chunks; that of F is M_B */
};
struct bb_part bb_part_of(const struct bb_order *order, int depth);
struct bb_part bb_part_of_stage(const struct bb_order *order, int stage);
/* The layers of a part, as equal as whole layers allow. */
int bb_part_layers(const struct bb_order *order, int depth);
/* Nanoseconds of all passes of a microbatch on STAGE. */
int64_t bb_stage_ns(const struct bb_order *order, int stage);

/* ---- searches, and the checker (draft.c) ----------------------------------------------------- */

/* The searches of zb-v and zb-auto, as in struct bb_pipeline_schedule. */
bb_status bb_order_search_v(struct bb_order *order, struct bb_error *error);
bb_status bb_order_search_auto(struct bb_order *order, struct bb_error *error);
/* Returns a bound from below of the longest time of a stage, from its first pass to its last, in
   any order of PIPELINE, which has one chunk (zb-auto). */
int64_t bb_auto_least(const struct bb_pipeline *pipeline);

/*
 * Checks that ORDER has every pass once, none before what it needs, and that it ends. BB_EDATA,
 * with ERROR naming the stage and the pass, or BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_order_check(const struct bb_order *order, struct bb_error *error);
