#include "backends/cpu/port.h"
#include "core/array.h"
#include "core/clock.h"
#include "core/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(offsetof(struct bb_port, rank) == 0 &&
		       offsetof(struct bb_port, turns) == offsetof(struct bb_cpu_group, turns),
	       "begins as bb_cpu_group");

static struct bb_port *port_of(struct bb_group *group)
{
	return (struct bb_port *)group;
}

bb_status bb_port_open(struct bb_port *port, const struct bb_port_calls *calls,
		       struct bb_rank *rank, const int *hosts, const int *members, int n,
		       struct bb_error *error)
{
	port->rank = rank;
	port->calls = calls;
	port->n = n;
	port->nfree = BB_SENT_MOST;
	for (int i = 0; i < BB_SENT_MOST; i++)
		port->free[i] = (uint32_t)i;
	port->one_host = true;
	for (int i = 1; i < n; i++)
		port->one_host &= hosts[members[i]] == hosts[members[0]];
	port->members = calloc((size_t)n, sizeof(*port->members));
	if (!port->members)
		return bb_no_memory(error, "a group");
	memcpy(port->members, members, (size_t)n * sizeof(*members));
	return bb_member_find(members, n, ((const struct bb_cpu_rank *)rank)->rank, &port->me,
			      error);
}

void bb_port_close(struct bb_port *port)
{
	free(port->members);
	free(port->messages);
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
	const size_t most = bb_call_in_bytes(call, rank);
	const size_t piece = piece_of(most, wanted);

	if (!(call->collective->flags & BB_REDUCES))
		return 0;
	return ((most < piece ? most : piece) + 63) & ~(size_t)63;
}

size_t bb_port_tmp_bytes(struct bb_group *group, const struct bb_call *call)
{
	const struct bb_port *port = port_of(group);

	if (call->native)
		return port->calls->native_tmp_bytes(group, call);
	return bb_execute_tmp_bytes(call, port->me) +
	       BB_LENT_MOST * lent_bytes(call, port->me, port->calls->piece(group, call));
}

double bb_port_cost_bytes(struct bb_group *group, const struct bb_call *call)
{
	if (call->native || !port_of(group)->one_host)
		return 0;
	return (double)bb_dtype_size(call->dtype) *
	       bb_algorithm_cost(call->schedule, &call->shape, NULL, NULL);
}

/* ---- schedules -------------------------------------------------------------------------- */

static bb_status port_send(void *argument, int peer, int channel, const void *data, size_t bytes,
			   uint32_t *ticket, bool *lent)
{
	struct bb_port *port = argument;
	const size_t length = piece_of(bytes, port->piece);
	bb_status status = BB_OK;

	if (port->nfree == 0) /* a call that failed before this one kept them */
		return BB_EINTERNAL;
	*lent = true;
	*ticket = port->free[--port->nfree];
	struct bb_port_sent *sent = &port->sent[*ticket];
	sent->pieces = 0;
	for (size_t at = 0; at < bytes && status == BB_OK; at += length)
		status = port->calls->start(argument, true, peer, channel, (char *)data + at,
					    bytes - at < length ? bytes - at : length,
					    &sent->requests[sent->pieces++]);
	return status;
}

static bb_status port_wait_taken(void *argument, int peer, int channel, uint32_t ticket)
{
	struct bb_port *port = argument;
	struct bb_port_sent *sent = &port->sent[ticket];
	bb_status status = BB_OK;

	for (int i = 0; i < sent->pieces && status == BB_OK; i++)
		status = port->calls->wait(argument, true, &sent->requests[i], 0, NULL);
	port->free[port->nfree++] = ticket;
	return status;
}

static bb_status port_expect(void *argument, int peer, int channel, void *dst, size_t bytes)
{
	struct bb_port *port = argument;
	struct bb_port_expected *e = &port->queue[port->expected++ % BB_EXPECTED_MOST];

	if (!dst && bytes > port->lent_bytes)
		return BB_EINTERNAL;
	e->data = dst ? dst : port->lent + port->nlent++ % BB_LENT_MOST * port->lent_bytes;
	return port->calls->start(argument, false, peer, channel, e->data, bytes, &e->request);
}

static bb_status port_recv(void *argument, int peer, int channel, size_t bytes, const void **data)
{
	struct bb_port *port = argument;
	struct bb_port_expected *e = &port->queue[port->received++ % BB_EXPECTED_MOST];

	*data = e->data;
	return port->calls->wait(argument, false, &e->request, bytes, NULL);
}

static const struct bb_p2p p2p = {
	.piece = port_piece,
	.expect = port_expect,
	.send = port_send,
	.recv = port_recv,
	.wait_taken = port_wait_taken,
};

bb_status bb_port_run(struct bb_group *group, const struct bb_call *call)
{
	struct bb_port *port = port_of(group);
	const struct bb_cpu_context *context = bb_cpu_of(port->rank);
	const size_t in = bb_collective_in(call->collective, &call->shape, port->me);
	const size_t out = bb_collective_out(call->collective, &call->shape, port->me);
	const size_t bytes = 2 * (in > out ? in : out) * bb_dtype_size(call->dtype);
	const struct bb_executor executor = {
		.p2p = &p2p,
		.port = port,
		.rank = port->me,
		.kernels = context->kernels,
		/* It depends on this rank's own buffers. */
		.stream = bb_cpu_streams(context, bytes, context->ranks),
	};

	if (bb_cpu_aborted(context))
		return BB_ETIMEOUT;
	if (call->native)
		return port->calls->native(group, call);
	port->piece = port->calls->piece(group, call);
	port->expected = port->received = 0;
	port->lent = (char *)call->tmp + bb_execute_tmp_bytes(call, port->me);
	port->lent_bytes = lent_bytes(call, port->me, port->piece);
	return bb_execute(&executor, call);
}

/* ---- messages of queues ----------------------------------------------------------------- */

#define MOST ((size_t)1 << 30) /* bytes of a message: MPI counts them by an int */

static size_t message_bytes(size_t bytes, size_t at)
{
	return bytes - at < MOST ? bytes - at : MOST;
}

/* A longer message is several of the library's, one after the other. */
bb_status bb_port_pass(const struct bb_message *m)
{
	const struct bb_port *port = port_of(m->group);
	const bool sends = m->kind == BB_MESSAGE_SEND;
	int peer = sends ? *m->to : m->kind == BB_MESSAGE_RECV ? m->from : BB_PORT_ANY;
	char *const data = sends ? (char *)m->out : m->in;
	union bb_request request;
	size_t at = 0;
	bb_status status;

	if (bb_cpu_aborted(bb_cpu_of(port->rank)))
		return BB_ETIMEOUT;
	do { /* one without bytes is a message too */
		const size_t bytes = message_bytes(m->bytes, at);

		BB_TRY(status,
		       port->calls->start(m->group, sends, peer, BB_PORT_QUEUES, data + at, bytes,
					  &request),
		       out);
		status = port->calls->wait(m->group, sends, &request, bytes, &peer);
	} while (status == BB_OK && (at += MOST) < m->bytes);
	if (status == BB_OK && m->kind == BB_MESSAGE_RECV_ANY)
		*m->source = peer;
out:
	return status;
}

/* ---- routes ----------------------------------------------------------------------------- */

#define CHANNEL 0

/* Start the message of HALF with PEER that begins at AT. */
static bb_status start_message(struct bb_group *group, int peer, const struct bb_half *half,
			       size_t at, bool sends)
{
	struct bb_port *port = port_of(group);
	struct bb_port_message *m = BB_ARRAY_ADD(port->messages, port->nmessages, port->room);

	if (!m)
		return bb_no_memory(bb_cpu_of(port->rank)->error, "messages of a route");
	m->sent = sends;
	m->bytes = message_bytes(half->bytes, at);
	return port->calls->start(group, sends, peer, CHANNEL, (char *)half->mine + at, m->bytes,
				  &m->request);
}

static bb_status await_messages(struct bb_group *group)
{
	struct bb_port *port = port_of(group);
	bb_status status = BB_OK;

	for (size_t i = 0; i < port->nmessages && status == BB_OK; i++) {
		struct bb_port_message *m = &port->messages[i];

		status = port->calls->wait(group, m->sent, &m->request, m->bytes, NULL);
	}
	port->nmessages = 0;
	return status;
}

/* Within a batch it only starts both. */
bb_status bb_port_transfer(struct bb_group *group, const struct bb_route *route, int peer,
			   const struct bb_half *out, const struct bb_half *in)
{
	bb_status status = BB_OK;

	for (size_t at = 0; (at < out->bytes || at < in->bytes) && status == BB_OK; at += MOST) {
		if (at < in->bytes)
			status = start_message(group, peer, in, at, false);
		if (at < out->bytes && status == BB_OK)
			status = start_message(group, peer, out, at, true);
		if (!port_of(group)->batches && status == BB_OK)
			status = await_messages(group);
	}
	return status;
}

bb_status bb_port_batch(struct bb_group *group, const struct bb_route *route, bool end)
{
	port_of(group)->batches = !end;
	return await_messages(group);
}

bb_status bb_port_ping(struct bb_group *group, const struct bb_route *route, int peer, bool first,
		       size_t rounds)
{
	static const struct bb_half nothing = {.bytes = 0};
	uint64_t word = 0;
	const struct bb_half half = {.mine = &word, .bytes = sizeof(word)};
	bb_status status = BB_OK;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = bb_port_transfer(group, route, peer, &half, &nothing);
		if (status == BB_OK)
			status = bb_port_transfer(group, route, peer, &nothing, &half);
		if (status == BB_OK && !first)
			status = bb_port_transfer(group, route, peer, &half, &nothing);
	}
	return status;
}

/* ---- clocks ------------------------------------------------------------------------------ */

#define PINGS 10

bool bb_clock_identify(char name[BB_CLOCK_NAME])
{
	char *const space = name + BB_CLOCK_NAME / 2;

	memset(name, 0, BB_CLOCK_NAME);
	return bb_kernel_read("/proc/sys/kernel/random/boot_id", name, BB_CLOCK_NAME / 2) > 0 &&
	       (readlink("/proc/self/ns/time", space, BB_CLOCK_NAME / 2) > 0 ||
		access("/proc/self/ns", R_OK) == 0);
}

/* Answer of a rank that knows its offset. */
struct answer {
	double now;
	double offset;
	double uncertainty;
};

bb_status bb_clock_compare(struct bb_rank *rank, bool one_clock, bb_clock_pass *pass,
			   double *offset, double *uncertainty)
{
	const struct bb_cpu_context *context = bb_cpu_of(rank);
	const int n = one_clock ? 1 : context->world.nranks;
	const int me = ((const struct bb_cpu_rank *)rank)->rank;
	bb_status status = bb_cpu_aborted(context) ? BB_ETIMEOUT : BB_OK;

	*offset = *uncertainty = 0;
	/* Ranks below BIT know their offset; each determines that of one more. */
	for (int bit = 1; bit < n && status == BB_OK; bit *= 2) {
		const bool answers = me < bit && me + bit < n, asks = me >= bit && me < 2 * bit;
		struct answer answer = {.offset = *offset, .uncertainty = *uncertainty};
		double fastest = INFINITY;

		for (int i = 0; i < PINGS && answers; i++) {
			BB_TRY(status, pass(rank, false, me + bit, NULL, 0), out);
			answer.now = bb_clock_now();
			BB_TRY(status, pass(rank, true, me + bit, &answer, sizeof(answer)), out);
		}
		/* The fastest ping is the most precise: the other rank read its clock between its
		   two ends. */
		for (int i = 0; i < PINGS && asks; i++) {
			const double begin = bb_clock_now();

			BB_TRY(status, pass(rank, true, me - bit, NULL, 0), out);
			BB_TRY(status, pass(rank, false, me - bit, &answer, sizeof(answer)), out);
			const double end = bb_clock_now();
			if (end - begin >= fastest)
				continue;
			fastest = end - begin;
			*offset = (begin + end) / 2 - answer.now + answer.offset;
			*uncertainty = fastest / 2 + answer.uncertainty;
		}
	}
out:
	return status;
}
