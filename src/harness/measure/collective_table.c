/*
 * collective_table.c - the table of the options of collectives.
 */
#include "harness/measure/collective.h"

const char *const bb_cache_names[] = {"rotate", "reuse", "rewrite", NULL};

static const char *dtype_name(int index)
{
	return index < BB_NDTYPES ? bb_dtype_name((enum bb_dtype)index) : NULL;
}

/* Those of the schedules; a library may have others. */
static const char *algorithm_name(int index)
{
	for (int i = 0; bb_algorithms[i]; i++)
		if (index == i + 1)
			return bb_algorithms[i]->name;
	return index == 0 ? "auto" : NULL;
}

static const char *op_name(int index)
{
	return index < BB_NOPS ? bb_op_name((enum bb_op)index) : NULL;
}

#define BB_OPTIONS struct bb_collective_options
const struct bb_option bb_collective_rows[] = BB_OPTION_ROWS(BB_COLLECTIVE_OPTIONS);
