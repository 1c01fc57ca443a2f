/*
 * fleet.c - runs compared with their equals.
 *
 * The excess of a run is the median, over its sizes and placements, of the logarithm of what is
 * usual there over its bandwidth; usual is the median of all runs that have that row. A run is
 * compared with the excesses of all others, whose spread is that of healthy runs.
 */
#include "acceptance/fleet.h"

#include "acceptance/confidence.h"
#include "core/printable.h"
#include "core/stats.h"
#include "core/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGMAS 4

static bool is_like(const struct bb_claims *a, const struct bb_claims *b)
{
	return strcmp(a->collective, b->collective) == 0 && strcmp(a->type, b->type) == 0 &&
	       strcmp(a->algorithm, b->algorithm) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
	       a->nranks == b->nranks && a->hosts == b->hosts;
}

static const struct bb_claim *find_row(const struct bb_claims *c, const struct bb_claim *like)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].size_bytes == like->size_bytes &&
		    c->list[i].in_place == like->in_place && c->list[i].busbw_GBps > 0)
			return &c->list[i];
	return NULL;
}

/* The runs of one group, by index; LOGS and VALUES have room for them and for all rows of one. */
struct fleet {
	const struct bb_fleet_run *runs;
	size_t *list, n;
	double *excess, *values, *logs;
};

/* The excess of run RUN; NAN: too few others have its rows. */
static double excess_of(const struct fleet *f, size_t run)
{
	const struct bb_claims *const c = f->runs[f->list[run]].claims;
	size_t rows = 0;

	for (size_t i = 0; i < c->n; i++) {
		size_t n = 0;

		for (size_t k = 0; k < f->n && c->list[i].busbw_GBps > 0; k++) {
			const struct bb_claim *const row =
				find_row(f->runs[f->list[k]].claims, &c->list[i]);

			if (row)
				f->values[n++] = row->busbw_GBps;
		}
		if (n >= BB_FLEET_LEAST)
			f->logs[rows++] =
				log(bb_stats_median(f->values, n) / c->list[i].busbw_GBps);
	}
	return rows > 0 ? bb_stats_median(f->logs, rows) : NAN;
}

/* The chance that one of the healthy is as far off as run RUN; 1: it is not slow. */
static double chance_of(const struct fleet *f, size_t run, double *share)
{
	struct bb_confidence others;
	double middle, sigma, spread;
	size_t n = 0;

	for (size_t k = 0; k < f->n; k++)
		if (k != run && !isnan(f->excess[k]))
			f->values[n++] = f->excess[k];
	if (isnan(f->excess[run]) || n + 1 < BB_FLEET_LEAST)
		return 1;
	others = bb_confidence_of(f->values, n);
	middle = bb_stats_median(f->values, n);
	*share = exp(middle - f->excess[run]);
	for (size_t k = 0; k < n; k++)
		f->values[k] = fabs(f->values[k] - middle);
	sigma = 1.4826 * bb_stats_median(f->values, n);
	if (f->excess[run] - middle < fmax(-log1p(-BB_FLEET_TOLERANCE), SIGMAS * sigma))
		return 1;
	/* Prediction of one more value (Student): the spread of N values, and of their mean. */
	spread = others.stdev * sqrt(1 + 1 / (double)n);
	if (spread <= 0)
		return 0;
	return fmin(1, (double)f->n * bb_student_beyond((f->excess[run] - others.mean) / spread,
							(double)(n - 1)));
}

/* Compares at the largest row that all have, for the reader. */
static void describe_values(const struct fleet *f, size_t run, struct bb_strbuf *out)
{
	const struct bb_claims *const c = f->runs[f->list[run]].claims;
	const struct bb_claim *largest = NULL;
	char size[BB_UNIT_TEXT];
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (!largest || c->list[i].size_bytes > largest->size_bytes)
			largest = &c->list[i];
	for (size_t k = 0; k < f->n; k++) {
		const struct bb_claim *const row = find_row(f->runs[f->list[k]].claims, largest);

		if (row && k != run)
			f->values[n++] = row->busbw_GBps;
	}
	if (n > 0)
		bb_strbuf_addf(out, "; at %s %.4g GB/s, their median %.4g",
			       bb_format_size(size, largest->size_bytes), largest->busbw_GBps,
			       bb_stats_median(f->values, n));
}

static int describe_fleet(const struct fleet *f, struct bb_strbuf *out)
{
	const struct bb_claims *const c = f->runs[f->list[0]].claims;
	int slow = 0;

	for (size_t i = 0; i < f->n; i++)
		f->excess[i] = excess_of(f, i);
	bb_strbuf_addf(out, "%zu like runs (%s, %lld rank%s on %lld host%s", f->n,
		       c->collective[0] ? c->collective : "a collective", (long long)c->nranks,
		       bb_plural(c->nranks), (long long)c->hosts, bb_plural(c->hosts));
	bb_strbuf_add(out, c->gpu[0] ? ", " : "");
	bb_printable_add(out, c->gpu);
	bb_strbuf_add(out, "):\n");
	for (size_t i = 0; i < f->n; i++) {
		double share = 1;
		const double chance = chance_of(f, i, &share);
		const struct bb_fleet_run *const run = &f->runs[f->list[i]];

		if (chance > BB_FLEET_CHANCE)
			continue;
		slow++;
		bb_strbuf_add(out, "  Outlier: ");
		bb_printable_add(out, run->name);
		if (run->claims->host[0]) {
			bb_strbuf_add(out, " (host ");
			bb_printable_add(out, run->claims->host);
			bb_strbuf_add(out, ")");
		}
		bb_strbuf_addf(out, " reaches %.1f%% of the median of its %zu equals", 100 * share,
			       f->n - 1);
		describe_values(f, i, out);
		if (chance < 1e-4)
			bb_strbuf_add(out, "; confidence > 99.99%");
		else
			bb_strbuf_addf(out, "; confidence %.2f%%", 100 * (1 - chance));
		bb_strbuf_add(out, ".\n");
	}
	if (slow == 0)
		bb_strbuf_addf(out,
			       "  None is slower than its equals by more than %.0f%% and four "
			       "sigma of their noise.\n",
			       100 * BB_FLEET_TOLERANCE);
	return slow;
}

int bb_fleet_judge(const struct bb_fleet_run *runs, size_t n, struct bb_strbuf *out)
{
	struct fleet f = {.runs = runs};
	size_t rows = n;
	int slow = 0;

	for (size_t i = 0; i < n; i++)
		rows = runs[i].claims->n > rows ? runs[i].claims->n : rows;
	f.list = calloc(n + 1, sizeof(*f.list));
	f.excess = calloc(3 * (rows + 1), sizeof(*f.excess));
	if (!f.list || !f.excess)
		slow = -1;
	f.values = f.excess + rows + 1;
	f.logs = f.values + rows + 1;
	for (size_t i = 0; slow >= 0 && i < n; i++) {
		bool is_first = true;

		f.n = 0;
		for (size_t k = 0; k < n; k++) {
			if (!is_like(runs[i].claims, runs[k].claims))
				continue;
			is_first &= k >= i;
			f.list[f.n++] = k;
		}
		if (is_first && f.n >= BB_FLEET_LEAST)
			slow += describe_fleet(&f, out);
	}
	free(f.list);
	free(f.excess);
	return slow;
}
