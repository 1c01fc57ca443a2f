/*
 * memory.h - memory of the CPU: allocating it, writing patterns into it and checking them.
 *
 * The first ones are entries of struct bb_backend, none of which looks at RANK, which may be NULL.
 */
#pragma once

#include "backends/backend.h"
#include "backends/cpu/context.h"
#include "backends/spaces.h"

/* BYTES may be 0; from 2 MiB on memory is in huge pages where there are any. The pages are touched
   here, so that they lie on the caller's NUMA node. BB_EINTERNAL without memory. */
BB_MUST bb_status bb_cpu_alloc(struct bb_rank *rank, size_t bytes, void **memory);
void bb_cpu_release(struct bb_rank *rank, void *memory, size_t bytes); /* NULL: nothing */
bb_status bb_cpu_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
		      size_t first, size_t count);
bb_status bb_cpu_verify(struct bb_rank *rank, const void *got, const struct bb_pattern *pattern,
			size_t first, size_t count, enum bb_dtype dtype, int ulps, uint64_t *wrong);

/* A space is a NUMA node. alloc fails with BB_EBACKEND where the system puts memory on another
   node. work takes no queue but the main one. */
extern const struct bb_spaces bb_cpu_spaces;

/* Lay a chain (chase_lay of spaces.h) into MEMORY that is walked in a copy of it at AT. */
void bb_cpu_chase_lay(void *memory, void *at, size_t bytes, uint64_t seed);
