/*
 * Messages between ranks that share memory, for the executor and for queues: the sender publishes
 * the address of its data, the receiver reads it there and acknowledges. Data that fits into the
 * slot is sent in it.
 */
#include "backends/host/host.h"

#include "core/clock.h"

#include <math.h>
#include <string.h>

static struct bb_pipe *pipe_of(const struct bb_group *group, int src, int dst, int channel)
{
	const struct bb_host_team *team = group->team;

	return &team->pipes[((size_t)dst * (size_t)team->n + (size_t)src) * BB_CHANNELS +
			    (size_t)channel];
}

/* Occupy a port, free at *FREE, for SECONDS from START or later; returns the end. */
static double use_port(_Atomic double *free, double start, double seconds)
{
	double before = atomic_load(free), until;

	do
		until = (before > start ? before : start) + seconds;
	while (!atomic_compare_exchange_weak(free, &before, until));
	return until;
}

/* Time at which a message of BYTES to PEER has crossed its paced link, or has passed this rank's
   outgoing and PEER's incoming port; 0: not paced. */
static double crossing_time(struct bb_group *group, int peer, size_t bytes)
{
	const struct bb_context *c = group->rank->context;
	const struct bb_backend_config *config = &c->cpu.config;
	const int *members = group->team->members, first = c->cpu.world.first_rank;
	double *const link_free = &group->peers[peer].link_free;
	double now, seconds, left;

	if (config->link_rate == 0)
		return 0;
	now = bb_clock_now();
	seconds = (double)bytes / config->link_rate;
	if (config->link_port) {
		left = use_port(&c->ports[members[group->me] - first].out, now, seconds);
		return use_port(&c->ports[members[peer] - first].in,
				left - seconds + config->link_latency, seconds);
	}
	*link_free = fmax(now, *link_free) + seconds;
	return *link_free + config->link_latency;
}

static bb_status host_send(void *port, int peer, int channel, const void *data, size_t bytes,
			   uint32_t *ticket, bool *lent)
{
	struct bb_group *group = port;
	struct bb_context *context = group->rank->context;
	struct bb_bell *bells = group->team->bells;
	struct bb_pipe *pipe = pipe_of(group, group->me, peer, channel);
	uint32_t number = ++group->peers[peer].sent[channel];
	struct bb_slot *slot = &pipe->slots[number % BB_SLOTS];
	bb_status status =
		bb_host_wait(context, &bells[group->me], &pipe->taken, number - BB_SLOTS);

	if (status != BB_OK)
		return status;
	slot->bytes = bytes;
	slot->ready_at = crossing_time(group, peer, bytes);
	*ticket = number;
	*lent = bytes > BB_INLINE_BYTES;
	if (*lent)
		slot->data = data;
	else
		memcpy(slot->inlined, data, bytes);
	bb_host_signal(context, &bells[peer], &slot->sequence, number);
	return BB_OK;
}

static bb_status host_recv(void *port, int peer, int channel, size_t bytes, const void **data)
{
	struct bb_group *group = port;
	struct bb_context *context = group->rank->context;
	struct bb_pipe *pipe = pipe_of(group, peer, group->me, channel);
	uint32_t number = ++group->peers[peer].received[channel];
	struct bb_slot *slot = &pipe->slots[number % BB_SLOTS];
	bb_status status =
		bb_host_wait(context, &group->team->bells[group->me], &slot->sequence, number);

	if (status != BB_OK)
		return status;
	if (slot->bytes != bytes)
		return BB_EINTERNAL;
	*data = bytes <= BB_INLINE_BYTES ? slot->inlined : slot->data;
	return BB_OK;
}

/* A paced link carries data while it is read; the message is done when both are. */
static void host_release(void *port, int peer, int channel)
{
	struct bb_group *group = port;
	struct bb_pipe *pipe = pipe_of(group, peer, group->me, channel);
	const uint32_t number = group->peers[peer].received[channel];
	const double ready_at = pipe->slots[number % BB_SLOTS].ready_at;

	if (ready_at != 0)
		bb_clock_pause(ready_at - bb_clock_now(), &group->rank->context->cpu.aborted);
	bb_host_signal(group->rank->context, &group->team->bells[peer], &pipe->taken, number);
}

static bb_status host_wait_taken(void *port, int peer, int channel, uint32_t ticket)
{
	struct bb_group *group = port;
	struct bb_pipe *pipe = pipe_of(group, group->me, peer, channel);

	return bb_host_wait(group->rank->context, &group->team->bells[group->me], &pipe->taken,
			    ticket);
}

const struct bb_p2p bb_host_p2p = {
	.send = host_send,
	.recv = host_recv,
	.release = host_release,
	.wait_taken = host_wait_taken,
};

/* ---- messages of queues ------------------------------------------------------------------ */

static bb_status pass_in(struct bb_group *group, int peer, const struct bb_message *m)
{
	const struct bb_context *c = group->rank->context;
	void *const in = m->in;
	const void *data;
	bb_status status = host_recv(group, peer, 0, m->bytes, &data);

	if (status != BB_OK)
		return status;
	c->cpu.kernels->copy(&in, 1, data, m->bytes,
			     bb_cpu_streams(&c->cpu, 2 * m->bytes, group->team->n));
	host_release(group, peer, 0);
	/* After an abort the release may not have waited for the link. */
	return bb_cpu_aborted(&c->cpu) ? BB_ETIMEOUT : BB_OK;
}

/* The sender of the posted message that arrives first; -1: none. All messages have the same
   length, so no later one overtakes it. Without paced links peers are served in turn, so that
   none starves. */
static int find_first(const struct bb_group *group)
{
	const int n = group->team->n;
	double ready_at = 0;
	int first = -1;

	for (int i = 1; i <= n; i++) {
		const int peer = (group->last_sender + i) % n;
		const uint32_t number = group->peers[peer].received[0] + 1;
		struct bb_slot *slot =
			&pipe_of(group, peer, group->me, 0)->slots[number % BB_SLOTS];

		if (!bb_reached(atomic_load(&slot->sequence), number) ||
		    (first >= 0 && slot->ready_at >= ready_at))
			continue;
		first = peer;
		ready_at = slot->ready_at;
	}
	return first;
}

static bool any_has_arrived(const void *group)
{
	return find_first(group) >= 0;
}

bb_status bb_host_message(const struct bb_message *m)
{
	struct bb_group *group = m->group;
	uint32_t ticket;
	bool lent;
	bb_status status;

	if (m->kind == BB_MESSAGE_RECV)
		return pass_in(group, m->from, m);
	if (m->kind == BB_MESSAGE_SEND) {
		status = host_send(group, *m->to, 0, m->out, m->bytes, &ticket, &lent);
		return status == BB_OK ? host_wait_taken(group, *m->to, 0, ticket) : status;
	}
	status = bb_host_wait_for(group->rank->context, &group->team->bells[group->me],
				  any_has_arrived, group);
	if (status != BB_OK)
		return status;
	group->last_sender = find_first(group);
	status = pass_in(group, group->last_sender, m);
	if (status == BB_OK)
		*m->source = group->last_sender;
	return status;
}

/* ---- routes -------------------------------------------------------------------------- */

/*
 * Routes between two ranks: one copies from or to the other's memory, or both copy through a bounce
 * buffer, piece by piece. Also pings of 8 bytes.
 */

#define PIECE ((size_t)128 << 10) /* of a staged transfer: two of them stay in an L2 */
#define PLACES 4                  /* pieces in flight */

enum route_kind { READ, WRITE, STAGED, WORD, MESSAGE };

static const struct bb_route routes[] = {
	[READ] = {"read", "the target copies from the source's memory", BB_ROUTE_TRANSFER,
		  BB_BY_TARGET, .direct = true},
	[WRITE] = {"write", "the source copies into the target's memory", BB_ROUTE_TRANSFER,
		   BB_BY_SOURCE, .direct = true},
	[STAGED] = {"staged",
		    "the source copies into a bounce buffer, the target out of it, in pieces",
		    BB_ROUTE_TRANSFER, BB_BY_BOTH, .direct = false},
	[WORD] = {"word", "each end spins on a word that the other writes", BB_ROUTE_PING,
		  BB_BY_BOTH, .direct = true},
	[MESSAGE] = {"message", "a small message, as collectives send them", BB_ROUTE_PING,
		     BB_BY_BOTH, .direct = false},
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

/* Wait until a paced link would have carried BYTES since START. ALONE: the peer does not need this
   core meanwhile. */
static void pace(const struct bb_group *group, int peer, size_t bytes, double start, bool alone)
{
	const struct bb_cpu_context *c = &group->rank->context->cpu;
	const struct bb_backend_config *links = &c->config;
	double seconds;

	if (bytes == 0 || peer == group->me || links->link_rate == 0)
		return;
	seconds = start + (double)bytes / links->link_rate + links->link_latency - bb_clock_now();
	(alone ? bb_clock_hold : bb_clock_pause)(seconds, &c->aborted);
}

/* ---- transfers --------------------------------------------------------------------------- */

static void copy(const struct bb_group *group, void *dst, const void *src, size_t bytes, size_t all)
{
	const struct bb_context *c = group->rank->context;

	c->cpu.kernels->copy(&dst, 1, src, bytes, bb_cpu_streams(&c->cpu, 2 * all, 1));
}

static size_t piece(size_t bytes, size_t done)
{
	return bytes - done < PIECE ? bytes - done : PIECE;
}

/* The directions alternate, so that neither end waits for a piece that the other cannot send. */
static bb_status stage(struct bb_group *group, int peer, const struct bb_half *out,
		       const struct bb_half *in)
{
	uint32_t tickets[PLACES] = {0};
	bb_status status = BB_OK;

	if (out->bytes && !group->bounce)
		status = bb_cpu_alloc(group->rank, PLACES * PIECE, (void **)&group->bounce);
	for (size_t at = 0; status == BB_OK && (at < out->bytes || at < in->bytes); at += PIECE) {
		if (at < out->bytes) {
			const size_t number = at / PIECE, bytes = piece(out->bytes, at);
			char *const place = group->bounce + number % PLACES * PIECE;
			uint32_t *const ticket = &tickets[number % PLACES];
			bool lent;

			/* The peer must have read the last piece in this place. */
			if (number >= PLACES)
				BB_TRY(status, host_wait_taken(group, peer, 0, *ticket), end);
			copy(group, place, (char *)out->mine + at, bytes, bytes);
			BB_TRY(status, host_send(group, peer, 0, place, bytes, ticket, &lent), end);
		}
		if (at < in->bytes) {
			const size_t bytes = piece(in->bytes, at);
			const void *data;

			BB_TRY(status, host_recv(group, peer, 0, bytes, &data), end);
			copy(group, (char *)in->mine + at, data, bytes, in->bytes);
			host_release(group, peer, 0);
		}
	}
	/* The buffer is free again when the peer has read the last pieces. */
	for (size_t i = 0; i < PLACES && i * PIECE < out->bytes && status == BB_OK; i++)
		status = host_wait_taken(group, peer, 0, tickets[i]);
end:
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
	const enum route_kind kind = route_kind_of(route);
	const bool alone = out->bytes == 0 || in->bytes == 0;
	bb_status status = BB_OK;

	if (kind == STAGED)
		status = stage(group, peer, out, in);
	else if (kind == READ && in->bytes)
		copy(group, in->mine, in->theirs, in->bytes, in->bytes);
	else if (kind == WRITE && out->bytes)
		copy(group, out->theirs, out->mine, out->bytes, out->bytes);
	pace(group, peer, kind == WRITE ? out->bytes : in->bytes, start, alone);
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
	uint32_t received = group->peers[peer].words;
	bb_status status = BB_OK;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			bb_host_signal(context, &bells[peer], theirs, ++sent);
		status = bb_host_wait(context, &bells[group->me], mine, ++received);
		if (!first)
			bb_host_signal(context, &bells[peer], theirs, ++sent);
	}
	group->peers[peer].words = received;
	return status;
}

static bb_status send_word(struct bb_group *group, int peer)
{
	const uint64_t word = 0;
	uint32_t ticket;
	bool lent;

	return host_send(group, peer, 0, &word, sizeof(word), &ticket, &lent);
}

static bb_status ping_message(struct bb_group *group, int peer, bool first, size_t rounds)
{
	bb_status status = BB_OK;
	const void *data;

	for (size_t i = 0; i < rounds && status == BB_OK; i++) {
		if (first)
			status = send_word(group, peer);
		if (status == BB_OK)
			status = host_recv(group, peer, 0, sizeof(uint64_t), &data);
		if (status == BB_OK)
			host_release(group, peer, 0);
		if (status == BB_OK && !first)
			status = send_word(group, peer);
	}
	return status;
}

static bb_status route_ping(struct bb_group *group, const struct bb_route *route, int peer,
			    bool first, size_t rounds)
{
	const struct bb_cpu_context *c = &group->rank->context->cpu;
	const bool words = route_kind_of(route) == WORD;
	bb_status status = words ? ping_word(group, peer, first, rounds)
				 : ping_message(group, peer, first, rounds);

	/* Messages are delayed by their own link, words here, all rounds at once. */
	if (words && status == BB_OK && c->config.link_latency > 0)
		bb_clock_pause(2 * c->config.link_latency * (double)rounds, &c->aborted);
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
