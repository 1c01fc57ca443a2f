/*
 * Reductions of two or three sources, and one source scaled.
 */
#include "backends/nccl/formats.cuh"

#include <cuda_fp8.h>

namespace
{

const int UNROLL = 2; /* pieces of a thread at a time */

/* ---- eight-bit floats ---------------------------------------------------------------- */

template <__nv_fp8_interpretation_t FORMAT, __nv_saturation_t BEYOND> struct tiny_float {
	typedef uint8_t bits;
	typedef float wide;
	static __device__ wide widen(bits b)
	{
		return __half2float(__half(__nv_cvt_fp8_to_halfraw(b, FORMAT)));
	}
	static __device__ bits narrow(wide v)
	{
		return __nv_cvt_float_to_fp8(v, BEYOND, FORMAT);
	}
};

typedef tiny_float<__NV_E4M3, __NV_SATFINITE> e4m3;
typedef tiny_float<__NV_E5M2, __NV_NOSAT> e5m2;

/* ---- operations ---------------------------------------------------------------------- */

#define OPERATION(name, result)                                                                    \
	struct name {                                                                              \
		template <typename T> static __device__ T of(const work &w, T a, T b)              \
		{                                                                                  \
			return (T)(result);                                                        \
		}                                                                                  \
	}

OPERATION(sum, a + b);
OPERATION(prod, a *b);
OPERATION(least, b < a ? b : a);
OPERATION(most, a < b ? b : a);
OPERATION(logical_and, a &&b);
OPERATION(logical_or, a || b);
OPERATION(logical_xor, !a != !b);
OPERATION(bitwise_and, a &b);
OPERATION(bitwise_or, a | b);
OPERATION(bitwise_xor, a ^ b);
OPERATION(pair_most, b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a);
OPERATION(pair_least, b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a);

/* Of a single source, which is passed as both A and B. */
OPERATION(times, a *(T)w.factor);
OPERATION(divided, a / (T)w.divisor);

/* The divisor may be larger than these types. */
template <> __device__ int8_t divided::of(const work &w, int8_t a, int8_t b)
{
	return (int8_t)(a / w.divisor);
}

template <> __device__ uint8_t divided::of(const work &w, uint8_t a, uint8_t b)
{
	return (uint8_t)(a / w.divisor);
}

/* ---- reductions ---------------------------------------------------------------------- */

template <typename F, typename O>
__device__ typename F::bits combine(const work &w, typename F::bits a, typename F::bits b,
				    typename F::bits c)
{
	typename F::wide value = O::of(w, F::widen(a), F::widen(b));

	if (w.nsrc == 3)
		value = O::of(w, value, F::widen(c));
	return F::narrow(value);
}

template <typename F, typename O>
__device__ uint4 combine_piece(const work &w, const uint4 &x, const uint4 &y, const uint4 &z)
{
	piece_of<F> a(x), b(y), c(z);

#pragma unroll
	for (int k = 0; k < (int)(PIECE / sizeof(typename F::bits)); k++)
		a.elements[k] = combine<F, O>(w, a.elements[k], b.elements[k], c.elements[k]);
	return a.words;
}

/* Sources aligned as the destination is. */
template <typename F, typename O> __device__ void reduce_aligned(const work &w, uint64_t body)
{
	const uint64_t step = thread_count();
	uint4 *const dst = (uint4 *)(w.dst + body);
	const uint4 *const first = (const uint4 *)(w.src[0] + body);
	const uint4 *const second = w.nsrc > 1 ? (const uint4 *)(w.src[1] + body) : first;
	const uint4 *const third = (const uint4 *)(w.src[2] + body);

	for (uint64_t i = thread_index(); i < w.pieces; i += UNROLL * step) {
		uint4 a[UNROLL], b[UNROLL], c[UNROLL];

#pragma unroll
		for (int u = 0; u < UNROLL; u++) {
			const uint64_t at = i + u * step;

			if (at >= w.pieces)
				continue;
			a[u] = first[at];
			b[u] = second[at];
			c[u] = w.nsrc == 3 ? third[at] : a[u];
		}
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			if (i + u * step < w.pieces)
				dst[i + u * step] = combine_piece<F, O>(w, a[u], b[u], c[u]);
	}
}

template <typename F, typename O> __device__ void reduce_skewed(const work &w, uint64_t body)
{
	for (uint64_t i = thread_index(); i < w.pieces; i += thread_count()) {
		const uint64_t at = body + i * PIECE;
		const uint4 a = load_piece(w.src[0] + at);
		const uint4 b = w.nsrc > 1 ? load_piece(w.src[1] + at) : a;
		const uint4 c = w.nsrc > 2 ? load_piece(w.src[2] + at) : a;

		*(uint4 *)(w.dst + at) = combine_piece<F, O>(w, a, b, c);
	}
}

template <typename F, typename O>
__global__ void __launch_bounds__(BB_GPU_THREADS, BB_GPU_RESIDENT) reduce(const work w)
{
	typedef typename F::bits bits;
	const uint64_t body = w.head * sizeof(bits);
	uintptr_t skew = 0;
	uint64_t element;

	for (int s = 0; s < w.nsrc; s++)
		skew |= ((uintptr_t)w.src[s] ^ (uintptr_t)w.dst) & (PIECE - 1);
	if (skew == 0)
		reduce_aligned<F, O>(w, body);
	else
		reduce_skewed<F, O>(w, body);
	if (stray_element(w, sizeof(bits), thread_index(), &element)) {
		const uint64_t at = element * sizeof(bits);
		const bits a = *(const bits *)(w.src[0] + at);
		const bits b = w.nsrc > 1 ? *(const bits *)(w.src[1] + at) : a;
		const bits c = w.nsrc > 2 ? *(const bits *)(w.src[2] + at) : a;

		*(bits *)(w.dst + at) = combine<F, O>(w, a, b, c);
	}
}

/* The operations of bb_gpu_scale, numbered after those of enum bb_op. */
enum { TIMES = BB_NOPS, DIVIDED };

template <typename F> bb_gpu_kernel *number_kernel(int op)
{
	return op == BB_SUM    ? reduce<F, sum>
	       : op == BB_PROD ? reduce<F, prod>
	       : op == BB_MIN  ? reduce<F, least>
	       : op == BB_MAX  ? reduce<F, most>
	       : op == TIMES   ? reduce<F, times>
	       : op == DIVIDED ? reduce<F, divided>
			       : NULL;
}

/* Operations that do not depend on the sign share the kernels of U, the unsigned type. */
template <typename T, typename U> bb_gpu_kernel *integer_kernel(int op)
{
	return op == BB_MIN    ? reduce<plain<T>, least>
	       : op == BB_MAX  ? reduce<plain<T>, most>
	       : op == DIVIDED ? reduce<plain<T>, divided>
	       : op == BB_LAND ? reduce<plain<U>, logical_and>
	       : op == BB_LOR  ? reduce<plain<U>, logical_or>
	       : op == BB_LXOR ? reduce<plain<U>, logical_xor>
	       : op == BB_BAND ? reduce<plain<U>, bitwise_and>
	       : op == BB_BOR  ? reduce<plain<U>, bitwise_or>
	       : op == BB_BXOR ? reduce<plain<U>, bitwise_xor>
			       : number_kernel<plain<U>>(op);
}

bb_gpu_kernel *pair_kernel(int op)
{
	return op == BB_MAXLOC   ? reduce<plain<struct bb_float_int>, pair_most>
	       : op == BB_MINLOC ? reduce<plain<struct bb_float_int>, pair_least>
				 : NULL;
}

bb_gpu_kernel *reduction_kernel(enum bb_dtype dtype, int op)
{
	return dtype == BB_INT8       ? integer_kernel<int8_t, uint8_t>(op)
	       : dtype == BB_UINT8    ? integer_kernel<uint8_t, uint8_t>(op)
	       : dtype == BB_INT32    ? integer_kernel<int32_t, uint32_t>(op)
	       : dtype == BB_UINT32   ? integer_kernel<uint32_t, uint32_t>(op)
	       : dtype == BB_INT64    ? integer_kernel<int64_t, uint64_t>(op)
	       : dtype == BB_UINT64   ? integer_kernel<uint64_t, uint64_t>(op)
	       : dtype == BB_HALF     ? number_kernel<half_float>(op)
	       : dtype == BB_FLOAT    ? number_kernel<plain<float>>(op)
	       : dtype == BB_DOUBLE   ? number_kernel<plain<double>>(op)
	       : dtype == BB_BFLOAT16 ? number_kernel<brain_float>(op)
	       : dtype == BB_F8E4M3   ? number_kernel<e4m3>(op)
	       : dtype == BB_F8E5M2   ? number_kernel<e5m2>(op)
				      : pair_kernel(op);
}

/* FACTOR and DIVISOR are those of bb_gpu_scale. */
cudaError_t combine_all(struct bb_gpu_lane lane, enum bb_dtype dtype, int op, void *dst,
			const void *const *src, int nsrc, uint64_t count, int factor, int divisor)
{
	bb_gpu_kernel *const function = reduction_kernel(dtype, op);
	work w = {};

	if (!function)
		return cudaErrorInvalidValue;
	w.dst = (char *)dst;
	w.nsrc = nsrc;
	w.factor = factor;
	w.divisor = divisor;
	for (int s = 0; s < nsrc; s++)
		w.src[s] = (const char *)src[s];
	cut(&w, dst, (uint32_t)bb_dtype_size(dtype), count);
	return launch(function, &w, lane, UNROLL);
}

} // namespace

cudaError_t bb_gpu_reduce(struct bb_gpu_lane lane, enum bb_dtype dtype, enum bb_op op, void *dst,
			  const void *const *src, int nsrc, uint64_t count)
{
	return combine_all(lane, dtype, op, dst, src, nsrc, count, 1, 1);
}

cudaError_t bb_gpu_scale(struct bb_gpu_lane lane, enum bb_dtype dtype, void *dst, const void *src,
			 uint64_t count, int factor, int divisor)
{
	return combine_all(lane, dtype, divisor == 1 ? TIMES : DIVIDED, dst, &src, 1, count, factor,
			   divisor);
}
