/*
 * symbols.c - buffers of symbols.
 */
#include <stdlib.h>

#include "schedules/parts.h"
#include "schedules/symbols.h"

static void lay_out(struct bb_symbols *s, const struct bb_algorithm *algorithm,
		    const struct bb_shape *shape, int rank)
{
	const struct bb_collective *collective = algorithm->collective;

	s->count[BB_IN] = bb_collective_in(collective, shape, rank);
	s->count[BB_OUT] = bb_collective_out(collective, shape, rank);
	s->count[BB_TMP] = bb_algorithm_tmp_count(algorithm, shape, rank);
	s->start[BB_IN] = 0;
	s->start[BB_OUT] = s->count[BB_IN];
	if (shape->in_place) {
		s->start[BB_IN] = bb_collective_in_at(collective, shape, rank);
		s->start[BB_OUT] = bb_collective_out_at(collective, shape, rank);
	}
	s->start[BB_TMP] =
		bb_most(s->start[BB_IN] + s->count[BB_IN], s->start[BB_OUT] + s->count[BB_OUT]);
}

bb_status bb_symbols_make(struct bb_symbols *symbols, const struct bb_algorithm *algorithm,
			  const struct bb_shape *shape, int rank)
{
	size_t all;

	lay_out(symbols, algorithm, shape, rank);
	all = symbols->start[BB_TMP] + symbols->count[BB_TMP];
	symbols->cells = calloc(all ? all : 1, sizeof(*symbols->cells));
	if (!symbols->cells)
		return BB_EINTERNAL;
	for (size_t i = 0; i < symbols->count[BB_IN]; i++)
		symbols->cells[symbols->start[BB_IN] + i] =
			(struct bb_symbol){.ranks = UINT64_C(1) << rank, .index = (uint32_t)i};
	return BB_OK;
}

void bb_symbols_free(struct bb_symbols *symbols)
{
	free(symbols->cells);
	symbols->cells = NULL;
}
