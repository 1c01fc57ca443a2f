/*
 * bound.h - the speed of light: upper bounds of bandwidth, from the links of machines.
 */
#pragma once

#include "topology/topology.h"

/* The place of a rank. */
#define BB_ON_HOST (-1) /* in host memory, not on a GPU */
struct bb_rank_place {
	int node;   /* 0 to topology->nodes - 1 */
	int device; /* index of a GPU, or BB_ON_HOST */
};

enum bb_bound {
	BB_BOUND_PAIR,     /* one rank sends to another: bandwidth in one direction */
	BB_BOUND_RING,     /* bus bandwidth of collectives by ring */
	BB_BOUND_TREE,     /* of all_reduce by trees with equal loads */
	BB_BOUND_NVLS,     /* of all_reduce where NVSwitches reduce and multicast */
	BB_BOUND_SHARP,    /* of all_reduce where the network's switches reduce */
	BB_BOUND_ALLTOALL, /* of alltoall */
	BB_BOUNDS
};
const char *bb_bound_name(enum bb_bound what); /* "ring" */

/*
 * Set *GBps to the bound of WHAT over N >= 2 different RANKS, and append to WHY, which may be NULL,
 * the sentence that explains it, such as "18 NVLink4 × 25 GB/s payload = 450 GB/s".
 * docs/topology.md derives the bounds.
 *
 * A bound follows from the payload of links (rates.h), between nodes from that of the NICs nearest
 * to the ranks, so that no measurement exceeds it. BB_EUNSUPPORTED, with the reason in WHY and
 * *GBps 0: the bound does not exist, or the rate of a link is unknown. BB_EUSAGE: a rank is not in
 * the topology, or twice. Takes O(N + nodes) if most nodes have the same ranks.
 */
BB_MUST bb_status bb_speed_of_light(const struct bb_topology *t, const struct bb_rank_place *ranks,
				    int n, enum bb_bound what, double *GBps, struct bb_strbuf *why);

/* The GPUs of all nodes as *N ranks, node by node; NULL without memory. The caller frees them. */
struct bb_rank_place *bb_all_gpus(const struct bb_topology *t, int nodes, int *n);

/* A set of GPUs of one node: bit i is GPU number i. */
typedef uint64_t bb_gpus;

enum bb_fabric_kind {
	BB_FABRIC_SWITCH, /* NVSwitches join all */
	BB_FABRIC_MESH,   /* a ring of NVLinks joins all */
	BB_FABRIC_PCIE
};
enum bb_fabric_kind bb_fabric_of(const struct bb_topology *t, bb_gpus set);

/* The link of PCI object P to the object above, as it runs under load: an idle device lowers the
   generation, but not the width. */
struct bb_pcie bb_pci_link(const struct bb_topology *t, int p);

/* The same of device D; all zero if it is not on PCI. */
struct bb_pcie bb_device_link(const struct bb_topology *t, int d);

/* The PCIe switch (its upstream port) above device D whose link to the host is slowest, of those
   with a known rate, even if a virtual machine made it up; -1: none. */
int bb_pci_slowest_switch(const struct bb_topology *t, int d);

/* Whether device NIC is a NIC that serves a GPU of SET: it is one of the fastest among those
   nearest to it. SET 0: one of the fastest of all, which serve the host. */
bool bb_nic_serves(const struct bb_topology *t, bb_gpus set, int nic);
/* The payload of NIC alone; 0 unknown. */
double bb_nic_GBps(const struct bb_topology *t, int nic);
/* Its rate, or else the maximum of its model; 0: it is down, or its rate is unknown. */
int64_t bb_nic_Mbps(const struct bb_topology *t, int nic);
