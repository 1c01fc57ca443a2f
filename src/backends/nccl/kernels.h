/*
 * kernels.h - kernels of the device: fill, verify, reduce and scale for every datatype, measured
 * work on memory, and transfers between devices.
 *
 * Each call issues one kernel to a stream, or none if there is nothing to do, and returns at once.
 * Pointers are the device's and aligned to an element, no more. The arithmetic is that of the CPU's
 * kernels: half, bfloat16 and fp8 are computed in float and rounded to nearest even once, fp8 e4m3
 * saturates at 448, e5m2 overflows to infinity, integers wrap.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "core/datatype.h"

struct bb_gpu_lane {
	cudaStream_t stream;
	unsigned blocks; /* largest number of thread blocks: as many as the device runs at once */
};

/*
 * A block has BB_GPU_THREADS threads, and a multiprocessor runs BB_GPU_RESIDENT blocks of any
 * kernel at once: 5 allow each thread 48 registers. Left alone, ptxas -v shows 24 to 56 for 8.0
 * and 9.0; the launch bounds hold it to that. Blocks beyond those would run in a second round, in
 * which most of the device idles. Before 8.0 a multiprocessor has room for 1024 threads.
 */
#define BB_GPU_THREADS 256u
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define BB_GPU_RESIDENT 4u
#else
#define BB_GPU_RESIDENT 5u
#endif
#define BB_GPU_TABLE_MARGIN 32u /* bytes readable before and behind a pattern's table */
#define BB_GPU_PERIOD_MOST 4096u

/* Returns the blocks that a device of so many multiprocessors runs at once, each of which has room
   for THREADS threads. */
static inline unsigned bb_gpu_blocks(int processors, int threads)
{
	const unsigned room = (unsigned)threads / BB_GPU_THREADS;

	return (unsigned)processors * (room < BB_GPU_RESIDENT ? room : BB_GPU_RESIDENT);
}

/* A bb_pattern (backend.h) whose table is in device memory, aligned to an element and to 4 bytes.
 */
struct bb_gpu_pattern {
	const void *table;
	uint32_t period; /* 16 to BB_GPU_PERIOD_MOST elements */
	uint32_t element_size;
	uint64_t seed;
};

/* dst[0, count) = elements FIRST … of PATTERN. */
cudaError_t bb_gpu_fill(struct bb_gpu_lane lane, void *dst, const struct bb_gpu_pattern *pattern,
			uint64_t first, uint64_t count);

/*
 * *wrong += how many elements of got[0, count) differ from PATTERN's elements FIRST … by more than
 * ULPS units in the last place of DTYPE (0: in any bit).
 */
cudaError_t bb_gpu_verify(struct bb_gpu_lane lane, const void *got,
			  const struct bb_gpu_pattern *pattern, uint64_t first, uint64_t count,
			  enum bb_dtype dtype, int ulps, unsigned long long *wrong);

/*
 * dst[i] = src[0][i] OP src[1][i] (OP src[2][i]); NSRC is 2 or 3. DST may be one of the sources
 * exactly. OP is neither avg nor mulsum and accepts DTYPE, else cudaErrorInvalidValue.
 */
cudaError_t bb_gpu_reduce(struct bb_gpu_lane lane, enum bb_dtype dtype, enum bb_op op, void *dst,
			  const void *const *src, int nsrc, uint64_t count);

/* dst[i] = src[i] * factor / divisor, of which one is 1; integers towards zero. DST may be SRC. Not
   for pairs. */
cudaError_t bb_gpu_scale(struct bb_gpu_lane lane, enum bb_dtype dtype, void *dst, const void *src,
			 uint64_t count, int factor, int divisor);

enum bb_gpu_works { BB_GPU_READ, BB_GPU_WRITE, BB_GPU_TRIAD };

#define BB_GPU_READ_MARK 0x5bd1e995u

/*
 * Read A, set its bytes to 1, or compute A = B + 2 C in doubles. A, B and C have BYTES each, in
 * memory that the device can access, aligned to 16 bytes. *SINK, 8 bytes of device memory, becomes
 * BB_GPU_READ_MARK if the exclusive or of the 32-bit words that some thread reads equals it.
 */
cudaError_t bb_gpu_work_on(struct bb_gpu_lane lane, enum bb_gpu_works what, void *a, const void *b,
			   const void *c, uint64_t bytes, unsigned long long *sink);

/* Follow HOPS pointers, beginning with the one at MEMORY; *SINK = the last one. */
cudaError_t bb_gpu_chase(struct bb_gpu_lane lane, void *memory, uint64_t hops,
			 unsigned long long *sink);

/* Keep one block busy for NS nanoseconds of the device's clock, or until *HALT, in pinned host
   memory, is not 0. */
cudaError_t bb_gpu_spin(struct bb_gpu_lane lane, uint64_t ns, const unsigned *halt);

/* Copy BYTES from SRC to DST; either may be memory of another GPU that this one can access. */
cudaError_t bb_gpu_copy(struct bb_gpu_lane lane, void *dst, const void *src, uint64_t bytes);

/*
 * Exchange ROUNDS flags with another GPU: in each round the flag, which begins at FLAG + 1, is
 * written to *THEIRS and awaited in *MINE. The side that is FIRST writes before it waits, the other
 * waits before it writes. Ends at once if *HALT, in pinned host memory, is not 0.
 */
cudaError_t bb_gpu_ping(struct bb_gpu_lane lane, unsigned *theirs, const unsigned *mine,
			const unsigned *halt, unsigned flag, bool first, uint64_t rounds);

#ifdef __cplusplus
}
#endif
