/*
 * plan.h - all divisions of the training of a model among ranks: which of them fit in memory, and
 * the predicted time of a step of each. Pure: nothing is run.
 *
 * A step is m micro-batches through a pipeline of p stages by 1F1B. T is the time of a micro-batch
 * on the slowest stage, forward and backward, with tensor and expert communication; T_c is the time
 * of a message between stages:
 *
 *   step = m T + (p-1) T + (2 (p-1) (m/p + 1) - 2) T_c + data + embedding
 *
 * With v virtual stages the bubble is 1 / v of that, and stages wait for 2 (p v - 1) messages;
 * bubble.h has the other schedules. cp of the grid's dp ranks divide the tokens of a sequence, so
 * that there are dp / cp replicas. Without overlap this is a bound from above; see enum
 * bb_hybrid_overlap. (p-1) T is the bubble (docs/training.md, Pipelines); the term of messages is
 * exact if p divides m. Rings take rounds x latency + sent / rate (volume.h); if any group of a
 * kind leaves its node, the kind has the links between nodes. In an all-to-all each rank sends what
 * leaves its node by its own link, beside the rest. Operations that the memory limits, with the
 * optimizer, take the bytes of volume.h at the memory's rate, if that is given. A stage takes
 * at least the time in which the CPU launches the kernels of its layers with experts, if that is
 * given; the remainder is a wait.
 */
#ifndef BB_TRAINING_KERNELS_HYBRID_PLAN_H
#define BB_TRAINING_KERNELS_HYBRID_PLAN_H

#include "models/memory/training.h"
#include "simulator/cluster/cluster.h"
#include "training_kernels/hybrid/bubble.h"
#include "training_kernels/hybrid/volume.h"

/* The communication that runs beside computations. */
enum bb_hybrid_overlap {
	BB_OVERLAP_NONE,
	/* Gradients are reduced and parameters gathered, layer by layer, beside the passes that
	   need them last and first; with stages 2 and 3 of ZeRO beside all passes. */
	BB_OVERLAP_DATA,
	/* Also tensor parallelism within a node, but for the first of tp pieces of each collective
	   and for what takes longer than the products beside it; messages between stages, but for
	   those that fill and drain the pipeline; keys and values in rings, beside attention. */
	BB_OVERLAP_ALL,
	/* Also dispatch and combine of all micro-batches but one, beside the products of another
	   (Megatron-Core's --overlap-moe-expert-parallel-comm). Meanwhile 20 of 132 SMs exchange
	   (DeepSeek-V3, arXiv 2412.19437, section 3.2.2), and products wait for them. */
	BB_OVERLAP_EXPERTS
};
extern const char *const bb_overlap_words[]; /* ends with NULL */

struct bb_hybrid_cluster {
	int ranks, node; /* ranks of a node */
	struct bb_cluster_link inside, between;
	double flops;           /* of a rank, per second */
	double attention_flops; /* of attention's products; 0: as FLOPS */
	double memory_rate;     /* bytes per second of a rank's memory; 0: takes no time */
	double launch;          /* seconds to launch a layer with experts, for a micro-batch */
	/* As by NCCL: a ring between nodes uses the links of all its members in a node, and the
	   messages of an all-to-all go at once. False: a ring uses the link of one, and messages go
	   one after another, as in program.h. */
	bool rails;
	uint64_t memory; /* bytes of a rank */
};

/* The divisions to try. BB_ANY: all values of a setting. */
#define BB_ANY (-1)
struct bb_hybrid_space {
	/* 0: any, but for etp, and for cp, which is 1; order is fixed; ep: groups of etp ranks with
	   all experts. */
	struct bb_grid grid;
	bool any_experts;     /* any ep and etp */
	uint64_t batch;       /* sequences of a step, of all replicas */
	uint64_t micro_batch; /* 0: all that divide a replica's sequences, while it fits */
	int chunks;           /* virtual stages of a stage; 0 as 1 */
	int exchanges;        /* cp by all-to-alls of heads: 0 or 1 */
	bool by_node;         /* as in struct bb_hybrid_division */
	const struct bb_pipeline_schedule *schedule; /* NULL: as in struct bb_hybrid_division */
	bool any_schedule;                           /* of 1f1b, interleaved, zb-h1 and zb-h2 */
	uint64_t kept;                               /* as in struct bb_hybrid_division */
	enum bb_hybrid_overlap overlap;
	int recompute;         /* enum bb_recompute */
	int scatter;           /* each tensor rank sends a part to the next stage */
	int sequence_parallel; /* where tp > 1 */
	int zero;
	struct bb_training base; /* the rest: model, layout, recipe */
};

/* The terms of a step: its traffic, of enum bb_traffic, and these. */
enum bb_hybrid_term {
	BB_TERM_BUBBLE = BB_TRAFFICS, /* includes communication */
	BB_TERM_COMPUTE,
	BB_TERM_LAUNCH, /* waits for the CPU */
	BB_TERMS
};
extern const char *const bb_term_words[BB_TERMS];

/* Seconds of a step; step INFINITY: the schedule has no order for the pipeline. */
struct bb_hybrid_cost {
	double of[BB_TERMS];
	double local; /* part of the computations: operations that the memory limits */
	double step;
};

struct bb_hybrid_division {
	struct bb_grid grid; /* dp: replicas times cp */
	/* Context parallelism by all-to-alls of heads (Ulysses); else by rings. */
	bool exchanges;
	bool by_node; /* rows of experts go once to each node, and on from there (DeepEP) */
	/* NULL: 1f1b, or interleaved with virtual stages. */
	const struct bb_pipeline_schedule *schedule;
	uint64_t kept; /* zb-auto: micro-batches that a stage keeps; 0: 2 pp */
	bool scatter;  /* each tensor rank sends a part to the next stage */
	enum bb_hybrid_overlap overlap;
	struct bb_training training;
	struct bb_need need;             /* of the stage that needs most */
	struct bb_hybrid_volumes volume; /* of the slowest stage */
	bool crosses[BB_TRAFFICS];       /* node boundaries */
	struct bb_hybrid_cost cost;
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

/* BB_EINTERNAL without memory. Free PLAN whatever comes back. */
BB_MUST bb_status bb_hybrid_plan_make(struct bb_hybrid_plan *plan,
				      const struct bb_hybrid_cluster *cluster,
				      const struct bb_hybrid_space *space, struct bb_error *error);
void bb_hybrid_plan_free(struct bb_hybrid_plan *plan);

/* Ranks that divide each sequence, at least 1. */
uint64_t bb_hybrid_context(const struct bb_hybrid_division *division);

/* The pipeline of DIVISION, without times. */
struct bb_bubble_form bb_hybrid_bubble(const struct bb_hybrid_division *division);

/* Computes volumes, crossings and cost of DIVISION from its grid and training. */
void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster);

/*
 * FLOPs per second of computations with which the step of DIVISION reaches RUN FLOPs per second and
 * rank as a whole: published rates are those of whole runs, with communication and bubble. 0: not
 * even with instant computations.
 */
double bb_hybrid_division_rate(struct bb_hybrid_division *division,
			       const struct bb_hybrid_cluster *cluster, double run);

/* Forward FLOPs of the core of a layer's attention for a sequence, which selective recomputation
   repeats (models/transformer.c). */
double bb_attention_flops(const struct bb_model *model);

#endif
