/*
 * calls.c - the collectives of a stage: prepared once, issued for each unit.
 */
#include "training_kernels/zero/rank.h"

#include "backends/gpu.h"
#include "harness/measure/call.h"

#include <stdio.h>
#include <stdlib.h>

static const struct bb_collective *const collectives[BB_ZERO_KINDS] = {
	[BB_ZERO_REDUCE] = &bb_all_reduce,
	[BB_ZERO_SCATTER] = &bb_reduce_scatter,
	[BB_ZERO_GATHER] = &bb_all_gather,
};

static bool stage_needs(int stage, enum bb_zero_kind kind)
{
	return (kind == BB_ZERO_REDUCE) == (stage == 0);
}

static struct bb_zero_call *call_of(const struct bb_zero_rank *z, enum bb_zero_kind kind,
				    size_t unit)
{
	return &z->calls[(size_t)kind * z->zero->units.n + unit];
}

static void refuse_call(struct bb_zero_rank *z, const struct bb_call *call, const char *reason)
{
	if (!*z->objection)
		snprintf(z->objection, sizeof(z->objection), "%s by %s on %d ranks: %s",
			 call->collective->name, z->zero->options.algo_text, z->zero->nranks,
			 reason);
}

/* Maximum bytes that a rank sends. The algorithm of a library is unknown and counts as a ring,
   which sends the fewest. */
static uint64_t wire_bytes(const struct bb_call *call)
{
	const struct bb_algorithm *a =
		call->schedule ? call->schedule : bb_algorithm_find(call->collective, "ring");
	const struct bb_shape shape = bb_call_scheduled_shape(call);
	size_t rounds, wire;

	bb_algorithm_cost(a, &shape, &rounds, &wire);
	return wire * bb_dtype_size(call->dtype);
}

/* Choose the algorithm of CALL, of which collective, datatype, op and shape are set, and raise *TMP
   to the temporary memory that it needs. A refusal becomes the objection of Z. */
static bb_status prepare_call(struct bb_zero_rank *z, struct bb_call *call, size_t *tmp)
{
	struct bb_group *group = z->driver->world;
	struct bb_choice choice;
	const char *reason = bb_choice_find(&choice, z->natives, call->collective, z->zero->nranks,
					    z->zero->options.algo_text);
	bb_status status = BB_OK;
	size_t bytes;

	reason = reason ? reason : choice.reason;
	if (reason) {
		refuse_call(z, call, reason);
		return BB_OK;
	}
	BB_TRY(status, bb_call_settle(z->backend, group, &choice, call, &bytes, &reason), out);
	if (!reason)
		BB_TRY(status, bb_call_ready(z->backend, group, call, &reason), out);
	if (reason)
		refuse_call(z, call, reason);
	else
		*tmp = bytes > *tmp ? bytes : *tmp;
out:
	return status;
}

static bb_status prepare_unit(struct bb_zero_rank *z, enum bb_zero_kind kind, size_t unit,
			      size_t *tmp)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	struct bb_zero_call *c = call_of(z, kind, unit);
	bb_status status;

	c->call = (struct bb_call){
		.collective = collectives[kind],
		.dtype = z->zero->options.dtype,
		.op = BB_SUM,
		.shape = {.nranks = z->zero->nranks, .in_place = true, .count = (size_t)p->part},
	};
	status = prepare_call(z, &c->call, tmp);
	if (status == BB_OK && !*z->objection)
		c->wire = wire_bytes(&c->call);
	return status;
}

static bb_status prepare_flag(struct bb_zero_rank *z, size_t *tmp)
{
	bb_status status;

	z->flag_call = (struct bb_call){
		.collective = &bb_all_reduce,
		.dtype = BB_INT32,
		.op = BB_MAX,
		.shape = {.nranks = z->zero->nranks, .in_place = true, .count = 1},
	};
	status = prepare_call(z, &z->flag_call, tmp);
	if (status == BB_OK && !*z->objection)
		status =
			bb_zero_acquire(z, BB_HOLD_COMMUNICATION, sizeof(int32_t), false, &z->flag);
	return status;
}

static bb_status prepare_all(struct bb_zero_rank *z, size_t *tmp)
{
	bb_status status = BB_OK;

	z->calls = calloc(BB_ZERO_KINDS * z->zero->units.n, sizeof(*z->calls));
	if (!z->calls)
		return bb_no_memory(&z->run->error, "collectives");
	for (int k = 0; k < BB_ZERO_KINDS; k++)
		for (size_t u = 0; u < z->zero->units.n && stage_needs(z->stage, k); u++)
			if (status == BB_OK && !*z->objection)
				status = prepare_unit(z, k, u, tmp);
	if (status == BB_OK && !*z->objection && z->stage > 0)
		status = prepare_flag(z, tmp);
	return status;
}

bb_status bb_zero_calls_open(struct bb_zero_rank *z)
{
	size_t tmp = 0;
	bb_status status;

	if (!z->has_peers)
		return BB_OK;
	BB_TRY(status,
	       bb_algorithms_natives(&z->natives, &z->own_natives, z->backend,
				     z->zero->options.algo_text, &z->run->error),
	       out);
	BB_TRY(status, prepare_all(z, &tmp), out);
	BB_TRY(status, bb_crew_hear(z->driver, z->objection), out);
	if (*z->objection)
		return BB_EUNSUPPORTED;
	z->taped = z->zero->overlaps && z->backend->virtual;
	if (z->zero->overlaps && !z->taped)
		BB_TRY(status, z->backend->queue_open(z->driver->handle, &z->queue, &z->run->error),
		       out);
	if (tmp)
		status = bb_zero_acquire(z, BB_HOLD_COMMUNICATION, tmp, false, &z->tmp);
out:
	return status;
}

void bb_zero_calls_close(struct bb_zero_rank *z)
{
	if (z->queue)
		z->backend->queue_close(z->queue);
	bb_zero_tape_free(&z->tape);
	free(z->calls);
	free(z->own_natives);
}

/* ---- issuing --------------------------------------------------------------------------------- */

bb_status bb_zero_wait(struct bb_zero_rank *z)
{
	const double from = z->backend->now(z->driver->handle);
	bb_status status = BB_OK;

	if (z->taped)
		bb_zero_tape_wait(&z->tape, z->phase);
	if (z->has_peers)
		status = z->backend->finish(z->driver->handle, z->queue);
	z->times.waited[z->phase] += z->backend->now(z->driver->handle) - from;
	return status;
}

static bb_status issue_call(struct bb_zero_rank *z, const struct bb_call *call)
{
	bb_status status;

	if (z->taped) {
		bb_zero_tape_call(&z->tape, z->phase, call);
		return BB_OK;
	}
	/* Another queue may read only what copies in the main queue have completed. */
	status = z->backend->finish(z->driver->handle, NULL);
	return status == BB_OK ? z->backend->collective(z->driver->world, z->queue, call) : status;
}

bb_status bb_zero_call(struct bb_zero_rank *z, enum bb_zero_kind kind, size_t unit, char *memory)
{
	const double from = z->backend->now(z->driver->handle);
	const size_t mine = (size_t)z->places.list[unit].mine * bb_zero_size(z);
	struct bb_call call;
	bb_status status;

	if (!z->has_peers)
		return BB_OK;
	call = call_of(z, kind, unit)->call;
	call.in = memory + (kind == BB_ZERO_GATHER ? mine : 0);
	call.out = memory + (kind == BB_ZERO_SCATTER ? mine : 0);
	call.tmp = z->tmp.memory;
	z->wire += call_of(z, kind, unit)->wire;
	status = issue_call(z, &call);
	if (status == BB_OK && !z->zero->overlaps)
		status = z->backend->finish(z->driver->handle, NULL);
	z->times.waited[z->phase] += z->backend->now(z->driver->handle) - from;
	return status;
}

bb_status bb_zero_agree(struct bb_zero_rank *z, bool *found)
{
	struct bb_call call = z->flag_call;
	int32_t flag = *found;
	bb_status status;

	if (!z->has_peers || z->stage == 0)
		return BB_OK;
	call.in = call.out = z->flag.memory;
	call.tmp = z->tmp.memory;
	BB_TRY(status, z->backend->copy(z->driver->handle, z->flag.memory, &flag, sizeof(flag)),
	       out);
	BB_TRY(status, issue_call(z, &call), out);
	BB_TRY(status, bb_zero_wait(z), out);
	status = z->backend->copy(z->driver->handle, &flag, z->flag.memory, sizeof(flag));
	*found = flag;
out:
	return status;
}
