/*
 * timeline_classes.c - a collective in virtual time whose ranks keep the same few partners. Ranks
 * that have always been at the same point form a class, which is evaluated once. A class splits
 * when its ranks receive messages that differ, so the result equals that of evaluating every rank,
 * bit for bit.
 */
#include "simulator/timeline_kinds.h"
#include "core/array.h"

#include <stdlib.h>
#include <string.h>

struct message {
	double head;  /* with ports: when its first byte reaches the port; else: when it arrives */
	double entry; /* with ports */
	int turn;     /* among those of this round to the same rank */
};

struct rank_class {
	int kind;
	int first, size; /* of its members */
	double time;
	double out[2], in[2];          /* by outside: when the port is free again */
	double busy[BB_SLOTS];         /* by link: when the message before has left */
	double received[BB_SLOTS];     /* the time after the last message; -INFINITY: none yet */
	struct message sent[BB_SLOTS]; /* in this round */
	bool stale;                    /* its sources must be found again */
	int nsources[BB_SLOTS];        /* different ends of its members */
};

struct classes {
	const struct bb_link_model *links;
	const struct bb_algorithm *schedule;
	const struct bb_shape *shape;
	double element;
	int n;
	/* [rank * BB_SLOTS + slot]: the end of the partner, as rank * BB_SLOTS + slot; BB_NO_SLOT.
	 */
	int *ends;
	int *members;  /* ranks, class by class */
	int *class_of; /* [rank] */
	/* Of the class whose members are FIRST and so on, those of slot s begin at
	   FIRST * BB_SLOTS + s * SIZE: ends as class * BB_SLOTS + slot. */
	int *sources;
	struct bb_kinds kinds;
	struct rank_class *classes;
	int nclasses, class_room;
	/* To distinguish sources: [class * BB_SLOTS + slot]. */
	int *seen, last_seen, *group;
	/* For a class that splits: [group], [group], [member]. */
	int *sizes, *starts, *moved;
	struct source *sorted; /* [source] */
};

struct source {
	struct message message;
	int end;
};

static const struct bb_kind *kind_of(const struct classes *p, const struct rank_class *c)
{
	return &p->kinds.kinds[c->kind];
}

/* ---- classes --------------------------------------------------------------------------- */

/* One class of each kind. */
static bb_status classes_begin(struct classes *p)
{
	int first = 0;

	p->class_room = p->kinds.n;
	p->nclasses = p->kinds.n;
	p->classes = calloc((size_t)p->nclasses, sizeof(*p->classes));
	if (!p->classes)
		return BB_EINTERNAL;
	for (int rank = 0; rank < p->n; rank++)
		p->classes[p->class_of[rank]].size++;
	for (int i = 0; i < p->nclasses; i++) {
		struct rank_class *c = &p->classes[i];

		c->kind = i;
		c->first = first;
		c->time = p->kinds.kinds[i].key.time;
		c->stale = true;
		for (int slot = 0; slot < BB_SLOTS; slot++)
			c->received[slot] = -INFINITY;
		first += c->size;
		c->size = 0;
	}
	for (int rank = 0; rank < p->n; rank++) {
		struct rank_class *c = &p->classes[p->class_of[rank]];

		p->members[c->first + c->size++] = rank;
	}
	return BB_OK;
}

static int *sources_of(const struct classes *p, const struct rank_class *c, int slot)
{
	return &p->sources[(size_t)c->first * BB_SLOTS + (size_t)slot * (size_t)c->size];
}

/* The end of RANK at SLOT, by the class that its partner is in now. */
static int end_of(const struct classes *p, int rank, int slot)
{
	const int end = p->ends[rank * BB_SLOTS + slot];

	return p->class_of[end / BB_SLOTS] * BB_SLOTS + end % BB_SLOTS;
}

static void find_sources(struct classes *p, struct rank_class *c)
{
	for (int slot = 0; slot < BB_SLOTS; slot++) {
		int *sources = sources_of(p, c, slot);

		c->nsources[slot] = 0;
		p->last_seen++;
		if (kind_of(p, c)->key.link[slot] == BB_NO_SLOT)
			continue;
		for (int i = 0; i < c->size; i++) {
			const int end = end_of(p, p->members[c->first + i], slot);

			if (p->seen[end] == p->last_seen)
				continue;
			p->seen[end] = p->last_seen;
			sources[c->nsources[slot]++] = end;
		}
	}
	c->stale = false;
}

/* ---- splitting ------------------------------------------------------------------------- */

static const struct message *message_of(const struct classes *p, int end)
{
	return &p->classes[end / BB_SLOTS].sent[end % BB_SLOTS];
}

static int by_message(const void *a, const void *b)
{
	const struct message *x = &((const struct source *)a)->message;
	const struct message *y = &((const struct source *)b)->message;

	if (x->head != y->head)
		return x->head < y->head ? -1 : 1;
	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x->turn - y->turn;
}

/* Do all of its members receive the same at SLOT? */
static bool is_one(const struct classes *p, const struct rank_class *c, int slot)
{
	const int *sources = sources_of(p, c, slot);
	const struct message *first = message_of(p, sources[0]);

	for (int i = 1; i < c->nsources[slot]; i++) {
		const struct message *m = message_of(p, sources[i]);

		if (m->head != first->head || m->entry != first->entry || m->turn != first->turn)
			return false;
	}
	return true;
}

/* Number the sources by their messages; returns the number of different messages. */
static int group_sources(struct classes *p, const struct rank_class *c, int slot)
{
	const int n = c->nsources[slot], *sources = sources_of(p, c, slot);
	int groups = 0;

	for (int i = 0; i < n; i++)
		p->sorted[i] = (struct source){*message_of(p, sources[i]), sources[i]};
	qsort(p->sorted, (size_t)n, sizeof(*p->sorted), by_message);
	for (int i = 0; i < n; i++) {
		groups += i == 0 || by_message(&p->sorted[i - 1], &p->sorted[i]) != 0;
		p->group[p->sorted[i].end] = groups - 1;
	}
	return groups;
}

/* Order the members of C by the group of their message at SLOT, the largest group first; returns
   that group. SIZES holds the size of each. */
static int line_up(struct classes *p, const struct rank_class *c, int slot, int groups)
{
	int *members = &p->members[c->first], largest = 0, at;

	memset(p->sizes, 0, (size_t)groups * sizeof(*p->sizes));
	for (int i = 0; i < c->size; i++)
		p->sizes[p->group[end_of(p, members[i], slot)]]++;
	for (int g = 1; g < groups; g++)
		largest = p->sizes[g] > p->sizes[largest] ? g : largest;
	at = p->sizes[largest];
	for (int g = 0; g < groups; g++) {
		p->starts[g] = g == largest ? 0 : at;
		at += g == largest ? 0 : p->sizes[g];
	}
	memcpy(p->moved, members, (size_t)c->size * sizeof(*members));
	for (int i = 0; i < c->size; i++)
		members[p->starts[p->group[end_of(p, p->moved[i], slot)]]++] = p->moved[i];
	return largest;
}

/* Class NUMBER has new members: classes that have them for partners must find their sources again.
 */
static void move_in(struct classes *p, int number)
{
	const struct rank_class *c = &p->classes[number];

	for (int i = 0; i < c->size; i++) {
		const int rank = p->members[c->first + i];

		p->class_of[rank] = number;
		for (int slot = 0; slot < BB_SLOTS; slot++) {
			const int end = p->ends[rank * BB_SLOTS + slot];

			if (end != BB_NO_SLOT)
				p->classes[p->class_of[end / BB_SLOTS]].stale = true;
		}
	}
}

/* Split class NUMBER by what its members receive at SLOT; it keeps the largest part. */
static bb_status part(struct classes *p, int number, int slot)
{
	const int groups = group_sources(p, &p->classes[number], slot);
	const int kept = line_up(p, &p->classes[number], slot, groups);
	int first = p->classes[number].first + p->sizes[kept];

	p->classes[number].size = p->sizes[kept];
	p->classes[number].stale = true;
	for (int g = 0; g < groups; g++) {
		struct rank_class *more;

		if (g == kept)
			continue;
		more = BB_ARRAY_ADD(p->classes, p->nclasses, p->class_room);
		if (!more)
			return BB_EINTERNAL;
		*more = p->classes[number];
		more->first = first;
		more->size = p->sizes[g];
		first += p->sizes[g];
		move_in(p, p->nclasses - 1);
	}
	return BB_OK;
}

/* ---- rounds ---------------------------------------------------------------------------- */

static void add_receipt(const struct classes *p, struct bb_kind *kind, const struct bb_step *step,
			int peer, bool swaps)
{
	const int i = kind->nreceipts++;

	kind->receipts[i] = bb_kind_slot(kind->partners, peer, step->channel);
	kind->received[i] = (double)step->count * p->element;
	kind->adds[i] = step->kind == BB_RECV_REDUCE;
	kind->swaps[i] = swaps;
}

static void find_steps(const struct classes *p, struct bb_kind *kind, size_t round)
{
	struct bb_step steps[BB_MAX_STEPS];
	const int n = bb_algorithm_steps(p->schedule, p->shape, &kind->role, round, steps);

	kind->nsends = kind->nreceipts = 0;
	for (int i = 0; i < n; i++) {
		const struct bb_step *step = &steps[i];

		if (step->kind == BB_COPY)
			continue;
		if (step->kind == BB_SEND) {
			const int slot = bb_kind_slot(kind->partners, step->peer, step->channel);

			kind->bytes[kind->nsends] = (double)step->count * p->element;
			kind->entries[kind->nsends] =
				bb_route_entry(p->links, kind->key.second_per_byte[slot],
					       kind->bytes[kind->nsends]);
			kind->sends[kind->nsends++] = slot;
			continue;
		}
		add_receipt(p, kind, step, step->peer, bb_steps_send_to(steps, n, step->peer));
		if (step->peer2 != BB_NO_PEER)
			add_receipt(p, kind, step, step->peer2,
				    bb_steps_send_to(steps, n, step->peer2));
	}
}

/* A message that is ready at TIME and takes ENTRY leaves as soon as *FREE allows; returns when. */
static double leave(double time, double *free, double entry)
{
	const double start = time < *free ? *free : time;

	*free = start + entry;
	return start;
}

static void send(const struct classes *p, struct rank_class *c)
{
	const struct bb_kind *kind = kind_of(p, c);

	for (int i = 0; i < kind->nsends; i++) {
		const int slot = kind->sends[i];
		const bool outside = kind->key.outside[slot];
		const double entry = kind->entries[i], bytes = kind->bytes[i];
		const double exit = bb_route_exit(p->links, outside, bytes, entry);
		const double latency = bb_route_latency(p->links, kind->key.latency[slot], bytes);
		struct message *m = &c->sent[slot];
		double unused = c->busy[kind->key.link[slot]], *busy = &unused;

		m->turn = kind->twice[slot] ? i : 0;
		m->entry = entry;
		if (bb_link_ports(p->links)) {
			m->head = leave(c->time, &c->out[outside], exit) + latency;
			continue;
		}
		if (entry > 0)
			busy = &c->busy[kind->key.link[slot]];
		m->head = leave(c->time, busy, entry) + (entry + latency);
	}
}

/* Does the message to slot A enter a port before that to slot B? */
static bool precedes(const struct bb_kind *kind, const struct message *const *sent, int a, int b)
{
	const int *order = kind->key.order;

	if (sent[a]->head != sent[b]->head)
		return sent[a]->head < sent[b]->head;
	return order[a] < order[b] || (order[a] == order[b] && sent[a]->turn < sent[b]->turn);
}

/* ARRIVALS, by slot, of the messages at the ports of C. */
static void come_in(const struct classes *p, struct rank_class *c, double arrivals[BB_SLOTS])
{
	const struct bb_kind *kind = kind_of(p, c);
	const struct message *sent[BB_SLOTS];
	bool pulled[BB_SLOTS];
	int line[BB_SLOTS];

	for (int i = 0; i < kind->nreceipts; i++) {
		const int slot = kind->receipts[i];
		int at = i;

		sent[slot] = message_of(p, *sources_of(p, c, slot));
		pulled[slot] = bb_link_pulls(p->links, kind->key.outside[slot], kind->received[i]);
		for (; at > 0 && precedes(kind, sent, slot, line[at - 1]); at--)
			line[at] = line[at - 1];
		line[at] = slot;
	}
	for (int i = 0; i < kind->nreceipts; i++) {
		const int slot = line[i];
		const struct message *m = sent[slot];
		double *in = &c->in[kind->key.outside[slot]];

		*in = *in < m->head ? m->head : *in;
		if (pulled[slot] && *in < c->time)
			*in = c->time;
		*in += m->entry;
		arrivals[slot] = *in;
	}
}

static void receive(const struct classes *p, struct rank_class *c)
{
	const struct bb_kind *kind = kind_of(p, c);
	const bool ports = bb_link_ports(p->links);
	double arrivals[BB_SLOTS];

	if (ports)
		come_in(p, c, arrivals);
	for (int i = 0; i < kind->nreceipts; i++) {
		const int slot = kind->receipts[i];
		const double later =
			kind->swaps[i]
				? bb_link_swap(p->links, kind->key.outside[slot], kind->received[i])
				: 0;
		const double arrival =
			later +
			(ports ? arrivals[slot] : message_of(p, *sources_of(p, c, slot))->head);

		c->time = c->time < arrival ? arrival : c->time;
		c->received[slot] = c->time;
		if (kind->adds[i])
			c->time += bb_link_sum(p->links, kind->received[i], 0);
	}
}

/* All have sent: class NUMBER receives, once members that receive something else have split off. */
static bb_status settle(struct classes *p, int number)
{
	const struct bb_kind *kind = kind_of(p, &p->classes[number]);

	for (int i = 0; i < kind->nreceipts; i++) {
		if (p->classes[number].stale)
			find_sources(p, &p->classes[number]);
		if (is_one(p, &p->classes[number], kind->receipts[i]))
			continue;
		if (part(p, number, kind->receipts[i]) != BB_OK)
			return BB_EINTERNAL;
	}
	if (p->classes[number].stale)
		find_sources(p, &p->classes[number]);
	receive(p, &p->classes[number]);
	return BB_OK;
}

static bb_status classes_evaluate(struct classes *p)
{
	const size_t rounds = p->kinds.kinds[0].role.rounds;

	for (size_t round = 0; round < rounds; round++) {
		for (int i = 0; i < p->kinds.n; i++)
			find_steps(p, &p->kinds.kinds[i], round);
		for (int i = 0; i < p->nclasses; i++)
			send(p, &p->classes[i]);
		for (int i = 0; i < p->nclasses; i++) /* more and more of them */
			if (settle(p, i) != BB_OK)
				return BB_EINTERNAL;
		if (!bb_pace_allows(p->links, p->schedule, round, rounds, p->nclasses))
			return BB_ETIMEOUT;
	}
	return BB_OK;
}

/* ---- all rounds ------------------------------------------------------------------------ */

/* When RANK is done: all that it sent has been received. */
static double end_time(const struct classes *p, int rank)
{
	double time = p->classes[p->class_of[rank]].time;

	for (int slot = 0; slot < BB_SLOTS; slot++) {
		int end;

		if (p->ends[rank * BB_SLOTS + slot] == BB_NO_SLOT)
			continue;
		end = end_of(p, rank, slot);
		time = fmax(time, p->classes[end / BB_SLOTS].received[end % BB_SLOTS]);
	}
	return time;
}

static bool classes_open(struct classes *p)
{
	const size_t n = (size_t)p->n;

	p->ends = malloc(n * BB_SLOTS * sizeof(*p->ends));
	p->members = malloc(n * sizeof(*p->members));
	p->class_of = malloc(n * sizeof(*p->class_of));
	p->sources = malloc(n * BB_SLOTS * sizeof(*p->sources));
	p->seen = calloc(n * BB_SLOTS, sizeof(*p->seen));
	p->group = malloc(n * BB_SLOTS * sizeof(*p->group));
	p->sizes = malloc(n * sizeof(*p->sizes));
	p->starts = malloc(n * sizeof(*p->starts));
	p->moved = malloc(n * sizeof(*p->moved));
	p->sorted = malloc(n * sizeof(*p->sorted));
	return p->ends && p->members && p->class_of && p->sources && p->seen && p->group &&
	       p->sizes && p->starts && p->moved && p->sorted;
}

static void classes_close(struct classes *p)
{
	free(p->ends);
	free(p->members);
	free(p->class_of);
	free(p->sources);
	free(p->seen);
	free(p->group);
	free(p->sizes);
	free(p->starts);
	free(p->moved);
	free(p->sorted);
	bb_kinds_free(&p->kinds);
	free(p->classes);
}

bb_status bb_timeline_classes(const struct bb_link_model *links,
			      const struct bb_algorithm *schedule, const struct bb_shape *shape,
			      double element, double *times)
{
	struct classes p = {
		.links = links,
		.schedule = schedule,
		.shape = shape,
		.element = element,
		.n = shape->nranks,
	};
	bb_status st = BB_EINTERNAL;

	if (!classes_open(&p))
		goto out;
	BB_TRY(st, bb_kinds_find(&p.kinds, links, schedule, shape, times, p.class_of, p.ends), out);
	BB_TRY(st, classes_begin(&p), out);
	BB_TRY(st, classes_evaluate(&p), out);
	for (int rank = 0; rank < p.n; rank++)
		times[rank] = end_time(&p, rank);
out:
	classes_close(&p);
	return st;
}
