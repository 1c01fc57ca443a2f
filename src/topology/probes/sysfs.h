/*
 * sysfs.h - what the kernel says about devices that the model has already: link speed and width,
 * NUMA node, access control, rate and state of NICs.
 */
#ifndef BB_TOPOLOGY_PROBES_SYSFS_H
#define BB_TOPOLOGY_PROBES_SYSFS_H

#include "topology/topology.h"

/* ROOT is where sysfs is mounted, "/sys". What is not there stays as it is. */
void bb_sysfs_read(struct bb_topology *t, const char *root);

#endif
