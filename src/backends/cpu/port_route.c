#include "backends/cpu/port.h"

#include "core/array.h"
#include "core/clock.h"

#define MOST ((size_t)1 << 30) /* bytes of a message: MPI counts them by an int */
#define CHANNEL 0

static struct bb_port *port_of(struct bb_group *group)
{
	return (struct bb_port *)group;
}

/* Start the message of HALF with PEER that begins at AT. */
static bb_status start_message(struct bb_group *group, int peer, const struct bb_half *half,
			       size_t at, bool sends)
{
	struct bb_port *port = port_of(group);
	struct bb_port_message *m = BB_ARRAY_ADD(port->messages, port->nmessages, port->room);
	char *const data = (char *)half->mine + at;

	if (!m)
		return bb_no_memory(bb_cpu_of(port->rank)->error, "messages of a route");
	m->sent = sends;
	m->bytes = half->bytes - at < MOST ? half->bytes - at : MOST;
	return sends ? port->calls->send(group, peer, CHANNEL, data, m->bytes, &m->request)
		     : port->calls->receive(group, peer, CHANNEL, data, m->bytes, &m->request);
}

static bb_status await_messages(struct bb_group *group)
{
	struct bb_port *port = port_of(group);
	bb_status status = BB_OK;

	for (size_t i = 0; i < port->nmessages && status == BB_OK; i++) {
		struct bb_port_message *m = &port->messages[i];

		status = m->sent ? port->calls->wait_sent(group, &m->request)
				 : port->calls->wait_received(group, &m->request, m->bytes);
	}
	port->nmessages = 0;
	return status;
}

/* Send OUT to PEER and receive IN from it, both at once; within a batch only start to. */
static bb_status exchange(struct bb_group *group, int peer, const struct bb_half *out,
			  const struct bb_half *in)
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

static void delay(const struct bb_cpu_context *context, double slow, double start)
{
	if (slow > 0)
		bb_clock_pause(slow * (bb_clock_now() - start), &context->aborted);
}

static double slowness(const struct bb_port *port, int from, int to)
{
	return bb_route_slowness(&bb_cpu_of(port->rank)->config, port->members[from],
				 port->members[to]);
}

void bb_port_slow_down(const struct bb_group *group, int from, int to, double start)
{
	const struct bb_port *port = (const struct bb_port *)group;

	delay(bb_cpu_of(port->rank), slowness(port, from, to), start);
}

bb_status bb_port_transfer(struct bb_group *group, const struct bb_route *route, int peer,
			   const struct bb_half *out, const struct bb_half *in)
{
	const double start = bb_clock_now();
	const bb_status status = exchange(group, peer, out, in);

	if (in->bytes > 0)
		bb_port_slow_down(group, peer, port_of(group)->me, start);
	return status;
}

bb_status bb_port_batch(struct bb_group *group, const struct bb_route *route, bool end)
{
	port_of(group)->batches = !end;
	return await_messages(group);
}

static bb_status pass_words(struct bb_group *group, int peer, bool first, size_t rounds)
{
	static const struct bb_half nothing = {.bytes = 0};
	uint64_t word = 0;
	const struct bb_half half = {.mine = &word, .bytes = sizeof(word)};
	bb_status status = BB_OK;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = exchange(group, peer, &half, &nothing);
		if (status == BB_OK)
			status = exchange(group, peer, &nothing, &half);
		if (status == BB_OK && !first)
			status = exchange(group, peer, &half, &nothing);
	}
	return status;
}

/* A ping is half the time on its way there, half on its way back. */
bb_status bb_port_ping(struct bb_group *group, const struct bb_route *route, int peer, bool first,
		       size_t rounds)
{
	const struct bb_port *port = port_of(group);
	const double start = bb_clock_now();
	const bb_status status = pass_words(group, peer, first, rounds);

	delay(bb_cpu_of(port->rank),
	      0.5 * (slowness(port, port->me, peer) + slowness(port, peer, port->me)), start);
	return status;
}
