/*
 * virtual.c - pairs of virtual ranks: one driver evaluates all of them. A matrix is a program in
 * which one pair after the other has its turn. Before each sample the two ranks of a pair meet in a
 * message without bytes, which ends at the same time on both; then the timed messages go. They meet
 * again at the end, and one of them sends a token to the next pair, so that only one pair is
 * active. The turn of a rank with all others is a program of its own, in which all begin at once.
 */
#include "core/array.h"
#include "harness/measure/runner.h"
#include "p2p/pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PING_BYTES 8

enum lane { DATA, TOKENS, LANES };
enum work { DELAY, PASS, MEET, THERE, BACK }; /* THERE is timed; of pings BACK */

/* An operation of a rank; the rest follows from the cell. */
struct act {
	unsigned char act, queue, work;
	bool together; /* as in bb_operation */
	int peer;
};

struct script {
	struct act *acts;
	size_t n, room;
};

struct bb_virtual_pairs {
	const struct bb_pairs *pairs;
	const struct bb_cell *cell;
	int *end_of;              /* [rank]; -1: none */
	struct script *scripts;   /* [end] */
	bool failed;              /* out of memory for them */
	int last[2];              /* the pair before; -1: none */
	struct bb_series *series; /* [end * n + end], where results.c looks for its part */
	struct bb_pair_part *parts;
	double *scratch;
	size_t most;
	double started; /* start of the current sample */
	int hub;        /* of a fan */
	double ended;   /* of a fan: when the last message arrived */
};

/* ---- a pair's turn ------------------------------------------------------------------------- */

static void add(struct bb_virtual_pairs *v, int rank, struct act act)
{
	struct script *s = &v->scripts[v->end_of[rank]];
	struct act *added = BB_ARRAY_ADD(s->acts, s->n, s->room);

	if (added)
		*added = act;
	else
		v->failed = true;
}

/* --fault slow: the delay before each operation of the rank. */
static void add_delay(struct bb_virtual_pairs *v, int rank)
{
	const struct bb_fault *fault = &v->pairs->run->options.fault;

	if (fault->kind == BB_FAULT_SLOW && fault->rank == rank)
		add(v, rank,
		    (struct act){.act = BB_ACT_COMPUTE, .work = DELAY, .peer = BB_NO_PEER});
}

/* INTO: the queue of the receiver. */
static void add_message(struct bb_virtual_pairs *v, int from, int to, enum work work,
			unsigned char into)
{
	add(v, from, (struct act){.act = BB_ACT_SEND, .work = (unsigned char)work, .peer = to});
	add(v, to,
	    (struct act){
		    .act = BB_ACT_RECV, .queue = into, .work = (unsigned char)work, .peer = from});
}

static void add_turn(struct bb_virtual_pairs *v, int a, int b, size_t samples)
{
	const bool ping = v->cell->ping, both = v->cell->bidirectional && !ping;
	/* Which of the two knows that the pair before is done? */
	const bool a_knows = v->last[0] < 0 || a == v->last[0] || a == v->last[1];
	const bool b_knows = b == v->last[0] || b == v->last[1];
	const int first = !a_knows && b_knows ? b : a;

	if (!a_knows && !b_knows)
		add_message(v, v->last[1], a, PASS, 0);
	add_message(v, first, first == a ? b : a, MEET, 0);
	for (size_t i = 0; i < samples; i++) {
		add_delay(v, a);
		if (!ping)
			add_delay(v, b);
		add_message(v, a, b, THERE, both);
		if (both)
			add_message(v, b, a, THERE, 1);
		if (ping) {
			add_delay(v, b);
			add_message(v, b, a, BACK, 0);
		}
		add_message(v, a, b, MEET, 0);
	}
	v->last[0] = a;
	v->last[1] = b;
}

/* ---- the turn of a rank with all others ----------------------------------------------------- */

/* The hub receives all at once, and sends from as many queues as it may have. */
static void add_fan(struct bb_virtual_pairs *v, int hub)
{
	const struct bb_pairs *pairs = v->pairs;
	const bool in = v->cell->fan == BB_ALL_TO_ONE;
	const int to_hub = bb_pair_rank(pairs, hub);
	int n = 0;

	v->hub = hub;
	for (int end = 0; end < pairs->n; end++)
		v->scripts[end].n = 0;
	for (int end = 0; end < pairs->n; end++)
		add_delay(v, bb_pair_rank(pairs, end));
	for (int end = 0; end < pairs->n; end++) {
		const int rank = bb_pair_rank(pairs, end);

		if (end == hub)
			continue;
		add(v, in ? rank : to_hub,
		    (struct act){.act = BB_ACT_SEND,
				 .queue = (unsigned char)(in ? 0 : n % BB_PROGRAM_QUEUES),
				 .work = THERE,
				 .peer = in ? to_hub : rank});
		add(v, in ? to_hub : rank,
		    (struct act){.act = BB_ACT_RECV,
				 .work = THERE,
				 .together = in && n > 0,
				 .peer = in ? rank : to_hub});
		n++;
	}
}

/* ---- the program --------------------------------------------------------------------------- */

static size_t length(const struct bb_program *program, int rank)
{
	const struct bb_virtual_pairs *v = program->own;

	return v->end_of[rank] < 0 ? 0 : v->scripts[v->end_of[rank]].n;
}

static void operation(const struct bb_program *program, int rank, size_t index,
		      struct bb_operation *o)
{
	const struct bb_virtual_pairs *v = program->own;
	const struct act *act = &v->scripts[v->end_of[rank]].acts[index];

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
	else if (act->work >= THERE && v->cell->fan)
		o->count = bb_fan_part_of(v->cell, v->pairs->n, v->hub,
					  v->end_of[rank] == v->hub ? v->end_of[act->peer]
								    : v->end_of[rank])
				   .bytes;
	else if (act->work >= THERE)
		o->count = v->cell->ping ? PING_BYTES : (size_t)v->cell->bytes;
}

/* A sample lasts from the meeting until the data has arrived. */
static void record_operation(void *own, int rank, size_t index, const struct bb_operation *o,
			     double from, double to, int source)
{
	struct bb_virtual_pairs *v = own;
	const bool timed = o->work == (v->cell->ping ? BACK : THERE);

	if (v->cell->fan) {
		v->started = fmin(v->started, from);
		v->ended = fmax(v->ended, to);
		return;
	}
	if (o->work == MEET)
		v->started = to;
	if (timed && o->act == BB_ACT_RECV)
		bb_series_add(&v->series[v->end_of[rank] * v->pairs->n + v->end_of[source]],
			      (to - v->started) / (v->cell->ping ? 2 : 1));
}

static bb_status run_program(struct bb_virtual_pairs *v, struct bb_engine *engine)
{
	const bool both = v->cell->bidirectional && !v->cell->ping;
	const struct bb_program program = {.own = v,
					   .nranks = engine->run->world.nranks,
					   .queues = v->cell->fan ? BB_PROGRAM_QUEUES
						     : both       ? 2
								  : 1,
					   .lanes = LANES,
					   .length = length,
					   .operation = operation};
	struct bb_trial trial = {.workload = {.program = &program, .own = v},
				 .timing = BB_TIMING_STEPS,
				 .steps = 1,
				 .watch = {record_operation, v}};
	bb_status status;

	snprintf(trial.what, sizeof(trial.what), "pairs of %d ranks", v->pairs->n);
	bb_engine_clear(engine);
	status = bb_engine_add(engine, &trial, NULL);
	return status == BB_OK ? bb_engine_measure(engine) : status;
}

/* ---- a matrix ------------------------------------------------------------------------------ */

static bb_status no_memory(const struct bb_pairs *pairs)
{
	return bb_no_memory(&pairs->run->error, "pairs");
}

static bb_status open_virtual(struct bb_pairs *pairs)
{
	const size_t n = (size_t)pairs->n, all = n * n;
	const struct bb_options *o = &pairs->run->options;
	const size_t rounds = o->precision != 0 ? BB_PAIR_MOST_ROUNDS : BB_PAIR_ROUNDS;
	struct bb_virtual_pairs *v = calloc(1, sizeof(*v));

	pairs->virtual = v;
	if (!v)
		return no_memory(pairs);
	v->pairs = pairs;
	v->most = o->exact ? 1 : ((size_t)o->iters / BB_PAIR_ROUNDS + 1) * rounds;
	v->end_of = malloc((size_t)pairs->run->world.nranks * sizeof(*v->end_of));
	v->scripts = calloc(n, sizeof(*v->scripts));
	v->series = calloc(all, sizeof(*v->series));
	v->parts = calloc(all, sizeof(*v->parts));
	v->scratch = calloc(v->most, sizeof(*v->scratch));
	if (!v->end_of || !v->scripts || !v->series || !v->parts || !v->scratch)
		return no_memory(pairs);
	for (int r = 0; r < pairs->run->world.nranks; r++)
		v->end_of[r] = -1;
	for (int end = 0; end < pairs->n; end++)
		v->end_of[bb_pair_rank(pairs, end)] = end;
	for (size_t i = 0; i < all; i++)
		if (bb_series_open(&v->series[i], v->most) != BB_OK)
			return no_memory(pairs);
	return BB_OK;
}

void bb_virtual_close(struct bb_pairs *pairs)
{
	struct bb_virtual_pairs *v = pairs->virtual;

	if (!v)
		return;
	for (int i = 0; v->series && i < pairs->n * pairs->n; i++)
		bb_series_close(&v->series[i]);
	for (int end = 0; v->scripts && end < pairs->n; end++)
		free(v->scripts[end].acts);
	free(v->end_of);
	free(v->scripts);
	free(v->series);
	free(v->parts);
	free(v->scratch);
	free(v);
}

/* Each round of pairs is a program of its own, and so is each sample of each rank with all others.
 */
static bb_status run_round(struct bb_virtual_pairs *v, struct bb_engine *engine, size_t samples)
{
	const int n = v->pairs->n;
	bb_status status = BB_OK;

	for (int end = 0; end < n; end++)
		v->scripts[end].n = 0;
	v->last[0] = v->last[1] = -1;
	for (int a = 0; a < n && !v->cell->fan; a++)
		for (int b = v->cell->bidirectional ? a + 1 : 0; b < n; b++)
			if (a != b)
				add_turn(v, bb_pair_rank(v->pairs, a), bb_pair_rank(v->pairs, b),
					 samples);
	if (!v->cell->fan)
		return v->failed ? no_memory(v->pairs) : run_program(v, engine);
	for (int hub = 0; hub < n; hub++)
		for (size_t i = 0; i < samples && status == BB_OK; i++) {
			add_fan(v, hub);
			v->started = INFINITY;
			v->ended = 0;
			status = v->failed ? no_memory(v->pairs) : run_program(v, engine);
			bb_series_add(&v->series[hub * n + hub], v->ended - v->started);
		}
	return status;
}

bb_status bb_virtual_measure(struct bb_engine *engine, struct bb_pairs *pairs,
			     const struct bb_cell *cell, const void **all)
{
	const double began = engine->backend->now(engine->rank);
	const int n = pairs->n * pairs->n;
	struct bb_virtual_pairs *v;
	bool stop = false;
	bb_status status = pairs->virtual ? BB_OK : open_virtual(pairs);

	if (status != BB_OK)
		return status;
	v = pairs->virtual;
	v->cell = cell;
	for (int i = 0; i < n; i++)
		bb_series_clear(&v->series[i]);
	for (int round = 0; status == BB_OK && !stop; round++) {
		status = run_round(v, engine, bb_pair_samples(engine->options, round));
		for (int i = 0; i < n; i++)
			bb_series_end_round(&v->series[i], v->scratch);
		if (status == BB_OK)
			status = bb_pairs_agree_to_stop(engine, v->series, n, round, began, &stop);
	}
	for (int i = 0; i < n && status == BB_OK; i++)
		bb_series_sum_up(&v->series[i], &v->parts[i]);
	*all = v->parts;
	return status;
}
