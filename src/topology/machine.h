/*
 * machine.h - the machine that this process may use: cores, caches, NUMA nodes, memory.
 */
#ifndef BB_TOPOLOGY_MACHINE_H
#define BB_TOPOLOGY_MACHINE_H

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bb_core {
	int pu;      /* the operating system's number of its first usable hardware thread */
	int package; /* logical numbers, -1 unknown */
	int numa;
};

struct bb_machine; /* read-only once open; may be shared by threads */

/* Look at the machine through hwloc, within the affinity this thread has and the cgroup. */
BB_MUST bb_status bb_machine_open(struct bb_machine **machine, struct bb_error *error);
void bb_machine_close(struct bb_machine *machine); /* NULL: nothing */

int bb_machine_cores(const struct bb_machine *machine); /* usable cores, >= 1 */
struct bb_core bb_machine_core(const struct bb_machine *machine, int core);
size_t bb_machine_l2(const struct bb_machine *machine);       /* bytes per core; 1 MiB if unknown */
size_t bb_machine_l3(const struct bb_machine *machine);       /* bytes in all; 32 MiB if unknown */
const char *bb_machine_cpu(const struct bb_machine *machine); /* model name, or "unknown CPU" */

/* Pin the calling thread to CORE. False where the system does not allow it. */
bool bb_machine_pin(const struct bb_machine *machine, int core);

/* Bytes that new allocations can really take: MemAvailable, or what the cgroup still allows. */
uint64_t bb_memory_available(void);

#endif
