#include "simulator/calibration_parts.h"

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

/* ---- series and the fit ---------------------------------------------------------------------- */

bool bb_calibration_add(struct bb_calibration *c, const struct bb_point *point)
{
	struct bb_point *new = BB_ARRAY_ADD(c->points, c->n, c->room);

	if (new)
		*new = *point;
	return new;
}

bool bb_calibration_same_algorithm(const struct bb_point *a, const struct bb_point *b)
{
	return a->collective == b->collective && a->schedule == b->schedule &&
	       a->algorithm == b->algorithm && a->protocol == b->protocol;
}

int bb_calibration_compare(const struct bb_point *a, const struct bb_point *b, bool placed)
{
	const int by_collective = strcmp(a->collective->name, b->collective->name);

	if (by_collective != 0)
		return by_collective;
	if (a->schedule != b->schedule)
		return strcmp(a->schedule->name, b->schedule->name);
	if (a->algorithm != b->algorithm)
		return a->algorithm < b->algorithm ? -1 : 1;
	if (a->protocol != b->protocol)
		return a->protocol < b->protocol ? -1 : 1;
	if (a->cost.nranks != b->cost.nranks)
		return a->cost.nranks < b->cost.nranks ? -1 : 1;
	if (a->nodes != b->nodes)
		return a->nodes < b->nodes ? -1 : 1;
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

/* Seconds of P by the model alone. */
static double model_time(const struct bb_calibration *c, const struct bb_point *p)
{
	return c->cluster ? bb_site_time(c, p) : bb_cost_time(&c->model, &p->cost);
}

bool bb_calibration_fit(struct bb_calibration *c)
{
	qsort(c->points, c->n, sizeof(*c->points), compare_points);
	if (!list_series(c) || (c->cluster && !bb_site_fit(c)))
		return false;
	if (!c->cluster)
		bb_cost_fit(&c->model, c->points, c->n);
	for (size_t i = 0; i < c->n; i++) {
		struct bb_point *p = &c->points[i];
		const double modelled = model_time(c, p);

		p->left = modelled > 0 ? log(p->time / modelled) : 0;
	}
	return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

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

static bb_status text_read(struct bb_calibration *c, char *text, size_t length,
			   struct bb_error *error)
{
	if (c->cluster && !memmem(text, length, "{\"schema\":", 10))
		return bb_calibration_tables(c, text, length, error);
	return bb_calibration_lines(c, text, error);
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
	BB_TRY(st, text_read(c, text, length, error), out);
	BB_TRY(st, check_points(c, error), out);
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
		.collective = schedule->collective,
		.schedule = schedule,
		.in_place = shape->in_place,
		.bytes = fmax((double)bb_size_count(schedule->collective, shape) * (double)element,
			      1),
		.cost = bb_cost_of(schedule, shape, element),
	};
}

/* The distance of a series from the request. INFINITY: another algorithm. */
static double series_distance(const struct bb_calibration_series *series,
			      const struct bb_point *query)
{
	const struct bb_point *p = series->first;
	double far = fabs(log2((double)p->cost.nranks / query->cost.nranks));

	if (!bb_calibration_same_algorithm(p, query))
		return INFINITY;
	if (query->nodes > 0)
		far += fabs(log2((double)p->nodes / query->nodes));
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
		if (c->series[i].first->collective == query->collective)
			return BB_CROSS_ALGORITHM;
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

/* The factor on the model's time of QUERY. The model of NCCL holds for any machine: what a run
   leaves says little of other numbers of ranks, and less of each further octave of sizes. */
static double left_factor(const struct bb_calibration *c, const struct bb_point *query)
{
	const struct bb_calibration_series *series = nearest_series(c, query);
	double beyond, left = series ? left_at(series, query->bytes) : 0;

	if (c->cluster && bb_calibration_kind(c, query, &beyond) == BB_CROSS_RANKS)
		left = 0;
	else if (c->cluster)
		left *= exp2(-fabs(beyond) / HALF_LIFE);
	return exp(left);
}

double bb_calibration_predict(const struct bb_calibration *c, const struct bb_point *query)
{
	return model_time(c, query) * left_factor(c, query);
}

/* Set what SUPPORT has of the very case of QUERY. */
static void find_case(const struct bb_calibration *c, const struct bb_point *query,
		      struct bb_calibrated *support)
{
	const struct bb_calibration_series *series = nearest_series(c, query);

	support->measured = support->left_out = support->measured_min = support->measured_p95 = NAN;
	if (!series || bb_calibration_compare(series->first, query, true) != 0)
		return;
	for (const struct bb_point *p = series->first; p < series->first + series->n; p++) {
		if (p->bytes != query->bytes)
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

/* Figures that were fitted to some collectives may not hold for another one: the interval of CALL
   includes that of the cluster as it is described. */
static void include_description(const struct bb_calibration *c, const struct bb_nccl_call *call,
				struct bb_calibrated *support)
{
	struct bb_nccl_machine described = *call->machine;
	struct bb_nccl_call other = *call;
	double low, high, times;

	bb_site_restore(c, &described);
	other.machine = &described;
	times = bb_nccl_call_time(c->constants, &other) / bb_nccl_call_time(c->constants, call);
	bb_nccl_interval(c->constants, &other, &low, &high);
	support->low = fmin(support->low, floor(100 * times * low) / 100);
	support->high = fmax(support->high, ceil(100 * times * high) / 100);
}

double bb_calibration_of_nccl(const struct bb_calibration *c, const struct bb_nccl_call *call,
			      struct bb_calibrated *support)
{
	const struct bb_point query = {
		.collective = call->collective,
		.algorithm = call->algorithm,
		.protocol = call->protocol,
		.nodes = call->machine->nodes,
		.in_place = call->in_place,
		.bytes = fmax(call->bytes, 1),
		.cost.nranks = call->machine->ranks,
	};
	double beyond, low, high;
	const enum bb_cross_kind kind = bb_calibration_kind(c, &query, &beyond);

	find_case(c, &query, support);
	bb_nccl_interval(c->constants, call, &support->low, &support->high);
	if (kind > BB_CROSS_BEYOND)
		include_description(c, call, support);
	if (bb_cross_interval(c, &query, &low, &high)) {
		/* Elsewhere what was left out is more like the rest of this run than what is
		   predicted. */
		const bool between = kind == BB_CROSS_BETWEEN;

		support->low = between ? low : fmin(low, support->low);
		support->high = between ? high : fmax(high, support->high);
	}
	return left_factor(c, &query);
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

void bb_calibration_support(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, size_t element,
			    struct bb_calibrated *support)
{
	const struct bb_point query = query_of(schedule, shape, element);

	find_case(c, &query, support);
	if (!bb_cross_interval(c, &query, &support->low, &support->high))
		support->low = support->high = NAN;
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
