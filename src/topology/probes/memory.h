/*
 * memory.h - the memory available to this process within the limits of the host, its control groups
 * and Slurm.
 */
#ifndef BB_TOPOLOGY_PROBES_MEMORY_H
#define BB_TOPOLOGY_PROBES_MEMORY_H

#include <stdint.h>

/* What bb_memory_room reads: tests have files and an environment of their own. */
struct bb_memory_source {
	const char *root;                          /* of /proc and /sys; "" is the real one */
	const char *(*variable)(const char *name); /* as getenv */
};

/*
 * Bytes: the least of MemAvailable, of what each cgroup leaves, of version 1 and 2, from that of
 * this process up to the mount, and of the memory that Slurm gave to the job on this node. A cgroup
 * can give back its inactive file cache, which therefore counts as free.
 */
uint64_t bb_memory_room(const struct bb_memory_source *source);

/* The same of this machine and environment. */
uint64_t bb_memory_available(void);

#endif
