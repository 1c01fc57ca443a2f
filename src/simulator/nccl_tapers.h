/*
 * nccl_tapers.h - how much slower NCCL's collectives are where a block of nodes (a leaf, a pod) has
 * fewer links up than down. Pure.
 *
 * Nodes are in the order of the ranks, block by block. Traffic that leaves a block spreads evenly
 * over the rails of all its nodes. Messages of alltoall, gather, scatter and sendrecv are moved to
 * their receiver's rail within the node (NCCL's PXN) where there is NVLink; elsewhere they change
 * rails above the leaf, also on their way to another node below it:
 *
 * - Rings go from node i to node i + 1 (connectRings, src/graph/connect.cc of NCCL 2.30.7): out of
 * a block comes what comes out of one node.
 * - Double binary trees over nodes (ncclGetDtree, src/graph/trees.cc): each edge carries half of
 * the bytes each way; those that leave a block are counted.
 * - PAT: each node's own tree, in which the node at offset o gets its bytes from o less its lowest
 *   set bit, counted likewise.
 * - alltoall: what goes to the nodes of other blocks. gather and scatter: the same of one node, the
 *   root's. sendrecv: one message of each block.
 */
#ifndef BB_SIMULATOR_NCCL_TAPERS_H
#define BB_SIMULATOR_NCCL_TAPERS_H

/* How many times as long as without a taper the network takes; below 1: no longer. */
struct bb_nccl_slowdown {
	double ring, tree, pat, alltoall, root, sendrecv;
};

/* Raise SLOWDOWN to that of NODES nodes, where each BLOCK of them shares uplinks with the rate of
   its rails over TAPER. RAILS is the number of rails among which messages change on uplinks; 1:
   none. */
void bb_nccl_taper(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails,
		   double taper);

/* The most edges of both trees over NODES that leave one of the blocks of BLOCK. */
int bb_nccl_tree_edges(int nodes, int block);

#endif
