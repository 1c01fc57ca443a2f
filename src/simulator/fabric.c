#include "simulator/fabric.h"

/* ---- flaws ---------------------------------------------------------------------------- */

/* The slowdown of NODE's flaws over RAIL (-1: within the node). */
static double flaw_of(const struct bb_fabric *f, int node, int rail)
{
	double factor = 1;

	for (int i = 0; i < f->nflaws; i++) {
		const struct bb_fabric_flaw *flaw = &f->flaws[i];

		if (flaw->node == node && flaw->factor > 0 &&
		    (flaw->rail < 0 || flaw->rail == rail))
			factor *= flaw->factor;
	}
	return factor;
}

int bb_fabric_rail(const struct bb_fabric *f, int rank)
{
	const int node = rank / f->per_node;
	int rail = f->rail_of[rank - node * f->per_node];

	for (int tried = 0; tried < f->rails; tried++) {
		bool lost = false;

		for (const struct bb_fabric_flaw *w = f->flaws; w < f->flaws + f->nflaws; w++)
			lost = lost || (w->node == node && w->rail == rail && w->factor == 0);
		if (!lost)
			break;
		rail = (rail + 1) % f->rails;
	}
	return rail;
}

/* ---- routes --------------------------------------------------------------------------- */

struct bb_fabric_route bb_fabric_route(const struct bb_fabric *f, int from, int to)
{
	const int a = from / f->per_node, b = to / f->per_node;
	struct bb_fabric_route route = {.outside = f->loopback || a / f->domain != b / f->domain,
					.second_per_byte = f->domain_second_per_byte,
					.latency = f->domain_latency};

	if (route.outside) {
		int hops = 0;

		route.out_rail = bb_fabric_rail(f, from);
		route.in_rail = bb_fabric_rail(f, to);
		if (a / f->pod != b / f->pod)
			hops = 2;
		else if (a / f->leaf != b / f->leaf || route.out_rail != route.in_rail)
			hops = 1;
		route.levels = (enum bb_fabric_level)(BB_LEVEL_LEAF + hops);
		route.second_per_byte = f->rail_second_per_byte;
		route.latency = f->latency[hops];
	} else if (a == b) {
		const struct bb_fabric_pair *pair =
			&f->pairs[(from - a * f->per_node) * f->per_node + to - b * f->per_node];

		route.second_per_byte = pair->second_per_byte;
		route.latency = pair->latency;
	}
	if (f->nflaws > 0) {
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
	for (int i = 0; i < f->nflaws; i++)
		if (f->flaws[i].factor == 0)
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
					int node, int rail)
{
	const double one = f->rail_second_per_byte;

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
	int64_t x = a, y = b;

	while (y) {
		const int64_t rest = x % y;

		x = y;
		y = rest;
	}
	return a / x * b;
}

/* What is shared has to be seen as a whole. */
int bb_fabric_period(const struct bb_fabric *f, int n)
{
	int64_t nodes = 1;

	if (f->nflaws > 0)
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
