#include "script.h"

#include <stdlib.h>
#include <string.h>

static size_t length(const struct bb_program *program, int rank)
{
	const struct script *s = program->own;

	return s->lengths[rank];
}

static void operation(const struct bb_program *program, int rank, size_t index,
		      struct bb_operation *o)
{
	const struct script *s = program->own;

	*o = s->operations[rank][index];
}

static int group_size(const struct bb_program *program, int group)
{
	const struct script *s = program->own;

	return s->sizes[group];
}

static int member(const struct bb_program *program, int group, int i)
{
	const struct script *s = program->own;

	return s->members[group][i];
}

void script_open(struct script *script, int nranks)
{
	memset(script, 0, sizeof(*script));
	script->program = (struct bb_program){
		.own = script,
		.nranks = nranks,
		.queues = 1,
		.groups = 1,
		.length = length,
		.operation = operation,
		.group_size = group_size,
		.member = member,
	};
	script->sizes[0] = nranks;
	for (int rank = 0; rank < nranks; rank++)
		script->members[0][rank] = rank;
}

void script_close(struct script *script)
{
	for (int rank = 0; rank < script->program.nranks; rank++)
		free(script->operations[rank]);
}

static void at_least(int *number, int wanted)
{
	if (*number < wanted)
		*number = wanted;
}

void script_add(struct script *script, int rank, struct bb_operation o)
{
	size_t n = script->lengths[rank]++;
	struct bb_operation *more = realloc(script->operations[rank], (n + 1) * sizeof(*more));

	if (!more)
		abort();
	script->operations[rank] = more;
	o.item = n;
	more[n] = o;
	at_least(&script->program.queues, o.queue + 1);
	if (o.act == BB_ACT_SEND || o.act == BB_ACT_RECV || o.act == BB_ACT_RECV_ANY)
		at_least(&script->program.lanes, o.lane + 1);
	if (o.act == BB_ACT_RECORD || o.act == BB_ACT_WAIT)
		at_least(&script->program.events, o.event + 1);
}

void script_compute(struct script *script, int rank, int queue, double seconds)
{
	script_add(
		script, rank,
		(struct bb_operation){.act = BB_ACT_COMPUTE, .queue = queue, .seconds = seconds});
}

void script_record(struct script *script, int rank, int queue, int event)
{
	script_add(script, rank,
		   (struct bb_operation){.act = BB_ACT_RECORD, .queue = queue, .event = event});
}

void script_wait(struct script *script, int rank, int queue, int event)
{
	script_add(script, rank,
		   (struct bb_operation){.act = BB_ACT_WAIT, .queue = queue, .event = event});
}

static void message(struct script *script, int rank, enum bb_act act, int queue, int lane, int peer,
		    size_t count)
{
	script_add(script, rank,
		   (struct bb_operation){.act = act,
					 .queue = queue,
					 .lane = lane,
					 .peer = peer,
					 .count = count,
					 .dtype = BB_FLOAT});
}

void script_send(struct script *script, int rank, int queue, int lane, int peer, size_t count)
{
	message(script, rank, BB_ACT_SEND, queue, lane, peer, count);
}

void script_recv(struct script *script, int rank, int queue, int lane, int peer, size_t count)
{
	message(script, rank, BB_ACT_RECV, queue, lane, peer, count);
}

void script_recv_any(struct script *script, int rank, int queue, int lane, size_t count)
{
	message(script, rank, BB_ACT_RECV_ANY, queue, lane, BB_NO_PEER, count);
}

void script_all_reduce(struct script *script, int rank, int queue, int group, size_t count)
{
	script_add(script, rank,
		   (struct bb_operation){.act = BB_ACT_COLLECTIVE,
					 .queue = queue,
					 .group = group,
					 .collective = &bb_all_reduce,
					 .count = count,
					 .dtype = BB_FLOAT,
					 .op = BB_SUM});
}

/* ---- pipelines ----------------------------------------------------------------------- */

enum { COMPUTE, SEND_F, RECV_F, SEND_B, RECV_B }; /* queues */
enum { FORWARD, BACKWARD };                       /* lanes */

struct stage {
	struct script *script;
	int rank, last, microbatches;
	double seconds[2];
};

static int event(const struct stage *s, int what, int microbatch)
{
	return what * s->microbatches + microbatch;
}

static void take(const struct stage *s, int lane, int microbatch)
{
	const int queue = lane == FORWARD ? RECV_F : RECV_B;

	if (s->rank == (lane == FORWARD ? 0 : s->last))
		return;
	script_recv(s->script, s->rank, queue, lane, s->rank + (lane == FORWARD ? -1 : 1), 1);
	script_record(s->script, s->rank, queue, event(s, lane, microbatch));
}

static void work(const struct stage *s, int lane, int microbatch)
{
	if (s->rank != (lane == FORWARD ? 0 : s->last))
		script_wait(s->script, s->rank, COMPUTE, event(s, lane, microbatch));
	script_compute(s->script, s->rank, COMPUTE, s->seconds[lane]);
	script_record(s->script, s->rank, COMPUTE, event(s, 2 + lane, microbatch));
}

static void give(const struct stage *s, int lane, int microbatch)
{
	const int queue = lane == FORWARD ? SEND_F : SEND_B;

	if (s->rank == (lane == FORWARD ? s->last : 0))
		return;
	script_wait(s->script, s->rank, queue, event(s, 2 + lane, microbatch));
	script_send(s->script, s->rank, queue, lane, s->rank + (lane == FORWARD ? 1 : -1), 1);
}

static void whole(const struct stage *s, int lane, int microbatch)
{
	take(s, lane, microbatch);
	work(s, lane, microbatch);
	give(s, lane, microbatch);
}

/* The gradient is taken before the activation is given: so does the next stage, the other way. */
static void one_and_one(const struct stage *s, int forward, int backward)
{
	take(s, FORWARD, forward);
	work(s, FORWARD, forward);
	take(s, BACKWARD, backward);
	give(s, FORWARD, forward);
	work(s, BACKWARD, backward);
	give(s, BACKWARD, backward);
}

void script_pipeline(struct script *script, int stages, int microbatches, bool one_f_one_b,
		     double forward, double backward)
{
	struct stage s = {script, 0, stages - 1, microbatches, {forward, backward}};

	script_open(script, stages);
	for (s.rank = 0; s.rank < stages; s.rank++) {
		const int ahead = one_f_one_b && s.last - s.rank < microbatches ? s.last - s.rank
										: microbatches;

		for (int i = 0; i < ahead; i++)
			whole(&s, FORWARD, i);
		for (int i = ahead; i < microbatches; i++)
			one_and_one(&s, i, i - ahead);
		for (int i = microbatches - ahead; i < microbatches; i++)
			whole(&s, BACKWARD, i);
	}
}
