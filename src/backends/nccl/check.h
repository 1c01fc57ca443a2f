/*
 * check.h - calls of CUDA and NCCL, and reports of their failures.
 */
#ifndef BB_BACKENDS_NCCL_CHECK_H
#define BB_BACKENDS_NCCL_CHECK_H

#include "backends/backend.h"
#include "backends/nccl/compat.h"

/*
 * BB_OK if CALL, made by RANK, succeeded; BB_NCCL calls a function of the rank's library. Otherwise
 * the context's error names the call, the file and the reason, all waits end, and the result is
 * BB_EBACKEND. BB_ETIMEOUT, without a report, if waits had ended before: they are the cause.
 */
#define BB_CUDA(rank, call) bb_cuda_check(rank, call, #call, __FILE__, __LINE__)
#define BB_NCCL(rank, call) bb_nccl_check(rank, (rank)->nccl->call, #call, __FILE__, __LINE__)

/* For freeing: the same, but CALL is not made once the run is being abandoned. Other ranks may then
   still use what it frees, which lives until the process ends. */
#define BB_CUDA_FREE(rank, call)                                                                   \
	bb_nccl_ignore(bb_nccl_aborted((rank)->context) ? BB_OK : BB_CUDA(rank, call))

/* The same for a call that belongs to no rank. The reason goes into ERROR, and no wait ends. */
#define BB_CUDA_PROCESS(error, call) bb_cuda_check_process(error, call, #call, __FILE__, __LINE__)
#define BB_NCCL_PROCESS(error, library, call)                                                      \
	bb_nccl_check_process(error, library, (library)->call, #call, __FILE__, __LINE__)

BB_MUST bb_status bb_cuda_check(const struct bb_rank *rank, cudaError_t result, const char *call,
				const char *file, int line);
BB_MUST bb_status bb_nccl_check(const struct bb_rank *rank, ncclResult_t result, const char *call,
				const char *file, int line);
BB_MUST bb_status bb_cuda_check_process(struct bb_error *error, cudaError_t result,
					const char *call, const char *file, int line);
BB_MUST bb_status bb_nccl_check_process(struct bb_error *error,
					const struct bb_nccl_library *library, ncclResult_t result,
					const char *call, const char *file, int line);

/* TEXT = LIBRARY's description of its last error, on one line. */
void bb_nccl_last_error(const struct bb_nccl_library *library, char *text, size_t room);

#endif
