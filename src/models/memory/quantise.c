/*
 * quantise.c - integers and a scale.
 */
#include "models/memory/quantise.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_quantise_words[] = {"minmax", "scale", NULL};

static int largest_code(const struct bb_quantised *q)
{
	return (1 << (q->bits - 1)) - 1;
}

static void store(struct bb_quantised *q, size_t i, int code)
{
	if (q->bits == 8)
		q->codes[i] = (unsigned char)code;
	else
		q->codes[i / 2] |= (unsigned char)((code & 15) << (i % 2 * 4));
}

int bb_quantised_code(const struct bb_quantised *q, size_t i)
{
	int code;

	if (q->bits == 8)
		return (signed char)q->codes[i];
	code = q->codes[i / 2] >> (i % 2 * 4) & 15;
	return code > 7 ? code - 16 : code;
}

float bb_quantised_number(const struct bb_quantised *q, size_t i)
{
	return q->zero + (float)bb_quantised_code(q, i) * q->scale;
}

static void choose_scale(struct bb_quantised *q, const float *x, enum bb_quantise_method method)
{
	const float codes = (float)largest_code(q);
	float least = x[0], most = x[0];

	for (size_t i = 1; i < q->n; i++) {
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	if (method == BB_BY_SCALE) {
		q->scale = fmaxf(fabsf(least), fabsf(most)) / codes;
		return;
	}
	q->scale = (most - least) / (2 * codes);
	q->zero = least + codes * q->scale;
}

bb_status bb_quantise(struct bb_quantised *q, const float *x, size_t n, unsigned bits,
		      enum bb_quantise_method method, struct bb_error *error)
{
	*q = (struct bb_quantised){.bits = bits, .n = n};
	q->bytes = (n * bits + 7) / 8;
	q->codes = calloc(q->bytes, 1);
	if (!q->codes)
		return bb_no_memory(error, "codes");
	q->bytes += method == BB_BY_MINMAX ? 2 * sizeof(float) : sizeof(float);
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return bb_fail(error, BB_EUSAGE, "number %zu is not finite", i);
	choose_scale(q, x, method);
	if (!isfinite(q->scale) || !isfinite(q->zero))
		return bb_fail(error, BB_EUSAGE, "the range of the numbers exceeds fp32");
	for (size_t i = 0; i < n && q->scale > 0; i++) {
		const float code = rintf((x[i] - q->zero) / q->scale);
		const float most = (float)largest_code(q); /* a rounded scale can lead beyond */

		store(q, i, (int)fmaxf(-most, fminf(most, code)));
	}
	return BB_OK;
}

void bb_quantised_free(struct bb_quantised *q)
{
	free(q->codes);
	*q = (struct bb_quantised){.codes = NULL};
}

struct bb_quantise_loss bb_quantise_loss(const struct bb_quantised *q, const float *x)
{
	struct bb_quantise_loss loss = {0, 0};

	for (size_t i = 0; i < q->n; i++) {
		const double off = fabs((double)bb_quantised_number(q, i) - (double)x[i]);

		loss.most = fmax(loss.most, off);
		loss.rms += off * off;
	}
	loss.rms = sqrt(loss.rms / (double)q->n);
	return loss;
}
