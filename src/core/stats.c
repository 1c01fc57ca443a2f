#include "core/stats.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Ascending, with not-a-number last so that the order is total. */
static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	if (isnan(a) || isnan(b))
		return !!isnan(a) - !!isnan(b);
	return (a > b) - (a < b);
}

static int compare_ints(const void *left, const void *right)
{
	const int a = *(const int *)left, b = *(const int *)right;

	return (a > b) - (a < b);
}

void bb_stats_sort(double *values, size_t n)
{
	if (n > 0)
		qsort(values, n, sizeof(*values), compare_doubles);
}

void bb_stats_sort_ints(int *values, size_t n)
{
	if (n > 0)
		qsort(values, n, sizeof(*values), compare_ints);
}

double bb_stats_quantile(const double *sorted, size_t n, double p)
{
	double at = (double)(n - 1) * p;
	size_t low = (size_t)at;
	double weight = at - (double)low;

	if (low + 1 >= n)
		return sorted[n - 1];
	if (weight == 0)
		return sorted[low];
	return sorted[low] + weight * (sorted[low + 1] - sorted[low]);
}

double bb_stats_median(double *values, size_t n)
{
	bb_stats_sort(values, n);
	return n > 0 ? bb_stats_quantile(values, n, 0.50) : NAN;
}

/*
 * How many samples lie outside the interval on either side: one less than the largest rank r with
 * P(Binomial(n, 1/2) < r) <= 0.025, and 0 where there is no such rank.
 */
static size_t outside_interval(size_t n)
{
	double term, sum;
	size_t k = 0;

	/* Beyond, 2^-n would underflow; the normal approximation is off by one rank at most. */
	if (n > 1000) {
		double half_width = 1.959963984540054 * sqrt((double)n) / 2;

		return (size_t)((double)n / 2 - half_width - 0.5);
	}
	term = ldexp(1, -(int)n);
	sum = term;
	while (k < n) {
		term *= (double)(n - k) / (double)(k + 1);
		if (sum + term > 0.025)
			break;
		sum += term;
		k++;
	}
	return k;
}

static void moments(const double *samples, size_t n, struct bb_stats *stats)
{
	double mean = 0, squares = 0, error = 0;

	for (size_t i = 0; i < n; i++)
		mean += (samples[i] - mean) / (double)(i + 1);
	for (size_t i = 0; i < n; i++) {
		double d = samples[i] - mean;

		squares += d * d;
		error += d; /* would be 0 without rounding; corrects the second pass */
	}
	squares -= error * error / (double)n;
	stats->mean = mean;
	stats->stdev = squares < 0 ? 0 : sqrt(squares / (double)n);
	stats->cv = mean == 0 ? 0 : stats->stdev / mean;
}

void bb_stats_compute(double *samples, size_t n, struct bb_stats *stats)
{
	*stats = (struct bb_stats){.n = n};
	if (!n)
		return;
	bb_stats_sort(samples, n);
	moments(samples, n, stats);
	stats->min = samples[0];
	stats->max = samples[n - 1];
	stats->p50 = bb_stats_quantile(samples, n, 0.50);
	stats->p95 = bb_stats_quantile(samples, n, 0.95);
	stats->p99 = bb_stats_quantile(samples, n, 0.99);
	const size_t outside = outside_interval(n);
	stats->ci_low = samples[outside];
	stats->ci_high = samples[n - 1 - outside];
}

double bb_stats_precision(const struct bb_stats *stats)
{
	if (stats->p50 == 0)
		return 0;
	return (stats->ci_high - stats->ci_low) / 2 / fabs(stats->p50);
}

const char *bb_bound_doubt(double percent, double low, enum bb_bound_source source)
{
	const double least = low < percent ? low : percent;

	if (isnan(percent) || !(least > 100 * (1 + BB_BOUND_MARGIN)))
		return NULL;
	return source == BB_BOUND_BY_COPIES
		       ? "data came from a cache, or the copies of the bound were disturbed"
		       : "the bound is wrong: the links carry more than their model, or the bytes "
			 "are miscounted";
}
