/*
 * fit.h - what of the time of a pair is the nodes' and what is the way between them. Pure.
 *
 * A port is one rank of a node: rail k of all nodes meets rail k. The logarithm of the time from
 * port a to port b of rail k is taken to be
 *
 *     base_k + out_a + in_b + link_ab + noise,
 *
 * and all but the last two are fitted by medians, one after the other until nothing moves (Tukey's
 * median polish, on the pairs that were measured): as long as fewer than half of a port's partners
 * are bad, and fewer than half of all ports, neither a bad partner nor a bad link moves a good
 * port. Of an even number of values the lower middle one counts: what is bad is slow, never fast.
 */
#ifndef BB_DIAGNOSE_FIT_H
#define BB_DIAGNOSE_FIT_H

#include "diagnose/rounds.h"
#include "core/retest.h"

#include <math.h>

/* What was measured of one quantity in ROUNDS. */
struct bb_quantity {
	const struct bb_rounds *rounds;
	int rails;
	/* [(round * nodes + node) * rails + rail]: logarithm of the seconds from the node's partner
	   to it; NAN: it was not measured. */
	const float *log_s;
};

static inline double bb_measured_at(const struct bb_quantity *m, int round, int node, int rail)
{
	const size_t seat = (size_t)round * (size_t)m->rounds->nodes + (size_t)node;

	return m->log_s[seat * (size_t)m->rails + (size_t)rail];
}

#define BB_RARE 0.02

struct bb_polish { /* zero-initialise */
	int nodes, rails;
	double *base; /* [rail] */
	double *out;  /* [node * rails + rail]: what it sends takes longer, as a logarithm */
	double *in;   /* likewise what it receives */
	double sigma; /* of the noise: 1.4826 times the median absolute residual */
	double rare;  /* the residual that the BB_RARE slowest are beyond */
};

void bb_polish_free(struct bb_polish *fit);

/* Fit M. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_polish_make(struct bb_polish *fit, const struct bb_quantity *m);

/* Where a node is, as far as it matters to whom it is near. */
struct bb_spot {
	int core, numa;
};

/* Kinds of ways between nodes: within a core, within a NUMA node, across NUMA nodes. */
#define BB_NEARNESSES 3

/*
 * LEVEL[way] = by how much its median is above that of the kind that most pairs are of. What is
 * slow because it is far is not to blame: taken off (bb_level_apply), all ways are alike.
 * BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_level_find(double level[BB_NEARNESSES], const struct bb_quantity *m,
				const struct bb_spot *places);
/* LOG_S is that of M. */
void bb_level_apply(const double level[BB_NEARNESSES], const struct bb_quantity *m,
		    const struct bb_spot *places, float *log_s);

/* The lower median of VALUES, which are put into another order; NAN: there are none. */
double bb_low_median(double *values, size_t n);

/* The value that SHARE of VALUES, which are put into another order, are above; NAN: none there. */
double bb_upper(double *values, size_t n, double share);

#endif
