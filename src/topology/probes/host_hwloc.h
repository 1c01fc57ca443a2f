/*
 * host_hwloc.h - the CPU side of a machine by hwloc.
 */
#ifndef BB_TOPOLOGY_PROBES_HOST_HWLOC_H
#define BB_TOPOLOGY_PROBES_HOST_HWLOC_H

#include "topology/probes/host.h"

#include <hwloc.h>

/* Fill HOST from a loaded TOPOLOGY. The caller frees HOST whatever is returned. BB_EINTERNAL
   without memory. */
BB_MUST bb_status bb_host_read(hwloc_topology_t topology, struct bb_host *host,
			       struct bb_error *error);

/* The index of the NUMA node that contains OBJ, a normal object; -1 if it spans several. If cores
   have memory of two kinds, that with the lower number. */
int bb_host_numa_of(const struct bb_host *host, hwloc_topology_t topology, hwloc_obj_t obj);

#endif
