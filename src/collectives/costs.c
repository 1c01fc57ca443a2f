/*
 * costs.c - how results in virtual time were obtained, in text.
 */
#include "collectives/costs.h"

#include "backends/virtual.h"
#include "collectives/result.h"
#include "core/array.h"
#include "core/table.h"
#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bb_cost_row {
	/* As in the record. */
	const char *algorithm_asked, *algorithm, *evaluator;
	int64_t size_bytes;
	bool in_place;
	double us, faultless_us;
	double low, high; /* interval of US, as multiples of it */
	char from[BB_NCCL_BASIS_TEXT];
	char other_versions[BB_OTHERWISE_TEXT];
};

void bb_costs_free(struct bb_costs *costs)
{
	free(costs->rows);
}

bb_status bb_costs_add(struct bb_costs *p, const struct bb_result_record *r)
{
	struct bb_cost_row *row = BB_ARRAY_ADD(p->rows, p->n, p->room);

	if (!row)
		return BB_EINTERNAL;
	*row = (struct bb_cost_row){
		.algorithm_asked = r->algorithm_asked,
		.algorithm = r->algorithm,
		.evaluator = r->evaluator,
		.size_bytes = r->size_bytes,
		.in_place = r->in_place,
		.us = r->time_us,
		.faultless_us = r->faultless_us,
		.low = r->predicted_low_us / r->time_us,
		.high = r->predicted_high_us / r->time_us,
	};
	if (r->predicted_from)
		snprintf(row->from, sizeof(row->from), "%s", r->predicted_from);
	if (r->other_versions)
		snprintf(row->other_versions, sizeof(row->other_versions), "%s", r->other_versions);
	return BB_OK;
}

/* ---- text ---------------------------------------------------------------------------- */

static void add_evaluators(const struct bb_costs *p, struct bb_strbuf *out)
{
	const char *before = "# Evaluated by: ";

	for (size_t i = 0; i < p->n; i++) {
		const struct bb_cost_row *r = &p->rows[i];
		size_t first = 0;

		while (strcmp(p->rows[first].algorithm, r->algorithm) != 0 ||
		       strcmp(p->rows[first].evaluator, r->evaluator) != 0)
			first++;
		if (first < i)
			continue;
		bb_strbuf_addf(out, "%s%s %s", before, r->algorithm, r->evaluator);
		before = ", ";
	}
	if (p->n > 0)
		bb_strbuf_add(out, "\n");
}

/* True if the row before is the same case out of place. */
static bool repeats_case(const struct bb_costs *p, size_t i)
{
	const struct bb_cost_row *r = &p->rows[i], *before = i > 0 ? &p->rows[i - 1] : NULL;

	return before && r->in_place && !before->in_place && r->size_bytes == before->size_bytes &&
	       strcmp(r->algorithm_asked, before->algorithm_asked) == 0;
}

/* True if row I's interval is that of the row before, of the same algorithm. */
static bool repeats_interval(const struct bb_costs *p, size_t i)
{
	const struct bb_cost_row *r = &p->rows[i], *before = i > 0 ? &p->rows[i - 1] : NULL;

	return before && strcmp(r->algorithm_asked, before->algorithm_asked) == 0 &&
	       strcmp(r->from, before->from) == 0 &&
	       (isnan(r->low)
			? isnan(before->low)
			: fabs(r->low - before->low) < 1e-6 && fabs(r->high - before->high) < 1e-6);
}

/* A line for each interval, from its first size on, and for predictions without. */
static void add_intervals(const struct bb_costs *p, struct bb_strbuf *out)
{
	if (p->n > 0)
		bb_strbuf_add(out, "# Interval in which nine in ten measurements should lie\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_cost_row *r = &p->rows[i];
		char size[BB_UNIT_TEXT];

		if (repeats_interval(p, i))
			continue;
		bb_strbuf_addf(out, "# %s from %s on: ", r->algorithm_asked,
			       bb_format_size(size, (uint64_t)r->size_bytes));
		if (!isnan(r->low))
			bb_strbuf_addf(out, "%.2f to %.2f times the predicted time\n", r->low,
				       r->high);
		else
			bb_strbuf_add(out, "unknown, no comparable measurements\n");
		if (r->from[0])
			bb_strbuf_addf(out, "#   %s\n", r->from);
	}
}

/* True if other versions choose in row I what they choose in the row before. */
static bool repeats_versions(const struct bb_costs *p, size_t i)
{
	const struct bb_cost_row *r = &p->rows[i], *before = i > 0 ? &p->rows[i - 1] : NULL;

	return before && strcmp(r->algorithm_asked, before->algorithm_asked) == 0 &&
	       strcmp(r->other_versions, before->other_versions) == 0;
}

/* A line for each choice of other versions, with its sizes. */
static void add_versions(const struct bb_costs *p, struct bb_strbuf *out)
{
	for (size_t i = 0, last; i < p->n; i = last + 1) {
		const struct bb_cost_row *r = &p->rows[i];
		char size[BB_UNIT_TEXT], end[BB_UNIT_TEXT];

		for (last = i; last + 1 < p->n && repeats_versions(p, last + 1);)
			last++;
		if (!r->other_versions[0])
			continue;
		bb_format_size(size, (uint64_t)r->size_bytes);
		bb_format_size(end, (uint64_t)p->rows[last].size_bytes);
		bb_strbuf_addf(out, "# %s at %s%s%s: %s\n", r->algorithm_asked, size,
			       strcmp(size, end) == 0 ? "" : " to ",
			       strcmp(size, end) == 0 ? "" : end, r->other_versions);
	}
}

static void add_costs(const struct bb_costs *p, const char *fault, struct bb_strbuf *out)
{
	struct bb_text_table t = {.mark = "#"};

	bb_strbuf_addf(out, "# Cost of --fault %s\n", fault);
	bb_table_column(&t, "size", "(B)", 10);
	bb_table_column(&t, "algorithm", "", 10);
	bb_table_key(&t);
	bb_table_column(&t, "without", "(us)", 10);
	bb_table_column(&t, "with", "(us)", 10);
	bb_table_column(&t, "as long", "(times)", 10);
	for (size_t i = 0; i < p->n; i++) {
		const struct bb_cost_row *r = &p->rows[i];
		char size[BB_UNIT_TEXT];

		if (isnan(r->faultless_us) || repeats_case(p, i))
			continue;
		bb_table_cellf(&t, "%s\t%s\t%.2f\t%.2f\t%.3f",
			       bb_format_size(size, (uint64_t)r->size_bytes), r->algorithm,
			       r->faultless_us, r->us, r->us / r->faultless_us);
	}
	bb_table_print(&t, out);
	bb_table_free(&t);
}

void bb_costs_text(const struct bb_costs *p, const char *fault, bool predicted,
		   struct bb_strbuf *out)
{
	add_evaluators(p, out);
	if (predicted)
		add_intervals(p, out);
	add_versions(p, out);
	if (fault && p->n > 0 && !isnan(p->rows[0].faultless_us))
		add_costs(p, fault, out);
}
