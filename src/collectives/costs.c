/*
 * costs.c - how results in virtual time were obtained, in text.
 */
#include "collectives/summary.h"

#include "core/table.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The result before, if it is of the same algorithm; else NULL. */
static const struct bb_result_record *before(const struct bb_results *p, size_t i)
{
	const struct bb_result_record *r = &p->list[i];

	return i > 0 && strcmp(r[-1].algorithm_asked, r->algorithm_asked) == 0 ? r - 1 : NULL;
}

/* An end of an interval as a multiple of the predicted time. */
static bool same_multiple(const struct bb_result_record *a, double a_us,
			  const struct bb_result_record *b, double b_us)
{
	const double multiple = a_us / a->time_us, other = b_us / b->time_us;

	return isnan(multiple) ? isnan(other) : fabs(multiple - other) < 1e-6;
}

/* A line for each interval, from its first size on, and for predictions without. */
static void add_intervals(const struct bb_results *p, struct bb_strbuf *out)
{
	bb_strbuf_add(out, "# Interval in which nine in ten measurements should lie\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_result_record *r = &p->list[i], *last = before(p, i);
		char size[BB_UNIT_TEXT];

		if (last && same_text(r->predicted_from, last->predicted_from) &&
		    same_multiple(r, r->predicted_low_us, last, last->predicted_low_us) &&
		    same_multiple(r, r->predicted_high_us, last, last->predicted_high_us))
			continue;
		bb_strbuf_addf(out, "# %s from %s on: ", r->algorithm_asked,
			       bb_format_size(size, (uint64_t)r->size_bytes));
		if (!isnan(r->predicted_low_us / r->time_us))
			bb_strbuf_addf(out, "%.2f to %.2f times the predicted time\n",
				       r->predicted_low_us / r->time_us,
				       r->predicted_high_us / r->time_us);
		else
			bb_strbuf_add(out, "unknown, no comparable measurements\n");
		if (r->predicted_from)
			bb_strbuf_addf(out, "#   %s\n", r->predicted_from);
	}
}

/* A line for each choice of other versions, with its sizes. */
static void add_versions(const struct bb_results *p, struct bb_strbuf *out)
{
	for (size_t i = 0, end; i < p->n; i = end) {
		const struct bb_result_record *r = &p->list[i];
		char from[BB_UNIT_TEXT], to[BB_UNIT_TEXT];

		for (end = i + 1; end < p->n && before(p, end) &&
				  same_text(r->other_versions, p->list[end].other_versions);)
			end++;
		if (!r->other_versions)
			continue;
		bb_format_size(from, (uint64_t)r->size_bytes);
		bb_format_size(to, (uint64_t)p->list[end - 1].size_bytes);
		bb_strbuf_addf(out, "# %s at %s%s%s: %s\n", r->algorithm_asked, from,
			       strcmp(from, to) == 0 ? "" : " to ", strcmp(from, to) == 0 ? "" : to,
			       r->other_versions);
	}
}

static void add_costs(const struct bb_results *p, const char *fault, struct bb_strbuf *out)
{
	static const struct bb_table_head heads[] = {
		{"size", "(B)", 10},  {"algorithm", "", 10},      {"without", "(us)", 10},
		{"with", "(us)", 10}, {"as long", "(times)", 10}, {NULL, NULL, 0}};
	struct bb_text_table t = {.mark = "#"};

	bb_strbuf_addf(out, "# Cost of --fault %s\n", fault);
	bb_table_columns(&t, heads, 2);
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_result_record *r = &p->list[i], *last = before(p, i);
		const bool repeats =
			last && r->in_place && !last->in_place && r->size_bytes == last->size_bytes;
		char size[BB_UNIT_TEXT];

		if (!isnan(r->faultless_us) && !repeats)
			bb_table_cellf(&t, "%s\t%s\t%.2f\t%.2f\t%.3f",
				       bb_format_size(size, (uint64_t)r->size_bytes), r->algorithm,
				       r->faultless_us, r->time_us, r->time_us / r->faultless_us);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
}

void bb_costs_text(const struct bb_results *p, const char *fault, bool predicted,
		   struct bb_strbuf *out)
{
	const char *lead = "# Evaluated by: ";

	if (p->n == 0 || !p->list[0].evaluator)
		return;
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_result_record *r = &p->list[i];
		size_t first = 0;

		while (strcmp(p->list[first].algorithm, r->algorithm) != 0 ||
		       strcmp(p->list[first].evaluator, r->evaluator) != 0)
			first++;
		if (first < i)
			continue;
		bb_strbuf_addf(out, "%s%s %s", lead, r->algorithm, r->evaluator);
		lead = ", ";
	}
	bb_strbuf_add(out, "\n");
	if (predicted)
		add_intervals(p, out);
	add_versions(p, out);
	if (fault && !isnan(p->list[0].faultless_us))
		add_costs(p, fault, out);
}
