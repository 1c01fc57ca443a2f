/*
 * activations.h - what the forward pass of a transformer keeps for the backward pass. Pure
 * functions of numbers. Bytes that do not fit into 64 bits are UINT64_MAX.
 *
 * Korthikanti et al. 2022 (arXiv 2205.05198), sections 4 and 5 and table 2. For heads x width = h,
 * a feed-forward network of 4 h and 16 bits, a layer of a micro-batch of b sequences of s tokens
 * keeps, with a heads and t ranks of tensor parallelism:
 *
 *   none                            s b h (34 + 5 a s / h)
 *   tensor parallel                 s b h (10 + 24 / t + 5 a s / (h t))
 *   tensor and sequence parallel    s b h (34 / t + 5 a s / (h t))
 *   selective recomputation         without what has 5 a s / h
 *   full recomputation              2 s b h, divided by t if sequence parallel
 *
 * The 34 are made of: inputs of two norms 4, input of queries, keys and values 2, these themselves
 * 6, input of the output product 2, of the feed-forward network 2, and its two inner inputs 16, and
 * two masks of dropout, of one byte each. The 5 are the output of softmax, dropout's mask, and
 * dropout's output. From this follow other widths: with k of all heads for keys and values, an
 * inner width f and gates (three inner inputs instead of two). Gated families train without
 * dropout, which leaves neither masks nor its output. FlashAttention (Dao et al., arXiv 2205.14135)
 * has instead of the 5 a sum of each row of scores, 4 bytes for each token and head. A token goes
 * through several experts: so many times the feed-forward network.
 */
#ifndef BB_MODELS_MEMORY_ACTIVATIONS_H
#define BB_MODELS_MEMORY_ACTIVATIONS_H

#include "models/model.h"

enum bb_recompute { BB_RECOMPUTE_NONE, BB_RECOMPUTE_SELECTIVE, BB_RECOMPUTE_FULL };
extern const char *const bb_recompute_words[];

enum bb_pipelining { BB_1F1B, BB_INTERLEAVED, BB_GPIPE };
extern const char *const bb_pipeline_words[];

/* A layer of a micro-batch. */
struct bb_layer {
	uint64_t seq, batch;    /* tokens of a sequence, sequences of a micro-batch */
	uint64_t hidden, heads; /* as in struct bb_hyper */
	uint64_t queries, keys; /* widths of all heads: of queries, of keys (and of values) */
	uint64_t ffn, routes;   /* inner width, and how many of them a token goes through */
	bool gated;             /* and no dropout */
	unsigned bytes;         /* of an element: 2 or 4 */
	uint64_t tp;            /* ranks of tensor parallelism, at least 1 */
	bool sequence_parallel; /* among the same ranks */
	bool flash;             /* scores are never stored, but for a sum of each row in fp32 */
};

/* The layer of MODEL, a transformer; seq is that of the model. */
struct bb_layer bb_layer_of_model(const struct bb_model *model, uint64_t batch, unsigned bytes);

/* Bytes that a layer keeps on each rank. */
uint64_t bb_layer_kept(const struct bb_layer *layer, enum bb_recompute recompute);

/* Bytes that exist beside them while the backward pass is in the layer: those made again. */
uint64_t bb_layer_made_again(const struct bb_layer *layer, enum bb_recompute recompute);

/*
 * What is outside the layers, on each rank, of a micro-batch (section 4.3): before them dropout's
 * mask of the embedding; behind them the inputs of the last norm and of the head, and logits in
 * fp32.
 */
uint64_t bb_embedding_kept(const struct bb_layer *layer);
uint64_t bb_head_kept(const struct bb_layer *layer, uint64_t vocab);

/*
 * Chunks that STAGE (0 … STAGES-1) of a pipeline keeps at most, each of a micro-batch and of 1 /
 * CHUNKS of the stage's layers (CHUNKS 1: all of them), of MICRO_BATCHES in a step:
 *
 *   GPipe        all of them                               Huang et al. (arXiv 1811.06965)
 *   1F1B         STAGES - STAGE                            Narayanan et al., SC21, section 2.2.1
 *   interleaved  2 (p-1-i) + (v-1) p + 1 for stage i of p in v chunks: those of its warm-up and one
 *                more, on stage 0 p (1 + (p-1) / (p v)) micro-batches    Megatron-LM; section 2.2.2
 */
uint64_t bb_in_flight(enum bb_pipelining schedule, uint64_t stage, uint64_t stages, uint64_t chunks,
		      uint64_t micro_batches);

/* a + b and a * b, UINT64_MAX where that does not fit. */
uint64_t bb_bytes_add(uint64_t a, uint64_t b);
uint64_t bb_bytes_times(uint64_t a, uint64_t b);

#endif
