/*
 * fit.h - which share of a pair's time is the nodes', which the link's, and which of them are slow.
 * Pure.
 *
 * A port is one rank of a node: rail k of all nodes meets rail k. The logarithm of the time from
 * port a to port b of rail k is modelled as
 *
 *     base_k + out_a + in_b + link_ab + noise,
 *
 * and all but the last two terms are fitted by medians, one after the other until nothing moves
 * (Tukey's median polish, on the pairs that were measured). While fewer than half of a port's
 * partners are bad, and fewer than half of all ports, neither a bad partner nor a bad link moves a
 * good port. The median of an even number of values is the lower middle one: what is bad is slow,
 * never fast.
 */
#pragma once

#include "suspects/retest.h"
#include "suspects/rounds.h"

#include <math.h>

/* The place of a node within its host. */
struct bb_spot {
	int core, numa;
};

/* Distances between nodes of a host: within a core, within a NUMA node, across NUMA nodes. */
#define BB_NEARNESSES 3

/* The distance between A and B, below BB_NEARNESSES. */
static inline int bb_nearness(const struct bb_spot *a, const struct bb_spot *b)
{
	if (a->numa != b->numa)
		return 2;
	return a->core != b->core;
}

#define BB_QUANTITIES 2  /* latency, bandwidth */
#define BB_MOST_RAILS 64 /* ranks of a node */

/* The measurements of one quantity in ROUNDS. */
struct bb_quantity {
	const struct bb_rounds *rounds;
	int rails;
	/* [(round * nodes + node) * rails + rail]: logarithm of the seconds from the node's partner
	   to it; NAN: not measured. */
	float *log_s;
	/* [node]: pairs compare only with pairs at the same distance. NULL: all pairs compare. */
	const struct bb_spot *places;
};

static inline int bb_measured_nearness(const struct bb_quantity *m, int a, int b)
{
	return m->places ? bb_nearness(&m->places[a], &m->places[b]) : 0;
}

/* The index of what arrived at NODE over RAIL in ROUND. */
static inline size_t bb_measured_place(const struct bb_quantity *m, int round, int node, int rail)
{
	const size_t entry = (size_t)round * (size_t)m->rounds->nodes + (size_t)node;

	return entry * (size_t)m->rails + (size_t)rail;
}

static inline double bb_measured_at(const struct bb_quantity *m, int round, int node, int rail)
{
	return m->log_s[bb_measured_place(m, round, node, rail)];
}

/* One measurement: what went from one node to another over RAIL in a round. */
struct bb_measurement {
	struct bb_pairing met;
	int rail;
	double log_s;
};
#define BB_BEFORE_MEASUREMENT ((struct bb_measurement){.met = BB_BEFORE_FIRST})

/* The next of M, by round, receiver and rail. Returns false behind the last. */
bool bb_quantity_next(const struct bb_quantity *m, struct bb_measurement *at);

#define BB_RARE 0.02

/* The spread of residuals. */
struct bb_noise {
	double sigma; /* 1.4826 times their median absolute value */
	double rare;  /* the value that the share BB_RARE of them exceeds */
};

/* The noise of N > 0 RESIDUALS, which are reordered and lose their signs. */
struct bb_noise bb_noise_of(double *residuals, size_t n);

/*
 * LEVEL[distance] = the median of its pairs above that of the commonest distance. Distance is
 * nobody's fault: with its level taken off (bb_level_apply), all pairs are alike. BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_level_find(double level[BB_NEARNESSES], const struct bb_quantity *m,
				const struct bb_spot *places);
void bb_level_apply(const double level[BB_NEARNESSES], const struct bb_quantity *m,
		    const struct bb_spot *places);

/* The lower median of VALUES, which are reordered; NAN of none. */
double bb_low_median(double *values, size_t n);
/* The lower median of BASE, that of each of RAILS. */
double bb_typical_base(const double *base, int rails);

/* The value that SHARE of VALUES, which are reordered, exceed; NAN of none. */
double bb_upper(double *values, size_t n, double share);

/* ---- what is slow ------------------------------------------------------------------------- */

#define BB_STEADY 0.8    /* share of the measurements; below it, it flaps */
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

/* The survey of one quantity. */
struct bb_view { /* zero-initialise */
	struct bb_quantity measured;
	double base[BB_MOST_RAILS];
	double *out; /* [node * rails + rail]: logarithm of the excess of what it sends; owned */
	double *in;  /* the same of what it receives; behind OUT */
	struct bb_noise noise;
	double floor; /* logarithm of the factor below which nothing is slow; set by the caller */
	double limit; /* logarithm of the factor from which on a measurement is slow */
	int slow, of; /* measurements that were slow beyond their nodes' own excess; all */
};

/* VIEW, which may have an earlier fit, = what M shows; TOLERANCE is the share of speed that may be
   missing. The caller frees OUT of VIEW. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_view_make(struct bb_view *view, const struct bb_quantity *m, double tolerance);

/* Returns what arrived at NODE over RAIL in ROUND above the base of VIEW, less what is fitted to
   its partner (SENDS) and to NODE (RECEIVES), but not what makes them faster; NAN: nothing arrived.
 */
double bb_view_excess(const struct bb_view *view, int round, int node, int rail, bool sends,
		      bool receives);
