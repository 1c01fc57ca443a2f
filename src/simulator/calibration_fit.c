/*
 * calibration_fit.c - the latencies of rounds and times of bytes that fit the measurements best,
 * none of them negative.
 */
#include "simulator/calibration_parts.h"

#include <math.h>
#include <string.h>

#define OCTAVES 2 /* from knot to knot */
#define SWEEPS 2000
#define UNKNOWNS (BB_MOST_COUNTS + BB_MOST_KNOTS)
/* Weight of the difference of neighbouring knots, so that knots without data follow their
 * neighbours.
 */
#define STIFFNESS 1e-6

/* The knot before SIZE; *SHARE is the weight of the next one. */
static int knot_of(const struct bb_cost_model *m, double size, double *share)
{
	const double place = (log2(size > 1 ? size : 1) - m->first) / OCTAVES;
	int k = (int)floor(place);

	if (k < 0 || m->nknots == 1)
		k = 0;
	else if (k > m->nknots - 2)
		k = m->nknots - 2;
	*share = fmin(fmax(place - k, 0), m->nknots > 1);
	return k;
}

static int count_of(const struct bb_cost_model *m, int nranks)
{
	int best = 0;

	for (int i = 1; i < m->ncounts; i++)
		if (fabs(log((double)m->counts[i] / nranks)) <
		    fabs(log((double)m->counts[best] / nranks)))
			best = i;
	return best;
}

/* Bytes that the busiest processor moves. */
static double work_of(const struct bb_cost_model *m, const struct bb_cost *cost)
{
	return cost->moved / (cost->nranks < m->cores ? cost->nranks : m->cores);
}

double bb_cost_time(const struct bb_cost_model *m, const struct bb_cost *cost)
{
	double share;
	const int k = knot_of(m, cost->size, &share);
	double per_byte = (1 - share) * m->per_byte[k];

	if (share > 0)
		per_byte += share * m->per_byte[k + 1];
	return cost->rounds * m->latency[count_of(m, cost->nranks)] + work_of(m, cost) * per_byte;
}

static void find_counts(struct bb_cost_model *m, const struct bb_point *points, size_t n)
{
	m->ncounts = 0;
	for (size_t i = 0; i < n; i++) {
		int known = 0;

		while (known < m->ncounts && m->counts[known] != points[i].cost.nranks)
			known++;
		if (known == m->ncounts && known < BB_MOST_COUNTS)
			m->counts[m->ncounts++] = points[i].cost.nranks;
	}
}

static void find_knots(struct bb_cost_model *m, const struct bb_point *points, size_t n)
{
	double least = INFINITY, most = 1;

	for (size_t i = 0; i < n; i++) {
		least = fmin(least, fmax(points[i].cost.size, 1));
		most = fmax(most, points[i].cost.size);
	}
	m->first = (int)floor(log2(least));
	m->nknots = 1 + (int)ceil((log2(most) - m->first) / OCTAVES);
	if (m->nknots > BB_MOST_KNOTS)
		m->nknots = BB_MOST_KNOTS;
}

/* The coefficient of each unknown in the time of P, over that time. Unknowns of bytes are
   increments over the knot before and never negative, as more bytes are not in faster memory.
   Otherwise the latency of a round would pass for slow bytes of short messages. */
static void row_of(const struct bb_cost_model *m, const struct bb_point *p, double row[UNKNOWNS])
{
	double share;
	const int k = knot_of(m, p->cost.size, &share);

	memset(row, 0, UNKNOWNS * sizeof(*row));
	row[count_of(m, p->cost.nranks)] = p->cost.rounds / p->time;
	row[m->ncounts + k] = (1 - share) * work_of(m, &p->cost) / p->time;
	if (share > 0)
		row[m->ncounts + k + 1] = share * work_of(m, &p->cost) / p->time;
	for (int i = m->nknots - 2; i >= 0; i--)
		row[m->ncounts + i] += row[m->ncounts + i + 1];
}

/* Least squares of A x = 1 with x >= 0, by coordinates: SQUARE = A'A, SUM = A'1. */
static void solve(int n, double square[UNKNOWNS][UNKNOWNS], const double *sum, double *x)
{
	for (int sweep = 0; sweep < SWEEPS; sweep++) {
		for (int i = 0; i < n; i++) {
			double rest = sum[i];

			for (int j = 0; j < n; j++)
				rest -= j == i ? 0 : square[i][j] * x[j];
			x[i] = square[i][i] > 0 && rest > 0 ? rest / square[i][i] : 0;
		}
	}
}

void bb_cost_fit(struct bb_cost_model *m, const struct bb_point *points, size_t n)
{
	double square[UNKNOWNS][UNKNOWNS] = {{0}}, sum[UNKNOWNS] = {0}, x[UNKNOWNS] = {0};
	double row[UNKNOWNS], most = 0;
	int unknowns;

	find_counts(m, points, n);
	find_knots(m, points, n);
	unknowns = m->ncounts + m->nknots;
	for (size_t p = 0; p < n; p++) {
		row_of(m, &points[p], row);
		for (int i = 0; i < unknowns; i++) {
			sum[i] += row[i];
			for (int j = 0; j < unknowns; j++)
				square[i][j] += row[i] * row[j];
		}
	}
	for (int k = m->ncounts; k < unknowns; k++)
		most = fmax(most, square[k][k]);
	for (int k = m->ncounts + 1; k < unknowns; k++)
		square[k][k] += STIFFNESS * most;
	solve(unknowns, square, sum, x);
	memcpy(m->latency, x, (size_t)m->ncounts * sizeof(*x));
	for (int k = 0; k < m->nknots; k++)
		m->per_byte[k] = x[m->ncounts + k] + (k > 0 ? m->per_byte[k - 1] : 0);
}
