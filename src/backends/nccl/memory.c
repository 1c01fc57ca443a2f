/*
 * Buffers in device memory, their registration, and patterns in them.
 */
#include "backends/nccl/nccl.h"

#include "backends/cpu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)4096)

/* ---- allocated ----------------------------------------------------------------------- */

/* Buffers that other processes map come from bb_nccl_device_alloc: cudaIpcGetMemHandle refuses
   memory of ncclMemAlloc. */
static bool is_library_memory(const struct bb_context *context)
{
	return !context->config.reached &&
	       bb_nccl_has(context->nccl.version, BB_NCCL_SINCE_REGISTRATION);
}

struct bb_nccl_memory **bb_nccl_memory_link(struct bb_rank *rank, const void *at)
{
	struct bb_nccl_memory **link = &rank->memories;

	while (*link && ((const char *)at < (char *)(*link)->base ||
			 (const char *)at >= (char *)(*link)->base + (*link)->bytes))
		link = &(*link)->next;
	return link;
}

bb_status bb_nccl_alloc(struct bb_rank *rank, size_t bytes, void **memory)
{
	struct bb_nccl_memory *m = calloc(1, sizeof(*m));
	bb_status status;

	if (!m)
		return bb_no_memory(rank->context->error, "a rank");
	m->bytes = bytes + ALIGNMENT;
	status = is_library_memory(rank->context) ? BB_NCCL(rank, ncclMemAlloc(&m->base, m->bytes))
						  : bb_nccl_device_alloc(rank, &m->bytes, &m->base);
	if (status != BB_OK) {
		free(m);
		return status;
	}
	m->next = rank->memories;
	rank->memories = m;
	*memory = (void *)(((uintptr_t)m->base + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
	return BB_OK;
}

void bb_nccl_release(struct bb_rank *rank, void *memory, size_t bytes)
{
	struct bb_nccl_memory **const link = bb_nccl_memory_link(rank, memory);
	struct bb_nccl_memory *const m = *link;

	if (!m)
		return;
	for (struct bb_group *g = rank->groups; g; g = g->next)
		bb_nccl_deregister(g, m);
	*link = m->next;
	if (!is_library_memory(rank->context))
		bb_nccl_device_free(rank, m->base, m->bytes);
	else if (!bb_nccl_aborted(rank->context)) /* see BB_CUDA_FREE */
		bb_nccl_ignore(BB_NCCL(rank, ncclMemFree(m->base)));
	free(m);
}

uint64_t bb_nccl_memory_available(struct bb_context *context)
{
	const int n = context->world.nlocal;
	struct bb_error *error = context->error;
	size_t least = SIZE_MAX;
	int before; /* the calling thread's device */
	bb_status status;

	BB_TRY(status, BB_CUDA_PROCESS(error, cudaGetDevice(&before)), out);
	for (int local = 0; local < n; local++) {
		size_t left, total;

		BB_TRY(status,
		       BB_CUDA_PROCESS(error, cudaSetDevice(bb_nccl_device(context, local))), out);
		BB_TRY(status, BB_CUDA_PROCESS(error, cudaMemGetInfo(&left, &total)), out);
		left /= (size_t)context->ranks_per_device;
		least = left < least ? left : least;
	}
	status = BB_CUDA_PROCESS(error, cudaSetDevice(before));
out:
	return status == BB_OK ? (uint64_t)least * (uint64_t)n : 0;
}

/* ---- registered ---------------------------------------------------------------------- */

bb_status bb_nccl_register(struct bb_group *group)
{
	struct bb_rank *rank = group->rank;
	const enum bb_registration kind = rank->context->config.registration;
	bb_status status = BB_OK;

	if (kind == BB_REGISTER_NONE)
		return BB_OK;
	for (const struct bb_nccl_memory *m = rank->memories; m && status == BB_OK; m = m->next) {
		struct bb_nccl_registration *r = group->registrations;

		while (r && r->memory != m)
			r = r->next;
		if (r)
			continue;
		r = calloc(1, sizeof(*r));
		if (!r)
			return bb_no_memory(rank->context->error, "a rank");
		*r = (struct bb_nccl_registration){.next = group->registrations, .memory = m};
		group->registrations = r;
		status = kind == BB_REGISTER_LOCAL
				 ? BB_NCCL(rank, ncclCommRegister(group->comm, m->base, m->bytes,
								  &r->handle))
				 : BB_NCCL(rank,
					   ncclCommWindowRegister(group->comm, m->base, m->bytes,
								  (ncclWindow_t *)&r->handle,
								  NCCL_WIN_COLL_SYMMETRIC));
	}
	return status;
}

/* An aborted communicator frees its registrations itself. */
void bb_nccl_deregister(struct bb_group *group, const struct bb_nccl_memory *memory)
{
	struct bb_rank *rank = group->rank;
	const enum bb_registration kind = rank->context->config.registration;
	struct bb_nccl_registration **link = &group->registrations, *r;

	while ((r = *link) != NULL) {
		if (memory && r->memory != memory) {
			link = &r->next;
			continue;
		}
		*link = r->next;
		if (r->handle && !bb_nccl_aborted(rank->context))
			bb_nccl_ignore(
				kind == BB_REGISTER_LOCAL
					? BB_NCCL(rank, ncclCommDeregister(group->comm, r->handle))
					: BB_NCCL(rank, ncclCommWindowDeregister(group->comm,
										 r->handle)));
		free(r);
	}
}

const char *bb_nccl_registered(const struct bb_group *group)
{
	const enum bb_registration requested = group->rank->context->config.registration;

	if (requested == BB_REGISTER_NONE)
		return NULL;
	for (const struct bb_nccl_registration *r = group->registrations; r; r = r->next)
		if (!r->handle)
			return "none";
	if (requested == BB_REGISTER_LOCAL)
		return "local";
	return group->rank->version >= BB_NCCL_SINCE_NULL_WINDOWS ? "symmetric"
								  : "local or symmetric";
}

/* ---- copied -------------------------------------------------------------------------- */

static bb_status memory_type(struct bb_rank *rank, const void *memory, enum cudaMemoryType *type)
{
	struct cudaPointerAttributes attributes;
	bb_status status = BB_CUDA(rank, cudaPointerGetAttributes(&attributes, memory));

	if (status == BB_OK)
		*type = attributes.type;
	return status;
}

/* CUDA may block in a copy from or to host memory until the stream is empty, so bb_nccl_wait, which
   can be interrupted, comes first. */
bb_status bb_nccl_copy(struct bb_rank *rank, void *dst, const void *src, size_t bytes)
{
	enum cudaMemoryType to, from;
	bb_status status;

	BB_TRY(status, memory_type(rank, dst, &to), out);
	BB_TRY(status, memory_type(rank, src, &from), out);
	const bool within = to == cudaMemoryTypeDevice && from == cudaMemoryTypeDevice;
	if (!within)
		BB_TRY(status, bb_nccl_wait(rank, rank->main), out);
	BB_TRY(status,
	       BB_CUDA(rank, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, rank->main)), out);
	if (!within)
		status = bb_nccl_wait(rank, rank->main);
out:
	return status;
}

/* ---- patterns ---------------------------------------------------------------------- */

/* *FOR_HOST: MEMORY is pageable, so the CPU fills and verifies it. Else *UPLOADED = PATTERN with
   its table in the scratch area, which no kernel reads any more: the main stream was empty. */
static bb_status pattern_prepare(struct bb_rank *rank, const void *memory,
				 const struct bb_pattern *pattern, struct bb_gpu_pattern *uploaded,
				 bool *for_host)
{
	const size_t bytes = 2 * pattern->period * pattern->element_size;
	char *const table = rank->scratch + BB_SCRATCH_TABLE;
	enum cudaMemoryType type;
	bb_status status;

	BB_TRY(status, memory_type(rank, memory, &type), out);
	*for_host = type == cudaMemoryTypeUnregistered;
	if (!*for_host && (pattern->period < 16 || pattern->period > BB_GPU_PERIOD_MOST))
		return bb_fail(rank->context->error, BB_EINTERNAL,
			       "a pattern of %zu elements, not 16 to %u", pattern->period,
			       BB_GPU_PERIOD_MOST);
	BB_TRY(status, bb_nccl_wait(rank, rank->main), out);
	if (*for_host)
		return BB_OK;
	*uploaded = (struct bb_gpu_pattern){.table = table,
					    .period = (uint32_t)pattern->period,
					    .element_size = (uint32_t)pattern->element_size,
					    .seed = pattern->seed};
	status = BB_CUDA(rank, cudaMemcpyAsync(table, pattern->table, bytes, cudaMemcpyHostToDevice,
					       rank->main));
out:
	return status;
}

bb_status bb_nccl_fill(struct bb_rank *rank, void *dst, const struct bb_pattern *pattern,
		       size_t first, size_t count)
{
	struct bb_gpu_pattern uploaded;
	bool for_host;
	bb_status status;

	BB_TRY(status, pattern_prepare(rank, dst, pattern, &uploaded, &for_host), out);
	status = for_host ? bb_cpu_fill(rank, dst, pattern, first, count)
			  : BB_CUDA(rank, bb_gpu_fill(bb_nccl_lane(rank, rank->main), dst,
						      &uploaded, first, count));
out:
	return status;
}

bb_status bb_nccl_verify(struct bb_rank *rank, const void *got, const struct bb_pattern *pattern,
			 size_t first, size_t count, enum bb_dtype dtype, int ulps, uint64_t *wrong)
{
	unsigned long long *const counter =
		(unsigned long long *)(rank->scratch + BB_SCRATCH_WRONG);
	unsigned long long found = 0;
	struct bb_gpu_pattern uploaded;
	bool for_host;
	bb_status status;

	BB_TRY(status, pattern_prepare(rank, got, pattern, &uploaded, &for_host), out);
	if (for_host)
		return bb_cpu_verify(rank, got, pattern, first, count, dtype, ulps, wrong);
	BB_TRY(status, BB_CUDA(rank, cudaMemsetAsync(counter, 0, sizeof(*counter), rank->main)),
	       out);
	BB_TRY(status,
	       BB_CUDA(rank, bb_gpu_verify(bb_nccl_lane(rank, rank->main), got, &uploaded, first,
					   count, dtype, ulps, counter)),
	       out);
	status = bb_nccl_copy(rank, &found, counter, sizeof(found));
	*wrong += found;
out:
	return status;
}

/* ---- measured memory ----------------------------------------------------------------- */

/*
 * Memory whose speed is measured: the GPU's, pinned memory of the host, and pageable memory of the
 * host, which the driver copies through pinned memory of its own.
 */

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
	if (space == BB_SPACE_PINNED)
		return BB_CUDA(rank, cudaMallocHost(memory, bytes));
	if (space == BB_SPACE_DEVICE)
		return BB_CUDA(rank, cudaMalloc(memory, bytes));
	const bb_status status = bb_cpu_alloc(rank, bytes, memory);
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

	if (!laid)
		return bb_no_memory(rank->context->error, "a rank");
	bb_cpu_chase_lay(laid, memory, bytes, seed);
	const bb_status status = bb_nccl_copy(rank, memory, laid, bytes);
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
