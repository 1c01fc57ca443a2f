#include "backends/cpu/queue.h"

#include "core/clock.h"

#include <stdlib.h>
#include <sys/prctl.h>

#define TURN_SECONDS 20e-6 /* between two looks at whose turn it is */

struct bb_event {
	const atomic_int *aborted;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t recorded; /* number of the latest record */
	uint64_t reached;  /* number of the latest record that was reached */
};

enum work_kind { WORK_COLLECTIVE, WORK_MESSAGE, WORK_COMPUTE, WORK_RECORD, WORK_WAIT };

struct queued {
	struct queued *next;
	enum work_kind kind;
	const struct bb_queues *queues;
	struct bb_group *group;
	struct bb_turns *turns;
	uint32_t turn;
	struct bb_call call;
	struct bb_message message;
	void (*function)(void *argument);
	void *argument;
	struct bb_event *event;
	uint64_t number;
};

struct bb_queue {
	const struct bb_queues *queues;
	pthread_t worker;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct queued *first;
	struct queued **last;
	bool busy;
	bool closing;
	bb_status status; /* the first error */
};

static bool is_set(const atomic_int *flag)
{
	return atomic_load_explicit(flag, memory_order_relaxed) != 0;
}

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
	while (event->reached < number && !is_set(event->aborted))
		bb_clock_wait_moment(&event->changed, &event->lock);
	reached = event->reached >= number && !is_set(event->aborted);
	pthread_mutex_unlock(&event->lock);
	return reached ? BB_OK : BB_ETIMEOUT;
}

bb_status bb_cpu_await_turn(const struct bb_queues *queues, const struct bb_turns *turns,
			    uint32_t turn)
{
	while (atomic_load_explicit(&turns->completed, memory_order_acquire) != turn) {
		if (is_set(queues->aborted))
			return BB_ETIMEOUT;
		bb_clock_pause(TURN_SECONDS, queues->aborted);
	}
	return BB_OK;
}

static bb_status run_queued(struct queued *work)
{
	switch (work->kind) {
	case WORK_COLLECTIVE:
		return bb_cpu_run_in_turn(work->queues, work->group, work->turns, work->turn,
					  &work->call);
	case WORK_MESSAGE:
		return work->queues->pass(&work->message);
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
 * A poisoned queue runs nothing more, but lets go whoever waits for it: events are reached, and
 * a collective or a message that will not run fails its whole world.
 */
static void skip_queued(struct bb_queue *queue, struct queued *work)
{
	if (work->kind == WORK_RECORD)
		event_reach(work->event, work->number);
	else if (work->kind == WORK_COLLECTIVE || work->kind == WORK_MESSAGE)
		atomic_store(queue->queues->aborted, 1);
}

static void *work_off(void *argument)
{
	struct bb_queue *queue = argument;

	/* Stand-ins for kernels sleep: they are to wake when they should. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (queue->queues->settle)
		queue->queues->settle(queue->queues->rank);
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
		else
			skip_queued(queue, work);
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

bb_status bb_cpu_queue_open(const struct bb_queues *queues, struct bb_queue **queue,
			    struct bb_error *error)
{
	struct bb_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return bb_no_memory(error, "a queue");
	q->queues = queues;
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	if (pthread_create(&q->worker, NULL, work_off, q) != 0) {
		pthread_cond_destroy(&q->changed);
		pthread_mutex_destroy(&q->lock);
		free(q);
		return bb_fail(error, BB_EINTERNAL, "no thread for a queue of rank %d",
			       queues->number);
	}
	if (queues->opened)
		atomic_fetch_add(queues->opened, 1);
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

bb_status bb_cpu_event_open(const struct bb_queues *queues, struct bb_event **event,
			    struct bb_error *error)
{
	struct bb_event *e = calloc(1, sizeof(*e));

	if (!e)
		return bb_no_memory(error, "an event");
	e->aborted = queues->aborted;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
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
	struct queued *copy;
	bb_status status;

	if (!queue) {
		struct queued now = *work;

		return run_queued(&now);
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		return BB_EINTERNAL;
	*copy = *work;
	copy->next = NULL;
	pthread_mutex_lock(&queue->lock);
	*queue->last = copy;
	queue->last = &copy->next;
	status = queue->status;
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

bb_status bb_cpu_message(const struct bb_queues *queues, struct bb_queue *queue,
			 const struct bb_message *message)
{
	const struct queued work = {.kind = WORK_MESSAGE, .queues = queues, .message = *message};

	return issue(queue, &work);
}

bb_status bb_cpu_enqueue(const struct bb_queues *queues, struct bb_group *group,
			 struct bb_turns *turns, uint32_t turn, struct bb_queue *queue,
			 const struct bb_call *call)
{
	const struct queued work = {.kind = WORK_COLLECTIVE,
				    .queues = queues,
				    .group = group,
				    .turns = turns,
				    .turn = turn,
				    .call = *call};

	return issue(queue, &work);
}

bb_status bb_cpu_finish(const struct bb_queues *queues, struct bb_queue *queue)
{
	bb_status status;

	if (!queue)
		return is_set(queues->aborted) ? BB_ETIMEOUT : BB_OK;
	pthread_mutex_lock(&queue->lock);
	while (queue->first || queue->busy)
		bb_clock_wait_moment(&queue->changed, &queue->lock);
	status = queue->status;
	pthread_mutex_unlock(&queue->lock);
	return status;
}
