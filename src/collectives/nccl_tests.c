/*
 * nccl_tests.c - results in the layouts of nccl-tests: its text and the JSON of its -J.
 */
#include "collectives/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOCAL_TIME 32

/* TEXT = WHEN in local time. Returns TEXT. */
static const char *local_time(char text[LOCAL_TIME], time_t when)
{
	struct tm local;

	localtime_r(&when, &local);
	strftime(text, LOCAL_TIME, "%Y-%m-%d %H:%M:%S", &local);
	return text;
}

/* ---- the text ------------------------------------------------------------------------------ */

/* Parsers in the wild read it: the same comment lines and the same 13 columns. Everything else is
   in lines that begin with '#'. */

struct text {
	struct bb_sink sink;
	bool half;                     /* OUT ends in a row that lacks its in-place half */
	struct bb_result_record row;   /* the last row; its strings are constants */
	struct bb_skip_record skipped; /* the last one printed; its reason is in SKIP_REASON */
	char *skip_reason;             /* owned */
	int more_skips;                /* skips since then with the same reason */
};

static bb_status text_begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	static const char *const blocking[] = {
		"",
		"# Blocking Enabled: wait and barrier after each inner iteration (-m) \n",
		"# Blocking Enabled: wait after each inner iteration (-m), no barrier \n",
		"# Blocking Enabled: wait and barrier after each outer iteration (-n); "
		"time excludes barrier \n",
	};
	struct bb_strbuf *out = &sink->out;
	bool factor = run->step_factor > 1;
	int hosts = 0;

	bb_strbuf_addf(out, "# busbench version %s backend=%s\n", run->version, run->backend);
	bb_strbuf_addf(out, "# Collective test starting: %s\n", run->program);
	bb_strbuf_addf(out,
		       "# nThread %lld nGpus %lld minBytes %lld maxBytes %lld step: %lld(%s) "
		       "warmup iters: %lld iters: %lld agg iters: %lld validation: %lld graph: "
		       "%lld unalign: %lld\n",
		       (long long)run->threads, (long long)run->gpus, (long long)run->min_bytes,
		       (long long)run->max_bytes,
		       (long long)(factor ? run->step_factor : run->step_bytes),
		       factor ? "factor" : "bytes", (long long)run->warmup_iters,
		       (long long)run->iters, (long long)run->agg_iters, (long long)run->check,
		       (long long)run->graph, (long long)run->unalign);
	if (run->blocking >= 1 && run->blocking <= 3)
		bb_strbuf_add(out, blocking[run->blocking]);
	if (run->per_iter_timing) {
		bb_strbuf_add(out, "# Per-Iteration Report: i_* uses the longest over the ranks");
		if (run->per_iter_skip > 0)
			bb_strbuf_addf(out, "; summary skips first %lld iterations",
				       (long long)run->per_iter_skip);
		bb_strbuf_add(out, " \n");
	}
	if (run->parallel_init)
		bb_strbuf_add(out, "# Parallel Init Enabled: ranks start up side by side \n");
	bb_strbuf_add(out, "#\n# Using devices\n");
	for (size_t i = 0; i < run->ranks.n; i++) {
		const struct bb_location *at = &run->ranks.ranks[i].location;

		bb_strbuf_addf(out, "#  Rank %2zu Group %2d Pid %6d on %10s device %2d [%s] %s\n",
			       i, run->ranks.ranks[i].group, at->pid, at->host, at->device, at->bus,
			       at->name);
		hosts = run->ranks.ranks[i].node < hosts ? hosts : run->ranks.ranks[i].node + 1;
	}
	/* What nccl-tests does not have. */
	if (run->backend_reason)
		bb_strbuf_addf(out, "# Backend %s was chosen: %s\n", run->backend,
			       run->backend_reason);
	bb_strbuf_addf(out, "# Backend: %s  ranks: %lld  cache: %s  seed: %lld", run->backend,
		       (long long)run->nranks, run->cache ? run->cache : "rotate",
		       (long long)run->seed);
	if (run->library)
		bb_strbuf_addf(out, "  library: %s", run->library);
	if (run->launch && (!run->library || strcmp(run->launch, run->library) != 0))
		bb_strbuf_addf(out, "  launch: %s", run->launch);
	if (hosts > 1)
		bb_strbuf_addf(out, "  hosts: %d", hosts);
	if (run->clock_uncertainty_us > 0)
		bb_strbuf_addf(out, "  clocks within: %.3g us", run->clock_uncertainty_us);
	bb_sink_add_settings(out, run);
	if (run->split)
		bb_strbuf_addf(out, "  split: %s", run->split);
	bb_strbuf_add(out, "\n");
	bb_sink_add_virtual(out, run);
	if (!isnan(run->copy_GBps))
		bb_strbuf_addf(out, "# Memory copy of all ranks together, in this run: %.1f GB/s\n",
			       run->copy_GBps);
	return bb_sink_write(sink, out);
}

static void add_table_head(struct bb_strbuf *out, const struct bb_run_record *run,
			   const char *algorithm)
{
	const char *time = run->report_cputime ? "cputime" : "time";
	const bool each = run->per_iter_timing, stamped = run->report_timestamps;

	bb_strbuf_addf(out, "#\n# Algorithm: %s\n#\n", algorithm);
	bb_strbuf_addf(out, "# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
	if (each)
		bb_strbuf_addf(out, "%14s%s%32s%s\n", "", "out-of-place (+ per-iteration)", "",
			       "in-place (+ per-iteration)");
	else
		bb_strbuf_addf(out, "%11s%s%23s%s%10s\n", "", "out-of-place", "", "in-place", "");
	bb_strbuf_add(out, "#       size         count      type   redop    root");
	for (int half = 0; half < 2; half++)
		bb_strbuf_addf(out, "  %7s   algbw   busbw  #wrong%s", time,
			       each ? "    i_min    i_max    i_p99    i_cv%" : "");
	bb_strbuf_addf(out, " %s\n", stamped ? "          timestamp" : "");
	bb_strbuf_add(out, "#        (B)    (elements)                          ");
	for (int half = 0; half < 2; half++)
		bb_strbuf_addf(out, "     (us)  (GB/s)  (GB/s)        %s",
			       each ? "     (us)     (us)     (us)      (%)" : "");
	bb_strbuf_addf(out, " %s\n", stamped ? "  %Y-%m-%d %H:%M:%S" : "");
}

static void add_half(struct bb_strbuf *out, const struct bb_run_record *run,
		     const struct bb_result_record *r)
{
	const double bandwidths[] = {r->algbw_GBps, r->busbw_GBps};
	const double each[] = {r->min_us, r->max_us, r->p99_us, r->cv_percent};
	char text[BB_NUMBER_TEXT];

	bb_strbuf_addf(out, "  %s",
		       bb_format_fit(text, run->report_cputime ? r->cpu_time_us : r->time_us, 7));
	for (int i = 0; i < 2; i++)
		bb_strbuf_addf(out, "  %s", bb_format_fit(text, bandwidths[i], 6));
	if (r->wrong == BB_ABSENT)
		bb_strbuf_add(out, "     N/A");
	else
		bb_strbuf_addf(out, "  %6g", (double)r->wrong);
	for (int i = 0; i < 4 && run->per_iter_timing; i++)
		bb_strbuf_addf(out, "  %s", bb_format_fit(text, each[i], 7));
}

/* A placement that was not run: every column is N/A, so that parsers find the others. */
static void add_no_half(struct bb_strbuf *out, const struct bb_run_record *run)
{
	struct bb_result_record absent;

	bb_record_init(&bb_record_result, &absent);
	add_half(out, run, &absent);
}

static void text_end_row(struct text *t, double end_unix_s)
{
	time_t when = isnan(end_unix_s) ? time(NULL) : (time_t)end_unix_s;
	char stamp[LOCAL_TIME];

	if (t->sink.run->report_timestamps)
		bb_strbuf_addf(&t->sink.out, "%21s", local_time(stamp, when));
	bb_strbuf_add(&t->sink.out, "\n");
}

/* Ends a half row, or a line of skips. */
static void text_flush(struct bb_sink *sink)
{
	struct text *t = (struct text *)sink;

	if (t->more_skips > 0)
		bb_strbuf_addf(&sink->out, "# skipped: %s, %d more for the same reason\n",
			       t->skipped.algorithm, t->more_skips);
	t->more_skips = 0;
	t->skipped.algorithm = NULL;
	if (t->half) {
		add_no_half(&sink->out, sink->run);
		text_end_row(t, NAN);
	}
	t->half = false;
}

static bb_status result(struct bb_sink *sink, const struct bb_result_record *r)
{
	struct text *t = (struct text *)sink;
	const char *before = t->row.algorithm_asked;

	if (!r->in_place || !t->half || !bb_result_is_row_of(&t->row, r)) {
		text_flush(sink);
		if (!before || strcmp(before, r->algorithm_asked) != 0)
			add_table_head(&sink->out, sink->run, r->algorithm_asked);
		bb_strbuf_addf(&sink->out, "%12lld  %12lld  %8s  %6s  %6lld",
			       (long long)r->size_bytes, (long long)r->count, r->dtype, r->op,
			       (long long)r->root);
		t->row = *r;
		if (r->in_place)
			add_no_half(&t->sink.out, sink->run);
	}
	add_half(&t->sink.out, sink->run, r);
	t->half = !r->in_place;
	if (t->half)
		return BB_OK;
	text_end_row(t, r->end_unix_s);
	return bb_sink_write(sink, &t->sink.out);
}

static bb_status skip(struct bb_sink *sink, const struct bb_skip_record *r)
{
	struct text *t = (struct text *)sink;
	const struct bb_skip_record *s = &t->skipped;

	/* It would repeat the last line but for its size or placement. */
	if (s->algorithm && strcmp(s->algorithm, r->algorithm) == 0 && s->root == r->root &&
	    s->dtype == r->dtype && s->op == r->op && t->skip_reason &&
	    strcmp(t->skip_reason, r->reason) == 0) {
		t->more_skips++;
		return BB_OK;
	}
	text_flush(sink);
	t->skipped = *r;
	free(t->skip_reason);
	t->skip_reason = strdup(r->reason); /* without memory the line is not shortened */
	bb_strbuf_addf(&t->sink.out, "# skipped: %s", r->algorithm);
	if (r->size_bytes != BB_ABSENT)
		bb_strbuf_addf(&t->sink.out, " %lld B", (long long)r->size_bytes);
	if (r->dtype)
		bb_strbuf_addf(&t->sink.out, " %s", r->dtype);
	if (r->op && strcmp(r->op, "none") != 0)
		bb_strbuf_addf(&t->sink.out, " %s", r->op);
	if (r->root != BB_ABSENT && r->root >= 0)
		bb_strbuf_addf(&t->sink.out, " root %lld", (long long)r->root);
	if (r->placement)
		bb_strbuf_addf(&t->sink.out, " %s", r->placement);
	bb_strbuf_addf(&t->sink.out, ": %s\n", r->reason);
	return bb_sink_write(sink, &t->sink.out);
}

static bb_status text_record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	if (kind == &bb_record_result)
		return result(sink, r);
	return kind == &bb_record_skip ? skip(sink, r) : BB_OK;
}

static bb_status text_end(struct bb_sink *sink, const struct bb_end_record *r)
{
	static const char *const units[] = {"B", "KB", "MB", "GB"};
	static const char *const names[] = {"Initialization", "User-Allocated", "Collective",
					    "Total "};
	const int64_t memory[] = {r->memory_init_bytes, r->memory_user_bytes, r->memory_call_bytes};
	struct bb_strbuf *out = &sink->out;
	double total = 0, mean = isnan(r->avg_busbw_GBps) ? 0 : r->avg_busbw_GBps;
	const char *gate = "";

	text_flush(sink);
	if (!isnan(r->min_busbw_GBps))
		gate = mean < 0.9 * r->min_busbw_GBps ? "FAILED" : "OK";
	if (r->results != 0) {
		bb_strbuf_addf(out, "# %-20s : %lld %s\n", "Out of bounds values",
			       (long long)r->wrong, r->wrong > 0 ? "FAILED" : "OK");
		bb_strbuf_addf(out, "# %-20s : %g %s\n", "Avg bus bandwidth", mean, gate);
	}
	bb_strbuf_add(out, "#\n");
	if (r->verdict && strcmp(r->verdict, "passed") != 0)
		bb_strbuf_addf(out, "# Verdict: %s\n", r->verdict);
	bb_strbuf_addf(out, "# Collective test concluded: %s\n", sink->run->program);
	if (r->memory_init_bytes != BB_ABSENT)
		bb_strbuf_addf(out, "# %-20s : ", "Memory usage");
	for (int i = 0; r->memory_init_bytes != BB_ABSENT && i < 4; i++) {
		double amount = i == 3 ? total : memory[i] == BB_ABSENT ? 0 : (double)memory[i];
		int unit = 0;

		total += amount;
		for (; unit < 3 && amount >= 1024; unit++)
			amount /= 1024;
		bb_strbuf_addf(out, "%s %.*f %s%s", names[i],
			       amount < 10    ? 2
			       : amount < 100 ? 1
					      : 0,
			       amount, units[unit], i < 3 ? " | " : "\n");
	}
	bb_strbuf_add(out, "#\n");
	if (r->error)
		bb_strbuf_addf(out, "# error: %s\n", r->error);
	else
		bb_strbuf_add(out, "\n");
	return bb_sink_write(sink, out);
}

static void text_release(struct bb_sink *sink)
{
	free(((struct text *)sink)->skip_reason);
}

const struct bb_sink_ops bb_sink_text = {
	.bytes = sizeof(struct text),
	.begin = text_begin,
	.record = text_record,
	.comment = bb_text_comment,
	.end = text_end,
	.flush = text_flush,
	.release = text_release,
};

/* ---- the JSON ------------------------------------------------------------------------------ */

/*
 * One document in the layout (version 3) of nccl-tests' -J, its oddities kept: booleans and root
 * are strings. Its copy of the whole environment is left empty.
 *
 * The document is complete after every row: a row is written over the end of the document, and
 * then a new end.
 */

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

static void put_int(struct bb_json *j, const char *key, int64_t value)
{
	bb_json_add_int(j, key, value == BB_ABSENT ? 0 : value);
}

static void put_bool(struct bb_json *j, const char *key, bool value)
{
	bb_json_add_string(j, key, value ? "true" : "false");
}

/* Writes the pending rows over the end of the document, then a new end; if that fails, the former
   end again. */
static bb_status commit(struct nccl_json *n, const struct bb_end_record *end)
{
	FILE *file = n->sink.file;
	struct bb_strbuf *out = &n->sink.out, tail = {0};
	struct bb_json behind = n->json, *j = &behind;
	const size_t rows = out->length;
	const long before = n->row_end;
	const int64_t wrong = end ? end->wrong : n->wrong;
	double mean = n->results > 0 ? n->busbw_sum / (double)n->results : 0;
	char now[LOCAL_TIME];
	bb_status st;

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
		bb_json_add_string(j, NULL, end->error);
	bb_json_end(j);
	bb_json_add_string(j, "end_time", local_time(now, time(NULL)));
	bb_json_end(j);
	bb_strbuf_add(out, "\n");
	bb_strbuf_add(&tail, bb_strbuf_text(out) + rows);
	st = fseek(file, before, SEEK_SET) == 0 ? bb_sink_write(&n->sink, out) : BB_EINTERNAL;
	n->row_end = ftell(file) - (long)tail.length;
	if (st == BB_OK && ftruncate(fileno(file), ftell(file)) == 0) {
		bb_strbuf_free(&n->tail);
		n->tail = tail;
		return BB_OK;
	}
	const int cause = errno;
	bb_strbuf_free(&tail);
	if (fseek(file, before, SEEK_SET) == 0 && bb_sink_write(&n->sink, &n->tail) == BB_OK)
		(void)!ftruncate(fileno(file), ftell(file));
	errno = cause;
	return BB_EINTERNAL;
}

static void json_release(struct bb_sink *sink)
{
	bb_strbuf_free(&((struct nccl_json *)sink)->tail);
}

static bb_status json_begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct nccl_json *n = (struct nccl_json *)sink;
	struct bb_json *j = &n->json;
	char now[LOCAL_TIME];

	bb_json_init(j, &n->sink.out, false);
	bb_json_add_object(j, NULL);
	put_int(j, "version", LAYOUT_VERSION);
	bb_json_add_string(j, "start_time", local_time(now, time(NULL)));
	bb_json_add_array(j, "args");
	for (size_t i = 0; i < run->args.n; i++)
		bb_json_add_string(j, NULL, run->args.words[i]);
	bb_json_end(j);
	bb_json_add_array(j, "env");
	bb_json_end(j);
	put_int(j, "nccl_version", 0);
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

		bb_json_add_object(j, NULL);
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
	bb_json_add_array(j, "results");
	return commit(n, NULL);
}

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
	bb_numbers_json(j, "times_us", &r->samples_us);
	/* A sample is the maximum over all ranks, so with one process it is that process's. */
	bb_json_add_array(j, "per_process_max_times_us");
	if (run->nprocs == 1)
		bb_numbers_json(j, NULL, &r->samples_us);
	bb_json_end(j);
	bb_json_end(j);
}

static bb_status json_end_row(struct nccl_json *n)
{
	struct bb_json *j = &n->json;

	put_int(j, "actual_iterations", n->row.iterations);
	bb_json_add_string(j, "experiment_name", n->row.algorithm_asked);
	bb_json_end(j);
	n->in_row = false;
	return commit(n, NULL);
}

static bb_status json_finish_row(struct nccl_json *n)
{
	if (!n->in_row)
		return BB_OK;
	bb_json_add_string(&n->json, "in_place", NULL);
	return json_end_row(n);
}

static bb_status json_record(struct bb_sink *sink, const struct bb_record_kind *kind,
			     const void *data)
{
	struct nccl_json *n = (struct nccl_json *)sink;
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
		BB_TRY(st, json_finish_row(n), out);
		snprintf(root, sizeof(root), "%6lld", (long long)r->root);
		bb_json_add_object(j, NULL);
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
		st = json_end_row(n);
out:
	return st;
}

static bb_status json_end(struct bb_sink *sink, const struct bb_end_record *r)
{
	struct nccl_json *n = (struct nccl_json *)sink;
	const bb_status st = json_finish_row(n);

	return st == BB_OK ? commit(n, r) : st;
}

const struct bb_sink_ops bb_sink_nccl_json = {.bytes = sizeof(struct nccl_json),
					      .begin = json_begin,
					      .record = json_record,
					      .end = json_end,
					      .release = json_release};
