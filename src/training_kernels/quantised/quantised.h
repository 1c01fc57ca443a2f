/*
 * quantised.h - the benchmark of quantised all-reduces.
 */
#pragma once

#include "harness/run/benchmark.h"

extern const struct bb_record_kind bb_record_quantised;
extern const struct bb_benchmark bb_quantised_benchmark;
