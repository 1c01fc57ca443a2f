/*
 * convict.c - judges the suspects by their second measurement, and acquits those that are fast
 * while all others are silent: what communicated beside them was slow.
 */
#include "suspects/judge.h"

#include <stdlib.h>

#define LIKELIER 1 /* the logarithm of the likelihood factor that acquits */

enum direction { SENDS, RECEIVES, DIRECTIONS };

/* One quantity, measured again. */
struct reading {
	const struct bb_quantity *measured;
	const struct bb_view *view;
	double base[BB_MOST_RAILS];
	double limit;
	/* How often the healthy are slow: over one rail, and over most rails in a round. */
	struct bb_tally healthy, healthy_rounds;
	bool controlled;             /* base, limit and healthy are those of the reference */
	int controls[BB_NEARNESSES]; /* pairs of the reference at that distance */
	struct bb_tally *ports;      /* [(node * rails + rail) * DIRECTIONS + direction] */
	struct bb_tally *nodes;      /* [node * DIRECTIONS + direction]: most rails of a round */
};

struct confirmation {
	struct bb_verdicts *verdicts;
	const struct bb_suspects *suspects;
	int nodes, rails, n;
	struct reading readings[BB_QUANTITIES];
	int charges;
	double *values; /* room for all measurements of a quantity */
};

static struct bb_tally *port_of(const struct confirmation *t, const struct reading *h, int node,
				int rail, enum direction direction)
{
	return &h->ports[((size_t)node * (size_t)t->rails + (size_t)rail) * DIRECTIONS + direction];
}

/* WHOLE: TALLY counts rounds in which most rails were slow. */
static double chance_of(const struct confirmation *t, const struct reading *h,
			const struct bb_tally *tally, bool whole)
{
	const struct bb_tally *healthy = whole ? &h->healthy_rounds : &h->healthy;

	return fmin(1, t->charges * bb_chance(tally->slow, tally->of, healthy->slow, healthy->of));
}

/* Where ranks share processors the typical time changes within a run: nobody is guilty without a
   reference measured at the same time. */
static bool is_guilty(const struct confirmation *t, const struct reading *h,
		      const struct bb_tally *tally, bool whole)
{
	if (!bb_tally_convicts(tally, chance_of(t, h, tally, whole)))
		return false;
	if (h->view->floor == 0 || h->controlled)
		return true;
	t->verdicts->unjudged = true;
	return false;
}

static bool is_proven(const struct confirmation *t, int node)
{
	return t->suspects->standing[node] == BB_PROVEN;
}

/* ---- the reference -------------------------------------------------------------------------- */

static bool is_control(const struct confirmation *t, int from, int to)
{
	return is_proven(t, from) && is_proven(t, to) && !bb_suspects_have(t->suspects, from, to);
}

/* Does the reference have pairs like those of A and B? */
static bool is_comparable(const struct reading *h, int a, int b)
{
	return !h->measured->places ||
	       h->controls[bb_measured_nearness(h->measured, a, b)] >= BB_CONFIRMING;
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

/* Returns the median over the rails of what arrived at TO in ROUND, above their bases. */
static double median_excess(const struct confirmation *t, const struct reading *h, int round,
			    int to)
{
	double excess[BB_MOST_RAILS];
	size_t n = 0;

	for (int k = 0; k < t->rails; k++) {
		const double e = bb_measured_at(h->measured, round, to, k) - h->base[k];

		if (!isnan(e))
			excess[n++] = e;
	}
	return bb_low_median(excess, n);
}

/* The typical time of a rail is the median of the reference, or that of the survey if it has too
   few measurements; where ranks share processors, the slower of both. */
static void reading_settle(const struct confirmation *t, struct reading *h, double tolerance)
{
	size_t n;

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(h->measured->rounds, &m);)
		h->controls[bb_measured_nearness(h->measured, m.from, m.to)] +=
			is_control(t, m.from, m.to);
	h->controlled = true;
	h->limit = h->view->limit;
	h->healthy = (struct bb_tally){.slow = h->view->slow, .of = h->view->of};
	h->healthy_rounds = h->healthy;
	for (int k = 0; k < t->rails; k++) {
		const double surveyed = h->view->fit.base[k];

		n = collect_controls(t, h, k);
		h->controlled = h->controlled && n >= BB_CONFIRMING;
		h->base[k] = n >= BB_CONFIRMING ? bb_low_median(t->values, n) : surveyed;
		if (h->view->floor > 0)
			h->base[k] = fmax(h->base[k], surveyed);
	}
	if (!h->controlled)
		return;
	/* Nobody is blamed for less than the report calls slow. */
	n = collect_controls(t, h, -1);
	h->limit = fmax(h->limit, bb_slow_from(bb_tolerated(tolerance), bb_noise_of(t->values, n)));
	h->healthy = controls_count(t, h, -1, 0);
	h->healthy_rounds = (struct bb_tally){0};
	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(h->measured->rounds, &m);)
		if (is_control(t, m.from, m.to))
			bb_tally_count(&h->healthy_rounds, median_excess(t, h, m.round, m.to),
				       h->limit);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Count the measurements that arrived at TO in ROUND against NODE, their sender or receiver. */
static void count_meeting(const struct confirmation *t, struct reading *h, int round, int to,
			  int node, enum direction direction)
{
	for (int k = 0; k < t->rails; k++)
		bb_tally_count(port_of(t, h, node, k, direction),
			       bb_measured_at(h->measured, round, to, k) - h->base[k], h->limit);
	bb_tally_count(&h->nodes[node * DIRECTIONS + direction], median_excess(t, h, round, to),
		       h->limit);
}

/* Does a meeting of NODE with OTHER count against NODE? OTHER must be proven, and NODE questioned
   or an end of a suspected link. */
static bool is_about(const struct confirmation *t, int node, int other)
{
	bool is_questioned = !is_proven(t, node);

	for (int i = 0; i < t->suspects->npairs; i++)
		is_questioned |= t->suspects->pairs[i].a == node || t->suspects->pairs[i].b == node;
	return is_questioned && is_proven(t, other) && !bb_suspects_have(t->suspects, node, other);
}

/* If TALLY is guilty, adds it to V and returns true: the chance and share of V are those of the
   least likely tally, its factor that of the slowest. */
static bool charge(const struct confirmation *t, const struct reading *h,
		   const struct bb_tally *tally, bool whole, bool sends, struct bb_diagnosis *v)
{
	const double chance = chance_of(t, h, tally, whole);
	const ptrdiff_t q = h - t->readings;

	if (!is_guilty(t, h, tally, whole))
		return false;
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

/* Is RAIL of NODE (-1: most of them) guilty in a quantity and direction? V = in which. */
static bool judge_port(const struct confirmation *t, int node, int rail, struct bb_diagnosis *v)
{
	bool guilty = false;

	for (int i = 0; i < t->n * DIRECTIONS; i++) {
		const struct reading *h = &t->readings[i / DIRECTIONS];
		const enum direction direction = (enum direction)(i % DIRECTIONS);
		const struct bb_tally *tally = rail < 0 ? &h->nodes[node * DIRECTIONS + direction]
							: port_of(t, h, node, rail, direction);

		guilty |= charge(t, h, tally, rail < 0, direction == SENDS, v);
	}
	return guilty;
}

/* Is RAIL of NODE guilty with more than twice the excess that most of its rails reach? */
static bool stands_out(const struct confirmation *t, int node, int rail)
{
	bool found = t->rails == 1;

	for (int i = 0; i < t->n * DIRECTIONS; i++) {
		const struct reading *h = &t->readings[i / DIRECTIONS];
		const struct bb_tally *rails = port_of(t, h, node, 0, (enum direction)(i % 2));
		double sums[BB_MOST_RAILS]; /* of as many measurements */

		for (int k = 0; k < t->rails; k++)
			sums[k] = rails[k * DIRECTIONS].all;
		found |= is_guilty(t, h, &rails[rail * DIRECTIONS], false) &&
			 rails[rail * DIRECTIONS].all >
				 2 * bb_upper(sums, (size_t)t->rails, BB_MOST_OF_RAILS);
	}
	return found;
}

/* It is the node rather than single rails if most of its rails are guilty and slow at least half as
   often as the worst, or if the node as a whole flaps at least half as often as it. If most of the
   rails are steadily guilty and alike, its verdict is that of the least likely of them. */
static bb_status judge_node(struct confirmation *t, int node)
{
	const struct bb_diagnosis none = {
		.charge = BB_CHARGE_NODE, .node = node, .peer = -1, .rail = -1, .chance = 1};
	struct bb_diagnosis whole = none, rails[BB_MOST_RAILS];
	bool guilty[BB_MOST_RAILS];
	double most = 0;
	int alike = 0, steady = 0;
	bb_status status = BB_OK;

	for (int k = 0; k < t->rails; k++) {
		rails[k] = none;
		rails[k].charge = BB_CHARGE_PORT;
		rails[k].rail = k;
		guilty[k] = judge_port(t, node, k, &rails[k]);
		most = fmax(most, rails[k].share);
	}
	for (int k = 0; k < t->rails; k++)
		alike += rails[k].measured > 0 && 2 * rails[k].share >= most;
	if (judge_port(t, node, -1, &whole) &&
	    (bb_is_most(alike, t->rails) || (whole.flapping && 2 * whole.share >= most)))
		return bb_verdicts_add(t->verdicts, &whole);
	for (int k = 0; k < t->rails; k++)
		if (guilty[k] && !rails[k].flapping && !stands_out(t, node, k))
			if (steady++ == 0 || rails[k].chance < whole.chance)
				whole = rails[k];
	whole.charge = BB_CHARGE_NODE;
	whole.rail = -1;
	if (steady > 0 && bb_is_most(steady, t->rails))
		return bb_verdicts_add(t->verdicts, &whole);
	for (int k = 0; k < t->rails && status == BB_OK; k++)
		if (guilty[k] && stands_out(t, node, k))
			status = bb_verdicts_add(t->verdicts, &rails[k]);
	return status;
}

/* ---- links ---------------------------------------------------------------------------------- */

static double mean_excess(const struct bb_tally *tally)
{
	return tally->of > 0 ? tally->all / tally->of : 0;
}

/* Tally what arrived over RAIL from one node at another, beyond the excess of both with others. */
static struct bb_tally count_link(const struct confirmation *t, const struct reading *h, int from,
				  int to, int rail)
{
	const struct bb_rounds *rounds = h->measured->rounds;
	/* The share of an end is its mean excess, with proven partners, over the reference's. */
	const double healthy = mean_excess(&h->healthy);
	const double sender = mean_excess(port_of(t, h, from, rail, SENDS)) - healthy;
	const double receiver = mean_excess(port_of(t, h, to, rail, RECEIVES)) - healthy;
	const double base = h->base[rail] + fmax(0, fmax(sender, receiver));
	struct bb_tally tally = {0};

	for (int r = 0; r < rounds->n && is_comparable(h, from, to); r++)
		if (bb_rounds_partner(rounds, r, to) == from)
			bb_tally_count(&tally, bb_measured_at(h->measured, r, to, rail) - base,
				       h->limit);
	return tally;
}

static bool judge_link_rail(const struct confirmation *t, int a, int b, int rail,
			    struct bb_diagnosis *v)
{
	bool guilty = false;

	for (int i = 0; i < 2 * t->n; i++) {
		const struct reading *h = &t->readings[i / 2];
		const bool there = i % 2 == 0;
		const struct bb_tally tally = count_link(t, h, there ? a : b, there ? b : a, rail);

		guilty |= charge(t, h, &tally, false, there, v);
	}
	return guilty;
}

/* A link that flaps may be one of its ends: are both steady with others? */
static bool ends_are_steady(const struct confirmation *t, const struct bb_diagnosis *link)
{
	const int ends[2] = {link->node, link->peer};

	for (int i = 0; i < 2 * DIRECTIONS; i++)
		for (int q = 0; q < t->n; q++)
			if (2 * bb_tally_share(
					&t->readings[q].nodes[ends[i / 2] * DIRECTIONS + i % 2]) >
			    link->share)
				return false;
	return true;
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
   count. */
static bool is_known(const struct confirmation *t, int node)
{
	int most = 0;

	for (int i = 0; i < t->n * DIRECTIONS; i++) {
		const struct bb_tally *tally =
			&t->readings[i / DIRECTIONS].nodes[node * DIRECTIONS + i % 2];

		most = tally->of > most ? tally->of : most;
	}
	return most >= BB_RETEST_ROUNDS || (t->readings[0].view->floor == 0 && is_proven(t, node));
}

static bb_status judge_pair(struct confirmation *t, int a, int b)
{
	const struct bb_diagnosis none = {
		.charge = BB_CHARGE_LINK, .node = a, .peer = b, .rail = -1, .chance = 1};
	struct bb_diagnosis whole = none;
	int guilty = 0;
	bb_status status = BB_OK;

	/* A bad node slows its links. */
	if (is_blamed(t, a) || is_blamed(t, b))
		return BB_OK;
	if (!is_known(t, a) || !is_known(t, b)) {
		t->verdicts->unjudged |= t->readings[0].view->floor > 0;
		return BB_OK;
	}
	for (int k = 0; k < t->rails; k++)
		guilty += judge_link_rail(t, a, b, k, &whole);
	if (guilty > 0 && whole.flapping && !ends_are_steady(t, &whole))
		return BB_OK;
	if (guilty > 0 && bb_is_most(guilty, t->rails))
		return bb_verdicts_add(t->verdicts, &whole);
	for (int k = 0; k < t->rails && guilty > 0 && status == BB_OK; k++) {
		struct bb_diagnosis one = none;

		one.rail = k;
		if (judge_link_rail(t, a, b, k, &one))
			status = bb_verdicts_add(t->verdicts, &one);
	}
	return status;
}

/* ---- rails ---------------------------------------------------------------------------------- */

static bb_status judge_rail(struct confirmation *t, int rail)
{
	struct bb_diagnosis v = {
		.charge = BB_CHARGE_RAIL, .node = -1, .peer = -1, .rail = rail, .chance = 1};
	bool guilty = false;

	for (int q = 0; q < t->n; q++) {
		struct reading *h = &t->readings[q];
		const double beyond = bb_rail_excess(h->base, t->rails, rail);
		struct bb_tally tally;

		if (!h->controlled || beyond <= h->limit)
			continue;
		tally = controls_count(t, h, rail, h->base[rail] - beyond);
		if (charge(t, h, &tally, false, true, &v))
			guilty = v.receives = true;
	}
	return guilty ? bb_verdicts_add(t->verdicts, &v) : BB_OK;
}

/* ---- all ------------------------------------------------------------------------------------ */

static bb_status judge_nodes(struct confirmation *t)
{
	bb_status status = BB_OK;

	for (int i = 0; i < t->nodes && status == BB_OK; i++)
		if (t->suspects->standing[i] >= BB_QUESTIONED) {
			t->verdicts->unjudged |= !is_known(t, i) && t->readings[0].view->floor > 0;
			status = judge_node(t, i);
		}
	for (int k = 0; k < t->rails && status == BB_OK; k++)
		status = judge_rail(t, k);
	return status;
}

static bb_status judge_links(struct confirmation *t)
{
	bb_status status = BB_OK;

	for (int i = 0; i < t->suspects->npairs && status == BB_OK; i++)
		status = judge_pair(t, t->suspects->pairs[i].a, t->suspects->pairs[i].b);
	return status;
}

/* Calls JUDGE once T has counted what was measured. */
static bb_status confirmation_judge(struct confirmation *t, const struct bb_view *views,
				    const struct bb_quantity *measured, double tolerance,
				    bb_status (*judge)(struct confirmation *t))
{
	const size_t nodes = (size_t)t->suspects->nodes, rails = (size_t)views[0].measured.rails;
	int charged = t->suspects->npairs;
	bb_status status = BB_EINTERNAL;

	t->nodes = (int)nodes;
	t->rails = (int)rails;
	for (int i = 0; i < t->nodes; i++)
		charged += t->suspects->standing[i] >= BB_QUESTIONED;
	t->charges = (charged * DIRECTIONS + 1) * (rails > 1 ? t->rails + 1 : 1) * t->n;
	t->values = malloc(((size_t)measured[0].rounds->n * nodes * rails + 1) * sizeof(double));
	if (!t->values)
		return BB_EINTERNAL;
	for (int q = 0; q < t->n; q++) {
		struct reading *h = &t->readings[q];

		h->measured = &measured[q];
		h->view = &views[q];
		h->ports = calloc(nodes * rails * DIRECTIONS, sizeof(*h->ports));
		h->nodes = calloc(nodes * DIRECTIONS, sizeof(*h->nodes));
		if (!h->ports || !h->nodes)
			goto out;
		reading_settle(t, h, tolerance);
		for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(measured->rounds, &m);) {
			if (!is_comparable(h, m.from, m.to))
				continue;
			if (is_about(t, m.to, m.from))
				count_meeting(t, h, m.round, m.to, m.to, RECEIVES);
			if (is_about(t, m.from, m.to))
				count_meeting(t, h, m.round, m.to, m.from, SENDS);
		}
	}
	status = judge(t);
out:
	for (int q = 0; q < t->n; q++) {
		free(t->readings[q].ports);
		free(t->readings[q].nodes);
	}
	free(t->values);
	return status;
}

bb_status bb_convict(struct bb_verdicts *verdicts, const struct bb_suspects *suspects,
		     const struct bb_view *views, const struct bb_quantity *measured, int n,
		     double tolerance)
{
	return confirmation_judge(&(struct confirmation){verdicts, suspects, .n = n}, views,
				  measured, tolerance, judge_nodes);
}

bb_status bb_convict_links(struct bb_verdicts *verdicts, const struct bb_suspects *suspects,
			   const struct bb_view *views, const struct bb_quantity *measured, int n,
			   double tolerance)
{
	return confirmation_judge(&(struct confirmation){verdicts, suspects, .n = n}, views,
				  measured, tolerance, judge_links);
}

/* ---- alone ------------------------------------------------------------------------------------
 */

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
	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT; bb_quantity_next(l->measured, &at);)
		if (at.met.round % (2 * l->n) == 2 * l->which + 1 &&
		    bb_rounds_has(rounds, at.met.round, at.met.to, at.rail))
			l->values[n++] = at.log_s - l->view->fit.base[at.rail] - l->shift;
	if (n < BB_RETEST_ROUNDS)
		return;
	l->shift = bb_low_median(l->values, n);
	if (l->view->floor > 0) /* see reading_settle */
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

static bool may_share(const struct bb_diagnosis *v, int node)
{
	return v->charge == BB_CHARGE_PORT && v->node == node && v->contended && !v->flapping;
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
		const double share = (v->share * v->measured + 1) / (v->measured + 2);
		bool slow[BB_QUANTITIES];

		if (!is_measured_alone(v))
			continue;
		v->alone = v->contended = true;
		for (int q = 0; q < n; q++) {
			struct lone l = {
				&views[q],       &alone[q], which, listed, .limit = v->limit[q],
				.values = values};
			struct bb_tally sent, received;

			reference_find(&l);
			sent = direction_count(&l, v->node, v->peer, v->rail);
			received = direction_count(&l, v->peer, v->node, v->rail);
			/* Still, in a direction that convicted it? */
			slow[q] =
				v->slow[q] && ((v->sends && !is_innocent(&l, &sent, share)) ||
					       (v->receives && !is_innocent(&l, &received, share)));
			v->contended &= !slow[q];
		}
		for (int q = 0; q < n && !v->contended; q++)
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
