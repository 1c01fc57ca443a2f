/*
 * pieces.cuh - how the kernels go through memory, and how they are launched.
 *
 * Data moves in pieces of 16 bytes that are aligned in the destination (verify: in the received
 * buffer). Elements before the first piece and after the last are handled one by one. A source that
 * is aligned differently is assembled from 32-bit words.
 *
 * Every kernel takes one struct bb_gpu_work.
 */
#pragma once

#include "backends/nccl/kernels.h"

/* How the bits of an element order its values. */
enum bb_gpu_order { BB_GPU_UNSIGNED, BB_GPU_SIGNED, BB_GPU_FLOATING, BB_GPU_NO_ORDER };

struct bb_gpu_work {
	uint64_t count; /* elements */
	uint64_t head;  /* of them before the first piece */
	uint64_t pieces;
	char *dst;
	const char *src[3];
	int nsrc;
	int factor, divisor; /* of a single source */
	/* patterns.cu */
	struct bb_gpu_pattern pattern;
	uint64_t first;        /* byte of the pattern where the buffer begins */
	uint32_t block_bytes;  /* of a period */
	uint64_t block_magic;  /* 2^64 / block_bytes, rounded up */
	uint64_t period_magic; /* 2^64 / period, rounded down */
	unsigned long long *wrong;
	uint64_t ulps;
	enum bb_gpu_order order;
	uint64_t largest; /* BB_GPU_FLOATING: magnitudes above are no numbers */
};

typedef void bb_gpu_kernel(const struct bb_gpu_work w);

namespace
{

typedef struct bb_gpu_work work;

const int PIECE = 16; /* bytes */

__device__ uint64_t thread_index()
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ uint64_t thread_count()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

/* The 16 bytes at P, of any alignment. Reads the whole 32-bit words that hold them. */
__device__ uint4 load_piece(const char *p)
{
	const unsigned skew = (unsigned)((uintptr_t)p & 3);
	const uint32_t *const words = (const uint32_t *)(p - skew);
	uint4 v;

	if (((uintptr_t)p & (PIECE - 1)) == 0)
		return *(const uint4 *)p;
	v = make_uint4(words[0], words[1], words[2], words[3]);
	if (skew) {
		v.x = __funnelshift_r(v.x, v.y, 8 * skew);
		v.y = __funnelshift_r(v.y, v.z, 8 * skew);
		v.z = __funnelshift_r(v.z, v.w, 8 * skew);
		v.w = __funnelshift_r(v.w, words[4], 8 * skew);
	}
	return v;
}

#ifdef __CUDACC__
/* The device's clock, common to all of its multiprocessors. */
__device__ uint64_t device_ns()
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}
#endif

/* *ELEMENT = the element outside all pieces that thread T handles; false: it handles none. W has
   count, head and pieces, as struct bb_gpu_work. */
template <typename W>
__device__ bool stray_element(const W &w, uint32_t size, uint64_t t, uint64_t *element)
{
	*element = t < w.head ? t : t + w.pieces * (PIECE / size);
	return *element < w.count;
}

/* Cut COUNT elements at AT into head, pieces and tail. */
void cut(work *w, const void *at, uint32_t size, uint64_t count)
{
	const uint64_t before = (PIECE - ((uintptr_t)at & (PIECE - 1))) & (PIECE - 1);

	w->count = count;
	w->head = before / size < count ? before / size : count;
	w->pieces = (count - w->head) / (PIECE / size);
}

/* A thread handles EACH pieces at a time. */
cudaError_t launch(bb_gpu_kernel *kernel, work *w, struct bb_gpu_lane lane, int each)
{
	const uint64_t per_block = (uint64_t)BB_GPU_THREADS * (uint64_t)each;
	const uint64_t wanted = (w->pieces + per_block - 1) / per_block;
	const unsigned blocks = wanted < lane.blocks ? (unsigned)wanted : lane.blocks;
	void *arguments[] = {w};

	if (w->count == 0)
		return cudaSuccess;
	return cudaLaunchKernel(kernel, dim3(blocks ? blocks : 1), dim3(BB_GPU_THREADS), arguments,
				0, lane.stream);
}

} // namespace
