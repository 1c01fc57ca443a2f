/*
 * gantt.c - a chart of passes: a line for each stage, time from left to right.
 *
 * A pass is its letter, the number of its microbatch and dashes, as far as there is room; odd
 * chunks have small letters. Dots are waits.
 */
#include "training_kernels/pipeline/pipeline.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESET "\033[0m"

static const char *colour_of(const struct bb_pass_record *pass)
{
	return *pass->pass == 'F'   ? "\033[44;97m"  /* blue */
	       : *pass->pass == 'B' ? "\033[42;30m"  /* green */
				    : "\033[43;30m"; /* yellow */
}

/* The column of TIME, of WIDTH columns for END. */
static int column(double time, double end, int width)
{
	const int c = (int)(time / end * width + 0.5);

	return c < 0 ? 0 : c > width ? width : c;
}

static void chart_pass(struct bb_strbuf *out, const struct bb_pass_record *pass, int length,
		       bool colours)
{
	char text[32];
	int n;

	snprintf(text, sizeof(text), "%c%lld", pass->chunk % 2 ? tolower(*pass->pass) : *pass->pass,
		 (long long)pass->microbatch);
	n = (int)strlen(text);
	if (n > length) /* a truncated number would be another one */
		n = 1;
	if (length <= 0)
		return;
	bb_strbuf_addf(out, "%s%.*s", colours ? colour_of(pass) : "", n, text);
	for (; n < length; n++)
		bb_strbuf_add(out, colours ? " " : "-");
	bb_strbuf_add(out, colours ? RESET : "");
}

static void chart_stage(struct bb_strbuf *out, const struct bb_pass_record *passes, size_t n,
			double end, int width, bool colours)
{
	int at = 0;

	bb_strbuf_addf(out, "# %4lld |", (long long)passes[0].stage);
	for (size_t i = 0; i < n; i++) {
		int from = column(passes[i].from_us, end, width);
		const int to = column(passes[i].to_us, end, width);

		for (; at < from; at++)
			bb_strbuf_add(out, ".");
		chart_pass(out, &passes[i], to - at, colours);
		at = to > at ? to : at;
	}
	for (; at < width; at++)
		bb_strbuf_add(out, ".");
	bb_strbuf_add(out, "|\n");
}

const char *bb_pipeline_source_name(const char *source)
{
	return strcmp(source, "played") == 0 ? "simulated" : source;
}

void bb_pipeline_gantt(struct bb_strbuf *out, const struct bb_pass_record *passes, size_t n,
		       int width, bool colours)
{
	double end = 0;

	for (size_t i = 0; i < n; i++)
		end = fmax(end, passes[i].to_us);
	bb_strbuf_addf(out, "# %s, %s: %.2f ms\n", passes[0].schedule,
		       bb_pipeline_source_name(passes[0].source), end / 1e3);
	for (size_t i = 0, next; i < n; i = next) {
		for (next = i; next < n && passes[next].stage == passes[i].stage; next++)
			;
		chart_stage(out, &passes[i], next - i, end, width, colours);
	}
}
