/*
 * cublas.c - a stand-in for cuBLAS, that multiplies nothing. A call that the library would not take
 * fails; where BUSBENCH_FAKE_GEMM is set, what it was asked for is said on stderr when a handle is
 * let go: "gemm: 3 calls, 1000000 operations".
 */
#include "backends/nccl/cublas_api.h"

#include <stdio.h>
#include <stdlib.h>

#define INVALID 7 /* CUBLAS_STATUS_INVALID_VALUE */

struct cublasContext {
	cudaStream_t stream;
	long calls;
	double operations;
};

#define DECLARE(result, name, parameters)                                                          \
	__attribute__((visibility("default"))) result name parameters;
BB_CUBLAS_FUNCTIONS(DECLARE)

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	*handle = calloc(1, sizeof(**handle));
	return *handle ? 0 : INVALID;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	if (getenv("BUSBENCH_FAKE_GEMM"))
		fprintf(stderr, "gemm: %ld calls, %.0f operations\n", handle->calls,
			handle->operations);
	free(handle);
	return 0;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return 0;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, int transa, int transb, int m, int n, int k,
			    const void *alpha, const void *a, int a_type, int lda, const void *b,
			    int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
			    int compute_type, int algorithm)
{
	const int half = BB_CUBLAS_R_16F;

	if (!handle->stream || transa != BB_CUBLAS_OP_N || transb != BB_CUBLAS_OP_N || m < 1 ||
	    n < 1 || k < 1 || lda < m || ldb < k || ldc < m || *(const float *)alpha != 1 ||
	    *(const float *)beta != 0 || !a || !b || !c || a_type != half || b_type != half ||
	    c_type != half || compute_type != BB_CUBLAS_COMPUTE_32F ||
	    algorithm != BB_CUBLAS_GEMM_DEFAULT)
		return INVALID;
	handle->calls++;
	handle->operations += 2.0 * m * n * k;
	return 0;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return status == INVALID ? "CUBLAS_STATUS_INVALID_VALUE" : "unknown";
}
