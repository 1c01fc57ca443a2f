#include "simulator/fabric.h"

#include <stdlib.h>

/* ---- flaws ---------------------------------------------------------------------------- */

/* The slowdown of NODE over RAIL (-1: within the node). */
static double flaw_of(const struct bb_fabric *f, int node, int rail)
{
	const struct bb_fabric_flaw *flaw = &f->flaw;

	return f->flawed && flaw->node == node && flaw->factor > 0 &&
			       (flaw->rail < 0 || flaw->rail == rail)
		       ? flaw->factor
		       : 1;
}

/* The rail that RANK uses: its own or, if that is lost, the node's next one. */
static int rail_of(const struct bb_fabric *f, int rank)
{
	const int node = rank / f->per_node, rail = f->rail_of[rank - node * f->per_node];
	const bool lost =
		f->flawed && f->flaw.node == node && f->flaw.rail == rail && f->flaw.factor == 0;

	return lost ? (rail + 1) % f->rails : rail;
}

/* ---- routes --------------------------------------------------------------------------- */

struct bb_fabric_route bb_fabric_route(const struct bb_fabric *f, int from, int to)
{
	const int a = from / f->per_node, b = to / f->per_node;
	struct bb_fabric_route route = {.outside = f->loopback || a / f->domain != b / f->domain,
					.path = BB_CLUSTER_NVLINK,
					.second_per_byte = f->domain_second_per_byte,
					.latency = f->domain_latency};

	if (route.outside) {
		route.out_rail = rail_of(f, from);
		route.in_rail = rail_of(f, to);
		route.path = BB_CLUSTER_LEAF;
		if (a / f->pod != b / f->pod)
			route.path = BB_CLUSTER_CORE;
		else if (a / f->leaf != b / f->leaf || route.out_rail != route.in_rail)
			route.path = BB_CLUSTER_POD;
		route.second_per_byte = f->rail_second_per_byte;
		route.latency = f->latency[route.path - BB_CLUSTER_LEAF];
	} else if (a == b) {
		const struct bb_fabric_pair *pair =
			&f->pairs[(from - a * f->per_node) * f->per_node + to - b * f->per_node];

		route.path = pair->path;
		route.second_per_byte = pair->second_per_byte;
		route.latency = pair->latency;
	}
	if (f->flawed) {
		const double out = flaw_of(f, a, route.outside ? route.out_rail : -1);
		const double in = flaw_of(f, b, route.outside ? route.in_rail : -1);

		route.second_per_byte *= out > in ? out : in;
	}
	return route;
}

/* ---- what is shared ------------------------------------------------------------------- */

bool bb_fabric_shares(const struct bb_fabric *f, enum bb_fabric_level level)
{
	if (level == BB_LEVEL_MEMORY)
		return f->memory_second_per_byte > 0;
	if (!bb_fabric_has_outside(f))
		return false;
	if (level != BB_LEVEL_RAIL)
		return (level == BB_LEVEL_LEAF ? f->leaf_taper : f->pod_taper) > 1;
	if (f->flawed && f->flaw.factor == 0)
		return true;
	for (int i = 0; i < f->per_node * f->per_node && f->rails > 0; i++)
		if (i % f->per_node < i / f->per_node &&
		    f->rail_of[i / f->per_node] == f->rail_of[i % f->per_node])
			return true;
	return false;
}

/* Ranks of a package. */
static int package_ranks(const struct bb_fabric *f)
{
	return (f->per_node + f->packages - 1) / f->packages;
}

struct bb_fabric bb_fabric_of_working_set(const struct bb_fabric *f, int n, double bytes)
{
	const int ranks = n < package_ranks(f) ? n : package_ranks(f);
	const double beyond = 1 - f->cache_bytes / (ranks * bytes);
	struct bb_fabric reduced = *f;

	reduced.memory_second_per_byte *= beyond > 0 ? beyond : 0;
	return reduced;
}

double bb_fabric_copy(const struct bb_fabric *f, int n)
{
	const int ranks = n < package_ranks(f) ? n : package_ranks(f);
	const double shared = ranks * f->memory_second_per_byte;

	return shared > f->domain_second_per_byte ? shared : f->domain_second_per_byte;
}

size_t bb_fabric_shared(const struct bb_fabric *f, enum bb_fabric_level level, int rank, int rail)
{
	const size_t rails = (size_t)f->rails;
	const int node = rank / f->per_node;

	if (level == BB_LEVEL_MEMORY)
		return (size_t)(node * f->packages + rank % f->per_node / package_ranks(f));
	if (level == BB_LEVEL_POD)
		return (size_t)(node / f->pod);
	return (size_t)(level == BB_LEVEL_LEAF ? node / f->leaf : node) * rails + (size_t)rail;
}

size_t bb_fabric_shared_count(const struct bb_fabric *f, enum bb_fabric_level level)
{
	return bb_fabric_shared(f, level, f->nodes * f->per_node - 1, f->rails - 1) + 1;
}

double bb_fabric_shared_second_per_byte(const struct bb_fabric *f, enum bb_fabric_level level,
					int rank, int rail)
{
	const double one = f->rail_second_per_byte;
	const int node = rank / f->per_node;

	if (level == BB_LEVEL_MEMORY)
		return f->memory_second_per_byte * flaw_of(f, node, -1);
	if (level == BB_LEVEL_RAIL)
		return one * flaw_of(f, node, rail);
	if (level == BB_LEVEL_LEAF)
		return one * f->leaf_taper / f->leaf;
	return one * f->pod_taper / ((double)f->pod * f->rails);
}

/* ---- what repeats --------------------------------------------------------------------- */

static int64_t common_multiple(int64_t a, int64_t b)
{
	int64_t divisor = a;

	for (int64_t rest = b; rest;) {
		const int64_t next = divisor % rest;

		divisor = rest;
		rest = next;
	}
	return a / divisor * b;
}

/* What is shared has to be seen as a whole. */
int bb_fabric_period(const struct bb_fabric *f, int n)
{
	int64_t nodes = 1;

	if (f->flawed)
		return n;
	if (bb_fabric_has_outside(f)) {
		nodes = f->domain;
		if (f->nodes > f->leaf || bb_fabric_shares(f, BB_LEVEL_LEAF))
			nodes = common_multiple(nodes, f->leaf);
		if (f->nodes > f->pod || bb_fabric_shares(f, BB_LEVEL_POD))
			nodes = common_multiple(nodes, f->pod);
	}
	return nodes < n && n % (nodes * f->per_node) == 0 ? (int)(nodes * f->per_node) : n;
}

/* ---- groups that share links ---------------------------------------------------------- */

static size_t link_of(const struct bb_fabric *f, enum bb_fabric_level level, int rank)
{
	return bb_fabric_shared(f, level, rank, rail_of(f, rank));
}

bool bb_crowds_open(struct bb_crowds *c, const struct bb_fabric *f, int ranks)
{
	c->fabric = f;
	c->ranks = ranks;
	for (enum bb_fabric_level level = 0; level < BB_LEVELS; level++) {
		/* Users of rails are counted always, of other links where they are shared. */
		if (!bb_fabric_shares(f, level) &&
		    (level != BB_LEVEL_RAIL || !bb_fabric_has_outside(f)))
			continue;
		const size_t links = bb_fabric_shared_count(f, level);
		c->users[level] = calloc(links, sizeof(*c->users[level]));
		c->members[level] = calloc(links, sizeof(*c->members[level]));
		if (!c->users[level] || !c->members[level])
			return false;
		for (int rank = 0; rank < ranks; rank++)
			c->users[level][link_of(f, level, rank)]++;
	}
	return true;
}

void bb_crowds_free(struct bb_crowds *c)
{
	for (enum bb_fabric_level level = 0; level < BB_LEVELS; level++) {
		free(c->users[level]);
		free(c->members[level]);
	}
}

bool bb_crowds_find(struct bb_crowds *c, const int *members, int n, double **crowd)
{
	const struct bb_fabric *f = c->fabric;
	const int span = f->per_node * f->domain;
	bool leaves = f->loopback, any = false;

	*crowd = NULL;
	for (int i = 1; i < n; i++)
		leaves = leaves || members[i] / span != members[0] / span;
	if (n == c->ranks || (!bb_fabric_shares(f, BB_LEVEL_MEMORY) && !leaves))
		return true;
	*crowd = malloc((size_t)n * BB_LEVELS * sizeof(**crowd));
	if (!*crowd)
		return false;
	for (enum bb_fabric_level level = 0; level < BB_LEVELS; level++) {
		const int *users = c->users[level];
		int *mine = c->members[level];

		for (int i = 0; i < n && users; i++)
			mine[link_of(f, level, members[i])]++;
		for (int i = 0; i < n; i++) {
			const size_t link = users ? link_of(f, level, members[i]) : 0;
			const double times = users ? (double)users[link] / mine[link] : 1;

			(*crowd)[i * BB_LEVELS + level] = times;
			any |= times != 1;
		}
		for (int i = 0; i < n && users; i++)
			mine[link_of(f, level, members[i])] = 0;
	}
	if (!any) {
		free(*crowd);
		*crowd = NULL;
	}
	return true;
}
