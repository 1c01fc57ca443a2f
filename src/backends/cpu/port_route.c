#include "backends/cpu/port_route.h"

#include "core/array.h"
#include "core/clock.h"

#include <stdlib.h>

#define MOST ((size_t)1 << 30) /* bytes of a message: MPI counts them by an int */
#define CHANNEL 0

/* Start the message of HALF with PEER that begins at AT. */
static bb_status start_message(struct bb_port_route *route, int peer, const struct bb_half *half,
			       size_t at, bool sends)
{
	const struct bb_port *port = route->port;
	struct bb_port_message *m = BB_ARRAY_ADD(route->messages, route->n, route->room);
	char *const data = (char *)half->mine + at;

	if (!m)
		return bb_no_memory(route->error, "messages of a route");
	m->sent = sends;
	m->bytes = half->bytes - at < MOST ? half->bytes - at : MOST;
	return sends ? port->calls->send(port->own, peer, CHANNEL, data, m->bytes, &m->request)
		     : port->calls->receive(port->own, peer, CHANNEL, data, m->bytes, &m->request);
}

static bb_status await_messages(struct bb_port_route *route)
{
	const struct bb_port *port = route->port;
	bb_status status = BB_OK;

	for (size_t i = 0; i < route->n && status == BB_OK; i++) {
		struct bb_port_message *m = &route->messages[i];

		status = m->sent ? port->calls->wait_sent(port->own, &m->request)
				 : port->calls->wait_received(port->own, &m->request, m->bytes);
	}
	route->n = 0;
	return status;
}

bb_status bb_port_route_run(struct bb_port_route *route, int peer, const struct bb_half *out,
			    const struct bb_half *in)
{
	bb_status status = BB_OK;

	for (size_t at = 0; (at < out->bytes || at < in->bytes) && status == BB_OK; at += MOST) {
		if (at < in->bytes)
			status = start_message(route, peer, in, at, false);
		if (at < out->bytes && status == BB_OK)
			status = start_message(route, peer, out, at, true);
		if (!route->batches && status == BB_OK)
			status = await_messages(route);
	}
	return status;
}

bb_status bb_port_route_batch(struct bb_port_route *route, bool end)
{
	route->batches = !end;
	return await_messages(route);
}

static bb_status pass_words(struct bb_port_route *route, int peer, bool first, size_t rounds)
{
	static const struct bb_half nothing = {.bytes = 0};
	uint64_t word = 0;
	const struct bb_half half = {.mine = &word, .bytes = sizeof(word)};
	bb_status status = BB_OK;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = bb_port_route_run(route, peer, &half, &nothing);
		if (status == BB_OK)
			status = bb_port_route_run(route, peer, &nothing, &half);
		if (status == BB_OK && !first)
			status = bb_port_route_run(route, peer, &half, &nothing);
	}
	return status;
}

static void delay(const struct bb_port_route *route, double slow, double start)
{
	if (slow > 0)
		bb_clock_pause(slow * (bb_clock_now() - start), &route->context->aborted);
}

static double slowness(const struct bb_port_route *route, int from, int to)
{
	return bb_route_slowness(route->config, route->members[from], route->members[to]);
}

void bb_port_route_slow_down(const struct bb_port_route *route, int from, int to, double start)
{
	delay(route, slowness(route, from, to), start);
}

/* A ping is half the time on its way there, half on its way back. */
bb_status bb_port_route_ping(struct bb_port_route *route, int peer, bool first, size_t rounds)
{
	const double start = bb_clock_now();
	const bb_status status = pass_words(route, peer, first, rounds);
	const int me = route->me;

	delay(route, 0.5 * (slowness(route, me, peer) + slowness(route, peer, me)), start);
	return status;
}

void bb_port_route_close(struct bb_port_route *route)
{
	free(route->messages);
}
