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
	int member, rail;
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
		const enum bb_fabric_level level = (enum bb_fabric_level)(i / SIDES);

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

/* Set USES to those of a message from FROM to TO over ROUTE; returns their number. */
static int find_uses(const struct bb_loads *l, int from, int to,
		     const struct bb_fabric_route *route, struct use uses[USES])
{
	int n = 0;

	for (int i = 0; i < USES; i++) {
		struct use u = {(enum bb_fabric_level)(i / SIDES),
				(enum side)(i % SIDES),
				from,
				route->out_rail,
				l->shared[i],
				l->own[i]};

		if (!u.shared || !bb_fabric_passes(route, u.level))
			continue;
		if (u.side == IN) {
			u.member = to;
			u.rail = route->in_rail;
		}
		u.shared += bb_fabric_shared(l->links->fabric, u.level,
					     bb_link_member(l->links, u.member), u.rail);
		u.own += u.member;
		uses[n++] = u;
	}
	return n;
}

void bb_loads_add(struct bb_loads *l, int from, int to, const struct bb_fabric_route *route,
		  double bytes)
{
	struct use uses[USES];
	const int n = find_uses(l, from, to, route, uses);

	for (int i = 0; i < n; i++) {
		uses[i].shared->users += *uses[i].own == 0;
		uses[i].shared->bytes += bytes;
		*uses[i].own += bytes;
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
	const struct bb_fabric *f = l->links->fabric;
	double most = route->second_per_byte;
	struct use uses[USES];
	const int n = find_uses(l, from, to, route, uses);

	*memory = 0;
	for (int i = 0; i < n; i++) {
		const struct use *u = &uses[i];
		const bool inside = u->level == BB_LEVEL_MEMORY && !route->outside;
		const double share =
			fmin(u->shared->bytes / *u->own, u->shared->users) * (inside ? l->fan : 1);
		const double second = bb_fabric_shared_second_per_byte(
			f, u->level, bb_link_member(l->links, u->member) / f->per_node, u->rail);
		const double all = share * second * bb_link_crowd(l->links, u->level, u->member);

		most = fmax(most, all);
		if (u->level == BB_LEVEL_MEMORY && u->side == IN)
			*memory = all;
	}
	return most;
}
