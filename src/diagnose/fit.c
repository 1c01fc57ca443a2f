#include "diagnose/fit.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

#define SWEEPS 6   /* at most */
#define STILL 0.01 /* far below what counts as slow */

void bb_polish_free(struct bb_polish *fit)
{
	free(fit->base);
	free(fit->out);
	free(fit->in);
	memset(fit, 0, sizeof(*fit));
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

/* ---- the fit ------------------------------------------------------------------------------ */

static size_t port(const struct bb_polish *fit, int node, int rail)
{
	return (size_t)node * (size_t)fit->rails + (size_t)rail;
}

/* The residual of what NODE receives in ROUND; NAN: not measured. */
static double residual(const struct bb_polish *fit, const struct bb_quantity *m, int round,
		       int node, int rail)
{
	const int partner = bb_rounds_partner(m->rounds, round, node);

	if (partner == BB_NO_PEER)
		return NAN;
	return bb_measured_at(m, round, node, rail) - fit->base[rail] -
	       fit->out[port(fit, partner, rail)] - fit->in[port(fit, node, rail)];
}

static void add_measured(double *values, size_t *n, double value)
{
	if (!isnan(value))
		values[(*n)++] = value;
}

/* The median of what is left over of RAIL goes into its base. */
static void settle_base(struct bb_polish *fit, const struct bb_quantity *m, int rail,
			double *scratch)
{
	size_t n = 0;

	for (struct bb_pairing at = BB_BEFORE_FIRST; bb_rounds_next(m->rounds, &at);)
		add_measured(scratch, &n, residual(fit, m, at.round, at.to, rail));
	if (n > 0)
		fit->base[rail] += bb_low_median(scratch, n);
}

/* The median of ports becomes 0. */
static void centre(struct bb_polish *fit, double *of_ports, int rail, double *scratch)
{
	double middle;

	for (int i = 0; i < fit->nodes; i++)
		scratch[i] = of_ports[port(fit, i, rail)];
	middle = bb_low_median(scratch, (size_t)fit->nodes);
	for (int i = 0; i < fit->nodes; i++)
		of_ports[port(fit, i, rail)] -= middle;
	fit->base[rail] += middle;
}

/* Returns by how much a port moved at most. */
static double settle_ports(struct bb_polish *fit, const struct bb_quantity *m, int rail, bool sends,
			   double *scratch)
{
	double *of_ports = sends ? fit->out : fit->in, most = 0;

	for (int i = 0; i < fit->nodes; i++) {
		double moved;
		size_t n = 0;

		for (int r = 0; r < m->rounds->n; r++) {
			const int partner = bb_rounds_partner(m->rounds, r, i);

			if (partner != BB_NO_PEER)
				add_measured(scratch, &n,
					     residual(fit, m, r, sends ? partner : i, rail));
		}
		if (n == 0)
			continue;
		moved = bb_low_median(scratch, n);
		of_ports[port(fit, i, rail)] += moved;
		most = fmax(most, fabs(moved));
	}
	centre(fit, of_ports, rail, scratch);
	return most;
}

static void settle_noise(struct bb_polish *fit, const struct bb_quantity *m, double *scratch)
{
	size_t n = 0;

	for (struct bb_pairing at = BB_BEFORE_FIRST; bb_rounds_next(m->rounds, &at);)
		for (int k = 0; k < fit->rails; k++)
			add_measured(scratch, &n, residual(fit, m, at.round, at.to, k));
	if (n > 0)
		fit->noise = bb_noise_of(scratch, n);
}

bb_status bb_polish_make(struct bb_polish *fit, const struct bb_quantity *m)
{
	const size_t ports = (size_t)m->rounds->nodes * (size_t)m->rails;
	double *scratch = malloc(((size_t)m->rounds->n * ports + ports + 1) * sizeof(*scratch));

	fit->nodes = m->rounds->nodes;
	fit->rails = m->rails;
	fit->base = calloc((size_t)m->rails, sizeof(*fit->base));
	fit->out = calloc(ports, sizeof(*fit->out));
	fit->in = calloc(ports, sizeof(*fit->in));
	if (!scratch || !fit->base || !fit->out || !fit->in) {
		free(scratch);
		bb_polish_free(fit);
		return BB_EINTERNAL;
	}
	for (int k = 0; k < m->rails; k++) {
		double moved = INFINITY;

		settle_base(fit, m, k, scratch);
		for (int sweep = 0; sweep < SWEEPS && moved > STILL; sweep++)
			moved = fmax(settle_ports(fit, m, k, true, scratch),
				     settle_ports(fit, m, k, false, scratch));
	}
	settle_noise(fit, m, scratch);
	free(scratch);
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

		for (struct bb_pairing at = BB_BEFORE_FIRST; bb_rounds_next(m->rounds, &at);)
			for (int k = 0; k < m->rails; k++)
				if (bb_nearness(&places[at.from], &places[at.to]) == kind)
					add_measured(scratch, &n,
						     bb_measured_at(m, at.round, at.to, k));
		level[kind] = n > 0 ? bb_low_median(scratch, n) : NAN;
		usual = n > most ? level[kind] : usual;
		most = n > most ? n : most;
	}
	for (int kind = 0; kind < BB_NEARNESSES; kind++)
		level[kind] = isnan(level[kind]) ? 0 : level[kind] - usual;
	free(scratch);
	return BB_OK;
}

void bb_quantity_subtract(const struct bb_quantity *m, float *log_s,
			  double (*level)(const void *own, int from, int to), const void *own)
{
	for (struct bb_pairing at = BB_BEFORE_FIRST; bb_rounds_next(m->rounds, &at);) {
		const size_t seat = (size_t)at.round * (size_t)m->rounds->nodes + (size_t)at.to;

		for (int k = 0; k < m->rails; k++)
			log_s[seat * (size_t)m->rails + (size_t)k] -=
				(float)level(own, at.from, at.to);
	}
}

struct levels {
	const double *level;
	const struct bb_spot *places;
};

static double level_between(const void *own, int from, int to)
{
	const struct levels *l = own;

	return l->level[bb_nearness(&l->places[from], &l->places[to])];
}

void bb_level_apply(const double level[BB_NEARNESSES], const struct bb_quantity *m,
		    const struct bb_spot *places, float *log_s)
{
	bb_quantity_subtract(m, log_s, level_between, &(struct levels){level, places});
}
