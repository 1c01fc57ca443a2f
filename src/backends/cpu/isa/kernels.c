/*
 * kernels.c - every reduction, from one body. Compiled once for each instruction set with
 * BB_ISA as its name. The datatype and the op are constants wherever the body is instantiated, so
 * that each switch below leaves one case.
 */
#include "backends/cpu/kernels.h"
#include "backends/cpu/isa/float.h"
#include "backends/cpu/isa/vec.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the pair's value is the low half");

#define OWN_AHEAD 512 /* bytes; measured between 256 and 2048 with two cores that share buffers */

/* Bytes of memory that a vector of computed elements occupies. */
BB_INLINE size_t unit_of(enum bb_dtype dtype)
{
	return dtype == BB_HALF || dtype == BB_BFLOAT16   ? BB_VEC / 2
	       : dtype == BB_F8E4M3 || dtype == BB_F8E5M2 ? BB_VEC / 4
							  : BB_VEC;
}

/* The datatype in which an element is computed: a lane. */
BB_INLINE enum bb_dtype lane_of(enum bb_dtype dtype)
{
	return unit_of(dtype) == BB_VEC ? dtype : BB_FLOAT;
}

/* Integers of 8, and of 32 bits. */
BB_INLINE bool is_byte(enum bb_dtype lane)
{
	return lane == BB_INT8 || lane == BB_UINT8;
}

BB_INLINE bool is_word(enum bb_dtype lane)
{
	return lane == BB_INT32 || lane == BB_UINT32;
}

BB_INLINE size_t element_of(enum bb_dtype dtype)
{
	const enum bb_dtype lane = lane_of(dtype);

	return is_byte(lane)      ? 1
	       : is_word(lane)    ? 4
	       : lane == BB_FLOAT ? unit_of(dtype) / (BB_VEC / 4)
				  : 8;
}

/* ---- memory ------------------------------------------------------------------------ */

#define MEMORY(type)                                                                               \
	BB_INLINE bb_##type get_##type(const void *p, enum bb_access access, size_t part)          \
	{                                                                                          \
		if (access == BB_PART)                                                             \
			return bb_##type##_part(p, part);                                          \
		return *(const bb_##type##_at *)p;                                                 \
	}                                                                                          \
	BB_INLINE void put_##type(void *p, bb_##type v, enum bb_access access, size_t part)        \
	{                                                                                          \
		if (access == BB_PART)                                                             \
			bb_##type##_store_part(p, v, part);                                        \
		else if (access == BB_STREAM)                                                      \
			bb_##type##_stream(p, v);                                                  \
		else                                                                               \
			*(bb_##type##_at *)p = v;                                                  \
	}

MEMORY(vec)
MEMORY(half)
MEMORY(quarter)
#undef MEMORY

BB_INLINE bb_vec get(enum bb_dtype dtype, const void *p, enum bb_access access, size_t part)
{
	return dtype == BB_HALF       ? (bb_vec)bb_from_half(get_half(p, access, part))
	       : dtype == BB_BFLOAT16 ? (bb_vec)bb_from_bfloat16(get_half(p, access, part))
	       : dtype == BB_F8E4M3   ? (bb_vec)bb_from_e4m3(get_quarter(p, access, part))
	       : dtype == BB_F8E5M2   ? (bb_vec)bb_from_e5m2(get_quarter(p, access, part))
				      : get_vec(p, access, part);
}

/* A result, rounded once for all destinations. */
union result {
	bb_vec vec;
	bb_half half;
	bb_quarter quarter;
};

BB_INLINE union result round_to(enum bb_dtype dtype, bb_vec v)
{
	const bb_vf32 f = (bb_vf32)v;

	return dtype == BB_HALF       ? (union result){.half = bb_to_half(f)}
	       : dtype == BB_BFLOAT16 ? (union result){.half = bb_to_bfloat16(f)}
	       : dtype == BB_F8E4M3   ? (union result){.quarter = bb_to_e4m3(f)}
	       : dtype == BB_F8E5M2   ? (union result){.quarter = bb_to_e5m2(f)}
				      : (union result){.vec = v};
}

BB_INLINE void put(enum bb_dtype dtype, void *p, union result r, enum bb_access access, size_t part)
{
	const size_t unit = unit_of(dtype);

	if (unit == BB_VEC)
		put_vec(p, r.vec, access, part);
	else if (unit == BB_VEC / 2)
		put_half(p, r.half, access, part);
	else
		put_quarter(p, r.quarter, access, part);
}

/* ---- arithmetic -------------------------------------------------------------------- */

/* No instruction set multiplies bytes: multiply the even and the odd ones of each pair
   separately. */
BB_INLINE bb_vec multiply_bytes(bb_vec a, bb_vec b)
{
	const bb_vu16 x = (bb_vu16)a, y = (bb_vu16)b;

	return (bb_vec)(((x * y) & 0xff) | ((x >> 8) * (y & 0xff00)));
}

/* Integers are unsigned, because they wrap. */
#define ARITHMETIC(name, operator, bytes)                                                          \
	BB_INLINE bb_vec name(enum bb_dtype lane, bb_vec a, bb_vec b)                              \
	{                                                                                          \
		return is_byte(lane)       ? bytes                                                 \
		       : is_word(lane)     ? (bb_vec)((bb_vu32)a operator(bb_vu32) b)              \
		       : lane == BB_FLOAT  ? (bb_vec)((bb_vf32)a operator(bb_vf32) b)              \
		       : lane == BB_DOUBLE ? (bb_vec)((bb_vf64)a operator(bb_vf64) b)              \
					   : a                                                     \
					     operator b;                                           \
	}

ARITHMETIC(add, +, (bb_vec)((bb_vu8)a + (bb_vu8)b))
ARITHMETIC(multiply, *, multiply_bytes(a, b))
#undef ARITHMETIC

/* All ones where a < b. */
BB_INLINE bb_vec less(enum bb_dtype lane, bb_vec a, bb_vec b)
{
	return lane == BB_INT8     ? (bb_vec)((bb_vi8)a < (bb_vi8)b)
	       : lane == BB_UINT8  ? (bb_vec)((bb_vu8)a < (bb_vu8)b)
	       : lane == BB_INT32  ? (bb_vec)((bb_vi32)a < (bb_vi32)b)
	       : lane == BB_UINT32 ? (bb_vec)((bb_vu32)a < (bb_vu32)b)
	       : lane == BB_INT64  ? (bb_vec)((bb_vi64)a < (bb_vi64)b)
	       : lane == BB_FLOAT  ? (bb_vec)((bb_vf32)a < (bb_vf32)b)
	       : lane == BB_DOUBLE ? (bb_vec)((bb_vf64)a < (bb_vf64)b)
				   : (bb_vec)(a < b);
}

BB_INLINE bb_vec pick(bb_vec mask, bb_vec yes, bb_vec no)
{
	return (mask & yes) | (~mask & no);
}

/* All ones where a is not zero. */
BB_INLINE bb_vec is_true(enum bb_dtype lane, bb_vec a)
{
	return is_byte(lane)   ? (bb_vec)((bb_vu8)a != 0)
	       : is_word(lane) ? (bb_vec)((bb_vu32)a != 0)
			       : (bb_vec)(a != 0);
}

BB_INLINE bb_vec logical(enum bb_dtype lane, enum bb_op op, bb_vec a, bb_vec b)
{
	const bb_vec one = is_byte(lane)   ? (bb_vec)((bb_vu8){} + 1)
			   : is_word(lane) ? (bb_vec)((bb_vu32){} + 1)
					   : (bb_vec){} + 1;
	const bb_vec x = is_true(lane, a), y = is_true(lane, b);
	const bb_vec truth = op == BB_LAND ? x & y : op == BB_LOR ? x | y : x ^ y;

	return truth & one;
}

/* A pair is a 64-bit lane, its value in the low half and its index in the high one. */
BB_INLINE bb_vec better_pair(enum bb_op op, bb_vec a, bb_vec b)
{
	const bb_vf32 x = (bb_vf32)a, y = (bb_vf32)b;
	const bb_vec value_wins = op == BB_MAXLOC ? (bb_vec)(y > x) : (bb_vec)(y < x);
	const bb_vec lower_index = (bb_vec)((bb_vi32)b < (bb_vi32)a) >> 32;
	const bb_vec wins = (value_wins | ((bb_vec)(x == y) & lower_index)) & 0xffffffff;

	return pick(wins | (wins << 32), b, a);
}

BB_INLINE bb_vec combine(enum bb_dtype lane, enum bb_op op, bb_vec a, bb_vec b)
{
	const bool is_logical = op == BB_LAND || op == BB_LOR || op == BB_LXOR;

	return op == BB_PROD                        ? multiply(lane, a, b)
	       : op == BB_MIN                       ? pick(less(lane, b, a), b, a)
	       : op == BB_MAX                       ? pick(less(lane, a, b), b, a)
	       : op == BB_BAND                      ? a & b
	       : op == BB_BOR                       ? a | b
	       : op == BB_BXOR                      ? a ^ b
	       : op == BB_MAXLOC || op == BB_MINLOC ? better_pair(op, a, b)
	       : is_logical                         ? logical(lane, op, a, b)
						    : add(lane, a, b); /* SUM, AVG, MULSUM */
}

/* FACTOR is 1 or 2; integers are doubled by an addition. */
BB_INLINE bb_vec scale(enum bb_dtype lane, bb_vec a, int factor)
{
	if (lane == BB_FLOAT)
		return (bb_vec)((bb_vf32)a * (float)factor);
	if (lane == BB_DOUBLE)
		return (bb_vec)((bb_vf64)a * (double)factor);
	return add(lane, a, a & ((bb_vec){} - (uint64_t)(factor - 1)));
}

/* Vectors of integers have no division: lane by lane, out of line because it is long. */
#define DIVIDE(name, type)                                                                         \
	static __attribute__((noinline)) bb_vec divide_##name(bb_vec v, int divisor)               \
	{                                                                                          \
		type lanes[BB_VEC / sizeof(type)];                                                 \
                                                                                                   \
		memcpy(lanes, &v, sizeof(lanes));                                                  \
		for (size_t i = 0; i < BB_VEC / sizeof(type); i++)                                 \
			lanes[i] = (type)(lanes[i] / (type)divisor);                               \
		memcpy(&v, lanes, sizeof(lanes));                                                  \
		return v;                                                                          \
	}

DIVIDE(i32, int32_t)
DIVIDE(u32, uint32_t)
DIVIDE(i64, int64_t)
DIVIDE(u64, uint64_t)
#undef DIVIDE

/*
 * Bytes are exact as floats, and so is the integer part of their quotients: other quotients differ
 * from the next integer by at least 1/divisor, far more than a float's rounding.
 */
BB_INLINE bb_vec divide_bytes(bb_vec v, int divisor, const bool is_signed)
{
	bb_vu32 quotients = {};

	for (int q = 0; q < 4; q++) {
		const bb_vi32 top = (bb_vi32)((bb_vu32)v << (24 - 8 * q));
		const bb_vi32 lanes = is_signed ? top >> 24 : (bb_vi32)((bb_vu32)top >> 24);
		const bb_vf32 quotient = __builtin_convertvector(lanes, bb_vf32) / (float)divisor;

		quotients |= ((bb_vu32) __builtin_convertvector(quotient, bb_vi32) & 0xff) << 8 * q;
	}
	return (bb_vec)quotients;
}

BB_INLINE bb_vec divide(enum bb_dtype lane, bb_vec a, int divisor)
{
	return lane == BB_INT8     ? divide_bytes(a, divisor, true)
	       : lane == BB_UINT8  ? divide_bytes(a, divisor, false)
	       : lane == BB_INT32  ? divide_i32(a, divisor)
	       : lane == BB_UINT32 ? divide_u32(a, divisor)
	       : lane == BB_INT64  ? divide_i64(a, divisor)
	       : lane == BB_UINT64 ? divide_u64(a, divisor)
	       : lane == BB_DOUBLE ? (bb_vec)((bb_vf64)a / (double)divisor)
				   : (bb_vec)((bb_vf32)a / (float)divisor);
}

/* ---- the body ---------------------------------------------------------------------- */

struct streams {
	void *const *dst;
	const void *const *src;
	int ndst;
	int nsrc;
	int divisor;
	const uint8_t *weight;
};

BB_INLINE bb_vec input(enum bb_dtype dtype, enum bb_op op, const struct streams *s, int k,
		       size_t at, enum bb_access access, size_t part)
{
	const bb_vec v = get(dtype, (const char *)s->src[k] + at, access, part);

	if (op == BB_MULSUM && s->weight)
		return scale(lane_of(dtype), v, s->weight[k]);
	return v;
}

/*
 * Prefetch the lines that will be stored to: they may be modified in another core's cache, and
 * stores alone fetch such lines one after the other.
 */
BB_INLINE void own_ahead(const struct streams *s, size_t at, size_t bytes)
{
	for (int d = 0; d < s->ndst; d++) {
		const char *const dst = (const char *)s->dst[d] + at + OWN_AHEAD;

		for (size_t line = 0; line < bytes; line += 64)
			__builtin_prefetch(dst + line, 1, 3);
	}
}

/*
 * Reduce UNITS vectors at byte AT of every stream in registers. ACCESS is that of the sources and,
 * unless STREAM stores whole vectors past the caches, of the destinations.
 */
BB_INLINE void span(enum bb_dtype dtype, enum bb_op op, const struct streams *s, size_t at,
		    const int units, enum bb_access access, size_t part, bool stream)
{
	const size_t unit = unit_of(dtype);
	bb_vec v[BB_UNITS];
	union result r[BB_UNITS];

	if (units > 1 && !stream)
		own_ahead(s, at, (size_t)units * unit);
	for (int u = 0; u < units; u++)
		v[u] = input(dtype, op, s, 0, at + (size_t)u * unit, access, part);
	for (int k = 1; k < s->nsrc; k++) {
		for (int u = 0; u < units; u++)
			v[u] = combine(lane_of(dtype), op, v[u],
				       input(dtype, op, s, k, at + (size_t)u * unit, access, part));
	}
	for (int u = 0; u < units; u++)
		r[u] = round_to(dtype, op == BB_AVG && s->divisor > 1
					       ? divide(lane_of(dtype), v[u], s->divisor)
					       : v[u]);
	for (int d = 0; d < s->ndst; d++) {
		char *const dst = (char *)s->dst[d] + at;

		for (int u = 0; u < units; u++)
			put(dtype, dst + (size_t)u * unit, r[u], stream ? BB_STREAM : access, part);
	}
}

/* Bytes until dst[0] is aligned for streaming; SIZE_MAX if not all destinations are aligned
   there. */
BB_INLINE size_t head_of(const struct streams *s, size_t unit, size_t element)
{
	const uintptr_t first = (uintptr_t)s->dst[0];
	const size_t head = (size_t)(-first & (unit - 1));

	for (int d = 1; d < s->ndst; d++) {
		if ((((uintptr_t)s->dst[d] ^ first) & (unit - 1)) != 0)
			return SIZE_MAX;
	}
	return head % element == 0 ? head : SIZE_MAX;
}

BB_INLINE void reduce(enum bb_dtype dtype, enum bb_op op, const struct streams *s, size_t count,
		      bool stream)
{
	/* Conversions already keep the processor busy, and their code is long. */
	const int units = unit_of(dtype) == BB_VEC ? BB_UNITS : 2;
	const size_t unit = unit_of(dtype), block = (size_t)units * unit;
	const size_t bytes = count * element_of(dtype);
	size_t part = stream ? head_of(s, unit, element_of(dtype)) : 0, at = 0;

	if (part >= bytes) {
		stream = false;
		part = 0;
	}
	do { /* once, or twice where a head or a tail is less than a vector */
		if (part)
			span(dtype, op, s, at, 1, BB_PART, part, false);
		at += part;
		if (stream && unit == BB_VEC && s->nsrc + s->ndst <= BB_FEW_STREAMS) {
			for (; bytes - at >= unit; at += unit)
				span(dtype, op, s, at, 1, BB_WHOLE, 0, true);
		} else if (stream) {
			for (; bytes - at >= block; at += block)
				span(dtype, op, s, at, units, BB_WHOLE, 0, true);
		} else {
			for (; bytes - at >= block; at += block)
				span(dtype, op, s, at, units, BB_WHOLE, 0, false);
		}
		for (; bytes - at >= unit; at += unit)
			span(dtype, op, s, at, 1, BB_WHOLE, 0, false);
		part = bytes - at;
	} while (part);
	if (stream)
		bb_stream_fence();
}

/* ---- instances --------------------------------------------------------------------- */

/* In two's complement these operations are the same for signed and unsigned integers. */
#define SIGNLESS_OPS(X, dtype, instance)                                                           \
	X(dtype, instance, SUM)                                                                    \
	X(dtype, instance, PROD)                                                                   \
	X(dtype, instance, MULSUM)                                                                 \
	X(dtype, instance, LAND)                                                                   \
	X(dtype, instance, LOR)                                                                    \
	X(dtype, instance, LXOR)                                                                   \
	X(dtype, instance, BAND)                                                                   \
	X(dtype, instance, BOR)                                                                    \
	X(dtype, instance, BXOR)
#define SIGNED_OPS(X, dtype)                                                                       \
	X(dtype, dtype, MIN)                                                                       \
	X(dtype, dtype, MAX)                                                                       \
	X(dtype, dtype, AVG)
#define FLOAT_OPS(X, dtype)                                                                        \
	SIGNED_OPS(X, dtype)                                                                       \
	X(dtype, dtype, SUM)                                                                       \
	X(dtype, dtype, PROD)                                                                      \
	X(dtype, dtype, MULSUM)

#define INSTANCES(X)                                                                               \
	SIGNLESS_OPS(X, UINT8, UINT8)                                                              \
	SIGNLESS_OPS(X, UINT32, UINT32)                                                            \
	SIGNLESS_OPS(X, UINT64, UINT64)                                                            \
	SIGNED_OPS(X, INT8)                                                                        \
	SIGNED_OPS(X, UINT8)                                                                       \
	SIGNED_OPS(X, INT32)                                                                       \
	SIGNED_OPS(X, UINT32)                                                                      \
	SIGNED_OPS(X, INT64)                                                                       \
	SIGNED_OPS(X, UINT64)                                                                      \
	FLOAT_OPS(X, HALF)                                                                         \
	FLOAT_OPS(X, FLOAT)                                                                        \
	FLOAT_OPS(X, DOUBLE)                                                                       \
	FLOAT_OPS(X, BFLOAT16)                                                                     \
	FLOAT_OPS(X, F8E4M3)                                                                       \
	FLOAT_OPS(X, F8E5M2)                                                                       \
	X(FLOAT_INT, FLOAT_INT, MAXLOC)                                                            \
	X(FLOAT_INT, FLOAT_INT, MINLOC)

#define DEFINE(dtype, instance, op)                                                                \
	static void reduce_##dtype##_##op(void *const *dst, int ndst, const void *const *src,      \
					  int nsrc, size_t count,                                  \
					  const struct bb_reduce_args *args)                       \
	{                                                                                          \
		const struct streams s = {dst, src, ndst, nsrc, args->divisor, args->weight};      \
                                                                                                   \
		reduce(BB_##dtype, BB_##op, &s, count, args->stream);                              \
	}

INSTANCES(DEFINE)

static void copy(void *const *dst, int ndst, const void *src, size_t bytes, bool stream)
{
	const struct streams s = {dst, &src, ndst, 1, 0, NULL};

	if (ndst == 1 && dst[0] == src)
		return;
	if (ndst == 1 && !stream)
		memcpy(dst[0], src, bytes);
	else
		reduce(BB_UINT8, BB_BOR, &s, bytes, stream);
}

#define NAME_(isa) bb_kernels_##isa
#define NAME(isa) NAME_(isa)
#define TEXT_(isa) #isa
#define TEXT(isa) TEXT_(isa)
#define ENTRY(dtype, instance, op) [BB_##dtype][BB_##op] = reduce_##instance##_##op,

const struct bb_kernels NAME(BB_ISA) = {
	.isa = TEXT(BB_ISA),
	.reduce = {INSTANCES(ENTRY) SIGNLESS_OPS(ENTRY, INT8, UINT8)
			   SIGNLESS_OPS(ENTRY, INT32, UINT32) SIGNLESS_OPS(ENTRY, INT64, UINT64)},
	.copy = copy,
};
