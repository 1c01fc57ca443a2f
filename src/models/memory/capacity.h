/*
 * capacity.h - the memory of a GPU that a run may use. A card of "80 GB" is no 80 GiB to programs:
 * what its driver reports counts, less a reserve for what no formula has.
 *
 * The default reserve of 3.5 GiB, per GPU: 0.5 GiB that the driver reports but gives to no program
 * (81,559 MiB in nvidia-smi are 79.1 to 79.2 GiB in PyTorch, 143,771 MiB are 139.8), and 3 GiB for
 * CUDA's context, libraries, NCCL's buffers and the allocator's fragmentation: in out-of-memory
 * messages of multi-GPU training, what a process held beside PyTorch's tensors (docs/memory.md).
 */
#ifndef BB_MODELS_MEMORY_CAPACITY_H
#define BB_MODELS_MEMORY_CAPACITY_H

#include "core/status.h"
#include "core/strbuf.h"

#include <stdint.h>

/* A line of a program's table of options. */
#define BB_RESERVE_OPTION(OPTION, ...)                                                             \
	OPTION(SIZE, reserve, "reserve", 0, "3.5G",                                                \
	       "part of that memory for what is not calculated: CUDA, NCCL's buffers, "            \
	       "fragmentation",                                                                    \
	       ##__VA_ARGS__)

struct bb_capacity {
	uint64_t reported; /* bytes by the driver */
	uint64_t reserve;
	uint64_t usable;  /* the difference */
	const char *card; /* "H100", whose driver reports that; NULL: the size as given */
};

/*
 * What is left of SIZE bytes without RESERVE. A SIZE that is the nominal one of known cards, such
 * as 80 GiB, counts as what the driver of CARD reports or, if that is NULL, of the most usual one.
 * OPTION has the size; BB_EUSAGE if nothing is left.
 */
BB_MUST bb_status bb_capacity_open(struct bb_capacity *capacity, const char *option, uint64_t size,
				   const char *card, uint64_t reserve, struct bb_error *error);

/* Append "81.76 GB (85.52 by the driver of H100, less 3.76 in reserve)". */
void bb_capacity_add(struct bb_strbuf *out, const struct bb_capacity *capacity);

#endif
