#include "simulator/nccl_tapers.h"

#include <math.h>

/* EDGES = the nodes that NODE has an edge to in the first tree; -1: none. */
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

/* What PAT over NODES sends out of a block, in units of one node's contribution. */
static double pat_outflow(int nodes, int block)
{
	double out = 0;

	for (int distance = 1; distance < nodes; distance *= 2) {
		const int parts = (nodes - 1 - distance) / (2 * distance) + 1;

		out += (double)parts * (distance < block ? distance : block);
	}
	return out;
}

/* Only messages on the sender's own rail stay below the leaf. */
static void taper_messages(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails,
			   double taper)
{
	const double n = nodes, m = block, up = (n - 1 - (m - 1) / rails) / (n - 1);

	slowdown->alltoall = fmax(slowdown->alltoall, taper * up);
	slowdown->root = fmax(slowdown->root, taper * up / m);
	slowdown->sendrecv = fmax(slowdown->sendrecv, taper / (rails > 1 ? 1 : m));
}

void bb_nccl_taper(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails, double taper)
{
	const double n = nodes, m = block;
	double node_edges;

	if (taper <= 1 || nodes == 1)
		return;
	if (rails > 1 || block < nodes)
		taper_messages(slowdown, nodes, block, rails, taper);
	if (block >= nodes)
		return;
	/* Each of two nodes has one edge in each tree; each of more nodes has three edges in one
	   tree and one in the other. */
	node_edges = nodes == 2 ? 2 : 4;
	slowdown->ring = fmax(slowdown->ring, taper / m);
	slowdown->tree =
		fmax(slowdown->tree, taper * bb_nccl_tree_edges(nodes, block) / (m * node_edges));
	slowdown->pat = fmax(slowdown->pat, taper * pat_outflow(nodes, block) / (m * (n - 1)));
}
