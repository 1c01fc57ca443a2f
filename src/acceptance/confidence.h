/*
 * confidence.h - confidence bounds of a mean from repeats, and dips of a curve: sizes at which
 * bandwidth falls below that of smaller ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Quantile P (0.5 < P < 1) of Student's t with DEGREES > 0 of freedom, which need not be whole. */
double bb_student_quantile(double p, double degrees);

/* The chance that Student's T of DEGREES of freedom exceeds t >= 0. */
double bb_student_beyond(double t, double degrees);

struct bb_confidence {
	size_t n;
	double mean, stdev; /* stdev of the sample, n - 1; 0 of one value */
	double low, high;   /* one-sided 95% bounds of the mean */
};

/*
 * Of N >= 1 values of independent runs, every STEP-th from VALUES on: mean -+ t(0.95, n-1) s /
 * sqrt(n) (Student, 1908). The spread of one value is unknown: both bounds are the value.
 */
struct bb_confidence bb_confidence_every(const double *values, size_t n, size_t step);
/* The same of neighbours. */
static inline struct bb_confidence bb_confidence_of(const double *values, size_t n)
{
	return bb_confidence_every(values, n, 1);
}

struct bb_curve_point {
	double size, busbw; /* bytes, GB/s */
	size_t run;
};

/* The deepest dip of a curve: bus bandwidth over the best at a smaller size, run by run. */
struct bb_dip {
	struct bb_confidence ratio; /* n 0: there is only one size */
	double size;                /* of the dip */
};

/* *DIP = the deepest of N points of NRUNS runs, sorted by size. Returns false without memory. */
bool bb_dip_find(const struct bb_curve_point *points, size_t n, size_t nruns, struct bb_dip *dip);
