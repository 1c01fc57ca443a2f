/*
 * adam.h - the arithmetic of a mixed-precision step on arrays in host memory: formats, and Adam. No
 * product is contracted with a sum, so results do not depend on how a model is divided.
 */
#pragma once

#include "core/datatype.h"

/* Convert N elements of DTYPE (half, bfloat16 or float) to floats, exactly; and back, rounding to
   nearest even. */
void bb_adam_widen(enum bb_dtype dtype, const void *from, float *to, size_t n);
void bb_adam_narrow(enum bb_dtype dtype, const float *from, void *to, size_t n);

/* Whether any value is infinite or NaN. */
bool bb_adam_overflowed(enum bb_dtype dtype, const void *values, size_t n);

/*
 * Run step T (from 1) of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) on N elements, in fp32,
 * with the defaults of PyTorch. Gradients are first multiplied by UNSCALE, which removes the loss
 * scale and averages. BB_ADAM_RATE is the default RATE of learning.
 */
#define BB_ADAM_RATE 1e-3f
void bb_adam_step_by(float rate, uint64_t t, float unscale, const float *gradient, float *parameter,
		     float *moment1, float *moment2, size_t n);
