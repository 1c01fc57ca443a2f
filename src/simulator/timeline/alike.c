/*
 * alike.c - a collective in virtual time whose ranks do the same but for a shift: what
 * rank 0 does in a round, all do, so a round is a few passes over arrays of ranks. Where the routes
 * between ranks repeat, ranks a period apart are always at the same point, and only the first
 * period is evaluated.
 */
#include "simulator/timeline/links.h"

#include <string.h>

#define LANE_MOST 4194304 /* ranks times distances that are kept for links of pairs */

/* A message that every rank sends in this round to the rank D further. The one before it in the
   same place had the same routes if D is the same, and the same entries if all of its round were
   the same. */
struct message {
	int d; /* 0: there was none yet */
	int channel;
	double bytes;
	struct bb_fabric_route *routes;       /* [rank] that sends */
	double *entry, *head, *arrival, *sum; /* likewise; sum: seconds to add it */
	/* Of all ranks, within a node and without latency of the route: known before the loops over
	   them. */
	struct bb_passage inside;
};

struct alike {
	const struct bb_link_model *links;
	const struct bb_algorithm *schedule;
	struct bb_shape shape;
	double element;
	int n, period;
	double *times, *taken;
	double *out, *in; /* [2 * rank + outside] */
	/* With links of pairs: [d]: [rank]: when the message before to the rank D further has left;
	   NULL: there was none. */
	double **busy;
	int nbusy;
	struct message messages[BB_MAX_STEPS];
	int nmessages;
	bool same; /* messages as those of the round before */
	bool adds; /* additions take time */
	struct bb_loads *loads;
	struct bb_slabs slabs;
};

static int shifted(const struct alike *a, int rank, int d)
{
	return (int)(((int64_t)rank + d) % a->period);
}

/* ---- shape and period ----------------------------------------------------------------- */

/* Only all_reduce, whose count is that of the whole, has parts of different lengths. */
struct bb_shape bb_timeline_alike_shape(const struct bb_algorithm *schedule,
					const struct bb_shape *shape)
{
	const struct bb_collective *collective = schedule->collective;
	struct bb_shape even = *shape;
	size_t pieces = 1, parts;

	if (collective != &bb_all_reduce)
		return even;
	if (shape->chunk > 0)
		pieces = (shape->count + shape->chunk * (size_t)shape->nranks - 1) /
			 (shape->chunk * (size_t)shape->nranks);
	parts = (size_t)shape->nranks * (pieces > 0 ? pieces : 1);
	even.count = (shape->count + parts - 1) / parts * parts;
	return even;
}

static int period_of(const struct bb_link_model *links, int n)
{
	if (links->slow_link.factor > 0)
		return n;
	if (!links->fabric)
		return 1;
	return links->members || links->crowd ? n : bb_fabric_period(links->fabric, n);
}

double bb_timeline_alike_work(const struct bb_link_model *links,
			      const struct bb_algorithm *schedule, const struct bb_shape *shape)
{
	struct bb_role role;

	bb_algorithm_prepare(schedule, shape, 0, &role);
	return (double)role.rounds * period_of(links, shape->nranks);
}

/* ---- sending -------------------------------------------------------------------------- */

/* How long each message of the round takes to leave. */
static void find_entries(struct alike *a)
{
	if (a->same)
		return;
	for (int i = 0; i < a->nmessages && a->loads; i++) {
		const struct message *m = &a->messages[i];

		for (int r = 0; r < a->period; r++)
			bb_loads_add(a->loads, r, shifted(a, r, m->d), &m->routes[r], m->bytes);
	}
	for (int i = 0; i < a->nmessages; i++) {
		const struct message *m = &a->messages[i];

		for (int r = 0; r < a->period; r++) {
			const struct bb_fabric_route *route = &m->routes[r];
			double second = route->second_per_byte, memory = 0;
			struct bb_passage p;

			if (a->loads)
				second = bb_loads_second_per_byte(a->loads, r, shifted(a, r, m->d),
								  route, &memory);
			p = bb_link_passage(a->links, route, second, m->bytes, memory);
			m->entry[r] = p.entry;
			m->sum[r] = p.sum;
		}
	}
	if (a->loads)
		bb_loads_clear(a->loads);
}

/* The loops over ranks are made twice, for messages that need no special treatment and others. */
#define INLINED static inline __attribute__((always_inline))

INLINED void leave_ports(struct alike *a, const struct message *m, bool pulled)
{
	const struct bb_fabric_route *routes = m->routes;

	for (int r = 0; r < a->period; r++) {
		double *out = &a->out[2 * r + routes[r].outside];
		const double start = a->times[r] > *out ? a->times[r] : *out;

		*out = start +
		       (pulled && !routes[r].outside ? a->links->fabric->overhead : m->entry[r]);
		m->head[r] = start + (routes[r].latency + m->inside.latency);
	}
}

static void send_by_links(struct alike *a, const struct message *m)
{
	double *busy = a->busy[m->d];

	for (int r = 0; r < a->period; r++) {
		const double start = a->times[r] > busy[r] ? a->times[r] : busy[r];

		if (m->entry[r] > 0)
			busy[r] = start + m->entry[r];
		m->arrival[r] = start + (m->entry[r] + m->routes[r].latency);
	}
}

/* ---- receiving ------------------------------------------------------------------------ */

/* M of the rank SENDER enters a port of the rank TO. */
INLINED void enter(struct alike *a, const struct message *m, int sender, int to, bool pulled)
{
	const bool outside = m->routes[sender].outside;
	double *in = &a->in[2 * to + outside], from = *in > m->head[sender] ? *in : m->head[sender];

	if (pulled && !outside && from < a->times[to])
		from = a->times[to];
	*in = from + m->entry[sender];
	m->arrival[sender] = *in;
}

INLINED void enter_all(struct alike *a, const struct message *m, bool pulled)
{
	int to = m->d % a->period;

	for (int r = 0; r < a->period; r++) {
		enter(a, m, r, to, pulled);
		to = to + 1 == a->period ? 0 : to + 1;
	}
}

/* The messages to RANK enter its ports in the order in which they reach them, at equal times the
   sender that is nearer around the ring first. */
static void come_in(struct alike *a, int rank)
{
	int order[BB_MAX_STEPS], from[BB_MAX_STEPS];

	for (int i = 0; i < a->nmessages; i++) {
		const struct message *m = &a->messages[i];
		const double head = m->head[from[i] = shifted(a, rank, a->n - m->d)];
		int at = i;

		for (; at > 0; at--) {
			const struct message *other = &a->messages[order[at - 1]];
			const double its = other->head[from[order[at - 1]]];

			if (its < head || (its == head && other->d <= m->d))
				break;
			order[at] = order[at - 1];
		}
		order[at] = i;
	}
	for (int k = 0; k < a->nmessages; k++)
		enter(a, &a->messages[order[k]], from[order[k]], rank,
		      a->messages[order[k]].inside.pulled);
}

INLINED void take(struct alike *a, int from, const struct message *m, double swap, bool adds)
{
	for (int r = 0; r < a->period; r++) {
		const double arrival =
			m->arrival[from] + (swap > 0 && !m->routes[from].outside ? swap : 0);
		const double time = a->times[r] > arrival ? a->times[r] : arrival;

		a->times[r] = adds ? time + m->sum[from] : time;
		if (a->taken[from] < time)
			a->taken[from] = time;
		from = from + 1 == a->period ? 0 : from + 1;
	}
}

/* ---- rounds --------------------------------------------------------------------------- */

static bb_status receive_all(struct alike *a, const struct bb_step *steps, int nsteps)
{
	unsigned taken = 0;

	for (int i = 0; i < 2 * nsteps; i++) {
		const struct bb_step *step = &steps[i / 2];
		const int peer = i % 2 ? step->peer2 : step->peer, d = (a->n - peer) % a->n;
		int k = 0;

		if (step->kind == BB_SEND || step->kind == BB_COPY || peer == BB_NO_PEER)
			continue;
		/* The message to rank 0 from the peer that is not taken yet. */
		while (k < a->nmessages && (a->messages[k].d != d || taken >> k & 1 ||
					    a->messages[k].channel != step->channel))
			k++;
		if (k == a->nmessages)
			return BB_EINTERNAL;
		taken |= 1u << k;
		const struct message *const m = &a->messages[k];
		const double swap = bb_steps_send_to(steps, nsteps, peer) ? m->inside.swap : 0;
		const bool adds = step->kind == BB_RECV_REDUCE && a->adds;
		if (swap > 0 || adds)
			take(a, peer % a->period, m, swap, adds);
		else
			take(a, peer % a->period, m, 0, false);
	}
	return BB_OK;
}

static bb_status alike_round(struct alike *a, const struct bb_step *steps, int nsteps)
{
	const bool ports = bb_link_ports(a->links);
	const struct bb_fabric_route none = {.latency = 0};
	const int before = a->nmessages;

	a->nmessages = 0;
	a->same = true;
	for (const struct bb_step *step = steps; step < steps + nsteps; step++) {
		struct message *m = &a->messages[a->nmessages];
		const double bytes = (double)step->count * a->element;

		if (step->kind != BB_SEND)
			continue;
		a->nmessages++;
		a->same = a->same && m->d == step->peer && m->bytes == bytes;
		m->channel = step->channel;
		m->bytes = bytes;
		for (int r = 0; r < a->period && m->d != step->peer; r++)
			m->routes[r] = bb_link_route(a->links, r, (r + step->peer) % a->n);
		m->d = step->peer;
		m->inside = bb_link_passage(a->links, &none, 0, bytes, 0);
		/* Where links belong to pairs, all that were in use are kept, as a message may have
		   to wait. */
		if (ports || a->busy[m->d])
			continue;
		if ((double)a->nbusy * a->period > LANE_MOST)
			return BB_EUNSUPPORTED;
		a->nbusy++;
		if (!BB_TAKE_ZEROED(&a->slabs, a->busy[m->d], (size_t)a->period))
			return BB_EINTERNAL;
	}
	a->same = a->same && a->nmessages == before;
	find_entries(a);
	for (int i = 0; i < a->nmessages; i++)
		if (!ports)
			send_by_links(a, &a->messages[i]);
		else if (a->messages[i].inside.pulled)
			leave_ports(a, &a->messages[i], true);
		else
			leave_ports(a, &a->messages[i], false);
	if (ports && a->nmessages == 1 && a->messages[0].inside.pulled)
		enter_all(a, &a->messages[0], true);
	else if (ports && a->nmessages == 1)
		enter_all(a, &a->messages[0], false);
	for (int r = 0; ports && a->nmessages > 1 && r < a->period; r++)
		come_in(a, r);
	return receive_all(a, steps, nsteps);
}

bb_status bb_timeline_alike(const struct bb_link_model *links, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, double element, double *times)
{
	struct alike a = {
		.links = links,
		.schedule = schedule,
		.shape = bb_timeline_alike_shape(schedule, shape),
		.element = element,
		.n = shape->nranks,
		.period = period_of(links, shape->nranks),
		.adds = links->fabric && (links->fabric->sum_second_per_byte > 0 ||
					  links->fabric->memory_second_per_byte > 0),
	};
	struct bb_role role = {.rank = 0};
	int same = 0; /* ranks as a period before */
	size_t n;

	/* The least period of routes and of TIMES. */
	while (same < a.n && (same < a.period || times[same] == times[same - a.period]))
		same++;
	if (same < a.n)
		a.period = a.n;
	n = (size_t)a.period;
	BB_TAKE_ZEROED(&a.slabs, a.busy, (size_t)a.n);
	BB_TAKE(&a.slabs, a.times, n);
	BB_TAKE(&a.slabs, a.taken, n);
	BB_TAKE_ZEROED(&a.slabs, a.out, 2 * n);
	BB_TAKE_ZEROED(&a.slabs, a.in, 2 * n);
	for (struct message *m = a.messages; m < a.messages + BB_MAX_STEPS; m++) {
		BB_TAKE(&a.slabs, m->routes, n);
		BB_TAKE(&a.slabs, m->entry, n);
		BB_TAKE(&a.slabs, m->head, n);
		BB_TAKE(&a.slabs, m->arrival, n);
		BB_TAKE(&a.slabs, m->sum, n);
	}
	if (bb_link_shares(links))
		a.loads = bb_loads_open(links, &a.slabs, schedule, a.n);
	bb_status status = a.slabs.lacking ? BB_EINTERNAL : BB_OK;
	if (status == BB_OK) {
		memcpy(a.times, times, n * sizeof(*times));
		memcpy(a.taken, times, n * sizeof(*times));
		bb_algorithm_prepare(schedule, &a.shape, 0, &role);
	}
	for (size_t round = 0; round < role.rounds && status == BB_OK; round++) {
		struct bb_step steps[BB_MAX_STEPS];

		status = alike_round(&a, steps,
				     bb_algorithm_steps(schedule, &a.shape, &role, round, steps));
		if (!bb_pace_allows(links, schedule, round, role.rounds, a.period))
			status = BB_ETIMEOUT;
	}
	for (int r = 0; r < a.n && status == BB_OK; r++)
		times[r] = fmax(a.times[r % a.period], a.taken[r % a.period]);
	bb_slabs_free(&a.slabs);
	return status;
}
