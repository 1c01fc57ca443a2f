/*
 * text.c - schedules as text: tables of stages and schedules, charts of passes, and the best of the
 * schedules that fit.
 */
#include "core/array.h"
#include "core/recommend.h"
#include "core/table.h"
#include "core/units.h"
#include "harness/run/run.h"
#include "training_kernels/pipeline/pipeline.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
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

/* SOURCE of a record in the words of the text: "played" is "simulated". */
static const char *source_name(const char *source)
{
	return strcmp(source, "played") == 0 ? "simulated" : source;
}

/* Does the schedule fit into the memory of a rank? True if that is not asked. */
static bool schedule_fits(const struct bb_pipeline_record *r)
{
	return !r->fit || r->memory_bytes <= r->memory_limit_bytes;
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
		       bb_format_duration(hop, 1e-6 * r->hop_us), source_name(r->hop_source),
		       bb_format_size(message, (uint64_t)r->message_bytes));
	if (r->compute)
		bb_strbuf_addf(&t->sink.out, "; passes: %s", r->compute);
	bb_strbuf_add(&t->sink.out, "\n");
	bb_table_columns(&t->schedules, schedules, 3);
	bb_table_columns(&t->stages, stages, 2);
	if (r->layers.n)
		bb_table_column(&t->stages, "layers", "", 0);
}

/* The begin of a row: the schedule, and the times and bubbles of its step and of its stages. */
static void add_times(struct bb_text_table *t, const struct bb_pipeline_record *r,
		      const char *source, const double of[6])
{
	bb_table_cellf(t, "%s\t%lld\t%s\t%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f", r->schedule,
		       (long long)r->chunks, source, of[0] / 1e3, of[1], of[2], of[3] / 1e3, of[4],
		       of[5]);
}

static double largest(const struct bb_numbers *numbers)
{
	double most = 0;

	for (size_t i = 0; i < numbers->n; i++)
		most = fmax(most, numbers->values[i]);
	return most;
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

static void text_add_rows(struct text *t, const struct bb_pipeline_record *r)
{
	const double predicted[] = {r->predicted_us,
				    r->predicted_bubble_over_ideal,
				    r->predicted_bubble_over_total,
				    r->predicted_span_us,
				    r->predicted_span_bubble_over_ideal,
				    r->predicted_span_bubble_over_total};
	const double measured[] = {
		r->p50_us,  r->bubble_over_ideal,      r->bubble_over_total,
		r->span_us, r->span_bubble_over_ideal, r->span_bubble_over_total};
	const char *found = t->sink.run->virtual_time ? "simulated" : "measured";

	if (!schedule_fits(r))
		bb_strbuf_addf(&t->misfits, "# %s %s\n", r->schedule, r->fit);
	else if (r->fit)
		bb_strbuf_addf(&t->fits, "%s %s", t->fits.length ? "," : "", r->schedule);
	add_times(&t->schedules, r, "predicted", predicted);
	bb_table_cellf(&t->schedules, "\t\t%.2f\t%lld\t", largest(&r->peak_microbatches),
		       (long long)r->sent_bytes);
	if (r->compute) {
		add_times(&t->schedules, r, found, measured);
		bb_table_cellf(&t->schedules, "%.2f\t%+.1f\t%.2f\t%lld", r->p99_us / 1e3,
			       r->off_percent, largest(&r->counted_peak_microbatches),
			       (long long)r->counted_sent_bytes);
		if (r->wrong == BB_ABSENT)
			bb_table_cell(&t->schedules, "N/A");
		else
			bb_table_cellf(&t->schedules, "%lld", (long long)r->wrong);
	}
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

/* ---- charts: a line for each stage, time from left to right ---------------------------------- */

/*
 * A pass of LENGTH columns is its letter, the number of its microbatch and dashes, as far as there
 * is room; odd chunks have small letters. Dots are waits.
 */
static void chart_pass(struct bb_strbuf *out, const struct bb_pass_record *pass, int length,
		       bool colours)
{
	const char *colour = *pass->pass == 'F'   ? "\033[44;97m"  /* blue */
			     : *pass->pass == 'B' ? "\033[42;30m"  /* green */
						  : "\033[43;30m"; /* yellow */
	char text[32];
	int n;

	snprintf(text, sizeof(text), "%c%lld", pass->chunk % 2 ? tolower(*pass->pass) : *pass->pass,
		 (long long)pass->microbatch);
	n = (int)strlen(text);
	if (n > length) /* a truncated number would be another one */
		n = 1;
	if (length <= 0)
		return;
	bb_strbuf_addf(out, "%s%.*s", colours ? colour : "", n, text);
	for (; n < length; n++)
		bb_strbuf_add(out, colours ? " " : "-");
	bb_strbuf_add(out, colours ? "\033[0m" : "");
}

/* The column of TIME, of WIDTH columns for END. */
static int chart_column(double time, double end, int width)
{
	const int c = (int)(time / end * width + 0.5);

	return c < 0 ? 0 : c > width ? width : c;
}

/* N passes of one schedule and source, on a line of WIDTH characters for each stage. */
static void chart_passes(struct bb_strbuf *out, const struct bb_pass_record *passes, size_t n,
			 int width, bool colours)
{
	double end = 0;

	for (size_t i = 0; i < n; i++)
		end = fmax(end, passes[i].to_us);
	bb_strbuf_addf(out, "# %s, %s: %.2f ms\n", passes[0].schedule,
		       source_name(passes[0].source), end / 1e3);
	for (size_t i = 0; i < n;) {
		const int64_t stage = passes[i].stage;
		int at = 0;

		bb_strbuf_addf(out, "# %4lld |", (long long)stage);
		for (; i < n && passes[i].stage == stage; i++) {
			const int from = chart_column(passes[i].from_us, end, width);
			const int to = chart_column(passes[i].to_us, end, width);

			for (; at < from; at++)
				bb_strbuf_add(out, ".");
			chart_pass(out, &passes[i], to - at, colours);
			at = to > at ? to : at;
		}
		for (; at < width; at++)
			bb_strbuf_add(out, ".");
		bb_strbuf_add(out, "|\n");
	}
}

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
	chart_passes(&chart, t->passes, t->n, width < NARROW ? NARROW : width,
		     terminal && !(no_colour && *no_colour));
	t->n = 0;
	status = bb_sink_draw(&t->sink, &chart);
	bb_strbuf_free(&chart);
	return status;
}

/* ---- the sink -------------------------------------------------------------------------------- */

static bb_status text_record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct text *t = text_of(sink);
	const struct bb_pass_record *pass = kind == &bb_record_pass ? r : NULL;
	const struct bb_skip_record *s = r;
	bb_status status = BB_OK;

	if (!pass || (t->n > 0 && strcmp(t->passes[0].source, pass->source) != 0))
		BB_TRY(status, text_draw(t), out);
	if (pass) {
		/* Its strings are constant; the record itself is not. */
		struct bb_pass_record *kept = BB_ARRAY_ADD(t->passes, t->n, t->room);

		if (!kept)
			return BB_EINTERNAL;
		*kept = *pass;
		return BB_OK;
	}
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

/* ---- the best of the schedules that fit ------------------------------------------------------ */

bb_status bb_pipeline_keep(struct bb_pipeline_state *state, const struct bb_pipeline_record *r)
{
	struct bb_pipeline_record *kept;

	if (!schedule_fits(r))
		return BB_OK;
	kept = BB_ARRAY_ADD(state->kept, state->nkept, state->kept_room);
	if (!kept)
		return BB_EINTERNAL;
	for (; kept > state->kept && kept[-1].peak_bytes > r->peak_bytes; kept--)
		*kept = kept[-1];
	*kept = *r;
	return BB_OK;
}

/* OWN of a candidate is its record; its time is a step's or a stage's. */
static void bubble_cause(const struct bb_candidate *ahead, const struct bb_candidate *behind,
			 struct bb_strbuf *out)
{
	const struct bb_pipeline_record *a = ahead->own, *b = behind->own;
	const double bubble =
		behind->seconds - 1e-6 * b->ideal_us - (ahead->seconds - 1e-6 * a->ideal_us);
	char text[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "its bubble is %s longer", bb_format_duration(text, bubble));
}

/* The best by the step, or by the predicted stage. */
static void add_best(const struct bb_run *run, bool by_stage, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const bool exact = !state->kept[0].compute || !bb_estimate_noise(run);
	struct bb_candidate *list = calloc(state->nkept, sizeof(*list));
	struct bb_recommendation choice = {.subject = by_stage ? "schedule by stage time"
							       : "schedule by step time",
					   .noise = exact ? NULL : "their ranges overlap",
					   .unit = "",
					   .list = list,
					   .n = list ? state->nkept : 0,
					   .preference = "no more memory",
					   .cause = bubble_cause};

	out->failed |= !list;
	for (size_t i = 0; i < choice.n; i++) {
		const struct bb_pipeline_record *r = &state->kept[i];
		const double us = by_stage     ? r->predicted_span_us
				  : r->compute ? r->p50_us
					       : r->predicted_us;
		char bytes[BB_UNIT_TEXT];

		list[i] = (struct bb_candidate){.seconds = 1e-6 * us,
						.low = 1e-6 * r->min_us,
						.high = 1e-6 * r->max_us,
						.own = r};
		snprintf(list[i].name, sizeof(list[i].name), "%s (peak %s)", r->schedule,
			 bb_format_bytes(bytes, (uint64_t)r->peak_bytes));
	}
	bb_recommend(&choice, out);
	free(list);
}

void bb_pipeline_recommend(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const size_t answer = out->length;

	/* Measured times of stages have no interval. */
	if (state->nkept > 0 && !state->kept[0].compute)
		add_best(run, true, out);
	if (state->nkept > 0)
		add_best(run, false, out);
	bb_run_answer(run, out, answer);
}
