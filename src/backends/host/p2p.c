/*
 * Messages between ranks that share memory: the sender lays out where its data is, the receiver
 * reads it there and says when it is done. What fits into the slot travels in it.
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

/* When a message of BYTES to PEER has crossed a paced link; 0: not paced. */
static double crossing_time(struct bb_group *group, int peer, size_t bytes)
{
	const struct bb_backend_config *config = &group->rank->context->config;
	double start;

	if (config->link_rate == 0)
		return 0;
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
	slot->bytes = (uint32_t)bytes;
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
	if (slot->bytes != (uint32_t)bytes)
		return BB_EINTERNAL;
	*data = bytes <= BB_INLINE_BYTES ? slot->inlined : slot->data;
	return BB_OK;
}

/* Over a paced link the data crosses while it is read: both are done when the slower one is. */
static void host_release(void *port, int peer, int channel)
{
	struct bb_group *group = port;
	struct bb_pipe *pipe = pipe_of(group, peer, group->me, channel);
	const uint32_t number = group->received[peer * BB_CHANNELS + channel];
	const double ready_at = pipe->slots[number % BB_SLOTS].ready_at;

	if (ready_at != 0)
		bb_clock_pause(ready_at - bb_clock_now(), &group->rank->context->aborted);
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
