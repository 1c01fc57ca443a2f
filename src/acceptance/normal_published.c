/*
 * normal_published.c - claims compared with published runs.
 *
 * A bandwidth is compared with runs of as many ranks. With runs of another number of ranks its
 * share of the bound is compared: the bandwidth of 8 GPUs is little evidence about 4, but both come
 * equally near to what their links carry (tests/unit/test_normal.c).
 */
#include "acceptance/normal_inside.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Returns the busbw at SIZE, of the slower placement; NAN: none. */
static double at_size(const struct bb_claims *c, uint64_t size)
{
	double least = NAN;

	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].size_bytes == size && !(c->list[i].busbw_GBps >= least))
			least = c->list[i].busbw_GBps;
	return least;
}

static int64_t nodes_of(const struct bb_reference *r)
{
	return r->nodes > 0 ? r->nodes : bb_normal_nodes(r->card, r->nranks);
}

/* True if R communicates over the same distance: within NVLink's reach, or beyond it with the same
   number of ranks, and so NICs, per node. */
static bool same_distance(const struct bb_question *q, const struct bb_reference *r)
{
	const bool near = bb_normal_is_near(q->card, q->ranks, q->nodes);

	return bb_normal_is_near(q->card, r->nranks, nodes_of(r)) == near &&
	       (near || r->nranks * q->nodes == q->ranks * nodes_of(r));
}

/* True if R ran the algorithm in question; if the claims name none, if R excluded none. */
static bool same_algorithm(const struct bb_question *q, const struct bb_reference *r)
{
	const char *const name = q->claims->algorithm;

	if (name[0] && strcmp(name, "auto") != 0)
		return strncasecmp(r->algo, name, strlen(name)) == 0;
	return !strstr(r->algo, " off)");
}

/* True if the claims at SIZE can be compared with R: the same card, collective and distance,
   measured, and large enough for two decimals to be precise. */
static bool comparable(const struct bb_question *q, const struct bb_reference *r, uint64_t size)
{
	return r->card == q->card && strcmp(r->collective, q->collective) == 0 &&
	       r->size_bytes == size && strcmp(r->kind, "measured") == 0 && r->nranks > 0 &&
	       q->ranks > 0 && r->busbw_GBps >= 1 && same_algorithm(q, r) && same_distance(q, r);
}

/* The published runs of one size and number of ranks. */
struct published {
	uint64_t size;
	int64_t ranks, nodes;
	int runs;
	double least, most;
	double scale; /* bound of the ranks in question over that of RANKS; 1: the same number */
	const struct bb_reference *example;
};

static bool is_of(const struct bb_question *q, const struct bb_reference *r,
		  const struct published *p)
{
	return comparable(q, r, p->size) && r->nranks == p->ranks && nodes_of(r) == p->nodes;
}

static bool is_first_of_id(const struct bb_question *q, size_t i, const struct published *p)
{
	const struct bb_reference *const rows = q->references->rows;

	for (size_t k = 0; k < i; k++)
		if (is_of(q, &rows[k], p) && strcmp(rows[k].id, rows[i].id) == 0)
			return false;
	return true;
}

/* Finds the numbers of ranks and nodes nearest to those in question at P's size. */
static bool find_nearest(const struct bb_question *q, struct published *p)
{
	double nearest = INFINITY;

	for (size_t i = 0; i < q->references->n; i++) {
		const struct bb_reference *const r = &q->references->rows[i];
		const double far = fabs(log((double)r->nranks / (double)q->ranks)) +
				   1e-3 * (double)llabs(nodes_of(r) - q->nodes);

		if (comparable(q, r, p->size) && far < nearest) {
			nearest = far;
			p->ranks = r->nranks;
			p->nodes = nodes_of(r);
		}
	}
	return isfinite(nearest);
}

/* *P = the nearest published runs at SIZE; returns false if none can be compared. */
static bool look_up(const struct bb_question *q, uint64_t size, struct published *p)
{
	const struct bb_references *const t = q->references;

	*p = (struct published){.size = size, .least = INFINITY, .scale = 1};
	if (!find_nearest(q, p))
		return false;
	if (p->ranks != q->ranks) {
		const struct bb_normal_shape here = bb_normal_shape_of(q, q->ranks, q->nodes);
		const struct bb_normal_shape there = bb_normal_shape_of(q, p->ranks, p->nodes);

		p->scale = bb_normal_bound_of(q->card, &here).GBps /
			   bb_normal_bound_of(q->card, &there).GBps;
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct bb_reference *const r = &t->rows[i];

		if (!is_of(q, r, p))
			continue;
		p->runs += is_first_of_id(q, i, p);
		p->least = fmin(p->least, r->busbw_GBps);
		if (r->busbw_GBps > p->most) {
			p->most = r->busbw_GBps;
			p->example = r;
		}
	}
	return isfinite(p->scale) && p->scale > 0;
}

static void describe_runs(const struct bb_question *q, const struct published *p)
{
	char range[64];

	if (p->most > 1.005 * p->least)
		snprintf(range, sizeof(range), "%.4g to %.4g GB/s", p->least, p->most);
	else
		snprintf(range, sizeof(range), "%.4g GB/s", p->most);
	bb_strbuf_addf(q->out, " %d published run%s of %s on %lld rank%s: %s (%s, %s, %s).\n",
		       p->runs, bb_plural(p->runs), q->card->name, (long long)p->ranks,
		       bb_plural(p->ranks), range, p->example->system, p->example->fabric,
		       p->example->source);
	if (p->scale != 1)
		bb_strbuf_addf(
			q->out,
			"  No run has %lld ranks; the same share of the bound is %.4g GB/s here.\n",
			(long long)q->ranks, p->scale * p->most);
}

static enum bb_normality describe_published(const struct bb_question *q, const struct published *p,
					    double value)
{
	const double share = value / (p->scale * p->least);
	const enum bb_normality n = share < BB_NORMAL_LOW                         ? BB_LOW
				    : value > BB_NORMAL_HIGH * p->scale * p->most ? BB_HIGH
										  : BB_NORMAL;
	char size[BB_UNIT_TEXT];

	bb_strbuf_addf(q->out, "  At %s: %.4g GB/s. ", bb_format_size(size, p->size), value);
	if (n == BB_LOW)
		bb_strbuf_addf(q->out, "Low: %.0f%% of", 100 * share);
	else
		bb_strbuf_add(q->out, n == BB_HIGH ? "Higher than" : "Normal, beside");
	describe_runs(q, p);
	return n;
}

/* Compares at the largest size that has a published run. */
enum bb_normality bb_normal_published(const struct bb_question *q)
{
	struct published p, best = {.size = 0};

	for (size_t i = 0; i < q->claims->n; i++)
		if (q->claims->list[i].size_bytes > best.size &&
		    look_up(q, q->claims->list[i].size_bytes, &p))
			best = p;
	if (best.size > 0)
		return describe_published(q, &best, at_size(q->claims, best.size));
	bb_strbuf_addf(q->out, "  No published numbers for %s on %s", q->collective, q->card->name);
	if (q->ranks == 0)
		bb_strbuf_add(q->out, ": the number of ranks is unknown; give --ranks.\n");
	else if (bb_normal_is_near(q->card, q->ranks, q->nodes))
		bb_strbuf_addf(q->out, " %s, at any of these sizes.\n",
			       q->card->of_domain > 0 ? "within NVLink's reach" : "on one node");
	else
		bb_strbuf_addf(q->out,
			       " beyond NVLink's reach with %.3g ranks a node, at any of these "
			       "sizes.\n",
			       (double)q->ranks / (double)q->nodes);
	return BB_UNKNOWN;
}
