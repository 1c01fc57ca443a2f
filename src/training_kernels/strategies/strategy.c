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
		bb_tape_compute(&w->taped.tapes[rank], COMPUTING, BB_STRATEGY_COMPUTE, k,
				s->compute_s, s->flops);
}

void bb_writer_add_real(struct bb_strategy_program *w, int rank, int queue,
			enum bb_strategy_work work, size_t item)
{
	if (w->setting.real)
		bb_tape_compute(&w->taped.tapes[rank], queue, work, item, 0, 0);
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
	bb_tape_add(&w->taped.tapes[rank], strategy_message(w, BB_ACT_SEND, work, peer, item));
}

void bb_writer_add_recv(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			int peer, size_t item)
{
	bb_tape_add(&w->taped.tapes[rank], strategy_message(w, BB_ACT_RECV, work, peer, item));
}

void bb_writer_add_serve(struct bb_strategy_program *w, int rank, size_t item)
{
	bb_tape_add(&w->taped.tapes[rank],
		    strategy_message(w, BB_ACT_RECV_ANY, BB_STRATEGY_PUSH, BB_NO_PEER, item));
}

void bb_writer_add_answer(struct bb_strategy_program *w, int rank, size_t item)
{
	struct bb_operation answer =
		strategy_message(w, BB_ACT_SEND, BB_STRATEGY_PULL, BB_NO_PEER, item);

	answer.queue = RECEIVING;
	/* The request is the operation before, or the one before its sum. */
	answer.answers = w->taped.tapes[rank].n - 1 - w->setting.real;
	bb_tape_add(&w->taped.tapes[rank], answer);
}

void bb_writer_add_collective(struct bb_strategy_program *w, int rank, enum bb_strategy_work work,
			      const struct bb_collective *collective, size_t count)
{
	bb_tape_collective(&w->taped.tapes[rank], SENDING, work, 0, collective, count,
			   w->setting.dtype, BB_SUM);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* The program's own is its tapes, which are the first member. */
static int strategy_group_size(const struct bb_program *program, int group)
{
	return ((const struct bb_strategy_program *)program->own)->setting.active;
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
	struct bb_program *program = &p->taped.program;
	const bb_status status = bb_taped_begin(&p->taped, setting->nranks, false, error);

	if (status != BB_OK)
		return status;
	p->strategy = strategy;
	p->setting = *setting;
	program->queues = QUEUES;
	program->lanes = strategy->reduces ? 0 : LANES;
	program->groups = strategy->reduces ? 1 : 0;
	program->algorithm = algorithm;
	program->group_size = strategy_group_size;
	program->describe = strategy_describe;
	strategy->write(p, &p->setting);
	return bb_taped_end(&p->taped, strategy->name, error);
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

		for (size_t i = 0; i < p->taped.tapes[r].n; i++) {
			const struct bb_operation *o = &p->taped.tapes[r].list[i];

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
