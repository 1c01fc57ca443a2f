#include "diagnose/parts.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_NODES 2    /* of a part */
#define CLEARLY_FAST 0.5 /* of the limit */
#define FASTEST 0.25
#define MOST_ROUNDS 1024 /* beyond them the search takes longer than the measuring */

void bb_parts_free(struct bb_parts *parts)
{
	free(parts->of);
	memset(parts, 0, sizeof(*parts));
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
	int *up;    /* [node]: on the way to the one that stands for all of them */
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

/* Both ways between A and B in ROUND, over all rails, into VALUES. */
static void take_meeting(const struct bb_view *v, int round, int a, int b, double *values,
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
			take_meeting(v, r, node, partner, values, &n);
	return bb_low_median(values, n);
}

static void list_pairs(struct joining *j, const struct bb_view *v)
{
	const struct bb_rounds *rounds = v->measured.rounds;

	for (int r = 0; r < rounds->n; r++)
		for (int i = 0; i < rounds->nodes; i++) {
			const int partner = bb_rounds_partner(rounds, r, i);
			struct pair p = {i, partner, NAN};

			if (partner <= i || met_before(rounds, r, i))
				continue; /* nobody, or seen already */
			p.beyond = all_meetings(v, r, i, j->values);
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

/* ---- the parts ------------------------------------------------------------------------------ */

struct group {
	int root, size;
};

static int by_size(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return x->size != y->size ? y->size - x->size : x->root - y->root;
}

/* GROUPS: room for one of each node. */
static void number_parts(struct bb_parts *parts, struct joining *j, struct group *groups)
{
	const int nodes = j->nodes;

	for (int i = 0; i < nodes; i++)
		groups[i] = (struct group){i, root_of(j, i) == i ? j->size[i] : 0};
	qsort(groups, (size_t)nodes, sizeof(*groups), by_size);
	for (int i = 0; i < nodes; i++)
		parts->of[i] = -1;
	for (int p = 0; p < BB_MOST_PARTS && p < nodes && groups[p].size >= LEAST_NODES; p++) {
		parts->size[parts->n++] = groups[p].size;
		for (int i = 0; i < nodes; i++)
			if (root_of(j, i) == groups[p].root)
				parts->of[i] = p;
	}
	if (parts->n < 2)
		parts->n = 0;
}

static void settle_level(struct bb_parts *parts, const struct bb_view *v, int from, int to,
			 double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	size_t n = 0;

	for (int r = 0; r < rounds->n; r++)
		for (int i = 0; i < rounds->nodes; i++) {
			const int partner = bb_rounds_partner(rounds, r, i);

			if (partner == BB_NO_PEER || parts->of[partner] != from ||
			    parts->of[i] != to)
				continue;
			for (int k = 0; k < v->measured.rails; k++) {
				const double e = beyond(v, r, i, k);

				if (!isnan(e))
					values[n++] = e;
			}
		}
	parts->level[from][to] = n > 0 ? bb_low_median(values, n) : NAN;
}

/* What the ways between parts that never met take is what such ways usually do. Within a part they
   have a level of their own where it is beyond the noise. Returns what is usual between parts. */
static double settle_levels(struct bb_parts *parts, const struct bb_view *v, double *values)
{
	double between[BB_MOST_PARTS * BB_MOST_PARTS], usual;
	size_t n = 0;

	for (int from = 0; from < parts->n; from++)
		for (int to = 0; to < parts->n; to++) {
			double *level = &parts->level[from][to];

			settle_level(parts, v, from, to, values);
			if (from == to && !(fabs(*level) > v->limit))
				*level = 0;
			if (from != to && !isnan(*level))
				between[n++] = *level;
		}
	usual = n > 0 ? bb_low_median(between, n) : 0;
	for (int from = 0; from < parts->n; from++)
		for (int to = 0; to < parts->n; to++)
			if (isnan(parts->level[from][to]))
				parts->level[from][to] = usual;
	return usual;
}

/* How much the ways of NODE differ from those of a node of PART, but for a factor: the mean
   distance from their median. INFINITY if NODE met nobody. */
static double deviation_of(const struct bb_parts *parts, const struct bb_view *v, int node,
			   int part, double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	double middle, sum = 0;
	size_t n = 0;

	for (int r = 0; r < rounds->n; r++) {
		const int partner = bb_rounds_partner(rounds, r, node);
		const size_t before = n;

		if (partner == BB_NO_PEER || parts->of[partner] < 0)
			continue;
		take_meeting(v, r, node, partner, values, &n);
		for (size_t i = before; i < n; i++)
			values[i] -= parts->level[parts->of[partner]][part];
	}
	middle = bb_low_median(values, n);
	for (size_t i = 0; i < n; i++)
		sum += fabs(values[i] - middle);
	return n > 0 ? sum / (double)n : INFINITY;
}

/* The part whose ways are most like those of NODE, but for a factor. CHOICES: of so many. Returns
   -1 if NODE met nobody. */
static int most_like(const struct bb_parts *parts, const struct bb_view *v, int node, int choices,
		     double *values)
{
	double least = INFINITY;
	int best = -1;

	for (int p = 0; p < choices; p++) {
		const double d = deviation_of(parts, v, node, p, values);

		if (d < least) {
			least = d;
			best = p;
		}
	}
	return best;
}

/* Who is slow is fast with nobody, and in a sample a node may not have met those of its part: these
   may be of another part, of which nobody met. USUAL: between parts. CHOSEN: room for one of each
   node. */
static void place_others(struct bb_parts *parts, const struct bb_view *v, double usual, int *chosen,
			 double *values)
{
	const struct bb_rounds *rounds = v->measured.rounds;
	const bool sample = rounds->n < bb_circle_rounds(rounds->nodes);
	const int choices = parts->n + (sample && parts->n > 0 && parts->n < BB_MOST_PARTS);
	int elsewhere = 0;

	for (int p = 0; p < parts->n && choices > parts->n; p++)
		parts->level[p][parts->n] = usual;
	for (int i = 0; i < rounds->nodes; i++)
		chosen[i] =
			parts->of[i] >= 0 ? parts->of[i] : most_like(parts, v, i, choices, values);
	for (int i = 0; i < rounds->nodes; i++) {
		if (parts->of[i] < 0 && chosen[i] >= 0)
			parts->size[chosen[i]]++;
		elsewhere += chosen[i] == parts->n;
		parts->of[i] = chosen[i];
	}
	if (elsewhere > 0 && choices > parts->n) {
		parts->n = choices;
		settle_levels(parts, v, values);
	}
}

bb_status bb_parts_find(struct bb_parts *parts, const struct bb_view *view)
{
	const struct bb_rounds *rounds = view->measured.rounds;
	const size_t nodes = (size_t)rounds->nodes;
	struct group *groups = malloc(nodes * sizeof(*groups));
	struct joining j = {.nodes = 0};
	bb_status status = BB_EINTERNAL;

	parts->of = malloc(nodes * sizeof(*parts->of));
	if (!groups || !parts->of || !open_joining(&j, view))
		goto out;
	if (rounds->n <= MOST_ROUNDS)
		join_fast(&j, view);
	number_parts(parts, &j, groups);
	place_others(parts, view, settle_levels(parts, view, j.values), j.size, j.values);
	status = BB_OK;
out:
	close_joining(&j);
	free(groups);
	return status;
}

void bb_parts_apply(const struct bb_parts *parts, const struct bb_quantity *m, float *log_s)
{
	for (int r = 0; r < m->rounds->n && parts->n > 0; r++)
		for (int i = 0; i < m->rounds->nodes; i++) {
			const int partner = bb_rounds_partner(m->rounds, r, i);
			const size_t seat = ((size_t)r * (size_t)m->rounds->nodes + (size_t)i) *
					    (size_t)m->rails;

			if (partner == BB_NO_PEER || parts->of[partner] < 0 || parts->of[i] < 0)
				continue;
			for (int k = 0; k < m->rails; k++)
				log_s[seat + (size_t)k] -=
					(float)parts->level[parts->of[partner]][parts->of[i]];
		}
}
