#include "diagnose/tally.h"
#include "core/array.h"
#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

#define LIBERAL 0.02       /* chance below which a survey suspects */
#define LEAST_PAIRS 8      /* or a quarter of the nodes: so many pairs may be suspected */
#define LIBERAL_SHARE 0.15 /* of its rounds that must have been slow too */
#define LIBERAL_EXCESS 0.5 /* in limits, of a link of which one round was slow */

void bb_verdicts_free(struct bb_verdicts *verdicts)
{
	free(verdicts->list);
	memset(verdicts, 0, sizeof(*verdicts));
}

bb_status bb_verdicts_add(struct bb_verdicts *verdicts, const struct bb_diagnosis *verdict)
{
	struct bb_diagnosis *new = BB_ARRAY_ADD(verdicts->list, verdicts->n, verdicts->room);

	if (!new)
		return BB_EINTERNAL;
	*new = *verdict;
	return BB_OK;
}

/* ---- the survey ----------------------------------------------------------------------------- */

static double fitted(const struct bb_polish *fit, const double *of_ports, int node, int rail)
{
	return fmax(of_ports[node * fit->rails + rail], 0);
}

/* Returns the logarithm of the time from NODE's partner in ROUND to NODE above the base, less what
   is fitted to the partner (SENDS) and to NODE (RECEIVES). */
static double excess(const struct bb_view *v, int round, int node, int rail, bool sends,
		     bool receives)
{
	const struct bb_polish *fit = &v->fit;
	const int partner = bb_rounds_partner(v->measured.rounds, round, node);
	double e;

	if (partner == BB_NO_PEER)
		return NAN;
	e = bb_measured_at(&v->measured, round, node, rail) - fit->base[rail];
	if (sends)
		e -= fitted(fit, fit->out, partner, rail);
	if (receives)
		e -= fitted(fit, fit->in, node, rail);
	return e;
}

bb_status bb_view_make(struct bb_view *view, const struct bb_quantity *m, double tolerance)
{
	bb_status status = bb_polish_make(&view->fit, m);
	struct bb_tally all = {0};

	if (status != BB_OK)
		return status;
	view->measured = *m;
	view->limit = fmax(view->floor, bb_slow_from(bb_tolerated(tolerance), view->fit.noise));
	for (struct bb_pairing at = BB_BEFORE_FIRST; bb_rounds_next(m->rounds, &at);)
		for (int k = 0; k < m->rails; k++)
			bb_tally_count(&all, excess(view, at.round, at.to, k, true, true),
				       view->limit);
	view->slow = all.slow;
	view->of = all.of;
	return BB_OK;
}

static bool looks_bad(const struct bb_tally *t, int chances, const struct bb_tally *others)
{
	return t->slow > 1 && bb_tally_share(t) >= LIBERAL_SHARE &&
	       chances * bb_chance(t->slow, t->of, others->slow, others->of) < LIBERAL;
}

int bb_survey_least(int nodes)
{
	struct bb_tally node, others = {0};
	int rounds = 1; /* a single one does not tell a node from its partner */

	do {
		const int met = ++rounds * (nodes / 2); /* pairs */

		node.of = 2 * (nodes % 2 ? rounds * (nodes - 1) / nodes : rounds);
		node.slow = (int)ceil(BB_STEADY * node.of);
		others.of = 2 * met - node.of;
		others.slow = (others.of + 3) / 4;
	} while (!looks_bad(&node, 1, &others));
	return rounds;
}

/* Tally the measurements of the other nodes among themselves: among few nodes, those of NODE would
   raise the rate that it is compared with. */
static struct bb_tally others_than(const struct bb_view *v, int node)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	struct bb_tally own = {0};

	for (int r = 0; r < rounds->n; r++) {
		const int partner = bb_rounds_partner(rounds, r, node);

		for (int k = 0; k < v->measured.rails && partner != BB_NO_PEER; k++) {
			bb_tally_count(&own, excess(v, r, node, k, true, true), v->limit);
			bb_tally_count(&own, excess(v, r, partner, k, true, true), v->limit);
		}
	}
	return (struct bb_tally){.slow = v->slow - own.slow, .of = v->of - own.of};
}

/* Add to *SLOW how often NODE was slow. Returns true if it looks bad, as a whole or in one rail. */
static bool survey_node(const struct bb_view *v, int node, int *slow)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const int rails = v->measured.rails;
	const struct bb_tally others = others_than(v, node);
	struct bb_tally all = {0};
	bool bad = false;

	for (int k = 0; k < rails; k++) {
		struct bb_tally in = {0}, out = {0};

		for (int r = 0; r < rounds->n; r++) {
			const int partner = bb_rounds_partner(rounds, r, node);

			if (partner == BB_NO_PEER)
				continue;
			bb_tally_count(&in, excess(v, r, node, k, true, false), v->limit);
			bb_tally_count(&out, excess(v, r, partner, k, false, true), v->limit);
		}
		all.slow += in.slow + out.slow;
		all.of += in.of + out.of;
		bad = bad || looks_bad(&in, 2 * rails, &others) ||
		      looks_bad(&out, 2 * rails, &others);
	}
	*slow += all.slow;
	return bad || looks_bad(&all, 1, &others);
}

struct candidate {
	struct bb_suspect_pair pair;
	double excess; /* the lower median of its rounds, in limits of its quantity */
};

static bool is_worse(const struct candidate *a, const struct candidate *b)
{
	return a->excess > b->excess;
}

/* Add C to the N worst candidates, at most MOST, worst first; a pair is listed once. */
static void candidates_add(struct candidate *worst, int *n, int most, struct candidate c)
{
	int at = *n;

	for (int i = 0; i < *n; i++) {
		if (worst[i].pair.a != c.pair.a || worst[i].pair.b != c.pair.b)
			continue;
		if (!is_worse(&c, &worst[i]))
			return;
		at = i; /* it is there already: moves up from here */
		break;
	}
	if (at == *n && *n < most)
		(*n)++;
	else if (at == *n && !is_worse(&c, &worst[--at]))
		return;
	for (; at > 0 && is_worse(&c, &worst[at - 1]); at--)
		worst[at] = worst[at - 1];
	worst[at] = c;
}

/* Returns the pair of NODE and its partner in ROUND, judged by all rounds in which the two met.
   SCRATCH: room for one value per round. */
static struct candidate look_at(const struct bb_view *v, int round, int node, int rail,
				double *scratch)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const int partner = bb_rounds_partner(rounds, round, node);
	size_t n = 0;

	for (int r = 0; r < rounds->n; r++) {
		const double e = bb_rounds_partner(rounds, r, node) == partner
					 ? excess(v, r, node, rail, true, true)
					 : NAN;

		if (!isnan(e))
			scratch[n++] = e;
	}
	return (struct candidate){
		.pair = {partner < node ? partner : node, partner < node ? node : partner},
		.excess = bb_low_median(scratch, n) / v->limit,
	};
}

static void survey_links(struct bb_suspects *s, const struct bb_view *v, struct candidate *worst,
			 double *scratch)
{
	const int most = s->nodes < BB_MOST_PAIRS ? s->nodes : BB_MOST_PAIRS;

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(v->measured.rounds, &m);)
		for (int k = 0; k < v->measured.rails; k++) {
			struct candidate c;

			/* Few are slow; only these are examined with their other rounds. */
			if (!(excess(v, m.round, m.to, k, true, true) > v->limit))
				continue;
			c = look_at(v, m.round, m.to, k, scratch);
			if (c.excess > LIBERAL_EXCESS)
				candidates_add(worst, &s->npairs, most, c);
		}
}

static bool survey_pairs(struct bb_suspects *s, const struct bb_view *views, int n)
{
	double *scratch = malloc(((size_t)views[0].measured.rounds->n + 1) * sizeof(*scratch));
	struct candidate worst[BB_MOST_PAIRS];

	for (int q = 0; q < n && scratch; q++)
		survey_links(s, &views[q], worst, scratch);
	for (int i = 0; i < s->npairs; i++)
		s->pairs[i] = worst[i].pair;
	free(scratch);
	return scratch != NULL;
}

/* Returns how many nodes NODE met; no pair meets twice before all have met. */
static int partners_of(const struct bb_rounds *rounds, int node)
{
	int n = 0;

	for (int r = 0; r < rounds->n && n < rounds->nodes - 1; r++)
		n += bb_rounds_partner(rounds, r, node) != BB_NO_PEER;
	return n;
}

/* Returns the number of suspected links of NODE. */
static int pairs_of(const struct bb_suspects *s, int node)
{
	int n = 0;

	for (int i = 0; i < s->npairs; i++)
		n += s->pairs[i].a == node || s->pairs[i].b == node;
	return n;
}

/* A node whose links are suspected, to all of its partners but one, is itself the suspect and its
   links are not: they would leave it hardly any partner to be measured with. */
static void charge_ends(struct bb_suspects *s, const struct bb_rounds *rounds)
{
	for (int node = 0; node < s->nodes; node++) {
		int left = 0;

		if (pairs_of(s, node) < 2 || pairs_of(s, node) < partners_of(rounds, node) - 1)
			continue;
		s->standing[node] = BB_SUSPECT;
		for (int i = 0; i < s->npairs; i++)
			if (s->pairs[i].a != node && s->pairs[i].b != node)
				s->pairs[left++] = s->pairs[i];
		s->npairs = left;
	}
}

double bb_rail_excess(const double *base, int rails, int rail)
{
	double others[BB_MOST_RAILS];

	memcpy(others, base, (size_t)rails * sizeof(*base));
	return base[rail] - bb_low_median(others, (size_t)rails);
}

/* Settle the standing of all nodes. Fewer than half can be suspects, or nothing is typical: of
   more, those remain that were slow most often. Of the others, the half that was slow least often
   is proven; where ranks share processors (CROWDED) all are, because chance decides how often each
   was slow, and pairs at every distance are needed. COUNTS: room for one value per node. */
static void settle_standing(struct bb_suspects *s, bool crowded, const int *slow, int *counts)
{
	int n = 0, least = 0, middle;

	for (int i = 0; i < s->nodes; i++)
		if (s->standing[i] == BB_SUSPECT)
			counts[n++] = slow[i];
	bb_stats_sort_ints(counts, (size_t)n);
	if (n > (s->nodes - 1) / 2)
		least = counts[n - (s->nodes - 1) / 2 - 1] + 1;
	n = 0;
	for (int i = 0; i < s->nodes; i++)
		if (s->standing[i] != BB_SUSPECT || slow[i] < least) {
			s->standing[i] = BB_UNPROVEN;
			counts[n++] = slow[i];
		}
	bb_stats_sort_ints(counts, (size_t)n);
	middle = counts[crowded ? n - 1 : (n - 1) / 2];
	for (int i = 0; i < s->nodes; i++)
		if (s->standing[i] == BB_UNPROVEN && slow[i] <= middle)
			s->standing[i] = BB_PROVEN;
	for (int i = 0; i < s->npairs; i++) {
		unsigned char *a = &s->standing[s->pairs[i].a], *b = &s->standing[s->pairs[i].b];

		*a = *a == BB_UNPROVEN ? BB_QUESTIONED : *a;
		*b = *b == BB_UNPROVEN ? BB_QUESTIONED : *b;
	}
}

bb_status bb_suspect(struct bb_suspects *s, const struct bb_view *views, int n)
{
	const int nodes = views[0].measured.rounds->nodes, rails = views[0].measured.rails;
	int *slow = calloc(2 * (size_t)nodes, sizeof(*slow));
	bb_status status = BB_EINTERNAL;

	s->nodes = nodes;
	s->standing = calloc((size_t)nodes, 1);
	if (!slow || !s->standing)
		goto out;
	for (int i = 0; i < nodes; i++)
		for (int q = 0; q < n; q++)
			if (survey_node(&views[q], i, &slow[i]))
				s->standing[i] = BB_SUSPECT;
	if (!survey_pairs(s, views, n))
		goto out;
	charge_ends(s, views[0].measured.rounds);
	for (int q = 0; q < n; q++)
		for (int k = 0; k < rails; k++)
			s->rails |= bb_rail_excess(views[q].fit.base, rails, k) > views[q].limit;
	settle_standing(s, views[0].floor > 0, slow, slow + nodes);
	status = BB_OK;
out:
	free(slow);
	return status;
}

/* ---- stragglers ----------------------------------------------------------------------------- */

/* LATE[step * ranks + rank] = how much less than the median rank this one waited. */
static void find_lateness(const float *waits, int steps, int ranks, double *late, double *scratch)
{
	for (int i = 0; i < steps; i++) {
		const float *step = &waits[(size_t)i * (size_t)ranks];
		double middle;

		for (int r = 0; r < ranks; r++)
			scratch[r] = step[r];
		middle = bb_low_median(scratch, (size_t)ranks);
		for (int r = 0; r < ranks; r++)
			late[(size_t)i * (size_t)ranks + (size_t)r] = middle - step[r];
	}
}

/* Returns the lateness from which on a rank is late. Noise is the spread of each rank around its
   own median: a rank that is always late does not add to it. */
static double late_from(const double *late, int steps, int ranks, double least, double *scratch)
{
	for (int r = 0; r < ranks; r++) {
		double *own = &scratch[(size_t)r * (size_t)steps], middle;

		for (int i = 0; i < steps; i++)
			own[i] = late[(size_t)i * (size_t)ranks + (size_t)r];
		middle = bb_low_median(own, (size_t)steps);
		for (int i = 0; i < steps; i++)
			own[i] -= middle;
	}
	return bb_slow_from(least, bb_noise_of(scratch, (size_t)steps * (size_t)ranks));
}

static bb_status judge_rank(struct bb_verdicts *verdicts, const struct bb_tally *t, int rank,
			    int ranks, const struct bb_tally *all, double step_s)
{
	const double chance =
		ranks * bb_chance(t->slow, t->of, all->slow - t->slow, all->of - t->of);
	const struct bb_diagnosis v = {
		.charge = BB_CHARGE_STRAGGLER,
		.node = rank,
		.peer = -1,
		.rail = -1,
		.factor = t->slow > 0 ? 1 + t->sum / t->slow / step_s : 1,
		.share = bb_tally_share(t),
		.measured = t->of,
		.chance = chance,
		.flapping = !bb_tally_is_steady(t),
	};

	return bb_tally_convicts(t, chance) ? bb_verdicts_add(verdicts, &v) : BB_OK;
}

bb_status bb_find_stragglers(struct bb_verdicts *verdicts, const float *waits, int steps, int ranks,
			     double step_s, double tolerance)
{
	const size_t n = (size_t)steps * (size_t)ranks;
	double *late = malloc((n + 1) * sizeof(*late)), *scratch = malloc((n + 1) * sizeof(*late));
	struct bb_tally *tallies = calloc((size_t)ranks + 1, sizeof(*tallies)), all = {0};
	bb_status status = late && scratch && tallies ? BB_OK : BB_EINTERNAL;
	double limit;

	if (status != BB_OK)
		goto out;
	find_lateness(waits, steps, ranks, late, scratch);
	limit = late_from(late, steps, ranks, tolerance * step_s, scratch);
	for (int i = 0; i < steps; i++)
		for (int r = 0; r < ranks; r++) {
			const double l = late[(size_t)i * (size_t)ranks + (size_t)r];

			bb_tally_count(&tallies[r], l, limit);
			bb_tally_count(&all, l, limit);
		}
	for (int r = 0; r < ranks && status == BB_OK; r++)
		status = judge_rank(verdicts, &tallies[r], r, ranks, &all, step_s);
out:
	free(late);
	free(scratch);
	free(tallies);
	return status;
}
