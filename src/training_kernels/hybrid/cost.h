/*
 * cost.h - what a division of a training costs: the communication of a rank in a step, what its
 * memory moves, and the predicted time of the step. Pure arithmetic.
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
 * exact if p divides m. Rings take rounds x latency + sent / rate; if any group of a
 * kind leaves its node, the kind has the links between nodes. In an all-to-all each rank sends what
 * leaves its node by its own link, beside the rest. Operations that the memory limits, with the
 * optimizer, take their bytes at the memory's rate, if that is given. A stage takes
 * at least the time in which the CPU launches the kernels of its layers with experts, if that is
 * given; the remainder is a wait.
 *
 * ---- communication ----
 *
 * A = bytes of the s b h activations between layers, for a micro-batch of b sequences of s tokens.
 * A layer communicates, for each micro-batch:
 *
 *   tensor     2 all-reduces of A forward, 2 backward, 2 more with full recomputation
 *              (Shoeybi et al., arXiv 1909.08053, section 3). With sequence parallelism
 *              each is an all-gather and a reduce-scatter, of the same bytes together, and the
 *              input of the two matrices divided by columns is gathered again in the backward pass
 *              (Korthikanti et al., arXiv 2205.05198, section 4.2.2). With experts,
 *              their rows are gathered: A times the experts per token.
 *   context    keys and values of the other cp - 1 ranks' tokens, once forward; backward they and
 *              their gradients; once more with full recomputation (Liu et al., ring attention,
 *              arXiv 2310.01889)
 *              or, if heads are exchanged, 8 all-to-alls: queries, keys, values and output, once
 *              forward and once backward; 4 more with full recomputation (Jacobs et al., Ulysses,
 *              arXiv 2309.14509)
 *   expert     4 all-to-alls of A times the experts per token: dispatch and combine, forward and
 *              backward; 2 more with full recomputation. An expert may be divided among fewer than
 *              the tp ranks (etp), each with its own tokens by sequence parallelism: the experts
 *              are among tp ep / etp ranks, and fewer gather rows (Liu et al., MoE parallel
 *              folding, arXiv 2504.14960)
 *
 * and a stage:
 *
 *   tensor     first stage: an all-reduce of A for the embedding; last stage: one for the head and
 *              three of s b numbers of fp32 for the loss, for each micro-batch
 *   pipeline   A to the next stage and to the previous one, for each micro-batch; A / t where each
 *              tensor rank sends a part (Narayanan et al., SC21, section 4.1), which the
 *              receiver gathers unless it is sequence parallel
 *   data       gradients, and parameters with ZeRO, once per step: bb_zero_bytes
 *   embedding  if head and embedding share weights, an all-reduce of their gradient between the
 *              first and the last stage
 *
 * Layers of a model with experts that have none (the first ones, or every second one) communicate
 * as in a model without.
 *
 * Collectives are rings: for n ranks and S bytes an all-reduce sends 2 (n-1) / n S in 2 (n-1)
 * rounds, the others send half of it (Patarasuk and Yuan 2009). An all-to-all counts
 * as one round. Over one kind of link a volume takes rounds x latency + sent / rate.
 */
#pragma once

#include "models/memory/training.h"
#include "simulator/cluster/cluster.h"
#include "training_kernels/hybrid/bubble.h"
#include "training_kernels/hybrid/layout.h"

enum bb_traffic {
	BB_TRAFFIC_TENSOR,
	BB_TRAFFIC_EXPERT,
	BB_TRAFFIC_CONTEXT,
	BB_TRAFFIC_PIPELINE,
	BB_TRAFFIC_DATA,
	BB_TRAFFIC_EMBEDDING,
	BB_TRAFFICS
};
extern const enum bb_axis bb_traffic_axes[BB_TRAFFICS]; /* of the groups that communicate */

struct bb_volume {
	uint64_t calls;  /* collectives, or messages sent */
	uint64_t rounds; /* of all calls */
	double sent;     /* bytes, of all calls */
};

struct bb_hybrid_volumes {
	struct bb_volume of[BB_TRAFFICS]; /* of a rank in a step */
	uint64_t boundary;                /* bytes of a message between stages */
	uint64_t activation;              /* A */
};

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

/* The training of DIVISION has its ranks on GRID. */
void bb_hybrid_division_set(struct bb_hybrid_division *division, const struct bb_grid *grid);

/* The pipeline of DIVISION, without times. */
struct bb_bubble_form bb_hybrid_bubble(const struct bb_hybrid_division *division);

/* Of a rank of STAGE, of which layers and elements matter. */
struct bb_hybrid_volumes bb_hybrid_volumes_of(const struct bb_hybrid_division *division,
					      const struct bb_need *stage);

/*
 * Computes volumes, crossings and cost of DIVISION from the rest of it. ORDERS as in
 * bb_bubble_find: an order is searched only if the step may take at most MOST seconds; else the
 * cost is a bound from below.
 */
void bb_hybrid_division_cost(struct bb_hybrid_division *division,
			     const struct bb_hybrid_cluster *cluster,
			     struct bb_bubble_orders *orders, double most);

/*
 * FLOPs per second of computations with which the step of DIVISION reaches RUN FLOPs per second and
 * rank as a whole: published rates are those of whole runs, with communication and bubble. 0: not
 * even with instant computations.
 */
double bb_hybrid_division_rate(struct bb_hybrid_division *division,
			       const struct bb_hybrid_cluster *cluster, double run);

/*
 * Seconds of a rank for one micro-batch in the layers FIRST to LAST - 1, of which BB_LAYER_BEFORE
 * is the first, with FLOPS per second, and ATTENTION_FLOPS in the core of attention (0: as FLOPS):
 * passes as in pipeline/order.h, with recomputation before the backward pass; PRODUCTS: of all of
 * them without attention.
 */
struct bb_hybrid_passes {
	double forward, input, weights, products;
};
struct bb_hybrid_passes bb_hybrid_passes_of(const struct bb_hybrid_division *division, int first,
					    int last, double flops, double attention_flops);

/* ---- the memory of a rank ------------------------------------------------------------------- */

/*
 * Operations of a step that the memory of a rank limits: the bytes that they read and write. Matrix
 * products are not among them. Pure arithmetic.
 *
 * Each operation reads its inputs and writes its output once, in 16 bits unless said. Of s b tokens
 * of width h a layer's forward pass moves, with a heads and the inner width f, of experts that of
 * all which compute a token:
 *
 *   norms, residual sums  8 s b h and 12 s b h, with dropout 14; divided by t if sequence parallel
 *   activation function   4 s b f, gated 6; divided by t
 *   rotation of positions 4 s b (queries + keys), gated families alone; divided by t
 *   scores                8 a s s b, with dropout 13; none with FlashAttention; divided by t
 *   rows of experts       8 s b h k for k experts of a token where ranks divide the experts: at
 *                         them rows are sorted by expert, and back; 4 s b h (k + 1) where a rank
 *                         also sorts its own tokens, unless the exchange does (DeepEP)
 *
 * and the backward pass 12 and 12 (with dropout 22), 6 (gated 10), the same rotation, 14 (with
 * dropout 19), and the same rows. Every micro-batch reads and writes the gradients of all
 * parameters. The head's loss moves 24 bytes for each logit: 16-bit logits, their copy in fp32,
 * softmax and gradient. The optimizer reads and writes its states once a step, reads gradients and
 * writes parameters: those of the rank, by ZeRO.
 */
struct bb_memory_bytes {
	double pass; /* of a micro-batch, forward and backward with recomputation */
	double step; /* once a step */
};

/* Bytes to sort the rows of a token's experts, forward or backward, on a rank; with by_node the
   exchange sorts the rank's own tokens. */
double bb_sorted_bytes(const struct bb_hybrid_division *division);

/* Bytes of a rank of STAGE; SORTED: of bb_sorted_bytes. */
struct bb_memory_bytes bb_memory_bytes_of(const struct bb_hybrid_division *division,
					  const struct bb_need *stage, double sorted);
