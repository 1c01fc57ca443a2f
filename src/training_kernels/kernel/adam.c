#include "training_kernels/kernel/adam.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* A half's exponent is 112 less than a float's. The product adds 112, also for subnormal
   numbers. */
static float from_half(uint16_t code)
{
	const uint32_t sign = (uint32_t)(code & 0x8000) << 16, magnitude = code & 0x7fff;

	if (magnitude >= 0x7c00)
		return float_of(sign | 0x7f800000 | magnitude << 13);
	return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

/* A subnormal result is rounded by adding a number whose last place is that of the result. */
static uint16_t to_half(float value)
{
	const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
	const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

	if (magnitude > 0x7f800000)
		return sign | 0x7e00;
	if (magnitude >= 0x477ff000) /* 65520 rounds to infinity */
		return sign | 0x7c00;
	if (magnitude < 0x38800000) /* subnormal: a multiple of 2^-24 */
		return sign | (uint16_t)(bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
	return sign | (uint16_t)((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

static uint16_t to_bfloat16(float value)
{
	const uint32_t bits = bits_of(value);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void bb_adam_widen(enum bb_dtype dtype, const void *from, float *to, size_t n)
{
	const uint16_t *codes = from;

	if (dtype == BB_FLOAT)
		memcpy(to, from, n * sizeof(*to));
	else if (dtype == BB_HALF)
		for (size_t i = 0; i < n; i++)
			to[i] = from_half(codes[i]);
	else
		for (size_t i = 0; i < n; i++)
			to[i] = float_of((uint32_t)codes[i] << 16);
}

void bb_adam_narrow(enum bb_dtype dtype, const float *from, void *to, size_t n)
{
	uint16_t *codes = to;

	if (dtype == BB_FLOAT)
		memcpy(to, from, n * sizeof(*from));
	else if (dtype == BB_HALF)
		for (size_t i = 0; i < n; i++)
			codes[i] = to_half(from[i]);
	else
		for (size_t i = 0; i < n; i++)
			codes[i] = to_bfloat16(from[i]);
}

bool bb_adam_overflowed(enum bb_dtype dtype, const void *values, size_t n)
{
	const uint16_t exponent = dtype == BB_HALF ? 0x7c00 : 0x7f80;
	const uint16_t *codes = values;
	bool found = false;

	if (dtype == BB_FLOAT)
		for (size_t i = 0; i < n; i++)
			found |= !isfinite(((const float *)values)[i]);
	else
		for (size_t i = 0; i < n; i++)
			found |= (codes[i] & exponent) == exponent;
	return found;
}

void bb_adam_step_by(float learning, uint64_t t, float unscale, const float *gradient,
		     float *parameter, float *moment1, float *moment2, size_t n)
{
	const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
	const float rate = (float)(learning / (1 - pow(beta1, (double)t)));
	const float correct = (float)(1 / (1 - pow(beta2, (double)t)));

	for (size_t i = 0; i < n; i++) {
		const float g = gradient[i] * unscale;

		moment1[i] = beta1 * moment1[i] + (1 - beta1) * g;
		moment2[i] = beta2 * moment2[i] + (1 - beta2) * (g * g);
		parameter[i] -= rate * moment1[i] / (sqrtf(moment2[i] * correct) + epsilon);
	}
}
