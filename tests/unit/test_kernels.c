/*
 * Every reduction of every instruction set that this machine runs, against the plain arithmetic of
 * scalar.c, bit for bit, on inputs whose partial sums are exact.
 */
#include "backends/cpu/kernels.h"
#include "core/scalar.h"
#include "harness/run/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD 64  /* bytes before and behind what a kernel may write */
#define MOST 1030 /* elements of the longest call */
#define GUARDED(size) (2 * GUARD + (MOST + 8) * (size))
#define RANKS BB_KERNEL_STREAMS
#define POISON 0xa5

static const char *const isas[] = {"plain", "avx2", "avx512"};

/* One call: where it starts, how many elements, how many streams. */
struct shape {
	enum bb_dtype dtype;
	enum bb_op op;
	int nsrc, ndst;
	size_t count;
	size_t skew;  /* elements by which stream k is off by k * skew */
	int in_place; /* the source that the first destination is; -1: none */
	bool stream;
};

struct buffers {
	struct bb_patterns *patterns;
	char *src[RANKS];
	char *dst[3];
	char expected[(MOST + 8) * 8];
};

static size_t offset_of(const struct shape *s, int k)
{
	return GUARD + (size_t)k * s->skew % 8 * bb_dtype_size(s->dtype);
}

static const char *table_of(const struct buffers *b, int rank)
{
	return bb_patterns_get(b->patterns, rank).table;
}

/* What the reduction of the first NSRC tables is, one element at a time. */
static void expect(struct buffers *b, const struct shape *s)
{
	const size_t size = bb_dtype_size(s->dtype);
	uint64_t operand;

	for (size_t i = 0; i < s->count; i++) {
		char *const e = b->expected + i * size;

		for (int k = 0; k < s->nsrc; k++) {
			memcpy(&operand, table_of(b, k) + i * size, size);
			if (s->op == BB_MULSUM)
				bb_scalar_scale(s->dtype, &operand, bb_mulsum_weight(k));
			if (k == 0)
				memcpy(e, &operand, size);
			else
				bb_scalar_reduce(s->dtype, s->op, e, &operand);
		}
		if (s->op == BB_AVG)
			bb_scalar_divide(s->dtype, e, s->nsrc);
	}
}

static void prepare(struct buffers *b, const struct shape *s, const void **src, void **dst)
{
	const size_t size = bb_dtype_size(s->dtype);

	for (int k = 0; k < s->nsrc; k++) {
		src[k] = b->src[k] + offset_of(s, k);
		memset(b->src[k], POISON, GUARDED(size));
		memcpy(b->src[k] + offset_of(s, k), table_of(b, k), s->count * size);
	}
	for (int d = 0; d < s->ndst; d++) {
		dst[d] = b->dst[d] + offset_of(s, d + 1);
		memset(b->dst[d], POISON, GUARDED(size));
	}
	if (s->in_place >= 0)
		dst[0] = b->src[s->in_place] + offset_of(s, s->in_place);
}

static void check_guards(const struct shape *s, const char *dst)
{
	const size_t size = bb_dtype_size(s->dtype);

	for (size_t i = 1; i <= 32; i++) {
		if ((uint8_t)dst[-(ptrdiff_t)i] != POISON)
			fail_msg("%s %s: wrote %zu bytes before the destination",
				 bb_dtype_name(s->dtype), bb_op_name(s->op), i);
		if ((uint8_t)dst[s->count * size + i - 1] != POISON)
			fail_msg("%s %s: wrote %zu bytes behind the destination",
				 bb_dtype_name(s->dtype), bb_op_name(s->op), i);
	}
}

static void run(const struct bb_kernels *kernels, struct buffers *b, const struct shape *s)
{
	const size_t size = bb_dtype_size(s->dtype);
	uint8_t weight[RANKS];
	const void *src[RANKS];
	void *dst[3];
	const struct bb_reduce_args args = {
		.stream = s->stream, .divisor = s->nsrc, .weight = weight};

	for (int k = 0; k < RANKS; k++)
		weight[k] = (uint8_t)bb_mulsum_weight(k);
	prepare(b, s, src, dst);
	kernels->reduce[s->dtype][s->op](dst, s->ndst, src, s->nsrc, s->count, &args);
	for (int d = 0; d < s->ndst; d++) {
		if (memcmp(dst[d], b->expected, s->count * size) != 0)
			fail_msg("%s %s %s: %d sources, destination %d of %d, %zu elements, "
				 "skew %zu, in place %d, stream %d",
				 kernels->isa, bb_dtype_name(s->dtype), bb_op_name(s->op), s->nsrc,
				 d, s->ndst, s->count, s->skew, s->in_place, s->stream);
		check_guards(s, dst[d]);
	}
}

/* All sizes up to a few vectors, and two that need every loop, in varying positions. */
static void run_counts(const struct bb_kernels *kernels, struct buffers *b, struct shape s)
{
	static const size_t longer[] = {127, 129, 255, 257, 300, 1000, 1021};
	const size_t nlonger = sizeof(longer) / sizeof(longer[0]);
	const int wide = s.nsrc > 5;
	unsigned turn = (unsigned)(s.nsrc * 7 + s.ndst);

	s.count = 1021;
	expect(b, &s);
	for (size_t i = 0; i < 71 + nlonger; i += wide ? 9 : 1, turn++) {
		s.count = i < 71 ? i : longer[i - 71];
		s.skew = turn % 3 * (turn % 5);
		s.stream = turn % 2;
		s.in_place = turn % 4 == 0 ? (int)(turn / 4) % s.nsrc : -1;
		run(kernels, b, &s);
		s.stream = !s.stream;
		s.skew = 0;
		run(kernels, b, &s);
	}
}

static void run_op(struct buffers *b, enum bb_dtype dtype, enum bb_op op)
{
	static const int sources[] = {1, 2, 3, 4, 5, 64};

	assert_int_equal(bb_patterns_make(&b->patterns, dtype, op, RANKS, 7), BB_OK);
	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		const struct bb_kernels *const kernels = bb_kernels_named(isas[i]);

		if (!kernels)
			continue;
		assert_non_null(kernels->reduce[dtype][op]);
		for (size_t k = 0; k < sizeof(sources) / sizeof(sources[0]); k++) {
			for (int ndst = 1; ndst <= 3; ndst++)
				run_counts(kernels, b,
					   (struct shape){.dtype = dtype,
							  .op = op,
							  .nsrc = sources[k],
							  .ndst = ndst});
		}
	}
	bb_patterns_free(b->patterns);
}

static void open_buffers(struct buffers *b)
{
	for (int k = 0; k < RANKS; k++)
		assert_non_null(b->src[k] = aligned_alloc(64, (GUARDED(8) + 63) / 64 * 64));
	for (int d = 0; d < 3; d++)
		assert_non_null(b->dst[d] = aligned_alloc(64, (GUARDED(8) + 63) / 64 * 64));
}

static void close_buffers(struct buffers *b)
{
	for (int k = 0; k < RANKS; k++)
		free(b->src[k]);
	for (int d = 0; d < 3; d++)
		free(b->dst[d]);
}

static void matches_plain_arithmetic(void **state)
{
	struct buffers b;

	open_buffers(&b);
	for (int dtype = 0; dtype < BB_NDTYPES; dtype++) {
		for (int op = 0; op < BB_NOPS; op++) {
			if (bb_op_accepts((enum bb_op)op, (enum bb_dtype)dtype))
				run_op(&b, (enum bb_dtype)dtype, (enum bb_op)op);
			else
				assert_null(bb_kernels_named("plain")->reduce[dtype][op]);
		}
	}
	close_buffers(&b);
}

/* Decoding and encoding go through a kernel of one source: all encodings, also the odd ones. */
static void keeps_every_encoding(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_HALF, BB_BFLOAT16, BB_F8E4M3, BB_F8E5M2};
	static uint16_t in[65536], out[65536];
	const struct bb_reduce_args args = {.stream = false};
	const void *const src = in;
	void *const dst = out;

	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		const struct bb_kernels *const kernels = bb_kernels_named(isas[i]);

		for (size_t t = 0; kernels && t < sizeof(dtypes) / sizeof(dtypes[0]); t++) {
			const size_t size = bb_dtype_size(dtypes[t]);

			for (size_t k = 0; k < 65536; k++)
				in[k] = (uint16_t)(size == 2 ? k : (k * 257) & 0xffff);
			kernels->reduce[dtypes[t]][BB_SUM](&dst, 1, &src, 1, sizeof(in) / size,
							   &args);
			for (size_t k = 0; k < sizeof(in) / size; k++) {
				const char *const x = (const char *)in + k * size;
				const char *const y = (const char *)out + k * size;
				const double value = bb_scalar_decode(dtypes[t], x);

				if (value != value) {
					const double kept = bb_scalar_decode(dtypes[t], y);

					assert_true(kept != kept);
				} else {
					assert_memory_equal(x, y, size);
				}
			}
		}
	}
}

/* Products of two random encodings round, overflow and underflow in every way there is. */
static void rounds_as_plain_arithmetic_does(void **state)
{
	static const enum bb_dtype dtypes[] = {BB_HALF, BB_BFLOAT16, BB_F8E4M3, BB_F8E5M2};
	enum { N = 20000 };
	static uint16_t a[N], b[N], out[N];
	const struct bb_reduce_args args = {.stream = false};
	const void *const src[] = {a, b};
	void *const dst = out;
	uint64_t random = 1;

	for (size_t k = 0; k < N; k++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		a[k] = (uint16_t)(random >> 33);
		b[k] = (uint16_t)(random >> 48);
	}
	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		const struct bb_kernels *const kernels = bb_kernels_named(isas[i]);

		for (size_t t = 0; kernels && t < 2 * sizeof(dtypes) / sizeof(dtypes[0]); t++) {
			const enum bb_dtype dtype = dtypes[t / 2];
			const enum bb_op op = t % 2 ? BB_PROD : BB_SUM;
			const size_t size = bb_dtype_size(dtype);

			kernels->reduce[dtype][op](&dst, 1, src, 2, N, &args);
			for (size_t k = 0; k < N; k++) {
				const char *const got = (const char *)out + k * size;
				uint16_t want = 0;

				memcpy(&want, (const char *)a + k * size, size);
				bb_scalar_reduce(dtype, op, &want, (const char *)b + k * size);
				const double x = bb_scalar_decode(dtype, &want);
				const double y = bb_scalar_decode(dtype, got);

				if ((x == x || y == y) && memcmp(&want, got, size) != 0)
					fail_msg("%s %s %s: %g, not %g", kernels->isa,
						 bb_dtype_name(dtype), bb_op_name(op), y, x);
			}
		}
	}
}

/* Averages of whole numbers go towards zero, also by divisors that do not fit into the type. */
static void divides_towards_zero(void **state)
{
	static const int8_t in[] = {-128, -127, -7, -1, 0, 1, 7, 127};
	static const uint8_t un[] = {255, 254, 3, 2, 1, 0, 128, 129};
	int8_t out[8];
	uint8_t uout[8];
	const void *src;
	void *dst;

	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		const struct bb_kernels *const kernels = bb_kernels_named(isas[i]);

		for (int divisor = 0; kernels && divisor < 600; divisor += divisor < 10 ? 1 : 59) {
			const struct bb_reduce_args args = {.divisor = divisor};
			const int by = divisor ? divisor : 1;

			src = in;
			dst = out;
			kernels->reduce[BB_INT8][BB_AVG](&dst, 1, &src, 1, 8, &args);
			src = un;
			dst = uout;
			kernels->reduce[BB_UINT8][BB_AVG](&dst, 1, &src, 1, 8, &args);
			for (int k = 0; k < 8; k++) {
				assert_int_equal(out[k], in[k] / by);
				assert_int_equal(uout[k], un[k] / by);
			}
		}
	}
}

/* A factor of 1 for all where there are no weights. */
static void weighs_nothing_without_weights(void **state)
{
	const struct bb_kernels *const kernels = bb_kernels_select();
	const float a[] = {1, 2, 3}, b[] = {10, 20, 30};
	const struct bb_reduce_args args = {.divisor = 2};
	const void *const src[] = {a, b};
	float out[3];
	void *const dst = out;

	kernels->reduce[BB_FLOAT][BB_MULSUM](&dst, 1, src, 2, 3, &args);
	assert_true(out[0] == 11 && out[1] == 22 && out[2] == 33);
}

static void check_copy(const struct bb_kernels *kernels, int ndst, size_t bytes, size_t skew,
		       bool stream)
{
	enum { SIZE = 4096 + 256 };
	_Alignas(64) static char from[SIZE];
	_Alignas(64) static char to[3][SIZE];
	void *dst[3] = {NULL};

	for (size_t i = 0; i < SIZE; i++)
		from[i] = (char)(i * 131 >> 3);
	for (int d = 0; d < ndst; d++) {
		memset(to[d], POISON, SIZE);
		dst[d] = to[d] + 64 + (size_t)d * skew;
	}
	kernels->copy(dst, ndst, from + skew, bytes, stream);
	for (int d = 0; d < ndst; d++) {
		const char *const at = dst[d];

		assert_memory_equal(at, from + skew, bytes);
		assert_int_equal((uint8_t)at[-1], POISON);
		assert_int_equal((uint8_t)at[bytes], POISON);
	}
}

static void copies(void **state)
{
	for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
		const struct bb_kernels *const kernels = bb_kernels_named(isas[i]);

		for (size_t bytes = 0; kernels && bytes <= 4096; bytes += bytes < 300 ? 1 : 233) {
			for (int ndst = 1; ndst <= 3; ndst++) {
				check_copy(kernels, ndst, bytes, bytes % 5, bytes % 2);
				check_copy(kernels, ndst, bytes, 0, true);
			}
		}
	}
}

static void copies_onto_itself(void **state)
{
	char data[100], kept[100];
	void *const dst[] = {data, kept};

	memset(data, 3, sizeof(data));
	memset(kept, 4, sizeof(kept));
	bb_kernels_select()->copy(dst, 1, data, sizeof(data), false);
	bb_kernels_select()->copy(dst, 2, data, sizeof(data), false);
	assert_memory_equal(data, kept, sizeof(data));
	assert_int_equal(data[99], 3);
}

static void listens_to_the_environment(void **state)
{
	const struct bb_kernels *const best = bb_kernels_select();

	assert_int_equal(setenv("BUSBENCH_ISA", "plain", 1), 0);
	assert_string_equal(bb_kernels_select()->isa, "plain");
	assert_int_equal(setenv("BUSBENCH_ISA", "mmx", 1), 0);
	assert_null(bb_kernels_select());
	assert_int_equal(unsetenv("BUSBENCH_ISA"), 0);
	assert_ptr_equal(bb_kernels_select(), best);
	assert_null(bb_kernels_named("mmx"));
	assert_non_null(bb_kernels_named("plain"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_plain_arithmetic),
		cmocka_unit_test(keeps_every_encoding),
		cmocka_unit_test(rounds_as_plain_arithmetic_does),
		cmocka_unit_test(divides_towards_zero),
		cmocka_unit_test(weighs_nothing_without_weights),
		cmocka_unit_test(copies),
		cmocka_unit_test(copies_onto_itself),
		cmocka_unit_test(listens_to_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
