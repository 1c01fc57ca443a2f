/*
 * plan.h - all ways of dividing the training of a model among ranks, which of them fit into
 * memory, and how long a step of each should take. Pure: nothing is run.
 *
 * A step is m micro-batches through a pipeline of p stages by 1F1B. With T what the slowest stage
 * takes for one, forward and backward, tensor and expert communication among it, and T_c what a
 * message between stages takes:
 *
 *   step = m T + (p-1) T + (2 (p-1) (m/p + 1) - 2) T_c + data + embedding
 *
 * Nothing overlaps: a bound from above. m T is computation and communication, (p-1) T the bubble
 * (docs/training.md, Pipelines), the messages' term is exact where p divides m. Communication takes
 * rounds x latency + sent / rate (volume.h); a kind any group of which leaves its node goes
 * at the pace of the links between nodes. Left out are the optimiser and what is bound by memory.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_PLAN_H
#define BB_TRAINING_KERNELS_HYBRID_PLAN_H

#include "models/memory/training.h"
#include "training_kernels/hybrid/volume.h"

struct bb_hybrid_link {
	double rate, latency; /* bytes per second of a rank, seconds */
};

struct bb_hybrid_cluster {
	int ranks, node; /* ranks of a node */
	struct bb_hybrid_link inside, between;
	double flops;    /* of a rank, per second */
	uint64_t memory; /* bytes of a rank */
};

/* What is tried. */
struct bb_hybrid_space {
	struct bb_grid grid;  /* 0: any; ep and order are as they are */
	uint64_t batch;       /* sequences of a step, of all replicas */
	uint64_t micro_batch; /* 0: 1, 2, 4 … while it fits */
	int recompute;        /* enum bb_recompute; -1: any */
	bool scatter;         /* see struct bb_hybrid_step */
	/* All else: model, layout, recipe, zero, sequence_parallel wherever tp > 1. */
	struct bb_training base;
};

/* Seconds of a step. */
struct bb_hybrid_cost {
	double compute, bubble; /* the bubble with all that the other micro-batches do not hide */
	double traffic[BB_TRAFFICS];
	double step;
};

struct bb_hybrid_division {
	struct bb_grid grid;
	struct bb_training training;
	struct bb_need need;             /* of the stage that needs most */
	struct bb_hybrid_volumes volume; /* of the stage that is slowest */
	bool crosses[BB_TRAFFICS];       /* a node's border */
	struct bb_hybrid_cost cost;
};

/* Why a way of dividing the ranks is not among the list. */
enum bb_hybrid_misfit {
	BB_MISFIT_HEADS,  /* tp does not divide them */
	BB_MISFIT_LAYERS, /* more stages than layers */
	BB_MISFIT_BATCH,  /* dp times the micro-batch does not divide it */
	BB_MISFIT_OTHER,  /* experts, ZeRO and the like: bb_training_check */
	BB_MISFIT_MEMORY,
	BB_MISFITS
};
extern const char *const bb_misfit_words[BB_MISFITS];

struct bb_hybrid_plan {
	struct bb_hybrid_division
		*list; /* of each (dp, tp, pp) the fastest that fits; fastest first */
	size_t n;
	size_t tried; /* (dp, tp, pp) */
	size_t misfits[BB_MISFITS];
	/* What needs least of all that do not fit; total 0: there are none. */
	struct bb_hybrid_division nearest;
};

/* BB_EINTERNAL without memory. Free PLAN whatever comes back. */
BB_MUST bb_status bb_hybrid_plan_make(struct bb_hybrid_plan *plan,
				      const struct bb_hybrid_cluster *cluster,
				      const struct bb_hybrid_space *space, struct bb_error *error);
void bb_hybrid_plan_free(struct bb_hybrid_plan *plan);

/* Volumes, crossings and cost of WAY, of which grid and training are given. */
void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster, bool scatter);

/*
 * FLOPs per second that a rank must compute at for the step of WAY, as bb_hybrid_division_cost has
 * it, to take what it takes where all of its FLOPs are done at RUN per second and rank: published
 * rates are those of whole runs, with communication and bubble in them. 0: communication alone
 * takes longer.
 */
double bb_hybrid_division_rate(struct bb_hybrid_division *division,
			       const struct bb_hybrid_cluster *cluster, bool scatter, double run);

/* FLOPs of a layer's attention between queries, keys and values for a sequence, forward: what
   selective recomputation makes again (models/transformer.c). */
double bb_attention_flops(const struct bb_model *model);

#endif
