#include "codes/codes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define CHUNK 512 /* numbers whose codes are packed at a time */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "code 0 is the low bits");

static inline uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* An integer that orders floats as their values, NaNs beyond the infinities; its own inverse. */
static inline int32_t order_of(int32_t bits)
{
	return bits ^ ((bits >> 31) & INT32_MAX);
}

/* Eight sums, so that their order is the same on every machine. */
static double squares_of(const float *x, size_t n)
{
	double sums[8] = {0}, all = 0;
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		for (size_t k = 0; k < 8; k++)
			sums[k] += (double)x[i + k] * (double)x[i + k];
	for (; i < n; i++)
		sums[i % 8] += (double)x[i] * (double)x[i];
	for (size_t k = 0; k < 8; k++)
		all += sums[k];
	return all;
}

struct bb_block_scale bb_coding_fit(const struct bb_coding *c, const float *x, size_t n)
{
	const struct bb_block_scale lost = {.scale = NAN, .down = 1};
	const float lowest = (float)c->lowest, highest = (float)c->highest;
	const bool offset = c->scale_bytes == 8;
	struct bb_block_scale s = {.up = 1};
	int32_t first = INT32_MAX, last = INT32_MIN;

	for (size_t i = 0; i < n; i++) {
		const int32_t order = order_of((int32_t)bits_of(x[i]));

		first = order < first ? order : first;
		last = order > last ? order : last;
	}
	const float least = float_of((uint32_t)order_of(first));
	const float most = float_of((uint32_t)order_of(last));
	const float magnitude = fmaxf(fabsf(least), fabsf(most));
	if (!isfinite(least) || !isfinite(most))
		return lost;
	if (c->kind == BB_CODE_SIGN) {
		s.scale = (float)(sqrt(squares_of(x, n)) / sqrt((double)n));
	} else if (c->scale_bytes == 1) {
		/* The largest power of two in the block over that of the format (OCP MX
		   specification 1.0, 6.3). */
		const int exponent = magnitude > 0 ? ilogbf(magnitude) - ilogbf(highest) : -127;

		s.scale = ldexpf(1, exponent > -127 ? exponent : -127);
	} else if (c->lowest == 0) {
		/* torch/ao/quantization/observer.py, of MinMaxObserver: its range contains 0, its
		   scale is at least its epsilon. */
		const float low = fminf(least, 0);

		s.scale = fmaxf((fmaxf(most, 0) - low) / highest, FLT_EPSILON);
		s.point = fminf(rintf(-low / s.scale), highest);
	} else if (c->lowest < -c->highest) {
		/* csrc/includes/quantization_utils.h of DeepSpeed, which codes fp16: the range has
		   a code too many, so the maximum is clamped. */
		const float span = offset ? most - least : 2 * magnitude;

		s.up = span > 0 ? (float)(1 << c->bits) / span : 1;
		s.down = 1;
		s.scale = 1 / s.up;
		s.zero = offset ? (most + least) / 2 : 0;
	} else if (offset) {
		s.scale = (most - least) / (highest - lowest);
		s.zero = least + highest * s.scale;
	} else {
		s.scale = magnitude / highest;
	}
	if (s.down == 0)
		s.down = s.scale > 0 ? s.scale : 1;
	return isfinite(s.scale) && isfinite(s.zero) ? s : lost;
}

#define INTEGER BB_CODE_INTEGER
const struct bb_coding bb_codings[] = {
	{"int8", "scale max/127", INTEGER, 8, -127, 127, 256, 4},
	{"int4", "scale max/7", INTEGER, 4, -7, 7, 256, 4},
	{"int8-minmax", "scale (max - min)/254", INTEGER, 8, -127, 127, 256, 8},
	{"int4-minmax", "scale (max - min)/14", INTEGER, 4, -7, 7, 256, 8},
	{"ds-int8", "DeepSpeed, symmetric", INTEGER, 8, -128, 127, 4096, 4},
	{"ds-int4", "DeepSpeed, symmetric", INTEGER, 4, -8, 7, 4096, 4},
	{"ds-int8-asym", "DeepSpeed, asymmetric", INTEGER, 8, -128, 127, 4096, 8},
	{"ds-int4-asym", "DeepSpeed, asymmetric", INTEGER, 4, -8, 7, 4096, 8},
	{"torch-uint8", "PyTorch, MinMaxObserver", INTEGER, 8, 0, 255, 512, 8},
	{"fp8-e4m3", "scale max/448", BB_CODE_E4M3, 8, -448, 448, 128, 4},
	{"fp8-e5m2", "scale max/57344", BB_CODE_E5M2, 8, -57344, 57344, 128, 4},
	{"mxfp8-e4m3", "OCP MX", BB_CODE_E4M3, 8, -448, 448, 32, 1},
	{"mxfp8-e5m2", "OCP MX", BB_CODE_E5M2, 8, -57344, 57344, 32, 1},
	{"sign", "1-bit Adam, scale norm/sqrt(n)", BB_CODE_SIGN, 1, 0, 0, 0, 4},
	{.name = NULL}};

const struct bb_coding *bb_coding_named(const char *name)
{
	for (const struct bb_coding *c = bb_codings; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

/* ---- codes of a byte each -------------------------------------------------------------------- */

/* Adding 1.5 * 2^23 rounds to nearest even, and leaves the integer in the low bits. */
static void integers_code(const struct bb_coding *c, const struct bb_block_scale *s, const float *x,
			  size_t n, uint8_t *codes)
{
	const float low = (float)c->lowest - s->point, high = (float)c->highest - s->point;
	const float magic = 0x1.8p23f, zero = s->zero, up = s->up, down = s->down;
	const uint32_t point = (uint32_t)(int32_t)s->point, mask = (1u << c->bits) - 1;

	for (size_t i = 0; i < n; i++) {
		float y = (x[i] - zero) * up / down;

		y = y < low ? low : y;
		y = y > high ? high : y;
		codes[i] = (uint8_t)((bits_of(y + magic) + point) & mask);
	}
}

static void integers_decode(const struct bb_coding *c, const struct bb_block_scale *s,
			    const uint8_t *codes, size_t n, float *x)
{
	const float scale = s->scale, zero = s->zero, point = s->point;
	const int flip = c->lowest < 0 ? 1 << (c->bits - 1) : 0; /* its sign bit */

	for (size_t i = 0; i < n; i++)
		x[i] = zero + ((float)((codes[i] ^ flip) - flip) - point) * scale;
}

/* Without a branch, which would keep a loop from becoming vector code. */
static inline uint32_t pick(bool first, uint32_t a, uint32_t b)
{
	const uint32_t mask = -(uint32_t)first;

	return (a & mask) | (b & ~mask);
}

/*
 * E4M3 has a bias of 7, E5M2 one of 15. A normal number rounds by adding just under half of what is
 * cut off, plus one if the last kept bit is odd; a subnormal one by adding a float whose last bit
 * is the smallest subnormal.
 */
static void floats_code(const struct bb_coding *c, const struct bb_block_scale *s, const float *x,
			size_t n, uint8_t *codes)
{
	const int cut = c->kind == BB_CODE_E4M3 ? 20 : 21;
	const uint32_t shift = (c->kind == BB_CODE_E4M3 ? 127 - 7 : 127 - 15) << 23;
	const uint32_t tiny = shift + (1 << 23), magic = tiny + ((uint32_t)cut << 23);
	const uint32_t most = bits_of((float)c->highest);
	const float down = s->down;

	for (size_t i = 0; i < n; i++) {
		const uint32_t bits = bits_of(x[i] / down);
		uint32_t size = bits & INT32_MAX;

		size = (int32_t)size > (int32_t)most ? most : size;
		const uint32_t odd = size >> cut & 1;
		const uint32_t normal = (size - shift + (1u << (cut - 1)) - 1 + odd) >> cut;
		const uint32_t small = bits_of(float_of(size) + float_of(magic)) - magic;

		codes[i] = (uint8_t)(pick((int32_t)size < (int32_t)tiny, small, normal) |
				     (bits >> 24 & 0x80));
	}
}

static void floats_decode(const struct bb_coding *c, const struct bb_block_scale *s,
			  const uint8_t *codes, size_t n, float *x)
{
	const int cut = c->kind == BB_CODE_E4M3 ? 20 : 21;
	const uint32_t shift = (c->kind == BB_CODE_E4M3 ? 127 - 7 : 127 - 15) << 23;
	const uint32_t tiny = shift + (1 << 23);
	const float scale = s->scale;

	for (size_t i = 0; i < n; i++) {
		const uint32_t size = (uint32_t)(codes[i] & 0x7f) << cut;
		const float small = float_of(size + tiny) - float_of(tiny);
		const uint32_t value = pick(size < 1u << 23, bits_of(small), size + shift);

		x[i] = float_of(value | (uint32_t)(codes[i] >> 7) << 31) * scale;
	}
}

/* ---- codes packed ---------------------------------------------------------------------------- */

/* PACKED = N codes of a byte each; the room behind them, up to a multiple of 8, may be written. */
static void codes_pack(unsigned bits, uint8_t *codes, size_t n, uint8_t *packed)
{
	memset(codes + n, 0, -n % 8);
	if (bits == 4)
		for (size_t i = 0; i < (n + 1) / 2; i++)
			packed[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
	else
		for (size_t i = 0; i < (n + 7) / 8; i++) {
			uint64_t eight;

			memcpy(&eight, codes + 8 * i, sizeof(eight));
			packed[i] = (uint8_t)(eight * UINT64_C(0x0102040810204080) >> 56);
		}
}

static void codes_unpack(unsigned bits, const uint8_t *packed, size_t n, uint8_t *codes)
{
	if (bits == 4)
		for (size_t i = 0; i < (n + 1) / 2; i++) {
			codes[2 * i] = packed[i] & 15;
			codes[2 * i + 1] = packed[i] >> 4;
		}
	else
		for (size_t i = 0; i < (n + 7) / 8; i++)
			for (unsigned k = 0; k < 8; k++)
				codes[8 * i + k] = packed[i] >> k & 1;
}

static void scale_store(const struct bb_coding *c, const struct bb_block_scale *s, uint8_t *at)
{
	if (c->scale_bytes == 1)
		*at = isnan(s->scale) ? 0xff : (uint8_t)(ilogbf(s->scale) + 127);
	else
		memcpy(at, &s->scale, sizeof(s->scale));
	if (c->scale_bytes == 8)
		memcpy(at + 4, c->lowest < 0 ? &s->zero : &s->point, sizeof(float));
}

static struct bb_block_scale scale_load(const struct bb_coding *c, const uint8_t *at)
{
	struct bb_block_scale s = {.up = 1, .down = 1};

	if (c->scale_bytes == 1)
		s.scale = *at == 0xff ? NAN : ldexpf(1, *at - 127);
	else
		memcpy(&s.scale, at, sizeof(s.scale));
	if (c->scale_bytes == 8)
		memcpy(c->lowest < 0 ? &s.zero : &s.point, at + 4, sizeof(float));
	return s;
}

static size_t codes_bytes(const struct bb_coding *c, size_t n)
{
	return (n * c->bits + 7) / 8;
}

size_t bb_coding_bytes(const struct bb_coding *c, size_t block, size_t n)
{
	const size_t blocks = block ? (n + block - 1) / block : n > 0;

	return codes_bytes(c, n) + blocks * c->scale_bytes;
}

void bb_coding_encode_block(const struct bb_coding *c, const struct bb_block_scale *s,
			    const float *x, size_t n, void *packed, void *scale)
{
	uint8_t codes[CHUNK];

	scale_store(c, s, scale);
	for (size_t i = 0, most; i < n; i += most) {
		uint8_t *const at = (uint8_t *)packed + i * c->bits / 8;
		uint8_t *const to = c->bits < 8 ? codes : at;

		most = n - i < CHUNK ? n - i : CHUNK;
		if (c->kind == BB_CODE_INTEGER)
			integers_code(c, s, x + i, most, to);
		else if (c->kind != BB_CODE_SIGN)
			floats_code(c, s, x + i, most, to);
		else
			for (size_t k = 0; k < most; k++)
				to[k] = !(x[i + k] < 0);
		if (c->bits < 8)
			codes_pack(c->bits, codes, most, at);
	}
}

void bb_coding_encode(const struct bb_coding *c, size_t block, const float *x, size_t n,
		      void *coded)
{
	uint8_t *const packed = coded, *scale = packed + codes_bytes(c, n);

	for (size_t first = 0, end; first < n; first = end, scale += c->scale_bytes) {
		end = block && n - first > block ? first + block : n;
		const struct bb_block_scale s = bb_coding_fit(c, x + first, end - first);

		bb_coding_encode_block(c, &s, x + first, end - first, packed + first * c->bits / 8,
				       scale);
	}
}

/* X = the numbers of CODED or, with FACTOR 1 or -1, += their product. */
static inline void coded_read(const struct bb_coding *c, size_t block, const void *coded, size_t n,
			      float *x, float factor)
{
	const uint8_t *const packed = coded, *scale = packed + codes_bytes(c, n);
	uint8_t codes[CHUNK];
	float numbers[CHUNK];

	for (size_t first = 0, end; first < n; first = end, scale += c->scale_bytes) {
		const struct bb_block_scale s = scale_load(c, scale);

		end = block && n - first > block ? first + block : n;
		for (size_t i = first, most; i < end; i += most) {
			const uint8_t *from = packed + i * c->bits / 8;
			float *const to = factor != 0 ? numbers : x + i;

			most = end - i < CHUNK ? end - i : CHUNK;
			if (c->bits < 8)
				codes_unpack(c->bits, from, most, codes);
			from = c->bits < 8 ? codes : from;
			if (c->kind == BB_CODE_INTEGER)
				integers_decode(c, &s, from, most, to);
			else if (c->kind != BB_CODE_SIGN)
				floats_decode(c, &s, from, most, to);
			else
				for (size_t k = 0; k < most; k++)
					to[k] = from[k] ? s.scale : -s.scale;
			for (size_t k = 0; k < most && factor != 0; k++)
				x[i + k] += factor * numbers[k];
		}
	}
}

void bb_coding_decode(const struct bb_coding *c, size_t block, const void *coded, size_t n,
		      float *x)
{
	coded_read(c, block, coded, n, x, 0);
}

void bb_coding_add(const struct bb_coding *c, size_t block, const void *coded, size_t n,
		   float factor, float *sum)
{
	coded_read(c, block, coded, n, sum, factor);
}

int bb_coding_code(const struct bb_coding *c, const void *coded, size_t i)
{
	const uint8_t byte = ((const uint8_t *)coded)[i * c->bits / 8];
	const int code = byte >> (i * c->bits % 8) & ((1 << c->bits) - 1);
	const int flip = c->kind == BB_CODE_INTEGER && c->lowest < 0 ? 1 << (c->bits - 1) : 0;

	return (code ^ flip) - flip;
}

struct bb_block_scale bb_coding_scale(const struct bb_coding *c, const void *coded, size_t n,
				      size_t b)
{
	return scale_load(c, (const uint8_t *)coded + codes_bytes(c, n) + b * c->scale_bytes);
}

size_t bb_coding_qwz_blocks(size_t n)
{
	const size_t eights = n / 8, start = (n + 7999) / 8000;

	/* A number of blocks divides the eights, and the least one leaves most of them in each. */
	for (size_t each = n % 8 || n == 0 ? 0 : eights / start; each > 0; each--)
		if (eights % each == 0)
			return eights / each;
	return 0;
}
