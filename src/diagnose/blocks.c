#include "diagnose/blocks.h"

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
	int a, b;
	double beyond; /* logarithm of their time over the typical time */
};

/* Disjoint sets of nodes, and the pairs by which they are joined. */
struct node_sets {
	int nodes;
	int *up;    /* [node]: its parent; a root is its own */
	int *next;  /* [node]: the next of its set, in a circle */
	int *size;  /* [root]: nodes of its set */
	int *first; /* [node]: index in OF of its first pair; [nodes]: the end */
	int *of;    /* indices of pairs, node by node */
	struct pair *pairs;
	size_t n, fast; /* pairs, sorted by time; the first of them that are fast */
	double *values; /* room for all measurements */
};

static void node_sets_close(struct node_sets *sets)
{
	free(sets->up);
	free(sets->next);
	free(sets->size);
	free(sets->first);
	free(sets->of);
	free(sets->pairs);
	free(sets->values);
}

static bool node_sets_open(struct node_sets *sets, const struct bb_view *v)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const size_t nodes = (size_t)rounds->nodes, met = (size_t)rounds->n * nodes;

	*sets = (struct node_sets){
		.nodes = rounds->nodes,
		.up = malloc(nodes * sizeof(int)),
		.next = malloc(nodes * sizeof(int)),
		.size = malloc(nodes * sizeof(int)),
		.first = calloc(nodes + 2, sizeof(int)),
		.of = malloc((met + 1) * sizeof(int)),
		.pairs = malloc((met + 1) * sizeof(struct pair)),
		.values = malloc((met * (size_t)v->measured.rails + 1) * sizeof(double))};
	if (!sets->up || !sets->next || !sets->size || !sets->first || !sets->of || !sets->pairs ||
	    !sets->values)
		return false;
	for (int i = 0; i < rounds->nodes; i++) {
		sets->up[i] = sets->next[i] = i;
		sets->size[i] = 1;
	}
	return true;
}

static int root_of(struct node_sets *sets, int node)
{
	while (sets->up[node] != node) {
		sets->up[node] = sets->up[sets->up[node]];
		node = sets->up[node];
	}
	return node;
}

static double beyond(const struct bb_view *v, int round, int to, int rail)
{
	return bb_measured_at(&v->measured, round, to, rail) - v->fit.base[rail];
}

/* Append both directions between A and B in ROUND, over all rails, to VALUES. */
static void collect_meeting(const struct bb_view *v, int round, int a, int b, double *values,
			    size_t *n)
{
	for (int k = 0; k < v->measured.rails; k++) {
		const double there = beyond(v, round, b, k), back = beyond(v, round, a, k);

		if (!isnan(there))
			values[(*n)++] = there;
		if (!isnan(back))
			values[(*n)++] = back;
	}
}

static bool met_before(const struct bb_rounds *rounds, int round, int node)
{
	const int partner = bb_rounds_partner(rounds, round, node);

	for (int r = 0; r < round; r++)
		if (bb_rounds_partner(rounds, r, node) == partner)
			return true;
	return false;
}

/* Returns the median over all rounds in which NODE met its partner of ROUND, its first. */
static double median_of_meetings(const struct bb_view *v, int round, int node, double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const int partner = bb_rounds_partner(rounds, round, node);
	size_t n = 0;

	for (int r = round; r < rounds->n; r++)
		if (bb_rounds_partner(rounds, r, node) == partner)
			collect_meeting(v, r, node, partner, values, &n);
	return bb_low_median(values, n);
}

static void list_pairs(struct node_sets *sets, const struct bb_view *v)
{
	const struct bb_rounds *rounds = v->measured.rounds;

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(rounds, &m);) {
		struct pair p = {m.to, m.from, NAN};

		if (m.from <= m.to || met_before(rounds, m.round, m.to))
			continue; /* seen already */
		p.beyond = median_of_meetings(v, m.round, m.to, sets->values);
		if (!isnan(p.beyond))
			sets->pairs[sets->n++] = p;
	}
}

/* Fill FIRST and OF. */
static void sort_by_node(struct node_sets *sets)
{
	for (size_t i = 0; i < sets->n; i++) {
		sets->first[sets->pairs[i].a + 2]++;
		sets->first[sets->pairs[i].b + 2]++;
	}
	for (int i = 2; i < sets->nodes + 2; i++)
		sets->first[i] += sets->first[i - 1];
	for (size_t i = 0; i < sets->n; i++) {
		sets->of[sets->first[sets->pairs[i].a + 1]++] = (int)i;
		sets->of[sets->first[sets->pairs[i].b + 1]++] = (int)i;
	}
}

static int by_time(const void *a, const void *b)
{
	const double x = ((const struct pair *)a)->beyond, y = ((const struct pair *)b)->beyond;

	return (x > y) - (x < y);
}

/* Are at least half of the pairs between the set of A, which is not the larger, and that of B fast?
   A single one may be fast by chance. */
static bool belong_together(struct node_sets *sets, int a, int b)
{
	int met = 0, good = 0, node = a;

	do {
		for (int i = sets->first[node]; i < sets->first[node + 1]; i++) {
			const struct pair *p = &sets->pairs[sets->of[i]];

			if (root_of(sets, p->a == node ? p->b : p->a) != b)
				continue;
			met++;
			good += (size_t)sets->of[i] < sets->fast;
		}
		node = sets->next[node];
	} while (node != a);
	return 2 * good >= met;
}

static void join(struct node_sets *sets, int a, int b)
{
	const int after = sets->next[a];

	sets->next[a] = sets->next[b];
	sets->next[b] = after;
	sets->up[a] = b;
	sets->size[b] += sets->size[a];
}

/* Join the nodes of fast pairs, the fastest first. A pair is fast if it is clearly not slow beside
   the fastest quarter of all pairs. */
static void join_fast_pairs(struct node_sets *sets, const struct bb_view *v)
{
	double typical;

	list_pairs(sets, v);
	if (sets->n == 0)
		return;
	qsort(sets->pairs, sets->n, sizeof(*sets->pairs), by_time);
	sort_by_node(sets);
	typical = sets->pairs[(size_t)(FASTEST * (double)(sets->n - 1))].beyond;
	while (sets->fast < sets->n &&
	       sets->pairs[sets->fast].beyond - typical <= CLEARLY_FAST * v->limit)
		sets->fast++;
	for (size_t i = 0; i < sets->fast; i++) {
		const int a = root_of(sets, sets->pairs[i].a), b = root_of(sets, sets->pairs[i].b);
		const bool less = sets->size[a] < sets->size[b];

		if (a != b && belong_together(sets, less ? a : b, less ? b : a))
			join(sets, less ? a : b, less ? b : a);
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

static void settle_level(struct bb_block_map *blocks, const struct bb_view *v, int from, int to,
			 double *values)
{
	size_t n = 0;

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(v->measured.rounds, &m);)
		for (int k = 0; k < v->measured.rails; k++) {
			const double e = beyond(v, m.round, m.to, k);

			if (blocks->of[m.from] == from && blocks->of[m.to] == to && !isnan(e))
				values[n++] = e;
		}
	blocks->level[from][to] = n > 0 ? bb_low_median(values, n) : NAN;
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

			settle_level(blocks, v, from, to, values);
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

		if (partner == BB_NO_PEER || blocks->of[partner] < 0)
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

/* Returns the one of the first CHOICES blocks whose levels explain the times of NODE best; -1 if
   NODE met nobody. */
static int most_like(const struct bb_block_map *blocks, const struct bb_view *v, int node,
		     int choices, double *values)
{
	double least = INFINITY;
	int best = -1;

	for (int p = 0; p < choices; p++) {
		const double d = deviation_of(blocks, v, node, p, values);

		if (d < least) {
			least = d;
			best = p;
		}
	}
	return best;
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
	for (int i = 0; i < rounds->nodes; i++)
		chosen[i] = blocks->of[i] >= 0 ? blocks->of[i]
					       : most_like(blocks, v, i, choices, values);
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
	const size_t nodes = (size_t)rounds->nodes;
	struct group *groups = malloc(nodes * sizeof(*groups));
	struct node_sets sets = {.nodes = 0};
	bb_status status = BB_EINTERNAL;

	blocks->of = malloc(nodes * sizeof(*blocks->of));
	if (!groups || !blocks->of || !node_sets_open(&sets, view))
		goto out;
	if (rounds->n <= MOST_ROUNDS)
		join_fast_pairs(&sets, view);
	number_blocks(blocks, &sets, groups);
	place_others(blocks, view, settle_levels(blocks, view, sets.values), sets.size,
		     sets.values);
	status = BB_OK;
out:
	node_sets_close(&sets);
	free(groups);
	return status;
}

static double distance_between(const void *own, int from, int to)
{
	const struct bb_block_map *blocks = own;

	if (blocks->of[from] < 0 || blocks->of[to] < 0)
		return 0;
	return blocks->level[blocks->of[from]][blocks->of[to]];
}

void bb_block_map_apply(const struct bb_block_map *blocks, const struct bb_quantity *m,
			float *log_s)
{
	if (blocks->n > 0)
		bb_quantity_subtract(m, log_s, distance_between, blocks);
}
