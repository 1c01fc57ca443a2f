/*
 * text.c - schedules as text: tables of stages and schedules, charts of passes, and the best of the
 * schedules that fit.
 */
#include "core/array.h"
#include "core/units.h"
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

/* ---- rows ------------------------------------------------------------------------------------ */

/* The head of the tables: what all rows have in common. */
static void text_add_head(struct bb_pipeline_state *state, const struct bb_pipeline_record *r,
			  struct bb_strbuf *out)
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

	bb_strbuf_addf(out,
		       "# %lld stage%s, %lld microbatch%s; F %s, B %s, W %s; hop %s (%s), "
		       "message %s",
		       (long long)r->stages, bb_plural(r->stages), (long long)r->microbatches,
		       r->microbatches == 1 ? "" : "es", bb_format_duration(f, 1e-6 * r->f_us),
		       bb_format_duration(b, 1e-6 * r->b_us), bb_format_duration(w, 1e-6 * r->w_us),
		       bb_format_duration(hop, 1e-6 * r->hop_us), r->hop_source,
		       bb_format_size(message, (uint64_t)r->message_bytes));
	if (r->compute)
		bb_strbuf_addf(out, "; passes: %s", r->compute);
	bb_strbuf_add(out, "\n");
	state->schedules.limit = state->stages.limit = bb_table_limit(stdout);
	state->stages.merges = 2;
	bb_table_columns(&state->schedules, schedules, 3);
	bb_table_columns(&state->stages, stages, 2);
	if (r->layers.n)
		bb_table_column(&state->stages, "layers", "", 0);
}

/* A row of the schedule, by SOURCE, and rows of its stages: predicted, or MEASURED in any time. */
static void text_add_rows(struct bb_pipeline_state *state, const struct bb_pipeline_record *r,
			  bool measured, const char *source)
{
	const struct bb_numbers spans = measured ? r->stage_us : r->predicted_stage_us;
	const struct bb_numbers peaks =
		measured ? r->counted_peak_microbatches : r->peak_microbatches;
	const struct bb_numbers sent = measured ? r->counted_stage_sent_bytes : r->stage_sent_bytes;
	struct bb_text_table *t = &state->schedules;
	double peak = 0, bytes = 0;

	for (size_t s = 0; s < peaks.n; s++) {
		peak = fmax(peak, peaks.values[s]);
		bytes += sent.values[s];
		if (r->stages > MOST_LINES)
			continue;
		bb_table_cellf(&state->stages, "%s\t%zu\t%s\t%.2f\t%.2f\t%.2f\t%.0f", r->schedule,
			       s, source, spans.values[s] / 1e3, peaks.values[s],
			       r->stage_peak_bytes.values[s] / 1e6, sent.values[s]);
		if (r->layers.n)
			bb_table_cellf(&state->stages, "%.0f", r->layers.values[s]);
	}
	bb_table_cellf(t, "%s\t%lld\t%s", r->schedule, (long long)r->chunks, source);
	if (!measured) {
		bb_table_cellf(t, "%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f\t\t\t%.2f\t%.0f\t",
			       r->predicted_us / 1e3, r->predicted_bubble_over_ideal,
			       r->predicted_bubble_over_total, r->predicted_span_us / 1e3,
			       r->predicted_span_bubble_over_ideal,
			       r->predicted_span_bubble_over_total, peak, bytes);
		return;
	}
	bb_table_cellf(t, "%.2f\t%.4f\t%.4f\t%.2f\t%.4f\t%.4f\t%.2f\t%+.1f\t%.2f\t%.0f",
		       r->p50_us / 1e3, r->bubble_over_ideal, r->bubble_over_total,
		       r->span_us / 1e3, r->span_bubble_over_ideal, r->span_bubble_over_total,
		       r->p99_us / 1e3, r->off_percent, peak, bytes);
	if (r->wrong == BB_ABSENT)
		bb_table_cell(t, "N/A");
	else
		bb_table_cellf(t, "%lld", (long long)r->wrong);
}

bb_status bb_pipeline_text_add(struct bb_run *run, const struct bb_pipeline_record *r)
{
	struct bb_pipeline_state *state = run->own;
	const bool fits = !r->fit || r->memory_bytes <= r->memory_limit_bytes;
	struct bb_strbuf head = {0};
	struct bb_pipeline_record *kept = NULL;
	bb_status status = BB_OK;

	if (state->schedules.ncolumns == 0) {
		text_add_head(state, r, &head);
		status = bb_sinks_comment(&run->sinks, bb_strbuf_text(&head));
		bb_strbuf_free(&head);
	}
	text_add_rows(state, r, false, "predicted");
	if (r->compute)
		text_add_rows(state, r, true, run->record.virtual_time ? "simulated" : "measured");
	if (!isnan(r->published_bubble_over_total)) {
		bb_table_cellf(&state->schedules, "%s\t%lld\tpublished\t\t\t%.4f\t\t\t\t\t\t\t\t",
			       r->schedule, (long long)r->chunks, r->published_bubble_over_total);
		state->published = r->stages;
	}
	if (!fits) {
		bb_strbuf_addf(&state->misfits, "# %s %s\n", r->schedule, r->fit);
		return status;
	}
	if (r->fit)
		bb_strbuf_addf(&state->fits, "%s %s", state->fits.length ? "," : "", r->schedule);
	kept = BB_ARRAY_ADD(state->kept, state->nkept, state->kept_room);
	if (!kept)
		return bb_no_memory(&run->error, "the schedules");
	for (; kept > state->kept && kept[-1].peak_bytes > r->peak_bytes; kept--)
		*kept = kept[-1];
	*kept = *r;
	return status;
}

bb_status bb_pipeline_text_sum_up(struct bb_run *run)
{
	struct bb_pipeline_state *state = run->own;
	struct bb_strbuf out = {0};
	bb_status status;

	if (state->schedules.ncells == 0)
		return BB_OK;
	if (state->stages.ncells > 0) {
		bb_strbuf_add(&out, "#\n");
		bb_table_print(&state->stages, &out);
	} else {
		bb_strbuf_add(&out, "# The stages are in --json: predicted_stage_us and others\n");
	}
	bb_strbuf_add(&out, "#\n");
	bb_table_print(&state->schedules, &out);
	if (state->published)
		bb_strbuf_addf(&out,
			       "# published: waits around the ring only at the first of %lld "
			       "microbatches\n",
			       (long long)state->published);
	if (state->fits.length)
		bb_strbuf_addf(&out, "# fit into the memory of a rank:%s\n",
			       bb_strbuf_text(&state->fits));
	bb_strbuf_add(&out, bb_strbuf_text(&state->misfits));
	status = out.failed ? BB_EINTERNAL : bb_sinks_comment(&run->sinks, bb_strbuf_text(&out));
	bb_strbuf_free(&out);
	return status;
}

/* ---- charts: a line for each stage, time from left to right ---------------------------------- */

/*
 * A pass of LENGTH columns is its letter, the number of its microbatch and dashes, as far as there
 * is room; odd chunks have small letters.
 */
static void chart_add_pass(struct bb_strbuf *out, const struct bb_pass *pass, int length,
			   bool colours)
{
	const char letter = *bb_pass_names[pass->kind];
	const char *colour = letter == 'F'   ? "\033[44;97m"  /* blue */
			     : letter == 'B' ? "\033[42;30m"  /* green */
					     : "\033[43;30m"; /* yellow */
	char text[32];
	int n = snprintf(text, sizeof(text), "%c%d", pass->chunk % 2 ? tolower(letter) : letter,
			 pass->microbatch);

	if (length <= 0)
		return;
	if (n > length) /* a truncated number would be another one */
		n = 1;
	bb_strbuf_addf(out, "%s%.*s", colours ? colour : "", n, text);
	for (; n < length; n++)
		bb_strbuf_add(out, colours ? " " : "-");
	bb_strbuf_add(out, colours ? "\033[0m" : "");
}

bb_status bb_pipeline_text_chart(struct bb_sinks *sinks, const char *schedule,
				 const struct bb_pass_times *t, const char *source)
{
	const struct bb_order *order = t->order;
	const char *no_colour = getenv("NO_COLOR");
	const bool colours = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
	const int columns = bb_terminal_limit(stdout, INT_MAX);
	const int room = (columns < INT_MAX ? columns : BB_TABLE_LIMIT) - MARGIN;
	const int width = room < NARROW ? NARROW : room;
	struct bb_strbuf out = {0};
	double end = 0;
	bb_status status;

	for (size_t slot = 0; slot < bb_order_slots(order); slot++)
		end = fmax(end, t->to[slot]);
	bb_strbuf_addf(&out, "# %s, %s: %.2f ms\n", schedule, source, 1e3 * end);
	for (int s = 0; s < order->stages; s++) {
		int at = 0; /* column */

		bb_strbuf_addf(&out, "# %4d |", s);
		for (size_t i = 0; i <= order->length; i++) {
			const bool all = i == order->length;
			const struct bb_pass *pass = &bb_order_passes(order, s)[all ? 0 : i];
			const size_t slot = bb_order_slot(order, s, pass);
			const int from = all ? width : (int)(t->from[slot] / end * width + 0.5);
			const int to = (int)(t->to[slot] / end * width + 0.5);

			for (; at < from && at < width; at++)
				bb_strbuf_add(&out, "."); /* waits */
			if (all)
				continue;
			chart_add_pass(&out, pass, (to < width ? to : width) - at, colours);
			at = to > at ? to : at;
		}
		bb_strbuf_add(&out, "|\n");
	}
	status = bb_sinks_draw(sinks, &out);
	bb_strbuf_free(&out);
	return status;
}

/* ---- the best of the schedules that fit ------------------------------------------------------ */

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

void bb_pipeline_text_best(struct bb_run *run, struct bb_strbuf *out)
{
	const struct bb_pipeline_state *state = run->own;
	const bool ran = state->nkept > 0 && state->kept[0].compute;
	const size_t answer = out->length;

	/* Measured times of stages have no interval. */
	for (int by_stage = !ran; by_stage >= 0 && state->nkept > 0; by_stage--) {
		struct bb_best best = {.choice = {.subject = by_stage ? "schedule by stage time"
								      : "schedule by step time",
						  .noise = ran && bb_estimate_noise(run)
								   ? "their ranges overlap"
								   : NULL,
						  .unit = "",
						  .preference = "no more memory",
						  .cause = bubble_cause}};

		for (size_t i = 0; i < state->nkept; i++) {
			const struct bb_pipeline_record *r = &state->kept[i];
			const double us = by_stage ? r->predicted_span_us
					  : ran    ? r->p50_us
						   : r->predicted_us;
			char bytes[BB_UNIT_TEXT];

			bb_best_add(&best,
				    (struct bb_candidate){.seconds = 1e-6 * us,
							  .low = 1e-6 * r->min_us,
							  .high = 1e-6 * r->max_us,
							  .own = r},
				    "%s (peak %s)", r->schedule,
				    bb_format_bytes(bytes, (uint64_t)r->peak_bytes));
		}
		bb_best_recommend(&best, out);
	}
	bb_run_answer(run, out, answer);
}
