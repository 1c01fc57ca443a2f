/*
 * sweep.c - a collective in virtual time, swept round by round. A message is received in the
 * round in which it was sent, so only the messages of one round are held.
 */
#include "simulator/timeline/links.h"
#include "core/array.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* A message of this round. */
struct message {
	int from, to;
	unsigned char channel;
	bool outside; /* it takes the ports for messages to other nodes */
	bool pulled;  /* by the receiver, once it has come to the receive */
	double bytes;
	size_t next; /* to the same rank and not yet received */
	double head; /* when its first byte comes to the rank */
	double entry;
	double arrival;
	double sum;  /* seconds to add it */
	double swap; /* seconds that it is later if its receiver sends to the sender at once */
};

/* A step of this round that receives. */
struct receipt {
	int rank;
	int peer, peer2;
	int channel;
	bool adds;
	bool swaps, swaps2; /* it sends to the peer in the same round */
};

/* Messages to a rank in this round, by number, in the order in which they are sent. */
struct inbox {
	size_t first, last;
};

/* When the last message has left over the link of a pair. */
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
	double *taken;          /* [rank]: when the last of its messages was received */
	double *out, *in;       /* [2 * rank + outside]: when the port is free again */
	struct bb_slabs slabs;  /* of all arrays that do not grow */
	struct bb_loads *loads; /* NULL: nothing is shared */
	struct bb_role *roles;
	size_t round;
	struct inbox *inboxes; /* [rank] */
	struct message *messages;
	size_t nmessages, capacity;
	struct receipt *receipts; /* in the order of ranks, of each in the order of its steps */
	size_t nreceipts, room;
	struct busy *busy;   /* a hash table */
	size_t places, used; /* a power of two; places that are not empty */
};

/* ---- links ---------------------------------------------------------------------------- */

static struct busy *place_of(struct busy *table, size_t places, uint64_t pair)
{
	size_t at = (size_t)bb_draw(0, pair) & (places - 1);

	while (table[at].until != 0 && table[at].pair != pair)
		at = (at + 1) & (places - 1);
	return &table[at];
}

/* Is the link still in use? A message that enters it after the last one left need not wait. */
static bool matters(const struct sweep *s, const struct busy *b)
{
	return b->until > s->times[b->pair / (uint64_t)s->shape->nranks];
}

/* Make room for more links; drop those that are free by now. */
static bb_status make_places(struct sweep *s)
{
	size_t alive = 0, places = 64;

	for (size_t i = 0; i < s->places; i++)
		alive += s->busy[i].until != 0 && matters(s, &s->busy[i]);
	while (places < 4 * alive)
		places *= 2;
	struct busy *const table = calloc(places, sizeof(*table));
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

/* A message of RANK to PEER that takes ENTRY to leave by PORT; *START = when it begins to leave. */
static bb_status leave(struct sweep *s, int rank, int peer, int port, double entry, double *start)
{
	const uint64_t pair = (uint64_t)rank * (uint64_t)s->shape->nranks + (uint64_t)peer;

	*start = s->times[rank];
	if (bb_link_ports(s->links)) {
		double *out = &s->out[2 * (size_t)rank + (size_t)port];

		if (*start < *out)
			*start = *out;
		*out = *start + entry;
		return BB_OK;
	}
	if (2 * s->used >= s->places && make_places(s) != BB_OK)
		return BB_EINTERNAL;
	struct busy *link = place_of(s->busy, s->places, pair);
	if (*start < link->until)
		*start = link->until;
	if (entry > 0) {
		s->used += link->until == 0;
		*link = (struct busy){pair, *start + entry};
	}
	return BB_OK;
}

/* ---- steps ---------------------------------------------------------------------------- */

/* Does A enter a port of their receiver before B does? At equal times the sender that is nearer
   around the ring comes first, so that ranks related by a shift stay so. */
static bool precedes(const struct sweep *s, const struct message *a, const struct message *b)
{
	const int n = s->shape->nranks;

	if (a->head != b->head)
		return a->head < b->head;
	return (a->to - a->from + n) % n < (a->to - b->from + n) % n;
}

static bb_status send(struct sweep *s, size_t number)
{
	struct message *const m = &s->messages[number];
	struct inbox *const box = &s->inboxes[m->to];
	size_t *link = &box->first;
	const uint64_t pair = (uint64_t)m->from * (uint64_t)s->shape->nranks + (uint64_t)m->to;
	const uint64_t drawn = s->round * BB_CHANNELS + (uint64_t)m->channel;
	const struct bb_fabric_route route = bb_link_route(s->links, m->from, m->to);
	double second = route.second_per_byte, factor = 1, memory = 0, start;

	if (s->loads)
		second = bb_loads_second_per_byte(s->loads, m->from, m->to, &route, &memory);
	if (s->links->noise != 0)
		factor = bb_noise_factor(s->links, bb_draw(bb_draw(s->drawn, pair), drawn));
	const struct bb_passage p = bb_link_passage(s->links, &route, second, m->bytes, memory);
	if (leave(s, m->from, m->to, route.outside, p.exit * factor, &start) != BB_OK)
		return BB_EINTERNAL;
	m->outside = route.outside;
	m->head = start + p.latency * factor;
	m->entry = p.entry * factor;
	m->arrival = start + (p.entry + p.latency) * factor;
	m->pulled = p.pulled;
	m->sum = p.sum * factor;
	m->swap = p.swap * factor;
	/* Behind those of its receiver that it does not precede: only ports have an order of their
	   own. */
	if (box->first != NONE &&
	    (!bb_link_ports(s->links) || !precedes(s, m, &s->messages[box->last])))
		link = &s->messages[box->last].next;
	while (*link != NONE && !precedes(s, m, &s->messages[*link]))
		link = &s->messages[*link].next;
	m->next = *link;
	*link = number;
	if (m->next == NONE)
		box->last = number;
	return BB_OK;
}

/* Write down what RANK sends and receives in this round. */
static bb_status post_round(struct sweep *s, int rank)
{
	struct bb_step steps[BB_MAX_STEPS];
	const int n = bb_algorithm_steps(s->schedule, s->shape, &s->roles[rank], s->round, steps);

	for (int i = 0; i < n; i++) {
		const struct bb_step *step = &steps[i];

		if (step->kind == BB_SEND) {
			struct message *new = BB_ARRAY_ADD(s->messages, s->nmessages, s->capacity);

			if (!new)
				return BB_EINTERNAL;
			new->from = rank;
			new->to = step->peer;
			new->channel = (unsigned char)step->channel;
			new->bytes = (double)step->count * s->element;
		} else if (step->kind != BB_COPY) {
			const struct receipt new = {rank,
						    step->peer,
						    step->peer2,
						    step->channel,
						    step->kind == BB_RECV_REDUCE,
						    bb_steps_send_to(steps, n, step->peer),
						    bb_steps_send_to(steps, n, step->peer2)};

			if (!BB_ARRAY_PUT(s->receipts, s->nreceipts, s->room, new))
				return BB_EINTERNAL;
		}
	}
	return BB_OK;
}

static void receive(struct sweep *s, const struct receipt *r, int peer, bool swaps)
{
	size_t *link = &s->inboxes[r->rank].first;
	const struct message *m = &s->messages[*link];

	/* The schedule has passed its checker: the message is there. */
	while (m->from != peer || m->channel != r->channel) {
		link = &s->messages[*link].next;
		m = &s->messages[*link];
	}
	*link = m->next;
	const double arrival = m->arrival + (swaps ? m->swap : 0);
	if (s->times[r->rank] < arrival)
		s->times[r->rank] = arrival;
	if (s->taken[peer] < s->times[r->rank])
		s->taken[peer] = s->times[r->rank];
	if (r->adds)
		s->times[r->rank] += m->sum;
}

static void finish_round(struct sweep *s)
{
	for (size_t i = 0; i < s->nreceipts; i++) {
		const struct receipt *r = &s->receipts[i];
		size_t at = s->inboxes[r->rank].first;

		/* With ports the messages to a rank enter its ports in the order in which they
		   reach them. */
		if (!bb_link_ports(s->links) || (i > 0 && r[-1].rank == r->rank))
			at = NONE;
		for (; at != NONE; at = s->messages[at].next) {
			struct message *m = &s->messages[at];
			double *in = &s->in[2 * (size_t)r->rank + (size_t)m->outside];

			if (*in < m->head)
				*in = m->head;
			if (m->pulled && *in < s->times[r->rank])
				*in = s->times[r->rank];
			*in += m->entry;
			m->arrival = *in;
		}
		receive(s, r, r->peer, r->swaps);
		if (r->peer2 != BB_NO_PEER)
			receive(s, r, r->peer2, r->swaps2);
	}
	s->nmessages = s->nreceipts = 0;
}

static bb_status sweep_all(const struct bb_link_model *links, const struct bb_algorithm *schedule,
			   const struct bb_shape *shape, size_t element, uint64_t call,
			   double *times)
{
	const int n = shape->nranks;
	const size_t ranks = (size_t)n;
	struct sweep s = {
		.links = links,
		.schedule = schedule,
		.shape = shape,
		.element = (double)element,
		.drawn = bb_draw(bb_draw(links->seed, 1), call),
		.times = times,
	};
	bb_status status = BB_OK;

	BB_TAKE(&s.slabs, s.taken, ranks);
	BB_TAKE_ZEROED(&s.slabs, s.out, 2 * ranks);
	BB_TAKE_ZEROED(&s.slabs, s.in, 2 * ranks);
	BB_TAKE_ZEROED(&s.slabs, s.roles, ranks);
	BB_TAKE(&s.slabs, s.inboxes, ranks);
	if (bb_link_shares(links))
		s.loads = bb_loads_open(links, &s.slabs, schedule, n);
	if (s.slabs.lacking)
		status = BB_EINTERNAL;
	for (int rank = 0; rank < n && status == BB_OK; rank++) {
		bb_algorithm_prepare(schedule, shape, rank, &s.roles[rank]);
		s.taken[rank] = times[rank];
		s.inboxes[rank].first = NONE;
	}
	for (; status == BB_OK && s.round < s.roles[0].rounds; s.round++) {
		for (int rank = 0; rank < n && status == BB_OK; rank++)
			status = post_round(&s, rank);
		/* The load of a shared link is known once all have posted; receives wait until all
		   have sent. */
		for (size_t i = 0; i < s.nmessages && s.loads; i++) {
			const struct message *m = &s.messages[i];
			const struct bb_fabric_route route = bb_link_route(links, m->from, m->to);

			bb_loads_add(s.loads, m->from, m->to, &route, m->bytes);
		}
		for (size_t i = 0; i < s.nmessages && status == BB_OK; i++)
			status = send(&s, i);
		if (s.loads)
			bb_loads_clear(s.loads);
		if (status != BB_OK)
			break;
		finish_round(&s);
		if (!bb_pace_allows(links, schedule, s.round, s.roles[0].rounds, n))
			status = BB_ETIMEOUT;
	}
	for (int rank = 0; rank < n && status == BB_OK; rank++)
		if (times[rank] < s.taken[rank])
			times[rank] = s.taken[rank];
	bb_slabs_free(&s.slabs);
	free(s.messages);
	free(s.receipts);
	free(s.busy);
	return status;
}

/* ---- choice of an evaluator ----------------------------------------------------------- */

#define SWEEP_MOST 4e6 /* rounds times ranks that are swept where alike would round parts up */

const char *bb_evaluator_name(enum bb_evaluator evaluator, const struct bb_link_model *links)
{
	if (evaluator == BB_EVALUATOR_ALIKE)
		return bb_link_shares(links) ? "alike+loads" : "alike";
	return bb_link_shares(links) ? "loads" : "sweep";
}

enum bb_evaluator bb_timeline_evaluator(const struct bb_link_model *links,
					const struct bb_algorithm *schedule,
					const struct bb_shape *shape)
{
	bool alike = schedule->flags & BB_SHIFT_INVARIANT && links->noise == 0 && !shape->matrix;
	struct bb_role role;

	if (alike && bb_timeline_alike_shape(schedule, shape).count != shape->count) {
		bb_algorithm_prepare(schedule, shape, 0, &role);
		alike = (double)role.rounds * shape->nranks > SWEEP_MOST;
	}
	return alike ? BB_EVALUATOR_ALIKE : BB_EVALUATOR_SWEEP;
}

/* LINKS whose memory holds what the caches do not; FABRIC is to be kept with it. The bytes are
   those of IN, OUT and TMP of rank 0, which stands for all. */
static struct bb_link_model in_memory_of(const struct bb_link_model *links,
					 const struct bb_algorithm *schedule,
					 const struct bb_shape *shape, size_t element,
					 struct bb_fabric *fabric)
{
	const size_t in = bb_collective_in(schedule->collective, shape, 0);
	const size_t out = bb_collective_out(schedule->collective, shape, 0);
	const size_t both = shape->in_place ? (in > out ? in : out) : in + out;
	const size_t all = both + bb_algorithm_tmp_count(schedule, shape, 0);
	struct bb_link_model in_memory = *links;

	if (links->fabric && bb_fabric_shares(links->fabric, BB_LEVEL_MEMORY)) {
		*fabric = bb_fabric_of_working_set(links->fabric, shape->nranks,
						   (double)all * (double)element);
		in_memory.fabric = fabric;
	}
	return in_memory;
}

double bb_timeline_copy(const struct bb_link_model *links, const struct bb_algorithm *schedule,
			const struct bb_shape *shape, size_t element)
{
	struct bb_fabric fabric;
	const struct bb_link_model in_memory =
		in_memory_of(links, schedule, shape, element, &fabric);

	if (!in_memory.fabric)
		return 0;
	return (double)bb_collective_in(schedule->collective, shape, 0) * (double)element *
	       bb_fabric_copy(in_memory.fabric, shape->nranks);
}

bb_status bb_timeline_collective_by(enum bb_evaluator evaluator, const struct bb_link_model *links,
				    const struct bb_algorithm *schedule,
				    const struct bb_shape *shape, size_t element, uint64_t call,
				    double *times)
{
	struct bb_fabric fabric;
	const struct bb_link_model in_memory =
		in_memory_of(links, schedule, shape, element, &fabric);
	bb_status status = BB_EUNSUPPORTED;

	if (evaluator == BB_EVALUATOR_ALIKE)
		status = bb_timeline_alike(&in_memory, schedule, shape, (double)element, times);
	if (status == BB_EUNSUPPORTED)
		status = sweep_all(&in_memory, schedule, shape, element, call, times);
	return status;
}

double bb_timeline_noise(const struct bb_link_model *links, uint64_t call)
{
	return bb_noise_factor(links, bb_draw(bb_draw(links->seed, 2), call));
}

bb_status bb_timeline_collective(const struct bb_link_model *links,
				 const struct bb_algorithm *schedule, const struct bb_shape *shape,
				 size_t element, uint64_t call, double *times)
{
	return bb_timeline_collective_by(bb_timeline_evaluator(links, schedule, shape), links,
					 schedule, shape, element, call, times);
}
