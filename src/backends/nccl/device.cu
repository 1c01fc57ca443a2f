/*
 * Collectives as kernels on NCCL's device API, numbered as in nccl-tests. Each begins and ends with
 * a barrier of its thread blocks among the ranks: inputs are complete before any rank reads them,
 * and outputs before any rank leaves.
 */
#include "backends/nccl/device.h"

#if NCCL_VERSION_CODE >= BB_NCCL_SINCE_DEVICE

#include "backends/nccl/formats.cuh"

#include <nccl_device.h>
#include <stdlib.h>

namespace
{

/* A call as the kernels receive it. */
struct device_work : bb_device_call {
	uint64_t head;   /* elements before the first piece */
	uint64_t pieces; /* of 16 bytes; alltoall: to each peer */
	ncclDevComm comm;
};

typedef void device_kernel(const device_work w);

const unsigned BLOCK_THREADS = 512; /* as in nccl-tests */
const int UNROLL = 8;               /* pieces of a thread at a time */

typedef ncclLsaBarrierSession<ncclCoopCta> lsa_barrier;

/* ---- all_reduce ---------------------------------------------------------------------- */

/* Ranks share the elements: threads are numbered across all ranks. */
__device__ uint64_t world_index(const device_work &w)
{
	return threadIdx.x +
	       (uint64_t)blockDim.x * (w.comm.rank + (uint64_t)blockIdx.x * w.comm.nRanks);
}

__device__ uint64_t world_threads(const device_work &w)
{
	return thread_count() * w.comm.nRanks;
}

template <typename T> __device__ T *peer_in(const device_work &w, int peer)
{
	return (T *)ncclGetLsaPointer(w.in, w.in_offset, peer);
}

template <typename T> __device__ T *peer_out(const device_work &w, int peer)
{
	return (T *)ncclGetLsaPointer(w.out, w.out_offset, peer);
}

/* Element I of all ranks, summed and stored in all ranks. */
template <typename F> __device__ void sum_element(const device_work &w, uint64_t i)
{
	typedef typename F::bits bits;
	typename F::wide sum = F::widen(peer_in<bits>(w, 0)[i]);

	for (int peer = 1; peer < w.comm.nRanks; peer++)
		sum = sum + F::widen(peer_in<bits>(w, peer)[i]);
	for (int peer = 0; peer < w.comm.nRanks; peer++)
		peer_out<bits>(w, peer)[i] = F::narrow(sum);
}

/* 1: element by element. */
template <typename F>
__global__ void __launch_bounds__(BLOCK_THREADS) all_reduce_lsa(const device_work w)
{
	lsa_barrier barrier(ncclCoopCta(), w.comm, ncclTeamTagLsa(), blockIdx.x);

	barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
	for (uint64_t i = world_index(w); i < w.count; i += world_threads(w))
		sum_element<F>(w, i);
	barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

template <typename F> __device__ uint4 add_pieces(const uint4 &x, const uint4 &y)
{
	piece_of<F> a(x), b(y);

#pragma unroll
	for (int k = 0; k < (int)(PIECE / sizeof(typename F::bits)); k++)
		a.elements[k] = F::narrow(F::widen(a.elements[k]) + F::widen(b.elements[k]));
	return a.words;
}

/* Pieces I, I + STEP, … of all ranks; those beyond the last do not exist. */
template <typename F> __device__ void sum_pieces(const device_work &w, uint64_t i, uint64_t step)
{
	const size_t body = w.head * sizeof(typename F::bits);
	uint4 sum[UNROLL];

	for (int peer = 0; peer < w.comm.nRanks; peer++) {
		const uint4 *const in = (const uint4 *)(peer_in<char>(w, peer) + body);

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			if (i + u * step < w.pieces)
				sum[u] = peer == 0 ? in[i + u * step]
						   : add_pieces<F>(sum[u], in[i + u * step]);
	}
	for (int peer = 0; peer < w.comm.nRanks; peer++) {
		uint4 *const out = (uint4 *)(peer_out<char>(w, peer) + body);

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			if (i + u * step < w.pieces)
				out[i + u * step] = sum[u];
	}
}

/* 2: pieces of 16 bytes, several at a time. */
template <typename F>
__global__ void __launch_bounds__(BLOCK_THREADS) all_reduce_lsa_pieces(const device_work w)
{
	lsa_barrier barrier(ncclCoopCta(), w.comm, ncclTeamTagLsa(), blockIdx.x);
	const uint64_t first = world_index(w), step = world_threads(w);
	uint64_t element;

	barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
	for (uint64_t i = first; i < w.pieces; i += UNROLL * step)
		sum_pieces<F>(w, i, step);
	for (uint64_t t = first; stray_element(w, sizeof(typename F::bits), t, &element); t += step)
		sum_element<F>(w, element);
	barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

#ifdef __CUDACC__

#if __CUDA_ARCH__ >= 900
#define MULTIMEM(...) asm volatile("multimem." __VA_ARGS__ : "memory")
#else
#define MULTIMEM(...)
#endif

/* The sum of *AT over all ranks, made by NVSwitch; a store that reaches all ranks. */
#define MULTIMEM_SCALAR(type, name, constraint)                                                    \
	__device__ type multimem_sum(const type *at)                                               \
	{                                                                                          \
		type sum = 0;                                                                      \
                                                                                                   \
		MULTIMEM("ld_reduce.global.add." name " %0, [%1];"                                 \
			 : "=" constraint(sum)                                                     \
			 : "l"(at));                                                               \
		return sum;                                                                        \
	}                                                                                          \
	__device__ void multimem_store(type *at, type value)                                       \
	{                                                                                          \
		MULTIMEM("st.global." name " [%0], %1;" ::"l"(at), constraint(value));             \
	}

MULTIMEM_SCALAR(float, "f32", "f")
MULTIMEM_SCALAR(double, "f64", "d")

__device__ float4 multimem_sum(const float4 *at)
{
	float4 sum = make_float4(0, 0, 0, 0);

	MULTIMEM("ld_reduce.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
		 : "=f"(sum.x), "=f"(sum.y), "=f"(sum.z), "=f"(sum.w)
		 : "l"(at));
	return sum;
}

__device__ void multimem_store(float4 *at, const float4 &value)
{
	MULTIMEM("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(value.x), "f"(value.y),
		 "f"(value.z), "f"(value.w));
}

/* 3: element by element. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_THREADS) all_reduce_multimem(const device_work w)
{
	lsa_barrier barrier(ncclCoopCta(), w.comm, ncclTeamTagLsa(), blockIdx.x, true);
	const T *const in = (const T *)ncclGetLsaMultimemPointer(w.in, w.in_offset, w.comm);
	T *const out = (T *)ncclGetLsaMultimemPointer(w.out, w.out_offset, w.comm);

	barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
	for (uint64_t i = world_index(w); i < w.count; i += world_threads(w))
		multimem_store(out + i, multimem_sum(in + i));
	barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

/* 4: pieces of four floats, several at a time. */
__global__ void __launch_bounds__(BLOCK_THREADS) all_reduce_multimem_pieces(const device_work w)
{
	lsa_barrier barrier(ncclCoopCta(), w.comm, ncclTeamTagLsa(), blockIdx.x, true);
	const float *const in = (const float *)ncclGetLsaMultimemPointer(w.in, w.in_offset, w.comm);
	float *const out = (float *)ncclGetLsaMultimemPointer(w.out, w.out_offset, w.comm);
	const float4 *const from = (const float4 *)(in + w.head);
	float4 *const to = (float4 *)(out + w.head);
	const uint64_t first = world_index(w), step = world_threads(w);
	uint64_t element;
	float4 sum[UNROLL];

	barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
	for (uint64_t i = first; i < w.pieces; i += UNROLL * step) {
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			if (i + u * step < w.pieces)
				sum[u] = multimem_sum(from + i + u * step);
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			if (i + u * step < w.pieces)
				multimem_store(to + i + u * step, sum[u]);
	}
	for (uint64_t t = first; stray_element(w, sizeof(float), t, &element); t += step)
		multimem_store(out + element, multimem_sum(in + element));
	barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

#endif

/* ---- alltoall ------------------------------------------------------------------------ */

/* 1: element by element. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_THREADS) alltoall_lsa(const device_work w)
{
	lsa_barrier barrier(ncclCoopCta(), w.comm, ncclTeamTagLsa(), blockIdx.x);
	const T *const in = peer_in<T>(w, w.comm.lsaRank);

	barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
	for (uint64_t i = thread_index(); i < w.count; i += thread_count())
		for (int peer = 0; peer < w.comm.nRanks; peer++)
			peer_out<T>(w, peer)[w.comm.rank * w.count + i] = in[peer * w.count + i];
	barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

/* Pieces I, I + STEP, … for PEER. */
__device__ void store_pieces(const device_work &w, int peer, uint64_t i, uint64_t step)
{
	const uint4 *const from = peer_in<uint4>(w, w.comm.lsaRank) + peer * w.pieces;
	uint4 *const to = peer_out<uint4>(w, peer) + w.comm.rank * w.pieces;
	uint4 v[UNROLL];

#pragma unroll
	for (int u = 0; u < UNROLL; u++)
		if (i + u * step < w.pieces)
			v[u] = from[i + u * step];
#pragma unroll
	for (int u = 0; u < UNROLL; u++)
		if (i + u * step < w.pieces)
			to[i + u * step] = v[u];
}

/* 2: pieces of 16 bytes, several at a time. */
__global__ void __launch_bounds__(BLOCK_THREADS) alltoall_lsa_pieces(const device_work w)
{
	lsa_barrier barrier(ncclCoopCta(), w.comm, ncclTeamTagLsa(), blockIdx.x);

	barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
	for (uint64_t i = thread_index(); i < w.pieces; i += UNROLL * thread_count())
		for (int peer = 0; peer < w.comm.nRanks; peer++)
			store_pieces(w, peer, i, thread_count());
	barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

/* ---- choosing ------------------------------------------------------------------------ */

template <typename F> device_kernel *lsa_kernel(bool in_pieces)
{
	return in_pieces ? all_reduce_lsa_pieces<F> : all_reduce_lsa<F>;
}

/* Sums of integers do not depend on the sign. */
device_kernel *all_reduce_lsa_kernel(enum bb_dtype dtype, bool in_pieces)
{
	return dtype == BB_INT8 || dtype == BB_UINT8     ? lsa_kernel<plain<uint8_t>>(in_pieces)
	       : dtype == BB_INT32 || dtype == BB_UINT32 ? lsa_kernel<plain<uint32_t>>(in_pieces)
	       : dtype == BB_INT64 || dtype == BB_UINT64 ? lsa_kernel<plain<uint64_t>>(in_pieces)
	       : dtype == BB_HALF                        ? lsa_kernel<half_float>(in_pieces)
	       : dtype == BB_BFLOAT16                    ? lsa_kernel<brain_float>(in_pieces)
	       : dtype == BB_FLOAT                       ? lsa_kernel<plain<float>>(in_pieces)
	       : dtype == BB_DOUBLE                      ? lsa_kernel<plain<double>>(in_pieces)
							 : NULL;
}

device_kernel *alltoall_kernel(size_t size)
{
	return size == 1   ? alltoall_lsa<uint8_t>
	       : size == 2 ? alltoall_lsa<uint16_t>
	       : size == 4 ? alltoall_lsa<uint32_t>
			   : alltoall_lsa<uint64_t>;
}

device_kernel *all_reduce_kernel(int kernel, enum bb_dtype dtype)
{
	if (kernel <= 2)
		return all_reduce_lsa_kernel(dtype, kernel == 2);
#ifdef __CUDACC__
	if (dtype == BB_FLOAT)
		return kernel == 3 ? all_reduce_multimem<float> : all_reduce_multimem_pieces;
	if (dtype == BB_DOUBLE && kernel == 3)
		return all_reduce_multimem<double>;
#endif
	return NULL;
}

/* Pieces need both sides aligned alike, and all_reduce then has a head; parts of alltoall must be
   whole pieces. Windows are aligned. Otherwise there are no pieces. */
void cut_pieces(device_work *w, uint64_t size)
{
	const uint64_t mask = PIECE - 1;
	const uint64_t before = (0 - w->out_offset) & mask;

	w->head = w->count;
	w->pieces = 0;
	if (w->alltoall && ((w->in_offset | w->out_offset | w->count * size) & mask) == 0) {
		w->head = 0;
		w->pieces = w->count * size / PIECE;
	}
	if (!w->alltoall && ((w->in_offset ^ w->out_offset) & mask) == 0 &&
	    before / size < w->count) {
		w->head = before / size;
		w->pieces = (w->count - w->head) / (PIECE / size);
	}
}

} // namespace

ncclResult_t bb_device_open(bb_device_create *create, ncclComm_t comm, bool multimem,
			    unsigned blocks, struct ncclDevComm **device, int *ranks)
{
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
	ncclDevCommRequirements needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
	ncclDevCommRequirements needs = {};
#endif

	*device = (ncclDevComm *)calloc(1, sizeof(**device));
	if (!*device)
		return ncclSystemError;
	needs.lsaBarrierCount = (int)blocks;
	needs.lsaMultimem = multimem;
	const ncclResult_t result = create(comm, &needs, *device);
	*ranks = (*device)->lsaSize;
	return result;
}

cudaError_t bb_device_run(cudaStream_t stream, const struct ncclDevComm *device,
			  const struct bb_device_call *call)
{
	const size_t size = bb_dtype_size(call->dtype);
	device_kernel *kernel = call->alltoall ? alltoall_kernel(size)
					       : all_reduce_kernel(call->kernel, call->dtype);
	device_work w = {*call, 0, 0, *device};
	void *arguments[] = {&w};

	cut_pieces(&w, size);
	if (call->alltoall && call->kernel == 2 && w.pieces > 0)
		kernel = alltoall_lsa_pieces;
	if (!kernel)
		return cudaErrorInvalidValue;
	return cudaLaunchKernel(kernel, dim3(call->blocks), dim3(BLOCK_THREADS), arguments, 0,
				stream);
}

#endif
