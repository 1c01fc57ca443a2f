#include "training_kernels/strategies/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct bb_strategy *const bb_strategies[] = {
	&bb_strategy_dp,
	&bb_strategy_ps,
	&bb_strategy_ps_async,
	&bb_strategy_ddp,
	&bb_strategy_zero,
	&bb_strategy_average,
	NULL,
};

size_t bb_strategy_steps(const struct bb_strategy *strategy, const struct bb_strategy_setting *s)
{
	if (strategy == &bb_strategy_average)
		return s->every;
	return strategy->synchronous ? 1 : s->steps;
}

int bb_strategy_workers(const struct bb_strategy *strategy, const struct bb_strategy_setting *s)
{
	return strategy->servers && !s->colocated ? s->active - s->servers : s->active;
}

int bb_strategy_worker(const struct bb_strategy *strategy, const struct bb_strategy_setting *s,
		       int rank)
{
	const int worker = strategy->servers && !s->colocated ? rank - s->servers : rank;

	return rank < s->active && worker >= 0 ? worker : -1;
}

/* ---- the writer ------------------------------------------------------------------------------ */

void bb_writer_add_batches(struct bb_strategy_program *w, int rank)
{
	const struct bb_strategy_setting *s = &w->setting;

	for (size_t k = 0; k < s->batches; k++)
		bb_tape_add(&w->tapes[rank], (struct bb_operation){.act = BB_ACT_COMPUTE,
								   .queue = COMPUTING,
								   .work = BB_STRATEGY_COMPUTE,
								   .item = k,
								   .peer = BB_NO_PEER,
								   .seconds = s->compute_s,
								   .flops = s->flops});
}

void bb_writer_add_real(struct bb_strategy_program *w, int rank, int queue,
			enum bb_strategy_work work, size_t item)
{
	if (w->setting.real)
		bb_tape_add(&w->tapes[rank], (struct bb_operation){.act = BB_ACT_COMPUTE,
								   .queue = queue,
								   .work = work,
								   .item = item,
								   .peer = BB_NO_PEER});
}

static struct bb_operation strategy_message(const struct bb_strategy_program *w, enum bb_act act,
					    enum bb_strategy_work work, int peer, size_t item)
{
	const struct bb_strategy_setting *s = &w->setting;
	const int parts = w->strategy->servers ? s->servers : 1;

	return (struct bb_operation){
		.act = act,
		.queue = act == BB_ACT_SEND ? SENDING : RECEIVING,
		.work = work,
		.item = item,
		.count = bb_part_count(s->elements, parts, (int)item),
		.dtype = s->dtype,
		.lane = work == BB_STRATEGY_PUSH ? TO_SERVER : TO_WORKER,
		.peer = peer,
	};
}

void bb_writer_add_send(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			int peer, size_t item)
{
	bb_tape_add(&w->tapes[rank], strategy_message(w, BB_ACT_SEND, work, peer, item));
}

void bb_writer_add_recv(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			int peer, size_t item)
{
	bb_tape_add(&w->tapes[rank], strategy_message(w, BB_ACT_RECV, work, peer, item));
}

void bb_writer_add_serve(struct bb_strategy_program *w, int rank, size_t item)
{
	bb_tape_add(&w->tapes[rank],
		    strategy_message(w, BB_ACT_RECV_ANY, BB_STRATEGY_PUSH, BB_NO_PEER, item));
}

void bb_writer_add_answer(struct bb_strategy_program *w, int rank, size_t item)
{
	struct bb_operation answer =
		strategy_message(w, BB_ACT_SEND, BB_STRATEGY_PULL, BB_NO_PEER, item);

	answer.queue = RECEIVING;
	/* The request is the operation before, or the one before its sum. */
	answer.answers = w->tapes[rank].n - 1 - w->setting.real;
	bb_tape_add(&w->tapes[rank], answer);
}

void bb_writer_add_collective(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			      const struct bb_collective *collective, size_t count)
{
	bb_tape_add(&w->tapes[rank], (struct bb_operation){.act = BB_ACT_COLLECTIVE,
							   .queue = SENDING,
							   .work = work,
							   .collective = collective,
							   .count = count,
							   .dtype = w->setting.dtype,
							   .op = BB_SUM,
							   .in_place = true,
							   .peer = BB_NO_PEER});
}

/* ---- the program ----------------------------------------------------------------------------- */

static const struct bb_strategy_program *strategy_program(const struct bb_program *program)
{
	return program->own;
}

static size_t strategy_length(const struct bb_program *program, int rank)
{
	return strategy_program(program)->tapes[rank].n;
}

static void strategy_operation(const struct bb_program *program, int rank, size_t index,
			       struct bb_operation *o)
{
	*o = strategy_program(program)->tapes[rank].list[index];
}

static int strategy_group_size(const struct bb_program *program, int group)
{
	return strategy_program(program)->setting.active;
}

static void strategy_describe(const struct bb_program *program, const struct bb_operation *o,
			      char text[BB_PROGRAM_TEXT])
{
	static const char *const names[] = {
		[BB_STRATEGY_COMPUTE] = "batch",
		[BB_STRATEGY_ADD] = "sum, worker",
		[BB_STRATEGY_UPDATE] = "update of part",
		[BB_STRATEGY_PUSH] = "gradients, part",
		[BB_STRATEGY_PULL] = "parameters, part",
		[BB_STRATEGY_REDUCE] = "sum of gradients",
		[BB_STRATEGY_GATHER] = "all-gather of parameters",
		[BB_STRATEGY_AVERAGE] = "average of parameters",
	};

	if (o->act == BB_ACT_COLLECTIVE)
		snprintf(text, BB_PROGRAM_TEXT, "%s", names[o->work]);
	else
		snprintf(text, BB_PROGRAM_TEXT, "%s %zu", names[o->work], o->item);
}

bb_status bb_strategy_program_make(struct bb_strategy_program *p,
				   const struct bb_strategy *strategy,
				   const struct bb_strategy_setting *setting, const char *algorithm,
				   struct bb_error *error)
{
	*p = (struct bb_strategy_program){
		.program = {.own = p,
			    .nranks = setting->nranks,
			    .queues = QUEUES,
			    .lanes = strategy->reduces ? 0 : LANES,
			    .groups = strategy->reduces ? 1 : 0,
			    .algorithm = algorithm,
			    .length = strategy_length,
			    .operation = strategy_operation,
			    .group_size = strategy_group_size,
			    .member = bb_program_rank_itself,
			    .describe = strategy_describe},
		.strategy = strategy,
		.setting = *setting,
		.tapes = calloc((size_t)setting->nranks, sizeof(*p->tapes)),
	};
	if (!p->tapes)
		return bb_no_memory(error, strategy->name);
	strategy->write(p, &p->setting);
	for (int r = 0; r < setting->nranks; r++) {
		if (p->tapes[r].failed)
			return bb_no_memory(error, strategy->name);
		if (p->program.events < p->tapes[r].events)
			p->program.events = p->tapes[r].events;
	}
	return BB_OK;
}

void bb_strategy_program_free(struct bb_strategy_program *p)
{
	for (int r = 0; p->tapes && r < p->setting.nranks; r++)
		bb_tape_free(&p->tapes[r]);
	free(p->tapes);
	p->tapes = NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Bytes that the busiest member sends in a collective; by a ring it receives as many. */
static double collective_wire(const struct bb_strategy_program *p, const struct bb_operation *o,
			      const char *name)
{
	const struct bb_algorithm *algorithm = bb_algorithm_find(o->collective, name);
	const struct bb_shape shape = {
		.nranks = p->setting.active, .in_place = o->in_place, .count = o->count};
	size_t wire = 0;

	if (algorithm)
		(void)bb_algorithm_cost(algorithm, &shape, NULL, &wire);
	return (double)wire * (double)bb_dtype_size(o->dtype);
}

double bb_strategy_wire(const struct bb_strategy_program *p, const char *name)
{
	double most = 0;

	for (int r = 0; r < p->setting.active; r++) {
		double sent = 0, received = 0;

		for (size_t i = 0; i < p->tapes[r].n; i++) {
			const struct bb_operation *o = &p->tapes[r].list[i];

			if (o->act == BB_ACT_SEND)
				sent += (double)bb_operation_bytes(o);
			else if (o->act == BB_ACT_RECV || o->act == BB_ACT_RECV_ANY)
				received += (double)bb_operation_bytes(o);
			else if (o->act == BB_ACT_COLLECTIVE && r == 0)
				sent += collective_wire(p, o, name);
		}
		most = fmax(most, fmax(sent, received));
	}
	return most / (double)bb_strategy_steps(p->strategy, &p->setting);
}
