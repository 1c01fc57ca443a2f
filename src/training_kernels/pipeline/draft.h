/*
 * draft.h - an order in the making: passes are placed one by one, each as early as its stage and
 * what it needs allow. So orders are searched and followed.
 */
#pragma once

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

void bb_draft_free(struct bb_draft *draft);

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

/* Opens DRAFT and begins to follow the lists of ORDER. Free DRAFT whatever comes back. */
BB_MUST bb_status bb_draft_follow(struct bb_draft *draft, const struct bb_order *order,
				  struct bb_error *error);
/* Places the pass that can begin first, and returns it and its STAGE; NULL: none can begin, at
   the end or because each stage that is not done waits for another. */
const struct bb_pass *bb_draft_step(struct bb_draft *draft, int *stage);
