/*
 * nccl_tapers.h - what NCCL's collectives lose where fewer links go up from a block of nodes (a
 * leaf, a pod) than come down to it. Pure.
 *
 * Nodes stand in the order of the ranks, block by block. What leaves a block goes over the rails of
 * all its nodes, spread evenly. Messages of alltoall, gather, scatter and sendrecv are moved to
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

/* How many times as long as without a taper the network takes; below 1: as long. */
struct bb_nccl_slowdown {
	double ring, tree, pat, alltoall, root, sendrecv;
};

/* Raise SLOWDOWN to what it is among NODES, of which BLOCK each share links up whose rate is that
   of their own rails over TAPER. RAILS: among so many messages change on links up; 1: they do not.
 */
void bb_nccl_taper(struct bb_nccl_slowdown *slowdown, int nodes, int block, int rails,
		   double taper);

/* The most edges of both trees over NODES that leave one of the blocks of BLOCK. */
int bb_nccl_tree_edges(int nodes, int block);

#endif
