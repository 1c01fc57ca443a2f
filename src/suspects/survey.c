/*
 * survey.c - the nodes and links that a survey suspects, and ranks that come late.
 */
#include "suspects/judge.h"

#include "core/array.h"
#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

#define LIBERAL 0.02       /* chance below which a survey suspects */
#define LIBERAL_SHARE 0.15 /* of its rounds that must have been slow too */
#define LIBERAL_EXCESS 0.5 /* in limits, of a link of which one round was slow */

bb_status bb_verdicts_add(struct bb_verdicts *verdicts, const struct bb_diagnosis *verdict)
{
	return BB_ARRAY_PUT(verdicts->list, verdicts->n, verdicts->room, *verdict) ? BB_OK
										   : BB_EINTERNAL;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

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

/* Add to *SLOW how often NODE was slow. Returns true if it looks bad, as a whole or in one rail. */
static bool survey_node(const struct bb_view *v, int node, int *slow)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const int rails = v->measured.rails;
	struct bb_tally single[2 * BB_MOST_RAILS] = {{0}}; /* what a rail receives, then sends */
	struct bb_tally own = {0}, others = {0}, all = {0};
	bool bad = false;

	for (int r = 0; r < rounds->n; r++) {
		const int partner = bb_rounds_partner(rounds, r, node);

		for (int i = 0; i < 2 * rails && partner != BB_NOBODY; i++) {
			const int k = i / 2, sends = i % 2, to = sends ? partner : node;

			bb_tally_count(&own, bb_view_excess(v, r, to, k, true, true), v->limit);
			bb_tally_count(&single[i], bb_view_excess(v, r, to, k, !sends, sends),
				       v->limit);
		}
	}
	/* The other nodes among themselves: among few nodes, those of NODE would raise the rate
	   that it is compared with. */
	others.slow = v->slow - own.slow;
	others.of = v->of - own.of;
	for (int i = 0; i < 2 * rails; i++) {
		all.slow += single[i].slow;
		all.of += single[i].of;
		bad = bad || looks_bad(&single[i], 2 * rails, &others);
	}
	*slow += all.slow;
	return bad || looks_bad(&all, 1, &others);
}

/* ---- links ---------------------------------------------------------------------------------- */

struct candidate {
	struct bb_suspect_pair pair;
	double excess; /* the lower median of its rounds, in limits of its quantity */
};

/* Add the links that V suspects to the WORST, worst first; a pair is listed once. SCRATCH: room for
   one value per round. */
static void survey_links(struct bb_suspects *s, const struct bb_view *v, struct candidate *worst,
			 double *scratch)
{
	const int most = s->nodes < BB_MOST_PAIRS ? s->nodes : BB_MOST_PAIRS;
	const struct bb_rounds *rounds = v->measured.rounds;

	for (struct bb_measurement m = BB_BEFORE_MEASUREMENT; bb_quantity_next(&v->measured, &m);) {
		const int from = m.met.from, to = m.met.to;
		struct candidate c = {.pair = {from < to ? from : to, from < to ? to : from}};
		size_t n = 0;
		int at = 0;

		/* Few are slow; only these are examined with their other rounds. */
		if (!(bb_view_excess(v, m.met.round, to, m.rail, true, true) > v->limit))
			continue;
		for (int r = 0; r < rounds->n; r++) {
			const double e = bb_rounds_partner(rounds, r, to) == from
						 ? bb_view_excess(v, r, to, m.rail, true, true)
						 : NAN;

			if (!isnan(e))
				scratch[n++] = e;
		}
		c.excess = bb_low_median(scratch, n) / v->limit;
		if (!(c.excess > LIBERAL_EXCESS))
			continue;
		while (at < s->npairs &&
		       (worst[at].pair.a != c.pair.a || worst[at].pair.b != c.pair.b))
			at++;
		if (at == s->npairs && s->npairs < most)
			s->npairs++;
		else if (c.excess <= worst[at == s->npairs ? --at : at].excess)
			continue;
		for (; at > 0 && c.excess > worst[at - 1].excess; at--)
			worst[at] = worst[at - 1];
		worst[at] = c;
	}
}

/* ---- all of them ---------------------------------------------------------------------------- */

/*
 * Settle the standing of all nodes. One whose links are suspected, to all of its partners but one,
 * is itself the suspect and its links are not: they would leave it hardly any partner to be
 * measured with. Fewer than half can be suspects, or nothing is typical: of more, those remain that
 * were slow most often. Of the others, the half that was slow least often is proven; where ranks
 * share processors (CROWDED) all are, because chance decides how often each was slow, and pairs at
 * every distance are needed. COUNTS: room for one value per node.
 */
static void settle_standing(struct bb_suspects *s, const struct bb_rounds *rounds, bool crowded,
			    const int *slow, int *counts)
{
	int n = 0, least = 0, middle;

	for (int node = 0; node < s->nodes; node++) {
		int left = 0, pairs = 0, partners = 0;

		for (int i = 0; i < s->npairs; i++)
			pairs += s->pairs[i].a == node || s->pairs[i].b == node;
		/* No pair meets twice before all have met. */
		for (int r = 0; r < rounds->n && partners < rounds->nodes - 1; r++)
			partners += bb_rounds_partner(rounds, r, node) != BB_NOBODY;
		if (pairs < 2 || pairs < partners - 1)
			continue;
		s->standing[node] = BB_SUSPECT;
		for (int i = 0; i < s->npairs; i++)
			if (s->pairs[i].a != node && s->pairs[i].b != node)
				s->pairs[left++] = s->pairs[i];
		s->npairs = left;
	}
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
	const struct bb_rounds *rounds = views[0].measured.rounds;
	const int nodes = rounds->nodes, rails = views[0].measured.rails;
	int *slow = calloc(2 * (size_t)nodes, sizeof(*slow));
	double *scratch = malloc(((size_t)rounds->n + 1) * sizeof(*scratch));
	struct candidate worst[BB_MOST_PAIRS];
	bb_status status = BB_EINTERNAL;

	s->nodes = nodes;
	s->standing = calloc((size_t)nodes, 1);
	if (!slow || !scratch || !s->standing)
		goto out;
	for (int i = 0; i < nodes; i++)
		for (int q = 0; q < n; q++)
			if (survey_node(&views[q], i, &slow[i]))
				s->standing[i] = BB_SUSPECT;
	for (int q = 0; q < n; q++)
		survey_links(s, &views[q], worst, scratch);
	for (int i = 0; i < s->npairs; i++)
		s->pairs[i] = worst[i].pair;
	for (int q = 0; q < n; q++)
		for (int k = 0; k < rails; k++)
			s->rails |= views[q].base[k] - bb_typical_base(views[q].base, rails) >
				    views[q].limit;
	settle_standing(s, rounds, views[0].floor > 0, slow, slow + nodes);
	status = BB_OK;
out:
	free(slow);
	free(scratch);
	return status;
}

/* ---- stragglers ----------------------------------------------------------------------------- */

bb_status bb_find_stragglers(struct bb_verdicts *verdicts, const float *waits, int steps, int ranks,
			     double step_s, double tolerance)
{
	const size_t n = (size_t)steps * (size_t)ranks;
	double *late = malloc((2 * n + 1) * sizeof(*late));
	struct bb_tally *tallies = calloc((size_t)ranks + 1, sizeof(*tallies)), all = {0};
	bb_status status = late && tallies ? BB_OK : BB_EINTERNAL;
	double limit, middle;

	if (status != BB_OK)
		goto out;
	double *const scratch = late + n;
	/* LATE[rank * steps + step] = how much less than the median rank this one waited. */
	for (size_t i = 0; i < (size_t)steps; i++) {
		for (size_t r = 0; r < (size_t)ranks; r++)
			scratch[r] = waits[r * (size_t)steps + i];
		middle = bb_low_median(scratch, (size_t)ranks);
		for (size_t k = i; k < n; k += (size_t)steps)
			late[k] = middle - waits[k];
	}
	/* Noise is the spread of each rank around its own median: a rank that is always late does
	   not add to it. */
	for (int r = 0; r < ranks; r++) {
		double *own = &scratch[(size_t)r * (size_t)steps];

		memcpy(own, &late[(size_t)r * (size_t)steps], (size_t)steps * sizeof(*own));
		middle = bb_low_median(own, (size_t)steps);
		for (int i = 0; i < steps; i++)
			own[i] -= middle;
	}
	limit = bb_slow_from(tolerance * step_s, bb_noise_of(scratch, n));
	for (size_t i = 0; i < n; i++) {
		bb_tally_count(&tallies[i / (size_t)steps], late[i], limit);
		bb_tally_count(&all, late[i], limit);
	}
	for (int r = 0; r < ranks && status == BB_OK; r++) {
		const struct bb_tally *t = &tallies[r];
		const double chance =
			ranks * bb_chance(t->slow, t->of, all.slow - t->slow, all.of - t->of);
		const struct bb_diagnosis v = {
			.charge = BB_CHARGE_STRAGGLER,
			.node = r,
			.peer = -1,
			.rail = -1,
			.factor = t->slow > 0 ? 1 + t->sum / t->slow / step_s : 1,
			.share = bb_tally_share(t),
			.measured = t->of,
			.chance = chance,
			.flapping = !bb_tally_is_steady(t),
		};

		if (bb_tally_convicts(t, chance))
			status = bb_verdicts_add(verdicts, &v);
	}
out:
	free(late);
	free(tallies);
	return status;
}
