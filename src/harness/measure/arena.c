#include "harness/measure/bench.h"

/*
 * IN and OUT are kept apart by an odd number of lines, and so are the sets: buffers whose addresses
 * agree in their low 12 bits would fight for the same cache sets and alias in the load buffers.
 */
#define LINE ((size_t)64)
#define APART (33 * LINE)

static size_t whole_lines(size_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

struct bb_layout bb_layout_make(const struct bb_collective *collective,
				const struct bb_shape *shape, int rank, size_t element_size,
				size_t unalign, size_t tmp_bytes, size_t arena_bytes)
{
	const size_t shift = unalign * element_size;
	const size_t tmp_span = whole_lines(tmp_bytes) + APART;
	struct bb_layout l = {.tmp_bytes = tmp_bytes};
	size_t end;

	l.in_bytes = collective->in_count(shape, rank) * element_size;
	l.out_bytes = collective->out_count(shape, rank) * element_size;
	l.in_at = shift;
	l.out_at = whole_lines(shift + l.in_bytes) + APART + shift;
	if (shape->in_place) {
		size_t in = collective->in_place_in ? collective->in_place_in(shape, rank) : 0;
		size_t out = collective->in_place_out ? collective->in_place_out(shape, rank) : 0;

		l.in_at = shift + in * element_size;
		l.out_at = shift + out * element_size;
	}
	end = l.in_at + l.in_bytes > l.out_at + l.out_bytes ? l.in_at + l.in_bytes
							    : l.out_at + l.out_bytes;
	l.set_bytes = whole_lines(end) + APART;
	if (arena_bytes >= tmp_span + l.set_bytes) {
		size_t fit = (arena_bytes - tmp_span) / l.set_bytes;

		l.sets = fit > BB_MOST_SETS ? BB_MOST_SETS : (int)fit;
	}
	return l;
}

struct bb_buffers bb_arena_set(const struct bb_arena *arena, const struct bb_layout *layout,
			       int set)
{
	char *base = arena->memory + whole_lines(layout->tmp_bytes) + APART +
		     (size_t)set * layout->set_bytes;

	return (struct bb_buffers){base + layout->in_at, base + layout->out_at};
}

void *bb_arena_tmp(const struct bb_arena *arena)
{
	return arena->memory;
}
