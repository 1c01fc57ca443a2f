/*
 * float.h - half, bfloat16 and fp8 to float and back, a vector at a time and without
 * branches, rounding to nearest even. For kernels.c alone.
 */
#pragma once

#include "backends/cpu/isa/vec.h"

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
 * exponent, which adds exactly that power of two, and have it subtracted again, so that no operand
 * is a subnormal float, which would be slow.
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

/* ---- between 8, 16 and 32 bits ----------------------------------------------------- */

BB_INLINE bb_vu32 bb_widen_half(bb_half code)
{
#if BB_VEC == 64
	return (bb_vu32)_mm512_cvtepu16_epi32((__m256i)code);
#elif BB_VEC == 32
	return (bb_vu32)_mm256_cvtepu16_epi32((__m128i)code);
#else
	return __builtin_convertvector(code, bb_vu32);
#endif
}

BB_INLINE bb_half bb_narrow_half(bb_vu32 code)
{
#if BB_VEC == 64
	return (bb_half)_mm512_cvtepi32_epi16((__m512i)code);
#elif BB_VEC == 32
	const __m256i packed = _mm256_packus_epi32((__m256i)code, (__m256i)code);

	return (bb_half)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
	return __builtin_convertvector(code, bb_half);
#endif
}

BB_INLINE bb_quarter bb_narrow_quarter(bb_vu32 code)
{
#if BB_VEC == 64
	return (bb_quarter)_mm512_cvtepi32_epi8((__m512i)code);
#elif BB_VEC == 32
	const __m128i words = (__m128i)bb_narrow_half(code);

	return (bb_quarter)_mm_packus_epi16(words, words)[0];
#else
	return __builtin_convertvector(code, bb_quarter);
#endif
}

/* ---- the types --------------------------------------------------------------------- */

BB_INLINE bb_vf32 bb_from_half(bb_half code)
{
#if BB_VEC == 64
	return (bb_vf32)_mm512_cvtph_ps((__m256i)code);
#elif BB_VEC == 32
	return (bb_vf32)_mm256_cvtph_ps((__m128i)code);
#else
	return bb_from_small(BB_SMALL_HALF, bb_widen_half(code));
#endif
}

BB_INLINE bb_half bb_to_half(bb_vf32 value)
{
#if BB_VEC == 64
	return (bb_half)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT);
#elif BB_VEC == 32
	return (bb_half)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
#else
	return bb_narrow_half(bb_to_small(BB_SMALL_HALF, value));
#endif
}

BB_INLINE bb_vf32 bb_from_bfloat16(bb_half code)
{
	return (bb_vf32)(bb_widen_half(code) << 16);
}

BB_INLINE bb_half bb_to_bfloat16(bb_vf32 value)
{
	const bb_vu32 bits = (bb_vu32)value;
	const bb_vu32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
	const bb_vi32 is_nan = (bb_vi32)(bits & 0x7fffffff) > 0x7f800000;

	return bb_narrow_half(bb_pick(is_nan, (bits >> 16) | 0x40, rounded));
}

#if BB_VEC >= 32

/* fp8 is half with fewer bits, e5m2 literally; the hardware knows half. */
BB_INLINE bb_half bb_widen_quarter(bb_quarter code)
{
#if BB_VEC == 64
	return (bb_half)_mm256_cvtepu8_epi16((__m128i)code);
#else
	return (bb_half)_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)code));
#endif
}

BB_INLINE bb_vf32 bb_from_e5m2(bb_quarter code)
{
	return bb_from_half(bb_widen_quarter(code) << 8);
}

/* The exponent's bias is 8 less than half's. */
BB_INLINE bb_vf32 bb_from_e4m3(bb_quarter code)
{
	const bb_half bits = bb_widen_quarter(code), magnitude = bits & 0x7f;
	const bb_half nan = (bb_half)(magnitude == 0x7f) & 0x7fff;

	return bb_from_half(((bits & 0x80) << 8) | (magnitude << 7) | nan) * 256.0f;
}

#else

BB_INLINE bb_vf32 bb_from_e5m2(bb_quarter code)
{
	return bb_from_small(BB_SMALL_E5M2, __builtin_convertvector(code, bb_vu32));
}

BB_INLINE bb_vf32 bb_from_e4m3(bb_quarter code)
{
	return bb_from_small(BB_SMALL_E4M3, __builtin_convertvector(code, bb_vu32));
}

#endif

BB_INLINE bb_quarter bb_to_e5m2(bb_vf32 value)
{
	return bb_narrow_quarter(bb_to_small(BB_SMALL_E5M2, value));
}

BB_INLINE bb_quarter bb_to_e4m3(bb_vf32 value)
{
	return bb_narrow_quarter(bb_to_small(BB_SMALL_E4M3, value));
}
