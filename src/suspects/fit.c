#include "suspects/fit.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

#define SWEEPS 6   /* at most */
#define STILL 0.01 /* far below what counts as slow */

bool bb_quantity_next(const struct bb_quantity *m, struct bb_measurement *at)
{
	do {
		if (at->met.from == BB_NOBODY || ++at->rail == m->rails) {
			at->rail = 0;
			if (!bb_rounds_next(m->rounds, &at->met))
				return false;
		}
		at->log_s = bb_measured_at(m, at->met.round, at->met.to, at->rail);
	} while (isnan(at->log_s));
	return true;
}

double bb_low_median(double *values, size_t n)
{
	bb_stats_sort(values, n);
	return n > 0 ? values[(n - 1) / 2] : NAN;
}

double bb_upper(double *values, size_t n, double share)
{
	bb_stats_sort(values, n);
	return n > 0 ? values[(size_t)((1 - share) * ((double)n - 1))] : NAN;
}

struct bb_noise bb_noise_of(double *residuals, size_t n)
{
	struct bb_noise noise = {.rare = bb_upper(residuals, n, BB_RARE)};

	for (size_t i = 0; i < n; i++)
		residuals[i] = fabs(residuals[i]);
	noise.sigma = 1.4826 * bb_low_median(residuals, n);
	return noise;
}

double bb_typical_base(const double *base, int rails)
{
	double sorted[BB_MOST_RAILS];

	memcpy(sorted, base, (size_t)rails * sizeof(*base));
	return bb_low_median(sorted, (size_t)rails);
}

/* ---- the fit ------------------------------------------------------------------------------ */

static size_t port(const struct bb_view *v, int node, int rail)
{
	return (size_t)node * (size_t)v->measured.rails + (size_t)rail;
}

static double residual(const struct bb_view *v, const struct bb_measurement *at)
{
	return at->log_s - v->base[at->rail] - v->out[port(v, at->met.from, at->rail)] -
	       v->in[port(v, at->met.to, at->rail)];
}

/* VALUES = the residuals of RAIL (-1: of all). Returns how many there are. */
static size_t collect_residuals(const struct bb_view *v, int rail, double *values)
{
	size_t n = 0;

	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(&v->measured, &at);)
		if (rail < 0 || at.rail == rail)
			values[n++] = residual(v, &at);
	return n;
}

/* Moves each port of RAIL, which sends or receives, by the median of its residuals; then the median
   of these ports becomes 0. Returns by how much a port moved at most. */
static double settle_ports(struct bb_view *v, int rail, bool sends, double *scratch)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	double *of_ports = sends ? v->out : v->in, most = 0, middle;

	for (int i = 0; i < rounds->nodes; i++) {
		size_t n = 0;

		for (int r = 0; r < rounds->n; r++) {
			const int partner = bb_rounds_partner(rounds, r, i);
			const int from = sends ? i : partner, to = sends ? partner : i;
			struct bb_measurement at = {{r, from, to}, rail, NAN};

			if (partner == BB_NOBODY)
				continue;
			at.log_s = bb_measured_at(&v->measured, r, to, rail);
			if (!isnan(at.log_s))
				scratch[n++] = residual(v, &at);
		}
		if (n == 0)
			continue;
		middle = bb_low_median(scratch, n);
		of_ports[port(v, i, rail)] += middle;
		most = fmax(most, fabs(middle));
	}
	for (int i = 0; i < rounds->nodes; i++)
		scratch[i] = of_ports[port(v, i, rail)];
	middle = bb_low_median(scratch, (size_t)rounds->nodes);
	for (int i = 0; i < rounds->nodes; i++)
		of_ports[port(v, i, rail)] -= middle;
	v->base[rail] += middle;
	return most;
}

/* ---- what is slow --------------------------------------------------------------------------- */

double bb_view_excess(const struct bb_view *view, int round, int node, int rail, bool sends,
		      bool receives)
{
	const int partner = bb_rounds_partner(view->measured.rounds, round, node);

	if (partner == BB_NOBODY)
		return NAN;
	double e = bb_measured_at(&view->measured, round, node, rail) - view->base[rail];
	if (sends)
		e -= fmax(view->out[port(view, partner, rail)], 0);
	if (receives)
		e -= fmax(view->in[port(view, node, rail)], 0);
	return e;
}

bb_status bb_view_make(struct bb_view *view, const struct bb_quantity *m, double tolerance)
{
	const size_t ports = (size_t)m->rounds->nodes * (size_t)m->rails;
	double *scratch = malloc(((size_t)m->rounds->n * ports + ports + 1) * sizeof(*scratch));
	struct bb_tally all = {0};

	free(view->out);
	*view = (struct bb_view){
		.measured = *m, .floor = view->floor, .out = calloc(2 * ports, sizeof(*view->out))};
	if (!scratch || !view->out) {
		free(scratch);
		return BB_EINTERNAL;
	}
	view->in = view->out + ports;
	for (int k = 0; k < m->rails; k++) {
		double moved = INFINITY;
		const size_t n = collect_residuals(view, k, scratch);

		view->base[k] = n > 0 ? bb_low_median(scratch, n) : 0;
		for (int sweep = 0; sweep < SWEEPS && moved > STILL; sweep++)
			moved = fmax(settle_ports(view, k, true, scratch),
				     settle_ports(view, k, false, scratch));
	}
	const size_t n = collect_residuals(view, -1, scratch);
	if (n > 0)
		view->noise = bb_noise_of(scratch, n);
	free(scratch);
	view->limit = fmax(view->floor, bb_slow_from(bb_tolerated(tolerance), view->noise));
	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(m, &at);)
		bb_tally_count(&all,
			       bb_view_excess(view, at.met.round, at.met.to, at.rail, true, true),
			       view->limit);
	view->slow = all.slow;
	view->of = all.of;
	return BB_OK;
}

/* ---- distances ------------------------------------------------------------------------------ */

bb_status bb_level_find(double level[BB_NEARNESSES], const struct bb_quantity *m,
			const struct bb_spot *places)
{
	const size_t ports = (size_t)m->rounds->nodes * (size_t)m->rails;
	double *scratch = malloc(((size_t)m->rounds->n * ports + 1) * sizeof(*scratch));
	size_t most = 0;
	double usual = 0;

	if (!scratch)
		return BB_EINTERNAL;
	for (int kind = 0; kind < BB_NEARNESSES; kind++) {
		size_t n = 0;

		for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(m, &at);)
			if (bb_nearness(&places[at.met.from], &places[at.met.to]) == kind)
				scratch[n++] = at.log_s;
		level[kind] = bb_low_median(scratch, n);
		usual = n > most ? level[kind] : usual;
		most = n > most ? n : most;
	}
	for (int kind = 0; kind < BB_NEARNESSES; kind++)
		level[kind] = isnan(level[kind]) ? 0 : level[kind] - usual;
	free(scratch);
	return BB_OK;
}

void bb_level_apply(const double level[BB_NEARNESSES], const struct bb_quantity *m,
		    const struct bb_spot *places)
{
	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(m, &at);)
		m->log_s[bb_measured_place(m, at.met.round, at.met.to, at.rail)] -=
			(float)level[bb_nearness(&places[at.met.from], &places[at.met.to])];
}
