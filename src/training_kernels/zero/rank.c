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

#include <stdlib.h>
#include <string.h>

#define NO_UNIT SIZE_MAX
#define PERIOD 2048 /* elements of a pattern of zeros; arrays are multiples of their two bytes */

enum queue { COMPUTING, COMMUNICATING, QUEUES };

static size_t zero_size(const struct bb_zero_rank *z)
{
	return bb_dtype_size(z->zero->options.dtype);
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

void bb_zero_each(struct bb_zero_rank *z, const struct bb_zero_array *arrays, int narrays,
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
	case BB_ZERO_ADD: /* gradients, those that are added */
		bb_adam_widen(dtype, seen[0], wide, n);
		bb_adam_widen(dtype, seen[1], other, n);
		for (size_t i = 0; i < n; i++)
			wide[i] += other[i];
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
		bb_adam_step(z->taken, unscale, wide, master, seen[2], seen[3], n);
		bb_adam_narrow(dtype, master, seen[1], n);
		break;
	case BB_ZERO_COPY:
	case BB_ZERO_CALL:
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
		bb_zero_each(z, arrays, n, 0, p->part, work_block, &work);
	}
}

/* ---- the workload ---------------------------------------------------------------------------- */

static void zero_compute(void *own, int rank, const struct bb_operation *o)
{
	struct bb_zero_rank *z = own;
	struct bb_zero_work *w = &z->works[o->item], clear = {.action = BB_ZERO_CLEAR};
	const size_t size = zero_size(z);
	const struct bb_zero_array from = {.at = w->from, .size = size};
	struct bb_zero_array to = {.at = w->to, .size = size, .written = true};
	const struct bb_zero_unit *u = &z->zero->units.list[w->unit];
	const struct bb_zero_place *p = &z->places.list[w->unit];
	int32_t flag = z->overflowed;

	if (z->status != BB_OK)
		return;
	switch (w->action) {
	case BB_ZERO_SUM:
		if (w->unit == 0 && w->microbatch == 0) {
			z->step++;
			z->skipped = z->scale.skipped;
		}
		if (w->unit == 0)
			z->forward = 0;
		bb_zero_each(z, &from, 1, u->first, u->elements, work_block, w);
		break;
	case BB_ZERO_DRAW:
		bb_zero_each(z, (struct bb_zero_array[]){from, to}, 2, u->first, u->elements,
			     work_block, w);
		/* A bucket is padded with zeros. */
		to.at += u->elements * size;
		if (z->stage >= 2)
			bb_zero_each(z, &to, 1, 0, p->padded - u->elements, work_block, &clear);
		break;
	case BB_ZERO_ADD:
		bb_zero_each(z, (struct bb_zero_array[]){to, from}, 2, 0, p->part, work_block, w);
		break;
	case BB_ZERO_COPY:
		copy_bytes(z, w->to, w->from, p->part * size);
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
	default: /* a call, or part of another action */
		break;
	}
}

static void zero_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct bb_zero_rank *z = own;

	bb_kernel_in_place(o, z->rank, z->works[o->item].to, in, out);
}

/* Add an operation in the computing queue of rank 0 to the times of its phase. */
static void zero_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			 double from, double to, int source)
{
	struct bb_zero_rank *z = own;

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

static void add_action(struct bb_zero_rank *z, enum bb_zero_action action, size_t unit,
		       int64_t microbatch, char *from, char *to)
{
	if (z->data)
		bb_tape_compute(
			z->variant.taped.tapes, COMPUTING, z->phase,
			add_work(z, (struct bb_zero_work){action, unit, microbatch, from, to}), 0,
			0);
}

/* Later computations wait for all collectives. */
static void add_wait(struct bb_zero_rank *z)
{
	if (z->has_peers)
		bb_tape_order(z->variant.taped.tapes, COMMUNICATING, COMPUTING)->work = z->phase;
}

static void add_call(struct bb_zero_rank *z, const struct bb_collective *collective, size_t unit,
		     char *memory)
{
	const bool flag = unit == NO_UNIT;
	struct bb_tape *tape = z->variant.taped.tapes;

	if (!z->has_peers)
		return;
	bb_tape_order(tape, COMPUTING, COMMUNICATING)->work = z->phase;
	bb_tape_collective(tape, COMMUNICATING, z->phase,
			   add_work(z, (struct bb_zero_work){BB_ZERO_CALL, unit, 0, NULL, memory}),
			   collective, flag ? 1 : (size_t)z->places.list[unit].part,
			   flag ? BB_INT32 : z->zero->options.dtype, flag ? BB_MAX : BB_SUM);
	if (z->zero->options.overlap == BB_ZERO_OVERLAP_OFF)
		add_wait(z);
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

/* Start to gather the parameters of UNIT. */
static void prefetch(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = zero_size(z);

	zero_hold(z, BB_HOLD_COMMUNICATION, p->padded * size, false, &z->prefetched);
	if (z->status != BB_OK)
		return;
	add_action(z, BB_ZERO_COPY, unit, 0, z->parameters.memory + p->part_at * size,
		   z->prefetched.memory + p->mine * size);
	add_call(z, &bb_all_gather, unit, z->prefetched.memory);
}

/* Returns the parameters of UNIT, whole. Under stage 3 starts to gather those of NEXT. */
static char *acquire_parameters(struct bb_zero_rank *z, size_t unit, size_t next)
{
	if (z->stage < 3)
		return z->parameters.memory + z->places.list[unit].at * zero_size(z);
	if (!z->prefetched.memory) {
		prefetch(z, unit);
		add_wait(z);
	}
	z->current = z->prefetched;
	z->prefetched = (struct bb_held){0};
	if (next != NO_UNIT)
		prefetch(z, next);
	return z->current.memory;
}

static void write_forward(struct bb_zero_rank *z, int64_t microbatch)
{
	const size_t n = z->zero->units.n;

	z->phase = BB_ZERO_IN_FORWARD;
	for (size_t u = 0; u < n && z->status == BB_OK; u++) {
		char *parameters = acquire_parameters(z, u, u + 1 < n ? u + 1 : NO_UNIT);

		add_action(z, BB_ZERO_SUM, u, microbatch, parameters, NULL);
		add_pass(z, &z->zero->forward, z->zero->units.list[u].forward);
		zero_note(z, BB_ZERO_FORWARD, u);
		if (z->stage == 3)
			add_wait(z);
		bb_ledger_release(&z->ledger, &z->current);
	}
}

/* Keep this rank's part of UNIT, whose reduction, if one was begun, has completed. */
static void keep_reduced(struct bb_zero_rank *z, size_t unit, int64_t microbatch)
{
	const size_t size = zero_size(z);

	if (!z->reducing.memory)
		return;
	const struct bb_zero_place *const p = &z->places.list[unit];
	add_action(z, microbatch > 0 ? BB_ZERO_ADD : BB_ZERO_COPY, unit, microbatch,
		   z->reducing.memory + p->mine * size, z->gradients.memory + p->part_at * size);
	bb_ledger_release(&z->ledger, &z->reducing);
}

static void write_backward(struct bb_zero_rank *z, int64_t microbatch)
{
	const bool buckets = z->stage >= 2;
	const uint64_t elements = buckets ? z->places.divided : z->places.whole;
	const size_t size = zero_size(z);

	z->phase = BB_ZERO_IN_BACKWARD;
	if (!z->gradients.memory)
		zero_acquire(z, BB_HOLD_GRADIENTS, elements * size, false, &z->gradients);
	for (size_t u = z->zero->units.n; u-- > 0 && z->status == BB_OK;) {
		const struct bb_zero_place *p = &z->places.list[u];
		char *parameters = acquire_parameters(z, u, u > 0 ? u - 1 : NO_UNIT);
		struct bb_held bucket = {NULL, 0, 0};

		if (buckets)
			zero_acquire(z, BB_HOLD_COMMUNICATION, p->padded * size, false, &bucket);
		char *const gradients =
			buckets ? bucket.memory : z->gradients.memory + p->at * size;
		add_action(z, BB_ZERO_DRAW, u, microbatch, parameters, gradients);
		add_pass(z, &z->zero->backward, z->zero->units.list[u].backward);
		zero_note(z, BB_ZERO_BACKWARD, u);
		if (buckets)
			add_wait(z);
		keep_reduced(z, u + 1, microbatch);
		bb_ledger_release(&z->ledger, &z->current);
		z->reducing = bucket;
		if (buckets || microbatch == z->zero->options.accumulate - 1)
			add_call(z, z->stage == 0 ? &bb_all_reduce : &bb_reduce_scatter, u,
				 gradients);
	}
	add_wait(z);
	keep_reduced(z, 0, microbatch);
}

/* Without memory it leaves the step incomplete. */
static void write_step(struct bb_zero_rank *z)
{
	const uint64_t bytes = z->places.divided * sizeof(float);
	const bool host = z->zero->options.offload;
	struct bb_tape *tape = z->variant.taped.tapes;

	tape->n = 0;
	tape->events = 0;
	z->nworks = 0;
	for (int64_t g = 0; g < z->zero->options.accumulate; g++) {
		write_forward(z, g);
		write_backward(z, g);
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
	}
	add_action(z, BB_ZERO_INSPECT, 0, 0, NULL, NULL);
	if (z->stage > 0) {
		add_call(z, &bb_all_reduce, NO_UNIT, z->flag.memory);
		add_wait(z);
	}
	add_action(z, BB_ZERO_UPDATE, 0, 0, NULL, NULL);
	zero_note(z, BB_ZERO_AFTER, 0);
	z->phase = BB_ZERO_IN_GATHER;
	if (z->stage == 1 || z->stage == 2) {
		for (size_t u = 0; u < z->zero->units.n && z->status == BB_OK; u++)
			add_call(z, &bb_all_gather, u,
				 z->parameters.memory + z->places.list[u].at * zero_size(z));
		add_wait(z);
	}
	z->noted = true;
}

/* ---- opening --------------------------------------------------------------------------------- */

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
	BB_TRY(status,
	       bb_zero_places_make(&z->places, &zero->units, z->stage, zero->nranks, z->rank,
				   &run->error),
	       out);
	BB_TRY(status,
	       bb_taped_begin(&z->variant.taped, zero->alone ? 1 : zero->nranks, 1, 1, &run->error),
	       out);
	z->variant.taped.program.queues = QUEUES;
	z->variant.taped.program.groups = z->has_peers ? 1 : 0;
	if (strcmp(zero->options.algo_text, "auto") != 0)
		z->variant.taped.program.algorithm = zero->options.algo_text;
	zero_acquire(z, BB_HOLD_PARAMETERS, (divided ? z->places.divided : z->places.whole) * size,
		     false, &z->parameters);
	for (size_t i = 0; i < zero->units.n && z->data && z->status == BB_OK; i++) {
		const struct bb_zero_place *p = &z->places.list[i];
		const struct bb_zero_unit *u = &zero->units.list[i];
		const uint64_t skip = divided ? p->mine : 0;
		const uint64_t left = skip < u->elements ? u->elements - skip : 0;
		const struct bb_zero_array array = {.at = z->parameters.memory +
							  (divided ? p->part_at : p->at) * size,
						    .size = size,
						    .written = true};

		bb_zero_each(z, &array, 1, u->first + skip,
			     divided && p->part < left ? p->part : left, work_block, &begin);
	}
	zero_note(z, BB_ZERO_MODEL, 0);
	if (z->has_peers && z->stage > 0)
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
	free(z->works);
	free(z->moments);
	z->works = NULL;
	z->moments = NULL;
}
