/*
 * normal_published.c - claims compared with published runs.
 *
 * A bandwidth is compared with runs of the same card, collective and number of ranks, over the same
 * network: as many NICs of the same rate and kind, and without switches that reduce where the
 * claims have none. Between two sizes of a run its bandwidth is interpolated. Within
 * NVLink's reach runs of up to twice or half as many ranks are compared by their share of the
 * bound: the bandwidth of 8 GPUs is little evidence about 4, but both come equally near to what
 * their links carry (tests/unit/test_normal.c).
 */
#include "acceptance/normal_inside.h"

#include "core/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int64_t nodes_of(const struct bb_reference *r)
{
	return r->nodes > 0 ? r->nodes : bb_normal_nodes(r->card, r->nranks);
}

/* ---- networks ---------------------------------------------------------------------------------
 */

/* True if R ran over NICs like those of the machine in question: "EFA 4x100G", "IB 8x400G SHARP".
 */
static bool same_network(const struct bb_question *q, const struct bb_reference *r)
{
	const struct bb_claimed_machine *const m = q->machine;
	const char *const efa = strstr(r->fabric, "EFA"), *const ib = strstr(r->fabric, "IB ");
	const bool sharp = strstr(r->fabric, "SHARP");
	const char *at = r->fabric;
	int nics = 0, Gbps = 0;

	while (*at && sscanf(at, "%dx%dG", &nics, &Gbps) != 2)
		at++;
	if (!*at || sharp != (bb_normal_fact(q, BB_FACT_SHARP) != NULL) ||
	    (efa != NULL) != (m->nics.kind >= BB_NICS_EFA))
		return false;
	/* Rates decide where nothing says whether it is InfiniBand or RoCE. */
	if (!efa && !m->assumed && (ib != NULL) != (m->nics.kind == BB_NICS_INFINIBAND))
		return false;
	return fabs((double)nics * Gbps * 1e3 / (double)m->nics.Mbps - 1) < 0.05;
}

/* True if R communicates over the same distance: within NVLink's reach, or beyond it with the same
   ranks on as many nodes, over the same network: what two nodes reach by trees is no evidence about
   four. */
static bool same_distance(const struct bb_question *q, const struct bb_reference *r)
{
	const bool near = bb_normal_is_near(q->card, q->ranks, q->nodes);

	if (bb_normal_is_near(q->card, r->nranks, nodes_of(r)) != near)
		return false;
	return near || (r->nranks == q->ranks && nodes_of(r) == q->nodes && same_network(q, r));
}

/* True if R ran an algorithm that the claims could have; if they could have any, if R excluded
 * none.
 */
static bool same_algorithm(const struct bb_question *q, const struct bb_reference *r)
{
	const char *const name = q->claims->algorithm;
	const unsigned allowed = bb_normal_algorithms(q);

	if (name[0] && strcmp(name, "auto") != 0)
		return strncasecmp(r->algo, name, strlen(name)) == 0;
	for (int a = 0; a < BB_NCCL_ALGORITHMS && allowed != BB_NORMAL_ANY; a++) {
		const char *const its = bb_nccl_algorithm_name((enum bb_nccl_algorithm)a);

		if (allowed >> a & 1 && strncasecmp(r->algo, its, strlen(its)) == 0)
			return true;
	}
	return allowed == BB_NORMAL_ANY && !strstr(r->algo, " off)");
}

/* True if the claims can be compared with R: the same card, collective and distance, measured, and
   large enough for two decimals to be precise. */
static bool comparable(const struct bb_question *q, const struct bb_reference *r)
{
	return r->card == q->card && strcmp(r->collective, q->collective) == 0 &&
	       strcmp(r->kind, "measured") == 0 && r->nranks > 0 && r->size_bytes > 0 &&
	       r->busbw_GBps >= 1 && 2 * r->nranks >= q->ranks && r->nranks <= 2 * q->ranks &&
	       same_algorithm(q, r) && same_distance(q, r);
}

/* ---- a size -----------------------------------------------------------------------------------
 */

/* The published runs of one number of ranks, at one size. */
struct published {
	uint64_t size;
	int64_t ranks, nodes;
	int runs;
	double least, most;
	double scale; /* bound of the ranks in question over that of RANKS; 1: the same number */
	bool interpolated; /* a run has no row of this size */
	const struct bb_reference *example;
};

static bool is_of(const struct bb_question *q, const struct bb_reference *r,
		  const struct published *p)
{
	return r->nranks == p->ranks && nodes_of(r) == p->nodes && comparable(q, r);
}

#define FARTHEST 16 /* times as large may the next row of a run be */

/* Bandwidths of the run that FIRST belongs to at P's size, of the slower and the faster placement,
   between its next rows or, in the plateau, up to a factor of two beyond its last one. */
static bool run_at(const struct bb_question *q, struct published *p,
		   const struct bb_reference *first, double *least, double *most)
{
	const struct bb_references *const t = q->references;
	const struct bb_reference *below[2] = {NULL}, *above[2] = {NULL}; /* slower, faster */
	double part = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct bb_reference *const r = &t->rows[i];
		const struct bb_reference **const side = r->size_bytes <= p->size ? below : above;

		if (strcmp(r->id, first->id) != 0 || strcmp(r->algo, first->algo) != 0 ||
		    !is_of(q, r, p))
			continue;
		for (int k = 0; k < 2; k++) {
			const bool nearer = !side[k] || (r->size_bytes != side[k]->size_bytes &&
							 (r->size_bytes > side[k]->size_bytes) ==
								 (side == below));

			if (nearer || (r->size_bytes == side[k]->size_bytes &&
				       (r->busbw_GBps < side[k]->busbw_GBps) == (k == 0)))
				side[k] = r;
		}
	}
	if (below[0] && below[0]->size_bytes == p->size)
		memcpy(above, below, sizeof(above));
	else if (below[0] && above[0] && above[0]->size_bytes / below[0]->size_bytes <= FARTHEST)
		part = log((double)p->size / (double)below[0]->size_bytes) /
		       log((double)above[0]->size_bytes / (double)below[0]->size_bytes);
	else if (below[0] && p->size <= 2 * below[0]->size_bytes &&
		 below[0]->size_bytes >= 1u << 28)
		memcpy(above, below, sizeof(above));
	else
		return false;
	p->interpolated |= below[0]->size_bytes != p->size;
	*least = pow(below[0]->busbw_GBps, 1 - part) * pow(above[0]->busbw_GBps, part);
	*most = pow(below[1]->busbw_GBps, 1 - part) * pow(above[1]->busbw_GBps, part);
	return true;
}

static bool is_first_of_run(const struct bb_question *q, size_t i, const struct published *p)
{
	const struct bb_reference *const rows = q->references->rows;

	for (size_t k = 0; k < i; k++)
		if (strcmp(rows[k].id, rows[i].id) == 0 &&
		    strcmp(rows[k].algo, rows[i].algo) == 0 && is_of(q, &rows[k], p))
			return false;
	return true;
}

/* Adds the runs of P's ranks and nodes at its size. */
static void add_runs(const struct bb_question *q, struct published *p)
{
	for (size_t i = 0; i < q->references->n; i++) {
		const struct bb_reference *const r = &q->references->rows[i];
		double least, most;

		if (!is_of(q, r, p) || !is_first_of_run(q, i, p) || !run_at(q, p, r, &least, &most))
			continue;
		p->runs++;
		p->least = fmin(p->least, least);
		if (most > p->most) {
			p->most = most;
			p->example = r;
		}
	}
}

/* *P = the published runs at SIZE with the number of ranks nearest to that in question; returns
   false if none can be compared. */
static bool look_up(const struct bb_question *q, uint64_t size, struct published *p)
{
	double nearest = INFINITY;

	*p = (struct published){.runs = 0};
	for (size_t i = 0; i < q->references->n; i++) {
		const struct bb_reference *const r = &q->references->rows[i];
		const double far = fabs(log((double)r->nranks / (double)q->ranks)) +
				   1e-3 * (double)llabs(nodes_of(r) - q->nodes);
		struct published here = {.size = size,
					 .ranks = r->nranks,
					 .nodes = nodes_of(r),
					 .least = INFINITY,
					 .scale = 1};

		if (far >= nearest || !comparable(q, r))
			continue;
		add_runs(q, &here);
		if (here.runs == 0)
			continue;
		nearest = far;
		*p = here;
	}
	if (p->runs > 0 && p->ranks != q->ranks) {
		const struct bb_topology *const t = q->machine->cluster->node;
		const struct bb_normal_shape here = bb_normal_shape_of(q, q->ranks, q->nodes);
		const struct bb_normal_shape there = bb_normal_shape_of(q, p->ranks, p->nodes);

		p->scale = bb_normal_bound_on(t, &here).GBps / bb_normal_bound_on(t, &there).GBps;
	}
	return p->runs > 0 && isfinite(p->scale) && p->scale > 0;
}

/* ---- the verdict ------------------------------------------------------------------------------
 */

static void describe_runs(const struct bb_question *q, const struct published *p)
{
	const bool one = p->most <= 1.005 * p->least;
	char range[64];

	if (one)
		snprintf(range, sizeof(range), "%.4g GB/s", p->scale * p->most);
	else
		snprintf(range, sizeof(range), "%.4g to %.4g GB/s", p->scale * p->least,
			 p->scale * p->most);
	if (p->scale != 1)
		bb_strbuf_addf(q->out, " %s, the share of the bound that", range);
	bb_strbuf_addf(q->out, " %d published run%s of %s on %lld rank%s", p->runs,
		       bb_plural(p->runs), q->card->name, (long long)p->ranks, bb_plural(p->ranks));
	if (p->scale != 1)
		bb_strbuf_addf(q->out, " reach%s", p->runs == 1 ? "es" : "");
	else
		bb_strbuf_addf(q->out, ": %s", range);
	bb_strbuf_addf(q->out, " (%s%s, %s, %s).\n", p->interpolated ? "between two sizes; " : "",
		       p->example->system, p->example->fabric, p->example->source);
}

#define SIZES_TRIED 8 /* from the largest one on */

enum bb_normality bb_normal_by_published(const struct bb_question *q)
{
	const struct bb_claim row = bb_normal_largest(q->claims);
	struct published p, best = {.size = 0};
	struct bb_claim at = row;
	enum bb_normality n;
	double share;
	int tries = 0;

	if (!q->machine->cluster)
		return BB_UNKNOWN;
	for (uint64_t below = UINT64_MAX, size = 1;
	     size > 0 && best.size == 0 && tries < SIZES_TRIED; tries++) {
		size = 0;
		for (size_t i = 0; i < q->claims->n; i++)
			if (q->claims->list[i].size_bytes < below &&
			    q->claims->list[i].size_bytes > size)
				size = q->claims->list[i].size_bytes;
		below = size;
		if (size > 0 && look_up(q, size, &p))
			best = p;
	}
	/* A plateau far below the largest size says nothing of that. */
	if (best.size == 0 || 4 * best.size < row.size_bytes)
		return BB_UNKNOWN;
	at.busbw_GBps = INFINITY;
	for (size_t i = 0; i < q->claims->n; i++)
		if (q->claims->list[i].size_bytes == best.size &&
		    q->claims->list[i].busbw_GBps < at.busbw_GBps)
			at = q->claims->list[i];
	share = at.busbw_GBps / (best.scale * best.least);
	n = share < BB_NORMAL_LOW                                     ? BB_LOW
	    : at.busbw_GBps > BB_NORMAL_HIGH * best.scale * best.most ? BB_HIGH
								      : BB_NORMAL;
	bb_normal_describe_row(q, &at);
	if (n == BB_LOW)
		bb_strbuf_addf(q->out, "Low: %.0f%% of", 100 * share);
	else
		bb_strbuf_add(q->out, n == BB_HIGH ? "Higher than" : "Normal, beside");
	describe_runs(q, &best);
	return n;
}
