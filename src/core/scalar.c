#include "core/scalar.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a short element is the low bytes");

/* The small floating-point formats: sign, exponent, mantissa, in that order from the top. */
struct format {
	int mantissa; /* bits, without the implicit one */
	int bias;
	uint32_t largest;  /* encoding that everything beyond the range gets */
	uint32_t nan;      /* encoding of the positive NaN that is written */
	uint32_t last_num; /* largest magnitude that is not a NaN */
	double most;       /* largest number */
};

static const struct format half = {10, 15, 0x7c00, 0x7e00, 0x7c00, 65504};
static const struct format bfloat16 = {7, 127, 0x7f80, 0x7fc0, 0x7f80, 0x1.fep127};
static const struct format e4m3 = {3, 7, 0x7e, 0x7f, 0x7e, 448};
static const struct format e5m2 = {2, 15, 0x7c, 0x7e, 0x7c, 57344};
/* Of these only the precision and the range. */
static const struct format float32 = {.mantissa = 23, .bias = 127, .most = 0x1.fffffep127};
static const struct format float64 = {.mantissa = 52, .bias = 1023, .most = 0x1.fffffffffffffp1023};

static const struct format *format_of(enum bb_dtype dtype)
{
	switch (dtype) {
	case BB_HALF:
		return &half;
	case BB_BFLOAT16:
		return &bfloat16;
	case BB_F8E4M3:
		return &e4m3;
	case BB_F8E5M2:
		return &e5m2;
	default:
		return NULL;
	}
}

static uint64_t load_bits(enum bb_dtype dtype, const void *element)
{
	uint64_t bits = 0;

	memcpy(&bits, element, bb_dtype_size(dtype));
	return bits;
}

static void store_bits(enum bb_dtype dtype, void *element, uint64_t bits)
{
	memcpy(element, &bits, bb_dtype_size(dtype));
}

static double decode_small(const struct format *f, uint32_t sign, uint32_t magnitude)
{
	const uint32_t fraction = magnitude & ((1u << f->mantissa) - 1);
	const int exponent = (int)(magnitude >> f->mantissa);
	double value;

	if (magnitude > f->last_num)
		value = NAN;
	else if (f == &e4m3 || magnitude < f->largest)
		value = exponent == 0 ? ldexp(fraction, 1 - f->bias - f->mantissa)
				      : ldexp(fraction + (1u << f->mantissa),
					      exponent - f->bias - f->mantissa);
	else
		value = INFINITY;
	return sign ? -value : value;
}

static uint32_t encode_small(const struct format *f, double magnitude)
{
	if (isnan(magnitude))
		return f->nan;
	if (magnitude >= ldexp(1, f->bias + 2))
		return f->largest;
	int exponent = magnitude > 0 ? ilogb(magnitude) : 0;
	if (magnitude == 0 || exponent < 1 - f->bias)
		exponent = 1 - f->bias;
	double scaled = rint(ldexp(magnitude, f->mantissa - exponent)); /* nearest, ties to even */
	/* A normal number's leading one, and a carry out of the fraction, raise the exponent. */
	const uint32_t code =
		((uint32_t)(exponent + f->bias - 1) << f->mantissa) + (uint32_t)scaled;

	return code < f->largest ? code : f->largest;
}

double bb_scalar_decode(enum bb_dtype dtype, const void *element)
{
	const struct format *f = format_of(dtype);
	const int top = (int)bb_dtype_size(dtype) * 8 - 1;
	float single;
	double value;

	if (f) {
		const uint32_t bits = (uint32_t)load_bits(dtype, element);

		return decode_small(f, bits >> top, bits & ((1u << top) - 1));
	}
	if (dtype == BB_FLOAT) {
		memcpy(&single, element, sizeof(single));
		return single;
	}
	memcpy(&value, element, sizeof(value));
	return value;
}

void bb_scalar_encode(enum bb_dtype dtype, double value, void *element)
{
	const struct format *f = format_of(dtype);
	const int top = (int)bb_dtype_size(dtype) * 8 - 1;
	float single;

	if (f) {
		const uint32_t sign = signbit(value) ? 1u << top : 0;

		store_bits(dtype, element, sign | encode_small(f, fabs(value)));
	} else if (dtype == BB_FLOAT) {
		single = (float)value;
		memcpy(element, &single, sizeof(single));
	} else {
		memcpy(element, &value, sizeof(value));
	}
}

static const struct format *precision_of(enum bb_dtype dtype)
{
	return dtype == BB_DOUBLE ? &float64 : dtype == BB_FLOAT ? &float32 : format_of(dtype);
}

double bb_scalar_spacing(enum bb_dtype dtype, double value)
{
	const struct format *f = precision_of(dtype);
	const int least = 1 - f->bias, exponent = value == 0 ? least : ilogb(value);

	return ldexp(1, (exponent > least ? exponent : least) - f->mantissa);
}

/* ROUNDED times SPACING, or what stands for it beyond the range. */
static double scaled_value(enum bb_dtype dtype, double rounded, double spacing)
{
	const double most = precision_of(dtype)->most, value = rounded * spacing;

	return fabs(value) <= most || isnan(value)
		       ? value
		       : copysign(dtype == BB_F8E4M3 ? most : INFINITY, value);
}

double bb_scalar_round(enum bb_dtype dtype, double value)
{
	const double spacing = isfinite(value) ? bb_scalar_spacing(dtype, value) : 1;

	return scaled_value(dtype, rint(value / spacing), spacing);
}

double bb_scalar_round_by(enum bb_dtype dtype, double value, double draw)
{
	const double spacing = isfinite(value) ? bb_scalar_spacing(dtype, value) : 1;
	const double below = floor(value / spacing);

	return scaled_value(dtype, below + (draw < value / spacing - below), spacing);
}

static bool is_signed(enum bb_dtype dtype)
{
	return dtype == BB_INT8 || dtype == BB_INT32 || dtype == BB_INT64;
}

/* An integer's value in 64 bits, sign-extended where it has one. */
static uint64_t load_integer(enum bb_dtype dtype, const void *element)
{
	const uint64_t bits = load_bits(dtype, element);

	if (dtype == BB_INT8)
		return (uint64_t)(int64_t)(int8_t)bits;
	if (dtype == BB_INT32)
		return (uint64_t)(int64_t)(int32_t)bits;
	return bits;
}

static bool integer_less(enum bb_dtype dtype, uint64_t a, uint64_t b)
{
	return is_signed(dtype) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t reduce_integer(enum bb_dtype dtype, enum bb_op op, uint64_t a, uint64_t b)
{
	switch (op) {
	case BB_PROD:
		return a * b;
	case BB_MIN:
		return integer_less(dtype, b, a) ? b : a;
	case BB_MAX:
		return integer_less(dtype, a, b) ? b : a;
	case BB_LAND:
		return a && b;
	case BB_LOR:
		return a || b;
	case BB_LXOR:
		return !a != !b;
	case BB_BAND:
		return a & b;
	case BB_BOR:
		return a | b;
	case BB_BXOR:
		return a ^ b;
	default: /* SUM, AVG, MULSUM */
		return a + b;
	}
}

static double reduce_float(enum bb_op op, double a, double b)
{
	switch (op) {
	case BB_PROD:
		return a * b;
	case BB_MIN:
		return b < a ? b : a;
	case BB_MAX:
		return a < b ? b : a;
	default:
		return a + b;
	}
}

static void reduce_pair(enum bb_op op, void *accumulator, const void *operand)
{
	struct bb_float_int a, b;

	memcpy(&a, accumulator, sizeof(a));
	memcpy(&b, operand, sizeof(b));
	const bool better = op == BB_MAXLOC ? b.value > a.value : b.value < a.value;
	if (better || (b.value == a.value && b.index < a.index))
		memcpy(accumulator, &b, sizeof(b));
}

void bb_scalar_reduce(enum bb_dtype dtype, enum bb_op op, void *accumulator, const void *operand)
{
	if (dtype == BB_FLOAT_INT)
		reduce_pair(op, accumulator, operand);
	else if (bb_dtype_is_float(dtype))
		bb_scalar_encode(dtype,
				 reduce_float(op, bb_scalar_decode(dtype, accumulator),
					      bb_scalar_decode(dtype, operand)),
				 accumulator);
	else
		store_bits(dtype, accumulator,
			   reduce_integer(dtype, op, load_integer(dtype, accumulator),
					  load_integer(dtype, operand)));
}

void bb_scalar_scale(enum bb_dtype dtype, void *element, int factor)
{
	if (bb_dtype_is_float(dtype))
		bb_scalar_encode(dtype, bb_scalar_decode(dtype, element) * factor, element);
	else
		store_bits(dtype, element,
			   load_integer(dtype, element) * (uint64_t)(int64_t)factor);
}

void bb_scalar_divide(enum bb_dtype dtype, void *element, int divisor)
{
	if (bb_dtype_is_float(dtype)) {
		bb_scalar_encode(dtype, bb_scalar_decode(dtype, element) / divisor, element);
	} else {
		const uint64_t value = load_integer(dtype, element);

		store_bits(dtype, element,
			   is_signed(dtype) ? (uint64_t)((int64_t)value / divisor)
					    : value / (uint64_t)divisor);
	}
}

/* Encodings in the order of the values they mean, -0 next below +0. */
static int64_t float_order(enum bb_dtype dtype, const void *element)
{
	const int top = (int)bb_dtype_size(dtype) * 8 - 1;
	const uint64_t bits = load_bits(dtype, element);
	const int64_t magnitude = (int64_t)(bits & (((uint64_t)1 << top) - 1));

	return bits >> top ? -magnitude - 1 : magnitude;
}

uint64_t bb_scalar_ulps(enum bb_dtype dtype, const void *a, const void *b)
{
	if (memcmp(a, b, bb_dtype_size(dtype)) == 0)
		return 0;
	if (dtype == BB_FLOAT_INT)
		return UINT64_MAX;
	if (bb_dtype_is_float(dtype)) {
		const int64_t x = float_order(dtype, a), y = float_order(dtype, b);

		if (isnan(bb_scalar_decode(dtype, a)) || isnan(bb_scalar_decode(dtype, b)))
			return UINT64_MAX;
		return x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y;
	}
	const uint64_t x = load_integer(dtype, a), y = load_integer(dtype, b);

	return integer_less(dtype, x, y) ? y - x : x - y;
}
