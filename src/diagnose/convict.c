/*
 * convict.c - what was measured again, and what it makes of the suspects.
 */
#include "diagnose/tally.h"

#include <stdlib.h>

enum direction { SENDS, RECEIVES, DIRECTIONS };

/* One quantity, measured again. */
struct hearing {
	const struct bb_quantity *measured;
	const struct bb_view *view;
	double base[BB_MOST_RAILS];
	double limit;
	/* How often the healthy are slow: over one rail, and over most rails in a round. */
	struct bb_tally healthy, healthy_rounds;
	bool controlled;        /* base, limit and healthy are of those measured beside */
	struct bb_tally *ports; /* [(node * rails + rail) * DIRECTIONS + direction] */
	struct bb_tally *nodes; /* [node * DIRECTIONS + direction]: most rails of a round */
};

struct trial {
	struct bb_verdicts *verdicts;
	const struct bb_suspects *suspects;
	int nodes, rails, n;
	struct hearing hearings[BB_QUANTITIES];
	int charges;
	unsigned char *paired; /* [node]: an end of a suspected pair */
};

static struct bb_tally *port_of(const struct trial *t, const struct hearing *h, int node, int rail,
				enum direction way)
{
	return &h->ports[((size_t)node * (size_t)t->rails + (size_t)rail) * DIRECTIONS + way];
}

/* WHOLE: TALLY counts rounds in which most rails were slow. */
static double chance_of(const struct trial *t, const struct hearing *h,
			const struct bb_tally *tally, bool whole)
{
	const struct bb_tally *healthy = whole ? &h->healthy_rounds : &h->healthy;

	return fmin(1, t->charges * bb_chance(tally->slow, tally->of, healthy->slow, healthy->of));
}

static bool is_guilty(const struct trial *t, const struct hearing *h, const struct bb_tally *tally,
		      bool whole)
{
	return bb_tally_convicts(tally, chance_of(t, h, tally, whole));
}

static bool is_proven(const struct trial *t, int node)
{
	return t->suspects->standing[node] == BB_PROVEN;
}

static bool is_pair(const struct trial *t, int a, int b)
{
	if (!t->paired[a] || !t->paired[b])
		return false;
	for (int i = 0; i < t->suspects->npairs; i++)
		if ((t->suspects->pairs[i].a == a && t->suspects->pairs[i].b == b) ||
		    (t->suspects->pairs[i].a == b && t->suspects->pairs[i].b == a))
			return true;
	return false;
}

/* Call F for each measurement from one node to another. */
static void each(const struct trial *t, struct hearing *h,
		 void (*f)(const struct trial *t, struct hearing *h, int from, int to, int rail,
			   double log_s, void *own),
		 void *own)
{
	const struct bb_rounds *rounds = h->measured->rounds;

	for (int r = 0; r < rounds->n; r++)
		for (int to = 0; to < t->nodes; to++) {
			const int from = bb_rounds_partner(rounds, r, to);

			for (int k = 0; k < t->rails && from != BB_NO_PEER; k++) {
				const double y = bb_measured_at(h->measured, r, to, k);

				if (!isnan(y))
					f(t, h, from, to, k, y, own);
			}
		}
}

/* ---- those who are measured beside ---------------------------------------------------------- */

struct controls {
	double *values;
	size_t n;
	int rail; /* -1: distances from the base */
	struct bb_tally tally;
};

static bool is_control(const struct trial *t, int from, int to)
{
	return is_proven(t, from) && is_proven(t, to) && !is_pair(t, from, to);
}

static void take_control(const struct trial *t, struct hearing *h, int from, int to, int rail,
			 double y, void *own)
{
	struct controls *c = own;

	if (!is_control(t, from, to))
		return;
	if (c->rail < 0)
		c->values[c->n++] = y - h->base[rail];
	else if (c->rail == rail)
		c->values[c->n++] = y;
}

static void count_control(const struct trial *t, struct hearing *h, int from, int to, int rail,
			  double y, void *own)
{
	if (is_control(t, from, to))
		bb_tally_count(&((struct controls *)own)->tally, y - h->base[rail], h->limit);
}

/* What came to a node in ROUND, over most of the rails. */
static double usual_excess(const struct trial *t, const struct hearing *h, int round, int to)
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

static struct bb_tally count_rounds(const struct trial *t, const struct hearing *h)
{
	const struct bb_rounds *rounds = h->measured->rounds;
	struct bb_tally tally = {0};

	for (int r = 0; r < rounds->n; r++)
		for (int to = 0; to < t->nodes; to++) {
			const int from = bb_rounds_partner(rounds, r, to);

			if (from != BB_NO_PEER && is_control(t, from, to))
				bb_tally_count(&tally, usual_excess(t, h, r, to), h->limit);
		}
	return tally;
}

static double settle_limit(struct controls *c, double tolerance)
{
	const double rare = bb_upper(c->values, c->n, BB_RARE);

	for (size_t i = 0; i < c->n; i++)
		c->values[i] = fabs(c->values[i]);
	return bb_slow_from(tolerance, 1.4826 * bb_low_median(c->values, c->n), rare);
}

/* What is usual now; where hardly anybody was measured beside, what was in the survey. */
static bb_status settle_usual(struct trial *t, struct hearing *h, double tolerance)
{
	const size_t most = (size_t)h->measured->rounds->n * (size_t)t->nodes * (size_t)t->rails;
	struct controls c = {.values = malloc((most + 1) * sizeof(*c.values))};

	if (!c.values)
		return BB_EINTERNAL;
	h->controlled = true;
	h->limit = h->view->limit;
	h->healthy = (struct bb_tally){.slow = h->view->slow, .of = h->view->of};
	h->healthy_rounds = h->healthy;
	for (int k = 0; k < t->rails; k++) {
		c.rail = k;
		c.n = 0;
		each(t, h, take_control, &c);
		h->controlled = h->controlled && c.n >= BB_CONFIRMING;
		h->base[k] =
			c.n >= BB_CONFIRMING ? bb_low_median(c.values, c.n) : h->view->fit.base[k];
	}
	if (h->controlled) {
		c.rail = -1;
		c.n = 0;
		each(t, h, take_control, &c);
		/* Nobody is blamed for less than what is told to be slow. */
		h->limit = fmax(h->view->limit, settle_limit(&c, tolerance));
		each(t, h, count_control, &c);
		h->healthy = c.tally;
		h->healthy_rounds = count_rounds(t, h);
	}
	free(c.values);
	return BB_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* What came from one node to the other in a round, with NODE, one of them, on trial. */
static void count_meeting(const struct trial *t, struct hearing *h, int round, int to, int node,
			  enum direction way)
{
	for (int k = 0; k < t->rails; k++)
		bb_tally_count(port_of(t, h, node, k, way),
			       bb_measured_at(h->measured, round, to, k) - h->base[k], h->limit);
	bb_tally_count(&h->nodes[node * DIRECTIONS + way], usual_excess(t, h, round, to), h->limit);
}

/* Is what goes between NODE, which is on trial, and OTHER about NODE? */
static bool is_about(const struct trial *t, int node, int other)
{
	return !is_proven(t, node) && is_proven(t, other) && !is_pair(t, node, other);
}

static void count_meetings(const struct trial *t, struct hearing *h)
{
	const struct bb_rounds *rounds = h->measured->rounds;

	for (int r = 0; r < rounds->n; r++)
		for (int to = 0; to < t->nodes; to++) {
			const int from = bb_rounds_partner(rounds, r, to);

			if (from == BB_NO_PEER)
				continue;
			if (is_about(t, to, from))
				count_meeting(t, h, r, to, to, RECEIVES);
			if (is_about(t, from, to))
				count_meeting(t, h, r, to, from, SENDS);
		}
}

/* The way is that of the last quantity that convicts: who asks for a small message waits for its
   word and for the answer, so that latency alone does not tell one way from the other. */
static void set_way(struct bb_diagnosis *v, int quantity, bool sends)
{
	if (!v->slow[quantity])
		v->sends = v->receives = false;
	*(sends ? &v->sends : &v->receives) = true;
}

/* TALLY convicts. V says how often by the least likely, and how slow by the slowest. */
static void charge(const struct trial *t, const struct hearing *h, const struct bb_tally *tally,
		   bool whole, struct bb_diagnosis *v)
{
	const double chance = chance_of(t, h, tally, whole);

	v->slow[h - t->hearings] = true;
	v->limit[h - t->hearings] = h->limit;
	v->factor = fmax(v->factor, exp(tally->sum / tally->slow));
	if (v->measured > 0 && v->chance <= chance)
		return;
	v->chance = chance;
	v->measured = tally->of;
	v->share = bb_tally_share(tally);
	v->flapping = !bb_tally_is_steady(tally);
}

/* Is RAIL (-1: most) of NODE guilty of anything? V = of what. */
static bool judge_port(const struct trial *t, int node, int rail, struct bb_diagnosis *v)
{
	bool guilty = false;

	for (int q = 0; q < t->n; q++)
		for (int way = 0; way < DIRECTIONS; way++) {
			const struct hearing *h = &t->hearings[q];
			const struct bb_tally *tally =
				rail < 0 ? &h->nodes[node * DIRECTIONS + way]
					 : port_of(t, h, node, rail, (enum direction)way);

			if (!is_guilty(t, h, tally, rail < 0))
				continue;
			guilty = true;
			set_way(v, q, way == SENDS);
			charge(t, h, tally, rail < 0, v);
		}
	return guilty;
}

/* Are most of the rails as bad as the worst of them, or does the node flap with none of them slow
   all the time? Else it is single rails. */
static bool is_whole(const struct trial *t, const struct bb_diagnosis *whole,
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

/* Is RAIL of NODE guilty of more than most of its rails do too, if less often? */
static bool stands_out(const struct trial *t, int node, int rail)
{
	bool found = t->rails == 1;

	for (int i = 0; i < t->n * DIRECTIONS; i++) {
		const struct hearing *h = &t->hearings[i / DIRECTIONS];
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

/* Most of the rails are guilty, and alike: WHOLE = the node, of what the worst of them is. */
static bool merge_rails(const struct trial *t, int node, const struct bb_diagnosis *rails,
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

static bb_status judge_node(struct trial *t, int node)
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

/* What came over RAIL from one node to another. */
static struct bb_tally count_link(const struct trial *t, const struct hearing *h, int from, int to,
				  int rail)
{
	const struct bb_rounds *rounds = h->measured->rounds;
	struct bb_tally tally = {0};

	for (int r = 0; r < rounds->n; r++)
		if (bb_rounds_partner(rounds, r, to) == from)
			bb_tally_count(&tally,
				       bb_measured_at(h->measured, r, to, rail) - h->base[rail],
				       h->limit);
	return tally;
}

static bool judge_link_rail(const struct trial *t, int a, int b, int rail, struct bb_diagnosis *v)
{
	bool guilty = false;

	for (int i = 0; i < 2 * t->n; i++) {
		const struct hearing *h = &t->hearings[i / 2];
		const bool there = i % 2 == 0;
		const struct bb_tally tally = count_link(t, h, there ? a : b, there ? b : a, rail);

		if (!is_guilty(t, h, &tally, false))
			continue;
		guilty = true;
		set_way(v, i / 2, there);
		charge(t, h, &tally, false, v);
	}
	return guilty;
}

/* What flaps between two nodes may be one of them: are both steady with others? */
static bool ends_are_steady(const struct trial *t, const struct bb_diagnosis *link)
{
	const int ends[2] = {link->node, link->peer};

	for (int i = 0; i < 2 * DIRECTIONS; i++)
		for (int q = 0; q < t->n; q++)
			if (2 * bb_tally_share(
					&t->hearings[q].nodes[ends[i / 2] * DIRECTIONS + i % 2]) >
			    link->share)
				return false;
	return true;
}

/* Is NODE, or a rail of it? */
static bool is_blamed(const struct trial *t, int node)
{
	for (int i = 0; i < t->verdicts->n; i++) {
		const struct bb_diagnosis *v = &t->verdicts->list[i];

		if (v->node == node && !v->contended &&
		    (v->charge == BB_CHARGE_NODE || v->charge == BB_CHARGE_PORT))
			return true;
	}
	return false;
}

static bb_status judge_pair(struct trial *t, int a, int b)
{
	const struct bb_diagnosis none = {
		.charge = BB_CHARGE_LINK, .node = a, .peer = b, .rail = -1, .chance = 1};
	struct bb_diagnosis whole = none;
	int guilty = 0;
	bb_status status = BB_OK;

	/* What a link of a bad node does may be the node's doing. */
	if (is_blamed(t, a) || is_blamed(t, b))
		return BB_OK;
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

struct plane {
	int rail;
	double usual;
	struct bb_tally tally;
};

static void count_plane(const struct trial *t, struct hearing *h, int from, int to, int rail,
			double y, void *own)
{
	struct plane *p = own;

	if (rail == p->rail && is_control(t, from, to))
		bb_tally_count(&p->tally, y - p->usual, h->limit);
}

static bb_status judge_rail(struct trial *t, int rail)
{
	struct bb_diagnosis v = {
		.charge = BB_CHARGE_RAIL, .node = -1, .peer = -1, .rail = rail, .chance = 1};
	bool guilty = false;

	for (int q = 0; q < t->n; q++) {
		struct hearing *h = &t->hearings[q];
		const double beyond = bb_rail_excess(h->base, t->rails, rail);
		struct plane p = {.rail = rail, .usual = h->base[rail] - beyond};

		if (!h->controlled || beyond <= h->limit)
			continue;
		each(t, h, count_plane, &p);
		if (!is_guilty(t, h, &p.tally, false))
			continue;
		guilty = v.sends = v.receives = true;
		charge(t, h, &p.tally, false, &v);
	}
	return guilty ? bb_verdicts_add(t->verdicts, &v) : BB_OK;
}

/* ---- all ------------------------------------------------------------------------------------ */

static void close_trial(struct trial *t)
{
	for (int q = 0; q < t->n; q++) {
		free(t->hearings[q].ports);
		free(t->hearings[q].nodes);
	}
	free(t->paired);
}

static bb_status open_trial(struct trial *t, const struct bb_view *views,
			    const struct bb_quantity *measured, double tolerance)
{
	const size_t tallies = (size_t)t->nodes * (size_t)t->rails * DIRECTIONS;
	int charged = t->suspects->npairs;
	bb_status status = BB_OK;

	for (int i = 0; i < t->nodes; i++)
		charged += t->suspects->standing[i] >= BB_QUESTIONED;
	t->charges = (charged * DIRECTIONS + 1) * (t->rails > 1 ? t->rails + 1 : 1) * t->n;
	t->paired = calloc((size_t)t->nodes, 1);
	if (!t->paired)
		return BB_EINTERNAL;
	for (int i = 0; i < t->suspects->npairs; i++)
		t->paired[t->suspects->pairs[i].a] = t->paired[t->suspects->pairs[i].b] = 1;
	for (int q = 0; q < t->n && status == BB_OK; q++) {
		struct hearing *h = &t->hearings[q];

		h->measured = &measured[q];
		h->view = &views[q];
		h->ports = calloc(tallies, sizeof(*h->ports));
		h->nodes = calloc((size_t)t->nodes * DIRECTIONS, sizeof(*h->nodes));
		status = h->ports && h->nodes ? settle_usual(t, h, tolerance) : BB_EINTERNAL;
	}
	return status;
}

/* Calls JUDGE for a trial that is open. */
static bb_status hold_trial(struct trial *t, const struct bb_view *views,
			    const struct bb_quantity *measured, double tolerance,
			    bb_status (*judge)(struct trial *t))
{
	bb_status status;

	t->nodes = t->suspects->nodes;
	t->rails = views[0].measured.rails;
	status = open_trial(t, views, measured, tolerance);
	for (int q = 0; q < t->n && status == BB_OK; q++)
		count_meetings(t, &t->hearings[q]);
	if (status == BB_OK)
		status = judge(t);
	close_trial(t);
	return status;
}

static bb_status judge_nodes(struct trial *t)
{
	bb_status status = BB_OK;

	for (int i = 0; i < t->nodes && status == BB_OK; i++)
		if (t->suspects->standing[i] >= BB_QUESTIONED)
			status = judge_node(t, i);
	for (int k = 0; k < t->rails && status == BB_OK; k++)
		status = judge_rail(t, k);
	return status;
}

static bb_status judge_links(struct trial *t)
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
	return hold_trial(&(struct trial){verdicts, suspects, .n = n}, views, measured, tolerance,
			  judge_nodes);
}

bb_status bb_convict_links(struct bb_verdicts *verdicts, const struct bb_suspects *suspects,
			   const struct bb_view *views, const struct bb_quantity *measured, int n,
			   double tolerance)
{
	return hold_trial(&(struct trial){verdicts, suspects, .n = n}, views, measured, tolerance,
			  judge_links);
}
