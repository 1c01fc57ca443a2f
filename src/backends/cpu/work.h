/*
 * work.h - memory of the CPUs, worked on to see how fast it is: the functions of backend.h, for the
 * backends whose ranks are cores. A space is a NUMA node.
 */
#ifndef BB_BACKENDS_CPU_WORK_H
#define BB_BACKENDS_CPU_WORK_H

#include "backends/backend.h"
#include "backends/cpu/kernels.h"
#include "backends/spaces.h"
#include "topology/probes/machine.h"

int bb_cpu_spaces(const struct bb_machine *machine);
void bb_cpu_space_name(const struct bb_machine *machine, int space, char name[BB_SPACE_TEXT]);

/* BYTES on the node of SPACE, wherever the thread runs. BB_EBACKEND with the reason if the system
   has put them elsewhere; BB_EINTERNAL without memory. Let go of by bb_cpu_release. */
BB_MUST bb_status bb_cpu_alloc_in(const struct bb_machine *machine, int space, size_t bytes,
				  void **memory, struct bb_error *error);

void bb_cpu_work(const struct bb_kernels *kernels, enum bb_memory_work what, void *a, const void *b,
		 const void *c, size_t bytes);

/* Into MEMORY, for a chase through a copy of it that begins AT. */
void bb_cpu_chase_lay(void *memory, void *at, size_t bytes, uint64_t seed);
void bb_cpu_chase(void *memory, size_t hops);

#endif
