#include "suspects/blocks.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_NODES 2    /* of a block */
#define CLEARLY_FAST 0.5 /* of the limit */
#define FASTEST 0.25
#define MOST_ROUNDS 1024 /* beyond them the search takes longer than the measuring */

/* ---- sets of nodes that are fast with each other -------------------------------------------- */

/* Two nodes that met. */
struct pair {
	int round; /* the first time */
	int a, b;
	double beyond; /* logarithm of their time over the typical time */
};

/* A node in its set. */
struct member {
	int set;  /* one of its nodes names it */
	int next; /* the next of its set, in a circle */
	int size; /* of the node that names the set: its nodes */
	int block;
};

/* Disjoint sets of nodes, and the pairs by which they are joined. */
struct node_sets {
	int nodes;
	struct member *of; /* [node] */
	struct pair *pairs;
	size_t n, fast;     /* pairs, sorted by time; the first of them that are fast */
	unsigned char *met; /* [round * nodes + node]: 1: its first meeting there; 2: fast */
	double *values;     /* room for all measurements */
};

/* Append both directions between A and B in ROUND, over all rails, to VALUES. */
static void collect_meeting(const struct bb_view *v, int round, int a, int b, double *values,
			    size_t *n)
{
	for (int i = 0; i < 2 * v->measured.rails; i++) {
		const int to = i % 2 ? a : b, rail = i / 2;

		values[*n] = bb_measured_at(&v->measured, round, to, rail) - v->base[rail];
		*n += !isnan(values[*n]);
	}
}

static int by_time(const void *a, const void *b)
{
	const double x = ((const struct pair *)a)->beyond, y = ((const struct pair *)b)->beyond;

	return (x > y) - (x < y);
}

/* Are at least half of the pairs between set A, which is not the larger, and set B fast? A single
   one may be fast by chance. */
static bool belong_together(const struct node_sets *sets, const struct bb_rounds *rounds, int a,
			    int b)
{
	int met = 0, good = 0, node = a;

	do {
		for (int r = 0; r < rounds->n; r++) {
			const int first = sets->met[r * sets->nodes + node];

			if (first == 0 || sets->of[bb_rounds_partner(rounds, r, node)].set != b)
				continue;
			met++;
			good += first == 2;
		}
		node = sets->of[node].next;
	} while (node != a);
	return 2 * good >= met;
}

/* Join the nodes of fast pairs, the fastest first. A pair is fast if the median of all rounds in
   which its nodes met is clearly not slow beside the fastest quarter of all pairs. */
static void join_fast_pairs(struct node_sets *sets, const struct bb_view *v)
{
	const struct bb_rounds *rounds = v->measured.rounds;

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(rounds, &m);) {
		size_t n = 0;
		int before = 0;

		while (before < m.round && bb_rounds_partner(rounds, before, m.to) != m.from)
			before++;
		if (m.from <= m.to || before < m.round)
			continue; /* seen already */
		for (int r = m.round; r < rounds->n; r++)
			if (bb_rounds_partner(rounds, r, m.to) == m.from)
				collect_meeting(v, r, m.to, m.from, sets->values, &n);
		if (n > 0)
			sets->pairs[sets->n++] = (struct pair){m.round, m.to, m.from,
							       bb_low_median(sets->values, n)};
	}
	if (sets->n == 0)
		return;
	qsort(sets->pairs, sets->n, sizeof(*sets->pairs), by_time);
	const double typical = sets->pairs[(size_t)(FASTEST * (double)(sets->n - 1))].beyond;
	while (sets->fast < sets->n &&
	       sets->pairs[sets->fast].beyond - typical <= CLEARLY_FAST * v->limit)
		sets->fast++;
	for (size_t i = 0; i < sets->n; i++) {
		const struct pair *p = &sets->pairs[i];

		sets->met[p->round * sets->nodes + p->a] = i < sets->fast ? 2 : 1;
		sets->met[p->round * sets->nodes + p->b] = i < sets->fast ? 2 : 1;
	}
	for (size_t i = 0; i < sets->fast; i++) {
		const int x = sets->of[sets->pairs[i].a].set, y = sets->of[sets->pairs[i].b].set;
		const bool x_joins = sets->of[x].size < sets->of[y].size;
		const int a = x_joins ? x : y, b = x_joins ? y : x, next = sets->of[a].next;

		if (a == b || !belong_together(sets, rounds, a, b))
			continue;
		for (int node = a; sets->of[node].set == a; node = sets->of[node].next)
			sets->of[node].set = b;
		sets->of[a].next = sets->of[b].next;
		sets->of[b].next = next;
		sets->of[b].size += sets->of[a].size;
	}
}

/* ---- the blocks ------------------------------------------------------------------------------ */

/* Blocks that never met get the typical level between blocks. Paths within a block have a level of
   their own if it exceeds the noise. Returns the typical level between blocks. */
static double settle_levels(struct bb_block_map *blocks, const struct bb_view *v, double *values)
{
	double between[BB_MOST_BLOCKS * BB_MOST_BLOCKS], typical;
	size_t n = 0;

	for (int from = 0; from < blocks->n; from++)
		for (int to = 0; to < blocks->n; to++) {
			double *level = &blocks->level[from][to];
			size_t met = 0;

			for (struct bb_measurement at = BB_BEFORE_MEASUREMENT;
			     bb_quantity_next(&v->measured, &at);)
				if (blocks->of[at.met.from] == from && blocks->of[at.met.to] == to)
					values[met++] = at.log_s - v->base[at.rail];
			*level = bb_low_median(values, met);
			if (from == to && !(fabs(*level) > v->limit))
				*level = 0;
			if (from != to && !isnan(*level))
				between[n++] = *level;
		}
	typical = n > 0 ? bb_low_median(between, n) : 0;
	for (int from = 0; from < blocks->n; from++)
		for (int to = 0; to < blocks->n; to++)
			if (isnan(blocks->level[from][to]))
				blocks->level[from][to] = typical;
	return typical;
}

/* How badly the levels of BLOCK explain the times of NODE: the mean distance of what they leave
   from its median. A node that is slow by a factor with everybody deviates as little as a healthy
   one. INFINITY if NODE met nobody. */
static double deviation_of(const struct bb_block_map *blocks, const struct bb_view *v, int node,
			   int block, double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	double middle, sum = 0;
	size_t n = 0;

	for (int r = 0; r < rounds->n; r++) {
		const int partner = bb_rounds_partner(rounds, r, node);
		const size_t before = n;

		if (partner == BB_NOBODY || blocks->of[partner] < 0)
			continue;
		collect_meeting(v, r, node, partner, values, &n);
		for (size_t i = before; i < n; i++)
			values[i] -= blocks->level[blocks->of[partner]][block];
	}
	middle = bb_low_median(values, n);
	for (size_t i = 0; i < n; i++)
		sum += fabs(values[i] - middle);
	return n > 0 ? sum / (double)n : INFINITY;
}

/* Assign the nodes that no fast pair joined. A slow node is fast with nobody. In a sample a node
   may not have met its own block, so that one more block, of which no two nodes met, is a choice
   too. TYPICAL: the level between blocks. */
static void place_others(struct bb_block_map *blocks, const struct bb_view *v, double typical,
			 struct node_sets *sets)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const bool sample = rounds->n < bb_circle_rounds(rounds->nodes);
	const int choices = blocks->n + (sample && blocks->n > 0 && blocks->n < BB_MOST_BLOCKS);
	bool elsewhere = false;

	for (int p = 0; p < blocks->n && choices > blocks->n; p++)
		blocks->level[p][blocks->n] = typical;
	for (int i = 0; i < rounds->nodes; i++) {
		double least = INFINITY;

		sets->of[i].block = blocks->of[i];
		for (int p = 0; p < choices && blocks->of[i] < 0; p++) {
			const double d = deviation_of(blocks, v, i, p, sets->values);

			sets->of[i].block = d < least ? p : sets->of[i].block;
			least = fmin(least, d);
		}
	}
	for (int i = 0; i < rounds->nodes; i++) {
		const int block = sets->of[i].block;

		if (blocks->of[i] < 0 && block >= 0)
			blocks->size[block]++;
		elsewhere |= block == blocks->n;
		blocks->of[i] = block;
	}
	if (elsewhere && choices > blocks->n) {
		blocks->n = choices;
		settle_levels(blocks, v, sets->values);
	}
}

bb_status bb_block_map_find(struct bb_block_map *blocks, const struct bb_view *view)
{
	const struct bb_rounds *rounds = view->measured.rounds;
	const size_t nodes = (size_t)rounds->nodes, met = (size_t)rounds->n * nodes;
	struct node_sets sets = {
		.nodes = rounds->nodes,
		.of = malloc(nodes * sizeof(*sets.of)),
		.met = calloc(met + 1, 1),
		.pairs = malloc((met + 1) * sizeof(struct pair)),
		.values = malloc((met * (size_t)view->measured.rails + 1) * sizeof(double))};
	bb_status status = BB_EINTERNAL;

	blocks->of = malloc(nodes * sizeof(*blocks->of));
	if (!blocks->of || !sets.of || !sets.met || !sets.pairs || !sets.values)
		goto out;
	for (int i = 0; i < rounds->nodes; i++) {
		sets.of[i] = (struct member){.set = i, .next = i, .size = 1};
		blocks->of[i] = -1;
	}
	if (rounds->n <= MOST_ROUNDS)
		join_fast_pairs(&sets, view);
	/* The sets are blocks, the largest first. */
	for (; blocks->n < BB_MOST_BLOCKS; blocks->n++) {
		int largest = -1;

		for (int i = 0; i < rounds->nodes; i++)
			if (sets.of[i].set == i && blocks->of[i] < 0 &&
			    sets.of[i].size >= LEAST_NODES &&
			    (largest < 0 || sets.of[i].size > sets.of[largest].size))
				largest = i;
		if (largest < 0)
			break;
		blocks->size[blocks->n] = sets.of[largest].size;
		for (int i = 0; i < rounds->nodes; i++)
			if (sets.of[i].set == largest)
				blocks->of[i] = blocks->n;
	}
	if (blocks->n < 2)
		blocks->n = 0;
	place_others(blocks, view, settle_levels(blocks, view, sets.values), &sets);
	status = BB_OK;
out:
	free(sets.of);
	free(sets.met);
	free(sets.pairs);
	free(sets.values);
	return status;
}

void bb_block_map_apply(const struct bb_block_map *blocks, const struct bb_quantity *m)
{
	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT;
	     blocks->n > 0 && bb_quantity_next(m, &at);) {
		const int from = blocks->of[at.met.from], to = blocks->of[at.met.to];

		if (from >= 0 && to >= 0)
			m->log_s[bb_measured_place(m, at.met.round, at.met.to, at.rail)] -=
				(float)blocks->level[from][to];
	}
}
