/*
 * Runs the backend's kernels, which are compiled for the CPU with cuda_on_cpu.h.
 *
 * BUSBENCH_FAKE_IDLE=T: thread T of each block does nothing, as on a device that is broken.
 */
#include "cuda_on_cpu.h"

#include "backends/nccl/pieces.cuh"

#include <stdlib.h>
#include <string.h>

thread_local struct fake_place blockIdx, threadIdx, blockDim, gridDim;

extern "C" {

extern const size_t fake_kernel_bytes;
void fake_kernel_run(const void *function, const void *argument, unsigned blocks, unsigned threads);

const size_t fake_kernel_bytes = sizeof(struct bb_gpu_work);

void fake_kernel_run(const void *function, const void *argument, unsigned blocks, unsigned threads)
{
	const char *const idle = getenv("BUSBENCH_FAKE_IDLE");
	const unsigned left_out = idle ? (unsigned)atoi(idle) : threads;
	struct bb_gpu_work w;

	memcpy(&w, argument, sizeof(w));
	blockDim.x = threads;
	gridDim.x = blocks;
	for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
			if (threadIdx.x != left_out)
				((bb_gpu_kernel *)function)(w);
}
}
