/*
 * sets.h - sets of processors of cores, NUMA nodes and packages, as hwloc's format requires.
 */
#ifndef BB_TOPOLOGY_FILES_SETS_H
#define BB_TOPOLOGY_FILES_SETS_H

#include "topology/topology.h"

#include <hwloc/bitmap.h>

struct bb_sets {
	hwloc_bitmap_t *numas; /* of each NUMA node, disjoint */
	hwloc_bitmap_t *cores; /* of each core: its first processor, and a share of the rest */
	int nnumas, ncores;
	bool made_up; /* no processor is known; processor 0 stands in */
};

/* False without memory. The caller closes S whatever is returned. */
bool bb_sets_open(struct bb_sets *s, const struct bb_topology *t);
void bb_sets_close(struct bb_sets *s);

/* Whether a NUMA node spans several packages, or its package is unknown. */
bool bb_sets_wide(const struct bb_sets *s, const struct bb_topology *t, int numa);
/* Whether package K has cores in a NUMA node. */
bool bb_sets_meet(const struct bb_sets *s, const struct bb_topology *t, int k, int numa);

/* Add the processors and NUMA nodes of package K in NUMA node NUMA (-1: any) to CPUS and NODES. */
void bb_sets_collect(const struct bb_sets *s, const struct bb_topology *t, int k, int numa,
		     hwloc_bitmap_t cpus, hwloc_bitmap_t nodes);

#endif
