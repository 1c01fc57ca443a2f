/*
 * step.c - the step of a rank under each stage as a program, and the memory that it takes.
 *
 *   stage 0   gradients of a unit are all-reduced after the last microbatch; all ranks update
 *             all parameters
 *   stage 1   they are reduce-scattered in place; each rank updates its part, and parameters
 *             are gathered again
 *   stage 2   gradients of a unit are made in a bucket and reduce-scattered for each
 *             microbatch; this rank's part is added up
 *   stage 3   likewise; parameters of a unit are gathered before its forward and its backward
 *             pass, while the previous unit computes, and freed afterwards
 */
#include "training_kernels/zero/zero.h"

#include "core/array.h"

#include <math.h>
#include <string.h>

#define NO_UNIT SIZE_MAX
#define NO_EVENT BB_ZERO_NO_EVENT
#define REDUCTIONS (BB_ZERO_COLLECTIVES - 1) /* kind of collective; others are those of a pass */
#define PERIOD 2048 /* elements of a pattern of zeros; arrays are multiples of their two bytes */

void bb_zero_acquire(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes, bool host,
		     struct bb_held *held)
{
	static const uint16_t zeros[2 * PERIOD];
	const struct bb_pattern pattern = {zeros, PERIOD, sizeof(*zeros), 0};
	const struct bb_engine *e = bb_zero_engine(z);

	if (z->status == BB_OK)
		z->status = bb_ledger_acquire(&z->ledger, holding, bytes, host, held);
	if (z->status != BB_OK || !e->backend->has_data)
		return;
	if (host || !e->backend->gpu)
		memset(held->memory, 0, bytes);
	else
		z->status = e->backend->fill(e->rank, held->memory, &pattern, 0,
					     bytes / sizeof(*zeros));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns the number of a new work. */
static size_t add_work(struct bb_zero_rank *z, struct bb_zero_work work)
{
	z->variant.taped.tapes->failed |= !BB_ARRAY_PUT(z->works, z->nworks, z->work_room, work);
	return z->nworks - 1;
}

/* Add WORK unless there is no data. */
static void add_action(struct bb_zero_rank *z, struct bb_zero_work work)
{
	if (z->data)
		bb_tape_compute(z->variant.taped.tapes, BB_ZERO_COMPUTING, z->phase,
				add_work(z, work), 0, 0);
}

/* Move COUNT elements; HOW: enum bb_zero_move. */
static void add_move(struct bb_zero_rank *z, void *from, void *to, uint64_t count, unsigned how)
{
	add_action(z, (struct bb_zero_work){.action = BB_ZERO_MOVE,
					    .from = from,
					    .to = to,
					    .count = count,
					    .how = how});
}

/* Later computations wait for all collectives. */
static void add_wait(struct bb_zero_rank *z)
{
	for (int q = BB_ZERO_COMMUNICATING; q < z->variant.taped.program.queues && z->has_peers;
	     q++)
		bb_tape_order(z->variant.taped.tapes, q, BB_ZERO_COMPUTING)->work = z->phase;
}

/* They wait for *EVENT, unless one did before. */
static void await_event(struct bb_zero_rank *z, int *event)
{
	if (*event != NO_EVENT)
		bb_tape_wait(z->variant.taped.tapes, BB_ZERO_COMPUTING, *event)->work = z->phase;
	*event = NO_EVENT;
}

/* The event of the end of what was added to QUEUE. */
static int end_call(struct bb_zero_rank *z, int queue)
{
	if (z->zero->options.overlap == BB_ZERO_OVERLAP_ON)
		return bb_tape_record(z->variant.taped.tapes, queue);
	add_wait(z);
	return NO_EVENT;
}

/* Add the COLLECTIVE, whose dtype, count, op and group are set, on MEMORY. Returns the event of its
   end. */
static int add_call(struct bb_zero_rank *z, const struct bb_collective *collective, char *memory,
		    struct bb_operation o)
{
	struct bb_tape *tape = z->variant.taped.tapes;

	if (!z->has_peers)
		return NO_EVENT;
	o.act = BB_ACT_COLLECTIVE;
	o.queue = o.group == BB_ZERO_REDUCERS && z->zero->options.separate ? BB_ZERO_REDUCING
									   : BB_ZERO_COMMUNICATING;
	o.work = z->phase;
	o.item = add_work(z, (struct bb_zero_work){
				     .action = BB_ZERO_CALL,
				     .unit = collective == &bb_all_gather ? z->phase : REDUCTIONS,
				     .to = memory});
	o.collective = collective;
	o.in_place = true;
	bb_tape_order(tape, BB_ZERO_COMPUTING, o.queue)->work = z->phase;
	bb_tape_add(tape, o);
	return end_call(z, o.queue);
}

/* Exchange CODED. KIND: of collective. Returns the event of its end. */
static int add_codes(struct bb_zero_rank *z, const struct bb_coded *coded, size_t kind)
{
	struct bb_tape *tape = z->variant.taped.tapes;
	const size_t item = z->nworks;

	tape->failed |= !BB_ARRAY_PUT(z->exchanges, z->nexchanges, z->exchange_room, *coded);
	if (!z->has_peers)
		return NO_EVENT;
	for (int i = 0; i < BB_CODED_STEPS * bb_coded_phases(coded->form); i++)
		add_work(z, (struct bb_zero_work){.action = BB_ZERO_CODE,
						  .unit = kind,
						  .exchange = z->nexchanges - 1,
						  .count = (uint64_t)i});
	bb_tape_order(tape, BB_ZERO_COMPUTING, BB_ZERO_COMMUNICATING)->work = z->phase;
	bb_coded_write(coded->form, tape, BB_ZERO_COMMUNICATING, z->phase, z->phase, item,
		       z->data ? INFINITY : z->zero->memory_rate);
	return end_call(z, BB_ZERO_COMMUNICATING);
}

/* An exchange of COUNT elements AT, by FORM in memory that becomes HELD. */
static struct bb_coded begin_codes(struct bb_zero_rank *z, const struct bb_coded_form *form,
				   char *at, uint64_t count, struct bb_held *held)
{
	struct bb_coded c;

	bb_zero_acquire(z, BB_HOLD_COMMUNICATION, bb_coded_lay_out(&c, form, z->rank, NULL), false,
			held);
	bb_coded_lay_out(&c, form, z->rank, held->memory);
	add_move(z, at, c.x, count, BB_ZERO_TO_FP32);
	return c;
}

void bb_zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item)
{
	const struct bb_zero_moment m = {point, item, z->ledger.now,
					 bb_usage_held(&z->ledger.peak)};

	z->variant.taped.tapes->failed |=
		!z->noted && !BB_ARRAY_PUT(z->moments, z->nmoments, z->moment_room, m);
}

/* A pass while it is written. */
struct passing {
	bool backward;
	int64_t microbatch;
	size_t entered, issued; /* units in the order of the pass; gathers of them */
};

/* Gather the first UNTIL units of the pass: from the parameters of all ranks or, in a backward
   pass, from the second ones of a few. */
static void gather_until(struct bb_zero_rank *z, struct passing *pass, size_t until)
{
	const struct bb_zero_units *units = &z->zero->units;
	const bool second = pass->backward && z->second.memory;
	const uint64_t ranks = (uint64_t)(second ? z->reshard : z->zero->nranks);
	const uint64_t size = bb_zero_size(z);
	const int group = second && z->reshard < z->zero->nranks ? BB_ZERO_NODE : BB_ZERO_ALL;
	struct bb_coded coded;

	for (; pass->issued < until && pass->issued < units->n; pass->issued++) {
		const size_t unit = units->order[pass->backward][pass->issued];
		const struct bb_zero_place *p = &z->places.list[unit];
		const uint64_t part = p->padded / ranks;
		struct bb_zero_live *live = &z->live[unit];
		char *const from = second ? z->second.memory + p->at / ranks * size
					  : z->parameters.memory + p->part_at * size;

		if (live->parameters.memory)
			continue;
		bb_zero_acquire(z, BB_HOLD_COMMUNICATION, p->padded * size, false,
				&live->parameters);
		z->gathered++;
		z->most_gathered = z->gathered > z->most_gathered ? z->gathered : z->most_gathered;
		if (z->gathers_codes && !second) {
			coded = begin_codes(z, &live->forms[0], from, part, &live->codes);
			live->numbers = coded.result;
			live->gathered = add_codes(z, &coded, z->phase);
			continue;
		}
		add_move(z, from, live->parameters.memory + (uint64_t)z->rank % ranks * part * size,
			 part, 0);
		live->gathered = add_call(z, &bb_all_gather, live->parameters.memory,
					  (struct bb_operation){.count = (size_t)part,
								.dtype = z->zero->options.dtype,
								.group = group});
	}
}

/* Gather units ahead, if it is NOW that the pass does so. */
static void gather_ahead(struct bb_zero_rank *z, struct passing *p, enum bb_zero_prefetch now)
{
	const struct bb_zero_options *a = &z->zero->options;

	if (now == (p->backward ? (enum bb_zero_prefetch)a->backward_prefetch : BB_ZERO_PRE) &&
	    z->stage == 3)
		gather_until(z, p, p->entered + (size_t)a->prefetch);
}

/* The pass comes to the next unit, whose parameters are there afterwards. */
static void enter_unit(struct bb_zero_rank *z, struct passing *p)
{
	const size_t unit = z->zero->units.order[p->backward][p->entered++];
	const struct bb_zero_place *place = &z->places.list[unit];
	const uint64_t size = bb_zero_size(z);
	struct bb_zero_live *live = &z->live[unit];
	struct bb_zero_work work = {.action = BB_ZERO_SUM,
				    .unit = unit,
				    .microbatch = p->microbatch,
				    .from = z->parameters.memory + place->at * size};

	if (z->stage == 3) {
		gather_until(z, p, p->entered);
		await_event(z, &live->gathered);
		if (live->codes.memory)
			add_move(z, live->numbers, live->parameters.memory, place->padded,
				 BB_ZERO_FROM_FP32);
		bb_ledger_release(&z->ledger, &live->codes);
		gather_ahead(z, p, BB_ZERO_PRE);
		work.from = live->parameters.memory;
	}
	if (p->backward) {
		work.action = BB_ZERO_DRAW;
		if (z->stage >= 2)
			bb_zero_acquire(z, BB_HOLD_COMMUNICATION, place->padded * size, false,
					&live->bucket);
		work.to = z->stage >= 2 ? live->bucket.memory
					: z->gradients.memory + place->at * size;
	}
	add_action(z, work);
}

static void free_gathered(struct bb_zero_rank *z, size_t unit)
{
	z->gathered -= z->live[unit].parameters.memory != NULL;
	bb_ledger_release(&z->ledger, &z->live[unit].parameters);
}

/* The forward pass leaves UNIT. */
static void leave_forward(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const uint64_t size = bb_zero_size(z);
	const uint64_t ranks = z->reshard > 0 ? (uint64_t)z->reshard : 1, part = p->padded / ranks;

	if (z->second.memory)
		add_move(z,
			 z->live[unit].parameters.memory + (uint64_t)z->rank % ranks * part * size,
			 z->second.memory + p->at / ranks * size, part, 0);
	if (z->reshard != 1 && !z->zero->units.list[unit].kept)
		free_gathered(z, unit);
}

/* Keep this rank's part of the unit whose reduction was begun, if any, and is complete then. */
static void keep_reduced(struct bb_zero_rank *z, int64_t microbatch)
{
	if (z->reducing == NO_UNIT)
		return;
	struct bb_zero_live *const live = &z->live[z->reducing];
	const struct bb_zero_place *const p = &z->places.list[z->reducing];
	const unsigned how = (microbatch > 0 ? BB_ZERO_ADD : 0) |
			     (z->reduces_codes ? BB_ZERO_FROM_FP32 | BB_ZERO_FROM_MEAN
			      : bb_zero_reduced(z) == BB_FLOAT ? BB_ZERO_FROM_FP32
							       : 0);

	await_event(z, &live->sent);
	add_move(z, live->reduced, z->gradients.memory + p->part_at * bb_zero_size(z), p->part,
		 how);
	bb_ledger_release(&z->ledger, &live->bucket);
	z->reducing = NO_UNIT;
}

/* The backward pass leaves UNIT, whose gradients are complete. */
static void leave_backward(struct bb_zero_rank *z, size_t unit, int64_t microbatch)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const enum bb_dtype dtype = bb_zero_reduced(z);
	struct bb_zero_live *live = &z->live[unit];
	struct bb_held bucket = live->bucket;
	struct bb_coded coded;

	keep_reduced(z, microbatch);
	free_gathered(z, unit);
	if (z->reduces_codes) {
		coded = begin_codes(z, &live->forms[1], bucket.memory, p->padded, &live->bucket);
		live->reduced = coded.sum;
		live->sent = add_codes(z, &coded, REDUCTIONS);
		bb_ledger_release(&z->ledger, &bucket);
		z->reducing = unit;
		return;
	}
	if (z->stage >= 2 && dtype != z->zero->options.dtype) {
		bb_zero_acquire(z, BB_HOLD_COMMUNICATION, p->padded * bb_dtype_size(dtype), false,
				&live->bucket);
		add_move(z, bucket.memory, live->bucket.memory, p->padded, BB_ZERO_TO_FP32);
		bb_ledger_release(&z->ledger, &bucket);
	}
	live->reduced = live->bucket.memory + p->mine * bb_dtype_size(dtype);
	if (z->stage >= 2)
		z->reducing = unit;
	else if (microbatch < z->zero->options.accumulate - 1 || z->compressed)
		return;
	live->sent = add_call(
		z, z->stage == 0 ? &bb_all_reduce : &bb_reduce_scatter,
		z->stage >= 2 ? live->bucket.memory : z->gradients.memory + p->at * bb_zero_size(z),
		(struct bb_operation){.count = (size_t)p->part,
				      .dtype = dtype,
				      .op = BB_SUM,
				      .group = z->zero->options.separate ? BB_ZERO_REDUCERS
									 : BB_ZERO_ALL});
}

static void write_pass(struct bb_zero_rank *z, bool backward, int64_t microbatch)
{
	const struct bb_zero_units *units = &z->zero->units;
	const struct bb_zero_pass *pass = &z->zero->passes[backward];
	struct passing p = {.backward = backward, .microbatch = microbatch};

	z->phase = backward ? BB_ZERO_IN_BACKWARD : BB_ZERO_IN_FORWARD;
	for (size_t i = 0; i < units->nruns && z->status == BB_OK; i++) {
		const size_t at = backward ? units->nruns - 1 - i : i;
		const struct bb_zero_run *run = &units->runs[at];

		for (; p.entered < units->n; enter_unit(z, &p)) {
			const struct bb_zero_unit *u =
				&units->list[units->order[backward][p.entered]];

			if (at != (backward ? u->leave : u->enter))
				break;
		}
		if (pass->seconds * run->share[backward] > 0)
			bb_tape_compute(z->variant.taped.tapes, BB_ZERO_COMPUTING, z->phase, 0,
					pass->seconds * run->share[backward],
					pass->flops * run->share[backward]);
		bb_zero_note(z, backward ? BB_ZERO_BACKWARD : BB_ZERO_FORWARD, run->unit);
		gather_ahead(z, &p, BB_ZERO_POST);
		for (size_t k = p.entered; k-- > 0;) {
			const size_t unit = units->order[backward][k];

			if (backward && at == units->list[unit].enter)
				leave_backward(z, unit, microbatch);
			else if (!backward && at == units->list[unit].leave && z->stage == 3)
				leave_forward(z, unit);
		}
	}
}

/* Lay out the exchange of signs of unit U in memory that all units share, but for the errors from
 *FIRST on, which move on. Returns the bytes of that memory. */
static size_t lay_out_signs(const struct bb_zero_rank *z, size_t u, size_t *first,
			    struct bb_coded *c)
{
	const struct bb_coded_form *const form = &z->live[u].forms[1];
	struct bb_coded_form rest = *form;

	rest.feedback = false;
	const size_t bytes = bb_coded_lay_out(c, &rest, z->rank, z->codes.memory);
	c->form = form;
	c->error = z->errors.memory ? (float *)(void *)z->errors.memory + *first : NULL;
	*first += bb_coded_padded(form) + bb_coded_chunk(form);
	return bytes;
}

/* The exchange of signs, unit by unit; its memory is acquired in the first step. */
static void exchange_signs(struct bb_zero_rank *z)
{
	const size_t units = z->zero->units.n;
	size_t errors = 0, most = 0;
	struct bb_coded c;

	for (size_t u = 0; u < units && !z->errors.memory; u++) {
		const size_t bytes = lay_out_signs(z, u, &errors, &c);

		most = bytes > most ? bytes : most;
	}
	if (!z->errors.memory) {
		bb_zero_acquire(z, BB_HOLD_OPTIMIZER, errors * sizeof(float), false, &z->errors);
		bb_zero_acquire(z, BB_HOLD_COMMUNICATION, most, false, &z->codes);
	}
	errors = 0;
	for (size_t u = 0; u < units && z->status == BB_OK; u++) {
		lay_out_signs(z, u, &errors, &c);
		add_action(z, (struct bb_zero_work){.action = BB_ZERO_GIVE, .unit = u});
		add_codes(z, &c, REDUCTIONS);
		add_wait(z);
		add_action(z, (struct bb_zero_work){.action = BB_ZERO_GET, .unit = u});
	}
}

/* Without memory it leaves the step incomplete. */
void bb_zero_write_step(struct bb_zero_rank *z)
{
	const uint64_t bytes = z->places.divided * sizeof(float);
	const bool host = z->zero->options.offload;
	struct bb_tape *tape = z->variant.taped.tapes;

	tape->n = 0;
	tape->events = 0;
	z->nworks = z->nexchanges = 0;
	for (int64_t g = 0; g < z->zero->options.accumulate; g++) {
		write_pass(z, false, g);
		if (!z->gradients.memory)
			bb_zero_acquire(z, BB_HOLD_GRADIENTS,
					(z->stage >= 2 ? z->places.divided : z->places.whole) *
						bb_zero_size(z),
					false, &z->gradients);
		write_pass(z, true, g);
		add_wait(z);
		keep_reduced(z, g);
	}
	z->phase = BB_ZERO_IN_OPTIMIZER;
	bb_zero_note(z, BB_ZERO_BEFORE, 0);
	/* The states of the optimizer are allocated in the first step. */
	if (!z->moment1.memory) {
		if (bb_zero_has_master(z))
			bb_zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->master);
		bb_zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment1);
		bb_zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment2);
	}
	add_action(z, (struct bb_zero_work){.action = BB_ZERO_INSPECT});
	if (z->stage > 0 || z->compressed) {
		add_call(z, &bb_all_reduce, z->flag.memory,
			 (struct bb_operation){.count = 1, .dtype = BB_INT32, .op = BB_MAX});
		add_wait(z);
	}
	if (z->compressed) {
		z->phase = BB_ZERO_IN_GATHER;
		exchange_signs(z);
		z->phase = BB_ZERO_IN_OPTIMIZER;
	}
	add_action(z, (struct bb_zero_work){.action = BB_ZERO_UPDATE});
	bb_zero_note(z, BB_ZERO_AFTER, 0);
	z->phase = BB_ZERO_IN_GATHER;
	if (z->stage == 1 || z->stage == 2) {
		for (size_t u = 0; u < z->zero->units.n && z->status == BB_OK; u++)
			add_call(z, &bb_all_gather,
				 z->parameters.memory + z->places.list[u].at * bb_zero_size(z),
				 (struct bb_operation){.count = (size_t)z->places.list[u].part,
						       .dtype = z->zero->options.dtype});
		add_wait(z);
	}
	z->noted = true;
}
