/*
 * confidence.c - Student's bounds.
 */
#include "acceptance/confidence.h"

#include <math.h>

/* Quantile 0.95 of Student's t with 1, 2, … degrees of freedom. */
static const double t95[] = {6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
			     1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
			     1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697};
#define KNOWN (sizeof(t95) / sizeof(t95[0]))

/* Beyond the table 1.645 + 1.55 / degrees, which is right to 0.002. */
static double quantile(size_t degrees)
{
	return degrees <= KNOWN ? t95[degrees - 1] : 1.645 + 1.55 / (double)degrees;
}

struct bb_confidence bb_confidence_of(const double *values, size_t n)
{
	struct bb_confidence c = {.n = n};
	double squares = 0, half = 0;

	for (size_t i = 0; i < n; i++)
		c.mean += values[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (values[i] - c.mean) * (values[i] - c.mean);
	if (n > 1) {
		c.stdev = sqrt(squares / (double)(n - 1));
		half = quantile(n - 1) * c.stdev / sqrt((double)n);
	}
	c.low = c.mean - half;
	c.high = c.mean + half;
	return c;
}
