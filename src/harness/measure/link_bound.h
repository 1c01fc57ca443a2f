/*
 * link_bound.h - what the links between the ranks of a run allow.
 */
#ifndef BB_HARNESS_MEASURE_LINK_BOUND_H
#define BB_HARNESS_MEASURE_LINK_BOUND_H

#include "harness/results/record.h"
#include "schedules/schedule.h"
#include "topology/bound.h"

#define BB_DIGEST_TEXT 17

/* Of rank 0: the machine, and where on it and on others like it the ranks are. */
struct bb_link_bounds {
	const struct bb_topology *topology; /* borrowed */
	struct bb_rank_place *places;       /* of the ranks of rank 0's group */
	int n;                              /* 0: it is not known where they are */
	struct {
		bool known;
		double GBps; /* 0: there is none */
		struct bb_strbuf why;
	} bounds[BB_BOUNDS];
};

/*
 * The ranks of rank 0's group on TOPOLOGY, which stands for all hosts: GPUS if they are GPUs, found
 * by their place on the bus. Where one is not found, or TOPOLOGY is NULL, nothing is known of any.
 * BB_EINTERNAL without memory.
 */
BB_MUST bb_status bb_link_bounds_open(struct bb_link_bounds *links, struct bb_topology *topology,
				      const struct bb_rank_infos *infos, bool gpus);
void bb_link_bounds_close(struct bb_link_bounds *links); /* of a zeroed one: nothing */

/*
 * Into RESULT, which has no bound, the time in which a bus bandwidth of what links allow moves
 * BUSBW_BYTES, and the sentence that explains it: for COLLECTIVE by ALGORITHM, as the record names
 * it. Where the library chooses, the best of those that it may choose. No bound is known: nothing.
 */
void bb_link_bounds_fill(struct bb_link_bounds *links, const struct bb_collective *collective,
			 const char *algorithm, double busbw_bytes,
			 struct bb_result_record *result);

#endif
