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

/* No rank accesses another's memory. */
static bb_status route_share(struct bb_rank *rank, void *memory, size_t bytes,
			     struct bb_token *token)
{
	*token = (struct bb_token){.bytes = {0}};
	return BB_OK;
}

static bb_status route_reach(struct bb_group *group, int peer, const struct bb_token *token,
			     void **theirs, struct bb_error *error)
{
	*theirs = NULL;
	return BB_OK;
}

static void route_unreach(struct bb_group *group, int peer, void *theirs)
{
	/* Nothing was reached. */
}

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int peer)
{
	return peer == group->port.me ? "a rank sends no messages to itself" : NULL;
}

const struct bb_routes bb_gloo_routes = {
	.list = routes,
	.refuses = route_refuses,
	.share = route_share,
	.reach = route_reach,
	.unreach = route_unreach,
	.transfer = bb_port_transfer,
	.batch = bb_port_batch,
	.ping = bb_port_ping,
};
