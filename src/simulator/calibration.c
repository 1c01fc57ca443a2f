#include "simulator/calibration_parts.h"

#include "core/array.h"
#include "core/datatype.h"
#include "core/file.h"
#include "core/json_find.h"
#include "core/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEWEST 3 /* results to fit anything to */
#define WORD 64
#define FILE_MOST ((size_t)256 << 20) /* bytes of records */
#define RANKS_MOST (1 << 20)
#define COUNT_MOST ((size_t)1 << 40) /* elements; those of all ranks fit into a size_t */

void bb_calibration_free(struct bb_calibration *c)
{
	if (!c)
		return;
	free(c->points);
	free(c);
}

/* ---- records --------------------------------------------------------------------------------- */

static struct bb_cost cost_of(const struct bb_algorithm *schedule, const struct bb_shape *shape,
			      size_t element)
{
	size_t rounds;
	const double moved = bb_algorithm_cost(schedule, shape, &rounds, NULL);

	return (struct bb_cost){
		.nranks = shape->nranks,
		.rounds = (double)rounds,
		.moved = moved * (double)element,
		.size = (double)shape->nranks * (double)element *
			(double)bb_size_count(schedule->collective, shape),
	};
}

/* The schedule of LINE; NULL: none, or a library's own algorithm, or a model of one. */
static const struct bb_algorithm *schedule_of(const char *line, bool nccl)
{
	const struct bb_collective *collective;
	char name[WORD], algorithm[WORD], library[WORD];
	const char *own = algorithm;

	if (bb_json_find_string(line, "library_algorithm", library, sizeof(library)) ||
	    !bb_json_find_string(line, "collective", name, sizeof(name)) ||
	    !bb_json_find_string(line, "algorithm", algorithm, sizeof(algorithm)))
		return NULL;
	collective = bb_collective_find(name);
	if (strncmp(own, BB_OWN, strlen(BB_OWN)) == 0)
		own = bb_algorithm_own(own);
	else if (nccl)
		return NULL;
	return collective ? bb_algorithm_find(collective, own) : NULL;
}

/* Read a result into POINT. False: it is not the result of a schedule among several ranks. */
static bool read_point(const char *line, bool nccl, struct bb_point *point)
{
	struct bb_shape shape = {.nranks = 0};
	double count, ranks, time, chunk = 0, samples = 0;
	char dtype[WORD];
	enum bb_dtype type;

	*point = (struct bb_point){.schedule = schedule_of(line, nccl)};
	if (!point->schedule || (point->schedule->collective->flags & BB_VARIABLE) ||
	    !bb_json_find_number(line, "count", &count) ||
	    !bb_json_find_number(line, "nranks", &ranks) ||
	    !bb_json_find_number(line, "size_bytes", &point->bytes) ||
	    !bb_json_find_bool(line, "in_place", &point->in_place) ||
	    !bb_json_find_number(line, "time_us", &time) ||
	    !bb_json_find_string(line, "dtype", dtype, sizeof(dtype)))
		return false;
	type = bb_dtype_named(dtype);
	bb_json_find_number(line, "chunk_bytes", &chunk);
	/* The median where there is one. */
	if (bb_json_find_number(line, "samples", &samples) && samples > 1)
		point->median = bb_json_find_number(line, "p50_us", &time);
	if (type == BB_NDTYPES || !(ranks >= 2 && ranks <= RANKS_MOST) ||
	    !(count >= 1 && count <= COUNT_MOST) || !(chunk >= 0 && chunk <= COUNT_MOST) ||
	    !(time > 0 && isfinite(time)) || !(point->bytes >= 1 && isfinite(point->bytes)))
		return false;
	point->chunk = (size_t)chunk;
	point->time = time * 1e-6;
	shape.nranks = (int)ranks;
	shape.count = (size_t)count;
	shape.in_place = point->in_place;
	shape.chunk = point->chunk / bb_dtype_size(type);
	if (point->schedule->refuses && point->schedule->refuses(&shape))
		return false;
	point->cost = cost_of(point->schedule, &shape, bb_dtype_size(type));
	return true;
}

static bool add_point(struct bb_calibration *c, const struct bb_point *point)
{
	struct bb_point *new = BB_ARRAY_ADD(c->points, c->n, c->room);

	if (new)
		*new = *point;
	return new;
}

static bool read_line(struct bb_calibration *c, const char *line)
{
	struct bb_point point;
	char kind[WORD], backend[WORD];
	double cores;

	if (!bb_json_find_string(line, "kind", kind, sizeof(kind))) {
		c->is_table = c->is_table || strstr(line, "out-of-place");
		return true;
	}
	if (strcmp(kind, "run") == 0)
		c->nccl = bb_json_find_string(line, "backend", backend, sizeof(backend)) &&
			  strcmp(backend, "nccl") == 0;
	if (strcmp(kind, "run") == 0 && bb_json_find_number(line, "cores", &cores) && cores >= 1)
		c->model.cores = cores < 1 << 20 ? (int)cores : 1 << 20;
	if (strcmp(kind, "result") != 0)
		return true;
	if (read_point(line, c->nccl, &point))
		return add_point(c, &point);
	c->others++;
	return true;
}

/* Series by series, by size in each. */
static int compare_series(const struct bb_point *a, const struct bb_point *b)
{
	const int by_name = strcmp(a->schedule->name, b->schedule->name);

	if (a->schedule->collective != b->schedule->collective)
		return strcmp(a->schedule->collective->name, b->schedule->collective->name);
	if (by_name != 0)
		return by_name;
	if (a->cost.nranks != b->cost.nranks)
		return a->cost.nranks < b->cost.nranks ? -1 : 1;
	return (int)a->in_place - (int)b->in_place;
}

static int compare_points(const void *a, const void *b)
{
	const struct bb_point *x = a, *y = b;
	const int by_series = compare_series(x, y);

	return by_series != 0 ? by_series : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bb_status read_lines(struct bb_calibration *c, char *text, struct bb_error *error)
{
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!read_line(c, line))
			return bb_no_memory(error, "records");
	return BB_OK;
}

static void fit(struct bb_calibration *c)
{
	qsort(c->points, c->n, sizeof(*c->points), compare_points);
	bb_cost_fit(&c->model, c->points, c->n);
	for (size_t i = 0; i < c->n; i++) {
		struct bb_point *p = &c->points[i];
		const double modelled = bb_cost_time(&c->model, &p->cost);

		p->left = modelled > 0 ? log(p->time / modelled) : 0;
	}
}

static bb_status check_points(const struct bb_calibration *c, const char *path,
			      struct bb_error *error)
{
	if (c->n >= FEWEST)
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
	BB_TRY(st, read_lines(c, text, error), out);
	BB_TRY(st, check_points(c, path, error), out);
	if (c->model.cores == 0)
		c->model.cores = 1;
	fit(c);
out:
	free(text);
	if (st == BB_OK)
		*calibration = c;
	else
		bb_calibration_free(c);
	return st;
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* The distance of POINT's series from the request. INFINITY: another schedule. */
static double distance(const struct bb_point *p, const struct bb_algorithm *schedule,
		       const struct bb_shape *shape)
{
	double far = fabs(log2((double)p->cost.nranks / shape->nranks));

	if (p->schedule != schedule)
		return INFINITY;
	return far + (p->in_place != shape->in_place ? 0.1 : 0);
}

/* The first point of the nearest series, or NULL. */
static const struct bb_point *nearest(const struct bb_calibration *c,
				      const struct bb_algorithm *schedule,
				      const struct bb_shape *shape)
{
	const struct bb_point *best = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < c->n; i++) {
		const double far = distance(&c->points[i], schedule, shape);

		if (far < least) {
			least = far;
			best = &c->points[i];
		}
	}
	return best;
}

static size_t length_of(const struct bb_calibration *c, const struct bb_point *first)
{
	const struct bb_point *p = first;

	while (p < c->points + c->n && compare_series(p, first) == 0)
		p++;
	return (size_t)(p - first);
}

/* What is left at BYTES between A and B. */
static double between(const struct bb_point *a, const struct bb_point *b, double bytes)
{
	const double whole = log(b->bytes / a->bytes);
	double share = whole > 0 ? log(bytes / a->bytes) / whole : 0.5;

	share = fmin(fmax(share, 0), 1);
	return a->left + share * (b->left - a->left);
}

static double left_at(const struct bb_point *series, size_t n, double bytes)
{
	size_t i = 0;

	if (n == 1)
		return series->left;
	while (i + 2 < n && series[i + 1].bytes < bytes)
		i++;
	return between(&series[i], &series[i + 1], fmax(bytes, 1));
}

size_t bb_calibration_chunk(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, size_t element)
{
	const struct bb_point *series = nearest(c, schedule, shape);
	const double bytes = (double)bb_size_count(schedule->collective, shape) * (double)element;
	size_t best = 0;

	for (size_t i = 0; series && i < length_of(c, series); i++)
		if (i == 0 || fabs(log((series[i].bytes + 1) / (bytes + 1))) <
				      fabs(log((series[best].bytes + 1) / (bytes + 1))))
			best = i;
	return series ? series[best].chunk / element : 0;
}

double bb_calibration_time(const struct bb_calibration *c, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element)
{
	const struct bb_cost cost = cost_of(schedule, shape, element);
	const struct bb_point *series = nearest(c, schedule, shape);
	const double bytes = (double)bb_size_count(schedule->collective, shape) * (double)element;
	double time = bb_cost_time(&c->model, &cost);

	if (series)
		time *= exp(left_at(series, length_of(c, series), bytes));
	return time;
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
		double time;
		bool measured;

		if (a->collective != collective || (a->refuses && a->refuses(shape)))
			continue;
		cut.chunk = bb_calibration_chunk(c, a, shape, element);
		measured = nearest(c, a, shape) != NULL;
		time = bb_calibration_time(c, a, &cut, element);
		if (measured < best_measured || (measured == best_measured && time >= least))
			continue;
		best = a;
		best_measured = measured;
		least = time;
	}
	return best;
}

/* ---- quality of the fit -------------------------------------------------------------------- */

/* The median error of the model for N points from FIRST; ERRORS holds N. */
static double model_error(const struct bb_point *first, size_t n, double *errors)
{
	for (size_t i = 0; i < n; i++)
		errors[i] = fabs(expm1(-first[i].left));
	return bb_stats_median(errors, n);
}

/* The same of points predicted from their two neighbours in the series; NAN: there are none. */
static double neighbour_error(const struct bb_point *first, size_t n, double *errors)
{
	size_t found = 0;

	for (size_t i = 1; i + 1 < n; i++) {
		const struct bb_point *p = &first[i];

		if (compare_series(p - 1, p + 1) == 0)
			errors[found++] = fabs(expm1(between(p - 1, p + 1, p->bytes) - p->left));
	}
	return bb_stats_median(errors, found);
}

static void add_errors(const struct bb_point *first, size_t n, struct bb_strbuf *out)
{
	double *errors = malloc(n * sizeof(*errors));
	double value;

	if (!errors)
		return;
	bb_strbuf_addf(out, "%zu results, off by %.1f%% (median)", n,
		       100 * model_error(first, n, errors));
	value = neighbour_error(first, n, errors);
	if (!isnan(value))
		bb_strbuf_addf(out, ", each size from its neighbours by %.1f%%", 100 * value);
	free(errors);
}

/* Tables print means; the fit takes medians where there are any. */
static void add_fitted(const struct bb_calibration *c, struct bb_strbuf *out)
{
	size_t medians = 0;

	for (size_t i = 0; i < c->n; i++)
		medians += c->points[i].median;
	if (medians == c->n)
		bb_strbuf_add(out, "; fitted to medians");
	else if (medians > 0)
		bb_strbuf_addf(out, "; fitted to medians, %zu to the only sample", c->n - medians);
}

void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out)
{
	const struct bb_cost_model *m = &c->model;

	bb_strbuf_addf(out, "# Calibration: ");
	add_errors(c->points, c->n, out);
	add_fitted(c, out);
	if (c->others > 0)
		bb_strbuf_addf(out, "; %zu results are not of schedules", c->others);
	bb_strbuf_addf(out, "\n# Calibration: a round takes");
	for (int i = 0; i < m->ncounts; i++)
		bb_strbuf_addf(out, "%s %.2f us among %d ranks", i > 0 ? "," : "",
			       1e6 * m->latency[i], m->counts[i]);
	bb_strbuf_addf(out, "; each of %d processors moves", m->cores);
	for (int k = 0; k < m->nknots; k++) {
		bb_strbuf_add(out, k > 0 ? ", " : " ");
		if (m->per_byte[k] > 0)
			bb_strbuf_addf(out, "%.3g", 1e-9 / m->per_byte[k]);
		else
			bb_strbuf_add(out, "- (too fast to measure)");
	}
	bb_strbuf_addf(out, " GB/s of 2^%d bytes and every fourfold of that\n", m->first);
	for (size_t i = 0; i < c->n;) {
		const struct bb_point *first = &c->points[i];
		const size_t n = length_of(c, first);

		bb_strbuf_addf(out, "# Calibration: %s %s %d ranks %s: ",
			       first->schedule->collective->name, first->schedule->name,
			       first->cost.nranks, first->in_place ? "in-place" : "out-of-place");
		add_errors(first, n, out);
		bb_strbuf_add(out, "\n");
		i += n;
	}
}
