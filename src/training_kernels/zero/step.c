/*
 * step.c - a step of training under each stage.
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
#include "backends/gpu.h"
#include "core/clock.h"
#include "harness/measure/runner.h"
#include "training_kernels/zero/adam.h"
#include "training_kernels/zero/rank.h"

#include <string.h>

#define NO_UNIT SIZE_MAX

/* ---- elements -------------------------------------------------------------------------------- */

/* A unit's elements, a block at a time. */
struct block {
	uint64_t first; /* in the model */
	size_t at, n;   /* in the unit, without padding */
};

static size_t next_block(const struct bb_zero_rank *z, size_t unit, size_t at, struct block *b)
{
	const struct bb_zero_unit *u = &z->zero->units.list[unit];

	*b = (struct block){u->first + at, at, (size_t)u->elements - at};
	b->n = b->n < BB_ZERO_BLOCK ? b->n : BB_ZERO_BLOCK;
	return at + b->n;
}

static bb_status sum_parameters(struct bb_zero_rank *z, size_t unit, char *parameters)
{
	const size_t size = bb_zero_size(z), n = (size_t)z->zero->units.list[unit].elements;
	bb_status status = BB_OK;
	struct block b;
	void *seen;

	for (size_t at = 0; at < n && status == BB_OK && z->data;) {
		at = next_block(z, unit, at, &b);
		status = bb_zero_view(z, 0, parameters + b.at * size, b.n * size, false, &seen);
		if (status == BB_OK)
			z->forward += bb_zero_sum(z->zero->options.dtype, b.first, b.n, seen);
	}
	return status;
}

static bb_status make_gradients(struct bb_zero_rank *z, size_t unit, int64_t microbatch,
				char *parameters, char *gradients)
{
	const size_t size = bb_zero_size(z), n = (size_t)z->zero->units.list[unit].elements;
	const struct bb_zero_batch batch = {z->step, microbatch, z->rank, z->forward,
					    z->scale.scale};
	const bool add = z->stage < 2 && microbatch > 0;
	bb_status status = BB_OK;
	struct block b;
	void *from, *to;

	for (size_t at = 0; at < n && z->data;) {
		at = next_block(z, unit, at, &b);
		BB_TRY(status,
		       bb_zero_view(z, 0, parameters + b.at * size, b.n * size, false, &from), out);
		BB_TRY(status, bb_zero_view(z, 1, gradients + b.at * size, b.n * size, false, &to),
		       out);
		bb_zero_gradients(&z->zero->data, &batch, b.first, b.n, from, to, add);
		BB_TRY(status, bb_zero_store(z, gradients + b.at * size, to, b.n * size), out);
	}
out:
	return status;
}

/* Add this rank's N elements of a reduced unit, at PART, to SUM in the divided array; if FIRST,
   copy them. */
static bb_status add_part(struct bb_zero_rank *z, char *sum, char *part, size_t n, bool first)
{
	const enum bb_dtype dtype = z->zero->options.dtype;
	const size_t size = bb_zero_size(z);
	bb_status status = BB_OK;
	void *a, *b;

	if (first)
		return z->backend->copy(z->driver->handle, sum, part, n * size);
	for (size_t at = 0; at < n; at += BB_ZERO_BLOCK) {
		const size_t block = n - at < BB_ZERO_BLOCK ? n - at : BB_ZERO_BLOCK;

		BB_TRY(status, bb_zero_view(z, 0, sum + at * size, block * size, false, &a), out);
		BB_TRY(status, bb_zero_view(z, 1, part + at * size, block * size, false, &b), out);
		bb_adam_widen(dtype, a, z->blocks->floats[0], block);
		bb_adam_widen(dtype, b, z->blocks->floats[1], block);
		for (size_t i = 0; i < block; i++)
			z->blocks->floats[0][i] += z->blocks->floats[1][i];
		bb_adam_narrow(dtype, z->blocks->floats[0], a, block);
		BB_TRY(status, bb_zero_store(z, sum + at * size, a, block * size), out);
	}
out:
	return status;
}

/* ---- parameters of a unit -------------------------------------------------------------------- */

static bb_status prefetch(struct bb_zero_rank *z, size_t unit)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = bb_zero_size(z);
	bb_status status = bb_ledger_acquire(&z->ledger, BB_HOLD_COMMUNICATION,
					     (size_t)p->padded * size, false, &z->prefetched);

	if (status == BB_OK && z->data)
		status = z->backend->copy(z->driver->handle, z->prefetched.memory + p->mine * size,
					  z->parameters.memory + p->part_at * size,
					  (size_t)p->part * size);
	return status == BB_OK ? bb_zero_call(z, BB_ZERO_GATHER, unit, z->prefetched.memory)
			       : status;
}

/* Set *PARAMETERS to those of UNIT, whole. Under stage 3 start to gather those of NEXT. */
static bb_status acquire_parameters(struct bb_zero_rank *z, size_t unit, size_t next,
				    char **parameters)
{
	bb_status status = BB_OK;

	*parameters = z->parameters.memory + z->places.list[unit].at * bb_zero_size(z);
	if (z->stage < 3)
		return BB_OK;
	if (!z->prefetched.memory) {
		BB_TRY(status, prefetch(z, unit), out);
		BB_TRY(status, bb_zero_wait(z), out);
	}
	z->current = z->prefetched;
	z->prefetched = (struct bb_held){0};
	*parameters = z->current.memory;
	if (next != NO_UNIT)
		status = prefetch(z, next);
out:
	return status;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static double rank_now(const struct bb_zero_rank *z)
{
	return z->backend->now(z->driver->handle);
}

/* Spin for SECONDS of CPU time of this thread. */
static void spin_thread(double seconds)
{
	const double end = bb_clock_thread() + seconds;

	while (bb_clock_thread() < end)
		;
}

/* Compute SHARE of PASS. */
static bb_status compute_pass(struct bb_zero_rank *z, const struct bb_zero_pass *pass, double share)
{
	const struct bb_backend *backend = z->backend;
	struct bb_rank *rank = z->driver->handle;
	const double seconds = pass->seconds * share;
	const enum bb_stand_in stand_in = (enum bb_stand_in)z->zero->options.stand_in;
	bb_status status = BB_OK;

	if (z->taped)
		bb_zero_tape_compute(&z->tape, z->phase, seconds);
	else if (seconds == 0 || z->zero->alone)
		return BB_OK;
	else if (stand_in == BB_GEMM)
		status = backend->gpu->gemm(rank, NULL, pass->flops * share, &z->run->error);
	else if (stand_in == BB_SPIN && backend->gpu)
		status = backend->gpu->spin(rank, NULL, seconds);
	else if (stand_in == BB_SPIN)
		spin_thread(seconds);
	else
		bb_crew_delay(z->driver, seconds);
	return status == BB_OK && !z->taped && stand_in != BB_SLEEP ? backend->finish(rank, NULL)
								    : status;
}

static bb_status run_forward(struct bb_zero_rank *z)
{
	const size_t n = z->zero->units.n;
	bb_status status = BB_OK;
	char *parameters;

	z->forward = 0;
	for (size_t u = 0; u < n; u++) {
		BB_TRY(status, acquire_parameters(z, u, u + 1 < n ? u + 1 : NO_UNIT, &parameters),
		       out);
		BB_TRY(status, sum_parameters(z, u, parameters), out);
		BB_TRY(status, compute_pass(z, &z->zero->forward, z->zero->units.list[u].forward),
		       out);
		bb_zero_note(z, BB_ZERO_FORWARD, u);
		if (z->stage == 3)
			BB_TRY(status, bb_zero_wait(z), out);
		bb_ledger_release(&z->ledger, &z->current);
	}
out:
	return status;
}

/* Keep this rank's part of the unit whose reduction has completed. */
static bb_status keep_reduced(struct bb_zero_rank *z)
{
	const struct bb_zero_place *p = &z->places.list[z->reducing_unit];
	const size_t size = bb_zero_size(z);
	bb_status status = BB_OK;

	if (!z->reducing.memory)
		return BB_OK;
	if (z->data)
		status = add_part(z, z->gradients.memory + p->part_at * size,
				  z->reducing.memory + p->mine * size, (size_t)p->part,
				  z->reducing_first);
	bb_ledger_release(&z->ledger, &z->reducing);
	return status;
}

/* Set *GRADIENTS to the memory for those of UNIT. A bucket is padded with zeros. */
static bb_status place_gradients(struct bb_zero_rank *z, size_t unit, char **gradients)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	bb_status status = BB_OK;

	if (z->stage >= 2)
		status = bb_zero_acquire(z, BB_HOLD_COMMUNICATION, p->padded * bb_zero_size(z),
					 false, &z->bucket);
	*gradients =
		z->stage >= 2 ? z->bucket.memory : z->gradients.memory + p->at * bb_zero_size(z);
	return status;
}

static bb_status reduce_gradients(struct bb_zero_rank *z, size_t unit, int64_t microbatch)
{
	const bool last = microbatch == z->zero->options.accumulate - 1;

	if (z->stage >= 2) {
		z->reducing = z->bucket;
		z->reducing_unit = unit;
		z->reducing_first = microbatch == 0;
		z->bucket = (struct bb_held){0};
		return bb_zero_call(z, BB_ZERO_SCATTER, unit, z->reducing.memory);
	}
	if (!last)
		return BB_OK;
	return bb_zero_call(z, z->stage == 0 ? BB_ZERO_REDUCE : BB_ZERO_SCATTER, unit,
			    z->gradients.memory + z->places.list[unit].at * bb_zero_size(z));
}

static bb_status backward_unit(struct bb_zero_rank *z, size_t unit, int64_t microbatch)
{
	char *parameters, *gradients;
	bb_status status;

	BB_TRY(status, acquire_parameters(z, unit, unit > 0 ? unit - 1 : NO_UNIT, &parameters),
	       out);
	BB_TRY(status, place_gradients(z, unit, &gradients), out);
	BB_TRY(status, make_gradients(z, unit, microbatch, parameters, gradients), out);
	BB_TRY(status, compute_pass(z, &z->zero->backward, z->zero->units.list[unit].backward),
	       out);
	bb_zero_note(z, BB_ZERO_BACKWARD, unit);
	if (z->stage >= 2) {
		BB_TRY(status, bb_zero_wait(z), out);
		BB_TRY(status, keep_reduced(z), out);
	}
	bb_ledger_release(&z->ledger, &z->current);
	status = reduce_gradients(z, unit, microbatch);
out:
	return status;
}

static bb_status run_backward(struct bb_zero_rank *z, int64_t microbatch)
{
	const uint64_t elements = z->stage >= 2 ? z->places.divided : z->places.whole;
	bb_status status = BB_OK;

	if (!z->gradients.memory)
		BB_TRY(status,
		       bb_zero_acquire(z, BB_HOLD_GRADIENTS, elements * bb_zero_size(z), false,
				       &z->gradients),
		       out);
	for (size_t u = z->zero->units.n; u-- > 0;)
		BB_TRY(status, backward_unit(z, u, microbatch), out);
	BB_TRY(status, bb_zero_wait(z), out);
	status = keep_reduced(z);
out:
	return status;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

/* A piece of this rank's part of a unit. */
struct piece {
	char *parameters, *gradients;
	size_t at, n; /* in the divided arrays */
};

static struct piece unit_piece(const struct bb_zero_rank *z, size_t unit, size_t at)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const size_t size = bb_zero_size(z), left = (size_t)p->part - at;

	return (struct piece){
		.parameters = z->parameters.memory +
			      size * (at + (z->stage == 3 ? p->part_at : p->at + p->mine)),
		.gradients = z->gradients.memory +
			     size * (at + (z->stage >= 2 ? p->part_at : p->at + p->mine)),
		.at = (size_t)p->part_at + at,
		.n = left < BB_ZERO_BLOCK ? left : BB_ZERO_BLOCK,
	};
}

/* Call WORK for each piece. */
static bb_status
each_piece(struct bb_zero_rank *z,
	   bb_status (*work)(struct bb_zero_rank *z, const struct piece *p, void *own), void *own)
{
	bb_status status = BB_OK;

	for (size_t u = 0; u < z->zero->units.n && z->data; u++)
		for (size_t at = 0; at < z->places.list[u].part && status == BB_OK;) {
			const struct piece p = unit_piece(z, u, at);

			status = work(z, &p, own);
			at += p.n;
		}
	return status;
}

static bb_status find_overflow(struct bb_zero_rank *z, const struct piece *p, void *own)
{
	bool *found = own;
	void *seen;
	const bb_status status =
		bb_zero_view(z, 0, p->gradients, p->n * bb_zero_size(z), false, &seen);

	if (status == BB_OK)
		*found |= bb_adam_overflowed(z->zero->options.dtype, seen, p->n);
	return status;
}

/* Initialise the master copy from the parameters. */
static bb_status copy_master(struct bb_zero_rank *z, const struct piece *p, void *own)
{
	const bool host = z->zero->options.offload;
	float *const to = (float *)z->master.memory + p->at;
	void *seen, *master;
	bb_status status;

	BB_TRY(status, bb_zero_view(z, 0, p->parameters, p->n * bb_zero_size(z), false, &seen),
	       out);
	BB_TRY(status, bb_zero_view(z, 1, (char *)to, p->n * sizeof(float), host, &master), out);
	bb_adam_widen(z->zero->options.dtype, seen, master, p->n);
	status = bb_zero_store(z, (char *)to, master, p->n * sizeof(float));
out:
	return status;
}

static bool has_master(const struct bb_zero_rank *z)
{
	return z->zero->options.dtype != BB_FLOAT;
}

static bb_status allocate_optimizer(struct bb_zero_rank *z)
{
	const uint64_t bytes = z->places.divided * sizeof(float);
	const bool host = z->zero->options.offload;
	bb_status status = BB_OK;

	if (z->moment1.memory)
		return BB_OK;
	if (has_master(z)) {
		BB_TRY(status, bb_zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->master), out);
		BB_TRY(status, each_piece(z, copy_master, NULL), out);
	}
	BB_TRY(status, bb_zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment1), out);
	status = bb_zero_acquire(z, BB_HOLD_OPTIMIZER, bytes, host, &z->moment2);
out:
	return status;
}

static bb_status update_piece(struct bb_zero_rank *z, const struct piece *p, void *own)
{
	const enum bb_dtype dtype = z->zero->options.dtype;
	const float unscale =
		1.0f / (z->scale.scale * (float)(z->zero->nranks * z->zero->options.accumulate));
	const size_t size = bb_zero_size(z), bytes = p->n * sizeof(float);
	const bool host = z->zero->options.offload;
	char *const rows[3] = {z->moment1.memory, z->moment2.memory, z->master.memory};
	void *gradients, *parameters, *seen[3] = {0};
	bb_status status;

	BB_TRY(status, bb_zero_view(z, 0, p->gradients, p->n * size, false, &gradients), out);
	BB_TRY(status, bb_zero_view(z, 1, p->parameters, p->n * size, false, &parameters), out);
	for (int i = 0; i < 2 + has_master(z); i++)
		BB_TRY(status,
		       bb_zero_view(z, 2 + i, rows[i] + p->at * sizeof(float), bytes, host,
				    &seen[i]),
		       out);
	bb_adam_widen(dtype, gradients, z->blocks->floats[0], p->n);
	if (!has_master(z)) {
		bb_adam_widen(dtype, parameters, z->blocks->floats[1], p->n);
		seen[2] = z->blocks->floats[1];
	}
	bb_adam_step(&bb_adam_defaults, z->taken, unscale, z->blocks->floats[0], seen[2], seen[0],
		     seen[1], p->n);
	bb_adam_narrow(dtype, seen[2], parameters, p->n);
	BB_TRY(status, bb_zero_store(z, p->parameters, parameters, p->n * size), out);
	for (int i = 0; i < 2 + has_master(z); i++)
		BB_TRY(status, bb_zero_store(z, rows[i] + p->at * sizeof(float), seen[i], bytes),
		       out);
out:
	return status;
}

static bb_status optimise(struct bb_zero_rank *z)
{
	bool overflowed = false;
	bb_status status;

	bb_zero_note(z, BB_ZERO_BEFORE, 0);
	BB_TRY(status, allocate_optimizer(z), out);
	BB_TRY(status, each_piece(z, find_overflow, &overflowed), out);
	BB_TRY(status, bb_zero_agree(z, &overflowed), out);
	z->taken += !overflowed;
	if (!overflowed)
		BB_TRY(status, each_piece(z, update_piece, NULL), out);
	bb_zero_scale_update(&z->scale, overflowed);
	bb_zero_note(z, BB_ZERO_AFTER, 0);
out:
	return status;
}

/* Stages 1 and 2: gather the updated parameters. */
static bb_status gather_parameters(struct bb_zero_rank *z)
{
	bb_status status = BB_OK;

	if (z->stage != 1 && z->stage != 2)
		return BB_OK;
	for (size_t u = 0; u < z->zero->units.n && status == BB_OK; u++)
		status =
			bb_zero_call(z, BB_ZERO_GATHER, u,
				     z->parameters.memory + z->places.list[u].at * bb_zero_size(z));
	return status == BB_OK ? bb_zero_wait(z) : status;
}

/* Begin PHASE. */
static void begin_phase(struct bb_zero_rank *z, enum bb_zero_phase phase)
{
	const double at = rank_now(z);

	z->times.took[z->phase] += at - z->since;
	z->since = at;
	z->phase = phase;
}

bb_status bb_zero_step(struct bb_zero_rank *z)
{
	const double start = rank_now(z);
	bb_status status;

	z->step++;
	z->wire = 0;
	z->times = (struct bb_zero_times){0};
	z->since = start;
	for (int64_t g = 0; g < z->zero->options.accumulate; g++) {
		begin_phase(z, BB_ZERO_IN_FORWARD);
		BB_TRY(status, run_forward(z), out);
		begin_phase(z, BB_ZERO_IN_BACKWARD);
		BB_TRY(status, run_backward(z, g), out);
	}
	begin_phase(z, BB_ZERO_IN_OPTIMIZER);
	BB_TRY(status, optimise(z), out);
	begin_phase(z, BB_ZERO_IN_GATHER);
	BB_TRY(status, gather_parameters(z), out);
	begin_phase(z, BB_ZERO_IN_FORWARD);
	z->times.step = z->since - start;
	if (z->taped)
		status = bb_zero_tape_evaluate(&z->tape, z->backend, z->driver->handle, &z->times);
out:
	return status;
}
