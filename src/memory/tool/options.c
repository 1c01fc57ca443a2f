/*
 * options.c - the options of model_memory.
 */
#include "models/memory/activations.h"
#include "models/memory/quantise.h"
#include "memory/tool/tool.h"

#define MOST_RANKS (1 << 20)
#define MOST_PARAMETERS INT64_C(1000000000000000) /* bytes of so many fit into 64 bits */

static const char *const format_words[] = {"all", "int8", "int4", NULL};
static const char *const method_words[] = {"all", "minmax", "scale", NULL};

#define BB_OPTIONS struct options
#define ROWS(LIST)                                                                                 \
	{                                                                                          \
		LIST(BB_OPTION_ROW, BB_OPTION_ROW)                                                 \
		{                                                                                  \
			.name = NULL                                                               \
		}                                                                                  \
	}

const struct bb_option bb_memory_model_rows[] = ROWS(BB_MEMORY_MODEL);
const struct bb_option bb_memory_states_rows[] = ROWS(BB_MEMORY_STATES);
const struct bb_option bb_memory_parallel_rows[] = ROWS(BB_MEMORY_PARALLEL);
const struct bb_option bb_memory_fits_rows[] = ROWS(BB_MEMORY_FITS);
const struct bb_option bb_memory_zero_rows[] = ROWS(BB_MEMORY_ZERO);
const struct bb_option bb_memory_deepspeed_rows[] = ROWS(BB_MEMORY_DEEPSPEED);
const struct bb_option bb_memory_infer_rows[] = ROWS(BB_MEMORY_INFER);
const struct bb_option bb_memory_checkpoint_rows[] = ROWS(BB_MEMORY_CHECKPOINT);
const struct bb_option bb_memory_quantise_rows[] = ROWS(BB_MEMORY_QUANTISE);
const struct bb_option bb_memory_about_rows[] = ROWS(BB_MEMORY_ABOUT);
