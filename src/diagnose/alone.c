/*
 * alone.c - acquits those of the convicted that are fast while all others are silent: what
 * communicated beside them was slow.
 */
#include "diagnose/tally.h"

#include <stdlib.h>

#define LIKELIER 1 /* the logarithm of the likelihood factor that acquits */

static bool is_measured_alone(const struct bb_diagnosis *v)
{
	return v->charge != BB_CHARGE_STRAGGLER && v->charge != BB_CHARGE_RAIL;
}

int bb_lone_times(const struct bb_verdicts *verdicts, int first)
{
	for (int i = first; i < verdicts->n; i++)
		if (verdicts->list[i].flapping)
			return BB_CONFIRMING;
	return BB_RETEST_ROUNDS;
}

int bb_lone_list(const struct bb_verdicts *verdicts, int first, struct bb_lone list[BB_MOST_LONE])
{
	int n = 0;

	for (int i = first; i < verdicts->n && n < BB_MOST_LONE; i++) {
		const struct bb_diagnosis *v = &verdicts->list[i];

		if (is_measured_alone(v))
			list[n++] = (struct bb_lone){v->node, v->peer, v->rail};
	}
	return n;
}

/* A convicted node, rail or link in one quantity. */
struct lone {
	const struct bb_view *view;
	const struct bb_quantity *measured;
	int which, n;   /* its number in the list, and the length of the list */
	double shift;   /* logarithm of the reference's time above that of the survey */
	double rate;    /* at which the reference is slow */
	double limit;   /* as when it was convicted */
	double *values; /* room for all measurements */
};

/* Returns the logarithm of the time over the typical time; NAN: not measured. */
static double excess_alone(const struct lone *l, int round, int to, int rail)
{
	if (!bb_rounds_has(l->measured->rounds, round, to, rail))
		return NAN;
	return bb_measured_at(l->measured, round, to, rail) - l->view->fit.base[rail] - l->shift;
}

/* Set the shift and rate to those of the reference, or of the survey if it has too few
   measurements. */
static void reference_find(struct lone *l)
{
	const struct bb_rounds *rounds = l->measured->rounds;
	struct bb_tally tally = {0};
	size_t n = 0;

	l->rate = bb_tally_rate(l->view->slow, l->view->of);
	for (int r = 2 * l->which + 1; r < rounds->n; r += 2 * l->n)
		for (int to = 0; to < rounds->nodes; to++)
			for (int k = 0; k < l->measured->rails; k++) {
				const double d = excess_alone(l, r, to, k);

				if (!isnan(d))
					l->values[n++] = d;
			}
	if (n < BB_RETEST_ROUNDS)
		return;
	l->shift = bb_low_median(l->values, n);
	if (l->view->floor > 0) /* see base_find in convict.c */
		l->shift = fmax(l->shift, 0);
	for (size_t i = 0; i < n; i++)
		bb_tally_count(&tally, l->values[i] - l->shift, l->limit);
	l->rate = bb_tally_rate(tally.slow, tally.of);
}

/* Tally messages FROM one node TO another (-1: any): in each round RAIL, or the median rail (-1).
 */
static struct bb_tally direction_count(const struct lone *l, int from, int to, int rail)
{
	const struct bb_rounds *rounds = l->measured->rounds;
	struct bb_tally tally = {0};

	for (int r = 2 * l->which; r < rounds->n; r += 2 * l->n)
		for (int node = 0; node < rounds->nodes; node++) {
			double distances[BB_MOST_RAILS];
			size_t n = 0;

			if ((from >= 0 && bb_rounds_partner(rounds, r, node) != from) ||
			    (to >= 0 && node != to))
				continue;
			for (int k = 0; k < l->measured->rails; k++) {
				distances[n] = excess_alone(l, r, node, k);
				n += (rail < 0 || rail == k) && !isnan(distances[n]);
			}
			bb_tally_count(&tally, bb_low_median(distances, n), l->limit);
		}
	return tally;
}

/* Does TALLY fit the reference better than something that is slow in SHARE of its measurements? */
static bool is_innocent(const struct lone *l, const struct bb_tally *tally, double share)
{
	if (tally->slow == 0 || share <= l->rate)
		return true;
	return tally->slow * log(l->rate / share) +
		       (tally->of - tally->slow) * log((1 - l->rate) / (1 - share)) >
	       LIKELIER;
}

/* Is V still slow, in a direction that convicted it? */
static bool is_slow(const struct lone *l, const struct bb_diagnosis *v)
{
	const double share = (v->share * v->measured + 1) / (v->measured + 2);
	const struct bb_tally sent = direction_count(l, v->node, v->peer, v->rail);
	const struct bb_tally received = direction_count(l, v->peer, v->node, v->rail);

	return (v->sends && !is_innocent(l, &sent, share)) ||
	       (v->receives && !is_innocent(l, &received, share));
}

static bool may_share(const struct bb_diagnosis *v, int node)
{
	return v->charge == BB_CHARGE_PORT && v->node == node && v->contended && !v->flapping;
}

/* Blame rails of a node that are fast alone and slow together: those of other nodes are as busy at
   the same time, and fast. */
static void shared_rails_blame(struct bb_verdicts *verdicts, int first)
{
	for (int i = first; i < verdicts->n; i++) {
		struct bb_diagnosis *v = &verdicts->list[i];
		int n = 0;

		for (int k = first; k < verdicts->n; k++)
			n += may_share(&verdicts->list[k], v->node);
		v->shares = n > 1 && may_share(v, v->node);
	}
	for (int i = first; i < verdicts->n; i++)
		verdicts->list[i].contended &= !verdicts->list[i].shares;
}

bb_status bb_acquit(struct bb_verdicts *verdicts, int first, const struct bb_view *views,
		    const struct bb_quantity *alone, int n)
{
	const struct bb_rounds *rounds = alone[0].rounds;
	const size_t most = (size_t)rounds->n * (size_t)rounds->nodes * (size_t)alone[0].rails;
	struct bb_lone list[BB_MOST_LONE];
	const int listed = bb_lone_list(verdicts, first, list);
	double *values = malloc((most + 1) * sizeof(*values));

	if (!values)
		return BB_EINTERNAL;
	for (int i = first, which = 0; which < listed; i++) {
		struct bb_diagnosis *v = &verdicts->list[i];
		bool slow[BB_QUANTITIES];

		if (!is_measured_alone(v))
			continue;
		v->alone = v->contended = true;
		for (int q = 0; q < n; q++) {
			struct lone l = {
				&views[q],       &alone[q], which, listed, .limit = v->limit[q],
				.values = values};

			reference_find(&l);
			slow[q] = v->slow[q] && is_slow(&l, v);
			v->contended &= !slow[q];
		}
		for (int q = 0; q < n && !v->contended; q++)
			v->slow[q] = slow[q];
		which++;
	}
	shared_rails_blame(verdicts, first);
	free(values);
	return BB_OK;
}
