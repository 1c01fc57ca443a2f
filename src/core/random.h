/*
 * random.h - pseudorandom numbers and hashes. Results depend on them: the numbers of a seed never
 * change.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BB_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The output function of splitmix64 (Steele, Lea and Flood, 2014): no two words give the same. */
static inline uint64_t bb_random_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A word that follows from SEED and I alone. */
static inline uint64_t bb_random_at(uint64_t seed, uint64_t i)
{
	return bb_random_mix(seed * BB_RANDOM_STEP + i * UINT64_C(0xbf58476d1ce4e5b9));
}

/* The next word of splitmix64; STATE begins as the seed. */
static inline uint64_t bb_random_next(uint64_t *state)
{
	return bb_random_mix(*state += BB_RANDOM_STEP);
}

/* The next state of Knuth's linear congruential generator (MMIX), whose high bits are random. */
static inline uint64_t bb_random_congruential(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state;
}

/* The high 53 bits of WORD, uniform in [0, 1) if it is. */
static inline double bb_random_uniform(uint64_t word)
{
	return (double)(word >> 11) * 0x1p-53;
}

/* Likewise in (0, 1], which has a logarithm. */
static inline double bb_random_positive(uint64_t word)
{
	return ((double)(word >> 11) + 1) * 0x1p-53;
}

#define BB_RANDOM_HASH UINT64_C(0xcbf29ce484222325) /* of no bytes */

/* HASH, continued by N BYTES (FNV-1a). */
static inline uint64_t bb_random_hash(uint64_t hash, const void *bytes, size_t n)
{
	for (const unsigned char *at = bytes; n > 0; n--)
		hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
	return hash;
}
