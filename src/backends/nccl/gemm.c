/*
 * Matrix products by cuBLAS that stand for the computation of a training step: half precision,
 * accumulated in single precision. The matrices hold random numbers, because products of zeros take
 * less power and run faster.
 */
#include "backends/nccl/cublas_api.h"
#include "backends/nccl/nccl.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_MOST 4096 /* of a matrix: large enough for a device's full speed */
#define SIDE_STEP 64
#define DEPTH_STEP 8
#define MATRIX_BYTES ((size_t)SIDE_MOST * SIDE_MOST * sizeof(uint16_t))
#define MATRICES 3
#define BLOCK_BYTES ((size_t)1 << 20) /* of random numbers, which repeat */

struct bb_nccl_gemm {
	void *library;
	cublasHandle_t handle;
#define POINTER(result, name, parameters) result(*name) parameters;
	BB_CUBLAS_FUNCTIONS(POINTER)
#undef POINTER
	char *matrices;
};

/* ---- the library ------------------------------------------------------------------------- */

static bb_status cublas_check(const struct bb_rank *rank, cublasStatus_t result, const char *call)
{
	if (result == 0)
		return BB_OK;
	return bb_fail(rank->context->error, BB_EBACKEND, "rank %d: %s: %s (%d)", rank->rank, call,
		       rank->gemm->cublasGetStatusString(result), result);
}

/* After a failure, what exists is freed by bb_nccl_gemm_close. */
static bb_status gemm_open(struct bb_rank *rank, struct bb_error *error)
{
	struct bb_nccl_gemm *g = rank->gemm;
	uint16_t *numbers = NULL;
	uint64_t x = BB_RANDOM_STEP;
	char name[32];
	bool complete = true;
	bb_status status;

	if (!g)
		g = rank->gemm = calloc(1, sizeof(*g));
	if (!g)
		return bb_no_memory(rank->context->error, "a rank");
	if (g->matrices)
		return BB_OK;
	snprintf(name, sizeof(name), BB_CUBLAS_LIBRARY, BB_CUBLAS_MAJOR);
	g->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!g->library)
		return bb_fail(error, BB_EUNSUPPORTED,
			       "gemm needs cuBLAS, which cannot be loaded: %s", dlerror());
#define RESOLVE(result, function, parameters)                                                      \
	complete = (g->function = dlsym(g->library, #function)) && complete;
	BB_CUBLAS_FUNCTIONS(RESOLVE)
#undef RESOLVE
	if (!complete)
		return bb_fail(error, BB_EUNSUPPORTED, "gemm: %s lacks functions of cuBLAS", name);
	BB_TRY(status, cublas_check(rank, g->cublasCreate_v2(&g->handle), "cublasCreate"), out);
	BB_TRY(status, BB_CUDA(rank, cudaMalloc((void **)&g->matrices, MATRICES * MATRIX_BYTES)),
	       out);
	numbers = malloc(BLOCK_BYTES);
	if (!numbers)
		BB_TRY(status, bb_no_memory(rank->context->error, "a rank"), out);
	/* Half-precision numbers of magnitude 1/8 to 2. */
	for (size_t i = 0; i < BLOCK_BYTES / sizeof(*numbers); i++) {
		const unsigned exponent = 12 + (unsigned)(x >> 40) % 4;

		numbers[i] = (uint16_t)((x >> 48 & 0x8000) | exponent << 10 | (x >> 20 & 0x3ff));
		bb_random_congruential(&x);
	}
	for (size_t at = 0; at < MATRICES * MATRIX_BYTES && status == BB_OK; at += BLOCK_BYTES)
		status = bb_nccl_copy(rank, g->matrices + at, numbers, BLOCK_BYTES);
out:
	free(numbers);
	return status;
}

void bb_nccl_gemm_close(struct bb_rank *rank)
{
	struct bb_nccl_gemm *g = rank->gemm;
	const bool healthy = !bb_nccl_aborted(rank->context);

	if (!g)
		return;
	if (g->matrices)
		BB_CUDA_FREE(rank, cudaFree(g->matrices));
	if (g->handle && healthy)
		bb_nccl_ignore(cublas_check(rank, g->cublasDestroy_v2(g->handle), "cublasDestroy"));
	if (g->library && healthy)
		dlclose(g->library);
	free(g);
	rank->gemm = NULL;
}

/* ---- multiplying ------------------------------------------------------------------------- */

static bb_status gemm_issue(struct bb_rank *rank, int side, int depth)
{
	struct bb_nccl_gemm *g = rank->gemm;
	const float one = 1, zero = 0;
	const char *const a = g->matrices, *const b = a + MATRIX_BYTES;
	char *const c = g->matrices + 2 * MATRIX_BYTES;

	return cublas_check(rank,
			    g->cublasGemmEx(g->handle, BB_CUBLAS_OP_N, BB_CUBLAS_OP_N, side, side,
					    depth, &one, a, BB_CUBLAS_R_16F, side, b,
					    BB_CUBLAS_R_16F, depth, &zero, c, BB_CUBLAS_R_16F, side,
					    BB_CUBLAS_COMPUTE_32F, BB_CUBLAS_GEMM_DEFAULT),
			    "cublasGemmEx");
}

/* C = A B takes 2 m n k operations: products of square matrices, and one whose inner dimension is
   DEPTH, unless that is 0. */
bb_status bb_nccl_multiply(struct bb_rank *rank, cudaStream_t stream, double flops,
			   struct bb_error *error)
{
	const int cube = (int)fmin(SIDE_MOST, cbrt(flops / 2)) / SIDE_STEP * SIDE_STEP;
	const int side = cube < SIDE_STEP ? SIDE_STEP : cube;
	const double layer = 2.0 * side * side;
	const uint64_t times = (uint64_t)(flops / (layer * side));
	const double rest = flops - (double)times * layer * side;
	int depth = (int)(rest / layer / DEPTH_STEP + 0.5) * DEPTH_STEP;
	bb_status status;

	if (times == 0 && depth == 0)
		depth = DEPTH_STEP;
	BB_TRY(status, gemm_open(rank, error), out);
	BB_TRY(status,
	       cublas_check(rank, rank->gemm->cublasSetStream_v2(rank->gemm->handle, stream),
			    "cublasSetStream"),
	       out);
	for (uint64_t i = 0; i < times && status == BB_OK; i++)
		status = gemm_issue(rank, side, side);
	if (depth > 0 && status == BB_OK)
		status = gemm_issue(rank, side, depth);
out:
	return status;
}
