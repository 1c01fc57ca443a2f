/*
 * What a GPU of the nccl backend does beside collectives: messages, and stand-ins for computations.
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
		for (int half = 0; half < 2; half++) {
			const struct bb_message m = {.kind = half == me->rank % 2 ? BB_MESSAGE_SEND
										  : BB_MESSAGE_RECV,
						     .group = me->world,
						     .to = &peer,
						     .from = peer,
						     .out = out,
						     .in = in,
						     .bytes = 4};

			CHECK(me, me->backend->messages->pass(queue, &m) == BB_OK);
		}
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
	if (gpus_count() < 2)
		skip();
	on_gpus(gpus_here(N), NULL, exchange, NULL);
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

	gpus_open(&g, gpus_here(N), NULL);
	failures = ranks_run(&g.ranks, spin_for_long, NULL);
	gpus_close_abandoned(&g);
	assert_int_equal(failures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages),
					   cmocka_unit_test(test_spin_ends)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
