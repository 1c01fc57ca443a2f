/*
 * Messages for the executor, on a communicator of their own; a channel is a tag. Waits are loops of
 * tests, so that they notice an abandoned run. With open queues, which share the process's cores,
 * they sleep between tests.
 */
#include "backends/mpi/mpi.h"

#include <time.h>

/*
 * Pieces of a message that is reduced: on one host some of them stay in the cache; where processes
 * share cores each piece may wait until its sender runs, and over a network short pieces cost too
 * much. Other messages are cut only at the limit of MPI's counts, which are ints.
 */
#define PIECE_BYTES ((size_t)128 << 10)
#define CROWDED_PIECE_BYTES ((size_t)256 << 10)
#define FAR_PIECE_BYTES ((size_t)512 << 10)
#define WHOLE_BYTES ((size_t)1 << 30)

#define TESTS 1000 /* between two checks for an abandoned run */
/* Where queues are open, between two tests; longer where processes share cores. */
#define NAP_NS 20000L
#define CROWDED_NAP_NS 100000L

_Static_assert(sizeof(MPI_Request) <= sizeof(union bb_request), "a request of MPI fits");

static MPI_Request *request_of(union bb_request *request)
{
	return (MPI_Request *)request;
}

bb_status bb_mpi_await(struct bb_context *context, MPI_Request *request, MPI_Status *message)
{
	const struct timespec nap = {.tv_nsec = context->cpu.crowded ? CROWDED_NAP_NS : NAP_NS};
	int done, code;

	for (unsigned i = 1;; i++) {
		code = MPI_Test(request, &done, message);
		if (code != MPI_SUCCESS)
			return bb_mpi_check(context, "MPI_Test", code);
		if (done)
			return BB_OK;
		if (i % TESTS == 0 && bb_cpu_aborted(&context->cpu))
			return BB_ETIMEOUT;
		if (i >= TESTS &&
		    atomic_load_explicit(&context->cpu.queues, memory_order_relaxed) > 0)
			nanosleep(&nap, NULL);
	}
}

static size_t piece_of(const struct bb_group *group, const struct bb_call *call)
{
	if (!(call->collective->flags & BB_REDUCES))
		return WHOLE_BYTES;
	if (!group->port.one_host)
		return FAR_PIECE_BYTES;
	return group->crowded ? CROWDED_PIECE_BYTES : PIECE_BYTES;
}

static bb_status start_send(struct bb_group *group, int peer, int channel, const void *data,
			    size_t bytes, union bb_request *request)
{
	struct bb_context *context = group->port.rank->context;

	if (bytes > INT_MAX)
		return bb_fail(context->cpu.error, BB_EUNSUPPORTED,
			       "a piece of a message has %zu bytes, more than MPI can count",
			       bytes);
	return bb_mpi_check(context, "MPI_Isend",
			    MPI_Isend(data, (int)bytes, MPI_BYTE, peer, channel, group->messages,
				      request_of(request)));
}

static bb_status start_receive(struct bb_group *group, int peer, int channel, void *data,
			       size_t bytes, union bb_request *request)
{
	return bb_mpi_check(group->port.rank->context, "MPI_Irecv",
			    MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, channel, group->messages,
				      request_of(request)));
}

static bool is_taken(struct bb_group *group, union bb_request *request)
{
	int done;

	return MPI_Test(request_of(request), &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
}

static bb_status wait_sent(struct bb_group *group, union bb_request *request)
{
	return bb_mpi_await(group->port.rank->context, request_of(request), MPI_STATUS_IGNORE);
}

static bb_status wait_received(struct bb_group *group, union bb_request *request, size_t bytes)
{
	MPI_Status message;
	int length;
	const bb_status status =
		bb_mpi_await(group->port.rank->context, request_of(request), &message);

	if (status != BB_OK)
		return status;
	if (MPI_Get_count(&message, MPI_BYTE, &length) != MPI_SUCCESS || (size_t)length != bytes)
		return BB_EINTERNAL;
	return BB_OK;
}

const struct bb_port_calls bb_mpi_port_calls = {
	.send = start_send,
	.receive = start_receive,
	.taken = is_taken,
	.wait_sent = wait_sent,
	.wait_received = wait_received,
	.piece = piece_of,
	.native = bb_mpi_native,
	.native_tmp_bytes = bb_mpi_native_tmp_bytes,
};
