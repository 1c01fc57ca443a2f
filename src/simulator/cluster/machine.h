/*
 * machine.h - what follows from the topology of a cluster's machine, for this folder alone.
 */
#ifndef BB_SIMULATOR_CLUSTER_MACHINE_H
#define BB_SIMULATOR_CLUSTER_MACHINE_H

#include "simulator/cluster/cluster.h"

/* Derive from c->node the ranks of a node, the links between them and the rails; and both rates
   where c->figures has none. BB_EUNSUPPORTED: the topology lacks a rate. */
BB_MUST bb_status bb_cluster_derive(struct bb_cluster *c, struct bb_error *error);

/* Does device NIC of T serve a GPU or, where there are none, the host? */
bool bb_cluster_nic_serves(const struct bb_topology *t, int nic);

/* The rate between GPUs A and B over PCIe, bytes per second; 0 unknown. */
double bb_cluster_pcie_rate(const struct bb_topology *t, int a, int b);

#endif
