/*
 * scalar.h - one element at a time: the arithmetic of every datatype written plainly, in double or
 * 64-bit integers. It is the oracle of inputs, expected results and tests, and shares no code with
 * the vector kernels.
 */
#pragma once

#include "core/datatype.h"

/* Exact value of a half, bfloat16, fp8, float or double; nearest-even encoding of VALUE.
   Beyond the range: infinity where the type has one, else (e4m3) the largest finite value. */
double bb_scalar_decode(enum bb_dtype dtype, const void *element);
void bb_scalar_encode(enum bb_dtype dtype, double value, void *element);

/*
 * Distance of the two neighbours in DTYPE, a floating-point one, between which VALUE lies. VALUE
 * rounded to one of them: to the nearest, ties to even; or up with the probability of its part of
 * that distance, if DRAW is uniform in [0, 1), so that the mean of many is VALUE (Connolly, Higham
 * and Mary, SIAM J. Sci. Comput. 43, 2021). Beyond the range as by bb_scalar_encode.
 */
double bb_scalar_spacing(enum bb_dtype dtype, double value);
double bb_scalar_round(enum bb_dtype dtype, double value);
double bb_scalar_round_by(enum bb_dtype dtype, double value, double draw);

/* accumulator = accumulator + operand, for every valid (op, dtype); AVG and MULSUM add. */
void bb_scalar_reduce(enum bb_dtype dtype, enum bb_op op, void *accumulator, const void *operand);
/* element *= factor (mulsum) and element /= divisor (avg). */
void bb_scalar_scale(enum bb_dtype dtype, void *element, int factor);
void bb_scalar_divide(enum bb_dtype dtype, void *element, int divisor);

/* Distance of two elements in units in the last place; 0 iff the bits are equal;
   UINT64_MAX where it makes no sense (NaN, different pair). */
uint64_t bb_scalar_ulps(enum bb_dtype dtype, const void *a, const void *b);
