/*
 * normal_bound.c - claims compared with the bounds of known systems.
 */
#include "acceptance/normal_inside.h"

#include "topology/bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* True if bound WHAT applies: to a named algorithm its own, to all_reduce all, to alltoall its own,
   to other collectives that of rings. */
static bool is_usable(const struct bb_normal_shape *s, enum bb_bound what)
{
	const bool alltoall = strncmp(s->collective, "alltoall", 8) == 0;

	if (alltoall || what == BB_BOUND_ALLTOALL)
		return alltoall && what == BB_BOUND_ALLTOALL;
	if (strcmp(s->collective, "all_reduce") != 0)
		return what == BB_BOUND_RING;
	if (what == BB_BOUND_SHARP)
		return s->by_sharp;
	for (int named = BB_BOUND_RING; named < BB_BOUNDS; named++)
		if (strcasecmp(s->algorithm, bb_bound_name(named)) == 0)
			return what == (enum bb_bound)named;
	return true;
}

#define ROUNDING 1e-9 /* systems whose bounds differ by less are alike: the first one is named */

/*
 * How much more than rings can carry over nodes of G of N ranks: the data of gather and scatter
 * that crosses the root's node is (n-g)/n of the whole, that of a ring (n-1)/n.
 */
static double beyond_ring(const struct bb_normal_shape *s)
{
	const double n = (double)s->ranks, g = n / (double)s->nodes;

	if (s->nodes == 1 ||
	    (strcmp(s->collective, "gather") != 0 && strcmp(s->collective, "scatter") != 0))
		return 1;
	return (n - 1) / (n - g);
}

/* Raise BOUND to the highest of the algorithms that the collective could use. */
static void bound_raise(const struct bb_normal_shape *s, const struct bb_topology *t,
			const struct bb_rank_place *places, struct bb_normal_bound *bound)
{
	for (int what = BB_BOUND_RING; what < BB_BOUNDS; what++) {
		struct bb_strbuf why = {0};
		double GBps = 0;

		if (!is_usable(s, (enum bb_bound)what))
			continue;
		if (bb_speed_of_light(t, places, (int)s->ranks, what, &GBps, &why) == BB_OK &&
		    GBps * beyond_ring(s) > bound->GBps * (1 + ROUNDING)) {
			bound->GBps = GBps * beyond_ring(s);
			bound->system = t->name;
			bound->algorithm = bb_bound_name(what);
			if (beyond_ring(s) > 1)
				bb_strbuf_addf(&why, ", × %.3g for %s", beyond_ring(s),
					       s->collective);
			snprintf(bound->why, sizeof(bound->why), "%s", bb_strbuf_text(&why));
		}
		bb_strbuf_free(&why);
	}
}

/* Returns the places of the ranks; NULL: too few GPUs,
   or too many nodes. */
static struct bb_rank_place *places_of(const struct bb_normal_shape *s, const struct bb_topology *t)
{
	const int64_t each = s->nodes > 0 ? (s->ranks + s->nodes - 1) / s->nodes : 0;
	struct bb_rank_place *places;

	if (s->nodes < 1 || s->nodes > 1 << 14 || s->ranks < 2 || s->ranks < s->nodes ||
	    each > bb_topology_count(t, BB_GPU))
		return NULL;
	places = calloc((size_t)s->ranks, sizeof(*places));
	for (int64_t i = 0; places && i < s->ranks; i++) {
		int64_t node, gpu;

		bb_normal_place(s->ranks, s->nodes, i, &node, &gpu);
		places[i] = (struct bb_rank_place){.node = (int)node, .device = (int)gpu};
	}
	return places;
}

/* Spreads NODES evenly over as few NVLink domains as possible. The placement is unknown, and no
   other one has a higher bound. */
static void set_nodes(struct bb_topology *t, int nodes)
{
	const int domains = (nodes + t->nvlink_nodes - 1) / t->nvlink_nodes;

	t->nodes = nodes;
	t->nvlink_nodes = (nodes + domains - 1) / domains;
}

struct bb_normal_bound bb_normal_bound_on(const struct bb_topology *t,
					  const struct bb_normal_shape *shape)
{
	struct bb_rank_place *const places = places_of(shape, t);
	struct bb_normal_bound bound = {.GBps = 0};
	struct bb_topology spread = *t;
	struct bb_normal_shape pair = *shape;

	if (places) {
		set_nodes(&spread, (int)shape->nodes);
		/* One rank of each node sends out: the last one to the first of the next node. */
		if (strcmp(shape->collective, "sendrecv") == 0 && shape->nodes > 1) {
			const int64_t each = (shape->ranks + shape->nodes - 1) / shape->nodes;

			places[0] = places[each - 1];
			places[1] = places[each];
			pair.ranks = 2;
		}
		bound_raise(&pair, &spread, places, &bound);
		if (bound.system)
			bound.system = t->name;
	}
	free(places);
	return bound;
}

struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card,
					  const struct bb_normal_shape *shape)
{
	struct bb_normal_bound highest = {.GBps = 0};

	for (int i = 0; bb_card_system(card, i); i++) {
		struct bb_normal_bound bound = {.GBps = 0};
		struct bb_topology *t = NULL;
		struct bb_error ignored = {0};

		if (bb_topology_system(bb_card_system(card, i), &t, &ignored) == BB_OK)
			bound = bb_normal_bound_on(t, shape);
		if (bound.GBps > highest.GBps * (1 + ROUNDING)) {
			highest = bound;
			highest.system = bb_card_system(card, i);
		}
		bb_topology_free(t);
	}
	return highest;
}

/* True if links of this machine with switches that reduce, or of any known one with such cards, can
   carry MOST; says which. A machine that the user names has no other links. */
static bool is_possible(const struct bb_question *q, struct bb_normal_shape *shape, double most)
{
	const bool is_given = q->given->machine || q->given->nics > 0 || q->given->nic_Mbps > 0;
	const struct bb_normal_bound other = is_given || !q->card
						     ? (struct bb_normal_bound){.GBps = 0}
						     : bb_normal_bound_of(q->card, shape);
	struct bb_normal_bound sharp;

	if (most <= BB_NORMAL_ABOVE_LINKS * other.GBps) {
		bb_strbuf_addf(q->out, "  Possible on %s: up to %.4g GB/s.\n", other.system,
			       other.GBps);
		return true;
	}
	shape->by_sharp = true;
	sharp = is_given || !q->card ? bb_normal_bound_on(q->machine->cluster->node, shape)
				     : bb_normal_bound_of(q->card, shape);
	if (most > BB_NORMAL_ABOVE_LINKS * sharp.GBps)
		return false;
	bb_strbuf_addf(q->out,
		       "  Possible only with switches that reduce (SHARP): up to %.4g GB/s.\n",
		       sharp.GBps);
	return true;
}

enum bb_normality bb_normal_judge_bound(const struct bb_question *q)
{
	struct bb_normal_shape shape = bb_normal_shape_of(q, q->ranks, q->nodes);
	const struct bb_claims *const c = q->claims;
	struct bb_normal_bound bound;
	double most = c->average_GBps;

	if (!q->machine->cluster)
		return BB_NORMAL;
	bound = bb_normal_bound_on(q->machine->cluster->node, &shape);
	if (!(bound.GBps > 0))
		return BB_NORMAL;
	for (size_t i = 0; i < c->n; i++)
		most = fmax(most, c->list[i].busbw_GBps);
	bb_strbuf_addf(q->out, "  %s: %.4g GB/s, %.0f%% of the %s bound of %lld x %s: %s.\n",
		       c->n > 0 ? "Best row" : "Average", most, 100 * most / bound.GBps,
		       bound.algorithm, (long long)q->nodes, q->machine->name, bound.why);
	if (most <= BB_NORMAL_ABOVE_LINKS * bound.GBps || is_possible(q, &shape, most))
		return BB_NORMAL;
	bb_strbuf_add(q->out,
		      "  Impossible on such links. Likely: another system, or a wrong number of "
		      "ranks or nodes.\n");
	return BB_IMPOSSIBLE;
}

bool bb_normal_has_share(const char *collective)
{
	return strcmp(collective, "gather") != 0 && strcmp(collective, "scatter") != 0 &&
	       strcmp(collective, "hypercube") != 0;
}

enum bb_normality bb_normal_by_share(const struct bb_question *q)
{
	const bool alltoall = strncmp(q->collective, "alltoall", 8) == 0;
	struct bb_normal_shape shape = {q->collective, alltoall ? "" : "ring", q->ranks, q->nodes,
					false};
	const struct bb_claim row = bb_normal_largest(q->claims);
	struct bb_normal_bound bound;
	double share;

	if (!q->machine->cluster)
		return BB_UNKNOWN;
	if (!bb_normal_has_share(q->collective)) {
		bb_strbuf_addf(
			q->out,
			"  Not judged: %s has no model on %s, and no published run says what "
			"share of its bound is usual.\n",
			q->collective, q->machine->name);
		return BB_UNKNOWN;
	}
	bound = bb_normal_bound_on(q->machine->cluster->node, &shape);
	if (!(bound.GBps > 0)) {
		bb_strbuf_addf(q->out, "  No bound is known for %lld ranks on %s.\n",
			       (long long)q->ranks, q->machine->name);
		return BB_UNKNOWN;
	}
	share = row.busbw_GBps / bound.GBps;
	if (row.size_bytes == 0 && share < BB_NORMAL_SHARE) {
		bb_normal_describe_row(q, &row);
		bb_strbuf_addf(
			q->out,
			"Not judged: %.0f%% of the %s bound; small sizes lower an average. Its "
			"rows can be judged.\n",
			100 * share, bound.algorithm);
		return BB_UNKNOWN;
	}
	bb_normal_describe_row(q, &row);
	if (share < BB_NORMAL_SHARE && row.size_bytes > 0 && row.size_bytes < BB_NORMAL_WIDE) {
		bb_strbuf_addf(q->out,
			       "Not judged: %.0f%% of the %s bound; latency may bound sizes below "
			       "256 MiB, and %s has no model. Run it with -e 8G.\n",
			       100 * share, bound.algorithm, q->machine->name);
		return BB_UNKNOWN;
	}
	if (share > BB_NORMAL_ABOVE_LINKS) {
		bb_strbuf_addf(q->out, "Higher than the %s bound of %lld x %s, %.4g GB/s.\n",
			       bound.algorithm, (long long)q->nodes, q->machine->name, bound.GBps);
		return BB_HIGH;
	}
	bb_strbuf_addf(q->out,
		       "%s: %.0f%% of the %s bound of %lld x %s; nothing else compares, and "
		       "healthy machines reach %.0f%%.\n",
		       share < BB_NORMAL_SHARE ? "Low" : "Normal", 100 * share, bound.algorithm,
		       (long long)q->nodes, q->machine->name, 100 * BB_NORMAL_SHARE);
	return share < BB_NORMAL_SHARE ? BB_LOW : BB_NORMAL;
}
