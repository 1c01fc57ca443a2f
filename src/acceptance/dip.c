/*
 * dip.c - finds dips, for gates and for claims.
 */
#include "acceptance/dip.h"

#include <math.h>
#include <stdlib.h>

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
