/*
 * dip.h - dips of a curve: sizes at which bandwidth falls below that of smaller ones.
 */
#ifndef BB_ACCEPTANCE_DIP_H
#define BB_ACCEPTANCE_DIP_H

#include "acceptance/confidence.h"

#include <stdbool.h>

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

#endif
