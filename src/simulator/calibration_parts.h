/*
 * calibration_parts.h - known to calibration*.c only.
 */
#ifndef BB_SIMULATOR_CALIBRATION_PARTS_H
#define BB_SIMULATOR_CALIBRATION_PARTS_H

#include "simulator/calibration.h"

#define BB_MOST_KNOTS 24
#define BB_MOST_COUNTS 8

/* What the model goes by of one call. */
struct bb_cost {
	int nranks;
	double rounds;
	double moved; /* bytes copied by all ranks, as bb_algorithm_cost counts */
	double size;  /* bytes of all ranks' inputs: what caches hold or do not */
};

struct bb_point {
	const struct bb_algorithm *schedule;
	bool in_place;
	double bytes; /* "size" */
	size_t chunk; /* bytes; 0: not cut */
	double time;  /* seconds, measured */
	bool median;  /* of several samples; else that of the only one */
	struct bb_cost cost;
	double left; /* logarithm of what the model is off by: measured over modelled */
};

/* The part that is the same for all. */
struct bb_cost_model {
	int cores;
	int ncounts, counts[BB_MOST_COUNTS]; /* numbers of ranks */
	double latency[BB_MOST_COUNTS];      /* of a round */
	int nknots;                          /* from 2^FIRST bytes on, every two octaves */
	int first;
	double per_byte[BB_MOST_KNOTS];
};

struct bb_calibration {
	struct bb_point *points; /* series by series, by size in each */
	size_t n, room;
	size_t others; /* results that are none of schedules */
	bool nccl;     /* those that are read now are of nccl: plain names are NCCL's */
	struct bb_cost_model model;
};

double bb_cost_time(const struct bb_cost_model *model, const struct bb_cost *cost);
/* Set all of MODEL but cores. */
void bb_cost_fit(struct bb_cost_model *model, const struct bb_point *points, size_t n);

#endif
