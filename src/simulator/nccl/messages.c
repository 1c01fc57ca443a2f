/*
 * messages.c - collectives that NCCL makes of ncclSend and ncclRecv, as scheduleP2pTasksToPlan
 * and addP2pToPlan (src/enqueue.cc of NCCL 2.30.7) split them:
 *
 * - A message has one channel, or several once its parts are large. A channel is an SM, which moves
 *   a fixed number of bytes per clock, so few channels do not reach the rate of the links: among 8
 *   ranks a message of up to 64 MiB has 4.
 * - Parts of up to 16 KiB go by LL, which moves as many flags as bytes; others by Simple, chunk by
 *   chunk. A receiver has a chunk later than it was sent.
 * - Over the network a proxy forwards each message; a node has as many channels to a peer as its
 * NIC needs, and fewer where there are many peers.
 *
 * The busiest rank determines the time. In an alltoall, GPUs that share a rail divide it. In a
 * sendrecv only one GPU of a node sends to another node; a gather or scatter uses only the root's
 * rail.
 */
#include "simulator/nccl/model.h"

#include <math.h>

/* The busiest rank. */
struct traffic {
	const struct bb_nccl_constants *c;
	const struct bb_nccl_machine *m;
	double each;            /* bytes of a message */
	double inside, outside; /* peers in its node, and beyond */
	double slot;            /* those whose bytes pass a GPU's slot one way, without NVLinks */
	double nic;             /* rate by which it leaves the node, for all of its messages */
	double channels;        /* of a message */
	double path_delay;      /* of struct bb_nccl_faults */
	bool by_ll;
};

/* ---- channels ------------------------------------------------------------------------- */

/* A message's channels: its share of all channels, and more if it is very large; at most those to a
   peer (ncclTopoGetNchannels, src/graph/paths.cc). */
static double channels_of_message(const struct traffic *t)
{
	const struct bb_nccl_constants *c = t->c;
	const enum bb_nccl_hop over = bb_nccl_slowest_hop(t->m);
	const double chunk = c->messages_chunk[over], part = chunk * c->messages_least[over];
	const double n = t->m->ranks, batches = ceil(n / c->messages_batch);
	double most = t->m->nvlink || n == t->m->nodes ? c->messages_channels : 2, channels;

	if (t->m->nodes > 1) {
		const double nics = fmax(2, ceil(t->m->rank_rate / c->messages_net_rate));

		most = fmin(fmin(most, exp2(ceil(log2(nics)))), c->messages_net_most);
		while (most > 1 && most * batches > c->messages_channels)
			most /= 2;
	}
	channels = most;
	while (channels > 1 && channels * n > c->messages_channels)
		channels /= 2;
	channels = fmax(1, fmin(channels, ceil(t->each / part)));
	while (channels <= most / 2 && t->each / channels > chunk * c->messages_most[over])
		channels *= 2;
	return channels;
}

/* ---- times ---------------------------------------------------------------------------- */

/* Seconds that BYTES of each message take on the busiest of links and channels. */
static double transfer_time(const struct traffic *t, double bytes)
{
	const struct bb_nccl_constants *c = t->c;
	const struct bb_nccl_machine *m = t->m;
	const double sm = c->messages_clock * c->sm_clock * 1e9, all = c->messages_channels;
	const double wire = t->by_ll ? 2 * bytes : bytes, fault = fmax(m->node_fault, 1);
	double time;

	if (m->nvlink)
		time = t->inside * wire * fault / (m->gpu_rate * c->messages_share);
	else
		time = t->slot * wire * fault /
		       (m->gpu_rate * fmin(c->messages_share, m->gpu_share) *
			(m->through_host ? c->host_part : 1));
	if (t->inside > 0)
		time = fmax(time, t->inside * wire / (sm * fmin(all, t->inside * t->channels)));
	if (t->outside > 0) {
		const double channels = fmin(all, t->outside * t->channels);

		time = fmax(time, t->outside * wire / t->nic);
		time = fmax(time, t->outside * wire / (c->messages_net_channel * channels));
	}
	return time;
}

/* Seconds until the first byte has arrived. */
static double message_latency(const struct traffic *t)
{
	const struct bb_nccl_constants *c = t->c;
	const double *base = c->base[BB_NCCL_RING];
	const double *hop = c->hop[BB_NCCL_OVER_NET][BB_NCCL_RING];
	double time = c->messages_base;

	if (!t->by_ll)
		time += base[BB_NCCL_SIMPLE] - base[BB_NCCL_LL];
	if (t->outside > 0) {
		time += t->outside * hop[BB_NCCL_LL] + bb_nccl_plugin(c, t->m) * (t->by_ll ? 1 : 2);
		time += t->by_ll ? 0 : hop[BB_NCCL_SIMPLE] - hop[BB_NCCL_LL];
		time += t->path_delay * hop[t->by_ll ? BB_NCCL_LL : BB_NCCL_SIMPLE];
	}
	return time;
}

double bb_nccl_messages_time(const struct bb_nccl_constants *c, const struct bb_nccl_call *call)
{
	const struct bb_collective *const collective = call->collective;
	const struct bb_nccl_machine *const m = call->machine;
	const struct bb_nccl_faults faults = bb_nccl_faults_of(m, collective, BB_NCCL_ANY);
	const double n = m->ranks, gpus = n / m->nodes;
	const double chunk = c->messages_chunk[bb_nccl_slowest_hop(m)];
	/* What the busiest rank of a gather or scatter, the root, receives or sends. */
	struct traffic t = {.c = c,
			    .m = m,
			    .each = call->bytes / n,
			    .inside = gpus - 1,
			    .outside = n - gpus,
			    .slot = n - 1,
			    .nic = m->rail_rate / fmax(m->taper.root, 1),
			    .path_delay = faults.delay};

	if (collective == &bb_sendrecv) {
		t.each = call->bytes;
		t.inside = gpus > 1;
		t.outside = m->nodes > 1;
		t.slot = 1;
		t.nic = m->rail_rate / fmax(m->taper.sendrecv, 1);
	} else if (collective == &bb_alltoall || collective == &bb_alltoallv) {
		t.nic = m->rank_rate / fmax(m->taper.alltoall, 1);
	} else if (collective != &bb_gather && collective != &bb_scatter) {
		return INFINITY;
	}
	t.nic *= (m->staged ? c->staged_part : 1) / faults.net;
	t.channels = channels_of_message(&t);
	t.by_ll = t.each <= t.channels * c->messages_ll;
	const double time = message_latency(&t) + transfer_time(&t, t.each) +
			    c->messages_stage * transfer_time(&t, fmin(t.each, t.channels * chunk));
	return fmax(time, fmax(bb_nccl_issue(c, m), c->launch) *
				  (1 + c->messages_issue * (t.inside + t.outside)));
}
