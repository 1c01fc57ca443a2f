/*
 * sources.h - what this machine's topology is read from, beside hwloc: the kernel and NVIDIA's
 * driver.
 */
#ifndef BB_TOPOLOGY_PROBES_SOURCES_H
#define BB_TOPOLOGY_PROBES_SOURCES_H

#include "topology/topology.h"

/* Fill T from sysfs, mounted at ROOT ("/sys"): link speed and width, NUMA node, access control,
   rate and state of NICs. Values that sysfs lacks stay unchanged. */
void bb_sysfs_read(struct bb_topology *t, const char *root);

/* Add GPUs by NVML to T, which has its PCI objects already: names and order, NVLink, peer access.
   *FOUND is false, and T unchanged, where its library is missing or does not start. BB_EINTERNAL:
   out of memory. */
BB_MUST bb_status bb_nvml_read(struct bb_topology *t, bool *found, struct bb_error *error);

#endif
