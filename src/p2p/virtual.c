/*
 * virtual.c - turns of virtual ranks: one driver evaluates all of them. A round of pairs is a
 * program in which one pair after the other has its turn. Before each sample the two ranks of a
 * pair meet in a message without bytes, which ends at the same time on both; then the timed
 * messages go. They meet again at the end, and one of them sends a token to the next pair, so that
 * only one pair is active. A sample of a hub is a program of its own, in which all begin at once.
 */
#include "core/array.h"
#include "p2p/pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PING_BYTES 8

enum lane { DATA, TOKENS, LANES };
enum work { DELAY, PASS, MEET, THERE, BACK }; /* THERE is timed; of pings BACK */

/* An operation of a virtual rank; the rest follows from the cell. */
struct act {
	unsigned char act, queue, work;
	bool together; /* as in bb_operation */
	int peer;
};

struct script {
	struct act *acts;
	size_t n, room;
};

struct bb_virtual_turns {
	const struct bb_pairs *pairs;
	const struct bb_cell *cell;
	struct script *scripts; /* [end] */
	bool failed;            /* out of memory for them */
	int last[2];            /* the pair before; -1: none */
	int hub;                /* of a fan */
	double started, ended;  /* of the current sample; ENDED: of a fan */
	bb_pair_arrival *on_arrival;
	void *own;
	int end_of[]; /* [rank]; -1: none */
};

static void add(struct bb_virtual_turns *v, int rank, struct act act)
{
	struct script *script = &v->scripts[v->end_of[rank]];

	if (!BB_ARRAY_PUT(script->acts, script->n, script->room, act))
		v->failed = true;
}

/* --fault slow: the delay before each operation of the rank. */
static void add_delay(struct bb_virtual_turns *v, int rank)
{
	const struct bb_fault *fault = &v->pairs->run->options.fault;

	if (fault->kind == BB_FAULT_SLOW && fault->rank == rank)
		add(v, rank,
		    (struct act){.act = BB_ACT_COMPUTE, .work = DELAY, .peer = BB_NO_PEER});
}

/* Add a message from queue OUT of a rank to queue IN of another; TOGETHER: with the one before. */
static void add_message(struct bb_virtual_turns *v, int from, int to, enum work work, int out,
			int in, bool together)
{
	const struct act act = {BB_ACT_SEND, (unsigned char)out, (unsigned char)work, false, to};

	add(v, from, act);
	add(v, to, (struct act){BB_ACT_RECV, (unsigned char)in, act.work, together, from});
}

/* Add the turn of the pair of ranks A and B. */
static void add_pair(struct bb_virtual_turns *v, int a, int b, size_t samples)
{
	const bool ping = v->cell->ping, both = v->cell->bidirectional && !ping;
	/* Which of the two knows that the pair before is done? */
	const bool a_knows = v->last[0] < 0 || a == v->last[0] || a == v->last[1];
	const bool b_knows = b == v->last[0] || b == v->last[1];
	const int first = !a_knows && b_knows ? b : a;

	if (!a_knows && !b_knows)
		add_message(v, v->last[1], a, PASS, 0, 0, false);
	add_message(v, first, first == a ? b : a, MEET, 0, 0, false);
	for (size_t i = 0; i < samples; i++) {
		add_delay(v, a);
		if (!ping)
			add_delay(v, b);
		add_message(v, a, b, THERE, 0, both, false);
		if (both)
			add_message(v, b, a, THERE, 0, 1, false);
		if (ping) {
			add_delay(v, b);
			add_message(v, b, a, BACK, 0, 0, false);
		}
		add_message(v, a, b, MEET, 0, 0, false);
	}
	v->last[0] = a;
	v->last[1] = b;
}

/* Add a sample of the hub, which receives all at once, and sends from as many queues as it may
   have. */
static void add_fan(struct bb_virtual_turns *v)
{
	const bool in = v->cell->fan == BB_ALL_TO_ONE;
	const int to_hub = bb_pair_rank(v->pairs, v->hub);
	int n = 0;

	for (int end = 0; end < v->pairs->n; end++)
		add_delay(v, bb_pair_rank(v->pairs, end));
	for (int end = 0; end < v->pairs->n; end++) {
		const int rank = bb_pair_rank(v->pairs, end);

		if (end == v->hub)
			continue;
		add_message(v, in ? rank : to_hub, in ? to_hub : rank, THERE,
			    in ? 0 : n % BB_PROGRAM_QUEUES, 0, in && n > 0);
		n++;
	}
}

static size_t script_length(const struct bb_program *program, int rank)
{
	const struct bb_virtual_turns *v = program->own;

	return v->end_of[rank] < 0 ? 0 : v->scripts[v->end_of[rank]].n;
}

static void script_operation(const struct bb_program *program, int rank, size_t index,
			     struct bb_operation *o)
{
	const struct bb_virtual_turns *v = program->own;
	const int end = v->end_of[rank];
	const struct act *act = &v->scripts[end].acts[index];

	o->act = (enum bb_act)act->act;
	o->queue = act->queue;
	o->work = act->work;
	o->item = index;
	o->peer = act->peer;
	o->together = act->together;
	o->lane = act->work >= THERE ? DATA : TOKENS;
	o->dtype = BB_INT8;
	if (act->work == DELAY)
		o->seconds = v->pairs->run->options.fault.seconds;
	else if (act->work >= THERE)
		o->count = v->cell->ping ? PING_BYTES
					 : bb_cell_range(v->cell, v->pairs->n, v->hub,
							 end == v->hub ? v->end_of[act->peer] : end)
						   .bytes;
}

/* A sample lasts from the meeting until the data has arrived. */
static void record_operation(void *own, int rank, size_t index, const struct bb_operation *o,
			     double from, double to, int source)
{
	struct bb_virtual_turns *v = own;
	const bool timed = o->work == (v->cell->ping ? BACK : THERE);

	if (v->cell->fan) {
		v->started = fmin(v->started, from);
		v->ended = fmax(v->ended, to);
		return;
	}
	if (o->work == MEET)
		v->started = to;
	if (timed && o->act == BB_ACT_RECV)
		v->on_arrival(v->own, v->end_of[rank], v->end_of[source],
			      (to - v->started) / (v->cell->ping ? 2 : 1));
}

bb_status bb_virtual_run(struct bb_virtual_turns *v, struct bb_engine *engine,
			 const struct bb_cell *cell, int from, int to, size_t samples)
{
	const struct bb_pairs *pairs = v->pairs;
	const bool both = cell->bidirectional && !cell->ping;
	const struct bb_program program = {.own = v,
					   .nranks = engine->run->world.nranks,
					   .queues = cell->fan ? BB_PROGRAM_QUEUES
						     : both    ? 2
							       : 1,
					   .lanes = LANES,
					   .length = script_length,
					   .operation = script_operation};
	struct bb_trial trial = {.workload = {.program = &program, .own = v},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1,
				 .watch = {record_operation, v}};
	bb_status status;

	snprintf(trial.what, sizeof(trial.what), "pairs of %d ranks", pairs->n);
	v->cell = cell;
	v->hub = from;
	v->last[0] = v->last[1] = -1;
	v->started = INFINITY;
	v->ended = 0;
	for (int end = 0; end < pairs->n; end++)
		v->scripts[end].n = 0;
	if (cell->fan)
		add_fan(v);
	for (int a = 0; a < pairs->n && !cell->fan; a++)
		for (int b = 0; b < pairs->n; b++)
			if (from >= 0 ? a == from && b == to : cell->bidirectional ? a < b : a != b)
				add_pair(v, bb_pair_rank(pairs, a), bb_pair_rank(pairs, b),
					 samples);
	if (v->failed)
		return bb_no_memory(&engine->run->error, "pairs");
	bb_engine_clear(engine);
	BB_TRY(status, bb_engine_add(engine, &trial, NULL), out);
	BB_TRY(status, bb_engine_measure(engine), out);
	if (cell->fan)
		v->on_arrival(v->own, from, from, v->ended - v->started);
out:
	return status;
}

bb_status bb_virtual_open(const struct bb_pairs *pairs, bb_pair_arrival *on_arrival, void *own,
			  struct bb_virtual_turns **opened)
{
	const size_t nranks = (size_t)pairs->run->world.nranks;
	struct bb_virtual_turns *v = *opened = calloc(1, sizeof(*v) + nranks * sizeof(*v->end_of));

	if (v)
		v->scripts = calloc((size_t)pairs->n, sizeof(*v->scripts));
	if (!v || !v->scripts)
		return bb_no_memory(&pairs->run->error, "pairs");
	v->pairs = pairs;
	v->on_arrival = on_arrival;
	v->own = own;
	memset(v->end_of, -1, nranks * sizeof(*v->end_of));
	for (int end = 0; end < pairs->n; end++)
		v->end_of[bb_pair_rank(pairs, end)] = end;
	return BB_OK;
}

void bb_virtual_close(struct bb_virtual_turns *v)
{
	for (int end = 0; v && v->scripts && end < v->pairs->n; end++)
		free(v->scripts[end].acts);
	if (v)
		free(v->scripts);
	free(v);
}
