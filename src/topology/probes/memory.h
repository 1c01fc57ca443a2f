/*
 * memory.h - the memory available to this process within the limits of the host, its control groups
 * and Slurm.
 */
#pragma once

#include <stdint.h>

/* The sources of bb_available_room; tests replace them. */
struct bb_available_source {
	const char *root;                          /* prefix of /proc and /sys; "": none */
	const char *(*variable)(const char *name); /* as getenv */
};

/*
 * The minimum, in bytes, of MemAvailable, of the free memory of each cgroup (version 1 and 2) from
 * that of this process up to the mount, and of the memory that Slurm leaves to the job on this
 * node. Inactive file cache of a cgroup counts as free, since the kernel reclaims it.
 */
uint64_t bb_available_room(const struct bb_available_source *source);

/* The same for this machine and environment. */
uint64_t bb_available_memory(void);
