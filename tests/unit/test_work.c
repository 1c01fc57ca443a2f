/*
 * What is done with memory to see how fast it is.
 */
#include "backends/cpu/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES ((size_t)1 << 20)

struct arrays {
	double *a, *b, *c;
};

static struct arrays open_arrays(void)
{
	struct arrays s;

	assert_int_equal(bb_cpu_alloc(NULL, BYTES + BB_WORK_ALIGNMENT, (void **)&s.a), BB_OK);
	assert_int_equal(bb_cpu_alloc(NULL, BYTES, (void **)&s.b), BB_OK);
	assert_int_equal(bb_cpu_alloc(NULL, BYTES, (void **)&s.c), BB_OK);
	for (size_t i = 0; i < BYTES / sizeof(double); i++) {
		s.a[i] = -1;
		s.b[i] = (double)i;
		s.c[i] = 3 * (double)i;
	}
	memset(s.a + BYTES / sizeof(double), 0x77, BB_WORK_ALIGNMENT);
	return s;
}

static void close_arrays(struct arrays *s)
{
	const char *const behind = (char *)s->a + BYTES;

	for (int i = 0; i < BB_WORK_ALIGNMENT; i++)
		assert_int_equal(behind[i], 0x77);
	bb_cpu_release(NULL, s->a, BYTES + BB_WORK_ALIGNMENT);
	bb_cpu_release(NULL, s->b, BYTES);
	bb_cpu_release(NULL, s->c, BYTES);
}

/* All of A is FACTOR times B in the first BYTES, untouched behind. */
static void expect(const struct arrays *s, size_t bytes, double factor)
{
	for (size_t i = 0; i < BYTES / sizeof(double); i++) {
		const bool done = i < bytes / sizeof(double);

		if (s->a[i] != (done ? factor * (double)i : -1))
			fail_msg("element %zu is %g", i, s->a[i]);
	}
}

static void work(struct bb_cpu_context *cpu, enum bb_memory_work what, void *a, const void *b,
		 const void *c, size_t bytes)
{
	struct bb_cpu_rank rank = {cpu, 0};

	assert_int_equal(bb_cpu_spaces.work((struct bb_rank *)&rank, NULL, what, a, b, c, bytes),
			 BB_OK);
}

static void test_bandwidth(void **state)
{
	static const char *const isas[] = {"plain", "avx2", "avx512"};
	static const size_t sizes[] = {BB_WORK_ALIGNMENT, 48 * 1024 + BB_WORK_ALIGNMENT, BYTES};

	for (size_t k = 0; k < 9; k++) {
		struct bb_cpu_context cpu = {.kernels = bb_kernels_named(isas[k / 3])};
		const size_t bytes = sizes[k % 3];
		struct arrays s;

		if (!cpu.kernels)
			continue;
		s = open_arrays();
		work(&cpu, BB_WORK_READ, s.a, NULL, NULL, bytes);
		expect(&s, 0, 0);
		work(&cpu, BB_WORK_COPY, s.a, s.b, NULL, bytes);
		expect(&s, bytes, 1);
		work(&cpu, BB_WORK_TRIAD, s.a, s.b, s.c, bytes);
		expect(&s, bytes, 7);
		work(&cpu, BB_WORK_WRITE, s.a, NULL, NULL, bytes);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(((char *)s.a)[i], 1);
		assert_true(bytes == BYTES || s.a[bytes / sizeof(double)] == -1);
		close_arrays(&s);
	}
}

/* The way comes by every stop once before it is back. */
static void test_chase(void **state)
{
	const size_t stops = BYTES / BB_CHASE_STRIDE;
	char *const seen = calloc(stops, 1);
	struct arrays s = open_arrays();
	char *at = (char *)s.b;
	size_t steps = 0, near = 0;

	assert_int_equal(bb_cpu_spaces.chase_lay(NULL, s.b, BYTES, 42), BB_OK);
	do {
		char *const next = *(char **)at;
		const size_t stop = (size_t)(next - (char *)s.b) / BB_CHASE_STRIDE;

		assert_true(next >= (char *)s.b && next < (char *)s.b + BYTES && !seen[stop]);
		near += labs(next - at) <= 4 * BB_CHASE_STRIDE;
		seen[stop] = 1;
		at = next;
		steps++;
	} while (at != (char *)s.b);
	assert_int_equal(steps, stops);
	assert_true(near < stops / 100);
	assert_int_equal(bb_cpu_spaces.chase(NULL, s.b, 2 * stops), BB_OK);
	free(seen);
	close_arrays(&s);
}

static void test_spaces(void **state)
{
	struct bb_error error = {0};
	const struct bb_world world = {.nranks = 1, .nprocs = 1, .nlocal = 1};
	const struct bb_backend_config config = {.link_rate = 0};
	struct bb_cpu_context cpu = {.machine = NULL};
	struct bb_context *const context = (struct bb_context *)&cpu;
	struct bb_rank *const rank = (struct bb_rank *)&(struct bb_cpu_rank){&cpu, 0};
	char name[BB_SPACE_TEXT];

	assert_int_equal(bb_cpu_open(&cpu, &world, &config, &error), BB_OK);
	assert_true(bb_cpu_spaces.count(context) >= 1);
	for (int space = 0; space < bb_cpu_spaces.count(context); space++) {
		void *memory;

		bb_cpu_spaces.name(context, space, name);
		assert_memory_equal(name, "node ", 5);
		assert_int_equal(bb_cpu_spaces.alloc(rank, space, BYTES, &memory, &error), BB_OK);
		memset(memory, 1, BYTES);
		bb_cpu_spaces.release(rank, space, memory, BYTES);
	}
	bb_cpu_close(&cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bandwidth),
		cmocka_unit_test(test_chase),
		cmocka_unit_test(test_spaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
