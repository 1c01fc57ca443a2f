/*
 * search.h - the channels that NCCL's search finds (ncclTopoCompute, src/graph/search.cc), and
 * the rate of each by which NCCL's tuner counts. NCCL searches over paths; this has closed forms
 * for nodes in which all GPUs have equal links.
 */
#ifndef BB_SIMULATOR_NCCL_SEARCH_H
#define BB_SIMULATOR_NCCL_SEARCH_H

#include "simulator/nccl/model.h"

/* Rates in bytes per second, of one channel, for messages within a node and between nodes. */
struct bb_nccl_channels {
	double count;
	double inside, between;
};

/* Each channel leaves a node by the NIC of one GPU and passes the NVLinks of the others. In one
   node it returns to its first GPU. */
struct bb_nccl_channels bb_nccl_search_rings(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m);

/* As many channels as RINGS. Each is a chain through the GPUs of a node, which does not return. */
struct bb_nccl_channels bb_nccl_search_trees(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m,
					     const struct bb_nccl_channels *rings);

/* A channel for each GPU, the head of its part: it receives the part once to reduce it and once as
   the result. */
struct bb_nccl_channels bb_nccl_search_heads(const struct bb_nccl_constants *c,
					     const struct bb_nccl_machine *m);

#endif
