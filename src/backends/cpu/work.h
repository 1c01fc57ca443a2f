/*
 * work.h - memory of the CPU in several spaces (spaces.h): a space is a NUMA node.
 */
#ifndef BB_BACKENDS_CPU_WORK_H
#define BB_BACKENDS_CPU_WORK_H

#include "backends/cpu/context.h"
#include "backends/spaces.h"

/* alloc fails with BB_EBACKEND where the system puts memory on another node. work takes no queue
   but the main one. */
extern const struct bb_spaces bb_cpu_spaces;

/* Lay a chain (chase_lay of spaces.h) into MEMORY that is walked in a copy of it at AT. */
void bb_cpu_chase_lay(void *memory, void *at, size_t bytes, uint64_t seed);

#endif
