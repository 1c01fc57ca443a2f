/*
 * sysfs.h - the kernel's view of devices in the model: link speed and width, NUMA node, access
 * control, rate and state of NICs.
 */
#ifndef BB_TOPOLOGY_PROBES_SYSFS_H
#define BB_TOPOLOGY_PROBES_SYSFS_H

#include "topology/topology.h"

/* Fill T from sysfs, mounted at ROOT ("/sys"). Values that are missing there stay. */
void bb_sysfs_read(struct bb_topology *t, const char *root);

#endif
