#include "diagnose/program.h"

#include <stdlib.h>

int *bb_probe_active(const struct bb_rounds *rounds, int rails)
{
	const int ports = rounds->nodes * rails;
	int n = ports + 1, *active;

	for (int r = 0; r < rounds->n; r++)
		for (int i = 0; i < ports; i++)
			n += bb_rounds_has(rounds, r, i / rails, i % rails);
	active = malloc((size_t)n * sizeof(*active));
	if (!active)
		return NULL;
	n = ports + 1;
	for (int i = 0; i < ports; i++) {
		active[i] = n;
		for (int r = 0; r < rounds->n; r++)
			if (bb_rounds_has(rounds, r, i / rails, i % rails))
				active[n++] = r;
	}
	active[ports] = n;
	return active;
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* The operations of a rank in a round. */
struct layout {
	size_t request; /* of a request: two messages, and maybe a delay before the one that it
			   sends */
	/* Before large messages the rails of a node synchronise, if there are several: a link that
	   they share shows only while both use it. */
	bool meets;
	size_t meeting; /* the number of that operation */
	size_t all;
};

static struct layout layout_of(const struct bb_probe *p, int rank)
{
	const struct bb_planted *f = &p->planted;
	const bool delayed = (f->send_s > 0 && rank == f->rank) || f->factor > 0;
	struct layout l = {.request = delayed ? 3 : 2, .meets = p->ports->rails > 1};

	l.meeting = 1 + (size_t)(2 * BB_SMALL_REQUESTS) * l.request;
	l.all = l.meeting + l.meets + (size_t)(2 * p->large) * l.request;
	return l;
}

/* The planted delay of BYTES from RANK to PEER, in seconds. */
static double delay_of(const struct bb_probe *p, int rank, int peer, size_t bytes)
{
	const struct bb_planted *f = &p->planted;
	const bool there = (f->from < 0 || rank == f->from) && (f->to < 0 || peer == f->to);
	const bool back = (f->from < 0 || peer == f->from) && (f->to < 0 || rank == f->to);
	double seconds = rank == f->rank ? f->send_s : 0;

	if (f->factor > 0 && (there || (f->back && back)))
		seconds += (f->factor - 1) * (f->latency + (double)bytes / f->rate);
	return seconds;
}

/* The rounds of RANK; *N = how many there are. */
static const int *active_of(const struct bb_probe *p, int rank, size_t *n)
{
	const int *of_port;

	*n = 0;
	if (p->ports->node[rank] < 0)
		return NULL;
	of_port = &p->active[p->ports->node[rank] * p->ports->rails + p->ports->rail[rank]];
	*n = (size_t)(of_port[1] - of_port[0]);
	return &p->active[of_port[0]];
}

/* The round of an operation, and its place there. */
struct place {
	int round;
	bool turn; /* it is the collective before the round */
	size_t at; /* else its index in the round */
};

/* In turn there is a collective before each round, also of those without a partner. */
static struct place find_place(const struct bb_probe *p, int rank, size_t index)
{
	const size_t each = layout_of(p, rank).all;
	size_t low = 0, high;
	const int *active = active_of(p, rank, &high);

	if (!p->in_turn)
		return (struct place){active[index / each], false, index % each};
	while (low < high) { /* of its rounds, how many have begun? */
		const size_t middle = (low + high) / 2;

		if ((size_t)active[middle] + 1 + middle * each <= index)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && index < (size_t)active[low - 1] + 1 + low * each)
		return (struct place){active[low - 1], false,
				      index - (size_t)active[low - 1] - 1 - (low - 1) * each};
	return (struct place){(int)(index - low * each), true, 0};
}

int bb_probe_round_at(const struct bb_probe *probe, int rank, size_t index)
{
	return find_place(probe, rank, index).round;
}

static size_t rounds_length(const struct bb_program *program, int rank)
{
	const struct bb_probe *p = program->own;
	size_t n;

	active_of(p, rank, &n);
	return n * layout_of(p, rank).all + (p->in_turn ? (size_t)p->rounds->n : 0);
}

/* All of GROUP gather 4 bytes. */
static void gather(struct bb_operation *o, enum bb_probe_work work, int group)
{
	o->group = group;
	o->act = BB_ACT_COLLECTIVE;
	o->work = work;
	o->collective = &bb_all_gather;
	o->count = 1;
	o->dtype = BB_INT32;
	o->op = BB_SUM;
}

static void rounds_operation(const struct bb_program *program, int rank, size_t index,
			     struct bb_operation *o)
{
	const struct bb_probe *p = program->own;
	const struct layout l = layout_of(p, rank);
	const int node = p->ports->node[rank], rail = p->ports->rail[rank];
	struct place place = find_place(p, rank, index);
	size_t request, part;
	bool is_requester, small, sends;

	o->item = (size_t)place.round;
	if (place.turn) {
		gather(o, BB_PROBE_TURN, 0);
		return;
	}
	if (place.at == 0) {
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_ROUND;
		o->seconds = p->pause_s;
		return;
	}
	if (l.meets && place.at == l.meeting) {
		/* A rail that is measured alone does not wait for others. */
		if (p->rounds->rail[place.round] < 0) {
			gather(o, BB_PROBE_TURN, p->in_turn + node);
			return;
		}
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_DELAY;
		return;
	}
	place.at -= l.meets && place.at > l.meeting;
	request = (place.at - 1) / l.request;
	part = (place.at - 1) % l.request;
	small = request < 2 * BB_SMALL_REQUESTS;
	const int partner = bb_rounds_partner(p->rounds, place.round, node);
	is_requester = (request % 2 == 0) == (node < partner);
	o->peer = p->ports->rank[partner * p->ports->rails + rail];
	/* The delay precedes the message that the rank sends. */
	if (l.request == 3 && part == (is_requester ? 0 : 1)) {
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_DELAY;
		o->seconds = delay_of(p, rank, o->peer,
				      is_requester || small ? BB_SMALL_BYTES : p->bytes);
		o->peer = BB_NO_PEER;
		return;
	}
	if (l.request == 3)
		part = part > 0 && (is_requester || part == 2) ? part - 1 : part;
	/* A request, or the data requested. */
	sends = is_requester == (part == 0);
	o->act = sends ? BB_ACT_SEND : BB_ACT_RECV;
	o->work = small ? BB_PROBE_SMALL : BB_PROBE_LARGE;
	o->count = part == 0 || small ? BB_SMALL_BYTES : p->bytes;
	o->dtype = BB_INT8;
	o->item = request;
}

/* Groups: the world if rounds begin in turn, then the rails of each node. */
static int rounds_group_size(const struct bb_program *program, int group)
{
	const struct bb_probe *p = program->own;

	return p->in_turn && group == 0 ? program->nranks : p->ports->rails;
}

static int rounds_member(const struct bb_program *program, int group, int i)
{
	const struct bb_probe *p = program->own;

	return p->in_turn && group == 0
		       ? i
		       : p->ports->rank[(group - p->in_turn) * p->ports->rails + i];
}

void bb_probe_rounds(struct bb_program *program, const struct bb_probe *probe)
{
	*program = (struct bb_program){
		.own = probe,
		.nranks = probe->nranks,
		.queues = 1,
		.lanes = 1,
		.groups = probe->in_turn + (probe->ports->rails > 1 ? probe->ports->nodes : 0),
		.length = rounds_length,
		.operation = rounds_operation,
		.group_size = rounds_group_size,
		.member = rounds_member};
}

/* ---- steps ---------------------------------------------------------------------------------- */

static size_t steps_length(const struct bb_program *program, int rank)
{
	const struct bb_probe *p = program->own;

	return 2 * (size_t)p->steps;
}

static void steps_operation(const struct bb_program *program, int rank, size_t index,
			    struct bb_operation *o)
{
	const struct bb_probe *p = program->own;

	o->item = index / 2;
	if (index % 2 == 0) {
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_STEP;
		o->seconds = p->work_s + (rank == p->planted.rank ? p->planted.late_s : 0);
		return;
	}
	gather(o, BB_PROBE_GATHER, 0);
}

static int steps_group_size(const struct bb_program *program, int group)
{
	return program->nranks;
}

void bb_probe_steps(struct bb_program *program, const struct bb_probe *probe)
{
	*program = (struct bb_program){.own = probe,
				       .nranks = probe->nranks,
				       .queues = 1,
				       .groups = 1,
				       .length = steps_length,
				       .operation = steps_operation,
				       .group_size = steps_group_size,
				       .member = bb_program_rank_itself};
}
