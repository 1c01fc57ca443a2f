/*
 * Queues and events of the host backend: order within a queue, order across queues by events,
 * collectives of a group in issue order on whatever queue, overlap, the first error, and aborts.
 */
#include "backends/backend.h"
#include "core/clock.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define COUNT 300           /* elements of a call */
#define LONG ((size_t)5000) /* too many to be copied through a desk */
#define CALLS 60

/* ---- what is computed ----------------------------------------------------------------------- */

/* A list of numbers, written by compute tasks in the order in which they run. */
struct journal {
	atomic_int length;
	int entries[4 * CALLS];
};

struct note {
	struct journal *journal;
	int number;
	int nap_us;
};

static void nap(int us)
{
	const struct timespec t = {.tv_nsec = us * 1000L};

	nanosleep(&t, NULL);
}

static void write_down(void *argument)
{
	const struct note *note = argument;

	if (note->nap_us)
		nap(note->nap_us);
	note->journal->entries[atomic_fetch_add(&note->journal->length, 1)] = note->number;
}

static void raise_flag(void *flag)
{
	atomic_store((atomic_int *)flag, 1);
}

/* Gives up after 10 s, so that a failing test ends. */
static void await_flag(void *flag)
{
	for (int i = 0; i < 50000 && !atomic_load((atomic_int *)flag); i++)
		nap(200);
}

static bool is_ordered(struct journal *journal, int n)
{
	for (int i = 0; i < n; i++)
		if (journal->entries[i] != i)
			return false;
	return atomic_load(&journal->length) == n;
}

static struct bb_queue *open_queue(struct one *me)
{
	struct bb_error error = {0};
	struct bb_queue *queue = NULL;

	CHECK(me, me->backend->queue_open(me->handle, &queue, &error) == BB_OK);
	return queue;
}

static struct bb_event *open_event(struct one *me)
{
	struct bb_error error = {0};
	struct bb_event *event = NULL;

	CHECK(me, me->backend->event_open(me->handle, &event, &error) == BB_OK);
	return event;
}

static struct bb_call sum_call(int n, const char *algorithm, int32_t *in, int32_t *out)
{
	const struct bb_algorithm *schedule = bb_algorithm_find(&bb_all_reduce, algorithm);

	return (struct bb_call){.collective = &bb_all_reduce,
				.schedule = schedule,
				.native = schedule ? NULL : bb_backend_find("host")->natives,
				.dtype = BB_INT32,
				.op = BB_SUM,
				.shape = {.nranks = n, .count = COUNT},
				.in = in,
				.out = out};
}

/* ---- one rank's order ----------------------------------------------------------------------- */

static void use_in_order(struct one *me, void *argument)
{
	struct bb_queue *queue = open_queue(me);
	struct journal journal = {0};
	struct note notes[CALLS];

	for (int i = 0; i < CALLS; i++) {
		notes[i] = (struct note){&journal, i, i % 10 == 0 ? 500 : 0};
		CHECK(me, me->backend->compute(me->handle, queue, write_down, &notes[i]) == BB_OK);
		if (i == CALLS / 2)
			CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
		CHECK(me, i != CALLS / 2 || is_ordered(&journal, i + 1));
	}
	me->backend->queue_close(queue); /* drains */
	CHECK(me, is_ordered(&journal, CALLS));
	atomic_store(&journal.length, 0);
	for (int i = 0; i < 5; i++) { /* the main queue: done when the call returns */
		CHECK(me, me->backend->compute(me->handle, NULL, write_down, &notes[i]) == BB_OK);
		CHECK(me, is_ordered(&journal, i + 1));
	}
	me->backend->queue_close(NULL);
	me->backend->event_close(NULL);
}

/* Two queues take turns by events: ever the one waits for what the other recorded. */
static void use_events(struct one *me, void *argument)
{
	struct bb_queue *queues[2] = {open_queue(me), open_queue(me)};
	struct bb_event *events[2] = {open_event(me), open_event(me)};
	struct journal journal = {0};
	struct note notes[CALLS + 1];

	for (int i = 0; i < CALLS; i++) {
		const int q = i % 2;

		notes[i] = (struct note){&journal, i, i % 7 == 0 ? 700 : 0};
		CHECK(me, me->backend->event_wait(me->handle, queues[q], events[!q]) == BB_OK);
		CHECK(me,
		      me->backend->compute(me->handle, queues[q], write_down, &notes[i]) == BB_OK);
		CHECK(me, me->backend->event_record(me->handle, queues[q], events[q]) == BB_OK);
	}
	/* The driver itself waits for the last record, and only then writes. */
	notes[CALLS] = (struct note){&journal, CALLS, 0};
	CHECK(me, me->backend->event_wait(me->handle, NULL, events[(CALLS - 1) % 2]) == BB_OK);
	CHECK(me, is_ordered(&journal, CALLS));
	/* What the main queue records is reached at once. */
	CHECK(me, me->backend->event_record(me->handle, NULL, events[0]) == BB_OK);
	CHECK(me, me->backend->event_wait(me->handle, queues[1], events[0]) == BB_OK);
	CHECK(me, me->backend->compute(me->handle, queues[1], write_down, &notes[CALLS]) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, queues[1]) == BB_OK);
	CHECK(me, is_ordered(&journal, CALLS + 1));
	for (int q = 0; q < 2; q++) {
		CHECK(me, me->backend->finish(me->handle, queues[q]) == BB_OK);
		me->backend->queue_close(queues[q]);
		me->backend->event_close(events[q]);
	}
}

static void test_order(void **state)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		ranks_host(2, crowded, use_in_order, NULL);
		ranks_host(2, crowded, use_events, NULL);
	}
}

/* ---- collectives on queues
 * ----------------------------------------------------------------------- */

/* Every rank puts the k-th call on a queue of its own choice, the main one among them. */
static void issue_anywhere(struct one *me, void *argument)
{
	struct bb_queue *queues[3] = {open_queue(me), open_queue(me), NULL};
	int32_t *in = calloc((size_t)2 * CALLS * COUNT, sizeof(*in)), *out = in + CALLS * COUNT;
	struct journal journal = {0};
	struct note note = {&journal, 0, 300};

	CHECK(me, in != NULL);
	for (int k = 0; k < CALLS; k++) {
		int32_t *mine = &in[k * COUNT];
		const struct bb_call call =
			sum_call(me->n, k % 2 ? "ring" : "direct", mine, &out[k * COUNT]);
		const int q = (k % 8 == 7) ? 2 : (k + me->rank) % 2;

		for (int i = 0; i < COUNT; i++)
			mine[i] = k * 1000 + i + me->rank;
		if ((k + me->rank) % 9 == 0)
			CHECK(me, me->backend->compute(me->handle, queues[q], write_down, &note) ==
					  BB_OK);
		CHECK(me, me->backend->collective(me->world, queues[q], &call) == BB_OK);
	}
	for (int q = 0; q < 3; q++)
		CHECK(me, me->backend->finish(me->handle, queues[q]) == BB_OK);
	for (int k = 0; k < CALLS; k++)
		for (int i = 0; i < COUNT; i++)
			CHECK(me, out[k * COUNT + i] ==
					  me->n * (k * 1000 + i) + me->n * (me->n - 1) / 2);
	me->backend->queue_close(queues[0]);
	me->backend->queue_close(queues[1]);
	free(in);
}

static void test_issue_order(void **state)
{
	ranks_host(2, false, issue_anywhere, NULL);
	ranks_host(2, true, issue_anywhere, NULL);
	ranks_host(5, true, issue_anywhere, NULL);
}

/* Queue 0 computes until a flag is raised behind queue 1's collective of another group: if one
   queue or group held up the other, the flag would never come. */
static void overlap(struct one *me, void *argument)
{
	struct bb_queue *queues[2] = {open_queue(me), open_queue(me)};
	int32_t in[COUNT], out[2][COUNT];
	const int members[] = {1, 2, 0};
	struct bb_error error = {0};
	struct bb_group *other;
	atomic_int flag = 0;

	for (int i = 0; i < COUNT; i++)
		in[i] = i;
	CHECK(me, me->backend->group_open(me->handle, members, me->n, &other, &error) == BB_OK);
	for (int k = 0; k < 10; k++) {
		const struct bb_call first = sum_call(me->n, "ring", in, out[0]);
		const struct bb_call second = sum_call(me->n, "direct", in, out[1]);

		atomic_store(&flag, 0);
		CHECK(me, me->backend->compute(me->handle, queues[0], await_flag, &flag) == BB_OK);
		CHECK(me, me->backend->collective(me->world, queues[0], &first) == BB_OK);
		CHECK(me, me->backend->collective(other, queues[1], &second) == BB_OK);
		CHECK(me, me->backend->compute(me->handle, queues[1], raise_flag, &flag) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queues[0]) == BB_OK);
		CHECK(me, atomic_load(&flag) == 1);
		CHECK(me, me->backend->finish(me->handle, queues[1]) == BB_OK);
		for (int i = 0; i < COUNT; i++)
			CHECK(me, out[0][i] == i * me->n && out[1][i] == i * me->n);
	}
	me->backend->queue_close(queues[0]);
	me->backend->queue_close(queues[1]);
	CHECK(me, me->backend->barrier(other) == BB_OK);
	me->backend->group_close(other);
}

static void test_overlap(void **state)
{
	ranks_host(3, true, overlap, NULL);
	ranks_host(3, false, overlap, NULL);
}

/* Queues wait asleep. Whom they wait for wakes them, not the alarm clock that lets them see an
   abort; in collectives of all lengths. */
static void wake_workers(struct one *me, void *argument)
{
	static const char *const algorithms[] = {"direct", "ring"};
	struct bb_queue *queue = open_queue(me);
	int32_t *in = calloc(2 * LONG, sizeof(*in));
	int slow = 0;

	CHECK(me, in != NULL);
	for (int k = 0; k < 200; k++) {
		struct bb_call call = sum_call(me->n, algorithms[k / 2 % 2], in, in + LONG);
		const double start = me->backend->now(me->handle);

		call.shape.count = k % 2 ? LONG : COUNT;
		if (me->rank == k / 4 % me->n)
			nap(300);
		CHECK(me, me->backend->collective(me->world, queue, &call) == BB_OK);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_OK);
		slow += me->backend->now(me->handle) - start > 15e-3;
	}
	CHECK(me, slow < 40);
	me->backend->queue_close(queue);
	free(in);
}

static void test_sleepers(void **state)
{
	ranks_host(2, false, wake_workers, NULL);
	ranks_host(2, true, wake_workers, NULL);
}

/* ---- errors and aborts
 * ------------------------------------------------------------------------------ */

/* Rank 1 expects more than rank 0 sends. Its queue runs nothing after that, but lets go whoever
   waits for it, and keeps the first error even when the world is gone. */
static void poison(struct one *me, void *argument)
{
	struct bb_queue *queue = open_queue(me);
	struct bb_event *event = open_event(me);
	struct journal journal = {0};
	struct note note = {&journal, 0, 0};
	int32_t data[20] = {0};
	struct bb_call call = {.collective = &bb_broadcast,
			       .schedule = bb_algorithm_find(&bb_broadcast, "linear"),
			       .dtype = BB_INT32,
			       .shape = {.nranks = 2, .count = me->rank == 0 ? 5 : 9},
			       .in = data,
			       .out = data + 10};
	const bb_status expected = me->rank == 0 ? BB_OK : BB_EINTERNAL;

	CHECK(me, call.schedule != NULL);
	CHECK(me, me->backend->collective(me->world, queue, &call) == BB_OK);
	CHECK(me, me->backend->finish(me->handle, queue) == expected);
	CHECK(me, me->backend->compute(me->handle, queue, write_down, &note) == expected);
	CHECK(me, me->backend->event_record(me->handle, queue, event) == expected);
	CHECK(me, me->backend->event_wait(me->handle, NULL, event) == BB_OK);
	CHECK(me, atomic_load(&journal.length) == (me->rank == 0 ? 1 : 0));
	CHECK(me, me->backend->finish(me->handle, queue) == expected);
	CHECK(me, me->backend->barrier(me->world) == BB_OK);
	if (me->rank == 1) { /* what will not run fails the world */
		CHECK(me, me->backend->collective(me->world, queue, &call) == BB_EINTERNAL);
		CHECK(me, me->backend->finish(me->handle, queue) == BB_EINTERNAL);
	}
	while (me->backend->finish(me->handle, NULL) == BB_OK)
		nap(1000);
	CHECK(me, me->backend->finish(me->handle, NULL) == BB_ETIMEOUT);
	me->backend->queue_close(queue);
	me->backend->event_close(event);
}

static void test_poison(void **state)
{
	ranks_host(2, false, poison, NULL);
	ranks_host(2, true, poison, NULL);
}

enum wait { ON_EVENT, ON_FINISH, ON_TURN, ON_CLOSE, WAITS };

/* Rank 1 aborts while rank 0's queue holds a collective that rank 1 never joins. */
static void be_aborted(struct one *me, void *argument)
{
	const enum wait wait = *(const enum wait *)argument;
	struct bb_queue *queue = open_queue(me);
	struct bb_event *event = open_event(me);
	int32_t in[COUNT] = {0}, out[COUNT];
	const struct bb_call call = sum_call(me->n, wait % 2 ? "ring" : "direct", in, out);
	const double start = me->backend->now(me->handle);

	if (me->rank == 1) {
		nap(30000);
		me->backend->abort(me->context);
	} else {
		CHECK(me, me->backend->collective(me->world, queue, &call) == BB_OK);
		CHECK(me, me->backend->event_record(me->handle, queue, event) == BB_OK);
		if (wait == ON_EVENT)
			CHECK(me, me->backend->event_wait(me->handle, NULL, event) == BB_ETIMEOUT);
		if (wait == ON_TURN)
			CHECK(me, me->backend->collective(me->world, NULL, &call) == BB_ETIMEOUT);
		if (wait != ON_CLOSE)
			CHECK(me, me->backend->finish(me->handle, queue) == BB_ETIMEOUT);
	}
	me->backend->queue_close(queue);
	me->backend->event_close(event);
	CHECK(me, me->backend->now(me->handle) - start < 30);
}

static void test_abort(void **state)
{
	for (enum wait wait = 0; wait < WAITS; wait++)
		for (int crowded = 0; crowded < 2; crowded++)
			ranks_host(2, crowded, be_aborted, &wait);
}

/* On another clock than that of its condition a wait would end at once, or after years. */
static void test_moment(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t changed;
	double began;

	bb_clock_open_moment(&changed);
	pthread_mutex_lock(&lock);
	began = bb_clock_now();
	/* One of them may end early, without a signal. */
	for (int i = 0; i < 3; i++)
		bb_clock_wait_moment(&changed, &lock);
	assert_true(bb_clock_now() - began >= 1e-9 * BB_MOMENT_NS);
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&changed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),   cmocka_unit_test(test_issue_order),
		cmocka_unit_test(test_overlap), cmocka_unit_test(test_sleepers),
		cmocka_unit_test(test_poison),  cmocka_unit_test(test_abort),
		cmocka_unit_test(test_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
