/*
 * program.c - a program in virtual time, by discrete events. Each queue has at most one
 * event ahead: the end of its operation or a step of its message. The earliest event is next, at
 * equal times the lowest rank and queue. Messages go over links of their own, through ports, or
 * over shared links.
 */
#include "simulator/timeline/links.h"

#include <stdint.h>
#include <string.h>

/* ---- the agenda ----------------------------------------------------------------------- */

/* A queue of events, at most one for each of several items, earliest first; at equal times the
   lowest item first. */
struct agenda {       /* zero-initialise */
	double *time; /* [item], while it is in the heap */
	int *heap;
	int *place; /* [item]: in the heap; -1: it has no event */
	int n;      /* in the heap */
};

#define NOWHERE (-1)

/* For COUNT items without events, in SLABS, which may be lacking then. */
static void agenda_open(struct agenda *a, struct bb_slabs *slabs, size_t count)
{
	BB_TAKE(slabs, a->time, count);
	BB_TAKE(slabs, a->heap, count);
	BB_TAKE(slabs, a->place, count);
	for (size_t i = 0; a->place && i < count; i++)
		a->place[i] = NOWHERE;
}

static bool is_before(const struct agenda *a, int item, int other)
{
	const double x = a->time[item], y = a->time[other];

	return x < y || (x == y && item < other);
}

static void put(struct agenda *a, int at, int item)
{
	a->heap[at] = item;
	a->place[item] = at;
}

/* Place ITEM at AT or further from the top. */
static void sink(struct agenda *a, int at, int item)
{
	for (;;) {
		int child = 2 * at + 1;

		if (child + 1 < a->n && is_before(a, a->heap[child + 1], a->heap[child]))
			child++;
		if (child >= a->n || !is_before(a, a->heap[child], item))
			break;
		put(a, at, a->heap[child]);
		at = child;
	}
	put(a, at, item);
}

/* Set the event of ITEM to TIME; it replaces an earlier one. */
static void agenda_set(struct agenda *a, int item, double time)
{
	const bool later = a->place[item] != NOWHERE && time > a->time[item];
	int at = a->place[item] == NOWHERE ? a->n++ : a->place[item];

	a->time[item] = time;
	if (later) {
		sink(a, at, item);
		return;
	}
	for (; at > 0 && is_before(a, item, a->heap[(at - 1) / 2]); at = (at - 1) / 2)
		put(a, at, a->heap[(at - 1) / 2]);
	put(a, at, item);
}

/* Remove the earliest event, of which there is one; returns its item. */
static int agenda_pop(struct agenda *a)
{
	const int first = a->heap[0], last = a->heap[--a->n];

	if (a->n > 0)
		sink(a, 0, last);
	a->place[first] = NOWHERE;
	return first;
}

/* ---- queues --------------------------------------------------------------------------- */

enum queue_state {
	IDLE, /* before its first operation, or past its last */
	BUSY, /* the operation ends at a known time */
	/* Its message, on shared links: */
	QUEUED,  /* waits until those before it have left */
	LEAVING, /* begins to share its links at a known time */
	SHARING, /* leaves at a time that messages on the same links may change */
	/* and on all links: */
	COMING,  /* with ports: reaches the peer's port at a known time */
	FLYING,  /* arrives at a known time */
	LANDED,  /* waits for the receiver */
	WAITING, /* for an event, a message or other members */
};

/* A message that a rank is to receive from a peer, together with others. */
enum posted {
	POSTED_NOT,   /* or its queue has reached the receive */
	POSTED_OPEN,  /* not arrived yet */
	POSTED_THERE, /* arrived, and its queue has not reached the receive */
};

struct queue {
	int rank;
	enum queue_state state;
	size_t index; /* of the operation */
	struct bb_operation operation;
	double from, to; /* of the operation; TO is also the time of the queue's next event */
	int peer;        /* of a message, once it is known */
	int port;        /* with ports: the peer's port that it arrives at */
	/* Of a message, in seconds: on a port, alone, and from one port to the other. */
	double entry, latency;
	struct bb_flow flow; /* of a message on shared links */
	/* Neighbours in a line: messages landed on the same lane, or leaving the same rank. */
	struct queue *before, *after;
};

struct line {
	struct queue *first, *last; /* NULL: none is in it */
};

/* Of a rank. */
struct lane {
	struct line landed;
	unsigned char *posted; /* [peer]: enum posted; NULL: several were never posted together */
};

/* A collective that not all members of its group have reached yet. Members that are done early may
   have reached the next one already. */
struct meeting {
	struct meeting *next;
	uint64_t number; /* in the group's order */
	int arrived;
	bool whole; /* no member is done before all have arrived */
	bool due;   /* its event is ahead: some members may be done early */
	struct bb_operation operation;
	double *done;     /* [member] */
	double entered[]; /* [member]; INFINITY: not yet */
};

struct timeline {
	struct bb_link_model links;
	const struct bb_program *program;
	const struct bb_timeline_watch *watch;
	struct bb_timeline_performer performer;
	struct bb_error *error;
	struct bb_memberships memberships;
	struct queue *queues;      /* [rank * queues + queue] */
	struct lane *lanes;        /* [rank * lanes + lane] */
	struct line *leaving;      /* [rank]: the message that leaves it, and those behind it */
	double *reached;           /* [rank * events + event]; NAN: not yet */
	double *out, *in;          /* [port]: when it is free again */
	struct bb_flows *flows;    /* over shared links; NULL: there are none */
	unsigned char *queue_of;   /* of each operation: its queue; those of a rank begin at: */
	size_t *first;             /* [rank]; [nranks]: of all */
	int *sources;              /* [operation]: of a receive from any; NULL: none yet */
	size_t begun;              /* operations begun so far */
	uint64_t *calls;           /* [membership]: collectives that it has reached, */
	struct queue **performs;   /* and the queue that they are on */
	struct meeting **meetings; /* [group] */
	struct bb_choices choices; /* of this evaluation, where links.choices is NULL */
	struct agenda agenda;      /* of queues; behind: [group], where a meeting is due */
	double end;
	struct bb_slabs slabs; /* that all of this is in */
};

static void schedule(struct timeline *p, struct queue *q, enum queue_state state, double time)
{
	q->state = state;
	q->to = time;
	agenda_set(&p->agenda, (int)(q - p->queues), time);
}

/* The queues of RANK begin here, and end where those of the next rank begin. */
static struct queue *queues_of(const struct timeline *p, int rank)
{
	return p->queues + rank * p->program->queues;
}

/* ---- lines of queues ------------------------------------------------------------------ */

static struct lane *lane_of(const struct timeline *p, int rank, int lane)
{
	return &p->lanes[(size_t)rank * (size_t)p->program->lanes + (size_t)lane];
}

static void land(struct line *line, struct queue *q, enum queue_state state)
{
	q->state = state;
	q->before = line->last;
	q->after = NULL;
	*(line->last ? &line->last->after : &line->first) = q;
	line->last = q;
}

static void lift(struct line *line, struct queue *q)
{
	*(q->before ? &q->before->after : &line->first) = q->after;
	*(q->after ? &q->after->before : &line->last) = q->before;
}

/* ---- messages ------------------------------------------------------------------------- */

/* The queue of RANK in STATE whose ACT on LANE is with OTHER, or NULL. */
static struct queue *find_queue(const struct timeline *p, int rank, enum queue_state state,
				enum bb_act act, int lane, int other)
{
	for (struct queue *q = queues_of(p, rank); q < queues_of(p, rank + 1); q++)
		if (q->state == state && q->operation.act == act && q->operation.lane == lane &&
		    (act == BB_ACT_RECV_ANY || q->peer == other))
			return q;
	return NULL;
}

/* RECEIVER has what SENDER sent: both are done at TIME. */
static bb_status hand_over(struct timeline *p, struct queue *sender, struct queue *receiver,
			   double time)
{
	receiver->peer = sender->rank;
	schedule(p, sender, BUSY, time);
	schedule(p, receiver, BUSY, time);
	if (receiver->operation.act != BB_ACT_RECV_ANY)
		return BB_OK;
	if (!p->sources && !BB_TAKE(&p->slabs, p->sources, p->first[p->program->nranks]))
		return BB_EINTERNAL;
	p->sources[p->first[receiver->rank] + receiver->index] = sender->rank;
	return BB_OK;
}

/* The number of a port of RANK: outside over its rail, else within its node. */
static int port_of(const struct timeline *p, int rank, bool outside)
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

/* The port of Q's rank is free for its message at TIME. */
static void depart(struct timeline *p, struct queue *q, double time)
{
	schedule(p, q, LEAVING, time + p->links.fabric->overhead * q->flow.factor);
}

/* The message of Q has left: the next one may. */
static void leave(struct timeline *p, struct queue *q)
{
	struct line *line = &p->leaving[q->rank];
	const double time = q->to;

	if (q->state == SHARING)
		bb_flows_leave(p->flows, (int)(q - p->queues), time);
	lift(line, q);
	schedule(p, q, COMING, time + q->latency);
	if (line->first)
		depart(p, line->first, time);
}

static void change_end(void *own, int number, double end)
{
	struct timeline *p = own;

	schedule(p, &p->queues[number], SHARING, end);
}

/* Q has reached a send. */
static void message_send(struct timeline *p, struct queue *q)
{
	uint64_t drawn = bb_draw(bb_draw(p->links.seed, 2), (uint64_t)q->rank);
	const double factor = bb_noise_factor(&p->links, bb_draw(drawn, q->index));
	const double bytes = (double)bb_operation_bytes(&q->operation);
	struct line *line = &p->leaving[q->rank];

	q->peer = q->operation.peer;
	if (q->peer == BB_NO_PEER)
		q->peer = p->sources[p->first[q->rank] + q->operation.answers];
	struct bb_fabric_route route = bb_link_route(&p->links, q->rank, q->peer);
	struct bb_passage m = bb_link_passage(&p->links, &route, route.second_per_byte, bytes, 0);
	q->entry = m.entry * factor;
	q->port = port_of(p, q->peer, route.outside);
	q->flow = (struct bb_flow){q->rank, q->peer, route, bytes, factor};
	q->latency = m.latency * factor;
	if (!bb_link_ports(&p->links)) {
		/* The message before has been received: the link is free. */
		schedule(p, q, FLYING, q->from + (m.entry + m.latency) * factor);
	} else if (!p->flows || !route.outside) {
		schedule(p, q, COMING,
			 use_port(&p->out[port_of(p, q->rank, route.outside)], q->from,
				  m.exit * factor) -
				 m.exit * factor + q->latency);
	} else {
		/* It waits behind those of its rank that leave before it. */
		land(line, q, QUEUED);
		if (line->first == q)
			depart(p, q, q->from);
	}
}

/* ---- receives that are posted together ------------------------------------------------ */

/* The message of SENDER arrives before its receiver's queue reaches the receive. */
static void take_early(struct timeline *p, unsigned char *posted, struct queue *sender, double time)
{
	*posted = POSTED_THERE;
	schedule(p, sender, BUSY, time);
}

/* The index of Q's first operation from FROM on; SIZE_MAX: there is none. */
static size_t next_index(const struct timeline *p, const struct queue *q, size_t from)
{
	const unsigned char *queue_of = &p->queue_of[p->first[q->rank]];
	const unsigned char *next = memchr(&queue_of[from], (int)(q - queues_of(p, q->rank)),
					   p->first[q->rank + 1] - p->first[q->rank] - from);

	return next ? (size_t)(next - queue_of) : SIZE_MAX;
}

/* Q has reached the first of several receives posted together: messages for the others that have
   arrived already are taken, too. */
static bb_status post(struct timeline *p, struct queue *q)
{
	struct lane *lane = lane_of(p, q->rank, q->operation.lane);

	for (size_t i = q->index; (i = next_index(p, q, i + 1)) != SIZE_MAX;) {
		const struct bb_operation o = bb_program_at(p->program, q->rank, i);

		if (o.act != BB_ACT_RECV || !o.together)
			break;
		if (!lane->posted &&
		    !BB_TAKE_ZEROED(&p->slabs, lane->posted, (size_t)p->program->nranks))
			return BB_EINTERNAL;
		lane->posted[o.peer] = POSTED_OPEN;
	}
	for (struct queue *sender = lane->landed.first, *after; lane->posted && sender;
	     sender = after) {
		unsigned char *posted = &lane->posted[sender->rank];

		after = sender->after;
		if (*posted != POSTED_OPEN)
			continue;
		lift(&lane->landed, sender);
		take_early(p, posted, sender, q->from);
	}
	return BB_OK;
}

/* Q has reached a receive. */
static bb_status message_receive(struct timeline *p, struct queue *q)
{
	struct lane *lane = lane_of(p, q->rank, q->operation.lane);
	struct queue *sender = lane->landed.first;
	bb_status status;

	q->peer = q->operation.peer;
	if (q->operation.together) {
		/* The posted receive ends; its message may be there. */
		const bool there = lane->posted[q->peer] == POSTED_THERE;

		lane->posted[q->peer] = POSTED_NOT;
		if (there) {
			schedule(p, q, BUSY, q->from);
			return BB_OK;
		}
	}
	if (q->operation.act == BB_ACT_RECV) {
		if (!q->operation.together && (status = post(p, q)) != BB_OK)
			return status;
		sender = find_queue(p, q->peer, LANDED, BB_ACT_SEND, q->operation.lane, q->rank);
	}
	q->state = WAITING;
	if (!sender)
		return BB_OK;
	lift(&lane->landed, sender);
	return hand_over(p, sender, q, q->from);
}

/* The next event of Q's message has happened. */
static bb_status message_advance(struct timeline *p, struct queue *q)
{
	const int number = q->operation.lane;
	struct lane *lane = lane_of(p, q->peer, number);
	struct queue *receiver;
	bool last;

	switch (q->state) {
	case LEAVING: /* The overhead is over; the message shares its links from now on. */
		if (q->flow.bytes > 0)
			bb_flows_join(p->flows, (int)(q - p->queues), &q->flow, q->to);
		else
			leave(p, q);
		break;
	case SHARING:
		leave(p, q);
		break;
	case COMING: /* The first byte is at the port or, on shared links, the last. */
		last = p->flows && q->flow.route.outside;
		schedule(p, q, FLYING,
			 use_port(&p->in[q->port], last ? q->to - q->entry : q->to, q->entry));
		break;
	default: /* It arrives. */
		receiver = find_queue(p, q->peer, WAITING, BB_ACT_RECV, number, q->rank);
		if (!receiver)
			receiver =
				find_queue(p, q->peer, WAITING, BB_ACT_RECV_ANY, number, q->rank);
		if (receiver)
			return hand_over(p, q, receiver, q->to);
		if (lane->posted && lane->posted[q->rank] == POSTED_OPEN)
			take_early(p, &lane->posted[q->rank], q, q->to);
		else
			land(&lane->landed, q, LANDED);
	}
	return BB_OK;
}

/* ---- collectives ---------------------------------------------------------------------- */

static void end_meeting(struct timeline *p, int group, struct meeting *m)
{
	struct meeting **link = &p->meetings[group];

	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	free(m);
}

/* Perform a collective by a schedule over the links. A group of the first ranks needs no list. */
static bb_status schedule_perform(void *own, const struct bb_operation *o, const int *members,
				  int n, uint64_t number, double *times, bool *whole,
				  struct bb_error *error)
{
	const struct timeline *p = own;
	const size_t element = bb_dtype_size(o->dtype);
	struct bb_link_model links = p->links;
	struct bb_shape shape = {
		.nranks = n, .root = o->root, .in_place = o->in_place, .count = o->count};
	int i = 0;

	while (i < n && members[i] == i)
		i++;
	if (i < n)
		links.members = members;
	const struct bb_algorithm *const algorithm = bb_timeline_choose(
		&links, p->program->algorithm, o->collective, &shape, element, error);
	if (!algorithm)
		return bb_error_status(error);
	return bb_timeline_collective_known(&links, algorithm, &shape, element, number, times);
}

/*
 * Members that have not arrived count as never arriving; a member whose time is finite nevertheless
 * does not depend on them. An arrival only adds times later than itself, so nothing happens in the
 * past.
 */
static bb_status meeting_evaluate(struct timeline *p, struct meeting *m)
{
	const struct bb_operation *o = &m->operation;
	const size_t first = p->memberships.first[o->group];
	const int size = bb_memberships_size(&p->memberships, o->group);
	const uint64_t number = bb_draw((uint64_t)o->group, m->number);

	m->due = false;
	memcpy(m->done, m->entered, (size_t)size * sizeof(*m->done));
	bb_status status = p->performer.perform(p->performer.own, o, &p->memberships.rank[first],
						size, number, m->done, &m->whole, p->error);
	for (size_t i = 0; i < (size_t)size && status == BB_OK; i++) {
		struct queue *const q = p->performs[first + i];

		if (!isinf(m->done[i]) && p->calls[first + i] == m->number + 1 &&
		    q->state == WAITING && q->operation.act == BB_ACT_COLLECTIVE &&
		    q->operation.group == o->group)
			schedule(p, q, BUSY, m->done[i]);
	}
	return status;
}

/* Q has reached a collective: it joins the next meeting of its membership. */
static bb_status meet(struct timeline *p, struct queue *q)
{
	const int group = q->operation.group, size = bb_memberships_size(&p->memberships, group);
	const size_t membership = bb_memberships_find(&p->memberships, group, q->rank);
	const uint64_t number = p->calls[membership]++;
	struct meeting **link = &p->meetings[group], *m;
	bb_status status = BB_OK;

	while (*link && (*link)->number != number)
		link = &(*link)->next;
	m = *link;
	if (!m) {
		m = *link = malloc(sizeof(*m) + 2 * (size_t)size * sizeof(double));
		if (!m)
			return BB_EINTERNAL;
		*m = (struct meeting){.number = number, .done = m->entered + size};
		for (int i = 0; i < size; i++)
			m->entered[i] = INFINITY;
	}
	q->state = WAITING;
	p->performs[membership] = q;
	m->entered[membership - p->memberships.first[group]] = q->from;
	m->arrived++;
	m->operation = q->operation;
	if (m->arrived == size) {
		status = meeting_evaluate(p, m);
		end_meeting(p, group, m);
	} else if (bb_operation_ends_early(&q->operation) && !m->whole) {
		/* Once, after all that arrive at the same time. */
		m->due = true;
		agenda_set(&p->agenda, p->program->nranks * p->program->queues + group, q->from);
	}
	return status;
}

/* ---- all operations ------------------------------------------------------------------- */

/* When RANK reached EVENT. */
static double *reached_at(const struct timeline *p, int rank, int event)
{
	return &p->reached[(size_t)rank * (size_t)p->program->events + (size_t)event];
}

/* Q continues at TIME with its operation of index FROM or later. */
static bb_status begin(struct timeline *p, struct queue *q, size_t from, double time)
{
	uint64_t drawn;

	q->state = IDLE;
	q->from = time;
	q->peer = BB_NO_PEER;
	q->index = next_index(p, q, from);
	if (q->index == SIZE_MAX)
		return BB_OK;
	p->begun++;
	q->operation = bb_program_at(p->program, q->rank, q->index);
	switch (q->operation.act) {
	case BB_ACT_COMPUTE:
		drawn = bb_draw(bb_draw(p->links.seed, 3), (uint64_t)q->rank);
		schedule(p, q, BUSY,
			 time + q->operation.seconds *
					 bb_noise_factor(&p->links, bb_draw(drawn, q->index)));
		break;
	case BB_ACT_COLLECTIVE:
		return meet(p, q);
	case BB_ACT_SEND:
		message_send(p, q);
		break;
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return message_receive(p, q);
	case BB_ACT_RECORD:
		*reached_at(p, q->rank, q->operation.event) = time;
		schedule(p, q, BUSY, time);
		for (struct queue *o = queues_of(p, q->rank); o < queues_of(p, q->rank + 1); o++)
			if (o->state == WAITING && o->operation.act == BB_ACT_WAIT &&
			    o->operation.event == q->operation.event)
				schedule(p, o, BUSY, time);
		break;
	case BB_ACT_WAIT:
		if (isnan(*reached_at(p, q->rank, q->operation.event)))
			q->state = WAITING;
		else
			schedule(p, q, BUSY, time);
		break;
	}
	return BB_OK;
}

/* ---- the event loop ------------------------------------------------------------------- */

static bb_status program_open(struct timeline *p)
{
	const struct bb_program *program = p->program;
	const struct bb_flows_watch watch = {change_end, p};
	const size_t n = (size_t)program->nranks, queues = n * (size_t)program->queues;
	const size_t events = n * (size_t)program->events;
	struct bb_slabs *slabs = &p->slabs;

	BB_TAKE_ZEROED(slabs, p->queues, queues);
	BB_TAKE(slabs, p->reached, events);
	BB_TAKE_ZEROED(slabs, p->calls, p->memberships.first[program->groups]);
	BB_TAKE(slabs, p->performs, p->memberships.first[program->groups]);
	BB_TAKE_ZEROED(slabs, p->meetings, (size_t)program->groups);
	BB_TAKE_ZEROED(slabs, p->lanes, n * (size_t)program->lanes);
	BB_TAKE_ZEROED(slabs, p->leaving, n);
	BB_TAKE_ZEROED(slabs, p->out, 2 * n);
	BB_TAKE_ZEROED(slabs, p->in, 2 * n);
	BB_TAKE(slabs, p->first, n + 1);
	agenda_open(&p->agenda, slabs, queues + (size_t)program->groups);
	if (bb_link_shares(&p->links))
		p->flows = bb_flows_open(&p->links, slabs, queues, &watch);
	if (slabs->lacking)
		return BB_EINTERNAL;
	for (size_t i = 0; i < events; i++)
		p->reached[i] = NAN;
	for (size_t i = 0; i < queues; i++)
		p->queues[i].rank = (int)(i / (size_t)program->queues);
	/* The queue of each operation, so that a queue finds its next one without the program. */
	p->first[0] = 0;
	for (size_t rank = 0; rank < n; rank++)
		p->first[rank + 1] = p->first[rank] + program->length(program, (int)rank);
	if (!BB_TAKE(slabs, p->queue_of, p->first[n]))
		return BB_EINTERNAL;
	for (size_t rank = 0; rank < n; rank++)
		for (size_t i = p->first[rank]; i < p->first[rank + 1]; i++)
			p->queue_of[i] =
				(unsigned char)bb_program_at(program, (int)rank, i - p->first[rank])
					.queue;
	return BB_OK;
}

bb_status bb_timeline_program_by(const struct bb_timeline_performer *performer,
				 const struct bb_link_model *links,
				 const struct bb_program *program,
				 const struct bb_timeline_watch *watch, double *end,
				 struct bb_error *error)
{
	const int queues = program->nranks * program->queues;
	struct timeline p = {.links = *links, .program = program, .watch = watch, .error = error};
	bb_status st;

	p.performer = performer ? *performer : (struct bb_timeline_performer){schedule_perform, &p};
	if (!links->choices)
		p.links.choices = &p.choices;
	BB_TRY(st, bb_memberships_make(&p.memberships, program, error), out);
	BB_TRY(st, program_open(&p), out);
	for (int i = 0; i < queues; i++)
		BB_TRY(st, begin(&p, &p.queues[i], 0, 0), out);
	while (p.agenda.n > 0 && st == BB_OK) {
		const int item = agenda_pop(&p.agenda);
		struct queue *const q = item < queues ? &p.queues[item] : NULL;

		/* The next event of a queue has happened, or all that is to happen at the time of a
		   group's event. */
		if (q && q->state != BUSY) {
			st = message_advance(&p, q);
		} else if (q) {
			p.end = q->to;
			if (watch)
				watch->done(watch->own, q->rank, q->index, &q->operation, q->from,
					    q->to, q->peer);
			st = begin(&p, q, q->index + 1, q->to);
		}
		for (struct meeting *m = q ? NULL : p.meetings[item - queues]; m && st == BB_OK;
		     m = m->next)
			if (m->due)
				st = meeting_evaluate(&p, m);
		if (st == BB_OK &&
		    !bb_pace_allows(&p.links, NULL, p.begun, p.first[program->nranks], 1))
			st = BB_ETIMEOUT;
	}
out:
	if (st == BB_EINTERNAL) /* if no other reason is there yet */
		(void)bb_no_memory(error, "the simulation of a program");
	*end = p.end;
	for (int group = 0; p.meetings && group < program->groups; group++)
		while (p.meetings[group])
			end_meeting(&p, group, p.meetings[group]);
	bb_memberships_free(&p.memberships);
	bb_choices_free(&p.choices);
	bb_slabs_free(&p.slabs);
	return st;
}

bb_status bb_timeline_program(const struct bb_link_model *links, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error)
{
	return bb_timeline_program_by(NULL, links, program, watch, end, error);
}
