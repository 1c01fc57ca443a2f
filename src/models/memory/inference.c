/*
 * inference.c - weights and the cache of keys and values.
 */
#include "models/memory/inference.h"
#include "models/memory/activations.h"

#include <math.h>

uint64_t bb_weight_bytes(uint64_t parameters, unsigned bits)
{
	return (parameters * bits + 7) / 8;
}

uint64_t bb_serving_rule(uint64_t parameters, unsigned bits)
{
	return parameters * bits * 3 / 20; /* 1.2 / 8, in integers */
}

uint64_t bb_rounded_billions(uint64_t parameters)
{
	return (parameters + 500000000) / 1000000000;
}

double bb_rounded_gib(unsigned bits)
{
	return round(1e3 * 1e9 / 8 * bits / (1 << 30)) / 1e3;
}

uint64_t bb_cache_numbers(const struct bb_model *model, uint64_t tp, uint64_t tokens)
{
	const struct bb_hyper *h = &model->hyper;
	const uint64_t heads = ((uint64_t)h->kv_heads + tp - 1) / tp;
	const uint64_t token = h->kv_lora > 0 ? (uint64_t)(h->kv_lora + h->rope)
					      : heads * (uint64_t)(h->head_dim + h->value_dim);
	uint64_t sum = 0;

	for (int i = 0; i < model->blocks; i++) {
		const struct bb_block_kind block = bb_model_block(model, i);
		const uint64_t window = (uint64_t)h->window;
		const uint64_t seen = block.local && window < tokens ? window : tokens;

		if (block.decodes)
			sum = bb_bytes_add(
				sum, bb_bytes_times(token, seen + (block.cross ? tokens : 0)));
	}
	return sum;
}

uint64_t bb_cache_bytes(uint64_t numbers, uint64_t sequences, unsigned bits)
{
	const uint64_t all = bb_bytes_times(bb_bytes_times(numbers, sequences), bits);

	return all == UINT64_MAX ? all : all / 8 + (all % 8 > 0);
}
