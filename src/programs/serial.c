/*
 * serial.c - does a program end if every rank does its operations one after another, and a send
 * ends when its message is received? Then it also ends with queues, which wait for less. Of
 * receives from any, one order of many is tried: the messages are interchangeable for the checker.
 */
#include "programs/check.h"

#include "core/strbuf.h"

#include <stdlib.h>

#define LINKS 4 /* most waits in a report */

struct actor {
	size_t next, length;
	struct bb_operation operation; /* number NEXT, unless all are done */
	int peer;                      /* of a send */
	bool stuck;                    /* it waits for others in OPERATION */
	int *sources; /* [index]: the source of a receive from any; NULL: none yet */
	int first_sender, next_sender; /* list of ranks that wait to send to it */
};

struct meeting {
	int arrived;
	int rank; /* the first to arrive */
};

struct serial {
	const struct bb_program_check *check;
	struct actor *actors;
	struct meeting *meetings; /* [group] */
	int *ready;               /* ranks that can continue */
	int nready;
};

#define NOBODY (-1)

static bb_status wrong(const struct serial *s, int rank, const char *what, int other)
{
	const struct actor *a = &s->actors[other];
	char theirs[BB_PROGRAM_TEXT];

	bb_program_describe(s->check->program, &a->operation, theirs);
	return bb_program_wrong(s->check, rank, s->actors[rank].next, &s->actors[rank].operation,
				"%s operation %zu (%s) of rank %d", what, a->next, theirs, other);
}

/* RANK's operation is done. */
static void go_on(struct serial *s, int rank)
{
	s->actors[rank].next++;
	s->actors[rank].stuck = false;
	s->ready[s->nready++] = rank;
}

/* ---- messages ------------------------------------------------------------------------ */

/* Remember SOURCE as the sender of RANK's receive from any. */
static bb_status keep_source(struct serial *s, int rank, int source)
{
	struct actor *a = &s->actors[rank];

	if (!a->sources)
		a->sources = malloc(a->length * sizeof(*a->sources));
	if (!a->sources)
		return bb_no_memory(s->check->error, "the check of a program");
	a->sources[a->next] = source;
	return BB_OK;
}

static bool accepts_from(const struct actor *a, int lane, int source)
{
	const struct bb_operation *o = &a->operation;

	return a->stuck && (o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY) &&
	       o->lane == lane && (o->act == BB_ACT_RECV_ANY || o->peer == source);
}

static bb_status deliver(struct serial *s, int source, int destination)
{
	const struct actor *from = &s->actors[source], *to = &s->actors[destination];
	bb_status status = BB_OK;

	if (bb_operation_bytes(&from->operation) != bb_operation_bytes(&to->operation))
		return wrong(s, destination, "its length differs from that of", source);
	if (to->operation.act == BB_ACT_RECV_ANY)
		status = keep_source(s, destination, source);
	go_on(s, source);
	go_on(s, destination);
	return status;
}

static bb_status send(struct serial *s, int rank)
{
	struct actor *a = &s->actors[rank];
	const struct bb_operation *o = &a->operation;
	struct actor *to;

	a->peer = o->peer == BB_NO_PEER ? a->sources[o->answers] : o->peer;
	to = &s->actors[a->peer];
	a->stuck = true;
	if (accepts_from(to, o->lane, rank))
		return deliver(s, rank, a->peer);
	a->next_sender = to->first_sender;
	to->first_sender = rank;
	return BB_OK;
}

static bb_status receive(struct serial *s, int rank)
{
	struct actor *a = &s->actors[rank];

	a->stuck = true;
	for (int *link = &a->first_sender; *link != NOBODY; link = &s->actors[*link].next_sender) {
		const int source = *link;

		if (!accepts_from(a, s->actors[source].operation.lane, source))
			continue;
		*link = s->actors[source].next_sender;
		return deliver(s, source, rank);
	}
	return BB_OK;
}

/* ---- collectives --------------------------------------------------------------------- */

static bool alike(const struct bb_operation *a, const struct bb_operation *b)
{
	return a->collective == b->collective && a->root == b->root && a->count == b->count &&
	       a->dtype == b->dtype && a->op == b->op && a->in_place == b->in_place;
}

static bb_status meet(struct serial *s, int rank)
{
	const struct bb_seats *seats = &s->check->seats;
	struct actor *a = &s->actors[rank];
	const int group = a->operation.group;
	struct meeting *m = &s->meetings[group];

	a->stuck = true;
	if (m->arrived++ == 0)
		m->rank = rank;
	if (!alike(&a->operation, &s->actors[m->rank].operation))
		return wrong(s, rank, "it does not match", m->rank);
	if (m->arrived < bb_seats_size(seats, group))
		return BB_OK;
	m->arrived = 0;
	for (size_t seat = seats->first[group]; seat < seats->first[group + 1]; seat++)
		go_on(s, seats->rank[seat]);
	return BB_OK;
}

/* ---- deadlocks ----------------------------------------------------------------- */

/* The rank that RANK, which is stuck, waits for; NOBODY: any. */
static int waits_for(const struct serial *s, int rank)
{
	const struct bb_seats *seats = &s->check->seats;
	const struct bb_operation *o = &s->actors[rank].operation;

	if (o->act == BB_ACT_SEND)
		return s->actors[rank].peer;
	if (o->act != BB_ACT_COLLECTIVE)
		return o->act == BB_ACT_RECV ? o->peer : NOBODY;
	for (size_t seat = seats->first[o->group]; seat < seats->first[o->group + 1]; seat++) {
		const struct actor *other = &s->actors[seats->rank[seat]];

		if (!other->stuck || other->operation.act != BB_ACT_COLLECTIVE ||
		    other->operation.group != o->group)
			return seats->rank[seat];
	}
	return NOBODY;
}

/* A rank of the cycle that RANK waits for, or the last of its chain. */
static int enter_cycle(const struct serial *s, int rank)
{
	for (int i = 0; i < s->check->program->nranks; i++) {
		const int next = waits_for(s, rank);

		if (next == NOBODY || !s->actors[next].stuck)
			break;
		rank = next;
	}
	return rank;
}

static bb_status report_stuck(const struct serial *s, int rank)
{
	const int first = enter_cycle(s, rank);
	struct bb_strbuf text = {0};
	int links = 0, next = first;

	do {
		const struct actor *a = &s->actors[next];
		char what[BB_PROGRAM_TEXT];

		bb_program_describe(s->check->program, &a->operation, what);
		bb_strbuf_addf(&text, "%srank %d, operation %zu (%s) waits for ", links ? "; " : "",
			       next, a->next, what);
		next = waits_for(s, next);
		if (next == NOBODY)
			bb_strbuf_add(&text, "a message from any");
		else
			bb_strbuf_addf(&text, "rank %d", next);
	} while (++links < LINKS && next != NOBODY && next != first && s->actors[next].stuck);
	if (next != NOBODY && !s->actors[next].stuck)
		bb_strbuf_add(&text, ", which has done all its operations");
	(void)bb_fail(s->check->error, BB_EINTERNAL, "never ends: %s%s", bb_strbuf_text(&text),
		      next != first && links == LINKS ? "; …" : "");
	bb_strbuf_free(&text);
	return BB_EINTERNAL;
}

/* ---- all ranks ----------------------------------------------------------------------- */

/* RANK continues until it waits, or is ready again. */
static bb_status advance(struct serial *s, int rank)
{
	struct actor *a = &s->actors[rank];

	for (; a->next < a->length; a->next++) {
		a->operation = bb_program_at(s->check->program, rank, a->next);
		switch (a->operation.act) {
		case BB_ACT_COLLECTIVE:
			return meet(s, rank);
		case BB_ACT_SEND:
			return send(s, rank);
		case BB_ACT_RECV:
		case BB_ACT_RECV_ANY:
			return receive(s, rank);
		default: /* a wait comes after its record */
			break;
		}
	}
	return BB_OK;
}

static bb_status run(struct serial *s)
{
	const struct bb_program *p = s->check->program;

	for (int rank = p->nranks; rank-- > 0;) {
		s->actors[rank] = (struct actor){.length = p->length(p, rank),
						 .first_sender = NOBODY,
						 .next_sender = NOBODY};
		s->ready[s->nready++] = rank;
	}
	while (s->nready > 0) {
		const bb_status status = advance(s, s->ready[--s->nready]);

		if (status != BB_OK)
			return status;
	}
	for (int rank = 0; rank < p->nranks; rank++)
		if (s->actors[rank].stuck)
			return report_stuck(s, rank);
	return BB_OK;
}

bb_status bb_program_run_serially(const struct bb_program_check *check)
{
	const size_t n = (size_t)check->program->nranks;
	struct serial s = {
		.check = check,
		.actors = calloc(n, sizeof(*s.actors)),
		.meetings = calloc((size_t)check->program->groups + 1, sizeof(*s.meetings)),
		.ready = calloc(n, sizeof(*s.ready)),
	};
	bb_status status;

	if (s.actors && s.meetings && s.ready)
		status = run(&s);
	else
		status = bb_no_memory(check->error, "the check of a program");
	for (size_t i = 0; s.actors && i < n; i++)
		free(s.actors[i].sources);
	free(s.actors);
	free(s.meetings);
	free(s.ready);
	return status;
}
