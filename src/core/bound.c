#include "core/bound.h"

#include <math.h>
#include <stddef.h>

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
