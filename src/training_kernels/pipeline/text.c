/*
 * text.c - schedules as text: tables of stages and schedules, and charts.
 */
#include "core/array.h"
#include "core/table.h"
#include "core/units.h"
#include "training_kernels/pipeline/pipeline.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARGIN 9      /* of a Gantt chart: "#    0 |" and "|" */
#define NARROW 40     /* least width of a chart */
#define MOST_LINES 16 /* with more stages, they are in the records alone */

struct text {
	struct bb_sink sink;
	struct bb_text_table schedules, stages; /* not printed yet */
	int64_t published;                      /* stages of a row as published; 0: none */
	struct bb_pass_record *passes;          /* of a chart that is not drawn yet */
	size_t n, room;
	struct bb_strbuf fits, misfits; /* names of schedules; sentences */
};

static struct text *text_of(struct bb_sink *sink)
{
	return (struct text *)sink;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void text_add_head(struct text *t, const struct bb_pipeline_record *r)
{
	static const struct bb_table_head schedules[] = {
		{"schedule", "", -1},    {"v", "", 0},
		{"time", "", 0},         {"step", "(ms)", 0},
		{"bubble", "/ideal", 0}, {"bubble", "/total", 0},
		{"stage", "(ms)", 0},    {"bubble", "/ideal", 0},
		{"bubble", "/total", 0}, {"p99", "(ms)", 0},
		{"off", "(%)", 0},       {"peak", "(M_B)", 0},
		{"sent", "(B)", 0},      {"#wrong", "", 0},
		{NULL, NULL, 0},
	};
	static const struct bb_table_head stages[] = {
		{"schedule", "", -1}, {"stage", "", 0},    {"time", "", 0},    {"stage", "(ms)", 0},
		{"peak", "(M_B)", 0}, {"peak", "(MB)", 0}, {"sent", "(B)", 0}, {NULL, NULL, 0},
	};
	char f[BB_UNIT_TEXT], b[BB_UNIT_TEXT], w[BB_UNIT_TEXT], hop[BB_UNIT_TEXT];
	char message[BB_UNIT_TEXT];

	bb_strbuf_addf(&t->sink.out,
		       "# %lld stage%s, %lld microbatch%s; F %s, B %s, W %s; hop %s (%s), "
		       "message %s",
		       (long long)r->stages, bb_plural(r->stages), (long long)r->microbatches,
		       r->microbatches == 1 ? "" : "es", bb_format_duration(f, 1e-6 * r->f_us),
		       bb_format_duration(b, 1e-6 * r->b_us), bb_format_duration(w, 1e-6 * r->w_us),
		       bb_format_duration(hop, 1e-6 * r->hop_us),
		       bb_pipeline_source_name(r->hop_source),
		       bb_format_size(message, (uint64_t)r->message_bytes));
	if (r->compute)
		bb_strbuf_addf(&t->sink.out, "; passes: %s", r->compute);
	bb_strbuf_add(&t->sink.out, "\n");
	bb_table_columns(&t->schedules, schedules, 3);
	bb_table_columns(&t->stages, stages, 2);
	if (r->layers.n)
		bb_table_column(&t->stages, "layers", "", 0);
}

double bb_pipeline_most(const struct bb_numbers *numbers)
{
	double most = 0;

	for (size_t i = 0; i < numbers->n; i++)
		most = fmax(most, numbers->values[i]);
	return most;
}

static void add_predicted(struct bb_text_table *t, const struct bb_pipeline_record *r)
{
	bb_table_cellf(t,
		       "%s\t%lld\tpredicted\t%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f\t\t\t%.2f\t%lld\t",
		       r->schedule, (long long)r->chunks, r->predicted_us / 1e3,
		       r->predicted_bubble_over_ideal, r->predicted_bubble_over_total,
		       r->predicted_span_us / 1e3, r->predicted_span_bubble_over_ideal,
		       r->predicted_span_bubble_over_total, bb_pipeline_most(&r->peak_microbatches),
		       (long long)r->sent_bytes);
}

static void add_found(struct bb_text_table *t, const struct bb_pipeline_record *r,
		      const char *found)
{
	bb_table_cellf(
		t, "%s\t%lld\t%s\t%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f\t%.2f\t%+.1f\t%.2f\t%lld",
		r->schedule, (long long)r->chunks, found, r->p50_us / 1e3, r->bubble_over_ideal,
		r->bubble_over_total, r->span_us / 1e3, r->span_bubble_over_ideal,
		r->span_bubble_over_total, r->p99_us / 1e3, r->off_percent,
		bb_pipeline_most(&r->counted_peak_microbatches), (long long)r->counted_sent_bytes);
	if (r->wrong == BB_ABSENT)
		bb_table_cell(t, "N/A");
	else
		bb_table_cellf(t, "%lld", (long long)r->wrong);
}

/* Stage S: its time SPAN_US, its PEAK in microbatches, and the bytes that it has SENT. */
static void add_stage(struct bb_text_table *t, const struct bb_pipeline_record *r, size_t s,
		      const char *time, double span_us, double peak, double sent)
{
	bb_table_cellf(t, "%s\t%zu\t%s\t%.2f\t%.2f\t%.2f\t%.0f", r->schedule, s, time,
		       span_us / 1e3, peak, r->stage_peak_bytes.values[s] / 1e6, sent);
	if (r->layers.n)
		bb_table_cellf(t, "%.0f", r->layers.values[s]);
}

/* Whether the stages of a model, if there is one, fit into the memory of a rank. */
static void keep_fit(struct text *t, const struct bb_pipeline_record *r)
{
	if (!bb_pipeline_fits(r))
		bb_strbuf_addf(&t->misfits, "# %s %s\n", r->schedule, r->fit);
	else if (r->fit)
		bb_strbuf_addf(&t->fits, "%s %s", t->fits.length ? "," : "", r->schedule);
}

static void text_add_rows(struct text *t, const struct bb_pipeline_record *r)
{
	const char *found = t->sink.run->virtual_time ? "simulated" : "measured";

	keep_fit(t, r);
	add_predicted(&t->schedules, r);
	if (r->compute)
		add_found(&t->schedules, r, found);
	if (!isnan(r->published_bubble_over_total)) {
		bb_table_cellf(&t->schedules, "%s\t%lld\tpublished\t\t\t%.4f\t\t\t\t\t\t\t\t",
			       r->schedule, (long long)r->chunks, r->published_bubble_over_total);
		t->published = r->stages;
	}
	if (r->stages > MOST_LINES)
		return;
	for (size_t s = 0; s < (size_t)r->stages; s++)
		add_stage(&t->stages, r, s, "predicted", r->predicted_stage_us.values[s],
			  r->peak_microbatches.values[s], r->stage_sent_bytes.values[s]);
	for (size_t s = 0; s < (size_t)r->stages && r->compute; s++)
		add_stage(&t->stages, r, s, found, r->stage_us.values[s],
			  r->counted_peak_microbatches.values[s],
			  r->counted_stage_sent_bytes.values[s]);
}

/* ---- charts ---------------------------------------------------------------------------------- */

/* Draws the chart. */
static bb_status text_draw(struct text *t)
{
	const char *no_colour = getenv("NO_COLOR");
	FILE *file = t->sink.file;
	const bool terminal = isatty(fileno(file));
	const int columns = bb_terminal_limit(file, INT_MAX);
	const int width = (columns < INT_MAX ? columns : BB_TABLE_LIMIT) - MARGIN;
	struct bb_strbuf chart = {0};
	bb_status status;

	if (t->n == 0)
		return BB_OK;
	bb_pipeline_gantt(&chart, t->passes, t->n, width < NARROW ? NARROW : width,
			  terminal && !(no_colour && *no_colour));
	t->n = 0;
	status = bb_sink_draw(&t->sink, &chart);
	bb_strbuf_free(&chart);
	return status;
}

/* The strings of a record are constant; the record itself is not. */
static bb_status keep_pass(struct text *t, const struct bb_pass_record *r)
{
	struct bb_pass_record *pass;
	bb_status status = BB_OK;

	if (t->n > 0 && strcmp(t->passes[0].source, r->source) != 0)
		status = text_draw(t);
	pass = BB_ARRAY_ADD(t->passes, t->n, t->room);
	if (!pass)
		return BB_EINTERNAL;
	*pass = *r;
	return status;
}

/* ---- the sink -------------------------------------------------------------------------------- */

static bb_status text_record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct text *t = text_of(sink);
	const struct bb_skip_record *s = r;
	bb_status status;

	if (kind == &bb_record_pass)
		return keep_pass(t, r);
	BB_TRY(status, text_draw(t), out);
	if (kind == &bb_record_pipeline && t->schedules.ncolumns == 0)
		text_add_head(t, r);
	if (kind == &bb_record_pipeline)
		text_add_rows(t, r);
	if (kind == &bb_record_skip)
		bb_strbuf_addf(&sink->out, "# skipped: %s: %s\n", s->algorithm, s->reason);
	status = bb_sink_write(sink, &sink->out);
out:
	return status;
}

/* The tables come last, those of the schedules behind their stages. */
static void text_flush(struct bb_sink *sink)
{
	struct text *t = text_of(sink);

	sink->out.failed |= text_draw(t) != BB_OK;
	if (t->stages.ncells > 0)
		bb_strbuf_add(&sink->out, "#\n");
	else if (t->schedules.ncells > 0)
		bb_strbuf_add(&sink->out,
			      "# The stages are in --json: predicted_stage_us and others\n");
	if (t->stages.ncells > 0)
		bb_table_print(&t->stages, &sink->out);
	if (t->schedules.ncells > 0) {
		bb_strbuf_add(&sink->out, "#\n");
		bb_table_print(&t->schedules, &sink->out);
	}
	if (t->published)
		bb_strbuf_addf(&sink->out,
			       "# published: waits around the ring only at the first of %lld "
			       "microbatches\n",
			       (long long)t->published);
	t->published = 0;
	if (t->fits.length)
		bb_strbuf_addf(&sink->out, "# fit into the memory of a rank:%s\n",
			       bb_strbuf_text(&t->fits));
	bb_strbuf_add(&sink->out, bb_strbuf_text(&t->misfits));
	bb_strbuf_free(&t->fits);
	bb_strbuf_free(&t->misfits);
}

static void text_release(struct bb_sink *sink)
{
	struct text *t = text_of(sink);

	bb_table_free(&t->schedules);
	bb_table_free(&t->stages);
	bb_strbuf_free(&t->fits);
	bb_strbuf_free(&t->misfits);
	free(t->passes);
}

static const struct bb_sink_ops pipeline_ops = {
	.begin = bb_text_begin,
	.record = text_record,
	.comment = bb_text_comment,
	.end = bb_text_end,
	.flush = text_flush,
	.release = text_release,
};

bb_status bb_sink_pipeline_open(struct bb_sink **sink, FILE *file, const char *path)
{
	struct text *t = bb_sink_new(sizeof(*t), &pipeline_ops, file, path);

	if (!t)
		return BB_EINTERNAL;
	t->sink.width = bb_fold_limit(file);
	t->schedules.limit = t->stages.limit = bb_table_limit(file);
	t->stages.merges = 2;
	*sink = &t->sink;
	return BB_OK;
}
