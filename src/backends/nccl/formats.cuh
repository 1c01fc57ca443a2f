/*
 * formats.cuh - how the elements of datatypes are stored, and what they are computed in.
 */
#pragma once

#include "backends/nccl/pieces.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace
{

template <typename T> struct plain {
	typedef T bits;
	typedef T wide;
	static __device__ wide widen(bits b)
	{
		return b;
	}
	static __device__ bits narrow(wide v)
	{
		return v;
	}
};

/* A 16-bit format T, whose bits are those of RAW. */
template <typename T, typename RAW, float (*WIDEN)(T), T (*NARROW)(float)> struct small_float {
	typedef uint16_t bits;
	typedef float wide;
	static __device__ wide widen(bits b)
	{
		RAW raw;

		raw.x = b;
		return WIDEN(T(raw));
	}
	static __device__ bits narrow(wide v)
	{
		return ((RAW)NARROW(v)).x;
	}
};

typedef small_float<__half, __half_raw, __half2float, __float2half_rn> half_float;
typedef small_float<__nv_bfloat16, __nv_bfloat16_raw, __bfloat162float, __float2bfloat16_rn>
	brain_float;

template <typename F> union piece_of {
	uint4 words;
	typename F::bits elements[PIECE / sizeof(typename F::bits)];
	__device__ piece_of(const uint4 &v) : words(v)
	{
	}
};

} // namespace
