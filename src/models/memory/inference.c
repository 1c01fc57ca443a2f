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

uint64_t bb_cache_bytes(uint64_t layers, uint64_t kv_heads, uint64_t head_dim, uint64_t tokens,
			unsigned bits)
{
	const uint64_t numbers = bb_bytes_times(2 * layers * kv_heads * head_dim, tokens);
	const uint64_t all = bb_bytes_times(numbers, bits);

	return all == UINT64_MAX ? all : all / 8 + (all % 8 > 0);
}
