#include "training_kernels/train.h"

#include "core/random.h"

#include <math.h>

#define GRID 64.0
#define LIMIT 2.0
#define RATE 0.5 /* of learning: a power of two, so products are exact */

/* Offsets among the parameters. */
enum {
	WEIGHTS1 = 0, /* [hidden][input] */
	BIASES1 = BB_TRAIN_HIDDEN * BB_TRAIN_INPUTS,
	WEIGHTS2 = BIASES1 + BB_TRAIN_HIDDEN,
	BIAS2 = WEIGHTS2 + BB_TRAIN_HIDDEN,
	LOSS
};
_Static_assert(LOSS == BB_TRAIN_PARAMETERS, "the loss comes behind the parameters");

/* Number I of splitmix64 with SEED. */
static uint64_t train_draw(uint64_t seed, uint64_t i)
{
	return bb_random_mix(seed + (i + 1) * BB_RANDOM_STEP);
}

double bb_train_round(double value)
{
	return fmin(LIMIT, fmax(-LIMIT, nearbyint(value * GRID) / GRID));
}

void bb_train_begin(double *values, uint64_t seed)
{
	for (int i = 0; i < LOSS; i++)
		values[i] = ((double)(train_draw(~seed, (uint64_t)i) % 65) - 32) / GRID;
	values[LOSS] = 0;
}

/* The inputs of a sample; returns its target, which follows from them. */
static double train_sample(uint64_t seed, size_t number, double input[BB_TRAIN_INPUTS])
{
	for (int i = 0; i < BB_TRAIN_INPUTS; i++)
		input[i] =
			(double)(train_draw(seed, number * BB_TRAIN_INPUTS + (uint64_t)i) % 3) - 1;
	return input[0] * input[1] + 0.5 * input[2] - 0.25 * input[3];
}

static double train_forward(const double *values, const double *input,
			    double hidden[BB_TRAIN_HIDDEN])
{
	double output = values[BIAS2];

	for (int h = 0; h < BB_TRAIN_HIDDEN; h++) {
		double sum = values[BIASES1 + h];

		for (int i = 0; i < BB_TRAIN_INPUTS; i++)
			sum += values[WEIGHTS1 + h * BB_TRAIN_INPUTS + i] * input[i];
		hidden[h] = sum > 0 ? sum : 0;
		output += values[WEIGHTS2 + h] * hidden[h];
	}
	return output;
}

/* The objective is half the square of the error, whose derivative is the error. */
static void train_backward(const double *values, const double *input, const double *hidden,
			   double error, double *gradient)
{
	gradient[LOSS] += error * error;
	gradient[BIAS2] += error;
	for (int h = 0; h < BB_TRAIN_HIDDEN; h++) {
		const double through = hidden[h] > 0 ? error * values[WEIGHTS2 + h] : 0;

		gradient[WEIGHTS2 + h] += error * hidden[h];
		gradient[BIASES1 + h] += through;
		for (int i = 0; i < BB_TRAIN_INPUTS; i++)
			gradient[WEIGHTS1 + h * BB_TRAIN_INPUTS + i] += through * input[i];
	}
}

void bb_train_add(const double *values, uint64_t seed, size_t first, size_t count, double *gradient)
{
	for (size_t k = first; k < first + count; k++) {
		double input[BB_TRAIN_INPUTS], hidden[BB_TRAIN_HIDDEN];
		const double target = train_sample(seed, k, input);
		const double error = train_forward(values, input, hidden) - target;

		train_backward(values, input, hidden, error, gradient);
	}
}

void bb_train_update(double *values, size_t first, size_t count, const double *sum, double samples)
{
	for (size_t i = 0; i < count; i++) {
		const double mean = sum[i] / samples;

		if (first + i < LOSS)
			values[first + i] = bb_train_round(values[first + i] - RATE * mean);
		else if (first + i == LOSS)
			values[first + i] = mean;
	}
}
