/*
 * CUDA's driver: memory that is made, mapped and shared by fabric handles. It lies in the region of
 * all processes, and each maps it at an address of its own.
 */
#include "fake.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define GRANULARITY ((size_t)65536)
#define FABRIC 8 /* the kind of handles */

/* In the region, as what it describes. */
struct made {
	atomic_int refs; /* handles of all processes, and mappings */
	size_t bytes;
	char *at, *whole; /* WHOLE was taken, with a page more, so that AT begins one */
};

struct exported {
	struct made *made;
	long domain;
};

static struct made *made_of(CUmemGenericAllocationHandle handle)
{
	return (struct made *)(uintptr_t)handle;
}

static void made_drop(struct made *m)
{
	if (atomic_fetch_sub(&m->refs, 1) > 1)
		return;
	fake_free(m->whole, m->bytes + PAGE);
	fake_free(m, sizeof(*m));
}

static CUmemGenericAllocationHandle handle_to(struct made *m)
{
	atomic_fetch_add(&m->refs, 1);
	fake_made(FAKE_REGISTRATION);
	return (uintptr_t)m;
}

#define FAKE_DRIVER()                                                                              \
	do {                                                                                       \
		if (fake_enter(__func__))                                                          \
			return CUDA_ERROR_UNKNOWN;                                                 \
	} while (0)

CUresult cuDeviceGet(CUdevice *handle, int ordinal)
{
	FAKE_DRIVER();
	*handle = ordinal;
	return CUDA_SUCCESS;
}

/* Asked whether there are fabric handles alone. */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	FAKE_DRIVER();
	*value = fake_number("BUSBENCH_FAKE_FABRIC", 0) != 0;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	FAKE_DRIVER();
	*granularity = GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct made *m;

	FAKE_DRIVER();
	if (size % GRANULARITY != 0 || (int)prop->requestedHandleTypes != FABRIC ||
	    prop->location.id != fake_device() || !fake_has_region())
		return CUDA_ERROR_INVALID_VALUE;
	if (fake_number("BUSBENCH_FAKE_IMEX", 1) == 0)
		return CUDA_ERROR_NOT_PERMITTED;
	m = fake_zeroed(sizeof(*m));
	m->bytes = size;
	m->whole = fake_zeroed(size + PAGE);
	m->at = (char *)(((uintptr_t)m->whole + PAGE - 1) & ~(PAGE - 1));
	*handle = handle_to(m);
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	const bool fails = fake_enter(__func__);

	made_drop(made_of(handle));
	fake_let_go(FAKE_REGISTRATION);
	return fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	const struct exported e = {made_of(handle), fake_number("BUSBENCH_FAKE_DOMAIN", 0)};

	FAKE_DRIVER();
	memcpy(shareable, &e, sizeof(e));
	return (int)type == FABRIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					CUmemAllocationHandleType type)
{
	struct exported e;

	FAKE_DRIVER();
	memcpy(&e, shareable, sizeof(e));
	if ((int)type != FABRIC || e.domain != fake_number("BUSBENCH_FAKE_DOMAIN", 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	*handle = handle_to(e.made);
	return CUDA_SUCCESS;
}

/* ---- mapped ---------------------------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr wanted,
			     unsigned long long flags)
{
	void *reserved;

	FAKE_DRIVER();
	reserved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*at = (uintptr_t)reserved;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t size)
{
	const bool fails = fake_enter(__func__);

	munmap((void *)(uintptr_t)at, size);
	return fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* Nobody may access it yet. */
CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	struct made *const m = made_of(handle);
	void *const address = (void *)(uintptr_t)at;

	FAKE_DRIVER();
	/* From a size of 0 on, mremap makes a second mapping of the same memory. */
	if (size != m->bytes || offset != 0 ||
	    mremap(m->at, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != address)
		return CUDA_ERROR_INVALID_VALUE;
	mprotect(address, size, PROT_NONE);
	atomic_fetch_add(&m->refs, 1);
	fake_add_memory(address, size, m);
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *access, size_t count)
{
	FAKE_DRIVER();
	return count == 1 && mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE) == 0
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

const void *fake_everywhere(const void *at)
{
	size_t offset;
	const struct made *const m = fake_memory_origin(at, &offset);

	return m ? m->at + offset : at;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *at)
{
	size_t offset;
	struct made *const m = fake_memory_origin(at, &offset);

	FAKE_DRIVER();
	if (!m)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = handle_to(m);
	return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
	const bool fails = fake_enter(__func__);
	void *const address = (void *)(uintptr_t)at;
	size_t offset;
	struct made *const m = fake_memory_origin(address, &offset);

	if (!m || fake_remove_memory(address) != size)
		return CUDA_ERROR_INVALID_VALUE;
	mprotect(address, size, PROT_NONE);
	made_drop(m);
	return fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}
