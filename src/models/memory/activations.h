/*
 * activations.h - memory that the forward pass of a transformer keeps for the backward pass. Pure
 * functions of numbers. Bytes that exceed 64 bits are UINT64_MAX.
 *
 * Korthikanti et al. 2022 (arXiv 2205.05198), sections 4 and 5 and table 2. For heads x width = h,
 * a feed-forward network of 4 h and 16 bits, a layer keeps, for a microbatch of b sequences of s
 * tokens, with a heads and t tensor-parallel ranks:
 *
 *   none                            s b h (34 + 5 a s / h)
 *   tensor parallel                 s b h (10 + 24 / t + 5 a s / (h t))
 *   tensor and sequence parallel    s b h (34 / t + 5 a s / (h t))
 *   selective recomputation         the same without the term 5 a s / h
 *   full recomputation              2 s b h, divided by t if sequence parallel
 *
 * The 34 are: inputs of two norms 4, input of queries, keys and values 2, these themselves 6, input
 * of the output projection 2, input of the feed-forward network 2 and its two inner inputs 16, and
 * two dropout masks of one byte each. The 5 are the output of softmax, the dropout mask and the
 * output of dropout. Other widths follow: fewer heads for keys and values, another inner width, and
 * gates (three inner inputs instead of two). Gated families train without dropout: neither masks
 * nor its output. FlashAttention (Dao et al., arXiv 2205.14135), the default, replaces the 5 by a
 * sum of each row of scores, 4 bytes for each token and head. The feed-forward network counts once
 * for each expert that computes a token. Latent attention adds the latent vectors of queries, keys
 * and values.
 */
#pragma once

#include "models/model.h"

enum bb_recompute { BB_RECOMPUTE_NONE, BB_RECOMPUTE_SELECTIVE, BB_RECOMPUTE_FULL };
extern const char *const bb_recompute_words[];

enum bb_pipelining { BB_1F1B, BB_INTERLEAVED, BB_GPIPE };
extern const char *const bb_pipeline_words[];

/* A layer and its microbatch. */
struct bb_layer {
	uint64_t seq, batch;    /* tokens of a sequence, sequences of a microbatch */
	uint64_t hidden, heads; /* as in struct bb_hyper */
	uint64_t queries, keys; /* heads x width: of queries, of keys (and values) */
	uint64_t ffn, routes; /* inner width; networks that compute each token, shared ones, too */
	int64_t extra;  /* numbers of a token beside these: latent vectors, widths that differ */
	bool gated;     /* gated feed-forward network, no dropout */
	unsigned bytes; /* of an element: 2 or 4 */
	uint64_t tp;    /* tensor-parallel ranks, at least 1 */
	bool sequence_parallel; /* among the same ranks */
	bool eager; /* scores are stored; FlashAttention keeps an fp32 sum of each row */
};

/* A layer of MODEL, a transformer, without parallelism, by FlashAttention; SPARSE: one that has
   experts. */
struct bb_layer bb_layer_of_model(const struct bb_model *model, bool sparse, uint64_t batch,
				  unsigned bytes);

/* Bytes that a layer keeps on each rank until its backward pass. */
uint64_t bb_layer_kept(const struct bb_layer *layer, enum bb_recompute recompute);

/* Bytes that the backward pass of a layer recomputes and then holds beside them. */
uint64_t bb_layer_recomputed(const struct bb_layer *layer, enum bb_recompute recompute);

/*
 * Bytes outside the layers on each rank, for a microbatch (section 4.3): before them the dropout
 * mask of the embedding; behind them the inputs of the last norm and of the head, and logits in
 * fp32.
 */
uint64_t bb_embedding_kept(const struct bb_layer *layer);
uint64_t bb_head_kept(const struct bb_layer *layer, uint64_t vocab);

/*
 * Maximum number of chunks whose activations STAGE (0 to STAGES-1) of a pipeline keeps. A chunk is
 * one of MICRO_BATCHES microbatches in 1 / CHUNKS of the layers of the stage:
 *
 *   GPipe        all of them                               Huang et al. (arXiv 1811.06965)
 *   1F1B         STAGES - STAGE                            Narayanan et al., SC21, section 2.2.1
 *   interleaved  2 (p-1-i) + (v-1) p + 1 for stage i of p in v chunks: those of its warm-up and one
 *                more, on stage 0 p (1 + (p-1) / (p v)) microbatches    Megatron-LM; section 2.2.2
 */
uint64_t bb_in_flight(enum bb_pipelining schedule, uint64_t stage, uint64_t stages, uint64_t chunks,
		      uint64_t micro_batches);

/* a + b and a * b; UINT64_MAX if that exceeds 64 bits. */
uint64_t bb_bytes_add(uint64_t a, uint64_t b);
uint64_t bb_bytes_times(uint64_t a, uint64_t b);
