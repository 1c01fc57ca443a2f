/*
 * Fabric handles: by them processes map GPU memory of each other within an NVLink domain, also
 * where it spans several hosts. Memory has them if cuMemCreate made it for them. That takes a GPU
 * that supports them, and a channel of nvidia-imex that the user of the processes may open.
 */
#include "backends/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

/* As in cuda.h from 12.3 on. */
#define FABRIC ((CUmemAllocationHandleType)8)
#define FABRIC_SUPPORTED ((CUdevice_attribute)128)

struct bb_nccl_fabric {
	struct bb_nccl_driver driver;
	CUmemAllocationProp memory; /* of the rank's */
	size_t granularity;
};

/* Call a function of the driver. Its results are numbered as the runtime's. */
#define DRIVER(rank, call)                                                                         \
	bb_cuda_check(rank, (cudaError_t)(rank)->fabric->driver.call, #call, __FILE__, __LINE__)

/* ---- whether the rank has them ------------------------------------------------------------ */

const char *bb_nccl_obstacle_text(enum bb_nccl_obstacle obstacle)
{
	static const char *const texts[] = {
		[BB_NCCL_NOT_USED] = "the GPUs are in different hosts",
		[BB_NCCL_NOT_SUPPORTED] =
			"GPU or driver have no fabric handles, which reach other hosts "
			"(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)",
		[BB_NCCL_NO_CHANNEL] =
			"CUDA makes no fabric handles, which reach other hosts: this takes "
			"nvidia-imex and a channel in /dev/nvidia-caps-imex-channels",
	};

	return texts[obstacle];
}

static bool is_supported(const struct bb_nccl_driver *driver, int device)
{
	CUdevice handle;
	int supported = 0;

	/* An older driver does not know the attribute. */
	return driver->cuDeviceGet(&handle, device) == CUDA_SUCCESS &&
	       driver->cuDeviceGetAttribute(&supported, FABRIC_SUPPORTED, handle) == CUDA_SUCCESS &&
	       supported;
}

/* Whether memory can be made, exported and imported shows only when it is. */
static bool has_channel(const struct bb_nccl_fabric *f)
{
	const struct bb_nccl_driver *driver = &f->driver;
	unsigned char handle[BB_NCCL_HANDLE_BYTES];
	CUmemGenericAllocationHandle made, imported;
	bool has;

	if (driver->cuMemCreate(&made, f->granularity, &f->memory, 0) != CUDA_SUCCESS)
		return false;
	has = driver->cuMemExportToShareableHandle(handle, made, FABRIC, 0) == CUDA_SUCCESS &&
	      driver->cuMemImportFromShareableHandle(&imported, handle, FABRIC) == CUDA_SUCCESS;
	if (has)
		driver->cuMemRelease(imported);
	driver->cuMemRelease(made);
	return has;
}

static enum bb_nccl_obstacle fabric_find(struct bb_nccl_fabric *f, int device)
{
	f->memory = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = FABRIC,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	if (!bb_nccl_driver_find(&f->driver) || !is_supported(&f->driver, device))
		return BB_NCCL_NOT_SUPPORTED;
	if (f->driver.cuMemGetAllocationGranularity(&f->granularity, &f->memory,
						    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
		    CUDA_SUCCESS ||
	    !has_channel(f))
		return BB_NCCL_NO_CHANNEL;
	return BB_NCCL_NO_OBSTACLE;
}

static bool is_wanted(const struct bb_context *c)
{
	const enum bb_handles handles = c->config.handles;

	return c->config.reached && c->world.nprocs > 1 && handles != BB_HANDLES_IPC &&
	       (handles == BB_HANDLES_FABRIC || c->config.ranks_here < c->world.nranks);
}

bb_status bb_nccl_fabric_open(struct bb_rank *rank)
{
	struct bb_nccl_fabric *f;

	rank->obstacle = BB_NCCL_NOT_USED;
	if (!is_wanted(rank->context))
		return BB_OK;
	f = calloc(1, sizeof(*f));
	if (!f)
		return bb_no_memory(rank->context->error, "a rank");
	rank->obstacle = fabric_find(f, rank->device);
	if (rank->obstacle == BB_NCCL_NO_OBSTACLE)
		rank->fabric = f;
	else
		free(f);
	return BB_OK;
}

/* ---- memory ------------------------------------------------------------------------------- */

static bb_status access_grant(struct bb_rank *rank, CUdeviceptr at, size_t bytes, int device)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	return DRIVER(rank, cuMemSetAccess(at, bytes, &access, 1));
}

/* *AT = address of BYTES of MEMORY, for the rank's GPU. Releases MEMORY, which exists as long as it
   is mapped. */
static bb_status memory_map(struct bb_rank *rank, CUmemGenericAllocationHandle memory, size_t bytes,
			    void **at)
{
	CUdeviceptr address;
	bb_status status;

	BB_TRY(status, DRIVER(rank, cuMemAddressReserve(&address, bytes, 0, 0, 0)), out);
	BB_TRY(status, DRIVER(rank, cuMemMap(address, bytes, 0, memory, 0)), out);
	BB_TRY(status, DRIVER(rank, cuMemRelease(memory)), out);
	BB_TRY(status, access_grant(rank, address, bytes, rank->device), out);
	*at = (void *)(uintptr_t)address;
out:
	return status;
}

/* Let the other GPUs of the process access the rank's memory: cudaDeviceEnablePeerAccess holds for
   memory of cudaMalloc alone. */
static bb_status access_share(struct bb_rank *rank, void *at, size_t bytes)
{
	const struct bb_context *c = rank->context;
	bb_status status = BB_OK;

	for (int local = 0; local < c->world.nlocal && status == BB_OK; local++) {
		const int device = bb_nccl_device(c, local);
		int can = 0;

		if (device == rank->device)
			continue;
		status = BB_CUDA(rank, cudaDeviceCanAccessPeer(&can, device, rank->device));
		if (status == BB_OK && can)
			status = access_grant(rank, (CUdeviceptr)(uintptr_t)at, bytes, device);
	}
	return status;
}

bb_status bb_nccl_fabric_alloc(struct bb_rank *rank, size_t *bytes, void **at)
{
	const size_t granularity = rank->fabric->granularity;
	CUmemGenericAllocationHandle memory;
	bb_status status;

	*bytes = (*bytes + granularity - 1) / granularity * granularity;
	BB_TRY(status, DRIVER(rank, cuMemCreate(&memory, *bytes, &rank->fabric->memory, 0)), out);
	BB_TRY(status, memory_map(rank, memory, *bytes, at), out);
	status = access_share(rank, *at, *bytes);
out:
	return status;
}

void bb_nccl_fabric_free(struct bb_rank *rank, void *at, size_t bytes)
{
	const CUdeviceptr address = (CUdeviceptr)(uintptr_t)at;

	if (bb_nccl_aborted(rank->context)) /* see BB_CUDA_FREE */
		return;
	bb_nccl_ignore(DRIVER(rank, cuMemUnmap(address, bytes)));
	bb_nccl_ignore(DRIVER(rank, cuMemAddressFree(address, bytes)));
}

/* ---- handles ------------------------------------------------------------------------------ */

bb_status bb_nccl_fabric_export(struct bb_rank *rank, void *at,
				unsigned char handle[BB_NCCL_HANDLE_BYTES])
{
	CUmemGenericAllocationHandle memory;
	bb_status status;

	BB_TRY(status, DRIVER(rank, cuMemRetainAllocationHandle(&memory, at)), out);
	BB_TRY(status, DRIVER(rank, cuMemExportToShareableHandle(handle, memory, FABRIC, 0)), out);
	status = DRIVER(rank, cuMemRelease(memory));
out:
	return status;
}

bb_status bb_nccl_fabric_import(struct bb_rank *rank,
				const unsigned char handle[BB_NCCL_HANDLE_BYTES], size_t bytes,
				void **at, const char **why)
{
	unsigned char copy[BB_NCCL_HANDLE_BYTES];
	CUmemGenericAllocationHandle memory;
	CUresult result;

	memcpy(copy, handle, sizeof(copy));
	result = rank->fabric->driver.cuMemImportFromShareableHandle(&memory, copy, FABRIC);
	if (result == CUDA_SUCCESS)
		return memory_map(rank, memory, bytes, at);
	*why = result == CUDA_ERROR_NOT_PERMITTED
		       ? "the processes share no IMEX channel, so a fabric handle of one is "
			 "refused "
			 "to the other (CUDA_ERROR_NOT_PERMITTED)"
		       : "the GPU cannot import the other's fabric handle: they are in different "
			 "NVLink "
			 "domains, or nvidia-imex does not connect their hosts";
	return BB_OK;
}
