/*
 * timeline.c - a collective in virtual time. All ranks do round after round; a message is received
 * in the round it was sent in, so that no more than the messages of one round are held.
 */
#include "schedules/timeline_parts.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* A message of this round. */
struct message {
	int from;
	int channel;
	size_t next; /* to the same rank and not yet received */
	double head; /* when its first byte comes to the rank */
	double entry;
	double arrival;
};

/* A step of this round that receives. */
struct receipt {
	int rank;
	int peer, peer2;
	int channel;
};

/* What comes to a rank in this round: numbers of messages, in the order in which they are sent. */
struct inbox {
	size_t first, last;
};

/* When what was sent last over the link of a pair has left. */
struct busy {
	uint64_t pair; /* source * nranks + destination */
	double until;  /* 0: an empty place */
};

struct sweep {
	const struct bb_link_model *links;
	const struct bb_algorithm *schedule;
	const struct bb_shape *shape;
	double element;
	uint64_t drawn; /* for this call */
	double *times;
	double *taken;    /* [rank]: when the last of what it sent has been received */
	double *out, *in; /* [rank], with ports: when the way is free again */
	struct bb_role *roles;
	size_t round;
	struct inbox *inboxes; /* [rank] */
	struct message *messages;
	size_t nmessages, capacity;
	struct receipt *receipts; /* in the order of ranks, of each in the order of its steps */
	size_t nreceipts, room;
	struct busy *busy;   /* a hash table */
	size_t places, used; /* a power of two; of them not empty */
};

/* ---- links --------------------------------------------------------------------------- */

static struct busy *place_of(struct busy *table, size_t places, uint64_t pair)
{
	size_t at = (size_t)bb_draw(0, pair) & (places - 1);

	while (table[at].until != 0 && table[at].pair != pair)
		at = (at + 1) & (places - 1);
	return &table[at];
}

/* Is the link still in use? What enters it later than it was left has nothing to wait for. */
static bool matters(const struct sweep *s, const struct busy *b)
{
	return b->until > s->times[b->pair / (uint64_t)s->shape->nranks];
}

/* Room for more links, without those that are free by now. */
static bb_status make_places(struct sweep *s)
{
	size_t alive = 0, places = 64;
	struct busy *table;

	for (size_t i = 0; i < s->places; i++)
		alive += s->busy[i].until != 0 && matters(s, &s->busy[i]);
	while (places < 4 * alive)
		places *= 2;
	table = calloc(places, sizeof(*table));
	if (!table)
		return BB_EINTERNAL;
	for (size_t i = 0; i < s->places; i++)
		if (s->busy[i].until != 0 && matters(s, &s->busy[i]))
			*place_of(table, places, s->busy[i].pair) = s->busy[i];
	free(s->busy);
	s->busy = table;
	s->places = places;
	s->used = alive;
	return BB_OK;
}

/* A message of RANK to PEER that takes ENTRY to leave, and leaves as soon as it can: *START = when
   it does. */
static bb_status leave(struct sweep *s, int rank, int peer, double entry, double *start)
{
	const uint64_t pair = (uint64_t)rank * (uint64_t)s->shape->nranks + (uint64_t)peer;
	struct busy *link;

	*start = s->times[rank];
	if (s->links->port) {
		if (*start < s->out[rank])
			*start = s->out[rank];
		s->out[rank] = *start + entry;
		return BB_OK;
	}
	if (2 * s->used >= s->places && make_places(s) != BB_OK)
		return BB_EINTERNAL;
	link = place_of(s->busy, s->places, pair);
	if (*start < link->until)
		*start = link->until;
	if (entry > 0) {
		s->used += link->until == 0;
		*link = (struct busy){pair, *start + entry};
	}
	return BB_OK;
}

/* With ports: what comes to RANK in this round comes in, in the order in which it gets there. */
static void come_in(struct sweep *s, int rank)
{
	const struct inbox *box = &s->inboxes[rank];

	for (size_t at = box->first; at != NONE; at = s->messages[at].next) {
		struct message *m = &s->messages[at];

		if (s->in[rank] < m->head)
			s->in[rank] = m->head;
		s->in[rank] += m->entry;
		m->arrival = s->in[rank];
	}
}

/* ---- steps --------------------------------------------------------------------------- */

/* Insert the message that was added last before those of BOX that get there later. */
static void line_up(struct sweep *s, struct inbox *box)
{
	const size_t mine = s->nmessages - 1;
	const double head = s->messages[mine].head;
	size_t *link = &box->first;

	while (*link != NONE && s->messages[*link].head <= head)
		link = &s->messages[*link].next;
	s->messages[mine].next = *link;
	*link = mine;
}

static bb_status put(struct sweep *s, int to, struct message message)
{
	struct inbox *box = &s->inboxes[to];
	bool last;

	if (s->nmessages == s->capacity) {
		const size_t capacity = s->capacity ? 2 * s->capacity : 64;
		struct message *more = realloc(s->messages, capacity * sizeof(*more));

		if (!more)
			return BB_EINTERNAL;
		s->messages = more;
		s->capacity = capacity;
	}
	s->messages[s->nmessages++] = message;
	/* Only ports have an order of their own. */
	last = box->first == NONE || !s->links->port || s->messages[box->last].head <= message.head;
	if (!last) {
		line_up(s, box);
		return BB_OK;
	}
	if (box->first == NONE)
		box->first = s->nmessages - 1;
	else
		s->messages[box->last].next = s->nmessages - 1;
	box->last = s->nmessages - 1;
	return BB_OK;
}

/* The schedule has passed its checker: the message is there. */
static double take(struct sweep *s, int rank, int peer, int channel)
{
	struct inbox *box = &s->inboxes[rank];
	size_t before = NONE, at = box->first;

	while (s->messages[at].from != peer || s->messages[at].channel != channel) {
		before = at;
		at = s->messages[at].next;
	}
	*(before == NONE ? &box->first : &s->messages[before].next) = s->messages[at].next;
	return s->messages[at].arrival;
}

static double message_factor(const struct sweep *s, uint64_t pair, int channel)
{
	if (s->links->noise == 0)
		return 1;
	return bb_noise_factor(s->links, bb_draw(bb_draw(s->drawn, pair),
						 s->round * BB_CHANNELS + (uint64_t)channel));
}

static bb_status send(struct sweep *s, int rank, const struct bb_step *step)
{
	const uint64_t pair = (uint64_t)rank * (uint64_t)s->shape->nranks + (uint64_t)step->peer;
	const double entry = bb_link_entry(s->links, (double)step->count * s->element);
	const double factor = message_factor(s, pair, step->channel);
	double start;

	if (leave(s, rank, step->peer, entry * factor, &start) != BB_OK)
		return BB_EINTERNAL;
	return put(s, step->peer,
		   (struct message){
			   .from = rank,
			   .channel = step->channel,
			   .next = NONE,
			   .head = start + s->links->latency * factor,
			   .entry = entry * factor,
			   .arrival = start + (entry + s->links->latency) * factor,
		   });
}

static bb_status note(struct sweep *s, int rank, const struct bb_step *step)
{
	if (s->nreceipts == s->room) {
		const size_t room = s->room ? 2 * s->room : 64;
		struct receipt *more = realloc(s->receipts, room * sizeof(*more));

		if (!more)
			return BB_EINTERNAL;
		s->receipts = more;
		s->room = room;
	}
	s->receipts[s->nreceipts++] =
		(struct receipt){rank, step->peer, step->peer2, step->channel};
	return BB_OK;
}

/* What RANK sends leaves at once; what it receives has to wait until all have sent. */
static bb_status post_round(struct sweep *s, int rank)
{
	struct bb_step steps[BB_MAX_STEPS];
	const int n = s->schedule->round(s->shape, &s->roles[rank], s->round, steps);
	bb_status status = BB_OK;

	for (int i = 0; i < n && status == BB_OK; i++) {
		if (steps[i].kind == BB_SEND)
			status = send(s, rank, &steps[i]);
		else if (steps[i].kind != BB_COPY)
			status = note(s, rank, &steps[i]);
	}
	return status;
}

static void receive(struct sweep *s, int rank, int peer, int channel)
{
	const double arrival = take(s, rank, peer, channel);

	if (s->times[rank] < arrival)
		s->times[rank] = arrival;
	if (s->taken[peer] < s->times[rank])
		s->taken[peer] = s->times[rank];
}

static void finish_round(struct sweep *s)
{
	for (size_t i = 0; i < s->nreceipts; i++) {
		const struct receipt *r = &s->receipts[i];

		if (s->links->port && (i == 0 || r[-1].rank != r->rank))
			come_in(s, r->rank);
		receive(s, r->rank, r->peer, r->channel);
		if (r->peer2 != BB_NO_PEER)
			receive(s, r->rank, r->peer2, r->channel);
	}
	s->nmessages = s->nreceipts = 0;
}

static bb_status sweep(struct sweep *s)
{
	const int n = s->shape->nranks;

	for (int rank = 0; rank < n; rank++) {
		s->schedule->prepare(s->shape, rank, &s->roles[rank]);
		s->taken[rank] = s->times[rank];
		s->inboxes[rank].first = NONE;
	}
	for (s->round = 0; s->round < s->roles[0].rounds; s->round++) {
		for (int rank = 0; rank < n; rank++)
			if (post_round(s, rank) != BB_OK)
				return BB_EINTERNAL;
		finish_round(s);
	}
	for (int rank = 0; rank < n; rank++)
		if (s->times[rank] < s->taken[rank])
			s->times[rank] = s->taken[rank];
	return BB_OK;
}

bb_status bb_timeline_collective(const struct bb_link_model *links,
				 const struct bb_algorithm *schedule, const struct bb_shape *shape,
				 size_t element, uint64_t call, double *times)
{
	const size_t n = (size_t)shape->nranks;
	struct sweep s = {
		.links = links,
		.schedule = schedule,
		.shape = shape,
		.element = (double)element,
		.drawn = bb_draw(bb_draw(links->seed, 1), call),
		.times = times,
		.taken = malloc(n * sizeof(*s.taken)),
		.out = calloc(n, sizeof(*s.out)),
		.in = calloc(n, sizeof(*s.in)),
		.roles = calloc(n, sizeof(*s.roles)),
		.inboxes = malloc(n * sizeof(*s.inboxes)),
	};
	bb_status status = BB_EINTERNAL;

	if (s.taken && s.out && s.in && s.roles && s.inboxes)
		status = sweep(&s);
	free(s.taken);
	free(s.out);
	free(s.in);
	free(s.roles);
	free(s.inboxes);
	free(s.messages);
	free(s.receipts);
	free(s.busy);
	return status;
}
