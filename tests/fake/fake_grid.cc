/*
 * The grids of the backend's kernels, which are compiled for the CPU with cuda_on_cpu.h.
 *
 * BUSBENCH_FAKE_IDLE=T: thread T of each block does nothing, as on a device that is broken.
 */
#include "cuda_on_cpu.h"

#include <stdlib.h>

thread_local struct fake_place blockIdx, threadIdx, blockDim, gridDim;

/* The thread that does nothing; THREADS: there is none. */
unsigned fake_idle_thread(unsigned threads)
{
	const char *const idle = getenv("BUSBENCH_FAKE_IDLE");

	return idle ? (unsigned)atoi(idle) : threads;
}
