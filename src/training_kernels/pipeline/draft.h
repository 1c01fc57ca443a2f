/*
 * draft.h - an order in the making: passes are placed one by one, each as early as its stage and
 * what it needs allow. So orders are searched (schedules.c) and followed.
 */
#ifndef BB_TRAINING_KERNELS_PIPELINE_DRAFT_H
#define BB_TRAINING_KERNELS_PIPELINE_DRAFT_H

#include "training_kernels/pipeline/order.h"

/* How list scheduling chooses the next pass of a stage. */
struct bb_list_rule {
	bool fixed;              /* as the lists of the order say; else by the two below */
	enum bb_pass_kind first; /* F or B: which of them goes first; W only fills gaps */
	bool patient;            /* nothing that makes a B late whose arrival is known */
};

/* The passes of one stage so far. */
struct bb_stage_state {
	int64_t begin, time; /* of its first pass; of the end of its last */
	int64_t bubble;      /* idle time between them */
	int64_t held;        /* bytes times chunks */
	int done[3][2];      /* of each kind but BW, of each chunk */
	int waiting;         /* W that could be done */
	int extra;           /* for the search: F that are to come first */
	size_t written;      /* length of its list */
	struct bb_pass next; /* list scheduling: its next pass, which begins then */
	int64_t begins;
};

/* Nanoseconds and bytes are whole numbers, so that equal times are equal. */
struct bb_draft {
	struct bb_order order; /* with its own lists, and maybe more microbatches */
	int requested;         /* microbatches; passes of later ones are not written down */
	struct bb_part *parts; /* [depth] */
	int64_t limit;         /* microbatches that a stage has room for */
	int64_t *kept;         /* [stage]: what F leaves of one in all chunks */
	int64_t *ends;         /* [bb_order_slot]; below 0: not yet */
	struct bb_stage_state *stages;
	struct bb_list_rule rule;
	int *winners;   /* list scheduling: a tree of stages, the one that begins first on top */
	int64_t bubble; /* the most of any stage */
	bool failed;    /* a pass was placed that does not fit, or lacks what it needs */
};

/* LIMIT: most that a stage holds, in units of what F leaves there of a microbatch. Free DRAFT
   whatever comes back. */
BB_MUST bb_status bb_draft_open(struct bb_draft *draft, const struct bb_order *order,
				int microbatches, int64_t limit, struct bb_error *error);
void bb_draft_free(struct bb_draft *draft);

/* The part of the model that is CHUNK of STAGE. */
static inline const struct bb_part *bb_draft_part(const struct bb_draft *draft, int stage,
						  int chunk)
{
	return &draft->parts[bb_order_depth(&draft->order, stage, chunk)];
}

/* Memory of STAGE. */
static inline int64_t bb_draft_room(const struct bb_draft *draft, int stage)
{
	return draft->limit * draft->kept[stage];
}

/* Removes all passes. */
void bb_draft_clear(struct bb_draft *draft);

/* The time at which the next pass of KIND (F or B) and CHUNK has what it needs of another part: 0
   where it needs nothing, below 0 where that is not known yet. */
int64_t bb_draft_arrival(const struct bb_draft *draft, int stage, enum bb_pass_kind kind,
			 int chunk);
void bb_draft_put(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk);
/* Put the W that has waited longest. */
void bb_draft_put_w(struct bb_draft *draft, int stage);
/* W until the stage has room for a pass of KIND and CHUNK. */
void bb_draft_make_room(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk);
/* W while they fit before the pass of KIND and CHUNK, then, if LATE, one that is too long for the
   rest of the gap, where the stage's bubble would otherwise grow by more than SLACK. */
void bb_draft_fill_gap(struct bb_draft *draft, int stage, enum bb_pass_kind kind, int chunk,
		       bool late, int64_t slack);
/* The W that are left. */
void bb_draft_finish(struct bb_draft *draft);
/* The longest time of a stage from its first pass to its last; *END = the end of the last pass. */
int64_t bb_draft_span(const struct bb_draft *draft, int64_t *end);

/*
 * ---- list scheduling ----
 *
 * At each step the stage that can begin first places its next pass. By a fixed rule that is the
 * next one of its list. Otherwise it is the first that can begin then, of B before F before W, or F
 * before B before W; F only where there is room for it. So memory is never short and there is
 * always an order, if one microbatch fits; with little memory it is close to the best, because W
 * makes room for the next F as soon as there is nothing else to do.
 */

/* Begins list scheduling of an empty draft. A rule that is not fixed is for one chunk. */
void bb_draft_list(struct bb_draft *draft, struct bb_list_rule rule);
/* Opens DRAFT and begins to follow the lists of ORDER. Free DRAFT whatever comes back. */
BB_MUST bb_status bb_draft_follow(struct bb_draft *draft, const struct bb_order *order,
				  struct bb_error *error);
/* Places the pass that can begin first, and returns it and its STAGE; NULL: none can begin, at
   the end or because each stage that is not done waits for another. */
const struct bb_pass *bb_draft_step(struct bb_draft *draft, int *stage);

#endif
