/*
 * train.h - a small model that is trained for real: two layers with a ReLU between, least squares.
 * Sums of its gradients are exact in double precision, so that they are the same in any order and
 * however the samples are shared out; they are divided by the number of samples once they are
 * complete, and updated parameters are rounded to a grid.
 *
 * Why sums are exact: parameters are multiples of 1/64 from -2 to 2, inputs -1, 0 or 1, targets
 * multiples of 1/64. Outputs are then multiples of 2^-12 below 2^8, squares of errors multiples of
 * 2^-24 below 2^16, so that 4096 of them need 52 bits; all parts of gradients need fewer.
 */
#ifndef BB_TRAINING_KERNELS_TRAIN_H
#define BB_TRAINING_KERNELS_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#define BB_TRAIN_INPUTS 6
#define BB_TRAIN_HIDDEN 8
#define BB_TRAIN_PARAMETERS (BB_TRAIN_HIDDEN * (BB_TRAIN_INPUTS + 2) + 1)
/* Behind the parameters the loss, behind their gradients the sum of squares that it is made of. */
#define BB_TRAIN_ELEMENTS (BB_TRAIN_PARAMETERS + 1)
#define BB_TRAIN_MOST_SAMPLES 4096

/* The same on all ranks; values[BB_TRAIN_ELEMENTS], a loss of 0. */
void bb_train_begin(double *values, uint64_t seed);

/* gradient[BB_TRAIN_ELEMENTS] += that of samples FIRST … FIRST+COUNT-1 of the data that SEED makes,
   at VALUES. */
void bb_train_add(const double *values, uint64_t seed, size_t first, size_t count,
		  double *gradient);

/* Elements FIRST … FIRST+COUNT-1 of VALUES by their sum over SAMPLES, where sum[0] is that of
   element FIRST: a step of gradient descent; the loss before it, if it is among them. */
void bb_train_update(double *values, size_t first, size_t count, const double *sum, double samples);

/* VALUE on the grid of parameters. */
double bb_train_round(double value);

#endif
