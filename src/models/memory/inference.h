/*
 * inference.h - memory of inference: weights and the cache of keys and values. Pure functions of
 * numbers. Bytes that exceed 64 bits are UINT64_MAX.
 */
#ifndef BB_MODELS_MEMORY_INFERENCE_H
#define BB_MODELS_MEMORY_INFERENCE_H

#include <stdint.h>

/* Bytes of PARAMETERS (at most 2^56) of BITS (1 … 32) each. */
uint64_t bb_weight_bytes(uint64_t parameters, unsigned bits);

/*
 * The rule of thumb M = P x 4 bytes / (32 / Q) x 1.2 for P PARAMETERS of Q BITS: 20% for everything
 * beside the weights, for any batch and context.
 */
uint64_t bb_serving_rule(uint64_t parameters, unsigned bits);

/*
 * PARAMETERS rounded to billions, as in a model's name (7 for 6,738,415,616), and GiB of a billion
 * parameters of BITS, rounded to three decimals as in articles (3.725 for 32 bits: Llama 2 7B has
 * "26.075 GB").
 */
uint64_t bb_rounded_billions(uint64_t parameters);
double bb_rounded_gib(unsigned bits);

/*
 * Bytes of the cache of keys and values: 2 x LAYERS x KV_HEADS x HEAD_DIM x TOKENS numbers of BITS
 * each. With grouped-query attention KV_HEADS is below the number of query heads (Ainslie et al.,
 * arXiv 2305.13245). TOKENS are those of all sequences together.
 */
uint64_t bb_cache_bytes(uint64_t layers, uint64_t kv_heads, uint64_t head_dim, uint64_t tokens,
			unsigned bits);

#endif
