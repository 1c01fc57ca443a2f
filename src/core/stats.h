/*
 * stats.h - the one definition of every statistic that busbench reports.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Percentile p of n sorted samples: linear interpolation between closest ranks at (n-1)*p
 * (Hyndman and Fan, 1996, type 7). stdev: population. cv = stdev / mean (0 if the mean is 0).
 * ci_low, ci_high: 95% confidence interval of the median from order statistics (the binomial
 * interval, distribution-free); below 6 samples it is the whole range [min, max].
 */
#define BB_STATS_INTERVAL 6
struct bb_stats {
	size_t n;
	double min, p50, p95, p99, max;
	double mean, stdev, cv;
	double ci_low, ci_high;
};

/* Sorts SAMPLES in place. n = 0 gives all zeros. */
void bb_stats_compute(double *samples, size_t n, struct bb_stats *stats);

/* Percentile P (0 to 1) of N > 0 sorted values, by the definition above. */
double bb_stats_quantile(const double *sorted, size_t n, double p);
/* The median of VALUES by the definition above; NAN of none. Sorts them. */
double bb_stats_median(double *values, size_t n);

/* Sort in ascending order, what is not a number last. */
void bb_stats_sort(double *values, size_t n);
void bb_stats_sort_ints(int *values, size_t n);

/* Half the confidence interval of the median as a fraction of the median (0 if that is 0). */
double bb_stats_precision(const struct bb_stats *stats);

/* ---- a measured number beside its bound -------------------------------------------------- */

/* A bound is a rounded rate, or itself a median: numbers up to this share beyond it are no
   contradiction. */
#define BB_BOUND_MARGIN 0.05

enum bb_bound_source {
	BB_BOUND_BY_COPIES, /* of plain copies, in this run */
	BB_BOUND_BY_LINKS   /* of a model of the links */
};

/*
 * Why the bound does not hold: PERCENT of it are reached, and LOW percent by the slow end of the
 * spread (NAN: unknown), which are more than 100 beyond the margin. NULL: it may hold, or PERCENT
 * is NAN.
 */
const char *bb_bound_doubt(double percent, double low, enum bb_bound_source source);

/* Is A less than B by more than rounding, so that the first of equal numbers wins a search whatever
   the order of the sums? */
static inline bool bb_is_below(double a, double b)
{
	return a < b && b - a > 1e-9 * fabs(b);
}
