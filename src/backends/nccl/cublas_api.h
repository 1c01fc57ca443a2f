/*
 * cublas_api.h - what busbench uses of cuBLAS: types, constants and prototypes, as far as they are
 * part of its binary interface. The library comes with CUDA and is loaded when something is
 * multiplied; nothing else needs it. Names stand as they are exported.
 */
#pragma once

#include <cuda_runtime_api.h>

/* That of the CUDA this is built with: "libcublas.so.12". */
#define BB_CUBLAS_LIBRARY "libcublas.so.%d"
#define BB_CUBLAS_MAJOR (CUDART_VERSION / 1000)

typedef int cublasStatus_t; /* 0: success */
typedef struct cublasContext *cublasHandle_t;

#define BB_CUBLAS_OP_N 0
#define BB_CUBLAS_R_16F 2        /* CUDA_R_16F: half precision */
#define BB_CUBLAS_COMPUTE_32F 68 /* adds in single precision */
#define BB_CUBLAS_GEMM_DEFAULT (-1)

/* X(result, name, parameters); matrices lie by columns. */
#define BB_CUBLAS_FUNCTIONS(X)                                                                     \
	X(cublasStatus_t, cublasCreate_v2, (cublasHandle_t * handle))                              \
	X(cublasStatus_t, cublasDestroy_v2, (cublasHandle_t handle))                               \
	X(cublasStatus_t, cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream))        \
	X(cublasStatus_t, cublasGemmEx,                                                            \
	  (cublasHandle_t handle, int transa, int transb, int m, int n, int k, const void *alpha,  \
	   const void *a, int a_type, int lda, const void *b, int b_type, int ldb,                 \
	   const void *beta, void *c, int c_type, int ldc, int compute_type, int algorithm))       \
	X(const char *, cublasGetStatusString, (cublasStatus_t status))
