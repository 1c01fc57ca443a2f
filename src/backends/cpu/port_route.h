/*
 * port_route.h - routes whose both ends act: messages of a port (port.h), alone or in batches, and
 * the rounds of a ping.
 */
#ifndef BB_BACKENDS_CPU_PORT_ROUTE_H
#define BB_BACKENDS_CPU_PORT_ROUTE_H

#include "backends/cpu/port.h"
#include "backends/routes.h"

/* A message of a route that was started. */
struct bb_port_message {
	bool sent; /* or expected */
	size_t bytes;
	union bb_request request;
};

/* One rank's end of such routes in a group. The owner sets what stands before the blank line,
   and zeroes the rest; bb_port_route_close ends it. */
struct bb_port_route {
	const struct bb_port *port;
	const struct bb_cpu_context *context;
	const struct bb_backend_config *config;
	struct bb_error *error;
	int me;
	const int *members; /* [member]: its rank in the world */

	bool batches; /* between begin and end of a batch */
	struct bb_port_message *messages;
	size_t n, room;
};

void bb_port_route_close(struct bb_port_route *route);

/* Sends OUT to PEER and receives IN from it, both at once. Within a batch the messages are only
   started; else both are done on return. */
BB_MUST bb_status bb_port_route_run(struct bb_port_route *route, int peer,
				    const struct bb_half *out, const struct bb_half *in);
/* Begins a batch, or, with END, waits for its messages. */
BB_MUST bb_status bb_port_route_batch(struct bb_port_route *route, bool end);
/* Performs ping of struct bb_routes, slowed down by the links in both directions. */
BB_MUST bb_status bb_port_route_ping(struct bb_port_route *route, int peer, bool first,
				     size_t rounds);

/* Delays a transfer FROM … TO that began at START by the slowness of that link. */
void bb_port_route_slow_down(const struct bb_port_route *route, int from, int to, double start);

#endif
