/*
 * rank.c - memory of a rank under a stage.
 */
#include "training_kernels/zero/rank.h"

#include "training_kernels/zero/adam.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD 2048 /* elements of a pattern of zeros; arrays are multiples of their two bytes */

const char *const bb_zero_point_names[BB_ZERO_POINTS] = {
	[BB_ZERO_MODEL] = "model",
	[BB_ZERO_WRAPPED] = "wrapped",
	[BB_ZERO_FORWARD] = "forward",
	[BB_ZERO_BACKWARD] = "backward",
	[BB_ZERO_BEFORE] = "before optimizer",
	[BB_ZERO_AFTER] = "after optimizer",
};

size_t bb_zero_size(const struct bb_zero_rank *z)
{
	return bb_dtype_size(z->zero->options.dtype);
}

/* ---- access of the CPU ---------------------------------------------------------------------- */

static bool cpu_accesses(const struct bb_zero_rank *z)
{
	return !z->backend->gpu;
}

bb_status bb_zero_view(struct bb_zero_rank *z, int view, char *memory, size_t bytes, bool host,
		       void **seen)
{
	*seen = host || cpu_accesses(z) ? (void *)memory : z->blocks->views[view];
	return *seen == memory ? BB_OK : z->backend->copy(z->driver->handle, *seen, memory, bytes);
}

bb_status bb_zero_store(struct bb_zero_rank *z, char *memory, const void *seen, size_t bytes)
{
	return seen == memory ? BB_OK : z->backend->copy(z->driver->handle, memory, seen, bytes);
}

bb_status bb_zero_blocks_open(struct bb_zero_blocks *blocks, struct bb_error *error)
{
	blocks->views = calloc(BB_ZERO_VIEWS + 2, sizeof(*blocks->views));
	if (!blocks->views)
		return bb_no_memory(error, "blocks");
	blocks->floats = blocks->views + BB_ZERO_VIEWS;
	return BB_OK;
}

void bb_zero_blocks_close(struct bb_zero_blocks *blocks)
{
	free(blocks->views);
}

/* ---- allocation ----------------------------------------------------------------------------- */

bb_status bb_zero_acquire(struct bb_zero_rank *z, enum bb_holding holding, uint64_t bytes,
			  bool host, struct bb_held *held)
{
	static const uint16_t zeros[2 * PERIOD];
	const struct bb_pattern pattern = {zeros, PERIOD, sizeof(*zeros), 0};
	const bool real = z->backend->has_data;
	const bb_status status = bb_ledger_acquire(&z->ledger, holding, bytes, host, held);

	if (status != BB_OK || !real)
		return status;
	if (host || cpu_accesses(z)) {
		memset(held->memory, 0, bytes);
		return BB_OK;
	}
	return z->backend->fill(z->driver->handle, held->memory, &pattern, 0,
				bytes / sizeof(*zeros));
}

void bb_zero_note(struct bb_zero_rank *z, enum bb_zero_point point, size_t item)
{
	if (z->nmoments == z->most_moments || z->step > 1)
		return;
	z->moments[z->nmoments++] =
		(struct bb_zero_moment){point, item, z->ledger.now, bb_usage_held(&z->ledger.peak)};
}

/* Number of elements of UNIT, without padding, in this rank's parameters: from FIRST of the model
   on, at offset AT of the array. */
static size_t real_elements(const struct bb_zero_rank *z, size_t unit, uint64_t *first,
			    uint64_t *at)
{
	const struct bb_zero_place *p = &z->places.list[unit];
	const struct bb_zero_unit *u = &z->zero->units.list[unit];
	const uint64_t skip = z->stage == 3 ? p->mine : 0;
	const uint64_t n = z->stage == 3 ? p->part : p->padded;

	*first = u->first + skip;
	*at = z->stage == 3 ? p->part_at : p->at;
	if (skip >= u->elements)
		return 0;
	return (size_t)(n < u->elements - skip ? n : u->elements - skip);
}

static bb_status make_parameters(struct bb_zero_rank *z, size_t unit)
{
	const size_t size = bb_zero_size(z);
	uint64_t first, at;
	const size_t n = real_elements(z, unit, &first, &at);
	bb_status status = BB_OK;

	for (size_t i = 0; i < n && status == BB_OK; i += BB_ZERO_BLOCK) {
		const size_t block = n - i < BB_ZERO_BLOCK ? n - i : BB_ZERO_BLOCK;

		bb_zero_initial(z->zero->options.dtype, first + i, block, z->blocks->views[0]);
		status = z->backend->copy(z->driver->handle, z->parameters.memory + (at + i) * size,
					  z->blocks->views[0], block * size);
	}
	return status;
}

static bb_status allocate_parameters(struct bb_zero_rank *z)
{
	const uint64_t elements = z->stage == 3 ? z->places.divided : z->places.whole;
	bb_status status = bb_zero_acquire(z, BB_HOLD_PARAMETERS, elements * bb_zero_size(z), false,
					   &z->parameters);

	for (size_t u = 0; u < z->zero->units.n && status == BB_OK && z->data; u++)
		status = make_parameters(z, u);
	if (status == BB_OK)
		bb_zero_note(z, BB_ZERO_MODEL, 0);
	return status;
}

static bb_status open_moments(struct bb_zero_rank *z)
{
	z->most_moments = 4 + 2 * z->zero->units.n * (size_t)z->zero->options.accumulate;
	z->moments = calloc(z->most_moments, sizeof(*z->moments));
	return z->moments ? BB_OK : bb_no_memory(&z->run->error, "moments");
}

bb_status bb_zero_rank_open(struct bb_zero_rank *z)
{
	const struct bb_zero *zero = z->zero;
	bb_status status;

	z->backend = z->run->options.backend;
	z->ledger = (struct bb_ledger){
		.backend = z->backend, .rank = z->driver->handle, .error = &z->run->error};
	z->data = bb_zero_trains(zero, z->run);
	z->tape = (struct bb_zero_tape){.nranks = zero->nranks,
					.algorithm = strcmp(zero->options.algo_text, "auto") == 0
							     ? NULL
							     : zero->options.algo_text,
					.error = &z->run->error};
	z->has_peers = !zero->alone && zero->nranks > 1;
	z->scale = zero->scale;
	BB_TRY(status, open_moments(z), out);
	BB_TRY(status,
	       bb_zero_places_make(&z->places, &zero->units, z->stage, zero->nranks, z->rank,
				   &z->run->error),
	       out);
	BB_TRY(status, allocate_parameters(z), out);
	BB_TRY(status, bb_zero_calls_open(z), out);
	bb_zero_note(z, BB_ZERO_WRAPPED, 0);
out:
	return status;
}

void bb_zero_rank_close(struct bb_zero_rank *z)
{
	bb_zero_calls_close(z);
	bb_ledger_close(&z->ledger);
	bb_zero_places_free(&z->places);
	free(z->moments);
}

/* ---- the plan ------------------------------------------------------------------------------- */

bb_status bb_zero_need(const struct bb_zero *zero, int stage, uint64_t *bytes,
		       struct bb_error *error)
{
	const uint64_t n = stage == 0 ? 1 : (uint64_t)zero->nranks;
	struct bb_zero_places places;
	struct bb_states states;
	bb_status status =
		bb_zero_places_make(&places, &zero->units, stage, zero->nranks, 0, error);

	if (status != BB_OK)
		return status;
	states = bb_states_of_rank(&zero->recipe, places.whole, 0, stage, n);
	*bytes = states.parameters + states.gradients +
		 (zero->options.offload ? 0 : states.optimizer);
	/* Two units being reduced, and under stage 3 two being gathered. */
	if (stage >= 2)
		*bytes += (stage == 3 ? 4 : 2) * places.largest * zero->recipe.precision->parameter;
	bb_zero_places_free(&places);
	return BB_OK;
}
