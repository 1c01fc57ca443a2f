/*
 * kernels.h - reductions and copies on CPU memory, one source compiled for several instruction
 * sets. Shared by the backends whose memory is the CPU's.
 */
#pragma once

#include "core/datatype.h"

#define BB_KERNEL_STREAMS 64 /* most sources, and most destinations, of one call */

struct bb_reduce_args {
	bool stream;           /* store past the caches; ordered before the call returns */
	int divisor;           /* BB_AVG: the sum is divided by it at the end; 0 or 1: it is not */
	const uint8_t *weight; /* BB_MULSUM: factor 1 or 2 of each source; NULL: all 1 */
};

/*
 * dst[d][i] = src[0][i] + … + src[nsrc-1][i] for every d and i in [0, count), + being the
 * operation; one pass, in registers. 1 <= nsrc, ndst <= BB_KERNEL_STREAMS. A destination may be
 * one of the sources exactly; it may not overlap one otherwise. half, bfloat16 and fp8 are computed
 * in float and rounded to nearest even once, at the end; fp8 e4m3 saturates at 448, e5m2 overflows
 * to infinity. Integers wrap. Pointers need the alignment of an element, no more. Of a single
 * source land, lor and lxor give a copy.
 */
typedef void bb_reduce_fn(void *const *dst, int ndst, const void *const *src, int nsrc,
			  size_t count, const struct bb_reduce_args *args);

/* dst[d] = src for every d, in one pass; a destination may be src itself. */
typedef void bb_copy_fn(void *const *dst, int ndst, const void *src, size_t bytes, bool stream);

struct bb_kernels {
	const char *isa;                           /* "avx512", "avx2", "plain" */
	bb_reduce_fn *reduce[BB_NDTYPES][BB_NOPS]; /* NULL where the op does not take the type */
	bb_copy_fn *copy;
};

/* Only those of the compiler's target are compiled; use them through the functions below. */
extern const struct bb_kernels bb_kernels_plain, bb_kernels_avx2, bb_kernels_avx512;

/* The best kernels for this CPU, or those of BUSBENCH_ISA=plain|avx2|avx512; NULL if the CPU cannot
   run the latter. */
const struct bb_kernels *bb_kernels_select(void);
/* The kernels of a name if this CPU can run them, else NULL. */
const struct bb_kernels *bb_kernels_named(const char *isa);
