/*
 * bound.h - the speed of light: the highest bandwidth that the links of machines allow.
 */
#ifndef BB_TOPOLOGY_BOUND_H
#define BB_TOPOLOGY_BOUND_H

#include "topology/topology.h"

/* Where a rank is. */
#define BB_ON_HOST (-1) /* in the memory of the CPUs, not on a GPU */
struct bb_rank_place {
	int node;   /* 0 … topology->nodes - 1 */
	int device; /* index of a GPU, or BB_ON_HOST */
};

enum bb_bound {
	BB_BOUND_PAIR,     /* one rank sends to another: bandwidth in one direction */
	BB_BOUND_RING,     /* bus bandwidth of collectives by ring */
	BB_BOUND_TREE,     /* of all_reduce by trees that share the load evenly */
	BB_BOUND_NVLS,     /* of all_reduce where NVSwitches reduce and multicast */
	BB_BOUND_SHARP,    /* of all_reduce where the network's switches reduce */
	BB_BOUND_ALLTOALL, /* of alltoall */
	BB_BOUNDS
};
const char *bb_bound_name(enum bb_bound what); /* "ring" */

/*
 * The bound of WHAT over N >= 2 different RANKS in GB/s, and in WHY the sentence that explains it,
 * such as "18 NVLink4 × 25 GB/s payload = 450 GB/s". How each is derived: docs/topology.md.
 *
 * A bound follows from the payload of links (rates.h), between nodes from that of the NICs nearest
 * to the ranks: no measurement exceeds it.
 * BB_EUNSUPPORTED, with the reason in WHY and *GBps 0: there is no such bound, or a link's rate is
 * not known. BB_EUSAGE: a rank is not in the topology, or there twice. Costs O(n + nodes) for
 * machines that are used alike.
 */
BB_MUST bb_status bb_speed_of_light(const struct bb_topology *t, const struct bb_rank_place *ranks,
				    int n, enum bb_bound what, double *GBps, struct bb_strbuf *why);

/* The GPUs of all nodes as ranks, node by node. *N of them; NULL if out of memory; to be freed. */
struct bb_rank_place *bb_all_gpus(const struct bb_topology *t, int nodes, int *n);

/* The link of PCI object P to the object above, as it runs under load: a sleeping device lowers the
   generation, not the width. */
struct bb_pcie bb_pci_link(const struct bb_topology *t, int p);

#endif
