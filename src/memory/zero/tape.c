#include "memory/zero/tape.h"

#include "backends/virtual.h"
#include "core/array.h"

#include <stdio.h>
#include <stdlib.h>

enum queue { COMPUTING, COMMUNICATING, QUEUES };

/* ---- putting down ---------------------------------------------------------------------------- */

static void add(struct bb_zero_tape *t, const struct bb_operation *operation)
{
	struct bb_operation *new = BB_ARRAY_ADD(t->list, t->n, t->room);

	t->failed |= !new;
	if (new)
		*new = *operation;
}

/* TO waits for all that is in FROM. */
static void order(struct bb_zero_tape *t, enum bb_zero_phase phase, enum queue from, enum queue to)
{
	struct bb_operation o = {
		.act = BB_ACT_RECORD, .queue = from, .work = phase, .event = t->events++};

	add(t, &o);
	o.act = BB_ACT_WAIT;
	o.queue = to;
	add(t, &o);
}

void bb_zero_tape_compute(struct bb_zero_tape *t, enum bb_zero_phase phase, double seconds)
{
	add(t,
	    &(struct bb_operation){
		    .act = BB_ACT_COMPUTE, .queue = COMPUTING, .work = phase, .seconds = seconds});
}

void bb_zero_tape_call(struct bb_zero_tape *t, enum bb_zero_phase phase, const struct bb_call *call)
{
	order(t, phase, COMPUTING, COMMUNICATING);
	add(t, &(struct bb_operation){.act = BB_ACT_COLLECTIVE,
				      .queue = COMMUNICATING,
				      .work = phase,
				      .collective = call->collective,
				      .count = call->shape.count,
				      .dtype = call->dtype,
				      .op = call->op,
				      .in_place = call->shape.in_place});
}

void bb_zero_tape_settle(struct bb_zero_tape *t, enum bb_zero_phase phase)
{
	order(t, phase, COMMUNICATING, COMPUTING);
}

/* ---- as a program ---------------------------------------------------------------------------- */

static size_t length(const struct bb_program *program, int rank)
{
	return ((const struct bb_zero_tape *)program->own)->n;
}

static void operation(const struct bb_program *program, int rank, size_t index,
		      struct bb_operation *o)
{
	*o = ((const struct bb_zero_tape *)program->own)->list[index];
}

static int group_size(const struct bb_program *program, int group)
{
	return program->nranks;
}

static int member(const struct bb_program *program, int group, int i)
{
	return i;
}

struct hearing {
	struct bb_zero_times *times;
	double last; /* when what came before was done */
};

/* What rank 0 computes or waits for, one after the other. */
static void hear(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		 double to, int source)
{
	struct hearing *h = own;

	if (rank != 0 || o->queue != COMPUTING)
		return;
	h->times->took[o->work] += to - h->last;
	if (o->act == BB_ACT_WAIT)
		h->times->waited[o->work] += to - h->last;
	h->last = to;
}

bb_status bb_zero_tape_play(struct bb_zero_tape *t, const struct bb_backend *backend,
			    struct bb_rank *rank, struct bb_zero_times *times)
{
	const struct bb_program program = {
		.own = t,
		.nranks = t->nranks,
		.queues = QUEUES,
		.events = t->events,
		.groups = 1,
		.algorithm = t->algorithm,
		.length = length,
		.operation = operation,
		.group_size = group_size,
		.member = member,
	};
	const double start = backend->now(rank);
	struct hearing h = {times, start};
	const struct bb_timeline_watch watch = {hear, &h};
	double end;
	bb_status status;

	*times = (struct bb_zero_times){0};
	if (t->failed)
		return bb_no_memory(t->error, "a step");
	BB_TRY(status, bb_program_check(&program, t->error), out);
	BB_TRY(status, backend->virtual->evaluate(rank, &program, &watch, &end, t->error), out);
	times->step = end - start;
out:
	t->n = 0;
	t->events = 0;
	return status;
}

void bb_zero_tape_free(struct bb_zero_tape *t)
{
	free(t->list);
}
