/*
 * sink.c - opens the sinks of a run and hands every record to all of them.
 */
#include "harness/results/sink.h"

#include "core/output.h"
#include "core/printable.h"
#include "core/standard.h"
#include "core/table.h"
#include "core/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 16 /* of more ranks the head lists only the first, unless -v is given */
#define FIRST_RANKS 8

/* ---- for the kinds ----------------------------------------------------------------- */

struct bb_sink *bb_sink_open(const struct bb_sink_ops *ops, FILE *file, const char *path)
{
	struct bb_sink *sink = calloc(1, ops->bytes);

	if (!sink)
		return NULL;
	sink->ops = ops;
	sink->file = file;
	sink->path = path;
	sink->width = ops->folds ? bb_fold_limit(file) : 0;
	return sink;
}

/* Writes TEXT as it is, flushes it and empties it; what could be written only in part is cut off
   again. */
static bb_status sink_draw(struct bb_sink *sink, struct bb_strbuf *text)
{
	const long whole = ftell(sink->file);
	bool ok = !bb_strbuf_failed(text);

	errno = ok ? 0 : ENOMEM;
	ok = ok && fwrite(bb_strbuf_text(text), 1, text->length, sink->file) == text->length;
	ok = ok && fflush(sink->file) == 0;
	if (!ok)
		bb_output_cut(sink->file, whole);
	bb_strbuf_clear(text);
	return ok ? BB_OK : BB_EINTERNAL;
}

bb_status bb_sink_write(struct bb_sink *sink, struct bb_strbuf *text)
{
	if (text->text)
		bb_printable_clean_lines(text->text);
	if (sink->width > 0)
		bb_strbuf_fold(text, 0, sink->width);
	return sink_draw(sink, text);
}

void bb_sink_close(struct bb_sink *sink)
{
	if (!sink)
		return;
	if (sink->ops->release)
		sink->ops->release(sink);
	if (sink->owns_file)
		fclose(sink->file);
	bb_strbuf_free(&sink->out);
	free(sink);
}

const char *bb_format_fit(char text[BB_NUMBER_TEXT], double value, int width)
{
	if (isnan(value)) {
		snprintf(text, BB_NUMBER_TEXT, "%*s", width, "N/A");
		return text;
	}
	for (int decimals = 2; decimals >= 0; decimals--) {
		if (snprintf(text, BB_NUMBER_TEXT, "%*.*f", width, decimals, value) <= width)
			return text;
	}
	snprintf(text, BB_NUMBER_TEXT, "%*.*e", width, width >= 7 ? 1 : 0, value);
	return text;
}

/* ---- all of a run ------------------------------------------------------------------ */

/* Adds a sink on FILE, which it closes if OWNS, also on failure. */
static bb_status add(struct bb_sinks *sinks, const struct bb_sink_ops *ops, FILE *file,
		     const char *path, bool owns)
{
	struct bb_sink *sink = bb_sink_open(ops, file, path);

	if (!sink && owns)
		fclose(file);
	if (!sink)
		return bb_no_memory(sinks->error, path);
	sink->owns_file = owns;
	sink->rows = sinks->rows;
	sinks->list[sinks->n++] = sink;
	return BB_OK;
}

/* Adds a sink on TEXT: stdout, or the file that replaces it. */
static bb_status add_stdout(struct bb_sinks *sinks, const struct bb_sink_ops *ops, FILE *text)
{
	bb_status st = text == stdout ? bb_standard_output(sinks->error) : BB_OK;

	return st == BB_OK ? add(sinks, ops, text, "stdout", false) : st;
}

static bb_status add_file(struct bb_sinks *sinks, const struct bb_sink_ops *ops, const char *option,
			  const char *path)
{
	const struct bb_output output = {.option = option, .path = path, .folder = sinks->folder};
	FILE *file;

	if (!path)
		return BB_OK;
	if (strcmp(path, "-") == 0)
		return add_stdout(sinks, ops, stdout);
	const bb_status st = bb_output_open(&output, &file, sinks->error);
	return st == BB_OK ? add(sinks, ops, file, path, true) : st;
}

/* As nccl-tests names it, the first of PATH, PATH.0, PATH.1, … that does not exist. */
bb_status bb_sinks_add_new(struct bb_sinks *sinks, const struct bb_sink_ops *ops, const char *path)
{
	struct bb_output output = {.option = "-J", .folder = sinks->folder, .fresh = true};
	struct bb_strbuf name = {0};
	bb_status st = BB_EUSAGE;
	FILE *file;

	if (!path)
		return BB_OK;
	errno = EEXIST;
	for (int i = -1; i < 10000 && st != BB_OK && errno == EEXIST; i++) {
		struct bb_error why = {0};

		bb_strbuf_clear(&name);
		bb_strbuf_add(&name, path);
		if (i >= 0)
			bb_strbuf_addf(&name, ".%d", i);
		output.path = bb_strbuf_text(&name);
		st = bb_output_open(&output, &file, &why);
		if (st != BB_OK && errno != EEXIST)
			bb_fail(sinks->error, st, "%s", why.text);
	}
	sinks->new_path = st == BB_OK ? strdup(bb_strbuf_text(&name)) : NULL;
	bb_strbuf_free(&name);
	if (st != BB_OK)
		return bb_fail(sinks->error, st, "-J: %s and 10000 more exist", path);
	return add(sinks, ops, file, sinks->new_path ? sinks->new_path : path, true);
}

bb_status bb_sinks_open(struct bb_sinks *sinks, const struct bb_options *options,
			const struct bb_sink_ops *ops, const struct bb_record_kind *rows,
			FILE *text, struct bb_error *error)
{
	bb_status st;

	*sinks = (struct bb_sinks){.error = error, .rows = rows, .folder = options->output_folder};
	if (ops && !bb_options_stdout_taken(options))
		BB_TRY(st, add_stdout(sinks, ops, text), out);
	BB_TRY(st, add_file(sinks, &bb_sink_csv, "--csv", options->csv_file), out);
	st = add_file(sinks, &bb_sink_jsonl, "--json", options->json_file);
out:
	return st;
}

void bb_sinks_close(struct bb_sinks *sinks)
{
	for (int i = 0; i < sinks->n; i++)
		bb_sink_close(sinks->list[i]);
	free(sinks->new_path);
	*sinks = (struct bb_sinks){.n = 0};
}

/* If ST is a failure, reports it and gives up the sink. */
static void settle(struct bb_sinks *sinks, struct bb_sink *sink, bb_status st)
{
	if (st == BB_OK)
		return;
	sink->failed = true;
	sinks->status = bb_fail(sinks->error, BB_EINTERNAL, "%s cannot be written: %s", sink->path,
				errno ? strerror(errno) : "unknown cause");
}

/* CALL a function of each sink S_ that meets CONDITION. */
#define EACH(sinks, condition, call, ...)                                                          \
	for (int i_ = 0; i_ < (sinks)->n; i_++) {                                                  \
		struct bb_sink *s_ = (sinks)->list[i_];                                            \
		if (!s_->failed && s_->ops->call && (condition))                                   \
			settle(sinks, s_, s_->ops->call(s_, __VA_ARGS__));                         \
	}

bb_status bb_sinks_begin(struct bb_sinks *sinks, const struct bb_run_record *run)
{
	char line[4096];

	for (int i = 0; i < sinks->n; i++)
		sinks->list[i]->run = run;
	if (sinks->new_path) {
		snprintf(line, sizeof(line), "# Writing JSON output to %s\n", sinks->new_path);
		EACH(sinks, true, comment, line);
	}
	EACH(sinks, true, begin, run);
	EACH(sinks, !s_->ops->begin, record, &bb_record_run, run);
	return sinks->status;
}

bb_status bb_sinks_record(struct bb_sinks *sinks, const struct bb_record_kind *kind,
			  const void *record)
{
	EACH(sinks, true, record, kind, record);
	return sinks->status;
}

bb_status bb_sinks_data(struct bb_sinks *sinks, const struct bb_record_kind *kind,
			const void *record)
{
	EACH(sinks, !s_->ops->comment, record, kind, record);
	return sinks->status;
}

bb_status bb_sinks_comment(struct bb_sinks *sinks, const char *lines)
{
	EACH(sinks, true, comment, lines);
	return sinks->status;
}

bb_status bb_sinks_draw(struct bb_sinks *sinks, struct bb_strbuf *text)
{
	for (int i = 0; i < sinks->n; i++)
		if (!sinks->list[i]->failed && sinks->list[i]->ops->comment)
			settle(sinks, sinks->list[i], sink_draw(sinks->list[i], text));
	return sinks->status;
}

bb_status bb_sinks_end_data(struct bb_sinks *sinks, const struct bb_end_record *end)
{
	EACH(sinks, !s_->ops->comment, end, end);
	EACH(sinks, !s_->ops->comment && !s_->ops->end, record, &bb_record_end, end);
	return sinks->status;
}

bb_status bb_sinks_end_text(struct bb_sinks *sinks, const struct bb_end_record *end)
{
	EACH(sinks, s_->ops->comment, end, end);
	return sinks->status;
}

void bb_sinks_seize(struct bb_sinks *sinks)
{
	for (int i = 0; i < sinks->n; i++)
		if (ftrylockfile(sinks->list[i]->file) != 0)
			sinks->list[i]->failed = true;
}

/* ---- text of one's own --------------------------------------------------------------- */

void bb_sink_add_virtual(struct bb_strbuf *out, const struct bb_run_record *run)
{
	if (*run->network)
		bb_strbuf_addf(out, "# Cluster %s: %s\n", run->cluster, run->network);
	if (run->virtual_time)
		bb_strbuf_addf(out, "# Virtual time: simulated with %s; no hardware was measured\n",
			       run->calibrate ? "--calibrate"
			       : run->cluster ? "--cluster"
					      : "--link");
	/* With a link of its own for each pair, trees beat rings at every size, as on no NIC. */
	if (run->virtual_time && run->link && !strstr(run->link, ",port") && run->nranks > 2)
		bb_strbuf_addf(out,
			       "# Each pair of ranks has its own link, which favours trees.\n"
			       "# For one port per rank, as with a NIC: --link %s,port\n",
			       run->link);
}

void bb_sink_add_settings(struct bb_strbuf *out, const struct bb_run_record *run)
{
	if (!isnan(run->precision))
		bb_strbuf_addf(out, "  precision: %g%%", run->precision * 100);
	if (run->fault)
		bb_strbuf_addf(out, "  fault: %s", run->fault);
	if (run->link)
		bb_strbuf_addf(out, "  link: %s", run->link);
	if (!isnan(run->link_noise))
		bb_strbuf_addf(out, "  noise: %g%%", run->link_noise * 100);
}

void bb_sink_add_head(struct bb_strbuf *out, const struct bb_run_record *run)
{
	static const struct bb_table_head heads[] = {
		{"Rank", "", 0},   {"Group", "", 0}, {"Pid", "", 0},   {"host", "", 0},
		{"device", "", 0}, {"bus", "", 0},   {"name", "", -1}, {NULL, NULL, 0}};
	const bool some = run->ranks.n > MOST_RANKS && !run->lists_all;
	struct bb_text_table t = {.mark = "#"};

	bb_strbuf_addf(out, "# busbench version %s backend=%s\n", run->version, run->backend);
	bb_strbuf_addf(out, "# %s: %lld rank%s\n", run->program, (long long)run->nranks,
		       bb_plural(run->nranks));
	/* All ranks of a small run, or with -v; else the first ones. */
	bb_table_columns(&t, heads, 1);
	for (size_t i = 0; i < (some ? FIRST_RANKS : run->ranks.n); i++) {
		const struct bb_location *at = &run->ranks.ranks[i].location;

		bb_table_cellf(&t, "%zu\t%d\t%d", i, run->ranks.ranks[i].group, at->pid);
		bb_table_cell(&t, at->host);
		bb_table_cellf(&t, "%d", at->device);
		bb_table_cell(&t, at->bus);
		bb_table_cell(&t, at->name);
	}
	if (run->ranks.n > 0)
		bb_table_print(&t, out);
	bb_table_free(&t);
	if (some)
		bb_strbuf_addf(out, "# and %zu more; -v lists them\n", run->ranks.n - FIRST_RANKS);
	if (run->backend_reason)
		bb_strbuf_addf(out, "# Backend %s was chosen: %s\n", run->backend,
			       run->backend_reason);
	bb_strbuf_addf(out, "# iters: %lld warmup iters: %lld", (long long)run->iters,
		       (long long)run->warmup_iters);
	if (run->check != BB_ABSENT)
		bb_strbuf_addf(out, " validation: %lld", (long long)run->check);
	bb_strbuf_addf(out, " seed: %lld", (long long)run->seed);
	if (run->library)
		bb_strbuf_addf(out, "  library: %s", run->library);
	bb_sink_add_settings(out, run);
	bb_strbuf_add(out, "\n");
	bb_sink_add_virtual(out, run);
}

void bb_sink_add_skip(struct bb_strbuf *out, const char *collective,
		      const struct bb_skip_record *skip)
{
	bb_strbuf_addf(out, "# skipped: %s", collective ? collective : skip->algorithm);
	if (collective && skip->algorithm)
		bb_strbuf_addf(out, " by %s", skip->algorithm);
	if (skip->size_bytes != BB_ABSENT)
		bb_strbuf_addf(out, " %lld B", (long long)skip->size_bytes);
	bb_strbuf_addf(out, ": %s\n", skip->reason);
}

bb_status bb_text_begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	bb_sink_add_head(&sink->out, run);
	return bb_sink_write(sink, &sink->out);
}

bb_status bb_text_comment(struct bb_sink *sink, const char *lines)
{
	if (sink->ops->flush)
		sink->ops->flush(sink);
	bb_strbuf_add(&sink->out, lines);
	return bb_sink_write(sink, &sink->out);
}

bb_status bb_text_end(struct bb_sink *sink, const struct bb_end_record *end)
{
	if (sink->ops->flush)
		sink->ops->flush(sink);
	if (end->data)
		bb_strbuf_addf(&sink->out, "# %s\n", end->data);
	if (!isnan(end->faultless_s))
		bb_strbuf_addf(&sink->out,
			       "# All programs with --fault: %.6g s, without it %.6g s: %.3f "
			       "times as long\n",
			       end->faulty_s, end->faultless_s, end->faulty_s / end->faultless_s);
	bb_strbuf_addf(&sink->out, "# verdict: %s\n", end->verdict);
	if (end->error)
		bb_strbuf_addf(&sink->out, "# error: %s\n", end->error);
	return bb_sink_write(sink, &sink->out);
}

/* ---- tidy CSV: one row for each record of the kind that it holds ------------------------- */

static bb_status csv_begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	bb_record_csv_header(&sink->out, sink->rows);
	return bb_sink_write(sink, &sink->out);
}

static bb_status csv_record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	if (kind != sink->rows)
		return BB_OK;
	bb_record_csv_row(&sink->out, kind, sink->run->run_id, r);
	return bb_sink_write(sink, &sink->out);
}

const struct bb_sink_ops bb_sink_csv = {
	.bytes = sizeof(struct bb_sink), .begin = csv_begin, .record = csv_record};

/* ---- every record as one line of JSON ------------------------------------------------------ */

static bb_status jsonl_record(struct bb_sink *sink, const struct bb_record_kind *kind,
			      const void *r)
{
	bb_record_json(&sink->out, kind, sink->run->run_id, r);
	bb_strbuf_add(&sink->out, "\n");
	return bb_sink_write(sink, &sink->out);
}

const struct bb_sink_ops bb_sink_jsonl = {.bytes = sizeof(struct bb_sink), .record = jsonl_record};
