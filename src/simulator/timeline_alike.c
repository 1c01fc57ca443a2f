/*
 * timeline_alike.c - a collective in virtual time whose ranks do the same but for a shift: what
 * rank 0 does in a round, all do, so a round is a few passes over arrays of ranks. Where the routes
 * between ranks repeat, ranks a period apart are always at the same point, and only the first
 * period is evaluated.
 */
#include "simulator/timeline_parts.h"

#include <stdlib.h>
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
	/* The same for all ranks, known before the loops over them: */
	bool pulled;        /* within a node */
	double delay, swap; /* bb_route_latency beyond the route's, bb_link_swap within a node */
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
};

static int shifted(const struct alike *a, int rank, int d)
{
	return (int)(((int64_t)rank + d) % a->period);
}

/* ---- shape and period ------------------------------------------------------------------ */

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

/* The least period of routes and of TIMES. */
static int find_period(const struct bb_link_model *links, int n, const double *times)
{
	const int period = period_of(links, n);

	for (int i = period; i < n; i++)
		if (times[i] != times[i - period])
			return n;
	return period;
}

/* ---- messages -------------------------------------------------------------------------- */

/* Where links belong to pairs, all that were in use are kept, as a message may have to wait. */
static bb_status open_links(struct alike *a, int d)
{
	if (bb_link_ports(a->links) || a->busy[d])
		return BB_OK;
	if ((double)a->nbusy * a->period > LANE_MOST)
		return BB_EUNSUPPORTED;
	a->nbusy++;
	a->busy[d] = calloc((size_t)a->period, sizeof(**a->busy));
	return a->busy[d] ? BB_OK : BB_EINTERNAL;
}

/* Add the message of STEP to the round. */
static bb_status add_message(struct alike *a, const struct bb_step *step)
{
	struct message *m = &a->messages[a->nmessages++];
	const double bytes = (double)step->count * a->element;

	a->same = a->same && m->d == step->peer && m->bytes == bytes;
	m->channel = step->channel;
	m->bytes = bytes;
	for (int r = 0; r < a->period && m->d != step->peer; r++)
		m->routes[r] = bb_link_route(a->links, r, (r + step->peer) % a->n);
	m->d = step->peer;
	m->pulled = bb_link_pulls(a->links, false, bytes);
	m->delay = bb_route_latency(a->links, 0, bytes);
	m->swap = bb_link_swap(a->links, false, bytes);
	return open_links(a, m->d);
}

/* ---- sending --------------------------------------------------------------------------- */

static void add_loads(struct alike *a)
{
	for (int i = 0; i < a->nmessages; i++)
		for (int r = 0; r < a->period; r++) {
			const struct message *m = &a->messages[i];

			bb_loads_add(a->loads, r, shifted(a, r, m->d), &m->routes[r], m->bytes);
		}
}

static void drop_loads(struct alike *a)
{
	for (int i = 0; i < a->nmessages; i++)
		for (int r = 0; r < a->period; r++) {
			const struct message *m = &a->messages[i];

			bb_loads_drop(a->loads, r, shifted(a, r, m->d), &m->routes[r]);
		}
}

/* How long each message of the round takes to leave. */
static void find_entries(struct alike *a)
{
	if (a->same)
		return;
	if (a->loads)
		add_loads(a);
	for (int i = 0; i < a->nmessages; i++) {
		const struct message *m = &a->messages[i];

		for (int r = 0; r < a->period; r++) {
			const struct bb_fabric_route *route = &m->routes[r];
			const double second =
				a->loads ? bb_loads_second_per_byte(a->loads, r,
								    shifted(a, r, m->d), route)
					 : route->second_per_byte;

			m->entry[r] = bb_route_entry(a->links, second, m->bytes);
			m->sum[r] = bb_link_sum(
				a->links, m->bytes,
				a->loads ? bb_loads_memory(a->loads, shifted(a, r, m->d), route)
					 : 0);
		}
	}
	if (a->loads)
		drop_loads(a);
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
		m->head[r] = start + (routes[r].latency + m->delay);
	}
}

static void send_by_ports(struct alike *a, const struct message *m)
{
	if (m->pulled)
		leave_ports(a, m, true);
	else
		leave_ports(a, m, false);
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

/* ---- receiving ------------------------------------------------------------------------- */

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

/* The only message of the round enters the ports of all ranks. */
static void come_in_alone(struct alike *a, const struct message *m)
{
	if (m->pulled)
		enter_all(a, m, true);
	else
		enter_all(a, m, false);
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
		      a->messages[order[k]].pulled);
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

/* Every rank receives M from the rank PEER further, to which it sends if SWAPS, and adds it if
 * ADDS.
 */
static void receive(struct alike *a, int peer, const struct message *m, bool swaps, bool adds)
{
	if ((swaps && m->swap > 0) || (adds && a->adds))
		take(a, peer % a->period, m, swaps ? m->swap : 0, adds);
	else
		take(a, peer % a->period, m, 0, false);
}

/* The message of this round to rank 0 from PEER on CHANNEL that is not in *TAKEN yet; added to it.
 */
static const struct message *sent_by(const struct alike *a, int peer, int channel, unsigned *taken)
{
	const int d = (a->n - peer) % a->n;

	for (int i = 0; i < a->nmessages; i++)
		if (a->messages[i].d == d && a->messages[i].channel == channel &&
		    !(*taken >> i & 1)) {
			*taken |= 1u << i;
			return &a->messages[i];
		}
	return NULL;
}

/* ---- rounds ---------------------------------------------------------------------------- */

static bb_status receive_all(struct alike *a, const struct bb_step *steps, int nsteps)
{
	unsigned taken = 0;

	for (int i = 0; i < nsteps; i++) {
		const int peers[] = {steps[i].peer, steps[i].peer2};

		for (int k = 0; k < 2; k++) {
			const struct message *m;

			if (steps[i].kind == BB_SEND || steps[i].kind == BB_COPY ||
			    peers[k] == BB_NO_PEER)
				continue;
			m = sent_by(a, peers[k], steps[i].channel, &taken);
			if (!m)
				return BB_EINTERNAL;
			receive(a, peers[k], m, bb_steps_send_to(steps, nsteps, peers[k]),
				steps[i].kind == BB_RECV_REDUCE);
		}
	}
	return BB_OK;
}

static bb_status alike_round(struct alike *a, const struct bb_step *steps, int nsteps)
{
	const bool ports = bb_link_ports(a->links);
	const int before = a->nmessages;
	bb_status status = BB_OK;

	a->nmessages = 0;
	a->same = true;
	for (int i = 0; i < nsteps && status == BB_OK; i++)
		if (steps[i].kind == BB_SEND)
			status = add_message(a, &steps[i]);
	if (status != BB_OK)
		return status;
	a->same = a->same && a->nmessages == before;
	find_entries(a);
	for (int i = 0; i < a->nmessages; i++)
		(ports ? send_by_ports : send_by_links)(a, &a->messages[i]);
	if (ports && a->nmessages == 1)
		come_in_alone(a, &a->messages[0]);
	for (int r = 0; ports && a->nmessages > 1 && r < a->period; r++)
		come_in(a, r);
	return receive_all(a, steps, nsteps);
}

static bb_status alike_evaluate(struct alike *a)
{
	struct bb_step steps[BB_MAX_STEPS];
	struct bb_role role;
	bb_status status = BB_OK;

	memset(&role, 0, sizeof(role));
	bb_algorithm_prepare(a->schedule, &a->shape, 0, &role);
	memcpy(a->taken, a->times, (size_t)a->period * sizeof(*a->taken));
	for (size_t round = 0; round < role.rounds && status == BB_OK; round++) {
		status = alike_round(
			a, steps, bb_algorithm_steps(a->schedule, &a->shape, &role, round, steps));
		if (!bb_pace_allows(a->links, a->schedule, round, role.rounds, a->period))
			status = BB_ETIMEOUT;
	}
	for (int r = 0; r < a->period; r++)
		if (a->times[r] < a->taken[r])
			a->times[r] = a->taken[r];
	return status;
}

/* ---- all rounds ------------------------------------------------------------------------ */

static bool alike_open(struct alike *a)
{
	const size_t n = (size_t)a->period;
	bool complete;

	a->busy = calloc((size_t)a->n, sizeof(*a->busy));
	a->times = malloc(n * sizeof(*a->times));
	a->taken = malloc(n * sizeof(*a->taken));
	a->out = calloc(2 * n, sizeof(*a->out));
	a->in = calloc(2 * n, sizeof(*a->in));
	complete = a->busy && a->times && a->taken && a->out && a->in;
	for (int i = 0; i < BB_MAX_STEPS; i++) {
		struct message *m = &a->messages[i];

		m->routes = malloc(n * sizeof(*m->routes));
		m->entry = malloc(n * sizeof(double));
		m->head = malloc(n * sizeof(double));
		m->arrival = malloc(n * sizeof(double));
		m->sum = malloc(n * sizeof(double));
		complete = complete && m->routes && m->entry && m->head && m->arrival && m->sum;
	}
	return complete;
}

static void alike_close(struct alike *a)
{
	for (int d = 0; a->busy && d < a->n; d++)
		free(a->busy[d]);
	for (int i = 0; i < BB_MAX_STEPS; i++) {
		free(a->messages[i].routes);
		free(a->messages[i].entry);
		free(a->messages[i].head);
		free(a->messages[i].arrival);
		free(a->messages[i].sum);
	}
	free(a->busy);
	free(a->times);
	free(a->taken);
	free(a->out);
	free(a->in);
	bb_loads_close(a->loads);
}

bb_status bb_timeline_alike(const struct bb_link_model *links, const struct bb_algorithm *schedule,
			    const struct bb_shape *shape, double element, double *times)
{
	const bool shares = bb_link_shares(links);
	struct alike a = {
		.links = links,
		.schedule = schedule,
		.shape = bb_timeline_alike_shape(schedule, shape),
		.element = element,
		.n = shape->nranks,
		.period = find_period(links, shape->nranks, times),
		.adds = links->fabric && (links->fabric->sum_second_per_byte > 0 ||
					  links->fabric->memory_second_per_byte > 0),
	};
	bb_status status = BB_EINTERNAL;

	if (shares)
		a.loads = bb_loads_open(links, schedule, a.n);
	if (alike_open(&a) && (a.loads || !shares)) {
		memcpy(a.times, times, (size_t)a.period * sizeof(*times));
		status = alike_evaluate(&a);
	}
	for (int r = 0; r < a.n && status == BB_OK; r++)
		times[r] = a.times[r % a.period];
	alike_close(&a);
	return status;
}
