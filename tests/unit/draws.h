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

/* ---- draws without a place of their own ----------------------------------------------------- */

/* Each place of the source that draws has a sequence of its own, so these may stand in operands and
   arguments. */

#define DRAWN_PLACES 1024

static uint64_t drawn_seed;
static uint32_t drawn_before[DRAWN_PLACES]; /* [place]: how many draws it has made */

/* Every place draws anew, from SEED. */
static inline void drawn_begin(uint64_t seed)
{
	drawn_seed = seed;
	memset(drawn_before, 0, sizeof(drawn_before));
}

static inline uint64_t drawn_word(int place)
{
	assert_true(place < DRAWN_PLACES);
	return bb_random_at(drawn_seed, (uint64_t)place << 32 | drawn_before[place]++);
}

enum { DRAWN_FIRST = __COUNTER__ };
#define DRAWN_WORD drawn_word(__COUNTER__ - DRAWN_FIRST)

/* A whole number below N; true once in N draws; a share; a number from LEAST to MOST. */
#define DRAW_BELOW(n) ((size_t)(DRAWN_WORD >> 11) % (size_t)(n))
#define RARELY(n) (DRAW_BELOW(n) == 0)
#define DRAW_UNIFORM bb_random_uniform(DRAWN_WORD)
#define DRAW_WITHIN(least, most) ((least) + ((most) - (least)) * DRAW_UNIFORM)

/* One of the numbers, or of the texts. */
#define DRAW(...)                                                                                  \
	((const double[]){                                                                         \
		__VA_ARGS__})[DRAW_BELOW(sizeof((double[]){__VA_ARGS__}) / sizeof(double))]
#define DRAW_TEXT(...)                                                                             \
	((const char *const[]){__VA_ARGS__})[DRAW_BELOW(                                           \
		sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))]
/* One element of ARRAY. */
#define DRAW_OF(array) ((array)[DRAW_BELOW(sizeof(array) / sizeof((array)[0]))])
