/*
 * The route between two ranks: messages of Gloo.
 */
#include "backends/gloo/gloo.h"

static const struct bb_route routes[] = {
	{.name = "message",
	 .brief = "messages of Gloo over TCP, also within a host",
	 .uses = BB_ROUTE_TRANSFER | BB_ROUTE_PING,
	 .actor = BB_BY_BOTH,
	 .batches = true},
	{.name = NULL},
};

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int peer)
{
	return peer == group->port.me ? "a rank sends no messages to itself" : NULL;
}

const struct bb_routes bb_gloo_routes = {
	.list = routes,
	.refuses = route_refuses,
	.transfer = bb_port_transfer,
	.batch = bb_port_batch,
	.ping = bb_port_ping,
};
