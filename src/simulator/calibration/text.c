/*
 * text.c - what was fitted, and how well.
 */
#include "simulator/calibration/points.h"

#include "core/stats.h"
#include "core/units.h"

#include <math.h>
#include <stdlib.h>

/* Append the errors of N points from FIRST; of a SERIES also those of its sizes left out. */
static void add_errors(const struct bb_calibration *c, const struct bb_point *first, size_t n,
		       bool series, struct bb_strbuf *out)
{
	double *errors = malloc((n + c->nerrors) * sizeof(*errors));

	if (!errors)
		return;
	for (size_t i = 0; i < n; i++)
		errors[i] = fabs(expm1(-first[i].left));
	bb_strbuf_addf(out, "%zu result%s, off by %.1f%% (median)", n, bb_plural((long long)n),
		       100 * bb_stats_median(errors, n));
	const size_t left_out = series ? bb_cross_select(c, BB_CROSS_BETWEEN, first, errors) : 0;
	if (left_out > 0)
		bb_strbuf_addf(out, ", each size from the others by %.1f%%",
			       100 * bb_stats_median(errors, left_out));
	free(errors);
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
		[BB_CROSS_ALGORITHM] = {"other algorithms", "one algorithm was measured"},
		[BB_CROSS_COLLECTIVE] = {"other collectives", "one collective was measured"},
	};
	double *errors = malloc((c->nerrors + 1) * sizeof(*errors));

	if (c->n > BB_CROSS_MOST)
		bb_strbuf_addf(out, "# Cross-validation: not made, for more than %d results\n",
			       BB_CROSS_MOST);
	for (enum bb_cross_kind kind = 0; c->n <= BB_CROSS_MOST && errors && kind < BB_CROSS_KINDS;
	     kind++) {
		const size_t n = bb_cross_select(c, kind, NULL, errors);

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

/* The terms that schedules share. */
static void add_cost_model(const struct bb_cost_model *m, struct bb_strbuf *out)
{
	bb_strbuf_add(out, "# Calibration: a round takes");
	for (int i = 0; i < m->ncounts; i++)
		bb_strbuf_addf(out, "%s %.2f us among %d ranks", i > 0 ? "," : "",
			       1e6 * m->values[i], m->counts[i]);
	bb_strbuf_addf(out, "; each of %d processors moves", m->cores);
	for (int k = 0; k < m->nknots; k++) {
		const double per_byte = m->values[m->ncounts + k];

		bb_strbuf_add(out, k > 0 ? ", " : " ");
		if (per_byte > 0)
			bb_strbuf_addf(out, "%.3g", 1e-9 / per_byte);
		else
			bb_strbuf_add(out, "- (too fast to measure)");
	}
	bb_strbuf_addf(out, " GB/s of 2^%d bytes and every fourfold of that\n", m->first);
}

/* ---- NCCL on a cluster ---------------------------------------------------------------- */

static void add_figure_value(enum bb_site_figure figure, double value, struct bb_strbuf *out)
{
	if (bb_site_row(figure)->unit == BB_SETTING_SHARE)
		bb_strbuf_addf(out, "%.1f%%", 100 * value);
	else
		bb_strbuf_addf(out, value > 0 && value < 5e-8 ? "%.3fus" : "%.1fus", 1e6 * value);
}

/* The figures as a file for --cluster has them, and why others could not be fitted. */
static void add_figures(const struct bb_calibration *c, struct bb_strbuf *out)
{
	static const char *const why[] = {
		[BB_SITE_AS_DESCRIBED] = "fits best as described",
		[BB_SITE_ONE_NODE] = "no result is of several nodes",
		[BB_SITE_NO_PLATEAU] = "times still fall at the smallest sizes",
		[BB_SITE_FEW_SIZES] = "fewer than 3 sizes depend on it",
	};

	/* A plug-in's latency that is not stated is the usual one of these NICs. */
	const struct bb_nccl_machine m = {.nics = c->cluster->nics,
					  .nic_latency = c->site.described[BB_SITE_NIC_LATENCY]};

	for (enum bb_site_figure figure = 0; figure < BB_SITE_FIGURES; figure++) {
		const enum bb_site_state state = c->site.state[figure];

		bb_strbuf_addf(out,
			       "# %s: %s = ", state == BB_SITE_FITTED ? "Fitted" : "Not fitted",
			       bb_site_row(figure)->name);
		if (state == BB_SITE_FITTED) {
			add_figure_value(figure, c->site.fitted[figure], out);
			bb_strbuf_add(out, ", described as ");
		}
		add_figure_value(figure,
				 figure == BB_SITE_NIC_LATENCY ? bb_nccl_plugin(c->constants, &m)
							       : c->site.described[figure],
				 out);
		if (state != BB_SITE_FITTED)
			bb_strbuf_addf(out, ": %s", why[state]);
		bb_strbuf_add(out, "\n");
	}
}

/* What was not used, and what the results do not say. */
static void add_doubts(const struct bb_calibration *c, struct bb_strbuf *out)
{
	const struct {
		size_t n;
		const char *one, *several, *what;
	} left_out[] = {
		{c->implausible, "row", "rows", "whose algbw is not size over time"},
		{c->far, "time", "times", "more than 10 times as long or as short as the model's"},
		{c->others, "result", "results",
		 "not of NCCL or without collective, ranks or size"},
	};
	bool named = true;

	if (c->cut > 0)
		bb_strbuf_addf(out, "# Left out: %zu row%s cut off, the first in line %d\n", c->cut,
			       c->cut == 1 ? " is" : "s are", c->cut_line);
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (left_out[i].n > 0)
			bb_strbuf_addf(out, "# Left out: %zu %s, %s\n", left_out[i].n,
				       left_out[i].n == 1 ? left_out[i].one : left_out[i].several,
				       left_out[i].what);
	if (c->wrong > 0)
		bb_strbuf_addf(out, "# Used: %zu row%s wrong data\n", c->wrong,
			       c->wrong == 1 ? " has" : "s have");
	if (2 * c->unlike > c->n)
		bb_strbuf_addf(out,
			       "# Unlike --cluster %s: %zu of %zu results lie outside its interval "
			       "without --calibrate\n",
			       c->cluster->name, c->unlike, c->n);
	if (c->simulated)
		bb_strbuf_add(out, "# The results are simulated, not measured\n");
	if (!c->names_gpu)
		bb_strbuf_addf(out,
			       "# The results name no known GPU; --cluster %s is not checked\n",
			       c->cluster->name);
	for (size_t i = 0; i < c->n; i++)
		named = named && c->points[i].call.algorithm != BB_NCCL_ANY;
	if (!named)
		bb_strbuf_add(out, "# The results do not name NCCL's choices; those of the model "
				   "are assumed\n");
}

/* ---- both ----------------------------------------------------------------------------- */

void bb_calibration_describe(const struct bb_calibration *c, struct bb_strbuf *out)
{
	size_t medians = 0;

	for (size_t i = 0; i < c->n; i++)
		medians += c->points[i].median;
	bb_strbuf_add(out, "# Calibration: ");
	add_errors(c, c->points, c->n, false, out);
	/* Tables print means; the fit takes medians where there are any. */
	if (medians == c->n)
		bb_strbuf_add(out, "; fitted to medians");
	else if (medians > 0)
		bb_strbuf_addf(out, "; fitted to medians, %zu to the only sample", c->n - medians);
	if (c->others > 0 && !c->cluster)
		bb_strbuf_addf(out, "; %zu result%s not of schedules", c->others,
			       c->others == 1 ? " is" : "s are");
	bb_strbuf_add(out, "\n");
	if (c->cluster) {
		add_figures(c, out);
		add_doubts(c, out);
	} else {
		add_cost_model(&c->model, out);
	}
	for (const struct bb_calibration_series *s = c->series; s < c->series + c->nseries; s++) {
		const struct bb_point *first = s->first;

		/* The name of any algorithm of NCCL is auto. */
		bb_strbuf_addf(out, "# Calibration: %s %s", first->call.collective->name,
			       first->schedule ? first->schedule->name
					       : bb_nccl_algorithm_name(first->call.algorithm));
		if (!first->schedule && first->call.protocol != BB_NCCL_ANY_PROTOCOL)
			bb_strbuf_addf(out, ":%s", bb_nccl_protocol_name(first->call.protocol));
		bb_strbuf_addf(out, " %d ranks", first->cost.nranks);
		if (first->nodes > 1)
			bb_strbuf_addf(out, " on %d nodes", first->nodes);
		bb_strbuf_addf(out, " %s: ", first->call.in_place ? "in-place" : "out-of-place");
		add_errors(c, first, s->n, true, out);
		bb_strbuf_add(out, "\n");
	}
	add_cross(c, out);
	if (c->cluster)
		bb_strbuf_add(out,
			      "# Interval: between measured sizes by the 9 nearest such errors; "
			      "elsewhere at least that of unseen machines\n");
}
