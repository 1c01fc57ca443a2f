/*
 * nvml.h - what NVIDIA's driver says about its GPUs: names and order, NVLink, peer access.
 */
#ifndef BB_TOPOLOGY_PROBES_NVML_H
#define BB_TOPOLOGY_PROBES_NVML_H

#include "topology/topology.h"

/* Add to T, whose PCI objects are there. Without NVML's library, or if it does not start, nothing
   is added and *FOUND is false. */
BB_MUST bb_status bb_nvml_read(struct bb_topology *t, bool *found, struct bb_error *error);

#endif
