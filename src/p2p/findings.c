#include "p2p/findings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOW 0.8       /* of what it is held against, at most */
#define SPREADS 4      /* usual spreads that it is behind, at least */
#define FAR_BELOW 0.5  /* of a bound */
#define LEAST_OTHERS 3 /* pairs that make a reference */
#define UPPER 0.75     /* quantile that a kind of path is scaled by */

/* What is known so far. */
struct court {
	const struct bb_pair_matrix *matrices;
	size_t n;
	struct bb_findings *found;
	bool *rank_done;  /* [rank]: its pairs are explained */
	bool *pair_done;  /* [from * nranks + to]: so is this pair */
	double *scratch;  /* 2 * most values of a matrix */
	double *relative; /* of the matrix at hand: scale of each value */
	double slow;      /* share of a reference below which a value is slow */
	int nranks;
};

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Quantile P of N values, which are sorted. */
static double quantile(double *values, size_t n, double p)
{
	const double at = p * (double)(n - 1);
	const size_t below = (size_t)at;

	qsort(values, n, sizeof(*values), compare);
	if (below + 1 >= n)
		return values[n - 1];
	return values[below] + (at - (double)below) * (values[below + 1] - values[below]);
}

static size_t count(const struct bb_pair_matrix *m)
{
	return (size_t)m->nranks * (size_t)m->nranks;
}

static bool is_like(const struct bb_pair_value *a, const struct bb_pair_value *b)
{
	return a->rounds > 0 && b->rounds > 0 && a->like == b->like;
}

static bool *pair_flag(const struct court *c, int from, int to)
{
	return &c->pair_done[(size_t)from * (size_t)c->nranks + (size_t)to];
}

static bool explained(const struct court *c, const struct bb_pair_matrix *m,
		      const struct bb_pair_value *v)
{
	return c->rank_done[v->from] || c->rank_done[v->to] || *pair_flag(c, v->from, v->to) ||
	       (m->both_ways && *pair_flag(c, v->to, v->from));
}

/* Below SHARE of REFERENCE, and not because of some of its rounds. */
static bool slower(const struct bb_pair_value *v, double reference, double share)
{
	return v->rounds >= BB_FINDING_ROUNDS && v->mid < share * reference &&
	       v->high < 0.5 * (1 + share) * reference;
}

static const struct bb_pair_value *value_of(const struct bb_pair_matrix *m, int from, int to)
{
	const struct bb_pair_value *v = &m->values[(size_t)from * (size_t)m->nranks + (size_t)to];

	return v->rounds > 0 ? v : NULL;
}

/* One cause is told once, where it shows most. */
static bb_status add(struct court *c, struct bb_finding f)
{
	struct bb_finding *list;

	for (size_t i = 0; i < c->found->n; i++) {
		struct bb_finding *old = &c->found->list[i];

		if (old->kind != f.kind || old->rank != f.rank || old->like != f.like ||
		    (f.like < 0 && (old->from != f.from || old->to != f.to)))
			continue;
		if (f.value / f.reference < old->value / old->reference)
			*old = f;
		return BB_OK;
	}
	list = realloc(c->found->list, (c->found->n + 1) * sizeof(*list));
	if (!list)
		return BB_EINTERNAL;
	c->found->list = list;
	list[c->found->n++] = f;
	return BB_OK;
}

/* ---- P2P slower than staged ---------------------------------------------------------------- */

/* The best of the routes that are DIRECT, or not; NULL: none leads there. */
static const struct bb_pair_value *best(const struct court *c, bool direct, int from, int to,
					size_t *matrix)
{
	const struct bb_pair_value *found = NULL;

	for (size_t k = 0; k < c->n; k++) {
		const struct bb_pair_matrix *m = &c->matrices[k];
		const struct bb_pair_value *v =
			m->direct == direct && !m->both_ways ? value_of(m, from, to) : NULL;

		if (v && (!found || v->mid > found->mid)) {
			found = v;
			*matrix = k;
		}
	}
	return found;
}

static bb_status find_slower_direct(struct court *c)
{
	bb_status status = BB_OK;

	for (int from = 0; from < c->nranks; from++)
		for (int to = 0; to < c->nranks && status == BB_OK; to++) {
			size_t matrix = 0, other = 0;
			const struct bb_pair_value *on = best(c, true, from, to, &matrix);
			const struct bb_pair_value *off = best(c, false, from, to, &other);

			if (from == to || !on || !off || off->rounds < BB_FINDING_ROUNDS ||
			    !slower(on, off->mid, c->slow))
				continue;
			*pair_flag(c, from, to) = true;
			status = add(c, (struct bb_finding){.kind = BB_FIND_SLOWER_DIRECT,
							    .matrix = matrix,
							    .rank = -1,
							    .like = -1,
							    .from = from,
							    .to = to,
							    .pairs = 1,
							    .value = on->mid,
							    .reference = off->mid});
		}
	return status;
}

/* ---- slow ranks ---------------------------------------------------------------------------- */

enum role { EITHER, SOURCE, TARGET };

static bool plays(const struct bb_pair_value *v, int rank, enum role role)
{
	return (role != TARGET && v->from == rank) || (role != SOURCE && v->to == rank);
}

/* What pairs of its kind can do, as quantile P says: few of them may be slow, or many. */
static void scale(struct court *c, const struct bb_pair_matrix *m, double p)
{
	for (size_t i = 0; i < count(m); i++) {
		size_t n = 0, k = 0;

		while (k < i && !is_like(&m->values[k], &m->values[i]))
			k++;
		if (k < i) {
			c->relative[i] = c->relative[k];
			continue;
		}
		for (k = i; k < count(m); k++)
			if (is_like(&m->values[k], &m->values[i]))
				c->scratch[n++] = m->values[k].mid;
		c->relative[i] = n > 0 ? quantile(c->scratch, n, p) : 1;
	}
}

/* Does RANK have pairs enough of one kind to speak of all of them, and the others to compare? Those
   with one peer alone are a pair. */
static bool are_enough(const struct bb_pair_matrix *m, const struct bb_finding *f, enum role role,
		       size_t own, size_t others)
{
	if (f->like < 0)
		return own >= 2 && others >= 2;
	return own >= (role == EITHER && !m->both_ways ? 4 : 2) && others >= LEAST_OTHERS;
}

/* Are all pairs of F's rank in ROLE, of F's kind if there is one, slower than those without it,
   each held against its kind? */
static bool is_slow(struct court *c, const struct bb_pair_matrix *m, enum role role,
		    struct bb_finding *f)
{
	double *mids = c->scratch, *mine = mids + count(m);
	double most = 0, highest = 0, usual;
	size_t others = 0, own = 0;

	for (size_t i = 0; i < count(m); i++) {
		const struct bb_pair_value *v = &m->values[i];

		if (*pair_flag(c, v->from, v->to) || v->rounds < BB_FINDING_ROUNDS ||
		    (f->like >= 0 && v->like != f->like))
			continue;
		if (plays(v, f->rank, role)) {
			most = fmax(most, v->mid / c->relative[i]);
			highest = fmax(highest, v->high / c->relative[i]);
			mine[own++] = v->mid;
		} else {
			mids[others++] = v->mid / c->relative[i];
		}
	}
	if (!are_enough(m, f, role, own, others))
		return false;
	usual = quantile(mids, others, 0.5);
	f->pairs = (int)own;
	f->value = quantile(mine, own, 0.5);
	f->reference = f->value / most * usual;
	return most < c->slow * usual && highest < 0.5 * (1 + c->slow) * usual;
}

/* All pairs of the rank, or those of the kind that it is slow in. */
static void explain_rank(struct court *c, const struct bb_finding *f)
{
	const struct bb_pair_matrix *m = &c->matrices[f->matrix];

	if (f->like < 0)
		c->rank_done[f->rank] = true;
	for (size_t i = 0; i < count(m) && f->like >= 0; i++) {
		const struct bb_pair_value *v = &m->values[i];

		if (v->rounds == 0 || v->like != f->like || !plays(v, f->rank, EITHER))
			continue;
		*pair_flag(c, v->from, v->to) = true;
		*pair_flag(c, v->to, v->from) = true;
	}
}

/* Is F's rank slow, in one role at least? */
static bool plays_slowly(struct court *c, const struct bb_pair_matrix *m, struct bb_finding *f)
{
	static const enum role roles[] = {EITHER, SOURCE, TARGET};

	/* Both ways at once each end is both. */
	for (int i = 0; i < (m->both_ways ? 1 : 3); i++)
		if (is_slow(c, m, roles[i], f))
			return true;
	return false;
}

/* A rank that is not slow everywhere may be so over one kind of path: its network card. */
static bb_status find_slow_kinds(struct court *c, struct bb_finding f)
{
	const struct bb_pair_matrix *m = &c->matrices[f.matrix];
	bb_status status = BB_OK;

	for (size_t i = 0; i < count(m) && status == BB_OK; i++) {
		const struct bb_pair_value *v = &m->values[i];
		bool first = v->rounds > 0 && plays(v, f.rank, EITHER);

		for (size_t k = 0; k < i && first; k++)
			first = !is_like(&m->values[k], v) || !plays(&m->values[k], f.rank, EITHER);
		f.like = v->like;
		f.from = v->from;
		f.to = v->to;
		if (first && plays_slowly(c, m, &f))
			status = add(c, f);
	}
	return status;
}

static bb_status find_slow_ranks(struct court *c)
{
	bb_status status = BB_OK;

	for (size_t k = 0; k < c->n; k++) {
		scale(c, &c->matrices[k], UPPER);
		for (int r = 0; r < c->nranks && status == BB_OK; r++) {
			struct bb_finding f = {.kind = BB_FIND_SLOW_RANK,
					       .matrix = k,
					       .rank = r,
					       .like = -1,
					       .from = -1,
					       .to = -1};

			if (plays_slowly(c, &c->matrices[k], &f))
				status = add(c, f);
			else
				status = find_slow_kinds(c, f);
		}
	}
	for (size_t i = 0; i < c->found->n; i++)
		if (c->found->list[i].kind == BB_FIND_SLOW_RANK)
			explain_rank(c, &c->found->list[i]);
	return status;
}

/* ---- slow pairs ---------------------------------------------------------------------------- */

static struct bb_finding of_pair(enum bb_finding_kind kind, size_t matrix,
				 const struct bb_pair_value *v, double reference)
{
	return (struct bb_finding){.kind = kind,
				   .matrix = matrix,
				   .rank = -1,
				   .like = -1,
				   .from = v->from,
				   .to = v->to,
				   .pairs = 1,
				   .value = v->mid,
				   .reference = reference};
}

static bb_status find_asymmetries(struct court *c, size_t matrix)
{
	const struct bb_pair_matrix *m = &c->matrices[matrix];
	bb_status status = BB_OK;

	for (size_t i = 0; i < count(m) && !m->both_ways && status == BB_OK; i++) {
		const struct bb_pair_value *v = &m->values[i];
		const struct bb_pair_value *back =
			v->rounds > 0 ? value_of(m, v->to, v->from) : NULL;

		if (!back || v->from == v->to || back->rounds < BB_FINDING_ROUNDS ||
		    explained(c, m, v) || !slower(v, back->mid, c->slow))
			continue;
		status = add(c, of_pair(BB_FIND_ASYMMETRY, matrix, v, back->mid));
	}
	return status;
}

/* Against the median of the other pairs of its kind that nothing is known about. */
static bool is_outlier(struct court *c, const struct bb_pair_matrix *m,
		       const struct bb_pair_value *v, double *reference)
{
	size_t n = 0;

	for (size_t k = 0; k < count(m); k++) {
		const struct bb_pair_value *o = &m->values[k];

		if (!is_like(o, v) || explained(c, m, o) ||
		    (o->from == v->from && o->to == v->to) ||
		    (o->from == v->to && o->to == v->from))
			continue;
		c->scratch[n++] = o->mid;
	}
	if (n < LEAST_OTHERS)
		return false;
	*reference = quantile(c->scratch, n, 0.5);
	return slower(v, *reference, c->slow);
}

static bb_status find_slow_pairs(struct court *c, size_t matrix)
{
	const struct bb_pair_matrix *m = &c->matrices[matrix];
	bb_status status = BB_OK;

	scale(c, m, 1);
	for (size_t i = 0; i < count(m) && status == BB_OK; i++) {
		const struct bb_pair_value *v = &m->values[i];
		struct bb_finding f;
		double reference;

		/* Most are as fast as the fastest: they are no outliers, and quickly known not to
		 * be. */
		if (v->rounds == 0 || v->mid >= c->slow * c->relative[i] || explained(c, m, v) ||
		    !is_outlier(c, m, v, &reference))
			continue;
		f = of_pair(BB_FIND_SLOW_PAIR, matrix, v, reference);
		if (f.from > f.to) { /* the pair, whichever way it was met first */
			f.from = v->to;
			f.to = v->from;
		}
		status = add(c, f);
	}
	return status;
}

/* What has been found explains the pair in other matrices too. */
static void explain(struct court *c, size_t since)
{
	for (size_t i = since; i < c->found->n; i++) {
		const struct bb_finding *f = &c->found->list[i];

		if (f->kind != BB_FIND_ASYMMETRY && f->kind != BB_FIND_SLOW_PAIR)
			continue;
		*pair_flag(c, f->from, f->to) = true;
		if (f->kind == BB_FIND_SLOW_PAIR)
			*pair_flag(c, f->to, f->from) = true;
	}
}

/* One finding for all pairs of one kind of path. */
static bb_status find_below_bound(struct court *c, size_t matrix)
{
	const struct bb_pair_matrix *m = &c->matrices[matrix];
	bb_status status = BB_OK;

	for (size_t i = 0; i < count(m) && status == BB_OK; i++) {
		struct bb_finding f = {.pairs = 0};
		bool first = true;

		for (size_t k = 0; k < count(m); k++) {
			const struct bb_pair_value *v = &m->values[k];
			const int pairs = f.pairs;

			if (!is_like(v, &m->values[i]) || explained(c, m, v) || v->bound <= 0 ||
			    !slower(v, v->bound, FAR_BELOW))
				continue;
			if (pairs == 0 || v->mid / v->bound < f.value / f.reference)
				f = of_pair(BB_FIND_BELOW_BOUND, matrix, v, v->bound);
			f.pairs = pairs + 1;
			f.like = v->like;
		}
		/* Once for its kind, when its first pair comes by. */
		for (size_t k = 0; k < i; k++)
			first = first && !is_like(&m->values[k], &m->values[i]);
		if (f.pairs > 0 && first)
			status = add(c, f);
	}
	return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/*
 * Two ranks: a slow one acts as the target over one route and as the source over another, and looks
 * like a slow link this way here and that way there. Then it is the rank.
 */
static void join_contrary(struct court *c)
{
	struct bb_finding *list = c->found->list;

	for (size_t i = 0; i < c->found->n; i++)
		for (size_t k = 0; k < c->found->n; k++) {
			struct bb_finding *a = &list[i], *b = &list[k];

			if (a->kind != BB_FIND_ASYMMETRY || b->kind != BB_FIND_ASYMMETRY ||
			    a->from != b->to || a->to != b->from ||
			    !c->matrices[a->matrix].by_target || !c->matrices[b->matrix].by_source)
				continue;
			a->kind = BB_FIND_SLOW_RANK;
			a->rank = a->to;
			a->pairs = 2;
			c->rank_done[a->rank] = true;
			a->from = a->to = -1;
			memmove(b, b + 1, (c->found->n - k - 1) * sizeof(*b));
			c->found->n--;
			return;
		}
}

/* The usual spread between the quartiles of a value's rounds says what slow means. */
static bb_status measure_spread(struct court *c)
{
	size_t n = 0, all = 1;
	double *spreads, spread = 0;

	for (size_t k = 0; k < c->n; k++)
		all += count(&c->matrices[k]);
	spreads = calloc(all, sizeof(*spreads));
	if (!spreads)
		return BB_EINTERNAL;
	for (size_t k = 0; k < c->n; k++)
		for (size_t i = 0; i < count(&c->matrices[k]); i++) {
			const struct bb_pair_value *v = &c->matrices[k].values[i];

			if (v->rounds > 0 && v->mid > 0)
				spreads[n++] = (v->high - v->low) / v->mid;
		}
	if (n > 0)
		spread = quantile(spreads, n, 0.5);
	free(spreads);
	c->slow = fmin(SLOW, 1 - SPREADS * spread);
	return BB_OK;
}

static bb_status judge(struct court *c)
{
	size_t since;
	bb_status status;

	BB_TRY(status, measure_spread(c), out);
	BB_TRY(status, find_slower_direct(c), out);
	BB_TRY(status, find_slow_ranks(c), out);
	since = c->found->n;
	for (size_t k = 0; k < c->n; k++)
		BB_TRY(status, find_asymmetries(c, k), out);
	join_contrary(c);
	explain(c, since);
	for (int both = 0; both < 2; both++) {
		since = c->found->n;
		for (size_t k = 0; k < c->n; k++)
			if (c->matrices[k].both_ways == (both == 1))
				BB_TRY(status, find_slow_pairs(c, k), out);
		explain(c, since);
	}
	for (size_t k = 0; k < c->n; k++)
		BB_TRY(status, find_below_bound(c, k), out);
out:
	return status;
}

bb_status bb_findings_make(struct bb_findings *found, const struct bb_pair_matrix *matrices,
			   size_t n)
{
	struct court c = {.matrices = matrices, .n = n, .found = found};
	size_t most = 1, ranks;
	bb_status status = BB_EINTERNAL;

	*found = (struct bb_findings){.list = NULL};
	for (size_t k = 0; k < n; k++) {
		most = count(&matrices[k]) > most ? count(&matrices[k]) : most;
		c.nranks = matrices[k].nranks > c.nranks ? matrices[k].nranks : c.nranks;
	}
	ranks = (size_t)c.nranks + 1;
	c.rank_done = calloc(ranks, sizeof(*c.rank_done));
	c.pair_done = calloc(ranks * ranks, sizeof(*c.pair_done));
	c.scratch = calloc(2 * most, sizeof(*c.scratch));
	c.relative = calloc(most, sizeof(*c.relative));
	if (c.rank_done && c.pair_done && c.scratch && c.relative)
		status = judge(&c);
	free(c.rank_done);
	free(c.pair_done);
	free(c.scratch);
	free(c.relative);
	return status;
}

void bb_findings_free(struct bb_findings *found)
{
	free(found->list);
	*found = (struct bb_findings){.list = NULL};
}
