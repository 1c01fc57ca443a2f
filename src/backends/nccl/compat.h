/*
 * compat.h - differences between versions of NCCL and CUDA.
 *
 * nccl.so may be built with newer headers than those of the library it finds. A feature is used if
 * both have it: the headers decide what is compiled, the library's version what is called
 * (bb_nccl_has). The library is opened at run time (library.c), so nccl.so loads with any version,
 * or none, and reports itself what is wrong with it (versions.c).
 */
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#define BB_NCCL_LEAST 21800

#if NCCL_VERSION_CODE < BB_NCCL_LEAST
#error "busbench needs NCCL 2.18 or newer"
#endif
#if CUDART_VERSION < 11080
#error "busbench needs CUDA 11.8 or newer"
#endif

/* Some versions of nccl.h define ncclBfloat16 for C++ alone, older ones no eight-bit floats; their
   values never changed. */
#define BB_NCCL_BFLOAT16 ((ncclDataType_t)9)
#define BB_NCCL_F8E4M3 ((ncclDataType_t)10)
#define BB_NCCL_F8E5M2 ((ncclDataType_t)11)

/* ---- first version with a feature, by the headers of NCCL's releases ------------ */

/* ncclMemAlloc, and buffers registered with a communicator. */
#define BB_NCCL_SINCE_REGISTRATION 21901
/* PAT in NCCL_ALGO. */
#define BB_NCCL_SINCE_PAT 22300
/* Communicators of several IDs. */
#define BB_NCCL_SINCE_ROOTS 22304
/* RAS, which reports the state of all ranks. */
#define BB_NCCL_SINCE_RAS 22403
/* NCCL refuses calls that NCCL_ALGO excludes. Earlier versions silently run a ring in place of an
   algorithm that they lack; they never lack the tree of an all-reduce (graph/tuning.cc of 2.18 to
   2.23). */
#define BB_NCCL_SINCE_STRICT 22400
/* Eight-bit floats. */
#define BB_NCCL_SINCE_FP8 22400
/* Names of communicators, which profilers receive. */
#define BB_NCCL_SINCE_NAMES 22703
/* Symmetric windows. */
#define BB_NCCL_SINCE_WINDOWS 22703
/* A window is NULL without symmetric memory (dev_runtime.cc). Before, it may be registered with
   this rank alone. */
#define BB_NCCL_SINCE_NULL_WINDOWS 22902
/* The thread block policy of a communicator; and that of no thread blocks. */
#define BB_NCCL_SINCE_POLICIES 22703
#define BB_NCCL_SINCE_POLICY_ZERO 22803
/* nvlinkCentricSched, which acts on GPUs from compute capability 10.0 on. */
#define BB_NCCL_SINCE_NVLINK_SCHEDULING 22803
/* maxP2pPeers. */
#define BB_NCCL_SINCE_PEERS 23003
/* Two ranks share a GPU if its UUID is the same; before, if its bus is (init.cc, transport.h). */
#define BB_NCCL_SINCE_UUIDS 23007
/* ncclAlltoAll, ncclGather and ncclScatter. */
#define BB_NCCL_SINCE_ALLTOALL 22803
/* The device API, with networking; in 2.28.3 its structs are others. From 2.29 on they carry the
   version of the headers. */
#define BB_NCCL_SINCE_DEVICE 22807
#define BB_NCCL_SINCE_DEVICE_VERSIONS 22900

#if NCCL_VERSION_CODE < BB_NCCL_SINCE_WINDOWS
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_WIN_COLL_SYMMETRIC 1
#endif

/* FEATURE(first version, its name in --list). */
#define BB_NCCL_FEATURES(FEATURE)                                                                  \
	FEATURE(BB_NCCL_SINCE_REGISTRATION, "registered buffers")                                  \
	FEATURE(BB_NCCL_SINCE_PAT, "PAT")                                                          \
	FEATURE(BB_NCCL_SINCE_ROOTS, "communicators of several IDs")                               \
	FEATURE(BB_NCCL_SINCE_STRICT, "forced algorithms other than ring and tree")                \
	FEATURE(BB_NCCL_SINCE_FP8, "eight-bit floats")                                             \
	FEATURE(BB_NCCL_SINCE_NAMES, "reports of NCCL's choice of an algorithm")                   \
	FEATURE(BB_NCCL_SINCE_WINDOWS, "symmetric windows")                                        \
	FEATURE(BB_NCCL_SINCE_POLICIES, "thread block policies")                                   \
	FEATURE(BB_NCCL_SINCE_POLICY_ZERO, "the policy of no thread blocks")                       \
	FEATURE(BB_NCCL_SINCE_ALLTOALL, "ncclAlltoAll, ncclGather and ncclScatter")                \
	FEATURE(BB_NCCL_SINCE_DEVICE, "kernels on the device API")

/* ---- FUNCTION(first version that is called, name) ------------------------------------------ */

#define BB_NCCL_FUNCTIONS(FUNCTION)                                                                \
	FUNCTION(BB_NCCL_LEAST, ncclAllGather)                                                     \
	FUNCTION(BB_NCCL_LEAST, ncclAllReduce)                                                     \
	FUNCTION(BB_NCCL_LEAST, ncclBroadcast)                                                     \
	FUNCTION(BB_NCCL_LEAST, ncclCommAbort)                                                     \
	FUNCTION(BB_NCCL_LEAST, ncclCommDestroy)                                                   \
	FUNCTION(BB_NCCL_LEAST, ncclCommGetAsyncError)                                             \
	FUNCTION(BB_NCCL_LEAST, ncclCommInitRankConfig)                                            \
	FUNCTION(BB_NCCL_LEAST, ncclCommSplit)                                                     \
	FUNCTION(BB_NCCL_LEAST, ncclGetErrorString)                                                \
	FUNCTION(BB_NCCL_LEAST, ncclGetLastError)                                                  \
	FUNCTION(BB_NCCL_LEAST, ncclGetUniqueId)                                                   \
	FUNCTION(BB_NCCL_LEAST, ncclGetVersion)                                                    \
	FUNCTION(BB_NCCL_LEAST, ncclGroupEnd)                                                      \
	FUNCTION(BB_NCCL_LEAST, ncclGroupStart)                                                    \
	FUNCTION(BB_NCCL_LEAST, ncclRecv)                                                          \
	FUNCTION(BB_NCCL_LEAST, ncclRedOpCreatePreMulSum)                                          \
	FUNCTION(BB_NCCL_LEAST, ncclRedOpDestroy)                                                  \
	FUNCTION(BB_NCCL_LEAST, ncclReduce)                                                        \
	FUNCTION(BB_NCCL_LEAST, ncclReduceScatter)                                                 \
	FUNCTION(BB_NCCL_LEAST, ncclSend)                                                          \
	FUNCTION(BB_NCCL_SINCE_REGISTRATION, ncclCommDeregister)                                   \
	FUNCTION(BB_NCCL_SINCE_REGISTRATION, ncclCommRegister)                                     \
	FUNCTION(BB_NCCL_SINCE_REGISTRATION, ncclMemAlloc)                                         \
	FUNCTION(BB_NCCL_SINCE_REGISTRATION, ncclMemFree)                                          \
	FUNCTION(BB_NCCL_SINCE_ROOTS, ncclCommInitRankScalable)                                    \
	FUNCTION(BB_NCCL_SINCE_WINDOWS, ncclCommWindowDeregister)                                  \
	FUNCTION(BB_NCCL_SINCE_WINDOWS, ncclCommWindowRegister)                                    \
	FUNCTION(BB_NCCL_SINCE_ALLTOALL, ncclAlltoAll)                                             \
	FUNCTION(BB_NCCL_SINCE_ALLTOALL, ncclGather)                                               \
	FUNCTION(BB_NCCL_SINCE_ALLTOALL, ncclScatter)                                              \
	FUNCTION(BB_NCCL_SINCE_DEVICE, ncclDevCommCreate)                                          \
	FUNCTION(BB_NCCL_SINCE_DEVICE, ncclDevCommDestroy)

/* FUNCTION(name) of CUDA's driver: mapped memory and its handles. */
#define BB_NCCL_DRIVER_FUNCTIONS(FUNCTION)                                                         \
	FUNCTION(cuDeviceGet)                                                                      \
	FUNCTION(cuDeviceGetAttribute)                                                             \
	FUNCTION(cuMemAddressFree)                                                                 \
	FUNCTION(cuMemAddressReserve)                                                              \
	FUNCTION(cuMemCreate)                                                                      \
	FUNCTION(cuMemExportToShareableHandle)                                                     \
	FUNCTION(cuMemGetAllocationGranularity)                                                    \
	FUNCTION(cuMemImportFromShareableHandle)                                                   \
	FUNCTION(cuMemMap)                                                                         \
	FUNCTION(cuMemRelease)                                                                     \
	FUNCTION(cuMemRetainAllocationHandle)                                                      \
	FUNCTION(cuMemSetAccess)                                                                   \
	FUNCTION(cuMemUnmap)

/* In C++ no member may be named as the function that its type names. */
#ifndef __cplusplus

/* What older headers of NCCL lack, and those of the device API declare for C++ alone. */
struct ncclDevComm;
struct ncclDevCommRequirements;
ncclResult_t ncclMemAlloc(void **at, size_t bytes);
ncclResult_t ncclMemFree(void *at);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *at, size_t bytes, void **handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int me, int roots, ncclUniqueId *ids,
				      ncclConfig_t *config);
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes, ncclWindow_t *window,
				    int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type,
			  ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void *in, void *out, size_t count, ncclDataType_t type, int root,
			ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void *in, void *out, size_t count, ncclDataType_t type, int root,
			 ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *needs,
			       struct ncclDevComm *device);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *device);

/* The loaded library. Pointers to missing functions are NULL. */
struct bb_nccl_library {
	int version; /* 0: it is not usable */
#define BB_NCCL_POINTER(since, name) __typeof__(name) *name;
	BB_NCCL_FUNCTIONS(BB_NCCL_POINTER)
#undef BB_NCCL_POINTER
};

/* CUDA's driver, which is loaded where a GPU is used. */
struct bb_nccl_driver {
#define BB_NCCL_POINTER(name) __typeof__(name) *name;
	BB_NCCL_DRIVER_FUNCTIONS(BB_NCCL_POINTER)
#undef BB_NCCL_POINTER
};

#endif
