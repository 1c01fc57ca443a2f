/*
 * inference.h - memory of inference: weights and the cache of keys and values. Pure functions.
 * Bytes that exceed 64 bits are UINT64_MAX.
 */
#ifndef BB_MODELS_MEMORY_INFERENCE_H
#define BB_MODELS_MEMORY_INFERENCE_H

#include "models/model.h"

#include <stdint.h>

/* Bytes of PARAMETERS (at most 2^56) of BITS (1 to 32) each. */
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
 * Numbers that the cache of MODEL, a transformer that generates, keeps on each of TP
 * tensor-parallel ranks for a sequence of TOKENS: keys and values of each layer. With grouped-query
 * attention their heads are fewer than those of queries (Ainslie et al., arXiv 2305.13245); if
 * ranks outnumber them, several ranks hold the same head. A local layer keeps those of its window.
 * Latent attention keeps a latent vector and the rotated part of the keys, whole on each rank
 * (arXiv 2405.04434). A layer that attends to an encoder's output, taken to be as long, keeps
 * those, too.
 */
uint64_t bb_cache_numbers(const struct bb_model *model, uint64_t tp, uint64_t tokens);

/* Bytes of NUMBERS of BITS each, for each of SEQUENCES. */
uint64_t bb_cache_bytes(uint64_t numbers, uint64_t sequences, unsigned bits);

#endif
