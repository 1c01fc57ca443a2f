/*
 * compat.h - what differs between the versions of NCCL and CUDA that busbench is built with.
 */
#ifndef BB_BACKENDS_NCCL_COMPAT_H
#define BB_BACKENDS_NCCL_COMPAT_H

#include <cuda_runtime_api.h>
#include <nccl.h>

#if NCCL_VERSION_CODE < 21800
#error "busbench needs NCCL 2.18 or newer"
#endif
#if CUDART_VERSION < 11080
#error "busbench needs CUDA 11.8 or newer"
#endif

#define BB_NCCL_LEAST_VERSION 21800

/* ncclMemAlloc, and buffers that a communicator knows. */
#define BB_NCCL_HAS_REGISTRATION (NCCL_VERSION_CODE >= 21901)
/* Eight-bit floats. */
#define BB_NCCL_HAS_FP8 (NCCL_VERSION_CODE >= 22400)
/* In C the header of some versions leaves the name out; the number is always the same. */
#define BB_NCCL_BFLOAT16 ((ncclDataType_t)9)
/* A communicator's name, which its profiler is told. */
#define BB_NCCL_HAS_NAMES (NCCL_VERSION_CODE >= 22703)
/* ncclCommWindowRegister, and the thread block policy of a communicator. */
#define BB_NCCL_HAS_WINDOWS (NCCL_VERSION_CODE >= 22703)
/* ncclAlltoAll, ncclGather and ncclScatter. */
#define BB_NCCL_HAS_ALLTOALL (NCCL_VERSION_CODE >= 22800)

/* From which version of the library on NCCL_ALGO knows PAT. */
#define BB_NCCL_PAT_VERSION 22300
/* From which on it refuses what NCCL_ALGO rules out. Before, it falls back to a ring and says
   nothing. */
#define BB_NCCL_STRICT_VERSION 22400

#endif
