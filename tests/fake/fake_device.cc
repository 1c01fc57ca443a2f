/*
 * The device parts of communicators, which the headers describe in C++ alone.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "backends/nccl/compat.h"

#ifdef BB_NCCL_HAS_DEVICE

#include <nccl_device/core.h>

#include "fake_device.h"

extern "C" {

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements *needs,
			       ncclDevComm *device)
{
	return fake_device_create(comm, needs->lsaMultimem, needs->ginSignalCount > 0,
				  needs->lsaBarrierCount, device);
}
}

#endif
