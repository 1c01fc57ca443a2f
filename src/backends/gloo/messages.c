/*
 * Messages over Gloo's unbound buffers: of schedules, of queues, and of the clocks. Each is a
 * rendezvous: its data leaves once the peer has posted the receive.
 */
#include "backends/gloo/gloo.h"

#include <stdio.h>

/* What is reduced comes in pieces, so that one is reduced while the next is in flight. Each piece
   is a rendezvous of its own, so other messages are not cut. */
#define PIECE_BYTES ((size_t)512 << 10)
#define WHOLE_BYTES ((size_t)1 << 40)

static bb_status check_peer(const struct bb_group *group, int peer)
{
	return peer != group->me ? BB_OK
				 : bb_fail(group->rank->context->cpu.error, BB_EINTERNAL,
					   "rank %d sends itself a message", group->rank->rank);
}

/* Report that a message to or from PEER failed; PEER is a member, or negative for any. */
static bb_status message_failed(const struct bb_group *group, const char *act, int peer,
				const char *why)
{
	char text[64];

	if (peer < 0)
		return bb_gloo_failed(group->rank, act, why);
	snprintf(text, sizeof(text), "%s rank %d", act, group->members[peer]);
	return bb_gloo_failed(group->rank, text, why);
}

/* Pass a message with PEER (of MESH; negative: any) and wait until it is done. */
static bool send_whole(struct bb_gloo_mesh *mesh, int peer, enum bb_gloo_use use, const void *data,
		       size_t bytes, char why[BB_GLOO_WHY])
{
	struct bb_gloo_request *request;

	return bb_gloo_send(mesh, peer, bb_gloo_slot(use, 0), data, bytes, &request, why) &&
	       bb_gloo_wait_sent(request, NULL, why);
}

static bool receive_whole(struct bb_gloo_mesh *mesh, int peer, enum bb_gloo_use use, void *data,
			  size_t bytes, int *source, char why[BB_GLOO_WHY])
{
	struct bb_gloo_request *request;

	return bb_gloo_receive(mesh, peer, bb_gloo_slot(use, 0), data, bytes, &request, why) &&
	       bb_gloo_wait_received(request, source, why);
}

/* ---- of schedules ------------------------------------------------------------------------ */

static size_t piece_of(const struct bb_call *call)
{
	return call->collective->flags & BB_REDUCES ? PIECE_BYTES : WHOLE_BYTES;
}

static bb_status start_send(void *own, int peer, int channel, const void *data, size_t bytes,
			    union bb_request *request)
{
	const struct bb_group *group = own;
	struct bb_gloo_request *sent = NULL;
	char why[BB_GLOO_WHY];

	if (!bb_gloo_send(group->member->mesh, peer, bb_gloo_slot(BB_GLOO_SCHEDULES, channel), data,
			  bytes, &sent, why))
		return message_failed(group, "sending to", peer, why);
	request->handle = sent;
	return BB_OK;
}

static bb_status start_receive(void *own, int peer, int channel, void *data, size_t bytes,
			       union bb_request *request)
{
	const struct bb_group *group = own;
	struct bb_gloo_request *received = NULL;
	char why[BB_GLOO_WHY];

	if (!bb_gloo_receive(group->member->mesh, peer, bb_gloo_slot(BB_GLOO_SCHEDULES, channel),
			     data, bytes, &received, why))
		return message_failed(group, "receiving from", peer, why);
	request->handle = received;
	return BB_OK;
}

static bb_status wait_sent(void *own, union bb_request *request)
{
	char why[BB_GLOO_WHY];
	int peer;

	return bb_gloo_wait_sent(request->handle, &peer, why)
		       ? BB_OK
		       : message_failed(own, "sending to", peer, why);
}

static bb_status wait_received(void *own, union bb_request *request, size_t bytes)
{
	char why[BB_GLOO_WHY];
	int peer;

	return bb_gloo_wait_received(request->handle, &peer, why)
		       ? BB_OK
		       : message_failed(own, "receiving from", peer, why);
}

const struct bb_port_calls bb_gloo_port_calls = {
	.send = start_send,
	.receive = start_receive,
	.wait_sent = wait_sent,
	.wait_received = wait_received,
};

size_t bb_gloo_schedule_tmp_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return bb_port_tmp_bytes(call, group->me, piece_of(call));
}

bb_status bb_gloo_schedule(struct bb_group *group, const struct bb_call *call)
{
	return bb_port_execute(&group->port, &group->rank->context->cpu, call, group->me,
			       piece_of(call));
}

/* ---- of queues --------------------------------------------------------------------------- */

static bb_status send_now(struct bb_group *group, int peer, const void *data, size_t bytes)
{
	char why[BB_GLOO_WHY];

	if (send_whole(group->member->mesh, peer, BB_GLOO_QUEUES, data, bytes, why))
		return BB_OK;
	return message_failed(group, "sending to", peer, why);
}

/* From PEER; negative: from any member. */
static bb_status receive_now(struct bb_group *group, int peer, void *data, size_t bytes,
			     int *source)
{
	char why[BB_GLOO_WHY];

	if (receive_whole(group->member->mesh, peer, BB_GLOO_QUEUES, data, bytes, source, why))
		return BB_OK;
	return message_failed(group, peer < 0 ? "receiving" : "receiving from", peer, why);
}

bb_status bb_gloo_message(const struct bb_message *message)
{
	struct bb_group *group = message->group;
	const bool sends = message->kind == BB_MESSAGE_SEND;
	const int peer = sends                              ? *message->to
			 : message->kind == BB_MESSAGE_RECV ? message->from
							    : -1;
	bb_status status;

	if (bb_gloo_aborted(group->rank->context))
		return BB_ETIMEOUT;
	status = check_peer(group, peer);
	if (status != BB_OK)
		return status;
	return sends ? send_now(group, peer, message->out, message->bytes)
		     : receive_now(group, peer, message->in, message->bytes, message->source);
}

/* ---- of the clocks ----------------------------------------------------------------------- */

static bb_status send_ping(void *own, int peer, const void *data, size_t bytes)
{
	const struct bb_rank *rank = own;
	char why[BB_GLOO_WHY];

	if (send_whole(rank->world->mesh, peer, BB_GLOO_PINGS, data, bytes, why))
		return BB_OK;
	return bb_gloo_failed(rank, "comparing clocks", why);
}

static bb_status receive_ping(void *own, int peer, void *data, size_t bytes)
{
	const struct bb_rank *rank = own;
	char why[BB_GLOO_WHY];

	if (receive_whole(rank->world->mesh, peer, BB_GLOO_PINGS, data, bytes, NULL, why))
		return BB_OK;
	return bb_gloo_failed(rank, "comparing clocks", why);
}

static bb_status clock_offset(struct bb_rank *rank, double *offset, double *uncertainty)
{
	const struct bb_clock_pings pings = {
		.send = send_ping, .receive = receive_ping, .own = rank};

	*offset = *uncertainty = 0;
	if (bb_gloo_aborted(rank->context))
		return BB_ETIMEOUT;
	if (rank->one_clock)
		return BB_OK;
	return bb_clock_compare(&pings, rank->rank, rank->context->cpu.world.nranks, offset,
				uncertainty);
}

const struct bb_clocks bb_gloo_clocks = {.offset = clock_offset};
