/*
 * paths.c - what passes the path between the NICs of two nodes, of all that leaves a NIC, and
 * what leaves a block of nodes.
 *
 * NCCL orders nodes by their first rank and keeps to a rail between them (connectRings,
 * connectTrees and connectNvls of src/graph/connect.cc, ncclGetDtree of
 * src/graph/trees.cc, 2.30.7):
 *
 * - A ring sends all that leaves a node to the next node.
 * - Trees: two binary trees with half of the bytes each, up and down each edge. The second is the
 *   mirror of the first or, of an odd number of nodes, is shifted by one. A NIC of three or more
 *   nodes sends four such halves, one of two nodes two, both to the other.
 * - An alltoall sends a NIC of each other node as much; NVLinks bring messages to their rail (PXN).
 */
#include "simulator/nccl/model.h"

#include <math.h>

/* EDGES = the nodes that NODE has an edge to in the first tree (ncclGetBtree); -1: none. */
static void first_tree(int nodes, int node, int edges[3])
{
	const int lowest = node & -node, up = (node ^ lowest) | lowest << 1;
	int bit = lowest >> 1;

	edges[0] = edges[1] = edges[2] = -1;
	if (node == 0) {
		for (bit = 1; bit < nodes; bit <<= 1)
			edges[0] = bit;
		return;
	}
	edges[0] = up < nodes ? up : node ^ lowest;
	edges[1] = bit > 0 ? node - bit : -1;
	while (bit > 0 && node + bit >= nodes)
		bit >>= 1;
	edges[2] = bit > 0 ? node + bit : -1;
}

/* The second tree mirrors the first; for an odd number of nodes it is shifted by one. */
static void second_tree(int nodes, int node, int edges[3])
{
	const int shift = nodes % 2;

	first_tree(nodes, shift ? (node + nodes - 1) % nodes : nodes - 1 - node, edges);
	for (int i = 0; i < 3; i++)
		if (edges[i] >= 0)
			edges[i] = shift ? (edges[i] + 1) % nodes : nodes - 1 - edges[i];
}

double bb_nccl_path_share(const struct bb_nccl_machine *machine,
			  const struct bb_collective *collective, enum bb_nccl_algorithm algorithm)
{
	const int n = machine->nodes, from = machine->slow_path.from, to = machine->slow_path.to;
	int edges[6], joined = 0;

	if (from == to)
		return NAN;
	switch (algorithm) {
	case BB_NCCL_RING:
		return to == (from + 1) % n;
	case BB_NCCL_TREE:
	case BB_NCCL_NVLSTREE:
		first_tree(n, from, edges);
		second_tree(n, from, edges + 3);
		for (int i = 0; i < 6; i++)
			joined += edges[i] == to;
		return joined / (n == 2 ? 2.0 : 4.0);
	case BB_NCCL_ANY:
		return collective == &bb_alltoall && machine->nvlink ? 1.0 / (n - 1) : NAN;
	default:
		return NAN;
	}
}

const char *bb_nccl_path_unknown(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	struct bb_nccl_call chosen = {.algorithm = BB_NCCL_ANY};

	if (call->machine->slow_path.factor < 1)
		return NULL;
	if (!bb_nccl_lacks(call->collective, BB_NCCL_ANY))
		(void)bb_nccl_choose(c, call, &chosen);
	if (!isnan(bb_nccl_path_share(call->machine, call->collective, chosen.algorithm)))
		return NULL;
	if (call->machine->slow_path.from == call->machine->slow_path.to)
		return "NCCL's paths between GPUs of a node are not modelled, so the cost of "
		       "slow_link there is unknown; name a schedule, as busbench:ring";
	return "which of NCCL's messages take this slow_link is not modelled, so its cost is "
	       "unknown; name a schedule, as busbench:ring";
}

struct bb_nccl_faults bb_nccl_faults_of(const struct bb_nccl_machine *machine,
					const struct bb_collective *collective,
					enum bb_nccl_algorithm algorithm)
{
	const double factor = machine->slow_path.factor;
	const double share = factor >= 1 ? bb_nccl_path_share(machine, collective, algorithm) : 0;

	return (struct bb_nccl_faults){
		.net = fmax(fmax(machine->net_fault, 1), factor * share),
		.delay = share > 0 ? factor - 1 : 0,
	};
}

/* ---- tapers --------------------------------------------------------------------------- */

int bb_nccl_tree_edges(int nodes, int block)
{
	int most = 0, edges = 0;

	for (int node = 0; node < nodes; node++) {
		int to[6];

		edges = node % block == 0 ? 0 : edges;
		first_tree(nodes, node, to);
		second_tree(nodes, node, to + 3);
		for (int i = 0; i < 6; i++)
			edges += to[i] >= 0 && to[i] / block != node / block;
		most = edges > most ? edges : most;
	}
	return most;
}

void bb_nccl_taper(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails, double taper)
{
	const double n = nodes, m = block, up = (n - 1 - (m - 1) / rails) / (n - 1);
	double node_edges, pat = 0; /* what PAT sends out of a block, in parts of a node */

	if (taper <= 1 || nodes == 1)
		return;
	if (rails > 1 || block < nodes) {
		/* Only messages on the sender's own rail stay below the leaf. */
		slowdown->alltoall = fmax(slowdown->alltoall, taper * up);
		slowdown->root = fmax(slowdown->root, taper * up / m);
		slowdown->sendrecv = fmax(slowdown->sendrecv, taper / (rails > 1 ? 1 : m));
	}
	if (block >= nodes)
		return;
	/* Each of two nodes has one edge in each tree; each of more nodes has three edges in one
	   tree and one in the other. */
	node_edges = nodes == 2 ? 2 : 4;
	slowdown->ring = fmax(slowdown->ring, taper / m);
	slowdown->tree =
		fmax(slowdown->tree, taper * bb_nccl_tree_edges(nodes, block) / (m * node_edges));
	for (int distance = 1; distance < nodes; distance *= 2) {
		const int parts = (nodes - 1 - distance) / (2 * distance) + 1;

		pat += (double)parts * (distance < block ? distance : block);
	}
	slowdown->pat = fmax(slowdown->pat, taper * pat / (m * (n - 1)));
}
