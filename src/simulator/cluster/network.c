#include "simulator/cluster/network.h"

#include <math.h>
#include <stdlib.h>

static double per_byte(double rate)
{
	return rate > 0 && !isinf(rate) ? 1 / rate : 0;
}

/* ---- users of links ------------------------------------------------------------------- */

/* The shared link of LEVEL that RANK uses. */
static size_t shared_link_of(const struct bb_fabric *f, int level, int rank)
{
	return bb_fabric_shared(f, (enum bb_fabric_level)level, rank, bb_fabric_rail(f, rank));
}

static bool open_users(struct bb_network *network)
{
	for (int i = 0; i < 2 * BB_LEVELS; i++) {
		const int level = i % BB_LEVELS;
		const struct bb_fabric *f = i < BB_LEVELS ? &network->fabric : &network->faulty;
		int **users = &network->users[i / BB_LEVELS][level];
		int **members = &network->members[level];
		size_t links;

		/* Users of rails are counted always, of other links where they are shared. */
		if (!bb_fabric_shares(f, (enum bb_fabric_level)level) &&
		    (level != BB_LEVEL_RAIL || !bb_fabric_has_outside(f)))
			continue;
		links = bb_fabric_shared_count(f, (enum bb_fabric_level)level);
		*users = calloc(links, sizeof(**users));
		*members = *members ? *members : calloc(links, sizeof(**members));
		if (!*users || !*members)
			return false;
		for (int rank = 0; rank < network->ranks; rank++)
			(*users)[shared_link_of(f, level, rank)]++;
	}
	return true;
}

bool bb_network_crowd(struct bb_network *network, const struct bb_fabric *f, const int *members,
		      int n, double **crowd)
{
	const bool faulty = f == &network->faulty;
	const int span = f->per_node * f->domain;
	bool leaves = f->loopback, any = false;

	*crowd = NULL;
	for (int i = 1; i < n; i++)
		leaves = leaves || members[i] / span != members[0] / span;
	if (n == network->ranks || (!bb_fabric_shares(f, BB_LEVEL_MEMORY) && !leaves))
		return true;
	*crowd = malloc((size_t)n * BB_LEVELS * sizeof(**crowd));
	if (!*crowd)
		return false;
	for (int level = 0; level < BB_LEVELS; level++) {
		const int *users = network->users[faulty][level];
		int *mine = network->members[level];

		for (int i = 0; i < n && users; i++)
			mine[shared_link_of(f, level, members[i])]++;
		for (int i = 0; i < n; i++) {
			const size_t link = users ? shared_link_of(f, level, members[i]) : 0;
			const double times = users ? (double)users[link] / mine[link] : 1;

			(*crowd)[i * BB_LEVELS + level] = times;
			any |= times != 1;
		}
		for (int i = 0; i < n && users; i++)
			mine[shared_link_of(f, level, members[i])] = 0;
	}
	if (!any) {
		free(*crowd);
		*crowd = NULL;
	}
	return true;
}

/* ---- the network ---------------------------------------------------------------------- */

bool bb_network_make(struct bb_network *network, const struct bb_cluster *c, int ranks,
		     const struct bb_fabric_flaw *flaw)
{
	const double *f = c->figures;
	const int n = c->gpus * c->gpus;

	network->ranks = ranks;
	network->pairs = malloc((size_t)n * sizeof(*network->pairs));
	if (!network->pairs)
		return false;
	for (int i = 0; i < n; i++)
		network->pairs[i] =
			(struct bb_fabric_pair){per_byte(c->pairs[i].rate), c->pairs[i].latency};
	network->fabric = (struct bb_fabric){
		.nodes = c->nodes,
		.per_node = c->gpus,
		.domain = c->domain,
		.leaf = (int)f[BB_FIGURE_LEAF_NODES],
		.pod = (int)f[BB_FIGURE_POD_NODES],
		.rails = c->rails,
		.rail_of = c->rail_of,
		.pairs = network->pairs,
		.domain_second_per_byte = per_byte(c->gpu_rate),
		.domain_latency = f[BB_FIGURE_GPU_LATENCY],
		.rail_second_per_byte = per_byte(c->nic_rate),
		.overhead = f[BB_FIGURE_MESSAGE_OVERHEAD],
		.leaf_taper = f[BB_FIGURE_LEAF_TAPER],
		.pod_taper = f[BB_FIGURE_POD_TAPER],
	};
	if (c->inside == BB_INSIDE_MEMORY) {
		struct bb_fabric *fabric = &network->fabric;

		fabric->limits[0].most = f[BB_FIGURE_INLINE_SIZE];
		fabric->limits[0].latency = f[BB_FIGURE_EAGER_LATENCY];
		fabric->limits[1].most = f[BB_FIGURE_EAGER_SIZE];
		fabric->limits[1].latency = f[BB_FIGURE_RENDEZVOUS_LATENCY];
		fabric->pulls = true;
		fabric->sum_second_per_byte = per_byte(f[BB_FIGURE_ADD_RATE]);
		fabric->loopback = bb_cluster_loops_back(c);
		fabric->packages = c->node->host.npackages > 0 ? c->node->host.npackages : 1;
		fabric->memory_second_per_byte =
			per_byte(f[BB_FIGURE_MEMORY_RATE] * f[BB_FIGURE_MEMORY_EFFICIENCY]);
		fabric->cache_bytes = bb_cluster_cache(c);
	}
	for (int hops = 0; hops < 3; hops++)
		network->fabric.latency[hops] =
			f[BB_FIGURE_NET_LATENCY] + 2 * hops * f[BB_FIGURE_SWITCH_LATENCY];
	network->faulty = network->fabric;
	if (flaw) {
		network->flaw = *flaw;
		network->faulty.flaws = &network->flaw;
		network->faulty.nflaws = 1;
	}
	return open_users(network);
}

void bb_network_free(struct bb_network *network)
{
	for (int level = 0; level < BB_LEVELS; level++) {
		free(network->users[0][level]);
		free(network->users[1][level]);
		free(network->members[level]);
	}
	free(network->pairs);
}
