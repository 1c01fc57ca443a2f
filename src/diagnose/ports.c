#include "diagnose/diagnose.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_NODES 3

void bb_ports_free(struct bb_ports *ports)
{
	free(ports->rank);
	free(ports->node);
	free(ports->rail);
	memset(ports, 0, sizeof(*ports));
}

/* Set the node of each rank; returns how many nodes there are. */
static int choose_nodes(const struct bb_run *run, int64_t node_ranks, int *node)
{
	const struct bb_rank_info *infos = run->infos;
	const int nranks = run->world.nranks;
	int hosts = 0;

	for (int r = 0; r < nranks; r++) { /* the hosts, in the order of their first ranks */
		int before = r - 1;        /* mostly the same host */

		while (before >= 0 &&
		       strcmp(infos[before].location.host, infos[r].location.host) != 0)
			before--;
		node[r] = before >= 0 ? node[before] : hosts++;
	}
	if (node_ranks == 0 && run->options.cluster)
		node_ranks = run->options.cluster->gpus;
	else if (node_ranks == 0 && hosts > 1 && hosts < nranks)
		return hosts;
	for (int r = 0; r < nranks; r++)
		node[r] = node_ranks > 0 ? r / (int)node_ranks : r;
	return node_ranks > 0 ? (nranks + (int)node_ranks - 1) / (int)node_ranks : nranks;
}

bb_status bb_ports_find(struct bb_ports *ports, const struct bb_run *run, int64_t node_ranks,
			struct bb_error *error)
{
	const int nranks = run->world.nranks;
	int *counts = calloc((size_t)nranks, sizeof(*counts));

	ports->rank = calloc((size_t)nranks, sizeof(*ports->rank));
	ports->node = calloc((size_t)nranks, sizeof(*ports->node));
	ports->rail = calloc((size_t)nranks, sizeof(*ports->rail));
	if (!counts || !ports->rank || !ports->node || !ports->rail) {
		free(counts);
		return bb_no_memory(error, "the ports of nodes");
	}
	ports->nodes = choose_nodes(run, node_ranks, ports->node);
	/* The rails of a node are its ranks in their order; there are as many as the smallest node
	   has. */
	for (int r = 0; r < nranks; r++)
		ports->rail[r] = counts[ports->node[r]]++;
	ports->rails = BB_MOST_RAILS;
	for (int i = 0; i < ports->nodes; i++)
		ports->rails = counts[i] < ports->rails ? counts[i] : ports->rails;
	free(counts);
	for (int r = 0; r < nranks; r++) {
		if (ports->rail[r] >= ports->rails)
			ports->node[r] = -1;
		else
			ports->rank[ports->node[r] * ports->rails + ports->rail[r]] = r;
	}
	if (ports->nodes < LEAST_NODES)
		return bb_fail(error, BB_EBACKEND,
			       "%d %s: blaming one takes two others to compare with; give at least "
			       "%d nodes",
			       ports->nodes, ports->nodes == 1 ? "node" : "nodes", LEAST_NODES);
	return BB_OK;
}
