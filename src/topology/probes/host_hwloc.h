/*
 * host_hwloc.h - the CPU side as hwloc sees it.
 */
#ifndef BB_TOPOLOGY_PROBES_HOST_HWLOC_H
#define BB_TOPOLOGY_PROBES_HOST_HWLOC_H

#include "topology/probes/host.h"

#include <hwloc.h>

/* Fill HOST from a loaded TOPOLOGY. It is to be freed whatever comes back. */
BB_MUST bb_status bb_host_read(hwloc_topology_t topology, struct bb_host *host,
			       struct bb_error *error);

/* The index of the NUMA node that OBJ, a normal object, lies in; -1 if it spans several. Where
   memory of two kinds is at the same cores, that of the lower number. */
int bb_host_numa_of(const struct bb_host *host, hwloc_topology_t topology, hwloc_obj_t obj);

#endif
