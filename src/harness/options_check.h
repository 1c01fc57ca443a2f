/*
 * options_check.h - whether parsed options go together.
 */
#ifndef BB_HARNESS_OPTIONS_CHECK_H
#define BB_HARNESS_OPTIONS_CHECK_H

#include "harness/options.h"

#define BB_EXPLAIN_BYTES 4096 /* the largest -b with --explain */

/* All that can be judged without a world. BB_EUSAGE or BB_EUNSUPPORTED with the reason. */
BB_MUST bb_status bb_options_check(const struct bb_options *options,
				   const struct bb_collective *collective,
				   const struct bb_launch_hint *launch, struct bb_error *error);

#endif
