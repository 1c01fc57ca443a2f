#include "backends/cpu/port.h"

void bb_port_init(struct bb_port *port, const struct bb_port_calls *calls, void *own)
{
	port->calls = calls;
	port->own = own;
	port->nfree = BB_SENT_MOST;
	for (int i = 0; i < BB_SENT_MOST; i++)
		port->free[i] = (uint32_t)i;
}

/* ---- how messages are cut --------------------------------------------------------------- */

/* As bb_p2p wants it: a multiple of 64, and not too many of them. */
static size_t piece_of(size_t bytes, size_t wanted)
{
	const size_t least = (bytes / BB_PIECES_MOST + 64) & ~(size_t)63;

	return least > wanted ? least : wanted;
}

static size_t port_piece(void *argument, size_t bytes)
{
	return piece_of(bytes, ((const struct bb_port *)argument)->piece);
}

/* Room for a piece that is lent: what is reduced is no longer than a rank's IN. */
static size_t lent_bytes(const struct bb_call *call, int rank, size_t wanted)
{
	const size_t most =
		call->collective->in_count(&call->shape, rank) * bb_dtype_size(call->dtype);
	const size_t piece = piece_of(most, wanted);

	if (!(call->collective->flags & BB_REDUCES))
		return 0;
	return ((most < piece ? most : piece) + 63) & ~(size_t)63;
}

static size_t executor_tmp_bytes(const struct bb_call *call, int rank)
{
	return (bb_execute_tmp_bytes(call, rank) + 63) & ~(size_t)63;
}

size_t bb_port_tmp_bytes(const struct bb_call *call, int rank, size_t piece)
{
	return executor_tmp_bytes(call, rank) + BB_LENT_MOST * lent_bytes(call, rank, piece);
}

double bb_port_cost_bytes(const struct bb_call *call, bool one_host)
{
	if (call->native || !one_host)
		return 0;
	return (double)bb_dtype_size(call->dtype) *
	       bb_algorithm_cost(call->schedule, &call->shape, NULL, NULL);
}

/* ---- sending ---------------------------------------------------------------------------- */

static bb_status port_send(void *argument, int peer, int channel, const void *data, size_t bytes,
			   uint32_t *ticket, bool *lent)
{
	struct bb_port *port = argument;
	const size_t length = piece_of(bytes, port->piece);
	struct bb_port_sent *sent;
	bb_status status = BB_OK;

	if (port->nfree == 0)
		return BB_EINTERNAL;
	*lent = true;
	*ticket = port->free[--port->nfree];
	sent = &port->sent[*ticket];
	sent->pieces = sent->taken = 0;
	for (size_t at = 0; at < bytes && status == BB_OK; at += length)
		status = port->calls->send(port->own, peer, channel, (const char *)data + at,
					   bytes - at < length ? bytes - at : length,
					   &sent->requests[sent->pieces++]);
	return status;
}

static bool port_taken(void *argument, int peer, int channel, uint32_t ticket)
{
	struct bb_port *port = argument;
	struct bb_port_sent *sent = &port->sent[ticket];

	if (!port->calls->taken)
		return false;
	for (; sent->taken < sent->pieces; sent->taken++)
		if (!port->calls->taken(port->own, &sent->requests[sent->taken]))
			return false;
	port->free[port->nfree++] = ticket;
	return true;
}

static bb_status port_wait_taken(void *argument, int peer, int channel, uint32_t ticket)
{
	struct bb_port *port = argument;
	struct bb_port_sent *sent = &port->sent[ticket];
	bb_status status = BB_OK;

	for (; sent->taken < sent->pieces && status == BB_OK; sent->taken++)
		status = port->calls->wait_sent(port->own, &sent->requests[sent->taken]);
	if (status == BB_OK)
		port->free[port->nfree++] = ticket;
	return status;
}

/* ---- receiving -------------------------------------------------------------------------- */

static bb_status port_expect(void *argument, int peer, int channel, void *dst, size_t bytes)
{
	struct bb_port *port = argument;
	struct bb_port_expected *e = &port->queue[port->expected++ % BB_EXPECTED_MOST];

	if (!dst && bytes > port->lent_bytes)
		return BB_EINTERNAL;
	if (!dst)
		dst = port->lent + port->nlent++ % BB_LENT_MOST * port->lent_bytes;
	*e = (struct bb_port_expected){.peer = peer, .channel = channel, .data = dst};
	return port->calls->receive(port->own, peer, channel, dst, bytes, &e->request);
}

static bb_status port_recv(void *argument, int peer, int channel, size_t bytes, const void **data)
{
	struct bb_port *port = argument;
	struct bb_port_expected *e = &port->queue[port->received++ % BB_EXPECTED_MOST];

	if (e->peer != peer || e->channel != channel)
		return BB_EINTERNAL;
	*data = e->data;
	return port->calls->wait_received(port->own, &e->request, bytes);
}

static void port_release(void *argument, int peer, int channel)
{
	/* Its place in the queue, and its data if lent, are reused when the executor expects
	   more. */
}

static const struct bb_p2p p2p = {
	.piece = port_piece,
	.expect = port_expect,
	.send = port_send,
	.recv = port_recv,
	.release = port_release,
	.taken = port_taken,
	.wait_taken = port_wait_taken,
};

/* Should final data bypass the caches? That depends on this rank's own buffers. */
static bool streams(const struct bb_cpu_context *context, const struct bb_call *call, int rank)
{
	const size_t in = call->collective->in_count(&call->shape, rank);
	const size_t out = call->collective->out_count(&call->shape, rank);
	const size_t bytes = 2 * (in > out ? in : out) * bb_dtype_size(call->dtype);

	return bb_cpu_streams(context, bytes, context->ranks);
}

bb_status bb_port_execute(struct bb_port *port, const struct bb_cpu_context *context,
			  const struct bb_call *call, int rank, size_t piece)
{
	const struct bb_executor executor = {
		.p2p = &p2p,
		.port = port,
		.rank = rank,
		.kernels = context->kernels,
		.stream = streams(context, call, rank),
	};

	port->piece = piece;
	port->lent = (char *)call->tmp + executor_tmp_bytes(call, rank);
	port->lent_bytes = lent_bytes(call, rank, piece);
	return bb_execute(&executor, call);
}
