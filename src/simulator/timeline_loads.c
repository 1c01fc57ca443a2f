/*
 * timeline_loads.c - shared links, divided by their load in one round.
 */
#include "simulator/timeline_parts.h"

#include <stdlib.h>

enum side { OUT, IN, SIDES };

/* One shared link, used by USERS ranks of the group. */
struct shared {
	double bytes;
	int users;
};

struct bb_loads {
	const struct bb_link_model *links;
	int fan; /* rounds whose messages within a node share memory at once */
	bool is_shared[BB_LEVELS];
	struct shared *shared[SIDES][BB_LEVELS];
	double *own[SIDES][BB_LEVELS]; /* [member]: its bytes over the link that it uses */
};

void bb_loads_close(struct bb_loads *l)
{
	if (!l)
		return;
	for (int side = 0; side < SIDES; side++)
		for (int level = 0; level < BB_LEVELS; level++) {
			free(l->shared[side][level]);
			free(l->own[side][level]);
		}
	free(l);
}

struct bb_loads *bb_loads_open(const struct bb_link_model *links,
			       const struct bb_algorithm *schedule, int n)
{
	struct bb_loads *l = calloc(1, sizeof(*l));
	bool complete = l;
	int inside; /* members of a node */

	for (int level = 0; complete && level < BB_LEVELS; level++) {
		l->is_shared[level] = bb_fabric_shares(links->fabric, (enum bb_fabric_level)level);
		for (int side = 0; complete && l->is_shared[level] && side < SIDES; side++) {
			l->shared[side][level] = calloc(
				bb_fabric_shared_count(links->fabric, (enum bb_fabric_level)level),
				sizeof(struct shared));
			l->own[side][level] = calloc((size_t)n, sizeof(double));
			complete = l->shared[side][level] && l->own[side][level];
		}
	}
	if (!complete) {
		bb_loads_close(l);
		return NULL;
	}
	l->links = links;
	/* A sender whose messages are copied by others need not wait for one before the next. */
	l->fan = links->fabric->pulls && schedule->fan > 0 ? schedule->fan : 1;
	inside = n < links->fabric->per_node ? n : links->fabric->per_node;
	if (inside > 1 && l->fan >= inside)
		l->fan = inside - 1;
	return l;
}

/* The link of LEVEL that MEMBER uses on SIDE. */
static struct shared *used_by(const struct bb_loads *l, enum side side, int level, int member,
			      const struct bb_fabric_route *route)
{
	const struct bb_fabric *f = l->links->fabric;
	const int rank = bb_link_member(l->links, member);
	const int rail = side == OUT ? route->out_rail : route->in_rail;

	return &l->shared[side][level]
			 [bb_fabric_shared(f, (enum bb_fabric_level)level, rank, rail)];
}

static bool is_used(const struct bb_loads *l, const struct bb_fabric_route *route, int level)
{
	return l->is_shared[level] && bb_fabric_passes(route, (enum bb_fabric_level)level);
}

void bb_loads_add(struct bb_loads *l, int from, int to, const struct bb_fabric_route *route,
		  double bytes)
{
	for (int level = 0; level < BB_LEVELS; level++)
		for (int side = 0; is_used(l, route, level) && side < SIDES; side++) {
			const int member = side == OUT ? from : to;
			struct shared *s = used_by(l, (enum side)side, level, member, route);
			double *own = &l->own[side][level][member];

			s->users += *own == 0;
			s->bytes += bytes;
			*own += bytes;
		}
}

void bb_loads_drop(struct bb_loads *l, int from, int to, const struct bb_fabric_route *route)
{
	for (int level = 0; level < BB_LEVELS; level++)
		for (int side = 0; is_used(l, route, level) && side < SIDES; side++) {
			const int member = side == OUT ? from : to;

			*used_by(l, (enum side)side, level, member, route) = (struct shared){0, 0};
			l->own[side][level][member] = 0;
		}
}

/* The seconds per byte of the link of LEVEL that MEMBER uses on SIDE. */
static double second_of(const struct bb_loads *l, enum side side, int level, int member,
			const struct bb_fabric_route *route)
{
	const struct bb_fabric *f = l->links->fabric;
	const struct shared *s = used_by(l, side, level, member, route);
	const double share = fmin(s->bytes / l->own[side][level][member], s->users) *
			     (level == BB_LEVEL_MEMORY && !route->outside ? l->fan : 1);
	const double second = bb_fabric_shared_second_per_byte(
		f, (enum bb_fabric_level)level, bb_link_member(l->links, member) / f->per_node,
		side == OUT ? route->out_rail : route->in_rail);

	return share * second * bb_link_crowd(l->links, (enum bb_fabric_level)level, member);
}

double bb_loads_memory(const struct bb_loads *l, int to, const struct bb_fabric_route *route)
{
	return is_used(l, route, BB_LEVEL_MEMORY) ? second_of(l, IN, BB_LEVEL_MEMORY, to, route)
						  : 0;
}

double bb_loads_second_per_byte(const struct bb_loads *l, int from, int to,
				const struct bb_fabric_route *route)
{
	double most = route->second_per_byte;

	for (int level = 0; level < BB_LEVELS; level++)
		for (int side = 0; is_used(l, route, level) && side < SIDES; side++)
			most = fmax(most, second_of(l, (enum side)side, level,
						    side == OUT ? from : to, route));
	return most;
}
