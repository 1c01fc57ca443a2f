/*
 * results.c - the results that a model is fitted to: of schedules in records, of NCCL
 * on a cluster in records and in the text of nccl-tests.
 */
#include "simulator/calibration/points.h"

#include "core/array.h"
#include "core/datatype.h"
#include "core/json.h"
#include "core/units.h"
#include "topology/cards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FARTHEST 10 /* times as long, or as short, as the model: no time of this machine */
#define WORD 64
#define RANKS_MOST BB_CLUSTER_MOST_RANKS
#define COUNT_MOST ((size_t)1 << 40) /* elements; those of all ranks fit into a size_t */
#define TIME_LEAST 1e-4              /* us: a clock cannot see less */
#define TIME_MOST 3.2e13             /* us: a year */

/* Add POINT, unless it is not of what is fitted or, of NCCL, cannot be of the cluster. */
static bb_status point_add(struct bb_calibration *c, const struct bb_point *point,
			   struct bb_error *error)
{
	if (!point->call.collective) {
		c->others++;
		return BB_OK;
	}
	if (c->cluster) {
		const double ratio = point->time / bb_site_time(c, point);
		struct bb_nccl_call call = point->call;
		double low, high;

		if (!(ratio > 1.0 / FARTHEST && ratio < FARTHEST)) {
			c->far++;
			return BB_OK;
		}
		call.machine = &point->machine;
		bb_nccl_interval(c->constants, &call, &low, &high);
		c->unlike += ratio < low || ratio > high;
	}
	return BB_ARRAY_PUT(c->points, c->n, c->room, *point) ? BB_OK
							      : bb_no_memory(error, "--calibrate");
}

/* ---- records of schedules ------------------------------------------------------------- */

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

/* No fit survives the times of a broken record. */
static bool is_time(double us)
{
	return us >= TIME_LEAST && us <= TIME_MOST;
}

/* Read what a result of any kind has in LINE into P: the median of several samples, with their
   spread, or else the time. False: it is not one among several ranks. */
static bool read_result(const char *line, struct bb_point *p)
{
	double ranks, time, samples, median, least, p95;

	*p = (struct bb_point){.schedule = NULL};
	if (!bb_json_find_number(line, "nranks", &ranks) ||
	    !bb_json_find_number(line, "size_bytes", &p->call.bytes) ||
	    !bb_json_find_bool(line, "in_place", &p->call.in_place) ||
	    !bb_json_find_number(line, "time_us", &time) || !is_time(time) ||
	    !(ranks >= 2 && ranks <= RANKS_MOST) || !(p->call.bytes >= 1 && p->call.bytes < 0x1p60))
		return false;
	p->cost.nranks = (int)ranks;
	p->time = time * 1e-6;
	if (!bb_json_find_number(line, "samples", &samples) || !(samples > 1) ||
	    !bb_json_find_number(line, "p50_us", &median) || !is_time(median))
		return true;
	p->median = true;
	p->time = p->least = p->p95 = median * 1e-6;
	if (bb_json_find_number(line, "min_us", &least) && is_time(least) && least < median)
		p->least = least * 1e-6;
	if (bb_json_find_number(line, "p95_us", &p95) && is_time(p95) && p95 > median)
		p->p95 = p95 * 1e-6;
	return true;
}

/* Read the result of a schedule in the record LINE of RUN into P. P's collective stays NULL where
   it is none, but a library's own algorithm, or a model of one. */
static void schedule_read(const struct bb_claims *run, const char *line, struct bb_point *p)
{
	const struct bb_collective *collective;
	const struct bb_algorithm *schedule;
	char name[WORD], algorithm[WORD], library[WORD], dtype[WORD];
	const bool named = bb_json_find_string(line, "algorithm", algorithm, sizeof(algorithm));
	const bool is_own = named && strncmp(algorithm, BB_OWN, strlen(BB_OWN)) == 0;
	double count, chunk = 0;
	enum bb_dtype type;

	bb_json_find_number(line, "chunk_bytes", &chunk);
	/* A plain name in a run of NCCL is NCCL's. */
	if (!named || bb_json_find_string(line, "library_algorithm", library, sizeof(library)) ||
	    (!is_own && strcmp(run->backend, "nccl") == 0) ||
	    !bb_json_find_string(line, "collective", name, sizeof(name)) ||
	    !bb_json_find_string(line, "dtype", dtype, sizeof(dtype)) ||
	    !(collective = bb_collective_find(name)) || (collective->flags & BB_VARIABLE) ||
	    !(schedule = bb_algorithm_find(collective, bb_algorithm_own(algorithm))) ||
	    !read_result(line, p) || !bb_json_find_number(line, "count", &count) ||
	    (type = bb_dtype_named(dtype)) == BB_NDTYPES || !(count >= 1 && count <= COUNT_MOST) ||
	    !(chunk >= 0 && chunk <= COUNT_MOST))
		return;
	const struct bb_shape shape = {.nranks = p->cost.nranks,
				       .count = (size_t)count,
				       .in_place = p->call.in_place,
				       .chunk = (size_t)chunk / bb_dtype_size(type)};
	p->schedule = schedule;
	p->call.collective = collective;
	p->chunk = (size_t)chunk;
	p->cost = bb_cost_of(schedule, &shape, bb_dtype_size(type));
}

/* ---- the machine of a table ----------------------------------------------------------- */

/* Set *RANKS and *NODES of table T, 0 if the ranks are unknown. */
static bb_status find_ranks(const struct bb_calibration *c, const struct bb_claims *t,
			    const struct bb_collective *collective, int64_t *ranks, int64_t *nodes,
			    struct bb_error *error)
{
	int64_t least, most;

	*ranks = t->nranks;
	if (bb_claims_ranks(t, collective->name, &least, &most)) {
		if (*ranks > 0 && (*ranks < least || *ranks > most))
			return bb_fail(error, BB_EUSAGE,
				       "--calibrate: %s has %lld ranks, but busbw / algbw of its "
				       "rows means %lld; its columns or its ranks are wrong",
				       c->path, (long long)*ranks, (long long)least);
		*ranks = *ranks > 0 ? *ranks : least == most ? least : 0;
	} else if (least > most && most > 0) {
		return bb_fail(error, BB_EUSAGE,
			       "--calibrate: busbw / algbw of the rows of %s fits no number of "
			       "ranks of %s; its columns are mixed up",
			       c->path, collective->name);
	}
	*nodes = t->hosts > 0 ? t->hosts : (*ranks + c->cluster->gpus - 1) / c->cluster->gpus;
	if (*nodes > c->cluster->nodes || *ranks > *nodes * c->cluster->gpus)
		return bb_fail(
			error, BB_EUSAGE,
			"--calibrate: %s has %lld ranks on %lld node%s, but --cluster %s has "
			"%d on %d; give more nodes",
			c->path, (long long)*ranks, (long long)*nodes, bb_plural(*nodes),
			c->cluster->name, c->cluster->ranks, c->cluster->nodes);
	return BB_OK;
}

/* ---- rows ----------------------------------------------------------------------------- */

/* Fill P with all of table T but its sizes and times. P->collective NULL: T is not of NCCL, or
   names too little. BB_EUSAGE: it is of other GPUs than the cluster's. */
static bb_status table_read(struct bb_calibration *c, const struct bb_claims *t, struct bb_point *p,
			    struct bb_error *error)
{
	const struct bb_cluster *const cluster = c->cluster;
	const struct bb_collective *collective = bb_collective_find(t->collective);
	const int gpu = bb_topology_device(cluster->node, BB_GPU, 0);
	const struct bb_card *const of_cluster =
		gpu >= 0 ? bb_card_find(cluster->node->devices[gpu].model) : NULL;
	const struct bb_card *const of_log = t->gpu[0] ? bb_card_find(t->gpu) : NULL;
	const char *const backend = t->backend, *system;
	int64_t ranks = 0, nodes = 0;
	int *members, each;
	bb_status st;

	bb_claims_operand(t, &p->call.dtype, &p->call.op);
	/* Only the factor of all_reduce exceeds 1. */
	if (!t->collective[0] && t->n > 0 &&
	    t->list[t->n - 1].busbw_GBps > 1.01 * t->list[t->n - 1].algbw_GBps)
		collective = &bb_all_reduce;
	if (!collective || (collective->flags & BB_VARIABLE) ||
	    !bb_nccl_named(t->algorithm, &p->call.algorithm, &p->call.protocol) ||
	    (backend[0] && strcmp(backend, "nccl") != 0 && strcmp(backend, "sim") != 0))
		return BB_OK;
	if (of_log && of_cluster && of_log != of_cluster) {
		system = bb_card_system(of_log, 0);
		return bb_fail(error, BB_EUSAGE,
			       "--calibrate: %s was measured on %s, but --cluster %s has %s%s%s",
			       c->path, t->gpu, cluster->name, of_cluster->name,
			       system ? "; give --cluster " : "", system ? system : "");
	}
	BB_TRY(st, find_ranks(c, t, collective, &ranks, &nodes, error), out);
	if (ranks < 2)
		goto out;
	/* Equally many ranks on each node, or else in order. */
	each = ranks % nodes == 0 ? (int)(ranks / nodes) : cluster->gpus;
	members = malloc((size_t)ranks * sizeof(*members));
	for (int i = 0; members && i < ranks; i++)
		members[i] = i / each * cluster->gpus + i % each;
	bool good = members && bb_nccl_shape_make(&p->machine, cluster, 0, members, (int)ranks);
	free(members);
	if (!good)
		return bb_no_memory(error, "--calibrate");
	if (bb_nccl_unfit(c->constants, &p->machine, p->call.algorithm))
		goto out;
	p->call.collective = collective;
	p->cost.nranks = (int)ranks;
	p->nodes = p->machine.nodes;
	c->simulated = c->simulated || t->simulated;
	c->names_gpu = c->names_gpu || of_log;
out:
	return st;
}

bb_status bb_calibration_tables(struct bb_calibration *c, const char *text, size_t length,
				struct bb_error *error)
{
	struct bb_claim_file file;
	bb_status st;

	BB_TRY(st, bb_claims_read_by(bb_claims_read_log, c->path, text, length, &file, error), out);
	c->is_table = true;
	c->cut = file.cut;
	c->cut_line = file.cut_line;
	for (const struct bb_claims *t = file.list; t < file.list + file.n && st == BB_OK; t++) {
		struct bb_point point = {.schedule = NULL};

		st = table_read(c, t, &point, error);
		c->wrong += t->wrong;
		c->implausible += t->implausible + t->not_finite;
		for (size_t k = 0; k < t->n && st == BB_OK; k++) {
			point.call.bytes = (double)t->list[k].size_bytes;
			point.call.in_place = t->list[k].in_place;
			point.time = t->list[k].time_us * 1e-6;
			st = point_add(c, &point, error);
		}
	}
	bb_claims_free(&file);
out:
	return st;
}

/* ---- records -------------------------------------------------------------------------- */

/* Read what the record LINE of a run says of all its results. */
static void run_read(struct bb_calibration *c, const char *line)
{
	struct bb_claims *run = &c->run;
	static const char key[] = "\"ranks\":";
	const char *at = strstr(line, key);
	char host[WORD], before[WORD] = "";
	double cores;

	*run = (struct bb_claims){.nranks = 0};
	bb_json_find_string(line, "backend", run->backend, sizeof(run->backend));
	bb_json_find_bool(line, "virtual_time", &run->simulated);
	if (bb_json_find_number(line, "cores", &cores) && cores >= 1)
		c->model.cores = cores < RANKS_MOST ? (int)cores : RANKS_MOST;
	if (!at)
		return;
	at += sizeof(key) - 1;
	if (at[strspn(at, " ")] != '[')
		return;
	for (at += strcspn(at, "{]"); *at == '{'; at += strcspn(at, "{]")) {
		run->nranks++;
		if (bb_json_find_string(at, "host", host, sizeof(host)) &&
		    strcmp(host, before) != 0) {
			memcpy(before, host, sizeof(before));
			run->hosts++;
		}
		bb_json_find_string(at, "name", run->gpu, sizeof(run->gpu));
		at += strcspn(at, "}");
	}
}

/* Read the result of NCCL in the record LINE into P. P's collective stays NULL where it is none.
   BB_EUSAGE: it is of another machine than the cluster. */
static bb_status record_read(struct bb_calibration *c, const char *line, struct bb_point *p,
			     struct bb_error *error)
{
	struct bb_claims table = c->run;
	char evaluator[WORD] = "model";

	bb_json_find_string(line, "evaluator", evaluator, sizeof(evaluator));
	if (!bb_json_find_string(line, "collective", table.collective, sizeof(table.collective)) ||
	    !bb_json_find_string(line, "algorithm_asked", table.algorithm,
				 sizeof(table.algorithm)) ||
	    !read_result(line, p) || strcmp(evaluator, "model") != 0)
		return BB_OK;
	/* Part of the run's ranks, of a split: in order. */
	table.hosts = table.nranks == p->cost.nranks ? table.hosts : 0;
	table.nranks = p->cost.nranks;
	bb_json_find_string(line, "dtype", table.type, sizeof(table.type));
	bb_json_find_string(line, "op", table.op, sizeof(table.op));
	return table_read(c, &table, p, error);
}

bb_status bb_calibration_lines(struct bb_calibration *c, char *text, struct bb_error *error)
{
	bb_status st = BB_OK;
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line && st == BB_OK;
	     line = strtok_r(NULL, "\n", &rest)) {
		struct bb_point point = {.schedule = NULL};
		char kind[WORD];

		if (!bb_json_find_string(line, "kind", kind, sizeof(kind))) {
			c->is_table = c->is_table || strstr(line, "out-of-place");
		} else if (strcmp(kind, "run") == 0) {
			run_read(c, line);
		} else if (strcmp(kind, "result") == 0) {
			if (c->cluster)
				st = record_read(c, line, &point, error);
			else
				schedule_read(&c->run, line, &point);
			st = st == BB_OK ? point_add(c, &point, error) : st;
		}
	}
	return st;
}
