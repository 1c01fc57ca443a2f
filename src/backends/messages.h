/*
 * messages.h - the part of a backend that passes messages between two members of a group.
 */
#pragma once

#include "core/status.h"

#include <stdbool.h>
#include <stddef.h>

struct bb_group;
struct bb_queue;

enum bb_message_kind { BB_MESSAGE_SEND, BB_MESSAGE_RECV, BB_MESSAGE_RECV_ANY };

/* One end of a message between two members of GROUP. */
struct bb_message {
	enum bb_message_kind kind;
	struct bb_group *group;
	/* SEND: to this member; read when the queue reaches the message (with GPUs: when it is
	   issued). */
	const int *to;
	int from; /* RECV: from this member; the sender is another one, as TO is */
	/* RECV_ANY: the sender of the first message that arrives, once that is done. A member that
	   uses it receives no message of the group in another way. */
	int *source;
	const void *out; /* SEND; the others receive into IN */
	void *in;
	size_t bytes;
};

/*
 * Messages from one member to another match in issue order and must have the same length. A group
 * carries messages or collectives, not both; at any time one queue sends to a peer, and one
 * receives from it. Buffers are borrowed until the message is done; a sent message is done when the
 * peer has it.
 */
struct bb_messages {
	bool from_any; /* it takes BB_MESSAGE_RECV_ANY */
	/* Pass MESSAGE, which is copied, in QUEUE's order. */
	bb_status (*pass)(struct bb_queue *queue, const struct bb_message *message);
};
