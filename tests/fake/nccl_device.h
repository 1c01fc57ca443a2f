/*
 * nccl_device.h - in the place of NCCL's, for kernels that are compiled for the CPU
 * (cuda_on_cpu.h).
 *
 * The threads of a grid run one after the other. A barrier at the beginning of a kernel therefore
 * waits in its first thread, and one at its end in the last: what the others do lies in between.
 */
#ifndef BB_TESTS_NCCL_DEVICE_H
#define BB_TESTS_NCCL_DEVICE_H

#include <nccl.h>

#include "fake_device.h"

namespace cuda
{
enum memory_order { memory_order_acquire, memory_order_release };
}

struct ncclCoopCta {
};

struct ncclTeamTagLsa {
};

template <typename Coop> struct ncclLsaBarrierSession {
	const ncclDevComm &comm;

	ncclLsaBarrierSession(Coop, const ncclDevComm &device, ncclTeamTagLsa, uint32_t)
	    : comm(device)
	{
	}

	void sync(Coop, cuda::memory_order order)
	{
		const bool first = blockIdx.x == 0 && threadIdx.x == 0;
		const bool last = blockIdx.x == gridDim.x - 1 && threadIdx.x == blockDim.x - 1;

		if (order == cuda::memory_order_acquire ? first : last)
			comm.barrier(&comm);
	}
};

static inline void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer)
{
	return window->base[peer] + offset;
}

#endif
