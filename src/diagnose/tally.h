/*
 * tally.h - how often something was slow, and whether that is more than chance.
 */
#ifndef BB_DIAGNOSE_TALLY_H
#define BB_DIAGNOSE_TALLY_H

#include "diagnose/judge.h"

#define BB_SIGMAS 4      /* of the noise, from which on a measurement is slow */
#define BB_LEAST_TIMES 3 /* separate times that something flapping was slow */

/* Measurements of one thing, in the order in which they were made. */
struct bb_tally {
	int slow, of;
	int times; /* separate times that it was slow */
	bool last;
	int half;   /* that were at least half as far off: what is slow by little is so steadily too
		     */
	double sum; /* of the logarithms of the factors of the slow ones */
	double all; /* of all */
};

/* EXCESS, NAN if there is none, is slow beyond LIMIT. */
static inline void bb_tally_count(struct bb_tally *t, double excess, double limit)
{
	const bool slow = excess > limit;

	if (isnan(excess))
		return;
	t->of++;
	t->slow += slow;
	t->half += excess > limit / 2;
	t->times += slow && !t->last;
	t->last = slow;
	t->sum += slow ? excess : 0;
	t->all += excess;
}

static inline double bb_tally_share(const struct bb_tally *t)
{
	return t->of > 0 ? (double)t->slow / t->of : 0;
}

static inline bool bb_tally_is_steady(const struct bb_tally *t)
{
	return t->of > 0 && t->half >= BB_STEADY * t->of;
}

/* CHANCE: that a healthy one is slow as often. */
static inline bool bb_tally_convicts(const struct bb_tally *t, double chance)
{
	if (t->slow == 0 || chance > BB_FALSE_BLAME)
		return false;
	return bb_tally_is_steady(t) || t->times >= BB_LEAST_TIMES;
}

/* The rate of what was slow X times of N: not 0 because it was not seen. */
static inline double bb_tally_rate(int x, int n)
{
	return (x + 1.0) / (n + 2.0);
}

/* The logarithm of the factor of the time that a loss of speed by TOLERANCE makes. */
static inline double bb_tolerated(double tolerance)
{
	return -log1p(-tolerance);
}

#define BB_MOST_OF_RAILS 0.75 /* of the rails speak for all of them */

static inline bool bb_is_most(int rails, int all)
{
	return rails >= BB_MOST_OF_RAILS * all;
}

/* The excess from which on something is slow, at least LEAST. Heavy tails make a large sigma; what
   is seldom among the healthy counts too. */
static inline double bb_slow_from(double least, struct bb_noise noise)
{
	return fmax(least, fmin(BB_SIGMAS * noise.sigma, noise.rare));
}

/* By how much BASE of RAIL is above the lower median of all. */
double bb_rail_excess(const double *base, int rails, int rail);

#endif
