/*
 * calibration_text.c - what was fitted, and how well.
 */
#include "simulator/calibration_parts.h"

#include "core/stats.h"
#include "core/units.h"

#include <math.h>
#include <stdlib.h>

/* The median error of the model for N points from FIRST; ERRORS holds N. */
static double model_error(const struct bb_point *first, size_t n, double *errors)
{
	for (size_t i = 0; i < n; i++)
		errors[i] = fabs(expm1(-first[i].left));
	return bb_stats_median(errors, n);
}

/* Append the errors of N points from FIRST; of a SERIES also those of its sizes left out. */
static void add_errors(const struct bb_calibration *c, const struct bb_point *first, size_t n,
		       bool series, struct bb_strbuf *out)
{
	double *errors = malloc((n + c->nerrors) * sizeof(*errors));
	size_t left_out;

	if (!errors)
		return;
	bb_strbuf_addf(out, "%zu result%s, off by %.1f%% (median)", n, bb_plural((long long)n),
		       100 * model_error(first, n, errors));
	left_out = series ? bb_cross_select(c, BB_CROSS_BETWEEN, first, errors) : 0;
	if (left_out > 0)
		bb_strbuf_addf(out, ", each size from the others by %.1f%%",
			       100 * bb_stats_median(errors, left_out));
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

/* The errors of predictions of what was left out, kind by kind, and what could not be tested. */
static void add_cross(const struct bb_calibration *c, struct bb_strbuf *out)
{
	static const struct {
		const char *what, *lacks;
	} kinds[] = {
		[BB_CROSS_BETWEEN] = {"sizes between measured ones", "too few sizes"},
		[BB_CROSS_BEYOND] = {"sizes up to 4 times beyond", "too few sizes"},
		[BB_CROSS_RANKS] = {"other numbers of ranks", "one number of ranks was measured"},
		[BB_CROSS_SCHEDULE] = {"other algorithms", "one algorithm was measured"},
		[BB_CROSS_COLLECTIVE] = {"other collectives", "one collective was measured"},
	};
	double *errors = malloc((c->nerrors + 1) * sizeof(*errors));

	for (int kind = 0; errors && kind < BB_CROSS_KINDS; kind++) {
		const size_t n = bb_cross_select(c, (enum bb_cross_kind)kind, NULL, errors);

		bb_strbuf_addf(out, "# Cross-validation: %s: ", kinds[kind].what);
		if (n == 0) {
			bb_strbuf_addf(out, "not tested, %s\n", kinds[kind].lacks);
			continue;
		}
		bb_stats_sort(errors, n);
		bb_strbuf_addf(out,
			       "%zu left out in turn, off by %.1f%% (median), %.1f%% (90th "
			       "percentile)\n",
			       n, 100 * bb_stats_quantile(errors, n, 0.5),
			       100 * bb_stats_quantile(errors, n, 0.9));
	}
	free(errors);
}

void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out)
{
	const struct bb_cost_model *m = &c->model;

	bb_strbuf_addf(out, "# Calibration: ");
	add_errors(c, c->points, c->n, false, out);
	add_fitted(c, out);
	if (c->others > 0)
		bb_strbuf_addf(out, "; %zu result%s not of schedules", c->others,
			       c->others == 1 ? " is" : "s are");
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
		add_errors(c, first, c->series[i].n, true, out);
		bb_strbuf_add(out, "\n");
	}
	add_cross(c, out);
}
