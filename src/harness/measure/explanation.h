/*
 * explanation.h - what --explain prints: one algorithm after the other.
 */
#ifndef BB_HARNESS_MEASURE_EXPLANATION_H
#define BB_HARNESS_MEASURE_EXPLANATION_H

#include "core/strbuf.h"
#include "harness/measure/collective.h"

/*
 * Append to OUT an explanation of every algorithm in SETTINGS, which have been checked for
 * --explain, with one element per chunk unless -b gives more. An algorithm without a schedule, as
 * those of NATIVES (the backend's), gets a line with the reason. BB_EUNSUPPORTED with the first of
 * these reasons if nothing could be explained.
 */
BB_MUST bb_status bb_explanation_add(struct bb_strbuf *out, const struct bb_options *options,
				     const struct bb_collective_options *settings,
				     const struct bb_collective *collective,
				     const struct bb_native *natives, struct bb_error *error);

#endif
