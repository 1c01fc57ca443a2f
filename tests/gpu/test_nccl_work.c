/*
 * What a GPU of the nccl backend does beside collectives: messages, stand-ins for computations, and
 * work on memory.
 */
#include "backends/gpu.h"
#include "backends/messages.h"
#include "backends/spaces.h"
#include "fake.h"
#include "gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 4

/* ---- messages, and what stands in for computations
 * ------------------------------------------------- */

#define MESSAGES 5

/* Neighbours exchange numbers, of which one sends first; behind a kernel that takes its time. */
static void exchange(struct one *me, void *argument)
{
	struct bb_error error = {0};
	const int peer = me->rank ^ 1;
	int32_t *out, *in, numbers[2] = {0};
	struct bb_event *events[2];
	struct bb_queue *queue;
	double seconds;

	CHECK(me, me->backend->alloc(me->handle, sizeof(*out), (void **)&out) == BB_OK);
	CHECK(me, me->backend->alloc(me->handle, sizeof(*in), (void **)&in) == BB_OK);
	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	for (int i = 0; i < 2; i++)
		CHECK(me, me->backend->event_open(me->handle, &events[i], &error) == BB_OK);
	for (int k = 0; k < MESSAGES; k++) {
		numbers[0] = 100 * me->rank + k;
		CHECK(me, me->backend->copy(me->handle, out, &numbers[0], 4) == BB_OK);
		CHECK(me, me->backend->event_record(me->handle, queue, events[0]) == BB_OK);
		CHECK(me, me->backend->gpu->spin(me->handle, queue, 2e-3) == BB_OK);
		CHECK(me, me->backend->event_record(me->handle, queue, events[1]) == BB_OK);
		for (int half = 0; half < 2; half++)
			CHECK(me, (half == me->rank % 2
					   ? me->backend->messages->send(me->world, queue, &peer,
									 out, 4)
					   : me->backend->messages->recv(me->world, queue, peer, in,
									 4)) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
		CHECK(me, me->backend->gpu->elapsed(me->handle, events[0], events[1], &seconds) ==
				  BB_OK);
		CHECK(me, seconds >= 2e-3);
		CHECK(me, me->backend->copy(me->handle, &numbers[1], in, 4) == BB_OK);
		CHECK(me, numbers[1] == 100 * peer + k);
	}
	for (int i = 0; i < 2; i++)
		me->backend->event_close(events[i]);
	me->backend->queue_close(queue);
	me->backend->release(me->handle, out, sizeof(*out));
	me->backend->release(me->handle, in, sizeof(*in));
}

static void test_messages(void **state)
{
	on_gpus(N, NULL, exchange, NULL);
}

/* A kernel that would run for an hour ends when the run is abandoned. */
static void spin_for_long(struct one *me, void *argument)
{
	struct bb_error error = {0};
	struct bb_queue *queue;

	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	CHECK(me, me->backend->gpu->spin(me->handle, queue, 3600) == BB_OK);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	if (me->rank == 0)
		me->backend->abort(me->context);
	CHECK(me, me->backend->finish(me->handle, queue) == BB_ETIMEOUT);
	CHECK(me, me->backend->gpu->spin(me->handle, queue, 1) == BB_ETIMEOUT);
	me->backend->queue_close(queue);
}

static void test_spin_ends(void **state)
{
	struct gpus g;
	int failures;

	gpus_open(&g, N, NULL);
	failures = ranks_run(&g.ranks, spin_for_long, NULL);
	gpus_close_abandoned(&g);
	assert_int_equal(failures, 0);
}

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
	on_gpus(2, NULL, work_on_memory, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages),
					   cmocka_unit_test(test_spin_ends),
					   cmocka_unit_test(test_works)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
