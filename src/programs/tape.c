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
	return bb_tape_add(tape, (struct bb_operation){BB_ACT_COMPUTE, queue, work, item, seconds,
						       flops, .peer = BB_NO_PEER});
}

struct bb_operation *bb_tape_collective(struct bb_tape *tape, int queue, int work, size_t item,
					const struct bb_collective *collective, size_t count,
					enum bb_dtype dtype, enum bb_op op)
{
	return bb_tape_add(tape, (struct bb_operation){BB_ACT_COLLECTIVE, queue, work, item,
						       .collective = collective, .count = count,
						       .dtype = dtype, .op = op, .in_place = true,
						       .peer = BB_NO_PEER});
}

int bb_tape_record(struct bb_tape *tape, int queue)
{
	bb_tape_add(tape, (struct bb_operation){BB_ACT_RECORD, queue, .peer = BB_NO_PEER,
						.event = tape->events});
	return tape->events++;
}

struct bb_operation *bb_tape_wait(struct bb_tape *tape, int queue, int event)
{
	return bb_tape_add(tape, (struct bb_operation){BB_ACT_WAIT, queue, .peer = BB_NO_PEER,
						       .event = event});
}

struct bb_operation *bb_tape_order(struct bb_tape *tape, int from, int to)
{
	return bb_tape_wait(tape, to, bb_tape_record(tape, from));
}

/* ---- programs on tapes ----------------------------------------------------------------------- */

static int sequence_of(const struct bb_taped *t, int rank)
{
	return t->sequence_of ? t->sequence_of(t->own, rank) : t->nsequences == 1 ? 0 : rank;
}

static size_t taped_length(const struct bb_program *program, int rank)
{
	const struct bb_taped *t = program->own;

	return t->sequences[sequence_of(t, rank)].length;
}

static void taped_operation(const struct bb_program *program, int rank, size_t index,
			    struct bb_operation *o)
{
	const struct bb_taped *t = program->own;
	const int sequence = sequence_of(t, rank);
	const struct bb_stretch *at = t->sequences[sequence].list;

	for (size_t n = t->sequences[sequence].n; n > 1;) {
		const size_t half = n / 2;

		at += at[half].begin <= index ? half : 0;
		n -= half;
	}
	const struct bb_tape *const tape = &t->tapes[sequence * t->each + at->tape];
	index -= at->begin;
	const size_t again = index < at->n ? 0 : index / at->n;
	*o = tape->list[at->from + index - again * at->n];
	if (o->act == BB_ACT_RECORD || o->act == BB_ACT_WAIT)
		o->event += at->event + (int)again * tape->events;
	if (t->complete)
		t->complete(t->own, rank, o);
}

static int taped_group_size(const struct bb_program *program, int group)
{
	return ((const struct bb_taped *)program->own)->members;
}

bb_status bb_taped_begin(struct bb_taped *t, int nranks, int sequences, int each,
			 struct bb_error *error)
{
	*t = (struct bb_taped){.nsequences = sequences, .each = each, .members = nranks};
	t->program = (struct bb_program){.own = t,
					 .nranks = nranks,
					 .length = taped_length,
					 .operation = taped_operation,
					 .group_size = taped_group_size,
					 .member = bb_program_rank_itself};
	t->sequences = calloc((size_t)sequences, sizeof(*t->sequences));
	t->tapes = calloc((size_t)sequences * (size_t)each, sizeof(*t->tapes));
	return t->sequences && t->tapes ? BB_OK : bb_no_memory(error, "a program");
}

void bb_taped_perform(struct bb_taped *t, int sequence, int tape, size_t from, size_t times,
		      int event)
{
	struct bb_sequence *s = &t->sequences[sequence];
	struct bb_tape *of = &t->tapes[sequence * t->each + tape];
	const size_t n = of->n - from;

	if (n * times == 0)
		return;
	struct bb_stretch *added = BB_ARRAY_ADD(s->list, s->n, s->room);
	of->failed |= !added;
	if (added)
		*added = (struct bb_stretch){s->length, from, n, times, tape, event};
	s->length += n * times;
}

bb_status bb_taped_end(struct bb_taped *t, const char *what, struct bb_error *error)
{
	for (int i = 0; i < t->nsequences; i++)
		if (t->sequences[i].n == 0)
			bb_taped_perform(t, i, 0, 0, 1, 0);
	for (int i = 0; i < t->nsequences * t->each; i++) {
		if (t->tapes[i].failed)
			return bb_no_memory(error, what);
		if (t->program.events < t->tapes[i].events)
			t->program.events = t->tapes[i].events;
	}
	return BB_OK;
}

void bb_taped_free(struct bb_taped *t)
{
	for (int i = 0; i < t->nsequences * t->each && t->tapes; i++)
		free(t->tapes[i].list);
	for (int i = 0; i < t->nsequences && t->sequences; i++)
		free(t->sequences[i].list);
	free(t->tapes);
	free(t->sequences);
	*t = (struct bb_taped){.tapes = NULL};
}

struct bb_tape_traffic bb_taped_traffic(const struct bb_taped *t, int rank, const char *algorithm)
{
	const int number = sequence_of(t, rank);
	const struct bb_sequence *sequence = &t->sequences[number];
	struct bb_tape_traffic traffic = {0, 0, 0};

	for (size_t i = 0; i < sequence->n; i++) {
		const struct bb_stretch *s = &sequence->list[i];
		const struct bb_operation *o = &t->tapes[number * t->each + s->tape].list[s->from];

		for (const struct bb_operation *end = o + s->n; o < end; o++) {
			const double bytes = (double)(s->times * bb_operation_bytes(o));
			const struct bb_shape shape = {
				.nranks = t->members, .in_place = o->in_place, .count = o->count};
			const struct bb_algorithm *schedule;
			size_t wire = 0; /* elements */

			if (o->act == BB_ACT_SEND || o->act == BB_ACT_COLLECTIVE)
				traffic.calls += s->times;
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
			traffic.sent += (double)(s->times * wire * bb_dtype_size(o->dtype));
		}
	}
	return traffic;
}
