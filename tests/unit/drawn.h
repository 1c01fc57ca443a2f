/*
 * drawn.h - made-up inputs of sweeps, drawn from a seed, and the two sweeps of a test whose outputs
 * are texts: one of their numbers, one of their words.
 *
 * The order in which operands and arguments are evaluated is the compiler's. So each place of the
 * source that draws has a sequence of its own, and no draw depends on those of other places.
 */
#pragma once

#include "core/random.h"
#include "sweep.h"

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

struct sweep_texts {
	struct sweep numbers, words;
};

/* Begin the sweeps NAME and NAME_words. */
static inline struct sweep_texts sweep_texts_open(const char *name)
{
	char words[64];

	snprintf(words, sizeof(words), "%s_words", name);
	return (struct sweep_texts){sweep_open(name), sweep_open(words)};
}

static inline void sweep_texts_add(struct sweep_texts *s, const char *text)
{
	sweep_add_numbers(&s->numbers, text);
	sweep_add_text(&s->words, text);
}

/* End the case NAME with this number, in both. */
static inline void sweep_texts_end(struct sweep_texts *s, const char *name, int number)
{
	sweep_end(&s->numbers, "%s %d", name, number);
	sweep_end(&s->words, "%s %d", name, number);
}

static inline void sweep_texts_close(struct sweep_texts *s)
{
	sweep_close(&s->numbers);
	sweep_close(&s->words);
}
