/*
 * queue.h - queues and events of a backend whose work the CPU does.
 *
 * The main queue is the driver itself: its work is done when the call returns. Any other queue is a
 * worker thread with a list of work. A collective takes a number from its group when it is issued
 * and runs when its turn comes, so that a group's calls match in issue order on whatever queue they
 * were put. Messages run when their queue comes to them.
 */
#ifndef BB_BACKENDS_CPU_QUEUE_H
#define BB_BACKENDS_CPU_QUEUE_H

#include "backends/backend.h"

enum bb_message_kind { BB_MESSAGE_SEND, BB_MESSAGE_RECV, BB_MESSAGE_RECV_ANY };

/* What send, recv and recv_any of a backend's table are told. */
struct bb_message {
	enum bb_message_kind kind;
	struct bb_group *group;
	const int *to; /* SEND; read when it is sent */
	int from;      /* RECV */
	int *source;   /* RECV_ANY */
	const void *out;
	void *in;
	size_t bytes;
};

/* What the queues of a rank need of its backend; they keep the address. */
struct bb_queues {
	struct bb_rank *rank;
	int number;          /* of the rank in the world */
	atomic_int *aborted; /* set: every wait returns BB_ETIMEOUT, for good */
	/* Counts queues. Those closed too: who waited beside a queue may still sleep. NULL: nobody
	   looks. */
	atomic_int *opened;
	/* On a worker's own thread, before its first work. NULL: nothing. */
	void (*settle)(struct bb_rank *rank);
	/* Run CALL on this thread, now. */
	bb_status (*run)(struct bb_group *group, const struct bb_call *call);
	/* Pass MESSAGE on this thread, until it is done. */
	bb_status (*pass)(const struct bb_message *message);
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

/* Pass MESSAGE in QUEUE's order. */
BB_MUST bb_status bb_cpu_message(const struct bb_queues *queues, struct bb_queue *queue,
				 const struct bb_message *message);

/* ---- collectives ------------------------------------------------------------------------ */

/* Wait until COMPLETED is TURN. */
BB_MUST bb_status bb_cpu_await_turn(const struct bb_queues *queues, const struct bb_turns *turns,
				    uint32_t turn);
/* Put CALL into QUEUE, not the main one, to be run in its TURN. */
BB_MUST bb_status bb_cpu_enqueue(const struct bb_queues *queues, struct bb_group *group,
				 struct bb_turns *turns, uint32_t turn, struct bb_queue *queue,
				 const struct bb_call *call);

/* Run CALL when the TURN-th collective of its group is due, and let the next one go. */
BB_MUST static inline bb_status bb_cpu_run_in_turn(const struct bb_queues *queues,
						   struct bb_group *group, struct bb_turns *turns,
						   uint32_t turn, const struct bb_call *call)
{
	bb_status status = BB_OK;

	if (atomic_load_explicit(&turns->completed, memory_order_acquire) != turn)
		status = bb_cpu_await_turn(queues, turns, turn);
	if (status != BB_OK)
		return status;
	status = queues->run(group, call);
	atomic_store_explicit(&turns->completed, turn + 1, memory_order_release);
	return status;
}

/* Here, because on the main queue it is part of the time of every call. */
BB_MUST static inline bb_status bb_cpu_collective(const struct bb_queues *queues,
						  struct bb_group *group, struct bb_turns *turns,
						  struct bb_queue *queue,
						  const struct bb_call *call)
{
	const uint32_t turn = turns->issued++;

	return queue ? bb_cpu_enqueue(queues, group, turns, turn, queue, call)
		     : bb_cpu_run_in_turn(queues, group, turns, turn, call);
}

#endif
