/*
 * memory_time.h - operations of a step of training that the memory of a rank limits: the bytes that
 * they read and write. Matrix products are not among them. Pure arithmetic.
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
#ifndef BB_TRAINING_KERNELS_HYBRID_MEMORY_TIME_H
#define BB_TRAINING_KERNELS_HYBRID_MEMORY_TIME_H

#include "models/memory/training.h"
#include "training_kernels/hybrid/volume.h"

struct bb_memory_bytes {
	double pass; /* of a micro-batch, forward and backward with recomputation */
	double step; /* once a step */
};

/* Bytes to sort the rows of a token's experts, forward or backward, on a rank of GRID; BY_NODE: the
   exchange sorts the rank's own tokens. */
double bb_sorted_bytes(const struct bb_training *t, const struct bb_grid *grid, bool by_node);

/* Bytes of a rank of PART of T, whose sequences CP ranks divide; SORTED: of bb_sorted_bytes. */
struct bb_memory_bytes bb_memory_bytes_of(const struct bb_training *t,
					  const struct bb_hybrid_part *part, uint64_t cp,
					  double sorted);

#endif
