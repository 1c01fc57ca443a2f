#include "backends/nccl/check.h"

#include "backends/nccl/nccl.h"

#include <string.h>

#define DETAIL 240

/* The function of "function(arguments)". */
static int name_length(const char *call)
{
	return (int)strcspn(call, "(");
}

/* Only the first failure of a process is reported: it ends all waits, and the later ones follow
   from it. */
static bb_status report_failure(const struct bb_rank *rank, const char *call, const char *file,
				int line, const char *what, const char *detail)
{
	struct bb_context *context = rank->context;

	if (bb_nccl_aborted(context))
		return BB_ETIMEOUT;
	bb_fail(context->error, BB_EBACKEND, "rank %d: %.*s failed in %s:%d: %s%s%s", rank->rank,
		name_length(call), call, file, line, what, *detail ? ": " : "", detail);
	atomic_store(&context->aborted, 1);
	return BB_EBACKEND;
}

bb_status bb_cuda_check(const struct bb_rank *rank, cudaError_t result, const char *call,
			const char *file, int line)
{
	if (result == cudaSuccess)
		return BB_OK;
	return report_failure(rank, call, file, line, cudaGetErrorString(result),
			      cudaGetErrorName(result));
}

void bb_nccl_last_error(const struct bb_nccl_library *library, char *text, size_t room)
{
	/* NCCL before 2.13 lacks it; bb_nccl_library_open then reports the old version. */
	const char *last = library->ncclGetLastError ? library->ncclGetLastError(NULL) : NULL;
	size_t length = 0;

	for (; last && *last && length + 1 < room; last++)
		text[length++] = *last == '\n' ? ' ' : *last;
	text[length] = '\0';
}

bb_status bb_nccl_check(const struct bb_rank *rank, ncclResult_t result, const char *call,
			const char *file, int line)
{
	char detail[DETAIL];

	if (result == ncclSuccess)
		return BB_OK;
	bb_nccl_last_error(rank->nccl, detail, sizeof(detail));
	return report_failure(rank, call, file, line, rank->nccl->ncclGetErrorString(result),
			      detail);
}

bb_status bb_cuda_check_process(struct bb_error *error, cudaError_t result, const char *call,
				const char *file, int line)
{
	if (result == cudaSuccess)
		return BB_OK;
	return bb_fail(error, BB_EBACKEND, "%.*s failed in %s:%d: %s: %s", name_length(call), call,
		       file, line, cudaGetErrorString(result), cudaGetErrorName(result));
}

bb_status bb_nccl_check_process(struct bb_error *error, const struct bb_nccl_library *library,
				ncclResult_t result, const char *call, const char *file, int line)
{
	char detail[DETAIL];

	if (result == ncclSuccess)
		return BB_OK;
	bb_nccl_last_error(library, detail, sizeof(detail));
	return bb_fail(error, BB_EBACKEND, "%.*s failed in %s:%d: %s: %s", name_length(call), call,
		       file, line, library->ncclGetErrorString(result), detail);
}
