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
		    GBps > bound->GBps * (1 + ROUNDING)) {
			bound->GBps = GBps;
			bound->system = t->name;
			bound->algorithm = bb_bound_name(what);
			snprintf(bound->why, sizeof(bound->why), "%s", bb_strbuf_text(&why));
		}
		bb_strbuf_free(&why);
	}
}

/* Returns the places of the ranks; NULL: too few GPUs, or too many nodes. */
static struct bb_rank_place *places_of(const struct bb_normal_shape *s, const struct bb_topology *t)
{
	const int64_t each = s->nodes > 0 ? s->ranks / s->nodes : 0;
	struct bb_rank_place *places, *all;
	int n, of_node;

	if (s->nodes < 1 || s->nodes > 1 << 14 || s->ranks < 2 || s->ranks % s->nodes != 0)
		return NULL;
	all = bb_all_gpus(t, (int)s->nodes, &n);
	of_node = all ? n / (int)s->nodes : 0;
	places = each <= of_node ? calloc((size_t)s->ranks, sizeof(*places)) : NULL;
	for (int64_t i = 0; places && i < s->ranks; i++)
		places[i] = all[i / each * of_node + i % each];
	free(all);
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

struct bb_normal_bound bb_normal_bound_of(const struct bb_card *card,
					  const struct bb_normal_shape *shape)
{
	struct bb_normal_bound bound = {.GBps = 0};

	for (int i = 0; bb_card_system(card, i); i++) {
		struct bb_rank_place *places = NULL;
		struct bb_topology *t = NULL;
		struct bb_error ignored = {0};

		if (bb_topology_system(bb_card_system(card, i), &t, &ignored) == BB_OK)
			places = places_of(shape, t);
		if (places) {
			set_nodes(t, (int)shape->nodes);
			bound_raise(shape, t, places, &bound);
			if (bound.system == t->name)
				bound.system = bb_card_system(card, i);
		}
		free(places);
		bb_topology_free(t);
	}
	return bound;
}

enum bb_normality bb_normal_judge_bound(const struct bb_question *q)
{
	struct bb_normal_shape shape = bb_normal_shape_of(q, q->ranks, q->nodes);
	const struct bb_normal_bound bound = bb_normal_bound_of(q->card, &shape);
	const struct bb_claims *const c = q->claims;
	struct bb_normal_bound sharp;
	double most = 0;

	if (!(bound.GBps > 0))
		return BB_NORMAL;
	for (size_t i = 0; i < c->n; i++)
		most = fmax(most, c->list[i].busbw_GBps);
	bb_strbuf_addf(q->out, "  Best row: %.4g GB/s, %.0f%% of the %s bound of %lld x %s: %s.\n",
		       most, 100 * most / bound.GBps, bound.algorithm, (long long)q->nodes,
		       bound.system, bound.why);
	if (most <= BB_NORMAL_ABOVE_LINKS * bound.GBps)
		return BB_NORMAL;
	shape.by_sharp = true;
	sharp = bb_normal_bound_of(q->card, &shape);
	if (most <= BB_NORMAL_ABOVE_LINKS * sharp.GBps) {
		bb_strbuf_addf(
			q->out,
			"  Possible only with switches that reduce (SHARP): up to %.4g GB/s.\n",
			sharp.GBps);
		return BB_NORMAL;
	}
	bb_strbuf_add(q->out,
		      "  Impossible on such links. Likely: another system, or a wrong number of "
		      "ranks or nodes.\n");
	return BB_IMPOSSIBLE;
}
