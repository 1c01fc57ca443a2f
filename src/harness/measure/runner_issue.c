/*
 * runner_issue.c - issues operations to queues, and the host functions that run in them.
 */
#include "harness/measure/runner_inside.h"

#include "backends/gpu.h"
#include "backends/messages.h"
#include "core/clock.h"

#include <math.h>
#include <time.h>

#define LONGEST_NAP 0.02 /* seconds between two checks of whether to go on */

/* ---- in the queue, on any thread ---------------------------------------------------- */

static struct bb_runner_queue *queue_of(const struct bb_item *item)
{
	return &item->runner->queues[item->operation.queue];
}

/* Every host function begins here. After a failure a device's queue may still reach one: then it
   returns false, and the function does nothing. */
static bool enter(struct bb_runner *p)
{
	atomic_fetch_add(&p->inside, 1);
	if (!atomic_load(&p->over))
		return true;
	atomic_fetch_sub(&p->inside, 1);
	return false;
}

static void leave(struct bb_runner *p)
{
	atomic_fetch_sub(&p->inside, 1);
}

static bool is_over(const struct bb_runner *p)
{
	return atomic_load_explicit(&p->over, memory_order_relaxed) ||
	       bb_crew_is_stopping(p->driver);
}

static void sleep_until(const struct bb_runner *p, double end)
{
	double now;

	while ((now = bb_clock_now()) < end && !is_over(p)) {
		const double until = end - now < LONGEST_NAP ? end : now + LONGEST_NAP;
		const double whole = floor(until);
		const struct timespec t = {.tv_sec = (time_t)whole,
					   .tv_nsec = (long)((until - whole) * 1e9)};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
}

/*
 * Sleepers wake late, on a busy machine very late. So that these delays do not add up, a sleep ends
 * at the due time of its queue: the sum of the durations so far, or the due time of the event that
 * the queue waited for, however late it woke.
 */
static void sleep_on(void *argument)
{
	const struct bb_item *item = argument;
	struct bb_runner_queue *queue = queue_of(item);

	if (!enter(item->runner))
		return;
	queue->due = (item->chained ? queue->due : bb_clock_now()) + item->operation.seconds;
	sleep_until(item->runner, queue->due);
	leave(item->runner);
}

/* Spins for CPU time: while another thread has the core, nothing is computed. */
static void spin_on(void *argument)
{
	const struct bb_item *item = argument;
	const double end = bb_clock_thread() + item->operation.seconds;

	if (!enter(item->runner))
		return;
	while (bb_clock_thread() < end && !is_over(item->runner))
		;
	leave(item->runner);
}

static void compute(void *argument)
{
	const struct bb_item *item = argument;
	struct bb_runner *p = item->runner;

	if (!enter(p))
		return;
	p->workload->compute(p->workload->own, p->driver->rank, &item->operation);
	leave(p);
}

/* Before an event is recorded: passes on the due time of its queue. */
static void record_due(void *argument)
{
	const struct bb_item *item = argument;

	item->runner->dues[item->operation.event] = queue_of(item)->due;
}

/* After anything but a computation or a record: a message or collective is done now, a wait when
   its event was due. */
static void update_due(void *argument)
{
	const struct bb_item *item = argument;
	struct bb_runner_queue *queue = queue_of(item);

	if (item->operation.act != BB_ACT_WAIT)
		queue->due = bb_clock_now();
	else
		queue->due = fmax(queue->due, item->runner->dues[item->operation.event]);
}

static void stamp(void *argument)
{
	struct bb_item *item = argument;

	if (!enter(item->runner))
		return;
	item->end = item->runner->backend->now(item->runner->rank);
	leave(item->runner);
}

/* ---- by the driver ----------------------------------------------------------------------- */

static bb_status issue_computation(struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_backend *backend = p->backend;
	struct bb_rank *rank = p->rank;
	struct bb_queue *queue = queue_of(item)->handle;
	bb_status status;

	if (bb_runner_performs(p, &item->operation) && !backend->gpu)
		return backend->compute(rank, queue, compute, item);
	/* A function in a device's queue must not call the device, whose memory COMPUTE reads. */
	if (bb_runner_performs(p, &item->operation)) {
		status = backend->finish(rank, queue);
		if (status == BB_OK)
			compute(item);
		return status;
	}
	if (p->workload->stand_in == BB_GEMM && item->operation.flops == 0)
		return BB_OK; /* its seconds are 0 as well: see judge_operation */
	if (p->workload->stand_in == BB_GEMM)
		return backend->gpu->gemm(rank, queue, item->operation.flops, &p->run->error);
	if (p->workload->stand_in == BB_SPIN && backend->gpu)
		return backend->gpu->spin(rank, queue, item->operation.seconds);
	return backend->compute(rank, queue, p->workload->stand_in == BB_SPIN ? spin_on : sleep_on,
				item);
}

/* Returns the workload's buffers, or part of the queue's own memory. */
static struct bb_buffers buffers_of(const struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_arena *arena = &queue_of(item)->arena;
	struct bb_buffers b = {arena->memory, arena->memory};

	if (p->workload->buffers)
		p->workload->buffers(p->workload->own, p->driver->rank, &item->operation, &b.in,
				     &b.out);
	else if (item->operation.act == BB_ACT_COLLECTIVE)
		b = bb_arena_set(arena, &p->calls[item->call].layout, 0);
	return b;
}

static bb_status issue_collective(const struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	struct bb_group *group = p->groups[item->operation.group].handle;
	struct bb_buffers b;
	struct bb_call call;

	if (!group)
		return BB_OK;
	b = buffers_of(item);
	call = p->calls[item->call].call;
	call.in = b.in;
	call.out = b.out;
	call.tmp = bb_arena_tmp(&queue_of(item)->arena);
	return p->backend->collective(group, queue_of(item)->handle, &call);
}

static bb_status issue_message(struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_operation *o = &item->operation;
	const int *to = o->peer == BB_NO_PEER ? &p->items[o->answers].source : &o->peer;
	const struct bb_messages *messages = p->backend->messages;
	struct bb_group *lane = p->lanes[o->lane];
	struct bb_queue *queue = queue_of(item)->handle;
	const struct bb_buffers b = buffers_of(item);
	const size_t bytes = bb_operation_bytes(o);

	if (!messages) { /* a backend without data: any rank may be the source */
		item->source = 0;
		return BB_OK;
	}
	if (o->act == BB_ACT_SEND)
		return messages->send(lane, queue, to, b.in, bytes);
	if (o->act == BB_ACT_RECV)
		return messages->recv(lane, queue, o->peer, b.out, bytes);
	return messages->recv_any(lane, queue, b.out, bytes, &item->source);
}

static bb_status issue_operation(struct bb_item *item)
{
	const struct bb_runner *p = item->runner;
	const struct bb_operation *o = &item->operation;

	switch (o->act) {
	case BB_ACT_COMPUTE:
		return issue_computation(item);
	case BB_ACT_COLLECTIVE:
		return issue_collective(item);
	case BB_ACT_SEND:
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return issue_message(item);
	case BB_ACT_RECORD:
		return p->backend->event_record(p->rank, queue_of(item)->handle,
						p->events[o->event]);
	case BB_ACT_WAIT:
		break;
	}
	return p->backend->event_wait(p->rank, queue_of(item)->handle, p->events[o->event]);
}

static bb_status run_in_queue(struct bb_item *item, void (*function)(void *argument))
{
	const struct bb_runner *p = item->runner;

	return p->backend->compute(p->rank, queue_of(item)->handle, function, item);
}

/* A record takes no time and has no stamp: a stamp behind it could be later than what waited for
   the event. */
bb_status bb_runner_issue(struct bb_item *item, bool watched)
{
	const struct bb_runner *p = item->runner;
	const bool records = item->operation.act == BB_ACT_RECORD;
	bb_status status = BB_OK;

	if (p->dues && records)
		BB_TRY(status, run_in_queue(item, record_due), out);
	BB_TRY(status, issue_operation(item), out);
	if (records)
		goto out;
	if (p->dues && item->operation.act != BB_ACT_COMPUTE)
		BB_TRY(status, run_in_queue(item, update_due), out);
	if (watched)
		status = item->event ? p->backend->event_record(p->rank, queue_of(item)->handle,
								item->event)
				     : run_in_queue(item, stamp);
out:
	return status;
}
