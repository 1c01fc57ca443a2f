/*
 * Messages of queues. A message too long for MPI's int counts is sent in pieces, one after the
 * other. A message is done when the peer has begun to receive its last piece (MPI_Issend); with
 * MPI_Isend it would be done once the library has buffered it.
 */
#include "backends/mpi/mpi.h"

#define TAG 0
#define PIECE ((size_t)1 << 30)

static int piece(size_t bytes, size_t at)
{
	return (int)(bytes - at < PIECE ? bytes - at : PIECE);
}

/* Pass one piece from or to *PEER; *PEER becomes the actual sender. */
static bb_status pass_piece(const struct bb_message *m, size_t at, int *peer)
{
	struct bb_context *context = m->group->port.rank->context;
	const int length = piece(m->bytes, at);
	const bool sends = m->kind == BB_MESSAGE_SEND;
	MPI_Request request;
	MPI_Status got;
	bb_status status;
	int code, came;

	if (sends)
		code = MPI_Issend((const char *)m->out + at, length, MPI_BYTE, *peer, TAG,
				  m->group->messages, &request);
	else
		code = MPI_Irecv((char *)m->in + at, length, MPI_BYTE, *peer, TAG,
				 m->group->messages, &request);
	status = bb_mpi_check(context, sends ? "MPI_Issend" : "MPI_Irecv", code);
	if (status == BB_OK)
		status = bb_mpi_await(context, &request, &got);
	if (status != BB_OK || sends)
		return status;
	*peer = got.MPI_SOURCE;
	if (MPI_Get_count(&got, MPI_BYTE, &came) != MPI_SUCCESS || came != length)
		return bb_fail(context->cpu.error, BB_EINTERNAL,
			       "rank %d: expected a message of %zu bytes, received another length",
			       context->cpu.world.proc, m->bytes);
	return BB_OK;
}

bb_status bb_mpi_message(const struct bb_message *message)
{
	size_t at = 0;
	int peer = message->from;
	bb_status status;

	if (bb_cpu_aborted(&message->group->port.rank->context->cpu))
		return BB_ETIMEOUT;
	if (message->kind == BB_MESSAGE_SEND)
		peer = *message->to;
	else if (message->kind == BB_MESSAGE_RECV_ANY)
		peer = MPI_ANY_SOURCE;
	do /* one without bytes is a message too */
		status = pass_piece(message, at, &peer);
	while (status == BB_OK && (at += PIECE) < message->bytes);
	if (status == BB_OK && message->kind == BB_MESSAGE_RECV_ANY)
		*message->source = peer;
	return status;
}
