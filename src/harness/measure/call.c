/*
 * call.c - settles calls of collectives, and lays out their buffers.
 */
#include "harness/measure/call.h"

#include "backends/gpu.h"

bb_status bb_call_settle(const struct bb_backend *backend, struct bb_group *group,
			 const struct bb_choice *choice, struct bb_call *call, size_t *tmp,
			 const char **objection)
{
	bb_status status = BB_OK;

	*tmp = 0;
	call->schedule = choice->schedule;
	call->native = choice->native;
	*objection = call->schedule && call->schedule->refuses
			     ? call->schedule->refuses(&call->shape)
			     : NULL;
	if (*objection)
		return BB_OK;
	if (!call->schedule && !call->native)
		status = backend->choose(group, call);
	if (status == BB_EUNSUPPORTED)
		*objection = "the backend has none";
	if (status == BB_OK)
		status = backend->tune(group, call);
	if (status == BB_OK)
		*tmp = backend->tmp_bytes(group, call);
	return status;
}

bb_status bb_call_ready(const struct bb_backend *backend, struct bb_group *group,
			struct bb_call *call, const char **objection)
{
	const bb_status status = backend->gpu ? backend->gpu->ready(group, call) : BB_OK;

	*objection = status == BB_OK ? backend->refuses(group, call) : NULL;
	return status;
}

/*
 * A rank's buffers. On CPUs an odd number of cache lines separates IN from OUT, and one
 * set from the next: buffers whose addresses agree in their low 12 bits would share cache sets and
 * alias in the load buffers. On GPUs buffers begin where an allocation of their own would, since
 * transfers, registered buffers and multicast objects need alignment: at 4 KiB, and from 2 MiB on
 * at a page of the device's memory.
 */
#define LINE ((size_t)64)
#define APART (33 * LINE)
#define GPU_SMALL ((size_t)4 << 10)
#define GPU_PAGE ((size_t)2 << 20)

/* What lies behind BYTES begins at a multiple of GRAIN, and APART further. */
struct spacing {
	size_t grain, apart;
};

static struct spacing spacing_of(bool on_gpu, size_t largest)
{
	if (!on_gpu)
		return (struct spacing){LINE, APART};
	return (struct spacing){largest < GPU_PAGE ? GPU_SMALL : GPU_PAGE, 0};
}

static size_t behind(struct spacing spacing, size_t bytes)
{
	return (bytes + spacing.grain - 1) / spacing.grain * spacing.grain + spacing.apart;
}

/* Sets of twice the cache, at least one, and a pristine one. */
static size_t filling_sets(size_t cache, size_t set_bytes)
{
	const size_t sets = (2 * cache + set_bytes - 1) / set_bytes;

	return sets == 0 ? 2 : sets >= BB_MOST_SETS ? BB_MOST_SETS : sets + 1;
}

size_t bb_layout_bytes(const struct bb_layout *layout, size_t cache)
{
	return layout->sets_at + filling_sets(cache, layout->set_bytes) * layout->set_bytes;
}

struct bb_layout bb_layout_make(const struct bb_collective *collective,
				const struct bb_shape *shape, int rank, size_t element_size,
				size_t unalign, size_t tmp_bytes, size_t arena_bytes, bool on_gpu,
				size_t cache)
{
	const size_t shift = unalign * element_size;
	const size_t in_bytes = bb_collective_in(collective, shape, rank) * element_size;
	const size_t out_bytes = bb_collective_out(collective, shape, rank) * element_size;
	const struct spacing spacing =
		spacing_of(on_gpu, in_bytes > out_bytes ? in_bytes : out_bytes);
	struct bb_layout l = {.in_bytes = in_bytes,
			      .out_bytes = out_bytes,
			      .in_at = shift,
			      .out_at = behind(spacing, shift + in_bytes) + shift,
			      .sets_at = behind(spacing, tmp_bytes)};
	size_t end;

	if (shape->in_place) {
		l.in_at = shift + bb_collective_at(collective, shape, rank, BB_IN) * element_size;
		l.out_at = shift + bb_collective_at(collective, shape, rank, BB_OUT) * element_size;
	}
	end = l.in_at + l.in_bytes > l.out_at + l.out_bytes ? l.in_at + l.in_bytes
							    : l.out_at + l.out_bytes;
	l.set_bytes = behind(spacing, end ? end : 1);
	if (arena_bytes >= l.sets_at + l.set_bytes) {
		size_t fit = (arena_bytes - l.sets_at) / l.set_bytes;
		size_t most = filling_sets(cache, l.set_bytes);

		most = most < BB_USUAL_SETS ? BB_USUAL_SETS : most;
		l.sets = (int)(fit > most ? most : fit);
	}
	return l;
}

struct bb_buffers bb_arena_set(const struct bb_arena *arena, const struct bb_layout *layout,
			       int set)
{
	char *base = arena->memory + layout->sets_at + (size_t)set * layout->set_bytes;

	return (struct bb_buffers){base + layout->in_at, base + layout->out_at};
}

void *bb_arena_tmp(const struct bb_arena *arena)
{
	return arena->memory;
}
