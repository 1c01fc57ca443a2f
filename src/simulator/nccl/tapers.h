/*
 * tapers.h - how much slower NCCL's collectives are where a block of nodes (a leaf, a pod) has
 * fewer links up than down. Pure.
 *
 * Nodes are in the order of the ranks, block by block. Traffic that leaves a block spreads evenly
 * over the rails of all its nodes. Messages of alltoall, gather, scatter and sendrecv are moved to
 * their receiver's rail within the node (NCCL's PXN) where there is NVLink; elsewhere they change
 * rails above the leaf, also on their way to another node below it:
 *
 * - Rings go from node i to node i + 1 (connectRings, src/graph/connect.cc of NCCL 2.30.7): a block
 *   sends as much as one node.
 * - Double binary trees over nodes (ncclGetDtree, src/graph/trees.cc): each edge carries half of
 * the bytes each way; the edges that leave a block are counted.
 * - PAT: each node has a tree of its own, in which the node at offset o receives from offset o
 * minus its lowest set bit; edges are counted likewise.
 * - alltoall: each node sends to the nodes of all other blocks; gather and scatter: only the root's
 *   node does; sendrecv: one message leaves each block.
 */
#ifndef BB_SIMULATOR_NCCL_TAPERS_H
#define BB_SIMULATOR_NCCL_TAPERS_H

/* The network's time with the taper over that without; below 1: no slowdown. */
struct bb_nccl_slowdown {
	double ring, tree, pat, alltoall, root, sendrecv;
};

/* Raise SLOWDOWN to that of NODES nodes, where each BLOCK of them shares uplinks whose rate is that
   of its rails divided by TAPER. RAILS is the number of rails among which messages change on
   uplinks; 1: messages do not change rails. */
void bb_nccl_taper(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails,
		   double taper);

/* The most edges of both trees over NODES that leave one of the blocks of BLOCK. */
int bb_nccl_tree_edges(int nodes, int block);

#endif
