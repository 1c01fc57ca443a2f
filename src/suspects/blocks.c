#include "suspects/blocks.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_NODES 2    /* of a block */
#define CLEARLY_FAST 0.5 /* of the limit */
#define FASTEST 0.25
#define MOST_ROUNDS 1024 /* beyond them the search takes longer than the measuring */

void bb_block_map_free(struct bb_block_map *blocks)
{
	free(blocks->of);
	memset(blocks, 0, sizeof(*blocks));
}

/* ---- sets of nodes that are fast with each other -------------------------------------------- */

/* Two nodes that met. */
struct pair {
	int round; /* the first time */
	int a, b;
	double beyond; /* logarithm of their time over the typical time */
};

/* Disjoint sets of nodes, and the pairs by which they are joined. */
struct node_sets {
	int nodes;
	int *up;   /* [node]: its parent; a root is its own */
	int *next; /* [node]: the next of its set, in a circle */
	int *size; /* [root]: nodes of its set */
	struct pair *pairs;
	size_t n, fast;     /* pairs, sorted by time; the first of them that are fast */
	unsigned char *met; /* [round * nodes + node]: 1: its first meeting there; 2: fast */
	double *values;     /* room for all measurements */
};

static int root_of(struct node_sets *sets, int node)
{
	while (sets->up[node] != node) {
		sets->up[node] = sets->up[sets->up[node]];
		node = sets->up[node];
	}
	return node;
}

/* Append both directions between A and B in ROUND, over all rails, to VALUES. */
static void collect_meeting(const struct bb_view *v, int round, int a, int b, double *values,
			    size_t *n)
{
	for (int k = 0; k < v->measured.rails; k++) {
		const double there = bb_measured_at(&v->measured, round, b, k) - v->fit.base[k];
		const double back = bb_measured_at(&v->measured, round, a, k) - v->fit.base[k];

		if (!isnan(there))
			values[(*n)++] = there;
		if (!isnan(back))
			values[(*n)++] = back;
	}
}

static int by_time(const void *a, const void *b)
{
	const double x = ((const struct pair *)a)->beyond, y = ((const struct pair *)b)->beyond;

	return (x > y) - (x < y);
}

/* Fill PAIRS with the median over all rounds in which two nodes met. */
static void list_pairs(struct node_sets *sets, const struct bb_view *v)
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
	qsort(sets->pairs, sets->n, sizeof(*sets->pairs), by_time);
}

/* Are at least half of the pairs between the set of A, which is not the larger, and that of B fast?
   A single one may be fast by chance. */
static bool belong_together(struct node_sets *sets, const struct bb_rounds *rounds, int a, int b)
{
	int met = 0, good = 0, node = a;

	do {
		for (int r = 0; r < rounds->n; r++) {
			const int first = sets->met[r * sets->nodes + node];

			if (first == 0 || root_of(sets, bb_rounds_partner(rounds, r, node)) != b)
				continue;
			met++;
			good += first == 2;
		}
		node = sets->next[node];
	} while (node != a);
	return 2 * good >= met;
}

/* Join the nodes of fast pairs, the fastest first. A pair is fast if it is clearly not slow beside
   the fastest quarter of all pairs. */
static void join_fast_pairs(struct node_sets *sets, const struct bb_view *v)
{
	double typical;

	list_pairs(sets, v);
	if (sets->n == 0)
		return;
	typical = sets->pairs[(size_t)(FASTEST * (double)(sets->n - 1))].beyond;
	while (sets->fast < sets->n &&
	       sets->pairs[sets->fast].beyond - typical <= CLEARLY_FAST * v->limit)
		sets->fast++;
	for (size_t i = 0; i < sets->n; i++) {
		const struct pair *p = &sets->pairs[i];

		sets->met[p->round * sets->nodes + p->a] = i < sets->fast ? 2 : 1;
		sets->met[p->round * sets->nodes + p->b] = i < sets->fast ? 2 : 1;
	}
	for (size_t i = 0; i < sets->fast; i++) {
		int a = root_of(sets, sets->pairs[i].a), b = root_of(sets, sets->pairs[i].b), next;

		if (sets->size[a] >= sets->size[b]) {
			next = a;
			a = b;
			b = next;
		}
		if (a == b || !belong_together(sets, v->measured.rounds, a, b))
			continue;
		next = sets->next[a];
		sets->next[a] = sets->next[b];
		sets->next[b] = next;
		sets->up[a] = b;
		sets->size[b] += sets->size[a];
	}
}

/* ---- the blocks ------------------------------------------------------------------------------ */

struct group {
	int root, size;
};

static int by_size(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return x->size != y->size ? y->size - x->size : x->root - y->root;
}

/* Number the sets as blocks, the largest first. GROUPS: room for one per node. */
static void number_blocks(struct bb_block_map *blocks, struct node_sets *sets, struct group *groups)
{
	const int nodes = sets->nodes;

	for (int i = 0; i < nodes; i++)
		groups[i] = (struct group){i, root_of(sets, i) == i ? sets->size[i] : 0};
	qsort(groups, (size_t)nodes, sizeof(*groups), by_size);
	for (int i = 0; i < nodes; i++)
		blocks->of[i] = -1;
	for (int p = 0; p < BB_MOST_BLOCKS && p < nodes && groups[p].size >= LEAST_NODES; p++) {
		blocks->size[blocks->n++] = groups[p].size;
		for (int i = 0; i < nodes; i++)
			if (root_of(sets, i) == groups[p].root)
				blocks->of[i] = p;
	}
	if (blocks->n < 2)
		blocks->n = 0;
}

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
					values[met++] = at.log_s - v->fit.base[at.rail];
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
   too. TYPICAL: the level between blocks. CHOSEN: room for one value per node. */
static void place_others(struct bb_block_map *blocks, const struct bb_view *v, double typical,
			 int *chosen, double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const bool sample = rounds->n < bb_circle_rounds(rounds->nodes);
	const int choices = blocks->n + (sample && blocks->n > 0 && blocks->n < BB_MOST_BLOCKS);
	int elsewhere = 0;

	for (int p = 0; p < blocks->n && choices > blocks->n; p++)
		blocks->level[p][blocks->n] = typical;
	for (int i = 0; i < rounds->nodes; i++) {
		double least = INFINITY, d;

		chosen[i] = blocks->of[i];
		for (int p = 0; p < choices && blocks->of[i] < 0; p++) {
			d = deviation_of(blocks, v, i, p, values);
			if (d < least) {
				least = d;
				chosen[i] = p;
			}
		}
	}
	for (int i = 0; i < rounds->nodes; i++) {
		if (blocks->of[i] < 0 && chosen[i] >= 0)
			blocks->size[chosen[i]]++;
		elsewhere += chosen[i] == blocks->n;
		blocks->of[i] = chosen[i];
	}
	if (elsewhere > 0 && choices > blocks->n) {
		blocks->n = choices;
		settle_levels(blocks, v, values);
	}
}

bb_status bb_block_map_find(struct bb_block_map *blocks, const struct bb_view *view)
{
	const struct bb_rounds *rounds = view->measured.rounds;
	const size_t nodes = (size_t)rounds->nodes, met = (size_t)rounds->n * nodes;
	struct group *groups = malloc(nodes * sizeof(*groups));
	struct node_sets sets = {
		.nodes = rounds->nodes,
		.up = malloc(nodes * sizeof(int)),
		.next = malloc(nodes * sizeof(int)),
		.size = malloc(nodes * sizeof(int)),
		.met = calloc(met + 1, 1),
		.pairs = malloc((met + 1) * sizeof(struct pair)),
		.values = malloc((met * (size_t)view->measured.rails + 1) * sizeof(double))};
	bb_status status = BB_EINTERNAL;

	blocks->of = malloc(nodes * sizeof(*blocks->of));
	if (!groups || !blocks->of || !sets.up || !sets.next || !sets.size || !sets.met ||
	    !sets.pairs || !sets.values)
		goto out;
	for (int i = 0; i < rounds->nodes; i++) {
		sets.up[i] = sets.next[i] = i;
		sets.size[i] = 1;
	}
	if (rounds->n <= MOST_ROUNDS)
		join_fast_pairs(&sets, view);
	number_blocks(blocks, &sets, groups);
	place_others(blocks, view, settle_levels(blocks, view, sets.values), sets.size,
		     sets.values);
	status = BB_OK;
out:
	free(sets.up);
	free(sets.next);
	free(sets.size);
	free(sets.met);
	free(sets.pairs);
	free(sets.values);
	free(groups);
	return status;
}

void bb_block_map_apply(const struct bb_block_map *blocks, const struct bb_quantity *m,
			float *log_s)
{
	for (struct bb_measurement at = BB_BEFORE_MEASUREMENT;
	     blocks->n > 0 && bb_quantity_next(m, &at);) {
		const int from = blocks->of[at.met.from], to = blocks->of[at.met.to];

		if (from >= 0 && to >= 0)
			log_s[bb_measured_place(m, at.met.round, at.met.to, at.rail)] -=
				(float)blocks->level[from][to];
	}
}
