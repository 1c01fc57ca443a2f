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

void bb_mpi_port_init(struct bb_mpi_port *port, struct bb_context *context, MPI_Comm comm)
{
	port->context = context;
	port->comm = comm;
	port->nfree = BB_SENT_MOST;
	for (int i = 0; i < BB_SENT_MOST; i++)
		port->free[i] = (uint32_t)i;
}

bb_status bb_mpi_await(struct bb_mpi_port *port, MPI_Request *request, MPI_Status *message)
{
	const struct timespec nap = {.tv_nsec =
					     port->context->cpu.crowded ? CROWDED_NAP_NS : NAP_NS};
	int done, code;

	for (unsigned i = 1;; i++) {
		code = MPI_Test(request, &done, message);
		if (code != MPI_SUCCESS)
			return bb_mpi_check(port->context, "MPI_Test", code);
		if (done)
			return BB_OK;
		if (i % TESTS == 0 && bb_mpi_aborted(port->context))
			return BB_ETIMEOUT;
		if (i >= TESTS &&
		    atomic_load_explicit(&port->context->cpu.queues, memory_order_relaxed) > 0)
			nanosleep(&nap, NULL);
	}
}

/* ---- how messages are cut --------------------------------------------------------------- */

static size_t wanted_piece(const struct bb_group *group, const struct bb_call *call)
{
	if (!(call->collective->flags & BB_REDUCES))
		return WHOLE_BYTES;
	if (!group->one_host)
		return FAR_PIECE_BYTES;
	return group->crowded ? CROWDED_PIECE_BYTES : PIECE_BYTES;
}

/* As bb_p2p wants it: a multiple of 64, and not too many of them. */
static size_t piece_of(size_t bytes, size_t wanted)
{
	const size_t least = (bytes / BB_PIECES_MOST + 64) & ~(size_t)63;

	return least > wanted ? least : wanted;
}

static size_t mpi_piece(void *port, size_t bytes)
{
	return piece_of(bytes, ((const struct bb_mpi_port *)port)->piece);
}

/* Room for a piece that is lent: what is reduced is no longer than a rank's IN. */
static size_t lent_bytes(const struct bb_group *group, const struct bb_call *call)
{
	const size_t most =
		call->collective->in_count(&call->shape, group->me) * bb_dtype_size(call->dtype);
	const size_t piece = piece_of(most, wanted_piece(group, call));

	if (!(call->collective->flags & BB_REDUCES))
		return 0;
	return ((most < piece ? most : piece) + 63) & ~(size_t)63;
}

static size_t executor_tmp_bytes(const struct bb_call *call, int rank)
{
	return (bb_execute_tmp_bytes(call, rank) + 63) & ~(size_t)63;
}

size_t bb_mpi_schedule_tmp_bytes(const struct bb_group *group, const struct bb_call *call)
{
	return executor_tmp_bytes(call, group->me) + BB_LENT_MOST * lent_bytes(group, call);
}

/* ---- sending ---------------------------------------------------------------------------- */

static bb_status mpi_send(void *argument, int peer, int channel, const void *data, size_t bytes,
			  uint32_t *ticket, bool *lent)
{
	struct bb_mpi_port *port = argument;
	const size_t length = piece_of(bytes, port->piece);
	struct bb_mpi_sent *sent;
	int code = MPI_SUCCESS;

	if (length > INT_MAX)
		return bb_fail(
			port->context->error, BB_EUNSUPPORTED,
			"a message of %zu bytes is too long for %d pieces that MPI can count",
			bytes, BB_PIECES_MOST);
	if (port->nfree == 0)
		return BB_EINTERNAL;
	*lent = true;
	*ticket = port->free[--port->nfree];
	sent = &port->sent[*ticket];
	sent->pieces = sent->taken = 0;
	for (size_t at = 0; at < bytes && code == MPI_SUCCESS; at += length)
		code = MPI_Isend((const char *)data + at,
				 (int)(bytes - at < length ? bytes - at : length), MPI_BYTE, peer,
				 channel, port->comm, &sent->requests[sent->pieces++]);
	return bb_mpi_check(port->context, "MPI_Isend", code);
}

static bool mpi_taken(void *argument, int peer, int channel, uint32_t ticket)
{
	struct bb_mpi_port *port = argument;
	struct bb_mpi_sent *sent = &port->sent[ticket];
	int done = true;

	for (; sent->taken < sent->pieces; sent->taken++)
		if (MPI_Test(&sent->requests[sent->taken], &done, MPI_STATUS_IGNORE) !=
			    MPI_SUCCESS ||
		    !done)
			return false;
	port->free[port->nfree++] = ticket;
	return true;
}

static bb_status mpi_wait_taken(void *argument, int peer, int channel, uint32_t ticket)
{
	struct bb_mpi_port *port = argument;
	struct bb_mpi_sent *sent = &port->sent[ticket];
	bb_status status = BB_OK;

	for (; sent->taken < sent->pieces && status == BB_OK; sent->taken++)
		status = bb_mpi_await(port, &sent->requests[sent->taken], MPI_STATUS_IGNORE);
	if (status == BB_OK)
		port->free[port->nfree++] = ticket;
	return status;
}

/* ---- receiving -------------------------------------------------------------------------- */

static bb_status mpi_expect(void *argument, int peer, int channel, void *dst, size_t bytes)
{
	struct bb_mpi_port *port = argument;
	struct bb_mpi_expected *e = &port->queue[port->expected++ % BB_EXPECTED_MOST];

	if (!dst && bytes > port->lent_bytes)
		return BB_EINTERNAL;
	if (!dst)
		dst = port->lent + port->nlent++ % BB_LENT_MOST * port->lent_bytes;
	*e = (struct bb_mpi_expected){.peer = peer, .channel = channel, .data = dst};
	return bb_mpi_check(
		port->context, "MPI_Irecv",
		MPI_Irecv(dst, (int)bytes, MPI_BYTE, peer, channel, port->comm, &e->request));
}

static bb_status mpi_recv(void *argument, int peer, int channel, size_t bytes, const void **data)
{
	struct bb_mpi_port *port = argument;
	struct bb_mpi_expected *e = &port->queue[port->received++ % BB_EXPECTED_MOST];
	MPI_Status message;
	bb_status status;
	int length;

	if (e->peer != peer || e->channel != channel)
		return BB_EINTERNAL;
	status = bb_mpi_await(port, &e->request, &message);
	if (status != BB_OK)
		return status;
	if (MPI_Get_count(&message, MPI_BYTE, &length) != MPI_SUCCESS || (size_t)length != bytes)
		return BB_EINTERNAL;
	*data = e->data;
	return BB_OK;
}

static void mpi_release(void *argument, int peer, int channel)
{
	/* Its place in the queue, and its data if lent, are reused when the executor expects
	   more. */
}

static const struct bb_p2p p2p = {
	.piece = mpi_piece,
	.expect = mpi_expect,
	.send = mpi_send,
	.recv = mpi_recv,
	.release = mpi_release,
	.taken = mpi_taken,
	.wait_taken = mpi_wait_taken,
};

/* Should final data bypass the caches? That depends on this rank's own buffers. */
static bool streams(const struct bb_group *group, const struct bb_call *call)
{
	const struct bb_context *c = group->rank->context;
	const size_t in = call->collective->in_count(&call->shape, group->me);
	const size_t out = call->collective->out_count(&call->shape, group->me);
	const size_t bytes = 2 * (in > out ? in : out) * bb_dtype_size(call->dtype);

	return bb_cpu_streams(&c->cpu, bytes, c->cpu.ranks);
}

bb_status bb_mpi_schedule(struct bb_group *group, const struct bb_call *call)
{
	struct bb_mpi_port *port = &group->port;
	const struct bb_executor executor = {
		.p2p = &p2p,
		.port = port,
		.rank = group->me,
		.kernels = group->rank->context->cpu.kernels,
		.stream = streams(group, call),
	};

	port->piece = wanted_piece(group, call);
	port->lent = (char *)call->tmp + executor_tmp_bytes(call, group->me);
	port->lent_bytes = lent_bytes(group, call);
	return bb_execute(&executor, call);
}
