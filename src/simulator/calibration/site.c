/*
 * site.c - the figures of a cluster (clusters.txt) that a run of NCCL there reveals,
 * fitted by the model of NCCL: the least mean of the logarithms of errors, figure by figure.
 */
#include "simulator/calibration/points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PASSES 2
#define FEWEST_SIZES 3     /* that depend on a figure, to fit it */
#define CHANGE 1.1         /* a result depends on a figure if such a change ... */
#define MOVES 0.05         /* ... moves its predicted time by this share */
#define GAIN 0.1           /* share by which the mean error must fall */
#define FLAT 1.1           /* times of a plateau differ by less */
#define WIDE 4             /* over at least this ratio of sizes */
#define GRID 16            /* values tried over the whole range, */
#define STEPS 8            /* then golden sections between the neighbours of the best */
#define LEAST_SECONDS 1e-6 /* the range of times, beside NO_SECONDS */
#define NO_SECONDS 1e-9    /* as good as 0, which of a plug-in means what is usual for its NICs */
#define MOST_SECONDS 2e-3
#define RANGE 1.7 /* the range of a share, each way */

/* The figures, in the order of enum bb_site_figure. */
static const struct figure {
	enum bb_figure figure;
	bool network;
	double usual; /* seconds, where a site has it */
} figures[] = {
	{BB_FIGURE_GPU_EFFICIENCY, false, 0},      {BB_FIGURE_NIC_EFFICIENCY, true, 0},
	{BB_FIGURE_NCCL_NIC_LATENCY, true, 20e-6}, {BB_FIGURE_NCCL_TREE_FILL, true, 100e-6},
	{BB_FIGURE_NCCL_ISSUE, false, 40e-6},
};

/* Give M, which has the figures BEFORE, those of VALUES. */
static void machine_adjust(const double *before, const double *values, struct bb_nccl_machine *m)
{
	const double net = values[BB_SITE_NIC_EFFICIENCY] / before[BB_SITE_NIC_EFFICIENCY];

	m->gpu_share = values[BB_SITE_GPU_EFFICIENCY];
	m->net_rate *= net;
	m->rank_rate *= net;
	m->rail_rate *= net;
	m->nic_latency = values[BB_SITE_NIC_LATENCY];
	m->net_fill = values[BB_SITE_TREE_FILL];
	m->issue = values[BB_SITE_ISSUE];
}

void bb_calibration_adjust(const struct bb_calibration *c, struct bb_nccl_machine *machine)
{
	machine_adjust(c->site.described, c->site.fitted, machine);
}

void bb_site_restore(const struct bb_calibration *c, struct bb_nccl_machine *machine)
{
	machine_adjust(c->site.fitted, c->site.described, machine);
}

/* Seconds of P by the model with VALUES for the figures. */
static double time_with(const struct bb_calibration *c, const double *values,
			const struct bb_point *p)
{
	struct bb_nccl_machine m = p->machine;
	struct bb_nccl_call call = p->call;

	machine_adjust(c->site.described, values, &m);
	call.machine = &m;
	return bb_nccl_call_time(c->constants, &call);
}

double bb_site_time(const struct bb_calibration *c, const struct bb_point *p)
{
	return time_with(c, c->site.fitted, p);
}

void bb_site_describe(struct bb_site *s, const struct bb_cluster *cluster)
{
	for (int f = 0; f < BB_SITE_FIGURES; f++)
		s->described[f] = s->fitted[f] = cluster->figures[figures[f].figure];
}

const struct bb_figure_row *bb_site_row(enum bb_site_figure figure)
{
	return &bb_figure_rows[figures[figure].figure];
}

static bool figure_is_share(enum bb_site_figure figure)
{
	return bb_site_row(figure)->unit == BB_SETTING_SHARE;
}

/* ---- the fit -------------------------------------------------------------------------- */

/* The mean error of the points of C that DEPENDS says depend on FIGURE, with VALUE for it. */
static double loss(const struct bb_calibration *c, const bool *depends, enum bb_site_figure figure,
		   double value)
{
	double values[BB_SITE_FIGURES], sum = 0;
	size_t n = 0;

	memcpy(values, c->site.fitted, sizeof(values));
	values[figure] = value;
	for (size_t i = 0; i < c->n; i++) {
		if (!depends[i])
			continue;
		sum += fabs(log(time_with(c, values, &c->points[i]) / c->points[i].time));
		n++;
	}
	return sum / (double)n;
}

/* Value I of the grid of FIGURE, which ascends. */
static double grid_value(const struct bb_site *s, enum bb_site_figure figure, int i)
{
	const double share = (double)i / (GRID - 1);

	if (figure_is_share(figure))
		return fmin(1, s->described[figure] * pow(RANGE, 2 * share - 1));
	return i == 0 ? NO_SECONDS : LEAST_SECONDS * pow(MOST_SECONDS / LEAST_SECONDS, share);
}

/* The best value of FIGURE for the points that depend on it. */
static double search(const struct bb_calibration *c, const bool *depends,
		     enum bb_site_figure figure)
{
	const double golden = (sqrt(5) - 1) / 2;
	double low, high, least = INFINITY;
	int best = 0;

	for (int i = 0; i < GRID; i++) {
		const double error = loss(c, depends, figure, grid_value(&c->site, figure, i));

		if (error < least) {
			least = error;
			best = i;
		}
	}
	low = grid_value(&c->site, figure, best > 0 ? best - 1 : 0);
	high = grid_value(&c->site, figure, best < GRID - 1 ? best + 1 : best);
	for (int step = 0; step < STEPS; step++) {
		const double a = high - golden * (high - low), b = low + golden * (high - low);

		if (loss(c, depends, figure, a) < loss(c, depends, figure, b))
			high = b;
		else
			low = a;
	}
	return (low + high) / 2;
}

/* Set DEPENDS of each point, and return how many sizes do, at most FEWEST_SIZES. */
static int find_dependents(const struct bb_calibration *c, enum bb_site_figure figure,
			   bool *depends)
{
	double values[BB_SITE_FIGURES], sizes[FEWEST_SIZES];
	int nsizes = 0;

	memcpy(values, c->site.fitted, sizeof(values));
	for (size_t i = 0; i < c->n; i++) {
		const struct bb_point *p = &c->points[i];
		double less, more;
		int known = 0;

		values[figure] =
			figure_is_share(figure) ? c->site.fitted[figure] / CHANGE : NO_SECONDS;
		less = time_with(c, values, p);
		values[figure] = figure_is_share(figure) ? c->site.fitted[figure] * CHANGE
							 : figures[figure].usual;
		more = time_with(c, values, p);
		depends[i] = fabs(more / less - 1) > MOVES;
		while (known < nsizes && sizes[known] != p->call.bytes)
			known++;
		if (depends[i] && known == nsizes && nsizes < FEWEST_SIZES)
			sizes[nsizes++] = p->call.bytes;
	}
	return nsizes;
}

/* True if the times of some series stay alike over its smallest sizes, as where operations are
   issued more slowly than they run. */
static bool has_plateau(const struct bb_calibration *c)
{
	for (const struct bb_calibration_series *s = c->series; s < c->series + c->nseries; s++) {
		size_t n = 1;

		while (n < s->n && s->first[n].time < FLAT * s->first->time)
			n++;
		if (n >= FEWEST_SIZES && s->first[n - 1].call.bytes >= WIDE * s->first->call.bytes)
			return true;
	}
	return false;
}

static enum bb_site_state fit_figure(struct bb_calibration *c, enum bb_site_figure figure,
				     bool *depends)
{
	double *value = &c->site.fitted[figure], before, found;
	bool several = false; /* results of several nodes */

	for (size_t i = 0; i < c->n; i++)
		several = several || c->points[i].nodes > 1;
	if (figures[figure].network && !several)
		return BB_SITE_ONE_NODE;
	if (figure == BB_SITE_ISSUE && !has_plateau(c))
		return BB_SITE_NO_PLATEAU;
	if (find_dependents(c, figure, depends) < FEWEST_SIZES)
		/* Fewer than in the pass before, whose value stays. */
		return *value == c->site.described[figure] ? BB_SITE_FEW_SIZES : BB_SITE_FITTED;
	before = loss(c, depends, figure, *value);
	found = search(c, depends, figure);
	if (loss(c, depends, figure, found) < (1 - GAIN) * before)
		*value = found;
	return *value == c->site.described[figure] ? BB_SITE_AS_DESCRIBED : BB_SITE_FITTED;
}

bool bb_site_fit(struct bb_calibration *c)
{
	bool *depends = malloc(c->n * sizeof(*depends));

	if (!depends)
		return false;
	memcpy(c->site.fitted, c->site.described, sizeof(c->site.fitted));
	for (int pass = 0; pass < PASSES; pass++)
		for (enum bb_site_figure f = 0; f < BB_SITE_FIGURES; f++)
			c->site.state[f] = fit_figure(c, f, depends);
	free(depends);
	return true;
}
