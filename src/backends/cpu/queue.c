#include "backends/cpu/queue.h"

#include "core/clock.h"

#include <stdlib.h>
#include <sys/prctl.h>

#define TURN_SECONDS 20e-6 /* between two checks of the turn */

struct bb_event {
	const struct bb_cpu_context *context;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t recorded; /* number of the latest record */
	uint64_t reached;  /* number of the latest record that was reached */
};

enum work_kind { WORK_COLLECTIVE, WORK_MESSAGE, WORK_COMPUTE, WORK_RECORD, WORK_WAIT };

struct queued {
	struct queued *next;
	enum work_kind kind;
	struct bb_cpu_group *group;
	uint32_t turn;
	struct bb_call call;
	struct bb_message message;
	void (*function)(void *argument);
	void *argument;
	struct bb_event *event;
	uint64_t number;
};

struct bb_queue {
	struct bb_rank *rank;
	pthread_t worker;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct queued *first;
	struct queued **last;
	bool busy;
	bool closing;
	bb_status status; /* the first error */
};

static void event_reach(struct bb_event *event, uint64_t number)
{
	pthread_mutex_lock(&event->lock);
	if (event->reached < number)
		event->reached = number;
	pthread_cond_broadcast(&event->changed);
	pthread_mutex_unlock(&event->lock);
}

static bb_status event_await(struct bb_event *event, uint64_t number)
{
	bool reached;

	pthread_mutex_lock(&event->lock);
	while (event->reached < number && !bb_cpu_aborted(event->context))
		bb_clock_wait_moment(&event->changed, &event->lock);
	reached = event->reached >= number && !bb_cpu_aborted(event->context);
	pthread_mutex_unlock(&event->lock);
	return reached ? BB_OK : BB_ETIMEOUT;
}

/* Run CALL as collective number TURN of GROUP, and release the next one. */
static bb_status run_in_turn(struct bb_cpu_group *group, uint32_t turn, const struct bb_call *call)
{
	struct bb_cpu_context *context = bb_cpu_of(group->rank);

	while (atomic_load_explicit(&group->turns.completed, memory_order_acquire) != turn) {
		if (bb_cpu_aborted(context))
			return BB_ETIMEOUT;
		bb_clock_pause(TURN_SECONDS, &context->aborted);
	}
	const bb_status status = context->run((struct bb_group *)group, call);
	atomic_store_explicit(&group->turns.completed, turn + 1, memory_order_release);
	return status;
}

static bb_status run_queued(struct queued *work)
{
	switch (work->kind) {
	case WORK_COLLECTIVE:
		return run_in_turn(work->group, work->turn, &work->call);
	case WORK_MESSAGE:
		return bb_cpu_of(((struct bb_cpu_group *)work->message.group)->rank)
			->pass(&work->message);
	case WORK_COMPUTE:
		work->function(work->argument);
		return BB_OK;
	case WORK_WAIT:
		return event_await(work->event, work->number);
	case WORK_RECORD:
		break;
	}
	event_reach(work->event, work->number);
	return BB_OK;
}

/*
 * A poisoned queue runs nothing more, but releases those that wait for it: events are reached, and
 * a collective or message that will not run aborts the process's ranks.
 */
static void *work_off(void *argument)
{
	struct bb_queue *queue = argument;
	struct bb_cpu_context *context = bb_cpu_of(queue->rank);

	/* Stand-ins for kernels sleep, and must wake in time. */
	prctl(PR_SET_TIMERSLACK, 1);
	pthread_mutex_lock(&queue->lock);
	for (;;) {
		struct queued *work = queue->first;
		bb_status status = queue->status;

		if (!work && queue->closing)
			break;
		if (!work) {
			pthread_cond_wait(&queue->changed, &queue->lock);
			continue;
		}
		queue->busy = true;
		pthread_mutex_unlock(&queue->lock);
		if (status == BB_OK)
			status = run_queued(work);
		else if (work->kind == WORK_RECORD)
			event_reach(work->event, work->number);
		else if (work->kind == WORK_COLLECTIVE || work->kind == WORK_MESSAGE)
			atomic_store(&context->aborted, 1);
		pthread_mutex_lock(&queue->lock);
		queue->status = status;
		queue->busy = false;
		queue->first = work->next;
		if (!queue->first)
			queue->last = &queue->first;
		free(work);
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

bb_status bb_cpu_queue_open(struct bb_rank *rank, struct bb_queue **queue, struct bb_error *error)
{
	struct bb_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return bb_no_memory(error, "a queue");
	q->rank = rank;
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	bb_clock_open_moment(&q->changed);
	if (pthread_create(&q->worker, NULL, work_off, q) != 0) {
		pthread_cond_destroy(&q->changed);
		pthread_mutex_destroy(&q->lock);
		free(q);
		return bb_fail(error, BB_EINTERNAL, "cannot start a thread for a queue");
	}
	atomic_fetch_add(&bb_cpu_of(rank)->queues, 1);
	*queue = q;
	return BB_OK;
}

void bb_cpu_queue_close(struct bb_queue *queue)
{
	if (!queue)
		return;
	pthread_mutex_lock(&queue->lock);
	queue->closing = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	pthread_join(queue->worker, NULL);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

bb_status bb_cpu_event_open(struct bb_rank *rank, struct bb_event **event, struct bb_error *error)
{
	struct bb_event *e = calloc(1, sizeof(*e));

	if (!e)
		return bb_no_memory(error, "an event");
	e->context = bb_cpu_of(rank);
	pthread_mutex_init(&e->lock, NULL);
	bb_clock_open_moment(&e->changed);
	*event = e;
	return BB_OK;
}

void bb_cpu_event_close(struct bb_event *event)
{
	if (!event)
		return;
	pthread_cond_destroy(&event->changed);
	pthread_mutex_destroy(&event->lock);
	free(event);
}

/* Put a copy of WORK into QUEUE, or run it now on the main one. Returns the queue's status. */
static bb_status issue(struct bb_queue *queue, const struct queued *work)
{
	if (!queue) {
		struct queued now = *work;

		return run_queued(&now);
	}
	struct queued *copy = malloc(sizeof(*copy));
	if (!copy)
		return BB_EINTERNAL;
	*copy = *work;
	copy->next = NULL;
	pthread_mutex_lock(&queue->lock);
	*queue->last = copy;
	queue->last = &copy->next;
	const bb_status status = queue->status;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	return status;
}

bb_status bb_cpu_event_record(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	struct queued work = {.kind = WORK_RECORD, .event = event};

	pthread_mutex_lock(&event->lock);
	work.number = ++event->recorded;
	pthread_mutex_unlock(&event->lock);
	return issue(queue, &work);
}

bb_status bb_cpu_event_wait(struct bb_rank *rank, struct bb_queue *queue, struct bb_event *event)
{
	struct queued work = {.kind = WORK_WAIT, .event = event};

	pthread_mutex_lock(&event->lock);
	work.number = event->recorded;
	pthread_mutex_unlock(&event->lock);
	return issue(queue, &work);
}

bb_status bb_cpu_compute(struct bb_rank *rank, struct bb_queue *queue,
			 void (*function)(void *argument), void *argument)
{
	const struct queued work = {
		.kind = WORK_COMPUTE, .function = function, .argument = argument};

	return issue(queue, &work);
}

bb_status bb_cpu_collective(struct bb_group *group, struct bb_queue *queue,
			    const struct bb_call *call)
{
	struct bb_cpu_group *const g = (struct bb_cpu_group *)group;
	const uint32_t turn = g->turns.issued++;

	if (!queue)
		return run_in_turn(g, turn, call);
	return issue(
		queue,
		&(struct queued){.kind = WORK_COLLECTIVE, .group = g, .turn = turn, .call = *call});
}

bb_status bb_cpu_finish(struct bb_rank *rank, struct bb_queue *queue)
{
	if (!queue)
		return bb_cpu_aborted(bb_cpu_of(rank)) ? BB_ETIMEOUT : BB_OK;
	pthread_mutex_lock(&queue->lock);
	while (queue->first || queue->busy)
		bb_clock_wait_moment(&queue->changed, &queue->lock);
	const bb_status status = queue->status;
	pthread_mutex_unlock(&queue->lock);
	return status;
}

/* ---- messages ---------------------------------------------------------------------------- */

static bb_status message_issue(struct bb_queue *queue, const struct bb_message *message)
{
	return issue(queue, &(struct queued){.kind = WORK_MESSAGE, .message = *message});
}

const struct bb_messages bb_cpu_messages = {.from_any = true, .pass = message_issue};
