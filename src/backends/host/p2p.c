/*
 * Messages between ranks that share memory, for the executor and for queues: the sender publishes
 * the address of its data, the receiver reads it there and acknowledges. Data that fits into the
 * slot is sent in it.
 */
#include "backends/host/host.h"

#include "core/clock.h"

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

/* Time at which a message of BYTES has passed this rank's outgoing and PEER's incoming port. */
static double cross_ports(const struct bb_group *group, int peer, size_t bytes)
{
	const struct bb_context *c = group->rank->context;
	const int *members = group->team->members, first = c->cpu.world.first_rank;
	const double seconds = (double)bytes / c->cpu.config.link_rate;
	const double left =
		use_port(&c->ports[members[group->me] - first].out, bb_clock_now(), seconds);

	return use_port(&c->ports[members[peer] - first].in,
			left - seconds + c->cpu.config.link_latency, seconds);
}

/* Time at which a message of BYTES to PEER has crossed its paced link; 0: not paced. */
static double crossing_time(struct bb_group *group, int peer, size_t bytes)
{
	const struct bb_backend_config *config = &group->rank->context->cpu.config;
	double start;

	if (config->link_rate == 0)
		return 0;
	if (config->link_port)
		return cross_ports(group, peer, bytes);
	start = bb_clock_now();
	if (start < group->link_free[peer])
		start = group->link_free[peer];
	group->link_free[peer] = start + (double)bytes / config->link_rate;
	return group->link_free[peer] + config->link_latency;
}

static bb_status host_send(void *port, int peer, int channel, const void *data, size_t bytes,
			   uint32_t *ticket, bool *lent)
{
	struct bb_group *group = port;
	struct bb_context *context = group->rank->context;
	struct bb_bell *bells = group->team->bells;
	struct bb_pipe *pipe = pipe_of(group, group->me, peer, channel);
	uint32_t number = ++group->sent[peer * BB_CHANNELS + channel];
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
	uint32_t number = ++group->received[peer * BB_CHANNELS + channel];
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
	const uint32_t number = group->received[peer * BB_CHANNELS + channel];
	const double ready_at = pipe->slots[number % BB_SLOTS].ready_at;

	if (ready_at != 0)
		bb_clock_pause(ready_at - bb_clock_now(), &group->rank->context->cpu.aborted);
	bb_host_signal(group->rank->context, &group->team->bells[peer], &pipe->taken, number);
}

static bool host_taken(void *port, int peer, int channel, uint32_t ticket)
{
	const struct bb_group *group = port;
	struct bb_pipe *pipe = pipe_of(group, group->me, peer, channel);

	return bb_reached(atomic_load_explicit(&pipe->taken, memory_order_acquire), ticket);
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
	.taken = host_taken,
	.wait_taken = host_wait_taken,
};

/* ---- messages of queues ------------------------------------------------------------------ */

static bb_status pass_out(struct bb_group *group, const struct bb_message *m)
{
	uint32_t ticket;
	bool lent;
	bb_status status = host_send(group, *m->to, 0, m->out, m->bytes, &ticket, &lent);

	return status == BB_OK ? host_wait_taken(group, *m->to, 0, ticket) : status;
}

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

/* The next message from PEER; NULL: not sent yet. */
static const struct bb_slot *next_slot(const struct bb_group *group, int peer)
{
	const uint32_t number = group->received[peer * BB_CHANNELS] + 1;
	struct bb_slot *slot = &pipe_of(group, peer, group->me, 0)->slots[number % BB_SLOTS];

	return bb_reached(atomic_load(&slot->sequence), number) ? slot : NULL;
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
		const int peer = (group->heard + i) % n;
		const struct bb_slot *slot = next_slot(group, peer);

		if (!slot || (first >= 0 && slot->ready_at >= ready_at))
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

static bb_status pass_in_any(struct bb_group *group, const struct bb_message *m)
{
	bb_status status = bb_host_wait_for(group->rank->context, &group->team->bells[group->me],
					    any_has_arrived, group);

	if (status != BB_OK)
		return status;
	group->heard = find_first(group);
	status = pass_in(group, group->heard, m);
	if (status == BB_OK)
		*m->source = group->heard;
	return status;
}

bb_status bb_host_message(const struct bb_message *message)
{
	struct bb_group *group = message->group;

	switch (message->kind) {
	case BB_MESSAGE_SEND:
		return pass_out(group, message);
	case BB_MESSAGE_RECV:
		return pass_in(group, message->from, message);
	case BB_MESSAGE_RECV_ANY:
		break;
	}
	return pass_in_any(group, message);
}
