/*
 * check.h - calls of CUDA and NCCL, and what is told when one of them fails.
 */
#ifndef BB_BACKENDS_NCCL_CHECK_H
#define BB_BACKENDS_NCCL_CHECK_H

#include "backends/backend.h"
#include "backends/nccl/compat.h"

/*
 * BB_OK if CALL, made by RANK, succeeded; BB_NCCL's is one of the functions of its library.
 * Otherwise the context's error says which call of which file failed and why, everybody's waits
 * end, and it is BB_EBACKEND; BB_ETIMEOUT, and nothing told, where they have ended before: then it
 * fails because of that.
 */
#define BB_CUDA(rank, call) bb_cuda_told(rank, call, #call, __FILE__, __LINE__)
#define BB_NCCL(rank, call) bb_nccl_told(rank, (rank)->nccl->call, #call, __FILE__, __LINE__)

/* The same of a call that no rank makes: on start-up, or of the process as a whole. ERROR is told.
 */
#define BB_CUDA_ASKED(error, call) bb_cuda_asked(error, call, #call, __FILE__, __LINE__)
#define BB_NCCL_ASKED(error, library, call)                                                        \
	bb_nccl_asked(error, library, (library)->call, #call, __FILE__, __LINE__)

BB_MUST bb_status bb_cuda_told(const struct bb_rank *rank, cudaError_t result, const char *call,
			       const char *file, int line);
BB_MUST bb_status bb_nccl_told(const struct bb_rank *rank, ncclResult_t result, const char *call,
			       const char *file, int line);
BB_MUST bb_status bb_cuda_asked(struct bb_error *error, cudaError_t result, const char *call,
				const char *file, int line);
BB_MUST bb_status bb_nccl_asked(struct bb_error *error, const struct bb_nccl_library *library,
				ncclResult_t result, const char *call, const char *file, int line);

/* What LIBRARY says of its last error, on one line. */
void bb_nccl_last_error(const struct bb_nccl_library *library, char *text, size_t room);

#endif
