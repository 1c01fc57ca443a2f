/*
 * text.c - the text of a collective in the layout of nccl-tests, which parsers in the wild
 * read: the same comment lines and the same 13 columns. Everything else is in lines that begin with
 * '#'.
 */
#include "collectives/result.h"

#include "harness/results/sink.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct text {
	struct bb_sink sink;
	bool half;                     /* OUT ends in a row that lacks its in-place half */
	struct bb_result_record row;   /* the last row; its strings are constants */
	struct bb_skip_record skipped; /* the last one printed; its reason is in SKIP_REASON */
	char *skip_reason;             /* owned */
	int more_skips;                /* skips since then with the same reason */
};

static struct text *of(struct bb_sink *sink)
{
	return (struct text *)sink;
}

/* ---- the head ---------------------------------------------------------------------- */

/* Appends what nccl-tests does not have. */
static void add_extras(struct bb_strbuf *out, const struct bb_run_record *run)
{
	int hosts = 0;

	for (size_t r = 0; r < run->ranks.n; r++)
		hosts = run->ranks.ranks[r].node < hosts ? hosts : run->ranks.ranks[r].node + 1;
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
}

static bb_status begin(struct bb_sink *sink, const struct bb_run_record *run)
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
	}
	add_extras(out, run);
	return bb_sink_write(sink, out);
}

/* ---- tables ------------------------------------------------------------------------ */

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

static void end_row(struct text *t, double end_unix_s)
{
	time_t when = isnan(end_unix_s) ? time(NULL) : (time_t)end_unix_s;
	char stamp[32];
	struct tm local;

	if (t->sink.run->report_timestamps) {
		localtime_r(&when, &local);
		strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &local);
		bb_strbuf_addf(&t->sink.out, "%21s", stamp);
	}
	bb_strbuf_add(&t->sink.out, "\n");
}

static void finish_skips(struct text *t)
{
	if (t->more_skips > 0)
		bb_strbuf_addf(&t->sink.out, "# skipped: %s, %d more for the same reason\n",
			       t->skipped.algorithm, t->more_skips);
	t->more_skips = 0;
	t->skipped.algorithm = NULL;
}

static void finish_half(struct text *t)
{
	if (!t->half)
		return;
	add_no_half(&t->sink.out, t->sink.run);
	end_row(t, NAN);
	t->half = false;
}

static bb_status result(struct bb_sink *sink, const struct bb_result_record *r)
{
	struct text *t = of(sink);
	const char *before = t->row.algorithm_asked;

	finish_skips(t);
	if (!r->in_place || !t->half || !bb_result_is_row_of(&t->row, r)) {
		finish_half(t);
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
	end_row(t, r->end_unix_s);
	return bb_sink_write(sink, &t->sink.out);
}

/* ---- everything else --------------------------------------------------------------- */

static bb_status skip(struct bb_sink *sink, const struct bb_skip_record *r)
{
	struct text *t = of(sink);
	const struct bb_skip_record *s = &t->skipped;

	/* It would repeat the last line but for its size or placement. */
	if (s->algorithm && strcmp(s->algorithm, r->algorithm) == 0 && s->root == r->root &&
	    s->dtype == r->dtype && s->op == r->op && t->skip_reason &&
	    strcmp(t->skip_reason, r->reason) == 0) {
		t->more_skips++;
		return BB_OK;
	}
	finish_skips(t);
	t->skipped = *r;
	free(t->skip_reason);
	t->skip_reason = strdup(r->reason); /* without memory the line is not shortened */
	finish_half(t);
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

static bb_status record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	if (kind == &bb_record_result)
		return result(sink, r);
	return kind == &bb_record_skip ? skip(sink, r) : BB_OK;
}

static bb_status comment(struct bb_sink *sink, const char *lines)
{
	struct text *t = of(sink);

	finish_skips(t);
	finish_half(t);
	bb_strbuf_add(&t->sink.out, lines);
	return bb_sink_write(sink, &t->sink.out);
}

static bb_status end(struct bb_sink *sink, const struct bb_end_record *r)
{
	static const char *const units[] = {"B", "KB", "MB", "GB"};
	static const char *const names[] = {"Initialization", "User-Allocated", "Collective",
					    "Total "};
	const int64_t memory[] = {r->memory_init_bytes, r->memory_user_bytes, r->memory_call_bytes};
	struct text *t = of(sink);
	struct bb_strbuf *out = &t->sink.out;
	double total = 0, mean = isnan(r->avg_busbw_GBps) ? 0 : r->avg_busbw_GBps;
	const char *gate = "";

	finish_skips(t);
	finish_half(t);
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

static void release(struct bb_sink *sink)
{
	free(of(sink)->skip_reason);
}

const struct bb_sink_ops bb_sink_text = {
	.bytes = sizeof(struct text),
	.begin = begin,
	.record = record,
	.comment = comment,
	.end = end,
	.release = release,
};
