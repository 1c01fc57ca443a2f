/*
 * link_bound.h - bounds of collectives by the links between the ranks of a run.
 */
#pragma once

#include "harness/results/record.h"
#include "schedules/schedule.h"
#include "topology/bound.h"

#define BB_DIGEST_TEXT 17

/* On rank 0: the machine, and the devices of the ranks on it and on machines like it. */
struct bb_link_bounds {
	const struct bb_topology *topology; /* borrowed */
	struct bb_rank_place *places;       /* of the ranks of rank 0's group */
	int n;                              /* ranks; 0: their devices are unknown */
	struct {
		bool known;
		double GBps; /* 0: none */
		struct bb_strbuf why;
	} bounds[BB_BOUNDS];
};

/*
 * Find the devices of rank 0's group on TOPOLOGY, which is that of all hosts; GPUS by their bus
 * addresses. If one is not found, or TOPOLOGY is NULL, no bound is known. BB_EINTERNAL without
 * memory.
 */
BB_MUST bb_status bb_link_bounds_open(struct bb_link_bounds *links, struct bb_topology *topology,
				      const struct bb_rank_infos *infos, bool gpus);
void bb_link_bounds_close(struct bb_link_bounds *links); /* of a zeroed one: nothing */

/*
 * Returns the bus bandwidth in GB/s that the links allow COLLECTIVE by ALGORITHM, as a record names
 * it, and its *SOURCE, which lasts as long as LINKS; 0: not known. If the library chooses, the best
 * algorithm that it may choose counts.
 */
double bb_link_bounds_find(struct bb_link_bounds *links, const struct bb_collective *collective,
			   const char *algorithm, const char **source);
