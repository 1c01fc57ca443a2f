/*
 * The kernels of the nccl backend, run on the CPU, against one element's arithmetic at a time:
 * every datatype and operation, every alignment, lengths around a piece, patterns and their faults.
 */
#include "backends/cpu/memory.h"
#include "backends/nccl/kernels.h"
#include "core/scalar.h"
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 300 /* elements */
#define ROOM (MOST * 8 + 64)
#define PERIOD 1021
#define LONG 40000 /* elements of a pattern: many blocks */
#define GUARD 0x5a

static struct bb_gpu_lane lane = {.blocks = 3};

static int setup(void **state)
{
	return cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking) != cudaSuccess;
}

static int teardown(void **state)
{
	char text[256];

	return cudaStreamDestroy(lane.stream) != cudaSuccess || fake_leaks(text, sizeof(text)) != 0;
}

static void finish(cudaError_t issued)
{
	assert_int_equal(issued, cudaSuccess);
	assert_int_equal(fake_drain(lane.stream), cudaSuccess);
}

static uint64_t draw(uint64_t i)
{
	uint64_t x = i * 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	return x ^ (x >> 27);
}

/* ---- reductions ---------------------------------------------------------------------- */

struct operands {
	char *memory[4]; /* three sources and the destination */
	char *at[4];
	char expected[ROOM];
};

static void operands_open(struct operands *o)
{
	for (int i = 0; i < 4; i++) {
		o->memory[i] = aligned_alloc(64, (ROOM + 127) & ~63);
		assert_non_null(o->memory[i]);
	}
}

static void operands_close(struct operands *o)
{
	for (int i = 0; i < 4; i++)
		free(o->memory[i]);
}

/* Any bits but those of floats that are no numbers: their sums may differ in what is not a number.
 */
static void random_element(enum bb_dtype dtype, uint64_t seed, char *element)
{
	uint64_t bits = draw(seed);
	struct bb_float_int pair = {(float)(bits % 7), (int32_t)(bits >> 40)};

	if (dtype == BB_FLOAT_INT)
		memcpy(element, &pair, sizeof(pair));
	else if (bb_dtype_is_float(dtype))
		bb_scalar_encode(dtype, ((double)(bits % 4001) - 2000) / 64, element);
	else
		memcpy(element, &bits, bb_dtype_size(dtype));
}

static void lay_out(struct operands *o, enum bb_dtype dtype, size_t count, unsigned skews)
{
	const size_t size = bb_dtype_size(dtype);

	for (int i = 0; i < 4; i++) {
		memset(o->memory[i], GUARD, ROOM);
		o->at[i] = o->memory[i] + 16 + (skews >> (2 * i) & 3) * size;
		for (size_t k = 0; k < count && i < 3; k++)
			random_element(dtype, 4 * k + (uint64_t)i + 77 * count,
				       o->at[i] + k * size);
	}
}

/* In float, rounded once; the oracle rounds each time. */
static void reduce_element(enum bb_dtype dtype, enum bb_op op, int n, const char *const *src,
			   char *out)
{
	const size_t size = bb_dtype_size(dtype);
	const bool is_float =
		bb_dtype_is_float(dtype) && size < 4 && (op == BB_SUM || op == BB_PROD);
	float value;

	memcpy(out, src[0], size);
	if (!is_float) {
		for (int i = 1; i < n; i++)
			bb_scalar_reduce(dtype, op, out, src[i]);
		return;
	}
	value = (float)bb_scalar_decode(dtype, src[0]);
	for (int i = 1; i < n; i++) {
		const float other = (float)bb_scalar_decode(dtype, src[i]);

		value = op == BB_SUM ? value + other : value * other;
	}
	bb_scalar_encode(dtype, (double)value, out);
}

static void check(const struct operands *o, int dst, size_t bytes, const char *what, int dtype,
		  int op, size_t count, unsigned skews)
{
	const char *const end = o->at[dst] + bytes;

	if (memcmp(o->at[dst], o->expected, bytes) != 0)
		fail_msg("%s %s %s of %zu elements, skews %x: wrong", what,
			 bb_dtype_name((enum bb_dtype)dtype),
			 op < BB_NOPS ? bb_op_name((enum bb_op)op) : "", count, skews);
	for (const char *p = o->memory[dst]; p < o->memory[dst] + ROOM; p++)
		if ((p < o->at[dst] || p >= end) && *p != GUARD)
			fail_msg("%s %s of %zu elements, skews %x: writes beyond", what,
				 bb_dtype_name((enum bb_dtype)dtype), count, skews);
}

static void reduce_once(struct operands *o, enum bb_dtype dtype, enum bb_op op, int n, size_t count,
			unsigned skews, bool onto_source)
{
	const size_t size = bb_dtype_size(dtype);
	const void *sources[3];
	const int dst = onto_source ? 0 : 3;

	lay_out(o, dtype, count, skews);
	for (size_t k = 0; k < count; k++) {
		const char *src[3] = {o->at[0] + k * size, o->at[1] + k * size,
				      o->at[2] + k * size};

		reduce_element(dtype, op, n, src, o->expected + k * size);
	}
	for (int i = 0; i < 3; i++)
		sources[i] = o->at[i];
	finish(bb_gpu_reduce(lane, dtype, op, o->at[dst], sources, n, count));
	check(o, dst, count * size, "reduce", (int)dtype, (int)op, count, skews);
}

static void test_reduce(void **state)
{
	static const size_t counts[] = {0, 1, 2, 15, 16, 17, 33, MOST};
	struct operands o;
	unsigned variant = 0;

	operands_open(&o);
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++)
		for (int op = 0; op < BB_NOPS; op++) {
			if (!bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype) || op == BB_AVG ||
			    op == BB_MULSUM)
				continue;
			for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
				for (int n = 2; n <= 3; n++, variant++)
					reduce_once(&o, (enum bb_dtype)dtype, (enum bb_op)op, n,
						    counts[i],
						    variant % 3 == 0 ? 0 : (unsigned)draw(variant),
						    variant % 2);
		}
	operands_close(&o);
}

static void test_reduce_refuses(void **state)
{
	int32_t a = 1, b = 2;
	const void *sources[] = {&a, &b};

	assert_int_equal(bb_gpu_reduce(lane, BB_FLOAT, BB_BAND, &a, sources, 2, 1),
			 cudaErrorInvalidValue);
	assert_int_equal(bb_gpu_reduce(lane, BB_INT32, BB_AVG, &a, sources, 2, 1),
			 cudaErrorInvalidValue);
	assert_int_equal(bb_gpu_scale(lane, BB_FLOAT_INT, &a, &b, 1, 2, 1), cudaErrorInvalidValue);
}

static void scale_once(struct operands *o, enum bb_dtype dtype, size_t count, unsigned skews,
		       int factor, int divisor)
{
	const size_t size = bb_dtype_size(dtype);

	lay_out(o, dtype, count, skews);
	memcpy(o->expected, o->at[0], count * size);
	for (size_t k = 0; k < count; k++) {
		char *const e = o->expected + k * size;
		float value;

		if (divisor == 1) {
			bb_scalar_scale(dtype, e, factor);
		} else if (bb_dtype_is_float(dtype) && size < 4) {
			value = (float)bb_scalar_decode(dtype, e) / (float)divisor;
			bb_scalar_encode(dtype, (double)value, e);
		} else {
			bb_scalar_divide(dtype, e, divisor);
		}
	}
	finish(bb_gpu_scale(lane, dtype, o->at[3], o->at[0], count, factor, divisor));
	check(o, 3, count * size, "scale", (int)dtype, BB_NOPS, count, skews);
}

static void test_scale(void **state)
{
	static const int divisors[] = {2, 3, 8, 300};
	struct operands o;

	operands_open(&o);
	for (int dtype = 0; dtype < BB_FLOAT_INT; dtype++)
		for (unsigned skews = 0; skews < 256; skews += 51) {
			scale_once(&o, (enum bb_dtype)dtype, MOST, skews, 2, 1);
			scale_once(&o, (enum bb_dtype)dtype, 7, skews, 1, 1);
			for (int i = 0; i < 4; i++)
				scale_once(&o, (enum bb_dtype)dtype, MOST - 1, skews, 1,
					   divisors[i]);
		}
	operands_close(&o);
}

/* Every float of 16 and 8 bits through the conversions and back. */
static void test_conversions(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_HALF, BB_BFLOAT16, BB_F8E4M3, BB_F8E5M2};
	uint16_t *in = malloc(65536 * 2), *out = malloc(65536 * 2);

	assert_true(in && out);
	for (int d = 0; d < 4; d++) {
		const size_t size = bb_dtype_size(dtypes[d]), n = size == 2 ? 65536 : 256;

		for (size_t i = 0; i < n; i++)
			memcpy((char *)in + i * size, &i, size);
		finish(bb_gpu_scale(lane, dtypes[d], out, in, n, 1, 1));
		for (size_t i = 0; i < n; i++) {
			const char *got = (char *)out + i * size, *given = (char *)in + i * size;
			const double value = bb_scalar_decode(dtypes[d], given);

			if (value == value && memcmp(got, given, size) != 0)
				fail_msg("%s %zx comes back as another", bb_dtype_name(dtypes[d]),
					 i);
		}
	}
	free(in);
	free(out);
}

/* ---- patterns
 * ------------------------------------------------------------------------------------ */

struct patterned {
	char *table; /* with its margins */
	struct bb_pattern host;
	struct bb_gpu_pattern device;
	char *memory, *expected;
};

static void patterned_open(struct patterned *p, size_t size)
{
	const size_t bytes = 2 * PERIOD * size;

	p->table = malloc(bytes + 2 * BB_GPU_TABLE_MARGIN);
	p->memory = aligned_alloc(64, LONG * size + 192);
	p->expected = malloc(LONG * size + 192);
	assert_true(p->table && p->memory && p->expected);
	for (size_t i = 0; i < PERIOD * size; i++)
		p->table[BB_GPU_TABLE_MARGIN + i] =
			p->table[BB_GPU_TABLE_MARGIN + PERIOD * size + i] = (char)draw(i + size);
	p->host = (struct bb_pattern){.table = p->table + BB_GPU_TABLE_MARGIN,
				      .period = PERIOD,
				      .element_size = size,
				      .seed = draw(size)};
	p->device = (struct bb_gpu_pattern){.table = p->host.table,
					    .period = PERIOD,
					    .element_size = (uint32_t)size,
					    .seed = p->host.seed};
}

static void patterned_close(struct patterned *p)
{
	free(p->table);
	free(p->memory);
	free(p->expected);
}

static void test_fill(void **state)
{
	static const size_t firsts[] = {0, 1, 1020, 1021, 5000000001};
	static const size_t counts[] = {0, 1, 3, 16, 1021, LONG};

	for (size_t size = 1; size <= 8; size *= 2) {
		struct patterned p;

		patterned_open(&p, size);
		for (size_t i = 0; i < 5 * 6 * 4; i++) {
			const size_t first = firsts[i % 5], count = counts[i / 5 % 6];
			const size_t at = 32 + i / 30 * 3 * size;

			memset(p.memory, GUARD, LONG * size + 192);
			memset(p.expected, GUARD, LONG * size + 192);
			bb_cpu_fill(p.expected + at, &p.host, first, count);
			finish(bb_gpu_fill(lane, p.memory + at, &p.device, first, count));
			if (memcmp(p.memory, p.expected, LONG * size + 128) != 0)
				fail_msg("elements of %zu bytes: %zu from %zu at %zu", size, count,
					 first, at);
		}
		patterned_close(&p);
	}
}

static uint64_t wrong_ones(const struct patterned *p, size_t at, size_t first, size_t count,
			   enum bb_dtype dtype, int ulps)
{
	unsigned long long wrong = 5;

	finish(bb_gpu_verify(lane, p->memory + at, &p->device, first, count, dtype, ulps, &wrong));
	return wrong - 5;
}

/* One element changed at a time, in bytes and in units in the last place. */
static void test_verify(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_INT8,   BB_HALF,   BB_FLOAT,
					       BB_UINT64, BB_F8E4M3, BB_BFLOAT16,
					       BB_DOUBLE, BB_INT32,  BB_FLOAT_INT};

	for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
		const size_t size = bb_dtype_size(dtypes[d]), at = 32 + 3 * size;
		struct patterned p;

		patterned_open(&p, size);
		bb_cpu_fill(p.memory + at, &p.host, 100, LONG);
		assert_int_equal(wrong_ones(&p, at, 100, LONG, dtypes[d], 0), 0);
		assert_int_equal(wrong_ones(&p, at, 101, LONG, dtypes[d], 0),
				 bb_cpu_verify(p.memory + at, &p.host, 101, LONG, dtypes[d], 0));
		assert_int_equal(wrong_ones(&p, at, 100, 0, dtypes[d], 0), 0);
		for (size_t i = 0; i < LONG; i += i < 40 ? 1 : 4999) {
			char *const byte = p.memory + at + i * size + i % size;

			*byte ^= 0x10;
			assert_int_equal(wrong_ones(&p, at, 100, LONG, dtypes[d], 0), 1);
			*byte ^= 0x10;
		}
		/* As many ulps apart as the scalar oracle says. */
		for (size_t i = 0; i < 2000; i++)
			p.memory[at + i * size] += (char)(i % 5);
		for (int ulps = 0; ulps < 5; ulps++)
			assert_int_equal(
				wrong_ones(&p, at, 100, LONG, dtypes[d], ulps),
				bb_cpu_verify(p.memory + at, &p.host, 100, LONG, dtypes[d], ulps));
		patterned_close(&p);
	}
}

/* Around zero the two signs are neighbours; what is no number is near nothing. */
static void test_neighbours(void **state)
{
	static const struct {
		uint16_t got, expected;
		int apart; /* 100: more than can be asked for */
	} pairs[] = {{0x8000, 0x0000, 1},   {0x8001, 0x0000, 2}, {0x8000, 0x0001, 2},
		     {0x3c00, 0x3c03, 3},   {0x7c00, 0x7bff, 1}, {0x7c01, 0x7c00, 100},
		     {0x7c00, 0x7c01, 100}, {0xfc00, 0xfbff, 1}, {0xbc02, 0xbc00, 2}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct patterned p;

		patterned_open(&p, 2);
		for (int k = 0; k < 2 * PERIOD; k++)
			memcpy(p.table + BB_GPU_TABLE_MARGIN + 2 * k, &pairs[i].expected, 2);
		bb_cpu_fill(p.memory, &p.host, 0, 100);
		memcpy(p.memory + 2 * 50, &pairs[i].got, 2);
		for (int ulps = 0; ulps < 4; ulps++)
			assert_int_equal(wrong_ones(&p, 0, 0, 100, BB_HALF, ulps),
					 ulps < pairs[i].apart);
		patterned_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reduce),     cmocka_unit_test(test_reduce_refuses),
		cmocka_unit_test(test_scale),      cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_fill),       cmocka_unit_test(test_verify),
		cmocka_unit_test(test_neighbours),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
