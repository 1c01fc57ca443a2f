/*
 * alone.c - what was measured with all others silent: is it those who were convicted, or
 * what goes beside them?
 */
#include "diagnose/tally.h"

#include <stdlib.h>

#define LIKELIER 1 /* the logarithm of by how much */

/* ---- what is measured ----------------------------------------------------------------------- */

/* How many rails of the node that is number I follow it, blamed as its parts. */
static int parts_of(const struct bb_verdicts *verdicts, int i)
{
	int n = 0;

	while (i + n + 1 < verdicts->n && verdicts->list[i + n + 1].part)
		n++;
	return n;
}

/* How many of a list number I takes; parts share one of their node's. */
static int lone_of(const struct bb_verdicts *verdicts, int i)
{
	const struct bb_diagnosis *v = &verdicts->list[i];

	if (v->charge == BB_CHARGE_STRAGGLER || v->part)
		return 0;
	return 1 + (parts_of(verdicts, i) > 0);
}

int bb_lone_times(const struct bb_verdicts *verdicts, int first, int rails)
{
	int times = BB_RETEST_ROUNDS;

	for (int i = first; i < verdicts->n; i++) {
		if (verdicts->list[i].flapping && times < BB_CONFIRMING)
			times = BB_CONFIRMING;
		if (verdicts->list[i].part && times < 2 * rails)
			times = 2 * rails;
	}
	return times;
}

int bb_lone_list(const struct bb_verdicts *verdicts, int first, struct bb_lone list[BB_MOST_LONE])
{
	int n = 0;

	for (int i = first; i < verdicts->n; i++) {
		const struct bb_diagnosis *v = &verdicts->list[i];
		const int more = lone_of(verdicts, i);

		if (n + more > BB_MOST_LONE)
			break;
		if (more > 0)
			list[n] = (struct bb_lone){v->node, v->peer, v->rail};
		if (more > 1)
			list[n + 1] = (struct bb_lone){v->node, v->peer, BB_EACH_RAIL};
		n += more;
	}
	return n;
}

/* ---- one of them, in one quantity ----------------------------------------------------------- */

/* The rounds of number WHICH of N on the list, and those in turn with them. */
struct lone {
	const struct bb_view *view;
	const struct bb_quantity *measured;
	int which, n;
	int rail; /* of all nodes that is on trial; else -1 */
	/* Of those that it is compared with. */
	double shift; /* the logarithm of their time above that of the survey */
	double rate;
	struct bb_floor floor; /* of their times, over those of the survey */
	double limit;          /* as when it was convicted */
	double *scratch;       /* one value for each of a node's rails in each round */
};

static double distance(const struct lone *l, int round, int to, int rail)
{
	const double *base = l->view->fit.base;
	double usual = base[rail];

	if (rail == l->rail)
		usual -= bb_rail_excess(base, l->measured->rails, rail);
	return bb_measured_at(l->measured, round, to, rail) - usual - l->shift;
}

/* Call F for each measurement of those that it is compared with. */
static void each_compared(const struct lone *l, void (*f)(void *own, double distance), void *own)
{
	const struct bb_rounds *rounds = l->measured->rounds;

	for (int r = 2 * l->which + 1; r < rounds->n; r += 2 * l->n)
		for (int to = 0; to < rounds->nodes; to++)
			for (int k = 0; k < l->measured->rails; k++) {
				const double d = bb_rounds_has(rounds, r, to, k)
							 ? distance(l, r, to, k)
							 : NAN;

				if (!isnan(d))
					f(own, d);
			}
}

struct values {
	double *list;
	size_t n;
};

static void take(void *own, double distance)
{
	struct values *v = own;

	v->list[v->n++] = distance;
}

struct count {
	double limit;
	struct bb_tally tally;
	struct bb_floor floor;
};

static void count(void *own, double distance)
{
	struct count *c = own;

	bb_tally_count(&c->tally, distance, c->limit);
	bb_floor_add(&c->floor, exp(distance));
}

/* What is usual, by those that it is compared with; where there are none, by the survey. */
static void settle_usual(struct lone *l)
{
	struct values v = {.list = l->scratch};
	struct count c = {.limit = l->limit};

	l->shift = 0;
	l->rate = bb_tally_rate(l->view->slow, l->view->of);
	each_compared(l, take, &v);
	if (v.n < BB_RETEST_ROUNDS)
		return;
	l->shift = bb_low_median(v.list, v.n);
	each_compared(l, count, &c);
	l->rate = bb_tally_rate(c.tally.slow, c.tally.of);
	l->floor = c.floor;
}

/* What came FROM one TO another (-1: whoever): in each round that over most of the rails, or over
   RAIL. */
static struct count count_way(const struct lone *l, int from, int to, int rail)
{
	const struct bb_rounds *rounds = l->measured->rounds;
	struct count way = {.limit = l->limit};

	for (int r = 2 * l->which; r < rounds->n; r += 2 * l->n)
		for (int node = 0; node < rounds->nodes; node++) {
			const int partner = bb_rounds_partner(rounds, r, node);
			double distances[BB_MOST_RAILS];
			size_t n = 0;

			if (partner == BB_NO_PEER || (from >= 0 && partner != from) ||
			    (to >= 0 && node != to))
				continue;
			for (int k = 0; k < l->measured->rails; k++) {
				const double d =
					(rail < 0 || rail == k) && bb_rounds_has(rounds, r, node, k)
						? distance(l, r, node, k)
						: NAN;

				if (!isnan(d))
					distances[n++] = d;
			}
			if (n > 0)
				count(&way, bb_low_median(distances, n));
		}
	return way;
}

/* What is slow steadily is so in its best round too. */
static bool is_reached(const struct lone *l, const struct bb_floor *floor)
{
	return l->floor.rounds >= BB_RETEST_ROUNDS &&
	       bb_floor_best(floor) <= exp(l->limit / 2) * bb_floor_usual(&l->floor);
}

/* Is WAY likelier of what it is compared with than of what is slow in SHARE of its measurements? */
static bool is_innocent(const struct lone *l, const struct count *way, double share, bool flapping)
{
	const struct bb_tally *t = &way->tally;
	const double rate = l->rate;

	if (t->slow == 0 || share <= rate || (!flapping && is_reached(l, &way->floor)))
		return true;
	return t->slow * log(rate / share) + (t->of - t->slow) * log((1 - rate) / (1 - share)) >
	       LIKELIER;
}

/* Is V still slow? */
static bool is_slow(const struct lone *l, const struct bb_diagnosis *v, bool there, bool back)
{
	const double share = (v->share * v->measured + 1) / (v->measured + 2);
	const struct count sent = count_way(l, v->node, v->peer, v->rail);
	const struct count received = count_way(l, v->peer, v->node, v->rail);

	return (there && !is_innocent(l, &sent, share, v->flapping)) ||
	       (back && !is_innocent(l, &received, share, v->flapping));
}

/* ---- all of it ------------------------------------------------------------------------------ */

struct review {
	const struct bb_view *views;
	const struct bb_quantity *alone;
	int n; /* quantities */
	int listed;
	double *scratch;
};

/* V as number WHICH of the list, in quantity Q. */
static struct lone open_lone(const struct review *r, const struct bb_diagnosis *v, int which, int q)
{
	struct lone l = {.view = &r->views[q],
			 .measured = &r->alone[q],
			 .which = which,
			 .n = r->listed,
			 .rail = v->charge == BB_CHARGE_RAIL ? v->rail : -1,
			 .limit = v->limit[q],
			 .scratch = r->scratch};

	settle_usual(&l);
	return l;
}

/* V as number WHICH of the list: is it slow alone? In which quantities it is, it says itself. Its
   ways are those of the last quantity that convicted. */
static void hear(const struct review *r, struct bb_diagnosis *v, int which)
{
	bool slow[BB_QUANTITIES] = {false}, last = true;

	v->alone = v->contended = true;
	for (int q = r->n - 1; q >= 0; q--) {
		struct lone l;

		if (!v->slow[q])
			continue;
		l = open_lone(r, v, which, q);
		slow[q] = is_slow(&l, v, v->sends || !last, v->receives || !last);
		v->contended = v->contended && !slow[q];
		last = false;
	}
	for (int q = 0; q < r->n && !v->contended; q++)
		v->slow[q] = slow[q];
}

/* WHOLE, a node, with the rails of it that follow in the list: those that are slow by themselves
   are blamed in its place, unless they are most. */
static void hear_parts(const struct review *r, struct bb_diagnosis *whole, int n, int which)
{
	int slow = 0;

	for (int i = 1; i <= n; i++) {
		hear(r, &whole[i], which);
		slow += !whole[i].contended;
	}
	if (slow == 0)
		return;
	whole->contended = !bb_is_most(slow, r->views[0].measured.rails);
	for (int i = 1; i <= n && whole->contended; i++)
		whole[i].part = whole[i].contended;
}

static bool may_share(const struct bb_diagnosis *v, int node)
{
	return v->charge == BB_CHARGE_PORT && v->node == node && v->contended && !v->part &&
	       !v->flapping;
}

/* Rails of other nodes have as much beside them, and are fast. */
static void blame_sharers(struct bb_verdicts *verdicts, int first, int rails)
{
	for (int i = first; i < verdicts->n; i++) {
		const int node = verdicts->list[i].node;
		int n = 0;

		if (!may_share(&verdicts->list[i], node))
			continue;
		for (int k = first; k < verdicts->n; k++)
			n += may_share(&verdicts->list[k], node);
		for (int k = first; k < verdicts->n && n > 1 && !bb_is_most(n, rails); k++)
			verdicts->list[k].shares |= may_share(&verdicts->list[k], node);
	}
	for (int i = first; i < verdicts->n; i++)
		verdicts->list[i].contended &= !verdicts->list[i].shares;
}

bb_status bb_acquit(struct bb_verdicts *verdicts, int first, const struct bb_view *views,
		    const struct bb_quantity *alone, int n)
{
	const struct bb_rounds *rounds = alone[0].rounds;
	const size_t most =
		(size_t)rounds->n * (size_t)rounds->nodes * (size_t)views[0].measured.rails;
	struct bb_lone list[BB_MOST_LONE];
	const struct review r = {.views = views,
				 .alone = alone,
				 .n = n,
				 .listed = bb_lone_list(verdicts, first, list),
				 .scratch = malloc((most + 1) * sizeof(double))};

	if (!r.scratch)
		return BB_EINTERNAL;
	for (int i = first, which = 0; i < verdicts->n && which < r.listed; i++) {
		const int more = lone_of(verdicts, i);

		if (more > 0)
			hear(&r, &verdicts->list[i], which);
		if (more > 1)
			hear_parts(&r, &verdicts->list[i], parts_of(verdicts, i), which + 1);
		which += more;
	}
	blame_sharers(verdicts, first, views[0].measured.rails);
	free(r.scratch);
	return BB_OK;
}
