#include "backends/sim/network.h"

#include <math.h>
#include <stdlib.h>

const struct bb_route bb_sim_routes[] = {
	{.name = "send",
	 .brief = "a message over the modelled link",
	 .uses = BB_ROUTE_TRANSFER,
	 .actor = BB_BY_BOTH,
	 .direct = true},
	{.name = "word",
	 .brief = "a message of 8 bytes, there and back",
	 .uses = BB_ROUTE_PING,
	 .actor = BB_BY_BOTH,
	 .direct = true},
	{.name = NULL},
};

static double per_byte(double rate)
{
	return rate > 0 && !isinf(rate) ? 1 / rate : 0;
}

bool bb_network_make(struct bb_network *network, const struct bb_cluster *c,
		     const struct bb_fabric_flaw *flaw)
{
	const struct bb_cluster_figure *f = c->figures;
	const int n = c->gpus * c->gpus;

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
		.leaf = (int)f[BB_FIGURE_LEAF_NODES].value,
		.pod = (int)f[BB_FIGURE_POD_NODES].value,
		.rails = c->rails,
		.rail_of = c->rail_of,
		.pairs = network->pairs,
		.domain_second_per_byte = per_byte(c->gpu_rate),
		.domain_latency = f[BB_FIGURE_GPU_LATENCY].value,
		.rail_second_per_byte = per_byte(c->nic_rate),
		.overhead = f[BB_FIGURE_MESSAGE_OVERHEAD].value,
		.leaf_taper = f[BB_FIGURE_LEAF_TAPER].value,
		.pod_taper = f[BB_FIGURE_POD_TAPER].value,
	};
	for (int hops = 0; hops < 3; hops++)
		network->fabric.latency[hops] = f[BB_FIGURE_NET_LATENCY].value +
						2 * hops * f[BB_FIGURE_SWITCH_LATENCY].value;
	network->faulty = network->fabric;
	if (flaw) {
		network->flaw = *flaw;
		network->faulty.flaws = &network->flaw;
		network->faulty.nflaws = 1;
	}
	return true;
}

void bb_network_free(struct bb_network *network)
{
	free(network->pairs);
}
