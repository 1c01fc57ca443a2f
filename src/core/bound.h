/*
 * bound.h - a measured number beside its bound.
 */
#ifndef BB_CORE_BOUND_H
#define BB_CORE_BOUND_H

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

#endif
