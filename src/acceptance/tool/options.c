#include "acceptance/tool/tool.h"

#define BB_OPTIONS struct bb_acceptance_options
const struct bb_option bb_acceptance_steps_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_STEPS);
const struct bb_option bb_acceptance_run_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_RUN);
const struct bb_option bb_acceptance_baseline_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_BASELINE);
const struct bb_option bb_acceptance_check_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_CHECK);
const struct bb_option bb_acceptance_compare_rows[] = BB_OPTION_ROWS(BB_ACCEPTANCE_COMPARE);
