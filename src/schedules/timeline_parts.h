/*
 * timeline_parts.h - what the timelines of collectives and of programs share. Known to timeline*.c
 * only.
 */
#ifndef BB_SCHEDULES_TIMELINE_PARTS_H
#define BB_SCHEDULES_TIMELINE_PARTS_H

#include "schedules/timeline.h"

#include <math.h>

/* Mix WORD into what was drawn for so far: splitmix64's step. */
static inline uint64_t bb_draw(uint64_t so_far, uint64_t word)
{
	uint64_t x = so_far + 0x9e3779b97f4a7c15u + word;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* How much longer than without noise something takes that DRAWN is for: lognormal, its median 1
   (Box and Muller's transform). */
static inline double bb_noise_factor(const struct bb_link_model *links, uint64_t drawn)
{
	double u, v;

	if (links->noise == 0)
		return 1;
	u = ((double)(bb_draw(drawn, 1) >> 11) + 1) * 0x1p-53; /* (0, 1] */
	v = (double)(bb_draw(drawn, 2) >> 11) * 0x1p-53;
	return exp(links->noise * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* How long BYTES take to enter a link. */
static inline double bb_link_entry(const struct bb_link_model *links, double bytes)
{
	return links->rate > 0 ? bytes / links->rate : 0;
}

#endif
