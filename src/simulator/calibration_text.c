/*
 * calibration_text.c - what was fitted, and how well.
 */
#include "simulator/calibration_parts.h"

#include "core/stats.h"

#include <math.h>
#include <stdlib.h>

/* The median error of the model for N points from FIRST; ERRORS holds N. */
static double model_error(const struct bb_point *first, size_t n, double *errors)
{
	for (size_t i = 0; i < n; i++)
		errors[i] = fabs(expm1(-first[i].left));
	return bb_stats_median(errors, n);
}

/* The same of points predicted from their two neighbours in the series; NAN: there are none. */
static double neighbour_error(const struct bb_point *first, size_t n, double *errors)
{
	size_t found = 0;

	for (size_t i = 1; i + 1 < n; i++) {
		const struct bb_point *p = &first[i];

		if (bb_calibration_compare(p - 1, p + 1) == 0)
			errors[found++] = fabs(
				expm1(bb_calibration_between(p - 1, p + 1, p->bytes) - p->left));
	}
	return bb_stats_median(errors, found);
}

static void add_errors(const struct bb_point *first, size_t n, struct bb_strbuf *out)
{
	double *errors = malloc(n * sizeof(*errors));
	double value;

	if (!errors)
		return;
	bb_strbuf_addf(out, "%zu results, off by %.1f%% (median)", n,
		       100 * model_error(first, n, errors));
	value = neighbour_error(first, n, errors);
	if (!isnan(value))
		bb_strbuf_addf(out, ", each size from its neighbours by %.1f%%", 100 * value);
	free(errors);
}

/* Tables print means; the fit takes medians where there are any. */
static void add_fitted(const struct bb_calibration *c, struct bb_strbuf *out)
{
	size_t medians = 0;

	for (size_t i = 0; i < c->n; i++)
		medians += c->points[i].median;
	if (medians == c->n)
		bb_strbuf_add(out, "; fitted to medians");
	else if (medians > 0)
		bb_strbuf_addf(out, "; fitted to medians, %zu to the only sample", c->n - medians);
}

void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out)
{
	const struct bb_cost_model *m = &c->model;

	bb_strbuf_addf(out, "# Calibration: ");
	add_errors(c->points, c->n, out);
	add_fitted(c, out);
	if (c->others > 0)
		bb_strbuf_addf(out, "; %zu results are not of schedules", c->others);
	bb_strbuf_addf(out, "\n# Calibration: a round takes");
	for (int i = 0; i < m->ncounts; i++)
		bb_strbuf_addf(out, "%s %.2f us among %d ranks", i > 0 ? "," : "",
			       1e6 * m->latency[i], m->counts[i]);
	bb_strbuf_addf(out, "; each of %d processors moves", m->cores);
	for (int k = 0; k < m->nknots; k++) {
		bb_strbuf_add(out, k > 0 ? ", " : " ");
		if (m->per_byte[k] > 0)
			bb_strbuf_addf(out, "%.3g", 1e-9 / m->per_byte[k]);
		else
			bb_strbuf_add(out, "- (too fast to measure)");
	}
	bb_strbuf_addf(out, " GB/s of 2^%d bytes and every fourfold of that\n", m->first);
	for (size_t i = 0; i < c->nseries; i++) {
		const struct bb_point *first = c->series[i].first;

		bb_strbuf_addf(out, "# Calibration: %s %s %d ranks %s: ",
			       first->schedule->collective->name, first->schedule->name,
			       first->cost.nranks, first->in_place ? "in-place" : "out-of-place");
		add_errors(first, c->series[i].n, out);
		bb_strbuf_add(out, "\n");
	}
}
