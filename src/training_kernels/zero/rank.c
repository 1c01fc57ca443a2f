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
#include "training_kernels/zero/rank.h"

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

/* ---- access of the CPU ----------------------------------------------------------------------- */

/* Memory of the CPU needs no backend, whose calls belong to the driver's thread. */
static bb_status copy_bytes(const struct bb_zero_rank *z, void *to, const void *from, size_t bytes)
{
	if (z->engine->backend->gpu)
		return z->engine->backend->copy(z->engine->rank, to, from, bytes);
	memcpy(to, from, bytes);
	return BB_OK;
}

bb_status bb_zero_view(struct bb_zero_rank *z, int view, char *memory, size_t bytes, bool host,
		       void **seen)
{
	*seen = host || !z->engine->backend->gpu ? (void *)memory : z->blocks[view];
	return *seen == memory ? BB_OK : copy_bytes(z, *seen, memory, bytes);
}

/* Write the changes of what was SEEN of MEMORY back. */
static bb_status zero_store(struct bb_zero_rank *z, char *memory, const void *seen, size_t bytes)
{
	return seen == memory ? BB_OK : copy_bytes(z, memory, seen, bytes);
}

/* Acquire BYTES for HOLDING from the ledger, filled with zeros. */
static bb_status zero_acquire(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes,
			      bool host, struct bb_held *held)
{
	static const uint16_t zeros[2 * PERIOD];
	const struct bb_pattern pattern = {zeros, PERIOD, sizeof(*zeros), 0};
	const struct bb_backend *backend = z->engine->backend;
	const bb_status status = bb_ledger_acquire(&z->ledger, holding, bytes, host, held);

	if (status != BB_OK || !backend->has_data)
		return status;
	if (host || !backend->gpu) {
		memset(held->memory, 0, bytes);
		return BB_OK;
	}
	return backend->fill(z->engine->rank, held->memory, &pattern, 0, bytes / sizeof(*zeros));
}

/* ---- elements -------------------------------------------------------------------------------- */

static size_t block_of(size_t left)
{
	return left < BB_ZERO_BLOCK ? left : BB_ZERO_BLOCK;
}

static bb_status sum_parameters(struct bb_zero_rank *z, const struct bb_zero_work *w)
{
	const struct bb_zero_unit *u = &z->zero->units.list[w->unit];
	const size_t size = zero_size(z), n = (size_t)u->elements;
	bb_status status = BB_OK;
	void *seen;

	if (w->unit == 0 && w->microbatch == 0) {
		z->step++;
		z->skipped = z->scale.skipped;
	}
	if (w->unit == 0)
		z->forward = 0;
	for (size_t at = 0, b; at < n && status == BB_OK; at += b) {
		b = block_of(n - at);
		status = bb_zero_view(z, 0, w->from + at * size, b * size, false, &seen);
		if (status == BB_OK)
			z->forward += bb_zero_sum(z->zero->options.dtype, u->first + at, b, seen);
	}
	return status;
}

/* A bucket is padded with zeros. */
static bb_status draw_gradients(struct bb_zero_rank *z, const struct bb_zero_work *w)
{
	static const char zeros[4096];
	const struct bb_zero_unit *u = &z->zero->units.list[w->unit];
	const size_t size = zero_size(z), n = (size_t)u->elements;
	const size_t padded = z->stage < 2 ? n : (size_t)z->places.list[w->unit].padded;
	const struct bb_zero_batch batch = {z->step, w->microbatch, z->rank, z->forward,
					    z->scale.scale};
	const bool add = z->stage < 2 && w->microbatch > 0;
	bb_status status = BB_OK;
	void *from, *to;

	for (size_t at = 0, b; at < n; at += b) {
		b = block_of(n - at);
		BB_TRY(status, bb_zero_view(z, 0, w->from + at * size, b * size, false, &from),
		       out);
		BB_TRY(status, bb_zero_view(z, 1, w->to + at * size, b * size, false, &to), out);
		bb_zero_gradients(&z->zero->data, &batch, u->first + at, b, from, to, add);
		BB_TRY(status, zero_store(z, w->to + at * size, to, b * size), out);
	}
	for (size_t at = n * size, b; at < padded * size; at += b) {
		b = padded * size - at < sizeof(zeros) ? padded * size - at : sizeof(zeros);
		BB_TRY(status, copy_bytes(z, w->to + at, zeros, b), out);
	}
out:
	return status;
}

/* The first microbatch is copied. */
static bb_status keep_part(struct bb_zero_rank *z, const struct bb_zero_work *w)
{
	const enum bb_dtype dtype = z->zero->options.dtype;
	const size_t size = zero_size(z), n = (size_t)z->places.list[w->unit].part;
	float *const sums = z->blocks[5], *const parts = z->blocks[6];
	bb_status status = BB_OK;
	void *sum, *part;

	if (w->microbatch == 0)
		return copy_bytes(z, w->to, w->from, n * size);
	for (size_t at = 0, b; at < n; at += b) {
		b = block_of(n - at);
		BB_TRY(status, bb_zero_view(z, 0, w->to + at * size, b * size, false, &sum), out);
		BB_TRY(status, bb_zero_view(z, 1, w->from + at * size, b * size, false, &part),
		       out);
		bb_adam_widen(dtype, sum, sums, b);
		bb_adam_widen(dtype, part, parts, b);
		for (size_t i = 0; i < b; i++)
			sums[i] += parts[i];
		bb_adam_narrow(dtype, sums, sum, b);
		BB_TRY(status, zero_store(z, w->to + at * size, sum, b * size), out);
	}
out:
	return status;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

/* A piece of this rank's part of a unit. */
struct piece {
	char *parameters, *gradients;
	size_t at, n; /* in the divided arrays */
};

/* Call WORK for each piece. */
static bb_status each_piece(struct bb_zero_rank *z,
			    bb_status (*work)(struct bb_zero_rank *z, const struct piece *p))
{
	const size_t size = zero_size(z);
	bb_status status = BB_OK;

	for (size_t u = 0; u < z->zero->units.n && z->data; u++) {
		const struct bb_zero_place *p = &z->places.list[u];

		for (size_t at = 0; at < p->part && status == BB_OK;) {
			const uint64_t whole = at + p->at + p->mine, divided = at + p->part_at;
			const struct piece piece = {
				.parameters = z->parameters.memory +
					      size * (z->stage == 3 ? divided : whole),
				.gradients = z->gradients.memory +
					     size * (z->stage >= 2 ? divided : whole),
				.at = (size_t)divided,
				.n = block_of((size_t)p->part - at),
			};

			status = work(z, &piece);
			at += piece.n;
		}
	}
	return status;
}

/* Looks for gradients that overflow. */
static bb_status inspect_piece(struct bb_zero_rank *z, const struct piece *p)
{
	void *seen;
	const bb_status status =
		bb_zero_view(z, 0, p->gradients, p->n * zero_size(z), false, &seen);

	if (status == BB_OK)
		z->overflowed |= bb_adam_overflowed(z->zero->options.dtype, seen, p->n);
	return status;
}

static bool has_master(const struct bb_zero_rank *z)
{
	return z->zero->options.dtype != BB_FLOAT;
}

/* Initialise the master copy from the parameters. */
static bb_status copy_master(struct bb_zero_rank *z, const struct piece *p)
{
	char *const to = z->master.memory + p->at * sizeof(float);
	const bool host = z->zero->options.offload;
	void *seen, *master;
	bb_status status;

	BB_TRY(status, bb_zero_view(z, 0, p->parameters, p->n * zero_size(z), false, &seen), out);
	BB_TRY(status, bb_zero_view(z, 1, to, p->n * sizeof(float), host, &master), out);
	bb_adam_widen(z->zero->options.dtype, seen, master, p->n);
	status = zero_store(z, to, master, p->n * sizeof(float));
out:
	return status;
}

static bb_status update_piece(struct bb_zero_rank *z, const struct piece *p)
{
	const enum bb_dtype dtype = z->zero->options.dtype;
	const float unscale =
		1.0f / (z->scale.scale * (float)(z->zero->nranks * z->zero->options.accumulate));
	const size_t size = zero_size(z), bytes = p->n * sizeof(float);
	char *const rows[3] = {z->moment1.memory, z->moment2.memory, z->master.memory};
	float *const floats = z->blocks[5];
	void *gradients, *parameters, *seen[3] = {NULL, NULL, z->blocks[6]};
	bb_status status;

	BB_TRY(status, bb_zero_view(z, 0, p->gradients, p->n * size, false, &gradients), out);
	BB_TRY(status, bb_zero_view(z, 1, p->parameters, p->n * size, false, &parameters), out);
	for (int i = 0; i < 2 + has_master(z); i++)
		BB_TRY(status,
		       bb_zero_view(z, 2 + i, rows[i] + p->at * sizeof(float), bytes,
				    z->zero->options.offload, &seen[i]),
		       out);
	bb_adam_widen(dtype, gradients, floats, p->n);
	if (!has_master(z))
		bb_adam_widen(dtype, parameters, seen[2], p->n);
	bb_adam_step(&bb_adam_defaults, z->taken, unscale, floats, seen[2], seen[0], seen[1], p->n);
	bb_adam_narrow(dtype, seen[2], parameters, p->n);
	BB_TRY(status, zero_store(z, p->parameters, parameters, p->n * size), out);
	for (int i = 0; i < 2 + has_master(z); i++)
		BB_TRY(status, zero_store(z, rows[i] + p->at * sizeof(float), seen[i], bytes), out);
out:
	return status;
}

/* ---- the workload ---------------------------------------------------------------------------- */

static bb_status perform_work(struct bb_zero_rank *z, const struct bb_zero_work *w)
{
	bb_status status = BB_OK;
	int32_t flag;

	switch (w->action) {
	case BB_ZERO_SUM:
		return sum_parameters(z, w);
	case BB_ZERO_DRAW:
		return draw_gradients(z, w);
	case BB_ZERO_KEEP:
		return keep_part(z, w);
	case BB_ZERO_PLACE:
		return copy_bytes(z, w->to, w->from,
				  (size_t)z->places.list[w->unit].part * zero_size(z));
	case BB_ZERO_INSPECT:
		z->overflowed = false;
		status = each_piece(z, inspect_piece);
		flag = z->overflowed;
		return status == BB_OK && z->flag.memory
			       ? copy_bytes(z, z->flag.memory, &flag, sizeof(flag))
			       : status;
	case BB_ZERO_UPDATE: /* the flag is that of all ranks by now */
		flag = z->overflowed;
		if (z->flag.memory)
			BB_TRY(status, copy_bytes(z, &flag, z->flag.memory, sizeof(flag)), out);
		z->taken += !flag;
		if (!flag)
			BB_TRY(status, each_piece(z, update_piece), out);
		bb_zero_scale_update(&z->scale, flag);
		break;
	case BB_ZERO_CALL:
		break;
	}
out:
	return status;
}

static void zero_compute(void *own, int rank, const struct bb_operation *o)
{
	struct bb_zero_rank *z = own;

	if (z->status == BB_OK)
		z->status = perform_work(z, &z->works[o->item]);
}

static void zero_buffers(void *own, int rank, const struct bb_operation *o, void **in, void **out)
{
	const struct bb_zero_rank *z = own;
	const struct bb_zero_work *w = &z->works[o->item];
	const size_t mine =
		w->unit == NO_UNIT ? 0 : (size_t)z->places.list[w->unit].mine * zero_size(z);

	*in = w->to + (o->collective == &bb_all_gather ? mine : 0);
	*out = w->to + (o->collective == &bb_reduce_scatter ? mine : 0);
}

/* Add an operation in the computing queue of rank 0 to the times of its phase. */
static void zero_observe(void *own, int rank, size_t index, const struct bb_operation *o,
			 double from, double to, int source)
{
	struct bb_zero_rank *z = own;

	if (rank != 0 || o->queue != COMPUTING)
		return;
	z->times.took[o->work] += to - z->last;
	if (o->act == BB_ACT_WAIT)
		z->times.waited[o->work] += to - z->last;
	z->last = to;
}

struct bb_trial bb_zero_trial(struct bb_zero_rank *z)
{
	return (struct bb_trial){
		.workload = {.program = &z->taped.program,
			     .stand_in = (enum bb_stand_in)z->zero->options.stand_in,
			     .compute = z->data ? zero_compute : NULL,
			     .stands_in = true,
			     .buffers = zero_buffers,
			     .own = z},
		.timing = BB_TIMING_STEPS,
		.watch = {zero_observe, z},
	};
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns the number of a new work. */
static size_t add_work(struct bb_zero_rank *z, struct bb_zero_work work)
{
	struct bb_zero_work *new = BB_ARRAY_ADD(z->works, z->nworks, z->work_room);

	z->taped.tapes->failed |= !new;
	if (new)
		*new = work;
	return z->nworks - 1;
}

static void add_action(struct bb_zero_rank *z, enum bb_zero_action action, size_t unit,
		       int64_t microbatch, char *from, char *to)
{
	if (z->data)
		bb_tape_compute(
			z->taped.tapes, COMPUTING, z->phase,
			add_work(z, (struct bb_zero_work){action, unit, microbatch, from, to}), 0,
			0);
}

/* Later operations of queue TO wait for the earlier ones of FROM. */
static void add_order(struct bb_zero_rank *z, enum queue from, enum queue to)
{
	struct bb_tape *tape = z->taped.tapes;

	bb_tape_order(tape, from, to);
	if (!tape->failed)
		tape->list[tape->n - 1].work = z->phase;
}

/* Later computations wait for all collectives. */
static void add_wait(struct bb_zero_rank *z)
{
	if (z->has_peers)
		add_order(z, COMMUNICATING, COMPUTING);
}

static void add_call(struct bb_zero_rank *z, const struct bb_collective *collective, size_t unit,
		     char *memory)
{
	const bool flag = unit == NO_UNIT;

	if (!z->has_peers)
		return;
	add_order(z, COMPUTING, COMMUNICATING);
	bb_tape_collective(z->taped.tapes, COMMUNICATING, z->phase,
			   add_work(z, (struct bb_zero_work){BB_ZERO_CALL, unit, 0, NULL, memory}),
			   collective, flag ? 1 : (size_t)z->places.list[unit].part,
			   flag ? BB_INT32 : z->zero->options.dtype, flag ? BB_MAX : BB_SUM);
	if (!z->zero->overlaps)
		add_wait(z);
}

/* Add SHARE of PASS. */
static void add_pass(struct bb_zero_rank *z, const struct bb_zero_pass *pass, double share)
{
	if (pass->seconds * share > 0)
		bb_tape_compute(z->taped.tapes, COMPUTING, z->phase, 0, pass->seconds * share,
				pass->flops * share);
}

/* Record the memory at POINT of the first step. */
static void zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item)
{
	if (z->nmoments < z->most_moments && !z->noted)
		z->moments[z->nmoments++] = (struct bb_zero_moment){point, item, z->ledger.now,
								    bb_usage_held(&z->ledger.peak)};
}

static bb_status prefetch(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = zero_size(z);
	bb_status status = bb_ledger_acquire(&z->ledger, BB_HOLD_COMMUNICATION,
					     (size_t)p->padded * size, false, &z->prefetched);

	if (status != BB_OK)
		return status;
	add_action(z, BB_ZERO_PLACE, unit, 0, z->parameters.memory + p->part_at * size,
		   z->prefetched.memory + p->mine * size);
	add_call(z, &bb_all_gather, unit, z->prefetched.memory);
	return BB_OK;
}

/* Set *PARAMETERS to those of UNIT, whole. Under stage 3 start to gather those of NEXT. */
static bb_status acquire_parameters(struct bb_zero_rank *z, size_t unit, size_t next,
				    char **parameters)
{
	bb_status status = BB_OK;

	*parameters = z->parameters.memory + z->places.list[unit].at * zero_size(z);
	if (z->stage < 3)
		return BB_OK;
	if (!z->prefetched.memory) {
		BB_TRY(status, prefetch(z, unit), out);
		add_wait(z);
	}
	z->current = z->prefetched;
	z->prefetched = (struct bb_held){0};
	*parameters = z->current.memory;
	if (next != NO_UNIT)
		status = prefetch(z, next);
out:
	return status;
}

static bb_status write_forward(struct bb_zero_rank *z, int64_t microbatch)
{
	const size_t n = z->zero->units.n;
	bb_status status = BB_OK;
	char *parameters;

	z->phase = BB_ZERO_IN_FORWARD;
	for (size_t u = 0; u < n; u++) {
		BB_TRY(status, acquire_parameters(z, u, u + 1 < n ? u + 1 : NO_UNIT, &parameters),
		       out);
		add_action(z, BB_ZERO_SUM, u, microbatch, parameters, NULL);
		add_pass(z, &z->zero->forward, z->zero->units.list[u].forward);
		zero_note(z, BB_ZERO_FORWARD, u);
		if (z->stage == 3)
			add_wait(z);
		bb_ledger_release(&z->ledger, &z->current);
	}
out:
	return status;
}

/* Keep this rank's part of the unit whose reduction has completed. */
static void keep_reduced(struct bb_zero_rank *z)
{
	const struct bb_zero_place *p = &z->places.list[z->reducing_unit];
	const size_t size = zero_size(z);

	if (z->reducing.memory)
		add_action(z, BB_ZERO_KEEP, z->reducing_unit, z->reducing_microbatch,
			   z->reducing.memory + p->mine * size,
			   z->gradients.memory + p->part_at * size);
	bb_ledger_release(&z->ledger, &z->reducing);
}

static bb_status write_backward_unit(struct bb_zero_rank *z, size_t unit, int64_t microbatch)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = zero_size(z);
	char *parameters, *gradients = z->gradients.memory + p->at * size;
	bb_status status;

	BB_TRY(status, acquire_parameters(z, unit, unit > 0 ? unit - 1 : NO_UNIT, &parameters),
	       out);
	if (z->stage >= 2) {
		BB_TRY(status,
		       zero_acquire(z, BB_HOLD_COMMUNICATION, p->padded * size, false, &z->bucket),
		       out);
		gradients = z->bucket.memory;
	}
	add_action(z, BB_ZERO_DRAW, unit, microbatch, parameters, gradients);
	add_pass(z, &z->zero->backward, z->zero->units.list[unit].backward);
	zero_note(z, BB_ZERO_BACKWARD, unit);
	if (z->stage >= 2) {
		add_wait(z);
		keep_reduced(z);
	}
	bb_ledger_release(&z->ledger, &z->current);
	if (z->stage >= 2) {
		z->reducing = z->bucket;
		z->reducing_unit = unit;
		z->reducing_microbatch = microbatch;
		z->bucket = (struct bb_held){0};
	}
	if (z->stage >= 2 || microbatch == z->zero->options.accumulate - 1)
		add_call(z, z->stage == 0 ? &bb_all_reduce : &bb_reduce_scatter, unit, gradients);
out:
	return status;
}

static bb_status write_backward(struct bb_zero_rank *z, int64_t microbatch)
{
	const uint64_t elements = z->stage >= 2 ? z->places.divided : z->places.whole;
	bb_status status = BB_OK;

	z->phase = BB_ZERO_IN_BACKWARD;
	if (!z->gradients.memory)
		BB_TRY(status,
		       zero_acquire(z, BB_HOLD_GRADIENTS, elements * zero_size(z), false,
				    &z->gradients),
		       out);
	for (size_t u = z->zero->units.n; u-- > 0;)
		BB_TRY(status, write_backward_unit(z, u, microbatch), out);
	add_wait(z);
	keep_reduced(z);
out:
	return status;
}

/* Its states are allocated in the first step. */
static bb_status write_optimizer(struct bb_zero_rank *z)
{
	const uint64_t bytes = z->places.divided * sizeof(float);
	const bool host = z->zero->options.offload;
	bb_status status = BB_OK;

	z->phase = BB_ZERO_IN_OPTIMIZER;
	zero_note(z, BB_ZERO_BEFORE, 0);
	if (!z->moment1.memory) {
		if (has_master(z)) {
			BB_TRY(status, zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->master),
			       out);
			BB_TRY(status, each_piece(z, copy_master), out);
		}
		BB_TRY(status, zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment1), out);
		BB_TRY(status, zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment2), out);
	}
	add_action(z, BB_ZERO_INSPECT, 0, 0, NULL, NULL);
	if (z->stage > 0) {
		add_call(z, &bb_all_reduce, NO_UNIT, z->flag.memory);
		add_wait(z);
	}
	add_action(z, BB_ZERO_UPDATE, 0, 0, NULL, NULL);
	zero_note(z, BB_ZERO_AFTER, 0);
out:
	return status;
}

static bb_status write_step(struct bb_zero_rank *z)
{
	bb_status status = BB_OK;

	z->taped.tapes->n = 0;
	z->taped.tapes->events = 0;
	z->nworks = 0;
	for (int64_t g = 0; g < z->zero->options.accumulate; g++) {
		BB_TRY(status, write_forward(z, g), out);
		BB_TRY(status, write_backward(z, g), out);
	}
	BB_TRY(status, write_optimizer(z), out);
	z->phase = BB_ZERO_IN_GATHER;
	if (z->stage == 1 || z->stage == 2) {
		for (size_t u = 0; u < z->zero->units.n; u++)
			add_call(z, &bb_all_gather, u,
				 z->parameters.memory + z->places.list[u].at * zero_size(z));
		add_wait(z);
	}
	z->noted = true;
out:
	return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The initial parameters of UNIT, or of this rank's part of it. */
static bb_status make_parameters(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const bool divided = z->stage == 3;
	const uint64_t skip = divided ? p->mine : 0, most = divided ? p->part : p->padded;
	const uint64_t left = skip < u->elements ? u->elements - skip : 0;
	const size_t size = zero_size(z), n = (size_t)(most < left ? most : left);
	bb_status status = BB_OK;

	for (size_t i = 0, b; i < n && status == BB_OK; i += b) {
		b = block_of(n - i);
		bb_zero_initial(z->zero->options.dtype, u->first + skip + i, b, z->blocks[0]);
		status = copy_bytes(
			z, z->parameters.memory + ((divided ? p->part_at : p->at) + i) * size,
			z->blocks[0], b * size);
	}
	return status;
}

bb_status bb_zero_rank_open(struct bb_zero_rank *z, int64_t steps)
{
	const struct bb_zero *zero = z->zero;
	struct bb_run *run = z->engine->run;
	struct bb_usage first;
	bb_status status;

	z->ledger = (struct bb_ledger){
		.backend = z->engine->backend, .rank = z->engine->rank, .error = &run->error};
	z->data = bb_zero_trains(zero, run);
	z->has_peers = !zero->alone && zero->nranks > 1;
	z->scale = zero->scale;
	z->most_moments = 4 + 2 * zero->units.n * (size_t)zero->options.accumulate;
	z->moments = calloc(z->most_moments, sizeof(*z->moments));
	if (!z->moments)
		return bb_no_memory(&run->error, "moments");
	BB_TRY(status,
	       bb_zero_places_make(&z->places, &zero->units, z->stage, zero->nranks, z->rank,
				   &run->error),
	       out);
	BB_TRY(status, bb_taped_begin(&z->taped, zero->alone ? 1 : zero->nranks, true, &run->error),
	       out);
	z->taped.program.queues = QUEUES;
	z->taped.program.groups = z->has_peers ? 1 : 0;
	if (strcmp(zero->options.algo_text, "auto") != 0)
		z->taped.program.algorithm = zero->options.algo_text;
	BB_TRY(status,
	       zero_acquire(z, BB_HOLD_PARAMETERS,
			    (z->stage == 3 ? z->places.divided : z->places.whole) * zero_size(z),
			    false, &z->parameters),
	       out);
	for (size_t u = 0; u < zero->units.n && z->data; u++)
		BB_TRY(status, make_parameters(z, u), out);
	zero_note(z, BB_ZERO_MODEL, 0);
	if (z->has_peers && z->stage > 0)
		BB_TRY(status,
		       zero_acquire(z, BB_HOLD_COMMUNICATION, sizeof(int32_t), false, &z->flag),
		       out);
	zero_note(z, BB_ZERO_WRAPPED, 0);
	BB_TRY(status, write_step(z), out);
	first = z->ledger.peak;
	/* The program of the second step: only then no array of the optimizer has memory that the
	   step released before. */
	BB_TRY(status, write_step(z), out);
	if (steps == 1)
		z->ledger.peak = first;
	status = bb_taped_end(&z->taped, "a step", &run->error);
out:
	return status;
}

/* Count temporary memory as held from the first moment after the model on. */
static void hold_tmp(struct bb_usage *usage, size_t bytes)
{
	usage->holds[BB_HOLD_COMMUNICATION] += bytes;
	usage->reserved += bb_ledger_rounded(bytes);
}

bb_status bb_zero_rank_settle(struct bb_zero_rank *z, struct bb_error *refusal)
{
	const struct bb_trial trial = bb_zero_trial(z);
	struct bb_runner *runner = NULL;
	struct bb_sent sent;
	bb_status status;

	BB_TRY(status,
	       bb_runner_open(&runner, z->engine->run, z->engine->driver, &trial.workload, refusal),
	       out);
	for (int phase = 0; phase < BB_ZERO_PHASES && z->has_peers; phase++) {
		BB_TRY(status, bb_runner_count(runner, z->engine->driver->rank, phase, &sent), out);
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
	bb_runner_close(runner);
	return status;
}

void bb_zero_rank_close(struct bb_zero_rank *z)
{
	bb_taped_free(&z->taped);
	free(z->works);
	bb_ledger_close(&z->ledger);
	bb_zero_places_free(&z->places);
	free(z->moments);
}
