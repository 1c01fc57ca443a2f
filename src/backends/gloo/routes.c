/*
 * The route between two ranks: messages of Gloo.
 */
#include "backends/gloo/gloo.h"

#include "core/clock.h"

static const struct bb_route routes[] = {
	{.name = "message",
	 .brief = "messages of Gloo over TCP, also within a host",
	 .uses = BB_ROUTE_TRANSFER | BB_ROUTE_PING,
	 .actor = BB_BY_BOTH},
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

/* ---- a slow link ------------------------------------------------------------------------- */

/* Delay what began at START and took its way FROM … TO by the slowness of this link. */
static void slow_down(const struct bb_group *group, int from, int to, double start)
{
	const struct bb_context *context = group->rank->context;
	const double slow =
		bb_route_slowness(&context->config, group->members[from], group->members[to]);

	if (slow > 0)
		bb_clock_pause(slow * (bb_clock_now() - start), &context->cpu.aborted);
}

/* ---- transfers and words ----------------------------------------------------------------- */

/* Both directions at once. */
static bb_status exchange(struct bb_group *group, int peer, const struct bb_half *out,
			  const struct bb_half *in)
{
	const uint64_t slot = bb_gloo_slot(BB_GLOO_ROUTES, 0);
	struct bb_gloo_mesh *const mesh = group->member->mesh;
	struct bb_gloo_request *sent = NULL, *received = NULL;
	char why[BB_GLOO_WHY];

	if (bb_gloo_aborted(group->rank->context))
		return BB_ETIMEOUT;
	if ((in->bytes == 0 ||
	     bb_gloo_receive(mesh, peer, slot, in->mine, in->bytes, &received, why)) &&
	    (out->bytes == 0 ||
	     bb_gloo_send(mesh, peer, slot, out->mine, out->bytes, &sent, why)) &&
	    (!received || bb_gloo_wait_received(received, NULL, why)) &&
	    (!sent || bb_gloo_wait_sent(sent, NULL, why)))
		return BB_OK;
	return bb_gloo_failed(group->rank, "exchanging messages of a route", why);
}

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	const double start = bb_clock_now();
	const bb_status status = exchange(group, peer, out, in);

	if (in->bytes > 0)
		slow_down(group, peer, group->me, start);
	return status;
}

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	static const struct bb_half nothing = {.bytes = 0};
	uint64_t word = 0;
	const struct bb_half half = {.mine = &word, .bytes = sizeof(word)};
	const double start = bb_clock_now();
	bb_status status = BB_OK;
	double half_way;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = exchange(group, peer, &half, &nothing);
		if (status == BB_OK)
			status = exchange(group, peer, &nothing, &half);
		if (status == BB_OK && !first)
			status = exchange(group, peer, &half, &nothing);
	}
	half_way = 0.5 * (start + bb_clock_now());
	slow_down(group, group->me, peer, half_way);
	slow_down(group, peer, group->me, half_way);
	return status;
}

const struct bb_routes bb_gloo_routes = {
	.list = routes,
	.refuses = route_refuses,
	.share = route_share,
	.reach = route_reach,
	.unreach = route_unreach,
	.transfer = route_transfer,
	.ping = route_ping,
};
