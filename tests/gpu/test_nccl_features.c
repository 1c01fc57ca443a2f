/*
 * What the nccl backend has beside collectives: batches, graphs, queues and events, groups; and
 * what it does where NCCL lacks something.
 */
#include "backends/gpu.h"
#include "backends/graphs.h"
#include "backends/library.h"
#include "backends/messages.h"
#include "backends/routes.h"
#include "backends/spaces.h"
#include "gpus.h"
#include "sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define N 4
#define GROUPED 5 /* ranks, in two groups */

/* ---- what the library lacks ------------------------------------------------------------- */

static const char *refusal(const char *way, const struct bb_collective *collective)
{
	return way_named(way)->refuses(way_named(way), collective);
}

static void test_refused_beforehand(void **state)
{
	assert_null(refusal("ring", &bb_broadcast));
	assert_non_null(refusal("tree", &bb_broadcast));
	assert_non_null(refusal("pat", &bb_all_reduce));
	assert_null(refusal("pat", &bb_all_gather));
	assert_non_null(refusal("ring", &bb_alltoall));
	assert_non_null(refusal("auto:LL", &bb_sendrecv));
	assert_non_null(refusal("ring", &bb_hypercube));
}

/* What the library has no operation for is done by a schedule of ours, on its own choice. */
static void choose_for(struct one *me, void *argument)
{
	struct sums s;

	sums_open(me, &s);
	CHECK(me, s.call.native && !s.call.schedule);
	s.call.op = BB_BXOR;
	CHECK(me, me->backend->refuses(me->world, &s.call) != NULL);
	CHECK(me, me->backend->choose(me->world, &s.call) == BB_OK);
	CHECK(me, !s.call.native && s.call.schedule);
	s.call.collective = &bb_hypercube;
	CHECK(me, me->backend->choose(me->world, &s.call) == BB_OK);
	CHECK(me, s.call.schedule && strcmp(s.call.schedule->name, "hypercube") == 0);
	sums_close(me, &s);
}

static void test_choose(void **state)
{
	on_gpus(gpus_here(N), NULL, choose_for, NULL);
}

/* ---- batches and graphs
 * ----------------------------------------------------------------------------- */

static void issue_batches(struct one *me, void *argument)
{
	struct bb_call second;
	struct sums s;

	sums_open(me, &s);
	CHECK(me, me->backend->gpu->batch(me->handle, false) == BB_OK);
	for (int i = 0; i < 5; i++)
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->gpu->batch(me->handle, true) == BB_OK);
	CHECK(me, sums_are_of_all(me, &s));
	/* A schedule in a batch keeps its own order. */
	sums_forget(me, &s);
	second = s.call;
	second.native = NULL;
	second.schedule = bb_algorithm_find(&bb_all_reduce, "ring");
	CHECK(me, me->backend->gpu->batch(me->handle, false) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->collective(me->world, NULL, &second) == BB_OK);
	CHECK(me, me->backend->gpu->batch(me->handle, true) == BB_OK);
	CHECK(me, sums_are_of_all(me, &s));
	/* An empty one. */
	CHECK(me, me->backend->gpu->batch(me->handle, false) == BB_OK);
	CHECK(me, me->backend->gpu->batch(me->handle, true) == BB_OK);
	sums_close(me, &s);
}

static void test_batches(void **state)
{
	on_gpus(gpus_here(N), NULL, issue_batches, NULL);
}

/* Each launch adds the input once more. */
static void launch_graphs(struct one *me, void *argument)
{
	const char *const schedule = argument;
	struct bb_graph *graph = NULL;
	struct sums s;

	sums_open(me, &s);
	if (schedule) {
		s.call.native = NULL;
		s.call.schedule = bb_algorithm_find(&bb_all_reduce, schedule);
		CHECK(me, me->backend->tmp_bytes(me->world, &s.call) <= 4 * COUNT * 4);
	}
	sums_forget(me, &s);
	CHECK(me, me->backend->graphs->begin(me->handle, NULL) == BB_OK);
	for (int i = 0; i < 3; i++)
		CHECK(me, me->backend->collective(me->world, NULL, &s.call) == BB_OK);
	CHECK(me, me->backend->graphs->end(me->handle, NULL, &graph) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
	CHECK(me, !sums_are_of_all(me, &s)); /* kept, not done */
	for (int i = 0; i < 4; i++) {
		sums_forget(me, &s);
		CHECK(me, me->backend->graphs->launch(me->handle, NULL, graph) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, NULL) == BB_OK);
		CHECK(me, sums_are_of_all(me, &s));
	}
	me->backend->graphs->close(graph);
	me->backend->graphs->close(NULL);
	sums_close(me, &s);
}

static void test_graphs(void **state)
{
	char schedule[] = "ring";

	on_gpus(gpus_here(N), NULL, launch_graphs, NULL);
	on_gpus(gpus_here(N), NULL, launch_graphs, schedule);
}

/* ---- queues and events
 * -------------------------------------------------------------------------------- */

static void nap(void *argument)
{
	const struct timespec t = {.tv_nsec = 20000000};

	nanosleep(&t, NULL);
	atomic_fetch_add((atomic_int *)argument, 1);
}

static void use_queues(struct one *me, void *argument)
{
	struct bb_error error = {0};
	struct bb_event *events[2];
	struct bb_queue *queue;
	atomic_int naps = 0;
	struct sums s;
	double seconds;

	sums_open(me, &s);
	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	for (int i = 0; i < 2; i++)
		CHECK(me, me->backend->event_open(me->handle, &events[i], &error) == BB_OK);
	CHECK(me, me->backend->event_record(me->handle, queue, events[0]) == BB_OK);
	CHECK(me, me->backend->compute(me->handle, queue, nap, &naps) == BB_OK);
	CHECK(me, atomic_load(&naps) == 0);
	CHECK(me, me->backend->collective(me->world, queue, &s.call) == BB_OK);
	CHECK(me, me->backend->event_record(me->handle, queue, events[1]) == BB_OK);
	CHECK(me, me->backend->event_wait(me->handle, NULL, events[1]) == BB_OK);
	CHECK(me, sums_are_of_all(me, &s)); /* read by the main queue, after the event */
	CHECK(me, atomic_load(&naps) == 1);
	CHECK(me, me->backend->gpu->elapsed(me->handle, events[0], events[1], &seconds) == BB_OK);
	CHECK(me, seconds >= 0.02 && seconds < 10);
	CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
	CHECK(me, me->backend->compute(me->handle, queue, nap, &naps) == BB_OK);
	me->backend->queue_close(queue); /* drains */
	CHECK(me, atomic_load(&naps) == 2);
	me->backend->queue_close(NULL);
	me->backend->event_close(NULL);
	for (int i = 0; i < 2; i++)
		me->backend->event_close(events[i]);
	sums_close(me, &s);
}

static void test_queues(void **state)
{
	const struct bb_backend_config plain = {.default_stream = true};

	on_gpus(gpus_here(N), NULL, use_queues, NULL);
	on_gpus(gpus_here(N), &plain, use_queues, NULL);
}

/* ---- groups
 * --------------------------------------------------------------------------------------------- */

/* Even and odd ranks apart, in another order than in the world; both at the same time. */
static void use_groups(struct one *me, void *argument)
{
	const int even[] = {4, 0, 2}, odd[] = {3, 1};
	const int *const members = me->rank % 2 ? odd : even;
	const int n = me->rank % 2 ? 2 : 3;
	struct bb_error error = {0};
	struct bb_group *group = NULL;
	struct sums s;

	CHECK(me, me->backend->group_open(me->handle, members, n, &group, &error) == BB_OK);
	sums_open(me, &s);
	s.call.shape.nranks = n;
	for (int i = 0; i < 4; i++) {
		s.call.native = i == 2 ? way_named("tree") : NULL;
		if (i == 3)
			s.call.schedule = bb_algorithm_find(&bb_all_reduce, "ring");
		else if (i != 2)
			CHECK(me, me->backend->choose(group, &s.call) == BB_OK);
		CHECK(me, i == 0 || me->backend->gpu->ready(group, &s.call) == BB_OK);
		sums_forget(me, &s);
		CHECK(me, me->backend->collective(group, NULL, &s.call) == BB_OK);
		CHECK(me, me->backend->barrier(group) == BB_OK);
		CHECK(me, sums_are_of(me, &s, members, n));
	}
	me->backend->group_close(group);
	me->backend->group_close(NULL);
	sums_close(me, &s);
}

static void test_groups(void **state)
{
	if (gpus_count() < GROUPED)
		skip();
	on_gpus(GROUPED, NULL, use_groups, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused_beforehand),
					   cmocka_unit_test(test_choose),
					   cmocka_unit_test(test_batches),
					   cmocka_unit_test(test_graphs),
					   cmocka_unit_test(test_queues),
					   cmocka_unit_test(test_groups)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
