/*
 * sets.h - the processors of cores, NUMA nodes and packages, as hwloc's format requires them.
 */
#ifndef BB_TOPOLOGY_FILES_SETS_H
#define BB_TOPOLOGY_FILES_SETS_H

#include "topology/topology.h"

#include <hwloc/bitmap.h>

struct bb_sets {
	hwloc_bitmap_t *numas; /* of each NUMA node; no processor is in two */
	hwloc_bitmap_t *cores; /* of each core: its first, and its share of what is left over */
	int nnumas, ncores;
	bool made_up; /* nothing is known: processor 0 stands for all */
};

/* False: out of memory. To be closed whatever came back. */
bool bb_sets_open(struct bb_sets *s, const struct bb_topology *t);
void bb_sets_close(struct bb_sets *s);

/* Whether a NUMA node holds several packages, or is in none. */
bool bb_sets_wide(const struct bb_sets *s, const struct bb_topology *t, int numa);
/* Whether package K has cores in a NUMA node. */
bool bb_sets_meet(const struct bb_sets *s, const struct bb_topology *t, int k, int numa);

/* Processors and NUMA nodes of package K in a NUMA node; -1: any. */
void bb_sets_collect(const struct bb_sets *s, const struct bb_topology *t, int k, int numa,
		     hwloc_bitmap_t cpus, hwloc_bitmap_t nodes);

#endif
