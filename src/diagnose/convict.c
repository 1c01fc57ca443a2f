/*
 * convict.c - judges the suspects by their second measurement.
 */
#include "diagnose/tally.h"

#include <stdlib.h>

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

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(h->measured->rounds, &m);)
		for (int k = 0; k < t->rails && is_control(t, m.from, m.to); k++) {
			const double y = bb_measured_at(h->measured, m.round, m.to, k);

			if (!isnan(y) && (rail < 0 || rail == k))
				t->values[n++] = rail < 0 ? y - h->base[k] : y;
		}
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

static struct bb_tally count_rounds(const struct confirmation *t, const struct reading *h)
{
	struct bb_tally tally = {0};

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(h->measured->rounds, &m);)
		if (is_control(t, m.from, m.to))
			bb_tally_count(&tally, median_excess(t, h, m.round, m.to), h->limit);
	return tally;
}

static double limit_find(const struct confirmation *t, const struct reading *h, double tolerance)
{
	const size_t n = collect_controls(t, h, -1);

	return bb_slow_from(bb_tolerated(tolerance), bb_noise_of(t->values, n));
}

/* Returns the typical time of RAIL: the median of the N values of the reference, or that of the
   survey if they are too few; where ranks share processors, the slower of both. */
static double base_find(const struct confirmation *t, const struct reading *h, int rail, size_t n)
{
	const double surveyed = h->view->fit.base[rail];
	const double now = n >= BB_CONFIRMING ? bb_low_median(t->values, n) : surveyed;

	return h->view->floor > 0 ? fmax(now, surveyed) : now;
}

static void reading_settle(const struct confirmation *t, struct reading *h, double tolerance)
{
	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(h->measured->rounds, &m);)
		h->controls[bb_measured_nearness(h->measured, m.from, m.to)] +=
			is_control(t, m.from, m.to);
	h->controlled = true;
	h->limit = h->view->limit;
	h->healthy = (struct bb_tally){.slow = h->view->slow, .of = h->view->of};
	h->healthy_rounds = h->healthy;
	for (int k = 0; k < t->rails; k++) {
		const size_t n = collect_controls(t, h, k);

		h->controlled = h->controlled && n >= BB_CONFIRMING;
		h->base[k] = base_find(t, h, k, n);
	}
	if (!h->controlled)
		return;
	/* Nobody is blamed for less than the report calls slow. */
	h->limit = fmax(h->view->limit, limit_find(t, h, tolerance));
	h->healthy = controls_count(t, h, -1, 0);
	h->healthy_rounds = count_rounds(t, h);
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

static bool is_end(const struct confirmation *t, int node)
{
	for (int i = 0; i < t->suspects->npairs; i++)
		if (t->suspects->pairs[i].a == node || t->suspects->pairs[i].b == node)
			return true;
	return false;
}

/* Does a meeting of NODE with OTHER count against NODE? OTHER must be proven, and NODE questioned
   or an end of a suspected link. */
static bool is_about(const struct confirmation *t, int node, int other)
{
	return is_proven(t, other) && (!is_proven(t, node) || is_end(t, node)) &&
	       !bb_suspects_have(t->suspects, node, other);
}

static void count_meetings(const struct confirmation *t, struct reading *h)
{
	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(h->measured->rounds, &m);) {
		if (!is_comparable(h, m.from, m.to))
			continue;
		if (is_about(t, m.to, m.from))
			count_meeting(t, h, m.round, m.to, m.to, RECEIVES);
		if (is_about(t, m.from, m.to))
			count_meeting(t, h, m.round, m.to, m.from, SENDS);
	}
}

/* The last quantity that convicts decides: latency is a round trip and has no direction. */
static void set_direction(struct bb_diagnosis *v, int quantity, bool sends)
{
	if (!v->slow[quantity])
		v->sends = v->receives = false;
	*(sends ? &v->sends : &v->receives) = true;
}

/* Add TALLY, which convicts, to V: its chance and share are those of the least likely tally, its
   factor that of the slowest. */
static void charge(const struct confirmation *t, const struct reading *h,
		   const struct bb_tally *tally, bool whole, struct bb_diagnosis *v)
{
	const double chance = chance_of(t, h, tally, whole);

	v->slow[h - t->readings] = true;
	v->limit[h - t->readings] = h->limit;
	v->factor = fmax(v->factor, exp(tally->sum / tally->slow));
	if (v->measured > 0 && v->chance <= chance)
		return;
	v->chance = chance;
	v->measured = tally->of;
	v->share = bb_tally_share(tally);
	v->flapping = !bb_tally_is_steady(tally);
}

/* Is RAIL of NODE (-1: most of them) guilty in a quantity and direction? V = in which. */
static bool judge_port(const struct confirmation *t, int node, int rail, struct bb_diagnosis *v)
{
	bool guilty = false;

	for (int q = 0; q < t->n; q++)
		for (int direction = 0; direction < DIRECTIONS; direction++) {
			const struct reading *h = &t->readings[q];
			const struct bb_tally *tally =
				rail < 0 ? &h->nodes[node * DIRECTIONS + direction]
					 : port_of(t, h, node, rail, (enum direction)direction);

			if (!is_guilty(t, h, tally, rail < 0))
				continue;
			guilty = true;
			set_direction(v, q, direction == SENDS);
			charge(t, h, tally, rail < 0, v);
		}
	return guilty;
}

/* Is it the node rather than single rails? Either most of its rails are guilty and slow at least
   half as often as the worst, or the node as a whole flaps at least half as often as it. */
static bool is_whole(const struct confirmation *t, const struct bb_diagnosis *whole,
		     const struct bb_diagnosis *rails)
{
	double most = 0;
	int alike = 0;

	for (int k = 0; k < t->rails; k++)
		most = fmax(most, rails[k].share);
	for (int k = 0; k < t->rails; k++)
		alike += rails[k].measured > 0 && 2 * rails[k].share >= most;
	return bb_is_most(alike, t->rails) || (whole->flapping && 2 * whole->share >= most);
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

/* If most of the rails are steadily guilty and alike, returns true with WHOLE = the verdict of the
   least likely of them, on the node. */
static bool merge_rails(const struct confirmation *t, int node, const struct bb_diagnosis *rails,
			const bool *guilty, struct bb_diagnosis *whole)
{
	int n = 0;

	for (int k = 0; k < t->rails; k++) {
		if (!guilty[k] || rails[k].flapping || stands_out(t, node, k))
			continue;
		if (n++ == 0 || rails[k].chance < whole->chance)
			*whole = rails[k];
	}
	whole->charge = BB_CHARGE_NODE;
	whole->rail = -1;
	return n > 0 && bb_is_most(n, t->rails);
}

static bb_status judge_node(struct confirmation *t, int node)
{
	const struct bb_diagnosis none = {
		.charge = BB_CHARGE_NODE, .node = node, .peer = -1, .rail = -1, .chance = 1};
	struct bb_diagnosis whole = none, rails[BB_MOST_RAILS];
	bool guilty[BB_MOST_RAILS], is_node;
	bb_status status = BB_OK;

	for (int k = 0; k < t->rails; k++) {
		rails[k] = none;
		rails[k].charge = BB_CHARGE_PORT;
		rails[k].rail = k;
		guilty[k] = judge_port(t, node, k, &rails[k]);
	}
	is_node = (judge_port(t, node, -1, &whole) && is_whole(t, &whole, rails)) ||
		  merge_rails(t, node, rails, guilty, &whole);
	if (is_node)
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

/* Returns the mean excess of NODE, with proven partners, over that of the reference: its own share
   of the times of its links. */
static double end_excess(const struct confirmation *t, const struct reading *h, int node, int rail,
			 enum direction direction)
{
	return fmax(0,
		    mean_excess(port_of(t, h, node, rail, direction)) - mean_excess(&h->healthy));
}

/* Tally what arrived over RAIL from one node at another, beyond the excess of both with others. */
static struct bb_tally count_link(const struct confirmation *t, const struct reading *h, int from,
				  int to, int rail)
{
	const struct bb_rounds *rounds = h->measured->rounds;
	const double base = h->base[rail] + fmax(end_excess(t, h, from, rail, SENDS),
						 end_excess(t, h, to, rail, RECEIVES));
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

		if (!is_guilty(t, h, &tally, false))
			continue;
		guilty = true;
		set_direction(v, i / 2, there);
		charge(t, h, &tally, false, v);
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
		if (!is_guilty(t, h, &tally, false))
			continue;
		guilty = v.sends = v.receives = true;
		charge(t, h, &tally, false, &v);
	}
	return guilty ? bb_verdicts_add(t->verdicts, &v) : BB_OK;
}

/* ---- all ------------------------------------------------------------------------------------ */

static bb_status confirmation_open(struct confirmation *t, const struct bb_view *views,
				   const struct bb_quantity *measured, double tolerance)
{
	const size_t ports = (size_t)t->nodes * (size_t)t->rails;
	int charged = t->suspects->npairs;

	for (int i = 0; i < t->nodes; i++)
		charged += t->suspects->standing[i] >= BB_QUESTIONED;
	t->charges = (charged * DIRECTIONS + 1) * (t->rails > 1 ? t->rails + 1 : 1) * t->n;
	t->values = malloc(((size_t)measured[0].rounds->n * ports + 1) * sizeof(*t->values));
	if (!t->values)
		return BB_EINTERNAL;
	for (int q = 0; q < t->n; q++) {
		struct reading *h = &t->readings[q];

		h->measured = &measured[q];
		h->view = &views[q];
		h->ports = calloc(ports * DIRECTIONS, sizeof(*h->ports));
		h->nodes = calloc((size_t)t->nodes * DIRECTIONS, sizeof(*h->nodes));
		if (!h->ports || !h->nodes)
			return BB_EINTERNAL;
		reading_settle(t, h, tolerance);
		count_meetings(t, h);
	}
	return BB_OK;
}

/* Calls JUDGE for a confirmation that is open. */
static bb_status confirmation_judge(struct confirmation *t, const struct bb_view *views,
				    const struct bb_quantity *measured, double tolerance,
				    bb_status (*judge)(struct confirmation *t))
{
	bb_status status;

	t->nodes = t->suspects->nodes;
	t->rails = views[0].measured.rails;
	status = confirmation_open(t, views, measured, tolerance);
	if (status == BB_OK)
		status = judge(t);
	for (int q = 0; q < t->n; q++) {
		free(t->readings[q].ports);
		free(t->readings[q].nodes);
	}
	free(t->values);
	return status;
}

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
