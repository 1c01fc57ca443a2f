/*
 * timeline_program.c - a program in virtual time, by discrete events. Each queue has at most one
 * event ahead: the end of its operation or a step of its message. The earliest event is next, at
 * equal times the lowest rank and queue. Messages are in timeline_messages.c.
 */
#include "simulator/timeline_program.h"

#include <stdlib.h>
#include <string.h>

#define NONE BB_NO_QUEUE

/* A collective that not all members of its group have reached yet. Members that are done early may
   have reached the next one already. */
struct bb_meeting {
	struct bb_meeting *next;
	uint64_t number; /* in the group's order */
	int arrived;
	bool whole;       /* no member is done before all have arrived */
	double *done;     /* [member] */
	double entered[]; /* [member]; INFINITY: not yet */
};

/* ---- collectives --------------------------------------------------------------------- */

static int queue_of_seat(const struct bb_timeline *p, size_t seat)
{
	const int first = p->seats.rank[seat] * p->program->queues;

	for (int queue = first; queue < first + p->program->queues; queue++) {
		const struct bb_timeline_queue *q = &p->queues[queue];

		if (q->state == BB_QUEUE_WAITING && q->operation.act == BB_ACT_COLLECTIVE &&
		    q->operation.group == p->seats.group[seat])
			return queue;
	}
	return NONE;
}

/* The next meeting of SEAT. NULL: out of memory. */
static struct bb_meeting *meeting_of(struct bb_timeline *p, int group, size_t seat)
{
	const size_t size = (size_t)bb_seats_size(&p->seats, group);
	struct bb_meeting **link = &p->meetings[group], *m;

	while (*link && (*link)->number != p->calls[seat])
		link = &(*link)->next;
	if (*link)
		return *link;
	m = malloc(sizeof(*m) + 2 * size * sizeof(double));
	if (!m)
		return NULL;
	*m = (struct bb_meeting){.number = p->calls[seat], .done = m->entered + size};
	for (size_t i = 0; i < size; i++)
		m->entered[i] = INFINITY;
	*link = m;
	return m;
}

static void end_meeting(struct bb_timeline *p, int group, struct bb_meeting *m)
{
	struct bb_meeting **link = &p->meetings[group];

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
	const struct bb_timeline *p = own;
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
 * Members that have not arrived count as never arriving; a member whose time is finite nevertheless
 * does not depend on them. An arrival only adds times later than itself, so nothing happens in the
 * past.
 */
static bb_status meeting_evaluate(struct bb_timeline *p, const struct bb_operation *o,
				  struct bb_meeting *m)
{
	const size_t first = p->seats.first[o->group];
	const int size = bb_seats_size(&p->seats, o->group);
	const uint64_t number = bb_draw((uint64_t)o->group, m->number);
	bb_status status;

	memcpy(m->done, m->entered, (size_t)size * sizeof(*m->done));
	status = p->performer.perform(p->performer.own, o, &p->seats.rank[first], size, number,
				      m->done, &m->whole, p->error);
	for (size_t i = 0; i < (size_t)size && status == BB_OK; i++) {
		int queue = NONE;

		if (!isinf(m->done[i]) && p->calls[first + i] == m->number + 1)
			queue = queue_of_seat(p, first + i);
		if (queue != NONE)
			bb_timeline_schedule(p, queue, BB_QUEUE_BUSY, m->done[i]);
	}
	return status;
}

static bb_status meet(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	const int group = q->operation.group, size = bb_seats_size(&p->seats, group);
	const size_t seat = bb_seats_find(&p->seats, group, bb_timeline_rank(p, queue));
	struct bb_meeting *m = meeting_of(p, group, seat);
	bb_status status = BB_OK;

	if (!m)
		return BB_EINTERNAL;
	q->state = BB_QUEUE_WAITING;
	p->calls[seat]++;
	m->entered[seat - p->seats.first[group]] = q->from;
	m->arrived++;
	if (m->arrived == size || (bb_operation_ends_early(&q->operation) && !m->whole))
		status = meeting_evaluate(p, &q->operation, m);
	if (m->arrived == size)
		end_meeting(p, group, m);
	return status;
}

/* ---- all operations ------------------------------------------------------------------ */

static void record(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	const int rank = bb_timeline_rank(p, queue), first = rank * p->program->queues;
	const int event = q->operation.event;

	p->reached[(size_t)rank * (size_t)p->program->events + (size_t)event] = q->from;
	bb_timeline_schedule(p, queue, BB_QUEUE_BUSY, q->from);
	for (int other = first; other < first + p->program->queues; other++) {
		const struct bb_timeline_queue *o = &p->queues[other];

		if (o->state == BB_QUEUE_WAITING && o->operation.act == BB_ACT_WAIT &&
		    o->operation.event == event)
			bb_timeline_schedule(p, other, BB_QUEUE_BUSY, q->from);
	}
}

static void wait(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	const size_t event = (size_t)bb_timeline_rank(p, queue) * (size_t)p->program->events +
			     (size_t)q->operation.event;

	if (isnan(p->reached[event]))
		q->state = BB_QUEUE_WAITING;
	else
		bb_timeline_schedule(p, queue, BB_QUEUE_BUSY, q->from);
}

static void compute(struct bb_timeline *p, int queue)
{
	struct bb_timeline_queue *q = &p->queues[queue];
	uint64_t drawn = bb_draw(bb_draw(p->links.seed, 3), (uint64_t)bb_timeline_rank(p, queue));
	double factor = bb_noise_factor(&p->links, bb_draw(drawn, q->index));

	bb_timeline_schedule(p, queue, BB_QUEUE_BUSY, q->from + q->operation.seconds * factor);
}

/* The queue of each operation, so that a queue finds its next one without calling the program. */
static bb_status find_queues(struct bb_timeline *p)
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

/* QUEUE continues at TIME with its operation of index FROM or later. */
static bb_status begin(struct bb_timeline *p, int queue, size_t from, double time)
{
	const int rank = bb_timeline_rank(p, queue), mine = queue - rank * p->program->queues;
	const unsigned char *queue_of = &p->queue_of[p->first[rank]], *next;
	struct bb_timeline_queue *q = &p->queues[queue];

	q->state = BB_QUEUE_IDLE;
	q->from = time;
	q->peer = BB_NO_PEER;
	next = memchr(&queue_of[from], mine, p->first[rank + 1] - p->first[rank] - from);
	if (!next)
		return BB_OK;
	q->index = (size_t)(next - queue_of);
	p->begun++;
	q->operation = bb_program_at(p->program, rank, q->index);
	switch (q->operation.act) {
	case BB_ACT_COMPUTE:
		compute(p, queue);
		break;
	case BB_ACT_COLLECTIVE:
		return meet(p, queue);
	case BB_ACT_SEND:
		bb_message_send(p, queue);
		break;
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		return bb_message_receive(p, queue);
	case BB_ACT_RECORD:
		record(p, queue);
		break;
	case BB_ACT_WAIT:
		wait(p, queue);
		break;
	}
	return BB_OK;
}

static bb_status step(struct bb_timeline *p)
{
	const int queue = bb_agenda_pop(&p->agenda);
	const struct bb_timeline_queue *q = &p->queues[queue];

	if (q->state != BB_QUEUE_BUSY)
		return bb_message_advance(p, queue);
	p->end = q->to;
	if (p->watch)
		p->watch->done(p->watch->own, bb_timeline_rank(p, queue), q->index, &q->operation,
			       q->from, q->to, q->peer);
	return begin(p, queue, q->index + 1, q->to);
}

/* ---- the event loop -------------------------------------------------------------------- */

static bb_status program_open(struct bb_timeline *p)
{
	const struct bb_program *program = p->program;
	const size_t n = (size_t)program->nranks, queues = n * (size_t)program->queues;
	const size_t events = n * (size_t)program->events;
	const size_t seats = p->seats.first[program->groups], groups = (size_t)program->groups;

	p->queues = calloc(queues, sizeof(*p->queues));
	p->reached = malloc((events + 1) * sizeof(*p->reached));
	p->calls = calloc(seats + 1, sizeof(*p->calls));
	p->meetings = calloc(groups + 1, sizeof(struct bb_meeting *));
	if (bb_agenda_open(&p->agenda, queues) != BB_OK || bb_messages_open(p, queues) != BB_OK)
		return BB_EINTERNAL;
	if (!p->queues || !p->reached || !p->calls || !p->meetings)
		return BB_EINTERNAL;
	for (size_t i = 0; i < events; i++)
		p->reached[i] = NAN;
	return BB_OK;
}

static bb_status program_evaluate(struct bb_timeline *p)
{
	const int queues = p->program->nranks * p->program->queues;
	bb_status st;

	BB_TRY(st, bb_seats_make(&p->seats, p->program, p->error), out);
	BB_TRY(st, program_open(p), out);
	BB_TRY(st, find_queues(p), out);
	for (int queue = 0; queue < queues; queue++)
		BB_TRY(st, begin(p, queue, 0, 0), out);
	while (p->agenda.n > 0 && st == BB_OK) {
		st = step(p);
		if (st == BB_OK &&
		    !bb_pace_allows(&p->links, NULL, p->begun, p->first[p->program->nranks], 1))
			st = BB_ETIMEOUT;
	}
out:
	return st;
}

static void program_close(struct bb_timeline *p)
{
	for (int group = 0; p->meetings && group < p->program->groups; group++)
		while (p->meetings[group])
			end_meeting(p, group, p->meetings[group]);
	bb_seats_free(&p->seats);
	free(p->queues);
	bb_agenda_close(&p->agenda);
	bb_messages_close(p);
	free(p->reached);
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
	struct bb_timeline p = {
		.links = *links, .program = program, .watch = watch, .error = error};
	bb_status status;

	p.performer = performer ? *performer : (struct bb_timeline_performer){schedule_perform, &p};
	if (!links->choices)
		p.links.choices = &p.choices;
	status = program_evaluate(&p);
	if (status == BB_EINTERNAL) /* if no other reason is there yet */
		(void)bb_no_memory(error, "the simulation of a program");
	*end = p.end;
	program_close(&p);
	return status;
}

bb_status bb_timeline_program(const struct bb_link_model *links, const struct bb_program *program,
			      const struct bb_timeline_watch *watch, double *end,
			      struct bb_error *error)
{
	return bb_timeline_program_by(NULL, links, program, watch, end, error);
}
