/*
 * What the nccl backend does without NCCL: work on memory, patterns in it, and groups of ranks that
 * reach each other's.
 */
#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/library.h"
#include "backends/messages.h"
#include "backends/routes.h"
#include "backends/spaces.h"
#include "gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- memory, worked on ---------------------------------------------------------------- */

/* COUNT doubles at MEMORY are filled, found right, and one of them found wrong. */
static bool is_filled(struct one *me, double *memory, size_t count)
{
	enum { PERIOD = 17 };
	double table[2 * PERIOD], wrong_one = -1;
	const struct bb_pattern p = {table, PERIOD, sizeof(double), 5};
	const struct bb_backend *const b = me->backend;
	uint64_t wrong = 0;

	for (int i = 0; i < 2 * PERIOD; i++)
		table[i] = i % PERIOD;
	return b->fill(me->handle, memory, &p, 0, count) == BB_OK &&
	       b->verify(me->handle, memory, &p, 0, count, BB_DOUBLE, 0, &wrong) == BB_OK &&
	       wrong == 0 &&
	       b->copy(me->handle, &memory[count / 2], &wrong_one, sizeof(double)) == BB_OK &&
	       b->verify(me->handle, memory, &p, 0, count, BB_DOUBLE, 0, &wrong) == BB_OK &&
	       wrong == 1;
}

static const struct bb_backend_config optional = {.library_optional = true};

static void work_on_memory(struct one *me, void *argument)
{
	enum { REACHED = 2, SPACES, BYTES = 64 * 1024, DOUBLES = BYTES / 8 };
	static const char *const names[SPACES] = {"device", "host", "pageable"};
	const struct bb_backend *const b = me->backend;
	double *const here = malloc(BYTES), *arrays[SPACES][3];
	struct bb_error error = {0};
	struct bb_queue *queue;
	char name[BB_SPACE_TEXT];

	CHECK(me, b->spaces->count(me->context) == SPACES);
	CHECK(me, b->queue_open(me->handle, &queue, &error) == BB_OK);
	for (int space = 0; space < SPACES; space++) {
		b->spaces->name(me->context, space, name);
		CHECK(me, strcmp(name, names[space]) == 0);
		for (int k = 0; k < 3; k++)
			CHECK(me, b->spaces->alloc(me->handle, space, BYTES,
						   (void **)&arrays[space][k], &error) == BB_OK);
	}
	for (int i = 0; i < DOUBLES; i++)
		here[i] = i;
	for (int k = 1; k < 3; k++)
		CHECK(me, b->copy(me->handle, arrays[0][k], here, BYTES) == BB_OK);
	CHECK(me, b->spaces->work(me->handle, NULL, BB_WORK_READ, arrays[0][1], NULL, NULL,
				  BYTES) == BB_OK);
	CHECK(me, b->spaces->work(me->handle, NULL, BB_WORK_TRIAD, arrays[0][0], arrays[0][1],
				  arrays[0][2], BYTES) == BB_OK);
	/* From one space to the other, in a queue's order. */
	CHECK(me, b->finish(me->handle, NULL) == BB_OK);
	CHECK(me, b->spaces->work(me->handle, queue, BB_WORK_COPY, arrays[1][0], arrays[0][0], NULL,
				  BYTES) == BB_OK);
	CHECK(me, b->finish(me->handle, queue) == BB_OK);
	for (int i = 0; i < DOUBLES; i++)
		CHECK(me, arrays[1][0][i] == 3 * i);
	/* To memory that no kernel may reach, and back to where there was something else. */
	CHECK(me, b->spaces->work(me->handle, queue, BB_WORK_COPY, arrays[2][0], arrays[0][0], NULL,
				  BYTES) == BB_OK);
	CHECK(me, b->spaces->work(me->handle, queue, BB_WORK_COPY, arrays[0][2], arrays[2][0], NULL,
				  BYTES) == BB_OK);
	CHECK(me, b->finish(me->handle, queue) == BB_OK);
	CHECK(me, b->copy(me->handle, here, arrays[0][2], BYTES) == BB_OK);
	CHECK(me, memcmp(here, arrays[1][0], BYTES) == 0);
	for (int space = 0; space < SPACES; space++)
		CHECK(me, is_filled(me, arrays[space][1], DOUBLES));
	CHECK(me, b->spaces->work(me->handle, NULL, BB_WORK_WRITE, arrays[0][0], NULL, NULL,
				  BYTES) == BB_OK);
	CHECK(me, b->copy(me->handle, here, arrays[0][0], BYTES) == BB_OK);
	CHECK(me, memcmp(here, here + 1, BYTES - 8) == 0);
	for (int space = 0; space < REACHED; space++) {
		CHECK(me, b->spaces->chase_lay(me->handle, arrays[space][0], BYTES, 7) == BB_OK);
		CHECK(me, b->spaces->chase(me->handle, arrays[space][0], 1000) == BB_OK);
	}
	CHECK(me, b->finish(me->handle, NULL) == BB_OK);
	for (int k = 0; k < SPACES * 3; k++)
		b->spaces->release(me->handle, k / 3, arrays[k / 3][k % 3], BYTES);
	b->queue_close(queue);
	free(here);
}

static void test_works(void **state)
{
	on_gpus(gpus_here(2), &optional, work_on_memory, NULL);
}

/* ---- patterns
 * ---------------------------------------------------------------------------------- */

static void use_patterns(struct one *me, void *argument)
{
	enum { PERIOD = 1021, LENGTH = 5000 };
	uint16_t *table = malloc(2 * PERIOD * sizeof(*table)), *memory, one;
	struct bb_pattern p = {table, PERIOD, sizeof(*table), 77 + (uint64_t)me->rank};
	uint64_t wrong = 1;

	for (int i = 0; i < PERIOD; i++)
		table[i] = table[PERIOD + i] = (uint16_t)(i * 31 + me->rank);
	CHECK(me, me->backend->alloc(me->handle, LENGTH * 2, (void **)&memory) == BB_OK);
	CHECK(me, ((uintptr_t)memory & 4095) == 0);
	CHECK(me, me->backend->fill(me->handle, memory, &p, 3, LENGTH) == BB_OK);
	CHECK(me,
	      me->backend->verify(me->handle, memory, &p, 3, LENGTH, BB_HALF, 0, &wrong) == BB_OK);
	CHECK(me, wrong == 1);
	CHECK(me, me->backend->copy(me->handle, &one, &memory[999], 2) == BB_OK);
	one ^= 1;
	CHECK(me, me->backend->copy(me->handle, &memory[999], &one, 2) == BB_OK);
	CHECK(me,
	      me->backend->verify(me->handle, memory, &p, 3, LENGTH, BB_HALF, 0, &wrong) == BB_OK);
	CHECK(me, wrong == 2);
	p.period = 5;
	CHECK(me, me->backend->fill(me->handle, memory, &p, 0, 10) == BB_EINTERNAL);
	me->backend->release(me->handle, memory, LENGTH * 2);
	free(table);
}

static void test_patterns(void **state)
{
	on_gpus(gpus_here(2), &optional, use_patterns, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_works),
					   cmocka_unit_test(test_patterns)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
