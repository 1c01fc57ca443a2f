/*
 * pattern.h - input data with a known result.
 *
 * For a datatype, an op and n ranks there is one table of inputs per rank and one of their
 * reduction. Every partial sum, in any order, is exact in the datatype. Filling and verifying are
 * copies from and comparisons with tables that stay in the cache, whatever the op.
 */
#pragma once

#include "backends/backend.h"

#include <pthread.h>

#define BB_PATTERN_PERIOD 1021 /* a prime, so that data moved by a power of two does not fit */

#define BB_AVERAGE_ULPS 2 /* largest error of an average of floating-point numbers */

struct bb_patterns; /* the tables of one (datatype, op, n, seed); read-only once made */

/*
 * *PATTERNS = the tables for OP; negative: data is only moved, so inputs have any finite values.
 * Else inputs suit OP: sums stay within the mantissa, products are powers of two times one value,
 * min and max have neither 0 nor NaN, maxloc has ties. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_patterns_make(struct bb_patterns **patterns, enum bb_dtype dtype, int op,
				   int nranks, uint64_t seed);
void bb_patterns_free(struct bb_patterns *patterns); /* NULL: nothing */

/* Returns the input of RANK, or for BB_REDUCED the reduction of all (OP not negative). It is
   borrowed from PATTERNS. */
struct bb_pattern bb_patterns_get(const struct bb_patterns *patterns, int rank);

enum bb_dtype bb_patterns_dtype(const struct bb_patterns *patterns);
/* Units in the last place by which what RANK or BB_REDUCED holds may be off. */
int bb_patterns_ulps(const struct bb_patterns *patterns, int rank);
/* Returns bytes that no input or result has, to be written where results are expected. */
struct bb_pattern bb_pattern_poison(void);

/* ---- the patterns in use, made once for all drivers of a process ------------------------- */

struct bb_pattern_store {
	pthread_mutex_t lock;
	struct bb_patterns *first;
};

void bb_pattern_store_open(struct bb_pattern_store *store);
void bb_pattern_store_close(struct bb_pattern_store *store); /* frees patterns still in use too */

/* *PATTERNS = those for these arguments (see bb_patterns_make), until they are given back. */
BB_MUST bb_status bb_pattern_store_take(struct bb_pattern_store *store, enum bb_dtype dtype, int op,
					int nranks, uint64_t seed,
					const struct bb_patterns **patterns);
/* Give PATTERNS back; the last user's call frees them. NULL: nothing. */
void bb_pattern_store_give(struct bb_pattern_store *store, const struct bb_patterns *patterns);
