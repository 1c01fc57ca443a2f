/*
 * The route between two ranks: messages of Gloo.
 */
#include "backends/gloo/gloo.h"

#include "core/clock.h"

static const struct bb_route routes[] = {
	{.name = "message",
	 .brief = "messages of Gloo over TCP, also within a host",
	 .uses = BB_ROUTE_TRANSFER | BB_ROUTE_PING,
	 .actor = BB_BY_BOTH,
	 .batches = true},
	{.name = NULL},
};

/* ---- memory: nobody accesses another rank's ---------------------------------------------- */

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
	return peer == group->me ? "a rank sends no messages to itself" : NULL;
}

/* ---- transfers and pings ----------------------------------------------------------------- */

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	const double start = bb_clock_now();
	const bb_status status = bb_port_route_run(&group->route, peer, out, in);

	if (in->bytes > 0)
		bb_port_route_slow_down(&group->route, peer, group->me, start);
	return status;
}

static bb_status route_batch(struct bb_group *group, const struct bb_route *route, bool end)
{
	return bb_port_route_batch(&group->route, end);
}

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	return bb_port_route_ping(&group->route, peer, first, rounds);
}

const struct bb_routes bb_gloo_routes = {
	.list = routes,
	.refuses = route_refuses,
	.share = route_share,
	.reach = route_reach,
	.unreach = route_unreach,
	.transfer = route_transfer,
	.batch = route_batch,
	.ping = route_ping,
};
