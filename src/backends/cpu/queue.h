/*
 * queue.h - queues and events of a backend whose work the CPU does.
 *
 * The main queue is the driver itself: its work is done when the call returns. Any other queue is a
 * worker thread with a list of work. A collective takes a number from its group when it is issued
 * and runs when its turn comes, so that a group's calls match in issue order on whatever queue they
 * were put.
 */
#ifndef BB_BACKENDS_CPU_QUEUE_H
#define BB_BACKENDS_CPU_QUEUE_H

#include "backends/backend.h"

/* What the queues of a rank need of its backend; they keep the address. */
struct bb_queues {
	struct bb_rank *rank;
	int number;          /* of the rank in the world */
	atomic_int *aborted; /* set: every wait returns BB_ETIMEOUT, for good */
	/* On a worker's own thread, before its first work. NULL: nothing. */
	void (*settle)(struct bb_rank *rank);
	/* Run CALL on this thread, now. */
	bb_status (*run)(struct bb_group *group, const struct bb_call *call);
};

/* The collectives of a group, one of these in each rank's view of it. Zero-initialise it. */
struct bb_turns {
	uint32_t issued;
	atomic_uint completed;
};

BB_MUST bb_status bb_cpu_queue_open(const struct bb_queues *queues, struct bb_queue **queue,
				    struct bb_error *error);
BB_MUST bb_status bb_cpu_event_open(const struct bb_queues *queues, struct bb_event **event,
				    struct bb_error *error);
BB_MUST bb_status bb_cpu_collective(const struct bb_queues *queues, struct bb_group *group,
				    struct bb_turns *turns, struct bb_queue *queue,
				    const struct bb_call *call);
BB_MUST bb_status bb_cpu_finish(const struct bb_queues *queues, struct bb_queue *queue);

/* As in the backend's table. */
void bb_cpu_queue_close(struct bb_queue *queue);
void bb_cpu_event_close(struct bb_event *event);
BB_MUST bb_status bb_cpu_event_record(struct bb_rank *rank, struct bb_queue *queue,
				      struct bb_event *event);
BB_MUST bb_status bb_cpu_event_wait(struct bb_rank *rank, struct bb_queue *queue,
				    struct bb_event *event);
BB_MUST bb_status bb_cpu_compute(struct bb_rank *rank, struct bb_queue *queue,
				 void (*function)(void *argument), void *argument);

#endif
