/* The plain arithmetic itself, against values written down by hand. */
#include "core/random.h"
#include "core/scalar.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static double decode16(enum bb_dtype dtype, uint16_t bits)
{
	return bb_scalar_decode(dtype, &bits);
}

static double decode8(enum bb_dtype dtype, uint8_t bits)
{
	return bb_scalar_decode(dtype, &bits);
}

static uint16_t encode16(enum bb_dtype dtype, double value)
{
	uint16_t bits = 0;

	bb_scalar_encode(dtype, value, &bits);
	return bits;
}

static uint8_t encode8(enum bb_dtype dtype, double value)
{
	uint8_t bits = 0;

	bb_scalar_encode(dtype, value, &bits);
	return bits;
}

static void assert_double(double got, double expected)
{
	if (got != expected)
		fail_msg("%.17g, not %.17g", got, expected);
}

static void names_and_sizes(void **state)
{
	static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 8};

	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		assert_int_equal(bb_dtype_size((enum bb_dtype)dtype), sizes[dtype]);
		assert_int_equal(bb_dtype_named(bb_dtype_name((enum bb_dtype)dtype)), dtype);
	}
	assert_int_equal(bb_dtype_named("bfloat16"), BB_BFLOAT16);
	assert_int_equal(bb_dtype_named("f8e4m3"), BB_F8E4M3);
	assert_int_equal(bb_dtype_named("bfloat"), BB_NDTYPES);
	assert_int_equal(bb_dtype_named(""), BB_NDTYPES);
	assert_string_equal(bb_op_name(BB_MULSUM), "mulsum");
	assert_true(bb_dtype_is_float(BB_F8E5M2));
	assert_false(bb_dtype_is_float(BB_UINT8));
}

static void ops_and_types(void **state)
{
	assert_true(bb_op_accepts(BB_SUM, BB_F8E4M3));
	assert_true(bb_op_accepts(BB_MULSUM, BB_INT8));
	assert_true(bb_op_accepts(BB_BXOR, BB_UINT64));
	assert_true(bb_op_accepts(BB_LAND, BB_INT32));
	assert_false(bb_op_accepts(BB_LAND, BB_FLOAT));
	assert_false(bb_op_accepts(BB_BAND, BB_HALF));
	assert_false(bb_op_accepts(BB_BOR, BB_FLOAT_INT));
	assert_false(bb_op_accepts(BB_SUM, BB_FLOAT_INT));
	assert_true(bb_op_accepts(BB_MINLOC, BB_FLOAT_INT));
	assert_false(bb_op_accepts(BB_MAXLOC, BB_FLOAT));
}

static void every_encoding_returns(void **state)
{
	static const enum bb_dtype wide[] = {BB_HALF, BB_BFLOAT16};
	static const enum bb_dtype narrow[] = {BB_F8E4M3, BB_F8E5M2};

	for (int t = 0; t < 2; t++) {
		for (unsigned int bits = 0; bits < 65536; bits++) {
			const double value = decode16(wide[t], (uint16_t)bits);

			if (isnan(value))
				assert_true(isnan(decode16(wide[t], encode16(wide[t], value))));
			else
				assert_int_equal(encode16(wide[t], value), bits);
		}
		for (unsigned int bits = 0; bits < 256; bits++) {
			const double value = decode8(narrow[t], (uint8_t)bits);

			if (isnan(value))
				assert_true(isnan(decode8(narrow[t], encode8(narrow[t], value))));
			else
				assert_int_equal(encode8(narrow[t], value), bits);
		}
	}
}

/* bfloat16 is the upper half of a float: a second way to know what each encoding means. */
static void bfloat16_is_half_a_float(void **state)
{
	for (uint32_t bits = 0; bits < 65536; bits++) {
		const uint32_t whole = bits << 16;
		float value;

		memcpy(&value, &whole, sizeof(value));
		if (!isnan(value))
			assert_double(decode16(BB_BFLOAT16, (uint16_t)bits), value);
	}
}

static void known_values(void **state)
{
	assert_double(decode16(BB_HALF, 0x3c00), 1);
	assert_double(decode16(BB_HALF, 0xc000), -2);
	assert_double(decode16(BB_HALF, 0x7bff), 65504);
	assert_double(decode16(BB_HALF, 0x0001), 0x1p-24);
	assert_double(decode16(BB_HALF, 0x0400), 0x1p-14);
	assert_true(isinf(decode16(BB_HALF, 0x7c00)));
	assert_double(decode16(BB_BFLOAT16, 0x4049), 3.140625);
	assert_double(decode16(BB_BFLOAT16, 0x7f7f), 0x1.fep127);
	assert_double(decode8(BB_F8E4M3, 0x38), 1);
	assert_double(decode8(BB_F8E4M3, 0x7e), 448);
	assert_double(decode8(BB_F8E4M3, 0x78), 256);
	assert_double(decode8(BB_F8E4M3, 0x01), 0x1p-9);
	assert_double(decode8(BB_F8E4M3, 0x88), -0x1p-6);
	assert_true(isnan(decode8(BB_F8E4M3, 0x7f)) && isnan(decode8(BB_F8E4M3, 0xff)));
	assert_double(decode8(BB_F8E5M2, 0x3c), 1);
	assert_double(decode8(BB_F8E5M2, 0x7b), 57344);
	assert_double(decode8(BB_F8E5M2, 0x01), 0x1p-16);
	assert_double(decode8(BB_F8E5M2, 0xfc), -INFINITY);
	assert_true(isnan(decode8(BB_F8E5M2, 0x7d)) && isnan(decode8(BB_F8E5M2, 0xff)));
}

static void ties_go_to_even(void **state)
{
	assert_int_equal(encode16(BB_HALF, 1 + 0x1p-11), 0x3c00);
	assert_int_equal(encode16(BB_HALF, 1 + 0x3p-11), 0x3c02);
	assert_int_equal(encode16(BB_HALF, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
	assert_int_equal(encode16(BB_HALF, 0x1p-25), 0x0000);
	assert_int_equal(encode16(BB_HALF, 0x3p-25), 0x0002);
	assert_int_equal(encode16(BB_HALF, -0x1p-25), 0x8000);
	assert_int_equal(encode16(BB_HALF, 0x1.ffep-15), 0x03ff + 1); /* up into the normal ones */
	assert_int_equal(encode16(BB_BFLOAT16, 1 + 0x1p-8), 0x3f80);
	assert_int_equal(encode16(BB_BFLOAT16, 1 + 0x3p-8), 0x3f82);
	assert_int_equal(encode8(BB_F8E4M3, 1.0625), 0x38);
	assert_int_equal(encode8(BB_F8E4M3, 1.1875), 0x3a);
	assert_int_equal(encode8(BB_F8E4M3, 1.9999), 0x40);
	assert_int_equal(encode8(BB_F8E4M3, 0x1p-10), 0x00);
	assert_int_equal(encode8(BB_F8E5M2, 1.125), 0x3c);
	assert_int_equal(encode8(BB_F8E5M2, 1.375), 0x3e);
}

static void the_range_ends(void **state)
{
	assert_int_equal(encode16(BB_HALF, 65519.99), 0x7bff);
	assert_int_equal(encode16(BB_HALF, 65520), 0x7c00);
	assert_int_equal(encode16(BB_HALF, -1e300), 0xfc00);
	assert_int_equal(encode16(BB_BFLOAT16, 1e39), 0x7f80);
	assert_int_equal(encode8(BB_F8E4M3, 463.9), 0x7e);
	assert_int_equal(encode8(BB_F8E4M3, 480), 0x7e);
	assert_int_equal(encode8(BB_F8E4M3, -1e9), 0xfe);
	assert_int_equal(encode8(BB_F8E4M3, INFINITY), 0x7e);
	assert_int_equal(encode8(BB_F8E5M2, 61439), 0x7b);
	assert_int_equal(encode8(BB_F8E5M2, 61440), 0x7c);
	assert_int_equal(encode8(BB_F8E5M2, -INFINITY), 0xfc);
	assert_true(isnan(decode8(BB_F8E4M3, encode8(BB_F8E4M3, NAN))));
	assert_int_equal(encode8(BB_F8E5M2, -0.0), 0x80);
}

static int64_t reduce_int(enum bb_dtype dtype, enum bb_op op, int64_t a, int64_t b)
{
	bb_scalar_reduce(dtype, op, &a, &b);
	if (dtype == BB_INT8)
		return (int8_t)a;
	if (dtype == BB_UINT8)
		return (uint8_t)a;
	if (dtype == BB_INT32)
		return (int32_t)a;
	if (dtype == BB_UINT32)
		return (uint32_t)a;
	return a;
}

static void integers(void **state)
{
	assert_int_equal(reduce_int(BB_INT8, BB_SUM, 127, 1), -128);
	assert_int_equal(reduce_int(BB_UINT8, BB_SUM, 255, 1), 0);
	assert_int_equal(reduce_int(BB_INT8, BB_PROD, 16, 17), 16);
	assert_int_equal(reduce_int(BB_INT32, BB_PROD, -3, 5), -15);
	assert_int_equal(reduce_int(BB_INT64, BB_SUM, INT64_MAX, 1), INT64_MIN);
	assert_int_equal(reduce_int(BB_INT64, BB_PROD, INT64_MIN, -1), INT64_MIN);
	assert_int_equal(reduce_int(BB_INT8, BB_MIN, -1, 1), -1);
	assert_int_equal(reduce_int(BB_UINT8, BB_MIN, 255, 1), 1);
	assert_int_equal(reduce_int(BB_INT32, BB_MAX, -1, 1), 1);
	assert_int_equal(reduce_int(BB_UINT64, BB_MAX, -1, 1), -1);
	assert_int_equal(reduce_int(BB_INT64, BB_MAX, -1, 1), 1);
	assert_int_equal(reduce_int(BB_UINT32, BB_MULSUM, 3, 4), 7);
	assert_int_equal(reduce_int(BB_INT32, BB_LAND, 2, 4), 1);
	assert_int_equal(reduce_int(BB_INT32, BB_LAND, 2, 0), 0);
	assert_int_equal(reduce_int(BB_UINT8, BB_LOR, 0, 8), 1);
	assert_int_equal(reduce_int(BB_UINT8, BB_LOR, 0, 0), 0);
	assert_int_equal(reduce_int(BB_INT64, BB_LXOR, 2, 4), 0);
	assert_int_equal(reduce_int(BB_INT64, BB_LXOR, 0, 4), 1);
	assert_int_equal(reduce_int(BB_INT32, BB_BAND, 6, 3), 2);
	assert_int_equal(reduce_int(BB_INT32, BB_BOR, 6, 3), 7);
	assert_int_equal(reduce_int(BB_INT32, BB_BXOR, 6, 3), 5);
}

static void only_its_own_bytes(void **state)
{
	uint8_t pair[2] = {200, 7};
	const uint8_t operand = 100;

	bb_scalar_reduce(BB_UINT8, BB_SUM, &pair[0], &operand);
	assert_int_equal(pair[0], 44);
	assert_int_equal(pair[1], 7);
	bb_scalar_encode(BB_F8E4M3, 1, &pair[0]);
	assert_int_equal(pair[1], 7);
}

static void floats(void **state)
{
	float a = 1.5f, b = -2;
	double c = 0.1, d = 0.2;
	uint16_t h = 0x3c00, one = 0x3c00;

	bb_scalar_reduce(BB_FLOAT, BB_PROD, &a, &b);
	assert_double(a, -3);
	bb_scalar_reduce(BB_FLOAT, BB_MAX, &a, &b);
	assert_double(a, -2);
	bb_scalar_reduce(BB_DOUBLE, BB_SUM, &c, &d);
	assert_double(c, 0.1 + 0.2);
	bb_scalar_reduce(BB_DOUBLE, BB_MIN, &c, &d);
	assert_double(c, 0.2);
	bb_scalar_reduce(BB_HALF, BB_AVG, &h, &one);
	assert_int_equal(h, 0x4000);
	bb_scalar_divide(BB_HALF, &h, 3);
	assert_int_equal(h, 0x3955); /* 2/3 */
	bb_scalar_scale(BB_FLOAT, &a, 2);
	assert_double(a, -4);
}

static void scale_and_divide_integers(void **state)
{
	int8_t a = -7, b = 100;
	uint64_t c = UINT64_MAX;
	uint8_t d = 250;

	bb_scalar_divide(BB_INT8, &a, 2);
	assert_int_equal(a, -3);
	bb_scalar_scale(BB_INT8, &b, 2);
	assert_int_equal(b, -56);
	bb_scalar_divide(BB_UINT64, &c, 2);
	assert_true(c == UINT64_MAX / 2);
	bb_scalar_divide(BB_UINT8, &d, 300);
	assert_int_equal(d, 0);
}

static struct bb_float_int locate(enum bb_op op, struct bb_float_int a, struct bb_float_int b)
{
	bb_scalar_reduce(BB_FLOAT_INT, op, &a, &b);
	return a;
}

static void pairs(void **state)
{
	const struct bb_float_int low = {1, 5}, high = {2, 9}, early = {2, 3};

	assert_int_equal(locate(BB_MAXLOC, low, high).index, 9);
	assert_int_equal(locate(BB_MAXLOC, high, low).index, 9);
	assert_int_equal(locate(BB_MAXLOC, high, early).index, 3);
	assert_int_equal(locate(BB_MAXLOC, early, high).index, 3);
	assert_int_equal(locate(BB_MINLOC, low, high).index, 5);
	assert_int_equal(locate(BB_MINLOC, high, early).index, 3);
}

static void ulps(void **state)
{
	const float one = 1, next = nextafterf(1, 2), zero = 0, minus_zero = -0.0f;
	const float tiny = 0x1p-149f, minus_tiny = -0x1p-149f, nan = NAN;
	const int8_t a = -128, b = 127;
	const uint64_t small = 0, large = UINT64_MAX;
	const struct bb_float_int p = {1, 2}, q = {1, 3};
	const uint8_t x = 0x7e, y = 0x7d, not_a_number = 0x7f;

	assert_int_equal(bb_scalar_ulps(BB_FLOAT, &one, &one), 0);
	assert_int_equal(bb_scalar_ulps(BB_FLOAT, &one, &next), 1);
	assert_int_equal(bb_scalar_ulps(BB_FLOAT, &next, &one), 1);
	assert_int_equal(bb_scalar_ulps(BB_FLOAT, &zero, &minus_zero), 1);
	assert_int_equal(bb_scalar_ulps(BB_FLOAT, &tiny, &minus_tiny), 3);
	assert_true(bb_scalar_ulps(BB_FLOAT, &one, &nan) == UINT64_MAX);
	assert_int_equal(bb_scalar_ulps(BB_FLOAT, &nan, &nan), 0);
	assert_int_equal(bb_scalar_ulps(BB_INT8, &a, &b), 255);
	assert_true(bb_scalar_ulps(BB_UINT64, &small, &large) == UINT64_MAX);
	assert_true(bb_scalar_ulps(BB_FLOAT_INT, &p, &q) == UINT64_MAX);
	assert_int_equal(bb_scalar_ulps(BB_F8E4M3, &x, &y), 1);
	assert_true(bb_scalar_ulps(BB_F8E4M3, &x, &not_a_number) == UINT64_MAX);
}

/* ---- rounding ---------------------------------------------------------------------------- */

static void rounding_is_encoding(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_HALF,   BB_BFLOAT16, BB_F8E4M3,
					       BB_F8E5M2, BB_FLOAT,    BB_DOUBLE};
	uint64_t seed = 1;

	for (int d = 0; d < 6; d++) {
		for (int i = 0; i < 20000; i++) {
			const uint64_t word = bb_random_next(&seed);
			const int exponent = (int)(bb_random_next(&seed) % 60) - 40;
			/* Few bits, so that many are ties. */
			const double value =
				ldexp((double)(word >> 40 << (word & 15)) - 0x1p24, exponent - 24);
			uint64_t bits = 0;

			bb_scalar_encode(dtypes[d], value, &bits);
			assert_double(bb_scalar_round(dtypes[d], value),
				      bb_scalar_decode(dtypes[d], &bits));
			bb_scalar_encode(dtypes[d], bb_scalar_round_by(dtypes[d], value, 0.5),
					 &bits);
			assert_true(fabs(bb_scalar_decode(dtypes[d], &bits) - value) <=
					    bb_scalar_spacing(dtypes[d], value) ||
				    fabs(value) > 448);
		}
		assert_true(isnan(bb_scalar_round(dtypes[d], NAN)));
	}
	assert_double(bb_scalar_round(BB_HALF, 65519.99), 65504);
	assert_double(bb_scalar_round(BB_HALF, -65520), -INFINITY);
	assert_double(bb_scalar_round(BB_F8E4M3, 1e9), 448);
	assert_double(bb_scalar_round(BB_FLOAT, 1e39), INFINITY);
	assert_double(bb_scalar_round_by(BB_F8E4M3, INFINITY, 0), 448);
	assert_double(bb_scalar_spacing(BB_HALF, 1), 0x1p-10);
	assert_double(bb_scalar_spacing(BB_BFLOAT16, 1), 0x1p-7);
	assert_double(bb_scalar_spacing(BB_F8E4M3, 1), 0x1p-3);
	assert_double(bb_scalar_spacing(BB_F8E5M2, 1), 0x1p-2);
	assert_double(bb_scalar_spacing(BB_FLOAT, 1), 0x1p-23);
	assert_double(bb_scalar_spacing(BB_HALF, 0), 0x1p-24);
	assert_double(bb_scalar_spacing(BB_DOUBLE, 0), 0x1p-1074);
}

/* A weight in DTYPE after N updates. */
static double updated(enum bb_dtype dtype, double weight, double update, int n)
{
	while (n-- > 0)
		weight = bb_scalar_round(dtype, weight + update);
	return weight;
}

static void updates_stall(void **state)
{
	/* The last half steps at 1; a tie goes to even, from an odd code up. */
	assert_double(updated(BB_HALF, 1, 0x1p-11, 1), 1);
	assert_double(updated(BB_HALF, 1 + 0x1p-10, 0x1p-11, 1), 1 + 0x1p-9);
	assert_double(updated(BB_HALF, 1, 0x1.01p-11, 1), 1.0009765625);
	assert_double(updated(BB_BFLOAT16, 1, 0x1p-8, 1), 1);
	assert_double(updated(BB_HALF, 1, 1e-4, 1000), 1);
	assert_double(updated(BB_HALF, 0.25, 1e-4, 1000), 0.25);
	assert_double(updated(BB_BFLOAT16, 1, 1e-3, 1000), 1);
	assert_double(updated(BB_BFLOAT16, 1, 0x1p-8, 100), 1);
	assert_double(updated(BB_BFLOAT16, 1, 0.005, 100), 1.78125);
	assert_true(fabs(updated(BB_FLOAT, 1, 1e-4, 1000) - 1.1) < 1e-4);
	assert_double(updated(BB_HALF, 0, 1, 5000), 2048);
	assert_double(updated(BB_BFLOAT16, 0, 1, 5000), 256);
}

static void small_gradients_vanish(void **state)
{
	static const struct {
		double sigma, scale, share;
	} table[] = {{1e-8, 1, .99712}, {1e-8, 1024, .00232}, {1e-8, 65536, 3.6e-5},
		     {1e-7, 1, .23431}, {1e-7, 128, .00186},  {1e-6, 1, .02378}};

	assert_double(bb_scalar_round(BB_HALF, 0x1p-25), 0);
	assert_double(bb_scalar_round(BB_HALF, 0x1.00001p-25), 0x1p-24);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		double low = 0, high = 8;

		/* The largest multiple of the deviation that becomes 0. */
		while (high - low > 1e-12) {
			const double x = (low + high) / 2;
			const double gradient = x * table[i].sigma * table[i].scale;

			*(bb_scalar_round(BB_HALF, gradient) == 0 ? &low : &high) = x;
		}
		assert_true(fabs(erf(low / sqrt(2)) - table[i].share) <
			    (table[i].share < 1e-4 ? 1e-6 : 1e-5));
	}
}

static void stochastic_rounding_is_unbiased(void **state)
{
	uint64_t seed = 7;
	double mean = 0;

	/* Up in as many of 1000 draws as its part of the spacing says, and exact numbers stay. */
	for (int i = 0; i < 1000; i++)
		mean += bb_scalar_round_by(BB_HALF, 1 + 0.123 * 0x1p-10, i / 1000.0) / 1000;
	assert_true(fabs(mean - (1 + 0.123 * 0x1p-10)) < 1.01e-3 * 0x1p-10);
	assert_double(bb_scalar_round_by(BB_HALF, -1.5, 0), -1.5);
	assert_double(bb_scalar_round_by(BB_HALF, -(1 + 0x1p-12), 0.74), -1);
	assert_double(bb_scalar_round_by(BB_HALF, -(1 + 0x1p-12), 0.76), -(1 + 0x1p-10));
	/* 1 + 1000 x 1e-4 in fp16, which stays 1 by rounding to nearest. */
	mean = 0;
	for (int run = 0; run < 64; run++) {
		double weight = 1;

		for (int i = 0; i < 1000; i++)
			weight = bb_scalar_round_by(BB_HALF, weight + 1e-4,
						    bb_random_uniform(bb_random_next(&seed)));
		mean += weight / 64;
	}
	assert_true(fabs(mean - 1.1) < 0.005);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_sizes),
		cmocka_unit_test(ops_and_types),
		cmocka_unit_test(every_encoding_returns),
		cmocka_unit_test(bfloat16_is_half_a_float),
		cmocka_unit_test(known_values),
		cmocka_unit_test(ties_go_to_even),
		cmocka_unit_test(the_range_ends),
		cmocka_unit_test(integers),
		cmocka_unit_test(only_its_own_bytes),
		cmocka_unit_test(floats),
		cmocka_unit_test(scale_and_divide_integers),
		cmocka_unit_test(pairs),
		cmocka_unit_test(ulps),
		cmocka_unit_test(rounding_is_encoding),
		cmocka_unit_test(updates_stall),
		cmocka_unit_test(small_gradients_vanish),
		cmocka_unit_test(stochastic_rounding_is_unbiased),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
