/*
 * calibration_read.c - the results of schedules in records.
 */
#include "simulator/calibration_parts.h"

#include "core/datatype.h"
#include "core/json_find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORD 64
#define RANKS_MOST (1 << 20)
#define COUNT_MOST ((size_t)1 << 40) /* elements; those of all ranks fit into a size_t */
#define TIME_LEAST 1e-4              /* us: a clock cannot see less */
#define TIME_MOST 3.2e13             /* us: a year */

struct bb_cost bb_cost_of(const struct bb_algorithm *schedule, const struct bb_shape *shape,
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

/* The schedule of LINE of RUN; NULL: none, or a library's own algorithm, or a model of one. */
static const struct bb_algorithm *schedule_of(const struct bb_claims *run, const char *line)
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
	else if (strcmp(run->backend, "nccl") == 0)
		return NULL; /* a plain name is NCCL's */
	return collective ? bb_algorithm_find(collective, own) : NULL;
}

/* No fit survives the times of a broken record. */
static bool is_time(double us)
{
	return us >= TIME_LEAST && us <= TIME_MOST;
}

bool bb_calibration_samples(struct bb_point *p, const char *line)
{
	double samples, median, least, p95;

	if (!bb_json_find_number(line, "samples", &samples) || !(samples > 1) ||
	    !bb_json_find_number(line, "p50_us", &median) || !is_time(median))
		return false;
	p->time = p->least = p->p95 = median * 1e-6;
	if (bb_json_find_number(line, "min_us", &least) && is_time(least) && least < median)
		p->least = least * 1e-6;
	if (bb_json_find_number(line, "p95_us", &p95) && is_time(p95) && p95 > median)
		p->p95 = p95 * 1e-6;
	return true;
}

/* Read a result into POINT. False: it is not the result of a schedule among several ranks. */
static bool read_point(const struct bb_claims *run, const char *line, struct bb_point *point)
{
	struct bb_shape shape = {.nranks = 0};
	double count, ranks, time, chunk = 0;
	char dtype[WORD];
	enum bb_dtype type;

	*point = (struct bb_point){.schedule = schedule_of(run, line)};
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
	if (type == BB_NDTYPES || !(ranks >= 2 && ranks <= RANKS_MOST) ||
	    !(count >= 1 && count <= COUNT_MOST) || !(chunk >= 0 && chunk <= COUNT_MOST) ||
	    !is_time(time) || !(point->bytes >= 1 && isfinite(point->bytes)))
		return false;
	point->collective = point->schedule->collective;
	point->chunk = (size_t)chunk;
	point->time = time * 1e-6;
	point->median = bb_calibration_samples(point, line);
	shape.nranks = (int)ranks;
	shape.count = (size_t)count;
	shape.in_place = point->in_place;
	shape.chunk = point->chunk / bb_dtype_size(type);
	if (point->schedule->refuses && point->schedule->refuses(&shape))
		return false;
	point->cost = bb_cost_of(point->schedule, &shape, bb_dtype_size(type));
	return true;
}

static void run_read(struct bb_calibration *c, const char *line)
{
	double cores;

	bb_calibration_run(&c->run, line);
	if (bb_json_find_number(line, "cores", &cores) && cores >= 1)
		c->model.cores = cores < RANKS_MOST ? (int)cores : RANKS_MOST;
}

static bb_status line_read(struct bb_calibration *c, const char *line, struct bb_error *error)
{
	struct bb_point point;
	char kind[WORD];

	if (!bb_json_find_string(line, "kind", kind, sizeof(kind)))
		c->is_table = c->is_table || strstr(line, "out-of-place");
	else if (strcmp(kind, "run") == 0)
		run_read(c, line);
	else if (strcmp(kind, "result") == 0 && c->cluster)
		return bb_calibration_record(c, &c->run, line, error);
	else if (strcmp(kind, "result") == 0 && !read_point(&c->run, line, &point))
		c->others++;
	else if (strcmp(kind, "result") == 0 && !bb_calibration_add(c, &point))
		return bb_no_memory(error, "records");
	return BB_OK;
}

bb_status bb_calibration_lines(struct bb_calibration *c, char *text, struct bb_error *error)
{
	bb_status st = BB_OK;
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line && st == BB_OK;
	     line = strtok_r(NULL, "\n", &rest))
		st = line_read(c, line, error);
	return st;
}
