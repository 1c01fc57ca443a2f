/*
 * vec.h - vectors of the instruction set this file is compiled for: loading and storing
 * them whole, in part, or past the caches. For kernels.c alone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512BW__)
#define BB_VEC 64 /* bytes of a vector */
#elif defined(__AVX2__)
#define BB_VEC 32
#else
#define BB_VEC 16
#endif

#define BB_UNITS 4 /* vectors of a block, held in registers together */

/* With at most this many sources and destinations, stores past the caches are fastest one vector at
   a time: 1.4 times for a copy with vectors of 64 bytes. */
#define BB_FEW_STREAMS 3

#define BB_INLINE static inline __attribute__((always_inline))

/* Elements as they are computed with; reduced-precision ones are floats by then. */
typedef uint64_t bb_vec __attribute__((vector_size(BB_VEC)));
typedef uint8_t bb_vu8 __attribute__((vector_size(BB_VEC)));
typedef int8_t bb_vi8 __attribute__((vector_size(BB_VEC)));
typedef uint16_t bb_vu16 __attribute__((vector_size(BB_VEC)));
typedef uint32_t bb_vu32 __attribute__((vector_size(BB_VEC)));
typedef int32_t bb_vi32 __attribute__((vector_size(BB_VEC)));
typedef int64_t bb_vi64 __attribute__((vector_size(BB_VEC)));
typedef float bb_vf32 __attribute__((vector_size(BB_VEC)));
typedef double bb_vf64 __attribute__((vector_size(BB_VEC)));

/* As many 16-bit or 8-bit elements as a vector has floats. */
typedef uint16_t bb_half __attribute__((vector_size(BB_VEC / 2)));
typedef uint8_t bb_quarter __attribute__((vector_size(BB_VEC / 4)));

/* How a vector is loaded or stored. BB_PART: only its first bytes. */
enum bb_access { BB_WHOLE, BB_STREAM, BB_PART };

typedef bb_vec bb_vec_at __attribute__((aligned(1), may_alias));
typedef bb_half bb_half_at __attribute__((aligned(1), may_alias));
typedef bb_quarter bb_quarter_at __attribute__((aligned(1), may_alias));

#if BB_VEC == 64

/* PREFIX: of the instructions' names; VECTOR and MASK: their types. */
#define BB_PARTS(type, prefix, vector, mask)                                                       \
	BB_INLINE type type##_part(const void *p, size_t bytes)                                    \
	{                                                                                          \
		return (type)prefix##_maskz_loadu_epi8((mask)(((uint64_t)1 << bytes) - 1), p);     \
	}                                                                                          \
	BB_INLINE void type##_store_part(void *p, type v, size_t bytes)                            \
	{                                                                                          \
		prefix##_mask_storeu_epi8(p, (mask)(((uint64_t)1 << bytes) - 1), (vector)v);       \
	}

BB_PARTS(bb_vec, _mm512, __m512i, __mmask64)
BB_PARTS(bb_half, _mm256, __m256i, __mmask32)
BB_PARTS(bb_quarter, _mm, __m128i, __mmask16)

#else

typedef uint64_t bb_word_at __attribute__((aligned(1), may_alias));
typedef uint32_t bb_dword_at __attribute__((aligned(1), may_alias));
typedef uint16_t bb_short_at __attribute__((aligned(1), may_alias));

/*
 * Word K of BYTES bytes at P, zeros behind the end. Two overlapping reads stay in registers, where
 * a copy of a few bytes through the stack would stall the vector load that follows it.
 */
BB_INLINE uint64_t bb_word(const void *p, size_t bytes, size_t k)
{
	const char *const at = (const char *)p + 8 * k;
	const size_t n = bytes > 8 * k ? bytes - 8 * k : 0;

	if (n >= 8)
		return *(const bb_word_at *)at;
	if (n >= 4)
		return *(const bb_dword_at *)at | (uint64_t) * (const bb_dword_at *)(at + n - 4)
							  << 8 * (n - 4);
	if (n >= 2)
		return *(const bb_short_at *)at | (uint64_t) * (const bb_short_at *)(at + n - 2)
							  << 8 * (n - 2);
	return n ? (uint64_t) * (const uint8_t *)at : 0;
}

BB_INLINE void bb_word_store(void *p, uint64_t word, size_t bytes, size_t k)
{
	char *const at = (char *)p + 8 * k;
	const size_t n = bytes > 8 * k ? bytes - 8 * k : 0;

	if (n >= 8) {
		*(bb_word_at *)at = word;
	} else if (n >= 4) {
		*(bb_dword_at *)at = (uint32_t)word;
		*(bb_dword_at *)(at + n - 4) = (uint32_t)(word >> 8 * (n - 4));
	} else if (n >= 2) {
		*(bb_short_at *)at = (uint16_t)word;
		*(bb_short_at *)(at + n - 2) = (uint16_t)(word >> 8 * (n - 2));
	} else if (n) {
		*(uint8_t *)at = (uint8_t)word;
	}
}

/* A type as words of 8 bytes, or as a single one of fewer; their values come last. */
#define BB_PARTS(kind, type, name, word, ...)                                                      \
	kind type name##_part(const void *p, size_t bytes)                                         \
	{                                                                                          \
		typedef word words __attribute__((vector_size(sizeof(type))));                     \
                                                                                                   \
		return (type)(words){__VA_ARGS__};                                                 \
	}                                                                                          \
	kind void name##_store_part(void *p, type v, size_t bytes)                                 \
	{                                                                                          \
		typedef word words __attribute__((vector_size(sizeof(type))));                     \
                                                                                                   \
		for (size_t k = 0; k < sizeof(type) / sizeof(word); k++)                           \
			bb_word_store(p, ((words)v)[k], bytes, k);                                 \
	}
#define BB_AT(k) bb_word(p, bytes, k)
#define BB_NOINLINE static __attribute__((noinline))

/* Those of whole vectors are out of line: they are long, and every kernel has them. */
#if BB_VEC == 32
BB_PARTS(BB_NOINLINE, bb_vec, bb_vec_long, uint64_t, BB_AT(0), BB_AT(1), BB_AT(2), BB_AT(3))
BB_PARTS(BB_INLINE, bb_half, bb_half, uint64_t, BB_AT(0), BB_AT(1))
BB_PARTS(BB_INLINE, bb_quarter, bb_quarter, uint64_t, BB_AT(0))
#else
BB_PARTS(BB_NOINLINE, bb_vec, bb_vec_long, uint64_t, BB_AT(0), BB_AT(1))
BB_PARTS(BB_INLINE, bb_half, bb_half, uint64_t, BB_AT(0))
BB_PARTS(BB_INLINE, bb_quarter, bb_quarter, uint32_t, (uint32_t)BB_AT(0))
#endif

BB_INLINE bb_vec bb_vec_part(const void *p, size_t bytes)
{
	return bytes <= 8 ? (bb_vec){bb_word(p, bytes, 0)} : bb_vec_long_part(p, bytes);
}

BB_INLINE void bb_vec_store_part(void *p, bb_vec v, size_t bytes)
{
	if (bytes <= 8)
		bb_word_store(p, v[0], bytes, 0);
	else
		bb_vec_long_store_part(p, v, bytes);
}

#endif

/* Stores past the caches, P aligned to the vector's size; plain ones where there are none. */
#define BB_STREAM_BY(type, store, vector)                                                          \
	BB_INLINE void type##_stream(void *p, type v)                                              \
	{                                                                                          \
		store((vector *)p, (vector)v);                                                     \
	}

#if BB_VEC == 64
BB_STREAM_BY(bb_vec, _mm512_stream_si512, __m512i)
BB_STREAM_BY(bb_half, _mm256_stream_si256, __m256i)
BB_STREAM_BY(bb_quarter, _mm_stream_si128, __m128i)
#elif BB_VEC == 32
BB_STREAM_BY(bb_vec, _mm256_stream_si256, __m256i)
BB_STREAM_BY(bb_half, _mm_stream_si128, __m128i)
BB_STREAM_BY(bb_quarter, _mm_stream_si64, long long)
#elif defined(__x86_64__)
BB_STREAM_BY(bb_vec, _mm_stream_si128, __m128i)
BB_STREAM_BY(bb_half, _mm_stream_si64, long long)
BB_STREAM_BY(bb_quarter, _mm_stream_si32, int)
#else
#define BB_STORE(p, v) (*(p) = (v))
BB_STREAM_BY(bb_vec, BB_STORE, bb_vec_at)
BB_STREAM_BY(bb_half, BB_STORE, bb_half_at)
BB_STREAM_BY(bb_quarter, BB_STORE, bb_quarter_at)
#undef BB_STORE
#endif
#undef BB_STREAM_BY

/* Order streamed stores before whatever follows. */
BB_INLINE void bb_stream_fence(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}
