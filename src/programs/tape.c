#include "programs/tape.h"

#include "core/array.h"

#include <stdlib.h>

void bb_tape_add(struct bb_tape *tape, struct bb_operation operation)
{
	struct bb_operation *added = BB_ARRAY_ADD(tape->list, tape->n, tape->room);

	tape->failed |= !added;
	if (added)
		*added = operation;
}

int bb_tape_record(struct bb_tape *tape, int queue)
{
	bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_RECORD,
						.queue = queue,
						.peer = BB_NO_PEER,
						.event = tape->events});
	return tape->events++;
}

void bb_tape_wait(struct bb_tape *tape, int queue, int event)
{
	bb_tape_add(tape, (struct bb_operation){.act = BB_ACT_WAIT,
						.queue = queue,
						.peer = BB_NO_PEER,
						.event = event});
}

void bb_tape_order(struct bb_tape *tape, int from, int to)
{
	bb_tape_wait(tape, to, bb_tape_record(tape, from));
}

void bb_tape_free(struct bb_tape *tape)
{
	free(tape->list);
	*tape = (struct bb_tape){.list = NULL};
}
