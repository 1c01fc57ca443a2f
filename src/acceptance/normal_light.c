/*
 * normal_light.c - claims beside the speed of light of known systems.
 */
#include "acceptance/normal_parts.h"

#include "topology/bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The highest bound of the ways in which the collective could be done. */
static double highest(const struct bb_question *q, const struct bb_topology *t,
		      const struct bb_rank_place *places, struct bb_strbuf *why, const char **name)
{
	const bool reduces = strcmp(q->collective, "all_reduce") == 0;
	double best = 0;

	for (int what = BB_BOUND_RING; what < BB_BOUNDS; what++) {
		const bool alltoall = strncmp(q->collective, "alltoall", 8) == 0;
		struct bb_strbuf reason = {0};
		double GBps = 0;

		if (alltoall != (what == BB_BOUND_ALLTOALL) ||
		    (!reduces && !alltoall && what != BB_BOUND_RING))
			continue;
		if (bb_speed_of_light(t, places, (int)q->ranks, what, &GBps, &reason) == BB_OK &&
		    GBps > best) {
			best = GBps;
			*name = bb_bound_name(what);
			bb_strbuf_clear(why);
			bb_strbuf_add(why, bb_strbuf_text(&reason));
		}
		bb_strbuf_free(&reason);
	}
	return best;
}

/* Places of the ranks, as many on each node. NULL: not so many GPUs, or too many nodes. */
static struct bb_rank_place *places_of(const struct bb_question *q, const struct bb_topology *t)
{
	const int64_t each = q->nodes > 0 ? q->ranks / q->nodes : 0;
	struct bb_rank_place *places, *all;
	int n, of_node;

	if (q->nodes < 1 || q->nodes > 1 << 14 || q->ranks < 2 || q->ranks % q->nodes != 0)
		return NULL;
	all = bb_all_gpus(t, (int)q->nodes, &n);
	of_node = all ? n / (int)q->nodes : 0;
	places = each <= of_node ? calloc((size_t)q->ranks, sizeof(*places)) : NULL;
	for (int64_t i = 0; places && i < q->ranks; i++)
		places[i] = all[i / each * of_node + i % each];
	free(all);
	return places;
}

/* A bound, and what it is of. */
struct light {
	const char *system, *name;
	double GBps; /* 0: none */
	struct bb_strbuf why;
};

/* Of SYSTEM, if the ranks have room on it and its bound is higher. */
static void raise_bound(const struct bb_question *q, const char *system, struct light *light)
{
	struct bb_topology *t = NULL;
	struct bb_rank_place *places = NULL;
	struct bb_error ignored = {0};
	struct bb_strbuf why = {0};
	const char *name = "";
	double GBps = 0;

	if (bb_topology_system(system, &t, &ignored) == BB_OK)
		places = places_of(q, t);
	if (places) {
		t->nodes = (int)q->nodes;
		GBps = highest(q, t, places, &why, &name);
	}
	if (GBps > light->GBps) {
		bb_strbuf_free(&light->why);
		*light = (struct light){system, name, GBps, why};
	} else {
		bb_strbuf_free(&why);
	}
	free(places);
	bb_topology_free(t);
}

enum bb_normality bb_normal_light(const struct bb_question *q)
{
	const struct bb_claims *const c = q->claims;
	struct light light = {.GBps = 0};
	enum bb_normality n = BB_NORMAL;
	double most = 0;

	for (size_t i = 0; i < c->n; i++)
		most = fmax(most, c->list[i].busbw_GBps);
	for (int i = 0; bb_card_system(q->card, i); i++)
		raise_bound(q, bb_card_system(q->card, i), &light);
	if (light.GBps > 0)
		bb_strbuf_addf(q->out,
			       "  Best row: %.4g GB/s, %.0f%% of the %s bound of %lld x %s: %s.\n",
			       most, 100 * most / light.GBps, light.name, (long long)q->nodes,
			       light.system, bb_strbuf_text(&light.why));
	if (light.GBps > 0 && most > 1.02 * light.GBps) {
		n = BB_IMPOSSIBLE;
		bb_strbuf_add(q->out, "  That is more than such links carry: another system, or a "
				      "wrong number of ranks or nodes.\n");
	}
	bb_strbuf_free(&light.why);
	return n;
}
