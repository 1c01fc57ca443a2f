/*
 * train.h - a small model that is trained: two layers with a ReLU between them, least squares. Sums
 * of its gradients are exact in double precision, so they do not depend on their order or on the
 * division of samples. Complete sums are divided by the number of samples, and updated parameters
 * are rounded to a grid.
 *
 * Why sums are exact: parameters are multiples of 1/64 from -2 to 2, inputs -1, 0 or 1, targets
 * multiples of 1/64. Outputs are then multiples of 2^-12 below 2^8, squares of errors multiples of
 * 2^-24 below 2^16, so that 4096 of them need 52 bits; all parts of gradients need fewer.
 */
#ifndef BB_TRAINING_KERNELS_DATA_PARALLEL_TRAIN_H
#define BB_TRAINING_KERNELS_DATA_PARALLEL_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#define BB_TRAIN_INPUTS 6
#define BB_TRAIN_HIDDEN 8
#define BB_TRAIN_PARAMETERS (BB_TRAIN_HIDDEN * (BB_TRAIN_INPUTS + 2) + 1)
/* The loss follows the parameters; its sum of squares follows their gradients. */
#define BB_TRAIN_ELEMENTS (BB_TRAIN_PARAMETERS + 1)
#define BB_TRAIN_MOST_SAMPLES 4096

/* Initial parameters, the same on all ranks, and a loss of 0: values[BB_TRAIN_ELEMENTS]. */
void bb_train_begin(double *values, uint64_t seed);

/* gradient[BB_TRAIN_ELEMENTS] += the gradient at VALUES of COUNT samples from FIRST, of the data of
   SEED. */
void bb_train_add(const double *values, uint64_t seed, size_t first, size_t count,
		  double *gradient);

/* A step of gradient descent for COUNT elements of VALUES from FIRST, by their gradient SUM over
   SAMPLES, where sum[0] belongs to element FIRST. The loss, if among them, is that before the step.
 */
void bb_train_update(double *values, size_t first, size_t count, const double *sum, double samples);

/* VALUE on the grid of parameters. */
double bb_train_round(double value);

#endif
