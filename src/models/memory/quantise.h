/*
 * quantise.h - a tensor in integers of 8 or 4 bits with one scale, and back.
 *
 * Codes go from -M to M, M = 127 or 7:
 *   min/max   linear: the smallest number becomes -M, the largest M
 *   scale     code = round(x / scale), scale = largest magnitude / M; 0 stays 0
 * Halves round to even, as in torch.round.
 */
#ifndef BB_MODELS_MEMORY_QUANTISE_H
#define BB_MODELS_MEMORY_QUANTISE_H

#include "core/status.h"

#include <stddef.h>
#include <stdint.h>

enum bb_quantise_method { BB_BY_MINMAX, BB_BY_SCALE };
extern const char *const bb_quantise_words[];

struct bb_quantised {
	unsigned bits; /* 8 or 4 */
	size_t n;
	float scale; /* between neighbouring codes; 0: all numbers are equal (scale: all are 0) */
	float zero;  /* number that code 0 stands for */
	unsigned char *codes; /* of 4 bits: two in a byte, the first one low; owned */
	uint64_t bytes;       /* of codes, scale and, by min/max, zero */
};

/*
 * Quantise N (at least 1) numbers of X. BB_EUSAGE if a number or the range of all is not finite;
 * BB_EINTERNAL without memory. The caller frees Q whatever is returned.
 */
BB_MUST bb_status bb_quantise(struct bb_quantised *q, const float *x, size_t n, unsigned bits,
			      enum bb_quantise_method method, struct bb_error *error);
void bb_quantised_free(struct bb_quantised *q);

int bb_quantised_code(const struct bb_quantised *q, size_t i);
float bb_quantised_number(const struct bb_quantised *q, size_t i); /* decoded */

/* Maximum and root mean square of the differences between decoded numbers and X. */
struct bb_quantise_loss {
	double most, rms;
};
struct bb_quantise_loss bb_quantise_loss(const struct bb_quantised *q, const float *x);

#endif
