#include "training_kernels/zero/tape.h"

#include "backends/virtual.h"
#include "core/array.h"

#include <stdio.h>
#include <stdlib.h>

enum queue { COMPUTING, COMMUNICATING, QUEUES };

/* ---- recording ------------------------------------------------------------------------------- */

static void tape_add(struct bb_zero_tape *t, const struct bb_operation *operation)
{
	struct bb_operation *new = BB_ARRAY_ADD(t->list, t->n, t->room);

	t->failed |= !new;
	if (new)
		*new = *operation;
}

/* Let queue TO wait for all operations in queue FROM. */
static void order(struct bb_zero_tape *t, enum bb_zero_phase phase, enum queue from, enum queue to)
{
	struct bb_operation o = {
		.act = BB_ACT_RECORD, .queue = from, .work = phase, .event = t->events++};

	tape_add(t, &o);
	o.act = BB_ACT_WAIT;
	o.queue = to;
	tape_add(t, &o);
}

void bb_zero_tape_compute(struct bb_zero_tape *t, enum bb_zero_phase phase, double seconds)
{
	tape_add(t, &(struct bb_operation){.act = BB_ACT_COMPUTE,
					   .queue = COMPUTING,
					   .work = phase,
					   .seconds = seconds});
}

void bb_zero_tape_call(struct bb_zero_tape *t, enum bb_zero_phase phase, const struct bb_call *call)
{
	order(t, phase, COMPUTING, COMMUNICATING);
	tape_add(t, &(struct bb_operation){.act = BB_ACT_COLLECTIVE,
					   .queue = COMMUNICATING,
					   .work = phase,
					   .collective = call->collective,
					   .count = call->shape.count,
					   .dtype = call->dtype,
					   .op = call->op,
					   .in_place = call->shape.in_place});
}

void bb_zero_tape_wait(struct bb_zero_tape *t, enum bb_zero_phase phase)
{
	order(t, phase, COMMUNICATING, COMPUTING);
}

/* ---- the program ----------------------------------------------------------------------------- */

static size_t tape_length(const struct bb_program *program, int rank)
{
	return ((const struct bb_zero_tape *)program->own)->n;
}

static void tape_operation(const struct bb_program *program, int rank, size_t index,
			   struct bb_operation *o)
{
	*o = ((const struct bb_zero_tape *)program->own)->list[index];
}

static int tape_group_size(const struct bb_program *program, int group)
{
	return program->nranks;
}

static int tape_member(const struct bb_program *program, int group, int i)
{
	return i;
}

struct observation {
	struct bb_zero_times *times;
	double last; /* end of the previous operation */
};

/* Add an operation in the computing queue of rank 0 to the times of its phase. */
static void observe(void *own, int rank, size_t index, const struct bb_operation *o, double from,
		    double to, int source)
{
	struct observation *t = own;

	if (rank != 0 || o->queue != COMPUTING)
		return;
	t->times->took[o->work] += to - t->last;
	if (o->act == BB_ACT_WAIT)
		t->times->waited[o->work] += to - t->last;
	t->last = to;
}

bb_status bb_zero_tape_evaluate(struct bb_zero_tape *t, const struct bb_backend *backend,
				struct bb_rank *rank, struct bb_zero_times *times)
{
	const struct bb_program program = {
		.own = t,
		.nranks = t->nranks,
		.queues = QUEUES,
		.events = t->events,
		.groups = 1,
		.algorithm = t->algorithm,
		.length = tape_length,
		.operation = tape_operation,
		.group_size = tape_group_size,
		.member = tape_member,
	};
	const double start = backend->now(rank);
	struct observation observation = {times, start};
	const struct bb_timeline_watch watch = {observe, &observation};
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
