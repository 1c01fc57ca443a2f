/*
 * activations.c - bytes of activations.
 */
#include "models/memory/activations.h"

#define FP32 4

typedef unsigned __int128 wide; /* holds any product of the limits of models */

const char *const bb_recompute_words[] = {"none", "selective", "full", NULL};
const char *const bb_pipeline_words[] = {"1f1b", "interleaved", "gpipe", NULL};

uint64_t bb_bytes_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

uint64_t bb_bytes_times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* BYTES divided among RANKS, rounded up. */
static uint64_t share_of(wide bytes, uint64_t ranks)
{
	const wide part = bytes / ranks + (bytes % ranks > 0);

	return part > UINT64_MAX ? UINT64_MAX : (uint64_t)part;
}

struct bb_layer bb_layer_of_model(const struct bb_model *model, bool sparse, uint64_t batch,
				  unsigned bytes)
{
	const struct bb_hyper *h = &model->hyper;
	const int64_t shared = sparse && h->shared_ffn > 0, inputs = model->gated ? 3 : 2;
	const int64_t latent = h->kv_lora > 0 ? h->q_lora + h->kv_lora + h->rope : 0;
	const int64_t ffn = sparse ? h->expert_ffn : h->ffn;

	return (struct bb_layer){
		.seq = (uint64_t)h->seq,
		.batch = batch,
		.hidden = (uint64_t)h->hidden,
		.heads = (uint64_t)h->heads,
		.queries = (uint64_t)(h->heads * h->head_dim),
		.keys = (uint64_t)(h->kv_heads * h->head_dim),
		.ffn = (uint64_t)ffn,
		.routes = sparse ? (uint64_t)(h->top_k + shared) : 1,
		.extra = (h->heads + h->kv_heads) * (h->value_dim - h->head_dim) + latent +
			 shared * inputs * (h->shared_ffn - ffn),
		.gated = model->gated,
		.bytes = bytes,
		.tp = 1,
	};
}

static wide tokens(const struct bb_layer *l)
{
	return (wide)l->seq * l->batch;
}

/* Activations as wide as the residual stream; only sequence parallelism divides them. */
static wide residual(const struct bb_layer *l)
{
	const uint64_t inputs = 3 + l->routes, masks = l->gated ? 0 : 2;

	return tokens(l) * l->hidden * (inputs * l->bytes + masks);
}

/* Activations that tensor parallelism divides, without the core of attention. */
static wide inner(const struct bb_layer *l)
{
	const wide attention = 2 * (wide)l->queries + 2 * (wide)l->keys;
	const wide feed_forward = (wide)l->ffn * l->routes * (l->gated ? 3 : 2);

	return tokens(l) * l->bytes * (attention + feed_forward + (wide)l->extra);
}

/* The core of attention: scores of all heads and pairs of tokens, or the sums that FlashAttention
   keeps. */
static wide core(const struct bb_layer *l)
{
	const unsigned dropout = l->gated ? 0 : 1 + l->bytes;

	if (!l->eager)
		return tokens(l) * l->heads * FP32;
	return tokens(l) * l->seq * l->heads * (l->bytes + dropout);
}

uint64_t bb_layer_kept(const struct bb_layer *l, enum bb_recompute recompute)
{
	const uint64_t all = l->sequence_parallel ? l->tp : 1;
	wide divided = inner(l);

	if (recompute == BB_RECOMPUTE_FULL)
		return share_of(tokens(l) * l->hidden * l->bytes, all);
	if (recompute == BB_RECOMPUTE_NONE)
		divided += core(l);
	if (l->sequence_parallel)
		return share_of(residual(l) + divided, l->tp);
	return bb_bytes_add(share_of(residual(l), 1), share_of(divided, l->tp));
}

uint64_t bb_layer_recomputed(const struct bb_layer *l, enum bb_recompute recompute)
{
	const uint64_t all = bb_layer_kept(l, BB_RECOMPUTE_NONE);

	return all == UINT64_MAX ? all : all - bb_layer_kept(l, recompute);
}

uint64_t bb_embedding_kept(const struct bb_layer *l)
{
	return l->gated ? 0 : share_of(tokens(l) * l->hidden, l->sequence_parallel ? l->tp : 1);
}

uint64_t bb_head_kept(const struct bb_layer *l, uint64_t vocab)
{
	const wide inputs = tokens(l) * l->hidden * 2 * l->bytes;

	return bb_bytes_add(share_of(inputs, l->sequence_parallel ? l->tp : 1),
			    share_of(tokens(l) * vocab * FP32, l->tp));
}

static uint64_t fewer(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t bb_in_flight(enum bb_pipelining schedule, uint64_t stage, uint64_t stages, uint64_t chunks,
		      uint64_t micro_batches)
{
	const uint64_t later = stages - 1 - stage;

	if (schedule == BB_GPIPE)
		return micro_batches;
	if (schedule == BB_INTERLEAVED)
		return fewer(2 * later + (chunks - 1) * stages + 1, micro_batches * chunks);
	return fewer(later + 1, micro_batches);
}
