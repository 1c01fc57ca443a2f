/*
 * options.h - the common options of training steps, for lists of options (core/option.h). The
 * parameters after OPTION are added to the help or to the row.
 */
#ifndef BB_TRAINING_KERNELS_KERNEL_OPTIONS_H
#define BB_TRAINING_KERNELS_KERNEL_OPTIONS_H

#include "core/option.h"
#include "harness/measure/runner.h"

#define BB_MODEL_OPTION(OPTION, initial, what, ...)                                                \
	OPTION(STRING, model_text, "model", 0, initial,                                            \
	       what "a preset, a family with its hyperparameters (see --list), or a config.json",  \
	       .argument = "NAME|FILE", .usual = true, ##__VA_ARGS__)
#define BB_SEQ_OPTION(OPTION, ...)                                                                 \
	OPTION(INT, seq, "seq", 0, NULL, "tokens of a sequence (default: that of the model)",      \
	       .min = 1, .max = INT64_C(1) << 28, ##__VA_ARGS__)
#define BB_FLOPS_OPTION(OPTION, more, ...)                                                         \
	OPTION(FLOPS, flops, "flops", 0, NULL,                                                     \
	       "FLOPs per second of a rank's computations, as in 100T" more, ##__VA_ARGS__)
/* The alternative to --flops. */
#define BB_STEP_TIME_OPTION(OPTION, initial, more)                                                 \
	OPTION(DURATION, step_ns, "step-time", 0, initial,                                         \
	       "instead of --flops: time of forward and backward pass of a batch together" more,   \
	       .min = 1, .max = BB_YEAR_NS)
/* What speaks against --flops or --batch beside --step-time. */
#define BB_TIME_CONFLICT .excludes = {{"step-time", "both set the time of a batch"}}
/* STAND_IN is an enum bb_stand_in. */
#define BB_COMPUTE_OPTION(OPTION, ...)                                                             \
	OPTION(CHOICE, stand_in, "compute", 0, "sleep",                                            \
	       "stand-in for computations; spin: a busy core or part of the GPU, gemm: cuBLAS",    \
	       .choices = bb_stand_in_names, ##__VA_ARGS__)

#endif
