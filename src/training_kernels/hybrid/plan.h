/*
 * plan.h - the search of all divisions of the training of a model among ranks: which of them fit in
 * memory, and which are fast (cost.h). Pure: nothing is run.
 */
#pragma once

#include "training_kernels/hybrid/cost.h"

/* The divisions to try. BB_ANY: all values of a setting. */
#define BB_ANY (-1)
struct bb_hybrid_space {
	/* 0: any, but for etp, and for cp, which is 1; order is fixed; ep: groups of etp ranks with
	   all experts. */
	struct bb_grid grid;
	bool any_experts;      /* any ep and etp */
	uint64_t batch;        /* sequences of a step, of all replicas */
	uint64_t micro_batch;  /* 0: all that divide a replica's sequences, while it fits */
	int chunks;            /* virtual stages of a stage; 0 as 1 */
	int exchanges;         /* cp by all-to-alls of heads: 0 or 1 */
	bool any_schedule;     /* of 1f1b, interleaved, zb-h1 and zb-h2 */
	int recompute;         /* enum bb_recompute */
	int scatter;           /* each tensor rank sends a part to the next stage */
	int sequence_parallel; /* where tp > 1 */
	int zero;
	/* The rest: by_node, schedule, kept and overlap; model, layout and recipe of the training.
	 */
	struct bb_hybrid_division base;
};

/* The reason why a division is not in the list. */
enum bb_hybrid_misfit {
	BB_MISFIT_HEADS,    /* tp does not divide them */
	BB_MISFIT_LAYERS,   /* more stages than layers */
	BB_MISFIT_BATCH,    /* dp times the micro-batch does not divide it */
	BB_MISFIT_ZERO,     /* stages 2 and 3 with a pipeline */
	BB_MISFIT_SCHEDULE, /* it has no order for the pipeline */
	BB_MISFIT_EXPERTS,  /* the ranks cannot divide them */
	BB_MISFIT_OTHER,    /* sequences, optimizer and the like: bb_training_check */
	BB_MISFIT_MEMORY,
	BB_MISFITS
};
extern const char *const bb_misfit_reasons[BB_MISFITS];

struct bb_hybrid_plan {
	struct bb_hybrid_division
		*list; /* the fastest that fits of each (dp, tp, pp), fastest first */
	size_t n, room;
	size_t tried; /* (dp, tp, pp) */
	size_t misfits[BB_MISFITS];
	/* The division that needs least memory of those that do not fit; total 0: none. */
	struct bb_hybrid_division nearest;
};

/* BB_EINTERNAL without memory. The caller frees the list whatever comes back. */
BB_MUST bb_status bb_hybrid_plan_make(struct bb_hybrid_plan *plan,
				      const struct bb_hybrid_cluster *cluster,
				      const struct bb_hybrid_space *space, struct bb_error *error);
