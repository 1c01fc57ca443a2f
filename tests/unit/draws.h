/*
 * draws.h - inputs of sweeps that are drawn, each from its place alone: so they depend neither on
 * the order in which a compiler evaluates them nor on other inputs.
 */
#pragma once

#include "core/random.h"
#include "sweep.h"

/* A number from 0 to N - 1 for PLACE of the case SEED. */
static inline int drawn(uint64_t seed, uint64_t place, int n)
{
	return (int)(bb_random_mix(bb_random_at(seed, place)) % (uint64_t)n);
}

/* One number that stands for many: begin with BB_RANDOM_HASH. */
static inline void hash_add(uint64_t *hash, int64_t value)
{
	*hash = (*hash ^ (*hash >> 29) ^ (uint64_t)value) * UINT64_C(0x100000001b3);
}

static inline void hash_end(struct sweep *s, uint64_t hash)
{
	sweep_add(s, (double)(hash >> 40));
}
