/*
 * spaces.h - the part of a backend that measures memory in several spaces.
 */
#pragma once

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

struct bb_context;
struct bb_rank;
struct bb_queue;

/*
 * Work on A, B and C, arrays of the same size. Counted bytes are those that the work itself reads
 * and writes, not lines that caches fetch before they are written; stores bypass the caches.
 */
enum bb_memory_work {
	BB_WORK_READ,        /* reads A */
	BB_WORK_WRITE,       /* writes A: bytes of 1 */
	BB_WORK_COPY,        /* A = B */
	BB_WORK_TRIAD,       /* A = B + 2 C, numbers in double precision */
	BB_WORK_KERNEL_COPY, /* A = B by a kernel; only GPUs, not of pageable memory */
	BB_WORKS
};

#define BB_SPACE_TEXT 16
#define BB_WORK_ALIGNMENT 256 /* of arrays, and of their sizes */
#define BB_CHASE_STRIDE 128   /* bytes from one stop of a chase to the next: two lines */

/* The spaces of a GPU: its own memory, the host's that kernels access, and the host's that the
   driver copies through pinned memory of its own. */
enum { BB_SPACE_DEVICE, BB_SPACE_PINNED, BB_SPACE_PAGEABLE, BB_GPU_SPACES };

/* Spaces of memory: NUMA nodes, or those of a GPU. */
struct bb_spaces {
	int (*count)(struct bb_context *context);
	void (*name)(struct bb_context *context, int space, char name[BB_SPACE_TEXT]);
	/* BYTES in SPACE, 4 KiB aligned, touched, and accessible at least to this rank. */
	bb_status (*alloc)(struct bb_rank *rank, int space, size_t bytes, void **memory,
			   struct bb_error *error);
	void (*release)(struct bb_rank *rank, int space, void *memory, size_t bytes);
	/* Work on arrays of BYTES; arrays that WHAT does not use may be NULL. Copies may go from
	   one space to another. Done when finish returns. Only GPUs take a QUEUE other than NULL.
	 */
	bb_status (*work)(struct bb_rank *rank, struct bb_queue *queue, enum bb_memory_work what,
			  void *a, const void *b, const void *c, size_t bytes);
	/* Write a chain of pointers through MEMORY that visits each BB_CHASE_STRIDE bytes once, in
	   an order that follows from SEED. */
	bb_status (*chase_lay)(struct bb_rank *rank, void *memory, size_t bytes, uint64_t seed);
	/* Follow HOPS pointers of that chain; each load depends on the one before. */
	bb_status (*chase)(struct bb_rank *rank, void *memory, size_t hops);
};
