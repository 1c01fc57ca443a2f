/*
 * text.c - schedules as text: a row of the prediction and one of the measurement, and charts.
 */
#include "core/array.h"
#include "core/units.h"
#include "training_kernels/pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MARGIN 9      /* of a Gantt chart: "#    0 |" and "|" */
#define NARROW 40     /* least width of a chart */
#define PLAIN 108     /* width without a terminal */
#define MOST_LINES 16 /* with more stages, they are in the records alone */

struct text {
	struct bb_sink sink;
	struct bb_strbuf out; /* not written yet */
	bool headed;
	const char *found;             /* the row that is not predicted: measured or simulated */
	struct bb_pass_record *passes; /* of a chart that is not drawn yet */
	size_t n, room;
};

static struct text *text_of(struct bb_sink *sink)
{
	return (struct text *)sink;
}

static bb_status text_begin(struct bb_sink *sink, const struct bb_run_record *run)
{
	struct bb_strbuf *out = &text_of(sink)->out;

	text_of(sink)->found = run->virtual_time ? "simulated" : "measured";
	bb_sink_add_head(out, run);
	return bb_sink_write(sink, out);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void text_add_head(struct bb_strbuf *out, const struct bb_pipeline_record *r)
{
	char f[BB_UNIT_TEXT], b[BB_UNIT_TEXT], w[BB_UNIT_TEXT], hop[BB_UNIT_TEXT];
	char message[BB_UNIT_TEXT];

	bb_strbuf_addf(out,
		       "# %lld stage%s, %lld microbatch%s; F %s, B %s, W %s; hop %s (%s), "
		       "message %s",
		       (long long)r->stages, bb_plural(r->stages), (long long)r->microbatches,
		       r->microbatches == 1 ? "" : "es", bb_format_duration(f, 1e-6 * r->f_us),
		       bb_format_duration(b, 1e-6 * r->b_us), bb_format_duration(w, 1e-6 * r->w_us),
		       bb_format_duration(hop, 1e-6 * r->hop_us),
		       bb_pipeline_source_name(r->hop_source),
		       bb_format_size(message, (uint64_t)r->message_bytes));
	if (r->compute)
		bb_strbuf_addf(out, "; passes: %s", r->compute);
	bb_strbuf_add(
		out,
		"\n#\n"
		"#                                 step    bubble    bubble     stage    bubble "
		"   bubble     p99    off   peak     sent\n"
		"# schedule     v                  (ms)    /ideal    /total      (ms)    /ideal "
		"   /total    (ms)    (%)  (M_B)      (B)  #wrong\n");
}

double bb_pipeline_most(const struct bb_numbers *numbers)
{
	double most = 0;

	for (size_t i = 0; i < numbers->n; i++)
		most = fmax(most, numbers->values[i]);
	return most;
}

/* One stage: predicted, and measured or counted. */
static void text_add_stage(struct bb_strbuf *out, const struct bb_pipeline_record *r,
			   const char *found, size_t s)
{
	char peak[BB_UNIT_TEXT];

	bb_strbuf_addf(out, "# %16s stage %-2zu %9.2f", "", s,
		       r->predicted_stage_us.values[s] / 1e3);
	if (r->compute)
		bb_strbuf_addf(out, ", %s %.2f", found, r->stage_us.values[s] / 1e3);
	bb_strbuf_addf(out, " ms; peak %.2f", r->peak_microbatches.values[s]);
	if (r->compute)
		bb_strbuf_addf(out, ", counted %.2f", r->counted_peak_microbatches.values[s]);
	bb_strbuf_addf(out, " M_B (%s); sent %.0f",
		       bb_format_bytes(peak, (uint64_t)r->stage_peak_bytes.values[s]),
		       r->stage_sent_bytes.values[s]);
	if (r->compute)
		bb_strbuf_addf(out, ", counted %.0f", r->counted_stage_sent_bytes.values[s]);
	bb_strbuf_add(out, " B");
	if (r->layers.n)
		bb_strbuf_addf(out, "; layers %.0f", r->layers.values[s]);
	bb_strbuf_add(out, "\n");
}

static void text_add_rows(struct bb_strbuf *out, const struct bb_pipeline_record *r,
			  const char *found)
{
	bb_strbuf_addf(out,
		       "  %-12s %-3lld predicted %9.2f    %6.4f    %6.4f %9.2f    %6.4f    %6.4f "
		       "%7s %6s %6.2f %8lld\n",
		       r->schedule, (long long)r->chunks, r->predicted_us / 1e3,
		       r->predicted_bubble_over_ideal, r->predicted_bubble_over_total,
		       r->predicted_span_us / 1e3, r->predicted_span_bubble_over_ideal,
		       r->predicted_span_bubble_over_total, "", "",
		       bb_pipeline_most(&r->peak_microbatches), (long long)r->sent_bytes);
	if (r->compute) {
		bb_strbuf_addf(out,
			       "  %-16s %-9s %9.2f    %6.4f    %6.4f %9.2f    %6.4f    %6.4f "
			       "%7.2f %+6.1f %6.2f %8lld ",
			       "", found, r->p50_us / 1e3, r->bubble_over_ideal,
			       r->bubble_over_total, r->span_us / 1e3, r->span_bubble_over_ideal,
			       r->span_bubble_over_total, r->p99_us / 1e3, r->off_percent,
			       bb_pipeline_most(&r->counted_peak_microbatches),
			       (long long)r->counted_sent_bytes);
		if (r->wrong == BB_ABSENT)
			bb_strbuf_add(out, "    N/A\n");
		else
			bb_strbuf_addf(out, "%7lld\n", (long long)r->wrong);
	}
	if (!isnan(r->published_bubble_over_total))
		bb_strbuf_addf(
			out,
			"  %-16s as published, with waits around the ring at the first of %lld "
			"microbatches: bubble/total %.4f\n",
			"", (long long)r->stages, r->published_bubble_over_total);
	if (r->stages > MOST_LINES) {
		bb_strbuf_addf(out, "# %16s per stage: --json, predicted_stage_us and others\n",
			       "");
		return;
	}
	for (size_t s = 0; s < (size_t)r->stages; s++)
		text_add_stage(out, r, found, s);
}

/* ---- charts ---------------------------------------------------------------------------------- */

static void text_flush(struct text *t)
{
	struct winsize size;
	const int fd = fileno(t->sink.file);
	const bool terminal = isatty(fd);
	int width = PLAIN;

	if (t->n == 0)
		return;
	if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		width = size.ws_col;
	width = width - MARGIN < NARROW ? NARROW : width - MARGIN;
	bb_pipeline_gantt(&t->out, t->passes, t->n, width, terminal);
	t->n = 0;
}

/* The strings of a record are constant; the record itself is not. */
static bb_status keep_pass(struct text *t, const struct bb_pass_record *r)
{
	struct bb_pass_record *pass;

	if (t->n > 0 && strcmp(t->passes[0].source, r->source) != 0)
		text_flush(t);
	pass = BB_ARRAY_ADD(t->passes, t->n, t->room);
	if (!pass)
		return BB_EINTERNAL;
	*pass = *r;
	return BB_OK;
}

static bb_status text_record(struct bb_sink *sink, const struct bb_record_kind *kind, const void *r)
{
	struct text *t = text_of(sink);
	const struct bb_skip_record *s = r;

	if (kind == &bb_record_pass)
		return keep_pass(t, r);
	text_flush(t);
	if (kind == &bb_record_pipeline && !t->headed) {
		text_add_head(&t->out, r);
		t->headed = true;
	}
	if (kind == &bb_record_pipeline)
		text_add_rows(&t->out, r, t->found);
	if (kind == &bb_record_skip)
		bb_strbuf_addf(&t->out, "# skipped: %s: %s\n", s->algorithm, s->reason);
	return bb_sink_write(sink, &t->out);
}

static bb_status text_comment(struct bb_sink *sink, const char *lines)
{
	text_flush(text_of(sink));
	bb_strbuf_add(&text_of(sink)->out, lines);
	return bb_sink_write(sink, &text_of(sink)->out);
}

static bb_status text_end(struct bb_sink *sink, const struct bb_end_record *r)
{
	struct bb_strbuf *out = &text_of(sink)->out;

	text_flush(text_of(sink));
	bb_sink_add_end(out, r);
	return bb_sink_write(sink, out);
}

static void text_release(struct bb_sink *sink)
{
	bb_strbuf_free(&text_of(sink)->out);
	free(text_of(sink)->passes);
}

static const struct bb_sink_ops pipeline_ops = {
	.begin = text_begin,
	.record = text_record,
	.comment = text_comment,
	.end = text_end,
	.release = text_release,
};

bb_status bb_sink_pipeline_open(struct bb_sink **sink, FILE *file, const char *path)
{
	*sink = bb_sink_new(sizeof(struct text), &pipeline_ops, file, path);
	return *sink ? BB_OK : BB_EINTERNAL;
}
