/* Codes of numbers: the conventions of several systems, their errors, and fp8 against an oracle. */
#include "codes/codes.h"
#include "core/random.h"
#include "core/scalar.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 65536

static const struct bb_coding *named(const char *name)
{
	const struct bb_coding *c = bb_coding_named(name);

	if (!c)
		fail_msg("no coding %s", name);
	return c;
}

/* X in one block has the codes WANTED and decodes to BACK, where they are given. */
static void example(const char *name, const float *x, size_t n, const int *wanted,
		    const float *back)
{
	const struct bb_coding *c = named(name);
	unsigned char coded[64];
	float decoded[16];

	bb_coding_encode(c, 0, x, n, coded);
	bb_coding_decode(c, 0, coded, n, decoded);
	for (size_t i = 0; i < n; i++) {
		if (wanted && bb_coding_code(c, coded, i) != wanted[i])
			fail_msg("%s: code %zu is %d, not %d", name, i, bb_coding_code(c, coded, i),
				 wanted[i]);
		if (back && decoded[i] != back[i])
			fail_msg("%s: number %zu is %.9g, not %.9g", name, i, (double)decoded[i],
				 (double)back[i]);
	}
}

static void test_conventions(void **state)
{
	const float x[] = {1, 2, 3}, y[] = {-3, -1.5f, .1f, 3}, z[] = {-1, 0, 2};
	const float w[] = {-3, 0, 1.5, 3, -1};

	example("int8-minmax", x, 3, (int[]){-127, 0, 127}, x);
	example("int4-minmax", x, 3, (int[]){-7, 0, 7}, NULL);
	example("int8", x, 3, (int[]){42, 85, 127}, NULL);
	example("int4", x, 3, (int[]){2, 5, 7}, NULL);
	example("int8", w, 5, (int[]){-127, 0, 64, 127, -42}, NULL);
	example("int4", w, 5, (int[]){-7, 0, 4, 7, -2}, NULL);
	example("ds-int8", x, 3, (int[]){43, 85, 127},
		(float[]){1.0078125f, 1.9921875f, 2.9765625f});
	example("ds-int8", y, 4, (int[]){-128, -64, 4, 127}, NULL);
	example("ds-int4", x, 3, (int[]){3, 5, 7}, (float[]){1.125f, 1.875f, 2.625f});
	/* Minimum and maximum are 256 codes apart; the maximum is clamped. */
	example("ds-int8-asym", x, 3, (int[]){-128, 0, 127}, (float[]){1, 2, 2.9921875f});
	example("ds-int4-asym", x, 3, (int[]){-8, 0, 7}, (float[]){1, 2, 2.875f});
	example("torch-uint8", x, 3, (int[]){85, 170, 255}, x);
	example("torch-uint8", z, 3, (int[]){0, 85, 255}, z);
	unsigned char coded[16];
	bb_coding_encode(named("torch-uint8"), 0, z, 3, coded);
	assert_true(bb_coding_scale(named("torch-uint8"), coded, 3, 0).point == 85);
	/* Halves go to even. */
	example("int8", (float[]){127, .5f, 1.5f, 2.5f, -.5f, -1.5f}, 6,
		(int[]){127, 0, 2, 2, 0, -2}, NULL);
	/* The observer's scale is at least its epsilon, so small gradients are lost. */
	example("torch-uint8", (float[]){5e-8f, -5e-8f}, 2, NULL, (float[]){0, 0});
}

static void test_bytes(void **state)
{
	assert_int_equal(bb_coding_bytes(named("fp8-e4m3"), 128, 7168), 7392);
	assert_int_equal(bb_coding_bytes(named("mxfp8-e4m3"), 32, 7168), 7168 + 224);
	assert_int_equal(bb_coding_bytes(named("int8-minmax"), 0, 3), 3 + 8);
	assert_int_equal(bb_coding_bytes(named("int8"), 0, 3), 3 + 4);
	assert_int_equal(bb_coding_bytes(named("int4"), 0, 5), 3 + 4);
	assert_int_equal(bb_coding_bytes(named("int4"), 256, 513), 257 + 12);
	assert_int_equal(bb_coding_bytes(named("sign"), 0, 1024), 128 + 4);
	assert_int_equal(bb_coding_bytes(named("sign"), 0, 0), 0);
	/* qwZ: groups, and bytes of codes and scales. */
	static const struct {
		size_t n, groups, bytes;
	} qwz[] = {
		{4096 * 4096, 4096, 16793600},
		{1000000, 125, 1000500},
		{4096 * 11008, 8192, 4096 * 11008 + 4 * 8192},
		{8 * 7919, 7919, 8 * 7919 + 4 * 7919},
		{8, 1, 12},
		{12, 0, 0},
		{0, 0, 0},
	};
	for (size_t i = 0; i < sizeof(qwz) / sizeof(*qwz); i++) {
		const size_t groups = bb_coding_qwz_blocks(qwz[i].n);

		assert_int_equal(groups, qwz[i].groups);
		if (groups > 0)
			assert_int_equal(
				bb_coding_bytes(named("ds-int8"), qwz[i].n / groups, qwz[i].n),
				qwz[i].bytes);
	}
}

/* Blocks whose maximum MOST makes their scale 1 have the codes of the oracle. */
static void fp8_equals(const char *name, enum bb_dtype dtype, float most)
{
	const struct bb_coding *c = named(name);
	float block[8] = {most}, back[8];
	unsigned char coded[16];

	for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
		size_t n = 1;

		for (; n < 8 && bits < UINT64_C(1) << 32; bits += 20011) {
			const uint32_t word = (uint32_t)bits;

			memcpy(&block[n], &word, sizeof(word));
			n += fabsf(block[n]) <= most;
		}
		bb_coding_encode(c, 0, block, n, coded);
		bb_coding_decode(c, 0, coded, n, back);
		for (size_t i = 0; i < n; i++) {
			unsigned char code;

			bb_scalar_encode(dtype, (double)block[i], &code);
			if (coded[i] != code || (double)back[i] != bb_scalar_decode(dtype, &code))
				fail_msg("%s: %a has code %d, not %d; %a", name, (double)block[i],
					 coded[i], code, (double)back[i]);
		}
	}
	/* All halfway points and their neighbours, and all codes. */
	for (int code = 0; code < 0x7b; code++) {
		const unsigned char both[] = {(unsigned char)code, (unsigned char)(code + 1)};
		const float half = (float)(bb_scalar_decode(dtype, &both[0]) +
					   bb_scalar_decode(dtype, &both[1])) /
				   2;
		const float x[] = {most, half, nextafterf(half, 0), nextafterf(half, most), -half};

		bb_coding_encode(c, 0, x, 5, coded);
		for (size_t i = 0; i < 5; i++) {
			unsigned char wanted;

			bb_scalar_encode(dtype, (double)x[i], &wanted);
			assert_int_equal(coded[i], wanted);
		}
	}
}

static void test_fp8(void **state)
{
	fp8_equals("fp8-e4m3", BB_F8E4M3, 448);
	fp8_equals("fp8-e5m2", BB_F8E5M2, 57344);
	/* A power of two as scale: 448 and 480 keep the scale 1, which 480 exceeds; 512 needs 2. */
	fp8_equals("mxfp8-e4m3", BB_F8E4M3, 448);
	fp8_equals("mxfp8-e5m2", BB_F8E5M2, 57344);
	example("mxfp8-e4m3", (float[]){480, 17, 0}, 3, NULL, (float[]){448, 16, 0});
	example("mxfp8-e4m3", (float[]){512, 17, -36}, 3, NULL, (float[]){512, 16, -36});
	example("mxfp8-e4m3", (float[]){0, -0.f}, 2, (int[]){0, 128}, (float[]){0, 0});
	example("mxfp8-e4m3", (float[]){0x1p-140f, 0}, 2, NULL, (float[]){0, 0});
	example("mxfp8-e4m3", (float[]){0x1p-130f, 0}, 2, NULL, (float[]){0x1p-130f, 0});
	example("mxfp8-e4m3", (float[]){0x1.8p127f, -0x1p119f}, 2, NULL,
		(float[]){0x1.8p127f, -0x1p119f});
	example("fp8-e4m3", (float[]){896, 34, 0}, 3, NULL, (float[]){896, 32, 0});
}

/* 1-bit Adam's worked examples: error feedback of one worker. */
static void feedback(const float *x, size_t n, const float *scales, size_t rounds)
{
	float error[4] = {0}, input[4], result[4];
	unsigned char coded[8];

	for (size_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < n; i++)
			input[i] = x[i] + error[i];
		bb_coding_encode(named("sign"), 0, input, n, coded);
		bb_coding_decode(named("sign"), 0, coded, n, result);
		const float scale = bb_coding_scale(named("sign"), coded, n, 0).scale;
		assert_true(fabsf(scale - scales[round]) < 1e-6f);
		for (size_t i = 0; i < n; i++) {
			assert_true(result[i] == (input[i] < 0 ? -scale : scale));
			error[i] = input[i] - result[i];
		}
	}
}

static void test_sign(void **state)
{
	feedback((float[]){3, -1, 2, 0}, 4, (float[]){1.870829f}, 1);
	feedback((float[]){1, 1, -2, 4}, 4, (float[]){2.345208f}, 1);
	feedback((float[]){1, -2, 3, -4}, 4, (float[]){2.738613f, 3.180231f, 3.818550f}, 3);
	feedback((float[]){0, 0, 0, 4}, 4, (float[]){2, 3.464102f, 3.505308f, 3.934742f}, 4);
	example("sign", (float[]){0, -0.f, 1, -1}, 4, (int[]){1, 1, 1, 0}, NULL);
}

/* Numbers come back within half a step, sums of decoded numbers are exactly that, and what is
   behind the coded numbers stays. */
static void test_round_trip(void **state)
{
	float x[1001], back[1001], sum[1001];
	unsigned char coded[8 * 1001 + 64];

	for (size_t i = 0; i < 1001; i++)
		x[i] = sum[i] = sinf((float)i * 0.7f) * (float)(i % 10) - 1;
	for (const struct bb_coding *c = bb_codings; c->name; c++)
		for (size_t run = 0; run < 6; run++) {
			const size_t n = run % 2 ? 1001 : 1 + run * 37;
			const size_t block = run < 2 ? c->block : run < 4 ? 0 : 8;
			const size_t bytes = bb_coding_bytes(c, block, n);

			memset(coded, 0xa5, sizeof(coded));
			bb_coding_encode(c, block, x, n, coded);
			assert_int_equal(coded[bytes], 0xa5);
			bb_coding_decode(c, block, coded, n, back);
			memcpy(sum, x, sizeof(x));
			bb_coding_add(c, block, coded, n, 1, sum);
			for (size_t i = 0; i < n; i++) {
				const struct bb_block_scale s =
					bb_coding_scale(c, coded, n, block ? i / block : 0);
				const float off = fabsf(back[i] - x[i]);
				float most = s.scale * .5001f;

				assert_true(sum[i] == x[i] + back[i]);
				if (strstr(c->name, "ds-")) /* the maximum is clamped */
					most = s.scale * 1.0001f;
				else if (c->kind == BB_CODE_SIGN)
					continue;
				else if (c->kind == BB_CODE_E4M3)
					most = fmaxf(fabsf(x[i]) * .0626f, s.scale * 0x1p-10f);
				else if (c->kind == BB_CODE_E5M2)
					most = fmaxf(fabsf(x[i]) * .1251f, s.scale * 0x1p-17f);
				if (strstr(c->name, "mxfp8-e4m3") &&
				    fabsf(back[i]) / s.scale == 448)
					most = fabsf(x[i]) * .125f; /* up to 511 of the scale */
				if (off > most)
					fail_msg("%s: %zu: %g is %g", c->name, i, (double)x[i],
						 (double)back[i]);
			}
		}
}

/* The RMS error is the step over the square root of 12, and blocks keep outliers to themselves. */
static void test_error(void **state)
{
	float *x = calloc(2 * MOST, sizeof(*x)), *back = x + MOST;
	unsigned char *coded = calloc(2, MOST);
	uint64_t seed = 1;
	double rms[2] = {0};

	for (size_t i = 0; i < MOST; i++) {
		const double u = bb_random_positive(bb_random_next(&seed));
		const double v = bb_random_positive(bb_random_next(&seed));

		x[i] = (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v)) * (i % 4096 ? 1 : 50);
	}
	for (int run = 0; run < 2; run++) {
		bb_coding_encode(named("ds-int8"), run ? 256 : 0, x, MOST, coded);
		bb_coding_decode(named("ds-int8"), run ? 256 : 0, coded, MOST, back);
		for (size_t i = 0; i < MOST; i++)
			rms[run] += (double)(back[i] - x[i]) * (double)(back[i] - x[i]) / MOST;
		rms[run] = sqrt(rms[run]);
		if (run == 0) {
			const float step = bb_coding_scale(named("ds-int8"), coded, MOST, 0).scale;
			assert_true(fabs(rms[0] * sqrt(12) / (double)step - 1) < .02);
		}
	}
	/* .262 and .031 of other normal numbers, whose largest ones decide. */
	assert_true(rms[0] > .15 && rms[0] < .45 && rms[1] > .02 && rms[1] < .045);
	assert_true(rms[0] / rms[1] > 6 && rms[0] / rms[1] < 12);
	free(x);
	free(coded);
}

/* A number that is lost takes its block with it, and no other. */
static void test_not_finite(void **state)
{
	const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
	unsigned char coded[256];
	float x[24], back[24];

	for (const struct bb_coding *c = bb_codings; c->name; c++)
		for (size_t k = 0; k < 4; k++) {
			for (size_t i = 0; i < 24; i++)
				x[i] = (float)i - 3;
			x[9] = bad[k];
			bb_coding_encode(c, 8, x, 24, coded);
			bb_coding_decode(c, 8, coded, 24, back);
			for (size_t i = 0; i < 24; i++)
				assert_true(isnan(back[i]) == (i / 8 == 1));
		}
	example("int8-minmax", (float[]){2.5f, 2.5f}, 2, NULL, (float[]){2.5f, 2.5f});
	for (const struct bb_coding *c = bb_codings; c->name; c++) {
		const float far[] = {-3e38f, 3e38f}, none[] = {0, -0.f, 0};

		example(c->name, none, 3, NULL, none);
		bb_coding_encode(c, 0, far, 2, coded);
		bb_coding_decode(c, 0, coded, 2, back);
		const bool spans = strstr(c->name, "minmax") || strstr(c->name, "ds-int8-") ||
				   strstr(c->name, "ds-int4-") || c->lowest == 0;
		if (c->kind == BB_CODE_INTEGER && spans)
			assert_true(isnan(back[0]) && isnan(back[1]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conventions), cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_fp8),         cmocka_unit_test(test_sign),
		cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_error),
		cmocka_unit_test(test_not_finite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
