/*
 * queue.h - queues, events, collectives and messages of a backend whose ranks compute on the CPU
 * (context.h).
 *
 * The main queue is the driver itself: its work is done when the call returns. Any other queue is a
 * worker thread with a list of work, on the cores to which the driver is pinned. A collective gets
 * a number from its group when it is issued and runs in the order of numbers, so a group's calls
 * match in issue order on any queues. Messages run in the order of their queue.
 */
#pragma once

#include "backends/cpu/context.h"
#include "backends/cpu/memory.h"
#include "backends/messages.h"

BB_MUST bb_status bb_cpu_queue_open(struct bb_rank *rank, struct bb_queue **queue,
				    struct bb_error *error);
void bb_cpu_queue_close(struct bb_queue *queue);
BB_MUST bb_status bb_cpu_event_open(struct bb_rank *rank, struct bb_event **event,
				    struct bb_error *error);
void bb_cpu_event_close(struct bb_event *event);
BB_MUST bb_status bb_cpu_event_record(struct bb_rank *rank, struct bb_queue *queue,
				      struct bb_event *event);
BB_MUST bb_status bb_cpu_event_wait(struct bb_rank *rank, struct bb_queue *queue,
				    struct bb_event *event);
BB_MUST bb_status bb_cpu_compute(struct bb_rank *rank, struct bb_queue *queue,
				 void (*function)(void *argument), void *argument);
BB_MUST bb_status bb_cpu_collective(struct bb_group *group, struct bb_queue *queue,
				    const struct bb_call *call);
BB_MUST bb_status bb_cpu_finish(struct bb_rank *rank, struct bb_queue *queue);

extern const struct bb_messages bb_cpu_messages;

/* Entries of struct bb_backend that are alike in all backends whose ranks compute on the CPU. */
#define BB_CPU_ENTRIES                                                                             \
	.abort = bb_cpu_abort, .memory_available = bb_cpu_memory_available, .alloc = bb_cpu_alloc, \
	.copy = bb_cpu_copy, .fill = bb_cpu_fill, .verify = bb_cpu_verify,                         \
	.queue_close = bb_cpu_queue_close, .event_open = bb_cpu_event_open,                        \
	.event_close = bb_cpu_event_close, .event_record = bb_cpu_event_record,                    \
	.event_wait = bb_cpu_event_wait, .compute = bb_cpu_compute,                                \
	.collective = bb_cpu_collective, .finish = bb_cpu_finish, .now = bb_cpu_now,               \
	.messages = &bb_cpu_messages
