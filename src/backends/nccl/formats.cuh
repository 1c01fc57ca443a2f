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

struct half_float {
	typedef uint16_t bits;
	typedef float wide;
	static __device__ wide widen(bits b)
	{
		__half_raw raw;

		raw.x = b;
		return __half2float(__half(raw));
	}
	static __device__ bits narrow(wide v)
	{
		return ((__half_raw)__float2half_rn(v)).x;
	}
};

struct brain_float {
	typedef uint16_t bits;
	typedef float wide;
	static __device__ wide widen(bits b)
	{
		__nv_bfloat16_raw raw;

		raw.x = b;
		return __bfloat162float(__nv_bfloat16(raw));
	}
	static __device__ bits narrow(wide v)
	{
		return ((__nv_bfloat16_raw)__float2bfloat16_rn(v)).x;
	}
};

template <typename F> union piece_of {
	uint4 words;
	typename F::bits elements[PIECE / sizeof(typename F::bits)];
	__device__ piece_of(const uint4 &v) : words(v)
	{
	}
};

} // namespace
