/*
 * options.c - rows of options of acceptance.
 */
#include "acceptance/tool/tool.h"

#define BB_OPTIONS struct bb_acceptance_options
#define ROWS(LIST)                                                                                 \
	{                                                                                          \
		LIST(BB_OPTION_ROW, BB_OPTION_ROW)                                                 \
		{                                                                                  \
			.name = NULL                                                               \
		}                                                                                  \
	}

const struct bb_option bb_acceptance_run_rows[] = ROWS(BB_ACCEPTANCE_RUN);
const struct bb_option bb_acceptance_baseline_rows[] = ROWS(BB_ACCEPTANCE_BASELINE);
const struct bb_option bb_acceptance_check_rows[] = ROWS(BB_ACCEPTANCE_CHECK);
const struct bb_option bb_acceptance_compare_rows[] = ROWS(BB_ACCEPTANCE_COMPARE);
const struct bb_option bb_acceptance_about_rows[] = ROWS(BB_ACCEPTANCE_ABOUT);
