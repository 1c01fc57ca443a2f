#include "core/retest.h"

#include <math.h>

double bb_crowded_factor(double usual_s, double planned_s)
{
	return 1 + (BB_CROWDED - 1) * fmax(0, usual_s - planned_s) / usual_s;
}

static double log_beta(double a, double b)
{
	return lgamma(a) + lgamma(b) - lgamma(a + b);
}

double bb_chance(int k, int n, int x, int m)
{
	const double a = x + 1.0, b = m - x + 1.0;
	double sum = 0;

	if (k <= 0)
		return 1;
	for (int i = k; i <= n; i++)
		sum += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) +
			   log_beta(i + a, n - i + b) - log_beta(a, b));
	return fmin(sum, 1);
}
