/*
 * convict.c - judges the suspects by their second measurement, and acquits those that are fast
 * while all others are silent: what communicated beside them was slow.
 */
#include "suspects/judge.h"

#include <stdlib.h>
#include <string.h>

#define LIKELIER 1 /* the logarithm of the likelihood factor that acquits */

enum direction { SENDS, RECEIVES, DIRECTIONS };

/* One quantity, measured again. */
struct reading {
	const struct bb_quantity *measured;
	const struct bb_view *view;
	int first, step; /* the rounds that count */
	double base[BB_MOST_RAILS];
	double limit;
	/* How often the healthy are slow: over one rail, and over most rails in a round. */
	struct bb_tally healthy, healthy_rounds;
	bool controlled;             /* base, limit and healthy are those of the reference */
	int controls[BB_NEARNESSES]; /* pairs of the reference at that distance */
};

struct confirmation {
	struct bb_verdicts *verdicts;
	const struct bb_suspects *suspects;
	int rails;
	struct reading readings[BB_QUANTITIES];
	int charges;
	double *values; /* room for all measurements of a quantity */
};

/* ---- the reference -------------------------------------------------------------------------- */

static bool is_control(const struct confirmation *t, int from, int to)
{
	const unsigned char *standing = t->suspects->standing;

	return standing[from] == BB_PROVEN && standing[to] == BB_PROVEN &&
	       !bb_suspects_have(t->suspects, from, to);
}

/* t->values = the measurements of the reference over RAIL, or over all rails (-1) above their
   bases. Returns how many there are. */
static size_t collect_controls(const struct confirmation *t, const struct reading *h, int rail)
{
	size_t n = 0;

	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(h->measured, &at);)
		if ((rail < 0 || rail == at.rail) && is_control(t, at.met.from, at.met.to))
			t->values[n++] = rail < 0 ? at.log_s - h->base[at.rail] : at.log_s;
	return n;
}

/* Tally the reference over RAIL (-1: all), above BASE. */
static struct bb_tally controls_count(const struct confirmation *t, const struct reading *h,
				      int rail, double base)
{
	const size_t n = collect_controls(t, h, rail);
	struct bb_tally tally = {0};

	for (size_t i = 0; i < n; i++)
		bb_tally_count(&tally, t->values[i] - base, h->limit);
	return tally;
}

/* Returns what arrived at TO in ROUND over RAIL, or the median of all rails (-1), above their
   bases; NAN: nothing. */
static double excess_of(const struct reading *h, int round, int to, int rail)
{
	double excess[BB_MOST_RAILS];
	size_t n = 0;

	for (int k = 0; k < h->measured->rails; k++) {
		excess[n] = bb_measured_at(h->measured, round, to, k) - h->base[k];
		n += (rail < 0 || rail == k) && !isnan(excess[n]);
	}
	return bb_low_median(excess, n);
}

/* Tally what NODE sends to PEER, or receives from it, over RAIL, or over the median of all rails
   (-1), BEYOND that much. PEER -1: all proven ones that are not suspected with NODE; without T any.
 */
static struct bb_tally tally_of(const struct confirmation *t, const struct reading *h, int node,
				int peer, int rail, enum direction direction, double beyond)
{
	const struct bb_rounds *rounds = h->measured->rounds;
	struct bb_tally tally = {0};

	for (int r = h->first; r < rounds->n; r += h->step) {
		const int met = bb_rounds_partner(rounds, r, node);

		if (met == BB_NOBODY || (peer >= 0 && met != peer) ||
		    (peer < 0 && t &&
		     (t->suspects->standing[met] != BB_PROVEN ||
		      bb_suspects_have(t->suspects, node, met))))
			continue;
		/* The reference needs pairs like these; what is measured alone has one of its own.
		 */
		if (!t || !h->measured->places ||
		    h->controls[bb_measured_nearness(h->measured, node, met)] >= BB_CONFIRMING)
			bb_tally_count(&tally,
				       excess_of(h, r, direction == SENDS ? met : node, rail) -
					       beyond,
				       h->limit);
	}
	return tally;
}

/* T has its verdicts and suspects. The typical time of a rail is the median of the reference, or of
   the survey if that has too few; where ranks share processors, the slower of both. */
static bb_status confirmation_open(struct confirmation *t, const struct bb_view *views,
				   const struct bb_quantity *measured, double tolerance)
{
	const struct bb_rounds *rounds = measured->rounds;
	const size_t most = (size_t)rounds->n * (size_t)rounds->nodes * (size_t)measured->rails;
	int charged = t->suspects->npairs;

	t->rails = measured->rails;
	for (int i = 0; i < rounds->nodes; i++)
		charged += t->suspects->standing[i] >= BB_QUESTIONED;
	t->charges = (charged * DIRECTIONS + 1) * (t->rails > 1 ? t->rails + 1 : 1) * BB_QUANTITIES;
	t->values = malloc((most + 1) * sizeof(*t->values));
	if (!t->values)
		return BB_EINTERNAL;
	for (int q = 0; q < BB_QUANTITIES; q++) {
		const struct bb_view *v = &views[q];
		struct reading *h = &t->readings[q];
		size_t n;

		*h = (struct reading){.measured = &measured[q],
				      .view = v,
				      .step = 1,
				      .limit = v->limit,
				      .healthy = {.slow = v->slow, .of = v->of},
				      .healthy_rounds = {.slow = v->slow, .of = v->of},
				      .controlled = true};
		for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(rounds, &m);)
			h->controls[bb_measured_nearness(h->measured, m.from, m.to)] +=
				is_control(t, m.from, m.to);
		for (int k = 0; k < t->rails; k++) {
			n = collect_controls(t, h, k);
			h->controlled &= n >= BB_CONFIRMING;
			h->base[k] = n >= BB_CONFIRMING ? bb_low_median(t->values, n) : v->base[k];
			if (v->floor > 0)
				h->base[k] = fmax(h->base[k], v->base[k]);
		}
		if (!h->controlled)
			continue;
		/* Nobody is blamed for less than the report calls slow. */
		n = collect_controls(t, h, -1);
		h->limit = fmax(h->limit,
				bb_slow_from(bb_tolerated(tolerance), bb_noise_of(t->values, n)));
		h->healthy = controls_count(t, h, -1, 0);
		h->healthy_rounds = (struct bb_tally){0};
		for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(rounds, &m);)
			if (is_control(t, m.from, m.to))
				bb_tally_count(&h->healthy_rounds, excess_of(h, m.round, m.to, -1),
					       h->limit);
	}
	return BB_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* If TALLY, which counts rounds in which most rails were slow (WHOLE) or single measurements, is
   guilty, adds it to V and returns true: the chance and share of V are those of the least likely
   tally, its factor that of the slowest. Where ranks share processors the typical time changes
   within a run: nobody is guilty without a reference measured at the same time. */
static bool charge(const struct confirmation *t, const struct reading *h,
		   const struct bb_tally *tally, bool whole, bool sends, struct bb_diagnosis *v)
{
	const struct bb_tally *healthy = whole ? &h->healthy_rounds : &h->healthy;
	const double chance =
		fmin(1, t->charges * bb_chance(tally->slow, tally->of, healthy->slow, healthy->of));
	const ptrdiff_t q = h - t->readings;

	if (!bb_tally_convicts(tally, chance))
		return false;
	if (h->view->floor > 0 && !h->controlled) {
		t->verdicts->unjudged = true;
		return false;
	}
	/* The last quantity decides: latency is a round trip and has no direction. */
	if (!v->slow[q])
		v->sends = v->receives = false;
	*(sends ? &v->sends : &v->receives) = true;
	v->slow[q] = true;
	v->limit[q] = h->limit;
	v->factor = fmax(v->factor, exp(tally->sum / tally->slow));
	if (v->measured > 0 && v->chance <= chance)
		return true;
	v->chance = chance;
	v->measured = tally->of;
	v->share = bb_tally_share(tally);
	v->flapping = !bb_tally_is_steady(tally);
	return true;
}

/* It is the node rather than single rails if most of its rails are guilty and slow at least half as
   often as the worst, or if the node as a whole flaps at least half as often as it. If most of the
   rails are steadily guilty and alike, its verdict is that of the least likely of them. A rail
   stands out if it is guilty with more than twice the excess that most of the rails reach. */
static bb_status judge_node(struct confirmation *t, int node)
{
	const int n = t->rails;
	struct bb_diagnosis whole, v[BB_MOST_RAILS + 1]; /* of each rail, then of most of them */
	bool guilty[BB_MOST_RAILS + 1] = {false}, out[BB_MOST_RAILS] = {false};
	double most = 0;
	int alike = 0, steady = 0;
	bb_status status = BB_OK;

	for (int k = 0; k <= n; k++)
		v[k] = (struct bb_diagnosis){.charge = k < n ? BB_CHARGE_PORT : BB_CHARGE_NODE,
					     .node = node,
					     .peer = -1,
					     .rail = k < n ? k : -1,
					     .chance = 1};
	for (int i = 0; i < BB_QUANTITIES * DIRECTIONS; i++) {
		const struct reading *h = &t->readings[i / DIRECTIONS];
		const enum direction direction = (enum direction)(i % DIRECTIONS);
		double all[BB_MOST_RAILS + 1], sorted[BB_MOST_RAILS]; /* of as many measurements */
		bool now[BB_MOST_RAILS + 1];

		for (int k = 0; k <= n; k++) {
			const struct bb_tally tally =
				tally_of(t, h, node, -1, v[k].rail, direction, 0);

			now[k] = charge(t, h, &tally, k == n, direction == SENDS, &v[k]);
			guilty[k] |= now[k];
			all[k] = tally.all;
		}
		memcpy(sorted, all, (size_t)n * sizeof(*all));
		const double upper = bb_upper(sorted, (size_t)n, BB_MOST_OF_RAILS);
		for (int k = 0; k < n; k++)
			out[k] |= n == 1 || (now[k] && all[k] > 2 * upper);
	}
	for (int k = 0; k < n; k++)
		most = fmax(most, v[k].share);
	for (int k = 0; k < n; k++)
		alike += v[k].measured > 0 && 2 * v[k].share >= most;
	whole = v[n];
	if (guilty[n] && (bb_is_most(alike, n) || (whole.flapping && 2 * whole.share >= most)))
		return bb_verdicts_add(t->verdicts, &whole);
	for (int k = 0; k < n; k++)
		if (guilty[k] && !v[k].flapping && !out[k])
			if (steady++ == 0 || v[k].chance < whole.chance)
				whole = v[k];
	whole.charge = BB_CHARGE_NODE;
	whole.rail = -1;
	if (steady > 0 && bb_is_most(steady, n))
		return bb_verdicts_add(t->verdicts, &whole);
	for (int k = 0; k < n && status == BB_OK; k++)
		if (guilty[k] && out[k])
			status = bb_verdicts_add(t->verdicts, &v[k]);
	return status;
}

/* ---- links ---------------------------------------------------------------------------------- */

static double mean_excess(const struct bb_tally *tally)
{
	return tally->of > 0 ? tally->all / tally->of : 0;
}

/* Is NODE or one of its rails blamed? */
static bool is_blamed(const struct confirmation *t, int node)
{
	for (int i = 0; i < t->verdicts->n; i++) {
		const struct bb_diagnosis *v = &t->verdicts->list[i];

		if (v->node == node && !v->contended &&
		    (v->charge == BB_CHARGE_NODE || v->charge == BB_CHARGE_PORT))
			return true;
	}
	return false;
}

/* Was NODE measured with others often enough? Where ranks share processors the survey does not
   count. *SLOW = the largest share that was slow in a quantity and direction. */
static bool is_known(const struct confirmation *t, int node, double *slow)
{
	int most = 0;

	*slow = 0;
	for (int i = 0; i < BB_QUANTITIES * DIRECTIONS; i++) {
		const struct bb_tally tally = tally_of(t, &t->readings[i / DIRECTIONS], node, -1,
						       -1, (enum direction)(i % 2), 0);

		most = tally.of > most ? tally.of : most;
		*slow = fmax(*slow, bb_tally_share(&tally));
	}
	return most >= BB_RETEST_ROUNDS ||
	       (t->readings[0].view->floor == 0 && t->suspects->standing[node] == BB_PROVEN);
}

/* Is the link slow beyond the excess of both ends with others? It is the link as a whole if most of
   its rails are guilty. */
static bb_status judge_pair(struct confirmation *t, int a, int b)
{
	const struct bb_diagnosis none = {
		.charge = BB_CHARGE_LINK, .node = a, .peer = b, .rail = -1, .chance = 1};
	struct bb_diagnosis whole = none, v[BB_MOST_RAILS];
	bool guilty[BB_MOST_RAILS] = {false};
	double slow_a, slow_b;
	int n = 0;
	bb_status status = BB_OK;

	/* A bad node slows its links. */
	if (is_blamed(t, a) || is_blamed(t, b))
		return BB_OK;
	if (!is_known(t, a, &slow_a) || !is_known(t, b, &slow_b)) {
		t->verdicts->unjudged |= t->readings[0].view->floor > 0;
		return BB_OK;
	}
	for (int k = 0; k < t->rails; k++) {
		v[k] = none;
		v[k].rail = k;
		for (int i = 0; i < 2 * BB_QUANTITIES; i++) {
			const struct reading *h = &t->readings[i / 2];
			const int from = i % 2 ? b : a, to = i % 2 ? a : b;
			const struct bb_tally sent = tally_of(t, h, from, -1, k, SENDS, 0);
			const struct bb_tally received = tally_of(t, h, to, -1, k, RECEIVES, 0);
			/* The share of an end is its mean excess, with proven partners, over the
			   reference's. */
			const double ends = fmax(mean_excess(&sent), mean_excess(&received)) -
					    mean_excess(&h->healthy);
			const struct bb_tally tally =
				tally_of(t, h, from, to, k, SENDS, fmax(0, ends));

			guilty[k] |= charge(t, h, &tally, false, i % 2 == 0, &v[k]);
			charge(t, h, &tally, false, i % 2 == 0, &whole);
		}
		n += guilty[k];
	}
	/* A link that flaps may be one of its ends. */
	if (n == 0 || (whole.flapping && 2 * fmax(slow_a, slow_b) > whole.share))
		return BB_OK;
	if (bb_is_most(n, t->rails))
		return bb_verdicts_add(t->verdicts, &whole);
	for (int k = 0; k < t->rails && status == BB_OK; k++)
		if (guilty[k])
			status = bb_verdicts_add(t->verdicts, &v[k]);
	return status;
}

/* ---- all ------------------------------------------------------------------------------------ */

bb_status bb_convict(struct bb_verdicts *verdicts, enum bb_accused accused,
		     const struct bb_suspects *suspects, const struct bb_view *views,
		     const struct bb_quantity *measured, double tolerance)
{
	struct confirmation t = {.verdicts = verdicts, .suspects = suspects};
	bb_status status = confirmation_open(&t, views, measured, tolerance);
	double slow;

	for (int i = 0; accused == BB_ACCUSED_LINKS && i < suspects->npairs && status == BB_OK; i++)
		status = judge_pair(&t, suspects->pairs[i].a, suspects->pairs[i].b);
	for (int i = 0; accused == BB_ACCUSED_NODES && i < suspects->nodes && status == BB_OK; i++)
		if (suspects->standing[i] >= BB_QUESTIONED) {
			verdicts->unjudged |= !is_known(&t, i, &slow) && views[0].floor > 0;
			status = judge_node(&t, i);
		}
	for (int k = 0; accused == BB_ACCUSED_NODES && k < t.rails && status == BB_OK; k++) {
		struct bb_diagnosis v = {
			.charge = BB_CHARGE_RAIL, .node = -1, .peer = -1, .rail = k, .chance = 1};

		for (int q = 0; q < BB_QUANTITIES; q++) {
			const struct reading *h = &t.readings[q];
			const double beyond = h->base[k] - bb_typical_base(h->base, t.rails);

			if (!h->controlled || beyond <= h->limit)
				continue;
			struct bb_tally tally = controls_count(&t, h, k, h->base[k] - beyond);
			if (charge(&t, h, &tally, false, true, &v))
				v.receives = true;
		}
		if (v.receives)
			status = bb_verdicts_add(verdicts, &v);
	}
	free(t.values);
	return status;
}

/* ---- alone ---------------------------------------------------------------------------------- */

static bool is_measured_alone(const struct bb_diagnosis *v)
{
	return v->charge != BB_CHARGE_STRAGGLER && v->charge != BB_CHARGE_RAIL;
}

void bb_lone_plan_make(struct bb_lone_plan *plan, const struct bb_verdicts *verdicts, int first)
{
	*plan = (struct bb_lone_plan){.times = BB_RETEST_ROUNDS};
	for (int i = first; i < verdicts->n; i++) {
		const struct bb_diagnosis *v = &verdicts->list[i];

		if (v->flapping)
			plan->times = BB_CONFIRMING;
		if (is_measured_alone(v) && plan->n < BB_MOST_LONE)
			plan->list[plan->n++] = (struct bb_lone){v->node, v->peer, v->rail};
	}
}

/* The reading of the suspect that is WHICH of N, in quantity M: its base is that of the reference
   in the rounds after its own, or of the survey if that has too few measurements. *RATE = how often
   the reference is slow. VALUES: room for all measurements. */
static struct reading read_alone(const struct bb_view *view, const struct bb_quantity *m, int which,
				 int n, double limit, double *values, double *rate)
{
	struct reading h = {
		.measured = m, .view = view, .first = 2 * which, .step = 2 * n, .limit = limit};
	struct bb_tally tally = {0};
	size_t found = 0;

	*rate = bb_tally_rate(view->slow, view->of);
	memcpy(h.base, view->base, (size_t)m->rails * sizeof(*h.base));
	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(m, &at);)
		if (at.met.round % h.step == h.first + 1)
			values[found++] = at.log_s - h.base[at.rail];
	if (found < BB_RETEST_ROUNDS)
		return h;
	double shift = bb_low_median(values, found);
	if (view->floor > 0) /* as in confirmation_open */
		shift = fmax(shift, 0);
	for (size_t i = 0; i < found; i++)
		bb_tally_count(&tally, values[i] - shift, limit);
	*rate = bb_tally_rate(tally.slow, tally.of);
	for (int k = 0; k < m->rails; k++)
		h.base[k] += shift;
	return h;
}

/* Does TALLY fit the reference, which is slow at RATE, better than something that is slow in SHARE
   of its measurements? */
static bool is_innocent(double rate, const struct bb_tally *tally, double share)
{
	if (tally->slow == 0 || share <= rate)
		return true;
	return tally->slow * log(rate / share) +
		       (tally->of - tally->slow) * log((1 - rate) / (1 - share)) >
	       LIKELIER;
}

static bool may_share(const struct bb_diagnosis *v, int node)
{
	return v->charge == BB_CHARGE_PORT && v->node == node && v->contended && !v->flapping;
}

bb_status bb_acquit(struct bb_verdicts *verdicts, int first, const struct bb_view *views,
		    const struct bb_quantity *alone)
{
	const struct bb_rounds *rounds = alone[0].rounds;
	const size_t most = (size_t)rounds->n * (size_t)rounds->nodes * (size_t)alone[0].rails;
	double *values = malloc((most + 1) * sizeof(*values));
	struct bb_lone_plan plan;

	if (!values)
		return BB_EINTERNAL;
	bb_lone_plan_make(&plan, verdicts, first);
	for (int i = first, which = 0; which < plan.n; i++) {
		struct bb_diagnosis *v = &verdicts->list[i];
		const double share = (v->share * v->measured + 1) / (v->measured + 2);
		bool slow[BB_QUANTITIES];

		if (!is_measured_alone(v))
			continue;
		v->alone = v->contended = true;
		for (int q = 0; q < BB_QUANTITIES; q++) {
			double rate;
			const struct reading h = read_alone(&views[q], &alone[q], which, plan.n,
							    v->limit[q], values, &rate);
			const struct bb_tally sent =
				tally_of(NULL, &h, v->node, v->peer, v->rail, SENDS, 0);
			const struct bb_tally received =
				tally_of(NULL, &h, v->node, v->peer, v->rail, RECEIVES, 0);

			/* Still, in a direction that convicted it? */
			slow[q] = v->slow[q] &&
				  ((v->sends && !is_innocent(rate, &sent, share)) ||
				   (v->receives && !is_innocent(rate, &received, share)));
			v->contended &= !slow[q];
		}
		for (int q = 0; q < BB_QUANTITIES && !v->contended; q++)
			v->slow[q] = slow[q];
		which++;
	}
	free(values);
	/* Rails of a node that are fast alone and slow together are to blame: those of other nodes
	   are as busy at the same time, and fast. */
	for (int i = first; i < verdicts->n; i++) {
		struct bb_diagnosis *v = &verdicts->list[i];
		int sharing = 0;

		for (int k = first; k < verdicts->n; k++)
			sharing += may_share(&verdicts->list[k], v->node);
		v->shares = sharing > 1 && may_share(v, v->node);
	}
	for (int i = first; i < verdicts->n; i++)
		verdicts->list[i].contended &= !verdicts->list[i].shares;
	return BB_OK;
}
