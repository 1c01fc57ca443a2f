/*
 * messages.h - the part of a backend that passes messages between two members of a group.
 */
#ifndef BB_BACKENDS_MESSAGES_H
#define BB_BACKENDS_MESSAGES_H

#include "core/status.h"

#include <stddef.h>

struct bb_group;
struct bb_queue;

/*
 * Messages between members, in QUEUE's order. Messages from one member to another match in issue
 * order and must have the same length. A group carries messages or collectives, not both; at any
 * time one queue sends to a peer, and one receives from it. Buffers are borrowed until the message
 * is done; a sent message is done when the peer has it. PEER and SOURCE are members; *PEER is read
 * when the queue reaches the message (with GPUs: when it is issued).
 */
struct bb_messages {
	bb_status (*send)(struct bb_group *group, struct bb_queue *queue, const int *peer,
			  const void *data, size_t bytes);
	bb_status (*recv)(struct bb_group *group, struct bb_queue *queue, int peer, void *data,
			  size_t bytes);
	/* Receive the first message that arrives; *SOURCE is its sender once it is done. A member
	   that uses it receives no message of the group in another way. NULL: not available. */
	bb_status (*recv_any)(struct bb_group *group, struct bb_queue *queue, void *data,
			      size_t bytes, int *source);
};

#endif
