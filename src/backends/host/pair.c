/*
 * Routes between two ranks: one copies from or to the other's memory, or both copy through a bounce
 * buffer, piece by piece. Also pings of 8 bytes.
 */
#include "backends/host/host.h"

#include "core/clock.h"

#include <string.h>

#define PIECE ((size_t)128 << 10) /* of a staged transfer: two of them stay in an L2 */
#define PLACES 4                  /* pieces in flight */

enum route_kind { READ, WRITE, STAGED, WORD, MESSAGE };

static const struct bb_route routes[] = {
	[READ] = {.name = "read",
		  .brief = "the target copies from the source's memory",
		  .uses = BB_ROUTE_TRANSFER,
		  .actor = BB_BY_TARGET,
		  .direct = true},
	[WRITE] = {.name = "write",
		   .brief = "the source copies into the target's memory",
		   .uses = BB_ROUTE_TRANSFER,
		   .actor = BB_BY_SOURCE,
		   .direct = true},
	[STAGED] =
		{.name = "staged",
		 .brief = "the source copies into a bounce buffer, the target out of it, in pieces",
		 .uses = BB_ROUTE_TRANSFER,
		 .actor = BB_BY_BOTH},
	[WORD] = {.name = "word",
		  .brief = "each end spins on a word that the other writes",
		  .uses = BB_ROUTE_PING,
		  .actor = BB_BY_BOTH,
		  .direct = true},
	[MESSAGE] = {.name = "message",
		     .brief = "a small message, as collectives send them",
		     .uses = BB_ROUTE_PING,
		     .actor = BB_BY_BOTH},
	{.name = NULL},
};

static enum route_kind route_kind_of(const struct bb_route *route)
{
	return (enum route_kind)(route - routes);
}

static const char *route_refuses(struct bb_group *group, const struct bb_route *route, int peer)
{
	if (group->rank->context->ports)
		return "routes are paced by links, not by ports";
	if (peer == group->me && route_kind_of(route) != READ && route_kind_of(route) != WRITE)
		return "a rank has no bounce buffer for itself and pings only others";
	return NULL;
}

static bb_status route_share(struct bb_rank *rank, void *memory, size_t bytes,
			     struct bb_token *token)
{
	memset(token, 0, sizeof(*token));
	memcpy(token->bytes, &memory, sizeof(memory));
	return BB_OK;
}

static bb_status route_reach(struct bb_group *group, int peer, const struct bb_token *token,
			     void **theirs, struct bb_error *error)
{
	memcpy(theirs, token->bytes, sizeof(*theirs));
	return BB_OK;
}

static void route_unreach(struct bb_group *group, int peer, void *theirs)
{
}

/* ---- pacing ------------------------------------------------------------------------------ */

static double slowness(const struct bb_group *group, int from, int to)
{
	const int *members = group->team->members;

	return bb_route_slowness(&group->rank->context->cpu.config, members[from], members[to]);
}

/* Wait until a paced link would have carried BYTES, sent FROM to TO since START. ALONE: the peer
   does not need this core meanwhile. */
static void pace(const struct bb_group *group, int from, int to, size_t bytes, double start,
		 bool alone)
{
	struct bb_context *context = group->rank->context;
	const struct bb_backend_config *c = &context->cpu.config;
	const double slow = slowness(group, from, to);
	double until = 0, now;

	if (bytes == 0 || from == to || (c->link_rate == 0 && slow == 0))
		return;
	now = bb_clock_now();
	if (c->link_rate != 0)
		until = start + (double)bytes / c->link_rate + c->link_latency;
	if (until < now)
		until = now;
	until += slow * (until - start);
	(alone ? bb_clock_hold : bb_clock_pause)(until - now, &context->cpu.aborted);
}

/* ---- transfers --------------------------------------------------------------------------- */

static void copy(const struct bb_group *group, void *dst, const void *src, size_t bytes, size_t all)
{
	const struct bb_context *c = group->rank->context;

	c->cpu.kernels->copy(&dst, 1, src, bytes, bb_cpu_streams(&c->cpu, 2 * all, 1));
}

/* One end of a staged transfer: bytes put into its own buffer and got from the other's. */
struct staging {
	struct bb_group *group;
	int peer;
	size_t put, got;
	uint32_t tickets[PLACES];
};

static size_t piece(size_t bytes, size_t done)
{
	return bytes - done < PIECE ? bytes - done : PIECE;
}

/* Put the next piece of OUT; waits until the peer has read the last piece in its place. */
static bb_status put_piece(struct staging *s, const struct bb_half *out)
{
	const size_t number = s->put / PIECE, bytes = piece(out->bytes, s->put);
	char *place = s->group->bounce + number % PLACES * PIECE;
	bb_status status = BB_OK;
	bool lent;

	if (number >= PLACES)
		status = bb_host_p2p.wait_taken(s->group, s->peer, 0, s->tickets[number % PLACES]);
	if (status != BB_OK)
		return status;
	copy(s->group, place, (char *)out->mine + s->put, bytes, bytes);
	s->put += bytes;
	return bb_host_p2p.send(s->group, s->peer, 0, place, bytes, &s->tickets[number % PLACES],
				&lent);
}

static bb_status get_piece(struct staging *s, const struct bb_half *in)
{
	const size_t bytes = piece(in->bytes, s->got);
	const void *data;
	bb_status status = bb_host_p2p.recv(s->group, s->peer, 0, bytes, &data);

	if (status != BB_OK)
		return status;
	copy(s->group, (char *)in->mine + s->got, data, bytes, in->bytes);
	bb_host_p2p.release(s->group, s->peer, 0);
	s->got += bytes;
	return BB_OK;
}

/* The directions alternate, so that neither end waits for a piece that the other cannot send. */
static bb_status stage(struct bb_group *group, int peer, const struct bb_half *out,
		       const struct bb_half *in)
{
	struct staging s = {.group = group, .peer = peer};
	bb_status status = BB_OK;

	if (out->bytes && !group->bounce)
		status = bb_cpu_alloc(group->rank, PLACES * PIECE, (void **)&group->bounce);
	while (status == BB_OK && (s.put < out->bytes || s.got < in->bytes)) {
		if (s.put < out->bytes)
			status = put_piece(&s, out);
		if (status == BB_OK && s.got < in->bytes)
			status = get_piece(&s, in);
	}
	/* The buffer is free again when the peer has read the last pieces. */
	for (size_t i = 0; i < PLACES && i * PIECE < out->bytes && status == BB_OK; i++)
		status = bb_host_p2p.wait_taken(group, peer, 0, s.tickets[i]);
	return status;
}

void bb_host_bounce_free(struct bb_group *group)
{
	bb_cpu_release(group->rank, group->bounce, PLACES * PIECE);
}

static bb_status route_transfer(struct bb_group *group, const struct bb_route *route, int peer,
				const struct bb_half *out, const struct bb_half *in)
{
	const double start = bb_clock_now();
	const bool alone = out->bytes == 0 || in->bytes == 0;
	bb_status status = BB_OK;

	switch (route_kind_of(route)) {
	case READ:
		if (in->bytes)
			copy(group, in->mine, in->theirs, in->bytes, in->bytes);
		pace(group, peer, group->me, in->bytes, start, alone);
		break;
	case WRITE:
		if (out->bytes)
			copy(group, out->theirs, out->mine, out->bytes, out->bytes);
		pace(group, group->me, peer, out->bytes, start, alone);
		break;
	default:
		status = stage(group, peer, out, in);
		pace(group, peer, group->me, in->bytes, start, alone);
	}
	return status;
}

/* ---- words ------------------------------------------------------------------------------- */

/* Each end has a word that only the other writes: the number of the round. */
static bb_status ping_word(struct bb_group *group, int peer, bool first, size_t rounds)
{
	struct bb_host_team *team = group->team;
	struct bb_context *context = group->rank->context;
	atomic_uint *theirs =
		&team->words[(size_t)peer * (size_t)team->n + (size_t)group->me].count;
	atomic_uint *mine = &team->words[(size_t)group->me * (size_t)team->n + (size_t)peer].count;
	struct bb_bell *bells = team->bells;
	uint32_t sent = atomic_load_explicit(theirs, memory_order_relaxed);
	uint32_t received = group->words[peer];
	bb_status status = BB_OK;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			bb_host_signal(context, &bells[peer], theirs, ++sent);
		status = bb_host_wait(context, &bells[group->me], mine, ++received);
		if (!first)
			bb_host_signal(context, &bells[peer], theirs, ++sent);
	}
	group->words[peer] = received;
	return status;
}

static bb_status send_word(struct bb_group *group, int peer)
{
	const uint64_t word = 0;
	uint32_t ticket;
	bool lent;

	return bb_host_p2p.send(group, peer, 0, &word, sizeof(word), &ticket, &lent);
}

static bb_status ping_message(struct bb_group *group, int peer, bool first, size_t rounds)
{
	bb_status status = BB_OK;
	const void *data;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = send_word(group, peer);
		if (status == BB_OK)
			status = bb_host_p2p.recv(group, peer, 0, sizeof(uint64_t), &data);
		if (status == BB_OK)
			bb_host_p2p.release(group, peer, 0);
		if (status == BB_OK && !first)
			status = send_word(group, peer);
	}
	return status;
}

/* Pace pings: messages are delayed by their own link, words here, all rounds at once. */
static void pace_words(struct bb_group *group, const struct bb_route *route, int peer,
		       size_t rounds, double start)
{
	const struct bb_backend_config *c = &group->rank->context->cpu.config;
	const double one_way = 0.5 * (bb_clock_now() - start);
	const double link = route_kind_of(route) == WORD ? c->link_latency * (double)rounds : 0;
	const double wait = 2 * link + slowness(group, group->me, peer) * (one_way + link) +
			    slowness(group, peer, group->me) * (one_way + link);

	if (wait > 0)
		bb_clock_pause(wait, &group->rank->context->cpu.aborted);
}

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	const double start = bb_clock_now();
	bb_status status = route_kind_of(route) == WORD ? ping_word(group, peer, first, rounds)
							: ping_message(group, peer, first, rounds);

	if (status == BB_OK)
		pace_words(group, route, peer, rounds, start);
	return status;
}

const struct bb_routes bb_host_routes = {
	.list = routes,
	.refuses = route_refuses,
	.share = route_share,
	.reach = route_reach,
	.unreach = route_unreach,
	.transfer = route_transfer,
	.ping = route_ping,
};
