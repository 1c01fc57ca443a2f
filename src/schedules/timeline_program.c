/*
 * timeline_program.c - a program in virtual time: discrete events. Each queue has at most one ahead
 * of it, the end of its operation or the arrival of its message; what happens first is done first,
 * at the same time by rank and queue.
 */
#include "schedules/seats.h"
#include "schedules/timeline_agenda.h"
#include "schedules/timeline_flows.h"

#include <stdlib.h>
#include <string.h>

enum state {
	IDLE,    /* before its first operation, or past its last */
	BUSY,    /* the operation ends at a time that is known */
	QUEUED,  /* where ways are shared: its message waits until those before it have left */
	LEAVING, /* likewise: its message begins to share its way at a time that is known */
	SHARING, /* its message has left at a time that those who share its way may change */
	COMING,  /* with ports: its message comes to the peer at a time that is known */
	FLYING,  /* its message arrives at a time that is known */
	LANDED,  /* its message waits for the receiver */
	WAITING, /* for an event, a message or other members */
};

#define NONE (-1)

struct queue {
	enum state state;
	size_t index; /* of the operation; then of the next to look at */
	struct bb_operation operation;
	double from, to;     /* of the operation; TO is when the queue's event ahead is */
	int peer;            /* of a message, once it is known */
	int port;            /* with ports: of those that the peer may be reached by */
	double entry;        /* of a message: how long it takes to leave, and to come in, alone */
	struct bb_flow flow; /* of one that may share its way */
	/* The other queues of the line: landed on the same lane, or to leave the same rank. */
	int before, after;
};

struct landed {
	int first, last; /* numbers of queues, NONE */
};

/* A collective of a group that not all members have come to yet. Who is done early may have come to
   the next one already. */
struct meeting {
	struct meeting *next;
	uint64_t number; /* in the group's order */
	int arrived;
	double *done;     /* [member], what the sweep makes of: */
	double entered[]; /* [member]; INFINITY: not yet */
};

struct play {
	struct bb_link_model links;
	const struct bb_program *program;
	const struct bb_timeline_watch *watch;
	struct bb_timeline_performer performer;
	struct bb_error *error;
	struct bb_seats seats;
	struct queue *queues;      /* [rank * queues + queue] */
	struct landed *landed;     /* [rank * lanes + lane]; behind: [rank], what leaves it */
	double *reached;           /* [rank * events + event]; NAN: not yet */
	double *out, *in;          /* [port]: when the way is free again */
	struct bb_flows *flows;    /* over ways that are shared; NULL: none is */
	int **heard;               /* [rank]: [index] who was heard from; NULL: nobody yet */
	unsigned char *queue_of;   /* of each operation: its queue; those of a rank begin at: */
	size_t *first;             /* [rank]; [nranks]: of all */
	uint64_t *calls;           /* [seat]: collectives that it has come to */
	struct meeting **meetings; /* [group] */
	struct bb_choices choices; /* of this play alone, where nobody keeps them */
	struct bb_agenda agenda;   /* of queues */
	double end;
};

static void schedule(struct play *p, int queue, enum state state, double time)
{
	p->queues[queue].state = state;
	p->queues[queue].to = time;
	bb_agenda_set(&p->agenda, queue, time);
}

static int rank_of(const struct play *p, int queue)
{
	return queue / p->program->queues;
}

/* ---- messages ------------------------------------------------------------------------ */

static struct landed *landed_at(const struct play *p, int rank, int lane)
{
	return &p->landed[(size_t)rank * (size_t)p->program->lanes + (size_t)lane];
}

/* The line of QUEUE's rank: the message that leaves, and those behind it. */
static struct landed *leaving_at(const struct play *p, int queue)
{
	return landed_at(p, p->program->nranks, 0) + rank_of(p, queue);
}

static void land(struct play *p, struct landed *landed, int queue)
{
	p->queues[queue].state = LANDED;
	p->queues[queue].before = landed->last;
	p->queues[queue].after = NONE;
	*(landed->last == NONE ? &landed->first : &p->queues[landed->last].after) = queue;
	landed->last = queue;
}

static void lift(struct play *p, struct landed *landed, int queue)
{
	const struct queue *q = &p->queues[queue];

	*(q->before == NONE ? &landed->first : &p->queues[q->before].after) = q->after;
	*(q->after == NONE ? &landed->last : &p->queues[q->after].before) = q->before;
}

/* The queue of RANK, of those in STATE, that deals with OTHER on LANE by ACT, or NONE. */
static int find_queue(const struct play *p, int rank, enum state state, enum bb_act act, int lane,
		      int other)
{
	const int first = rank * p->program->queues;

	for (int queue = first; queue < first + p->program->queues; queue++) {
		const struct queue *q = &p->queues[queue];

		if (q->state == state && q->operation.act == act && q->operation.lane == lane &&
		    (act == BB_ACT_RECV_ANY || q->peer == other))
			return queue;
	}
	return NONE;
}

/* RECEIVER has what SENDER sent: both are done at TIME. */
static bb_status hand_over(struct play *p, int sender, int receiver, double time)
{
	struct queue *r = &p->queues[receiver];
	const int rank = rank_of(p, receiver);

	r->peer = rank_of(p, sender);
	schedule(p, sender, BUSY, time);
	schedule(p, receiver, BUSY, time);
	if (r->operation.act != BB_ACT_RECV_ANY)
		return BB_OK;
	if (!p->heard[rank])
		p->heard[rank] =
			malloc(p->program->length(p->program, rank) * sizeof(*p->heard[rank]));
	if (!p->heard[rank])
		return BB_EINTERNAL;
	p->heard[rank][r->index] = r->peer;
	return BB_OK;
}

/* The way out, or in: a rank has two, within its node and over its rail, or all in one. */
static int port_of(const struct play *p, int rank, bool outside)
{
	return outside ? p->program->nranks + rank : rank;
}

/* When a message that comes at TIME and takes ENTRY is through the way that is free at *FREE. */
static double use_port(double *free, double time, double entry)
{
	*free = (*free > time ? *free : time) + entry;
	return *free;
}

/* The way of QUEUE's rank is free for its message at TIME. */
static void depart(struct play *p, int queue, double time)
{
	schedule(p, queue, LEAVING,
		 time + p->links.fabric->overhead * p->queues[queue].flow.factor);
}

/* After those of its rank that leave before it. */
static void queue_up(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	struct landed *line = leaving_at(p, queue);
	const bool first = line->first == NONE;

	land(p, line, queue);
	q->state = QUEUED;
	if (first)
		depart(p, queue, q->from);
}

/* The message of QUEUE has left: the next one may. */
static void leave(struct play *p, int queue)
{
	const struct queue *q = &p->queues[queue];
	struct landed *line = leaving_at(p, queue);
	const double time = q->to;

	if (q->state == SHARING)
		bb_flows_leave(p->flows, queue, time);
	lift(p, line, queue);
	schedule(p, queue, COMING, time + q->flow.way.latency * q->flow.factor);
	if (line->first != NONE)
		depart(p, line->first, time);
}

/* What takes of the way by itself is over: now it shares it. */
static void join(struct play *p, int queue)
{
	const struct queue *q = &p->queues[queue];

	if (q->flow.bytes > 0)
		bb_flows_join(p->flows, queue, &q->flow, q->to);
	else
		leave(p, queue);
}

static void change_end(void *own, int queue, double end)
{
	schedule(own, queue, SHARING, end);
}

static void send(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	const int rank = rank_of(p, queue);
	uint64_t drawn = bb_draw(bb_draw(p->links.seed, 2), (uint64_t)rank);
	double factor = bb_noise_factor(&p->links, bb_draw(drawn, q->index)), entry;
	const double bytes = (double)bb_operation_bytes(&q->operation);
	struct bb_fabric_way way;

	q->peer = q->operation.peer;
	if (q->peer == BB_NO_PEER)
		q->peer = p->heard[rank][q->operation.answers];
	way = bb_link_way(&p->links, rank, q->peer);
	entry = bb_way_entry(&p->links, way.second_per_byte, bytes);
	q->entry = entry * factor;
	q->port = port_of(p, q->peer, way.outside);
	q->flow = (struct bb_flow){rank, q->peer, way, bytes, factor};
	/* The message before has been received: the link is free. */
	if (!bb_link_ports(&p->links))
		schedule(p, queue, FLYING, q->from + (entry + way.latency) * factor);
	else if (p->flows && way.outside)
		queue_up(p, queue);
	else
		schedule(p, queue, COMING,
			 use_port(&p->out[port_of(p, rank, way.outside)], q->from, q->entry) -
				 q->entry + way.latency * factor);
}

/* The message of QUEUE is at its peer's port: its first byte, where its way was shared its last. */
static void come_in(struct play *p, int queue)
{
	const struct queue *q = &p->queues[queue];
	const bool last = p->flows && q->flow.way.outside;

	schedule(p, queue, FLYING,
		 use_port(&p->in[q->port], last ? q->to - q->entry : q->to, q->entry));
}

static bb_status arrive(struct play *p, int queue)
{
	const struct queue *q = &p->queues[queue];
	const int rank = rank_of(p, queue), lane = q->operation.lane;
	int receiver = find_queue(p, q->peer, WAITING, BB_ACT_RECV, lane, rank);

	if (receiver == NONE)
		receiver = find_queue(p, q->peer, WAITING, BB_ACT_RECV_ANY, lane, rank);
	if (receiver != NONE)
		return hand_over(p, queue, receiver, q->to);
	land(p, landed_at(p, q->peer, lane), queue);
	return BB_OK;
}

static bb_status receive(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	const int rank = rank_of(p, queue), lane = q->operation.lane;
	struct landed *landed = landed_at(p, rank, lane);
	int sender = landed->first;

	q->peer = q->operation.peer;
	if (q->operation.act == BB_ACT_RECV)
		sender = find_queue(p, q->peer, LANDED, BB_ACT_SEND, lane, rank);
	q->state = WAITING;
	if (sender == NONE)
		return BB_OK;
	lift(p, landed, sender);
	return hand_over(p, sender, queue, q->from);
}

/* ---- collectives --------------------------------------------------------------------- */

static int queue_of_seat(const struct play *p, size_t seat)
{
	const int first = p->seats.rank[seat] * p->program->queues;

	for (int queue = first; queue < first + p->program->queues; queue++) {
		const struct queue *q = &p->queues[queue];

		if (q->state == WAITING && q->operation.act == BB_ACT_COLLECTIVE &&
		    q->operation.group == p->seats.group[seat])
			return queue;
	}
	return NONE;
}

/* The meeting that SEAT comes to as its next. NULL without memory. */
static struct meeting *meeting_of(struct play *p, int group, size_t seat)
{
	const size_t size = (size_t)bb_seats_size(&p->seats, group);
	struct meeting **link = &p->meetings[group], *m;

	while (*link && (*link)->number != p->calls[seat])
		link = &(*link)->next;
	if (*link)
		return *link;
	m = malloc(sizeof(*m) + 2 * size * sizeof(double));
	if (!m)
		return NULL;
	*m = (struct meeting){.number = p->calls[seat], .done = m->entered + size};
	for (size_t i = 0; i < size; i++)
		m->entered[i] = INFINITY;
	*link = m;
	return m;
}

static void end_meeting(struct play *p, int group, struct meeting *m)
{
	struct meeting **link = &p->meetings[group];

	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	free(m);
}

/* By a schedule, over the links. The first ranks need no list. */
static bb_status perform(void *own, const struct bb_operation *o, const int *members, int n,
			 uint64_t number, double *times, struct bb_error *error)
{
	const struct play *p = own;
	const size_t element = bb_dtype_size(o->dtype);
	struct bb_link_model links = p->links;
	struct bb_shape shape = {
		.nranks = n, .root = o->root, .in_place = o->in_place, .count = o->count};
	const struct bb_algorithm *algorithm;
	int i = 0;

	while (i < n && members[i] == i)
		i++;
	if (i < n)
		links.members = members;
	algorithm = bb_timeline_choose(&links, p->program->algorithm, o->collective, &shape,
				       element, error);
	if (!algorithm)
		return bb_error_status(error);
	return bb_timeline_collective(&links, algorithm, &shape, element, number, times);
}

/*
 * Who has not come is taken to come never: those whose time is known all the same do not depend on
 * him. What he makes known is later than he comes, so that nothing happens in the past.
 */
static bb_status sweep(struct play *p, const struct bb_operation *o, struct meeting *m)
{
	const size_t first = p->seats.first[o->group];
	const int size = bb_seats_size(&p->seats, o->group);
	const uint64_t number = bb_draw((uint64_t)o->group, m->number);
	bb_status status;

	memcpy(m->done, m->entered, (size_t)size * sizeof(*m->done));
	status = p->performer.perform(p->performer.own, o, &p->seats.rank[first], size, number,
				      m->done, p->error);
	for (size_t i = 0; i < (size_t)size && status == BB_OK; i++) {
		int queue = NONE;

		if (!isinf(m->done[i]) && p->calls[first + i] == m->number + 1)
			queue = queue_of_seat(p, first + i);
		if (queue != NONE)
			schedule(p, queue, BUSY, m->done[i]);
	}
	return status;
}

static bb_status meet(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	const int group = q->operation.group, size = bb_seats_size(&p->seats, group);
	const size_t seat = bb_seats_find(&p->seats, group, rank_of(p, queue));
	struct meeting *m = meeting_of(p, group, seat);
	bb_status status = BB_OK;

	if (!m)
		return BB_EINTERNAL;
	q->state = WAITING;
	p->calls[seat]++;
	m->entered[seat - p->seats.first[group]] = q->from;
	m->arrived++;
	if (m->arrived == size || bb_operation_ends_early(&q->operation))
		status = sweep(p, &q->operation, m);
	if (m->arrived == size)
		end_meeting(p, group, m);
	return status;
}

/* ---- all operations ------------------------------------------------------------------ */

static void record(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	const int rank = rank_of(p, queue), first = rank * p->program->queues;
	const int event = q->operation.event;

	p->reached[(size_t)rank * (size_t)p->program->events + (size_t)event] = q->from;
	schedule(p, queue, BUSY, q->from);
	for (int other = first; other < first + p->program->queues; other++) {
		const struct queue *o = &p->queues[other];

		if (o->state == WAITING && o->operation.act == BB_ACT_WAIT &&
		    o->operation.event == event)
			schedule(p, other, BUSY, q->from);
	}
}

static void wait(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	const size_t event =
		(size_t)rank_of(p, queue) * (size_t)p->program->events + (size_t)q->operation.event;

	if (isnan(p->reached[event]))
		q->state = WAITING;
	else
		schedule(p, queue, BUSY, q->from);
}

static void compute(struct play *p, int queue)
{
	struct queue *q = &p->queues[queue];
	uint64_t drawn = bb_draw(bb_draw(p->links.seed, 3), (uint64_t)rank_of(p, queue));
	double factor = bb_noise_factor(&p->links, bb_draw(drawn, q->index));

	schedule(p, queue, BUSY, q->from + q->operation.seconds * factor);
}

/* Each queue of a rank skips what is of the others: what an operation does is looked at once for
   all of them, and once more by its own. */
static bb_status find_queues(struct play *p)
{
	const int n = p->program->nranks;

	p->first = malloc(((size_t)n + 1) * sizeof(*p->first));
	if (!p->first)
		return BB_EINTERNAL;
	p->first[0] = 0;
	for (int rank = 0; rank < n; rank++)
		p->first[rank + 1] = p->first[rank] + p->program->length(p->program, rank);
	p->queue_of = malloc(p->first[n] + 1);
	if (!p->queue_of)
		return BB_EINTERNAL;
	for (int rank = 0; rank < n; rank++)
		for (size_t i = p->first[rank]; i < p->first[rank + 1]; i++)
			p->queue_of[i] =
				(unsigned char)bb_program_at(p->program, rank, i - p->first[rank])
					.queue;
	return BB_OK;
}

/* QUEUE goes on at TIME with its operation of index FROM or later. */
static bb_status begin(struct play *p, int queue, size_t from, double time)
{
	const int rank = rank_of(p, queue), mine = queue - rank * p->program->queues;
	const unsigned char *queue_of = &p->queue_of[p->first[rank]], *next;
	struct queue *q = &p->queues[queue];

	q->state = IDLE;
	q->from = time;
	q->peer = BB_NO_PEER;
	next = memchr(&queue_of[from], mine, p->first[rank + 1] - p->first[rank] - from);
	if (!next)
		return BB_OK;
	q->index = (size_t)(next - queue_of);
	q->operation = bb_program_at(p->program, rank, q->index);
	switch (q->operation.act) {
	case BB_ACT_COMPUTE:
		compute(p, queue);
		break;
	case BB_ACT_COLLECTIVE:
		return meet(p, queue);
	case BB_ACT_SEND:
		send(p, queue);
		break;
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return receive(p, queue);
	case BB_ACT_RECORD:
		record(p, queue);
		break;
	case BB_ACT_WAIT:
		wait(p, queue);
		break;
	}
	return BB_OK;
}

static bb_status step(struct play *p)
{
	const int queue = bb_agenda_take(&p->agenda);
	const struct queue *q = &p->queues[queue];

	if (q->state == FLYING)
		return arrive(p, queue);
	if (q->state != BUSY) {
		(q->state == LEAVING ? join : q->state == SHARING ? leave : come_in)(p, queue);
		return BB_OK;
	}
	p->end = q->to;
	if (p->watch)
		p->watch->done(p->watch->own, rank_of(p, queue), q->index, &q->operation, q->from,
			       q->to, q->peer);
	return begin(p, queue, q->index + 1, q->to);
}

/* ---- the whole ----------------------------------------------------------------------- */

static bb_status open_flows(struct play *p, size_t queues)
{
	const struct bb_flows_watch watch = {change_end, p};

	if (!p->links.fabric || !bb_fabric_shares_any(p->links.fabric))
		return BB_OK;
	p->flows = bb_flows_open(&p->links, queues, &watch);
	return p->flows ? BB_OK : BB_EINTERNAL;
}

static bb_status make_room(struct play *p)
{
	const struct bb_program *program = p->program;
	const size_t n = (size_t)program->nranks, queues = n * (size_t)program->queues;
	const size_t lanes = n * (size_t)program->lanes, events = n * (size_t)program->events;
	const size_t seats = p->seats.first[program->groups], groups = (size_t)program->groups;

	p->queues = calloc(queues, sizeof(*p->queues));
	p->landed = malloc((lanes + n) * sizeof(*p->landed));
	p->reached = malloc((events + 1) * sizeof(*p->reached));
	p->out = calloc(2 * n, sizeof(*p->out));
	p->in = calloc(2 * n, sizeof(*p->in));
	p->heard = calloc(n, sizeof(*p->heard));
	p->calls = calloc(seats + 1, sizeof(*p->calls));
	p->meetings = calloc(groups + 1, sizeof(struct meeting *));
	if (bb_agenda_open(&p->agenda, queues) != BB_OK || open_flows(p, queues) != BB_OK)
		return BB_EINTERNAL;
	if (!p->queues || !p->landed || !p->reached || !p->out || !p->in || !p->heard ||
	    !p->calls || !p->meetings)
		return BB_EINTERNAL;
	for (size_t i = 0; i < lanes + n; i++)
		p->landed[i] = (struct landed){NONE, NONE};
	for (size_t i = 0; i < events; i++)
		p->reached[i] = NAN;
	return BB_OK;
}

static bb_status play(struct play *p)
{
	const int queues = p->program->nranks * p->program->queues;
	bb_status st;

	BB_TRY(st, bb_seats_make(&p->seats, p->program, p->error), out);
	BB_TRY(st, make_room(p), out);
	BB_TRY(st, find_queues(p), out);
	for (int queue = 0; queue < queues; queue++)
		BB_TRY(st, begin(p, queue, 0, 0), out);
	while (p->agenda.n > 0)
		BB_TRY(st, step(p), out);
out:
	return st;
}

static void let_go(struct play *p)
{
	for (int rank = 0; p->heard && rank < p->program->nranks; rank++)
		free(p->heard[rank]);
	for (int group = 0; p->meetings && group < p->program->groups; group++)
		while (p->meetings[group])
			end_meeting(p, group, p->meetings[group]);
	bb_seats_free(&p->seats);
	free(p->queues);
	bb_agenda_close(&p->agenda);
	bb_flows_close(p->flows);
	free(p->landed);
	free(p->reached);
	free(p->out);
	free(p->in);
	free(p->heard);
	free(p->queue_of);
	free(p->first);
	free(p->calls);
	free(p->meetings);
	bb_choices_free(&p->choices);
}

bb_status bb_timeline_program_by(const struct bb_timeline_performer *performer,
				 const struct bb_link_model *links,
				 const struct bb_program *program,
				 const struct bb_timeline_watch *watch, double *end,
				 struct bb_error *error)
{
	struct play p = {.links = *links, .program = program, .watch = watch, .error = error};
	bb_status status;

	p.performer = performer ? *performer : (struct bb_timeline_performer){perform, &p};
	if (!links->choices)
		p.links.choices = &p.choices;
	status = play(&p);

	if (status == BB_EINTERNAL) /* if no other reason is there yet */
		(void)bb_fail(error, status, "no memory to play a program");
	*end = p.end;
	let_go(&p);
	return status;
}

bb_status bb_timeline_program(const struct bb_link_model *links, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error)
{
	return bb_timeline_program_by(NULL, links, program, watch, end, error);
}
