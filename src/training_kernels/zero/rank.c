/*
 * rank.c - the step of a rank under each stage, and its memory.
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
#include <stdlib.h>
#include <string.h>

#define NO_UNIT SIZE_MAX
#define NO_EVENT BB_ZERO_NO_EVENT
#define REDUCTIONS (BB_ZERO_COLLECTIVES - 1) /* kind of collective; others are those of a pass */
#define PERIOD 2048 /* elements of a pattern of zeros; arrays are multiples of their two bytes */

enum queue { COMPUTING, COMMUNICATING, REDUCING };

/* Groups of an operation, until zero_complete: as in enum bb_coded_family, and of reductions. */
enum group { ALL, NODE, ACROSS, REDUCERS };

static size_t zero_size(const struct bb_zero_rank *z)
{
	return bb_dtype_size(z->zero->options.dtype);
}

static enum bb_dtype reduced_dtype(const struct bb_zero_rank *z)
{
	const struct bb_zero_options *a = &z->zero->options;

	return a->reduce_dtype_given && z->stage >= 2 ? a->reduce_dtype : a->dtype;
}

static struct bb_engine *zero_engine(const struct bb_zero_rank *z)
{
	return &z->variant.kernel->engine;
}

static bool has_master(const struct bb_zero_rank *z)
{
	return z->zero->options.dtype != BB_FLOAT;
}

/* ---- access of the CPU ----------------------------------------------------------------------- */

/* Memory of the CPU needs no backend, whose calls belong to the driver's thread. */
static void copy_bytes(struct bb_zero_rank *z, void *to, const void *from, size_t bytes)
{
	const struct bb_engine *e = zero_engine(z);

	if (!e->backend->gpu)
		memcpy(to, from, bytes);
	else if (z->status == BB_OK)
		z->status = e->backend->copy(e->rank, to, from, bytes);
}

/* Call WORK as bb_zero_each does, for N elements of which the first is element FIRST of the model.
 */
static void each_block(struct bb_zero_rank *z, const struct bb_zero_array *arrays, int narrays,
		       uint64_t first, uint64_t n, bb_zero_block *work, void *own)
{
	const bool direct = !zero_engine(z)->backend->gpu;
	void *seen[BB_ZERO_ARRAYS];

	for (size_t at = 0, b; at < n && z->status == BB_OK; at += b) {
		b = n - at < BB_ZERO_BLOCK ? (size_t)n - at : BB_ZERO_BLOCK;
		for (int i = 0; i < narrays; i++) {
			char *const memory = arrays[i].at + at * arrays[i].size;

			seen[i] = direct || arrays[i].host ? (void *)memory : z->blocks[i];
			if (seen[i] != memory)
				copy_bytes(z, seen[i], memory, b * arrays[i].size);
		}
		work(z, own, first + at, b, seen);
		for (int i = 0; i < narrays; i++) {
			char *const memory = arrays[i].at + at * arrays[i].size;

			if (seen[i] != memory && arrays[i].written)
				copy_bytes(z, memory, seen[i], b * arrays[i].size);
		}
	}
}

void bb_zero_each(struct bb_zero_rank *z, const struct bb_zero_array *arrays, int narrays, size_t u,
		  bool mine, bb_zero_block *work, void *own)
{
	const struct bb_zero_units *units = &z->zero->units;
	const struct bb_zero_unit *unit = &units->list[u];
	const uint64_t ranks = z->stage == 0 ? 1 : (uint64_t)z->zero->nranks;
	const uint64_t first = mine && z->stage > 0 ? (uint64_t)z->rank : 0;
	struct bb_zero_array part[BB_ZERO_ARRAYS];

	for (uint64_t r = first; r < (mine ? first + 1 : ranks); r++) {
		uint64_t at = (r - first) * z->places.list[u].part;

		for (size_t i = unit->rows; i < unit->rows + unit->nrows; i++) {
			const struct bb_zero_rows *rows = &units->rows[i];
			const uint64_t each = bb_partition(rows->rows, ranks);
			const uint64_t skip = r * each < rows->rows ? r * each : rows->rows;
			const uint64_t left = rows->rows - skip;

			for (int a = 0; a < narrays; a++) {
				part[a] = arrays[a];
				part[a].at += at * part[a].size;
			}
			each_block(z, part, narrays, rows->first + skip * rows->width,
				   (left < each ? left : each) * rows->width, work, own);
			at += each * rows->width;
		}
	}
}

/* Acquire BYTES for HOLDING from the ledger, unless something has failed before. */
static void zero_hold(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes, bool host,
		      struct bb_held *held)
{
	if (z->status == BB_OK)
		z->status = bb_ledger_acquire(&z->ledger, holding, bytes, host, held);
}

/* The same, filled with zeros. */
static void zero_acquire(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes, bool host,
			 struct bb_held *held)
{
	static const uint16_t zeros[2 * PERIOD];
	const struct bb_pattern pattern = {zeros, PERIOD, sizeof(*zeros), 0};
	const struct bb_engine *e = zero_engine(z);

	zero_hold(z, holding, bytes, host, held);
	if (z->status != BB_OK || !e->backend->has_data)
		return;
	if (host || !e->backend->gpu)
		memset(held->memory, 0, bytes);
	else
		z->status = e->backend->fill(e->rank, held->memory, &pattern, 0,
					     bytes / sizeof(*zeros));
}

/* ---- blocks of elements ---------------------------------------------------------------------- */

/* OWN, a struct bb_zero_work, on the arrays that each action names. */
static void work_block(struct bb_zero_rank *z, void *own, uint64_t first, size_t n,
		       void *const *seen)
{
	const struct bb_zero_work *w = own;
	const enum bb_dtype dtype = z->zero->options.dtype;
	const struct bb_zero_batch batch = {z->step, w->microbatch, z->rank, z->forward,
					    z->scale.scale};
	const float unscale =
		1.0f / (z->scale.scale * (float)(z->zero->nranks * z->zero->options.accumulate));
	float *const wide = z->blocks[5], *const other = z->blocks[6];
	float *master;

	switch (w->action) {
	case BB_ZERO_BEGIN: /* parameters */
		bb_zero_initial(dtype, first, n, seen[0]);
		break;
	case BB_ZERO_WIDEN: /* parameters, master copy */
		bb_adam_widen(dtype, seen[0], seen[1], n);
		break;
	case BB_ZERO_SUM: /* parameters */
		z->forward += bb_zero_sum(dtype, first, n, seen[0]);
		break;
	case BB_ZERO_DRAW: /* parameters, gradients */
		bb_zero_gradients(&z->zero->data, &batch, first, n, seen[0], seen[1],
				  z->stage < 2 && w->microbatch > 0);
		break;
	case BB_ZERO_CLEAR: /* gradients */
		memset(seen[0], 0, n * zero_size(z));
		break;
	case BB_ZERO_ADD:  /* gradients, those that are added */
	case BB_ZERO_COPY: /* that replace them */
		bb_adam_widen(dtype, seen[0], wide, n);
		bb_adam_widen(w->factor > 0 ? BB_FLOAT : dtype, seen[1], other, n);
		for (size_t i = 0; i < n; i++)
			wide[i] = (w->action == BB_ZERO_ADD ? wide[i] : 0) +
				  other[i] * (w->factor > 0 ? w->factor : 1);
		bb_adam_narrow(dtype, wide, seen[0], n);
		break;
	case BB_ZERO_INSPECT: /* gradients */
		z->overflowed |= bb_adam_overflowed(dtype, seen[0], n);
		break;
	case BB_ZERO_UPDATE: /* gradients, parameters, moments, master copy */
		master = has_master(z) ? seen[4] : other;
		bb_adam_widen(dtype, seen[0], wide, n);
		if (!has_master(z))
			bb_adam_widen(dtype, seen[1], master, n);
		if (z->zero->config.onebit.kind == BB_ONEBIT_NONE)
			bb_adam_step(z->taken, unscale, wide, master, seen[2], seen[3], n);
		else
			bb_zero_onebit(&z->zero->config.onebit, unscale,
				       z->compressed ? NULL : wide, master, seen[2], seen[3], n);
		bb_adam_narrow(dtype, master, seen[1], n);
		break;
	case BB_ZERO_GIVE:
	case BB_ZERO_SIGN:
	case BB_ZERO_GET:
	case BB_ZERO_CALL:
	case BB_ZERO_CODE:
		break;
	}
}

/* Arrays of this rank's part of a unit, as bits. */
enum { GRADIENTS = 1, PARAMETERS = 2, MOMENTS = 4 + 8, MASTER = 16 };

/* ACTION on all blocks of this rank's parts of all units, in the arrays WHICH, in the order of the
   bits. */
static void each_part(struct bb_zero_rank *z, unsigned which, enum bb_zero_action action)
{
	struct bb_zero_work work = {.action = action};
	const size_t size = zero_size(z), wide = sizeof(float);
	const bool host = z->zero->options.offload;
	const struct bb_zero_array all[BB_ZERO_ARRAYS] = {
		{z->gradients.memory, size, false, false},
		{z->parameters.memory, size, false, action == BB_ZERO_UPDATE},
		{z->moment1.memory, wide, host, true},
		{z->moment2.memory, wide, host, true},
		{z->master.memory, wide, host, true},
	};
	const bool divided[BB_ZERO_ARRAYS] = {z->stage >= 2, z->stage == 3, true, true, true};

	for (size_t u = 0; u < z->zero->units.n && z->data && z->status == BB_OK; u++) {
		const struct bb_zero_place *p = &z->places.list[u];
		struct bb_zero_array arrays[BB_ZERO_ARRAYS];
		int n = 0;

		for (int i = 0; i < BB_ZERO_ARRAYS; i++) {
			if (!(which >> i & 1))
				continue;
			arrays[n] = all[i];
			arrays[n++].at += all[i].size * (divided[i] ? p->part_at : p->at + p->mine);
		}
		each_block(z, arrays, n, 0, p->part, work_block, &work);
	}
}

/* ---- the workload ---------------------------------------------------------------------------- */

static void zero_compute(void *own, int rank, const struct bb_operation *o)
{
	struct bb_zero_rank *z = own;
	struct bb_zero_work *w = &z->works[o->item], clear = {.action = BB_ZERO_CLEAR};
	const size_t size = zero_size(z);
	struct bb_zero_array from = {.at = w->from, .size = size};
	struct bb_zero_array to = {.at = w->to, .size = size, .written = true};
	const size_t first = z->zero->units.order[0][0];
	const struct bb_zero_place *p = &z->places.list[w->unit];
	int32_t flag;

	/* In the queue of the collectives: it touches nothing of the others. */
	if (w->action == BB_ZERO_CODE)
		bb_coded_compute(&z->exchanges[w->microbatch], w->count);
	if (w->action == BB_ZERO_CODE || z->status != BB_OK)
		return;
	flag = z->overflowed;
	switch (w->action) {
	case BB_ZERO_SUM:
		if (w->unit == first && w->microbatch == 0) {
			z->step++;
			z->skipped = z->scale.skipped;
		}
		if (w->unit == first)
			z->forward = 0;
		bb_zero_each(z, &from, 1, w->unit, false, work_block, w);
		break;
	case BB_ZERO_DRAW:
		/* A bucket is padded with zeros. */
		if (z->stage >= 2 && p->padded > z->zero->units.list[w->unit].elements)
			each_block(z, &to, 1, 0, p->padded, work_block, &clear);
		bb_zero_each(z, (struct bb_zero_array[]){from, to}, 2, w->unit, false, work_block,
			     w);
		break;
	case BB_ZERO_WIDEN:
		to.size = sizeof(float);
		each_block(z, (struct bb_zero_array[]){from, to}, 2, 0, w->count, work_block, w);
		break;
	case BB_ZERO_COPY:
		if (w->factor == 0) {
			copy_bytes(z, w->to, w->from, w->count * size);
			break;
		}
		/* fall through */
	case BB_ZERO_ADD:
		from.size = w->factor > 0 ? sizeof(float) : size;
		each_block(z, (struct bb_zero_array[]){to, from}, 2, 0, w->count, work_block, w);
		break;
	case BB_ZERO_INSPECT:
		z->overflowed = false;
		each_part(z, GRADIENTS, BB_ZERO_INSPECT);
		flag = z->overflowed;
		if (z->flag.memory)
			copy_bytes(z, z->flag.memory, &flag, sizeof(flag));
		break;
	case BB_ZERO_UPDATE: /* the flag is that of all ranks by now */
		if (z->flag.memory)
			copy_bytes(z, &flag, z->flag.memory, sizeof(flag));
		z->taken += z->status == BB_OK && !flag;
		if (!flag)
			each_part(z,
				  GRADIENTS | PARAMETERS | MOMENTS | (has_master(z) ? MASTER : 0),
				  BB_ZERO_UPDATE);
		if (z->status == BB_OK)
			bb_zero_scale_update(&z->scale, flag);
		break;
	case BB_ZERO_GIVE:
	case BB_ZERO_SIGN:
	case BB_ZERO_GET:
		if (z->flag.memory)
			copy_bytes(z, &flag, z->flag.memory, sizeof(flag));
		if (!flag)
			bb_zero_compress(z, w);
		break;
	default: /* a call, or part of another action */
		break;
	}
}

static void zero_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct bb_zero_rank *z = own;
	const struct bb_program *program = &z->variant.taped.program;
	const struct bb_zero_work *w = &z->works[o->item];

	if (w->action == BB_ZERO_SIGN) {
		*in = w->from;
		*out = w->to;
		return;
	}
	if (w->action == BB_ZERO_CODE) {
		*in = z->exchanges[w->microbatch].sent;
		*out = z->exchanges[w->microbatch].comes;
		return;
	}
	bb_kernel_in_place(o, z->rank % program->group_size(program, o->group), w->to, in, out);
}

/* Add an operation in the computing queue of rank 0 to the times of its phase. */
static void zero_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			 double from, double to, int source)
{
	struct bb_zero_rank *z = own;
	double *const collectives = &z->times[2 * BB_ZERO_PHASES];

	if (rank == 0 && o->queue != COMPUTING && o->work <= BB_ZERO_IN_BACKWARD &&
	    (o->act == BB_ACT_COLLECTIVE || o->act == BB_ACT_COMPUTE))
		collectives[z->works[o->item].unit] += to - from;
	if (rank != 0 || o->queue != COMPUTING)
		return;
	z->times[o->work] += to - z->last;
	if (o->act == BB_ACT_WAIT)
		z->times[BB_ZERO_PHASES + o->work] += to - z->last;
	z->last = to;
}

/* Count temporary memory as held from the first moment after the model on. */
static void hold_tmp(struct bb_usage *usage, size_t bytes)
{
	usage->holds[BB_HOLD_COMMUNICATION] += bytes;
	usage->reserved += bb_ledger_rounded(bytes);
}

/* What the collectives of a step send, and the temporary memory of them. */
static bb_status zero_opened(void *own, struct bb_runner *runner)
{
	struct bb_zero_rank *z = own;
	struct bb_sent sent;
	bb_status status = BB_OK;

	for (int phase = 0; phase < BB_ZERO_PHASES && z->has_peers; phase++) {
		BB_TRY(status, bb_runner_count(runner, zero_engine(z)->driver->rank, phase, &sent),
		       out);
		z->wire += phase == BB_ZERO_IN_OPTIMIZER ? 0 : (uint64_t)sent.bytes;
		z->tmp_bytes = sent.tmp_bytes > z->tmp_bytes ? sent.tmp_bytes : z->tmp_bytes;
	}
	hold_tmp(&z->ledger.now, z->tmp_bytes);
	hold_tmp(&z->ledger.peak, z->tmp_bytes);
	for (size_t i = 1; i < z->nmoments; i++) {
		hold_tmp(&z->moments[i].now, z->tmp_bytes);
		z->moments[i].peak += z->tmp_bytes;
	}
out:
	return status;
}

void bb_zero_rank_trial(struct bb_zero_rank *z, struct bb_trial *trial)
{
	trial->workload = (struct bb_workload){
		.program = &z->variant.taped.program,
		.stand_in = (enum bb_stand_in)z->zero->options.stand_in,
		.compute = z->data ? zero_compute : NULL,
		.stands_in = true,
		.buffers = zero_buffers,
		.own = z,
	};
	trial->timing = BB_TIMING_STEPS;
	trial->opened = zero_opened;
	trial->watch = (struct bb_timeline_watch){zero_observe, z};
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
		bb_tape_compute(z->variant.taped.tapes, COMPUTING, z->phase, add_work(z, work), 0,
				0);
}

/* Add ACTION of COUNT elements; FACTOR as in struct bb_zero_work. */
static void add_move(struct bb_zero_rank *z, enum bb_zero_action action, char *from, char *to,
		     uint64_t count, float factor)
{
	add_action(z, (struct bb_zero_work){.action = action,
					    .from = from,
					    .to = to,
					    .count = count,
					    .factor = factor});
}

/* Later computations wait for all collectives. */
static void add_wait(struct bb_zero_rank *z)
{
	for (int q = COMMUNICATING; q < z->variant.taped.program.queues && z->has_peers; q++)
		bb_tape_order(z->variant.taped.tapes, q, COMPUTING)->work = z->phase;
}

/* They wait for *EVENT, unless one did before. */
static void await_event(struct bb_zero_rank *z, int *event)
{
	if (*event != NO_EVENT)
		bb_tape_wait(z->variant.taped.tapes, COMPUTING, *event)->work = z->phase;
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
	o.queue = o.group == REDUCERS && z->zero->options.separate ? REDUCING : COMMUNICATING;
	o.work = z->phase;
	o.item = add_work(z, (struct bb_zero_work){
				     .action = BB_ZERO_CALL,
				     .unit = collective == &bb_all_gather ? z->phase : REDUCTIONS,
				     .to = memory});
	o.collective = collective;
	o.in_place = true;
	bb_tape_order(tape, COMPUTING, o.queue)->work = z->phase;
	bb_tape_add(tape, o);
	return end_call(z, o.queue);
}

/* Exchange codes of NUMBERS, COUNT of them in the datatype, by FORM, in memory that becomes HELD.
   KIND: of collective. Sets *EVENT to its end and returns the exchange. */
static struct bb_coded add_exchange(struct bb_zero_rank *z, const struct bb_coded_form *form,
				    char *numbers, uint64_t count, size_t kind,
				    struct bb_held *held, int *event)
{
	struct bb_tape *tape = z->variant.taped.tapes;
	struct bb_zero_work work = {
		.action = BB_ZERO_CODE, .unit = kind, .microbatch = (int64_t)z->nexchanges};
	struct bb_coded coded;

	zero_hold(z, BB_HOLD_COMMUNICATION, bb_coded_lay_out(&coded, form, z->rank, NULL), false,
		  held);
	if (z->status != BB_OK)
		return coded;
	bb_coded_lay_out(&coded, form, z->rank, held->memory);
	tape->failed |= !BB_ARRAY_PUT(z->exchanges, z->nexchanges, z->exchange_room, coded);
	add_move(z, BB_ZERO_WIDEN, numbers, (char *)coded.x, count, 0);
	const size_t item = z->nworks;
	for (int i = 0; i < BB_CODED_STEPS * bb_coded_phases(form); i++) {
		work.count = (uint64_t)i;
		add_work(z, work);
	}
	bb_tape_order(tape, COMPUTING, COMMUNICATING)->work = z->phase;
	bb_coded_write(form, tape, COMMUNICATING, z->phase, z->phase, item, INFINITY);
	*event = end_call(z, COMMUNICATING);
	return coded;
}

/* Add SHARE of PASS. */
static void add_pass(struct bb_zero_rank *z, const struct bb_zero_pass *pass, double share)
{
	if (pass->seconds * share > 0)
		bb_tape_compute(z->variant.taped.tapes, COMPUTING, z->phase, 0,
				pass->seconds * share, pass->flops * share);
}

/* Record the memory at POINT of the first step. */
static void zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item)
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

/* Gather the parameters of UNIT: from those of all ranks or, in a backward pass, from the second
   ones of a few. */
static void add_gather(struct bb_zero_rank *z, size_t unit, bool backward)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	struct bb_zero_live *live = &z->live[unit];
	const bool second = backward && z->second.memory;
	const uint64_t ranks = (uint64_t)(second ? z->reshard : z->zero->nranks);
	const uint64_t size = zero_size(z), part = p->padded / ranks;

	zero_hold(z, BB_HOLD_COMMUNICATION, p->padded * size, false, &live->parameters);
	if (z->status != BB_OK)
		return;
	z->most_gathered = ++z->gathered > z->most_gathered ? z->gathered : z->most_gathered;
	if (z->gathers_codes && !second) {
		live->numbers = (char *)add_exchange(z, &live->forms[0],
						     z->parameters.memory + p->part_at * size, part,
						     z->phase, &live->codes, &live->gathered)
					.result;
		return;
	}
	add_move(z, BB_ZERO_COPY,
		 second ? z->second.memory + p->at / ranks * size
			: z->parameters.memory + p->part_at * size,
		 live->parameters.memory + (uint64_t)z->rank % ranks * part * size, part, 0);
	live->gathered =
		add_call(z, &bb_all_gather, live->parameters.memory,
			 (struct bb_operation){
				 .count = (size_t)part,
				 .dtype = z->zero->options.dtype,
				 .group = z->reshard < z->zero->nranks && second ? NODE : ALL});
}

/* Gather the first UNTIL units of the pass. */
static void gather_until(struct bb_zero_rank *z, struct passing *p, size_t until)
{
	const struct bb_zero_units *units = &z->zero->units;

	for (; p->issued < until && p->issued < units->n && z->status == BB_OK; p->issued++) {
		const size_t unit = units->order[p->backward][p->issued];

		if (!z->live[unit].parameters.memory)
			add_gather(z, unit, p->backward);
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
	const uint64_t size = zero_size(z);
	struct bb_zero_live *live = &z->live[unit];
	struct bb_zero_work work = {.action = BB_ZERO_SUM,
				    .unit = unit,
				    .microbatch = p->microbatch,
				    .from = z->parameters.memory + place->at * size};

	if (z->stage == 3) {
		gather_until(z, p, p->entered);
		await_event(z, &live->gathered);
		if (live->codes.memory)
			add_move(z, BB_ZERO_COPY, live->numbers, live->parameters.memory,
				 place->padded, 1);
		bb_ledger_release(&z->ledger, &live->codes);
		gather_ahead(z, p, BB_ZERO_PRE);
		work.from = live->parameters.memory;
	}
	if (p->backward) {
		work.action = BB_ZERO_DRAW;
		if (z->stage >= 2)
			zero_acquire(z, BB_HOLD_COMMUNICATION, place->padded * size, false,
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
	const uint64_t size = zero_size(z);
	const uint64_t ranks = z->reshard > 0 ? (uint64_t)z->reshard : 1, part = p->padded / ranks;

	if (z->second.memory)
		add_move(z, BB_ZERO_COPY,
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
	/* An exchange of codes ends with the mean. */
	const float factor = z->reduces_codes                             ? (float)z->zero->nranks
			     : reduced_dtype(z) != z->zero->options.dtype ? 1
									  : 0;
	await_event(z, &live->sent);
	add_move(z, microbatch > 0 ? BB_ZERO_ADD : BB_ZERO_COPY, live->reduced,
		 z->gradients.memory + p->part_at * zero_size(z), p->part, factor);
	bb_ledger_release(&z->ledger, &live->bucket);
	z->reducing = NO_UNIT;
}

/* The backward pass leaves UNIT, whose gradients are complete. */
static void leave_backward(struct bb_zero_rank *z, size_t unit, int64_t microbatch)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const enum bb_dtype dtype = reduced_dtype(z);
	struct bb_zero_live *live = &z->live[unit];
	struct bb_held bucket = live->bucket;

	keep_reduced(z, microbatch);
	free_gathered(z, unit);
	if (z->reduces_codes) {
		live->reduced = (char *)add_exchange(z, &live->forms[1], bucket.memory, p->padded,
						     REDUCTIONS, &live->bucket, &live->sent)
					.sum;
		bb_ledger_release(&z->ledger, &bucket);
		z->reducing = unit;
		return;
	}
	if (z->stage >= 2 && dtype != z->zero->options.dtype) {
		zero_hold(z, BB_HOLD_COMMUNICATION, p->padded * bb_dtype_size(dtype), false,
			  &live->bucket);
		add_move(z, BB_ZERO_WIDEN, bucket.memory, live->bucket.memory, p->padded, 0);
		bb_ledger_release(&z->ledger, &bucket);
	}
	live->reduced = live->bucket.memory + p->mine * bb_dtype_size(dtype);
	if (z->stage >= 2)
		z->reducing = unit;
	else if (microbatch < z->zero->options.accumulate - 1 || z->compressed)
		return;
	live->sent = add_call(
		z, z->stage == 0 ? &bb_all_reduce : &bb_reduce_scatter,
		z->stage >= 2 ? live->bucket.memory : z->gradients.memory + p->at * zero_size(z),
		(struct bb_operation){.count = (size_t)p->part,
				      .dtype = dtype,
				      .op = BB_SUM,
				      .group = z->zero->options.separate ? REDUCERS : ALL});
}

static void write_pass(struct bb_zero_rank *z, bool backward, int64_t microbatch)
{
	const struct bb_zero_units *units = &z->zero->units;
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
		add_pass(z, &z->zero->passes[backward], run->share[backward]);
		zero_note(z, backward ? BB_ZERO_BACKWARD : BB_ZERO_FORWARD, run->unit);
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

/* The exchange of signs, unit by unit. Coding takes no time of its own in virtual time. */
static void write_exchange(struct bb_zero_rank *z)
{
	struct bb_tape *tape = z->variant.taped.tapes;

	for (size_t u = 0; u < z->zero->units.n && z->status == BB_OK; u++) {
		const struct bb_coded c = bb_zero_coded(z, u);
		struct bb_zero_work work = {.action = BB_ZERO_GIVE, .unit = u};

		add_action(z, work);
		work = (struct bb_zero_work){
			.action = BB_ZERO_SIGN, .unit = u, .from = c.sent, .to = c.comes};
		const size_t first = z->nworks;
		for (int phases = bb_coded_phases(c.form);
		     work.microbatch < BB_CODED_STEPS * phases && z->has_peers; work.microbatch++)
			add_work(z, work);
		if (z->has_peers) {
			bb_tape_order(tape, COMPUTING, COMMUNICATING)->work = z->phase;
			bb_coded_write(c.form, tape, COMMUNICATING, z->phase, z->phase, first,
				       HUGE_VAL);
			add_wait(z);
		}
		add_action(z, (struct bb_zero_work){.action = BB_ZERO_GET, .unit = u});
	}
}

/* Without memory it leaves the step incomplete. */
static void write_step(struct bb_zero_rank *z)
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
			zero_acquire(z, BB_HOLD_GRADIENTS,
				     (z->stage >= 2 ? z->places.divided : z->places.whole) *
					     zero_size(z),
				     false, &z->gradients);
		write_pass(z, true, g);
		add_wait(z);
		keep_reduced(z, g);
	}
	z->phase = BB_ZERO_IN_OPTIMIZER;
	zero_note(z, BB_ZERO_BEFORE, 0);
	/* The states of the optimizer are allocated in the first step. */
	if (!z->moment1.memory) {
		if (has_master(z)) {
			zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->master);
			each_part(z, PARAMETERS | MASTER, BB_ZERO_WIDEN);
		}
		zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment1);
		zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment2);
		if (z->compressed) {
			zero_acquire(z, BB_HOLD_OPTIMIZER,
				     z->exchange.errors[z->zero->units.n] * sizeof(float), false,
				     &z->errors);
			zero_acquire(z, BB_HOLD_COMMUNICATION, z->exchange.bytes, false, &z->codes);
		}
	}
	add_action(z, (struct bb_zero_work){.action = BB_ZERO_INSPECT});
	if (z->stage > 0 || z->compressed) {
		add_call(z, &bb_all_reduce, z->flag.memory,
			 (struct bb_operation){.count = 1, .dtype = BB_INT32, .op = BB_MAX});
		add_wait(z);
	}
	if (z->compressed) {
		z->phase = BB_ZERO_IN_GATHER;
		write_exchange(z);
		z->phase = BB_ZERO_IN_OPTIMIZER;
	}
	add_action(z, (struct bb_zero_work){.action = BB_ZERO_UPDATE});
	zero_note(z, BB_ZERO_AFTER, 0);
	z->phase = BB_ZERO_IN_GATHER;
	if (z->stage == 1 || z->stage == 2) {
		for (size_t u = 0; u < z->zero->units.n && z->status == BB_OK; u++)
			add_call(z, &bb_all_gather,
				 z->parameters.memory + z->places.list[u].at * zero_size(z),
				 (struct bb_operation){.count = (size_t)z->places.list[u].part,
						       .dtype = z->zero->options.dtype});
		add_wait(z);
	}
	z->noted = true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static const struct bb_zero_rank *rank_of(const struct bb_program *program)
{
	return ((const struct bb_taped *)program->own)->own;
}

/* The groups are all ranks, those of nodes and across nodes, and, last, all for reductions. */
static int coded_group(const struct bb_program *program, int group)
{
	return rank_of(program)->zero->options.separate && group == program->groups - 1 ? 0 : group;
}

static int zero_group_size(const struct bb_program *program, int group)
{
	return bb_coded_group_size(&rank_of(program)->nodes, coded_group(program, group));
}

static int zero_member(const struct bb_program *program, int group, int i)
{
	return bb_coded_member(&rank_of(program)->nodes, coded_group(program, group), i);
}

static void zero_complete(const void *own, int rank, struct bb_operation *o)
{
	const struct bb_zero_rank *z = own;

	if (o->act == BB_ACT_COLLECTIVE && o->group == REDUCERS)
		o->group = z->variant.taped.program.groups - 1;
	else
		bb_coded_complete(&z->nodes, rank, o);
}

/* Set queues and groups, and which exchanges are of codes. */
static void set_groups(struct bb_zero_rank *z)
{
	const struct bb_zero_options *a = &z->zero->options;
	struct bb_taped *taped = &z->variant.taped;
	const int n = z->zero->nranks;

	z->reshard = z->stage == 3 ? (int)a->reshard : 0;
	z->gathers_codes = z->stage == 3 && a->qwz && z->has_peers;
	z->reduces_codes = z->stage == 3 && a->qgz_given;
	z->nodes = (struct bb_coded_form){.nranks = n,
					  .local = z->reduces_codes ? (int)a->qgz
						   : z->reshard > 1 ? z->reshard
								    : n};
	for (size_t u = 0; u < z->zero->units.n && (z->gathers_codes || z->reduces_codes); u++)
		for (int i = 0; i < 2; i++)
			z->live[u].forms[i] =
				bb_zero_coded_form(&z->zero->units, u, n, i ? z->nodes.local : 0);
	taped->own = z;
	taped->program.queues = a->separate ? REDUCING + 1 : REDUCING;
	taped->program.groups = z->has_peers * (1 + a->separate);
	taped->program.group_size = zero_group_size;
	taped->program.member = zero_member;
	taped->complete = zero_complete;
	if (z->has_peers && z->nodes.local < n)
		taped->program.groups += n / z->nodes.local;
	if (z->reduces_codes)
		taped->program.groups += z->nodes.local;
}

bb_status bb_zero_rank_open(struct bb_zero_rank *z, int64_t steps)
{
	const struct bb_zero *zero = z->zero;
	const struct bb_engine *e = zero_engine(z);
	const bool divided = z->stage == 3; /* parameters are */
	const size_t size = zero_size(z);
	struct bb_zero_work begin = {.action = BB_ZERO_BEGIN};
	struct bb_run *run = e->run;
	struct bb_usage first;
	bb_status status;

	z->ledger =
		(struct bb_ledger){.backend = e->backend, .rank = e->rank, .error = &run->error};
	z->data = bb_zero_trains(zero, run);
	z->has_peers = !zero->alone && zero->nranks > 1;
	z->scale = zero->scale;
	z->reducing = NO_UNIT;
	z->live = calloc(zero->units.n, sizeof(*z->live));
	if (!z->live)
		BB_TRY(status, bb_no_memory(&run->error, "the layers of a model"), out);
	for (size_t u = 0; u < zero->units.n; u++)
		z->live[u].gathered = z->live[u].sent = NO_EVENT;
	BB_TRY(status,
	       bb_zero_places_make(&z->places, &zero->units, z->stage, zero->nranks, z->rank,
				   &run->error),
	       out);
	BB_TRY(status,
	       bb_taped_begin(&z->variant.taped, zero->alone ? 1 : zero->nranks, 1, 1, &run->error),
	       out);
	set_groups(z);
	/* A ring would send what an all-to-all sends several times. */
	if (strcmp(zero->options.algo_text, "auto") != 0 &&
	    (!z->compressed || zero->options.algo_text_given))
		z->variant.taped.program.algorithm = zero->options.algo_text;
	zero_acquire(z, BB_HOLD_PARAMETERS, (divided ? z->places.divided : z->places.whole) * size,
		     false, &z->parameters);
	for (size_t i = 0; i < zero->units.n && z->data && z->status == BB_OK; i++) {
		const struct bb_zero_place *p = &z->places.list[i];
		const struct bb_zero_array array = {.at = z->parameters.memory +
							  (divided ? p->part_at : p->at) * size,
						    .size = size,
						    .written = true};

		bb_zero_each(z, &array, 1, i, divided, work_block, &begin);
	}
	if (z->reshard > 1)
		zero_acquire(z, BB_HOLD_PARAMETERS, z->places.whole / (uint64_t)z->reshard * size,
			     false, &z->second);
	zero_note(z, BB_ZERO_MODEL, 0);
	if (z->compressed)
		BB_TRY(status,
		       bb_zero_exchange_make(&z->exchange, &zero->units, zero->nranks, &run->error),
		       out);
	if (z->has_peers && (z->stage > 0 || z->compressed))
		zero_acquire(z, BB_HOLD_COMMUNICATION, sizeof(int32_t), false, &z->flag);
	zero_note(z, BB_ZERO_WRAPPED, 0);
	write_step(z);
	first = z->ledger.peak;
	/* The program of the second step: only then no array of the optimizer has memory that the
	   step released before. */
	write_step(z);
	if (steps == 1)
		z->ledger.peak = first;
	status = z->status == BB_OK ? bb_taped_end(&z->variant.taped, "a step", &run->error)
				    : z->status;
out:
	return status;
}

void bb_zero_rank_close(struct bb_variant *variant)
{
	struct bb_zero_rank *z = (struct bb_zero_rank *)variant;

	bb_taped_free(&z->variant.taped);
	bb_ledger_close(&z->ledger);
	bb_zero_places_free(&z->places);
	bb_zero_exchange_free(&z->exchange);
	free(z->works);
	free(z->moments);
	free(z->live);
	free(z->exchanges);
	z->live = NULL;
	z->exchanges = NULL;
	z->works = NULL;
	z->moments = NULL;
}
