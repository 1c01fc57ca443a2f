/*
 * Messages over Gloo's unbound buffers: of schedules, of queues, and of the clocks. Each is a
 * rendezvous: its data leaves once the peer has posted the receive.
 */
#include "backends/gloo/gloo.h"

#include <stdio.h>

/* Data to be reduced comes in pieces: one is reduced while the next is in flight. Each piece is a
   rendezvous of its own, so other messages are not cut. */
#define PIECE_BYTES ((size_t)512 << 10)
#define WHOLE_BYTES ((size_t)1 << 40)

/* Report that a message to or from PEER failed; negative: from any member. */
static bb_status message_failed(const struct bb_group *group, bool sends, int peer, const char *why)
{
	char act[64] = "receiving";

	if (peer >= 0)
		snprintf(act, sizeof(act), "%s rank %d", sends ? "sending to" : "receiving from",
			 group->port.members[peer]);
	return bb_gloo_failed(group->port.rank, act, why);
}

static bb_status message_start(const struct bb_group *group, bool sends, int peer, uint64_t slot,
			       void *data, size_t bytes, union bb_request *request)
{
	struct bb_gloo_request *started = NULL;
	char why[BB_GLOO_WHY];

	if (!bb_gloo_start(group->member->mesh, sends, peer, slot, data, bytes, &started, why))
		return message_failed(group, sends, peer, why);
	request->handle = started;
	return BB_OK;
}

/* *PEER = the other end. */
static bb_status message_wait(const struct bb_group *group, bool sends, union bb_request *request,
			      int *peer)
{
	char why[BB_GLOO_WHY];

	return bb_gloo_wait(request->handle, peer, why) ? BB_OK
							: message_failed(group, sends, *peer, why);
}

/* ---- of schedules ------------------------------------------------------------------------ */

static size_t piece_of(const struct bb_group *group, const struct bb_call *call)
{
	return call->collective->flags & BB_REDUCES ? PIECE_BYTES : WHOLE_BYTES;
}

static bb_status start_send(struct bb_group *group, int peer, int channel, const void *data,
			    size_t bytes, union bb_request *request)
{
	return message_start(group, true, peer, bb_gloo_slot(BB_GLOO_SCHEDULES, channel),
			     (void *)data, bytes, request);
}

static bb_status start_receive(struct bb_group *group, int peer, int channel, void *data,
			       size_t bytes, union bb_request *request)
{
	return message_start(group, false, peer, bb_gloo_slot(BB_GLOO_SCHEDULES, channel), data,
			     bytes, request);
}

static bb_status wait_sent(struct bb_group *group, union bb_request *request)
{
	int peer;

	return message_wait(group, true, request, &peer);
}

static bb_status wait_received(struct bb_group *group, union bb_request *request, size_t bytes)
{
	int peer;

	return message_wait(group, false, request, &peer);
}

const struct bb_port_calls bb_gloo_port_calls = {
	.send = start_send,
	.receive = start_receive,
	.wait_sent = wait_sent,
	.wait_received = wait_received,
	.piece = piece_of,
	.native = bb_gloo_native,
	.native_tmp_bytes = bb_gloo_native_tmp_bytes,
};

/* ---- of queues --------------------------------------------------------------------------- */

bb_status bb_gloo_message(const struct bb_message *message)
{
	const struct bb_group *group = message->group;
	const struct bb_rank *rank = group->port.rank;
	const bool sends = message->kind == BB_MESSAGE_SEND;
	union bb_request request = {.handle = NULL};
	int peer = sends ? *message->to : message->kind == BB_MESSAGE_RECV ? message->from : -1;
	bb_status status;

	if (bb_cpu_aborted(&rank->context->cpu))
		return BB_ETIMEOUT;
	if (peer == group->port.me)
		return bb_fail(rank->context->cpu.error, BB_EINTERNAL,
			       "rank %d sends itself a message", rank->rank);
	BB_TRY(status,
	       message_start(group, sends, peer, bb_gloo_slot(BB_GLOO_QUEUES, 0),
			     sends ? (void *)message->out : message->in, message->bytes, &request),
	       out);
	status = message_wait(group, sends, &request, &peer);
	if (status == BB_OK && message->source)
		*message->source = peer;
out:
	return status;
}

/* ---- of the clocks ----------------------------------------------------------------------- */

static bb_status pass_ping(struct bb_rank *rank, bool sends, int peer, void *data, size_t bytes)
{
	struct bb_gloo_request *request;
	char why[BB_GLOO_WHY];

	return bb_gloo_start(rank->world->mesh, sends, peer, bb_gloo_slot(BB_GLOO_PINGS, 0), data,
			     bytes, &request, why) &&
			       bb_gloo_wait(request, NULL, why)
		       ? BB_OK
		       : bb_gloo_failed(rank, "comparing clocks", why);
}

static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	return bb_clock_compare(rank, rank->one_clock, pass_ping, offset, uncertainty);
}

const struct bb_clocks bb_gloo_clocks = {.offset = clock_offset};
