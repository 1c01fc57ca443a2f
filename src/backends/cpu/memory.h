/*
 * memory.h - CPU memory: where a rank lives, getting memory, writing patterns into it and checking
 * them.
 */
#ifndef BB_BACKENDS_CPU_MEMORY_H
#define BB_BACKENDS_CPU_MEMORY_H

#include "backends/backend.h"
#include "topology/probes/machine.h"

/* *LOCATION = CORE (an index) of MACHINE in this process; UNBOUND: what its name ends with where
   the rank need not stay there, "" where it does. */
void bb_cpu_locate(const struct bb_machine *machine, int core, const char *unbound,
		   struct bb_location *location);

/* BYTES (0 too), 4 KiB aligned, from 2 MiB on in huge pages where there are any. The caller touches
   its pages here, so that they lie on its own NUMA node. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_cpu_alloc(size_t bytes, void **memory);
void bb_cpu_release(void *memory, size_t bytes); /* NULL: nothing */

/* Should results bypass the caches when each of N ranks reads and writes BYTES in all? They run on
   CORES of MACHINE's cores; CROWDED: so do others, and they have not one each. */
bool bb_cpu_streams(const struct bb_machine *machine, size_t bytes, int n, int cores, bool crowded);

/* dst[0, count) = elements FIRST … of PATTERN. */
void bb_cpu_fill(void *dst, const struct bb_pattern *pattern, size_t first, size_t count);

/*
 * How many elements of got[0, count) differ from PATTERN's elements FIRST … by more than ULPS
 * units in the last place of DTYPE (0: in any bit).
 */
uint64_t bb_cpu_verify(const void *got, const struct bb_pattern *pattern, size_t first,
		       size_t count, enum bb_dtype dtype, int ulps);

#endif
