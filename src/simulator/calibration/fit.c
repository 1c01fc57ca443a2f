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

static double cost_time(const struct bb_cost_model *m, const struct bb_cost *cost)
{
	double share;
	const int k = knot_of(m, cost->size, &share);
	double per_byte = (1 - share) * m->per_byte[k];

	if (share > 0)
		per_byte += share * m->per_byte[k + 1];
	return cost->rounds * m->latency[count_of(m, cost->nranks)] + work_of(m, cost) * per_byte;
}

/* Set the numbers of ranks and the knots of M to those of N POINTS. */
static void find_unknowns(struct bb_cost_model *m, const struct bb_point *points, size_t n)
{
	double least = INFINITY, most = 1;

	m->ncounts = 0;
	for (const struct bb_point *p = points; p < points + n; p++) {
		int known = 0;

		while (known < m->ncounts && m->counts[known] != p->cost.nranks)
			known++;
		if (known == m->ncounts && known < BB_MOST_COUNTS)
			m->counts[m->ncounts++] = p->cost.nranks;
		least = fmin(least, fmax(p->cost.size, 1));
		most = fmax(most, p->cost.size);
	}
	m->first = (int)floor(log2(least));
	m->nknots = 1 + (int)ceil((log2(most) - m->first) / OCTAVES);
	if (m->nknots > BB_MOST_KNOTS)
		m->nknots = BB_MOST_KNOTS;
}

/* Least squares of A x = 1 with x >= 0, by coordinates. A row of A has the coefficient of each
   unknown in the time of a point, over that time. Unknowns of bytes are increments over the knot
   before and never negative, as more bytes are not in faster memory. Otherwise the latency of a
   round would pass for slow bytes of short messages. */
static void cost_fit(struct bb_cost_model *m, const struct bb_point *points, size_t n)
{
	double square[UNKNOWNS][UNKNOWNS] = {{0}}, sum[UNKNOWNS] = {0},
	       x[UNKNOWNS] = {0}; /* A'A, A'1 */
	double most = 0;
	int unknowns;

	find_unknowns(m, points, n);
	unknowns = m->ncounts + m->nknots;
	for (const struct bb_point *p = points; p < points + n; p++) {
		double row[UNKNOWNS] = {0}, share;
		const int k = m->ncounts + knot_of(m, p->cost.size, &share);

		row[count_of(m, p->cost.nranks)] = p->cost.rounds / p->time;
		row[k] = (1 - share) * work_of(m, &p->cost) / p->time;
		if (share > 0)
			row[k + 1] = share * work_of(m, &p->cost) / p->time;
		for (int i = unknowns - 2; i >= m->ncounts; i--)
			row[i] += row[i + 1];
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
	memcpy(m->latency, x, (size_t)m->ncounts * sizeof(*x));
	for (int k = 0; k < m->nknots; k++)
		m->per_byte[k] = x[m->ncounts + k] + (k > 0 ? m->per_byte[k - 1] : 0);
}

/* ---- series and the fit --------------------------------------------------------------- */

/* The same schedule, or the same algorithm and protocol of NCCL for one collective? */
static bool same_algorithm(const struct bb_point *a, const struct bb_point *b)
{
	return a->call.collective == b->call.collective && a->schedule == b->schedule &&
	       a->call.algorithm == b->call.algorithm && a->call.protocol == b->call.protocol;
}

/* Compare the series of two points; without PLACED placements count as one. */
static int compare_series(const struct bb_point *a, const struct bb_point *b, bool placed)
{
	const int by[] = {
		strcmp(a->call.collective->name, b->call.collective->name),
		a->schedule != b->schedule ? strcmp(a->schedule->name, b->schedule->name) : 0,
		(int)a->call.algorithm - (int)b->call.algorithm,
		(int)a->call.protocol - (int)b->call.protocol,
		a->cost.nranks - b->cost.nranks,
		a->nodes - b->nodes,
		placed ? (int)a->call.in_place - (int)b->call.in_place : 0,
	};
	size_t i = 0;

	while (i + 1 < sizeof(by) / sizeof(by[0]) && by[i] == 0)
		i++;
	return by[i];
}

/* Series by series, by size in each. */
static int compare_points(const void *a, const void *b)
{
	const struct bb_point *x = a, *y = b;
	const int by_series = compare_series(x, y, true);

	return by_series != 0 ? by_series
			      : (x->call.bytes > y->call.bytes) - (x->call.bytes < y->call.bytes);
}

/* Seconds of P by the model alone. */
static double model_time(const struct bb_calibration *c, const struct bb_point *p)
{
	return c->cluster ? bb_site_time(c, p) : cost_time(&c->model, &p->cost);
}

/* Sort the points and set their series, the model and what is left. False: out of memory. */
static bool calibration_fit(struct bb_calibration *c)
{
	struct bb_calibration_series *last = NULL;

	qsort(c->points, c->n, sizeof(*c->points), compare_points);
	for (struct bb_point *p = c->points; p < c->points + c->n; p++) {
		if (!last || compare_series(last->first, p, true) != 0) {
			last = BB_ARRAY_ADD(c->series, c->nseries, c->series_room);
			if (!last)
				return false;
			*last = (struct bb_calibration_series){.first = p};
		}
		last->n++;
	}
	if (c->cluster && !bb_site_fit(c))
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

/* The series of QUERY's algorithm that is nearest in ranks, nodes and placement, or NULL. */
static const struct bb_calibration_series *nearest_series(const struct bb_calibration *c,
							  const struct bb_point *query)
{
	const struct bb_calibration_series *best = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < c->nseries; i++) {
		const struct bb_point *p = c->series[i].first;
		double far = fabs(log2((double)p->cost.nranks / query->cost.nranks));

		if (query->nodes > 0)
			far += fabs(log2((double)p->nodes / query->nodes));
		far += p->call.in_place != query->call.in_place ? 0.1 : 0;
		if (same_algorithm(p, query) && far < least) {
			least = far;
			best = &c->series[i];
		}
	}
	return best;
}

/* How QUERY would be predicted. *BEYOND: octaves beyond the measured sizes, for that kind alone. */
static enum bb_cross_kind kind_of(const struct bb_calibration *c, const struct bb_point *query,
				  double *beyond)
{
	const struct bb_calibration_series *series = nearest_series(c, query);
	const struct bb_point *first = series ? series->first : NULL;

	*beyond = 0;
	if (series && compare_series(first, query, false) == 0) {
		if (query->call.bytes > first[series->n - 1].call.bytes)
			*beyond = log2(query->call.bytes / first[series->n - 1].call.bytes);
		else if (query->call.bytes < first->call.bytes)
			*beyond = log2(query->call.bytes / first->call.bytes);
		return *beyond == 0 ? BB_CROSS_BETWEEN : BB_CROSS_BEYOND;
	}
	if (series)
		return BB_CROSS_RANKS;
	for (size_t i = 0; i < c->nseries; i++)
		if (c->series[i].first->call.collective == query->call.collective)
			return BB_CROSS_ALGORITHM;
	return BB_CROSS_COLLECTIVE;
}

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

/* The factor on the model's time of QUERY. The model of NCCL holds for any machine: what a run
   leaves says little of other numbers of ranks, and less of each further octave of sizes. */
static double left_factor(const struct bb_calibration *c, const struct bb_point *query)
{
	const struct bb_calibration_series *series = nearest_series(c, query);
	double beyond, left = series ? left_at(series, query->call.bytes) : 0;

	if (c->cluster && kind_of(c, query, &beyond) == BB_CROSS_RANKS)
		left = 0;
	else if (c->cluster)
		left *= exp2(-fabs(beyond) / HALF_LIFE);
	return exp(left);
}

/* Seconds of QUERY, whose time and left are not used. */
static double predict(const struct bb_calibration *c, const struct bb_point *query)
{
	return model_time(c, query) * left_factor(c, query);
}

/* ---- cross-validation ----------------------------------------------------------------- */

/* Results are left out of the fit in turn and predicted; the errors give the intervals of
   predictions. */

/* The largest of so many errors in random order holds the next one in nine of ten cases. */
#define NEAREST 9
#define BINS 2 /* of sizes in an octave; the sizes of one are left out together */
#define FAR 1  /* octaves by which distances beyond the measured sizes may differ */

/* ---- what is left out ----------------------------------------------------------------- */

enum aspect { OF_BIN, OF_LARGER, OF_SMALLER, OF_SERIES, OF_RANKS, OF_ALGORITHM, OF_COLLECTIVE };

/* The results that are like LIKE in one ASPECT. */
struct fold {
	enum aspect aspect;
	const struct bb_point *like;
};

static int bin_of(const struct bb_point *p)
{
	return (int)floor(BINS * log2(p->call.bytes) + 0.5);
}

static bool is_of(const struct fold *fold, const struct bb_point *p)
{
	const struct bb_point *like = fold->like;

	switch (fold->aspect) {
	case OF_BIN:
		return bin_of(p) == bin_of(like);
	case OF_LARGER:
		return bin_of(p) >= bin_of(like);
	case OF_SMALLER:
		return bin_of(p) <= bin_of(like);
	case OF_SERIES:
		return compare_series(p, like, false) == 0;
	case OF_RANKS:
		return p->cost.nranks == like->cost.nranks && p->nodes == like->nodes;
	case OF_ALGORITHM:
		return same_algorithm(p, like);
	default:
		return p->call.collective == like->call.collective;
	}
}

/* Add the error of PART, a fit without P, for P. FIRST: the first error of this fold; where two
   placements of one case were left out together, the larger error counts for both. */
static bool add_error(struct bb_calibration *c, const struct bb_calibration *part, size_t first,
		      const struct bb_point *p)
{
	struct bb_cross_error *e = NULL, new = {.of = p};

	for (size_t i = first; !e && i < c->nerrors; i++)
		if (c->errors[i].of->call.bytes == p->call.bytes &&
		    compare_series(c->errors[i].of, p, false) == 0)
			e = &c->errors[i];
	new.kind = kind_of(part, p, &new.beyond);
	new.error = log(p->time / predict(part, p));
	if (e && fabs(e->error) >= fabs(new.error))
		return true;
	if (!e)
		e = BB_ARRAY_ADD(c->errors, c->nerrors, c->error_room);
	if (e)
		*e = new;
	return e;
}

/* Fit without the results of FOLD, and predict them. False: out of memory. */
static bool fold_leave_out(struct bb_calibration *c, const struct fold *fold)
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
		if (!is_of(fold, &c->points[i]))
			part.points[part.n++] = c->points[i];
	if (part.n >= BB_FEWEST_POINTS && part.n < c->n) {
		good = calibration_fit(&part);
		for (size_t i = 0; good && i < c->n; i++) {
			struct bb_point *p = &c->points[i];

			if (!is_of(fold, p))
				continue;
			good = add_error(c, &part, first, p);
			if (fold->aspect == OF_BIN)
				p->left_out = predict(&part, p);
		}
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
			const struct fold fold = {aspect, &c->points[i]};
			const struct fold same = {
				aspect == OF_LARGER || aspect == OF_SMALLER ? OF_BIN : aspect,
				fold.like};
			size_t k = 0;

			while (k < i && !is_of(&same, &c->points[k]))
				k++;
			if (k == i)
				good = fold_leave_out(c, &fold);
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
		    (!of || compare_series(c->errors[i].of, of, false) == 0))
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

/* Set FOUND to the distances and errors of predictions like that of QUERY; beyond measured sizes,
   of those on the same side and at most APART octaves nearer or farther. Returns their number. */
static size_t find_alike(const struct bb_calibration *c, const struct bb_point *query, double apart,
			 double (*found)[2])
{
	double beyond;
	const enum bb_cross_kind kind = kind_of(c, query, &beyond);
	size_t n = 0;

	for (size_t i = 0; i < c->nerrors; i++) {
		const struct bb_cross_error *e = &c->errors[i];

		if (e->kind != kind ||
		    (kind == BB_CROSS_BEYOND &&
		     (e->beyond * beyond < 0 || fabs(e->beyond - beyond) > apart)))
			continue;
		found[n][0] = fabs(log(e->of->call.bytes / query->call.bytes));
		found[n++][1] = fabs(e->error);
	}
	return n;
}

/* Set *LOW and *HIGH to multiples of the prediction of QUERY between which nine in ten measurements
   should lie. False: too few errors of such predictions are known, or out of memory. */
static bool cross_interval(const struct bb_calibration *c, const struct bb_point *query,
			   double *low, double *high)
{
	double half = 0, (*found)[2] = malloc((c->nerrors + 1) * sizeof(*found));
	size_t n;

	if (!found)
		return false;
	n = find_alike(c, query, FAR, found);
	/* Too few errors at this distance: all on this side. */
	if (n < NEAREST)
		n = find_alike(c, query, INFINITY, found);
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
	if (cluster)
		bb_site_describe(&c->site, cluster);
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

/* Set what SUPPORT has of the very case of QUERY. */
static void find_case(const struct bb_calibration *c, const struct bb_point *query,
		      struct bb_calibrated *support)
{
	const struct bb_calibration_series *series = nearest_series(c, query);

	support->measured = support->left_out = support->measured_min = support->measured_p95 = NAN;
	if (!series || compare_series(series->first, query, true) != 0)
		return;
	for (const struct bb_point *p = series->first; p < series->first + series->n; p++) {
		if (p->call.bytes != query->call.bytes)
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
	double beyond, low, high;
	const enum bb_cross_kind kind = kind_of(c, &query, &beyond);

	query.call.bytes = fmax(call->bytes, 1);
	find_case(c, &query, support);
	bb_nccl_interval(c->constants, call, &support->low, &support->high);
	if (kind > BB_CROSS_BEYOND) {
		/* Figures that were fitted to some collectives may not hold for another one: the
		   interval includes that of the cluster as it is described. */
		struct bb_nccl_machine described = *call->machine;
		struct bb_nccl_call other = *call;
		double times;

		bb_site_restore(c, &described);
		other.machine = &described;
		times = bb_nccl_call_time(c->constants, &other) /
			bb_nccl_call_time(c->constants, call);
		bb_nccl_interval(c->constants, &other, &low, &high);
		support->low = fmin(support->low, floor(100 * times * low) / 100);
		support->high = fmax(support->high, ceil(100 * times * high) / 100);
	}
	if (cross_interval(c, &query, &low, &high)) {
		/* Elsewhere what was left out is more like the rest of this run than what is
		   predicted. */
		const bool between = kind == BB_CROSS_BETWEEN;

		support->low = between ? low : fmin(low, support->low);
		support->high = between ? high : fmax(high, support->high);
	}
	return left_factor(c, &query);
}

double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element,
			   struct bb_calibrated *support)
{
	const struct bb_point query = query_of(schedule, shape, element);

	find_case(c, &query, support);
	if (!cross_interval(c, &query, &support->low, &support->high))
		support->low = support->high = NAN;
	return predict(c, &query);
}

/* The chunk of SERIES in bytes, at the size nearest to BYTES. */
static size_t nearest_chunk(const struct bb_calibration_series *series, double bytes)
{
	const struct bb_point *best = series->first;

	for (const struct bb_point *p = best + 1; p < series->first + series->n; p++)
		if (fabs(log((p->call.bytes + 1) / (bytes + 1))) <
		    fabs(log((best->call.bytes + 1) / (bytes + 1))))
			best = p;
	return best->chunk;
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
		const struct bb_calibration_series *series;
		struct bb_point query;
		double time;

		if (a->collective != collective || (name && strcmp(a->name, name) != 0) ||
		    (a->refuses && a->refuses(shape)))
			continue;
		query = query_of(a, &cut, element);
		series = nearest_series(c, &query);
		cut.chunk = series ? nearest_chunk(series, query.call.bytes) / element : 0;
		query = query_of(a, &cut, element);
		time = predict(c, &query);
		if ((series != NULL) < best_measured ||
		    ((series != NULL) == best_measured && time >= least))
			continue;
		best = a;
		best_measured = series != NULL;
		least = time;
		shape->chunk = cut.chunk;
	}
	return best;
}
