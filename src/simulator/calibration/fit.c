#include "simulator/calibration/points.h"

#include "core/array.h"
#include "core/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF_LIFE 2                   /* octaves beyond the sizes of a series */
#define FILE_MOST ((size_t)256 << 20) /* bytes of records */

void bb_calibration_free(struct bb_calibration *c)
{
	if (!c)
		return;
	free(c->errors);
	free(c->series);
	free(c->points);
	free(c);
}

/* ---- the model of schedules ----------------------------------------------------------- */

/* Latencies of rounds and times of bytes, none of them negative. */

#define OCTAVES 2 /* from knot to knot */
#define SWEEPS 2000
/* Weight of the difference of neighbouring knots, so that knots without data follow their
 * neighbours.
 */
#define STIFFNESS 1e-6

/* Set ROW to the coefficients of M's values in the time of COST: of the rounds among the nearest
   number of ranks, and of the bytes that the busiest processor moves at the knots around SIZE. */
static void cost_row(const struct bb_cost_model *m, const struct bb_cost *cost, double *row)
{
	const double work = cost->moved / (cost->nranks < m->cores ? cost->nranks : m->cores);
	const double octaves = log2(fmax(cost->size, 1)) - m->first;
	const double place = fmin(fmax(octaves / OCTAVES, 0), m->nknots - 1);
	const int knot = (int)place;
	double *bytes = &row[m->ncounts + knot];
	int near = 0;

	memset(row, 0, BB_MOST_VALUES * sizeof(*row));
	for (int i = 1; i < m->ncounts; i++)
		if (fabs(log((double)m->counts[i] / cost->nranks)) <
		    fabs(log((double)m->counts[near] / cost->nranks)))
			near = i;
	row[near] = cost->rounds;
	bytes[0] = (1 - (place - knot)) * work;
	if (place > knot)
		bytes[1] = (place - knot) * work;
}

/* Fit M to N POINTS: numbers of ranks, knots, and least squares of A x = 1 with x >= 0, by
   coordinates. A row of A has the coefficient of each unknown in the time of a point, over that
   time. Unknowns of bytes are increments over the knot before and never negative, as more bytes are
   not in faster memory. Otherwise the latency of a round would pass for slow bytes of short
   messages. */
static void cost_fit(struct bb_cost_model *m, const struct bb_point *points, size_t n)
{
	double square[BB_MOST_VALUES][BB_MOST_VALUES] = {{0}}, sum[BB_MOST_VALUES] = {0},
	       *x = m->values; /* A'A, A'1 */
	double least_size = INFINITY, most_size = 1, most = 0;

	m->ncounts = 0;
	for (const struct bb_point *p = points; p < points + n; p++) {
		int known = 0;

		while (known < m->ncounts && m->counts[known] != p->cost.nranks)
			known++;
		if (known == m->ncounts && known < BB_MOST_COUNTS)
			m->counts[m->ncounts++] = p->cost.nranks;
		least_size = fmin(least_size, fmax(p->cost.size, 1));
		most_size = fmax(most_size, p->cost.size);
	}
	m->first = (int)floor(log2(least_size));
	m->nknots = 1 + (int)ceil((log2(most_size) - m->first) / OCTAVES);
	if (m->nknots > BB_MOST_KNOTS)
		m->nknots = BB_MOST_KNOTS;
	const int unknowns = m->ncounts + m->nknots;
	memset(x, 0, sizeof(m->values));
	for (const struct bb_point *p = points; p < points + n; p++) {
		double row[BB_MOST_VALUES];

		cost_row(m, &p->cost, row);
		for (int i = unknowns - 1; i >= 0; i--) {
			row[i] /= p->time;
			if (i >= m->ncounts && i < unknowns - 1)
				row[i] += row[i + 1];
		}
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
	for (int i = 0; i < SWEEPS * unknowns; i++) {
		const int k = i % unknowns;
		double rest = sum[k];

		for (int j = 0; j < unknowns; j++)
			rest -= j == k ? 0 : square[k][j] * x[j];
		x[k] = square[k][k] > 0 && rest > 0 ? rest / square[k][k] : 0;
	}
	for (int k = m->ncounts + 1; k < unknowns; k++)
		x[k] += x[k - 1];
}

/* ---- the figures of a cluster --------------------------------------------------------- */

/* Those of clusters.txt that a run of NCCL there reveals, fitted by the model of NCCL: the least
   mean of the logarithms of errors, figure by figure. */

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

const struct bb_figure_row *bb_site_row(enum bb_site_figure figure)
{
	return &bb_figure_rows[figures[figure].figure];
}

static bool figure_is_share(enum bb_site_figure figure)
{
	return bb_site_row(figure)->unit == BB_SETTING_SHARE;
}

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

/* Fit the figures of C's site to its points. False: out of memory. */
static bool site_fit(struct bb_calibration *c)
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

/* ---- series --------------------------------------------------------------------------- */

/* What points have in common, up to these members: each includes those before. */
enum likeness { SAME_COLLECTIVE = 1, SAME_ALGORITHM = 4, SAME_RANKS = 6, SAME_SERIES, SAME_SIZE };

/* Compare two points by the members of LIKENESS: 0 if they have all in common. */
static int compare(const struct bb_point *a, const struct bb_point *b, enum likeness likeness)
{
	const struct bb_nccl_call *x = &a->call, *y = &b->call;
	const int by[] = {
		x->collective != y->collective ? strcmp(x->collective->name, y->collective->name)
					       : 0,
		a->schedule != b->schedule ? strcmp(a->schedule->name, b->schedule->name) : 0,
		(int)x->algorithm - (int)y->algorithm,
		(int)x->protocol - (int)y->protocol,
		a->cost.nranks - b->cost.nranks,
		a->nodes - b->nodes,
		(int)x->in_place - (int)y->in_place,
		(x->bytes > y->bytes) - (x->bytes < y->bytes),
	};
	int i = 0;

	while (i + 1 < (int)likeness && by[i] == 0)
		i++;
	return by[i];
}

/* Series by series, by size in each. */
static int compare_points(const void *a, const void *b)
{
	return compare(a, b, SAME_SIZE);
}

/* Seconds of P by the model alone. */
static double model_time(const struct bb_calibration *c, const struct bb_point *p)
{
	double row[BB_MOST_VALUES], time = 0;

	if (c->cluster)
		return bb_site_time(c, p);
	cost_row(&c->model, &p->cost, row);
	for (int i = 0; i < c->model.ncounts + c->model.nknots; i++)
		time += row[i] * c->model.values[i];
	return time;
}

/* Sort the points and set their series, the model and what is left. False: out of memory. */
static bool calibration_fit(struct bb_calibration *c)
{
	struct bb_calibration_series *last = NULL;

	qsort(c->points, c->n, sizeof(*c->points), compare_points);
	for (struct bb_point *p = c->points; p < c->points + c->n; p++) {
		if (!last || compare(last->first, p, SAME_SERIES) != 0) {
			last = BB_ARRAY_ADD(c->series, c->nseries, c->series_room);
			if (!last)
				return false;
			*last = (struct bb_calibration_series){.first = p};
		}
		last->n++;
	}
	if (c->cluster && !site_fit(c))
		return false;
	if (!c->cluster)
		cost_fit(&c->model, c->points, c->n);
	for (struct bb_point *p = c->points; p < c->points + c->n; p++) {
		const double modelled = model_time(c, p);

		p->left = modelled > 0 ? log(p->time / modelled) : 0;
	}
	return true;
}

/* ---- predictions of points ------------------------------------------------------------ */

/* What a prediction follows from. */
struct outlook {
	/* That of its algorithm which is nearest in ranks, nodes and placement; NULL: none. */
	const struct bb_calibration_series *series;
	enum bb_cross_kind kind;
	double beyond; /* octaves beyond the measured sizes, of that kind alone */
	double factor; /* on the model's time */
};

/* What is left at BYTES in SERIES: interpolated, at its ends that of its first or last size. */
static double left_at(const struct bb_calibration_series *series, double bytes)
{
	const struct bb_point *p = series->first;
	size_t i = 0;
	double whole, share;

	if (series->n == 1)
		return p->left;
	while (i + 2 < series->n && p[i + 1].call.bytes < bytes)
		i++;
	whole = log(p[i + 1].call.bytes / p[i].call.bytes);
	share = whole > 0 ? log(bytes / p[i].call.bytes) / whole : 0.5;
	return p[i].left + fmin(fmax(share, 0), 1) * (p[i + 1].left - p[i].left);
}

/* How QUERY is predicted, whose time and left are not used. The model of NCCL holds for any
   machine: what a run leaves says little of other numbers of ranks, and less of each further octave
   of sizes. */
static struct outlook outlook_of(const struct bb_calibration *c, const struct bb_point *query)
{
	struct outlook o = {.kind = BB_CROSS_COLLECTIVE};
	const double bytes = query->call.bytes;
	double least = INFINITY, left = 0;

	for (size_t i = 0; i < c->nseries; i++) {
		const struct bb_point *p = c->series[i].first;
		double far = fabs(log2((double)p->cost.nranks / query->cost.nranks));

		if (query->nodes > 0)
			far += fabs(log2((double)p->nodes / query->nodes));
		far += p->call.in_place != query->call.in_place ? 0.1 : 0;
		if (compare(p, query, SAME_COLLECTIVE) == 0)
			o.kind = BB_CROSS_ALGORITHM;
		if (compare(p, query, SAME_ALGORITHM) == 0 && far < least) {
			least = far;
			o.series = &c->series[i];
		}
	}
	if (o.series) {
		const struct bb_point *first = o.series->first, *last = first + o.series->n - 1;

		left = left_at(o.series, bytes);
		o.kind = BB_CROSS_RANKS;
		if (compare(first, query, SAME_RANKS) == 0) {
			if (bytes > last->call.bytes)
				o.beyond = log2(bytes / last->call.bytes);
			else if (bytes < first->call.bytes)
				o.beyond = log2(bytes / first->call.bytes);
			o.kind = o.beyond == 0 ? BB_CROSS_BETWEEN : BB_CROSS_BEYOND;
		}
	}
	if (c->cluster)
		left *= o.kind == BB_CROSS_RANKS ? 0 : exp2(-fabs(o.beyond) / HALF_LIFE);
	o.factor = exp(left);
	return o;
}

/* ---- cross-validation ----------------------------------------------------------------- */

/* Results are left out of the fit in turn and predicted; the errors give the intervals of
   predictions. */

/* The largest of so many errors in random order holds the next one in nine of ten cases. */
#define NEAREST 9
#define BINS 2 /* of sizes in an octave; the sizes of one are left out together */
#define FAR 1  /* octaves by which distances beyond the measured sizes may differ */

/* What results have in common that are left out together. */
enum aspect { OF_BIN, OF_LARGER, OF_SMALLER, OF_SERIES, OF_RANKS, OF_ALGORITHM, OF_COLLECTIVE };

static int bin_of(const struct bb_point *p)
{
	return (int)floor(BINS * log2(p->call.bytes) + 0.5);
}

static bool is_like(enum aspect aspect, const struct bb_point *like, const struct bb_point *p)
{
	switch (aspect) {
	case OF_BIN:
		return bin_of(p) == bin_of(like);
	case OF_LARGER:
		return bin_of(p) >= bin_of(like);
	case OF_SMALLER:
		return bin_of(p) <= bin_of(like);
	case OF_SERIES:
		return compare(p, like, SAME_RANKS) == 0;
	case OF_RANKS:
		return p->cost.nranks == like->cost.nranks && p->nodes == like->nodes;
	case OF_ALGORITHM:
		return compare(p, like, SAME_ALGORITHM) == 0;
	default:
		return p->call.collective == like->call.collective;
	}
}

/* Predict P by PART, a fit without it, and add the error. FIRST: the first error of this fit; where
   two placements of one case were left out together, the larger error counts for both. */
static bool add_error(struct bb_calibration *c, const struct bb_calibration *part, size_t first,
		      enum aspect aspect, struct bb_point *p)
{
	const struct outlook o = outlook_of(part, p);
	const double predicted = model_time(part, p) * o.factor;
	const struct bb_cross_error new = {p, o.kind, o.beyond, log(p->time / predicted)};
	struct bb_cross_error *e = NULL;

	if (aspect == OF_BIN)
		p->left_out = predicted;
	for (size_t i = first; !e && i < c->nerrors; i++)
		if (c->errors[i].of->call.bytes == p->call.bytes &&
		    compare(c->errors[i].of, p, SAME_RANKS) == 0)
			e = &c->errors[i];
	if (!e)
		return BB_ARRAY_PUT(c->errors, c->nerrors, c->error_room, new);
	if (!(fabs(e->error) >= fabs(new.error)))
		*e = new;
	return true;
}

/* Fit without the results that have ASPECT in common with LIKE, and predict these. False: out of
   memory. */
static bool leave_out(struct bb_calibration *c, enum aspect aspect, const struct bb_point *like)
{
	struct bb_calibration part = {.cluster = c->cluster,
				      .constants = c->constants,
				      .site = c->site,
				      .model.cores = c->model.cores};
	const size_t first = c->nerrors;
	bool good = true;

	part.points = malloc(c->n * sizeof(*part.points));
	if (!part.points)
		return false;
	for (size_t i = 0; i < c->n; i++)
		if (!is_like(aspect, like, &c->points[i]))
			part.points[part.n++] = c->points[i];
	if (part.n >= BB_FEWEST_POINTS && part.n < c->n) {
		good = calibration_fit(&part);
		for (size_t i = 0; good && i < c->n; i++)
			if (is_like(aspect, like, &c->points[i]))
				good = add_error(c, &part, first, aspect, &c->points[i]);
	}
	free(part.series);
	free(part.points);
	return good;
}

/* Leave out, in turn and for each aspect, all that differ in it, each of which is that of some
   point. False: out of memory. */
static bool cross_validate(struct bb_calibration *c)
{
	bool good = true;

	for (enum aspect aspect = OF_BIN; c->n <= BB_CROSS_MOST && aspect <= OF_COLLECTIVE;
	     aspect++)
		for (size_t i = 0; good && i < c->n; i++) {
			const enum aspect same =
				aspect == OF_LARGER || aspect == OF_SMALLER ? OF_BIN : aspect;
			size_t k = 0;

			while (k < i && !is_like(same, &c->points[i], &c->points[k]))
				k++;
			if (k == i)
				good = leave_out(c, aspect, &c->points[i]);
		}
	return good;
}

/* ---- intervals ------------------------------------------------------------------------ */

size_t bb_cross_select(const struct bb_calibration *c, enum bb_cross_kind kind,
		       const struct bb_point *of, double *errors)
{
	size_t n = 0;

	for (size_t i = 0; i < c->nerrors; i++)
		if (c->errors[i].kind == kind &&
		    fabs(c->errors[i].beyond) <= BB_CROSS_BEYOND_MOST &&
		    (!of || compare(c->errors[i].of, of, SAME_RANKS) == 0))
			errors[n++] = fabs(expm1(c->errors[i].error));
	return n;
}

/* Nearest first; among equally near ones, the larger error. */
static int compare_distances(const void *a, const void *b)
{
	const double *x = a, *y = b;

	if (x[0] != y[0])
		return x[0] < y[0] ? -1 : 1;
	return (x[1] < y[1]) - (x[1] > y[1]);
}

/* Set *LOW and *HIGH to multiples of the prediction of QUERY, of outlook O, between which nine in
   ten measurements should lie: by the nearest predictions of its kind and, beyond measured sizes,
   on the same side, as far beyond if there are enough. False: too few errors of such predictions
   are known, or out of memory. */
static bool cross_interval(const struct bb_calibration *c, const struct bb_point *query,
			   const struct outlook *o, double *low, double *high)
{
	double half = 0, (*found)[2] = malloc((c->nerrors + 1) * sizeof(*found));
	size_t n = 0;

	if (!found)
		return false;
	for (int any = 0; any < 2 && n < NEAREST; any++) {
		n = 0;
		for (const struct bb_cross_error *e = c->errors; e < c->errors + c->nerrors; e++) {
			if (e->kind != o->kind || (o->kind == BB_CROSS_BEYOND &&
						   (e->beyond * o->beyond < 0 ||
						    (!any && fabs(e->beyond - o->beyond) > FAR))))
				continue;
			found[n][0] = fabs(log(e->of->call.bytes / query->call.bytes));
			found[n++][1] = fabs(e->error);
		}
	}
	qsort(found, n, sizeof(*found), compare_distances);
	for (size_t i = 0; i < n && i < NEAREST; i++)
		half = fmax(half, found[i][1]);
	free(found);
	*low = floor(100 * exp(-half)) / 100;
	*high = ceil(100 * exp(half)) / 100;
	return n >= NEAREST;
}

/* ---- opening -------------------------------------------------------------------------- */

/* Why a file without a cluster, or with C's, has too few points. */
static bb_status check_points(const struct bb_calibration *c, struct bb_error *error)
{
	if (c->n >= BB_FEWEST_POINTS)
		return BB_OK;
	if (c->cluster && c->far > c->n + c->others)
		return bb_fail(error, BB_EUSAGE,
			       "--calibrate: %zu times of %s are more than 10 times as long or as "
			       "short as the model of --cluster %s has them: another machine, or "
			       "not microseconds",
			       c->far, c->path, c->cluster->name);
	if (c->cluster)
		return bb_fail(error, BB_EUSAGE,
			       "--calibrate: %s has %zu results of NCCL among several ranks, of "
			       "at least %d, and %zu others (of one rank, of other backends, or "
			       "of GPUs whose links have no model); with --cluster, give a log of "
			       "nccl-tests or the --json of the nccl backend; without it, of other "
			       "backends",
			       c->path, c->n, BB_FEWEST_POINTS, c->others);
	if (c->is_table)
		return bb_fail(
			error, BB_EUSAGE,
			"--calibrate: %s is a log of nccl-tests; name its machine too, as in "
			"--cluster hgx-h100:1",
			c->path);
	return bb_fail(error, BB_EUSAGE,
		       "--calibrate: %s has %zu results of schedules among several ranks, "
		       "and %zu others; give what --json FILE wrote of a run with --algo "
		       "ring,tree over several sizes; results of NCCL need --cluster",
		       c->path, c->n, c->others);
}

bb_status bb_calibration_read(struct bb_calibration **calibration, const char *path,
			      const struct bb_cluster *cluster,
			      const struct bb_nccl_constants *constants, struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--calibrate", .path = path, .most = FILE_MOST};
	struct bb_calibration *c = calloc(1, sizeof(*c));
	char *text = NULL;
	size_t length;
	bb_status st;

	if (!c)
		return bb_no_memory(error, "--calibrate");
	if (cluster && !constants->generation) {
		free(c);
		return bb_fail(
			error, BB_EUNSUPPORTED,
			cluster->inside == BB_INSIDE_MEMORY
				? "--calibrate %s: a cluster is calibrated by NCCL's results, but "
				  "--cluster %s has no GPUs; leave one of the two out"
				: "--calibrate %s: there is no model of NCCL for the GPUs of "
				  "--cluster %s",
			path, cluster->name);
	}
	c->path = path;
	c->cluster = cluster;
	c->constants = constants;
	c->model.cores = 1;
	for (int i = 0; cluster && i < BB_SITE_FIGURES; i++)
		c->site.described[i] = c->site.fitted[i] = cluster->figures[figures[i].figure];
	BB_TRY(st, bb_file_read(&request, &text, &length, error), out);
	if (cluster && !memmem(text, length, "{\"schema\":", 10))
		BB_TRY(st, bb_calibration_tables(c, text, length, error), out);
	else
		BB_TRY(st, bb_calibration_lines(c, text, error), out);
	BB_TRY(st, check_points(c, error), out);
	if (!calibration_fit(c) || !cross_validate(c))
		st = bb_no_memory(error, "--calibrate");
out:
	free(text);
	if (st == BB_OK)
		*calibration = c;
	else
		bb_calibration_free(c);
	return st;
}

/* ---- predictions of calls ------------------------------------------------------------- */

static struct bb_point query_of(const struct bb_algorithm *schedule, const struct bb_shape *shape,
				size_t element)
{
	const double bytes = (double)bb_size_count(schedule->collective, shape) * (double)element;

	return (struct bb_point){
		.call = {.collective = schedule->collective,
			 .in_place = shape->in_place,
			 .bytes = fmax(bytes, 1)},
		.schedule = schedule,
		.cost = bb_cost_of(schedule, shape, element),
	};
}

/* Set what SUPPORT has of the very case of QUERY, which is in SERIES (NULL: none) if it is known.
 */
static void find_case(const struct bb_calibration_series *series, const struct bb_point *query,
		      struct bb_calibrated *support)
{
	*support = (struct bb_calibrated){NAN, NAN, NAN, NAN, NAN, NAN};
	for (size_t i = 0; series && i < series->n; i++) {
		const struct bb_point *p = &series->first[i];

		if (compare(p, query, SAME_SIZE) != 0)
			continue;
		support->measured = p->time;
		if (p->median) {
			support->measured_min = p->least;
			support->measured_p95 = p->p95;
		}
		support->left_out = p->left_out > 0 ? p->left_out : NAN;
		return;
	}
}

double bb_calibration_of_nccl(const struct bb_calibration *c, const struct bb_nccl_call *call,
			      struct bb_calibrated *support)
{
	struct bb_point query = {
		.call = *call,
		.nodes = call->machine->nodes,
		.cost.nranks = call->machine->ranks,
	};
	double low, high;

	query.call.bytes = fmax(call->bytes, 1);
	struct outlook o = outlook_of(c, &query);
	find_case(o.series, &query, support);
	bb_nccl_interval(c->constants, call, &support->low, &support->high);
	if (o.kind > BB_CROSS_BEYOND) {
		/* Figures that were fitted to some collectives may not hold for another one: the
		   interval includes that of the cluster as it is described. */
		struct bb_nccl_machine described = *call->machine;
		struct bb_nccl_call other = *call;

		machine_adjust(c->site.fitted, c->site.described, &described);
		other.machine = &described;
		const double times = bb_nccl_call_time(c->constants, &other) /
				     bb_nccl_call_time(c->constants, call);
		bb_nccl_interval(c->constants, &other, &low, &high);
		support->low = fmin(support->low, floor(100 * times * low) / 100);
		support->high = fmax(support->high, ceil(100 * times * high) / 100);
	}
	if (cross_interval(c, &query, &o, &low, &high)) {
		/* Elsewhere what was left out is more like the rest of this run than what is
		   predicted. */
		const bool between = o.kind == BB_CROSS_BETWEEN;

		support->low = between ? low : fmin(low, support->low);
		support->high = between ? high : fmax(high, support->high);
	}
	return o.factor;
}

double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element,
			   struct bb_calibrated *support)
{
	const struct bb_point query = query_of(schedule, shape, element);
	const struct outlook o = outlook_of(c, &query);

	find_case(o.series, &query, support);
	if (!cross_interval(c, &query, &o, &support->low, &support->high))
		support->low = support->high = NAN;
	return model_time(c, &query) * o.factor;
}

const struct bb_algorithm *bb_calibration_choose(const struct bb_calibration *c, const char *name,
						 const struct bb_collective *collective,
						 struct bb_shape *shape, size_t element)
{
	const struct bb_algorithm *best = NULL;
	bool best_measured = false;
	double least = INFINITY;
	struct bb_shape cut = *shape;

	for (int i = 0; bb_algorithms[i]; i++) {
		const struct bb_algorithm *a = bb_algorithms[i];
		const struct bb_point *near; /* of its series, nearest in size */

		if (a->collective != collective || (name && strcmp(a->name, name) != 0))
			continue;
		struct bb_point query = query_of(a, &cut, element);
		struct outlook o = outlook_of(c, &query);
		near = o.series ? o.series->first : NULL;
		for (size_t k = 1; near && k < o.series->n; k++) {
			const struct bb_point *p = &o.series->first[k];

			if (fabs(log((p->call.bytes + 1) / (query.call.bytes + 1))) <
			    fabs(log((near->call.bytes + 1) / (query.call.bytes + 1))))
				near = p;
		}
		cut.chunk = near ? near->chunk / element : 0;
		query = query_of(a, &cut, element);
		const double time = model_time(c, &query) * o.factor;
		if ((o.series != NULL) < best_measured ||
		    ((o.series != NULL) == best_measured && time >= least))
			continue;
		best = a;
		best_measured = o.series != NULL;
		least = time;
		shape->chunk = cut.chunk;
	}
	return best;
}
