/*
 * sysfs.h - attributes of devices by the kernel: link speed and width, NUMA node, access control,
 * rate and state of NICs.
 */
#ifndef BB_TOPOLOGY_PROBES_SYSFS_H
#define BB_TOPOLOGY_PROBES_SYSFS_H

#include "topology/topology.h"

/* Fill T from sysfs, mounted at ROOT ("/sys"). Values that sysfs lacks stay unchanged. */
void bb_sysfs_read(struct bb_topology *t, const char *root);

#endif
