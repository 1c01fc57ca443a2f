#include "programs/tape.h"

#include "core/array.h"

#include <stdlib.h>

struct bb_operation *bb_tape_add(struct bb_tape *tape, struct bb_operation operation)
{
	struct bb_operation *added = BB_ARRAY_ADD(tape->list, tape->n, tape->room);

	tape->failed |= !added;
	added = added ? added : &tape->lost;
	*added = operation;
	return added;
}

struct bb_operation *bb_tape_compute(struct bb_tape *tape, int queue, int work, size_t item,
				     double seconds, double flops)
{
	return bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_COMPUTE,
						       .queue = queue,
						       .work = work,
						       .item = item,
						       .seconds = seconds,
						       .flops = flops,
						       .peer = BB_NO_PEER});
}

struct bb_operation *bb_tape_collective(struct bb_tape *tape, int queue, int work, size_t item,
					const struct bb_collective *collective, size_t count,
					enum bb_dtype dtype, enum bb_op op)
{
	return bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_COLLECTIVE,
						       .queue = queue,
						       .work = work,
						       .item = item,
						       .collective = collective,
						       .count = count,
						       .dtype = dtype,
						       .op = op,
						       .in_place = true,
						       .peer = BB_NO_PEER});
}

int bb_tape_record(struct bb_tape *tape, int queue)
{
	bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_RECORD,
						.queue = queue,
						.peer = BB_NO_PEER,
						.event = tape->events});
	return tape->events++;
}

struct bb_operation *bb_tape_wait(struct bb_tape *tape, int queue, int event)
{
	return bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_WAIT,
						       .queue = queue,
						       .peer = BB_NO_PEER,
						       .event = event});
}

struct bb_operation *bb_tape_order(struct bb_tape *tape, int from, int to)
{
	return bb_tape_wait(tape, to, bb_tape_record(tape, from));
}

void bb_tape_free(struct bb_tape *tape)
{
	free(tape->list);
	*tape = (struct bb_tape){.list = NULL};
}

/* ---- programs on tapes ----------------------------------------------------------------------- */

static const struct bb_tape *taped_tape(const struct bb_taped *t, int rank)
{
	return &t->tapes[t->ntapes == 1 ? 0 : rank];
}

static size_t taped_length(const struct bb_program *program, int rank)
{
	const struct bb_taped *t = program->own;

	return t->n * t->times[0] + (taped_tape(t, rank)->n - t->n) * t->times[1];
}

static void taped_operation(const struct bb_program *program, int rank, size_t index,
			    struct bb_operation *o)
{
	const struct bb_taped *t = program->own;
	const struct bb_tape *tape = taped_tape(t, rank);
	const size_t before = t->n * t->times[0], first = index < before ? 0 : t->n;
	const size_t n = index < before ? t->n : tape->n - t->n;
	const size_t at = index < before ? index : index - before;
	const size_t again = at < n ? 0 : at / n;

	*o = tape->list[first + at - again * n];
	o->event += (int)again * tape->events;
	if (t->complete)
		t->complete(t->own, rank, o);
}

static int taped_group_size(const struct bb_program *program, int group)
{
	return ((const struct bb_taped *)program->own)->members;
}

bb_status bb_taped_begin(struct bb_taped *t, int nranks, bool alike, struct bb_error *error)
{
	*t = (struct bb_taped){.ntapes = alike ? 1 : nranks, .times = {1, 1}, .members = nranks};
	t->program = (struct bb_program){.own = t,
					 .nranks = nranks,
					 .length = taped_length,
					 .operation = taped_operation,
					 .group_size = taped_group_size,
					 .member = bb_program_rank_itself};
	t->tapes = calloc((size_t)t->ntapes, sizeof(*t->tapes));
	return t->tapes ? BB_OK : bb_no_memory(error, "a program");
}

bb_status bb_taped_end(struct bb_taped *t, const char *what, struct bb_error *error)
{
	for (int i = 0; i < t->ntapes; i++) {
		if (t->tapes[i].failed)
			return bb_no_memory(error, what);
		if (t->program.events < t->tapes[i].events)
			t->program.events = t->tapes[i].events;
	}
	return BB_OK;
}

void bb_taped_free(struct bb_taped *t)
{
	for (int i = 0; i < t->ntapes && t->tapes; i++)
		bb_tape_free(&t->tapes[i]);
	free(t->tapes);
	*t = (struct bb_taped){.tapes = NULL};
}

struct bb_tape_traffic bb_taped_traffic(const struct bb_taped *t, int rank, const char *algorithm)
{
	const struct bb_tape *tape = taped_tape(t, rank);
	struct bb_tape_traffic traffic = {0, 0, 0};

	for (size_t i = 0; i < tape->n; i++) {
		const struct bb_operation *o = &tape->list[i];
		const size_t times = t->times[i < t->n ? 0 : 1];
		const double bytes = (double)(times * bb_operation_bytes(o));
		const struct bb_shape shape = {
			.nranks = t->members, .in_place = o->in_place, .count = o->count};
		const struct bb_algorithm *schedule;
		size_t wire = 0; /* elements */

		if (o->act == BB_ACT_SEND || o->act == BB_ACT_COLLECTIVE)
			traffic.calls += times;
		if (o->act == BB_ACT_SEND)
			traffic.sent += bytes;
		else if (o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY)
			traffic.received += bytes;
		if (o->act != BB_ACT_COLLECTIVE || t->members == 1)
			continue;
		schedule = algorithm ? bb_algorithm_find(o->collective, algorithm)
				     : bb_algorithm_cheapest(o->collective, &shape, 0, 1);
		if (schedule)
			(void)bb_algorithm_cost(schedule, &shape, NULL, &wire);
		traffic.sent += (double)(times * wire * bb_dtype_size(o->dtype));
	}
	return traffic;
}
