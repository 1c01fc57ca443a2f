/*
 * timeline_messages.c - messages of a program: over links of their own, through ports, and over
 * shared links.
 */
#include "simulator/timeline_program.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE BB_NO_QUEUE

/* ---- lines of queues -------------------------------------------------------------------- */

static struct bb_timeline_line *landed_at(const struct bb_timeline *p, int rank, int lane)
{
	return &p->landed[(size_t)rank * (size_t)p->program->lanes + (size_t)lane];
}

/* The line of QUEUE's rank: the message that leaves, and those behind it. */
static struct bb_timeline_line *leaving_at(const struct bb_timeline *p, int queue)
{
	return landed_at(p, p->program->nranks, 0) + bb_timeline_rank(p, queue);
}

static void land(struct bb_timeline *p, struct bb_timeline_line *landed, int queue)
{
	p->queues[queue].state = BB_QUEUE_LANDED;
	p->queues[queue].before = landed->last;
	p->queues[queue].after = NONE;
	*(landed->last == NONE ? &landed->first : &p->queues[landed->last].after) = queue;
	landed->last = queue;
}

static void lift(struct bb_timeline *p, struct bb_timeline_line *landed, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];

	*(q->before == NONE ? &landed->first : &p->queues[q->before].after) = q->after;
	*(q->after == NONE ? &landed->last : &p->queues[q->after].before) = q->before;
}

/* ---- messages --------------------------------------------------------------------------- */

/* The queue of RANK in STATE whose ACT on LANE is with OTHER, or NONE. */
static int find_queue(const struct bb_timeline *p, int rank, enum bb_queue_state state,
		      enum bb_act act, int lane, int other)
{
	const int first = rank * p->program->queues;

	for (int queue = first; queue < first + p->program->queues; queue++) {
		const struct bb_timeline_queue *q = &p->queues[queue];

		if (q->state == state && q->operation.act == act && q->operation.lane == lane &&
		    (act == BB_ACT_RECV_ANY || q->peer == other))
			return queue;
	}
	return NONE;
}

/* RECEIVER has what SENDER sent: both are done at TIME. */
static bb_status hand_over(struct bb_timeline *p, int sender, int receiver, double time)
{
	struct bb_timeline_queue *r = &p->queues[receiver];
	const int rank = bb_timeline_rank(p, receiver);

	r->peer = bb_timeline_rank(p, sender);
	bb_timeline_schedule(p, sender, BB_QUEUE_BUSY, time);
	bb_timeline_schedule(p, receiver, BB_QUEUE_BUSY, time);
	if (r->operation.act != BB_ACT_RECV_ANY)
		return BB_OK;
	if (!p->sources[rank])
		p->sources[rank] =
			malloc(p->program->length(p->program, rank) * sizeof(*p->sources[rank]));
	if (!p->sources[rank])
		return BB_EINTERNAL;
	p->sources[rank][r->index] = r->peer;
	return BB_OK;
}

/* The number of a port of RANK: outside over its rail, else within its node. */
static int port_of(const struct bb_timeline *p, int rank, bool outside)
{
	return outside ? p->program->nranks + rank : rank;
}

/* When a message that is ready at TIME and takes ENTRY has passed the port that is free at *FREE.
 */
static double use_port(double *free, double time, double entry)
{
	*free = (*free > time ? *free : time) + entry;
	return *free;
}

/* The port of QUEUE's rank is free for its message at TIME. */
static void depart(struct bb_timeline *p, int queue, double time)
{
	bb_timeline_schedule(p, queue, BB_QUEUE_LEAVING,
			     time + p->links.fabric->overhead * p->queues[queue].flow.factor);
}

/* The message of QUEUE waits behind those of its rank that leave before it. */
static void queue_up(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	struct bb_timeline_line *line = leaving_at(p, queue);
	const bool first = line->first == NONE;

	land(p, line, queue);
	q->state = BB_QUEUE_QUEUED;
	if (first)
		depart(p, queue, q->from);
}

/* The message of QUEUE has left: the next one may. */
static void leave(struct bb_timeline *p, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];
	struct bb_timeline_line *line = leaving_at(p, queue);
	const double time = q->to;

	if (q->state == BB_QUEUE_SHARING)
		bb_flows_leave(p->flows, queue, time);
	lift(p, line, queue);
	bb_timeline_schedule(
		p, queue, BB_QUEUE_COMING,
		time + bb_route_latency(&p->links, q->flow.route.latency, q->flow.bytes) *
				q->flow.factor);
	if (line->first != NONE)
		depart(p, line->first, time);
}

/* The overhead of QUEUE's message is over: it shares its links from now on. */
static void join(struct bb_timeline *p, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];

	if (q->flow.bytes > 0)
		bb_flows_join(p->flows, queue, &q->flow, q->to);
	else
		leave(p, queue);
}

static void change_end(void *own, int queue, double end)
{
	bb_timeline_schedule(own, queue, BB_QUEUE_SHARING, end);
}

void bb_message_send(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	const int rank = bb_timeline_rank(p, queue);
	uint64_t drawn = bb_draw(bb_draw(p->links.seed, 2), (uint64_t)rank);
	double factor = bb_noise_factor(&p->links, bb_draw(drawn, q->index)), entry, exit, latency;
	const double bytes = (double)bb_operation_bytes(&q->operation);
	struct bb_fabric_route route;

	q->peer = q->operation.peer;
	if (q->peer == BB_NO_PEER)
		q->peer = p->sources[rank][q->operation.answers];
	route = bb_link_route(&p->links, rank, q->peer);
	entry = bb_route_entry(&p->links, route.second_per_byte, bytes);
	q->entry = entry * factor;
	exit = bb_route_exit(&p->links, route.outside, bytes, entry) * factor;
	latency = bb_route_latency(&p->links, route.latency, bytes) * factor;
	q->port = port_of(p, q->peer, route.outside);
	q->flow = (struct bb_flow){rank, q->peer, route, bytes, factor};
	/* The message before has been received: the link is free. */
	if (!bb_link_ports(&p->links))
		bb_timeline_schedule(p, queue, BB_QUEUE_FLYING,
				     q->from + (entry + route.latency) * factor);
	else if (p->flows && route.outside)
		queue_up(p, queue);
	else
		bb_timeline_schedule(
			p, queue, BB_QUEUE_COMING,
			use_port(&p->out[port_of(p, rank, route.outside)], q->from, exit) - exit +
				latency);
}

/* The message of QUEUE has reached its peer's port: its first byte or, on shared links, its last.
 */
static void come_in(struct bb_timeline *p, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];
	const bool last = p->flows && q->flow.route.outside;

	bb_timeline_schedule(p, queue, BB_QUEUE_FLYING,
			     use_port(&p->in[q->port], last ? q->to - q->entry : q->to, q->entry));
}

/* ---- receives that are posted together ---------------------------------------------------- */

/* The state of RANK's posted receive from PEER on LANE; NULL: it never posted several together. */
static unsigned char *posted_for(const struct bb_timeline *p, int rank, int lane, int peer)
{
	unsigned char *posted = p->posted[(size_t)rank * (size_t)p->program->lanes + (size_t)lane];

	return posted ? &posted[peer] : NULL;
}

/* The message of the queue SENDER arrives before its receiver's queue reaches the receive. */
static void take_early(struct bb_timeline *p, unsigned char *posted, int sender, double time)
{
	*posted = BB_POSTED_THERE;
	bb_timeline_schedule(p, sender, BB_QUEUE_BUSY, time);
}

/* The index behind FROM of the next receive that QUEUE posts together with the one before, with
 *O; or SIZE_MAX. */
static size_t next_together(const struct bb_timeline *p, int queue, size_t from,
			    struct bb_operation *o)
{
	const int rank = bb_timeline_rank(p, queue), mine = queue - rank * p->program->queues;
	const unsigned char *queue_of = &p->queue_of[p->first[rank]];
	const size_t rest = p->first[rank + 1] - p->first[rank] - from - 1;
	const unsigned char *next = memchr(&queue_of[from + 1], mine, rest);

	if (!next)
		return SIZE_MAX;
	*o = bb_program_at(p->program, rank, (size_t)(next - queue_of));
	return o->act == BB_ACT_RECV && o->together ? (size_t)(next - queue_of) : SIZE_MAX;
}

/* QUEUE has reached the first of several receives posted together: messages for the others that
   have arrived already are taken, too. */
static bb_status post(struct bb_timeline *p, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];
	const int rank = bb_timeline_rank(p, queue), lane = q->operation.lane;
	struct bb_timeline_line *landed = landed_at(p, rank, lane);
	unsigned char **all = &p->posted[(size_t)rank * (size_t)p->program->lanes + (size_t)lane];
	struct bb_operation o;

	for (size_t i = q->index; (i = next_together(p, queue, i, &o)) != SIZE_MAX;) {
		if (!*all)
			*all = calloc((size_t)p->program->nranks, 1);
		if (!*all)
			return BB_EINTERNAL;
		(*all)[o.peer] = BB_POSTED_OPEN;
	}
	for (int sender = landed->first, after; *all && sender != NONE; sender = after) {
		unsigned char *posted = &(*all)[bb_timeline_rank(p, sender)];

		after = p->queues[sender].after;
		if (*posted != BB_POSTED_OPEN)
			continue;
		lift(p, landed, sender);
		take_early(p, posted, sender, q->from);
	}
	return BB_OK;
}

/* Has the message that QUEUE waits for arrived early? Its posted receive ends. */
static bool was_early(struct bb_timeline *p, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];
	unsigned char *posted =
		posted_for(p, bb_timeline_rank(p, queue), q->operation.lane, q->operation.peer);
	const bool there = *posted == BB_POSTED_THERE;

	*posted = BB_POSTED_NOT;
	return there;
}

static bb_status arrive(struct bb_timeline *p, int queue)
{
	const struct bb_timeline_queue *q = &p->queues[queue];
	const int rank = bb_timeline_rank(p, queue), lane = q->operation.lane;
	int receiver = find_queue(p, q->peer, BB_QUEUE_WAITING, BB_ACT_RECV, lane, rank);
	unsigned char *posted;

	if (receiver == NONE)
		receiver = find_queue(p, q->peer, BB_QUEUE_WAITING, BB_ACT_RECV_ANY, lane, rank);
	if (receiver != NONE)
		return hand_over(p, queue, receiver, q->to);
	posted = posted_for(p, q->peer, lane, rank);
	if (posted && *posted == BB_POSTED_OPEN) {
		take_early(p, posted, queue, q->to);
		return BB_OK;
	}
	land(p, landed_at(p, q->peer, lane), queue);
	return BB_OK;
}

bb_status bb_message_receive(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	const int rank = bb_timeline_rank(p, queue), lane = q->operation.lane;
	struct bb_timeline_line *landed = landed_at(p, rank, lane);
	bb_status status;
	int sender;

	q->peer = q->operation.peer;
	if (q->operation.together && was_early(p, queue)) {
		bb_timeline_schedule(p, queue, BB_QUEUE_BUSY, q->from);
		return BB_OK;
	}
	if (q->operation.act == BB_ACT_RECV && !q->operation.together &&
	    (status = post(p, queue)) != BB_OK)
		return status;
	sender = landed->first;
	if (q->operation.act == BB_ACT_RECV)
		sender = find_queue(p, q->peer, BB_QUEUE_LANDED, BB_ACT_SEND, lane, rank);
	q->state = BB_QUEUE_WAITING;
	if (sender == NONE)
		return BB_OK;
	lift(p, landed, sender);
	return hand_over(p, sender, queue, q->from);
}

bb_status bb_message_advance(struct bb_timeline *p, int queue)
{
	switch (p->queues[queue].state) {
	case BB_QUEUE_LEAVING:
		join(p, queue);
		break;
	case BB_QUEUE_SHARING:
		leave(p, queue);
		break;
	case BB_QUEUE_COMING:
		come_in(p, queue);
		break;
	default:
		return arrive(p, queue);
	}
	return BB_OK;
}

/* ---- room ------------------------------------------------------------------------------- */

bb_status bb_messages_open(struct bb_timeline *p, size_t queues)
{
	const struct bb_flows_watch watch = {change_end, p};
	const size_t n = (size_t)p->program->nranks, lanes = n * (size_t)p->program->lanes;
	const bool shares = bb_link_shares(&p->links);

	p->landed = malloc((lanes + n) * sizeof(*p->landed));
	p->out = calloc(2 * n, sizeof(*p->out));
	p->in = calloc(2 * n, sizeof(*p->in));
	p->sources = calloc(n, sizeof(*p->sources));
	p->posted = calloc(lanes + 1, sizeof(*p->posted));
	if (shares)
		p->flows = bb_flows_open(&p->links, queues, &watch);
	if (!p->landed || !p->out || !p->in || !p->sources || !p->posted || (shares && !p->flows))
		return BB_EINTERNAL;
	for (size_t i = 0; i < lanes + n; i++)
		p->landed[i] = (struct bb_timeline_line){NONE, NONE};
	return BB_OK;
}

void bb_messages_close(struct bb_timeline *p)
{
	for (int rank = 0; p->sources && rank < p->program->nranks; rank++)
		free(p->sources[rank]);
	for (int i = 0; p->posted && i < p->program->nranks * p->program->lanes; i++)
		free(p->posted[i]);
	free(p->posted);
	bb_flows_close(p->flows);
	free(p->landed);
	free(p->out);
	free(p->in);
	free(p->sources);
}
