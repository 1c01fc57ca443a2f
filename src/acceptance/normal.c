/*
 * normal.c - the commonest question of all, answered with what others have measured.
 */
#include "acceptance/normal.h"

#include "core/option.h"
#include "core/units.h"
#include "schedules/schedule.h"
#include "topology/bound.h"
#include "topology/cards.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* One question. */
struct asked {
	const struct bb_claims *claims;
	const struct bb_references *references;
	const struct bb_circumstances *said;
	const char *gpu;            /* as the user or the file calls it; "": nobody says */
	const struct bb_card *card; /* NULL: in no table */
	const char *collective;
	int64_t ranks, nodes; /* 0: unknown */
	struct bb_strbuf *out;
};

/* How many nodes RANKS need at least. */
static int64_t least_nodes(const struct bb_card *card, int64_t ranks)
{
	return card->of_node > 0 ? (ranks + card->of_node - 1) / card->of_node : 1;
}

/* Whether NVLink joins that many nodes, of which RANKS are on as many as they must; 0: not said. */
static bool on_one_domain(const struct bb_card *card, int64_t ranks, int64_t nodes)
{
	if (card->of_domain == 0)
		return nodes <= 1;
	return ranks <= card->of_domain && nodes * card->of_node <= card->of_domain;
}

/* ---- how many ranks ---------------------------------------------------------------------------
 */

/* The first ratio of bandwidths that says something. */
static double ratio_of(const struct bb_claims *c)
{
	for (size_t i = c->n; i > 0; i--)
		if (c->list[i - 1].algbw_GBps > 100 * c->rounding)
			return c->list[i - 1].busbw_GBps / c->list[i - 1].algbw_GBps;
	return NAN;
}

/* Of a log that does not say its collective: a ratio above 1 is all_reduce's alone. */
static void find_collective(struct asked *a)
{
	const struct bb_claims *const c = a->claims;

	a->collective = a->said->collective ? a->said->collective : c->collective;
	if (!a->collective[0] && ratio_of(c) > 1.001) {
		a->collective = "all_reduce";
		bb_strbuf_addf(a->out,
			       "  The file does not name its collective; busbw / algbw = %.4g is "
			       "all_reduce's alone.\n",
			       ratio_of(c));
	}
}

static void tell_ranks(struct asked *a, int64_t said, int64_t least, int64_t most)
{
	const double ratio = ratio_of(a->claims);

	if (said > 0 && said >= least && said <= most) {
		a->ranks = said;
		bb_strbuf_addf(a->out, "  busbw / algbw = %.4g fits %lld rank%s.\n", ratio,
			       (long long)said, bb_plural(said));
		return;
	}
	a->ranks = least;
	if (said > 0)
		bb_strbuf_addf(a->out, "  Said to be %lld rank%s, but ", (long long)said,
			       bb_plural(said));
	else
		bb_strbuf_add(a->out, "  Nobody says how many ranks; ");
	bb_strbuf_addf(a->out, "busbw / algbw = %.6g is that of %lld", ratio, (long long)least);
	if (most > least)
		bb_strbuf_addf(a->out, " to %lld", (long long)most);
	bb_strbuf_addf(a->out, " rank%s, which is taken.\n", bb_plural(most));
}

/* Of a log that does not say its collective, and whose ratio is that of several. */
static void tell_collectives(struct asked *a)
{
	const double ratio = ratio_of(a->claims);

	if (!isfinite(ratio)) {
		bb_strbuf_add(a->out,
			      "  The file does not name its collective; --collective does.\n");
		return;
	}
	bb_strbuf_addf(a->out, "  The file does not name its collective; busbw / algbw = %.4g ",
		       ratio);
	if (ratio > 0.999) {
		bb_strbuf_add(a->out, "fits broadcast, reduce or sendrecv, or all_reduce on 2 "
				      "ranks");
	} else {
		int64_t least, most;

		if (!bb_claims_ranks(a->claims, "all_gather", &least, &most))
			bb_strbuf_add(a->out, "fits no number of ranks");
		else
			bb_strbuf_addf(a->out,
				       "fits all_gather, reduce_scatter, alltoall, gather or "
				       "scatter on %lld rank%s",
				       (long long)least, bb_plural(least));
	}
	bb_strbuf_add(a->out, "; --collective says which.\n");
}

/* False: the ratio is that of no number of ranks. */
static bool find_ranks(struct asked *a)
{
	const int64_t said = a->said->ranks > 0 ? a->said->ranks : a->claims->nranks;
	int64_t least, most;

	a->ranks = said;
	if (bb_claims_ranks(a->claims, a->collective, &least, &most)) {
		/* The largest numbers of ranks cannot be told apart by a rounded ratio. */
		if (said > 0 || most < 2 * least)
			tell_ranks(a, said, least, most);
	} else if (least != 1 || most != 0) {
		bb_strbuf_addf(
			a->out,
			"  Impossible: busbw / algbw = %.4g is that of no number of ranks of "
			"%s in all rows. Another collective, or columns that are mixed up.\n",
			ratio_of(a->claims), a->collective);
		return false;
	}
	return true;
}

static void find_nodes(struct asked *a)
{
	const bool told = a->claims->hosts > 0 && a->ranks == a->claims->nranks;

	a->nodes = a->said->nodes > 0 ? a->said->nodes : a->claims->hosts;
	if (a->card && a->said->nodes == 0 && !told && a->nodes < least_nodes(a->card, a->ranks))
		a->nodes = least_nodes(a->card, a->ranks);
}

/* ---- published runs ---------------------------------------------------------------------------
 */

static double at_size(const struct bb_claims *c, uint64_t size)
{
	double best = NAN;

	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].size_bytes == size && !(c->list[i].busbw_GBps <= best))
			best = c->list[i].busbw_GBps;
	return best;
}

/* Whether R runs over as far a way, and beyond NVLink's reach with as many ranks, and so NICs, of a
   node. */
static bool as_far(const struct asked *a, const struct bb_reference *r)
{
	const int64_t nodes = r->nodes > 0 ? r->nodes : least_nodes(a->card, r->nranks);
	const bool near = on_one_domain(a->card, a->ranks, a->nodes);

	if (a->ranks == 0 && a->nodes == 0)
		return true;
	return on_one_domain(a->card, r->nranks, nodes) == near &&
	       (near || a->ranks == 0 || r->nranks * a->nodes == a->ranks * nodes);
}

/* Whether a published row is of such a system: GPU, collective, measured, over as far a way. */
static bool comparable(const struct asked *a, const struct bb_reference *r, uint64_t size)
{
	const char *const algorithm = a->claims->algorithm;
	const bool named = algorithm[0] && strcmp(algorithm, "auto") != 0;

	return r->card == a->card && strcmp(r->collective, a->collective) == 0 &&
	       r->size_bytes == size && strcmp(r->kind, "measured") == 0 && r->nranks > 0 &&
	       (!named || !r->algo[0] || strncasecmp(r->algo, algorithm, strlen(algorithm)) == 0) &&
	       as_far(a, r);
}

/* What published runs of one size and number of ranks show. */
struct published {
	uint64_t size;
	int64_t ranks;
	int runs;
	double least, most;
	const struct bb_reference *an_example;
};

static bool is_first_of_id(const struct asked *a, size_t i, const struct published *p)
{
	for (size_t k = 0; k < i; k++) {
		const struct bb_reference *const r = &a->references->rows[k];

		if (comparable(a, r, p->size) && r->nranks == p->ranks &&
		    strcmp(r->id, a->references->rows[i].id) == 0)
			return false;
	}
	return true;
}

/* Those nearest to A's number of ranks at SIZE. */
static bool look_up(const struct asked *a, uint64_t size, struct published *p)
{
	const struct bb_references *const t = a->references;
	double nearest = INFINITY;

	*p = (struct published){.size = size, .least = INFINITY};
	for (size_t i = 0; i < t->n; i++) {
		const double far =
			a->ranks > 0 ? fabs(log((double)t->rows[i].nranks / (double)a->ranks)) : 0;

		if (comparable(a, &t->rows[i], size) && far < nearest) {
			nearest = far;
			p->ranks = t->rows[i].nranks;
		}
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct bb_reference *const r = &t->rows[i];

		if (!comparable(a, r, size) || r->nranks != p->ranks)
			continue;
		p->runs += is_first_of_id(a, i, p);
		p->least = fmin(p->least, r->busbw_GBps);
		if (r->busbw_GBps > p->most) {
			p->most = r->busbw_GBps;
			p->an_example = r;
		}
	}
	return p->runs > 0;
}

static enum bb_normality tell_published(const struct asked *a, const struct published *p,
					double value)
{
	const double share = value / p->least;
	char size[BB_UNIT_TEXT], range[64];
	enum bb_normality n = BB_NORMAL;

	if (p->most > 1.005 * p->least)
		snprintf(range, sizeof(range), "%.4g to %.4g GB/s", p->least, p->most);
	else
		snprintf(range, sizeof(range), "%.4g GB/s", p->most);
	bb_strbuf_addf(a->out, "  At %s: %.4g GB/s. ", bb_format_size(size, p->size), value);
	if (share < BB_NORMAL_LOW) {
		n = BB_LOW;
		bb_strbuf_addf(a->out, "Low: %.0f%% of what", 100 * share);
	} else if (value > BB_NORMAL_HIGH * p->most) {
		n = BB_HIGH;
		bb_strbuf_add(a->out, "Higher than any of");
	} else {
		bb_strbuf_add(a->out, "Normal, beside");
	}
	bb_strbuf_addf(a->out, " %d published run%s of %s on %lld rank%s%s%s: %s (%s, %s).\n",
		       p->runs, bb_plural(p->runs), a->card->name, (long long)p->ranks,
		       bb_plural(p->ranks),
		       p->ranks != a->ranks && a->ranks > 0 ? ", the nearest there are" : "",
		       n == BB_LOW ? (p->runs == 1 ? " shows" : " show") : "", range,
		       p->an_example->system, p->an_example->source);
	return n;
}

/* At the largest size for which there is a published run. */
static enum bb_normality compare(const struct asked *a)
{
	struct published p, best = {.size = 0};

	for (size_t i = 0; i < a->claims->n; i++)
		if (a->claims->list[i].size_bytes > best.size &&
		    look_up(a, a->claims->list[i].size_bytes, &p))
			best = p;
	if (best.size > 0)
		return tell_published(a, &best, at_size(a->claims, best.size));
	bb_strbuf_addf(a->out, "  No published run of %s on %s, ", a->collective, a->card->name);
	if (a->ranks == 0 && a->nodes == 0)
		bb_strbuf_add(a->out, "on whatever ranks");
	else if (on_one_domain(a->card, a->ranks, a->nodes))
		bb_strbuf_add(a->out, "within NVLink's reach");
	else if (a->ranks == 0)
		bb_strbuf_add(a->out, "beyond NVLink's reach");
	else
		bb_strbuf_addf(a->out, "beyond NVLink's reach with %.3g ranks a node",
			       (double)a->ranks / (double)a->nodes);
	bb_strbuf_add(a->out, ", at any of these sizes is known.\n");
	return BB_UNKNOWN;
}

/* ---- the speed of light -----------------------------------------------------------------------
 */

/* The highest bound of the ways in which the collective could be done. */
static double highest(const struct asked *a, const struct bb_topology *t,
		      const struct bb_rank_place *places, struct bb_strbuf *why, const char **name)
{
	const bool reduces = strcmp(a->collective, "all_reduce") == 0;
	double best = 0;

	for (int what = BB_BOUND_RING; what < BB_BOUNDS; what++) {
		const bool alltoall = strncmp(a->collective, "alltoall", 8) == 0;
		struct bb_strbuf reason = {0};
		double GBps = 0;

		if (alltoall != (what == BB_BOUND_ALLTOALL) ||
		    (!reduces && !alltoall && what != BB_BOUND_RING))
			continue;
		if (bb_speed_of_light(t, places, (int)a->ranks, what, &GBps, &reason) == BB_OK &&
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
static struct bb_rank_place *places_of(const struct asked *a, const struct bb_topology *t)
{
	const int64_t each = a->nodes > 0 ? a->ranks / a->nodes : 0;
	struct bb_rank_place *places, *all;
	int n, of_node;

	if (a->nodes < 1 || a->nodes > 1 << 14 || a->ranks < 2 || a->ranks % a->nodes != 0)
		return NULL;
	all = bb_all_gpus(t, (int)a->nodes, &n);
	of_node = all ? n / (int)a->nodes : 0;
	places = each <= of_node ? calloc((size_t)a->ranks, sizeof(*places)) : NULL;
	for (int64_t i = 0; places && i < a->ranks; i++)
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
static void raise_bound(const struct asked *a, const char *system, struct light *light)
{
	struct bb_topology *t = NULL;
	struct bb_rank_place *places = NULL;
	struct bb_error ignored = {0};
	struct bb_strbuf why = {0};
	const char *name = "";
	double GBps = 0;

	if (bb_topology_system(system, &t, &ignored) == BB_OK)
		places = places_of(a, t);
	if (places) {
		t->nodes = (int)a->nodes;
		GBps = highest(a, t, places, &why, &name);
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

/* BB_IMPOSSIBLE: more than the links of any known system with such cards carry. */
static enum bb_normality tell_bound(const struct asked *a)
{
	const struct bb_claims *const c = a->claims;
	struct light light = {.GBps = 0};
	enum bb_normality n = BB_NORMAL;
	double most = 0;

	for (size_t i = 0; i < c->n; i++)
		most = fmax(most, c->list[i].busbw_GBps);
	for (int i = 0; bb_card_system(a->card, i); i++)
		raise_bound(a, bb_card_system(a->card, i), &light);
	if (light.GBps > 0)
		bb_strbuf_addf(a->out,
			       "  Best row: %.4g GB/s, %.0f%% of the %s bound of %lld x %s: %s.\n",
			       most, 100 * most / light.GBps, light.name, (long long)a->nodes,
			       light.system, bb_strbuf_text(&light.why));
	if (light.GBps > 0 && most > 1.02 * light.GBps) {
		n = BB_IMPOSSIBLE;
		bb_strbuf_add(a->out, "  That is more than such links carry: another system, or a "
				      "wrong number of ranks or nodes.\n");
	}
	bb_strbuf_free(&light.why);
	return n;
}

/* ---- what to do -------------------------------------------------------------------------------
 */

static void tell_next(const struct asked *a, enum bb_normality n)
{
	if (n != BB_LOW)
		return;
	if (!a->card)
		bb_strbuf_add(a->out,
			      "  Next: is the machine idle? build/topology and "
			      "build/mem_bandwidth_perf show what it is and what it can.\n");
	else if (on_one_domain(a->card, a->ranks, a->nodes))
		bb_strbuf_add(
			a->out,
			"  Next: build/topology (NVLinks that are down, GPUs without P2P); "
			"build/p2p_bandwidth_perf (which pair is slow); NCCL_DEBUG=INFO (is NVLS "
			"used, is P2P or SHM disabled?); clocks and power limits.\n");
	else
		bb_strbuf_add(
			a->out,
			"  Next: NCCL_DEBUG=INFO (are all NICs used, with GPUDirect RDMA and the "
			"network plugin, not sockets?); the same on one node alone; build/diagnose "
			"(which node or link is slow); build/topology --diff of two nodes.\n");
}

/* A bound of copies counts bytes: where they lie is not in it. */
static void tell_beyond(const struct asked *a)
{
	const struct bb_claims *const c = a->claims;

	bb_strbuf_addf(
		a->out, "  Above its bound: the largest size reaches %.0f%% of it%s (%s). %s\n",
		c->percent_of_bound, c->list[c->n - 1].in_place ? " in place" : "", c->bound_source,
		strstr(c->bound_source, "copy speed")
			? "It is that of plain copies from one buffer to another. Data that "
			  "is passed on while a cache has it takes less, and so do buffers "
			  "in place, of which there are half as many: with larger sizes "
			  "(-e) it can be told."
			: "No more than that goes over the links: it is another link, or "
			  "counted wrong.");
}

/* Cards that no table holds are compared with nothing. */
static void tell_unknown_card(const struct asked *a)
{
	const char *names[32] = {NULL}, *near;
	int n = 0;

	if (!a->gpu[0]) {
		bb_strbuf_add(a->out, "  The file names no GPU; name it with --gpu.\n");
		return;
	}
	bb_strbuf_addf(
		a->out,
		"  No published numbers for %s. Cards with published numbers or known systems:",
		a->gpu);
	for (; bb_card_at(n) && n < 31; n++) {
		names[n] = bb_card_at(n)->name;
		bb_strbuf_addf(a->out, "%s %s", n > 0 ? "," : "", names[n]);
	}
	near = bb_nearest(a->gpu, names);
	bb_strbuf_addf(a->out, ".%s%s%s\n", near ? " Did you mean " : "", near ? near : "",
		       near ? "?" : "");
}

/* Of the backends without GPUs there are no published runs: only the bound of the records. */
static enum bb_normality by_bound(const struct asked *a)
{
	const struct bb_claims *const c = a->claims;
	const bool low = c->percent_of_bound < 100 * BB_NORMAL_BOUND;

	if (isnan(c->percent_of_bound)) {
		tell_unknown_card(a);
		return BB_UNKNOWN;
	}
	if (c->percent_of_bound > 100 * BB_NORMAL_BEYOND) {
		tell_beyond(a);
		return BB_HIGH;
	}
	bb_strbuf_addf(a->out,
		       "  %s: the largest size reaches %.0f%% of its bound (%s). There are no "
		       "published runs of %s.\n",
		       low ? "Low" : "Normal", c->percent_of_bound, c->bound_source,
		       a->gpu[0] ? a->gpu : "such machines");
	return low ? BB_LOW : BB_NORMAL;
}

static void tell_title(const struct asked *a)
{
	const struct bb_claims *const c = a->claims;

	bb_strbuf_addf(a->out, "%s%s%s", c->collective[0] ? c->collective : "a collective",
		       c->algorithm[0] ? ", " : "", c->algorithm);
	if (c->nranks > 0)
		bb_strbuf_addf(a->out, ", %lld rank%s", (long long)c->nranks, bb_plural(c->nranks));
	if (c->hosts > 0)
		bb_strbuf_addf(a->out, " on %lld host%s", (long long)c->hosts, bb_plural(c->hosts));
	bb_strbuf_addf(a->out, "%s%s: %zu result%s\n", c->gpu[0] ? ", " : "", c->gpu, c->n,
		       bb_plural(c->n));
	if (c->implausible > 0)
		bb_strbuf_addf(a->out,
			       "  %zu left out: their algbw is not their size over their time.\n",
			       c->implausible);
	if (c->not_finite > 0)
		bb_strbuf_addf(a->out, "  %zu left out: nan or inf is among their numbers.\n",
			       c->not_finite);
}

/* However fast: wrong data is never normal. */
static void tell_data(const struct asked *a)
{
	const struct bb_claims *const c = a->claims;

	if (c->wrong > 0)
		bb_strbuf_addf(a->out,
			       "  Wrong data in %zu result%s (#wrong is not 0): what is fast and "
			       "wrong is not normal.\n",
			       c->wrong, bb_plural(c->wrong));
	if (c->unchecked > 0)
		bb_strbuf_addf(a->out, "  The data of %zu result%s was not checked.\n",
			       c->unchecked, bb_plural(c->unchecked));
}

/* Of one rank nccl-tests prints 0. Small sizes do so of any number, by rounding. */
static bool is_alone(const struct bb_claims *claims)
{
	bool fast = false;

	for (size_t i = 0; i < claims->n; i++) {
		if (claims->list[i].busbw_GBps > 0)
			return false;
		fast |= claims->list[i].algbw_GBps >= 0.1;
	}
	return fast;
}

enum bb_normality bb_normal(const struct bb_claims *claims, const struct bb_references *references,
			    const struct bb_circumstances *circumstances, struct bb_strbuf *out)
{
	struct asked a = {claims,    references,       circumstances,
			  .gpu = "", .collective = "", .out = out};
	enum bb_normality n;

	tell_title(&a);
	if (claims->simulated) {
		bb_strbuf_add(out, "  Simulated: in virtual time, on no machine. There is nothing "
				   "to compare it with.\n");
		return BB_UNKNOWN;
	}
	tell_data(&a);
	if (claims->n == 0)
		return claims->wrong > 0 ? BB_WRONG : BB_IMPOSSIBLE;
	if (is_alone(claims)) {
		bb_strbuf_add(out,
			      "  busbw is 0: every rank was alone, and nothing went over any link. "
			      "Were there several, they did not find each other: nccl-tests built "
			      "without MPI=1, or another MPI's launcher.\n");
		return claims->wrong > 0 ? BB_WRONG : BB_IMPOSSIBLE;
	}
	find_collective(&a);
	if (!a.collective[0]) {
		tell_collectives(&a);
		return claims->wrong > 0 ? BB_WRONG : BB_UNKNOWN;
	}
	if (!find_ranks(&a))
		return claims->wrong > 0 ? BB_WRONG : BB_IMPOSSIBLE;
	a.gpu = circumstances->gpu ? circumstances->gpu : claims->gpu;
	a.card = bb_card_find(a.gpu);
	find_nodes(&a);
	if (!a.card) {
		n = by_bound(&a);
	} else {
		n = compare(&a);
		if (tell_bound(&a) == BB_IMPOSSIBLE)
			n = BB_IMPOSSIBLE;
	}
	tell_next(&a, n);
	return claims->wrong > 0 ? BB_WRONG : n;
}
