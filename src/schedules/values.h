/*
 * values.h - the numbers that an algorithm computes: the additions of its steps, in their order,
 * rounded to a datatype as the ranks round them. The steps of all ranks are performed round by
 * round on one core.
 *
 * As by the kernels of backends, 16-bit and 8-bit numbers are added in fp32 and rounded to nearest
 * once in each step, after the numbers of one or two peers; fp32 and fp64 after each addition.
 */
#pragma once

#include "core/datatype.h"
#include "core/status.h"
#include "schedules/schedule.h"

struct bb_value {
	double number;
	uint32_t terms; /* contributions that it sums */
	/* Sum of the terms of all rounded sums that it was made of: see bb_values_expected. */
	float roundings;
};

/* A group's buffers. */
struct bb_values {
	const struct bb_algorithm *algorithm;
	const struct bb_shape *shape;
	enum bb_dtype dtype;
	struct bb_values_rank *ranks;
	struct bb_value *cells; /* of all ranks */
};

/* Open the buffers of a group, whose algorithm reduces sums of DTYPE, a floating-point one. Close
   VALUES whatever comes back. BB_EUNSUPPORTED beyond BB_VALUES_MOST bytes of cells. ALGORITHM and
   SHAPE are borrowed. */
#define BB_VALUES_MOST ((size_t)1 << 30)
BB_MUST bb_status bb_values_open(struct bb_values *values, const struct bb_algorithm *algorithm,
				 const struct bb_shape *shape, enum bb_dtype dtype,
				 struct bb_error *error);
/* The first cell of a buffer. Those of IN are to be set before bb_values_perform. */
struct bb_value *bb_values_at(const struct bb_values *values, int rank, enum bb_buffer buffer);
/* Perform all steps. BB_EINTERNAL if a message has no sender, which the checker disproves. */
BB_MUST bb_status bb_values_perform(struct bb_values *values, struct bb_error *error);
void bb_values_close(struct bb_values *values);

/*
 * The expected RMS error of sums of independent standard normal numbers, relative to their RMS,
 * from the mean of ROUNDINGS / terms. An error is the sum of the errors of all roundings (Higham,
 * Accuracy and Stability of Numerical Algorithms, 2002, section 4.2), taken as independent with
 * mean 0 (Higham and Mary, SIAM J. Sci. Comput. 41, 2019). A rounded sum of t terms has a variance
 * of t, and an error that is uniform up to u / mantissa of it, u = half the spacing at 1. The
 * mantissa is distributed logarithmically, which holds within 1% for normal numbers: its inverse
 * square has a mean of 3 / (8 ln 2), so the RMS error is u sqrt(t / (8 ln 2)). A chain of n numbers
 * has 0.30 u sqrt(n), a binary tree 0.42 u sqrt(log2 n).
 */
double bb_values_expected(enum bb_dtype dtype, double roundings);
