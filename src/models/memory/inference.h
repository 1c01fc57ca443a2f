/*
 * inference.h - what inference needs: weights of so many bits, and the cache of keys and values.
 * Pure functions of numbers. Bytes that do not fit into 64 bits are UINT64_MAX.
 */
#ifndef BB_MODELS_MEMORY_INFERENCE_H
#define BB_MODELS_MEMORY_INFERENCE_H

#include <stdint.h>

/* Bytes of PARAMETERS (at most 2^56) of BITS (1 … 32) each. */
uint64_t bb_weight_bytes(uint64_t parameters, unsigned bits);

/*
 * The rule of thumb M = P x 4 bytes / (32 / Q) x 1.2 of PARAMETERS P in Q BITS: a fifth for all
 * that is beside the weights, whatever batch and context are.
 */
uint64_t bb_serving_rule(uint64_t parameters, unsigned bits);

/*
 * Billions that PARAMETERS are spoken of as: 7 of 6,738,415,616; 0 below half of one. And GiB of a
 * billion parameters of BITS, to three decimals as articles have them: 3.725 of 32, so that Llama 2
 * 7B has "26.075 GB".
 */
uint64_t bb_spoken_billions(uint64_t parameters);
double bb_spoken_gib(unsigned bits);

/*
 * Bytes of a cache of BITS for each number: 2 x layers x heads of keys and values x width of a head
 * x TOKENS; with grouped-query attention there are fewer such heads than of queries (Ainslie et
 * al., arXiv 2305.13245). TOKENS: of all sequences together.
 */
uint64_t bb_cache_bytes(uint64_t layers, uint64_t kv_heads, uint64_t head_dim, uint64_t tokens,
			unsigned bits);

#endif
