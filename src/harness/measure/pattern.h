/*
 * pattern.h - input data with a known result.
 *
 * For a datatype, an op and n ranks: one table of inputs per rank and one of their reduction,
 * made so that every partial sum in any order is exact in the datatype. Filling and checking are
 * then copies and comparisons against tables that stay in cache, whatever the op.
 */
#ifndef BB_HARNESS_MEASURE_PATTERN_H
#define BB_HARNESS_MEASURE_PATTERN_H

#include "backends/backend.h"

#define BB_PATTERN_PERIOD 1021 /* prime, so that no power-of-two misplacement goes unseen */

#define BB_AVERAGE_ULPS 2 /* by which an average of floating-point numbers may be off */

struct bb_patterns; /* the tables of one (datatype, op, n, seed); read-only once made */

/*
 * OP < 0: data is only moved; any finite values. Otherwise inputs suit OP: sums stay within the
 * mantissa, products are powers of two times one value, no zeros or NaNs where min and max would be
 * ambiguous, ties for maxloc. BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_patterns_make(struct bb_patterns **patterns, enum bb_dtype dtype, int op,
				   int nranks, uint64_t seed);
void bb_patterns_free(struct bb_patterns *patterns); /* NULL: nothing */

/* What RANK's IN holds; BB_REDUCED (OP >= 0 only): what their reduction holds. Borrowed from
   PATTERNS. */
struct bb_pattern bb_patterns_get(const struct bb_patterns *patterns, int rank);

enum bb_dtype bb_patterns_dtype(const struct bb_patterns *patterns);
/* Units in the last place by which what RANK or BB_REDUCED holds may be off. */
int bb_patterns_ulps(const struct bb_patterns *patterns, int rank);
/* Returns bytes that no input or result has, to be written where results are expected. */
struct bb_pattern bb_pattern_poison(void);

#endif
