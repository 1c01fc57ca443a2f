/*
 * fit.h - which share of a pair's time is the nodes', and which the link's. Pure.
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
#ifndef BB_DIAGNOSE_FIT_H
#define BB_DIAGNOSE_FIT_H

#include "diagnose/rounds.h"
#include "core/retest.h"

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

/* The measurements of one quantity in ROUNDS. */
struct bb_quantity {
	const struct bb_rounds *rounds;
	int rails;
	/* [(round * nodes + node) * rails + rail]: logarithm of the seconds from the node's partner
	   to it; NAN: not measured. */
	const float *log_s;
	/* [node]: pairs compare only with pairs at the same distance. NULL: all pairs compare. */
	const struct bb_spot *places;
};

static inline int bb_measured_nearness(const struct bb_quantity *m, int a, int b)
{
	return m->places ? bb_nearness(&m->places[a], &m->places[b]) : 0;
}

static inline double bb_measured_at(const struct bb_quantity *m, int round, int node, int rail)
{
	const size_t seat = (size_t)round * (size_t)m->rounds->nodes + (size_t)node;

	return m->log_s[seat * (size_t)m->rails + (size_t)rail];
}

/* Take LEVEL(OWN, FROM, TO) off each measurement in LOG_S, which is that of M. */
void bb_quantity_subtract(const struct bb_quantity *m, float *log_s,
			  double (*level)(const void *own, int from, int to), const void *own);

#define BB_RARE 0.02

/* The spread of residuals. */
struct bb_noise {
	double sigma; /* 1.4826 times their median absolute value */
	double rare;  /* the value that the share BB_RARE of them exceeds */
};

/* The noise of N > 0 RESIDUALS, which are reordered and lose their signs. */
struct bb_noise bb_noise_of(double *residuals, size_t n);

struct bb_polish { /* zero-initialise */
	int nodes, rails;
	double *base; /* [rail] */
	double *out;  /* [node * rails + rail]: logarithm of the excess of what it sends */
	double *in;   /* the same of what it receives */
	struct bb_noise noise;
};

void bb_polish_free(struct bb_polish *fit);

/* Fit M. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_polish_make(struct bb_polish *fit, const struct bb_quantity *m);

/*
 * LEVEL[distance] = the median of its pairs above that of the commonest distance. Distance is
 * nobody's fault: with its level taken off (bb_level_apply), all pairs are alike. BB_EINTERNAL
 * without memory.
 */
BB_MUST bb_status bb_level_find(double level[BB_NEARNESSES], const struct bb_quantity *m,
				const struct bb_spot *places);
/* LOG_S is that of M. */
void bb_level_apply(const double level[BB_NEARNESSES], const struct bb_quantity *m,
		    const struct bb_spot *places, float *log_s);

/* The lower median of VALUES, which are reordered; NAN of none. */
double bb_low_median(double *values, size_t n);

/* The value that SHARE of VALUES, which are reordered, exceed; NAN of none. */
double bb_upper(double *values, size_t n, double share);

#endif
