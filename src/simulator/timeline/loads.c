/*
 * loads.c - shared links, divided by their load in one round.
 */
#include "simulator/timeline/links.h"

#include <string.h>

enum side { OUT, IN, SIDES };
enum { USES = SIDES * BB_LEVELS };

/* One shared link, used by USERS ranks of the group. */
struct shared {
	double bytes;
	int users;
};

struct bb_loads {
	const struct bb_link_model *links;
	int fan;                     /* rounds whose messages within a node share memory at once */
	struct shared *shared[USES]; /* [level * SIDES + side]: [link]; NULL: not shared */
	size_t nshared[USES];        /* likewise: links */
	double *own[USES];           /* likewise: [member]: its bytes over the link that it uses */
	size_t n;                    /* members */
};

/* The use of a shared link by a message. */
struct use {
	enum bb_fabric_level level;
	enum side side;
	int member, rank, rail;
	struct shared *shared;
	double *own;
};

struct bb_loads *bb_loads_open(const struct bb_link_model *links, struct bb_slabs *slabs,
			       const struct bb_algorithm *schedule, int n)
{
	const struct bb_fabric *f = links->fabric;
	const int inside = n < f->per_node ? n : f->per_node; /* members of a node */
	struct bb_loads *l;

	if (!BB_TAKE_ZEROED(slabs, l, 1))
		return NULL;
	for (int i = 0; i < USES; i++) {
		const enum bb_fabric_level level = i / SIDES;

		if (!bb_fabric_shares(f, level))
			continue;
		l->nshared[i] = bb_fabric_shared_count(f, level);
		BB_TAKE_ZEROED(slabs, l->shared[i], l->nshared[i]);
		BB_TAKE_ZEROED(slabs, l->own[i], (size_t)n);
	}
	l->links = links;
	l->n = (size_t)n;
	/* A sender whose messages are copied by others need not wait for one before the next. */
	l->fan = f->pulls && schedule->fan > 0 ? schedule->fan : 1;
	if (inside > 1 && l->fan >= inside)
		l->fan = inside - 1;
	return l;
}

/* Set U to use I of a message from FROM to TO over ROUTE; false: it has no such use. */
static bool use_of(const struct bb_loads *l, int i, int from, int to,
		   const struct bb_fabric_route *route, struct use *u)
{
	const bool in = i % SIDES == IN;

	*u = (struct use){.level = i / SIDES,
			  .side = i % SIDES,
			  .member = in ? to : from,
			  .rail = in ? route->in_rail : route->out_rail};
	if (!l->shared[i] || !bb_fabric_passes(route, u->level))
		return false;
	u->rank = bb_link_member(l->links, u->member);
	u->shared = &l->shared[i][bb_fabric_shared(l->links->fabric, u->level, u->rank, u->rail)];
	u->own = &l->own[i][u->member];
	return true;
}

void bb_loads_add(struct bb_loads *l, int from, int to, const struct bb_fabric_route *route,
		  double bytes)
{
	struct use u;

	for (int i = 0; i < USES; i++) {
		if (!use_of(l, i, from, to, route, &u))
			continue;
		u.shared->users += *u.own == 0;
		u.shared->bytes += bytes;
		*u.own += bytes;
	}
}

void bb_loads_clear(struct bb_loads *l)
{
	for (int i = 0; i < USES; i++) {
		if (!l->shared[i])
			continue;
		memset(l->shared[i], 0, l->nshared[i] * sizeof(*l->shared[i]));
		memset(l->own[i], 0, l->n * sizeof(*l->own[i]));
	}
}

double bb_loads_second_per_byte(const struct bb_loads *l, int from, int to,
				const struct bb_fabric_route *route, double *memory)
{
	double most = route->second_per_byte;
	struct use u;

	*memory = 0;
	for (int i = 0; i < USES; i++) {
		double all;

		if (!use_of(l, i, from, to, route, &u))
			continue;
		all = fmin(u.shared->bytes / *u.own, u.shared->users) *
		      (u.level == BB_LEVEL_MEMORY && !route->outside ? l->fan : 1) *
		      bb_fabric_shared_second_per_byte(l->links->fabric, u.level, u.rank, u.rail) *
		      bb_link_crowd(l->links, u.level, u.member);
		most = fmax(most, all);
		if (u.level == BB_LEVEL_MEMORY && u.side == IN)
			*memory = all;
	}
	return most;
}
