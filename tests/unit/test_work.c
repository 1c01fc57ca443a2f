/*
 * What is done with memory to see how fast it is.
 */
#include "backends/cpu/memory.h"
#include "backends/cpu/work.h"

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

	assert_int_equal(bb_cpu_alloc(BYTES + BB_WORK_ALIGNMENT, (void **)&s.a), BB_OK);
	assert_int_equal(bb_cpu_alloc(BYTES, (void **)&s.b), BB_OK);
	assert_int_equal(bb_cpu_alloc(BYTES, (void **)&s.c), BB_OK);
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
	bb_cpu_release(s->a, BYTES + BB_WORK_ALIGNMENT);
	bb_cpu_release(s->b, BYTES);
	bb_cpu_release(s->c, BYTES);
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

static void test_bandwidth(void **state)
{
	static const char *const isas[] = {"plain", "avx2", "avx512"};
	static const size_t sizes[] = {BB_WORK_ALIGNMENT, 48 * 1024 + BB_WORK_ALIGNMENT, BYTES};

	for (size_t k = 0; k < 9; k++) {
		const struct bb_kernels *const kernels = bb_kernels_named(isas[k / 3]);
		const size_t bytes = sizes[k % 3];
		struct arrays s;

		if (!kernels)
			continue;
		s = open_arrays();
		bb_cpu_work(kernels, BB_WORK_READ, s.a, NULL, NULL, bytes);
		expect(&s, 0, 0);
		bb_cpu_work(kernels, BB_WORK_COPY, s.a, s.b, NULL, bytes);
		expect(&s, bytes, 1);
		bb_cpu_work(kernels, BB_WORK_TRIAD, s.a, s.b, s.c, bytes);
		expect(&s, bytes, 7);
		bb_cpu_work(kernels, BB_WORK_WRITE, s.a, NULL, NULL, bytes);
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

	bb_cpu_chase_lay(s.b, s.b, BYTES, 42);
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
	bb_cpu_chase(s.b, 2 * stops);
	free(seen);
	close_arrays(&s);
}

static void test_spaces(void **state)
{
	struct bb_error error = {0};
	struct bb_machine *machine;
	char name[BB_SPACE_TEXT];

	assert_int_equal(bb_machine_open(&machine, &error), BB_OK);
	assert_true(bb_cpu_spaces(machine) >= 1);
	for (int space = 0; space < bb_cpu_spaces(machine); space++) {
		void *memory;

		bb_cpu_space_name(machine, space, name);
		assert_memory_equal(name, "node ", 5);
		assert_int_equal(bb_cpu_alloc_in(machine, space, BYTES, &memory, &error), BB_OK);
		memset(memory, 1, BYTES);
		bb_cpu_release(memory, BYTES);
	}
	bb_machine_close(machine);
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
