/*
 * adam.h - the arithmetic of a mixed-precision step on arrays in host memory: formats, and Adam. No
 * product is contracted with a sum, so results do not depend on how a model is divided.
 */
#ifndef BB_TRAINING_KERNELS_ZERO_ADAM_H
#define BB_TRAINING_KERNELS_ZERO_ADAM_H

#include "core/datatype.h"

/* Convert N elements of DTYPE (half, bfloat16 or float) to floats, exactly; and back, rounding to
   nearest even. */
void bb_adam_widen(enum bb_dtype dtype, const void *from, float *to, size_t n);
void bb_adam_narrow(enum bb_dtype dtype, const float *from, void *to, size_t n);

/* Whether any value is infinite or NaN. */
bool bb_adam_overflowed(enum bb_dtype dtype, const void *values, size_t n);

struct bb_adam {
	float rate, beta1, beta2, epsilon;
};

/* PyTorch's defaults: 1e-3, 0.9, 0.999, 1e-8. */
extern const struct bb_adam bb_adam_defaults;

/*
 * Run step T (from 1) of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) on N elements, in fp32.
 * Gradients are first multiplied by UNSCALE, which removes the loss scale and averages.
 */
void bb_adam_step(const struct bb_adam *adam, uint64_t t, float unscale, const float *gradient,
		  float *parameter, float *moment1, float *moment2, size_t n);

#endif
