/*
 * memory.h - writing and checking patterns in CPU memory.
 */
#ifndef BB_BACKENDS_CPU_MEMORY_H
#define BB_BACKENDS_CPU_MEMORY_H

#include "backends/backend.h"

/* dst[0, count) = elements FIRST … of PATTERN. */
void bb_cpu_fill(void *dst, const struct bb_pattern *pattern, size_t first, size_t count);

/*
 * How many elements of got[0, count) differ from PATTERN's elements FIRST … by more than ULPS
 * units in the last place of DTYPE (0: in any bit).
 */
uint64_t bb_cpu_verify(const void *got, const struct bb_pattern *pattern, size_t first,
		       size_t count, enum bb_dtype dtype, int ulps);

#endif
