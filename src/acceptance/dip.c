/*
 * dip.c - finds dips, for gates and for claims.
 */
#include "acceptance/dip.h"

#include <math.h>
#include <stdlib.h>

/* RATIO = the points at P of its size, over the BEST of their run at smaller sizes. Returns how
   many points have that size; *JUDGED of them have a smaller size in their run. */
static size_t ratios_at(const struct bb_curve_point *p, size_t n, const double *best, double *ratio,
			size_t *judged)
{
	size_t here = 0;

	*judged = 0;
	for (; here < n && p[here].size == p[0].size; here++)
		if (best[p[here].run] > 0)
			ratio[(*judged)++] = p[here].busbw / best[p[here].run];
	return here;
}

bool bb_dip_find(const struct bb_curve_point *points, size_t n, size_t nruns, struct bb_dip *dip)
{
	double *const best = calloc(nruns, sizeof(*best));
	double *const ratio = calloc(n, sizeof(*ratio));
	const bool good = best && ratio;

	*dip = (struct bb_dip){.ratio = {.low = INFINITY}};
	for (size_t i = 0, judged; good && i < n;) {
		const size_t next = i + ratios_at(&points[i], n - i, best, ratio, &judged);

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
