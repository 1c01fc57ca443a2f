/*
 * Runs the backend's kernels, which are compiled for the CPU with cuda_on_cpu.h.
 */
#include "cuda_on_cpu.h"

#include "backends/nccl/pieces.cuh"

#include <string.h>

thread_local struct fake_place blockIdx, threadIdx, blockDim, gridDim;

extern "C" {

extern const size_t fake_kernel_bytes;
void fake_kernel_run(const void *function, const void *argument, unsigned blocks, unsigned threads);

const size_t fake_kernel_bytes = sizeof(struct bb_gpu_work);

void fake_kernel_run(const void *function, const void *argument, unsigned blocks, unsigned threads)
{
	struct bb_gpu_work w;

	memcpy(&w, argument, sizeof(w));
	blockDim.x = threads;
	gridDim.x = blocks;
	for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
			((bb_gpu_kernel *)function)(w);
}
}
