#include "suspects/retest.h"

#include <math.h>
#include <string.h>

double bb_slow_factor(double factor, double usual_s, double planned_s)
{
	return 1 + (factor - 1) * fmax(0, usual_s - planned_s) / usual_s;
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

/* ---- floors -------------------------------------------------------------------------------- */

int bb_floor_kept(const struct bb_floor *floor)
{
	return floor->rounds < BB_FLOOR_TIMES ? floor->rounds : BB_FLOOR_TIMES;
}

static bool is_near(const struct bb_floor *floor, double seconds)
{
	return seconds <= BB_FLOOR_NEAR * bb_floor_usual(floor);
}

void bb_floor_add(struct bb_floor *floor, double seconds)
{
	const double before = bb_floor_usual(floor);
	int kept = bb_floor_kept(floor), at = kept;

	floor->rounds++;
	while (at > 0 && floor->kept[at - 1] > seconds)
		at--;
	if (at < BB_FLOOR_TIMES) {
		kept -= kept == BB_FLOOR_TIMES;
		memmove(&floor->kept[at + 1], &floor->kept[at],
			(size_t)(kept - at) * sizeof(double));
		floor->kept[at] = seconds;
	}
	if (floor->rounds <= BB_FLOOR_TIMES || !is_near(floor, before))
		floor->near = bb_floor_kept(floor);
	else
		floor->near += is_near(floor, seconds);
}

double bb_floor_usual(const struct bb_floor *floor)
{
	return floor->rounds > 0 ? floor->kept[bb_floor_kept(floor) - 1] : 0;
}

bool bb_retest_convicts(int slow, int near, int of, int judged)
{
	return slow >= BB_RETEST_ROUNDS &&
	       judged * bb_chance(slow, slow, of - near, of) <= BB_FALSE_BLAME;
}
