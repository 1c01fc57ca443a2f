/*
 * program.c - the groups of a program, and its check: of each operation and of the operations of
 * each rank, one rank after another, so that memory does not grow with their lengths; then of all
 * ranks together.
 */
#include "programs/program.h"
#include "core/strbuf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_TEXT 64

int bb_program_rank_itself(const struct bb_program *program, int group, int i)
{
	return i;
}

/* ---- memberships ---------------------------------------------------------------------- */

bb_status bb_memberships_make(struct bb_memberships *s, const struct bb_program *p,
			      struct bb_error *error)
{
	size_t all = 0;

	*s = (struct bb_memberships){.first = calloc((size_t)p->groups + 1, sizeof(*s->first)),
				     .mine = calloc((size_t)p->nranks + 2, sizeof(*s->mine))};
	if (!s->first || !s->mine)
		return bb_no_memory(error, "the groups of a program");
	for (int g = 0; g < p->groups; g++) {
		const int size = p->group_size(p, g);

		if (size < 1)
			return bb_fail(error, BB_EINTERNAL, "group %d has no members", g);
		s->first[g + 1] = all += (size_t)size;
	}
	s->rank = calloc(all + 1, sizeof(*s->rank));
	s->group = calloc(all + 1, sizeof(*s->group));
	s->own = calloc(all + 1, sizeof(*s->own));
	if (!s->rank || !s->group || !s->own)
		return bb_no_memory(error, "the groups of a program");
	/* Ranks of all memberships, and in mine[rank + 2] how many each has. */
	for (int g = 0; g < p->groups; g++)
		for (size_t membership = s->first[g]; membership < s->first[g + 1]; membership++) {
			const int rank = p->member(p, g, (int)(membership - s->first[g]));

			if (rank < 0 || rank >= p->nranks)
				return bb_fail(error, BB_EINTERNAL,
					       "member %zu of group %d is rank %d of %d",
					       membership - s->first[g], g, rank, p->nranks);
			s->rank[membership] = rank;
			s->group[membership] = g;
			s->mine[rank + 2]++;
		}
	for (int rank = 0; rank < p->nranks; rank++)
		s->mine[rank + 2] += s->mine[rank + 1];
	for (size_t membership = 0; membership < all; membership++)
		s->own[s->mine[s->rank[membership] + 1]++] = membership;
	for (size_t i = 1; i < all; i++) {
		const size_t membership = s->own[i], before = s->own[i - 1];

		if (s->rank[membership] == s->rank[before] &&
		    s->group[membership] == s->group[before])
			return bb_fail(error, BB_EINTERNAL, "rank %d is twice in group %d",
				       s->rank[membership], s->group[membership]);
	}
	return BB_OK;
}

void bb_memberships_free(struct bb_memberships *memberships)
{
	free(memberships->first);
	free(memberships->rank);
	free(memberships->mine);
	free(memberships->own);
	free(memberships->group);
}

size_t bb_memberships_find(const struct bb_memberships *memberships, int group, int rank)
{
	size_t low = memberships->mine[rank], high = memberships->mine[rank + 1];

	while (low < high) {
		const size_t middle = low + (high - low) / 2, membership = memberships->own[middle];

		if (memberships->group[membership] == group)
			return membership;
		if (memberships->group[membership] < group)
			low = middle + 1;
		else
			high = middle;
	}
	return SIZE_MAX;
}

/* ---- the check ------------------------------------------------------------------------------- */

struct check {
	const struct bb_program *program;
	struct bb_memberships memberships;
	struct bb_error *error;
};

/* TEXT = act and item of O; of an event its number. */
static void operation_describe(const struct bb_operation *o, char text[NAME_TEXT])
{
	static const char *const names[] = {[BB_ACT_COMPUTE] = "compute",
					    [BB_ACT_COLLECTIVE] = "collective",
					    [BB_ACT_SEND] = "send",
					    [BB_ACT_RECV] = "receive",
					    [BB_ACT_RECV_ANY] = "receive from any",
					    [BB_ACT_RECORD] = "record of event",
					    [BB_ACT_WAIT] = "wait for event"};
	const unsigned act = o->act;
	const bool event = act == BB_ACT_RECORD || act == BB_ACT_WAIT;

	snprintf(text, NAME_TEXT, "%s %lld",
		 act == BB_ACT_COLLECTIVE && o->collective ? o->collective->name
		 : act < sizeof(names) / sizeof(names[0])  ? names[act]
							   : "unknown operation",
		 event ? o->event : (long long)o->item);
}

/* Fails with BB_EINTERNAL for OPERATION, number INDEX of RANK; the reason is FORMAT. */
__attribute__((format(printf, 5, 6))) static bb_status
program_wrong(const struct check *check, int rank, size_t index,
	      const struct bb_operation *operation, const char *format, ...)
{
	char what[NAME_TEXT], text[384];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	operation_describe(operation, what);
	return bb_fail(check->error, BB_EINTERNAL, "rank %d, operation %zu (%s): %s", rank, index,
		       what, text);
}

/* [queue]: operations before this index are known to have ended. */
struct known {
	size_t before[BB_PROGRAM_QUEUES];
};

struct event {
	int of; /* the rank that recorded it last, from 1; 0: none */
	struct known known;
};

/* The use of a lane by a rank. */
struct lane {
	int receiver, sender;      /* queues; -1: none yet */
	bool any, named;           /* receives */
	bool answers, two_senders; /* sends */
	size_t bytes;              /* received from any */
	int posted;                /* groups of receives that are posted together */
};

/* The queue that a rank uses for a group or peer. */
struct use {
	int of; /* the rank, from 1; 0: none */
	int queue;
};

struct rank_check {
	const struct check *whole;
	struct event *events;
	struct use *groups;              /* [group] */
	struct use *peers;               /* [lane * nranks + peer] */
	struct use *posted;              /* likewise: the group of the last receive */
	int receives[BB_PROGRAM_QUEUES]; /* [queue]: lane of its last operation, if a receive; else
					    -1 */
	struct lane lanes[BB_PROGRAM_LANES];
	struct known known[BB_PROGRAM_QUEUES]; /* [queue]: what it knows of the others */
	int rank;
	size_t index;
	const struct bb_operation *operation;
};

#define WRONG(c, ...) program_wrong((c)->whole, (c)->rank, (c)->index, (c)->operation, __VA_ARGS__)

/* ---- collectives --------------------------------------------------------------------- */

/* Does the rank use one QUEUE only? *USE is the first. */
static bool uses_one(const struct rank_check *c, struct use *use, int queue)
{
	if (use->of != c->rank + 1)
		*use = (struct use){c->rank + 1, queue};
	return use->queue == queue;
}

static bb_status check_collective(struct rank_check *c)
{
	const struct bb_operation *o = c->operation;
	const struct bb_program *p = c->whole->program;

	if (!o->collective)
		return WRONG(c, "it names no collective");
	if (o->group < 0 || o->group >= p->groups)
		return WRONG(c, "group %d is not within 0 to %d", o->group, p->groups - 1);
	if (bb_memberships_find(&c->whole->memberships, o->group, c->rank) == SIZE_MAX)
		return WRONG(c, "the rank is not a member of group %d", o->group);
	const int size = bb_memberships_size(&c->whole->memberships, o->group);
	if (o->root < 0 || o->root >= size)
		return WRONG(c, "root %d is not one of the %d members", o->root, size);
	if (o->op < 0 || o->op >= BB_NOPS ||
	    (o->collective->flags & BB_REDUCES && !bb_op_accepts(o->op, o->dtype)))
		return WRONG(c, "its operator does not accept its datatype");
	if (!uses_one(c, &c->groups[o->group], o->queue))
		return WRONG(c, "queue %d, but collectives of group %d are on queue %d", o->queue,
			     o->group, c->groups[o->group].queue);
	const char *const reason = o->collective->refuses ? o->collective->refuses(size) : NULL;
	if (reason)
		return bb_fail(c->whole->error, BB_EUNSUPPORTED, "%s among %d ranks: %s",
			       o->collective->name, size, reason);
	return BB_OK;
}

/* ---- messages ------------------------------------------------------------------------ */

static bb_status check_receive(struct rank_check *c)
{
	const struct bb_operation *o = c->operation;
	struct lane *lane = &c->lanes[o->lane];
	struct use *use;

	if (lane->receiver < 0)
		lane->receiver = o->queue;
	if (lane->receiver != o->queue)
		return WRONG(c, "queue %d, but lane %d is received into queue %d", o->queue,
			     o->lane, lane->receiver);
	if (o->act == BB_ACT_RECV_ANY) {
		if (lane->any && lane->bytes != bb_operation_bytes(o))
			return WRONG(c,
				     "%zu bytes, but other receives from any on lane %d take %zu",
				     bb_operation_bytes(o), o->lane, lane->bytes);
		lane->any = true;
		lane->bytes = bb_operation_bytes(o);
	} else {
		lane->named = true;
	}
	if (lane->any && lane->named)
		return WRONG(c, "lane %d is received from any and from a named peer", o->lane);
	if (o->act == BB_ACT_RECV_ANY)
		return BB_OK;
	/* Receives posted together are consecutive in their queue, on one lane, from different
	   peers. */
	use = &c->posted[(size_t)o->lane * (size_t)c->whole->program->nranks + (size_t)o->peer];
	if (!o->together)
		lane->posted++;
	else if (c->receives[o->queue] != o->lane)
		return WRONG(c,
			     "posted together with an operation that is not a receive of lane %d",
			     o->lane);
	else if (use->of == c->rank + 1 && use->queue == lane->posted)
		return WRONG(c, "posted together with another receive from rank %d", o->peer);
	*use = (struct use){c->rank + 1, lane->posted};
	return BB_OK;
}

static bb_status check_send(struct rank_check *c)
{
	const struct bb_operation *o = c->operation;
	const struct bb_program *p = c->whole->program;
	struct lane *lane = &c->lanes[o->lane];
	struct use *use;

	lane->two_senders |= lane->sender >= 0 && lane->sender != o->queue;
	lane->sender = o->queue;
	lane->answers |= o->peer == BB_NO_PEER;
	if (lane->answers && lane->two_senders)
		return WRONG(c, "lane %d has answers, but is sent on from two queues", o->lane);
	if (o->peer != BB_NO_PEER) {
		use = &c->peers[(size_t)o->lane * (size_t)p->nranks + (size_t)o->peer];
		if (!uses_one(c, use, o->queue))
			return WRONG(c,
				     "queue %d, but messages of lane %d to rank %d are on queue %d",
				     o->queue, o->lane, o->peer, use->queue);
		return BB_OK;
	}
	/* An answer needs a message that is known to have arrived. */
	if (o->answers >= c->index)
		return WRONG(c, "it answers operation %zu, which is not before it", o->answers);
	const struct bb_operation answered = bb_program_at(p, c->rank, o->answers);
	if (answered.act != BB_ACT_RECV_ANY)
		return WRONG(c, "it answers operation %zu, which does not receive from any",
			     o->answers);
	if (c->known[o->queue].before[answered.queue] <= o->answers)
		return WRONG(c, "it answers operation %zu, which may not be done by then",
			     o->answers);
	return BB_OK;
}

/* ---- events -------------------------------------------------------------------------- */

static bb_status check_event(struct rank_check *c)
{
	const struct bb_operation *o = c->operation;
	const struct bb_program *p = c->whole->program;
	struct known *mine = &c->known[o->queue];
	struct event *event;

	if (o->event < 0 || o->event >= p->events)
		return WRONG(c, "event %d is not within 0 to %d", o->event, p->events - 1);
	event = &c->events[o->event];
	if (o->act == BB_ACT_RECORD) {
		if (event->of == c->rank + 1)
			return WRONG(c, "event %d is recorded a second time", o->event);
		*event = (struct event){c->rank + 1, *mine};
		return BB_OK;
	}
	if (event->of != c->rank + 1)
		return WRONG(c, "event %d is waited for before it is recorded", o->event);
	for (int q = 0; q < BB_PROGRAM_QUEUES; q++)
		if (mine->before[q] < event->known.before[q])
			mine->before[q] = event->known.before[q];
	return BB_OK;
}

/* ---- all ----------------------------------------------------------------------------- */

static bb_status check_operation(struct rank_check *c)
{
	const struct bb_operation *o = c->operation;
	const struct bb_program *p = c->whole->program;
	bb_status status = BB_OK;
	bool peer;

	if (o->queue < 0 || o->queue >= p->queues)
		return WRONG(c, "queue %d is not within 0 to %d", o->queue, p->queues - 1);
	if (o->dtype < 0 || o->dtype >= BB_NDTYPES)
		return WRONG(c, "unknown datatype");
	switch (o->act) {
	case BB_ACT_COMPUTE:
		if (!(o->seconds >= 0 && isfinite(o->seconds) && o->flops >= 0))
			return WRONG(c, "its cost is impossible: %g s and %g FLOPs", o->seconds,
				     o->flops);
		break;
	case BB_ACT_COLLECTIVE:
		status = check_collective(c);
		break;
	case BB_ACT_SEND:
	case BB_ACT_RECV:
	case BB_ACT_RECV_ANY:
		peer = o->act != BB_ACT_RECV_ANY &&
		       (o->act == BB_ACT_RECV || o->peer != BB_NO_PEER);
		if (o->lane < 0 || o->lane >= p->lanes)
			return WRONG(c, "lane %d is not within 0 to %d", o->lane, p->lanes - 1);
		if (peer && (o->peer < 0 || o->peer >= p->nranks))
			return WRONG(c, "peer %d is not one of the %d ranks", o->peer, p->nranks);
		if (peer && o->peer == c->rank)
			return WRONG(c, "its peer is the rank itself");
		status = o->act == BB_ACT_SEND ? check_send(c) : check_receive(c);
		break;
	case BB_ACT_RECORD:
	case BB_ACT_WAIT:
		status = check_event(c);
		break;
	default:
		return WRONG(c, "unknown act");
	}
	c->known[o->queue].before[o->queue] = c->index + 1;
	c->receives[o->queue] = o->act == BB_ACT_RECV ? o->lane : -1;
	return status;
}

static bb_status check_ranks(const struct check *check)
{
	const struct bb_program *p = check->program;
	const size_t peers = (size_t)p->lanes * (size_t)p->nranks;
	struct rank_check c = {
		.whole = check,
		.events = calloc((size_t)p->events + 1, sizeof(*c.events)),
		.groups = calloc((size_t)p->groups + 1, sizeof(*c.groups)),
		.peers = calloc(peers + 1, sizeof(*c.peers)),
		.posted = calloc(peers + 1, sizeof(*c.posted)),
	};
	bb_status status = BB_OK;

	if (!c.events || !c.groups || !c.peers || !c.posted)
		status = bb_no_memory(check->error, "the check of a program");
	for (c.rank = 0; c.rank < p->nranks && status == BB_OK; c.rank++) {
		const size_t length = p->length(p, c.rank);

		memset(c.known, 0, sizeof(c.known));
		for (int queue = 0; queue < BB_PROGRAM_QUEUES; queue++)
			c.receives[queue] = -1;
		for (int lane = 0; lane < BB_PROGRAM_LANES; lane++)
			c.lanes[lane] = (struct lane){.receiver = -1, .sender = -1};
		for (c.index = 0; c.index < length && status == BB_OK; c.index++) {
			const struct bb_operation operation = bb_program_at(p, c.rank, c.index);

			c.operation = &operation;
			status = check_operation(&c);
		}
	}
	free(c.events);
	free(c.groups);
	free(c.peers);
	free(c.posted);
	return status;
}

/* ---- all ranks together ---------------------------------------------------------------------- */

/*
 * Does a program end if every rank does its operations one after another, and a send ends when its
 * message is received? Then it also ends with queues, which wait for less. Of receives from any,
 * one order of many is tried: the messages are interchangeable for the checker.
 */
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
	const struct check *check;
	struct actor *actors;
	struct meeting *meetings; /* [group] */
	int *ready;               /* ranks that can continue */
	int nready;
};

#define NOBODY (-1)

static bb_status wrong(const struct serial *s, int rank, const char *what, int other)
{
	const struct actor *a = &s->actors[other];
	char theirs[NAME_TEXT];

	operation_describe(&a->operation, theirs);
	return program_wrong(s->check, rank, s->actors[rank].next, &s->actors[rank].operation,
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

static bool accepts_from(const struct actor *a, int lane, int source)
{
	const struct bb_operation *o = &a->operation;

	return a->stuck && (o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY) &&
	       o->lane == lane && (o->act == BB_ACT_RECV_ANY || o->peer == source);
}

static bb_status deliver(struct serial *s, int source, int destination)
{
	const struct actor *from = &s->actors[source];
	struct actor *to = &s->actors[destination];

	if (bb_operation_bytes(&from->operation) != bb_operation_bytes(&to->operation))
		return wrong(s, destination, "its length differs from that of", source);
	if (to->operation.act == BB_ACT_RECV_ANY) {
		if (!to->sources)
			to->sources = malloc(to->length * sizeof(*to->sources));
		if (!to->sources)
			return bb_no_memory(s->check->error, "the check of a program");
		to->sources[to->next] = source;
	}
	go_on(s, source);
	go_on(s, destination);
	return BB_OK;
}

static bb_status send(struct serial *s, int rank)
{
	struct actor *a = &s->actors[rank];
	const struct bb_operation *o = &a->operation;

	a->peer = o->peer == BB_NO_PEER ? a->sources[o->answers] : o->peer;
	struct actor *const to = &s->actors[a->peer];
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

static bb_status meet(struct serial *s, int rank)
{
	const struct bb_memberships *memberships = &s->check->memberships;
	struct actor *a = &s->actors[rank];
	const int group = a->operation.group;
	struct meeting *m = &s->meetings[group];
	const struct bb_operation *mine = &a->operation, *first;

	a->stuck = true;
	if (m->arrived++ == 0)
		m->rank = rank;
	first = &s->actors[m->rank].operation;
	if (mine->collective != first->collective || mine->root != first->root ||
	    mine->count != first->count || mine->dtype != first->dtype || mine->op != first->op ||
	    mine->in_place != first->in_place)
		return wrong(s, rank, "it does not match", m->rank);
	if (m->arrived < bb_memberships_size(memberships, group))
		return BB_OK;
	m->arrived = 0;
	for (size_t membership = memberships->first[group];
	     membership < memberships->first[group + 1]; membership++)
		go_on(s, memberships->rank[membership]);
	return BB_OK;
}

/* ---- deadlocks ----------------------------------------------------------------- */

/* The rank that RANK, which is stuck, waits for; NOBODY: any. */
static int waits_for(const struct serial *s, int rank)
{
	const struct bb_memberships *memberships = &s->check->memberships;
	const struct bb_operation *o = &s->actors[rank].operation;

	if (o->act == BB_ACT_SEND)
		return s->actors[rank].peer;
	if (o->act != BB_ACT_COLLECTIVE)
		return o->act == BB_ACT_RECV ? o->peer : NOBODY;
	for (size_t membership = memberships->first[o->group];
	     membership < memberships->first[o->group + 1]; membership++) {
		const struct actor *other = &s->actors[memberships->rank[membership]];

		if (!other->stuck || other->operation.act != BB_ACT_COLLECTIVE ||
		    other->operation.group != o->group)
			return memberships->rank[membership];
	}
	return NOBODY;
}

static bb_status report_stuck(const struct serial *s, int rank)
{
	struct bb_strbuf text = {0};
	int links = 0, first = rank, next;

	/* A rank of the cycle that RANK waits for, or the last of its chain. */
	for (int i = 0; i < s->check->program->nranks; i++) {
		next = waits_for(s, first);
		if (next == NOBODY || !s->actors[next].stuck)
			break;
		first = next;
	}
	next = first;

	do {
		const struct actor *a = &s->actors[next];
		char what[NAME_TEXT];

		operation_describe(&a->operation, what);
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

static bb_status check_serially(const struct check *check)
{
	const struct bb_program *p = check->program;
	const size_t n = (size_t)p->nranks;
	struct serial s = {
		.check = check,
		.actors = calloc(n, sizeof(*s.actors)),
		.meetings = calloc((size_t)p->groups + 1, sizeof(*s.meetings)),
		.ready = calloc(n, sizeof(*s.ready)),
	};
	bb_status status = BB_OK;

	if (!s.actors || !s.meetings || !s.ready)
		status = bb_no_memory(check->error, "the check of a program");
	for (int rank = p->nranks; rank-- > 0 && status == BB_OK;) {
		s.actors[rank] = (struct actor){.length = p->length(p, rank),
						.first_sender = NOBODY,
						.next_sender = NOBODY};
		s.ready[s.nready++] = rank;
	}
	while (s.nready > 0 && status == BB_OK) {
		const int rank = s.ready[--s.nready];
		struct actor *const a = &s.actors[rank];
		enum bb_act act = BB_ACT_COMPUTE;

		/* The rank continues until it waits, or is ready again; a wait for an event comes
		   after its record. */
		for (; a->next < a->length; a->next++) {
			a->operation = bb_program_at(p, rank, a->next);
			act = a->operation.act;
			if (act == BB_ACT_COLLECTIVE || act == BB_ACT_SEND || act == BB_ACT_RECV ||
			    act == BB_ACT_RECV_ANY)
				break;
		}
		if (a->next == a->length)
			continue;
		status = act == BB_ACT_COLLECTIVE ? meet(&s, rank)
			 : act == BB_ACT_SEND     ? send(&s, rank)
						  : receive(&s, rank);
	}
	for (int rank = 0; rank < p->nranks && status == BB_OK; rank++)
		if (s.actors[rank].stuck)
			status = report_stuck(&s, rank);
	for (size_t i = 0; s.actors && i < n; i++)
		free(s.actors[i].sources);
	free(s.actors);
	free(s.meetings);
	free(s.ready);
	return status;
}

bb_status bb_program_check(const struct bb_program *p, struct bb_error *error)
{
	struct check check = {.program = p, .error = error};
	bb_status st;

	if (p->nranks < 1)
		return bb_fail(error, BB_EINTERNAL, "a program of %d ranks", p->nranks);
	if (p->queues < 1 || p->queues > BB_PROGRAM_QUEUES)
		return bb_fail(error, BB_EINTERNAL, "a program has 1 to %d queues, not %d",
			       BB_PROGRAM_QUEUES, p->queues);
	if (p->lanes < 0 || p->lanes > BB_PROGRAM_LANES)
		return bb_fail(error, BB_EINTERNAL, "a program has at most %d lanes, not %d",
			       BB_PROGRAM_LANES, p->lanes);
	if (p->events < 0 || p->groups < 0)
		return bb_fail(error, BB_EINTERNAL, "a program of %d events and %d groups",
			       p->events, p->groups);
	BB_TRY(st, bb_memberships_make(&check.memberships, p, error), out);
	BB_TRY(st, check_ranks(&check), out);
	st = check_serially(&check);
out:
	bb_memberships_free(&check.memberships);
	return st;
}
