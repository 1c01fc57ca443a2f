#include "suspects/findings.h"

#include "core/array.h"
#include "suspects/retest.h"
#include "core/stats.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOW (1 / BB_SLOW_PAIR)
#define FAR_BELOW 0.5  /* of a bound */
#define LEAST_OTHERS 3 /* pairs that make a reference */
#define UPPER 0.75     /* quantile that a kind of path is scaled by */

/* The state of a judgement. */
struct judgement {
	const struct bb_pair_matrix *matrices;
	size_t n;
	struct bb_findings *found;
	bool *rank_done;  /* [rank]: a finding explains its pairs; owned, with PAIR_DONE */
	bool *pair_done;  /* [from * nranks + to]: a finding explains this pair */
	double *scratch;  /* room for the values of a matrix; owned, with that of RELATIVE */
	double *relative; /* of the current matrix: the scale of each value */
	int nranks;
	int judged; /* values */
};

/* Returns quantile P of N values and sorts them. */
static double quantile(double *values, size_t n, double p)
{
	bb_stats_sort(values, n);
	return bb_stats_quantile(values, n, p);
}

static size_t count(const struct bb_pair_matrix *m)
{
	return (size_t)m->nranks * (size_t)m->nranks;
}

static bool is_like(const struct bb_pair_value *a, const struct bb_pair_value *b)
{
	return a->rounds > 0 && b->rounds > 0 && a->like == b->like;
}

static bool *pair_flag(const struct judgement *c, int from, int to)
{
	return &c->pair_done[(size_t)from * (size_t)c->nranks + (size_t)to];
}

static bool explained(const struct judgement *c, const struct bb_pair_matrix *m,
		      const struct bb_pair_value *v)
{
	return c->rank_done[v->from] || c->rank_done[v->to] || *pair_flag(c, v->from, v->to) ||
	       (m->bidirectional && *pair_flag(c, v->to, v->from));
}

/* True if even its best round is far below REFERENCE. */
static bool slower(const struct bb_pair_value *v, double reference)
{
	const double factor = bb_slow_factor(v->factor, v->unit / reference, v->planned_s);

	return v->rounds >= BB_FINDING_ROUNDS && v->best < fmin(SLOW, 1 / factor) * reference;
}

/* Rounds of one value or several: the undisturbed ones, and all. */
struct share {
	int near, of;
};

static void pool(struct share *share, const struct bb_pair_value *v)
{
	share->near += v->near;
	share->of += v->rounds;
}

/* Write the evidence of F: suspects with at least ROUNDS each. Either they or their references may
   be disturbed, so the smaller fraction of undisturbed rounds counts. */
static void weigh(struct bb_finding *f, int rounds, struct share suspects, struct share references)
{
	const bool fewer =
		references.of == 0 || suspects.near * references.of < references.near * suspects.of;

	f->rounds = rounds;
	f->near = fewer ? suspects.near : references.near;
	f->of = fewer ? suspects.of : references.of;
}

static bool is_confirmed(const struct judgement *c, const struct bb_finding *f)
{
	return c->matrices[f->matrix].exact ||
	       bb_retest_convicts(f->rounds, f->near, f->of, c->judged);
}

/* Each cause is reported once, where it is clearest. */
static bb_status add(struct judgement *c, struct bb_finding f)
{
	f.confirmed = is_confirmed(c, &f);
	for (size_t i = 0; i < c->found->n; i++) {
		struct bb_finding *old = &c->found->list[i];

		if (old->kind != f.kind || old->rank != f.rank || old->like != f.like ||
		    (f.like < 0 && (old->from != f.from || old->to != f.to)))
			continue;
		if (f.value / f.reference < old->value / old->reference)
			*old = f;
		return BB_OK;
	}
	return BB_ARRAY_PUT(c->found->list, c->found->n, c->found->room, f) ? BB_OK : BB_EINTERNAL;
}

/* A finding that compares V with REFERENCE, which OTHERS show. */
static struct bb_finding of_pair(enum bb_finding_kind kind, size_t matrix,
				 const struct bb_pair_value *v, double reference,
				 struct share others)
{
	struct bb_finding f = {.kind = kind,
			       .matrix = matrix,
			       .rank = -1,
			       .like = -1,
			       .from = v->from,
			       .to = v->to,
			       .pairs = 1,
			       .value = v->usual,
			       .reference = reference};

	weigh(&f, v->rounds, (struct share){v->near, v->rounds}, others);
	return f;
}

/* ---- P2P slower than staged ---------------------------------------------------------------- */

/* Returns the best of the routes that are DIRECT, or not; NULL: none connects the two. */
static const struct bb_pair_value *best(const struct judgement *c, bool direct, int from, int to,
					size_t *matrix)
{
	const struct bb_pair_value *found = NULL;

	for (size_t k = 0; k < c->n; k++) {
		const struct bb_pair_matrix *m = &c->matrices[k];
		const struct bb_pair_value *v =
			&m->values[(size_t)from * (size_t)m->nranks + (size_t)to];

		if (m->direct == direct && !m->bidirectional && v->rounds > 0 &&
		    (!found || v->usual > found->usual)) {
			found = v;
			*matrix = k;
		}
	}
	return found;
}

static bb_status find_slower_direct(struct judgement *c)
{
	bb_status status = BB_OK;

	for (int from = 0; from < c->nranks; from++)
		for (int to = 0; to < c->nranks && status == BB_OK; to++) {
			size_t matrix = 0, other = 0;
			const struct bb_pair_value *on = best(c, true, from, to, &matrix);
			const struct bb_pair_value *off = best(c, false, from, to, &other);

			if (from == to || !on || !off || off->rounds < BB_FINDING_ROUNDS ||
			    !slower(on, off->usual))
				continue;
			struct bb_finding f = of_pair(BB_FIND_SLOWER_DIRECT, matrix, on, off->usual,
						      (struct share){off->near, off->rounds});
			/* If not confirmed, a matrix that is disturbed less may confirm it. */
			*pair_flag(c, from, to) = is_confirmed(c, &f);
			status = add(c, f);
		}
	return status;
}

/* ---- slow ranks ---------------------------------------------------------------------------- */

enum role { EITHER, SOURCE, TARGET };

static bool has_role(const struct bb_pair_value *v, int rank, enum role role)
{
	return (role != TARGET && v->from == rank) || (role != SOURCE && v->to == rank);
}

/* Scale each value by quantile P of the pairs of its kind. */
static void scale(struct judgement *c, const struct bb_pair_matrix *m, double p)
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
				c->scratch[n++] = m->values[k].usual;
		c->relative[i] = n > 0 ? quantile(c->scratch, n, p) : 1;
	}
}

/* True if V is of F's kind, if F has one, and not explained yet. */
static bool is_judged(const struct judgement *c, const struct bb_finding *f,
		      const struct bb_pair_value *v)
{
	return !*pair_flag(c, v->from, v->to) && v->rounds >= BB_FINDING_ROUNDS &&
	       (f->like < 0 || v->like == f->like);
}

/* True if all pairs of F's rank in ROLE, of F's kind if F has one, are slower than those without
   the rank, each relative to its kind. Completes F. */
static bool is_slow(struct judgement *c, const struct bb_pair_matrix *m, enum role role,
		    struct bb_finding *f)
{
	const size_t least = f->like >= 0 && role == EITHER && !m->bidirectional ? 4 : 2;
	struct share mine = {0}, others = {0};
	double usual, most = 0;
	size_t n = 0, own = 0;
	int rounds = INT_MAX;

	for (size_t i = 0; i < count(m); i++) {
		const struct bb_pair_value *v = &m->values[i];

		if (!is_judged(c, f, v))
			continue;
		if (has_role(v, f->rank, role)) {
			own++;
			pool(&mine, v);
			rounds = v->rounds < rounds ? v->rounds : rounds;
		} else {
			c->scratch[n++] = v->usual / c->relative[i];
			pool(&others, v);
		}
	}
	/* Pairs with a single peer are a slow pair. */
	if (own < least || n < (f->like < 0 ? 2 : LEAST_OTHERS))
		return false;
	usual = quantile(c->scratch, n, 0.5);
	n = 0;
	for (size_t i = 0; i < count(m); i++) {
		const struct bb_pair_value *v = &m->values[i];

		if (!is_judged(c, f, v) || !has_role(v, f->rank, role))
			continue;
		if (!slower(v, usual * c->relative[i]))
			return false;
		most = fmax(most, v->usual / c->relative[i]);
		c->scratch[n++] = v->usual;
	}
	weigh(f, rounds, mine, others);
	f->pairs = (int)own;
	f->value = quantile(c->scratch, n, 0.5);
	f->reference = f->value / most * usual;
	return true;
}

/* True if F's rank is slow in at least one role. */
static bool is_slow_in_a_role(struct judgement *c, const struct bb_pair_matrix *m,
			      struct bb_finding *f)
{
	static const enum role roles[] = {EITHER, SOURCE, TARGET};

	/* In both directions at once, each end has both roles. */
	for (int i = 0; i < (m->bidirectional ? 1 : 3); i++)
		if (is_slow(c, m, roles[i], f))
			return true;
	return false;
}

/* A rank that is not slow everywhere may be slow over one kind of path, such as its NIC. */
static bb_status find_slow_ranks(struct judgement *c, size_t matrix)
{
	const struct bb_pair_matrix *m = &c->matrices[matrix];
	bb_status status = BB_OK;

	scale(c, m, UPPER);
	for (int r = 0; r < c->nranks && status == BB_OK; r++) {
		struct bb_finding f = {.kind = BB_FIND_SLOW_RANK,
				       .matrix = matrix,
				       .rank = r,
				       .like = -1,
				       .from = -1,
				       .to = -1};
		const bool everywhere = is_slow_in_a_role(c, m, &f);

		if (everywhere)
			status = add(c, f);
		for (size_t i = 0; i < count(m) && !everywhere && status == BB_OK; i++) {
			const struct bb_pair_value *v = &m->values[i];
			bool first = v->rounds > 0 && has_role(v, r, EITHER);

			for (size_t k = 0; k < i && first; k++)
				first = !is_like(&m->values[k], v) ||
					!has_role(&m->values[k], r, EITHER);
			f.like = v->like;
			f.from = v->from;
			f.to = v->to;
			if (first && is_slow_in_a_role(c, m, &f))
				status = add(c, f);
		}
	}
	return status;
}

/* ---- slow pairs ---------------------------------------------------------------------------- */

/* Find pairs that are slower than back (BB_FIND_ASYMMETRY), or than the median of the other
   unexplained pairs of their kind (BB_FIND_SLOW_PAIR). */
static bb_status find_pairs(struct judgement *c, size_t matrix, enum bb_finding_kind kind)
{
	const struct bb_pair_matrix *m = &c->matrices[matrix];
	const bool asymmetry = kind == BB_FIND_ASYMMETRY;
	bb_status status = BB_OK;

	if (asymmetry && m->bidirectional)
		return BB_OK;
	scale(c, m, 1);
	for (size_t i = 0; i < count(m) && status == BB_OK; i++) {
		const struct bb_pair_value *v = &m->values[i];
		const size_t back = (size_t)v->to * (size_t)m->nranks + (size_t)v->from;
		struct share others = {0};
		size_t n = 0;

		/* Most are as fast as the fastest of their kind: they are no slow pairs. */
		if (v->rounds == 0 || explained(c, m, v) ||
		    (!asymmetry && v->best >= SLOW * c->relative[i]))
			continue;
		for (size_t k = asymmetry ? back : 0; k < (asymmetry ? back + 1 : count(m)); k++) {
			const struct bb_pair_value *o = &m->values[k];

			if (k == i ||
			    (asymmetry ? o->rounds < BB_FINDING_ROUNDS
				       : k == back || !is_like(o, v) || explained(c, m, o)))
				continue;
			c->scratch[n++] = o->usual;
			pool(&others, o);
		}
		if (n < (asymmetry ? 1 : LEAST_OTHERS))
			continue;
		const double reference = quantile(c->scratch, n, 0.5);
		if (!slower(v, reference))
			continue;
		struct bb_finding f = of_pair(kind, matrix, v, reference, others);
		if (!asymmetry && f.from > f.to) { /* the same in either direction */
			f.from = v->to;
			f.to = v->from;
		}
		status = add(c, f);
	}
	return status;
}

/* A finding explains its pairs in other matrices too: those of a slow rank, or of the kind in which
   it is slow. */
static void explain(struct judgement *c)
{
	for (size_t i = 0; i < c->found->n; i++) {
		const struct bb_finding *f = &c->found->list[i];
		const struct bb_pair_matrix *m = &c->matrices[f->matrix];

		if (f->kind == BB_FIND_ASYMMETRY || f->kind == BB_FIND_SLOW_PAIR)
			*pair_flag(c, f->from, f->to) = true;
		if (f->kind == BB_FIND_SLOW_PAIR)
			*pair_flag(c, f->to, f->from) = true;
		if (f->kind == BB_FIND_SLOW_RANK && f->like < 0)
			c->rank_done[f->rank] = true;
		for (size_t k = 0; k < count(m) && f->kind == BB_FIND_SLOW_RANK; k++) {
			const struct bb_pair_value *v = &m->values[k];

			if (v->rounds == 0 || v->like != f->like || !has_role(v, f->rank, EITHER))
				continue;
			*pair_flag(c, v->from, v->to) = true;
			*pair_flag(c, v->to, v->from) = true;
		}
	}
}

/* One finding for all pairs of one kind of path. */
static bb_status find_below_bound(struct judgement *c, size_t matrix)
{
	const struct bb_pair_matrix *m = &c->matrices[matrix];
	bb_status status = BB_OK;

	for (size_t i = 0; i < count(m) && status == BB_OK; i++) {
		struct bb_finding f = {.pairs = 0};
		size_t first = 0;

		/* Once for each kind, at its first pair. */
		while (first < i && !is_like(&m->values[first], &m->values[i]))
			first++;
		for (size_t k = i; first == i && k < count(m); k++) {
			const struct bb_pair_value *v = &m->values[k];
			const int pairs = f.pairs;

			if (!is_like(v, &m->values[i]) || explained(c, m, v) || v->bound <= 0 ||
			    !slower(v, v->bound) || v->best >= FAR_BELOW * v->bound)
				continue;
			if (pairs == 0 || v->usual / v->bound < f.value / f.reference)
				f = of_pair(BB_FIND_BELOW_BOUND, matrix, v, v->bound,
					    (struct share){0});
			f.pairs = pairs + 1;
			f.like = v->like;
		}
		if (f.pairs > 0)
			status = add(c, f);
	}
	return status;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/*
 * Of two ranks, a slow one acts as the target over one route and as the source over another. That
 * looks like two slow links in opposite directions, and is one finding about the rank.
 */
static void join_contrary(struct judgement *c)
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

bb_status bb_findings_make(struct bb_findings *found, const struct bb_pair_matrix *matrices,
			   size_t n)
{
	struct judgement c = {.matrices = matrices, .n = n, .found = found};
	size_t most = 1, ranks;
	bb_status status = BB_EINTERNAL;

	*found = (struct bb_findings){.list = NULL};
	for (size_t k = 0; k < n; k++) {
		most = count(&matrices[k]) > most ? count(&matrices[k]) : most;
		c.nranks = matrices[k].nranks > c.nranks ? matrices[k].nranks : c.nranks;
		for (size_t i = 0; i < count(&matrices[k]); i++)
			c.judged += matrices[k].values[i].rounds > 0;
	}
	ranks = (size_t)c.nranks + 1;
	c.rank_done = calloc(ranks + ranks * ranks, sizeof(*c.rank_done));
	c.scratch = calloc(2 * most, sizeof(*c.scratch));
	if (!c.rank_done || !c.scratch)
		goto out;
	c.pair_done = c.rank_done + ranks;
	c.relative = c.scratch + most;
	BB_TRY(status, find_slower_direct(&c), out);
	/* Matrices in which few ENDS of a pair must run at the same moment, or (3) both in both
	   directions, come first: the more, the more rounds are disturbed. Their findings explain
	   those of the others. */
	for (int i = 0; i < 9; i++) {
		const int ends = i / 3 + 1;
		const enum bb_finding_kind kind = (enum bb_finding_kind)(BB_FIND_SLOW_RANK + i % 3);

		for (size_t k = 0; k < n; k++) {
			const struct bb_pair_matrix *m = &matrices[k];

			if (ends != (m->bidirectional ? 3 : m->by_source || m->by_target ? 1 : 2))
				continue;
			BB_TRY(status,
			       kind == BB_FIND_SLOW_RANK ? find_slow_ranks(&c, k)
							 : find_pairs(&c, k, kind),
			       out);
		}
		explain(&c);
		if (kind == BB_FIND_ASYMMETRY)
			join_contrary(&c);
	}
	for (size_t k = 0; k < n; k++)
		BB_TRY(status, find_below_bound(&c, k), out);
out:
	free(c.rank_done);
	free(c.scratch);
	return status;
}
