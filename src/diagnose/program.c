#include "diagnose/program.h"

#include <stdlib.h>

int *bb_probe_met(const struct bb_rounds *rounds, int rails)
{
	const int n = rounds->n + 1, ports = rounds->nodes * rails;
	int *const met = calloc((size_t)n * (size_t)(ports + 1), sizeof(*met));

	for (int i = 0; met && i < ports; i++) {
		int *const own = &met[(size_t)i * (size_t)n];

		for (int r = 0; r < rounds->n; r++)
			own[r + 1] = own[r] + bb_rounds_has(rounds, r, i / rails, i % rails);
	}
	return met;
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* The operations of a rank in a round. */
struct layout {
	size_t request; /* of a request: two messages, and maybe a delay before the one that it
			   sends */
	/* The operation before large messages in which the rails of a node synchronise, if there
	   are several: a link that they share shows only while both use it. */
	size_t meeting;
	size_t all;
};

static struct layout layout_of(const struct bb_probe *p, int rank)
{
	const struct bb_planted *f = &p->planted;
	const bool delayed = (f->send_s > 0 && rank == f->rank) || f->factor > 0;
	const size_t request = delayed ? 3 : 2;
	const size_t large = 1 + (size_t)(2 * BB_SMALL_REQUESTS) * request;
	const bool meets = p->ports->rails > 1;

	return (struct layout){request, meets ? large : SIZE_MAX,
			       large + meets + (size_t)(2 * p->large) * request};
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

/* [round]: in how many before it RANK meets its partner. */
static const int *met_of(const struct bb_probe *p, int rank)
{
	const int node = p->ports->node[rank], rails = p->ports->rails;
	/* The last node is that of ranks that are not measured. */
	const int port = node < 0 ? p->ports->nodes * rails : node * rails + p->ports->rail[rank];

	return &p->met[(size_t)port * (size_t)(p->rounds->n + 1)];
}

/* The operations before ROUND of a rank that has EACH where it meets its partner. In turn there is
   a collective before each round, also of those without a partner. */
static size_t operations_before(const struct bb_probe *p, const int *met, size_t each, int round)
{
	return (size_t)met[round] * each + (size_t)(p->in_turn * round);
}

/* The round of operation *INDEX of RANK, which becomes its index there. */
static int find_round(const struct bb_probe *p, int rank, size_t each, size_t *index)
{
	const int *met = met_of(p, rank);
	/* Mostly it is the first one that may have as many operations before it. */
	int low = (int)(*index / (each + p->in_turn)), high = p->rounds->n;

	for (int middle = low + 1; high - low > 1; middle = (low + high) / 2) {
		if (operations_before(p, met, each, middle) <= *index)
			low = middle;
		else
			high = middle;
	}
	*index -= operations_before(p, met, each, low);
	return low;
}

int bb_probe_round_at(const struct bb_probe *probe, int rank, size_t index)
{
	return find_round(probe, rank, layout_of(probe, rank).all, &index);
}

static size_t probe_length(const struct bb_program *program, int rank)
{
	const struct bb_probe *p = program->own;

	return p->rounds
		       ? operations_before(p, met_of(p, rank), layout_of(p, rank).all, p->rounds->n)
		       : 2 * (size_t)p->steps;
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

static void probe_operation(const struct bb_program *program, int rank, size_t index,
			    struct bb_operation *o)
{
	const struct bb_probe *p = program->own;
	const struct layout l = layout_of(p, rank);
	const int node = p->ports->node[rank], rail = p->ports->rail[rank];
	size_t request, part;
	bool is_requester, small, sends;

	if (!p->rounds) { /* steps */
		o->item = index / 2;
		if (index % 2) {
			gather(o, BB_PROBE_GATHER, 0);
			return;
		}
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_STEP;
		o->seconds = p->work_s + (rank == p->planted.rank ? p->planted.late_s : 0);
		return;
	}
	const int round = find_round(p, rank, l.all, &index);
	o->item = (size_t)round;
	if (p->in_turn && index == 0) {
		gather(o, BB_PROBE_TURN, 0);
		return;
	}
	index -= p->in_turn;
	if (index == 0) {
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_ROUND;
		o->seconds = p->pause_s;
		return;
	}
	if (index == l.meeting) {
		/* A rail that is measured alone does not wait for others. */
		if (p->rounds->rail[round] < 0) {
			gather(o, BB_PROBE_TURN, p->in_turn + node);
			return;
		}
		o->act = BB_ACT_COMPUTE;
		o->work = BB_PROBE_DELAY;
		return;
	}
	index -= index > l.meeting;
	request = (index - 1) / l.request;
	part = (index - 1) % l.request;
	small = request < 2 * BB_SMALL_REQUESTS;
	const int partner = bb_rounds_partner(p->rounds, round, node);
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

/* Groups: the world, in steps and if rounds begin in turn; then the rails of each node. */
static bool is_world(const struct bb_probe *p, int group)
{
	return group == 0 && (p->in_turn || !p->rounds);
}

static int probe_group_size(const struct bb_program *program, int group)
{
	const struct bb_probe *p = program->own;

	return is_world(p, group) ? program->nranks : p->ports->rails;
}

static int probe_member(const struct bb_program *program, int group, int i)
{
	const struct bb_probe *p = program->own;

	return is_world(p, group) ? i : p->ports->rank[(group - p->in_turn) * p->ports->rails + i];
}

void bb_probe_program(struct bb_program *program, const struct bb_probe *p)
{
	*program = (struct bb_program){
		.own = p,
		.nranks = p->nranks,
		.queues = 1,
		.lanes = p->rounds != NULL,
		.groups = p->rounds ? p->in_turn + (p->ports->rails > 1 ? p->ports->nodes : 0) : 1,
		.length = probe_length,
		.operation = probe_operation,
		.group_size = probe_group_size,
		.member = probe_member};
}
