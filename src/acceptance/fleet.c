/*
 * fleet.c - runs compared with their equals.
 *
 * The excess of a row is the logarithm of what is usual there over its bandwidth; usual is the
 * median of all other runs that have that row. That of a size is the smaller one of its placements,
 * that of a run the largest one of its sizes: a run that collapses at one size is slow. A run is
 * compared with the excesses of all others.
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
#define MOST_ROWS 2000 /* of a run are compared, the last ones */

static size_t first_row(const struct bb_claims *c)
{
	return c->n > MOST_ROWS ? c->n - MOST_ROWS : 0;
}

static const struct bb_claim *find_row(const struct bb_claims *c, const struct bb_claim *like)
{
	for (size_t i = first_row(c); i < c->n; i++)
		if (c->list[i].size_bytes == like->size_bytes &&
		    c->list[i].in_place == like->in_place && c->list[i].busbw_GBps > 0)
			return &c->list[i];
	return NULL;
}

/* True if runs A and B are equals: the same collective, datatype, GPU, numbers of ranks and hosts,
   and both logs, or neither, have a fact of each kind of setting. */
static bool is_like(const struct bb_claims *a, const struct bb_claims *b)
{
	static const enum bb_fact_kind settings[] = {BB_FACT_ALGORITHM, BB_FACT_PROTOCOL,
						     BB_FACT_P2P_OFF,   BB_FACT_SHM_OFF,
						     BB_FACT_NVLS_OFF,  BB_FACT_MNNVL_OFF};
	bool same = true;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		same &= !bb_claims_fact(a, settings[i]) == !bb_claims_fact(b, settings[i]);
	return a->nranks > 0 && same && strcmp(a->op, b->op) == 0 &&
	       strcmp(a->collective, b->collective) == 0 && strcmp(a->type, b->type) == 0 &&
	       strcmp(a->algorithm, b->algorithm) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
	       a->nranks == b->nranks && a->hosts == b->hosts;
}

/* The runs of one group; VALUES has room for them. */
struct fleet {
	struct member {
		const struct bb_fleet_run *run;
		double excess;
		const struct bb_claim *at; /* its row of the largest excess */
	} * list;
	size_t n;
	double *values;
};

/* What is usual of rows like LIKE: the median of all runs but SELF; NAN: too few have it. */
static double usual_of(const struct fleet *f, size_t self, const struct bb_claim *like)
{
	size_t n = 0;

	for (size_t k = 0; k < f->n; k++) {
		const struct bb_claim *const row =
			k == self ? NULL : find_row(f->list[k].run->claims, like);

		if (row)
			f->values[n++] = row->busbw_GBps;
	}
	return n + 1 >= BB_FLEET_LEAST ? bb_stats_median(f->values, n) : NAN;
}

/* Set the excess of run RUN and its row; NAN: too few others have its rows. */
static void excess_find(const struct fleet *f, size_t run)
{
	struct member *const m = &f->list[run];
	const struct bb_claims *const c = m->run->claims;

	m->excess = NAN;
	for (size_t i = first_row(c); i < c->n; i++) {
		const struct bb_claim *const row = &c->list[i];
		const struct bb_claim other = {.size_bytes = row->size_bytes,
					       .in_place = !row->in_place};
		const struct bb_claim *const pair = find_row(c, &other);
		double excess = log(usual_of(f, run, row) / row->busbw_GBps);

		if (pair)
			excess = fmin(excess, log(usual_of(f, run, pair) / pair->busbw_GBps));
		if (isfinite(excess) && !(excess <= m->excess)) {
			m->excess = excess;
			m->at = row;
		}
	}
}

/* The chance that one of the healthy is as far off as run RUN; 1: it is not slow. Median and MAD do
   not see the other slow ones, as long as most are healthy. */
static double chance_of(const struct fleet *f, size_t run)
{
	size_t n = 0;

	for (size_t k = 0; k < f->n; k++)
		if (k != run && !isnan(f->list[k].excess))
			f->values[n++] = f->list[k].excess;
	if (isnan(f->list[run].excess) || n + 1 < BB_FLEET_LEAST)
		return 1;
	const double middle = bb_stats_median(f->values, n);
	for (size_t k = 0; k < n; k++)
		f->values[k] = fabs(f->values[k] - middle);
	const double sigma = 1.4826 * bb_stats_median(f->values, n);
	const double beyond = f->list[run].excess - middle;
	if (beyond < fmax(-log1p(-BB_FLEET_TOLERANCE), SIGMAS * sigma))
		return 1;
	if (sigma <= 0)
		return 0;
	/* One more value than N (Student): their spread, and that of their middle. A MAD has 37% of
	   the efficiency of a standard deviation (Rousseeuw and Croux, 1993). */
	return fmin(1, (double)f->n * bb_student_beyond(beyond / (sigma * sqrt(1 + 1 / (double)n)),
							fmax(1, 0.37 * (double)(n - 1))));
}

static int describe_fleet(const struct fleet *f, struct bb_strbuf *out)
{
	const struct bb_claims *const c = f->list[0].run->claims;
	int compared = 0, slow = 0;

	for (size_t i = 0; i < f->n; i++)
		excess_find(f, i);
	bb_strbuf_addf(out, "%zu like runs (%s, %lld rank%s on %lld host%s", f->n,
		       c->collective[0] ? c->collective : "a collective", (long long)c->nranks,
		       bb_plural(c->nranks), (long long)c->hosts, bb_plural(c->hosts));
	bb_strbuf_add(out, c->gpu[0] ? ", " : "");
	bb_printable_add(out, c->gpu);
	bb_strbuf_add(out, "):\n");
	for (size_t i = 0; i < f->n; i++) {
		const double chance = chance_of(f, i);
		const struct bb_fleet_run *const run = f->list[i].run;
		const struct bb_claim *const at = f->list[i].at;
		char size[BB_UNIT_TEXT];

		compared += !isnan(f->list[i].excess);
		if (chance > BB_FLEET_CHANCE)
			continue;
		slow++;
		bb_strbuf_add(out, "  Outlier: ");
		bb_printable_add(out, run->name);
		if (run->claims->host[0] && run->claims->hosts == 1) {
			bb_strbuf_add(out, " (host ");
			bb_printable_add(out, run->claims->host);
			bb_strbuf_add(out, ")");
		}
		const double usual = usual_of(f, i, at);
		bb_strbuf_addf(
			out, " reaches %.1f%% of the median of its equals at %s: %.4g of %.4g GB/s",
			100 * at->busbw_GBps / usual, bb_format_size(size, at->size_bytes),
			at->busbw_GBps, usual);
		if (chance < 1e-4)
			bb_strbuf_add(out, "; confidence > 99.99%");
		else
			bb_strbuf_addf(out, "; confidence %.2f%%", 100 * (1 - chance));
		bb_strbuf_add(out, ".\n");
	}
	if (compared < BB_FLEET_LEAST)
		bb_strbuf_addf(out, "  Not compared: fewer than %d have a size in common.\n",
			       BB_FLEET_LEAST);
	else if (slow == 0)
		bb_strbuf_addf(out,
			       "  None is slower than its equals by more than %.0f%% and four "
			       "sigma of their noise.\n",
			       100 * BB_FLEET_TOLERANCE);
	return slow;
}

int bb_fleet_judge(const struct bb_fleet_run *runs, size_t n, struct bb_strbuf *out)
{
	struct fleet f = {.list = calloc(n + 1, sizeof(*f.list)),
			  .values = calloc(n + 1, sizeof(*f.values))};
	int slow = f.list && f.values ? 0 : -1;

	for (size_t i = 0; slow >= 0 && i < n; i++) {
		f.n = 0;
		for (size_t k = 0; k < n; k++)
			if (is_like(runs[i].claims, runs[k].claims))
				f.list[f.n++].run = &runs[k];
		/* Once for each group, at its first run. */
		if (f.n >= BB_FLEET_LEAST && f.list[0].run == &runs[i])
			slow += describe_fleet(&f, out);
	}
	free(f.list);
	free(f.values);
	return slow;
}
