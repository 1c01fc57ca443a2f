/*
 * step_rows.h - options that steps of training have in common, each written once. BB_TARGET and
 * option_rows.h come before; the fields have the names of the options: seq, flops_text, step_ns,
 * stand_in, iters.
 */
#ifndef BB_HARNESS_MEASURE_STEP_ROWS_H
#define BB_HARNESS_MEASURE_STEP_ROWS_H

#include "harness/run/option_rows.h"
#include "harness/measure/play.h"

#define SEQ_ROW                                                                                    \
	INT("seq", 0, seq, NULL, "N", 1, INT64_C(1) << 28,                                         \
	    "tokens of a sequence; without it as many as the model says")

/* MORE: "", or ": " and what follows from it. */
#define FLOPS_ROW(more)                                                                            \
	STRING("flops", 0, flops_text, NULL, "RATE",                                               \
	       "what a rank computes per second, as in 100T" more)

/* For steps without which nothing says how long they take. */
#define STEP_TIME_ROW                                                                              \
	DURATION("step-time", 0, step_ns, NULL, 1,                                                 \
		 "instead: forward and backward pass of a batch together")

#define COMPUTE_ROW                                                                                \
	CHOICE("compute", stand_in, "sleep", "WORD", bb_stand_in_names,                            \
	       "how computations are stood in for: sleep, spin (a busy core, or part of the GPU), " \
	       "gemm (cuBLAS)")

#define ITERS_ROW(init, text) INT("iters", 'n', iters, init, "N", 1, 1000000, text)

#endif
