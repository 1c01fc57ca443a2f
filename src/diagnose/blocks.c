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

/* ---- who is fast with whom ------------------------------------------------------------------ */

/* Two nodes that met, and the logarithm of their time above what is usual. */
struct pair {
	int a, b;
	double beyond;
};

/* Nodes that are joined. */
struct joining {
	int nodes;
	int *up;    /* [node]: towards the one that stands for all of them */
	int *next;  /* [node]: of those it is joined with, in a circle */
	int *size;  /* [the one that stands for all]: how many they are */
	int *first; /* [node]: where its pairs begin in OF; one more than there are nodes */
	int *of;    /* numbers of pairs */
	struct pair *pairs;
	size_t n, fast; /* pairs, by their time; those that are fast */
	double *values; /* room for all that was measured */
};

static void close_joining(struct joining *j)
{
	free(j->up);
	free(j->next);
	free(j->size);
	free(j->first);
	free(j->of);
	free(j->pairs);
	free(j->values);
}

static bool open_joining(struct joining *j, const struct bb_view *v)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const size_t nodes = (size_t)rounds->nodes, met = (size_t)rounds->n * nodes;

	*j = (struct joining){
		.nodes = rounds->nodes,
		.up = malloc(nodes * sizeof(int)),
		.next = malloc(nodes * sizeof(int)),
		.size = malloc(nodes * sizeof(int)),
		.first = calloc(nodes + 2, sizeof(int)),
		.of = malloc((met + 1) * sizeof(int)),
		.pairs = malloc((met + 1) * sizeof(struct pair)),
		.values = malloc((met * (size_t)v->measured.rails + 1) * sizeof(double))};
	if (!j->up || !j->next || !j->size || !j->first || !j->of || !j->pairs || !j->values)
		return false;
	for (int i = 0; i < rounds->nodes; i++) {
		j->up[i] = j->next[i] = i;
		j->size[i] = 1;
	}
	return true;
}

static int root_of(struct joining *j, int node)
{
	while (j->up[node] != node) {
		j->up[node] = j->up[j->up[node]];
		node = j->up[node];
	}
	return node;
}

static double beyond(const struct bb_view *v, int round, int to, int rail)
{
	return bb_measured_at(&v->measured, round, to, rail) - v->fit.base[rail];
}

/* Both directions between A and B in ROUND, over all rails, into VALUES. */
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

/* NODE and its partner in ROUND, in all the rounds in which they met. */
static double all_meetings(const struct bb_view *v, int round, int node, double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const int partner = bb_rounds_partner(rounds, round, node);
	size_t n = 0;

	for (int r = round; r < rounds->n; r++)
		if (bb_rounds_partner(rounds, r, node) == partner)
			collect_meeting(v, r, node, partner, values, &n);
	return bb_low_median(values, n);
}

static void list_pairs(struct joining *j, const struct bb_view *v)
{
	const struct bb_rounds *rounds = v->measured.rounds;

	for (struct bb_pairing m = BB_BEFORE_FIRST; bb_rounds_next(rounds, &m);) {
		struct pair p = {m.to, m.from, NAN};

		if (m.from <= m.to || met_before(rounds, m.round, m.to))
			continue; /* seen already */
		p.beyond = all_meetings(v, m.round, m.to, j->values);
		if (!isnan(p.beyond))
			j->pairs[j->n++] = p;
	}
}

/* The pairs of each node. */
static void sort_by_node(struct joining *j)
{
	for (size_t i = 0; i < j->n; i++) {
		j->first[j->pairs[i].a + 2]++;
		j->first[j->pairs[i].b + 2]++;
	}
	for (int i = 2; i < j->nodes + 2; i++)
		j->first[i] += j->first[i - 1];
	for (size_t i = 0; i < j->n; i++) {
		j->of[j->first[j->pairs[i].a + 1]++] = (int)i;
		j->of[j->first[j->pairs[i].b + 1]++] = (int)i;
	}
}

static int by_time(const void *a, const void *b)
{
	const double x = ((const struct pair *)a)->beyond, y = ((const struct pair *)b)->beyond;

	return (x > y) - (x < y);
}

/* Is half of the pairs between those joined with A, who are no more, and those with B fast? One
   may be so by chance. */
static bool belong_together(struct joining *j, int a, int b)
{
	int met = 0, good = 0, node = a;

	do {
		for (int i = j->first[node]; i < j->first[node + 1]; i++) {
			const struct pair *p = &j->pairs[j->of[i]];

			if (root_of(j, p->a == node ? p->b : p->a) != b)
				continue;
			met++;
			good += (size_t)j->of[i] < j->fast;
		}
		node = j->next[node];
	} while (node != a);
	return 2 * good >= met;
}

static void join(struct joining *j, int a, int b)
{
	const int after = j->next[a];

	j->next[a] = j->next[b];
	j->next[b] = after;
	j->up[a] = b;
	j->size[b] += j->size[a];
}

/* Fast are those that are clearly not slow beside the fastest quarter of the pairs; the fastest of
   all are joined first. */
static void join_fast(struct joining *j, const struct bb_view *v)
{
	double usual;

	list_pairs(j, v);
	if (j->n == 0)
		return;
	qsort(j->pairs, j->n, sizeof(*j->pairs), by_time);
	sort_by_node(j);
	usual = j->pairs[(size_t)(FASTEST * (double)(j->n - 1))].beyond;
	while (j->fast < j->n && j->pairs[j->fast].beyond - usual <= CLEARLY_FAST * v->limit)
		j->fast++;
	for (size_t i = 0; i < j->fast; i++) {
		const int a = root_of(j, j->pairs[i].a), b = root_of(j, j->pairs[i].b);
		const bool less = j->size[a] < j->size[b];

		if (a != b && belong_together(j, less ? a : b, less ? b : a))
			join(j, less ? a : b, less ? b : a);
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

/* GROUPS: room for one of each node. */
static void number_blocks(struct bb_block_map *blocks, struct joining *j, struct group *groups)
{
	const int nodes = j->nodes;

	for (int i = 0; i < nodes; i++)
		groups[i] = (struct group){i, root_of(j, i) == i ? j->size[i] : 0};
	qsort(groups, (size_t)nodes, sizeof(*groups), by_size);
	for (int i = 0; i < nodes; i++)
		blocks->of[i] = -1;
	for (int p = 0; p < BB_MOST_BLOCKS && p < nodes && groups[p].size >= LEAST_NODES; p++) {
		blocks->size[blocks->n++] = groups[p].size;
		for (int i = 0; i < nodes; i++)
			if (root_of(j, i) == groups[p].root)
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
	double between[BB_MOST_BLOCKS * BB_MOST_BLOCKS], usual;
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
	usual = n > 0 ? bb_low_median(between, n) : 0;
	for (int from = 0; from < blocks->n; from++)
		for (int to = 0; to < blocks->n; to++)
			if (isnan(blocks->level[from][to]))
				blocks->level[from][to] = usual;
	return usual;
}

/* How much the paths of NODE differ from those of a node of BLOCK, but for a factor: the mean
   distance from their median. INFINITY if NODE met nobody. */
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

/* The block whose paths are most like those of NODE, but for a factor. CHOICES: of so many. Returns
   -1 if NODE met nobody. */
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

/* Who is slow is fast with nobody, and in a sample a node may not have met those of its block:
   these may be of another block, of which nobody met. USUAL: between blocks. CHOSEN: room for one
   of each node. */
static void place_others(struct bb_block_map *blocks, const struct bb_view *v, double usual,
			 int *chosen, double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const bool sample = rounds->n < bb_circle_rounds(rounds->nodes);
	const int choices = blocks->n + (sample && blocks->n > 0 && blocks->n < BB_MOST_BLOCKS);
	int elsewhere = 0;

	for (int p = 0; p < blocks->n && choices > blocks->n; p++)
		blocks->level[p][blocks->n] = usual;
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
	struct joining j = {.nodes = 0};
	bb_status status = BB_EINTERNAL;

	blocks->of = malloc(nodes * sizeof(*blocks->of));
	if (!groups || !blocks->of || !open_joining(&j, view))
		goto out;
	if (rounds->n <= MOST_ROUNDS)
		join_fast(&j, view);
	number_blocks(blocks, &j, groups);
	place_others(blocks, view, settle_levels(blocks, view, j.values), j.size, j.values);
	status = BB_OK;
out:
	close_joining(&j);
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
