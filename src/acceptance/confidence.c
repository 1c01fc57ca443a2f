/*
 * confidence.c - Student's bounds, and dips of curves by them.
 */
#include "acceptance/confidence.h"

#include <math.h>
#include <stdlib.h>

#define BISECTIONS 100
#define MOST_TERMS 300
#define CLOSE 1e-14

/* Never 0, which a continued fraction divides by. */
static double nonzero(double x)
{
	return fabs(x) < 1e-300 ? 1e-300 : x;
}

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by
   Lentz's method. Converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), f = d;

	for (int m = 1; m < MOST_TERMS; m++) {
		const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));

		d = 1 / nonzero(1 + even * d);
		c = nonzero(1 + even / c);
		f *= c * d;
		d = 1 / nonzero(1 + odd * d);
		c = nonzero(1 + odd / c);
		const double step = c * d;
		f *= step;
		if (fabs(step - 1) < CLOSE)
			break;
	}
	return f;
}

/* P(|T| > t) = I_x(v / 2, 1 / 2) with x = v / (v + t^2), where I is the regularised incomplete beta
   function: Abramowitz and Stegun, 26.7.1. */
double bb_student_beyond(double t, double degrees)
{
	const double a = degrees / 2, b = 0.5, x = degrees / (degrees + t * t);
	const double front =
		exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 0.5;
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a / 2;
	return (1 - front * beta_fraction(b, a, 1 - x) / b) / 2;
}

double bb_student_quantile(double p, double degrees)
{
	double low = 0, high = 1;

	while (bb_student_beyond(high, degrees) > 1 - p && high < 1e12)
		high *= 2;
	for (int i = 0; i < BISECTIONS && high - low > CLOSE * high; i++) {
		const double middle = (low + high) / 2;

		if (bb_student_beyond(middle, degrees) > 1 - p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

struct bb_confidence bb_confidence_every(const double *values, size_t n, size_t step)
{
	struct bb_confidence c = {.n = n};
	double squares = 0, half = 0;

	for (size_t i = 0; i < n; i++)
		c.mean += values[i * step] / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (values[i * step] - c.mean) * (values[i * step] - c.mean);
	if (n > 1) {
		c.stdev = sqrt(squares / (double)(n - 1));
		half = bb_student_quantile(0.95, (double)(n - 1)) * c.stdev / sqrt((double)n);
	}
	c.low = c.mean - half;
	c.high = c.mean + half;
	return c;
}

bool bb_dip_find(const struct bb_curve_point *points, size_t n, size_t nruns, struct bb_dip *dip)
{
	double *const best = calloc(nruns, sizeof(*best));
	double *const ratio = calloc(n, sizeof(*ratio));
	const bool good = best && ratio;

	*dip = (struct bb_dip){.ratio = {.low = INFINITY}};
	for (size_t i = 0; good && i < n;) {
		size_t next = i,
		       judged = 0; /* points of this size with a smaller one in their run */

		for (; next < n && points[next].size == points[i].size; next++)
			if (best[points[next].run] > 0)
				ratio[judged++] = points[next].busbw / best[points[next].run];
		if (judged > 0) {
			const struct bb_confidence c = bb_confidence_of(ratio, judged);

			if (c.low < dip->ratio.low)
				*dip = (struct bb_dip){c, points[i].size};
		}
		for (; i < next; i++)
			best[points[i].run] = fmax(best[points[i].run], points[i].busbw);
	}
	free(best);
	free(ratio);
	return good;
}
