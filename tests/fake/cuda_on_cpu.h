/*
 * cuda_on_cpu.h - what CUDA's compiler knows by itself, for the backend's kernels on the CPU. A
 * grid's threads run one after the other. They share nothing and never wait for each other, so that
 * this is one of the orders in which a device may run them.
 */
#ifndef BB_TESTS_CUDA_ON_CPU_H
#define BB_TESTS_CUDA_ON_CPU_H

#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define __launch_bounds__(...)

struct fake_place {
	unsigned x;
};

extern thread_local struct fake_place blockIdx, threadIdx, blockDim, gridDim;

/* Runs a kernel, with its one argument, in a grid. */
typedef void fake_grid(const void *kernel, const void *argument, unsigned blocks, unsigned threads);

extern "C" cudaError_t fake_launch(fake_grid *run, const void *kernel, const void *argument,
				   size_t bytes, dim3 grid, dim3 block, cudaStream_t stream);
extern "C" unsigned fake_idle_thread(unsigned threads);

template <typename A>
void fake_grid_run(const void *kernel, const void *argument, unsigned blocks, unsigned threads)
{
	const unsigned left_out = fake_idle_thread(threads);
	A a;

	memcpy((void *)&a, argument, sizeof(a));
	blockDim.x = threads;
	gridDim.x = blocks;
	for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
			if (threadIdx.x != left_out)
				((void (*)(A))kernel)(a);
}

template <typename A>
cudaError_t cudaLaunchKernel(void (*kernel)(A), dim3 grid, dim3 block, void **arguments,
			     size_t shared, cudaStream_t stream)
{
	return fake_launch(fake_grid_run<A>, (const void *)kernel, arguments[0], sizeof(A), grid,
			   block, stream);
}

static inline uint64_t __umul64hi(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b >> 64);
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
	return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

static inline void atomicAdd(unsigned long long *sum, unsigned long long value)
{
	__atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}

/* Whoever waits for a word lets others run. */
static inline unsigned __ldcv(const unsigned *at)
{
	sched_yield();
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline uint64_t device_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void __stwt(unsigned *at, unsigned word)
{
	__atomic_store_n(at, word, __ATOMIC_RELEASE);
}

#endif
