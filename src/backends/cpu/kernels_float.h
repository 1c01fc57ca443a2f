/*
 * kernels_float.h - half, bfloat16 and fp8 to float and back, a vector at a time and without
 * branches, rounding to nearest even. For kernels_isa.c alone.
 */
#ifndef BB_BACKENDS_CPU_KERNELS_FLOAT_H
#define BB_BACKENDS_CPU_KERNELS_FLOAT_H

#include "backends/cpu/kernels_vec.h"

/* A format by its bits: sign, exponent, MANTISSA bits. */
struct bb_small_float {
	int bits;
	int mantissa;
	int bias;
	uint32_t largest;       /* encoding of what lies beyond the range */
	uint32_t first_special; /* smallest magnitude that is infinity or NaN */
	uint32_t nan;
};

#define BB_SMALL_HALF ((struct bb_small_float){16, 10, 15, 0x7c00, 0x7c00, 0x7e00})
#define BB_SMALL_E4M3 ((struct bb_small_float){8, 3, 7, 0x7e, 0x7f, 0x7f})
#define BB_SMALL_E5M2 ((struct bb_small_float){8, 2, 15, 0x7c, 0x7c, 0x7e})

/* MASK's lanes are all ones or all zeros. */
BB_INLINE bb_vu32 bb_pick(bb_vi32 mask, bb_vu32 yes, bb_vu32 no)
{
	return ((bb_vu32)mask & yes) | (~(bb_vu32)mask & no);
}

/*
 * Normal numbers need their exponent rebiased. Subnormal ones are given the smallest normal
 * exponent, which adds exactly that power of two, and have it subtracted again; so no operand is
 * subnormal as a float, which would be slow.
 */
BB_INLINE bb_vf32 bb_from_small(const struct bb_small_float f, bb_vu32 code)
{
	const bb_vu32 sign = (code >> (f.bits - 1)) << 31;
	const bb_vu32 magnitude = code & ((1u << (f.bits - 1)) - 1);
	const bb_vu32 shifted = magnitude << (23 - f.mantissa);
	const bb_vu32 normal = shifted + ((uint32_t)(127 - f.bias) << 23);
	const bb_vu32 smallest = (bb_vu32){} + ((uint32_t)(128 - f.bias) << 23);
	const bb_vu32 tiny = (bb_vu32)((bb_vf32)(shifted + smallest) - (bb_vf32)smallest);
	const bb_vi32 is_tiny = (bb_vi32)magnitude < (1 << f.mantissa);
	const bb_vi32 is_special = (bb_vi32)magnitude >= (int32_t)f.first_special;

	return (bb_vf32)(sign | bb_pick(is_tiny, tiny, normal) |
			 ((bb_vu32)is_special & 0x7f800000));
}

/*
 * Normal results round by adding just under half of what is cut off, plus one if the last kept
 * bit is odd; subnormal ones by adding a float whose last bit is the smallest subnormal.
 */
BB_INLINE bb_vu32 bb_to_small(const struct bb_small_float f, bb_vf32 value)
{
	const int cut = 23 - f.mantissa;
	const bb_vu32 bits = (bb_vu32)value;
	const bb_vu32 sign = (bits >> 31) << (f.bits - 1);
	const bb_vu32 magnitude = bits & 0x7fffffff;
	const bb_vu32 rebiased = magnitude - ((uint32_t)(127 - f.bias) << 23);
	const bb_vu32 normal =
		(rebiased + ((1u << (cut - 1)) - 1) + ((magnitude >> cut) & 1)) >> cut;
	const bb_vu32 magic = (bb_vu32){} + ((uint32_t)(128 - f.bias + cut) << 23);
	const bb_vu32 tiny = (bb_vu32)((bb_vf32)magnitude + (bb_vf32)magic) - magic;
	const bb_vi32 is_tiny = (bb_vi32)magnitude < ((128 - f.bias) << 23);
	const bb_vi32 is_nan = (bb_vi32)magnitude > 0x7f800000;
	const bb_vu32 largest = (bb_vu32){} + f.largest;
	bb_vu32 code = bb_pick(is_tiny, tiny, normal);

	code = bb_pick((bb_vi32)code > (bb_vi32)largest, largest, code);
	return sign | bb_pick(is_nan, (bb_vu32){} + f.nan, code);
}

BB_INLINE bb_vf32 bb_from_half(bb_half code)
{
#if BB_VEC == 64
	return (bb_vf32)_mm512_cvtph_ps((__m256i)code);
#elif BB_VEC == 32
	return (bb_vf32)_mm256_cvtph_ps((__m128i)code);
#else
	return bb_from_small(BB_SMALL_HALF, __builtin_convertvector(code, bb_vu32));
#endif
}

BB_INLINE bb_half bb_to_half(bb_vf32 value)
{
#if BB_VEC == 64
	return (bb_half)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT);
#elif BB_VEC == 32
	return (bb_half)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
#else
	return __builtin_convertvector(bb_to_small(BB_SMALL_HALF, value), bb_half);
#endif
}

BB_INLINE bb_vf32 bb_from_bfloat16(bb_half code)
{
	return (bb_vf32)(__builtin_convertvector(code, bb_vu32) << 16);
}

BB_INLINE bb_half bb_to_bfloat16(bb_vf32 value)
{
	const bb_vu32 bits = (bb_vu32)value;
	const bb_vu32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
	const bb_vi32 is_nan = (bb_vi32)(bits & 0x7fffffff) > 0x7f800000;
	const bb_vu32 code = bb_pick(is_nan, (bits >> 16) | 0x40, rounded);

#if BB_VEC == 64
	return (bb_half)_mm512_cvtepi32_epi16((__m512i)code);
#else
	return __builtin_convertvector(code, bb_half);
#endif
}

BB_INLINE bb_vu32 bb_from_bytes(bb_quarter code)
{
#if BB_VEC == 64
	return (bb_vu32)_mm512_cvtepu8_epi32((__m128i)code);
#else
	return __builtin_convertvector(code, bb_vu32);
#endif
}

BB_INLINE bb_quarter bb_to_bytes(bb_vu32 code)
{
#if BB_VEC == 64
	return (bb_quarter)_mm512_cvtepi32_epi8((__m512i)code);
#else
	return __builtin_convertvector(code, bb_quarter);
#endif
}

#endif
