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
 * Messages between members, in QUEUE's order; those from one member to another match in the order
 * in which they are issued, and must have the same length. A group carries messages or collectives,
 * not both; at any time one queue sends to a peer, and one receives. Buffers are borrowed until the
 * message is done: sent, when the peer has it. PEER and SOURCE are members; *PEER is read when the
 * message's turn has come (with GPUs: when it is issued).
 */
struct bb_messages {
	bb_status (*send)(struct bb_group *group, struct bb_queue *queue, const int *peer,
			  const void *data, size_t bytes);
	bb_status (*recv)(struct bb_group *group, struct bb_queue *queue, int peer, void *data,
			  size_t bytes);
	/* From whoever's message is there first; *SOURCE says who, when it is done. On this member
	   no message of the group is received in any other way. NULL: a source must be named. */
	bb_status (*recv_any)(struct bb_group *group, struct bb_queue *queue, void *data,
			      size_t bytes, int *source);
};

#endif
