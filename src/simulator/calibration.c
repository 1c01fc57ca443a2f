#include "simulator/calibration_parts.h"

#include "core/array.h"
#include "core/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* results to fit anything to */
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

/* ---- series and the fit ---------------------------------------------------------------------- */

int bb_calibration_compare(const struct bb_point *a, const struct bb_point *b, bool placed)
{
	const int by_name = strcmp(a->schedule->name, b->schedule->name);

	if (a->schedule->collective != b->schedule->collective)
		return strcmp(a->schedule->collective->name, b->schedule->collective->name);
	if (by_name != 0)
		return by_name;
	if (a->cost.nranks != b->cost.nranks)
		return a->cost.nranks < b->cost.nranks ? -1 : 1;
	return placed ? (int)a->in_place - (int)b->in_place : 0;
}

/* Series by series, by size in each. */
static int compare_points(const void *a, const void *b)
{
	const struct bb_point *x = a, *y = b;
	const int by_series = bb_calibration_compare(x, y, true);

	return by_series != 0 ? by_series : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* List the series of the points, which are sorted. False: out of memory. */
static bool list_series(struct bb_calibration *c)
{
	struct bb_calibration_series *last = NULL;

	for (struct bb_point *p = c->points; p < c->points + c->n; p++) {
		if (!last || bb_calibration_compare(last->first, p, true) != 0) {
			last = BB_ARRAY_ADD(c->series, c->nseries, c->series_room);
			if (!last)
				return false;
			*last = (struct bb_calibration_series){.first = p};
		}
		last->n++;
	}
	return true;
}

bool bb_calibration_fit(struct bb_calibration *c)
{
	qsort(c->points, c->n, sizeof(*c->points), compare_points);
	if (!list_series(c))
		return false;
	bb_cost_fit(&c->model, c->points, c->n);
	for (size_t i = 0; i < c->n; i++) {
		struct bb_point *p = &c->points[i];
		const double modelled = bb_cost_time(&c->model, &p->cost);

		p->left = modelled > 0 ? log(p->time / modelled) : 0;
	}
	return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bb_status check_points(const struct bb_calibration *c, const char *path,
			      struct bb_error *error)
{
	if (c->n >= BB_FEWEST_POINTS)
		return BB_OK;
	if (c->is_table)
		return bb_fail(
			error, BB_EUSAGE,
			"--calibrate: %s is a table in the format of nccl-tests, not records; "
			"give what --json FILE wrote. What NCCL chose cannot be fitted: set "
			"gpu_efficiency, nic_efficiency, nccl_nic_latency and nccl_issue in a "
			"file for --cluster",
			path);
	return bb_fail(error, BB_EUSAGE,
		       "--calibrate: %s has %zu results of schedules among several ranks, "
		       "and %zu others; give what --json FILE wrote of a run with --algo "
		       "ring,tree over several sizes",
		       path, c->n, c->others);
}

bb_status bb_calibration_read(struct bb_calibration **calibration, const char *path,
			      struct bb_error *error)
{
	const struct bb_file_request request = {
		.option = "--calibrate", .path = path, .most = FILE_MOST};
	struct bb_calibration *c = calloc(1, sizeof(*c));
	char *text = NULL;
	size_t length;
	bb_status st;

	if (!c)
		return bb_no_memory(error, "--calibrate");
	BB_TRY(st, bb_file_read(&request, &text, &length, error), out);
	BB_TRY(st, bb_calibration_lines(c, text, error), out);
	BB_TRY(st, check_points(c, path, error), out);
	if (c->model.cores == 0)
		c->model.cores = 1;
	if (!bb_calibration_fit(c) || !bb_cross_validate(c))
		st = bb_no_memory(error, "--calibrate");
out:
	free(text);
	if (st == BB_OK)
		*calibration = c;
	else
		bb_calibration_free(c);
	return st;
}

/* ---- predictions ----------------------------------------------------------------------------- */

static struct bb_point query_of(const struct bb_algorithm *schedule, const struct bb_shape *shape,
				size_t element)
{
	return (struct bb_point){
		.schedule = schedule,
		.in_place = shape->in_place,
		.bytes = fmax((double)bb_size_count(schedule->collective, shape) * (double)element,
			      1),
		.cost = bb_cost_of(schedule, shape, element),
	};
}

/* The distance of a series from the request. INFINITY: another schedule. */
static double series_distance(const struct bb_calibration_series *series,
			      const struct bb_point *query)
{
	const struct bb_point *p = series->first;
	const double far = fabs(log2((double)p->cost.nranks / query->cost.nranks));

	if (p->schedule != query->schedule)
		return INFINITY;
	return far + (p->in_place != query->in_place ? 0.1 : 0);
}

/* The nearest series, or NULL. */
static const struct bb_calibration_series *nearest_series(const struct bb_calibration *c,
							  const struct bb_point *query)
{
	const struct bb_calibration_series *best = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < c->nseries; i++) {
		const double far = series_distance(&c->series[i], query);

		if (far < least) {
			least = far;
			best = &c->series[i];
		}
	}
	return best;
}

enum bb_cross_kind bb_calibration_kind(const struct bb_calibration *c, const struct bb_point *query,
				       double *beyond)
{
	const struct bb_calibration_series *series = nearest_series(c, query);
	const struct bb_point *first = series ? series->first : NULL;

	*beyond = 0;
	if (series && bb_calibration_compare(first, query, false) == 0) {
		if (query->bytes > first[series->n - 1].bytes)
			*beyond = log2(query->bytes / first[series->n - 1].bytes);
		else if (query->bytes < first->bytes)
			*beyond = log2(query->bytes / first->bytes);
		return *beyond == 0 ? BB_CROSS_BETWEEN : BB_CROSS_BEYOND;
	}
	if (series)
		return BB_CROSS_RANKS;
	for (size_t i = 0; i < c->nseries; i++)
		if (c->series[i].first->schedule->collective == query->schedule->collective)
			return BB_CROSS_SCHEDULE;
	return BB_CROSS_COLLECTIVE;
}

/* What is left at BYTES between A and B. */
static double left_between(const struct bb_point *a, const struct bb_point *b, double bytes)
{
	const double whole = log(b->bytes / a->bytes);
	double share = whole > 0 ? log(bytes / a->bytes) / whole : 0.5;

	share = fmin(fmax(share, 0), 1);
	return a->left + share * (b->left - a->left);
}

static double left_at(const struct bb_calibration_series *series, double bytes)
{
	const struct bb_point *p = series->first;
	size_t i = 0;

	if (series->n == 1)
		return p->left;
	while (i + 2 < series->n && p[i + 1].bytes < bytes)
		i++;
	return left_between(&p[i], &p[i + 1], bytes);
}

double bb_calibration_predict(const struct bb_calibration *c, const struct bb_point *query)
{
	const struct bb_calibration_series *series = nearest_series(c, query);
	const double time = bb_cost_time(&c->model, &query->cost);

	return series ? time * exp(left_at(series, query->bytes)) : time;
}

size_t bb_calibration_chunk(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, size_t element)
{
	const struct bb_point query = query_of(schedule, shape, element);
	const struct bb_calibration_series *series = nearest_series(c, &query);
	size_t best = 0;

	for (size_t i = 1; series && i < series->n; i++)
		if (fabs(log((series->first[i].bytes + 1) / (query.bytes + 1))) <
		    fabs(log((series->first[best].bytes + 1) / (query.bytes + 1))))
			best = i;
	return series ? series->first[best].chunk / element : 0;
}

double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element)
{
	const struct bb_point query = query_of(schedule, shape, element);

	return bb_calibration_predict(c, &query);
}

void bb_calibration_interval(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			     const struct bb_shape *shape, size_t element, double *low,
			     double *high)
{
	const struct bb_point query = query_of(schedule, shape, element);

	if (!bb_cross_interval(c, &query, low, high))
		*low = *high = NAN;
}

const struct bb_algorithm *bb_calibration_choose(const struct bb_calibration *c,
						 const struct bb_collective *collective,
						 const struct bb_shape *shape, size_t element)
{
	const struct bb_algorithm *best = NULL;
	bool best_measured = false;
	double least = INFINITY;

	for (int i = 0; bb_algorithms[i]; i++) {
		const struct bb_algorithm *a = bb_algorithms[i];
		struct bb_shape cut = *shape;
		struct bb_point query;
		double time;
		bool measured;

		if (a->collective != collective || (a->refuses && a->refuses(shape)))
			continue;
		cut.chunk = bb_calibration_chunk(c, a, shape, element);
		query = query_of(a, &cut, element);
		measured = nearest_series(c, &query) != NULL;
		time = bb_calibration_predict(c, &query);
		if (measured < best_measured || (measured == best_measured && time >= least))
			continue;
		best = a;
		best_measured = measured;
		least = time;
	}
	return best;
}
