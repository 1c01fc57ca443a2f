/*
 * nccl_json.c - one JSON document in the layout (version 3) of nccl-tests' -J, its oddities
 * kept: booleans and root are strings. Its copy of the whole environment is left empty.
 *
 * The document is complete after every row: a row is written over the end of the document, and
 * then a new end.
 */
#include "collectives/result.h"

#include "harness/results/sink.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define LAYOUT_VERSION 3

struct nccl_json {
	struct bb_sink sink;
	struct bb_json json;         /* inside the array of results, or inside a row */
	long row_end;                /* in the file: where the next row goes */
	struct bb_strbuf tail;       /* that is behind it */
	bool in_row;                 /* a row waits for its in-place half */
	struct bb_result_record row; /* its out-of-place half; strings are constants */
	int64_t wrong, results;
	double busbw_sum;
};

static struct nccl_json *of(struct bb_sink *sink)
{
	return (struct nccl_json *)sink;
}

static void put_int(struct bb_json *j, const char *key, int64_t value)
{
	bb_json_key(j, key);
	bb_json_int(j, value == BB_ABSENT ? 0 : value);
}

static void put_bool(struct bb_json *j, const char *key, bool value)
{
	bb_json_add_string(j, key, value ? "true" : "false");
}

static void put_now(struct bb_json *j, const char *key)
{
	time_t now = time(NULL);
	struct tm local;
	char text[32];

	localtime_r(&now, &local);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
	bb_json_add_string(j, key, text);
}

/* ---- the head ---------------------------------------------------------------------- */

static void put_config(struct bb_json *j, const struct bb_run_record *run)
{
	bb_json_add_object(j, "config");
	put_int(j, "nthreads", run->threads);
	put_int(j, "ngpus", run->gpus);
	put_int(j, "minimum_bytes", run->min_bytes);
	put_int(j, "maximum_bytes", run->max_bytes);
	if (run->step_factor > 1)
		put_int(j, "step_factor", run->step_factor);
	else
		put_int(j, "step_bytes", run->step_bytes);
	put_int(j, "warmup_iters", run->warmup_iters);
	put_int(j, "iterations", run->iters);
	put_int(j, "aggregated_iterations", run->agg_iters);
	put_int(j, "validation", run->check);
	put_int(j, "graph", run->graph);
	put_bool(j, "blocking_collectives", run->blocking > 0);
	put_bool(j, "per_iter_timing", run->per_iter_timing);
	put_int(j, "per_iter_skip", run->per_iter_skip);
	put_bool(j, "parallel_init", run->parallel_init);
	bb_json_add_array(j, "devices");
	for (size_t i = 0; i < run->ranks.n; i++) {
		const struct bb_location *at = &run->ranks.ranks[i].location;

		bb_json_object(j);
		put_int(j, "rank", (int64_t)i);
		put_int(j, "group", run->ranks.ranks[i].group);
		put_int(j, "pid", at->pid);
		bb_json_add_string(j, "hostname", at->host);
		put_int(j, "device", at->device);
		bb_json_add_string(j, "device_hex", at->bus);
		bb_json_add_string(j, "device_info", at->name);
		bb_json_end(j);
	}
	bb_json_end(j);
	bb_json_end(j);
}

static void put_tail(struct nccl_json *n, const struct bb_end_record *end)
{
	struct bb_json tail = n->json;
	struct bb_json *j = &tail;
	int64_t wrong = end ? end->wrong : n->wrong;
	double mean = n->results > 0 ? n->busbw_sum / (double)n->results : 0;

	if (end && !isnan(end->avg_busbw_GBps))
		mean = end->avg_busbw_GBps;
	bb_json_end(j);
	bb_json_add_object(j, "out_of_bounds");
	put_int(j, "count", wrong);
	put_bool(j, "okay", wrong == 0);
	bb_json_end(j);
	bb_json_add_object(j, "average_bus_bandwidth");
	bb_json_add_double(j, "bandwidth", mean);
	if (!end || isnan(end->min_busbw_GBps))
		bb_json_add_string(j, "okay", "unchecked");
	else
		put_bool(j, "okay", mean >= 0.9 * end->min_busbw_GBps);
	bb_json_end(j);
	bb_json_add_array(j, "errors");
	if (end && end->error)
		bb_json_string(j, end->error);
	bb_json_end(j);
	put_now(j, "end_time");
	bb_json_end(j);
	bb_strbuf_add(&n->sink.out, "\n");
}

/* Writes the pending rows over the end of the document, then a new end; if that fails, the former
   end again. */
static bb_status commit(struct nccl_json *n, const struct bb_end_record *end)
{
	FILE *file = n->sink.file;
	struct bb_strbuf *out = &n->sink.out, tail = {0};
	const size_t rows = out->length;
	const long before = n->row_end;
	bb_status st;
	int cause;

	put_tail(n, end);
	bb_strbuf_add(&tail, bb_strbuf_text(out) + rows);
	st = fseek(file, before, SEEK_SET) == 0 ? bb_sink_write(&n->sink, out) : BB_EINTERNAL;
	n->row_end = ftell(file) - (long)tail.length;
	if (st == BB_OK && ftruncate(fileno(file), ftell(file)) == 0) {
		bb_strbuf_free(&n->tail);
		n->tail = tail;
		return BB_OK;
	}
	cause = errno;
	bb_strbuf_free(&tail);
	if (fseek(file, before, SEEK_SET) == 0 && bb_sink_write(&n->sink, &n->tail) == BB_OK)
		(void)!ftruncate(fileno(file), ftell(file));
	errno = cause;
	return BB_EINTERNAL;
}

static void release(struct bb_sink *sink)
{
	bb_strbuf_free(&of(sink)->tail);
}

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct nccl_json *n = of(sink);
	struct bb_json *j = &n->json;

	bb_json_init(j, &n->sink.out, false);
	bb_json_object(j);
	put_int(j, "version", LAYOUT_VERSION);
	put_now(j, "start_time");
	bb_json_add_array(j, "args");
	for (size_t i = 0; i < run->args.n; i++)
		bb_json_string(j, run->args.words[i]);
	bb_json_end(j);
	bb_json_add_array(j, "env");
	bb_json_end(j);
	put_int(j, "nccl_version", 0);
	put_config(j, run);
	bb_json_add_array(j, "results");
	return commit(n, NULL);
}

/* ---- rows -------------------------------------------------------------------------- */

static void put_half(struct nccl_json *n, const struct bb_result_record *r)
{
	const struct bb_run_record *run = n->sink.run;
	struct bb_json *j = &n->json;

	bb_json_add_object(j, r->in_place ? "in_place" : "out_of_place");
	bb_json_add_double(j, run->report_cputime ? "cpu_time" : "time",
			   run->report_cputime ? r->cpu_time_us : r->time_us);
	bb_json_add_double(j, "alg_bw", r->algbw_GBps);
	bb_json_add_double(j, "bus_bw", r->busbw_GBps);
	bb_json_add_double(j, "nwrong", r->wrong == BB_ABSENT ? NAN : (double)r->wrong);
	bb_json_end(j);
	if (!run->per_iter_timing)
		return;
	bb_json_add_object(j, r->in_place ? "in_place_per_iter" : "out_of_place_per_iter");
	put_int(j, "skipped_iterations", run->per_iter_skip);
	bb_json_add_double(j, "min_us", r->min_us);
	bb_json_add_double(j, "max_us", r->max_us);
	bb_json_add_double(j, "avg_us", r->mean_us);
	bb_json_add_double(j, "p50_us", r->p50_us);
	bb_json_add_double(j, "p95_us", r->p95_us);
	bb_json_add_double(j, "p99_us", r->p99_us);
	bb_json_add_double(j, "stdev_us", r->stdev_us);
	bb_json_add_double(j, "cv_pct", r->cv_percent);
	bb_json_key(j, "times_us");
	bb_numbers_json(j, &r->samples_us);
	/* A sample is the maximum over all ranks, so with one process it is that process's. */
	bb_json_add_array(j, "per_process_max_times_us");
	if (run->nprocs == 1)
		bb_numbers_json(j, &r->samples_us);
	bb_json_end(j);
	bb_json_end(j);
}

static bb_status end_row(struct nccl_json *n)
{
	struct bb_json *j = &n->json;

	put_int(j, "actual_iterations", n->row.iterations);
	bb_json_add_string(j, "experiment_name", n->row.algorithm_asked);
	bb_json_end(j);
	n->in_row = false;
	return commit(n, NULL);
}

static bb_status finish_row(struct nccl_json *n)
{
	if (!n->in_row)
		return BB_OK;
	bb_json_add_string(&n->json, "in_place", NULL);
	return end_row(n);
}

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *data)
{
	struct nccl_json *n = of(sink);
	struct bb_json *j = &n->json;
	const struct bb_result_record *r = data;
	char root[16];
	bb_status st = BB_OK;

	if (kind != &bb_record_result)
		return BB_OK;
	n->wrong += r->wrong != BB_ABSENT && r->wrong > 0;
	n->results++;
	n->busbw_sum += isnan(r->busbw_GBps) ? 0 : r->busbw_GBps;
	if (!r->in_place || !n->in_row || !bb_result_is_row_of(&n->row, r)) {
		BB_TRY(st, finish_row(n), out);
		snprintf(root, sizeof(root), "%6lld", (long long)r->root);
		bb_json_object(j);
		put_int(j, "size", r->size_bytes);
		put_int(j, "count", r->count);
		bb_json_add_string(j, "type", r->dtype);
		bb_json_add_string(j, "redop", r->op);
		bb_json_add_string(j, "root", root);
		n->row = *r;
		n->in_row = true;
		if (r->in_place)
			bb_json_add_string(j, "out_of_place", NULL);
	}
	put_half(n, r);
	if (r->in_place)
		st = end_row(n);
out:
	return st;
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	const bb_status st = finish_row(of(sink));

	return st == BB_OK ? commit(of(sink), r) : st;
}

const struct bb_sink_ops bb_sink_nccl_json = {.bytes = sizeof(struct nccl_json),
					      .begin = begin,
					      .record = record,
					      .end = end,
					      .release = release};
