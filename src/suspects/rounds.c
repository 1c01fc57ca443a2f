#include "suspects/rounds.h"
#include "core/array.h"
#include "core/random.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void bb_rounds_free(struct bb_rounds *rounds)
{
	free(rounds->partner);
	free(rounds->rail);
	memset(rounds, 0, sizeof(*rounds));
}

bool bb_suspects_any(const struct bb_suspects *suspects)
{
	bool any = suspects->rails || suspects->npairs > 0;

	for (int i = 0; i < suspects->nodes; i++)
		any = any || suspects->standing[i] == BB_SUSPECT;
	return any;
}

bool bb_suspects_have(const struct bb_suspects *s, int a, int b)
{
	for (int i = 0; i < s->npairs; i++)
		if ((s->pairs[i].a == a && s->pairs[i].b == b) ||
		    (s->pairs[i].a == b && s->pairs[i].b == a))
			return true;
	return false;
}

/* One more round, in which everybody rests. NULL without memory. */
static int *add_round(struct bb_rounds *rounds)
{
	const size_t n = (size_t)rounds->n, nodes = (size_t)rounds->nodes;
	size_t room = (size_t)rounds->room;
	int *partner = bb_array_fit(rounds->partner, n, &room, nodes * sizeof(*partner));

	if (!partner)
		return NULL;
	rounds->partner = partner;
	if (!BB_ARRAY_PUT(rounds->rail, rounds->n, rounds->room, -1)) /* to the same room */
		return NULL;
	int *round = &partner[n * nodes];
	for (int i = 0; i < rounds->nodes; i++)
		round[i] = BB_NOBODY;
	return round;
}

static void meet(int *round, int a, int b)
{
	round[a] = b;
	round[b] = a;
}

/* ORDER = 0 to N - 1 in an order that STATE draws. */
static void shuffle(int *order, int n, uint64_t *state)
{
	for (int i = 0; i < n; i++) {
		const int other = (int)(bb_random_next(state) % (uint64_t)(i + 1));

		order[i] = order[other];
		order[other] = i;
	}
}

/* ---- all pairs, or a sample --------------------------------------------------------------- */

int bb_circle_rounds(int nodes)
{
	return nodes % 2 ? nodes : nodes - 1;
}

/* An even number of places, of which the last stays and the others go round. Where the nodes are
   odd nobody sits on the last. */
int bb_circle_partner(int nodes, int round, int node)
{
	const int turning = bb_circle_rounds(nodes);
	const int opposite = (2 * round - node % turning + 2 * turning) % turning;
	int partner;

	if (node == turning)
		partner = round % turning;
	else
		partner = opposite == node ? turning : opposite;
	return partner < nodes ? partner : BB_NOBODY;
}

bb_status bb_rounds_survey(struct bb_rounds *rounds, int nodes, int least, bool all, uint64_t seed)
{
	const int circle = bb_circle_rounds(nodes);
	const int twice = 2 * circle > BB_CONFIRMING ? 2 * circle : BB_CONFIRMING;
	const int wanted = all && least < twice ? twice : least;
	/* All pairs as often: a partner that a node meets once more would outweigh the others. */
	const int n = wanted > circle ? (wanted + circle - 1) / circle * circle : wanted;
	uint64_t state = seed;
	int *places = malloc((size_t)(nodes + circle) * sizeof(*places)), *round;

	if (!places)
		return BB_EINTERNAL;
	int *const order = places + nodes;
	shuffle(places, nodes, &state);
	shuffle(order, circle, &state);
	rounds->nodes = nodes;
	for (int r = 0; r < n && (round = add_round(rounds)); r++)
		for (int i = 0; i < nodes; i++) {
			const int peer = bb_circle_partner(nodes, order[r % circle], i);

			if (peer != BB_NOBODY)
				round[places[i]] = places[peer];
		}
	free(places);
	return rounds->n < n ? BB_EINTERNAL : BB_OK;
}

bb_status bb_rounds_split(struct bb_rounds *rounds, int pairs)
{
	struct bb_rounds split = {.nodes = rounds->nodes};
	int *last = NULL;

	for (int r = 0; r < rounds->n; r++) {
		int met = 0;

		last = add_round(&split);
		for (int i = 0; i < rounds->nodes && last; i++) {
			const int partner = bb_rounds_partner(rounds, r, i);

			if (partner <= i) /* or BB_NOBODY */
				continue;
			if (met > 0 && met % pairs == 0 && !(last = add_round(&split)))
				break;
			split.rail[split.n - 1] = rounds->rail[r];
			meet(last, i, partner);
			met++;
		}
		if (!last) {
			bb_rounds_free(&split);
			return BB_EINTERNAL;
		}
	}
	bb_rounds_free(rounds);
	*rounds = split;
	return BB_OK;
}

/* ---- suspects ----------------------------------------------------------------------------- */

/* What is left to be measured. */
struct pending {
	const struct bb_suspects *suspects;
	int todo;    /* in all */
	int *left;   /* [node]: rounds with a proven one; owned, with room for the next two */
	int *next;   /* [node]: which of the proven comes next */
	int *proven; /* those who are, in an order that is drawn */
	int nproven;
	int pairs_left[BB_MOST_PAIRS];
	int controls_left; /* rounds with two proven ones */
};

/* In ROUND, number TURN, suspected pairs meet, then each suspect the next of the proven who is
   free, then those of the proven that are still free, each time shifted against each other. */
static void pending_meet(struct pending *p, int *round, int turn)
{
	const struct bb_suspects *s = p->suspects;
	int last = BB_NOBODY, met = 0;

	for (int i = 0; i < s->npairs; i++) {
		const int which = (i + turn) % s->npairs;
		const struct bb_suspect_pair *pair = &s->pairs[which];

		if (p->pairs_left[which] == 0 || round[pair->a] != BB_NOBODY ||
		    round[pair->b] != BB_NOBODY)
			continue;
		p->pairs_left[which]--;
		p->todo--;
		meet(round, pair->a, pair->b);
	}
	for (int i = 0; i < s->nodes; i++) {
		const int node = (i + turn) % s->nodes;

		for (int k = 0; k < p->nproven && p->left[node] > 0 && round[node] == BB_NOBODY;
		     k++) {
			const int at = (p->next[node] + k) % p->nproven, partner = p->proven[at];

			if (round[partner] != BB_NOBODY || bb_suspects_have(s, node, partner))
				continue;
			p->next[node] = (at + 1) % p->nproven;
			p->left[node]--;
			p->todo--;
			meet(round, node, partner);
		}
	}
	for (int i = 0; i < p->nproven; i++) {
		const int node = p->proven[(i + turn) % p->nproven];

		if (round[node] != BB_NOBODY)
			continue;
		if (last == BB_NOBODY || bb_suspects_have(s, last, node)) {
			last = node;
			continue;
		}
		meet(round, last, node);
		last = BB_NOBODY;
		met = p->controls_left > 0;
	}
	p->controls_left -= met;
	p->todo -= met;
}

bb_status bb_rounds_confirm(struct bb_rounds *rounds, const struct bb_suspects *s, uint64_t seed)
{
	const size_t nodes = (size_t)s->nodes;
	uint64_t state = seed;
	struct pending p = {.suspects = s, .left = calloc(4 * nodes, sizeof(*p.left))};
	int *round;

	if (!p.left)
		return BB_EINTERNAL;
	p.next = p.left + nodes;
	p.proven = p.next + nodes;
	int *const order = p.proven + nodes;
	shuffle(order, s->nodes, &state);
	for (int i = 0; i < s->nodes; i++) {
		const int node = order[i];

		if (s->standing[node] == BB_PROVEN)
			p.proven[p.nproven++] = node;
		p.left[node] = s->standing[node] >= BB_QUESTIONED ? BB_CONFIRMING : 0;
		p.next[node] = (int)(bb_random_next(&state) % (uint64_t)s->nodes);
		p.todo += p.left[node];
	}
	for (int i = 0; i < s->npairs; i++)
		p.pairs_left[i] = BB_CONFIRMING;
	p.controls_left = p.nproven > 1 ? BB_CONFIRMING : 0;
	p.todo += s->npairs * BB_CONFIRMING + p.controls_left;
	bb_status status = p.nproven > 0 ? BB_OK : BB_EINTERNAL;
	rounds->nodes = s->nodes;
	/* A node with only suspected links to proven ones never meets them. */
	for (int turn = 0, before = INT_MAX; status == BB_OK && p.todo > 0 && p.todo < before;
	     turn++) {
		before = p.todo;
		round = add_round(rounds);
		if (round)
			pending_meet(&p, round, turn);
		else
			status = BB_EINTERNAL;
	}
	free(p.left);
	return status;
}

/* ---- alone -------------------------------------------------------------------------------- */

/* The next that may be compared with L, from AT on: the proven come before those who are merely not
   suspected. OTHER, and whom it is suspected with, are not meant. BB_NOBODY: there is none. */
static int next_good(const struct bb_suspects *s, const struct bb_lone *l, int at, int other)
{
	for (int standing = BB_PROVEN; standing <= BB_QUESTIONED; standing++)
		for (int i = 0; i < s->nodes; i++) {
			const int node = (at + i) % s->nodes;

			if (s->standing[node] == standing && node != l->node && node != l->peer &&
			    node != other &&
			    (other == BB_NOBODY || !bb_suspects_have(s, other, node)))
				return node;
		}
	return BB_NOBODY;
}

bb_status bb_rounds_alone(struct bb_rounds *rounds, const struct bb_suspects *suspects,
			  const struct bb_lone_plan *plan)
{
	rounds->nodes = suspects->nodes;
	for (int i = 0; i < 2 * plan->n * plan->times; i++) {
		const struct bb_lone *l = &plan->list[i / 2 % plan->n];
		const int turn = i / 2 / plan->n;
		int *round = add_round(rounds), a = l->node, b = l->peer;

		if (!round)
			return BB_EINTERNAL;
		rounds->rail[i] = l->rail;
		if (i % 2) { /* the reference */
			a = next_good(suspects, l, turn, BB_NOBODY);
			b = a == BB_NOBODY
				    ? a
				    : next_good(suspects, l, a + 1 + turn % rounds->nodes, a);
		} else if (b < 0) {
			b = next_good(suspects, l, turn, a);
		}
		if (b != BB_NOBODY)
			meet(round, a, b);
	}
	return BB_OK;
}
