/*
 * device.h - collectives as kernels on NCCL's device API (device.cu), and the part of a
 * communicator that they use. Both exist if the headers have the device API.
 */
#pragma once

#include "backends/nccl/compat.h"
#include "backends/nccl/kernels.h"

#define BB_DEVICE_KERNELS 4
#define BB_DEVICE_ALLTOALL_KERNELS 2

struct ncclDevComm;
struct ncclDevCommRequirements;

/* One call. Offsets are the same on all ranks. */
struct bb_device_call {
	bool alltoall; /* else all_reduce, a sum */
	int kernel;    /* 1 to BB_DEVICE_KERNELS, as nccl-tests' -D */
	unsigned blocks;
	enum bb_dtype dtype;
	ncclWindow_t in, out;
	size_t in_offset, out_offset; /* bytes */
	uint64_t count;               /* elements; alltoall: to each peer */
};

#ifdef __cplusplus
extern "C" {
#endif

typedef ncclResult_t bb_device_create(ncclComm_t comm, const struct ncclDevCommRequirements *needs,
				      struct ncclDevComm *device);

/* *DEVICE = the device part of COMM, made by CREATE for kernels of BLOCKS thread blocks, or NULL
   without memory. With MULTIMEM NVSwitch reduces for them (multimem instructions). *RANKS = the
   number of ranks whose memory this rank can access (load-store accessible), itself included. The
   caller frees the struct, whatever CREATE returned. Collective over COMM. */
ncclResult_t bb_device_open(bb_device_create *create, ncclComm_t comm, bool multimem,
			    unsigned blocks, struct ncclDevComm **device, int *ranks);
/* Issue CALL to STREAM; cudaErrorInvalidValue if there is no such kernel for its datatype. */
cudaError_t bb_device_run(cudaStream_t stream, const struct ncclDevComm *device,
			  const struct bb_device_call *call);

#ifdef __cplusplus
}
#endif
