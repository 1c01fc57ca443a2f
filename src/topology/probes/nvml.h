/*
 * nvml.h - GPUs as NVIDIA's driver reports them: names and order, NVLink, peer access.
 */
#ifndef BB_TOPOLOGY_PROBES_NVML_H
#define BB_TOPOLOGY_PROBES_NVML_H

#include "topology/topology.h"

/* Add GPUs to T, which has its PCI objects already. *FOUND is false, and T unchanged, where NVML's
   library is missing or does not start. BB_EINTERNAL: out of memory. */
BB_MUST bb_status bb_nvml_read(struct bb_topology *t, bool *found, struct bb_error *error);

#endif
