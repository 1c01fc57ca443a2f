/*
 * launch.h - how the processes of a run find each other.
 *
 * One launch per process. All functions are called by one thread at a time, in the same order in
 * every process.
 */
#ifndef BB_LAUNCH_LAUNCH_H
#define BB_LAUNCH_LAUNCH_H

#include "core/status.h"

#include <stddef.h>

struct bb_launch {
	int proc;
	int nprocs;
	/* all[p * bytes …] = what process p gave; ALL holds nprocs * bytes. */
	bb_status (*all_gather)(struct bb_launch *launch, const void *mine, size_t bytes,
				void *all);
	bb_status (*barrier)(struct bb_launch *launch);
	/* End the other processes; this one exits by itself. Any thread. */
	void (*abort)(struct bb_launch *launch, bb_status status);
	void (*close)(struct bb_launch *launch);
};

/* One process, no launcher. */
struct bb_launch bb_launch_single(void);

#endif
