/*
 * volume.h - the communication of a rank in a step of hybrid-parallel training, and what its memory
 * moves. Pure arithmetic.
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
#ifndef BB_TRAINING_KERNELS_HYBRID_VOLUME_H
#define BB_TRAINING_KERNELS_HYBRID_VOLUME_H

#include "models/memory/training.h"
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
extern const char *const bb_traffic_names[BB_TRAFFICS];
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

/*
 * A rank of STAGE of T on GRID, of which layers and elements matter. EXCHANGES: the ranks that
 * divide a sequence exchange heads; else keys and values go around. SCATTER: each of several tensor
 * ranks sends a part to the next stage.
 */
struct bb_hybrid_volumes bb_hybrid_volumes_of(const struct bb_grid *grid,
					      const struct bb_training *t, bool exchanges,
					      bool scatter, const struct bb_need *stage);

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

/* Bytes to sort the rows of a token's experts, forward or backward, on a rank of GRID; BY_NODE: the
   exchange sorts the rank's own tokens. */
double bb_sorted_bytes(const struct bb_training *t, const struct bb_grid *grid, bool by_node);

/* Bytes of a rank of STAGE of T, whose sequences CP ranks divide; SORTED: of bb_sorted_bytes. */
struct bb_memory_bytes bb_memory_bytes_of(const struct bb_training *t, const struct bb_need *stage,
					  uint64_t cp, double sorted);

#endif
