/*
 * Memory whose speed is measured: the GPU's, pinned memory of the host, and pageable memory of the
 * host, which the driver copies through pinned memory of its own.
 */
#include "backends/nccl/nccl.h"

#include "backends/cpu/memory.h"
#include "backends/cpu/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int space_count(struct bb_context *context)
{
	return BB_GPU_SPACES;
}

static void space_name(struct bb_context *context, int space, char name[BB_SPACE_TEXT])
{
	static const char *const names[BB_GPU_SPACES] = {"device", "host", "pageable"};

	snprintf(name, BB_SPACE_TEXT, "%s", names[space]);
}

/* Host memory is allocated on the NUMA node of the calling driver. */
static bb_status space_alloc(struct bb_rank *rank, int space, size_t bytes, void **memory,
			     struct bb_error *error)
{
	bb_status status;

	if (space == BB_SPACE_PINNED)
		return BB_CUDA(rank, cudaMallocHost(memory, bytes));
	if (space == BB_SPACE_DEVICE)
		return BB_CUDA(rank, cudaMalloc(memory, bytes));
	status = bb_cpu_alloc(rank, bytes, memory);
	if (status == BB_OK)
		memset(*memory, 0, bytes);
	return status;
}

static void space_release(struct bb_rank *rank, int space, void *memory, size_t bytes)
{
	if (!memory)
		return;
	if (space == BB_SPACE_PINNED)
		BB_CUDA_FREE(rank, cudaFreeHost(memory));
	else if (space != BB_SPACE_PAGEABLE)
		BB_CUDA_FREE(rank, cudaFree(memory));
	else if (!bb_nccl_aborted(rank->context))
		bb_cpu_release(rank, memory, bytes);
}

static bb_status space_work(struct bb_rank *rank, struct bb_queue *queue, enum bb_memory_work what,
			    void *a, const void *b, const void *c, size_t bytes)
{
	static const enum bb_gpu_works works[BB_WORKS] = {[BB_WORK_READ] = BB_GPU_READ,
							  [BB_WORK_WRITE] = BB_GPU_WRITE,
							  [BB_WORK_TRIAD] = BB_GPU_TRIAD};
	unsigned long long *const sink = (unsigned long long *)(rank->scratch + BB_SCRATCH_WRONG);
	const cudaStream_t stream = bb_nccl_stream(rank, queue);

	if (what == BB_WORK_COPY)
		return BB_CUDA(rank, cudaMemcpyAsync(a, b, bytes, cudaMemcpyDefault, stream));
	if (what == BB_WORK_KERNEL_COPY)
		return BB_CUDA(rank, bb_gpu_copy(bb_nccl_lane(rank, stream), a, b, bytes));
	return BB_CUDA(rank, bb_gpu_work_on(bb_nccl_lane(rank, stream), works[what], a, b, c, bytes,
					    sink));
}

static bb_status space_chase_lay(struct bb_rank *rank, void *memory, size_t bytes, uint64_t seed)
{
	void *const laid = malloc(bytes);
	bb_status status;

	if (!laid)
		return bb_no_memory(rank->context->error, "a rank");
	bb_cpu_chase_lay(laid, memory, bytes, seed);
	status = bb_nccl_copy(rank, memory, laid, bytes);
	free(laid);
	return status;
}

static bb_status space_chase(struct bb_rank *rank, void *memory, size_t hops)
{
	unsigned long long *const sink = (unsigned long long *)(rank->scratch + BB_SCRATCH_WRONG);

	return BB_CUDA(rank, bb_gpu_chase(bb_nccl_lane(rank, rank->main), memory, hops, sink));
}

const struct bb_spaces bb_nccl_spaces = {
	.count = space_count,
	.name = space_name,
	.alloc = space_alloc,
	.release = space_release,
	.work = space_work,
	.chase_lay = space_chase_lay,
	.chase = space_chase,
};
