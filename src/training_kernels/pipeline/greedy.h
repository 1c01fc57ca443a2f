/*
 * greedy.h - orders that are found by trying: passes are put down one by one, at the time
 * at which they would be done, and what was put down says what comes next.
 */
#ifndef BB_TRAINING_KERNELS_PIPELINE_GREEDY_H
#define BB_TRAINING_KERNELS_PIPELINE_GREEDY_H

#include "training_kernels/pipeline/order.h"

/* What a stage came to so far. */
struct bb_stage_state {
	int64_t begin, time; /* of its first pass; of the end of its last */
	int64_t bubble;      /* idle time between them */
	int64_t held;        /* bytes times chunks */
	int done[3][2];      /* of each kind but BW, of each chunk */
	int waiting;         /* W that could be done */
	int extra;           /* for the search: F that are to come first */
	int64_t begins;      /* for lists: the next pass, */
	enum bb_pass_kind next;
	size_t written;
};

/* A try. Nanoseconds and bytes are whole numbers, so that equal times are equal. */
struct bb_draft {
	struct bb_order order; /* with lists of its own; those of the result are copied from it */
	int microbatches; /* that are tried with; those beyond the order's are left out of it */
	struct bb_part *parts; /* [depth] */
	int64_t hop;
	int64_t limit; /* microbatches that a stage has room for */
	int64_t *kept; /* of each stage: what F leaves of one (bb_stage_kept) */
	int64_t *
		ends; /* as bb_order_slot says, for that number of microbatches; below 0: not yet */
	struct bb_stage_state *desks;
	int *winners;   /* for lists: a tree of stages, those that can begin first on top */
	int64_t bubble; /* the most of any stage */
	bool failed;    /* something was put down that does not fit, or lacks what it needs */
};

/* LIMIT: most that a stage holds, in units of what F leaves there of a microbatch. Free DRAFT
   whatever comes back. */
BB_MUST bb_status bb_draft_open(struct bb_draft *draft, const struct bb_pipeline *pipeline,
				const struct bb_order *order, int microbatches, int64_t limit,
				struct bb_error *error);
void bb_draft_free(struct bb_draft *draft);
/* What a pass takes there: time, and memory. */
static inline int64_t bb_draft_cost(const struct bb_draft *draft, int stage, enum bb_pass_kind kind,
				    int chunk)
{
	return draft->parts[bb_order_depth(&draft->order, stage, chunk)].cost[kind];
}

static inline int64_t bb_draft_change(const struct bb_draft *draft, int stage,
				      enum bb_pass_kind kind, int chunk)
{
	return draft->parts[bb_order_depth(&draft->order, stage, chunk)].change[kind];
}

/* What STAGE has room for. */
static inline int64_t bb_draft_room(const struct bb_draft *draft, int stage)
{
	return draft->limit * draft->kept[stage];
}

/* Nothing is put down. */
void bb_draft_clear(struct bb_draft *draft);

/* When the next pass of KIND (F or B) and CHUNK has what it needs of another part: 0 where it needs
   nothing, below 0 where that is not known yet. */
int64_t bb_draft_arrival(const struct bb_draft *draft, int stage, enum bb_pass_kind kind,
			 int chunk);
void bb_draft_put(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk);
/* The W that has waited longest; the chunk that it is of. */
void bb_draft_put_w(struct bb_draft *draft, int stage);
int bb_draft_next_w(const struct bb_draft *draft, int stage);
/* W until the stage has room for a pass of KIND and CHUNK. */
void bb_draft_make_room(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk);
/* W while they fit before ARRIVAL. */
void bb_draft_put_fitting_w(struct bb_draft *draft, int stage, int64_t arrival);
/*
 * The same, and then one that is too long for what is left, if EAGER or if
 * the stage would else be idle for more than SLACK.
 */
void bb_draft_fill_gap(struct bb_draft *draft, int stage, int64_t arrival, int64_t slack,
		       bool eager);
/* The W that are left. */
void bb_draft_finish(struct bb_draft *draft);
/*
 * All passes, by list scheduling (list.c): B before F, or F before B, as FIRST says, and W
 * where there is nothing else to do. PATIENT: nothing that would make a B late of which is known
 * when it comes. One chunk; fails only where not even one microbatch fits.
 */
void bb_draft_list(struct bb_draft *draft, enum bb_pass_kind first, bool patient);

/* ---- the schedules that are found so -------------------------------------------------------- */

bb_status bb_fill_auto(const struct bb_pipeline *pipeline, struct bb_order *order,
		       struct bb_error *error);
bb_status bb_fill_v(const struct bb_pipeline *pipeline, struct bb_order *order,
		    struct bb_error *error);

#endif
